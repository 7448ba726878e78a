"""ReCode: placeholders that are written when they are reached, what their code sees, and how errors are corrected."""

from __future__ import annotations

from pathlib import Path

import pytest
from chatting import Chatting, cut, saying
from doubles import ScriptedWorld
from py_trees.common import Status
from recode_doubles import Bedroom, Coder, coder, lesson_of, own_part, root, run_of

from reactree_lab.planners.recode import sandbox
from reactree_lab.planners.recode.planner import PROMPTS
from reactree_ros.agent.decision import Decision
from reactree_ros.agent.household import Household
from reactree_ros.agent.kinds.act import Act
from reactree_ros.agent.kinds.expand import Expand
from reactree_ros.agent.kinds.think import Think, WriteCode
from reactree_ros.agent.prompt import prompt
from reactree_ros.agent.turns import About, Said, Told
from reactree_ros.background.pending import Pending
from reactree_ros.episode import Episode
from reactree_ros.errors import UserError
from reactree_ros.household.expert.model import ExpertModel
from reactree_ros.llm.engine import Generated
from reactree_ros.llm.port import LanguageModel, Reply
from reactree_ros.memory.experience import End, Experience
from reactree_ros.planners.spec import planner
from reactree_ros.tree.failure import FailureKind
from reactree_ros.tree.flows import SequenceFlow
from reactree_ros.tree.goal_node import GoalNode
from reactree_ros.tree.listener import Listener
from reactree_ros.tree.options import TreeOptions
from reactree_ros.world.port import Observation

pytest.importorskip("pydantic_monty")

# The blocks of ReCode's appendix A.4, as they are listed. In the PDF's text the lines after `examine` of
# `find_and_take` have slipped under its `if`; they stand as in the same code in appendix A.3. The blocks of
# `find_and_take_again` and `put_in_again`, which are "the same logic as before", are not listed.
PLAN = """
obj, target_location_ID, all_location_IDs = declare_init_vars(instruction, observation)

# Decompose task: find and place the first alarm clock
obj_ID, location_ID = find_and_take(obj, all_location_IDs)
put_in(obj_ID, target_location_ID)

# Decompose task: find and place the second alarm clock
all_location_IDs = update_all_location_IDs(location_ID, target_location_ID, all_location_IDs)
obj_ID = find_and_take_again(obj, all_location_IDs)
put_in_again(obj_ID, target_location_ID)
"""
DECLARE = """
target_location_ID = 'dresser 1'
obj = 'alarmclock'
all_location_IDs = ['bed 1', 'desk 1', 'drawer 5', 'drawer 4', 'drawer 3',
    'drawer 2', 'drawer 1', 'dresser 1', 'garbagecan 1', 'laundryhamper 1', 'shelf 1']
"""
FIND = r"""
for location_ID in all_location_IDs:
    obs = run(f'go to {location_ID}')
    if 'Nothing happens.' in obs:
        obs = run(f'examine {location_ID}')
    location_closed = 'closed' in obs
    if location_closed:
        obs = run(f'open {location_ID}')
    if f" {obj} " in obs:
        obj_ID = re.search(rf'\b{obj} \d+\b', obs).group()
        run(f'take {obj_ID} from {location_ID}')
        break
"""
PUT = """
obs = run(f'go to {target_location_ID}')
if 'Nothing happens.' in obs:
    obs = run(f'examine {target_location_ID}')
location_closed = 'closed' in obs
if location_closed:
    obs = run(f'open {target_location_ID}')
run(f'move {obj_ID} to {target_location_ID}')
"""
UPDATE = """
# location_ID is 'desk 1' from the previous step.
all_location_IDs = all_location_IDs[all_location_IDs.index(location_ID):]
if target_location_ID in all_location_IDs:
    all_location_IDs.remove(target_location_ID)
"""
CASE_STUDY = {
    "solve": PLAN,
    "declare_init_vars": DECLARE,
    "find_and_take": FIND,
    "put_in": PUT,
    "update_all_location_IDs": UPDATE,
    "find_and_take_again": FIND,
    "put_in_again": PUT,
}
GO = "go to kitchen 1"


