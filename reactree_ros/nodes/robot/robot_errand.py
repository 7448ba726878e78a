"""A skill that a robot carries out: the robot's parts, the goal, what comes of it, and when it is tried again."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Generator, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from rclpy.node import Node

from reactree_ros.agent.parameters import ParameterError, Value
from reactree_ros.agent.picture import Glance, Picture
from reactree_ros.agent.skill import SkillCall
from reactree_ros.background.pending import Pending
from reactree_ros.llm.eyes import Eyes, Sight
from reactree_ros.nodes import steady
from reactree_ros.nodes.calls import Calls, ServerGone, ServerLost
from reactree_ros.nodes.heartbeat import Heartbeat
from reactree_ros.nodes.robot.goal_templates import NoValue, Values
from reactree_ros.nodes.robot.mapped_skill import Leg, MappedSkill, Order, values_of
from reactree_ros.nodes.robot.robot_perception import DetectorClient, KeptSightings, Perception, Prompts
from reactree_ros.nodes.robot.robot_servers import Rejected, Server, Servers, Underway
from reactree_ros.nodes.robot.robot_topics import Battery, Conditions, EmergencyStop, Names
from reactree_ros.robot.config import RobotConfig
from reactree_ros.robot.detections import named_in
from reactree_ros.robot.map_file import load_map
from reactree_ros.robot.map_world import waited
from reactree_ros.robot.semantic_map import SemanticMap
from reactree_ros.robot.skills import MapSkills, looks
from reactree_ros.world.port import Observation, Outcome, WorldError


class RobotParts:
    """A robot's parts, of which some may be away; nothing is kept from start to start without `kept`."""

    def __init__(
        self,
        node: Node,
        config: RobotConfig,
        mapped: Iterable[MappedSkill],
        heartbeat: Heartbeat,
        *,
        where: str,
        dry_run: bool,
        eyes: Eyes | None,
        server_timeout: float,
        stop_timeout: float,
        kept: KeptSightings | None,
    ) -> None:
        self.node, self.config, self.dry_run, self.eyes = node, config, dry_run, eyes
        self.server_timeout, self.stop_timeout = server_timeout, stop_timeout
        document = load_map(config.map) if config.map else None
        self.stop = EmergencyStop(node, config.emergency_stop, where=where)
        self.conditions = Conditions(node, config, where=where)
        self.senses = Perception(node, config, document, where=where, kept=kept, condition=self.conditions.named)
        self.battery = Battery(node, config.battery, where=config.at(where, "battery"))
        for topics in (self.stop, self.battery, self.conditions):
            topics.listen()
        self._calls = Calls(node, patience=server_timeout)
        self.looks: DetectorClient | None = None
        self.prompts: Prompts | None = None
        detector, heard, ended = self.senses.detector, self.senses.note, self.senses.looked
        if not dry_run and detector is not None and not detector.entry.topic:
            self.looks = DetectorClient(node, self._calls, detector, heartbeat, heard=heard, ended=ended)
        calls = [] if dry_run else [call for one in mapped for call in one.calls]
        self.servers = Servers(node, self._calls, calls, heartbeat, stop_timeout=stop_timeout)
        if not dry_run and detector is not None and detector.entry.prompts is not None:
            at = config.at(where, "detections", "prompts")
            self.prompts = Prompts(node, self._calls, detector.entry.prompts, self.looks, where=at)

    def attend(self, goal: str) -> None:
        """Have the detector look for what a goal names, besides all that the map has words for."""
        if self.prompts is None or self.senses.map is None:
            return
        map, document = self.senses.map, self.senses.map.document
        stay = [thing.name for thing in (*map.rooms, *map.receptacles(), *map.persons)]
        words = (*named_in(goal, stay), *document.objects.classes.values())
        self.prompts.tell(Names(dict.fromkeys(words)))

    def map(self) -> SemanticMap:
        """Return the semantic map. Raises WorldError: There is none yet."""
        if self.senses.map is None:
            raise WorldError(self.no_map())
        return self.senses.map

    def no_map(self) -> str:
        return f"there is no semantic map on {self.config.map_topic} yet"

    def watch(self, wanted: Collection[Underway]) -> None:
        self._calls.watch()
        if self.looks is not None:
            self.looks.watch()
        self.servers.watch(wanted)

    def lacks(self) -> str:
        away = [*self.servers.away(), *(one.lacks() for one in (self.looks, self.prompts) if one is not None)]
        unlike = [*self.senses.mismatches(), *self.conditions.mismatches()]
        if self.senses.map is None and not any(self.config.map_topic in one for one in unlike):
            away.append(self.no_map())
        return "; ".join(filter(None, [*away, *unlike, self.stop.mismatch(), self.battery.mismatch()]))

    def status(self) -> Mapping[str, str]:
        return {
            "emergency stop": self.stop.in_words(),
            "battery": self.battery.in_words(),
            "conditions": self.conditions.in_words() or "none",
            **self.servers.status(),
            "map": "there is none yet" if self.senses.map is None else f"in frame '{self.senses.map.frame}'",
        }

    def close(self) -> None:
        for one in (self.senses, self.stop, self.battery, self.conditions, self.looks, self.prompts, self.servers):
            if one is not None:
                one.close()


