"""The goal node: works on one goal by any planner's program, and keeps what it was told, said and saw."""

from __future__ import annotations

import abc
from collections.abc import Callable, Generator, Sequence
from typing import Any

from py_trees.behaviour import Behaviour
from py_trees.common import Status

from reactree_ros.agent.budget import COUNTED, Limit
from reactree_ros.agent.decision import Decision
from reactree_ros.agent.foreign import in_lines
from reactree_ros.agent.grammar import Grammar
from reactree_ros.agent.prompt import start_turn
from reactree_ros.agent.reading import Unreadable, read
from reactree_ros.agent.skill import Offered
from reactree_ros.agent.transcript import Example
from reactree_ros.agent.turns import About, Prompt, Said, Saw, Told, Turn, is_closed, node_text
from reactree_ros.llm.port import MaySay, PromptTooLong, Reply
from reactree_ros.memory.experience import End, Experience
from reactree_ros.tree.attempt import OfAttempt
from reactree_ros.tree.context import RunContext
from reactree_ros.tree.dialogue import Dialogue
from reactree_ros.tree.failure import BY_LIMIT, Failure, FailureKind, LimitReached
from reactree_ros.tree.program import Grow, Program, Step
from reactree_ros.tree.program_node import ProgramNode
from reactree_ros.tree.requests import Requests
from reactree_ros.tree.senses import Senses
from reactree_ros.world.port import Observation


