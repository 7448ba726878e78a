"""Runs a language model's code, statement by statement: in the sandbox, in the world, or as a placeholder."""

from __future__ import annotations

import ast
import contextlib
import enum
import itertools
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from reactree_lab.planners.recode.code_block import (
    BlockError,
    Placeholder,
    called_functions,
    jumps_out,
    not_inside,
    placeholder,
    take_out,
)
from reactree_lab.planners.recode.sandbox import (
    RESERVED,
    RUN_ALONE,
    Called,
    Event,
    Limits,
    Outside,
    Raised,
    Sandbox,
)
from reactree_ros.agent.household import Household
from reactree_ros.agent.kinds.act import Act
from reactree_ros.agent.kinds.expand import Expand
from reactree_ros.agent.kinds.think import Think, WriteCode
from reactree_ros.agent.labels import framed, in_lines, not_available
from reactree_ros.agent.prompt import prompt
from reactree_ros.agent.reading.skills import Skills
from reactree_ros.agent.skill import apart
from reactree_ros.agent.transcript import Example
from reactree_ros.agent.turns import About, Said, Saw, Told, Turn
from reactree_ros.background.pending import Pending
from reactree_ros.errors import UserError
from reactree_ros.files.read_back import well_formed
from reactree_ros.llm.port import FreeText, Reply
from reactree_ros.planners.spec import fixed_example
from reactree_ros.tree.context import RunContext
from reactree_ros.tree.flows import SequenceFlow
from reactree_ros.tree.goal import OfAttempt
from reactree_ros.tree.goal_node import GoalNode
from reactree_ros.tree.program_node import Program, Step, Wait
from reactree_ros.world.port import Observation

#: Most statements of a block that run, counting each round of a loop; a loop without placeholders counts as one.
MAX_STATEMENTS = 2000
#: Most of a block's output that is kept, in characters.
MAX_PRINTED = 2000
_BEGIN, _END = "<execute>", "</execute>"
_SKILLS = "recode_skills.txt"
_Node = TypeVar("_Node", bound=ast.AST)
_SIMPLE = (ast.Expr, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Assert, ast.Raise)


@dataclass
class Shared:
    """The shared state of the code nodes of one run."""

    depth: int  # deepest node, counted in nodes
    corrections: int  # how often a node may write its code again
    limits: Limits = field(default_factory=Limits)  # limits on the code
    #: Functions outside of the sandbox that code may call.
    functions: Mapping[str, Outside] = field(default_factory=lambda: RUN_ALONE)
    arguments: Iterator[int] = field(default_factory=itertools.count)  # numbers for named arguments
    loops: Iterator[int] = field(default_factory=itertools.count)  # numbers for loops that run step by step
    sandbox: Sandbox | None = None  # the sandbox of the code, while the root runs


def check_skills(planner: str, household: Household) -> None:
    if not _skills_for_code(household):
        raise UserError(f"{planner} has no {_SKILLS} for the household {household.name}; use another planner")


def _skills_for_code(household: Household) -> str:
    """Describe a household's skills for code: from its own file, or its verbs and rules; otherwise return nothing."""
    with contextlib.suppress(FileNotFoundError):
        return prompt(household.prompts, _SKILLS)
    return f"  {', '.join(household.listed)}" if household.rules else ""


def closed(said: str, *, cut: bool) -> str:
    """Return a reply with the end of its code, which servers cut off with the stop string."""
    said = said.strip()
    return f"{said}\n{_END}" if _BEGIN in said and _END not in said and not cut else said


class Flow(enum.Enum):
    NEXT = enum.auto()
    BREAK = enum.auto()
    CONTINUE = enum.auto()
    RETURN = enum.auto()


def shortened(text: str, longest: int = 80) -> str:
    return text if len(text) <= longest else f"{text[:longest]}…"


def first_line(error: BlockError) -> str:
    lines = str(error).splitlines()
    return next((line for line in lines if not line.startswith(("Traceback ", " "))), lines[0])


