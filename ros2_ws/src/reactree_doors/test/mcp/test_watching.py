"""Clients watch a run by the protocol's resources, and take prompts for what is usual."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
from contextlib import suppress

import pytest

pytest.importorskip("mcp")

from mcp import Client
from mcp.client.subscriptions import SubscriptionLost
from mcp.shared.exceptions import MCPError
from mcp_types import PromptReference
from tool_server import PIXEL

from reactree_doors.mcp import robot, watching
from reactree_doors.mcp.robot import Job
from reactree_ros.agent.picture import picture_of
from reactree_ros.background.pending import Pending

from .test_server import door_of

TREE, RECORD, CAMERA = (f"reactree://{name}" for name in ("tree", "record", "camera"))
BOUND = 60.0


class Heard:
    """A client of either kind that has subscribed; `named` is what it was told, without repetitions."""

    def __init__(self, mode):
        self.mode, self.named, self.count, self._news = mode, set(), 0, asyncio.Event()

    def take(self, message):
        name = getattr(getattr(message, "params", message), "uri", None) or getattr(message, "uri", "list")
        self.named.add(name)
        self.count += 1
        self._news.set()

    async def message(self, message):
        if self.mode == "legacy" and type(message).__name__.startswith("Resource"):
            self.take(message)

    async def until(self, *names):
        while not self.named.issuperset(names):
            self._news.clear()
            await asyncio.wait_for(self._news.wait(), BOUND)

    async def listen(self, client, *uris):
        """Subscribe; returns how that ends."""
        if self.mode == "legacy":
            await client.list_resources()  # whoever has the list hears of its changes
            for uri in uris:
                await client.subscribe_resource(uri)
            return lambda: asyncio.gather(*map(client.unsubscribe_resource, uris))
        stream = client.listen(resources_list_changed=True, resource_subscriptions=uris)
        events = await stream.__aenter__()

        async def follow():
            with suppress(SubscriptionLost):
                async for event in events:
                    self.take(event)

        following = asyncio.create_task(follow())

        async def end():
            following.cancel()
            await stream.__aexit__(None, None, None)

        return end


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_client_hears_that_there_is_a_tree_a_record_and_a_picture_until_it_ends_that(tmp_path, mode, monkeypatch):
    async def go():
        with door_of(tmp_path) as (door, instruction):
            heard = Heard(mode)
            monkeypatch.setattr(door.robot, "pictures", lambda: Pending.ready([picture_of(PIXEL)]))
            async with Client(door.server(), mode=mode, message_handler=heard.message) as client:
                capabilities = client.server_capabilities.resources
                assert (capabilities.subscribe, capabilities.list_changed) == (True, True)
                assert [one.name for one in (await client.list_resources()).resources] == ["map"]
                end = await heard.listen(client, TREE, RECORD, CAMERA)
                await client.call_tool("carry_out", {"instruction": instruction, "limits": {"max_steps": 3}})
                await heard.until("list", TREE, RECORD)
                assert CAMERA not in heard.named
                names = {one.name for one in (await client.list_resources()).resources}
                assert names == {"map", "tree", "record"}
                await client.call_tool("look_around", {})
                await heard.until(CAMERA)
                shown = (await client.read_resource(CAMERA)).contents[0]
                assert base64.b64decode(shown.blob) == PIXEL
                await end()
                told = heard.count
                await client.call_tool("carry_out", {"instruction": instruction, "limits": {"max_steps": 3}})
                await asyncio.sleep(2 * watching.PERIOD)
                assert heard.count == told

    asyncio.run(go())


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_ten_thousand_events_wait_for_nobody_and_are_read_in_parts(tmp_path, mode):
    events = [{"e": "note", "t": 0.0, "text": f"{number} {'x' * 200}"} for number in range(10_000)]

    async def go():
        with door_of(tmp_path) as (door, instruction):
            heard = Heard(mode)
            async with Client(door.server(), mode=mode, message_handler=heard.message) as client:
                listening = await heard.listen(client, RECORD)
                await client.call_tool("carry_out", {"instruction": instruction, "limits": {"max_steps": 1}})
                await heard.until(RECORD)
                before, job = heard.count, Job("a long run", "a client")
                door.watch.run, job.watched = job, door.watch.changed
                began = asyncio.get_running_loop().time()
                await asyncio.get_running_loop().run_in_executor(None, lambda: [job.take(one) for one in events])
                await asyncio.sleep(2 * watching.PERIOD)
                periods = (asyncio.get_running_loop().time() - began) / watching.PERIOD
                assert 0 < heard.count - before <= periods + 1
                path = door.robot.record
                path.write_text("".join(f"{json.dumps(one)}\n" for one in events) + '{"e": "half')
                whole = (await client.read_resource(RECORD)).contents[0]
                parts, after = [], 0
                while part := (await client.read_resource(f"{RECORD}/{after}")).contents[0].text.splitlines():
                    parts, after = parts + part, after + len(part)
            job.take(events[0])  # nobody is there any more, and nothing of them is
            assert not door.watch._bus._listeners
            assert listening
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
