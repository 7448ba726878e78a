"""A routine as a subtree: its nodes carry skills out, search and wait without a language model."""

from __future__ import annotations

import copy
import re
from collections import ChainMap
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from py_trees import behaviours, composites, decorators
from py_trees.behaviour import Behaviour
from py_trees.common import Status
from py_trees.composites import Composite

from reactree_ros.agent.control_flow import ControlFlow, marked
from reactree_ros.agent.needs import OPPOSITES
from reactree_ros.agent.observation import Observation, Outcome, Seen
from reactree_ros.agent.parameters import Named, ParameterError, Place, Room, Text
from reactree_ros.agent.skill import LONGEST, WAIT, SkillCall
from reactree_ros.agent.turns import Tried
from reactree_ros.background.pending import Pending
from reactree_ros.llm.port import DecisionRequest, LanguageModel, Reply, RequestRejected
from reactree_ros.memory.knowledge import Known, is_of, word_of
from reactree_ros.routine import model
from reactree_ros.routine.fitting import Fit, describe
from reactree_ros.routine.reactive import Again, Kept
from reactree_ros.routine.script import ScriptError, Value, as_text, assign, script_of
from reactree_ros.tree.agent_node import AgentNode
from reactree_ros.tree.bounded_flows import RepeatUntilFlow, TimeIsOver, WhileFlow, WithinFlow
from reactree_ros.tree.flows import Concurrent, FallbackFlow, Parallel, ParallelFlow, SequenceFlow, take_turns
from reactree_ros.tree.goal import OfAttempt
from reactree_ros.tree.goal_node import GoalNode
from reactree_ros.tree.listener import Call
from reactree_ros.tree.options import ParallelPolicy
from reactree_ros.tree.own_tree import SkillNode
from reactree_ros.tree.program_node import Program, Step, Wait

#: What stands before the word of one thing alone: ``the mug``, ``my red mug``; not ``the box and mug``.
_ONE_OF_A_KIND = r"\b(?:the|my|your|that|this)\s+(?:(?!and\b|or\b|then\b|of\b)[^\W\d_]+,?\s+){0,3}"
#: How much likelier something is where such things were found, and where a look at a place beside has not shown it. The
#: best of those tried in the houses of ``benchmarks/routines.py``.
_FOUND_THERE, _SEEN_FROM_BESIDE = 2.0, 0.25
#: The most scripts of one run of a routine: one that goes round for ever ends.
MOST_SCRIPTS = 10_000


class Unusable(ValueError):
    pass


class NoModel(LanguageModel):
    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        return Pending.failed(RequestRejected("no language model is asked while a routine is tried out"))


class _Interrupted(Exception):
    pass