class Diary(Listener):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[Decision | str] = []

    def decided(self, node: GoalNode, decision: Decision, reply: Reply) -> None:
        self.told.append(decision)

    def refused(self, node: GoalNode, said: Said, reason: str) -> None:
        self.told.append(f"{said.text}: {reason}")

    def observed(self, node: GoalNode, observation: Observation) -> None:
        self.told.append(observation.text)


def grown(run: Episode) -> list[GoalNode]:
    """What has grown under the root."""
    return [child for child in run.root.children if isinstance(child, GoalNode)]


def test_the_case_study_ends_with_both_clocks_in_the_dresser() -> None:
    world = Bedroom()
    run = run_of(CASE_STUDY, world, options=TreeOptions(as_recorded=True))
    result = run.run()
    assert (result.status, result.gsr) == ("success", 1.0)
    assert world.inside["dresser 1"] == ["alarmclock 3", "alarmclock 2"]
    assert (result.decisions, result.steps, result.agent_nodes, result.max_depth) == (7, len(world.executed), 7, 3)
    # Step 3 and steps 6 and 7 of the listing: the second search begins where the first one ended.
    assert world.executed == [
        "go to bed 1",
        "go to desk 1",
        "take alarmclock 3 from desk 1",
        "go to dresser 1",
        "move alarmclock 3 to dresser 1",
        "go to desk 1",
        "take alarmclock 2 from desk 1",
        "go to dresser 1",
        "move alarmclock 2 to dresser 1",
    ]
    assert [node.name for node in grown(run)] == [
        "declare_init_vars(instruction, observation)",
        "find_and_take(obj, all_location_IDs)",
        "put_in(obj_ID, target_location_ID)",
        "update_all_location_IDs(location_ID, target_location_ID, all_location_IDs)",
        "find_and_take_again(obj, all_location_IDs)",
        "put_in_again(obj_ID, target_location_ID)",
    ]
    assert {node.status for node in grown(run)} == {Status.SUCCESS}
    assert own_part(coder(run).requests[5].prompt) == (
        "Function: obj_ID = find_and_take_again(obj, all_location_IDs)\n"
        "Variables:\n"
        "- obj (str): alarmclock\n"
        "- all_location_IDs (list[str]): ['desk 1', 'drawer 5', 'drawer 4', 'drawer 3', 'drawer 2', 'drawer 1', "
        "'garbagecan 1', 'laundryhamper 1', 'shelf 1']\n"
        "Answer:\n"
    )


def test_every_prompt_begins_alike_and_the_root_sees_instruction_and_observation() -> None:
    run = run_of({"solve": "part()", "part": "x = 1"}, ScriptedWorld())
    run.run()
    first, second = (request.prompt for request in coder(run).requests)
    assert first[: -len(own_part(first))] == second[: -len(own_part(second))]
    assert "go to X" in first
    assert own_part(first) == (
        "Function: solve(instruction, observation)\nVariables:\n- instruction (str): do it\n"
        "- observation (str): You are in the house, and there are 1 rooms: kitchen (1).\nAnswer:\n"
    )
    assert own_part(second) == "Function: part()\nVariables:\n(none)\nAnswer:\n"


def test_a_placeholder_sees_what_its_call_names_and_nothing_else() -> None:
    run = run_of(
        {
            "solve": "secret, n, places = 'x', 2.5, ['a', 'b']\npart(n, places[0], 'milk', word='juice')",
            "part": "y = 1",
        },
        ScriptedWorld(),
    )
    run.run()
    assert coder(run).prompts("part") == [
        "Function: part(n, arg_1, 'milk', word='juice')\nVariables:\n- n (float): 2.5\n- arg_1 (str): a\n"
        "- word (str): juice\nAnswer:\n"
    ]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("'a'", "(str): a"),
        ("3", "(int): 3"),
        ("None", "(NoneType): None"),
        ("True", "(bool): True"),
        ("(1, 2)", "(tuple[int]): (1, 2)"),
        ("[1, 'a']", "(list): [1, 'a']"),
        ("{'a': 1}", "(dict): {'a': 1}"),
        ("'ab' * 5000", "(str): " + "ab" * 2000 + " ..."),
    ],
)
def test_values_are_shown_with_their_types_and_cut(value: str, shown: str) -> None:
    run = run_of({"solve": f"x = {value}\npart(x)", "part": "y = 1"}, ScriptedWorld())
    run.run()
    assert coder(run).prompts("part")[0].splitlines()[2] == f"- x {shown}"


