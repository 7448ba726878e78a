"""The agent node: an LLM that thinks, acts and expands, as a behaviour (paper, Algorithm 1)."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from py_trees.composites import Composite

from reactree_ros.agent.control_flow import ControlFlow, wordings
from reactree_ros.agent.decision import ASKS_MEMORY, OK, RECALL, Decision
from reactree_ros.agent.grammar import LONGEST_LINE, LONGEST_THOUGHT, DecisionGrammar
from reactree_ros.agent.kinds.expand import Expand, normal
from reactree_ros.agent.kinds.think import Ask, Summarise, Think
from reactree_ros.agent.parameters import ParameterError
from reactree_ros.agent.prompt import ContextWindow, Siblings, reply_rule, system_text, task_turn
from reactree_ros.agent.skill import Offer, apart
from reactree_ros.agent.text import names, without_excluded
from reactree_ros.agent.transcript import Example
from reactree_ros.agent.turns import About, Prompt, Said, Saw, Told, Turn, told_failed
from reactree_ros.llm.port import A_PERSON, PromptTooLong, Reply
from reactree_ros.memory.experience import End
from reactree_ros.memory.knowledge import word_of
from reactree_ros.person.port import quoted
from reactree_ros.tree.advice import about_thought, line, whole_names, why_not
from reactree_ros.tree.context import RunContext
from reactree_ros.tree.goal import OfAttempt
from reactree_ros.tree.goal_node import GoalNode
from reactree_ros.tree.options import DEEPEST
from reactree_ros.tree.program_node import Program, SkillLeaf, Step
from reactree_ros.tree.tried import tried
from reactree_ros.world.port import Observation, Outcome

#: What a node is told that has the same thought again.
REPEATED = "You have had this thought already, and nothing has changed since. Say another kind of decision now."

#: The shortest summary that is asked for where the context is short, in tokens.
SHORTEST_SUMMARY = 32

#: How many expansions in a row may be refused before none is offered.
MOST_REFUSED = 2

#: What a node is told that says it is done. A skill failed just before; no skill was done with something that its goal
#: names; or it still holds something that its goal names beside a place. So many are named at most.
#: It may say so again.
FAILED, UNTOUCHED, MOST_NAMED = "What you did last failed: {}", "Nothing was done with {}, which your task names.", 5
HELD = "You still hold {}, which your task names."
SURE = "Say that you are done only if your task is done all the same."

#: What the root asks, after its last thought, before it gives up.
WHAT_NOW = "What should I do?"

#: What follows the answer to the last question.
NO_MORE = "You may ask no more questions."


@dataclass(frozen=True)
class Abilities:
    """What the agent nodes of a tree can do, and how their prompts begin.

    Attributes:
        summarise_after: A node whose decisions and observations take more tokens than this in its prompt has the older
            half of them summarised there, as HiAgent does; its turns stay whole. A summary counts as a decision. 0:
            never.
        own_examples: Each node has examples of its own goal (paper, section 4.2). Otherwise the nodes of a tree share
            those that were found for its instruction, so that their prompts begin alike. None: if the model is trained.
        break_rounds: A skill that was done again and brought nothing new is not offered until something new is seen or
            told by a person, unless it only waits. None: unless the model is trained.
    """

    control_flows: tuple[type[ControlFlow], ...]  # what an expansion may use; empty: they cannot expand (ReAct)
    summarise_after: int = 0
    fixed_examples: tuple[Example, ...] = ()  # the examples that stand in for episodic memory (paper, section 5.3)
    break_rounds: bool | None = None
    own_examples: bool | None = None
    questions: int = 0  # how many questions a person may be asked in the whole run
    re_expand: int = 0  # after how many failed expansions a node decides again; 0: its first expansion's end is its own
    more: tuple[str, ...] = ()  # the names of the further kinds of decision that they may take


class AgentNode(GoalNode):
    """Works on one subgoal, one decision at a time.

    Its children are its last skills and, after an expansion, the control flow over the agent nodes of its subgoals;
    where it decides again after one that failed, it may have several.

    Status: RUNNING while it decides, and while its skill or its expansion runs. SUCCESS on ``done``, or when its last
    expansion succeeded. FAILURE on ``failure``, when its last expansion failed, when the budget is exhausted, or on an
    error, which the feedback message names. INVALID when interrupted: what it has in flight is cancelled.
    """

    listens = True

    _window = OfAttempt(lambda _: ContextWindow(head=0))
    _thoughts = OfAttempt[list[str]](lambda _: [])  # since it last did something, or something new was told or seen
    _had = OfAttempt[list[str]](lambda _: [])  # every thought since it began, or something new was told
    _refused = OfAttempt(lambda _: 0)  # expansions in that time that must not grow
    _last_failed = OfAttempt(lambda _: "")  # what came of the skill that it did last, if that failed
    _checks = OfAttempt[bool](lambda node: node.context.options.check_done)  # until it is said to be done
    _skills = OfAttempt[Sequence[str]](lambda _: ())  # what may be done, as it was told last
    _offers = OfAttempt[Sequence[Offer]](lambda _: ())  # what else, with values in its places
    _done = OfAttempt[list[tuple[str, str]]](lambda _: [])  # what it did, with what came of it
    _failed_expansions = OfAttempt[list[Expand]](lambda _: [])

    def __init__(
        self,
        subgoal: str,
        context: RunContext,
        abilities: Abilities,
        *,
        siblings: Siblings | None = None,
        parent: GoalNode | None = None,
    ) -> None:
        super().__init__(subgoal, context, parent=parent)
        self._abilities = abilities
        self._siblings = siblings
        #: The goals of the agent nodes above.
        self.parent_goals: frozenset[str] = parent._ancestors if isinstance(parent, AgentNode) else frozenset()
        self._ancestors: frozenset[str] = frozenset({normal(subgoal)}) | self.parent_goals

    def program(self) -> Program:
        """Look around, then decide until the goal is reached or given up, or until the node has expanded.

        A routine that fits comes first. If it does not reach the goal, the node decides, and knows what was done.
        """
        by_routine = self.context.routines
        came = None if by_routine is None else (yield from by_routine(self))
        if came is True:
            return True
        yield from self.begin()
        if came:
            self.add(came)
        while (reached := (yield from self.decide_once())) is None:
            pass
        return reached

    def decide_once(self) -> Generator[Step, Any, bool | None]:
        """Take one reply; returns whether the goal was reached where the node ends by it, else None."""
        reply = yield from self._decide()
        for number, said in enumerate(self._read(reply)):
            if number:  # a thought comes with the act or expansion after it
                self.check_budget()
                reply = reply.further()
            assert said.decision is not None  # it was read
            question = self._question_before(said.decision, reply)
            decision, words = (Ask(question), f"Ask: {question}") if question else (said.decision, said.text)
            if (reached := (yield from self.taking(decision, reply, words))) is not None:
                return reached
        return None

    def do(self, act: Decision) -> Generator[Step, Any, None]:
        if other := (yield from self.who_is_meant(act.skill_asked, self._offers)):
            self.refuse(str(act), f"'{act.skill_asked}' is not done: {other}.", act)
            return
        observation = yield from self.act(act)
        self._done.append((act.skill_asked, observation.text))
        self._last_failed = "" if observation.outcome is Outcome.DONE else observation.text
        self._thoughts.clear()
        if not act.skill_asked.startswith(ASKS_MEMORY):  # what is recalled makes no expansion grow
            self._refused = 0
        yield from self._learn_skills()

    def begin(self) -> Generator[Step, Any, None]:
        context, abilities = self.context, self._abilities
        recall = context.recalls
        seen = yield from self.look_around()
        observation = replace(seen, text=seen.text + context.team.introduce(self.post.robot))
        asks = self._questions_left() is not None
        flows, more = abilities.control_flows, abilities.more
        system = system_text(context.household, control_flows=flows, recall=recall, asks=asks, more=more)
        self.begin_prompt(system, (yield from self._examples()), rule=reply_rule(flows, asks=asks, more=more))
        self.add(task_turn(self.subgoal, self._siblings))
        self.see(observation)
        self._window = ContextWindow(head=len(self.turns))
        self._tell_searched_here()
        yield from self._learn_skills()

    def _examples(self) -> Generator[Step, Any, Sequence[Example]]:
        """Return those of the node above, which a prefix cache has, or those that are found for its own goal."""
        abilities = self._abilities
        own = self.context.options.is_trained if abilities.own_examples is None else abilities.own_examples
        if isinstance(self._above, AgentNode) and not own:
            return self._above.shown_examples
        found = yield from self.find_examples(tree=bool(abilities.control_flows) and not own)
        fixed = abilities.fixed_examples if self.context.fixed_example else ()
        return [Example((experience.turns,)) for experience in found] or fixed

    def _learn_skills(self) -> Generator[Step, Any, None]:
        skills, self._offers = apart((yield from self.available_skills()))
        if not self.context.options.offers_all:
            offers, robot = self.context.offers, self.post.robot.known
            skills, self._offers = offers.texts(skills, robot), offers.offers(self._offers, robot)
        self.context.known.named.update(dict.fromkeys(name for one in self._offers for name in one.names))
        self._skills = (*self.own_actions(), *skills)

    def _begin_anew(self) -> None:
        self._done.clear()
        self._thoughts.clear()
        self._had.clear()
        self._refused = 0

    def resumed(self, seen: Observation) -> Generator[Step, Any, None]:
        self.see(seen)
        self._begin_anew()
        if self._skills:
            yield from self._learn_skills()
        if not self.context.options.as_recorded:  # what the person has done meanwhile
            yield from self.hear()

    def tell(self, text: str, about: About = About.ANSWER) -> None:
        super().tell(text, about)
        if about is About.PERSON:
            self._begin_anew()

    # ------------------------------------------------------------------ what was searched

    def act(self, act: Decision, reply: Reply | None = None, said: str = "") -> Generator[Step, Any, Observation]:
        observation = yield from super().act(act, reply, said)
        known, robot, skill = self.context.known, self.post.robot.name, act.skill_asked
        if not self.context.tells_searched:
            return observation
        if not skill.startswith(ASKS_MEMORY):
            told = self._searched
        else:
            told = None if known.sightings(skill.removeprefix(RECALL)) else known.all_searched(robot=robot)
        if told is not None:
            self.add(told)
        return observation

    def _tell_searched_here(self) -> None:
        robot = self.post.robot
        told = self.context.known.searched_in(robot.known.room or None, robot=robot.name)
        if self.context.tells_searched and told is not None:
            self.add(told)

    # ------------------------------------------------------------------ deciding

    def prompt(self) -> Sequence[Turn]:
        context, known = self.context, ""
        if context.options.told("line"):
            known = line(self.subgoal, context.nameable, context.known, self.post.robot.known)
        last = (Told(known, About.KNOWN),) if known else ()
        return Prompt(self.prompt_head, self._window.shown(self.turns), last)

    def make_room(self, error: PromptTooLong) -> Generator[Step, Any, None]:
        try:
            self.shorten(error)
        except PromptTooLong:
            count = self.context.count_tokens
            room = self._window.room(self.turns, excess=error.excess, count=count)
            until = self._window.excess(self.turns, limit=room, count=count)
            if until is None or self.context.options.as_recorded:
                raise
            longest = min(max(room // 4, SHORTEST_SUMMARY), self.context.options.max_tokens)
            yield from self._summarise(until, max_tokens=longest)

    def _decide(self) -> Generator[Step, Any, Reply]:
        limit = self._abilities.summarise_after
        if limit:
            until = self._window.excess(self.turns, limit=limit, count=self.context.count_tokens)
            if until is not None:
                yield from self._summarise(until)
        yield from self.hear()
        return (yield from self.ask(self._grammar))

    def _grammar(self) -> DecisionGrammar:
        return DecisionGrammar(
            self._offered(),
            () if self._refused >= MOST_REFUSED else self._abilities.control_flows,
            free=self.context.household.free_skills,
            questions=self._questions_left(),
            more=self._abilities.more,
            offers=self._offers,
            longest_thought=self._longest_thought(),
        )

    def _longest_thought(self) -> int:
        """Return how long a thought may be now; 0 after as many in a row as there may be, or once one came again.

        Who thinks the same as before goes in circles; acts bring something new.
        """
        options = self.context.options
        if options.is_trained:
            return LONGEST_LINE
        repeats = len({*self._had}) < len(self._had)
        return 0 if repeats or len(self._thoughts) >= options.thoughts_in_a_row else LONGEST_THOUGHT

    def _offered(self) -> Sequence[str]:
        breaks, household = self._abilities.break_rounds, self.context.household
        breaks = not self.context.options.is_trained if breaks is None else breaks
        again = {skill for skill in fruitless(self._done) if not household.waits(skill)} if breaks else set()
        again |= set() if self.context.options.offers_all else self._undoing()
        return [skill for skill in self._skills if skill not in again] if again else self._skills

    def _undoing(self) -> set[str]:
        """Return what puts down where it was what has just been taken: whoever takes it means to bring it."""
        household = self.context.household
        with suppress(ParameterError):
            is_done = self._done and not self._last_failed
            taken = household.call(self._done[-1][0]).value("held") if is_done else ""
            return {f"{one.verb} {taken}" for one in household.skills if taken and one.does("released")}
        return set()

    def _questions_left(self) -> int | None:
        if self.context.person is None or not self._abilities.questions:
            return None
        return max(0, self._abilities.questions - self.budget.questions)

    def _summarise(self, until: int, **sampling: Any) -> Generator[Step, Any, None]:
        last = next(turn.text for turn in reversed(self.turns[:until]) if isinstance(turn, Saw))
        trajectory = self._window.trajectory(self.turns, until)
        summary, reply = yield from self.summarise(trajectory, self.subgoal, otherwise=last, **sampling)
        self._window.hide(until, summary)
        if reply is not None:
            told = Summarise(f"So far: {summary}", summary)
            self.budget.count(told.counted)
            self.context.listener.decided(self, told, reply)

    def answer_to(self, thought: str) -> str:
        had = normal(thought)
        again = had in self._thoughts
        self._thoughts.append(had)
        self._had.append(had)
        if again and not self.context.options.as_recorded:
            return REPEATED
        known, robot, things = self.context.known, self.post.robot.known, self.context.nameable
        missing = about_thought(thought, self._skills, things, known, robot) if self._says_missing else ""
        return missing or OK

    @property
    def _says_missing(self) -> bool:
        return self.context.options.told("missing")

    def explained(self, objection: str, decision: Decision | None) -> str:
        skill = "" if decision is None else decision.skill_asked
        if not (skill and self._says_missing) or skill in self._skills:
            return objection
        return why_not(skill, self.context.nameable, self.context.known, self.post.robot.known) or objection

    def _read(self, reply: Reply) -> Sequence[Said]:
        said = self.decisions(reply, self._grammar())
        decision = said[-1].decision if said else None
        objection = "" if decision is None else decision.objection(self) or self._doubt(decision, reply)
        if objection:
            if isinstance(decision, Expand) and not self.context.options.is_trained:
                self._refused += 1
            self.refuse(reply.text.strip("\n"), objection, decision)
            return ()
        return said

    def _doubt(self, decision: Decision, reply: Reply) -> str:
        """Ask a model that is not trained back, once, if it says that it is done and there is reason for doubt."""
        is_trusted = self.context.options.is_trained or reply.answered_by == A_PERSON
        if decision.node_end != End.SUCCESS.value or is_trusted:
            return ""
        doubts = [FAILED.format(self._last_failed)] if self._last_failed else []
        if self._checks and (untouched := self.context.untouched(self.subgoal)):
            doubts.append(UNTOUCHED.format(" and ".join(f"'{name}'" for name in untouched[:MOST_NAMED])))
        if self._checks and (held := self._still_held()):
            doubts.append(HELD.format(" and ".join(held[:MOST_NAMED])))
        self._last_failed, self._checks = "", False
        return " ".join((*doubts, SURE)) if doubts else ""

    def _question_before(self, decision: Decision, reply: Reply) -> str:
        """Return the question that is put instead, if the root gives up and nothing was asked in the whole run."""
        gives_up = decision.node_end == End.FAILURE.value and self is self.context.nodes[0]
        asks = self._questions_left() and not self.budget.questions and not self.context.options.as_recorded
        if not (gives_up and asks) or reply.answered_by == A_PERSON:
            return ""
        said = (turn.decision for turn in reversed(self.turns) if isinstance(turn, Said))
        return " ".join((next((one.thought for one in said if isinstance(one, Think)), ""), WHAT_NOW)).strip()

    def _still_held(self) -> list[str]:
        household, named = self.context.household, whole_names(without_excluded(self.subgoal), self.context.nameable)
        held = [one for one in self.post.robot.known.held if word_of(one) in named]
        takes = any(skill.does("held") and names(self.subgoal, skill.verb) for skill in household.skills)
        return held if not takes and {*named} - {*map(word_of, held)} else []

    def refuse(self, said: str, reason: str, decision: Decision | None = None) -> None:
        if self.context.options.check_done and decision is not None and decision.skill_asked:
            self._last_failed = reason
        super().refuse(said, reason, decision)

    def answered(self, question: str) -> str:
        return self.context.answers.get(question.casefold(), "")

    def objection_to(self, expand: Expand) -> str:
        options, allowed = self.context.options, self._abilities.control_flows
        if type(expand.control_flow) not in allowed:
            names = wordings(allowed) or "none"
            return f"The control flow '{expand.control_flow}' is not allowed here; allowed: {names}."
        if objection := expand.control_flow.objection(self.context.household.skills):
            return objection
        if not expand.subgoals:
            return "An expansion needs at least one subgoal."
        deepest = options.max_depth or DEEPEST
        if self.depth + 2 > deepest:
            return f"The tree is {self.depth} deep and must not grow beyond {deepest}."
        if not options.as_recorded:
            for subgoal in expand.subgoals:
                if normal(subgoal) in self._ancestors:
                    return f"The subgoal '{subgoal}' is being worked on already; name smaller ones."
        if any(expand.is_the_same(failed) for failed in self._failed_expansions):
            return "You have expanded like this before, and it failed; do something else."
        return ""

    def put(self, question: str) -> Generator[Step, Any, None]:
        answer = yield from self._answer_to(question, f"question {self.context.budget.questions}")
        if isinstance(answer, str):
            told = f"N{answer[1:]}."
        else:
            said = self.context.answers[question.casefold()] = quoted(answer.text)
            told = f"The person answers: {said}."
        self.tell(told if self._questions_left() else f"{told} {NO_MORE}", About.PERSON)

    # ------------------------------------------------------------------ expanding

    def grow(self, expand: Expand) -> Generator[Step, Any, bool | None]:
        """Grow agent nodes for the subgoals; the node's end is theirs, unless it decides again after they failed."""
        siblings = Siblings(self.subgoal, expand.control_flow, expand.subgoals)
        children = [self.child(subgoal, siblings) for subgoal in expand.subgoals]
        reached = yield from self.expand(expand, expand.control_flow.over(self, children))
        return None if not reached and (yield from self._decides_again(expand)) else reached

    def child(self, subgoal: str, siblings: Siblings | None = None) -> AgentNode:
        return AgentNode(subgoal, self.context, self._abilities, siblings=siblings, parent=self)

    def _decides_again(self, failed: Expand) -> Generator[Step, Any, bool]:
        """Say whether it decides again after an expansion that failed; then it was told of that, and looks around."""
        if self.barred() is not None or len(self._failed_expansions) >= self._abilities.re_expand:
            return False
        self._failed_expansions.append(failed)
        expansion = next(child for child in reversed(self.children) if not isinstance(child, SkillLeaf))
        self.end, self.failure, self.feedback_message = None, None, ""
        self.add(told_failed([tried(child) for child in expansion.children]))
        if not (yield from self.hold()):
            self.see((yield from self.look_around()))
        self._tell_searched_here()
        self._begin_anew()
        yield from self._learn_skills()
        return True

    def expand(self, expand: Expand, expansion: Composite, reply: Reply | None = None) -> Program:
        self.take(expand, reply)
        return (yield from self.run_below(expansion))


def fruitless(done: Iterable[tuple[str, str]]) -> set[str]:
    """Return the skills that were done again and brought nothing new, since something new was seen last."""
    known, again = set[tuple[str, str]](), set[str]()
    for one in done:
        if one in known:
            again.add(one[0])
        else:
            known.add(one)
            again.clear()
    return again
