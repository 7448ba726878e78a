"""Routines as skills of a world or a robot: whoever plans sees one skill, and the world carries out its steps."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from dataclasses import replace
from pathlib import Path
from types import FunctionType
from typing import Any, NamedTuple, TypeAlias

from reactree_ros.agent.observation import REFUSALS
from reactree_ros.agent.parameters import Names, Parameter, ParameterError
from reactree_ros.agent.skill import LONGEST, WAIT, SkillCall, check_told_apart
from reactree_ros.agent.skill import Skill as Declared
from reactree_ros.agent.text import shortened_line
from reactree_ros.background.pending import Pending, asked, mapped, stepwise, where_late
from reactree_ros.errors import UserError
from reactree_ros.plugins import Registry
from reactree_ros.routine import model
from reactree_ros.routine.model import taken_apart
from reactree_ros.world.port import Observation, Offer, Offered, Outcome, Seen, SharedWorld, Use, World
from reactree_ros.world.wrappers import AddedSkills

#: What reads routines from a file or a folder, by the form that these have.
FORMS: Registry[FunctionType] = Registry("form of routines", "reactree_ros.routine_forms", FunctionType, first=())
#: The most steps of one skill: one that goes round for ever fails.
MOST_STEPS = 1000
#: What a step asks of the world, and comes to.
Steps: TypeAlias = Generator[Pending[Observation], Observation, Observation]


def routines_in(path: Path, skills: Sequence[Declared], names: Names) -> list[model.Routine]:
    """Read the routines of a file of XML, or of a folder of them, whose nodes are a world's skills."""
    if "xml" not in FORMS.names:
        raise UserError(f"{path}: routines in XML need reactree_doors: install it beside reactree_ros")
    read: list[model.Routine] = FORMS.get("xml")(path, skills, names)
    return read


class RoutineSkills(AddedSkills):
    """Adds routines to the skills of a world; their steps are carried out in the world that is wrapped.

    A skill policy around that world judges each step. An emergency stop breaks a routine off, as it does any skill.
    Raises RoutineError: a routine cannot be a skill here; the message says why.

    Args:
        routines: The routines. Their goals are the wordings of the skills, and their roles the parameters.
    """

    _added: Mapping[Declared, _Added]

    def __init__(self, inner: World, routines: Iterable[model.Routine]) -> None:
        known, mine = list(inner.household.skills), dict[Declared, _Added]()
        for one in routines:
            added = _added(one, inner.household.skills)
            skill = added.skill
            if skill.name in [before.name for before in known]:
                raise model.RoutineError(
                    f"routine '{skill.name}': there is a skill of this name already; give it another"
                )
            try:
                check_told_apart(skill, known)
            except ValueError as error:
                raise model.RoutineError(f"routine '{skill.name}': {error}") from None
            known.append(skill)
            mine[skill] = added
        super().__init__(inner, mine)

    def around(self, world: World) -> SharedWorld:
        return RoutineSkills(world, [one.routine for one in self._added.values()])

    def available_skills(self) -> Pending[Sequence[Offered]]:
        """See :meth:`World.available_skills`; what the first step does not take is whatever is known now."""
        return mapped(asked(self.inner.available_skills), lambda now: [*now, *self._offers(now)])

    def _offers(self, offered: Sequence[Offered]) -> list[Offer]:
        inner = self.inner.household.skills
        named = [(one, place, kind.named) for one in inner for place, kind in one.parameters.items() if kind.named]
        now = {(one.name, place): tuple(_names(offered, one, place)) for one, place, _ in named}
        offers = []
        for skill, added in self._added.items():
            standing = {}
            for role, kind in skill.parameters.items():
                if kind.named:
                    later = [now[one.name, place] for one, place, other in named if type(other) is type(kind.named)]
                    first = [now[added.first[role]]] if role in added.first else later
                    standing[role] = tuple(dict.fromkeys(itertools.chain(*first)))
            offers += [Offer(skill, standing)] if all(standing.values()) else []
        return offers

    def use(self, skill: str) -> Use:
        call = self._call(skill)
        return super().use(skill) if call is None else SharedWorld.use(self, call)

    def _carry_out(self, call: SkillCall) -> Pending[Observation]:
        return _Run(self.inner, call, self._added[call.skill].routine).begin()


class _Added(NamedTuple):
    skill: Declared
    routine: model.Routine
    # for each role that the first step takes the name of that step's skill, with the place there
    first: Mapping[str, tuple[str, str]]


def _names(offered: Sequence[Offered], skill: Declared, place: str) -> Iterator[str]:
    for one in offered:
        if isinstance(one, Offer):
            yield from one.now.get(place, ()) if one.skill == skill else ()
        elif one.startswith(skill.verb) and (values := taken_apart(one, skill)) is not None:
            yield values[place]


