"""Defaults of options from ``reactree.toml``, and what ``reactree config show`` says of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import Cli

RUN = ("run", "Put 1 apple on the coffee table", "--json")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project's file; the command line runs in a folder below it."""
    (tmp_path / "project" / "below").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "project" / "below")
    return tmp_path / "project" / "reactree.toml"


@pytest.fixture
def user(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    file = tmp_path / "home" / "reactree" / "reactree.toml"
    file.parent.mkdir(parents=True)
    return file


def test_the_project_comes_before_the_user_and_the_command_line_before_both(
    cli: Cli, project: Path, user: Path
) -> None:
    user.write_text("[run]\nmax_steps = 1\nmax_decisions = 7\n")
    assert cli(*RUN).json["end"] == "out_of_steps"
    project.write_text("[run]\nmax-steps = 150\n")
    assert cli(*RUN).json["end"] == "out_of_decisions"
    assert cli(*RUN, "--max-decisions", 150).json["end"] == "done"


def test_a_commands_own_table_comes_before_that_of_all(cli: Cli, project: Path) -> None:
    project.write_text("[run]\nmax_steps = 150\n[all]\nmax_steps = 1\n")
    assert cli(*RUN).json["end"] == "done"


def test_flags_and_paths_are_taken_too(cli: Cli, project: Path) -> None:
    project.write_text('[run]\njson = true\nsave = "record.jsonl"\n')
    assert cli(*RUN[:2]).json["end"] == "done"
    assert (project.parent / "record.jsonl").is_file()  # of the file's folder, wherever the command runs


def test_whoever_names_another_model_does_not_get_the_settings_of_the_one_in_the_file(cli: Cli, project: Path) -> None:
    project.write_text('[all]\nllm = "openai"\nbase_url = "http://127.0.0.1:9/v1"\n')
    assert "127.0.0.1:9" in cli(*RUN).err
    assert cli(*RUN, "--llm", "expert").json["end"] == "done"


def test_a_run_is_gone_on_with_by_its_own_model(cli: Cli, project: Path, tmp_path: Path) -> None:
    record = tmp_path / "record.jsonl"
    cli(*RUN, "--save", record, "--max-decisions", 3)
    project.write_text('[all]\nllm = "openai"\nbase_url = "http://127.0.0.1:9/v1"\n')
    assert cli("resume", record, "--json").json["end"] != "model_gone"
    project.write_text('[resume]\nllm = "openai"\nbase_url = "http://127.0.0.1:9/v1"\n')
    assert "127.0.0.1:9" in cli("resume", record, "--json").err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[run]\nmax_stepz = 3", "run.max_stepz: `reactree run` has no such option; did you mean 'max-steps'?"),
        ('[run]\nmax_steps = "many"', "run.max_steps: "),
        ("[run]\nmax_steps = -1", "run.max_steps: "),
        ("[run]\nmax_steps = [1, 2]", "run.max_steps: takes one value, not a list"),
        ("[run]\nview = 3", "run.view: must be true or false, not '3'"),
        ("[run]\nsave = 1979-05-27", "run.save: must be a text, a number, true or false, not '1979-05-27'"),
        ("[rum]\nview = true", "'rum' is no command; did you mean 'run'?"),
        ("max_steps = 3", "'max_steps' is no command;"),
        ("run = 3", "'run' must be a table: write [run], and its options below"),
        ("[", "is no TOML: "),
        ('[run]\nparallel = "sometimes"', "run.parallel: "),
    ],
)
def test_what_is_wrong_is_said_with_file_and_key(cli: Cli, project: Path, text: str, said: str) -> None:
    project.write_text(text)
    for command in (RUN, ("config", "show")):
        ended = cli(*command)
        assert (ended.code, ended.out) == (2, "") or command[0] == "config"
        assert ended.code == 2
        assert f"error: {project}: {said}" in ended.err


def lines_of_doctor(cli: Cli) -> list[str]:
    ended = cli("doctor")
    assert (ended.code, "Traceback" in ended.err) == (1 if "  !!  " in ended.out else 0, False)
    return ended.out.partition("Defaults of options\n")[2].splitlines()[:-1]


