"""Processes for tests of the server: clients of the library that a test drives, and a robot whose model a client says.

``mcp_peer.py client WHERE MODE FORMS``: a client at an address, or of a server that it starts itself. It takes commands
and tells what comes, as JSON, one a line.

``mcp_peer.py serve WAY FOLDER``: the server with a scripted robot. An instruction is what its model says, one decision
after the other, between semicolons. What the robot does stands in ``FOLDER/done``, a line each.

``mcp_peer.py cut FOLDER``: both, in a network of their own that is cut.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[4] / "test"))  # for doubles.py, in a process of its own

TOKEN = "a-token-of-these-tests"
#: A bound for what a busy machine takes, in seconds.
STUCK = 300.0
#: A policy with each of its verdicts.
RULES = [
    {"skill": "go to", "verdict": "confirm"},
    {"skill": "open", "verdict": "allow"},
    {"skill": "pick up", "verdict": "deny"},
]


def until(holds: Callable[[], Any], what: str, *, more: Callable[[], object] = str) -> Any:
    """Wait for something that another process does; returns it."""
    end = time.monotonic() + STUCK
    while not (found := holds()):
        assert time.monotonic() < end, f"not within {STUCK:g} s: {what}; {more()}"
        time.sleep(0.005)
    return found


# ---------------------------------------------------------------------- what a test holds


class Peer:
    """A client in a process of its own.

    Attributes:
        heard: What has come from it.
    """

    def __init__(self, where: Sequence[str], *, mode: str = "auto", forms: bool = True, env: Mapping[str, str] = {}):
        command = [sys.executable, __file__, "client", json.dumps(list(where)), mode, "forms" if forms else ""]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen(command, env={**os.environ, **env}, start_new_session=True, **pipes)
        self.heard: list[dict[str, Any]] = []
        self._number = 0
        threading.Thread(target=self._read, daemon=True).start()
        self.wait("ready")

    def _read(self) -> None:
        for line in self.process.stdout or ():
            self.heard.append(json.loads(line))

    def wait(self, kind: str, **like: Any) -> dict[str, Any]:
        """Wait for something of a kind; returns the last one."""

        def found() -> dict[str, Any] | None:
            ended = self.process.poll()
            fits = (one for one in reversed(self.heard) if one["e"] == kind and like.items() <= one.items())
            one = next(fits, None)
            assert one or ended is None, f"the client ended with {ended} before {kind} {like}"
            return one

        return until(found, f"{kind} {like}", more=lambda: self.heard[-5:])

    def ask(self, do: str, **given: Any) -> int:
        """Begin a request; returns its number."""
        self._number += 1
        self._send({"do": do, "number": self._number, **given})
        return self._number

    def call(self, tool: str, **arguments: Any) -> int:
        return self.ask("call", tool=tool, arguments=arguments)

    def result(self, number: int) -> Any:
        return self.wait("result", number=number)["result"]

    def say(self, tool: str, **arguments: Any) -> Any:
        return self.result(self.call(tool, **arguments))

    def fill_in(self, action: str, answer: Any = None) -> None:
        self._send({"do": "form", "action": action, "answer": answer})

    def _send(self, command: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        """Kill it, without a word to anybody; what it has started is left."""
        self.process.kill()
        self.process.wait()


class Robot:
    """The folder of a robot's server.

    Attributes:
        where: What reaches it, for a :class:`Peer`.
    """

    def __init__(self, folder: Path, where: Sequence[str] = (), **settings: Any) -> None:
        self.folder, self.where = folder, where or (sys.executable, __file__, "serve", "stdio", str(folder))
        folder.mkdir(exist_ok=True)
        (folder / "settings.json").write_text(json.dumps(settings))

    @property
    def done(self) -> list[str]:
        file = self.folder / "done"
        return file.read_text().splitlines() if file.exists() else []

    def does(self, what: str) -> None:
        until(lambda: what in self.done, what, more=lambda: self.done)

    def hold(self) -> None:
        """Let its next skill be under way until it is released."""
        (self.folder / "hold").touch()

    def release(self) -> None:
        (self.folder / "release").touch()

    def forget(self) -> None:
        for name in ("done", "hold", "release"):
            (self.folder / name).unlink(missing_ok=True)
        for record in (self.folder / "records").iterdir():
            record.unlink()

    @property
    def record(self) -> list[str]:
        records = sorted((self.folder / "records").glob("*.jsonl"))
        return records[-1].read_text().splitlines() if records else []

    @property
    def end(self) -> dict[str, Any]:
        """The end of its latest record; waits for it."""

        def last() -> Any:
            return next((json.loads(line) for line in self.record[-1:] if line.startswith('{"e":"end"')), None)

        return until(last, "the record has its end", more=lambda: self.record[-3:])["result"]

    def gone(self) -> None:
        number = int((self.folder / "pid").read_text())

        def ended() -> bool:
            try:
                return Path(f"/proc/{number}/stat").read_text().rpartition(") ")[2].startswith("Z")
            except OSError:
                return True

        until(ended, "the server ends")


@contextmanager
def served(folder: Path, command: Sequence[str] = (), **settings: Any) -> Iterator[Robot]:
    robot = Robot(folder, **settings)
    command = command or (sys.executable, __file__, "serve", "http", str(folder))
    said = folder / "said"
    with said.open("w") as out:
        server = subprocess.Popen(
            command, stderr=out, stdin=subprocess.DEVNULL, env={**os.environ, "REACTREE_MCP_TOKEN": TOKEN}
        )
    try:
        until(lambda: server.poll() is not None or "http://" in said.read_text(), "it is served", more=said.read_text)
        robot.where = (next(word for word in said.read_text().split() if word.startswith("http://")),)
        yield robot
        server.send_signal(signal.SIGTERM)
        server.wait(STUCK)
    finally:
        server.kill()
        server.wait()


def cut(folder: Path) -> None:
    """Cut the network, which is this process's own, in the midst of a run; say how the run ended."""
    import fcntl
    import socket
    import struct

    def loopback(up: int) -> None:
        with socket.socket() as any_socket:
            fcntl.ioctl(any_socket, 0x8914, struct.pack("16sh", b"lo", up))  # SIOCSIFFLAGS

    loopback(1)
    with served(folder, vanished=3, rules=[{"skill": "open", "verdict": "allow"}]) as robot:
        peer = Peer(robot.where)
        robot.hold()
        peer.call("carry_out", instruction="Act: open fridge 1; Act: done")
        robot.does("open fridge 1")
        loopback(0)
        sys.stdout.write(f"{robot.end['end']}: {robot.done}\n")
        peer.kill()


