"""The index in memory: exact ranking, and the draw among equals."""

from __future__ import annotations

from collections import Counter
from itertools import islice, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from reactree_ros.memory.stores.index import TIE, ExperienceIndex


def unit_rows(count: int, seed: int, dimension: int = 8) -> NDArray[np.float32]:
    rows = np.random.default_rng(seed).standard_normal((count, dimension)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows


def one_group(ends: list[int], *, digests: list[int] | None = None) -> ExperienceIndex:
    """An index whose experiences all have the same subgoal."""
    index = ExperienceIndex(8)
    index.extend(unit_rows(1, 0), [0] * len(ends), ends, np.array(digests or range(100, 100 + len(ends)), np.uint64))
    return index


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(subgoals=st.integers(1, 400), seed=st.integers(0, 10**6), doubled=st.booleans())
def test_ranking_equals_a_full_sort_by_cosine(subgoals: int, seed: int, doubled: bool) -> None:
    vectors = unit_rows(subgoals, seed)
    if doubled:
        vectors = np.concatenate([vectors, vectors[::2]])
    owners = np.random.default_rng(seed).integers(0, len(vectors), size=2 * len(vectors))
    index = ExperienceIndex(8)
    index.extend(vectors, owners.tolist(), owners % 3, np.arange(len(owners)))
    query = unit_rows(1, seed + 1)[0]
    ranked = list(index.ranked(query, draw="x"))
    assert sorted(position for _, position in ranked) == list(range(len(owners)))
    exact = [float(np.dot(vectors[owner].astype(np.float64), query.astype(np.float64))) for owner in owners]
    in_order = [exact[position] for _, position in ranked]
    assert all(later <= earlier + 2 * TIE for earlier, later in pairwise(in_order))
    assert in_order == pytest.approx(sorted(exact, reverse=True), abs=2 * TIE)
    assert [similarity for similarity, _ in ranked] == pytest.approx(in_order, abs=2 * TIE)


def test_the_first_of_equals_has_each_end_equally_often() -> None:
    index = one_group([0] * 50 + [1] * 5 + [2])
    query = unit_rows(1, 0)[0]
    ends = [0] * 50 + [1] * 5 + [2]
    first = Counter(ends[next(index.ranked(query, draw=str(seed)))[1]] for seed in range(3000))
    for end in range(3):
        assert 900 < first[end] < 1100  # 1000 expected, standard deviation 26


def test_after_an_end_is_used_up_the_others_share_evenly() -> None:
    index = one_group([0] * 50 + [1] * 50 + [2])
    query = unit_rows(1, 0)[0]
    ends = [0] * 50 + [1] * 50 + [2]
    after: Counter[int] = Counter()
    for seed in range(500):
        drawn = [ends[position] for _, position in index.ranked(query, draw=str(seed))]
        after.update(drawn[drawn.index(2) + 1 :][:2])
    assert after[2] == 0
    assert 0.45 < after[0] / after.total() < 0.55


@settings(max_examples=50, deadline=None)
@given(
    contents=st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 2**64 - 1)), min_size=1, max_size=20, unique_by=lambda one: one[1]
    ),
    seed=st.integers(0, 1000),
    shuffled=st.randoms(use_true_random=False),
)
def test_the_draw_depends_on_seed_and_content_not_on_the_order_of_adding(
    contents: list[tuple[int, int]], seed: int, shuffled: object
) -> None:
    query = unit_rows(1, 0)[0]

    def drawn(order: list[tuple[int, int]]) -> list[tuple[int, int]]:
        index = one_group([end for end, _ in order], digests=[digest for _, digest in order])
        return [order[position] for _, position in index.ranked(query, draw=str(seed))]

    other = list(contents)
    shuffled.shuffle(other)  # type: ignore[attr-defined]
    assert drawn(contents) == drawn(contents) == drawn(other)


def test_a_large_group_of_equals_at_the_edge_of_the_first_look_comes_as_a_whole() -> None:
    vectors = np.repeat(unit_rows(1, 3), 300, axis=0)
    better = unit_rows(1, 3)[0]
    index = ExperienceIndex(8)
    index.extend(np.concatenate([unit_rows(50, 4), vectors]), range(350), np.zeros(350), np.arange(350))
    first = [position for _, position in islice(index.ranked(better, draw="1"), 300)]
    assert set(first) == set(range(50, 350))
    assert first != sorted(first)
