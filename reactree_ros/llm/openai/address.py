"""The address of a server, and its key."""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import urlsplit

from reactree_ros.errors import UserError
from reactree_ros.files.secrecy import redacted

#: The error for a URL that holds a key; it does not repeat the URL.
KEY_IN_URL = "base_url: must hold no user, password or query; give a key by OPENAI_API_KEY or api_key_file"


def read_key(file: str) -> str:
    """Return the key in a file, or in ``$OPENAI_API_KEY``; empty if there is none."""
    if not file:
        key = os.environ.get("OPENAI_API_KEY", "").strip()
        if key and not _is_a_key(key):
            raise UserError("$OPENAI_API_KEY: holds no key; a key has neither spaces nor control characters in it")
        return key
    try:
        key = Path(file).expanduser().read_text(encoding="utf-8-sig").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"api_key_file {file}: cannot be read ({getattr(error, 'strerror', None) or error})") from None
    if not _is_a_key(key):
        raise UserError(f"api_key_file {file}: holds no key; one line with the key is needed")
    return key


def _is_a_key(text: str) -> bool:
    return re.fullmatch("[!-~]+", text) is not None


def may_hold_a_key(base_url: str) -> bool:
    """Return whether a URL has a part that may hold a key."""
    return "@" in base_url or "?" in base_url


def read_url(base_url: str) -> str:
    """Return the URL of a server: the given one, or ``$OPENAI_BASE_URL``; ``/v1`` is added if it has no path."""
    base_url = base_url or os.environ.get("OPENAI_BASE_URL", "")
    if not base_url:
        raise UserError("llm 'openai' needs a base URL, e.g. http://127.0.0.1:8000/v1 (or set OPENAI_BASE_URL)")
    if may_hold_a_key(base_url):
        raise UserError(KEY_IN_URL)
    try:
        parts = urlsplit(base_url)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    sound = parts.scheme in ("http", "https") and parts.hostname and port != 0 and not re.search(r"\s|#", base_url)
    if not sound:
        raise UserError(
            f"base_url {redacted(base_url)!r}: is no URL of a server; it looks like http://127.0.0.1:8000/v1"
        )
    return base_url.rstrip("/") if parts.path.strip("/") else f"{parts.scheme}://{parts.netloc}/v1"
