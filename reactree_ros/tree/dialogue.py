"""What a goal node and a person say to each other."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any

from reactree_ros.agent.corrections import (
    MOST,
    NOTHING,
    chosen,
    grammar_of,
    question_of,
    read_exactly,
    readings,
    stated_in,
)
from reactree_ros.agent.foreign import in_lines
from reactree_ros.agent.household import Household
from reactree_ros.agent.parameters import ParameterError, Person
from reactree_ros.agent.reading import Unreadable, read
from reactree_ros.agent.skill import Offer, SkillCall
from reactree_ros.agent.text import words as words_of
from reactree_ros.agent.turns import About
from reactree_ros.background.pending import asked
from reactree_ros.llm.port import PromptTooLong
from reactree_ros.person.port import Answer, NobodyAnswers, Question, approves, quoted
from reactree_ros.tree.context import Call
from reactree_ros.tree.failure import LimitReached
from reactree_ros.tree.program import Step, Wait
from reactree_ros.world.port import Outcome

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
        context = self._context
        seconds = context.options.answer_timeout
        put = Question(question, seconds, id=f"question {context.budget.questions}", goal=self._node.subgoal)
        answer = yield from self._answer_to(put)
        if isinstance(answer, str):
            return f"N{answer[1:]}."
        context.answers[question.casefold()] = said = quoted(answer.text)
        return f"The person answers: {said}."

    def agrees(self, question: str, id: str) -> Generator[Step, Any, bool]:
        """Return whether the person says yes to something; nobody's answer is a no."""
        if self._context.person is None:
            return False
        put = Question(question, self._context.options.answer_timeout, id=id, goal=self._node.subgoal)
        answer = yield from self._answer_to(put)
        return isinstance(answer, Answer) and approves(answer.text)

    def who_is_meant(self, skill: str, offers: Sequence[Offer]) -> Generator[Step, Any, str]:
        """Say why a skill may not be done to the person whom it names: several fit the goal, and another one is meant.

        Who is meant is asked once; without an answer nobody is.

        Args:
            skill: The skill.
            offers: What may be tried now, with the persons.
        """
        goal = {*words_of(self._context.nodes[0].subgoal)}
        kinds = [(offer, name) for offer in offers for name, one in offer.skill.parameters.items()]
        known = [
            (offer.now or {}).get(name, ()) for offer, name in kinds if isinstance(offer.skill.parameters[name], Person)
        ]
        persons = list(dict.fromkeys(one for some in known for one in some))
        for name in _persons_in(skill, self._context.household):
            said = goal & {*words_of(name)}
            fits = [one for one in persons if said <= {*words_of(one)}]
            if not said or {*words_of(name)} <= goal or len(fits) < 2:
                continue
            meant = yield from self._meant(fits)
            if meant != name:
                return (
                    f"the person means {meant}" if meant else f"{' and '.join(fits)} fit, and nobody says who is meant"
                )
        return ""

    def _meant(self, fits: Sequence[str]) -> Generator[Step, Any, str]:
        """Ask which of several is meant, once; returns its name, or nothing."""
        context, question = self._context, f"Which do you mean: {', or '.join(fits)}?"
        if context.person is None:
            return ""
        if question.casefold() not in context.answers:
            context.shown += 1
            seconds, id = context.options.answer_timeout, f"person {context.shown}"
            answer = yield from self._answer_to(Question(question, seconds, id=id, goal=self._node.subgoal))
            if isinstance(answer, str):
                return ""
            context.answers[question.casefold()] = answer.text
        at = chosen(context.answers[question.casefold()], fits)
        return "" if at is None else fits[at]

    def words_since(self, count: int) -> str:
        """Return what a person has said after so many times, that is no answer; empty if nothing."""
        return ", ".join(map(quoted, self._context.words[count:]))

    def _answer_to(self, put: Question) -> Generator[Step, Any, Answer | str]:
        """Put a question to the person, and return the answer, or why there is none."""
        person = self._context.person
        assert person is not None  # nothing is asked if nobody is there
        pending, call = asked(person.ask, put), Call("answer", put.id)
        try:
            answer: Answer = yield Wait("answer", pending, NobodyAnswers, seconds=put.seconds, call=call)
        except LimitReached:
            raise
        except Exception as error:
            return f"nobody answers: {in_lines(str(error), first=False) or type(error).__name__}"
        return answer

    def hear(self) -> Generator[Step, Any, None]:
        """Take in what the person has said since, that is no answer; what corrects the world does so once confirmed.

        Of several nodes the first one that hears it looks for a correction.

        Raises:
            WorldError: The world failed.
            LanguageModelError: The language model failed.
        """
        context = self._context
        while self._heard < len(context.words):
            words, self._heard = context.words[self._heard], self._heard + 1
            self._node.tell(f"The person says: {quoted(words)}.", About.PERSON)
            if context.considered < self._heard:
                context.considered = self._heard
                if context.options.corrections and context.person is not None:
                    yield from self._correct(words)

    def _correct(self, words: str) -> Generator[Step, Any, None]:
        """Correct the world by a person's words, where they tell something of it and the person confirms it."""
        offers = yield from self._node.senses.corrections()
        found = (yield from self._read(words, offers)) if offers else []
        if not found:
            return
        stated = ["; ".join(one) for one in found]
        corrections, why = yield from self._confirmed(words, stated)
        if corrections is None:
            self._node.tell(f"That is not taken in: {why}.", About.PERSON)
            return
        seen = None
        for correction in found[corrections]:
            told = yield from self._node.senses.correct(correction)
            if told.outcome is not Outcome.DONE:
                self._node.tell(f"The person confirms it, but '{correction}' cannot be: {told.text}", About.PERSON)
                continue
            self._node.tell(f"The person confirms it: {correction}.", About.PERSON)
            seen = told
        if seen is not None:
            yield from self._node.resumed(seen)

    def _read(self, words: str, offers: Sequence[Offer]) -> Generator[Step, Any, list[list[SkillCall]]]:
        """Return what the words may state: in the closed form, else by one request to the model; often nothing."""
        if exact := read_exactly(words, offers):
            return exact
        grammar = grammar_of(offers)
        try:
            reply = yield from self._node.requests.ask_of([question_of(quoted(words), offers)], grammar)
            said = reply.said or read(reply.text, grammar, cut=reply.cut)
            decision = said[-1].decision if said and not reply.objection else None
            if decision is None or decision.skill_asked == NOTHING:
                return []
            return readings(words, stated_in(decision.skill_asked, offers), offers)
        except (PromptTooLong, Unreadable, ParameterError):  # nothing is taken in that is not understood
            return []

    def _confirmed(self, words: str, stated: Sequence[str]) -> Generator[Step, Any, tuple[int | None, str]]:
        """Show the person what was understood; returns which of it is meant, or None and why nothing is."""
        if len(stated) > MOST:
            return None, f"it may mean more than {MOST} things; the person has to name each with its number"
        context, one, or_else = self._context, len(stated) == 1, ", or ".join(stated)
        seconds = context.options.answer_timeout
        context.shown += 1
        text = f"Do I understand you: {stated[0]}?" if one else f"Which do you mean: {or_else}?"
        shown = Question(
            text,
            seconds,
            id=f"correction {context.shown}",
            goal=f"you said {quoted(words)}",
            skill=stated[0] if one else "",
        )
        answer = yield from self._answer_to(shown)
        if isinstance(answer, str):
            return None, answer
        meant = (0 if approves(answer.text) else None) if one else chosen(answer.text, stated)
        return meant, f"the person was shown '{or_else}', and says {quoted(answer.text)}"


def _persons_in(skill: str, household: Household) -> Sequence[str]:
    """Return the persons whom a declared skill names."""
    try:
        return household.call(skill).persons if household.skills else ()
    except ParameterError:
        return ()
