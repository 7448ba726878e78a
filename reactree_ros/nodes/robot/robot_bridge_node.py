"""The robot bridge: a robot behind the World port, whose skills become goals of its own servers."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from reactree_ros.agent.skill import SkillCall
from reactree_ros.background.pending import Pending, asked, mapped, pass_on
from reactree_ros.episode.eyes import with_eyes
from reactree_ros.llm.eyes import Eyes
from reactree_ros.llm.spec import model_from_dict
from reactree_ros.nodes import steady
from reactree_ros.nodes.bridge.bridge import Bridge
from reactree_ros.nodes.parameters import declare, settings_of
from reactree_ros.nodes.robot.goal_templates import NoValue
from reactree_ros.nodes.robot.mapped_skill import MappedSkill, missing, values_of
from reactree_ros.nodes.robot.robot_errand import Errand, RobotParts, Waiting
from reactree_ros.nodes.robot.robot_perception import KeptSightings
from reactree_ros.nodes.robot.robot_topics import Battery
from reactree_ros.nodes.settings import RobotBridgeSettings
from reactree_ros.nodes.spinning import run_node
from reactree_ros.nodes.waiting import Wake
from reactree_ros.robot.config import ChargeEntry, RobotConfig, load_robot
from reactree_ros.robot.map_world import MapWorld
from reactree_ros.robot.semantic_map import SemanticMap
from reactree_ros.world.port import Observation, Outcome, World, WorldError
from reactree_ros.world.spec import ROBOT
from reactree_ros.world.tool_servers import check_programs, with_tools

#: How often what is under way is looked after, in seconds.
PERIOD = 0.05


@dataclass(eq=False)
class _Next:
    text: str
    uses: frozenset[str]
    pending: Pending[Observation]
    until: float


class RobotWorld(MapWorld):
    """A robot with its own action servers and services; its skills are those that the configuration names.

    A skill may be cancelled, and rest be asked for, from any thread; everything else belongs to the node's executor.

    In a dry run every goal is logged and none is sent; a skill is then taken to go well at once.

    Args:
        mapped: How each skill is carried out, by its name.
        file: Name of the file that declares them.
        active: Says whether the robot may do something by itself: charge.
    """

    tells_map = True

    def __init__(
        self, robot: RobotParts, mapped: Mapping[str, MappedSkill], *, file: str, active: Callable[[], bool]
    ) -> None:
        super().__init__(robot.config, file=file)
        self._robot, self._mapped, self._active = robot, mapped, active
        self._node, self._dry_run = robot.node, robot.dry_run
        node, config = self._node, self._config
        self._errands: list[Errand | Waiting] = []  # what is under way
        self._together = False  # whether several were under way at the same time
        charge = None if self._dry_run or config.battery is None else config.battery.charge
        self._charging = Charging(
            self._robot.battery, charge, lambda skill: asked(self._carry_out, skill, charging=True), node.get_logger()
        )
        self._next: list[_Next] = []  # what waits for what does not stop
        self._cancelled: deque[Errand] = deque()
        self._timer = steady.every(node, PERIOD, self._look_after)
        self._wake = Wake(node, self._look_after)
        robot.conditions.call(self._step)

    # ------------------------------------------------------------------ the port

    def reset(self, seed: int | None = None) -> Pending[Observation]:
        return Pending.failed(WorldError("a robot cannot bring its house back to a start; give an instruction"))

    def attend(self, goal: str) -> None:
        super().attend(goal)
        self._robot.attend(goal)

    @property
    def map(self) -> SemanticMap | None:
        return self._robot.senses.map

    def now(self) -> float:
        return self._robot.senses.now()

    def condition(self, wording: str) -> bool | None:
        return self._robot.conditions.named(wording)

    @property
    def there(self) -> SemanticMap:
        return self._robot.map()

    def observe(self) -> Pending[Observation]:
        under_way = "".join(f" Under way: {errand}." for errand in self._under_way)
        return mapped(super().observe(), lambda seen: replace(seen, text=seen.text + under_way))

    def execute(self, skill: str) -> Pending[Observation]:
        """Check a skill and send its goal; a cancel goes through to the robot's server."""
        self._together |= bool(self._under_way)
        return mapped(self._carry_out(skill), self._with_conditions)

    def _with_conditions(self, observation: Observation) -> Observation:
        if self._together:  # who was told last may be somebody else
            self._last_conditions = ""
        return super()._with_conditions(observation)

    def _carry_out(self, skill: str, *, charging: bool = False) -> Pending[Observation]:
        """Carry a skill out, see :meth:`execute`; one by which the robot charges also where tasks hold for that."""
        self._robot.senses.look(forget=not self._under_way)
        map, now = self.there, self.now()
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
        uses = self.household.uses(call)
        if self._obstacle(uses):
            self._next.append(_Next(skill, uses, Pending(), steady.now() + self._robot.stop_timeout))
            return self._next[-1].pending
        outcome, words = conduct.check(map, call, now, unseen=self._dry_run)
        if outcome is not Outcome.DONE:
            return ended(outcome, words)
        by = self._mapped[call.skill.name]
        values = values_of(map, call)
        try:
            if self._dry_run:
                for one in by.orders(values):
                    stop = "" if one.cancel is None else f"; stopped by {one.cancel.in_words()}"
                    self._node.get_logger().info(f"dry run: {call} -> {one.asked.in_words()}{stop}")
                map.apply(call, now)
                return ended(Outcome.DONE, words)
            by_what = self._robot, call, conduct, by
            self._errands.append(Errand(*by_what, values=values, words=words, uses=uses, cancel=self._cancel))
        except NoValue as error:
            return ended(Outcome.PRECONDITION, f"You cannot {skill}: {missing(map, call, str(error))}.")
        return self._errands[-1].pending

    def _wait(self, call: SkillCall, after: Callable[[Outcome, str], Observation]) -> Pending[Observation]:
        if self._dry_run:
            self._node.get_logger().info(f"dry run: {call}")
            return Pending.ready(after(Outcome.DONE, f"You {call}."))
        uses = self.household.uses(call)
        waiting = Waiting(call, self._robot.conditions, uses=uses, halted=self.halted, after=after)
        self._errands.append(waiting)
        return waiting.pending

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
        for next in self._next:
            next.pending.cancel()
        self._robot.close()

    # ------------------------------------------------------------------ one skill

    def _cancel(self, errand: Errand) -> None:
        self._cancelled.append(errand)
        self._wake.trigger()

    def _stop_cancelled(self) -> None:
        while self._cancelled:
            self._cancelled.popleft().cancelled()

    def _look_after(self) -> None:
        self._stop_cancelled()
        self._robot.watch([one.underway for one in self._under_way if isinstance(one, Errand) and one.is_wanted])
        for next in list(self._next):
            self._begin_next(next)
        self._robot.senses.look(forget=not self._under_way)
        self._step()
        obstacle = self._next or self._robot.stop.engaged() or self._obstacle()
        self._charging.look(active=self._active(), free=not obstacle)

    def _step(self) -> None:
        for errand in self._under_way:
            errand.step()

    @property
    def _under_way(self) -> Sequence[Errand | Waiting]:
        self._errands = [errand for errand in self._errands if not errand.over]
        return tuple(self._errands)

    def _obstacle(self, uses: frozenset[str] | None = None) -> str:
        """Say why nothing may begin that uses this of the robot; None: anything. Empty if it may."""
        for errand in self._under_way:
            if uses is None or uses & errand.uses:
                return f"'{errand}' is under way"
        return self._robot.servers.obstacle(uses)

    def _begin_next(self, next: _Next) -> None:
        obstacle = "" if next.pending.done() or self.halted() else self._obstacle(next.uses)
        if obstacle and steady.now() <= next.until:
            return
        self._next.remove(next)
        if obstacle:
            limit = f"{self._robot.stop_timeout:g} s"
            next.pending.fail(WorldError(f"'{next.text}' could not begin within {limit}: {obstacle}"))
        elif not next.pending.done():
            pass_on(asked(self._carry_out, next.text), next.pending)


