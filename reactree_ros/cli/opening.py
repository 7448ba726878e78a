"""What several commands open and show: a language model, a memory, a record, a progress bar, a run."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from rich.console import Console
from rich.progress import Progress

from reactree_ros.errors import UserError
from reactree_ros.llm.trained import as_trained, strange

if TYPE_CHECKING:
    from reactree_ros.cli.options import Chosen
    from reactree_ros.episode import EpisodeResult
    from reactree_ros.llm.port import LanguageModel
    from reactree_ros.memory.episodic import EpisodicMemory
    from reactree_ros.person.desk import Desk
    from reactree_ros.planners.spec import Planner
    from reactree_ros.record.reader import Record
    from reactree_ros.record.schema import Event
    from reactree_ros.record.writer import RecordFile
    from reactree_ros.world.port import World
    from reactree_ros.world.skill_policy import SkillPolicy
    from reactree_ros.world.spec import WorldSettings

#: Who plans where nobody is named, and the language model was trained for none in particular.
DEFAULT_PLANNER = "reactree_wm"


@contextmanager
def open_model(llm: Chosen) -> Iterator[LanguageModel]:
    """Make a language model and wait until it is ready; Ctrl-C ends the wait."""
    from reactree_ros.llm.port import LanguageModelError
    from reactree_ros.llm.settings import make_model
    from reactree_ros.llm.waiting import kept_out_of_the_log, shown_while

    model = make_model(llm.spec, llm.settings)
    console, doing = Console(stderr=True), "Getting the language model ready"
    try:
        with console.status(doing) as status, kept_out_of_the_log(console.is_terminal):
            ready = model.ready()
            shown_while(ready, model, lambda words: status.update(f"{doing}: {words}" if words else doing))
            ready.result()
        yield model
    except LanguageModelError as error:
        raise UserError(str(error)) from error
    finally:
        model.close()


def chosen_planner(named: str, llm: Chosen) -> Planner:
    """Return the planner of that name; without a name, the first one that the language model was trained for.

    One that is named without options has those that the language model was trained with. Says where it was trained for
    others only.

    Raises:
        UserError: There is none of that name.
    """
    from reactree_ros.planners.spec import planner

    trained = llm.spec.trained_for(llm.settings)
    chosen = as_trained(named, trained)
    if said := strange(chosen, trained):
        Console(stderr=True).print(f"--planner {said}", style="yellow", markup=False, highlight=False, soft_wrap=True)
    return planner(chosen or DEFAULT_PLANNER)


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


@contextmanager
def open_record(path: Path | None) -> Iterator[RecordFile | None]:
    """Open a new record; yields its file, None where there is no path.

    Raises:
        UserError: It is there already, or cannot be made.
    """
    from reactree_ros.record.writer import RecordFile

    if path is None:
        yield None
        return
    file = RecordFile(path)
    try:
        yield file
    finally:
        file.close()


def flush_of(record: RecordFile | None) -> Callable[[], None]:
    """Return what makes safe what a record took; without one, nothing."""
    return (lambda: None) if record is None else record.flush


def described(
    world: Chosen, llm: Chosen, task: object, *, scored: bool, policy: SkillPolicy | None = None
) -> dict[str, Any]:
    """Return what a record says of a world, with its skill policy, and of a language model that were chosen."""
    from reactree_ros.llm.settings import model_to_dict
    from reactree_ros.world.spec import in_house

    settings = world.settings.model_dump(mode="json", exclude_defaults=True)
    rules = {} if policy is None else {"policy": [rule.model_dump(mode="json") for rule in policy.rules]}
    return {
        "world": {"name": world.spec.name, "settings": settings, "scored": scored, **in_house(task), **rules},
        "llm": model_to_dict(llm.spec, llm.settings),
    }


def world_of(record: Record) -> World:
    """Make the world of a record anew, standing where its task starts.

    Raises:
        UserError: The record does not say which, or it cannot be made.
    """
    from reactree_ros.registry import SUITES, WORLDS
    from reactree_ros.settings import read_settings
    from reactree_ros.world.spec import Place

    said, task_id = record.run["world"], record.run["task_id"]
    try:
        if "suite" in said:
            suite = SUITES.get(said["suite"])
            settings = read_settings(suite.settings, said["settings"], where=record.name)
            return suite.make_world(suite.tasks(settings)[task_id])
        spec = WORLDS.get(said["name"])
        settings = read_settings(spec.settings, said["settings"], where=record.name)
        place = Place.of(spec, cast("WorldSettings", settings))
        task = place.choose(record.run["instruction"])[0] if task_id is None else place.task(task_id)
        return place.make(task, scored=said["scored"])
    except KeyError as error:
        raise UserError(f"{record.name}: does not say in which world it was, so nothing can be gone on with") from error


def policy_of(record: Record) -> SkillPolicy | None:
    """Return the skill policy that a record's run was under; None: there was none.

    Raises:
        UserError: It makes no sense.
    """
    from reactree_ros.world.skill_policy import policy_from_list

    rules = record.run["world"].get("policy")
    return None if rules is None else policy_from_list(rules, where=record.name)


def model_of(record: Record) -> Chosen:
    """Return the language model that a record names.

    Raises:
        UserError: It names none, or one that is not here.
    """
    from reactree_ros.cli.options import Chosen
    from reactree_ros.llm.settings import model_from_dict

    if not record.run["llm"]:
        raise UserError(f"{record.name}: does not say which language model it was; name one with --llm")
    return Chosen(*model_from_dict(record.run["llm"], where=record.name))


@contextmanager
def person_at(console: Console, planner: Planner | None, *, page: bool) -> Iterator[Desk | None]:
    """Yield the desk whose questions a person answers: on the page, or at this terminal; None where nobody can.

    Args:
        console: Where questions are printed.
        planner: Who asks; None: that is in a record.
        page: Whether there is a page.
    """
    from reactree_ros.person.desk import Desk
    from reactree_ros.person.terminal import at_the_terminal

    desk, terminal = Desk(), _terminal()
    if page:
        yield desk
    elif terminal is not None:
        with at_the_terminal(desk, terminal, lambda line: console.print(line, style="bold", markup=False)):
            yield desk
    else:
        if planner is not None and planner.settings.model_dump().get("questions"):
            text = "Nobody can be asked: nothing can be typed here; with --view a person answers on the page"
            Console(stderr=True).print(text, style="yellow", markup=False, highlight=False, soft_wrap=True)
        yield None


def guarded(world: World, policy: SkillPolicy | None, person: Desk | None, seconds: float) -> World:
    """Guard a world by a skill policy.

    Args:
        world: The world.
        policy: The policy; None: there is none.
        person: Who confirms; None: nobody does.
        seconds: Longest wait for a yes.

    Raises:
        UserError: The policy does not fit this world.
    """
    from reactree_ros.person.confirmation import confirmed_by
    from reactree_ros.person.desk import Desk
    from reactree_ros.world.wrappers import PolicyGuard

    if policy is None:
        return world
    policy.check(world.household.actions, world.words)
    if person is None:
        person = Desk()
        person.leave()
    return PolicyGuard(world, policy, confirmed_by(person, seconds))


def _terminal() -> int | None:
    """Return the file descriptor of what a person types; None where nobody does."""
    try:
        return sys.stdin.fileno() if sys.stdin.isatty() else None
    except (AttributeError, OSError, ValueError):  # it is closed, or stands for something else
        return None


@contextmanager
def shown_events(
    record: RecordFile | None,
    save: Path | None,
    *,
    as_json: bool,
    console: Console | None = None,
    model: LanguageModel | None = None,
) -> Iterator[Callable[[Event], None] | None]:
    """Show a run in the terminal, unless JSON is printed; yields what takes its events, None where nobody does.

    Args:
        record: Takes them, too.
        save: Where they are written, for what can be done next.
        as_json: Whether nothing is shown.
        console: Where to; None: one of its own.
        model: What decides; what it waits for is shown.
    """
    from reactree_ros.terminal import Terminal

    if as_json:
        yield None if record is None else record.write
        return
    with Terminal(console or Console(), record=save, model=model) as terminal:
        takers = [terminal.take] if record is None else [record.write, terminal.take]

        def take(event: Event) -> None:
            for one in takers:
                one(event)

        yield take


def no_ros(error: ImportError, what: str = "--ros") -> UserError:
    """Return the error of a command that was asked for ``--ros``, or for what needs it, where ROS 2 is not there."""
    return UserError(
        f"{what} needs ROS 2 and this package's workspace, built and sourced ({error}): source "
        "/opt/ros/DISTRO/setup.bash, then ros2_ws/install/setup.bash"
    )


def print_json(result: EpisodeResult) -> None:
    """Print what came of a run as one JSON object."""
    print(json.dumps(dataclasses.asdict(result)))  # noqa: T201
