"""The named episodic memory: whether it is readable, and its contents. The check writes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from reactree_ros.errors import UserError
from reactree_ros.plugins.findings import Finding, Verdict

if TYPE_CHECKING:
    from reactree_ros.memory.spec import NamedMemory


def episodic_memory(memory: NamedMemory | None) -> Iterator[Finding]:
    """Yield findings about an episodic memory; None if none was named."""
    if memory is None:
        yield Finding("memory", Verdict.NOTE, "none is named", "--memory FILE checks one")
        return
    try:
        yield from memory.spec.diagnose(memory.settings)
    except UserError as error:
        yield Finding("memory", Verdict.WRONG, str(error), "it was not changed; name another one with --memory")
    except OSError as error:
        said = f"{memory}: cannot be read ({error})"
        yield Finding("memory", Verdict.WRONG, said, "name an episodic memory that you may read")
