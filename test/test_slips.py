"""Whatever is misspelt: the error names it, and the nearest that there is."""

from __future__ import annotations

import copy
import enum
import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import yaml
from command_line import Cli
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from reactree_doors.trees.xml_in import routine_of_xml
from reactree_lab.bench.jobs import read_contenders
from reactree_lab.household.generator import generate_house
from reactree_lab.training.settings import TrainSettings, read_recipe
from reactree_ros.cli import every_command
from reactree_ros.cli.options import kinds
from reactree_ros.errors import UserError
from reactree_ros.household.tasks import Task, load_tasks
from reactree_ros.llm.spec import load_models_file
from reactree_ros.plugins.settings import Settings, choices, names_at, read_settings
from reactree_ros.robot.config import RobotConfig, load_robot
from reactree_ros.robot.map_file import MapDocument, load_map
from reactree_ros.world.skill_policy import load_policy
from reactree_ros.world.tool_servers import check_programs, load_servers

CONFIG = Path(__file__).parents[1] / "config"


def misspelt(name: str) -> str:
    swapped = name[:-2] + name[:-3:-1]
    return swapped if swapped != name and len(name) > 2 else name + name[-1]


# ---------------------------------------------------------------------- keys


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid")

    width: int
    colour: Literal["red", "green"] = "red"


class Round(BaseModel):
    model_config = ConfigDict(extra="forbid")

    radius: int


class Whole(Settings):
    part: Part | None = None
    parts: list[Part] = Field(default_factory=list)
    by_name: dict[str, Annotated[Part, AfterValidator(lambda part: part)]] = Field(default_factory=dict)
    either: Part | Round | None = None
    pairs: tuple[tuple[Part, ...], ...] = ()
    title: str = Field(alias="title_")


@pytest.mark.parametrize(
    ("values", "unknown", "known"),
    [
        ({"titel_": "x"}, "titel_", "title_"),
        ({"title_": "x", "prt": {}}, "prt", "part"),
        ({"title_": "x", "PARTS": []}, "PARTS", "parts"),
        ({"part": {"widht": 1}}, "part.widht", "width"),
        ({"title_": "x", "parts": [{"width": 1}, {"width": 1, "color": "red"}]}, "parts.1.color", "colour"),
        ({"title_": "x", "by_name": {"a": {"with": 1}}}, "by_name.a.with", "width"),
        ({"title_": "x", "pairs": [[{"widt": 1}]]}, "pairs.0.0.widt", "width"),
    ],
)
def test_a_key_that_is_not_known_is_told_before_what_is_missing(values: Any, unknown: str, known: str) -> None:
    with pytest.raises(UserError) as error:
        read_settings(Whole, values, where="here")
    assert str(error.value).startswith(f"here: there is no setting '{unknown}'; did you mean '{known}'?")


def test_of_parts_that_may_stand_in_one_place_the_one_that_is_meant_is_told() -> None:
    with pytest.raises(UserError, match="radus'; did you mean 'radius'"):
        read_settings(Whole, {"title_": "x", "either": {"radus": 1}}, where="here")


def test_the_value_of_a_key_that_is_not_known_is_not_shown() -> None:
    with pytest.raises(UserError) as error:
        read_settings(Whole, {"title_": "x", "api_key": "sk-secret"}, where="here")
    assert "sk-secret" not in str(error.value)


def slips(kind: Any, document: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str, str, Any]]:
    here = document
    for one in path:
        here = here[one]
    for name in list(here) if isinstance(here, Mapping) else range(len(here)) if isinstance(here, list) else ():
        if isinstance(here, Mapping) and name in names_at(kind, path):
            wrong = copy.deepcopy(document)
            place = wrong
            for one in path:
                place = place[one]
            place[misspelt(name)] = place.pop(name)
            yield misspelt(name), name, wrong
        yield from slips(kind, document, (*path, name))


