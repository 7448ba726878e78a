"""Why a behaviour failed, in words: one reason for records, pages, results and what a goal node above is told."""

from __future__ import annotations

from collections.abc import Sequence

from py_trees import composites
from py_trees.behaviour import Behaviour
from py_trees.common import Status

from reactree_ros.agent.decision import FAILURE
from reactree_ros.agent.kinds.think import Think
from reactree_ros.agent.text import shortened_line
from reactree_ros.agent.turns import Said, Saw, Told, ToldFailed, Turn
from reactree_ros.world.port import Outcome

#: Most characters of a reason.
LONGEST = 200
WITHOUT = "gave up without a reason"


def why(failed: Behaviour) -> str:
    """Say why a behaviour failed: its own words, or for control flow, those of its last child that failed."""
    ways = [child for child in failed.children if child.status == Status.FAILURE]
    if failed.feedback_message or not ways:
        return shortened_line(failed.feedback_message, LONGEST)
    last = why(ways[-1])
    is_one_of_many = isinstance(failed, composites.Selector) and len(ways) > 1
    return shortened_line(f"all {len(ways)} ways failed, the last: {last}" if is_one_of_many else last, LONGEST)


def why_gave_up(turns: Sequence[Turn]) -> str:
    """Say why a node gave up, from its turns: its thought, the failed expansion or the failed skill right before.

    Empty if the last turn is not ``Act: failure``.
    """
    *before, last = turns or [Told("")]
    if not isinstance(last, Said) or last.decision is None or last.decision.gist != FAILURE:
        return ""
    acted = False
    for turn in reversed(before):
        if isinstance(turn, Said) and isinstance(turn.decision, Think):
            thought = turn.decision.thought
            return shortened_line(f"{WITHOUT}; its last thought: {thought}" if acted else thought, LONGEST)
        if acted:
            continue
        if isinstance(turn, ToldFailed):
            failed = [one.reason for one in turn.tried if one.succeeded is False and one.reason]
            return failed[-1] if failed else WITHOUT  # none where it was broken off, as by a limit of time
        if isinstance(turn, Saw) and turn.observation is not None and turn.observation.outcome is not Outcome.DONE:
            return shortened_line(turn.text, LONGEST)
        acted = isinstance(turn, Said) and turn.decision is not None and bool(turn.decision.skill_asked)
    return WITHOUT
