"""A local server that speaks the OpenAI protocol, obeys constraints or not, and fails in the ways servers do."""

from __future__ import annotations

import base64
import itertools
import json
import os
import queue
import re
import select
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from reactree_ros.agent.grammar import parse_decision
from reactree_ros.agent.kinds.expand import Expand
from reactree_ros.llm.engine import ConstraintKind

GRAMMAR, REGEX, JSON_SCHEMA, CHOICE, TOOLS = ConstraintKind
NO_TEMPLATE = "default chat template is no longer allowed, so you must provide a chat template"
#: Longest time for which a request that is never answered is held, in seconds.
HELD = 60.0
#: What a model that thinks does think, before anything it says; more words than a trial has tokens.
THOUGHT = "Let me see. " * 12 + "That is it."


@dataclass
class Request:
    method: str
    path: str
    headers: Mapping[str, str]
    body: Any

    @property
    def prompt(self) -> str:
        if "messages" in self.body:
            return written(self.body["messages"])
        return str(self.body.get("prompt", ""))

    @property
    def pictures(self) -> list[bytes]:
        """The bytes of the pictures in it, in order; they come as addresses that hold them, or not at all."""
        urls = [one["image_url"]["url"] for one in self._parts if one["type"] == "image_url"]
        found = [re.fullmatch(r"data:image/(?:png|jpeg);base64,([A-Za-z0-9+/]+=*)", url) for url in urls]
        return [base64.b64decode(one[1], validate=True) for one in found if one]

    @property
    def _parts(self) -> list[dict[str, Any]]:
        contents = [message["content"] or "" for message in self.body.get("messages", ())]
        return [part for content in contents if not isinstance(content, str) for part in content]

    @property
    def is_a_trial(self) -> bool:
        """Whether it only finds out what the server can do."""
        return not {"Hello", "Say a word:", "Look."}.isdisjoint(self.prompt.split("\n"))

    @property
    def is_a_chat(self) -> bool:
        return self.path.endswith("/chat/completions")

    @property
    def limit(self) -> int:
        return int(self.body.get("max_tokens") or self.body.get("max_completion_tokens") or 16)


class Exchange:
    def __init__(self, peer: Peer, handler: BaseHTTPRequestHandler, request: Request) -> None:
        self.peer, self.handler, self.request = peer, handler, request

    def reply(self, status: int, value: Any, headers: Mapping[str, str] | None = None) -> None:
        self.raw(status, json.dumps(value).encode(), "application/json", headers)

    def raw(self, status: int, body: bytes, kind: str, headers: Mapping[str, str] | None = None) -> None:
        self.handler.send_response(status)
        self.handler.send_header("Content-Type", kind)
        self.handler.send_header("Content-Length", str(len(body)))
        for name, value in (headers or {}).items():
            self.handler.send_header(name, value)
        self.handler.end_headers()
        self.handler.wfile.write(body)

    def hang_up(self) -> None:
        self.handler.close_connection = True
        self.handler.connection.shutdown(socket.SHUT_RDWR)

    def reset(self) -> None:
        self.handler.close_connection = True
        self.handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        os.close(self.handler.connection.detach())

    def hold(self) -> None:
        """Keep the client waiting until it goes away or the peer is stopped."""
        self.handler.close_connection = True
        connection = self.handler.connection
        self.peer.held.put(self.request)
        ready, _, _ = select.select([connection, self.peer.stopping], [], [], HELD)
        if connection in ready:
            self.peer.gone.put(self.request)

    def begin(self, kind: str) -> None:
        self.handler.send_response(200)
        self.handler.send_header("Content-Type", kind)
        self.handler.send_header("Content-Length", "1000000")
        self.handler.end_headers()
        self.handler.wfile.flush()

    def begin_stream(self, kind: str = "text/event-stream; charset=utf-8") -> None:
        self.handler.close_connection = True  # the end of the stream is that of the connection
        self.handler.send_response(200)
        self.handler.send_header("Content-Type", kind)
        self.handler.send_header("Connection", "close")
        self.handler.end_headers()

    def send_part(self, value: Any) -> None:
        self.handler.wfile.write(f"data: {value if isinstance(value, str) else json.dumps(value)}\n\n".encode())
        self.handler.wfile.flush()


