"""What was found out about a server and its model, remembered in the user's cache folder.

Trials take time and throw the prompt out of the cache of a server with one slot. So what they showed is kept for a
while, by server, model and version. A note may be gone, broken or somebody else's: then the server is tried again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import time
import uuid
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

import reactree_ros
from reactree_ros.errors import UserError
from reactree_ros.files.folders import user_cache
from reactree_ros.files.read_back import checked, read_json
from reactree_ros.files.secrecy import redacted, shown_address
from reactree_ros.files.whole_file import write_whole
from reactree_ros.llm.chat import ChatLayout, Examples
from reactree_ros.llm.decoding import Method
from reactree_ros.llm.engine import ConstraintKind
from reactree_ros.llm.openai.dialects import DIALECTS
from reactree_ros.llm.openai.trials import Thoughts

#: How long a note counts, in seconds: a server may learn what it could not do, and no failure would show that.
KEPT = 7 * 24 * 3600.0
_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Known:
    """What was found out about a model behind a server.

    A further field needs a default, which means that nobody has found it out.

    Attributes:
        chat: Whether prompts are laid out as a chat.
        markers: Whether a marker of its chat template is one token of the model.
        layout: What its chat template accepts.
        thoughts: Where the model leaves its thoughts; None if it showed none.
        dialect: The name of the server's fields for constraints.
        constraints: Constraints that the server obeys.
        examples: How in-context examples stand in its chat, as `reactree llm check` found best.
        method: How to ask for a decision, as that found best, if it is not the best that the server obeys.
        sees: Whether the model sees pictures, as the server says or as it refused one.
    """

    chat: bool | None = None
    markers: bool | None = None
    layout: ChatLayout | None = None
    thoughts: Thoughts | None = None
    dialect: str | None = None
    constraints: frozenset[ConstraintKind] | None = None
    examples: Examples | None = None
    method: Method | None = None
    sees: bool | None = None

    @property
    def is_enough(self) -> bool:
        """Whether the server need not be tried."""
        return self.chat is not None and self.dialect is not None and self.constraints is not None

    def __post_init__(self) -> None:
        if self.dialect is not None and self.dialect not in DIALECTS:
            raise ValueError(f"there is no dialect {self.dialect[:40]!r}")
        if unknown := (self.constraints or frozenset()) - frozenset(DIALECTS.get(self.dialect or "", {})):
            raise ValueError(f"its dialect has no {min(kind.value for kind in unknown)}")


@dataclass(frozen=True, kw_only=True)
class Subject:
    """What something is known of: a change of any field makes it another.

    Attributes:
        address: Base URL of the server.
        model: The server's name of the model.
        version: What tells server and model from later ones at the same address.
        asked: The settings that the findings depend on.
    """

    address: str
    model: str
    version: str
    asked: str

    @property
    def note(self) -> Path:
        """The file; its name tells nothing of an address that may hold a key."""
        said = json.dumps([reactree_ros.__version__, *asdict(self).values()])
        return folder() / f"{hashlib.sha256(said.encode()).hexdigest()}.json"


@dataclass(frozen=True, kw_only=True)
class _Note:
    """The content of a file.

    Attributes:
        found: When the first of it was found out, in seconds since 1970.
    """

    address: str
    model: str
    found: float
    known: Known


def folder() -> Path:
    """Return the folder of the notes."""
    return user_cache() / "known"


def recall(subject: Subject) -> Known:
    """Return what is remembered; nothing if that is too old, or if the note cannot be read, as a warning says."""
    note = _recalled(subject.note)
    return Known() if note is None else note.known


def remember(subject: Subject, **found: Any) -> None:
    """Remember fields of :class:`Known`, beside what is remembered already; if that fails, a warning says so."""
    path = subject.note
    note = _recalled(path)
    if note is None:
        address, model = shown_address(subject.address), redacted(subject.model)
        note = _Note(address=address, model=model, found=time.time(), known=Known())
    content = TypeAdapter(_Note).dump_json(replace(note, known=replace(note.known, **found)), exclude_none=True)
    own = path.with_name(f"{path.stem}-{uuid.uuid4().hex}")  # several processes may write at once
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_whole(own, content)
        own.replace(path)
    except OSError as error:
        _log.warning("%s cannot be written, so what a server can do is not remembered: %s", path, error.strerror)
        with contextlib.suppress(OSError):
            own.unlink(missing_ok=True)


def forget(subject: Subject) -> None:
    """Forget what is remembered of a server and its model."""
    with contextlib.suppress(OSError):  # then it is doubted again
        subject.note.unlink(missing_ok=True)


def forget_all(address: str = "") -> Iterator[str]:
    """Forget everything, or what is remembered of one server; yields what each note was about.

    Raises:
        UserError: A note cannot be removed.
    """
    for path in sorted(folder().glob("*")):
        try:
            note = _read(path)
            where, what = note.address, f"{note.model} at {note.address}"
        except UserError:
            where, what = "", f"{path}, which cannot be read"
        if address and where != shown_address(address):
            continue
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise UserError(f"{path}: cannot be removed: {error.strerror}") from error
        yield what


def _recalled(path: Path) -> _Note | None:
    if not os.path.lexists(path):
        return None
    try:
        note = _read(path)
    except UserError as error:
        _log.warning("%s; it is ignored, and the server is tried again", error)
        return None
    return note if 0 <= time.time() - note.found <= KEPT else None


def _read(path: Path) -> _Note:
    if not path.is_file():  # a pipe would keep the reader waiting
        raise UserError(f"{path}: is no file")
    return read_json(path, "note of what a server can do", lambda values: checked(_Note, values))
