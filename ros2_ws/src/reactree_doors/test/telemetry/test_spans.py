"""Spans and metrics of runs: their nesting, names and attributes, and what they must not hold or do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from reactree_doors.mcp.in_process import InProcess
from reactree_doors.mcp.robot import Limits, Questions
from reactree_doors.telemetry.spans import Served, Telemetry, trace_of, within
from reactree_ros.agent.household import Household
from reactree_ros.background.pending import Pending
from reactree_ros.episode import Episode
from reactree_ros.episode.going_on import go_on, stop_of
from reactree_ros.episode.player import replay
from reactree_ros.episode.run_spec import RunSpec
from reactree_ros.household.household import WAH_NL
from reactree_ros.llm.port import DecisionRequest, LanguageModel, Reply, ServerUnavailable
from reactree_ros.person.port import Answer, Person, Question
from reactree_ros.planners.spec import planner
from reactree_ros.record.reader import Record
from reactree_ros.record.schema import Event
from reactree_ros.record.writer import Recorder
from reactree_ros.tree.options import TreeOptions
from reactree_ros.world.port import Observation, Outcome, Score, World

#: What must be in no span and no metric: a key, what a person or a model says, what is in the environment.
CANARY = "sk-canary1234567890"


class Kept:
    def __init__(self) -> None:
        self.exporter, self.reader = InMemorySpanExporter(), InMemoryMetricReader()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.meters = MeterProvider([self.reader])

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self.exporter.get_finished_spans())

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.spans if span.name == name]

    def parent(self, span: ReadableSpan) -> str:
        above = {one.context.span_id: one.name for one in self.spans}
        return "" if span.parent is None else above.get(span.parent.span_id, "elsewhere")

    def points(self) -> dict[str, list[Any]]:
        data = self.reader.get_metrics_data()
        found = [] if data is None else [m for r in data.resource_metrics for s in r.scope_metrics for m in s.metrics]
        return {metric.name: list(metric.data.data_points) for metric in found}

    def text(self) -> str:
        return "".join(span.to_json() for span in self.spans) + str(self.points())


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Kept:
    kept = Kept()
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", kept.tracers)
    monkeypatch.setattr(metrics._internal, "_METER_PROVIDER", kept.meters)
    return kept


class Says(LanguageModel):
    """Says given texts, one after the other; an error is raised in place of a reply."""

    def __init__(self, *texts: str | Exception) -> None:
        self._texts = iter(texts)
        self.traces: list[str] = []

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        self.traces.append(request.trace)
        said = next(self._texts)
        if isinstance(said, Exception):
            return Pending.failed(said)
        return Pending.ready(
            Reply(said, prompt_tokens=100, cached_tokens=90, output_tokens=7, answered_by=f"x at http://u:{CANARY}@h")
        )


class House(World):
    """Carries out every skill but those with ``wall``."""

    household: Household = WAH_NL
    recallable = ("apple",)

    def __init__(self) -> None:
        self.traces: list[str] = []

    def reset(self, seed: int | None = None) -> Pending[Observation]:
        return self.observe()

    def observe(self) -> Pending[Observation]:
        return Pending.ready(Observation(f"You see {CANARY}."))

    def available_skills(self) -> Pending[list[str]]:
        return Pending.ready(["go to place 7", "go to wall 1", f"go to {CANARY} 1"])

    def traced(self, trace: str) -> None:
        self.traces.append(trace)

    def execute(self, skill: str) -> Pending[Observation]:
        if "wall" in skill:
            return Pending.ready(Observation("There is a wall.", Outcome.PRECONDITION))
        return Pending.ready(Observation(f"You arrive. {CANARY}"))

    def score(self) -> Pending[Score | None]:
        return Pending.ready(None)


class Neighbour(Person):
    def ask(self, question: Question) -> Pending[Answer]:
        return Pending.ready(Answer(f"the {CANARY} one", "terminal"))


ABOUT: Mapping[str, Any] = {
    "world": {"name": "virtualhome", "settings": {"token": CANARY}},
    "llm": {"llm": "openai", "model": "tiny", "base_url": f"http://me:{CANARY}@example.com:8000/v1", "api_key": CANARY},
}
EXPAND = "Expand:\n- control flow: sequence\n- subgoals: a first one, a second one"


def episode(
    *texts: str | Exception, world: World | None = None, about: Mapping[str, Any] = ABOUT, **given: Any
) -> Episode:
    name = given.pop("planner", "reactree")
    return Episode(
        given.pop("instruction", f"do it, {CANARY}"),
        world=world or House(),
        model=given.pop("model", None) or Says(*texts),
        planner=planner(name),
        telemetry=given.pop("telemetry", None) or Telemetry(ABOUT, name),
        **given,
    )


def test_spans_nest_as_the_tree_does(kept: Kept) -> None:
    done = "Act: done"
    assert episode(EXPAND, "Think: hm", "Act: go to place 7", done, done).run().end == "done"
    (run,) = kept.named("invoke_workflow reactree")
    root, first, second = sorted(kept.named("invoke_agent reactree"), key=lambda span: span.attributes["reactree.node"])
    assert (run.parent, kept.parent(root)) == (None, run.name)
    assert {first.parent.span_id, second.parent.span_id} == {root.context.span_id}
    of_first = [span.name for span in kept.spans if span.parent and span.parent.span_id == first.context.span_id]
    assert of_first == ["chat tiny", "chat tiny", "execute_tool go to", "chat tiny"]
    assert {span.context.trace_id for span in kept.spans} == {run.context.trace_id}
    inner = [span for span in kept.spans if span.parent is not None]
    above = {span.context.span_id: span for span in kept.spans}
    for span in inner:
        around = above[span.parent.span_id]
        assert around.start_time <= span.start_time <= span.end_time <= around.end_time
    assert [span.attributes["reactree.depth"] for span in (root, first, second)] == [1, 3, 3]
    assert run.attributes["reactree.end"] == "done"
    assert (run.attributes["reactree.achieved"], run.attributes["reactree.claimed"]) == (False, True)


def test_a_run_of_an_assistants_client_has_spans_too(kept: Kept, tmp_path: Path) -> None:
    spec = RunSpec(instruction="do it", planner="reactree")
    robot = InProcess(spec, world=House(), model=Says("Act: done"), questions=Questions(), records=tmp_path)
    assert robot.begin("do it", Limits(), lambda event: None).ended.result(60).end == "done"
    assert len(kept.named("invoke_workflow reactree")) == 1


def test_a_decision_has_the_attributes_of_the_conventions(kept: Kept) -> None:
    episode("Act: done").run()
    (chat,) = kept.named("chat tiny")
    told = dict(chat.attributes)
    assert told.pop("reactree.answered_by") == "x at http://***@h"
    assert told == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "tiny",
        "server.address": "example.com",
        "server.port": 8000,
        "gen_ai.request.max_tokens": 512,
        "gen_ai.request.temperature": 0.0,
        "gen_ai.request.top_p": 1.0,
        "gen_ai.request.seed": 0,
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.cache_read.input_tokens": 90,
        "gen_ai.usage.output_tokens": 7,
        "gen_ai.response.finish_reasons": ("stop",),
        "reactree.attempts": 1,
        "reactree.decision": "Act",
    }
    assert chat.kind is trace.SpanKind.CLIENT


def test_metrics_count_what_happened(kept: Kept) -> None:
    episode("Act: go to place 7", "Act: go to wall 1", "nonsense", "Act: done").run()
    points = kept.points()
    tokens = {
        point.attributes["gen_ai.token.type"]: (point.count, point.sum) for point in points["gen_ai.client.token.usage"]
    }
    assert tokens == {"input": (4, 400), "output": (4, 28)}
    assert points["gen_ai.client.operation.duration"][0].count == 4
    skills = {point.attributes["reactree.outcome"]: point.count for point in points["gen_ai.execute_tool.duration"]}
    assert skills == {"done": 1, "precondition": 1}
    assert [(one.attributes["reactree.decision"], one.value) for one in points["reactree.decisions"]] == [("Act", 3)]
    assert points["reactree.refusals"][0].value == 1
    assert [(one.attributes["reactree.end"], one.value) for one in points["reactree.runs"]] == [("done", 1)]


def test_failures_are_named_by_their_kind(kept: Kept) -> None:
    episode("Act: go to wall 1", ServerUnavailable(f"http://me:{CANARY}@h is gone")).run()
    wall, lost = kept.named("execute_tool go to")[0], kept.named("chat tiny")[1]
    assert wall.attributes["error.type"] == "precondition"
    assert lost.attributes["error.type"] == "ServerUnavailable"
    (run,), (root,) = kept.named("invoke_workflow reactree"), kept.named("invoke_agent reactree")
    assert run.attributes["error.type"] == root.attributes["error.type"] == "model_gone"
    assert not any(span.status.is_ok for span in (wall, lost, run, root))
    failed = [one for one in kept.points()["gen_ai.client.operation.duration"] if "error.type" in one.attributes]
    assert [one.count for one in failed] == [1]


def test_memory_and_person_have_spans(kept: Kept) -> None:
    run = episode(
        "Act: recall location of apple",
        f"Ask: which one? {CANARY}",
        "Act: done",
        planner="reactree_wm:questions=1",
        person=Neighbour(),
        examples=lambda subgoal: Pending.ready(()),
    )
    run.run()
    stores = [
        (span.attributes["gen_ai.memory.store.id"], span.attributes.get("gen_ai.memory.record.count"))
        for span in kept.named("search_memory")
    ]
    assert sorted(stores, key=str) == [("episodic", 0), ("working", None)]
    (asked,) = kept.named("ask_person")
    assert asked.attributes["reactree.answer.by"] == "terminal"
    assert CANARY not in kept.text()


def test_no_secret_and_nobodys_words_are_told(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", CANARY)
    texts = (
        f"Think: {CANARY}",
        f"Act: go to {CANARY} 1",
        f"say {CANARY}",
        f"Expand:\n- control flow: sequence\n- subgoals: {CANARY}",
    )
    episode(*texts, ServerUnavailable(CANARY)).run()
    assert len(kept.spans) > 6
    assert CANARY not in kept.text()


def test_words_are_told_without_keys_where_they_are_asked_for(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true")
    episode("Act: go to place 7", "Act: done").run()
    (run,), (skill,) = kept.named("invoke_workflow reactree"), kept.named("execute_tool go to")
    assert run.attributes["reactree.instruction"] == "do it, ***"
    assert skill.attributes["reactree.skill"] == "go to place 7"
    assert kept.named("chat tiny")[0].attributes["reactree.reply"] == "Act: go to place 7"
    assert CANARY not in kept.text()


class Silent(LanguageModel):
    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        return Pending()


def test_what_an_interrupted_run_had_under_way_ends_with_it(kept: Kept) -> None:
    run = episode(model=Silent())
    run.tick()
    run.interrupt()
    run.conclude()
    (chat,), (root,) = kept.named("chat tiny"), kept.named("invoke_agent reactree")
    assert chat.attributes["error.type"] == "cancelled"
    assert root.attributes["reactree.status"] == "interrupted"
    assert kept.named("invoke_workflow reactree")[0].attributes["reactree.end"] == "interrupted"


def test_a_pause_ends_what_was_asked_and_is_marked(kept: Kept) -> None:
    run = episode(model=Silent())
    run.tick()
    run.pause()
    run.tick()
    assert [span.attributes["error.type"] for span in kept.named("chat tiny")] == ["cancelled"]
    run.resume()
    run.tick()
    run.interrupt()
    run.conclude()
    (root,) = kept.named("invoke_agent reactree")
    assert [event.name for event in root.events] == ["held", "goes on"]


def recorded(*texts: str | Exception, **given: Any) -> list[Event]:
    events: list[Event] = []
    recorder = Recorder(events.append, world={"name": "virtualhome"}, llm={"llm": "expert"})
    episode(*texts, record=recorder, **given).run()
    return [json.loads(json.dumps(event)) for event in events]


def test_a_replay_tells_nothing_and_a_resumed_run_only_what_is_new(kept: Kept) -> None:
    options = TreeOptions(max_decisions=2)
    record = Record(recorded("Think: a", "Act: go to place 7", options=options))
    kept.exporter.clear()
    assert replay(record).identical
    assert not kept.spans
    more = record.run["id"]
    from reactree_ros.episode.going_on import resumed

    spec = resumed(record, {"decisions": 0})
    model = Says("Act: go to place 7", "Act: done")
    run = go_on(record, stop_of(record), spec, world=House(), model=model, telling=True)
    assert not kept.spans
    assert run.run().end == "done"
    assert len(kept.named("chat")) == 2
    (whole,) = kept.named("invoke_workflow reactree")
    assert whole.attributes["reactree.run.continues"] == more
    assert {kept.parent(span) for span in kept.named("chat")} == {"invoke_agent reactree"}
    assert kept.points()["reactree.runs"][-1].value >= 1


def test_one_trace_goes_through_processes(kept: Kept) -> None:
    world, model = House(), Says("Act: go to place 7", "Act: done")
    episode(model=model, world=world).run()
    chats, (skill,) = kept.named("chat tiny"), kept.named("execute_tool go to")
    assert model.traces == [trace_of(span) for span in map(_as_span, chats)]
    assert world.traces == [trace_of(_as_span(skill))]
    served = Served("generate", model.traces[0])
    served.end("MODEL_ERROR")
    (there,) = kept.named("generate")
    assert (there.context.trace_id, there.parent.span_id) == (chats[0].context.trace_id, chats[0].context.span_id)


def _as_span(span: ReadableSpan) -> trace.Span:
    return trace.NonRecordingSpan(span.context)


@pytest.mark.parametrize(
    "odd", ["", "x", "00-" + "0" * 32 + "-" + "0" * 16 + "-01", "00-" + "g" * 32, "\0" * 999, "9" * 10**5]
)
def test_a_strange_trace_is_none(kept: Kept, odd: str) -> None:
    assert within(odd) is None
    Served("generate", odd).end()
    assert kept.named("generate")[0].parent is None


class Broken(SpanProcessor):
    def on_start(self, span: Any, parent_context: Any = None) -> None:
        raise ZeroDivisionError(CANARY)


def test_telemetry_that_fails_ends_no_run_and_says_so_once(kept: Kept, caplog: pytest.LogCaptureFixture) -> None:
    kept.tracers.add_span_processor(Broken())
    assert episode("Think: a", "Act: go to place 7", "Act: done").run().end == "done"
    assert [record.getMessage() for record in caplog.records] == [
        "telemetry: ends, as it failed: ZeroDivisionError('***')"
    ]


def test_a_run_that_is_not_sampled_still_hands_its_trace_on(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

    monkeypatch.setattr(kept.tracers, "sampler", ALWAYS_OFF)
    model = Says("Act: done")
    episode(model=model).run()
    assert int(model.traces[0][-2:], 16) & trace.TraceFlags.SAMPLED == 0
    assert not kept.spans
    assert kept.points()["reactree.runs"][0].value == 1


def test_runs_at_the_same_time_keep_their_spans_apart(kept: Kept) -> None:
    threads = [threading.Thread(target=lambda: episode(EXPAND, "Act: done", "Act: done").run()) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    traces = {span.context.trace_id for span in kept.spans}
    assert [sum(span.context.trace_id == one for span in kept.spans) for one in traces] == [7] * 5


# ---------------------------------------------------------------------- in a process of its own

RUN = """
import sys
from reactree_ros.cli import main
sys.argv = ["reactree", "run", "--llm", "expert", "Put 1 apple on the coffee table"]
{first}
try:
    main()
