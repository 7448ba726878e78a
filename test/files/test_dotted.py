"""Nested values under names with dots."""

from __future__ import annotations

from typing import Any

import pytest

from reactree_ros.files.dotted import DEEPEST, dotted, nested


@pytest.mark.parametrize(
    ("values", "flat"),
    [
        ({"a": {"b": 1, "c": {"d": "x"}}, "e": None}, {"a.b": 1, "a.c.d": "x", "e": None}),
        ({"models": [{"llm": "a"}, {"llm": "b"}]}, {"models.0.llm": "a", "models.1.llm": "b"}),
        ({"same": [1, 2], "mixed": [1, 2.5], "none": []}, {"same": [1, 2], "mixed.0": 1, "mixed.1": 2.5, "none": []}),
    ],
)
def test_nested_values_have_names_with_dots_and_come_back(values: dict[str, Any], flat: dict[str, Any]) -> None:
    assert dotted(values) == flat
    assert nested(flat) == values


def test_what_no_message_can_hold_is_the_nearest_that_one_can() -> None:
    assert dotted({"whole": 2**70, "endless": -(10**400)}) == {"whole": float(2**70), "endless": float("-inf")}
    assert dotted({"half": "a \ud83d", "empty": {}}) == {"half": "a ?"}


@pytest.mark.parametrize("names", [("a", "a.b"), ("a.b", "a"), ("a." * (DEEPEST + 1) + "b",)])
def test_names_that_stand_for_no_values_are_refused(names: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match=f"is named twice, or is nested more than {DEEPEST} deep"):
        nested(dict.fromkeys(names, 1))
