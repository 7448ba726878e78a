"""The routines of a memory, and which fits a goal: one of the same words, whose roles words of the same kinds fill."""

from __future__ import annotations

import re
import string
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import islice, permutations
from typing import Any

from reactree_ros.agent.parameters import Choice
from reactree_ros.agent.skill import WAIT, Skill
from reactree_ros.agent.text import shortened_line, words
from reactree_ros.background.pending import Pending
from reactree_ros.errors import UserError
from reactree_ros.memory.knowledge import Standing
from reactree_ros.memory.port import EpisodicMemory
from reactree_ros.plugins.settings import did_you_mean
from reactree_ros.routine import model
from reactree_ros.routine.model import Role, Routine

_ARTICLES = frozenset(("a", "an", "the"))
_NUMBER = r"(?<![\w.])\d{1,9}(?:\.\d{1,9})?(?![\w.]*\d)"
#: Endings of several things, and what stands for one in a shape: several are not one.
_PLURAL, _SEVERAL = r"(?:s|es)", "several"
_IS_PLURAL = re.compile(rf"{_PLURAL}(?!\w)", re.IGNORECASE)
#: Words by which a goal depends on more than its things: on how many there are, and on how they are.
DEPENDING = frozenset(
    (
        "all another any both but cannot don each either every except if instead neither never no none nor not only "
        "other others rest t than that unless until when where which while without " + _SEVERAL
    ).split()
)
#: Words that make another task of the same things: what is like a goal but for one of them is not meant by it.
_TURNING = DEPENDING | {"off", "out", "stop"}


@dataclass(frozen=True)
class Mention:
    begin: int  # where it begins; it ends at ``end``, before the ending of several
    end: int
    word: str  # as the house says it, or the number
    kinds: frozenset[str]  # the kinds of role that it may fill


@dataclass(frozen=True)
class Fit:
    routine: Routine
    values: Mapping[str, str]
    # whether the goal is only like that of the routine, so that somebody has to say that it is the same
    near: bool = False

    def __str__(self) -> str:
        return self.routine.goal.format(**self.values)

    def as_data(self) -> dict[str, Any]:
        """Return it for a record; :meth:`of_data` reads it."""
        near = {"near": True} if self.near else {}
        return {"routine": self.routine.model_dump(mode="json"), "values": dict(self.values), **near}

    @classmethod
    def of_data(cls, data: Mapping[str, Any]) -> Fit:
        """Read what :meth:`as_data` wrote; a ValueError if it is none."""
        values = {str(role): str(value) for role, value in data["values"].items()}
        return cls(Routine.from_data(data["routine"]), values, near=bool(data.get("near", False)))


class Vocabulary:
    """The words that a house knows, each with the kinds of role that it may fill; ``carried`` may be unknown."""

    def __init__(
        self, words: Iterable[str], carried: Iterable[str] = (), skills: Iterable[Skill] = (), standing: Standing = ()
    ) -> None:
        kinds: defaultdict[str, set[str]] = defaultdict(set)
        for word in (carried := tuple(carried)):
            kinds[word].add("thing")
        for word in words:
            if word not in carried:
                kinds[word] |= {"place", "room"} if carried else {"place", "room", "thing"}
        declared = [one for skill in skills if skill.name != WAIT for one in skill.parameters.values()]
        for kind, names in (*((one.named, one.named.names) for one in declared if one.named), *standing):
            for name in names:
                kinds[name].add(type(kind).__name__.lower())
        for option in (option for one in declared if isinstance(one, Choice) for option in one.options() or ()):
            kinds[option].add("text")
        self._kinds = {word.casefold(): (word, frozenset(of)) for word, of in kinds.items() if word.strip()}
        longest = sorted(map(re.escape, self._kinds), key=len, reverse=True)
        known = rf"(?<!\w)(?P<word>{'|'.join(longest)})(?={_PLURAL}?(?!\w))|" if longest else ""
        self._pattern = re.compile(f"{known}(?P<number>{_NUMBER})", re.IGNORECASE)

    def __contains__(self, word: str) -> bool:
        return word.casefold() in self._kinds

    def kinds_of(self, word: str) -> frozenset[str]:
        return self._kinds.get(word.casefold(), ("", frozenset()))[1]

    def mentions(self, text: str) -> Iterator[Mention]:
        for match in self._pattern.finditer(text):
            if (number := match["number"]) is not None:
                yield Mention(*match.span(), number, frozenset({"number"}))
            else:
                yield Mention(*match.span(), *self._kinds[match["word"].casefold()])

    def shape(self, text: str, *, after: bool = False) -> tuple[tuple[str | None, ...], tuple[Mention, ...]]:
        """Return a text's words with None for each mention, and the mentions; ``after``: the text follows one."""
        found, shape, at = tuple(self.mentions(text)), list[str | None](), 0
        for mention in found:
            shape += [*_plain(text[at : mention.begin], after=after or at > 0), None]
            at = mention.end
        shape += _plain(text[at:], after=after or at > 0)
        return _uncounted(shape, ["number" in mention.kinds for mention in found]), found


def _plain(text: str, *, after: bool) -> list[str]:
    several = _IS_PLURAL.match(text) if after else None
    rest = text[several.end() :] if several else text
    return [*([_SEVERAL] if several else []), *(word for word in words(rest) if word not in _ARTICLES)]