class CodeRunner(GoalNode):
    """A node that runs code; its subclass provides the code, and may carry out placeholders."""

    _reply = OfAttempt(lambda _: Reply(""))  # with the code
    _printed = OfAttempt(lambda _: "")
    _statements = OfAttempt(lambda _: 0)
    _acted = OfAttempt(lambda _: False)  # since its start

    def __init__(
        self,
        subgoal: str,
        context: RunContext,
        *,
        shared: Shared,
        targets: Sequence[str],
        name: str,
        parent: GoalNode | None,
    ) -> None:
        """Make a node; see :class:`~reactree_ros.tree.goal_node.GoalNode`. Its goal is the instruction, or the call."""
        super().__init__(subgoal, context, name=name, parent=parent)
        self.targets = targets  # the variables that its code has to set
        self._shared = shared

    def expand(self, call: Placeholder, line: int) -> Generator[Step, Any, None]:
        """Carry out a placeholder in a line of the code; here, there is none."""
        yield from ()
        there = " and ".join(self._shared.functions)
        are = "are" if len(self._shared.functions) > 1 else "is"
        raise BlockError(f"NameError: name '{call.function}' is not defined; there {are} {there}", line)

    def in_sandbox(self, solve: Callable[[Observation], Program]) -> Program:
        """Look around, work in a sandbox that knows ``instruction`` and ``observation``, then end the sandbox."""
        shared = self._shared
        sandbox = Sandbox(limits=shared.limits, seed=self.context.options.seed, functions=shared.functions)
        shared.sandbox, shared.arguments, shared.loops = sandbox, itertools.count(1), itertools.count(1)
        try:
            observation = yield from self.look_around()
            given = {"instruction": well_formed(self.subgoal), "observation": well_formed(observation.text)}
            yield Wait("sandbox", sandbox.start("None", **given), next_tick=True)
            return (yield from solve(observation))
        finally:
            sandbox.close()

    def prompt(self) -> Sequence[Turn]:
        """Return the prompt: the node's replies and messages, without the code's actions and observations."""
        return (*self.prompt_head, *(turn for turn in self.turns if not isinstance(turn, Saw)))

    def begin_code_prompt(
        self, system: str, *, head: str, fixed: str, otherwise: Sequence[str] = ()
    ) -> Generator[Step, Any, None]:
        """Set the part before the node's turns: its role, the skills for code, and examples.

        Args:
            system: The system text; the skills replace ``{skills}`` in it.
            head: Beginning of the examples that the planner can use; others are those of other planners.
            fixed: Name of the household's fixed example, for a memory without such examples.
            otherwise: Fixed examples for a household without one.
        """
        context = self.context
        found = yield from self.find_examples()
        examples: Sequence[Example | str] = [one.text.rstrip("\n") for one in found if one.text.startswith(head)]
        if not examples and context.fixed_example:
            examples = fixed_example(context.household, fixed) or otherwise
        self.begin_prompt(system.replace("{skills}", _skills_for_code(context.household)), examples)

    def until_it_runs(
        self,
        stops: tuple[str, ...],
        carry_out: Callable[[str, Reply], Generator[Step, Any, None]],
        correction: Callable[[BlockError], Generator[Step, Any, str]],
        *,
        done: str,
        **sampling: Any,
    ) -> Program:
        """Have code written and carried out; if it fails, have it corrected, up to the allowed number of times."""
        for _ in range(self._shared.corrections + 1):
            self._reply = reply = yield from self.ask(FreeText(stops, thinks=True), **sampling)
            said = closed(reply.text, cut=reply.cut)
            self.wrote(said)
            try:
                yield from carry_out(said, reply)
            except BlockError as error:
                self.feedback_message = first_line(error)
                where = f"code, line {error.line}" if error.line else "code"
                self.context.listener.refused(self, Said(where), str(error))
                self.tell((yield from correction(error)), About.REFUSAL)
            else:
                self.feedback_message = done
                self.learn_code()
                return True
        return False

    def learn_code(self) -> None:
        self.lesson = tuple(turn for turn in self.turns if not isinstance(turn, Saw))

    def prompt_start(self, system: str, examples: Sequence[Example], rule: str) -> tuple[Turn, ...]:
        """Return system text and examples as one turn; nothing if there is neither."""
        told = [framed(example.text) for example in examples]
        parts = [system, *(["Examples:", *told, "(End of the examples)"] if told else [])]
        text = "\n\n".join(part for part in parts if part)
        return (Told(f"{text}\n", About.SYSTEM),) if text else ()

    # ------------------------------------------------------------------ statements

    def run_block(self, statements: Sequence[ast.stmt]) -> Generator[Step, Any, Flow]:
        """Run statements as far as they go; return how the code goes on after them."""
        for statement in statements:
            flow = yield from self.run_statement(statement)
            if flow is not Flow.NEXT:
                return flow
        return Flow.NEXT

    def run_outside_of_loops(self, statements: Sequence[ast.stmt]) -> Generator[Step, Any, Flow]:
        """Run statements; a jump without a loop is an error."""
        flow = yield from self.run_block(statements)
        if flow in (Flow.BREAK, Flow.CONTINUE):
            raise BlockError(f"SyntaxError: '{flow.name.lower()}' outside of a loop", statements[-1].lineno)
        return flow

    def run_statement(self, statement: ast.stmt) -> Generator[Step, Any, Flow]:
        """Run a statement; one with a placeholder or a jump is split up, any other runs as it is."""
        self._count(statement.lineno)
        if isinstance(statement, ast.Break):
            return Flow.BREAK
        if isinstance(statement, ast.Continue):
            return Flow.CONTINUE
        if isinstance(statement, ast.Return):
            yield from self._return(statement)
            return Flow.RETURN
        unknown = yield from self.unknown(statement)
        if not unknown and not jumps_out(statement):
            yield from self._run_alone(statement)
        elif isinstance(statement, ast.If):
            holds = yield from self._holds(statement.test)
            return (yield from self.run_block(statement.body if holds else statement.orelse))
        elif isinstance(statement, ast.While):
            return (yield from self._loop(statement, lambda: self._holds(statement.test)))
        elif isinstance(statement, ast.For):
            return (yield from self._for(statement))
        elif not isinstance(statement, _SIMPLE):
            raise not_inside(statement, unknown)
        elif (call := placeholder(statement, unknown)) is not None:
            yield from self.expand(call, statement.lineno)
        else:
            yield from self._run_alone((yield from self._taken_out(statement)))
        return Flow.NEXT

    def _count(self, line: int) -> None:
        self._statements += 1
        if self._statements > MAX_STATEMENTS:
            raise BlockError(f"RuntimeError: more than {MAX_STATEMENTS} statements ran", line)

    def _return(self, statement: ast.Return) -> Generator[Step, Any, None]:
        if statement.value is None:
            return
        value = yield from self._taken_out(statement.value)
        targets = f"{', '.join(self.targets)} = " if self.targets else ""
        yield from self._run_code(f"{targets}{ast.unparse(value)}\nNone", statement.lineno)

    def _for(self, loop: ast.For) -> Generator[Step, Any, Flow]:
        items = f"{RESERVED}_{next(self._shared.loops)}"
        values = yield from self._taken_out(loop.iter)
        line = loop.lineno
        count = yield from self._run_code(f"{items} = [*({ast.unparse(values)})]\n{RESERVED}_len({items})", line)
        indices = iter(range(int(count)))

        def advance() -> Generator[Step, Any, bool]:
            if (index := next(indices, None)) is None:
                return False
            yield from self._run_code(f"{ast.unparse(loop.target)} = {items}[{index}]", line)
            return True

        return (yield from self._loop(loop, advance))

    def _loop(
        self, loop: ast.While | ast.For, advance: Callable[[], Generator[Step, Any, bool]]
    ) -> Generator[Step, Any, Flow]:
        while (yield from advance()):
            flow = yield from self.run_block(loop.body)
            if flow is Flow.RETURN:
                return flow
            if flow is Flow.BREAK:
                return Flow.NEXT
        return (yield from self.run_block(loop.orelse))

    def _holds(self, test: ast.expr) -> Generator[Step, Any, bool]:
        self._count(test.lineno)  # a loop may be empty
        changed = yield from self._taken_out(test)
        return bool((yield from self._run_code(f"not not ({ast.unparse(changed)})", test.lineno)))

    def _taken_out(self, node: _Node) -> Generator[Step, Any, _Node]:
        line = getattr(node, "lineno", 1)
        unknown = yield from self.unknown(node)
        try:
            before, changed = take_out(node, unknown, self.new_argument)
        except BlockError as error:
            raise BlockError(str(error), line) from None
        yield from self.run_block(before)
        return changed

    def new_argument(self) -> str:
        return f"arg_{next(self._shared.arguments)}"

    # ------------------------------------------------------------------ the sandbox and the world

    @property
    def sandbox(self) -> Sandbox:
        assert self._shared.sandbox is not None  # the root makes it before anything else
        return self._shared.sandbox

    def unknown(self, node: ast.AST) -> Generator[Step, Any, frozenset[str]]:
        names = sorted(called_functions(node) - self._shared.functions.keys())
        if not names:
            return frozenset()
        unknown: frozenset[str] = yield Wait("result of the code", self.sandbox.unknown(names), next_tick=True)
        return unknown

    def known(self, names: Iterable[str]) -> Generator[Step, Any, str]:
        asked = list(dict.fromkeys(names))
        missing = yield Wait("result of the code", self.sandbox.unknown(asked), next_tick=True)
        return (yield from self.show([name for name in asked if name not in missing])) or "(none)"

    def show(self, names: Sequence[str], line: int = 1) -> Generator[Step, Any, str]:
        shown: str | Raised = yield Wait("result of the code", self.sandbox.show(names), next_tick=True)
        if isinstance(shown, Raised):
            raise BlockError(shown.traceback.rpartition("\n")[2], line)
        return shown

    def _run_alone(self, statement: ast.stmt) -> Generator[Step, Any, None]:
        yield from self._run_code(f"{ast.unparse(statement)}\nNone", statement.lineno)

    def _run_code(self, code: str, line: int) -> Generator[Step, Any, Any]:
        """Run code in the sandbox and its calls outside; return the value of its last line."""
        started = self.sandbox.start("\n" * (line - 1) + code)
        event: Event = yield Wait("result of the code", started, next_tick=True)
        while isinstance(event, Called):
            answered = yield from self.answer(event)
            event = yield Wait("result of the code", answered, next_tick=True)
        self._printed = (self._printed + event.printed)[-MAX_PRINTED:]
        if printed := event.printed[-MAX_PRINTED:].rstrip("\n"):
            self.add(Saw(printed))
        if isinstance(event, Raised):
            raise BlockError(in_lines(event.traceback, first=False), line)
        return event.value

    def answer(self, call: Called) -> Generator[Step, Any, Pending[Event]]:
        return self.sandbox.resume((yield from self.act_for_code(call.text)))

    def wrote(self, said: str) -> None:
        """Count a piece of code, and add it to what the node said."""
        self.context.budget.count()
        self.say(said, WriteCode(said))

    def answered(self, said: str, reply: Reply) -> None:
        """Take an answer to what the code asks, as a thought."""
        self.take(Think(said), reply, said)

    def explain(self, thought: str, steps: Sequence[str] | None = None) -> None:
        """Tell the listener what a piece of code is for, and the steps that it leaves open."""
        listener = self.context.listener
        listener.decided(self, Think(thought), self._reply)
        if steps is not None:
            listener.decided(self, Expand(SequenceFlow(), tuple(steps)), self._reply)

    def act_for_code(self, skill: str) -> Generator[Step, Any, str]:
        context = self.context
        self.check_budget()
        context.budget.steps += 1
        listed = not context.options.as_recorded and not context.household.free_skills
        if listed and Skills(*apart((yield from self.available_skills()))).exactly(skill) is None:
            reason = not_available(skill)
            context.listener.refused(self, Said(str(Act(skill)), Act(skill)), reason)
            self.add(Saw(f"run: {skill}\n{reason}"))
            return reason
        self._acted = True
        context.listener.decided(self, Act(skill), self._reply)
        observation = yield from self.perform(skill)
        self.add(Saw(f"run: {skill}\n{observation.full_text}", observation))
        return well_formed(observation.text)