@pytest.mark.parametrize(
    "part",
    [
        "a = 1\nb = 'two'",
        "return 1, 'two'",
        "if True:\n    return 1, 'two'\na = 7",
        "for n in (1, 2):\n    if n == 1:\n        return n, 'two'\nraise ValueError()",
    ],
)
def test_what_a_placeholder_sets_or_returns_is_what_its_call_is_assigned(part: str) -> None:
    run = run_of({"solve": "a, b = part()\nrun(f'go to {a} {b}')", "part": part}, ScriptedWorld(skills=["go to 1 two"]))
    assert run.run().steps == 1
    assert run.context.world.inner.executed == ["go to 1 two"]  # type: ignore[attr-defined]


def test_a_placeholder_that_does_not_set_what_it_has_to_is_corrected() -> None:
    run = run_of({"solve": "a = part()", "part": ["b = 1", "a = b"]}, ScriptedWorld())
    assert run.run().status == "success"
    assert coder(run).prompts("part")[1].splitlines()[7:] == [
        "Error:",
        "NameError: the code ended, but it did not set a",
        "The code did nothing in the world before that. The variables are now:",
        "- b (int): 1",
        "Write all of the code again.",
        "Answer:",
    ]


def test_a_correction_gets_the_traceback_and_nothing_runs_twice() -> None:
    world = ScriptedWorld()
    run = run_of({"solve": [f"x = 1\nrun('{GO}')\nprint('here')\ny = x / 0\nrun('open fridge 1')", "z = x"]}, world)
    assert run.run().status == "success"
    assert world.executed == [GO]
    first, second = (request.prompt for request in coder(run).requests)
    assert second.startswith(first)
    assert second[len(first) :] == (
        "<execute>\nx = 1\nrun('go to kitchen 1')\nprint('here')\ny = x / 0\nrun('open fridge 1')\n</execute>\n"
        'Error:\nTraceback (most recent call last):\n  File "<code>", line 4, in <module>\n'
        "    y = x / 0\n        ~~~~~\n"
        "ZeroDivisionError: division by zero\nPrinted:\nhere\n\n"
        "What the code did before that is done and stays done. The variables are now:\n"
        "- instruction (str): do it\n"
        "- observation (str): You are in the house, and there are 1 rooms: kitchen (1).\n"
        "- x (int): 1\nWrite only the code for what is left to do.\nAnswer:\n"
    )
    said, *_ = [turn for turn in coder(run).requests[1].turns if isinstance(turn, Said)]
    assert said.text.startswith("<execute>\nx = 1")


ALL, REST = "Write all of the code again.", "Write only the code for what is left to do."


@pytest.mark.parametrize(
    ("code", "wanted"),
    [
        ("x = 1\nx / 0", ALL),
        ("run('fly')\n1 / 0", ALL),  # refused: nothing was done
        (f"run('{GO}')\n1 / 0", REST),
        ("run('open fridge 1')\n1 / 0", REST),  # tried, but the world did not let it
        ("part()\n1 / 0", REST),
        (f"if run('{GO}'):\n    1 / 0", REST),
    ],
)
def test_all_of_the_code_is_written_again_until_something_was_done_in_the_world(code: str, wanted: str) -> None:
    run = run_of({"solve": [code, "x = 1"], "part": "y = 1"}, ScriptedWorld(refused=["open fridge 1"]))
    assert run.run().status == "success"
    _, correction = coder(run).prompts()
    assert correction.endswith(f"{wanted}\nAnswer:\n")


def test_once_something_was_done_a_further_error_without_any_act_asks_for_the_rest_as_well() -> None:
    run = run_of({"solve": [f"run('{GO}')\n1 / 0", "y = 1\ny / 0", "x = 1"]}, ScriptedWorld())
    assert run.run().status == "success"
    assert coder(run).prompts()[2].count(REST) == 2


def test_what_a_part_did_is_its_own_when_it_writes_all_of_its_code_again() -> None:
    run = run_of({"solve": f"run('{GO}')\npart()", "part": ["1 / 0", "y = 1"]}, ScriptedWorld())
    assert run.run().status == "success"
    assert ALL in coder(run).prompts("part")[1]


