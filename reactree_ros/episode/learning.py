"""What a run learns for later ones beside its experiences: routines, which are tried out before they are kept."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import TimeoutError
from functools import lru_cache

from reactree_ros.agent.skill import Skill
from reactree_ros.background.pending import Pending
from reactree_ros.errors import UserError
from reactree_ros.memory.port import EpisodicMemory
from reactree_ros.routine.fitting import Fit, Vocabulary
from reactree_ros.routine.keeping import Kept
from reactree_ros.routine.learn import NotLearnt, learnt, overlooked
from reactree_ros.routine.model import Routine
from reactree_ros.routine.use import Find, Tells, Use, Wrap
from reactree_ros.tree.context import RunContext
from reactree_ros.tree.goal_node import GoalNode
from reactree_ros.tree.options import Routines as Wanted
from reactree_ros.world.port import World

_log = logging.getLogger(__name__)
#: Tries a routine out for an instruction, and returns what of it is needed; why it is not kept is a NotLearnt.
Proof = Callable[[Routine, str], Routine]
#: Longest wait for the memory to take in what was counted, in seconds.
_COUNTING = 10.0


class Learning:
    """Finds routines for a run and keeps what it learns, as its options want it."""

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
        return self._kept.find(goal, vocabulary_of(context.world), context.household.name, near=near)

    def _count(self, fit: Fit, reason: str, found: Mapping[str, Sequence[str]]) -> None:
        if self._kept is not None:
            self._counting.append(self._kept.used(fit, reason, found))

    @property
    def used(self) -> Sequence[tuple[Fit, str]]:
        """The routines that were run, in order, with what was not as expected; empty if all was."""
        return () if self._use is None else self._use.used

    @property
    def report(self) -> Sequence[str]:
        """What a person is told at the end: what the routines met that were run, or what was learnt, or why nothing."""
        met = [f"Routine '{fit.routine.name}' did not do it alone: {reason}" for fit, reason in self.used if reason]
        return [*met, *(said for said in (self._lost, self._learnt) if said)]

    def settle(self) -> None:
        """Wait until the memory has taken in what came of routines, as it may be closed after that."""
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
        known = vocabulary_of(self._context.world)
        routine = learnt(root, known, run=run)
        if self._proves is not None:
            routine = self._proves(routine, root.subgoal)
        elif problem := overlooked(routine, known):
            raise NotLearnt(problem)
        return self._kept.add(routine)


def vocabulary_of(world: World) -> Vocabulary:
    return _vocabulary(tuple(world.words), tuple(world.recallable), world.household.skills)


@lru_cache(maxsize=16)
def _vocabulary(words: tuple[str, ...], carried: tuple[str, ...], skills: tuple[Skill, ...]) -> Vocabulary:
    return Vocabulary(words, carried, skills)
