"""AdaPlanner: a plan as code with assertions, which is written again where one fails."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from contextlib import suppress

import pytest
from doubles import Heard, ScriptedWorld
from hypothesis import given
from hypothesis import strategies as st
from py_trees.common import Status
from recode_doubles import Bedroom, Writes, own_text

from reactree_lab.planners.adaplanner import MAX_QUESTION, PlanStep, StepNode, read_solution
from reactree_lab.planners.recode.code_block import BlockError
from reactree_ros.agent.turns import Told
from reactree_ros.background.pending import Pending
from reactree_ros.episode import Episode, EpisodeResult
from reactree_ros.llm.port import DecisionRequest, LanguageModel, PromptTooLong, Reply
from reactree_ros.planners.spec import planner
from reactree_ros.tree.options import TreeOptions
from reactree_ros.world.port import Observation, Score

pytest.importorskip("pydantic_monty")

GO = "agent.run('go to kitchen 1')"


def written(code: str) -> str:
    return f"<execute>\n{code}\n</execute>"


def plan(*steps: str, start: int = 1) -> str:
    """A plan whose steps are these statements."""
    lines = [f"def solution(agent, start_from={start}):"]
    for number, step in enumerate(steps, 1):
        lines += [f"    if start_from <= {number}:", *(f"        {line}" for line in step.splitlines())]
    return written("\n".join(lines))


FINE = plan(GO)
STEP = f"if start_from <= 1:\n        {GO}"


def episode(
    *texts: str, world: ScriptedWorld | Bedroom | None = None, settings: str = "", **options: int
) -> tuple[EpisodeResult, Episode, Writes]:
    """Run it; the model says these texts, the last one for ever."""
    model = Writes(texts)
    with world or ScriptedWorld() as here:
        chosen = planner(f"adaplanner{settings}")
        run = Episode("do it", world=here, model=model, planner=chosen, options=TreeOptions(**options))
        return run.run(), run, model


def steps_of(run: Episode) -> list[StepNode]:
    return [child for child in run.root.children if isinstance(child, StepNode)]


def feedback(run: Episode) -> str:
    """What was said of the last plan that failed."""
    return own_text(run).rpartition("Feedback:\n")[2].partition("\n<execute>")[0]


# ---------------------------------------------------------------------- the paper's example


class Kitchen(Bedroom):
    """The text world of the paper's example (its figure 2), in ALFWorld's words: a clean lettuce for the table."""

    PLACES = ("countertop 1", "countertop 2", "diningtable 1", "sinkbasin 1", "toilet 1")

    def __init__(self) -> None:
        super().__init__()
        self.inside = {place: [] for place in self.PLACES}
        self.inside["countertop 2"] = ["knife 1", "lettuce 2", "saltshaker 2", "soapbottle 1"]
        self.clean: set[str] = set()

    def execute(self, skill: str) -> Pending[Observation]:
        if skill != "inventory":
            return super().execute(skill)
        self.executed.append(skill)
        return Pending.ready(Observation(f"You are carrying: {self.held or 'nothing'}."))

    def score(self) -> Pending[Score | None]:
        there = float("lettuce 2" in self.inside["diningtable 1"] and "lettuce 2" in self.clean)
        return Pending.ready(Score(there, there))

    def _do(self, verb: str, rest: str) -> str:
        if verb != "clean":
            return super()._do(verb, rest)
        thing, _, place = rest.partition(" with ")
        if thing != self.held or place != self.at or not place.startswith("sinkbasin"):
            return ""
        self.clean.add(thing)
        return f"You clean the {thing} using the {place}."


LIST = """
print('[Step 1] get a list of places where the lettuce is likely to be')
places = re.findall(r'a ([a-z]+ [0-9]+)', observation)
answer = ask(f'Sort these places, the likeliest one for a lettuce first: {places}. Answer with names and commas.')
to_check = answer.split(', ')
assert to_check, f'Error in [Step 1]: there is nothing to check. {answer}'
"""
SEARCH = """
print('[Step 2] go to each place until there is a lettuce')
for place in to_check:
    seen = agent.run(f'go to {place}')
    if 'lettuce' in seen:
        break
