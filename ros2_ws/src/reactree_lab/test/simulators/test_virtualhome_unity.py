"""VirtualHome's Unity client in front of a peer: whole tasks, what is refused, what breaks and how it goes on."""

from __future__ import annotations

import os
import socket
import stat
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from virtualhome_peer import VirtualHomePeer

import reactree_ros
from reactree_lab.worlds import running
from reactree_lab.worlds import virtualhome_unity as client
from reactree_lab.worlds.virtualhome_unity import UnitySettings, VirtualHomeUnityWorld
from reactree_ros.agent.picture import PICTURES
from reactree_ros.agent.turns import node_text
from reactree_ros.episode import Episode, EpisodeResult
from reactree_ros.errors import UserError
from reactree_ros.household.expert.model import ExpertModel
from reactree_ros.household.houses import HOUSES
from reactree_ros.household.scene import Scene
from reactree_ros.household.symbolic import SymbolicWorld
from reactree_ros.household.tasks import Task, load_tasks
from reactree_ros.planners.spec import planner
from reactree_ros.world.check import check_world
from reactree_ros.world.port import Observation, Outcome, World, WorldError

pytestmark = pytest.mark.worlds

PATIENCE = 60.0
TASK = load_tasks(HOUSES["apartment"])[0]
MakeWorld = Callable[..., VirtualHomeUnityWorld]


@pytest.fixture
def peer() -> Iterator[VirtualHomePeer]:
    with VirtualHomePeer([TASK]) as peer:
        yield peer


@pytest.fixture
def make_world() -> Iterator[MakeWorld]:
    made = []

    def make(port: int, task: Task = TASK, **options: object) -> VirtualHomeUnityWorld:
        settings = UnitySettings.model_validate({"port": port, "time_limit": 20.0, **options})
        made.append(VirtualHomeUnityWorld(settings, task))
        return made[-1]

    yield make
    for world in made:
        world.close()


def carried_out(task: Task, world: World) -> tuple[EpisodeResult, list[str]]:
    episode = Episode(
        task.instruction, world=world, model=ExpertModel(), planner=planner("reactree_wm"), task_id=task.task_id
    )
    result = replace(episode.run(), seconds=0, model_seconds=0)
    return result, [node_text(node.turns) for node in episode.context.nodes]


def done(world: World, *skills: str) -> Observation:
    for skill in skills:
        observation = world.execute(skill).result(PATIENCE)
        assert observation.outcome is Outcome.DONE, observation.text
    return observation


def test_tasks_are_carried_out_as_in_the_symbolic_world(wah_nl: Path, make_world: MakeWorld) -> None:
    tasks = load_tasks(wah_nl / "tasks.json")[::7][:5]
    for task in tasks:
        with VirtualHomePeer([task]) as peer:
            result, texts = carried_out(task, make_world(peer.port, task))
        expected, expected_texts = carried_out(task, SymbolicWorld(task))
        assert texts == expected_texts, task.task_id
        assert result == expected
        assert bool(peer.lines) == (result.steps > 0), task.task_id  # what the expert does not understand moves nothing


def test_what_is_asked_of_the_simulator_are_lines_of_its_script(peer: VirtualHomePeer, make_world: MakeWorld) -> None:
    result, _ = carried_out(TASK, make_world(peer.port))
    assert result.achieved
    assert any(line.startswith("<char0> [putback] <") and line.count("(") == 2 for line in peer.lines)
    assert {line.split("[")[1].split("]")[0] for line in peer.lines} <= {"walk", "grab", "putback", "putin", "open"}


def test_a_skill_that_is_refused_by_the_rules_does_not_reach_the_simulator(
    peer: VirtualHomePeer, make_world: MakeWorld
) -> None:
    world = make_world(peer.port)
    refused = world.execute("pick up apple 1").result(PATIENCE)
    assert (refused.outcome, refused.text) == (Outcome.PRECONDITION, "The apple is not close to you.")
    unknown = world.execute("go to moon 1").result(PATIENCE)
    assert (unknown.outcome, unknown.text) == (Outcome.UNKNOWN_SKILL, "There is no moon 1 in the house.")
    assert peer.lines == []
    assert "render_script" not in peer.asked


def test_the_world_keeps_to_the_port(peer: VirtualHomePeer, make_world: MakeWorld) -> None:
    assert check_world(make_world(peer.port), tries=20, at_once=PATIENCE, timeout=PATIENCE) == []


