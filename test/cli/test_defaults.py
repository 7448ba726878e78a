"""Defaults of options from ``reactree.toml``, which of them a project's file may set, and what is said of them."""

from __future__ import annotations

import inspect
import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import Cli
from hostile import KeyCatcher
from test_trust import HOSTILE

from reactree_ros.cli import Commands, asking
from reactree_ros.cli.commands import in_order
from reactree_ros.cli.defaults import leaves, user_file
from reactree_ros.cli.trusted import Standing
from reactree_ros.plugins.settings import is_harmless

RUN = ("run", "Put 1 apple on the coffee table", "--json")


@pytest.fixture
def user(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    file = tmp_path / "home" / "reactree" / "reactree.toml"
    file.parent.mkdir(parents=True)
    return file


@pytest.fixture
def unknown(user: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project's file of which the user said nothing yet; the command line runs in a folder below it."""
    (tmp_path / "project" / "below").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "project" / "below")
    return tmp_path / "project" / "reactree.toml"


@pytest.fixture
def project(unknown: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project's file that is trusted, whatever it says."""
    monkeypatch.setattr("reactree_ros.cli.defaults.standing_of", lambda path, content: Standing.TRUSTED)
    return unknown


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


def test_flags_and_paths_are_taken_too(cli: Cli, project: Path, user: Path) -> None:
    user.write_text('[run]\njson = true\nsave = "record.jsonl"\n')
    assert cli(*RUN[:2]).json["end"] == "done"
    assert (user.parent / "record.jsonl").is_file()  # of the file's folder, wherever the command runs


def test_whoever_names_another_model_does_not_get_the_settings_of_the_one_in_the_file(
    cli: Cli, project: Path, user: Path
) -> None:
    user.write_text('[all]\nllm = "openai"\nbase_url = "http://127.0.0.1:9/v1"\n')
    assert "127.0.0.1:9" in cli(*RUN).err
    assert cli(*RUN, "--llm", "expert").json["end"] == "done"


def test_a_run_is_gone_on_with_by_its_own_model(cli: Cli, user: Path, tmp_path: Path) -> None:
    record = tmp_path / "record.jsonl"
    cli(*RUN, "--save", record, "--max-decisions", 3)
    user.write_text('[all]\nllm = "openai"\nbase_url = "http://127.0.0.1:9/v1"\n')
    assert cli("resume", record, "--json").json["end"] != "model_gone"
    user.write_text('[resume]\nllm = "openai"\nbase_url = "http://127.0.0.1:9/v1"\n')
    assert "127.0.0.1:9" in cli("resume", record, "--json").err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[run]\nmax_stepz = 3", "run.max_stepz: `reactree run` has no such option; did you mean 'max-steps'?"),
        ('[run]\nmax_steps = "many"', "run.max_steps: "),
        ("[run]\nmax_steps = -1", "run.max_steps: "),
        ("[run]\nmax_steps = [1, 2]", "run.max_steps: takes one value, not a list"),
        ("[run]\nview = 3", "run.view: must be true or false, not '3'"),
        ("[run]\nmax_steps = 1979-05-27", "run.max_steps: must be a text, a number, true or false, not '1979-05-27'"),
        ("[rum]\nview = true", "'rum' is no command; did you mean 'run'?"),
        ("max_steps = 3", "'max_steps' is no command;"),
        ("run = 3", "'run' must be a table: write [run], and its options below"),
        ("[", "is not TOML: "),
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
    of_user = f"  ok  user: {user} sets run.max_steps = 1"
    assert lines_of_doctor(cli) == [of_user]
    project.write_text('[all]\nllm = "expert"\n[run]\nmax_depth = 3\n')
    assert lines_of_doctor(cli) == [f"  ok  project: {project} sets all.llm = expert, run.max_depth = 3", of_user]


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
        line.endswith("  (correct it; `reactree config show` then shows the value of each option)") for line in lines
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
    assert f"{user}: is not TOML: " in lines[-1]


def test_doctor_takes_what_a_file_that_is_right_says(cli: Cli, project: Path, user: Path) -> None:
    user.write_text('[all]\nbase_url = "http://127.0.0.1:9/v1"\n')
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


# ---------------------------------------------------------------------- a project's file of somebody else


@pytest.fixture
def catcher(monkeypatch: pytest.MonkeyPatch) -> Iterator[KeyCatcher]:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-hush-4711-abcdef")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with KeyCatcher() as one:
        yield one


REACHING = {
    "a server": '[all]\nllm = "openai"\nbase_url = "{url}"\n',
    "a server of one command": '[run]\nllm = "openai"\nbase_url = "{url}"\n',
    "doctor's server": '[doctor]\nbase_url = "{url}"\n',
    "a server with a dash": '[all]\nllm = "openai"\nbase-url = "{url}"\n',
    "a server among options": '[all]\nllm = "openai"\nllm_option = ["model=m", "base_url={url}"]\n',
    "a key's file": '[all]\nllm = "openai"\napi_key_file = "/etc/passwd"\n',
    "a body": '[all]\nllm_option = ["extra_body={{documents: [/etc/passwd]}}"]\n',
    "a program": '[run]\nworld = "virtualhome_unity"\nworld_option = ["executable={program}"]\n',
    "a program as one text": '[run]\nworld = "virtualhome_unity"\nworld_option = "executable={program}"\n',
    "a program among harmless ones": '[all]\nworld_option = ["robots=1", "executable={program}"]\n',
    "a host": '[run]\nworld = "virtualhome_unity"\nworld_option = ["host={host}"]\n',
    "a house's file": '[run]\nhouse = "{program}"\n',
    "a memory": '[all]\nmemory = "{program}"\n',
    "a memory of another store": '[all]\nmemory = "sqlite:path={program}"\n',
    "a store alone": '[all]\nmemory = "sqlite"\n',
    "a record": '[run]\nsave = "../../home/.bashrc"\n',
    "a policy": '[run]\npolicy = "policy.yaml"\n',
    "models": '[all]\nmodels = "models.yaml"\n',
    "a model's folder": '[all]\nllm = "transformers"\nmodel = "model"\n',
    "an interface": '[view]\nhost = "0.0.0.0"\n',
    "a yes": "[resume]\nros = true\nyes = true\n",
}


@pytest.fixture
def program(tmp_path: Path) -> Path:
    file = tmp_path / "program.sh"
    file.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\n")
    file.chmod(0o755)
    return file


@pytest.mark.parametrize("trusted", [False, True])
@pytest.mark.parametrize("case", REACHING)
def test_a_project_starts_opens_loads_and_sends_nothing(
    cli: Cli, unknown: Path, catcher: KeyCatcher, program: Path, case: str, trusted: bool, request: Any
) -> None:
    if trusted:
        request.getfixturevalue("project")
    unknown.write_text(REACHING[case].format(url=catcher.base_url, host=catcher.host, program=program))
    table = unknown.read_text()[1:].partition("]")[0].replace("all", "run")
    command = {"run": RUN, "resume": ("resume", "x.jsonl"), "view": ("view", "."), "doctor": RUN}[table]
    ended = cli(*command)
    if table != "doctor":
        assert (ended.code, ended.out) == (2, "")
        what = "something; set it on the command line" if trusted else "is not trusted yet"
        assert f"error: {unknown}" in ended.err
        assert what in ended.err
    assert catcher.requests == []
    if "server" in case:
        assert f"!!  project: {unknown}" in cli("doctor").out
        assert catcher.requests == []
    assert cli("config", "trust").code == 2, "what it may not set is said before it is trusted"
    assert not program.with_name("started").exists()


def test_what_may_be_set_by_a_project_is_declared_with_every_option() -> None:
    group, found = Commands(name="reactree"), 0
    for name in in_order():
        for path, command in leaves((name,), group.get_command(None, name)):
            for one in inspect.signature(command.callback, eval_str=True).parameters.values():
                text = "Path" in str(one.annotation) or "str" in str(one.annotation).split(",")[0]
                if not text:
                    continue
                found += 1
                for value in (one for one in HOSTILE if isinstance(one, str)):
                    for said in (
                        value,
                        f"base_url={value}",
                        f"executable={value}",
                        f"house={value}",
                        f"models={value}",
                    ):
                        assert not is_harmless(one.annotation, said), (path, one.name, said)
    assert found > 50


def test_a_file_counts_once_it_is_trusted_and_until_it_changes(cli: Cli, unknown: Path) -> None:
    unknown.write_text("[run]\nmax_steps = 1\n")
    refused = cli(*RUN)
    assert (refused.code, refused.out) == (2, "")
    assert (
        f"error: {unknown}: wants to set run.max_steps = 1, and is not trusted yet; `reactree config trust`"
        in refused.err
    )
    trusted = cli("config", "trust")
    assert (trusted.code, trusted.out) == (
        0,
        f"{unknown}: trusted with its current content; it sets run.max_steps = 1\n",
    )
    assert cli(*RUN).json["end"] == "out_of_steps"
    unknown.write_text("[run]\nmax_steps = 2\n")
    assert cli(*RUN).code == 2
    unknown.write_text("[run]\nmax_steps = 1\n")
    assert cli(*RUN).json["end"] == "out_of_steps"
    assert cli("config", "distrust").code == 0
    passed = cli(*RUN)
    assert passed.json["end"] == "done"
    assert f"{unknown}: is ignored, as you chose" in passed.err
    assert f"{unknown}: is ignored" in cli("config", "show").out
    assert f"--  project: {unknown}: is ignored" in cli("doctor").out


def test_a_copy_elsewhere_is_not_trusted(
    cli: Cli, unknown: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unknown.write_text("[run]\nmax_steps = 1\n")
    assert cli("config", "trust", unknown.parent).code == 0
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "reactree.toml").write_bytes(unknown.read_bytes())
    monkeypatch.chdir(tmp_path / "copy")
    assert cli(*RUN).code == 2


@pytest.mark.parametrize("yes", [True, False])
def test_in_a_terminal_it_is_shown_and_asked_for(
    cli: Cli, unknown: Path, monkeypatch: pytest.MonkeyPatch, yes: bool
) -> None:
    unknown.write_text('[run]\nmax_steps = 1\nplanner = "react\\u001b]0;x\\u0007"\n')
    terminal, asked = io.StringIO(), []
    terminal.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr(asking.sys, "stdin", terminal)
    monkeypatch.setattr(asking.sys, "stderr", terminal)
    monkeypatch.setattr(asking.typer, "confirm", lambda question, **_: asked.append(question) or yes)
    cli("house", "generate", "--help")
    cli(*RUN)
    assert len(asked) == 1
    assert "wants to set run.max_steps = 1, run.planner = " in terminal.getvalue()
    assert "\x1b]0" not in terminal.getvalue()
    cli(*RUN)
    assert len(asked) == (1 if yes else 2)


def test_a_file_that_a_stranger_may_change_never_counts(cli: Cli, unknown: Path, tmp_path: Path) -> None:
    unknown.write_text("[run]\nmax_steps = 1\n")
    assert cli("config", "trust").code == 0
    for mode in (0o666, 0o646, 0o662, 0o664):
        unknown.chmod(mode)
        ended = cli(*RUN)
        assert ended.json["end"] == "done"
        assert f"{unknown}: others may write to it; `chmod go-w {unknown}` changes that; it is ignored" in ended.err
        assert cli("config", "trust").code == 2
    unknown.chmod(0o644)
    assert cli(*RUN).json["end"] == "out_of_steps"
    unknown.rename(tmp_path / "elsewhere.toml")
    unknown.symlink_to(tmp_path / "elsewhere.toml")
    ended = cli(*RUN)
    assert (ended.json["end"], f"{unknown}: is a link" in ended.err) == ("done", True)
    assert f"--  project: {unknown}: is a link" in cli("doctor").out


def test_a_file_of_somebody_else_never_counts(cli: Cli, unknown: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unknown.write_text("[run]\nmax_steps = 1\n")
    assert cli("config", "trust").code == 0
    monkeypatch.setattr("reactree_ros.cli.trusted.os.getuid", lambda: os.geteuid() + 1)
    ended = cli(*RUN)
    assert ended.json["end"] == "done"
    assert f"{unknown}: belongs to another user" in ended.err
    assert cli("config", "trust").code == 2


def test_a_line_at_the_start_says_which_files_set_what(cli: Cli, project: Path, user: Path) -> None:
    user.write_text('[all]\nllm = "expert"\nseed = 0\n[llm.check]\nmodel = "m"\n[run]\nmax_steps = 90\n')
    project.write_text("[run]\nmax_steps = 150\nmax_depth = 7\n")
    ended = cli(*RUN)
    assert ended.json["end"] == "done"
    assert ended.err.splitlines()[0] == f"defaults: {project} sets run.max_steps = 150, run.max_depth = 7"
    user.write_text('[llm.check]\nllm = "expert"\n')
    assert cli("llm", "check").err.startswith(f"defaults: {user} sets llm.check.llm = expert\n")


def test_neither_line_nor_table_tells_a_key(
    cli: Cli, user: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    user.write_text(
        '[run]\nllm = "openai"\nbase_url = "http://127.0.0.1:9/k/hush47110815abcdefgh/v1"\n'
        'llm_option = ["extra_body={auth: hush-4711}", "model=m"]\n'
    )
    for command in (RUN, ("config", "show"), ("config", "show", "run"), ("doctor",)):
        ended = cli(*command)
        assert "127.0.0.1:9/k/***/v1" in ended.out + ended.err
        assert "hush" not in ended.out + ended.err


def test_the_users_own_file_in_a_projects_folder_is_the_users(
    cli: Cli, user: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user.write_text("[run]\nmax_steps = 1\n")
    monkeypatch.chdir(user.parent)
    assert cli(*RUN).json["end"] == "out_of_steps"


@pytest.mark.parametrize(
    ("variables", "place"),
    [
        ({"XDG_CONFIG_HOME": ""}, "reactree"),
        ({"XDG_CONFIG_HOME": "."}, "reactree"),
        ({"XDG_CONFIG_HOME": "conf"}, "conf/reactree"),
        ({"XDG_CONFIG_HOME": None, "HOME": "."}, ".config/reactree"),
        ({"XDG_CONFIG_HOME": "", "HOME": "h"}, "h/.config/reactree"),
    ],
)
def test_no_file_of_the_folder_that_a_command_runs_in_is_the_users_own(
    cli: Cli, tmp_path: Path, catcher: KeyCatcher, monkeypatch: pytest.MonkeyPatch, variables: Any, place: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name, value in variables.items():
        monkeypatch.delenv(name) if value is None else monkeypatch.setenv(name, value)
    (tmp_path / "strangers" / place).mkdir(parents=True)
    (tmp_path / "strangers" / place / "reactree.toml").write_text(
        f'[all]\nllm = "openai"\nmodel = "m"\nbase_url = "{catcher.base_url}"\n'
    )
    monkeypatch.chdir(tmp_path / "strangers")
    assert user_file().is_absolute()
    assert not user_file().is_relative_to(tmp_path / "strangers")
    assert "strangers" not in cli(*RUN).err
    assert catcher.requests == []


def test_a_folders_name_steers_no_terminal(
    cli: Cli, user: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = tmp_path / "a\x1b]0;x\x07\nok: all is well"
    odd.mkdir()
    monkeypatch.chdir(odd)
    (odd / "reactree.toml").write_text('[run]\nmax_steps = 1\nsave = "\\u001b]0;y\\u0007"\n')
    said = [cli("config", "show"), cli("config", "trust"), cli("config", "distrust"), cli("doctor")]
    (odd / "reactree.toml").write_text("[run]\nmax_steps = 1\n")
    said += [cli("config", "trust"), cli("config", "show"), cli("doctor"), cli("config", "distrust"), cli(*RUN)]
    for one in said:
        assert "\x1b]" not in one.out + one.err
        assert "\nok: all is well" not in one.out + one.err
