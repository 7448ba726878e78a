"""What several commands open and show: a language model, a memory, a record, a progress bar, a run."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from rich.console import Console
from rich.progress import Progress

from reactree_ros.cli.defaults import policy_of_user
from reactree_ros.cli.said_again import Recorded, check_said
from reactree_ros.errors import UserError
from reactree_ros.llm.trained import as_trained, strange

if TYPE_CHECKING:
    from reactree_ros.cli.options import Chosen
    from reactree_ros.episode import Episode, EpisodeResult
    from reactree_ros.llm.port import LanguageModel
    from reactree_ros.llm.spec import ModelSpec
    from reactree_ros.memory.port import EpisodicMemory
    from reactree_ros.memory.spec import NamedMemory
    from reactree_ros.person.desk import Desk
    from reactree_ros.planners.spec import Planner
    from reactree_ros.plugins.settings import Settings
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
def open_memory(memory: NamedMemory) -> Iterator[EpisodicMemory]:
    """Open an episodic memory, ready to find; it is made if it is not there."""
    with Console(stderr=True).status("Getting the memory ready"):
        memory.prepare()
    with memory.open() as episodic:
        yield episodic


@contextmanager
def progress(title: str, *, quiet: bool = False) -> Iterator[Callable[[float], None]]:
    """Show a progress bar on stderr; yields what is called with the share that is done."""
    console = Console(stderr=True, quiet=quiet)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
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
    return {
        "world": {"name": world.spec.name, "settings": settings, "scored": scored, **in_house(task), **_rules(policy)},
        "llm": model_to_dict(llm.spec, llm.settings),
    }


@dataclasses.dataclass(frozen=True)
class Again:
    """World, language model and skill policy with which a record is gone on with.

    Attributes:
        record: The record.
        world_settings: Those of its world or task suite.
        llm: The language model.
        policy: The skill policy; None: there is none.
    """

    record: Record
    world_settings: Settings
    llm: Chosen
    policy: SkillPolicy | None

    @classmethod
    def of(
        cls,
        record: Record,
        *,
        llm: Chosen | Mapping[str, Any],
        world_option: Mapping[str, Any],
        policy: Path | None,
    ) -> Again:
        """Read them: what may start, open, load or send something is only as the user says it.

        Args:
            record: The record.
            llm: Another language model, or what the user says of the recorded one.
            world_option: What the user says of the world.
            policy: The user's skill policy, which outranks the recorded one.

        Raises:
            UserError: The user did not say it, or the record does not name what is here.
        """
        from reactree_ros.cli.options import Chosen
        from reactree_ros.world.skill_policy import load_policy

        world = _world_of(record, world_option)
        model = None if isinstance(llm, Chosen) else _model_of(record, llm)
        check_said(record, [world] if model is None else [world, model[1]])
        chosen = llm if model is None else Chosen(model[0], model[1].read(record.name))
        policy = policy or policy_of_user()
        rules = _policy_of(record) if policy is None else load_policy(policy)
        return cls(record, world.read(record.name), cast("Chosen", chosen), rules)

    def world(self) -> World:
        """Make the world anew, standing where its task starts.

        Raises:
            UserError: It cannot be made.
        """
        from reactree_ros.plugins import REGISTRIES
        from reactree_ros.world.spec import WORLDS, Place

        said, task_id = self.record.run["world"], self.record.run["task_id"]
        try:
            if "suite" in said:
                suite = REGISTRIES.get("suites").get(said["suite"])
                made: World = suite.make_world(suite.tasks(self.world_settings)[task_id])
                return made
            place = Place.of(WORLDS.get(said["name"]), cast("WorldSettings", self.world_settings))
            task = place.choose(self.record.run["instruction"])[0] if task_id is None else place.task(task_id)
            return place.make(task, scored=said["scored"])
        except (KeyError, TypeError) as error:
            raise _no_world(self.record) from error

    def about(self) -> dict[str, Any]:
        """Return what the new record says of world and language model."""
        from reactree_ros.llm.settings import model_to_dict

        settings = self.world_settings.model_dump(mode="json", exclude_defaults=True)
        world = {name: value for name, value in self.record.run["world"].items() if name != "policy"}
        return {
            "world": {**world, "settings": settings, **_rules(self.policy)},
            "llm": model_to_dict(self.llm.spec, self.llm.settings),
        }


def _no_world(record: Record) -> UserError:
    return UserError(f"{record.name}: does not say in which world it was, so nothing can be gone on with")


def _world_of(record: Record, said: Mapping[str, Any]) -> Recorded:
    """Return the settings of the world or task suite that a record names."""
    from reactree_ros.plugins import REGISTRIES

    try:
        world = record.run["world"]
        kind, key = ("suites", "suite") if "suite" in world else ("worlds", "name")
        named = REGISTRIES.get(kind).get(world[key])
        values = dict(world["settings"])
    except (KeyError, TypeError, ValueError) as error:
        raise _no_world(record) from error
    return Recorded(kind=named.settings, values=values, said=said, option="--world-option")


def _model_of(record: Record, said: Mapping[str, Any]) -> tuple[ModelSpec, Recorded]:
    """Return the language model that a record names, and its settings."""
    from reactree_ros.llm.spec import MODELS

    values = record.run.get("llm")
    if not isinstance(values, Mapping) or not isinstance(values.get("llm"), str):
        raise UserError(f"{record.name}: does not say which language model it was; name one with --llm")
    spec = MODELS.get(values["llm"])
    others = {name: value for name, value in values.items() if name != "llm"}
    return spec, Recorded(kind=spec.settings, values=others, said=said, option="--llm-option")


def _policy_of(record: Record) -> SkillPolicy | None:
    """Return the skill policy that a record's run was under; None: there was none.

    Raises:
        UserError: It makes no sense.
    """
    from reactree_ros.world.skill_policy import policy_from_list

    rules = record.run["world"].get("policy")
    return None if rules is None else policy_from_list(rules, where=record.name)


def _rules(policy: SkillPolicy | None) -> dict[str, Any]:
    return {} if policy is None else {"policy": [rule.model_dump(mode="json") for rule in policy.rules]}


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
    policy.check(world.household.actions, world.words, world.free_verbs, world.household.skills)
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
    from reactree_ros.view.terminal import Terminal

    if as_json:
        yield None if record is None else record.write
        return
    with Terminal(console or Console(), record=save, model=model) as terminal:
        takers = [terminal.take] if record is None else [record.write, terminal.take]

        def take(event: Event) -> None:
            for one in takers:
                one(event)

        yield take


def carried_out(episode: Episode, *, as_json: bool) -> EpisodeResult:
    """Carry an episode out; if JSON is wanted, its result is printed, also when it was interrupted."""
    try:
        result = episode.run()
    except KeyboardInterrupt:
        if as_json:
            print_json(episode.result())
        raise
    if as_json:
        print_json(result)
    return result


def print_json(result: EpisodeResult) -> None:
    """Print what came of a run as one JSON object."""
    print(json.dumps(dataclasses.asdict(result) | {"verdict": result.verdict.as_dict()}))  # noqa: T201
