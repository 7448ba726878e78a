"""The state of a run at a moment: its tree, its nodes' turns, known things, budgets and tokens."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from reactree_ros.agent.observation import GONE, Seen
from reactree_ros.agent.skill import Offered
from reactree_ros.agent.turns import Turn, turn_from_dict
from reactree_ros.llm.port import Reply
from reactree_ros.record.reader import RecordError
from reactree_ros.record.schema import Event, skills_after, value_from_dict
from reactree_ros.record.verdict import Verdict, verdict_of

#: The policy of a parallel whose children run at the same time.
CONCURRENT = "concurrent"


@dataclass
class Request:
    node: int  # who asked
    event: Event
    prompt: tuple[Turn, ...]  # the turns of its prompt
    decision: int  # decisions counted before the request
    reply: Reply | None = None  # the reply; None if none has come
    took: Reply | None = None  # what it took if it failed; None if that is unknown


@dataclass
class Node:
    number: int
    parent: int | None  # that of the one above; None for the root
    kind: str  # ``agent``, ``goal``, ``sequence``, ``fallback``, ``parallel`` or ``skill``
    name: str
    subgoal: str = ""  # the goal of a goal node
    depth: int = 1  # the depth of a goal node; the root is 1
    policy: str = ""  # of a parallel
    robot: str = ""  # the robot of this subtree, if there are several; empty: that of the behaviour above
    children: list[int] = field(default_factory=list)  # their numbers, in order
    status: str = ""  # ``running``, ``success``, ``failure`` or ``interrupted``; empty: it has not run
    feedback: str = ""  # what it says of its status
    index: int | None = None  # its place in the order of starts; None before, and if it is not a goal node
    start: int = 0  # decision count at its start, from 1
    turns: list[Turn] = field(default_factory=list)  # what it was told, said and saw
    end: str | None = None  # how it ended, for episodic memory
    failure: Event | None = None  # why it failed
    lesson: list[Turn] | None = None  # the turns that are an example for others; None: all of them
    examples: list[Event] = field(default_factory=list)  # the experiences that it was shown
    pictures: dict[int, list[Event]] = field(default_factory=dict)  # those that came with a turn, by its number


@dataclass
class Moment:
    """A run after its first ``count`` events; applying events one by one gives every moment of the run."""

    count: int = 0  # how many events
    time: float = 0.0  # seconds since the start
    run: Event = field(default_factory=dict)  # what the run is
    nodes: dict[int, Node] = field(default_factory=dict)  # the behaviours by number, in the order of their appearance
    started: list[int] = field(default_factory=list)  # numbers of the goal nodes that started, in order
    active: int | None = None  # number of the goal node that something happened at last; None before the first
    requests: dict[str, Request] = field(default_factory=dict)  # what the model was asked, by id, in order
    texts: dict[int, tuple[Turn, ...]] = field(default_factory=dict)  # starts of prompts by number
    skills: dict[str, list[Offered]] = field(default_factory=dict)  # of each robot; a single robot's name is empty
    known: dict[tuple[str, int], Seen] = field(default_factory=dict)  # things that were seen, by word and instance
    rooms: tuple[str, ...] = ()  # rooms that are known
    decisions: int = 0  # decisions taken
    steps: int = 0  # steps taken
    prompt_tokens: int = 0  # tokens of all prompts
    cached_tokens: int = 0  # how many of them a prefix cache served
    held: str = ""  # why the run holds; empty: it does not
    result: Event | None = None  # what came of it; None before its end
    pictures: dict[str, str] = field(default_factory=dict)  # the bytes of pictures in base64, by their ids
    _seen: dict[int, list[Event]] = field(default_factory=dict, repr=False)  # of nodes, before the turn that says it

    @classmethod
    def after(cls, events: Iterable[Event]) -> Moment:
        moment = cls()
        for event in events:
            moment.apply(event)
        return moment

    def apply(self, event: Event) -> None:
        """Apply the next event; one of an unknown kind changes nothing, and a broken one is a RecordError."""
        apply = getattr(self, f"_on_{event['e']}", None)
        try:
            self.time = event["t"]
            if "node" in event:
                self.active = event["node"]
            if apply is not None:
                apply(event)
        except (KeyError, IndexError, TypeError, ValueError) as error:
            what = f"{type(error).__name__}: {error}"
            raise RecordError(f"event {self.count} ({event['e']}) of the record cannot be used: {what}") from error
        self.count += 1

    @property
    def verdict(self) -> Verdict:
        return verdict_of(self.result)

    def status_of(self, node: Node) -> str:
        """Return the status that a behaviour is shown with: the root's is the run's, once that has ended."""
        ended = self.result is not None and node.parent is None
        return self.verdict.judgement.status if ended else node.status

    @property
    def root(self) -> Node:
        return self.nodes[0]

    def robot_of(self, node: int) -> str:
        at: int | None = node
        while at is not None:
            if self.nodes[at].robot:
                return self.nodes[at].robot
            at = self.nodes[at].parent
        return ""

    def doer_of(self, node: int) -> str:
        """Name who does something beside others: the robot, or of one robot the subgoal; empty: nobody is beside."""
        at = self.nodes[node].parent
        while at is not None and self.nodes[at].policy != CONCURRENT:
            at = self.nodes[at].parent
        return self.robot_of(node) or ("" if at is None else self.nodes[node].name)

    @property
    def goal_nodes(self) -> list[Node]:
        return [self.nodes[number] for number in self.started]

    # ------------------------------------------------------------------ event by event

    def _on_run(self, event: Event) -> None:
        self.run = event

    def _on_grow(self, event: Event) -> None:
        for values in event["nodes"]:
            more = {name: value for name, value in values.items() if name != "node"}
            node = self.nodes[values["node"]] = Node(values["node"], **more)
            if node.parent is not None:
                self.nodes[node.parent].children.append(node.number)

    def _on_robot(self, event: Event) -> None:
        self.nodes[event["node"]].robot = event["robot"]

    def _on_status(self, event: Event) -> None:
        for number, status, *feedback in event["of"]:
            node = self.nodes[number]
            node.status, node.feedback = status, "".join(feedback)

    def _on_started(self, event: Event) -> None:
        node = self.nodes[event["node"]]
        node.index, node.start, node.turns = event["index"], event["decision"], []
        self.started.append(node.number)

    def _on_retrieved(self, event: Event) -> None:
        self.nodes[event["node"]].examples = event["experiences"]

    def _on_text(self, event: Event) -> None:
        self.texts[event["id"]] = tuple(map(turn_from_dict, event["turns"]))

    def _on_request(self, event: Event) -> None:
        start = self.texts.get(event.get("start", -1), ())
        if "own" in event:
            own: Iterable[Turn] = map(turn_from_dict, event["own"])
        else:
            first, last = event["turns"]
            own = self.nodes[event["node"]].turns[first:last]
        turns = (*start, *own, *map(turn_from_dict, event.get("last", ())))
        self.requests[event["id"]] = Request(event["node"], event, turns, self.decisions)

    def _on_skills(self, event: Event) -> None:
        robot = event.get("robot", "")
        self.skills[robot] = skills_after(self.skills.get(robot, []), event)

    def _on_reply(self, event: Event) -> None:
        self.requests[event["id"]].reply = reply = value_from_dict(Reply, event)
        self._took(reply)

    def _on_failed(self, event: Event) -> None:
        if "took" in event and event.get("id") in self.requests:
            self.requests[event["id"]].took = took = value_from_dict(Reply, event["took"])
            self._took(took)

    def _took(self, reply: Reply) -> None:
        self.prompt_tokens += reply.prompt_tokens or 0
        self.cached_tokens += reply.cached_tokens or 0

    def _on_turn(self, event: Event) -> None:
        node = self.nodes[event["node"]]
        if event.get("anew"):
            node.turns, node.pictures = [], {}
        if "saw" in event and (pictures := self._seen.pop(node.number, None)):
            node.pictures[len(node.turns)] = pictures
        node.turns.append(turn_from_dict(event))

    def _on_decided(self, event: Event) -> None:
        self.decisions, self.steps = event["decisions"], event["steps"]

    _on_refused = _on_decided

    def _on_observation(self, event: Event) -> None:
        self._seen[event["node"]] = event.get("pictures", [])
        self.pictures |= {one["id"]: one["data"] for one in event.get("pictures", ()) if "data" in one}
        if event["of"] == "survey":  # what a planner is told, not what is seen
            return
        self.rooms = tuple(event.get("rooms", ())) or self.rooms
        for values in event.get("seen", ()):
            seen = value_from_dict(Seen, values)
            self.known.pop((seen.word, seen.instance), None)
            if GONE not in seen.states:
                self.known[seen.word, seen.instance] = seen

    def _on_held(self, event: Event) -> None:
        self.held = event["reason"]

    def _on_ended(self, event: Event) -> None:
        node = self.nodes[event["node"]]
        node.end, node.failure, node.feedback = event["end"], event["failure"], event["feedback"]
        node.lesson = [turn_from_dict(turn) for turn in event["lesson"]] if "lesson" in event else None

    def _on_end(self, event: Event) -> None:
        self.result = event["result"]
