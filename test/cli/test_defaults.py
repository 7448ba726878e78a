"""Defaults of options from the user's own ``reactree.toml``, what is said of them, and that no other file sets any."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, Literal

import pytest
import typer
from command_line import Cli
from hostile import KeyCatcher
from pydantic import Field
from typer.testing import CliRunner

from reactree_ros.cli.defaults import user_file
from reactree_ros.cli.help import with_help
from reactree_ros.cli.options import FromSettings, Named, takes
from reactree_ros.errors import UserError
from reactree_ros.plugins import Registry, Spec
from reactree_ros.plugins.settings import Settings

RUN = ("run", "Put 1 apple on the coffee table", "--json")


@pytest.fixture
def user(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    file = tmp_path / "home" / "reactree" / "reactree.toml"
    file.parent.mkdir(parents=True)
    return file


@pytest.fixture
def catcher(monkeypatch: pytest.MonkeyPatch) -> Iterator[KeyCatcher]:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-hush-4711-abcdef")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with KeyCatcher() as one:
        yield one


def test_the_command_line_comes_before_the_file(cli: Cli, user: Path) -> None:
    user.write_text("[run]\nmax-steps = 150\nmax_decisions = 7\n")
    assert cli(*RUN).json["end"] == "out_of_decisions"
    assert cli(*RUN, "--max-decisions", 150).json["end"] == "done"


@pytest.mark.parametrize("place", ["", ".reactree", ".config/reactree"])
def test_no_file_in_a_folder_sets_a_default_or_is_mentioned(
    cli: Cli, user: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    below = tmp_path / "project" / "below"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    for folder in (below, below.parent):
        (folder / place).mkdir(parents=True, exist_ok=True)
        (folder / place / "reactree.toml").write_text('[all]\nmax_steps = 1\nllm = "nobody"\n[rum]\n')
    said = [cli(*RUN), cli("list", "defaults"), cli("list", "defaults", "run"), cli("doctor")]
    assert said[0].json["end"] == "done"
    assert not any(str(tmp_path / "project") in one.out + one.err for one in said)


@pytest.mark.slow
def test_flags_and_paths_are_taken_too(cli: Cli, user: Path) -> None:
    user.write_text('[run]\njson = true\nsave = "record.jsonl"\n')
    assert cli(*RUN[:2]).json["end"] == "done"
    assert (user.parent / "record.jsonl").is_file()  # of the file's folder, wherever the command runs


@pytest.mark.slow
def test_whoever_names_another_model_does_not_get_the_settings_of_the_one_in_the_file(cli: Cli, user: Path) -> None:
    user.write_text('[all]\nllm = "openai"\nbase_url = "http://127.0.0.1:9/v1"\n')
    assert "127.0.0.1:9" in cli(*RUN).err
    assert cli(*RUN, "--llm", "expert").json["end"] == "done"


@pytest.mark.slow
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
        ("[rum]\nview = true", "'rum' is not a command; did you mean 'run'?"),
        ("max_steps = 3", "'max_steps' is not a command;"),
        ("run = 3", "'run' must be a table: write [run], and its options below"),
        ("[", "is not TOML: "),
        ('[run]\nroutines = "sometimes"', "run.routines: "),
    ],
)
def test_what_is_wrong_is_said_with_file_and_key(cli: Cli, user: Path, text: str, said: str) -> None:
    user.write_text(text)
    for command in (RUN, ("list", "defaults")):
        ended = cli(*command)
        assert (ended.code, ended.out) == (2, "") or command[0] == "list"
        assert ended.code == 2
        assert f"error: {user}: {said}" in ended.err


def lines_of_doctor(cli: Cli) -> list[str]:
    ended = cli("doctor")
    assert (ended.code, "Traceback" in ended.err) == (1 if "  !!  " in ended.out else 0, False)
    return ended.out.partition("Defaults of options\n")[2].splitlines()[:-1]


@pytest.mark.slow
def test_doctor_says_everything_that_is_wrong_once_and_ends_as_it_always_does(cli: Cli, user: Path) -> None:
    user.write_text("[")
    line, _ = lines_of_doctor(cli)
    assert f"{user}: is not TOML: " in line
    user.write_text(
        "[all]\nmax_steps = -1\nbase_ulr = 1\n[run]\nviev = true\n[lab.bench]\nseeds = 'x'\n"
        "[llm]\nmodel = 'm'\n[llm.chekc]\n"
    )
    told = lines_of_doctor(cli)
    lines, remedies = told[::2], {*told[1::2]}
    assert len(lines) == 6
    assert remedies == {"      correct it; `reactree list defaults` then shows the value of each option"}
    assert all(line.startswith("  !!  reactree.toml: ") for line in lines)
    assert "all.base_ulr: no command has such an option;" in lines[0]
    assert "'llm.model' is not a command;" in lines[1]
    assert "'llm.chekc' is not a command; did you mean 'check'?" in lines[2]
    for key in ("all.max_steps", "run.viev", "lab.bench.seeds"):
        assert sum(f": {key}: " in line for line in lines) == 1


def test_doctor_tells_no_key_of_a_file(cli: Cli, user: Path) -> None:
    user.write_text('[all]\napi_key = ["sk-hush-4711-abcdef", "another"]\n[run]\napi_key = "sk-hush-4711-abcdef"\n')
    ended = cli("doctor")
    assert f"!!  reactree.toml: {user}: " in ended.out
    assert "sk-hush" not in ended.out + ended.err


def test_a_file_that_is_no_text_is_said(cli: Cli, user: Path) -> None:
    user.write_bytes(b"\xff\xfe\x00")
    assert f"error: {user}: is not text in UTF-8: " in cli(*RUN).err


def test_help_is_there_whatever_the_file_says(cli: Cli, user: Path) -> None:
    user.write_text("[")
    assert cli("run", "--help").code == 0


def test_the_list_of_defaults_says_where_each_value_comes_from(cli: Cli, user: Path) -> None:
    user.write_text('[all]\nllm = "openai"\napi_key = "sk-hush"\n[run]\nseed = 2\n[llm.check]\nmodel = "m"\n')
    shown = cli("list", "defaults").out
    rows = [line.split() for line in shown.splitlines()]
    assert ["run", "--seed", "2", "run.seed"] in rows
    assert ["run", "--llm", "openai", "all.llm"] in rows
    assert ["llm", "check", "--model", "m", "llm.check.model"] in rows
    assert shown.startswith(f"{user}\n")
    assert "sk-hush" not in shown
    rows = [line.split() for line in cli("list", "defaults", "run").out.splitlines()]
    assert ["run", "--world", "virtualhome", "built", "in"] in rows
    assert ["run", "--seed", "2", "run.seed"] in rows


def test_a_line_at_the_start_says_what_the_file_changes(cli: Cli, user: Path) -> None:
    user.write_text('[all]\nllm = "expert"\nseed = 0\n[llm.check]\nmodel = "m"\n[run]\nmax_steps = 150\nseed = 7\n')
    ended = cli(*RUN)
    assert ended.json["end"] == "done"
    assert ended.err.splitlines()[0] == f"defaults: {user} sets run.seed = 7, run.max_steps = 150"
    user.write_text('[llm.check]\nllm = "expert"\n')
    assert cli("llm", "check").err.startswith(f"defaults: {user} sets llm.check.llm = expert\n")


@pytest.mark.slow
def test_neither_line_nor_table_tells_a_key(
    cli: Cli, user: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    user.write_text(
        '[run]\nllm = "openai"\nbase_url = "http://127.0.0.1:9/k/hush47110815abcdefgh/v1"\n'
        'llm_option = ["extra_body={auth: hush-4711}", "model=m"]\n'
    )
    for command in (RUN, ("list", "defaults"), ("list", "defaults", "run"), ("doctor",)):
        ended = cli(*command)
        assert "127.0.0.1:9/k/***/v1" in ended.out + ended.err
        assert "hush" not in ended.out + ended.err


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


@pytest.mark.slow
def test_neither_the_files_place_nor_its_values_steer_a_terminal(
    cli: Cli, user: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = tmp_path / "a\x1b]0;x\x07\nok: all is well"
    (odd / "reactree").mkdir(parents=True)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(odd))
    (odd / "reactree" / "reactree.toml").write_text('[run]\nmax_steps = 1\nplanner = "react\\u001b]0;y\\u0007"\n')
    for one in (cli("list", "defaults"), cli("doctor"), cli(*RUN)):
        assert "all is well" in one.out + one.err
        assert "\x1b]" not in one.out + one.err
        assert "\nok: all is well" not in one.out + one.err


class Colour(enum.Enum):
    """A few values."""

    RED = "red"
    DARK_GREEN = "dark_green"


class Paint(Settings):
    """One setting of each type."""

    coats: int = Field(default=2, ge=1, le=9, description="how many coats")
    litres: float = Field(default=1.5, gt=0, description="how much")
    glossy: bool = Field(default=False, description="whether it shines")
    colour: Colour = Field(default=Colour.RED, description="which colour")
    brush: Literal["flat", "round"] | None = Field(default=None, description="which brush")
    wall: Path | None = Field(default=None, description="where")
    layers: tuple[str, ...] = Field(default=(), description="what lies below")


def painted(*arguments: str, without: tuple[str, ...] = ()) -> tuple[int, Any, str]:
    """Run a command with these options; returns its exit code, what it got, and what it printed."""
    app, got = typer.Typer(), []

    @app.command()
    @takes(paint=FromSettings(Paint, without=without))
    def paint_it(who: Annotated[str, typer.Option(help="Who paints.")] = "me", *, paint: Paint) -> None:
        """Paint."""
        got.append((who, paint))

    ended = CliRunner().invoke(with_help(app), list(arguments), env={"COLUMNS": "200", "NO_COLOR": "1"})
    if isinstance(ended.exception, UserError):
        raise ended.exception
    return ended.exit_code, got[0] if got else None, ended.output


def test_what_is_always_there_comes_before_what_something_that_is_named_brings_along() -> None:
    class Mural(Settings):
        coats: int = Field(default=7, description="of the mural")

    spec = Spec(name="mural", summary="a wall with a picture", settings=Mural)

    class Murals(Registry[Any]):
        names = ("mural",)
        default = "mural"

        def get(self, name: str) -> Any:
            return SimpleNamespace(**vars(spec), flags=("coats",))

        def __iter__(self) -> Iterator[Any]:
            return iter([self.get("mural")])

    app, got = typer.Typer(), []

    @app.command()
    @takes(mural=Named(Murals("mural", "no.group", Spec, first=("mural",)), "mural"), paint=FromSettings(Paint))
    def paint_it(*, mural: Any, paint: Paint) -> None:
        """Paint."""
        got.append((mural.settings.coats, paint.coats))

    assert CliRunner().invoke(app, ["--coats", "3"]).exit_code == 0
    assert CliRunner().invoke(app, ["--mural-option", "coats=5"]).exit_code == 0
    assert got == [(7, 3), (5, 2)]


def test_every_type_of_setting_can_be_given() -> None:
    arguments = ["--coats", "3", "--litres", "0.5", "--glossy", "--colour", "dark_green", "--brush", "round"]
    assert painted(*arguments, "--wall", "north", "--who", "you")[:2] == (
        0,
        ("you", Paint(coats=3, litres=0.5, glossy=True, colour=Colour.DARK_GREEN, brush="round", wall=Path("north"))),
    )
    assert painted("--no-glossy")[1] == ("me", Paint())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--coats", "0"], "Invalid value for '--coats': "),
        (["--coats", "many"], "Invalid value for '--coats': "),
        (["--colour", "blue"], "'blue' is not one of 'red', 'dark_green'"),
        (["--brush", "thick"], "'thick' is not one of 'flat', 'round'"),
    ],
)
def test_what_the_command_line_can_see_to_be_wrong_is_bad_usage(arguments: list[str], message: str) -> None:
    code, got, out = painted(*arguments)
    assert (code, got) == (2, None)
    assert message in " ".join(out.split())


def test_what_only_the_settings_can_see_to_be_wrong_is_told_by_them() -> None:
    with pytest.raises(UserError, match=r"options: litres is '0\.0': input should be greater than 0"):
        painted("--litres", "0")


def test_the_help_has_meaning_bounds_choices_and_defaults() -> None:
    out = " ".join(painted("--help")[2].split())
    for text in (
        "--coats N How many coats. [1 to 9, default: 2]",
        "--no-glossy",
        "--colour red|dark_green",
        "Which brush.",
        "[default: red]",
    ):
        assert text in out


def test_an_option_of_the_command_goes_before_one_that_is_made() -> None:
    app, got = typer.Typer(), []

    @app.command()
    @takes(paint=FromSettings(Paint))
    def paint_it(coats: Annotated[str, typer.Option(help="Of arms.")] = "none", *, paint: Paint) -> None:
        """Paint."""
        got.append((coats, paint.coats))

    assert CliRunner().invoke(app, ["--coats", "two lions"]).exit_code == 0
    assert got == [("two lions", 2)]
