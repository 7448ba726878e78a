"""A planner that is followed for the page: its runs' records are copied as they are written, and the run is steered."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
from action_msgs.msg import GoalStatus
from command_line import Cli
from doubles import ScriptedModel, ScriptedWorld
from people import words_told
from processes import LONGEST, Patience, Process, Processes
from reactree_interfaces.action import ExecuteTask
from reactree_interfaces.msg import RecordPart
from reactree_interfaces.srv import SayDecision
from ros_graph import Graph, HeldWorld
from std_srvs.srv import Trigger
from view.writing import cookie_of, origin_of

from reactree_ros.errors import UserError
from reactree_ros.nodes.people import view as record_follower
from reactree_ros.nodes.people.view import RecordFollower
from reactree_ros.nodes.planner import task as record_topic

APPLE = "Put 1 apple on the coffee table"
THREE = {"root": ["Think: first", "Act: open fridge 1", "Act: done"]}


def follow(graph: Graph, folder: Path, planner: str = "reactree_planner") -> RecordFollower:
    folder.mkdir(exist_ok=True)
    return graph.add(RecordFollower(planner, folder, context=graph.context))


def copies(folder: Path) -> list[Path]:
    return sorted(folder.iterdir(), key=lambda path: path.stat().st_ctime_ns)


def ended(folder: Path, runs: int = 1) -> bool:
    found = copies(folder)
    return len(found) == runs and all(kinds(path)["end"] for path in found)


def events(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]


def kinds(path: Path) -> Counter[str]:
    return Counter(event["e"] for event in events(path))


def saved(result: Any) -> bytes:
    return Path(result.saved_to).read_bytes()


# ------------------------------------------------------------------ the record


def test_a_copy_is_the_record_as_the_planner_saves_it(graph: Graph, tmp_path: Path) -> None:
    graph.household(THREE, save_to=str(tmp_path / "saved"))
    follow(graph, tmp_path / "copies")
    result = graph.task().result
    graph.until(lambda: ended(tmp_path / "copies"), "the end has come")
    assert copies(tmp_path / "copies")[0].read_bytes() == saved(result)


def test_growth_is_followed_while_the_run_goes_on(graph: Graph, tmp_path: Path) -> None:
    world = HeldWorld()
    graph.household(THREE, world=world)
    follow(graph, tmp_path)
    goal = graph.task()
    graph.until(lambda: world.held, "the skill runs")
    graph.until(lambda: copies(tmp_path) and kinds(copies(tmp_path)[0])["skill"] == 1, "it is followed so far")
    world.finish()
    assert goal.result.success
    graph.until(lambda: ended(tmp_path), "the end has come")


@pytest.mark.parametrize("longest", [1000, 1 << 18], ids=["in parts", "at once"])
def test_who_joins_late_has_all_of_it(
    graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, longest: int
) -> None:
    monkeypatch.setattr(record_topic, "LONGEST", longest)
    thoughts = [f"Think: {number}" for number in range(3 * record_topic.QOS.depth)]
    graph.household({"root": [*thoughts, "Act: done"]}, save_to=str(tmp_path / "saved"), thoughts_in_a_row=1000)
    result = graph.task().result
    assert result.decisions == len(thoughts)
    follow(graph, tmp_path / "copies")
    graph.until(lambda: ended(tmp_path / "copies"), "the end has come")
    assert copies(tmp_path / "copies")[0].read_bytes() == saved(result)


def test_of_very_many_runs_the_oldest_copies_go(graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_follower, "KEPT", 3)
    graph.household({"root": [*THREE["root"]] * 5}, save_to=str(tmp_path / "saved"))
    follow(graph, tmp_path / "copies")
    results = [graph.task().result for _ in range(5)]
    kept = set(map(saved, results[-3:]))
    graph.until(lambda: {path.read_bytes() for path in copies(tmp_path / "copies")} == kept, "the last are there")


def test_a_planner_that_is_started_again_is_followed_on(graph: Graph, tmp_path: Path) -> None:
    world = HeldWorld()
    graph.inference(ScriptedModel({"root": [*THREE["root"]] * 2}))
    graph.bridge(world)
    follower = follow(graph, tmp_path)
    planner = graph.planner()
    graph.task()
    graph.until(lambda: world.held and copies(tmp_path), "a run is followed")
    (first,) = copies(tmp_path)
    planner.begin_stop()
    graph.until(planner.stopped, "the planner has stopped")
    graph.nodes.remove(planner)
    graph._executors[None].remove_node(planner)
    planner.destroy_node()
    graph.until(lambda: not follower.count_publishers("/reactree_planner/record"), "the planner is gone")
    graph.planner()
    graph.task()
    graph.until(lambda: len(copies(tmp_path)) == 2, "the run of the second one is followed")
    (second,) = set(copies(tmp_path)) - {first}
    assert (follower.course_of(first).ended, follower.course_of(second).ended) == (True, False)


def test_what_is_no_id_becomes_no_file(graph: Graph, tmp_path: Path) -> None:
    follow(graph, tmp_path / "copies")
    parts = [RecordPart(run=run, data="{}\n") for run in ("../evil", "a" * 32)]
    assert published(graph, tmp_path / "copies", *parts).name == f"{'a' * 32}.jsonl"
    assert list(tmp_path.iterdir()) == [tmp_path / "copies"]


def test_where_a_copy_cannot_be_written_it_is_said_where(graph: Graph, tmp_path: Path) -> None:
    folder = tmp_path / "copies"
    follower = follow(graph, folder)
    folder.rmdir()
    with pytest.raises(UserError, match=r"copies.*No such file or directory; make room there"):
        follower._heard(RecordPart(run="a" * 32, data="{}\n"))


def test_what_is_no_nodes_name_is_refused(graph: Graph, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="'my planner' is not a node's name"):
        follow(graph, tmp_path, "my planner")


# ------------------------------------------------------------------ the person's hand


def want(follower: RecordFollower, record: Path, command: str, words: str = "") -> None:
    follower.commands(record)[command](words)


def test_a_run_is_paused_goes_on_and_is_cancelled_by_the_planner(graph: Graph, tmp_path: Path) -> None:
    world = HeldWorld()
    graph.household({"root": ["Act: open fridge 1"] * 3}, world=world)
    follower = follow(graph, tmp_path)
    goal = graph.task()
    graph.until(lambda: world.held and copies(tmp_path), "the skill runs")
    (record,) = copies(tmp_path)
    want(follower, record, "pause")
    graph.until(lambda: follower.course_of(record).paused, "it is paused")
    graph.until(lambda: not world.held, "the skill is cancelled")
    want(follower, record, "go on")
    graph.until(lambda: not follower.course_of(record).paused and world.held, "it goes on")
    want(follower, record, "cancel")
    assert goal.status == GoalStatus.STATUS_CANCELED
    graph.until(lambda: follower.course_of(record).ended, "its end has come")
    with pytest.raises(UserError, match="has ended"):
        want(follower, record, "cancel")


def decisions(record: Path) -> list[str]:
    """What was decided so far, and who answered, where that was a person."""
    by = [event.get("answered_by", "") for event in events(record) if event["e"] == "reply"]
    said = [event["said"] for event in events(record) if event["e"] == "turn" and "said" in event]
    return [f"{words} ({person})" if person else words for words, person in zip(said, by, strict=True)]


def test_a_run_takes_single_steps_and_what_a_person_says(graph: Graph, tmp_path: Path) -> None:
    graph.household({"root": ["Think: a", "Think: b", "Act: done"]})
    graph.call(Trigger, "/reactree_planner/pause")
    follower = follow(graph, tmp_path)
    goal = graph.task()
    graph.until(lambda: copies(tmp_path) and follower.course_of(copies(tmp_path)[0]).paused, "it begins paused")
    (record,) = copies(tmp_path)
    want(follower, record, "step")
    graph.until(lambda: kinds(record)["decided"] == 1 and follower.course_of(record).paused, "one step is taken")
    want(follower, record, "say", "Act: fly to the moon")
    graph.until(lambda: "fly to the moon" in follower.course_of(record).notice, "why it is not taken is told")
    want(follower, record, "say", "Act: open fridge 1")
    graph.until(lambda: kinds(record)["decided"] == 2 and follower.course_of(record).paused, "what was said is done")
    assert follower.course_of(record).notice == ""
    assert decisions(record) == ["Think: a", "Act: open fridge 1 (a person)"]
    want(follower, record, "go on")
    assert goal.result.success
    graph.until(lambda: follower.course_of(record).ended, "its end has come")
    assert decisions(record)[2:] == ["Think: b", "Act: done"]


@pytest.mark.parametrize(
    ("kind", "service", "given"), [(Trigger, "step", {}), (SayDecision, "say", {"words": "Act: done"})]
)
def test_without_a_task_there_is_nothing_to_steer(graph: Graph, kind: Any, service: str, given: Any) -> None:
    graph.household(THREE)
    answer = graph.call(kind, f"/reactree_planner/{service}", **given)
    assert (answer.success, answer.message) == (False, "no task runs; there is nothing to steer")


def test_words_for_a_run_that_goes_on_are_refused_and_those_for_one_that_ends_are_answered(graph: Graph) -> None:
    _, _, goal = graph.held(THREE)
    answer = graph.call(SayDecision, "/reactree_planner/say", words="Act: done")
    assert (answer.success, "is not paused" in answer.message) == (False, True)
    goal.cancel()
    assert goal.status == GoalStatus.STATUS_CANCELED


POLICY = "rules: [{skill: open, object: fridge, verdict: confirm}]"
ASKED = ["Ask: Which apple?", "Act: done"]
ASKS = {"planner": "reactree:questions=2", "answer_timeout": 600.0}


def test_what_a_policy_wants_confirmed_is_asked_on_the_page_as_long_as_somebody_looks_at_it(
    graph: Graph, tmp_path: Path
) -> None:
    (tmp_path / "policy.yaml").write_text(POLICY)
    world = ScriptedWorld()
    graph.inference(ScriptedModel({"root": ["Act: open fridge 1"] * 2 + ["Think: so", "Act: done"] * 2}))
    bridge = graph.bridge(world, policy=str(tmp_path / "policy.yaml"), confirm_timeout=600.0)
    graph.planner()
    graph.call(Trigger, "/reactree_planner/pause")
    follower = follow(graph, tmp_path / "copies")
    goal = graph.task()
    graph.until(lambda: copies(tmp_path / "copies"), "it is followed")
    (record,) = copies(tmp_path / "copies")
    assert not follower._answering.askers, "nobody looks"
    graph.until(lambda: follower.course_of(record) and bridge._person.there, "somebody looks")
    want(follower, record, "go on")
    for words in ("yes", "it is cold"):
        graph.until(lambda: follower.course_of(record).asked is not None, "it is asked")
        asked = follower.course_of(record).asked
        assert asked is not None
        assert (asked.skill, asked.reason) == ("open fridge 1", "the skill policy says confirm for 'open fridge'")
        assert asked.asker == "/household_bridge"
        with pytest.raises(KeyError):
            want(follower, record, f"answer {asked.number + 1}", words)
        want(follower, record, f"answer {asked.number}", words)
        graph.until(lambda asked=asked: follower.course_of(record).asked != asked, "it is answered")
    assert goal.result.success
    assert world.executed == ["open fridge 1"]
    assert any('was not approved: "it is cold"' in event.get("saw", "") for event in events(record))
    graph.until(lambda: not follower._answering.askers, "nobody looks any more")


def test_a_pause_by_somebody_else_is_seen(graph: Graph, tmp_path: Path) -> None:
    world = HeldWorld()
    graph.household({"root": ["Act: open fridge 1"] * 2}, world=world)
    graph.task()
    graph.until(lambda: world.held, "the skill runs")
    graph.call(Trigger, "/reactree_planner/pause")
    follower = follow(graph, tmp_path)
    graph.until(lambda: copies(tmp_path) and follower.course_of(copies(tmp_path)[0]).paused, "who joins late sees it")
    graph.call(Trigger, "/reactree_planner/resume")
    graph.until(lambda: not follower.course_of(copies(tmp_path)[0]).paused, "it goes on")


def published(graph: Graph, folder: Path, *parts: RecordPart) -> Path:
    """Publish parts of records in a planner's place; returns the copy that there is then."""
    heard = graph.probe.create_publisher(RecordPart, "/reactree_planner/record", record_topic.QOS)
    graph.until(heard.get_subscription_count, "it is followed")
    for part in parts or [RecordPart(run="a" * 32, data='{"e":"run"}\n')]:
        heard.publish(part)
    graph.until(lambda: copies(folder), "a run is followed")
    (record,) = copies(folder)
    return record


