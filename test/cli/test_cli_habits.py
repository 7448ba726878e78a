"""The habits of a command line: its version, completion, exit codes, colours, and output that pipes."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from command_line import Cli, OnATerminal

import reactree_ros
from reactree_lab.bench.spec import SUITES
from reactree_lab.bench.suites import GENERATED
from reactree_ros.cli import NOBODY_READS, every_command
from reactree_ros.llm.spec import MODELS
from reactree_ros.memory.house_map import HouseMap, Place
from reactree_ros.planners.spec import planner_names
from reactree_ros.world.spec import WORLDS

ROOT = Path(reactree_ros.__file__).parents[1]
INSTRUCTION = "Put 1 pudding and 1 apple on the coffee table"
ME = [sys.executable, "-m", "reactree_ros.cli"]
COLOUR = re.compile(r"\x1b\[(?:\d+;)*(?:3[0-7]|38|4[0-7]|48|9[0-7])(?:;\d+)*m")


def ended(words: list[str], **more: Any) -> subprocess.CompletedProcess[str]:
    given: dict[str, Any] = {"env": environment(), "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.run(words, timeout=120, **(given | more))


def environment(**more: str) -> dict[str, str]:
    """A shell's environment that says nothing of colours."""
    own = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "PYTHONUTF8": "1", "TERM": "xterm-256color"}
    return own | more


# ---------------------------------------------------------------------- version and exit codes


def test_the_exit_codes_are_in_the_help(cli: Cli) -> None:
    told = " ".join(cli("--help").out.split())
    for text in (
        "Exit codes: 0 success",
        "1 a goal was not reached",
        "2 bad",
        "129, 130, 143 ended by SIGHUP, Ctrl-C, SIGTERM",
        f"{NOBODY_READS} ",
    ):
        assert text in told


# ---------------------------------------------------------------------- completion