#: What a peer does with a request.
Behaviour = Callable[[Exchange], None]
#: Writes the messages of a chat as one text, or refuses them.
Template = Callable[[Sequence[Mapping[str, str]]], str]


class TemplateRefuses(Exception): ...


def written(messages: Sequence[Mapping[str, str]]) -> str:
    """A template that takes everything; each picture is a hundred words, of its own address."""
    return "\n".join(map(_content, messages))


def _content(message: Mapping[str, Any]) -> str:
    content = message["content"] or ""  # a call has none
    if isinstance(content, str):
        return content
    return "\n".join(
        " ".join([part["image_url"]["url"]] * 100) if "image_url" in part else part["text"] for part in content
    )


def takes_no_system_role(messages: Sequence[Mapping[str, str]]) -> str:
    """Refuse a system message, as Gemma's does."""
    if messages[0]["role"] == "system":
        raise TemplateRefuses("System role not supported")
    return alternates(messages)


def alternates(messages: Sequence[Mapping[str, str]]) -> str:
    """Refuse roles that do not take turns, as most do."""
    roles = [message["role"] for message in messages if message["role"] != "system"]
    if any(role != ("user", "assistant")[number % 2] for number, role in enumerate(roles)):
        raise TemplateRefuses("Conversation roles must alternate user/assistant/user/assistant/...")
    return written(messages)


def drops_the_system_message(messages: Sequence[Mapping[str, str]]) -> str:
    return written([message for message in messages if message["role"] != "system"])


def moves_the_system_message(messages: Sequence[Mapping[str, str]]) -> str:
    """Write the system text into the last message, as Mistral's does."""
    system = [message for message in messages if message["role"] == "system"]
    others = [message for message in messages if message["role"] != "system"]
    return written([*others[:-1], *system, others[-1]])


def chatml(messages: Sequence[Mapping[str, str]]) -> str:
    """The template that llama.cpp takes for a model without one."""
    return "".join(f"<|im_start|>{one['role']}\n{one['content']}<|im_end|>\n" for one in messages)


def says(text: str, *, finish: str = "stop", thought: str = "") -> Behaviour:
    return lambda exchange: exchange.reply(200, exchange.peer.completion(exchange.request, text, finish, thought))


def streams(
    text: str,
    *,
    more: str = "",
    thought: str = "",
    then: Behaviour | None = None,
    counts: str = "",
    finish: str = "stop",
) -> Behaviour:
    """Answer with a stream of a text, a word a part; as a whole where none was asked for.

    Args:
        text: What is said.
        more: What is said again and again after it, as long as the client listens.
        thought: What is thought before, in a field of its own.
        then: What is done instead of ending it.
        counts: Where each part has the tokens so far: ``usage`` (vLLM) or ``timings`` (llama.cpp); empty: only the end.
    """

    def stream(exchange: Exchange) -> None:
        if not exchange.request.body.get("stream"):
            says(text, thought=thought)(exchange)
            return
        exchange.begin_stream()
        words = [("reasoning_content", one) for one in pieces(thought)] + [("content", one) for one in pieces(text)]
        for number, (field, word) in enumerate(
            itertools.chain(words, itertools.repeat(("content", more)) if more else ())
        ):
            delta = {"delta": {field: word}} if exchange.request.is_a_chat else {"text": word}
            counted = exchange.peer.counted(exchange.request, number + 1, counts)
            try:
                exchange.send_part({"choices": [{"index": 0, "finish_reason": None, **delta}], **counted})
            except OSError:  # it has heard enough before all was said
                exchange.peer.gone.put(exchange.request)
                raise
        if then is not None:
            then(exchange)
            return
        exchange.send_part({"choices": [{"index": 0, "finish_reason": "stop", "delta": {}, "text": ""}]})
        exchange.send_part({"choices": [], **exchange.peer.counted(exchange.request, len(words), "usage")})
        exchange.send_part("[DONE]")

    return stream


