"""Any server that speaks the OpenAI protocol: vLLM, TGI, llama.cpp, SGLang, Ollama, hosted ones."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from reactree_ros.errors import UserError
from reactree_ros.llm.chat import chat_turns
from reactree_ros.llm.engine import Constraint, ConstraintKind, Engine, Generated, Generation, chosen
from reactree_ros.llm.port import LanguageModelError, PromptTooLong, RequestRejected, ServerUnavailable

_GRAMMAR, _REGEX, _JSON, _CHOICE = (
    ConstraintKind.GRAMMAR,
    ConstraintKind.REGEX,
    ConstraintKind.JSON_SCHEMA,
    ConstraintKind.CHOICE,
)


def _named_schema(schema: Any) -> dict[str, Any]:
    named = {"name": "decision", "strict": True, "schema": schema}
    return {"response_format": {"type": "json_schema", "json_schema": named}}


#: What a server is sent for a constraint, by what the server calls itself (``owned_by`` of its models).
_DIALECTS: Mapping[str, Mapping[ConstraintKind, Callable[[Any], dict[str, Any]]]] = {
    "vllm": {
        _GRAMMAR: lambda value: {"structured_outputs": {"grammar": value}},
        _REGEX: lambda value: {"structured_outputs": {"regex": value}},
        _JSON: lambda value: {"structured_outputs": {"json": value}},
        _CHOICE: lambda value: {"structured_outputs": {"choice": value}},
    },
    "llamacpp": {
        _GRAMMAR: lambda value: {"grammar": value},
        _JSON: lambda value: {"json_schema": value},
    },
    "sglang": {
        _GRAMMAR: lambda value: {"ebnf": value},
        _REGEX: lambda value: {"regex": value},
        _JSON: lambda value: {"json_schema": json.dumps(value)},
    },
    "tgi": {
        _REGEX: lambda value: {"response_format": {"type": "regex", "value": value}},
        _JSON: lambda value: {"response_format": {"type": "json_object", "value": value}},
    },
    "openai": {_JSON: _named_schema},
}
#: Servers that call themselves something else but speak one of the dialects.
_OWNERS = {"library": "openai", "system": "openai", "openai-internal": "openai"}
_WORD = "Zq7kx"  # no model says this of its own accord
_PASSING = (408, 409, 425, 429)
_TRIAL_TOKENS = 32


class OpenAIServer(Engine):
    """Generates by an OpenAI-compatible server.

    What the server obeys is tried out when it is opened: servers are known to ignore a constraint silently. The
    server's key is read from a file or from the environment and appears nowhere else.

    Args:
        base_url: Of the server; ``/v1`` is added where there is no path. Empty: ``$OPENAI_BASE_URL``.
        model: Its name for the model; empty: the first one that it has.
        api_key_file: File with the key; empty: ``$OPENAI_API_KEY``, or none.
        chat: Lay prompts out as turns; None: where the server has a chat template for the model.
        constraints: What the server obeys; None: it is tried out.
        retries: How often a request that failed for a passing reason (connection, 408, 409, 429, 5xx) is sent again,
            with exponential backoff and jitter.
        time_limit: Longest time for one request, in seconds.

    Raises:
        UserError: There is no base URL, it is none, the key's file cannot be read, or ``openai`` is not installed.
    """

    def __init__(
        self,
        *,
        base_url: str = "",
        model: str = "",
        api_key_file: str = "",
        chat: bool | None = None,
        constraints: Iterable[ConstraintKind] | None = None,
        retries: int = 3,
        time_limit: float = 120.0,
    ) -> None:
        if importlib.util.find_spec("openai") is None:
            raise UserError("llm 'openai' needs the openai package: pip install 'reactree_ros[openai]'")
        self._key = _key(api_key_file)
        self._url = _url(base_url or os.environ.get("OPENAI_BASE_URL", ""))
        self._model = model
        self._chat = chat
        self._configured = None if constraints is None else frozenset(constraints)
        self._retries = retries
        self._time_limit = time_limit
        self._dialect: Mapping[ConstraintKind, Callable[[Any], dict[str, Any]]] = _DIALECTS["openai"]
        self._client: Any = None
        self._kind = ""
        self.name = f"the server at {self._url}"

    async def open(self) -> None:
        """Connect: find the model, whether it chats, and what the server obeys."""
        from openai import AsyncOpenAI

        if self._client is None:
            self._client = AsyncOpenAI(
                base_url=self._url,
                api_key=self._key or "none",
                max_retries=self._retries,
                timeout=self._time_limit,
            )
        found = await self._find_model()
        self._model = found["id"]
        owner = str(found.get("owned_by") or "")
        self._kind = _OWNERS.get(owner, owner)
        version = await self._ask_root("/version") if self._kind == "vllm" else None
        what = f"vllm {version.get('version', '')}".strip() if isinstance(version, dict) else owner or "a server"
        self.name = f"{what} at {self._url}"
        self.context = found.get("max_model_len") or (found.get("meta") or {}).get("n_ctx")
        if self._chat is None:
            self._chat = await self._chats()
        await self._find_constraints()

    async def _find_model(self) -> dict[str, Any]:
        answer = await self._send(lambda: self._client.get("/models", cast_to=object))
        try:
            models = {str(one["id"]): one for one in answer["data"]}
        except (TypeError, KeyError):
            raise ServerUnavailable(f"{self.name} lists no models; is its base URL right?") from None
        if not models:
            raise ServerUnavailable(f"{self.name} has no model")
        if self._model and self._model not in models:
            some = ", ".join(list(models)[:5]) + (" …" if len(models) > 5 else "")
            raise RequestRejected(f"{self.name} has no model '{self._model}'; it has {some}")
        return dict(models[self._model or next(iter(models))])

    async def _ask_root(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Ask for something outside of the protocol; None where the server does not know it."""
        root = self._client.with_options(base_url=self._url.removesuffix("/v1"), max_retries=0, timeout=10.0)
        try:
            return await (root.post(path, cast_to=object, body=body) if body else root.get(path, cast_to=object))
        except Exception:
            return None

    async def _chats(self) -> bool:
        try:
            await self._complete(Generation("Hello", max_tokens=_TRIAL_TOKENS), chat=True)
        except RequestRejected:
            return False
        return True

    async def _find_constraints(self) -> None:
        if self._configured is not None:
            self._dialect = _DIALECTS.get(self._kind, _DIALECTS["vllm"])
            unknown = self._configured - frozenset(self._dialect)
            if unknown:
                names = ", ".join(sorted(kind.value for kind in unknown))
                raise RequestRejected(f"{self.name}: cannot be asked for {names}; leave constraints empty")
            self.constraints = self._configured
            return
        for dialect in [_DIALECTS[self._kind]] if self._kind in _DIALECTS else _DIALECTS.values():
            self._dialect = dialect
            obeyed = await asyncio.gather(*map(self._obeys, dialect))
            self.constraints = frozenset(kind for kind, yes in zip(dialect, obeyed, strict=True) if yes)
            if self.constraints:
                return

    async def _obeys(self, kind: ConstraintKind) -> bool:
        """Ask for a word that no model says, and see whether it comes."""
        constraint = Constraint.choice(kind, [_WORD])
        generation = Generation("Say a word: ", constraint=constraint, max_tokens=_TRIAL_TOKENS)
        try:
            return chosen(kind, (await self._complete(generation)).text) == _WORD
        except (RequestRejected, ValueError):
            return False

    async def generate(self, generation: Generation) -> Generated:
        """Ask the server; cancelling closes the connection, at which servers stop."""
        return await self._complete(generation)

    async def _complete(self, generation: Generation, *, chat: bool | None = None) -> Generated:
        chat = bool(self._chat) if chat is None else chat
        extra: dict[str, Any] = {}
        if generation.constraint is not None:
            extra |= self._dialect[generation.constraint.kind](generation.constraint.value)
        limit = "max_completion_tokens" if chat and self._kind == "openai" else "max_tokens"
        body = {
            "model": self._model,
            "temperature": generation.temperature,
            "seed": generation.seed,
            limit: generation.max_tokens,
            **({"top_p": generation.top_p} if generation.top_p < 1 else {}),
            **({"stop": list(generation.stops)} if generation.stops else {}),
        }
        if not chat:
            path = "/completions"
            text: dict[str, Any] = {"prompt": generation.prompt + generation.begun}
        else:
            path = "/chat/completions"
            text = {"messages": chat_turns(generation.prompt, generation.said, generation.begun)}
            if generation.begun:
                extra |= {"continue_final_message": True, "add_generation_prompt": False}
        answer = await self._send(
            lambda: self._client.post(path, cast_to=object, body={**body, **text, **extra}), generation, text
        )
        return self._generated(answer, chat)

    def _generated(self, answer: Any, chat: bool) -> Generated:
        try:
            choice = answer["choices"][0]
            text = (choice["message"]["content"] if chat else choice["text"]) or ""
            usage = answer.get("usage") or {}
            cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens")
            return Generated(
                text=str(text),
                finish_reason=str(choice.get("finish_reason") or "stop"),
                prompt_tokens=usage.get("prompt_tokens"),
                cached_tokens=cached,
                output_tokens=usage.get("completion_tokens"),
            )
        except (AttributeError, IndexError, KeyError, TypeError):
            raise ServerUnavailable(
                f"{self.name} answered with something that is no completion: {self._redacted(repr(answer))[:120]}"
            ) from None

    async def _send(
        self, call: Callable[[], Any], generation: Generation | None = None, text: Mapping[str, Any] | None = None
    ) -> Any:
        """Make a call, with the SDK's retries; whatever fails becomes an error of the port.

        It is raised outside of the handlers, so that the SDK's error, which may hold the key, does not hang on it.
        """
        import openai

        failure: LanguageModelError
        try:
            return await call()
        except openai.APITimeoutError:
            failure = ServerUnavailable(f"{self.name}: no answer within {self._time_limit:g} s")
        except openai.APIConnectionError as error:
            failure = ServerUnavailable(f"{self.name} {self._redacted(_connection_problem(error))}")
        except openai.APIStatusError as error:
            failure = await self._refused(error, generation, text or {})
        except (openai.OpenAIError, ValueError) as error:  # an answer that is no JSON, or is none of the protocol's
            failure = ServerUnavailable(f"{self.name} answered with garbage: {self._redacted(str(error))[:200]}")
        raise failure

    async def _refused(self, error: Any, generation: Generation | None, text: Mapping[str, Any]) -> LanguageModelError:
        message = self._redacted(" ".join(str(_message(error)).split()))[:400]
        if generation is not None and error.status_code in (400, 413, 422) and _is_too_long(error):
            return await self._too_long(str(error.body or message), generation, text)
        if error.status_code in (401, 403):
            return RequestRejected(
                f"{self.name} does not accept the key (HTTP {error.status_code}); set OPENAI_API_KEY or api_key_file"
            )
        problem = f"{self.name} answered HTTP {error.status_code}: {message}"
        passing = error.status_code >= 500 or error.status_code in _PASSING
        return ServerUnavailable(problem) if passing else RequestRejected(problem)

    async def _too_long(self, told: str, generation: Generation, text: Mapping[str, Any]) -> PromptTooLong:
        stated = re.search(r"(?:length|size|limit|n_ctx|<=)\D{0,8}(\d+)", told)
        context = self.context or int(stated[1] if stated else 0)
        counted = await self._ask_root("/tokenize", {"model": self._model, **text}) if self._kind == "vllm" else None
        tokens = counted.get("count") if isinstance(counted, dict) else None
        prompt = tokens or _prompt_tokens(told, generation.max_tokens, context)
        return PromptTooLong(max(1, prompt + generation.max_tokens - context), context)

    def _redacted(self, message: str) -> str:
        return message.replace(self._key, "***") if self._key else message

    async def close(self) -> None:
        """Close all connections."""
        if self._client is not None:
            await self._client.close()
            self._client = None

    def status(self) -> Mapping[str, str]:
        """Say which model answers, and whether prompts are laid out as a chat."""
        return {"model": self._model or "the server's first", "prompts": "chat" if self._chat else "completion"}