#: Time before a goal is sent again that a server has rejected or lost, in seconds.
AGAIN = 0.5
#: For how long a server that has ended a goal without a word may turn out to be ending itself, in seconds.
LAST_WORDS = 1.0
#: For how long the robot may seem to be away from where it has arrived: tf is behind, in seconds.
ARRIVING = 1.0

#: Goes on at each step.
Steps = Generator[None, None, None]


class _Ended(Exception):
    def __init__(self, outcome: Outcome, words: str) -> None:
        super().__init__(outcome, words)
        self.outcome, self.words = outcome, words


class Errand:
    """A skill that is being carried out; times are those of :func:`steady.now` if nothing else is said.

    Raises:
        NoValue: A template names something that the skill does not have.

    Attributes:
        over: Whether nothing more is done for it.
        uses: What of the robot it takes.
        underway: Its goal, as it was sent last.
        trouble: Why the goal is to be sent again, or how it ended without a reason; empty: neither.
    """

    def __init__(
        self,
        robot: RobotParts,
        call: SkillCall,
        conduct: MapSkills,
        mapped: MappedSkill,
        *,
        values: Values,
        words: str,
        uses: frozenset[str],
        cancel: Callable[[Errand], None],
    ) -> None:
        self._robot, self._call, self._conduct, self._mapped = robot, call, conduct, mapped
        self._words, self.uses = words, uses
        self.pending: Pending[Observation] = Pending(on_cancel=lambda: cancel(self))
        self._orders = mapped.orders(values)
        self._number = 0  # of the leg that is under way
        self.over, self.trouble = False, ""
        self._limit, self._began = mapped.limit(values, self._orders), steady.now()
        self._done: float | None = None  # since when the robot looks what is before it, on the node's clock
        self._data: dict[str, Value] = {}  # what it returned
        self._pictures: tuple[Picture, ...] = ()
        self._glances: tuple[Glance, ...] = ()
        self._unsure = ""  # what nobody has seen, in words
        self._reported = ""  # who reported success last
        self._leg_began = self._began
        self._troubled_since: float | None = None  # since when no server has taken the goal on
        self._run = self._carry_out()
        self.step()

    def __str__(self) -> str:
        return str(self._call)

    @property
    def _leg(self) -> Leg:
        return self._mapped.legs[self._number]

    @property
    def _order(self) -> Order:
        return self._orders[self._number].asked

    @property
    def _server(self) -> Server:
        return self._robot.servers.server_for(self._leg.call)

    @property
    def is_wanted(self) -> bool:
        return not self.over and not self.pending.done()

    def step(self) -> None:
        if not self.is_wanted or inspect.getgeneratorstate(self._run) == inspect.GEN_RUNNING:
            return
        try:
            next(self._run)
        except _Ended as end:
            self._finish(end.outcome, end.words)
        except WorldError as error:
            self._fail(str(error))

    def cancelled(self) -> None:
        """Have the goal stopped: nobody waits for the skill any more."""
        self.over = True
        self._run.close()
        self._note_departure()
        self._expect_late()
        if not self.underway.over:
            self._stop()

    # ------------------------------------------------------------------ what is done, one thing after the other

    def _carry_out(self) -> Steps:
        for number in range(len(self._mapped.legs)):
            if number:
                self._check_may_go_on()
            self._number, self._leg_began, self._troubled_since = number, steady.now(), None
            yield from self._ask_for() if self._leg.picture is None else self._look_at_pictures()
            if not self._leg.checks:
                self._reported = self._leg.call.entry.server
            if self._leg.settles:
                self._apply()
        self._done = self._robot.senses.now()
        if self._robot.looks is not None and self._looks:
            self._robot.looks.begin()
        yield from self._look_around(self._done, steady.now())
        raise _Ended(Outcome.DONE, self._words)

    def _ask_for(self) -> Steps:
        """Have a server do what a leg asks for, again if that may help."""
        leg, tries = self._leg, 1
        self._send()
        while True:
            yield from self._until_answered()
            try:
                status, result = self.underway.result.take()
            except Rejected as error:
                if leg.rejected is not Outcome.WORLD_UNAVAILABLE:
                    raise _Ended(leg.rejected, self._failed(str(error))) from None
                yield from self._ask_again(str(error))
                continue
            except ServerLost as error:
                yield from self._lost(str(error))
                continue
            except ServerGone as error:
                raise WorldError(str(error)) from None
            outcome, reason, explained = leg.call.verdict(self._order, status, result)
            if outcome is Outcome.DONE:
                self._take(result)
                return
            if not explained and (yield from self._server_goes()):
                yield from self._lost(f"{self.underway.server} has gone, and with it what it was asked for")
                continue
            if leg.checks:
                raise self._contradicted(reason)
            if outcome is Outcome.WORLD_UNAVAILABLE:
                raise WorldError(self._failed(reason))
            if outcome is not Outcome.EXECUTION or tries > leg.retries:
                raise _Ended(outcome, self._failed(reason))
            tries += 1
            self._robot.node.get_logger().warning(f"'{self._call}' failed ({reason}); try {tries}")
            self._send_again()

    def _send(self) -> None:
        self.underway = sent = self._robot.servers.send(str(self._call), self._order, self.uses)
        sent.result.add_done_callback(lambda _: self.step() if self.underway is sent else None)

    def _send_again(self) -> None:
        self._note_departure()
        self._check_may_go_on()
        with suppress(NoValue):  # what it is done to may have been detected anew
            self._orders = self._mapped.orders(values_of(self._robot.map(), self._call))
        self._send()

    def _until_answered(self) -> Steps:
        patience = self._robot.server_timeout
        while not (underway := self.underway).result.done():
            yield from self._halt_if_due()
            if underway.accepted:
                self._troubled_since = None
            elif underway.sent_at is not None and steady.now() - underway.sent_at > patience:
                self._stop()
                raise WorldError(f"{underway.server} did not answer within {patience:g} s")
            yield

    def _take(self, result: Any) -> None:
        try:
            self._data |= self._leg.call.returned(result)
            self._pictures += self._leg.call.pictures(result)
        except ParameterError as error:
            self._reported = self.underway.server
            raise self._contradicted(str(error)) from None

    # ------------------------------------------------------------------ what ends it

    def _has_to_end(self) -> tuple[Outcome, str] | None:
        if stopped := self._robot.stop.engaged():
            return Outcome.HALTED, stopped
        if low := self._robot.battery.too_low():
            return Outcome.EXECUTION, f"{low}; it was stopped"
        if not self._leg.checks and (why := self._conduct.violated(self._robot.map(), self._call, lasting=True)):
            return Outcome.PRECONDITION, f"{why}; it was stopped"
        late = self._late()
        return (Outcome.POSTCONDITION if self._leg.checks else Outcome.TIMEOUT, late) if late else None

    def _late(self) -> str:
        now, limits = steady.now(), ((self._order.limit, self._leg_began), (self._limit, self._began))
        limit = next((limit for limit, began in limits if now - began > limit), 0.0)
        if not limit:
            return ""
        says = self.underway.says
        if self._leg.checks:
            return self._contradiction(f"{says or f'{self.underway.server} did not answer'} ({limit:g} s)")
        return f"it took longer than {limit:g} s and was stopped{f': {says}' if says else ''}"

    def _check_may_go_on(self) -> None:
        if (end := self._has_to_end()) is not None:
            raise _Ended(end[0], self._failed(end[1]))

    def _halt_if_due(self) -> Steps:
        if (end := self._has_to_end()) is not None:
            yield from self._halt(*end)

    def _halt(self, outcome: Outcome, reason: str) -> Steps:
        words, since, limit = self._failed(reason), steady.now(), self._robot.stop_timeout
        self._stop()
        while not self.underway.over:
            if steady.now() - since > limit:
                raise WorldError(f"{words} It did not stop within {limit:g} s.")
            yield
        if outcome is not Outcome.POSTCONDITION:
            self._take_late()
        raise _Ended(outcome, words)

    def _stop(self) -> None:
        underway, cancel = self.underway, self._orders[self._number].cancel
        moved = underway.sent_at is not None and not underway.over and underway.stop_since is None
        self._server.stop(underway)
        if cancel is not None and moved:
            asked = self._robot.servers.send(f"stop '{self._call}'", cancel, self.uses)
            asked.result.add_done_callback(lambda _: self._see_whether_stopped(cancel, asked.result))

    def _see_whether_stopped(self, cancel: Order, answer: Pending[tuple[int, Any]]) -> None:
        try:
            outcome, reason, _ = cancel.call.verdict(cancel, *answer.take())
        except Exception as error:
            outcome, reason = Outcome.EXECUTION, str(error)
        if outcome is not Outcome.DONE:
            self._robot.node.get_logger().error(f"'{self._call}' could not be told to stop: {reason}")

    # ------------------------------------------------------------------ servers that are not as they should be

    def _lost(self, reason: str) -> Steps:
        if not self._leg.repeatable:
            raise WorldError(f"{reason}; nobody knows how far '{self._call}' got")
        yield from self._ask_again(reason)

    def _ask_again(self, reason: str) -> Steps:
        if self._troubled_since is None:
            self._robot.node.get_logger().warning(f"'{self._call}' is tried again: {reason}")
            self._troubled_since = steady.now()
        limit, again_at, self.trouble = self._robot.server_timeout, steady.now() + AGAIN, reason
        while steady.now() < again_at or not self.underway.over:
            yield from self._halt_if_stopped()
            if steady.now() - self._troubled_since > limit:
                obstacle = self._robot.servers.obstacle(self.uses)
                raise WorldError(f"{reason} (again and again for {limit:g} s){f'; {obstacle}' if obstacle else ''}")
            yield
        self.trouble = ""
        self._send_again()

    def _server_goes(self) -> Generator[None, None, bool]:
        """Whether the server that has ended a goal without a word is ending itself."""
        since, self.trouble = steady.now(), "no reason"
        while (ready := self._server.ready()) and steady.now() - since <= LAST_WORDS:
            yield from self._halt_if_stopped()
            yield
        self.trouble = ""
        return not ready

    def _halt_if_stopped(self) -> Steps:
        if stopped := self._robot.stop.engaged():
            yield from self._halt(Outcome.HALTED, stopped)

    # ------------------------------------------------------------------ checks by a picture

    def _look_at_pictures(self) -> Steps:
        eyes, check = self._robot.eyes, self._leg.picture
        assert eyes is not None  # a configuration without them has no such check
        assert check is not None
        sight, question = Sight(check), check.asked(self._call.values)
        while not sight.glances or check.found(sight.glances) is None:
            self._send()
            glance, *pictures = yield from self._look_once(eyes, question)
            if not self.underway.over:
                self._stop()
            sight = sight.after(glance, *pictures)
        self._glances, self._pictures = (*self._glances, *sight.glances), (*self._pictures, *sight.pictures)
        unseen = "" if sight.holds else eyes.told_of(sight)
        if sight.holds is False or (unseen and check.necessary):
            raise self._contradicted(unseen)
        if unseen:
            self._unsure = f" {unseen[:1].upper()}{unseen[1:]}."

    def _look_once(self, eyes: Eyes, question: str) -> Generator[None, None, tuple[Any, ...]]:
        if late := (yield from self._until(self.underway.result)):
            return (Glance(question, error=late),)
        try:
            (picture,) = self._leg.call.pictures(self.underway.result.take()[1])
        except ParameterError as error:
            return (Glance(question, error=str(error)),)
        answer = eyes.whether(question, picture)
        try:
            late = yield from self._until(answer)
        finally:
            answer.cancel()
        return (Glance(question, error=late),) if late else (answer.take(), picture)

    def _until(self, done: Pending[Any]) -> Generator[None, None, str]:
        while not done.done():
            if late := self._late():
                return late
            yield from self._halt_if_due()
            yield
        return ""

    # ------------------------------------------------------------------ what has been done

    def _apply(self) -> None:
        changed = SkillCall(replace(self._call.skill, effect=self._leg.effect), self._call.values)
        self._robot.map().apply(changed, self._robot.senses.now())

    @property
    def _looks(self) -> bool:
        return looks(self._call.skill) or bool(self._mapped.detections) or self._mapped.entry.takes_pictures

    def _look_around(self, done: float, began: float) -> Steps:
        """End when it is seen whether a skill that was reported to be done is, or was looked for long enough."""
        call, config, senses = self._call, self._robot.config, self._robot.senses
        while True:
            map, since = self._robot.map(), steady.now() - began
            if away := self._away(map):
                if since >= ARRIVING:
                    map.leave()
                    raise self._contradicted(f"the robot is {away:.1f} m from there")
            elif config.detections is None or not self._looks:
                return
            else:
                unlike = self._unlike(map, done)
                unsure = senses.detected <= done or map.not_as_reported(call) or unlike  # heard may be old
                if not unsure or since >= config.look_time:
                    break
            yield
        if seen := map.settle(call) or unlike:
            raise self._contradicted(seen)
        senses.missed(call, done)

    def _unlike(self, map: SemanticMap, since: float) -> str:
        for check in self._mapped.detections:
            name, place = (str(self._call.values.get(one, "")) for one in (check.seen or check.gone, check.at))
            if unlike := map.unlike(name, place, gone=bool(check.gone), since=since):
                return unlike
        return ""

    def _away(self, map: SemanticMap) -> float:
        place = map.by_name.get(self._call.value("at"))
        return 0.0 if place is None else map.strayed_from(place)

    def _contradicted(self, seen: str) -> _Ended:
        return _Ended(Outcome.POSTCONDITION, self._failed(self._contradiction(seen)))

    def _contradiction(self, seen: str) -> str:
        return f"{self._reported} reported success, but {seen}"

    def _failed(self, reason: str) -> str:
        step = self._leg.step if self._done is None else ""
        return self._conduct.failed(self._robot.map(), self._call, f"in {step}, {reason}" if step else reason)

    def _finish(self, outcome: Outcome, words: str) -> None:
        self.over = True
        if self._robot.looks is not None and self._looks:
            self._robot.looks.stop()
        if outcome is Outcome.DONE:
            words += self._unsure
        else:
            self._note_departure()
        seen = self._conduct.after(self._robot.map(), self._call, outcome, words, self._data, pictures=self._pictures)
        begun = outcome is Outcome.PRECONDITION and (self._number > 0 or self._was_sent)
        self.pending.succeed(replace(seen, glances=self._glances, begun=begun))

    def _fail(self, reason: str) -> None:
        self.over = True
        if not self.underway.over or self._leg.checks:
            self._expect_late()
        self._note_departure()
        self.pending.fail(WorldError(reason))

    def _expect_late(self) -> None:
        if self._done is None:  # otherwise that is known
            self.underway.result.add_done_callback(lambda _: self._take_late())

    def _take_late(self) -> None:
        answer, leg = self.underway.result, self._leg
        if leg.checks:
            self._apply()  # it was done, though nobody has looked whether it was
            return
        if not answer.done() or answer.cancelled() or answer.exception() is not None:
            return
        outcome, _, _ = leg.call.verdict(self._order, *answer.take())
        if outcome is Outcome.DONE:
            self._robot.node.get_logger().warning(f"'{self._call}' was done before it could be stopped")
            self._apply()

    def _note_departure(self) -> None:
        if self._leg.moves and self._done is None and self._was_sent:
            self._robot.map().leave()

    @property
    def _was_sent(self) -> bool:
        return self.underway.sent_at is not None and (self.underway.accepted or not self.underway.over)


class Waiting:
    """A wait for a condition that is under way; it ends as soon as that holds, or the time is over."""

    def __init__(
        self,
        call: SkillCall,
        conditions: Conditions,
        *,
        uses: frozenset[str],
        halted: Callable[[], str],
        after: Callable[[Outcome, str], Observation],
    ) -> None:
        self._call, self._conditions, self._halted, self._after = call, conditions, halted, after
        self.uses = uses
        self._until = steady.now() + float(call.said["seconds"])
        self.pending: Pending[Observation] = Pending()
        self.step()

    def __str__(self) -> str:
        return str(self._call)

    @property
    def over(self) -> bool:
        return self.pending.done()

    def step(self) -> None:
        holds = self._conditions.by_wording[str(self._call.values["condition"])].holds()
        if self.over:
            return
        if halted := self._halted():
            self._end(Outcome.HALTED, f"You could not {self._call}: {halted}.")
        elif holds or steady.now() >= self._until:
            self._end(*waited(self._call, holds))

    def _end(self, outcome: Outcome, words: str) -> None:
        self.pending.succeed(self._after(outcome, words))