def _added(routine: model.Routine, skills: Sequence[Declared]) -> _Added:
    where, roles = f"routine '{routine.name}'", {role.name for role in routine.roles}
    takes: dict[str, Parameter] = {}
    first: dict[str, tuple[str, str]] = {}
    effect: dict[str, str] = {}
    for node in routine.nodes:
        if type(node) not in _CARRIED_OUT or not getattr(node, "memory", True):
            kind = node.kind if getattr(node, "memory", True) else f"{node.kind} without memory"
            raise model.RoutineError(
                f"{where}: a {kind} cannot be part of a skill, which has no language model and no ticks"
            )
        if not isinstance(node, model.Skill) or (said := _apart(node.wording, skills)) is None:
            continue
        skill, values = said
        named = {value.strip("{}"): place for place, value in values.items() if value.strip("{}") in roles}
        first = first if takes or effect else {role: (skill.name, place) for role, place in named.items()}
        takes = {role: skill.parameters[place] for role, place in named.items()} | takes
        if skill.moves:
            at = values.get(skill.effect.get("at", ""), "").strip("{}")
            effect = {"at": at} if at in roles else {"away": "true"}
    if lost := sorted(roles - takes.keys()):
        raise model.RoutineError(
            f"{where}: no step in it takes '{{{lost[0]}}}' alone, so nobody knows what may stand there"
        )
    parameters = {role.name: takes[role.name] for role in routine.roles}
    try:
        made = Declared(name=routine.name, wording=routine.goal, parameters=parameters, effect=effect)
    except ValueError as error:
        raise model.RoutineError(f"{where}: its goal is no wording of a skill: {error}") from None
    return _Added(made, routine, first)


def _apart(wording: str, skills: Sequence[Declared]) -> tuple[Declared, dict[str, str]] | None:
    found = ((skill, taken_apart(wording, skill)) for skill in skills)
    return next(((skill, values) for skill, values in found if values is not None), None)


class _TimeIsOver(Exception): ...


class _Endless(Exception): ...


