"""The client of a server that speaks the OpenAI protocol."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from reactree_ros.llm.chat import ChatLayout, Examples, Message, Rendering, chat_messages, find_layout
from reactree_ros.llm.engine import ConstraintKind, Engine, Generated, Generation
from reactree_ros.llm.markers import broken, spoken_to_server
from reactree_ros.llm.openai import dialects, trials
from reactree_ros.llm.openai.address import read_key, read_url
from reactree_ros.llm.openai.answer import read_answer
from reactree_ros.llm.openai.connection import Connection
from reactree_ros.llm.openai.dialects import DIALECTS, OWNERS, Dialect
from reactree_ros.llm.openai.parameters import LIMIT, NEWER_LIMIT, Parameters
from reactree_ros.llm.openai.refusal import Refused
from reactree_ros.llm.openai.trials import Thoughts
from reactree_ros.llm.port import LanguageModelError, PromptTooLong, RequestRejected, ServerUnavailable
from reactree_ros.llm.reasoning import Reasoning

_log = logging.getLogger(__name__)
_NAME_IT = "if it has no list of models, name the model (--model NAME)"


class OpenAIEngine(Engine):
    """Generates with an OpenAI-compatible server.

    Opening it tries what the server can do: chat, its chat template, thinking, constraints (some servers silently
    ignore one). A parameter that the server refuses is renamed or left out from then on. What the arguments are is told
    by :class:`~reactree_ros.llm.openai.settings.OpenAISettings`.
    """

    loads = False

    def __init__(
        self,
        *,
        base_url: str = "",
        model: str = "",
        api_key_file: str = "",
        chat: bool | None = None,
        examples: Examples | None = None,
        constraints: Iterable[ConstraintKind] | None = None,
        retries: int = 3,
        request_timeout: float = 120.0,
        reasoning: Reasoning | None = None,
        extra_body: Mapping[str, Any] | None = None,
    ) -> None:
        self._connection = Connection(
            key=read_key(api_key_file), url=read_url(base_url), retries=retries, timeout=request_timeout
        )
        self.name = self._connection.name
        self._named = self._model = model
        self._unlisted = ""  # the models it lists instead of the named one
        self._chat = self.chat = chat
        self._configured = None if constraints is None else frozenset(constraints)
        self._reasoning = reasoning or Reasoning()
        self._extra = dict(extra_body or {})
        self._kind = ""
        self._dialect: Dialect = {}
        self._layout, self._examples = ChatLayout(), examples
        self._thoughts: Thoughts | None = None
        self._parameters = Parameters()

    async def open(self) -> None:
        """Connect: find the model, whether it chats, and what the server can do."""
        found = await self._find_model()
        self._model = str(found["id"])
        owner = str(found.get("owned_by") or "")
        self._kind = OWNERS.get(owner, owner)
        self.name = self._connection.name = f"{await self._what_it_is(owner)} at {self._connection.url}"
        self.context = found.get("max_model_len") or (found.get("meta") or {}).get("n_ctx")
        self._parameters = Parameters()
        if self._chat is not False:
            newer = self._kind == "openai" and owner not in dialects.OLDER
            self._parameters = Parameters(NEWER_LIMIT if newer else LIMIT)
            self.chat = await self._chats()
        if self.chat:
            self._layout = replace(await find_layout(self._render), examples=self._examples != "text")
        if self._configured is None:
            self._dialect, self.constraints = await trials.find_dialect(self._try, self._kind)
            return
        self._dialect = DIALECTS.get(self._kind, DIALECTS["vllm"])
        if unknown := self._configured - frozenset(self._dialect):
            names = ", ".join(sorted(kind.value for kind in unknown))
            raise RequestRejected(f"{self.name}: cannot be asked for {names}; leave constraints empty")
        self.constraints = self._configured

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
            raise type(told)(f"{told}; {_NAME_IT}")
        what = "has no model" if _is_list(listed) and not listed["data"] else "lists no models; is its base URL right?"
        raise ServerUnavailable(f"{self._connection.called} {what}; {_NAME_IT}")

    async def _what_it_is(self, owner: str) -> str:
        if self._kind != "vllm":
            return owner or "a server"
        try:
            return f"vllm {(await self._connection.get_aside('/version'))['version']}"
        except (Refused, ServerUnavailable, KeyError, TypeError):
            return "vllm"

    # ------------------------------------------------------------------ what its chat can do

    async def _chats(self) -> bool:
        """Find out whether the server has a chat template for its model, and whether the model thinks."""
        try:
            await self._try(trials.HELLO, chat=True)
        except RequestRejected as refused:
            if self._chat:
                raise
            self._parameters = Parameters()
            try:
                await self._try(trials.HELLO, chat=False)
            except RequestRejected:
                raise refused from None
            return False
        return True

    async def _render(self, messages: list[Message]) -> Rendering:
        """Have the server's chat template write messages; if it does not show them, count their tokens."""
        refused: Refused | None = None
        if self._kind in dialects.RENDERING:
            path, field = dialects.RENDERING[self._kind]
            body = {"model": self._model, "messages": messages, "add_generation_prompt": False, **self._template()}
            try:
                rendering: Rendering = (await self._connection.post_aside(path, body))[field]
                return rendering
            except Refused as error:
                refused = error if error.status in (400, 422, 500) else None  # other codes: the path is unknown
            except (ServerUnavailable, KeyError, TypeError):
                pass
        if refused is not None:
            raise RequestRejected(f"{self.name} answered {refused.how}: {self._connection.redacted(refused.message)}")
        body = {"messages": messages, **self._template()}
        answer = await self._ask("/chat/completions", body, {LIMIT: trials.HELLO.max_tokens})
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
            held = dialect[generation.constraint.kind](generation.constraint.value)
        if self.chat if chat is None else chat:
            return await self._chat_on(generation, values, held)
        stops = {"stop": list(generation.stops)} if generation.stops else {}
        return await self._ask("/completions", {"prompt": generation.prompt, **held}, {**values, **stops})

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
        body["messages"] = chat_messages(generation.turns, generation.begun if continued else "", self._layout)
        generated = await self._told_apart(await self._ask("/chat/completions", body, values))
        self._thoughts = self._thoughts or trials.thoughts(generated)
        return generated

    async def _told_apart(self, generated: Generated) -> Generated:
        """Correct reasoning parsers (vLLM's, too) that fail if the chat template opens or closes the thought."""
        if not generated.reasoning or self._kind not in dialects.TEMPLATED:
            return generated
        nothing_said = not (generated.text or generated.calls)
        if self._reasoning.thinking is False and nothing_said and generated.finish_reason == "stop":
            return replace(generated, text=generated.reasoning, reasoning="")  # it missed the end of the thought
        if generated.reasoning_tokens is None and generated.output_tokens is not None:  # it missed the start
            said = await self._counted({"prompt": generated.text, "add_special_tokens": False})
            if said is not None:
                return replace(generated, reasoning_tokens=max(0, generated.output_tokens - said))
        return generated

    async def _ask(self, path: str, body: Mapping[str, Any], values: Mapping[str, Any]) -> Generated:
        """Send a request, and repeat it without the parameters that the server refuses.

        Args:
            path: Path of the request.
            body: Fields sent unchanged.
            values: Parameters, sent under the server's names for them.
        """
        while True:
            sent = self._parameters.named(values)
            try:
                return await self._post(path, body, sent, values[LIMIT])
            except Refused as error:
                refused = error
            if not self._learns(refused, values, sent):
                break
        # The refusal names the wrong parameter or none: drop all optional ones together, once.
        bare = self._parameters.without_optional(refused, sent)
        if bare != sent:
            try:
                generated = await self._post(path, body, bare, values[LIMIT])
            except Refused:
                pass  # the reason was another: report the first refusal
            else:
                self._parameters.leave_out(sent.keys() - bare.keys())
                self._warn(refused)
                return generated
        raise self._told(refused)

    async def _post(self, path: str, body: Mapping[str, Any], sent: dict[str, Any], max_tokens: int) -> Generated:
        """Send a request once."""
        try:
            answer = await self._connection.post(path, {"model": self._model, **sent, **body, **self._extra})
            generated = read_answer(answer)
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
        tokens = await self._counted(body) or refused.prompt_tokens(max_tokens, context)
        return PromptTooLong(max(1, tokens + max_tokens - context), context)

    async def _counted(self, body: Mapping[str, Any]) -> int | None:
        """Have the server count the tokens of a prompt, if it can."""
        if self._kind != "vllm":
            return None
        try:
            counted = await self._connection.post_aside("/tokenize", {"model": self._model, **body})
            return int(counted["count"])
        except (Refused, ServerUnavailable, KeyError, TypeError):
            return None

    async def close(self) -> None:
        """Close all connections."""
        await self._connection.close()

    def status(self) -> Mapping[str, str]:
        """Describe the model, the layout of prompts, whether it thinks, and what the server refuses."""
        said = {"model": self._model or "the server's first", "prompts": "chat" if self.chat else "completion"}
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
