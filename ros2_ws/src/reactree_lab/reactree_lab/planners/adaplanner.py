"""AdaPlanner (Sun et al., 2023): the whole plan is code, refined when the world differs from its expectations.

The model writes a function ``solution(agent, start_from=1)`` of numbered steps, each under ``if start_from <= N:``,
with assertions of its expectations. It can have an observation explained by ``ask(question)``: the paper's in-plan
refinement. If an assertion or anything else fails, the model reads what happened and writes the whole function again,
with the step to resume from in its first line: the paper's out-of-plan refinement, refine then resume. Successful plans
are episodic memory's examples: its skill discovery. The paper leaves these points open:

- The function is never called. Its statements run one after the other in ReCode's sandbox, by the same rules, and each
  step is a node of its own. So variables survive from one version of the plan to the next, like in the paper's
  checkpoint, and the model reads which ones are set.
- Skills are the household's, as text: ``agent.run(skill)``; the paper's agent has a method for each.
- A plan that ran to its end has reached its goal: no planner here sees the world's score.
- An unreadable plan counts as a failure, too: nothing of it runs. The authors have a second request correct it.
"""

from __future__ import annotations

import ast
import re
from collections import deque
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from py_trees.common import Status
from pydantic import Field

from reactree_lab.planners.plan import PROMPTS
from reactree_lab.planners.recode.code_block import (
    BlockError,
    assigned_names,
    check,
    parsed,
    read_code,
)
from reactree_lab.planners.recode.code_runner import CodeRunner, Flow, Shared, check_skills, first_line, shortened
from reactree_lab.planners.recode.sandbox import RUN, RUN_ALONE, Called, Event, Outside
from reactree_ros.agent.labels import in_lines
from reactree_ros.agent.prompt import prompt
from reactree_ros.agent.turns import About, Said, Told
from reactree_ros.background.pending import Pending
from reactree_ros.llm.port import FreeText, PromptTooLong, Reply
from reactree_ros.llm.reasoning import split_reasoning
from reactree_ros.planners.spec import PlannerSettings, PlannerSpec
from reactree_ros.tree.context import RunContext
from reactree_ros.tree.failure import EndedBelow, FailureKind
from reactree_ros.tree.goal import OfAttempt
from reactree_ros.tree.goal_node import GoalNode
from reactree_ros.tree.program_node import Grow, Program, Step
from reactree_ros.world.port import Observation

#: Longest question, in characters.
MAX_QUESTION = 8000
#: Highest number of a step.
MAX_STEP = 9999
#: Number of last skills that a model reads after a failure (the authors' ``report``).
TOLD_SKILLS = 3
_HEAD, _FEEDBACK, _QUESTION = "# Task: ", "Feedback:", "Question: "
#: Where a base model continues after its code, and after its answer.
_STOPS, _ANSWER_STOPS = (f"\n{_FEEDBACK}", f"\n{_HEAD}"), (f"\n{_QUESTION}",)
_ASK = "ask"
_FUNCTIONS: Mapping[str, Outside] = MappingProxyType({**RUN_ALONE, _ASK: Outside("question", MAX_QUESTION)})
_SOLUTION, _AGENT, _START = "solution", "agent", "start_from"
_ALONE = "write one function, solution, and nothing beside it; it begins with the step that its first line says"
_FIRST_LINE = f"its first line is 'def {_SOLUTION}({_AGENT}, {_START}=N):', with the number of the step to begin with"
_MARK = re.compile(r"^\W*step\W*\d+\W*", re.IGNORECASE)


class AdaPlannerSettings(PlannerSettings):
    refinements: int = Field(default=5, ge=0, description="most new versions of the plan after failures")
    questions: int = Field(default=20, ge=0, description="most questions of one version of the plan")
    plan_tokens: int = Field(default=1400, ge=1, description="longest plan, in tokens, unless max_tokens is more")


# ---------------------------------------------------------------------- plans


@dataclass(frozen=True)
class PlanStep:
    number: int
    name: str  # its purpose from its first line, with its number
    body: Sequence[ast.stmt]  # statements if the plan starts with this step or before
    otherwise: Sequence[ast.stmt]  # statements if it starts later; mostly none


