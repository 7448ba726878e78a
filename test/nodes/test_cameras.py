"""Skills that take pictures, and checks that look at them: from the camera's topic to the planner's observation."""

from __future__ import annotations

import importlib.util
import io
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from builtin_interfaces.msg import Time
from drawn import data_of, drawn, png
from openai_peer import Peer, fails, never_answers
from processes import Patience
from reactree_interfaces.msg import Observation as ObservationMsg
from robot_house import SKILLS, House, Result
from ros_graph import Graph
from sensor_msgs.msg import CompressedImage, Image
from std_msgs.msg import Header
from test_robot_check import checked, wrong

from reactree_ros.agent.observation import Observation
from reactree_ros.agent.picture import CANNOT_SEE, NO, YES, Glance
from reactree_ros.agent.turns import Saw, Told, Turn
from reactree_ros.background.pending import Pending
from reactree_ros.llm.port import DecisionRequest, FreeText, LanguageModel, Reply
from reactree_ros.llm.seeing import MOST_SHOWN, pictures_of
from reactree_ros.nodes.calls import Calls
from reactree_ros.nodes.heartbeat import Heartbeat
from reactree_ros.nodes.messages import _turn, observation_from_msg, observation_to_msg, turns_to_msgs
from reactree_ros.nodes.planner.adapters import RosLanguageModel, RosWorld
from reactree_ros.nodes.robot.mapped_skill import picture_from_camera

HEADER = {"frame_id": "head_optical", "stamp": {"sec": 1790000000, "nanosec": 250_000_000}}


def eyes(config: dict[str, Any]) -> None:
    config["cameras"] = {"head": "head/compressed", "hand": {"topic": "hand/raw", "type": "sensor_msgs/msg/Image"}}
    config["skills"] |= {name: SKILLS["seeing"][name] for name in ("look", "take picture", "look at")}
    config["look_time"] = 0.2


@pytest.fixture
def home(house: House) -> House:
    house.add_robot()
    house.start(eyes, server_timeout=5.0)
    return house


def header() -> Header:
    return Header(frame_id="head_optical", stamp=Time(**HEADER["stamp"]))


def looks(home: House, skill: str, topic: str, message: Any) -> Any:
    camera = home.graph.probe.create_publisher(type(message), topic, 1)
    goal = home.skill(skill)
    home.until(camera.get_subscription_count, "a picture is waited for")
    camera.publish(message)
    return goal.result


def test_a_picture_comes_back_byte_for_byte_with_its_camera_its_frame_and_its_time(home: House) -> None:
    raw, compressed = (
        home.graph.listen(kind, f"robot_bridge/{name}")
        for kind, name in ((Image, "image"), (CompressedImage, "image/compressed"))
    )
    result = looks(home, "look", "head/compressed", CompressedImage(header=header(), format="png", data=png()))
    assert (result.outcome, result.message) == (Result.DONE, "")
    (taken,) = observation_from_msg(result.observation).pictures
    assert data_of(taken) == png()
    assert (taken.camera, taken.frame, taken.time) == ("head", "head_optical", 1790000000.25)
    assert result.observation.text.startswith("You look.")
    home.until(lambda: compressed, "it is shown to people, too")
    assert (compressed[0].header.frame_id, compressed[0].format) == ("head_optical", "png")
    assert bytes(compressed[0].data) == png()
    if importlib.util.find_spec("PIL"):
        home.until(lambda: raw, "and raw to whom wants that")
        assert (raw[0].header.frame_id, raw[0].width, raw[0].height) == ("head_optical", 4, 4)


def test_a_raw_picture_becomes_a_jpeg(home: House) -> None:
    image = pytest.importorskip("PIL.Image")
    row = bytes((0, 0, 255)) * 10 + b"\0\0"  # red in BGR, and two bytes that are nothing
    raw = Image(header=header(), height=8, width=10, encoding="bgr8", step=32, data=row * 8)
    (taken,) = observation_from_msg(looks(home, "take a picture with the hand", "hand/raw", raw).observation).pictures
    assert (taken.media, taken.width, taken.height, taken.camera) == ("image/jpeg", 10, 8, "hand")
    red, green, blue = image.open(io.BytesIO(data_of(taken))).getpixel((5, 4))
    assert (red > 240, green < 20, blue < 20) == (True, True, True)