except SystemExit as ended:
    print("ended with", ended.code)
print("imported:", sorted(name for name in sys.modules if name.startswith("opentelemetry"))[:1])
"""


HANGS = """
import reactree_doors.telemetry as telemetry
telemetry.LAST_WORDS = 0.1
from opentelemetry.sdk.trace import export
import threading
export.ConsoleSpanExporter.export = {export}
"""
CONSOLE = {"OTEL_TRACES_EXPORTER": "console"}
#: What is done first, the variables, and what is then said on standard output and standard error, where lines may be
#: counted.
PROCESSES: dict[str, tuple[str, dict[str, str], list[str], list[str], int | None]] = {
    "nobody asks": ("", {}, ["imported: []"], [], None),
    "no SDK": (
        'sys.modules["opentelemetry"] = None',
        CONSOLE,
        [],
        ["telemetry: OTEL_* variables ask for telemetry, but there is no SDK:", "pip install"],
        None,
    ),
    "the variables are the settings": (
        "",
        {**CONSOLE, "OTEL_METRICS_EXPORTER": "console", "OTEL_SERVICE_NAME": "my robot"},
        ['"name": "invoke_workflow reactree_wm"', '"name": "reactree.runs"', '"service.name": "my robot"'],
        [],
        0,
    ),
    "no such exporter": (
        "",
        {"OTEL_TRACES_EXPORTER": "smoke"},
        [],
        ["telemetry: cannot be set up as the OTEL_* variables ask for:", "smoke"],
        1,
    ),
    "an exporter that hangs": (
        HANGS.format(export="lambda self, spans: threading.Event().wait()"),
        CONSOLE,
        [],
        ["telemetry: not all could be sent within 0.1 s"],
        1,
    ),
    "an exporter that raises": (
        HANGS.format(export="lambda self, spans: 1 / 0"),
        CONSOLE,
        [],
        ["ZeroDivisionError"],
        1,
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize(("first", "env", "out", "err", "lines"), PROCESSES.values(), ids=PROCESSES)
def test_telemetry_of_a_process_ends_no_run_and_is_said_in_a_line(
    first: str, env: dict[str, str], out: list[str], err: list[str], lines: int | None
) -> None:
    given = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")} | env
    command = [sys.executable, "-c", RUN.format(first=first)]
    ended = subprocess.run(command, env=given, capture_output=True, text=True, timeout=600, check=False)
    assert [one for one in ["ended with None", *out] if one not in ended.stdout] == []
    assert [one for one in err if one not in ended.stderr] == []
    assert lines is None or ended.stderr.count("\n") == lines, ended.stderr
