"""What another distribution brings (test/plugin) is used like what comes with the package."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from command_line import Cli

from reactree_ros import plugins
from reactree_ros.memory.check import check_memory
from reactree_ros.memory.spec import memory
from reactree_ros.record.reader import read_record
from reactree_ros.world.check import check_world

garden = pytest.importorskip("reactree_garden.world", reason="needs test/plugin; `make test` installs it")
BROUGHT = {"planners": "pick", "worlds": "garden", "models": "gardener", "memories": "notebook", "suites": "gardens"}


def test_its_world_keeps_to_the_port() -> None:
    assert check_world(garden.Garden(garden.GardenTask("bean")), at_once=60.0) == []


def test_its_memory_keeps_to_the_port(tmp_path: Path) -> None:
    assert check_memory(memory(f"notebook:path={tmp_path / 'notebook'}")) == []


@pytest.mark.slow
def test_its_memory_is_one_for_every_command(cli: Cli, tmp_path: Path) -> None:
    house, memory = tmp_path / "house.json", f"notebook:path={tmp_path / 'notebook'}"
    first = cli(
        "run", "--world", "garden", "--llm", "gardener", "--memory", memory, "--save", tmp_path / "run", "--json"
    )
    assert first.json["gsr"] == 1
    assert f"experiences\t{first.json['agent_nodes']}\n" in cli("memory", "show", "--memory", memory).out
    assert "fetch can-1" in cli("memory", "search", "fetch the can", "--memory", memory).out
    assert cli("memory", "export", tmp_path / "out.jsonl", "--memory", memory).code == 0
    assert "0 runs added, 1 were there" in cli("memory", "import", tmp_path / "out.jsonl", "--memory", memory).out
    assert "1 runs" in str(cli("doctor", "--json", "--memory", memory).json["sections"]["Episodic memory"])
    again = cli(
        "run", "--world", "garden", "--llm", "gardener", "--memory", memory, "--save", tmp_path / "again", "--json"
    )
    assert again.code == 0
    assert '"retrieved"' in (tmp_path / "again").read_text(encoding="utf-8")
    assert cli("record", "fork", tmp_path / "again", "--at", 2, "--memory", memory, "--json").code == 0
    cli("lab", "house", "--seed", 4, "--tasks", 1, "--out", house)
    filled = cli("lab", "bootstrap", "--tasks", house, "--memory", f"{memory}2", "--seed-memory", memory)
    assert (filled.code, "from --seed-memory" in filled.out) == (0, True)
    assert (tmp_path / "notebook2.bootstrap.jsonl").exists()
    suite = ("--suite", "gardens", "--gardens", 1, "--llm", "gardener", "--planner", "react", "--limit", 1)
    assert cli("lab", "bench", *suite, "--memory", memory, "--out", tmp_path / "bench").code == 0
    made = ("--houses", 1, "--rooms", 3, "--examples", 2, "--workers", 1, "--out", tmp_path / "data")
    assert cli("lab", "dataset", *made, "--memory", f"{memory}2").code == 0


@pytest.mark.parametrize("planner", ["reactree_wm", "reactree", "react", "pick", "pick_wm:patience=1"])
def test_its_task_is_carried_out_on_the_command_line(cli: Cli, planner: str, tmp_path: Path) -> None:
    chosen = ["--world", "garden", "--llm", "gardener", "--planner", planner]
    ended = cli("run", *chosen, "--beds", 5, "--task-id", 1, "--json", "--save", tmp_path / "saved")
    result = ended.json
    assert (ended.code, result["gsr"], result["end"], result["instruction"]) == (0, 1, "done", "Water every bean")
    assert cli("record", "replay", tmp_path / "saved").code == 0
    assert cli("record", "export", tmp_path / "saved", "--as", "text", "--out", tmp_path / "texts.jsonl").code == 0
    first, *_ = map(json.loads, (tmp_path / "texts.jsonl").read_text().splitlines())
    assert first["file"] == "1_water_bean_dec001_depth01.txt"
    assert first["text"].startswith("Your task is to: Water every bean\nYou stand in the garden, at shed-1.")
    assert result["agent_nodes"] == (3 if planner.startswith("reactree") else 1)


def test_its_own_tree_is_run_replayed_and_resumed_by_name(cli: Cli, tmp_path: Path) -> None:
    chosen = ["--world", "garden", "--llm", "gardener", "--planner", "watering", "--json"]
    ended = cli("run", *chosen, "--beds", 5, "--task-id", 1, "--save", tmp_path / "saved")
    assert (ended.code, ended.json["gsr"], ended.json["steps"]) == (0, 1, 7)
    skills = [event["skill"] for event in read_record(tmp_path / "saved").events if event["e"] == "skill"]
    assert skills[:3] == ["take can-1", "walk to well-1", "fill can-1"]
    assert len(skills) == 7
    assert cli("record", "replay", tmp_path / "saved").code == 0
    stopped = cli("run", *chosen, "--beds", 5, "--task-id", 1, "--max-decisions", 3, "--save", tmp_path / "stopped")
    assert stopped.json["end"] == "out_of_decisions"
    resumed = cli("resume", tmp_path / "stopped", "--save", tmp_path / "resumed", "--json")
    assert (resumed.code, resumed.json["end"]) == (0, "done")


def test_its_settings_are_options(cli: Cli) -> None:
    chosen = ["run", "--world", "garden", "--llm", "gardener", "--json"]
    polite = cli(*chosen, "--llm-option", "polite=true", "--world-option", "planting=7").json
    assert polite["decisions"] == cli(*chosen, "--world-option", "planting=7").json["decisions"] + polite["agent_nodes"]
    assert cli(*chosen, "--max-steps", 3).json["end"] == "out_of_steps"


def test_an_instruction_that_is_no_task_of_its_world_has_no_score(cli: Cli) -> None:
    ended = cli("run", "Sing to the beans", "--world", "garden", "--llm", "gardener", "--json")
    assert (ended.code, ended.json["gsr"], ended.json["task_id"], ended.json["end"]) == (1, None, None, "failure")


@pytest.mark.parametrize(("kind", "name"), BROUGHT.items())
def test_what_it_brings_is_listed(cli: Cli, kind: str, name: str) -> None:
    assert f"\n{name}\t" in cli("list", kind).out.replace(", pick_wm", "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--world", "gardn"], "world 'gardn' is unknown; did you mean 'garden'?"),
        (["--llm", "gardner"], "language model 'gardner' is unknown; did you mean 'gardener'?"),
        (["--planner", "picks"], "planner 'picks' is unknown; did you mean 'pick'?"),
        (["--planner", "pick:patients=2"], "planner 'pick': there is no setting 'patients'; did you mean 'patience'?"),
        (
            ["--planner", "pick:patience=0"],
            "planner 'pick': patience is '0': input should be greater than or equal to 1",
        ),
        (
            ["--world", "garden", "--beds", "12"],
            "world 'garden': beds is '12': input should be less than or equal to 9",
        ),
        (["--world", "garden", "--house", "villa"], "--house: the world 'garden' takes none; name another --world"),
        (["--memory", "notbook:path=n"], "memory 'notbook' is unknown; did you mean 'notebook'?"),
        (["--memory", "notebook:pth=n"], "memory 'notebook': there is no setting 'pth'; did you mean 'path'?"),
        (["--memory", "notebook:n"], "memory 'notebook': write a setting as NAME=VALUE, not 'n'"),
        (["--memory", "notebook:path=/no/such/n"], "/no/such/n: cannot be made (No such file or directory)"),
        (["--beds", "4"], "--beds: the world 'virtualhome' takes none; name another --world (garden)"),
        (["--world", "garden", "--world-option", "bed=4"], "there is no setting 'bed'; did you mean 'beds'?"),
        (["--world", "garden", "--task-id", "9"], "there is no task 9 in garden; there are 0, 1, 2"),
    ],
)
def test_what_is_wrong_with_it_is_told_in_one_line(cli: Cli, arguments: list[str], message: str) -> None:
    ended = cli("run", *arguments)
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert message in ended.err


@pytest.mark.parametrize("words", ["run --llm smaller", "run --planner smaller", "run --world smaller", "smaller"])
def test_what_a_distribution_beside_it_may_bring_is_told_where_that_is_not_installed(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    assert "come with" not in cli(*words.split()).err
    monkeypatch.setattr(plugins, "BESIDE", ("reactree_lab", "reactree_far"))
    assert cli(*words.split()).err.endswith(
        ". More come with reactree_far: pip install ./ros2_ws/src/NAME in the checkout\n"
    )


# ---------------------------------------------------------------------- a distribution that is broken


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    info = tmp_path / "broken-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(
        "[reactree_ros.planners]\ntorn = broken:SPEC\n[reactree_ros.worlds]\nruin = no_such_module:SPEC\n",
        encoding="utf-8",
    )
    (tmp_path / "broken.py").write_text('raise RuntimeError("out of order")\n', encoding="utf-8")
    return tmp_path


def reactree(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "reactree_ros.cli", *arguments],
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=120,
    )


def distribution(folder: Path, name: str, entry_points: str, **modules: str) -> None:
    info = folder / f"{name}-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(entry_points, encoding="utf-8")
    for module, code in modules.items():
        (folder / f"{module}.py").write_text(code, encoding="utf-8")


A_WORLD = """
import dataclasses
from reactree_ros.household.symbolic import SPEC as OTHER
SPEC = dataclasses.replace(OTHER, name="{name}", summary="{summary}")
"""
WRONG = {
    "ends": ("import sys; sys.exit(3)", "world 'ends' of ends cannot be loaded: SystemExit 3"),
    "quits": ("raise SystemExit", "world 'quits' of quits cannot be loaded: SystemExit"),
    "own": ("class Odd(BaseException): pass\nraise Odd('no way')", "world 'own' of own cannot be loaded: Odd no way"),
    "empty": ("", "world 'empty' of empty cannot be loaded: module 'empty' has no attribute 'SPEC'"),
    "syntax": ("def", "world 'syntax' of syntax cannot be loaded: invalid syntax"),
    "other": (
        A_WORLD.format(name="another", summary=""),
        "world 'other' of other: other:SPEC is not a world of that name",
    ),
    "react": (
        "from reactree_ros.planners.reactree import SPEC",
        "world 'react' of react: react:SPEC is not a world of that name",
    ),
    "nothing": ("SPEC = None", "world 'nothing' of nothing: nothing:SPEC is not a world of that name"),
}


@pytest.mark.slow
def test_whatever_plug_ins_do_when_they_are_loaded_is_told_by_list_and_doctor(tmp_path: Path) -> None:
    for name, (code, _) in WRONG.items():
        distribution(tmp_path, name, f"[reactree_ros.worlds]\n{name} = {name}:SPEC\n", **{name: code})
    distribution(tmp_path, "typo", "[reactree_ros.plannerz]\nmine = typo:SPEC\n")
    listed, looked = reactree(tmp_path, "list", "worlds"), reactree(tmp_path, "doctor", "--json")
    assert (listed.returncode, "virtualhome\t" in listed.stdout) == (0, True)
    said = listed.stderr.splitlines()
    assert len(said) == len(WRONG)
    for _, message in WRONG.values():
        assert any(one.startswith(message) for one in said), message
    found = [one["said"] for one in json.loads(looked.stdout)["sections"]["Plug-ins"] if one["verdict"] == "wrong"]
    typo = "nobody reads the entry points 'reactree_ros.plannerz' of typo; did you mean 'planners'?"
    assert found == [*said, typo]


NO_WAY, NO_COMPOSITE = (
    "raise RuntimeError('no way')",
    """
