"""Tokens of a run's own trajectory in the context: ReAcTree and HiAgent's chunking against ReAct.

    python benchmarks/context_tokens.py --recordings FOLDER [--cl100k]

Reads the recorded runs `react`, `react_wm`, `reactree` and `reactree_wm` of FOLDER (`<variant>.jsonl`). It counts the
context within the trial (HiAgent, section 4.1: context efficiency): task, starting observation, decisions and
observations in the prompt before each decision. System text and examples do not change and are left out. For each run
it takes the mean over its decisions and the peak, then the mean of both over the runs, and their ratio.

- tree: the recorded reactree runs against the recorded react runs of the same tasks. Each agent node has its own
  context. The trajectories differ.
- chunks: actions and observations of one recorded reactree run in temporal order, in one context, kept in several ways.
  A decision is an action. "everything" keeps all of them (ReAct's way, the paper's STANDARD). "chunked" is HiAgent's
  working memory, with acting agent nodes as subgoals. No language model is used: a summary is the last observation of
  the chunk, and whether the agent node ended in `done`. Nothing is retrieved. "chunked, no summary" keeps only the last
  observation (the paper's w/o OS). "subgoals, nothing hidden" is the paper's task decomposition (section 5.3).
- chunks of react: the same with the recorded react runs. They have no subgoals, so a new one begins after each
  successful pick up or put down. Its text is the action that ends it.

The package's own rule counts tokens line by line (`approximate_tokens`, 1.00 times cl100k_base over these texts). With
--cl100k, the tokenizer of the paper's GPT-4 counts them. It needs tiktoken and, without a network, TIKTOKEN_CACHE_DIR
with its file (the package litellm contains it).
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

from reactree_lab.planners.hiagent.planner import (
    Chunk,
    ChunkMemory,
    acted,
    subgoal_said,
)
from reactree_lab.recordings import RecordedRun, load_recording
from reactree_ros.agent.text import approximate_tokens
from reactree_ros.agent.transcript import Transcript
from reactree_ros.agent.turns import Said, Turn

VARIANTS = (("react", "reactree"), ("react_wm", "reactree_wm"))
CLAIM = "HiAgent, table 1: 64.98% of STANDARD's context, 35.02% less (49.99% to 73.58% by task; decomposition: 112.8%)"
Count = Callable[[str], int]
#: A subgoal, whether it was reached, and its actions.
Part = tuple[str, bool, list[tuple[str, str]]]


def counter(*, cl100k: bool) -> Count:
    """Return a counter that sums the tokens of a text's lines."""
    count: Count = approximate_tokens
    if cl100k:
        import tiktoken

        encoding = tiktoken.get_encoding("cl100k_base")

        def count(text: str) -> int:
            return len(encoding.encode_ordinary(text))

    of_line = cache(count)
    return lambda text: sum(of_line(line) for line in text.splitlines(keepends=True))


def tokens_of(turns: Iterable[Turn], count: Count) -> int:
    """Tokens of turns in a prompt, each on its own lines."""
    return sum(count(f"{turn.text}\n") for turn in turns)


def recorded_contexts(run: RecordedRun, count: Count) -> Iterator[int]:
    """Tokens of an agent node's recorded text before each of its decisions."""
    for node in run.nodes:
        tokens = 0
        for turn in node.transcript.turns:
            if isinstance(turn, Said):
                yield tokens
            tokens += tokens_of([turn], count)


def pairs_of(transcript: Transcript) -> list[tuple[str, str]]:
    """Actions and observations, without thoughts."""
    return [(skill, saw.text) for skill, saw in transcript.acts if saw.text]


def by_agent_nodes(run: RecordedRun) -> list[Part]:
    """The agent nodes that act, in the order in which they started."""
    parts = []
    for node in run.nodes:
        transcript = node.transcript
        goal = " ".join(transcript.subgoal.split())
        met = bool(transcript.said_turns) and transcript.said_turns[-1].text == "Act: done"
        parts.append((goal, met, pairs_of(transcript)))
    return [part for part in parts if part[2]]


def by_things(run: RecordedRun) -> list[Part]:
    """Cut a flat trajectory after each successful pick up and put down."""
    parts: list[Part] = []
    pairs: list[tuple[str, str]] = []
    for pair in (pair for node in run.nodes for pair in pairs_of(node.transcript)):
        pairs.append(pair)
        action, observation = pair
        if observation.startswith(("You pick up ", "You put down ")):
            parts.append((action, True, pairs))
            pairs = []
    return [*parts, ("go on", False, pairs)] if pairs else parts