def test_the_variables_of_code_that_is_written_again_stay() -> None:
    run = run_of({"solve": ["x = [1]\nx / 0", "x.append(2)\npart(x)"], "part": "y = 1"}, ScriptedWorld())
    assert run.run().status == "success"
    assert "- x (list[int]): [1]\n" in coder(run).prompts()[1]
    assert "- x (list[int]): [1, 2]\n" in coder(run).prompts("part")[0]


def test_code_that_cannot_be_read_runs_not_at_all() -> None:
    world = ScriptedWorld()
    run = run_of({"solve": [f"run('{GO}')\nx = = 1", "x = 1"]}, world)
    assert (run.run().status, world.executed) == ("success", [])
    assert "SyntaxError: invalid syntax (line 2): x = = 1\nNothing of the code ran." in coder(run).prompts()[1]


@pytest.mark.parametrize("corrections", [0, 1, 3])
def test_corrections_are_bounded(corrections: int) -> None:
    run = run_of({"solve": "1 / 0"}, ScriptedWorld(), settings={"corrections": corrections})
    result = run.run()
    assert (result.end, result.decisions) == ("failure", corrections + 1)
    assert run.root.feedback_message == "ZeroDivisionError: division by zero"
    assert root(run).failure is not None
    assert root(run).failure.kind is FailureKind.GAVE_UP


def test_a_part_that_cannot_be_done_is_an_error_where_it_is_called() -> None:
    run = run_of(
        {"solve": ["part()\nrun('open fridge 1')", f"run('{GO}')"], "part": "raise ValueError('no milk')"},
        ScriptedWorld(),
        settings={"corrections": 1},
    )
    assert (run.run().status, run.context.world.inner.executed) == ("success", [GO])  # type: ignore[attr-defined]
    assert "RuntimeError: part could not be done: ValueError: no milk" in coder(run).prompts()[1]
    assert [child.status for child in grown(run)] == [Status.FAILURE]


def test_placeholders_deeper_than_the_limit_are_refused() -> None:
    run = run_of({"solve": "a()", "a": ["b()", "x = 1"], "b": "c()"}, ScriptedWorld(), settings={"depth": 2})
    result = run.run()
    assert (result.status, result.max_depth, coder(run).prompts("b")) == ("success", 3, [])
    assert (
        "RecursionError: 'b' has no code, and functions without code may be called in one another only 2 deep"
        in (coder(run).prompts("a")[1])
    )


def test_endless_recursion_ends_at_ten() -> None:
    run = run_of({"solve": "solve(instruction, observation)"}, ScriptedWorld(), settings={"corrections": 0})
    result = run.run()
    assert (result.end, result.agent_nodes, result.max_depth) == ("failure", 10, 19)


@pytest.mark.parametrize("name", ["recode", "codeact", "adaplanner"])
def test_a_household_that_tells_nothing_of_its_skills_is_refused_before_the_run(name: str) -> None:
    class Nowhere(ScriptedWorld):
        household = Household(name="nowhere", actions=("go to",))

    said = rf"{name} has no recode_skills\.txt for the household nowhere"
    with Nowhere() as world, pytest.raises(UserError, match=said):
        Episode("do it", world=world, model=Coder({}), planner=planner(name))


