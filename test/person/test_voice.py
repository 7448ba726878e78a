"""What words that were heard mean."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from docs.blocks import blocks_of

from reactree_ros.person.port import ECHO, Echo, addressed, spoken
from reactree_ros.robot.config import VoiceEntry

PAGE = Path(__file__).parents[2] / "docs/how-to/people-and-stops.md"


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("Max, bring the mug", "bring the mug"),
        ("hey max bring the mug", "bring the mug"),
        ("  OK Max: bring the mug. ", "bring the mug."),
        ("max", ""),
        ("Maxine, bring the mug", None),
        ("tell Max to bring the mug", None),
        ("bring the mug", None),
    ],
)
def test_what_begins_with_the_name_is_meant(words: str, meant: str | None) -> None:
    assert addressed(words, "Max") == meant


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("[BLANK_AUDIO]", ""),
        ("(upbeat music) ♪ la la ♪", ""),
        ("...", ""),
        (" *sighs* bring\n the mug [noise]", "bring the mug"),
        ("[" * 100_000, ""),
    ],
)
def test_noises_are_no_words(written: str, said: str) -> None:
    assert spoken(written) == said


def test_a_name_may_have_several_words_and_none_is_needed_without_one() -> None:
    assert addressed("hello R2-D2, stop", "r2 d2") == "stop"
    assert addressed(" bring the mug ", "") == "bring the mug"


def test_an_echo_is_what_was_said_lately_but_for_a_few_words_and_an_answer_is_none() -> None:
    now = 100.0
    echo = Echo(clock=lambda: now)
    echo.record("Which apple do you mean, the red one or the green one?")
    assert echo.is_echo("which apple do you mean the red one or the green one")
    assert echo.is_echo("witch apple do you mean the red one or the green one")
    for answer in ("the red one", "the green one", "yes", "the green one please"):
        assert not echo.is_echo(answer)
    now += ECHO + 1
    assert not echo.is_echo("which apple do you mean the red one or the green one")


def test_the_voice_of_the_guide_is_one() -> None:
    (written,) = [block.text for block in blocks_of(PAGE) if block.text.startswith("voice:")]
    entry = VoiceEntry.model_validate(yaml.safe_load(written)["voice"])
    assert (entry.called, entry.hears.field) == ("robot", "transcript[0]")
    assert entry.says is not None
    assert entry.says.goal == {"text": "{text}"}
