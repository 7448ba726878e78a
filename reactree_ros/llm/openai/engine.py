"""The client of a server that speaks the OpenAI protocol."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from reactree_ros.errors import UserError
from reactree_ros.llm.chat import chat_messages
from reactree_ros.llm.engine import ConstraintKind, Engine, Generated, Generation
from reactree_ros.llm.engine_settings import EngineSettings
from reactree_ros.llm.openai import dialects, trials
from reactree_ros.llm.openai.dialects import DIALECTS, OWNERS, Dialect
from reactree_ros.llm.port import (
    LanguageModel,
    LanguageModelError,
    PromptTooLong,
    RequestRejected,
    ServerUnavailable,
)
from reactree_ros.llm.spec import ModelSpec

_PASSING = (408, 409, 425, 429)
_KEY_IN_URL = "base_url: must hold no user, password or query; give a key by OPENAI_API_KEY or api_key_file"


class OpenAIEngine(Engine):
    """Generates by an OpenAI-compatible server.

    What the server obeys is tried out when it is opened: servers are known to ignore a constraint silently. The
    server's key is read from a file or from the environment and appears nowhere else.

    Args:
        base_url: Of the server; ``/v1`` is added where there is no path. Empty: ``$OPENAI_BASE_URL``.
        model: Its name for the model; empty: the first one that it has.
        api_key_file: File with the key; empty: ``$OPENAI_API_KEY``, or none.
        chat: Lay prompts out as a chat; None: where the server has a chat template for the model.
        constraints: What the server obeys; None: it is tried out.
        retries: How often a request that failed for a passing reason (connection, 408, 409, 429, 5xx) is sent again,
            with exponential backoff and jitter.
        request_timeout: Longest time for one request, in seconds.

    Raises:
        UserError: There is no base URL, it is none, the key's file cannot be read, or what it or the environment
            holds is no key.
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
        request_timeout: float = 120.0,
    ) -> None:
        self._key = _key(api_key_file)
        self._url = _url(base_url or os.environ.get("OPENAI_BASE_URL", ""))
        self._model = model
        self._chat = chat
        self._configured = None if constraints is None else frozenset(constraints)
        self._retries = retries
        self._request_timeout = request_timeout
        self._dialect: Dialect = DIALECTS["openai"]
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
                timeout=self._request_timeout,
            )
        found = await self._find_model()
        self._model = found["id"]
        owner = str(found.get("owned_by") or "")
        self._kind = OWNERS.get(owner, owner)
        version = await self._ask_root("/version") if self._kind == "vllm" else None
        what = f"vllm {version.get('version', '')}".strip() if isinstance(version, dict) else owner or "a server"
        self.name = f"{what} at {self._url}"
        self.context = found.get("max_model_len") or (found.get("meta") or {}).get("n_ctx")
        if self._chat is None:
            self._chat = await trials.chats(partial(self._complete, dialect=self._dialect, chat=True))
        if self._configured is None:
            self._dialect, self.constraints = await trials.find_dialect(self._complete, self._kind)
            return
        self._dialect = DIALECTS.get(self._kind, DIALECTS["vllm"])
        if unknown := self._configured - frozenset(self._dialect):
            names = ", ".join(sorted(kind.value for kind in unknown))
            raise RequestRejected(f"{self.name}: cannot be asked for {names}; leave constraints empty")
        self.constraints = self._configured

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

    async def generate(self, generation: Generation) -> Generated:
        """Ask the server; cancelling closes the connection, at which servers stop."""
        return await self._complete(generation, self._dialect)

    async def _complete(self, generation: Generation, dialect: Dialect, *, chat: bool | None = None) -> Generated:
        chat = bool(self._chat) if chat is None else chat
        extra: dict[str, Any] = {}
        if generation.constraint is not None:
            extra |= dialect[generation.constraint.kind](generation.constraint.value)
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
            text: dict[str, Any] = {"prompt": generation.prompt}
        else:
            path = "/chat/completions"
            text = {"messages": chat_messages(generation.turns, generation.begun)}
            if generation.begun and self._kind in dialects.CONTINUING:
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
            failure = ServerUnavailable(f"{self.name}: no answer within {self._request_timeout:g} s")
        except openai.APIConnectionError as error:
            failure = ServerUnavailable(f"{self.name} {self._redacted(dialects.connection_problem(error))}")
        except openai.APIStatusError as error:
            failure = await self._refused(error, generation, text or {})
        except (openai.OpenAIError, ValueError) as error:  # an answer that is no JSON, or is none of the protocol's
            failure = ServerUnavailable(f"{self.name} answered with garbage: {self._redacted(str(error))[:200]}")
        raise failure

    async def _refused(self, error: Any, generation: Generation | None, text: Mapping[str, Any]) -> LanguageModelError:
        message = self._redacted(dialects.refusal(error))[:400]
        if generation is not None and dialects.is_too_long(error):
            return await self._too_long(str(error.body or message), generation, text)
        if error.status_code in (401, 403):
            return RequestRejected(
                f"{self.name} does not accept the key (HTTP {error.status_code}); set OPENAI_API_KEY or api_key_file"
            )
        problem = f"{self.name} answered HTTP {error.status_code}: {message}"
        passing = error.status_code >= 500 or error.status_code in _PASSING
        return ServerUnavailable(problem) if passing else RequestRejected(problem)

    async def _too_long(self, told: str, generation: Generation, text: Mapping[str, Any]) -> PromptTooLong:
        context = self.context or dialects.stated_context(told)
        counted = await self._ask_root("/tokenize", {"model": self._model, **text}) if self._kind == "vllm" else None
        tokens = counted.get("count") if isinstance(counted, dict) else None
        prompt = tokens or dialects.stated_prompt(told, generation.max_tokens, context)
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
        key = os.environ.get("OPENAI_API_KEY", "").strip()
        if key and not _is_a_key(key):
            raise UserError("$OPENAI_API_KEY: holds no key; a key has neither spaces nor control characters in it")
        return key
    try:
        key = Path(file).expanduser().read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"api_key_file {file}: cannot be read ({getattr(error, 'strerror', None) or error})") from None
    if not _is_a_key(key):
        raise UserError(f"api_key_file {file}: holds no key; one line with the key is needed")
    return key