#: Files that people write: what reads them, what they are, and one that is right.
FILES: dict[str, tuple[Callable[[Path], object], Any, Any]] = {
    "robot": (load_robot, RobotConfig, yaml.safe_load((CONFIG / "robot.yaml").read_text(encoding="utf-8"))),
    "map": (load_map, MapDocument, yaml.safe_load((CONFIG / "semantic_map.yaml").read_text(encoding="utf-8"))),
    "recipe": (lambda path: read_recipe(path, {}), TrainSettings, {"preset": "small", "learning_rate": 0.1}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_a_misspelt_key_of_a_file_is_told_with_the_nearest(name: str, tmp_path: Path) -> None:
    load, kind, right = FILES[name]
    found = list(slips(kind, right))
    assert found
    for wrong, meant, document in found:
        path = tmp_path / "file.yaml"
        path.write_text(yaml.safe_dump(document), encoding="utf-8")
        with pytest.raises(UserError) as error:
            load(path)
        assert f"{wrong}'; did you mean '{meant}'?" in str(error.value), str(error.value)
        assert str(path) in str(error.value)


@pytest.mark.parametrize(
    ("load", "text", "wrong", "meant"),
    [
        (load_policy, "rules: [{skil: open, decision: allow}]", "skil", "skill"),
        (load_policy, "ruls: [{skill: open, decision: allow}]", "ruls", "rules"),
        (load_models_file, "lm: openai\nbase_url: http://127.0.0.1:9/v1", "lm", "llm"),
        (load_models_file, "llm: openai\nbase_ulr: http://127.0.0.1:9/v1", "base_ulr", "base_url"),
        (load_models_file, "llm: fallback\nmodels: [{llm: openai, modl: x}]", "modl", "model"),
        (read_contenders, "one: {planer: react}", "planer", "planner"),
        (load_robot, "map: m\nemergency_stop: null\nskills: {go too: {action: a, type: b}}", "go too", "go to"),
    ],
)
def test_a_slip_in_a_file_is_told_with_the_nearest(
    load: Callable[[Path], object], text: str, wrong: str, meant: str, tmp_path: Path
) -> None:
    path = tmp_path / "file.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UserError) as error:
        load(path)
    assert wrong in str(error.value)
    assert f"did you mean '{meant}'" in str(error.value)


def test_a_misspelt_key_of_a_house_is_told_with_the_nearest(tmp_path: Path) -> None:
    house: Any = generate_house(seed=1, rooms=3, tasks=1)
    path = tmp_path / "house.json"
    required = {name for name, field in Task.model_fields.items() if field.is_required()}
    assert required
    for name in required:
        wrong = [{misspelt(key) if key == name else key: value for key, value in house[0].items()}]
        path.write_text(json.dumps(wrong), encoding="utf-8")
        with pytest.raises(UserError, match=f"{misspelt(name)}'; did you mean '{name}'"):
            load_tasks(path)


# ---------------------------------------------------------------------- names


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, one in kinds().items() for name in one.own])
def test_a_misspelt_name_is_told_with_the_nearest(kind: str, name: str) -> None:
    registry = kinds()[kind]
    with pytest.raises(UserError, match=f"'{misspelt(name)}' is unknown; did you mean '{name}'"):
        registry.get(misspelt(name))
    settings = registry.get(name).settings
    for field, about in settings.model_fields.items():
        wrong = misspelt(field)
        with pytest.raises(UserError, match=f"there is no setting '{wrong}'; did you mean '{field[:-2]}"):
            read_settings(settings, {wrong: 1}, where="here")
        for value in choices(about):
            if misspelt(value) in choices(about) or not isinstance(value, str):
                continue
            with pytest.raises(UserError) as error:
                read_settings(settings, {field: misspelt(value)}, where="here")
            assert f"did you mean '{value}'" in str(error.value)


def options_of_few() -> Iterator[tuple[tuple[str, ...], str, list[str]]]:
    for path, command in every_command():
        for one in command.params:
            kind = one.type_descriptor.annotation if hasattr(one, "type_descriptor") else one.type
            if isinstance(kind, enum.EnumMeta):
                values = [str(value.value) for value in kind]  # type: ignore[var-annotated]
                yield path, one.opts[0] if one.param_type_name == "option" else "", values


def test_a_misspelt_value_of_any_option_is_told_with_the_nearest(cli: Cli) -> None:
    tried = set()
    for command, option, values in options_of_few():
        ended = cli(*command, *([option] if option else []), misspelt(values[-1]))
        assert (ended.code, ended.out) == (2, ""), (command, option)
        assert f"did you mean '{values[-1]}'?" in ended.err, (command, option)
        tried.add(option)
    assert tried >= {"--as", "--routines"}


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["rnu"], "'run'"), (["run", "--option", "parallel=concurent"], "'concurrent'"),
        (["memory", "imprt"], "'import'"), (["run", "--huse", "villa"], "--house"),
        (["run", "--house", "vila"], "'villa'"), (["run", "--task-id", "99"], "the nearest is 1"),
        (["run", "--planner", "reactree:control_flw=seq"], "'control_flow'"),
        (["run", "--planner", "raect"], "'react'"), (["run", "--world", "pdll"], "'pddl'"),
        (["run", "--world", "pddl", "--world-option", "domian=x"], "'domain'"),
        (["run", "--llm", "opnai"], "'openai'"),
        (["lab", "bench", "--suite", "genrated", "--out", "x"], "'generated'"),
        (["lab", "recordings", "x", "--variant", "raect", "--tasks", "x"], "'react'"),
    ],
)  # fmt: skip
def test_what_is_misspelt_on_the_command_line_is_told_with_the_nearest(
    cli: Cli, arguments: list[str], meant: str
) -> None:
    ended = cli(*arguments)
    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert meant in ended.err


