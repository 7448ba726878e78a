"""Decisions of a real engine: one request with a grammar against rounds, a choice, `guidance`, and raw clients.

    python benchmarks/llm.py --data ../shared/data/wah_nl [--guidance PYTHON]

The model is tiny and random. The prompts are recorded ones: `--nodes` agent nodes of different tasks, each with
examples of other tasks up to `--examples` tokens. A random model would always choose the same kind of decision, so each
way is steered to the recorded kind. A thought or subgoal line has as many tokens as the recorded one. The model itself
chooses the skill among all available ones. Each way starts with a cold prefix cache, because a mark begins every
prompt.

- one request: (a), the grammar of the whole decision.
- rounds: (b), the authors' way: select the kind, then generate or select.
- choice: (c), one of the available skills, whatever was recorded.
- guidance: the authors' library and calls, through transformers, in the given interpreter (with `guidance`,
  `transformers` and torch; it cannot be installed with vLLM). It answers one agent node after the other.
- 1 at once, 32 at once: planners that ask at the same time, each for its own agent node.
- computed: prompt tokens per decision without cache. cached: share of prompt tokens from a cache, over all decisions of
  an agent node except its first.
- grammar alone: the same cached prompt and 8 output tokens, with a new grammar each time and without one.
- raw clients: 32 tasks of one asyncio loop that send the same requests with the openai package, alternating with ours.
  Their prompts are cached, so that little hides the cost of our layer.

Needs the engine (`make bench-llm`). In seconds, medians unless stated otherwise.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from reactree_ros.agent.decision import DONE, FAILURE, RECALL
from reactree_ros.agent.grammar import DecisionGrammar
from reactree_ros.agent.prompt import start_turn, system_text
from reactree_ros.agent.text import approximate_tokens
from reactree_ros.agent.transcript import Example, parse_transcript
from reactree_ros.agent.turns import About, Said, Told, Turn
from reactree_ros.household.household import WAH_NL
from reactree_ros.household.symbolic import SymbolicWorld
from reactree_ros.household.tasks import load_tasks
from reactree_ros.llm.decoding import Method
from reactree_ros.llm.engine import Constraint, ConstraintKind, Generated, Generation
from reactree_ros.llm.engine_model import EngineModel, FairQueue
from reactree_ros.llm.openai.engine import OpenAIEngine, OpenAISettings
from reactree_ros.llm.port import Choice, DecisionRequest, prompt_text
from reactree_ros.memory.port import TOKEN_LIMIT

sys.path.insert(0, str(Path(__file__).parents[1] / "test" / "llm"))
from tiny import TinyServer, make_tiny_model

AT_ONCE = 32
WARM = f"one request {AT_ONCE}"  # the mark of a way whose prompts are already cached
LONGEST = 8  # most decisions of an agent node
KINDS = ("Think", "Act", "Expand")


@dataclasses.dataclass(frozen=True)
class Recorded:
    """A recorded decision: its prompt, its text, and the available skills."""

    turns: tuple[Turn, ...]
    said: str
    skills: tuple[str, ...]

    @property
    def kind(self) -> str:
        return self.said.partition(":")[0]

    @property
    def line_tokens(self) -> int:
        """Number of tokens in the free part of the decision."""
        return approximate_tokens(self.said.rpartition("subgoals: ")[2].removeprefix("Think: "))


def recorded_nodes(data: Path, count: int, tokens: int) -> list[list[Recorded]]:
    """One agent node each of some tasks, with its first decisions; every other one ends with an expansion."""
    tasks = {task.task_id: task for task in load_tasks(data / "tasks.json")}
    lines = [json.loads(line) for line in (data / "trajectories" / "reactree_wm.jsonl").open(encoding="utf-8")]
    chosen: dict[int, str] = {}
    for line in lines:
        task, expands = int(line["task_id"]), len(chosen) % 2 == 0
        if line["text"].count("\nAct: ") >= (1 if expands else 6) and ("\nExpand:" in line["text"]) == expands:
            chosen.setdefault(task, line["text"])
    nodes = []
    for task, text in sorted(chosen.items())[:count]:
        others = [line["text"] for line in lines if int(line["task_id"]) != task]
        examples, left = [], tokens
        for example in others[task * 7 :] + others:
            if (left := left - approximate_tokens(example)) < 0:
                break
            examples.append(example)
        world = SymbolicWorld(tasks[task])
        skills = world.available_skills().take()
        own = [DONE, FAILURE, *(RECALL + word for word in world.recallable)]
        start = start_turn(system_text(WAH_NL), list(map(Example.of_text, examples)))
        nodes.append(list(decisions(start, text, (*own, *skills)))[:LONGEST])
    return nodes


def decisions(start: Told, text: str, skills: tuple[str, ...]) -> Iterator[Recorded]:
    turns = (start, *parse_transcript(text).turns)
    for number, turn in enumerate(turns):
        if isinstance(turn, Said):
            yield Recorded(turns[:number], turn.text, skills)


class Steered(OpenAIEngine):
    """Makes a decision of the recorded kind and length; the prompt's id says which decision that is."""

    async def generate(self, generation: Generation) -> Generated:
        kind, tokens = generation.id.split()
        constraint, longest = generation.constraint, generation.max_tokens
        if constraint is None:
            longest = int(tokens)
        if constraint is not None and constraint.kind is ConstraintKind.REGEX:
            constraint = Constraint(constraint.kind, steered(constraint.value, kind))
            longest = int(tokens) + (16 if kind == "Expand" else 40 if kind == "Act" else 2)
        elif constraint is not None and f"{kind}:" in constraint.value:
            constraint, longest = Constraint(constraint.kind, [f"{kind}:"]), 16
        generated = await super().generate(dataclasses.replace(generation, constraint=constraint, max_tokens=longest))
        return dataclasses.replace(generated, finish_reason="stop")  # truncation was intended