def pieces(text: str) -> list[str]:
    return re.findall(r"\n|[^\S\n]*\S+", text)


def never_answers(exchange: Exchange) -> None:
    exchange.hold()


#: Ends no stream, and notes when the client goes away.
holds = never_answers


def fails(status: int, message: str = "something broke", **more: Any) -> Behaviour:
    """Answer with an error; a client that asks again need not wait."""
    error = {"error": {"message": message, "type": "Error", "param": None, "code": status, **more}}
    return lambda exchange: exchange.reply(status, error, {"Retry-After": "0", "Retry-After-Ms": "1"})


def answers(value: Any, status: int = 200) -> Behaviour:
    return lambda exchange: exchange.reply(status, value)


def answer(message: dict[str, Any], finish: str | None = "stop", **usage: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "finish_reason": finish, "message": message}], "usage": usage}


def _error(message: str, **more: Any) -> dict[str, Any]:
    return {"error": {"message": message, "type": "invalid_request_error", **more}}


def _forbidden(name: str) -> dict[str, Any]:
    return {"type": "extra_forbidden", "loc": ["body", name], "msg": "Extra inputs are not permitted"}


_UNSUPPORTED = "Unsupported parameter: '{}' is not supported with this model."
_ONE_VALUE = "Unsupported value: '{}' does not support 0.0 with this model. Only the default (1) is supported."
_LITELLM = "litellm.UnsupportedParamsError: hosted does not support parameters: ['{}'], for model=tiny."
#: How servers refuse a parameter: the status, and what they answer.
LACKS: dict[str, tuple[int, Callable[[str], Any]]] = {
    "OpenAI": (400, lambda name: _error(_UNSUPPORTED.format(name), param=name, code="unsupported_parameter")),
    "FastAPI": (422, lambda name: {"detail": [_forbidden(name)]}),
    "Mistral": (422, lambda name: {"object": "error", "message": {"detail": [_forbidden(name)]}, "param": None}),
    "Groq": (400, lambda name: _error(f"property '{name}' is unsupported")),
    "Gemini": (400, lambda name: [_error(f'Invalid JSON payload. Unknown name "{name}": Cannot find field.')]),
    "xAI": (400, lambda name: {"code": "invalid argument", "error": f"Argument not supported on this model: {name}"}),
    "LiteLLM": (400, lambda name: _error(_LITELLM.format(name), type="None", param="None", code="400")),
}
_OF_A_VALUE: dict[str, tuple[int, Callable[[str], Any]]] = {
    "OpenAI, of a value": (400, lambda name: _error(_ONE_VALUE.format(name), param=name, code="unsupported_value")),
    "FastAPI, of a range": (
        422,
        lambda name: {"detail": [{"type": "greater_than", "loc": ["body", name, "float"], "msg": "Input is too low"}]},
    ),
}


def lacks(name: str, words: str = "OpenAI") -> Behaviour:
    status, said = (LACKS | _OF_A_VALUE)[words]
    return answers(said(name), status)


def babbles(exchange: Exchange) -> None:
    exchange.raw(200, b"{{ not JSON", "application/json")


def shows_a_page(exchange: Exchange) -> None:
    exchange.raw(200, b"<html>Welcome</html>", "text/html")


def breaks_off(exchange: Exchange) -> None:
    exchange.begin("application/json")
    exchange.handler.wfile.write(b'{"choices": [')
    exchange.handler.wfile.flush()
    exchange.hang_up()


def hangs_up(exchange: Exchange) -> None:
    exchange.hang_up()


def resets(exchange: Exchange) -> None:
    """Close so that the client is told of a reset, as the system does for a process that was killed."""
    exchange.reset()


def says_the_key(exchange: Exchange) -> None:
    fails(400, f"Incorrect key: {exchange.request.headers.get('authorization', '')}")(exchange)


