"""Steps of a decision over ROS: where its time goes, against a bare rclpy program. Needs ROS 2 and the interfaces.

python benchmarks/ros_steps.py [--tasks 2] [--rounds 3] [--against FOLDER]

A planner's language model asks an inference node that answers at once, in another process. The requests are those of
real runs, in their order. The bare programs do the same exchange: a client and a service of rclpy, each with a message
that was made before. The first one sends the same messages, the second one has the whole prompt in each, and the third
one sends empty ones. All of them take turns, so that other load of the machine affects all of them. FOLDER holds
another ``reactree_ros`` with the same interfaces, which is measured in the same run, too.
"""

from __future__ import annotations

import argparse
import itertools
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import rclpy
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
from rclpy.executors import ExternalShutdownException
from rclpy.node import Node
from reactree_interfaces.srv import Generate

import reactree_ros
from reactree_ros.background.pending import Pending
from reactree_ros.episode import Episode
from reactree_ros.household.expert.model import ExpertModel
from reactree_ros.household.generator import generate_house
from reactree_ros.household.symbolic import SymbolicWorld
from reactree_ros.household.tasks import parse_tasks
from reactree_ros.llm.port import DecisionRequest, LanguageModel, Reply
from reactree_ros.nodes import adapters, inference_node
from reactree_ros.nodes.calls import Calls
from reactree_ros.nodes.executors import make_executor
from reactree_ros.nodes.spinning import run_node
from reactree_ros.nodes.waiting import Wake
from reactree_ros.planners.spec import planner

BOUND = 60.0  # longest wait for anything, in seconds
STEPS = ("to a message", "send", "on its way", "read", "decide", "to an answer", "back", "read the answer", "wake")
ANSWER = "Think: I look for it first."


def now() -> int:
    return time.monotonic_ns()


# ---------------------------------------------------------------------- what answers, in a process of its own


class Prompt(LanguageModel):
    """Answers at once; notes when it is asked."""

    asked = 0

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        self.asked = now()
        return Pending.of(Reply(ANSWER, prompt_tokens=3000, cached_tokens=2900, output_tokens=9))


class Stamping(inference_node.InferenceNode):
    """An inference node that says when it got a request and what it did with it, in ``answered_by``."""

    def __init__(self) -> None:
        self.asking = Prompt()
        super().__init__(model=self.asking)

    async def _answer(self, msg: Any, response: Any) -> Any:
        came = now()
        answer = await super()._answer(msg, response)
        answer.answered_by = f"{came} {self.asking.asked} {self.answering} {now()}"
        return answer


def serve_bare() -> None:
    """Answer with a message that is made before."""
    rclpy.init(args=[])
    node = Node("bare")
    made = Generate.Response(text=ANSWER, prompt_tokens=3000, cached_tokens=2900, output_tokens=9)
    node.create_service(Generate, "bare/generate", lambda request, response: made)
    executor = make_executor()
    executor.add_node(node)
    with suppress(KeyboardInterrupt, ExternalShutdownException):
        while rclpy.ok():
            executor.spin_once(timeout_sec=0.1)


def serve() -> None:
    to_msg = inference_node.reply_to_msg

    def noted(reply: Reply, msg: Any) -> Any:
        Stamping.answering = now()
        return to_msg(reply, msg)

    inference_node.reply_to_msg = noted
    run_node(Stamping)


# ---------------------------------------------------------------------- what asks


def requests(tasks: int) -> list[DecisionRequest]:
    """Return the requests of real runs; each prompt is as it was when it was sent."""
    asked: list[DecisionRequest] = []

    class Noting(ExpertModel):
        def decide(self, request: DecisionRequest) -> Pending[Reply]:
            asked.append(request)
            return super().decide(request)

    houses = [generate_house(seed=seed, rooms=5, tasks=1)[0] | {"task_id": seed} for seed in range(tasks)]
    for task in parse_tasks(houses):
        Episode(task.instruction, world=SymbolicWorld(task), model=Noting(), planner=planner("reactree_wm")).run()
    return asked


class Asker(Node):
    """Asks as a planner does."""

    def __init__(self) -> None:
        super().__init__("asker")
        self.executor_ = make_executor()
        self.executor_.add_node(self)
        self.calls = Calls(self, patience=BOUND)
        self.create_timer(0.1, self.calls.watch)
        self.bare = self.create_client(Generate, "bare/generate")

    def until(self, condition: Callable[[], object]) -> None:
        end = time.monotonic() + BOUND
        while not condition():
            if time.monotonic() > end:
                raise TimeoutError("waited in vain")
            self.executor_.spin_once(timeout_sec=0.05)

    def bring_up(self, name: str) -> None:
        client = self.create_client(ChangeState, f"{name}/change_state")
        self.until(client.service_is_ready)
        for transition in (Transition.TRANSITION_CONFIGURE, Transition.TRANSITION_ACTIVATE):
            future = client.call_async(ChangeState.Request(transition=Transition(id=transition)))
            self.until(future.done)
            assert future.result().success
        self.destroy_client(client)

    def exchange(self, msg: Any) -> float:
        """Return the milliseconds of a bare exchange."""
        begin = now()
        future = self.bare.call_async(msg)
        self.until(future.done)
        return (now() - begin) / 1e6


