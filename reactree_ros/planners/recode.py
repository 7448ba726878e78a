"""ReCode (Yu et al.): plans and actions are one thing, code; functions without code are written when they are reached.

The root is the call ``solve(instruction, observation)``. A goal node is the call of a function without code, a
placeholder: the language model writes the block that takes its place, and the node runs it statement by statement in a
sandbox. ``run('skill')`` is a skill of the node; the call of another function without code is a new goal node under it
(paper, section 3.2, Algorithm 1). What the paper leaves open is decided so:

- All variables of a task are in one namespace, and a block sees the values of those that its call names, nothing else
  of what happened (paper, section 3.3). Arguments that are no names are given one before (``arg_1``, or the keyword).
- A block sets the variables before the call's equals sign; ``return`` at the top of a block does it, too. One that is
  not set is an error of the block.
- A call inside of an ``if``, ``for`` or ``while`` is reached when it is its turn; it cannot stand where Python may
  leave it out or repeat it inside of one expression.
- When a statement fails, the model gets the traceback, what was printed and the variables as they are, and writes the
  rest: what ran is not run again. A part that cannot be done, or that is too deep, is such an error where it is called.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Generator, Sequence
from typing import Any

from py_trees.common import Status

from reactree_ros.agent.decision import ControlFlow, Expand, Think
from reactree_ros.agent.prompt_files import prompt
from reactree_ros.errors import UserError
from reactree_ros.llm.port import FreeText
from reactree_ros.planners.code_block import (
    Block,
    BlockError,
    Placeholder,
    assigned_names,
    assignment,
    calls_of,
    read_block,
)
from reactree_ros.planners.code_runner import CodeRunner, Flow, Shared, well_formed
from reactree_ros.planners.sandbox import Sandbox, check_installed
from reactree_ros.tree.context import RunContext
from reactree_ros.tree.goal_node import GoalNode
from reactree_ros.tree.program_node import Grow, Program, ProgramError, Step, Wait

_MAX_NAME = 80
_MAX_CALL = 200
_ROOT = "solve(instruction, observation)"
_HEAD = "Function: "
_END = "</execute>"


def recode(instruction: str, context: RunContext, *, depth: int = 10, corrections: int = 3) -> GoalNode:
    """Build the tree for an instruction: the node of ``solve``; those of the parts grow.

    Args:
        instruction: What to do, in natural language.
        context: What the nodes share.
        depth: How many functions without code may be called in one another; ``solve`` is the first.
        corrections: How often a node may write its code again after an error.

    Raises:
        UserError: The interpreter is not installed, or an option is too small.
    """
    check_installed()
    for option, value, least in (("depth", depth, 1), ("corrections", corrections, 0)):
        if value < least:
            raise UserError(f"planner option {option} is {value}; it must be at least {least}")
    shared = Shared(depth=depth, corrections=corrections)
    return CodeNode(instruction, context, shared=shared, call=_ROOT, may_see=("instruction", "observation"))


class CodeNode(CodeRunner):
    """Writes the code of one placeholder and runs it.

    Its children are its skill leaf and the nodes of the placeholders in its code, in the order in which they were
    reached.

    Status:
        RUNNING while the code is written or runs.
        SUCCESS where it ran to its end and set what it had to.
        FAILURE where its last correction failed, too (the feedback message is the error), where the budget is exhausted
        or the language model, the world or the sandbox failed.
        INVALID when interrupted: what is in flight is cancelled; the root ends the sandbox.

    What it decides, as listeners are told: a block is one decision, told as ``Think`` with its reasoning and, where it
    has placeholders, as ``Expand`` with their calls, in sequence; each skill that it runs is told as ``Act``, which
    counts as a step. A skill that is not available is refused and counts as a step as well.

    Attributes:
        call: The call, with what it is assigned to.
        gave_up: Whether it failed by its own code.
    """

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
        """Make a node; see :class:`~reactree_ros.tree.goal_node.GoalNode`.

        Args:
            subgoal: Its goal: the instruction, or the call.
            context: What the nodes share.
            shared: What the code nodes share.
            call: The call, with what it is assigned to.
            targets: The variables that its code has to set.
            may_see: The variables that it may see.
            variables: Their values, for the prompt; the root asks for them when they are set.
            name: Its name in displays.
            parent: The node whose code calls it; None for the root.
        """
        super().__init__(subgoal, context, shared=shared, targets=targets, name=name, parent=parent)
        self.call = call
        self.gave_up = False
        self._may_see = may_see
        self._variables = variables
        self._prompt = ""
        self._said: list[tuple[int, int]] = []  # where in the prompt the model itself spoke
        self._set: Sequence[str] = ()  # variables that the code sets

    @property
    def level(self) -> int:
        """How many placeholders it is deep; the root is 1."""
        return (self.depth + 1) // 2

    def program(self) -> Program:
        """Write the code, run it, correct it."""
        self.gave_up, self._said = False, []
        if self.level > 1:
            return (yield from self._solve())
        sandbox = Sandbox(limits=self._shared.limits, seed=self._context.options.seed)
        self._shared.sandbox = sandbox
        try:
            observation = yield Wait("observation", self._context.world.observe())
            self._context.remember(observation)
            given = {"instruction": well_formed(self.subgoal), "observation": well_formed(observation.text)}
            yield Wait("sandbox", sandbox.start("None", **given))
            self._variables = yield from self.show(self._may_see)
            return (yield from self._solve())
        finally:
            sandbox.close()

    def _solve(self) -> Program:
        header = f"{_HEAD}{self.call}\nVariables:\n{self._variables or '(none)'}\nAnswer:\n"
        self.text = header
        start = yield from self._prompt_start()
        self._prompt = start + header
        for _ in range(self._shared.corrections + 1):
            self._reply = yield from self.ask(self.request(self._prompt, FreeText((_END,)), tuple(self._said)))
            said = well_formed(self._reply.text).strip()
            self._said.append((len(self._prompt), len(self._prompt) + len(said)))
            end = f"\n{_END}\n" if "<execute>" in said and _END not in said else "\n"
            self._prompt += said + end
            self.text += said + end
            try:
                yield from self._carry_out(read_block(said))
            except BlockError as error:
                self.feedback_message = str(error).rpartition("\n")[2]
                self._context.listener.refused(self, f"code, line {error.line}" if error.line else "code", str(error))
                correction = yield from self._correction(error)
                self._prompt += correction
                self.text += correction
            else:
                self.feedback_message = "the code ran to its end"
                self.lesson = self._prompt[len(start) :]
                return True
        self.gave_up = True
        return False

    def _prompt_start(self) -> Generator[Step, Any, str]:
        """Return what stands before the call in every prompt; with fixed examples it is the same in all of a run."""
        household = self._context.world.domain.value
        found = yield from self.find_examples()
        examples = [example for example in found if example.startswith(_HEAD)]  # not those of other planners
        shown = "\n\n".join(example.rstrip("\n") for example in examples) or prompt("recode/examples.txt")
        system = prompt("recode/system.txt").replace("{skills}", prompt(f"recode/skills_{household}.txt"))
        return f"{system}\n\nExamples:\n\n{shown}\n\n(End of the examples)\n\n"

    def _correction(self, error: BlockError) -> Generator[Step, Any, str]:
        """Say what the model gets to know after an error (paper, section 3.3)."""
        lines = [f"Error:\n{error}"]
        if self._printed:
            lines.append(f"Printed:\n{self._printed}")
        if error.line:
            known = yield from self._known()
            lines.append(
                "What the code did before that is done and stays done. The variables are now:\n"
                f"{known or '(none)'}\nWrite only the code for what is left to do."
            )
        else:
            lines.append("Nothing of the code ran. Write it again.")
        return "\n".join([*lines, "Answer:\n"])

    def _known(self) -> Generator[Step, Any, str]:
        """Describe the variables that the block's call named and those that its code has set so far."""
        names = list(dict.fromkeys([*self._may_see, *self._set]))
        missing = yield Wait("result of the code", self.sandbox.unknown(names))
        return (yield from self.show([name for name in names if name not in missing]))

    # ------------------------------------------------------------------ a block

    def _carry_out(self, block: Block) -> Generator[Step, Any, None]:
        self._printed, self._statements, self._set = "", 0, assigned_names(block.statements)
        unknown = yield from self.unknown(ast.Module(body=list(block.statements), type_ignores=[]))
        listener = self._context.listener
        listener.decided(self, Think(block.thought or block.code), self._reply)
        if calls := [_shortened(call) for one in block.statements for call in calls_of(one, unknown)]:
            listener.decided(self, Expand(ControlFlow.SEQUENCE, tuple(calls)), self._reply)
        flow = yield from self.run_block(block.statements)
        last = block.statements[-1].lineno
        if flow in (Flow.BREAK, Flow.CONTINUE):
            raise BlockError(f"SyntaxError: '{flow.name.lower()}' outside of a loop", last)
        missing = yield Wait("result of the code", self.sandbox.unknown(self.targets))
        if missing:
            raise BlockError(f"NameError: the code ended, but it did not set {', '.join(sorted(missing))}", last)

    # ------------------------------------------------------------------ a placeholder

    def expand(self, call: Placeholder, line: int) -> Generator[Step, Any, None]:
        """Let a node for the placeholder grow under this one, and wait for its end."""
        shared = self._shared
        if self.level >= shared.depth:
            raise BlockError(
                f"RecursionError: '{call.function}' has no code, and functions without code may be called in one "
                f"another only {shared.depth} deep; write it with run",
                line,
            )
        named = copy.deepcopy(call)  # in a loop, the arguments are others the next time
        seen = yield from self._name_arguments(named, line)
        variables = yield from self.show(seen, line)
        child = CodeNode(
            _shortened(str(call)),
            self._context,
            shared=shared,
            call=str(named),
            targets=call.targets,
            may_see=seen,
            variables=variables,
            name=_shortened(ast.unparse(call.call), _MAX_NAME),
            parent=self,
        )
        status: Status = yield Grow(child)
        if status == Status.SUCCESS:
            return
        if child.gave_up:
            raise BlockError(f"RuntimeError: {call.function} could not be done: {child.feedback_message}", line)
        raise ProgramError(child.feedback_message)

    def _name_arguments(self, call: Placeholder, line: int) -> Generator[Step, Any, list[str]]:
        """Give every argument a name, since names are all that the code of a placeholder sees; return the names."""
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
                if any(isinstance(one, ast.Call) for one in ast.walk(keyword.value)):  # not to be called again
                    keyword.value = ast.copy_location(ast.Name(keyword.arg, ast.Load()), keyword.value)
            seen.append(keyword.arg)
        return list(dict.fromkeys(seen))


def _shortened(call: str, longest: int = _MAX_CALL) -> str:
    return call if len(call) <= longest else f"{call[:longest]}…"