class GoalNode(ProgramNode, abc.ABC):
    """Works on one goal by its :meth:`program`, in which these methods are used.

    Status: As of :class:`~reactree_ros.tree.program_node.ProgramNode`.

    Attributes:
        subgoal: Its goal, in natural language.
        depth: 1 for the root, 3 for the goal nodes under it, and so on.
        turns: What it was told, said and saw so far.
        lesson: The turns that are an example for others; None: all of them.
        index: Its number in the run, in the order in which goal nodes start, from 0.
        start: Decision count at its start, from 1.
        listens: Whether its program takes in what a person says in the middle of a run; see :meth:`Dialogue.hear`.
        requests: What it asks the language model.
        senses: What it sees and does in the world, and asks of the memories.
        dialogue: What it and the person say to each other.
    """

    listens = False

    turns = OfAttempt[list[Turn]](lambda _: [])
    lesson = OfAttempt[Sequence[Turn] | None](lambda _: None)
    requests = OfAttempt(Requests)
    senses = OfAttempt(Senses)
    dialogue = OfAttempt(Dialogue)
    _taking = OfAttempt(lambda _: (Reply(""), ""))  # what is being carried out: the reply, and the words for it

    def __init__(self, subgoal: str, context: RunContext, *, name: str = "", parent: GoalNode | None = None) -> None:
        self.subgoal = subgoal
        self.depth: int = 1 if parent is None else parent.depth + 2
        self.index = self.start = 0
        super().__init__(name or " ".join(subgoal.split()), context, parent)

    def started(self) -> None:
        """Take its place in the run."""
        self.index = len(self.context.nodes)
        self.context.nodes.append(self)
        self.start = self.context.budget.decisions + 1
        self.context.listener.node_started(self)

    @property
    def unreached(self) -> bool:
        """Whether it failed before it asked or did anything, as a limit was reached or the run was over before."""
        barred = self.failure is not None and (self.failure.kind in BY_LIMIT or not self._begun)
        return barred and not (self._begun and (self.requests.made or self.children))

    def limited(self, limit: Limit) -> LimitReached:
        """Tell the node of a limit that is reached, and return what ends it."""
        self.context.limit = limit
        before = "stuck: " if limit is Limit.STUCK else ""
        reached = LimitReached(limit, "" if limit in COUNTED else f"{before}{self.budget.reason()}")
        self.tell(str(reached), About.LIMIT)
        return reached

    @property
    def text(self) -> str:
        """Everything it was told, said and saw, as in the recorded files."""
        return node_text(self.turns)

    def experience(self, *, task_id: str, task_name: str) -> Experience | None:
        """Return what it went through, for episodic memory; None if it has no end of its own."""
        turns = tuple(self.turns if self.lesson is None else self.lesson)
        if self.end is None or not turns:
            return None
        return Experience(
            subgoal=self.subgoal,
            turns=turns if self.lesson is not None or is_closed(turns) else (*turns, Told("", About.ANSWER)),
            end=self.end,
            task_id=task_id,
            task_name=task_name,
            decision=self.start,
            depth=self.depth,
        )

    # ------------------------------------------------------------------ for programs: the language model

    def begin_prompt(self, system: str, examples: Sequence[Example | str], *, rule: str = "") -> None:
        """Set what stands before the node's own turns in its prompts: system text and examples, as far as wanted.

        The household's rules are a part of the system text. ``rule`` says in a chat what a reply is.
        """
        self.requests.begin(system, examples, rule)

    def prompt_start(self, system: str, examples: Sequence[Example], rule: str) -> tuple[Turn, ...]:
        """Return what system text, examples and rule come to at the beginning of a prompt."""
        return (start_turn(system, examples, rule),)

    def prompt(self) -> Sequence[Turn]:
        """Return the prompt of the next request."""
        return Prompt(self.requests.start, self.turns)

    def ask(
        self, may_say: MaySay | Callable[[], MaySay], *, begun: str = "", **sampling: Any
    ) -> Generator[Step, Any, Reply]:
        """Ask for what comes next; a prompt that is too long is made shorter, see :meth:`make_room`.

        The caller counts the decision.

        Args:
            may_say: What the reply is held to, or what says that: after a hold it may be something else.
            begun: How the reply begins.
            sampling: Fields of the request that differ from the run's options.

        Raises:
            LimitReached: The budget forbids a further decision.
            LanguageModelError: No reply came.
        """
        return (yield from self.requests.ask(may_say, begun, sampling))

    def shorten(self, error: PromptTooLong) -> None:
        """Leave the least similar examples out from now on; if there are none, have shorter replies.

        Raises:
            PromptTooLong: Neither is possible.
        """
        self.requests.shorten(error)

    def make_room(self, error: PromptTooLong) -> Generator[Step, Any, None]:
        """Make a prompt that does not fit shorter, which may take a request; by default as by :meth:`shorten`.

        Raises:
            PromptTooLong: Nothing can be left out.
        """
        self.shorten(error)
        yield from ()

    def decisions(self, reply: Reply, grammar: Grammar) -> tuple[Said, ...]:
        """Return the decisions that a reply is taken for; none if it is refused, which the model is told."""
        said, objection = reply.said, reply.objection
        if not said and not objection:
            try:
                return read(reply.text, grammar, cut=reply.cut)
            except Unreadable as error:
                objection, said = str(error), error.said
        if not objection:
            return said
        self.refuse(reply.text.strip("\n"), objection, said[-1].decision if said else None)
        return ()

    # ------------------------------------------------------------------ for programs: turns

    def add(self, turn: Turn, *, anew: bool = False) -> None:
        """Add a turn; ``anew``: the turns begin again with it, and those before are not the node's any more."""
        if anew:
            self.turns = []
        self.turns.append(turn)
        self.context.listener.turned(self, turn, anew=anew)

    def tell(self, text: str, about: About = About.ANSWER) -> None:
        """Add what the node is told."""
        self.add(Told(text, about))

    def say(self, text: str, decision: Decision | None) -> None:
        """Add what the language model said."""
        self.add(Said(text, decision))

    def see(self, observation: Observation) -> None:
        """Add an observation."""
        self.add(Saw(observation.told, observation))

    def take(self, decision: Decision, reply: Reply | None = None, said: str = "") -> None:
        """Count a decision, tell the listener of it, and add what was said.

        Args:
            decision: The decision.
            reply: What it was read from; None: that of :meth:`taking`.
            said: The words for it; empty: those of :meth:`taking`, or its own.
        """
        taken_from, words = self._taking if reply is None else (reply, said)
        self.budget.count(decision.counted)
        self.requests.refusals.end_row()
        self.context.listener.decided(self, decision, taken_from)
        self.say(words or str(decision), decision)

    def taking(self, decision: Decision, reply: Reply, said: str = "") -> Generator[Step, Any, bool | None]:
        """Carry out a decision as its kind does; returns whether the goal is reached if the node ends by it, else None.

        Args:
            decision: The decision.
            reply: What it was read from.
            said: The words for it; empty: its own.
        """
        node: Any = self  # a node of a program that takes such decisions has what they need
        self._taking = reply, said
        return (yield from decision.carry_out(node))

    def refuse(self, said: str, reason: str, decision: Decision | None = None) -> None:
        """Count a decision that is not carried out, and tell the model why.

        Args:
            said: What was said.
            reason: Why it is not carried out.
            decision: What it was read as; None if it is no decision.

        Raises:
            Refused: This was the last of too many.
        """
        reason = in_lines(reason, first=False)
        self.budget.count()
        self.context.refused(self.index, reason)
        self.context.listener.refused(self, Said(said, decision), reason)
        self.say(said, None)
        self.tell(reason, About.REFUSAL)
        self.requests.refusals.add(said, reason)

    def run_below(self, subtree: Behaviour) -> Program:
        """Let a subtree grow, and end as it does."""
        status: Status = yield Grow(subtree)
        self.end = End.EXPAND
        self.feedback_message = subtree.feedback_message or f"{subtree.name} ended in {status.value.lower()}"
        if status == Status.SUCCESS:
            return True
        self.failure = Failure(kind_of_failure(subtree), self.feedback_message)
        return False

    # ------------------------------------------------------------------ for programs: the world

    def resumed(self, seen: Observation) -> Generator[Step, Any, None]:
        """Take in what is to be seen after a hold in which nothing was under way; by default as an observation."""
        self.see(seen)
        yield from ()

    def look_around(self) -> Generator[Step, Any, Observation]:
        """Look around; working memory takes in what is seen.

        Raises:
            WorldError: The world failed.
        """
        return (yield from self.senses.look_around())

    def available_skills(self) -> Generator[Step, Any, Sequence[Offered]]:
        """Return the world's skills that may be tried now.

        Raises:
            WorldError: The world failed.
        """
        return (yield from self.senses.skills())

    def perform(self, skill: str) -> Generator[Step, Any, Observation]:
        """Carry a skill out that is counted already; ``recall`` is answered by working memory.

        Raises:
            WorldError: The world failed.
        """
        return (yield from self.senses.perform(skill))

    def act(self, act: Decision, reply: Reply | None = None, said: str = "") -> Generator[Step, Any, Observation]:
        """Take an act as :meth:`take` does, and carry its skill out; what is seen is added to the turns.

        Raises:
            WorldError: The world failed.
        """
        self.take(act, reply, said)
        observation = yield from self.perform(act.skill_asked)
        self.see(observation)
        return observation


def kind_of_failure(failed: Behaviour) -> FailureKind:
    """Return the kind of failure of a subtree: that of the goal node in it that failed last."""
    if isinstance(failed, GoalNode) and failed.failure is not None:
        return failed.failure.kind
    last = next((child for child in reversed(failed.children) if child.status == Status.FAILURE), None)
    return FailureKind.GAVE_UP if last is None else kind_of_failure(last)