def test_where_there_is_no_planner_any_more_the_page_says_so(graph: Graph, tmp_path: Path) -> None:
    follower = follow(graph, tmp_path)
    record = published(graph, tmp_path)
    want(follower, record, "pause")
    graph.until(lambda: follower.course_of(record).notice, "it is said")
    assert follower.course_of(record).notice.startswith("there is no planner /reactree_planner;")


def test_a_planner_that_does_not_answer_is_not_waited_for_without_end(
    graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_follower, "PATIENCE", 0.2)
    silent = graph.add_node("silent", alone=True)
    silent.create_service(Trigger, "/reactree_planner/pause", lambda request, response: response)
    graph.halt(silent)
    follower = follow(graph, tmp_path)
    graph.until(follower._steerers["pause"].service_is_ready, "the service is there")
    record = published(graph, tmp_path)
    want(follower, record, "pause")
    graph.until(lambda: "has not answered within 0.2 s" in follower.course_of(record).notice, "it is said")
    assert follower._calls == {}


def test_words_on_the_page_go_to_the_run_and_why_they_do_not_is_told(graph: Graph, tmp_path: Path) -> None:
    world = HeldWorld()
    planner = graph.household({"root": ["Act: open fridge 1", "Act: done"]}, world=world)
    follower = follow(graph, tmp_path)
    goal = graph.task()
    graph.until(lambda: world.held and copies(tmp_path), "the skill runs")
    (record,) = copies(tmp_path)
    want(follower, record, "tell", " ")
    graph.until(lambda: "nothing is said" in follower.course_of(record).notice, "why not is told")
    want(follower, record, "tell", "the red one")
    graph.until(lambda: not follower.course_of(record).notice, "it is taken in")
    world.finish()
    assert goal.result.success
    assert words_told(planner) == ['The person says: "the red one".']


