"""Language models by name: their settings, what is refused and how it is said."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
from openai_peer import Peer, fails

from reactree_ros.agent.grammar import DecisionGrammar
from reactree_ros.errors import UserError
from reactree_ros.llm.engine import ConstraintKind
from reactree_ros.llm.expert_model import ExpertModel
from reactree_ros.llm.fallback import FallbackModel
from reactree_ros.llm.models import NAMES, ModelSettings, load_settings, make_model, settings_of
from reactree_ros.llm.port import DecisionRequest
from reactree_ros.llm.saying import Method

PATIENCE = 20.0
SECRET = "sk-hush-4711"
PROMPT = "Your task is to: Sing a song\nYou are in the house, and there are 1 rooms: kitchen (1).\n"


def written(folder: Path, text: str | bytes) -> Path:
    path = folder / "models.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_settings_are_read_from_yaml(tmp_path: Path) -> None:
    text = (
        "llm: openai\nmodel: a/b\nbase_url: http://127.0.0.1:9/v1\nchat: true\nmethod: rounds\n"
        "constraints: [choice, regex]\ntime_limit: 5\nretries: 0\nmax_concurrent: 2\n"
    )
    assert load_settings(written(tmp_path, text)) == ModelSettings(
        llm="openai",
        model="a/b",
        base_url="http://127.0.0.1:9/v1",
        chat=True,
        method=Method.ROUNDS,
        constraints=(ConstraintKind.CHOICE, ConstraintKind.REGEX),
        time_limit=5.0,
        retries=0,
        max_concurrent=2,
    )


def test_an_empty_file_is_the_expert(tmp_path: Path) -> None:
    assert isinstance(make_model(load_settings(written(tmp_path, "# nothing\n"))), ExpertModel)


BAD: dict[str, tuple[str | bytes, str]] = {
    "unknown model": ("llm: gpt", "llm is 'gpt': Input should be 'expert', 'openai', 'vllm'"),
    "unknown setting": ("llm: openai\ntemperature: 1", "there is no setting temperature; there are llm, model, base_"),
    "a key": (f"llm: openai\napi_key: {SECRET}", "there is no setting api_key; there are"),
    "a key further in": (f"llm: fallback\nmodels: [{{api_key: {SECRET}}}]", "there is no setting models.0.api_key"),
    "no time": ("time_limit: 0", "time_limit is 0: Input should be greater than 0"),
    "time in words": ("time_limit: soon", "time_limit is 'soon': Input should be a valid number"),
    "retries": ("retries: -1", "retries is -1: Input should be greater than or equal to 0"),
    "many retries": ("retries: 101", "retries is 101: Input should be less than or equal to 100"),
    "none at once": ("max_concurrent: 0", "max_concurrent is 0: Input should be greater than or equal to 1"),
    "method": ("method: magic", "method is 'magic': Input should be 'one_request', 'rounds' or 'unconstrained'"),
    "constraint": ("constraints: [regexp]", "constraints.0 is 'regexp': Input should be"),
    "no list": ("models: 7", "models is 7: Input should be a valid tuple"),
    "further in": ("llm: fallback\nmodels: [{llm: vllm}, {retries: x}]", "models.1.retries is 'x': Input should be"),
    "fallback in fallback": (
        "llm: fallback\nmodels: [{llm: fallback, models: [{llm: expert}]}]",
        "a fallback cannot stand in a fallback; list the models themselves",
    ),
    "a long value": (f"models: {list(range(1000))}", "models.0 is 0: Input should be a valid dictionary"),
    "a list": ("- llm: openai", "holds no settings; they look like 'llm: openai', one a line"),
    "a key's file": (SECRET, "holds no settings; they look like 'llm: openai', one a line"),
    "no YAML": ("llm: [", "while parsing"),
    "no text": (b"\xff\xfe\xff", "models.yaml: "),
}


@pytest.mark.parametrize(("text", "message"), BAD.values(), ids=BAD)
def test_a_wrong_file_is_refused_in_one_line_that_names_it(tmp_path: Path, text: str | bytes, message: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(UserError) as refused:
        load_settings(path)
    assert str(refused.value).startswith(f"{path}: ")
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 500 + len(str(path))
    assert SECRET not in str(refused.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"nothing\.yaml"):
        load_settings(tmp_path / "nothing.yaml")


def test_options_are_checked_as_files_are() -> None:
    with pytest.raises(UserError, match=r"^options: llm is 'gpt'"):
        settings_of({"llm": "gpt"}, where="options")


@pytest.mark.parametrize("llm", ["vllm", "transformers"])
def test_a_local_engine_needs_a_model(llm: Any) -> None:
    with pytest.raises(
        UserError, match=f"llm is '{llm}', but no model is named; name a Hugging Face model or a folder"
    ):
        make_model(ModelSettings(llm=llm))


def test_a_fallback_needs_models() -> None:
    with pytest.raises(UserError, match="llm is 'fallback', but models is empty"):
        make_model(ModelSettings(llm="fallback"))


@pytest.mark.parametrize(("llm", "extra"), [("openai", "openai"), ("vllm", "vllm"), ("transformers", "transformers")])
def test_without_its_extra_the_way_out_is_named(monkeypatch: pytest.MonkeyPatch, llm: Any, extra: str) -> None:
    find_spec = importlib.util.find_spec
    missing = ("openai", "vllm", "transformers", "torch", "llguidance")
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, package=None: None if name.partition(".")[0] in missing else find_spec(name, package),
    )
    settings = ModelSettings(llm=llm, model="some/model", base_url="http://127.0.0.1:9/v1")
    with pytest.raises(UserError) as refused:
        make_model(settings)
    assert f"pip install 'reactree_ros[{extra}]'" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_every_name_makes_a_model() -> None:
    assert set(NAMES) == set(ModelSettings.model_fields["llm"].annotation.__args__)  # type: ignore[union-attr]
    assert isinstance(make_model(ModelSettings()), ExpertModel)


def test_a_fallback_asks_its_models_in_order_and_says_who_answered() -> None:
    with Peer(say=lambda prompt: "Act: done") as peer:
        server = ModelSettings(
            llm="openai", model="tiny", base_url=peer.base_url, constraints=(ConstraintKind.GRAMMAR,), retries=0
        )
        model = make_model(ModelSettings(llm="fallback", models=(server, ModelSettings())))
        assert isinstance(model, FallbackModel)
        request = DecisionRequest(PROMPT, DecisionGrammar(["done", "failure"]))
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
