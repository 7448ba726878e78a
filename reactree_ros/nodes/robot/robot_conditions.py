"""A robot's conditions: whether each holds now, what is told of them, and the wait for one as a skill."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rclpy.node import Node

from reactree_ros.agent.skill import SkillCall
from reactree_ros.background.pending import Pending
from reactree_ros.nodes import steady
from reactree_ros.nodes.executors import WithInfo
from reactree_ros.nodes.robot.robot_topics import ConfiguredTopic, hear_all
from reactree_ros.nodes.robot.wanted import Field
from reactree_ros.robot.config import ConditionEntry, RobotConfig
from reactree_ros.world.port import Observation, Outcome

_WORDS = {True: "yes", False: "no", None: "unknown"}


class Condition(ConfiguredTopic):
    """Says whether a condition holds.

    Raises:
        UserError: A name, a type or a field is wrong.
    """

    hearing = None

    def __init__(self, node: Node, entry: ConditionEntry, *, where: str) -> None:
        super().__init__(node, entry, where)
        self._field = Field(self._kind, entry.field, entry.holds, f"{where}: holds", {})
        self._wanted = self._field.wanted({})
        self._latest: bool | None = None
        self._sent_at, self._heard_at = -1, 0.0  # in nanoseconds by the sender's clock; by ours

    def listen(self) -> None:
        self._subscriptions += hear_all(self._node, self._kind, self._entry.topic, WithInfo(self._hear))

    def _hear(self, msg: Any, info: Mapping[str, int]) -> None:
        self._heard_at = steady.now()
        if info["source_timestamp"] >= self._sent_at:  # a message can come twice and late
            self._sent_at, self._latest = info["source_timestamp"], self._wanted(self._field.read(msg))

    def holds(self) -> bool | None:
        """Whether it holds; None: nobody knows."""
        silent = self._entry.silent_for and steady.now() - self._heard_at > self._entry.silent_for
        return None if silent else self._latest

    def in_words(self) -> str:
        """Say it, and whether it holds."""
        return f"{self._entry.wording}: {_WORDS[self.holds()]}"


class Conditions:
    """All conditions of a robot.

    Args:
        node: Whose subscriptions are used.

    Raises:
        UserError: A name, a type or a field is wrong.
    """

    def __init__(self, node: Node, config: RobotConfig, *, where: str) -> None:
        self._by_name = {
            name: Condition(node, entry, where=config.at(where, "conditions", name))
            for name, entry in config.conditions.items()
        }
        self._by_wording = {config.conditions[name].wording: one for name, one in self._by_name.items()}

    def listen(self) -> None:
        for one in self._by_name.values():
            one.listen()

    def named(self, name: str) -> bool | None:
        """Whether the condition of a name holds; None: nobody knows, or there is none."""
        return self._by_name[name].holds() if name in self._by_name else None

    def said(self, wording: object) -> bool | None:
        """Whether the condition that is said so holds; None: nobody knows."""
        return self._by_wording[str(wording)].holds()

    def told(self) -> str:
        """Say of each whether it holds; empty if there are none."""
        return f"Conditions: {'; '.join(one.in_words() for one in self._by_name.values())}." if self._by_name else ""

    def mismatches(self) -> list[str]:
        """Say which topics are published otherwise than the configuration says."""
        return list(filter(None, (one.mismatch() for one in self._by_name.values())))

    def close(self) -> None:
        for one in self._by_name.values():
            one.close()


class Waiting:
    """A wait for a condition that is under way; it ends as soon as that holds, or the time is over.

    Args:
        conditions: All that there are.
        halted: Says why nothing may go on.
        after: Words the observation.

    Attributes:
        pending: Gets the observation.
        over: Whether it has ended.
    """

    def __init__(
        self,
        call: SkillCall,
        conditions: Conditions,
        *,
        halted: Callable[[], str],
        after: Callable[[Outcome, str], Observation],
    ) -> None:
        self._call, self._conditions, self._halted, self._after = call, conditions, halted, after
        self._until = steady.now() + float(call.values["seconds"])
        self.pending: Pending[Observation] = Pending()
        self.step()

    @property
    def over(self) -> bool:
        """Whether it has ended, or nobody waits for it any more."""
        return self.pending.done()

    def step(self) -> None:
        """Look whether it has ended."""
        wording, seconds = self._call.values["condition"], self._call.values["seconds"]
        if self.over:
            return
        if halted := self._halted():
            self._end(Outcome.HALTED, f"You could not {self._call}: {halted}.")
        elif (holds := self._conditions.said(wording)) is True:
            self._end(Outcome.DONE, f"You waited until {wording}.")
        elif steady.now() >= self._until:
            why = "nobody knows whether it is so" if holds is None else "it is not so"
            self._end(Outcome.TIMEOUT, f"You waited {seconds} s until {wording}, but {why}.")

    def _end(self, outcome: Outcome, words: str) -> None:
        self.pending.succeed(self._after(outcome, words))