def test_the_robot_looks_at_something_and_takes_a_picture_of_it(home: House) -> None:
    message = CompressedImage(format="jpeg", data=png())  # whatever a driver says that it is
    result = looks(home, "look at kitchen table 1", "head/compressed", message)
    assert result.outcome == Result.DONE
    assert [data_of(one) for one in observation_from_msg(result.observation).pictures] == [png()]
    assert "turn the head to kitchen table 1" in "\n".join(home.robot.log)


def test_what_is_no_picture_ends_the_skill_with_the_reason_and_silence_is_not_waited_for(home: House) -> None:
    for encoding, data, said in (
        ("32FC1", b"\0" * 16, "its encoding is '32FC1'; it has to be one of rgb8, bgr8, rgba8, bgra8, mono8"),
        ("rgb8", b"\0" * 5, "2 by 2 pixels of rgb8 in 5 bytes"),
        ("mono8", b"", "2 by 2 pixels of mono8 in 0 bytes"),
    ):
        raw = Image(height=2, width=2, encoding=encoding, data=data)
        result = looks(home, "take a picture with the hand", "hand/raw", raw)
        assert result.outcome == Result.POSTCONDITION
        assert f"its picture cannot be read: {said}" in result.message
    result = home.skill("take a picture with the hand").result
    assert (result.outcome, result.observation.pictures) == (Result.TIMEOUT, [])
    assert "it took longer than 1 s and was stopped: hand/raw was silent" in result.message
    for data in (b"", b"GIF89a", b"x" * 100):
        with pytest.raises(ValueError, match=r"are not a picture|needs Pillow"):
            picture_from_camera(CompressedImage(data=data), "head")


def test_a_dry_run_waits_for_no_camera(graph: Graph, tmp_path: Path) -> None:
    home = House(graph, tmp_path)
    home.start(eyes, dry_run=True)
    assert home.skill("look").result.outcome == Result.DONE


def test_a_camera_that_nobody_publishes_is_named_by_the_check(home: House) -> None:
    home.graph.probe.create_publisher(Image, "hand/raw", 1)
    home.graph.probe.create_publisher(Image, "head/compressed", 1)
    found = {one.what: one.said for one in wrong(checked(home, eyes)) if "look" in one.what or "picture" in one.what}
    unlike = "/head/compressed is of type sensor_msgs/msg/Image, not sensor_msgs/msg/CompressedImage"
    assert found == {"skill 'look'": unlike, "skill 'look at', step 2 of 2": unlike}


class Sees(LanguageModel):
    def __init__(self) -> None:
        self.shown: list[list[bytes]] = []

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        pictures = [one for turn in request.turns for one in pictures_of(turn)]
        self.shown.append([data_of(one) for one in pictures])
        return Pending.ready(
            Reply("Fine.", pictures=len(pictures), picture_tokens=sum(one.tokens(768) for one in pictures))
        )


def test_a_picture_gets_from_the_camera_to_the_model_over_both_nodes(home: House) -> None:
    graph, model = home.graph, Sees()
    graph.inference(model)
    calls = Calls(graph.probe, patience=3600.0)
    graph.probe.create_timer(0.02, calls.watch)
    world = RosWorld(graph.probe, "robot_bridge", calls, Heartbeat(graph.probe))
    camera = graph.probe.create_publisher(CompressedImage, "head/compressed", 1)
    graph.settled(world.learn())
    seen = world.execute("look")
    graph.until(camera.get_subscription_count, "a picture is waited for")
    camera.publish(CompressedImage(header=header(), data=png()))
    graph.until(seen.done)
    observation = seen.take()
    reply = RosLanguageModel(graph.probe, "inference", calls).decide(
        DecisionRequest((Told("Your task is to: look"), Saw(observation.full_text, observation)), FreeText())
    )
    graph.until(reply.done)
    assert model.shown == [[png()]]
    assert (reply.take().pictures, reply.take().picture_tokens) == (1, 1)


