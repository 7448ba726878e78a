"""The agent node: an LLM that thinks, acts and expands, as a behaviour (paper, Algorithm 1)."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from py_trees.behaviour import Behaviour
from py_trees.common import Status
from py_trees.composites import Composite

from reactree_ros.agent.decision import DONE, FAILURE, RECALL, Act, Expand, Think
from reactree_ros.agent.folding import Folding
from reactree_ros.agent.grammar import DecisionGrammar
from reactree_ros.agent.parser import MalformedDecision, parse_decision
from reactree_ros.agent.prompt import Siblings, header, prompt_start, shortened, system_text
from reactree_ros.agent.summary import read_summary, summary_prompt
from reactree_ros.llm.port import FreeText, PromptTooLong, Reply
from reactree_ros.memory.experience import End
from reactree_ros.pending import Pending
from reactree_ros.tree.context import RunContext
from reactree_ros.tree.control_flow import control_flow
from reactree_ros.tree.goal_node import GoalNode
from reactree_ros.world.port import Observation


class Phase(enum.Enum):
    """What an agent node is doing."""

    IDLE = "idle"
    SENSING = "sensing"
    DECIDING = "deciding"
    SUMMARISING = "summarising"
    ACTING = "acting"
    EXPANDING = "expanding"
    ENDED = "ended"


class AgentNode(GoalNode):
    """Works on one subgoal, one decision at a time.

    Its children are the leaf that carries its skills out and, after an expansion, the control flow over the agent
    nodes of its subgoals. At most one decision is applied in a tick.

    Status:
        RUNNING while it decides, while its skill runs, and while its expansion runs.
        SUCCESS on ``done``, or when its expansion succeeded.
        FAILURE on ``failure``, when its expansion failed, when the budget is exhausted, or on an error; the
        feedback message names which.
        INVALID when interrupted: what it has in flight is cancelled.

    Its text is its header, decisions and observations so far, as in the recorded files. Its prompt ends with the same,
    or, where that has grown long and the options say so, with a summary of its older part and the rest.

    Attributes:
        phase: What it is doing.
    """

    def __init__(
        self, subgoal: str, context: RunContext, *, siblings: Siblings | None = None, parent: AgentNode | None = None
    ) -> None:
        """Make an agent node.

        Args:
            subgoal: Its goal, in natural language.
            context: What the agent nodes of the run share.
            siblings: Where it stands under the agent node that expanded; None for the root.
            parent: The agent node that expanded; None for the root.
        """
        super().__init__(subgoal, context, parent=parent)
        self.phase = Phase.IDLE
        self._siblings = siblings
        self._ancestors: frozenset[str] = frozenset({_normal(subgoal)}) | (
            frozenset() if parent is None else parent._ancestors
        )
        self._waiting: Mapping[str, Pending[Any]] = {}
        self._deadline = 0.0
        self._system = ""
        self._examples: Sequence[str] = ()
        self._prompt_start = ""
        self._said: list[tuple[int, int]] = []  # where in the text the model itself spoke
        self._folding = Folding.none("")
        self._folding_until = 0  # where in the text a summary that is asked for ends
        self._skills: Sequence[str] = ()
        self._expansion: Composite | None = None

    # ------------------------------------------------------------------ life in the tree

    def tick(self) -> Iterator[Behaviour]:
        """Go on by at most one decision, then tick the child it led to."""
        if self.status != Status.RUNNING:
            self._restart()
        self.status = Status.RUNNING
        self._advance()
        if (child := self._ticking()) is not None:
            self.current_child = child
            yield from child.tick()
            self._after(child)
        if self.phase is Phase.ENDED:
            self.stop(Status.SUCCESS if self.end is End.SUCCESS else self._expansion_status())
        yield self

    def terminate(self, new_status: Status) -> None:
        """Cancel what is in flight; the children are stopped by the tree."""
        waiting, self._waiting = self._waiting, {}
        for pending in waiting.values():
            pending.cancel()
        self.status = new_status
        if new_status == Status.INVALID:
            self.phase = Phase.IDLE
        else:
            self._context.listener.node_ended(self)

    def _restart(self) -> None:
        self._begin()
        self._expansion, self._said = None, []
        self._sense(start=True)

    def _ticking(self) -> Behaviour | None:
        if self.phase is Phase.ACTING:
            return self.leaf
        if self.phase is Phase.EXPANDING and self._expansion is not None and self._expansion.parent is self:
            return self._expansion
        return None

    def _after(self, child: Behaviour) -> None:
        if child.status == Status.RUNNING:
            return
        if child is not self.leaf:
            self._finish(End.EXPAND, child.feedback_message or f"{child.name} ended in {child.status.value.lower()}")
        elif self.leaf.observation is None:
            self._fail(self.leaf.error)
        else:
            self._take_in(self.leaf.observation)
            self._sense(start=False)
            self._look()

    def _expansion_status(self) -> Status:
        return Status.FAILURE if self._expansion is None else self._expansion.status

    # ------------------------------------------------------------------ sensing, deciding

    def _sense(self, *, start: bool) -> None:
        """Ask the world what may be done; at the start also what is seen, and the memory for examples."""
        context = self._context
        waiting: dict[str, Pending[Any]] = {}
        if start:
            waiting["observation"] = context.world.observe()
            if context.examples is not None:
                waiting["examples"] = context.examples(self.subgoal)
        waiting["skills"] = context.world.available_skills()
        self._wait(Phase.SENSING, waiting)

    def _wait(self, phase: Phase, waiting: Mapping[str, Pending[Any]]) -> None:
        self.phase, self._waiting = phase, waiting
        self._deadline = self._context.clock() + self._context.options.decision_timeout
        for pending in waiting.values():
            # What is sensed at once is looked at in this tick; a decision waits for the next one.
            if phase is not Phase.SENSING or not pending.done():
                pending.add_done_callback(lambda _: self._context.wake())

    def _advance(self) -> None:
        if self.phase is Phase.SENSING:
            self._look()
        elif self.phase is Phase.DECIDING and (came := self._came()) is not None:
            self._apply(came["reply"])
        elif self.phase is Phase.SUMMARISING and (came := self._came()) is not None:
            self._fold(came["summary"])

    def _came(self) -> dict[str, Any] | None:
        """Return everything that is waited for, or None as long as something is missing."""
        if not all(pending.done() for pending in self._waiting.values()):
            if self._context.clock() >= self._deadline:
                late = ", ".join(name for name, pending in self._waiting.items() if not pending.done())
                for pending in self._waiting.values():
                    pending.cancel()
                self._fail(f"no {late} within {self._context.options.decision_timeout:g} s")
            return None
        waiting, self._waiting = self._waiting, {}
        came = {}
        for name, pending in waiting.items():
            try:
                came[name] = pending.take()
            except Exception as error:
                if isinstance(error, PromptTooLong) and self.phase is Phase.DECIDING:
                    self._shorten(error)
                    return None
                self._fail(f"no {name}: {error}")
                return None
        return came

    def _look(self) -> None:
        if (came := self._came()) is None:
            return
        context, recall = self._context, self._context.working_memory is not None
        own = [DONE, FAILURE, *([RECALL + word for word in context.world.recallable] if recall else [])]
        self._skills = [*own, *came["skills"]]
        if "observation" in came:
            observation: Observation = came["observation"]
            context.remember(observation)
            flows = context.allowed_control_flows
            self._system = system_text(context.world.domain, control_flows=flows, recall=recall)
            self._examples = came.get("examples") or context.fixed_examples()
            self._prompt_start = prompt_start(self._system, self._examples)
            self.text = header(self.subgoal, self._siblings, observation.text)
            self._folding = Folding.none(self.text)
            context.listener.node_started(self)
        self._ask()

    def _ask(self) -> None:
        """Ask for the next decision, or first for a summary of a text that has grown long; a limit ends the node."""
        context = self._context
        if (limit := context.budget.reached()) is not None:
            self.text += limit.value
            self._finish(End.FAILURE, limit.value)
            return
        if (longest := context.options.summarise_after) is not None:
            count = context.count_tokens
            until = self._folding.excess(self.text, self._said, limit=longest, count=count)
            if until is not None:
                self._summarise(until)
                return
        shown, said = self._folding.shown(self.text, self._said)
        start = len(self._prompt_start)
        request = self.request(
            self._prompt_start + shown,
            DecisionGrammar(self._skills, context.allowed_control_flows),
            tuple((start + begin, start + end) for begin, end in said),
        )
        self._wait(Phase.DECIDING, {"reply": context.model.decide(request)})

    def _summarise(self, until: int) -> None:
        """Ask for a summary of the older part of the text."""
        self._folding_until = until
        prompt = summary_prompt(self._folding.trajectory(self.text, until), self.subgoal)
        self._wait(Phase.SUMMARISING, {"summary": self._context.model.decide(self.request(prompt, FreeText()))})

    def _fold(self, reply: Reply) -> None:
        """Let the summary stand for the older part in the prompt; it is told as a thought."""
        context = self._context
        hidden = self.text[: self._folding_until].rstrip("\n")
        summary = read_summary(reply.text, hidden.rpartition("\n")[2])
        context.replies.append((self.index, context.budget.decisions + 1, reply))
        context.budget.count_decision()
        self._folding = self._folding.fold(self._folding_until, summary)
        context.listener.decided(self, Think(f"So far: {summary}"), reply)
        self._ask()

    def _shorten(self, error: PromptTooLong) -> None:
        """Drop as many of the least similar examples as are too much, and ask again; give up where there are none."""
        if not self._examples:
            self._fail(f"no reply: {error}")
            return
        kept = shortened(self._examples, error.excess, count=self._context.count_tokens)
        dropped = len(self._examples) - len(kept)
        self._examples = kept
        self._prompt_start = prompt_start(self._system, kept)
        self._context.listener.shortened(self, dropped, error.excess)
        self._ask()

    # ------------------------------------------------------------------ carrying a decision out

    def _apply(self, reply: Reply) -> None:
        context, said = self._context, reply.text.strip("\n")
        context.replies.append((self.index, context.budget.decisions + 1, reply))
        if reply.objection:
            self._refuse(said, reply.objection)
            return
        try:
            decision = parse_decision(said, keep_and=context.options.keep_and)
        except MalformedDecision as error:
            self._refuse(said, str(error))
            return
        if isinstance(decision, Act):
            self._act(decision, said, reply)
            return
        objection = self._objection(decision) if isinstance(decision, Expand) else None
        if objection is not None:
            self._refuse(said, objection)
            return
        context.budget.count_decision()
        context.listener.decided(self, decision, reply)
        if isinstance(decision, Think):
            self._speak(said, "\nOK.\n")
            self._ask()
        else:
            self._speak(said)
            self._expand(decision)

    def _act(self, act: Act, said: str, reply: Reply) -> None:
        context = self._context
        if act.ends:
            self._speak(said, "")
            context.listener.decided(self, act, reply)
            self._finish(End.SUCCESS if act.skill == DONE else End.FAILURE, act.skill)
            return
        if context.options.refuse_unavailable and act.skill not in self._skills:
            self._refuse(said, f"'{act.skill}' is not among the skills that are available now.")
            return
        context.budget.count_step()
        context.listener.decided(self, act, reply)
        self._speak(said)
        if context.working_memory is not None and act.skill.startswith(RECALL):
            self._take_in(Observation(context.working_memory.recall(act.skill[len(RECALL) :])))
            self._ask()
        else:
            self.leaf.name = act.skill
            self.phase = Phase.ACTING

    def _objection(self, expand: Expand) -> str | None:
        """Say why an expansion must not grow; None where it may."""
        options = self._context.options
        if expand.control_flow not in (allowed := self._context.allowed_control_flows):
            names = ", ".join(flow.value for flow in allowed) or "none"
            return f"The control flow '{expand.control_flow.value}' is not allowed here; allowed: {names}."
        if not expand.subgoals:
            return "An expansion needs at least one subgoal."
        if options.max_depth is not None and self.depth + 2 > options.max_depth:
            return f"The tree is {self.depth} deep and must not grow beyond {options.max_depth}."
        if options.refuse_recursion:
            for subgoal in expand.subgoals:
                if _normal(subgoal) in self._ancestors:
                    return f"The subgoal '{subgoal}' is being worked on already; name smaller ones."
        return None

    def _expand(self, expand: Expand) -> None:
        siblings = Siblings(self.subgoal, expand.control_flow, expand.subgoals)
        children = [AgentNode(subgoal, self._context, siblings=siblings, parent=self) for subgoal in expand.subgoals]
        self._expansion = control_flow(expand.control_flow, children, self._context.options.parallel)
        self.phase = Phase.EXPANDING
        self._context.growth.request(self, self._expansion)
        self._context.wake()

    def _speak(self, said: str, then: str = "\n") -> None:
        """Add what the model said to the text, and what follows it."""
        self._said.append((len(self.text), len(self.text) + len(said)))
        self.text += said + then

    def _take_in(self, observation: Observation) -> None:
        self._keep(observation)
        self.text += f"{observation.text}\n"
        self._context.listener.observed(self, observation)

    def _refuse(self, said: str, reason: str) -> None:
        """Count a decision that is not carried out and tell the model why."""
        self._context.budget.count_decision()
        self._speak(said, f"\n{reason}\n")
        self._context.listener.refused(self, said, reason)
        self._ask()

    def _fail(self, error: str) -> None:
        self._context.errors.append(error)
        self._finish(End.FAILURE, error)

    def _finish(self, end: End, message: str) -> None:
        self.phase, self.end, self.feedback_message = Phase.ENDED, end, message


def _normal(goal: str) -> str:
    return " ".join(goal.lower().removeprefix("and ").split()).rstrip(".")
