"""Replays a record: its events drive the real tree step by step.

The tree calls its ports as usual. The script answers a call when the record's next event is that answer: between the
same ticks and in the same order. It compares every event that the tree makes with the record. A run can continue live
from the record's end, or from any moment before it.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import takewhile
from typing import Any, TypeVar

from py_trees.common import Status

from reactree_ros.agent.skill import Offer, Offered, SkillCall, offered_of
from reactree_ros.background.pending import Pending, pass_on
from reactree_ros.episode import Builder, Episode
from reactree_ros.episode.assembly import assemble
from reactree_ros.episode.run_spec import RunSpec
from reactree_ros.errors import UserError
from reactree_ros.llm.port import DecisionRequest, LanguageModel, Reply
from reactree_ros.memory.experience import Experience
from reactree_ros.person.port import Answer, NobodyAnswers, Person, Question, is_stop
from reactree_ros.record.reader import Record, RecordError
from reactree_ros.record.schema import (
    Event,
    error_from_dict,
    experience_from_dict,
    household_from_dict,
    observation_from_dict,
    skills_after,
    value_from_dict,
)
from reactree_ros.record.writer import encoded
from reactree_ros.routine.fitting import Fit
from reactree_ros.routine.use import Find, Tells
from reactree_ros.tree.context import RunContext
from reactree_ros.world.port import Observation, Score, SharedWorld, Use, World, team_of

T = TypeVar("T")
#: Longest wait for the run's own work (code in a sandbox, an embedding), in seconds.
OWN_WORK_TIMEOUT = 60.0
#: Why a resumed run looks around again: a skill had another result than in the record.
DIFFERENT = "not everything came to what is recorded when it was carried out again"
#: Why a run looks around again if it was resumed without repeating the recorded skills.
LATER = "the run was broken off, perhaps in the midst of something, and goes on from what is there now"
#: How far the clock jumps when an answer came too late, in seconds; longer than any limit.
_LONG = 1e7
#: Ticks without an event before a tree that waits for an answer counts as stuck.
_IDLE_TICKS = 5
#: Fields that may differ between two equal runs.
_OWN = {"run": ("id", "started", "versions", "world", "llm", "memory", "parent", "seal")}

#: What each kind of event answers, apart from a failure and from skills.
_ANSWERS: Mapping[str, Callable[[Event], Any]] = {
    "reply": lambda event: value_from_dict(Reply, event),
    "answer": lambda event: Answer(event["text"], event["by"]),
    "retrieved": lambda event: tuple(map(experience_from_dict, event["experiences"])),
    "routine": lambda event: tuple(map(Fit.of_data, event["fits"])),
    "corrections": lambda event: [offered_of(one) for one in event["offers"]],
    "observation": observation_from_dict,
}

#: An awaited answer: its kind, and the request's id (reply), the subgoal (examples), the robot or its part (world).
Key = tuple[str, str]


class Departure(BaseException):
    """A run stops following its record: it departs from it, or the record is at its end.

    It is a BaseException so that no handler in the run catches it.
    """


@dataclass
class _Asked:
    pending: Pending[Any]
    live: Callable[[], Pending[Any]]  # makes the call to the live port
    real: Pending[Any] | None = None  # the live answer, if the call is also made alongside the record
    what: str = ""  # in words: a skill, or ``look around``


@dataclass
class Script:
    """The events of a record, which the run has to make again in the same order.

    Attributes:
        differences: Repeated skills with another result: skill, recorded result, result now.
        later: Whether no skill is carried out alongside, so that it always looks around again. It also breaks off a
            skill or reply that was under way.
        halted: Why the live run holds before it looks around again. It is empty once every call under way is broken
            off, and the run continues. A person's pause is another hold and serves as well.
    """

    events: Sequence[Event]
    also: Callable[[Event], None] = lambda event: None  # receives every event that the run makes
    position: int = 0  # how many events have come
    difference: str = ""  # how the run departs from them; empty as long as it does not
    differences: list[tuple[str, str, str]] = field(default_factory=list)
    now: float = 0.0  # the run's clock
    context: RunContext | None = None  # the run's context, once it has begun
    goes_live: bool = (
        False  # whether skills are carried out alongside the record, and the run continues live at its end
    )
    looks_anew: bool = False  # whether it looks around again then, if a repeated skill had another result
    later: bool = False
    interrupted: bool = False  # whether the run has to be interrupted here, as the recorded run was
    ended: bool = False  # whether it has ended, or was interrupted as recorded
    #: The recorded reason why each robot, or each part of the run on one, holds; empty: it does not.
    held: dict[str, str] = field(default_factory=dict)
    halted: str = ""
    _asked: dict[Key, _Asked] = field(default_factory=dict)
    _counted: int = 0
    _skills: dict[str, Sequence[Offered]] = field(default_factory=dict)
    _differs: str | None = None
    _live_since: float | None = None
    _broken_off: list[Pending[Any]] = field(default_factory=list)

    @property
    def next(self) -> Event | None:
        return self.events[self.position] if self.position < len(self.events) else None

    @property
    def live(self) -> bool:
        return self._live_since is not None

    def clock(self) -> float:
        return self.now if self._live_since is None else self.now + time.monotonic() - self._live_since

    def elapsed(self) -> float:
        if self._live_since is None:
            return math.inf if (event := self.next) is not None and event["e"] == "time_is_up" else 0.0
        before = self.events[-1]["t"] if self.events else 0.0
        return float(before) + time.monotonic() - self._live_since

    # ------------------------------------------------------------------ what the run writes

    def write(self, event: Event) -> None:
        if self.live:
            if event["e"] == "held" and all(pending.done() for pending in self._broken_off):
                self.halted = ""
            self.also(event)
            return
        expected = self.next
        if expected is None:
            raise Departure
        if expected["e"] == "interrupted" and event["e"] != "interrupted":
            self.interrupted = True
            raise Departure
        same_run = self.goes_live and expected["e"] == event["e"] == "run"  # with other limits
        if not same_run and (difference := _difference(expected, event)):
            self.difference = f"event {self.position} ({expected['e']}): {difference}"
            raise Departure
        self.also(event)
        if self._differs is not None and event["e"] == "observation":
            text, self._differs = self._differs, None
            self.also({"e": "differs", "node": event["node"], "text": text, "t": event["t"]})
        self.position += 1
        self._counted = 0
        if (event_after := self.next) is not None and event_after.get("in_tick"):
            self.interrupted = True
            raise Departure
        self._answer()

    def _answer(self) -> None:
        event = self.next
        if self.context is None:
            return
        if event is None:
            if self.goes_live:
                self.go_live()
        elif event["e"] == "held" and (who := _who(event)):
            self.held[who] = event["reason"]
        elif event["e"] == "held":
            self.context.paused = event["reason"]
        elif (key := self._key(event)) in self._asked:
            self._settle(self._asked.pop(key), event)

    def _key(self, event: Event) -> Key:
        kind = event["e"]
        if kind == "failed" and event.get("late"):
            return "", ""
        of = str(event["of"] if kind in ("failed", "observation") else "examples" if kind == "retrieved" else kind)
        if of in ("examples", "routine"):
            return of, self._subgoals[event["node"]]
        return of, str(event.get("id", _who(event)))

    @cached_property
    def _subgoals(self) -> dict[int, str]:
        grown = (node for event in self.events if event["e"] == "grow" for node in event["nodes"])
        return {node["node"]: node.get("subgoal", "") for node in grown}

    def _settle(self, asked: _Asked, event: Event) -> None:
        if asked.real is None:
            self._give(asked, event)
        else:
            asked.real.add_done_callback(lambda real: self._give_compared(asked, event, real))

    def _give_compared(self, asked: _Asked, event: Event, real: Future[Any]) -> None:
        if real.cancelled():
            return
        if (error := real.exception()) is not None:
            asked.pending.fail(error)  # the run then departs from the record
            return
        recorded, now = event.get("text", event.get("message", "")), real.result().text
        if recorded != now:
            self._differs = now
            self.differences.append((asked.what, str(recorded), str(now)))
        self._give(asked, event)

    def _give(self, asked: _Asked, event: Event) -> None:
        try:
            if event["e"] == "failed":
                asked.pending.fail(error_from_dict(event))
            else:
                asked.pending.succeed(self._answer_in(event))
        except (KeyError, TypeError, ValueError) as error:
            self.difference = f"event {self.position} ({event['e']}) cannot be used: {type(error).__name__}: {error}"
            raise Departure from error

    def _answer_in(self, event: Event) -> Any:
        if event["e"] == "skills":
            robot = event.get("robot", "")  # whichever part of it asked
            self._skills[robot] = skills_after(self._skills.get(robot, ()), event)
            return self._skills[robot]
        return _ANSWERS[event["e"]](event)

    # ------------------------------------------------------------------ what the run asks for

    def ask(self, key: Key, live: Callable[[], Pending[Any]], *, beside: str = "") -> Pending[Any]:
        """Answer a call of a port with the recorded answer, when the record reaches it.

        ``live`` makes the call to the live port; ``beside`` is the call in words, if it is also made live alongside the
        record.
        """
        if self.live:
            if not self._breaks_off(key):
                return live()
            self._broken_off.append(Pending())
            return self._broken_off[-1]
        pending: Pending[Any] = Pending()
        real = live() if beside and self.goes_live and not self.later else None
        if real is not None:
            pending.add_done_callback(lambda done: real.cancel() if done.cancelled() else None)
        self._asked[key] = _Asked(pending, live, real, beside)
        pending.add_done_callback(lambda done: self._asked.pop(key, None) if done.cancelled() else None)
        self._answer()
        return pending

    def count(self) -> int | None:
        event = self.next
        if event is None or event["e"] != "counted" or self._counted >= len(event["tokens"]):
            return None
        self._counted += 1
        return int(event["tokens"][self._counted - 1])

    def examples(
        self, live: Callable[..., Pending[tuple[Experience, ...]]] | None
    ) -> Callable[..., Pending[tuple[Experience, ...]]]:
        def find(subgoal: str, **how: bool) -> Pending[tuple[Experience, ...]]:
            return self.ask(("examples", subgoal), lambda: live(subgoal, **how) if live else Pending.ready(()))

        return find

    def routines(self, live: Find | None, tells: Tells) -> tuple[Find, Tells]:
        """Find the recorded routines, then live ones; tell of live ones, as those of the record were told of then."""

        def find(goal: str) -> Pending[tuple[Fit, ...]]:
            return self.ask(("routine", goal), lambda: live(goal) if live else Pending.ready(()))

        return find, lambda *what: tells(*what) if self.live else None

    @property
    def waits_for_the_record(self) -> bool:
        return any(one.real is None or one.real.done() for one in self._asked.values())

    def begin(self, context: RunContext) -> None:
        self.context = context
        self._answer()

    def go_live(self) -> None:
        self._live_since = time.monotonic()
        different = DIFFERENT if self.differences and self.looks_anew else ""
        self.halted = LATER if self.later else different
        asked, self._asked = self._asked, {}
        for key, one in asked.items():
            if self._breaks_off(key):
                self._broken_off.append(one.pending)
            else:
                pass_on(one.live() if one.real is None else one.real, one.pending)

    def _breaks_off(self, key: Key) -> bool:
        return self.halted == LATER and key[0] in ("reply", "execute")

    def give_up(self) -> None:
        """Stop following the record and drop all open calls, so that the run can be stopped."""
        self._live_since = time.monotonic()
        self._asked.clear()


class ScriptedModel(LanguageModel):
    def __init__(self, script: Script, live: LanguageModel | None = None) -> None:
        self._script, self._live = script, live

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        return self._script.ask(("reply", request.id), lambda: _live(self._live).decide(request))

    def count_tokens(self, text: str) -> int | None:
        if self._script.live:
            return _live(self._live).count_tokens(text)
        return self._script.count()


class ScriptedPerson(Person):
    def __init__(self, script: Script, live: Person | None = None) -> None:
        self._script, self._live = script, live

    def ask(self, question: Question) -> Pending[Answer]:
        nobody: Pending[Answer] = Pending.failed(NobodyAnswers("nobody is there"))
        return self._script.ask(("answer", question.id), lambda: self._live.ask(question) if self._live else nobody)


class ScriptedWorld(SharedWorld):
    """Shows the recorded observations; with a live world, it repeats the recorded skills there and continues."""

    is_guarded = True  # what a guard said is in the record, and the live world has one

    def __init__(
        self,
        script: Script,
        record: Record,
        live: World | None = None,
        robot: str = "",
    ) -> None:
        try:
            self.household = household_from_dict(record.run["household"])
            self.recallable, self.words = tuple(record.run["recallable"]), tuple(record.run.get("words", ()))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            what = f"{type(error).__name__}: {error}"
            raise RecordError(f"{record.name}: its household cannot be used: {what}") from error
        self._script, self._record, self._live, self._robot = script, record, live, robot

    def team(self) -> Mapping[str, SharedWorld]:
        names = self._record.run.get("robots", ())
        live = {} if self._live is None else team_of(self._live)
        if self._live is not None and set(names) != set(live):
            has = f"the robots {', '.join(live)}" if live else "one robot"
            raise UserError(
                f"{self._record.name}: has the robots {', '.join(names) or '(one)'}, and the world has {has}"
            )
        return {name: ScriptedWorld(self._script, self._record, live.get(name), name) for name in names}

    def beside(self, part: str) -> World:
        return ScriptedWorld(self._script, self._record, self._live, part)

    def use(self, skill: str) -> Use:
        """Say what a skill needs; nothing along the record, which already fixes the order."""
        return self._live.use(skill) if isinstance(self._live, SharedWorld) and self._script.live else Use()

    def reset(self, seed: int | None = None) -> Pending[Observation]:
        return self.observe()

    def observe(self) -> Pending[Observation]:
        return self._ask("observe", lambda live: live.observe(), beside="look around")

    def survey(self) -> Pending[Observation]:
        return self._ask("survey", lambda live: live.survey())

    def available_skills(self) -> Pending[Sequence[Offered]]:
        return self._ask("skills", lambda live: live.available_skills())

    def corrections(self) -> Pending[Sequence[Offer]]:
        return self._ask("corrections", lambda live: live.corrections())

    def correct(self, correction: SkillCall) -> Pending[Observation]:
        return self._ask("correct", lambda live: live.correct(correction), beside=correction)

    def execute(self, skill: str) -> Pending[Observation]:
        return self._ask("execute", lambda live: live.execute(skill), beside=skill)

    def traced(self, trace: str) -> None:
        if self._live is not None:
            self._live.traced(trace)

    def _ask(self, of: str, ask: Callable[[World], Pending[T]], *, beside: str = "") -> Pending[T]:
        return self._script.ask((of, self._robot), lambda: ask(_live(self._live)), beside=beside)

    def score(self) -> Pending[Score | None]:
        return _live(self._live).score() if self._script.live else _recorded_score(self._script.events)

    def judge(self, goal: Mapping[str, int]) -> Pending[Score | None]:
        return _live(self._live).judge(goal) if self._script.live else super().judge(goal)

    def halted(self) -> str:
        if self._script.live:
            return self._script.halted or (self._live.halted() if self._live is not None else "")
        return self._script.held.get(self._robot, "") or self._script.halted

    def at_rest(self) -> Pending[None]:
        return Pending.ready(None) if self._live is None else self._live.at_rest()


@dataclass(frozen=True)
class Replayed:
    events: int  # number of events that came as recorded
    recorded: int  # number of recorded events
    difference: str  # the first event that differed, in words; empty if none did
    episode: Episode | None = None  # the episode that was made again; None if it did not begin

    @property
    def identical(self) -> bool:
        return not self.difference


def replay(record: Record, *, builder: Builder | None = None) -> Replayed:
    events = followed(record)
    script = Script(events)
    model, episode = ScriptedModel(script), None
    with suppress(Departure):
        world = ScriptedWorld(script, record)
        episode = along_script(RunSpec.of_record(record), script, world=world, model=model, builder=builder)
        for works in follow_script(episode, script):
            if works:
                episode.wait()
        if script.ended:
            if episode.root.status == Status.INVALID:
                episode.conclude()
            else:
                episode.scored()
    if not script.difference and (missing := script.next) is not None:
        script.difference = f"event {script.position} ({missing['e']}) did not come"
    return Replayed(script.position, len(events), script.difference, episode)


def followed(record: Record) -> list[Event]:
    return [event for event in record.events if event["e"] != "differs"]


def along_script(
    spec: RunSpec,
    script: Script,
    *,
    model: ScriptedModel,
    world: ScriptedWorld,
    person: Person | None = None,
    examples: Callable[..., Pending[tuple[Experience, ...]]] | None = None,
    **given: Any,
) -> Episode:
    """Rebuild the episode of a recorded run to follow a script; after it, person and examples are live."""
    asks_memory = any(event["e"] == "retrieved" or event.get("of") == "examples" for event in script.events)
    episode = assemble(
        spec,
        world=world,
        model=model,
        person=ScriptedPerson(script, person),
        write=script.write,
        examples=script.examples(examples) if asks_memory or examples else None,
        routines=script.routines,
        clock=script.clock,
        silent=lambda: not script.live,
        **given,
    )
    episode.context.enter(world)  # the record says how long each skill takes
    episode.elapsed = script.elapsed
    script.begin(episode.context)
    return episode


def follow_script(episode: Episode, script: Script) -> Iterator[bool]:
    """Tick an episode along its script, until it has ended, departs from the script or continues live.

    Yields after each tick whether the run does work of its own, which the next tick may wait for.
    """
    idle, since = 0, time.monotonic()
    try:
        while not episode.finished:
            event, before = script.next, script.position
            if event is None or script.live:
                return
            heard = list(takewhile(lambda one: one["e"] == "heard", script.events[before:]))
            for one in heard:
                episode.hear(one["text"])
            if event["e"] == "interrupted" or any(is_stop(one["text"]) for one in heard):
                episode.interrupt()
                break
            if event.get("late"):
                script.now += _LONG
            episode.tick()
            if script.position > before:
                idle, since = 0, time.monotonic()
                yield False
                continue
            idle += 1
            if (script.waits_for_the_record and idle > _IDLE_TICKS) or time.monotonic() - since > OWN_WORK_TIMEOUT:
                script.difference = f"event {before} ({event['e']}) did not come: {encoded(event)[:200].decode()}"
                return
            yield not script.waits_for_the_record
    except Departure:
        if not script.interrupted:
            return
        episode.interrupt()
    script.ended = True


def _recorded_score(events: Sequence[Event]) -> Pending[Score | None]:
    for event in events[-2:]:
        if event["e"] == "failed" and event["of"] == "score":
            return Pending.failed(error_from_dict(event))
        if event["e"] == "end" and event["result"]["gsr"] is not None:
            recorded = event["result"]
            more = recorded.get("goal", {}), recorded.get("unmet", [])
            return Pending.ready(Score(recorded["gsr"], recorded["ssr"], *more))
    return Pending.ready(None)


def _who(event: Event) -> str:
    """Return which robot, or which part of the run on one robot, an event is of; empty: there is one."""
    return str(event.get("robot", event.get("part", "")))


def _difference(expected: Event, event: Event) -> str:
    own = ("t", *_OWN.get(expected["e"], ()))
    recorded, now = _without(expected, own), _without(event, own)
    if expected["e"] == event["e"] == "end":
        times = ("seconds", "model_seconds", "makespan", "untouched", "unmet")
        recorded["result"], now["result"] = _without(recorded["result"], times), _without(now["result"], times)
    if recorded == now or recorded == (now := json.loads(encoded(now))):
        return ""
    name = next(name for name in {**recorded, **now} if recorded.get(name) != now.get(name))
    if name == "e":
        return f"now {encoded(now)[:200].decode()} instead of {encoded(recorded)[:200].decode()}"
    shown, before = (json.dumps(one.get(name))[:200] for one in (now, recorded))
    return f"{name} is {shown}, recorded {before}"


def _without(values: Event, names: Sequence[str]) -> Event:
    return {name: value for name, value in values.items() if name not in names}


def _live(port: T | None) -> T:
    assert port is not None  # a run that continues live has one
    return port
