"""What an agent node is offered and told by what its robot knows: possible skills, reasons, and a line before each act.

Models that were trained for a planner know their prompts as they are; they are offered all, and told nothing more.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache

from reactree_ros.agent.needs import NUMBER, Need
from reactree_ros.agent.parameters import Choice, List, Named, ParameterError, Thing
from reactree_ros.agent.skill import Offer, Skill, helping
from reactree_ros.agent.text import names, without_articles, words
from reactree_ros.memory.knowledge import UNTOLD, Knowledge, Known, Sighting, word_of

#: Places, or instances of a thing, that one sentence names at most.
MOST_NAMED = 8
#: The numbers of some instances as a household lists them, e.g. those of ``plate (1, 3)``.
_NUMBERS = re.compile(r" \((\d+(?:, \d+)*)\)")
#: The words before the numbers, and the first of these that belong to no name. No more characters are looked at: a
#: longer search would hold up the tree.
_WORDS, _BEFORE = re.compile(r"(?<![\w ])[\w ]*\Z"), re.compile(r"(?:\w+ )*?(?:see|hold|has|the|The|an?) ")
_MOST_BEFORE = 200
_LETTER = re.compile(r"\b[A-Za-z]")
_SEE, _HOLD = re.compile(r"([Yy]ou see )((?:(?! You hold )[^.])*)"), re.compile(r"You hold ([^.]*)")


#: What :meth:`Known.told` says of a fact.
Told = Callable[[str], tuple[Mapping[str, bool | None], bool | None]]


class Offers:
    """Which of the skills that a world lists are possible, by what is known; what nobody knows is possible.

    A world may list thousands: each text is taken apart once, and facts are looked up for all names together.

    Args:
        words: Those for what the world's skills are done to.
    """

    def __init__(self, knowledge: Knowledge, words: Collection[str]) -> None:
        self._known, self._words = knowledge, frozenset(words)
        skills = knowledge.household.skills
        needs = any(skill.requires for skill in skills)  # else a world offers what it lists
        self._of_verb = {skill.verb: skill for skill in skills if needs and _is_verb_and_thing(skill)}
        self._parts: dict[str, tuple[str, str] | None] = {}  # verb and name of each text that was listed

    def texts(self, listed: Sequence[str], robot: Known) -> list[str]:
        """Return those that may be possible, in their order."""
        if not self._of_verb:
            return list(listed)
        kept: list[int] = []
        places = defaultdict[str, dict[str, int]](dict)  # by verb and name: where texts stand in the list
        parts = self._parts
        for at, text in enumerate(listed):
            if text not in parts:
                parts[text] = self._apart(text)
            if (part := parts[text]) is None:
                kept.append(at)
            else:
                places[part[0]][part[1]] = at
        told = cache(robot.told)
        for verb, of_name in places.items():
            skill = self._of_verb[verb]
            (parameter,) = skill.parameters
            if _holds(skill, robot):
                named = [name for name in self._known.names if name in of_name] if self._known.words else of_name
                kept += map(of_name.__getitem__, _fitting(skill, parameter, named, robot, told))
        return [listed[at] for at in sorted(kept)]

    def _apart(self, text: str) -> tuple[str, str] | None:
        verb, name = self._known.household.split_skill(text)
        # A person, or a thing of no kind that the world names, need not have been seen.
        return (verb, name) if verb in self._of_verb and word_of(name) in self._words else None

    def offers(self, listed: Iterable[Offer], robot: Known) -> list[Offer]:
        """Return those that may be possible, with the values that fit."""
        told = cache(robot.told)
        return [fitting for offer in listed if (fitting := _possible(offer, robot, told)) is not None]

    def recalls(self, words: Iterable[str], goal: str) -> list[str]:
        """Return the words about which memory has something to say, or that the goal may mean: a fork, some glasses."""
        known = self._known
        return [word for word in words if known.sightings(word) or known.likely(word) or _may_mean(goal, word)]


def _may_mean(goal: str, word: str) -> bool:
    return any(names(goal, f"{part}{ending}") for part in word.split() for ending in ("", "s", "es"))


def _is_verb_and_thing(skill: Skill) -> bool:
    return len(skill.parameters) == 1 and skill.listed == skill.verb


def _holds(skill: Skill, robot: Known) -> bool:
    """Whether no need is known not to hold, of those that name no parameter."""
    return not any(
        need.holds({}, robot) is False for need in skill.requires if need.fact != NUMBER and not need.parameters
    )


def _possible(offer: Offer, robot: Known, told: Told) -> Offer | None:
    skill, now = offer.skill, dict(offer.now)
    if not skill.requires:
        return offer
    if not _holds(skill, robot):
        return None
    for name, parameter in skill.parameters.items():
        of = parameter.of if isinstance(parameter, List) else parameter
        options = of.options(now.get(name)) if isinstance(of, Named | Choice) else None
        if options is not None and any(name in need.parameters for need in skill.requires):
            now[name] = tuple(_fitting(skill, name, options, robot, told))
    return replace(offer, now=now) if skill.words.possible(now) else None


def _fitting(skill: Skill, parameter: str, names: Iterable[str], robot: Known, told: Told) -> Iterable[str]:
    """Return the values of a parameter for which no need of it alone is known not to hold."""
    for need in skill.requires:
        if need.fact not in UNTOLD and need.about == (f"{{{parameter}}}",):
            known, other = told(need.fact)
            names = [name for name in names if known.get(name, other) is not (not need.is_so)]
        elif need.parameters == {parameter}:
            names = [name for name in names if need.holds({parameter: name}, robot) is not False]
    return names


def why_not(said: str, things: Collection[str], known: Knowledge, robot: Known) -> str:
    """Say what is missing for a skill that was said, and what would help; empty: nothing is known to be missing.

    Who says no word for a thing has made a slip, or made it up.
    """
    household = known.household
    try:
        call = household.call(said)
    except ParameterError:
        return ""
    tells = known.words or known.rooms  # else its observations are words alone
    named = [name for _, kind, name in call.named if isinstance(kind, Thing)] if tells else []
    if unseen := next((name for name in named if not known.knows(name)), ""):
        is_word = word_of(unseen) in things
        return f"'{said}' is not done: {never_seen(unseen, known, robot)}" if is_word else ""
    for need in call.unmet(robot):
        first = helping(need, call.values, robot, household.skills)
        return f"'{said}' is not done: {need.reason(call.values, robot)}{f'; first {first}' if first else ''}."
    return ""


def never_seen(name: str, known: Knowledge, robot: Known) -> str:
    """Say that something has not been seen, what else of its kind was, and where nobody has looked."""
    word = word_of(name)
    others = [one.name for one in known.sightings(word)]
    also = f", but {', '.join(others[:MOST_NAMED])}" if others else ""
    return f"no {name if others else word} has been seen{also}.{_not_searched([word], known, robot)}"


def _not_searched(missing: Iterable[str], known: Knowledge, robot: Known) -> str:
    # Furniture is in no cupboard: it is found by going into rooms.
    inside = known.unsearched() if any(map(known.may_be_inside, missing)) else []
    here_first = sorted(inside, key=lambda place: (place.name != robot.at, place.room != robot.room))
    places = [f"{one.name} (closed)" if "closed" in known.states(one.name) else one.name for one in here_first]
    left = [*places, *(room for room in known.rooms if room not in known.entered)]
    more = ", …" if len(left) > MOST_NAMED else ""
    said = f" Not searched yet: {', '.join(left[:MOST_NAMED])}{more}." if left else ""
    if robot.at in {one.name for one in here_first} and "closed" in known.states(robot.at):
        opening = helping(Need("open", (robot.at,)), {}, robot, known.household.skills)
        said += f" {robot.at} is closed: {opening} to look into it." if opening else ""
    return said


def line(goal: str, things: Iterable[str], known: Knowledge, robot: Known) -> str:
    """Return what a robot knows that matters for a goal, in one line."""
    where = f"at {robot.at}" if robot.at else ""
    if robot.room and robot.room != robot.at:
        where = f"{where} in {robot.room}".strip()
    said = [f"You are {where}." if where else ""]
    if robot.held or known.household.hands:  # else the world says nothing of what is held
        said.append(f"You hold {', '.join(robot.held) or 'nothing'}.")
    words = [word for word in whole_names(goal, things) if not known.is_room(word)]
    named = {word: [one for one in known.sightings(word) if not one.held] for word in words}
    each_seen = [one for each in named.values() for one in each]
    near = [one.name for one in each_seen if one.name in robot.near and one.name != robot.at]
    if near:
        said.append(f"Within reach: {', '.join(near[:MOST_NAMED])}.")
    if seen := [one for one in each_seen if one.name in known.there and one.name not in near]:
        said.append(f"Seen: {', '.join(map(_placed, seen[:MOST_NAMED]))}.")
    if left := [f"{_placed(one)} any more" for one in each_seen if one.name not in known.there]:
        said.append(f"Not there: {', '.join(left[:MOST_NAMED])}.")
    if missing := [word for word, each in named.items() if not each and not known.sightings(word)]:
        said.append(f"No {' and no '.join(missing)} has been seen.{_not_searched(missing, known, robot)}")
    return " ".join(filter(None, said))


def whole_names(goal: str, things: Iterable[str]) -> list[str]:
    """Return the things that a goal names, without those whose word is a part of another's: no wine of a wine glass."""
    named = [word for word in dict.fromkeys(things) if names(goal, word)]
    return [word for word in named if not any(other != word and names(other, word) for other in named)]


