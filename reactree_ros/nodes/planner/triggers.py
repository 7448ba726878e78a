"""Triggers: what starts an instruction by itself, as a goal of the planner like any other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial

from rclpy.action import ActionClient
from rclpy.node import Node
from reactree_interfaces.action import ExecuteTask
from std_srvs.srv import SetBool

from reactree_ros.nodes import steady
from reactree_ros.nodes.calls import SentGoal
from reactree_ros.nodes.robot.robot_topics import Conditions
from reactree_ros.robot.config import load_robot
from reactree_ros.robot.triggers import Occasions, TriggerEntry, limits_of

#: How often it is looked whether a trigger is due, in seconds.
PERIOD = 0.2
#: Time before a refused goal is sent again whose condition still holds, in seconds.
AGAIN = 10.0


class _Trigger:
    """A trigger."""

    def __init__(self, name: str, entry: TriggerEntry, now: float) -> None:
        self.name, self.entry, self.occasions = name, entry, Occasions(entry, now)
        self.underway, self.last = False, "not yet"

    def in_words(self) -> str:
        return f"{self.entry.occasion}: {self.entry.instruction!r}; {'under way' if self.underway else self.last}"


class Triggers:
    """Sends the planner's own action the goals of a robot's triggers; ``~/triggers`` switches all off and on.

    A trigger has one goal at a time. What is due by time meanwhile, or while all are off or the planner is inactive,
    does not come later; a condition that has begun to hold does.
    """

    def __init__(self, node: Node, path: str, *, active: Callable[[], bool]) -> None:
        config = load_robot(path)
        self._log, self._clock, self._on, self._active = node.get_logger(), node.get_clock(), True, active
        self._conditions = Conditions(node, config, where=path)
        self._conditions.listen()
        self._triggers = [_Trigger(name, entry, self._now()) for name, entry in config.triggers.items()]
        self._client = ActionClient(node, ExecuteTask, f"{node.get_fully_qualified_name()}/execute_task")
        node.create_service(SetBool, "~/triggers", self._switch)
        steady.every(node, PERIOD, self._look)

    def _now(self) -> float:
        return float(self._clock.now().nanoseconds / 1e9)

    def _switch(self, request: SetBool.Request, response: SetBool.Response) -> SetBool.Response:
        self._on, response.success = request.data, True
        response.message = f"triggers are {'on' if self._on else 'off: none starts an instruction'}"
        self._log.info(response.message)
        return response

    def status(self) -> Mapping[str, str]:
        off = "" if self._on else "off; "
        return {f"trigger {one.name}": f"{off}{one.in_words()}" for one in self._triggers}

    def _look(self) -> None:
        now, on = self._now(), self._on and self._active()
        if not (now and self._client.server_is_ready()):  # a simulation's clock has not begun
            return
        for trigger in self._triggers:
            when = trigger.entry.when
            if when and not on:
                continue
            if trigger.occasions.due(now, self._conditions.named(when)) and on:
                self._start(trigger, now)

    def _start(self, trigger: _Trigger, now: float) -> None:
        if trigger.underway:
            trigger.occasions.refused(now, 0.0)
            return
        entry = trigger.entry
        self._log.info(f"trigger '{trigger.name}' ({entry.occasion}) starts {entry.instruction!r}")
        trigger.underway = True
        goal = ExecuteTask.Goal(instruction=entry.instruction, **limits_of(entry))
        sent = SentGoal(self._client, "execute_task", goal, rejected="its goal was refused")
        sent.end.add_done_callback(partial(self._ended, trigger))
        sent.send()

    def _ended(self, trigger: _Trigger, end: Future[ExecuteTask.Result]) -> None:
        trigger.underway = False
        if (error := end.exception()) is not None:
            trigger.last = "refused"
            trigger.occasions.refused(self._now(), AGAIN)
            self._log.warning(f"trigger '{trigger.name}': {error}")
            return
        result = end.result()
        trigger.last = f"{result.verdict}; {result.message}".rstrip("; ")
        trigger.occasions.ended(self._now(), stopped=result.error_code == ExecuteTask.Result.CANCELED)

    def close(self) -> None:
        self._client.destroy()
        self._conditions.close()
