"""What `reactree lab dataset` writes, from generated houses and from records."""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from command_line import Cli
from llm.talker import Talker

from reactree_lab.cli import models as dataset_command
from reactree_lab.dataset import folder as dataset_folder
from reactree_lab.dataset.folder import those_held_out
from reactree_lab.dataset.lines import Run, bare, lines_of
from reactree_lab.dataset.making import Teacher
from reactree_lab.household.generator import generate_house
from reactree_ros.agent.control_flow import flow_named
from reactree_ros.agent.grammar import DecisionGrammar
from reactree_ros.background.pending import Pending, pass_on
from reactree_ros.cli import app
from reactree_ros.episode import Episode
from reactree_ros.household.expert.goals import goals_of
from reactree_ros.household.expert.model import ExpertModel
from reactree_ros.household.symbolic import SymbolicWorld
from reactree_ros.household.tasks import parse_tasks
from reactree_ros.llm.port import DecisionRequest, Reply
from reactree_ros.memory.embedding import WordEmbedder
from reactree_ros.memory.stores.sqlite import SqliteMemory
from reactree_ros.planners.spec import planner
from reactree_ros.record.export import experiences_of
from reactree_ros.record.moment import Moment
from reactree_ros.record.schema import Event
from reactree_ros.record.writer import Recorder
from reactree_ros.tree.options import TreeOptions

Line = dict[str, Any]
SMALL = ("--houses", 3, "--rooms", 3, "--workers", 1)
TIME_LIMIT = 300.0
# Kills itself while it keeps its second part; a part is one house.
KILLED = """
import os, signal
from itertools import pairwise
from pathlib import Path
from reactree_ros.cli import main
from reactree_lab.cli import models as dataset
from reactree_lab.dataset.folder import DatasetFolder

keep, kept = DatasetFolder.keep, []

def killed(self, number, part):
    kept.append(number)
    if len(kept) == 2:
        self._part(number).with_suffix(".new").write_bytes(b"half a part")
        os.kill(os.getpid(), signal.SIGKILL)
    keep(self, number, part)

DatasetFolder.keep, dataset.PART = killed, 1
main()
"""


def lines(path: Path) -> list[Line]:
    return [json.loads(line) for line in path.read_text(encoding="ascii").splitlines()]


def all_lines(out: Path) -> list[Line]:
    return [*lines(out / "train.jsonl"), *lines(out / "held_out.jsonl")]


def nodes(found: list[Line]) -> Iterator[list[Line]]:
    by_node = defaultdict(list)
    for line in found:
        by_node[line["house"], line["task"], line["node"]].append(line)
    yield from by_node.values()


