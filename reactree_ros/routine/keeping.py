"""The routines of an episodic memory: kept, merged, counted, found and removed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice

from reactree_ros.agent.text import shortened_line
from reactree_ros.background.pending import Pending
from reactree_ros.errors import UserError
from reactree_ros.memory.port import EpisodicMemory
from reactree_ros.plugins.settings import did_you_mean
from reactree_ros.routine import model
from reactree_ros.routine.fitting import Fit, Routines, Vocabulary, fillings

#: The most routines of one memory; beyond it, the one that has helped least makes room.
MOST = 10_000
#: The most places that a search remembers.
_MOST_PLACES = 12
#: How similar an instruction has to be to ask whether it is the same.
LIKE = 0.6
_LOOKED_AT, _MOST_OPTIONS, _MOST_FILLINGS = 64, 12, 6
#: A routine whose chance of success has come to less is not used any more.
_LEAST_MERIT = 0.3


class Kept:
    """The routines of a memory. All methods but :meth:`find` may wait for a disk.

    Args:
        most: How many it keeps at most.
    """

    def __init__(self, memory: EpisodicMemory, *, most: int = MOST) -> None:
        self.memory, self._most = memory, most
        self._texts: Mapping[str, str] = {}
        self._read: dict[str, model.Routine | None] = {}  # by name; None: damaged
        self._routines: dict[str, model.Routine] = {}
        self._indexes: dict[tuple[str, Vocabulary], Routines] = {}
        self._lock = threading.RLock()

    def all(self) -> Mapping[str, model.Routine]:
        with self._lock:
            texts = self.memory.routines()
            if texts is not self._texts:
                before, self._texts = self._texts, texts
                same = {name: one for name, one in self._read.items() if before[name] == texts.get(name)}
                self._read = {name: same[name] if name in same else _read(name, text) for name, text in texts.items()}
                self._routines = {name: one for name, one in self._read.items() if one is not None}
                self._indexes.clear()
            return self._routines

    def named(self, name: str) -> model.Routine:
        routines = self.all()
        if name not in routines:
            hint = did_you_mean(name, routines) if routines else "it has none yet"
            raise UserError(f"{self.memory.path}: there is no routine '{shortened_line(name, 80)}'; {hint}")
        return routines[name]

    def find(self, goal: str, known: Vocabulary, household: str, *, near: bool = False) -> Pending[tuple[Fit, ...]]:
        return self.memory.do(lambda: self.fitting(goal, known, household, near=near))

    def fitting(self, goal: str, known: Vocabulary, household: str, *, near: bool = False) -> tuple[Fit, ...]:
        """Return the routines that fit a goal in a household, the best first, without those that fail too often.

        Args:
            near: Whether those are returned, if none fits, that were learnt from instructions like it.
        """
        with self._lock:
            routines = self.all()
            if (index := self._indexes.get((household, known))) is None:
                fit = (one for one in routines.values() if one.origin.household in ("", household))
                index = self._indexes[household, known] = Routines(fit, known)
        found = tuple(fit for fit in index.fitting(goal) if is_trusted(fit.routine))
        return found or (tuple(self._near(goal, known, household)) if near else ())

    def _near(self, goal: str, known: Vocabulary, household: str) -> Iterator[Fit]:
        options: dict[str, Fit] = {}
        looked_at = {""}  # those that a person wrote are of no run
        routines = tuple(self.all().values())
        for similarity, experience in islice(self.memory.ranked(goal), _LOOKED_AT) if routines else ():
            if similarity < LIKE or len(options) >= _MOST_OPTIONS:
                break
            if (instruction := experience.subgoal) in looked_at:
                continue
            looked_at.add(instruction)
            for routine in routines:
                is_here = routine.origin.instruction == instruction and routine.origin.household in ("", household)
                if is_here and is_trusted(routine):
                    options |= {str(fit): fit for fit in islice(fillings(routine, goal, known), _MOST_FILLINGS)}
        yield from islice(options.values(), _MOST_OPTIONS)

    def add(self, routine: model.Routine) -> str:
        """Keep a routine; returns the name under which it is found.

        One that is there for the same goal but for its roles is merged with it: of the same tree, where things were
        found; another tree takes its place with the next version if that one has failed since it succeeded.
        """
        same = next((one for one in self.all().values() if _is_for_the_same(one, routine)), None)
        if same is None:
            routine = routine.model_copy(update={"name": self._free_name(routine.name)})
            self._make_room()
        name = routine.name if same is None else same.name
        self.memory.change_routine(name, lambda text: _merged(_read(name, text), routine, name).to_json())
        return name

    def replace(self, name: str, routine: model.Routine) -> None:
        if name != routine.name and routine.name in self.all():
            raise UserError(f"{self.memory.path}: there is a routine '{routine.name}' already; name it otherwise")
        self.memory.change_routine(routine.name, lambda text: routine.to_json())
        if name != routine.name:
            self.memory.change_routine(name, lambda text: None)

    def remove(self, name: str) -> None:
        self.named(name)
        self.memory.change_routine(name, lambda text: None)

    def used(self, fit: Fit, reason: str, found: Mapping[str, Sequence[str]]) -> Pending[None]:
        """Count in the background that a routine was run.

        Args:
            reason: What was not as expected; empty if it reached its goal.
            found: In what its searches have found what they looked for, by what they call it.
        """
        name = fit.routine.name

        def change(text: str | None) -> str | None:
            routine = _read(name, text)
            is_it = routine is not None and routine.version == fit.routine.version  # nobody has changed it meanwhile
            return _counted(routine, reason, found).to_json() if routine is not None and is_it else text

        return self.memory.do(partial(self.memory.change_routine, name, change))

    def _free_name(self, name: str) -> str:
        routines, number, free = self.all(), 1, name
        while free in routines:
            number += 1
            free = f"{name[:70]} {number}"
        return free

    def _make_room(self) -> None:
        routines = sorted(self.all().values(), key=lambda one: (one.counts.successes, one.counts.uses, one.name))
        for least in routines[: max(0, len(routines) - self._most + 1)]:
            self.memory.change_routine(least.name, lambda text: None)


def is_trusted(routine: model.Routine) -> bool:
    """Whether a routine is used: it has not failed too often."""
    return (routine.counts.successes + 1) / (routine.counts.uses + 2) >= _LEAST_MERIT


def _read(name: str, text: object) -> model.Routine | None:
    if not isinstance(text, str):
        return None
    try:
        routine = model.Routine.of_json(text, where=name)
        return routine if routine.name == name else model.Routine.of({**routine.model_dump(), "name": name}, where=name)
    except model.RoutineError:
        return None


def _is_for_the_same(one: model.Routine, other: model.Routine) -> bool:
    def key(routine: model.Routine) -> object:
        return " ".join(routine.goal.casefold().split()), routine.roles, routine.origin.household

    return key(one) == key(other)


def _merged(there: model.Routine | None, new: model.Routine, name: str) -> model.Routine:
    if there is None:
        return new.model_copy(update={"name": name, "counts": model.Counts(runs=1)})
    runs = min(there.counts.runs + 1, model.MOST_COUNTED)
    if _without_orders(there.body) == _without_orders(new.body):
        orders = [node.order for node in new.nodes if isinstance(node, model.Search)]
        body = _with_orders(there.body, iter(orders))
        return there.model_copy(update={"body": body, "counts": there.counts.model_copy(update={"runs": runs})})
    if there.counts.last_failure:
        changed = {"name": name, "version": there.next_version, "counts": model.Counts(runs=runs)}
        return new.model_copy(update=changed)
    return there.model_copy(update={"counts": there.counts.model_copy(update={"runs": runs})})


def _counted(routine: model.Routine, reason: str, found: Mapping[str, Sequence[str]]) -> model.Routine:
    counts = routine.counts
    new = counts.and_one(shortened_line(reason, 500))
    orders = (found.get(node.finds, ()) for node in routine.nodes if isinstance(node, model.Search))
    return routine.model_copy(update={"counts": new, "body": _with_orders(routine.body, orders)})


def _without_orders(node: model.Node) -> model.Node:
    return _changed(node, lambda search: search.model_copy(update={"order": ()}))


def _with_orders(node: model.Node, orders: Iterable[Sequence[str]]) -> model.Node:
    latest = iter(orders)

    def change(search: model.Search) -> model.Search:
        order = tuple(dict.fromkeys((*next(latest, ()), *search.order)))[:_MOST_PLACES]
        return search.model_copy(update={"order": order})

    return _changed(node, change)


def _changed(node: model.Node, change: Callable[[model.Search], model.Search]) -> model.Node:
    if isinstance(node, model.Search):
        return change(node)
    children: model.Children = tuple(_changed(child, change) for child in model.children_of(node))
    if not children:
        return node
    return node.model_copy(update={"child": children[0]} if node.kind == "decorator" else {"children": children})