@pytest.mark.parametrize(
    ("quirk", "place", "skills", "text"),
    [
        (
            "grab_no_effect",
            "kitchen counter 1",
            ["pick up pudding 2"],
            "You tried to pick up pudding 2, but you do not hold the pudding.",
        ),
        (
            "put_no_effect",
            "kitchen counter 1",
            ["pick up pudding 2", "put down pudding 2"],
            "You tried to put down pudding 2, but the pudding is not there. You hold pudding (2).",
        ),
        ("open_no_effect", "fridge 1", ["open fridge 1"], "You tried to open fridge 1, but the fridge is not open."),
    ],
)
def test_what_the_simulator_says_is_done_but_does_not_hold_is_told(
    make_world: MakeWorld, quirk: str, place: str, skills: list[str], text: str
) -> None:
    scene = Scene(TASK.init_graph, init_room=TASK.init_room)
    thing = scene.by_name["fridge 1" if quirk == "open_no_effect" else "pudding 2"]
    what = (thing.id, scene.by_name[place].class_name) if quirk == "put_no_effect" else thing.id
    task = Task.model_validate({**TASK.model_dump(), "recorded_quirks": {quirk: [what]}})
    with VirtualHomePeer([task], honour_quirks=True) as peer:
        world = make_world(peer.port, task)
        *before, last = "go to kitchen 1", f"go to {place}", *skills
        done(world, *before)
        observation = world.execute(last).result(PATIENCE)
    assert observation.outcome is Outcome.POSTCONDITION
    assert observation.text.startswith(text)


def test_a_skill_that_the_simulator_refuses_says_why(peer: VirtualHomePeer, make_world: MakeWorld) -> None:
    world = make_world(peer.port)
    world.reset().result(PATIENCE)
    peer.misbehave["render_script"] = "refuse"
    observation = world.execute("go to kitchen 1").result(PATIENCE)
    assert observation.outcome is Outcome.EXECUTION
    assert observation.text.startswith("You could not go to kitchen 1: no way.")
    del peer.misbehave["render_script"]
    assert done(world, "go to kitchen 1").text.startswith("You move to the kitchen (1).")


def test_reset_brings_the_apartment_back(peer: VirtualHomePeer, make_world: MakeWorld) -> None:
    world = make_world(peer.port)
    first = world.observe().result(PATIENCE)
    done(world, "go to kitchen 1")
    assert world.observe().result(PATIENCE) != first
    assert world.reset(seed=1).result(PATIENCE) == first
    assert world.observe().result(PATIENCE) == first
    score = world.score().result(PATIENCE)
    assert score is not None
    assert score.gsr == 0.0


def test_a_room_of_several_of_its_class_is_the_task_s(make_world: MakeWorld) -> None:
    document = TASK.model_dump()
    graph = document["init_graph"]
    agent = next(node["id"] for node in graph["nodes"] if node["class_name"] == "character")
    room = max(node["id"] for node in graph["nodes"] if node["category"] == "Rooms")
    graph["nodes"].append({**next(node for node in graph["nodes"] if node["id"] == room), "id": 999})
    for edge in graph["edges"]:
        if edge["from_id"] == agent and edge["relation_type"] == "INSIDE":
            edge["to_id"] = 999
    task = Task.model_validate(document)
    with VirtualHomePeer([task]) as peer:
        assert "(2). Looking" in make_world(peer.port, task).observe().result(PATIENCE).text


def test_pictures_come_with_observations_where_they_are_asked_for(peer: VirtualHomePeer, make_world: MakeWorld) -> None:
    assert make_world(peer.port).observe().result(PATIENCE).pictures == ()
    (picture,) = make_world(peer.port, pictures=True).observe().result(PATIENCE).pictures
    assert picture.media == "image/png"
    assert (PICTURES.data(picture) or b"").startswith(b"\x89PNG")
    peer.misbehave["camera_image"] = "refuse"
    assert make_world(peer.port, pictures=True).observe().result(PATIENCE).pictures == ()


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("hang", "did not answer within 0.5 s"),
        ("garbage", "sent an answer that VirtualHome never sends"),
        ("other", "sent an answer that VirtualHome never sends"),
        ("half", "it closed the connection"),
        ("close", "it closed the connection"),
        ("error", "refused the request with status 500: "),
        ("die", "it closed the connection"),
    ],
)
@pytest.mark.parametrize("action", ["environment", "render_script", "environment_graph"])
def test_a_simulator_that_fails_is_named_within_the_bound(
    peer: VirtualHomePeer, make_world: MakeWorld, action: str, how: str, said: str
) -> None:
    world = make_world(peer.port, time_limit=0.5 if how == "hang" else PATIENCE)
    if action == "render_script":
        world.reset().result(PATIENCE)
    peer.misbehave[action] = how
    with pytest.raises(WorldError, match=f"VirtualHome at 127.0.0.1:{peer.port}") as error:
        world.execute("go to kitchen 1").result(PATIENCE)
    assert said in str(error.value)
    assert "\n" not in str(error.value)
    if how != "die":
        peer.misbehave.clear()
        assert done(world, "go to kitchen 1").text.startswith("You move to the kitchen (1).")


def test_a_simulator_that_is_not_there_is_named(make_world: MakeWorld) -> None:
    with pytest.raises(WorldError, match="cannot be reached: it is not running there"):
        make_world(free_port()).reset().result(PATIENCE)


def test_an_apartment_that_is_not_there_is_named(peer: VirtualHomePeer, make_world: MakeWorld) -> None:
    task = Task.model_validate({**TASK.model_dump(), "env_id": 49})
    with pytest.raises(WorldError, match="has no apartment 49"):
        make_world(peer.port, task).reset().result(PATIENCE)


