"""The world ``pddl``: by the port, by a real planner's plans, and by what people get wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from itertools import pairwise
from pathlib import Path

import pytest
from doubles import ScriptedModel
from pddl_plans import plan_of
from plans import example_of
from recode_doubles import Writes

from reactree_lab.worlds.pddl.engine import DOMAINS, MAKERS
from reactree_lab.worlds.pddl.world import (
    SPEC,
    SUITE,
    PddlSettings,
    PddlSuiteSettings,
    PddlTask,
    PddlWorld,
    made_up,
    tasks_of,
)
from reactree_ros.episode import Episode
from reactree_ros.errors import UserError
from reactree_ros.planners.spec import planner
from reactree_ros.plugins.settings import read_settings
from reactree_ros.world.check import check_world
from reactree_ros.world.port import Outcome
from reactree_ros.world.spec import Place

pytestmark = pytest.mark.worlds
pytest.importorskip("unified_planning", reason="needs the package unified-planning")
pytest.importorskip("up_fast_downward", reason="needs the package up-fast-downward")

PROBLEMS = 15
#: Each so many-th of them is swept over; `.ci/run` has not the time for all.
SWEEP = int(os.environ.get("SWEEP", "1"))
#: The problems that the domains' examples are of; short ones, and none of a bench.
EXAMPLES = {"blocksworld": 10_000_000, "gripper": 10_000_011, "tyreworld": 10_000_007, "barman": 10_000_009}
FERRY = """
(define (domain ferry)
  (:requirements :strips :typing :negative-preconditions)
  (:types car bank)
  (:predicates (at ?c - car ?b - bank) (ferry-at ?b - bank) (aboard ?c - car))
  (:action sail :parameters (?from ?to - bank) :precondition (ferry-at ?from)
    :effect (and (ferry-at ?to) (not (ferry-at ?from))))
  (:action board :parameters (?c - car ?b - bank) :precondition (and (at ?c ?b) (ferry-at ?b) (not (aboard ?c)))
    :effect (and (aboard ?c) (not (at ?c ?b)))))
"""
ACROSS = """
(define (problem across) (:domain ferry) (:objects red - car east west - bank)
  (:init (at red east) (ferry-at west)) (:goal (and (aboard red) (ferry-at east))))
"""


@pytest.fixture(autouse=True)
def _a_folder_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fast Downward leaves ``output.sas`` in the current folder; two at a time would read each other's."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def ferry(tmp_path: Path) -> tuple[Path, Path]:
    """A domain and a problem of a person's own, without words."""
    (tmp_path / "ferry").mkdir()
    domain, problem = tmp_path / "ferry/domain.pddl", tmp_path / "ferry/across.pddl"
    domain.write_text(FERRY)
    problem.write_text(ACROSS)
    return domain, problem


@pytest.mark.parametrize("domain", MAKERS)
def test_it_keeps_to_the_port(domain: str) -> None:
    assert check_world(PddlWorld(made_up(domain, 1))) == []


@pytest.mark.parametrize("domain", MAKERS)
def test_every_problem_is_solved_by_a_planners_plan_and_progress_never_falls(domain: str) -> None:
    for seed in range(1, PROBLEMS + 1, SWEEP):
        task = made_up(domain, seed)
        with PddlWorld(task) as world:
            shares = [world.score().result().ssr]
            for skill in plan_of(task):
                assert skill in world.available_skills().result()
                assert world.execute(skill).result().outcome is Outcome.DONE
                shares.append(world.score().result().ssr)
            assert all(earlier <= later for earlier, later in pairwise(shares))
            assert (shares[0] < 1, world.score().result().gsr, shares[-1]) == (True, 1, 1), task.instruction


@pytest.mark.parametrize("name", ["react", "reactree", "hiagent_example"])
@pytest.mark.parametrize("domain", MAKERS)
def test_the_examples_in_the_prompts_are_as_they_would_come_out(domain: str, name: str) -> None:
    task = made_up(domain, EXAMPLES[domain])
    result, said = example_of(name, PddlWorld(task), task.instruction)
    assert (result.gsr, result.status) == (1, "success")
    assert (DOMAINS / domain / f"prompts/{name}.txt").read_text(encoding="utf-8") == f"{said}\n"