assert 'lettuce' in seen, f'Error in [Step 2]: there is no lettuce at {to_check}. {seen}'
"""
IDENTIFY = "lettuce = 'lettuce ' + ask(f'{seen} Which number has the lettuce? Answer with the number alone.')\n"
CLEAN_AT_ONCE = f"""
print('[Step 3] identify the lettuce and clean it')
{IDENTIFY}
agent.run(f'take {{lettuce}} from {{place}}')
cleaned = agent.run(f'clean {{lettuce}} with sinkbasin 1')
assert 'You clean' in cleaned, f'Error in [Step 3]: I cannot clean {{lettuce}} using the sinkbasin 1. {{cleaned}}'
"""
TAKE = f"""
print('[Step 3] identify the lettuce and take it')
{IDENTIFY}
agent.run(f'take {{lettuce}} from {{place}}')
held = agent.run('inventory')
assert lettuce in held, f'Error in [Step 3]: I cannot take {{lettuce}} from {{place}}. {{held}}'
"""
CLEAN = """
print('[Step 4] go to a sinkbasin and clean the lettuce')
agent.run('go to sinkbasin 1')
cleaned = agent.run(f'clean {lettuce} with sinkbasin 1')
assert 'You clean' in cleaned, f'Error in [Step 4]: I cannot clean {lettuce} using the sinkbasin 1. {cleaned}'
"""
PUT = """
print('[Step 5] go to a diningtable and put the lettuce on it')
agent.run('go to diningtable 1')
moved = agent.run(f'move {lettuce} to diningtable 1')
assert 'You move' in moved, f'Error in [Step 5]: I cannot put {lettuce} on the diningtable 1. {moved}'
"""


def test_the_papers_example_ends_with_the_clean_lettuce_on_the_table() -> None:
    world = Kitchen()
    model = Writes(
        [
            plan(LIST, SEARCH, CLEAN_AT_ONCE, PUT.replace("Step 5", "Step 4")),
            "countertop 1, countertop 2, toilet 1",
            "2",
            plan(LIST, SEARCH, TAKE, CLEAN, PUT, start=3),
            "2",
        ]
    )
    with world:
        task = "put a clean lettuce in diningtable"
        options = TreeOptions(as_recorded=True)
        run = Episode(task, world=world, model=model, planner=planner("adaplanner"), options=options)
        result = run.run()
    assert (result.status, result.gsr, result.decisions) == ("success", 1.0, 5)
    assert world.executed == [
        "go to countertop 1",
        "go to countertop 2",
        "take lettuce 2 from countertop 2",
        "clean lettuce 2 with sinkbasin 1",  # which the robot is not at: the feedback that is out of the plan
        "take lettuce 2 from countertop 2",  # step 3 again, with the place and what was seen there as they were
        "inventory",
        "go to sinkbasin 1",
        "clean lettuce 2 with sinkbasin 1",
        "go to diningtable 1",
        "move lettuce 2 to diningtable 1",
    ]
    assert [(step.name, step.status) for step in steps_of(run)] == [
        ("[Step 1] get a list of places where the lettuce is likely to be", Status.SUCCESS),
        ("[Step 2] go to each place until there is a lettuce", Status.SUCCESS),
        ("[Step 3] identify the lettuce and clean it", Status.FAILURE),
        ("[Step 3] identify the lettuce and take it", Status.SUCCESS),
        ("[Step 4] go to a sinkbasin and clean the lettuce", Status.SUCCESS),
        ("[Step 5] go to a diningtable and put the lettuce on it", Status.SUCCESS),
    ]
    told = feedback(run)
    assert "AssertionError: Error in [Step 3]: I cannot clean lettuce 2 using the sinkbasin 1. Nothing happens." in told
    assert "run: clean lettuce 2 with sinkbasin 1\nNothing happens.\n" in told
    assert "run: go to countertop 1" not in told  # three skills are told
    assert "- place (str): countertop 2\n" in told
    answered = model.prompts[2]
    assert answered.startswith("Answer the question.")
    assert answered.endswith("Which number has the lettuce? Answer with the number alone.\nAnswer:\n")
    assert "put a clean lettuce" not in answered


# ---------------------------------------------------------------------- how a plan runs


def test_a_plan_that_comes_to_its_end_is_one_decision() -> None:
    result, _, model = episode(plan(f"seen = {GO}\nassert 'kitchen' in seen", f"assert seen == {GO}"))
    assert (result.status, result.decisions, result.steps, result.max_depth) == ("success", 1, 2, 3)
    assert len(model.prompts) == 1
    assert "# Task: do it\nobservation:\nYou are in the house" in model.prompts[0]
    assert "\n  go to X: X is a room" in model.prompts[0]


def test_listeners_are_told_the_plan_its_steps_and_its_skills() -> None:
    heard = Heard()
    model = Writes([plan(f"'[Step 1] look, and see'\n{GO}", "x = 1", "print('[Step 3]')")])
    with ScriptedWorld() as world:
        Episode("do it", world=world, model=model, planner=planner("adaplanner"), listener=heard).run()
    assert heard.heard[0].startswith("Think: def solution(agent, start_from=1):")
    assert heard.heard[1:] == [
        "Expand:\n- control flow: sequence\n- subgoals: [Step 1] look, and see; [Step 2]; [Step 3];",
        "Act: go to kitchen 1",
    ]


def test_variables_stay_from_one_version_to_the_next_and_finished_steps_are_not_run_again() -> None:
    first = plan(f"seen = {GO}\nplace = 'fridge 1'", "assert place == 'table 1', 'wrong place'")
    second = plan(f"seen = {GO}\nplace = 'fridge 1'", "agent.run(f'open {place}')", start=2)
    result, run, _ = episode(first, second)
    assert (result.status, result.decisions, result.steps) == ("success", 2, 2)
    assert "AssertionError: wrong place" in feedback(run)
    assert "- place (str): fridge 1\n" in feedback(run)


def test_what_a_failed_step_saw_is_told() -> None:
    _, run, _ = episode(plan(GO, "assert False, 'no'"), FINE)
    assert "run: go to kitchen 1\nYou go to kitchen 1.\n" in feedback(run)
    _, run, _ = episode(plan("assert False, 'no'"), FINE)
    assert "what was seen:\n(none)\nThe variables are now:\n(none)\n" in feedback(run)


def test_a_plan_may_return_and_have_statements_between_its_steps() -> None:
    code = f"""def solution(start_from=2):
    x = 3
    if start_from <= 1:
        {GO}
    else:
        x = x + 1
    if start_from <= 2:
        if x == 4:
            return True
    if start_from <= 3:
        {GO}"""
    result, run, _ = episode(written(code))
    assert (result.status, result.steps) == ("success", 0)
    assert [step.name for step in steps_of(run)] == ["[Step 2]"]


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("1 / 0", "ZeroDivisionError"),
        ("find_cup()", "NameError: name 'find_cup' is not defined; there are run and ask"),
        ("x = [find_cup() for _ in [1]]", "NameError"),
        ("break", "'break' outside of a loop"),
        ("ask(5)", "TypeError: ask takes one question"),
        ("ask('a', 'b')", "TypeError: ask takes one question"),
        (f"ask('a' * {MAX_QUESTION + 1})", f"at most {MAX_QUESTION} characters"),
        ("agent.run(5)", "TypeError: run takes one skill"),
        ("raise ValueError('no\\n  way')", "ValueError: no"),
    ],
)
def test_an_error_of_the_code_is_out_of_the_plan_as_well(statement: str, said: str) -> None:
    result, run, _ = episode(plan(statement), FINE)
    assert (result.status, result.decisions, result.steps) == ("success", 2, 1)
    assert said in feedback(run)
    assert steps_of(run)[0].status is Status.FAILURE


def test_an_error_outside_of_the_steps_is_told_too() -> None:
    code = f"def solution(agent, start_from=1):\n    {GO}\n    1 / 0\n    {STEP}"
    result, run, _ = episode(written(code), FINE)
    assert (result.status, result.decisions, result.steps) == ("success", 2, 2)
    assert "line 3, in" in feedback(run)
    assert "run: go to kitchen 1\n" in feedback(run)


@pytest.mark.parametrize(("settings", "tries"), [("", 6), (":refinements=1", 2), (":refinements=0", 1)])
def test_an_assertion_that_always_fails_ends_it_after_so_many_refinements(settings: str, tries: int) -> None:
    result, run, _ = episode(plan(GO, "assert False, 'never'", start=1), settings=settings)
    assert (result.status, result.end, result.decisions, result.steps) == ("failure", "failure", tries, tries)
    assert run.root.feedback_message == "AssertionError: never"


# ---------------------------------------------------------------------- questions


def test_an_answer_goes_into_the_plan_whatever_the_model_thinks_before() -> None:
    thoughtful = "<think>It might be 1. No.</think>\n 2\n"
    result, run, _ = episode(plan("n = ask('Which one?')", "assert n == '2', n"), thoughtful)
    assert (result.status, result.decisions) == ("success", 2)
    assert steps_of(run)[0].text == "[Step 1]\nQuestion: Which one?\n2\n"


@pytest.mark.parametrize("answer", ["", "  \n", "<think>I wonder", "<think>so</think>"])
def test_an_empty_answer_is_an_error_of_the_code(answer: str) -> None:
    result, run, _ = episode(plan("n = ask('How many?')"), answer, FINE)
    assert (result.status, result.decisions) == ("success", 3)
    assert "RuntimeError: the answer was empty" in feedback(run)


class Answers(LanguageModel):
    """Writes one plan after the other, and answers questions by what a function says."""

    def __init__(self, plans: Sequence[str], answer: Callable[[DecisionRequest], Pending[Reply]]) -> None:
        self.plans, self.answer = list(plans), answer
        self.asked = 0

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        if request.prompt.startswith("Answer the question."):
            self.asked += 1
            return self.answer(request)
        return Pending.ready(Reply(self.plans.pop(0)))


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (
            lambda _: Pending.ready(Reply("table 1, tab", finish_reason="length")),
            "the answer was cut at its token limit",
        ),
        (lambda _: Pending.failed(PromptTooLong(7, 100)), "the prompt is 7 tokens too long"),
    ],
)
def test_a_question_without_an_answer_is_an_error_of_the_code(
    answer: Callable[[DecisionRequest], Pending[Reply]], said: str
) -> None:
    heard = Heard()
    model = Answers([plan("where = ask('Where?')", GO), FINE], answer)
    with ScriptedWorld() as world:
        run = Episode("do it", world=world, model=model, planner=planner("adaplanner"), listener=heard)
        result = run.run()
    assert (result.status, result.decisions, result.steps) == ("success", 3, 1)
    assert said in feedback(run)
    assert any(one.startswith("Question: Where? ✗ ") for one in heard.heard)


def test_no_more_than_so_many_questions_are_asked_by_a_version() -> None:
    many = plan("answers = [ask(f'And {n}?') for n in range(3)]")
    model = Answers([many, many, FINE], lambda _: Pending.ready(Reply("no")))
    with ScriptedWorld() as world:
        run = Episode("do it", world=world, model=model, planner=planner("adaplanner:questions=2"))
        result = run.run()
    assert (result.status, model.asked, result.decisions) == ("success", 4, 9)
    assert "RuntimeError: no more than 2 questions can be asked" in feedback(run)


def test_code_that_asks_without_end_ends_with_the_budget() -> None:
    endless = "while True:\n    try:\n        ask('Still there?')\n    except RuntimeError:\n        pass"
    model = Answers([plan(endless)], lambda _: Pending.ready(Reply("yes")))
    with ScriptedWorld() as world:
        options = TreeOptions(max_decisions=40, stuck_after=0)
        run = Episode("do it", world=world, model=model, planner=planner("adaplanner"), options=options)
        result = run.run()
    assert (result.end, result.decisions, model.asked) == ("out_of_decisions", 40, 20)


# ---------------------------------------------------------------------- reading


@pytest.mark.parametrize(
    "text",
    [
        f"I begin in the kitchen.\n{FINE}\nThat is all.",
        f"<think>First I thought of <execute>x = 1</execute>.</think>\n{FINE}",
        FINE.removesuffix("</execute>"),
        FINE.replace("<execute>", "```python").replace("</execute>", "```"),
        FINE.replace("<execute>", "<execute>\nimport re").replace("</execute>", "\nsolution(agent)\n</execute>"),
        FINE.replace("agent, ", ""),
        FINE.replace("agent, start_from=1", "agent: object, start_from: int = 1"),
        FINE.replace("agent.run", "run"),
        FINE.replace("    if", "    '''Look around.'''\n    if"),
    ],
)
def test_a_plan_is_read_however_it_is_dressed(text: str) -> None:
    result, _, _ = episode(text)
    assert (result.status, result.decisions, result.steps) == ("success", 1, 1)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("I would go to the kitchen.", "there is no code"),
        (FINE + FINE, "2 blocks of code"),
        (written("def solution(agent, start_from=1)\n    pass"), "SyntaxError"),
        (written(GO), "write one function, solution, and nothing beside it"),
        (written(f"def plan(agent, start_from=1):\n    {STEP}"), "write one function, solution"),
        (
            written(f"def solution(agent, start_from=1):\n    {STEP}\nsolution(agent, 2)"),
            "write one function, solution",
        ),
        (written(f"def go():\n    {GO}\ndef solution(agent, start_from=1):\n    {STEP}"), "write one function"),
        (written(f"@staticmethod\ndef solution(agent, start_from=1):\n    {STEP}"), "its first line is"),
        (written(f"def solution(agent):\n    {STEP}"), "its first line is"),
        (written(f"def solution(agent, start_from=True):\n    {STEP}"), "its first line is"),
        (written(f"def solution(agent, start_from=1, place='x'):\n    {STEP}"), "its first line is"),
        (written(f"def solution(agent, start_from=1, *rest):\n    {STEP}"), "its first line is"),
        (plan(GO, start=2), "start_from is 2, and there is no such step; there are 1"),
        (written(f"def solution(agent, start_from=0x{'f' * 5000}):\n    {STEP}"), "its first line is"),
        (
            written(f"def solution(agent, start_from=1):\n    {STEP.replace('1:', f'0x{chr(102) * 5000}:')}"),
            "cannot be read",
        ),
        (plan(GO, start=0), "start_from is 0, and there is no such step"),
        (written(f"def solution(agent, start_from=1):\n    {GO}"), "there is no step; write each as"),
        (written(f"def solution(agent, start_from=1):\n    {STEP}\n    {STEP}"), "numbered upwards; these are 1, 1"),
        (plan("agent.location"), "of 'agent' there are agent.run(skill) and agent.ask(question), nothing else"),
        (plan("go = agent.run"), "of 'agent' there are"),
        (plan("agent = 3"), "of 'agent' there are"),
        (plan("ask = 3"), "'ask' can only be called"),
        (plan("f = ask"), "'ask' can only be called"),
        (plan("f = lambda ask: 3"), "the name 'ask' is taken"),
        (written("+".join(["1"] * 2000)), "write one function"),
    ],
)
def test_a_plan_that_is_none_is_refused_with_the_reason_and_counts(text: str, reason: str) -> None:
    result, run, _ = episode(text, FINE)
    assert (result.status, result.decisions, result.steps) == ("success", 2, 1)
    assert reason in feedback(run)
    assert "Nothing of it was run. Write the whole function again." in feedback(run)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "<execute>\n</execute>",
        written("async def solution(agent, start_from=1):\n    pass"),
        written("solution = lambda agent, start_from=1: 3"),
        plan("try:\n    return\nexcept Exception:\n    pass"),
        plan("with 3 as x:\n    return"),
        plan("match 3:\n    case run:\n        pass"),
        plan("for agent in [1]:\n    pass"),
        plan("import re as ask"),
        plan("start_from = 'x'\nassert False, '\\n\\n  x'"),
        plan("x = {}\nx['x'] = x\nassert False, ''"),
        plan("x = '\\ud83d'\nassert False, x"),
        plan("ask('a' + chr(7))"),
        plan("observation = None\nassert observation"),
        plan("raise KeyboardInterrupt"),
    ],
)
def test_whatever_is_written_it_is_told_and_the_next_plan_runs(text: str) -> None:
    result, run, _ = episode(text, FINE)
    assert (result.status, result.decisions, result.steps) == ("success", 2, 1)
    assert own_text(run).count("Feedback:\n") == 1


def test_a_plan_that_was_cut_does_not_run_and_may_be_as_long_as_the_papers() -> None:
    model = Writes([FINE.removesuffix("</execute>")], cut=True)
    tokens = []

    def decide(request: DecisionRequest) -> Pending[Reply]:
        tokens.append(request.max_tokens)
        return Writes.decide(model, request)

    model.decide = decide  # type: ignore[method-assign]
    with ScriptedWorld() as world:
        run = Episode("do it", world=world, model=model, planner=planner("adaplanner:refinements=1"))
        result = run.run()
    assert (result.status, result.steps, tokens) == ("failure", 0, [1400, 1400])
    assert "was cut at its token limit" in feedback(run)


def test_a_step_is_named_by_its_first_line_whatever_that_is() -> None:
    said = plan("print('[Step 1]:  look\\x1b[31m\\ud83d around')", "'step 2 - go'", f"{GO}", "print('a' * 3)")
    parts = [part for part in read_solution(said).parts if isinstance(part, PlanStep)]
    assert [part.name for part in parts] == ["[Step 1] look [31m around", "[Step 2] go", "[Step 3]", "[Step 4]"]
    (long,) = read_solution(plan(f"print('[Step 1] {'so ' * 99}')")).parts
    assert isinstance(long, PlanStep)
    assert len(long.name) == 81


PIECES = (
    "def solution(agent, start_from=1):\n",
    "    if start_from <= 1:\n",
    "    if start_from <= 2:\n",
    "        agent.run('x')\n",
    "        assert ask('y')\n",
    "    return\n",
    "agent",
    "<execute>\n",
    "\n</execute>",
)


@given(st.lists(st.sampled_from(PIECES)))
def test_any_text_is_a_plan_or_refused(pieces: list[str]) -> None:
    with suppress(BlockError):
        assert read_solution(written("".join(pieces))).to_do


# ---------------------------------------------------------------------- what is around it


def test_plans_that_came_to_their_end_are_examples_for_others() -> None:
    _, run, _ = episode(plan("assert False, 'no'"), FINE)
    learnt = run.root.experience(task_id="1", task_name="it")
    assert learnt is not None
    assert learnt.text.rstrip("\n") == own_text(run).rstrip("\n")
    assert [step.experience(task_id="1", task_name="it") for step in steps_of(run)] == [None, None]
    other = dataclasses.replace(learnt, turns=(Told("Task: x"),))
    model = Writes([FINE])
    with ScriptedWorld() as world:
        examples = lambda _: Pending.ready((learnt, other))  # noqa: E731
        Episode("do it", world=world, model=model, planner=planner("adaplanner"), examples=examples).run()
    assert f"Examples:\n\n{own_text(run).rstrip()}\n\n(End of the examples)" in model.prompts[0]


@pytest.mark.parametrize("what", ["answer", "skill"])
def test_an_interruption_cancels_what_is_in_flight(what: str) -> None:
    cancelled: list[str] = []

    def never(_: DecisionRequest) -> Pending[Reply]:
        return Pending(on_cancel=lambda: cancelled.append("answer"))

    model = Answers([plan("where = ask('Where?')" if what == "answer" else GO)], never)
    with ScriptedWorld() as world:
        run = Episode("do it", world=world, model=model, planner=planner("adaplanner"))
        for _ in range(200):
            world.settle = bool(model.plans)  # the first look around settles
            run.tick()
            if model.asked or "go to kitchen 1" in world.executed:
                break
            run.wait()
        run.interrupt()
        cancelled += [skill for skill, count in world.cancelled.items() for _ in range(count)]
    assert cancelled == (["answer"] if what == "answer" else ["go to kitchen 1"])
    assert run.result().end == "interrupted"
