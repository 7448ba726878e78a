"""The command line: ``reactree``."""

from __future__ import annotations

import dataclasses
import enum
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from reactree_ros.errors import UserError

if TYPE_CHECKING:
    from reactree_ros.llm.models import ModelSettings
    from reactree_ros.llm.port import LanguageModel
    from reactree_ros.memory.episodic import EpisodicMemory
    from reactree_ros.world.alfred import Trial
    from reactree_ros.world.tasks import Task
    from reactree_ros.world.worlds import WorldSettings

app = typer.Typer(
    help="Household instructions carried out by a behaviour tree of LLM agent nodes that grows while it runs.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
llm_app = typer.Typer(help="Try a language model.", no_args_is_help=True)
app.add_typer(llm_app, name="llm")
memory_app = typer.Typer(help="Look after an episodic memory.", no_args_is_help=True)
app.add_typer(memory_app, name="memory")

# Of the click that this typer uses: its own in newer versions.
UsageError: Any = typer.BadParameter.__base__

NOT_ACHIEVED, BAD_INPUT, INTERRUPTED = 1, 2, 130


class Model(str, enum.Enum):
    """Language models that ``--llm`` names."""

    EXPERT = "expert"
    OPENAI = "openai"
    VLLM = "vllm"
    TRANSFORMERS = "transformers"
    FALLBACK = "fallback"


class WorldChoice(str, enum.Enum):
    """Worlds that ``--world`` names."""

    VIRTUALHOME = "virtualhome"
    VIRTUALHOME_UNITY = "virtualhome_unity"
    AI2THOR = "ai2thor"


Llm = Annotated[
    Model | None,
    typer.Option(
        help="Who decides: 'openai' (any OpenAI-compatible server), 'vllm' or 'transformers' (in this process), "
        "'fallback' (several, see --models), or the 'expert' (default), which is rule-based and no language model."
    ),
]
ModelName = Annotated[str | None, typer.Option("--model", help="Name or folder of the model.")]
BaseUrl = Annotated[str | None, typer.Option(help="Of the server; by default $OPENAI_BASE_URL. Key: $OPENAI_API_KEY.")]
ApiKeyFile = Annotated[Path | None, typer.Option(help="File with the server's key, instead of $OPENAI_API_KEY.")]
Models = Annotated[
    Path | None, typer.Option("--models", help="A YAML file with every setting of the language model (or several).")
]


def main() -> None:
    """Run the command line; bad input ends in one line and exit code 2."""
    try:
        sys.exit(app(standalone_mode=False))
    except (KeyboardInterrupt, typer.Abort):
        _fail("interrupted", INTERRUPTED)
    except UsageError as error:
        if message := error.format_message():  # there is none where the help was printed instead
            _fail(message, BAD_INPUT)
        sys.exit(BAD_INPUT)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(INTERRUPTED)
    except (UserError, OSError) as error:
        _fail(" ".join(str(error).split()), BAD_INPUT)


def _fail(message: str, code: int) -> None:
    Console(stderr=True, soft_wrap=True).print(f"error: {message}", style="red", markup=False, highlight=False)
    sys.exit(code)


@app.command()
def run(
    instruction: Annotated[
        str | None, typer.Argument(help="What to do; with --tasks it defaults to the task's instruction.")
    ] = None,
    world: Annotated[
        WorldChoice,
        typer.Option(
            help="Where: VirtualHome's households on their scene graphs, the same in its Unity simulator, or AI2-THOR."
        ),
    ] = WorldChoice.VIRTUALHOME,
    house: Annotated[
        str | None, typer.Option(help="A house: 'apartment' (default), 'villa', or a file of `reactree house`.")
    ] = None,
    tasks: Annotated[
        Path | None, typer.Option(help="A task file in the WAH-NL schema; for ai2thor, ALFRED trials (file or folder).")
    ] = None,
    task_id: Annotated[
        int | None, typer.Option(help="Which task of --tasks (or of --house); of ALFRED trials, its position from 0.")
    ] = None,
    scene: Annotated[
        str | None, typer.Option(help="For ai2thor, instead of --tasks: a scene, e.g. FloorPlan10.")
    ] = None,
    world_option: Annotated[
        list[str] | None,
        typer.Option(
            help="A setting of the simulator, NAME=VALUE: host, port, executable, display, headless, start_simulator, "
            "force, interactable_poses, time_limit, pictures. May be given several times."
        ),
    ] = None,
    planner: Annotated[
        str,
        typer.Option(
            help="Who plans: reactree, react, hiagent, recode, zsp or tree_planner; the first three with _wm where "
            "they remember where things were seen; with options as NAME:OPTION=VALUE."
        ),
    ] = "reactree_wm",
    llm: Llm = None,
    model: ModelName = None,
    base_url: BaseUrl = None,
    api_key_file: ApiKeyFile = None,
    models: Models = None,
    memory: Annotated[
        Path | None,
        typer.Option(help="An episodic memory: examples come from it, and a run that reaches its goal is added."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the language model and of equally similar examples.")] = 0,
    max_decisions: Annotated[
        int | None, typer.Option(min=1, help="Decisions allowed; by default 200, 100 in ai2thor.")
    ] = None,
    max_steps: Annotated[int, typer.Option(min=1, help="Steps (skills and recalls) allowed.")] = 200,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
    save: Annotated[Path | None, typer.Option(help="Write the run into this new folder.")] = None,
) -> None:
    """Carry out an instruction in a household.

    Exit code 0 where the goal was reached, 1 where it was not, 2 for bad usage or input.
    """
    from reactree_ros.agent.budget import MAX_DECISIONS, Budget
    from reactree_ros.memory.working import WorkingMemory
    from reactree_ros.planners.variants import variant
    from reactree_ros.run import Run
    from reactree_ros.saved_run import experiences, save_run
    from reactree_ros.terminal import TerminalListener, show_result, show_tree
    from reactree_ros.tree.context import Listener, RunContext
    from reactree_ros.tree.options import TreeOptions
    from reactree_ros.world.worlds import make_world

    given = {"world": world.value, "house": house, "tasks": tasks and str(tasks), "task_id": task_id, "scene": scene}
    chosen = variant(planner)
    settings = _world_settings(given, world_option or [])
    task, number = _chosen(settings, instruction)
    if save is not None and save.exists() and (not save.is_dir() or any(save.iterdir())):
        raise UserError(f"--save {save}: is there already; name a new folder, so that no saved run is lost")
    console = Console(soft_wrap=False)
    with (
        _language_model(llm, model, base_url, api_key_file, models) as language_model,
        _open_memory(memory) as episodic,
        closing(make_world(settings, task, scored=number is not None)) as place,
    ):
        context = RunContext(
            model=language_model,
            world=place,
            budget=Budget(max_decisions=max_decisions or MAX_DECISIONS[settings.domain], max_steps=max_steps),
            options=TreeOptions(seed=seed),
            working_memory=WorkingMemory() if chosen.working_memory else None,
            listener=Listener() if as_json else TerminalListener(console),
        )
        asked = instruction or (task.instruction if task else "")
        one = Run(asked.strip(), context, task_id=number, planner=chosen.build)
        result = one.run(episodic)
        task_name = task.task_name if task and number is not None else "instruction"
        if episodic is not None and result.achieved:
            episodic.add_run(experiences(context.nodes, task_id=str(result.task_id or 0), task_name=task_name))
        if save is not None:
            save_run(one, result, save, task_name=task_name)
        if as_json:
            print(json.dumps(dataclasses.asdict(result)))  # noqa: T201
        else:
            console.print()
            show_tree(one.root, console)
            console.print()
            show_result(result, console)
            if episodic is None:
                console.print(
                    "No episodic memory: pip install 'reactree_ros[memory]', then add --memory FILE.db",
                    style="dim",
                    markup=False,
                    highlight=False,
                )
    if not result.achieved:
        raise typer.Exit(NOT_ACHIEVED)


@contextmanager
def _language_model(
    llm: Model | None, model: str | None, base_url: str | None, api_key_file: Path | None, models: Path | None
) -> Iterator[LanguageModel]:
    """Make the language model that the options describe and wait until it is ready; Ctrl-C ends the wait."""
    from reactree_ros.llm.models import make_model
    from reactree_ros.llm.port import LanguageModelError

    language_model = make_model(_model_settings(llm, model, base_url, api_key_file, models))
    try:
        with Console(stderr=True).status("Getting the language model ready"):
            language_model.ready().result()
        yield language_model
    except LanguageModelError as error:
        raise UserError(str(error)) from error
    finally:
        language_model.close()


def _model_settings(
    llm: Model | None, model: str | None, base_url: str | None, api_key_file: Path | None, models: Path | None
) -> ModelSettings:
    from reactree_ros.llm.models import load_settings, settings_of

    given = {
        "llm": llm and llm.value,
        "model": model,
        "base_url": base_url,
        "api_key_file": api_key_file and str(api_key_file),
    }
    given = {name: value for name, value in given.items() if value is not None}
    if models is None:
        settings = settings_of(given, where="options")
    elif given:
        raise UserError(
            f"--models {models} and {', '.join(_options(given))} exclude each other; write them into the file"
        )
    else:
        settings = load_settings(models)
    if settings.llm == "expert" and set(given) - {"llm"}:
        options = "/".join(_options(set(given) - {"llm"}))
        raise UserError(f"{options}: the expert takes none; name another --llm")
    return settings


def _options(names: Iterable[str]) -> list[str]:
    return [f"--{name.replace('_', '-')}" for name in sorted(names)]


def _chosen(settings: WorldSettings, instruction: str | None) -> tuple[Task | Trial | None, int | None]:
    """Choose the task that a world is made for, and its id where its goal is the instruction's."""
    from reactree_ros.world.worlds import load_world_tasks

    if instruction is not None and not instruction.strip():
        raise UserError("the instruction is empty; say what to do, e.g. 'Put 1 apple on the coffee table'")
    if settings.tasks and settings.task_id == -1:
        raise UserError("--tasks needs --task-id: which task of the file is it?")
    found = load_world_tasks(settings)
    if settings.task_id != -1:
        if settings.task_id not in found:
            raise UserError(f"{settings.tasks or settings.house or 'the house'} has no task {settings.task_id}")
        found = {settings.task_id: found[settings.task_id]}
    if not found and instruction is None:
        raise UserError(f"scene {settings.scene} has no task of its own; say what to do in it")
    for task_id, task in found.items():
        if instruction is None or settings.tasks or task.asks_for(instruction):
            return task, task_id
    return next(iter(found.values()), None), None


def _world_settings(given: dict[str, Any], options: list[str]) -> WorldSettings:
    from reactree_ros.world.worlds import world_settings

    for option in options:
        name, equals, value = option.partition("=")
        if not equals:
            raise UserError(f"--world-option {option}: write it as NAME=VALUE, e.g. port=8081")
        given[name] = value
    return world_settings({name: value for name, value in given.items() if value is not None})


@contextmanager
def _open_memory(path: Path | None, *, embeds: bool = True) -> Iterator[EpisodicMemory | None]:
    if path is None:
        yield None
        return
    from reactree_ros.memory.embedding import default_embedder
    from reactree_ros.memory.episodic import EpisodicMemory

    embedder = default_embedder()
    if embeds:
        with Console(stderr=True).status("Loading the sentence embedder"):
            embedder.encode(["Is the model there?"])
    with EpisodicMemory(path, embedder) as episodic:
        yield episodic


class ReplayWorld(str, enum.Enum):
    """Where a replay's observations come from."""

    RECORDED = "recorded"
    SYMBOLIC = "symbolic"


@app.command()
def bootstrap(
    tasks: Annotated[Path, typer.Option(help="Training tasks: a task file in the WAH-NL schema.")],
    memory: Annotated[Path, typer.Option(help="The episodic memory to fill; gone on with where it was begun.")],
    seed_memory: Annotated[
        Path | None, typer.Option(help="A memory with a few trajectories to begin with; without, a fixed example.")
    ] = None,
    planner: Annotated[str, typer.Option(help="Who plans, as for `reactree run`.")] = "reactree_wm",
    llm: Llm = None,
    model: ModelName = None,
    base_url: BaseUrl = None,
    api_key_file: ApiKeyFile = None,
    models: Models = None,
    seed: Annotated[int, typer.Option(help="Seed of the language model and of equally similar examples.")] = 0,
    max_decisions: Annotated[int, typer.Option(min=1, help="Decisions allowed in a run.")] = 200,
    max_steps: Annotated[int, typer.Option(min=1, help="Steps (skills and recalls) allowed in a run.")] = 200,
) -> None:
    """Fill an episodic memory with the runs over training tasks that reach their goal.

    What a tree's agent nodes went through is stored subgoal by subgoal, a flat planner's run as a whole. Exit code 1
    where the memory is empty in the end.
    """
    from reactree_ros.agent.budget import Budget
    from reactree_ros.bootstrap import Bootstrap
    from reactree_ros.planners.variants import variant
    from reactree_ros.world.tasks import load_tasks

    chosen, todo = variant(planner), load_tasks(tasks)
    if seed_memory is not None and not seed_memory.exists():
        raise UserError(f"--seed-memory {seed_memory}: there is no such file")
    with (
        _language_model(llm, model, base_url, api_key_file, models) as language_model,
        _open_memory(memory) as episodic,
        _open_memory(seed_memory) as other,
    ):
        assert episodic is not None  # --memory is given
        one = Bootstrap(
            episodic,
            model=language_model,
            planner=chosen,
            seed=seed,
            budget=lambda: Budget(max_decisions=max_decisions, max_steps=max_steps),
        )
        begun_with = one.begin_with(other) if other is not None else 0
        before, achieved = len(episodic), []
        with _progress("Bootstrapping") as advance:
            for number, attempt in enumerate(one.attempts(todo), 1):
                achieved.append(attempt.achieved)
                advance(number / len(todo))
        half = len(achieved) // 2
        Console().print(
            f"{sum(achieved)} of {len(achieved)} tasks reached their goal ({sum(achieved[:half])} of the first {half}, "
            f"{sum(achieved[half:])} of the rest).\n"
            f"{memory}: {len(episodic)} experiences; {begun_with} of --seed-memory and {len(episodic) - before} of "
            "these runs are new.",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )
        if not len(episodic):
            raise typer.Exit(NOT_ACHIEVED)


@app.command()
def replay(
    trajectories: Annotated[
        Path, typer.Option(help="Recorded runs of WAH-NL or ALFRED: JSON lines, one agent node a line.")
    ],
    tasks: Annotated[
        Path | None, typer.Option(help="The task file that was recorded on; needed for --world symbolic.")
    ] = None,
    variant: Annotated[
        str | None,
        typer.Option(help="react, react_wm, reactree or reactree_wm; by default the trajectories' file name."),
    ] = None,
    world: Annotated[ReplayWorld, typer.Option(help="Where observations come from.")] = ReplayWorld.RECORDED,
    outcomes: Annotated[
        Path | None,
        typer.Option(help="Which runs were successes; by default recorded_outcomes.json beside the task file."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Drive the real tree with recorded decisions and compare what comes of it with the recording.

    In the symbolic world, what the task file records as quirks of its simulator is honoured.
    Exit code 1 where, in the recorded world, a run is not identical.
    """
    from reactree_ros.replay import VARIANTS, Replay, WorldKind, load_outcomes, load_recording
    from reactree_ros.world.tasks import load_tasks

    variant = variant or trajectories.stem
    if variant not in VARIANTS:
        raise UserError(f"--variant {variant}: is none of {', '.join(VARIANTS)}")
    if tasks is None and world is ReplayWorld.SYMBOLIC:
        raise UserError("--world symbolic needs --tasks: the task file that was recorded on")
    if outcomes is None and tasks is not None and (beside := tasks.with_name("recorded_outcomes.json")).exists():
        outcomes = beside
    one = Replay(
        tasks={} if tasks is None else {task.task_id: task for task in load_tasks(tasks)},
        variant=variant,
        world=WorldKind(world.value),
        outcomes=None if outcomes is None else load_outcomes(outcomes, variant),
    )
    recorded = load_recording(trajectories)
    with _progress("Replaying", quiet=as_json) as advance:
        for number, run_ in enumerate(recorded, 1):
            one.replay(run_)
            advance(number / len(recorded))
    report = one.report
    if as_json:
        print(json.dumps(dataclasses.asdict(report)))  # noqa: T201
    else:
        console = Console()
        table = Table("kind of line", "lines", "identical", "%")
        for kind, (lines, identical) in [*report.by_kind.items(), ("all", [report.lines, report.lines_identical])]:
            table.add_row(kind, str(lines), str(identical), f"{100 * identical / lines:.1f}" if lines else "")
        console.print(table)
        for line in [*report.differences, *report.overwritten]:
            console.print(line, markup=False, highlight=False, soft_wrap=True)
        console.print(
            f"{report.runs_identical} of {report.runs} runs identical ({report.runs_overwritten} of them with "
            f"overwritten files), {report.nodes_identical} of {report.nodes} agent nodes",
            highlight=False,
        )
        if report.successes_recorded is not None:
            console.print(
                f"{report.successes_reproduced} of {report.successes_recorded} recorded successes reach their goal",
                highlight=False,
            )
    if world is ReplayWorld.RECORDED and report.runs_identical < report.runs:
        raise typer.Exit(NOT_ACHIEVED)


@llm_app.command("check")
def llm_check(
    llm: Llm = None,
    model: ModelName = None,
    base_url: BaseUrl = None,
    api_key_file: ApiKeyFile = None,
    models: Models = None,
) -> None:
    """Connect, say what the language model is and can do, and measure one decision cold and warm.

    Exit code 0 where all is well, 1 where something could be better or a decision failed, 2 where it cannot be reached.
    """
    from reactree_ros.llm.check import check

    if llm is None and models is None:
        llm = Model.OPENAI
    with _language_model(llm, model, base_url, api_key_file, models) as language_model:
        report = check(language_model)
    console = Console()
    table = Table("what", "is")
    for what, value in report.facts.items():
        table.add_row(Text(what), Text(value))  # a model may say what rich takes for markup
    console.print(table)
    for problem in report.problems:
        console.print(f"! {problem}", style="yellow", markup=False, highlight=False, soft_wrap=True)
    if report.problems:
        raise typer.Exit(NOT_ACHIEVED)


@llm_app.command("serve-tiny")
def llm_serve_tiny(
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port to listen at, on 127.0.0.1.")] = 8000,
    folder: Annotated[Path | None, typer.Option(help="Where the model lies; by default in the user's cache.")] = None,
    chat: Annotated[bool, typer.Option("--chat", help="Give the model a chat template.")] = False,
) -> None:
    """Make a tiny language model of random weights and serve it with vLLM, for trying things out.

    What it says means nothing; everything else is real.
    """
    from reactree_ros.llm.tiny import serve_tiny

    serve_tiny(port=port, folder=folder, chat=chat)


@contextmanager
def _progress(title: str, *, quiet: bool = False) -> Iterator[Callable[[float], None]]:
    """Show a progress bar on stderr; yields what is called with the share that is done."""
    with Progress(console=Console(stderr=True, quiet=quiet), transient=True) as bar:
        task = bar.add_task(title, total=1.0)
        yield lambda share: bar.update(task, completed=share)


@app.command()
def house(
    seed: Annotated[int, typer.Option(help="Seed: the same arguments make the same house.")],
    out: Annotated[Path, typer.Option(help="File to write.")],
    rooms: Annotated[int, typer.Option(min=3, max=8, help="Number of rooms.")] = 5,
    tasks: Annotated[int, typer.Option(min=1, help="Number of tasks in it.")] = 5,
) -> None:
    """Make up a house with tasks, in the WAH-NL schema."""
    from reactree_ros.world.generator import generate_house

    document = generate_house(seed=seed, rooms=rooms, tasks=tasks)
    out.write_text(json.dumps(document, separators=(",", ":")) + "\n", encoding="utf-8")
    console = Console(soft_wrap=True)
    for task in document:
        wording = " ".join(task["nl_instructions"][0].split())
        console.print(f"{task['task_id']} {task['task_name']}: {wording}", markup=False, highlight=False)


@app.command()
def bench(
    suite: Annotated[str, typer.Option(help="'wah_nl' (tasks of a file) or 'generated' (houses that are made up).")],
    planner: Annotated[str, typer.Option(help="Planners, with commas between them, e.g. react,reactree_wm.")],
    out: Annotated[Path, typer.Option(help="Folder for the results; one of the same bench is gone on with.")],
    tasks: Annotated[Path | None, typer.Option(help="For wah_nl: a task file in the WAH-NL schema.")] = None,
    houses: Annotated[int | None, typer.Option(min=1, help="For generated: how many houses, 10 by default.")] = None,
    limit: Annotated[int, typer.Option(min=0, help="Only so many tasks, the first ones; 0: all.")] = 0,
    llm: Llm = None,
    model: ModelName = None,
    base_url: BaseUrl = None,
    api_key_file: ApiKeyFile = None,
    models: Models = None,
    memory: Annotated[
        Path | None, typer.Option(help="An episodic memory that examples come from; it is left as it is.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds: 0, 1, …")] = 1,
    workers: Annotated[
        int, typer.Option(min=1, help="Worker processes; each makes its own language model, a server serves them all.")
    ] = 1,
    ray: Annotated[
        str | None, typer.Option(help="Workers on Ray: 'local' starts one here, an address joins a cluster.")
    ] = None,
    max_decisions: Annotated[int, typer.Option(min=1, help="Decisions allowed in a run.")] = 200,
    max_steps: Annotated[int, typer.Option(min=1, help="Steps (skills and recalls) allowed in a run.")] = 200,
) -> None:
    """Carry every task out with every planner and seed; a bench that was broken off goes on where it was.

    Exit code 1 where a run could not be carried out. `reactree report` compares the planners.
    """
    from reactree_ros.bench import commands
    from reactree_ros.bench.jobs import GENERATED, BenchSettings, digest

    language_model = _model_settings(llm, model, base_url, api_key_file, models)
    where, experiences = commands.checked_memory(memory)
    settings = BenchSettings(
        suite=suite,
        planners=tuple(name.strip() for name in planner.split(",") if name.strip()),
        seeds=seeds,
        tasks="" if tasks is None else str(tasks),
        tasks_digest="" if tasks is None else digest(tasks),
        houses=houses or (10 if suite == GENERATED else 0),
        limit=limit,
        llm={"llm": language_model.llm, **language_model.model_dump(mode="json", exclude_defaults=True)},
        memory=where,
        experiences=experiences,
        max_decisions=max_decisions,
        max_steps=max_steps,
    )
    if not commands.bench(settings, out, workers=workers, ray=ray, console=Console()):
        raise typer.Exit(NOT_ACHIEVED)


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(help="The --out folder of `reactree bench`, finished or not.")],
) -> None:
    """Compare the planners of a bench: prints a table, writes report.html, report.md and plots into the folder."""
    from reactree_ros.bench.report import write_report

    write_report(folder, Console())


MemoryPath = Annotated[Path, typer.Option("--memory", help="The episodic memory, a file.")]


@memory_app.command("import")
def memory_import(
    source: Annotated[Path, typer.Argument(help="JSON lines, or a folder of text files, as recorded.")],
    memory: MemoryPath,
    outcomes: Annotated[
        Path | None, typer.Option(help="Which runs reached their goal; without it every run counts.")
    ] = None,
    variant: Annotated[str | None, typer.Option(help="Whose outcomes; by default the source's file name.")] = None,
) -> None:
    """Add recorded runs that reached their goal."""
    from reactree_ros.memory.experience import import_experiences, recorded_success

    succeeded = None if outcomes is None else recorded_success(outcomes, variant=variant or source.stem)
    imported = import_experiences(source, succeeded=succeeded)
    with _open_memory(memory) as episodic, _progress("Adding") as advance:
        assert episodic is not None
        added = 0
        for number, run_ in enumerate(imported.runs, 1):
            if not all(experience in episodic for experience in run_):
                episodic.add_run(run_)
                added += 1
            advance(number / len(imported.runs))
        total = len(episodic)
    Console().print(
        f"{added} runs added, {len(imported.runs) - added} were there already, {imported.runs_left_out} did not reach "
        f"their goal; {memory} holds {total} experiences",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )


@memory_app.command("export")
def memory_export(
    out: Annotated[Path, typer.Argument(help="A file that ends in .jsonl, or a new folder for text files.")],
    memory: MemoryPath,
) -> None:
    """Write everything in a memory as the recordings are written."""
    with _open_existing(memory) as episodic:
        count = episodic.export(out)
    Console().print(f"{count} experiences written to {out}", markup=False, highlight=False, soft_wrap=True)


@memory_app.command("show")
def memory_show(memory: MemoryPath) -> None:
    """Say what a memory holds."""
    with _open_existing(memory) as episodic:
        counts = episodic.counts()
    table = Table("what", "number")
    table.add_row("runs", str(counts.runs))
    table.add_row("experiences", str(counts.experiences))
    table.add_row("different subgoals", str(counts.subgoals))
    for end, number in counts.by_end.items():
        table.add_row(f"ended in {end.value}", str(number))
    for name, number in counts.by_task_name.items():
        table.add_row(f"of {name}", str(number))
    Console().print(table)


@memory_app.command("search")
def memory_search(
    text: Annotated[str, typer.Argument(help="A subgoal.")],
    memory: MemoryPath,
    k: Annotated[int, typer.Option("-k", min=1, help="How many.")] = 5,
) -> None:
    """Find the experiences whose subgoals are most similar."""
    with _open_existing(memory, embeds=True) as episodic:
        found = episodic.search(text, k)
    table = Table("similarity", "end", "task", "subgoal")
    for similarity, experience in found:
        table.add_row(
            f"{similarity:.3f}",
            experience.end.value,
            f"{experience.task_id} {experience.task_name}",
            experience.subgoal,
        )
    Console().print(table)


@contextmanager
def _open_existing(path: Path, *, embeds: bool = False) -> Iterator[EpisodicMemory]:
    if not path.exists():
        raise UserError(f"{path}: there is no such memory; `reactree memory import` makes one")
    with _open_memory(path, embeds=embeds) as episodic:
        assert episodic is not None
        yield episodic


if __name__ == "__main__":
    main()
