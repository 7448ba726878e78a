"""Working memory: the recorded wording, and the latest sightings."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactree_ros.memory.working import WorkingMemory


@pytest.mark.parametrize(
    ("room", "place", "sentence"),
    [
        ("kitchen 1", "fridge 2", "You saw juice 1 near fridge 2 in kitchen 1."),
        ("kitchen 1", None, "You saw juice 1 in kitchen 1."),
        (None, "desk 1", "You saw juice 1 near desk 1."),
    ],
)
def test_a_sighting_is_told_in_the_recorded_wording(room: str | None, place: str | None, sentence: str) -> None:
    memory = WorkingMemory()
    assert memory.recall("juice") == "You have not seen juice before."
    memory.see("juice", 1, room=room, place=place)
    assert memory.recall("juice") == sentence


def test_a_held_object_is_answered_as_held_until_it_is_seen_elsewhere() -> None:
    memory = WorkingMemory()
    memory.see("cutlery fork", 1, room="kitchen 1", place="sink 1")
    memory.see("cutlery fork", 1, room="kitchen 1", place=None, held=True)
    assert memory.recall("cutlery fork") == "You are holding cutlery fork 1."
    memory.see("cutlery fork", 1, room="bedroom 2", place="desk 1")
    assert memory.recall("cutlery fork") == "You saw cutlery fork 1 near desk 1 in bedroom 2."


def test_instances_are_joined_by_a_blank_in_the_order_of_first_sighting() -> None:
    memory = WorkingMemory()
    memory.see("cupcake", 2, room="kitchen 1", place="kitchen table 1")
    memory.see("cupcake", 1, room="kitchen 1", place="kitchen table 1")
    memory.see("cupcake", 2, room="living room 1", place="coffee table 1")
    assert memory.recall("cupcake") == (
        "You saw cupcake 2 near coffee table 1 in living room 1. You saw cupcake 1 near kitchen table 1 in kitchen 1."
    )


@given(
    st.lists(
        st.tuples(st.sampled_from(["juice", "wine"]), st.integers(1, 3), st.sampled_from(["fridge 1", "table 1"])),
        max_size=30,
    )
)
def test_a_recall_names_each_instance_once_in_first_order_at_its_last_place(seen: list[tuple[str, int, str]]) -> None:
    memory = WorkingMemory()
    for word, instance, place in seen:
        memory.see(word, instance, room="kitchen 1", place=place)
    for word in ("juice", "wine"):
        last = {instance: place for name, instance, place in seen if name == word}
        first = dict.fromkeys(instance for name, instance, _ in seen if name == word)
        sentences = [f"You saw {word} {instance} near {last[instance]} in kitchen 1." for instance in first]
        assert memory.recall(word) == (" ".join(sentences) or f"You have not seen {word} before.")
