"""Errands of a robot that drives between places of its map: learnt once, and done elsewhere by the routine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from robot.delivery import BRING, CHARGER, COUNTER, DESK, ERRANDS, delivery_robot, loading, without_needless

from reactree_ros.background.pending import Pending
from reactree_ros.episode.assembly import assemble
from reactree_ros.episode.run_spec import RunSpec
from reactree_ros.llm.script import ScriptModel
from reactree_ros.llm.spec import MODELS
from reactree_ros.memory.stores.sqlite import SqliteMemory
from reactree_ros.plugins.settings import read_settings
from reactree_ros.robot.declared import SPEC, DeclaredSettings
from reactree_ros.routine.fitting import Kept
from reactree_ros.tree.options import Routines, TreeOptions
from reactree_ros.world.port import Observation, Outcome
from reactree_ros.world.spec import Place
from reactree_ros.world.wrappers import WorldWrapper


class Robot:
    """A delivery robot with a memory of its own, in the world of its declarations."""

    def __init__(self, folder: Path, memory: SqliteMemory, **skills: Any) -> None:
        self.file, self.memory = delivery_robot(folder), memory
        config = yaml.safe_load(self.file.read_text())
        for name, changes in skills.items():
            skill = config["skills"].get(name, {}) | changes
            config["skills"][name] = {key: value for key, value in skill.items() if value is not None}
        self.file.write_text(yaml.safe_dump(config, sort_keys=False))
        self.requests, self.report = 0, ""

    def does(
        self,
        instruction: str,
        replies: Sequence[str] = (),
        *,
        start: str = "",
        broken: Sequence[str] = (),
        **given: Any,
    ) -> list[str]:
        """Carry an errand out; returns the skills that were done. The model only goes on by ``replies``."""
        settings = {"robot": str(self.file), "condition": {"people": False}, "start": start, **given}
        place = Place.from_settings(SPEC, read_settings(DeclaredSettings, settings, where="test"))
        model = (MODELS.get("script"), MODELS.get("script").settings())
        options = TreeOptions(routines=Routines.ON)
        spec = RunSpec.in_place(place, instruction, llm=model, planner="react", options=options)
        world = Broken(place.make(None), broken)
        said = ScriptModel([f"Act: {one}" for one in (*replies, "done")], "the script")
        episode = assemble(
            spec, world=world, model=said, memory=self.memory, examples=lambda goal, **_: Pending.ready(())
        )
        result = episode.run()
        assert result.status == "success", result.verdict
        episode.remember(result, agreed=True)
        self.requests, self.report = len(episode.context.replies), " ".join(episode.learning.report)
        return world.done


class Broken(WorldWrapper):
    """A world in which some skills fail."""

    def __init__(self, inner: Any, broken: Sequence[str]) -> None:
        super().__init__(inner)
        self._broken, self.done = broken, list[str]()

    def execute(self, skill: str) -> Pending[Observation]:
        if skill in self._broken:
            return Pending.ready(Observation(f"You could not {skill}: it is stuck.", Outcome.EXECUTION))
        pending = self.inner.execute(skill)
        self.done += [str(skill)] if pending.result().outcome is Outcome.DONE else []
        return pending


#: How drives are declared: as they are, without a speed, with one that may be left out.
NO_SPEED = {
    "wording": "navigate to {place}",
    "parameters": {"place": "place"},
    "goal": {"name": "{place}"},
    "requires": {"while": {"not": {"open": "drawer"}}},
}
OPTIONAL = {
    "wording": "navigate to {place}[ at {speed} m/s]",
    "parameters": {"place": "place", "speed": {"number": {"from": 0.1, "to": 1.2, "by": 0.1}, "default": 0.3}},
}


@pytest.mark.parametrize(("drives", "count"), [({}, 5), (NO_SPEED, 1), (OPTIONAL, 1)])
def test_errands_need_no_request_the_third_time(
    tmp_path: Path, memory: SqliteMemory, drives: dict[str, Any], count: int
) -> None:
    robot = Robot(tmp_path, memory, navigate=drives)
    speed = " at 0.5 m/s" if drives is NO_SPEED else "nothing"
    for errand, (skills, other, others) in list(ERRANDS.items())[:count]:
        way, otherwise = ([one.removesuffix(speed) for one in each] for each in (skills, others))
        assert robot.does(errand, way) == way
        assert "Learnt for the next time" in robot.report
        assert (robot.does(errand, start="nurse desk"), robot.requests) == (without_needless(way, DESK), 0)
        assert (robot.does(other, start="counter"), robot.requests) == (without_needless(otherwise, COUNTER), 0)


#: What goes wrong when the pills are to be brought to Bob, what the model does then, and where the robot begins.
@pytest.mark.parametrize(
    ("broken", "goes_on", "done_before"),
    [
        # a drawer is jammed, a person is gone, a place is closed
        ("open drawer 3", (*loading("pills", 4), DESK, "hand the pills over to Bob"), 1),
        ("hand the pills over to Bob", ("say Where is Bob?",), 5),
        (DESK, (CHARGER, "hand the pills over to Bob"), 4),
    ],
)
def test_the_model_goes_on_where_the_routine_breaks_off_and_does_nothing_twice(
    tmp_path: Path, memory: SqliteMemory, broken: str, goes_on: Sequence[str], done_before: int
) -> None:
    robot = Robot(tmp_path, memory)
    robot.does("Bring the pills to Anna", BRING)
    done = robot.does("Bring the pills to Bob", goes_on, start="charger", broken=[broken])
    assert done == [*BRING[:done_before], *goes_on]
    assert robot.requests == len(goes_on) + 1
    assert "is stuck" in robot.report


def test_the_start_is_a_need(tmp_path: Path, memory: SqliteMemory) -> None:
    robot = Robot(tmp_path, memory, load=dict.fromkeys(("requires", "effect", "uses")))
    goal = "Load the pills into drawer 3"
    robot.does(goal, [*loading("pills", 3), DESK], start="counter")
    assert robot.does(goal, start="charger") == [COUNTER, *loading("pills", 3), DESK]
    goal = "Take the bandages"
    robot.does(goal, loading("bandages", 3), start="counter")
    assert "no skill says how it gets there" in robot.report


def test_a_search_is_what_looked_for_a_thing_and_goes_from_place_to_place(tmp_path: Path, memory: SqliteMemory) -> None:
    service = {"service": "s", "type": "std_srvs/srv/Trigger"}
    takes = {"parameters": {"thing": "thing"}, "effect": {"held": "thing"}, **service}
    robot = Robot(
        tmp_path,
        memory,
        navigate=NO_SPEED,
        lift={**takes, "wording": "pick up {thing}", "requires": {"near": "{thing}"}},
        drop={**takes, "wording": "put down {thing}", "effect": {"released": "thing"}},
    )
    to_counter, to_desk, to_charger = (f"navigate to {one}" for one in ("counter", "nurse desk", "charger"))
    ends = ["pick up pill box", to_counter, "put down pill box"]

    def bring(at: str, *replies: str) -> list[str]:
        document = yaml.safe_load((tmp_path / "map.yaml").read_text())
        document["expected"] = [{"name": "pill box", "at": at}]
        (tmp_path / "map.yaml").write_text(yaml.safe_dump(document, sort_keys=False))
        return robot.does("Bring the pill box to the counter", replies, start="counter")

    bring("nurse desk", to_charger, to_desk, *ends)
    assert (bring("nurse desk"), robot.requests) == ([to_desk, *ends], 0)
    assert (bring("charger"), robot.requests) == ([to_desk, to_charger, *ends], 0)


def test_what_a_skill_returned_is_said_as_it_is_the_next_time(tmp_path: Path, memory: SqliteMemory) -> None:
    robot = Robot(tmp_path, memory)
    skills = [DESK, "scan the barcode", "say Your code is A-17, Anna."]
    robot.does("Read the barcode to Anna at the nurse desk", skills, returns="scan barcode=A-17")
    skills[2] = "say Your code is B-2, Anna."
    assert robot.does("Read the barcode to Anna at the nurse desk", returns="scan barcode=B-2") == skills


def test_a_routine_does_not_fit_where_it_cannot_be_done(tmp_path: Path, memory: SqliteMemory) -> None:
    robot = Robot(tmp_path, memory)
    robot.does("Bring the pills to Anna", BRING)
    (kept,) = Kept(memory).all().values()
    for change, said, fails in (
        (("nurse desk", "storage"), "'storage' is not a place here", 1),
        (("over to {person_2}", "over to Zoe"), "'Zoe' is not a person here", 1),
        (("open drawer 3", "open drawer 9"), "9", 1),
        (("navigate to counter", "navigate to charger"), "you are not at counter", 0),
    ):
        Kept(memory).replace(kept.name, kept.of_json(kept.to_json().replace(*change)))
        assert robot.does("Bring the pills to Bob", ()) == []
        assert said in robot.report
        assert Kept(memory).named(kept.name).counts.uses == fails
