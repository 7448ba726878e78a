"""The world ``eai``: houses of the Embodied Agent Interface.

What is seen follows the household's rules, what can be done and comes of it those of the benchmark's simulator.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field

from reactree_lab.bench.spec import SuiteSpec
from reactree_lab.worlds.eai.actions import ACTIONS, BY_SKILL, ENDS, KINDS, RESTS, Action, to_line
from reactree_lab.worlds.eai.tasks import EaiTask, load_tasks, reached
from reactree_ros.agent.household import Household
from reactree_ros.agent.parameters import ParameterError
from reactree_ros.agent.skill import Offer, Offered, SkillCall
from reactree_ros.background.pending import Pending
from reactree_ros.errors import UserError
from reactree_ros.household import rules
from reactree_ros.household.scene import Scene, Thing
from reactree_ros.household.tasks import AGENT_CLASS, Graph
from reactree_ros.plugins.settings import Harmless, Settings, plain
from reactree_ros.world.port import Observation, Outcome, Score, World
from reactree_ros.world.spec import TasksOnDemand, WorldSpec

EAI = Household(name="eai", skills=tuple(one.skill for one in ACTIONS.values()), hands=2, max_steps=100)
_HANDS = ("HOLDS_RH", "HOLDS_LH")


class EaiScene(Scene):
    """A house with all of its relations, which are what skills need and change, and what goals are about."""

    def __init__(self, graph: Graph, init_room: str) -> None:
        super().__init__(graph, init_room=init_room)
        for thing in self.things.values():
            thing.properties |= {
                kind for kind, some in KINDS.items() if {*thing.properties, thing.class_name} & {*some}
            }
        self.you = Thing(next(node for node in graph.nodes if node.class_name == AGENT_CLASS), 0, "you")
        self.you.observed = False
        self.by_name["you"] = self.things[self.you.id] = self.you
        self.to: dict[tuple[int, str], set[int]] = defaultdict(set)
        for edge in graph.edges:
            self.to[edge.from_id, edge.relation_type].add(edge.to_id)
        self._came_from: dict[int, tuple[str, Thing]] = {}  # what was picked up, and from what in which relation

    def relate(self, of: Thing, relation: str, to: Thing) -> None:
        self.to[of.id, relation].add(to.id)
        if relation == "CLOSE":
            self.to[to.id, relation].add(of.id)

    def part(self, thing: Thing, *relations: str) -> None:
        """End relations of a thing to any other, and of any other to it."""
        for (of, relation), to in self.to.items():
            if relation in relations:
                to.difference_update(list(to) if of == thing.id else [thing.id])

    def reaches(self, thing: Thing) -> bool:
        """Whether a thing is close to the robot, to what is close to it, or on that."""
        close, on = self.to[self.you.id, "CLOSE"], self.to[thing.id, "ON"]
        return thing.id in close or any(thing.id in self.to[one, "CLOSE"] or one in on for one in close)

    def _is(self, thing: Thing, fact: str, about: str) -> bool:
        return self.reaches(thing) if fact == "near" else super()._is(thing, fact, about)

    def holds(self, fact: str, about: str) -> bool | None:
        return (
            self._is_so(*re.split(" (?:is|are) ", about, maxsplit=1))
            if fact == "condition"
            else super().holds(fact, about)
        )

    def _is_so(self, name: str, what: str) -> bool:
        thing = self.by_name[name]
        match what:
            case "within a walk":
                return self.reaches(thing) or not self.you.states & {"SITTING", "LYING"}
            case "near its place":
                return thing.id in self._came_from and self.reaches(self._came_from[thing.id][1])
            case "shut in":
                return any("CLOSED" in self.things[id].states for id in self.to[thing.id, "INSIDE"])
            case "shut":
                return "CAN_OPEN" in thing.properties and "OPEN" not in thing.states
            case "in your room":
                return self.room_of(thing) is self.agent_room
            case "in front of you":
                faced = self.to[self.you.id, "FACING"]
                return thing.id in faced or any(thing.id in self.to[one, "FACING"] for one in faced)
            case "food":
                eaten = [thing, *(one for one in self.things.values() if thing.id in self.to[one.id, "ON"])]
                return any("EATABLE" in one.properties for one in eaten)
            case "worn":
                return self.you.id in self.to[thing.id, "ON"]
            case "holding something" | "holding a knife":
                return any("knife" in one.class_name or "some" in what for one in rules.held(self))
            case _ if what in RESTS:
                return sum(thing.id in self.to[one, "ON"] for one in self.things) < RESTS[what].get(thing.class_name, 1)
        return what.upper().replace(" ", "_") in thing.states | thing.properties

    # ------------------------------------------------------------------ what an action brings

    def bring(self, action: str, thing: Thing, place: Thing) -> None:
        match action:
            case "WALK":
                self._walk(thing)
            case "FIND":
                if not self.reaches(thing):
                    self._walk(thing)
                self.to[self.you.id, "FACING"].clear()
                self.relate(self.you, "CLOSE", thing)
            case "GRAB":
                self._grab(thing)
            case "PUTBACK" | "PUTIN":
                self._put(thing, "ON" if action == "PUTBACK" else "INSIDE", place)
            case "PUTOBJBACK":
                self._put(thing, *self._came_from[thing.id])
            case "DROP" | "PUTON":
                self._let_go(thing)
            case "SIT":
                self.to[self.you.id, "FACING"] |= self.to[thing.id, "FACING"]
            case "POUR" if thing.class_name == "water":
                self._let_go(thing)
        for one, relation, *other in map(str.split, ACTIONS[action].then):
            of = self.you if one == "you" else thing
            if not other:
                of.states = of.states - ENDS[relation] | {relation}
            elif other == ["nothing"]:
                self.to[of.id, relation].clear()
            else:
                self.relate(of, relation, {"thing": thing, "place": place, "you": self.you}[other[0]])

    def _walk(self, thing: Thing) -> None:
        room, near = self.room_of(thing) or self.agent_room, set(self.held)
        if not thing.is_room:
            near |= {thing.id, *self.to[thing.id, "INSIDE"], *self.to[thing.id, "ON"]} - {one.id for one in self.rooms}
            near |= {id for id, one in self.things.items() if "BODY_PART" in one.properties}
            near |= {id for id in self.things if thing.id in self.to[id, "INSIDE"] and "CAN_OPEN" in thing.properties}
        for one in (self.you, *rules.held(self)):
            self.part(one, "INSIDE", "CLOSE", "FACING")
            self.relate(one, "INSIDE", room)
        for id in near:
            self.relate(self.you, "CLOSE", self.things[id])
        self.agent_room = room

    def _grab(self, thing: Thing) -> None:
        at = ((one, self.things[id]) for one in ("ON", "INSIDE", "CLOSE") for id in self.to[thing.id, one])
        came_from = next(((relation, one) for relation, one in at if not one.is_room), None)
        hand = next(hand for hand in _HANDS if not self.to[self.you.id, hand])
        self.part(thing, "ON", "INSIDE", "CLOSE", *_HANDS)
        self.take(thing)
        self.relate(self.you, hand, thing)
        self.relate(thing, "INSIDE", self.agent_room)
        self.relate(self.you, "CLOSE", thing)
        if came_from is not None:
            self._came_from[thing.id] = came_from
            self.relate(self.you, "CLOSE", came_from[1])

    def _put(self, thing: Thing, relation: str, place: Thing) -> None:
        self._let_go(thing)
        self.place(thing, place, inside=relation == "INSIDE")
        for of, one in ((self.you, "CLOSE"), (thing, "CLOSE"), (thing, relation)):
            self.relate(of, one, place)

    def _let_go(self, thing: Thing) -> None:
        self.lose(thing)
        self._came_from.pop(thing.id, None)
        self._room[thing.id] = self.agent_room.id
        for hand in _HANDS:
            self.to[self.you.id, hand].discard(thing.id)
        self.relate(thing, "INSIDE", self.agent_room)


class EaiWorld(World):
    """A task of the benchmark; its goal is judged by the benchmark's own evaluator."""

    household = EAI

    def __init__(self, task: EaiTask, *, scored: bool = True) -> None:
        self._task, self._scored = task, scored
        self.reset()
        things = [one for one in self.scene.things.values() if one.observed]
        self.words = tuple(dict.fromkeys(one.word for one in things))
        self.recallable = tuple(dict.fromkeys(one.word for one in things if "grabbable" in one.properties))

    def reset(self, seed: int | None = None) -> Pending[Observation]:
        self.scene = EaiScene(self._task.init_graph, self._task.init_room)
        self._done: list[str] = []  # what was carried out, as lines of a program
        return self.observe()

    def observe(self) -> Pending[Observation]:
        return Pending.ready(rules.look_around(self.scene))

    def survey(self) -> Pending[Observation]:
        return Pending.ready(rules.survey(self.scene))

    def available_skills(self) -> Pending[Sequence[Offered]]:
        offers = (
            Offer(one.skill, {at: self._fits(one, kind) for at, kind in one.kinds.items()}) for one in ACTIONS.values()
        )
        return Pending.ready([offer for offer in offers if all(offer.now.values())])

    def _fits(self, action: Action, kind: str) -> tuple[str, ...]:
        seen = list(self.scene.visible())
        anywhere = [one for one in self.scene.things.values() if one.observed and not one.is_room]
        there = {"WALK": [*self.scene.rooms, *seen], "FIND": anywhere}.get(action.name, seen)
        return tuple(one.name for one in there if not kind or kind in one.properties)

    def score(self) -> Pending[Score | None]:
        return Pending.ready(reached(self._task, self.graph(), self._done) if self._scored else None)

    def graph(self) -> dict[str, Any]:
        """Return the house as it is now in the benchmark's form."""
        now = {id: {"states": sorted(one.states - {"STANDING"})} for id, one in self.scene.things.items()}
        nodes = [node.model_dump(exclude={"name"}) | now[node.id] for node in self._task.init_graph.nodes]
        each = ((of, relation, one) for (of, relation), to in self.scene.to.items() for one in to)
        return {
            "nodes": nodes,
            "edges": [dict(zip(("from_id", "relation_type", "to_id"), one, strict=True)) for one in each],
        }

    def execute(self, skill: str) -> Pending[Observation]:
        return Pending.ready(self._carried_out(skill))

    def _carried_out(self, skill: str) -> Observation:
        try:
            call = self.household.call(skill)
            for _, _, name in call.named:
                if name not in self.scene.by_name:
                    raise ParameterError(f"there is no {name} in the house")
        except ParameterError as error:
            return Observation(f"'{skill}' is not carried out: {error}.", Outcome.UNKNOWN_SKILL)
        if why := next(self._objections(call), ""):
            return Observation(f"You cannot {call}: {why}.", Outcome.PRECONDITION)
        thing, place = (self.scene.by_name[str(call.values.get(one, "you"))] for one in ("thing", "place"))
        self.scene.bring(BY_SKILL[call.skill.name].name, thing, place)
        self._done.append(to_line(call, {one.name: (one.class_name, one.id) for one in self.scene.things.values()}))
        return self._told(call, thing)

    def _objections(self, call: SkillCall) -> Iterator[str]:
        for place, kind in BY_SKILL[call.skill.name].kinds.items():
            if kind and kind not in self.scene.by_name[str(call.values[place])].properties:
                yield f"{call.values[place]} is not {kind}"
        yield from (need.reason(call.values, self.scene) for need in call.unmet(self.scene))

    def _told(self, call: SkillCall, thing: Thing) -> Observation:
        scene, text, seen = self.scene, f"You {call}.", list[Thing]()
        if call.skill.moves or call.skill.name == "open":
            text = rules.arrival_text(thing) if call.skill.moves else text
            seen = [one for one in scene.visible() if (one.room_item if thing.is_room else scene.reaches(one))]
            text = f"{text} {rules.look_text(seen) if thing.is_room else rules.see_text(seen)}".strip()
        told = rules.sightings(scene, seen, None if thing.is_room else thing)
        return Observation(text + rules.holding_text(scene), seen=tuple(told))