#: Time before charging that failed is tried again, in seconds; after so many tries a person has to see to it.
CHARGE_AGAIN, TRIES = 10.0, 3


class Charging:
    """Carries out the skill by which a robot charges when its battery is low, and has tasks hold until it is full."""

    def __init__(
        self, battery: Battery, entry: ChargeEntry | None, begin: Callable[[str], Pending[Observation]], log: Any
    ) -> None:
        self._battery, self._entry, self._begin, self._log = battery, entry, begin, log
        self._needed = self._charges = False
        self._underway: Pending[Observation] | None = None
        self._tries, self._again_at, self._failed = 0, 0.0, ""

    def reason(self) -> str:
        """Say why nothing else may begin; empty if it may."""
        if self._entry is None or not (self._needed or self._underway):
            return ""
        now = self._failed.rstrip(".") or f"'{self._entry.skill}' is next"
        if self._underway is not None:
            now = f"'{self._entry.skill}' is carried out"
        elif self._charges:
            now = f"it is charged up to {self._entry.until:g}"
        return f"the battery is at {self._battery.level:.3g}: {now}"

    def emergency(self) -> str:
        """Say that a person has to have the robot charged; empty if it does so itself."""
        return self.reason() if self._tries >= TRIES else ""

    def look(self, *, active: bool, free: bool) -> None:
        """Go on; to be called regularly. It begins where the robot is active, and free of anything else."""
        entry, level = self._entry, self._battery.level
        if entry is None:
            return
        if not self._needed and level < entry.below:
            self._log.warning(f"the battery is at {level:.3g}: '{entry.skill}' is carried out, and tasks hold")
            self._needed, self._charges, self._tries, self._again_at, self._failed = True, False, 0, 0.0, ""
        elif self._needed and level >= entry.until:
            self._log.info(f"the battery is at {level:.3g}: tasks go on")
            self._needed, self._tries = False, 0
        if self._underway is not None:
            self._follow(self._underway, active=active)
            return
        may_try = self._tries < TRIES and steady.now() >= self._again_at
        if self._needed and not self._charges and active and free and may_try:
            self._battery.charges = True
            self._underway = self._begin(entry.skill)

    def _follow(self, underway: Pending[Observation], *, active: bool) -> None:
        if not active:
            underway.cancel()
        if not underway.done():
            return
        self._underway, self._battery.charges = None, False
        if underway.cancelled():
            return
        try:
            seen = underway.take()
        except Exception as error:
            self._fail(str(error) or type(error).__name__)
            return
        self._charges = seen.outcome is Outcome.DONE
        if seen.outcome not in (Outcome.DONE, Outcome.HALTED):  # what was halted goes on when it may
            self._fail(seen.text)

    def _fail(self, reason: str) -> None:
        self._failed, self._tries, self._again_at = reason, self._tries + 1, steady.now() + CHARGE_AGAIN
        self._log.error(f"the robot does not charge: {reason}")

    def close(self) -> None:
        if self._underway is not None:
            self._underway.cancel()


