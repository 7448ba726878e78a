"""HiAgent's working memory: subgoals as chunks of actions and observations (Hu et al., section 3).

The paper's working memory is the part of a run's trajectory in the prompt. It has nothing to do with
:mod:`reactree_ros.memory.working`, which answers recalls.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from reactree_ros.agent.kinds.begin_subgoal import BeginSubgoal
from reactree_ros.agent.subgoal_grammar import action_said
from reactree_ros.agent.turns import About, Said, Saw, Told, Turn


def retrievals(begun: int) -> list[str]:
    """Return the actions that retrieve one of so many subgoals."""
    return [f"retrieve({number})" for number in range(1, begun + 1)]


@dataclass(frozen=True)
class Pair:
    """An action and its observation."""

    action: str
    observation: str


@dataclass(frozen=True)
class Refusal:
    """A reply that was not carried out, and why."""

    said: str
    reason: str


@dataclass(frozen=True)
class Subgoal:
    """A subgoal in working memory: ``1 Subgoal: …``; numbers count from 1."""

    number: int
    text: str


@dataclass(frozen=True)
class Summary:
    """A summarised observation; it replaces the pairs of a finished subgoal."""

    text: str


#: Elements of working memory.
Element = Subgoal | Summary | Pair | Refusal


@dataclass(frozen=True)
class Chunk:
    """A subgoal with its actions and observations.

    Attributes:
        subgoal: The subgoal.
        before: The observation that it began with (the paper's o_0 of section 3.3).
        pairs: Its actions and observations, and refusals.
        summary: Its summary; None until it is finished.
    """

    subgoal: str
    before: str
    pairs: tuple[Pair | Refusal, ...] = ()
    summary: str | None = None

    @property
    def last_observation(self) -> str:
        """The last observation; without summaries it represents the chunk (paper, section 5.1: w/o OS)."""
        return next((pair.observation for pair in reversed(self.pairs) if isinstance(pair, Pair)), self.before)

    @property
    def trajectory(self) -> list[Turn]:
        """The summarised part: o_0, a_0, …, o_t."""
        return [Saw(f"Observation: {self.before}"), *as_turns(self.pairs)]


@dataclass(frozen=True)
class ChunkMemory:
    """The chunks of a run, in order; every change makes a new one.

    Attributes:
        start: The observation that the run began with.
        chunks: Subgoals so far; all but the last one are finished, the last one may be.
        retrieved: Numbers of finished subgoals that are shown in detail until the next subgoal begins.
        too_long: Numbers of those whose details do not fit into the prompt until then.
        refused: Refusals before the first subgoal; shown until it begins.
    """

    start: str
    chunks: tuple[Chunk, ...] = ()
    retrieved: frozenset[int] = frozenset()
    too_long: frozenset[int] = frozenset()
    refused: tuple[Refusal, ...] = ()

    @property
    def current(self) -> Chunk | None:
        """The unfinished chunk, if there is one."""
        return self.chunks[-1] if self.chunks and self.chunks[-1].summary is None else None

    @property
    def retrievable(self) -> tuple[int, ...]:
        """Numbers of finished subgoals with hidden details that may be shown."""
        finished = (number for number, chunk in enumerate(self.chunks, 1) if chunk.summary is not None)
        return tuple(number for number in finished if number not in self.retrieved | self.too_long)

    def begin(self, subgoal: str) -> ChunkMemory:
        """Begin a subgoal; hide the details retrieved for the one before.

        Raises:
            ValueError: Another subgoal is not finished.
        """
        if self.current is not None:
            raise ValueError(f"subgoal {len(self.chunks)} is not finished: '{self.current.subgoal}'")
        before = self.chunks[-1].last_observation if self.chunks else self.start
        return ChunkMemory(self.start, (*self.chunks, Chunk(subgoal, before)))

    def add(self, action: str, observation: str) -> ChunkMemory:
        """Add an action and its observation to the current subgoal.

        Raises:
            ValueError: There is no current subgoal.
        """
        current = self._the_current()
        return self._with(replace(current, pairs=(*current.pairs, Pair(action, observation))))

    def refuse(self, said: str, reason: str) -> ChunkMemory:
        """Add a reply that was not carried out, with or without a subgoal."""
        refusal = Refusal(said, reason)
        current = self.current
        if current is None:
            return replace(self, refused=(*self.refused, refusal))
        return self._with(replace(current, pairs=(*current.pairs, refusal)))

    def finish(self, summary: str) -> ChunkMemory:
        """Hide the current subgoal's pairs behind a summarised observation (section 3.1, point 3).

        Raises:
            ValueError: There is no current subgoal.
        """
        return self._with(replace(self._the_current(), summary=summary))

    def retrieve(self, number: int) -> ChunkMemory:
        """Show the details of a finished subgoal again (section 3.4).

        Raises:
            ValueError: No finished subgoal has that number, or it is already shown in detail.
        """
        if number not in self.retrievable:
            raise ValueError(f"subgoal {number} cannot be retrieved; can be: {self.retrievable}")
        return replace(self, retrieved=self.retrieved | {number})

    def hide(self) -> ChunkMemory:
        """Hide retrieved details that the prompt has no room for."""
        return replace(self, retrieved=frozenset(), too_long=self.too_long | self.retrieved)

    def shown(self) -> tuple[Element, ...]:
        """Return working memory: m_t of section 3.1, or m'_t with retrieved details.

        It has finished subgoals with their summaries, retrieved and current ones with all of their pairs.
        """
        elements: list[Element] = []
        for number, chunk in enumerate(self.chunks, 1):
            elements.append(Subgoal(number, chunk.subgoal))
            if chunk.summary is None or number in self.retrieved:
                elements += chunk.pairs
            else:
                note = " (Its details are too long to be shown.)" if number in self.too_long else ""
                elements.append(Summary(f"{chunk.summary}{note}"))
        return (*elements, *self.refused)

    def _the_current(self) -> Chunk:
        if self.current is None:
            raise ValueError("there is no current subgoal; begin one")
        return self.current

    def _with(self, current: Chunk) -> ChunkMemory:
        return replace(self, chunks=(*self.chunks[:-1], current))


def as_turns(elements: Iterable[Element]) -> list[Turn]:
    """Return working memory as turns of a prompt (appendix B.2)."""
    turns: list[Turn] = []
    for element in elements:
        if isinstance(element, Subgoal):
            text = f"{element.number} Subgoal: {element.text}"
            turns.append(Said(text, BeginSubgoal(text, element.text)))
        elif isinstance(element, Summary):
            turns.append(Told(f"Observation: {element.text}", About.SUMMARY))
        elif isinstance(element, Refusal):
            turns += [Said(element.said), Told(f"Observation: {element.reason}", About.REFUSAL)]
        else:
            turns.append(action_said(element.action))
            turns.append(Saw(f"Observation: {element.observation}"))
    return turns
