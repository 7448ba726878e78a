"""Shows the runs of a planner on a page in the browser, while they go on."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from action_msgs.srv import CancelGoal
from rclpy.client import Client
from rclpy.node import Node
from rclpy.task import Future
from rclpy.utilities import remove_ros_args
from reactree_interfaces.msg import RecordPart
from reactree_interfaces.srv import Hear, ReadRecord, SayDecision
from std_srvs.srv import Trigger

from reactree_ros.errors import UserError
from reactree_ros.nodes import steady
from reactree_ros.nodes.people.answer import Answering, askers_for, check_node_name
from reactree_ros.nodes.planner.task import QOS
from reactree_ros.nodes.spinning import Spinner, interruptible, refuse
from reactree_ros.nodes.waiting import Handover
from reactree_ros.person.desk import Desk
from reactree_ros.view import check_installed
from reactree_ros.view.steering import BY, PAUSED, Asked, Course

#: Records that are kept; the oldest goes first.
KEPT = 100
#: Time between two checks for missing parts and late answers, in seconds.
LOOK_PERIOD = 0.5
#: Longest wait for an answer of the planner, in seconds.
PATIENCE = 5.0
#: The services by which a person steers a run, by what the page calls them.
STEERING = {
    "pause": (Trigger, "pause"),
    "go on": (Trigger, "resume"),
    "step": (Trigger, "step"),
    "say": (SayDecision, "say"),
    "tell": (Hear, "hear"),
    "cancel": (CancelGoal, "execute_task/_action/cancel_goal"),
}
COMMANDS = tuple(STEERING)
#: Longest wait for a person's decision to be taken: the planner looks around anew before, in seconds.
SAYING = 60.0
#: A page that has not polled the run for so long is closed, in seconds.
GONE = 2.0
#: The form of a record's id, which becomes a file name.
ID = re.compile("[0-9a-f]{32}")


@dataclass
class _Copy:
    """The copy of a record."""

    path: Path  # the file
    goal_id: Any  # the goal of the run
    size: int = 0  # bytes copied
    known: int = 0  # bytes known to exist
    line: str = ""  # the part of a line that is not whole yet


class RecordFollower(Node):
    """Follows a planner by its topic: from the beginning of a run, even if it joins late, and over restarts.

    It is a :class:`reactree_ros.view.steering.Helm` for the threads of the page; everything else happens in the node's
    executor. While a page shows the current run, it takes the questions of the planner and its bridges.
    """

    def __init__(
        self, planner: str, folder: Path, *, name: str = "record_follower", desk: Desk | None = None, **kwargs: Any
    ) -> None:
        check_node_name(planner)
        super().__init__(name, start_parameter_services=False, **kwargs)
        self._planner = self.resolve_topic_name(planner)
        self._folder = folder
        self._copies: dict[str, _Copy] = {}
        self._current: Path | None = None  # the copy of the current run, or of the last one
        self._course = Course(ended=True, commands=COMMANDS)  # of that run
        self._calls: dict[Future, tuple[Client, float, Callable[[], None]]] = {}  # given up when, and called then
        self._reading = False
        self._reader = self.create_client(ReadRecord, f"{planner}/read_record")
        self._steerers = {
            command: self.create_client(kind, f"{planner}/{service}") for command, (kind, service) in STEERING.items()
        }
        self.create_subscription(RecordPart, f"{planner}/record", self._heard, QOS)
        self._handover = Handover(self)
        self._desk = desk or Desk()
        self._desk.follow(self._tell)
        self._answering = Answering(self, self._desk)
        self._looked = float("-inf")  # when a page polled the current run last
        steady.every(self, LOOK_PERIOD, self._look)

    # ------------------------------------------------------------------ the records

    def _heard(self, part: RecordPart) -> None:
        if not ID.fullmatch(part.run):
            self.get_logger().warning(f"a record's id is {part.run[:60]!r}; it is not followed", once=True)
            return
        copy = self._copies.get(part.run) or self._begin(part.run, part.goal_id)
        copy.known = max(copy.known, part.begin + len(part.data))
        if part.begin <= copy.size:
            self._append(copy, part.data[copy.size - part.begin :])
        self._read()

    def _begin(self, run: str, goal_id: Any) -> _Copy:
        copy = self._copies[run] = _Copy(self._folder / f"{run}.jsonl", goal_id)
        for oldest in list(self._copies)[:-KEPT]:
            self._copies.pop(oldest).path.unlink(missing_ok=True)
        self._course = Course(commands=COMMANDS)
        self._current = copy.path
        return copy

    def _append(self, copy: _Copy, data: str) -> None:
        try:
            with copy.path.open("a", encoding="ascii") as file:
                file.write(data)
        except OSError as error:
            raise UserError(f"{copy.path}: {error.strerror}; make room there, then start the page again") from error
        copy.size += len(data)
        copy.known = max(copy.known, copy.size)
        *lines, copy.line = (copy.line + data).split("\n")
        for line in lines:
            self._take(copy, line)

    def _take(self, copy: _Copy, line: str) -> None:
        if copy.path != self._current:
            return
        if line.startswith('{"e":"end"'):
            self._course = Course(ended=True, commands=COMMANDS)
        elif line.startswith('{"e":"held"') and (reason := json.loads(line)["reason"]) in ("", PAUSED):
            self._course = replace(self._course, paused=bool(reason))

    def _read(self) -> None:
        copy = next((copy for copy in self._copies.values() if copy.size < copy.known), None)
        if copy is None or self._reading or not self._reader.service_is_ready():
            return
        self._reading = True
        request = ReadRecord.Request(run=copy.path.stem, begin=copy.size)
        self._call(self._reader, request, partial(self._append_read, copy), given_up=lambda: self._append_read(copy))

    def _append_read(self, copy: _Copy, answer: ReadRecord.Response | None = None) -> None:
        self._reading = False
        if answer is None:
            return
        if answer.data:
            self._append(copy, answer.data)
        else:  # the planner was replaced, and the new one lacks this record
            copy.known = copy.size
        self._read()

    # ------------------------------------------------------------------ calls

    def _call(
        self,
        client: Client,
        request: Any,
        answered: Callable[[Any], None],
        *,
        given_up: Callable[[], None],
        patience: float = 0.0,
    ) -> None:
        future = client.call_async(request)
        self._calls[future] = client, steady.now() + (patience or PATIENCE), given_up
        future.add_done_callback(partial(self._answered, answered))

    def _answered(self, answered: Callable[[Any], None], future: Future) -> None:
        if self._calls.pop(future, None) is not None:
            answered(future.result())

    def _look(self) -> None:
        for future, (client, until, given_up) in list(self._calls.items()):
            if steady.now() > until:
                del self._calls[future]
                client.remove_pending_request(future)
                given_up()
        self._read()
        self._answering.offer(askers_for(self, self._planner) if self._is_looked_at else ())

    @property
    def _is_looked_at(self) -> bool:
        return steady.now() - self._looked < GONE

    def destroy_node(self) -> None:
        self._desk.leave()
        self._answering.close()
        super().destroy_node()

    # ------------------------------------------------------------------ the person's hand, from other threads

    def course_of(self, record: Path) -> Course:
        if record != self._current:
            return Course(ended=True, commands=COMMANDS)
        self._looked = steady.now()
        return replace(self._course, asked=Asked.from_open(self._desk.next))

    def commands(self, record: Path) -> Mapping[str, Callable[[str], object]]:
        commands: dict[str, Callable[[str], object]] = {name: partial(self._want, record, name) for name in COMMANDS}
        if record == self._current and (one := self._desk.next) is not None:
            commands[f"answer {one.number}"] = partial(self._desk.answer, one.number, by=BY)
        return commands

    def _want(self, record: Path, command: str, words: str) -> None:
        if record != self._current or self._course.ended:
            raise UserError("the run has ended; there is nothing to steer")
        self._handover.put(partial(self._do, record, command, words))

    def _tell(self, words: str) -> None:
        if self._current is None:
            raise UserError("no run goes on that could take in what you say")
        self._want(self._current, "tell", words)

    def _do(self, record: Path, command: str, words: str) -> None:
        if record != self._current or self._course.ended:  # meanwhile
            return
        client = self._steerers[command]
        if not client.service_is_ready():
            self._notice(f"there is no planner {self._planner}; start it, or name another one with --planner-node")
            return
        request = client.srv_type.Request()
        if command == "cancel":
            request.goal_info.goal_id = self._copies[record.stem].goal_id
        if command in ("say", "tell"):
            request.words = words
        patience = SAYING if command == "say" else PATIENCE
        silent = f"the planner {self._planner} has not answered within {patience:g} s"
        done = partial(self._done, record, command)
        self._call(client, request, done, given_up=lambda: self._notice(silent), patience=patience)

    def _done(self, record: Path, command: str, answer: Any) -> None:
        if record != self._current:
            return
        if command == "cancel":
            refused = answer.return_code != CancelGoal.Response.ERROR_NONE
            self._notice("the planner does not cancel it: its goal has ended already" if refused else "")
        elif command in ("step", "say", "tell"):
            self._notice("" if answer.success else answer.message)
        else:
            self._course = replace(self._course, paused=command == "pause")
            self._notice(answer.message if command == "go on" and "when it may" in answer.message else "")

    def _notice(self, words: str) -> None:
        self._course = replace(self._course, notice=words)


PLANNER = "reactree_planner"


def serve(
    planner: str,
    *,
    say: Callable[[str], None],
    host: str = "127.0.0.1",
    port: int = 0,
    args: Sequence[str] | None = None,
) -> int:
    check_installed()
    from reactree_ros.view.runs import Runs
    from reactree_ros.view.server import ViewServer

    with interruptible(args) as asked, TemporaryDirectory() as folder:
        node = RecordFollower(planner, Path(folder))
        with (
            Spinner(node, asked) as spinner,
            ViewServer(Runs(Path(folder)), host=host, port=port, steering=node) as server,
        ):
            say(f"{server.url}#/latest")
            spinner.spin_until(lambda: False)
        return next(iter(asked), 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--planner-node", default=PLANNER, help="name of the planner node")
    help = "the interface; any but the loopback is open to other machines"
    parser.add_argument("--host", default="127.0.0.1", help=help)
    parser.add_argument("--port", type=int, default=0, help="the port; 0: a free one")
    options = parser.parse_args(remove_ros_args(sys.argv)[1:])
    try:
        serve(options.planner_node, say=_say, host=options.host, port=options.port)
    except UserError as error:
        refuse(error)


def _say(url: str) -> None:
    print(f"The page is at {url}", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