def chunked(
    trajectory: Sequence[tuple[str, Sequence[tuple[str, str]]]], start: str, summarise: Callable[[Chunk], str]
) -> Iterator[ChunkMemory]:
    """The memory before each action of a recorded trajectory, with its subgoals as chunks."""
    memory = ChunkMemory(start)
    for subgoal, pairs in trajectory:
        if (finished := memory.current) is not None:
            memory = memory.finish(summarise(finished))
        memory = memory.begin(subgoal)
        for pair in pairs:
            yield memory
            memory = memory.add(*pair)


def contexts(run: RecordedRun, parts: Sequence[Part], way: str, count: Count) -> Iterator[int]:
    """Tokens of the context before each action of a trajectory, for one way of keeping it."""
    first = run.nodes[0].transcript
    head = tokens_of(first.turns[:2], count)
    met = iter([met for _, met, _ in parts])

    def summarise(chunk: Chunk) -> str:
        line = chunk.last_observation
        return line if way == "no summary" else f"{line.rstrip('.')}. Subgoal is {'' if next(met) else 'not '}met."

    trajectory = [(subgoal, pairs) for subgoal, _, pairs in parts]
    if way in ("chunked", "no summary"):
        for memory in chunked(trajectory, first.start.text, summarise):
            yield head + tokens_of(memory.shown(), count)
        return
    kept = head
    for number, (subgoal, pairs) in enumerate(trajectory, 1):
        kept += tokens_of([subgoal_said(number, subgoal)] if way == "subgoals" else [], count)
        for pair in pairs:
            yield kept
            kept += tokens_of(acted(*pair), count)


def mean_and_peak(runs: Iterable[Iterable[int]]) -> tuple[float, float]:
    """Mean over the runs of their mean and of their peak."""
    tokens = [list(one) for one in runs]
    tokens = [one for one in tokens if one]
    return statistics.fmean(map(statistics.fmean, tokens)), statistics.fmean(map(max, tokens))


def compare(title: str, against: tuple[str, tuple[float, float]], *others: tuple[str, tuple[float, float]]) -> None:
    """Print mean and peak, and their ratios to the reference."""
    print(f"\n{title}")
    name, (mean, peak) = against
    print(f"  {name:26} mean {mean:7.0f}          peak {peak:7.0f}")
    for name, (its_mean, its_peak) in others:
        print(f"  {name:26} mean {its_mean:7.0f} {its_mean / mean:8.1%} peak {its_peak:7.0f} {its_peak / peak:8.1%}")


def main() -> None:
    """Read, count, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recordings", type=Path, required=True, help="folder with <variant>.jsonl")
    parser.add_argument("--cl100k", action="store_true", help="count with GPT-4's tokenizer; needs tiktoken")
    given = parser.parse_args()
    count = counter(cl100k=given.cl100k)
    print("tokens: " + ("cl100k_base" if given.cl100k else "approximate_tokens"))
    print(f"claim: {CLAIM}")
    for flat, tree in VARIANTS:
        by_name = {
            name: {run.run: run for run in load_recording(given.recordings / f"{name}.jsonl")} for name in (flat, tree)
        }
        tasks = sorted(by_name[flat].keys() & by_name[tree].keys(), key=str)
        runs = {name: [of_task[task] for task in tasks] for name, of_task in by_name.items()}
        rows = [(name, mean_and_peak(recorded_contexts(run, count) for run in runs[name])) for name in (flat, tree)]
        compare(f"tree: {tree} against {flat}, {len(tasks)} tasks, tokens per decision", *rows)
        for name, cut in ((tree, by_agent_nodes), (flat, by_things)):
            cuts = [(run, cut(run)) for run in runs[name]]
            ways = {"everything": "everything", "chunked": "chunked", "chunked, no summary": "no summary"}
            ways |= {"subgoals, nothing hidden": "subgoals"}
            rows = [
                (title, mean_and_peak(contexts(run, parts, way, count) for run, parts in cuts))
                for title, way in ways.items()
            ]
            number = statistics.fmean(len(parts) for _, parts in cuts)
            where = "agent nodes" if cut is by_agent_nodes else "things picked up and put down"
            compare(f"chunks: {name} by {where} ({number:.1f} per run), tokens per action", *rows)


if __name__ == "__main__":
    main()