class Run:
    """What the nodes of a running routine share: what its names stand for, and what it has seen and done."""

    def __init__(self, node: AgentNode, fit: Fit) -> None:
        self.node, self.fit = node, fit
        self.found: dict[str, str] = {}  # what its searches have found, by the names in braces
        self.board: dict[str, Value] = {}  # the entries of its blackboard
        self.scripts, self.broken = 0, ""  # how many were carried out, and why no more is: one cannot be worked out
        self.where: dict[str, Sequence[str]] = {}  # the words of the places and rooms where that was
        self.done: list[Tried] = []
        self.reason, self.looked = "", False
        self.searched: set[str] = set()  # rooms and places
        self.shown: set[str] = set()  # what looks at places have shown
        self.taken: set[str] = set()  # what its skills were to take and have not let go of
        self._held: set[str] = set()  # what was seen to be held
        self.known, self.words = node.context.known, len(node.context.words)

    def render(self, template: str) -> str:
        entries = {name: as_text(value) for name, value in self.board.items()}
        return template.format(**self.fit.values, **self.found, **entries)

    def script(self, node: model.Script) -> bool:
        """Carry a script out; returns whether it holds, if it checks that. After one that fails, nothing is done."""
        script, names = script_of(node.code), ChainMap[str, Value](self.board, {**self.found}, {**self.fit.values})
        self.scripts += 1
        try:
            if self.scripts > MOST_SCRIPTS:
                raise ScriptError(f"{MOST_SCRIPTS:,} scripts were carried out before, and there may be no more")
            if script.writes:
                self.node.context.wake()  # for what looks at the entry in each tick
            return not self.broken and (script.holds(names) if node.checks else script.run(names) is not None)
        except ScriptError as error:
            self.reason = self.broken = f"script {node.code}: {error}"
            return False

    def keep(self, returns: Mapping[str, str], seen: Observation, call: SkillCall | str) -> str:
        """Set the entries for what a skill has returned; returns why that cannot be, or nothing."""
        declared = call.skill.returns if isinstance(call, SkillCall) else {}
        for name, entry in returns.items():
            if (value := seen.data.get(name)) is None:
                return f"it has not returned '{name}'"
            plain = value if isinstance(value, bool | int | float) else declared.get(name, Text()).write(value)
            try:
                assign(self.board, entry, plain)
            except ScriptError as error:
                return str(error)
        return ""

    def call(self, template: str) -> SkillCall | str:
        """Return the skill that a wording says here. Raises ParameterError, or KeyError: nothing has a name in it."""
        words, household = self.render(template), self.node.context.household
        declared = household.skills and not household.says_text(words)
        return household.call(words) if declared else household.say(words, {})

    def misfit(self) -> str:
        """Say what is known to keep it from being done, up to a skill whose values are found on the way."""
        known, name, household = self.known, self.node.post.robot.name, self.node.context.household
        for node in self.fit.routine.nodes:
            if isinstance(node, model.Sequence):
                continue
            if not isinstance(node, model.Skill) or node.returns or node.expected is not Outcome.DONE:
                break
            try:
                call = self.call(node.wording)
            except KeyError:
                break
            if not isinstance(call, SkillCall):
                break
            call.check_known(known.standing.get)
            robot = known.of(name)
            if need := next((one for one in call.unmet(robot) if not one.conditions), None):
                return f"'{call}' cannot be done: {need.reason(call.values, robot)}"
            if known is self.known:
                spared = {id(household): household, id(known.observed): []}  # a long run has observed a lot
                known = copy.deepcopy(known, spared)
            known.did(call, Observation(""), name)
        return ""

    def words_around(self, name: str) -> Sequence[str]:
        seen = self.known.there.get(name)
        around = () if seen is None else (seen.place, seen.room)
        return tuple(dict.fromkeys(word_of(one) for one in around if one and one != name))

    def see(self, observation: Observation, robot: Known, call: SkillCall | None = None) -> None:
        """Note what a robot sees that has carried out a skill, or only looks around."""
        self._held.update(robot.hands)
        if call is not None and observation.outcome is Outcome.DONE:
            self.taken -= {call.value("released"), call.value("gone")}
            at = call.value("at") or call.value("open")
            if at and at not in self.known.rooms:
                self.shown |= {at, *robot.near}
        self.searched |= {seen.room for seen in observation.seen if seen.room}

    def lost(self, call: SkillCall, robot: Known) -> str:
        """Say what a skill names that was taken and is not held any more; empty if nothing is, or it goes there."""
        sought = {call.skill.effect.get("held"), call.skill.effect.get("at")}
        names = (name for place, _, name in call.named if place not in sought)
        gone = next((name for name in names if name in self.taken & self._held - robot.hands.keys()), "")
        return gone and f"{gone} is not held any more"

    def holds_already(self, call: SkillCall, robot: Known) -> bool:
        """Whether all that a skill brings is to be seen already, of what can be seen: states, and what is held."""
        effect = [what for what in call.skill.effect if what != "place"]
        if effect == ["at"]:  # a person's tree may mean to go there once more
            return bool(self.fit.routine.origin.instruction) and robot.at == call.value("at")
        return bool(effect) and all(
            call.value(what) in robot.hands if what == "held" else self._is_so(what, call.value(what))
            for what in effect
        )

    def denied(self, call: SkillCall, seen: Sequence[Seen]) -> str:
        """Say what a skill should have brought and has not, as the observation after it shows; empty if it may have."""
        here = {self.known.household.name_of(one.word, one.instance): one for one in seen}
        for what in call.skill.effect:
            name = call.value(what)
            one = here.get(name)
            if one is not None and what == "held" and not one.held:
                return f"{name} is not held"
            if one is not None and what in OPPOSITES and OPPOSITES[what].upper() in one.states:
                return f"{name} is not {what}"
        return ""

    def _is_so(self, state: str, name: str) -> bool:
        there = self.known.there
        one = there.get(name)
        if one is None:
            return False
        is_open = state == "open" and not _has_inside(one) and any(map(_has_inside, there.values()))
        return is_open or (state in OPPOSITES and state.upper() in one.states)


