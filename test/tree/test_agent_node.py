"""One agent node: what it does with each decision, and how it ends."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from doubles import EVERYTHING, START, Clock, Heard, ScriptedModel, ScriptedWorld, expand, goal_of, scripted_episode
from office import OfficeWorld
from py_trees.common import Status

from reactree_ros.agent.control_flow import ControlFlow, default_flows
from reactree_ros.agent.decision import Decision
from reactree_ros.agent.kinds.think import Think
from reactree_ros.agent.transcript import Example
from reactree_ros.agent.turns import About, Said, Saw, Told
from reactree_ros.background.pending import Pending
from reactree_ros.episode import Episode
from reactree_ros.llm.port import (
    A_PERSON,
    Around,
    DecisionRequest,
    LanguageModel,
    PromptTooLong,
    Reply,
    ServerUnavailable,
)
from reactree_ros.memory.experience import End, Experience
from reactree_ros.tree.agent_node import REPEATED, SURE, Abilities, AgentNode, fruitless
from reactree_ros.tree.flows import SequenceFlow
from reactree_ros.tree.goal_node import GoalNode
from reactree_ros.tree.listener import Listener
from reactree_ros.tree.options import TreeOptions
from reactree_ros.world.port import Observation, Seen, WorldError


def root_of(run: Episode) -> AgentNode:
    root = run.tree.root
    assert isinstance(root, AgentNode)
    return root


#: What a node says, in which world and with which options; then how it ends, what its text has, and what was done.
SCRIPTS: dict[str, tuple[list[str], dict[str, Any], tuple[Any, ...], str, list[str]]] = {
    "it thinks, acts and ends in the recorded text": (
        ["Think: hm", "Act: go to kitchen 1", "Act: done"],
        {},
        ("success", "done", 2, 1),
        f"Your task is to: root\n{START}\nThink: hm\nOK.\nAct: go to kitchen 1\nYou go to kitchen 1.\nAct: done",
        ["go to kitchen 1"],
    ),
    "failure is a failure and costs nothing": (["Act: failure"], {}, ("failure", "failure", 0, 0), "Act: failure", []),
    "a recall of a thing that no skill names is answered": (
        ["Act: recall location of banana", "Act: done"],
        {"working_memory": True},
        ("success", "done", 1, 1),
        "\nAct: recall location of banana\nYou have not seen banana before.\n",
        [],
    ),
    "a refused skill is an observation": (
        ["Act: open fridge 1", "Act: done"],
        {"world": ScriptedWorld(refused=["open fridge 1"]), "options": TreeOptions(check_done=False)},
        ("success", "done", 1, 1),
        "Act: open fridge 1\nYou cannot open fridge 1.\n",
        ["open fridge 1"],
    ),
    "a skill that is not available never reaches the world": (
        ["Act: pick up knife 1", "Act: done"],
        {},
        ("success", "done", 1, 0),
        "Act: pick up knife 1\n'pick up knife 1' is not among the skills that are available now. The nearest that are: "
        "pick up apple 1.\n",
        [],
    ),
    "a malformed decision goes back with what is wrong, and is counted": (
        ["Hello there", "Act: done"],
        {},
        ("success", "done", 1, 0),
        "\nHello there\nA decision starts with 'Think: '",
        [],
    ),
    "a thought with the act after it is both, each counted": (
        ["Thought: It may be in there.\nAction: open fridge 1", "Act: done"],
        {},
        ("success", "done", 2, 1),
        "\nThink: It may be in there.\nOK.\nAct: open fridge 1\nYou open fridge 1.",
        ["open fridge 1"],
    ),
    "a limit is looked at before each of two decisions in one reply": (
        ["Think: It may be in there.\nAct: open fridge 1"],
        {"options": TreeOptions(max_decisions=1)},
        ("failure", "out_of_decisions", 1, 0),
        "Max decisions",
        [],
    ),
    "the same thought is answered as ever where that is wanted": (
        ["Think: a", "Think: a", "Act: done"],
        {"options": TreeOptions(as_recorded=True)},
        ("success", "done", 2, 0),
        "Think: a\nOK.\nThink: a\nOK.\n",
        [],
    ),
    "a tree that is deep enough does not grow": (
        [expand("sequence", "a"), "Act: done"],
        {"options": TreeOptions(max_depth=2)},
        ("success", "done", 1, 0),
        "The tree is 1 deep and must not grow beyond 2.",
        [],
    ),
    "a limit of decisions ends it without a request": (
        ["Act: open fridge 1", "Think: a"],
        {"options": TreeOptions(max_decisions=2)},
        ("failure", "out_of_decisions", 2, 1),
        "\nMax decisions",
        ["open fridge 1"],
    ),
    "a limit of steps ends it without a request": (
        ["Act: open fridge 1"],
        {"options": TreeOptions(max_steps=1)},
        ("failure", "out_of_steps", 1, 1),
        "\nMax steps",
        ["open fridge 1"],
    ),
}


@pytest.mark.parametrize("what", SCRIPTS)
def test_what_a_node_does_with_what_is_said(what: str) -> None:
    says, given, ends, text, done = SCRIPTS[what]
    world = given.get("world", ScriptedWorld())
    run = scripted_episode({"root": says}, **{**given, "world": world})
    result = run.run()
    assert (result.status, result.end, result.decisions, result.steps) == ends
    assert text in root_of(run).text
    assert world.executed == done


def test_at_most_one_decision_is_applied_in_a_tick() -> None:
    run = scripted_episode({"root": ["Think: 1", "Act: open fridge 1", "Think: 2", "Act: done"]})
    counts = []
    while not run.finished:
        run.tick()
        counts.append(run.context.budget.decisions)
    assert counts == [0, 1, 2, 3, 3]


@pytest.mark.parametrize(
    ("done", "again"),
    [
        ("", ""),
        ("a", ""),
        ("aa", "a"),
        ("abab", "ab"),
        ("xabcabc", "abc"),
        ("abba", "ab"),
        ("abcbacab", "abc"),  # no round of it is gone twice
        ("aba", "a"),
        ("abaB", ""),  # something else came of it
        ("aabBa", "a"),
        ("aab", ""),  # something new was seen since
    ],
)
def test_fruitless_is_what_was_done_again_and_brought_nothing_new(done: str, again: str) -> None:
    assert fruitless([(skill.lower(), skill) for skill in done]) == set(again)


@pytest.mark.parametrize(
    ("asked", "thoughts", "breaks"),
    [(False, 0, False), (True, 0, True), (None, 0, False), (None, 1, True), (False, 1, False)],
)
def test_what_was_done_again_and_brought_nothing_new_is_not_offered_until_something_new_is_seen(
    asked: bool | None, thoughts: int, breaks: bool
) -> None:
    go, look = "Act: go to kitchen 1", "Act: open fridge 1"
    script = [go, look, go, "Think: hm", go, "Act: pick up apple 1", go, "Act: done"]
    model, heard = ScriptedModel({"root": [*script]}), Heard()
    abilities, options = Abilities((), break_rounds=asked), TreeOptions(thoughts_in_a_row=thoughts)
    scripted_episode({}, model=model, abilities=abilities, options=options, listener=heard).run()
    offered = [go.removeprefix("Act: ") in request.may_say.skills for request in model.requests]
    # It is done again by the third answer. What is said nevertheless is refused; the apple is something new.
    assert offered == [True] * 3 + [not breaks] * 3 + [True, not breaks]
    assert any("✗" in one for one in heard.heard) == breaks


def test_what_has_just_been_taken_is_not_put_down_at_once() -> None:
    take, put = "pick up apple 1", "put down apple 1"
    script = [f"Act: {take}", "Act: go to kitchen 1", f"Act: {put}", f"Act: {take}", "Act: done"]
    for offers, offered in (("possible", [True, False, True, True, False]), ("all", [True] * 5)):
        world = ScriptedWorld(skills=(take, put, "go to kitchen 1"))
        model = ScriptedModel({"root": script})
        options = TreeOptions(thoughts_in_a_row=1, offers=offers)
        scripted_episode({}, model=model, world=world, options=options, abilities=Abilities(())).run()
        assert [put in request.may_say.skills for request in model.requests][:5] == offered


@pytest.mark.parametrize(
    ("goal", "script", "told"),
    [
        ("Find an apple", ["Act: done", "Act: done"], "Nothing was done with 'apple', which your task names. Say"),
        (
            "Put an apple on the table",
            ["Act: go to kitchen 1", "Act: done", "Act: done"],
            "Nothing was done with 'apple', which",
        ),
        ("Pick up an apple", ["Act: pick up apple 1", "Act: done"], ""),
        (
            "Put an apple beside the juice",
            ["Act: pick up apple 1", "Act: done", "Act: done"],
            "You still hold apple 1, which your task names. Say",
        ),
        ("Find an apple", [expand("sequence", "pick up an apple"), "Act: pick up apple 1", "Act: done"], ""),
        ("Wait", ["Act: done"], ""),
        ("Wait", ["Act: fly to mars", "Act: done", "Act: done"], "What you did last failed: 'fly to mars' is not"),
        ("Wait", ["Act: fly to mars", "Act: go to kitchen 1", "Act: done"], ""),
        ("Find juice", ["Act: fly to mars", "Act: done", "Act: done"], ". Nothing was done with 'juice', which"),
    ],
)
@pytest.mark.parametrize("checks", [True, False])
def test_done_is_looked_at_once(goal: str, script: list[str], told: str, checks: bool) -> None:
    says = script if checks or not told else script[:-1]
    scripts = (
        {goal: says} if len(says) < 3 or "Expand" not in says[0] else {goal: says[:1], "pick up an apple": says[1:]}
    )
    options = TreeOptions(thoughts_in_a_row=1, check_done=checks)
    model = ScriptedModel(scripts)
    run = scripted_episode({}, model=model, instruction=goal, options=options)
    assert (run.run().status, len(model.requests)) == ("success", len(says))
    assert (told in root_of(run).text) == (checks or not told)


TO_THE_JUG = ["Act: navigate to counter 1", "Act: grip jug 1 with low force"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("goal", "script", "untouched"),
    [
        ("Bring the jug to Anna", TO_THE_JUG, "'Anna'"),
        ("Bring the jug to Anna", [*TO_THE_JUG, "Act: hand over jug 1 to Anna"], ""),
        ("Take the jug off the counter in corridor 1", TO_THE_JUG, ""),  # where it stands
        ("Take the jug off the counter in office 204 for DR. KIM", TO_THE_JUG, "'office 204' and 'Dr. Kim'"),
        ("Close desk drawer 1", TO_THE_JUG, "'desk drawer 1'"),  # and no desk
    ],
)
def test_persons_places_and_rooms_are_named_by_a_goal_too(goal: str, script: list[str], untouched: str) -> None:
    says = [*script, "Act: done", *(["Act: done"] if untouched else [])]
    model, options = ScriptedModel({goal: says}), TreeOptions(thoughts_in_a_row=1)
    run = scripted_episode({}, model=model, world=OfficeWorld(), instruction=goal, options=options)
    assert (run.run().status, len(model.requests)) == ("success", len(says))
    told = f"Nothing was done with {untouched}, which your task names. {SURE}"
    assert (told in root_of(run).text) == bool(untouched)


def test_a_person_who_says_that_a_node_is_done_is_not_asked_back() -> None:
    class Person(Around):
        def decide(self, request: DecisionRequest) -> Pending[Reply]:
            return Pending.ready(Reply("Act: done", answered_by=A_PERSON))

    model, options = ScriptedModel({}), TreeOptions(thoughts_in_a_row=1)
    run = scripted_episode({}, model=Person(model), instruction="Find an apple", options=options)
    assert (run.run().end, len(run.context.replies)) == ("done", 1)


@pytest.mark.parametrize(("thoughts", "offered"), [(0, [True] * 7), (1, [*[True] * 2, *[False] * 3, *[True] * 2])])
def test_after_two_expansions_that_must_not_grow_none_is_offered_until_something_is_done(
    thoughts: int, offered: list[bool]
) -> None:
    again, recall, go = expand("sequence", "root"), "Act: recall location of apple", "Act: go to kitchen 1"
    model = ScriptedModel({"root": [again, again, "Think: hm", recall, go, again, "Act: done"]})
    scripted_episode({}, model=model, working_memory=True, options=TreeOptions(thoughts_in_a_row=thoughts)).run()
    assert [bool(request.may_say.control_flows) for request in model.requests] == offered


def test_the_prompt_only_grows_at_its_end() -> None:
    model = ScriptedModel({"root": ["Think: a", "Act: open fridge 1", "Act: fly", "nonsense", "Act: done"]})
    scripted_episode({}, model=model).run()
    prompts = [request.prompt for request in model.requests]
    assert all(later.startswith(earlier) for earlier, later in itertools.pairwise(prompts))


def test_without_working_memory_nothing_can_be_recalled() -> None:
    model = ScriptedModel({"root": ["Act: done"]})
    scripted_episode({}, model=model).run()
    assert not [skill for skill in model.requests[0].may_say.skills if "recall" in skill]  # type: ignore[union-attr]
    assert "recall" not in model.requests[0].prompt


def test_a_recall_is_answered_by_working_memory_and_is_a_step() -> None:
    world = ScriptedWorld()
    run = scripted_episode({"root": ["Act: recall location of apple", "Act: done"]}, world=world, working_memory=True)
    run.context.known.saw(Observation("", seen=(Seen("apple", 1, "kitchen 1", "fridge 1"),)))
    result = run.run()
    assert "\nAct: recall location of apple\nYou saw apple 1 near fridge 1 in kitchen 1.\n" in root_of(run).text
    assert (result.decisions, result.steps, world.executed) == (1, 1, [])


def test_of_two_decisions_in_one_reply_the_first_takes_what_the_reply_took() -> None:
    class Counting(Listener):
        def __init__(self) -> None:
            self.tokens: list[int | None] = []

        def decided(self, node: GoalNode, decision: Decision, reply: Reply) -> None:
            self.tokens.append(reply.output_tokens)

    class Counted(LanguageModel):
        def decide(self, request: DecisionRequest) -> Pending[Reply]:
            return Pending.ready(Reply("Think: It is time.\nAct: done", output_tokens=9))

    counting = Counting()
    result = scripted_episode({}, model=Counted(), listener=counting).run()
    assert (counting.tokens, result.output_tokens) == ([9, 0], 9)


def test_a_thought_that_comes_again_is_answered_with_a_word_that_says_so() -> None:
    thoughts = ["Think: It is dark.", "Think: Is it?", "Think: it is  DARK", "Act: open fridge 1", "Think: It is dark."]
    run = scripted_episode({"root": [*thoughts, "Act: done"]})
    assert run.run().status == "success"
    answers = [turn.text for turn in root_of(run).turns if isinstance(turn, Told) and turn.about is About.ANSWER]
    assert answers == ["OK.", "OK.", REPEATED, "OK."]


@pytest.mark.parametrize(
    ("text", "flows", "reason"),
    [
        (expand("sequence", "ROOT."), default_flows(), "The subgoal 'ROOT' is being worked on already"),
        (expand("sequence", " "), default_flows(), "An expansion needs at least one subgoal"),
        (expand("loop", "a"), default_flows(), "Control flow 'loop' is unknown"),
        (expand("parallel", "a"), (SequenceFlow,), "'parallel' is not allowed here; allowed: sequence."),
        (expand("sequence", "a"), (), "An expansion is not allowed here; think or act."),
    ],
)
def test_an_expansion_that_must_not_grow_goes_back_with_the_reason(
    text: str, flows: tuple[type[ControlFlow], ...], reason: str
) -> None:
    run = scripted_episode({"root": [text, "Act: done"]}, abilities=Abilities(flows))
    result = run.run()
    assert reason in root_of(run).text.partition(text)[2]
    assert (result.status, result.decisions, result.agent_nodes) == ("success", 1, 1)
    assert root_of(run).children == []


def test_recursion_is_refused_at_any_distance() -> None:
    run = scripted_episode(
        {
            "root": [expand("sequence", "a")],
            "a": [expand("sequence", "b")],
            "b": [expand("fallback", "root"), expand("fallback", "and a"), "Act: done"],
        }
    )
    result = run.run()
    assert (result.status, result.decisions, result.max_depth) == ("success", 4, 5)


def test_after_a_limit_later_siblings_start_and_end_at_once() -> None:
    script = {"root": [expand("parallel", "a", "b")], "a": ["Think: 1", "Think: 2"]}
    run = scripted_episode(script, options=TreeOptions(max_decisions=2))
    run.run()
    assert [node.text.rpartition("\n")[2] for node in run.context.nodes] == ["", "Max decisions", "Max decisions"]


class Fails(ScriptedModel):
    """Fails with an error for some goals, or for all."""

    def __init__(self, error: Exception, script: dict[str, list[str]] | None = None, goals: str = "") -> None:
        super().__init__(script or {})
        self.error, self.goals = error, goals

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        if self.goals and goal_of(request.prompt) not in self.goals:
            return super().decide(request)
        self.requests.append(request)
        return Pending.failed(self.error)


GONE, FULL = ServerUnavailable("the server is gone"), PromptTooLong(7, 100)


class BrokenWorld(ScriptedWorld):
    def execute(self, skill: str) -> Pending[Observation]:
        self.executed.append(skill)
        return Pending.failed(WorldError("the gripper is gone"))


@pytest.mark.parametrize(
    ("given", "end", "broken", "message"),
    [
        ({"model": Fails(GONE)}, "model_gone", True, "no reply: the server is gone"),
        ({"model": Fails(FULL)}, "context_full", False, "the prompt is 7 tokens too long"),
        ({"world": BrokenWorld()}, "world_gone", True, "'open fridge 1' failed: the gripper is gone"),
    ],
)
def test_what_ends_a_node_is_named(given: dict[str, Any], end: str, broken: bool, message: str) -> None:
    run = scripted_episode({"root": ["Act: open fridge 1"]}, **given)
    result = run.run()
    assert (result.status, result.end, result.broken) == ("failure", end, broken)
    assert message in result.message
    assert message in root_of(run).feedback_message


@pytest.mark.parametrize("flow", ["sequence", "fallback", "parallel"])
def test_a_dead_server_is_asked_once_whatever_composite_is_above(flow: str) -> None:
    model = Fails(GONE, {"root": [expand(flow, *"abcde")]}, "abcde")
    run = scripted_episode({}, model=model)
    result = run.run()
    assert (result.end, result.agent_nodes, len(model.requests)) == ("model_gone", 2, 2)
    assert run.tree.root.status == Status.FAILURE
    assert all(one.status != Status.RUNNING for one in run.tree.root.iterate())


@pytest.mark.parametrize("call", ["observe", "available_skills", "execute"])
def test_an_exception_in_a_world_never_escapes_a_tick(call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(self: object, *arguments: object) -> Pending[Observation]:
        raise KeyError("fridge")

    monkeypatch.setattr(ScriptedWorld, call, breaks)
    result = scripted_episode({"root": ["Act: open fridge 1"]}).run()
    assert (result.status, result.end) == ("failure", "bug")
    assert "KeyError: 'fridge'" in result.message


@pytest.mark.parametrize(
    ("error", "fails", "flow", "says", "ends"),
    [
        (FULL, "a", "fallback", {"b": ["Act: failure"]}, ("failure", "failure", False)),
        (FULL, "a", "parallel", {"b": ["Act: done"], "c": ["Act: done"]}, ("success", "done", False)),
        (GONE, "c", "parallel", {"a": ["Act: done"], "b": ["Act: done"]}, ("failure", "model_gone", True)),
    ],
)
def test_an_error_below_is_told_and_ends_the_run_only_where_nothing_could_do_better(
    error: Exception, fails: str, flow: str, says: dict[str, list[str]], ends: tuple[str, str, bool]
) -> None:
    script = {"root": [expand(flow, *sorted({fails, *says}))], **says}
    result = scripted_episode({}, model=Fails(error, script, fails)).run()
    assert (result.status, result.end, result.broken) == ends
    assert str(error) in result.message


def test_a_decision_that_does_not_come_ends_the_node_and_is_cancelled() -> None:
    clock, model = Clock(), ScriptedModel({"root": ["Think: a"]}, settle=False)
    run = scripted_episode({}, model=model, clock=clock, options=TreeOptions(decision_timeout=5))
    run.tick()
    clock.now = 4.9
    run.tick()
    assert run.tree.root.status == Status.RUNNING
    clock.now = 5.0
    run.tick()
    assert run.tree.root.feedback_message.startswith("no reply within 5 s; raise decision_timeout")
    assert dict(model.cancelled) == {"0.1": 1}


def test_a_skill_that_does_not_end_is_cancelled_and_the_node_is_told() -> None:
    class Slow(ScriptedWorld):
        def execute(self, skill: str) -> Pending[Observation]:
            self.settle = skill != "open fridge 1"
            return super().execute(skill)

        def at_rest(self) -> Pending[None]:
            self.settle = True
            return super().at_rest()

    world = Slow()
    script = {"root": ["Act: open fridge 1", "Act: go to kitchen 1", "Act: done"]}
    run = scripted_episode(script, world=world, options=TreeOptions(skill_timeout=0.05))
    assert run.run().status == "success"
    assert "\nAct: open fridge 1\nThe skill was not carried out: took longer than 0.05 s" in root_of(run).text
    assert dict(world.cancelled) == {"open fridge 1": 1}


def test_a_look_around_that_does_not_come_is_named() -> None:
    clock = Clock()
    run = scripted_episode({}, world=ScriptedWorld(settle=False), clock=clock)
    run.tick()
    clock.now = 1000.0
    run.tick()
    assert (run.result().end, run.result().message) == ("world_gone", "no observation within 120 s")


def experience(text: str) -> Experience:
    """What episodic memory finds."""
    turns = (Told(text),)
    return Experience(subgoal="x", turns=turns, end=End.SUCCESS, task_id="1", task_name="test", decision=1, depth=1)


class SmallModel(ScriptedModel):
    """Has room for so many words; counts words as its tokens, unless it does not count."""

    def __init__(self, script: dict[str, Sequence[str]], *, context: int, counts: bool = True) -> None:
        super().__init__(script)
        self.context, self.counts = context, counts
        self.refused: list[DecisionRequest] = []

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        excess = len(request.prompt.split()) - self.context
        if excess > 0:
            self.refused.append(request)
            return Pending.failed(PromptTooLong(excess, self.context))
        return super().decide(request)

    def count_tokens(self, text: str) -> int | None:
        return len(text.split()) if self.counts else None


class Shortened(Listener):
    """Hears what is left out."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, int, int]] = []

    def shortened(self, node: AgentNode, dropped: int, excess: int) -> None:
        self.heard.append((node.subgoal, dropped, excess))


