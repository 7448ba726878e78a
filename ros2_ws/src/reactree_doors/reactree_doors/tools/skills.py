"""Tools of MCP servers as skills of a world: one world around another, whose further skills servers carry out."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, NamedTuple

from reactree_doors.tools.client import CallFailed, ToolServer, names_of
from reactree_doors.tools.schema import Tool, tool_of
from reactree_ros.agent.decision import RECALL
from reactree_ros.agent.labels import QUOTE, cleaned
from reactree_ros.agent.picture import LARGEST_PICTURE, Picture, picture_of
from reactree_ros.agent.skill import Skill, SkillCall
from reactree_ros.agent.text import bounded
from reactree_ros.background.pending import Pending, after, asked, followed, mapped
from reactree_ros.errors import UserError
from reactree_ros.plugins.settings import or_nearest
from reactree_ros.world.port import Household, Observation, Offer, Offered, Outcome, SharedWorld, Use, World
from reactree_ros.world.skill_policy import Verdict
from reactree_ros.world.tool_servers import ServerSettings
from reactree_ros.world.wrappers import AddedSkills

#: The most pictures of one answer that are kept, and the most parts of one that are read.
_MOST_PICTURES, _MOST_PARTS = 4, 1000
#: How much longer a text may be before what cannot be seen of it is left out.
_UNSEEN = 8


def observation_of(server: str, call: str, answer: Any, longest: int) -> Observation:
    pictures: list[Picture] = []
    notes: list[str] = []
    texts = list(_texts(answer.content[:_MOST_PARTS], pictures, notes))
    if not any(map(str.strip, texts)) and answer.structured_content is not None:
        texts = [json.dumps(answer.structured_content, ensure_ascii=False, separators=(",", ":"))]
    said = quoted(server, "\n".join(texts), longest)
    left_out = f" ({'; '.join(dict.fromkeys(notes))})" if notes else ""
    if answer.is_error:
        return failure(call, f"{said}{left_out}")
    return Observation(f"{said}{left_out}", pictures=tuple(pictures))


def failure(call: str, why: str, outcome: Outcome = Outcome.EXECUTION) -> Observation:
    return Observation(f"You tried to {call}, but {why}", outcome)


def quoted(server: str, text: str, longest: int) -> str:
    """Return what a server says: in one line behind its name, or each line quoted below it."""
    plain = bounded(cleaned(bounded(text, _UNSEEN * longest)), longest).strip()
    lines = [line for line in plain.split("\n") if line.strip()]
    if not lines:
        return f"{server} says nothing."
    if len(lines) == 1:
        return f"{server} says: {lines[0]}"
    return "\n".join([f"{server} says:", *(f"{QUOTE}{line}" for line in lines)])


def _texts(parts: Any, pictures: list[Picture], notes: list[str]) -> Iterator[str]:
    for part in parts:
        if part.type == "text":
            yield part.text
        elif part.type == "image":
            note = _kept(part.data, pictures)
            notes += [note] if note else []
        elif part.type == "resource" and isinstance(getattr(part.resource, "text", None), str):
            yield part.resource.text
        elif part.type == "resource_link":
            yield f"{part.name}: {part.uri}"
        else:
            notes.append("sound is left out" if part.type == "audio" else "a file is left out")


def _kept(data: str, pictures: list[Picture]) -> str:
    if len(pictures) == _MOST_PICTURES:
        return f"more than {_MOST_PICTURES} pictures are left out"
    try:
        if len(data) > 2 * LARGEST_PICTURE:
            raise ValueError("is too large")
        pictures.append(picture_of(base64.b64decode(data, validate=True)))
    except (ValueError, binascii.Error) as error:
        return f"a picture is left out: {error}"
    return ""


#: Words that the agent's own skills begin with.
_OWN = (RECALL.strip(), "done", "failure")


class _Added(NamedTuple):
    server: ToolServer
    tool: Tool


class ToolSkills(AddedSkills):
    """Adds tools to the skills of a world.

    What a tool answers is an observation, in the words of somebody else. A call that fails, by whatever its server
    does, is a skill that failed. A tool that a server gets later is not a skill.
    """

    _added: Mapping[Skill, _Added]

    def __init__(self, inner: World, added: Mapping[Skill, _Added], servers: Sequence[ToolServer] = ()) -> None:
        super().__init__(inner, added)
        self._servers = servers

    def around(self, world: World) -> SharedWorld:
        return ToolSkills(world, self._added)

    @property
    def rules(self) -> Mapping[str, str]:  # type: ignore[override]
        said = ((skill, one.tool.settings.policy) for skill, one in self._added.items())
        return {**self.inner.rules, **{skill.name: policy for skill, policy in said if policy}}

    def available_skills(self) -> Pending[Sequence[Offered]]:
        """See :meth:`World.available_skills`; every tool may be tried at any time."""
        return mapped(asked(self.inner.available_skills), lambda now: [*now, *map(Offer, self._added)])

    def use(self, skill: str) -> Use:
        """See :meth:`SharedWorld.use`; a tool needs nothing for the robot alone."""
        return super().use(skill) if self._call(skill) is None else Use()

    def _carry_out(self, call: SkillCall) -> Pending[Observation]:
        if reason := self.inner.halted():
            return Pending.ready(Observation(f"The skill was not carried out: {reason}.", Outcome.HALTED))
        server, tool = self._added[call.skill]
        answer = server.call(tool, tool.arguments(call.values))
        return _as_observation(answer, server.name, call, tool.settings.longest)

    def at_rest(self) -> Pending[None]:
        """See :meth:`World.at_rest`; the servers were told of what was cancelled."""
        rest = asked(self.inner.at_rest)
        for server in {one.server for one in self._added.values()}:
            rest = followed(rest, partial(_rested, server))
        return rest

    def close(self) -> None:
        super().close()
        for server in self._servers:
            server.close()


def _rested(server: ToolServer, _: object) -> Pending[None]:
    return after(server.at_rest(), lambda: Pending.ready(None))


def _as_observation(answer: Pending[object], server: str, call: SkillCall, longest: int) -> Pending[Observation]:
    outer = Pending[Observation](on_cancel=answer.cancel)

    def settle(done: Pending[object]) -> None:
        if done.cancelled():
            outer.cancel()
        elif (error := done.exception()) is None:
            outer.succeed(observation_of(server, call, done.result(), longest))
        elif isinstance(error, CallFailed):
            late = Outcome.TIMEOUT if error.late else Outcome.EXECUTION
            outer.succeed(failure(call, f"{server} failed: {error}.", late))
        else:
            outer.fail(error)

    answer.add_done_callback(settle)  # type: ignore[arg-type]
    return outer


def world_with_tools(make: Callable[[], World], named: Mapping[str, ServerSettings]) -> World:
    with ExitStack() as stack:
        started = []
        for name, settings in named.items():
            started.append((server := ToolServer(name, settings), settings))
            stack.callback(server.close)
        world = make()
        stack.callback(world.close)
        added = _added(world.household, started)
        stack.pop_all()
    return ToolSkills(world, added, [server for server, _ in started])


def _added(household: Household, servers: Sequence[tuple[ToolServer, ServerSettings]]) -> dict[Skill, _Added]:
    added: dict[Skill, _Added] = {}
    names = {skill.name for skill in household.skills}
    verbs = {*household.actions, *_OWN}
    for server, settings in servers:
        for name, said in settings.tools.items():
            where = f"MCP server '{server.name}': tool '{name}'"
            if name in server.passed_over:
                raise UserError(f"{where}: it cannot be used, as {server.passed_over[name]}")
            if name not in server.schemas:
                listed = f"it has {names_of(list(server.schemas))}{or_nearest(name, server.schemas)}"
                raise UserError(f"{where}: the server has no such tool; {listed}")
            try:
                tool = tool_of(name, server.schemas[name], said)
            except ValueError as error:
                raise UserError(f"{where}: {error}") from None
            if tool.skill.name in names | verbs:
                raise UserError(f"{where}: there is a skill '{tool.skill.name}' already; give it another name")
            if said.policy == Verdict.DENY.value:
                continue
            own = tool.skill.verb  # such as `open safe`, which may be `open` with what it is done to
            mixed_up = (one for one in verbs if f"{one} ".startswith(f"{own} ") or f"{own} ".startswith(f"{one} "))
            if verb := next(mixed_up, None):
                raise UserError(f"{where}: '{own}' can be read as the skill '{verb}'; give it another wording")
            names.add(tool.skill.name)
            verbs.add(tool.skill.verb)
            added[tool.skill] = _Added(server, tool)
    return added
