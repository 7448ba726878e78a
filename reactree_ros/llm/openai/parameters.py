"""Request parameters, under the names that a server knows."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from reactree_ros.llm.openai.refusal import Refused

#: Both names of the token limit; the second is OpenAI's newer one, for chats.
LIMIT, NEWER_LIMIT = "max_tokens", "max_completion_tokens"
#: A request works without these.
OPTIONAL = ("temperature", "top_p", "seed", "stop")
#: Other names of a parameter.
_OTHER_NAMES = {"seed": "random_seed"}


class Parameters:
    """Learns from refusals which parameters to rename or leave out."""

    def __init__(self, limit: str = LIMIT) -> None:
        names = {name: [name] for name in OPTIONAL}
        names[LIMIT] = [limit, *({LIMIT, NEWER_LIMIT} - {limit})]
        self._names = names
        self._first = {parameter: candidates[0] for parameter, candidates in names.items()}
        self._taken = set[tuple[str, str]]()  # names and values that an answered request contained

    def named(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return parameters under this server's names."""
        return {names[0]: value for parameter, value in values.items() if (names := self._names[parameter])}

    def learn(self, refused: Refused, values: Mapping[str, Any], sent: Mapping[str, Any]) -> bool:
        """Learn from a refusal, each name once; return whether the request has changed and can be sent again.

        If several requests were refused at once, the first one learns and the others follow.
        """
        for name in refused.parameters(sent):
            parameter = next((one for one, names in self._names.items() if names[:1] == [name]), None)
            # The user must lower a limit that is too high: without one, a model may talk without end.
            if parameter is None or (parameter == LIMIT and not refused.names_no_value):
                continue
            other = _OTHER_NAMES.get(name)
            self._names[parameter] = self._names[parameter][1:]
            if other is not None and refused.mentions(other):
                self._names[parameter].append(other)
        return self.named(values) != sent

    def taken(self, sent: Mapping[str, Any]) -> None:
        """Remember parameters that the server accepts."""
        self._taken |= {(name, repr(value)) for name, value in sent.items()}

    def without_optional(self, refused: Refused, sent: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters to send again if a refusal does not name the refused one.

        Optional ones are left out, except those that the server accepted before. If the refusal names a parameter that
        was not sent, all optional ones are left out.
        """
        if not refused.is_of_the_request:
            return dict(sent)
        astray = bool(refused.parameters(set(self._first.values()) - sent.keys()))
        optional = {names[0] for one in OPTIONAL if (names := self._names[one])}
        suspect = {name for name in optional & sent.keys() if astray or (name, repr(sent[name])) not in self._taken}
        return {name: value for name, value in sent.items() if name not in suspect}

    def leave_out(self, sent: Collection[str]) -> None:
        """Leave parameters out from now on."""
        for parameter, names in self._names.items():
            if names[:1] and names[0] in sent:
                self._names[parameter] = []

    def status(self) -> dict[str, str]:
        """Return which parameters are left out or renamed."""
        left_out = [first for one, first in self._first.items() if not self._names[one]]
        renamed = [
            f"{first} to {names[0]}"
            for one, first in self._first.items()
            if (names := self._names[one]) and names[0] != first
        ]
        words = {"left out": ", ".join(left_out), "renamed": ", ".join(renamed)}
        return {what: which for what, which in words.items() if which}