def counts(out: Path) -> dict[str, Any]:
    values: dict[str, Any] = json.loads((out / "dataset.json").read_text(encoding="utf-8"))["counts"]
    return values


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three houses, without noise."""
    out = tmp_path_factory.mktemp("small") / "data"
    arguments = [str(one) for one in ("lab", "dataset", *SMALL, "--noise", 0, "--unclear", 0, "--out", out)]
    app(arguments, standalone_mode=False)
    return out


@pytest.mark.slow
def test_prompts_are_bare_and_a_nodes_lines_go_on_with_one_another(small: Path) -> None:
    for node in nodes(all_lines(small)):
        assert node[0]["prompt"].startswith("Target_domain:\nYour ")
        assert [line["decision"] for line in node] == list(range(len(node)))
        for line, following in pairwise(node):
            assert following["prompt"].startswith(f"{line['prompt']}{line['completion']}\n")


@pytest.mark.slow
def test_every_decision_is_one_that_decoding_allows(small: Path) -> None:
    found = all_lines(small)
    assert {line["kind"] for line in found} == {"think", "act", "expand"}
    for line in found:
        flows = [flow_named(flow) for flow in line["may_say"]["control_flows"]]
        grammar = DecisionGrammar(line["may_say"]["skills"], flows)
        assert re.fullmatch(grammar.regex(), line["completion"])
        assert line["learn"]


@pytest.mark.slow
def test_the_first_decisions_of_each_task_alone_break_its_instruction_up(cli: Cli, tmp_path: Path) -> None:
    few = ("--houses", 3, "--rooms", 3, "--tasks-per-house", 4, "--noise", 0, "--unclear", 0.3, "--decisions", 2)
    cli("lab", "dataset", *few, "--workers", 1, "--out", tmp_path / "data")
    found = all_lines(tmp_path / "data")
    assert {(line["house"], line["task"]) for line in found} == {
        (line["house"], line["task"]) for line in found if line["completion"].startswith(("Think: ", "Act: failure"))
    }
    assert {line["node"] for line in found} == {0}
    assert {line["kind"] for line in found} >= {"think", "expand"}
    assert all(len(node) <= 2 for node in nodes(found))
    assert (counts(tmp_path / "data")["tasks"], counts(tmp_path / "data")["left_out"]) == (12, 0)


def test_no_house_is_in_both_parts_and_the_counts_are_right(small: Path) -> None:
    train, held_out = lines(small / "train.jsonl"), lines(small / "held_out.jsonl")
    assert {line["house"] for line in train} & {line["house"] for line in held_out} == set()
    said = counts(small)
    assert (said["runs"], said["left_out"], said["tasks"]) == (3, 0, 3)
    assert (said["train_decisions"], said["held_out_decisions"]) == (len(train), len(held_out))
    assert said["train_houses"] + said["held_out_houses"] == 3
    assert sum(said["kinds"].values()) == len(train) + len(held_out)
    assert not (small / "parts").exists()


def test_a_house_is_held_out_whatever_others_there_are() -> None:
    few, many = ({f"house {number}" for number in range(count)} for count in (100, 1000))
    assert those_held_out(few, 0.1) == those_held_out(many, 0.1) & few
    assert 50 < len(those_held_out(many, 0.1)) < 150
    assert len(those_held_out({"a", "b"}, 1e-9)) == 1
    assert those_held_out(many, 0) == those_held_out({"a"}, 1e-9) == set()


@pytest.mark.slow
def test_after_a_kill_the_same_command_makes_the_same_dataset_with_other_workers(small: Path, tmp_path: Path) -> None:
    out = tmp_path / "data"
    arguments = [str(one) for one in ("lab", "dataset", *SMALL[:-2], "--noise", 0, "--unclear", 0, "--out", out)]
    killed = subprocess.run([sys.executable, "-c", KILLED, *arguments, "--workers", "1"], timeout=TIME_LIMIT)
    assert killed.returncode == -9
    assert not (out / "dataset.json").exists()
    again = KILLED.replace("len(kept) == 2", "False")
    subprocess.run([sys.executable, "-c", again, *arguments, "--workers", "2"], check=True, timeout=TIME_LIMIT)
    for name in ("dataset.json", "train.jsonl", "held_out.jsonl"):
        assert (out / name).read_bytes() == (small / name).read_bytes()


@pytest.mark.slow
def test_noise_is_context_and_the_way_back_is_learnt(cli: Cli, tmp_path: Path) -> None:
    ended = cli("lab", "dataset", *SMALL, "--noise", 0.3, "--unclear", 0, "--out", tmp_path / "data")
    assert ended.code == 0, ended.err
    found = all_lines(tmp_path / "data")
    astray = [line for line in found if not line["learn"]]
    assert 0.15 * len(found) < len(astray) < 0.45 * len(found)
    assert all(line["completion"].removeprefix("Act: ") in line["may_say"]["skills"] for line in astray)
    for node in nodes(found):
        for line, following in pairwise(node):
            assert following["prompt"].startswith(f"{line['prompt']}{line['completion']}\n")


@pytest.mark.slow
def test_noise_leads_hiagent_astray_within_a_subgoal_and_its_way_back_is_learnt(cli: Cli, tmp_path: Path) -> None:
    settings = ("--houses", 12, "--rooms", 3, "--noise", 0.2, "--unclear", 0, "--planner", "hiagent", "--workers", 2)
    ended = cli("lab", "dataset", *settings, "--out", tmp_path / "data")
    assert ended.code == 0, ended.err
    found = all_lines(tmp_path / "data")
    astray = [line for line in found if not line["learn"]]
    assert 0.08 * len(found) < len(astray) < 0.3 * len(found)
    assert {line["kind"] for line in astray} == {"act"}
    assert all(line["completion"].removeprefix("Action: ") in line["may_say"]["skills"] for line in astray)
    assert {line["kind"] for line in found} == {"act", "begin_subgoal", "text"}
    assert counts(tmp_path / "data")["left_out"] <= 2


@pytest.mark.slow
def test_what_no_robot_can_do_ends_in_failure(cli: Cli, tmp_path: Path) -> None:
    settings = ("--houses", 12, "--rooms", 3, "--noise", 0, "--unclear", 0.5, "--no-may-say", "--workers", 1)
    assert cli("lab", "dataset", *settings, "--out", tmp_path / "data").code == 0
    given_up = [node for node in nodes(all_lines(tmp_path / "data")) if node[-1]["completion"] == "Act: failure"]
    unclear = [node for node in given_up if node[0]["completion"].startswith("Think: I do not understand")]
    assert 2 <= len(unclear) <= 10
    assert all([line["kind"] for line in node] == ["think", "act"] for node in unclear)
    assert all(line["may_say"] == {} for node in given_up for line in node)


@pytest.mark.slow
def test_on_policy_the_model_acts_and_the_expert_says_what_is_learnt(cli: Cli, tmp_path: Path) -> None:
    """The expert that reads the words acts; the one that knows the goal corrects it where it misreads them."""
    settings = ("--houses", 25, "--rooms", 3, "--unclear", 0, "--no-may-say", "--workers", 1)
    assert cli("lab", "dataset", *settings, "--on-policy", "expert", "--beta", 0, "--out", tmp_path / "data").code == 0
    corrected = 0
    for node in nodes(all_lines(tmp_path / "data")):
        for line, following in pairwise(node):
            if line["decision"] == following["decision"]:
                corrected += 1
                assert line["prompt"] == following["prompt"]
                assert (line["learn"], following["learn"]) == (True, False)
                assert line["completion"] != following["completion"]
            else:
                assert following["prompt"].startswith(f"{line['prompt']}{line['completion']}\n")
    assert corrected > 0


class Thinking(ExpertModel):
    """Answers from another thread, as an engine does; it knows how many requests it had at most at the same time."""

    most = 0

    def __init__(self) -> None:
        super().__init__()
        self._threads, self._lock, self._now = ThreadPoolExecutor(8), threading.Lock(), 0
        self._together = threading.Barrier(2)

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        pending: Pending[Reply] = Pending()
        pass_on(self._threads.submit(self._answer, request), pending)
        return pending

    def _answer(self, request: DecisionRequest) -> Reply:
        with self._lock:
            self._now += 1
            Thinking.most = max(Thinking.most, self._now)
        if Thinking.most < 2:
            with suppress(threading.BrokenBarrierError):  # one run asks for one decision after the other
                self._together.wait(1)
        answer = super().decide(request).result()
        with self._lock:
            self._now -= 1
        return answer


@pytest.mark.slow
def test_several_runs_at_once_of_one_model_make_the_same_dataset(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reactree_lab.bench.job_runner.make_model", lambda spec, settings: Thinking())
    monkeypatch.setattr(dataset_command, "PART", 2)
    settings = ("--houses", 7, "--rooms", 3, "--on-policy", "expert", "--workers", 1, "--exercises", 2)
    for name, at_once in (("one", 1), ("several", 5)):
        Thinking.most = 0
        assert cli("lab", "dataset", *settings, "--at-once", at_once, "--out", tmp_path / name).code == 0
        assert (Thinking.most > 1) is (at_once > 1)
    for file in ("train.jsonl", "held_out.jsonl", "dataset.json"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "several" / file).read_bytes()


@pytest.mark.slow
def test_several_processes_with_several_runs_at_once_make_the_same_dataset(cli: Cli, tmp_path: Path) -> None:
    settings = ("--houses", 45, "--rooms", 3, "--decisions", 2, "--on-policy", "expert")
    for name, how in (("one", ("--workers", 1)), ("several", ("--workers", 2, "--at-once", 3))):
        assert cli("lab", "dataset", *settings, *how, "--out", tmp_path / name).code == 0
    for file in ("train.jsonl", "held_out.jsonl", "dataset.json"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "several" / file).read_bytes()


@pytest.mark.slow
def test_on_policy_hiagent_is_corrected_in_its_own_words(cli: Cli, tmp_path: Path) -> None:
    settings = ("--houses", 25, "--rooms", 3, "--unclear", 0, "--planner", "hiagent", "--workers", 2)
    assert cli("lab", "dataset", *settings, "--on-policy", "expert", "--beta", 0, "--out", tmp_path / "data").code == 0
    found = all_lines(tmp_path / "data")
    labels = [
        line for line, other in pairwise(found) if line["prompt"] == other["prompt"] and line["learn"] > other["learn"]
    ]
    assert labels
    for line in labels:
        begins = {"act": "Action: ", "begin_subgoal": r"\d Subgoal: .+\nAction: "}[line["kind"]]
        action = re.sub(f"^{begins}", "", line["completion"])
        assert action in line["may_say"]["skills"]
    learnt = {line["kind"] for line in found if line["learn"]}
    assert learnt == {"act", "begin_subgoal", "text"}


def test_whoever_chats_in_hiagents_place_is_not_learnt_but_what_the_expert_says_there() -> None:
    (task,) = parse_tasks(generate_house(seed=7, rooms=3, tasks=1))
    teacher = Teacher(task.instruction, goals_of(task.goal), noise=0, seed="", pupil=Talker(seed=0))
    events: list[Event] = []
    with SymbolicWorld(task) as world:
        who = {"model": teacher, "planner": planner("hiagent"), "record": Recorder(events.append)}
        Episode(task.instruction, world=world, options=TreeOptions(max_decisions=60), **who).run()
    of = Run(house="7", task="1", planner="hiagent")
    found = [one.as_dict() for one in lines_of(events, of, labels=teacher.labels)]
    learnt = [line for line in found if line["learn"]]
    assert {line["kind"] for line in learnt} == {"begin_subgoal", "text"}  # its subgoals are not in the expert's words
    assert all("skills" in line["may_say"] for line in found if line["kind"] != "text")
    for line in learnt:
        assert "goodies" not in line["completion"]
        if line["kind"] == "text":
            assert re.search(r"Subgoal is (not )?met\.$", line["completion"])
        else:
            assert line["completion"].rpartition("Action: ")[2] in line["may_say"]["skills"]
    assert any("grab the goodies" in line["prompt"] and "what I could" in line["prompt"] for line in learnt)


@pytest.mark.slow
@pytest.mark.parametrize(("layout", "keys"), [("prompt", ["prompt", "completion"]), ("chat", ["messages"])])
def test_layouts_for_trl_hold_what_is_learnt(cli: Cli, tmp_path: Path, layout: str, keys: list[str]) -> None:
    settings = ("--houses", 2, "--rooms", 3, "--noise", 0.2, "--workers", 1)
    assert cli("lab", "dataset", *settings, "--format", layout, "--out", tmp_path / "data").code == 0
    for name in ("train", "held_out"):
        learnt = [line for line in lines(tmp_path / "data" / f"{name}.jsonl") if line["learn"]]
        others = lines(tmp_path / "data" / f"{name}.{layout}.jsonl")
        assert len(learnt) == len(others)
        for line, other in zip(learnt, others, strict=True):
            assert list(other) == keys
            said = other["messages"][-1]["content"] if layout == "chat" else other["completion"]
            assert said == line["completion"]


@pytest.mark.slow
def test_examples_come_from_a_memory_the_most_similar_first(cli: Cli, tmp_path: Path) -> None:
    moment = Moment()
    (task,) = parse_tasks(generate_house(seed=7, rooms=3, tasks=1))
    with SymbolicWorld(task) as world:
        who = {"model": ExpertModel(), "planner": planner("reactree_wm"), "record": Recorder(moment.apply)}
        assert Episode(task.instruction, world=world, **who).run().achieved
    known = experiences_of(moment)
    with SqliteMemory(tmp_path / "memory.db", WordEmbedder()) as memory:
        memory.add_run(known)
    settings = ("--houses", 1, "--rooms", 3, "--noise", 0, "--unclear", 0, "--no-may-say", "--workers", 1)
    examples = ("--examples", 2, "--memory", tmp_path / "memory.db")
    assert cli("lab", "dataset", *settings, *examples, "--out", tmp_path / "data").code == 0
    found = lines(tmp_path / "data" / "train.jsonl")
    texts = [experience.text for experience in known]
    for line in found:
        shown, _, own = line["prompt"].rpartition("Target_domain:\n")
        assert shown.startswith("Source domain:\n")
        assert sum(shown.count(f"\n{text}") for text in texts) == 2
        assert own.startswith("Your ")


# ---- records ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A record of a run that reached its goal, and of one that ran out of decisions."""
    folder = tmp_path_factory.mktemp("runs")
    for name, most in (("achieved", 0), ("failed", 2)):
        command = ["run", "--json", "--save", str(folder / f"{name}.jsonl"), "--max-decisions", str(most)]
        app(command, standalone_mode=False)
    return folder


