"""A record while it is written and read: whole, torn, on a full disk, after a kill; and what it tells of a run."""

from __future__ import annotations

import dataclasses
import gzip
import json
import logging
import multiprocessing
import random
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from chatting import Chatting
from doubles import START, Builds, ScriptedModel, ScriptedWorld, expand, goal_of
from drawn import drawn
from py_trees.common import Status
from pydantic import ValidationError
from recorded_runs import Kept, assert_replays, files_of_at_most, recorded_episode

from reactree_lab.bench.results import told_by
from reactree_lab.household.generator import generate_house
from reactree_ros.agent.turns import Told
from reactree_ros.background.pending import Pending
from reactree_ros.episode import Episode, EpisodeResult
from reactree_ros.episode.going_on import WayBack, decision_of, go_on, stop_of
from reactree_ros.episode.player import LATER, replay
from reactree_ros.errors import UserError
from reactree_ros.household.expert.model import ExpertModel
from reactree_ros.household.symbolic import SymbolicWorld
from reactree_ros.household.tasks import parse_tasks
from reactree_ros.llm.engine import Generated
from reactree_ros.llm.port import Attempt, DecisionRequest, FreeText, LanguageModel, Reply, ServerUnavailable
from reactree_ros.planners.spec import planner
from reactree_ros.record import reader, writer
from reactree_ros.record.checking import Check
from reactree_ros.record.export import experiences_of, training_lines
from reactree_ros.record.moment import Moment
from reactree_ros.record.reader import Record, RecordError, follow, read_record
from reactree_ros.record.schema import skills_after, skills_difference
from reactree_ros.record.writer import Recorder, RecordFile
from reactree_ros.tree.goal_node import GoalNode
from reactree_ros.tree.options import DEEPEST, TreeOptions
from reactree_ros.tree.program_node import Program
from reactree_ros.view.exports import write_exports
from reactree_ros.world.port import Observation, World
from reactree_ros.world.wrappers import WorldWrapper

TASK = parse_tasks(generate_house(seed=5, tasks=1))[0]
SCRIPT = {
    "root": ["Think: a", expand("fallback", "a", "b")],
    "a": ["Act: open fridge 1", "sing", "Act: failure"],
    "b": ["Act: recall location of apple", "Act: done"],
}
KILLS = 50


def _head() -> bytes:
    episode, kept = recorded_episode(SCRIPT)
    episode.run()
    return f"{kept.lines[0]}\n".encode()


#: The first line of a record.
HEAD = _head()


def of_the_expert(record: Recorder, world: World | None = None) -> Episode:
    given: dict[str, Any] = {
        "world": world or SymbolicWorld(TASK),
        "model": ExpertModel(),
        "planner": planner("reactree_wm"),
    }
    return Episode(TASK.instruction, record=record, **given)


def run_into(path: Path) -> EpisodeResult:
    file = RecordFile(path)
    result = of_the_expert(Recorder(file.write, flush=file.flush)).run()
    file.close()
    return result


def outcome(result: EpisodeResult) -> tuple[Any, ...]:
    return result.end, result.gsr, result.decisions, result.steps, result.agent_nodes, result.max_depth


def timeless(events: Any) -> list[dict[str, Any]]:
    return [untimed(event) | ({"result": untimed(event["result"])} if "result" in event else {}) for event in events]


def untimed(values: dict[str, Any]) -> dict[str, Any]:
    hidden = ("t", "id", "started", "seconds", "model_seconds")
    return {name: value for name, value in values.items() if name not in hidden}


# ---------------------------------------------------------------------- killed


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, EpisodeResult]:
    path = tmp_path_factory.mktemp("whole") / "run.jsonl"
    return path, run_into(path)