class _Leaf(SkillNode):
    # Status: As of :class:`~reactree_ros.tree.own_tree.SkillNode`; FAILURE also if something is not as expected.

    def __init__(self, name: str, run: Run) -> None:
        super().__init__(name, run.node.context, parent=run.node)
        self._routine = run

    def fails(self, reason: str) -> bool:
        self.feedback_message = self._routine.reason = reason
        return False

    def hold(self) -> Generator[Step, Any, bool]:
        """Wait as long as the run is held; what the person has said on the way breaks the routine off then."""
        waited = yield from super().hold()
        if self._routine.broken:
            raise _Interrupted(self._routine.broken)
        if said := self._routine.node.words_since(self._routine.words):
            raise _Interrupted(f"the person says {said}")
        return waited

    def carries_out(self, call: SkillCall | str) -> Generator[Step, Any, Observation | None]:
        try:
            seen = yield from self.do(call)
        except _Interrupted as said:
            self.fails(str(said))
            return None
        self._routine.see(seen, self.post.robot.known, call if isinstance(call, SkillCall) else None)
        if seen.outcome is Outcome.DONE:
            self._routine.done.append(Tried(str(call), True))
        return seen


class SkillStep(_Leaf):
    """Carries a skill of a routine out, unless it is to be seen that what it brings is so already."""

    def __init__(self, skill: model.Skill, run: Run) -> None:
        super().__init__(_shown(skill.wording, run), run)
        self._skill = skill

    def program(self) -> Program:
        run, skill = self._routine, self._skill
        try:
            call = run.call(skill.wording)
        except (ParameterError, KeyError) as error:
            return self.fails(f"'{self.subgoal}' cannot be done: {error}")
        if isinstance(call, SkillCall):
            run.taken.add(call.value("held"))
            if not skill.returns and run.holds_already(call, self.post.robot.known):
                run.known.touched.append(str(call))
                return True
            if lost := run.lost(call, self.post.robot.known):
                return self.fails(lost)
        seen = yield from self.carries_out(call)
        if seen is None:
            return False
        if seen.outcome is not skill.expected:
            return self.fails(f"{call}: {seen.text}")
        denied = run.denied(call, seen.seen) if isinstance(call, SkillCall) and seen.outcome is Outcome.DONE else ""
        denied = denied or run.keep(skill.returns, seen, call)
        return not denied or self.fails(f"{call}: {denied}")


class WaitStep(_Leaf):
    def __init__(self, waits: model.WaitFor, run: Run) -> None:
        super().__init__(f"{WAIT} {_condition(waits, run)}", run)
        self._waits = waits
        self._wait(0)  # so that one that the world does not know is found before anything is done

    def program(self) -> Program:
        left = self._waits.seconds
        while True:
            now = LONGEST if left is None else min(int(left), LONGEST)
            seen = yield from self.carries_out(self._wait(now))
            if seen is None or seen.outcome is Outcome.DONE:
                return seen is not None
            left = None if left is None else left - now
            if seen.outcome is not Outcome.TIMEOUT or (left is not None and left < 1):
                return self.fails(seen.text) if seen.outcome is not Outcome.TIMEOUT else False

    def _wait(self, seconds: int) -> SkillCall | str:
        return self._routine.call(f"{WAIT} {self._waits.condition} for up to {seconds} s")


class ScriptStep(Behaviour):
    """Carries a script out, in one tick.

    Status: SUCCESS if it was carried out and, if it checks, holds; else FAILURE.
    """

    def __init__(self, script: model.Script, run: Run) -> None:
        super().__init__(f"{'if' if script.checks else 'script'} {script.code}")
        self._script, self._routine = script, run

    def update(self) -> Status:
        so = self._routine.script(self._script)
        self.feedback_message = self._routine.broken
        return Status.SUCCESS if so else Status.FAILURE


class PauseStep(_Leaf):
    def __init__(self, pause: model.Pause, run: Run) -> None:
        super().__init__(f"pause for {pause.milliseconds} ms", run)
        self._seconds = pause.milliseconds / 1000

    def program(self) -> Program:
        with suppress(TimeIsOver):
            yield Wait("end of a pause", Pending[None](), TimeIsOver, seconds=self._seconds, call=Call("within"))
        return True


class GoalStep(_Leaf):
    def __init__(self, goal: model.Goal, run: Run) -> None:
        super().__init__(_shown(goal.text, run), run)
        self._goal = goal

    def program(self) -> Program:
        if self._routine.broken:
            return False
        try:
            goal = self._routine.render(self._goal.text)
        except KeyError as error:
            return self.fails(f"{error} was not found")
        if not goal.strip():
            return self.fails(f"the goal '{self._goal.text}' has no words here")
        return (yield from self.run_below(self._routine.node.child(goal)))