class _Run:
    def __init__(self, world: World, call: SkillCall, routine: model.Routine) -> None:
        self._world, self._call, self._routine = world, call, routine
        self._values = {name: call.skill.parameters[name].write(value) for name, value in call.values.items()}
        self._ends: list[tuple[float, _TimeIsOver]] = []  # when each ``within`` ends, the outer ones first
        self._seen: dict[tuple[str, int], Seen] = {}
        self._texts: list[str] = []
        self._asked = 0  # how many steps the world was asked for

    def begin(self) -> Pending[Observation]:
        return mapped(stepwise(self._whole(self._routine.body)), self._summed_up)

    def _awaited(self, step: Pending[Observation]) -> Steps:
        if self._ends and not step.done():
            where_late(step, max(min(end for end, _ in self._ends) - time.monotonic(), 0.0), lambda late: late.cancel())
        try:
            return (yield step)
        except CancelledError:
            over = (error for end, error in self._ends if end <= time.monotonic())
            raise next(over, RuntimeError("somebody else cancelled a step")) from None

    def _summed_up(self, last: Observation) -> Observation:
        outcome = last.outcome
        if outcome in REFUSALS and len(self._texts) > 1:
            outcome = Outcome.EXECUTION  # something may have moved
        return replace(last, text=" ".join(self._texts), outcome=outcome, seen=tuple(self._seen.values()))

    # ------------------------------------------------------------------ the steps

    def _whole(self, body: model.Node) -> Steps:
        try:
            return (yield from self._node(body))
        except _Endless:
            return self._given_up(0, self._texts[-1], f"It did not end in {MOST_STEPS:,} steps.")

    def _given_up(self, begun: int, last: str, reason: str) -> Observation:
        self._texts[begun:] = [last, reason]
        return Observation(reason, Outcome.EXECUTION)

    def _node(self, node: model.Node) -> Steps:
        carry_out: Callable[[_Run, Any], Steps] = _CARRIED_OUT[type(node)]
        return (yield from carry_out(self, node))

    def _does(self, skill: str) -> Steps:
        if self._asked == MOST_STEPS:
            raise _Endless
        self._asked += 1
        seen = yield from self._awaited(asked(self._world.execute, skill))
        self._texts.append(seen.text)
        for one in seen.seen:
            self._seen.pop((one.word, one.instance), None)
            self._seen[one.word, one.instance] = one
        return seen

    def _skill(self, node: model.Skill) -> Steps:
        try:
            seen = yield from self._does(self._rendered(node.wording))
        except ParameterError as error:
            text = f"'{shortened_line(node.wording, 80)}' cannot be done: {error}."
            self._texts.append(text)
            return Observation(text, Outcome.UNKNOWN_SKILL)
        if seen.outcome is node.expected:
            return replace(seen, outcome=Outcome.DONE)
        return seen if seen.outcome is not Outcome.DONE else replace(seen, outcome=Outcome.POSTCONDITION)

    def _rendered(self, wording: str) -> str:
        apart = _apart(wording, self._world.household.skills)
        if apart is None:
            return wording.format(**self._values)
        skill, values = apart
        return skill.read({name: value.format(**self._values) for name, value in values.items()})

    def _wait_for(self, node: model.WaitFor) -> Steps:
        left = LONGEST if node.seconds is None else int(node.seconds)
        while True:
            now = min(left, LONGEST)
            seen = yield from self._does(f"{WAIT} {node.condition.format(**self._values)} for up to {now} s")
            left -= 0 if node.seconds is None else now
            if seen.outcome is not Outcome.TIMEOUT or left < 1:
                return seen

    def _always(self, node: model.Always) -> Steps:
        yield from ()
        return Observation("", Outcome.DONE if node.succeeds else Outcome.EXECUTION)

    def _holds(self, condition: str) -> Steps:
        return (yield from self._wait_for(model.WaitFor(condition=condition, seconds=0)))

    def _in_order(self, node: Any) -> Steps:
        for child in node.children:
            seen = yield from self._node(child)
            is_over = seen.outcome in (Outcome.DONE, Outcome.HALTED)
            if is_over if isinstance(node, model.Fallback) else seen.outcome is not Outcome.DONE:
                break
        return seen

    def _parallel(self, node: model.Parallel) -> Steps:
        if node.policy == "all":
            return (yield from self._in_order(model.Sequence(children=node.children)))
        ends = []
        for child in node.children:
            ends.append((yield from self._node(child)))
            if ends[-1].outcome is Outcome.HALTED:
                return ends[-1]
        good = [one for one in ends if one.outcome is Outcome.DONE]
        bad = [one for one in ends if one.outcome is not Outcome.DONE]
        return good[-1] if len(good) > len(bad) else bad[-1]

    def _repeat_until(self, node: model.RepeatUntil) -> Steps:
        while True:
            seen = yield from self._in_order(node)
            if seen.outcome is not Outcome.DONE:
                return seen
            seen = yield from self._holds(node.condition)
            if seen.outcome is not Outcome.TIMEOUT:
                return seen

    def _while(self, node: model.While) -> Steps:
        while True:
            seen = yield from self._holds(node.condition)
            if seen.outcome is Outcome.TIMEOUT:
                return replace(seen, outcome=Outcome.DONE)
            if seen.outcome is Outcome.DONE:
                seen = yield from self._in_order(node)
            if seen.outcome is not Outcome.DONE:
                return seen

    def _within(self, node: model.Within) -> Steps:
        over = _TimeIsOver()
        self._ends.append((time.monotonic() + node.seconds, over))
        try:
            return (yield from self._in_order(node))
        except _TimeIsOver as error:
            if error is not over:
                raise
        finally:
            self._ends = [one for one in self._ends if one[1] is not over]
        text = f"The {node.seconds} s for it are over."
        self._texts.append(text)
        at_rest = mapped(asked(self._world.at_rest), lambda _: Observation(text, Outcome.TIMEOUT))
        return (yield from self._awaited(at_rest))

    def _decorated(self, node: model.Decorator) -> Steps:
        count = alike = 0
        begun, failure = 0, ("", Outcome.DONE)
        while True:
            before, told = self._asked, len(self._texts)
            seen = yield from self._node(node.child)
            if seen.outcome is Outcome.HALTED:
                return seen
            count += 1
            goes_on = "retry" if seen.outcome is not Outcome.DONE else "repeat"
            if node.does != goes_on or count == node.times:
                break
            if self._asked == before:  # the world was asked for nothing, and so it would be for ever
                self._texts.append(f"Nothing was done in a round of a {node.does}.")
                return Observation(self._texts[-1], Outcome.EXECUTION)
            if (seen.text, seen.outcome) != failure:
                alike, failure, begun = 0, (seen.text, seen.outcome), told
            alike += 1
            if node.does == "retry" and alike == model.MOST_ALIKE:
                return self._given_up(begun, seen.text, f"A retry came to that {alike} times in a row.")
        if node.does in ("retry", "repeat"):
            return seen
        done = {"succeed": True, "fail": False, "invert": seen.outcome is not Outcome.DONE}[node.does]
        if done == (seen.outcome is Outcome.DONE):
            return seen
        return replace(seen, outcome=Outcome.DONE if done else Outcome.EXECUTION)


#: What carries out each kind of node that a world can.
_CARRIED_OUT: Mapping[type, Callable[[_Run, Any], Steps]] = {
    model.Skill: _Run._skill,
    model.WaitFor: _Run._wait_for,
    model.Always: _Run._always,
    model.Sequence: _Run._in_order,
    model.Fallback: _Run._in_order,
    model.Parallel: _Run._parallel,
    model.RepeatUntil: _Run._repeat_until,
    model.While: _Run._while,
    model.Within: _Run._within,
    model.Decorator: _Run._decorated,
}
