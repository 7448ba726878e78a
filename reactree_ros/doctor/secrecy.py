"""What must not be printed: keys of the environment, names and passwords in addresses, what looks like a key."""

from __future__ import annotations

import os
import re

_OF_A_KEY = frozenset(
    {"APIKEY", "CREDENTIALS", "KEY", "PASSPHRASE", "PASSWD", "PASSWORD", "PAT", "SECRET", "TOKEN", "TOKENS"}
)
#: Shorter values of such variables are switches, and may stand in any text.
_LEAST = 6
_IN_ADDRESSES = re.compile(r"(?<=//)\S*@")  # to the last one: a password may hold an @ or a slash
_NAMED = re.compile(
    r"(?<!\$OPENAI_)((?:api[_-]?key|token|secret|password|authorization)['\"]?\s*[:=]\s*['\"]?)(?:bearer\s+)?[^\s'\",}]+",
    re.I,
)
_KEYS = re.compile(r"\b(?:sk|pk|gsk|xai|hf|ghp|glpat)[-_][\w-]{8,}")


def redacted(text: str) -> str:
    """Return a text without keys."""
    for value in sorted(_in_the_environment(), key=len, reverse=True):
        text = text.replace(value, "***")
    text = _IN_ADDRESSES.sub("***@", text)
    return _KEYS.sub("***", _NAMED.sub(r"\1***", text))


def _in_the_environment() -> set[str]:
    values = (value.strip() for name, value in os.environ.items() if not _OF_A_KEY.isdisjoint(name.upper().split("_")))
    return {value for value in values if len(value) >= _LEAST}