class RobotBridgeNode(Bridge):
    """Hosts a robot; its endpoints are those of :class:`reactree_ros.nodes.bridge.bridge.Bridge`.

    Uses:
        the action servers and services that ``robot_config`` names; the language model that its ``vision`` names,
        which gets pictures; and the MCP servers that its ``mcp`` names.

    Publishes:
        the topics that ``robot_config`` names for skills (any type; reliable).

    Subscribes to:
        the topics that ``robot_config`` names: of transforms (``/tf`` and ``/tf_static`` if not), of detections
        (vision_msgs/Detection3DArray; best effort), of the map (std_msgs/String with its YAML; transient local), of the
        battery, of emergency stop and conditions, and those that a skill waits for, while it does (any type,
        reliability and durability).

    Parameters:
        those of :class:`RobotBridgeSettings` and of every bridge, read at configuration.
    """

    def __init__(self, name: str = "robot_bridge", **kwargs: Any) -> None:
        super().__init__(name, **kwargs)
        declare(self, RobotBridgeSettings)

    def load(self) -> World:
        settings = settings_of(self, RobotBridgeSettings)
        config = load_robot(settings.robot_config)
        check_programs(config.mcp, partial(config.at, settings.robot_config))
        where = config.at(settings.robot_config, "vision")
        vision = None if config.vision is None else model_from_dict(config.vision, where=where)
        return with_tools(lambda: with_eyes(lambda eyes: self._robot(settings, config, eyes), vision, {}), config.mcp)

    def _robot(self, settings: RobotBridgeSettings, config: RobotConfig, eyes: Eyes | None) -> RobotWorld:
        kept, log, robot = self.host.kept(), self.get_logger(), self.get_namespace().strip("/")
        where = settings.robot_config
        mapped = {
            skill.name: MappedSkill(config.skills[skill.name], config.at(where, "skills", skill.name), skill)
            for skill in config.declared
        }
        parts = RobotParts(
            *(self, config, mapped.values(), self.heartbeat),
            where=where,
            dry_run=settings.dry_run,
            eyes=eyes,
            server_timeout=settings.server_timeout,
            stop_timeout=self._settings.stop_timeout,
            kept=None if kept is None else KeptSightings(kept, robot, log.warning),
        )
        return RobotWorld(parts, mapped, file=Path(where).name, active=lambda: self.host.active)

    def about(self) -> Mapping[str, Any]:
        settings = settings_of(self, RobotBridgeSettings).model_dump(mode="json", exclude_defaults=True)
        return {"name": ROBOT, "settings": settings}


def main() -> None:
    run_node(RobotBridgeNode)


if __name__ == "__main__":
    main()
