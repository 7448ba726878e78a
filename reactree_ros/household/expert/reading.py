"""Reads a prompt: the agent node's task, its trajectory, and the known house."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from reactree_ros.agent.household import split_skill
from reactree_ros.agent.turns import EXPANSION_FAILED, kind_said
from reactree_ros.household.household import ONE_HAND
from reactree_ros.household.rules import FULL
from reactree_ros.household.scene import HANDS
from reactree_ros.household.vocabulary import FROM, bare, means

_TARGET = "Target_domain:\n"
_TASK = "Your task is to: "
_START = re.compile(r"You are in the house, and there are \d+ rooms?: (?P<rooms>.*?)\. You are in the middle of an? ")
_LISTED = re.compile(r"(?<![A-Za-z ]) *([A-Za-z][A-Za-z ]*?) (?:\((\d[\d, ]*)\)|(\d+)(?=[,.]|$))")
_RECALLED = re.compile(
    r"You saw (?P<instance>[A-Za-z ]{1,100} \d+)(?: near (?P<near>[A-Za-z ]{1,100} \d+))?"
    r"(?: in (?P<room>[a-z ]{1,100} \d+))?\."
)
_EFFECTS = tuple(
    f"You {verb} " for verb in ("are in", "move", "arrive", "pick up", "put down", "open", "close", "turn on")
)
#: Ends the text after a stop or a pause has interrupted an act; the observation follows.
_GO_ON = " You may go on. "
#: How one of several robots learns its name, at the start and if it replaces another one.
_INTRODUCED = re.compile(
    r" You are (?P<me>[^,.]{1,100}), one of (?P<others>[^.]{1,1000}) and (?P<last>[^,.]{1,100})\.$"
)
_STANDS_IN = re.compile(r"(?:^|\. )You are (?P<me>[^,.]+) now\.$")
#: Reports of other robots about their work, at the end of a line.
_LOOKED = re.compile(r" [^.,\s]+ has looked at (?P<spot>[A-Za-z ]{1,100} \d+)\.")
_SEEN = re.compile(
    r" [^.,\s]+ saw (?P<instance>[A-Za-z ]{1,100} \d+) near (?P<near>[A-Za-z ]{1,100} \d+)"
    r" in (?P<room>[a-z ]{1,100} \d+)\."
)
#: A report that a robot tried something without success.
_FAILED = ("You could not ", "You tried to ")
#: A report of the subgoals that succeeded in a failed expansion.
_SUCCEEDED, _NOT_BEGUN, _OTHERWISE = " Succeeded: ", ". Not begun: ", " Go on otherwise."
#: A report of the places searched in a room.
_SEARCHED = re.compile(r"(?:^| )Searched(?: in [a-z ]{1,100} \d+)?: (?P<places>[^;.]*)")
#: Number of tries for a skill without success on a robot.
TRIES = 3
_CONTROL_FLOWS = ("sequence", "fallback", "parallel")
_ANSWER = re.compile(r'(?:The person answers: |That was asked already; the answer was )"(?P<words>.*)"')


@dataclass(frozen=True)
class Sighting:
    """Last sighting of an instance; ``near`` is a receptacle, or empty if only the room is known.

    ``room`` is empty if the observer did not know it any more.
    """

    instance: str
    near: str
    room: str


@dataclass
class Situation:
    """The contents of a prompt, up to its last line. Instances are written as in skills: ``kitchen cabinet 3``."""

    task: str  # the agent node's task
    can_recall: bool  # whether there is a working memory
    control_flows: tuple[str, ...]  # those of an expansion; none if it cannot expand, or an expansion was refused
    rooms: tuple[str, ...] = ()  # every room of the house
    room: str = ""  # the agent's room
    views: dict[str, tuple[str, ...]] = field(default_factory=dict)  # each room's view from its middle, if looked at
    near: tuple[str, ...] = ()  # things next to the agent: the latest list after an arrival or an opening
    held: tuple[str, ...] = ()  # things in the hands
    at: str = ""  # the instance that it walked to last
    visits: Counter[str] = field(default_factory=Counter)  # how often it arrived where it was not closed, or opened it
    looks: dict[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict)  # room and latest list, where it walked
    reached: set[str] = field(default_factory=set)  # instances that were next to it at some time
    opened: set[str] = field(default_factory=set)  # instances known to be open
    closed: set[str] = field(default_factory=set)  # instances known to be closed
    shut: set[str] = field(default_factory=set)  # those closed here: their contents must be seen again
    missed: set[str] = field(default_factory=set)  # acts that picked up nothing although the thing had been seen once
    recalled: dict[str, tuple[Sighting, ...]] = field(default_factory=dict)  # working memory's answers, by word
    placed: dict[str, str] = field(default_factory=dict)  # instances put down, with their places
    settled: set[str] = field(default_factory=set)  # those where a goal wants them, see :meth:`settle`
    brought: tuple[str, ...] = ()  # things in the hands at the start
    refused: set[tuple[str, str]] = field(default_factory=set)  # acts without effect despite a chance, with the place
    done: set[str] = field(default_factory=set)  # acts that had an effect
    thoughts: set[str] = field(default_factory=set)
    hands: int = HANDS  # number of things that it can hold
    failed: Counter[str] = field(default_factory=Counter)  # how often acts failed without a refusal
    expansions: int = 0  # how often it decided to expand
    expandable: tuple[str, ...] = ()  # control flows of an expansion, if more than one expansion is allowed
    fallen: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)  # failed: control flow, subgoals reached
    searched: Counter[str] = field(default_factory=Counter)  # how often an instance was reported as searched, by anyone
    me: str = ""  # its own name, if there are several robots
    crew: tuple[str, ...] = ()  # the robots; empty if there is only one
    told: set[str] = field(default_factory=set)  # places that others have looked at meanwhile
    answers: dict[str, str] = field(default_factory=dict)  # a person's, by question in order; empty if nobody answered

    def start(self, line: str) -> None:
        self._look_up(line)
        if introduced := _INTRODUCED.search(line):
            self.me, self.crew = introduced["me"], (*introduced["others"].split(", "), introduced["last"])

    def _look_up(self, line: str) -> None:
        match = _START.match(line)
        if match is None:
            return
        self.rooms = instances(match["rooms"])
        here = instances(line[match.end() :])
        self.room, self.near, self.at = here[0] if here else "", (), ""
        self._look_around(line)
        self._feel(line)
        self.brought = self.held

    def act(self, skill: str, line: str) -> None:
        """Read a skill and its observation; an interrupted one may be tried again."""
        line = self._hear(line)
        before, interrupted, seen = line.partition(_GO_ON)
        if interrupted:
            if stands_in := _STANDS_IN.search(before):
                self.me = stands_in["me"]
            self._look_up(seen)
            return
        verb, thing = split_skill(skill, _VERBS)
        if line.startswith(FULL) and self.held:
            self.hands = min(self.hands, len(self.held))
        held_before, had_a_chance = self.held, self._has_a_chance(verb, thing)
        self._feel(line)
        if line.startswith(_FAILED) and self._is_worth_another_try(verb, skill):
            return
        if verb == "recall location of":
            self.recalled[thing] = _sightings(line)
        elif line.startswith("You move to the "):
            self.room, self.near, self.at = thing, (), ""
            self._look_around(line)
        elif verb == "go to" and line.startswith("You arrive at the "):
            self.at = thing
            self._note_door(thing, line)
            self._look_near(line)
        elif verb == "open" and (line.startswith("You open ") or " is already open." in line):
            self.opened.add(thing)
            self.closed.discard(thing)
            self.shut.discard(thing)
            self.refused -= {one for one in self.refused if one[1] == thing and one[0].startswith("put down ")}
            self._look_near(line)
        elif verb == "pick up" and thing in self.held and thing not in held_before:
            self.placed.pop(thing, None)
            self._forget(thing)
        elif verb == "put down" and line.startswith("You put down ") and thing not in self.held:
            self.placed[thing] = self.at
            self._lie(thing)
        elif verb == "close" and (line.startswith("You close ") or " is already closed." in line):
            self.opened.discard(thing)
            self.closed.add(thing)
            self.shut.add(thing)
            if thing == self.at:
                self.near = ()  # its contents cannot be reached any more
        elif verb != "turn on" or not (line.startswith("You turn on ") or " is already turned on." in line):
            if self.shut and verb == "pick up" and skill not in self.missed:
                self.missed.add(skill)
                self._forget(thing)  # the door of its container may have been closed
            elif had_a_chance:
                self.refused.add((skill, self.at))
            return
        self.done.add(skill)

    def _hear(self, line: str) -> str:
        if not self.crew:
            return line
        self.told.update(match["spot"] for match in _LOOKED.finditer(line))
        for match in _SEEN.finditer(line):
            word = word_of(match["instance"])
            others = (one for one in self.recalled.get(word, ()) if one.instance != match["instance"])
            self.recalled[word] = (*others, Sighting(match["instance"], match["near"], match["room"]))
        return _SEEN.sub("", _LOOKED.sub("", line))

    def _is_worth_another_try(self, verb: str, skill: str) -> bool:
        if verb == "go to":
            self.near, self.at = (), ""
        self.failed[skill] += 1
        return self.failed[skill] < TRIES

    def settle(self, wanted: Iterable[tuple[str, str]]) -> None:
        places = set(wanted)
        self.settled = {name for name, at in self.placed.items() if any(self.lies(name, at, *one) for one in places)}

    def lies(self, instance: str, at: str, thing: str, place: str) -> bool:
        """Return whether an instance is such a thing, and is at or in such a place or room."""
        return is_a(instance, thing) and (is_a(at, place) or is_a(self._room_of(at), place))

    def _has_a_chance(self, verb: str, thing: str) -> bool:
        if verb == "put down":
            return thing in self.held and self.at not in self.closed
        return verb not in ("pick up", "open", "close", "turn on") or (
            thing in self.near and len(self.held) < self.hands
        )

    def _lie(self, thing: str) -> None:
        room, names = self.looks.pop(self.at, (self.room, ()))
        self.looks[self.at] = room, (*names, thing)
        self.near = (*self.near, thing)

    def _forget(self, thing: str) -> None:
        self.near = tuple(name for name in self.near if name != thing)
        for spot, (room, names) in self.looks.items():
            self.looks[spot] = room, tuple(name for name in names if name != thing)

    def fell(self, flow: str, line: str, after: str) -> None:
        self.fallen.append((flow, _succeeded(line)))
        _, waited, seen = after.partition(_GO_ON)
        self._look_up(seen if waited else after)

    def forget(self, spot: str) -> None:
        del self.searched[spot]
        self.looks.pop(spot, None)
        self.reached.discard(spot)
        self.done.discard(f"open {spot}")

    def resume(self, line: str) -> None:
        self.room, self.near, self.at = "", (), ""
        self.held = instances(line.partition(" You hold ")[2])

    def known(self, word: str) -> list[Sighting]:
        known = {}
        for place, (room, names) in self.looks.items():
            for name in names:
                if is_a(name, word):
                    known[name] = Sighting(name, place, room or self._room_of(place))
        for sighting in (one for one in self.recalled.get(bare(word), ()) if is_a(one.instance, word)):
            gone = sighting.near in self.looks and sighting.near not in self.closed
            known.setdefault(sighting.instance, replace(sighting, near="") if gone else sighting)
        return list(known.values())

    def _room_of(self, place: str) -> str:
        return next((room for room, names in self.views.items() if room and place in names), "")

    def _look_around(self, line: str) -> None:
        self.views[self.room] = _seen(line)

    def _look_near(self, line: str) -> None:
        self.near = _seen(line)
        self.visits[self.at] += self.at not in self.closed
        self.reached.update(self.near)
        _, before = self.looks.pop(self.at, ("", ()))  # the latest look comes last
        # Things seen before a door closed are still behind it.
        hidden = [name for name in before if name not in (*self.near, *self.held)] if self.at in self.closed else ()
        self.looks[self.at] = self.room, (*self.near, *hidden)

    def _feel(self, line: str) -> None:
        start = line.rfind(" You hold ")
        if start >= 0:
            self.held = instances(line[start + len(" You hold ") :])
        elif line.startswith(_EFFECTS):
            self.held = ()

    def _note_door(self, thing: str, line: str) -> None:
        if " is closed." in line:
            self.closed.add(thing)
            self.opened.discard(thing)
        elif " is open." in line:
            self.opened.add(thing)
            self.closed.discard(thing)


def word_of(instance: str) -> str:
    return instance.rpartition(" ")[0]


def is_a(instance: str, name: str) -> bool:
    """Return whether an instance is what a name is said of: ``apple 2``, ``apple``, or the word of its kind."""
    name = name.partition(FROM)[0]
    return name == instance or means(name, word_of(instance))


@lru_cache(maxsize=4096)
def instances(text: str) -> tuple[str, ...]:
    """Return the instances in a list: ``apple 1``, ``apple 2`` and ``mug 3`` of ``apple (1, 2), mug 3``."""
    found = ((word, numbers or number) for word, numbers, number in _LISTED.findall(text))
    return tuple(f"{word} {number}" for word, numbers in found for number in numbers.split(", "))


def rooms_in(prompt: str) -> tuple[str, ...]:
    starts = list(_START.finditer(prompt))
    return instances(starts[-1]["rooms"]) if starts else ()


def _succeeded(line: str) -> tuple[str, ...]:
    _, told, rest = line.partition(_SUCCEEDED)
    if not told or not rest.endswith(f".{_OTHERWISE}"):
        return ()
    return tuple(rest.removesuffix(f".{_OTHERWISE}").partition(_NOT_BEGUN)[0].split("; "))


@lru_cache(maxsize=4096)
def _seen(line: str) -> tuple[str, ...]:
    listed = line.partition("ou see ")[2].partition(" You hold ")[0]
    return instances(listed)


@lru_cache(maxsize=256)
def _sightings(line: str) -> tuple[Sighting, ...]:
    matches = _RECALLED.finditer(line)
    return tuple(Sighting(match["instance"], match["near"] or "", match["room"]) for match in matches if match["room"])


_VERBS = ("recall location of", "go to", "pick up", "put down", "turn on", "open", "close")


def split_prompt(prompt: str) -> tuple[str, list[str]]:
    """Return a prompt's system text, and the lines of the agent node's own text.

    A chat does not announce its examples: there the last task is the agent node's own.
    """
    system, examples, _ = prompt.partition("Source domain:")
    if examples or f"\n{_TARGET}" in prompt:
        return system, prompt.rpartition(f"\n{_TARGET}")[2].split("\n")
    told, begun, own = prompt.rpartition(f"\n{_TASK}")
    return told.partition(f"\n{_TASK}")[0] if begun else prompt, f"{_TASK if begun else ''}{own}".split("\n")


def find_task(lines: Sequence[str], start: re.Pattern[str]) -> tuple[str, int] | None:
    task_at = next((index for index, line in enumerate(lines) if line.startswith(_TASK)), None)
    if task_at is None:
        return None
    start_at = next((index for index in range(task_at, len(lines)) if start.match(lines[index])), None)
    if start_at is None:
        return None
    return "\n".join(lines[task_at:start_at]).removeprefix(_TASK).strip(), start_at


def read_prompt(system: str, lines: list[str]) -> Situation | None:
    found = find_task(lines, _START)
    if found is None:
        return None
    task, start_at = found
    situation = Situation(
        task=task,
        can_recall="recall location of" in system,
        control_flows=tuple(flow for flow in _CONTROL_FLOWS if f'"{flow}"' in system),
        hands=1 if ONE_HAND in system else HANDS,
    )
    situation.expandable = situation.control_flows
    situation.start(lines[start_at])
    _read_trajectory(situation, lines[start_at + 1 :])
    return situation


def _read_trajectory(situation: Situation, lines: list[str]) -> None:
    flow = ""
    for index, line in enumerate(lines):
        after = lines[index + 1] if index + 1 < len(lines) else ""
        kind = kind_said(line)
        if kind is None:
            if line.startswith(EXPANSION_FAILED):
                situation.fell(flow, line, after)
            elif _SEARCHED.search(line) and kind_said(lines[index - 1]) is None:
                places = (match["places"] for match in _SEARCHED.finditer(line))
                situation.searched.update(name for one in places for name in instances(one))
            continue
        what = line.removeprefix(kind.opening)
        if kind.accompanies:
            situation.thoughts.add(what)
        elif kind.counts.steps:
            situation.act(what, after if kind_said(after) is None else "")
        elif kind.counts.questions:
            answer = _ANSWER.match(after)
            situation.answers[what] = answer["words"] if answer else ""
        elif kind.of_lines:
            situation.control_flows, situation.expansions = (), situation.expansions + 1
            flow = after.removeprefix("- control flow: ")
