"""Exports records to experiences, agent nodes' texts, training data and pictures."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from reactree_ros.agent.picture import SUFFIXES
from reactree_ros.agent.turns import Said, Turn, render
from reactree_ros.errors import UserError
from reactree_ros.files.whole_file import whole_folder, write_whole
from reactree_ros.llm.chat import chat_messages
from reactree_ros.llm.port import prompt_text
from reactree_ros.memory.experience import End, Experience
from reactree_ros.record.moment import Moment, Node, Request
from reactree_ros.record.reader import Record
from reactree_ros.record.schema import Event, bytes_of_picture
from reactree_ros.tree.goal import closed_turns


def experiences_of(moment: Moment) -> list[Experience]:
    ended = [(node, closed_turns(node.turns, node.lesson), node.end) for node in moment.goal_nodes]
    return [_experience(moment, node, turns, End(end)) for node, turns, end in ended if turns and end is not None]


def texts_of(moment: Moment) -> list[Experience]:
    """Return the text of every goal node that has one, even if the node has no end."""
    # any end will do: it is not written
    return [
        _experience(moment, node, closed_turns(node.turns), End(node.end or "failure"))
        for node in moment.goal_nodes
        if node.turns
    ]


def _experience(moment: Moment, node: Node, turns: tuple[Turn, ...], end: End) -> Experience:
    return Experience(
        subgoal=node.subgoal,
        turns=turns,
        end=end,
        task_id=str(moment.run["task_id"] or 0),
        task_name=moment.run["task_name"],
        decision=node.start,
        depth=node.depth,
    )


def training_lines(record: Record, *, chat: bool) -> Iterator[dict[str, Any]]:
    """Yield a line of training data, with prompt and reply, for each reply that was taken unchanged.

    Refused replies, and replies truncated at their token limit, are left out. As a ``chat`` it is
    ``{"messages": […]}``, which OpenAI's fine-tuning and TRL take; otherwise ``{"prompt": …, "completion": …}``.
    """
    moment, asked = Moment(), list[Request]()
    for event in record.events:
        moment.apply(event)
        if event["e"] == "reply":
            asked.append(moment.requests[event["id"]])
        elif event["e"] in ("decided", "refused"):
            mine = [one for one in asked if one.node == event["node"]]
            asked = [one for one in asked if one.node != event["node"]]
            if mine and event["e"] == "decided":
                yield from _line(mine[-1], chat=chat)


def _line(request: Request, *, chat: bool) -> Iterator[dict[str, Any]]:
    reply, begun = request.reply, request.event.get("begun", "")
    if reply is None or reply.cut:
        return
    said = render(reply.said) if reply.said else reply.text.strip("\n")
    if chat:
        yield {"messages": chat_messages([*request.prompt, Said(f"{begun}{said}")])}
    else:
        yield {"prompt": prompt_text(request.prompt, begun), "completion": said}


def write_training_data(records: Iterable[Record], path: Path, *, chat: bool) -> int:
    lines = [json.dumps(line) for record in records for line in training_lines(record, chat=chat)]
    if not lines:
        raise UserError(f"--out {path}: no decision was taken in these runs, so there is nothing to write")
    write_whole(path, "".join(f"{line}\n" for line in lines))
    return len(lines)


def write_pictures(record: Record, folder: Path) -> int:
    pictures = list(_pictures(record))
    if pictures:
        with whole_folder(folder) as new:
            for name, picture in pictures:
                (new / name).write_bytes(bytes_of_picture(picture))
    return len(pictures)


def _pictures(record: Record) -> Iterator[tuple[str, Event]]:
    step, skill, known = 0, "", dict[str, Event]()
    for event in record.events:
        if event["e"] == "decided":
            step = event["steps"]
        elif event["e"] == "skill":
            skill = event["skill"]
        elif event["e"] == "observation":
            what = skill if event["of"] == "execute" else event["of"]
            pictures = event.get("pictures", ())
            known |= {one["id"]: one for one in pictures if "data" in one}
            for number, picture in enumerate((known[one["id"]] for one in pictures if one["id"] in known), 1):
                words = " ".join((what, picture.get("camera", ""), str(number) if number > 1 else ""))
                name = re.sub("[^a-zA-Z0-9]+", "_", words).strip("_")[:80]
                yield f"{step:03d}_{name}.{SUFFIXES[picture['media']]}", picture