class SearchStep(_Leaf):
    """Goes to where a thing or a place is: where it was seen, else from place to place and from room to room."""

    _word = OfAttempt(lambda _: "")

    def __init__(self, search: model.Search, run: Run) -> None:
        super().__init__(f"find {_shown(search.of, run)}", run)
        self._search = search

    def program(self) -> Program:
        run, finds = self._routine, self._search.finds
        run.reason = ""
        try:
            self._word = run.render(self._search.of)
        except KeyError as error:
            return self.fails(f"{error} was not found")
        if finds in run.found:
            return (yield from self._reach(run.found[finds]))
        if before := self._put_before():
            return self.fails(before)
        if not run.looked:  # what is remembered of the things in sight says nothing of rooms and places
            run.looked = True
            run.see((yield from self.look_around()), self.post.robot.known)
            if self._mapped:
                run.searched.add(self.post.robot.known.at)
                yield from self.available_skills()
        if in_hand := self._in_hand():
            run.found[finds] = in_hand
            return True
        tried: set[str] = set()
        while True:
            here = [name for name in self._fitting() if name not in tried]
            if len(here) > 1 and self._means_one():
                return self.fails(f"{' and '.join(here)} fit '{self._word}'")
            if here:
                tried.add(here[0])
                if (yield from self._reach(here[0])):
                    run.found[finds] = here[0]
                    run.where[finds] = run.words_around(here[0])
                    return True
                if run.reason:
                    return False
                continue
            if (place := self._next()) is None:
                return self.fails(f"no {self._word} was found")
            if not (yield from self._visit(place)):
                return False

    def _put_before(self) -> str:
        wanted, mine = {*self._routine.fit.values.values()}, {*self._routine.found.values()}
        for name, place in self.context.known.placed.items():
            if name not in mine and self._word in (name, word_of(name)) and {place, word_of(place)} & wanted:
                return f"{name} was put to {place} before in this run, and whether another one is meant is not said"
        return ""

    def _in_hand(self) -> str:
        taken, hands = {*self._routine.found.values()}, self.post.robot.known.hands.items()
        return next((name for name, one in hands if self._word in (one.word, name) and name not in taken), "")

    def _fitting(self) -> list[str]:
        run, taken = self._routine, {*self._routine.found.values()}
        there, robot = run.known.there, self.post.robot.known
        names = [room for room in run.known.rooms if is_of(room, self._word)]
        names = names or [name for name, seen in there.items() if self._word in (seen.word, name)]
        names = [name for name in names if name not in taken]
        near = {*robot.near}
        return sorted(names, key=lambda name: (name not in near, name in there and there[name].room != robot.room))

    def _means_one(self) -> bool:
        goal = self._routine.node.subgoal
        carried = self._word in self.context.world.recallable
        named = re.search(rf"{_ONE_OF_A_KIND}{re.escape(self._word)}(?!\w)", goal, re.IGNORECASE)
        return self.context.person is not None and carried and named is not None

    # ------------------------------------------------------------------ going

    def _reach(self, name: str) -> Program:
        there, robot = self._routine.known.there, self.post.robot.known
        if name in self._routine.known.rooms:
            return robot.room == name or (yield from self._go(name))
        if name in robot.hands:
            return True
        seen = there.get(name)
        if seen is None:
            return False
        place = seen.place if seen.place in there and self._is_carried(seen.word) and seen.place else name
        if robot.at and robot.at in (name, place) and name in robot.near:
            return True
        return (yield from self._visit(place)) and name in robot.near and name in there

    def _visit(self, place: str) -> Program:
        known = self._routine.known
        if place in known.rooms:
            return (yield from self._go(place))
        seen = known.there.get(place)
        room = seen.room if seen is not None else None
        if room and room != self.post.robot.known.room and not (self._mapped or (yield from self._go(room))):
            return False
        if not (yield from self._go(place)):
            return False
        seen = known.there.get(place)
        if seen is not None and "CLOSED" in seen.states and self._is_carried(self._word):
            return (yield from self._does("open", place))
        return True

    def _is_carried(self, word: str) -> bool:
        carried = self.context.world.recallable
        return not carried or word in carried or word_of(word) in carried

    def _go(self, place: str) -> Program:
        reached = yield from self._does("at", place)
        if reached:
            self._routine.searched.add(place)
        return reached

    def _does(self, effect: str, name: str) -> Program:
        call = self._skill(effect, name)
        if call is None:
            return self.fails(f"no skill is for '{name}' to be '{effect}'")
        seen = yield from self.carries_out(call)
        if seen is None:
            return False
        return seen.outcome is Outcome.DONE or self.fails(f"{call}: {seen.text}")

    def _skill(self, effect: str, name: str) -> SkillCall | None:
        skills = [one for one in self.context.household.skills if one.does(effect)]
        is_room = name in self._routine.known.rooms
        skills.sort(key=lambda one: isinstance(one.parameters[one.effect[effect]], Room) is not is_room)
        for skill in skills:
            try:
                return skill.call({skill.effect[effect]: skill.parameters[skill.effect[effect]].read(name)})
            except ParameterError:
                continue
        return None

    @property
    def _mapped(self) -> Sequence[Named]:
        # The kinds of place that a way may lead to, where that is on a map and need not be seen before.
        goes = (one.parameters[one.effect["at"]] for one in self.context.household.skills if one.does("at"))
        return [one for one in goes if isinstance(one, Place | Room)]

    def _next(self) -> str | None:
        # Before all that, where a map that is kept takes one to be.
        searched, known, carried = self._routine.searched, self.context.known, self.context.world.recallable
        for place in known.likely(self._word):
            if place not in searched:
                return place
        names = (name for kind in self._mapped for name in known.standing.get(kind, ()))
        if there := [one for one in names if one not in (*searched, *known.rooms)]:
            return max(there, key=self._likely)
        rooms = {room: self._likely(room) for room in known.rooms if room not in searched}
        if rooms and not self._is_carried(self._word):
            return max(rooms, key=lambda room: rooms[room])  # a look around it shows what stands there
        places = {
            name: self._worth(name, seen)
            for name, seen in known.there.items()
            if name not in searched and seen.word not in carried and name not in known.rooms
        }
        worth = places | rooms
        return max(worth, key=lambda name: worth[name], default=None)

    def _worth(self, name: str, seen: Seen) -> float:
        is_closed = "CLOSED" in seen.states
        chance = self._likely(name) * self._likely(seen.room or "")
        if name in self._routine.shown and not is_closed:
            chance *= _SEEN_FROM_BESIDE
        return chance / (1 + is_closed + (seen.room != self.post.robot.known.room))

    def _likely(self, name: str) -> float:
        return _FOUND_THERE if word_of(name) in self._search.order else 1.0


