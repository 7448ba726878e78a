"""A robot behind the World port: skills become goals of its own servers, observations come from its semantic map."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from reactree_ros.agent.control_flow import ControlFlow, default_flows, flow_named
from reactree_ros.agent.parameters import Named
from reactree_ros.agent.skill import Offer, Offered, SkillCall
from reactree_ros.background.pending import Pending, asked, mapped, pass_on
from reactree_ros.household.household import ONE_HAND, WAH_NL
from reactree_ros.household.vocabulary import RECALLABLE, WORDS
from reactree_ros.nodes import steady
from reactree_ros.nodes.robot.goal_templates import NoValue, Values
from reactree_ros.nodes.robot.mapped_skill import Asked, MappedSkill, missing, values_of
from reactree_ros.nodes.robot.robot_errand import Errand, Waiting
from reactree_ros.nodes.robot.robot_parts import Charging, RobotParts
from reactree_ros.nodes.waiting import Wake
from reactree_ros.robot.config import RobotConfig
from reactree_ros.robot.semantic_map import SemanticMap
from reactree_ros.robot.skills import HouseholdSkills, MapSkills
from reactree_ros.world.port import Observation, Outcome, Score, SharedWorld, WorldError

#: How often what is under way is looked after, in seconds.
PERIOD = 0.05


@dataclass(eq=False)
class _Next:
    """A skill that waits until what was sent before has stopped."""

    text: str
    pending: Pending[Observation]
    until: float


class RobotWorld(SharedWorld):
    """A robot with its own action servers and services; its skills are those that the configuration names.

    A skill may be cancelled, and rest be asked for, from any thread; everything else belongs to the node's executor.

    In a dry run every goal is logged and none is sent; a skill is then taken to go well at once.

    Args:
        mapped: How each skill is carried out, by its name.
        file: Name of the file that declares them.
        active: Says whether the robot may do something by itself: charge.
    """

    def __init__(
        self, robot: RobotParts, mapped: Mapping[str, MappedSkill], *, file: str, active: Callable[[], bool]
    ) -> None:
        self._robot, self._mapped, self._file, self._active = robot, mapped, file, active
        self._node, self._config, self._dry_run = robot.node, robot.config, robot.dry_run
        node, config = self._node, self._config
        self._conducts = conducts_of(config)
        self._last: Errand | Waiting | None = None
        self._last_conditions = ""
        charge = None if self._dry_run or config.battery is None else config.battery.charge
        self._charging = Charging(
            self._robot.battery, charge, lambda skill: asked(self._carry_out, skill, charging=True), node.get_logger()
        )
        self._next: _Next | None = None
        self._cancelled: deque[Errand] = deque()
        self.household = replace(
            WAH_NL,
            skills=(*config.declared, *config.waits),
            actions=(),
            control_flows={flow.name: flow.text for flow in flows_of(config)},
            rules=ONE_HAND if config.hands == 1 and config.of_household else "",
        )
        self._timer = steady.every(node, PERIOD, self._look_after)
        self._wake = Wake(node, self._look_after)

    @property
    def _errand(self) -> Errand | Waiting | None:
        return None if self._last is None or self._last.over else self._last

    # ------------------------------------------------------------------ the port

    def reset(self, seed: int | None = None) -> Pending[Observation]:
        """Fail: a robot does not bring its house back to where a task starts."""
        return Pending.failed(WorldError("a robot cannot bring its house back to a start; give an instruction"))

    def observe(self) -> Pending[Observation]:
        self._last_conditions = ""
        return Pending.ready(self._with_conditions(self._robot.map().around()))

    def attend(self, goal: str) -> None:
        self._robot.attend(goal)

    def corrections(self) -> Pending[Sequence[Offer]]:
        return Pending.ready(self._robot.map().corrections(self._config.declared))

    def correct(self, correction: SkillCall) -> Pending[Observation]:
        return Pending.ready(self._robot.map().corrected(correction, self._robot.senses.now()))

    def _with_conditions(self, observation: Observation) -> Observation:
        before, self._last_conditions = self._last_conditions, self._robot.conditions.in_words()
        if self._last_conditions == before:
            return observation
        return replace(observation, text=f"{observation.text} {self._last_conditions}")

    def available_skills(self) -> Pending[Sequence[Offered]]:
        map = self._robot.map()
        return Pending.ready([one for conduct in self._conducts for one in conduct.offered(map)])

    def score(self) -> Pending[Score | None]:
        """Say that no goal is known: whether it is reached is for the planner's tree."""
        return Pending.ready(None)

    @property
    def words(self) -> Sequence[str]:  # type: ignore[override]
        """The vocabulary's and the map's own; none as long as there is no map."""
        return () if self._robot.senses.map is None else tuple(dict.fromkeys((*WORDS, *self._own_words())))

    def _own_words(self) -> Sequence[str]:
        map = self._robot.senses.map
        return () if map is None else (*map.document.words, *(item.word for item in map.items()))

    def names(self, kind: Named) -> Sequence[str] | None:
        map = self._robot.senses.map
        return None if map is None else map.document.names(kind)

    @property
    def recallable(self) -> Sequence[str]:  # type: ignore[override]
        """What can be carried: of the vocabulary, of the map's own words, and what was seen that nobody listed."""
        map = self._robot.senses.map
        own = (word for word in self._own_words() if map and "GRABBABLE" in map.properties(word))
        return tuple(dict.fromkeys((*RECALLABLE, *own)))

    @property
    def places(self) -> Sequence[str]:  # type: ignore[override]
        """What receptacles are called: before each of them there is room for one robot; none without a map."""
        map = self._robot.senses.map
        return () if map is None else tuple(dict.fromkeys(one.word for one in map.receptacles()))

    def execute(self, skill: str) -> Pending[Observation]:
        """Check a skill and send its goal; a cancel goes through to the robot's server."""
        done = self._carry_out(skill)
        return mapped(done, self._with_conditions) if self._config.conditions else done

    def _carry_out(self, skill: str, *, charging: bool = False) -> Pending[Observation]:
        """Carry a skill out, see :meth:`execute`; one by which the robot charges also where tasks hold for that."""
        self._robot.senses.look(forget=True)
        map, now = self._robot.map(), self._robot.senses.now()
        conduct, call = self._read(map, skill)
        if not isinstance(call, SkillCall):
            return Pending.ready(Observation(call, Outcome.UNKNOWN_SKILL))

        def ended(outcome: Outcome, words: str) -> Pending[Observation]:
            return Pending.ready(conduct.after(map, call, outcome, words, {}))

        if halted := "" if charging else self.halted():
            return ended(Outcome.HALTED, f"You cannot {skill} now: {halted}.")
        if call.skill in self._config.waits:
            return self._wait(call, lambda outcome, words: conduct.after(map, call, outcome, words, {}))
        if low := "" if self._dry_run else self._robot.battery.too_low():
            return ended(Outcome.PRECONDITION, f"You cannot {skill} now: {low}.")
        if self._robot.servers.obstacle():
            self._next = _Next(skill, Pending(), steady.now() + self._robot.stop_timeout)
            return self._next.pending
        outcome, words = conduct.check(map, call, now, unseen=self._dry_run)
        if outcome is not Outcome.DONE:
            return ended(outcome, words)
        by = self._mapped[call.skill.name]
        values = values_of(map, call)
        try:
            if self._dry_run:
                self._log(by.orders(values), call)
                map.apply(call, now)
                return ended(Outcome.DONE, words)
            return self._begin(call, conduct, by, words, values)
        except NoValue as error:
            return ended(Outcome.PRECONDITION, f"You cannot {skill}: {missing(map, call, str(error))}.")

    def _wait(self, call: SkillCall, after: Callable[[Outcome, str], Observation]) -> Pending[Observation]:
        if self._dry_run:
            self._node.get_logger().info(f"dry run: {call}")
            return Pending.ready(after(Outcome.DONE, f"You {call}."))
        self._last = waiting = Waiting(call, self._robot.conditions, halted=self.halted, after=after)
        return waiting.pending

    def _log(self, orders: Sequence[Asked], call: SkillCall) -> None:
        for one in orders:
            stop = "" if one.cancel is None else f"; stopped by {one.cancel.in_words()}"
            self._node.get_logger().info(f"dry run: {call} -> {one.asked.in_words()}{stop}")

    def _read(self, map: SemanticMap, said: str) -> tuple[MapSkills, SkillCall | str]:
        readings = [(conduct, conduct.read(map, said)) for conduct in self._conducts]
        if (call := next((one for one in readings if isinstance(one[1], SkillCall)), None)) is not None:
            return call
        begun = [one for one in readings if any(skill.words.begins(said) for skill in one[0].skills)]
        if begun or len(readings) == 1:
            return (begun or readings)[0]
        together = MapSkills([skill for conduct in self._conducts for skill in conduct.skills])
        return together, f"{together.read(map, said)} (its skills are declared in {self._file})"

    def halted(self) -> str:
        """Say whether the emergency stop is engaged, or the robot charges; neither stops a dry run."""
        return "" if self._dry_run else self._robot.stop.engaged() or self._charging.reason()

    def lacks(self) -> str:
        return self._robot.lacks()

    def status(self) -> Mapping[str, str]:
        return {"dry run": "yes" if self._dry_run else "no", **self._robot.status()}

    def emergency(self) -> str:
        """Say what was told to stop and has not, or that the robot cannot charge: what a person has to see to."""
        return self._robot.servers.emergency or self._charging.emergency()

    def at_rest(self) -> Pending[None]:
        pending = self._robot.servers.at_rest()
        if not pending.done():
            self._wake.trigger()
        return pending

    def close(self) -> None:
        self._charging.close()
        self._stop_cancelled()
        self._node.destroy_timer(self._timer)
        self._wake.close()
        if self._next is not None:
            self._next.pending.cancel()
        self._robot.close()

    # ------------------------------------------------------------------ one skill

    def _begin(
        self, call: SkillCall, conduct: MapSkills, by: MappedSkill, words: str, values: Values
    ) -> Pending[Observation]:
        def cancel() -> None:
            self._cancelled.append(errand)
            self._wake.trigger()

        pending: Pending[Observation] = Pending(on_cancel=cancel)
        self._last = errand = Errand(self._robot, call, conduct, by, values=values, words=words, pending=pending)
        return pending

    def _stop_cancelled(self) -> None:
        while self._cancelled:
            self._cancelled.popleft().cancelled()

    def _look_after(self) -> None:
        self._stop_cancelled()
        self._robot.watch()
        self._begin_next()
        self._robot.senses.look(forget=self._errand is None)
        if self._errand is not None:
            self._errand.step()
        obstacle = self._errand or self._next or self._robot.stop.engaged() or self._robot.servers.obstacle()
        self._charging.look(active=self._active(), free=not obstacle)

    def _begin_next(self) -> None:
        next = self._next
        if next is None:
            return
        obstacle = "" if next.pending.done() or self.halted() else self._robot.servers.obstacle()
        if obstacle and steady.now() <= next.until:
            return
        self._next = None
        if obstacle:
            limit = f"{self._robot.stop_timeout:g} s"
            next.pending.fail(WorldError(f"'{next.text}' could not begin within {limit}: {obstacle}"))
        elif not next.pending.done():
            pass_on(asked(self._carry_out, next.text), next.pending)


def flows_of(config: RobotConfig) -> Sequence[type[ControlFlow]]:
    """Return the control flows for a robot: those of the paper, and with conditions what needs them."""
    return (*default_flows(), *map(flow_named, ("repeat_until", "within") if config.conditions else ()))


def conducts_of(config: RobotConfig) -> Sequence[MapSkills]:
    """Return what becomes of a robot's skills: of its own by their declarations, of the household's by its rules."""
    own = [skill for skill in (*config.declared, *config.waits) if skill.name not in config.of_household]
    conducts = [MapSkills(own)] if own else []
    if config.of_household:
        conducts.append(HouseholdSkills([skill for skill in config.declared if skill.name in config.of_household]))
    return conducts
