"""The servers that were named: whether they answer, and take the key."""

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

from reactree_ros.doctor.diagnosis import Diagnosis, Level
from reactree_ros.doctor.probe import all_within
from reactree_ros.errors import UserError
from reactree_ros.llm.port import Wait
from reactree_ros.llm.waiting import SOON, log

if TYPE_CHECKING:
    from reactree_ros.llm.openai.connection import Connection
    from reactree_ros.llm.openai.refusal import Refused

#: Longest time for all servers together, in seconds.
PATIENCE = 5.0
_NAME_IT = "where it has no list of models, name the model (--model NAME) when you use it"
_NAMED = 3  # models that are named


@dataclass(frozen=True)
class Server:
    """A server that was named.

    Attributes:
        named_by: What names it, e.g. ``--base-url``.
        base_url: Its URL as it was given.
        api_key_file: The file with its key; empty: ``$OPENAI_API_KEY``, or none.
        model: The model that is to be used there; empty: its first one.
    """

    named_by: str
    base_url: str
    api_key_file: str = ""
    model: str = ""


def servers(base_url: str, models: Path | None) -> Iterator[Diagnosis]:
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
        yield Diagnosis(
            "server", Level.NOTE, "none is named", "--base-url URL or --models FILE looks whether it answers"
        )
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
        elif isinstance(answer, UserError):  # of the proxy
            yield Diagnosis(server.named_by, Level.WRONG, str(answer), "correct it")
        elif isinstance(answer, Exception):
            raise answer
        else:
            yield _silent(server)


@contextmanager
def _told_soon(servers: list[Server]) -> Iterator[None]:
    """Tell what is waited for, unless it comes soon."""
    waits = Wait(", ".join(server.base_url for server in servers), SOON)
    timer = threading.Timer(SOON, log.warning, ("%s", waits))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _chosen(spec: Any, settings: Any) -> list[tuple[Any, Any]]:
    """Return the language models that a file names, with their settings: of a fallback, those that stand in it."""
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
    """Return the connection by which a run would reach a server; loading its client is not part of any time limit.

    Raises:
        UserError: Its URL or the file of its key is wrong, or its client is not installed.
    """
    from reactree_ros.llm.openai.address import read_key, read_url
    from reactree_ros.llm.openai.connection import Connection
    from reactree_ros.llm.openai.settings import SPEC

    SPEC.check_installed()
    url, key = read_url(server.base_url), read_key(server.api_key_file)
    connection = Connection(url=url, key=key, retries=0, timeout=PATIENCE)
    connection.name = url
    return connection


def _look(server: Server, connection: Connection) -> Diagnosis:
    """Ask a server which models it has.

    Raises:
        UserError: The proxy on the way to it cannot be used.
    """
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
        if server.model and found.level is not Level.RIGHT:  # the model is named, and so it need not be listed
            found = await _chats(server, connection, found)
    except ServerUnavailable as error:
        return Diagnosis(server.named_by, Level.WRONG, str(error), "start it, or name the URL where it is")
    except asyncio.TimeoutError:
        return _silent(server)
    finally:
        await connection.close()
    return found


async def _chats(server: Server, connection: Connection, unlisted: Diagnosis) -> Diagnosis:
    """Ask the model that is named for a word; return what was found before where it does not take that."""
    from reactree_ros.llm.openai.refusal import Refused

    asked: dict[str, dict[str, Any]] = {
        "/chat/completions": {"messages": [{"role": "user", "content": "Hello"}]},
        "/completions": {"prompt": "Hello"},
    }
    for path, body in asked.items():
        try:
            await asyncio.wait_for(connection.post(path, {"model": server.model, "max_tokens": 1, **body}), PATIENCE)
        except Refused as refused:
            if not refused.is_of_the_request:  # what it does not take of this one, a run leaves out
                continue
        said = f"{connection.called} answers; it takes requests for the model {server.model}, which it does not list"
        return Diagnosis(server.named_by, Level.RIGHT, said)
    return unlisted


def _refused(server: Server, connection: Connection, refused: Refused) -> Diagnosis:
    status, called = refused.status, connection.called
    if status in (401, 403):
        said = f"{called} answers, and {'does not accept the key' if connection.has_key else 'wants a key'}"
        return Diagnosis(server.named_by, Level.WRONG, said, f"give it by OPENAI_API_KEY or api_key_file; {_NAME_IT}")
    if not status:  # it is no JSON
        return _no_list(server, called)
    said = f"{called} answers HTTP {status} when asked for its models"
    if status in (404, 405):  # some have no such list
        return Diagnosis(server.named_by, Level.NOTE, said, f"{_NAME_IT}; look at its path, too: most end in /v1")
    return Diagnosis(server.named_by, Level.WRONG, said, f"look into its log; {_NAME_IT}")


def _no_list(server: Server, called: str) -> Diagnosis:
    said = f"{called} answers, but not with a list of models"
    remedy = f"name the URL of an OpenAI-compatible server, e.g. …/v1; {_NAME_IT}"
    return Diagnosis(server.named_by, Level.WRONG, said, remedy)


def _answered(server: Server, connection: Connection, listed: Any) -> Diagnosis:
    try:
        names = [str(one["id"])[:100] for one in listed["data"]]
    except (ValueError, TypeError, KeyError):
        return _no_list(server, connection.called)
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    said = connection.redacted(f"{connection.called} answers; models: {', '.join(names[:_NAMED]) or 'none'}{more}")
    if server.model and server.model not in names:
        return Diagnosis(server.named_by, Level.WRONG, f"{said}; {server.model} is none of them", "name one of them")
    return Diagnosis(server.named_by, Level.RIGHT, said)


def _silent(server: Server) -> Diagnosis:
    said = f"{server.base_url}: no answer within {PATIENCE:g} s"
    return Diagnosis(server.named_by, Level.WRONG, said, "look whether it is up, and this machine may reach it")