def test_a_picture_that_is_too_large_is_made_smaller() -> None:
    image = pytest.importorskip("PIL.Image")
    file = io.BytesIO()
    image.effect_noise((3000, 2000), 100).save(file, "PNG")
    taken = picture_from_camera(CompressedImage(data=file.getvalue()), "head")
    assert (taken.media, taken.width, taken.height) == ("image/jpeg", 2048, 1365)


def test_the_newest_pictures_of_a_prompt_travel_to_the_model() -> None:
    def saw(number: int) -> Saw:
        seen = Observation("You look.", pictures=(drawn(number, camera="head"), drawn(1000 + number)))
        return Saw(seen.full_text, seen)

    turns: list[Turn] = [Told("Your task is to: look"), *map(saw, range(MOST_SHOWN))]
    came = [_turn(msg, number) for number, msg in enumerate(turns_to_msgs(turns))]
    assert came == turns
    assert [len(pictures_of(turn)) for turn in came] == [0] * (1 + MOST_SHOWN // 2) + [2] * (MOST_SHOWN // 2)
    assert pictures_of(came[-1]) == pictures_of(turns[-1])
    (msg,) = turns_to_msgs(turns[-1:])
    msg.pictures[0].data = b"hello"
    with pytest.raises(ValueError, match=r"turns\[0\]: "):
        _turn(msg, 0)


SWITCH = "turn on light switch 1"
HELD, FULL = (0, 255, 0), (255, 0, 0)


def sees(options: Sequence[str], peer: Peer) -> str:
    """What a peer says that looks at the picture's bytes: whether it is green."""
    if not peer.asked:
        return options[0]
    return YES if peer.asked[-1].pictures == [png(HELD)] else NO


@pytest.fixture
def peer() -> Iterator[Peer]:
    with Peer(chats=True, say=lambda prompt: "A green square.") as one:
        one.choose = lambda options: sees(options, one)
        yield one


@pytest.fixture
def look(house: House, peer: Peer) -> Iterator[Callable[..., House]]:
    """Makes a robot whose `wave` is checked by its camera, which publishes in some colours in turn."""

    def make(shown: list[tuple[int, int, int]], **check: Any) -> House:
        def with_eyes(config: dict[str, Any]) -> None:
            config |= {
                "cameras": {"head": "head/compressed"},
                "vision": {"llm": "openai", "base_url": peer.base_url, "model": "tiny", "retries": 0},
                "look_time": 0.2,
            }
            wave, look = SKILLS["seeing"]["wave"], {"wording": "look", "camera": "head"}
            config["skills"] |= {"wave": {**wave, "check": wave["check"] | check}, "look": look}

        house.add_robot()
        camera = house.graph.probe.create_publisher(CompressedImage, "head/compressed", 1)

        def show() -> None:
            if camera.get_subscription_count():
                colour = shown.pop(0) if len(shown) > 1 else shown[0]
                camera.publish(CompressedImage(format="png", data=png(colour)))

        house.camera = house.graph.probe.create_timer(0.05, show)  # type: ignore[attr-defined]
        house.start(with_eyes, server_timeout=5.0)
        return house

    yield make
    house.camera.cancel()  # type: ignore[attr-defined]


def test_a_skill_that_the_camera_shows_done_is_done_and_its_picture_comes(
    look: Callable[..., House], peer: Peer
) -> None:
    shown = [HELD]
    house = look(shown)
    result = house.does("wave 2 times")
    (asked,) = peer.asked
    assert asked.pictures == [png(HELD)], "byte for byte"
    assert "Has the arm waved for 2 times?" in asked.prompt
    seen = observation_from_msg(result.observation)
    assert [(one.question, one.answer) for one in seen.glances] == [("Has the arm waved for 2 times?", YES)]
    assert [data_of(one) for one in seen.pictures] == [png(HELD)]
    assert seen.pictures[0].words == "Has the arm waved for 2 times? yes"
    shown[:] = [FULL]
    message = "arm reported success, but the camera shows otherwise: Has the arm waved for 2 times? no."
    assert house.fails("wave 2 times") == (Result.POSTCONDITION, f"You could not wave 2 times: {message}")
    seen = observation_from_msg(house.does("look").observation)
    assert seen.pictures[0].words == "A green square."
    assert "Picture of camera head: A green square." in seen.full_text


def test_what_more_than_half_of_the_pictures_show_counts(look: Callable[..., House], peer: Peer) -> None:
    look([FULL, HELD, HELD], looks=3).does("wave 1 times")
    assert [one.pictures for one in peer.asked] == [[png(FULL)], [png(HELD)], [png(HELD)]]


@pytest.mark.parametrize(("necessary", "outcome"), [(False, "DONE"), (True, "POSTCONDITION")])
@pytest.mark.parametrize("trouble", ["cannot see", "away", "mute", "no picture"])
def test_where_nobody_can_see_it_the_skill_goes_on_unless_it_has_to_be_seen(
    look: Callable[..., House], peer: Peer, trouble: str, necessary: bool, outcome: str
) -> None:
    house = look([HELD], necessary=necessary, time_limit=1.0)
    if trouble == "cannot see":
        peer.choose = lambda options: CANNOT_SEE if CANNOT_SEE in options else options[0]
    elif trouble == "no picture":
        house.camera.cancel()
    elif trouble == "mute":
        peer.script.append(never_answers)
    else:
        peer.script.extend([fails(503, "busy")] * 9)
    result = house.skill("wave 1 times").result
    assert result.outcome == getattr(Result, outcome), result.message
    said = result.observation.text if outcome == "DONE" else result.message
    assert ("he camera cannot see" if trouble == "cannot see" else "obody could look") in said
    house.does("go to bed 1")


def test_a_check_under_way_can_be_cancelled_and_is_stopped_by_the_emergency_stop(
    look: Callable[..., House], peer: Peer
) -> None:
    house = look([HELD])
    peer.script.append(never_answers)
    goal = house.skill("wave 1 times")
    house.until(lambda: not peer.held.empty(), "the eyes are asked")
    house.press(True)
    assert goal.result.outcome == Result.HALTED
    Patience().take(peer.gone)
    house.press(False)
    peer.script.append(never_answers)
    goal = house.skill("wave 1 times")
    peer.held.get()
    house.until(lambda: not peer.held.empty(), "the eyes are asked again")
    goal.cancel()
    Patience().take(peer.gone)


def test_a_wrong_model_of_the_eyes_is_found_before_the_robot_moves(house: House) -> None:
    house.add_robot()
    blind = checked(house, lambda config: config.update(vision={"llm": "openai", "modl": "tiny"}))
    (found,) = (one for one in wrong(blind) if one.what == "vision")
    assert "there is no setting 'modl'" in found.said


def test_a_household_over_ros_has_the_eyes_that_its_bridge_names(graph: Graph, peer: Peer) -> None:
    pytest.importorskip("PIL", reason="its pictures are drawn")
    vision = f"openai:base_url={peer.base_url}:model=tiny"
    graph.bridge(pictures=True, vision=vision)
    seen = observation_from_msg(graph.skill("look", to="household_bridge").result.observation)
    assert seen.pictures[0].words == "A green square."
    assert [one.answer for one in seen.glances] == ["A green square."]


def test_glances_go_over_ros_as_they_are() -> None:
    glance = Glance("Is it?", YES, "abc", (0.1, 0.2, 0.3, 0.4), answered_by="eyes", prompt_tokens=3, seconds=0.5)
    seen = Observation("You see.", pictures=(drawn(1),), glances=(glance, Glance("Is it?", error="gone")))
    msg = observation_to_msg(seen, ObservationMsg().header.stamp)
    assert observation_from_msg(msg).glances == seen.glances