@pytest.mark.parametrize("name", ["react", "reactree", "hiagent"])
def test_planners_are_told_what_each_skill_needs_and_what_holds_then(name: str) -> None:
    task = made_up("gripper", 1)
    model = ScriptedModel(
        {task.instruction: ["1 Subgoal: give up\nAction: failure" if name == "hiagent" else "Act: failure"]}
    )
    with PddlWorld(task) as world:
        Episode(task.instruction, world=world, model=model, planner=planner(name)).run()
    system, _, rest = model.requests[0].prompt.partition("\nSource domain:\n")
    assert "move from, pick up, drop, " in system
    assert system.endswith("""
- move from <room 1> to <room 2>: needs you are in <room 1>; then you are in <room 2>, you are not in <room 1>.
- pick up <ball> in <room> with <gripper>: needs you are in <room>, <ball> is in <room>, <gripper> is free; \
then <gripper> holds <ball>, <ball> is not in <room>, <gripper> is not free.
- drop <ball> in <room> from <gripper>: needs you are in <room>, <gripper> holds <ball>; \
then <ball> is in <room>, <gripper> is free, <gripper> does not hold <ball>.""")
    assert rest.startswith("Your task is to: Make this hold: ")  # the example


def test_of_what_is_no_plain_fact_the_rules_say_nothing(tmp_path: Path) -> None:
    (tmp_path / "domain.pddl").write_text("""
(define (domain light) (:requirements :strips :typing :equality :disjunctive-preconditions :conditional-effects)
  (:types lamp) (:predicates (lit ?l - lamp) (whole ?l - lamp) (near ?l - lamp))
  (:action swap :parameters (?a ?b - lamp)
    :precondition (and (not (= ?a ?b)) (or (lit ?a) (whole ?b)) (near ?a) (not (lit ?b)))
    :effect (and (lit ?b) (when (whole ?a) (not (lit ?a))))))
""")
    (tmp_path / "problem.pddl").write_text("""
(define (problem two) (:domain light) (:objects hall desk - lamp) (:init (near hall) (lit hall)) (:goal (lit desk)))
""")
    (task,) = tasks_of(
        PddlSettings(domain=str(tmp_path / "domain.pddl"), problem=str(tmp_path / "problem.pddl"))
    ).values()
    with PddlWorld(task) as world:
        assert world.household.rules.splitlines()[1:] == [
            "- swap <lamp 1> <lamp 2>: needs near <lamp 1>, not lit <lamp 2>; then lit <lamp 2>."
        ]
        assert world.execute("swap hall desk").result().outcome is Outcome.DONE
        assert world.score().result().gsr == 1


def test_progress_is_the_best_share_of_the_goal_that_held_at_a_time(ferry: tuple[Path, Path]) -> None:
    domain, problem = ferry
    (task,) = tasks_of(PddlSettings(domain=str(domain), problem=str(problem))).values()
    assert task.instruction == "Make this hold: aboard red, ferry-at east"
    with PddlWorld(task) as world:
        assert world.household.actions == ("sail", "board")
        progress = [world.score().result().ssr]
        for skill in ("sail west east", "sail east west", "sail west east", "board red east"):
            world.execute(skill).result()
            progress.append(world.score().result().ssr)
        assert progress == [0, 0.5, 0.5, 0.5, 1]
        assert world.execute("sail east west").result().text == (
            "You sail east west. Now: ferry-at west, not ferry-at east."
        )
        assert world.score().result().gsr == 1  # it was reached
        refused = world.execute("board red west").result()
        assert (refused.outcome, refused.text) == (
            Outcome.PRECONDITION,
            "You cannot board red west: not at red west, aboard red.",
        )
        assert world.reset().result() == world.observe().result()
        assert world.score().result().ssr == 0


def test_problems_follow_from_their_seeds() -> None:
    for make in MAKERS.values():
        assert make(7) == make(7)
        assert len({str(make(seed)) for seed in range(20)}) > 15
        assert all(set(make(seed).goal) - set(make(seed).start) for seed in range(200))


