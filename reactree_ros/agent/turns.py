"""Turns: what a goal node was told, said and saw. A prompt is turns; text is a rendering of them.

Whatever a text comes from, a turn holds only so much of it, and says how much is left out.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

from pydantic_core import CoreSchema, core_schema

from reactree_ros.agent.decision import Decision, kinds, kinds_by_word, text_of
from reactree_ros.agent.labels import as_seen, cleaned, framed, in_lines
from reactree_ros.agent.observation import Observation
from reactree_ros.agent.text import LONGEST, LONGEST_TOLD, bounded


class About(enum.Enum):
    """What somebody is told."""

    SYSTEM = "system"
    """Who it is and what it may do, with in-context examples; the same for a whole run, or nearly so."""
    TASK = "task"
    """The task, and where it stands."""
    ANSWER = "answer"
    """What follows a decision that nothing else answers, such as ``OK.`` after a thought."""
    REFUSAL = "refusal"
    """Why what it said is not carried out."""
    SUMMARY = "summary"
    """What stands for turns that are not shown any more."""
    PERSON = "person"
    """What a person has said, or that nobody has."""
    LIMIT = "limit"
    """That a limit is reached, which ends the goal node."""
    FAILED = "failed"
    """What came of an expansion that failed, where the node goes on."""
    SEARCHED = "searched"
    """What was searched and what was not."""
    KNOWN = "known"
    """What is known that matters now; in one request only."""


#: What is told in one line. Everything else has several lines, which are checked where they are put together.
_OF_ONE_LINE = frozenset({About.SUMMARY, About.PERSON, About.LIMIT, About.FAILED, About.SEARCHED, About.KNOWN})


class _AsJson:
    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> CoreSchema:
        written = core_schema.plain_serializer_function_ser_schema(turn_to_dict)
        return core_schema.no_info_plain_validator_function(turn_from_dict, serialization=written)


@dataclass(frozen=True)
class Told(_AsJson):
    """Something that a goal node was told.

    Where it is told in one line, nothing that others have put into that can begin another line of the prompt's own.
    """

    text: str
    about: About = About.TASK

    def __post_init__(self) -> None:
        text = self.text if self.about is About.SYSTEM else bounded(self.text, LONGEST_TOLD)  # as many examples as fit
        if self.about in _OF_ONE_LINE:
            text = in_lines(cleaned(text), first=False)
        object.__setattr__(self, "text", text)


@dataclass(frozen=True)
class Said(_AsJson):
    """Something that the language model said."""

    text: str  # as it was said
    decision: Decision | None = None  # the decision that it was taken for; None if it was taken for none

    def __post_init__(self) -> None:
        if len(self.text) > LONGEST:
            object.__setattr__(self, "text", bounded(self.text, LONGEST))


@dataclass(frozen=True)
class Saw(_AsJson):
    """An observation.

    Attributes:
        observation: All of it; None if only the words were kept. Two turns are equal if their words are.
    """

    text: str  # the observation in words
    observation: Observation | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", as_seen(bounded(self.text, LONGEST)))


Turn = Told | Said | Saw


class Unreadable(ValueError):
    """A reply that is not a decision that may be said; the message is one line that says why, for the model and people.

    ``decision`` is what it would be, as far as that can be told, such as a skill that is not available.
    """

    def __init__(self, reason: str, decision: Decision | None = None) -> None:
        super().__init__(reason)
        self.decision = decision

    @property
    def said_turns(self) -> tuple[Said, ...]:
        """The decision that it would be, with its words; empty if it is none."""
        return () if self.decision is None else (Said(str(self.decision), self.decision),)


@dataclass(frozen=True)
class ToldStart(Told):
    """What stands before a node's own turns: who it is and what it may do, with in-context examples."""

    text: str = field(init=False)  # all of it but the rule, as base models and the recordings have it
    about: About = field(default=About.SYSTEM, init=False)
    system: str = ""  # who it is and what it may do
    examples: tuple[tuple[Turn, ...], ...] = ()  # the turns of each in-context example, the most similar first
    rule: str = ""  # what a reply is; only chats say it

    def __post_init__(self) -> None:
        examples = "\n".join(framed(render(example)) for example in self.examples)
        source = ["Source domain:", examples] if self.system or self.examples else []
        text = "\n".join([*([self.system] if self.system else []), *source, "Target_domain:"])
        object.__setattr__(self, "text", text)

    @property
    def is_exchange(self) -> bool:
        """Whether every example has what somebody said, and so can be told as an exchange."""
        return all(any(isinstance(turn, Said) for turn in example) for example in self.examples)

    def with_texts(self, change: Callable[[str], str]) -> ToldStart:
        examples = (tuple(replace(turn, text=change(turn.text)) for turn in example) for example in self.examples)
        return ToldStart(system=change(self.system), examples=tuple(examples), rule=change(self.rule))