def steered(regex: str, kind: str) -> str:
    """The regular expression of a decision, reduced to one kind."""
    kinds = re.split(r"\|(?=Act: \(\?:|Expand:\\n)", regex.removeprefix("(?:").removesuffix(")\\n?"))
    (chosen,) = (one for one in kinds if one.startswith(f"{kind}:"))
    return f"{chosen}\\n?"


@dataclasses.dataclass
class Measured:
    """The measurements of one way."""

    seconds: float
    latencies: list[list[float]]  # by planner, by decision
    replies: list[list[Any]]  # the same

    def rate(self) -> float:
        return sum(map(len, self.latencies)) / self.seconds

    def computed(self) -> float:
        replies = [reply for node in self.replies for reply in node]
        return sum(reply.prompt_tokens - reply.cached_tokens for reply in replies) / len(replies)

    def cached(self) -> float:
        later = [reply for node in self.replies for reply in node[1:]]
        return sum(reply.cached_tokens for reply in later) / sum(reply.prompt_tokens for reply in later)

    def output(self) -> float:
        replies = [reply for node in self.replies for reply in node]
        return sum(reply.output_tokens for reply in replies) / len(replies)


def marked(mark: str, recorded: Recorded) -> tuple[Turn, ...]:
    """The prompt with a mark at its beginning."""
    return (Told(mark, About.SYSTEM), *recorded.turns)


def request(mark: str, recorded: Recorded, planner: int, *, choice: bool) -> DecisionRequest:
    may_say = (
        Choice(tuple(f"Act: {skill}" for skill in recorded.skills)) if choice else DecisionGrammar(recorded.skills)
    )
    return DecisionRequest(
        marked(mark, recorded),
        may_say,
        id=f"{recorded.kind} {recorded.line_tokens}",
        planner=str(planner),
    )


