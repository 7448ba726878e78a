"""The named servers: whether they answer and accept the key."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reactree_ros.doctor.probe import all_within
from reactree_ros.errors import UserError
from reactree_ros.llm.port import Wait
from reactree_ros.llm.waiting import SOON, log
from reactree_ros.plugins.diagnosis import Diagnosis, Level

if TYPE_CHECKING:
    from reactree_ros.llm.openai.connection import Connection
    from reactree_ros.llm.openai.refusal import Refused

#: Longest time for all servers together, in seconds.
PATIENCE = 5.0
_NAME_IT = "if it has no list of models, name the model (--model NAME) when you use it"
_NAMED = 3  # models to list


@dataclass(frozen=True)
class Server:
    """A named server.

    Attributes:
        named_by: The option or file that names it, e.g. ``--base-url``.
    """

    named_by: str
    base_url: str
    api_key_file: str = ""  # the file with its key; empty takes ``$OPENAI_API_KEY``, or no key
    model: str = ""  # the model to use there; empty takes its first one


def servers(base_url: str, models: Path | None) -> Iterator[Diagnosis]:
    """Yield whether the servers answer, and errors in a file of language models."""
    found = []
    if base_url:
        found.append(Server("--base-url", base_url))
    elif os.environ.get("OPENAI_BASE_URL"):
        found.append(Server("OPENAI_BASE_URL", os.environ["OPENAI_BASE_URL"]))
    elif models is None:
        yield Diagnosis("server", Level.NOTE, "none is named", "--base-url URL or --models FILE checks one")
    if models is not None:
        from reactree_ros.llm.settings import load_models_file

        try:
            spec, settings = load_models_file(models)
            chosen = _chosen(spec, settings)
        except UserError as error:
            yield Diagnosis("--models", Level.WRONG, str(error), "correct the file")
            return
        for one, its in chosen:
            yield _installed(str(models), one)
            if "base_url" in type(its).model_fields:
                more = (getattr(its, name, "") for name in ("api_key_file", "model"))
                found.append(Server(str(models), its.base_url, *more))
    asked = []
    for server in found:
        try:
            asked.append((server, _connected(server)))
        except UserError as error:
            yield Diagnosis(server.named_by, Level.WRONG, str(error), "correct it")
    with _told_soon([server for server, _ in asked]):
        answers = all_within(PATIENCE, [partial(_look, *one) for one in asked])
    for (server, _), answer in zip(asked, answers, strict=True):
        if isinstance(answer, Diagnosis):
            yield answer
        elif isinstance(answer, UserError):  # an error of the proxy
            yield Diagnosis(server.named_by, Level.WRONG, str(answer), "correct it")
        elif isinstance(answer, Exception):
            raise answer
        else:
            yield _silent(server)


@contextmanager
def _told_soon(servers: list[Server]) -> Iterator[None]:
    """Announce a wait, unless it ends soon."""
    waits = Wait(", ".join(server.base_url for server in servers), SOON)
    timer = threading.Timer(SOON, log.warning, ("%s", waits))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _chosen(spec: Any, settings: Any) -> list[tuple[Any, Any]]:
    """Return the language models in a file, with their settings; a fallback gives its members."""
    from reactree_ros.llm.settings import model_from_dict

    if spec.name != "fallback":
        return [(spec, settings)]
    return [model_from_dict(one, where=f"models.{number}") for number, one in enumerate(settings.models)]


def _installed(where: str, spec: Any) -> Diagnosis:
    try:
        spec.check_installed()
    except UserError as error:
        said, _, remedy = str(error).partition(": ")
        return Diagnosis(where, Level.WRONG, said, remedy)
    return Diagnosis(where, Level.RIGHT, f"'{spec.name}' is installed")


def _connected(server: Server) -> Connection:
    """Return the connection that a run would use; loading its client does not count against a time limit."""
    from reactree_ros.llm.openai.connection import Connection, read_key, read_url
    from reactree_ros.llm.openai.settings import SPEC

    SPEC.check_installed()
    url, key = read_url(server.base_url), read_key(server.api_key_file)
    connection = Connection(url=url, key=key, retries=0, timeout=PATIENCE)
    connection.name = url
    return connection


def _look(server: Server, connection: Connection) -> Diagnosis:
    """Ask a server for its models."""
    return asyncio.run(_asked(server, connection))


async def _asked(server: Server, connection: Connection) -> Diagnosis:
    from reactree_ros.llm.openai.refusal import Refused
    from reactree_ros.llm.port import ServerUnavailable

    try:
        try:
            listed = await asyncio.wait_for(connection.get("/models"), PATIENCE)
        except Refused as refused:
            found = _refused(server, connection, refused)
        else:
            found = _answered(server, connection, listed)
        if server.model and found.level is not Level.RIGHT:  # a named model need not be listed
            found = await _chats(server, connection, found)
    except ServerUnavailable as error:
        return Diagnosis(server.named_by, Level.WRONG, str(error), "start it, or name the right URL")
    except asyncio.TimeoutError:
        return _silent(server)
    finally:
        await connection.close()
    return found


async def _chats(server: Server, connection: Connection, unlisted: Diagnosis) -> Diagnosis:
    """Ask the named model for a word; return the earlier finding if it does not accept that."""
    from reactree_ros.llm.openai.refusal import Refused

    asked: dict[str, dict[str, Any]] = {
        "/chat/completions": {"messages": [{"role": "user", "content": "Hello"}]},
        "/completions": {"prompt": "Hello"},
    }
    for path, body in asked.items():
        try:
            await asyncio.wait_for(connection.post(path, {"model": server.model, "max_tokens": 1, **body}), PATIENCE)
        except Refused as refused:
            if not refused.is_of_the_request:  # a run leaves out what the server does not accept here
                continue
        said = f"{connection.name} answers; it accepts requests for the model {server.model}, which it does not list"
        return Diagnosis(server.named_by, Level.RIGHT, said)
    return unlisted


def _refused(server: Server, connection: Connection, refused: Refused) -> Diagnosis:
    status, called = refused.status, connection.name
    if status in (401, 403):
        said = f"{called} answers, and {'does not accept the key' if connection.has_key else 'requires a key'}"
        return Diagnosis(server.named_by, Level.WRONG, said, f"set OPENAI_API_KEY or api_key_file; {_NAME_IT}")
    if not status:  # not JSON
        return _no_list(server, called)
    said = f"{called} answers HTTP {status} when asked for its models"
    if refused.sends_on:
        return Diagnosis(server.named_by, Level.WRONG, said, connection.redacted(refused.message))
    if status in (404, 405):  # some servers have no list
        return Diagnosis(server.named_by, Level.NOTE, said, f"{_NAME_IT}; check its path, too: most end in /v1")
    return Diagnosis(server.named_by, Level.WRONG, said, f"read its log; {_NAME_IT}")


def _no_list(server: Server, called: str) -> Diagnosis:
    said = f"{called} answers, but not with a list of models"
    remedy = f"name the URL of an OpenAI-compatible server, e.g. …/v1; {_NAME_IT}"
    return Diagnosis(server.named_by, Level.WRONG, said, remedy)


def _answered(server: Server, connection: Connection, listed: Any) -> Diagnosis:
    try:
        names = [str(one["id"])[:100] for one in listed["data"]]
    except (ValueError, TypeError, KeyError):
        return _no_list(server, connection.name)
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    said = connection.redacted(f"{connection.name} answers; models: {', '.join(names[:_NAMED]) or 'none'}{more}")
    if server.model and server.model not in names:
        return Diagnosis(server.named_by, Level.WRONG, f"{said}; {server.model} is not among them", "name one of them")
    return Diagnosis(server.named_by, Level.RIGHT, said)


def _silent(server: Server) -> Diagnosis:
    said = f"{server.base_url}: no answer within {PATIENCE:g} s"
    return Diagnosis(server.named_by, Level.WRONG, said, "check that it is running, and that this machine can reach it")
