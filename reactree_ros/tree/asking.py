"""What a goal node asks the world, the memories and the language model, and how often replies may be refused."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from reactree_ros.agent.budget import COUNTED, Limit
from reactree_ros.agent.decision import DONE, FAILURE, RECALL, Decision
from reactree_ros.agent.household import NAMING
from reactree_ros.agent.prompt import SUMMARY_STOPS, read_summary, start_turn, summary_request, without_oldest
from reactree_ros.agent.skill import Offered
from reactree_ros.agent.text import names, shortened_line
from reactree_ros.agent.transcript import Example, shortened
from reactree_ros.agent.turns import About, Prompt, Said, Saw, Told, ToldSearched, Turn
from reactree_ros.background.pending import Pending, asked
from reactree_ros.llm.port import (
    DecisionRequest,
    FreeText,
    LanguageModelError,
    MaySay,
    NoAnswerInTime,
    PromptTooLong,
    Reply,
    ServerUnavailable,
)
from reactree_ros.memory.experience import Experience
from reactree_ros.tree.advice import in_one_form
from reactree_ros.tree.failure import BrokenOff, LimitReached, MemoryGone, Refused, RobotLost
from reactree_ros.tree.goal import OfAttempt
from reactree_ros.tree.listener import Call
from reactree_ros.tree.options import RunOptions
from reactree_ros.tree.program_node import Execute, Hold, ProgramNode, Step, Wait
from reactree_ros.tree.team import Circle, Robot, Taken, not_carried_out
from reactree_ros.world.port import Observation, Outcome, Use, World, WorldError

#: How much sooner than the node a language model gives up, in seconds, and at most as a share of the node's wait: the
#: failure comes in time then, and tells what was used.
SOONER, SOONER_SHARE = 1.0, 0.1
#: The share of refused requests is that of so many last ones.
LAST = 20
_LONGEST = 100
T = TypeVar("T")


class Refusals:
    def __init__(self, options: RunOptions) -> None:
        self._in_a_row, self._share = options.refused_in_a_row, options.refused_share
        self._requests = deque[bool](maxlen=LAST)  # whether each was refused
        self.row, self._said = 0, ""  # how many replies were refused in a row, and which

    def asked(self, reply: Reply) -> None:
        """Count the requests that a reply took; the last one counts as taken until it is refused."""
        self._requests.extend([one.refused for one in reply.attempts] or [False])

    def add(self, said: str, reason: str) -> None:
        """Count a reply that was refused; after too many of them, Refused is raised."""
        if self._requests:
            self._requests[-1] = True
        words = " ".join(said.casefold().split())
        self.row = self.row + 1 if self.row and words == self._said else 1
        self._said = words
        last = f"'{shortened_line(said, _LONGEST)}' ({shortened_line(reason, 2 * _LONGEST)})"
        if 0 < self._in_a_row <= self.row:
            raise Refused(f"the same reply was refused {self.row} times in a row: {last}")
        refused = sum(self._requests)
        if len(self._requests) == LAST and refused > self._share * LAST:
            raise Refused(f"{refused} of the last {LAST} requests were refused, the last reply was {last}")


class AskingNode(ProgramNode):
    """Sees and acts through its robot, asks the memories, and the language model as long as the budget allows it.

    A world that fails raises a WorldError.

    Attributes:
        prompt_head: What stands before the node's own turns in its prompts.
        shown_examples: The in-context examples in it, the most similar first.
        requests_made: How many requests were made.
    """

    prompt_head = OfAttempt[tuple[Turn, ...]](lambda _: ())
    shown_examples = OfAttempt[Sequence[Example]](lambda _: ())
    refusals = OfAttempt(lambda node: Refusals(node.context.options))
    _system_and_rule = OfAttempt(lambda _: ("", ""))
    _longest_reply = OfAttempt(lambda _: 0)  # in tokens; 0: as the options have it
    _searched = OfAttempt[ToldSearched | None](lambda _: None)  # what its last skill has searched
    _looked_as = OfAttempt[Robot | None](lambda _: None)  # as which it looked around last

    # ------------------------------------------------------------------ turns

    def add(self, turn: Turn, *, anew: bool = False) -> None:
        """Add a turn; ``anew``: the turns begin again with it, and those before are not the node's any more."""
        if anew:
            self.turns = []
        self.turns.append(turn)
        self.context.listener.turned(self, turn, anew=anew)

    def tell(self, text: str, about: About = About.ANSWER) -> None:
        self.add(Told(text, about))

    def say(self, text: str, decision: Decision | None) -> None:
        self.add(Said(text, decision))

    def see(self, observation: Observation) -> None:
        self.add(Saw(self._as_said(observation.full_text, self.context.known.knows), observation))

    def _as_said(self, text: str, is_named: Callable[[str], bool] = lambda _: True) -> str:
        is_plain = self.context.options.told("names") and self.context.household.naming == NAMING
        return in_one_form(text, is_named) if is_plain else text

    # ------------------------------------------------------------------ the world

    def resumed(self, seen: Observation) -> Generator[Step, Any, None]:
        """Show what is to be seen after a hold in which nothing was under way; by default as an observation."""
        self.see(seen)
        yield from ()

    def hold(self) -> Generator[Step, Any, bool]:
        """Wait as long as the run is held, then take in what is to be seen; asking and acting do so by themselves.

        Returns whether it had to wait, and so has looked around; a hold that lasts too long raises Held.
        """
        waited = False
        while (reason := self.held()) or self._looked_as not in (None, self.post.robot):
            seen = yield from self._after_hold(f"You had to wait: {reason}." if reason else "")
            yield from self.resumed(seen)
            waited = True
        return waited

    def _after_hold(self, words: str) -> Generator[Step, Any, Observation]:
        before = self._looked_as
        yield Hold()
        self.post.robot.known.moved()  # somebody may have moved it
        seen = yield from self.look_around()
        now = "" if before in (None, self.post.robot) else f"You are {self.post.robot.name} now."
        text = " ".join(filter(None, (words, now, "You may go on.", seen.text)))
        return replace(seen, text=text, outcome=Outcome.HALTED)

    def look_around(self) -> Generator[Step, Any, Observation]:
        self.post.world.attend(self.subgoal)
        observation = yield from self._observe("observation", "observe", lambda world: world.observe())
        self._looked_as = self.post.robot
        self.context.remember(observation, self._looked_as)
        return observation

    def survey(self) -> Generator[Step, Any, Observation]:
        return (yield from self._observe("description of the world", "survey", lambda world: world.survey()))

    def _observe(
        self, what: str, of: str, ask: Callable[[World], Pending[Observation]]
    ) -> Generator[Step, Any, Observation]:
        while True:
            try:
                pending = asked(ask, self.post.world)
                observation: Observation = yield Wait(what, pending, WorldError, call=Call(of))
            except RobotLost:
                yield Hold()  # another one goes on
            else:
                return observation

    def available_skills(self) -> Generator[Step, Any, Sequence[Offered]]:
        while True:
            yield from self.hold()
            pending = asked(self.post.world.available_skills)
            try:
                skills: Sequence[Offered] = yield Wait("skills", pending, WorldError, call=Call("skills"))
            except RobotLost as lost:
                self.see((yield from self._after_hold(f"You could not go on: {lost}.")))
            else:
                return self.context.known.giving(skills)

    def perform(self, skill: str) -> Generator[Step, Any, Observation]:
        """Carry a skill out that is counted already; ``recall`` is answered by working memory."""
        context = self.context
        self.post.robot.elapsed += 1
        if context.recalls and skill.startswith(RECALL):
            observation = Observation(context.recall(skill.removeprefix(RECALL), self.post.robot))
            context.listener.came(self, Call("recall"), observation)
        else:
            try:
                yield from self._claim(skill)
                observation = yield Execute(skill)
            except BrokenOff as held:
                observation = Observation(f"You were stopped before you had done it: {held}.", Outcome.HALTED)
            except (Taken, Circle) as taken:
                observation = not_carried_out(str(taken))
                context.listener.came(self, Call("execute"), observation)
            if observation.outcome is Outcome.HALTED:
                observation = yield from self._after_hold(observation.text)
            robot = self.post.robot
            context.remember(observation, robot)
            self._searched = context.known.did(skill, observation, robot.name, step=context.budget.steps)
        context.listener.observed(self, observation)
        since, self._news = self._news, len(context.known.observed)
        if not context.recalls or context.team.alone:
            return observation
        news = context.known.news(since, self.post.robot.name, lambda word: names(self.subgoal, word))
        return replace(observation, text=observation.text + news) if news else observation

    def _claim(self, skill: str) -> Generator[Step, Any, None]:
        """Wait until this subtree has what a skill takes of the robot, if others of that robot may have it."""
        if self.post.part:
            used, seconds = self.post.world.household.uses(skill), self.context.options.skill_timeout
            claimed = self.context.team.claims.ask(self.post, Use(places=tuple(used)))
            free = f"free {' and '.join(sorted(used - {''}))}"
            yield Wait(free, claimed, Taken, seconds=seconds, while_held=False, call=Call("claim"))

    # ------------------------------------------------------------------ the memories

    def own_actions(self) -> list[str]:
        recall = self.post.world.recallable if self.context.recalls else ()
        if not self.context.options.offers_all:
            recall = self.context.offers.recalls(recall, f"{self.context.nodes[0].subgoal}; {self.subgoal}")
        return [DONE, FAILURE, *(RECALL + word for word in recall)]

    def find_examples(self, *, tree: bool = False) -> Generator[Step, Any, tuple[Experience, ...]]:
        """Ask episodic memory for experiences, for a whole ``tree`` of nodes or its root; nothing if it has none."""
        if (find := self.context.examples) is None:
            return ()
        find = partial(find, tree=True) if tree else find
        return (yield from self.ask_memory(find, "examples", Call("examples")))

    def ask_memory(
        self, find: Callable[[str], Pending[tuple[T, ...]]], what: str, call: Call, *, next_tick: bool = False
    ) -> Generator[Step, Any, tuple[T, ...]]:
        """Have something found for the subgoal; if that fails, or does not come in time, MemoryGone is raised."""
        try:
            pending = asked(find, self.subgoal)
            found: tuple[T, ...] = yield Wait(what, pending, MemoryGone, next_tick=next_tick, call=call)
        except (MemoryGone, LimitReached):
            raise
        except Exception as error:
            raise MemoryGone(f"no {what}: {error}") from error
        return found

    # ------------------------------------------------------------------ the prompt

    def begin_prompt(self, system: str, examples: Sequence[Example | str], *, rule: str = "") -> None:
        """Set what stands before the node's own turns in its prompts: system text and examples, as far as wanted.

        The household's rules are a part of the system text. ``rule`` says in a chat what a reply is.
        """
        household = self.context.household
        what_for = household.skills_text(self.context.nodes[0].subgoal) if self.context.options.told("rules") else ""
        whole = "\n".join(filter(None, (system, household.rules_text, what_for)))
        self._system_and_rule = (whole, rule) if self.context.system_text else ("", "")
        line = household.start_line
        shown = [one if isinstance(one, Example) else Example.of_text(one, start_line=line) for one in examples]
        self._show([one.with_observations(self._as_said) for one in shown])

    def _show(self, examples: Sequence[Example]) -> None:
        system, rule = self._system_and_rule
        self.shown_examples, self.prompt_head = examples, self.prompt_start(system, examples, rule)

    def prompt_start(self, system: str, examples: Sequence[Example], rule: str) -> tuple[Turn, ...]:
        return (start_turn(system, examples, rule),)

    def prompt(self) -> Sequence[Turn]:
        return Prompt(self.prompt_head, self.turns)

    def shorten(self, error: PromptTooLong) -> None:
        """Leave the least similar examples out from now on; if there are none, have shorter replies.

        A reply may then take a quarter of the context. If neither is possible, the error is raised.
        """
        if examples := self.shown_examples:
            kept = shortened(examples, error.excess, count=self.context.count_tokens)
            self.context.listener.shortened(self, len(examples) - len(kept), error.excess)
            self._show(kept)
            return
        quarter, options = error.context // 4, self.context.options
        if options.as_recorded or not (0 < quarter < (self._longest_reply or options.max_tokens)):
            raise error
        self._longest_reply = quarter

    def make_room(self, error: PromptTooLong) -> Generator[Step, Any, None]:
        """Make a prompt that does not fit shorter, which may take a request; by default as by :meth:`shorten`."""
        self.shorten(error)
        yield from ()

    # ------------------------------------------------------------------ requests

    def ask(self, may_say: MaySay | Callable[[], MaySay], **sampling: Any) -> Generator[Step, Any, Reply]:
        """Ask for what comes next; a prompt that is too long is made shorter, see :meth:`make_room`.

        The caller counts the decision. If the budget forbids a further one, LimitReached is raised; if no reply comes,
        a LanguageModelError.

        Args:
            may_say: What the reply is held to, or what says that: after a hold it may be something else.
            sampling: Fields of the request that differ from the run's options.
        """
        while True:
            try:
                return (yield from self._ask_once(self.prompt, may_say, **sampling))
            except PromptTooLong as error:
                yield from self.make_room(error)

    def ask_with(self, turns: Sequence[Turn], may_say: MaySay, **sampling: Any) -> Generator[Step, Any, Reply]:
        """Ask with a prompt of its own; see :meth:`ask`."""
        return (yield from self._ask_once(lambda: turns, may_say, **sampling))

    def _ask_once(
        self, prompt: Callable[[], Sequence[Turn]], may_say: MaySay | Callable[[], MaySay], **sampling: Any
    ) -> Generator[Step, Any, Reply]:
        while True:  # what a hold breaks off is asked again after it
            yield from self.hold()
            self.check_budget()
            request = self.make_request(prompt(), may_say() if callable(may_say) else may_say, **sampling)
            wait, number = self.send(request, next_tick=True, while_held=False), self.context.budget.decisions + 1
            try:
                reply = yield from self.receive(request, wait, number)
            except BrokenOff:
                continue
            self.refusals.asked(reply)
            return reply

    def make_request(self, turns: Sequence[Turn], may_say: MaySay, **sampling: Any) -> DecisionRequest:
        self.requests_made += 1
        options, world = self.context.options, self.post.world
        given = {"max_tokens": options.max_tokens, "temperature": options.temperature, "seed": options.seed} | sampling
        if self._longest_reply:
            given["max_tokens"] = min(given["max_tokens"], self._longest_reply)
        request = DecisionRequest(
            turns=turns,
            may_say=may_say,
            id=f"{self.index}.{self.requests_made}",
            planner=self.context.planner,
            patience=options.decision_timeout,
            words=world.words,
            things=world.recallable,
            **given,
        )
        return replace(request, patience=request.patience * self.context.model.slowness(request))

    def send(self, request: DecisionRequest, what: str = "reply", **how: bool) -> Wait:
        self.context.listener.asked(self, request)
        patience = request.patience - min(SOONER, SOONER_SHARE * request.patience)
        pending = asked(self.context.model.decide, replace(request, patience=patience, trace=self.context.trace()))
        late, gone, call = NoAnswerInTime, ServerUnavailable, Call("reply", request.id)
        return Wait(what, pending, late, gone, seconds=request.patience, call=call, **how)

    def receive(self, request: DecisionRequest, wait: Wait, decision: int) -> Generator[Step, Any, Reply]:
        """Wait for the reply to a request for a decision, by its number, and count what it took, also if it fails."""
        try:
            reply: Reply = yield wait
        except LanguageModelError as error:
            if error.took is not None:
                self.context.took(self.index, decision, error.took, request)
            raise
        self.context.took(self.index, decision, reply, request)
        return reply

    def check_budget(self) -> None:
        if (limit := self.budget.reached()) is not None:
            raise self.limited(limit)

    def limited(self, limit: Limit) -> LimitReached:
        self.context.limit = limit
        before = "stuck: " if limit is Limit.STUCK else ""
        reached = LimitReached(limit, "" if limit in COUNTED else f"{before}{self.budget.reason()}")
        self.tell(str(reached), About.LIMIT)
        return reached

    def summarise(
        self, trajectory: Sequence[Turn], subgoal: str, *, otherwise: str, **sampling: Any
    ) -> Generator[Step, Any, tuple[str, Reply | None]]:
        """Ask for a summary of a trajectory; if that does not fit into a prompt, of its later part.

        The caller counts the decision. ``otherwise`` stands in for a summary that is empty or was cut, and if nothing
        of the trajectory fits: then there is no reply.
        """
        while trajectory:
            try:
                turns = [summary_request(trajectory, subgoal)]
                reply = yield from self.ask_with(turns, FreeText(SUMMARY_STOPS), **sampling)
            except PromptTooLong as error:
                trajectory = without_oldest(trajectory, error.excess, count=self.context.count_tokens)
            else:
                return read_summary(reply.text, otherwise, cut=reply.cut), reply
        return otherwise, None
