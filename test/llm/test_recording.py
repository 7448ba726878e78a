"""A language model that says what was recorded."""

from __future__ import annotations

import pytest

from reactree_ros.agent.turns import Told
from reactree_ros.llm.port import DecisionRequest, FreeText, LanguageModelError
from reactree_ros.llm.recording import RecordingModel

REQUEST = DecisionRequest((Told("Whatever."),), FreeText())


def test_it_says_one_text_after_the_other_and_fails_after_the_last() -> None:
    model = RecordingModel(iter(["Think: a", "Act: done"]))
    assert [model.decide(REQUEST).take().text for _ in "ab"] == ["Think: a", "Act: done"]
    with pytest.raises(LanguageModelError, match="the recording ends after 2 decisions, but one more was asked for"):
        model.decide(REQUEST).take()
