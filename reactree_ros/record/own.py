"""Tells a record that this user's own program wrote here from a stranger's: by a keyed digest of its header."""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import os
import secrets
import tempfile
from contextlib import suppress
from pathlib import Path

from reactree_ros.files.whole_file import user_state
from reactree_ros.record.schema import Event

_log = logging.getLogger(__name__)
_LENGTH = 32


def sealed(header: Event) -> Event:
    """Return a header with its digest; without one if no key can be kept for this user alone."""
    digest = _digest(header, make=True)
    return {**header, "seal": digest} if digest else header


def is_own(header: Event) -> bool:
    """Whether this user's own program wrote a header on this machine, and nobody has changed it since."""
    digest = _digest({name: value for name, value in header.items() if name != "seal"})
    return bool(digest) and hmac.compare_digest(digest.encode(), header.get("seal", "").encode(errors="replace"))


def _digest(header: Event, *, make: bool = False) -> str:
    key, machine = _key(make=make), b""
    with suppress(OSError):  # a home may be shared by several
        machine = Path("/etc/machine-id").read_bytes()
    return hmac.digest(key, machine + json.dumps(header, sort_keys=True).encode(), hashlib.sha256).hex() if key else ""


def _key(*, make: bool) -> bytes:
    path = user_state() / "record.key"
    try:
        if make and not path.exists():
            _make(path)
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            key, is_now = file.read(_LENGTH + 1), os.fstat(file.fileno())
    except OSError:
        return b""
    if len(key) == _LENGTH and is_now.st_uid == os.getuid() and not is_now.st_mode & 0o077:
        return key
    _log.warning("%s: is no key that only this user can read; delete it, and a new one is made", path)
    return b""


def _make(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.NamedTemporaryFile(dir=path.parent) as new:
        new.write(secrets.token_bytes(_LENGTH))
        new.flush()
        os.fsync(new.fileno())
        with suppress(FileExistsError):  # another process was first
            os.link(new.name, path)
