"""What this package finds where it runs, each thing right, absent, or wrong with how that is mended: `reactree doctor`.

A section a file. Each looks and changes nothing, waits no longer than it says, and takes heavy libraries and ROS into a
process of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from reactree_ros.agent.text import in_one_line
from reactree_ros.doctor import engines, memory_file, package, ros, servers, surroundings
from reactree_ros.doctor.diagnosis import Diagnosis, Level
from reactree_ros.files.secrecy import redacted

__all__ = ["Asked", "Look", "examine"]

#: Yields what a section finds.
Look = Callable[[], Iterable[Diagnosis]]


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What is looked at beside what is always looked at.

    Attributes:
        base_url: A server; empty: ``$OPENAI_BASE_URL``, if that is set.
        models: A file of language models.
        memory: An episodic memory.
    """

    base_url: str = ""
    models: Path | None = None
    memory: Path | None = None


def examine(asked: Asked, callers: Mapping[str, Look] | None = None) -> Iterator[tuple[str, list[Diagnosis]]]:
    """Look at everything; yields each section's title and what was found. No key is in it.

    Args:
        asked: What is looked at beside.
        callers: Sections of whoever calls, by their titles: they come last.
    """
    sections: dict[str, Look] = {
        "Python": package.python,
        "reactree_ros": package.reactree_ros,
        "Extras": package.installed_extras,
        "Plug-ins": package.plug_ins,
        "Language models in a process": engines.local_engines,
        "ROS 2": ros.ros,
        "Servers": lambda: servers.servers(asked.base_url, asked.models),
        "Episodic memory": lambda: memory_file.episodic_memory(asked.memory),
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
    """Yield what a section finds; a section that fails is one more thing that is wrong."""
    try:
        yield from look()
    except Exception as error:
        said = f"could not be looked at to its end ({type(error).__name__}: {error})"
        yield Diagnosis(title, Level.WRONG, said, "report it: a look must not fail, whatever it finds")
