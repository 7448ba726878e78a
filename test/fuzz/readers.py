"""Everything that reads files back, each with whole samples of what it reads, and with the ways to damage them."""

from __future__ import annotations

import contextlib
import json
import random
import sqlite3
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import yaml
from bench.bench_runs import SETTINGS, bench_of, line
from fuzz import mutators
from memory.word_hash_embedder import WordHashEmbedder
from recorded_runs import recorded_episode
from robot.drawings import GRAPHS, LABELLED
from view.writing import Wide, demo

from reactree_lab.bench.folder import BROKEN, RESULTS, read_broken, read_results
from reactree_lab.bench.folder import SETTINGS as BENCH
from reactree_lab.bench.folder import read_settings as read_bench_settings
from reactree_lab.bench.results import Condition, Goal, RunLine, goal_as_json, read_goal, told_by
from reactree_lab.bootstrap import Attempt
from reactree_lab.dataset.lines import Run, lines_of
from reactree_lab.dataset.making import house_of, whole
from reactree_lab.household.generator import generate_house
from reactree_lab.recordings import load_outcomes, load_recording
from reactree_lab.training import dataset
from reactree_lab.training.settings import TrainSettings, read_recipe
from reactree_ros.agent.grammar import DecisionGrammar
from reactree_ros.agent.kinds.act import Act
from reactree_ros.agent.reading import Unreadable, read, says_exactly
from reactree_ros.agent.skill import Offer, skill_of
from reactree_ros.episode.going_on import decision_of, resumed, stop_of
from reactree_ros.episode.player import replay
from reactree_ros.errors import UserError
from reactree_ros.files.read_back import read_json, read_lines
from reactree_ros.household.tasks import load_tasks
from reactree_ros.llm.spec import load_models_file, trained_for
from reactree_ros.memory.house_map import HouseMap, Place
from reactree_ros.memory.recorded import export_experiences, import_experiences, recorded_success
from reactree_ros.memory.stores.sqlite import SqliteMemory
from reactree_ros.record import checking
from reactree_ros.record.export import experiences_of, texts_of, training_lines, write_pictures
from reactree_ros.record.moment import Moment
from reactree_ros.record.reader import follow, read_record
from reactree_ros.robot.config import RobotConfig, load_robot
from reactree_ros.robot.made_maps import map_of_scene_graph
from reactree_ros.robot.map_file import MapDocument, load_map
from reactree_ros.robot.nav2_map import _shapes
from reactree_ros.view.exports import export
from reactree_ros.view.runs import Runs
from reactree_ros.view.terminal import tree_rows
from reactree_ros.world.skill_policy import load_policy

CONFIG = Path(__file__).resolve().parents[2] / "config"
Damage = Callable[[bytes, random.Random], bytes]
BYTES = (mutators.flipped,)
LINES = (mutators.flipped, mutators.lines_moved, *[mutators.line_changed] * 4)
JSON = (mutators.flipped, *[mutators.json_changed] * 3)
TEXT = (mutators.flipped, mutators.lines_moved, mutators.pieces_moved)


@dataclass(frozen=True)
class Reader:
    """Something that reads a file back.

    Attributes:
        name: What it reads.
        samples: Makes whole files, as they are written.
        read: Reads a file, and does with it all that is done with such files.
        damages: How the samples are damaged.
        made_up: Makes files up from what is declared of them; None: nothing is.
        suffix: How the file's name ends.
    """

    name: str
    samples: Callable[[], Sequence[bytes]]
    read: Callable[[Path], object]
    damages: Sequence[Damage]
    made_up: Callable[[random.Random], bytes] | None = None
    suffix: str = ".json"

    def content(self, seed: int) -> bytes:
        rng = random.Random(f"{self.name} {seed}")
        if self.made_up is not None and rng.random() < 0.25:
            return self.made_up(rng)
        return rng.choice(self.damages)(rng.choice(_cached(self.samples)), rng)


@cache
def _cached(samples: Callable[[], Sequence[bytes]]) -> Sequence[bytes]:
    return samples()


# ---------------------------------------------------------------------- records


