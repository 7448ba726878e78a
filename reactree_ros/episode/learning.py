"""What a run learns for later ones beside its experiences: routines, which are tried out before they are kept."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import TimeoutError
from contextlib import closing
from functools import lru_cache
from typing import TYPE_CHECKING

from py_trees.common import Status

from reactree_ros.agent.skill import Skill
from reactree_ros.background.pending import Pending
from reactree_ros.errors import UserError
from reactree_ros.llm.port import DecisionRequest, LanguageModel, Reply, RequestRejected
from reactree_ros.memory.port import EpisodicMemory
from reactree_ros.routine.fitting import Fit, Routines, Vocabulary
from reactree_ros.routine.keeping import Kept
from reactree_ros.routine.learn import NotLearnt, learnt, overlooked, unnamed, without
from reactree_ros.routine.model import Routine
from reactree_ros.routine.use import Find, Tells, Use, Wrap
from reactree_ros.tree.context import RunContext
from reactree_ros.tree.goal_node import GoalNode
from reactree_ros.tree.options import Routines as Wanted
from reactree_ros.tree.options import TreeOptions
from reactree_ros.world.port import World

if TYPE_CHECKING:
    from reactree_ros.episode import Episode

_log = logging.getLogger(__name__)
#: Makes the world once more: 0 as the task starts, any other number with things moved by chance.
Again = Callable[[int], World]
#: In how many houses with other places of things a routine is tried out.
TRIALS = 4
#: Longest wait for the memory to take in what was counted, in seconds.
_COUNTING = 10.0


class NoModel(LanguageModel):
    """Answers nothing, so that only a routine can do anything."""

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        """Refuse."""
        return Pending.failed(RequestRejected("no language model is asked while a routine is tried out"))


class Learning:
    """Finds routines for a run and keeps what it learns, as its options want it.

    Args:
        context: The run's; it gets what finds routines, if any are wanted and there may be some.
        memory: Keeps them; None: nobody does.
        wrap: Finds and tells otherwise than the memory does.
        again: Makes the world once more, to try a routine out; None: nobody can.
    """

    def __init__(
        self,
        context: RunContext,
        memory: EpisodicMemory | None,
        *,
        wrap: Wrap | None = None,
        again: Again | None = None,
    ) -> None:
        self._context, self._again = context, again
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
    def told(self) -> Sequence[str]:
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
        """Keep the routine of a run that has reached its goal; :attr:`told` says what came of it.

        Args:
            root: The tree's root.
            run: The id of the run.
            judged: Whether the world's score, or a person, says that the goal is reached.
        """
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
        known, again = vocabulary_of(self._context.world), self._again
        routine = learnt(root, known, run=run)
        if problem := overlooked(routine, known) if again is None else tried_out(routine, root.subgoal, again):
            raise NotLearnt(problem)
        return self._kept.add(routine if again is None else needed(routine, root.subgoal, again))


def tried_out(routine: Routine, instruction: str, again: Again) -> str:
    """Return why a routine is not to be kept: it does not do the task again, or ends well where it has not done it."""
    for seed in range(1 + TRIALS):
        with closing(again(seed)) as world:
            episode = _rehearsal(routine, instruction, world)
            reached = episode.run().gsr == 1.0
        if episode.root.status == Status.SUCCESS and not reached:
            return "it ends as if all were done where it is not" + (", in another house" if seed else "")
        if not seed and not reached:
            return "it does not do the same task again"
    return ""


def needed(routine: Routine, instruction: str, again: Again) -> Routine:
    """Return a routine without the things that the goal does not name and that the task is done without."""
    for name in unnamed(routine):
        smaller = without(routine, name)
        if smaller is not None and not tried_out(smaller, instruction, again):
            routine = smaller
    return routine


def _rehearsal(routine: Routine, instruction: str, world: World) -> Episode:
    from reactree_ros.episode.assembly import assemble
    from reactree_ros.episode.run_spec import RunSpec

    found = Pending.of(tuple(Routines([routine], vocabulary_of(world)).fitting(instruction)))
    spec = RunSpec(instruction=instruction, planner="reactree_wm", options=TreeOptions(routines=Wanted.ON))
    builder = spec.chosen_planner()  # without the examples of a memory
    return assemble(
        spec, world=world, model=NoModel(), builder=builder, routines=lambda _, tells: (lambda goal: found, tells)
    )


def vocabulary_of(world: World) -> Vocabulary:
    """Return the words of a world."""
    return _vocabulary(tuple(world.words), tuple(world.recallable), world.household.skills)


@lru_cache(maxsize=16)
def _vocabulary(words: tuple[str, ...], carried: tuple[str, ...], skills: tuple[Skill, ...]) -> Vocabulary:
    return Vocabulary(words, carried, skills)
