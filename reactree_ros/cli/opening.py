"""What several commands share: a language model, a memory or a map that is opened, what is said, asked and shown."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.progress import Progress

from reactree_ros.agent.text import in_one_line
from reactree_ros.errors import UserError
from reactree_ros.files.secrecy import redacted
from reactree_ros.llm.trained import as_trained, strange

if TYPE_CHECKING:
    from pathlib import Path

    from reactree_ros.cli.options import Chosen
    from reactree_ros.llm.port import LanguageModel
    from reactree_ros.llm.spec import ModelSpec
    from reactree_ros.memory.house_map import HouseMap
    from reactree_ros.memory.port import EpisodicMemory
    from reactree_ros.memory.spec import NamedMemory
    from reactree_ros.planners.spec import Planner
    from reactree_ros.plugins.settings import Settings

#: The planner if none is named, and the language model was trained for none in particular.
DEFAULT_PLANNER = "reactree_wm"


def say(text: str, style: str = "", *, err: bool = False) -> None:
    """Print text that may be anybody's: none of it is taken for markup, and no line is folded."""
    Console(stderr=err).print(text, style=style, markup=False, highlight=False, soft_wrap=True)


def warn(text: str) -> None:
    say(in_one_line(text), "yellow", err=True)


def agreed(shown: str, question: str) -> bool | None:
    """Show something on stderr and ask a question; no is the default. Returns None if nobody can be asked."""
    try:
        there = sys.stdin.isatty() and sys.stderr.isatty()
    except (AttributeError, ValueError):  # a stream is closed
        there = False
    if not there:
        return None
    typer.echo(in_one_line(redacted(shown)), err=True)
    return typer.confirm(question, default=False, err=True)


@contextmanager
def open_model(spec: ModelSpec, settings: Settings) -> Iterator[LanguageModel]:
    """Make a language model and wait until it is ready; Ctrl-C ends the wait."""
    from reactree_ros.llm.port import LanguageModelError, NoAnswerInTime
    from reactree_ros.llm.settings import make_model
    from reactree_ros.llm.waiting import kept_out_of_the_log, shown_while

    model = make_model(spec, settings)
    console, doing = Console(stderr=True), "Getting the language model ready"
    try:
        with console.status(doing) as status, kept_out_of_the_log(console.is_terminal):
            ready = model.ready()
            shown_while(ready, model, lambda words: status.update(f"{doing}: {words}" if words else doing))
            try:
                ready.result()
            except NoAnswerInTime as error:
                raise UserError(
                    f"{error}, so nothing was asked of it; if it is only slow, raise request_timeout"
                ) from error
        yield model
    except LanguageModelError as error:
        raise UserError(str(error)) from error
    finally:
        model.close()


def chosen_planner(named: str, llm: Chosen) -> Planner:
    """Return the planner of that name; without a name, the first one that the language model was trained for.

    One that is named without options has those that the language model was trained with. Says where it was trained for
    others only.
    """
    from reactree_ros.planners.spec import planner

    trained = llm.spec.trained_for(llm.settings)
    chosen = as_trained(named, trained)
    if problem := strange(chosen, trained):
        warn(f"--planner {problem}")
    return planner(chosen or DEFAULT_PLANNER)


@contextmanager
def open_memory(memory: NamedMemory) -> Iterator[EpisodicMemory]:
    with Console(stderr=True).status("Getting the memory ready"):
        memory.prepare()
    with memory.open() as episodic:
        yield episodic


def open_map(path: Path, house: str) -> HouseMap:
    from reactree_ros.memory.house_map import HouseMap

    return HouseMap(path, house)


@contextmanager
def progress(title: str, *, quiet: bool = False) -> Iterator[Callable[[float], None]]:
    console = Console(stderr=True, quiet=quiet)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(title, total=1.0)
        yield lambda share: bar.update(task, completed=share)
