"""The named servers: whether they answer and accept the key."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from concurrent.futures import wait
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reactree_ros.background.pending import in_a_thread
from reactree_ros.doctor.installation import NOTE, RIGHT, WRONG
from reactree_ros.errors import UserError
from reactree_ros.plugins.installation import Diagnosis, Level

if TYPE_CHECKING:
    from reactree_ros.llm.openai.connection import Connection
    from reactree_ros.llm.openai.refusal import Refused

#: Longest time for all servers together, in seconds.
PATIENCE = 5.0
_NAME_IT = "if it has no list of models, name the model (--model NAME) when you use it"
_NAMED = 3  # models to list


@dataclass(frozen=True)
class Server:
    named_by: str  # the option or file that names it, e.g. ``--base-url``
    base_url: str
    api_key_file: str = ""  # the file with its key; empty takes ``$OPENAI_API_KEY``, or no key
    model: str = ""  # the model to use there; empty takes its first one

    def is_(self, level: Level, state: str, remedy: str = "") -> Diagnosis:
        return Diagnosis(self.named_by, level, state, remedy)


def servers(base_url: str, models: Path | None) -> Iterator[Diagnosis]:
    found = []
    if base_url:
        found.append(Server("--base-url", base_url))
    elif environment := os.environ.get("OPENAI_BASE_URL"):
        found.append(Server("OPENAI_BASE_URL", environment))
    elif models is None:
        yield Diagnosis("server", NOTE, "none is named", "--base-url URL or --models FILE checks one")
    if models is not None:
        try:
            chosen = _chosen(models)
        except UserError as error:
            yield Diagnosis("--models", WRONG, str(error), "correct the file")
            return
        for spec, settings in chosen:
            yield _installed(str(models), spec)
            if "base_url" in type(settings).model_fields:
                more = (getattr(settings, name, "") for name in ("api_key_file", "model"))
                found.append(Server(str(models), settings.base_url, *more))
    asked = []
    for server in found:
        try:
            asked.append((server, _connected(server)))
        except UserError as error:
            yield server.is_(WRONG, str(error), "correct it")
    answers = [in_a_thread(partial(asyncio.run, _asked(*one)), "server") for one in asked]
    wait(answers, PATIENCE)
    for (server, _), answer in zip(asked, answers, strict=True):
        try:
            yield answer.result() if answer.done() else _silent(server)
        except UserError as error:  # an error of the proxy
            yield server.is_(WRONG, str(error), "correct it")


def _chosen(models: Path) -> list[tuple[Any, Any]]:
    # the language models in a file, with their settings; a fallback gives its members
    from reactree_ros.llm.spec import load_models_file, model_from_dict

    spec, settings = load_models_file(models)
    members: Any = settings
    if spec.name != "fallback":
        return [(spec, settings)]
    return [model_from_dict(one, where=f"models.{number}") for number, one in enumerate(members.models)]


def _installed(where: str, spec: Any) -> Diagnosis:
    try:
        spec.check_installed()
    except UserError as error:
        problem, _, remedy = str(error).partition(": ")
        return Diagnosis(where, WRONG, problem, remedy)
    return Diagnosis(where, RIGHT, f"'{spec.name}' is installed")


def _connected(server: Server) -> Connection:
    # as a run would connect; loading the client does not count against the time limit
    from reactree_ros.llm.openai.connection import Connection, read_key, read_url
    from reactree_ros.llm.openai.engine import SPEC

    SPEC.check_installed()
    url, key = read_url(server.base_url), read_key(server.api_key_file)
    connection = Connection(url=url, key=key, retries=0, timeout=PATIENCE)
    connection.name = url
    return connection


async def _asked(server: Server, connection: Connection) -> Diagnosis:
    from reactree_ros.llm.openai.refusal import Refused
    from reactree_ros.llm.port import ServerUnavailable

    try:
        try:
            return _answered(server, connection, await asyncio.wait_for(connection.get("/models"), PATIENCE))
        except Refused as refused:
            return _refused(server, connection, refused)
    except ServerUnavailable as error:
        return server.is_(WRONG, str(error), "start it, or name the right URL")
    except asyncio.TimeoutError:
        return _silent(server)
    finally:
        await connection.close()


def _refused(server: Server, connection: Connection, refused: Refused) -> Diagnosis:
    status, called = refused.status, connection.name
    state = f"{called} answers HTTP {status} when asked for its models"
    if not status:  # not JSON
        return _no_list(server, called)
    if status in (401, 403):
        what = "does not accept the key" if connection.has_key else "requires a key"
        return server.is_(WRONG, f"{called} answers, and {what}", f"set OPENAI_API_KEY or api_key_file; {_NAME_IT}")
    if refused.sends_on:
        return server.is_(WRONG, state, connection.redacted(refused.message))
    if status in (404, 405):  # some servers have no list
        return server.is_(NOTE, state, f"{_NAME_IT}; check its path, too: most end in /v1")
    return server.is_(WRONG, state, f"read its log; {_NAME_IT}")


def _no_list(server: Server, called: str) -> Diagnosis:
    remedy = f"name the URL of an OpenAI-compatible server, e.g. …/v1; {_NAME_IT}"
    return server.is_(WRONG, f"{called} answers, but not with a list of models", remedy)


def _answered(server: Server, connection: Connection, listed: Any) -> Diagnosis:
    try:
        names = [str(one["id"])[:100] for one in listed["data"]]
    except (ValueError, TypeError, KeyError):
        return _no_list(server, connection.name)
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    state = connection.redacted(f"{connection.name} answers; models: {', '.join(names[:_NAMED]) or 'none'}{more}")
    if server.model and server.model not in names:
        remedy = "name one of them, unless `reactree llm check` says that it decides"
        return server.is_(NOTE, f"{state}; {server.model} is not among them", remedy)
    return server.is_(RIGHT, state)


def _silent(server: Server) -> Diagnosis:
    remedy = "check that it is running, and that this machine can reach it"
    return server.is_(WRONG, f"{server.base_url}: no answer within {PATIENCE:g} s", remedy)
