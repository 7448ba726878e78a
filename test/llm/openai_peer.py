"""A local server that speaks the OpenAI protocol, obeys constraints or not, and fails in the ways servers do."""

from __future__ import annotations

import json
import queue
import re
import select
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from reactree_ros.agent.decision import Expand
from reactree_ros.agent.parser import parse_decision
from reactree_ros.llm.engine import ConstraintKind

GRAMMAR, REGEX, JSON_SCHEMA, CHOICE = (
    ConstraintKind.GRAMMAR,
    ConstraintKind.REGEX,
    ConstraintKind.JSON_SCHEMA,
    ConstraintKind.CHOICE,
)
#: Longest time for which a request that is never answered is held, in seconds.
HELD = 60.0


@dataclass
class Request:
    """What came in."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: Any

    @property
    def prompt(self) -> str:
        """The prompt; of a chat, the contents of its messages."""
        if "messages" in self.body:
            return "\n".join(message["content"] for message in self.body["messages"])
        return str(self.body.get("prompt", ""))

    @property
    def is_a_trial(self) -> bool:
        """Whether it only finds out what the server can do."""
        return self.prompt.strip() in ("Hello", "Say a word:")

    @property
    def limit(self) -> int:
        return int(self.body.get("max_tokens") or self.body.get("max_completion_tokens") or 16)


class Exchange:
    """One request and the ways to answer it."""

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

    def hold(self) -> None:
        """Keep the client waiting until it goes away or the peer is stopped."""
        self.handler.close_connection = True
        connection = self.handler.connection
        self.peer.held.put(self.request)
        ready, _, _ = select.select([connection, self.peer.stopping], [], [], HELD)
        if connection in ready:
            self.peer.gone.put(self.request)


#: What a peer does with a request.
Behaviour = Callable[[Exchange], None]


def says(text: str, *, finish: str = "stop") -> Behaviour:
    """Answer with a text, whatever was asked."""
    return lambda exchange: exchange.reply(200, exchange.peer.completion(exchange.request, text, finish))


def fails(status: int, message: str = "something broke", **more: Any) -> Behaviour:
    """Answer with an error; a client that asks again need not wait."""
    error = {"error": {"message": message, "type": "Error", "param": None, "code": status, **more}}
    return lambda exchange: exchange.reply(status, error, {"Retry-After": "0", "Retry-After-Ms": "1"})


def answers(value: Any, status: int = 200) -> Behaviour:
    """Answer with any JSON."""
    return lambda exchange: exchange.reply(status, value)


def babbles(exchange: Exchange) -> None:
    """Answer with what is no JSON, though it says so."""
    exchange.raw(200, b"{{ not JSON", "application/json")


def shows_a_page(exchange: Exchange) -> None:
    """Answer with a web page, as proxies do."""
    exchange.raw(200, b"<html>Welcome</html>", "text/html")


def breaks_off(exchange: Exchange) -> None:
    """Send half a message, then close."""
    handler = exchange.handler
    handler.send_response(200)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"choices": [')
    handler.wfile.flush()
    exchange.hang_up()


def hangs_up(exchange: Exchange) -> None:
    """Close without a word."""
    exchange.hang_up()


def never_answers(exchange: Exchange) -> None:
    """Keep the client waiting."""
    exchange.hold()


def says_the_key(exchange: Exchange) -> None:
    """Echo the client's key in an error."""
    fails(400, f"Incorrect key: {exchange.request.headers.get('authorization', '')}")(exchange)


