"""Checks the installation and its surroundings: `reactree doctor`. Each problem comes with a remedy.

Each section is a file. A check changes nothing, has a time limit, and imports heavy libraries and ROS only in another
process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from reactree_ros.agent.text import in_one_line
from reactree_ros.doctor import engines, memory, package, ros, servers, surroundings
from reactree_ros.files.secrecy import redacted
from reactree_ros.memory.spec import NamedMemory
from reactree_ros.plugins.diagnosis import Diagnosis, Level

__all__ = ["Asked", "Look", "examine"]

#: Yields the diagnoses of a section.
Look = Callable[[], Iterable[Diagnosis]]


@dataclass(frozen=True, kw_only=True)
class Asked:
    """Optional subjects of a check; instead of an empty ``base_url``, ``$OPENAI_BASE_URL`` is one, if set."""

    base_url: str = ""
    models: Path | None = None
    memory: NamedMemory | None = None


def examine(asked: Asked, callers: Mapping[str, Look] | None = None) -> Iterator[tuple[str, list[Diagnosis]]]:
    """Run all checks; yields each section's title and a finding, never with a key."""
    sections: dict[str, Look] = {
        "Python": package.python,
        "reactree_ros": package.reactree_ros,
        "Extras": package.installed_extras,
        "Plug-ins": package.plug_ins,
        "Language models in a process": engines.local_engines,
        "ROS 2": ros.ros,
        "Servers": lambda: servers.servers(asked.base_url, asked.models),
        "Episodic memory": lambda: memory.episodic_memory(asked.memory),
        "Terminal and disk": surroundings.surroundings,
        **(callers or {}),
    }
    for title, look in sections.items():
        diagnoses = [
            replace(one, said=in_one_line(redacted(one.said)), remedy=in_one_line(redacted(one.remedy)))
            for one in _guarded(title, look)
        ]
        yield title, diagnoses


def _guarded(title: str, look: Look) -> Iterator[Diagnosis]:
    """Yield the diagnoses of a section; if the section fails, the failure is a finding."""
    try:
        yield from look()
    except Exception as error:
        said = f"the check stopped halfway ({type(error).__name__}: {error})"
        yield Diagnosis(title, Level.WRONG, said, "report this bug: a check must not fail, whatever it finds")
