"""HiAgent (Hu et al.): one node that works by subgoals and hides finished chunks behind summaries."""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain, starmap
from typing import Any

from pydantic import Field

from reactree_ros.agent.decision import OK, RECALL, Decision
from reactree_ros.agent.household import Household
from reactree_ros.agent.kinds.think import BeginSubgoal, Summarise, Think
from reactree_ros.agent.prompt import ONE_DECISION, judgement, prompt, task_turn
from reactree_ros.agent.skill import Offer, apart
from reactree_ros.agent.subgoal_grammar import SubgoalGrammar, action_said
from reactree_ros.agent.text import said_number
from reactree_ros.agent.transcript import Example
from reactree_ros.agent.turns import About, Said, Saw, Told, Turn
from reactree_ros.errors import UserError
from reactree_ros.llm.port import PromptTooLong
from reactree_ros.memory.experience import Experience
from reactree_ros.planners.spec import PlannerSettings, PlannerSpec
from reactree_ros.tree.context import RunContext
from reactree_ros.tree.goal import OfAttempt
from reactree_ros.tree.goal_node import GoalNode
from reactree_ros.tree.listener import Call
from reactree_ros.tree.program_node import Program, Step
from reactree_ros.world.port import Observation


@dataclass
class SubgoalPart:
    subgoal: str
    turns: list[Turn] = field(default_factory=list)  # actions and observations
    came_to: str = ""  # its summary; empty if there is none


def parts(experience: Experience) -> list[SubgoalPart]:
    """Split a flat trajectory into subgoals.

    A HiAgent node says which subgoal begins. For another planner, each thought before an action begins one; actions
    before the first thought belong to the task itself. Refusals are left out.
    """
    found = [SubgoalPart(" ".join(experience.subgoal.split()))]
    turns = [turn for turn in experience.turns if isinstance(turn, Said | Saw)]
    for turn, after in zip(turns, [*turns[1:], None], strict=True):
        decision = turn.decision if isinstance(turn, Said) else None
        if decision is not None and decision.skill_asked and isinstance(after, Saw):
            found[-1].turns += acted(decision.skill_asked, after.text)
        elif isinstance(decision, Summarise):
            ended = found[-2] if len(found) > 1 and not found[-1].turns else found[-1]
            ended.came_to = decision.summary
        elif isinstance(decision, BeginSubgoal):
            found.append(SubgoalPart(decision.subgoal))
        elif isinstance(decision, Think) and _acts(after):
            found.append(SubgoalPart(" ".join(decision.thought.split())))
    return [part for part in found if part.turns]


def _acts(turn: Turn | None) -> bool:
    return isinstance(turn, Said) and turn.decision is not None and bool(turn.decision.skill_asked)


def told_as_subgoals(experience: Experience) -> tuple[Turn, ...]:
    """Return an experience in the form of HiAgent's prompt, with the details of every subgoal (appendix B.2).

    An experience without replies is unchanged; of one without actions nothing is left.
    """
    said = [turn for turn in experience.turns if isinstance(turn, Said)]
    if not said:
        return experience.turns
    if not (found := parts(experience)):
        return ()
    header = experience.turns[: experience.turns.index(said[0])]
    last = said[-1].decision
    end = [Said(f"Action: {last.gist}")] if last is not None and last.ends else []
    return (*header, *chain.from_iterable(starmap(_told, enumerate(found, 1))), *end)


def _told(number: int, part: SubgoalPart) -> Sequence[Turn]:
    *turns, last = subgoal_said(number, part.subgoal), *part.turns
    if (met := judgement(part.came_to)) is not None:
        last = replace(last, text=f"{last.text.rstrip('.')}. Subgoal is {'' if met else 'not '}met.")
    return (*turns, last)


PROMPTS = "reactree_lab.planners.hiagent:prompts"
_RETRIEVE = re.compile(r"retrieve\((\d{1,9})\)")


class HiAgentSettings(PlannerSettings):
    summaries: bool = Field(
        default=True, description="summarise a finished subgoal; false: use its last observation (w/o OS)"
    )
    retrieval: bool = Field(default=True, description="allow retrieving details of finished subgoals; false: w/o TR")


