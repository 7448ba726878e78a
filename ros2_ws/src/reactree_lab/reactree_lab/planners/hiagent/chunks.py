"""HiAgent's working memory: subgoals as chunks of actions and observations (Hu et al., section 3).

The paper's working memory is the part of a run's trajectory in the prompt. It has nothing to do with
:mod:`reactree_ros.memory.working`, which answers recalls. It is worded as in appendix B.2.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from reactree_ros.agent.kinds.think import BeginSubgoal
from reactree_ros.agent.subgoal_grammar import action_said
from reactree_ros.agent.turns import About, Said, Saw, Told, Turn


def retrievals(begun: int) -> list[str]:
    return [f"retrieve({number})" for number in range(1, begun + 1)]


def subgoal_said(number: int, subgoal: str) -> Said:
    text = f"{number} Subgoal: {subgoal}"
    return Said(text, BeginSubgoal(text, subgoal))


def acted(action: str, observation: str) -> tuple[Turn, ...]:
    return action_said(action), Saw(f"Observation: {observation}")


def refused(said: str, reason: str) -> tuple[Turn, ...]:
    """Return a reply that was not carried out, and why, as turns."""
    return Said(said), Told(f"Observation: {reason}", About.REFUSAL)


@dataclass(frozen=True)
class Chunk:
    subgoal: str
    before: str  # the observation that it began with (the paper's o_0 of section 3.3)
    turns: tuple[Turn, ...] = ()  # its actions and observations, and refusals
    last_observation: str = ""  # without summaries it represents the chunk (paper, section 5.1: w/o OS)
    summary: str | None = None  # None until it is finished

    @property
    def trajectory(self) -> tuple[Turn, ...]:
        """The summarised part: o_0, a_0, …, o_t."""
        return (Saw(f"Observation: {self.before}"), *self.turns)


@dataclass(frozen=True)
class ChunkMemory:
    """The chunks of a run, in order; every change makes a new one."""

    start: str  # the observation that the run began with
    chunks: tuple[Chunk, ...] = ()  # subgoals so far; all but the last one are finished, the last one may be
    retrieved: frozenset[int] = frozenset()  # finished subgoals that are shown in detail until the next one begins
    too_long: frozenset[int] = frozenset()  # those whose details do not fit into the prompt until then
    refused: tuple[Turn, ...] = ()  # refusals before the first subgoal; shown until it begins

    @property
    def current(self) -> Chunk | None:
        return self.chunks[-1] if self.chunks and self.chunks[-1].summary is None else None

    @property
    def retrievable(self) -> tuple[int, ...]:
        """Numbers of finished subgoals with hidden details that may be shown."""
        finished = (number for number, chunk in enumerate(self.chunks, 1) if chunk.summary is not None)
        return tuple(number for number in finished if number not in self.retrieved | self.too_long)

    def begin(self, subgoal: str) -> ChunkMemory:
        """Begin a subgoal; hide the details retrieved for the one before."""
        if self.current is not None:
            raise ValueError(f"subgoal {len(self.chunks)} is not finished: '{self.current.subgoal}'")
        before = self.chunks[-1].last_observation if self.chunks else self.start
        return ChunkMemory(self.start, (*self.chunks, Chunk(subgoal, before, last_observation=before)))

    def add(self, action: str, observation: str) -> ChunkMemory:
        turns = (*self._the_current().turns, *acted(action, observation))
        return self._with(turns=turns, last_observation=observation)

    def refuse(self, said: str, reason: str) -> ChunkMemory:
        """Add a reply that was not carried out, with or without a subgoal."""
        turns = refused(said, reason)
        if self.current is None:
            return replace(self, refused=(*self.refused, *turns))
        return self._with(turns=(*self.current.turns, *turns))

    def finish(self, summary: str) -> ChunkMemory:
        """Hide the current subgoal's actions behind a summarised observation (section 3.1, point 3)."""
        return self._with(summary=summary)

    def retrieve(self, number: int) -> ChunkMemory:
        """Show the details of a finished subgoal again (section 3.4)."""
        if number not in self.retrievable:
            raise ValueError(f"subgoal {number} cannot be retrieved; can be: {self.retrievable}")
        return replace(self, retrieved=self.retrieved | {number})

    def hide(self) -> ChunkMemory:
        """Hide retrieved details that the prompt has no room for."""
        return replace(self, retrieved=frozenset(), too_long=self.too_long | self.retrieved)

    def shown(self) -> tuple[Turn, ...]:
        """Return working memory: m_t of section 3.1, or m'_t with retrieved details.

        It has finished subgoals with their summaries, retrieved and current ones with all of their actions.
        """
        turns: list[Turn] = []
        for number, chunk in enumerate(self.chunks, 1):
            turns.append(subgoal_said(number, chunk.subgoal))
            if chunk.summary is None or number in self.retrieved:
                turns += chunk.turns
            else:
                note = " (Its details are too long to be shown.)" if number in self.too_long else ""
                turns.append(Told(f"Observation: {chunk.summary}{note}", About.SUMMARY))
        return (*turns, *self.refused)

    def _the_current(self) -> Chunk:
        if self.current is None:
            raise ValueError("there is no current subgoal; begin one")
        return self.current

    def _with(self, **changes: object) -> ChunkMemory:
        return replace(self, chunks=(*self.chunks[:-1], replace(self._the_current(), **changes)))  # type: ignore[arg-type]
