"""Test doubles of the two ports: a model that says what a script says, a world that does what a script does."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from reactree_ros.agent.control_flow import default_flows
from reactree_ros.agent.corrections import NOTHING
from reactree_ros.agent.decision import Decision
from reactree_ros.agent.prompt import Siblings
from reactree_ros.agent.turns import Said
from reactree_ros.background.pending import Pending
from reactree_ros.episode import Episode
from reactree_ros.household.household import WAH_NL
from reactree_ros.llm.port import DecisionRequest, LanguageModel, Reply
from reactree_ros.tree.agent_node import Abilities, AgentNode
from reactree_ros.tree.context import RunContext
from reactree_ros.tree.flows import SequenceFlow
from reactree_ros.tree.goal_node import GoalNode
from reactree_ros.tree.listener import Listener
from reactree_ros.tree.options import TreeOptions
from reactree_ros.world.port import Observation, Outcome, Score, SharedWorld, World

START = "You are in the house, and there are 1 rooms: kitchen (1)."
SKILLS = ("go to kitchen 1", "pick up apple 1", "open fridge 1")


def goal_of(prompt: str) -> str:
    """The goal of the agent node that a prompt belongs to."""
    return prompt.rpartition("Your task is to: ")[2].partition("\n")[0]


class ScriptedModel(LanguageModel):
    """Says, for each goal, the next text of its script; keeps what it gave in flight.

    With ``settle=False`` answers stay in flight until :meth:`settle_all`.
    """

    def __init__(self, script: Mapping[str, Sequence[str]], *, settle: bool = True) -> None:
        self.script = {goal: list(texts) for goal, texts in script.items()}
        self.settle = settle
        self.requests: list[DecisionRequest] = []
        self.in_flight: list[tuple[Pending[Reply], str]] = []
        self.cancelled: dict[str, int] = defaultdict(int)

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        self.requests.append(request)
        text = self.script[goal_of(request.prompt)].pop(0)
        pending = Pending[Reply](on_cancel=lambda: self._count(request.id))
        self.in_flight.append((pending, text))
        if self.settle:
            self.settle_all()
        return pending

    def _count(self, request_id: str) -> None:
        self.cancelled[request_id] += 1

    def settle_all(self) -> None:
        settling, self.in_flight = self.in_flight, []
        for pending, text in settling:
            pending.succeed(Reply(text))


class Reader(ScriptedModel):
    """Decides by a script, and reads a person's words as `understood` says, one after the other.

    Attributes:
        read: The requests to read a person's words.
    """

    def __init__(self, script: Mapping[str, Sequence[str]], understood: Sequence[str] = ()) -> None:
        super().__init__(script)
        self.understood, self.read = list(understood), list[DecisionRequest]()

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        if NOTHING not in getattr(request.may_say, "skills", ()):
            return super().decide(request)
        self.read.append(request)
        return Pending.ready(Reply(f"Act: {self.understood.pop(0)}"))


class ScriptedWorld(SharedWorld):
    """Does every skill; refuses those in ``refused``. With ``settle=False`` they stay in flight."""

    household = WAH_NL
    recallable = ("apple", "juice")

    def __init__(
        self,
        *,
        settle: bool = True,
        refused: Sequence[str] = (),
        skills: Sequence[str] = SKILLS,
        score: Score | None = None,
    ) -> None:
        self.settle = settle
        self.refused = set(refused)
        self.skills = skills
        self.final = score
        self.executed: list[str] = []
        self.in_flight: list[tuple[Pending[Observation], Observation]] = []
        self.cancelled: dict[str, int] = defaultdict(int)

    def reset(self, seed: int | None = None) -> Pending[Observation]:
        return Pending.ready(Observation(START))

    def observe(self) -> Pending[Observation]:
        return self._pending("observe", Observation(START))

    def available_skills(self) -> Pending[Sequence[str]]:
        return Pending.ready(self.skills)

    def execute(self, skill: str) -> Pending[Observation]:
        self.executed.append(skill)
        if skill in self.refused:
            return self._pending(skill, Observation(f"You cannot {skill}.", Outcome.PRECONDITION))
        return self._pending(skill, Observation(f"You {skill}."))

    def score(self) -> Pending[Score | None]:
        return Pending.ready(self.final)

    def _pending(self, name: str, observation: Observation) -> Pending[Observation]:
        def count() -> None:
            self.cancelled[name] += 1

        pending = Pending[Observation](on_cancel=count)
        self.in_flight.append((pending, observation))
        if self.settle:
            self.settle_all()
        return pending

    def settle_all(self) -> None:
        settling, self.in_flight = self.in_flight, []
        for pending, observation in settling:
            pending.succeed(observation)


class Crew(ScriptedWorld):
    """A scripted world of several robots, each of them a scripted world."""

    def __init__(self, **robots: SharedWorld) -> None:
        super().__init__()
        self.robots = robots

    def team(self) -> Mapping[str, SharedWorld]:
        return self.robots


class Heard(Listener):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def decided(self, node: GoalNode, decision: Decision, reply: Reply) -> None:
        self.heard.append(str(decision))

    def refused(self, node: GoalNode, said: Said, reason: str) -> None:
        self.heard.append(f"{said.text} ✗ {reason}")

    def shortened(self, node: GoalNode, dropped: int, excess: int) -> None:
        self.heard.append(f"{dropped} examples dropped")


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


EVERYTHING = Abilities(default_flows())


@dataclass(frozen=True)
class AgentNodes:
    """A planner for tests: an agent node with these abilities; the builder is called with instruction and context."""

    abilities: Abilities = EVERYTHING
    working_memory: bool = False

    def build(self, instruction: str, context: RunContext) -> GoalNode:
        return AgentNode(instruction, context, self.abilities)


@dataclass(frozen=True)
class Builds:
    """A planner for tests: whatever a function makes of instruction and context."""

    make: Callable[[str, RunContext], GoalNode]
    working_memory: bool = False

    def build(self, instruction: str, context: RunContext) -> GoalNode:
        return self.make(instruction, context)


def scripted_episode(
    script: Mapping[str, Sequence[str]],
    *,
    model: LanguageModel | None = None,
    world: World | None = None,
    options: TreeOptions | None = None,
    abilities: Abilities | None = None,
    working_memory: bool = False,
    listener: Listener | None = None,
    clock: Callable[[], float] | None = None,
    instruction: str = "root",
) -> Episode:
    """An episode of a script in which every goal is one line."""
    return Episode(
        instruction,
        model=model or ScriptedModel(script),
        world=world or ScriptedWorld(),
        planner=AgentNodes(abilities or EVERYTHING),
        options=options,
        working_memory=working_memory,
        listener=listener,
        clock=clock or Clock(),
    )


def expand(flow: str, *subgoals: str) -> str:
    """The text of an expansion."""
    return f"Expand:\n- control flow: {flow}\n- subgoals: {', '.join(subgoals)}"


def siblings(goal: str, *subgoals: str) -> Siblings:
    """Where a child stands under a sequence."""

    return Siblings(goal, SequenceFlow(), subgoals)


def takes(grammar: str, text: str) -> bool:
    """Return whether a grammar engine takes a text as a whole."""
    import llguidance  # which not every environment has

    matcher = llguidance.LLMatcher(llguidance.LLTokenizer("byte"), grammar)
    assert not matcher.is_error(), matcher.get_error()
    tokens = list(text.encode())
    return bool(matcher.try_consume_tokens(tokens) == len(tokens) and matcher.is_accepting())
