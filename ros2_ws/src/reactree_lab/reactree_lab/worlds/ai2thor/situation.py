"""Reads a prompt of AI2-THOR's household: the task, the trajectory, and the known room."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from reactree_ros.agent.household import split_skill
from reactree_ros.agent.kinds.expand import Expand
from reactree_ros.agent.turns import EXPANSION_FAILED, kind_said
from reactree_ros.household.expert.reading import find_task

_START = re.compile(
    r"You are in the house, and you arrive at the [a-z ]+, Looking quickly around the room, you see (.*)"
)
_LISTED = re.compile(r"\b([A-Z]\w*) \((\d[\d, ]*)\)")
_HELD = re.compile(r"I am holding (\w+ \(\d+\)) now\.")
_CLOSED = re.compile(r"\b(\w+ \(\d+\)) is closed\.")
_RECALLED = re.compile(r"You saw (\w+ \(\d+\)) near (\w+ \(\d+\))\.")
_SLICED = re.compile(r"\. ([^.]*) are sliced\.")
_VERBS = ("recall location of", "go to", "pick up", "put down", "turn on", "turn off", "open", "close", "slice")


@dataclass
class Situation:
    """The contents of a prompt, up to its last line. Instances are written as in skills: ``CounterTop (1)``."""

    task: str  # the agent node's task
    can_recall: bool  # whether there is a working memory
    can_expand: bool  # whether the agent node may expand; false after a refused expansion, too
    fixed: tuple[str, ...] = ()  # the receptacles that the look around the room showed
    near: tuple[str, ...] = ()  # the latest observation's list
    held: str = ""  # the held thing; empty for none
    at: str = ""  # the place that it went to or opened last
    seen: dict[str, str] = field(default_factory=dict)  # places of instances, seen here or told by working memory
    looked: set[str] = field(default_factory=set)  # places that it went to
    opened: set[str] = field(default_factory=set)  # instances known to be open
    closed: set[str] = field(default_factory=set)  # instances known to be closed
    running: set[str] = field(default_factory=set)  # instances that are turned on
    inside: dict[str, str] = field(default_factory=dict)  # places of put down instances, as long as they are there
    treated: set[tuple[str, str]] = field(default_factory=set)  # treatments, and what was cleaned, heated or cooled
    slices: set[str] = field(default_factory=set)  # instances that are slices
    recalled: set[str] = field(default_factory=set)  # classes, in lower case, that working memory was asked about
    refused: set[tuple[str, str]] = field(default_factory=set)  # acts without effect, with the agent's place
    done: list[tuple[str, str]] = field(default_factory=list)  # acts that had an effect, with what was held before
    thoughts: set[str] = field(default_factory=set)
    fallen: bool = False  # whether its expansion failed

    def act(self, skill: str, line: str) -> None:
        verb, thing = split_skill(skill, _VERBS)
        before = self.held
        if verb == "recall location of":
            self.recalled.add(thing.lower())
            for instance, place in _RECALLED.findall(line):
                self.seen.setdefault(instance, place)
            return
        match = _HELD.search(line)
        self.held = match[1] if match else ""
        worked = line.startswith(("You arrive at ", "You open ", "You close ", "You turn o", "You slice ", "You put "))
        worked = worked or (verb == "pick up" and self.held == thing)
        if not worked or line.startswith("You put down failed"):
            self.refused.add((skill, self.at))
            self._refused(verb, thing, line)
            return
        self._look(line)
        self.done.append((skill, before))
        if verb in ("go to", "open"):
            self._arrive(verb, thing, line)
        elif verb == "close":
            self.opened.discard(thing)
            self.closed.add(thing)
            self._treat("cool", thing, "Fridge")
        elif verb == "turn on":
            self.running.add(thing)
            self._treat("heat", thing, "Microwave")
            self._treat("clean", thing, "Faucet")
        elif verb == "turn off":
            self.running.discard(thing)
        elif verb == "pick up":
            self.inside.pop(thing, None)
            self.seen.pop(thing, None)
        elif verb == "put down":
            self.inside[thing] = self.seen[thing] = line.partition(" on ")[2].partition(". ")[0]
        elif verb == "slice" and (cut := _SLICED.search(line)):
            self.slices.update(instances(cut[1]))

    def _arrive(self, verb: str, thing: str, line: str) -> None:
        self.at = thing
        if f"{thing} is closed." not in line:
            gone = [name for name, place in self.seen.items() if place == thing and name not in self.near]
            for name in gone:
                del self.seen[name]
        for name in self.near:
            if name not in (thing, self.held):
                self.seen[name] = thing
        if verb == "open":
            self.opened.add(thing)
            self.closed.discard(thing)
            return
        self.looked.add(thing)
        closed = set(_CLOSED.findall(line))
        self.closed |= closed
        self.opened -= closed
        if " is open." in line:
            self.opened.add(thing)

    def _refused(self, verb: str, thing: str, line: str) -> None:
        if verb == "open" and " already open" in line:
            self.opened.add(thing)
            self.closed.discard(thing)
        elif verb == "close" and " already closed" in line:
            self.closed.add(thing)
            self.opened.discard(thing)
        if "You see " in line:  # it was dropped
            self._look(line)

    def _look(self, line: str) -> None:
        listed = line.partition("ou see ")[2]
        self.near = instances(_SLICED.sub(".", listed).partition(" I am holding ")[0])

    def _treat(self, how: str, thing: str, appliance: str) -> None:
        if class_of(thing) != appliance:
            return
        where = {"Faucet": ("SinkBasin", "Sink")}.get(appliance, (appliance,))
        self.treated |= {(how, name) for name, place in self.inside.items() if class_of(place) in where}


def class_of(instance: str) -> str:
    """Return the class of an instance: ``CounterTop`` of ``CounterTop (1)``."""
    return instance.partition(" ")[0]


def instances(text: str) -> tuple[str, ...]:
    """Return the instances in a list: ``Drawer (1)``, ``Drawer (2)`` and ``Bed (1)`` of ``Drawer (1, 2), Bed (1)``."""
    return tuple(f"{name} ({number})" for name, numbers in _LISTED.findall(text) for number in numbers.split(", "))


def read_prompt(system: str, lines: Sequence[str]) -> Situation | None:
    """Read a prompt; None if it has no task with a starting observation of AI2-THOR."""
    found = find_task(lines, _START)
    if found is None:
        return None
    task, start_at = found
    situation = Situation(
        task=task,
        can_recall="recall location of" in system,
        can_expand=Expand.word in system,
    )
    first = lines[start_at]
    situation.fixed = instances(first.partition("you see ")[2].partition(" I am holding ")[0])
    match = _HELD.search(first)
    situation.held = match[1] if match else ""
    _read_trajectory(situation, lines[start_at + 1 :])
    return situation


def _read_trajectory(situation: Situation, lines: Iterable[str]) -> None:
    acted = ""
    for line in lines:
        if (kind := kind_said(line)) is not None and kind.accompanies:
            situation.thoughts.add(line.removeprefix(kind.opening))
        elif kind is not None and kind.counts.steps:
            acted = line.removeprefix(kind.opening)
        elif kind is not None and kind.of_lines:
            situation.can_expand = False
        elif line.startswith(EXPANSION_FAILED):
            situation.fallen = True
        elif acted:
            situation.act(acted, line)
            acted = ""