EXAMPLES = tuple(f"example{number} {'word ' * 99}".strip() for number in range(5))  # 100 words each


def with_examples(model: SmallModel, listener: Listener, examples: Sequence[str] = EXAMPLES) -> Episode:
    run = scripted_episode({}, model=model, listener=listener)
    run.context.examples = lambda subgoal: Pending.ready(tuple(map(experience, examples)))
    return run


def words_without_examples() -> int:
    model = ScriptedModel({"root": ["Act: done"]})
    run = scripted_episode({}, model=model)
    run.run()
    return len(model.requests[0].prompt.split())


def test_a_prompt_that_is_too_long_loses_its_least_similar_examples() -> None:
    bare = words_without_examples()
    model = SmallModel({"root": ["Think: a", "Act: done"]}, context=bare + 320)
    listener = Shortened()
    result = with_examples(model, listener).run()
    assert (result.status, result.decisions, len(model.refused)) == ("success", 1, 1)
    assert listener.heard == [("root", 2, 180)]
    for request in model.requests:
        kept = [number for number in range(5) if f"example{number} " in request.prompt]
        assert kept == [0, 1, 2]
        assert said_in(request) == ["Think: a"][: len(said_in(request))]
    ids = [request.id for request in [*model.refused, *model.requests]]
    assert len(set(ids)) == len(ids)


