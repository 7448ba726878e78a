"""HiAgent: what it asks, what its prompt holds after each step, and how it ends."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from doubles import START, Clock, Heard, ScriptedWorld
from py_trees.common import Status

from reactree_ros.agent.prompt_files import prompt
from reactree_ros.agent.summary import judgement, summary_request
from reactree_ros.agent.turns import Said, Told
from reactree_ros.episode import Episode
from reactree_ros.errors import UserError
from reactree_ros.llm.expert.model import ExpertModel
from reactree_ros.llm.port import Choice, DecisionRequest, FreeText, LanguageModel, PromptTooLong, Reply
from reactree_ros.memory.experience import End, Experience
from reactree_ros.pending import Pending
from reactree_ros.planners.hiagent.examples import told_as_subgoals
from reactree_ros.planners.hiagent.planner import PROMPTS, HiAgentNode
from reactree_ros.planners.spec import planner as planner_of
from reactree_ros.tree.context import Listener
from reactree_ros.tree.options import TreeOptions
from reactree_ros.world.ai2thor.household import ALFRED
from reactree_ros.world.virtualhome.generator import generate_house
from reactree_ros.world.virtualhome.household import WAH_NL
from reactree_ros.world.virtualhome.symbolic import SymbolicWorld
from reactree_ros.world.virtualhome.tasks import parse_tasks

TARGET = "\nTarget_domain:\n"


class Sayings(LanguageModel):
    """Says one text after the other; with ``last`` the last one for ever."""

    def __init__(self, texts: Sequence[str], *, settle: bool = True, context: int | None = None) -> None:
        self.texts = list(texts)
        self.settle = settle
        self.context = context
        self.requests: list[DecisionRequest] = []
        self.cancelled = 0

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        words = len(request.prompt.split())
        if self.context is not None and words > self.context:
            return Pending.failed(PromptTooLong(words - self.context, self.context))
        self.requests.append(request)
        if not self.settle:
            return Pending(on_cancel=self._count)
        return Pending.of(Reply(self.texts.pop(0) if len(self.texts) > 1 else self.texts[0]))

    def count_tokens(self, text: str) -> int:
        return len(text.split())

    def _count(self) -> None:
        self.cancelled += 1


def run_of(
    model: LanguageModel,
    planner: str = "hiagent",
    *,
    world: ScriptedWorld | None = None,
    options: TreeOptions | None = None,
    listener: Listener | None = None,
) -> Episode:
    return Episode(
        "root",
        model=model,
        world=world or ScriptedWorld(),
        planner=planner_of(planner),
        options=options,
        listener=listener,
        clock=Clock(),
    )


def own_text(request: DecisionRequest) -> str:
    """What stands in a prompt after the starting observation."""
    return request.prompt.rpartition(TARGET)[2].removeprefix(f"Your task is to: root\n{START}\n")


def decisions(model: Sayings) -> list[str]:
    return [own_text(request) for request in model.requests if TARGET in request.prompt]


def summaries(model: Sayings) -> list[str]:
    return [request.prompt for request in model.requests if TARGET not in request.prompt]


def said_in(request: DecisionRequest) -> list[str]:
    return [turn.text for turn in request.turns if isinstance(turn, Said)]


SCRIPT = [
    " find the apple",
    "Action: go to kitchen 1",
    "Action: open fridge 1",
    "2 Subgoal:",
    " pick up the apple",
    "The fridge is open. Subgoal is met.",
    "Action: pick up apple 1",
    "Action: retrieve(1)",
    "3 Subgoal:",
    " rest",
    "You hold the apple. Subgoal is met.",
    "Action: go to kitchen 1",
    "Action: done",
]
G1, G2, G3 = "1 Subgoal: find the apple\n", "2 Subgoal: pick up the apple\n", "3 Subgoal: rest\n"
S1 = "Observation: The fridge is open. Subgoal is met.\n"
S2 = "Observation: You hold the apple. Subgoal is met.\n"
GO, OPEN, PICK = (
    f"Action: {skill}\nObservation: You {skill}.\n" for skill in ("go to kitchen 1", "open fridge 1", "pick up apple 1")
)
RETRIEVE = "Action: retrieve(1)\nObservation: Trajectory of subgoal 1 is retrieved.\n"


def test_the_context_of_each_request_is_the_papers_definition() -> None:
    model = Sayings(SCRIPT)
    result = run_of(model).run()
    assert decisions(model) == [
        "1 Subgoal:",
        G1,
        G1 + GO,
        G1 + GO + OPEN,
        G1 + GO + OPEN + "2 Subgoal:",
        G1 + S1 + G2,  # m_t: the first subgoal's pairs have given way to s_1
        G1 + S1 + G2 + PICK,
        G1 + GO + OPEN + G2 + PICK + RETRIEVE,  # m'_t: subgoal 1 in detail again
        G1 + GO + OPEN + G2 + PICK + RETRIEVE + "3 Subgoal:",
        G1 + S1 + G2 + S2 + G3,
        G1 + S1 + G2 + S2 + G3 + GO,
    ]
    # Three subgoals, two summaries, five actions; a retrieval is a step, the end is nothing.
    assert (result.status, result.end, result.decisions, result.steps) == ("success", "done", 10, 5)


def test_what_the_model_said_is_marked_in_every_prompt() -> None:
    model = Sayings(SCRIPT)
    run_of(model).run()
    for request in model.requests:
        lines = own_text(request).splitlines() if TARGET in request.prompt else []
        spoken = [*said_in(request), *([request.begun] if request.begun else [])]
        assert spoken == [line for line in lines if re.match(r"\d+ Subgoal:|Action: ", line)]


def test_what_may_be_said_is_constrained() -> None:
    model = Sayings(SCRIPT)
    run_of(model).run()
    skills = ["go to kitchen 1", "pick up apple 1", "open fridge 1"]

    def acting(*first: str, retrieve: Sequence[int] = ()) -> Choice:
        own = ["done", "failure", *(f"retrieve({number})" for number in retrieve)]
        return Choice((*first, *(f"Action: {skill}" for skill in [*own, *skills])))

    line = FreeText(("\n",))
    assert [request.may_say for request in model.requests] == [
        line,  # the first subgoal: there is no choice
        acting(),  # no two subgoals one after the other
        acting("2 Subgoal:"),
        acting("2 Subgoal:"),
        line,
        line,  # the summary
        acting(retrieve=[1]),
        acting("3 Subgoal:", retrieve=[1]),
        acting("3 Subgoal:"),  # the first one is in sight already
        line,
        line,
        acting(retrieve=[1, 2]),
        acting("4 Subgoal:", retrieve=[1, 2]),
    ]


def test_a_summary_is_asked_for_with_the_papers_prompt() -> None:
    model = Sayings(SCRIPT)
    run_of(model).run()
    first, second = summaries(model)
    assert first == (
        f"{prompt('reactree_ros.agent:prompts', 'summary.txt')}\n\n"
        f"## Trajectory\nObservation: {START}\n{GO}{OPEN}\n"
        "## Subgoal:\nfind the apple\n\n"
        "### Output:\n"
    )
    trajectory = f"Observation: You open fridge 1.\n{PICK}{RETRIEVE}".rstrip("\n")
    assert second == f"{summary_request(trajectory, 'pick up the apple').text}\n"


def test_the_text_holds_everything_and_so_does_the_experience() -> None:
    listener = Heard()
    run = run_of(Sayings(SCRIPT), listener=listener)
    run.run()
    (node,) = run.context.nodes
    assert [turn.text for turn in node.turns if isinstance(turn, Said)] == listener.heard
    assert listener.heard[:4] == [
        "Think: Subgoal 1: find the apple",
        "Act: go to kitchen 1",
        "Act: open fridge 1",
        "Think: Subgoal 2: pick up the apple",
    ]
    assert "Think: Subgoal 1 came to: The fridge is open. Subgoal is met." in listener.heard
    (experience,) = run.experiences()
    assert told_as_subgoals(experience) == (
        f"Your task is to: root\n{START}\n"
        + (G1 + GO + OPEN + G2 + PICK + RETRIEVE + G3 + GO)
        .replace("You open fridge 1.", "You open fridge 1. Subgoal is met.")
        .replace("is retrieved.", "is retrieved. Subgoal is met.")
        + "Action: done"
    )


WITHOUT_SUMMARIES = [text for text in SCRIPT if "Subgoal is met." not in text]
WITHOUT_RETRIEVAL = [text for text in SCRIPT if "retrieve" not in text]


@pytest.mark.parametrize("retrieval", ["true", "false"])
def test_without_summaries_the_last_observation_stands_for_a_subgoal(retrieval: str) -> None:
    script = [text for text in WITHOUT_SUMMARIES if retrieval == "true" or "retrieve" not in text]
    model = Sayings(script)
    result = run_of(model, f"hiagent:summaries=false:retrieval={retrieval}").run()
    assert summaries(model) == []
    last = RETRIEVE.partition("\n")[2] if retrieval == "true" else "Observation: You pick up apple 1.\n"
    assert decisions(model)[-1] == f"{G1}Observation: You open fridge 1.\n{G2}{last}{G3}{GO}"
    assert result.decisions == 3 + result.steps


@pytest.mark.parametrize("planner", ["hiagent:retrieval=false", "hiagent:summaries=false:retrieval=false"])
def test_without_retrieval_it_is_neither_offered_nor_spoken_of(planner: str) -> None:
    model = Sayings(WITHOUT_RETRIEVAL if "summaries" not in planner else [*WITHOUT_RETRIEVAL[:5], "Action: done"])
    run_of(model, planner).run()
    assert all("retrieve(" not in request.prompt for request in model.requests)
    offered = [request.may_say.options for request in model.requests if isinstance(request.may_say, Choice)]
    assert all("retrieve" not in option for options in offered for option in options)


def test_with_working_memory_it_recalls() -> None:
    model = Sayings([" find", "Action: recall location of apple", "Action: done"])
    result = run_of(model, "hiagent_wm").run()
    assert own_text(model.requests[-1]).startswith("1 Subgoal: find\nAction: recall location of apple\nObservation: ")
    assert "recall location of" in model.requests[0].prompt
    assert (result.decisions, result.steps) == (2, 1)
    model = Sayings([" find", "Action: done"])
    run_of(model).run()
    assert not any("recall" in request.prompt for request in model.requests)


@pytest.mark.parametrize(
    ("texts", "end"),
    [
        ([" s", "Action: failure"], "failure"),
        ([""], "out_of_decisions"),  # no subgoal at all
        (["nonsense"], "out_of_decisions"),  # a subgoal, then nothing that may be said
        ([" s", *["Action: go to kitchen 1", "2 Subgoal:", " s", "over"] * 99], "out_of_decisions"),
        ([" s", *["Action: go to kitchen 1"] * 99], "out_of_steps"),
        (
            [" s", "Action: go to kitchen 1", "2 Subgoal:", " t", "over", *["Action: retrieve(1)"] * 99],
            "out_of_decisions",
        ),
    ],
)
def test_every_run_ends(texts: list[str], end: str) -> None:
    run = run_of(Sayings(texts), options=TreeOptions(max_decisions=12, max_steps=10))
    result = run.run()
    assert (result.status, result.end) == ("failure", end)
    assert result.decisions <= 12
    last = {"failure": "Act: failure", "out_of_steps": "Max steps", "out_of_decisions": "Max decisions"}[end]
    assert run.context.nodes[0].text.endswith(last)


def test_what_may_not_be_said_is_refused_and_the_model_is_told() -> None:
    listener = Heard()
    model = Sayings([" s", "Action: fly", "Action: done"])
    result = run_of(model, listener=listener).run()
    reason = "'Action: fly' is not among what is available now."
    assert listener.heard == ["Think: Subgoal 1: s", f"Act: fly ✗ {reason}", "Act: done"]
    assert decisions(model)[-1] == f"1 Subgoal: s\nAction: fly\nObservation: {reason}\n"
    assert (result.decisions, result.steps) == (2, 0)


def test_a_refusal_of_the_world_is_an_observation() -> None:
    model = Sayings([" s", "Action: open fridge 1", "Action: done"])
    run_of(model, world=ScriptedWorld(refused=["open fridge 1"])).run()
    assert decisions(model)[-1] == "1 Subgoal: s\nAction: open fridge 1\nObservation: You cannot open fridge 1.\n"


def test_an_empty_summary_gives_way_to_the_last_observation() -> None:
    model = Sayings([" s", "Action: open fridge 1", "2 Subgoal:", " t", "", "Action: done"])
    run_of(model).run()
    assert decisions(model)[-1] == "1 Subgoal: s\nObservation: You open fridge 1.\n2 Subgoal: t\n"


@pytest.mark.parametrize("texts", [["2 Subgoal: s"], ["Subgoal:  s"], [" s Action: go to kitchen 1"]])
def test_a_subgoal_may_repeat_what_the_prompt_begins_with(texts: list[str]) -> None:
    model = Sayings([*texts, "Action: done"])
    run_of(model).run()
    assert decisions(model)[-1] == "1 Subgoal: s\n"


@pytest.mark.parametrize(("replies", "in_flight"), [(0, "subgoal"), (1, "action"), (4, "summary")])
def test_a_request_in_flight_is_cancelled_once(replies: int, in_flight: str) -> None:
    model = Sayings([" s", "Action: open fridge 1", "2 Subgoal:", " t", ""])
    run = run_of(model)
    while len(model.requests) <= replies:
        model.settle = len(model.requests) < replies
        run.tick()
    run.interrupt()
    run.interrupt()
    assert (model.cancelled, run.root.status) == (1, Status.INVALID)
    assert isinstance(model.requests[-1].may_say, Choice if in_flight == "action" else FreeText)


def test_a_skill_in_flight_is_cancelled_once() -> None:
    world = ScriptedWorld()
    run = run_of(Sayings([" s", "Action: open fridge 1"]), world=world)
    run.tick()
    world.settle = False
    while not world.executed:
        run.tick()
    run.interrupt()
    assert dict(world.cancelled) == {"open fridge 1": 1}


def opaque(text: str) -> Experience:
    """An experience in which nobody said anything."""
    turns = (Told(text),)
    return Experience(subgoal="x", turns=turns, end=End.SUCCESS, task_id="1", task_name="test", decision=1, depth=1)


def recorded(text: str) -> Experience:
    return Experience.from_text(text, task_id="1", task_name="test", decision=1, depth=1)


def test_a_prompt_that_is_too_long_loses_examples() -> None:
    listener = Heard()
    run = run_of(Sayings([" s", "Action: done"], context=600), listener=listener)
    found = tuple(opaque(word * 300) for word in ("example ", "other "))
    run.context.examples = lambda _: Pending.of(found)
    assert run.run().status == "success"
    assert listener.heard == ["1 examples dropped", "Think: Subgoal 1: s", "Act: done"]


def test_a_prompt_that_is_too_long_without_examples_ends_the_run() -> None:
    result = run_of(Sayings([""], context=10)).run()
    assert (result.end, result.decisions) == ("context_full", 0)
    assert "tokens too long" in result.message


def test_without_memory_the_fixed_examples_are_given() -> None:
    for planner, count in (("hiagent", 2), ("hiagent:retrieval=false", 1)):
        model = Sayings([" s", "Action: done"])
        run_of(model, planner).run()
        assert model.requests[0].prompt.count("Your task is to: ") == count + 1
        assert prompt(PROMPTS, "wah_nl/example.txt") in model.requests[0].prompt


def test_examples_of_other_planners_are_told_as_subgoals() -> None:
    react = (
        f"Your task is to: eat\n{START}\nThink: first the fridge.\nOK.\nThink: now I open it.\nOK.\n"
        "Act: open fridge 1\nYou open fridge\nAct: pick up apple 1\nYou pick up apple.\nAct: done"
    )
    assert told_as_subgoals(recorded(react)) == (
        f"Your task is to: eat\n{START}\n1 Subgoal: now I open it.\nAction: open fridge 1\n"
        "Observation: You open fridge\nAction: pick up apple 1\nObservation: You pick up apple.\nAction: done"
    )
    expansion = f"Your task is to: eat\n{START}\nThink: a\nOK.\nExpand:\n- control flow: sequence\n- subgoals: a, b"
    assert told_as_subgoals(recorded(expansion)) == ""
    assert told_as_subgoals(opaque("something else")) == "something else"


@pytest.mark.parametrize(
    ("summary", "met"),
    [
        ("You hold it. Subgoal is met.", True),
        ("You do not hold anything. The subgoal is met.", True),
        ("The fridge is closed. Subgoal is not met.", False),
        ("The subgoal hasn't been met", False),
        ("You hold it.", None),
    ],
)
def test_whether_a_subgoal_is_met_is_read_off_its_summary(summary: str, met: bool | None) -> None:
    assert judgement(summary) is met


@pytest.mark.parametrize(("name", "seed", "task_id"), [("example", 54, 5), ("example_retrieval", 58, 1)])
def test_the_worked_examples_are_what_the_world_answers(name: str, seed: int, task_id: int) -> None:
    house = (task for one in generate_house(seed=seed, rooms=3, tasks=5) for task in parse_tasks(one))
    task = next(task for task in house if task.task_id == task_id)
    world = SymbolicWorld(task)
    header, start, *lines = prompt(PROMPTS, f"wah_nl/{name}.txt").split("\n")
    assert (header, start) == (f"Your task is to: {task.instruction}", world.observe().take().text)
    for line, after in zip(lines, [*lines[1:], ""], strict=True):
        action = line.removeprefix("Action: ")
        if action == line or action == "done" or action.startswith("retrieve("):
            continue
        assert action in world.available_skills().take()
        seen = world.execute(action).take().text
        assert re.sub(r"\.? Subgoal is (not )?met\.$", "", after) in (
            f"Observation: {seen}",
            f"Observation: {seen}"[:-1],
        )
    assert lines[-1] == "Action: done"
    assert world.score().take().gsr == 1.0  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "planner", ["hiagent", "hiagent_wm", "hiagent:summaries=false", "hiagent:summaries=false:retrieval=false"]
)
@pytest.mark.parametrize("seed", [7, 54])
def test_the_expert_carries_out_a_whole_task_by_subgoals(planner: str, seed: int) -> None:
    (task, *_) = parse_tasks(generate_house(seed=seed, tasks=1)[0])
    run = Episode(task.instruction, model=ExpertModel(), world=SymbolicWorld(task), planner=planner_of(planner))
    result = run.run()
    assert (result.gsr, result.end) == (1.0, "done")
    assert isinstance(run.root, HiAgentNode)
    chunks = run.root.memory.chunks
    assert len(chunks) > 1
    if "summaries" not in planner:
        assert all((chunk.summary or "").endswith("Subgoal is met.") for chunk in chunks[:-1])


def test_the_expert_says_when_it_does_not_understand() -> None:
    (task, *_) = parse_tasks(generate_house(seed=7, tasks=1)[0])
    world = SymbolicWorld(task)
    result = Episode("Sing me a song.", model=ExpertModel(), world=world, planner=planner_of("hiagent")).run()
    assert (result.end, result.steps) == ("failure", 0)


def test_a_household_without_worked_examples_gets_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "garden" / "prompts"
    folder.mkdir(parents=True)
    (folder / "hiagent_system.txt").write_text("Rake the garden.\n")
    monkeypatch.syspath_prepend(tmp_path)

    class Garden(ScriptedWorld):
        household = replace(WAH_NL, name="garden", prompts="garden:prompts")

    model = Sayings([" s", "Action: done"])
    assert run_of(model, world=Garden()).run().status == "success"
    assert model.requests[0].prompt.startswith("Rake the garden.")
    assert "Source domain:\n\nTarget_domain:" in model.requests[0].prompt


def test_a_household_without_prompts_is_named() -> None:
    class Elsewhere(ScriptedWorld):
        household = ALFRED

    with pytest.raises(UserError, match="hiagent has no prompts for the household alfred; use another planner"):
        run_of(Sayings([""]), world=Elsewhere())