class Prompt(tuple[Turn, ...]):
    """The turns of one request: a start, then those that a node has now."""

    start: tuple[Turn, ...]
    turns: Sequence[Turn]  # the node's; those after the prompt's end were added later
    last: tuple[Turn, ...]  # what is told in this request alone, after them

    def __new__(cls, start: tuple[Turn, ...], turns: Sequence[Turn], last: tuple[Turn, ...] = ()) -> Prompt:
        prompt = super().__new__(cls, (*start, *turns, *last))
        prompt.start, prompt.turns, prompt.last = start, turns, last
        return prompt


def is_told_once(turn: Turn) -> bool:
    """Whether a turn stands in one request only, at its end."""
    return isinstance(turn, Told) and turn.about is About.KNOWN


def render(turns: Iterable[Turn]) -> str:
    return "\n".join([turn.text for turn in turns])


def is_closed(turns: Sequence[Turn]) -> bool:
    """Whether the last turn ends a goal node: ``done``, ``failure``, or a limit; nothing follows it, not a line end."""
    if not turns:
        return False
    last = turns[-1]
    if isinstance(last, Said):
        return last.decision is not None and last.decision.ends
    return isinstance(last, Told) and last.about is About.LIMIT


def node_text(turns: Sequence[Turn]) -> str:
    """Write everything a goal node was told, said and saw, character for character as in the recorded files."""
    return render(turns) if is_closed(turns) or not turns else f"{render(turns)}\n"


def turn_to_dict(turn: Turn) -> dict[str, Any]:
    """Return a turn as JSON has it: ``{"told": text, "about": …}``, ``{"said": text, …}`` or ``{"saw": text}``.

    Of an observation only the words are kept. The start of a prompt also has its parts.
    """
    if isinstance(turn, Saw):
        return {"saw": turn.text}
    if isinstance(turn, Said):
        return {"said": turn.text} | ({} if turn.decision is None else turn.decision.as_dict())
    told = {"told": turn.text, "about": turn.about.value}
    if not isinstance(turn, ToldStart):
        return told
    examples = [[turn_to_dict(one) for one in example] for example in turn.examples]
    return told | {"system": turn.system, "examples": examples, "rule": turn.rule}


def turn_from_dict(values: Mapping[str, Any]) -> Turn:
    """Read a turn back. Raises ValueError."""
    try:
        if "told" in values and "examples" in values:
            examples = tuple(tuple(map(turn_from_dict, example)) for example in values["examples"])
            return ToldStart(system=text_of(values["system"]), examples=examples, rule=text_of(values["rule"]))
        if "told" in values:
            return Told(text_of(values["told"]), About(values["about"]))
        if "saw" in values:
            return Saw(text_of(values["saw"]))
        return Said(text_of(values["said"]), decision_from_dict(values))
    except (KeyError, TypeError) as error:
        raise ValueError(f"is not a turn: {str(values)[:80]!r}") from error


def text_in(turns: Iterable[Mapping[str, Any]]) -> str:
    """Write turns as JSON has them as :func:`render` writes them, without making them. Raises ValueError."""
    try:
        return "\n".join(
            [one["told"] if "told" in one else one["said"] if "said" in one else one["saw"] for one in turns]
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"one is not a turn: {error}") from error


def decision_from_dict(values: Mapping[str, Any]) -> Decision | None:
    return None if (kind := kind_in(values)) is None else kind.from_dict(values)


