"""Task files in the WAH-NL JSON schema: read, checked, refused with the path inside the document."""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from reactree_ros.agent.text import same_words
from reactree_ros.errors import UserError
from reactree_ros.files.read_back import bytes_of, parse_json
from reactree_ros.household.vocabulary import CLASSES, NEVER_OPEN, ObjectClass, class_in_graph
from reactree_ros.plugins.settings import fault_of

AGENT_CLASS = "character"
ROOMS = "Rooms"
_NAME = re.compile(r"[^\W_]+(?:[ '’./-]{1,2}[^\W_]+)*")
#: Most characters of a name.
_LONGEST = 60


def _is_name(text: str) -> str:
    if len(text) > _LONGEST or not _NAME.fullmatch(text):
        raise ValueError(
            "a name is words of letters and digits, with spaces between them, e.g. 'kitchen table 1', 'office 2B' or "
            f"'Anna', of at most {_LONGEST} characters"
        )
    return text


_CLASS = re.compile(r"[a-z]+(?:[_-]?[a-z]+)*|[A-Z][a-z]+")
_WRITE = "write it in small letters, such as floor_lamp"
#: What people call one thing, room or person.
Name = Annotated[str, AfterValidator(_is_name)]
_NUMBERED = re.compile(r"(\D*[^\W\d_]) ([1-9]\d{0,8})")


def parts_of(name: str) -> tuple[str, int]:
    """Return the word and the number of a name; a name without a number is a word of its own, with number 0."""
    match = _NUMBERED.fullmatch(name)
    return (match[1], int(match[2])) if match else (name, 0)


class _Document(BaseModel):
    # Files of users contain more than is used here (bounding boxes, prefab names, …).
    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)


class Node(_Document):
    """A thing or a room of a scene graph; with a `name` of its own, such as ``office 2B``, it has no number."""

    id: int
    class_name: str
    category: str
    properties: list[str]
    states: list[str]
    name: Name | None = None

    @property
    def known(self) -> ObjectClass:
        return class_in_graph(self.class_name, self.category, self.properties)

    @property
    def contains(self) -> bool:
        """Whether things can be inside it; the simulator's INSIDE also puts a curtain inside a curtain."""
        return "CONTAINERS" in self.properties


class Edge(_Document):
    """A relation of a scene graph: INSIDE, ON, CLOSE; others are ignored."""

    from_id: int
    relation_type: str
    to_id: int


class Graph(_Document):
    nodes: Annotated[list[Node], Field(min_length=1)]
    edges: list[Edge]

    def called(self, names: Mapping[str, str]) -> dict[int, tuple[str, int]]:
        """Return the word and the number of each thing, by id: of its own name, or counted in its class."""
        numbers: Counter[str] = Counter()
        found = {}
        for node in sorted(self.nodes, key=lambda node: node.id):
            word = names.get(node.class_name, node.known.word)
            numbers[word] += node.name is None
            found[node.id] = parts_of(node.name) if node.name else (word, numbers[word])
        return found


class Quirks(_Document):
    """Skills that a recorded simulator reported as done although nothing changed."""

    grab_no_effect: list[int] = []  # ids of things that could not be picked up
    put_no_effect: list[Annotated[tuple[int, str], Field(strict=False)]] = []  # a thing's id, and a receptacle's class
    open_no_effect: list[int] = []


@dataclass(frozen=True)
class GoalCondition:
    """One goal condition, e.g. ``on_apple_coffeetable``: 1."""

    relation: str  # ``on``, ``inside`` or ``turnOn``
    item: str  # class of the thing to move; empty for ``turnOn``
    target: str  # class of the receptacle, or of the thing to turn on
    count: int  # number of instances wanted


class Task(_Document):
    """A household task: an instruction, its goal and the house at its start.

    ``names`` has the classes that this house calls by another name than the vocabulary's word.
    """

    task_id: int
    task_name: str
    nl_instructions: Annotated[list[Annotated[str, Field(min_length=1)]], Field(min_length=1)]
    task_goal: Annotated[dict[str, Annotated[int, Field(ge=0)]], Field(min_length=1)]
    env_id: int
    init_room: str
    init_graph: Graph
    recorded_quirks: Quirks = Quirks()
    names: dict[str, Annotated[str, Field(pattern=r"^[a-z]+( [a-z]+)*$", max_length=40)]] = {}

    @property
    def instruction(self) -> str:
        return self.nl_instructions[0]

    @property
    def house(self) -> str:
        """Name of the house, which several tasks may share; houses of different files may have the same."""
        return f"env {self.env_id}"

    def word_of(self, class_name: str) -> str:
        return self.names.get(class_name, CLASSES[class_name].word)

    def asks_for(self, instruction: str) -> bool:
        """Return whether an instruction is one of the task's own; case, spaces and final full stops do not matter."""
        return any(same_words(instruction, own) for own in self.nl_instructions)

    @cached_property
    def goal(self) -> tuple[GoalCondition, ...]:
        return conditions_of(self.task_goal)


