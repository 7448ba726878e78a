"""Replies that somebody wrote before: what is said is known, so that everything else can be tried."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pydantic import Field

from reactree_ros.background.pending import Pending
from reactree_ros.errors import UserError
from reactree_ros.files.read_back import text_of
from reactree_ros.llm.port import DecisionRequest, LanguageModel, Reply, RequestRejected
from reactree_ros.llm.spec import ModelSpec
from reactree_ros.plugins.settings import Settings


class ScriptSettings(Settings):
    replies: Path | None = Field(
        default=None,
        description="a file of replies, in their order: a line each, such as 'Act: done'; what begins with '-' belongs "
        "to the reply above, what begins with '#' to none",
    )


class ScriptModel(LanguageModel):
    """Says the next reply of a script, whoever asks; after its end every request is rejected."""

    def __init__(self, replies: Iterable[str], name: str) -> None:
        self._replies, self._name, self._said = list(replies), name, 0

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        if self._said == len(self._replies):
            ended = f"{self._name} has ended after {self._said} replies, and one more is asked for; add it"
            return Pending.failed(RequestRejected(ended))
        self._said += 1
        return Pending.ready(Reply(self._replies[self._said - 1]))


def replies_in(text: str) -> list[str]:
    replies: list[str] = []
    for line in filter(str.strip, text.splitlines()):
        if line.startswith("-") and replies:
            replies[-1] += f"\n{line}"
        elif not line.startswith("#"):
            replies.append(line)
    return replies


def _make(settings: ScriptSettings) -> ScriptModel:
    if settings.replies is None:
        raise UserError("language model 'script': replies is missing; name a file with a reply a line")
    return ScriptModel(replies_in(text_of(settings.replies)), str(settings.replies))


SPEC = ModelSpec(
    name="script",
    summary="replies from a file, in their order",
    settings=ScriptSettings,
    make=_make,
    flags=("replies",),
)
