"""HiAgent (Hu et al.): one node that works by subgoals, whose finished chunks are hidden behind summaries."""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from contextlib import suppress
from typing import Any

from pydantic import Field

from reactree_ros.agent.decision import DONE, FAILURE, RECALL, Act, BeginSubgoal, Summarise
from reactree_ros.agent.household import Household
from reactree_ros.agent.prompt import task_turn
from reactree_ros.agent.prompt_files import prompt
from reactree_ros.agent.summary import read_summary, summary_request
from reactree_ros.agent.turns import Said, Turn
from reactree_ros.errors import UserError
from reactree_ros.llm.port import Choice, FreeText
from reactree_ros.planners.hiagent.chunks import ChunkMemory, as_turns
from reactree_ros.planners.hiagent.examples import told_as_subgoals
from reactree_ros.planners.spec import PlannerSettings, PlannerSpec
from reactree_ros.tree.context import RunContext
from reactree_ros.tree.goal_node import GoalNode, Program, Step
from reactree_ros.world.port import Observation

PROMPTS = "reactree_ros.planners.hiagent:prompts"
_ACTION = "Action: "
_SUBGOAL = re.compile(r"^(?:\d+ )?Subgoal:\s*")
_RETRIEVE = re.compile(r"retrieve\((\d+)\)")


class HiAgentSettings(PlannerSettings):
    """Options of HiAgent."""

    summaries: bool = Field(
        default=True, description="summarise a finished subgoal; false: its last observation stands for it (w/o OS)"
    )
    retrieval: bool = Field(default=True, description="details of finished subgoals can be retrieved; false: w/o TR")


