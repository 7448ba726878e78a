"""A hundred tasks in a row leave nothing behind: no threads, entities, nodes, nor objects."""

from __future__ import annotations

import gc
import threading
from collections import Counter
from contextlib import suppress
from typing import Any

from doubles import ScriptedModel, ScriptedWorld, expand
from reactree_interfaces.action import ExecuteSkill
from ros_graph import Graph, entities

TASKS, WARM_UP = 100, 10
SCRIPT = {
    "root": ["Think: so", expand("sequence", "a", "b")],
    "a": ["Act: open fridge 1", "Act: done"],
    "b": ["Act: dance", "Act: go to kitchen 1", "Act: done"],
}
#: What rclpy keeps of a task, in objects, until its result expires; a tree that is left behind has hundreds.
KEPT = 30


def results() -> list[Any]:
    """The results of skills that there are in this process; a goal and its pending skill know each other."""
    gc.collect()
    return [one for one in gc.get_objects() if isinstance(one, ExecuteSkill.Result)]


def test_a_hundred_tasks_in_a_row_leave_nothing_behind(graph: Graph) -> None:
    model, world = ScriptedModel({}), ScriptedWorld()
    planner = graph.household({}, model=model, world=world)
    of_others = results()  # that tests before this one have left in this process

    def carry_out(tasks: int) -> None:
        for _ in range(tasks):
            model.script = {goal: list(texts) for goal, texts in SCRIPT.items()}
            assert graph.task().result.success
            model.requests.clear()
            world.executed.clear()
        # A task more or less must not be seen in what has just ended, nor how fast this machine is: the bridge keeps
        # the skills of the last second.
        graph.until(lambda: planner._queue.running is None)
        graph.until(lambda: len(results()) <= len(of_others) + 1)  # the planner's world knows its last skill
        planner._calls.watch()

    def state() -> dict[str, Any]:
        return {
            "threads": threading.active_count(),
            "entities": [entities(node) for node in graph.nodes],
            "nodes": sorted(graph.probe.get_node_names_and_namespaces()),
            "topics": len(graph.probe.get_topic_names_and_types()),
            "services": len(graph.probe.get_service_names_and_types()),
            "behaviours": sum(1 for _ in planner._reporter.tree.root.iterate()),
            "our objects": ours(),
        }

    def left() -> dict[str, Any]:
        """What is otherwise than before; of our objects only those that are more."""
        now = state()
        more = now.pop("our objects") - before["our objects"]
        return {name: one for name, one in now.items() if one != before[name]} | ({"our objects": more} if more else {})

    carry_out(WARM_UP)
    before, objects = state(), len(gc.get_objects())
    carry_out(TASKS)
    with suppress(AssertionError):  # a busy machine holds for a moment what has just ended
        graph.until(lambda: not left())
    assert left() == {}
    assert len(gc.get_objects()) - objects < TASKS * KEPT


def ours() -> Counter[str]:
    """Count the live objects of this package's and of py_trees' classes; goal ids are kept by rclpy for a while."""
    gc.collect()
    modules = ("reactree_ros.", "py_trees.")
    counted = Counter(type(one).__name__ for one in gc.get_objects() if str(type(one).__module__).startswith(modules))
    del counted["_GoalId"]
    return counted
