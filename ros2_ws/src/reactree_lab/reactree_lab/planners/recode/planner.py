"""ReCode (Yu et al.): plans and actions are both code; functions without code are written when they are reached.

The root is the call ``solve(instruction, observation)``. A goal node is the call of a function without code, a
placeholder: the language model writes its code block, and the node runs it statement by statement in a sandbox.
``run('skill')`` is a skill of the node; the call of another function without code is a new goal node under it (paper,
section 3.2, Algorithm 1). The paper leaves these points open:

- All variables of a task are in one namespace. A block sees only the values of the variables that its call names,
  nothing else of the run (paper, section 3.3). Arguments that are not names get one first (``arg_1``, or the keyword).
- A block sets the variables before the call's equals sign; ``return`` at the top of a block does so, too. A missing one
  is an error of the block.
- A call inside of an ``if``, ``for`` or ``while`` is reached in its turn. It may not stand inside of an expression
  where Python may skip or repeat it.
- When a statement fails, the model gets the traceback, the output and the variables, which stay. Until the node has
  carried out a skill or begun a part, the model writes all of its code again, as in the paper. After that it writes the
  rest: effects in the world cannot be undone, and are not repeated. A part that fails, or is too deep, is such an error
  at its call.
- Code that is truncated at the token limit is such an error, too: nothing of it runs.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Generator, Sequence
from typing import Any

from py_trees.common import Status
from pydantic import Field

from reactree_lab.planners.recode.code_block import (
    BlockError,
    Placeholder,
    assigned_names,
    assignment,
    calls_of,
    read_block,
)
from reactree_lab.planners.recode.code_runner import CodeRunner, Shared, check_skills, shortened
from reactree_ros.agent.labels import in_lines
from reactree_ros.agent.prompt import prompt
from reactree_ros.agent.turns import About
from reactree_ros.llm.port import Reply
from reactree_ros.planners.spec import PlannerSettings, PlannerSpec
from reactree_ros.tree.context import RunContext
from reactree_ros.tree.failure import EndedBelow, FailureKind
from reactree_ros.tree.goal import OfAttempt
from reactree_ros.tree.goal_node import GoalNode
from reactree_ros.tree.program_node import Grow, Program, Step, Wait
from reactree_ros.world.port import Observation

_MAX_CALL = 200
_ROOT = "solve(instruction, observation)"
_HEAD = "Function: "
#: Where a base model continues after its code.
_STOPS = (f"\n{_HEAD}", "\nError:")
_ALL = "The code did nothing in the world before that.", "Write all of the code again."
_REST = "What the code did before that is done and stays done.", "Write only the code for what is left to do."


PROMPTS = "reactree_lab.planners.recode:prompts"


class RecodeSettings(PlannerSettings):
    depth: int = Field(
        default=10,
        ge=1,
        le=100,
        description="most levels of functions without code; solve is the first",
    )
    corrections: int = Field(default=3, ge=0, description="how often a node may rewrite its code after an error")


def recode(instruction: str, context: RunContext, settings: RecodeSettings) -> GoalNode:
    check_skills("recode", context.household)
    shared = Shared(depth=settings.depth, corrections=settings.corrections)
    return CodeNode(instruction, context, shared=shared, call=_ROOT, may_see=("instruction", "observation"))


class CodeNode(CodeRunner):
    """Writes the code of one placeholder and runs it.

    Its children are its last skills and the nodes of the placeholders in its code, in the order in which they were
    reached.

    Status:
        RUNNING while the code is written or runs.
        SUCCESS if it ran to its end and set its variables.
        FAILURE if its last correction failed, too (the feedback message is the error), the budget is exhausted, or the
        language model, the world or the sandbox failed.
        INVALID when interrupted: work in progress is cancelled; the root ends the sandbox.

    Listeners see a block as one decision: ``Think`` with its reasoning and, if it has placeholders, ``Expand`` with
    their calls, in sequence. Each skill is ``Act``, which counts as a step. An unavailable skill is refused and counts
    as a step as well.
    """

    _variables = OfAttempt[str](lambda node: node._given)
    _set = OfAttempt[Sequence[str]](lambda _: ())  # variables that the code sets

    def __init__(
        self,
        subgoal: str,
        context: RunContext,
        *,
        shared: Shared,
        call: str,
        targets: Sequence[str] = (),
        may_see: Sequence[str] = (),
        variables: str = "",
        name: str = "",
        parent: GoalNode | None = None,
    ) -> None:
        """Make a node; see :class:`CodeRunner`. The root asks for the values of what it may see."""
        super().__init__(subgoal, context, shared=shared, targets=targets, name=name, parent=parent)
        self.call = call  # the call, with its targets
        self._may_see = may_see
        self._given = variables

    @property
    def level(self) -> int:
        """Depth in placeholders; the root is 1."""
        return (self.depth + 1) // 2

    def program(self) -> Program:
        return (yield from (self._solve() if self.level > 1 else self.in_sandbox(self._solve_root)))

    def _solve_root(self, _: Observation) -> Program:
        self._variables = yield from self.show(self._may_see)
        return (yield from self._solve())

    def _solve(self) -> Program:
        self.tell(f"{_HEAD}{self.call}\nVariables:\n{self._variables or '(none)'}\nAnswer:", About.TASK)
        system, examples = prompt(PROMPTS, "system.txt"), prompt(PROMPTS, "examples.txt")
        yield from self.begin_code_prompt(system, head=_HEAD, fixed="recode_examples", otherwise=(examples,))
        return (
            yield from self.until_it_runs(_STOPS, self._carry_out, self._correction, done="the code ran to its end")
        )

    def _correction(self, error: BlockError) -> Generator[Step, Any, str]:
        if not error.line:
            return f"Error:\n{error}\nNothing of the code ran. Write it again.\nAnswer:"
        printed = f"Printed:\n{in_lines(self._printed)}\n" if self._printed else ""
        known = yield from self.known([*self._may_see, *self._set])
        done, wanted = _REST if self._acted else _ALL
        return f"Error:\n{error}\n{printed}{done} The variables are now:\n{known}\n{wanted}\nAnswer:"

    # ------------------------------------------------------------------ a block

    def _carry_out(self, said: str, reply: Reply) -> Generator[Step, Any, None]:
        block = read_block(said, reasoning=reply.reasoning, cut=reply.cut)
        self._printed, self._statements, self._set = "", 0, assigned_names(block.statements)
        unknown = yield from self.unknown(ast.Module(body=list(block.statements), type_ignores=[]))
        calls = [shortened(call, _MAX_CALL) for one in block.statements for call in calls_of(one, unknown)]
        self.explain(block.thought or block.code, calls or None)
        yield from self.run_outside_of_loops(block.statements)
        missing = yield Wait("result of the code", self.sandbox.unknown(self.targets), next_tick=True)
        if missing:
            raise BlockError(
                f"NameError: the code ended, but it did not set {', '.join(sorted(missing))}",
                block.statements[-1].lineno,
            )

    # ------------------------------------------------------------------ a placeholder

    def expand(self, call: Placeholder, line: int) -> Generator[Step, Any, None]:
        """Grow a node for the placeholder under this one, and wait for its end."""
        shared = self._shared
        if self.level >= shared.depth:
            raise BlockError(
                f"RecursionError: '{call.function}' has no code, and functions without code may be called in one "
                f"another only {shared.depth} deep; write it with run",
                line,
            )
        named = copy.deepcopy(call)  # in a loop, the arguments change
        seen = yield from self._name_arguments(named, line)
        variables = yield from self.show(seen, line)
        child = CodeNode(
            shortened(str(call), _MAX_CALL),
            self.context,
            shared=shared,
            call=str(named),
            targets=call.targets,
            may_see=seen,
            variables=variables,
            name=shortened(ast.unparse(call.call)),
            parent=self,
        )
        self._acted = True
        status: Status = yield Grow(child)
        if status == Status.SUCCESS:
            return
        assert child.failure is not None  # it failed
        if child.failure.kind is FailureKind.GAVE_UP:
            raise BlockError(f"RuntimeError: {call.function} could not be done: {child.feedback_message}", line)
        raise EndedBelow(child.failure)

    def _name_arguments(self, call: Placeholder, line: int) -> Generator[Step, Any, list[str]]:
        """Name every argument, because a placeholder's code sees only names; return the names."""
        seen = []
        for index, argument in enumerate(call.call.args):
            if isinstance(argument, ast.Starred):
                raise BlockError(f"SyntaxError: write the arguments of '{call.function}' one by one", line)
            if isinstance(argument, ast.Constant):
                continue
            if isinstance(argument, ast.Name):
                seen.append(argument.id)
                continue
            name = self.new_argument()
            yield from self.run_statement(assignment(name, argument))
            call.call.args[index] = ast.copy_location(ast.Name(name, ast.Load()), argument)
            seen.append(name)
        for keyword in call.call.keywords:
            if keyword.arg is None:
                raise BlockError(f"SyntaxError: write the arguments of '{call.function}' one by one", line)
            if not (isinstance(keyword.value, ast.Name) and keyword.value.id == keyword.arg):
                yield from self.run_statement(assignment(keyword.arg, keyword.value))
                if any(isinstance(one, ast.Call) for one in ast.walk(keyword.value)):  # it must not be called again
                    keyword.value = ast.copy_location(ast.Name(keyword.arg, ast.Load()), keyword.value)
            seen.append(keyword.arg)
        return list(dict.fromkeys(seen))


SPEC = PlannerSpec(
    name="recode",
    summary="plan as code: missing functions are nodes that write them; the code runs in a sandbox",
    settings=RecodeSettings,
    extra="reactree_lab[recode]",
    needs=("pydantic_monty",),
    build=recode,
)