def _records() -> list[bytes]:
    expanded = {
        "root": ["Think: a", "Expand:\n- control flow: fallback\n- subgoals: a, b"],
        "a": ["Act: open fridge 1", "sing", "Act: failure"],
        "b": ["Act: recall location of apple", "Act: done"],
    }
    found = []
    for name, script in (
        ("reactree_wm", expanded),
        ("react", {"root": ["Think: a", "Act: open fridge 1", "Act: done"]}),
    ):
        episode, kept = recorded_episode(script, name=name)
        episode.run()
        found.append("".join(f"{one}\n" for one in kept.lines).encode())
    with tempfile.TemporaryDirectory() as folder:
        demo(Path(folder, "demo.jsonl")).run()
        Wide(Path(folder, "wide.jsonl"), 6).write()
        found += [path.read_bytes() for path in sorted(Path(folder).iterdir())]
    return found


def _made_up_record(rng: random.Random) -> bytes:
    first = json.loads(rng.choice(_cached(_records)).split(b"\n")[0])
    lines: list[Any] = [first]
    if rng.random() < 0.3 and isinstance(run := mutators.made_up(checking.forms()["run"], rng), dict):
        lines = [{"e": "run", **run, "schema": 1}]
    kinds = ("agent", "sequence", "goal", "skill")
    nodes = [{"node": n, "parent": n - 1 if n else None, "kind": kind, "name": kind} for n, kind in enumerate(kinds)]
    lines += [{"e": "grow", "nodes": nodes, "t": 0.0}, {"e": "text", "id": 0, "turns": [], "t": 0.0}]
    for _ in range(rng.randrange(12)):
        kind = rng.choice(list(filter(None, checking.forms())))
        held = mutators.made_up(checking.forms()[kind], rng)
        lines.append({"e": kind, **held} if isinstance(held, dict) else held)
    return "".join(f"{json.dumps(one)}\n" for one in lines).encode()


def _read_record(path: Path) -> None:
    record = None
    with contextlib.suppress(UserError):
        record = read_record(path)
    for _ in follow(path, goes_on=lambda: False) if record else ():
        pass
    with contextlib.suppress(UserError):
        Runs(path.parent).table()
    if record is None:
        return
    moment = Moment.after(record.events)
    uses: list[Callable[[], object]] = [
        *(partial(export, record, kind) for kind in ("svg", "dot", "markdown")),
        *(partial(export, record, kind, at=2) for kind in ("svg", "markdown")),
        partial(export, record, "mcap"),
        lambda: list(training_lines(record, chat=True)),
        lambda: list(training_lines(record, chat=False)),
        lambda: write_pictures(record, path.parent / "pictures"),
        lambda: [moment.robot_of(node) for node in moment.nodes],
        lambda: list(tree_rows(moment, folded=True)),
        lambda: (experiences_of(moment), texts_of(moment)),
        lambda: told_by(record.events),
        lambda: list(lines_of(record.events, Run(house=house_of(record), task="1", planner="reactree"))),
        lambda: resumed(record, {}),
        lambda: whole(record),
        lambda: stop_of(record),
        lambda: decision_of(record, 1),
        lambda: replay(record),
    ]
    for use in uses:
        with contextlib.suppress(UserError):
            use()


# ---------------------------------------------------------------------- what a bench writes


def _bench() -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        out = bench_of(Path(folder, "bench"), line(), line("reactree_wm"), line("react", 2, gsr=0.0))
        return {one.name: one.read_bytes() for one in out.iterdir() if one.is_file()}


def _made_up_lines(kind: Any) -> Callable[[random.Random], bytes]:
    def made(rng: random.Random) -> bytes:
        lines = [json.dumps(mutators.made_up(kind, rng)) for _ in range(rng.randrange(1, 4))]
        return "".join(f"{one}\n" for one in lines).encode()

    return made


def _made_up_yaml(kind: Any) -> Callable[[random.Random], bytes]:
    def made(rng: random.Random) -> bytes:
        with contextlib.suppress(Exception):  # what YAML cannot say is said in JSON, which is YAML
            return yaml.safe_dump(mutators.made_up(kind, rng), allow_unicode=True).encode()
        return json.dumps(mutators.made_up(kind, rng)).encode()

    return made