def test_a_question_is_asked_on_the_page_and_stop_in_its_place_ends_the_run(graph: Graph, tmp_path: Path) -> None:
    planner = graph.household({"root": ["Act: open fridge 1", *ASKED]}, **ASKS)
    graph.call(Trigger, "/reactree_planner/pause")
    follower = follow(graph, tmp_path)
    goal = graph.task()
    graph.until(lambda: copies(tmp_path) and follower.course_of(copies(tmp_path)[0]).paused, "it begins paused")
    (record,) = copies(tmp_path)
    graph.until(lambda: follower.course_of(record) and planner._person.there, "somebody looks")
    want(follower, record, "go on")
    graph.until(lambda: follower.course_of(record).asked is not None, "it is asked")
    asked = follower.course_of(record).asked
    assert asked is not None
    assert (asked.text, asked.reason, asked.skill) == ("Which apple?", "root", "")
    want(follower, record, f"answer {asked.number}", "stop")
    assert goal.result.error_code == ExecuteTask.Result.CANCELED
    graph.until(lambda: follower.course_of(record).asked is None, "nothing is asked any more")


class Looking:
    """Looks at the latest run of a page, as a browser does: in a thread, so that what it looks at goes on.

    Attributes:
        events: What has come.
    """

    def __init__(self, url: str) -> None:
        self.url, self.run, self.events = url, "", list[dict[str, Any]]()
        threading.Thread(target=self._look, daemon=True).start()

    def _look(self) -> None:
        while not (found := json.loads(asked(self.url, "api/runs"))["runs"]):
            pass
        self.run = found[0]["run"]
        headers = {"Cookie": cookie_of(self.url)}
        asking = Request(f"{origin_of(self.url)}/api/events?run={self.run}", headers=headers)
        with urlopen(asking, timeout=LONGEST) as stream:
            self.events.extend(json.loads(line) for line in stream if line.strip())

    @property
    def course(self) -> dict[str, Any]:
        return next((event for event in reversed(self.events) if event["e"] == "steering"), {})

    def wants(self, command: str, words: str) -> None:
        threading.Thread(
            target=asked, args=(self.url, "api/steering", {"do": command, "run": self.run, "words": words})
        ).start()


