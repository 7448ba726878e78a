"""Memories that nothing is added to: experiences of a file that a package brings, and the store ``none``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field

from reactree_ros.agent.prompt import flow_told
from reactree_ros.memory.embedding import Embedder, ExperienceIndex, WordEmbedder, checked_vectors
from reactree_ros.memory.experience import End, Experience
from reactree_ros.memory.port import TOKEN_LIMIT, Counts, EpisodicMemory, EpisodicMemoryError, expansions
from reactree_ros.memory.recorded import read_lines
from reactree_ros.memory.spec import NONE, MemorySpec
from reactree_ros.plugins.installation import Diagnosis, Level
from reactree_ros.plugins.settings import Settings

#: Most examples of an agent node, and most tokens of them, if nobody says how many: no cache has this part of a prompt.
MOST, TOKENS = 4, 2000
#: Most tokens of those that all agent nodes of a tree share, which a prefix cache has.
OF_A_TREE = 3500
_LOOKED_AT = 64
#: Of the most similar one's similarity; so a failed search stands beside one that finds.
_SIMILAR_ENOUGH = 0.7


class FixedMemory(EpisodicMemory):
    """Experiences of a file of JSON lines, which is read when it is first needed and never written; no file: none."""

    fixed = True

    def __init__(self, path: Path | None, embedder: Embedder, *, name: str) -> None:
        self._path, self._embedder, self._name, self._closed = path, embedder, name, False

    @property
    def path(self) -> Path:
        return self._path or Path(self._name)

    def add_run(self, experiences: Sequence[Experience]) -> None:
        raise EpisodicMemoryError(f"{self._name}: nothing can be added to this memory; name a file of your own")

    def __iter__(self) -> Iterator[Experience]:
        return iter(self._held())

    def counts(self) -> Counts:
        held = self._held()
        runs, subgoals = {one.task_id for one in held}, {one.subgoal for one in held}
        kinds = ((one.end, one.task_name, 1) for one in held)
        return Counts.from_kinds(kinds, runs=len(runs), subgoals=len(subgoals))

    def ranked(self, text: str, *, seed: int = 0) -> Iterator[tuple[float, Experience]]:
        held = self._held()
        (query,) = checked_vectors(self._embedder, [text])
        for similarity, position in self._index.ranked(query, draw=f"{seed} {text}"):
            yield similarity, held[position]

    def retrieve(
        self, subgoal: str, *, token_limit: int = TOKEN_LIMIT, most: int = 0, tree: bool = False, **how: Any
    ) -> tuple[Experience, ...]:
        if not most:
            most, token_limit = (0, min(token_limit, OF_A_TREE)) if tree else (MOST, min(token_limit, TOKENS))
        return super().retrieve(subgoal, token_limit=token_limit, most=most, tree=tree, **how)

    def suited(self, subgoal: str, *, seed: int, most: int) -> Sequence[tuple[float, Experience]]:
        """Return the most similar ones, with one of each end and control flow among them if one is similar enough.

        All were under the control flow that the most similar one was under: an example that expands a search must not
        stand beside one that searches a single room, however similar their words are.
        """
        looked_at = list(islice(self.ranked(subgoal, seed=seed), _LOOKED_AT))
        flows = [flow_told(one.text) for _, one in looked_at]
        ranked = [one for one, flow in zip(looked_at, flows, strict=True) if flow == flows[0]]
        near = [one for similarity, one in ranked if similarity >= _SIMILAR_ENOUGH * ranked[0][0]]
        first = {(one.end, _flow(one)): place for place, one in reversed(list(enumerate(near)))}
        places = list(dict.fromkeys([*sorted(first.values()), *range(len(ranked))]))[:most]
        return [ranked[place] for place in sorted(places)]

    def close(self) -> None:
        super().close()
        self._closed = True

    def _held(self) -> Sequence[Experience]:
        if self._closed:
            raise EpisodicMemoryError(f"{self._name}: is closed")
        return self._experiences

    @cached_property
    def _experiences(self) -> Sequence[Experience]:
        return () if self._path is None else tuple(read_lines(self._path))

    @cached_property
    def _index(self) -> ExperienceIndex:
        experiences = self._experiences
        places = {subgoal: place for place, subgoal in enumerate(dict.fromkeys(one.subgoal for one in experiences))}
        index = ExperienceIndex(self._embedder.dimension)
        vectors, owners = checked_vectors(self._embedder, list(places)), [places[one.subgoal] for one in experiences]
        index.extend(vectors, owners, [list(End).index(one.end) for one in experiences], np.arange(len(experiences)))
        return index


def _flow(one: Experience) -> str:
    # by which it expands; empty if it does not
    return next((str(expansion.control_flow) for expansion in expansions(one)), "")


class ExamplesSettings(Settings):
    path: Path = Field(default=Path("examples.jsonl"), description="a file as `reactree robot examples` writes it")


def _examples(settings: ExamplesSettings) -> FixedMemory:
    if not settings.path.is_file():
        raise EpisodicMemoryError(f"{settings.path}: there is no such file; `reactree robot examples` makes one")
    return FixedMemory(settings.path, WordEmbedder(), name=f"examples:path={settings.path}")


def _diagnose(settings: ExamplesSettings) -> Iterator[Diagnosis]:
    yield Diagnosis("memory", Level.RIGHT, f"{settings.path}: {len(_examples(settings))} experiences, found by words")


EXAMPLES = MemorySpec(
    name="examples",
    summary="experiences of a file, found by their words; nothing is added",
    settings=ExamplesSettings,
    make=_examples,
    exists=lambda settings: settings.path.is_file(),
    diagnose=_diagnose,
)
SPEC = MemorySpec(
    name=NONE,
    summary="no experiences: prompts have the planner's fixed example",
    make=lambda settings: FixedMemory(None, WordEmbedder(), name=NONE),
    exists=lambda settings: True,
    diagnose=lambda settings: iter([Diagnosis("memory", Level.RIGHT, "none: no experiences")]),
    installed=True,
)
