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
from reactree_lab.worlds.eai.actions import KINDS, RESTS, SKILLS, action_of, to_line
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
from reactree_ros.world.spec import TasksOnDemand, WorldSettings, WorldSpec

EAI = Household(name="eai", skills=SKILLS, hands=2, max_decisions=100, max_steps=100)
_YOU = "you"
_HANDS = ("HOLDS_RH", "HOLDS_LH")


class EaiScene(Scene):
    """A house with all of its relations, which are what can be done and what the goals are about."""

    def __init__(self, graph: Graph, init_room: str) -> None:
        super().__init__(graph, init_room=init_room)
        for thing in self.things.values():
            able = {word for word, some in KINDS.items() if some & {*thing.properties, thing.class_name}}
            thing.properties |= able
        self.you = Thing(next(node for node in graph.nodes if node.class_name == AGENT_CLASS), 0, _YOU)
        self.by_name[_YOU] = self.things[self.you.id] = self.you
        self.you.observed = False
        self.to: dict[tuple[int, str], set[int]] = defaultdict(set)
        for edge in graph.edges:
            self.to[edge.from_id, edge.relation_type].add(edge.to_id)
        self.came_from: dict[int, tuple[str, int]] = {}  # in which relation to what a thing was that was picked up
        self.trying = ""  # the skill about which conditions are asked

    def relate(self, of: Thing, relation: str, to: Thing, *, both: bool = False) -> None:
        self.to[of.id, relation].add(to.id)
        if both:
            self.relate(to, relation, of)

    def part(self, thing: Thing, *relations: str) -> None:
        """End relations of a thing to any other, and of any other to it."""
        for (of, relation), to in self.to.items():
            if relation in relations:
                to.discard(thing.id)
                if of == thing.id:
                    to.clear()

    def let_go(self, thing: Thing) -> None:
        self.lose(thing)
        self._room[thing.id] = self.agent_room.id
        for hand in _HANDS:
            self.to[self.you.id, hand].discard(thing.id)

    def reaches(self, thing: Thing) -> bool:
        """Whether a thing is close to the robot, to what is close to it, or on that."""
        close, on = self.to[self.you.id, "CLOSE"], self.to[thing.id, "ON"]
        return thing.id in close or any(thing.id in self.to[one, "CLOSE"] or one in on for one in close)

    def _is(self, thing: Thing, fact: str, about: str) -> bool:
        return self.reaches(thing) if fact == "near" else super()._is(thing, fact, about)

    def holds(self, fact: str, about: str) -> bool | None:
        if fact != "condition":
            return super().holds(fact, about)
        subject, _, what = re.sub(r" (?:is|are) ", "\n", about, count=1).partition("\n")
        if what:
            return self._is_so(self.by_name[subject], what)
        verb, _, name = about.removeprefix(f"{_YOU} ").removeprefix("can ").partition(" ")
        return self._do_so(verb, name.removeprefix("to "))

    def _is_so(self, thing: Thing, what: str) -> bool:
        if what == "shut in":
            return any("CLOSED" in self.things[id].states for id in self.to[thing.id, "INSIDE"])
        if what == "shut":
            return "CAN_OPEN" in thing.properties and "OPEN" not in thing.states
        if what == "in your room":
            return self.room_of(thing) is self.agent_room
        if what == "food":
            on_it = [other for other in self.things.values() if thing.id in self.to[other.id, "ON"]]
            return any("EATABLE" in one.properties for one in (thing, *on_it))
        if what == "roomy":
            return sum(thing.id in self.to[id, "ON"] for id in self.things) < RESTS[self.trying].get(
                thing.class_name, 1
            )
        return what.upper().replace(" ", "_") in thing.states | thing.properties

    def _do_so(self, verb: str, name: str) -> bool:
        if verb == "hold":
            return any(
                name in ("something", "a knife" if "knife" in one.class_name else "") for one in rules.held(self)
            )
        thing = self.by_name[name]
        if verb == "get":
            return self.reaches(thing) or not self.you.states & {"SITTING", "LYING"}
        if verb == "return":
            return thing.id in self.came_from and self.reaches(self.things[self.came_from[thing.id][1]])
        if verb == "wear":
            return self.you.id in self.to[thing.id, "ON"]
        faced = self.to[self.you.id, "FACING"]
        return thing.id in faced or any(thing.id in self.to[one, "FACING"] for one in faced)

    # ------------------------------------------------------------------ what a skill brings about

    def walk(self, thing: Thing) -> None:
        room, before = self.room_of(thing) or self.agent_room, self.agent_room
        self.part(self.you, "INSIDE", "CLOSE", "FACING")
        self.relate(self.you, "INSIDE", room)
        near = set[int]()
        if thing is not room:
            near = {thing.id, *self.to[thing.id, "INSIDE"] - {one.id for one in self.rooms}, *self.to[thing.id, "ON"]}
            near |= {one.id for one in self.things.values() if "BODY_PART" in one.properties}
            if "CAN_OPEN" in thing.properties:
                near |= {id for id in self.things if thing.id in self.to[id, "INSIDE"]}
        for one in rules.held(self):
            self.part(one, "INSIDE", "CLOSE", "FACING")
            self.relate(one, "INSIDE", before)
            near.add(one.id)
        for id in near:
            self.relate(self.you, "CLOSE", self.things[id], both=True)
        self.agent_room = room

    def grab(self, thing: Thing) -> None:
        for relation in ("ON", "INSIDE", "CLOSE"):
            at = [id for id in self.to[thing.id, relation] if not self.things[id].is_room]
            if at:
                self.came_from.setdefault(thing.id, (relation, at[0]))
        self.part(thing, "ON", "INSIDE", "CLOSE", *_HANDS)
        hand = next(hand for hand in _HANDS if not self.to[self.you.id, hand])
        self.take(thing)
        self.relate(self.you, hand, thing)
        self.relate(thing, "INSIDE", self.agent_room)
        for one in (thing, self.things.get(self.came_from.get(thing.id, ("", 0))[1])):
            if one is not None:
                self.relate(self.you, "CLOSE", one, both=True)

    def put(self, thing: Thing, relation: str, place: Thing) -> None:
        self.let_go(thing)
        self.came_from.pop(thing.id, None)
        self.place(thing, place, inside=relation == "INSIDE")
        for one in (self.you, thing):
            self.relate(one, "CLOSE", place, both=True)
        self.relate(thing, relation, place)

    def rest(self, thing: Thing, state: str) -> None:
        self.you.states = {state}
        self.relate(self.you, "ON", thing)
        if state == "SITTING":
            self.to[self.you.id, "FACING"] |= self.to[thing.id, "FACING"]


