"""A drive of a pyrobosim robot among others; nothing here needs pyrobosim."""

from __future__ import annotations

from reactree_lab.worlds.pyrobosim.robot import Drive
from reactree_lab.worlds.pyrobosim.scene import Description, HouseScene
from reactree_lab.worlds.pyrobosim.simulator import UnderWay
from reactree_ros.background.pending import Pending
from reactree_ros.tree.team import Circle

PLACE = {"category": "desk", "part": "", "room": "hall", "open": True, "locked": True, "pose": [0, 0], "outline": []}
SCENE = HouseScene(
    Description(
        rooms=tuple({"name": name, "pose": [0.0, 0.0], "outline": []} for name in ("hall", "attic")),
        places=({**PLACE, "name": "a_top", "furniture": "a"},),
        hallways=tuple({"name": name, "rooms": ["hall", "attic"], "open": True, "locked": True} for name in "hi"),
        things=(),
    )
)


class Asked:
    """A right of way that keeps what it was asked and told."""

    def __init__(self) -> None:
        self.asked: dict[str, Pending[None]] = {}
        self.left: list[str] = []

    def ask(self, way: str) -> Pending[None]:
        self.asked[way] = Pending()
        return self.asked[way]

    def leave(self, place: str) -> None:
        self.left.append(place)


def drive(at: str = "") -> tuple[Drive, Asked]:
    SCENE.at = SCENE.own[at] if at else None
    right = Asked()
    return Drive(right, SCENE), right


def test_it_passes_once_it_may_and_tells_what_it_has_left() -> None:
    one, right = drive("a_top")
    assert not one.may_pass(UnderWay("a_top", ""))
    assert right.left == []
    assert not one.may_pass(UnderWay("", ""))
    assert right.left == ["desk 1"]
    assert not one.may_pass(UnderWay("", "h"))
    assert not one.may_pass(UnderWay("", "h"))
    right.asked["hallway 1"].succeed(None)
    assert one.may_pass(UnderWay("", "h"))
    assert not one.may_pass(UnderWay("h", ""))
    assert right.left == ["desk 1"]
    one.may_pass(UnderWay("", ""))
    one.end("")
    assert (right.left, list(right.asked)) == (["desk 1", "hallway 1"], ["hallway 1"])


def test_what_it_passed_between_two_looks_is_left_too() -> None:
    one, right = drive()
    one.may_pass(UnderWay("", "h"))
    right.asked["hallway 1"].succeed(None)
    assert one.may_pass(UnderWay("", "h"))
    one.may_pass(UnderWay("", "i"))
    assert right.left == ["hallway 1"]
    right.asked["hallway 2"].succeed(None)
    one.end("")  # it was let in, which nobody has looked at
    assert right.left == ["hallway 1", "hallway 2"]


def test_where_it_stops_in_a_passage_it_keeps_that() -> None:
    one, right = drive()
    one.may_pass(UnderWay("", "h"))
    right.asked["hallway 1"].succeed(None)
    one.may_pass(UnderWay("", "h"))
    one.end("h")
    assert right.left == []


def test_where_it_ends_before_a_passage_it_asks_no_more() -> None:
    one, right = drive()
    one.may_pass(UnderWay("", "h"))
    one.end("")
    assert right.asked["hallway 1"].cancelled()
    assert right.left == []


def test_where_it_would_wait_for_one_that_waits_for_it_it_cannot_get_on() -> None:
    one, right = drive()
    one.may_pass(UnderWay("", "h"))
    right.asked["hallway 1"].fail(Circle(["bob"]))
    assert not one.may_pass(UnderWay("", "h"))
    assert one.blocked == "bob would wait for you, and you for bob"


def test_who_is_alone_asks_nobody() -> None:
    alone = Drive(None, SCENE)
    assert not alone.asks
    assert not alone.may_pass(UnderWay("", ""))
    alone.end("")
