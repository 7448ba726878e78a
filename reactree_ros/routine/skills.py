"""Routines as skills of a world or a robot: whoever plans sees one skill, and the world carries out its steps."""

from __future__ import annotations

import itertools
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import FunctionType
from typing import NamedTuple

from py_trees.common import Status

from reactree_ros.agent.budget import Budget
from reactree_ros.agent.observation import REFUSALS
from reactree_ros.agent.parameters import Names, Parameter
from reactree_ros.agent.skill import Skill as Declared
from reactree_ros.agent.skill import SkillCall, check_told_apart
from reactree_ros.background.pending import Pending, after, asked, mapped, stepwise, where_late
from reactree_ros.errors import UserError
from reactree_ros.plugins import Registry
from reactree_ros.routine import model
from reactree_ros.routine.fitting import Fit
from reactree_ros.routine.model import apart, taken_apart
from reactree_ros.routine.running import NoModel, RoutineNode, Run, Unusable
from reactree_ros.tree.agent_node import Abilities, AgentNode
from reactree_ros.tree.context import GrowingTree, RunContext
from reactree_ros.world.port import Observation, Offer, Offered, Outcome, SharedWorld, Use, World, WorldError
from reactree_ros.world.wrappers import AddedSkills, WorldWrapper

#: What reads routines from a file or a folder, by the form that these have.
FORMS: Registry[FunctionType] = Registry("form of routines", "reactree_ros.routine_forms", FunctionType, first=())
#: The most steps of one skill: one that goes round for ever fails.
MOST_STEPS = 1000
#: Longest time between two ticks of a skill's tree that looks at a clock, in seconds.
TICK_PERIOD = 0.1


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
            try:
                if skill.name in [before.name for before in known]:
                    raise ValueError("there is a skill of this name already; give it another")
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
        values = {name: call.skill.parameters[name].write(value) for name, value in call.values.items()}
        return carried_out(Fit(self._added[call.skill].routine, values), self.inner)


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
        if isinstance(node, model.Goal | model.Search):
            raise model.RoutineError(f"{where}: a {node.kind} cannot be part of a skill, which has no language model")
        if not isinstance(node, model.Skill) or (said := apart(node.wording, skills)) is None:
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
        raise model.RoutineError(f"{where}: its goal is not a wording of a skill: {error}") from None
    return _Added(made, routine, first)


# ---------------------------------------------------------------------- its steps, as a tree


class _Steps(WorldWrapper):
    """Carries the steps of one skill out, one after the other, and keeps what came of them."""

    def __init__(self, inner: World) -> None:
        super().__init__(inner)
        self.came: list[Observation] = []
        self.last = ""  # the step that was begun last
        self.ended = False  # whether no more is to be done, as what came last says
        self.error: BaseException | None = None  # what a step failed with
        self._rest: Pending[None] = Pending.ready(None)  # of what was cancelled

    def team(self) -> Mapping[str, SharedWorld]:
        return {}

    def halted(self) -> str:
        """Say nothing: what is halted ends the skill."""
        return ""

    def execute(self, skill: str) -> Pending[Observation]:
        self.last = skill
        if len(self.came) == MOST_STEPS:
            step = Pending.ready(Observation(f"It did not end in {MOST_STEPS:,} steps.", Outcome.EXECUTION))
        else:
            step = after(self._rest, partial(self.inner.execute, skill))
        step.add_done_callback(partial(self._note, skill))
        return mapped(step, self._come)

    def _note(self, skill: str, step: Future[Observation]) -> None:
        if step.cancelled():
            self._rest = asked(self.inner.at_rest)
            self.came.append(Observation(f"'{skill}' was stopped: its time is over.", Outcome.TIMEOUT))
        else:
            self.error = step.exception()

    def _come(self, seen: Observation) -> Observation:
        self.ended = seen.outcome is Outcome.HALTED or len(self.came) == MOST_STEPS
        self.came.append(seen)
        if self.ended:
            raise WorldError(seen.text)  # which ends the tree
        return seen

    def summed_up(self, *, reached: bool, reason: str) -> Observation:
        """Say what came of the skill; a reason why it failed is told if the steps do not say it."""
        last = self.came[-1] if self.came else Observation("")
        texts = [*dict.fromkeys(seen.text for seen in reversed(self.came))][::-1]
        outcome = last.outcome
        if reached:
            outcome = Outcome.DONE
        elif outcome is Outcome.DONE:
            outcome = Outcome.POSTCONDITION if reason.startswith(f"{self.last}: ") else Outcome.EXECUTION
        elif outcome in REFUSALS and len(self.came) > 1:
            outcome = Outcome.EXECUTION  # something may have moved
        if reason and not (reached or any(map(reason.endswith, texts))):
            texts.append(reason)
        by_thing = {(one.word, one.instance): one for seen in self.came for one in seen.seen}
        return replace(last, text=" ".join(texts), outcome=outcome, seen=tuple(by_thing.values()))


class _Spoken(Run):
    def call(self, template: str) -> SkillCall | str:
        """Return the skill that a wording says; a text in it stays one, whatever that says. No skill is left as it is.

        Raises ParameterError: a value may not stand in its place.
        """
        if (said := apart(template, self.node.context.household.skills)) is None:
            return self.render(template)  # whoever guards the world says why it is none
        skill, values = said
        return skill.read({name: self.render(value) for name, value in values.items()})


def carried_out(fit: Fit, world: World) -> Pending[Observation]:
    """Carry a routine out by the skills of a world, without a language model; cancelling that cancels the step."""
    return stepwise(_carried_out(fit, world))


def _carried_out(fit: Fit, world: World) -> Generator[Pending[None], None, Observation]:
    steps = _Steps(world)
    context = RunContext(NoModel(), steps, budget=Budget(max_steps=2 * MOST_STEPS))
    run = _Spoken(AgentNode(str(fit), context, Abilities(())), fit)
    try:
        root = RoutineNode(run)
    except Unusable as error:
        return Observation(f"'{fit}' cannot be done: {error}.", Outcome.UNKNOWN_SKILL)
    tree = GrowingTree(root)
    context.growth.follow(tree)
    try:
        while True:
            awake = Pending[None]()
            context.wake = partial(awake.succeed, None)  # type: ignore[assignment]
            tree.tick()
            if root.status != Status.RUNNING:
                break
            if any(isinstance(node, model.Within | model.Pause) for node in fit.routine.nodes):
                where_late(awake, TICK_PERIOD, lambda late: late.succeed(None))
            yield awake
    finally:
        if root.status == Status.RUNNING:
            root.stop(Status.INVALID)
    if context.fatal is not None and not steps.ended:
        raise steps.error or WorldError(context.fatal.message)
    return steps.summed_up(reached=root.status == Status.SUCCESS, reason=run.reason)
