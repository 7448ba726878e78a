"""In-context examples for HiAgent: other planners' experiences as subgoals, actions and observations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, starmap

from reactree_lab.planners.hiagent.chunks import acted, subgoal_said
from reactree_ros.agent.kinds.think import BeginSubgoal, Summarise, Think
from reactree_ros.agent.prompt import judgement
from reactree_ros.agent.turns import Said, Saw, Turn
from reactree_ros.memory.experience import Experience


@dataclass
class SubgoalPart:
    subgoal: str
    turns: list[Turn] = field(default_factory=list)  # actions and observations
    came_to: str = ""  # its summary; empty if there is none


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
            found[-1].turns += acted(decision.skill_asked, after.text)
        elif isinstance(decision, Summarise):
            ended = found[-2] if len(found) > 1 and not found[-1].turns else found[-1]
            ended.came_to = decision.summary
        elif isinstance(decision, BeginSubgoal):
            found.append(SubgoalPart(decision.subgoal))
        elif isinstance(decision, Think) and _acts(after):
            found.append(SubgoalPart(" ".join(decision.thought.split())))
    return [part for part in found if part.turns]


def _acts(turn: Turn | None) -> bool:
    return isinstance(turn, Said) and turn.decision is not None and bool(turn.decision.skill_asked)


def told_as_subgoals(experience: Experience) -> tuple[Turn, ...]:
    """Return an experience in the form of HiAgent's prompt, with the details of every subgoal (appendix B.2).

    An experience without replies is unchanged; of one without actions nothing is left.
    """
    said = [turn for turn in experience.turns if isinstance(turn, Said)]
    if not said:
        return experience.turns
    if not (found := parts(experience)):
        return ()
    header = experience.turns[: experience.turns.index(said[0])]
    last = said[-1].decision
    end = [Said(f"Action: {last.gist}")] if last is not None and last.ends else []
    return (*header, *chain.from_iterable(starmap(_told, enumerate(found, 1))), *end)


def _told(number: int, part: SubgoalPart) -> Sequence[Turn]:
    *turns, last = subgoal_said(number, part.subgoal), *part.turns
    if (met := judgement(part.came_to)) is not None:
        last = replace(last, text=f"{last.text.rstrip('.')}. Subgoal is {'' if met else 'not '}met.")
    return (*turns, last)