from reactree_ros.agent.control_flow import ControlFlow

class Shout(ControlFlow):
    name = text = phrase = summary = "shout"
    sign, ordered = "!", True
""",
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("group", "code", "said"),
    [
        ("decisions", NO_WAY, "decision kind 'shout' of torn cannot be loaded: no way"),
        ("control_flows", NO_WAY, "control flow 'shout' of torn cannot be loaded: no way"),
        ("control_flows", NO_COMPOSITE, "control flow 'shout' of torn does not define composite"),
    ],
)
def test_a_kind_that_cannot_be_used_is_told_by_the_run_that_goes_without_it(
    tmp_path: Path, group: str, code: str, said: str
) -> None:
    distribution(tmp_path, "torn", f"[reactree_ros.{group}]\nshout = torn:Shout\n", torn=code)
    ran = reactree(tmp_path, "run", "--json")
    assert (ran.returncode, json.loads(ran.stdout)["end"]) == (0, "done")
    assert ran.stderr.splitlines() == [said]


@pytest.mark.slow
def test_a_plug_in_that_is_called_as_ours_is_told_and_ours_is_used(tmp_path: Path) -> None:
    code = A_WORLD.format(name="virtualhome", summary="not ours")
    distribution(tmp_path, "imposter", "[reactree_ros.worlds]\nvirtualhome = imposter:SPEC\n", imposter=code)
    said = "world 'virtualhome' of imposter is not used: this package has one of that name"
    listed = reactree(tmp_path, "list", "worlds")
    assert (listed.stderr.splitlines(), "not ours" in listed.stdout) == ([said], False)
    looked = json.loads(reactree(tmp_path, "doctor", "--json").stdout)
    assert said in [one["said"] for one in looked["sections"]["Plug-ins"]]


@pytest.mark.slow
def test_of_two_plug_ins_of_one_name_the_first_on_the_path_is_used_and_the_other_is_told(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        code = A_WORLD.format(name="double", summary=f"of {name}")
        distribution(tmp_path / name, name, f"[reactree_ros.worlds]\ndouble = {name}:SPEC\n", **{name: code})
    listed = reactree(Path(f"{tmp_path / 'one'}{os.pathsep}{tmp_path / 'two'}"), "list", "worlds")
    assert listed.stderr.splitlines() == ["world 'double' of two is not used: one has one of that name"]
    assert "double\tof one" in listed.stdout


@pytest.mark.slow
def test_what_a_plug_in_prints_when_it_is_loaded_is_no_part_of_a_commands_output(tmp_path: Path) -> None:
    code = f"print('hello')\n{A_WORLD.format(name='loud', summary='')}"
    distribution(tmp_path, "loud", "[reactree_ros.worlds]\nloud = loud:SPEC\n", loud=code)
    assert json.loads(reactree(tmp_path, "run", "--json").stdout)["end"] == "done"


TORN = "planner 'torn' of broken cannot be loaded: out of order"
RUIN = "world 'ruin' of broken cannot be loaded: No module named 'no_such_module'"


@pytest.mark.slow
def test_what_cannot_be_loaded_is_told_where_it_is_listed(broken: Path) -> None:
    ended = reactree(broken, "list")
    assert ended.returncode == 0
    assert ended.stderr.splitlines() == [TORN, RUIN]
    assert "reactree, reactree_wm\t" in ended.stdout


@pytest.mark.slow
@pytest.mark.parametrize(("option", "name", "message"), [("--planner", "torn", TORN), ("--world", "ruin", RUIN)])
def test_what_cannot_be_loaded_is_told_where_it_is_chosen(broken: Path, option: str, name: str, message: str) -> None:
    ended = reactree(broken, "run", option, name)
    assert (ended.returncode, ended.stdout, ended.stderr) == (2, "", f"error: {message}\n")


@pytest.mark.slow
def test_what_cannot_be_loaded_does_not_disturb_the_rest(broken: Path) -> None:
    ended = reactree(broken, "run", "--json")
    assert (ended.returncode, ended.stderr, json.loads(ended.stdout)["end"]) == (0, "", "done")


# ---------------------------------------------------------------------- commands


A_COMMAND = """
import typer
app = typer.Typer()
@app.command()
def weed() -> None:
    \"\"\"Pull out weeds.\"\"\"
    print("weeded")