def _in_a_bench(name: str, read: Callable[[Path], object]) -> Callable[[Path], object]:
    def reads(path: Path) -> object:
        folder = path.parent / "bench"
        folder.mkdir()
        for file, content in _cached_bench().items():
            (folder / file).write_bytes(content)
        (folder / name).write_bytes(path.read_bytes())
        return read(folder)

    return reads


@cache
def _cached_bench() -> dict[str, bytes]:
    return _bench()


def _goal() -> list[bytes]:
    conditions = (Condition("on", "apple", "table", 1, 0), Condition("turnOn", "", "lamp", 1, 1))
    return [goal_as_json(Goal(conditions, ("kitchen 1",), "kitchen 1")).encode()]


# ---------------------------------------------------------------------- memories


def _experiences() -> list[bytes]:
    with tempfile.TemporaryDirectory() as folder, SqliteMemory(Path(folder, "m.db"), WordHashEmbedder()) as memory:
        _fill(memory)
        export_experiences(memory, Path(folder, "out.jsonl"))
        return [Path(folder, "out.jsonl").read_bytes()]


def _fill(memory: SqliteMemory) -> None:
    episode, kept = recorded_episode({"root": ["Think: a", "Act: open fridge 1", "Act: done"]}, name="reactree_wm")
    episode.run()
    memory.add_run(experiences_of(Moment.after(kept.record.events)))


def _memories() -> list[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "m.db")
        with SqliteMemory(path, WordHashEmbedder()) as memory:
            _fill(memory)
        with contextlib.closing(sqlite3.connect(path)) as database:
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            database.execute("PRAGMA journal_mode = DELETE")
        return [path.read_bytes()]


def _rows_changed(content: bytes, rng: random.Random) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "m.db")
        path.write_bytes(content)
        with contextlib.closing(sqlite3.connect(path)) as database:
            named = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%' ORDER BY name"
            listed = [name for (name,) in database.execute(named)]
            tables = {
                name: [f'"{row[1]}"' for row in database.execute(f"PRAGMA table_info({name})")] for name in listed
            }
            table = rng.choice(list(tables))
            column = rng.choice(tables[table])
            values: list[Any] = [
                None, 0, -1, 99, 2**62, 0.5, float("inf"), "", "x", "[]", '[{"told": 1}]', b"", b"\xff",
            ]  # fmt: skip
            values += ["[" * 5000, '[{"said":"a","expand":"loop","subgoals":[]}]', b"\x00" * 256, "9" * 5000]
            change = [
                f"UPDATE {table} SET {column} = ?", f"DELETE FROM {table}", f"DROP TABLE {table}",
                f"ALTER TABLE {table} RENAME TO other", "PRAGMA user_version = 9", "PRAGMA application_id = 9",
            ]  # fmt: skip
            what = rng.choice([change[0]] * 12 + change[1:])
            database.execute("PRAGMA ignore_check_constraints = ON")
            with contextlib.suppress(sqlite3.Error, OverflowError):
                database.execute(what, (rng.choice(values),) if "?" in what else ())
                database.commit()
        return path.read_bytes()


def _read_memory(path: Path) -> None:
    with SqliteMemory(path, WordHashEmbedder()) as memory:
        uses: list[Callable[[], object]] = [
            memory.counts,
            lambda: list(memory),
            lambda: memory.search("open the fridge", 3),
            lambda: export_experiences(memory, path.parent / "out.jsonl"),
            lambda: _fill(memory),
        ]
        for use in uses:
            with contextlib.suppress(UserError):
                use()


def _house_maps() -> list[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "house.map")
        with HouseMap(path) as kept:
            _fill_map(kept)
        with contextlib.closing(sqlite3.connect(path)) as database:
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            database.execute("PRAGMA journal_mode = DELETE")
        return [path.read_bytes()]


