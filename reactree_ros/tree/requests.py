"""What a goal node asks the language model."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from reactree_ros.agent.prompt import SUMMARY_STOPS, read_summary, summary_request, without_oldest
from reactree_ros.agent.transcript import Example, shortened
from reactree_ros.agent.turns import Turn
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
from reactree_ros.tree.context import Call
from reactree_ros.tree.failure import BrokenOff
from reactree_ros.tree.program import Step, Wait
from reactree_ros.tree.refusals import Refusals

if TYPE_CHECKING:
    from reactree_ros.tree.goal_node import GoalNode

#: How much sooner than the node a language model gives up, in seconds, and at most as a share of the node's wait: the
#: failure comes in time then, and tells what was used.
SOONER, SOONER_SHARE = 1.0, 0.1


class Requests:
    """Asks the language model for a goal node, as long as the budget allows it and the prompt fits.

    Args:
        node: The goal node.

    Attributes:
        start: What stands before the node's own turns in its prompts.
        refusals: Its replies that were refused.
        examples: The in-context examples in it, the most similar first.
        made: How many requests were made.
    """

    def __init__(self, node: GoalNode) -> None:
        self._node, self._context = node, node.context
        self.start: tuple[Turn, ...] = ()
        self._system = self._rule = ""
        self.examples: Sequence[Example] = ()
        self.refusals = Refusals(node.context.options)
        self.made = 0
        self._longest_reply = 0  # in tokens; 0: as the options have it

    def begin(self, system: str, examples: Sequence[Example | str], rule: str) -> None:
        """See :meth:`GoalNode.begin_prompt`."""
        household = self._context.household
        whole = f"{system}\n{household.told}" if household.told else system
        self._system, self._rule = (whole, rule) if self._context.system_text else ("", "")
        line = household.start_line
        self._show([one if isinstance(one, Example) else Example.of_text(one, start_line=line) for one in examples])

    def _show(self, examples: Sequence[Example]) -> None:
        self.examples = examples
        self.start = self._node.prompt_start(self._system, examples, self._rule)

    def shorten(self, error: PromptTooLong) -> None:
        """See :meth:`GoalNode.shorten`."""
        if not self.examples:
            self._shorten_replies(error)
            return
        kept = shortened(self.examples, error.excess, count=self._context.count_tokens)
        self._context.listener.shortened(self._node, len(self.examples) - len(kept), error.excess)
        self._show(kept)

    def _shorten_replies(self, error: PromptTooLong) -> None:
        """Have replies that take at most a quarter of a short context; raise what it is if they do already."""
        quarter, options = error.context // 4, self._context.options
        if not (options.make_room and 0 < quarter < (self._longest_reply or options.max_tokens)):
            raise error
        self._longest_reply = quarter

    def ask(
        self, may_say: MaySay | Callable[[], MaySay], begun: str, sampling: Mapping[str, Any]
    ) -> Generator[Step, Any, Reply]:
        """See :meth:`GoalNode.ask`."""
        while True:
            try:
                return (yield from self._ask(self._node.prompt, may_say, begun, sampling))
            except PromptTooLong as error:
                too_long = error
            yield from self._node.make_room(too_long)

    def ask_of(
        self, turns: Sequence[Turn], may_say: MaySay, *, begun: str = "", **sampling: Any
    ) -> Generator[Step, Any, Reply]:
        """Ask with a prompt of its own; see :meth:`GoalNode.ask`."""
        return (yield from self._ask(lambda: turns, may_say, begun, sampling))

    def _ask(
        self,
        prompt: Callable[[], Sequence[Turn]],
        may_say: MaySay | Callable[[], MaySay],
        begun: str,
        sampling: Mapping[str, Any],
    ) -> Generator[Step, Any, Reply]:
        """Ask once; what a hold breaks off is asked again after it."""
        while True:
            yield from self._node.senses.hold()
            self.check_budget()
            request = self.make(prompt(), may_say() if callable(may_say) else may_say, begun=begun, **sampling)
            wait, number = self.wait_for(request, next_tick=True, while_held=False), self._context.budget.decisions + 1
            try:
                reply = yield from self.answered(request, wait, number)
            except BrokenOff:
                continue
            self.refusals.asked(reply)
            return reply

    def wait_for(self, request: DecisionRequest, what: str = "reply", **how: bool) -> Wait:
        """Send a request, and return the wait for its reply."""
        late, gone, call = NoAnswerInTime, ServerUnavailable, Call("reply", request.id)
        return Wait(what, self.send(request), late, gone, seconds=request.patience, call=call, **how)

    def answered(self, request: DecisionRequest, wait: Wait, decision: int) -> Generator[Step, Any, Reply]:
        """Wait for the reply to a request, and count what it took, also if it fails.

        Args:
            request: The request.
            wait: As :meth:`wait_for` returns it.
            decision: Number of the decision that it asks for.
        """
        try:
            reply: Reply = yield wait
        except LanguageModelError as error:
            if error.took is not None:
                self._context.took(self._node.index, decision, error.took, request)
            raise
        self._context.took(self._node.index, decision, reply, request)
        return reply

    def make(self, turns: Sequence[Turn], may_say: MaySay, *, begun: str = "", **sampling: Any) -> DecisionRequest:
        """Make a request with the run's options, and an id that is unique within the run."""
        self.made += 1
        options, world = self._context.options, self._node.post.robot.world
        given = {"max_tokens": options.max_tokens, "temperature": options.temperature, "seed": options.seed} | sampling
        if self._longest_reply:
            given["max_tokens"] = min(given["max_tokens"], self._longest_reply)
        request = DecisionRequest(
            turns=turns,
            may_say=may_say,
            begun=begun,
            id=f"{self._node.index}.{self.made}",
            planner=self._context.planner,
            patience=options.decision_timeout,
            words=world.words,
            things=world.recallable,
            **given,
        )
        return replace(request, patience=request.patience * self._context.model.slowness(request))

    def send(self, request: DecisionRequest) -> Pending[Reply]:
        """Let the language model answer a request; one that raises is one that failed."""
        self._context.listener.asked(self._node, request)
        patience = request.patience - min(SOONER, SOONER_SHARE * request.patience)
        sent = replace(request, patience=patience, trace=self._context.trace())
        return asked(self._context.model.decide, sent)

    def check_budget(self) -> None:
        """Look whether a further decision is allowed.

        Raises:
            LimitReached: It is not; the node is told.
        """
        if (limit := self._node.budget.reached()) is not None:
            raise self._node.limited(limit)

    def summarise(
        self, trajectory: Sequence[Turn], subgoal: str, *, otherwise: str, **sampling: Any
    ) -> Generator[Step, Any, tuple[str, Reply | None]]:
        """Ask for a summary of a trajectory; if that does not fit into a prompt, of its later part.

        The caller counts the decision.

        Args:
            trajectory: What was done and seen.
            subgoal: What it was done for.
            otherwise: What stands in for a summary that is empty or was cut, and if nothing of the trajectory fits.
            sampling: See :meth:`GoalNode.ask`.

        Returns:
            The summary, and the reply that it comes from; None if nothing could be asked.

        Raises:
            LimitReached: The budget forbids a further decision.
            LanguageModelError: No reply came.
        """
        while trajectory:
            try:
                asked = summary_request(trajectory, subgoal)
                reply = yield from self.ask_of([asked], FreeText(SUMMARY_STOPS), **sampling)
            except PromptTooLong as error:
                trajectory = without_oldest(trajectory, error.excess, count=self._context.count_tokens)
            else:
                return read_summary(reply.text, otherwise, cut=reply.cut), reply
        return otherwise, None
