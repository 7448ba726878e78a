"""Continues a record: resumes its run where it stopped, or forks it at one of its decisions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import TimeoutError as NotInTime
from typing import Any

from reactree_ros.agent.budget import Limit
from reactree_ros.agent.corrections import stated_in
from reactree_ros.agent.household import named
from reactree_ros.agent.observation import Observation, Seen
from reactree_ros.background.pending import Pending
from reactree_ros.episode import Episode, examples_from
from reactree_ros.episode.assembly import assemble, brought, guarded_by
from reactree_ros.episode.player import (
    Departure,
    Script,
    ScriptedModel,
    ScriptedWorld,
    along_script,
    follow_script,
    followed,
)
from reactree_ros.episode.run_spec import RunSpec
from reactree_ros.errors import UserError
from reactree_ros.llm.port import A_PERSON, Around, DecisionRequest, LanguageModel, Reply
from reactree_ros.memory.port import EpisodicMemory
from reactree_ros.person.port import is_stop
from reactree_ros.plugins.settings import read_settings
from reactree_ros.record.moment import Moment
from reactree_ros.record.reader import Record
from reactree_ros.record.schema import Event
from reactree_ros.record.verdict import EpisodeEnd
from reactree_ros.tree.options import TreeOptions
from reactree_ros.world.port import World
from reactree_ros.world.wrappers import SkillTimeLimit

_LIMITS = {limit.end: limit for limit in Limit}


class SaysFirst(Around):
    def __init__(self, text: str, model: LanguageModel) -> None:
        super().__init__(model)
        self._text: str | None = text

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        text, self._text = self._text, None
        return self.model.decide(request) if text is None else Pending.ready(Reply(text, answered_by=A_PERSON))


def stop_of(record: Record) -> int:
    """Return how many events come before the point where a run stopped and can be resumed."""
    events = followed(record)
    if record.end is None:
        ends = (_before_stop(events, at) for at, event in enumerate(events) if event["e"] == "interrupted")
        return next(ends, len(events))
    end = record.end["result"]["end"]
    for at, event in reversed(list(enumerate(events))):
        if end == EpisodeEnd.INTERRUPTED.value and event["e"] == "interrupted":
            return _before_stop(events, at)
        if end not in _LIMITS and event["e"] == "failed" and event["of"] not in ("score", "answer", "claim"):
            return at
        if end in _LIMITS and _is_limit(event) and not any(map(_is_limit, events[:at])):
            return at
    raise UserError(
        f"{record.name}: ended as '{end}', there is nothing to go on with; "
        "`reactree record fork RUN --at DECISION` goes on from one of its decisions otherwise"
    )


def _is_limit(event: Event) -> bool:
    return event["e"] == "time_is_up" or event.get("about") == "limit"


def more_than(record: Record, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the new limits of a resumed run: the given ones, and otherwise twice each limit that it reached."""
    options = RunSpec.of_record(record).options
    limits = dict(options) | {f"max_{name}": limit for name, limit in record.run["limits"].items()}
    reached = None if record.end is None else _LIMITS.get(record.end["result"]["end"])
    doubled = {name: 2 * limits[name] for name in (reached.options if reached else ()) if limits.get(name)}
    for name in doubled:
        if 0 < given.get(name, 0) <= limits[name]:
            raise UserError(
                f"--{name.replace('_', '-')} {given[name]}: the run had as many; allow more than {limits[name]}"
            )
    return doubled | {name: value for name, value in given.items() if value}


def decision_of(record: Record, number: int) -> int:
    """Return how many events come before the reply with a decision, from 1."""
    events = followed(record)
    made = [at for at, event in enumerate(events) if event["e"] in ("decided", "refused")]
    at = next((at for at in made if events[at]["decisions"] >= number), None)
    if at is None or number < 1:
        most = events[made[-1]]["decisions"] if made else 0
        raise UserError(f"--at {number}: the run has the decisions 1 to {most}")
    node = events[at]["node"]
    replies = [i for i, event in enumerate(events[:at]) if event["e"] == "reply" and event["node"] == node]
    if not replies:
        raise UserError(f"--at {number}: that decision came without a reply of its own; name another one")
    return replies[-1]


def decisions_before(record: Record, until: int) -> int:
    counts = [event["decisions"] for event in followed(record)[:until] if event["e"] in ("decided", "refused")]
    return int(counts[-1]) if counts else 0


def resumed(record: Record, given: Mapping[str, Any]) -> RunSpec:
    """Return the specification of a resumed run, with limits as of :func:`more_than`."""
    spec = RunSpec.of_record(record)
    limited = {**dict(spec.options), **more_than(record, given)}
    return spec.but(options=read_settings(TreeOptions, limited, where=record.name))


def last_skill_of(record: Record, until: int) -> str:
    """Name the last skill of the first ``until`` events, in words, and whether it ended."""
    last, under_way = "", dict[int, str]()  # by node
    for event in followed(record)[:until]:
        if event["e"] == "skill":
            last = under_way[event["node"]] = event["skill"]
        elif event["e"] == "observation" and event["of"] == "execute":
            under_way.pop(event["node"], "")
    if under_way:
        named = " and ".join(f"'{one}'" for one in under_way.values())
        return f"{named} {'was' if len(under_way) == 1 else 'were'} under way, and may be half done"
    return f"'{last}' was its last skill" if last else "no skill was begun"


