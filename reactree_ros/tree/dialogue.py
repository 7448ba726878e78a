"""What a goal node and a person say to each other."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from reactree_ros.agent.foreign import in_lines
from reactree_ros.agent.turns import About
from reactree_ros.background.pending import asked
from reactree_ros.person.port import Answer, NobodyAnswers, Question, approves, quoted
from reactree_ros.tree.context import Call
from reactree_ros.tree.failure import LimitReached
from reactree_ros.tree.program import Step, Wait

if TYPE_CHECKING:
    from reactree_ros.tree.goal_node import GoalNode


class Dialogue:
    """Puts the questions of a goal node to the person, and takes in what the person says.

    Args:
        node: The goal node.
    """

    def __init__(self, node: GoalNode) -> None:
        self._node, self._context = node, node.context
        self._heard = 0

    def ask(self, question: str) -> Generator[Step, Any, str]:
        """Put a question to the person, and return what the node is to be told; the caller counts the decision.

        That nobody answers in time, or at all, or that the way to the person fails, is told likewise.
        """
        try:
            answer = yield from self._answered(question, f"question {self._context.budget.questions}")
        except NobodyAnswers as error:
            return f"Nobody answers: {error}."
        self._context.answers[question.casefold()] = said = quoted(answer.text)
        return f"The person answers: {said}."

    def agrees(self, question: str, id: str) -> Generator[Step, Any, bool]:
        """Return whether the person says yes to something; nobody's answer is a no."""
        try:
            return approves((yield from self._answered(question, id)).text)
        except NobodyAnswers:
            return False

    def _answered(self, question: str, id: str) -> Generator[Step, Any, Answer]:
        """Put a question; a :class:`NobodyAnswers` says in one line why there is no answer."""
        context = self._context
        if context.person is None:
            raise NobodyAnswers("nobody is there")
        seconds = context.options.answer_timeout
        put = Question(question, seconds, id=id, goal=self._node.subgoal)
        pending = asked(context.person.ask, put)
        try:
            answer: Answer = yield Wait("answer", pending, NobodyAnswers, seconds=seconds, call=Call("answer", put.id))
        except LimitReached:
            raise
        except Exception as error:
            raise NobodyAnswers(in_lines(str(error), first=False) or type(error).__name__) from error
        return answer

    def words_since(self, count: int) -> str:
        """Return what a person has said after so many times, that is no answer; empty if nothing."""
        return ", ".join(map(quoted, self._context.words[count:]))

    def hear(self) -> None:
        """Take in what the person has said since, that is no answer."""
        for words in self._context.words[self._heard :]:
            self._node.tell(f"The person says: {quoted(words)}.", About.PERSON)
        self._heard = len(self._context.words)
