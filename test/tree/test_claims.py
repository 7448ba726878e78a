"""What robots that share a world have for themselves, and how none waits for ever."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from reactree_ros.background.pending import Pending
from reactree_ros.tree.team import Circle, Claimant, Claims, Taken, claimed_skill
from reactree_ros.world.port import Household, Observation, Outcome, Score, SharedWorld, Use


class Robot(Claimant):
    """A robot that can always go to the middle."""

    def aside(self) -> str:
        return "go to middle"


ANN, BOB, CID = Robot("ann"), Robot("bob"), Robot("cid")


def at(place: str) -> Use:
    return Use(places=(place,), moves=True)


def test_a_thing_belongs_to_whoever_went_for_it_first_until_it_is_released() -> None:
    claims, cup = Claims(), Use(things=("cup 1",))
    claims.ask(ANN, cup).take()
    claims.ask(ANN, cup).take()
    with pytest.raises(Taken, match="ann has gone for cup 1 before you"):
        claims.ask(BOB, cup).take()
    claims.keep(ANN, ())
    with pytest.raises(Taken):
        claims.ask(BOB, cup).take()
    claims.release(ANN)
    claims.ask(BOB, cup).take()
    assert claims.counts == {"granted": 3, "refused": 2}


def test_for_a_place_robots_wait_in_the_order_in_which_they_came() -> None:
    claims = Claims()
    claims.ask(ANN, at("fridge 1")).take()
    bob, cid = claims.ask(BOB, at("fridge 1")), claims.ask(CID, at("fridge 1"))
    claims.keep(ANN, {"table 1"})
    assert (bob.done(), cid.done()) == (True, False)
    claims.release(BOB)
    assert cid.done()


def test_who_has_a_place_does_not_stand_behind_those_who_wait_for_it() -> None:
    claims = Claims()
    claims.ask(ANN, at("fridge 1")).take()
    claims.ask(BOB, at("fridge 1"))
    claims.ask(ANN, Use(places=("fridge 1",))).take()


def test_a_wish_that_is_cancelled_lets_the_next_one_through() -> None:
    claims = Claims()
    claims.ask(ANN, at("fridge 1")).take()
    bob = claims.ask(BOB, Use(places=("fridge 1", "table 1")))
    cid = claims.ask(CID, at("table 1"))
    assert not cid.done()
    bob.cancel()
    assert cid.done()


def test_a_circle_is_found_before_it_closes_also_over_a_third_robot() -> None:
    claims = Claims()
    for robot, place in ((ANN, "a"), (BOB, "b"), (CID, "c")):
        claims.ask(robot, at(place)).take()
    ann, bob = claims.ask(ANN, at("b")), claims.ask(BOB, at("c"))
    with pytest.raises(Circle, match="bob would wait for you") as found:
        claims.ask(CID, at("b")).take()
    assert found.value.names == "ann and bob" or "bob" in found.value.names
    with pytest.raises(Circle):
        claims.ask(CID, at("a")).take()
    claims.release(CID)
    assert bob.done()
    claims.keep(BOB, {"c"})
    assert ann.done()


def test_what_a_robot_has_left_on_its_way_is_free_and_what_it_has_before_it_is_not() -> None:
    claims = Claims()
    claims.ask(ANN, at("fridge 1")).take()
    claims.ask(ANN, at("table 1")).take()
    bob, cid = claims.ask(BOB, at("fridge 1")), claims.ask(CID, at("table 1"))
    claims.leave(ANN, "fridge 1")
    assert (bob.done(), cid.done()) == (True, False)
    claims.leave(ANN, "nowhere")
    assert claims.places_of(ANN) == {"table 1"}


def test_to_wait_before_a_way_is_no_step() -> None:
    claims, slow, quick = Claims(), Claimant("slow"), Claimant("quick", elapsed=9)
    door = Use(ways=("door 1",))
    claims.ask(quick, door).take()
    waiting = claims.ask(slow, door)
    assert not waiting.done()
    claims.leave(quick, "door 1")
    assert waiting.done()
    assert slow.elapsed == 0


def test_who_would_wait_before_a_way_for_one_that_waits_for_it_is_told_so() -> None:
    claims, door = Claims(), Use(ways=("door 1",))
    claims.ask(ANN, door).take()
    claims.ask(BOB, at("table 1")).take()
    ann = claims.ask(ANN, at("table 1"))
    with pytest.raises(Circle, match="ann would wait for you"):
        claims.ask(BOB, door).take()
    claims.keep(BOB, ())
    assert ann.done()


class Yard(SharedWorld):
    """Places at which one robot can stand; it fails if two do.

    Args:
        robots: Where each robot stands, by name; shared by all.
        name: Whose eyes and legs it has.
        slow: Skills that are on their way; None: they end at once.
    """

    household = Household(name="yard", actions=("go to",))

    def __init__(self, robots: dict[str, str], name: str, slow: list[tuple[Pending[Observation], str]] | None) -> None:
        self._robots, self._name, self._slow = robots, name, slow

    def reset(self, seed: int | None = None) -> Pending[Observation]:
        return self.observe()

    def observe(self) -> Pending[Observation]:
        return Pending.ready(Observation("You are in the yard."))

    def available_skills(self) -> Pending[Sequence[str]]:
        return Pending.ready(["go to a"])

    def use(self, skill: str) -> Use:
        place = skill.removeprefix("go to ")
        return Use(places=() if place == "middle" else (place,), moves=True)

    def execute(self, skill: str) -> Pending[Observation]:
        place = skill.removeprefix("go to ")
        if place == "nowhere":
            return Pending.ready(Observation("There is no nowhere.", Outcome.PRECONDITION))
        assert place == "middle" or place not in self._robots.values(), f"{self._name} drives into {self._robots}"
        self._robots[self._name] = place
        if self._slow is None:
            return Pending.ready(Observation(f"You are at {place}."))
        pending = Pending[Observation]()
        self._slow.append((pending, place))
        return pending

    def score(self) -> Pending[Score | None]:
        return Pending.ready(None)


def test_robots_that_would_wait_for_one_another_make_way_and_are_told_so() -> None:
    claims, where = Claims(), {"ann": "", "bob": ""}
    ann, bob = Yard(where, "ann", None), Yard(where, "bob", None)

    def go(robot: Claimant, world: SharedWorld, place: str) -> Pending[Observation]:
        return claimed_skill(f"go to {place}", world, robot, claims, patience=9)

    go(ANN, ann, "fridge 1").take()
    go(BOB, bob, "table 1").take()
    waiting = go(ANN, ann, "table 1")
    assert not waiting.done()
    swapped = go(BOB, bob, "fridge 1")  # it makes way, so that ann can leave the fridge
    assert waiting.take().text == "You are at table 1."
    assert swapped.take().text == "You are at fridge 1. You made way for ann before."
    assert where == {"ann": "table 1", "bob": "fridge 1"}
    assert claims.counts["circles"] == 1


def test_a_skill_that_is_refused_leaves_its_robot_where_it_stands() -> None:
    claims, where = Claims(), {"ann": "", "bob": ""}
    world = Yard(where, "ann", None)
    claimed_skill("go to fridge 1", world, ANN, claims, patience=9).take()
    refused = claimed_skill("go to nowhere", world, ANN, claims, patience=9).take()
    assert refused.outcome is Outcome.PRECONDITION
    assert claims.places_of(ANN) == {"fridge 1"}


@pytest.mark.parametrize("outcome", [Outcome.EXECUTION, Outcome.TIMEOUT, Outcome.POSTCONDITION])
def test_a_robot_that_failed_on_its_way_may_be_at_whatever_it_has_not_told_to_have_left(outcome: Outcome) -> None:
    claims, where, slow = Claims(), {"ann": "", "bob": ""}, list[tuple[Pending[Observation], str]]()
    world = Yard(where, "ann", slow)
    for place in ("fridge 1", "table 1"):
        claimed_skill(f"go to {place}", world, ANN, claims, patience=9)
        slow[-1][0].succeed(Observation("You are there."))
    claimed_skill("go to shelf 1", world, ANN, claims, patience=9)
    claims.ask(ANN, Use(ways=("door 1",))).take()
    slow[-1][0].succeed(Observation("You could not go on.", outcome))
    assert claims.places_of(ANN) == {"table 1", "door 1", "shelf 1"}


def test_a_robot_that_waits_for_too_long_is_told_so_and_waits_no_more() -> None:
    claims, where = Claims(), {"ann": "", "bob": ""}
    claimed_skill("go to fridge 1", Yard(where, "ann", None), ANN, claims, patience=9).take()
    late = claimed_skill("go to fridge 1", Yard(where, "bob", None), BOB, claims, patience=0.01).result(timeout=9)
    assert late.outcome is Outcome.PRECONDITION
    assert late.text == "The skill was not carried out: another robot was in the way for 0.01 s."
    claims.release(ANN)
    assert claims.places_of(BOB) == set()


def test_a_cancelled_skill_frees_what_it_waits_for_and_cancels_what_it_does() -> None:
    claims, where, slow = Claims(), {"ann": "", "bob": ""}, list[tuple[Pending[Observation], str]]()
    moving = claimed_skill("go to fridge 1", Yard(where, "ann", slow), ANN, claims, patience=9)
    waiting = claimed_skill("go to fridge 1", Yard(where, "bob", slow), BOB, claims, patience=9)
    assert waiting.cancel()
    assert moving.cancel()
    assert [pending.cancelled() for pending, _ in slow] == [True]
    assert claims.places_of(ANN) == {"fridge 1"}  # nobody knows how far it got


class Walker(Robot):
    """A robot that makes way where it is idle."""

    def __init__(self, name: str, where: dict[str, str], claims: Claims) -> None:
        super().__init__(name)
        self._where, self._claims = where, claims

    def make_way(self) -> None:
        self.idle = False
        self._where[self.name] = "middle"
        self._claims.keep(self, ())


@pytest.mark.parametrize("seed", range(40))
def test_robots_that_go_here_and_there_never_meet_and_never_stop(seed: int) -> None:
    rng, claims, slow = random.Random(seed), Claims(), list[tuple[Pending[Observation], str]]()
    where = dict.fromkeys("abcd"[: rng.randint(2, 4)], "")
    robots = [Walker(name, where, claims) for name in where]
    worlds = {robot.name: Yard(where, robot.name, slow) for robot in robots}
    under_way: dict[str, Pending[Observation]] = {}
    left = dict.fromkeys(where, 30)
    for _ in range(2000):
        for robot in robots:
            pending = under_way.get(robot.name)
            if (pending is None or pending.done()) and left[robot.name]:
                left[robot.name] -= 1
                skill = f"go to {rng.choice(('one', 'two', 'three'))}"
                if skill.endswith(where[robot.name] or "-"):
                    continue
                under_way[robot.name] = claimed_skill(skill, worlds[robot.name], robot, claims, patience=99)
        if slow:
            done, place = slow.pop(rng.randrange(len(slow)))
            done.succeed(Observation(f"You are at {place}."))
        for robot in robots:
            if not left[robot.name] and under_way[robot.name].done() and where[robot.name] != "middle":
                claims.finish(robot)
        if not any(left.values()) and all(pending.done() for pending in under_way.values()):
            break
    else:
        pytest.fail(f"they stand still: {where}, {claims.counts}")
    assert all(pending.take().outcome is Outcome.DONE for pending in under_way.values())
