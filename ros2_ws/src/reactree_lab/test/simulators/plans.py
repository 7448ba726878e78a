"""A model that decides by a plan, whose parts are the subgoals of a planner that has such."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from doubles import ScriptedModel
from recode_doubles import Writes, function_of, lesson_of, own_text

from reactree_lab.planners.hiagent.examples import told_as_subgoals
from reactree_lab.planners.recode.planner import CodeNode
from reactree_ros.agent.prompt_files import prompt
from reactree_ros.agent.turns import render
from reactree_ros.episode import Episode, EpisodeResult
from reactree_ros.planners.spec import planner
from reactree_ros.record.export import experiences_of
from reactree_ros.record.moment import Moment
from reactree_ros.record.writer import Recorder
from reactree_ros.world.port import World

#: Planners whose prompts are the agent nodes' own text alone.
BARE = "system_text=false:fixed_example=false"
#: What is said for each subgoal, in order: ``Act: …``, and thoughts where there are any.
Parts = Mapping[str, Sequence[str]]


def script_of(instruction: str, parts: Parts, *, expands: bool) -> dict[str, list[str]]:
    """What a model says that follows a plan: all of it, or a part in each of the subgoals of an expansion."""
    if not expands:
        return {instruction: [*(said for part in parts.values() for said in part), "Act: done"]}
    expansion = f"Expand:\n- control flow: sequence\n- subgoals: {', '.join(parts)}"
    return {instruction: [expansion], **{goal: [*said, "Act: done"] for goal, said in parts.items()}}


def carried_out(world: World, instruction: str, parts: Parts, *, expands: bool) -> tuple[EpisodeResult, str]:
    """Have a plan carried out by ReAct, or by ReAcTree with a subgoal a part; returns the text of every node, too."""
    model = ScriptedModel(script_of(instruction, parts, expands=expands))
    with world:
        name = f"{'reactree' if expands else 'react'}:{BARE}"
        result = Episode(instruction, world=world, model=model, planner=planner(name)).run()
    last = script_of(instruction, parts, expands=expands)
    nodes: dict[str, str] = {}
    for request in model.requests:
        text = request.prompt.partition("Target_domain:\n")[2]
        goal = text.rpartition("Your task is to: ")[2].partition("\n")[0]
        nodes[goal] = f"{text}{last[goal][-1]}"
    return result, "\n\n".join(nodes.values()) + "\n"


def carried_out_by_hiagent(world: World, instruction: str, parts: Parts) -> tuple[EpisodeResult, str]:
    """Have a plan carried out by HiAgent, a part in each subgoal; returns what its example would tell, too."""
    said = []
    for number, (subgoal, decisions) in enumerate(parts.items(), 1):
        first, *others = (f"Action: {one.removeprefix('Act: ')}" for one in decisions if one.startswith("Act: "))
        said += [f"{number} Subgoal: {subgoal}\n{first}", *others]
    summaries = prompt("reactree_ros.agent:prompts", "summary.txt").partition("\n")[0]
    model = ScriptedModel(
        {instruction: [*said, "Action: done"], summaries: [f"{part}. Subgoal is met." for part in parts]}
    )
    moment = Moment()
    with world:
        name, record = planner(f"hiagent:{BARE}"), Recorder(moment.apply)
        result = Episode(instruction, world=world, model=model, planner=name, record=record).run()
    (experience,) = experiences_of(moment)
    return result, f"{render(told_as_subgoals(experience))}\n"


def carried_out_in_code(world: World, instruction: str, name: str, texts: Sequence[str]) -> tuple[EpisodeResult, str]:
    """Have a planner that writes code carry out what is said one after the other; returns what its example would tell,
    of each function of ReCode's once.
    """
    pytest.importorskip("pydantic_monty")
    model = Writes(texts)
    with world:
        episode = Episode(instruction, world=world, model=model, planner=planner(f"{name}:{BARE}"))
        result = episode.run()
    assert len(model.prompts) == len(texts)
    if name != "recode":
        return result, f"{own_text(episode)}\n"
    once: dict[str, str] = {}
    for node in episode.context.nodes:
        assert isinstance(node, CodeNode)
        lesson = lesson_of(node)
        once.setdefault(function_of(lesson), lesson)
    return result, "\n\n".join(once.values()) + "\n"


def example_of(
    file: str, world: World, instruction: str, parts: Parts, code: Mapping[str, Sequence[str]] | None = None
) -> tuple[EpisodeResult, str]:
    """Have the example of a file of prompts carried out by the planner that has it; returns what the file would tell.

    Args:
        file: Its name without the ending, e.g. ``reactree`` or ``recode_examples``.
        world: Where the example is at home.
        instruction: What is asked for in it.
        parts: How it is done.
        code: What planners that write code say, by their names.
    """
    name = file.partition("_")[0]
    if code and name in code:
        return carried_out_in_code(world, instruction, name, code[name])
    if name == "hiagent":
        return carried_out_by_hiagent(world, instruction, parts)
    return carried_out(world, instruction, parts, expands=name == "reactree")
