"""Ways to the goals of tasks in made-up houses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reactree_ros.household.scene import Scene, Thing
from reactree_ros.household.tasks import parse_tasks
from reactree_ros.household.vocabulary import NEVER_OPEN


def solution(document: Mapping[str, Any]) -> list[str]:
    """List skills that reach a task's goal from its start, one thing after the other."""
    (task,) = parse_tasks(document)
    scene = Scene(task.init_graph, init_room=task.init_room)
    skills, left = list[str](), list(scene.things.values())

    def walk(place: Thing) -> None:
        room = scene.room_of(place)
        assert room is not None
        skills.extend((f"go to {room.name}", f"go to {place.name}"))
        if {"CAN_OPEN", "CONTAINERS"} <= place.properties and f"open {place.name}" not in skills:
            skills.append(f"open {place.name}")

    def next_of(class_name: str) -> Thing:
        things = (one for one in left if one.class_name == class_name)
        found = next(one for one in things if getattr(scene.container_of(one), "class_name", "") not in NEVER_OPEN)
        left.remove(found)
        return found

    for one in task.goal:
        target = next(thing for thing in scene.things.values() if thing.class_name == one.target)
        for _ in range(one.count if one.item else 0):
            thing = next_of(one.item)
            place = scene.container_of(thing) or scene.surface_of(thing)
            assert place is not None
            walk(place)
            skills.append(f"pick up {thing.name}")
            walk(target)
            skills.append(f"put down {thing.name}")
        if not one.item:
            walk(target)
            closing = [f"close {target.name}"] if f"open {target.name}" in skills else []
            skills.extend((*closing, f"turn on {target.name}"))
    return skills
