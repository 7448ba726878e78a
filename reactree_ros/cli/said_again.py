"""What of a record's settings is used: what is harmless, and what the user says as well."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reactree_ros.agent.text import in_one_line
from reactree_ros.cli.asking import agreed
from reactree_ros.cli.defaults import said_by_user
from reactree_ros.errors import UserError
from reactree_ros.plugins.settings import Settings, reaching, read_settings

if TYPE_CHECKING:
    from reactree_ros.record.reader import Record

#: How much of a value is shown, in characters.
_SHOWN = 500


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """Settings that a record holds.

    Attributes:
        kind: Whose they are.
        values: What the record says.
        said: What the user says on the command line; it wins.
        option: How the user says one more, e.g. ``--world-option``.
    """

    kind: type[Settings]
    values: Mapping[str, Any]
    said: Mapping[str, Any]
    option: str

    def unsaid(self) -> dict[str, Any]:
        """Return what may start, open, load or send something, and which the user does not say, too."""
        found = reaching(self.kind, self.values)
        return {name: value for name, value in found.items() if name not in self.said and not said_by_user(name, value)}

    def read(self, where: str) -> Settings:
        """Return the settings; see :func:`~reactree_ros.plugins.settings.read_settings`."""
        return read_settings(self.kind, {**self.values, **self.said}, where=where)


def check_said(record: Record, parts: Sequence[Recorded]) -> None:
    """Ask whether a record's settings that may start, open, load or send something are used, where the user says none.

    Raises:
        UserError: Nobody can be asked, or said no; the message has the words that say it.
    """
    words = [_words(part.option, *one) for part in parts for one in part.unsaid().items()]
    if not words:
        return
    told = f"{record.name}: its settings would start, open, load or send something: {' '.join(words)}"
    yes = agreed(told, "A record may not decide that by itself. Is it what you want?")
    if yes is None:
        raise UserError(
            f"{told} - a record may not decide that by itself; add these words to the command to have it so"
        )
    if not yes:
        raise UserError(f"{record.name}: nothing was done")


def _words(option: str, name: str, value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return f"{option} {shlex.quote(in_one_line(f'{name}={text}')[:_SHOWN])}"