def _is_a_key(text: str) -> bool:
    return re.fullmatch("[!-~]+", text) is not None


def _may_hold_a_key(base_url: str) -> bool:
    return "@" in base_url or "?" in base_url


def _url(base_url: str) -> str:
    if not base_url:
        raise UserError("llm 'openai' needs a base URL, e.g. http://127.0.0.1:8000/v1 (or set OPENAI_BASE_URL)")
    if _may_hold_a_key(base_url):
        raise UserError(_KEY_IN_URL)
    try:
        parts = urlsplit(base_url)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    sound = parts.scheme in ("http", "https") and parts.hostname and port != 0 and not re.search(r"\s|#", base_url)
    if not sound:
        raise UserError(f"base_url {base_url!r}: is no URL of a server; it looks like http://127.0.0.1:8000/v1")
    return base_url.rstrip("/") if parts.path.strip("/") else f"{parts.scheme}://{parts.netloc}/v1"


class OpenAISettings(EngineSettings):
    """Settings of an OpenAI-compatible server."""

    base_url: str = Field(
        default="", description="of the server, e.g. http://127.0.0.1:8000/v1; empty: $OPENAI_BASE_URL"
    )
    api_key_file: str = Field(default="", description="file with the server's key; empty: $OPENAI_API_KEY, or none")
    constraints: tuple[ConstraintKind, ...] | None = Field(
        default=None,
        description="what the server obeys: grammar, regex, json_schema, choice; empty: it is tried out",
    )
    retries: int = Field(
        default=3, ge=0, le=100, description="how often a request that failed for a passing reason is sent again"
    )

    @model_validator(mode="before")
    @classmethod
    def _hold_no_key(cls, values: dict[str, Any]) -> dict[str, Any]:
        # Here and not of the field, because an error of a field repeats its value.
        if _may_hold_a_key(str(values.get("base_url", ""))):
            raise ValueError(_KEY_IN_URL)
        return values

    @field_validator("constraints", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return None if isinstance(value, (list, tuple)) and not value else value
        return [name for one in value.strip("[] ").split(",") if (name := one.strip())] or None


def _make(settings: OpenAISettings) -> LanguageModel:
    engine = OpenAIEngine(**settings.model_dump(exclude={"method", "max_concurrent"}))
    return settings.queue(engine)


SPEC = ModelSpec(
    name="openai",
    summary="any OpenAI-compatible server: vLLM, TGI, llama.cpp, SGLang, Ollama, hosted ones",
    settings=OpenAISettings,
    extra="reactree_ros[openai]",
    needs=("openai",),
    make=_make,
    flags=("model", "base_url", "api_key_file"),
)
