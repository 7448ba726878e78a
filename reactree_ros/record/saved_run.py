"""Saves a run: every agent node's text as in the recorded files, the tree as JSON and dot, the result."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import py_trees
from py_trees.behaviour import Behaviour

from reactree_ros.agent.turns import About, Told, is_closed, turn_to_dict
from reactree_ros.episode import Episode, EpisodeResult
from reactree_ros.errors import UserError
from reactree_ros.llm.port import Reply
from reactree_ros.memory.experience import End, Experience
from reactree_ros.memory.recorded import export_experiences
from reactree_ros.tree.goal_node import GoalNode


def save_run(episode: Episode, result: EpisodeResult, folder: str | Path) -> None:
    """Write an episode into a new or empty folder.

    The folder then holds ``agent_nodes/`` (one text file an agent node, named as the recordings are),
    ``trajectory.jsonl`` (the same as JSON lines), ``replies.jsonl`` (tokens and seconds of every reply of the model),
    ``tree.json``, ``tree.dot``, ``result.json``, and, of a world that takes them, ``pictures/`` (one a skill).

    Args:
        episode: At its end.
        result: What came of it.
        folder: Where to; made if it does not exist.

    Raises:
        UserError: The folder holds something already.
        OSError: It cannot be written.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise UserError(f"{folder}: is not empty; name a new folder, so that no saved run is lost")
    texts = [
        # Written for its text; how an interrupted agent node would have ended is not among what is written.
        Experience(
            subgoal=node.subgoal,
            turns=tuple(node.turns) if is_closed(node.turns) else (*node.turns, Told("", About.ANSWER)),
            end=node.end or End.FAILURE,
            task_id=str(result.task_id or 0),
            task_name=episode.task_name,
            decision=node.start,
            depth=node.depth,
        )
        for node in episode.context.nodes
        if node.turns
    ]
    export_experiences(texts, folder / "agent_nodes")
    export_experiences(texts, folder / "trajectory.jsonl")
    replies = (
        {"agent_node": index, "decision": decision, **_reply_as_dict(reply)}
        for index, decision, reply in episode.context.replies
    )
    lines = "".join(f"{json.dumps(reply, ensure_ascii=False)}\n" for reply in replies)
    (folder / "replies.jsonl").write_text(lines, encoding="utf-8")
    _write_json(folder / "tree.json", tree_as_dict(episode.root))
    (folder / "tree.dot").write_text(py_trees.display.dot_tree(episode.root).to_string(), encoding="utf-8")
    _write_json(folder / "result.json", dataclasses.asdict(result))
    for step, skill, picture in episode.context.pictures:
        (folder / "pictures").mkdir(exist_ok=True)
        (folder / "pictures" / f"{step:03d}_{re.sub('[^a-zA-Z0-9]+', '_', skill).strip('_')}.png").write_bytes(picture)


def _reply_as_dict(reply: Reply) -> dict[str, Any]:
    values = {field.name: getattr(reply, field.name) for field in dataclasses.fields(reply)}
    return values | {"said": [turn_to_dict(said) for said in reply.said]}


def tree_as_dict(behaviour: Behaviour) -> dict[str, Any]:
    """Return a behaviour and what is under it: name, type, status, feedback message, and more of agent nodes."""
    entry: dict[str, Any] = {
        "name": behaviour.name,
        "type": type(behaviour).__name__,
        "status": behaviour.status.value,
        "feedback_message": behaviour.feedback_message,
    }
    if isinstance(behaviour, GoalNode):
        entry |= {
            "subgoal": behaviour.subgoal,
            "depth": behaviour.depth,
            "start": behaviour.start,
            "end": None if behaviour.end is None else behaviour.end.value,
            "failure": None if behaviour.failure is None else behaviour.failure.kind.value,
        }
    return entry | {"children": [tree_as_dict(child) for child in behaviour.children]}


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
