"""The routine of a recorded run, which a person says has done what was asked."""

from __future__ import annotations

from py_trees.common import Status

from reactree_ros.episode.player import replay
from reactree_ros.errors import UserError
from reactree_ros.record.reader import Record
from reactree_ros.routine.fitting import Vocabulary
from reactree_ros.routine.learn import learnt, overlooked
from reactree_ros.routine.model import Routine


def routine_of(record: Record) -> Routine:
    """Return the routine of a record, whose tree is grown once more along it.

    Raises:
        UserError: The run did not end well, this version does not make it again, or nothing can be learnt from it.
    """
    replayed = replay(record)
    episode = replayed.episode
    if replayed.difference or episode is None:
        raise UserError(f"{record.name}: this version does not make the run again: {replayed.difference}")
    root, context = episode.root, episode.context
    if root.status != Status.SUCCESS:
        raise UserError(f"{record.name}: the run did not reach its goal; only one that did can be kept as a routine")
    known = Vocabulary((*context.known, *context.world.words), context.world.recallable, context.household.skills)
    routine = learnt(root, known, run=str(record.run["id"]))
    if problem := overlooked(routine, known):
        raise UserError(f"{record.name}: no routine is kept: {problem}; write one by `reactree routine edit --file`")
    return routine