# ---------------------------------------------------------------------- clients in this process


async def faulty_calls(door: Any, instruction: str, *, mode: Any, calls: int) -> list[str]:
    """Call a door's tools with faults, for a robot that may open, has to ask to go, and may not pick up.

    Returns what a person has allowed.
    """
    from mcp import Client
    from mcp_types import ElicitResult

    allowed, rng, fault = list[str](), random.Random(46), ""

    async def form(context: Any, params: Any) -> ElicitResult:
        if fault == "stop in a form":
            async with Client(door.server(), mode=mode) as other:
                await other.call_tool("stop", {})
        if rng.random() < 0.5:
            allowed.append(params.message)
            return ElicitResult(action="accept", content={"answer": True})
        return ElicitResult(action=rng.choice(["decline", "cancel", "accept"]), content={"answer": "yes"})

    async with Client(door.server(), mode=mode, elicitation_callback=form, input_required_max_rounds=1000) as client:
        for _ in range(calls):
            fault = rng.choice(["gone", "two", "stop in a form", "wrong", "denied", "skill"])
            run = {"instruction": instruction, "limits": {"max_decisions": rng.randint(1, 12)}}
            if fault in ("gone", "two", "stop in a form"):
                call = asyncio.create_task(client.call_tool("carry_out", run))
                for _ in range(rng.randint(0, 30)):
                    await asyncio.sleep(0)
                if fault == "gone":
                    call.cancel()
                if fault == "two":
                    async with Client(door.server(), mode=mode) as other:
                        await other.call_tool("skill_go_to", {"thing": "kitchen 1"})
                        await other.call_tool("stop", {})
                await asyncio.gather(call, return_exceptions=True)
            elif fault == "wrong":
                given = [{}, {"thing": 3}, {"thing": ["x"]}, {"thing": "a; pick up apple 1"}, {"x": "y"}]
                assert (await client.call_tool("skill_open", rng.choice(given))).is_error
            elif fault == "denied":
                assert (await client.call_tool("skill_pick_up", {"thing": "apple 1"})).is_error
            else:
                await client.call_tool("skill_go_to", {"thing": "kitchen 1"})
            if door.busy is not None:
                await asyncio.wait_for(asyncio.wrap_future(door.busy.ended), STUCK)
    return allowed


# ---------------------------------------------------------------------- the client's process