def _fill_map(kept: HouseMap) -> None:
    for place, number in (("table 1", 1), ("sink 1", 1), ("table 1", 2)):
        kept.found(f"cup {number}", "cup", number, Place(place, "kitchen 1", (1.0, 2.0, 0.5)), robot="anna")
    kept.missed("cup 1")
    kept.taken("cup 2", "bob")


def _read_house_map(path: Path) -> None:
    with HouseMap(path) as kept:
        uses: list[Callable[[], object]] = [
            kept.houses,
            kept.beliefs,
            kept.stays,
            lambda: kept.likely("cup"),
            lambda: kept.remembered("the cups on table 1"),
            lambda: kept.put(kept.export()),
            lambda: _fill_map(kept),
            lambda: kept.forget("cup"),
        ]
        for use in uses:
            with contextlib.suppress(UserError):
                use()


def _things() -> list[bytes]:
    with tempfile.TemporaryDirectory() as folder, HouseMap(Path(folder, "house.map")) as kept:
        _fill_map(kept)
        return ["".join(json.dumps(thing) + "\n" for thing in kept.export()).encode()]


def _put_things(path: Path) -> None:
    from reactree_ros.cli.memory import things_in

    with tempfile.TemporaryDirectory() as folder, HouseMap(Path(folder, "house.map")) as kept:
        kept.put(things_in(path), where=str(path))


# ---------------------------------------------------------------------- what people write


def _texts(*names: str) -> Callable[[], list[bytes]]:
    return lambda: [path.read_bytes() for name in names for path in sorted(CONFIG.glob(name))]


_DEFAULTS = b"""\
[all]
llm = "small"
max-steps = 40

[run]
planner = "reactree_wm"
house = "villa"
option = ["max_depth=9"]

[lab.bench]
suite = "generated"
houses = 3
seeds = 2

[llm.check]
llm = "openai"
"""


def _read_defaults(path: Path) -> object:
    from reactree_ros.cli import every_command
    from reactree_ros.cli.defaults import DefaultsFile

    return list(DefaultsFile(path).faults(dict(every_command())))


_GRAMMAR = DecisionGrammar(["open fridge 1", "pick up apple 1", "go to kitchen 1", "done", "failure"])
_PUT = {"name": "put", "wording": "put {thing} in {place}", "parameters": {"thing": "thing", "place": "place"}}
_DRIVE = {"name": "drive", "wording": "drive {far} m", "parameters": {"far": {"number": {"from": 0, "to": 2}}}}
_OFFERS = (
    Offer(skill_of(_DRIVE)),
    Offer(skill_of(_PUT), {"thing": ("cup 1", "jug 1", "jug 2"), "place": ("box 1", "box 2B")}),
)
_GRAMMARS = (
    _GRAMMAR,
    DecisionGrammar(_GRAMMAR.skills, offers=_OFFERS),
    DecisionGrammar(["put down pie 1", "put down mug 1", "put down mug 2", "go to kitchen table 1"]),
)
_REPLIES = (
    b"Act: put down the pie on kitchen table\nYou put down pie on kitchen table",
    b"```\nput cup in box\n```\n```\nput cup in box\n```",
    b"I'm sorry, I can only perform one of the following tasks:\n1. Think: about it\n2. Act: put jug in box 1",
    b"Think: I need the apple.\nAct: open fridge 1",
    b"Expand:\n- control flow: sequence\n- subgoals: find the apple, put it down",
    b'```json\n{"action": "open fridge 1", "thought": "it may be there"}\n```',
    b"1. find the apple\n2. put it down",
    b"<think>hm</think>\n**Act:** pick up the apple (1).",
)


def _read_reply(path: Path) -> None:
    for cut in (False, True):
        for grammar in _GRAMMARS:
            with contextlib.suppress(Unreadable):
                *_, last = read(path.read_bytes().decode(errors="replace"), grammar, cut=cut)
                assert not isinstance(last.decision, Act) or says_exactly(f"Act: {last.decision.skill}", grammar)


def _read_dataset(path: Path) -> None:
    with contextlib.suppress(UserError):
        dataset.about(path.parent)
    list(dataset.node_texts(path, joined=True))