def kind_said(text: str) -> type[Decision] | None:
    """Return the kind of decision that a text begins as; None if it is none."""
    kind = kinds_by_word().get(text.partition(":")[0])
    return kind if kind is not None and text.startswith(kind.opening) else None


def kind_in(values: Mapping[str, Any]) -> type[Decision] | None:
    return next((kind for name, kind in kinds().items() if name in values), None)


#: How it is told that an expansion failed.
EXPANSION_FAILED = "Your expansion failed."


@dataclass(frozen=True)
class Tried:
    """What came of one subgoal of an expansion."""

    subgoal: str
    succeeded: bool | None  # whether it succeeded; None: it was not begun
    reason: str = ""  # why it failed; empty if it did not


@dataclass(frozen=True)
class ToldFailed(Told):
    """That an expansion failed."""

    tried: tuple[Tried, ...] = field(default=(), compare=False, repr=False)


def told_failed(tried: Sequence[Tried]) -> ToldFailed:
    failed = [(one.subgoal, one.reason.rstrip(".")) for one in tried if one.succeeded is False]
    sentences = [f"Failed: {'; '.join(f'{goal} ({why})' if why else goal for goal, why in failed)}."]
    named = {True: "Succeeded", None: "Not begun"}
    for came, name in named.items():
        if subgoals := [one.subgoal for one in tried if one.succeeded is came]:
            sentences.append(f"{name}: {'; '.join(subgoals)}.")
    return ToldFailed(f"{EXPANSION_FAILED} {' '.join(sentences)} Go on otherwise.", About.FAILED, tuple(tried))


def told_broken_off(done: Sequence[Tried], reason: str) -> ToldFailed:
    sentences = [f"Done for this by a routine: {'; '.join(one.subgoal for one in done) or 'nothing'}."]
    sentences.append(f"Then something was not as expected: {reason.rstrip('.')}.")
    return ToldFailed(
        f"{' '.join(sentences)} Go on from there.", About.FAILED, (*done, Tried("routine", False, reason))
    )


@dataclass(frozen=True)
class Place:
    """A place that may be searched."""

    name: str  # what it is called in skills, e.g. ``fridge 1``
    room: str | None  # the room that it is in; None if the world has no rooms
    word: str = ""  # its class in words; empty if only its name is known
    instance: int = 0  # its number within the class


@dataclass(frozen=True)
class Searched:
    """The latest search of a place."""

    place: Place
    robot: str  # which robot searched it; empty if there is only one
    step: int  # which of the run's steps that was, from 1


@dataclass(frozen=True)
class ToldSearched(Told):
    """What was searched and what was not."""

    searched: tuple[Searched, ...] = field(default=(), compare=False, repr=False)
    unsearched: tuple[Place, ...] = field(default=(), compare=False, repr=False)


def told_searched(
    searched: Sequence[Searched],
    unsearched: Sequence[Place],
    *,
    robot: str = "",
    again: Searched | None = None,
    step: int = 0,
) -> ToldSearched:
    """Say what was searched, room by room in that order, and what was not."""
    sentences = []
    if again is not None:
        who, ago = "You" if again.robot == robot else again.robot, step - again.step
        sentences.append(f"{who} had searched {again.place.name} {ago} step{'s' if ago != 1 else ''} before.")
    for room in dict.fromkeys(one.place.room for one in searched):
        places = [(one.place, "" if one.robot == robot else f" by {one.robot}") for one in searched]
        left = [(place, "") for place in unsearched]
        at = "" if room is None else f" in {room}"
        rest = f"; not yet: {merged}" if (merged := _merged(left, room)) else ""
        sentences.append(f"Searched{at}: {_merged(places, room)}{rest}.")
    return ToldSearched(" ".join(sentences), About.SEARCHED, tuple(searched), tuple(unsearched))


def _merged(places: Sequence[tuple[Place, str]], room: str | None) -> str:
    here = [(place, by) for place, by in places if place.room == room]
    listed = []
    for (word, by), some in groupby(here, lambda one: (one[0].word, one[1])):
        if word:
            listed.append(f"{word} ({', '.join(str(place.instance) for place, _ in some)}){by}")
        else:
            listed += [f"{place.name}{by}" for place, _ in some]
    return ", ".join(listed)
