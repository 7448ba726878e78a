"""The servers that were named: whether they answer, and take the key."""

from __future__ import annotations

import http.client
import os
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from reactree_ros.doctor.probe import all_within
from reactree_ros.errors import UserError
from reactree_ros.findings import Finding, Verdict
from reactree_ros.read_back import parse_json

#: Longest time for all servers together, in seconds.
PATIENCE = 5.0
_MOST = 1 << 20  # bytes of an answer that are read
_NAMED = 3  # models that are named


@dataclass(frozen=True)
class Server:
    """A server that was named.

    Attributes:
        named_by: What names it, e.g. ``--base-url``.
        base_url: Its URL as it was given.
        api_key_file: The file with its key; empty: ``$OPENAI_API_KEY``, or none.
    """

    named_by: str
    base_url: str
    api_key_file: str = ""


def servers(base_url: str, models: Path | None) -> Iterator[Finding]:
    """Yield whether the servers answer, and what of a file of language models is wrong.

    Args:
        base_url: Of a server; empty: ``$OPENAI_BASE_URL``, if that is set.
        models: A file of language models; None: there is none.
    """
    found = []
    if base_url:
        found.append(Server("--base-url", base_url))
    elif os.environ.get("OPENAI_BASE_URL"):
        found.append(Server("OPENAI_BASE_URL", os.environ["OPENAI_BASE_URL"]))
    elif models is None:
        yield Finding(
            "server", Verdict.NOTE, "none is named", "--base-url URL or --models FILE looks whether it answers"
        )
    if models is not None:
        from reactree_ros.llm.settings import load_models_file

        try:
            spec, settings = load_models_file(models)
            chosen = _chosen(spec, settings)
        except UserError as error:
            yield Finding("--models", Verdict.WRONG, str(error), "correct the file")
            return
        for one, its in chosen:
            yield _installed(str(models), one)
            if "base_url" in type(its).model_fields:
                found.append(Server(str(models), its.base_url, getattr(its, "api_key_file", "")))
    answers = all_within(PATIENCE, [partial(_look, server) for server in found])
    for server, answer in zip(found, answers, strict=True):
        if isinstance(answer, Finding):
            yield answer
        elif isinstance(answer, UserError):
            yield Finding(server.named_by, Verdict.WRONG, str(answer), "correct it")
        elif isinstance(answer, Exception):
            raise answer
        else:
            said = f"{server.base_url}: no answer within {PATIENCE:g} s"
            yield Finding(server.named_by, Verdict.WRONG, said, "look whether it is up, and this machine may reach it")


def _chosen(spec: Any, settings: Any) -> list[tuple[Any, Any]]:
    """Return the language models that a file names, with their settings: of a fallback, those that stand in it."""
    from reactree_ros.llm.settings import model_from_dict

    if spec.name != "fallback":
        return [(spec, settings)]
    return [model_from_dict(one, where=f"models.{number}") for number, one in enumerate(settings.models)]


def _installed(where: str, spec: Any) -> Finding:
    try:
        spec.check_installed()
    except UserError as error:
        said, _, mend = str(error).partition(": ")
        return Finding(where, Verdict.WRONG, said, mend)
    return Finding(where, Verdict.RIGHT, f"'{spec.name}' is installed")


def _look(server: Server) -> Finding:
    """Ask a server which models it has.

    Raises:
        UserError: Its URL, or the file of its key, is wrong.
    """
    from reactree_ros.llm.openai.address import read_key, read_url

    url, key = read_url(server.base_url), read_key(server.api_key_file)
    request = urllib.request.Request(f"{url}/models", headers={"Accept": "application/json"})
    if key:
        request.add_unredirected_header("Authorization", f"Bearer {key}")  # to this server and to no other one
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            body = answer.read(_MOST)
    except urllib.error.HTTPError as error:
        return _refused(server, url, error.code, has_key=bool(key))
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        said = f"{url} cannot be reached ({reason or type(error).__name__})".replace(key or "\0", "***")
        return Finding(server.named_by, Verdict.WRONG, said, "start it, or name the URL where it is")
    return _answered(server, url, body, key)


def _refused(server: Server, url: str, status: int, *, has_key: bool) -> Finding:
    if status in (401, 403):
        said = f"{url} answers, and does not accept the key" if has_key else f"{url} answers, and wants a key"
        return Finding(server.named_by, Verdict.WRONG, said, "give it by OPENAI_API_KEY or api_key_file")
    said = f"{url} answers HTTP {status} when asked for its models"
    if status in (404, 405):  # some have no such list
        return Finding(server.named_by, Verdict.NOTE, said, "look at its path: most end in /v1")
    return Finding(server.named_by, Verdict.WRONG, said, "look into its log")


def _answered(server: Server, url: str, body: bytes, key: str) -> Finding:
    try:
        names = [str(one["id"])[:100] for one in parse_json(body)["data"]]
    except (ValueError, TypeError, KeyError):
        said = f"{url} answers, but not with a list of models"
        return Finding(server.named_by, Verdict.WRONG, said, "name the URL of an OpenAI-compatible server, e.g. …/v1")
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    said = f"{url} answers; models: {', '.join(names[:_NAMED]) or 'none'}{more}".replace(key or "\0", "***")
    return Finding(server.named_by, Verdict.RIGHT, said)
