"""Telemetry of runs, if a distribution beside this one brings it: modules of the group ``reactree_ros.telemetry``."""

from __future__ import annotations

import abc
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any, Protocol

from reactree_ros.plugins import Registry
from reactree_ros.tree.context import RunContext
from reactree_ros.tree.listener import Listener

_log = logging.getLogger(__name__)
#: Modules with functions of the names of those here.
TELEMETRY: Registry[ModuleType] = Registry("telemetry", "reactree_ros.telemetry", ModuleType, first=())


class Telemetry(Listener, abc.ABC):
    @abc.abstractmethod
    def begin(self, context: RunContext, instruction: str, run: str = "", within_trace: str = "") -> None: ...

    @abc.abstractmethod
    def end(self, result: Any) -> None: ...


class Served(Protocol):
    """What another process has asked for, while it is done."""

    def end(self, error: str = "", told: Mapping[str, str] | None = None) -> None: ...


def watching(about: dict[str, Any], planner: str, silent: Callable[[], bool] | None = None) -> Telemetry | None:
    return next((one.watching(about, planner, silent) for one in TELEMETRY.every()), None)


def serving(name: str, trace: str) -> Served | None:
    return next((one.serving(name, trace) for one in TELEMETRY.every()), None)


@contextmanager
def exporting(service: str) -> Iterator[None]:
    """Export what is made meanwhile, as the environment asks for it."""
    with ExitStack() as stack:
        for one in TELEMETRY.every():
            stack.enter_context(one.exporting(service))
        if not TELEMETRY.names and any(name.startswith("OTEL_") for name in os.environ):
            _log.warning("OTEL_* variables ask for telemetry: install reactree_doors[telemetry] beside reactree_ros")
        yield
