"""What the goal nodes of one run share."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from py_trees.behaviour import Behaviour
from py_trees.common import Status
from py_trees.composites import Composite
from py_trees.trees import BehaviourTree

from reactree_ros.agent.budget import Budget, Limit
from reactree_ros.agent.household import Household
from reactree_ros.agent.picture import Glance
from reactree_ros.agent.text import approximate_tokens, names, without_excluded
from reactree_ros.agent.turns import Turn
from reactree_ros.background.pending import Pending
from reactree_ros.llm.port import DecisionRequest, LanguageModel, Reply
from reactree_ros.memory.experience import Experience
from reactree_ros.memory.knowledge import Knowledge
from reactree_ros.person.port import Person
from reactree_ros.tree.advice import Offers, whole_names
from reactree_ros.tree.failure import Failure, FailureKind, RobotLost
from reactree_ros.tree.goal import Goal
from reactree_ros.tree.listener import Listener
from reactree_ros.tree.options import TreeOptions
from reactree_ros.tree.team import Robot, Team
from reactree_ros.world.port import Observation, World, WorldError

#: What a tree calls before or after a tick.
Handler = Callable[[BehaviourTree], None]


class GrowingTree(BehaviourTree):
    """Ticks as py_trees does, without its walk through the whole tree if no visitor wants that.

    The walk takes most of py_trees' own tick of a large tree, though the most of it has ended or has not begun.
    """

    def tick(self, pre_tick_handler: Handler | None = None, post_tick_handler: Handler | None = None) -> None:
        if any(visitor.full for visitor in self.visitors):
            super().tick(pre_tick_handler, post_tick_handler)
            return
        for handler in filter(None, (pre_tick_handler, *self.pre_tick_handlers)):
            handler(self)
        for visitor in self.visitors:
            visitor.initialise()
        for behaviour in self.root.tick():
            for visitor in self.visitors:
                behaviour.visit(visitor)
        for visitor in self.visitors:
            visitor.finalise()
        for handler in filter(None, (*self.post_tick_handlers, post_tick_handler)):
            handler(self)
        self.count += 1


class Growth:
    """Inserts subtrees through the tree, after the tick that asked for them, and sets them up.

    The tree's update handler is called, so that those who follow the tree (py_trees_ros snapshot streams, a viewer)
    is told.
    """

    def __init__(self) -> None:
        self._setup: dict[str, Any] = {}
        self._wanted: list[tuple[Composite, Behaviour, Callable[[Behaviour, Behaviour], None]]] = []

    def follow(self, tree: BehaviourTree, **setup: Any) -> None:
        self._setup = setup
        tree.add_post_tick_handler(self._grow)

    def request(
        self, parent: Composite, subtree: Behaviour, grown: Callable[[Behaviour, Behaviour], None] = lambda *_: None
    ) -> None:
        """Ask for a subtree under a parent; it is there at the next tick, if the parent is still running then.

        ``grown`` is called with both when it is there.
        """
        self._wanted.append((parent, subtree, grown))

    def _grow(self, tree: BehaviourTree) -> None:
        wanted, self._wanted = self._wanted, []
        for parent, subtree, grown in wanted:
            if parent.status != Status.RUNNING:
                continue
            # What BehaviourTree.insert_subtree does, without its search for the parent through the whole tree.
            parent.insert_child(subtree, len(parent.children))
            for behaviour in subtree.iterate():
                behaviour.setup(**self._setup)
            grown(parent, subtree)
            if tree.tree_update_handler is not None:
                tree.tree_update_handler()


#: Does what an agent node is for, as a part of its program, instead of its decisions; returns True if that is reached.
#: What it returns otherwise, the node is told before it decides; None: nothing was begun.
ByRoutine: TypeAlias = Callable[[Any], Generator[Any, Any, Literal[True] | Turn | None]]


@dataclass
class RunContext:
    model: LanguageModel  # answers decision requests
    world: World  # executes skills and observes
    growth: Growth = field(default_factory=Growth)  # inserts expansions into the running tree
    budget: Budget = field(default_factory=Budget)  # decisions and steps left
    options: TreeOptions = field(default_factory=TreeOptions)  # how the method behaves
    recalls: bool = False  # whether the model may ask where things were seen
    person: Person | None = None  # answers questions; None: there is nobody to ask
    tells_searched: bool = False  # whether nodes are told what was searched
    #: Finds in-context examples for a subgoal, with ``tree=True`` for those below it, too; where it is None or finds
    #: none, the fixed ones are used.
    examples: Callable[..., Pending[tuple[Experience, ...]]] | None = None
    routines: ByRoutine | None = None  # does what an agent node is for by a routine that fits, if there is one
    system_text: bool = True  # whether prompts begin with the system text
    fixed_example: bool = True  # whether a fixed example is shown if none is found
    listener: Listener = field(default_factory=Listener)  # told what happens
    wake: Callable[[], None] = lambda: None  # called, from any thread, when something that is waited for has ended
    clock: Callable[[], float] = time.monotonic  # seconds, never going back
    trace: Callable[[], str] = str  # the trace of the request just made, as W3C's ``traceparent``; empty: none
    nodes: list[Goal] = field(default_factory=list)  # every goal node that started, in order
    planner: str = ""  # who asks; a language model that answers several planners is fair to each
    #: Every reply of the model, with the goal node's index and the decision's number, from 1.
    replies: list[tuple[int, int, Reply]] = field(default_factory=list)
    glances: list[Glance] = field(default_factory=list)  # what the run's eyes were asked and said, in order
    refusals: dict[int, str] = field(default_factory=dict)  # why a reply was not taken, by its place among them
    failures: list[Failure] = field(default_factory=list)  # what ended goal nodes before their programs did, in order
    fatal: Failure | None = None  # ends the whole tree; no goal node starts after it
    limit: Limit | None = None  # the limit that ended a goal node last; None if none has
    paused: str = ""  # why a person has the run hold; empty: none has
    words: list[str] = field(default_factory=list)  # what a person has said that is not an answer, in order
    considered: int = 0  # how many of them were looked at for what they correct
    shown: int = 0  # how many corrections were shown to the person
    answers: dict[str, str] = field(default_factory=dict)  # to questions, by their words in lower case
    warned: bool = False  # whether a reply came with a warning
    known: Knowledge = field(init=False)  # what the robots know
    offers: Offers = field(init=False)  # what of the world's skills is possible by that
    team: Team = field(init=False)  # the robots of the world
    nameable: tuple[str, ...] = field(init=False)  # the words for what is in the world, as it says when the run begins

    def __post_init__(self) -> None:
        self.enter(self.world)

    def enter(self, world: World) -> None:
        self.world, self.known = world, Knowledge(world.household, world.recallable)
        self.offers, self.team = Offers(self.known, world.words), Team(world, self.known)
        self.nameable = (*world.words, *world.recallable)

    @property
    def household(self) -> Household:
        return self.world.household

    def loss(self, robot: Robot, error: Exception) -> Exception:
        """Return what is raised when a robot failed: its loss if another one is left, else the failure itself."""
        if not isinstance(error, WorldError) or self.team.alone:
            return error
        robot.lose(str(error) or type(error).__name__)
        if not self.team.left:
            return error
        held = self.known.forget_held(robot.name)
        lost = f"; what it held is lost with it: {', '.join(held)}" if held else ""
        return RobotLost(f"{robot.name} is gone: {robot.gone.rstrip('.')}{lost}")

    def recall(self, word: str, robot: Robot) -> str:
        """Answer a robot from working memory, which first forgets what is lost with robots that are gone."""
        for one in self.team.robots:  # also those that were lost while they made way, which no goal node saw
            if one.gone:
                self.known.forget_held(one.name)
        return self.known.recall(word, robot.name)

    def untouched(self, goal: str) -> list[str]:
        """Return what a goal names that no skill has named which was done, nor is where one was done."""
        goal = without_excluded(goal)
        known = {**self.known.named, **dict.fromkeys(self.nameable)}
        whole = whole_names(goal, known)
        forms = ((one, (one, f"{one}s", one.removesuffix("s"))) for one in whole)  # a map's "banana" is "bananas"
        return [
            one for one, said in forms if not any(names(skill, form) for skill in self.known.touched for form in said)
        ]

    def count_tokens(self, text: str) -> int:
        """Count tokens with the model's tokenizer, or, where it is not at hand, about as many."""
        count = self.model.count_tokens(text)
        if count is None:
            return approximate_tokens(text)
        self.listener.counted(count)
        return count

    def took(self, node: int, decision: int, reply: Reply, request: DecisionRequest) -> None:
        self.replies.append((node, decision, reply))
        prompt, output = reply.prompt_tokens or 0, reply.output_tokens or 0
        estimated = self.budget.limits_tokens and None in (reply.prompt_tokens, reply.output_tokens)
        if estimated:
            prompt, output = reply.tokens(lambda: request.prompt)
        prompt, output = prompt + reply.tried_prompt_tokens, output + reply.tried_output_tokens
        self.budget.count_tokens(prompt, reply.cached_tokens or 0, output, estimated=estimated)

    def refused(self, node: int, reason: str) -> None:
        for at in reversed(range(len(self.replies))):
            if self.replies[at][0] == node:
                self.refusals[at] = reason
                return

    def failed(self, failure: Failure) -> None:
        if failure.kind is not FailureKind.BUDGET:
            self.failures.append(failure)
        if failure.ends_the_tree and self.fatal is None:
            self.fatal = failure

    def looked(self, glance: Glance) -> None:
        self.glances.append(glance)
        prompt, output = glance.prompt_tokens, glance.output_tokens
        estimated = self.budget.limits_tokens and None in (prompt, output)
        if estimated:
            prompt = approximate_tokens(glance.question) + glance.picture_tokens if prompt is None else prompt
            output = approximate_tokens(glance.answer) if output is None else output
        self.budget.count_tokens(prompt or 0, glance.cached_tokens or 0, output or 0, estimated=estimated)

    def remember(self, observation: Observation, robot: Robot) -> None:
        for glance in observation.glances:
            self.looked(glance)
        self.listener.saw(observation)
        self.known.saw(observation, robot.name)