class Shell:
    """Asks what follows a line, as the completion of a shell does: by the environment."""

    def __init__(self, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
        self._cli, self._environment = cli, monkeypatch

    def completed(self, shell: str, line: str) -> list[str]:
        words = line.split(" ")
        self._environment.setenv("_REACTREE_COMPLETE", f"complete_{shell}")
        self._environment.setenv("COMP_WORDS", "\n".join(words))
        self._environment.setenv("COMP_CWORD", str(len(words) - 1))
        self._environment.setenv("_TYPER_COMPLETE_ARGS", line)
        said = self._cli()
        assert (said.code, said.err) == (0, "")
        return said.out.splitlines()


@pytest.fixture
def shell(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Shell:
    return Shell(cli, monkeypatch)


COMPLETED: dict[str, set[str]] = {
    "reactree record rep": {"replay"},
    "reactree r": {"run", "resume", "record", "routine", "robot"},
    "reactree memory s": {"show", "search"},
    "reactree list w": {"worlds", "words", "webshop", "wah_nl", "write_code", "while", "within", "watering"},
    "reactree run --planner ": set(planner_names()),
    "reactree run --planner hi": {"hiagent", "hiagent_wm"},
    "reactree lab bootstrap --planner tree": {"tree_planner"},
    "reactree lab bench --planner react,hi": {"react,hiagent", "react,hiagent_wm"},
    "reactree lab bench --planner react,recode,tree": {"react,recode,tree_planner"},
    "reactree run --world v": {"virtualhome", "virtualhome_unity"},
    "reactree run --world ": set(WORLDS.names),
    "reactree run --llm ": set(MODELS.names),
    "reactree llm check --llm op": {"openai"},
    "reactree lab bench --suite gen": {GENERATED.name},
    "reactree lab bench --suite ": set(SUITES.names),
    "reactree doctor --m": {"--models", "--memory"},
    "reactree doctor --models ": set(),  # a file, which the shell completes
    "reactree view ": set(),
}


@pytest.mark.parametrize(("line", "names"), COMPLETED.items(), ids=list(COMPLETED))
def test_bash_is_told_what_follows(shell: Shell, line: str, names: set[str]) -> None:
    assert {one for one in shell.completed("bash", line) if one} == names


@pytest.fixture
def command(tmp_path: Path) -> Path:
    """A folder with the command as it is installed."""
    path = tmp_path / "bin/reactree"
    path.parent.mkdir()
    path.write_text(f"#!{sys.executable}\nfrom reactree_ros.cli import main\n\nmain()\n", encoding="utf-8")
    path.chmod(0o755)
    return path.parent


def bash(command: Path, home: Path, script: str) -> str:
    own = environment(PATH=f"{command}:{os.environ['PATH']}", HOME=str(home))
    run = ended(["bash", "--norc", "-c", script], env=own)
    assert (run.returncode, run.stderr) == (0, "")
    return run.stdout


PRESS_TAB = """
COMP_WORDS=(reactree lab bench --suite gen) COMP_CWORD=4
$(complete -p reactree | sed 's/.*-F \\([^ ]*\\).*/\\1/') reactree gen --suite
echo "${COMPREPLY[@]}"
"""


@pytest.mark.slow
def test_the_script_that_is_shown_completes_in_bash(command: Path, tmp_path: Path) -> None:
    script = f'eval "$(reactree --show-completion)"\n{PRESS_TAB}'
    assert bash(command, tmp_path, script) == "generated\n"


# ---------------------------------------------------------------------- colours

#: A command of each kind that prints, in a folder with what :func:`made` puts there, and whether it has colours.
PRINTS = {
    "--help": True,
    "memory --help": True,
    **{f"{' '.join(path)} --help": True for path, _ in every_command()},
    "--version": False,
    "list": True,
    "list worlds": True,
    "list words": False,
    "list options": True,
    "list defaults run": False,
    "doctor": True,
    "doctor --all": True,
    f"run '{INSTRUCTION}'": True,
    f"run '{INSTRUCTION}' --json": True,
    "run --llm nobody": True,
    "run --no-such-option": True,
    "no-such-command": True,
    "record replay run.jsonl": True,
    "record export run.jsonl --as markdown --out run.md": False,
    "llm check --llm expert": True,
    "memory show --memory mine.db": False,
    "memory search apple --memory mine.db": True,
    "memory map list home.map": False,
    "routine list --memory mine.db": False,
    "robot check no_such_robot.yaml": True,
    "lab house --seed 1 --rooms 3 --tasks 1 --out house.json": False,
}


@pytest.fixture
def made(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli("run", TASK, "--save", "run.jsonl", "--memory", "mine.db", "--map", "home.map").code == 0


@pytest.mark.slow
@pytest.mark.parametrize(("line", "has_colours"), PRINTS.items(), ids=list(PRINTS))
@pytest.mark.usefixtures("made")
def test_no_command_has_colours_where_nobody_wants_them(
    cli: Cli, line: str, has_colours: bool, on_a_terminal: OnATerminal
) -> None:
    words = shlex.split(line)
    assert bool(COLOUR.search(on_a_terminal(*words))) is has_colours
    Path("run.md").unlink(missing_ok=True)
    assert not COLOUR.search(on_a_terminal(*words, NO_COLOR="1"))
    Path("run.md").unlink(missing_ok=True)
    assert "\x1b" not in on_a_terminal(*words, TERM="dumb")
    Path("run.md").unlink(missing_ok=True)
    piped = cli(*words)
    assert piped.out + piped.err
    assert "\x1b" not in piped.out + piped.err


# ---------------------------------------------------------------------- pipes


def read_one_line(*arguments: str) -> tuple[int, str, str]:
    """Read one line of what a command prints, then close the pipe, as `| head -1` does."""
    with subprocess.Popen(
        [*ME, *arguments], env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        line = process.stdout.readline()
        process.stdout.close()
        return process.wait(timeout=120), line, process.stderr.read()


@pytest.mark.slow
def test_whoever_reads_on_gets_everything() -> None:
    run = f"{sys.executable} -m reactree_ros.cli run '{INSTRUCTION}' --json | {sys.executable} -m json.tool"
    read = ended(["bash", "-o", "pipefail", "-c", run])
    assert (read.returncode, read.stderr) == (0, "")
    assert '"end": "done"' in read.stdout


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [["list"], ["run", INSTRUCTION]], ids=" ".join)
def test_where_nobody_reads_on_it_ends_without_a_word(arguments: list[str]) -> None:
    code, line, errors = read_one_line(*arguments)
    assert line
    assert errors == ""
    assert code in (0, NOBODY_READS)  # 0: all of it was printed before


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [["list", "worlds"], ["--help"], ["--version"]], ids=" ".join)
def test_where_nobody_reads_at_all_it_says_so_by_its_exit_code(arguments: list[str]) -> None:
    reads, writes = os.pipe()
    os.close(reads)
    run = ended([*ME, *arguments], stdout=writes)
    os.close(writes)
    assert (run.returncode, run.stderr) == (NOBODY_READS, "")


@pytest.mark.slow
def test_a_closed_output_is_no_error() -> None:
    listed = ended(["bash", "-c", f"{sys.executable} -m reactree_ros.cli list planners >&-"])
    assert (listed.returncode, listed.stderr) == (0, "")


TASK = "Put 1 apple on the coffee table"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "house.map"
    with HouseMap(path, "home") as kept:
        kept.found("cup 1", "cup", 1, Place("table 1", "kitchen 1"), robot="anna")
        kept.found("cup 2", "cup", 2, Place("", "study 1"))
        kept.missed("cup 1")
    return path


def test_it_lists_shows_and_forgets(cli: Cli, file: Path) -> None:
    listed = cli("memory", "map", "list", file)
    assert listed.code == 0
    assert "cup 1" in listed.out
    assert "table 1" in listed.out
    shown = cli("memory", "map", "show", "cup 1", file).out.splitlines()
    assert shown[0] == "cup 1: 20% at table 1 in kitchen 1"
    assert shown[1] == "  at table 1 in kitchen 1: found once, last just now by anna, looked for once in vain"
    assert shown[2] == "where to look for cup:"
    assert cli("memory", "map", "forget", "cup", file).out == "2 forgotten\n"
    again = cli("memory", "map", "forget", "cup", file)
    assert (again.code, "nothing is known of 'cup'" in again.err) == (2, True)


def test_what_is_exported_is_imported_and_nothing_of_a_file_that_is_wrong(cli: Cli, file: Path, tmp_path: Path) -> None:
    out, other = tmp_path / "things.jsonl", tmp_path / "other.map"
    assert cli("memory", "map", "export", out, file).out == f"2 things written to {out}\n"
    assert cli("memory", "map", "import", out, other, "--house", "home").out == f"2 things put into {other}\n"
    again = tmp_path / "again.jsonl"
    cli("memory", "map", "export", again, other)
    assert again.read_text() == out.read_text()
    for line, said in (("{", ":3: is not JSON"), (json.dumps({"name": 7}), ":3: "), ("[]", "is not a thing of a map")):
        wrong = tmp_path / "wrong.jsonl"
        wrong.write_text(out.read_text() + line + "\n", encoding="utf-8")
        told = cli("memory", "map", "import", wrong, tmp_path / "new.map")
        assert (told.code, said in told.err, told.err.count("\n")) == (2, True, 1), told.err
        assert HouseMap(tmp_path / "new.map").houses() == []


def test_a_house_has_to_be_named_where_there_are_several(cli: Cli, file: Path) -> None:
    with HouseMap(file, "office") as kept:
        kept.found("stapler 1", "stapler", 1, Place("desk 1", "office 1"))
    said = cli("memory", "map", "list", file)
    assert (said.code, "name one by --house: 'home', 'office'" in said.err) == (2, True)
    assert "stapler 1" in cli("memory", "map", "list", file, "--house", "office").out
    assert "there is no house 'shed'" in cli("memory", "map", "list", file, "--house", "shed").err
    assert cli("memory", "map", "list", file.with_name("none.map")).code == 2


def test_a_run_feeds_its_map_and_the_next_one_is_told(cli: Cli, tmp_path: Path) -> None:
    path, record = tmp_path / "home.map", tmp_path / "run.jsonl"
    assert cli("run", TASK, "--map", path).code == 0
    assert cli("run", TASK, "--map", path, "--save", record).code == 0
    lines = [json.loads(line) for line in record.read_text().splitlines()]
    assert any("remembered" in line for line in lines)
    assert cli("record", "replay", record).code == 0
    listed = cli("memory", "map", "show", "apple", path).out
    assert "coffee table 1" in listed


def test_a_run_without_a_map_has_the_same_record_as_ever(cli: Cli, tmp_path: Path) -> None:
    record = tmp_path / "run.jsonl"
    assert cli("run", TASK, "--save", record).code == 0
    assert "remembered" not in record.read_text()


def test_a_map_that_is_none_ends_the_run_in_one_line(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "text.map"
    path.write_text("some other file " * 100, encoding="utf-8")
    said = cli("run", TASK, "--map", path)
    assert (said.code, "not an SQLite database" in said.err, said.err.count("\n")) == (2, True, 1), said.err
