"""Models that obey no constraint, in all their habits of speech, reach over HTTP what the plain phrasing reaches."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from clients import clients
from habits import AS_ASKED, HABITS, Habit, Plain
from llm.asked import decide
from openai_peer import Peer, says

from reactree_lab.household.generator import generate_house
from reactree_ros.agent.grammar import DecisionGrammar
from reactree_ros.agent.reading import Unreadable, read
from reactree_ros.episode import Episode, EpisodeResult
from reactree_ros.household.houses import HOUSES
from reactree_ros.household.symbolic import SymbolicWorld
from reactree_ros.household.tasks import Task, load_tasks, parse_tasks
from reactree_ros.llm.port import LanguageModel
from reactree_ros.planners.spec import planner

TASKS: tuple[tuple[Task, str], ...] = (
    (load_tasks(HOUSES["apartment"])[0], "reactree_wm"),
    (load_tasks(HOUSES["villa"])[0], "react_wm"),
    (parse_tasks(generate_house(seed=4, rooms=4, tasks=2))[1], "reactree_wm"),
)
#: How many times the requests of the plain phrasing a habit may take.
MOST = 1.3


@dataclass(frozen=True)
class Run:
    """What came of a task, and how many requests it took."""

    result: EpisodeResult
    requests: int

    @property
    def reached(self) -> tuple[str, float | None]:
        return self.result.end, self.result.gsr


class Speaker:
    """A server whose model decides as the expert does, says so in its habits, and obeys no constraint."""

    def __init__(self, peer: Peer, model: LanguageModel) -> None:
        self.peer, self._model = peer, model

    def run(self, say: Callable[[str], str], task: Task, planned_by: str, *first: str) -> Run:
        """Carry a task out; ``first``: what is said to the first requests, up to the token limit."""
        self.peer.say = say
        self.peer.script.extend(says(text, finish="length") for text in first)
        before = len(self.peer.asked)
        world, by = SymbolicWorld(task), planner(planned_by)
        result = Episode(task.instruction, world=world, model=self._model, planner=by).run()
        return Run(result, len(self.peer.asked) - before)

    def run_all(self, say: Callable[[str], str], *first: str) -> list[Run]:
        return [self.run(say, task, planned_by, *first) for task, planned_by in TASKS]


@pytest.fixture(scope="module")
def speaker() -> Iterator[Speaker]:
    with (
        Peer(owned_by="somebody", obeys=(), chats=True, context=None) as peer,
        clients(chat=True, method="unconstrained", dialect="openai") as make,
    ):
        yield Speaker(peer, make(peer))


@pytest.fixture(scope="module")
def plainly(speaker: Speaker) -> list[Run]:
    return speaker.run_all(decide)


def dressed(dress: Habit) -> Callable[[str], str]:
    """Return what the expert says of a prompt, dressed."""

    def say(prompt: str) -> str:
        prompt = prompt.replace(AS_ASKED, "")
        text = decide(prompt)
        after = decide(f"{prompt}\n{text}\nOK.") if text.startswith("Think: ") else ""
        return dress(Plain(text, "" if after.startswith("Think: ") else after))

    return say


def check(name: str, runs: list[Run], plainly: list[Run]) -> None:
    """Compare runs with those of the plain phrasing, and write a line of the table."""
    counts = " ".join(f"{run.requests:4d}/{plain.requests:<3d}" for run, plain in zip(runs, plainly, strict=True))
    share = sum(run.requests for run in runs) / sum(run.requests for run in plainly)
    sys.stdout.write(f"{name:<50} {counts}  {share:.2f}\n")
    assert [run.reached for run in runs] == [run.reached for run in plainly]
    for run, plain in zip(runs, plainly, strict=True):
        assert run.requests <= MOST * plain.requests


@pytest.mark.slow
def test_the_plain_phrasing_reaches_every_goal(plainly: list[Run]) -> None:
    assert [run.reached for run in plainly] == [("done", 1.0)] * 3
    assert all(run.requests >= 15 for run in plainly)


def test_there_are_enough_habits_and_each_says_something_else(plainly: list[Run]) -> None:
    assert len(HABITS) >= 70
    said = ["Think: I look for the apple.", "Act: go to kitchen cabinet 1", "Act: done"]
    said.append("Expand:\n- control flow: sequence\n- subgoals: find the apple, put it down")
    habits = {tuple(dress(Plain(text, "Act: done")) for text in said) for dress in HABITS.values()}
    assert len(habits) == len(HABITS)
    assert tuple(said) not in habits


#: Habits that are refused, as prose before a decision may deny it, and a dictionary of Python is not JSON.
LOST = {"reasoning in prose first", "a dictionary of python"}


@pytest.mark.parametrize("name", sorted(LOST))
def test_a_habit_that_is_lost_is_refused_in_every_decision(name: str) -> None:
    for text in ("Think: I look.", "Act: done", "Expand:\n- control flow: sequence\n- subgoals: find it, put it"):
        with pytest.raises(Unreadable):
            read(HABITS[name](Plain(text, "")), DecisionGrammar(["done"]))


@pytest.mark.slow
@pytest.mark.sweep
@pytest.mark.parametrize("name", sorted(HABITS.keys() - LOST))
def test_a_habit_of_speech_reaches_what_the_plain_phrasing_reaches(
    speaker: Speaker, plainly: list[Run], name: str
) -> None:
    check(name, speaker.run_all(dressed(HABITS[name])), plainly)


@pytest.mark.slow
def test_a_model_whose_thinking_is_left_open_once_reaches_it_too(speaker: Speaker, plainly: list[Run]) -> None:
    thought = "<think>\nI could say Act: failure, or"
    runs = [speaker.run(decide, task, planned_by, thought) for task, planned_by in TASKS]
    assert [run.requests for run in runs] == [run.requests + 1 for run in plainly]
    check("thinking left open once", runs, plainly)


# ---------------------------------------------------------------------- near misses

NEAREST = re.compile(r"is not among the skills that are available now\. The nearest that are: (.*?)(?:, .*)?\.$")


@pytest.mark.slow
@pytest.mark.parametrize("act", ["Act: {}", "{}", "**Action:** {}.", '{{"action": "{}"}}'])
def test_a_model_with_words_of_its_own_reaches_it_by_the_first_skill_that_a_refusal_names(
    speaker: Speaker, plainly: list[Run], act: str
) -> None:
    words = {"pick up": "grab", "put down": "place", "go to": "walk to", "close": "shut"}
    missed = 0

    def say(prompt: str) -> str:
        nonlocal missed
        last = prompt.splitlines()[-2:]  # the refusal, and what is possible now
        if (nearest := next(filter(None, map(NEAREST.search, last)), None)) is not None:
            return f"Act: {nearest[1]}"
        text = decide(prompt)
        verb = next((verb for verb in words if text.startswith(f"Act: {verb} ")), None)
        if verb is None:
            return text
        missed += 1
        return act.format(text.removeprefix("Act: ").replace(verb, words[verb], 1))

    runs = speaker.run_all(say)
    assert [run.reached for run in runs] == [run.reached for run in plainly]
    assert missed > 30
    assert sum(run.requests for run in runs) == sum(run.requests for run in plainly) + missed
