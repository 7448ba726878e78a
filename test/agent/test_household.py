"""The household is a value: it can be compared, copied, and sent to another process."""

from __future__ import annotations

import pickle

import pytest

from reactree_lab.worlds.ai2thor.household import ALFRED
from reactree_ros.agent.household import Household
from reactree_ros.household.household import WAH_NL


@pytest.mark.parametrize("household", [WAH_NL, ALFRED])
def test_it_comes_back_as_it_was_sent(household: Household) -> None:
    assert pickle.loads(pickle.dumps(household)) == household


def test_it_names_things_and_splits_skills_in_its_own_way() -> None:
    assert (WAH_NL.name_of("juice", 1), ALFRED.name_of("Juice", 1)) == ("juice 1", "Juice (1)")
    assert WAH_NL.split_skill("pick up kitchen cabinet 3") == ("pick up", "kitchen cabinet 3")
    assert WAH_NL.split_skill("slice bread 1") == ("", "slice bread 1")
    assert ALFRED.split_skill("slice Bread (1)") == ("slice", "Bread (1)")


def test_what_a_skill_is_done_to_may_stand_in_brackets() -> None:
    shop = Household(name="shop", actions=("click", "click on"), naming="")
    assert shop.split_skill("click[buy now]") == ("click", "buy now")
    assert shop.split_skill("click on[a [b]]") == ("click on", "a [b]")
    assert shop.split_skill("click[buy now] twice") == ("click", "buy now] twice")
    assert shop.split_skill("clicks[buy now]") == ("", "clicks[buy now]")
