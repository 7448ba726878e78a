"""Clients watch a run by the protocol's resources, and take prompts for what is usual."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
from contextlib import asynccontextmanager

import pytest

pytest.importorskip("mcp")

from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import PromptReference, ResourceListChangedNotification, ResourceUpdatedNotification
from tool_server import PIXEL

from reactree_doors.mcp import robot, watching
from reactree_doors.mcp.robot import Job
from reactree_ros.agent.picture import picture_of
from reactree_ros.background.pending import Pending

from .test_server import door_of

pytestmark = pytest.mark.filterwarnings(  # what older clients do
    "ignore:resources/:mcp.shared.exceptions.MCPDeprecationWarning"
)
TREE, RECORD, CAMERA = (f"reactree://{name}" for name in ("tree", "record", "camera"))
BOUND = 60.0


class Heard:
    """What a client was told of resources: their addresses, and an empty one for their list."""

    def __init__(self):
        self.named, self._news = [], asyncio.Event()

    async def take(self, message):
        if isinstance(message, ResourceListChangedNotification | ResourceUpdatedNotification):
            self.named.append(getattr(message.params, "uri", ""))
            self._news.set()

    async def until(self, *names):
        while not set(names) <= set(self.named):
            self._news.clear()
            await asyncio.wait_for(self._news.wait(), BOUND)


@asynccontextmanager
async def listening(client, mode, *uris):
    if mode == "auto":
        async with client.listen(resources_list_changed=True, resource_subscriptions=uris):
            yield
        return
    await client.list_resources()  # whoever has the list hears of its changes
    for uri in uris:
        await client.subscribe_resource(uri)
    yield
    for uri in uris:
        await client.unsubscribe_resource(uri)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_client_hears_that_there_is_a_tree_a_record_and_a_picture_until_it_ends_that(tmp_path, mode, monkeypatch):
    async def go():
        with door_of(tmp_path) as (door, instruction):
            heard, run = Heard(), {"instruction": instruction, "limits": {"max_steps": 3}}
            monkeypatch.setattr(door.robot, "pictures", lambda: Pending.ready([picture_of(PIXEL)]))
            async with Client(door.server(), mode=mode, message_handler=heard.take) as client:
                capabilities = client.server_capabilities.resources
                assert (capabilities.subscribe, capabilities.list_changed) == (True, True)
                assert [one.name for one in (await client.list_resources()).resources] == ["map"]
                async with listening(client, mode, TREE, RECORD, CAMERA):
                    await client.call_tool("carry_out", run)
                    await heard.until("", TREE, RECORD)
                    assert CAMERA not in heard.named
                    names = {one.name for one in (await client.list_resources()).resources}
                    assert names == {"map", "tree", "record"}
                    await client.call_tool("look_around", {})
                    await heard.until(CAMERA)
                    shown = (await client.read_resource(CAMERA)).contents[0]
                    assert base64.b64decode(shown.blob) == PIXEL
                told = len(heard.named)
                await client.call_tool("carry_out", run)
                await asyncio.sleep(2 * watching.PERIOD)
                assert len(heard.named) == told

    asyncio.run(go())


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_ten_thousand_events_wait_for_nobody_and_are_read_in_parts(tmp_path, mode):
    events = [{"e": "note", "t": 0.0, "text": f"{number} {'x' * 200}"} for number in range(10_000)]

    async def go():
        loop, heard = asyncio.get_running_loop(), Heard()
        with door_of(tmp_path) as (door, instruction):
            async with Client(door.server(), mode=mode, message_handler=heard.take) as client:
                async with listening(client, mode, RECORD):
                    await client.call_tool("carry_out", {"instruction": instruction, "limits": {"max_steps": 1}})
                    await heard.until(RECORD)
                    before, job, began = len(heard.named), Job("a long run", "a client"), loop.time()
                    door.watch.run, job.watched = job, door.watch.changed
                    await loop.run_in_executor(None, lambda: [job.take(one) for one in events])
                    await asyncio.sleep(2 * watching.PERIOD)
                    assert 0 < len(heard.named) - before <= (loop.time() - began) / watching.PERIOD + 2
                path = door.robot.record
                path.write_text("".join(f"{json.dumps(one)}\n" for one in events) + '{"e": "half')
                whole = (await client.read_resource(RECORD)).contents[0]
                parts, after = [], 0
                while part := (await client.read_resource(f"{RECORD}/{after}")).contents[0].text.splitlines():
                    parts, after = parts + part, after + len(part)
            assert not door.watch._bus._listeners  # nothing is left of a client that has gone
            return whole, parts

    whole, parts = asyncio.run(go())
    lines = list(map(json.loads, whole.text.splitlines()))
    assert (lines[0], lines[-1]) == (events[0], events[-1])
    assert whole.meta["reactree/events"] == 10_000
    assert whole.meta["reactree/left_out"] == 10_000 - len(lines) > 0
    assert len(whole.text) < watching.LARGEST_TEXT + 1000
    assert list(map(json.loads, parts)) == events


def test_who_draws_the_tree_holds_no_event_up(monkeypatch):
    job, drawing, go_on = Job("a run", "a client"), threading.Event(), threading.Event()

    def rows(moment, folded):
        drawing.set()
        assert go_on.wait(BOUND)
        return iter(())

    monkeypatch.setattr(robot, "tree_rows", rows)
    reader = threading.Thread(target=job.tree)
    reader.start()
    assert drawing.wait(BOUND)
    taken = threading.Thread(target=job.take, args=[{"e": "decided", "t": 0.0, "decisions": 1, "steps": 0}])
    taken.start()
    taken.join(BOUND)
    assert not taken.is_alive()
    assert reader.is_alive()
    go_on.set()
    reader.join()
    assert job.counts["decisions"] == 1


def test_prompts_say_what_to_do_with_what_is_there_and_complete_what_was_seen(tmp_path):
    async def go():
        with door_of(tmp_path) as (door, instruction):
            async with Client(door.server()) as client:
                listed = {one.name: [to.name for to in one.arguments] for one in (await client.list_prompts()).prompts}
                assert listed["bring"] == ["thing", "place"]
                for name, given in (("bring", {"thing": "apple 1"}), ("dance", {}), ("look", {"thing": "x"})):
                    with pytest.raises(MCPError, match="prompt"):
                        await client.get_prompt(name, given)
                assert len((await client.get_prompt("watch")).messages) == 1
                await client.call_tool("carry_out", {"instruction": instruction, "limits": {"max_steps": 2}})
                shown, said = [one.content for one in (await client.get_prompt("watch")).messages]
                assert shown.resource.text == (await client.read_resource(TREE)).contents[0].text
                assert "how the robot fares" in said.text
                asked = await client.get_prompt("bring", {"thing": "apple 1", "place": "a\ntable"})
                assert asked.messages[0].content.text.endswith("bring apple 1 to a table")
                seen = door.watch.known()["things"][0]["thing"]
                found = await client.complete(PromptReference(name="bring"), {"name": "thing", "value": seen[:2]})
                assert seen in found.completion.values

    asyncio.run(go())
