"""A check for authors of stores: does an episodic memory keep to its port?"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from reactree_ros.agent.kinds.act import Act
from reactree_ros.agent.turns import About, Said, Saw, Told
from reactree_ros.errors import UserError
from reactree_ros.memory.experience import End, Experience
from reactree_ros.memory.port import Counts, EpisodicMemory, EpisodicMemoryError
from reactree_ros.memory.spec import NamedMemory
from reactree_ros.plugins.installation import Diagnosis

_SUBGOALS = ("find and pick up the apple", "find and pick up the juice", "open the fridge", "wipe the kitchen table")


def check_memory(named: NamedMemory, *, timeout: float = 30.0) -> list[str]:
    """Try whether a store keeps to the port.

    The author of a store has a test like this::

        def test_my_store_keeps_to_the_port(tmp_path: Path) -> None:
            assert check_memory(memory(f"my_store:path={tmp_path / 'memory'}")) == []

    Runs are added, found and counted, by two who have the memory open at once; it is closed and opened again.

    Args:
        named: The memory, which must not be there yet. What is added to it stays.
        timeout: How long a search in the background may take, in seconds.

    Returns:
        The problems, a sentence each; empty if there are none.
    """
    check = _Check(named, timeout)
    for look in (
        *(check.begins, check.adds, check.finds, check.refuses, check.keeps_routines),
        *(check.shares, check.lasts, check.closes),
    ):
        try:
            look()
        except Exception as error:
            check.expect(False, f"{look.__name__}: {type(error).__name__}: {' '.join(str(error).split())}")
            break
    return check.problems


class _Check:
    # tries one thing after another; what was added so far is in `stored`

    def __init__(self, named: NamedMemory, timeout: float) -> None:
        self.problems: list[str] = []
        self.stored: list[Experience] = []
        self._named, self._timeout, self._runs = named, timeout, 0

    def expect(self, holds: bool, problem: str) -> None:
        if not holds and problem not in self.problems:
            self.problems.append(problem)

    def begins(self) -> None:
        # a memory is made when it is opened, and empty
        self.expect(not self._named.spec.exists(self._named.settings), "exists is true before anything made a memory")
        self._named.prepare()
        with self._named.open() as memory:
            self._holds(memory)
            self.expect(memory.search("anything", 3) == [], "a new memory finds something")
            self.expect(self._found(memory, "anything") == (), "a new memory has examples")
        self.expect(self._named.spec.exists(self._named.settings), "exists is false after a memory was made")

    def adds(self) -> None:
        with self._named.open() as memory:
            for number, end in enumerate(End):
                run = [_experience(subgoal, end, number, at) for at, subgoal in enumerate(_SUBGOALS)]
                self.expect(run[0] not in memory, "an experience is in the memory before it was added")
                self._add(memory, run)
                self._holds(memory)
            self.expect(memory.keep(run) == 0, "keep adds again what is there")
            self._holds(memory)

    def finds(self) -> None:
        # the most similar come first, each once, within the limits; a seed decides among equals
        with self._named.open() as memory:
            for subgoal in _SUBGOALS:
                ranked = list(memory.ranked(subgoal))
                values, found = [value for value, _ in ranked], [one for _, one in ranked]
                self.expect(_same(found, self.stored), "ranked does not yield each one once")
                self.expect(values == sorted(values, reverse=True), "ranked does not yield the most similar first")
                first = [one.subgoal for one in found[:3]]
                self.expect(first == [subgoal] * 3, f"for '{subgoal}' ranked does not begin with its experiences")
                seeded = [list(memory.ranked(subgoal, seed=5)) for _ in range(2)]
                self.expect(seeded[0] == seeded[1], "ranked gives another order with the same seed")
                self.expect(memory.search(subgoal, 2) == ranked[:2], "search does not give what is ranked first")
            all_found = self._found(memory, _SUBGOALS[0])
            self.expect(_same(all_found, self.stored), "find leaves something out for which there is room")
            known = all(one.similarity is not None for one in all_found)
            self.expect(known, "find gives an example without similarity")
            few = self._found(memory, _SUBGOALS[0], token_limit=2)
            self.expect(few == all_found[:2], "find does not stop at the token limit")
            self.expect(self._found(memory, _SUBGOALS[0], most=1) == all_found[:1], "find gives more than the most")

    def refuses(self) -> None:
        # what cannot be added leaves nothing behind
        with self._named.open() as memory:
            self._raises(lambda: memory.add_run([]), "an empty run", ValueError)
            self._raises(lambda: memory.retrieve("x", token_limit=-1, count_tokens=len), "a limit of -1", ValueError)
            self._raises(lambda: memory.search("x", -1), "-1 experiences", ValueError)
            run = [_experience("half a letter", End.SUCCESS, 7, 0), _experience("\ud800", End.SUCCESS, 7, 1)]
            with contextlib.suppress(UserError):
                self._add(memory, run)
            self._holds(memory)

    def keeps_routines(self) -> None:
        # what a change makes of a routine is kept, and others that have the memory open see it
        with self._named.open() as memory, self._named.open() as other:
            if not memory.keeps_routines:
                self._raises(lambda: memory.change_routine("a", lambda text: "b"), "a routine", EpisodicMemoryError)
                self.expect(memory.routines() == {}, "it has routines and says that it keeps none")
                return
            self.expect(memory.routines() == {}, "a new memory has routines")
            for name in ("b", "a"):
                memory.change_routine(name, lambda text: f"{text} changed")
            other.change_routine("a", lambda text: f"{text} again")
            other.change_routine("b", lambda text: None)
            for each in (memory, other):
                self.expect(dict(each.routines()) == {"a": "None changed again"}, "routines are not what they became")
                self.expect(each.routines() is each.routines(), "routines are read again though nobody changed any")
            with contextlib.suppress(RecursionError):
                memory.change_routine("a", _breaks)
            self.expect(dict(other.routines()) == {"a": "None changed again"}, "a change that fails changes a routine")
            memory.change_routine("a", lambda text: None)

    def shares(self) -> None:
        # several may have it open, in several threads; each finds what the others added
        with self._named.open() as one, self._named.open() as other, ThreadPoolExecutor() as threads:
            other.search(_SUBGOALS[0], 1)
            runs = [[_experience(f"{_SUBGOALS[at]} {at}", End.SUCCESS, 20 + at, at)] for at in range(4)]
            searches = [other.find(_SUBGOALS[0], count_tokens=_one_each) for _ in runs]
            list(threads.map(one.add_run, runs))
            for search in searches:
                search.result(timeout=self._timeout)
            self._runs += len(runs)
            added = list(one)[len(self.stored) :]
            self.expect(_same(added, [run[0] for run in runs]), "what several threads add at once is not all there")
            self.stored += added
            for memory in (one, other):
                self._holds(memory)
                ranked = [each for _, each in memory.ranked(_SUBGOALS[0])]
                self.expect(_same(ranked, self.stored), "who has it open does not find what another one added")
            findings = list(self._named.spec.diagnose(self._named.settings))
            self.expect(bool(findings), "diagnose says nothing")
            self.expect(
                all(isinstance(each, Diagnosis) for each in findings), "diagnose yields what is not a Diagnosis"
            )

    def lasts(self) -> None:
        with self._named.open() as again:
            self._holds(again)
            self.expect(bool(again.path.name), f"path is '{again.path}', which names nothing")

    def closes(self) -> None:
        # a closed memory says so; a second close does nothing
        memory = self._named.open()
        self._found(memory, "x")
        memory.close()
        memory.close()
        uses: dict[str, Callable[[], object]] = {
            "add_run": lambda: memory.add_run([_experience("x", End.SUCCESS, 9, 0)]),
            "ranked": lambda: list(memory.ranked("x")),
            "counts": memory.counts,
            "iteration": lambda: list(memory),
            "find": lambda: self._found(memory, "x"),
        }
        for what, use in uses.items():
            self._raises(use, f"{what} of a closed memory", EpisodicMemoryError)

    def _add(self, memory: EpisodicMemory, run: list[Experience]) -> None:
        memory.add_run(run)
        self.stored += run
        self._runs += 1

    def _holds(self, memory: EpisodicMemory) -> None:
        # what was added, no more and no less
        stored, found, counts = self.stored, list(memory), memory.counts()
        self.expect(found == stored, f"{len(stored)} experiences were added, and it yields others or another order")
        same = [one.turns for one in found] == [one.turns for one in stored]
        self.expect(same, "turns do not come back as they were added")
        self.expect(len(memory) == len(stored), f"its length is {len(memory)}, not {len(stored)}")
        self.expect(all(one in memory for one in stored), "an experience that it yields is not in it")
        kinds, subgoals = [(one.end, one.task_name, 1) for one in stored], {one.subgoal for one in stored}
        right = Counts.from_kinds(kinds, runs=self._runs, subgoals=len(subgoals))
        in_order = list(counts.by_task_name) == list(right.by_task_name)
        self.expect(counts == right and in_order, f"counts gives {counts}, not {right}")

    def _found(self, memory: EpisodicMemory, subgoal: str, **limits: int) -> tuple[Experience, ...]:
        return memory.find(subgoal, count_tokens=_one_each, **limits).result(timeout=self._timeout)

    def _raises(self, use: Callable[[], object], what: str, kind: type[Exception]) -> None:
        try:
            use()
        except kind:
            return
        self.expect(False, f"{what} raises no {kind.__name__}")


def _one_each(text: str) -> int:
    return 1


def _same(some: Sequence[Experience], others: Sequence[Experience]) -> bool:
    return Counter(some) == Counter(others)


def _experience(subgoal: str, end: End, task: int, number: int) -> Experience:
    # with turns that the text would not give again
    turns = (
        Told(f"Your task is to: {subgoal}", About.TASK),
        Saw("You are in the kitchen.\n\nIt is übersichtlich."),
        Said("Act: done", Act("done")),
        Told("", About.ANSWER),
    )
    return Experience(subgoal, turns, end, str(task), f"kind {task % 2}", decision=number, depth=number + 1)


def _breaks(text: str | None) -> str | None:
    raise RecursionError
