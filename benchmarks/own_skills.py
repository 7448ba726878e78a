"""The skills of a robot of one's own over ROS against fake servers of their types: each in each case, as a table.

python benchmarks/own_skills.py [--robot config/robots/office.yaml] [--only SKILL]

Needs ROS 2 with nav2_msgs and the built workspace, sourced. The rows are the skills that the robot's file declares: one
that is added there has a row. Each is done; refused by each parameter; failed by each code; late; not confirmed
by its check; cancelled in the middle; stopped as its bridge is killed; and met by a restart of its server. Every time
limit is shortened to LIMIT seconds. A cell has what was seen: the outcome, seconds, and how long the base still moved.
The script exits with 1 if a case ended otherwise than it should.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "test"), str(ROOT / "test/nodes")]

from action_msgs.msg import GoalStatus  # noqa: E402
from declared_robot import DeclaredRobot, drives, mapped  # noqa: E402
from declared_skills import at_once, call_of, outside  # noqa: E402
from lifecycle_msgs.msg import State, Transition  # noqa: E402
from lifecycle_msgs.srv import ChangeState, GetState  # noqa: E402
from processes import Processes  # noqa: E402
from reactree_interfaces.action import ExecuteSkill  # noqa: E402
from reactree_interfaces.srv import AvailableSkills  # noqa: E402
from robot_servers import LATCHED, Journal  # noqa: E402
from ros_graph import Graph  # noqa: E402
from std_msgs.msg import Bool  # noqa: E402

from reactree_ros.agent.parameters import Named  # noqa: E402
from reactree_ros.agent.skill import Offer, Skill, SkillCall  # noqa: E402
from reactree_ros.nodes.messages import offers_from  # noqa: E402
from reactree_ros.nodes.robot.mapped_skill import Leg  # noqa: E402
from reactree_ros.robot.config import NAV2_CODES, error_code, load_robot  # noqa: E402
from reactree_ros.robot.map_file import HELD, load_map  # noqa: E402
from reactree_ros.world.port import Outcome  # noqa: E402

Result = ExecuteSkill.Result
#: Names of a result's outcomes, by their numbers.
OUTCOMES = {getattr(Result, one.name): one.value for one in Outcome}
#: The time limit of every skill, how long a server may be away, and how long a stop may take, in seconds.
LIMIT, PATIENCE = 4.0, 3.0
#: Speed of the base in metres per second: on its way, and where it is to be stopped on its way.
FAST, SLOW = 20.0, 0.04
#: Longest time to the base's standstill after a cancel or a time limit, and after the bridge was killed, in seconds.
STILL, STILL_KILLED = 0.3, 3.0
#: For how long what a bridge offers stays the same after its start, in seconds.
SETTLED = 0.5
#: The service by which it is seen whether a server is there.
SERVICES = {"action": "/{}/_action/cancel_goal", "service": "/{}"}
#: A code that no skill declares.
OTHER = 999


class Row:
    """One skill over ROS, in every case.

    Attributes:
        wrong: What ended otherwise than it should.
    """

    def __init__(self, office: Office, skill: Skill) -> None:
        self._office, self.skill = office, skill
        self._mapped = office.mapped[skill.name]
        self.wrong: list[str] = []
        self._legs = [leg for leg in self._mapped.legs if not leg.checks]
        moving = [leg for leg in self._legs if drives(leg.call.type)]
        self._leg = (moving or self._legs)[0]  # the one that is under way when something comes in between
        self._server, self._kind = self._leg.call.entry.server, self._leg.call.entry.kind
        self._lasts = self._kind != "publish" or bool(self._leg.call.entry.lasting)

    def cells(self, *names: str) -> Iterator[tuple[str, str]]:
        """Yield cases with what was seen in each; those with some names, or all of :data:`CASES`."""
        for name in names or CASES:
            before = len(self.wrong)
            cell = CASES[name](self)
            self._office.recover()
            self.wrong[before:] = [f"{self.skill.name}, {name}: {one}" for one in self.wrong[before:]]
            yield name, cell

    # ------------------------------------------------------------------ the cases

    def done(self) -> str:
        """It goes well."""
        return self._ends(self._office.ready(self.skill), Outcome.DONE)

    def refused(self) -> str:
        """Each parameter in turn has a value that may not stand there."""
        call, cells = self._office.ready(self.skill), []
        asked = len(self._office.journal.read())
        for name in self.skill.parameters:
            result = self._office.skill(outside(call, name)).result
            refused = result.outcome in (Result.UNKNOWN_SKILL, Result.PRECONDITION) and f"{name}: " in result.message
            self._expect(refused, f"{name}: {OUTCOMES[result.outcome]}: {result.message}")
            cells.append(name)
        self._expect(len(self._office.journal.read()) == asked, "the robot was asked for something")
        return ", ".join(cells) or "takes nothing"

    def failed(self) -> str:
        """Each server that it asks fails with each code in turn, or says that it has failed."""
        came = defaultdict[str, list[str]](list)
        for leg in self._legs:
            entry = leg.call.entry
            if entry.kind == "service":
                came[self._fails(leg, "fail", Outcome.EXECUTION)].append("no success")
            if entry.kind == "action":
                nav2 = NAV2_CODES if "Navigate" in entry.type else {}
                for code in [*entry.outcomes, *nav2, OTHER]:
                    outcome = self._fails(leg, f"abort:{code}", error_code(entry, code)[1])
                    came[outcome].append(f"{entry.server} {code}")
        return "; ".join(f"{outcome}: {_short(codes)}" for outcome, codes in came.items()) or "a topic has no codes"

    def late(self) -> str:
        """It takes too long; nobody hears what is published."""
        call = self._office.ready(self.skill, least=self._leg.call.entry.time_limit)
        self._hold()
        if self._kind == "publish":
            return self._ends(call, Outcome.WORLD_UNAVAILABLE)
        goal, since = self._begun(call), time.monotonic()
        if self._kind == "service":  # nothing can stop it, so the bridge waits for its end
            self._office.until(lambda: time.monotonic() - since > LIMIT + 0.5, "its time is over")
            self._office.release()
        return self._seen(goal, since, Outcome.TIMEOUT) + self._stands(STILL, self._office.robot.cancelled_at)

    def unconfirmed(self) -> str:
        """What is to confirm it is silent."""
        waits = [leg.call.entry for leg in self._mapped.legs if leg.checks and leg.call.entry.kind == "wait_for"]
        if not waits:
            return "has no check"
        call = self._office.ready(self.skill)
        self._office.robot.silent |= {entry.server for entry in waits}
        return self._ends(call, Outcome.POSTCONDITION)

    def cancelled(self) -> str:
        """It is cancelled in the middle."""
        if not self._lasts:
            return "ends at once"
        goal = self._under_way()
        since = time.monotonic()
        goal.cancel()
        self._office.release()
        self._expect(goal.status == GoalStatus.STATUS_CANCELED, f"status {goal.status}")
        return self._seen(goal, since, Outcome.CANCELED) + self._stands(STILL, since)

    def bridge_killed(self) -> str:
        """Its bridge is killed in the middle, and is there again."""
        if not self._lasts:
            return "ends at once"
        self._under_way()
        since = time.monotonic()
        self._office.bridge.signal(signal.SIGKILL)
        self._office.until(lambda: not self._office.robot.busy, "the servers have ended it")
        ended = f"ended {time.monotonic() - since:.1f} s" if self._kind == "action" else "nothing moves"
        cell = ended + self._stands(STILL_KILLED, since)
        self._office.release()
        self._office.recover()
        self._office.start_bridge()
        return f"{cell}; then {self.done()}"

    def restarted(self) -> str:
        """Its server is gone in the middle, and there again without what it was asked for."""
        if not self._lasts:
            return "ends at once"
        goal = self._under_way()
        since = time.monotonic()
        self._office.restart_robot()
        again = self._leg.repeatable
        cell = self._seen(goal, since, Outcome.DONE if again else Outcome.WORLD_UNAVAILABLE)
        return cell if again else f"{cell}; then {self.done()}"

    # ------------------------------------------------------------------ what they are made of

    def _expect(self, so: bool, what: str) -> None:
        if not so:
            self.wrong.append(what)

    def _ends(self, call: SkillCall, outcome: Outcome) -> str:
        since = time.monotonic()
        return self._seen(self._office.skill(call), since, outcome)

    def _seen(self, goal: Any, since: float, outcome: Outcome) -> str:
        result = goal.result
        self._expect(result.outcome == getattr(Result, outcome.name), f"{OUTCOMES[result.outcome]}: {result.message}")
        return f"{OUTCOMES[result.outcome]} {time.monotonic() - since:.1f} s"

    def _stands(self, bound: float, since: float) -> str:
        """Watch whether the base stands."""
        robot = self._office.robot
        self._office.until(lambda: time.monotonic() > since + bound + 0.5, "it is watched")
        if not drives(self._leg.call.type):
            return ""
        moved = max(0.0, robot.moved_at - since)
        self._expect(moved <= bound, f"the base moved for {moved:.2f} s, allowed are {bound:g} s")
        return f", still {moved:.2f} s"

    def _fails(self, leg: Leg, behaviour: str, outcome: Outcome) -> str:
        call = self._office.ready(self.skill)
        tries = 1 + leg.retries
        self._office.robot.behave[leg.call.entry.server] = [behaviour] * tries
        result = self._office.skill(call).result
        self._expect(result.outcome == getattr(Result, outcome.name), f"{behaviour}: {result.message}")
        self._office.robot.behave.clear()
        return OUTCOMES[result.outcome]

    def _hold(self) -> None:
        robot = self._office.robot
        robot.speed = SLOW
        if self._kind == "wait_for":
            robot.silent.add(self._server)
        elif self._kind == "publish":
            self._office.unheard[self._server] = robot.unhear(self._server)
        else:
            robot.behave[self._server] = ["hold"]

    def _begun(self, call: SkillCall) -> Any:
        """Begin with it; returns when its server, or its wait, is under way."""
        asked = self._count()
        goal = self._office.skill(call)
        self._office.until(lambda: self._count() > asked, f"'{call}' is under way")
        if drives(self._leg.call.type):
            moved = time.monotonic()
            self._office.until(lambda: self._office.robot.moved_at > moved, "the base drives")
        return goal

    def _under_way(self) -> Any:
        call = self._office.ready(self.skill)
        self._hold()
        return self._begun(call)

    def _count(self) -> int:
        if self._kind == "wait_for":
            return self._office.hearers(self._server)
        return sum(line["server"] == self._server and "ends" not in line for line in self._office.journal.read())


CASES: dict[str, Callable[[Row], str]] = {
    "done": Row.done,
    "refused by": Row.refused,
    "failed": Row.failed,
    "late": Row.late,
    "not confirmed": Row.unconfirmed,
    "cancelled": Row.cancelled,
    "bridge killed": Row.bridge_killed,
    "server restarted": Row.restarted,
}


class Office:
    """A robot in this process, its bridge and the watchdog in others.

    Attributes:
        mapped: How each skill is carried out, by its name.
        journal: What the robot was asked for.
        unheard: Topics that nobody hears, with their types.
    """

    def __init__(self, file: Path, folder: Path, domain: int) -> None:
        self._file = folder / "robot.yaml"
        self._file.write_text(yaml.safe_dump(shortened(file, folder), sort_keys=False))
        self.config = load_robot(self._file)
        self.mapped = mapped(self.config)
        self.journal, self._chance = Journal(folder / "journal"), random.Random(0)
        self.graph, self.processes = Graph(domain), Processes(domain)
        self.unheard: dict[str, Any] = {}
        self._at = ""
        stop = self.config.emergency_stop
        if stop is not None:
            self.graph.probe.create_publisher(Bool, stop.topic, LATCHED).publish(Bool(data=False))
        self.robot = self._robot()
        self.processes.node("watchdog")
        self.start_bridge()

    def _robot(self, **state: Any) -> Any:
        robot = DeclaredRobot(self.config, journal=self.journal, context=self.graph.context, speed=FAST)
        for name, value in state.items():
            setattr(robot, name, value)
        return self.graph.add(robot, alone=True)

    def start_bridge(self) -> None:
        """Start the bridge and bring it up."""
        given = {"robot_config": self._file, "server_timeout": PATIENCE, "stop_timeout": 5.0}
        told = [part for name, value in given.items() for part in ("-p", f"{name}:={value}")]
        self.bridge = self.processes.node("robot_bridge_node", "--ros-args", *told)
        ways = {State.PRIMARY_STATE_UNCONFIGURED: 1, State.PRIMARY_STATE_INACTIVE: 3}
        self._at, state = "", 0
        while state != State.PRIMARY_STATE_ACTIVE:
            answer = self._asked(GetState, "robot_bridge/get_state")
            state = answer.current_state.id if answer is not None else 0
            if state in ways:
                self._asked(ChangeState, "robot_bridge/change_state", transition=Transition(id=ways[state]))
        before, offers = None, self.offers()
        while offers != before:  # until it has heard where the robot is
            end = time.monotonic() + SETTLED
            self.until(lambda end=end: time.monotonic() > end, "what is offered settles")
            before, offers = offers, self.offers()

    def _asked(self, kind: type, name: str, **request: Any) -> Any:
        """Return an answer; None if it does not come: a bridge that was killed may seem to be there."""
        future, end = self.graph.send(kind, name, **request), time.monotonic() + 1.0
        while not future.done() and time.monotonic() < end:
            self.graph.step()
        return future.result()

    def restart_robot(self) -> None:
        """Kill the robot's servers; others are there when they have gone, and the base where it is."""
        where = {name: getattr(self.robot, name) for name in ("x", "y", "yaw", "moved_at")}
        calls = [call.entry for one in self.mapped.values() for call in one.calls if call.entry.kind in SERVICES]
        names = [SERVICES[entry.kind].format(entry.server) for entry in calls]
        self.graph.kill(self.robot)
        self.until(lambda: not any(map(self.graph.probe.count_services, names)), "its servers have gone")
        self.journal.note("", gone=self.robot.process)
        self.robot = self._robot(**where)

    def recover(self) -> None:
        """Let everything be as it should be."""
        self.robot.speed = FAST
        self.robot.silent.clear()
        self.robot.behave.clear()
        for topic, kind in self.unheard.items():
            self.robot.hear(topic, kind)
        self.unheard.clear()
        self.release()

    def release(self) -> None:
        """Let services answer."""
        self.robot.release()

    def until(self, so: Callable[[], Any], what: str) -> None:
        """Let the robot go on until something is so."""
        self.graph.until(so, what)

    def skill(self, said: str) -> Any:
        """Send a skill."""
        return self.graph.skill(said, to="robot_bridge")

    def hearers(self, topic: str) -> int:
        """Return how many hear a topic."""
        return int(self.graph.probe.count_subscribers(topic))

    def offers(self) -> dict[str, Offer]:
        """Return what may be tried now, by name."""
        answer = None
        while answer is None:
            answer = self._asked(AvailableSkills, "robot_bridge/available_skills")
        declared = {skill.name: skill for skill in self.config.declared}
        return {one.skill.name: one for one in offers_from(answer.offers, declared)}

    # ------------------------------------------------------------------ what a skill needs

    def ready(self, skill: Skill, *, least: object = None) -> SkillCall:
        """Bring the robot to where a skill may be tried; returns the skill with values.

        Args:
            skill: The skill.
            least: The parameter that is to be as small as it may be, in braces.
        """
        holds = any(isinstance(one, Named) and one.which == HELD for one in skill.parameters.values())
        if holds and not self._holding:
            self._do("held")
        elif "held" in skill.effect and self._holding:
            self._do("released")
        places = [place.name for place in load_map(self.config.map).receptacles]
        while (call := self._call(skill, least)) is None:
            go = next(one for one in self.config.declared if "at" in one.effect)
            self._does(go.call({**(self._call(go, None) or {}).values, go.effect["at"]: places.pop()}))
        return call

    @property
    def _holding(self) -> bool:
        return any(
            isinstance(one, Named) and one.which == HELD and bool(offer.now.get(name))
            for offer in self.offers().values()
            for name, one in offer.skill.parameters.items()
        )

    def _call(self, skill: Skill, least: object) -> SkillCall | None:
        offer = self.offers().get(skill.name)
        call = None if offer is None else call_of(offer, self._chance, but=self._at if "at" in skill.effect else "")
        if call is None:
            return None
        numbers = {
            name: one.least if f"{{{name}}}" == least else one.greatest
            for name, one in skill.parameters.items()
            if not isinstance(one, Named) and hasattr(one, "greatest")
        }
        return skill.call({**call.values, **numbers})

    def _do(self, effect: str) -> None:
        self._does(self.ready(next(one for one in self.config.declared if effect in one.effect)))

    def _does(self, call: SkillCall) -> None:
        result = self.skill(call).result
        if result.outcome != Result.DONE:
            raise RuntimeError(f"'{call}' was to be done first: {result.message}")
        self._at = call.value("at") or self._at

    def close(self) -> None:
        """End everything."""
        self.processes.kill_all()
        self.graph.close()


