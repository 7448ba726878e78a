"""A check for authors of stores: does an episodic memory keep to its port?"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

from reactree_ros.agent.kinds.act import Act
from reactree_ros.agent.turns import About, Said, Saw, Told
from reactree_ros.background.pending import Pending
from reactree_ros.errors import UserError
from reactree_ros.memory.experience import End, Experience
from reactree_ros.memory.port import Counts, EpisodicMemory, EpisodicMemoryError
from reactree_ros.memory.spec import NamedMemory
from reactree_ros.plugins.diagnosis import Diagnosis

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
            check.wrong(f"{look.__name__}: {type(error).__name__}: {' '.join(str(error).split())}")
            break
    return check.problems


class _Check:
    """Tries one thing after another; what was added so far is in :attr:`stored`."""

    def __init__(self, named: NamedMemory, timeout: float) -> None:
        self.problems: list[str] = []
        self.stored: list[Experience] = []
        self._named, self._timeout, self._runs = named, timeout, 0

    def wrong(self, problem: str) -> None:
        if problem not in self.problems:
            self.problems.append(problem)

    def _expect(self, holds: bool, problem: str) -> None:
        if not holds:
            self.wrong(problem)

    def begins(self) -> None:
        """A memory is made when it is opened, and empty."""
        self._expect(not self._named.spec.exists(self._named.settings), "exists is true before anything made a memory")
        self._named.prepare()
        with self._named.open() as memory:
            self._holds(memory)
            self._expect(memory.search("anything", 3) == [], "a new memory finds something")
            self._expect(self._found(memory, "anything") == (), "a new memory has examples")
        self._expect(self._named.spec.exists(self._named.settings), "exists is false after a memory was made")

    def adds(self) -> None:
        """Check that the memory holds just the added runs, unchanged and in order."""
        with self._named.open() as memory:
            for number, end in enumerate(End):
                run = [_experience(subgoal, end, number, at) for at, subgoal in enumerate(_SUBGOALS)]
                self._expect(run[0] not in memory, "an experience is in the memory before it was added")
                self._add(memory, run)
                self._holds(memory)
            self._expect(memory.keep(run) == 0, "keep adds again what is there")
            self._holds(memory)

    def finds(self) -> None:
        """The most similar come first, each once, within the limits; a seed decides among equals."""
        with self._named.open() as memory:
            for subgoal in _SUBGOALS:
                ranked = list(memory.ranked(subgoal))
                self._expect(_same([one for _, one in ranked], self.stored), "ranked does not yield each one once")
                self._expect(
                    all(first >= second for (first, _), (second, _) in pairwise(ranked)),
                    "ranked does not yield the most similar first",
                )
                first = [one.subgoal for _, one in ranked[:3]]
                self._expect(first == [subgoal] * 3, f"for '{subgoal}' ranked does not begin with its experiences")
                seeded = [list(memory.ranked(subgoal, seed=5)) for _ in range(2)]
                self._expect(seeded[0] == seeded[1], "ranked gives another order with the same seed")
                self._expect(memory.search(subgoal, 2) == ranked[:2], "search does not give what is ranked first")
            everything = self._found(memory, _SUBGOALS[0])
            self._expect(_same(list(everything), self.stored), "find leaves something out for which there is room")
            self._expect(
                all(one.similarity is not None for one in everything), "find gives an example without similarity"
            )
            few = self._found(memory, _SUBGOALS[0], token_limit=2)
            self._expect(few == everything[:2], "find does not stop at the token limit")
            self._expect(self._found(memory, _SUBGOALS[0], most=1) == everything[:1], "find gives more than the most")

    def refuses(self) -> None:
        """What cannot be added leaves nothing behind."""
        with self._named.open() as memory:
            self._raises(lambda: memory.add_run([]), "an empty run", ValueError)
            self._raises(lambda: memory.retrieve("x", token_limit=-1, count_tokens=len), "a limit of -1", ValueError)
            self._raises(lambda: memory.search("x", -1), "-1 experiences", ValueError)
            run = [_experience("half a letter", End.SUCCESS, 7, 0), _experience("\ud800", End.SUCCESS, 7, 1)]
            with contextlib.suppress(UserError):
                self._add(memory, run)
            self._holds(memory)

    def keeps_routines(self) -> None:
        """A memory that keeps routines keeps what a change makes of one, and others that have it open see that."""
        with self._named.open() as memory, self._named.open() as other:
            if not memory.keeps_routines:
                self._raises(lambda: memory.change_routine("a", lambda text: "b"), "a routine", EpisodicMemoryError)
                self._expect(memory.routines() == {}, "it has routines and says that it keeps none")
                return
            self._expect(memory.routines() == {}, "a new memory has routines")
            for name in ("b", "a"):
                memory.change_routine(name, lambda text: f"{text} changed")
            other.change_routine("a", lambda text: f"{text} again")
            other.change_routine("b", lambda text: None)
            for each in (memory, other):
                self._expect(dict(each.routines()) == {"a": "None changed again"}, "routines are not what they became")
                self._expect(each.routines() is each.routines(), "routines are read again though nobody changed any")
            with contextlib.suppress(RecursionError):
                memory.change_routine("a", _breaks)
            self._expect(dict(other.routines()) == {"a": "None changed again"}, "a change that fails changes a routine")
            memory.change_routine("a", lambda text: None)

    def shares(self) -> None:
        """Several may have it open, in several threads; each finds what the others added."""
        with self._named.open() as one, self._named.open() as other, ThreadPoolExecutor() as threads:
            other.search(_SUBGOALS[0], 1)
            runs = [[_experience(f"{_SUBGOALS[at]} {at}", End.SUCCESS, 20 + at, at)] for at in range(4)]
            searches = [self._pending(other, _SUBGOALS[0]) for _ in runs]
            list(threads.map(one.add_run, runs))
            for search in searches:
                search.result(timeout=self._timeout)
            self._runs += len(runs)
            added = list(one)[len(self.stored) :]
            self._expect(_same(added, [run[0] for run in runs]), "what several threads add at once is not all there")
            self.stored += added
            for memory in (one, other):
                self._holds(memory)
                ranked = [each for _, each in memory.ranked(_SUBGOALS[0])]
                self._expect(_same(ranked, self.stored), "who has it open does not find what another one added")
            findings = list(self._named.spec.diagnose(self._named.settings))
            self._expect(bool(findings), "diagnose says nothing")
            self._expect(all(isinstance(each, Diagnosis) for each in findings), "diagnose yields what is no Diagnosis")

    def lasts(self) -> None:
        """What was added is there when it is opened again."""
        with self._named.open() as again:
            self._holds(again)
            self._expect(bool(again.path.name), f"path is '{again.path}', which names nothing")

    def closes(self) -> None:
        """A closed memory says so; a second close does nothing."""
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

    # ------------------------------------------------------------------ asking

    def _add(self, memory: EpisodicMemory, run: list[Experience]) -> None:
        memory.add_run(run)
        self.stored += run
        self._runs += 1

    def _holds(self, memory: EpisodicMemory) -> None:
        """Look whether a memory holds what was added, no more and no less."""
        found, counts = list(memory), memory.counts()
        self._expect(
            found == self.stored, f"{len(self.stored)} experiences were added, and it yields others or another order"
        )
        self._expect(
            [one.turns for one in found] == [one.turns for one in self.stored],
            "turns do not come back as they were added",
        )
        self._expect(len(memory) == len(self.stored), f"its length is {len(memory)}, not {len(self.stored)}")
        self._expect(all(one in memory for one in self.stored), "an experience that it yields is not in it")
        by_end = {end: sum(one.end is end for one in self.stored) for end in End}
        names = sorted({one.task_name for one in self.stored})
        by_name = {name: sum(one.task_name == name for one in self.stored) for name in names}
        subgoals = len({one.subgoal for one in self.stored})
        right = Counts(len(self.stored), self._runs, subgoals, by_end, by_name)
        self._expect(counts == right and list(counts.by_task_name) == names, f"counts gives {counts}, not {right}")

    def _pending(self, memory: EpisodicMemory, subgoal: str, **limits: int) -> Pending[tuple[Experience, ...]]:
        return memory.find(subgoal, count_tokens=_one_each, **limits)

    def _found(self, memory: EpisodicMemory, subgoal: str, **limits: int) -> tuple[Experience, ...]:
        return self._pending(memory, subgoal, **limits).result(timeout=self._timeout)

    def _raises(self, use: Callable[[], object], what: str, kind: type[Exception]) -> None:
        try:
            use()
        except kind:
            return
        self.wrong(f"{what} raises no {kind.__name__}")


def _one_each(text: str) -> int:
    """Count each text as one token."""
    return 1


def _same(some: Sequence[Experience], others: Sequence[Experience]) -> bool:
    """Return whether two lists hold the same, in whatever order."""
    return Counter(some) == Counter(others)


def _experience(subgoal: str, end: End, task: int, number: int) -> Experience:
    """Make an experience whose turns a text would not give again."""
    turns = (
        Told(f"Your task is to: {subgoal}", About.TASK),
        Saw("You are in the kitchen.\n\nIt is übersichtlich."),
        Said("Act: done", Act("done")),
        Told("", About.ANSWER),
    )
    name = f"kind {task % 2}"
    return Experience(
        subgoal=subgoal, turns=turns, end=end, task_id=str(task), task_name=name, decision=number, depth=number + 1
    )


def _breaks(text: str | None) -> str | None:
    raise RecursionError