def _key(file: str) -> str:
    if not file:
        return os.environ.get("OPENAI_API_KEY", "").strip()
    try:
        key = Path(file).expanduser().read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"api_key_file {file}: cannot be read ({getattr(error, 'strerror', None) or error})") from None
    if not key or not key.isascii() or any(character.isspace() for character in key):
        raise UserError(f"api_key_file {file}: holds no key; one line with the key is needed")
    return key


def _url(base_url: str) -> str:
    if not base_url:
        raise UserError("llm 'openai' needs a base URL, e.g. http://127.0.0.1:8000/v1 (or set OPENAI_BASE_URL)")
    if "@" in base_url or "?" in base_url:  # not to be repeated: it may be a secret
        raise UserError("base_url: must hold no user, password or query; give a key by OPENAI_API_KEY or api_key_file")
    try:
        parts = urlsplit(base_url)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    sound = parts.scheme in ("http", "https") and parts.hostname and port != 0 and not re.search(r"\s|#", base_url)
    if not sound:
        raise UserError(f"base_url {base_url!r}: is no URL of a server; it looks like http://127.0.0.1:8000/v1")
    return base_url.rstrip("/") if parts.path.strip("/") else f"{parts.scheme}://{parts.netloc}/v1"


def _connection_problem(error: BaseException) -> str:
    cause: BaseException | None = error
    while cause is not None and cause.__cause__ is not None:
        cause = cause.__cause__
    reason = str(cause) or type(cause).__name__
    known: Sequence[tuple[str, str]] = (
        ("refused", "cannot be reached: nothing listens there"),
        ("All connection attempts failed", "cannot be reached: nothing listens there"),
        ("disconnected", "closed the connection in the middle of a request"),
        ("peer closed", "closed the connection in the middle of an answer"),
        ("reset", "closed the connection in the middle of a request"),
        ("Name or service", "cannot be reached: the host name is not known"),
        ("nodename", "cannot be reached: the host name is not known"),
    )
    return next((words for mark, words in known if mark in reason), f"cannot be reached: {reason}")


def _message(error: Any) -> Any:
    body = error.body
    if isinstance(body, dict):
        inner = body.get("error", body)
        return inner.get("message", inner) if isinstance(inner, dict) else inner
    return error.message


def _prompt_tokens(told: str, max_tokens: int, context: int) -> int:
    """Find the prompt's tokens in a refusal: its largest number, less the reply's where that is a total."""
    numbers = [int(number) for number in re.findall(r"\d+", told)]
    largest = max([*numbers, context])
    return largest - max_tokens if largest - max_tokens in numbers else largest


def _is_too_long(error: Any) -> bool:
    text = str(error.body) + str(error.message)
    marks = (
        *("context length", "context_length_exceeded"),  # vLLM, SGLang, OpenAI
        *("exceed_context_size", "input_tokens", "max_new_tokens`", "too long"),  # llama.cpp, vLLM, TGI, others
    )
    return any(mark in text for mark in marks)