def ask(model: FairQueue, nodes: Sequence[Sequence[Recorded]], at_once: int, mark: str, *, choice: bool) -> Measured:
    """Let planners ask at the same time, each for one agent node after the other."""
    latencies: list[list[float]] = [[] for _ in nodes]
    replies: list[list[Any]] = [[] for _ in nodes]

    def planner(number: int) -> None:
        for recorded in nodes[number]:
            begin = time.perf_counter()
            replies[number].append(model.decide(request(mark, recorded, number, choice=choice)).result(timeout=600))
            latencies[number].append(time.perf_counter() - begin)

    begin = time.perf_counter()
    with ThreadPoolExecutor(at_once) as planners:
        list(planners.map(planner, range(len(nodes))))
    return Measured(time.perf_counter() - begin, latencies, replies)


def model_for(url: str, method: Method | None, at_most: int = AT_ONCE) -> FairQueue:
    model = FairQueue(EngineModel(Steered(OpenAISettings(base_url=url)), method=method, retries=0), at_most)
    model.ready().result(timeout=60)
    return model


async def raw(url: str, nodes: Sequence[Sequence[Recorded]], mark: str) -> Measured:
    """The requests of way (a), sent with the openai package."""
    from openai import AsyncOpenAI

    client = AsyncOpenAI(base_url=url, api_key="none", timeout=600)
    latencies: list[list[float]] = [[] for _ in nodes]

    async def planner(number: int) -> None:
        for recorded in nodes[number]:
            begin = time.perf_counter()
            longest = recorded.line_tokens + {"Expand": 16, "Act": 40, "Think": 2}[recorded.kind]
            grammar = steered(DecisionGrammar(recorded.skills).regex(), recorded.kind)
            await client.completions.create(
                model="tiny",
                prompt=prompt_text(marked(mark, recorded)),
                max_tokens=longest,
                temperature=0,
                seed=0,
                extra_body={"structured_outputs": {"regex": grammar}},
            )
            latencies[number].append(time.perf_counter() - begin)

    begin = time.perf_counter()
    await asyncio.gather(*map(planner, range(len(nodes))))
    seconds = time.perf_counter() - begin
    await client.close()
    return Measured(seconds, latencies, [])


def guidance(python: str, folder: Path, nodes: Sequence[Sequence[Recorded]]) -> tuple[float, float, float]:
    """Results of guidance: decisions per second, computed prompt tokens per decision, cached share."""
    script = Path(__file__).with_name("llm_guidance.py")
    lines = [
        [
            {
                "prompt": prompt_text(one.turns),
                "skills": one.skills,
                "kind": one.kind,
                "line_tokens": one.line_tokens,
            }
            for one in node
        ]
        for node in nodes
    ]
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(lines, file)
        file.flush()
        command = [python, script, folder, file.name]
        done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    if done.returncode:
        raise SystemExit(f"guidance failed:\n{done.stderr[-2000:]}")
    rate, computed, cached = json.loads(done.stdout.splitlines()[-1])
    return rate, computed, cached


async def grammar_alone(url: str, turns: tuple[Turn, ...], skills: int, times: int = 15) -> tuple[float, float]:
    """Seconds with a new grammar of so many skills each time, and without."""
    server = OpenAIEngine(OpenAISettings(base_url=url))
    await server.open()
    plain, constrained = [], []
    for number in range(times):
        names = tuple(f"go to kitchen cabinet {1000 * number + skill}" for skill in range(skills))
        grammar = Constraint(ConstraintKind.REGEX, DecisionGrammar(names).regex())
        for constraint, into in ((None, plain), (grammar, constrained)):
            begin = time.perf_counter()
            await server.generate(Generation(turns, constraint=constraint, max_tokens=8))
            into.append(time.perf_counter() - begin)
    await server.close()
    return statistics.median(constrained[1:]), statistics.median(plain[1:])


