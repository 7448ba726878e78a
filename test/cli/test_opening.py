"""How a language model is opened: whoever waits is told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from reactree_ros.background.pending import Pending
from reactree_ros.cli import opening
from reactree_ros.cli.opening import open_model
from reactree_ros.household.expert.model import ExpertModel
from reactree_ros.llm.spec import ModelSpec
from reactree_ros.plugins.settings import NoSettings


class Large(ExpertModel):
    """Gets ready when it is told to."""

    def __init__(self, ready: Pending[None]) -> None:
        super().__init__()
        self._ready = ready

    def ready(self) -> Pending[None]:
        return self._ready

    def status(self) -> Mapping[str, str]:
        return {"engine": "an engine with large.gguf", "model": "/models/large.gguf"}


def opened(ready: Pending[None]) -> None:
    spec = ModelSpec(name="large", summary="a large model", make=lambda settings: Large(ready))
    with open_model(spec, NoSettings()):
        pass


def test_a_slow_model_is_told_of_before_it_is_ready_and_its_file_once(monkeypatch: pytest.MonkeyPatch) -> None:
    told, ready = list[str](), Pending[None]()

    def say(text: str, *style: Any, err: bool) -> None:
        assert err
        told.append(text)
        if len(told) == 1:
            ready.set_result(None)  # so it gets ready after the first word only

    monkeypatch.setattr(opening, "say", say)
    monkeypatch.setattr(opening, "PROMPT", 0.0)
    opened(ready)
    first, second = told
    assert first == "Getting the language model 'large' ready"
    assert second.startswith("an engine with /models/large.gguf is ready after ")


def test_of_a_fast_model_nothing_is_said(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "PROMPT", 600.0)
    opened(Pending.ready(None))
    assert capsys.readouterr() == ("", "")
