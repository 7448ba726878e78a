"""The expert as HiAgent: reads a prompt of subgoals and actions, and says an action, with the next subgoal if needed.

It says summaries, too. It does not know what it has hidden behind a summary; then it takes its room as unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from reactree_ros.agent.subgoal_grammar import SubgoalGrammar
from reactree_ros.household.expert import errand
from reactree_ros.household.expert.goals import Goal, Move, describe, read_subgoal
from reactree_ros.household.expert.instruction import understand
from reactree_ros.household.expert.reading import Situation, read_prompt, split_prompt
from reactree_ros.llm.port import DecisionRequest

_SUBGOAL = re.compile(r"\d+ Subgoal: (?P<text>.*)")
_ACTION, _OBSERVATION = "Action: ", "Observation: "
_OUTPUT = "\n###Output:\n"
_NOT_UNDERSTOOD = "understand a task that does not start in a house of rooms that I know how to read"


def answer(request: DecisionRequest, prompt: str, known: Mapping[str, Sequence[Goal]]) -> str:
    """Return the continuation of HiAgent's prompt: ``Action: …``, ``2 Subgoal: …`` with its action, or a summary."""
    by_subgoals = prompt.endswith(_OUTPUT) or '"Subgoal: subgoal"' in split_prompt(prompt)[0]
    return say(prompt, known) if by_subgoals or isinstance(request.may_say, SubgoalGrammar) else ""


def say(prompt: str, known: Mapping[str, Sequence[Goal]] | None = None) -> str:
    if prompt.endswith(_OUTPUT):
        return _summary(prompt.rpartition("##Trajectory\n")[2])
    system, lines = split_prompt(prompt)
    first = next((index for index, line in enumerate(lines) if _SUBGOAL.match(line)), len(lines))
    situation, chunks = read_prompt(system, lines[:first]), list(_chunks(lines[first:]))
    if situation is None:
        return f"1 Subgoal: {_NOT_UNDERSTOOD}\n{_ACTION}failure"
    instruction = understand(situation.task, known)
    if not instruction.goals:
        return f"1 Subgoal: {instruction.not_understood}\n{_ACTION}failure"
    wanted = _subgoals(instruction.goals)
    begun = [subgoal for subgoal, _ in chunks]
    for _, pairs in chunks:
        _take_in(pairs, situation)
    moves = (goal for subgoal in (*wanted, *begun) for goal in read_subgoal(subgoal) if isinstance(goal, Move))
    situation.settle((goal.thing, goal.place) for goal in moves)
    skill, given_up = _next(read_subgoal(begun[-1]), situation) if begun else (None, False)
    if skill is not None:
        return f"{_ACTION}{skill}"
    left = [subgoal for subgoal in wanted if subgoal not in begun]
    if left:
        first_skill, _ = _next(read_subgoal(left[0]), situation)
        # Every subgoal has an action, even one that is achieved already.
        return f"{len(begun) + 1} Subgoal: {left[0]}\n{_ACTION}{first_skill or f'go to {situation.rooms[0]}'}"
    own = prompt.rpartition("Target_domain:")[2]
    return f"{_ACTION}{'failure' if given_up or 'Subgoal is not met.' in own else 'done'}"


def _subgoals(goals: Iterable[Goal]) -> list[str]:
    things: dict[str, list[Goal]] = {}
    for goal in sorted(goals, key=lambda goal: not isinstance(goal, Move)):
        things.setdefault(goal.thing if isinstance(goal, Move) else str(goal), []).append(goal)
    return list(map(describe, things.values()))


def _chunks(lines: Sequence[str]) -> Iterator[tuple[str, list[tuple[str, str]]]]:
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


def _next(goals: Sequence[Goal], situation: Situation) -> tuple[str | None, bool]:
    given_up = False
    for goal in goals:
        if not errand.achieved(goal, situation):
            if skill := errand.next_skill(goal, situation):
                return skill, given_up
            given_up = True
    return None, given_up


def _summary(prompt: str) -> str:
    trajectory, _, rest = prompt.partition("\n\n##Subgoal:\n")
    subgoal = rest.removesuffix(f"\n{_OUTPUT}")
    lines = trajectory.split("\n")
    situation, goals = Situation(subgoal, False, ()), read_subgoal(subgoal)
    for _, pairs in _chunks(["1 Subgoal: ", *lines[1:]]):
        _take_in(pairs, situation)
    met = bool(goals) and all(errand.achieved(goal, situation) for goal in goals)
    return f"{lines[-1].removeprefix(_OBSERVATION).rstrip('.')}. Subgoal is {'' if met else 'not '}met."