def _has_inside(seen: Seen) -> bool:
    return not {"OPEN", "CLOSED"}.isdisjoint(seen.states)


def _shown(template: str, run: Run) -> str:
    words = {node.finds: node.of for node in run.fit.routine.nodes if isinstance(node, model.Search)}
    entries = {name: f"{{{name}}}" for node in run.fit.routine.nodes for name in model.written_by(node)}
    known = {**run.fit.values, **entries}
    return template.format(**known, **{name: of.format(**known) for name, of in words.items()})


# ---------------------------------------------------------------------- the subtree


class RoutineNode(GoalNode):
    """Runs a routine; its name says which, and where that comes from.

    Status: As of :class:`~reactree_ros.tree.program_node.ProgramNode`. Raises Unusable: the world does not know one of
    its conditions.
    """

    teaches = False

    def __init__(self, run: Run) -> None:
        super().__init__(str(run.fit), run.node.context, name=describe(run.fit), parent=run.node)
        self.fit, self._run = run.fit, run
        self._tree = _built(run.fit.routine.body, run)

    def program(self) -> Program:
        reached = (yield from self.run_below(self._tree)) and not self._run.broken
        if not reached:
            self.feedback_message = self._run.reason or self.feedback_message
        return reached


def _built(node: model.Node, run: Run) -> Behaviour:
    try:
        return _BUILD[type(node)](node, run)
    except (ParameterError, KeyError) as error:
        raise Unusable(f"{node.kind}: {error}") from None


def _children(node: Any, run: Run) -> list[Behaviour]:
    return [_built(child, run) for child in node.children]


def _condition(node: Any, run: Run) -> str:
    return str(node.condition.format(**run.fit.values))


#: The flow of each, what it is for viewers, and after which end of a child it goes on.
_FLOWS: Mapping[type, tuple[ControlFlow, Any, Status]] = {
    model.Sequence: (SequenceFlow(), composites.Sequence, Status.SUCCESS),
    model.Fallback: (FallbackFlow(), composites.Selector, Status.FAILURE),
}


