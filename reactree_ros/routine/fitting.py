"""Which routine fits a goal: one of the same words, whose roles words of the same kinds fill that the house knows."""

from __future__ import annotations

import re
import string
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any

from reactree_ros.agent.parameters import Named
from reactree_ros.agent.skill import Skill
from reactree_ros.agent.text import shortened_line, words
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
        return cls(Routine.of(data["routine"]), values, near=bool(data.get("near", False)))


class Vocabulary:
    """The words that a house knows, each with the kinds of role that it may fill.

    Args:
        carried: Those of it, or others, that can be carried; empty: nobody knows.
        skills: Declared skills, whose names of persons, rooms and so on are words, too.
    """

    def __init__(self, words: Iterable[str], carried: Iterable[str] = (), skills: Iterable[Skill] = ()) -> None:
        kinds: defaultdict[str, set[str]] = defaultdict(set)
        for word in (carried := tuple(carried)):
            kinds[word].add("thing")
        for word in words:
            if word not in carried:
                kinds[word] |= {"place", "room"} if carried else {"place", "room", "thing"}
        for parameter in (one for skill in skills for one in skill.parameters.values()):
            for name in parameter.names if isinstance(parameter, Named) else ():
                kinds[name].add(type(parameter).__name__.lower())
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
        """Return a text's words, without articles and with None for each of its mentions, and the mentions.

        Args:
            after: Whether it stands after a mention, so that it may begin with the ending of several.
        """
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


@dataclass(frozen=True)
class _Form:
    shape: tuple[str | None, ...]  # of a routine's goal, as of :meth:`Vocabulary.shape`, with None for its roles, too
    slots: tuple[Role | str, ...]  # what each None stands for: a role, or a word of the goal itself


def _form(routine: Routine, known: Vocabulary) -> _Form:
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
    return _Form(_uncounted(shape, numbers), tuple(slots))


class Routines:
    """Finds the routines that fit a goal, whatever their number, in about the same time."""

    def __init__(self, routines: Iterable[Routine], known: Vocabulary) -> None:
        self._known = known
        #: By shape, then by the words in the slots, None for a role.
        self._by_shape: dict[tuple[str | None, ...], dict[tuple[str | None, ...], list[tuple[Routine, _Form]]]] = {}
        for routine in routines:
            form = _form(routine, known)
            literals = tuple(slot if isinstance(slot, str) else None for slot in form.slots)
            self._by_shape.setdefault(form.shape, {}).setdefault(literals, []).append((routine, form))
        masks = {
            shape: {tuple(one is None for one in literals) for literals in by} for shape, by in self._by_shape.items()
        }
        self._masks = masks

    def fitting(self, goal: str) -> list[Fit]:
        """Return the routines that fit a goal, the most specific first: that with the fewest roles, then the best."""
        shape, mentions = self._known.shape(goal)
        found = []
        for mask in self._masks.get(shape, ()):
            literals = tuple(None if is_role else one.word for one, is_role in zip(mentions, mask, strict=True))
            for routine, form in self._by_shape[shape].get(literals, ()):
                values = _values(form, mentions)
                if values is not None:
                    found.append(Fit(routine, values))
        return sorted(found, key=lambda fit: (len(fit.routine.roles), -_merit(fit.routine), fit.routine.name))


def _values(form: _Form, mentions: tuple[Mention, ...]) -> dict[str, str] | None:
    values = {}
    for slot, mention in zip(form.slots, mentions, strict=True):
        if isinstance(slot, Role):
            if slot.kind not in mention.kinds:
                return None
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
