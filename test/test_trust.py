"""Which settings are harmless by type or declaration, and which may start, open, load or send something."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from reactree_lab.bench.spec import SUITES
from reactree_ros.cli.options import kinds
from reactree_ros.llm.spec import reaching_of_model
from reactree_ros.plugins import Spec
from reactree_ros.plugins.settings import Harmless, Settings, is_harmless, plain, reaching
from reactree_ros.world.spec import WORLDS

#: What a hostile file may say anywhere.
HOSTILE: tuple[Any, ...] = (
    "/bin/sh",
    "./start.sh",
    "../houses",
    "~/.ssh/id_rsa",
    "file:///etc/passwd",
    "http://evil.example/v1",
    "evil.example:80",
    "os:system",
    "https://me:secret@host/v1?key=abc",
    "{__class__}",
    "$(touch x)",
    "\x1b]0;x\x07",
    {"trust_remote_code": True},
    {"model": "/tmp/model"},
    [{"executable": "/bin/sh"}],
    ["/bin/sh"],
)
#: Texts that go into a prompt, or to a server that the user named, and nowhere else.
_ONLY_SAID = {("jericho", "instruction"), ("openai", "model")}
SPECS = [spec for registry in kinds().values() for spec in registry]


def texts(spec: Spec) -> list[str]:
    return [
        name
        for name, field in spec.settings.model_fields.items()
        if not is_harmless(field.annotation, None, [])  # by its type alone
    ]


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: f"{type(spec).__name__} {spec.name}")
def test_nothing_that_a_stranger_may_write_into_a_text_setting_is_harmless(spec: Spec) -> None:
    for name in texts(spec):
        for value in HOSTILE:
            if (spec.name, name) not in _ONLY_SAID:
                assert reaching(spec.settings, {name: value}) == {name: value}


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: f"{type(spec).__name__} {spec.name}")
def test_what_a_setting_is_without_being_set_is_harmless(spec: Spec) -> None:
    fields = spec.settings.model_fields
    defaults = {name: field.get_default(call_default_factory=True) for name, field in fields.items()}
    assert reaching(spec.settings, defaults) == {}


def test_what_runs_name_every_day_is_harmless() -> None:
    for kind, said in {
        ("worlds", "virtualhome"): {"house": "villa", "task_id": 3, "robots": 2},
        ("worlds", "pddl"): {"domain": "gripper", "problems": 4},
        ("worlds", "pyrobosim"): {"house": "12", "robot": "robot0"},
        ("worlds", "scienceworld"): {"task": "grow-fruit", "simplifications": "easy,openDoors"},
        ("worlds", "ai2thor"): {"scene": "FloorPlan10", "headless": True},
        ("suites", "generated"): {"houses": 2, "without": "pudding,prepare_snack"},
    }.items():
        registry: Any = WORLDS if kind[0] == "worlds" else SUITES
        assert reaching(registry.get(kind[1]).settings, said) == {}


def test_a_models_name_is_harmless_for_a_server_only() -> None:
    said = {"model": "Qwen/Qwen3-8B"}
    assert reaching_of_model({"llm": "openai", **said}) == {}
    for name in ("vllm", "transformers", "small"):
        assert reaching_of_model({"llm": name, **said}) == {"model": "Qwen/Qwen3-8B"}


def test_only_the_servers_url_of_the_environment_is_harmless(monkeypatch: pytest.MonkeyPatch) -> None:
    said = {"llm": "openai", "base_url": "http://gpu:8000/v1"}
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    assert list(reaching_of_model(said)) == ["base_url"]
    monkeypatch.setenv("OPENAI_BASE_URL", "http://gpu:8000/v1")
    assert reaching_of_model(said) == {}
    assert list(reaching_of_model(said | {"base_url": "http://gpu:8001/v1"})) == ["base_url"]


@pytest.mark.parametrize(
    "models",
    [
        [{"llm": "openai", "base_url": "http://evil/v1"}],
        [{"llm": "expert"}, {"llm": "openai", "api_key_file": "/etc/shadow"}],
        [{"llm": "transformers", "model": "./model"}],
        [{"llm": "transformers", "engine_args": {"trust_remote_code": True}}],
        [{"llm": "fallback", "models": [{"llm": "openai", "base_url": "http://evil/v1"}]}],
        [["llm", "openai"]],
        "[{llm: openai, base_url: http://evil/v1}]",
        {"llm": "openai"},
    ],
)
def test_a_model_within_models_is_looked_at_as_one_alone(models: Any) -> None:
    assert list(reaching_of_model({"llm": "fallback", "models": models})) == ["models"]


@pytest.mark.parametrize(
    ("arguments", "harmless"),
    [
        ({"top_k": 20, "provider": {"sort": "price"}}, True),
        ({"max_num_seqs": 64, "dtype": "bfloat16"}, True),
        ({"custom": True}, True),
        ({"trust_remote_code": True}, False),
        ({"top_k": 20, "chat_template": "{{ x }}"}, False),
        ({"load_format": "dummy"}, False),
        ({"dtype": "/tmp/x"}, False),
        ({"dtype": "folder/model"}, False),
        ({"attn_implementation": "stranger/kernels"}, False),
        ({"device": "cuda:0"}, True),
        ({"quantization": ".."}, False),
        ({"provider": {"only": ["logs-all"]}}, False),
        ({"top_k": {"top_k": 1}}, False),
        ({"provider": {"key": "abc"}}, False),
        ({"speculative_config": {"model": "./m"}}, False),
    ],
)
def test_arguments_are_harmless_by_a_list_of_names(arguments: dict[str, Any], harmless: bool) -> None:
    said = {"llm": "transformers", "engine_args": arguments}
    assert ("engine_args" not in reaching_of_model(said)) is harmless


class _Colour(enum.Enum):
    RED = "red"


class _Strangers(Settings):
    """Settings of a plug-in that declares nothing, or little."""

    number: int = 3
    colour: _Colour | None = None
    size: Literal["s", "m"] = "s"
    sizes: tuple[float, ...] = ()
    either: int | str = 0
    rules: str = ""
    folder: Path | None = None
    names: list[str] = Field(default_factory=list)
    told: dict[str, int] = Field(default_factory=dict)
    anything: Any = None
    words: tuple[Annotated[str, Harmless()], ...] = ()
    greeting: Annotated[str, Harmless(plain)] = "hello"
    where: Annotated[str | None, Harmless({"here"}.__contains__)] = None


def test_settings_of_a_plug_in_are_reaching_unless_their_type_or_declaration_says_otherwise() -> None:
    harmless = {
        "number": "7",
        "colour": "red",
        "size": "m",
        "sizes": [1.0],
        "words": ["a/b"],
        "greeting": "good day",
        "where": "here",
    }
    other: dict[str, Any] = {
        "either": 7,
        "rules": "r.yaml",
        "folder": "f",
        "names": ["n"],
        "told": {"a": 1},
        "anything": 1,
        "unknown": 1,
    }
    assert reaching(_Strangers, harmless | other) == other
    again = {"greeting": "/bin/sh", "where": "there"}
    assert reaching(_Strangers, again) == again
    assert reaching(_Strangers, {"where": ["here"], "greeting": {}}) == {"where": ["here"], "greeting": {}}