class HiAgentNode(GoalNode):
    """Says a subgoal, then actions for it, then the next subgoal, until ``done`` or ``failure``.

    Its prompt has the current subgoal in detail and a summary of every finished one (section 3.1). Its turns have
    everything, worded like an agent node's: a subgoal and its summary as ``Think:``, an action as ``Act:``. The
    listener sees them in this form, too.

    The paper's steps and this package's decisions are counted separately. A subgoal, an action and a summary are one
    decision each; an action is one step, too. So ``Subgoal: …`` with its first action, one request, is two decisions
    and one step, like a thought and an act of ReAct. ``retrieve`` is an action, like ``recall``. ``done`` and
    ``failure`` count as neither.

    Status:
        As for :class:`~reactree_ros.tree.goal_node.GoalNode`.
    """

    memory = OfAttempt(lambda _: ChunkMemory(""))  # its chunks
    _head = OfAttempt[tuple[Turn, ...]](lambda _: ())
    _skills = OfAttempt[Sequence[str]](lambda _: ())  # skills of the world that are available now
    _offers = OfAttempt[Sequence[Offer]](lambda _: ())  # its declared skills among them

    def __init__(self, instruction: str, context: RunContext, settings: HiAgentSettings) -> None:
        try:
            _prompt(context.household, "system")
        except FileNotFoundError as error:
            raise UserError(
                f"hiagent has no prompts for the household {context.household.name}; use another planner, or add "
                f"hiagent_system.txt to {context.household.prompts or 'a prompt folder of the household'}"
            ) from error
        super().__init__(instruction, context)
        self._settings = settings

    # ------------------------------------------------------------------ the program

    def program(self) -> Program:
        observation = yield from self.look_around()
        rule = f"{ONE_DECISION} {SubgoalGrammar(()).expected}."
        self.begin_prompt(self._system_text(), (yield from self._find_examples()), rule=rule)
        self.add(task_turn(self.subgoal))
        self.see(observation)
        self._head = tuple(self.turns)
        self.memory = ChunkMemory(observation.text)
        while True:
            yield from self._learn_skills()
            reply = yield from self.ask(lambda: self._grammar(self._skills))
            for said in self.decisions(reply, self._grammar(self._skills)):
                self.check_budget()
                assert said.decision is not None  # it was read
                if (reached := (yield from self.taking(said.decision, reply))) is not None:
                    return reached
                reply = reply.further()

    def begin_subgoal(self, subgoal: str) -> Generator[Step, Any, None]:
        if self.memory.current is not None:
            yield from self._finish()
        self.memory = self.memory.begin(subgoal)

    def do(self, act: Decision) -> Generator[Step, Any, None]:
        observation = yield from self.act(act)
        self.memory = self.memory.add(act.skill_asked, observation.text)

    def _finish(self) -> Generator[Step, Any, None]:
        chunk = self.memory.current
        assert chunk is not None  # the caller checks
        if not self._settings.summaries:
            self.memory = self.memory.finish(chunk.last_observation)
            return
        summary, reply = yield from self.summarise(chunk.trajectory, chunk.subgoal, otherwise=chunk.last_observation)
        if reply is not None:
            self.take(Summarise(f"Subgoal {len(self.memory.chunks)} came to: {summary}", summary), reply)
            self.tell(OK)
        self.memory = self.memory.finish(summary)

    def perform(self, skill: str) -> Generator[Step, Any, Observation]:
        """Carry out a skill that is already counted; the chunks answer ``retrieve``."""
        match = _RETRIEVE.fullmatch(skill)
        if match is None:
            return (yield from super().perform(skill))
        number = said_number(match[1]) or 0
        if number in self.memory.retrievable:
            self.memory = self.memory.retrieve(number)
            observation = Observation(f"Trajectory of subgoal {number} is retrieved.")
        else:
            what = "too long to be shown" if number in self.memory.too_long else "shown already"
            observation = Observation(f"Trajectory of subgoal {number} is {what}.")
        listener = self.context.listener
        listener.came(self, Call("recall"), observation)
        listener.observed(self, observation)
        return observation

    def refuse(self, said: str, reason: str, decision: Decision | None = None) -> None:
        """Count a decision that is not carried out, and tell the model why, in working memory, too."""
        super().refuse(said, reason, decision)
        self.memory = self.memory.refuse(said, reason)

    def resumed(self, seen: Observation) -> Generator[Step, Any, None]:
        """Add the observation after a hold as the result of waiting, and update the available skills."""
        yield from super().resumed(seen)
        if self.memory.current is None:
            self._head, self.memory = tuple(self.turns), ChunkMemory(seen.text)
        else:
            self.memory = self.memory.add("wait", seen.text)
        yield from self._learn_skills()

    def _learn_skills(self) -> Generator[Step, Any, None]:
        self._skills, self._offers = apart((yield from self.available_skills()))

    def shorten(self, error: PromptTooLong) -> None:
        """Leave out examples from now on; if there are none, hide retrieved details."""
        if self.shown_examples or not self.memory.retrieved:
            super().shorten(error)
        else:
            self.memory = self.memory.hide()

    # ------------------------------------------------------------------ constraint and prompt

    def prompt(self) -> Sequence[Turn]:
        """Return the prompt: current working memory, not the whole trajectory."""
        return (*self.prompt_head, *self._head, *self.memory.shown())

    def _grammar(self, skills: Sequence[str]) -> SubgoalGrammar:
        """Return the constraint: an action, if there is a subgoal, or the next subgoal with its first action.

        That first action may retrieve every subgoal so far, including the one that ends now.
        """
        done, failure, *recalls = self.own_actions()
        begun = len(self.memory.chunks)
        retrieve = retrievals(begun) if self._settings.retrieval else []
        return SubgoalGrammar(
            [done, failure, *retrieve, *recalls, *skills],
            number=begun + 1,
            goes_on=self.memory.current is not None,
            free=self.context.household.free_skills,
            offers=tuple(self._offers),
        )

    def _system_text(self) -> str:
        recall = "" if not self.context.recalls else f" {RECALL.strip()},"
        household = self.context.household
        text = _prompt(household, "system").format(recall=recall, actions=", ".join(household.listed))
        return f"{text}\n{prompt(PROMPTS, 'retrieval.txt')}" if self._settings.retrieval else text

    def _find_examples(self) -> Generator[Step, Any, Sequence[Example | str]]:
        """Return episodic memory's examples as subgoals; if there are none, the fixed ones."""
        found = yield from self.find_examples()
        told = [Example((turns,)) for turns in map(told_as_subgoals, found) if turns]
        if told or not self.context.fixed_example:
            return told
        examples: list[Example | str] = []
        for name in ("example", *(["example_retrieval"] if self._settings.retrieval else [])):
            with suppress(FileNotFoundError):  # a foreign household may have none
                examples.append(_prompt(self.context.household, name))
        return examples


