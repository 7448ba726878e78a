"""ZSP: a plan is generated line by line, mapped to steps that make sense, and carried out."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from chatting import Chatting, Say, cut, saying
from doubles import Builds, Heard
from numpy.typing import NDArray
from solving import solution

from reactree_lab.household.generator import generate_house
from reactree_lab.planners.plan import skill_for, steps_of, tidied
from reactree_lab.planners.zsp import Mapping, ZspNode
from reactree_ros.agent.turns import Said
from reactree_ros.background.pending import Pending
from reactree_ros.episode import Episode, EpisodeResult
from reactree_ros.household.symbolic import SymbolicWorld
from reactree_ros.household.tasks import parse_tasks
from reactree_ros.llm.engine import Generation
from reactree_ros.llm.port import DecisionRequest, FreeText, LanguageModel, Reply
from reactree_ros.tree.listener import Listener
from reactree_ros.tree.options import TreeOptions
from reactree_ros.world.port import Observation, Seen

HOUSE = generate_house(seed=11, tasks=5)
START = SymbolicWorld(parse_tasks(HOUSE)[0])
#: What cannot be tried at the start: no such thing is to be seen.
AWAY = next(
    step
    for step in steps_of(START.survey().take())
    if step.startswith("pick up ") and not any(s.startswith(f"{step} ") for s in START.available_skills().take())
)


class WordEmbedder:
    """One dimension per word of a small vocabulary, learnt as it is met: texts with common words are near."""

    name, dimension = "words", 512

    def __init__(self) -> None:
        self._words: dict[str, int] = {}

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        rows = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            for word in text.split():
                row[self._words.setdefault(word, len(self._words))] = 1
        return rows / np.sqrt(rows.sum(axis=1, keepdims=True))


class Lines(LanguageModel):
    """Says a plan line by line."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = list(lines)
        self.requests: list[DecisionRequest] = []

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        self.requests.append(request)
        return Pending.ready(Reply(self.lines.pop(0)))


def episode_of(
    model: LanguageModel,
    *,
    task: int = 0,
    max_plan: int = 50,
    options: TreeOptions | None = None,
    listener: Listener | None = None,
) -> Episode:
    one = parse_tasks(HOUSE)[task]
    return Episode(
        one.instruction,
        model=model,
        world=SymbolicWorld(one),
        planner=Builds(lambda goal, shared: ZspNode(goal, shared, max_plan=max_plan, embedder=WordEmbedder())),
        options=options,
        listener=listener,
    )


def planned(
    lines: Sequence[str], *, task: int = 0, max_plan: int = 50, options: TreeOptions | None = None
) -> tuple[EpisodeResult, Episode, Lines]:
    """An episode in which the model says these lines."""
    model = Lines(lines)
    episode = episode_of(model, task=task, max_plan=max_plan, options=options)
    return episode.run(), episode, model


@pytest.mark.parametrize("task", range(len(HOUSE)))
def test_the_plan_of_one_who_knows_the_house_reaches_the_goal(task: int) -> None:
    plan = [tidied(skill) for skill in solution(HOUSE[task])]
    result, episode, model = planned([*plan, "done"], task=task)
    assert (result.end, result.gsr) == ("done", 1.0), episode.root.text
    assert (result.decisions, result.steps) == (len(plan) + 1, len(plan))
    assert all(request.may_say == FreeText(("\n",)) for request in model.requests)


def test_the_prompt_is_the_papers_and_grows_by_the_mapped_step() -> None:
    _, episode, model = planned(["Step 1: Go to the kitchen 1.", "done"])
    first, second = (request.prompt for request in model.requests)
    survey = SymbolicWorld(parse_tasks(HOUSE)[0]).survey().take().text
    assert first.startswith("You are an advanced robot with ability to generate action plans. ")
    assert first.endswith(f"\nTarget_domain:\n{survey}\nYour task is to: {episode.root.subgoal}\n")
    assert second == f"{first}go to kitchen 1\n"


def test_a_line_is_mapped_to_the_nearest_step() -> None:
    mapping = Mapping(["go to kitchen 1", "go to kitchen table 1", "pick up apple", "done"], WordEmbedder())
    assert mapping.nearest("walk to kitchen table 1") == "go to kitchen table 1"
    assert mapping.nearest("2. Pick up the red apple 3.") == "pick up apple"


