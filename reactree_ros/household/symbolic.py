"""The symbolic VirtualHome world: WAH-NL tasks on their scene graphs, without a simulator."""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from pydantic import Field, model_validator

from reactree_ros.agent.picture import Picture
from reactree_ros.agent.skill import Offer, Offered, SkillCall
from reactree_ros.background.pending import Pending
from reactree_ros.errors import UserError
from reactree_ros.household import pictures, rules
from reactree_ros.household.expert.instruction import goal_of
from reactree_ros.household.household import WAH_NL
from reactree_ros.household.houses import HOUSES
from reactree_ros.household.pictures import CHECKS, WITH_PICTURES
from reactree_ros.household.rules import Skill
from reactree_ros.household.scene import STATES, Scene, Thing
from reactree_ros.household.tasks import Quirks, Task, conditions_of, load_tasks, moved
from reactree_ros.household.vocabulary import NEVER_OPEN, OPERATED, RECALLABLE, WORDS, Naming, word_groups
from reactree_ros.plugins.settings import Harmless, or_nearest
from reactree_ros.world.port import Observation, Outcome, Score, SharedWorld
from reactree_ros.world.spec import WorldSettings, WorldSpec
from reactree_ros.world.wrappers import teammate_here


class SymbolicWorld(SharedWorld):
    """A household task on its scene graph.

    The graph's directed CLOSE edges determine what is next to the agent: at ``x``, it has ``x`` and the visible CLOSE
    targets of ``x`` next to it. A thing that was put down in a container is next to the agent if the container is. On a
    surface, it is if the two places are close in both directions, or at least half of the things that lay there from
    the start are close.

    Like the simulator, the world walks to any existing thing; an agent node only says available skills.

    Args:
        honour_quirks: Repeat the simulator's recorded failures: it reported a skill as done but nothing changed. For
            replays of recordings.
        robots: Number of agents. All start in the same room; each has its own hands and eyes.
    """

    household = WAH_NL
    recallable = RECALLABLE
    words = WORDS
    places = OPERATED

    def __init__(
        self, task: Task, *, scored: bool = True, honour_quirks: bool = False, robots: int = 1, pictures: bool = False
    ) -> None:
        if pictures:
            self.household = WITH_PICTURES
        self._has_camera = pictures
        self._task = task
        self._scored = scored
        if task.names:
            naming = Naming(task.names)
            self.recallable = tuple(map(naming.with_names, RECALLABLE))
            self.words = tuple(map(naming.with_names, WORDS))
        self._quirks = task.recorded_quirks if honour_quirks else Quirks()
        self._neighbours: dict[int, list[int]] = defaultdict(list)
        for edge in task.init_graph.edges:
            if edge.relation_type == "CLOSE" and edge.to_id not in self._neighbours[edge.from_id]:
                self._neighbours[edge.from_id].append(edge.to_id)
        self._team: dict[str, SymbolicWorld] = {}
        if robots > 1:  # they share one team
            self._team["robot_1"] = self
            self._team |= {f"robot_{number}": copy.copy(self) for number in range(2, robots + 1)}
        self._start()

    def _start(self) -> None:
        scene = Scene(self._task.init_graph, init_room=self._task.init_room, names=self._task.names)
        scene.close = []  # nothing counts as close before the first walk, as recorded
        moved: dict[int, Thing] = {}  # things put down, by id, with their receptacles
        taken: set[int] = set()  # ids of things picked up: they have left their first place
        self._enter(scene, moved, taken)
        for other in self._team.values():
            if other is not self:
                other._enter(scene.for_another(), moved, taken)

    def _enter(self, scene: Scene, moved: dict[int, Thing], taken: set[int]) -> None:
        self.scene, self._moved, self._taken = scene, moved, taken
        self._anchor: Thing | None = None  # the agent's place; None for the middle of a room

    def team(self) -> Mapping[str, SharedWorld]:
        return self._team

    def reset(self, seed: int | None = None) -> Pending[Observation]:
        self._start()
        return self.observe()

    def observe(self) -> Pending[Observation]:
        return Pending.ready(self._with_others(rules.look_around(self.scene)))

    def survey(self) -> Pending[Observation]:
        return Pending.ready(rules.survey(self.scene))

    def available_skills(self) -> Pending[Sequence[Offered]]:
        return Pending.ready([*rules.available_skills(self.scene), *self._looks()])

    def _looks(self) -> list[str]:
        if not self._has_camera:
            return []
        things = (thing.name for thing in (*self.scene.visible(), *rules.held(self.scene)))
        return [
            pictures.LOOK,
            *(f"{pictures.LOOK_AT} {name}" for name in dict.fromkeys(things)),
            pictures.TAKE_A_PICTURE,
        ]

    def pictures(self, camera: str = "") -> Pending[Sequence[Picture]]:
        if not self._has_camera:
            return Pending.ready(())
        own = () if camera == pictures.ABOVE else (self._picture(),)
        above = (
            () if camera == pictures.OWN else (pictures.drawing_of(self.scene, self.scene.visible(), pictures.ABOVE),)
        )
        return Pending.ready((*own, *above))

    def _picture(self) -> Picture:
        near = list(self._next_to_agent()) or rules.room_items(self.scene)
        return pictures.drawing_of(self.scene, near, pictures.OWN)

    def score(self) -> Pending[Score | None]:
        return Pending.ready(rules.score(self._task.goal, self.scene) if self._scored else None)

    def goal_of(self, instruction: str) -> Mapping[str, int]:
        return goal_of(instruction, self._task.names)

    def judge(self, goal: Mapping[str, int]) -> Pending[Score | None]:
        return Pending.ready(replace(rules.score(conditions_of(goal), self.scene), goal=goal))

    def execute(self, skill: str) -> Pending[Observation]:
        if skill in self._looks():
            return Pending.ready(Observation(f"You {skill}.", pictures=(self._picture(),)))
        parsed = rules.parse_skill(skill, self.scene)
        if isinstance(parsed, str):
            return Pending.ready(Observation(parsed, Outcome.UNKNOWN_SKILL))
        outcome, text = rules.check(parsed, self.scene)
        if outcome is Outcome.DONE:
            self._apply(parsed)
        observation = self._observation(parsed, outcome, text)
        return Pending.ready(self._with_others(observation) if parsed.thing.is_room else observation)

    def corrections(self) -> Pending[Sequence[Offer]]:
        things = [thing for thing in self.scene.things.values() if thing.observed and not thing.is_room]
        movable = [thing for thing in things if "GRABBABLE" in thing.properties]
        return Pending.ready(rules.statements(self.scene, movable, filter(rules.can_take_things, things)))

    def correct(self, correction: SkillCall) -> Pending[Observation]:
        if full := rules.hands_full(self.scene, correction):
            return Pending.ready(rules.not_taken_in(full))
        self._correct(correction, self.scene.by_name[next(rules.named_in(correction))])
        return Pending.ready(
            self._with_others(rules.around_after(self.scene, correction, rules.look_around(self.scene)))
        )

    def _correct(self, correction: SkillCall, thing: Thing) -> None:
        effect, place = correction.skill.effect, self.scene.by_name.get(correction.value("place"))
        for state, (now, before) in STATES.items():
            if state in effect:
                thing.states = thing.states - {before} | {now}
                return
        self._moved.pop(thing.id, None)
        self._taken.add(thing.id)
        if "held" in effect:
            self.scene.take(thing)
        elif correction.bearer:
            self.scene.hand(thing, correction.bearer)
        elif place is not None:
            self.scene.place(thing, place, inside="CONTAINERS" in place.properties)
            self._moved[thing.id] = place
        else:
            self.scene.lose(thing)

    def _with_others(self, observation: Observation) -> Observation:
        told = [
            teammate_here(name, tuple(thing.name for thing in rules.held(other.scene)))
            for name, other in self._team.items()
            if other is not self and other.scene.agent_room is self.scene.agent_room
        ]
        return replace(observation, text=observation.text + "".join(told)) if told else observation

    def _apply(self, skill: Skill) -> None:
        thing, quirks, receptacle = skill.thing, self._quirks, self.scene.here
        (effect,) = skill.declared.effect
        if effect == "at":
            self._walk(thing)
        elif effect == "held":
            if thing.id in quirks.grab_no_effect:
                return
            self.scene.take(thing)
            self._moved.pop(thing.id, None)
            self._taken.add(thing.id)
        elif effect == "released":
            assert receptacle is not None  # the check refuses otherwise
            if (thing.id, receptacle.class_name) in quirks.put_no_effect:
                return
            self.scene.place(thing, receptacle, inside="CONTAINERS" in receptacle.properties)
            self._moved[thing.id] = receptacle
            self.scene.close.append(thing.id)
        elif effect != "open" or not (thing.class_name in NEVER_OPEN or thing.id in quirks.open_no_effect):
            now, before = STATES[effect]
            thing.states = thing.states - {before} | {now}

    def _walk(self, target: Thing) -> None:
        room = self.scene.room_of(target)
        if room is not None:
            self.scene.agent_room = room
        if target.is_room:
            self._anchor = None
            return
        self._anchor = self._moved.get(target.id, target)
        if rules.can_take_things(target):
            self.scene.stand_at(target)

    def _observation(self, skill: Skill, outcome: Outcome, text: str) -> Observation:
        seen: list[Thing] = []
        if skill.verb in ("go to", "open"):
            seen = [] if skill.thing.is_room else list(self._next_to_agent())
            self.scene.close = [thing.id for thing in seen]
        return rules.after_skill(skill, outcome, text, scene=self.scene, next_to_agent=seen)

    def _next_to_agent(self) -> Iterator[Thing]:
        anchor = self._anchor
        if anchor is None:
            return
        if self._sees(anchor) and anchor.id not in self._taken:
            yield anchor
        near = self._neighbours[anchor.id]
        for id in near:
            thing = self.scene.things.get(id)
            if thing is not None and thing is not anchor and id not in self._taken and self._sees(thing):
                yield thing
        for id, place in self._moved.items():
            thing = self.scene.things[id]
            if self._sees(thing) and (place is anchor or self._reaches(thing, place, anchor)):
                yield thing

    def _reaches(self, thing: Thing, place: Thing, anchor: Thing) -> bool:
        near = self._neighbours[anchor.id]
        if place.id not in near:
            return False
        if self.scene.container_of(thing) is place or anchor.id in self._neighbours[place.id]:
            return True
        lying = [other.id for other in self.scene.on(place) if other.id not in self._moved]
        return bool(lying) and sum(id in near for id in lying) * 2 >= len(lying)

    def _sees(self, thing: Thing) -> bool:
        return thing.observed and not thing.is_room and not self.scene.hidden(thing)


