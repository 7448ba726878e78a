"""One trace goes through planner, inference node and bridge."""

from __future__ import annotations

import pytest
from doubles import ScriptedModel, ScriptedWorld
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from ros_graph import Graph

from reactree_ros.episode import Episode
from reactree_ros.episode.telemetry import watching
from reactree_ros.planners.spec import planner

SCRIPT = {"root": ["Act: go to kitchen 1", "Act: done"]}


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    monkeypatch.setattr(metrics._internal, "_METER_PROVIDER", MeterProvider())
    return exporter


def nesting(exporter: InMemorySpanExporter) -> list[tuple[str, str]]:
    """Return the names of all spans, each with that of the span above it; all are of one trace."""
    spans = exporter.get_finished_spans()
    names = {span.context.span_id: span.name for span in spans}
    assert len({span.context.trace_id for span in spans}) == 1
    return sorted((span.name, names[span.parent.span_id] if span.parent else "") for span in spans)


def test_a_decision_and_a_skill_carry_the_trace_to_who_answers(graph: Graph, spans: InMemorySpanExporter) -> None:
    graph.bridge(ScriptedWorld())
    graph.inference(ScriptedModel(SCRIPT))
    world, model = graph.ros_world(), graph.ros_model()
    graph.wait(world.learn(), "the bridge tells its household")
    run = Episode("root", world=world, model=model, planner=planner("reactree"), telemetry=watching({}, "reactree"))
    while not run.finished:
        run.tick()
        graph.step()
    run.conclude()
    world.close()
    model.close()
    found = nesting(spans)
    assert found == sorted(
        [
            ("invoke_workflow reactree", ""),
            ("invoke_agent reactree", "invoke_workflow reactree"),
            *[("chat", "invoke_agent reactree"), ("generate", "chat")] * 2,
            ("execute_tool go to", "invoke_agent reactree"),
            ("execute_skill", "execute_tool go to"),
        ]
    )


def test_a_task_is_one_trace(graph: Graph, spans: InMemorySpanExporter) -> None:
    graph.household(SCRIPT)
    goal = graph.task()
    assert goal.result.end == "done"
    found = nesting(spans)
    assert found.count(("generate", "chat")) == 2
    assert ("execute_skill", "execute_tool go to") in found