@pytest.mark.usefixtures("page")
def test_a_question_is_answered_on_the_page_by_http(graph: Graph) -> None:
    planner = graph.household({"root": ASKED}, **ASKS)
    graph.call(Trigger, "/reactree_planner/pause")
    processes = Processes(graph.domain_id)
    view = processes.start(sys.executable, "-m", "reactree_ros.cli", "view", "--ros")
    try:
        graph.until(lambda: "#/latest" in view.output, "the page is there")
        goal = graph.task()
        page = Looking(url_of(view))
        graph.until(lambda: page.course.get("paused") and planner._person.there, "it is looked at")
        page.wants("go on", "")
        graph.until(lambda: page.course.get("asked"), "it is asked")
        shown = page.course["asked"]
        assert (shown["text"], shown["reason"], shown["asker"]) == ("Which apple?", "root", "/reactree_planner")
        assert shown["ends"] == pytest.approx(time.time() + 600.0, abs=60.0)
        page.wants(f"answer {shown['number']}", "the red one")
        assert goal.result.success
        graph.until(lambda: any(event["e"] == "end" for event in page.events), "the end has come")
    finally:
        processes.kill_all()
    answers = [(event["text"], event["by"]) for event in page.events if event["e"] == "answer"]
    assert answers == [("the red one", "page")]
    assert words_told(planner) == ['The person answers: "the red one".']