class VirtualHomeSettings(WorldSettings):
    house: Annotated[str, Harmless(HOUSES.__contains__)] = Field(
        default="",
        description=f"a shipped house ({', '.join(HOUSES)}; empty: the first) or a file of `reactree lab house`",
    )
    tasks: str = Field(default="", description="a task file in the WAH-NL schema, instead of a house")

    @property
    def of_many(self) -> bool:
        return bool(self.tasks)

    @model_validator(mode="after")
    def _one_of_them(self) -> VirtualHomeSettings:
        if self.house and self.tasks:
            raise ValueError("house and tasks exclude each other; give one of them")
        return self


class SymbolicSettings(VirtualHomeSettings):
    robots: int = Field(default=1, ge=1, le=8, description="number of robots, for a planner that shares out")
    pictures: bool = Field(default=False, description="whether the robots have cameras, and skills to look with them")


def tasks_of(settings: VirtualHomeSettings) -> dict[int, Task]:
    name = settings.house or next(iter(HOUSES))
    path = Path(settings.tasks) if settings.tasks else HOUSES.get(name, Path(name))
    if not settings.tasks and not path.exists():
        raise UserError(f"house {name}: is neither a file nor one of {', '.join(HOUSES)}{or_nearest(name, HOUSES)}")
    return {task.task_id: task for task in load_tasks(path)}


SPEC = WorldSpec(
    name="virtualhome",
    summary="VirtualHome's households on their scene graphs, without a simulator",
    settings=SymbolicSettings,
    household=WAH_NL,
    load_tasks=tasks_of,
    make=lambda settings, task, *, scored=True: SymbolicWorld(
        task, scored=scored, robots=settings.robots, pictures=settings.pictures
    ),
    moved=moved,
    flags=("house", "tasks", "task_id"),
    checks=CHECKS,
    words=word_groups,
)
