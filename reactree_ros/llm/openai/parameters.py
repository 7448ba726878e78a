"""The parameters of a request, under the names by which a server takes them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from reactree_ros.llm.openai.refusal import Refused

#: The two names of the token limit; the second is OpenAI's newer one, for chats.
LIMIT, NEWER_LIMIT = "max_tokens", "max_completion_tokens"
#: A server that does not take these can do without them.
OPTIONAL = ("temperature", "top_p", "seed", "stop")
#: What some servers call a parameter.
_OTHER_NAMES = {"seed": "random_seed"}


class Parameters:
    """Learns from refusals which parameters a server does not take: they get another name, or are left out.

    Args:
        limit: Under which name the token limit is sent first.
    """

    def __init__(self, limit: str = LIMIT) -> None:
        names = {name: [name] for name in OPTIONAL}
        names[LIMIT] = [limit, *({LIMIT, NEWER_LIMIT} - {limit})]
        self._names = names
        self._first = {parameter: candidates[0] for parameter, candidates in names.items()}
        self._taken = set[tuple[str, str]]()  # names with values that were part of a request that was answered

    def named(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return parameters as this server takes them."""
        return {names[0]: value for parameter, value in values.items() if (names := self._names[parameter])}

    def learn(self, refused: Refused, values: Mapping[str, Any], sent: Mapping[str, Any]) -> bool:
        """Take note of what is refused; each name is given up once.

        Of several requests that were refused at once, the first takes note and the others follow it.

        Args:
            refused: What the server says.
            values: The parameters.
            sent: As they were sent.

        Returns:
            Whether the request is another one now, and can be sent again.
        """
        for name in refused.parameters(sent):
            parameter = next((one for one, names in self._names.items() if names[:1] == [name]), None)
            # A limit that is too high is for the user to lower: without one, a model may say as much as it likes.
            if parameter is None or (parameter == LIMIT and not refused.names_no_value):
                continue
            other = _OTHER_NAMES.get(name)
            self._names[parameter] = self._names[parameter][1:]
            if other is not None and refused.mentions(other):
                self._names[parameter].append(other)
        return self.named(values) != sent

    def taken(self, sent: Mapping[str, Any]) -> None:
        """Take note of parameters that the server takes."""
        self._taken |= {(name, repr(value)) for name, value in sent.items()}

    def without_optional(self, refused: Refused, sent: Mapping[str, Any]) -> dict[str, Any]:
        """Return what is left of parameters, where a refusal does not say which of those sent is the reason.

        What the server has taken before is not the reason, unless the refusal names a parameter that is not sent.

        Args:
            refused: What the server says.
            sent: The parameters as they were sent.
        """
        if not refused.is_of_the_request:
            return dict(sent)
        astray = bool(refused.parameters(set(self._first.values()) - sent.keys()))
        optional = {names[0] for one in OPTIONAL if (names := self._names[one])}
        suspect = {name for name in optional & sent.keys() if astray or (name, repr(sent[name])) not in self._taken}
        return {name: value for name, value in sent.items() if name not in suspect}

    def leave_out(self, sent: Collection[str]) -> None:
        """Leave parameters out from now on.

        Args:
            sent: The names under which they were sent.
        """
        for parameter, names in self._names.items():
            if names[:1] and names[0] in sent:
                self._names[parameter] = []

    def status(self) -> dict[str, str]:
        """Say what is left out and what is renamed."""
        left_out = [first for one, first in self._first.items() if not self._names[one]]
        renamed = [
            f"{first} to {names[0]}"
            for one, first in self._first.items()
            if (names := self._names[one]) and names[0] != first
        ]
        words = {"left out": ", ".join(left_out), "renamed": ", ".join(renamed)}
        return {what: which for what, which in words.items() if which}
