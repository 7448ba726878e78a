"""Values of the world port."""

from __future__ import annotations

from reactree_ros.world.port import Score


def test_a_score_is_made_of_floats_whatever_it_is_made_from() -> None:
    score = Score(True, 1)
    assert [type(one) for one in (score.gsr, score.ssr)] == [float, float]
    assert score == Score(1.0, 1.0)
