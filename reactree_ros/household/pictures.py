"""The house as pictures: from above, and as the agent sees it from where it stands."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from reactree_ros.agent.parameters import Thing as Named
from reactree_ros.agent.picture import NO, Picture, PictureCheck
from reactree_ros.agent.skill import Skill
from reactree_ros.household import rules
from reactree_ros.household.household import WAH_NL
from reactree_ros.household.scene import Scene, Thing
from reactree_ros.world.drawing import Group, arranged, drawn

#: Cameras: the agent's own, and one under the ceiling of the room.
OWN, ABOVE = "own", "above"
LOOK, LOOK_AT, TAKE_A_PICTURE = "look", "look at", "take a picture"
#: The household of agents that take pictures.
WITH_PICTURES = replace(
    WAH_NL,
    actions=(),
    skills=(
        *WAH_NL.skills,
        Skill(name=LOOK, wording=LOOK),
        Skill(name=LOOK_AT, wording=f"{LOOK_AT} {{thing}}", parameters={"thing": Named()}),
        Skill(name=TAKE_A_PICTURE, wording=TAKE_A_PICTURE),
    ),
)
#: How eyes see whether a skill was done.
CHECKS = {
    "pick up": PictureCheck("Is {thing} in the hand?", looks=3, camera=OWN),
    "put down": PictureCheck("Is {thing} in the hand?", answer=NO, looks=3, camera=OWN),
}


def drawing_of(scene: Scene, things: Iterable[Thing], camera: str) -> Picture:
    """Draw things; those in or on another one of them stand before it."""
    shown = {thing.id: thing for thing in things if thing.id not in scene.held}
    groups: dict[int, list[tuple[str, int]]] = {}
    alone: list[tuple[str, int]] = []
    for thing in shown.values():
        place = scene.container_of(thing) or scene.surface_of(thing)
        if place is not None and place.id in shown:
            groups.setdefault(place.id, []).append(_named(thing))
        elif thing.properties & {"CONTAINERS", "SURFACES"}:
            groups.setdefault(thing.id, [])
        else:
            alone.append(_named(thing))
    grouped = [Group(_named(shown[id]), inside) for id, inside in groups.items()]
    title = f"{scene.agent_room.name}, {'from above' if camera == ABOVE else 'before you'}"
    held = [_named(thing) for thing in rules.held(scene)]
    return drawn(arranged([*grouped, Group(None, alone)]), held, camera=camera, title=title)


def _named(thing: Thing) -> tuple[str, int]:
    return thing.word, thing.number