@pytest.mark.parametrize(
    ("code", "calls"),
    [
        ("for n in [1, 2]:\n    part(n)", ["part(n)", "part(n)"]),
        ("for n in [1, 2, 3]:\n    if n == 2:\n        continue\n    part(n)", ["part(n)", "part(n)"]),
        ("for n in [1, 2]:\n    part(n)\n    break\nelse:\n    part(3)", ["part(n)"]),
        ("n = 0\nwhile n < 2:\n    n += 1\n    part(n)\nelse:\n    part(9)", ["part(n)", "part(n)", "part(9)"]),
        ("if run('go to kitchen 1'):\n    part(1)\nelse:\n    part(2)", ["part(1)"]),
        ("x = part(1) + part(2)", ["arg_1 = part(1)", "arg_2 = part(2)"]),
        ("part(part(1))", ["arg_1 = part(1)", "part(arg_1)"]),
        ("if part(1):\n    part(2)", ["arg_1 = part(1)", "part(2)"]),
        ("x = [0]\nx[0] = part(1)", ["arg_1 = part(1)"]),
        ("x = [f(1) for f in (str, lambda n: n)]\ny = (lambda g: g(1))(str)", []),
    ],
)
def test_placeholders_are_reached_wherever_it_is_their_turn(code: str, calls: list[str]) -> None:
    run = run_of({"solve": code, "part": "return 1"}, ScriptedWorld())
    assert run.run().status == "success", coder(run).prompts()[-1]
    assert [prompt.partition("\n")[0] for prompt in coder(run).prompts("part")] == [f"Function: {one}" for one in calls]


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("x = [part(n) for n in (1, 2)]", "'part' has no code yet; give its call a statement of its own"),
        ("x = True or part(1)", "'part' has no code yet; give its call a statement of its own"),
        (
            "try:\n    part()\nexcept Exception:\n    x = 1",
            "the function 'part', which has no code yet, is called inside",
        ),
        ("part(*[1, 2])", "write the arguments of 'part' one by one"),
        ("part(missing)", "NameError: name 'missing' is not defined"),
    ],
)
def test_a_placeholder_where_it_cannot_be_is_an_error(code: str, message: str) -> None:
    run = run_of({"solve": [code, "x = 1"], "part": "return 1"}, ScriptedWorld())
    assert run.run().status == "success"
    assert message in coder(run).prompts()[1]
    assert coder(run).prompts("part") == []


@pytest.mark.parametrize(
    ("code", "options", "end"),
    [
        (f"while True:\n    run('{GO}')", TreeOptions(max_steps=5), "out_of_steps"),
        ("while True:\n    run('fly')", TreeOptions(max_steps=5), "out_of_steps"),
        (
            f"while True:\n try:\n  run('{GO}')\n except BaseException:\n  pass",
            TreeOptions(max_steps=5),
            "out_of_steps",
        ),
        ("while True:\n    part()", TreeOptions(max_decisions=5), "out_of_decisions"),
        (f"part()\nwhile True:\n    run('{GO}')", TreeOptions(max_steps=5), "out_of_steps"),
    ],
)
def test_the_budget_ends_what_would_not_end(code: str, options: TreeOptions, end: str) -> None:
    run = run_of({"solve": code, "part": "x = 1"}, ScriptedWorld(), options=options)
    result = run.run()
    assert (result.end, max(result.steps, result.decisions)) == (end, 5)
    assert run.root.feedback_message in ("Max steps", "Max decisions")


def test_a_budget_that_ends_in_a_part_ends_the_whole() -> None:
    run = run_of(
        {"solve": "part()", "part": f"while True:\n    run('{GO}')"}, ScriptedWorld(), options=TreeOptions(max_steps=3)
    )
    assert (run.run().end, run.root.feedback_message, coder(run).requests[2:]) == ("out_of_steps", "Max steps", [])


def test_a_skill_that_is_not_available_is_refused_and_the_code_is_told() -> None:
    diary, world = Diary(), ScriptedWorld()
    run = run_of({"solve": "seen = run('fly')\npart(seen)", "part": "x = 1"}, world, listener=diary)
    result = run.run()
    reason = "'fly' is not among the skills that are available now."
    assert (result.status, result.steps, world.executed) == ("success", 1, [])
    assert f"Act: fly: {reason}" in diary.told
    assert f"- seen (str): {reason}" in coder(run).prompts("part")[0]


def test_a_refusal_of_the_world_is_what_run_returns() -> None:
    world = ScriptedWorld(refused=["open fridge 1"])
    run = run_of({"solve": "seen = run('open fridge 1')\npart(seen)", "part": "x = 1"}, world)
    run.run()
    assert "- seen (str): You cannot open fridge 1.\n" in coder(run).prompts("part")[0]


def test_listeners_are_told_of_blocks_and_skills() -> None:
    diary = Diary()
    thought = "<think>I go.</think>\n<execute>\n"
    run = run_of({"solve": f"{thought}x = part(1)\nrun('{GO}')", "part": "return 1"}, ScriptedWorld(), listener=diary)
    run.run()
    assert diary.told == [
        Think("I go."),
        Expand(SequenceFlow(), ("x = part(1)",)),
        Think("return 1"),
        Act(GO),
        f"You {GO}.",
    ]


