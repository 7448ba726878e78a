"""Records for the tests of the page: of runs that are carried out here, and made up by hand."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from reactree_ros.episode import Episode, EpisodeResult
from reactree_ros.llm.port import LanguageModel
from reactree_ros.llm.spec import MODELS, make_model
from reactree_ros.planners.spec import planner
from reactree_ros.record.writer import Recorder, RecordFile
from reactree_ros.view.steering import Steering
from reactree_ros.world.port import World
from reactree_ros.world.spec import WORLDS, Place

DEMO = "Put 1 pudding and 1 apple on the coffee table"


def origin_of(url: str) -> str:
    """Return the server of a page's address, as browsers write it."""
    return f"http://{urlsplit(url).netloc}"


def token_of(url: str) -> str:
    """Return the token in a page's address."""
    return parse_qs(urlsplit(url).query)["token"][0]


def cookie_of(url: str) -> str:
    """Return the cookie that a browser has after it opened a page's address."""
    return f"reactree_token_{urlsplit(url).port}={token_of(url)}"


def expert() -> LanguageModel:
    spec = MODELS.get("expert")
    return make_model(spec, spec.settings())


def household(**settings: Any) -> World:
    spec = WORLDS.get("virtualhome")
    place = Place.from_settings(spec, spec.settings(**settings))
    task, _ = place.choose(DEMO, by_number=False)
    return place.make(task, scored=True)


def recorder(path: Path) -> Recorder:
    file = RecordFile(path)
    about = {"world": {"name": "virtualhome", "settings": {}}, "llm": {"llm": "expert"}}
    return Recorder(file.write, flush=file.flush, **about)


def demo(path: Path, *, name: str = "reactree_wm", model: LanguageModel | None = None, **given: Any) -> Episode:
    """The demo's episode, which writes itself down."""
    values: dict[str, Any] = {"world": household(), "record": recorder(path), "task_id": 1}
    return Episode(DEMO, model=model or expert(), planner=planner(name), **(values | given))


@dataclass
class Live:
    """A run that goes on in a thread, and the page on which it is steered."""

    episode: Episode
    steering: Steering
    record: Path
    url: str
    thread: threading.Thread
    results: list[EpisodeResult]

    def result(self) -> EpisodeResult:
        self.thread.join(60)
        (result,) = self.results
        return result


class Lines:
    """Appends events to a record, a quarter of a second apart."""

    def __init__(self, path: Path, instruction: str, **header: Any) -> None:
        self.path = path
        self._file = path.open("w", encoding="ascii")
        self._events = 0
        about = {"instruction": instruction, "task_id": None, "task_name": "instruction", "parent": None}
        named = {"planner": {"name": "reactree", "options": {}}, "world": {}, "llm": {}, "household": {}}
        limits = {"limits": {"decisions": 200, "steps": 100}, "options": {}, "versions": {}, "recallable": []}
        first = {"schema": 1, "id": path.stem, "started": "2026-01-02T03:04:05+00:00", "working_memory": False}
        self.add("run", **(first | about | named | limits | header))

    @classmethod
    def of_root(cls, folder: Path) -> Lines:
        """Begin a record with the root's agent node."""
        lines = cls(folder / "run.jsonl", "root")
        node = {"node": 0, "parent": None, "kind": "agent", "name": "root", "subgoal": "root"}
        lines.add("grow", nodes=[node])
        return lines

    def add(self, kind: str, /, **values: Any) -> None:
        event = {"e": kind} | values | {"t": self._events / 4}
        self._file.write(json.dumps(event, separators=(",", ":")) + "\n")
        self._file.flush()
        self._events += 1

    def end(self, **result: Any) -> None:
        status = "success" if result.get("end", "done") == "done" else "failure"
        done = {"end": "done", "status": status, "gsr": None, "message": "", "seconds": self._events / 4}
        self.add("end", result=done | result, failures=[])
        self._file.close()