def test_the_executable_is_started_and_ended(tmp_path: Path, make_world: MakeWorld) -> None:
    port = free_port()
    world = make_world(port, executable=str(executable(tmp_path)))
    done(world, "go to kitchen 1")
    world.close()
    with pytest.raises(WorldError):
        make_world(port).reset().result(PATIENCE)


def test_a_simulator_that_dies_is_started_again_and_the_task_goes_on(tmp_path: Path, make_world: MakeWorld) -> None:
    world = make_world(free_port(), executable=str(executable(tmp_path, dies_after=2)))
    done(world, "go to kitchen 1")
    here = done(world, "go to bedroom 1")
    with pytest.raises(WorldError, match="closed the connection"):
        world.execute("go to kitchen 1").result(PATIENCE)
    again = world.observe().result(PATIENCE)
    assert "You are in the middle of a bedroom (1)." in again.text
    assert again.seen == here.seen
    done(world, "go to kitchen 1")


def test_a_task_that_cannot_be_resumed_says_so_until_it_is_reset(peer: VirtualHomePeer, make_world: MakeWorld) -> None:
    world = make_world(peer.port, time_limit=2.0)
    done(world, "go to kitchen 1")
    peer.misbehave["render_script"] = "hang"
    with pytest.raises(WorldError):
        world.execute("go to bedroom 1").result(PATIENCE)
    peer.misbehave["render_script"] = "refuse"
    for _ in range(2):
        with pytest.raises(WorldError, match=r"the task cannot be resumed, .* is refused now: no way; reset the world"):
            world.observe().result(PATIENCE)
    peer.misbehave.clear()
    world.reset().result(PATIENCE)
    done(world, "go to bedroom 1")


def test_a_cancelled_skill_is_at_rest_when_the_simulator_has_ended_it(
    peer: VirtualHomePeer, make_world: MakeWorld
) -> None:
    world = make_world(peer.port, time_limit=2.0)
    world.reset().result(PATIENCE)
    peer.misbehave["render_script"] = "hang"
    skill, waiting = world.execute("go to kitchen 1"), world.execute("go to bedroom 1")
    rest = world.at_rest()
    skill.cancel()
    waiting.cancel()
    rest.result(PATIENCE)
    assert peer.asked.count("render_script") <= 1


@pytest.mark.parametrize("problem", ["missing", "ends", "silent"])
def test_a_wrong_executable_is_named(
    tmp_path: Path, make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch, problem: str
) -> None:
    monkeypatch.setattr(client, "START_LIMIT", 1.0)
    program = tmp_path / "virtualhome.x86_64"
    if problem == "missing":
        with pytest.raises(UserError, match=r"virtualhome\.x86_64: is not an executable file"):
            make_world(free_port(), executable=str(program))
        return
    program.write_text("#!/bin/sh\n" + {"ends": "exit 4\n", "silent": "exec sleep 100\n"}[problem])
    program.chmod(stat.S_IRWXU)
    world = make_world(free_port(), executable=str(program))
    said = {"ends": "ended with exit code 4 during its start", "silent": "did not answer within 1 s after its start"}
    with pytest.raises(WorldError, match=said[problem]):
        world.reset().result(PATIENCE)


def test_an_executable_of_a_wrong_format_is_named(tmp_path: Path, make_world: MakeWorld) -> None:
    program = tmp_path / "virtualhome.x86_64"
    program.write_bytes(b"\x00\x01no program")
    program.chmod(stat.S_IRWXU)
    with pytest.raises(WorldError) as error:
        make_world(free_port(), executable=str(program)).reset().result(PATIENCE)
    assert str(error.value) == f"VirtualHome ({program}) cannot be started: Exec format error"


def test_closing_while_the_simulator_hangs_ends_it(
    tmp_path: Path, make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "CLOSE_LIMIT", 0.1)
    program = tmp_path / "virtualhome.x86_64"
    pids = tmp_path / "pids"
    os.mkfifo(pids)
    program.write_text(f"#!/bin/sh\necho $$ > '{pids}'\nexec sleep 100\n")
    program.chmod(stat.S_IRWXU)
    with socket.create_server(("127.0.0.1", 0)) as hangs:  # takes requests and never answers
        world = make_world(hangs.getsockname()[1], executable=str(program), time_limit=PATIENCE)
        pending = world.reset()
        pid = int(pids.read_text())
        hangs.settimeout(PATIENCE)
        hangs.accept()
        world.close()
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
        with pytest.raises(WorldError):
            pending.result(PATIENCE / 4)


def executable(folder: Path, dies_after: int = 0) -> Path:
    """Make an executable of the peer."""
    program = folder / "virtualhome.x86_64"
    peer = Path(__file__).with_name("virtualhome_peer.py")
    path = Path(reactree_ros.__file__).parents[1]
    variables = f"PYTHONPATH='{path}' PEER_TASKS='{HOUSES['apartment']}' PEER_DIES_AFTER={dies_after}"
    variables += f" PEER_DIED='{folder / 'died'}'"
    program.write_text(f"#!/bin/sh\n{variables} exec '{sys.executable}' '{peer}' \"$@\"\n")
    program.chmod(stat.S_IRWXU)
    return program


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
