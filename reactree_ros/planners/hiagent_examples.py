"""In-context examples for HiAgent: other planners' experiences, told as subgoals, actions and observations."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from reactree_ros.agent.decision import DONE, FAILURE
from reactree_ros.agent.summary import judgement
from reactree_ros.agent.transcript import Transcript, TranscriptError, Turn, parse_transcript
from reactree_ros.memory.chunks import Pair, Subgoal, as_text

#: How the text of a HiAgent node says that a subgoal begins, and what it came to.
BEGINS = "Subgoal {number}: {text}"
CAME_TO = "Subgoal {number} came to: {text}"

_BEGINS = re.compile(r"Think: Subgoal \d+: (?P<text>.*)", re.DOTALL)
_CAME_TO = re.compile(r"Think: Subgoal \d+ came to: (?P<text>.*)", re.DOTALL)


@dataclass
class Part:
    """What was done for one subgoal.

    Attributes:
        subgoal: What was to be reached.
        pairs: What was done and seen.
        came_to: Its summary; empty where there is none.
    """

    subgoal: str
    pairs: list[Pair] = field(default_factory=list)
    came_to: str = ""


def parts(transcript: Transcript) -> list[Part]:
    """Take a flat trajectory apart into subgoals.

    A thought of a HiAgent node says which subgoal begins. Of another planner's thoughts, each that is followed by an
    action begins one; what is done before the first thought belongs to the task itself.
    """
    task = transcript.header.strip("\n").rpartition("Your task is to: ")[2]
    found = [Part(" ".join(task.split()))]
    for turn, after in zip(transcript.turns, [*transcript.turns[1:], None], strict=True):
        if turn.observation is not None:
            found[-1].pairs.append(Pair(turn.said.removeprefix("Act: "), turn.observation))
        elif match := _CAME_TO.fullmatch(turn.said):
            ended = found[-2] if len(found) > 1 and not found[-1].pairs else found[-1]
            ended.came_to = match["text"]
        elif match := _BEGINS.fullmatch(turn.said):
            found.append(Part(match["text"]))
        elif turn.said.startswith("Think: ") and _acts(after):
            found.append(Part(" ".join(turn.said.removeprefix("Think: ").split())))
    return [part for part in found if part.pairs]


def _acts(turn: Turn | None) -> bool:
    return turn is not None and turn.observation is not None


def told_as_subgoals(text: str) -> str:
    """Tell an experience as HiAgent's prompt does, with the details of every subgoal (appendix B.2).

    Returns:
        The example; a text that is none of an agent node is left as it is, and of one without any action nothing is
        left.
    """
    try:
        transcript = parse_transcript(text)
    except TranscriptError:
        return text
    if not (found := parts(transcript)):
        return ""
    lines = [f"{transcript.header}{transcript.observation}", *_told(found)]
    last = transcript.turns[-1].said
    if last in (f"Act: {DONE}", f"Act: {FAILURE}"):
        lines.append(last.replace("Act: ", "Action: "))
    return "\n".join(lines)


def _told(found: Sequence[Part]) -> Iterator[str]:
    for number, part in enumerate(found, 1):
        told = as_text([Subgoal(number, part.subgoal), *part.pairs])[0].removesuffix("\n")
        met = judgement(part.came_to)
        yield told if met is None else f"{told.rstrip('.')}. Subgoal is {'' if met else 'not '}met."
