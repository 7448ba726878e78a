"""The answer of a tool as an observation: somebody else's words, with bounds, in which nothing reads as ours."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator
from typing import Any

from reactree_ros.agent.foreign import QUOTE, cleaned
from reactree_ros.agent.observation import Observation, Outcome
from reactree_ros.agent.picture import LARGEST_PICTURE, Picture, picture_of
from reactree_ros.agent.text import bounded

#: The most pictures of one answer that are kept, and the most parts of one that are read.
_MOST_PICTURES, _MOST_PARTS = 4, 1000
#: How much longer a text may be before what cannot be seen of it is left out.
_UNSEEN = 8


def observation_of(server: str, call: str, answer: Any, longest: int) -> Observation:
    """Return what a tool has answered.

    Args:
        longest: The most characters of it that are told.
    """
    pictures: list[Picture] = []
    notes: list[str] = []
    texts = list(_texts(answer.content[:_MOST_PARTS], pictures, notes))
    if not any(map(str.strip, texts)) and answer.structured_content is not None:
        texts = [json.dumps(answer.structured_content, ensure_ascii=False, separators=(",", ":"))]
    said = told(server, "\n".join(texts), longest)
    left_out = f" ({'; '.join(dict.fromkeys(notes))})" if notes else ""
    if answer.is_error:
        return failure(call, f"{said}{left_out}")
    return Observation(f"{said}{left_out}", pictures=tuple(pictures))


def failure(call: str, why: str, outcome: Outcome = Outcome.EXECUTION) -> Observation:
    return Observation(f"You tried to {call}, but {why}", outcome)


def told(server: str, text: str, longest: int) -> str:
    """Return what a server says: in one line behind its name, or each line quoted below it."""
    plain = bounded(cleaned(bounded(text, _UNSEEN * longest)), longest).strip()
    lines = [line for line in plain.split("\n") if line.strip()]
    if not lines:
        return f"{server} says nothing."
    if len(lines) == 1:
        return f"{server} says: {lines[0]}"
    return "\n".join([f"{server} says:", *(f"{QUOTE}{line}" for line in lines)])


def _texts(parts: Any, pictures: list[Picture], notes: list[str]) -> Iterator[str]:
    for part in parts:
        if part.type == "text":
            yield part.text
        elif part.type == "image":
            note = _kept(part.data, pictures)
            notes += [note] if note else []
        elif part.type == "resource" and isinstance(getattr(part.resource, "text", None), str):
            yield part.resource.text
        elif part.type == "resource_link":
            yield f"{part.name}: {part.uri}"
        else:
            notes.append("sound is left out" if part.type == "audio" else "a file is left out")


def _kept(data: str, pictures: list[Picture]) -> str:
    if len(pictures) == _MOST_PICTURES:
        return f"more than {_MOST_PICTURES} pictures are left out"
    try:
        if len(data) > 2 * LARGEST_PICTURE:
            raise ValueError("is too large")
        pictures.append(picture_of(base64.b64decode(data, validate=True)))
    except (ValueError, binascii.Error) as error:
        return f"a picture is left out: {error}"
    return ""
