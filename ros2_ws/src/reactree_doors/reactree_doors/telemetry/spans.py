"""Spans and metrics of one run, made from what its listener is told.

Names follow OpenTelemetry's semantic conventions for generative AI, as of their move to a repository of their own in
2026; what they have no name for begins with ``reactree.``. Nobody's words are in an attribute, unless
``OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT`` asks for them: then without keys, as in a record.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, wraps
from typing import Any, TypeVar
from urllib.parse import urlsplit

from opentelemetry import metrics, trace
from opentelemetry.context import Context
from opentelemetry.metrics import Histogram, MeterProvider
from opentelemetry.trace import Span, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from py_trees.behaviour import Behaviour
from py_trees.common import Status as TreeStatus

from reactree_ros.agent.decision import Decision
from reactree_ros.agent.observation import Observation, Outcome
from reactree_ros.agent.picture import Glance
from reactree_ros.agent.turns import Said
from reactree_ros.episode.telemetry import Telemetry as Port
from reactree_ros.files.secrecy import redacted, without_credentials
from reactree_ros.llm.port import A_PERSON, DecisionRequest, Reply
from reactree_ros.tree.context import RunContext
from reactree_ros.tree.failure import failure_of
from reactree_ros.tree.goal import Goal
from reactree_ros.tree.listener import Call, Listener
from reactree_ros.tree.own_tree import SkillNode

_log = logging.getLogger(__name__)
_SCOPE = "reactree_ros"
_CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
#: Values of that variable by which words are put into spans.
_ASKS_FOR_CONTENT = ("true", "span_only", "span_and_event")
#: Longest text in an attribute, in characters.
_LONGEST = 4000
#: Upper bounds of the buckets that the conventions advise, in tokens and in seconds.
_TOKENS = [4.0**power for power in range(14)]
_SECONDS = [0.01 * 2**power for power in range(14)]
#: What a goal node waits for, with the name of its span and attributes: memories and persons.
_WAITS: Mapping[str, tuple[str, dict[str, str]]] = {
    "examples": ("search_memory", {"gen_ai.memory.store.id": "episodic"}),
    "routine": ("search_memory", {"gen_ai.memory.store.id": "routines"}),
    "recall": ("search_memory", {"gen_ai.memory.store.id": "working"}),
    "answer": ("ask_person", {}),
}
_OPERATION = "gen_ai.operation.name"
_PROPAGATOR = TraceContextTextMapPropagator()
_Class = TypeVar("_Class", bound=type)


def trace_of(span: Span) -> str:
    """Return a span's place in its trace, as W3C's ``traceparent``; empty if it is in none."""
    carrier: dict[str, str] = {}
    _PROPAGATOR.inject(carrier, trace.set_span_in_context(span, Context()))
    return carrier.get("traceparent", "")


def within(traceparent: str) -> Context | None:
    """Return the context of a ``traceparent``; None if it names none."""
    if not traceparent:
        return None
    context = _PROPAGATOR.extract({"traceparent": traceparent}, Context())
    return context if trace.get_current_span(context).get_span_context().is_valid else None


def takes_spans() -> bool:
    return not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider | trace.NoOpTracerProvider)


def takes_figures() -> bool:
    return not type(metrics.get_meter_provider()).__module__.startswith("opentelemetry.metrics")


class _Instruments:
    def __init__(self, provider: MeterProvider) -> None:
        meter = metrics.get_meter(_SCOPE, meter_provider=provider)

        def measure(name: str, unit: str, what: str, bounds: list[float]) -> Histogram:
            return meter.create_histogram(name, unit, what, explicit_bucket_boundaries_advisory=bounds)

        self.tokens = measure("gen_ai.client.token.usage", "{token}", "Tokens of prompts and replies.", _TOKENS)
        self.replies = measure("gen_ai.client.operation.duration", "s", "From a request to its reply.", _SECONDS)
        self.skills = measure("gen_ai.execute_tool.duration", "s", "From a skill's start to its end.", _SECONDS)
        self.decisions = meter.create_counter("reactree.decisions", "{decision}", "Decisions taken, by kind.")
        self.refusals = meter.create_counter("reactree.refusals", "{decision}", "Replies that were not carried out.")
        self.runs = meter.create_counter("reactree.runs", "{run}", "Runs, by their end.")


_instruments = lru_cache(maxsize=4)(_Instruments)  # a meter warns of an instrument that is made twice


@dataclass
class _Under:
    begin: int
    span: Span | None = None
    verb: str = ""


def _never_in_the_way(cls: _Class) -> _Class:

    def careful(method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def carefully(self: Telemetry, *what: Any, **named: Any) -> Any:
            if self.broken:
                return None
            try:
                return method(self, *what, **named)
            except Exception as error:
                self.broken = True
                _log.warning("telemetry: ends, as it failed: %s", redacted(repr(error))[:400])
                return None

        return carefully

    for name in {"begin", "end", *vars(Listener)} & set(vars(cls)):
        if not name.startswith("_"):
            setattr(cls, name, careful(vars(cls)[name]))
    return cls


@_never_in_the_way
class Telemetry(Port):
    """Makes spans and metrics of one run.

    A goal node's span is in that of the goal node above it, the root's in the run's. What is asked of language model,
    world, memories and person is in the span of the goal node that asks. The times are those of the calls and answers.
    """

    def __init__(self, about: Mapping[str, Any], planner: str, silent: Callable[[], bool] | None = None) -> None:
        self.broken = False
        self._about, self._planner = without_credentials(about), planner
        self._continues = str((about.get("parent") or {}).get("id", ""))
        self._silent, self._over = silent, False
        self._tracer = trace.get_tracer(_SCOPE) if takes_spans() else trace.NoOpTracer()
        self._measured = _instruments(metrics.get_meter_provider())
        self._with_content = os.environ.get(_CONTENT, "").strip().lower() in _ASKS_FOR_CONTENT
        self._epoch = time.time_ns() - time.monotonic_ns()  # the clock may be set in the middle of a run
        self._run: Span | None = None
        self._on = False  # whether anybody takes the run's spans
        self._trace = ""  # what the run's span is in its trace
        self._above: Context | None = None
        self._nodes: dict[Goal, tuple[Span, Context]] = {}
        self._calls: dict[tuple[Goal, str, str], _Under] = {}
        self._asked: Span | None = None  # of the last request
        self._said: dict[Goal, tuple[Span, int]] = {}  # replies that nothing has become of yet, and their times
        self._of_model: dict[str, Any] = self._model()
        self._decided: dict[str, dict[str, str]] = {}

    def _model(self) -> dict[str, Any]:
        llm = self._about.get("llm", {})
        told = {_OPERATION: "chat", "gen_ai.provider.name": str(llm.get("llm") or "unknown")}
        if llm.get("model"):
            told["gen_ai.request.model"] = str(llm["model"])
        where = urlsplit(str(llm.get("base_url") or ""))
        if where.hostname is None:
            return {**told}
        port = where.port or (443 if where.scheme == "https" else 80)
        return {**told, "server.address": where.hostname, "server.port": port}

    # ------------------------------------------------------------------ the run

    def begin(self, context: RunContext, instruction: str, run: str = "", within_trace: str = "") -> None:
        context.trace, self._above = self.trace, within(within_trace)
        world = self._about.get("world", {})
        name = str(world.get("name") or world.get("suite") or "")
        self._told = {
            _OPERATION: "invoke_workflow",
            "gen_ai.workflow.name": self._planner,
            **({"reactree.run.id": run} if run else {}),
            **({"reactree.world": name} if name else {}),
            **({"reactree.run.continues": self._continues} if self._continues else {}),
            **self._words("reactree.instruction", instruction),
        }
        self._is_live()

    def _is_live(self) -> bool:
        if self._over or (self._silent is not None and self._silent()):
            return False
        if self._run is None:
            name = f"invoke_workflow {self._planner}"
            self._run = run = self._tracer.start_span(name, self._above, attributes=self._told, start_time=self._now())
            self._on, self._trace = run.is_recording(), trace_of(run)
            self._above = trace.set_span_in_context(run, self._above)
        return True

    def end(self, result: Any) -> None:
        if not self._is_live() or self._run is None:
            return
        self._over, run = True, self._run
        ended: dict[str, Any] = {"reactree.end": str(result.end)}
        ended |= {f"reactree.{of}": getattr(result.verdict, of) for of in ("achieved", "claimed")}
        self._measured.runs.add(1, {**ended, "reactree.planner": self._planner})
        for node in reversed([*self._nodes]):
            self._close(node, "interrupted")
        figures = {of: getattr(result, of) for of in ("decisions", "steps", "questions", "gsr", "ssr", "cost")}
        run.set_attributes({**ended, **{f"reactree.{of}": one for of, one in figures.items() if one is not None}})
        if result.broken:
            _failed(run, str(result.end))
        run.end(self._now())

    def trace(self) -> str:
        """Return the trace that the last request belongs to, for who answers it in another process."""
        return self._trace if self._asked is None else trace_of(self._asked)

    # ------------------------------------------------------------------ goal nodes

    def node_started(self, node: Goal) -> None:
        if self._is_live() and self._on:
            self._close(node, "interrupted")  # it begins again
            self._within(node)

    def _within(self, behaviour: Behaviour | None) -> Context | None:
        while behaviour is not None:
            if isinstance(behaviour, Goal) and not isinstance(behaviour, SkillNode):
                known = self._nodes.get(behaviour)
                return self._open_node(behaviour) if known is None else known[1]
            behaviour = behaviour.parent
        return self._above

    def _open_node(self, node: Goal) -> Context:
        above = self._within(node.parent)
        told: dict[str, Any] = {
            _OPERATION: "invoke_agent",
            "gen_ai.agent.name": self._planner,
            "reactree.node": node.index,
            "reactree.depth": node.depth,
            **self._words("reactree.subgoal", node.subgoal),
            **_robot(node),
        }
        span = self._tracer.start_span(f"invoke_agent {self._planner}", above, attributes=told, start_time=self._now())
        self._nodes[node] = span, trace.set_span_in_context(span, above)
        return self._nodes[node][1]

    def node_ended(self, node: Goal) -> None:
        if node.unreached:
            self._close(node, "not reached")
        else:
            self._close(node, node.status.value.lower(), "" if node.failure is None else node.failure.kind.value)

    def broken_off(self, node: Goal) -> None:
        if node.status == TreeStatus.INVALID:
            self._close(node, "interrupted")
        else:
            self._cancel(node)

    def _close(self, node: Goal, status: str, error: str = "") -> None:
        self._cancel(node)
        if node not in self._nodes:
            return
        span, _ = self._nodes.pop(node)
        span.set_attribute("reactree.status", status)
        if error:
            _failed(span, error)
        span.end(self._now())

    def _cancel(self, node: Goal) -> None:
        self._settle(node)
        for key in [key for key in self._calls if key[0] is node]:
            self._ended(key, {"error.type": "cancelled"})

    def held(self, node: Goal, reason: str) -> None:
        if node in self._nodes:
            self._nodes[node][0].add_event("held" if reason else "goes on", timestamp=self._now())

    # ------------------------------------------------------------------ decisions

    def asked(self, node: Goal, request: DecisionRequest) -> None:
        self._settle(node)
        call, self._asked = self._began(node, "reply", request.id), None
        if self._is_live() and self._on:
            told = {
                **self._of_model,
                "gen_ai.request.max_tokens": request.max_tokens,
                "gen_ai.request.temperature": request.temperature,
                "gen_ai.request.top_p": request.top_p,
                "gen_ai.request.seed": request.seed,
            }
            self._asked = call.span = self._span(node, self._chat, call.begin, told, SpanKind.CLIENT)

    @property
    def _chat(self) -> str:
        return f"chat {self._of_model.get('gen_ai.request.model', '')}".strip()

    def _replied(self, node: Goal, key: tuple[Goal, str, str], reply: Reply) -> None:
        call, now = self._calls.pop(key), self._now()
        by_a_person = reply.answered_by == A_PERSON
        if not by_a_person:
            self._use((now - call.begin) / 1e9, reply)
        if self._on:
            span = call.span or self._span(node, self._chat, call.begin, self._of_model, SpanKind.CLIENT)
            told = {**_used(reply), "gen_ai.response.finish_reasons": (reply.finish_reason,)}
            span.set_attributes(
                {**told, "reactree.attempts": reply.requests, **self._words("reactree.reply", reply.text)}
            )
            self._said[node] = span, now

    def _use(self, seconds: float, answer: Reply | Glance, **error: str) -> None:
        measured = self._of_model if not error else {**self._of_model, "error.type": error["error"]}
        self._measured.replies.record(seconds, measured)
        for kind, count in (("input", answer.prompt_tokens), ("output", answer.output_tokens)):
            if count is not None:
                self._measured.tokens.record(count, {**self._of_model, "gen_ai.token.type": kind})

    def decided(self, node: Goal, decision: Decision, reply: Reply) -> None:
        if not self._is_live():
            return
        word = decision.word
        if word not in self._decided:
            self._decided[word] = {"reactree.decision": word, "reactree.planner": self._planner}
        self._measured.decisions.add(1, self._decided[word])
        self._settle(node, "reactree.decision", word)

    def refused(self, node: Goal, said: Said, reason: str) -> None:
        if not self._is_live():
            return
        self._measured.refusals.add(1, {"reactree.planner": self._planner})
        self._settle(node, "reactree.refused", True)

    def _settle(self, node: Goal, became: str = "", value: str | bool = "") -> None:
        if node in self._said:
            span, at = self._said.pop(node)
            if became:
                span.set_attribute(became, value)
            span.end(at)

    # ------------------------------------------------------------------ skills, memories, persons

    def sent(self, node: Goal, skill: str) -> None:
        call = self._began(node, "execute")
        call.verb = node.post.robot.world.household.split_skill(skill)[0] or "skill"
        if not self._is_live() or not self._trace:
            return
        if self._on:
            told = {_OPERATION: "execute_tool", "gen_ai.tool.name": call.verb, **_robot(node)}
            told |= self._words("reactree.skill", skill)
            call.span = self._span(node, f"execute_tool {call.verb}", call.begin, told)
        node.post.robot.world.traced(self._trace if call.span is None else trace_of(call.span))

    def waits(self, node: Goal, call: Call) -> None:
        if call.of in _WAITS:
            self._began(node, call.of, call.id)

    def came(self, node: Goal, call: Call, answer: Any) -> None:
        key = node, call.of, call.id
        if not self._is_live():
            self._calls.pop(key, None)
        elif call.of == "reply":
            if key in self._calls:
                self._replied(node, key, answer)
        elif call.of in _WAITS:
            told = {"reactree.answer.by": answer.by} if call.of == "answer" else {}
            count = {"gen_ai.memory.record.count": len(answer)} if call.of in ("examples", "routine") else {}
            self._waited(node, call, told | count)
        elif isinstance(answer, Observation):
            self._observed(node, key, answer)

    def call_failed(self, node: Goal, call: Call, error: Exception, *, late: bool = False) -> None:
        key, told = (node, call.of, call.id), {"error.type": type(error).__name__}
        if not self._is_live():
            self._calls.pop(key, None)
        elif call.of in _WAITS:
            self._waited(node, call, told)
        elif key in self._calls:
            self._measure_failed(self._calls[key], call.of, error)
            self._ended(key, told)

    def _measure_failed(self, call: _Under, of: str, error: Exception) -> None:
        seconds = (self._now() - call.begin) / 1e9
        if of == "reply":
            self._use(seconds, getattr(error, "took", None) or Reply(""), error=type(error).__name__)
        elif of == "execute":
            self._done(call, seconds, failure_of(error).kind.value)

    def _waited(self, node: Goal, call: Call, told: Mapping[str, Any]) -> None:
        key = node, call.of, call.id
        waited = self._calls.pop(key, None) or _Under(self._now())
        if self._on:
            name, known = _WAITS[call.of]
            span = self._span(node, name, waited.begin, {_OPERATION: name, **known})
            self._calls[key] = _Under(waited.begin, span)
            self._ended(key, told)

    def _observed(self, node: Goal, key: tuple[Goal, str, str], seen: Observation) -> None:
        for glance in seen.glances:
            self._glanced(node, glance)
        if key in self._calls:  # a skill
            call, outcome = self._calls[key], seen.outcome.value
            self._done(call, (self._now() - call.begin) / 1e9, outcome)
            told = {"reactree.outcome": outcome}
            self._ended(key, told if seen.outcome is Outcome.DONE else {**told, "error.type": outcome})

    def _done(self, call: _Under, seconds: float, outcome: str) -> None:
        self._measured.skills.record(seconds, {"gen_ai.tool.name": call.verb, "reactree.outcome": outcome})

    def _glanced(self, node: Goal, glance: Glance) -> None:
        self._use(glance.seconds, glance, **({"error": "glance"} if glance.error else {}))
        if self._on:
            begin = self._now() - int(glance.seconds * 1e9)
            span = self._span(node, self._chat, begin, {**self._of_model, **_used(glance)}, SpanKind.CLIENT)
            if glance.error:
                _failed(span, "glance")
            span.end(self._now())

    # ------------------------------------------------------------------ spans

    def _now(self) -> int:
        return self._epoch + time.monotonic_ns()

    def _began(self, node: Goal, of: str, id: str = "") -> _Under:
        call = self._calls[node, of, id] = _Under(self._now())
        return call

    def _span(
        self, node: Goal, name: str, begin: int, told: Mapping[str, Any], kind: SpanKind = SpanKind.INTERNAL
    ) -> Span:
        return self._tracer.start_span(name, self._within(node), kind, told, start_time=begin)

    def _ended(self, key: tuple[Goal, str, str], told: Mapping[str, Any]) -> None:
        span = self._calls.pop(key).span
        if span is not None:
            span.set_attributes(told)
            if "error.type" in told:
                span.set_status(Status(StatusCode.ERROR))
            span.end(self._now())

    def _words(self, name: str, text: str) -> dict[str, str]:
        return {name: redacted(text[:_LONGEST])} if self._with_content else {}


def _used(answer: Reply | Glance) -> dict[str, Any]:
    used = {
        "gen_ai.usage.input_tokens": answer.prompt_tokens,
        "gen_ai.usage.cache_read.input_tokens": answer.cached_tokens,
        "gen_ai.usage.output_tokens": answer.output_tokens,
        "gen_ai.usage.reasoning.output_tokens": getattr(answer, "reasoning_tokens", None),
        "reactree.answered_by": redacted(answer.answered_by) or None,
    }
    return {name: value for name, value in used.items() if value is not None}


def _robot(node: Goal) -> dict[str, str]:
    name = node.post.robot.name
    return {"reactree.robot": name} if name else {}


def _failed(span: Span, error: str) -> None:
    span.set_attribute("error.type", error)
    span.set_status(Status(StatusCode.ERROR))


class Served:
    """The span of what another process has asked for."""

    def __init__(self, name: str, traceparent: str) -> None:
        tracer = trace.get_tracer(_SCOPE)
        self._span = tracer.start_span(name, within(traceparent) or Context(), SpanKind.SERVER)

    def end(self, error: str = "", told: Mapping[str, str] | None = None) -> None:
        try:
            self._span.set_attributes(told or {})
            if error:
                _failed(self._span, error)
            self._span.end()
        except Exception as failed:
            _log.warning("telemetry: a span could not be ended: %s", redacted(repr(failed))[:400])