class EaiWorld(World):
    """A task of the Embodied Agent Interface; its goals are judged by its own evaluator."""

    household = EAI

    def __init__(self, task: EaiTask, *, scored: bool = True) -> None:
        self._task, self._scored = task, scored
        self._start()
        self.words = tuple(dict.fromkeys(one.word for one in self.scene.things.values()))
        movable = (one.word for one in self.scene.things.values() if "grabbable" in one.properties)
        self.recallable = tuple(dict.fromkeys(movable))

    def _start(self) -> None:
        self.scene = EaiScene(self._task.init_graph, self._task.init_room)
        self.done: list[str] = []  # what was carried out, as lines of its programs

    def reset(self, seed: int | None = None) -> Pending[Observation]:
        self._start()
        return self.observe()

    def observe(self) -> Pending[Observation]:
        return Pending.ready(rules.look_around(self.scene))

    def survey(self) -> Pending[Observation]:
        return Pending.ready(rules.survey(self.scene))

    def available_skills(self) -> Pending[Sequence[Offered]]:
        seen = list(self.scene.visible())
        places = [*self.scene.rooms, *seen]
        offers = []
        for skill in SKILLS:
            now = {}
            for name, one in skill.parameters.items():
                which = getattr(one, "which", "")
                fits = (
                    places
                    if skill.name == "go to"
                    else [each for each in seen if not which or which in each.properties]
                )
                now[name] = tuple(each.name for each in fits)
            if all(now.values()):
                offers.append(Offer(skill, now))
        return Pending.ready(offers)

    def score(self) -> Pending[Score | None]:
        return Pending.ready(reached(self._task, self.graph(), self.done) if self._scored else None)

    def graph(self) -> dict[str, Any]:
        """Return the house as it is now in its own form."""
        nodes = []
        for node in self._task.init_graph.nodes:
            nodes.append({**node.model_dump(exclude={"name"}), "states": sorted(self.scene.things[node.id].states)})
        edges = [
            {"from_id": of, "relation_type": relation, "to_id": to}
            for (of, relation), those in self.scene.to.items()
            for to in those
        ]
        return {"nodes": nodes, "edges": edges}

    def execute(self, skill: str) -> Pending[Observation]:
        try:
            call = self.household.call(skill)
        except ParameterError as error:
            return Pending.ready(Observation(f"'{skill}' is not carried out: {error}.", Outcome.UNKNOWN_SKILL))
        if unknown := [name for _, _, name in call.named if name not in self.scene.by_name]:
            return Pending.ready(Observation(f"There is no {unknown[0]} in the house.", Outcome.UNKNOWN_SKILL))
        if why := next(self._objections(call), ""):
            return Pending.ready(Observation(f"You cannot {call}: {why}.", Outcome.PRECONDITION))
        self._carry_out(call)
        ids = {thing.name: (thing.class_name, thing.id) for thing in self.scene.things.values()}
        self.done.append(to_line(call, ids))
        return Pending.ready(self._observation(call))

    def _objections(self, call: SkillCall) -> Iterator[str]:
        self.scene.trying = call.skill.name
        for _, kind, name in call.named:
            if kind.which and kind.which not in self.scene.by_name[name].properties:
                yield f"{name} is not {kind.which}"
        yield from (need.reason(call.values, self.scene) for need in call.unmet(self.scene))

    def _carry_out(self, call: SkillCall) -> None:
        scene, action = self.scene, action_of(call)
        thing, place = (scene.by_name[str(call.values.get(one, _YOU))] for one in ("thing", "place"))
        match action.name:
            case "WALK":
                scene.walk(thing)
            case "FIND":
                if not scene.reaches(thing):
                    scene.walk(thing)
                scene.to[scene.you.id, "FACING"].clear()
                scene.relate(scene.you, "CLOSE", thing, both=True)
            case "GRAB":
                scene.grab(thing)
            case "PUTBACK" | "PUTIN":
                scene.put(thing, "ON" if action.name == "PUTBACK" else "INSIDE", place)
            case "PUTOBJBACK":
                relation, at = scene.came_from[thing.id]
                scene.put(thing, relation, scene.things[at])
            case "DROP":
                scene.let_go(thing)
                scene.came_from.pop(thing.id, None)
                scene.relate(thing, "INSIDE", scene.agent_room)
            case "SIT" | "LIE":
                scene.rest(thing, "SITTING" if action.name == "SIT" else "LYING")
            case "STANDUP":
                scene.you.states.clear()
            case "TURNTO":
                scene.to[scene.you.id, "FACING"] = {thing.id}
            case "POUR":
                scene.relate(thing, "INSIDE", place)
                if thing.class_name == "water":
                    scene.let_go(thing)
            case "PUTON":
                scene.let_go(thing)
                scene.relate(thing, "ON", scene.you)
            case "PUTOFF":
                scene.to[thing.id, "ON"].discard(scene.you.id)
        if action.state:
            now, before = action.state
            thing.states = thing.states - {before} | {now}

    def _observation(self, call: SkillCall) -> Observation:
        scene, thing, text, seen = self.scene, self.scene.by_name.get(str(call.values.get("thing"))), f"You {call}.", []
        if thing is not None and (call.skill.moves or call.skill.name == "open"):
            text = rules.arrival_text(thing) if call.skill.moves else text
            seen = [one for one in scene.visible() if (one.room_item if thing.is_room else scene.reaches(one))]
            text = f"{text} {rules.look_text(seen) if thing.is_room else rules.see_text(seen)}".strip()
        at = None if thing is None or thing.is_room else thing
        told = tuple(rules.sightings(scene, seen, at))
        return Observation(text + rules.holding_text(scene), seen=told)


