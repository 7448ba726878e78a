"""What several commands open: a language model, an episodic memory, a progress bar."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import Progress

from reactree_ros.errors import UserError

if TYPE_CHECKING:
    from reactree_ros.cli.options import Chosen
    from reactree_ros.llm.port import LanguageModel
    from reactree_ros.memory.episodic import EpisodicMemory


@contextmanager
def open_model(llm: Chosen) -> Iterator[LanguageModel]:
    """Make a language model and wait until it is ready; Ctrl-C ends the wait."""
    from reactree_ros.llm.port import LanguageModelError
    from reactree_ros.llm.settings import make_model

    model = make_model(llm.spec, llm.settings)
    try:
        with Console(stderr=True).status("Getting the language model ready"):
            model.ready().result()
        yield model
    except LanguageModelError as error:
        raise UserError(str(error)) from error
    finally:
        model.close()


@contextmanager
def open_memory(path: Path, *, embeds: bool = True) -> Iterator[EpisodicMemory]:
    """Open an episodic memory; it is made where it is not there."""
    from reactree_ros.memory.embedding import default_embedder
    from reactree_ros.memory.episodic import EpisodicMemory

    embedder = default_embedder()
    if embeds:
        with Console(stderr=True).status("Loading the sentence embedder"):
            embedder.encode(["Is the model there?"])
    with EpisodicMemory(path, embedder) as episodic:
        yield episodic


@contextmanager
def progress(title: str, *, quiet: bool = False) -> Iterator[Callable[[float], None]]:
    """Show a progress bar on stderr; yields what is called with the share that is done."""
    with Progress(console=Console(stderr=True, quiet=quiet), transient=True) as bar:
        task = bar.add_task(title, total=1.0)
        yield lambda share: bar.update(task, completed=share)
