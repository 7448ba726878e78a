"""Problems of the shipped domains, made up from seeds: what there is, how it begins, and what is wanted.

Every one can be solved, by how it is made; ``test/simulators/test_pddl.py`` has a planner solve them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import permutations

#: A fact: a predicate and its arguments.
Fact = tuple[str, ...]


@dataclass(frozen=True)
class Problem:
    objects: Mapping[str, str]  # the type of each object by its name
    start: tuple[Fact, ...]  # the facts that hold at the start; all others do not
    goal: tuple[Fact, ...]  # the facts of the goal


def blocksworld(seed: int) -> Problem:
    """Four to eight blocks in towers; the goal is other towers."""
    drawn = random.Random(f"blocksworld {seed}")
    blocks = [f"b{number}" for number in range(1, drawn.randint(4, 8) + 1)]
    start = _towers(drawn, blocks)
    wanted: list[Fact] = []
    while not set(wanted) - set(start):
        wanted = [fact for fact in _towers(drawn, blocks) if fact[0] == "on"]
    return Problem(dict.fromkeys(blocks, "block"), (*start, ("hand-empty",)), tuple(wanted))


def _towers(drawn: random.Random, blocks: list[str]) -> tuple[Fact, ...]:
    facts: list[Fact] = []
    below = ""
    for block in drawn.sample(blocks, len(blocks)):
        if below and drawn.random() < 0.6:
            facts.append(("on", block, below))
        else:
            facts += [("clear", below)] if below else []
            facts.append(("on-table", block))
        below = block
    return (*facts, ("clear", below))


def gripper(seed: int) -> Problem:
    """Four to eight balls in two to four rooms, and a robot with two grippers; the goal moves most balls."""
    drawn = random.Random(f"gripper {seed}")
    rooms = [f"room{number}" for number in range(1, drawn.randint(2, 4) + 1)]
    balls = [f"ball{number}" for number in range(1, drawn.randint(4, 8) + 1)]
    grippers = ("left", "right")
    at = {ball: drawn.choice(rooms) for ball in balls}
    wanted = drawn.sample(balls, drawn.randint(3, len(balls)))
    goal = {ball: drawn.choice(rooms) for ball in wanted}
    goal[wanted[0]] = drawn.choice([room for room in rooms if room != at[wanted[0]]])
    start: list[Fact] = [("door", *pair) for pair in permutations(rooms, 2)]
    start += [
        ("robot-in", drawn.choice(rooms)),
        *(("in", *one) for one in at.items()),
        *(("free", one) for one in grippers),
    ]
    objects = {**dict.fromkeys(rooms, "room"), **dict.fromkeys(balls, "ball"), **dict.fromkeys(grippers, "gripper")}
    return Problem(objects, tuple(start), tuple(("in", ball, goal[ball]) for ball in balls if ball in goal))


def tyreworld(seed: int) -> Problem:
    """One to three hubs with flat wheels; the goal mounts the spare ones, and often tidies up the boot."""
    drawn = random.Random(f"tyreworld {seed}")
    numbers = range(1, drawn.randint(1, 3) + 1)
    objects = {"boot": "container"}
    tools = ("wrench", "jack", "pump")
    start: list[Fact] = [("closed", "boot"), *(("in", tool, "boot") for tool in tools)]
    goal: list[Fact] = []
    for number in numbers:
        hub, nuts, old, spare = f"hub{number}", f"nuts{number}", f"wheel{number}", f"spare{number}"
        objects |= {hub: "hub", nuts: "nuts", old: "wheel", spare: "wheel"}
        start += [("on-ground", hub), ("fastened", hub), ("tight", nuts, hub), ("on", old, hub), ("flat", old)]
        start += [("in", spare, "boot"), ("intact", spare), ("flat", spare)]
        goal += [("on", spare, hub)]
        goal += drawn.sample([("tight", nuts, hub), ("inflated", spare), ("in", old, "boot")], drawn.randint(1, 3))
    if drawn.random() < 0.5:
        goal += [*(("in", tool, "boot") for tool in tools), ("closed", "boot")]
    return Problem(objects, tuple(start), tuple(goal))


def barman(seed: int) -> Problem:
    """One to three drinks, with cocktails among them; the goal has each in its own shot glass."""
    drawn = random.Random(f"barman {seed}")
    drinks = drawn.randint(1, 3)
    ingredients = [f"ingredient{number}" for number in range(1, drawn.randint(2, 3) + 1)]
    cocktails = [f"cocktail{number}" for number in range(1, drawn.randint(1, 2) + 1)]
    shots = [f"shot{number}" for number in range(1, drinks + 2)]
    levels = ("level0", "level1", "level2")
    start: list[Fact] = [("none", levels[0]), ("next", *levels[:2]), ("next", *levels[1:])]
    start += [("hand-empty", "left"), ("hand-empty", "right")]
    start += [(fact, one) for one in (*shots, "shaker1") for fact in ("on-table", "clean", "empty")]
    start += [("level-of", "shaker1", levels[0])]
    start += [("dispenses", f"dispenser{number}", one) for number, one in enumerate(ingredients, 1)]
    for cocktail in cocktails:
        first, second = drawn.sample(ingredients, 2)
        start += [("first-part", cocktail, first), ("second-part", cocktail, second)]
    objects = {
        **dict.fromkeys(("left", "right"), "hand"),
        **dict.fromkeys(levels, "level"),
        **dict.fromkeys(ingredients, "ingredient"),
        **dict.fromkeys(cocktails, "cocktail"),
        **dict.fromkeys(shots, "shot"),
        "shaker1": "shaker",
        **dict.fromkeys((f"dispenser{number}" for number, _ in enumerate(ingredients, 1)), "dispenser"),
    }
    wanted = [drawn.choice(cocktails), *(drawn.choice((*ingredients, *cocktails)) for _ in range(drinks - 1))]
    goal = [("contains", f"shot{number}", drink) for number, drink in enumerate(wanted, 1)]
    return Problem(objects, tuple(start), tuple(goal))


#: Maker of a problem from a seed, by shipped domain.
MAKERS: Mapping[str, Callable[[int], Problem]] = {
    "blocksworld": blocksworld,
    "gripper": gripper,
    "tyreworld": tyreworld,
    "barman": barman,
}
