"""What an agent node is offered and told by what its robot knows: possible skills, reasons, and a line before each act.

Models that were trained for a planner know their prompts as they are; they are offered all, and told nothing more.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from reactree_ros.agent.needs import Need
from reactree_ros.agent.parameters import Choice, List, Named, ParameterError, Thing
from reactree_ros.agent.skill import Offer, Skill, SkillCall, helping
from reactree_ros.agent.text import names, without_articles, words
from reactree_ros.memory.knowledge import Knowledge, Known, Sighting

#: Places, or instances of a thing, that one sentence names at most.
MOST_NAMED = 8
#: Instances of a thing as a household lists them, e.g. ``plate (1, 3)``, after words that are none of its name.
_NUMBERED = re.compile(r"\b((?:\w+ )*?(?:see|hold|has|the|The|an?) )?([A-Za-z][\w ]*?) \((\d+(?:, \d+)*)\)")
_SEE, _HOLD = re.compile(r"([Yy]ou see )([^.]*)"), re.compile(r"You hold ([^.]*)")


class Offers:
    """Which of the skills that a world lists are possible, by what is known; what nobody knows is possible.

    The texts of a world that lists thousands are taken apart once: each decision then asks only for what is known.
    """

    def __init__(self, knowledge: Knowledge) -> None:
        self._known = knowledge
        self._listed: Sequence[str] = ()
        self._places: dict[Skill, dict[str, int]] = {}  # by what they are done to: where texts stand in the list
        self._others: list[int] = []

    def texts(self, listed: Sequence[str], robot: Known) -> list[str]:
        """Return those that may be possible, in their order."""
        if listed != self._listed:
            self._take_apart(listed)
        kept = list(self._others)
        for skill, places in self._places.items():
            kept += self._possible(skill, places, robot)
        return [listed[at] for at in sorted(kept)]

    def _take_apart(self, listed: Sequence[str]) -> None:
        household = self._known.household
        of_verb = {skill.verb: skill for skill in household.skills if _is_verb_and_thing(skill)}
        self._listed, self._places, self._others = list(listed), {}, []
        for at, text in enumerate(listed):
            verb, name = household.split_skill(text)
            if (skill := of_verb.get(verb)) is None or not name[-1:].isdigit():  # such as a person
                self._others.append(at)
            else:
                self._places.setdefault(skill, {})[name] = at

    def _possible(self, skill: Skill, places: Mapping[str, int], robot: Known) -> Iterator[int]:
        (parameter,) = skill.parameters
        if not _holds(skill, {}, robot):
            return
        for name in self._candidates(skill, places, robot):
            if _holds(skill, {parameter: name}, robot):
                yield places[name]

    def _candidates(self, skill: Skill, places: Mapping[str, int], robot: Known) -> Iterable[str]:
        bounded = (robot.within(need.fact) for need in skill.requires if need.is_so and need.about[0].startswith("{"))
        few = next((names for names in bounded if names is not None), None)
        if few is None:
            few = self._known.names if self._known.words else places
        return [name for name in dict.fromkeys(few) if name in places]

    def offers(self, listed: Iterable[Offer], robot: Known) -> list[Offer]:
        """Return those that may be possible, with the values that fit."""
        return [fitting for offer in listed if (fitting := self._fitting(offer, robot)) is not None]

    def _fitting(self, offer: Offer, robot: Known) -> Offer | None:
        skill = offer.skill
        if not skill.requires:
            return offer
        now = dict(offer.now)
        for name, parameter in skill.parameters.items():
            of = parameter.of if isinstance(parameter, List) else parameter
            options = of.options(now.get(name)) if isinstance(of, Named | Choice) else None
            if options is not None and any(f"{{{name}}}" in about for need in skill.requires for about in need.about):
                now[name] = tuple(one for one in options if _holds(skill, {name: one}, robot))
        return replace(offer, now=now) if _holds(skill, {}, robot) and skill.words.possible(now) else None

    def recalls(self, words: Iterable[str], goal: str) -> list[str]:
        """Return the words about which memory has something to say, or that the goal names."""
        known, words = self._known, [*words]
        named = {*whole_names(goal, words)}
        return [word for word in words if word in named or known.sightings(word) or known.likely(word)]


def _is_verb_and_thing(skill: Skill) -> bool:
    return len(skill.parameters) == 1 and skill.listed == skill.verb


def _holds(skill: Skill, values: Mapping[str, str], robot: Known) -> bool:
    """Whether no need is known not to hold, of those that name just these parameters."""
    return not any(_is_about(need, values) and need.holds(values, robot) is False for need in skill.requires)


def _is_about(need: Need, values: Mapping[str, str]) -> bool:
    named = {name for about in need.about for name in re.findall(r"{(.*?)}", about)}
    return need.fact != "number" and named == set(values)


def why_not(said: str, known: Knowledge, robot: Known) -> str:
    """Say what is missing for a skill that was said, and what would help; empty: nothing is known to be missing."""
    household = known.household
    try:
        call = household.call(said)
    except ParameterError:
        return ""
    if unseen := next(_unseen(call, known), ""):
        return f"'{said}' is not done: {never_seen(unseen, known, robot)}"
    for need in call.unmet(robot):
        first = helping(need, call.values, robot, household.skills)
        return f"'{said}' is not done: {need.reason(call.values, robot)}{f'; first {first}' if first else ''}."
    return ""


def _unseen(call: SkillCall, known: Knowledge) -> Iterator[str]:
    for _, kind, name in call.named:
        if isinstance(kind, Thing) and known.words and not known.knows(name):
            yield name


def never_seen(name: str, known: Knowledge, robot: Known) -> str:
    """Say that something has not been seen, what else of its kind was, and where nobody has looked."""
    word = re.sub(r" \(?\d+\)?$", "", name)
    others = [one.name for one in known.sightings(word)]
    also = f", but {', '.join(others[:MOST_NAMED])}" if others else ""
    return f"no {name if others else word} has been seen{also}.{_not_searched(known, robot)}"


def _not_searched(known: Knowledge, robot: Known) -> str:
    here_first = sorted(known.unsearched(), key=lambda place: place.room != robot.room)
    places = [f"{one.name} (closed)" if "closed" in known.states(one.name) else one.name for one in here_first]
    left = [*places, *(room for room in known.rooms if room not in known.entered)]
    more = ", …" if len(left) > MOST_NAMED else ""
    return f" Not searched yet: {', '.join(left[:MOST_NAMED])}{more}." if left else ""


def line(goal: str, things: Iterable[str], known: Knowledge, robot: Known) -> str:
    """Return what a robot knows that matters for a goal, in one line."""
    where = f"at {robot.at}" if robot.at else ""
    if robot.room and robot.room != robot.at:
        where = f"{where} in {robot.room}".strip()
    said = [f"You are {where}." if where else "", f"You hold {', '.join(robot.held) or 'nothing'}."]
    named = {word: [one for one in known.sightings(word) if not one.held] for word in whole_names(goal, things)}
    if seen := [one for each in named.values() for one in each]:
        said.append(f"Seen: {', '.join(map(_placed, seen[:MOST_NAMED]))}.")
    if missing := [word for word, each in named.items() if not each and not known.sightings(word)]:
        said.append(f"No {' and no '.join(missing)} has been seen.{_not_searched(known, robot)}")
    return " ".join(filter(None, said))


def whole_names(goal: str, things: Iterable[str]) -> list[str]:
    """Return the things that a goal names, without those whose word is a part of another's: no wine of a wine glass."""
    named = [word for word in dict.fromkeys(things) if names(goal, word)]
    return [word for word in named if not any(other != word and names(other, word) for other in named)]