def _prompt(household: Household, name: str) -> str:
    """Return a prompt for a household: ``hiagent_NAME.txt`` in its own folder, or one in this planner's folder.

    A household with rules uses the general system text.
    """
    with suppress(FileNotFoundError):
        return prompt(household.prompts, f"hiagent_{name}.txt")
    return prompt(PROMPTS, f"{name}.txt" if household.rules else f"{household.name}/{name}.txt")


SPEC = PlannerSpec(
    name="hiagent",
    summary="one node that summarises finished subgoals, and shows their details again by retrieve(k)",
    settings=HiAgentSettings,
    build=HiAgentNode,
    remembers=True,
)


def retrievals(begun: int) -> list[str]:
    return [f"retrieve({number})" for number in range(1, begun + 1)]


def subgoal_said(number: int, subgoal: str) -> Said:
    text = f"{number} Subgoal: {subgoal}"
    return Said(text, BeginSubgoal(text, subgoal))


def acted(action: str, observation: str) -> tuple[Turn, ...]:
    return action_said(action), Saw(f"Observation: {observation}")


def refused(said: str, reason: str) -> tuple[Turn, ...]:
    """Return a reply that was not carried out, and why, as turns."""
    return Said(said), Told(f"Observation: {reason}", About.REFUSAL)


