"""Telemetry by OpenTelemetry: spans and metrics of runs, where this process uses it.

A run is watched if something in this process has imported OpenTelemetry already: a program that sets its SDK up,
``opentelemetry-instrument``, or :func:`exporting`, which reactree's commands and nodes use. Otherwise nothing of it is
imported. The standard variables ``OTEL_*`` are the settings. Telemetry never ends a run: what does not work is said
once, in a line.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from reactree_ros.agent.text import in_one_line
from reactree_ros.files.secrecy import redacted
from reactree_ros.plugins.installation import install_line

if TYPE_CHECKING:
    from reactree_doors.telemetry.spans import Served, Telemetry

_log = logging.getLogger(__name__)
#: Longest time that a process takes at its end to send what it has not sent yet, in seconds.
LAST_WORDS = 5.0
_SIGNALS = ("TRACES", "METRICS")


def watching(about: dict[str, Any], planner: str, silent: Callable[[], bool] | None = None) -> Telemetry | None:
    """Return what makes spans and metrics of a run; None if nobody in this process takes them."""
    if "opentelemetry.trace" not in sys.modules:
        return None
    from reactree_doors.telemetry.spans import Telemetry, takes_figures, takes_spans

    try:
        return Telemetry(about, planner, silent) if takes_spans() or takes_figures() else None
    except Exception as error:
        _reporter().tell(f"there is none, as it failed: {error!r}")
        return None


def serving(name: str, trace: str) -> Served | None:
    """Begin the span of what another process asked for; None if nobody in this process takes spans."""
    if "opentelemetry.trace" not in sys.modules:
        return None
    from reactree_doors.telemetry.spans import Served, takes_spans

    try:
        return Served(name, trace) if takes_spans() else None
    except Exception as error:
        _reporter().tell(f"a span could not be begun: {error!r}")
        return None


@contextmanager
def exporting(service: str) -> Iterator[None]:
    """Export spans and metrics as the variables ``OTEL_*`` ask for it; at the end what is left is sent, for a while."""
    _complete_environment(service)
    if not any(_asked(signal) for signal in _SIGNALS) or os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        yield
        return
    end = _set_up(_reporter())
    try:
        yield
    finally:
        end()


def _asked(signal: str) -> bool:
    return os.environ.get(f"OTEL_{signal}_EXPORTER", "none").strip() not in ("", "none")


def _complete_environment(service: str) -> None:
    for signal in _SIGNALS:
        if any(os.environ.get(f"OTEL_EXPORTER_OTLP_{of}ENDPOINT") for of in ("", f"{signal}_")):
            os.environ.setdefault(f"OTEL_{signal}_EXPORTER", "otlp")
    if any(_asked(signal) for signal in _SIGNALS):
        os.environ.setdefault("OTEL_SERVICE_NAME", service)
        if not _is_here("opentelemetry.exporter.otlp.proto.grpc"):
            os.environ.setdefault("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")


def _is_here(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # a package above it
        return False


def _set_up(said: _Reporter) -> Callable[[], None]:
    if not _is_here("opentelemetry.sdk"):
        said.tell(
            f"OTEL_* variables ask for telemetry, but there is no SDK: {install_line('reactree_doors[telemetry]')}"
        )
        return lambda: None
    from opentelemetry import metrics, trace

    if not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        return lambda: None  # who set it up ends it
    from opentelemetry.sdk import _configuration

    configurator: Any = _configuration._OTelSDKConfigurator  # what distributions are made from; nothing public does it
    try:
        configurator().configure()
    except Exception as error:  # an unknown exporter, a wrong value
        said.tell(f"cannot be set up as the OTEL_* variables ask for: {error or type(error).__name__}")
    providers = trace.get_tracer_provider(), metrics.get_meter_provider()
    return lambda: _end(providers, said)


def _end(providers: tuple[Any, ...], said: _Reporter) -> None:
    left = [threading.Thread(target=one.shutdown, daemon=True) for one in providers if hasattr(one, "shutdown")]
    until = time.monotonic() + LAST_WORDS
    for thread in left:
        thread.start()
    for thread in left:
        thread.join(max(0.0, until - time.monotonic()))
    if any(thread.is_alive() for thread in left):
        said.tell(f"not all could be sent within {LAST_WORDS:g} s")
    said.setLevel(logging.CRITICAL + 1)  # what is still under way ends with the process


class _Reporter(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._told: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        if record.name not in self._told:
            self._told.add(record.name)
            error = record.exc_info[1] if record.exc_info else None
            self.tell(record.getMessage() if error is None else f"{record.getMessage()} {error!r}")

    def tell(self, problem: str) -> None:
        _log.warning("telemetry: %s", in_one_line(redacted(problem))[:400])


@cache
def _reporter() -> _Reporter:
    said, logger = _Reporter(), logging.getLogger("opentelemetry")
    logger.propagate = False
    logger.addHandler(said)
    return said
