"""The goal node: works on one goal by a program, a generator that says what it waits for next, whoever plans."""

from __future__ import annotations

import abc
import logging
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from py_trees.behaviour import Behaviour
from py_trees.common import Status
from py_trees.composites import Composite

from reactree_ros.agent.budget import COUNTED, Limit
from reactree_ros.agent.decision import DONE, FAILURE, RECALL, Act, Decision, Think
from reactree_ros.agent.foreign import in_lines
from reactree_ros.agent.grammar import Grammar
from reactree_ros.agent.prompt import shortened, start_turn
from reactree_ros.agent.reading import Unreadable, read
from reactree_ros.agent.summary import SUMMARY_STOPS, read_summary, summary_request, without_oldest
from reactree_ros.agent.turns import About, Prompt, Said, Saw, Told, Turn, is_closed, node_text
from reactree_ros.llm.port import (
    DecisionRequest,
    FreeText,
    LanguageModelError,
    MaySay,
    NoAnswerInTime,
    PromptTooLong,
    Reply,
)
from reactree_ros.memory.experience import End, Experience
from reactree_ros.pending import Pending, asked
from reactree_ros.person.port import Answer, NobodyAnswers, Question, quoted
from reactree_ros.tree.context import Call, RunContext
from reactree_ros.tree.failure import EndedBelow, Failure, FailureKind, Held, LimitReached, MemoryGone, failure_of
from reactree_ros.tree.skill_leaf import SkillLeaf
from reactree_ros.tree.team import Post, Robot
from reactree_ros.world.port import Observation, Outcome, World, WorldError

T = TypeVar("T")
_log = logging.getLogger(__name__)
#: What follows a thought.
OK = "OK."
#: How many of a goal node's skills are to be seen in the tree, the last ones.
SHOWN_SKILLS = 10


@dataclass(frozen=True)
class Wait:
    """Wait for a pending result; what comes back is its value, or what it failed with is raised.

    Attributes:
        what: Its name, for errors.
        pending: The result.
        late: Of what type the error is where it does not come in time.
        next_tick: Whether it is looked at in the next tick at the earliest, also where it is there at once.
        seconds: Longest wait; None: as long as for a decision.
        while_held: Whether it goes on while the run is held; otherwise it is cancelled, and :class:`Held` is raised.
        call: What it was asked for outside of the run, which listeners are told; None where it is the run's own work.
            What is its own work is to be looked at in the next tick, so that a run and its replay have the same ticks.
    """

    what: str
    pending: Pending[Any]
    late: type[Exception] = TimeoutError
    next_tick: bool = False
    seconds: float | None = None
    while_held: bool = True
    call: Call | None = None


@dataclass(frozen=True)
class Execute:
    """Carry a skill out by a leaf of its own; what comes back is the :class:`Observation`.

    Where the run is held meanwhile, it is cancelled, and :class:`Held` is raised.
    """

    skill: str


@dataclass(frozen=True)
class Grow:
    """Run a subtree, which is inserted under the node; what comes back is its :class:`Status`."""

    subtree: Behaviour


@dataclass(frozen=True)
class Hold:
    """Wait as long as the run is held; nothing comes back."""


Step = Wait | Execute | Grow | Hold
#: What :meth:`GoalNode.program` is; it returns whether the goal was reached.
Program = Generator[Step, Any, bool]


class _BrokenOff(Held):
    """What a program waits for was cancelled, because the run is held."""


class _RobotLost(_BrokenOff):
    """The robot that was to do what a program waits for is gone; another one goes on."""


def _is_broken_off(step: Step | None) -> bool:
    """Whether a step is not to go on while the run is held."""
    return isinstance(step, Execute) or (isinstance(step, Wait) and not step.while_held)


def _seconds(step: Wait, context: RunContext) -> float:
    """Return how long a program waits at most."""
    return context.options.decision_timeout if step.seconds is None else step.seconds


