"""Keys are in nothing that is written or shown, whatever they are called and wherever they stand."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import Cli
from openai_peer import Peer, fails

from reactree_lab.bench.jobs import BenchSettings
from reactree_ros.files.secrecy import (
    harmless_arguments,
    is_key_name,
    redacted,
    shown,
    shown_address,
    without_credentials,
)
from reactree_ros.record.schema import error_to_dict
from reactree_ros.tree.failure import failure_of
from reactree_ros.world.port import WorldError

HUSH = "hush4711Qx9Lw2Zr"
NAMES = (
    "key", "Key", "x-goog-api-key", "X-Api-Key", "auth", "openai_key", "apitoken", "api_token", "access-token",
    "bearer", "Authorization", "Cookie", "password", "passwd", "pwd", "passphrase", "client_secret", "clientSecret",
    "credentials", "jwt", "hf_token", "subscription-key",
)  # fmt: skip
#: Names that say nothing of a key.
INNOCENT = ("user", "metadata", "headers", "x", "ocp", "sig", "id", "documents", "custom_field")
ADDRESSES = {
    "http://me:{}@host/v1": "http://host/v1",
    "https://{}@host:8443/v1": "https://host:8443/v1",
    "https://host/v1?key={}": "https://host/v1",
    "https://host/v1?x={}&y=1": "https://host/v1",
    "https://host/v1#{}": "https://host/v1",
    "https://host/{}/v1": "https://host/***/v1",
    "https://host/key/{}/v1": "https://host/key/***/v1",
    "https://host/key/hunter/v1": "https://host/key/***/v1",
    "https://host/sk-abcdefghijkl/v1": "https://host/***/v1",
    "https://host/my-secret-key/v1": "https://host/***/v1",
    "https://host/0123456789abcdef0123456789abcdef/gateway/openai": "https://host/***/gateway/openai",
    "https://h/openai/deployments/gpt-4o/v1": "https://h/openai/deployments/gpt-4o/v1",
    "https://host/compatible-mode/v1beta": "https://host/compatible-mode/v1beta",
    "http://127.0.0.1:8000/v1": "http://127.0.0.1:8000/v1",
    "http://[::1]:8000/v1": "http://[::1]:8000/v1",
}


@pytest.mark.parametrize("name", NAMES)
def test_a_key_is_known_by_any_of_its_names(name: str) -> None:
    assert is_key_name(name)


@pytest.mark.parametrize(
    "name", ["max_tokens", "reasoning_tokens", "tokenizer", "api_key_file", "keyboard", "author", "model", "pattern"]
)
def test_what_only_sounds_like_one_is_none(name: str) -> None:
    assert not is_key_name(name)


@pytest.mark.parametrize("name", [*NAMES, *INNOCENT])
@pytest.mark.parametrize("setting", ["extra_body", "chat_template_kwargs", "engine_args", "a_plug_ins_own"])
def test_what_a_server_is_told_is_written_by_a_list_of_names(name: str, setting: str) -> None:
    for value in (HUSH, [HUSH], {"deep": HUSH}, {"deep": [{"deeper": HUSH}]}, [{name: HUSH}]):
        llm = {"llm": "m", setting: {"top_k": 20, name: value, "provider": {"sort": "price", name: value}}}
        kept = {"llm": "m", setting: {"top_k": 20, "provider": {"sort": "price"}}}
        assert without_credentials({"world": {}, "llm": llm}) == {"world": {}, "llm": kept}
        within = {"llm": {"llm": "fallback", "models": [llm, llm]}}
        assert without_credentials(within) == {"llm": {"llm": "fallback", "models": [kept, kept]}}
        of_world = {"world": {"name": "w", "settings": {setting: {name: value}, name: HUSH, "size": 3}}}
        assert HUSH not in json.dumps(without_credentials(of_world)) or name in INNOCENT


@pytest.mark.parametrize("name", ["top_k", "min_p", "repetition_penalty", "seed", "max_tokens"])
def test_even_a_harmless_name_holds_no_long_text(name: str) -> None:
    assert harmless_arguments({name: 3}) == {name: 3}
    for value in ("sk-abcdefgh1234", "a text of words", {"a": HUSH}, [["x y"]], f"http://me:{HUSH}@host/"):
        assert harmless_arguments({name: value}) == {}


@pytest.mark.parametrize(("address", "left"), ADDRESSES.items())
def test_an_address_is_written_without_what_may_be_a_key(address: str, left: str) -> None:
    address = address.format(HUSH)
    assert shown_address(address) == left
    assert without_credentials({"llm": {"base_url": address}, "world": {"settings": {"server": address}}}) == {
        "llm": {"base_url": left},
        "world": {"settings": {"server": left}},
    }
    told = redacted(f"the server at {address}: gone ({address}).")
    assert HUSH not in told
    assert told.startswith("the server at http")
    assert redacted(told) == told, "a record that is read and written again says the same"


@pytest.mark.parametrize(
    "said",
    [
        "key={}", "?key={}&x=1", "auth: {}", "pwd={}", "Cookie: sid=1; session={}", "access_key={}", '"key": "{}"',
        "credential={}", '{{"Authorization": "Token {}"}}', "Proxy-Authorization: Basic {}", 'secret: "two {}"',
        "--api-key {}", "Bearer {}", "Basic {}==", "github_pat_11AB{}", "lsv2_pt_9{}aB1", "AQ.x9{}aB1",
        "no such user 9{}aB1", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NSJ9.{}", "socks5h://u:{}@proxy:1080",
        "file://u@h/x?key={}",
    ],
)  # fmt: skip
def test_a_text_tells_no_key_however_it_is_told(said: str) -> None:
    told = redacted(f"refused: {said.format(HUSH)}.")
    assert HUSH not in told
    assert told.startswith("refused: ")
    assert redacted(told) == told


@pytest.mark.parametrize(
    "said",
    [
        "duplicate key: 'house'",
        "$OPENAI_API_KEY: is empty",
        "api_key_file: /etc/key",
        "Qwen/Qwen3-30B-A3B-Instruct-2507 is gone",
        "DeepSeek-R1-Distill-Qwen-1.5B",
        "basic skills 12",
        "pass: 3 of 4, max_tokens: 5, author: me",
        "20261126T064234Z-ab12",
        "there is no tool 'skill'; did you mean 'skill_pick_up'?",
        "resume_key.jsonl: its settings would start a program",
        "my_key.yaml:1234: is not YAML: while scanning for the next token: found character '\\t'",
        "/home/anna/api_keys.yaml:3: password.yaml is not a mapping",
        "limits.skill_timeout, risk_assessment, task-force, pk_lookup_table, hf_hub_download, xai_grok, sk-learn",
        "vision_msgs/msg/BoundingBox2DArray has no field 'detections3d'",
        "the goal_token: place, next_key = place_2, authenticated=true, secretary: Anna",
        "basic manipulation3 with the bearer robot_nr_12",
        "password: is missing; export PGPASSWORD=PASSWORD, or api_key: $API_KEY",
        "send 'Authorization: Bearer TOKEN'",
        "KeyError: An argument is missing",
    ],
)
def test_what_is_no_key_is_told(said: str) -> None:
    assert redacted(said) == said


RANDOM = "4eC39HqLyjWDarjtT1zdp7dc"
#: Keys as their makers give them, and what the server or the person who names one says.
SECRETS = (
    *("sk-abcdefghijklmnop", f"sk-proj-{RANDOM}-{RANDOM[::-1]}_xY", f"sk-ant-api03-{RANDOM}", f"sk_live_{RANDOM}"),
    *(f"hf_{RANDOM}", "hf_QzXvBnMkLpOiUyTrEwQaSdFgHjKl", f"ghp_{RANDOM}", f"github_pat_11ABCDE_{RANDOM}"),
    *(f"glpat-{RANDOM}", f"gsk_{RANDOM}", f"xai-{RANDOM}", f"nvapi-{RANDOM}", f"r8_{RANDOM}", f"npm_{RANDOM}"),
    *("AKIAIOSFODNN7EXAMPLE", "AIzaSyD-9tSrke72PouQMnMX-a7eZSW0jkFMBWY", "xoxb-17653672481-19874698323-pdFZeeqpYNT"),
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
)
TOLD = (
    *("{}", "Incorrect API key provided: {}.", "401 for '{}'", '{{"api_key": "{}"}}', "--api-key {}", "?x=1&key={}"),
    *("Authorization: Bearer {}", "Bearer {}", "token={}", "my_hf_token: {}", "HF_TOKEN={} reactree run"),
)
NAMED = {
    "password=swordfish": "swordfish",
    "password: swordfish": "swordfish",
    "password: SWORDFISH": "SWORD",
    "api_key: 'my own words'": "own",
    "postgres://robot:swordfish@host/fleet": "swordfish",
    "PGPASSWORD=swordfish psql": "swordfish",
    "client_secret = swordfish": "swordfish",
    "Authorization: Basic dXNlcjpwYXNzd29yZA==": "dXNl",
    "Basic dXNlcjpwYXNzd29yZA==": "dXNl",
    "Cookie: sid=orchid; session=velvet": "velvet",
    "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEA\n-----END OPENSSH PRIVATE KEY-----": "b3Bl",
    "-----BEGIN PRIVATE KEY----- MIIEvQIBADANBgkqh": "MIIE",
}


@pytest.mark.parametrize("secret", SECRETS)
def test_what_has_the_form_of_a_key_is_hidden_wherever_it_stands(secret: str) -> None:
    for said in TOLD:
        assert secret[6:] not in redacted(said.format(secret)), said


@pytest.mark.parametrize(("said", "secret"), NAMED.items())
def test_what_follows_the_name_of_a_key_is_hidden(said: str, secret: str) -> None:
    told = redacted(f"refused: {said}")
    assert secret not in told
    assert told.startswith("refused: ")


def _own_words() -> Iterator[tuple[Path, str]]:
    root = Path(__file__).parents[2]
    for path in [*root.glob("docs/**/*.md"), *root.glob("config/**/*.yaml"), *root.glob("reactree_ros/**/*.py")]:
        yield path, f"{path}:1234: is wrong"
        yield path, f"{path.stem}: its words"
        text = path.read_text(encoding="utf-8")
        if path.suffix != ".py":
            yield from ((path, line) for line in text.splitlines())
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.JoinedStr):
                yield (
                    path,
                    "".join(str(one.value) if isinstance(one, ast.Constant) else "robot_12" for one in node.values),
                )
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
                yield from ((path, line) for line in node.value.splitlines())


@pytest.mark.slow
def test_no_word_of_ours_and_no_name_of_a_file_is_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.environ", {})
    hidden = [
        (path, line)
        for path, line in dict.fromkeys(_own_words())
        if "://" not in line and "//robot_12@" not in line and redacted(line) != line
    ]
    shown = "API_KEY=your-key", "PGPASSWORD=of-the-robots", "with the header 'Authorization: Bearer "
    assert [line for _, line in hidden if not any(one in line for one in shown)] == []


def test_a_word_that_the_environment_calls_a_password_is_hidden_as_a_word_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ROBOT_PASSWORD", "kitchen")
    monkeypatch.setenv("ROBOT_KEY", HUSH)
    assert redacted(f"kitchens and kitchen of x{HUSH}x") == "kitchens and *** of x***x"


def test_an_errors_message_tells_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_API_KEY", HUSH)
    for said in (f"401 for {HUSH}", f"http://me:{HUSH}@host/v1 is gone", "Authorization: Bearer abc"):
        error = WorldError(said)
        for message in (
            error_to_dict(error)["message"],
            failure_of(error).message,
            failure_of(Exception(said)).message,
        ):
            assert HUSH not in message
            assert "abc" not in message


def test_a_benchs_settings_are_written_without_keys() -> None:
    model = {"llm": "openai", "model": "m", "extra_body": {"user": HUSH, "top_k": 3}}
    contenders = {"one": {"planner": "react", "llm": model}}
    settings = BenchSettings(suite="generated", planners=("one",), llm=model, contenders=contenders)
    written = settings.as_dict()
    assert HUSH not in json.dumps(written)
    assert written["llm"]["extra_body"] == {"top_k": 3}
    assert BenchSettings(**{**written, "planners": ("one",)}).as_dict() == written


@pytest.mark.parametrize(
    ("name", "value", "left"),
    [
        ("api_key", HUSH, "(not shown)"),
        ("llm_option", [f"extra_body={{user: {HUSH}}}", "model=m"], "[extra_body=(not shown), model=m]"),
        ("llm_option", f"openai_key={HUSH}", "openai_key=(not shown)"),
        ("base_url", f"http://me:{HUSH}@host/v1", "http://***@host/v1"),
        ("extra_body", {"user": HUSH}, "(not shown)"),
        ("max_steps", 3, "3"),
    ],
)
def test_a_setting_is_shown_without_keys(name: str, value: Any, left: str) -> None:
    assert shown(name, value) == left


@pytest.fixture
def peer() -> Iterator[Peer]:
    with Peer() as one:
        yield one


def test_a_run_a_failure_and_their_exports_hold_no_key(
    cli: Cli, peer: Peer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", f"{HUSH}0")
    peer.key = f"{HUSH}0"
    body = f"{{top_k: 20, key: {HUSH}1, auth: {HUSH}2, x-goog-api-key: {HUSH}3, user: {HUSH}4}}"
    model = ["--llm", "openai", "--base-url", peer.base_url, "--llm-option", f"extra_body={body}"]
    peer.script.append(fails(400, f"no such user {HUSH}4 at http://me:{HUSH}5@host/v1?key={HUSH}6"))
    ran = cli("run", "Put the book on the bed", *model, "--save", tmp_path / "run.jsonl", "--max-decisions", 2)
    header = json.loads((tmp_path / "run.jsonl").read_text().splitlines()[0])
    assert header["llm"]["extra_body"] == {"top_k": 20}
    ends = [
        ran,
        *(
            cli("record", "export", tmp_path / "run.jsonl", "--as", kind, "--out", tmp_path / kind)
            for kind in ("markdown",)
        ),
    ]
    written = [*(one.read_text() for one in tmp_path.rglob("*") if one.is_file()), *(end.out + end.err for end in ends)]
    for text in written:
        for number in (0, 1, 2, 3, 5, 6):
            assert f"{HUSH}{number}" not in text
