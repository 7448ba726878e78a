"""How `reactree run`, `resume` and `fork` carry a run out: they open what it names, show it, and print its result."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from reactree_ros.agent.text import in_one_line
from reactree_ros.cli.opening import open_map, open_memory, open_model, warn

if TYPE_CHECKING:
    from reactree_ros.episode import Episode, EpisodeResult
    from reactree_ros.episode.run_spec import RunSpec
    from reactree_ros.person.desk import Desk
    from reactree_ros.record.schema import Event
    from reactree_ros.world.spec import Place


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
    from reactree_ros.cli.view import kept_for_the_page, watched
    from reactree_ros.episode.assembly import make_world
    from reactree_ros.episode.remembering import Remembering
    from reactree_ros.episode.telemetry import exporting
    from reactree_ros.record.writer import RecordFile
    from reactree_ros.view.steering import Steering
    from reactree_ros.view.terminal import Terminal

    memory = spec.chosen_memory()
    console = Console(stderr=as_json)
    with (
        exporting("reactree"),
        open_model(*spec.chosen("llm")) as model,
        open_memory(memory) if memory else nullcontext() as episodic,
        kept_for_the_page(save) if view else nullcontext(save) as record,
        closing(RecordFile(record, own=True)) if record else nullcontext() as file,
        make_world(spec, place) as world,
        open_map(house_map, spec.where) if house_map else nullcontext() as kept,
        _desk(console, view=view) as desk,
        nullcontext() if as_json else Terminal(console, record=save, model=model) as shown,
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
        with watched(episode, record, steering) if steering and record else nullcontext():
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
    """Return the file descriptor of a person's typing; None if nobody can type."""
    try:
        return sys.stdin.fileno() if sys.stdin.isatty() else None
    except (AttributeError, OSError, ValueError):  # stdin is closed, or replaced by an object without a descriptor
        return None


@contextmanager
def _desk(console: Console, *, view: bool) -> Iterator[Desk | None]:
    # whose questions a person answers: on the page, or at this terminal; None if nobody can
    from reactree_ros.person.desk import Desk
    from reactree_ros.person.terminal import at_the_terminal

    desk, typed = Desk(), terminal()
    if view:
        yield desk
    elif typed is not None:
        with at_the_terminal(desk, typed, lambda line: console.print(line, style="bold", markup=False)):
            yield desk
    else:
        yield None


def _print_json(result: EpisodeResult) -> None:
    print(json.dumps(dataclasses.asdict(result) | {"verdict": result.verdict.as_dict()}))  # noqa: T201