def test_what_a_node_did_is_its_text_and_what_it_said_is_its_lesson() -> None:
    run = run_of({"solve": f"print('x')\nrun('{GO}')"}, ScriptedWorld())
    run.run()
    node = root(run)
    assert node.text.endswith(f"</execute>\nx\nrun: {GO}\nYou {GO}.\n")
    assert lesson_of(node).startswith("Function: solve(instruction, observation)\n")
    assert lesson_of(node).endswith(f"run('{GO}')\n</execute>")
    assert node.end is End.SUCCESS


def experience(*turns: Told | Said) -> Experience:
    """What episodic memory finds."""
    return Experience(subgoal="x", turns=turns, end=End.SUCCESS, task_id="1", task_name="test", decision=1, depth=1)


def test_examples_of_a_memory_take_the_place_of_the_fixed_ones_where_they_are_code() -> None:
    code = "<execute>\nx = 1\n</execute>"
    own = experience(Told("Function: old()\nVariables:\n(none)\nAnswer:"), Said(code, WriteCode(code)))
    other = experience(Told("Your task is to: x"), Said("Act: done", Act("done")))
    for found, there in (((own, other), own.text), ((other,), "find_and_pick_up")):
        run = run_of({"solve": "x = 1"}, ScriptedWorld(), examples=lambda _, found=found: Pending.ready(found))
        run.run()
        asked = coder(run).requests[0].prompt
        assert there.rstrip("\n") in asked
        assert "Your task is to" not in asked


class Slow(LanguageModel):
    """Writes the first block, then never answers."""

    def __init__(self) -> None:
        self.cancelled = 0

    def decide(self, request: object) -> Pending[Reply]:
        if self.cancelled == 0 and not hasattr(self, "asked"):
            self.asked = True
            return Pending.ready(Reply("<execute>\npart()"))

        def count() -> None:
            self.cancelled += 1

        return Pending(on_cancel=count)


def until(run: Episode, there: object) -> None:
    """Tick until something is there; at most as often as it takes 20 s."""
    for _ in range(200):
        run.tick()
        if there():  # type: ignore[operator]
            return
        run.wait()
    raise AssertionError("it did not come")


def test_an_interruption_in_a_part_cancels_its_request_and_ends_the_sandbox() -> None:
    model = Slow()
    run = run_of({}, ScriptedWorld(), model=model)
    until(run, lambda: len(run.context.nodes) == 2 and run.context.nodes[1].text)
    run.tick()
    box = root(run).sandbox
    run.interrupt()
    assert (model.cancelled, run.result().end) == (1, "interrupted")
    assert gone(box)


def test_an_interruption_ends_code_that_computes() -> None:
    run = run_of({"solve": "while True:\n    pass"}, ScriptedWorld())
    root(run)._shared.limits = sandbox.Limits(seconds=60.0)
    until(run, lambda: root(run).lesson is None and root(run).text.endswith("</execute>\n"))
    until(run, lambda: root(run).sandbox._busy)
    box = root(run).sandbox
    run.interrupt()
    assert gone(box)


def gone(box: sandbox.Sandbox) -> bool:
    """Whether the sandbox's process has come to its end."""
    box.close().result(timeout=20)
    assert box._pid is not None
    return not Path(f"/proc/{box._pid}").exists()


def test_the_expert_says_that_it_writes_no_code() -> None:
    result = run_of({}, ScriptedWorld(), model=ExpertModel()).run()
    assert (result.end, result.message) == (
        "model_gone",
        "no reply: the expert decides, it does not write code; name another --llm",
    )


RUN = f"run('{GO}')"