def conditions_of(goal: Mapping[str, int]) -> tuple[GoalCondition, ...]:
    return tuple(_condition(key, count) for key, count in goal.items() if count)


def load_tasks(path: str | Path) -> list[Task]:
    """Read a task file: a list of tasks, or one task.

    Raises:
        UserError: The file cannot be read, is not JSON, or a task in it is not usable; the message says where.
    """
    content = bytes_of(Path(path))
    try:
        return parse_tasks(parse_json(content))
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    except ValueError as error:
        raise UserError(f"{path}: is not JSON: {error}") from None


def parse_tasks(document: Any) -> list[Task]:
    """Check a decoded task document: a list of tasks, or one task.

    Raises:
        UserError: A task is not usable; the message starts with the path inside the document.
    """
    one = isinstance(document, Mapping)
    try:
        tasks = TypeAdapter(list[Task]).validate_python([document] if one else document)
    except ValidationError as error:
        fault = fault_of(error, list[Task])
        raise UserError(f"{_path(fault.path[1:] if one else fault.path)}: {fault.with_value}") from None
    if not tasks:
        raise UserError("$: the list of tasks is empty")
    seen: set[int] = set()
    for index, task in enumerate(tasks):
        start: tuple[int | str, ...] = () if one else (index,)
        _check(task, start)
        if task.task_id in seen:
            raise UserError(f"{_path((*start, 'task_id'))}: task_id {task.task_id} occurs twice")
        seen.add(task.task_id)
    return tasks


def _check(task: Task, start: tuple[int | str, ...]) -> None:
    graph = (*start, "init_graph")
    nodes: dict[int, Node] = {}
    for index, node in enumerate(task.init_graph.nodes):
        if node.id in nodes:
            raise UserError(f"{_path((*graph, 'nodes', index, 'id'))}: node id {node.id} occurs twice")
        if not _CLASS.fullmatch(node.class_name):
            raise UserError(
                f"{_path((*graph, 'nodes', index, 'class_name'))}: {node.class_name!r} is not a class; {_WRITE}"
            )
        nodes[node.id] = node
    inside_of: dict[int, int] = {}
    for index, edge in enumerate(task.init_graph.edges):
        for end, node_id in (("from_id", edge.from_id), ("to_id", edge.to_id)):
            if node_id not in nodes:
                raise UserError(f"{_path((*graph, 'edges', index, end))}: no node has the id {node_id}")
        if edge.relation_type == "INSIDE" and nodes[edge.to_id].contains:
            inside_of[edge.from_id] = edge.to_id
            above = edge.to_id
            while above in inside_of and above != edge.from_id:
                above = inside_of[above]
            if above == edge.from_id:
                raise UserError(f"{_path((*graph, 'edges', index))}: node {edge.from_id} is inside itself")
    if not any(node.category == ROOMS and node.class_name == task.init_room for node in nodes.values()):
        raise UserError(f"{_path((*start, 'init_room'))}: the house has no room of class {task.init_room!r}")
    if not any(task.task_goal.values()):
        raise UserError(f"{_path((*start, 'task_goal'))}: every count is 0")
    _check_names(task.names, start)
    _check_own_names(task, (*graph, "nodes"))
    classes = {node.class_name for node in nodes.values()}
    for key, count in task.task_goal.items():
        place = _path((*start, "task_goal", key))
        try:
            condition = _condition(key, count)
        except ValueError as error:
            raise UserError(f"{place}: {error}") from None
        if condition.target not in classes:
            raise UserError(f"{place}: the house has no {condition.target!r}")


def _check_names(names: Mapping[str, str], start: tuple[int | str, ...]) -> None:
    known = Counter(names.get(name, one.word) for name, one in CLASSES.items())
    for name, word in names.items():
        place = _path((*start, "names", name))
        if name not in CLASSES:
            raise UserError(f"{place}: unknown class {name!r}")
        if known[word] > 1:
            raise UserError(f"{place}: two classes are called {word!r}")