class Peer:
    """A server at ``http://127.0.0.1:PORT/v1``.

    Its tokens are the words of a text. It says what :attr:`say` makes of the prompt; held to a constraint that it
    obeys, it says that within the constraint: for a choice, the first option that :attr:`choose` likes.

    Args:
        owned_by: What it calls itself; its fields for constraints are that server's.
        speaks: Whose fields it understands, where that is not what it calls itself.
        obeys: The constraints it obeys; it ignores the others silently.
        refuses: The constraints it answers with an error.
        chats: Whether the model has a chat template.
        completes: Whether it knows /v1/completions.
        context: Tokens that prompt and reply may have together.
        key: The key it wants; empty: none.
        port: Where; 0: anywhere.

    Attributes:
        requests: Every request, in order.
        held: Requests that are not answered, as they come.
        gone: Requests whose client went away while it waited.
        script: What is done with the next requests for a text, one after the other; then it answers as it should.
        on_models: What is done with a request for the models, instead of an answer.
    """

    def __init__(
        self,
        *,
        owned_by: str = "vllm",
        speaks: str = "",
        obeys: Iterable[ConstraintKind] = tuple(ConstraintKind),
        refuses: Iterable[ConstraintKind] = (),
        chats: bool = False,
        completes: bool = True,
        context: int | None = 100_000,
        key: str = "",
        models: Sequence[str] = ("tiny",),
        say: Callable[[str], str] = lambda prompt: "Hello there.",
        choose: Callable[[Sequence[str]], str] = lambda options: options[0],
        port: int = 0,
    ) -> None:
        self.owned_by, self.speaks = owned_by, speaks or owned_by
        self.obeys, self.refuses = frozenset(obeys), frozenset(refuses)
        self.chats, self.completes, self.context, self.key, self.models = chats, completes, context, key, models
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
        """Close the port and all connections, as a server that is killed."""
        if self._server is None:
            return
        server, self._server = self._server, None
        self._stop.close()
        server.shutdown()
        self._thread.join(10)
        server.server_close()
        for connection in list(server.connections):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue

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
        elif request.path == "/tokenize" and self.owned_by == "vllm":
            answers({"count": len(request.prompt.split())})(exchange)
        elif request.path in ("/v1/completions", "/v1/chat/completions"):
            (self.script.popleft() if self.script and not request.is_a_trial else self.text)(exchange)
        else:
            fails(404, "Not Found")(exchange)

    def list_of_models(self) -> dict[str, Any]:
        more = {"max_model_len": self.context} if self.owned_by == "vllm" else {}
        if self.owned_by == "llamacpp":
            more = {"meta": {"n_ctx": self.context}}
        models = [{"id": name, "object": "model", "owned_by": self.owned_by, **more} for name in self.models]
        return {"object": "list", "data": models}

    def text(self, exchange: Exchange) -> None:
        """Answer as it should."""
        request = exchange.request
        chat = request.path.endswith("/chat/completions")
        if request.body["model"] not in self.models:
            fails(404, f"The model `{request.body['model']}` does not exist.")(exchange)
            return
        if not self.completes and not chat:
            fails(404, "Not Found")(exchange)
            return
        if chat and not self.chats:
            fails(400, "default chat template is no longer allowed, so you must provide a chat template")(exchange)
            return
        tokens, limit = len(request.prompt.split()), request.limit
        if self.context is not None and tokens + limit > self.context:
            if self.owned_by != "llamacpp" or tokens >= self.context:
                self.too_long(exchange, tokens)
                return
            limit = self.context - tokens  # llama.cpp says as much as there is room for
        constraint = constraint_of(request.body, self.speaks)
        if constraint is not None and constraint[0] in self.refuses:
            fails(400, f"{constraint[0].value} is not supported")(exchange)
            return
        if constraint is not None and constraint[0] in self.obeys:
            text = self.within(*constraint, request.prompt)
        else:
            text = self.say(request.prompt)
        for stop in request.body.get("stop", ()):
            text = text.partition(stop)[0]
        words = re.findall(r"\s*\S+\s*?(?=\s|$)", text)
        cut = len(words) > limit
        text = "".join(words[:limit]) if cut else text
        says(text, finish="length" if cut else "stop")(exchange)

    def too_long(self, exchange: Exchange, tokens: int) -> None:
        """Refuse a prompt in the words of the server that it is."""
        limit, context, total = exchange.request.limit, self.context, tokens + exchange.request.limit
        if self.owned_by == "vllm":  # it stops counting soon
            least = int(context or 0) - limit + 1
            message = (
                f"This model's maximum context length is {context} tokens. However, you requested {limit} output "
                f"tokens and your prompt contains at least {least} input tokens, for a total of at least "
                f"{least + limit} tokens. Please reduce the length of the input prompt or the number of requested "
                f"output tokens. (parameter=input_tokens, value={least})"
            )
            fails(400, message, type="BadRequestError", param="input_tokens")(exchange)
        elif self.owned_by == "llamacpp":
            message = "the request exceeds the available context size, try increasing it"
            numbers = {"n_prompt_tokens": tokens, "n_ctx": context}
            fails(400, message, type="exceed_context_size_error", **numbers)(exchange)
        elif self.owned_by == "sglang":
            message = (
                f"Requested token count exceeds the model's maximum context length of {context} tokens. You requested "
                f"a total of {total} tokens: {tokens} tokens from the input messages and {limit} tokens for the "
                "completion. Please reduce the number of tokens."
            )
            fails(400, message)(exchange)
        elif self.owned_by == "tgi":
            message = f"`inputs` tokens + `max_new_tokens` must be <= {context}. Given: {tokens} `inputs` tokens and "
            error = {"error": f"Input validation error: {message}{limit} `max_new_tokens`", "error_type": "validation"}
            answers(error, 422)(exchange)
        else:
            message = (
                f"This model's maximum context length is {context} tokens. However, you requested {total} tokens "
                f"({tokens} in the messages, {limit} in the completion). Please reduce the length of the messages or "
                "completion."
            )
            fails(400, message, type="invalid_request_error", code="context_length_exceeded")(exchange)

    def within(self, kind: ConstraintKind, value: Any, prompt: str) -> str:
        """Return a text that a constraint allows."""
        if kind is CHOICE:
            return self.choose(value)
        if kind is JSON_SCHEMA:
            if "choice" in value["properties"]:
                return json.dumps({"choice": self.choose(value["properties"]["choice"]["enum"])})
            return json_of(self.say(prompt))
        if "Think: " in value:
            return self.say(prompt)
        if kind is REGEX:
            options = value.removesuffix(r"\n?").removeprefix("(?:").removesuffix(")")
            return self.choose([re.sub(r"\\(.)", r"\1", option) for option in re.split(r"(?<!\\)\|", options)])
        quoted = re.findall(r'"(?:[^"\\]|\\.)*"', value.removesuffix(r'"\n"?'))
        return self.choose([json.loads(option) for option in quoted])

    def completion(self, request: Request, text: str, finish: str) -> dict[str, Any]:
        prompt, output = len(request.prompt.split()), len(text.split())
        usage: dict[str, Any] = {"prompt_tokens": prompt, "completion_tokens": output, "total_tokens": prompt + output}
        if self.owned_by == "vllm":
            usage["prompt_tokens_details"] = {"cached_tokens": prompt // 2}
        chat = request.path.endswith("/chat/completions")
        said = {"message": {"role": "assistant", "content": text}} if chat else {"text": text}
        return {"object": "x", "choices": [{"index": 0, "finish_reason": finish, **said}], "usage": usage}


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


def json_of(text: str) -> str:
    """Return a decision in the JSON that stands for it."""
    decision = parse_decision(text)
    if isinstance(decision, Expand):
        what: Any = {"control_flow": decision.control_flow.value, "subgoals": list(decision.subgoals)}
    else:
        what = text.partition(": ")[2]
    return json.dumps({"decision": {type(decision).__name__: what}})


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, address: tuple[str, int], peer: Peer) -> None:
        self.peer = peer
        self.connections: set[socket.socket] = set()
        super().__init__(address, _Handler)

    def handle_error(self, *_: object) -> None:
        """A client that went away is no error of the peer."""


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
