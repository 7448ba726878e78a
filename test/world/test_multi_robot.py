"""Robots of one house that are worlds apart."""

from __future__ import annotations

from reactree_lab.household.generator import generate_house
from reactree_ros.agent.observation import Seen
from reactree_ros.background.pending import Pending
from reactree_ros.household.symbolic import SymbolicWorld
from reactree_ros.household.tasks import parse_tasks
from reactree_ros.world.port import Observation, WorldError
from reactree_ros.world.wrappers import with_teammates


def pair() -> tuple[SymbolicWorld, SymbolicWorld]:
    """Make two robots' worlds: the same house, of which each knows what it did itself."""
    task = parse_tasks(generate_house(seed=9000200, tasks=1))[0]
    return SymbolicWorld(task), SymbolicWorld(task)


def test_who_looks_around_or_comes_into_a_room_is_told_who_is_there_and_with_what() -> None:
    worlds = pair()
    one, two = with_teammates({"one": worlds[0], "two": worlds[1]}).values()
    assert "two" not in one.observe().take().text.split()  # it has not said yet where it is
    assert two.observe().take().text.endswith(" one is here, too.")
    assert one.observe().take().text.endswith(" two is here, too.")
    room = next(room for room in worlds[0].scene.rooms if room is not worlds[0].scene.agent_room)
    assert "one is here" not in two.execute(f"go to {room.name}").take().text
    assert "two is here" not in one.observe().take().text
    item = next(
        thing for thing in worlds[1].scene.things.values() if "GRABBABLE" in thing.properties and thing.observed
    )
    for skill in (f"go to {item.name}", f"pick up {item.name}"):
        two.execute(skill).take()
    back = worlds[0].scene.agent_room.name
    two.execute(f"go to {back}").take()
    assert f" two is here, too, with {item.name}." in one.observe().take().text


def test_what_is_cancelled_or_fails_is_so_and_tells_nothing() -> None:
    class Slow(SymbolicWorld):
        def execute(self, skill: str) -> Pending[Observation]:
            return flight

    task = parse_tasks(generate_house(seed=9000200, tasks=1))[0]
    flight: Pending[Observation] = Pending()
    one, two = with_teammates({"one": Slow(task), "two": SymbolicWorld(task)}).values()
    two.observe().take()
    assert one.execute("go to kitchen 1").cancel()
    assert flight.cancelled()
    flight = Pending.failed(WorldError("the base is gone"))
    assert str(one.execute("go to kitchen 1").exception()) == "the base is gone"
    flight = Pending.of(Observation("You are somewhere.", seen=(Seen("cup", 1, None, None),)))
    assert one.execute("go to cup 1").take().text == "You are somewhere."
