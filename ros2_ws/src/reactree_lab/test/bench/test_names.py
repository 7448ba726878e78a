"""Short names of a bench's planners."""

from __future__ import annotations

import itertools

import pytest

from reactree_lab.bench.names import LONGEST, options_of, short_names

BARE = "system_text=false:fixed_example=false:break_rounds=true"
LONG = "x" * 200


@pytest.mark.parametrize(
    ("names", "short"),
    [
        ([f"react_wm:{BARE}", f"reactree_wm:{BARE}"], ["react_wm", "reactree_wm"]),
        ([f"react_wm:{BARE}"], ["react_wm"]),
        (["reactree", "reactree:questions=1", "reactree:questions=3"], None),
        ([f"react:{BARE}:questions=1", f"react:{BARE}:questions=3"], ["react:questions=1", "react:questions=3"]),
        ([f"react:{BARE}", "react"], ["react-2", "react"]),
        ([f"react:{BARE}", "react", "react-2"], ["react-3", "react", "react-2"]),
        (["react:a=1:b=2", "react:b=2:a=1"], ["react", "react-2"]),
        ([f"{LONG}1", f"{LONG}2"], [f"{'x' * 39}…", f"{'x' * 39}…-2"]),
        (["openai:base_url=http://host:1/v1", "openai"], ["openai:base_url=http:__host:1_v1", "openai"]),
        (["a/b", "a_b", "one\n two"], ["a_b", "a_b-2", "one two"]),
    ],
)
def test_a_name_keeps_what_tells_it_from_others_of_that_planner(names: list[str], short: list[str] | None) -> None:
    assert list(short_names(names).items()) == list(zip(names, short or names, strict=True))


def test_short_names_are_short_and_all_different_whatever_the_options() -> None:
    parts = ("a=1", "b=some/path:8000", f"c={LONG}", "d=%&|<_")
    options = [":".join(some) for count in range(5) for some in itertools.combinations(parts, count)]
    names = [f"{planner}:{one}".rstrip(":") for planner in ("react", "react_wm", LONG) for one in options]
    short = short_names(names)
    assert len(set(short.values())) == len(names) == 48
    assert max(map(len, short.values())) <= LONGEST + len("-16")
    assert [one for one in short.values() if "/" in one] == []


def test_the_colon_of_a_value_begins_no_option() -> None:
    assert options_of("openai:base_url=http://host:8000/v1:seed=1") == (
        "openai",
        ["base_url=http://host:8000/v1", "seed=1"],
    )
    assert options_of("qwen:7b") == ("qwen:7b", [])
