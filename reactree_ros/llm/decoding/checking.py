"""Checks whether a reply is allowed, whatever its engine was constrained to."""

from __future__ import annotations

from dataclasses import dataclass

from reactree_ros.agent.grammar import Grammar, chosen_of_json
from reactree_ros.agent.reading import Unreadable, read, read_call, read_choice
from reactree_ros.agent.turns import Said
from reactree_ros.llm.engine import ToolCall
from reactree_ros.llm.port import Choice, MaySay


@dataclass(frozen=True)
class Taken:
    """How a reply was read: its text, or the option of a choice, and the decisions in it."""

    text: str
    said: tuple[Said, ...] = ()


@dataclass(frozen=True)
class Utterance:
    """What a model said without reasoning, in one request or in rounds; its calls of tools; whether it is cut."""

    text: str
    calls: tuple[ToolCall, ...] = ()
    cut: bool = False

    @property
    def words(self) -> str:
        """The words it said; a call of tools alone is put into words, too."""
        return self.text.rstrip("\n") or "\n".join(f"{call.name}({call.arguments})" for call in self.calls)


def checked(uttered: Utterance, may_say: MaySay) -> Taken:
    """Read a reply.

    Raises:
        Unreadable: The reply is not allowed; the message tells the model why.
    """
    if isinstance(may_say, Choice):
        return Taken(_chosen(uttered, may_say.options))
    if not isinstance(may_say, Grammar):
        return Taken(uttered.text)
    if uttered.calls:
        calls = [(call.name, call.arguments) for call in uttered.calls]
        return Taken(uttered.words, read_call(calls, may_say, text=uttered.text))
    return Taken(uttered.text.strip("\n"), read(uttered.text, may_say, cut=uttered.cut))


def _chosen(uttered: Utterance, options: tuple[str, ...]) -> str:
    if uttered.calls:
        raise Unreadable(f"A tool was called ({uttered.calls[0].name[:40]}); say one of the options instead.")
    text = uttered.text
    if text not in options and text.lstrip().startswith("{"):
        try:
            text = chosen_of_json(text)
        except ValueError as error:
            raise Unreadable(str(error)) from error
    return read_choice(text, options, cut=uttered.cut)
