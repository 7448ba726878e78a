"""What several commands share: how a model, a memory or a map is opened, a run carried out, what is said and asked."""

from __future__ import annotations

import dataclasses
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.progress import Progress
from rich.status import Status

from reactree_ros.agent.text import in_one_line
from reactree_ros.cli import ASKED
from reactree_ros.errors import UserError
from reactree_ros.files.secrecy import redacted
from reactree_ros.llm.spec import as_trained, strange

if TYPE_CHECKING:
    from pathlib import Path

    from reactree_ros.cli.options import Chosen
    from reactree_ros.episode import Episode, EpisodeResult
    from reactree_ros.episode.run_spec import RunSpec
    from reactree_ros.llm.port import LanguageModel
    from reactree_ros.llm.spec import ModelSpec
    from reactree_ros.memory.house_map import HouseMap
    from reactree_ros.memory.port import EpisodicMemory
    from reactree_ros.memory.spec import NamedMemory
    from reactree_ros.person.desk import Desk
    from reactree_ros.planners.spec import Planner
    from reactree_ros.plugins.settings import Settings
    from reactree_ros.record.schema import Event
    from reactree_ros.view.steering import Steering
    from reactree_ros.view.terminal import Terminal
    from reactree_ros.world.spec import Place


#: Seconds after which a wait is told of: who waits longer without a word thinks that it hangs.
PROMPT = 0.5
#: The planner if none is named, and the language model was trained for none in particular.
DEFAULT_PLANNER = "reactree_wm"


def say(text: str, style: str = "", *, err: bool = False) -> None:
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


def is_rewritten(console: Console) -> bool:
    """Return whether a line that was printed can be written over."""
    return console.is_terminal and not console.is_dumb_terminal


@contextmanager
def waiting(doing: str) -> Iterator[Status]:
    """Say what is waited for: a terminal gets one line that is rewritten; elsewhere only a long wait gets a line."""
    console = Console(stderr=True)
    soon = threading.Timer(PROMPT, say, (doing,), {"err": True})
    soon.daemon = True
    if not is_rewritten(console):
        soon.start()
    try:
        with console.status(doing) as status:
            yield status
    finally:
        soon.cancel()


@contextmanager
def open_model(spec: ModelSpec, settings: Settings) -> Iterator[LanguageModel]:
    """Make a language model and wait until it is ready; Ctrl-C ends the wait.

    It names a slow model and its file once the model is ready.
    """
    from reactree_ros.llm.port import LanguageModelError, NoAnswerInTime
    from reactree_ros.llm.spec import make_model
    from reactree_ros.llm.waiting import kept_out_of_the_log, shown_while

    doing = f"Getting the language model '{spec.name}' ready"
    begun, model = time.monotonic(), None
    try:
        with waiting(doing) as status, kept_out_of_the_log(is_rewritten(status.console)):
            model = make_model(spec, settings)
            ready = model.ready()
            shown_while(ready, model, lambda words: status.update(f"{doing}: {words}" if words else doing))
            try:
                ready.result()
            except NoAnswerInTime as error:
                raise UserError(
                    f"{error}, so nothing was asked of it; if it is only slow, raise request_timeout"
                ) from error
        if (seconds := time.monotonic() - begun) > PROMPT:
            say(f"{in_one_line(_called(model, spec))} is ready after {seconds:.1f} s", "dim", err=True)
        yield model
    except LanguageModelError as error:
        raise UserError(str(error)) from error
    finally:
        if model is not None:
            model.close()


def _called(model: LanguageModel, spec: ModelSpec) -> str:
    status = model.status()
    name, where = status.get("engine", f"'{spec.name}'"), status.get("model", "")
    return f"{name.removesuffix(Path(where).name)}{where}" if where and name.endswith(Path(where).name) else name


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
    with waiting("Getting the memory ready"):
        memory.prepare()
    with memory.open() as episodic:
        yield episodic


def open_map(path: Path, house: str) -> HouseMap:
    from reactree_ros.memory.house_map import HouseMap

    return HouseMap(path, house)


@contextmanager
def progress(title: str, *, quiet: bool = False) -> Iterator[Callable[[float], None]]:
    console = Console(stderr=True, quiet=quiet)
    with Progress(console=console, transient=True, disable=not is_rewritten(console)) as bar:
        task = bar.add_task(title, total=1.0)
        yield lambda share: bar.update(task, completed=share)