@pytest.mark.parametrize(
    "reply",
    [
        f"<think>go</think><execute>{RUN}",
        f"<think>go\n<execute>\n  {RUN}\n</execute> and more",
        f"<execute>\n```python\n{RUN}\n```\n</execute>",
        f"Sure:\n```python\n{RUN}\n```\n",
        f"\n\nSure! Here is the code:\n\n```Python3\n{RUN}\n```\n\nIt goes to the kitchen.",
        f"```\n{RUN}\n```",
        f"~~~ python\n{RUN}\n~~~",
        f"<execute>\n~~~\n{RUN}\n~~~\n</execute>",
        f"<execute>\n```python\n{RUN}\n```\nThat is all.\n</execute>",
        f"<think>go</think>\r\n<execute>\r\nif True:\r\n    {RUN}\r\n</execute>\r\n",
        f"```python\r\n{RUN}\r\n```\r\n",
        f"<think>I could write <execute>run('fly')</execute>, but no.</think>\n<execute>\n{RUN}\n</execute>",
        f"I think of <execute>run('fly')</execute> first.\n</think>\n<execute>\n{RUN}\n</execute>",
        f"<think>\n```python\nrun('fly')\n```\n</think>\n```python\n{RUN}\n```",
        f"<execute>\n{RUN}\n</execute>\n\nFunction: other()\nAnswer:\n<execute>\nrun('fly')\n</execute>",
        f"<execute>\n{RUN}\n</execute>\nError:\nnone\nAnswer:\n<execute>\nrun('fly')\n</execute>",
    ],
)
def test_code_is_found_in_what_models_say(reply: str) -> None:
    world = ScriptedWorld()
    assert run_of({}, world, model=Chatting(saying(reply))).run().status == "success"
    assert world.executed == [GO]


def refusal_of(run: Episode) -> str:
    """What the model was told after its first block."""
    return next(turn.text for turn in run.root.turns if isinstance(turn, Told) and turn.about is About.REFUSAL)


@pytest.mark.parametrize(
    "reply",
    [
        f"<execute>\nrun('fly')\n</execute>\nNo, better:\n<execute>\n{RUN}\n</execute>",
        f"```python\nrun('fly')\n```\nor\n```python\n{RUN}\n```",
        f"<execute>\n```python\nrun('fly')\n```\nor\n```python\n{RUN}\n```\n</execute>",
    ],
)
def test_of_two_blocks_neither_is_run(reply: str) -> None:
    world = ScriptedWorld()
    run = run_of({}, world, model=Chatting(saying(reply, "<execute>\nx = 1\n</execute>")))
    result = run.run()
    assert (result.status, result.decisions, world.executed) == ("success", 2, [])
    assert refusal_of(run) == (
        "Error:\nSyntaxError: there are 2 blocks of code; write one, with all of it\n"
        "Nothing of the code ran. Write it again.\nAnswer:"
    )


@pytest.mark.parametrize(
    "reply",
    [
        f"<execute>\n{RUN}\nx = 1",  # whole lines, and yet not all of them
        f"<think>go</think>\n<execute>\n{RUN}\nrun('open fri",
        f"```python\n{RUN}\n",
        "<think>I could write <execute>run('fly')</execute>, but",
        "<think>I go to",
        "",
    ],
)
def test_code_that_was_cut_is_never_run_and_asked_for_again(reply: str) -> None:
    world = ScriptedWorld()
    run = run_of({}, world, model=Chatting(saying(cut(reply), "<execute>\nx = 1\n</execute>")))
    result = run.run()
    assert (result.status, result.decisions, world.executed) == ("success", 2, [])
    assert refusal_of(run).startswith("Error:\nRuntimeError: the answer was cut at its token limit; write less")


def test_what_is_said_after_the_code_may_be_cut() -> None:
    world = ScriptedWorld()
    model = Chatting(saying(cut(f"<execute>\n{RUN}\n</execute>\nThis code goes to the")))
    assert run_of({}, world, model=model).run().status == "success"
    assert world.executed == [GO]


def test_reasoning_that_came_apart_from_the_code_is_its_thought_and_in_no_prompt() -> None:
    diary = Diary()
    replies = [Generated(f"<execute>\n{code}\n</execute>", "stop", reasoning="I go.") for code in ("1 / 0", RUN)]
    model = Chatting(saying(*replies))
    assert run_of({}, ScriptedWorld(), model=model, listener=diary).run().status == "success"
    assert diary.told[0] == Think("I go.")
    assert "I go." not in model.requests[1].prompt


def test_examples_are_left_out_of_a_chat_whose_prompt_is_too_long_then_the_context_is_full() -> None:
    code = "<execute>\nx = 1\n</execute>"
    words = len(prompt(PROMPTS, "system.txt").split()) + 300
    assert run_of({}, ScriptedWorld(), model=Chatting(saying(code), room=words)).run().status == "success"
    assert run_of({}, ScriptedWorld(), model=Chatting(saying(code), room=10)).run().end == "context_full"