def _placed(seen: Sighting) -> str:
    at = f" at {seen.place}" if seen.place and seen.place != seen.name else ""
    return f"{seen.name}{at}{f' in {seen.room}' if seen.room else ''}"


def about_thought(thought: str, listed: Sequence[str], things: Collection[str], known: Knowledge, robot: Known) -> str:
    """Say what is missing for a skill that a thought names and that is not on offer; empty if there is none.

    A model that is held to what is on offer would else do the same to something else.
    """
    said = f" {' '.join(words(without_articles(thought)))} "
    for skill in filter(_is_verb_and_thing, known.household.skills):
        about = said.partition(f" {skill.verb} ")[2]
        for word in whole_names(about, things):
            if not about.startswith(f"{word.casefold()} "):
                continue
            of_word = [one.name for one in known.sightings(word)]
            if not of_word and not known.is_room(word):
                unseen = never_seen(word, known, robot)
                return f"{unseen[0].upper()}{unseen[1:]}"
            if of_word and not any(f"{skill.verb} {name}" in listed for name in of_word):
                return why_not(f"{skill.verb} {of_word[0]}", things, known, robot)
    return ""


def in_one_form(text: str, is_named: Callable[[str], bool] = lambda _: True) -> str:
    """Return an observation with names as skills have them, ``mug 2`` for ``mug (2)``; what is held lies nowhere.

    ``is_named`` says whether that is a name: a label that was read, such as ``Aspirin (500)``, stays as it is.
    """
    plain = _with_names(text, is_named)
    hold = _HOLD.search(plain)
    held = hold[1].split(", ") if hold else []
    return _SEE.sub(lambda seen: f"{seen[1]}{_without(seen[2], held)}", plain) if held else plain


def _with_names(text: str, is_named: Callable[[str], bool]) -> str:
    parts, end = [], 0
    for match in _NUMBERS.finditer(text):
        begin = _begin_of_name(text, end, match.start())
        word, numbers = text[begin : match.start()], match[1].split(", ")
        names = [f"{word} {number}" for number in numbers]
        is_one = bool(word) and any(map(is_named, names))
        parts += [text[end:begin], ", ".join(names) if is_one else text[begin : match.end()]]
        end = match.end()
    return "".join((*parts, text[end:]))


def _begin_of_name(text: str, since: int, end: int) -> int:
    """Return where the name begins that ends at a place; there, if none does."""
    said = _WORDS.search(text[max(since, end - _MOST_BEFORE) : end])
    words = said[0] if said else ""
    before = _BEFORE.match(words.lstrip())
    behind = end - len(words.lstrip()) + (before.end() if before else 0)
    letter = _LETTER.search(text, behind, end)
    return letter.start() if letter else end


def _without(listed: str, held: Sequence[str]) -> str:
    return ", ".join(one for one in listed.split(", ") if one not in held) or "nothing else"
