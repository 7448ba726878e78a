"""The named episodic memory: whether it is readable, and its contents. The check writes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from reactree_ros.errors import UserError
from reactree_ros.plugins.diagnosis import Diagnosis, Level

if TYPE_CHECKING:
    from reactree_ros.memory.spec import NamedMemory


def episodic_memory(memory: NamedMemory | None) -> Iterator[Diagnosis]:
    """Yield findings about an episodic memory; None if none was named."""
    if memory is None:
        yield Diagnosis("memory", Level.NOTE, "none is named", "--memory FILE checks one")
        return
    try:
        yield from memory.spec.diagnose(memory.settings)
    except UserError as error:
        yield Diagnosis("memory", Level.WRONG, str(error), "it was not changed; name another one with --memory")
    except OSError as error:
        said = f"{memory}: cannot be read ({error})"
        yield Diagnosis("memory", Level.WRONG, said, "name an episodic memory that you may read")
