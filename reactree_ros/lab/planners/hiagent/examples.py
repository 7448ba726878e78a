"""In-context examples for HiAgent: other planners' experiences as subgoals, actions and observations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from reactree_ros.agent.kinds.begin_subgoal import BeginSubgoal
from reactree_ros.agent.kinds.summarise import Summarise
from reactree_ros.agent.kinds.think import Think
from reactree_ros.agent.summary import judgement
from reactree_ros.agent.turns import Said, Saw, Turn, render
from reactree_ros.lab.planners.hiagent.chunks import Pair, Subgoal, as_turns
from reactree_ros.memory.experience import Experience


@dataclass
class SubgoalPart:
    """The actions of one subgoal.

    Attributes:
        subgoal: The subgoal.
        pairs: Actions and observations.
        came_to: Its summary; empty if there is none.
    """

    subgoal: str
    pairs: list[Pair] = field(default_factory=list)
    came_to: str = ""


def parts(experience: Experience) -> list[SubgoalPart]:
    """Split a flat trajectory into subgoals.

    A HiAgent node says which subgoal begins. For another planner, each thought before an action begins one; actions
    before the first thought belong to the task itself. Refusals are left out.
    """
    found = [SubgoalPart(" ".join(experience.subgoal.split()))]
    turns = [turn for turn in experience.turns if isinstance(turn, Said | Saw)]
    for turn, after in zip(turns, [*turns[1:], None], strict=True):
        decision = turn.decision if isinstance(turn, Said) else None
        if decision is not None and decision.skill_asked and isinstance(after, Saw):
            found[-1].pairs.append(Pair(decision.skill_asked, after.text))
        elif isinstance(decision, Summarise):
            ended = found[-2] if len(found) > 1 and not found[-1].pairs else found[-1]
            ended.came_to = decision.summary
        elif isinstance(decision, BeginSubgoal):
            found.append(SubgoalPart(decision.subgoal))
        elif isinstance(decision, Think) and _acts(after):
            found.append(SubgoalPart(" ".join(decision.thought.split())))
    return [part for part in found if part.pairs]


def _acts(turn: Turn | None) -> bool:
    return isinstance(turn, Said) and turn.decision is not None and bool(turn.decision.skill_asked)


def told_as_subgoals(experience: Experience) -> str:
    """Write an experience in the form of HiAgent's prompt, with the details of every subgoal (appendix B.2).

    An experience without replies is unchanged; one without actions becomes empty.
    """
    said = [turn for turn in experience.turns if isinstance(turn, Said)]
    if not said:
        return experience.text
    if not (found := parts(experience)):
        return ""
    header = experience.turns[: experience.turns.index(said[0])]
    lines = [render(header), *_told(found)]
    last = said[-1].decision
    if last is not None and last.ends:
        lines.append(f"Action: {last.gist}")
    return "\n".join(lines)


def _told(found: Sequence[SubgoalPart]) -> Iterator[str]:
    for number, part in enumerate(found, 1):
        told = render(as_turns([Subgoal(number, part.subgoal), *part.pairs]))
        met = judgement(part.came_to)
        yield told if met is None else f"{told.rstrip('.')}. Subgoal is {'' if met else 'not '}met."
