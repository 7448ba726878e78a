"""Whether a run gets on: what comes again and again without anything new ends it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from typing import Any

from reactree_ros.agent.decision import Decision
from reactree_ros.agent.kinds.act import Act
from reactree_ros.agent.observation import Observation, Outcome
from reactree_ros.agent.text import shortened_line
from reactree_ros.agent.turns import Said
from reactree_ros.llm.port import Reply
from reactree_ros.tree.context import RunContext
from reactree_ros.tree.goal import Goal
from reactree_ros.tree.listener import Call, Listener

#: How many times as many decisions may bring nothing new when they differ, and how often a robot may wait.
PATIENCE = 5
_LONGEST = 100


class Watch(Listener):
    """Looks on at a run, and says in its budget that it is stuck.

    It is stuck when the same comes so many times without anything new in between: a skill with the same outcome, a
    thought, a question, an expansion, or the refusal of the same words. So does a round of several skills. Decisions
    and refusals that differ, such as thoughts in other words, may bring nothing new :data:`PATIENCE` times as often.

    New is what the world shows after a skill that it carried out or in a look around, what a person says, and that a
    hold is over. What the model says is not, nor what it is told of its own memory. What is seen is compared as data;
    as words only when the world gives none. A skill that waits lets the same come again, as something may have changed.

    In a tree of one's own, only failures count: of the same leaf, by the same words. In a row so many of them end the
    run, with other leaves in between :data:`PATIENCE` times as many. A condition that does not hold is not a failure.
    """

    def __init__(self, context: RunContext, after: int) -> None:
        self._context, self._after = context, after
        self._acts: dict[Goal, Act] = {}
        self._known = set[int]()
        self._counts = Counter[Hashable]()
        self._barren = 0
        self._counted = 0  # how many decisions and steps there were then
        self._failed = Counter[Hashable]()  # of leaves of a tree of one's own
        self._last: Hashable = None
        self._shown = set[Hashable]()  # what their skills have shown

    def node_started(self, node: Goal) -> None:
        if node.is_own_leaf:
            self._known.clear()
            self._counts.clear()
            self._barren = 0

    def node_ended(self, node: Goal) -> None:
        if not node.is_own_leaf:
            return
        leaf: Any = node
        sees_not = getattr(leaf, "sees_not", False)
        failed = None if node.failure is None or sees_not else (node.subgoal, node.failure.message)
        is_next, self._last = failed == self._last, failed
        if failed is None:
            return
        self._failed[failed] += 1
        if self._failed[failed] >= self._after * (1 if is_next else PATIENCE) and not self._context.budget.stuck:
            count = self._failed[failed]
            self._context.budget.stuck = f"{_quoted(node.subgoal)} failed {count} times without anything new"

    def decided(self, node: Goal, decision: Decision, reply: Reply) -> None:
        if isinstance(decision, Act):
            self._acts[node] = decision
        else:
            self._say(node, (type(decision), _words(str(decision))), str(decision))

    def refused(self, node: Goal, said: Said, reason: str) -> None:
        self._say(node, (reason, _words(said.text)), f"the refused reply {_quoted(said.text)} ({reason})", quote=False)

    def observed(self, node: Goal, observation: Observation) -> None:
        act = self._acts.pop(node, None)
        if act is None:
            shows = node.subgoal, _data(observation)
            if node.is_own_leaf and observation.outcome in (Outcome.DONE, Outcome.HALTED) and shows not in self._shown:
                self._shown.add(shows)
                self._failed.clear()
            return
        key = hash((node.post.robot.name, act.skill, _data(observation)))  # another robot's is another skill
        shown = observation.outcome is Outcome.DONE and not act.asks_memory and key not in self._known
        if shown or observation.outcome is Outcome.HALTED:
            self._new(key)
            return
        waits = self._context.household.waits(act.skill)
        if waits:
            self._counts = Counter({key: self._counts[key]})
        self._count(node, key, act.skill, times=PATIENCE if waits else 1, barren=not waits)

    def came(self, node: Goal, call: Call, answer: Any) -> None:
        if call.of == "observe":
            key = hash(_data(answer))
        elif call.of == "answer":
            key = hash((call.of, answer.text))
        else:
            return
        if key not in self._known:
            self._new(key)

    def heard(self, words: str) -> None:
        self._failed.clear()
        self._new(hash(words))

    def _new(self, key: int) -> None:
        self._known.add(key)
        self._barren, self._counts = 0, Counter({key: 1})

    def _say(self, node: Goal, key: Hashable, what: str, *, quote: bool = True) -> None:
        """Count what was said; what is said in one decision, such as several plans, counts once."""
        budget = self._context.budget
        if (counted := budget.decisions + budget.steps) != self._counted:
            self._counted = counted
            self._count(node, key, what, quote=quote)

    def _count(
        self, node: Goal, key: Hashable, what: str, *, times: int = 1, barren: bool = True, quote: bool = True
    ) -> None:
        self._counts[key] += 1
        self._barren += barren
        budget, last = node.budget, _quoted(what) if quote else shortened_line(what, 3 * _LONGEST)
        if budget.stuck:
            return
        if (count := self._counts[key]) >= times * self._after:
            budget.stuck = f"{last} came {count} times without anything new"
        elif self._barren >= PATIENCE * self._after:
            budget.stuck = f"{self._barren} decisions in a row brought nothing new, the last was {last}"


def _data(observation: Observation) -> Hashable:
    """Return what an observation says, as data; as words if it has none."""
    data = (tuple(observation.seen), observation.looked_into, observation.rooms)
    return observation.outcome, data if any(data) else observation.text


def _words(text: str) -> str:
    return " ".join(text.casefold().split())


def _quoted(text: str) -> str:
    return f"'{shortened_line(text, _LONGEST)}'"
