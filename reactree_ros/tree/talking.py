"""What a goal node and a person say to each other."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

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
from reactree_ros.agent.parameters import ParameterError, Person
from reactree_ros.agent.reading import Unreadable, read
from reactree_ros.agent.skill import Offer, SkillCall
from reactree_ros.agent.text import words as words_of
from reactree_ros.agent.turns import About
from reactree_ros.background.pending import asked
from reactree_ros.llm.port import PromptTooLong
from reactree_ros.person.port import Answer, NobodyAnswers, Question, approves, quoted
from reactree_ros.tree.asking import AskingNode
from reactree_ros.tree.failure import LimitReached
from reactree_ros.tree.goal import OfAttempt
from reactree_ros.tree.listener import Call
from reactree_ros.tree.program import Step, Wait
from reactree_ros.world.port import Outcome


class TalkingNode(AskingNode):
    """Puts its questions to the person, and takes in what the person says.

    That nobody answers in time, or at all, or that the way to the person fails, is told to the node.
    """

    _heard = OfAttempt(lambda _: 0)

    def put_question(self, question: str) -> Generator[Step, Any, str]:
        """Put a question to the person, and return what the node is to be told; the caller counts the decision."""
        answer = yield from self._answer_to(question, f"question {self.context.budget.questions}")
        if isinstance(answer, str):
            return f"N{answer[1:]}."
        said = self.context.answers[question.casefold()] = quoted(answer.text)
        return f"The person answers: {said}."

    def agrees(self, question: str, id: str) -> Generator[Step, Any, bool]:
        if self.context.person is None:
            return False
        answer = yield from self._answer_to(question, id)
        return isinstance(answer, Answer) and approves(answer.text)

    def who_is_meant(self, skill: str, offers: Sequence[Offer]) -> Generator[Step, Any, str]:
        """Say why a skill may not be done to the person whom it names: several fit the goal, and another one is meant.

        Who is meant is asked once; without an answer nobody is. ``offers`` is what may be tried now, with the persons.
        """
        goal, household = {*words_of(self.context.nodes[0].subgoal)}, self.context.household
        kinds = [(offer, name, kind) for offer in offers for name, kind in offer.skill.parameters.items()]
        known = [(offer.now or {}).get(name, ()) for offer, name, kind in kinds if isinstance(kind, Person)]
        persons = list(dict.fromkeys(one for some in known for one in some))
        try:
            named: Sequence[str] = household.call(skill).persons if household.skills else ()
        except ParameterError:
            named = ()
        for name in named:
            said = goal & {*words_of(name)}
            fits = [one for one in persons if said <= {*words_of(one)}]
            if not said or {*words_of(name)} <= goal or len(fits) < 2:
                continue
            meant = yield from self._meant(fits)
            if not meant:
                return f"{' and '.join(fits)} fit, and nobody says who is meant"
            if meant != name:
                return f"the person means {meant}"
        return ""

    def _meant(self, fits: Sequence[str]) -> Generator[Step, Any, str]:
        context, question = self.context, f"Which do you mean: {', or '.join(fits)}?"
        if context.person is None:
            return ""
        if question.casefold() not in context.answers:
            context.shown += 1
            answer = yield from self._answer_to(question, f"person {context.shown}")
            if isinstance(answer, str):
                return ""
            context.answers[question.casefold()] = answer.text
        at = chosen(context.answers[question.casefold()], fits)
        return "" if at is None else fits[at]

    def words_since(self, count: int) -> str:
        return ", ".join(map(quoted, self.context.words[count:]))

    def _answer_to(
        self, question: str, id: str, *, goal: str = "", skill: str = ""
    ) -> Generator[Step, Any, Answer | str]:
        person, seconds = self.context.person, self.context.options.answer_timeout
        assert person is not None  # nothing is asked if nobody is there
        put = Question(question, seconds, id=id, goal=goal or self.subgoal, skill=skill)
        pending, call = asked(person.ask, put), Call("answer", id)
        try:
            answer: Answer = yield Wait("answer", pending, NobodyAnswers, seconds=seconds, call=call)
        except LimitReached:
            raise
        except Exception as error:
            return f"nobody answers: {in_lines(str(error), first=False) or type(error).__name__}"
        return answer

    def hear(self) -> Generator[Step, Any, None]:
        """Take in what the person has said since, that is no answer; what corrects the world does so once confirmed.

        Of several nodes the first one that hears it looks for a correction.
        """
        context = self.context
        while self._heard < len(context.words):
            words, self._heard = context.words[self._heard], self._heard + 1
            self.tell(f"The person says: {quoted(words)}.", About.PERSON)
            if context.considered < self._heard:
                context.considered = self._heard
                if context.options.corrections and context.person is not None:
                    yield from self._correct(words)

    def _correct(self, words: str) -> Generator[Step, Any, None]:
        offers = yield from self.corrections()
        found = (yield from self._stated(words, offers)) if offers else []
        if not found:
            return
        corrections, why = yield from self._confirmed(words, ["; ".join(one) for one in found])
        if corrections is None:
            self.tell(f"That is not taken in: {why}.", About.PERSON)
            return
        seen = None
        for correction in found[corrections]:
            now = yield from self.correct(correction)
            if now.outcome is not Outcome.DONE:
                self.tell(f"The person confirms it, but '{correction}' cannot be: {now.text}", About.PERSON)
                continue
            self.tell(f"The person confirms it: {correction}.", About.PERSON)
            seen = now
        if seen is not None:
            yield from self.resumed(seen)

    def _stated(self, words: str, offers: Sequence[Offer]) -> Generator[Step, Any, list[list[SkillCall]]]:
        """Return what the words may state: in the closed form, else by one request to the model; often nothing."""
        if exact := read_exactly(words, offers):
            return exact
        grammar = grammar_of(offers)
        try:
            reply = yield from self.ask_with([question_of(quoted(words), offers)], grammar)
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
        one, or_else = len(stated) == 1, ", or ".join(stated)
        self.context.shown += 1
        text = f"Do I understand you: {stated[0]}?" if one else f"Which do you mean: {or_else}?"
        id, goal = f"correction {self.context.shown}", f"you said {quoted(words)}"
        answer = yield from self._answer_to(text, id, goal=goal, skill=stated[0] if one else "")
        if isinstance(answer, str):
            return None, answer
        meant = (0 if approves(answer.text) else None) if one else chosen(answer.text, stated)
        return meant, f"the person was shown '{or_else}', and says {quoted(answer.text)}"
