"""The client of a server that speaks the OpenAI protocol."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from reactree_ros.agent.turns import Turn
from reactree_ros.files.secrecy import harmless_arguments
from reactree_ros.llm.chat import ChatLayout, Examples, Message, Rendering, chat_messages, find_layout
from reactree_ros.llm.engine import ConstraintKind, Engine, Generated, Generation
from reactree_ros.llm.known import Known, Subject, forget, recall, remember
from reactree_ros.llm.markers import NO_CHAT, broken, spoken_to_server
from reactree_ros.llm.openai import dialects, trials
from reactree_ros.llm.openai.address import read_key, read_url
from reactree_ros.llm.openai.answer import Parts, Until, read_answer
from reactree_ros.llm.openai.aside import Aside
from reactree_ros.llm.openai.connection import Connection
from reactree_ros.llm.openai.dialects import DIALECTS, OWNERS, Dialect, with_images
from reactree_ros.llm.openai.parameters import LIMIT, NEWER_LIMIT, Parameters
from reactree_ros.llm.openai.refusal import Refused, speaks_of_pictures, speaks_of_this_picture
from reactree_ros.llm.openai.trials import Thoughts
from reactree_ros.llm.port import LanguageModelError, PromptTooLong, RequestRejected, ServerUnavailable
from reactree_ros.llm.reasoning import Reasoning
from reactree_ros.llm.seeing import Seeing, Showing

_log = logging.getLogger(__name__)
_NAME_IT = "if it has no list of models, name the model (--model NAME)"


class OpenAIEngine(Engine):
    """Generates with an OpenAI-compatible server.

    Opening it tries what the server can do: chat, its chat template, thinking, constraints (some servers silently
    ignore one). That is remembered, and tried again when it turns out wrong. A parameter that the server refuses is
    renamed or left out from then on. What the arguments are is told by
    :class:`~reactree_ros.llm.openai.settings.OpenAISettings`.

    Attributes:
        known: What was found out.
    """

    loads = False

    def __init__(
        self,
        *,
        base_url: str = "",
        model: str = "",
        api_key_file: str = "",
        key: str | None = None,
        chat: bool | None = None,
        examples: Examples | None = None,
        constraints: Iterable[ConstraintKind] | None = None,
        retries: int = 3,
        request_timeout: float = 120.0,
        reasoning: Reasoning | None = None,
        extra_body: Mapping[str, Any] | None = None,
        remember: bool = True,
        sees: bool | None = None,
        seeing: Seeing | None = None,
    ) -> None:
        self._connection = Connection(
            key=read_key(api_key_file) if key is None else key,
            url=read_url(base_url),
            retries=retries,
            timeout=request_timeout,
        )
        self.name = self._connection.name
        self._named = self._model = model
        self._unlisted = ""  # the models it lists instead of the named one
        self._chat = self.chat = chat
        self._configured = None if constraints is None else frozenset(constraints)
        self._reasoning = reasoning or Reasoning()
        self._extra = dict(extra_body or {})
        self.known = Known()
        self._remembers = remember
        self._sees, self.seeing = sees, seeing or Seeing()
        self._subject: Subject | None = None
        self._is_recalled = self._doubted = self._puts_off = False
        self._kind = ""
        self._dialect: Dialect = {}
        self._layout, self._examples = ChatLayout(), examples
        self._thoughts: Thoughts | None = None
        self._parameters = Parameters()
        self._streaming: Mapping[str, Any] = {}  # the parameters with which answers are streamed; none: they are not
        self._aside = Aside(connection=self._connection, kind="", model=model)

    async def open(self) -> None:
        """Connect: find the model, whether it chats, and what the server can do."""
        found = await self._find_model()
        self._model = str(found["id"])
        owner = str(found.get("owned_by") or "")
        self._kind = OWNERS.get(owner, owner)
        self._aside = Aside(connection=self._connection, kind=self._kind, model=self._model, template=self._template())
        version = await self._aside.version()
        what = f"vllm {version}".strip() if self._kind == "vllm" else owner or "a server"
        self.name = self._connection.name = f"{what} at {self._connection.url}"
        self.context = found.get("max_model_len") or (found.get("meta") or {}).get("n_ctx")
        self._streaming = dialects.streaming(self._kind)
        newer = self._kind == "openai" and owner not in dialects.OLDER
        self._parameters = Parameters(NEWER_LIMIT if newer and self._chat is not False else LIMIT)
        is_tried = self._chat is not False or self._configured is None
        written = await self._written() if is_tried else None
        self._subject = self._about(found, version, written) if is_tried and self._remembers else None
        subject = None if self._doubted else self._subject
        self.known = Known() if subject is None else await asyncio.to_thread(recall, subject)
        self._is_recalled = self.known.is_enough
        self._puts_off = not self._is_recalled and written is not None and self.begin is None
        if not self._is_recalled:
            try:
                await self._find_out(written)
            except PromptTooLong:  # the prompt that follows will say by how much
                self.begin = ()
                await self._find_out(written)
        elif not self.known.chat:
            self._parameters = Parameters()
        self.chat = self.known.chat
        # What the user or the server says now counts more than what is remembered: it may have got eyes since.
        if (sees := await self._aside.sees() if self._sees is None else self._sees) is not None:
            self.known = replace(self.known, sees=sees)
        self._ask_as_known()
        self._thoughts, self._dialect = self.known.thoughts, DIALECTS[self.known.dialect or ""]
        self.constraints, self.lost = self.known.constraints or frozenset(), self._puts_off

    async def _written(self) -> str | list[int] | None:
        """Return what the chat template makes of a short chat; None if the server does not show it."""
        with contextlib.suppress(RequestRejected):
            return await self._aside.shown()
        return None

    def _about(self, found: Mapping[str, Any], version: str, written: str | list[int] | None) -> Subject:
        """Return what is remembered under: servers tell the time in the other fields of a model's entry."""
        entry = {name: found.get(name) for name in ("owned_by", "root", "max_model_len", "meta")}
        asked = {
            "chat": self._chat,
            "constraints": self._configured and sorted(kind.value for kind in self._configured),
            "effort": self._reasoning.effort,
            "template": harmless_arguments(self._reasoning.template_arguments),
            "body": harmless_arguments(self._extra),
        }
        return Subject(
            address=self._connection.url,
            model=self._model,
            version=json.dumps([version, entry, written], default=str, sort_keys=True),
            asked=json.dumps(asked, default=str, sort_keys=True),
        )

    async def _find_out(self, written: str | list[int] | None) -> None:
        """Try what the server can do, and remember it.

        A server that shows what its template writes keeps prompts in a cache, too, maybe only the last one. Its trials
        begin like the prompt that follows, and are put off until there is one.
        """
        begin = tuple(self.begin or ()) if self._kind in dialects.RENDERING else ()
        dialect = self._kind if self._kind in DIALECTS else "vllm"
        obeyed = None if self._configured is None else self._configured_in(dialect)
        markers, layout, self._thoughts = None, None, None
        if written is not None and self._chat is None:
            markers = await self._aside.knows_its_chat(written)
        chat = markers is not False if self._chat is None else self._chat
        if written is not None and chat:
            self._layout = layout = await find_layout(self._render)
        if self._puts_off:
            all_of_it = frozenset(DIALECTS[dialect]) if obeyed is None else obeyed
            self.known = Known(chat=chat, markers=markers, layout=layout, dialect=dialect, constraints=all_of_it)
            return
        self.chat = chat and await self._chats(begin, shown=layout is not None)
        if self.chat and layout is None:
            self._layout = layout = await find_layout(self._render)
        if obeyed is None:
            dialect, obeyed = await trials.find_dialect(self._try, self._kind, begin)
        found = {"chat": self.chat, "markers": markers, "layout": layout, "thoughts": self._thoughts}
        await self.learn(**found, dialect=dialect, constraints=obeyed)

    def _configured_in(self, dialect: str) -> frozenset[ConstraintKind]:
        configured = self._configured or frozenset()
        if unknown := configured - frozenset(DIALECTS[dialect]):
            names = ", ".join(sorted(kind.value for kind in unknown))
            raise RequestRejected(f"{self.name}: cannot be asked for {names}; leave constraints empty")
        return configured

    async def learn(self, **found: Any) -> bool:
        """Add fields of :class:`~reactree_ros.llm.known.Known` to what is known of the server, and remember them."""
        self.known = replace(self.known, **found)
        self._ask_as_known()
        if self._subject is not None:
            await asyncio.to_thread(remember, self._subject, **found)
        return self._subject is not None

    def _ask_as_known(self) -> None:
        """Ask in the way that is known to be best; settings outrank it."""
        examples = self._examples or self.known.examples
        self._layout = replace(self.known.layout or ChatLayout(), examples=examples != "text")
        self.method = self.known.method
        self.sees = bool(self.chat) and self.known.sees is not False

    def doubt(self) -> bool:
        """See :meth:`Engine.doubt`: a server may have changed since."""
        if not self._is_recalled or self._subject is None:
            return False
        self._is_recalled, self._doubted, self.lost = False, True, True
        forget(self._subject)
        return True

    async def _find_model(self) -> dict[str, Any]:
        """Return the server's entry of the model; a named model needs none."""
        listed: Any = None
        refused: Refused | None = None
        try:
            # Without need of the list, the chat requests retry often enough.
            listed = await self._connection.get("/models", retries=0 if self._named else None)
        except Refused as error:
            refused = error
        models = _models_of(listed)
        if self._named:
            self._unlisted = "" if self._named in models else _unlisted(self._named, models)
            return models.get(self._named, {"id": self._named})
        if models:
            return next(iter(models.values()))
        if refused is not None:
            told = self._told(refused)
            raise told if refused.sends_on else type(told)(f"{told}; {_NAME_IT}")
        what = "has no model" if _is_list(listed) and not listed["data"] else "lists no models; is its base URL right?"
        raise ServerUnavailable(f"{self._connection.called} {what}; {_NAME_IT}")

    # ------------------------------------------------------------------ what its chat can do

    async def _chats(self, begin: Sequence[Turn], *, shown: bool) -> bool:
        """Find out whether the server has a chat template for its model, and whether the model thinks.

        Args:
            begin: The beginning of the prompt that follows.
            shown: Whether it is known what the template accepts: others may refuse a system text.
        """
        try:
            await self._try(trials.hello(begin if shown else ()), chat=True)
        except RequestRejected as refused:
            if self._chat:
                raise
            self._parameters = Parameters()
            try:
                await self._try(trials.hello(begin), chat=False)
            except RequestRejected:
                raise refused from None
            return False
        return True

    async def _render(self, messages: list[Message]) -> Rendering:
        """Have the server's chat template write messages; if it does not show them, count their tokens."""
        if (shown := await self._aside.shown(messages)) is not None:
            return shown
        body = {"messages": messages, **self._template()}
        answer = await self._ask("/chat/completions", body, {LIMIT: trials.TOKENS})
        self.tried = [*self.tried, answer]
        return answer.prompt_tokens

    def _template(self) -> dict[str, Any]:
        """Return the template's arguments, if the server passes them on; explicit settings are always sent."""
        reasoning = self._reasoning
        told = reasoning.template_arguments if self._kind in dialects.TEMPLATED else dict(reasoning.template)
        return {"chat_template_kwargs": told} if told else {}

    # ------------------------------------------------------------------ requests for a text

    async def generate(self, generation: Generation) -> Generated:
        """Ask the server; cancelling closes the connection, which stops the generation."""
        return await self._complete(generation, self._dialect)

    async def _try(self, *what: Any, **how: Any) -> Generated:
        """Send a trial request; see :meth:`_complete`."""
        generated = await self._complete(*what, **how)
        self.tried = [*self.tried, generated]
        return generated

    async def _complete(
        self, generation: Generation, dialect: Dialect | None = None, *, chat: bool | None = None
    ) -> Generated:
        generation = replace(generation, turns=spoken_to_server(generation.turns), begun=broken(generation.begun))
        values = {"temperature": generation.temperature, "seed": generation.seed, LIMIT: generation.max_tokens}
        if generation.top_p < 1:
            values["top_p"] = generation.top_p
        held: dict[str, Any] = {}
        if generation.constraint is not None and dialect is not None:
            if (kind := generation.constraint.kind) not in dialect:
                raise RequestRejected(f"{self.name}: cannot be asked for {kind.value} any more")
            held = dialect[kind](generation.constraint.value)
        if self.chat if chat is None else chat:
            return await self._chat_on(generation, values, held)
        stops = {"stop": list(generation.stops)} if generation.stops else {}
        body = {"prompt": generation.prompt, **held}
        return await self._ask("/completions", body, {**values, **stops}, generation.until)

    async def _chat_on(self, generation: Generation, values: dict[str, Any], held: Mapping[str, Any]) -> Generated:
        """Ask for the next message, with room for thoughts before it."""
        thinks = self._thoughts is not None or bool(self._reasoning.thinking)
        if thinks:
            values[LIMIT] += self._reasoning.tokens
        body: dict[str, Any] = {**self._template(), **held}
        if self._reasoning.effort:
            body["reasoning_effort"] = self._reasoning.effort
        # A thinking model would have to think in the middle of its message.
        continued = generation.begun and self._kind in dialects.CONTINUING and not thinks
        if continued:
            body |= {"continue_final_message": True, "add_generation_prompt": False}
        begun = generation.begun if continued else ""

        async def ask(showing: Showing) -> Generated:
            messages = with_images(chat_messages(generation.turns, begun, self._layout, showing))
            return await self._ask("/chat/completions", {**body, "messages": messages}, values, generation.until)

        generated = await self._told_apart(await self._with_pictures(ask, self.shown(generation)))
        if self._thoughts is None and (found := trials.thoughts(generated)):
            self._thoughts = found
            await self.learn(thoughts=found)
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
            if isinstance(error, ServerUnavailable) and not speaks_of_pictures(str(error)):
                raise
            refused = error
        else:
            return replace(generated, pictures=len(shown), picture_tokens=sum(one.tokens for one in shown))
        try:
            generated = await ask({})
        except LanguageModelError:  # the reason was another
            raise refused from None
        if speaks_of_this_picture(str(refused)):  # another one may do, in another run
            self.known, self.sees = replace(self.known, sees=False), False
        else:
            await self.learn(sees=False)
        _log.warning("%s; it is shown no pictures from now on", refused)
        return generated

    async def _told_apart(self, generated: Generated) -> Generated:
        """Correct reasoning parsers (vLLM's, too) that fail if the chat template opens or closes the thought."""
        if not generated.reasoning or self._kind not in dialects.TEMPLATED:
            return generated
        nothing_said = not (generated.text or generated.calls)
        if self._reasoning.thinking is False and nothing_said and generated.finish_reason == "stop":
            return replace(generated, text=generated.reasoning, reasoning="")  # it missed the end of the thought
        if generated.reasoning_tokens is None and generated.output_tokens is not None:  # it missed the start
            said = await self._aside.counted({"prompt": generated.text, "add_special_tokens": False})
            if said is not None:
                return replace(generated, reasoning_tokens=max(0, generated.output_tokens - said))
        return generated

    async def _ask(
        self, path: str, body: Mapping[str, Any], values: Mapping[str, Any], until: Until | None = None
    ) -> Generated:
        """Send a request, and repeat it without the parameters that the server refuses.

        Args:
            path: Path of the request.
            body: Fields sent unchanged.
            values: Parameters, sent under the server's names for them.
            until: See :class:`Generation`.
        """
        while True:
            sent = self._parameters.named(values)
            try:
                return await self._post(path, body, sent, values[LIMIT], until)
            except Refused as error:
                refused = error
            if not self._learns(refused, values, sent):
                break
        # The refusal names the wrong parameter or none: drop all optional ones together, once.
        bare = self._parameters.without_optional(refused, sent)
        if bare != sent:
            try:
                generated = await self._post(path, body, bare, values[LIMIT], until)
            except Refused:
                pass  # the reason was another: report the first refusal
            else:
                self._parameters.leave_out(sent.keys() - bare.keys())
                self._warn(refused)
                return generated
        raise self._told(refused)

    async def _post(
        self, path: str, body: Mapping[str, Any], sent: dict[str, Any], max_tokens: int, until: Until | None
    ) -> Generated:
        """Send a request once."""
        try:
            whole = {"model": self._model, **sent, **body, **self._extra}
            generated = read_answer(await self._answer(path, whole, max_tokens, until))
        except Refused as error:
            refused = error
        else:
            self._parameters.taken(sent)
            return generated
        if refused.is_cut:
            return Generated("", "length")
        if refused.is_too_long:
            raise await self._too_long(refused, body, max_tokens)
        raise refused

    async def _answer(self, path: str, body: dict[str, Any], most: int, until: Until | None) -> Any:
        """Return the answer to a request; one that is streamed ends where it says all that is wanted.

        A stream that breaks off is asked for again as a whole: the server, or a proxy, may not be able to stream.
        """
        if until is None or not self._streaming:
            return await self._connection.post(path, body)
        parts = Parts(until, most)
        try:
            answer = await self._connection.stream(path, {**self._streaming, **body}, parts.add)
        except ServerUnavailable:
            if not parts.begun:
                raise
        except Refused as refused:
            if refused.is_too_long or not self._streams_less(refused):
                raise
            return await self._answer(path, body, most, until)
        else:
            if answer is not None:
                return answer
        return await self._connection.post(path, body) if parts.is_half else parts.answer()

    def _streams_less(self, refused: Refused) -> bool:
        """Learn from a refusal that names what is sent for streaming; return whether it does."""
        named = set(filter(refused.mentions, self._streaming))
        if "stream" in named or refused.mentions("streaming"):
            named = set(self._streaming)
        self._streaming = {name: value for name, value in self._streaming.items() if name not in named}
        if named:
            _log.warning("%s; from now on without %s", self._told(refused), ", ".join(sorted(named)))
        return bool(named)

    def _learns(self, refused: Refused, values: Mapping[str, Any], sent: Mapping[str, Any]) -> bool:
        before = self._parameters.status()
        again = self._parameters.learn(refused, values, sent)
        if self._parameters.status() != before:
            self._warn(refused)
        return again

    def _warn(self, refused: Refused) -> None:
        changes = "; ".join(f"{what}: {which}" for what, which in self._parameters.status().items())
        _log.warning("%s; from now on %s", self._told(refused), changes)

    def _told(self, refused: Refused) -> LanguageModelError:
        told = refused.told(self._connection.called, self._connection.redacted(refused.message))
        of_model = refused.status == 404 or refused.mentions(self._model)
        return type(told)(f"{told}; {self._unlisted}") if self._unlisted and of_model else told

    async def _too_long(self, refused: Refused, body: Mapping[str, Any], max_tokens: int) -> PromptTooLong:
        context = self.context or refused.context()
        tokens = await self._aside.counted(body) or refused.prompt_tokens(max_tokens, context)
        return PromptTooLong(max(1, tokens + max_tokens - context), context)

    async def close(self) -> None:
        """Close all connections."""
        await self._connection.close()

    def status(self) -> Mapping[str, str]:
        """Describe the model, the layout of prompts, whether it thinks, and what the server refuses."""
        said = {"model": self._model or "the server's first", "prompts": "chat" if self.chat else "completion"}
        if self.known.markers is False and not self.chat:
            said["prompts"] += f": {NO_CHAT}"
        if self._is_recalled:
            said["what it can do"] = "remembered; `reactree llm forget` has it tried again"
        elif self._puts_off:
            said["what it can do"] = "tried with the first prompt"
        if self.chat:
            said["chat layout"] = self._layout.in_words()
            said["thinks"] = self._thoughts.value if self._thoughts else "no"
            if self._reasoning.thinking is not None:
                said["told to think"] = "yes" if self._reasoning.thinking else "no"
        return {**said, **self._parameters.status()}


def _is_list(listed: Any) -> bool:
    return isinstance(listed, Mapping) and isinstance(listed.get("data"), list)


def _models_of(listed: Any) -> dict[str, dict[str, Any]]:
    """Return the models of a list by name; none if it is not such a list."""
    models = listed["data"] if _is_list(listed) else []
    return {str(one["id"]): dict(one) for one in models if isinstance(one, Mapping) and one.get("id")}


def _unlisted(model: str, models: Collection[str]) -> str:
    """Say what a server has instead of a model."""
    if not models:
        return "it has no list of models either: is its base URL right?"
    some = ", ".join(list(models)[:5]) + (" …" if len(models) > 5 else "")
    return f"it lists no model '{model}', but {some}"