def _uncounted(shape: Iterable[str | None], numbers: Sequence[bool]) -> tuple[str | None, ...]:
    kept, count = list[str | None](), 0
    for word in shape:
        count += word is None
        if word != _SEVERAL or kept[-2:] != [None, None] or not numbers[count - 2]:
            kept.append(word)
    return tuple(kept)


#: What a place in a goal stands for: a role, or a word of the goal itself.
_Slots = tuple[Role | str, ...]


def _form(routine: Routine, known: Vocabulary) -> tuple[tuple[str | None, ...], _Slots]:
    roles = {role.name: role for role in routine.roles}
    shape, slots = list[str | None](), list[Role | str]()
    name = None
    for literal, following, _, _ in string.Formatter().parse(routine.goal):
        part, found = known.shape(literal, after=name is not None)
        name = following
        shape += part
        slots += [mention.word for mention in found]
        if name is not None:
            shape.append(None)
            slots.append(roles[name])
    numbers = [slot[0].isdigit() if isinstance(slot, str) else slot.kind == "number" for slot in slots]
    return _uncounted(shape, numbers), tuple(slots)


class Routines:
    """Finds the routines that fit a goal, by the shape of that."""

    def __init__(self, routines: Iterable[Routine], known: Vocabulary) -> None:
        self._known = known
        self._by_shape: defaultdict[tuple[str | None, ...], list[tuple[Routine, _Slots]]] = defaultdict(list)
        for routine in routines:
            shape, slots = _form(routine, known)
            self._by_shape[shape].append((routine, slots))

    def fitting(self, goal: str) -> list[Fit]:
        """Return the routines that fit a goal, the most specific first: that with the fewest roles, then the best."""
        shape, mentions = self._known.shape(goal)
        some = ((routine, _values(slots, mentions)) for routine, slots in self._by_shape.get(shape, ()))
        found = [Fit(routine, values) for routine, values in some if values is not None]
        return sorted(found, key=lambda fit: (len(fit.routine.roles), -_merit(fit.routine), fit.routine.name))


def _values(slots: _Slots, mentions: tuple[Mention, ...]) -> dict[str, str] | None:
    values = {}
    for slot, mention in zip(slots, mentions, strict=True):
        if not (slot.kind in mention.kinds if isinstance(slot, Role) else slot == mention.word):
            return None
        if isinstance(slot, Role):
            values[slot.name] = mention.word
    return values if len(set(values.values())) == len(values) else None


def fillings(routine: Routine, goal: str, known: Vocabulary) -> Iterator[Fit]:
    """Yield a routine with its roles filled in each way by what a goal in other words names, and by all of it."""
    mentions = {mention.word: mention for mention in known.mentions(goal)}.values()
    asked = _asked(goal, known)
    for some in permutations(mentions, len(routine.roles)):
        pairs = list(zip(routine.roles, some, strict=True))
        if all(role.kind in mention.kinds for role, mention in pairs):
            fit = Fit(routine, {role.name: mention.word for role, mention in pairs}, near=True)
            if _asked(str(fit), known) == asked:
                yield fit


def _asked(goal: str, known: Vocabulary) -> object:
    shape, mentions = known.shape(goal)
    return Counter(mention.word for mention in mentions), Counter(word for word in shape if word in _TURNING)


def _merit(routine: Routine) -> float:
    counts = routine.counts
    return (counts.successes + 1) / (counts.uses + 2)


def describe(fit: Fit) -> str:
    origin = fit.routine.origin
    of = f"learnt from run {shortened_line(origin.run, 60)}" if origin.run else "written by a person"
    return (
        f"routine '{fit.routine.name}' ({of}; done {fit.routine.counts.successes} of {fit.routine.counts.uses} times)"
    )


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
    """The routines of a memory. All methods but :meth:`find` may wait for a disk."""

    def __init__(self, memory: EpisodicMemory, *, most: int = MOST) -> None:
        self.memory, self._most = memory, most
        self._texts: Mapping[str, str] = {}
        self._routines: dict[str, model.Routine] = {}
        self._indexes: dict[tuple[str, Vocabulary], Routines] = {}
        self._lock = threading.RLock()

    def all(self) -> Mapping[str, model.Routine]:
        with self._lock:
            texts = self.memory.routines()
            if texts is not self._texts:
                self._texts = texts
                read = {name: _read(name, text) for name, text in texts.items()}
                self._routines = {name: one for name, one in read.items() if one is not None}
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
        """Return the trusted routines that fit a goal, the best first; ``near``: else those of goals like it."""
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
        """Count in the background that a routine was run; the reason why it failed is empty if it did not."""
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
    return _merit(routine) >= _LEAST_MERIT


@lru_cache(2 * MOST)
def _read(name: str, text: object) -> model.Routine | None:
    if not isinstance(text, str):
        return None
    try:
        routine = model.Routine.of_json(text, where=name)
        is_named = routine.name == name
        return routine if is_named else model.Routine.from_data({**routine.model_dump(), "name": name}, where=name)
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
    below = [_changed(child, change) for child in model.children_of(node)]
    return model.with_children(node, below) if below else node
