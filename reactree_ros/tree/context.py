"""What the goal nodes of one run share."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from py_trees.behaviour import Behaviour

from reactree_ros.agent.budget import Budget, Limit
from reactree_ros.agent.decision import Decision
from reactree_ros.agent.household import Household
from reactree_ros.agent.picture import Glance
from reactree_ros.agent.text import approximate_tokens, names, without_excluded
from reactree_ros.agent.turns import Said, Turn
from reactree_ros.background.pending import Pending
from reactree_ros.llm.port import DecisionRequest, LanguageModel, Reply
from reactree_ros.memory.experience import Experience
from reactree_ros.memory.working import SearchMemory, WorkingMemory
from reactree_ros.person.port import Person
from reactree_ros.tree.failure import Failure, FailureKind, RobotLost
from reactree_ros.tree.growth import Growth
from reactree_ros.tree.options import TreeOptions
from reactree_ros.tree.team import Robot, Team
from reactree_ros.world.port import GONE, Observation, World, WorldError

if TYPE_CHECKING:
    from reactree_ros.tree.agent_node import AgentNode
    from reactree_ros.tree.goal_node import GoalNode
    from reactree_ros.tree.program import Step

#: Does what an agent node is for, as a part of its program, instead of its decisions; returns True if that is reached.
#: What it returns otherwise, the node is told before it decides; None: nothing was begun.
ByRoutine: TypeAlias = "Callable[[AgentNode], Generator[Step, Any, Literal[True] | Turn | None]]"


@dataclass(frozen=True)
class Call:
    """What a goal node waits for from outside.

    Attributes:
        of: ``reply``, ``answer`` (a person's), ``observe``, ``execute``, ``survey``, ``skills``, ``examples``,
            ``routine``, ``corrections``, ``correct`` or ``score``; also ``recall``, which the run itself answers, and
            ``hold``, which somebody ends.
    """

    of: str
    id: str = ""  # of the request or the question, where it is a reply or an answer
    correction: str = ""  # what the person has confirmed, where it is that


class Listener:
    """Told what happens in a run, as it happens; overriding a method is optional."""

    def node_started(self, node: GoalNode) -> None:
        """A goal node begins."""

    def decided(self, node: GoalNode, decision: Decision, reply: Reply) -> None:
        """A goal node has decided; the decision is counted and about to be carried out."""

    def refused(self, node: GoalNode, said: Said, reason: str) -> None:
        """What a goal node said, read as a decision where it is one, was not carried out; the model is told why."""

    def shortened(self, node: GoalNode, dropped: int, excess: int) -> None:
        """A prompt was ``excess`` tokens too long: its ``dropped`` least similar examples are left out from now on.

        The last of the others may be shorter; if none is dropped, it is.
        """

    def observed(self, node: GoalNode, observation: Observation) -> None:
        """A skill or a recall has ended."""

    def saw(self, observation: Observation) -> None:
        """An observation is taken in, of a skill or of looking around."""

    def held(self, node: GoalNode, reason: str) -> None:
        """The run holds at a goal node, and why; an empty reason: it goes on."""

    def node_ended(self, node: GoalNode) -> None:
        """A goal node has ended; see its status and its feedback message."""

    def routine_ended(self, node: GoalNode, routine: str, differed: str) -> None:
        """A routine that a goal node ran has ended; ``differed``: what was not as expected, empty if all was."""

    def leaf_stopped(self, node: GoalNode) -> None:
        """A leaf of a tree of one's own has ended or was interrupted, with all that grew under it."""

    def asked(self, node: GoalNode, request: DecisionRequest) -> None:
        """A request is about to go to the language model."""

    def sent(self, node: GoalNode, skill: str) -> None:
        """A skill is about to go to the world."""

    def waits(self, node: GoalNode, call: Call) -> None:
        """A goal node has asked for something outside, and begins to wait for it."""

    def broken_off(self, node: GoalNode) -> None:
        """What a goal node waits for is cancelled; its status says whether the node itself is interrupted."""

    def came(self, node: GoalNode, call: Call, answer: Any) -> None:
        """What a goal node waited for is there: a reply, an answer, an observation, skills or experiences."""

    def call_failed(self, node: GoalNode, call: Call, error: Exception, *, late: bool = False) -> None:
        """What a goal node waited for failed, or did not come in time."""

    def turned(self, node: GoalNode, turn: Turn, *, anew: bool = False) -> None:
        """A goal node has one turn more; ``anew``: its turns begin again with it."""

    def grown(self, parent: Behaviour, subtree: Behaviour) -> None:
        """The tree has grown."""

    def manned(self, behaviour: Behaviour | None, robot: str) -> None:
        """A behaviour, with what grows under it, has a robot from now on, of several; None: the whole tree."""

    def heard(self, words: str) -> None:
        """A person has said something that is no answer; goal nodes that can take it in are told."""

    def time_is_up(self) -> None:
        """The seconds that the run may take are over; what is under way is canceled."""

    def counted(self, tokens: int) -> None:
        """The language model's tokenizer has counted the tokens of a text."""


class Listeners(Listener):
    """Tells several listeners, one after the other."""

    def __init__(self, *listeners: Listener) -> None:
        for name, of_nobody in vars(Listener).items():
            methods = [getattr(one, name) for one in listeners if not name.startswith("_")]
            told = [method for method in methods if getattr(method, "__func__", None) is not of_nobody]
            if told:
                setattr(self, name, told[0] if len(told) == 1 else partial(_tell, told))


def _tell(methods: list[Callable[..., None]], *what: Any, **named: Any) -> None:
    for method in methods:
        method(*what, **named)


@dataclass
class RunContext:
    """What the goal nodes of one run share.

    Attributes:
        examples: Finds in-context examples for a subgoal; where it is None or finds none, the fixed ones are used.
        routines: Does what an agent node is for by a routine that fits, if there is one; see :data:`ByRoutine`. None:
            there are none.
        wake: Called, from any thread, when something that is waited for has ended: a tick is worth its while.
        trace: The trace that the request just made belongs to, as W3C's ``traceparent``; empty: none.
        replies: Every reply of the model, with the goal node's index and the decision's number, from 1.
        refusals: Why the goal node did not take what a reply said, by the reply's place among them.
        failures: What ended goal nodes before their programs did, in order, whatever became of the run.
        fatal: The failure that ends the whole tree, once there is one; no goal node starts after it.
        answers: What questions were answered with, by their words in lower case.
        touched: The skills that were done, in order, each with the room in which the robot was then.
        placed: Where each thing was put that the run has let go of, and does not hold again, by their names.
        known: The words for what was seen, and the names that skills were offered with.
    """

    model: LanguageModel  # answers decision requests
    world: World  # executes skills and observes
    growth: Growth = field(default_factory=Growth)  # inserts expansions into the running tree
    budget: Budget = field(default_factory=Budget)  # decisions and steps left
    options: TreeOptions = field(default_factory=TreeOptions)  # how the method behaves
    working_memory: WorkingMemory | None = None  # where things were seen; None switches ``recall`` off
    person: Person | None = None  # answers questions; None: there is nobody to ask
    search: SearchMemory | None = None  # what was searched; None: nobody is told
    examples: Callable[[str], Pending[tuple[Experience, ...]]] | None = None
    routines: ByRoutine | None = None
    system_text: bool = True  # whether prompts begin with the system text
    fixed_example: bool = True  # whether a fixed example is shown if none is found
    listener: Listener = field(default_factory=Listener)  # told what happens
    wake: Callable[[], None] = lambda: None
    clock: Callable[[], float] = time.monotonic  # seconds, never going back
    trace: Callable[[], str] = str
    nodes: list[GoalNode] = field(default_factory=list)  # every goal node that started, in order
    planner: str = ""  # who asks; a language model that answers several planners is fair to each
    replies: list[tuple[int, int, Reply]] = field(default_factory=list)
    glances: list[Glance] = field(default_factory=list)  # what the run's eyes were asked and said, in order
    refusals: dict[int, str] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    fatal: Failure | None = None
    limit: Limit | None = None  # the limit that ended a goal node last; None if none has
    paused: str = ""  # why a person has the run hold; empty: none has
    words: list[str] = field(default_factory=list)  # what a person has said that is no answer, in order
    considered: int = 0  # how many of them were looked at for what they correct
    shown: int = 0  # how many corrections were shown to the person
    answers: dict[str, str] = field(default_factory=dict)
    warned: bool = False  # whether a reply came with a warning
    touched: list[str] = field(default_factory=list)
    placed: dict[str, str] = field(default_factory=dict)
    known: dict[str, None] = field(default_factory=dict)
    team: Team = field(init=False)  # the robots of the world
    nameable: tuple[str, ...] = field(init=False)  # the words for what is in the world, as it says when the run begins

    def __post_init__(self) -> None:
        self.enter(self.world)

    def enter(self, world: World) -> None:
        """Have the run in a world, with its robots."""
        self.world, self.team = world, Team(world)
        self.nameable = (*world.words, *world.recallable)

    @property
    def household(self) -> Household:
        """What the world's skills, wording, naming and limits are."""
        return self.world.household

    def forget_held(self, robot: Robot) -> list[str]:
        """Forget what a robot held that is gone, once; returns what it is called."""
        held, robot.holds = robot.holds, ()
        if self.working_memory is not None:
            for seen in held:
                self.working_memory.forget(seen.word, seen.instance)
        return [self.household.name_of(seen.word, seen.instance) for seen in held]

    def loss(self, robot: Robot, error: Exception) -> Exception:
        """Return what is raised when a robot failed: its loss if another one is left, else the failure itself."""
        if not isinstance(error, WorldError) or self.team.alone:
            return error
        robot.lose(str(error) or type(error).__name__)
        if not self.team.left:
            return error
        held = self.forget_held(robot)
        lost = f"; what it held is lost with it: {', '.join(held)}" if held else ""
        return RobotLost(f"{robot.name} is gone: {robot.gone.rstrip('.')}{lost}")

    def recall(self, word: str, robot: Robot) -> str:
        """Answer a robot from working memory, which first forgets what is lost with robots that are gone."""
        assert self.working_memory is not None  # without it nothing can be recalled
        for one in self.team.robots:  # also those that were lost while they made way, which no goal node saw
            if one.gone:
                self.forget_held(one)
        return self.working_memory.recall(word, robot.name)

    def untouched(self, goal: str) -> list[str]:
        """Return what a goal names that no skill has named which was done, nor is where one was done."""
        goal = without_excluded(goal)
        known = {**self.known, **dict.fromkeys(self.nameable)}
        named = [one for one in known if names(goal, one)]
        whole = (one for one in named if not any(other != one and names(other, one) for other in named))
        forms = ((one, (one, f"{one}s", one.removesuffix("s"))) for one in whole)  # a map's "banana" is "bananas"
        return [one for one, said in forms if not any(names(skill, form) for skill in self.touched for form in said)]

    def count_tokens(self, text: str) -> int:
        """Count tokens with the model's tokenizer, or, where it is not at hand, about as many."""
        count = self.model.count_tokens(text)
        if count is None:
            return approximate_tokens(text)
        self.listener.counted(count)
        return count

    def took(self, node: int, decision: int, reply: Reply, request: DecisionRequest) -> None:
        """Take in what a request took, also one that came to nothing; tokens that nobody counted are estimated.

        Args:
            node: Index of the goal node that asked.
            decision: Number of the decision that it asked for.
            reply: What came back.
            request: What was asked.
        """
        self.replies.append((node, decision, reply))
        prompt, output = reply.prompt_tokens or 0, reply.output_tokens or 0
        estimated = self.budget.limits_tokens and None in (reply.prompt_tokens, reply.output_tokens)
        if estimated:
            prompt, output = reply.tokens(lambda: request.prompt)
        prompt, output = prompt + reply.tried_prompt_tokens, output + reply.tried_output_tokens
        self.budget.count_tokens(prompt, reply.cached_tokens or 0, output, estimated=estimated)

    def refused(self, node: int, reason: str) -> None:
        """Take in that a goal node refused what the last reply to it said."""
        for at in reversed(range(len(self.replies))):
            if self.replies[at][0] == node:
                self.refusals[at] = reason
                return

    def warned_once(self, reply: Reply) -> Reply:
        """Return a reply without its warning, if one came with a warning before."""
        before, self.warned = self.warned, self.warned or bool(reply.warning)
        return replace(reply, warning="") if before and reply.warning else reply

    def failed(self, failure: Failure) -> None:
        """Take in what ended a goal node before its program did."""
        if failure.kind is not FailureKind.BUDGET:
            self.failures.append(failure)
        if failure.ends_the_tree and self.fatal is None:
            self.fatal = failure

    def looked(self, glance: Glance) -> None:
        """Take in what a look of the run's eyes took; tokens that nobody counted are estimated."""
        self.glances.append(glance)
        prompt, output = glance.prompt_tokens, glance.output_tokens
        estimated = self.budget.limits_tokens and None in (prompt, output)
        if estimated:
            prompt = approximate_tokens(glance.question) + glance.picture_tokens if prompt is None else prompt
            output = approximate_tokens(glance.answer) if output is None else output
        self.budget.count_tokens(prompt or 0, glance.cached_tokens or 0, output or 0, estimated=estimated)

    def remember(self, observation: Observation, robot: Robot) -> None:
        """Take an observation of a robot in; working memory does, if there is one."""
        for glance in observation.glances:
            self.looked(glance)
        self.listener.saw(observation)
        robot.saw(observation)
        self.known.update((seen.word, None) for seen in observation.seen)
        if self.search is not None:
            self.search.see(observation)
        if self.working_memory is None:
            return
        if not self.team.alone:
            self.team.news.add(robot.name, observation)
        for seen in observation.remembered:
            self.working_memory.remember(seen, name=self.household.name_of(seen.word, seen.instance))
        here = {self.household.name_of(seen.word, seen.instance) for seen in observation.seen}
        for place in observation.looked_at(self.household.name_of):
            self.working_memory.missed(place, here)
        for seen in observation.seen:
            if GONE in seen.states:
                self.working_memory.forget(seen.word, seen.instance)
                continue
            name = self.household.name_of(seen.word, seen.instance)
            self.working_memory.see(
                seen.word,
                seen.instance,
                name=name,
                room=seen.room,
                place=seen.place,
                held=seen.held,
                robot=robot.name,
            )
