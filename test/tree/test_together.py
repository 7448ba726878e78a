"""One robot whose skills use different resources: what runs at the same time, what waits, and what stops it."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from doubles import START, AgentNodes, Clock, ScriptedModel, ScriptedWorld, expand
from py_trees.common import Status
from recorded_runs import Kept, assert_replays, recorded_episode

from reactree_ros.agent.control_flow import default_flows
from reactree_ros.agent.needs import needs_of
from reactree_ros.agent.parameters import Text
from reactree_ros.agent.skill import Offer, Offered, Skill
from reactree_ros.background.pending import Pending
from reactree_ros.episode import Episode
from reactree_ros.episode.going_on import WayBack, carry_out_again, last_skill_of
from reactree_ros.household.household import WAH_NL
from reactree_ros.record.checking import Check
from reactree_ros.record.moment import Moment
from reactree_ros.tree.agent_node import Abilities
from reactree_ros.tree.bounded_flows import WithinFlow
from reactree_ros.tree.options import ParallelPolicy, TreeOptions
from reactree_ros.view.terminal import event_lines, tree_rows
from reactree_ros.world.port import Observation, Outcome, WorldError

USES = {"drive": {"base"}, "say": {"voice"}, "grasp": {"arm"}, "carry": {"arm", "base"}, "dance": set[str]()}


class Butler(ScriptedWorld):
    """Carries out skills that use base, arm or voice, until each is ended by its words."""

    household = replace(
        WAH_NL,
        actions=(),
        skills=tuple(
            Skill(name=verb, wording=f"{verb} {{what}}", parameters={"what": Text()}, uses=frozenset(used))
            for verb, used in USES.items()
        ),
    )

    def __init__(self) -> None:
        super().__init__(settle=False)
        self.under_way: dict[str, Pending[Observation]] = {}
        self.looks: list[Pending[Observation]] = []
        self.looks_long = False
        self.stopped = ""

    def available_skills(self) -> Pending[Sequence[Offered]]:
        return Pending.ready([Offer(skill) for skill in self.household.skills])

    def observe(self) -> Pending[Observation]:
        driving = "".join(f" You {skill}." for skill in self.under_way)
        look = Pending[Observation]() if self.looks_long else Pending.ready(Observation(f"{START}{driving}"))
        self.looks.append(look)
        return look

    def execute(self, skill: str) -> Pending[Observation]:
        for other in self.under_way:
            assert not self.household.uses(other) & self.household.uses(skill), (other, skill)
        self.executed.append(skill)

        def ended(done: object) -> None:
            del self.under_way[skill]
            self.cancelled[skill] += pending.cancelled()

        self.under_way[skill] = pending = Pending[Observation]()
        pending.add_done_callback(ended)
        return pending

    def end(self, skill: str, outcome: Outcome = Outcome.DONE) -> None:
        self.under_way[skill].succeed(Observation(f"You {skill}.", outcome))

    def halted(self) -> str:
        return self.stopped


def begun(script: Mapping[str, Sequence[str]], ticks: int = 12, **given: object) -> tuple[Episode, Butler, Kept]:
    world = Butler()
    run, kept = recorded_episode(script, world=world, **given)
    return ticked(run, ticks), world, kept


def ticked(run: Episode, count: int = 12) -> Episode:
    for _ in range(count):
        if not run.finished:
            run.tick()
    return run


def seen(run: Episode, subgoal: str) -> str:
    return next(node.text for node in run.context.nodes if node.subgoal == subgoal)


BOTH = [expand("parallel", "a", "b")]


def test_a_sentence_is_said_during_a_drive_and_the_record_tells_both_apart() -> None:
    script = {"root": BOTH, "a": ["Act: drive home", "Act: done"], "b": ["Act: say hello", "Act: say bye", "Act: done"]}
    run, world, kept = begun(script)
    assert list(world.under_way) == ["drive home", "say hello"]
    assert [row.plain for row in tree_rows(Moment.after(kept.record.events), folded=True)][2:] == [
        "    ● a · drive home",
        "    ● b · say hello",
    ]
    world.end("say hello")
    ticked(run)
    assert list(world.under_way) == ["drive home", "say bye"]  # each has its own observation, and goes on by it
    world.end("say bye")
    ticked(run)
    world.end("drive home")
    assert ticked(run).root.status == Status.SUCCESS
    run.run()
    parts = {event.get("part") for event in kept.events_of("observation") if event["of"] == "execute"}
    assert len(parts) == 2
    moment = Moment()
    lines = list[str]()
    for event in kept.record.events:
        moment.apply(event)
        lines += (line.text for line in event_lines(moment, event))
    assert [line for line in lines if line[:3] in ("a: ", "b: ") and "done" not in line] == [
        "a: Act: drive home",
        "b: Act: say hello",
        "b: You say hello.",
        "b: Act: say bye",
        "b: You say bye.",
        "a: You drive home.",
    ]
    check = Check()
    for line in kept.lines:
        check.event(line.encode())
    assert_replays(kept)


def test_who_shares_a_resource_waits_until_the_subgoal_of_the_other_has_ended() -> None:
    script = {
        "root": BOTH,
        "a": ["Act: drive home", "Act: say here", "Act: done"],
        "b": ["Act: drive away", "Act: done"],
    }
    run, world, kept = begun(script)
    assert world.executed == ["drive home"]
    world.end("drive home")
    ticked(run)
    assert world.executed == ["drive home", "say here"]  # not "drive away": a has the base to its end
    world.end("say here")
    ticked(run)
    assert world.executed[2:] == ["drive away"]
    world.end("drive away")
    assert ticked(run).run().status == "success"
    assert_replays(kept)


@pytest.mark.parametrize(
    ("policy", "verb", "together"),
    [
        (ParallelPolicy.CONCURRENT, "say", 2),
        (ParallelPolicy.CONCURRENT, "dance", 1),  # it names no resource, and so takes all
        *((policy, "say", 1) for policy in (ParallelPolicy.TURNS, ParallelPolicy.MAJORITY, ParallelPolicy.ALL)),
    ],
)
def test_children_run_at_the_same_time_only_if_skills_and_settings_allow_it(
    policy: ParallelPolicy, verb: str, together: int
) -> None:
    script = {"root": BOTH, "a": ["Act: drive home"], "b": [f"Act: {verb} it"]}
    assert len(begun(script, options=TreeOptions(parallel=policy))[1].under_way) == together


def test_a_circle_is_refused_in_words_and_replayed() -> None:
    script = {
        "root": BOTH,
        "a": ["Act: drive home", "Act: grasp it", "Act: done"],
        "b": ["Act: grasp it", "Act: drive away", "Act: failure"],
    }
    run, world, kept = begun(script)
    world.end("drive home")
    ticked(run)
    world.end("grasp it")
    ticked(run)
    assert "not carried out: 'a' would wait for you, and you for 'a'." in seen(run, "b")
    world.end("grasp it")  # which a has now: b has given up
    assert ticked(run).finished
    assert run.run().status == "failure"
    assert_replays(kept)


def test_who_waits_too_long_is_told_what_was_not_free() -> None:
    clock = Clock()
    script = {"root": BOTH, "a": ["Act: drive home", "Act: done"], "b": ["Act: carry it", "Act: failure"]}
    run, world, kept = begun(script, clock=clock)
    clock.now += TreeOptions().skill_timeout
    ticked(run)
    assert "The skill was not carried out: no free arm and base within 600 s." in seen(run, "b")
    world.end("drive home")
    ticked(run).run()
    assert_replays(kept)


def test_what_a_child_has_is_that_of_its_own_children_and_comes_back_to_it() -> None:
    script = {
        "root": BOTH,
        "a": ["Act: drive home", expand("parallel", "a1", "a2")],
        "a1": ["Act: drive on", "Act: done"],
        "a2": ["Act: drive back", "Act: done"],
        "b": ["Act: drive away", "Act: done"],
    }
    run, world, kept = begun(script)
    for skill in ("drive home", "drive on", "drive back", "drive away"):
        assert list(world.under_way) == [skill]
        world.end(skill)
        ticked(run)
    assert run.run().status == "success"
    assert_replays(kept)


def test_a_circle_through_what_was_lent_is_found() -> None:
    script = {
        "root": BOTH,
        "a": ["Act: drive home", expand("parallel", "a1", "a2")],
        "a1": ["Act: say it", "Act: done"],
        "a2": ["Act: drive on", "Act: done"],
        "b": ["Act: say hello", "Act: drive away", "Act: done"],
    }
    run, world, _ = begun(script)
    world.end("drive home")
    ticked(run)
    world.end("say hello")  # b wants the base now, which a2 has of a; a1 waits for b
    ticked(run)
    world.end("drive on")
    ticked(run)
    assert "would wait for you" in seen(run, "b")


def test_a_drive_that_fails_leaves_the_speech_alone() -> None:
    script = {"root": BOTH, "a": ["Act: drive home", "Act: failure"], "b": ["Act: say hello", "Act: done"]}
    run, world, kept = begun(script)
    world.end("drive home", Outcome.EXECUTION)
    ticked(run)
    assert list(world.under_way) == ["say hello"]
    world.end("say hello")
    ticked(run).run()
    assert [node.status for node in run.context.nodes] == [Status.FAILURE, Status.FAILURE, Status.SUCCESS]
    assert_replays(kept)


def test_the_end_of_a_time_cancels_one_child_only_and_frees_what_it_has() -> None:
    clock = Clock()
    script = {
        "root": [expand("parallel", "a", "b", "c")],
        "a": [expand("within 5 s", "a1")],
        "a1": ["Act: drive home"],
        "b": ["Act: say hello", "Act: done"],
        "c": ["Act: grasp it", "Act: drive away", "Act: done"],
    }
    flows = AgentNodes(Abilities((*default_flows(), WithinFlow)))
    run, world, kept = begun(script, clock=clock, builder=flows)
    world.end("grasp it")
    ticked(run)
    assert list(world.under_way) == ["say hello", "drive home"]
    clock.now += 6
    ticked(run)
    assert (world.cancelled["drive home"], world.cancelled["say hello"]) == (1, 0)
    assert list(world.under_way) == ["say hello", "drive away"]
    for skill in list(world.under_way):
        world.end(skill)
    assert ticked(run).run().status == "success"
    assert_replays(kept, flows)


@pytest.mark.parametrize("stop", ["pause", "halt", "interrupt", "fatal", "time"])
def test_stops_stop_all(stop: str) -> None:
    script = {
        "root": BOTH,
        "a": ["Act: drive home", "Act: drive home", "Act: done"],
        "b": ["Act: say hello", "Act: say hello", "Act: done"],
    }
    run, world, kept = begun(script, options=TreeOptions(max_seconds=9))
    if stop == "pause":
        run.pause("a person pauses")
    elif stop == "halt":
        world.stopped = "emergency stop"
    elif stop == "interrupt":
        run.interrupt()
    elif stop == "fatal":
        world.under_way["say hello"].fail(WorldError("it broke"))
    else:
        run.elapsed = lambda: 9.5
    ticked(run, 3)
    assert not world.under_way
    assert world.cancelled["drive home"] == 1
    if stop in ("pause", "halt"):
        run.resume()
        world.stopped = ""
        ticked(run)
        assert world.executed[2:] == ["drive home", "say hello"]
        world.end("say hello")
        world.end("drive home")
        assert ticked(run).run().status == "success"
    if stop != "time":
        assert_replays(kept)


def test_a_run_goes_on_from_its_record_in_the_midst_of_both() -> None:
    script = {"root": BOTH, "a": ["Act: drive home", "Act: done"], "b": ["Act: say hello", "Act: done"]}
    run, world, kept = begun(script)
    again, model = Butler(), ScriptedModel({"a": ["Act: drive on", "Act: done"], "b": ["Act: drive away", "Act: done"]})
    world.end("say hello")
    run.tick()
    way = WayBack(kept.record, len(kept.lines), world=again, model=model)
    for _ in range(200):
        if "say hello" in again.under_way:
            again.end("say hello")
        if way.step():
            break
    assert list(again.under_way) == ["drive home"]  # which is carried out again, and goes on
    again.end("drive home")
    ticked(way.episode)
    assert again.executed == ["drive home", "say hello", "drive on"]  # a has the base still
    again.end("drive on")
    ticked(way.episode)
    again.end("drive away")
    assert ticked(way.episode).root.status == Status.SUCCESS

    repeated = Butler()
    repeated.execute = lambda skill: Pending.ready(Observation(f"You {skill} now."))  # type: ignore[method-assign]
    told: list[tuple[str, ...]] = []
    carry_out_again(kept.record, len(kept.lines), repeated, lambda *what: told.append(what), 9)
    assert [what for what, *_ in told] == ["say hello"]
    assert "'drive home' was under way" in last_skill_of(kept.record, len(kept.lines))


@pytest.mark.parametrize("seed", range(40))
def test_any_run_ends_and_is_replayed(seed: int) -> None:
    chance = random.Random(seed)
    script = defaultdict[str, list[str]](list)
    count = iter(range(99))

    def grow(goal: str, depth: int) -> None:
        for _ in range(chance.randrange(4)):
            script[goal].append(f"Act: {chance.choice(tuple(USES))} {chance.choice('xyz')}")
        if depth < 3 and chance.random() < (1 if depth == 0 else 0.4):
            flow = "parallel" if depth == 0 else chance.choice(("parallel", "sequence", "fallback"))
            children = [f"{goal}{next(count)}" for _ in range(chance.randrange(2, 4))]
            script[goal].append(expand(flow, *children))
            for child in children:
                grow(child, depth + 1)
        else:
            script[goal].append(chance.choice(("Act: done", "Act: done", "Act: failure")))

    grow("root", 0)
    run, world, kept = begun(script, 0, model=(model := ScriptedModel(script, settle=False)))
    world.looks_long = True
    for _ in range(4000):
        if chance.random() < 0.3:
            model.settle_all()
        for look in [look for look in world.looks if not look.done() and chance.random() < 0.3]:
            look.succeed(Observation(f"{START} You see {chance.random()}."))
        for skill in list(world.under_way):
            if chance.random() < 0.2:
                world.end(skill, chance.choice((Outcome.DONE, Outcome.DONE, Outcome.EXECUTION)))
        if chance.random() < 0.02:
            world.stopped = "" if world.stopped else "emergency stop"
        if chance.random() < 0.02:
            run.resume() if run.context.paused else run.pause("a person pauses")
        run.tick()
        if run.finished:
            break
    else:
        pytest.fail(f"it did not end: {list(world.under_way)}")
    run.run()
    assert_replays(kept)


def test_a_skill_takes_what_those_use_that_change_what_it_requires() -> None:
    drive = Skill(
        name="drive",
        wording="drive away",
        effect={"away": "true"},
        uses=frozenset({"base"}),
        requires=needs_of({"not": {"open": "drawer"}}, {}),
    )
    pull = Skill(
        name="pull",
        wording="pull {it}",
        parameters={"it": Text()},
        effect={"open": "drawer {it}"},
        uses=frozenset({"arm"}),
    )
    say = Skill(name="say", wording="say hello", uses=frozenset({"voice"}))
    load = Skill(name="load", wording="load it", uses=frozenset({"lift"}), requires=needs_of({"at": "counter"}, {}))
    uses = replace(Butler.household, skills=(drive, pull, say, load)).uses
    assert uses("drive away") == {"base", "arm"}
    assert (uses("pull 1"), uses("say hello"), uses("load it")) == ({"arm"}, {"voice"}, {"lift", "base"})