def percentile(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(__file__).parents[2] / "shared/data/wah_nl")
    parser.add_argument("--nodes", type=int, default=AT_ONCE, help="agent nodes")
    parser.add_argument("--examples", type=int, default=TOKEN_LIMIT, help="tokens of examples in a prompt")
    parser.add_argument("--alone", type=int, default=4, help="agent nodes of ways that ask one at a time")
    parser.add_argument("--guidance", metavar="PYTHON", help="an interpreter that has guidance and transformers")
    options = parser.parse_args()
    if not options.data.exists():
        raise SystemExit(f"{options.data}: no recorded prompts there; give --data")
    nodes = recorded_nodes(options.data, options.nodes, options.examples)
    every = [one for node in nodes for one in node]
    kinds = ", ".join(f"{sum(one.kind == kind for one in every)} {kind}" for kind in KINDS)
    print(f"{len(nodes)} agent nodes, {len(every)} decisions ({kinds}), {len(every[0].skills)} skills in the first")
    with tempfile.TemporaryDirectory() as folder:
        model = make_tiny_model(Path(folder) / "tiny")
        with TinyServer(model, max_model_len=16384) as server:
            server.wait_until_ready(180)
            compare(server.base_url, nodes, options)
        if options.guidance:
            rate, computed, cached = guidance(options.guidance, model, nodes[: options.alone])
            print(f"{'guidance':12} {1:>8} {rate:12.2f} {computed:10.0f} {cached:8.1%}")


def compare(url: str, nodes: list[list[Recorded]], options: argparse.Namespace) -> None:
    print(
        f"{'way':12} {'at once':>8} {'decisions/s':>12} {'computed':>10} {'cached':>8} {'out':>6} {'p50':>7} {'p99':>7}"
    )
    for at_once, some in ((1, nodes[: options.alone]), (AT_ONCE, nodes)):
        for way, method in (("one request", Method.ONE_REQUEST), ("rounds", Method.ROUNDS), ("choice", None)):
            model = model_for(url, method)
            measured = ask(model, some, at_once, f"{way} {at_once}", choice=method is None)
            model.close()
            flat = [seconds for node in measured.latencies for seconds in node]
            print(
                f"{way:12} {at_once:>8} {measured.rate():12.2f} {measured.computed():10.0f} {measured.cached():8.1%} "
                f"{measured.output():6.1f} {percentile(flat, 0.5):7.3f} {percentile(flat, 0.99):7.3f}"
            )
    for skills in (60, 150, 300):
        constrained, plain = asyncio.run(grammar_alone(url, nodes[0][0].turns, skills))
        print(f"grammar of {skills} skills: {constrained:.3f} s, without {plain:.3f} s: {constrained - plain:.3f} s")
    rates = {"raw": [], "ours": []}
    for _ in range(3):
        rates["raw"].append(asyncio.run(raw(url, nodes, WARM)).rate())
        model = model_for(url, Method.ONE_REQUEST)
        measured = ask(model, nodes, AT_ONCE, WARM, choice=False)
        model.close()
        rates["ours"].append(measured.rate())
    ours, bare = statistics.median(rates["ours"]), statistics.median(rates["raw"])
    print(f"{AT_ONCE} planners: {ours:.2f} decisions/s, raw clients {bare:.2f}: {ours / bare:.1%}")
    acts = max(([one for one in node if one.kind == "Act"] for node in nodes), key=len)
    for at_most in (AT_ONCE, 8):
        model = model_for(url, Method.ONE_REQUEST, at_most)
        measured = ask(model, [acts] * AT_ONCE, AT_ONCE, f"fair {at_most}", choice=False)
        model.close()
        flat = [seconds for node in measured.latencies for seconds in node]
        means = [statistics.mean(node) for node in measured.latencies]
        p50, p99, unfair = percentile(flat, 0.5), percentile(flat, 0.99), max(means) / min(means)
        print(
            f"{AT_ONCE} planners, the same {len(acts)} decisions, {at_most} at once: p50 {p50:.3f} s, p99 {p99:.3f} s"
        )
        print(f"    slowest planner over fastest: {unfair:.2f}")


if __name__ == "__main__":
    main()
