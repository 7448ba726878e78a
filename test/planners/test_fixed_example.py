"""The fixed examples that come with the household."""

from __future__ import annotations

import pytest

from reactree_ros.household.household import WAH_NL
from reactree_ros.planners.fixed_example import fixed_example


@pytest.mark.parametrize("flows", ["", "_seq_fb", "_seq"])
@pytest.mark.parametrize("name", ["reactree", "reactree_wm"])
def test_that_of_a_tree_has_a_shorter_one_with_no_other_control_flow(name: str, flows: str) -> None:
    (long,) = fixed_example(WAH_NL, f"{name}{flows}")
    assert long.short is not None
    assert len(long.short.text) < len(long.text) / 2
    assert _flows(long.short.text) <= _flows(long.text)


def _flows(text: str) -> set[str]:
    return {line for line in text.splitlines() if line.startswith("- control flow:")}
