"""What AgentGym's WebShop server answers over HTTP, with a small shop of our own behind it; how it can misbehave.

As a process, at AgentGym's port: ``python webshop_peer.py``.
"""

from __future__ import annotations

import json
import re
import threading
import time
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from webshop_catalogue import BY_ASIN, GOALS, PER_PAGE, Goal, Product, found, reward

SEP = " [SEP] "
AGENTGYM_PORT = 36001
BUY, NEXT, PREV, BACK = "Buy Now", "Next >", "< Prev", "Back to Search"
TABS = ("Description", "Features", "Reviews")
ACTION = re.compile(r"(.+)\[(.+)\]")


@dataclass
class Environment:
    """One shopper; ``page`` is the texts that are seen, ``buttons`` those that can be clicked.

    As in the real one, goals name other prices in another environment: ``dearer`` dollars are added.
    """

    dearer: int = 0
    goal: Goal = GOALS[0]
    page: list[str] = field(default_factory=list)
    buttons: list[str] = field(default_factory=list)
    where: str = ""
    keywords: str = ""
    number: int = 1
    product: Product | None = None
    options: dict[str, str] = field(default_factory=dict)

    def start(self) -> None:
        self.where, self.options, self.product = "index", {}, None
        self.page, self.buttons = ["WebShop", "Instruction:", self.goal.instruction, "Search"], ["Search"]

    @property
    def observation(self) -> str:
        return SEP.join(self.page)

    @property
    def clickables(self) -> list[str]:
        choices = self.product.options.values() if self.product and self.where == "item" else ()
        return list(dict.fromkeys([*map(str.lower, self.buttons), *(value for one in choices for value in one)]))

    def step(self, action: str) -> tuple[float, bool]:
        match = ACTION.match(action)
        name, argument = match.groups() if match else (action, "")
        argument = argument.lower()
        if name == "search" and argument:
            self.results(argument, 1)
        elif name == "click" and argument in self.clickables and argument != "search":
            return self.click(argument)
        return 0.0, False

    def click(self, name: str) -> tuple[float, bool]:
        if name == BACK.lower():
            self.start()
        elif name in (NEXT.lower(), PREV.lower()) and self.where == "results":
            self.results(self.keywords, self.number + (1 if name == NEXT.lower() else -1))
        elif name == PREV.lower() and self.where == "item":
            self.results(self.keywords, self.number)
        elif name in map(str.lower, TABS) and self.where == "item":
            self.tab(name)
        elif name == BUY.lower():
            return self.done(), True
        else:
            self.item(name)
        return 0.0, False

    def results(self, keywords: str, number: int) -> None:
        self.where, self.keywords, self.number, self.options, self.product = "results", keywords, number, {}, None
        all_of_them = found(keywords)
        shown = all_of_them[(number - 1) * PER_PAGE : number * PER_PAGE]
        self.buttons = [BACK, *([PREV] if number > 1 else []), NEXT]
        listed = [text for one in shown for text in (one.asin, one.name, f"${one.price}")]
        head = f"Page {number} (Total results: {len(all_of_them)})"
        self.page = ["Instruction:", self.goal.instruction, BACK, head, *self.buttons[1:], *listed]
        self.buttons += [one.asin for one in shown]

    def item(self, name: str) -> None:
        if self.where == "results" and name.upper() in BY_ASIN:
            self.product = BY_ASIN[name.upper()]
        product = self.product
        assert product is not None
        for option, values in product.options.items():
            if name in values and self.where == "item":
                self.options[option] = name
        self.where, self.buttons = "item", [BACK, PREV, *TABS, BUY]
        options = [text for option, values in product.options.items() for text in (option, *values)]
        about = [product.name, f"Price: ${product.price}", "Rating: N.A.", *TABS, BUY]
        self.page = ["Instruction:", self.goal.instruction, BACK, PREV, *options, *about]

    def tab(self, name: str) -> None:
        assert self.product is not None
        told = {"description": [self.product.description], "features": self.product.features}.get(name, [])
        self.where, self.buttons = "tab", [BACK, PREV]
        self.page = ["Instruction:", self.goal.instruction, BACK, PREV, *told]

    def done(self) -> float:
        assert self.product is not None
        score = reward(self.product, self.options, self.goal)
        self.where, self.buttons = "done", []
        none = [text for label in ("attrs", "category", "query", "product category") for text in (label, "None")]
        bought = ["Purchased", "asin", self.product.asin, "options", json.dumps(self.options, sort_keys=True), *none]
        target = ["Target", "asin", "options", "attrs", "price upper", "instuction text"]  # as the real page spells it
        target += ["category", "product category", "query", "Goal", "None"]
        self.page = ["Thank you for shopping with us!", "Your code:", "None", "(Paste it in your MTurk interface.)"]
        self.page += [*bought, *target, "Reward", "Your score (min 0.0, max 1.0)", str(score), "Reward Details", "None"]
        return score


class Unprocessable(Exception):
    """A body or query that is not as the server's models say."""


