"""Language models by name: their settings, what is refused and how it is said."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
from openai_peer import Peer, fails

from reactree_ros.agent.grammar import DecisionGrammar
from reactree_ros.agent.turns import Saw, Told
from reactree_ros.errors import UserError
from reactree_ros.llm.engine_settings import EngineSettings
from reactree_ros.llm.fallback import FallbackModel, FallbackSettings
from reactree_ros.llm.openai.engine import OpenAISettings
from reactree_ros.llm.port import DecisionRequest, LanguageModel
from reactree_ros.llm.spec import (
    MODELS,
    as_trained,
    load_models_file,
    make_model,
    model_from_dict,
    model_settings,
    model_to_dict,
    strange,
)
from reactree_ros.llm.vllm_engine import VllmSettings
from reactree_ros.plugins.installation import install_line

PATIENCE = 20.0
SECRET = "sk-hush-4711"
TASK = (Told("Your task is to: Sing a song"), Saw("You are in the house, and there are 1 rooms: kitchen (1)."))
URL = "http://127.0.0.1:9/v1"


def written(folder: Path, text: str | bytes) -> Path:
    path = folder / "models.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def made(name: str, **values: Any) -> LanguageModel:
    return make_model(*model_settings(name, values, where="the test"))


def test_texts_of_a_command_line_are_read_as_what_they_stand_for() -> None:
    texts = {"dialect": "tgi", "chat": "false", "method": "auto", "request_timeout": "5", "retries": "0"}
    assert model_settings("openai", texts, where="options")[1] == OpenAISettings(
        dialect="tgi", chat=False, request_timeout=5.0, retries=0
    )
    nothing = {"chat": "", "method": "", "model": ""}
    assert model_settings("openai", nothing, where="options")[1] == OpenAISettings()
    _, settings = model_settings(
        "vllm", {"engine_args": "{max_num_seqs: 64}", "max_model_len": "4096"}, where="options"
    )
    assert settings == VllmSettings(engine_args={"max_num_seqs": 64}, max_model_len=4096)
    _, settings = model_settings("fallback", {"models": "[{llm: openai}, {llm: expert}]"}, where="options")
    assert settings == FallbackSettings(models=({"llm": "openai"}, {"llm": "expert"}))


@pytest.mark.parametrize("name", [one.name for one in MODELS if issubclass(one.settings, EngineSettings)])
def test_every_engine_gets_how_examples_stand_in_a_chat(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    engines: list[Any] = []
    monkeypatch.setenv("OPENAI_BASE_URL", URL)
    monkeypatch.setattr(EngineSettings, "queue", lambda self, engine: engines.append(engine))
    for said, examples in (("text", "text"), ("turns", "turns"), ("auto", None), ("", None)):
        MODELS.get(name).make(model_settings(name, {"model": "a/b", "examples": said}, where="the test")[1])
        assert engines.pop()._examples == examples
    with pytest.raises(UserError, match="examples"):
        made(name, model="a/b", examples="both")


def test_what_is_not_set_is_left_to_vllm() -> None:
    assert VllmSettings().options == {}
    more = VllmSettings(dtype="bfloat16", gpu_memory_utilization=0.5, engine_args={"dtype": "half"})
    assert more.options == {"dtype": "half", "gpu_memory_utilization": 0.5}


BAD: dict[str, tuple[str | bytes, str]] = {
    "unknown model": ("llm: gpt", "language model 'gpt' is unknown; use one of expert, openai, vllm"),
    "nearly a model": ("llm: open_ai", "language model 'open_ai' is unknown; did you mean 'openai'?"),
    "no name": ("llm: [vllm]", "llm is \"['vllm']\": did you mean 'vllm'?"),
    "unknown setting": (
        "llm: openai\ntemperature: 1",
        "there is no setting 'temperature'; use one of request_timeout, max_concurrent, model, chat",
    ),
    "nearly a setting": ("llm: openai\nbase-url: x", "there is no setting 'base-url'; did you mean 'base_url'?"),
    "of another model": ("llm: openai\nengine_args: {}", "there is no setting 'engine_args'; use one of"),
    "of a model with none but one": ("model: a/b", "there is no setting 'model'; use one of llm"),
    "a number for a name": ("llm: openai\n7: 8", "there is no setting '7'"),
    "a key": (f"llm: openai\napi_key: {SECRET}", "there is no setting 'api_key'; did you mean 'api_key_file'?"),
    "a key further in": (
        f"llm: fallback\nmodels: [{{llm: openai, api_key: {SECRET}}}]",
        "models.0: there is no setting 'api_key'; did you mean 'api_key_file'?",
    ),
    "a key in a URL": (
        f"llm: openai\nbase_url: http://a:{SECRET}@b/v1",
        "base_url: must hold no user, password or query",
    ),
    "a key and no list": (f"llm: fallback\nmodels: {{api_key: {SECRET}}}", "models must be a list"),
    "a key of an engine": (
        f"llm: vllm\nengine_args: {{hf_token: {SECRET}}}",
        "engine_args must not hold a key (hf_token); set HF_TOKEN, or OPENAI_API_KEY for a server, in the environment",
    ),
    "a key among what a server is told": (
        f"llm: openai\nextra_body: {{api_key: {SECRET}}}",
        "extra_body must not hold a key (api_key); set HF_TOKEN, or OPENAI_API_KEY for a server, in the environment",
    ),
    "a key far in what a server is told": (
        f"llm: openai\nextra_body: {{extra_headers: [{{X-Api-Key: {SECRET}}}]}}",
        "extra_body must not hold a key (X-Api-Key); set HF_TOKEN",
    ),
    "a key among what a template is told": (
        f"llm: vllm\nchat_template_kwargs: {{token: {SECRET}}}",
        "chat_template_kwargs must not hold a key (token); set HF_TOKEN",
    ),
    "no mapping for the template": ("llm: vllm\nchat_template_kwargs: 7", "chat_template_kwargs must be like {custom"),
    "thinking": ("llm: vllm\nthinking: perhaps", "thinking is 'perhaps': input should be a valid boolean"),
    "tokens to think": ("llm: vllm\nreasoning_tokens: -1", "reasoning_tokens is '-1': input should be greater than"),
    "a key in what is not YAML": (
        f"llm: vllm\nengine_args: '[hf_token: {SECRET}, }}'",
        "while parsing a flow node: expected the node content, but found '}' (line 1)",
    ),
    "no time": ("llm: openai\nrequest_timeout: 0", "request_timeout is '0': input should be greater than 0"),
    "time in words": (
        "llm: openai\nrequest_timeout: soon",
        "request_timeout is 'soon': input should be a valid",
    ),
    "retries": ("llm: openai\nretries: -1", "retries is '-1': input should be greater than or equal to 0"),
    "many retries": ("llm: openai\nretries: 101", "retries is '101': input should be less than or equal to 100"),
    "none at once": ("llm: vllm\nmax_concurrent: 0", "max_concurrent is '0': input should be greater than or equal to"),
    "method": (
        "llm: vllm\nmethod: magic",
        "method is 'magic': use one of one_request, one_schema, tools",
    ),
    "dialect": ("llm: openai\ndialect: vlllm", "dialect is 'vlllm': did you mean 'vllm'?"),
    "no mapping": ("llm: vllm\nengine_args: [64]", "engine_args must be like {max_num_seqs: 64}"),
    "no list": ("llm: fallback\nmodels: 7", "models must be a list, one language model an entry"),
    "further in": (
        "llm: fallback\nmodels: [{llm: vllm}, {llm: openai, retries: x}]",
        "models.1: retries is 'x': input should be",
    ),
    "fallback in fallback": (
        "llm: fallback\nmodels: [{llm: fallback, models: [{llm: expert}]}]",
        "a fallback cannot stand in a fallback; list the models themselves",
    ),
    "many values": (f"llm: fallback\nmodels: {list(range(1000))}", "models.0: holds no settings"),
    "a list": ("- llm: openai", "holds no settings; they look like 'llm: openai', one a line"),
    "a key's file": (SECRET, "holds no settings; they look like 'llm: openai', one a line"),
    "no YAML": ("llm: [", "while parsing"),
    "no YAML after a key": (f"api_key: {SECRET}: [", "1: is not YAML: mapping values are not allowed here"),
    "no text": (b"\xff\xfe\xff", "models.yaml: "),
}


@pytest.mark.parametrize(("text", "message"), BAD.values(), ids=BAD)
def test_a_wrong_file_is_refused_in_one_line_that_names_it(tmp_path: Path, text: str | bytes, message: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(UserError) as refused:
        load_models_file(path)
    assert str(refused.value).startswith(f"{path}:")
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 500 + len(str(path))
    assert SECRET not in str(refused.value)


def test_options_are_checked_as_files_are() -> None:
    with pytest.raises(UserError, match=r"^options: language model 'gpt' is unknown"):
        model_settings("gpt", {}, where="options")


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("expert", {}),
        ("openai", {"base_url": URL, "dialect": "vllm", "method": "rounds", "api_key_file": "~/key"}),
        ("vllm", {"model": "a/b", "engine_args": {"max_num_seqs": 64}, "max_model_len": 4096}),
        ("fallback", {"models": [{"llm": "openai", "request_timeout": 5}, {"llm": "expert"}]}),
    ],
)
def test_settings_can_be_written_as_json_and_read_back(name: str, values: dict[str, Any]) -> None:
    spec, settings = model_settings(name, values, where="the test")
    text = json.dumps(model_to_dict(spec, settings))
    assert json.loads(text) == {"llm": name, **values}
    assert model_from_dict(json.loads(text), where="the file") == (spec, settings)


@pytest.mark.parametrize("llm", ["vllm", "transformers"])
def test_a_local_engine_needs_a_model(monkeypatch: pytest.MonkeyPatch, llm: str) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, package=None: object())
    with pytest.raises(UserError, match=f"llm is '{llm}', but no model is named; name a Hugging Face model or a fold"):
        made(llm)


def test_a_fallback_needs_models() -> None:
    with pytest.raises(UserError, match="llm is 'fallback', but models is empty"):
        made("fallback")


@pytest.mark.parametrize("llm", ["openai", "vllm", "transformers"])
@pytest.mark.parametrize("inside", [False, True])
def test_without_its_extra_the_way_out_is_named(monkeypatch: pytest.MonkeyPatch, llm: str, inside: bool) -> None:
    find_spec = importlib.util.find_spec
    missing = ("openai", "vllm", "transformers", "torch", "llguidance")
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, package=None: None if name.partition(".")[0] in missing else find_spec(name, package),
    )
    with pytest.raises(UserError) as refused:
        made("fallback", models=[{"llm": llm, "model": "x"}]) if inside else made(llm, model="some/model")
    extra = f"reactree_local[{llm}]" if llm == "transformers" else f"reactree_ros[{llm}]"
    assert str(refused.value).endswith(f": {install_line(extra)}")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("name", MODELS.names)
def test_every_setting_is_described_and_every_flag_is_a_setting(name: str) -> None:
    spec = MODELS.get(name)
    assert spec.name == name
    assert spec.summary
    assert all(field.description for field in spec.settings.model_fields.values())
    assert set(spec.flags) <= set(spec.settings.model_fields)


def test_a_fallback_asks_its_models_in_order_and_says_who_answered() -> None:
    with Peer(say=lambda prompt: "Act: done") as peer:
        server = {"llm": "openai", "model": "tiny", "base_url": peer.base_url, "dialect": "vllm", "retries": 0}
        model = made("fallback", models=[server, {"llm": "expert"}])
        assert isinstance(model, FallbackModel)
        request = DecisionRequest(TASK, DecisionGrammar(["done", "failure"]))
        try:
            model.ready().result(PATIENCE)
            assert model.decide(request).result(PATIENCE).answered_by == "openai tiny"
            peer.script.append(fails(500))
            assert model.decide(request).result(PATIENCE).answered_by == "expert"
            status = model.status()
            assert status["openai tiny"] == "1 answers, rests after a failure"
            assert status["openai tiny: method"] == "one_request"
        finally:
            model.close()


def test_each_of_several_models_keeps_its_own_time_limit() -> None:
    servers = [{"llm": "openai", "base_url": URL}, {"llm": "openai", "base_url": URL, "request_timeout": 5}]
    model = made("fallback", models=[*servers, {"llm": "expert"}])
    assert isinstance(model, FallbackModel)
    try:
        assert [backup.time_limit for backup in model.backups] == [120.0, 5.0, 120.0]
    finally:
        model.close()


# ---------------------------------------------------------------------- what a model was trained for

TRAINED = ("reactree_wm:system_text=false", "react:system_text=false", "react:fixed_example=false")


@pytest.mark.parametrize(
    ("named", "taken"),
    [
        ("reactree_wm", "reactree_wm:system_text=false"),
        ("reactree_wm:control_flow=seq", "reactree_wm:control_flow=seq"),
        ("reactree", "reactree"),
        ("react", "react"),  # which of the two nobody can know
        ("", "reactree_wm:system_text=false"),
    ],
)
def test_a_planner_without_options_has_those_that_the_model_was_trained_with(named: str, taken: str) -> None:
    assert as_trained(named, TRAINED) == taken
    assert bool(strange(taken, TRAINED)) != (taken in TRAINED)


@pytest.mark.parametrize(
    ("planner", "is_strange"),
    [
        ("reactree_wm:system_text=false:break_rounds=true", False),  # the prompts are the same
        ("reactree_wm:break_rounds=true:system_text=false", False),
        ("reactree_wm:break_rounds=true", True),
        ("reactree_wm:system_text=false:questions=1", True),
        ("hiagent:system_text=false", True),
    ],
)
def test_a_planner_is_strange_whose_prompts_the_model_was_not_trained_with(planner: str, is_strange: bool) -> None:
    assert bool(strange(planner, TRAINED)) == is_strange


def test_a_model_that_is_for_any_planner_leaves_each_as_it_is() -> None:
    assert (as_trained("reactree_wm", ()), as_trained("", ())) == ("reactree_wm", "")