def test_records_are_learnt_from_without_what_the_runs_were_told_at_first(cli: Cli, runs: Path, tmp_path: Path) -> None:
    ended = cli("lab", "dataset", runs, "--out", tmp_path / "data", "--workers", 1)
    assert "1 of 2 runs did not reach their goal" in ended.out
    found = lines(tmp_path / "data" / "train.jsonl")
    record = [json.loads(line) for line in (runs / "achieved.jsonl").read_text(encoding="ascii").splitlines()]
    decided = [event for event in record if event["e"] == "decided"]
    assert len(found) == len(decided)
    assert {line["planner"] for line in found} == {bare("reactree_wm")}
    assert found[0]["prompt"].startswith("Target_domain:\nYour task is to: ")
    for line in found:
        assert line["learn"]
        assert "failure" in line["may_say"]["skills"]


def test_runs_that_failed_are_taken_where_that_is_asked_for(cli: Cli, runs: Path, tmp_path: Path) -> None:
    failed = runs / "failed.jsonl"
    ended = cli("lab", "dataset", failed, "--out", tmp_path / "data", "--workers", 1)
    assert ended.code == 2
    assert "there is nothing to learn from: 1 of 1 runs did not reach their goal" in ended.err
    ended = cli("lab", "dataset", failed, "--all-runs", "--out", tmp_path / "data", "--workers", 1)
    assert ended.code == 0, ended.err
    assert len(all_lines(tmp_path / "data")) == 2