def parent_of(record: Record, until: int) -> Event:
    path = None if record.path is None else str(record.path)
    return {"id": record.run["id"], "path": path, "decision": decisions_before(record, until)}


class WayBack:
    """Brings a run back to a point of its record, tick by tick, so that it can continue live.

    The tree gets the recorded observations, because its decisions were based on them. The skills are carried out again
    alongside. If one has another result, it is reported and written to the new record. The run then looks around again
    before its next decision. With ``later``, no skill is repeated: the run continues from the present state. It always
    looks around again, and a call that was under way counts as broken off. ``says`` replaces the model's next reply.
    """

    def __init__(
        self,
        record: Record,
        until: int,
        spec: RunSpec | None = None,
        *,
        world: World,
        model: LanguageModel,
        memory: EpisodicMemory | None = None,
        write: Callable[[Event], None] | None = None,
        says: str = "",
        later: bool = False,
        **given: Any,
    ) -> None:
        spec = (spec or RunSpec.of_record(record)).but(parent=parent_of(record, until))
        memory = brought(spec.memory) if memory is None else memory
        self._record, self._events = record, followed(record)[:until]
        self._script = Script(
            self._events,
            also=write or (lambda event: None),
            goes_live=True,
            looks_anew=not says,
            later=later,
        )
        guarded = guarded_by(spec, world, given.get("person"))
        beside = SkillTimeLimit(guarded, spec.options.skill_timeout)
        try:
            self.episode = along_script(
                spec,
                self._script,
                world=ScriptedWorld(self._script, record, beside),
                model=ScriptedModel(self._script, SaysFirst(says, model) if says else model),
                memory=memory,
                examples=examples_from(memory, model, spec.options),
                **given,
            )
        except Departure:
            raise self._lost() from None
        self._ticks = follow_script(self.episode, self._script)
        self._works = False

    @property
    def arrived(self) -> bool:
        return self._script.live

    @property
    def differences(self) -> Sequence[tuple[str, str, str]]:
        return self._script.differences

    def step(self) -> bool:
        try:
            self._works = next(self._ticks)
        except StopIteration:
            if not self.arrived:
                raise self._lost() from None
        return self.arrived

    def wait(self) -> None:
        if self._works:
            self.episode.wait()

    def give_up(self) -> None:
        self._script.give_up()

    def otherwise(self, observation: Observation) -> list[str]:
        before = Moment.after(self._events).known
        return [
            f"{named(seen.word, seen.instance)} is {_place_of(seen)}, the record has it {_place_of(known)}"
            for seen in observation.seen
            if (known := before.get((seen.word, seen.instance))) is not None and _moved(known, seen)
        ]

    def _lost(self) -> UserError:
        return UserError(
            f"{self._record.name}: the run cannot be brought to where it was: "
            f"{self._script.difference or 'it ended before that'}; "
            "`reactree record replay` says whether this version makes it again"
        )


def _before_stop(events: Sequence[Event], at: int) -> int:
    before = events[at - 1]
    return at - 1 if before["e"] == "heard" and is_stop(before["text"]) else at


def go_on(
    record: Record,
    until: int,
    spec: RunSpec | None = None,
    *,
    differs: Callable[[str, str, str], None] = lambda what, recorded, now: None,
    anew: bool = False,
    **given: Any,
) -> Episode:
    if anew:
        spec = (spec or RunSpec.of_record(record)).but(parent=parent_of(record, until))
        given["world"] = guarded_by(spec, given["world"], given.get("person"))
        carry_out_again(record, until, given["world"], differs, spec.options.skill_timeout)
        return assemble(spec, **given)
    way = WayBack(record, until, spec, **given)
    try:
        while not way.step():
            way.wait()
    finally:
        for what, recorded, now in way.differences:
            differs(what, recorded, now)
    return way.episode


def _place_of(seen: Seen) -> str:
    where = " in ".join(place for place in (seen.place, seen.room) if place)
    return "held" if seen.held else f"at {where}" if where else "somewhere"


def _moved(before: Seen, now: Seen) -> bool:
    elsewhere = now.place is not None and before.place is not None and now.place != before.place
    return before.held != now.held or before.room != now.room or elsewhere


def carry_out_again(
    record: Record, until: int, world: World, differs: Callable[[str, str, str], None], timeout: float
) -> None:
    skills = dict[int, str]()  # by node
    for event in followed(record)[:until]:
        if event["e"] == "skill":
            skills[event["node"]] = event["skill"]
        elif event["e"] == "observation" and event["of"] in ("execute", "correct"):
            asked = event["correction"] if event["of"] == "correct" else skills.pop(event["node"], "")
            if not asked:  # it was refused before the world was asked
                continue
            try:
                if event["of"] == "execute":
                    again = world.execute(asked)
                else:
                    (correction,) = stated_in(asked, world.corrections().result(timeout=timeout))
                    again = world.correct(correction)
                now = again.result(timeout=timeout).text
            except (Exception, NotInTime) as error:
                raise UserError(f"'{asked}' could not be carried out again: {error or 'no answer in time'}") from error
            if now != event["text"]:
                differs(asked, event["text"], now)
