"""Eyes: a second model says what is on pictures, and looks whether skills have done what they report."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from detector import Detector, found_in, is_held
from drawn import data_of
from hostile import changed_header
from openai_peer import Peer
from slipping import SlippingWorld, grasps

from reactree_lab.household.generator import generate_house
from reactree_ros import run
from reactree_ros.agent.observation import Outcome
from reactree_ros.agent.picture import CANNOT_SEE, NO, YES, PictureCheck
from reactree_ros.background.pending import Pending
from reactree_ros.episode import Episode
from reactree_ros.episode.eyes import WorldWithEyes
from reactree_ros.episode.player import replay
from reactree_ros.household.expert.model import ExpertModel
from reactree_ros.household.pictures import CHECKS
from reactree_ros.household.symbolic import SymbolicWorld
from reactree_ros.household.tasks import Task, parse_tasks
from reactree_ros.household.vocabulary import CLASSES
from reactree_ros.llm.eyes import Eyes
from reactree_ros.llm.port import DecisionRequest, LanguageModel, Reply, ServerUnavailable
from reactree_ros.planners.spec import planner
from reactree_ros.record.reader import read_record
from reactree_ros.record.writer import Recorder, RecordFile
from reactree_ros.tree.options import TreeOptions
from reactree_ros.world.drawing import colour_of
from reactree_ros.world.wrappers import SkillTimeLimit

pytest.importorskip("PIL", reason="pictures are drawn with Pillow: pip install 'reactree_ros[pictures]'")

if TYPE_CHECKING:
    from pathlib import Path

    from command_line import Cli

#: Longest wait for what comes at once, in seconds.
SOON = 20.0


class Says(LanguageModel):
    """Says the next of some answers about any picture; an exception fails, None leaves the request in flight."""

    def __init__(self, *answers: str | Exception | None, shown: int = 1) -> None:
        self._answers, self._shown = list(answers), shown
        self.in_flight: list[Pending[Reply]] = []

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            return Pending.failed(answer)
        if answer is None:
            self.in_flight.append(Pending())
            return self.in_flight[-1]
        return Pending.ready(Reply(answer, pictures=self._shown))


@pytest.fixture(scope="module")
def task() -> Task:
    (one,) = parse_tasks(generate_house(seed=3, tasks=1))
    return one


def before(task: Task, *, share: float = 0.0, seed: int = 0) -> tuple[SlippingWorld, str]:
    """A robot before a thing that it can grasp, and that skill."""
    robot = SlippingWorld(task, share=share, seed=seed)
    for room in robot.scene.rooms:
        robot.execute(f"go to {room.name}")
        for skill in map(str, robot.available_skills().take()):
            if skill.startswith("pick up "):
                robot.execute(f"go to {skill.removeprefix('pick up ')}")
                return robot, skill
    raise AssertionError("nothing can be grasped")


def looking(robot: SlippingWorld, model: LanguageModel, patience: float = SOON, **check: Any) -> WorldWithEyes:
    """A robot with eyes."""
    return WorldWithEyes(robot, Eyes(model, "eyes", patience), {"pick up": replace(CHECKS["pick up"], **check)})


# ---------------------------------------------------------------------- whether it was done


def test_a_grasp_that_is_seen_is_done_and_the_picture_is_kept(task: Task) -> None:
    robot, skill = before(task)
    seen = looking(robot, Detector(), looks=1).execute(skill).result(SOON)
    assert (seen.outcome, [one.answer for one in seen.glances]) == (Outcome.DONE, [YES])
    assert [one.held for one in seen.seen] == [True]
    (picture,) = seen.pictures
    assert picture.words == f"Is {skill.removeprefix('pick up ')} in the hand? yes"
    assert seen.glances[0].picture == picture.id


def test_a_grasp_that_is_reported_and_not_seen_is_not_done(task: Task) -> None:
    robot, skill = before(task, share=1.0)
    assert "You hold" in robot.execute(skill).take().text, "the report alone tells nothing of it"
    seen = looking(robot, Detector(), looks=1).execute(skill).result(SOON)
    thing = skill.removeprefix("pick up ")
    assert seen.outcome is Outcome.POSTCONDITION
    assert seen.text == f"You tried to {skill}, but the camera shows otherwise: Is {thing} in the hand? no."
    assert (seen.seen, seen.data) == ((), {}), "nothing of the report is remembered"


@pytest.mark.parametrize(
    ("model", "necessary", "outcome", "said"),
    [
        (Says(CANNOT_SEE), False, Outcome.DONE, "he camera cannot see whether it was done (Is "),
        (Says(CANNOT_SEE), True, Outcome.POSTCONDITION, "he camera cannot see whether it was done (Is "),
        (Says(ServerUnavailable("no server")), True, Outcome.POSTCONDITION, "no server"),
        (
            Says(YES, shown=0),
            False,
            Outcome.DONE,
            "obody could look whether it was done: eyes: it was shown no picture",
        ),
    ],
)
def test_what_the_eyes_cannot_see_is_said_and_fails_only_where_it_is_needed(
    task: Task, model: Says, necessary: bool, outcome: Outcome, said: str
) -> None:
    robot, skill = before(task)
    seen = looking(robot, model, looks=1, necessary=necessary).execute(skill).result(SOON)
    assert (seen.outcome, len(seen.glances)) == (outcome, 1)
    assert said in seen.text
    assert ("You hold" in seen.text) is not necessary


@pytest.mark.parametrize("model", [Says(ServerUnavailable("no server"), YES, ServerUnavailable("no server"))])
def test_eyes_that_are_away_leave_the_run_going_and_are_told_of_once(task: Task, model: Says) -> None:
    robot, skill = before(task)
    world = looking(robot, model, looks=1)
    texts = []
    for _ in range(3):
        seen = world.execute(skill).result(SOON)
        assert seen.outcome is Outcome.DONE
        texts.append(seen.text)
        robot.reset()
        robot.execute(f"go to {skill.removeprefix('pick up ')}")
    assert texts[0].endswith(" Nobody could look whether it was done: eyes: no server.")
    assert "obody" not in texts[1]
    assert texts[2].endswith(" Nobody could look whether it was done."), "the reason is known"


def test_a_robot_without_a_camera_says_so(task: Task) -> None:
    robot, skill = before(task)
    robot._has_camera = False
    seen = looking(robot, Says(), looks=1).execute(skill).result(SOON)
    assert seen.text.endswith("Nobody could look whether it was done: there was no picture to look at.")


def test_an_answer_that_never_comes_is_waited_for_so_long_and_given_up(task: Task) -> None:
    robot, skill = before(task)
    model = Says(None)
    seen = looking(robot, model, patience=0.05, looks=3).execute(skill).result(SOON)
    assert "no answer within 0.05 s" in seen.text
    assert model.in_flight[0].cancelled(), "nothing is left of it"


def test_a_look_can_be_cancelled_and_holds_no_tick(task: Task) -> None:
    robot, skill = before(task)
    model = Says(YES, None)
    world = SkillTimeLimit(looking(robot, model, looks=3), SOON)
    pending = world.execute(skill)
    assert not pending.done()
    assert pending.cancel()
    assert model.in_flight[0].cancelled()
    assert world.observe().result(SOON).text, "the robot can be asked again"


@pytest.mark.parametrize(
    ("looks", "answers", "found", "took"),
    [
        (1, (NO,), NO, 1),
        (3, (YES, YES), YES, 2),
        (3, (YES, NO, NO), NO, 3),
        (3, (YES, CANNOT_SEE, NO), CANNOT_SEE, 3),
        (3, (CANNOT_SEE, YES, YES), YES, 3),
        (3, (YES, CANNOT_SEE, CANNOT_SEE), CANNOT_SEE, 3),
        (5, (NO, YES, NO, NO), NO, 4),
    ],
)
def test_what_more_than_half_of_the_looks_say_counts(
    task: Task, looks: int, answers: Sequence[str], found: str, took: int
) -> None:
    robot, skill = before(task)
    seen = looking(robot, Says(*answers), looks=looks).execute(skill).result(SOON)
    assert len(seen.glances) == took
    assert PictureCheck("", looks=looks).found(seen.glances) == found
    assert seen.outcome is (Outcome.POSTCONDITION if found == NO else Outcome.DONE)


#: What the eyes of a test overlook, take for there, and cannot see, each of a hundred looks.
ERRS = {"misses": 0.05, "mistakes": 0.05, "blind": 0.05}


@pytest.mark.slow
def test_eyes_catch_nearly_all_grasps_that_are_falsely_reported(task: Task) -> None:
    robot = SlippingWorld(task, share=0.2, seed=2)
    world = looking(robot, Detector(2, **ERRS), looks=3)
    outcomes = [seen.outcome for seen in grasps(robot, world, 120, random.Random(2))]
    false, true = (
        [outcome for outcome, (_, is_true) in zip(outcomes, robot.reports, strict=True) if is_true is wanted]
        for wanted in (False, True)
    )
    assert len(false) > 20
    assert false.count(Outcome.POSTCONDITION) >= 0.95 * len(false)
    assert true.count(Outcome.POSTCONDITION) <= 0.05 * len(true)


# ---------------------------------------------------------------------- what is there


def test_what_is_looked_at_is_told_in_words_to_who_sees_nothing(task: Task) -> None:
    robot, skill = before(task)
    thing = skill.removeprefix("pick up ")
    word = robot.scene.by_name[thing].word
    world = looking(robot, Detector(words=[word, "apple pie"]))
    seen = world.execute("look").result(SOON)
    assert seen.full_text == f"You look.\nPicture of camera own: I see {word}."
    seen = world.execute(f"look at {thing}").result(SOON)
    assert seen.full_text.startswith(f"You look at {thing}.\nPicture of camera own: The {thing} is at the ")
    assert len(seen.glances) == 2
    left, top, right, bottom = seen.glances[0].box
    (found,) = (one for one in found_in(data_of(seen.pictures[0]), word) if one[4] == int(thing.split()[-1]))
    assert (left, top, right, bottom) == pytest.approx(
        (found[0] / 640, found[1] / 480, found[2] / 640, found[3] / 480), abs=0.001
    )


def test_where_nothing_can_be_said_the_observation_says_so_and_the_picture_comes(task: Task) -> None:
    robot, _ = before(task)
    seen = looking(robot, Says(ServerUnavailable("no server"))).execute("take a picture").result(SOON)
    assert seen.text == "You take a picture. Nobody could say what is on the picture: eyes: no server."
    assert len(seen.pictures) == 1


def test_the_skills_to_look_are_there_only_with_cameras(task: Task) -> None:
    robot, _ = before(task)
    assert {"look", "look at", "take a picture"} <= set(robot.household.actions)
    blind = SymbolicWorld(task)
    assert not any(verb.startswith(("look", "take")) for verb in blind.household.actions)
    assert not any(skill.startswith(("look", "take")) for skill in map(str, blind.available_skills().take()))
    assert blind.execute("look").take().outcome is Outcome.UNKNOWN_SKILL
    assert blind.pictures().take() == ()


def test_each_class_has_a_colour_of_its_own_and_what_is_closed_is_not_drawn(task: Task) -> None:
    words = {one.word for one in CLASSES.values()}
    assert len({colour_of(word) for word in words}) == len(words)
    robot, _ = before(task)
    shut = next(thing for thing in robot.scene.things.values() if robot.scene.hidden(thing) and thing.observed)
    place = robot.scene.container_of(shut)
    assert place is not None
    robot.execute(f"go to {place.name}")

    def drawn() -> set[int]:
        (above,) = robot.pictures("above").take()
        return {one[4] for one in found_in(data_of(above), shut.word)}

    before_it = drawn()
    robot.execute(f"open {place.name}")
    assert drawn() - before_it >= {shut.number}


# ---------------------------------------------------------------------- runs


@pytest.mark.slow
def test_a_run_with_eyes_counts_what_they_take_and_comes_again_as_recorded(task: Task, tmp_path: Path) -> None:
    robot = SlippingWorld(task, share=0.5, seed=1)
    world = WorldWithEyes(robot, Eyes(Detector(1, **ERRS), "detector", SOON), CHECKS)
    file = RecordFile(tmp_path / "run.jsonl")
    record = Recorder(file.write, flush=file.flush)
    episode = Episode(task.instruction, world=world, model=ExpertModel(), planner=planner("reactree_wm"), record=record)
    result = episode.run()
    file.close()
    assert any(not is_true for _, is_true in robot.reports), "some were false"
    assert result.gsr == 1.0, "and the run has reached its goal all the same"
    glances = episode.context.glances
    assert episode.context.budget.prompt_tokens == result.prompt_tokens == 300 * len(glances) > 0
    recorded = read_record(tmp_path / "run.jsonl")
    assert replay(recorded).identical
    told = [one for event in recorded.events for one in event.get("glances", ())]
    assert [one["answer"] for one in told] == [glance.answer for glance in glances]


def test_what_was_not_grasped_is_not_remembered_as_held(task: Task) -> None:
    robot, skill = before(task, share=1.0)
    world = looking(robot, Detector(), looks=1)
    model = Says()
    episode = Episode("Grasp it", world=world, model=model, planner=planner("reactree_wm"))
    context = episode.context
    context.remember(world.execute(skill).result(SOON), context.team.robots[0])
    thing = robot.scene.by_name[skill.removeprefix("pick up ")]
    assert "hold" not in context.recall(thing.word, context.team.robots[0])


def test_a_limit_of_tokens_counts_what_the_eyes_take_also_where_nobody_counts(task: Task) -> None:
    robot, skill = before(task)
    world = looking(robot, Says(YES), looks=1)
    options = TreeOptions(max_prompt_tokens=5)
    episode = Episode("Grasp it", world=world, model=Says(), planner=planner("reactree_wm"), options=options)
    context = episode.context
    context.remember(world.execute(skill).result(SOON), context.team.robots[0])
    assert context.budget.estimated
    assert context.budget.reached() is not None


def test_each_robot_of_a_team_has_the_eyes(task: Task) -> None:
    robot = SlippingWorld(task, share=0.0, robots=2)
    team = looking(robot, Says("a room")).team()
    assert [type(one) for one in team.values()] == [WorldWithEyes, WorldWithEyes]
    assert team["robot_2"].execute("look").result(SOON).pictures[0].words == "a room"


@pytest.mark.slow
def test_the_command_line_asks_another_server_about_pictures_and_shows_it_to_nobody_else(
    cli: Cli, tmp_path: Path
) -> None:
    def choose(options: Sequence[str]) -> str:
        if not peer.asked:  # it is found out what the server can do
            return options[0]
        thing = peer.asked[-1].prompt.partition("Is ")[2].partition(" in the hand?")[0]
        (data,) = peer.asked[-1].pictures
        return YES if is_held(data, thing) else NO

    with Peer(chats=True, choose=choose) as peer:
        vision = f"openai:base_url={peer.base_url}:model=tiny:retries=0"
        instruction = "Put 1 apple on the coffee table"
        save = tmp_path / "run.jsonl"
        ended = cli("run", instruction, "--world-option", "pictures=true", "--vision", vision, "--json", "--save", save)
        assert ended.code == 0
        assert peer.asked
        assert all(len(one.pictures) == 1 for one in peer.asked)
    recorded = read_record(save)
    assert recorded.run["vision"]["llm"] == "openai"
    assert recorded.run["vision"]["base_url"] == peer.base_url
    assert replay(recorded).identical
    theirs = changed_header(save, tmp_path / "theirs.jsonl", {"seal": ""})
    ended = cli(
        "record", "fork", theirs, "--at", 2, "--say", "Think: again.", "--json", "--world-option", "pictures=true"
    )
    assert "Nobody is asked about pictures now; to have that, add --vision openai" in ended.err
    assert ended.code == 0, "the record's own server is not asked, and is not missed"


@pytest.mark.parametrize(
    ("vision", "said"),
    [
        ("opnai:model=x", "opnai"),
        ("openai:modl=x", "there is no setting 'modl'"),
        ("openai:model", "write a setting as NAME=VALUE, not 'model'"),
    ],
)
def test_a_wrong_name_or_setting_of_eyes_is_refused_in_one_line(cli: Cli, vision: str, said: str) -> None:
    ended = cli("run", "Put 1 apple on the coffee table", "--vision", vision)
    assert ended.code == 2
    assert said in ended.err


@pytest.mark.slow
def test_eyes_in_python(tmp_path: Path) -> None:
    with Peer(chats=True, choose=lambda options: options[0]) as peer:
        result = run(
            "Put 1 apple on the coffee table",
            world_settings={"pictures": True},
            vision=f"openai:base_url={peer.base_url}:model=tiny",
        )
    assert result.prompt_tokens
    assert result.prompt_tokens >= 300
