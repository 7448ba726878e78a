"""VirtualHome's Unity simulator as a world: its graph, observed and acted on by the household rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from pydantic import Field

from reactree_ros.agent.skill import Offered
from reactree_ros.background.pending import Pending
from reactree_ros.background.worker import Worker
from reactree_ros.errors import UserError
from reactree_ros.household import looking, rules
from reactree_ros.household.client import VirtualHomeClient
from reactree_ros.household.expert.judging import goal_of
from reactree_ros.household.household import WAH_NL
from reactree_ros.household.rules import Skill
from reactree_ros.household.scene import Scene, Thing
from reactree_ros.household.symbolic import VirtualHomeSettings, tasks_of
from reactree_ros.household.tasks import AGENT_CLASS, Graph, Task, conditions_of
from reactree_ros.household.vocabulary import CLASSES, RECALLABLE, WORDS
from reactree_ros.world.port import Observation, Outcome, Score, World, WorldError
from reactree_ros.world.spec import WorldSpec

T = TypeVar("T")

#: VirtualHome's default port.
PORT = 8080
_CLOSE_LIMIT = 5.0
_ACTIONS = {"go to": "walk", "pick up": "grab", "open": "open", "close": "close", "turn on": "switchon"}


class VirtualHomeUnityWorld(World):
    """A household task in VirtualHome's Unity simulator.

    The apartment ``env_id`` of the task is loaded and set to the task's graph. After every skill the graph is read
    again; the agent sees the things that it says are close. Classes outside of the vocabulary are not seen.

    If a simulator refuses, hangs or dies, the current call fails with a WorldError within the time limit. The next call
    starts the simulator again (if the world had started it), resets the task and repeats the skills so far, so that the
    task can continue.

    Args:
        scored: Whether to score the task's goal; otherwise there is no score.
        executable: The simulator's executable; None if it is running already.
        display: X display for the executable, e.g. ``0``; None for no graphics.
        time_limit: Longest wait for one answer of the simulator, in seconds.
        start_limit: Longest wait for the executable to answer after its start, in seconds.

    Raises:
        UserError: The client is not installed, or there is no such executable.
    """

    household = WAH_NL
    recallable = RECALLABLE
    words = WORDS

    def __init__(
        self,
        task: Task,
        *,
        scored: bool = True,
        host: str = "127.0.0.1",
        port: int = PORT,
        executable: Path | None = None,
        display: str | None = None,
        time_limit: float = 60.0,
        start_limit: float = 120.0,
        pictures: bool = False,
    ) -> None:
        self._task, self._scored, self._pictures = task, scored, pictures
        self._client = VirtualHomeClient(
            host=host,
            port=port,
            executable=executable,
            display=display,
            time_limit=time_limit,
            start_limit=start_limit,
        )
        self._worker = Worker("virtualhome", WorldError)
        self._scene: Scene | None = None  # None: the simulator is not in the task's state
        self._connected = False
        self._done: list[str] = []  # executed lines of the script
        self._lost = ""  # why the task cannot be resumed
        self._receptacle: int | None = None

    def reset(self, seed: int | None = None) -> Pending[Observation]:
        """Reset the apartment to the task's start; nothing in it is random."""
        return self._ask(lambda scene: self._with_picture(looking.look_around(scene)), anew=True)

    def observe(self) -> Pending[Observation]:
        """Look around the agent's room."""
        return self._ask(lambda scene: self._with_picture(looking.look_around(self._read())))

    def survey(self) -> Pending[Observation]:
        """Describe all rooms, receptacles and objects of the apartment."""
        return self._ask(lambda scene: rules.survey(self._read()))

    def available_skills(self) -> Pending[Sequence[Offered]]:
        """List the skills for every room and for visible things in this one."""
        return self._ask(rules.available_skills)

    def score(self) -> Pending[Score | None]:
        """Score the task's goal in the current apartment."""
        if not self._scored:
            return Pending.of(None)
        return self._ask(lambda scene: rules.score(self._task.goal, self._read()))

    def goal_of(self, instruction: str) -> Mapping[str, int]:
        """Read the goal of an instruction that is clear in each word."""
        return goal_of(instruction, self._task.names)

    def judge(self, goal: Mapping[str, int]) -> Pending[Score | None]:
        """Score a goal in the current apartment."""
        return self._ask(lambda scene: replace(rules.score(conditions_of(goal), self._read()), goal=goal))

    def execute(self, skill: str) -> Pending[Observation]:
        """Carry out a skill. Preconditions are checked before the simulator is asked."""
        return self._ask(lambda scene: self._execute(skill, scene))

    def at_rest(self) -> Pending[None]:
        """Settle when the simulator has finished its work."""
        return self._worker.at_rest()

    def close(self) -> None:
        """Release the simulator; if the world started it, stop it, or kill it if it hangs."""
        try:
            self._worker.close(self._client.close).result(timeout=_CLOSE_LIMIT)
        except Exception:
            self._client.close()
        self._worker.give_up("the VirtualHome world was closed")

    # ------------------------------------------------------------------ in the worker's thread

    def _ask(self, ask: Callable[[Scene], T], *, anew: bool = False) -> Pending[T]:
        def asked() -> T:
            if anew:
                self._done, self._receptacle, self._scene, self._lost = [], None, None, ""
            try:
                return ask(self._restored())
            except UserError:
                raise
            except Exception as error:
                self._scene, self._connected = None, False
                if isinstance(error, WorldError):
                    raise
                raise WorldError(f"the VirtualHome world broke: {type(error).__name__}: {error}") from error

        return self._worker.do(asked)

    def _restored(self) -> Scene:
        """Return the scene; restore the task's state first if the simulator lost it."""
        if self._scene is not None:
            return self._scene
        if self._lost:
            raise WorldError(self._lost)
        if not self._connected:
            self._client.connect()
            self._connected = True
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
        graph = self._client.graph()
        known = {node.id for node in graph.nodes if node.class_name in CLASSES}
        rooms = {node.id for node in graph.nodes if node.category == "Rooms"}
        agent = next((node.id for node in graph.nodes if node.class_name == AGENT_CLASS), None)
        where = [edge.to_id for edge in graph.edges if edge.from_id == agent and edge.relation_type == "INSIDE"]
        if not rooms & known & set(where):
            raise WorldError("VirtualHome's graph does not say in which room the agent is")
        nodes = [node for node in graph.nodes if node.id in known]
        edges = [edge for edge in graph.edges if {edge.from_id, edge.to_id} <= known]
        room = next(node for node in nodes if node.id in where and node.id in rooms)
        self._scene = Scene(Graph(nodes=nodes, edges=edges), init_room=room.class_name)
        return self._scene

    def _execute(self, text: str, scene: Scene) -> Observation:
        skill = rules.parse_skill(text, scene)
        if isinstance(skill, str):
            return Observation(skill, Outcome.UNKNOWN_SKILL)
        receptacle = None if self._receptacle is None else scene.things[self._receptacle]
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
            skill = replace(skill, thing=scene.things[skill.thing.id])
            receptacle = None if self._receptacle is None else scene.things[self._receptacle]
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
    """List visible things next to the agent, without the held ones."""
    near = (scene.things[id] for id in scene.close if id not in scene.held)
    return [thing for thing in near if thing.observed and not scene.hidden(thing)]