@dataclass(frozen=True)
class Chunk:
    subgoal: str
    before: str  # the observation that it began with (the paper's o_0 of section 3.3)
    turns: tuple[Turn, ...] = ()  # its actions and observations, and refusals
    last_observation: str = ""  # without summaries it represents the chunk (paper, section 5.1: w/o OS)
    summary: str | None = None  # None until it is finished

    @property
    def trajectory(self) -> tuple[Turn, ...]:
        """The summarised part: o_0, a_0, …, o_t."""
        return (Saw(f"Observation: {self.before}"), *self.turns)


@dataclass(frozen=True)
class ChunkMemory:
    """The chunks of a run, in order; every change makes a new one."""

    start: str  # the observation that the run began with
    chunks: tuple[Chunk, ...] = ()  # subgoals so far; all but the last one are finished, the last one may be
    retrieved: frozenset[int] = frozenset()  # finished subgoals that are shown in detail until the next one begins
    too_long: frozenset[int] = frozenset()  # those whose details do not fit into the prompt until then
    refused: tuple[Turn, ...] = ()  # refusals before the first subgoal; shown until it begins

    @property
    def current(self) -> Chunk | None:
        return self.chunks[-1] if self.chunks and self.chunks[-1].summary is None else None

    @property
    def retrievable(self) -> tuple[int, ...]:
        """Numbers of finished subgoals with hidden details that may be shown."""
        finished = (number for number, chunk in enumerate(self.chunks, 1) if chunk.summary is not None)
        return tuple(number for number in finished if number not in self.retrieved | self.too_long)

    def begin(self, subgoal: str) -> ChunkMemory:
        """Begin a subgoal; hide the details retrieved for the one before."""
        before = self.chunks[-1].last_observation if self.chunks else self.start
        return ChunkMemory(self.start, (*self.chunks, Chunk(subgoal, before, last_observation=before)))

    def add(self, action: str, observation: str) -> ChunkMemory:
        return self._with(acted(action, observation), last_observation=observation)

    def refuse(self, said: str, reason: str) -> ChunkMemory:
        """Add a reply that was not carried out, with or without a subgoal."""
        turns = refused(said, reason)
        if self.current is None:
            return replace(self, refused=(*self.refused, *turns))
        return self._with(turns)

    def finish(self, summary: str) -> ChunkMemory:
        """Hide the current subgoal's actions behind a summarised observation (section 3.1, point 3)."""
        return self._with(summary=summary)

    def retrieve(self, number: int) -> ChunkMemory:
        """Show the details of a finished subgoal again (section 3.4)."""
        return replace(self, retrieved=self.retrieved | {number})

    def hide(self) -> ChunkMemory:
        """Hide retrieved details that the prompt has no room for."""
        return replace(self, retrieved=frozenset(), too_long=self.too_long | self.retrieved)

    def shown(self) -> tuple[Turn, ...]:
        """Return working memory: m_t of section 3.1, or m'_t with retrieved details.

        It has finished subgoals with their summaries, retrieved and current ones with all of their actions.
        """
        turns: list[Turn] = []
        for number, chunk in enumerate(self.chunks, 1):
            turns.append(subgoal_said(number, chunk.subgoal))
            if chunk.summary is None or number in self.retrieved:
                turns += chunk.turns
            else:
                note = " (Its details are too long to be shown.)" if number in self.too_long else ""
                turns.append(Told(f"Observation: {chunk.summary}{note}", About.SUMMARY))
        return (*turns, *self.refused)

    def _with(self, turns: tuple[Turn, ...] = (), **changes: Any) -> ChunkMemory:
        assert self.current is not None  # a subgoal has begun
        changed = replace(self.current, turns=(*self.current.turns, *turns), **changes)
        return replace(self, chunks=(*self.chunks[:-1], changed))
