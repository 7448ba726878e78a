"""Several robots on one planner: who does what, at the same time, and who goes on where one is gone."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from doubles import Clock, Crew, ScriptedModel, ScriptedWorld, expand, scripted_episode
from failing_robots import Failing, FailingTeam
from recorded_runs import assert_replays, recorded_episode

from reactree_lab.household.generator import generate_house
from reactree_ros.background.pending import Pending
from reactree_ros.episode import Episode
from reactree_ros.household.expert.model import ExpertModel
from reactree_ros.household.household import WAH_NL
from reactree_ros.household.symbolic import SymbolicWorld
from reactree_ros.household.tasks import Task, parse_tasks
from reactree_ros.llm.port import DecisionRequest, LanguageModelError, Reply
from reactree_ros.planners.spec import planner
from reactree_ros.record.moment import Moment
from reactree_ros.tree.options import TreeOptions
from reactree_ros.world.port import Observation, RightOfWay, RobotGone, Seen, WorldError
from reactree_ros.world.wrappers import SkillTimeLimit


class Holder(ScriptedWorld):
    """A robot that holds something, or sees it, in a room."""

    def __init__(self, *seen: Seen, **given: object) -> None:
        super().__init__(**given)  # type: ignore[arg-type]
        self.seen = seen

    def observe(self) -> Pending[Observation]:
        return Pending.ready(Observation("You are in the house, and there are 1 rooms: kitchen (1).", seen=self.seen))

    def execute(self, skill: str) -> Pending[Observation]:
        self.executed.append(skill)
        return Pending.ready(Observation(f"You {skill}.", seen=self.seen))


def crew(count: int = 2, *, settle: bool = True) -> Crew:
    return Crew(**{f"robot_{number}": ScriptedWorld(settle=settle) for number in range(1, count + 1)})


def ticked(episode: Episode, count: int) -> Episode:
    for _ in range(count):
        if not episode.finished:
            episode.tick()
    return episode


def running(episode: Episode) -> dict[str, str]:
    """Which robot works on which goal."""
    nodes = [node for node in episode.context.nodes if node.leaf is not None and node.status.value == "RUNNING"]
    return {node.subgoal: node.post.robot.name for node in nodes}


OPEN = "Act: open fridge 1"


def test_the_subgoals_of_a_parallel_run_at_the_same_time_each_on_a_robot_of_its_own() -> None:
    world = crew(settle=False)
    script = {"root": [expand("parallel", "a", "b", "c")], "a": [OPEN, "Act: done"], "b": [OPEN, "Act: done"]}
    run = scripted_episode(script | {"c": [OPEN, "Act: failure"]}, world=world)
    for one in world.robots.values():
        assert isinstance(one, ScriptedWorld)
        one.settle = True
    ticked(run, 3)
    for one in world.robots.values():
        one.settle = False  # type: ignore[attr-defined]
    ticked(run, 4)
    assert running(run) == {"a": "robot_1", "b": "robot_2"}  # c waits in the queue
    world.robots["robot_2"].settle_all()  # type: ignore[attr-defined]
    world.robots["robot_2"].settle = True  # type: ignore[attr-defined]
    ticked(run, 9)
    assert [node.post.robot.name for node in run.context.nodes if node.subgoal == "c"] == ["robot_2"]
    world.robots["robot_1"].settle_all()  # type: ignore[attr-defined]
    result = run.run()
    assert (result.status, result.robots, result.steps, result.makespan) == ("success", 2, 3, 2)


def test_a_subtree_keeps_its_robot_to_its_end() -> None:
    script = {
        "root": [expand("parallel", "a", "b")],
        "a": [expand("sequence", "a1", "a2")],
        "b": ["Act: done"],
        "a1": [OPEN, "Act: done"],
        "a2": [OPEN, "Act: done"],
    }
    world = crew()
    assert scripted_episode(script, world=world).run().status == "success"
    assert [one.executed for one in world.robots.values()] == [["open fridge 1"] * 2, []]  # type: ignore[attr-defined]


def test_each_agent_node_is_told_which_robot_it_is_and_what_the_others_do_meanwhile() -> None:
    one = Holder(
        Seen("fridge", 1, "kitchen 1", "fridge 1", states=("OPEN",)),
        Seen("stove", 1, "kitchen 1", "stove 1", states=("CLOSED",)),
        Seen("apple", 1, "kitchen 1", "fridge 1"),
        Seen("juice", 1, "kitchen 1", "fridge 1"),
    )
    script = {
        "root": [expand("parallel", "a", "bring the apple"), "Act: done"],
        "a": [OPEN, OPEN, "Act: done"],
        "bring the apple": ["Think: x", "Think: y", OPEN, OPEN, "Act: done"],
    }
    run = scripted_episode(script, world=Crew(one=one, two=ScriptedWorld()), working_memory=True)
    run.run()
    root, a, b = (node.text for node in run.context.nodes)
    assert "You are one, one of one and two." in root
    assert "You are one, one of one and two." in a
    assert "You are two, one of one and two." in b
    news = "You open fridge 1. one has looked at fridge 1. one saw apple 1 near fridge 1 in kitchen 1.\n"
    assert b.count(news) == 1  # the second time there is nothing new
    assert "has looked" not in a
    assert "one of" not in scripted_episode({"root": ["Act: done"]}).context.team.introduce(
        scripted_episode({}).context.team.robots[0]
    )


def test_a_robot_asks_before_it_passes_and_one_that_is_alone_never() -> None:
    class Driver(ScriptedWorld):
        right: RightOfWay | None = None

        def heed(self, right_of_way: RightOfWay) -> None:
            self.right = right_of_way

    one, two, alone = Driver(), Driver(), Driver()
    team = scripted_episode({}, world=Crew(one=one, two=two)).context.team
    assert scripted_episode({}, world=alone).context.team.alone
    assert alone.right is None
    assert one.right is not None
    assert two.right is not None
    one.right.ask("door 1").take()
    waiting = two.right.ask("door 1")
    assert not waiting.done()
    one.right.leave("door 1")
    assert waiting.done()
    assert team.claims.places_of(team.robots[1]) == {"door 1"}


def test_a_subgoal_goes_to_the_robot_that_can_do_it() -> None:
    arm, base = ScriptedWorld(), ScriptedWorld()
    base.household = replace(WAH_NL, actions=("go to",))
    script = {
        "root": [expand("parallel", "go to the kitchen", "pick up the apple and go to the kitchen")],
        "go to the kitchen": ["Act: go to kitchen 1", "Act: done"],
        "pick up the apple and go to the kitchen": ["Act: pick up apple 1", "Act: done"],
    }
    assert scripted_episode(script, world=Crew(base=base, arm=arm)).run().status == "success"
    assert (base.executed, arm.executed) == (["go to kitchen 1"], ["pick up apple 1"])


def test_who_holds_what_a_subgoal_names_or_is_where_it_was_seen_goes_first() -> None:
    one = Holder(Seen("apple", 1, "kitchen 1", "table 1"))
    two = Holder(Seen("mug", 1, "bedroom 1", held=True))
    script = {
        "root": [expand("parallel", "look", "wait"), "Act: done"],
        "look": [expand("parallel", "put the mug away", "bring the apple")],
        "wait": ["Act: done"],
        "put the mug away": [OPEN, "Act: done"],
        "bring the apple": [OPEN, "Act: done"],
    }
    run = scripted_episode(script, world=Crew(one=one, two=two), working_memory=True)
    run.run()
    by = {node.subgoal: node.post.robot.name for node in run.context.nodes}
    assert (by["put the mug away"], by["bring the apple"]) == ("two", "one")
    memory = run.context.known
    assert memory.recall("mug", "one") == "two is holding mug 1."
    assert memory.recall("mug", "two") == "You are holding mug 1."
    assert [sighting.robot for sighting in memory.sightings("apple")] == ["one"]


def test_what_stops_one_robot_holds_its_subtree_only() -> None:
    world, stopped = crew(), [""]
    world.robots["robot_2"].halted = lambda: stopped[0]  # type: ignore[method-assign]
    script = {"root": [expand("parallel", "a", "b")], "a": [OPEN, "Act: done"], "b": [OPEN, "Act: done"]}
    run = ticked(scripted_episode(script, world=world), 3)
    stopped[0] = "emergency stop"
    ticked(run, 20)
    assert [node.status.value for node in run.context.nodes] == ["RUNNING", "SUCCESS", "RUNNING"]
    assert "emergency stop" in run.context.nodes[2].feedback_message
    stopped[0] = ""
    assert run.run().status == "success"


def test_an_interruption_cancels_what_every_robot_does_and_gives_all_back() -> None:
    world = crew()
    script = {"root": [expand("parallel", "a", "b")], "a": [OPEN], "b": [OPEN]}
    run = scripted_episode(script, world=world)
    ticked(run, 3)
    for one in world.robots.values():
        one.settle = False  # type: ignore[attr-defined]
    ticked(run, 4)
    run.interrupt()
    assert [one.cancelled["open fridge 1"] for one in world.robots.values()] == [1, 1]  # type: ignore[attr-defined]
    assert [robot.post is None or robot.post is run.context.team.post for robot in run.context.team.robots] == [
        True
    ] * 2


@pytest.mark.parametrize("stop", [Episode.interrupt, Episode.pause], ids=["interrupt", "pause"])
def test_a_robot_that_makes_way_is_stopped_with_the_run(stop: Callable[[Episode], None]) -> None:
    idle, busy = Holder(Seen("mug", 1, "kitchen 1", "table 1")), ScriptedWorld()
    idle.places = busy.places = ("fridge",)
    script = {
        "root": [expand("parallel", "a", "b")],
        "a": [OPEN, "Act: done"],
        "b": ["Think: x", "Think: y", "Think: z", OPEN, "Act: done"],
    }
    run = scripted_episode(script, world=Crew(one=idle, two=busy))
    moving = Pending[Observation]()
    idle.execute = lambda skill: moving if skill == "go to kitchen 1" else Holder.execute(idle, skill)  # type: ignore[method-assign]
    for _ in range(20):
        if run.context.team.robots[0].moving is None:
            run.tick()
    assert run.context.team.robots[0].moving is not None
    stop(run)
    if not run.finished:
        run.tick()
    assert moving.cancelled()
    robot = run.context.team.robots[0]
    assert (robot.moving, robot.gone) == (None, "")


def test_what_a_robot_held_that_is_lost_while_it_makes_way_is_forgotten() -> None:
    idle, busy = Holder(Seen("apple", 1, "kitchen 1", held=True)), ScriptedWorld()
    idle.places = busy.places = ("fridge",)
    idle.recallable = busy.recallable = ("apple",)
    idle.execute = lambda skill: (  # type: ignore[method-assign]
        Pending.failed(RobotGone("its battery is empty")) if skill == "go to kitchen 1" else Holder.execute(idle, skill)
    )
    recall = "Act: recall location of apple"
    script = {
        "root": [expand("parallel", "a", "b"), "Act: done"],
        "a": [OPEN, "Act: done"],
        "b": [recall, "Think: x", "Think: y", OPEN, recall, "Act: done"],
    }
    run = scripted_episode(script, world=Crew(one=idle, two=busy), working_memory=True)
    assert run.run().status == "success"
    assert run.context.team.robots[0].gone == "its battery is empty"
    text = next(node.text for node in run.context.nodes if node.subgoal == "b")
    before, after = text.split(f"{recall}\n")[1:]
    assert before.startswith("one is holding apple 1.")
    assert after.startswith("You have not seen apple before.")


def test_a_model_that_is_gone_ends_the_subtrees_of_all_robots() -> None:
    class Dying(ScriptedModel):
        def decide(self, request: DecisionRequest) -> Pending[Reply]:
            if "Your task is to: b" in request.prompt:
                return Pending.failed(LanguageModelError("it is gone"))
            return super().decide(request)

    world = crew()
    model = Dying({"root": [expand("parallel", "a", "b")], "a": [OPEN]})
    run = scripted_episode({}, model=model, world=world)
    ticked(run, 3)
    world.robots["robot_1"].settle = False  # type: ignore[attr-defined]
    ticked(run, 9)
    assert run.finished
    assert run.scored().end == "model_gone"


# ---------------------------------------------------------------------- robots that fail


@pytest.mark.parametrize("asked", range(1, 8))
def test_where_a_robot_is_gone_another_one_goes_on_with_its_subgoal(asked: int) -> None:
    one, two = ScriptedWorld(), ScriptedWorld()
    script = {
        "root": [expand("parallel", "a", "b"), "Act: done"],
        "a": [OPEN, "Act: pick up apple 1", "Act: done", "Act: done"],
        "b": [OPEN, "Act: pick up apple 1", "Act: done", "Act: done"],
    }
    run = scripted_episode(script, world=Crew(one=Failing(one, asked), two=two))
    result = run.run()
    assert result.status == "success"
    assert len(one.executed) + len(two.executed) >= 3
    lost = run.context.team.robots[0]
    assert (lost.gone, lost.post) != ("", None) or asked > 5


def test_who_goes_on_is_told_what_became_of_the_other_one_and_what_is_lost_with_it() -> None:
    one = Failing(Holder(Seen("apple", 1, "kitchen 1", held=True)), 3)
    script = {"root": [OPEN, "Act: recall location of apple", "Act: done"]}
    run = scripted_episode(script, world=Crew(one=one, two=ScriptedWorld()), working_memory=True)
    assert run.run().status == "success"
    text = run.context.nodes[0].text
    assert "one is gone: its battery is empty; what it held is lost with it: apple 1. You are two now." in text
    assert "You have not seen apple before." in text


def test_without_any_robot_the_world_is_gone() -> None:
    script = {"root": [expand("parallel", "a", "b")], "a": [OPEN] * 3, "b": [OPEN] * 3}
    world = FailingTeam(crew(), [4, 3])
    result = scripted_episode(script, world=world).run()
    assert (result.end, "its battery is empty" in result.message) == ("world_gone", True)


def test_a_robot_that_does_not_answer_is_gone_for_the_others_too() -> None:
    clock, world = Clock(), crew()
    script = {"root": [expand("parallel", "a", "b")], "a": [OPEN, "Act: done", "Act: done"], "b": [OPEN, "Act: done"]}
    run = scripted_episode(script, world=world, clock=clock, options=TreeOptions(decision_timeout=5.0))
    ticked(run, 2)
    world.robots["robot_2"].settle = False  # type: ignore[attr-defined]
    ticked(run, 9)
    clock.now = 6.0
    result = run.run()
    assert result.status == "success"
    assert "no observation within 5 s" in run.context.team.robots[1].gone


def test_a_robot_that_does_not_stop_is_gone() -> None:
    class Runaway(ScriptedWorld):
        def execute(self, skill: str) -> Pending[Observation]:
            return Pending()

        def at_rest(self) -> Pending[None]:
            return Pending()

    world = SkillTimeLimit(Crew(one=Runaway(), two=ScriptedWorld()), 0.01, 0.01)
    run = scripted_episode({"root": [OPEN, "Act: done"]}, world=world)
    assert run.run().status == "success"
    assert "did not stop within 0.01 s" in run.context.team.robots[0].gone


def tasks(first: int, count: int) -> Iterator[Task]:
    """Tasks of generated houses for things of several kinds."""
    for seed in range(first, first + count):
        for task in parse_tasks(generate_house(seed=seed, tasks=2)):
            if len({condition.item for condition in task.goal if condition.item}) > 1:
                yield task


@pytest.mark.slow
@pytest.mark.parametrize("robots", [2, 3])
def test_robots_that_share_a_household_reach_its_goals_in_fewer_steps_one_after_the_other(robots: int) -> None:
    steps = makespan = 0
    for task in tasks(9000200, 4):
        episode, kept = recorded_episode(
            {}, instruction=task.instruction, model=ExpertModel(), world=SymbolicWorld(task, robots=robots)
        )
        result = episode.run()
        assert (result.gsr, result.robots) == (1.0, robots), task.instruction
        alone = Episode(
            task.instruction, model=ExpertModel(), world=SymbolicWorld(task), planner=planner("reactree_wm")
        ).run()
        assert alone.makespan == alone.steps
        steps, makespan = steps + alone.steps, makespan + result.makespan
        assert_replays(kept)
        moment = Moment.after(kept.record.events)
        told = {moment.robot_of(number) for number in moment.started}
        assert told <= set(moment.run["robots"])
    assert makespan < 0.9 * steps


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(9000210, 9000225))
def test_whichever_robots_fail_and_whenever_every_run_ends_and_plays_again(seed: int) -> None:
    for task in tasks(seed, 1):
        rng = random.Random(seed + task.task_id)
        robots = rng.choice((2, 3))
        asked = [rng.choice((None, rng.randrange(1, 40), rng.randrange(1, 40))) for _ in range(robots)]
        world = FailingTeam(SymbolicWorld(task, robots=robots), asked)
        episode, kept = recorded_episode({}, instruction=task.instruction, model=ExpertModel(), world=world)
        ticked(episode, 3000)
        assert episode.finished, f"{asked}: {[node.feedback_message for node in episode.context.nodes]}"
        result = episode.scored()
        team = episode.context.team
        assert result.end == ("done" if result.status == "success" else "failure" if team.left else "world_gone")
        assert_replays(kept)


def test_a_world_that_is_gone_for_all_says_what_it_said_last() -> None:
    class Gone(ScriptedWorld):
        def observe(self) -> Pending[Observation]:
            return Pending.failed(WorldError("the simulator has died"))

    result = scripted_episode({}, world=Crew(one=Gone(), two=Gone())).run()
    assert (result.end, result.message) == ("world_gone", "no observation: the simulator has died")


def test_many_robots_that_each_do_the_same_are_not_stuck() -> None:
    subgoals = [f"part {number}" for number in range(14)]
    script = {"root": [expand("parallel", *subgoals)], **{one: [OPEN, OPEN, "Act: done"] for one in subgoals}}
    result = scripted_episode(script, world=crew(14)).run()
    assert (result.status, result.end, result.steps) == ("success", "done", 28)
