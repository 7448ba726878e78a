"""A second model that looks: whether a robot's skill was done, and what is on a picture, over ROS and HTTP."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from drawn import data_of, drawn, png
from openai_peer import Peer, fails, never_answers
from processes import Patience
from reactree_interfaces.msg import Observation as ObservationMsg
from robot_house import SKILLS, House, Result
from ros_graph import Graph
from sensor_msgs.msg import CompressedImage
from test_robot_check import checked, wrong

from reactree_ros.agent.observation import Observation
from reactree_ros.agent.picture import CANNOT_SEE, NO, YES, Glance
from reactree_ros.nodes.messages import observation_from_msg, observation_to_msg

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


def test_glances_go_over_ros_as_they_are_and_what_is_none_is_refused() -> None:
    glance = Glance("Is it?", YES, "abc", (0.1, 0.2, 0.3, 0.4), answered_by="eyes", prompt_tokens=3, seconds=0.5)
    seen = Observation("You see.", pictures=(drawn(1),), glances=(glance, Glance("Is it?", error="gone")))
    msg = observation_to_msg(seen, ObservationMsg().stamp)
    assert observation_from_msg(msg).glances == seen.glances
    for bad in ("{", '["x"]', '[{"answer": 1}]'):
        msg.glances = bad
        with pytest.raises(ValueError, match="validation error"):
            observation_from_msg(msg)