@dataclass(frozen=True)
class Solution:
    thought: str  # the reasoning about it
    code: str
    parts: Sequence[PlanStep | ast.stmt]  # the steps, and statements between them, in order
    start: int  # the number of the step to start with
    names: Sequence[str]  # the variables that it may set

    @property
    def to_do(self) -> list[PlanStep]:
        return [part for part in self.parts if isinstance(part, PlanStep) and part.number >= self.start]


def read_solution(said: str, *, reasoning: str = "", cut: bool = False) -> Solution:
    """Read a plan, and check that it may run."""
    thought, code = read_code(said, reasoning=reasoning, cut=cut)
    tree = parsed(code)
    imports = [one for one in tree.body if isinstance(one, ast.Import | ast.ImportFrom)]
    function = _the_function([one for one in tree.body if one not in imports])
    start = _start_of(function)
    body = [*imports, *function.body]
    whole = ast.Module(body=body, type_ignores=[])
    check(whole, _FUNCTIONS)
    _leave_agent_out(whole)
    parts = [_step_of(statement) or statement for statement in body]
    _check_numbers([part.number for part in parts if isinstance(part, PlanStep)], start)
    return Solution(thought, code, parts, start, assigned_names(body))


def _the_function(statements: Sequence[ast.stmt]) -> ast.FunctionDef:
    rest = [one for one in statements if not _calls_it(one)]
    if len(rest) == 1 and isinstance(function := rest[0], ast.FunctionDef) and function.name == _SOLUTION:
        return function
    raise BlockError(f"SyntaxError: {_ALONE}")


def _calls_it(statement: ast.stmt) -> bool:
    """Return whether a statement is ``solution(agent)``, a call that models write under the function."""
    match statement:
        case ast.Expr(ast.Call(ast.Name(id="solution"), [] | [ast.Name(id="agent")], [])):
            return True
    return False


def _start_of(function: ast.FunctionDef) -> int:
    given = function.args
    names = [one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    others = (given.vararg, given.kwarg, *function.decorator_list)
    defaults = [_integer(one) for one in (*given.defaults, *given.kw_defaults) if one is not None]
    if names in ([_AGENT, _START], [_START]) and not any(others) and len(defaults) == 1 and defaults[0] is not None:
        return defaults[0]
    raise BlockError(f"SyntaxError: {_FIRST_LINE}")


def _integer(value: ast.expr) -> int | None:
    if isinstance(value, ast.Constant) and type(value.value) is int and value.value <= MAX_STEP:
        return value.value
    return None


def _leave_agent_out(tree: ast.Module) -> None:
    for node in list(ast.walk(tree)):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="agent"), attr=name)) if name in _FUNCTIONS:
                node.func = ast.copy_location(ast.Name(name, ast.Load()), node.func)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id == _AGENT:
            has = " and ".join(f"{_AGENT}.{name}({outside.takes})" for name, outside in _FUNCTIONS.items())
            raise BlockError(f"SyntaxError: of '{_AGENT}' there are {has}, nothing else (line {node.lineno})")


def _step_of(statement: ast.stmt) -> PlanStep | None:
    """Read ``if start_from <= N:`` as a step; None for every other statement."""
    if not isinstance(statement, ast.If) or not isinstance(test := statement.test, ast.Compare):
        return None
    number = _integer(test.comparators[0])
    if number is None or ast.unparse(test) != f"{_START} <= {number}":
        return None
    title = "".join(one if one.isprintable() else " " for one in _MARK.sub("", _title(statement.body[0])))
    name = " ".join(f"[Step {number}] {title}".split())
    return PlanStep(number, shortened(name), statement.body, statement.orelse)


def _title(first: ast.stmt) -> str:
    """Return the text that a step's first statement prints or is; otherwise an empty text."""
    value = first.value if isinstance(first, ast.Expr) else None
    if isinstance(value, ast.Call) and ast.unparse(value.func) == "print" and value.args:
        value = value.args[0]
    return value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else ""