class EaiSettings(WorldSettings):
    also_unreachable: bool = Field(
        default=False, description="also the tasks whose goals the benchmark's evaluator never takes for reached"
    )


class EaiSuiteSettings(Settings):
    tasks: Annotated[str, Harmless(plain)] = Field(
        default="", description="numbers of tasks, separated by commas, such as 111,272 for 11_1 and 27_2; empty: all"
    )


def _chosen(settings: EaiSuiteSettings) -> Mapping[int, EaiTask]:
    every = load_tasks()
    ids = [one.strip() for one in settings.tasks.split(",") if one.strip()] or every
    if strange := [one for one in ids if not str(one).isdecimal() or int(one) not in every]:
        raise UserError(f"tasks: there is no task '{strange[0]}' that can be reached; see `reactree list tasks`")
    return TasksOnDemand(map(int, ids), every.__getitem__)


SPEC = WorldSpec(
    name="eai",
    summary="the VirtualHome part of the Embodied Agent Interface, with its actions and its judge",
    settings=EaiSettings,
    extra="reactree_lab[eai]",
    needs=("virtualhome_eval",),
    household=EAI,
    load_tasks=lambda settings: load_tasks(also_unreachable=settings.also_unreachable),
    make=lambda settings, task, **given: EaiWorld(task, **given),
    flags=("task_id",),
)
SUITE = SuiteSpec.in_world(
    SPEC,
    summary="the Embodied Agent Interface's 305 tasks in VirtualHome that its judge can take for reached",
    settings=EaiSuiteSettings,
    tasks=_chosen,
    make_world=EaiWorld,
)