@pytest.mark.slow
@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(KILLS))
def test_a_kill_at_any_moment_leaves_a_record_that_goes_on_to_the_end(
    seed: int, whole: tuple[Path, EpisodeResult], tmp_path: Path
) -> None:
    first, expected = whole
    path = tmp_path / "killed.jsonl"
    kill_at = random.Random(seed).randrange(2000, first.stat().st_size * 9 // 10)
    process = multiprocessing.get_context("fork").Process(target=run_into, args=(path,))
    process.start()
    while process.is_alive() and not (path.exists() and path.stat().st_size >= kill_at):
        pass
    process.kill()  # it may have ended by now
    process.join(30)

    record = read_record(path)
    assert timeless(record.events) == timeless(read_record(first).events[: len(record.events)])
    kept = Kept()
    with SymbolicWorld(TASK) as world:
        until = stop_of(record) if record.end is None else decision_of(record, 5)
        episode = go_on(record, until, world=world, model=ExpertModel(), write=kept.write)
        result = episode.run()
    assert outcome(result) == outcome(expected)
    assert kept.record.run["parent"]["id"] == record.run["id"]
    assert timeless(kept.record.events)[1:-1] == timeless(read_record(first).events)[1:-1]


@pytest.mark.parametrize("left", range(1, 120, 7))
def test_a_torn_last_line_is_left_out(left: int, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    run_into(path)
    content = path.read_bytes()
    path.write_bytes(content[:-left])
    record = read_record(path)
    assert record.torn == (content[-left - 1 : -left] != b"\n")
    assert len(record.events) == content[:-left].count(b"\n")
    assert record.end is None


def test_a_record_that_gzip_has_packed_is_read_as_it_was(tmp_path: Path) -> None:
    path, packed = tmp_path / "run.jsonl", tmp_path / "packed" / "run.jsonl.gz"
    packed.parent.mkdir()
    run_into(path)
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert read_record(packed).events == read_record(path).events
    assert list(reader.follow(packed, goes_on=lambda: False)) == read_record(path).events
    assert reader.records_in([tmp_path]) == [packed, path]
    packed.write_bytes(packed.read_bytes()[:-100])
    with pytest.raises(RecordError, match=r"run\.jsonl\.gz: cannot be read: Compressed file ended"):
        read_record(packed)


# ---------------------------------------------------------------------- disks


@pytest.mark.parametrize("size", [100, 7000, 20001])
def test_on_a_full_disk_the_run_goes_on_and_says_once_that_it_is_not_recorded(
    size: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "run.jsonl"
    with files_of_at_most(size), caplog.at_level(logging.WARNING):
        result = run_into(path)
    assert result.end == "done"
    (said,) = [record.message for record in caplog.records if "not recorded any more" in record.message]
    assert str(path) in said
    if size > 1000:
        record = read_record(path)
        assert (record.torn, record.end, len(record.events) > 2) == (True, None, True)


def test_where_the_folder_vanishes_the_run_goes_on_and_says_so_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "runs"

    class Vanishing(ScriptedModel):
        def decide(self, request: DecisionRequest) -> Pending[Reply]:
            if len(self.requests) == 2:
                shutil.rmtree(folder)
            return super().decide(request)

    file = RecordFile(folder / "run.jsonl")
    given: dict[str, Any] = {"world": ScriptedWorld(), "model": Vanishing(SCRIPT), "planner": planner("reactree_wm")}
    episode = Episode("root", record=Recorder(file.write, flush=file.flush), **given)
    with caplog.at_level(logging.WARNING):
        assert episode.run().end == "done"
    assert [record.message for record in caplog.records] == [
        f"the run is not recorded any more: {folder / 'run.jsonl'}: the file is gone"
    ]


def test_a_run_that_did_not_start_leaves_no_file_behind(tmp_path: Path) -> None:
    for _ in range(2):
        file = RecordFile(tmp_path / "run.jsonl")
        file.close()
        file.close()
        assert not file.path.exists()


def test_a_record_is_never_written_over_another_file(tmp_path: Path) -> None:
    (tmp_path / "there.jsonl").touch()
    with pytest.raises(UserError, match=r"there\.jsonl: is there already; name a new file"):
        RecordFile(tmp_path / "there.jsonl")
    with pytest.raises(UserError, match="cannot be made"):
        RecordFile(tmp_path / "there.jsonl" / "run.jsonl")


# ---------------------------------------------------------------------- reading


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not a record of a run"),
        (b'{"e":"run","schema":1', "is not a record of a run"),
        (b"\n", "is not a record of a run"),
        (b'{"task_id": 3}\n', "is not a record of a run"),
        (b'[1]\n{"e":"grow"}\n', "is not a record of a run"),
        (b"\xff\xfe\n", "is not a record of a run"),
        (b'{"e":"run","schema":2}\n', "is a record of schema 2, which this version .schema 1. does not know"),
        (b'{"e":"run","schema":1}\n', r"line 1 \(run\): t lacks"),
        (HEAD + b'{"e":\n{"e":"end"}\n', r"line 2 is not an event: b'{\"e\":"),
        (HEAD + b"7\n", "line 2 is not an event"),
    ],
)
def test_what_is_no_record_is_refused_in_one_line(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_bytes(content)
    with pytest.raises(RecordError, match=message) as raised:
        read_record(path)
    assert "\n" not in str(raised.value)


def test_what_is_not_there_and_folders_are_named(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"nowhere\.jsonl: cannot be read: No such file"):
        read_record(tmp_path / "nowhere.jsonl")
    with pytest.raises(RecordError, match="is a folder"):
        read_record(tmp_path)
    with pytest.raises(RecordError, match="holds no record of a run"):
        reader.records_in([tmp_path])


def test_a_record_is_followed_while_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "FOLLOW_PERIOD", 0.0)
    episode, kept = recorded_episode(SCRIPT)
    episode.run()
    path, text = tmp_path / "run.jsonl", "".join(f"{line}\n" for line in kept.lines)
    pieces = iter([text[at : at + 97] for at in range(0, len(text), 97)])

    def write_more() -> bool:
        with path.open("a") as file:
            file.write(next(pieces))
        return True

    assert list(follow(path, goes_on=write_more)) == kept.record.events


# ---------------------------------------------------------------------- moments


def test_a_moment_is_what_the_run_had_come_to() -> None:
    episode, kept = recorded_episode(SCRIPT, model=(model := ScriptedModel(SCRIPT)))
    result = episode.run()
    moment = Moment.after(kept.record.events)
    nodes = episode.context.nodes
    assert [node.turns for node in moment.goal_nodes] == [node.turns for node in nodes]
    assert [node.status for node in moment.goal_nodes] == [node.status.value.lower() for node in nodes]
    assert [(node.start, node.depth, node.index) for node in moment.goal_nodes] == [
        (node.start, node.depth, node.index) for node in nodes
    ]
    assert (moment.decisions, moment.steps) == (result.decisions, result.steps)
    assert [request.prompt for request in moment.requests.values()] == [tuple(one.turns) for one in model.requests]
    assert experiences_of(moment) == episode.experiences()
    assert moment.skills[""] == list(episode.context.world.available_skills().take())


def test_a_record_keeps_every_request_and_plays_it_again() -> None:
    said = iter(["Act: fly", "I would rather swim.", "Act: open fridge 1", "Act: done"])
    model = Chatting(lambda generation: Generated(next(said), "stop", 10, 4, 3))
    episode, kept = recorded_episode({}, name="react", model=model)
    result = episode.run()
    replies = [request.reply for request in Moment.after(kept.record.events).requests.values()]
    assert replies == [reply for _, _, reply in episode.context.replies]
    assert [[one.text for one in reply.attempts] for reply in replies if reply] == [
        ["Act: fly", "I would rather swim.", ""],
        [""],
    ]
    assert (result.replies, result.attempts, result.refused_attempts, result.refused_tokens) == (2, 4, 2, 6)
    assert_replays(kept)


def test_what_only_the_node_refuses_counts_as_refused() -> None:
    said = iter(["Expand:\n- control flow: sequence\n- subgoals: ROOT", "Act: done"])
    model = Chatting(lambda generation: Generated(next(said), "stop", 10, 4, 3))
    episode, kept = recorded_episode({}, name="reactree", model=model)
    result = episode.run()
    assert (result.replies, result.attempts, result.refused_attempts, result.refused_tokens) == (2, 2, 1, 3)
    assert_replays(kept)


class Failing(LanguageModel):
    """Fails for tokens."""

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        error = ServerUnavailable("gone")
        error.took = Reply("", prompt_tokens=90, output_tokens=7, attempts=(Attempt("fly", "No.", output_tokens=7),))
        return Pending.failed(error)


@pytest.mark.parametrize("name", ["react", "reactree_wm", "tree_planner:plans=3"])
def test_what_a_failed_request_took_is_counted_and_checked(name: str) -> None:
    episode, kept = recorded_episode({}, name=name, model=Failing(), world=SymbolicWorld(TASK))
    result, events = episode.run(), kept.record.events
    assert (result.prompt_tokens, Moment.after(events).prompt_tokens) == (90, 90)
    assert (result.attempts, result.refused_attempts, result.refused_tokens) == (1, 1, 7)
    assert [size.output for size in told_by(events).sizes] == [7]
    assert_replays(kept)
    check, at = Check(), next(at for at, event in enumerate(events) if event["e"] == "failed")
    for line in kept.lines[:at]:
        check.event(line.encode())
    broken = {**events[at], "took": {"text": "", "attempts": [{"output_tokens": "many"}]}}
    with pytest.raises(ValueError, match="output_tokens"):
        check.event(writer.encoded(broken))


def test_every_moment_holds_what_was_known_by_then() -> None:
    moment, known = Moment(), 0
    for number, event in enumerate(whole_events(), 1):
        moment.apply(event)
        assert moment.count == number
        assert len(moment.nodes) >= len(moment.started)
        known = max(known, len(moment.known))
        if event["e"] == "decided":
            assert moment.decisions == event["decisions"]
    assert known > 20
    assert len(moment.rooms) == 5


def test_turns_that_a_planner_appends_itself_are_written_in_their_place() -> None:
    class Own(GoalNode):
        def program(self) -> Program:
            self.turns = [Told("Your task is to: root")]
            self.see((yield from self.look_around()))
            self.turns.append(Told("Look."))
            reply = yield from self.ask(FreeText())
            self.say(reply.text, None)
            self.turns.append(Told("Well."))
            return True

    builder = Builds(lambda goal, context: Own(goal, context))
    episode, kept = recorded_episode({"root": ["I look."]}, builder=builder)
    episode.run()
    moment = Moment.after(kept.record.events)
    assert moment.root.turns == episode.context.nodes[0].turns
    assert [turn.text for turn in moment.requests["0.1"].prompt[-2:]] == [START, "Look."]
    assert_replays(kept, builder)


@pytest.mark.parametrize("kind", ["started", "request", "reply", "turn", "decided", "grow", "ended"])
def test_a_record_that_somebody_broke_is_told_by_event(kind: str) -> None:
    episode, kept = recorded_episode(SCRIPT)
    episode.run()
    events = kept.record.events
    number = next(number for number, event in enumerate(events) if event["e"] == kind)
    broken = {"e": kind, "t": 0.0, "of": "observe"}
    with pytest.raises(RecordError, match=rf"event {number} \({kind}\) of the record cannot be used: (Key|Value)Error"):
        Moment.after([*events[:number], broken, *events[number + 1 :]])


def test_differences_of_skills_give_the_list_back_in_its_order() -> None:
    lists = [["a", "b"], ["a", "b"], ["b", "a"], [], ["x", "b", "y", "a"], ["x", "y", "a"], ["x", "y", "a", "a"], ["a"]]
    for old in lists:
        for new in lists:
            assert skills_after(old, skills_difference(old, new)) == new
    assert skills_difference(("a", "b"), ["a", "b"]) == {}
    assert skills_difference(["a", "b", "c"], ["a", "d", "c"]) == {"at": 1, "added": ["d"], "removed": ["b"]}


# ---------------------------------------------------------------------- what it holds, and what not


def test_a_record_is_ascii_and_keeps_halves_of_characters() -> None:
    instruction = "<script>\u202e\x1b[2J \ud83d \N{SNOWMAN}"
    episode, kept = recorded_episode({instruction: ["Act: done"]}, name="react", instruction=instruction)
    episode.run()
    assert all(line.isascii() for line in kept.lines)
    assert kept.record.run["instruction"] == instruction
    assert_replays(kept)


def test_a_picture_that_is_too_large_and_those_beyond_what_a_run_may_have_are_left_out_and_it_is_said_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    small, large = drawn(1), drawn(2, width=999)
    pictures = iter((small, large, drawn(3), drawn(4), small))

    class Camera(ScriptedWorld):
        def execute(self, skill: str) -> Pending[Observation]:
            return Pending.ready(Observation("A kitchen.", pictures=(next(pictures),)))

    monkeypatch.setattr(writer, "LARGEST_PICTURE", small.size)
    monkeypatch.setattr(writer, "ALL_PICTURES", 2 * small.size)
    episode, kept = recorded_episode({"root": [*["Act: open fridge 1"] * 5, "Act: done"]}, world=Camera())
    assert episode.run().end == "done"
    looks = [event for event in kept.events_of("observation") if event["of"] == "execute"]
    assert ["data" in event["pictures"][0] for event in looks] == [True, False, True, False, False]
    assert [one.getMessage() for one in caplog.records if "picture" in one.getMessage()] == [
        f"a picture of {large.size} bytes is not recorded: each may have {small.size}, those of a run together "
        f"{2 * small.size}; let the world take smaller ones, or none"
    ]
    assert replay(kept.record).identical


def test_keys_in_the_settings_of_whatever_world_or_model_are_left_out() -> None:
    hush = "sk-hush-4711"
    world = {"name": "w", "settings": {"api_key": hush, "url": f"http://me:{hush}@here/", "size": 3}}
    llm = {"llm": "m", "models": [{"headers": {"Authorization": f"Bearer {hush}"}, "Api-Key": hush, "token": 7}]}
    kept = Kept()
    of_the_expert(Recorder(kept.write, world=world, llm=llm)).run()
    assert hush not in "".join(kept.lines)
    assert kept.record.run["world"] == {"name": "w", "settings": {"url": "http://here/", "size": 3}}
    assert kept.record.run["llm"] == {"llm": "m", "models": [{"headers": {}, "token": 7}]}


def test_training_data_holds_what_was_taken_and_not_what_was_refused() -> None:
    episode, kept = recorded_episode(SCRIPT)
    episode.run()
    lines = list(training_lines(kept.record, chat=False))
    assert [line["completion"] for line in lines] == [
        "Think: a",
        expand("fallback", "a", "b"),
        "Act: open fridge 1",
        "Act: failure",
        "Act: recall location of apple",
        "Act: done",
    ]
    assert "sing" in lines[3]["prompt"]  # that it was refused is what the next decision follows
    for line in training_lines(kept.record, chat=True):
        roles = [message["role"] for message in line["messages"]]
        assert (roles[0], roles[1], roles[-1]) == ("system", "user", "assistant")
        json.dumps(line)


# ---------------------------------------------------------------------- going on where things are otherwise


class Otherwise(WorldWrapper):
    """A world in which the second skill comes to something else."""

    skills = 0

    def execute(self, skill: str) -> Pending[Observation]:
        self.skills += 1
        came = super().execute(skill)
        return Pending.ready(Observation("A dragon sits there.")) if self.skills == 2 else came


def test_what_comes_to_something_else_is_told_and_the_run_looks_around_anew(whole: tuple[Path, EpisodeResult]) -> None:
    record, kept, told = read_record(whole[0]), Kept(), []
    with Otherwise(SymbolicWorld(TASK)) as world:
        episode = go_on(
            record,
            decision_of(record, 20),
            world=world,
            model=ExpertModel(),
            write=kept.write,
            differs=lambda what, recorded, now: told.append((what, now)),
        )
        assert episode.run().end == "done"
    skills = [event["skill"] for event in record.events if event["e"] == "skill"]
    assert told == [(skills[1], "A dragon sits there.")]
    assert [event["text"] for event in kept.events_of("differs")] == ["A dragon sits there."]
    assert any(
        event.get("saw", "").startswith("You had to wait: not everything came to") for event in kept.events_of("turn")
    )
    assert replay(kept.record).identical


def test_a_record_that_this_version_does_not_make_again_cannot_be_gone_on_with(
    whole: tuple[Path, EpisodeResult],
) -> None:
    events = [dict(event) for event in read_record(whole[0]).events]
    next(event for event in events if event["e"] == "decided")["decisions"] = 7
    with SymbolicWorld(TASK) as world, pytest.raises(UserError, match="cannot be brought to where it was: event"):
        go_on(Record(events), 60, world=world, model=ExpertModel(), write=Kept().write)


# ---------------------------------------------------------------------- going on later, from what is there now


class Counting(WorldWrapper):
    """A world that tells what is done in it."""

    def __init__(self, inner: World) -> None:
        super().__init__(inner)
        self.done: list[str] = []

    def execute(self, skill: str) -> Pending[Observation]:
        self.done.append(skill)
        return super().execute(skill)


def left_of(count: int) -> tuple[Record, SymbolicWorld]:
    """What a kill left after so many events: the record, and the world in which its skills were carried out."""
    kept, world = Kept(), SymbolicWorld(TASK)

    def write(event: dict[str, Any]) -> None:
        if len(kept.lines) == count:
            raise KeyboardInterrupt
        kept.write(event)

    episode = of_the_expert(Recorder(write), world)
    with suppress(KeyboardInterrupt):
        while not episode.finished:
            episode.tick()
    assert len(kept.lines) == count
    return kept.record, world


@pytest.mark.parametrize("count", [2, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 80, 120])
def test_a_run_goes_on_later_without_doing_anything_again(count: int) -> None:
    record, standing = left_of(count)
    kept, world = Kept(), Counting(standing)
    given: dict[str, Any] = {"world": world, "model": ExpertModel(), "write": kept.write}
    episode = go_on(record, stop_of(record), later=True, **given)
    stood = [node.status for node in episode.context.nodes]
    before = len([event for event in record.events if event["e"] == "decided"])
    assert not world.done
    result = episode.run()
    assert result.end == "done"
    assert result.gsr == 1.0
    assert len(world.done) == carried_out(kept.record) - carried_out(record)
    assert result.decisions > before
    ended = [node for node, status in zip(episode.context.nodes, stood, strict=False) if status == Status.SUCCESS]
    assert all(node.status == Status.SUCCESS for node in ended)
    assert any(LATER in event.get("saw", "") for event in kept.events_of("turn"))
    assert replay(kept.record).identical


def carried_out(record: Record) -> int:
    return sum(event["e"] == "observation" and event["of"] == "execute" for event in record.events)


def test_a_skill_that_was_under_way_is_told_to_be_broken_off_and_not_done_again() -> None:
    count = next(at for at, event in enumerate(whole_events(), 1) if event["e"] == "skill")
    record, standing = left_of(count)
    kept, world = Kept(), Counting(standing)
    episode = go_on(record, stop_of(record), world=world, model=ExpertModel(), write=kept.write, later=True)
    episode.tick()
    assert not world.done
    assert kept.record.events[-1]["e"] in ("held", "status")
    assert episode.run().end == "done"
    seen = [event["saw"] for event in kept.events_of("turn") if "saw" in event]
    assert any(words.startswith(f"You were stopped before you had done it: {LATER}") for words in seen)


@pytest.mark.parametrize("ticks", [0, 1, 3])
@pytest.mark.parametrize("count", [2, 40, 41, 42, 43, 44, 45, 46])
def test_a_person_may_pause_it_or_let_it_go_on_as_soon_as_it_is_there(count: int, ticks: int) -> None:
    record, standing = left_of(count)
    kept = Kept()
    given: dict[str, Any] = {"world": standing, "model": ExpertModel(), "write": kept.write}
    episode = go_on(record, stop_of(record), later=True, **given)
    episode.resume()
    episode.pause()
    for _ in range(ticks):
        episode.tick()
    episode.resume()
    assert episode.run().gsr == 1.0
    assert replay(kept.record).identical


def whole_events() -> list[dict[str, Any]]:
    kept = Kept()
    of_the_expert(Recorder(kept.write)).run()
    return kept.record.events


def test_what_is_not_where_the_record_has_it_is_told() -> None:
    record, standing = left_of(60)
    way = WayBack(record, stop_of(record), world=standing, model=ExpertModel(), write=Kept().write, later=True)
    known = Moment.after(record.events).known
    one, other = [seen for seen in known.values() if seen.room and not seen.held][:2]
    now = Observation("", seen=(one, dataclasses.replace(other, room="cellar 1", place=None)))
    (told,) = way.otherwise(now)
    assert told == f"{other.word} {other.instance} is at cellar 1, the record has it " + told.rpartition("has it ")[2]
    assert str(other.room) in told


class Deeper(ScriptedModel):
    """Names one smaller goal after the other, as long as it may."""

    def __init__(self) -> None:
        super().__init__({})

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        refused = "must not grow beyond" in request.turns[-1].text
        goal = goal_of(request.prompt)
        smaller = str(int(goal) + 1) if goal.isdigit() else "1"
        return Pending.ready(Reply("Act: done" if refused else expand("sequence", smaller)))


@pytest.mark.parametrize("stopped", [False, True])
def test_the_deepest_tree_of_all_is_stopped_recorded_and_played_again(stopped: bool) -> None:
    options = TreeOptions(max_depth=0, max_decisions=1000, stuck_after=0)
    episode, kept = recorded_episode({}, name="reactree", model=Deeper(), options=options)
    while not (episode.finished or (stopped and kept.lines and len(episode.context.nodes) == (DEEPEST + 1) // 2)):
        episode.tick()
    if stopped:
        episode.interrupt()
    result = episode.scored()
    assert (result.end, result.agent_nodes, result.max_depth) == ("interrupted" if stopped else "done", 100, DEEPEST)
    assert Moment.after(kept.record.events).started == [node["node"] for node in agents(kept)]
    assert_replays(kept)
    with pytest.raises(ValidationError, match=f"less than or equal to {DEEPEST}"):
        TreeOptions(max_depth=DEEPEST + 2)


def agents(kept: Kept) -> list[dict[str, Any]]:
    return [node for event in kept.events_of("grow") for node in event["nodes"] if node["kind"] == "agent"]


# ---------------------------------------------------------------------- very deep trees


@pytest.mark.slow
def test_a_record_of_a_chain_of_2000_agent_nodes_is_read_and_exported(tmp_path: Path) -> None:
    episode, kept = recorded_episode({"root": ["Act: done"]})
    episode.run()
    begin, root, *_, end = kept.record.events
    grown = []
    for above in range(0, 4000, 2):
        sequence = {"node": above + 1, "parent": above, "kind": "sequence", "name": "sequence"}
        agent = {"node": above + 2, "parent": above + 1, "kind": "agent", "name": f"{above}", "subgoal": f"{above}"}
        grown.append({"e": "grow", "nodes": [sequence, agent | {"depth": above + 3}], "t": 0.0})
        grown.append({"e": "started", "node": above + 2, "index": above // 2 + 1, "decision": 1, "t": 0.0})
    record = Record([begin, root, *grown, end])
    assert len(Moment.after(record.events).started) == 2000
    for kind in ("svg", "dot", "markdown"):
        write_exports([record], kind, tmp_path / f"chain.{kind}")
        assert "3998" in (tmp_path / f"chain.{kind}").read_text()