"""
A_COMMANDS_PLACE = """
from reactree_ros.cli.commands import Command
SPEC = Command(name="{name}", summary="Pull out weeds.", panel="{panel}", module="{name}_code")
"""
BROKEN_COMMANDS = {
    "raises": ("raise RuntimeError('out of order')", "command 'raises' cannot be loaded: out of order"),
    "ends": ("import sys; sys.exit(3)", "command 'ends' cannot be loaded: SystemExit 3"),
    "lacks": ("import no_such_module", "command 'lacks' cannot be loaded: No module named 'no_such_module'"),
    "syntax": ("def", "command 'syntax' cannot be loaded: invalid syntax (syntax_code.py, line 1)"),
    "empty": ("app = None", "command 'empty': empty_code has no typer.Typer named 'app'"),
}


def command(folder: Path, name: str, code: str, *, panel: str = "Robots") -> None:
    place = A_COMMANDS_PLACE.format(name=name, panel=panel)
    points = f"[reactree_ros.commands]\n{name} = {name}_place:SPEC\n"
    distribution(folder, name, points, **{f"{name}_place": place, f"{name}_code": code})


@pytest.mark.slow
def test_commands_are_called_like_ours_and_stand_in_the_help_where_they_say(tmp_path: Path) -> None:
    command(tmp_path, "weed", A_COMMAND)
    command(tmp_path, "plant", A_COMMAND, panel="Garden")
    command(tmp_path, "run", A_COMMAND)
    assert reactree(tmp_path, "weed").stdout == "weeded\n"
    helped = reactree(tmp_path, "--help").stdout
    assert re.search(r"\n\nRobots\n(  .*\n)*  weed +Pull out weeds\.\n", helped)
    assert re.search(r"\n\nGarden\n(  .*\n)*  plant +Pull out weeds\.\n", helped)
    assert json.loads(reactree(tmp_path, "run", "--json").stdout)["end"] == "done"  # ours


@pytest.mark.slow
def test_broken_commands_are_told_where_they_are_called_and_break_no_other(tmp_path: Path) -> None:
    for name, (code, _) in BROKEN_COMMANDS.items():
        command(tmp_path, name, code)
    distribution(tmp_path, "torn", "[reactree_ros.commands]\ntorn = torn:SPEC\n", torn="raise RuntimeError('torn')")
    for name, (_, said) in BROKEN_COMMANDS.items():
        called = reactree(tmp_path, name)
        assert (called.returncode, called.stdout, called.stderr) == (2, "", f"error: {said}\n")
    helped, done = reactree(tmp_path, "--help"), reactree(tmp_path, "run", "--json")
    assert (helped.returncode, "doctor" in helped.stdout, "torn" in helped.stdout) == (0, True, False)
    assert (done.returncode, done.stderr, json.loads(done.stdout)["end"]) == (0, "", "done")
    looked = json.loads(reactree(tmp_path, "doctor", "--json").stdout)["sections"]["Plug-ins"]
    assert "command 'torn' of torn cannot be loaded: torn" in [one["said"] for one in looked]


# ---------------------------------------------------------------------- this package, not as it is


@pytest.mark.parametrize("arguments", [("--help",), ("run",)])
@pytest.mark.parametrize("points", ["", "[console_scripts]\nreactree = reactree_ros.cli:main\n"])
def test_a_checkout_that_is_not_installed_as_it_is_says_so_in_one_line(
    tmp_path: Path, points: str, arguments: tuple[str, ...]
) -> None:
    distribution(tmp_path, "reactree_ros", points)
    ended = reactree(tmp_path, *arguments)
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1)
    assert re.search(r"error: no \w+ of reactree_ros is installed here: .*-m pip install -e \S+\n", ended.stderr)


@pytest.mark.slow
def test_from_python_it_is_said_too(tmp_path: Path) -> None:
    distribution(tmp_path, "reactree_ros", "")
    code = "from reactree_ros import run\ntry:\n    run()\nexcept Exception as error:\n    print(repr(error))"
    ended = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(tmp_path)}, capture_output=True, text=True
    )
    assert ended.stdout.startswith("UserError('no world of reactree_ros is installed here: "), ended.stderr


@pytest.mark.slow
def test_what_was_moved_since_it_was_installed_is_told(tmp_path: Path) -> None:
    own = metadata.distribution("reactree_ros").read_text("entry_points.txt") or ""
    moved = own.replace("reactree_ros.household.symbolic:SPEC", "reactree_ros.moved.symbolic:SPEC")
    distribution(tmp_path, "reactree_ros", moved)
    ended = reactree(tmp_path, "run")
    assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (2, "", 1)
    assert ended.stderr.startswith("error: reactree_ros has no reactree_ros.moved any more: ")
