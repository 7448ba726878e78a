"""A robot behind the World port: skills become goals of its own servers, observations come from its semantic map."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from action_msgs.msg import GoalStatus
from rclpy.node import Node
from rosidl_runtime_py.convert import message_to_ordereddict

from reactree_ros.agent.parameters import Named, Number, Parameter, ParameterError, Text, Value
from reactree_ros.agent.skill import Offered, Skill, SkillCall
from reactree_ros.agent.text import shortened_line
from reactree_ros.background.pending import Pending, asked, pass_on
from reactree_ros.errors import UserError
from reactree_ros.household.household import ONE_HAND, WAH_NL
from reactree_ros.household.vocabulary import RECALLABLE, WORDS
from reactree_ros.nodes import steady
from reactree_ros.nodes.calls import Calls, ServerGone, ServerLost
from reactree_ros.nodes.emergency_stop import EmergencyStop
from reactree_ros.nodes.goal_templates import (
    NAMES,
    Fill,
    NoValue,
    Values,
    check_name,
    compiled,
    constant,
    constants,
    is_text,
    is_whole_number,
    names_of,
    reader,
    resolve,
)
from reactree_ros.nodes.heartbeat import Heartbeat
from reactree_ros.nodes.mismatch import server_mismatch
from reactree_ros.nodes.robot_detector import DetectorClient
from reactree_ros.nodes.robot_goals import ActionOf, Rejected, Server, ServiceOf, Underway
from reactree_ros.nodes.robot_perception import Perception
from reactree_ros.nodes.robot_topics import Battery
from reactree_ros.nodes.waiting import Wake
from reactree_ros.robot.config import RobotConfig, SkillEntry, error_code
from reactree_ros.robot.map_file import load_map
from reactree_ros.robot.poses import Pose
from reactree_ros.robot.semantic_map import MapThing, SemanticMap
from reactree_ros.robot.skills import MapSkills, looks, repeatable
from reactree_ros.world.port import Observation, Outcome, Score, WorldError
from reactree_ros.world.team import SharedWorld

#: How often what is under way is looked after, in seconds.
PERIOD = 0.05
#: Time before a goal is sent again that a server has rejected or lost, in seconds.
AGAIN = 0.5
#: For how long a server that has ended a goal without a word may turn out to be ending itself, in seconds.
LAST_WORDS = 1.0
#: For how long the robot may seem to be away from where it has arrived: tf is behind, in seconds.
ARRIVING = 1.0


class MappedSkill:
    """How a skill is carried out, checked against its type.

    Args:
        entry: What `robot.yaml` says.
        where: What errors begin with.
        skill: The skill that it declares; None: it is no skill.

    Raises:
        UserError: The type is not there, or a field does not fit it.
    """

    def __init__(self, entry: SkillEntry, where: str, skill: Skill | None = None) -> None:
        self.entry, self.skill = entry, skill
        check_name(entry.server, where)
        self.type = resolve("action" if entry.action else "service", entry.type, where)
        goal, result = (self.type.Goal, self.type.Result) if entry.action else (self.type.Request, self.type.Response)
        names = NAMES if skill is None else names_of(skill)
        self.fill = compiled(goal, entry.goal, f"{where}: goal", names)
        if skill is not None:
            _try(self.fill, names, skill, f"{where}: goal")
        of = {} if skill is None else entry.result
        self._returns = {name: reader(result, path, f"{where}: result")[0] for name, path in of.items()}
        self._success = []
        for path, value in entry.success.items():
            read, slot = reader(result, path, f"{where}: success")
            self._success.append((path, read, constant(slot, value, f"{where}: success: field '{path}'")))
        self._code = _reader(result, entry.code, "error_code", is_whole_number, f"{where}: code")
        self._codes = constants(result, entry.code)
        self._text = _reader(result, entry.text, "error_msg", is_text, f"{where}: text")

    def verdict(self, status: int, result: Any) -> tuple[Outcome, str, bool]:
        """Say how a goal ended: ``DONE`` or another outcome, the reason in words, and whether the server gave one."""
        if status == GoalStatus.STATUS_CANCELED:
            return Outcome.CANCELED, f"somebody else canceled it on {self.entry.server}", True
        unlike = [(path, read(result)) for path, read, wanted in self._success if read(result) != wanted]
        if status == GoalStatus.STATUS_SUCCEEDED and not unlike:
            return Outcome.DONE, "", True
        code = int(self._code(result)) if self._code is not None else 0
        known = error_code(self.entry, code)
        reasons = [
            known.name or (self._codes.get(code, "") if code else ""),
            f"error code {code}" if code else "",
            str(self._text(result)).strip().removesuffix(".") if self._text is not None else "",
        ]
        if not any(reasons):
            reasons = [f"{path} is {value}" for path, value in unlike if status == GoalStatus.STATUS_SUCCEEDED]
        said = ", ".join(filter(None, reasons))
        return known.outcome, f"{self.entry.server}: {said or 'it was aborted without an error code'}", bool(said)

    def returned(self, result: Any) -> dict[str, Value]:
        """Return what a result brings as data.

        Raises:
            ParameterError: Something is not what the skill returns.
        """
        data: dict[str, Value] = {}
        for name, read in self._returns.items():
            assert self.skill is not None  # what returns something is a skill
            try:
                data[name] = self.skill.returns[name].read(read(result))
            except ParameterError as error:
                raise ParameterError(f"it returned {name}: {error}") from None
        return data


def _try(fill: Fill, names: Mapping[str, type], skill: Skill, where: str) -> None:
    """Look whether a goal takes the least and the most that a skill may be told.

    Raises:
        UserError: It does not.
    """
    examples: dict[type, Any] = {str: "x", int: 1, float: 1.0, Pose: Pose("map", 0, 0)}
    some = {name: examples[kind] for name, kind in names.items()}
    for ends in range(2):
        values = {name: _end(one, ends) for name, one in skill.parameters.items() if not isinstance(one, Named)}
        try:
            fill(some | values)
        except (AssertionError, OverflowError, ValueError, TypeError) as error:
            said = ", ".join(f"{name} {value}" for name, value in values.items())
            raise UserError(f"{where}: its fields do not take {said}: {shortened_line(str(error), 120)}") from None


def _end(parameter: Parameter, end: int) -> Value:
    if isinstance(parameter, Number):
        return parameter.read((parameter.least, parameter.greatest)[end])
    return "x" * parameter.longest if isinstance(parameter, Text) and end else "x"


def _reader(result: Any, path: str, usual: str, fits: Any, where: str) -> Any:
    """Return what reads a field of a result; the usual one where none is named and the type has it."""
    if not path and usual not in result.get_fields_and_field_types():
        return None
    read, slot = reader(result, path or usual, where)
    if fits(slot):
        return read
    if not path:
        return None
    raise UserError(f"{where}: field '{path}' is no {'text' if fits is is_text else 'whole number'}")


@dataclass(eq=False)
class _Errand:
    """A skill that is being carried out; times are those of :func:`steady.now` where nothing else is said."""

    call: SkillCall
    conduct: MapSkills
    mapped: MappedSkill
    server: Server
    goal: Any
    pending: Pending[Observation]
    began: float
    underway: Underway
    tries: int = 1
    done: float | None = None  # since when the robot looks what is before it, on the node's clock
    done_since: float = 0.0
    words: str = ""  # the first sentence of the observation
    data: Mapping[str, Value] = field(default_factory=dict)  # what it returned
    end: tuple[Outcome, str] | None = None  # how it ends as soon as the robot has stopped
    end_since: float = 0.0
    trouble: tuple[str, float] | None = None  # why it is to be sent again, and since when
    again_at: float | None = None  # when it is sent again
    unexplained: tuple[Outcome, str, float] | None = None  # an end without a reason, and when it came


@dataclass(eq=False)
class _Next:
    """A skill that waits until what was sent before has stopped."""

    text: str
    pending: Pending[Observation]
    until: float


class RobotWorld(SharedWorld):
    """A robot with its own action servers and services; its skills are those that the configuration names.

    A skill may be cancelled, and rest be asked for, from any thread; everything else belongs to the node's executor.

    Args:
        node: Whose clients and subscriptions are used.
        config: The robot.
        heartbeat: Tells what is under way to whoever is to cancel it where this process cannot.
        where: The configuration's file, for errors.
        dry_run: Log every goal and send none; a skill is then taken to go well at once.
        server_timeout: How long a server may be away, or take to accept a goal, in seconds.
        stop_timeout: How long a goal may take to stop after its time limit or an emergency stop, in seconds.

    Raises:
        UserError: A mapping does not fit its type, or the map cannot be used.
    """

    def __init__(
        self,
        node: Node,
        config: RobotConfig,
        heartbeat: Heartbeat,
        *,
        where: str,
        dry_run: bool = False,
        server_timeout: float = 5.0,
        stop_timeout: float = 10.0,
    ) -> None:
        self._node, self._config, self._dry_run = node, config, dry_run
        self._server_timeout, self._stop_timeout = server_timeout, stop_timeout
        self._mapped: dict[str, MappedSkill] = {
            skill.name: MappedSkill(config.skills[skill.name], config.at(where, "skills", skill.name), skill)
            for skill in config.declared
        }
        self._conducts = conducts_of(config)
        document = load_map(config.map) if config.map else None
        self._stop = EmergencyStop(node, config.emergency_stop, where=where)
        self._senses = Perception(node, config, document, where=where)
        self._battery = Battery(node, config.battery, where=config.at(where, "battery"))
        self._stop.listen()
        self._battery.listen()
        self._calls = Calls(node, patience=server_timeout)
        self._looks = self._detector(heartbeat)
        self._servers: dict[tuple[str, str], Server] = {}  # by name and type: several skills may share one
        for mapped in () if dry_run else self._mapped.values():
            entry = mapped.entry
            if (entry.server, entry.type) not in self._servers:
                of = (node, self._calls, entry.server, mapped.type)
                self._servers[entry.server, entry.type] = ActionOf(*of, heartbeat) if entry.action else ServiceOf(*of)
        self._emergency = ""
        self._errand: _Errand | None = None
        self._next: _Next | None = None
        self._underway: list[tuple[Server, Underway]] = []
        self._resting: deque[Pending[None]] = deque()
        self._cancelled: deque[_Errand] = deque()
        self.household = replace(
            WAH_NL,
            skills=config.declared,
            actions=(),
            rules=ONE_HAND if config.hands == 1 and config.of_household else "",
        )
        self.recallable = RECALLABLE
        self._timer = steady.every(node, PERIOD, self._look_after)
        self._wake = Wake(node, self._look_after)

    def _detector(self, heartbeat: Heartbeat) -> DetectorClient | None:
        """Return what asks the robot's detector; None where that speaks by itself, or there is none."""
        senses, detector = self._senses, self._senses.detector
        if self._dry_run or detector is None or detector.entry.topic:
            return None
        return DetectorClient(self._node, self._calls, detector, heartbeat, heard=senses.note, ended=senses.looked)

    # ------------------------------------------------------------------ the port

    def reset(self, seed: int | None = None) -> Pending[Observation]:
        """Fail: a robot does not bring its house back to where a task starts."""
        return Pending.failed(WorldError("a robot cannot bring its house back to a start; give an instruction"))

    def observe(self) -> Pending[Observation]:
        """Say where the robot is and what is in the room."""
        return Pending.of(self._map().around())

    def available_skills(self) -> Pending[Sequence[Offered]]:
        """List what may be tried of what the robot can do."""
        map = self._map()
        return Pending.of([one for conduct in self._conducts for one in conduct.offered(map)])

    def score(self) -> Pending[Score | None]:
        """Say that no goal is known: whether it is reached is for the planner's tree."""
        return Pending.of(None)

    @property
    def words(self) -> Sequence[str]:  # type: ignore[override]
        """The vocabulary's and the map's own; none as long as there is no map."""
        map = self._senses.map
        return () if map is None else (*WORDS, *map.document.words)

    @property
    def places(self) -> Sequence[str]:  # type: ignore[override]
        """What receptacles are called: before each of them there is room for one robot; none without a map."""
        map = self._senses.map
        return () if map is None else tuple(dict.fromkeys(one.word for one in map.receptacles()))

    def _map(self) -> SemanticMap:
        if self._senses.map is None:
            raise WorldError(f"there is no semantic map on {self._config.map_topic} yet")
        return self._senses.map

    def execute(self, skill: str) -> Pending[Observation]:
        """Check a skill and send its goal; a cancel goes through to the robot's server."""
        self._senses.look(forget=True)
        map, now = self._map(), self._senses.now()
        conduct, call = self._read(map, skill)
        if not isinstance(call, SkillCall):
            return Pending.of(Observation(call, Outcome.UNKNOWN_SKILL))

        def told(outcome: Outcome, words: str) -> Pending[Observation]:
            return Pending.of(conduct.after(map, call, outcome, words, {}))

        if halted := self.halted():
            return told(Outcome.HALTED, f"You cannot {skill} now: {halted}.")
        if low := "" if self._dry_run else self._battery.too_low():
            return told(Outcome.PRECONDITION, f"You cannot {skill} now: {low}.")
        if self._obstacle():
            self._next = _Next(skill, Pending(), steady.now() + self._stop_timeout)
            return self._next.pending
        outcome, words = conduct.check(map, call, now, unseen=self._dry_run)
        if outcome is not Outcome.DONE:
            return told(outcome, words)
        mapped = self._mapped[call.skill.name]
        try:
            goal = mapped.fill(values_of(map, call))
        except NoValue as error:
            return told(Outcome.PRECONDITION, f"You cannot {skill}: {_missing(map, call, str(error))}.")
        if self._dry_run:
            self._node.get_logger().info(
                f"dry run: {skill} -> {mapped.entry.server} ({mapped.entry.type}) "
                f"{json.dumps(message_to_ordereddict(goal))}"
            )
            map.apply(call, now)
            return told(Outcome.DONE, words)
        return self._begin(call, conduct, words, goal)

    def _read(self, map: SemanticMap, said: str) -> tuple[MapSkills, SkillCall | str]:
        """Read a skill as one of the robot's own or of the household's, or say what is wrong with it."""
        readings = [(conduct, conduct.read(map, said)) for conduct in self._conducts]
        return next((one for one in readings if isinstance(one[1], SkillCall)), readings[0])

    def halted(self) -> str:
        """Say whether the emergency stop is engaged; it stops no dry run."""
        return "" if self._dry_run else self._stop.engaged()

    def lacks(self) -> str:
        """Say which of the robot's servers are not there, whether a map is missing, and what is of another type."""
        away = [self._lacking(server, name, kind, kind) for (name, kind), server in self._servers.items()]
        if self._looks is not None and self._senses.detector is not None:
            entry = self._senses.detector.entry
            away.append(self._lacking(self._looks.server, entry.source, entry.type, "of the detector"))
        unlike = self._senses.mismatches()
        if self._senses.map is None and not any(self._config.map_topic in one for one in unlike):
            away.append(f"there is no semantic map on {self._config.map_topic} yet")
        return "; ".join(filter(None, [*away, *unlike, self._stop.mismatch(), self._battery.mismatch()]))

    def _lacking(self, server: Server, name: str, kind: str, told: str) -> str:
        if server.ready():
            return ""
        unlike = server_mismatch(self._node, name, kind, action=isinstance(server, ActionOf))
        return unlike or f"{name} ({told}) is not there"

    def status(self) -> Mapping[str, str]:
        """Say how emergency stop, battery, servers and map are."""
        return {
            "dry run": "yes" if self._dry_run else "no",
            "emergency stop": self._stop.in_words(),
            "battery": self._battery.in_words(),
            **{server.name: "there" if server.ready() else "away" for server in self._servers.values()},
            "map": "there is none yet" if self._senses.map is None else f"in frame '{self._senses.map.frame}'",
        }

    def emergency(self) -> str:
        """Say what was told to stop and has not, for longer than it may take; nobody but a person can stop it then."""
        now = steady.now()
        for server, underway in self._underway:
            if underway.stop_since is not None and now - underway.stop_since > self._stop_timeout and not underway.over:
                return (
                    f"'{underway.what}' was told to stop and {server.name} has not ended it within "
                    f"{self._stop_timeout:g} s: the robot may still move; stop it by hand"
                )
        return ""

    def at_rest(self) -> Pending[None]:
        """Settle when the robot's servers have ended everything that was sent to them."""
        if not self._underway:
            return Pending.of(None)
        pending: Pending[None] = Pending()
        self._resting.append(pending)
        self._wake.trigger()
        return pending

    def close(self) -> None:
        """Take clients, subscriptions and the timer out of the node."""
        self._stop_cancelled()
        self._node.destroy_timer(self._timer)
        self._wake.close()
        for pending in self._resting:
            pending.cancel()
        if self._next is not None:
            self._next.pending.cancel()
        self._senses.close()
        self._stop.close()
        self._battery.close()
        if self._looks is not None:
            self._looks.close()
        for server in self._servers.values():
            server.close()

    # ------------------------------------------------------------------ one skill

    def _obstacle(self) -> str:
        """Say why nothing may be begun now; empty where something may."""
        for _, underway in self._underway:
            if not underway.over:
                gone = f"{underway.server} has gone, and it is not known whether the robot has stopped"
                return f"'{underway.what}' has not stopped yet{f'; {gone}' if underway.away else ''}"
        return ""

    def _begin(self, call: SkillCall, conduct: MapSkills, words: str, goal: Any) -> Pending[Observation]:
        mapped = self._mapped[call.skill.name]
        server = self._servers[mapped.entry.server, mapped.entry.type]

        def cancel() -> None:
            self._cancelled.append(errand)
            self._wake.trigger()

        pending: Pending[Observation] = Pending(on_cancel=cancel)
        errand = _Errand(
            call=call,
            conduct=conduct,
            mapped=mapped,
            server=server,
            goal=goal,
            pending=pending,
            began=steady.now(),
            underway=self._send(server, call, goal),
            words=words,
        )
        self._errand = errand
        self._follow(errand)
        return pending

    def _send(self, server: Server, text: str, goal: Any) -> Underway:
        underway = server.send(text, goal)
        self._underway.append((server, underway))
        return underway

    def _follow(self, errand: _Errand) -> None:
        errand.underway.result.add_done_callback(lambda _: self._step(errand))

    def _stop_cancelled(self) -> None:
        while self._cancelled:
            errand = self._cancelled.popleft()
            if self._errand is errand:
                self._errand = None
            self._note_departure(errand)
            self._expect_late(errand)
            if not errand.underway.over:
                errand.server.stop(errand.underway)

    def _look_after(self) -> None:
        self._stop_cancelled()
        self._calls.watch()
        for server, underway in self._underway:
            server.watch(underway)
        if self._looks is not None:
            self._looks.watch()
        self._underway = [(server, underway) for server, underway in self._underway if not underway.over]
        while self._resting and not self._underway:
            self._resting.popleft().succeed(None)
        self._say_emergency()
        self._begin_next()
        self._senses.look(forget=self._errand is None)
        if self._errand is not None:
            self._step(self._errand)

    def _say_emergency(self) -> None:
        """Say once that the robot does not stop, and that it has stopped after all."""
        before, self._emergency = self._emergency, self.emergency()
        if self._emergency and not before:
            self._node.get_logger().fatal(f"emergency: {self._emergency}")
        elif before and not self._emergency:
            self._node.get_logger().warning("the emergency is over: what did not stop has ended")

    def _begin_next(self) -> None:
        """Begin the skill that waits as soon as nothing is in its way any more; it fails where that lasts too long."""
        next = self._next
        if next is None:
            return
        obstacle = "" if next.pending.done() or self.halted() else self._obstacle()
        if obstacle and steady.now() <= next.until:
            return
        self._next = None
        if obstacle:
            limit = f"{self._stop_timeout:g} s"
            next.pending.fail(WorldError(f"'{next.text}' could not begin within {limit}: {obstacle}"))
        elif not next.pending.done():
            pass_on(asked(self.execute, next.text), next.pending)

    def _step(self, errand: _Errand) -> None:
        """Go on with a skill as far as it goes now."""
        if errand is not self._errand or errand.pending.done():
            return
        now, entry, underway = steady.now(), errand.mapped.entry, errand.underway
        if errand.done is not None:
            self._look_around(errand)
            return
        if errand.end is not None:
            if underway.over:
                self._take_late(errand)
                self._finish(errand, *errand.end)
            elif now - errand.end_since > self._stop_timeout:
                self._fail(errand, f"{errand.end[1]} It did not stop within {self._stop_timeout:g} s.")
            return
        if errand.again_at is not None or errand.unexplained is not None:
            self._step_after_trouble(errand)
        elif underway.result.done():
            self._ended(errand)
        elif stopped := self._stop.engaged():
            self._end(errand, Outcome.HALTED, stopped)
        elif low := self._battery.too_low():
            self._end(errand, Outcome.EXECUTION, f"{low}; it was stopped")
        elif underway.accepted and errand.trouble is not None:
            errand.trouble = None
        elif now - errand.began > entry.time_limit:
            self._end(errand, Outcome.TIMEOUT, f"it took longer than {entry.time_limit:g} s and was stopped")
        elif underway.sent_at is not None and not underway.accepted and now - underway.sent_at > self._server_timeout:
            errand.server.stop(underway)
            self._fail(errand, f"{underway.server} did not answer within {self._server_timeout:g} s")

    def _end(self, errand: _Errand, outcome: Outcome, reason: str) -> None:
        """Stop the robot and end the skill when it has stopped."""
        errand.end, errand.end_since = (outcome, self._failed(errand, reason)), steady.now()
        errand.server.stop(errand.underway)
        self._step(errand)

    def _ended(self, errand: _Errand) -> None:
        """Take in how the robot's server ended a goal."""
        entry = errand.mapped.entry
        try:
            status, result = errand.underway.result.take()
            outcome, reason, explained = errand.mapped.verdict(status, result)
            if outcome is Outcome.DONE:
                errand.data = errand.mapped.returned(result)
        except ParameterError as error:
            reason = f"{errand.mapped.entry.server} reported success, but {error}"
            self._finish(errand, Outcome.POSTCONDITION, self._failed(errand, reason))
        except Rejected as error:
            if entry.rejected == Outcome.WORLD_UNAVAILABLE.value:
                self._again(errand, str(error))
            else:
                self._finish(errand, Outcome(entry.rejected), self._failed(errand, str(error)))
        except ServerLost as error:
            self._lost(errand, str(error))
        except ServerGone as error:
            self._fail(errand, str(error))
        else:
            if explained:
                self._judged(errand, outcome, reason)
            else:
                errand.unexplained = outcome, reason, steady.now()

    def _judged(self, errand: _Errand, outcome: Outcome, reason: str) -> None:
        """Go on after what a server said of how a goal ended."""
        map, now = self._map(), self._senses.now()
        if outcome is Outcome.DONE:
            map.apply(errand.call, now)
            errand.done, errand.done_since = now, steady.now()
            if self._looks is not None and looks(errand.call.skill):
                self._looks.begin()
            self._step(errand)
        elif outcome is Outcome.WORLD_UNAVAILABLE:
            self._fail(errand, self._failed(errand, reason))
        elif outcome is Outcome.EXECUTION and errand.tries <= errand.mapped.entry.retries:
            errand.tries += 1
            self._node.get_logger().warning(f"'{errand.call}' failed ({reason}); try {errand.tries}")
            self._send_again(errand)
        else:
            self._finish(errand, outcome, self._failed(errand, reason))

    def _look_around(self, errand: _Errand) -> None:
        """End a skill that was reported to be done when it is seen whether it is, or was looked for long enough."""
        map, call, since = self._map(), errand.call, steady.now() - errand.done_since
        assert errand.done is not None
        if away := self._away(map, call):
            if since >= ARRIVING:
                map.leave()
                self._contradicted(errand, f"the robot is {away:.1f} m from there")
            return
        if self._config.detections is not None and looks(call.skill):
            unsure = self._senses.detected <= errand.done or map.not_as_reported(call)  # what is heard may be old
            if unsure and since < self._config.look_time:
                return
            if seen := map.settle(call):
                self._contradicted(errand, seen)
                return
        self._finish(errand, Outcome.DONE, errand.words)

    def _away(self, map: SemanticMap, call: SkillCall) -> float:
        """Return how far the robot is from where it is said to have arrived, in metres; 0 where that is near enough."""
        place, within = map.by_name.get(call.value("at")), self._config.arrived_within
        away = None if place is None else map.away_from(place)
        return away if within and away is not None and away > within else 0.0

    def _contradicted(self, errand: _Errand, seen: str) -> None:
        reason = f"{errand.mapped.entry.server} reported success, but {seen}"
        self._finish(errand, Outcome.POSTCONDITION, self._failed(errand, reason))

    def _failed(self, errand: _Errand, reason: str) -> str:
        return errand.conduct.failed(self._map(), errand.call, reason)

    def _send_again(self, errand: _Errand) -> None:
        self._note_departure(errand)
        with suppress(NoValue):  # what it is done to may have been detected anew
            errand.goal = errand.mapped.fill(values_of(self._map(), errand.call))
        errand.underway = self._send(errand.server, errand.call, errand.goal)
        self._follow(errand)

    # ------------------------------------------------------------------ servers that are not as they should be

    def _lost(self, errand: _Errand, reason: str) -> None:
        """Try again what a server has forgotten, where that does no harm."""
        if repeatable(errand.call.skill):
            self._again(errand, reason)
        else:
            self._fail(errand, f"{reason}; nobody knows how far '{errand.call}' got")

    def _again(self, errand: _Errand, reason: str) -> None:
        """Send a goal again by and by, of which nothing came because of its server."""
        if errand.trouble is None:
            self._node.get_logger().warning(f"'{errand.call}' is tried again: {reason}")
        errand.trouble = reason, steady.now() if errand.trouble is None else errand.trouble[1]
        errand.again_at = steady.now() + AGAIN

    def _step_after_trouble(self, errand: _Errand) -> None:
        """Look whether a goal is to be sent again, or what its end without a reason was."""
        now, underway = steady.now(), errand.underway
        if stopped := self._stop.engaged():
            self._end(errand, Outcome.HALTED, stopped)
        elif errand.unexplained is not None:
            outcome, reason, since = errand.unexplained
            if not errand.server.ready():
                errand.unexplained = None
                self._lost(errand, f"{errand.mapped.entry.server} has gone, and with it what it was asked for")
            elif now - since > LAST_WORDS:
                errand.unexplained = None
                self._judged(errand, outcome, reason)
        elif errand.trouble is not None and now - errand.trouble[1] > self._server_timeout:
            reason = f"{errand.trouble[0]} (again and again for {self._server_timeout:g} s)"
            self._fail(errand, f"{reason}; {self._obstacle()}" if self._obstacle() else reason)
        elif errand.again_at is not None and now >= errand.again_at and underway.over:
            errand.again_at = None
            self._send_again(errand)

    def _finish(self, errand: _Errand, outcome: Outcome, words: str) -> None:
        self._errand = None
        if self._looks is not None:
            self._looks.stop()
        if outcome is not Outcome.DONE:
            self._note_departure(errand)
        errand.pending.succeed(errand.conduct.after(self._map(), errand.call, outcome, words, errand.data))

    def _fail(self, errand: _Errand, reason: str) -> None:
        self._errand = None
        if not errand.underway.over:
            self._expect_late(errand)
        self._note_departure(errand)
        errand.pending.fail(WorldError(reason))

    def _expect_late(self, errand: _Errand) -> None:
        """Take in what comes of a skill that nobody waits for any more."""
        if errand.done is None:  # otherwise that is known
            errand.underway.result.add_done_callback(lambda _: self._take_late(errand))

    def _take_late(self, errand: _Errand) -> None:
        """Take in what a skill has changed after all that was done before it could be stopped."""
        answer = errand.underway.result
        if not answer.done() or answer.cancelled() or answer.exception() is not None:
            return
        outcome, _, _ = errand.mapped.verdict(*answer.take())
        if outcome is Outcome.DONE:
            self._node.get_logger().warning(f"'{errand.call}' was done before it could be stopped")
            self._map().apply(errand.call, self._senses.now())

    def _note_departure(self, errand: _Errand) -> None:
        """Note that the robot has left where it was, where it may have begun to go somewhere else."""
        underway = errand.underway
        refused = underway.over and not underway.accepted
        if errand.call.skill.moves and errand.done is None and underway.sent_at is not None and not refused:
            self._map().leave()