def _dataset_lines() -> list[bytes]:
    lines = []
    for record in _cached(_records)[:3]:
        those = [json.loads(one) for one in record.split(b"\n")[:-1]]
        lines.append(
            "".join(
                f"{json.dumps(one.as_dict())}\n"
                for one in lines_of(those, Run(house="plain house 1 of 5 rooms", task="1", planner="reactree"))
            ).encode()
        )
    return lines


READERS = (
    Reader("record", _records, _read_record, LINES, _made_up_record, ".jsonl"),
    Reader("results", lambda: [_cached_bench()[RESULTS]], _in_a_bench(RESULTS, read_results), LINES,
           _made_up_lines(RunLine), ".jsonl"),
    Reader("broken results", lambda: [_cached_bench()[RESULTS]], _in_a_bench(BROKEN, read_broken), LINES,
           _made_up_lines(RunLine), ".jsonl"),
    Reader("bench settings", lambda: [json.dumps(SETTINGS.as_dict()).encode()], _in_a_bench(BENCH, read_bench_settings),
           JSON),
    Reader("goal", _goal, read_goal, JSON, lambda rng: json.dumps(mutators.made_up(Goal, rng)).encode()),
    Reader("attempts", lambda: [(json.dumps(asdict(Attempt(1, "react", True, 2, "done"))) + "\n").encode()],
           lambda path: read_lines(path, Attempt), LINES, _made_up_lines(Attempt), ".jsonl"),
    Reader("experiences", _experiences, import_experiences, LINES, None, ".jsonl"),
    Reader("outcomes", lambda: [b'{"1": {"react": true}, "2": {"react": false}}'],
           lambda path: (load_outcomes(path, "react"), recorded_success(path, variant="react")), JSON),
    Reader("recording", _experiences, load_recording, LINES, None, ".jsonl"),
    Reader("memory", _memories, _read_memory, (mutators.flipped, _rows_changed, _rows_changed), None, ".db"),
    Reader("dataset", _dataset_lines, _read_dataset, LINES, None, ".jsonl"),
    Reader("about a dataset", lambda: [b'{"schema": 1, "planner": "react"}'],
           lambda path: dataset.about(path.parent), JSON),
    Reader("about a model", lambda: [b'{"planner": "react", "settings": {}}'], lambda path: trained_for(path.parent),
           JSON),
    Reader("tasks", lambda: [json.dumps(generate_house(seed=1, tasks=1)).encode()], load_tasks, JSON),
    Reader("robot.yaml", _texts("robot.yaml"), load_robot, TEXT, _made_up_yaml(RobotConfig), ".yaml"),
    Reader("map", _texts("semantic_map.yaml"), load_map, TEXT, _made_up_yaml(MapDocument), ".yaml"),
    Reader("scene graph", lambda: [json.dumps(one).encode() for one in GRAPHS.values()], map_of_scene_graph, JSON),
    Reader("labelme", lambda: [json.dumps(LABELLED).encode()],
           lambda path: read_json(path, "file of labelme", lambda values: _shapes(values, (100, 200))), JSON),
    Reader("kept map", _house_maps, _read_house_map, (mutators.flipped, _rows_changed, _rows_changed), None, ".map"),
    Reader("things of a kept map", _things, _put_things, LINES, None, ".jsonl"),
    Reader("policy", _texts("skill_policy.yaml"), load_policy, TEXT, None, ".yaml"),
    Reader("recipe", _texts("train_*.yaml"), lambda path: read_recipe(path, {}), TEXT, _made_up_yaml(TrainSettings),
           ".yaml"),
    Reader("model's settings", lambda: [b"llm: openai\nbase_url: http://127.0.0.1:9/v1\nmodel: m\nretries: 2\n"],
           load_models_file, TEXT, None, ".yaml"),
    Reader("reactree.toml", lambda: [_DEFAULTS], _read_defaults, TEXT, None, ".toml"),
    Reader("reply", lambda: _REPLIES, _read_reply, TEXT, None, ".txt"),
)  # fmt: skip
NAMED = {"about a dataset": "dataset.json", "about a model": "training.json"}
