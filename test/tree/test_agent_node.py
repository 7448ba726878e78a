"""One agent node: what it does with each decision, and how it ends."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from doubles import EVERYTHING, SKILLS, START, Clock, Heard, ScriptedModel, ScriptedWorld, expand, scripted_episode
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
from reactree_ros.tree.agent_node import FAILED, REPEATED, SURE, Abilities, AgentNode, fruitless
from reactree_ros.tree.context import Listener
from reactree_ros.tree.flows.sequence import SequenceFlow
from reactree_ros.tree.goal_node import GoalNode
from reactree_ros.tree.options import TreeOptions
from reactree_ros.world.port import Observation, Seen, WorldError


def root_of(run: Episode) -> AgentNode:
    root = run.tree.root
    assert isinstance(root, AgentNode)
    return root


def test_thinks_acts_and_ends_in_the_recorded_text() -> None:
    run = scripted_episode({"root": ["Think: hm", "Act: go to kitchen 1", "Act: done"]})
    result = run.run()
    assert root_of(run).text == (
        f"Your task is to: root\n{START}\nThink: hm\nOK.\nAct: go to kitchen 1\nYou go to kitchen 1.\nAct: done"
    )
    assert (result.status, result.end, result.decisions, result.steps) == ("success", "done", 2, 1)


def test_failure_is_a_failure_and_costs_nothing() -> None:
    result = scripted_episode({"root": ["Act: failure"]}).run()
    assert (result.status, result.end, result.decisions, result.steps) == ("failure", "failure", 0, 0)


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


@pytest.mark.parametrize(
    ("thoughts", "script", "asked_back"),
    [
        (1, ["Act: pick up apple 1", "Act: done", "Act: done"], True),  # it may say so again
        (1, ["Act: pick up apple 1", "Think: hm", "Act: done", "Act: done"], True),
        (1, ["Act: pick up apple 1", "Act: go to kitchen 1", "Act: done"], False),
        (1, ["Act: done"], False),
        (0, ["Act: pick up apple 1", "Act: done"], False),  # it is trained
    ],
)
def test_a_node_that_is_done_right_after_what_failed_is_asked_back_once(
    thoughts: int, script: list[str], asked_back: bool
) -> None:
    model, options = ScriptedModel({"root": [*script]}), TreeOptions(thoughts_in_a_row=thoughts)
    run = scripted_episode({}, model=model, world=ScriptedWorld(refused=["pick up apple 1"]), options=options)
    assert (run.run().status, len(model.requests)) == ("success", len(script))
    assert (FAILED.format("You cannot pick up apple 1.") in root_of(run).text) == asked_back


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
            return Pending.of(Reply("Act: done", answered_by=A_PERSON))

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


def hold(episode: Episode) -> None:
    episode.pause()
    for _ in range(5):
        episode.tick()
    episode.resume()


def speak(episode: Episode) -> None:
    episode.hear("look in the kitchen again")


@pytest.mark.parametrize("something_new", [hold, speak])
def test_what_brought_nothing_new_is_offered_again_after(something_new: Callable[[Episode], None]) -> None:
    go = "go to kitchen 1"
    script = [f"Act: {go}", f"Act: {go}", "Think: a", "Act: done"]  # the hold cancels the thought
    model = ScriptedModel({"root": script}, settle=False)
    episode = scripted_episode({}, model=model, abilities=Abilities((), break_rounds=True))
    while len(model.requests) < 3:
        model.settle_all()
        episode.tick()
    something_new(episode)
    model.settle = True
    model.settle_all()
    assert episode.run().end == "done"
    offered = [go in request.may_say.skills for request in model.requests]  # type: ignore[union-attr]
    assert offered == [True, True, False, True]


def test_the_prompt_only_grows_at_its_end() -> None:
    model = ScriptedModel({"root": ["Think: a", "Act: open fridge 1", "Act: fly", "nonsense", "Act: done"]})
    scripted_episode({}, model=model).run()
    prompts = [request.prompt for request in model.requests]
    assert all(later.startswith(earlier) for earlier, later in itertools.pairwise(prompts))


def test_every_request_has_an_id_of_its_own_and_the_available_skills() -> None:
    model = ScriptedModel({"root": ["Think: a", expand("sequence", "x", "y")], "x": ["Act: done"], "y": ["Act: done"]})
    scripted_episode({}, model=model, working_memory=True).run()
    assert len({request.id for request in model.requests}) == len(model.requests) == 4
    skills = model.requests[0].may_say.skills  # type: ignore[union-attr]
    assert {*SKILLS, "done", "failure", "recall location of apple"} <= set(skills)


def test_without_working_memory_nothing_can_be_recalled() -> None:
    model = ScriptedModel({"root": ["Act: done"]})
    scripted_episode({}, model=model).run()
    assert not [skill for skill in model.requests[0].may_say.skills if "recall" in skill]  # type: ignore[union-attr]
    assert "recall" not in model.requests[0].prompt


def test_a_recall_is_answered_by_working_memory_and_is_a_step() -> None:
    world = ScriptedWorld()
    run = scripted_episode({"root": ["Act: recall location of apple", "Act: done"]}, world=world, working_memory=True)
    memory = run.context.working_memory
    assert memory is not None
    memory.see("apple", 1, room="kitchen 1", place="fridge 1")
    result = run.run()
    assert "\nAct: recall location of apple\nYou saw apple 1 near fridge 1 in kitchen 1.\n" in root_of(run).text
    assert (result.decisions, result.steps, world.executed) == (1, 1, [])


def test_a_recall_of_a_thing_that_no_skill_names_is_answered_too() -> None:
    run = scripted_episode({"root": ["Act: recall location of banana", "Act: done"]}, working_memory=True)
    assert run.run().steps == 1
    assert "\nAct: recall location of banana\nYou have not seen banana before.\n" in root_of(run).text


def test_a_refused_skill_is_an_observation() -> None:
    run = scripted_episode(
        {"root": ["Act: open fridge 1", "Act: done"]}, world=ScriptedWorld(refused=["open fridge 1"])
    )
    assert run.run().status == "success"
    assert "Act: open fridge 1\nYou cannot open fridge 1.\n" in root_of(run).text


def test_a_skill_that_is_not_available_never_reaches_the_world() -> None:
    world = ScriptedWorld()
    run = scripted_episode({"root": ["Act: pick up knife 1", "Act: done"]}, world=world)
    result = run.run()
    assert world.executed == []
    reason = "'pick up knife 1' is not among the skills that are available now. The nearest that are: pick up apple 1."
    assert f"Act: pick up knife 1\n{reason}\n" in root_of(run).text
    assert (result.decisions, result.steps) == (1, 0)


def test_a_malformed_decision_goes_back_with_what_is_wrong_and_is_counted() -> None:
    run = scripted_episode({"root": ["Hello there", "Act: done"]})
    assert run.run().decisions == 1
    assert "\nHello there\nA decision starts with 'Think: '" in root_of(run).text


def test_a_thought_with_the_act_after_it_is_both_each_counted() -> None:
    world = ScriptedWorld()
    run = scripted_episode({"root": ["Thought: It may be in there.\nAction: open fridge 1", "Act: done"]}, world=world)
    result = run.run()
    assert world.executed == ["open fridge 1"]
    assert (result.status, result.decisions, result.steps) == ("success", 2, 1)
    assert "\nThink: It may be in there.\nOK.\nAct: open fridge 1\nYou open fridge 1." in root_of(run).text


def test_a_limit_is_looked_at_before_each_of_two_decisions_in_one_reply() -> None:
    world = ScriptedWorld()
    said = "Think: It may be in there.\nAct: open fridge 1"
    run = scripted_episode({"root": [said]}, world=world, options=TreeOptions(max_decisions=1))
    result = run.run()
    assert (world.executed, result.decisions, result.end) == ([], 1, "out_of_decisions")


def test_of_two_decisions_in_one_reply_the_first_takes_what_the_reply_took() -> None:
    class Counting(Listener):
        def __init__(self) -> None:
            self.tokens: list[int | None] = []

        def decided(self, node: GoalNode, decision: Decision, reply: Reply) -> None:
            self.tokens.append(reply.output_tokens)

    class Counted(LanguageModel):
        def decide(self, request: DecisionRequest) -> Pending[Reply]:
            return Pending.of(Reply("Think: It is time.\nAct: done", output_tokens=9))

    counting = Counting()
    result = scripted_episode({}, model=Counted(), listener=counting).run()
    assert (counting.tokens, result.output_tokens) == ([9, 0], 9)


def test_a_thought_that_comes_again_is_answered_with_a_word_that_says_so() -> None:
    thoughts = ["Think: It is dark.", "Think: Is it?", "Think: it is  DARK", "Act: open fridge 1", "Think: It is dark."]
    run = scripted_episode({"root": [*thoughts, "Act: done"]})
    assert run.run().status == "success"
    answers = [turn.text for turn in root_of(run).turns if isinstance(turn, Told) and turn.about is About.ANSWER]
    assert answers == ["OK.", "OK.", REPEATED, "OK."]


def test_a_thought_that_comes_again_is_answered_as_ever_where_that_is_wanted() -> None:
    run = scripted_episode({"root": ["Think: a", "Think: a", "Act: done"]}, options=TreeOptions(answer_repeats=False))
    assert run.run().status == "success"
    assert REPEATED not in root_of(run).text


def test_a_model_that_only_thinks_ends_with_its_budget() -> None:
    class Brooding(LanguageModel):
        def decide(self, request: DecisionRequest) -> Pending[Reply]:
            return Pending.of(Reply("Think: What shall I do?"))

    result = scripted_episode({}, model=Brooding(), options=TreeOptions(max_decisions=7)).run()
    assert (result.end, result.decisions) == ("out_of_decisions", 7)


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


def test_a_tree_that_is_deep_enough_does_not_grow() -> None:
    run = scripted_episode({"root": [expand("sequence", "a"), "Act: done"]}, options=TreeOptions(max_depth=2))
    assert run.run().agent_nodes == 1
    assert "The tree is 1 deep and must not grow beyond 2." in root_of(run).text


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


def test_the_root_is_at_depth_one_and_its_subgoals_at_three() -> None:
    run = scripted_episode({"root": [expand("sequence", "a", "b")], "a": ["Act: done"], "b": ["Act: done"]})
    run.run()
    assert [(node.subgoal, node.depth, node.start) for node in run.context.nodes] == [
        ("root", 1, 1),
        ("a", 3, 2),
        ("b", 3, 2),
    ]


@pytest.mark.parametrize(
    ("options", "line", "end"),
    [
        (TreeOptions(max_decisions=2), "Max decisions", "out_of_decisions"),
        (TreeOptions(max_steps=1), "Max steps", "out_of_steps"),
    ],
)
def test_a_limit_ends_the_agent_node_without_a_request(options: TreeOptions, line: str, end: str) -> None:
    model = ScriptedModel({"root": ["Act: open fridge 1", "Think: a", "Think: b"]})
    run = scripted_episode({}, model=model, options=options)
    result = run.run()
    assert root_of(run).text.endswith(f"\n{line}")
    assert (result.status, result.end) == ("failure", end)
    assert len(model.requests) == run.context.budget.decisions


def test_after_a_limit_later_siblings_start_and_end_at_once() -> None:
    script = {"root": [expand("parallel", "a", "b")], "a": ["Think: 1", "Think: 2"]}
    run = scripted_episode(script, options=TreeOptions(max_decisions=2))
    run.run()
    assert [node.text.rpartition("\n")[2] for node in run.context.nodes] == [
        "",
        "Max decisions",
        "Max decisions",
    ]


class BrokenModel(ScriptedModel):
    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        self.requests.append(request)
        return Pending.failed(ServerUnavailable("the server is gone"))


class BrokenWorld(ScriptedWorld):
    def execute(self, skill: str) -> Pending[Observation]:
        self.executed.append(skill)
        return Pending.failed(WorldError("the gripper is gone"))


def test_a_language_model_that_is_gone_is_named() -> None:
    run = scripted_episode({}, model=BrokenModel({}))
    result = run.run()
    assert (result.status, result.end, result.message) == ("failure", "model_gone", "no reply: the server is gone")
    assert (result.broken, root_of(run).feedback_message) == (True, "no reply: the server is gone")


def test_a_world_that_is_gone_is_named() -> None:
    result = scripted_episode({"root": ["Act: open fridge 1"]}, world=BrokenWorld()).run()
    assert (result.end, result.message) == ("world_gone", "'open fridge 1' failed: the gripper is gone")


@pytest.mark.parametrize("flow", ["sequence", "fallback", "parallel"])
def test_a_dead_server_is_asked_once_whatever_composite_is_above(flow: str) -> None:
    model = BrokenModel({})

    class Dies(ScriptedModel):
        def decide(self, request: DecisionRequest) -> Pending[Reply]:
            return super().decide(request) if not self.requests else model.decide(request)

    run = scripted_episode({}, model=Dies({"root": [expand(flow, "a", "b", "c", "d", "e")]}))
    result = run.run()
    assert (result.end, result.agent_nodes, len(model.requests)) == ("model_gone", 2, 1)
    assert run.tree.root.status == Status.FAILURE
    assert all(one.status != Status.RUNNING for one in run.tree.root.iterate())


def test_a_world_that_is_gone_ends_the_tree_at_once() -> None:
    world = BrokenWorld()
    script = {"root": [expand("fallback", "a", "b")], "a": ["Act: open fridge 1"], "b": ["Act: open fridge 1"]}
    result = scripted_episode(script, world=world).run()
    assert (result.end, result.agent_nodes, world.executed) == ("world_gone", 2, ["open fridge 1"])


@pytest.mark.parametrize("call", ["observe", "available_skills", "execute"])
def test_an_exception_in_a_world_never_escapes_a_tick(call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(self: object, *arguments: object) -> Pending[Observation]:
        raise KeyError("fridge")

    monkeypatch.setattr(ScriptedWorld, call, breaks)
    result = scripted_episode({"root": ["Act: open fridge 1"]}).run()
    assert (result.status, result.end) == ("failure", "bug")
    assert "KeyError: 'fridge'" in result.message


def test_an_exception_in_working_memory_never_escapes_a_tick() -> None:
    class Odd(ScriptedWorld):
        def observe(self) -> Pending[Observation]:
            return Pending.of(Observation(START, seen=[Seen("", 1, "kitchen 1")]))

    result = scripted_episode({"root": ["Act: done"]}, world=Odd(), working_memory=True).run()
    assert (result.status, result.end) == ("failure", "bug")
    assert "word is empty" in result.message


def test_a_recovered_error_does_not_colour_an_honest_failure_but_is_told() -> None:
    class Narrow(ScriptedModel):
        def decide(self, request: DecisionRequest) -> Pending[Reply]:
            if request.prompt.endswith(f"Your task is to: a\n{START}\n"):
                return Pending.failed(PromptTooLong(7, 100))
            return super().decide(request)

    script = {"root": [expand("fallback", "a", "b")], "b": ["Act: failure"]}
    result = scripted_episode({}, model=Narrow(script)).run()
    assert (result.status, result.end, result.broken) == ("failure", "failure", False)
    assert "the prompt is 7 tokens too long" in result.message


def test_an_error_under_a_parallel_that_succeeds_is_told() -> None:
    class Narrow(ScriptedModel):
        def decide(self, request: DecisionRequest) -> Pending[Reply]:
            if request.prompt.endswith(f"Your task is to: a\n{START}\n"):
                return Pending.failed(PromptTooLong(7, 100))
            return super().decide(request)

    script = {"root": [expand("parallel", "a", "b", "c")], "b": ["Act: done"], "c": ["Act: done"]}
    result = scripted_episode({}, model=Narrow(script)).run()
    assert (result.status, result.end) == ("success", "done")
    assert "the prompt is 7 tokens too long" in result.message


def test_a_server_that_dies_under_a_parallel_that_had_its_majority_is_the_end() -> None:
    class Dies(ScriptedModel):
        def decide(self, request: DecisionRequest) -> Pending[Reply]:
            if request.prompt.endswith(f"Your task is to: c\n{START}\n"):
                return Pending.failed(ServerUnavailable("the server is gone"))
            return super().decide(request)

    script = {"root": [expand("parallel", "a", "b", "c")], "a": ["Act: done"], "b": ["Act: done"]}
    result = scripted_episode({}, model=Dies(script)).run()
    assert (result.status, result.end, result.broken, result.achieved) == ("failure", "model_gone", True, False)


def test_a_context_that_is_full_is_a_result() -> None:
    class Narrow(ScriptedModel):
        def decide(self, request: DecisionRequest) -> Pending[Reply]:
            return Pending.failed(PromptTooLong(7, 100))

    result = scripted_episode({}, model=Narrow({})).run()
    assert (result.status, result.end, result.broken) == ("failure", "context_full", False)


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


def test_examples_come_before_the_target() -> None:
    model = ScriptedModel({"root": ["Act: done"]})
    run = scripted_episode({}, model=model)
    run.context.examples = lambda subgoal: Pending.of((experience(f"an example for {subgoal}"),))
    run.run()
    assert "Source domain:\nan example for root\nTarget_domain:\nYour task is to: root\n" in model.requests[0].prompt


def test_the_listener_hears_everything_in_order() -> None:
    heard: list[str] = []

    class Hearing(Listener):
        def node_started(self, node: AgentNode) -> None:
            heard.append(f"start {node.subgoal}")

        def decided(self, node: AgentNode, decision: Decision, reply: Reply) -> None:
            heard.append(f"decided {type(decision).__name__}")

        def refused(self, node: AgentNode, said: Said, reason: str) -> None:
            heard.append(f"refused {said.decision}")

        def observed(self, node: AgentNode, observation: Observation) -> None:
            heard.append(f"observed {observation.text}")

        def node_ended(self, node: AgentNode) -> None:
            heard.append(f"end {node.subgoal} {node.status.name}")

    script = {"root": [expand("sequence", "a")], "a": ["Act: open fridge 1", "Act: fly", "Act: failure"]}
    scripted_episode(script, listener=Hearing()).run()
    assert heard == [
        "start root",
        "decided Expand",
        "start a",
        "decided Act",
        "observed You open fridge 1.",
        "refused Act: fly",
        "decided Act",
        "end a FAILURE",
        "end root FAILURE",
    ]


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
    run.context.examples = lambda subgoal: Pending.of(tuple(map(experience, examples)))
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


def test_each_agent_node_shortens_its_own_prompt() -> None:
    script = {"root": [expand("sequence", "a", "b")], "a": ["Act: done"], "b": ["Act: done"]}
    model = SmallModel(script, context=words_without_examples() + 360)
    listener = Shortened()
    assert with_examples(model, listener).run().status == "success"
    assert [subgoal for subgoal, _, _ in listener.heard] == ["root", "a", "b"]


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
    run.context.examples = lambda subgoal: Pending.of((experience("Think: an example"),))
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


def test_the_requests_say_whose_they_are() -> None:
    model = ScriptedModel({"root": ["Act: done"]})
    run = scripted_episode({}, model=model)
    run.context.planner = "kitchen robot"
    run.run()
    assert [request.planner for request in model.requests] == ["kitchen robot"]
