"""CodeAct (Wang et al., 2024): each action is a piece of code, and its output is the observation.

One node writes code turn by turn and sees its output, until it says that it is done (ReCode's appendix A.2 has its
prompt). The code runs in ReCode's sandbox, by the same rules: no ``def``, no ``class``, no files. Failed code keeps its
effects in the world; the error is the observation.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from typing import Any

from reactree_lab.planners.plan import PROMPTS
from reactree_lab.planners.recode.code_block import Block, BlockError, read_block
from reactree_lab.planners.recode.code_runner import CodeRunner, Flow, Shared, check_skills, closed
from reactree_ros.agent.decision import DONE, FAILURE
from reactree_ros.agent.kinds.act import Act
from reactree_ros.agent.labels import in_lines
from reactree_ros.agent.prompt import prompt
from reactree_ros.agent.turns import About, Said
from reactree_ros.llm.port import FreeText
from reactree_ros.llm.reasoning import split_reasoning
from reactree_ros.planners.spec import PlannerSettings, PlannerSpec
from reactree_ros.tree.context import RunContext
from reactree_ros.tree.program_node import Program, Step
from reactree_ros.world.port import Observation

_HEAD, _OBSERVATION = "Task: ", "Observation:"
_STOPS = (f"\n{_OBSERVATION}",)
_THOUGHT = re.compile(r"<(/?)thought>", re.IGNORECASE)
_SOLUTION = re.compile(r"<solution>(.*?)(?:</solution>|\Z)", re.DOTALL | re.IGNORECASE)
_NO_END = f"Say <solution>{DONE}</solution> or <solution>{FAILURE}</solution> alone, once, without code."


class CodeActNode(CodeRunner):
    """Writes code and sees its output, until it says how it ended.

    Status:
        RUNNING while the code is written or runs.
        SUCCESS if the model says that it is done.
        FAILURE if the model says so, the budget is exhausted, or the language model, the world or the sandbox failed.
        INVALID when interrupted: work in progress is cancelled, and the sandbox ends.

    Listeners see a piece of code as one decision: ``Think`` with its thought. Each skill is ``Act``, which counts as a
    step.
    """

    def __init__(self, instruction: str, context: RunContext, settings: PlannerSettings) -> None:
        check_skills("codeact", context.household)
        super().__init__(instruction, context, shared=Shared(depth=1, corrections=0), targets=(), name="", parent=None)

    def program(self) -> Program:
        return (yield from self.in_sandbox(self._solve))

    def _solve(self, observation: Observation) -> Program:
        self.tell(f"{_HEAD}{in_lines(self.subgoal, first=False)}\n{_OBSERVATION}\n{observation.text}", About.TASK)
        yield from self.begin_code_prompt(prompt(PROMPTS, "codeact.txt"), head=_HEAD, fixed="codeact_example")
        while True:
            self._reply = reply = yield from self.ask(FreeText(_STOPS, thinks=True))
            said = closed(reply.text, cut=reply.cut)
            try:
                if (end := _end_of(said)) is not None:
                    return self._end(said, end)
                block = read_block(said, reasoning=reply.reasoning, cut=reply.cut)
            except BlockError as error:
                self.refuse(said, str(error))
                continue
            self.wrote(said)
            thought = " ".join(" ".join(_apart(said)[0]).split())
            self.explain(thought or block.thought or block.code)
            error_text = yield from self._run(block)
            shown = f"{in_lines(self._printed.rstrip())}\n{error_text}".strip()
            self.tell(f"{_OBSERVATION}\n{shown or '(nothing was printed)'}")

    def _run(self, block: Block) -> Generator[Step, Any, str]:
        self._printed, self._statements = "", 0
        try:
            if (yield from self.run_block(block.statements)) is not Flow.NEXT:
                raise BlockError("SyntaxError: 'return', 'break' and 'continue' belong into loops", 1)
        except BlockError as error:
            self.context.listener.refused(self, Said("code"), str(error))
            return str(error)
        return ""

    def _end(self, said: str, end: Act) -> bool:
        self.take(end, self._reply, said)
        self.feedback_message = end.skill
        self.learn_code()
        return end.skill == DONE


def _apart(said: str) -> tuple[list[str], list[str]]:
    """Split a reply into its thoughts between tags and the rest; an unclosed tag belongs to the rest."""
    thoughts, rest, at, begin = list[str](), list[str](), 0, None
    for tag in _THOUGHT.finditer(said):
        if not tag[1]:
            begin = begin or tag
        elif begin is not None:
            thoughts.append(said[begin.end() : tag.start()])
            rest.append(said[at : begin.start()])
            at, begin = tag.end(), None
    return thoughts, [*rest, said[at:]]


def _end_of(said: str) -> Act | None:
    """Return how the model says that it ended; None if it continues, an error if it says both."""
    said_aloud = split_reasoning("".join(_apart(said)[1])).text  # an end in its thoughts does not count
    ends = [end.strip() for end in _SOLUTION.findall(said_aloud)]
    if not ends:
        return None
    if len(ends) > 1 or "<execute>" in said or ends[0].casefold() not in (DONE, FAILURE):
        raise BlockError(_NO_END)
    return Act(ends[0].casefold())


SPEC = PlannerSpec(
    name="codeact",
    summary="one node whose actions are pieces of code; their output is its observation",
    extra="reactree_lab[recode]",
    needs=("pydantic_monty",),
    build=CodeActNode,
)