# ------------------------------------------------------------------ the commands


def url_of(process: Process) -> str:
    process.wait_for("The page is at ")
    process.wait_for("#/latest")
    found = re.search(r"http://[^\s#]+", process.output)
    assert found
    return found[0]


def asked(url: str, path: str, command: dict[str, str] | None = None) -> bytes:
    headers = {"Cookie": cookie_of(url), "Origin": origin_of(url), "Content-Type": "application/json"}
    body = json.dumps(command).encode() if command else None
    with urlopen(Request(f"{origin_of(url)}/{path}", body, headers), timeout=LONGEST) as answer:
        return bytes(answer.read())


def followed(url: str, *, runs: int = 1) -> Sequence[dict[str, Any]]:
    """Follow the latest of so many runs to its end as the page does."""
    patience = Patience()
    while len(found := json.loads(asked(url, "api/runs"))["runs"]) < runs:
        assert not patience.is_over(), f"{len(found)} runs are followed, not {runs}"
    lines = asked(url, f"api/events?run={found[0]['run']}").splitlines()
    return [event for event in map(json.loads, filter(None, lines)) if event["e"] != "steering"]


def carry_out(processes: Processes) -> Process:
    return processes.start("ros2", "run", "reactree_ros", "execute_task", APPLE, "--timeout", f"{LONGEST:g}")


@pytest.fixture
def page() -> None:
    pytest.importorskip("starlette")
    pytest.importorskip("uvicorn")


@pytest.mark.usefixtures("page")
def test_a_launch_shows_its_runs_on_a_page(processes: Processes) -> None:
    launch = processes.launch("view:=true")
    url = url_of(launch)
    launch.wait_until_up(6)
    task = carry_out(processes)
    assert task.end() == 0
    found = followed(url)
    assert (found[0]["instruction"], found[-1]["result"]["end"]) == (APPLE, "done")
    launch.interrupt()
    assert launch.end() in (0, 1)
    assert "Traceback" not in launch.output
    assert launch.left() == []


@pytest.mark.usefixtures("page")
def test_a_page_stays_when_the_planner_is_killed_and_started_again(processes: Processes) -> None:
    launch = processes.launch("view:=true", "respawn:=true")
    url = url_of(launch)
    launch.wait_until_up(6)
    for runs in (1, 2):
        if runs == 2:
            os.kill(launch.pid_of("planner_node"), signal.SIGKILL)
            launch.wait_for("process has died")
        assert carry_out(processes).end() == 0
        assert followed(url, runs=runs)[-1]["result"]["end"] == "done"


@pytest.mark.usefixtures("page")
def test_the_command_joins_late_and_ends_by_an_interrupt(processes: Processes) -> None:
    launch = processes.launch()
    launch.wait_until_up()
    task = carry_out(processes)
    assert task.end() == 0
    view = processes.start("python3", "-m", "reactree_ros.cli", "view", "--ros")
    assert followed(url_of(view))[-1]["result"]["end"] == "done"
    view.interrupt()
    assert view.ended_cleanly(130)
    launch.interrupt()
    launch.end()


def test_a_path_and_ros_are_refused_together(cli: Cli, tmp_path: Path) -> None:
    pytest.importorskip("starlette")
    refused = cli("view", tmp_path, "--ros")
    assert (refused.code, "leave the path out, or --ros" in refused.err) == (2, True)