def _placed(seen: Sighting) -> str:
    at = f" at {seen.place}" if seen.place and seen.place != seen.name else ""
    return f"{seen.name}{at}{f' in {seen.room}' if seen.room else ''}"


def about_thought(thought: str, listed: Sequence[str], things: Iterable[str], known: Knowledge, robot: Known) -> str:
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
            if not of_word:
                unseen = never_seen(word, known, robot)
                return f"{unseen[0].upper()}{unseen[1:]}"
            if not any(f"{skill.verb} {name}" in listed for name in of_word):
                return why_not(f"{skill.verb} {of_word[0]}", known, robot)
    return ""


def in_one_form(text: str) -> str:
    """Return an observation with names as skills have them, ``mug 2`` for ``mug (2)``; what is held lies nowhere."""
    plain = _NUMBERED.sub(_each, text)
    hold = _HOLD.search(plain)
    held = hold[1].split(", ") if hold else []
    return _SEE.sub(lambda seen: f"{seen[1]}{_without(seen[2], held)}", plain) if held else plain


def _each(match: re.Match[str]) -> str:
    before, word, numbers = match.groups(default="")
    return before + ", ".join(f"{word} {number}" for number in numbers.split(", "))


def _without(listed: str, held: Sequence[str]) -> str:
    return ", ".join(one for one in listed.split(", ") if one not in held) or "nothing else"