class EaiSettings(Settings):
    numbers: Annotated[str, Harmless(plain)] = Field(
        default="", description="numbers of tasks, separated by commas, such as 111,272 for 11_1 and 27_2; empty: all"
    )


def _chosen(settings: EaiSettings) -> Mapping[int, EaiTask]:
    every = load_tasks()
    ids = [one.strip() for one in settings.numbers.split(",") if one.strip()]
    if strange := [one for one in ids if not one.isdecimal() or int(one) not in every]:
        raise UserError(f"numbers: there is no task '{strange[0]}' whose goal can be reached")
    return TasksOnDemand(map(int, ids or every), every.__getitem__)


SPEC = WorldSpec(
    name="eai",
    summary="the VirtualHome part of the Embodied Agent Interface, with its actions and its judge",
    extra="reactree_lab[eai]",
    needs=("virtualhome_eval",),
    household=EAI,
    load_tasks=lambda settings: load_tasks(),
    make=lambda settings, task, **given: EaiWorld(task, **given),
    flags=("task_id",),
)
SUITE = SuiteSpec.in_world(
    SPEC,
    summary="the Embodied Agent Interface's tasks in VirtualHome that its judge can take for reached",
    settings=EaiSettings,
    tasks=_chosen,
    make_world=EaiWorld,
)
