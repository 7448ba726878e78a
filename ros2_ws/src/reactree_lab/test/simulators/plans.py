"""The examples of a world's prompts, carried out again by what is said in them."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from doubles import ScriptedModel
from recode_doubles import Coder, Writes, function_of, lesson_of, own_text

from reactree_lab.planners.hiagent.planner import told_as_subgoals
from reactree_lab.planners.recode.planner import CodeNode
from reactree_ros.agent.prompt import prompt
from reactree_ros.agent.turns import node_text, render
from reactree_ros.episode import Episode, EpisodeResult
from reactree_ros.llm.port import LanguageModel
from reactree_ros.planners.spec import planner
from reactree_ros.record.export import experiences_of
from reactree_ros.record.moment import Moment
from reactree_ros.record.writer import Recorder
from reactree_ros.world.port import World

#: Planners whose prompts are the agent nodes' own text alone.
BARE = "system_text=false:fixed_example=false"
_DECISION = re.compile(r"^(?:Think: .*|Act: .*|Expand:\n.*\n.*)$", re.MULTILINE)
_CODE = re.compile(
    r"(?:<(thought|think)>.*?</\1>\n)?<execute>.*?</execute>|<solution>.*?</solution>",
    re.DOTALL,
)
_ACTION = re.compile(r"^(?:\d+ Subgoal: .*\n)?Action: .*$", re.MULTILINE)


def said_in(text: str) -> dict[str, list[str]]:
    """What is said in an example of ReAct or ReAcTree, by the task of each agent node."""
    nodes = re.split(r"\n\n(?=Your (?:primary goal|task) is to: )", text)
    goals = [re.search(r"^Your task is to: (.*)$", node, re.MULTILINE) for node in nodes]
    return {goal[1]: _DECISION.findall(node) for goal, node in zip(goals, nodes, strict=True) if goal}


def path_in(prompts: str) -> list[str]:
    """The skills of the example of ReAct."""
    (said,) = said_in(prompt(prompts, "react.txt")).values()
    return [one.removeprefix("Act: ") for one in said[:-1] if one.startswith("Act: ")]


def carried_out(world: World, instruction: str, said: Sequence[str]) -> tuple[EpisodeResult, str]:
    """Have ReAct carry out what is said; returns its text, too."""
    with world:
        model = ScriptedModel({instruction: list(said)})
        episode = Episode(instruction, world=world, model=model, planner=planner(f"react:{BARE}"))
        result = episode.run()
    return result, node_text(episode.root.turns)


def example_of(file: str, world: World, instruction: str) -> tuple[EpisodeResult, str]:
    """Have what is said in a file of prompts, such as ``reactree`` or ``recode_examples``, carried out by its planner.

    Returns:
        The result, and what the file would tell of it.
    """
    name, text = file.partition("_")[0], prompt(world.household.prompts, f"{file}.txt")
    moment = Moment()
    model = _model_for(name, text, instruction)
    with world:
        who = planner(f"{name}:{BARE}")
        episode = Episode(instruction, world=world, model=model, planner=who, record=Recorder(moment.apply))
        result = episode.run()
    nodes = episode.context.nodes
    if name == "hiagent":
        (experience,) = experiences_of(moment)
        return result, render(told_as_subgoals(experience))
    if name == "recode":
        once: dict[str, str] = {}
        for lesson in (lesson_of(node) for node in nodes if isinstance(node, CodeNode)):
            once.setdefault(function_of(lesson), lesson)
        return result, "\n\n".join(once.values())
    if name in ("codeact", "adaplanner"):
        return result, own_text(episode)
    return result, "\n\n".join(node_text(node.turns).rstrip("\n") for node in nodes)


def _model_for(name: str, text: str, instruction: str) -> LanguageModel:
    if name in ("react", "reactree"):
        return ScriptedModel(said_in(text))
    if name == "hiagent":
        summaries = prompt("reactree_ros.agent:prompts", "summary.txt").partition("\n")[0]
        subgoals = re.findall(r"^\d+ Subgoal: (.*)$", text, re.MULTILINE)
        said = {instruction: _ACTION.findall(text), summaries: [f"{one}. Subgoal is met." for one in subgoals]}
        return ScriptedModel(said)
    pytest.importorskip("pydantic_monty")
    if name == "recode":
        return Coder({function_of(one): _code_in(one)[0] for one in re.split(r"\n\n(?=Function: )", text)})
    first, *others = _code_in(text)
    return Writes([first, *re.findall(r"^- answer \(str\): (.*)$", text, re.MULTILINE)[:1], *others])


def _code_in(text: str) -> list[str]:
    return [match[0] for match in _CODE.finditer(text)]