_MAXIMUM = "This model's maximum context length is {context} tokens. However, you requested "
#: How servers refuse a prompt that is too long: message, status, and what stands beside it.
TOO_LONG: dict[str, tuple[str, int, dict[str, Any]]] = {
    "vllm": (
        f"{_MAXIMUM}{{limit}} output tokens and your prompt contains at least {{least}} input tokens, for a total of "
        "at least {least_total} tokens. (parameter=input_tokens, value={least})",
        400,
        {"type": "BadRequestError", "param": "input_tokens"},
    ),
    "llamacpp": ("the request exceeds the available context size", 400, {"type": "exceed_context_size_error"}),
    "sglang": (
        "Requested token count exceeds the model's maximum context length of {context} tokens. You requested a total "
        "of {total} tokens: {tokens} tokens from the input messages and {limit} tokens for the completion.",
        400,
        {},
    ),
    "tgi": (
        "Input validation error: `inputs` tokens + `max_new_tokens` must be <= {context}. Given: {tokens} `inputs` "
        "tokens and {limit} `max_new_tokens`",
        422,
        {},
    ),
    "openai": (
        f"{_MAXIMUM}{{total}} tokens ({{tokens}} in the messages, {{limit}} in the completion).",
        400,
        {"type": "invalid_request_error", "code": "context_length_exceeded"},
    ),
}