@pytest.mark.parametrize(
    ("line", "step"),
    [
        ("2) **Pick up** the apple (3).", "pick up apple"),
        ("- [ ] Step 4: `open fridge 1`", "open fridge 1"),
        ("### 1. 'Go to the Kitchen #1'", "go to kitchen 1"),
        ("go to kitchen 1 – to find the apple", "go to kitchen 1"),
        ("Done!", "done"),
        ("1.", ""),
        ("---", ""),
    ],
)
def test_what_dresses_a_step_is_no_part_of_it(line: str, step: str) -> None:
    assert tidied(line) == step


@pytest.mark.parametrize("remark", ["(not needed)", "- or go to bathroom 1", "(if it isn't here)", "– skip this"])
def test_a_remark_that_takes_a_step_back_stays_with_it(remark: str) -> None:
    assert tidied(f"go to kitchen 1 {remark}") != "go to kitchen 1"


def test_the_steps_that_make_sense_name_what_can_be_opened_and_switched() -> None:
    survey = Observation(
        "", rooms=("kitchen 1",), seen=(Seen("fridge", 1, "kitchen 1", states=("CLOSED", "OFF")), Seen("pie", 2, None))
    )
    assert steps_of(survey) == [
        "go to kitchen 1",
        "go to fridge 1",
        "go to pie 2",
        *("pick up fridge", "put down fridge", "pick up pie", "put down pie"),
        *("open fridge 1", "close fridge 1", "turn on fridge 1"),
        "done",
    ]


def test_what_is_carried_is_the_instance_that_is_near_or_held() -> None:
    skills = ("pick up pie 1", "pick up pie 2", "put down pie 1", "put down pie 2", "pick up pie dish 1")
    near = Observation("", seen=(Seen("pie", 2, None), Seen("pie", 1, None, held=True)))
    assert skill_for("pick up pie", skills, near) == "pick up pie 2"
    assert skill_for("put down pie", skills, near) == "put down pie 1"
    assert skill_for("pick up pie", skills, Observation("")) == "pick up pie 1"
    assert skill_for("pick up cake", skills, near) is None


def test_a_step_that_is_not_executable_is_passed_over_and_the_run_has_failed() -> None:
    result, episode, _ = planned([AWAY, "go to kitchen 1", "done"])
    node = episode.root
    assert (result.status, node.feedback_message) == ("failure", "1 of 3 steps were not executable")
    assert (result.decisions, result.steps) == (3, 1)
    assert f"\n{AWAY}: '{AWAY}' is not executable now." in node.text
    assert "\ngo to kitchen 1: You move to the kitchen (1)." in node.text


def test_a_plan_without_end_is_cut_and_carried_out() -> None:
    result, episode, _ = planned(["go to kitchen 1"] * 9, max_plan=3)
    assert (result.decisions, result.steps) == (3, 3)
    assert episode.root.text.count("go to kitchen 1: ") == 3


def test_the_plan_is_what_is_kept_for_others() -> None:
    plan = [*map(tidied, solution(HOUSE[0])), "done"]
    _, episode, _ = planned(plan)
    (kept,) = episode.experiences()
    assert kept.subgoal == episode.root.subgoal
    assert kept.text.endswith(f"Your task is to: {kept.subgoal}\n" + "\n".join(plan))


GOOD = [*map(tidied, solution(HOUSE[0])), "done"]

HABITS: dict[str, Callable[[str], str]] = {
    "blank lines first": lambda plan: f"\n\n{plan}",
    "windows line ends": lambda plan: plan.replace("\n", "\r\n"),
    "numbers": lambda plan: "\n".join(f"{number}. {step}" for number, step in enumerate(plan.split("\n"), 1)),
    "kind words": lambda plan: "\n".join(f"Step {number}: {step}" for number, step in enumerate(plan.split("\n"), 1)),
    "bold list": lambda plan: re.sub(r"^(.*)$", r"- **\1**", plan, flags=re.MULTILINE),
    "capitals and full stops": lambda plan: re.sub(
        r"^(.*)$", lambda line: f"{line[1].capitalize()}.", plan, flags=re.M
    ),
    "articles and brackets": lambda plan: re.sub(
        r"^(go to|open|close) (.*?) (\d+)$", r"\1 the \2 (\3)", plan, flags=re.M
    ),
    "quotes": lambda plan: re.sub(r"^(.*)$", r'"\1"', plan, flags=re.MULTILINE),
    "a preamble": lambda plan: f"Here is the plan:\n\n{plan}",
    "a heading": lambda plan: f"### Plan\n{plan}",
    "a fence": lambda plan: f"```text\n{plan}\n```",
    "thinking": lambda plan: f"<think>\n1. go to bathroom 1\n</think>\n\n{plan}",
    "a remark after each step": lambda plan: re.sub(r"^(.*)$", r"\1 (as is needed)", plan, flags=re.MULTILINE),
}


