"""ScienceWorld's simulator in its own Java process, with time limits.

py4j talks to the jar of the package ``scienceworld``, as in the package's own client. That client returns everything
with every step, and gives Java a quarter of the machine's memory.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from reactree_lab.worlds.line_process import Spare
from reactree_ros.background.pending import Worker
from reactree_ros.errors import UserError
from reactree_ros.world.port import WorldError

T = TypeVar("T")
#: Seconds that Java may take to start, and to answer.
START_LIMIT, ANSWER_LIMIT = 60.0, 60.0
_JAVA_OPTIONS = ["-Xmx1g", "-XX:+UseSerialGC"]
_INSTALL = "install Java 17, on Debian and Ubuntu: apt-get install openjdk-17-jre-headless"


def check_java() -> None:
    java = _java()
    if shutil.which(java) is None:
        raise UserError(f"scienceworld needs Java, but '{java}' is missing: {_INSTALL}")


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    return str(Path(home) / "bin" / "java") if home else "java"


class ScienceWorldProcess:
    """One simulator, for one thread at a time. Java ends with this process, even if it is killed."""

    def __init__(self) -> None:
        from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
        from scienceworld.constants import BASEPATH, JAR_PATH

        _quiet()
        self.lost = ""  # why it is useless
        launcher = Worker("java", WorldError)
        launched = launcher.do(
            lambda: launch_gateway(
                classpath=JAR_PATH,
                cwd=BASEPATH,
                javaopts=_JAVA_OPTIONS,
                java_path=_java(),
                die_on_exit=True,
                return_proc=True,
            )
        )
        launcher.close()
        try:
            port, self._process = launched.result(START_LIMIT)
        except Exception as error:  # a Java that is too old ends before it tells its port
            raise WorldError(f"'{_java()}' does not start ScienceWorld ({_line(error)}); {_INSTALL}") from None
        self._gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, read_timeout=ANSWER_LIMIT))
        self._server: Any = self._call(self._gateway.jvm.scienceworld.runtime.pythonapi.PythonInterface)

    def load(self, task: str, variation: int, simplifications: str = "", *, gold: bool = False) -> None:
        """Start a task's variation, with simplifications separated by commas; ``gold`` prepares :meth:`gold`."""
        self._call(lambda: self._server.load(task, variation, simplifications, gold))

    def description(self) -> str:
        """Return the instruction in the simulator's words."""
        return self._call(lambda: str(self._server.getTaskDescription()))

    def gold(self) -> list[str]:
        return self._call(lambda: list(self._server.getGoldActionSequence()))

    def look(self) -> str:
        return self._call(lambda: f"{self._server.freeActionLook().strip()}\n{self._server.freeActionInventory()}")

    def step(self, action: str) -> str:
        return self._call(lambda: str(self._server.step(action)))

    def actions(self) -> list[str]:
        """Return the sensible actions; after an ambiguous one, the answers by number."""
        return self._call(lambda: list(self._server.getValidActionObjectCombinations()))

    def progress(self) -> tuple[float, bool]:
        """Return the score (at most 1; below 0 if the task is failed), and whether the task is over."""
        score = self._call(lambda: float(self._server.getScore()))
        return score, score < 0 or self._call(lambda: bool(self._server.getCompleted()))

    @property
    def usable(self) -> bool:
        return not self.lost

    def kill(self) -> None:
        self.lost = self.lost or "ScienceWorld was closed"
        self._process.kill()
        self._gateway.close()

    def _call(self, call: Callable[[], T]) -> T:
        if not self.lost and self._process.poll() is not None:
            self.lost = f"ScienceWorld's Java process has ended (exit code {self._process.returncode})"
        if self.lost:
            raise WorldError(self.lost)
        try:
            return call()
        except Exception as error:  # any error of py4j and sockets; the result of the call is unknown
            self.lost = f"ScienceWorld's Java process does not answer: {_line(error)}"
            self._process.kill()
            raise WorldError(self.lost) from None


#: The simulator that no world uses.
SPARE = Spare(ScienceWorldProcess)


@contextlib.contextmanager
def borrowed() -> Iterator[ScienceWorldProcess]:
    engine = SPARE.borrow()
    try:
        yield engine
    finally:
        SPARE.give_back(engine)


def _quiet() -> None:
    """Keep py4j from printing tracebacks; every failure becomes an error."""
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(_from_others)


def _from_others(record: logging.LogRecord) -> bool:
    return "py4j" not in Path(record.pathname).parts


def _line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