def conducts_of(config: RobotConfig) -> Sequence[MapSkills]:
    """Return what becomes of a robot's skills: of its own by their declarations, of the household's by its rules."""
    own = [skill for skill in config.declared if skill.name not in config.of_household]
    conducts = [MapSkills(own)] if own else []
    if config.of_household:
        from reactree_ros.robot.household_skills import HouseholdSkills  # a robot of its own skills needs no such rules

        conducts.append(HouseholdSkills([skill for skill in config.declared if skill.name in config.of_household]))
    return conducts


def _poses(map: SemanticMap, call: SkillCall) -> dict[str, Pose | None]:
    """Return the poses that templates may name, as the map has them."""
    thing, receptacle = map.thing_of(call), map.target(call)
    room = None if thing is None else map.room_of(thing)
    place, stand = receptacle or room, receptacle or thing
    own = map.things_of(call).items()
    return {
        "pose": None if stand is None else map.approach(stand),
        "object.pose": None if thing is None else map.pose_of(thing),
        "receptacle.pose": None if receptacle is None else receptacle.pose,
        "receptacle.top": None if receptacle is None else receptacle.top,
        "room.pose": None if room is None else map.pose_of(room),
        "place.pose": None if place is None else map.pose_of(place),
        **{f"{name}.pose": map.pose_of(one) for name, one in own},
        **{f"{name}.approach": map.approach(one) for name, one in own},
    }


def values_of(map: SemanticMap, call: SkillCall) -> Values:
    """Return what templates may name, poses in the map's frame."""
    values: dict[str, Any] = {"skill": str(call), "verb": call.skill.verb, **call.values}
    thing, receptacle = map.thing_of(call), map.target(call)
    room = None if thing is None else map.room_of(thing)
    named = {"object": thing, "receptacle": receptacle, "room": room, "place": receptacle or room}
    for name, one in (named | map.things_of(call)).items():
        if isinstance(one, MapThing):
            values |= {f"{name}.name": one.name, f"{name}.word": one.word, f"{name}.number": one.number}
            values[f"{name}.own"] = one.own
    values |= {name: None if pose is None else map.in_map(pose) for name, pose in _poses(map, call).items()}
    return values


def _missing(map: SemanticMap, call: SkillCall, name: str) -> str:
    """Say why a template has no value."""
    poses, thing = _poses(map, call), map.thing_of(call)
    pose = poses.get(name) or poses.get(name.rpartition(".")[0])
    if pose is not None:
        return f"there is no transform from '{pose.frame}' to '{map.frame}'"
    of = "" if thing is None else f" of the {thing.word} ({thing.number})"
    return f"its goal needs {{{name}}}, which is not known{of}"