class Stamps:
    """Notes when the steps of the asker's side begin and end.

    Attributes:
        msg: The message that was sent last.
    """

    def __init__(self, model: adapters.RosLanguageModel) -> None:
        self.times: dict[str, tuple[int, int]] = {}
        self.msg: Any = None
        self._around(adapters, "request_to_msg")
        self._around(model._generate, "call_async")
        self._around(model, "_take_reply")

    def _around(self, of: Any, name: str) -> None:
        done = getattr(of, name)

        def stamped(*args: Any) -> Any:
            begin = now()
            try:
                return done(*args)
            finally:
                self.times[name] = (begin, now())
                if name == "call_async":
                    self.msg = args[0]
                elif name == "_take_reply":
                    self.stamps = [int(one) for one in args[0].answered_by.split()]

        setattr(of, name, stamped)


def ours(asker: Asker, model: adapters.RosLanguageModel, stamps: Stamps, request: DecisionRequest) -> list[float]:
    """Return the milliseconds of each step of an exchange."""
    woken: list[int] = []
    wake = Wake(asker, lambda: woken.append(now()))
    begin = now()
    reply = model.decide(request)
    reply.add_done_callback(lambda _: wake.trigger())
    asker.until(lambda: woken)
    assert reply.take().text == ANSWER
    came, asked, answering, left = stamps.stamps
    sent, took = stamps.times["call_async"], stamps.times["_take_reply"]
    at = [begin, sent[0], sent[1], came, asked, answering, left, took[0], took[1], woken[0]]
    return [(later - earlier) / 1e6 for earlier, later in itertools.pairwise(at)]


@contextmanager
def processes(folder: str) -> Iterator[None]:
    where = folder or str(Path(reactree_ros.__file__).parents[1])
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (where, os.environ.get("PYTHONPATH", ""))))}
    command = [sys.executable, str(Path(__file__).resolve()), "--serve"]
    started = [subprocess.Popen([*command, name], env=env, cwd=where) for name in ("inference", "bare")]
    try:
        yield
    finally:
        for process in started:
            process.send_signal(signal.SIGINT)
        for process in started:
            process.wait(timeout=10)


def load() -> str:
    return Path("/proc/loadavg").read_text().strip()


def median(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.3f}"


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=2, help="tasks whose requests are sent")
    parser.add_argument("--rounds", type=int, default=3, help="how often they are sent")
    parser.add_argument("--serve", choices=["inference", "bare"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        {"inference": serve, "bare": serve_bare}[options.serve]()
        return
    asked = requests(options.tasks)
    rclpy.init()
    asker = Asker()
    with processes(""):
        model = adapters.RosLanguageModel(asker, "inference", asker.calls)
        stamps = Stamps(model)
        asker.bring_up("inference")
        asker.until(asker.bare.service_is_ready)
        print(f"{len(asked)} requests, {options.rounds} times, load {load()}, {type(asker.executor_).__name__}")
        steps: list[list[float]] = []
        same, whole, empty, sizes = [], [], [], []
        for _ in range(options.rounds):
            for request in asked:
                steps.append(ours(asker, model, stamps, request))
                sizes.append(len(stamps.msg.turns))
                same.append(asker.exchange(stamps.msg))
                whole.append(asker.exchange(adapters_request(request)))
                empty.append(asker.exchange(Generate.Request()))
    print(f"turns in a message: {statistics.median(sizes):.0f}")
    for name, times in zip(STEPS, zip(*steps, strict=True), strict=True):
        print(f"{name:>16} {median(times):>8} ms")
    total = [sum(one) for one in steps]
    print(f"{'all':>16} {median(total):>8} ms")
    for name, times in (("same messages", same), ("whole prompts", whole), ("empty", empty)):
        ratio = statistics.median(ours / bare for ours, bare in zip(total, times, strict=True))
        print(f"bare, {name:>13} {median(times):>5} ms; ours over it {ratio:.2f}")
    print(f"load {load()}")
    rclpy.try_shutdown()


def adapters_request(request: DecisionRequest) -> Any:
    from reactree_ros.nodes.messages import request_to_msg

    return request_to_msg(request)


if __name__ == "__main__":
    main()