def test_a_prompt_that_becomes_too_long_on_the_way_loses_examples_then() -> None:
    model = SmallModel({"root": ["Think: " + "w " * 50, "Act: done"]}, context=words_without_examples() + 220)
    listener = Shortened()
    result = with_examples(model, listener, EXAMPLES[:2]).run()
    assert (result.status, result.decisions) == ("success", 1)
    assert [dropped for _, dropped, _ in listener.heard] == [1]
    assert said_in(model.requests[-1])[0].startswith("Think: w w")


def test_a_prompt_that_is_too_long_without_examples_too_ends_the_node_and_names_the_error() -> None:
    model = SmallModel({}, context=words_without_examples() - 10)
    listener = Shortened()
    run = with_examples(model, listener)
    result = run.run()
    assert (result.status, result.end, result.decisions, result.steps) == ("failure", "context_full", 0, 0)
    assert result.message.startswith("no reply: the prompt is 10 tokens too long for the model's context of")
    assert listener.heard == [("root", 5, 510)]
    assert run.context.budget.decisions == 0


def test_the_fixed_example_of_a_tree_gives_way_to_the_short_one_and_then_loses_nodes_before_it_goes() -> None:
    node = "Your task is to: a\nYou are in the house.\nAct: done"
    long, short = (Example.of_text("\n\n".join([node] * count)) for count in (9, 3))
    listener, seen = Shortened(), list[int]()
    abilities = replace(EVERYTHING, fixed_examples=(replace(long, short=short),))
    for room in (110, 40, 25, 0):  # a node has 12 words
        model = SmallModel({"root": ["Act: done"]}, context=words_without_examples() + room)
        run = scripted_episode({}, model=model, listener=listener, abilities=abilities)
        assert run.run().status == "success"
        seen.append(model.requests[-1].prompt.count(node))
    assert seen == [9, 3, 2, 0]
    assert [dropped for _, dropped, _ in listener.heard] == [0, 0, 1]


