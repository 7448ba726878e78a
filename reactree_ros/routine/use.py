"""Routines in a run: an agent node runs one that fits its goal, or goes on itself; what the run teaches is kept."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import TimeoutError
from functools import lru_cache
from typing import Any, Literal

from reactree_ros.agent.kinds.expand import normal
from reactree_ros.agent.parameters import Named, ParameterError, Person, Place, Room
from reactree_ros.agent.skill import Skill
from reactree_ros.agent.turns import About, Told, Turn, told_broken_off
from reactree_ros.background.pending import Pending
from reactree_ros.errors import UserError
from reactree_ros.llm.port import Choice, InvalidReply
from reactree_ros.memory.knowledge import Standing
from reactree_ros.memory.port import EpisodicMemory
from reactree_ros.routine.fitting import Fit, Kept, Vocabulary, describe
from reactree_ros.routine.learn import NotLearnt, learnt, overlooked
from reactree_ros.routine.model import Routine
from reactree_ros.routine.running import RoutineNode, Run, Unusable
from reactree_ros.tree.agent_node import AgentNode
from reactree_ros.tree.context import RunContext
from reactree_ros.tree.goal_node import GoalNode
from reactree_ros.tree.listener import Call
from reactree_ros.tree.options import Routines as Wanted
from reactree_ros.tree.program_node import Step
from reactree_ros.world.port import World

#: Finds the routines that fit a goal, the best first.
Find = Callable[[str], Pending[tuple[Fit, ...]]]

#: What a language model says if none of the routines is meant that are near, and what it is asked.
NONE = "none of these"
MEANT = f"Task: {{goal}}\n\nWhich of these says the very same task? If none does, say: {NONE}.{{options}}\n- {NONE}"
#: How many routines run in one another at most, by the goals in them.
MOST_NESTED = 3
#: Told of a routine that was run: what was not as expected, and where its searches found what they looked for.
Tells = Callable[[Fit, str, Mapping[str, Sequence[str]]], object]
#: Makes what finds routines, and what is told of them, of those of the memory, e.g. along a record.
Wrap = Callable[[Find | None, Tells], tuple[Find | None, Tells]]


class Use:
    """Does what an agent node is for by a routine; a person may have to agree before each."""

    def __init__(self, find: Find, *, proposes: bool = False, tells: Tells = lambda *_: None) -> None:
        self._find, self._proposes, self._tells = find, proposes, tells
        #: Which were run, in order, with what was not as expected.
        self.used: list[tuple[Fit, str]] = []
        #: Which had the words of a goal and could not be done as things were, with the reason.
        self.misfits: dict[str, str] = {}

    def __call__(self, node: AgentNode) -> Generator[Step, Any, Literal[True] | Turn | None]:
        above = [one.fit.routine.name for one in _above(node)]
        if normal(node.subgoal) in node.parent_goals or len(above) >= MOST_NESTED:
            return None
        yield from node.hold()
        named = (one.named for skill in node.context.household.skills for one in skill.parameters.values())
        has_map = any(isinstance(one, Place | Room | Person) for one in named)
        if has_map:  # the offers say which there are
            yield from node.available_skills()
        fits = yield from node.ask_memory(self._find, "routines", Call("routine"), next_tick=True)
        if has_map and fits:  # what fits depends on where the robot begins
            yield from node.look_around()
        found = []
        for one in (one for one in fits if one.routine.name not in above):
            try:
                why = Run(node, one).misfit()
            except ParameterError as error:  # what it names is not there any more: another tree may take its place
                why = str(error)
                self._tells(one, why, {})
            if why:
                self.misfits[one.routine.name] = why
            else:
                found.append(one)
        fit = (yield from self._chosen(node, found)) if found else None
        if fit is None:
            return None
        question = f"May I do '{fit}' by {describe(fit)}?"
        if self._proposes and not (yield from node.agrees(question, f"routine {node.index}")):
            return None
        if above:  # one has this goal in it: they end with the budget, however many goals they have
            node.check_budget()
            node.budget.count()
        return (yield from self._run(node, fit))

    def _chosen(self, node: AgentNode, found: Sequence[Fit]) -> Generator[Step, Any, Fit | None]:
        if not found[0].near:
            return found[0]
        options = {str(fit): fit for fit in found}
        listed = "".join(f"\n- {one}" for one in options)
        asks = Told(MEANT.format(goal=node.subgoal, options=listed), About.TASK)
        try:
            reply = yield from node.ask_with([asks], Choice((*options, NONE)))
        except InvalidReply:
            return None
        node.budget.count()
        return options.get(reply.text.strip())

    def _run(self, node: AgentNode, fit: Fit) -> Generator[Step, Any, Literal[True] | Turn | None]:
        run = Run(node, fit)
        try:
            grown = RoutineNode(run)
        except Unusable as error:
            self._ended(run, str(error))
            return None
        if (yield from node.run_below(grown)):
            self._ended(run, "")
            return True
        reason = run.reason or node.feedback_message
        self._ended(run, reason)
        node.end, node.failure, node.feedback_message = None, None, ""
        return told_broken_off(run.done, reason)

    def _ended(self, run: Run, reason: str) -> None:
        self.used.append((run.fit, reason))
        self._tells(run.fit, reason, run.where)  # before it is recorded: what a record holds is counted
        run.node.context.listener.routine_ended(run.node, run.fit.routine.name, reason)


def _above(node: AgentNode) -> Iterator[RoutineNode]:
    above = node.parent
    while above is not None:
        if isinstance(above, RoutineNode):
            yield above
        above = above.parent


_log = logging.getLogger(__name__)
#: Tries out the routine of a run, and returns what of it is needed; why it is not kept is a NotLearnt.
Proof = Callable[[Routine, GoalNode], Routine]
#: Longest wait for the memory to take in what was counted, in seconds.
_COUNTING = 10.0


class Learning:
    def __init__(
        self,
        context: RunContext,
        memory: EpisodicMemory | None,
        *,
        wrap: Wrap | None = None,
        proves: Proof | None = None,
    ) -> None:
        self._context, self._proves = context, proves
        self._counting: list[Pending[None]] = []
        self._learnt = self._lost = ""
        self._kept = Kept(memory) if memory is not None and memory.keeps_routines else None
        self._use: Use | None = None
        wanted = context.options.routines
        find: Find | None = self._find if self._kept is not None else None
        tells: Tells = self._count
        if wrap is not None:
            find, tells = wrap(find, tells)
        if wanted is not Wanted.OFF and find is not None:
            self._use = Use(find, proposes=wanted is Wanted.PROPOSE, tells=tells)
            context.routines = self._use

    def _find(self, goal: str) -> Pending[tuple[Fit, ...]]:
        assert self._kept is not None  # as it is asked
        near = not self._context.options.is_trained  # a trained model knows its own prompts alone
        context = self._context
        known = vocabulary_of(context.world, context.known.standing.items())
        return self._kept.find(goal, known, context.household.name, near=near)

    def _count(self, fit: Fit, reason: str, found: Mapping[str, Sequence[str]]) -> None:
        if self._kept is not None:
            self._counting.append(self._kept.used(fit, reason, found))

    @property
    def used(self) -> Sequence[tuple[Fit, str]]:
        return () if self._use is None else self._use.used

    @property
    def report(self) -> Sequence[str]:
        """What a person is told at the end: what the routines met that were run, or what was learnt, or why nothing."""
        met = [f"Routine '{fit.routine.name}' did not do it alone: {reason}" for fit, reason in self.used if reason]
        misfits = {} if self._use is None else self._use.misfits
        met += [f"Routine '{name}' did not fit: {why}" for name, why in misfits.items()]
        return [*met, *(said for said in (self._lost, self._learnt) if said)]

    def settle(self) -> None:
        counting, self._counting = self._counting, []
        for one in counting:
            try:
                one.result(timeout=_COUNTING)
            except (UserError, TimeoutError) as error:  # it counts less than what else is to be remembered
                why = str(error) or f"it takes longer than {_COUNTING:g} s"
                self._lost = f"What came of a routine is not counted: {why}"
                _log.warning(self._lost)

    def learn(self, root: GoalNode, *, run: str, judged: bool) -> None:
        """Keep the routine of a run that has reached its goal; :attr:`report` says what came of it."""
        if self._context.options.routines is Wanted.OFF or self.used:
            return
        try:
            self._learnt = f"Learnt for the next time: routine '{self._learn(root, run=run, judged=judged)}'"
        except NotLearnt as error:
            self._learnt = f"No routine is learnt: {error}"
        _log.info(self._learnt)

    def _learn(self, root: GoalNode, *, run: str, judged: bool) -> str:
        if self._kept is None:
            raise NotLearnt("there is no episodic memory of your own to keep it, see --memory")
        if not judged:
            unjudged = "no task's goal and nobody has judged the run"
            raise NotLearnt(f"{unjudged}; if it did what you wanted, see `reactree routine keep`")
        known = vocabulary_of(self._context.world, self._context.known.standing.items())
        routine = learnt(root, known, run=run)
        if self._proves is not None:
            routine = self._proves(routine, root)
        elif problem := overlooked(routine, known):
            raise NotLearnt(problem)
        return self._kept.add(routine)


def vocabulary_of(world: World, standing: Standing = ()) -> Vocabulary:
    return _vocabulary(tuple(world.words), tuple(world.recallable), world.household.skills, tuple(standing))


@lru_cache(maxsize=16)
def _vocabulary(
    words: tuple[str, ...], carried: tuple[str, ...], skills: tuple[Skill, ...], standing: tuple[tuple[Named, Any], ...]
) -> Vocabulary:
    return Vocabulary(words, carried, skills, standing)
