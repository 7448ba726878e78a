"""Nested values under names with dots, as ROS has parameters: ``{"a": {"b": 1}}`` is ``a.b: 1``."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

#: How deep values are nested at most.
DEEPEST = 16


def dotted(values: Mapping[str, Any], within: str = "") -> dict[str, Any]:
    """Return booleans, numbers, texts, None, and lists of one of these kinds, each by its name.

    The values of any other list are numbered, and an empty mapping says nothing.
    """
    found: dict[str, Any] = {}
    for name, value in values.items():
        one = _plain(value)
        found |= dotted(one, f"{within}{name}.") if isinstance(one, Mapping) else {f"{within}{name}": one}
    return found


_PLAIN = (bool, int, float, str)


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        each = [*map(_plain, value)]
        return each if any({*map(type, each)} <= {kind} for kind in _PLAIN) else dict(enumerate(each))
    if isinstance(value, str):
        return value.encode(errors="replace").decode()  # half of a character is none
    return float(Decimal(value)) if isinstance(value, int) and not -(2**63) <= value < 2**63 else value


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return what :func:`dotted` was given. Raises ValueError."""
    whole: dict[str, Any] = {}
    for name, value in values.items():
        within: Any = whole
        *above, last = name.split(".")
        for part in above[: DEEPEST + 1]:
            within = within.setdefault(part, {}) if isinstance(within, dict) else None
        if not isinstance(within, dict) or last in within or len(above) > DEEPEST:
            raise ValueError(f"'{name[:60]}' is named twice, or is nested more than {DEEPEST} deep")
        within[last] = value
    return {name: _listed(value) for name, value in whole.items()}


def _listed(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    each = {name: _listed(one) for name, one in value.items()}
    return list(each.values()) if [*each] == [str(at) for at in range(len(each))] else each