class Peer:
    """A server at ``http://127.0.0.1:PORT/v1``.

    Its tokens are the words of a text. It says what :attr:`say` makes of the prompt; held to a constraint that it
    obeys, it says that within the constraint: for a choice, the first option that :attr:`choose` likes.

    Attributes:
        requests: Every request, in order.
        held: Requests that are not answered, as they come.
        gone: Requests whose client went away while it waited, or heard a stream.
        script: What is done with the next requests for a text, one after the other; then it answers as it should.
        on_models: What is done with a request for the models, instead of an answer.
    """

    def __init__(
        self,
        *,
        owned_by: str = "vllm",  # what it calls itself; its fields for constraints are that server's
        speaks: str = "",  # whose fields it understands, where that is not what it calls itself
        obeys: Iterable[ConstraintKind] = tuple(ConstraintKind),  # it ignores the others silently
        refuses: Iterable[ConstraintKind] = (),
        chats: bool = False,  # whether the model has a chat template
        template: Template = written,
        markers: Sequence[str] = (),  # the markers that are tokens of the model
        build: str = "b1",  # that llama.cpp's server tells
        completes: bool = True,  # whether it knows /v1/completions
        lacks: Mapping[str, Behaviour] | None = None,  # parameters that it does not take, and how it says so
        thinks: str = "",  # where a model leaves its thoughts: in its ``text``, ``hidden``, or the field of that name
        calls: str = "",  # the field in which it calls a tool instead of saying something
        context: int | None = 100_000,
        key: str = "",
        blind: Behaviour | None = None,  # what it does with a request that holds pictures; None: it sees them
        modalities: Mapping[str, bool] | None = None,  # what llama.cpp's server tells that its model takes
        models: Sequence[str] = ("tiny",),
        say: Callable[[str], str] = lambda prompt: "Hello there.",
        choose: Callable[[Sequence[str]], str] = lambda options: options[0],
        port: int = 0,
    ) -> None:
        self.owned_by, self.speaks, self.build, self.key = owned_by, speaks or owned_by, build, key
        self.obeys, self.refuses = frozenset(obeys), frozenset(refuses)
        self.chats, self.completes, self.context, self.models = chats, completes, context, models
        self.template, self.markers, self.lacks = template, markers, dict(lacks or {})
        self.thinks, self.calls, self.blind, self.modalities = thinks, calls, blind, modalities
        self.say, self.choose = say, choose
        self.requests: list[Request] = []
        self.held: queue.Queue[Request] = queue.Queue()
        self.gone: queue.Queue[Request] = queue.Queue()
        self.script: deque[Behaviour] = deque()
        self.on_models: Behaviour | None = None
        self.port = port
        self._server: _Server | None = None
        self.start()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def asked(self) -> list[Request]:
        """The requests for a text, without those that only find out what the server can do."""
        return [one for one in self.requests if one.path.endswith("/completions") and not one.is_a_trial]

    def start(self) -> None:
        """Listen; again at the same port after :meth:`stop`."""
        self.stopping, self._stop = socket.socketpair()
        self._server = _Server(("127.0.0.1", self.port), self)
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        for connection in self.close_port():
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def close_port(self) -> list[socket.socket]:
        if self._server is None:
            return []
        server, self._server = self._server, None
        self._stop.close()
        server.shutdown()
        self._thread.join(10)
        server.server_close()
        return list(server.connections)

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # ------------------------------------------------------------------ what it answers

    def answer(self, exchange: Exchange) -> None:
        request = exchange.request
        self.requests.append(request)
        if self.key and request.headers.get("authorization") != f"Bearer {self.key}":
            fails(401, "Unauthorized")(exchange)
        elif request.path == "/v1/models":
            (self.on_models or answers(self.list_of_models()))(exchange)
        elif request.path == "/version" and self.owned_by == "vllm":
            answers({"version": "0.32.0"})(exchange)
        elif request.path == "/tokenize" and self.owned_by in ("vllm", "llamacpp"):
            self.rendering(exchange, lambda text: {"count": len(text.split()), "tokens": self.tokens(text)})
        elif request.path == "/detokenize" and self.owned_by == "vllm":
            answers({"prompt": self.text_of(request.body["tokens"])})(exchange)
        elif request.path == "/props" and self.owned_by == "llamacpp":
            told = {} if self.modalities is None else {"modalities": dict(self.modalities)}
            answers({"build_info": self.build, **told})(exchange)
        elif request.path == "/apply-template" and self.owned_by == "llamacpp":
            self.rendering(exchange, lambda text: {"prompt": text})
        elif request.path in ("/v1/completions", "/v1/chat/completions"):
            (self.script.popleft() if self.script and not request.is_a_trial else self.text)(exchange)
        else:
            fails(404, "Not Found")(exchange)

    def tokens(self, text: str) -> list[int]:
        """Return the tokens of a text: a marker that is one, and each other character."""
        numbers = {marker: 0xE000 + number for number, marker in enumerate(self.markers)}
        parts = re.split(f"({'|'.join(map(re.escape, self.markers))})", text) if self.markers else [text]
        return [token for part in parts for token in ([numbers[part]] if part in numbers else map(ord, part))]

    def text_of(self, tokens: Sequence[int]) -> str:
        return "".join(self.markers[one - 0xE000] if one >= 0xE000 else chr(one) for one in tokens)

    def list_of_models(self) -> dict[str, Any]:
        more = {"max_model_len": self.context} if self.owned_by == "vllm" else {}
        if self.owned_by == "llamacpp":
            more = {"meta": {"n_ctx": self.context}}
        models = [{"id": name, "object": "model", "owned_by": self.owned_by, **more} for name in self.models]
        return {"object": "list", "data": models}

    def rendered(self, request: Request) -> str:
        if "messages" in request.body:
            return self.template(request.body["messages"])
        return request.prompt or str(request.body.get("content", ""))

    def rendering(self, exchange: Exchange, shown: Callable[[str], Any]) -> None:
        """Show what the template makes of messages; vLLM has none for a base model."""
        if "messages" in exchange.request.body and self.owned_by == "vllm" and not self.chats:
            fails(400, NO_TEMPLATE)(exchange)
            return
        try:
            answers(shown(self.rendered(exchange.request)))(exchange)
        except TemplateRefuses as refusal:
            fails(500 if self.speaks == "llamacpp" else 400, str(refusal))(exchange)

    def text(self, exchange: Exchange) -> None:
        request = exchange.request
        if request.body["model"] not in self.models:
            fails(404, f"The model `{request.body['model']}` does not exist.")(exchange)
            return
        if self.blind is not None and request.pictures:
            self.blind(exchange)
            return
        if not self.completes and not request.is_a_chat:
            fails(404, "Not Found")(exchange)
            return
        if request.is_a_chat and not self.chats:
            fails(400, NO_TEMPLATE)(exchange)
            return
        if lacking := next((name for name in request.body if name in self.lacks), None):
            self.lacks[lacking](exchange)
            return
        try:
            tokens, limit = len(self.rendered(request).split()), request.limit
        except TemplateRefuses as refusal:
            fails(500 if self.speaks == "llamacpp" else 400, str(refusal))(exchange)
            return
        if self.context is not None and tokens + limit > self.context:
            if self.owned_by != "llamacpp" or tokens >= self.context:
                self.too_long(exchange, tokens)
                return
            limit = self.context - tokens  # llama.cpp says as much as there is room for
        constraint = constraint_of(request.body, self.speaks)
        if constraint is not None and constraint[0] in self.refuses:
            fails(400, f"{constraint[0].value} is not supported")(exchange)
            return
        held = constraint is not None and constraint[0] in self.obeys
        text = self.within(*constraint, request.prompt) if constraint and held else self.say(request.prompt)
        for stop in request.body.get("stop", ()):
            text = text.partition(stop)[0]
        thought, _ = first_words(self.thought(request, held), limit)
        text, cut = first_words(text, limit - len(thought.split()))
        says(text, finish="length" if cut else "stop", thought=thought)(exchange)

    def thought(self, request: Request, held: bool) -> str:
        """Return what it thinks: nothing where it is held to something from its first token on."""
        told = request.body.get("chat_template_kwargs", {}).get("enable_thinking", True)
        thinks = self.thinks and request.is_a_chat and told and not (held and self.thinks == "text")
        return THOUGHT if thinks else ""

    def too_long(self, exchange: Exchange, tokens: int) -> None:
        limit, context = exchange.request.limit, int(self.context or 0)
        numbers = {"limit": limit, "context": context, "tokens": tokens, "total": tokens + limit}
        numbers |= {"least": context - limit + 1, "least_total": context + 1}  # vLLM stops counting soon
        words, status, more = TOO_LONG.get(self.owned_by, TOO_LONG["openai"])
        message = words.format(**numbers)
        if self.owned_by == "tgi":
            answers({"error": message, "error_type": "validation"}, status)(exchange)
            return
        if self.owned_by == "llamacpp":
            more = {**more, "n_prompt_tokens": tokens, "n_ctx": context}
        fails(status, message, **more)(exchange)

    def within(self, kind: ConstraintKind, value: Any, prompt: str) -> str:
        if kind is CHOICE:
            return self.choose(value)
        if kind is JSON_SCHEMA:
            if "choice" in (fields := value["properties"]):
                enum = fields["choice"].get("enum")
                return json.dumps({"choice": self.choose(enum) if enum else self.say(prompt)})
            return json.dumps({"decision": dict([fields_of(self.say(prompt))])})
        if "Act: " in value:  # a decision
            return self.say(prompt)
        if kind is REGEX:
            options = value.removesuffix(r"\n?").removeprefix("(?:").removesuffix(")")
            return self.choose([re.sub(r"\\(.)", r"\1", option) for option in re.split(r"(?<!\\)\|", options)])
        quoted = re.findall(r'"(?:[^"\\]|\\.)*"', value.removesuffix(r'"\n"?'))
        return self.choose([json.loads(option) for option in quoted])

    def completion(self, request: Request, text: str, finish: str, thought: str = "") -> dict[str, Any]:
        prompt, thinking = len(self.rendered(request).split()), len(thought.split())
        output = thinking + len(text.split())
        usage: dict[str, Any] = {"prompt_tokens": prompt, "completion_tokens": output, "total_tokens": prompt + output}
        if self.owned_by == "vllm":
            usage["prompt_tokens_details"] = {"cached_tokens": prompt // 2}
        if thought and self.thinks != "text":
            usage["completion_tokens_details"] = {"reasoning_tokens": thinking}
        said = {"message": self.message(text, thought)} if request.is_a_chat else {"text": text}
        return {"object": "x", "choices": [{"index": 0, "finish_reason": finish, **said}], "usage": usage}

    def counted(self, request: Request, output: int, where: str) -> dict[str, Any]:
        prompt = len(self.rendered(request).split())
        if where == "timings":
            return {"timings": {"cache_n": prompt // 2, "prompt_n": prompt - prompt // 2, "predicted_n": output}}
        return {"usage": {"prompt_tokens": prompt, "completion_tokens": output}} if where else {}

    def message(self, text: str, thought: str) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": text}
        if thought and self.thinks == "text":
            message["content"] = f"<think>\n{thought}" + (f"\n</think>\n\n{text}" if thought == THOUGHT else "")
        elif thought and self.thinks != "hidden":
            message[self.thinks] = thought
        if not self.calls or not text.startswith(("Think: ", "Act: ", "Expand:")):
            return message
        name, arguments = fields_of(text)
        named = {"Think": "thought", "Act": "skill"}
        call = {"name": name, "arguments": json.dumps({named[name]: arguments} if name in named else arguments)}
        several = [{"id": "call_1", "type": "function", "function": call}]
        return {**message, "content": None, self.calls: several}


def first_words(text: str, limit: int) -> tuple[str, bool]:
    words = re.findall(r"\s*\S+\s*?(?=\s|$)", text)
    return ("".join(words[:limit]), True) if len(words) > limit else (text, False)


def constraint_of(body: Mapping[str, Any], speaks: str) -> tuple[ConstraintKind, Any] | None:
    """Return what a request is held to, by the fields that a server understands."""
    form: Any = body.get("response_format") or {}
    if speaks == "vllm":
        fields = body.get("structured_outputs") or {}
        found = {GRAMMAR: fields.get("grammar"), REGEX: fields.get("regex")}
        found |= {JSON_SCHEMA: fields.get("json"), CHOICE: fields.get("choice")}
    elif speaks == "llamacpp":
        found = {GRAMMAR: body.get("grammar"), JSON_SCHEMA: body.get("json_schema")}
    elif speaks == "sglang":
        found = {GRAMMAR: body.get("ebnf"), REGEX: body.get("regex")}
        found[JSON_SCHEMA] = json.loads(body["json_schema"]) if isinstance(body.get("json_schema"), str) else None
    elif speaks == "tgi":
        value = form.get("value")
        found = {REGEX: value if form.get("type") == "regex" else None}
        found[JSON_SCHEMA] = value if form.get("type") == "json_object" else None
    else:
        found = {JSON_SCHEMA: (form.get("json_schema") or {}).get("schema")}
    return next(((kind, value) for kind, value in found.items() if value is not None), None)


def fields_of(text: str) -> tuple[str, Any]:
    """Return a decision as data: its kind, and what stands in JSON for the rest of it."""
    decision = parse_decision(text)
    if isinstance(decision, Expand):
        return "Expand", {"control_flow": str(decision.control_flow), "subgoals": list(decision.subgoals)}
    return type(decision).__name__, text.partition(": ")[2]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, address: tuple[str, int], peer: Peer) -> None:
        self.peer = peer
        self.connections: set[socket.socket] = set()
        super().__init__(address, _Handler)

    def handle_error(self, *_: object) -> None:
        """A client that went away is not an error of the peer."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def setup(self) -> None:
        super().setup()
        self.server.connections.add(self.connection)

    def finish(self) -> None:
        self.server.connections.discard(self.connection)
        super().finish()

    def _answer(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else {}
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.peer.answer(Exchange(self.server.peer, self, Request(self.command, self.path, headers, body)))

    do_GET = do_POST = _answer

    def log_message(self, *_: object) -> None:
        """Say nothing."""