def deep(path: Path, agents: int) -> None:
    """Write a run of agent nodes each of which expands into the next one, which still runs."""
    lines = Lines(path, "Go deeper")
    nodes: list[dict[str, Any]] = []
    for number in range(2 * agents - 1):
        kind = "sequence" if number % 2 else "agent"
        name = kind if number % 2 else f"go {number // 2 + 1} deep"
        one = {"node": number, "parent": number - 1 if number else None, "kind": kind, "name": name}
        nodes.append(one if number % 2 else one | {"subgoal": name, "depth": number + 1})
    for at, node in enumerate(nodes):
        lines.add("grow", nodes=[node])
        lines.add("status", of=[[at, "running"]])
    lines.add("started", node=len(nodes) - 1, index=0, decision=1)
    lines.add("turn", node=len(nodes) - 1, told="Your task is to: go deep", about="task")


def parted_run(path: Path) -> Path:
    """Write a run that ended out of decisions: of its four branches one is done, one failed, two never began.

    Decision 2 is refused, decision 3 slow, decision 5 took many tokens.
    """
    prices = {"price_input": 2.0, "price_cached": 0.0, "price_output": 10.0}
    lines = Lines(path, "Tidy up", limits={"decisions": 6, "steps": 9}, options=prices)
    names = ["Tidy up", "parallel", "bring the wine", "bring the milk", "bring the plate", "bring the cup"]
    names += ["sequence", "find the wine", "put the wine down", "sequence", "find the milk", "put the milk down"]
    parents = [None, 0, 1, 1, 1, 1, 2, 6, 6, 3, 9, 9]

    def grow(*numbers: int) -> None:
        nodes = []
        for number in numbers:
            flow = names[number] in ("parallel", "sequence")
            one = {"node": number, "parent": parents[number], "kind": names[number] if flow else "agent"}
            nodes.append(
                one
                | {"name": names[number]}
                | ({"policy": "majority"} if number == 1 else {} if flow else {"subgoal": names[number], "depth": 1})
            )
        lines.add("grow", nodes=nodes)

    begun: list[int] = []

    def begin(number: int, *flows: int) -> None:
        lines.add("started", node=number, index=len(begun), decision=len(begun) + 1)
        lines.add("status", of=[[one, "running"] for one in (*flows, number)])
        begun.append(number)

    def decide(node: int, number: int, said: str, *, tokens: int = 100, took: float = 1.0, refused: str = "") -> None:
        lines.add("request", node=node, id=f"{node}.{number}", turns=[0, 1], may_say={"kind": "decision", "skills": 2})
        cost = {"prompt_tokens": tokens, "output_tokens": 10, "seconds": took}
        lines.add("reply", node=node, id=f"{node}.{number}", text=said, **cost)
        decision = {said.partition(": ")[0].lower(): said.partition(": ")[2]}
        if refused:
            lines.add("refused", node=node, said=said, reason=refused, decisions=number, steps=0)
        else:
            lines.add("decided", node=node, **decision, decisions=number, steps=0)
        lines.add("turn", node=node, said=said, **decision)

    grow(0)
    begin(0)
    decide(0, 1, "Think: four things are to be brought")
    grow(1, 2, 3, 4, 5)
    grow(6, 7, 8)
    begin(2, 1)
    begin(7, 6)
    decide(7, 2, "Act: fly to the moon", refused="You cannot fly.")
    decide(7, 3, "Act: go to the kitchen", took=9.0)
    lines.add("turn", node=7, saw="You see a bottle of wine beside the sink.")
    lines.add("status", of=[[7, "success"]])
    begin(8)
    decide(8, 4, "Act: put down wine 1")
    lines.add("status", of=[[8, "success"], [6, "success"], [2, "success", "sequence ended in success"]])
    grow(9, 10, 11)
    begin(3)
    begin(10, 9)
    decide(10, 5, "Think: where may the milk be?", tokens=900)
    decide(10, 6, "Think: I cannot find the milk.")
    lines.add("status", of=[[10, "failure", "failure"], [9, "failure"], [3, "failure", "sequence ended in failure"]])
    lines.add("status", of=[[4, "", "Max decisions"], [5, "", "Max decisions"], [1, "success"], [0, "success"]])
    undone = ["'bring the milk' failed: I cannot find the milk.", "'bring the plate' was not reached"]
    counts = {"decisions": 6, "steps": 0, "agent_nodes": 6, "branches": 4, "branches_done": 1}
    lines.end(end="out_of_decisions", reason="all of the 6 decisions are used up", undone=undone, **counts)
    return path


