"""The goal node: works on one goal by any planner's program, and keeps what it was told, said and saw."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

from py_trees.behaviour import Behaviour
from py_trees.common import Status

from reactree_ros.agent import corrections
from reactree_ros.agent.decision import Decision
from reactree_ros.agent.grammar import Grammar
from reactree_ros.agent.labels import in_lines
from reactree_ros.agent.parameters import ParameterError, Person
from reactree_ros.agent.reading import Unreadable, read
from reactree_ros.agent.skill import Offer, SkillCall
from reactree_ros.agent.text import words as words_of
from reactree_ros.agent.turns import About, Said
from reactree_ros.background.pending import asked
from reactree_ros.llm.port import PromptTooLong, Reply
from reactree_ros.memory.experience import End
from reactree_ros.person.port import Answer, NobodyAnswers, Question, approves, quoted
from reactree_ros.tree.asking import AskingNode
from reactree_ros.tree.context import RunContext
from reactree_ros.tree.failure import Failure, FailureKind, LimitReached
from reactree_ros.tree.goal import Goal, OfAttempt
from reactree_ros.tree.listener import Call
from reactree_ros.tree.program_node import Grow, Program, Step, Wait
from reactree_ros.tree.reason import why, why_gave_up
from reactree_ros.world.port import Observation, Outcome, WorldError


class GoalNode(AskingNode):
    """Works on one goal by its :meth:`program`, in which these methods, and those of its bases, are used.

    That nobody answers a question in time, or at all, or that the way to the person fails, is told to the node.

    Status: As of :class:`~reactree_ros.tree.program_node.ProgramNode`.
    """

    _taking = OfAttempt(lambda _: (Reply(""), ""))  # what is being carried out: the reply, and the words for it
    _heard = OfAttempt(lambda _: 0)

    def __init__(self, subgoal: str, context: RunContext, *, name: str = "", parent: GoalNode | None = None) -> None:
        super().__init__(name or " ".join(subgoal.split()), context, parent)
        self.subgoal = subgoal
        self.depth = 1 if parent is None else parent.depth + 2

    def decisions(self, reply: Reply, grammar: Grammar) -> tuple[Said, ...]:
        """Return the decisions that a reply is taken for; none if it is refused, which the model is told."""
        said, objection = reply.said, reply.objection
        if not said and not objection:
            try:
                return read(reply.text, grammar, cut=reply.cut)
            except Unreadable as error:
                objection, said = str(error), error.said_turns
        if not objection:
            return said
        decision = said[-1].decision if said else None
        self.refuse(reply.text.strip("\n"), self.explained(objection, decision), decision)
        return ()

    def explained(self, objection: str, decision: Decision | None) -> str:
        """Say why something is not done that was said; by default as it is."""
        return objection

    def take(self, decision: Decision, reply: Reply | None = None, said: str = "") -> None:
        """Count a decision, tell the listener of it, and add what was said.

        Args:
            decision: The decision.
            reply: What it was read from; None: that of :meth:`taking`.
            said: The words for it; empty: those of :meth:`taking`, or its own.
        """
        taken_from, words = self._taking if reply is None else (reply, said)
        self.budget.count(decision.counted)
        self.refusals.row = 0
        self.context.listener.decided(self, decision, taken_from)
        self.say(words or str(decision), decision)

    def taking(self, decision: Decision, reply: Reply, said: str = "") -> Generator[Step, Any, bool | None]:
        """Carry out a decision as its kind does; returns whether the goal is reached if the node ends by it, else None.

        ``reply`` is what it was read from, ``said`` the words for it; empty: its own.
        """
        node: Any = self  # a node of a program that takes such decisions has what they need
        self._taking = reply, said
        return (yield from decision.carry_out(node))

    def refuse(self, said: str, reason: str, decision: Decision | None = None) -> None:
        """Count what was said and is not carried out, and tell the model why; after too many, Refused is raised.

        ``decision`` is what it was read as; None if it is not a decision.
        """
        reason = in_lines(reason, first=False)
        self.budget.count()
        self.context.refused(self.index, reason)
        self.context.listener.refused(self, Said(said, decision), reason)
        self.say(said, None)
        self.tell(reason, About.REFUSAL)
        self.refusals.add(said, reason)

    def act(self, act: Decision, reply: Reply | None = None, said: str = "") -> Generator[Step, Any, Observation]:
        """Take an act as :meth:`take` does, and carry its skill out; what is seen is added to the turns."""
        self.take(act, reply, said)
        observation = yield from self.perform(act.skill_asked)
        self.see(observation)
        return observation

    def run_below(self, subtree: Behaviour) -> Program:
        status: Status = yield Grow(subtree)
        self.end = End.EXPAND
        if status == Status.SUCCESS:
            self.feedback_message = subtree.feedback_message or f"{subtree.name} ended in success"
            return True
        self.feedback_message = why(subtree) or f"{subtree.name} ended in failure"
        self.failure = Failure(kind_of_failure(subtree), self.feedback_message)
        return False

    def _ended(self, reached: bool) -> None:
        if not reached and self.failure is None:
            self.feedback_message = why_gave_up(self.turns) or self.feedback_message
        super()._ended(reached)

    # ------------------------------------------------------------------ the person

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
        known = [(offer.now or {}).get(name, ()) for offer, name, kind in kinds if isinstance(kind.named, Person)]
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
        at = corrections.chosen(context.answers[question.casefold()], fits)
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
        """Hear what the person has said since, that is not an answer; what corrects the world does so once confirmed.

        Of several nodes the first one that hears it looks for a correction.
        """
        context = self.context
        while self._heard < len(context.words):
            words, self._heard = context.words[self._heard], self._heard + 1
            self.tell(f"The person says: {quoted(words)}.", About.PERSON)
            if context.considered < self._heard:
                context.considered = self._heard
                if not context.options.as_recorded and context.person is not None:
                    yield from self._correct(words)

    def _correct(self, words: str) -> Generator[Step, Any, None]:
        world = self.post.world
        offers = yield Wait("corrections", asked(world.corrections), WorldError, call=Call("corrections"))
        found = (yield from self._stated(words, offers)) if offers else []
        if not found:
            return
        meant, why = yield from self._confirmed(words, ["; ".join(one) for one in found])
        if meant is None:
            self.tell(f"That is not taken in: {why}.", About.PERSON)
            return
        seen = None
        for correction in found[meant]:
            pending, call = asked(world.correct, correction), Call("correct", correction=correction)
            now: Observation = yield Wait("correction", pending, WorldError, call=call)
            self.context.remember(now, self.post.robot)
            if now.outcome is not Outcome.DONE:
                self.tell(f"The person confirms it, but '{correction}' cannot be: {now.text}", About.PERSON)
                continue
            self.tell(f"The person confirms it: {correction}.", About.PERSON)
            seen = now
        if seen is not None:
            yield from self.resumed(seen)

    def _stated(self, words: str, offers: Sequence[Offer]) -> Generator[Step, Any, list[list[SkillCall]]]:
        """Return what the words may state: in the closed form, else by one request to the model; often nothing."""
        if exact := corrections.read_exactly(words, offers):
            return exact
        grammar = corrections.grammar_of(offers)
        try:
            reply = yield from self.ask_with([corrections.question_of(quoted(words), offers)], grammar)
            said = reply.said or read(reply.text, grammar, cut=reply.cut)
            decision = said[-1].decision if said and not reply.objection else None
            if decision is None or decision.skill_asked == corrections.NOTHING:
                return []
            stated = corrections.stated_in(decision.skill_asked, offers)
            return corrections.readings(words, stated, offers)
        except (PromptTooLong, Unreadable, ParameterError):  # nothing is taken in that is not understood
            return []

    def _confirmed(self, words: str, stated: Sequence[str]) -> Generator[Step, Any, tuple[int | None, str]]:
        """Show the person what was understood; returns which of it is meant, or None and why nothing is."""
        if len(stated) > corrections.MOST:
            return None, f"it may mean more than {corrections.MOST} things; the person has to name each with its number"
        one, or_else = len(stated) == 1, ", or ".join(stated)
        self.context.shown += 1
        text = f"Do I understand you: {stated[0]}?" if one else f"Which do you mean: {or_else}?"
        id, goal = f"correction {self.context.shown}", f"you said {quoted(words)}"
        answer = yield from self._answer_to(text, id, goal=goal, skill=stated[0] if one else "")
        if isinstance(answer, str):
            return None, answer
        meant = (0 if approves(answer.text) else None) if one else corrections.chosen(answer.text, stated)
        return meant, f"the person was shown '{or_else}', and says {quoted(answer.text)}"


def kind_of_failure(failed: Behaviour) -> FailureKind:
    """Return the kind of failure of a subtree: that of the goal node in it that failed last."""
    if isinstance(failed, Goal) and failed.failure is not None:
        return failed.failure.kind
    last = next((child for child in reversed(failed.children) if child.status == Status.FAILURE), None)
    return FailureKind.GAVE_UP if last is None else kind_of_failure(last)