def carry_out(
    spec: RunSpec,
    begin: Callable[..., Episode],
    *,
    place: Place | None = None,
    save: Path | None,
    as_json: bool,
    view: bool = False,
    paused: bool = False,
    remember: bool = False,
    house_map: Path | None = None,
) -> EpisodeResult:
    """Carry a run out, show it, and return its result; `begin` makes the episode, as ``assemble`` does."""
    from reactree_ros.episode.assembly import make_world
    from reactree_ros.episode.eyes import Remembering
    from reactree_ros.episode.telemetry import exporting
    from reactree_ros.llm.script import PersonModel
    from reactree_ros.record.writer import RecordFile
    from reactree_ros.view.steering import Steering
    from reactree_ros.view.terminal import Terminal

    memory = spec.chosen_memory()
    console = Console(stderr=as_json)
    with (
        exporting("reactree"),
        open_model(*spec.chosen("llm")) as model,
        open_memory(memory) if memory else nullcontext() as episodic,
        _kept_for_the_page(save) if view else nullcontext(save) as record,
        closing(RecordFile(record, own=True)) if record else nullcontext() as file,
        make_world(spec, place) as world,
        open_map(house_map, spec.where) if house_map else nullcontext() as kept,
        nullcontext() if as_json else Terminal(console, record=save, model=model) as shown,
        _desk(console, shown, view=view) as desk,
    ):
        takers = [one for one in (file and file.write, shown and shown.take) if one]

        def write(event: Event) -> None:
            for take in takers:
                take(event)

        steering = Steering(model, desk, paused=paused) if view else None
        episode = begin(
            spec,
            world=Remembering(world, kept) if kept else world,
            model=steering or model,
            person=desk,
            memory=episodic,
            telling=True,
            write=write if takers else None,
            **({} if file is None else {"flush": file.flush}),
        )
        if desk is not None:
            desk.follow(episode.hear)
        if isinstance(model, PersonModel):
            model.person = desk
        with _watched(episode, record, steering) if steering and record else nullcontext():
            try:
                result = episode.run()
            except KeyboardInterrupt:
                if as_json:
                    _print_json(episode.result())
                raise
            if as_json:
                _print_json(result)
            if remember:
                episode.remember(result)  # last: if the memory cannot be written, nothing else is lost
                for line in episode.learning.report:
                    console.print(in_one_line(line), style="dim", markup=False, highlight=False, soft_wrap=True)
    return result


def differs(what: str, recorded: str, now: str) -> None:
    warn(f"'{what}' came to something else when it was carried out again: {now!r}, recorded {recorded!r}")


def terminal() -> int | None:
    try:
        return sys.stdin.fileno() if sys.stdin.isatty() else None
    except (AttributeError, OSError, ValueError):  # stdin is closed, or replaced by an object without a descriptor
        return None


@contextmanager
def _kept_for_the_page(save: Path | None) -> Iterator[Path]:
    """Yield the path of a run's record: the wanted one, or a temporary one for the page."""
    if save is not None:
        yield save
        return
    with TemporaryDirectory() as folder:
        yield Path(folder, "run.jsonl")


@contextmanager
def _watched(episode: Episode, record: Path, steering: Steering) -> Iterator[None]:
    from reactree_ros.view.runs import Runs
    from reactree_ros.view.server import ViewServer

    steering.follow(episode)
    with ViewServer(Runs(record), steering=steering) as server:
        say_where(server.url)
        yield
        steering.ended()
        say("The run has ended; the page stays until Ctrl-C", err=True)
        with ASKED.until_ctrl_c():
            server.wait()


def say_where(url: str) -> None:
    say(f"The page is at {url} (Ctrl-C ends)", err=True)


@contextmanager
def _desk(console: Console, shown: Terminal | None, *, view: bool) -> Iterator[Desk | None]:
    # whose questions a person answers: on the page, or at this terminal; None if nobody can
    from reactree_ros.person.desk import Desk, at_the_terminal

    desk, typed = Desk(), terminal()
    if view:
        yield desk
    elif typed is not None:
        asking = shown.pause if shown else lambda is_asking: None  # what is typed is not drawn over
        with at_the_terminal(desk, typed, lambda line: console.print(line, style="bold", markup=False), asking=asking):
            yield desk
    else:
        yield None


def _print_json(result: EpisodeResult) -> None:
    print(json.dumps(dataclasses.asdict(result) | {"verdict": result.verdict.as_dict()}))  # noqa: T201
