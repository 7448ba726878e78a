"""The watchdog: cancels the goals of nodes that fell silent, because they were killed or hang."""

from __future__ import annotations

from typing import Any

from rclpy.node import Node

from reactree_ros.nodes import steady
from reactree_ros.nodes.diagnostics import ERROR, OK, WARN, Diagnostics, Report
from reactree_ros.nodes.heartbeat import Heartbeat, Lives, Strays
from reactree_ros.nodes.parameters import declare, settings_of
from reactree_ros.nodes.settings import Watching
from reactree_ros.nodes.spinning import LAST_WATCH, run_node

#: Time between two checks, in seconds.
PERIOD = 0.1


class Watchdog(Node):
    """Watches the nodes of its namespace; it must be a process of its own."""

    def __init__(self, name: str = "watchdog", **kwargs: Any) -> None:
        super().__init__(name, **kwargs)
        declare(self, Watching)
        self._silence = settings_of(self, Watching).silence
        self._lives = Lives(self, silence=self._silence)
        self._gone = set[str]()  # names of nodes that fell silent
        self._strays = Strays(self)
        self.heartbeat = Heartbeat(self)
        Diagnostics(self, "nodes", self._report)
        steady.every(self, PERIOD, self._look)

    def _look(self) -> None:
        for said in self._lives.ended():
            who = f"'{said.node}' (process {said.pid} on {said.host})"
            if said.goals:
                self.get_logger().error(
                    f"{who} has been silent for {self._silence:g} s; what it has under way is canceled"
                )
                self._strays.take(said.goals)
            self._gone.add(said.node)
        for name in self._gone:
            if not self._lives.living(name):
                self._strays.forget(name)
        self._strays.look()

    def _report(self) -> Report:
        living = self._lives.living()
        names = {said.node for said in living}
        silent = sorted(self._gone - names)
        values = {
            "live": ", ".join(sorted(names)) or "none",
            "silent": ", ".join(silent) or "none",
            "goals under way": sum(len(said.goals) for said in living),
            "goals being canceled": self._strays.left,
        }
        if self._strays.left:
            return Report(ERROR, f"cancels {self._strays.left} goals of nodes that have fallen silent", values)
        return Report(WARN, f"silent: {', '.join(silent)}", values) if silent else Report(OK, "all live", values)

    def begin_stop(self) -> None:
        """Stay until no node has goals under way: a killed one still has."""

    def stopped(self) -> bool:
        return not self._strays.left and not any(said.goals for said in self._lives.living())


def main() -> None:
    run_node(Watchdog, within=LAST_WATCH)


if __name__ == "__main__":
    main()
