"""Routines of any shape, by a seed."""

from __future__ import annotations

import random
from typing import Any

from reactree_ros.agent.observation import Outcome
from reactree_ros.agent.parameters import Choice, Number, Person, Text, Thing
from reactree_ros.agent.skill import Skill as Declared
from reactree_ros.household.household import SKILLS
from reactree_ros.routine import model

#: A household's skills, and some that take numbers, choices and texts.
DECLARED = (
    *SKILLS,
    Declared(name="drive", wording="drive forward by {metres} m", parameters={"metres": Number(0, 5.0, 0.1, "m")}),
    Declared(
        name="hand over",
        wording="hand {thing} to {person}",
        parameters={"thing": Thing(), "person": Person()},
        effect={"released": "thing"},
    ),
    Declared(
        name="say",
        wording="say {text} in a {voice} voice",
        parameters={"text": Text(), "voice": Choice(("low", "loud"))},
    ),
    Declared(name="weigh", wording="weigh {thing}", parameters={"thing": Thing()}, returns={"grams": Number(0, 5000)}),
    Declared(name="Sequence", wording="make a sequence of {name}", parameters={"name": Text(80)}),
)
_NAMES = ("thing", "place", "who", "room_2", "count", "words")
_KINDS: tuple[Any, ...] = ("thing", "place", "room", "person", "number", "text")
_WORDS = ("mug 1", "the “big” table", 'it\'s <here> & "there"', "{{braces}}", "'quoted'", " spaces  ", "ä\t\n😀", "a;b")


class AnyRoutine:
    def __init__(self, seed: int, *, labelled: bool = True, is_run: bool = False) -> None:
        self._labelled, self._pauses = labelled, (0, 1) if is_run else (0, 250, 3_600_000)
        self._random = random.Random(seed)
        self._names: list[str] = []
        self._set: list[str] = []
        self._left = 0

    def make(self) -> model.Routine:
        pick = self._random
        roles = pick.sample(_NAMES, pick.randint(0, 4))
        self._names, self._set, self._left = list(roles), [], pick.randint(1, 40)
        words = [self._plain(), *(f"{{{name}}}" for name in pick.sample(roles, len(roles)))]
        return model.Routine(
            name=pick.choice(("fetch", "Fetch it. Now-ish", "a_b", "ünï")),
            goal=" and ".join(words) or "x",
            roles=tuple(model.Role(name=name, kind=pick.choice(_KINDS)) for name in roles),
            body=self._node(1),
            labels=self._labels(),
        )

    def _plain(self) -> str:
        return self._random.choice(_WORDS).replace("{{", "").replace("}}", "")

    def _text(self) -> str:
        known = [f"{{{name}}}" for name in self._names]
        parts = [self._random.choice([*_WORDS, *known, *known]) for _ in range(self._random.randint(1, 3))]
        return self._random.choice(("", " ")).join(parts)

    def _children(self, depth: int, least: int = 1) -> tuple[Any, ...]:
        return tuple(self._node(depth + 1) for _ in range(self._random.randint(least, 4)))

    def _node(self, depth: int) -> Any:
        pick = self._random
        self._left -= 1
        leaves = (self._always, self._skill, self._goal, self._search, self._wait, self._script, self._pause)
        inner = (self._turns, self._parallel, self._loop, self._within, self._decorator)
        leaf = self._left < 1 or depth > 8 or pick.random() < 0.3
        return pick.choice(leaves)() if leaf else pick.choice(inner)(depth)

    def _skill(self) -> Any:
        pick = self._random
        skill = pick.choice(DECLARED)
        values = {name: self._value(one) for name, one in skill.parameters.items()}
        wording = pick.choice((skill.wording.format(**values), self._text()))
        expected = pick.choice((Outcome.DONE, Outcome.DONE, Outcome.PRECONDITION))
        said = model.taken_apart(wording, skill) is not None
        returns = {name: self._entry() for name in skill.returns if said and pick.random() < 0.5}
        looks = pick.random() < 0.3
        return model.Skill(wording=wording, expected=expected, returns=returns, looks=looks, labels=self._labels())

    def _labels(self) -> dict[str, str]:
        labels = (("name", "the “first” one"), ("_uid", "7"), ("_favorite", "false"), ("_description", "a < b & {c}"))
        return dict(self._random.sample(labels, self._random.choice((0, 0, 1, 3) if self._labelled else (0,))))

    def _entry(self) -> str:
        self._set.append(self._random.choice(("level", "tries", "e1")))
        self._names.append(self._set[-1])
        return self._set[-1]

    def _script(self) -> Any:
        pick = self._random
        value = pick.choice(("1", "0.5 + 2", "'mug 1'", '"it\'s"', "true", *self._set))
        if self._set and pick.random() < 0.4:
            return model.Script(code=f"!({pick.choice(self._set)} == {value})", checks=True)
        return model.Script(code=f"{self._entry()} := {value}", labels=self._labels())

    def _pause(self) -> Any:
        return model.Pause(milliseconds=self._random.choice(self._pauses))

    def _value(self, parameter: object) -> str:
        if self._names and self._random.random() < 0.5:
            return f"{{{self._random.choice(self._names)}}}"
        if isinstance(parameter, Number):
            return self._random.choice(("1.5", "3", "0.70"))
        if isinstance(parameter, Choice):
            return "low"
        return self._random.choice(("mug 1", '"dinner is ready"', "x")) if isinstance(parameter, Text) else "mug 1"

    def _always(self) -> Any:
        return model.Always(succeeds=self._random.random() < 0.5)

    def _goal(self) -> Any:
        return model.Goal(text=self._text())

    def _search(self) -> Any:
        pick = self._random
        order = tuple(pick.choice(("kitchen", "desk", " odd <one> ", "x")) for _ in range(pick.randint(0, 3)))
        search = model.Search(finds=pick.choice(("found", "other_1", f"f{'x' * 39}")), of=self._text(), order=order)
        self._names.append(search.finds)
        return search

    def _wait(self) -> Any:
        return model.WaitFor(condition=self._text(), seconds=self._random.choice((None, 0, 1, 0.1, 86400)))

    def _turns(self, depth: int) -> Any:
        kind: Any = self._random.choice((model.Sequence, model.Fallback))
        children = self._children(depth)
        slow = [child for child in children if model.takes_time(child)]
        ways = [True, "kept", *(["again"] if kind is model.Sequence else [])]
        anew = [False] * 3 if all(map(model.only_looks, slow[:-1])) else []
        return kind(children=children, memory=self._random.choice([*ways, *anew]))

    def _parallel(self, depth: int) -> Any:
        policy: Any = self._random.choice(("majority", "all", "concurrent"))
        return model.Parallel(children=self._children(depth), policy=policy)

    def _loop(self, depth: int) -> Any:
        condition = self._text()
        kind: Any = self._random.choice((model.RepeatUntil, model.While))
        return kind(condition=condition, children=self._children(depth))

    def _within(self, depth: int) -> Any:
        return model.Within(seconds=self._random.choice((1, 0.25, 30, 3600)), children=self._children(depth))

    def _decorator(self, depth: int) -> Any:
        does: Any = self._random.choice(("invert", "succeed", "fail", "retry", "repeat"))
        times = self._random.choice((0, 1, 3, 10_000)) if does in ("retry", "repeat") else 1
        return model.Decorator(does=does, times=times, child=self._node(depth + 1))
