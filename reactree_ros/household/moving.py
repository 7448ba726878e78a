"""Things of a task's house at other places, by chance."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Mapping

from reactree_ros.household.tasks import Edge, Graph, Task
from reactree_ros.household.vocabulary import NEVER_OPEN

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