class UnitySettings(VirtualHomeSettings):
    """The household task, and the address of VirtualHome's simulator."""

    host: str = Field(default="127.0.0.1", description="host of the simulator")
    port: int = Field(default=PORT, ge=0, le=65535, description=f"the simulator's HTTP port; 0: {PORT}")
    executable: str = Field(default="", description="the simulator's executable; empty: it is running already")
    display: str = Field(default="", description="X display of the executable, e.g. :0; empty: no graphics")
    time_limit: float = Field(
        default=60.0, gt=0, le=3600, description="longest wait for one action of the simulator, in seconds"
    )
    pictures: bool = Field(default=False, description="take a picture after each skill")


def _make(settings: UnitySettings, task: Task, *, scored: bool = True) -> VirtualHomeUnityWorld:
    return VirtualHomeUnityWorld(
        task,
        scored=scored,
        host=settings.host,
        port=settings.port or PORT,
        executable=Path(settings.executable) if settings.executable else None,
        display=settings.display or None,
        time_limit=settings.time_limit,
        pictures=settings.pictures,
    )


SPEC = WorldSpec(
    name="virtualhome_unity",
    summary="VirtualHome's households in its Unity simulator",
    settings=UnitySettings,
    extra="reactree_ros[virtualhome]",
    household=WAH_NL,
    load_tasks=tasks_of,
    make=_make,
    flags=("house", "tasks", "task_id"),
)