# ---------------------------------------------------------------------- names of what other files have

OFFICE = CONFIG / "robots/office.yaml"


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        (("battery", "charge", "skill"), "dokc", "'dokc' is not a skill; one starts with "),
        (("battery", "charge", "skill"), "navigate to printr", "'printr' is not a place here; did you mean 'printer'?"),
        (("skills", "wipe", "parameters", "place"), {"place": ["printr"]}, "not a place here; did you mean 'printer'?"),
        (
            ("skills", "hand over", "parameters", "person"),
            {"person": ["Ana"]},
            "not a person here; did you mean 'Anna'?",
        ),
        (("skills", "dock", "wording"), "take a picture", "'take a picture' may be skill 'dock', too"),
        (("skills", "press floor", "parameters", "floor"), {"number": {"from": 6, "to": 1}}, "are not numbers"),
        (("conditions", "paper", "holds"), {"above": 3, "below": 3}, "no number is above 3 and below 3"),
        (("triggers", "refill", "when"), "no papr", "did you mean 'no paper'?"),
        (
            ("mcp",),
            {"directory": {"command": str(CONFIG / "robots/offce.yaml"), "tools": ["a"]}},
            "did you mean 'office.",
        ),
    ],
)
def test_a_name_in_a_robots_file_that_means_nothing_is_told_with_its_line(
    place: tuple[str, ...], value: Any, said: str, tmp_path: Path
) -> None:
    document = yaml.safe_load(OFFICE.read_text(encoding="utf-8")) | {"map": str(OFFICE.parent / "office_map.yaml")}
    part = document
    for one in place[:-1]:
        part = part[one]
    assert place[-1] in part or place == ("mcp",)
    part[place[-1]] = value
    path = tmp_path / "robot.yaml"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")

    def load() -> None:
        robot = load_robot(path)
        check_programs(robot.mcp, partial(robot.at, str(path)))
        robot.check_fits(load_map(robot.map), str(path))

    with pytest.raises(UserError) as error:
        load()
    assert re.match(rf"{re.escape(str(path))}:\d+: {place[0]}", str(error.value)), str(error.value)
    assert said in str(error.value)


NODE = '<root BTCPP_format="4"><BehaviorTree ID="t" _goal="do it">\n{}</BehaviorTree></root>'


@pytest.mark.parametrize(
    ("node", "said"),
    [
        ('<navigat place="printer"/>', "'navigat' is not a node and no skill here; did you mean 'navigate'?"),
        ('<navigate plce="printer"/>', "there is no port 'plce'; did you mean 'place'?"),
        ('<navigate place="printr"/>', "place: 'printr' is not a place here; did you mean 'printer'?"),
        ('<Skill wording="navigate to printr"/>', "place: 'printr' is not a place here; did you mean 'printer'?"),
        ('<Skill wording="wipe printer"/>', "'wipe printer' is not said as 'wipe {place} for {seconds} s'"),
        ('<hand_over thing="jug 1" person="Ana"/>', "person: 'Ana' is not a person here; did you mean 'Anna'?"),
        ('<Search of="stapeler" finds="{{it}}"/>', "of: 'stapeler' is not a thing here; did you mean 'stapler'?"),
        (
            '<Search of="stapler" finds="{{it}}" order="desc"/>',
            "order: 'desc' is not a thing here; did you mean 'desk'?",
        ),
        ('<Holds condition="the printer has papers"/>', "'the printer has papers' may not stand here; what may: the"),
    ],
)
def test_a_name_in_a_tree_that_means_nothing_is_told_with_its_line(node: str, said: str) -> None:
    robot = load_robot(OFFICE)
    with pytest.raises(UserError) as error:
        routine_of_xml(
            NODE.format(node), (*robot.declared, *robot.waits), where="t.xml", names=load_map(robot.map).names
        )
    assert str(error.value).startswith("t.xml:2: ")
    assert said in str(error.value)


#: What reads each file of YAML that a person writes.
READERS = (load_robot, load_map, load_policy, load_models_file, load_servers, read_contenders)


@pytest.mark.parametrize("load", [*READERS, lambda path: read_recipe(path, {})])
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", r"(: the document)?: (there is nothing|holds no settings|names none); "),
        ("a:\n\tb: 1", r":2: is not YAML: a tab stands before the words; indent with blanks"),
        ("a: {b: 1,\n  b: 2}", r":2: 'b' is there 2 times; leave one"),
    ],
)
def test_a_file_that_says_nothing_or_says_it_twice_is_told_with_a_remedy(
    load: Callable[[Path], object], text: str, said: str, tmp_path: Path
) -> None:
    path = tmp_path / "file.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UserError) as error:
        load(path)
    assert re.search(rf"{re.escape(str(path))}{said}", str(error.value)), str(error.value)