def line_by_line(text: str) -> Say:
    """Go on with a text where the prompt's plan ends: a chat whose reply so far stands in its prompt."""

    def say(generation: Generation) -> str:
        said = sum(isinstance(turn, Said) and bool(turn.text) for turn in generation.turns)
        return "\n".join([line for line in text.splitlines() if line.strip()][said:])

    return say


@pytest.mark.slow
@pytest.mark.parametrize("habit", HABITS)
def test_a_plan_is_read_however_it_is_dressed(habit: str) -> None:
    text = HABITS[habit]("\n".join(GOOD))
    thinks = text.startswith("<think>")
    plan = text.rpartition("</think>")[2] if thinks else text
    said = line_by_line(plan)
    model = Chatting(
        lambda generation: (
            f"{text.partition('</think>')[0]}</think>\n\n{said(generation)}" if thinks else said(generation)
        )
    )
    run = episode_of(model)
    result = run.run()
    assert (result.end, result.gsr) == ("done", 1.0), run.root.text
    assert run.root.lesson is not None
    assert [turn.text for turn in run.root.lesson if isinstance(turn, Said)] == GOOD


def test_what_introduces_a_plan_is_a_thought_and_no_step() -> None:
    listener = Heard()
    model = Chatting(saying("Sure! Here is the plan:", "```", "1. go to kitchen 1", "done"))
    result = episode_of(model, listener=listener).run()
    assert (result.decisions, result.steps) == (4, 1)
    assert listener.heard[:3] == [
        "Think: Sure! Here is the plan:",
        "Think: ```",
        "Think: 1. go to kitchen 1 → go to kitchen 1",
    ]
    assert model.requests[-1].prompt.endswith("\nSure! Here is the plan:\n```\ngo to kitchen 1\n")


@pytest.mark.parametrize("silence", ["", "\n\n", "<think>What would I do?</think>"])
def test_saying_nothing_is_no_success(silence: str) -> None:
    model = Chatting(saying(silence))
    run = episode_of(model)
    result = run.run()
    assert (result.end, result.steps) == ("failure", 0)
    assert run.root.feedback_message == "no step of a plan was said, also when asked for again"
    first, second = (request.prompt for request in model.requests)
    assert second == f"{first}\nNothing was said. Say the next step of the plan, or done.\n"


def test_saying_nothing_more_ends_a_plan_that_has_steps() -> None:
    result = episode_of(Chatting(saying("go to kitchen 1", ""))).run()
    assert (result.status, result.decisions, result.steps) == ("success", 2, 1)


def test_a_step_that_was_cut_is_asked_for_again_with_more_room() -> None:
    listener = Heard()
    model = Chatting(saying(cut("go to kitchen 1 because the"), "go to kitchen 1", "done"))
    result = episode_of(model, listener=listener).run()
    assert (result.end, result.steps) == ("done", 1)
    assert listener.heard[0] == "go to kitchen 1 because the ✗ This line was cut. Say one step in a few words."
    first, second, _ = (request.max_tokens for request in model.requests)
    assert first < second == TreeOptions().max_tokens


def test_a_step_that_is_cut_twice_ends_the_plan_and_nothing_of_it_is_carried_out() -> None:
    run = episode_of(Chatting(saying("go to kitchen 1", cut("go to fri"))))
    result = run.run()
    assert (result.end, result.steps) == ("failure", 0)
    assert run.root.feedback_message == "step 2 of the plan was cut twice: 'go to fri'; raise max_tokens"


def test_a_world_that_is_too_long_for_the_context_ends_the_run_once_the_examples_are_gone() -> None:
    listener = Heard()
    result = episode_of(Chatting(saying("done"), room=20), listener=listener).run()
    assert (result.end, result.decisions) == ("context_full", 0)
    assert listener.heard == ["1 examples dropped"]
