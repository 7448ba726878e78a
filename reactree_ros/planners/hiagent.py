"""HiAgent (Hu et al.): one node that works by subgoals, whose finished chunks are hidden behind summaries."""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from typing import Any

from reactree_ros.agent.decision import DONE, FAILURE, RECALL, Act, Think
from reactree_ros.agent.prompt import header, prompt_start, shortened
from reactree_ros.agent.prompt_files import prompt
from reactree_ros.agent.summary import read_summary, summary_prompt
from reactree_ros.llm.port import Choice, FreeText, PromptTooLong, Reply
from reactree_ros.memory.chunks import ChunkMemory, as_text
from reactree_ros.planners.hiagent_examples import BEGINS, CAME_TO, told_as_subgoals
from reactree_ros.tree.context import RunContext
from reactree_ros.tree.program_node import Program, ProgramError, ProgramNode, Step, Wait
from reactree_ros.world.port import Observation

_ACTION = "Action: "
_SUBGOAL = re.compile(r"^(?:\d+ )?Subgoal:\s*")
_RETRIEVE = re.compile(r"retrieve\((\d+)\)")


def hiagent(instruction: str, context: RunContext, *, summaries: bool = True, retrieval: bool = True) -> HiAgentNode:
    """Build the tree for an instruction: one node, which stays alone.

    Args:
        instruction: What to do, in natural language.
        context: What the node shares with the run.
        summaries: A finished subgoal is summarised by the language model; otherwise its last observation stands for
            it (section 5.1: w/o OS).
        retrieval: The details of finished subgoals can be retrieved (w/o: w/o TR).
    """
    return HiAgentNode(instruction, context, summaries=summaries, retrieval=retrieval)


