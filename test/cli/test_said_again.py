"""A record is data: what would start, open, load or send something is used only where the user says it, too."""

from __future__ import annotations

import dataclasses
import io
import json
import stat
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from command_line import Cli
from hostile import KeyCatcher, changed_header

from reactree_ros.cli import opening
from reactree_ros.files.whole_file import user_state
from reactree_ros.household.houses import HOUSES
from reactree_ros.planners.reactree import SPEC, ReactreeSettings
from reactree_ros.planners.spec import PLANNERS
from reactree_ros.record.reader import is_own, sealed

KEY = "sk-hush-4711-abcdef"
INSTRUCTION = "Put 1 apple on the coffee table"
GOES_ON = {"resume": (), "record fork": ("--at", 2)}


@pytest.fixture
def user(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's own file, which is not there yet; the command line runs in an empty folder."""
    for name in ("XDG_CONFIG_HOME", "HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    file = tmp_path / "home" / "reactree" / "reactree.toml"
    file.parent.mkdir(parents=True)
    return file


@pytest.fixture
def record(cli: Cli, user: Path, tmp_path: Path) -> Path:
    assert cli("run", INSTRUCTION, "--json", "--max-decisions", 3, "--save", tmp_path / "record.jsonl").code == 1
    return tmp_path / "record.jsonl"


@pytest.fixture
def catcher() -> Iterator[KeyCatcher]:
    with KeyCatcher() as one:
        yield one


@pytest.fixture
def hostile(record: Path, tmp_path: Path, catcher: KeyCatcher) -> Path:
    """A record whose model is behind the catcher."""
    model = {"llm": "openai", "base_url": catcher.base_url, "model": "m"}
    return changed_header(record, tmp_path / "h.jsonl", {"llm": model})


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A program that leaves a mark where it is started."""
    file = tmp_path / "program.sh"
    file.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\n")
    file.chmod(0o755)
    return file


def unity(program: object) -> dict[str, Any]:
    return {"world.name": "virtualhome_unity", "world.settings": {"house": "villa", "executable": str(program)}}


HEADERS: dict[str, dict[str, Any]] = {
    "a program": unity("{program}"),
    "a display": {"world.name": "virtualhome_unity", "world.settings": {"display": "evil:0"}},
    "a host": {"world.name": "virtualhome_unity", "world.settings": {"host": "{host}"}},
    "another simulator's program": {
        "world.name": "ai2thor",
        "world.settings": {"scene": "FloorPlan1", "executable": "{program}"},
    },
    "a house's file": {"world.settings": {"house": "{program}"}},
    "a file as a URL": {"world.settings": {"house": "file:///etc/passwd"}},
    "a task file": {"world.settings": {"tasks": "/etc/passwd"}},
    "a world's server": {"world.name": "webshop", "world.settings": {"server": "{host}"}},
    "a story": {"world.name": "jericho", "world.settings": {"story": "/etc/passwd"}},
    "games": {"world.name": "alfworld", "world.settings": {"games": "/etc"}},
    "a domain": {"world.name": "pddl", "world.settings": {"domain": "/etc/passwd", "problem": "/etc/passwd"}},
    "a house of pyrobosim": {"world.name": "pyrobosim", "world.settings": {"house": "../houses"}},
    "a suite's file": {"world": {"suite": "wah_nl", "settings": {"tasks": "/etc/passwd"}}, "task_id": 1},
    "a suite's folder": {"world": {"suite": "jericho", "settings": {"stories": "/etc"}}, "task_id": 1},
    "a suite's server": {"world": {"suite": "webshop", "settings": {"server": "{host}"}}, "task_id": 1},
    "a model's server": {"llm": {"llm": "openai", "base_url": "{url}", "model": "m"}},
    "a key's file": {"llm": {"llm": "openai", "base_url": "{url}", "model": "m", "api_key_file": "/etc/passwd"}},
    "only a key's file": {"llm": {"llm": "openai", "model": "m", "api_key_file": "/etc/passwd"}},
    "a body": {"llm": {"llm": "openai", "model": "m", "extra_body": {"documents": ["/etc/passwd"]}}},
    "a chat template": {"llm": {"llm": "openai", "model": "m", "chat_template_kwargs": {"chat_template": "{{ x }}"}}},
    "a model's folder": {"llm": {"llm": "transformers", "model": "./model"}},
    "a small model's folder": {"llm": {"llm": "small", "model": "./model"}},
    "code of a model": {"llm": {"llm": "transformers", "engine_args": {"trust_remote_code": True}}},
    "vLLM's plug-in": {"llm": {"llm": "vllm", "engine_args": {"worker_extension_cls": "os.system"}}},
    "a model in a fallback": {
        "llm": {"llm": "fallback", "models": [{"llm": "expert"}, {"llm": "openai", "base_url": "{url}", "model": "m"}]}
    },
    "a fallback as YAML": {"llm": {"llm": "fallback", "models": "[{llm: openai, base_url: '{url}', model: m}]"}},
    "a fallback in a fallback": {
        "llm": {"llm": "fallback", "models": [{"llm": "fallback", "models": [{"llm": "openai", "base_url": "{url}"}]}]}
    },
    "what is not a setting": {"llm": {"llm": "openai", "model": "m", "plugins": ["os"]}},
}


def filled(value: Any, places: dict[str, str]) -> Any:
    text = json.dumps(value)
    for name, place in places.items():
        text = text.replace(f"{{{name}}}", place)
    return json.loads(text)


@pytest.mark.slow
@pytest.mark.parametrize("command", GOES_ON)
@pytest.mark.parametrize("case", HEADERS)
def test_a_header_starts_opens_loads_and_sends_nothing(
    cli: Cli, record: Path, tmp_path: Path, catcher: KeyCatcher, program: Path, case: str, command: str
) -> None:
    places = {"program": str(program), "url": catcher.base_url, "host": f"http://{catcher.host}"}
    hostile = changed_header(record, tmp_path / "hostile.jsonl", filled(HEADERS[case], places))
    ended = cli(*command.split(), hostile, *GOES_ON[command], "--json")
    assert (ended.code, ended.out) == (2, "")
    assert "a record may not decide that by itself; add these words to the command" in ended.err
    assert "--world-option " in ended.err or "--llm-option " in ended.err
    assert "Traceback" not in ended.err
    assert ended.err.count("\n") == 1
    assert catcher.requests == []
    assert not (tmp_path / "started").exists()


def test_the_words_of_the_refusal_are_those_that_go_on(cli: Cli, hostile: Path, catcher: KeyCatcher) -> None:
    refused = cli("record", "fork", hostile, "--at", 2)
    words = f"--llm-option base_url={catcher.base_url}"
    assert words in refused.err
    cli("record", "fork", hostile, "--at", 2, *words.split())
    assert {key for _, _, key in catcher.requests} == {f"Bearer {KEY}"}


@pytest.mark.parametrize("said", [("--base-url", "{}"), ("--llm-option", "base_url={}")])
def test_what_the_user_says_wins_over_the_record(
    cli: Cli, record: Path, tmp_path: Path, catcher: KeyCatcher, said: tuple[str, str]
) -> None:
    hostile = changed_header(
        record, tmp_path / "h.jsonl", {"llm": {"llm": "openai", "base_url": "http://127.0.0.1:9/v1", "model": "m"}}
    )
    cli("resume", hostile, said[0], said[1].format(catcher.base_url))
    assert {key for _, _, key in catcher.requests} == {f"Bearer {KEY}"}


@pytest.mark.parametrize(
    "text",
    [
        '[all]\nbase_url = "{}"\n',
        '[run]\nbase_url = "{}"\n',
        '[run]\nllm_option = ["base_url={}"]\n',
        '[llm.check]\nbase-url = "{}"\n',
    ],
)
def test_what_is_in_the_users_own_file_is_said(
    cli: Cli, hostile: Path, user: Path, catcher: KeyCatcher, text: str
) -> None:
    user.write_text(text.format("http://127.0.0.1:9/v1"))
    assert cli("resume", hostile).code == 2
    assert catcher.requests == []
    user.write_text(text.format(catcher.base_url))
    cli("resume", hostile)
    assert catcher.requests


@pytest.mark.parametrize(("answer", "asked"), [("y", True), ("n", False), ("", False)])
def test_in_a_terminal_it_is_shown_and_asked_for(
    cli: Cli, hostile: Path, catcher: KeyCatcher, monkeypatch: pytest.MonkeyPatch, answer: str, asked: bool
) -> None:
    shown: list[str] = []

    def confirm(question: str, **_: object) -> bool:
        shown.append(question)
        return answer == "y"

    terminal = io.StringIO()
    terminal.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr(opening.sys, "stdin", terminal)
    monkeypatch.setattr(opening.sys, "stderr", terminal)
    monkeypatch.setattr(opening.typer, "confirm", confirm)
    monkeypatch.setattr("reactree_ros.cli.opening.terminal", lambda: None)
    cli("resume", hostile)
    assert len(shown) == 1
    assert f"base_url={catcher.base_url}" in terminal.getvalue()
    assert bool(catcher.requests) is asked


@pytest.mark.slow
def test_what_the_user_says_of_the_world_is_in_the_new_record(cli: Cli, record: Path, tmp_path: Path) -> None:
    cli("resume", record, "--world-option", "house=villa", "--json", "--save", tmp_path / "again.jsonl")
    header = json.loads((tmp_path / "again.jsonl").read_text().splitlines()[0])
    assert header["world"]["settings"]["house"] == "villa"


# ---------------------------------------------------------------------- one's own records


@pytest.fixture
def of_a_file(cli: Cli, user: Path, tmp_path: Path) -> Path:
    """A record of one's own whose settings open a file."""
    tasks, own = tmp_path / "tasks.json", tmp_path / "own.jsonl"
    tasks.write_bytes(HOUSES["apartment"].read_bytes())
    ended = cli(
        "run", "--world-option", f"tasks={tasks}", "--task-id", 1, "--max-decisions", 3, "--json", "--save", own
    )
    assert ended.json["end"] == "out_of_decisions"
    return own


@pytest.mark.parametrize("command", GOES_ON)
def test_ones_own_record_goes_on_by_itself_wherever_it_lies(
    cli: Cli, of_a_file: Path, tmp_path: Path, command: str
) -> None:
    (tmp_path / "elsewhere").mkdir()
    moved = of_a_file.rename(tmp_path / "elsewhere" / "moved.jsonl")
    again = tmp_path / "again.jsonl"
    assert cli(*command.split(), moved, *GOES_ON[command], "--json", "--save", again).json["end"] in (
        "done",
        "out_of_decisions",
    )
    assert cli("record", "replay", again).code == 0
    assert cli("record", "fork", again, "--at", 2, "--json").json["end"]


def _key(mode: int | None = None, content: bytes | None = None, *, gone: bool = False) -> None:
    key = user_state() / "record.key"
    if content is not None:
        key.write_bytes(content)
    if mode is not None:
        key.chmod(mode)
    if gone:
        key.unlink()


@pytest.mark.parametrize(
    "change",
    [
        lambda record: changed_header(record, record, {"started": "2020-02-02T02:02:02+00:00"}),
        lambda record: changed_header(record, record, {"limits.decisions": 4}),
        lambda record: changed_header(record, record, {"seal": "0" * 64}),
        lambda record: changed_header(record, record, {"seal": "é\ud800"}),
        lambda record: _key(gone=True),  # as on another machine
        lambda record: _key(content=b"x" * 32),
        lambda record: _key(content=b"torn"),
        lambda record: _key(0o644),
    ],
)
def test_a_record_of_anybody_else_needs_the_words(
    cli: Cli, of_a_file: Path, change: Callable[[Path], object], tmp_path: Path
) -> None:
    change(of_a_file)
    refused = cli("resume", of_a_file, "--json")
    assert refused.code == 2
    words = f"--world-option tasks={tmp_path / 'tasks.json'}"
    assert f"{words} - a record may not decide that by itself" in refused.err
    assert cli("resume", of_a_file, "--json", *words.split()).json["end"] in ("done", "out_of_decisions")


@pytest.mark.slow
def test_where_no_key_can_be_kept_a_run_is_recorded_all_the_same(
    cli: Cli, record: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in the way").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "in the way"))
    saved = tmp_path / "saved.jsonl"
    assert cli("run", INSTRUCTION, "--json", "--save", saved).code == 0
    assert "seal" not in json.loads(saved.read_text().splitlines()[0])
    assert not is_own(json.loads(record.read_text().splitlines()[0]))


def test_processes_that_begin_at_once_have_one_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with ThreadPoolExecutor(8) as pool:
        headers = list(pool.map(lambda number: sealed({"e": "run", "number": number}), range(8)))
    assert all(map(is_own, headers))
    assert [one.name for one in (tmp_path / "reactree").iterdir()] == ["record.key"]
    assert stat.S_IMODE((tmp_path / "reactree" / "record.key").stat().st_mode) == 0o600


ALLOWS = [
    {"skill": verb, "object": None, "verdict": "allow"} for verb in ("go to", "pick up", "put down", "open", "close")
]


@pytest.mark.parametrize("recorded", [None, ALLOWS])
@pytest.mark.parametrize("by", ["the command line", "[all]", "[run]"])
def test_a_record_loosens_no_policy_of_the_user(
    cli: Cli, record: Path, user: Path, tmp_path: Path, recorded: Any, by: str
) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("rules:\n- {skill: go to, verdict: deny}\n")
    changes = {} if recorded is None else {"world.policy": recorded}
    other = changed_header(record, tmp_path / "other.jsonl", changes)
    if by.startswith("["):
        user.write_text(f'{by}\npolicy = "{policy}"\n')
    said = () if by.startswith("[") else ("--policy", policy)
    again = tmp_path / "again.jsonl"
    cli("record", "fork", other, "--at", 1, "--json", "--save", again, *said)
    events = [json.loads(line) for line in again.read_text().splitlines()]
    assert events[0]["world"]["policy"] == [{"skill": "go to", "verdict": "deny"}]
    done = [event for event in events if event["e"] == "observation" and event["of"] == "execute"]
    assert not [event for event in done if event["outcome"] == "done"]


def test_a_records_own_policy_holds_where_the_user_has_none(cli: Cli, record: Path, tmp_path: Path) -> None:
    denied = [{"skill": "go to", "verdict": "deny"}]
    other = changed_header(record, tmp_path / "other.jsonl", {"world.policy": denied})
    again = tmp_path / "again.jsonl"
    cli("record", "fork", other, "--at", 1, "--json", "--save", again)
    assert json.loads(again.read_text().splitlines()[0])["world"]["policy"] == denied


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {"household.prompts": "os:system"},
        {"household.prompts": "antigravity:x"},
        {"household.prompts": "reactree_ros.household:../../../.."},
        {"household.prompts": "reactree_ros.household:/etc"},
        {"household.prompts": "pytest:prompts"},
        {"household.prompts": "test.hostile:prompts"},
        {"household.prompts": ["os"]},
        {"household.naming": "{word:>999999999}"},
        {"household.naming": "{word.__class__} {instance}"},
        {"household.naming": "{word!r}"},
        {"household.naming": "{instance:{word}}"},
        {"household.naming": "{0}"},
        {"household.naming": "{}"},
        {"household.naming": "{word"},
        {"household.naming": "{word}" * 1000},
        {"household.naming": {"word": 1}},
    ],
    ids=str,
)
@pytest.mark.parametrize("command", ["record replay", "resume"])
def test_a_household_of_a_record_imports_and_formats_nothing_of_its_own(
    cli: Cli, record: Path, tmp_path: Path, changes: dict[str, Any], command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import builtins

    imported: list[str] = []
    original = builtins.__import__

    def watched(name: str, *rest: Any, **others: Any) -> Any:
        imported.append(name)
        return original(name, *rest, **others)

    monkeypatch.setattr(builtins, "__import__", watched)
    ended = cli(*command.split(), changed_header(record, tmp_path / "h.jsonl", changes), "--json")
    assert ended.code == 2
    assert "household" in ended.err
    assert "Traceback" not in ended.err
    assert "antigravity" not in imported


class _Ruled(ReactreeSettings):
    """Settings of a plug-in's planner that reads a file."""

    rules: str = ""


@pytest.mark.parametrize("command", ["record replay", "resume", "record fork"])
def test_a_planner_of_a_record_opens_nothing(
    cli: Cli, record: Path, tmp_path: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ruled = dataclasses.replace(SPEC, name="ruled", settings=_Ruled)
    point = metadata.EntryPoint("ruled", "nowhere:SPEC", PLANNERS.group)
    monkeypatch.setattr(PLANNERS, "_brought", ({"ruled": point}, []))
    monkeypatch.setitem(PLANNERS._loaded, "ruled", ruled)
    named = changed_header(record, tmp_path / "h.jsonl", {"planner.name": "ruled_wm:rules=/etc/passwd"})
    ended = cli(*command.split(), named, *GOES_ON.get(command, ()), "--json")
    assert (ended.code, ended.out) == (2, "")
    assert "its planner's settings rules would start, open, load or send something" in ended.err
    assert "--planner ruled_wm:rules=/etc/passwd" in ended.err
    harmless = changed_header(record, tmp_path / "i.jsonl", {"planner.name": "ruled_wm:questions=0"})
    assert "would start" not in cli(*command.split(), harmless, *GOES_ON.get(command, ()), "--json").err


@pytest.mark.parametrize(
    "changes",
    [
        {"world": None},
        {"world": []},
        {"world": {}},
        {"world": {"name": "virtualhome"}},
        {"world": {"name": "virtualhome", "settings": ["house"]}},
        {"world": {"name": 3, "settings": {}}},
        {"world": {"suite": ["x"], "settings": {}}},
        {"llm": None},
        {"llm": "openai"},
        {"llm": {"llm": ["openai"]}},
        {"llm": {"llm": "nobody"}},
        {"world.scored": "x"},
        {"world.policy": {"a": 1}},
        {"planner": None},
        {"planner.name": 5},
        {"task_id": [1]},
    ],
    ids=str,
)
def test_a_header_that_makes_no_sense_is_said_in_one_line(
    cli: Cli, record: Path, tmp_path: Path, changes: dict[str, Any]
) -> None:
    ended = cli("resume", changed_header(record, tmp_path / "h.jsonl", changes), "--json")
    assert ended.code in (0, 1, 2)
    assert "Traceback" not in ended.err
    assert ended.err.count("\n") <= 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "world",
    [
        {"suite": "generated", "settings": {"houses": 10**9}},
        {"suite": "generated", "settings": {"houses": 10**400}},
        {"suite": "vague", "settings": {"houses": 10**12, "tasks_per_house": 99}},
        {"suite": "pddl", "settings": {"problems": 499_999}},
    ],
    ids=str,
)
def test_a_record_makes_up_no_more_tasks_than_anybody_wants(
    cli: Cli, record: Path, tmp_path: Path, world: dict[str, Any]
) -> None:
    ended = cli("resume", changed_header(record, tmp_path / "h.jsonl", {"world": world, "task_id": 1}), "--json")
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