def _check_own_names(task: Task, place: tuple[int | str, ...]) -> None:
    times = Counter(
        f"{word} {number or ''}".strip().casefold() for word, number in task.init_graph.called(task.names).values()
    )
    for index, node in enumerate(task.init_graph.nodes):
        if node.name and times[node.name.casefold()] > 1:
            raise UserError(f"{_path((*place, index, 'name'))}: two things are called {node.name!r}")


def _condition(key: str, count: int) -> GoalCondition:
    match = re.fullmatch(r"(?:(on|inside)_([a-z]+)|(turnOn))_([a-z]+)", key)
    if match is None:
        raise ValueError("a goal is written 'on_<class>_<class>', 'inside_<class>_<class>' or 'turnOn_<class>'")
    relation, item, switch, target = match.groups()
    for name in filter(None, (item, target)):
        if name not in CLASSES:
            raise ValueError(f"unknown class {name!r}")
    return GoalCondition(relation or switch, item or "", target, count)


def _path(place: tuple[int | str, ...]) -> str:
    return "$" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place)


#: The share of the things that the goal does not name which are moved.
_OTHERS = 0.3


def moved(task: Task, seed: int) -> Task:
    """Return a task with all things that its goal moves, and some others, at other places of the house.

    A place is one at which something lies at the start. Nothing that the goal moves comes to where it has to be at the
    end, nor to where a search never looks. The same seed moves the same.
    """
    rng = random.Random(f"moved {task.task_id} {seed}")
    nodes = {node.id: node for node in task.init_graph.nodes}
    lies = lying(task.init_graph)
    wanted: dict[str, set[str]] = defaultdict(set)
    for condition in task.goal:
        wanted[condition.item].add(condition.target)
    places = sorted(set(lies.values()))
    for thing in sorted(lies):
        name = nodes[thing].class_name
        fits = [one for one in places if nodes[one[1]].class_name not in wanted.get(name, ())]
        fits = [(relation, at) for relation, at in fits if not out_of_sight(relation, nodes[at].class_name)]
        if fits and (name in wanted or rng.random() < _OTHERS):
            lies[thing] = rng.choice(fits)
    return task.model_copy(update={"init_graph": laid(task.init_graph, lies)})


def lying(graph: Graph) -> dict[int, tuple[str, int]]:
    """Return in or on which piece of furniture each thing lies that can be carried, by their ids."""
    nodes = {node.id: node for node in graph.nodes}
    carried = {id for id, node in nodes.items() if "GRABBABLE" in node.properties}
    found: dict[int, tuple[str, int]] = {}
    for edge in graph.edges:
        at = nodes[edge.to_id]
        if edge.from_id not in carried or edge.to_id in carried or at.category == "Rooms":
            continue
        if edge.relation_type == "ON" or (edge.relation_type == "INSIDE" and at.contains):
            found[edge.from_id] = (edge.relation_type, edge.to_id)
    return found


def out_of_sight(relation: str, name: str) -> bool:
    """Return whether a search never looks in a piece of furniture of a class."""
    return relation == "INSIDE" and name in NEVER_OPEN


def laid(graph: Graph, lies: Mapping[int, tuple[str, int]]) -> Graph:
    """Return the graph with things where they lie, as of :func:`lying`, and close to what stands there."""
    nodes = {node.id: node for node in graph.nodes}
    edges = [edge for edge in graph.edges if edge.from_id not in lies and edge.to_id not in lies]
    room_of = {edge.from_id: edge.to_id for edge in edges if nodes[edge.to_id].category == "Rooms"}
    close: dict[int, list[int]] = defaultdict(list)
    for edge in edges:
        if edge.relation_type == "CLOSE":
            close[edge.from_id].append(edge.to_id)
    at: dict[int, list[int]] = defaultdict(list)
    for thing, (relation, place) in sorted(lies.items()):
        at[place].append(thing)
        if relation == "ON" and place in room_of:
            edges.append(_edge(thing, "INSIDE", room_of[place]))
        edges.append(_edge(thing, relation, place))
    for place in {*close, *at}:
        edges += [_edge(place, "CLOSE", thing) for near in (place, *close[place]) for thing in sorted(at[near])]
    for thing, (_, place) in sorted(lies.items()):
        here = sorted((place, *close[place], *at[place]))
        edges += [_edge(thing, "CLOSE", other) for other in here if other != thing]
    return Graph(nodes=graph.nodes, edges=edges)


def _edge(of: int, relation: str, to: int) -> Edge:
    return Edge(from_id=of, relation_type=relation, to_id=to)