def test_where_tokens_are_not_counted_examples_go_until_the_prompt_fits() -> None:
    model = SmallModel({"root": ["Act: done"]}, context=words_without_examples() + 20, counts=False)
    listener = Shortened()
    assert with_examples(model, listener).run().status == "success"
    assert sum(dropped for _, dropped, _ in listener.heard) == 5
    assert "example0" not in model.requests[-1].prompt


def said_in(request: DecisionRequest) -> list[str]:
    return [turn.text for turn in request.turns if isinstance(turn, Said)]


def test_the_turns_say_who_spoke_and_what_it_was_taken_for() -> None:
    said = [
        "Think: a",
        "nonsense",
        "Act: open fridge 1",
        "Act: fly",
        expand("parallel", " "),
        "\nAct: pick up apple 1\n",
        "Act: recall location of apple",
        expand("sequence", "x"),
    ]
    model = ScriptedModel({"root": said, "x": ["Think: b", "Act: done"]})
    run = scripted_episode({}, model=model, working_memory=True)
    run.context.examples = lambda subgoal: Pending.ready((experience("Think: an example"),))
    assert run.run().status == "success"
    roots, xs = model.requests[: len(said)], model.requests[len(said) :]
    for number, request in enumerate(roots):
        assert said_in(request) == [one.strip("\n") for one in said[:number]]
    assert [said_in(request) for request in xs] == [[], ["Think: b"]]
    system, task, start, *turns = roots[-1].turns
    assert isinstance(system, Told)
    assert system.about is About.SYSTEM
    assert (task, start) == (Told("Your task is to: root"), Saw(START))
    assert turns[:4] == [
        Said("Think: a", Think("a")),
        Told("OK.", About.ANSWER),
        Said("nonsense"),
        Told(turns[3].text, About.REFUSAL),
    ]
    assert isinstance(turns[5], Saw)
    assert turns[5].observation == Observation("You open fridge 1.")


def test_a_reply_with_an_objection_is_refused_and_counted() -> None:
    class Objected(ScriptedModel):
        def settle_all(self) -> None:
            settling, self.in_flight = self.in_flight, []
            for pending, text in settling:
                pending.succeed(Reply(text, objection="It was cut." if "fridge" in text else ""))

    world = ScriptedWorld()
    run = scripted_episode({}, model=Objected({"root": ["Act: open fridge 1", "Act: done"]}), world=world)
    result = run.run()
    assert (result.status, result.decisions, result.steps, world.executed) == ("success", 1, 0, [])
    assert "\nAct: open fridge 1\nIt was cut.\nAct: done" in root_of(run).text
