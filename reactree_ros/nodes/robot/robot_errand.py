"""One skill of a robot that is being carried out: its goal, what comes of it, and when that is tried again."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

from reactree_ros.agent.parameters import ParameterError, Value
from reactree_ros.agent.picture import Glance, Picture
from reactree_ros.agent.skill import SkillCall
from reactree_ros.background.pending import Pending
from reactree_ros.llm.eyes import Sight
from reactree_ros.nodes import steady
from reactree_ros.nodes.calls import ServerGone, ServerLost
from reactree_ros.nodes.robot.goal_templates import NoValue, Values
from reactree_ros.nodes.robot.mapped_skill import Leg, MappedSkill, Order, values_of
from reactree_ros.nodes.robot.robot_goals import Rejected, Server
from reactree_ros.nodes.robot.robot_parts import RobotParts
from reactree_ros.robot.semantic_map import SemanticMap
from reactree_ros.robot.skills import MapSkills, looks
from reactree_ros.world.port import Observation, Outcome, WorldError

#: Time before a goal is sent again that a server has rejected or lost, in seconds.
AGAIN = 0.5
#: For how long a server that has ended a goal without a word may turn out to be ending itself, in seconds.
LAST_WORDS = 1.0
#: For how long the robot may seem to be away from where it has arrived: tf is behind, in seconds.
ARRIVING = 1.0


class Errand:
    """A skill that is being carried out; times are those of :func:`steady.now` if nothing else is said.

    Args:
        robot: Who carries it out.
        mapped: What is asked for it, one after the other.
        words: The first sentence of the observation if it goes well.

    Raises:
        NoValue: A template names something that the skill does not have.

    Attributes:
        over: Whether nothing more is done for it.
        underway: Its goal, as it was sent last.
        again_at: When that is sent again; None: it is not.
        unexplained: How the goal ended without a reason, and when.
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
        pending: Pending[Observation],
    ) -> None:
        self._robot, self._call, self._conduct, self._mapped = robot, call, conduct, mapped
        self._words, self.pending = words, pending
        self._orders = mapped.orders(values)
        self._number = 0  # of the leg that is under way
        self.over = False
        self._limit, self._began = mapped.limit(values, self._orders), steady.now()
        self._done: float | None = None  # since when the robot looks what is before it, on the node's clock
        self._done_since = 0.0
        self._data: dict[str, Value] = {}  # what it returned
        self._pictures: tuple[Picture, ...] = ()
        self._glances: tuple[Glance, ...] = ()
        self._sight: Sight | None = None  # what the check that is under way has seen so far
        self._asking: tuple[Picture, Pending[Glance]] | None = None  # what eyes are asked about
        self._unsure = ""  # what nobody has seen, in words
        self._end_as: tuple[Outcome, str] | None = None  # how it ends as soon as the robot has stopped
        self._end_since = 0.0
        self._reported = ""  # who reported success last
        self._begin_leg()

    @property
    def _leg(self) -> Leg:
        return self._mapped.legs[self._number]

    @property
    def _server(self) -> Server:
        return self._robot.servers.of(self._leg.call)

    def _begin_leg(self) -> None:
        self._tries, self._leg_began = 1, steady.now()
        self._trouble: tuple[str, float] | None = None  # why it is to be sent again, and since when
        self.again_at: float | None = None
        self.unexplained: tuple[Outcome, str, float] | None = None
        self._send()

    def _send(self) -> None:
        self.underway = sent = self._robot.servers.send(str(self._call), self._orders[self._number].asked)

        def answered(_: object) -> None:
            if self.underway is sent:
                self.step()

        sent.result.add_done_callback(answered)

    def cancelled(self) -> None:
        """Have the goal stopped: nobody waits for the skill any more."""
        self.over = True
        self._ask_no_more()
        self._note_departure()
        self._expect_late()
        if not self.underway.over:
            self._stop()

    def _stop(self) -> None:
        underway, cancel = self.underway, self._orders[self._number].cancel
        moved = underway.sent_at is not None and not underway.over and underway.stop_since is None
        self._server.stop(underway)
        if cancel is not None and moved:
            said = self._robot.servers.send(f"stop '{self._call}'", cancel)
            said.result.add_done_callback(lambda _: self._told_to_stop(cancel, said.result))

    def _told_to_stop(self, cancel: Order, said: Pending[tuple[int, Any]]) -> None:
        try:
            outcome, reason, _ = cancel.call.verdict(cancel, *said.take())
        except Exception as error:
            outcome, reason = Outcome.EXECUTION, str(error)
        if outcome is not Outcome.DONE:
            self._robot.node.get_logger().error(f"'{self._call}' could not be told to stop: {reason}")

    def step(self) -> None:
        """Go on with a skill as far as it goes now."""
        if self.over or self.pending.done():
            return
        now, underway, patience = steady.now(), self.underway, self._robot.server_timeout
        if self._done is not None:
            self._look_around()
            return
        if self._end_as is not None:
            if underway.over:
                if self._end_as[0] is not Outcome.POSTCONDITION:
                    self._take_late()
                self._finish(*self._end_as)
            elif now - self._end_since > self._robot.stop_timeout:
                self._fail(f"{self._end_as[1]} It did not stop within {self._robot.stop_timeout:g} s.")
            return
        if self._leg.picture is not None and (late := self._late(now)):
            self._looked(Glance(self._question, error=late))
        elif self._asking is not None:
            self._step_while_asking()
        elif self.again_at is not None or self.unexplained is not None:
            self._step_after_trouble()
        elif underway.result.done():
            self._ended()
        elif (end := self._has_to_end()) is not None:
            self._end(*end)
        elif underway.accepted and self._trouble is not None:
            self._trouble = None
        elif underway.sent_at is not None and not underway.accepted and now - underway.sent_at > patience:
            self._stop()
            self._fail(f"{underway.server} did not answer within {patience:g} s")

    def _has_to_end(self) -> tuple[Outcome, str] | None:
        if stopped := self._robot.stop.engaged():
            return Outcome.HALTED, stopped
        if low := self._robot.battery.too_low():
            return Outcome.EXECUTION, f"{low}; it was stopped"
        late = self._late(steady.now())
        return (Outcome.POSTCONDITION if self._leg.checks else Outcome.TIMEOUT, late) if late else None

    def _late(self, now: float) -> str:
        limits = (self._orders[self._number].asked.limit, self._leg_began), (self._limit, self._began)
        limit = next((limit for limit, began in limits if now - began > limit), 0.0)
        if limit and self._leg.checks:
            return self._contradiction(
                f"{self.underway.says or f'{self.underway.server} did not answer'} ({limit:g} s)"
            )
        said = f": {self.underway.says}" if self.underway.says else ""
        return f"it took longer than {limit:g} s and was stopped{said}" if limit else ""

    def _end(self, outcome: Outcome, reason: str) -> None:
        self._ask_no_more()
        self._end_as, self._end_since = (outcome, self._failed(reason)), steady.now()
        self._stop()
        self.step()

    def _ended(self) -> None:
        leg, asked = self._leg, self._orders[self._number].asked
        try:
            status, result = self.underway.result.take()
            outcome, reason, explained = leg.call.verdict(asked, status, result)
            if outcome is Outcome.DONE:
                self._data |= leg.call.returned(result)
                taken = leg.call.pictures(result)
                if leg.picture is not None:
                    self._ask(taken[0])
                    return
                self._pictures += taken
        except ParameterError as error:
            if leg.picture is not None:
                self._looked(Glance(self._question, error=str(error)))
                return
            self._reported = self.underway.server
            self._contradicted(str(error))
        except Rejected as error:
            if (rejected := leg.rejected) is Outcome.WORLD_UNAVAILABLE:
                self._again(str(error))
            else:
                self._finish(rejected, self._failed(str(error)))
        except ServerLost as error:
            self._lost(str(error))
        except ServerGone as error:
            self._fail(str(error))
        else:
            if explained:
                self._judged(outcome, reason)
            else:
                self.unexplained = outcome, reason, steady.now()

    # ------------------------------------------------------------------ checks by a picture

    @property
    def _question(self) -> str:
        return "" if self._leg.picture is None else self._leg.picture.asked(self._call.values)

    def _ask(self, picture: Picture) -> None:
        assert self._robot.eyes is not None  # a configuration without them has no such check
        self._asking = picture, self._robot.eyes.whether(self._question, picture)

    def _ask_no_more(self) -> None:
        if self._asking is not None:
            self._asking[1].cancel()
            self._asking = None

    def _step_while_asking(self) -> None:
        assert self._asking is not None
        picture, answer = self._asking
        if answer.done():
            self._asking = None
            self._looked(answer.take(), picture)
        elif (end := self._has_to_end()) is not None:
            self._end(*end)

    def _looked(self, glance: Glance, *pictures: Picture) -> None:
        eyes, check = self._robot.eyes, self._leg.picture
        assert eyes is not None
        assert check is not None
        self._ask_no_more()
        if not self.underway.over:
            self._stop()
        self._sight = sight = (self._sight or Sight(check)).after(glance, *pictures)
        if check.found(sight.glances) is None:
            self._send()
            return
        self._sight = None
        self._glances, self._pictures = (*self._glances, *sight.glances), (*self._pictures, *sight.pictures)
        said = "" if sight.holds else eyes.told_of(sight)
        if sight.holds is False or (said and check.necessary):
            self._contradicted(said)
            return
        self._unsure = f" {said[:1].upper()}{said[1:]}." if said else self._unsure
        self._leg_is_done()

    # ------------------------------------------------------------------ what has been done

    def _judged(self, outcome: Outcome, reason: str) -> None:
        if outcome is Outcome.DONE:
            self._leg_is_done()
        elif self._leg.checks:
            self._contradicted(reason)
        elif outcome is Outcome.WORLD_UNAVAILABLE:
            self._fail(self._failed(reason))
        elif outcome is Outcome.EXECUTION and self._tries <= self._leg.retries:
            self._tries += 1
            self._robot.node.get_logger().warning(f"'{self._call}' failed ({reason}); try {self._tries}")
            self._send_again()
        else:
            self._finish(outcome, self._failed(reason))

    def _leg_is_done(self) -> None:
        if not self._leg.checks:
            self._reported = self._leg.call.entry.server
        if self._leg.settles:
            self._apply()
        if self._number + 1 < len(self._mapped.legs):
            if (end := self._has_to_end()) is not None:
                self._finish(end[0], self._failed(end[1]))
                return
            self._number += 1
            self._begin_leg()
            return
        self._done, self._done_since = self._robot.senses.now(), steady.now()
        if self._robot.looks is not None and self._looks:
            self._robot.looks.begin()
        self.step()

    def _apply(self) -> None:
        changed = SkillCall(replace(self._call.skill, effect=self._leg.effect), self._call.values)
        self._robot.map().apply(changed, self._robot.senses.now())

    @property
    def _looks(self) -> bool:
        return looks(self._call.skill) or bool(self._mapped.detections) or self._mapped.entry.takes_pictures

    def _look_around(self) -> None:
        """End a skill that was reported to be done when it is seen whether it is, or was looked for long enough."""
        map, call, since = self._robot.map(), self._call, steady.now() - self._done_since
        assert self._done is not None
        if away := self._away(map, call):
            if since >= ARRIVING:
                map.leave()
                self._contradicted(f"the robot is {away:.1f} m from there")
            return
        if self._robot.config.detections is not None and self._looks:
            unlike = self._unlike(map, call)
            unsure = (
                self._robot.senses.detected <= self._done or map.not_as_reported(call) or unlike
            )  # heard may be old
            if unsure and since < self._robot.config.look_time:
                return
            if seen := map.settle(call) or unlike:
                self._contradicted(seen)
                return
            self._robot.senses.missed(call, self._done)
        self._finish(Outcome.DONE, self._words)

    def _unlike(self, map: SemanticMap, call: SkillCall) -> str:
        assert self._done is not None
        for check in self._mapped.detections:
            name, place = (str(call.values.get(one, "")) for one in (check.seen or check.gone, check.at))
            if said := map.unlike(name, place, gone=bool(check.gone), since=self._done):
                return said
        return ""

    def _away(self, map: SemanticMap, call: SkillCall) -> float:
        place, within = map.by_name.get(call.value("at")), self._robot.config.arrived_within
        away = None if place is None else map.away_from(place)
        return away if within and away is not None and away > within else 0.0

    def _contradicted(self, seen: str) -> None:
        self._finish(Outcome.POSTCONDITION, self._failed(self._contradiction(seen)))

    def _contradiction(self, seen: str) -> str:
        return f"{self._reported} reported success, but {seen}"

    def _failed(self, reason: str) -> str:
        step = self._leg.step if self._done is None else ""
        return self._conduct.failed(self._robot.map(), self._call, f"in {step}, {reason}" if step else reason)

    def _send_again(self) -> None:
        self._note_departure()
        with suppress(NoValue):  # what it is done to may have been detected anew
            self._orders = self._mapped.orders(values_of(self._robot.map(), self._call))
        self._send()

    # ------------------------------------------------------------------ servers that are not as they should be

    def _lost(self, reason: str) -> None:
        if self._leg.repeatable:
            self._again(reason)
        else:
            self._fail(f"{reason}; nobody knows how far '{self._call}' got")

    def _again(self, reason: str) -> None:
        if self._trouble is None:
            self._robot.node.get_logger().warning(f"'{self._call}' is tried again: {reason}")
        self._trouble = reason, steady.now() if self._trouble is None else self._trouble[1]
        self.again_at = steady.now() + AGAIN

    def _step_after_trouble(self) -> None:
        now, underway = steady.now(), self.underway
        if stopped := self._robot.stop.engaged():
            self._end(Outcome.HALTED, stopped)
        elif self.unexplained is not None:
            outcome, reason, since = self.unexplained
            if not self._server.ready():
                self.unexplained = None
                self._lost(f"{self.underway.server} has gone, and with it what it was asked for")
            elif now - since > LAST_WORDS:
                self.unexplained = None
                self._judged(outcome, reason)
        elif self._trouble is not None and now - self._trouble[1] > self._robot.server_timeout:
            reason = f"{self._trouble[0]} (again and again for {self._robot.server_timeout:g} s)"
            self._fail(f"{reason}; {self._robot.servers.obstacle()}" if self._robot.servers.obstacle() else reason)
        elif self.again_at is not None and now >= self.again_at and underway.over:
            self.again_at = None
            self._send_again()

    def _finish(self, outcome: Outcome, words: str) -> None:
        self.over = True
        if self._robot.looks is not None:
            self._robot.looks.stop()
        if outcome is not Outcome.DONE:
            self._note_departure()
        if outcome is Outcome.DONE:
            words += self._unsure
        seen = self._conduct.after(self._robot.map(), self._call, outcome, words, self._data, pictures=self._pictures)
        self.pending.succeed(replace(seen, glances=self._glances))

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
        outcome, _, _ = leg.call.verdict(self._orders[self._number].asked, *answer.take())
        if outcome is Outcome.DONE:
            self._robot.node.get_logger().warning(f"'{self._call}' was done before it could be stopped")
            self._apply()

    def _note_departure(self) -> None:
        underway = self.underway
        refused = underway.over and not underway.accepted
        if self._leg.moves and self._done is None and underway.sent_at is not None and not refused:
            self._robot.map().leave()