class HiAgentNode(GoalNode):
    """Says a subgoal, then actions for it, then the next subgoal, until ``done`` or ``failure``.

    Its prompt holds the current subgoal in detail and of every finished one what it came to (section 3.1); its turns
    hold everything, worded as an agent node's: a subgoal and what it came to as ``Think:``, an action as ``Act:``.
    That is how they are told to the listener, too.

    A subgoal, an action and a summary are one decision each, an action is one step besides; so a ``Subgoal: … Action:
    …`` of the paper is two decisions and one step, as a thought and an act of ReAct are. ``retrieve`` is an action, as
    ``recall`` is. ``done`` and ``failure`` add to neither. A subgoal may take two requests: whether there is to be
    one, and which.

    Status:
        As of :class:`~reactree_ros.tree.goal_node.GoalNode`.

    Attributes:
        memory: Its chunks.
    """

    def __init__(self, instruction: str, context: RunContext, settings: HiAgentSettings) -> None:
        super().__init__(instruction, context)
        self.memory = ChunkMemory("")
        self._settings = settings
        self._head: tuple[Turn, ...] = ()

    # ------------------------------------------------------------------ the program

    def program(self) -> Program:
        """Look around, then work by subgoals."""
        observation = yield from self.look_around()
        self.begin_prompt(self._system_text(), (yield from self._find_examples()))
        self.turns.append(task_turn(self.subgoal))
        self.see(observation)
        self._head = tuple(self.turns)
        self.memory = ChunkMemory(observation.text)
        yield from self._next_subgoal()
        while True:
            skills = yield from self.available_skills()
            subgoal = self._subgoal_start()
            current = self.memory.current
            actions = [_ACTION + skill for skill in self._may_do(skills)]
            may_say = [*([subgoal] if current and current.pairs else []), *actions]
            reply = yield from self.ask(Choice(tuple(may_say)))
            said = reply.text.strip()
            if said not in may_say:
                self._refuse(said, f"'{said[:80]}' is not among what is available now.")
            elif said == subgoal:
                yield from self._next_subgoal()
            elif (skill := said.removeprefix(_ACTION)) in (DONE, FAILURE):
                self._context.listener.decided(self, Act(skill), reply)
                self.say(str(Act(skill)), Act(skill))
                self.feedback_message = skill
                return skill == DONE
            else:
                observation = yield from self.act(Act(skill), reply)
                self.memory = self.memory.add(skill, observation.text)

    def _next_subgoal(self) -> Generator[Step, Any, None]:
        """Let the model say its next subgoal, and hide the pairs of the one that has ended."""
        start = self._subgoal_start()
        subgoal = ""
        while not subgoal:
            reply = yield from self.ask(FreeText(), begun=start)
            subgoal = " ".join(_SUBGOAL.sub("", reply.text.strip()).partition(f" {_ACTION}")[0].split())
            if not subgoal:
                self._context.budget.count_decision()
                self._context.listener.refused(self, Said(start), "A subgoal is one line, not an empty one.")
        self.think(BeginSubgoal(f"Subgoal {len(self.memory.chunks) + 1}: {subgoal}", subgoal), reply)
        if self.memory.current is not None:
            yield from self._finish()
        self.memory = self.memory.begin(subgoal)

    def _finish(self) -> Generator[Step, Any, None]:
        """Summarise the current chunk (section 3.3)."""
        chunk = self.memory.current
        assert chunk is not None  # the caller looks
        if not self._settings.summaries:
            self.memory = self.memory.finish(chunk.last_observation)
            return
        reply = yield from self.ask_of([summary_request(chunk.trajectory, chunk.subgoal)], FreeText())
        summary = read_summary(reply.text, chunk.last_observation)
        self.think(Summarise(f"Subgoal {len(self.memory.chunks)} came to: {summary}", summary), reply)
        self.memory = self.memory.finish(summary)

    def carry_out(self, skill: str) -> Generator[Step, Any, Observation]:
        """Carry a skill out that is counted already; ``retrieve`` is answered by the chunks."""
        match = _RETRIEVE.fullmatch(skill)
        if match is None:
            return (yield from super().carry_out(skill))
        number = int(match[1])
        self.memory = self.memory.retrieve(number)
        observation = Observation(f"Trajectory of subgoal {number} is retrieved.")
        self._context.listener.observed(self, observation)
        return observation

    def _refuse(self, said: str, reason: str) -> None:
        action = " ".join(said.removeprefix(_ACTION).split())
        self.refuse(str(Act(action)), reason, Act(action))
        self.memory = self.memory.add(action, reason)

    # ------------------------------------------------------------------ what may be said, and the prompt

    def prompt(self) -> Sequence[Turn]:
        """Return the prompt: working memory as it is, not everything that was done."""
        return (*self._prompt_start, *self._head, *as_turns(self.memory.shown()))

    def _subgoal_start(self) -> str:
        return f"{len(self.memory.chunks) + 1} Subgoal:"

    def _may_do(self, skills: Sequence[str]) -> list[str]:
        done, failure, *recalls = self.own_actions()
        retrieve = [f"retrieve({number})" for number in self.memory.retrievable] if self._settings.retrieval else []
        return [done, failure, *retrieve, *recalls, *skills]

    def _system_text(self) -> str:
        recall = "" if self._context.working_memory is None else f" {RECALL.strip()},"
        text = _prompt(self._context.household, "system").format(recall=recall)
        return f"{text}\n{prompt(PROMPTS, 'retrieval.txt')}" if self._settings.retrieval else text

    def _find_examples(self) -> Generator[Step, Any, list[str]]:
        """Return what episodic memory has, told as subgoals; where there is nothing, the fixed ones."""
        found = yield from self.find_examples()
        told = [text for text in map(told_as_subgoals, found) if text]
        if told or not self._context.fixed_example:
            return told
        examples = []
        for name in ("example", *(["example_retrieval"] if self._settings.retrieval else [])):
            with suppress(FileNotFoundError):  # a household of somebody else may have none
                examples.append(_prompt(self._context.household, name))
        return examples


def _prompt(household: Household, name: str) -> str:
    """Return a prompt for a household: from its own folder, as ``hiagent_NAME.txt``, or from this planner's."""
    try:
        return prompt(household.prompts, f"hiagent_{name}.txt")
    except FileNotFoundError:
        return prompt(PROMPTS, f"{household.name}/{name}.txt")


def hiagent(instruction: str, context: RunContext, settings: HiAgentSettings) -> HiAgentNode:
    """Build the tree for an instruction: one node, which stays alone.

    Raises:
        UserError: The household has no prompts for it.
    """
    try:
        _prompt(context.household, "system")
    except FileNotFoundError as error:
        raise UserError(
            f"hiagent has no prompts for the household {context.household.name}; use another planner, or add "
            f"hiagent_system.txt to {context.household.prompts or 'a prompt folder of the household'}"
        ) from error
    return HiAgentNode(instruction, context, settings)


SPEC = PlannerSpec(
    name="hiagent",
    summary="one node whose finished subgoals are summarised, and brought back by retrieve(k)",
    settings=HiAgentSettings,
    build=hiagent,
    remembers=True,
)
