"""What people call things."""

from __future__ import annotations

from reactree_ros.household.lexicon import named


def test_what_a_text_names() -> None:
    assert list(named("Take 2 Plates, a bottle of wine and drinks to the tabel")) == [
        ("plate",),
        ("wine",),
        ("juice", "wine"),
        ("table",),
    ]