class HiAgentNode(ProgramNode):
    """Says a subgoal, then actions for it, then the next subgoal, until ``done`` or ``failure``.

    Its prompt holds the current subgoal in detail and of every finished one what it came to (section 3.1); its text
    holds everything, worded as an agent node's: a subgoal and what it came to as ``Think:``, an action as ``Act:``.
    That is how they are told to the listener, too.

    A subgoal, an action and a summary are one decision each, an action is one step besides; so a ``Subgoal: … Action:
    …`` of the paper is two decisions and one step, as a thought and an act of ReAct are. ``retrieve`` is an action, as
    ``recall`` is. ``done`` and ``failure`` add to neither. A subgoal may take two requests: whether there is to be
    one, and which.

    Status:
        As of :class:`~reactree_ros.tree.program_node.ProgramNode`.

    Attributes:
        memory: Its chunks.
    """

    def __init__(self, instruction: str, context: RunContext, *, summaries: bool, retrieval: bool) -> None:
        super().__init__(instruction, context)
        self.memory = ChunkMemory("")
        self._summaries = summaries
        self._retrieval = retrieval
        self._examples: Sequence[str] = ()
        self._system = ""
        self._head = ""

    # ------------------------------------------------------------------ the program

    def program(self) -> Program:
        """Look around, then work by subgoals."""
        context = self._context
        observation: Observation = yield Wait("observation", context.world.observe())
        context.remember(observation)
        self._system = self._system_text()
        self._examples = yield from self._find_examples()
        self._head = header(self.subgoal, None, observation.text)
        self.memory = ChunkMemory(observation.text)
        self.text = self._head
        yield from self._next_subgoal()
        while True:
            skills: Sequence[str] = yield Wait("skills", context.world.available_skills())
            subgoal = self._subgoal_start()
            current = self.memory.current
            actions = [_ACTION + skill for skill in self._may_do(skills)]
            may_say = [*([subgoal] if current and current.pairs else []), *actions]
            reply = yield from self._ask(Choice(tuple(may_say)))
            said = reply.text.strip()
            if said not in may_say:
                self._refuse(said, f"'{said[:80]}' is not among what is available now.")
            elif said == subgoal:
                yield from self._next_subgoal()
            elif (skill := said.removeprefix(_ACTION)) in (DONE, FAILURE):
                self.text += str(Act(skill))
                self.feedback_message = skill
                context.listener.decided(self, Act(skill), reply)
                return skill == DONE
            else:
                yield from self._act(skill, reply)

    def _next_subgoal(self) -> Generator[Step, Any, None]:
        """Let the model say its next subgoal, and hide the pairs of the one that has ended."""
        start = self._subgoal_start()
        subgoal = ""
        while not subgoal:
            reply = yield from self._ask(FreeText(), begun=start)
            subgoal = " ".join(_SUBGOAL.sub("", reply.text.strip()).partition(f" {_ACTION}")[0].split())
            if not subgoal:
                self._context.budget.count_decision()
                self._context.listener.refused(self, start, "A subgoal is one line, not an empty one.")
        number = len(self.memory.chunks) + 1
        self._think(BEGINS.format(number=number, text=subgoal), reply)
        if self.memory.current is not None:
            yield from self._finish()
        self.memory = self.memory.begin(subgoal)

    def _finish(self) -> Generator[Step, Any, None]:
        """Summarise the current chunk (section 3.3)."""
        chunk = self.memory.current
        assert chunk is not None  # the caller looks
        if not self._summaries:
            self.memory = self.memory.finish(chunk.last_observation)
            return
        reply = yield from self._request(summary_prompt(chunk.trajectory, chunk.subgoal), FreeText())
        summary = read_summary(reply.text, chunk.last_observation)
        self._think(CAME_TO.format(number=len(self.memory.chunks), text=summary), reply)
        self.memory = self.memory.finish(summary)

    def _act(self, skill: str, reply: Reply) -> Generator[Step, Any, None]:
        context = self._context
        context.budget.count_step()
        context.listener.decided(self, Act(skill), reply)
        self.text += f"{Act(skill)}\n"
        if match := _RETRIEVE.fullmatch(skill):
            number = int(match[1])
            self.memory = self.memory.retrieve(number)
            observation = self._answer(f"Trajectory of subgoal {number} is retrieved.")
        elif context.working_memory is not None and skill.startswith(RECALL):
            observation = self._answer(context.working_memory.recall(skill.removeprefix(RECALL)))
        else:
            observation = yield from self.carry_out(skill)
        self.text += f"{observation.text}\n"
        self.memory = self.memory.add(skill, observation.text)

    def _answer(self, text: str) -> Observation:
        observation = Observation(text)
        self._context.listener.observed(self, observation)
        return observation

    def _think(self, thought: str, reply: Reply) -> None:
        """Count and tell what changes nothing but the memory."""
        self._context.budget.count_decision()
        self._context.listener.decided(self, Think(thought), reply)
        self.text += f"{Think(thought)}\nOK.\n"

    def _refuse(self, said: str, reason: str) -> None:
        """Count a decision that is not carried out and tell the model why."""
        said = str(Act(" ".join(said.removeprefix(_ACTION).split())))
        self._context.budget.count_decision()
        self._context.listener.refused(self, said, reason)
        self.text += f"{said}\n{reason}\n"
        self.memory = self.memory.add(said.removeprefix("Act: "), reason)

    # ------------------------------------------------------------------ what may be said, and the prompt

    def _subgoal_start(self) -> str:
        return f"{len(self.memory.chunks) + 1} Subgoal:"

    def _may_do(self, skills: Sequence[str]) -> list[str]:
        world, recall = self._context.world, self._context.working_memory is not None
        retrieve = [f"retrieve({number})" for number in self.memory.retrievable] if self._retrieval else []
        return [DONE, FAILURE, *retrieve, *([RECALL + word for word in world.recallable] if recall else []), *skills]

    def _system_text(self) -> str:
        domain = self._context.world.domain.value
        recall = "" if self._context.working_memory is None else f" {RECALL.strip()},"
        try:
            text = prompt(f"hiagent/{domain}/system.txt").format(recall=recall)
        except FileNotFoundError as error:
            raise ProgramError(f"hiagent has no prompts for the household {domain}; use another planner") from error
        return f"{text}\n{prompt('hiagent/retrieval.txt')}" if self._retrieval else text

    def _find_examples(self) -> Generator[Step, Any, tuple[str, ...]]:
        """Return what episodic memory has, told as subgoals; where there is nothing, the fixed ones."""
        context = self._context
        found = tuple(filter(None, map(told_as_subgoals, (yield from self.find_examples()))))
        names = ["example.txt", *(["example_retrieval.txt"] if self._retrieval else [])]
        return found or tuple(prompt(f"hiagent/{context.world.domain.value}/{name}") for name in names)

    def _ask(self, may_say: Choice | FreeText, *, begun: str = "") -> Generator[Step, Any, Reply]:
        """Ask with working memory as it is; where the prompt is too long, without the least similar examples."""
        while True:
            start = prompt_start(self._system, self._examples) + self._head
            shown, said = as_text(self.memory.shown())
            spans = [(len(start) + begin, len(start) + end) for begin, end in said]
            if begun:
                begin = len(start) + len(shown)
                spans.append((begin, begin + len(begun)))
            try:
                return (yield from self._request(start + shown + begun, may_say, tuple(spans)))
            except ProgramError as error:
                if not isinstance(error.__cause__, PromptTooLong) or not self._examples:
                    raise
                self._shorten(error.__cause__.excess)

    def _shorten(self, excess: int) -> None:
        kept = shortened(self._examples, excess, count=self._context.count_tokens)
        self._context.listener.shortened(self, len(self._examples) - len(kept), excess)
        self._examples = kept

    def _request(
        self, text: str, may_say: Choice | FreeText, said: tuple[tuple[int, int], ...] = ()
    ) -> Generator[Step, Any, Reply]:
        """Ask the language model, unless a limit is reached; what it says is counted by the caller."""
        context = self._context
        if (limit := context.budget.reached()) is not None:
            self.text += limit.value
            raise ProgramError(limit.value)
        reply: Reply = yield Wait("reply", context.model.decide(self.request(text, may_say, said)))
        context.replies.append((self.index, context.budget.decisions + 1, reply))
        return reply