def _check_numbers(numbers: Sequence[int], start: int) -> None:
    if not numbers:
        raise BlockError(f"SyntaxError: there is no step; write each as 'if {_START} <= N:' with its number N")
    if list(numbers) != sorted(set(numbers)):
        raise BlockError(f"SyntaxError: steps are numbered upwards; these are {', '.join(map(str, numbers))}")
    if start not in numbers:
        raise BlockError(
            f"SyntaxError: {_START} is {start}, and there is no such step; there are {', '.join(map(str, numbers))}"
        )


# ---------------------------------------------------------------------- nodes


@dataclass
class PlanShared(Shared):
    """The shared state of the nodes of one run."""

    questions: int = 0  # most questions of one version of the plan
    asked: int = 0  # questions asked so far
    #: Its last skills with their observations.
    happened: deque[str] = field(default_factory=lambda: deque(maxlen=TOLD_SKILLS))


class _PlanCode(CodeRunner):
    """Runs code of a plan: skills in the world, questions by the language model."""

    _shared: PlanShared

    def answer(self, call: Called) -> Generator[Step, Any, Pending[Event]]:
        if call.function == RUN:
            seen = yield from self.act_for_code(call.text)
            self._shared.happened.append(f"run: {call.text}\n{seen}")
            return self.sandbox.resume(seen)
        return (yield from self._answer_question(call.text))

    def _answer_question(self, question: str) -> Generator[Step, Any, Pending[Event]]:
        """Ask the language model; without an answer, the code's call raises an error, which counts as well."""
        shared = self._shared
        question = in_lines(question, first=False)
        self.tell(f"{_QUESTION}{question}")
        shared.asked += 1
        if shared.asked > shared.questions:
            self.check_budget()
            return self._unanswered(question, f"no more than {shared.questions} questions can be asked")
        turn = Told(f"{prompt(PROMPTS, 'adaplanner_ask.txt')}\n\n{_QUESTION}{question}\nAnswer:", About.TASK)
        try:
            reply = yield from self.ask_with([turn], FreeText(_ANSWER_STOPS))
        except PromptTooLong as error:
            return self._unanswered(question, str(error))
        said = split_reasoning(reply.text).text.strip()
        if reply.cut or not said:
            what = "was cut at its token limit" if reply.cut else "was empty"
            return self._unanswered(question, f"the answer {what}; ask for less, or otherwise")
        self.answered(said, reply)
        return self.sandbox.resume(said)

    def _unanswered(self, question: str, reason: str) -> Pending[Event]:
        self.context.budget.count()
        self.context.listener.refused(self, Said(f"{_QUESTION}{question}"), reason)
        self.tell(reason, About.REFUSAL)
        return self.sandbox.refuse(reason)


class StepNode(_PlanCode):
    """Runs one step of a plan. Its children are its last skills.

    Status:
        RUNNING while the code runs.
        SUCCESS if it ran to its end.
        FAILURE if an assertion or anything else failed (see :attr:`error`), the budget is exhausted, or the language
        model, the world or the sandbox failed.
        INVALID when interrupted: work in progress is cancelled.
    """

    flow = OfAttempt(lambda _: Flow.NEXT)  # how the plan goes on after it
    error = OfAttempt[BlockError | None](lambda _: None)  # why it failed; None if it did not
    _reply = OfAttempt[Reply](lambda node: node._given)

    def __init__(
        self, step: PlanStep, context: RunContext, *, shared: PlanShared, reply: Reply, parent: GoalNode
    ) -> None:
        """Make a node; see :class:`~reactree_ros.tree.goal_node.GoalNode`. ``reply`` holds the plan."""
        super().__init__(step.name, context, shared=shared, targets=(), name=step.name, parent=parent)
        self._given, self._body = reply, step.body

    def program(self) -> Program:
        self.tell(self.subgoal)
        self.lesson = ()  # the lesson is the plan, not a step of it
        try:
            self.flow = yield from self.run_outside_of_loops(self._body)
        except BlockError as error:
            self.error, self.feedback_message = error, first_line(error)
            return False
        self.feedback_message = "as expected"
        return True


