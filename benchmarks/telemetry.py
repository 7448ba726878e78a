"""Cost of telemetry per decision, against the same decisions without it, in turns.

python benchmarks/telemetry.py

With the API alone, with an SDK that has no exporter, and with an SDK whose exporter keeps spans in this process.
"""

from __future__ import annotations

import statistics
from functools import partial

from machinery import InstantModel, InstantWorld, pairs
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from reactree_doors.telemetry.spans import Telemetry
from reactree_ros.episode import Episode
from reactree_ros.episode.telemetry import watching
from reactree_ros.planners.spec import planner
from reactree_ros.tree.options import TreeOptions

DECISIONS = 2000
TARGET = 20.0  # microseconds, without an exporter
KINDS = (("Think", "Think: go on"), ("Act", "Act: go to place 7"))


def episode(said: str, telemetry: Telemetry | None = None) -> Episode:
    """Return a run whose model says the same each time; one decision a tick."""
    model = InstantModel()
    model.say = partial(str, said)
    options = TreeOptions(max_decisions=10**9, max_steps=10**9, stuck_after=0)
    run = Episode(
        "go on", model=model, world=InstantWorld(), planner=planner("reactree"), options=options, telemetry=telemetry
    )
    for _ in range(20):
        run.tick()
    return run


def measure(how: str) -> None:
    """Print what telemetry adds to a decision, with the providers that are set now."""
    for name, said in KINDS:
        about = {"llm": {"llm": "openai", "model": "tiny"}, "world": {"name": "virtualhome"}}
        without, watched = episode(said), episode(said, watching(about, "reactree"))
        before = [run.context.budget.decisions for run in (without, watched)]
        found = pairs(without.tick, watched.tick, DECISIONS)
        plain, told = (
            sum(one) / (run.context.budget.decisions - count)
            for one, run, count in zip(zip(*found, strict=True), (without, watched), before, strict=True)
        )
        above = statistics.median(ours - bare for bare, ours in found) * DECISIONS
        above /= watched.context.budget.decisions - before[1]
        print(f"{how:>22} {name:>9} {plain:>9.1f} {told:>9.1f} {above:>9.1f} {1 + above / plain:>7.2f}")


def main() -> None:
    """Measure with the API alone first: providers can be set once."""
    print(f"{'':>22} {'decision':>9} {'without':>9} {'with':>9} {'above':>9} {'ratio':>7}   (us; target {TARGET:g})")
    measure("API alone")
    tracers = TracerProvider()
    trace.set_tracer_provider(tracers)
    metrics.set_meter_provider(MeterProvider())
    measure("SDK without exporter")
    tracers.add_span_processor(BatchSpanProcessor(InMemorySpanExporter()))
    measure("SDK, batches")


if __name__ == "__main__":
    main()
