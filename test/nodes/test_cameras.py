"""Skills that take pictures: by fakes of real types, from the camera's topic to the planner's observation."""

from __future__ import annotations

import importlib.util
import io
from pathlib import Path
from typing import Any

import pytest
from builtin_interfaces.msg import Time
from drawn import data_of, drawn, png
from robot_house import SKILLS, House, Result
from ros_graph import Graph
from sensor_msgs.msg import CompressedImage, Image
from std_msgs.msg import Header
from test_robot_check import checked, wrong

from reactree_ros.agent.observation import Observation
from reactree_ros.agent.turns import Saw, Told, Turn
from reactree_ros.background.pending import Pending
from reactree_ros.llm.port import DecisionRequest, FreeText, LanguageModel, Reply
from reactree_ros.llm.seeing import MOST_SHOWN, pictures_of
from reactree_ros.nodes.calls import Calls
from reactree_ros.nodes.heartbeat import Heartbeat
from reactree_ros.nodes.messages import _turns, observation_from_msg, turns_to_msgs
from reactree_ros.nodes.planner.adapters import RosLanguageModel, RosWorld
from reactree_ros.nodes.robot.camera import picture_from_camera

HEADER = {"frame_id": "head_optical", "stamp": {"sec": 1790000000, "nanosec": 250_000_000}}


def eyes(config: dict[str, Any]) -> None:
    config["cameras"] = {"head": "head/compressed", "hand": {"topic": "hand/raw", "type": "sensor_msgs/msg/Image"}}
    config["skills"] |= {name: SKILLS["seeing"][name] for name in ("look", "take picture", "look at")}
    config["look_time"] = 0.2


@pytest.fixture
def house(house: House) -> House:
    house.add_robot()
    house.start(eyes, server_timeout=5.0)
    return house


def header() -> Header:
    return Header(frame_id="head_optical", stamp=Time(**HEADER["stamp"]))


def looks(house: House, skill: str, topic: str, message: Any) -> Any:
    """Carry a skill out, and publish a camera's picture when it is waited for."""
    camera = house.graph.probe.create_publisher(type(message), topic, 1)
    goal = house.skill(skill)
    house.until(camera.get_subscription_count, "a picture is waited for")
    camera.publish(message)
    return goal.result


def test_a_picture_comes_back_byte_for_byte_with_its_camera_its_frame_and_its_time(house: House) -> None:
    raw, compressed = (
        house.graph.listen(kind, f"robot_bridge/{name}")
        for kind, name in ((Image, "image"), (CompressedImage, "image/compressed"))
    )
    result = looks(house, "look", "head/compressed", CompressedImage(header=header(), format="png", data=png()))
    assert (result.outcome, result.message) == (Result.DONE, "")
    (taken,) = observation_from_msg(result.observation).pictures
    assert data_of(taken) == png()
    assert (taken.camera, taken.frame, taken.time) == ("head", "head_optical", 1790000000.25)
    assert result.observation.text.startswith("You look.")
    house.until(lambda: compressed, "it is shown to people, too")
    assert (compressed[0].header.frame_id, compressed[0].format) == ("head_optical", "png")
    assert bytes(compressed[0].data) == png()
    if importlib.util.find_spec("PIL"):
        house.until(lambda: raw, "and raw to whom wants that")
        assert (raw[0].header.frame_id, raw[0].width, raw[0].height) == ("head_optical", 4, 4)


def test_a_raw_picture_becomes_a_jpeg(house: House) -> None:
    image = pytest.importorskip("PIL.Image")
    row = bytes((0, 0, 255)) * 10 + b"\0\0"  # red in BGR, and two bytes that are nothing
    raw = Image(header=header(), height=8, width=10, encoding="bgr8", step=32, data=row * 8)
    (taken,) = observation_from_msg(looks(house, "take a picture with the hand", "hand/raw", raw).observation).pictures
    assert (taken.media, taken.width, taken.height, taken.camera) == ("image/jpeg", 10, 8, "hand")
    red, green, blue = image.open(io.BytesIO(data_of(taken))).getpixel((5, 4))
    assert (red > 240, green < 20, blue < 20) == (True, True, True)


