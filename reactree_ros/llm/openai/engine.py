"""The client of a server that speaks the OpenAI protocol."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import replace
from typing import Annotated, Any

from pydantic import Field, model_validator

from reactree_ros.agent.turns import About, Said, Told
from reactree_ros.files.secrecy import are_harmless
from reactree_ros.llm.chat import (
    NO_CHAT,
    ChatLayout,
    Message,
    broken,
    chat_messages,
    find_layout,
    is_chat,
    markers_of_chat,
    spoken_to_server,
)
from reactree_ros.llm.engine import Constraint, ConstraintKind, Engine, Generated, Generation, chosen
from reactree_ros.llm.engine_settings import EngineSettings, SeeingSettings
from reactree_ros.llm.openai.answer import Parts, Until, read_answer
from reactree_ros.llm.openai.connection import KEY_IN_URL, Connection, may_hold_a_key, read_key, read_url
from reactree_ros.llm.openai.dialects import DIALECTS, TRIED, Dialect, DialectName, dialect_of
from reactree_ros.llm.openai.refusal import LIMIT, OF_PICTURES, OF_ROLES, STREAM, WITH_TOOLS, Parameters, Refused
from reactree_ros.llm.port import LanguageModelError, PromptTooLong, RequestRejected, ServerUnavailable
from reactree_ros.llm.reasoning import split_reasoning
from reactree_ros.llm.seeing import Showing
from reactree_ros.llm.spec import ModelSpec
from reactree_ros.plugins.settings import Harmless

#: The most requests for a text that try a server whose dialect nobody knows, and the longest answer in tokens.
MOST_TRIALS, TRIAL_TOKENS = 4, 32
_WORD = "Zq7kx"  # no model says this unprompted
#: Shows whether the server chats, with a system text and earlier replies, and how its model thinks.
_HELLO = Generation(
    (Told("You are a robot.", About.SYSTEM), Told("Look."), Said("I look."), Told("Hello")), max_tokens=TRIAL_TOKENS
)
#: Where a thinking model leaves its thoughts: the server separates them, and a constraint holds for the answer only; it
#: does not, and a constraint from the first token prevents thinking; the server keeps them, and at most counts them.
_IN_A_FIELD, _IN_THE_TEXT, _UNSEEN = "in a field of its own", "in its text", "unseen"
#: The base URL of a server of this process, as long as nobody knows its port.
OWN_SERVER = "http://127.0.0.1"
_log = logging.getLogger(__name__)
_NAME_IT = "if it has no list of models, name the model (--model NAME)"


class OpenAIEngine(Engine):
    """Generates with an OpenAI-compatible server.

    What a server takes is known by its name (:mod:`~reactree_ros.llm.openai.dialects`); one that nobody knows is tried
    with a few small requests when it is opened. A parameter that the server refuses is renamed or left out from then
    on. ``key`` is its key if the settings do not say it.
    """

    loads = False

    def __init__(self, settings: OpenAISettings, *, key: str | None = None) -> None:
        self._settings, self._reasoning, self.seeing = settings, settings.reasoning, settings.seeing
        self._connection = Connection(
            key=read_key(settings.api_key_file) if key is None else key,
            url=read_url(settings.base_url),
            retries=settings.retries,
            timeout=settings.request_timeout,
        )
        self.name, self._model, self.chat = self._connection.name, settings.model, settings.chat
        self._unlisted = ""  # the models it lists instead of the named one
        self._is_blind = False  # whether it has refused pictures
        self._dialect = Dialect()
        self._held = self._dialect.constraints
        self._layout, self._examples = ChatLayout(), settings.examples
        self._markers: bool | None = None  # whether a marker of the chat template is one token of the model
        self._thoughts = ""  # where it leaves its thoughts; empty: it does not think
        self._trials = 0
        self._parameters = Parameters()

    async def open(self) -> None:
        """Connect: find the model, what the server takes, and whether it chats."""
        found = await self._find_model()
        self._model = str(found["id"])
        owner = str(found.get("owned_by") or "")
        named = dialect_of(self._settings.dialect, owner, self._connection.url)
        self._dialect = named or Dialect()
        self._held = self._dialect.constraints
        version = await self._aside(*self._dialect.version) if self._dialect.version else None
        called = f"{owner or 'a server'} {version or ''}".strip()
        self.name = self._connection.name = f"{called} at {self._connection.url}"
        self.context = found.get("max_model_len") or (found.get("meta") or {}).get("n_ctx")
        limit = LIMIT if self._settings.chat is False else self._dialect.limit
        self._parameters = Parameters(limit, self._dialect.streaming)
        self._layout, self._thoughts, self._trials = ChatLayout(), "", 0
        await self._find_chat()
        if named is None:
            await self._find_constraints()
        self.constraints = frozenset(self._held)
        self._layout = replace(self._layout, examples=self._examples != "text", marks=self._dialect.cache_marks)
        sees = self._settings.sees
        if sees is None and self._dialect.sees:
            sees = await self._aside(*self._dialect.sees)
        self.sees = bool(self.chat) and sees in (None, True) and not self._is_blind

    # ------------------------------------------------------------------ what the server takes

    async def _find_model(self) -> dict[str, Any]:
        named = self._settings.model
        listed: Any = None
        refused: Refused | None = None
        try:
            # Without need of the list, the chat requests retry often enough.
            listed = await self._connection.get("/models", **({"max_retries": 0} if named else {}))
        except Refused as error:
            refused = error
        models = _models_of(listed)
        if named:
            self._unlisted = "" if named in models else _unlisted(named, models)
            found = {name: value for name, value in models.get(named, {"id": named}).items() if value is not None}
            return {**models.get(str(found.get("parent")), {}), **found}  # an adapter's is that of its base
        if models:
            return next(iter(models.values()))
        if refused is not None:
            told = self._told(refused)
            raise told if refused.sends_on else type(told)(f"{told}; {_NAME_IT}")
        what = "has no model" if _is_list(listed) and not listed["data"] else "lists no models; is its base URL right?"
        raise ServerUnavailable(f"{self._connection.name} {what}; {_NAME_IT}")

    async def _find_chat(self) -> None:
        wanted = self._settings.chat
        self.chat, self._markers = wanted, None
        if wanted is False:
            return
        found: tuple[str, ChatLayout] | None = None
        refused: RequestRejected | None = None
        try:
            found = await find_layout(self._shown)
        except RequestRejected as error:
            refused = error
        if found is not None:
            written, self._layout = found
            self._markers = await self._knows_its_chat(written) if wanted is None else None
            self.chat = self._markers is not False
        elif refused is None or wanted:
            refused = await self._chats()
        if refused is not None:
            if wanted:
                raise refused
            self.chat, self._parameters = False, Parameters(streaming=self._dialect.streaming)
            try:
                await self._try(_HELLO)
            except RequestRejected:
                raise refused from None

    async def _chats(self) -> RequestRejected | None:
        self.chat = True
        refused = None
        for system in (True, False):
            self._layout = ChatLayout(system=system)
            try:
                await self._try(_HELLO)
                return None
            except RequestRejected as error:
                refused = refused or error
            if not OF_ROLES.search(str(refused)):
                break
        return refused

    async def _find_constraints(self) -> None:
        """Try constraints: some servers silently ignore one."""
        for name, kind in TRIED:
            self._held = DIALECTS[name].constraints
            held = Constraint.choice(kind, [_WORD])
            asked = Generation((Told("Say a word:"),), constraint=held, max_tokens=TRIAL_TOKENS)
            if self._trials == MOST_TRIALS or (kind is ConstraintKind.TOOLS and not self.chat):
                break
            with contextlib.suppress(RequestRejected, ValueError):
                if chosen(kind, _answer(await self._try(asked))) == _WORD:
                    return
        self._held = {}

    async def _try(self, generation: Generation) -> Generated:
        self._trials += 1
        generated = await self._complete(generation)
        self.tried = [*self.tried, generated]
        return generated

    # ------------------------------------------------------------------ what the server tells outside of the protocol

    async def _aside(self, path: str, *names: str, body: Mapping[str, Any] | None = None) -> Any:
        try:
            found = await self._connection.ask_aside(path, body)
            for name in names:
                found = found[name]
        except (Refused, ServerUnavailable, LookupError, TypeError):
            return None
        return found

    async def _shown(self, messages: list[Message]) -> str | None:
        """Return what the chat template makes of messages; None if the server does not tell."""
        if self._dialect.renders is None:
            return None
        path, name = self._dialect.renders
        body = {"model": self._model, "messages": messages, "add_generation_prompt": False, **self._template()}
        try:
            found = (await self._connection.ask_aside(path, body))[name]
        except Refused as error:
            if error.status not in (400, 422, 500):  # other codes: the path is unknown
                return None
            refused = error
        except (ServerUnavailable, LookupError, TypeError):
            return None
        else:
            if isinstance(found, list):
                found = await self._aside("/detokenize", "prompt", body={"model": self._model, "tokens": found})
            return found if isinstance(found, str) else None
        told = self._connection.redacted(refused.message)
        raise RequestRejected(f"{self._connection.name} answered {refused.how}: {told}")

    async def _knows_its_chat(self, written: str) -> bool | None:
        """Return whether what the chat template wrote holds a marker that is one token of the model."""
        if (counts := self._dialect.counts) is None:
            return None
        bodies = [counts(self._model, marker) for marker in markers_of_chat(written)]
        found = [await self._aside("/tokenize", "tokens", body=body) for body in bodies]
        return is_chat([len(one) for one in found]) if all(isinstance(one, list) for one in found) else None

    async def _counted(self, body: Mapping[str, Any]) -> int | None:
        """Return the number of tokens of the prompt in a request."""
        if self._dialect.renders is None or self._dialect.renders[0] != "/tokenize":
            return None
        found = await self._aside("/tokenize", "count", body={"model": self._model, **body})
        return found if isinstance(found, int) else None

    def _template(self) -> dict[str, Any]:
        reasoning = self._reasoning
        told = reasoning.template_arguments if self._dialect.templated else dict(reasoning.template)
        return {"chat_template_kwargs": told} if told else {}

    # ------------------------------------------------------------------ requests for a text

    async def generate(self, generation: Generation) -> Generated:
        """Ask the server; cancelling closes the connection, which stops the generation.

        A model that turns out to think, and has no room for an answer, is asked again with room.
        """
        known = self._thoughts
        generated = await self._complete(generation)
        if self._thoughts is known or self._reasoning.thinking or generated.finish_reason != "length":
            return generated
        self.tried = [*self.tried, generated]
        return await self._complete(generation)

    async def _complete(self, generation: Generation) -> Generated:
        generation = replace(generation, turns=spoken_to_server(generation.turns), begun=broken(generation.begun))
        values: dict[str, Any] = {"temperature": generation.temperature, "seed": generation.seed}
        values[LIMIT] = generation.max_tokens
        if generation.top_p < 1:
            values["top_p"] = generation.top_p
        held: dict[str, Any] = {}
        if generation.constraint is not None:
            held = self._held[generation.constraint.kind](generation.constraint.value)
        if self.chat:
            return await self._chat_on(generation, values, held)
        stops = {"stop": list(generation.stops)} if generation.stops else {}
        body = {"prompt": generation.prompt, **held}
        return await self._ask("/completions", body, {**values, **stops}, generation.until)

    async def _chat_on(self, generation: Generation, values: dict[str, Any], held: Mapping[str, Any]) -> Generated:
        thinks = bool(self._thoughts) or bool(self._reasoning.thinking)
        if thinks:
            values[LIMIT] += self._reasoning.tokens
        calls = generation.constraint is not None and generation.constraint.kind is ConstraintKind.TOOLS
        values |= WITH_TOOLS if calls else {}
        if self._dialect.cache_key:
            values[self._dialect.cache_key] = hashlib.blake2b(
                generation.turns[0].text.encode(), digest_size=8
            ).hexdigest()
        body: dict[str, Any] = {**self._template(), **held}
        if self._reasoning.effort:
            body["reasoning_effort"] = self._reasoning.effort
        # A thinking model would have to think in the middle of its message.
        continued = generation.begun and self._dialect.continues and not thinks
        if continued:
            body |= {"continue_final_message": True, "add_generation_prompt": False}
        begun = generation.begun if continued else ""

        async def ask(showing: Showing) -> Generated:
            messages = chat_messages(generation.turns, begun, replace(self._layout, calls=calls), showing)
            return await self._ask("/chat/completions", {**body, "messages": messages}, values, generation.until)

        generated = await self._told_apart(await self._with_pictures(ask, self.shown(generation)))
        self._thoughts = self._thoughts or _thoughts(generated)
        return generated

    async def _with_pictures(self, ask: Callable[[Showing], Awaitable[Generated]], showing: Showing) -> Generated:
        """Ask with pictures; if the server refuses that and not the same without them, it is asked without from now on.

        Servers refuse a picture with all kinds of words, and some with none.
        """
        if not showing:
            return await ask({})
        shown = [picture for pictures in showing.values() for picture in pictures]
        try:
            generated = await ask(showing)
        except (RequestRejected, ServerUnavailable) as error:
            if isinstance(error, ServerUnavailable) and not OF_PICTURES.search(str(error)):
                raise
            refused = error
        else:
            return replace(generated, pictures=len(shown), picture_tokens=sum(one.tokens for one in shown))
        try:
            generated = await ask({})
        except LanguageModelError:  # the reason was another
            raise refused from None
        self.sees, self._is_blind = False, True
        _log.warning("%s; it is shown no pictures from now on", refused)
        return generated

    async def _told_apart(self, generated: Generated) -> Generated:
        """Correct reasoning parsers (vLLM's, too) that fail if the chat template opens or closes the thought."""
        if not generated.reasoning or not self._dialect.templated:
            return generated
        nothing_said = not (generated.text or generated.calls)
        if self._reasoning.thinking is False and nothing_said and generated.finish_reason == "stop":
            return replace(generated, text=generated.reasoning, reasoning="")  # it missed the end of the thought
        if generated.reasoning_tokens is None and generated.output_tokens is not None:  # it missed the start
            said = await self._counted({"prompt": generated.text, "add_special_tokens": False})
            if said is not None:
                return replace(generated, reasoning_tokens=max(0, generated.output_tokens - said))
        return generated

    async def _ask(
        self, path: str, body: Mapping[str, Any], values: Mapping[str, Any], until: Until | None = None
    ) -> Generated:
        """Send fields as they are and parameters under the server's names; leave out parameters that it refuses."""
        if until is not None:
            values = {**values, **self._dialect.streaming}
        while True:
            sent, before = self._parameters.named(values), self._parameters.status()
            try:
                return await self._post(path, body, sent, values[LIMIT], until)
            except Refused as error:
                refused = error
            if not self._parameters.learn(refused, values, sent):
                break
            if self._parameters.status() != before:
                self._warn(refused)
        # The refusal names the wrong parameter or none: drop all optional ones together, once. A server that shows what
        # its chat template writes is one of one's own, and takes them all.
        own = self._dialect.renders is not None
        bare = sent if own else self._parameters.without_optional(refused, sent)
        if bare != sent:
            with contextlib.suppress(Refused):  # then the reason was another: report the first refusal
                generated = await self._post(path, body, bare, values[LIMIT], until)
                self._parameters.leave_out(sent.keys() - bare.keys())
                self._warn(refused)
                return generated
        raise self._told(refused)

    async def _post(
        self, path: str, body: Mapping[str, Any], sent: dict[str, Any], most: int, until: Until | None
    ) -> Generated:
        whole = {"model": self._model, **sent, **body, **self._settings.extra_body}
        try:
            if until is not None and sent.get(STREAM):
                answer = await self._stream(path, whole, Parts(until, most), set(self._dialect.streaming))
            else:
                answer = await self._connection.post(path, whole)
            generated = read_answer(answer)
        except Refused as error:
            refused = error
        else:
            self._parameters.taken(sent)
            return generated
        if refused.is_cut:
            return Generated("", "length")
        if refused.is_too_long:
            context = self.context or refused.context()
            tokens = await self._counted(body) or refused.prompt_tokens(most, context)
            raise PromptTooLong(max(1, tokens + most - context), context)
        raise refused

    async def _stream(self, path: str, body: dict[str, Any], parts: Parts, streaming: set[str]) -> Any:
        """Return an answer that ends where it says all that is wanted.

        A stream that breaks off is asked for again as a whole: the server, or a proxy, may not be able to stream.
        """
        try:
            answer = await self._connection.stream(path, body, parts.add)
        except ServerUnavailable:
            if not parts.begun:
                raise
        else:
            if answer is not None or not parts.is_half:
                return answer or parts.answer()
        return await self._connection.post(path, {name: one for name, one in body.items() if name not in streaming})

    def _warn(self, refused: Refused) -> None:
        changes = "; ".join(f"{what}: {which}" for what, which in self._parameters.status().items())
        _log.warning("%s; from now on %s", self._told(refused), changes)

    def _told(self, refused: Refused) -> LanguageModelError:
        told = refused.as_error(self._connection.name, self._connection.redacted(refused.message))
        if any(kind.value in str(told) for kind in self._held):
            return type(told)(f"{told}; if it takes no constraints, set dialect=none")
        of_model = refused.status == 404 or refused.mentions(self._model)
        return type(told)(f"{told}; {self._unlisted}") if self._unlisted and of_model else told

    async def close(self) -> None:
        await self._connection.close()

    def status(self) -> Mapping[str, str]:
        said = {"model": self._model or "the server's first", "prompts": "chat" if self.chat else "completion"}
        if self._markers is False and not self.chat:
            said["prompts"] += f": {NO_CHAT}"
        if self.chat:
            said["chat layout"] = self._layout.in_words()
            said["thinks"] = self._thoughts or "no"
            if self._reasoning.thinking is not None:
                said["told to think"] = "yes" if self._reasoning.thinking else "no"
        return {**said, **self._parameters.status()}


def _answer(generated: Generated) -> str:
    return split_reasoning(generated.calls[0].arguments if generated.calls else generated.text).text.strip()


def _thoughts(generated: Generated) -> str:
    """Return where a model left its thoughts; empty if it did not think."""
    if generated.reasoning:
        return _IN_A_FIELD
    answer = split_reasoning(generated.text)
    if answer.reasoning or answer.unfinished:
        return _IN_THE_TEXT
    nothing_said = not (generated.text.strip() or generated.calls)
    return _UNSEEN if generated.reasoning_tokens or (nothing_said and generated.finish_reason == "length") else ""


def _is_list(listed: Any) -> bool:
    return isinstance(listed, Mapping) and isinstance(listed.get("data"), list)


def _models_of(listed: Any) -> dict[str, dict[str, Any]]:
    models = listed["data"] if _is_list(listed) else []
    return {str(one["id"]): dict(one) for one in models if isinstance(one, Mapping) and one.get("id")}


def _unlisted(model: str, models: Collection[str]) -> str:
    if not models:
        return "it has no list of models either: is its base URL right?"
    some = ", ".join(list(models)[:5]) + (" …" if len(models) > 5 else "")
    return f"it lists no model '{model}', but {some}"


class OpenAISettings(SeeingSettings, EngineSettings):
    """Settings of an OpenAI-compatible server."""

    model: Annotated[str, Harmless()] = Field(
        default="", description="the server's name of the model; empty: its first one"
    )
    base_url: Annotated[str, Harmless(lambda url: url == os.environ.get("OPENAI_BASE_URL"))] = Field(
        default="", description="base URL of the server, e.g. http://127.0.0.1:8000/v1; empty: $OPENAI_BASE_URL"
    )
    api_key_file: str = Field(default="", description="file with the server's key; empty: $OPENAI_API_KEY, or none")
    dialect: DialectName = Field(
        default="auto",
        description="what the server takes: vllm, llamacpp, sglang, tgi, openai, ollama, openrouter, anthropic; none: "
        "no constraint; auto: by the name that it gives itself or its address, or else it is tried with at most four "
        "requests",
    )
    retries: int = Field(
        default=3, ge=0, le=100, description="how often to repeat a request that failed for a passing reason"
    )

    extra_body: Annotated[dict[str, Any], Harmless(are_harmless)] = Field(
        default={},
        description="fields for every request for a text; they win, e.g. {top_k: 20, provider: {sort: price}}",
        examples=["{top_k: 20}"],
    )

    @model_validator(mode="before")
    @classmethod
    def _hold_no_key(cls, values: dict[str, Any]) -> dict[str, Any]:
        # Not in a field validator: its error would repeat the value.
        if may_hold_a_key(str(values.get("base_url", ""))):
            raise ValueError(KEY_IN_URL)
        return values


SPEC = ModelSpec(
    name="openai",
    summary="any OpenAI-compatible server: vLLM, TGI, llama.cpp, SGLang, Ollama, hosted ones",
    settings=OpenAISettings,
    extra="reactree_ros[openai]",
    needs=("openai",),
    make=lambda settings: settings.queue(OpenAIEngine(settings)),
    flags=("model", "base_url"),
)