def _in_turn(node: model.Sequence | model.Fallback, run: Run) -> Behaviour:
    flow, plain, goes_on = _FLOWS[type(node)]
    children = _children(node, run)
    if node.memory is True:
        return flow.over(run.node, children)
    made: Composite
    if node.memory == "kept" or sum(map(model.takes_time, node.children)) > 1:
        of = Kept if node.memory == "kept" else Again
        made = type(of.__name__, (of, plain), {})(node.kind, children, run.node, goes_on)
    else:
        made = plain(node.kind, memory=False, children=children)
    return marked(flow, made)


def _parallel(node: model.Parallel, run: Run) -> Behaviour:
    policy, children = ParallelPolicy(node.policy), _children(node, run)
    if policy is ParallelPolicy.ALL:
        made: Parallel = AllOrNone("parallel", children, policy)
    elif policy is ParallelPolicy.MAJORITY or run.node.context.team.takes_turns:
        made = Parallel("parallel", children, policy)
    else:
        made = Concurrent("parallel", children, run.node)
    return marked(ParallelFlow(), made)


class AllOrNone(Parallel):
    """Runs its children one after the other, and none after one that failed: nothing is done that is in vain.

    Status: As of :class:`~reactree_ros.tree.flows.Parallel`.
    """

    def tick(self) -> Iterator[Behaviour]:
        return take_turns(self, (Status.SUCCESS,), lambda: Status.SUCCESS)


class _Again(decorators.Decorator):
    # Nor after :data:`~reactree_ros.routine.model.MOST_ALIKE` rounds in a row that came to the same failure. Status: As
    # of the decorator; FAILURE after such a round, too.

    def __init__(self, name: str, child: Behaviour, times: int, run: Run) -> None:
        super().__init__(name, child, times)  # type: ignore[call-arg]
        self._run, self._used, self._alike = run, (0, 0, 0), ("", 0)

    def initialise(self) -> None:
        super().initialise()
        self._used, self._alike = self._counts(), ("", 0)

    def update(self) -> Status:
        status = super().update()
        if status != Status.RUNNING or self.decorated.status == Status.RUNNING:
            return status
        before, self._used = self._used, self._counts()
        failed = self._run.reason if self.decorated.status == Status.FAILURE else ""
        self._alike = failed, self._alike[1] + 1 if failed and failed == self._alike[0] else 1
        self._run.node.context.wake()
        if self._used == before:
            self._run.reason = self._run.reason or f"Nothing was done in a round of a {self.name}."
            return Status.FAILURE
        if self._alike[1] == model.MOST_ALIKE:
            self._run.reason = f"{failed} A {self.name} came to that {model.MOST_ALIKE} times in a row."
            return Status.FAILURE
        self._run.reason = ""
        return Status.RUNNING

    def _counts(self) -> tuple[int, int, int]:
        return self._run.node.budget.decisions, self._run.node.budget.steps, self._run.scripts


class Retry(_Again, decorators.Retry):
    pass


class Repeat(_Again, decorators.Repeat):
    pass


def _again(kind: type[_Again]) -> Callable[[model.Decorator, Run], Behaviour]:
    return lambda node, run: kind(node.does, _built(node.child, run), node.times or model.FOR_EVER, run)


_DECORATORS: Mapping[str, Callable[[model.Decorator, Run], Behaviour]] = {
    "invert": lambda node, run: decorators.Inverter("invert", _built(node.child, run)),
    "succeed": lambda node, run: decorators.FailureIsSuccess("succeed", _built(node.child, run)),
    "fail": lambda node, run: decorators.SuccessIsFailure("fail", _built(node.child, run)),
    "retry": _again(Retry),
    "repeat": _again(Repeat),
}
_BUILD: Mapping[type, Callable[[Any, Run], Behaviour]] = {
    model.Skill: SkillStep,
    model.Search: SearchStep,
    model.Goal: GoalStep,
    model.WaitFor: WaitStep,
    model.Script: ScriptStep,
    model.Pause: PauseStep,
    model.Always: lambda node, run: (behaviours.Success if node.succeeds else behaviours.Failure)(node.kind),
    model.Sequence: _in_turn,
    model.Fallback: _in_turn,
    model.Parallel: _parallel,
    model.RepeatUntil: lambda node, run: RepeatUntilFlow(_condition(node, run)).over(run.node, _children(node, run)),
    model.While: lambda node, run: WhileFlow(_condition(node, run)).over(run.node, _children(node, run)),
    model.Within: lambda node, run: WithinFlow(node.seconds).over(run.node, _children(node, run)),
    model.Decorator: lambda node, run: _DECORATORS[node.does](node, run),
}
