"""The expert as HiAgent: it reads a prompt of subgoals and actions, and says a subgoal, an action or a summary.

What it hides from itself behind a summary it does not know any more: then it takes the room it is in as unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from reactree_ros.llm.expert import errand
from reactree_ros.llm.expert.goals import Goal, Move, describe, read_subgoal
from reactree_ros.llm.expert.instruction import read_instruction
from reactree_ros.llm.expert.reading import Situation, read_prompt, split_prompt

_SUBGOAL = re.compile(r"\d+ Subgoal: (?P<text>.*)")
_START = re.compile(r"(?P<number>\d+) Subgoal:")
_ACTION, _OBSERVATION = "Action: ", "Observation: "
_NOT_UNDERSTOOD = "understand a task that does not start in a house of rooms that I know how to read"


def is_by_subgoals(prompt: str) -> bool:
    """Whether a prompt is HiAgent's, or asks for a summary."""
    return prompt.endswith("\n### Output:\n") or '"Subgoal: subgoal"' in split_prompt(prompt)[0]


def say(prompt: str) -> str:
    """Return what follows a prompt: ``2 Subgoal:``, what stands after that, ``Action: …``, or a summary."""
    if prompt.endswith("\n### Output:\n"):
        return _summary(prompt.rpartition("## Trajectory\n")[2])
    system, lines = split_prompt(prompt)
    first = next((index for index, line in enumerate(lines) if _START.match(line)), len(lines))
    situation, chunks = read_prompt(system, lines[:first]), list(_chunks(lines[first:]))
    wanted = _subgoals(situation)
    left = [subgoal for subgoal in wanted if subgoal not in [subgoal for subgoal, _ in chunks]]
    if _START.fullmatch(lines[-1]):
        return f" {left[0]}" if left else f" {_NOT_UNDERSTOOD}"
    subgoal, current = chunks[-1]
    if situation is None or subgoal not in wanted:
        return f"{_ACTION}failure"
    for _, hidden in chunks[:-1]:
        _take_in(hidden, situation)
    skill, given_up = _next(read_subgoal(subgoal), situation, current)
    if skill is None and not current:  # every subgoal has an action
        skill = f"go to {situation.rooms[0]}"
    if skill is not None:
        return f"{_ACTION}{skill}"
    if left:
        return f"{len(chunks) + 1} Subgoal:"
    own = prompt.rpartition("Target_domain:")[2]
    return f"{_ACTION}{'failure' if given_up or 'Subgoal is not met.' in own else 'done'}"


def _subgoals(situation: Situation | None) -> list[str]:
    """One subgoal for each thing, moves first; none where the task is not understood."""
    if situation is None:
        return []
    goals = read_instruction(situation.task).goals
    things: dict[str, list[Goal]] = {}
    for goal in sorted(goals, key=lambda goal: not isinstance(goal, Move)):
        things.setdefault(goal.thing if isinstance(goal, Move) else str(goal), []).append(goal)
    return list(map(describe, things.values()))


def _chunks(lines: Sequence[str]) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Subgoals with what stands under each: an action and its observation; without an action, a summary."""
    chunk: tuple[str, list[tuple[str, str]]] | None = None
    action = ""
    for line in lines:
        if match := _SUBGOAL.fullmatch(line):
            if chunk is not None:
                yield chunk
            chunk = match["text"], []
        elif line.startswith(_ACTION):
            action = line.removeprefix(_ACTION)
        elif chunk is not None and line.startswith(_OBSERVATION):
            chunk[1].append((action, line.removeprefix(_OBSERVATION)))
            action = ""
    if chunk is not None:
        yield chunk


def _take_in(pairs: Sequence[tuple[str, str]], situation: Situation) -> None:
    for action, observation in pairs:
        if action:
            situation.act(action, observation)
        else:
            situation.resume(observation)


def _next(
    goals: Sequence[Goal], situation: Situation, pairs: Sequence[tuple[str, str]] = ()
) -> tuple[str | None, bool]:
    """The next skill for goals, if there is one, and whether one of them is given up."""
    _take_in(pairs, situation)
    given_up = False
    for goal in goals:
        if not errand.achieved(goal, situation):
            if skill := errand.next_skill(goal, situation):
                return skill, given_up
            given_up = True
    return None, given_up


def _summary(prompt: str) -> str:
    """The last observation, and whether the goals of the subgoal have been achieved."""
    trajectory, _, rest = prompt.partition("\n\n## Subgoal:\n")
    subgoal = rest.removesuffix("\n\n### Output:\n")
    lines = trajectory.split("\n")
    situation, goals = Situation(subgoal, False, ()), read_subgoal(subgoal)
    for _, pairs in _chunks(["1 Subgoal: ", *lines[1:]]):
        _take_in(pairs, situation)
    met = bool(goals) and all(errand.achieved(goal, situation) for goal in goals)
    return f"{lines[-1].removeprefix(_OBSERVATION).rstrip('.')}. Subgoal is {'' if met else 'not '}met."