class GoalNode(Composite, abc.ABC):
    """Works on one goal by its :meth:`program`; its children are its last skills and what has grown under it, in order.

    At most one reply is taken in a tick. While the run is held, because the world is halted or a person has paused
    it, none is asked for and nothing is carried out, whatever was in flight is cancelled, and no budget is used; the
    feedback message says so. Then it looks around anew and goes on.

    Status:
        RUNNING while the program waits for something.
        SUCCESS where it returns True.
        FAILURE where it returns False or raises; :attr:`failure` and the feedback message say why.
        INVALID when interrupted: what it has in flight is cancelled, and the program is closed.

    Attributes:
        subgoal: Its goal, in natural language.
        depth: 1 for the root, 3 for the goal nodes under it, and so on.
        turns: What it was told, said and saw so far.
        lesson: The turns that are an example for others; None: all of them.
        index: Its number in the run, in the order in which goal nodes start, from 0.
        start: Decision count at its start, from 1.
        listens: Whether its program takes in what a person says in the middle of a run; see :meth:`hear`.
        end: How it ended, for episodic memory; None before, and where an error ended it.
        failure: Why it failed; None where it did not.
        leaf: The latest skill, which is carried out or was; None where there was none yet.
    """

    listens = False

    def __init__(self, subgoal: str, context: RunContext, *, name: str = "", parent: GoalNode | None = None) -> None:
        """Make a node.

        Args:
            subgoal: Its goal, in natural language.
            context: What the nodes of the run share.
            name: Its name in displays; empty: the goal.
            parent: The goal node that it grows under; None for the root.
        """
        super().__init__(name or " ".join(subgoal.split()), children=[])
        self.subgoal = subgoal
        self.depth: int = 1 if parent is None else parent.depth + 2
        self.index = self.start = 0
        self._context = context
        self._above = parent
        self._post: Post | None = None
        self._clear()

    def _clear(self) -> None:
        self.turns: list[Turn] = []
        self.lesson: Sequence[Turn] | None = None
        self.end: End | None = None
        self.failure: Failure | None = None
        self.leaf: SkillLeaf | None = None
        self._leaves = deque[SkillLeaf]()
        self.feedback_message = ""
        self._system = ""
        self._examples: Sequence[str] = ()
        self._prompt_start: tuple[Turn, ...] = ()
        self._requests = self._heard = 0
        self._begun = False
        self._program: Program | None = None
        self._step: Step | None = None
        self._deadline = 0.0
        self._looked_as: Robot | None = None  # as which it looked around last
        self._news = 0  # how many there were when it was told of them last
        self._missed: tuple[Exception | None, str] = (None, "")  # what was raised instead of what the program waits for

    def setup(self, **kwargs: Any) -> None:
        """Nothing to set up: model and world are there."""

    @property
    def context(self) -> RunContext:
        """What the nodes of the run share."""
        return self._context

    @property
    def post(self) -> Post:
        """What robot it has: one of its own, or that of the goal node that it grew under."""
        team, node = self._context.team, self
        while node._post is None and node._above is not None and not team.alone:
            node = node._above
        return node._post or team.post

    @post.setter
    def post(self, post: Post) -> None:
        self._post = post

    @property
    def world(self) -> World:
        """The world as its robot sees it and acts in it."""
        return self.post.robot.world

    def _held(self) -> str:
        """Say why nothing is decided or done now; empty where the node goes on."""
        return self._context.paused or self._without_robot() or self.world.halted()

    def _without_robot(self) -> str:
        before = self.post.robot
        reason = self._context.team.vacancy(self.post)
        if self.post.robot is not before:
            self._context.listener.manned(self.post.top, self.post.robot.name)
        return reason

    @property
    def text(self) -> str:
        """Everything it was told, said and saw, as in the recorded files."""
        return node_text(self.turns)

    def experience(self, *, task_id: str, task_name: str) -> Experience | None:
        """Return what it went through, for episodic memory; None where it has no end of its own."""
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

    @abc.abstractmethod
    def program(self) -> Program:
        """Say what to wait for, step by step, and at the end whether the goal was reached.

        It adds to :attr:`turns` what is told, said and seen. What it raises ends the node, and says why.
        """

    # ------------------------------------------------------------------ for programs: the language model

    def begin_prompt(self, system: str, examples: Sequence[str]) -> None:
        """Set what stands before the node's own turns in its prompts: system text and examples, as far as wanted.

        The household's rules are a part of the system text.
        """
        rules = self._context.household.rules
        whole = f"{system}\n{rules}" if rules else system
        self._system = whole if self._context.system_text else ""
        self._examples = examples
        self._prompt_start = self.prompt_start(self._system, examples)

    def prompt_start(self, system: str, examples: Sequence[str]) -> tuple[Turn, ...]:
        """Return what system text and examples come to at the beginning of a prompt."""
        return (start_turn(system, examples),)

    def prompt(self) -> Sequence[Turn]:
        """Return the prompt of the next request."""
        return Prompt(self._prompt_start, self.turns)

    def ask(
        self, may_say: MaySay | Callable[[], MaySay], *, begun: str = "", **sampling: Any
    ) -> Generator[Step, Any, Reply]:
        """Ask for what comes next; where the prompt is too long, without the least similar examples.

        The caller counts the decision.

        Args:
            may_say: What the reply is held to, or what says that: after a hold it may be something else.
            begun: How the reply begins.
            sampling: What of the request is not as the run's options say.

        Raises:
            LimitReached: The budget forbids a further decision.
            LanguageModelError: No reply came.
        """
        while True:
            yield from self.hold()
            try:
                asked_for = may_say() if callable(may_say) else may_say
                return (yield from self._ask_once(self.prompt(), asked_for, begun, sampling))
            except PromptTooLong as error:
                self.shorten(error)
            except _BrokenOff:
                continue

    def shorten(self, error: PromptTooLong) -> None:
        """Leave the least similar examples out from now on.

        Raises:
            PromptTooLong: There are none.
        """
        if not self._examples:
            raise error
        kept = shortened(self._examples, error.excess, count=self._context.count_tokens)
        self._context.listener.shortened(self, len(self._examples) - len(kept), error.excess)
        self.begin_prompt(self._system, kept)

    def ask_of(
        self, turns: Sequence[Turn], may_say: MaySay, *, begun: str = "", **sampling: Any
    ) -> Generator[Step, Any, Reply]:
        """Ask with a prompt of its own; see :meth:`ask`."""
        while True:
            yield from self.hold()
            try:
                return (yield from self._ask_once(turns, may_say, begun, sampling))
            except _BrokenOff:
                continue

    def _ask_once(
        self, turns: Sequence[Turn], may_say: MaySay, begun: str, sampling: Mapping[str, Any]
    ) -> Generator[Step, Any, Reply]:
        context = self._context
        self.check_budget()
        asked = self.request(turns, may_say, begun=begun, **sampling)
        pending, call = self.decide(asked), Call("reply", asked.id)
        try:
            reply: Reply = yield Wait("reply", pending, NoAnswerInTime, next_tick=True, while_held=False, call=call)
        except LanguageModelError as error:
            if error.took is not None:
                context.took(self.index, context.budget.decisions + 1, error.took, asked)
            raise
        context.took(self.index, context.budget.decisions + 1, reply, asked)
        return reply

    def request(self, turns: Sequence[Turn], may_say: MaySay, *, begun: str = "", **sampling: Any) -> DecisionRequest:
        """Make a request with the run's options, and an id that is unique within the run."""
        self._requests += 1
        options = self._context.options
        given = {"max_tokens": options.max_tokens, "temperature": options.temperature, "seed": options.seed}
        return DecisionRequest(
            turns=turns,
            may_say=may_say,
            begun=begun,
            id=f"{self.index}.{self._requests}",
            planner=self._context.planner,
            patience=options.decision_timeout,
            **(given | sampling),
        )

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        """Let the language model answer a request; one that raises is one that failed."""
        self._context.listener.asked(self, request)
        return asked(self._context.model.decide, request)

    def decisions(self, reply: Reply, grammar: Grammar) -> tuple[Said, ...]:
        """Return the decisions that a reply is taken for; none where it is refused, which the model is told."""
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

    def check_budget(self) -> None:
        """Look whether a further decision is allowed.

        Raises:
            LimitReached: It is not; the node is told.
        """
        if (limit := self._context.budget.reached()) is not None:
            raise self._limited(limit)

    def _limited(self, limit: Limit) -> LimitReached:
        """Tell the node of a limit that is reached, and return what ends it."""
        before = "stuck: " if limit is Limit.STUCK else ""
        reached = LimitReached(limit, "" if limit in COUNTED else f"{before}{self._context.budget.reason()}")
        self.tell(str(reached), About.LIMIT)
        return reached

    def summarise(
        self, trajectory: Sequence[Turn], subgoal: str, *, otherwise: str
    ) -> Generator[Step, Any, tuple[str, Reply | None]]:
        """Ask for a summary of a trajectory; where that does not fit into a prompt, of its later part.

        The caller counts the decision.

        Args:
            trajectory: What was done and seen.
            subgoal: What it was done for.
            otherwise: What stands in for a summary that is empty or was cut, and where nothing of the trajectory fits.

        Returns:
            The summary, and the reply that it comes from; None where nothing could be asked.

        Raises:
            LimitReached: The budget forbids a further decision.
            LanguageModelError: No reply came.
        """
        while trajectory:
            try:
                reply = yield from self.ask_of([summary_request(trajectory, subgoal)], FreeText(SUMMARY_STOPS))
            except PromptTooLong as error:
                trajectory = without_oldest(trajectory, error.excess, count=self._context.count_tokens)
            else:
                return read_summary(reply.text, otherwise, cut=reply.cut), reply
        return otherwise, None

    def hold(self) -> Generator[Step, Any, None]:
        """Wait as long as the run is held, then take in what is to be seen; asking and acting do so by themselves.

        Raises:
            Held: It was held for too long.
            WorldError: The world failed.
        """
        while (reason := self._held()) or self._looked_as not in (None, self.post.robot):
            seen = yield from self._after_hold(f"You had to wait: {reason}." if reason else "")
            yield from self.resumed(seen)

    def _after_hold(self, words: str) -> Generator[Step, Any, Observation]:
        before = self._looked_as
        yield Hold()
        seen = yield from self.look_around()
        now = "" if before in (None, self.post.robot) else f"You are {self.post.robot.name} now."
        told = " ".join(filter(None, (words, now, "You may go on.", seen.text)))
        return replace(seen, text=told, outcome=Outcome.HALTED)

    def resumed(self, seen: Observation) -> Generator[Step, Any, None]:
        """Take in what is to be seen after a hold in which nothing was under way; by default as an observation."""
        self.see(seen)
        yield from ()

    # ------------------------------------------------------------------ for programs: turns

    def add(self, turn: Turn) -> None:
        """Add a turn."""
        self.turns.append(turn)
        self._context.listener.turned(self, turn)

    def begin_turns(self, *turns: Turn) -> None:
        """Begin the turns again, with these; what was before is not the node's any more."""
        self.turns = []
        for number, turn in enumerate(turns):
            self.turns.append(turn)
            self._context.listener.turned(self, turn, anew=not number)

    def tell(self, text: str, about: About = About.ANSWER) -> None:
        """Add what the node is told."""
        self.add(Told(text, about))

    def say(self, text: str, decision: Decision | None) -> None:
        """Add what the language model said."""
        self.add(Said(text, decision))

    def see(self, observation: Observation) -> None:
        """Add an observation."""
        self.add(Saw(observation.text, observation))

    def think(self, thought: Think, reply: Reply, said: str = "", *, answer: str = OK) -> None:
        """Count a thought, tell it to the listener and answer it."""
        self._context.budget.count_decision()
        self._context.listener.decided(self, thought, reply)
        self.say(said or str(thought), thought)
        self.tell(answer)

    def refuse(self, said: str, reason: str, decision: Decision | None = None) -> None:
        """Count a decision that is not carried out, and tell the model why.

        Args:
            said: What was said.
            reason: Why it is not carried out.
            decision: What it was read as; None where it is no decision.
        """
        reason = in_lines(reason, first=False)
        self._context.budget.count_decision()
        self._context.listener.refused(self, Said(said, decision), reason)
        self.say(said, None)
        self.tell(reason, About.REFUSAL)

    # ------------------------------------------------------------------ for programs: a person

    def ask_person(self, question: str) -> Generator[Step, Any, str]:
        """Put a question to the person, and return what the node is to be told; the caller counts the decision.

        That nobody answers in time, or at all, or that the way to the person fails, is told likewise.
        """
        context = self._context
        assert context.person is not None  # nothing is asked where nobody is
        context.budget.questions += 1
        seconds = context.options.answer_timeout
        put = Question(question, seconds, id=f"question {context.budget.questions}", goal=self.subgoal)
        pending = asked(context.person.ask, put)
        try:
            answer: Answer = yield Wait("answer", pending, NobodyAnswers, seconds=seconds, call=Call("answer", put.id))
        except LimitReached:
            raise
        except Exception as error:
            return f"Nobody answers: {in_lines(str(error), first=False) or type(error).__name__}."
        context.answers[question.casefold()] = said = quoted(answer.text)
        return f"The person answers: {said}."

    def hear(self) -> None:
        """Take in what a person has said since, that is no answer."""
        for words in self._context.words[self._heard :]:
            self.tell(f"The person says: {quoted(words)}.", About.PERSON)
        self._heard = len(self._context.words)

    # ------------------------------------------------------------------ for programs: the world and the memories

    def look_around(self) -> Generator[Step, Any, Observation]:
        """Look around; working memory takes in what is seen.

        Raises:
            WorldError: The world failed.
        """
        observation = yield from self._ask_world("observation", "observe", lambda world: world.observe())
        self._looked_as = self.post.robot
        self._context.remember(observation, self._looked_as)
        return observation

    def survey(self) -> Generator[Step, Any, Observation]:
        """Return all there is in the world.

        Raises:
            WorldError: The world cannot say that, or failed.
        """
        return (yield from self._ask_world("description of the world", "survey", lambda world: world.survey()))

    def _ask_world(
        self, what: str, of: str, ask: Callable[[World], Pending[Observation]]
    ) -> Generator[Step, Any, Observation]:
        """Ask the robot, and where it is gone the one that goes on."""
        while True:
            try:
                pending = asked(ask, self.world)
                observation: Observation = yield Wait(what, pending, WorldError, call=Call(of))
            except _RobotLost:
                yield Hold()
            else:
                return observation

    def available_skills(self) -> Generator[Step, Any, Sequence[str]]:
        """Return the world's skills that may be tried now.

        Raises:
            WorldError: The world failed.
        """
        while True:
            yield from self.hold()
            pending = asked(self.world.available_skills)
            try:
                skills: Sequence[str] = yield Wait("skills", pending, WorldError, call=Call("skills"))
            except _RobotLost as lost:
                self.see((yield from self._after_hold(f"You could not go on: {lost}.")))
            else:
                return skills

    def own_actions(self) -> list[str]:
        """Return what may be done beside the world's skills: the ends, and what working memory may be asked."""
        recall = self.world.recallable if self._context.working_memory is not None else ()
        return [DONE, FAILURE, *(RECALL + word for word in recall)]

    def find_examples(self) -> Generator[Step, Any, tuple[Experience, ...]]:
        """Ask episodic memory for experiences; nothing where there is none, or it has nothing.

        Raises:
            MemoryGone: It failed, or did not answer in time.
        """
        examples = self._context.examples
        if examples is None:
            return ()
        pending = asked(examples, self.subgoal)
        try:
            found: tuple[Experience, ...] = yield Wait("examples", pending, MemoryGone, call=Call("examples"))
        except (MemoryGone, LimitReached):
            raise
        except Exception as error:
            raise MemoryGone(f"no examples: {error}") from error
        return found

    def carry_out(self, skill: str) -> Generator[Step, Any, Observation]:
        """Carry a skill out that is counted already; ``recall`` is answered by working memory.

        Raises:
            WorldError: The world failed.
        """
        context = self._context
        self.post.robot.elapsed += 1
        if context.working_memory is not None and skill.startswith(RECALL):
            observation = Observation(context.recall(skill.removeprefix(RECALL), self.post.robot))
            context.listener.came(self, Call("recall"), observation)
        else:
            try:
                observation = yield Execute(skill)
            except _BrokenOff as held:
                observation = Observation(f"You were stopped before you had done it: {held}.", Outcome.HALTED)
            if observation.outcome is Outcome.HALTED:
                observation = yield from self._after_hold(observation.text)
            context.remember(observation, self.post.robot)
        context.listener.observed(self, observation)
        return self._with_news(observation)

    def _with_news(self, observation: Observation) -> Observation:
        team, since = self._context.team, self._news
        self._news = team.news.count
        return team.told(self.post.robot, observation, self.subgoal, since)

    def act(self, act: Act, reply: Reply, said: str = "") -> Generator[Step, Any, Observation]:
        """Count a skill, tell it to the listener, carry it out; what was said and seen is added to the turns.

        Raises:
            WorldError: The world failed.
        """
        self._context.budget.count_step()
        self._context.listener.decided(self, act, reply)
        self.say(said or str(act), act)
        observation = yield from self.carry_out(act.skill)
        self.see(observation)
        return observation

    # ------------------------------------------------------------------ life in the tree

    def tick(self) -> Iterator[Behaviour]:
        """Go on by at most one reply, then tick the child that led to."""
        if self.status != Status.RUNNING:
            if self._context.fatal is not None:  # the tree ends
                self._clear()
                self.failure, self.feedback_message = self._context.fatal, f"not begun: {self._context.fatal.message}"
                self.stop(Status.FAILURE)
                yield self
                return
            self._begin()
        elif self._context.budget.time_is_up and isinstance(self._step, Wait | Execute | Hold):
            self._say_held("")
            self._break_off(self._limited(Limit.SECONDS))
        elif isinstance(self._step, Hold):
            self._look_whether_held()
        elif _is_broken_off(self._step) and (held := self._held()):
            self._break_off(_BrokenOff(held))
        elif isinstance(self._step, Wait):
            self._look(self._step)
        self.status = Status.RUNNING
        self.current_child = child = self._child()
        if child is not None:
            yield from child.tick()
            if child.status != Status.RUNNING:
                self._child_ended(child)
                if self._program is not None:
                    self.current_child = None
                if isinstance(self._step, Execute):  # one skill after another: it starts at the next tick
                    self._context.wake()
        if self._program is None:
            self.stop(Status.SUCCESS if self.failure is None else Status.FAILURE)
        yield self

    def terminate(self, new_status: Status) -> None:
        """Cancel what is in flight and close the program; the children are stopped by the tree."""
        step, self._step = self._step, None
        if isinstance(step, Wait):
            step.pending.cancel()
        if self._program is not None:
            self._program.close()
            self._program = None
        self.status = new_status
        if new_status != Status.INVALID and self._begun:
            self._context.listener.node_ended(self)

    def _begin(self) -> None:
        """Start from the beginning, as the next goal node of the run."""
        for child in list(self.children):
            if child.status != Status.INVALID:
                child.stop(Status.INVALID)
            self.remove_child(child)
        self._clear()
        self.index = len(self._context.nodes)
        self._context.nodes.append(self)
        self.start = self._context.budget.decisions + 1
        self._news = self._context.team.news.count
        self._begun = True
        self._context.listener.node_started(self)
        self._program = program = self.program()
        self._go_on(lambda: next(program))

    def _child(self) -> Behaviour | None:
        if isinstance(self._step, Execute):
            return self.leaf
        if isinstance(self._step, Grow) and self._step.subtree.parent is self:
            return self._step.subtree
        return None

    def _child_ended(self, child: Behaviour) -> None:
        assert self._program is not None  # it waits for the child
        program, leaf = self._program, self.leaf
        if child is not leaf and self._context.fatal is not None:  # the child may have succeeded without who met it
            ended = EndedBelow(self._context.fatal)
            self._go_on(lambda: program.throw(ended))
        elif child is not leaf:
            self._go_on(lambda: program.send(child.status))
        elif leaf is None:
            raise AssertionError("a child that ended is a skill or has grown")
        elif leaf.error is not None:
            error = leaf.error
            self._missed = error, f"'{leaf.name}' failed"
            raised = self._lost(error)
            self._go_on(lambda: program.throw(raised))
        else:
            self._go_on(lambda: program.send(leaf.observation))

    def _look(self, step: Wait) -> None:
        if step.pending.done():
            self._go_on(self._outcome_of(step))
        elif self._context.clock() >= self._deadline:
            step.pending.cancel()
            late = step.late(f"no {step.what} within {_seconds(step, self._context):g} s")
            if step.call is not None:
                self._context.listener.call_failed(self, step.call, late, late=True)
            assert self._program is not None  # it waits
            program = self._program
            raised = self._lost(late)
            self._go_on(lambda: program.throw(raised))

    def _look_whether_held(self) -> None:
        context, program = self._context, self._program
        assert program is not None  # it waits
        held = self._held()
        if held and context.clock() < self._deadline:
            self._say_held(held)
            return
        if held:
            late = Held(f"held for longer than {context.options.hold_timeout:g} s: {held}")
            context.listener.call_failed(self, Call("hold"), late, late=True)
            self._say_held("")
            self._go_on(lambda: program.throw(late))
        else:
            self._say_held("")
            self._go_on(lambda: next(program))

    def _say_held(self, reason: str) -> None:
        said = f"held: {reason}" if reason else ""
        if said != self.feedback_message:
            self.feedback_message = said
            self._context.listener.held(self, reason)

    def _break_off(self, reason: Exception) -> None:
        """Cancel what the program waits for, and raise a reason there instead."""
        program = self._program
        assert program is not None  # it waits
        if isinstance(self._step, Wait):
            self._step.pending.cancel()
        elif isinstance(self._step, Execute) and self.leaf is not None:
            self.leaf.stop(Status.INVALID)
        self._go_on(lambda: program.throw(reason))

    def _outcome_of(self, step: Wait) -> Callable[[], Step]:
        assert self._program is not None  # it waits
        program, listener = self._program, self._context.listener
        try:
            value = step.pending.take()
        except CancelledError:
            thrown: Exception = step.late("it was canceled by somebody else")
        except Exception as error:
            thrown = error
        else:
            if step.call is not None:
                if step.call.of == "reply":
                    value = self._context.warned_once(value)
                listener.came(self, step.call, value)
            return lambda: program.send(value)
        if step.call is not None:
            listener.call_failed(self, step.call, thrown)
        self._missed = thrown, f"no {step.what}"
        raised = self._lost(thrown)
        return lambda: program.throw(raised)

    def _lost(self, error: Exception) -> Exception:
        """Return what is raised where a robot failed: its loss, where another one is left, else the failure itself."""
        team, robot = self._context.team, self.post.robot
        if not isinstance(error, WorldError) or team.alone:
            return error
        robot.lose(str(error) or type(error).__name__)
        if not team.left:
            return error
        held = self._context.forget_held(robot)
        lost = f"; what it held is lost with it: {', '.join(held)}" if held else ""
        return _RobotLost(f"{robot.name} is gone: {robot.gone.rstrip('.')}{lost}")

    def _go_on(self, resume: Callable[[], Step]) -> None:
        """Let the program run to where it has to wait."""
        while True:
            try:
                step = resume()
            except StopIteration as stop:
                self._ended(bool(stop.value))
                return
            except Exception as error:
                self._failed(error)
                return
            if not isinstance(step, Wait | Execute | Grow | Hold):
                self._failed(TypeError(f"a program yields Wait, Execute or Grow, not {str(step)[:80]!r}"))
                return
            if isinstance(step, Wait) and not step.next_tick and step.pending.done():
                resume = self._outcome_of(step)
                continue
            if isinstance(step, Hold) and not self._held():
                program = self._program
                assert program is not None  # it has not ended
                resume = partial(next, program)
                continue
            self._enter(step)
            return

    def _enter(self, step: Step) -> None:
        self._step = step
        context = self._context
        if isinstance(step, Wait):
            self._deadline = context.clock() + _seconds(step, self._context)
            step.pending.add_done_callback(lambda _: context.wake())
            return
        if isinstance(step, Hold):
            self._deadline = context.clock() + context.options.hold_timeout
            self._say_held(self._held())
            return
        if isinstance(step, Execute):
            self._add_leaf(step.skill)
            return
        context.growth.request(self, step.subtree, context.listener.grown)
        context.wake()

    def _add_leaf(self, skill: str) -> None:
        self.leaf = SkillLeaf(self._context, skill)
        self.add_child(self.leaf)
        self._context.listener.grown(self, self.leaf)
        self._leaves.append(self.leaf)
        if len(self._leaves) > SHOWN_SKILLS:
            self.remove_child(self._leaves.popleft())

    def _ended(self, reached: bool) -> None:
        self._step = self._program = None
        if not reached and self.failure is None:
            self.failure = Failure(FailureKind.GAVE_UP, self.feedback_message or "gave up")
        if self.end is None:
            self.end = End.SUCCESS if reached else End.FAILURE

    def _failed(self, error: Exception) -> None:
        self._step = self._program = None
        self.failure = failure_of(error)
        if self._missed[0] is error:
            self.failure = replace(self.failure, message=f"{self._missed[1]}: {self.failure.message}")
        self.feedback_message = self.failure.message
        if not self.failure.is_error:
            self.end = End.FAILURE
        if isinstance(error, EndedBelow):
            return
        self._context.failed(self.failure)
        if self.failure.kind is FailureKind.BUG:
            _log.error("'%s' ended by a bug", self.name, exc_info=error)