class WebShopPeer:
    """A server at a port of its own.

    ``misbehave[path]`` says what comes instead of an answer, once ``good[path]`` more were as they should be: ``hang``,
    ``late``, ``drip`` (a byte now and then), ``html``, ``half``, ``close``, ``error`` (500), ``field`` (an error with
    status 200), ``other`` (JSON that is not an answer), ``busy`` (503) or ``die`` (nothing listens any more).
    """

    def __init__(self, port: int = 0, *, closes: bool = False) -> None:
        self.closes = closes
        self.environments: dict[int, Environment] = {}
        self.made = 0
        self.misbehave: dict[str, str] = {}
        self.good: dict[str, int] = {}
        self.asked: list[str] = []
        self.actions: list[str] = []
        self.released = threading.Event()
        self._lock = threading.Lock()
        peer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                query = {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}
                peer.respond(self, urlsplit(self.path).path, query)

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                peer.respond(self, urlsplit(self.path).path, json.loads(body))

            def log_message(self, *_: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            allow_reuse_address = True

        self.server = Server(("127.0.0.1", port), Handler)
        self.port = self.server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def __enter__(self) -> WebShopPeer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.released.set()
        self.server.shutdown()
        self.server.server_close()

    def forget(self) -> None:
        """Be as after a new start."""
        self.environments.clear()

    # ------------------------------------------------------------------ HTTP

    def respond(self, handler: BaseHTTPRequestHandler, path: str, values: dict[str, Any]) -> None:
        with self._lock:
            self.asked.append(path)
            how = self.misbehave.get(path, "")
            if how and self.good.get(path, 0) > 0:
                self.good[path] -= 1
                how = ""
        if how == "hang":
            self.released.wait(60)
        elif how == "late":
            self.released.wait(0.3)
        if how in ("hang", "close", "die"):
            handler.close_connection = True
            if how == "die":
                self.server.socket.close()
                threading.Thread(target=self.server.shutdown, daemon=True).start()
            return
        if how == "html":
            status, body = 200, b"<html><body>Welcome to nginx!</body></html>"
        elif how == "other":
            status, body = 200, b'{"id": 0}'
        elif how == "field":
            status, body = 200, b'{"error": "the index is not built"}'
        elif how == "error":
            status, body = 500, b"Internal Server Error"
        elif how == "busy":
            status, body = 503, b"Service Unavailable"
        else:
            status, body = self.answer(path, values)
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        if how == "half":
            body = body[: len(body) // 2]
        if how == "drip":
            for byte in body:
                if self.released.wait(1.0):
                    return
                handler.wfile.write(bytes([byte]))
                handler.wfile.flush()
            return
        handler.wfile.write(body)

    def answer(self, path: str, values: dict[str, Any]) -> tuple[int, bytes]:
        """What FastAPI makes of a request."""
        try:
            answer = self._routes(path, values)
        except LookupError:  # of an environment, or a goal
            return 500, b"Internal Server Error"
        except Unprocessable as error:
            return 422, json.dumps({"detail": [{"loc": ["body", str(error)], "msg": "Field required"}]}).encode()
        if answer is NotImplemented:
            return 404, b'{"detail":"Not Found"}'
        return 200, json.dumps(answer).encode()

    def _routes(self, path: str, values: dict[str, Any]) -> Any:
        if path == "/":
            return "ok"
        if path == "/list_envs":
            return list(self.environments)
        if path == "/create":
            with self._lock:
                self.made += 1
                number = 4_000_000 + 7 * self.made
            self.environments[number] = Environment(self.made - 1)
            self.environments[number].start()
            return number
        if path not in ("/step", "/reset", "/observation", "/available_actions", "/instruction_text", "/close"):
            return NotImplemented
        if path == "/close" and not self.closes:
            return NotImplemented
        if "env_idx" not in values:
            raise Unprocessable("env_idx")
        environment = self.environments[int(values["env_idx"])]
        if path == "/close":
            del self.environments[int(values["env_idx"])]
            return {"closed": True}
        if path == "/reset":
            goal = GOALS[values["session_id"]]
            environment.goal = replace(goal, price=goal.price + environment.dearer)
            environment.start()
            return [environment.observation, None]
        if path == "/step":
            if "action" not in values:
                raise Unprocessable("action")
            self.actions.append(values["action"])
            score, done = environment.step(values["action"])
            return {"state": environment.observation, "reward": score, "done": done, "info": None}
        if path == "/observation":
            return environment.observation
        if path == "/available_actions":
            return {"has_search_bar": environment.where == "index", "clickables": environment.clickables}
        if environment.where == "done":
            raise LookupError("the page has no instruction")
        return f"Instruction: {environment.goal.instruction}"


def main() -> None:
    """Serve until the process is ended."""
    print(WebShopPeer(AGENTGYM_PORT).url, flush=True)  # noqa: T201
    while True:
        time.sleep(3600)


if __name__ == "__main__":
    main()
