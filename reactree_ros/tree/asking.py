"""What a goal node asks the language model, and how often the replies may be refused."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from typing import Any

from reactree_ros.agent.budget import COUNTED, Limit
from reactree_ros.agent.prompt import SUMMARY_STOPS, read_summary, start_turn, summary_request, without_oldest
from reactree_ros.agent.text import shortened_line
from reactree_ros.agent.transcript import Example, shortened
from reactree_ros.agent.turns import About, Prompt, Turn
from reactree_ros.background.pending import asked
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
from reactree_ros.tree.failure import BrokenOff, LimitReached, Refused
from reactree_ros.tree.goal import OfAttempt
from reactree_ros.tree.listener import Call
from reactree_ros.tree.options import RunOptions
from reactree_ros.tree.program import Step, Wait
from reactree_ros.tree.sensing import SensingNode

#: How much sooner than the node a language model gives up, in seconds, and at most as a share of the node's wait: the
#: failure comes in time then, and tells what was used.
SOONER, SOONER_SHARE = 1.0, 0.1
#: The share of refused requests is that of so many last ones.
LAST = 20
_LONGEST = 100


class Refusals:
    def __init__(self, options: RunOptions) -> None:
        self._in_a_row, self._share = options.refused_in_a_row, options.refused_share
        self._requests = deque[bool](maxlen=LAST)  # whether each was refused
        self._row, self._said = 0, ""

    def asked(self, reply: Reply) -> None:
        """Take in the requests that a reply took; the last one counts as taken until it is refused."""
        self._requests.extend([one.refused for one in reply.attempts] or [False])

    def end_row(self) -> None:
        self._row = 0

    def add(self, said: str, reason: str) -> None:
        """Take in that a reply was refused; after too many of them, Refused is raised."""
        if self._requests:
            self._requests[-1] = True
        words = " ".join(said.casefold().split())
        self._row = self._row + 1 if self._row and words == self._said else 1
        self._said = words
        last = f"'{shortened_line(said, _LONGEST)}' ({shortened_line(reason, 2 * _LONGEST)})"
        if 0 < self._in_a_row <= self._row:
            raise Refused(f"the same reply was refused {self._row} times in a row: {last}")
        refused = sum(self._requests)
        if len(self._requests) == LAST and refused > self._share * LAST:
            raise Refused(f"{refused} of the last {LAST} requests were refused, the last reply was {last}")


class AskingNode(SensingNode):
    """Asks the language model, as long as the budget allows it and the prompt fits.

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

    # ------------------------------------------------------------------ the prompt

    def begin_prompt(self, system: str, examples: Sequence[Example | str], *, rule: str = "") -> None:
        """Set what stands before the node's own turns in its prompts: system text and examples, as far as wanted.

        The household's rules are a part of the system text. ``rule`` says in a chat what a reply is.
        """
        household = self.context.household
        whole = f"{system}\n{household.told}" if household.told else system
        self._system_and_rule = (whole, rule) if self.context.system_text else ("", "")
        line = household.start_line
        self._show([one if isinstance(one, Example) else Example.of_text(one, start_line=line) for one in examples])

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
        if not (options.make_room and 0 < quarter < (self._longest_reply or options.max_tokens)):
            raise error
        self._longest_reply = quarter

    def make_room(self, error: PromptTooLong) -> Generator[Step, Any, None]:
        """Make a prompt that does not fit shorter, which may take a request; by default as by :meth:`shorten`."""
        self.shorten(error)
        yield from ()

    # ------------------------------------------------------------------ requests

    def ask(
        self, may_say: MaySay | Callable[[], MaySay], *, begun: str = "", **sampling: Any
    ) -> Generator[Step, Any, Reply]:
        """Ask for what comes next; a prompt that is too long is made shorter, see :meth:`make_room`.

        The caller counts the decision. If the budget forbids a further one, LimitReached is raised; if no reply comes,
        a LanguageModelError.

        Args:
            may_say: What the reply is held to, or what says that: after a hold it may be something else.
            begun: How the reply begins.
            sampling: Fields of the request that differ from the run's options.
        """
        while True:
            try:
                return (yield from self._ask_once(self.prompt, may_say, begun=begun, **sampling))
            except PromptTooLong as error:
                too_long = error
            yield from self.make_room(too_long)

    def ask_with(
        self, turns: Sequence[Turn], may_say: MaySay, *, begun: str = "", **sampling: Any
    ) -> Generator[Step, Any, Reply]:
        """Ask with a prompt of its own; see :meth:`ask`."""
        return (yield from self._ask_once(lambda: turns, may_say, begun=begun, **sampling))

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
        options, world = self.context.options, self.post.robot.world
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