def test_the_same_run_twice_says_nothing_new(cli: Cli, runs: Path, tmp_path: Path) -> None:
    (tmp_path / "twice.jsonl").write_bytes((runs / "achieved.jsonl").read_bytes())
    ended = cli(
        "lab", "dataset", runs / "achieved.jsonl", tmp_path / "twice.jsonl", "--out", tmp_path / "data", "--workers", 1
    )
    assert ended.code == 0, ended.err
    once = cli("lab", "dataset", runs / "achieved.jsonl", "--out", tmp_path / "once", "--workers", 1)
    assert once.code == 0
    assert (tmp_path / "data" / "train.jsonl").read_bytes() == (tmp_path / "once" / "train.jsonl").read_bytes()
    assert counts(tmp_path / "data")["duplicate_nodes"] == counts(tmp_path / "once")["train_nodes"]


# ---- bad input ----------------------------------------------------------------------------------------------------


def test_a_folder_that_holds_something_else_is_left_as_it_is(cli: Cli, small: Path, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine", encoding="utf-8")
    ended = cli("lab", "dataset", *SMALL, "--out", tmp_path)
    assert (ended.code, "is not empty and holds no dataset" in ended.err) == (2, True)
    assert os.listdir(tmp_path) == ["notes.txt"]
    ended = cli("lab", "dataset", *SMALL, "--out", tmp_path / "notes.txt")
    assert (ended.code, "is a file" in ended.err) == (2, True)
    before = (small / "train.jsonl").read_bytes()
    ended = cli("lab", "dataset", *SMALL, "--noise", 0.2, "--unclear", 0, "--out", small)
    assert (ended.code, "was started with other settings: noise was 0.0, now 0.2" in ended.err) == (2, True)
    assert (small / "train.jsonl").read_bytes() == before


@pytest.mark.slow
def test_a_dataset_is_about_what_is_asked_for_and_says_so(cli: Cli, tmp_path: Path) -> None:
    out = tmp_path / "data"
    made = (*SMALL, "--unclear", 0, "--no-varied", "--tasks-per-house", 2, "--exercises", 40, "--out", out)
    arguments = ("lab", "dataset", *made, "--without", "pudding,put_fridge", "--about", "apple,wine")
    assert cli(*arguments).code == 0
    instructions = {line["instruction"].lower() for line in all_lines(out)}
    assert not any("pudding" in one or "fridge" in one for one in instructions)
    assert sum("apple" in one or "wine" in one for one in instructions) >= 6
    said = json.loads((out / "dataset.json").read_text(encoding="utf-8"))
    assert (said["without"], said["about"]) == ("pudding,put_fridge", "apple,wine")
    assert cli(*arguments).code == 0
    ended = cli("lab", "dataset", *made, "--without", "pudding,put_fridge")
    assert (ended.code, 'about was "apple,wine", now ""' in ended.err) == (2, True)


@pytest.mark.slow
def test_a_full_disk_is_told_and_gone_on_after(
    cli: Cli, small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> bytes:
        raise OSError(errno.ENOSPC, "No space left on device")

    arguments = ("lab", "dataset", *SMALL, "--noise", 0, "--unclear", 0, "--out", tmp_path / "data")
    with monkeypatch.context() as patched:
        patched.setattr(dataset_folder.gzip, "compress", full)
        ended = cli(*arguments)
    assert ended.code == 2
    assert "No space left on device; make room, then repeat the command to continue" in ended.err
    assert cli(*arguments).code == 0
    assert (tmp_path / "data" / "train.jsonl").read_bytes() == (small / "train.jsonl").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "name records of runs, or set --houses N"),
        (("nowhere.jsonl",), "nowhere.jsonl: cannot be read"),
        (("--houses", 2, "--rooms", 2), "a house has 3 to 8 rooms"),
        (("--houses", 2, "--without", "wine,fork"), "there is no object class or type of task 'fork'; did you mean"),
        (("--houses", 2, "--no-varied", "--about", "desk"), "none of them fits about=desk; name fewer things"),
        (("--houses", 2, "--examples", 3), "--examples in generated houses need --memory"),
        (("--houses", 2, "--memory", "no.db"), "no such memory"),
        (("--houses", 2, "--planner", "reactre"), "did you mean 'reactree'"),
        (("--houses", 2, "--on-policy", "exprt"), "did you mean 'expert'"),
        (("--houses", 2, "--model", "mine"), "name another --on-policy (openai, vllm,"),
        (("--on-policy", "expert", Path(__file__).parent), "holds no record of a run"),
    ],
)
def test_what_cannot_be_done_is_told(cli: Cli, tmp_path: Path, arguments: tuple[Any, ...], message: str) -> None:
    ended = cli("lab", "dataset", *arguments, "--out", tmp_path / "data")
    assert ended.code == 2
    assert message in ended.err
    assert not (tmp_path / "data" / "train.jsonl").exists()


def test_a_planners_own_options_stay() -> None:
    assert bare("reactree_wm") == "reactree_wm:system_text=false:fixed_example=false"
    assert bare("react:system_text=true") == "react:system_text=true:fixed_example=false"