class Wide:
    """A run of many agent nodes, written piece by piece: each expands into three until there are enough."""

    def __init__(self, path: Path, agents: int) -> None:
        self._lines = Lines(path, "Tidy up the whole house", limits={"decisions": 4 * agents, "steps": 2 * agents})
        self._lines.add("text", id=0, turns=[{"told": "You are a household robot.", "about": "system"}])
        self._agents = agents
        self._nodes = self._started = self._decisions = self._steps = 0
        self._expanded: list[tuple[int, int]] = []

    def write(self) -> None:
        for _ in self.pieces():
            pass

    def pieces(self) -> Iterator[None]:
        """Write a node's part of the run each time that the next is asked for."""
        waiting, made = [self._behaviour(None, "agent", "Tidy up the whole house", 1)], 1
        self._lines.add("grow", nodes=waiting)
        while waiting:
            node = waiting.pop(0)
            self._begin(node)
            if made < self._agents:
                count = min(3, self._agents - made)
                waiting += self._expand(node, count)
                made += count
            else:
                self._finish(node)
            yield
        for number, flow in reversed(self._expanded):
            self._lines.add("ended", node=number, end="expand", failure=None, feedback="")
            self._lines.add("status", of=[[flow, "success"], [number, "success", "sequence ended in success"]])
        self._lines.end(decisions=self._decisions, steps=self._steps, agent_nodes=self._agents)

    def _behaviour(self, parent: int | None, kind: str, name: str, depth: int) -> dict[str, Any]:
        one = {"node": self._nodes, "parent": parent, "kind": kind, "name": name}
        self._nodes += 1
        return one | ({"subgoal": name, "depth": depth} if kind == "agent" else {})

    def _begin(self, node: Mapping[str, Any]) -> None:
        add, number = self._lines.add, node["node"]
        add("started", node=number, index=self._started, decision=self._decisions + 1)
        add("status", of=[[number, "running"]])
        self._started += 1
        add("turn", node=number, told=f"Your task is to: {node['subgoal']}", about="task")
        add("turn", node=number, saw="You are in the kitchen, and you see a table and a fridge.")

    def _decide(self, node: Mapping[str, Any], said: str, *, counts: bool = True, **decision: Any) -> None:
        add, number = self._lines.add, node["node"]
        request = f"{number}.{self._decisions}"
        add("request", node=number, id=request, start=0, turns=[0, 2], may_say={"kind": "decision", "skills": 3})
        add("reply", node=number, id=request, text=said, prompt_tokens=900, cached_tokens=850, output_tokens=12)
        self._decisions += counts
        add("decided", node=number, **decision, decisions=self._decisions, steps=self._steps)
        add("turn", node=number, said=said, **decision)

    def _expand(self, node: Mapping[str, Any], count: int) -> list[dict[str, Any]]:
        subgoals = [f"find and put away object {self._nodes + number} of the room" for number in range(count)]
        kind = ("sequence", "fallback", "parallel")[self._nodes % 3]
        self._decide(node, f"Expand:\n- control flow: {kind}", expand=kind, subgoals=subgoals)
        flow = self._behaviour(node["node"], kind, kind, 0)
        children = [self._behaviour(flow["node"], "agent", goal, node["depth"] + 2) for goal in subgoals]
        self._lines.add("grow", nodes=[flow, *children])
        self._lines.add("status", of=[[flow["node"], "running"]])
        self._expanded.append((node["node"], flow["node"]))
        return children

    def _finish(self, node: Mapping[str, Any]) -> None:
        add, number = self._lines.add, node["node"]
        word = "failure" if number % 7 == 0 else "done"
        status = "failure" if word == "failure" else "success"
        self._steps += 1
        self._decide(node, "Act: open fridge 1", act="open fridge 1")
        add("skill", node=number, skill="open fridge 1")
        seen = [{"word": "apple", "instance": number % 9 + 1, "room": "kitchen 1", "place": "fridge 1"}]
        add("observation", node=number, of="execute", text="You open fridge 1.", outcome="done", seen=seen)
        add("turn", node=number, saw="You open fridge 1.")
        self._decide(node, f"Act: {word}", counts=False, act=word)
        add("ended", node=number, end=status, failure=None, feedback=word)
        add("status", of=[[number, status, word]])