async def client(where: Sequence[str], mode: Any, forms: bool) -> None:
    import httpx2
    import mcp_types as types
    from mcp import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client
    from mcp.client.streamable_http import streamable_http_client

    loop, forms_filled_in = asyncio.get_running_loop(), asyncio.Queue[dict[str, Any]]()
    commands, tasks = asyncio.Queue[dict[str, Any]](), set[asyncio.Task[None]]()

    def read() -> None:
        for line in sys.stdin:
            loop.call_soon_threadsafe(commands.put_nowait, json.loads(line))
        loop.call_soon_threadsafe(commands.put_nowait, {"do": "leave"})

    def tell(kind: str, **more: Any) -> None:
        sys.stdout.write(json.dumps({"e": kind, **more}) + "\n")
        sys.stdout.flush()

    async def form(context: Any, params: Any) -> types.ElicitResult:
        tell("form", message=params.message)
        try:
            filled_in = await forms_filled_in.get()
        except asyncio.CancelledError:
            tell("form taken back")
            raise
        return types.ElicitResult(action=filled_in["action"], content={"answer": filled_in["answer"]})

    async def ask(command: dict[str, Any]) -> None:
        async def heard(progress: float, total: float | None, message: str | None) -> None:
            tell("progress", number=command["number"], message=message)

        try:
            if command["do"] == "read":
                result: Any = await reached.read_resource(command["uri"])
            elif command["do"] == "list":
                result = await reached.list_tools()
            else:
                result = await reached.call_tool(command["tool"], command["arguments"], progress_callback=heard)
            tell("result", number=command["number"], result=result.model_dump(mode="json", by_alias=True))
        except Exception as error:
            tell("result", number=command["number"], result={"error": str(error)})

    if where[0].startswith("http"):
        headers = {"Authorization": f"Bearer {os.environ.get('TOKEN', TOKEN)}"}
        way = streamable_http_client(where[0], http_client=httpx2.AsyncClient(headers=headers, timeout=None))
    else:
        way = stdio_client(StdioServerParameters(command=where[0], args=list(where[1:]), env=dict(os.environ)))
    asks: dict[str, Any] = {"elicitation_callback": form} if forms else {}
    async with Client(way, mode=mode, input_required_max_rounds=1000, **asks) as reached:
        threading.Thread(target=read, daemon=True).start()
        tell("ready")
        while (command := await commands.get())["do"] != "leave":
            if command["do"] == "form":
                forms_filled_in.put_nowait(command)
            else:
                tasks.add(asyncio.create_task(ask(command)))


# ---------------------------------------------------------------------- the server's process


def serve(way: str, folder: Path) -> None:
    from doubles import ScriptedWorld

    from reactree_doors.mcp import serving
    from reactree_doors.mcp.in_process import InProcess
    from reactree_doors.mcp.robot import Questions
    from reactree_doors.mcp.server import Door
    from reactree_doors.mcp.serving import serve_http, serve_streams, token, wire
    from reactree_ros.agent.picture import picture_of
    from reactree_ros.background.pending import Pending
    from reactree_ros.episode.run_spec import RunSpec, Selection
    from reactree_ros.llm.port import DecisionRequest, LanguageModel, Reply
    from reactree_ros.person.port import confirmed_by
    from reactree_ros.tree.options import TreeOptions
    from reactree_ros.world.port import Observation
    from reactree_ros.world.skill_policy import policy_from_list
    from reactree_ros.world.wrappers import PolicyGuard

    (folder / "pid").write_text(str(os.getpid()))
    settings = json.loads((folder / "settings.json").read_text())

    def mark(what: str) -> None:
        with (folder / "done").open("a") as file:
            file.write(f"{what}\n")

    class Says(LanguageModel):
        def decide(self, request: DecisionRequest) -> Pending[Reply]:
            goal, *lines = request.prompt.rpartition("\nYour task is to: ")[2].split("\n")
            said = sum(line.startswith(("Act:", "Think:", "Ask:")) for line in lines)
            return Pending.ready(Reply(goal.split("; ")[said]))

    class Marks(ScriptedWorld):
        def execute(self, skill: str) -> Pending[Observation]:
            mark(str(skill))
            seen = Observation(settings.get("says", {}).get(str(skill), f"You {skill}."))
            if not (folder / "hold").exists():
                return Pending.ready(seen)
            (folder / "hold").unlink()
            pending = Pending[Observation](on_cancel=lambda: mark(f"cancelled {skill}"))

            def hold() -> None:
                while not (pending.done() or (folder / "release").exists()):
                    time.sleep(0.005)
                pending.succeed(seen)

            threading.Thread(target=hold, daemon=True).start()
            return pending

        def observe(self) -> Pending[Observation]:
            return Pending.ready(Observation(settings.get("says", {}).get("observe", "You are in the house.")))

        def pictures(self, camera: str = "") -> Pending[Any]:
            shot = settings.get("picture", "")
            return Pending.ready([picture_of(bytes.fromhex(shot))] if shot else [])

    questions = Questions()
    patience = float(settings.get("patience", STUCK))
    policy = policy_from_list(settings["rules"], where="rules")
    spec = RunSpec(
        instruction="what clients ask for",
        planner=settings.get("planner", "reactree"),
        world=Selection(kind="world", name="virtualhome", settings={}),
        options=TreeOptions(answer_timeout=patience),
        person=True,
    )
    records = folder / "records"
    records.mkdir(exist_ok=True)
    world = PolicyGuard(Marks(), policy, confirmed_by(questions, patience))
    door = Door(InProcess(spec, world=world, model=Says(), questions=questions, records=records))
    if way == "stdio":
        serve_streams(door, wire())
    else:
        serving.VANISHED = settings.get("vanished", serving.VANISHED)
        serve_http(door, "127.0.0.1", 0, token()[0], say=lambda url: sys.stderr.write(f"{url} \n"))


if __name__ == "__main__":
    if sys.argv[1] == "client":
        asyncio.run(client(json.loads(sys.argv[2]), sys.argv[3], bool(sys.argv[4])))
    elif sys.argv[1] == "cut":
        cut(Path(sys.argv[2]))
    else:
        serve(sys.argv[2], Path(sys.argv[3]))
