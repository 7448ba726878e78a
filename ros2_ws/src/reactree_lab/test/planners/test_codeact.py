"""CodeAct: code turn by turn, what it prints comes back."""

from __future__ import annotations

import pytest
from doubles import ScriptedWorld
from recode_doubles import Writes, own_text

from reactree_ros.episode import Episode, EpisodeResult
from reactree_ros.planners.spec import planner
from reactree_ros.tree.options import TreeOptions
from reactree_ros.world.port import World

pytest.importorskip("pydantic_monty")

DONE = "<solution>done</solution>"


def code(*lines: str) -> str:
    return "\n".join(["<thought>so</thought>", "<execute>", *lines, "</execute>"])


def run(*texts: str, world: World | None = None, name: str = "codeact", **options: int) -> tuple[EpisodeResult, str]:
    """Run it; returns the result and the node's own text."""
    model = Writes(texts)
    with world or ScriptedWorld() as here:
        episode = Episode("do it", world=here, model=model, planner=planner(name), options=TreeOptions(**options))
        result = episode.run()
    return result, own_text(episode)


def test_what_the_code_prints_is_what_the_model_sees() -> None:
    result, said = run(code("seen = run('go to kitchen 1')", "print('I see', len(seen) > 0)"), DONE)
    assert (result.status, result.decisions, result.steps) == ("success", 1, 1)
    assert said.endswith(f"</execute>\nObservation:\nI see True\n{DONE}")


def test_variables_stay_and_nothing_printed_is_said() -> None:
    _, said = run(code("a = 3"), code("print(a + 1)"), DONE)
    assert "Observation:\n(nothing was printed)\n" in said
    assert "Observation:\n4\n" in said


def test_it_can_give_up() -> None:
    result, _ = run("It is not there.\n<solution> Failure </solution>")
    assert (result.status, result.decisions) == ("failure", 0)


@pytest.mark.parametrize(
    ("line", "seen"),
    [
        ("print(1)\n1 / 0", "1\nTraceback"),
        ("find_cup()", "NameError: name 'find_cup' is not defined; there is run"),
        ("x = [find_cup() for _ in [1]]", "NameError"),
        ("return", "belong into loops"),
    ],
)
def test_an_error_of_the_code_is_what_the_model_sees(line: str, seen: str) -> None:
    result, said = run(code(line), DONE)
    assert result.status == "success"
    assert f"Observation:\n{seen}" in said or seen in said.rpartition("Observation:\n")[2]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("I am done.", "there is no code"),
        (f"{code('x = 1')}\n{DONE}", "alone, once, without code"),
        ("<solution>42</solution>", "alone, once, without code"),
        (f"{DONE} or <solution>failure</solution>", "alone, once, without code"),
        (code("def f(): pass"), "'def' is not allowed"),
        (code("x = 1") + code("y = 2"), "2 blocks of code"),
    ],
)
def test_what_is_neither_code_nor_an_end_is_refused_and_counts(text: str, reason: str) -> None:
    result, said = run(text, DONE)
    assert (result.status, result.decisions) == ("success", 1)
    assert reason in said


@pytest.mark.parametrize("tag", ["think", "thought"])
def test_an_end_that_is_only_thought_of_is_none(tag: str) -> None:
    result, _ = run(f"<{tag}>I might say {DONE} now.</{tag}>\n<execute>\nrun('go to kitchen 1')\n</execute>", DONE)
    assert (result.status, result.decisions, result.steps) == ("success", 1, 1)
    result, _ = run(f"<{tag}>I might say {DONE} now.</{tag}>", "<solution>failure</solution>")
    assert (result.status, result.decisions) == ("failure", 1)


def test_a_server_may_cut_the_closing_tag_and_markdown_is_code() -> None:
    result, _ = run("<execute>\nprint(run('go to kitchen 1'))", "```python\nprint(1)\n```", DONE)
    assert (result.status, result.steps, result.decisions) == ("success", 1, 2)
