"""How does a real language model do, held to the grammar and free, and how often is it asked in vain?

    python benchmarks/real_models.py --base-url http://127.0.0.1:8000/v1 --out FOLDER [--tasks 20] [--against COMMAND]

The tasks are of generated houses of three rooms: so many of one thing to one place, and as many of two things. Both
planners and both ways of asking get the same tasks. `--against` names the `reactree` command of another version, which
gets them, too. Requests go through a relay that counts them, because older versions do not keep all of them: a request
repeats another if both are the same byte for byte.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from reactree_lab.household.generator import generate_house

#: Seed of the first house, far from those of what ships.
FIRST = 800_000
PLANNERS = ("react_wm", "reactree_wm")
METHODS = ("one_request", "unconstrained")
SIZES = (1, 2)
#: Most tokens of a request that only tries what the server can do.
_TRIAL = 32
_COLUMNS = "things tasks GSR SSR decisions requests/decision refused repeated seconds/decision tokens/decision ends"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base-url", required=True, help="base URL of an OpenAI-compatible server")
    parser.add_argument("--out", type=Path, required=True, help="output folder")
    parser.add_argument("--tasks", type=int, default=20, help="tasks of each size")
    parser.add_argument("--max-decisions", type=int, default=40, help="decisions of a run")
    parser.add_argument(
        "--model-option", action="append", default=[], help="NAME=VALUE, of the language model, e.g. chat=false"
    )
    parser.add_argument("--against", default="", help="the reactree command of another version")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    print(f"{'':44}{_COLUMNS}")
    for size in SIZES:
        file = options.out / f"tasks_{size}.json"
        file.write_text(json.dumps(list(tasks(size, options.tasks))), encoding="utf-8")
        for planner in PLANNERS:
            for method in METHODS:
                for command in filter(None, (options.against, f"{sys.executable} -m reactree_ros.cli lab")):
                    name = f"{planner} {method} {'other' if command == options.against else 'here'}"
                    out = options.out / f"{name} {size}".replace(" ", "_")
                    print(f"{name:44}{size} {run(options, command, file, planner, method, out)}", flush=True)


def tasks(size: int, count: int) -> Iterator[dict[str, Any]]:
    """Yield so many tasks of so many different things."""
    made = (task for seed in itertools.count(FIRST) for task in generate_house(seed=seed, rooms=3))
    plain = (task for task in made if not any(key.startswith("turnOn") for key in task["task_goal"]))
    fitting = (task for task in plain if list(task["task_goal"].values()) == [1] * size)
    for number, task in enumerate(itertools.islice(fitting, count), 1):
        yield {**task, "task_id": number}


def run(options: argparse.Namespace, command: str, file: Path, planner: str, method: str, out: Path) -> str:
    """Carry the tasks out, and return the figures."""
    settings = [f"method={method}", *options.model_option]
    with Relay(options.base_url) as relay:
        asked = [*command.split(), *f"bench --suite wah_nl --tasks {file} --planner {planner} --llm openai".split()]
        asked += ["--base-url", relay.url, "--out", str(out), "--max-decisions", str(options.max_decisions)]
        subprocess.run([*asked, *(part for one in settings for part in ("--llm-option", one))], check=False, stdout=2)
        requests, repeated = relay.counted()
    lines = [json.loads(line) for line in (out / "results.jsonl").read_text(encoding="utf-8").splitlines()]
    runs = [line for line in lines if "gsr" in line]
    decisions = sum(line["decisions"] for line in runs) or 1
    refused = sum(line.get("refused_attempts", 0) for line in runs) / (requests or 1)
    figures = [len(runs), *(statistics.mean(line[of] or 0 for line in runs) for of in ("gsr", "ssr", "decisions"))]
    figures += [requests / decisions, refused, repeated / (requests or 1)]
    figures += [sum(line[of] or 0 for line in runs) / decisions for of in ("model_seconds", "output_tokens")]
    ends = Counter(line["end"] for line in runs)
    return " ".join(f"{one:.3g}" for one in figures) + " " + ", ".join(f"{count} {end}" for end, count in ends.items())


class Relay:
    """Hands requests on to a server, and counts those for decisions."""

    def __init__(self, base_url: str) -> None:
        self._sent = Counter[bytes]()
        relay, self._lock = self, threading.Lock()
        origin, _, path = base_url.rpartition("/")

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                relay._count(body)
                self._hand_on(body)

            def do_GET(self) -> None:
                self._hand_on(None)

            def _hand_on(self, body: bytes | None) -> None:
                kept = {name: self.headers[name] for name in ("content-type", "authorization") if name in self.headers}
                try:
                    answer = urllib.request.urlopen(urllib.request.Request(f"{origin}{self.path}", body, kept))
                except urllib.error.HTTPError as error:
                    answer = error
                with answer:
                    self.send_response(answer.status)
                    self.send_header("content-type", answer.headers.get("content-type", ""))
                    self.end_headers()
                    while some := answer.read1(65536):
                        self.wfile.write(some)

            def log_message(self, *args: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/{path}"

    def _count(self, body: bytes) -> None:
        told = json.loads(body)
        if "max_tokens" in told and told["max_tokens"] != _TRIAL:
            with self._lock:
                self._sent[body] += 1

    def counted(self) -> tuple[int, int]:
        """Return how many requests came, and how many of them were the same as an earlier one."""
        return self._sent.total(), self._sent.total() - len(self._sent)

    def __enter__(self) -> Relay:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()


if __name__ == "__main__":
    main()
