"""What ``reactree resume`` and ``reactree fork`` have in common."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console

from reactree_ros.cli import NOT_ACHIEVED
from reactree_ros.cli.opening import (
    Again,
    carried_out,
    flush_of,
    guarded,
    open_memory,
    open_model,
    open_record,
    person_at,
    shown_events,
)

if TYPE_CHECKING:
    from reactree_ros.cli.options import Chosen
    from reactree_ros.memory.spec import NamedMemory
    from reactree_ros.record.reader import Record


def go_on_from(
    record: Record,
    until: int,
    *,
    llm: Chosen | Mapping[str, Any],
    world_option: Mapping[str, Any],
    policy: Path | None,
    memory: NamedMemory | None,
    save: Path | None,
    as_json: bool,
    limits: Mapping[str, int] | None = None,
    says: str = "",
    planner: str = "",
) -> None:
    """Go on from so many events of a record, live, and show what comes of it.

    Args:
        record: The record.
        until: How many of its events.
        llm: Another language model, or what the user says of the recorded one.
        world_option: What the user says of the recorded world.
        policy: The user's skill policy, which outranks the recorded one; None: there is none.
        memory: An episodic memory that examples come from; None: there are none.
        save: Where the new record is written; None: nowhere.
        as_json: Whether the result is printed as JSON, and nothing else.
        limits: Limits other than the recorded ones.
        says: What is said first.
        planner: Another planner, which begins anew; empty: the recorded one.
    """
    from reactree_ros.episode.going_on import begin_otherwise, go_on, options_of

    errors, console = Console(stderr=True), Console(stderr=as_json)

    def differs(what: str, recorded: str, now: str) -> None:
        text = f"'{what}' came to something else when it was carried out again: {now!r}, recorded {recorded!r}"
        errors.print(text, style="yellow", markup=False, highlight=False, soft_wrap=True)

    again = Again.of(record, llm=llm, world_option=world_option, policy=policy)
    with (
        open_model(again.llm) as model,
        open_memory(memory) if memory else nullcontext() as episodic,
        open_record(save) as file,
        again.world() as made,
        person_at(console, None, page=False) as desk,
        shown_events(file, save, as_json=as_json, console=console, model=model) as events,
    ):
        world = guarded(made, again.policy, desk, options_of(record).answer_timeout)
        given: dict[str, Any] = {
            "world": world,
            "model": model,
            "memory": episodic,
            "person": desk,
            "write": events or _nowhere,
            "flush": flush_of(file),
            "about": again.about(),
            "differs": differs,
        }
        if planner:
            episode = begin_otherwise(record, until, planner, **given)
        else:
            episode = go_on(record, until, limits=limits, says=says, **given)
        if desk is not None:
            desk.follow(episode.hear)
        result = carried_out(episode, as_json=as_json)
    if not result.achieved:
        raise typer.Exit(NOT_ACHIEVED)


def _nowhere(event: object) -> None:
    """Take an event of a run that is not recorded."""
