"""Checks the installation and its surroundings: `reactree doctor`. Each problem comes with a remedy.

A check changes nothing, has a time limit, and imports heavy libraries and ROS only in another process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from reactree_ros.agent.text import in_one_line
from reactree_ros.doctor import installation, ros, servers
from reactree_ros.errors import UserError
from reactree_ros.files.secrecy import redacted
from reactree_ros.memory.spec import NamedMemory
from reactree_ros.plugins.installation import Diagnosis, Level

#: Yields the diagnoses of a section.
Look = Callable[[], Iterable[Diagnosis]]


def examine(
    callers: Mapping[str, Look], *, base_url: str = "", models: Path | None = None, memory: NamedMemory | None = None
) -> Iterator[tuple[str, list[Diagnosis]]]:
    """Run all checks, and the caller's own; yields each section's title and what it found, never with a key.

    Instead of an empty ``base_url``, ``$OPENAI_BASE_URL`` is checked, if set.
    """
    sections: dict[str, Look] = {
        "Python": installation.python,
        "reactree_ros": installation.reactree_ros,
        "Extras": installation.installed_extras,
        "Plug-ins": installation.plug_ins,
        "Language models in a process": installation.local_engines,
        "ROS 2": ros.ros,
        "Servers": lambda: servers.servers(base_url, models),
        "Episodic memory": lambda: episodic_memory(memory),
        "Terminal and disk": installation.surroundings,
        **callers,
    }
    for title, look in sections.items():
        yield (
            title,
            [
                replace(one, said=in_one_line(redacted(one.said)), remedy=in_one_line(redacted(one.remedy)))
                for one in _guarded(title, look)
            ],
        )


def _guarded(title: str, look: Look) -> Iterator[Diagnosis]:
    try:
        yield from look()
    except Exception as error:
        problem = f"the check stopped halfway ({type(error).__name__}: {error})"
        yield Diagnosis(title, Level.WRONG, problem, "report this bug: a check must not fail, whatever it finds")


def episodic_memory(memory: NamedMemory | None) -> Iterator[Diagnosis]:
    if memory is None:
        yield Diagnosis("memory", Level.NOTE, "none is named", "--memory FILE checks one")
        return
    try:
        yield from memory.spec.diagnose(memory.settings)
    except UserError as error:
        yield Diagnosis("memory", Level.WRONG, str(error), "it was not changed; name another one with --memory")
    except OSError as error:
        remedy = "name an episodic memory that you may read"
        yield Diagnosis("memory", Level.WRONG, f"{memory}: cannot be read ({error})", remedy)