def test_doctor_says_which_files_there_are(cli: Cli, project: Path, user: Path) -> None:
    assert lines_of_doctor(cli) == [f"  --  reactree.toml: none here, in a folder above, or at {user}"]
    user.write_text("[run]\nmax_steps = 1\n")
    assert lines_of_doctor(cli) == [f"  ok  user: {user}"]
    project.write_text('[all]\nllm = "expert"\n[llm.check]\nmodel = "m"\n')
    assert lines_of_doctor(cli) == [f"  ok  project: {project}", f"  ok  user: {user}"]


def test_doctor_says_everything_that_is_wrong_once_and_ends_as_it_always_does(
    cli: Cli, project: Path, user: Path
) -> None:
    user.write_text("[")
    project.write_text(
        "[all]\nmax_steps = -1\nbase_ulr = 1\n[run]\nviev = true\n[bench]\nseeds = 'x'\n"
        "[llm]\nmodel = 'm'\n[llm.chekc]\n"
    )
    lines = lines_of_doctor(cli)
    assert all(
        line.endswith("  (correct that; `reactree config show` then says what each option gets)") for line in lines
    )
    assert [line.partition(": ")[0] for line in lines] == ["  !!  project"] * 6 + ["  !!  user"]
    assert "all.base_ulr: no command has such an option;" in lines[0]
    assert "'llm.model' is no command;" in lines[1]
    assert "'llm.chekc' is no command; did you mean 'check'?" in lines[2]
    assert [sum(f": {key}: " in line for line in lines) for key in ("all.max_steps", "run.viev", "bench.seeds")] == [
        1,
        1,
        1,
    ]
    assert f"{user}: is no TOML: " in lines[-1]


def test_doctor_takes_what_a_file_that_is_right_says(cli: Cli, project: Path) -> None:
    project.write_text('[all]\nbase_url = "http://127.0.0.1:9/v1"\n')
    assert "http://127.0.0.1:9/v1 cannot be reached" in cli("doctor").out


def test_doctor_tells_no_key_of_a_file(cli: Cli, project: Path) -> None:
    project.write_text('[all]\napi_key = ["sk-hush-4711-abcdef", "another"]\n[run]\napi_key = "sk-hush-4711-abcdef"\n')
    ended = cli("doctor")
    assert f"!!  project: {project}: " in ended.out
    assert "sk-hush" not in ended.out + ended.err


def test_a_file_that_is_no_text_is_said(cli: Cli, project: Path) -> None:
    project.write_bytes(b"\xff\xfe\x00")
    assert f"error: {project}: cannot be read: " in cli(*RUN).err


def test_help_is_there_whatever_the_file_says(cli: Cli, project: Path) -> None:
    project.write_text("[")
    assert cli("run", "--help").code == 0


def test_config_show_says_where_each_value_comes_from(cli: Cli, project: Path, user: Path) -> None:
    user.write_text('[all]\nllm = "openai"\napi_key = "sk-hush"\n[llm.check]\nmodel = "m"\n')
    project.write_text("[run]\nrobots = 2\n")
    shown = cli("config", "show").out
    rows = [line.split() for line in shown.splitlines()]
    assert ["run", "--robots", "2", "project:", "run.robots"] in rows
    assert ["run", "--llm", "openai", "user:", "all.llm"] in rows
    assert ["llm", "check", "--model", "m", "user:", "llm.check.model"] in rows
    assert f"project: {project}" in shown
    assert f"user: {user}" in shown
    assert "sk-hush" not in shown
    rows = [line.split() for line in cli("config", "show", "run").out.splitlines()]
    assert ["run", "--world", "virtualhome", "built", "in"] in rows
    assert ["run", "--robots", "2", "project:", "run.robots"] in rows


def test_config_show_without_files_says_where_they_would_be(cli: Cli, project: Path, user: Path) -> None:
    assert str(user) in cli("config", "show").out.replace("\n", "")
    assert cli("config", "show", "nothing").code == 2