def test_several_worlds_at_a_time_do_not_get_in_each_others_way() -> None:
    tasks = [made_up(domain, 2) for domain in MAKERS]
    plans = [plan_of(task) for task in tasks]
    scores: dict[str, float] = {}

    def carry_out(task: PddlTask, plan: list[str]) -> None:
        with PddlWorld(task) as world:
            for skill in plan:
                world.execute(skill).result()
            scores[task.task_name] = world.score().result().gsr

    threads = [threading.Thread(target=carry_out, args=one) for one in zip(tasks, plans, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert scores == dict.fromkeys(MAKERS, 1.0)


def test_a_hundred_episodes_leave_no_thread_behind() -> None:
    task = made_up("blocksworld", 1)
    before = threading.active_count()
    for _ in range(100):
        with PddlWorld(task) as world:
            world.execute(world.available_skills().result()[0]).result()
    assert threading.active_count() <= before + 1  # the last one may still be about to end


@pytest.mark.parametrize(
    ("domain", "problem", "said"),
    [
        ("nothing.pddl", ACROSS, "nothing.pddl"),
        (FERRY.replace("(:types", "(types"), ACROSS, r"domain\.pddl:4: "),
        (FERRY.replace("aboard ?c)))", "aboard ?c ?c)))"), ACROSS, r"domain\.pddl:8: .*aboard"),
        (FERRY, ACROSS.replace("aboard red", "afloat red"), r"problem\.pddl:3: .*afloat"),
        (FERRY, ACROSS.replace("ferry-at west", "ferry-at south"), r"problem\.pddl:3: .*south"),
        (FERRY, ACROSS.replace("(aboard red) (ferry-at east)", ""), r"problem\.pddl: has no goal"),
        (FERRY, ACROSS.replace("(and (aboard", "(or (aboard"), r"problem\.pddl: its goal .*aboard.* plain facts"),
        (FERRY.replace("(:action sail", "(:functions (fuel))\n(:action sail"), ACROSS, "fuel has time or numbers"),
    ],
    ids=["no file", "no PDDL", "two values", "unknown fact", "unknown", "no goal", "a choice", "numbers"],
)
def test_a_file_that_cannot_be_used_is_named_with_the_reason(
    tmp_path: Path, domain: str, problem: str, said: str
) -> None:
    files = tmp_path / "domain.pddl", tmp_path / "problem.pddl"
    files[0].write_text(domain) if "\n" in domain else None
    files[1].write_text(problem)
    chosen = tmp_path / domain if "\n" not in domain else files[0]
    with pytest.raises(UserError, match=said):
        Place.from_settings(SPEC, PddlSettings(domain=str(chosen), problem=str(files[1])))


def test_an_action_may_be_called_as_a_predicate_and_an_object_be_excluded_twice(tmp_path: Path) -> None:
    domain, problem = tmp_path / "domain.pddl", tmp_path / "problem.pddl"
    domain.write_text(
        "(define (domain box) (:requirements :strips)"
        " (:predicates (open ?x) (closed ?x) (lid ?x) (hinge ?x))"
        " (:action open :parameters (?x) :precondition (and (closed ?x) (lid ?x) (hinge ?x))"
        " :effect (and (open ?x) (not (closed ?x)))))"
    )
    problem.write_text(
        "(define (problem p) (:domain box) (:objects box stone open)"
        " (:init (closed box) (lid box) (hinge box) (closed stone)) (:goal (open box)))"
    )
    (task,) = tasks_of(PddlSettings(domain=str(domain), problem=str(problem))).values()
    with PddlWorld(task) as world:
        assert world.available_skills().result() == ["open box"]
        assert world.execute("open stone").result().outcome is Outcome.UNKNOWN_SKILL
        assert world.execute("open box").result().text == "You open box. Now: open box, not closed box."
        assert world.score().result().gsr == 1


def test_words_that_cannot_be_used_are_named(ferry: tuple[Path, Path]) -> None:
    domain, problem = ferry
    for words, said in (
        ("facts: [at]", "facts is"),
        ("skills: {sail: 'sail {5}'}", "sail"),
        ("facts: {", "wording.yaml"),
    ):
        folder = domain.parent.parent / said.replace(" ", "_")
        folder.mkdir()
        (folder / "domain.pddl").write_text(FERRY)
        (folder / "wording.yaml").write_text(words)
        with pytest.raises(UserError, match=said):
            Place.from_settings(SPEC, PddlSettings(domain=str(folder / "domain.pddl"), problem=str(problem)))


def test_a_domain_that_is_not_there_is_named() -> None:
    with pytest.raises(UserError, match="domain 'blocks' is none of blocksworld"):
        read_settings(PddlSettings, {"domain": "blocks"}, where="test")
    with pytest.raises(UserError, match="there is no domain 'blocks'; did you mean 'blocksworld'"):
        read_settings(PddlSuiteSettings, {"domains": "gripper,blocks"}, where="test")


def test_the_suite_makes_its_tasks_on_demand() -> None:
    tasks = SUITE.tasks(read_settings(PddlSuiteSettings, {"problems": 100_000}, where="test"))
    assert len(tasks) == 400_000
    assert tasks[2_000_007].instruction == made_up("gripper", 7).instruction


def test_it_runs_from_the_command_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "reactree_ros.cli"]
    options = ["--llm", "expert", "--max-decisions", "3", "--world-option", "domain=tyreworld"]
    run = subprocess.run([*command, "run", "--world", "pddl", *options, "--json"], capture_output=True, text=True)
    assert run.returncode == 1, run.stderr
    assert json.loads(run.stdout)["instruction"].startswith("Make this hold: ")
    wrong = [*command, "run", "--world", "pddl", "--world-option", "domain=nowhere.pddl"]
    ended = subprocess.run(wrong, capture_output=True, text=True)
    assert (ended.returncode, "Traceback" in ended.stderr, len(ended.stderr.splitlines())) == (2, False, 1), (
        ended.stderr
    )
    suite = ["--suite", "pddl", "--suite-option", "problems=1", "--planner", "react", "--llm", "expert"]
    bench = [*command, "lab", "bench", *suite, "--max-decisions", "2", "--out", str(tmp_path / "bench")]
    ended = subprocess.run(bench, capture_output=True, text=True)
    assert ended.returncode in (0, 1), ended.stderr
    results = [json.loads(line) for line in (tmp_path / "bench/results.jsonl").read_text().splitlines()]
    assert [one["task_name"] for one in results] == list(MAKERS)


def test_a_planner_that_cannot_plan_here_says_so_before_the_run() -> None:
    task = made_up("gripper", 1)
    said = "has none; use another planner, e.g. react or reactree"
    with PddlWorld(task) as world, pytest.raises(UserError, match=said):
        Episode(task.instruction, world=world, model=ScriptedModel({}), planner=planner("tree_planner"))


IN_A_STEP = "def solution(agent, start_from=1):\n if start_from <= 1:\n  "


@pytest.mark.parametrize(("name", "head"), [("recode", ""), ("codeact", ""), ("adaplanner", IN_A_STEP)])
def test_a_plan_is_carried_out_as_code_too(name: str, head: str) -> None:
    task = made_up("gripper", 1)
    code = head + "; ".join(f"print(run({skill!r}))" for skill in plan_of(task))
    model = Writes([f"<execute>\n{code}\n</execute>", "<solution>done</solution>"])
    with PddlWorld(task) as world:
        result = Episode(task.instruction, world=world, model=model, planner=planner(name)).run()
    assert (result.gsr, result.status) == (1, "success")
    assert "{skills}" not in model.prompts[0]
    assert "- move from <room 1> to <room 2>: needs you are in <room 1>;" in model.prompts[0]


def test_a_fact_of_the_start_about_other_types_is_left_out_and_named(
    ferry: tuple[Path, Path], caplog: pytest.LogCaptureFixture
) -> None:
    domain, problem = ferry
    problem.write_text(ACROSS.replace("(ferry-at west)", "(ferry-at west) (ferry-at red)"))
    settings = PddlSettings(domain=str(domain), problem=str(problem))
    with PddlWorld(tasks_of(settings)[1]) as world:
        assert "ferry-at red" not in world.observe().result().text
    assert "(ferry-at red) is left out" in caplog.text
    problem.write_text(ACROSS.replace("(aboard red)", "(aboard west)"))
    with pytest.raises(UserError, match=r"aboard\(west\)"):
        tasks_of(settings)