class AdaPlannerNode(_PlanCode):
    """Writes the plan, runs it step by step, and writes it again if it failed.

    Its children are the nodes of its steps, in the order of their start, and its last skills outside of steps.

    Status:
        RUNNING while the plan is written or runs.
        SUCCESS if it ran to its end.
        FAILURE if its last version failed, too (the feedback message is the error), the budget is exhausted, or the
        language model, the world or the sandbox failed.
        INVALID when interrupted: work in progress is cancelled, and the sandbox ends.

    Listeners see its decisions like this. A version of the plan is one decision: ``Think`` with its reasoning and
    ``Expand`` with the remaining steps, in sequence. An answer is one decision: ``Think``. Each skill is ``Act``, which
    counts as a step. Unreadable plans and missing answers are refused and count, too.
    """

    _set = OfAttempt[dict[str, None]](lambda _: {})  # variables that the plans may have set

    def __init__(self, instruction: str, context: RunContext, settings: AdaPlannerSettings) -> None:
        check_skills("adaplanner", context.household)
        shared = PlanShared(
            depth=2, corrections=settings.refinements, functions=_FUNCTIONS, questions=settings.questions
        )
        super().__init__(instruction, context, shared=shared, targets=(), name="", parent=None)
        self._settings = settings

    def program(self) -> Program:
        return (yield from self.in_sandbox(self._solve))

    def _solve(self, observation: Observation) -> Program:
        self.tell(f"{_HEAD}{in_lines(self.subgoal, first=False)}\nobservation:\n{observation.text}", About.TASK)
        yield from self.begin_code_prompt(prompt(PROMPTS, "adaplanner.txt"), head=_HEAD, fixed="adaplanner_example")
        tokens = max(self._settings.plan_tokens, self.context.options.max_tokens)
        done = "the plan ran to its end"
        return (yield from self.until_it_runs(_STOPS, self._carry_out, self._feedback, done=done, max_tokens=tokens))

    def _carry_out(self, said: str, reply: Reply) -> Generator[Step, Any, None]:
        solution = read_solution(said, reasoning=reply.reasoning, cut=reply.cut)
        self._statements = self._shared.asked = 0
        self._shared.happened.clear()
        self._set |= dict.fromkeys(solution.names)
        self.explain(solution.thought or solution.code, [step.name for step in solution.to_do])
        yield from self._run_code(f"{_START} = {solution.start}\nNone", 1)
        for part in solution.parts:
            if (yield from self._run_part(part, solution.start)) is Flow.RETURN:
                return

    def _run_part(self, part: PlanStep | ast.stmt, start: int) -> Generator[Step, Any, Flow]:
        if not isinstance(part, PlanStep):
            return (yield from self.run_outside_of_loops([part]))
        if part.number < start:
            return (yield from self.run_outside_of_loops(part.otherwise))
        child = StepNode(part, self.context, shared=self._shared, reply=self._reply, parent=self)
        status: Status = yield Grow(child)
        if status == Status.SUCCESS:
            return child.flow
        assert child.failure is not None  # it failed
        if child.failure.kind is not FailureKind.GAVE_UP or child.error is None:
            raise EndedBelow(child.failure)
        raise child.error

    def _feedback(self, error: BlockError) -> Generator[Step, Any, str]:
        if not error.line:
            return f"{_FEEDBACK}\n{error}\nNothing of it was run. Write the whole function again."
        done = "\n".join(self._shared.happened) or "(none)"
        known = yield from self.known(self._set)
        return (
            f"{_FEEDBACK}\n{error}\nThe last skills before that, and what was seen:\n{done}\n"
            f"The variables are now:\n{known}\n"
            f"Write the whole function again, with the step to go on from as {_START} in its first line."
        )


SPEC = PlannerSpec(
    name="adaplanner",
    summary="the whole plan as code with assertions; if one fails, the plan is rewritten and resumes from a step",
    settings=AdaPlannerSettings,
    extra="reactree_lab[recode]",
    needs=("pydantic_monty",),
    build=AdaPlannerNode,
)
