"""VirtualHome's Unity simulator as a world: its graph, observed and acted on by the household rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from reactree_ros.background.pending import Pending
from reactree_ros.household import looking, rules
from reactree_ros.household.client import UnitySettings, VirtualHomeClient
from reactree_ros.household.expert.instruction import goal_of
from reactree_ros.household.household import WAH_NL
from reactree_ros.household.rules import Skill
from reactree_ros.household.scene import Scene, Thing
from reactree_ros.household.symbolic import tasks_of
from reactree_ros.household.tasks import AGENT_CLASS, Graph, Node, Task, conditions_of
from reactree_ros.household.vocabulary import CLASSES, RECALLABLE, WORDS
from reactree_ros.world.port import Observation, Outcome, Score, WorldError
from reactree_ros.world.spec import WorldSpec
from reactree_ros.world.worker_world import WorkerWorld

_ACTIONS = {"go to": "walk", "pick up": "grab", "open": "open", "close": "close", "turn on": "switchon"}


class VirtualHomeUnityWorld(WorkerWorld):
    """A household task in VirtualHome's Unity simulator.

    The apartment ``env_id`` of the task is loaded and set to the task's graph. After every skill the graph is read
    again; the agent sees the things that it says are close. Classes outside of the vocabulary are not seen.

    If a simulator refuses, hangs or dies, the current call fails with a WorldError within the time limit. The next call
    starts the simulator again (if the world had started it), resets the task and repeats the skills so far, so that the
    task can continue.

    Raises:
        UserError: There is no such executable.
    """

    household = WAH_NL
    recallable = RECALLABLE
    words = WORDS

    def __init__(self, settings: UnitySettings, task: Task, *, scored: bool = True) -> None:
        self._task, self._pictures = task, settings.pictures
        self._client = VirtualHomeClient(settings)
        super().__init__("virtualhome", scored=scored)
        self._forget()

    def _forget(self) -> None:
        self._scene: Scene | None = None  # None: the simulator is not in the task's state
        self._done: list[str] = []  # executed lines of the script
        self._lost = ""  # why the task cannot be resumed
        self._receptacle: int | None = None

    def survey(self) -> Pending[Observation]:
        return self._worker.do(lambda: rules.survey(self._now()))

    def goal_of(self, instruction: str) -> Mapping[str, int]:
        return goal_of(instruction, self._task.names)

    def judge(self, goal: Mapping[str, int]) -> Pending[Score | None]:
        return self._worker.do(lambda: replace(rules.score(conditions_of(goal), self._now()), goal=goal))

    def at_rest(self) -> Pending[None]:
        return self._worker.at_rest()

    # ------------------------------------------------------------------ in the worker's thread

    def _begin(self, seed: int | None) -> None:
        self._forget()

    def _look(self) -> Observation:
        return self._with_picture(looking.look_around(self._now()))

    def _skills(self) -> Sequence[str]:
        return rules.available_skills(self._restored())

    def _rate(self) -> Score:
        return rules.score(self._task.goal, self._now())

    def _let_go(self) -> None:
        self._client.close()

    def _stop(self) -> None:
        self._client.close()

    def _now(self) -> Scene:
        self._restored()
        return self._read()

    def _restored(self) -> Scene:
        """Return the scene; restore the task's state first if the simulator lost it."""
        if self._scene is not None and self._client.connected:
            return self._scene
        self._scene = None
        if self._lost:
            raise WorldError(self._lost)
        if not self._client.connected:
            self._client.connect()
        graph = self._task.init_graph.model_dump()
        agents = {node["id"] for node in graph["nodes"] if node["class_name"] == AGENT_CLASS}
        nodes = [node for node in graph["nodes"] if node["id"] not in agents]
        edges = [edge for edge in graph["edges"] if not {edge["from_id"], edge["to_id"]} & agents]
        self._client.load(self._task.env_id, {"nodes": nodes, "edges": edges})
        start = Scene(self._task.init_graph, init_room=self._task.init_room).agent_room
        self._client.add_character(start.class_name, start.number)
        for line in self._done:
            if reason := self._client.carry_out(line):
                self._lost = f"the task cannot be resumed, '{line}' is refused now: {reason}; reset the world"
                raise WorldError(self._lost)
        return self._read()

    def _read(self) -> Scene:
        self._scene = None
        graph = self._client.graph()
        known = {node.id for node in graph.nodes if node.class_name in CLASSES}
        rooms = {node.id for node in graph.nodes if node.category == "Rooms"}
        agent = next((node.id for node in graph.nodes if node.class_name == AGENT_CLASS), None)
        where = [edge.to_id for edge in graph.edges if edge.from_id == agent and edge.relation_type == "INSIDE"]
        if not rooms & known & set(where):
            raise WorldError("VirtualHome's graph does not say in which room the agent is")
        nodes: list[Node] = [node for node in graph.nodes if node.id in known]
        edges = [edge for edge in graph.edges if {edge.from_id, edge.to_id} <= known]
        room = next(node for node in nodes if node.id in where and node.id in rooms)
        self._scene = Scene(Graph(nodes=nodes, edges=edges), init_room=room.class_name)
        return self._scene

    def _take(self, text: str) -> Observation:
        scene = self._restored()
        skill = rules.parse_skill(text, scene)
        if isinstance(skill, str):
            return Observation(skill, Outcome.UNKNOWN_SKILL)
        receptacle = None if self._receptacle is None else scene.things.get(self._receptacle)
        outcome, sentence = rules.check(skill, scene=scene, receptacle=receptacle)
        if outcome is Outcome.DONE:
            line = _script_line(skill, receptacle)
            if reason := self._client.carry_out(line):
                outcome, sentence = Outcome.EXECUTION, f"You could not {text}: {reason}."
            else:
                self._done.append(line)
                if skill.verb == "go to" and rules.can_take_things(skill.thing):
                    self._receptacle = skill.thing.id
            scene = self._read()
            if skill.thing.id not in scene.things:
                raise WorldError(f"VirtualHome's graph has no {skill.thing.name} any more")
            skill = replace(skill, thing=scene.things[skill.thing.id])
            receptacle = None if self._receptacle is None else scene.things.get(self._receptacle)
            if outcome is Outcome.DONE and (reason := rules.unmet(skill, scene=scene, receptacle=receptacle)):
                outcome, sentence = Outcome.POSTCONDITION, f"You tried to {text}, but {reason}."
        return self._with_picture(
            rules.after_skill(
                skill, outcome, sentence, scene=scene, next_to_agent=_next_to_agent(scene), receptacle=receptacle
            )
        )

    def _with_picture(self, observation: Observation) -> Observation:
        picture = self._client.picture() if self._pictures else None
        return observation if picture is None else replace(observation, pictures=(picture,))


def _script_line(skill: Skill, receptacle: Thing | None) -> str:
    thing = skill.thing
    if skill.verb != "put down":
        return f"<char0> [{_ACTIONS[skill.verb]}] <{thing.class_name}> ({thing.id})"
    assert receptacle is not None  # the check refuses otherwise
    action = "putin" if "CONTAINERS" in receptacle.properties else "putback"
    where = f"<{receptacle.class_name}> ({receptacle.id})"
    return f"<char0> [{action}] <{thing.class_name}> ({thing.id}) {where}"


def _next_to_agent(scene: Scene) -> list[Thing]:
    near = (scene.things[id] for id in scene.close if id not in scene.held)
    return [thing for thing in near if thing.observed and not scene.hidden(thing)]


SPEC = WorldSpec(
    name="virtualhome_unity",
    summary="VirtualHome's households in its Unity simulator",
    settings=UnitySettings,
    household=WAH_NL,
    load_tasks=tasks_of,
    make=VirtualHomeUnityWorld,
    flags=("house", "tasks", "task_id"),
)