def test_the_robot_looks_at_something_and_takes_a_picture_of_it(house: House) -> None:
    message = CompressedImage(format="jpeg", data=png())  # whatever a driver says that it is
    result = looks(house, "look at kitchen table 1", "head/compressed", message)
    assert result.outcome == Result.DONE
    assert [data_of(one) for one in observation_from_msg(result.observation).pictures] == [png()]
    assert "turn the head to kitchen table 1" in "\n".join(house.robot.log)


def test_what_is_no_picture_ends_the_skill_with_the_reason_and_silence_is_not_waited_for(house: House) -> None:
    for encoding, data, said in (
        ("32FC1", b"\0" * 16, "its encoding is '32FC1'; it has to be one of rgb8, bgr8, rgba8, bgra8, mono8"),
        ("rgb8", b"\0" * 5, "2 by 2 pixels of rgb8 in 5 bytes"),
        ("mono8", b"", "2 by 2 pixels of mono8 in 0 bytes"),
    ):
        raw = Image(height=2, width=2, encoding=encoding, data=data)
        result = looks(house, "take a picture with the hand", "hand/raw", raw)
        assert result.outcome == Result.POSTCONDITION
        assert f"its picture cannot be read: {said}" in result.message
    result = house.skill("take a picture with the hand").result
    assert (result.outcome, result.observation.pictures) == (Result.TIMEOUT, [])
    assert "it took longer than 1 s and was stopped: hand/raw was silent" in result.message
    for data in (b"", b"GIF89a", b"x" * 100):
        with pytest.raises(ValueError, match=r"are no picture|needs Pillow"):
            picture_from_camera(CompressedImage(data=data), "head")


def test_a_dry_run_waits_for_no_camera(graph: Graph, tmp_path: Path) -> None:
    house = House(graph, tmp_path)
    house.start(eyes, dry_run=True)
    assert house.skill("look").result.outcome == Result.DONE


def test_a_camera_that_nobody_publishes_is_named_by_the_check(house: House) -> None:
    house.graph.probe.create_publisher(Image, "hand/raw", 1)
    house.graph.probe.create_publisher(Image, "head/compressed", 1)
    found = {one.what: one.said for one in wrong(checked(house, eyes)) if "look" in one.what or "picture" in one.what}
    unlike = "/head/compressed is of type sensor_msgs/msg/Image, not sensor_msgs/msg/CompressedImage"
    assert found == {"skill 'look'": unlike, "skill 'look at', step 2 of 2": unlike}


class Sees(LanguageModel):
    """Says how many pictures it was shown, and keeps them."""

    def __init__(self) -> None:
        self.shown: list[list[bytes]] = []

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        pictures = [one for turn in request.turns for one in pictures_of(turn)]
        self.shown.append([data_of(one) for one in pictures])
        return Pending.ready(
            Reply("Fine.", pictures=len(pictures), picture_tokens=sum(one.tokens(768) for one in pictures))
        )


def test_a_picture_gets_from_the_camera_to_the_model_over_both_nodes(house: House) -> None:
    graph, model = house.graph, Sees()
    graph.inference(model)
    calls = Calls(graph.probe, patience=3600.0)
    graph.probe.create_timer(0.02, calls.watch)
    world = RosWorld(graph.probe, "robot_bridge", calls, Heartbeat(graph.probe))
    camera = graph.probe.create_publisher(CompressedImage, "head/compressed", 1)
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
    came = list(_turns(turns_to_msgs(turns)))
    assert came == turns
    assert [len(pictures_of(turn)) for turn in came] == [0] * (1 + MOST_SHOWN // 2) + [2] * (MOST_SHOWN // 2)
    assert pictures_of(came[-1]) == pictures_of(turns[-1])
    (msg,) = turns_to_msgs(turns[-1:])
    msg.pictures[0].data = b"hello"
    with pytest.raises(ValueError, match=r"turns\[0\]\.pictures: "):
        list(_turns([msg]))
