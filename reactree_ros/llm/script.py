"""Decisions without a language model, to try everything else: a person's, or replies that somebody wrote before."""

from __future__ import annotations

import itertools
from collections.abc import Generator, Iterable, Sequence
from concurrent.futures import CancelledError
from pathlib import Path

from pydantic import Field

from reactree_ros.agent.grammar import Grammar
from reactree_ros.agent.text import shortened_line
from reactree_ros.agent.turns import About, Said, Saw, Told, Turn
from reactree_ros.background.pending import Pending, stepwise
from reactree_ros.errors import UserError
from reactree_ros.files.read_back import text_of
from reactree_ros.llm.port import A_PERSON, DecisionRequest, LanguageModel, Reply, RequestRejected
from reactree_ros.llm.spec import ModelSpec
from reactree_ros.person.port import Answer, NobodyAnswers, Person, Question
from reactree_ros.plugins.settings import NoSettings, Settings

#: How much longer than a language model a person may take.
_SLOWNESS = 30.0
#: The longest list of what can be said that a person is told, in characters.
_LONGEST_TOLD = 600


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


class PersonModel(LanguageModel):
    """A person decides, who is asked as for everything else; ``person`` is None where nobody can be."""

    person: Person | None = None

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        if self.person is None:
            nobody = "nobody can decide here: nothing can be typed; add --view, or name what decides with --llm"
            return Pending.failed(RequestRejected(nobody))
        seen, may = _come(request.turns), request.may_say
        can = [*map(str, may.offers), *may.skills] if isinstance(may, Grammar) else []
        told = shortened_line(f"Act: {', '.join(can)}", _LONGEST_TOLD)
        return stepwise(
            self._decided(self.person.ask(Question(f"{seen} What next?", request.patience, request.id, told)))
        )

    def _decided(self, answer: Pending[Answer]) -> Generator[Pending[Answer], Answer, Reply]:
        try:
            return Reply((yield answer).text, answered_by=A_PERSON)
        except (NobodyAnswers, CancelledError) as error:
            raise RequestRejected(f"the person has not decided: {error}") from None

    def slowness(self, request: DecisionRequest) -> float:
        return _SLOWNESS


def _come(turns: Sequence[Turn]) -> str:
    """Return what has come since something was said, which what is known may follow."""
    since = itertools.takewhile(lambda turn: not isinstance(turn, Said), reversed(turns))
    standing = (About.SYSTEM, About.TASK)
    come = [one.text for one in since if isinstance(one, Saw) or (isinstance(one, Told) and one.about not in standing)]
    return " ".join(reversed(come)) or turns[-1].text


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


PERSON = ModelSpec(
    name="person",
    summary="a person decides, at the terminal or on the page",
    settings=NoSettings,
    make=lambda settings: PersonModel(),
)
SPEC = ModelSpec(
    name="script",
    summary="replies from a file, in their order",
    settings=ScriptSettings,
    make=_make,
)
