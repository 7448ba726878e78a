"""Values of the world port."""

from __future__ import annotations

import inspect

import pytest

from reactree_ros.llm.port import LanguageModel
from reactree_ros.memory.port import EpisodicMemory
from reactree_ros.person.port import Person
from reactree_ros.world.port import Score, World
from reactree_ros.world.team import SharedWorld


def test_a_score_is_made_of_floats_whatever_it_is_made_from() -> None:
    score = Score(True, 1)
    assert [type(one) for one in (score.gsr, score.ssr)] == [float, float]
    assert score == Score(1.0, 1.0)


@pytest.mark.parametrize("port", [World, SharedWorld, LanguageModel, Person, EpisodicMemory])
def test_what_a_port_needs_is_abstract_or_has_a_value(port: type) -> None:
    """So nothing of it is left out by accident; a world without a household is found by check_world."""
    needed = [name for name in inspect.get_annotations(port) if not hasattr(port, name)]
    assert needed == (["household"] if port is World else [])