def _short(codes: Sequence[str]) -> str:
    """Return codes with the name of each server once."""
    by = defaultdict[str, list[str]](list)
    for server, _, code in (one.rpartition(" ") for one in codes):
        by[server].append(code)
    return ", ".join(f"{server} {' '.join(them)}".strip() for server, them in by.items())


def shortened(file: Path, folder: Path) -> dict[str, Any]:
    """Return a robot's file with a short time limit everywhere but where a parameter says it.

    Its map, which is written into a folder, has all rooms on one floor: the robot here rides no elevator.
    """
    declared = yaml.safe_load(file.read_text())
    house = yaml.safe_load((file.parent / declared["map"]).read_text())
    house.pop("connections", None)
    for room in house["rooms"]:
        room.pop("floor", None)
    (folder / "map.yaml").write_text(yaml.safe_dump(house, sort_keys=False))
    declared["map"] = str(folder / "map.yaml")
    for skill in declared["skills"].values():
        for part in skill.get("steps", [skill]):
            if not isinstance(part.get("time_limit"), str):
                part["time_limit"] = LIMIT
    return dict(declared)


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--robot", type=Path, default=ROOT / "config/robots/office.yaml")
    parser.add_argument("--only", default="", help="the only skill")
    parser.add_argument("--domain", type=int, default=100, help="ROS domain")
    options = parser.parse_args()
    wrong: list[str] = []
    table = sys.stdout
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(sys.stderr):  # robot and nodes say much
        office = Office(options.robot, Path(folder), options.domain)
        try:
            for skill in office.config.declared:
                if options.only not in ("", skill.name):
                    continue
                row = Row(office, skill)
                print(f"{skill.name}:", file=table, flush=True)
                for name, cell in row.cells():
                    print(f"    {name + ':':<18}{cell}", file=table, flush=True)
                wrong += row.wrong
        finally:
            wrong += at_once(office.journal.read())
            office.close()
    print("\n".join(["", f"ended otherwise than they should: {len(wrong) or 'none'}", *wrong]))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
