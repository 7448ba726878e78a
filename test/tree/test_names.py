"""Names of siblings that can be told apart by their first words."""

from __future__ import annotations

import pytest

from reactree_ros.tree.names import telling_names


@pytest.mark.parametrize(
    ("goals", "names"),
    [
        (["go to the fridge", "open it"], ["go to the fridge", "open it"]),
        (["find apple", "find juice"], ["find apple", "find juice"]),  # short enough to be seen
        (
            ["find and pick up apple", "find and pick up juice", "put them on the table"],
            ["apple (find and pick up ...)", "juice (find and pick up ...)", "put them on the table"],
        ),
        (
            ["find and pick up the first plate", "find and pick up the second plate"],
            ["first plate (find and pick up the ...)", "second plate (find and pick up the ...)"],
        ),
        (
            ["find and pick up", "find and pick up juice"],
            ["find and pick up", "juice (find and pick up ...)"],
        ),
        (
            ["find and pick up it in bedroom 1", "find and pick up it in bedroom 2"],
            ["bedroom 1 (find and pick up it in ...)", "bedroom 2 (find and pick up it in ...)"],
        ),
        (["pick up a plate", "pick up a plate"], ["#1 pick up a plate", "#2 pick up a plate"]),
        (
            ["look in kitchen for apple", "look in kitchen for juice", "look in bedroom for apple"],
            ["apple (look in kitchen for ...)", "juice (look in kitchen for ...)", "look in bedroom for apple"],
        ),
        ([], []),
    ],
)
def test_first_words_tell_siblings_apart(goals: list[str], names: list[str]) -> None:
    assert telling_names(goals) == names


def test_what_is_left_alike_is_numbered() -> None:
    goals = [f"go to the {room} and look for {thing}" for room in ("kitchen", "bedroom") for thing in ("a", "b")]
    assert [name[:4] for name in telling_names(goals)] == ["#1 a", "#2 b", "#3 a", "#4 b"]
