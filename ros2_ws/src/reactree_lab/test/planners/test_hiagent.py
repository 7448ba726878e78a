"""HiAgent: what it asks, what its prompt holds after each step, and how it ends."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from chatting import Chatting, Say, cut, saying
from doubles import START, Clock, Heard, ScriptedWorld
from py_trees.common import Status

from reactree_lab.household.generator import generate_house
from reactree_lab.planners.hiagent import expert as subgoals
from reactree_lab.planners.hiagent.planner import PROMPTS, HiAgentNode, told_as_subgoals
from reactree_lab.worlds.ai2thor.wording import ALFRED
from reactree_ros.agent.decision import Decision
from reactree_ros.agent.prompt import prompt, summary_request
from reactree_ros.agent.subgoal_grammar import SubgoalGrammar
from reactree_ros.agent.turns import Said, Told, render
from reactree_ros.background.pending import Pending
from reactree_ros.episode import Episode
from reactree_ros.errors import UserError
from reactree_ros.household.expert.model import ExpertModel
from reactree_ros.household.household import WAH_NL
from reactree_ros.household.symbolic import SymbolicWorld
from reactree_ros.household.tasks import parse_tasks
from reactree_ros.llm.chat import chat_messages
from reactree_ros.llm.port import DecisionRequest, FreeText, LanguageModel, PromptTooLong, Reply
from reactree_ros.memory.experience import End, Experience
from reactree_ros.planners.spec import planner as planner_of
from reactree_ros.tree.goal_node import GoalNode
from reactree_ros.tree.listener import Listener
from reactree_ros.tree.options import TreeOptions

TARGET = "\nTarget_domain:\n"


class Sayings(LanguageModel):
    """Says one text after the other, the last one for ever; a token is a word."""

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
        return Pending.ready(Reply(self.texts.pop(0) if len(self.texts) > 1 else self.texts[0]))

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
    "1 Subgoal: find the apple\nAction: go to kitchen 1",
    "Action: open fridge 1",
    "2 Subgoal: pick up the apple\nAction: pick up apple 1",
    "The fridge is open. Subgoal is met.",
    "Action: retrieve(1)",
    "3 Subgoal: rest\nAction: go to kitchen 1",
    "You hold the apple. Subgoal is met.",
    "Action: done",
]
START_S = "Subgoal: s\nAction: go to kitchen 1"
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
        "",
        G1 + GO,
        G1 + GO + OPEN,
        G1 + S1 + G2 + PICK,  # m_t: the first subgoal's pairs have given way to s_1
        G1 + GO + OPEN + G2 + PICK + RETRIEVE,  # m'_t: subgoal 1 in detail again
        G1 + S1 + G2 + S2 + G3 + GO,
    ]
    # Three subgoals, two summaries, five actions; a retrieval is a step, the end is nothing.
    assert (result.status, result.end, result.decisions, result.steps) == ("success", "done", 10, 5)


def test_a_subgoal_and_its_first_action_are_one_request_two_decisions_and_one_step() -> None:
    listener = Heard()
    run = run_of(Sayings([START_S, "Action: done"]), listener=listener)
    result = run.run()
    assert listener.heard == ["Think: Subgoal 1: s", "Act: go to kitchen 1", "Act: done"]
    assert (len(run.context.replies), result.decisions, result.steps) == (2, 2, 1)


def test_what_a_reply_took_is_told_with_its_first_decision_only() -> None:
    told: list[int | None] = []

    class Tokens(Listener):
        def decided(self, node: GoalNode, decision: Decision, reply: Reply) -> None:
            told.append(reply.output_tokens)

    class Counting(Sayings):
        def decide(self, request: DecisionRequest) -> Pending[Reply]:
            return Pending.ready(replace(super().decide(request).take(), output_tokens=7))

    run_of(Counting([START_S, "Action: done"]), listener=Tokens()).run()
    assert told == [7, 0, 7]


def test_the_limit_is_looked_at_between_a_subgoal_and_its_action() -> None:
    world = ScriptedWorld()
    result = run_of(Sayings([START_S]), world=world, options=TreeOptions(max_decisions=1)).run()
    assert (result.end, result.decisions, world.executed) == ("out_of_decisions", 1, [])


def test_what_the_model_said_is_marked_in_every_prompt() -> None:
    model = Sayings(SCRIPT)
    run_of(model).run()
    for request in model.requests:
        lines = own_text(request).splitlines() if TARGET in request.prompt else []
        assert said_in(request) == [line for line in lines if re.match(r"\d+ Subgoal:|Action: ", line)]


def test_the_prompt_ends_with_what_was_told_or_seen_whenever_it_is_asked() -> None:
    model = Sayings(["Sure!", "Subgoal: find it", *SCRIPT[:4], "hm", *SCRIPT[4:]])
    run_of(model).run()
    for request in model.requests:
        roles = [message["role"] for message in chat_messages(request.turns, request.begun)]
        assert roles[-1] == "user"
        assert all(before != after for before, after in itertools.pairwise(roles))


def test_what_may_be_said_is_constrained() -> None:
    model = Sayings(SCRIPT)
    run_of(model).run()
    skills = ["go to kitchen 1", "pick up apple 1", "open fridge 1"]

    def at(number: int, *retrieve: int) -> SubgoalGrammar:
        own = ["done", "failure", *(f"retrieve({number})" for number in retrieve)]
        return SubgoalGrammar([*own, *skills], number=number, goes_on=number > 1)

    summary = FreeText(("\n##Trajectory", "\nAct:", "\nAction:"))
    assert [request.may_say for request in model.requests] == [
        at(1),  # there is no subgoal yet
        at(2, 1),
        at(2, 1),
        summary,
        at(3, 1, 2),  # the second, too: the third may begin with it
        at(3, 1, 2),
        summary,
        at(4, 1, 2, 3),
    ]


def test_a_subgoal_may_begin_with_the_retrieval_of_the_one_that_it_ends() -> None:
    model = Sayings([START_S, "Subgoal: see why\nAction: retrieve(1)", "Over.", "Action: done"])
    run_of(model).run()
    assert decisions(model)[-1] == f"1 Subgoal: s\n{GO}2 Subgoal: see why\n{RETRIEVE}"


@pytest.mark.parametrize(
    "actions", [["Action: retrieve(1)"], ["Subgoal: t\nAction: retrieve(1)", "", "Action: retrieve(1)"]]
)
def test_what_is_shown_already_is_not_retrieved_again(actions: list[str]) -> None:
    model = Sayings([START_S, *actions, "Action: done"])
    assert run_of(model).run().end == "done"
    assert decisions(model)[-1].endswith(
        "Action: retrieve(1)\nObservation: Trajectory of subgoal 1 is shown already.\n"
    )


def test_a_summary_is_asked_for_with_the_papers_prompt() -> None:
    model = Sayings(SCRIPT)
    run_of(model).run()
    first, second = summaries(model)
    asked = prompt("reactree_ros.agent:prompts", "summary.txt")
    assert first == (
        f"{asked}\n\n##Trajectory\nObservation: {START}\n{GO}{OPEN}\n##Subgoal:\nfind the apple\n\n###Output:\n"
    )
    assert second.startswith(f"{asked}\n\n##Trajectory\nObservation: You open fridge 1.\n{PICK}{RETRIEVE}\n##Subgoal:")


def test_the_summary_request_is_c1_of_the_paper_with_an_example(papers: Path) -> None:
    appendix = (papers / "hiagent.md").read_text().partition("### C.1")[2].partition("### C.2")[0]
    wording = [line for line in appendix.splitlines()[1:] if line and not line.startswith("\\{")]
    asked = [line for line in summary_request([], "s").text.splitlines() if line in wording]
    headings = wording[-3:]
    assert headings == ["##Trajectory", "##Subgoal:", "###Output:"]
    assert asked == [*wording[:-3], *headings, *headings]  # the example, then what is asked


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
    assert render(told_as_subgoals(experience)) == (
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
    model = Sayings(WITHOUT_RETRIEVAL if "summaries" not in planner else [*WITHOUT_RETRIEVAL[:3], "Action: done"])
    assert run_of(model, planner).run().end == "done"
    assert all("retrieve(" not in request.prompt for request in model.requests)
    offered = [
        skill for one in model.requests if isinstance(one.may_say, SubgoalGrammar) for skill in one.may_say.skills
    ]
    assert "done" in offered
    assert not any("retrieve" in skill for skill in offered)


def test_with_working_memory_it_recalls() -> None:
    model = Sayings(["Subgoal: find\nAction: recall location of apple", "Action: done"])
    result = run_of(model, "hiagent_wm").run()
    assert own_text(model.requests[-1]).startswith("1 Subgoal: find\nAction: recall location of apple\nObservation: ")
    assert "recall location of" in model.requests[0].prompt
    assert (result.decisions, result.steps) == (2, 1)
    model = Sayings([START_S, "Action: done"])
    run_of(model).run()
    assert not any("recall" in request.prompt for request in model.requests)


@pytest.mark.parametrize(
    ("texts", "end"),
    [
        ([START_S, "Action: failure"], "failure"),
        (["Subgoal: s\nAction: failure"], "failure"),
        ([""], "stuck"),  # nothing at all
        (["Subgoal:"], "stuck"),
        (["Subgoal: s"], "stuck"),  # a subgoal without an action
        ([START_S, "nonsense"], "out_of_decisions"),
        ([START_S, *["Subgoal: s\nAction: go to kitchen 1", "over"] * 99], "out_of_decisions"),
        ([START_S, *["Action: go to kitchen 1"] * 99], "out_of_steps"),
        ([START_S, "Subgoal: t\nAction: open fridge 1", "over", *["Action: retrieve(1)"] * 99], "out_of_decisions"),
    ],
)
def test_every_run_ends(texts: list[str], end: str) -> None:
    run = run_of(Sayings(texts), options=TreeOptions(max_decisions=12, max_steps=10, refused_in_a_row=0))
    result = run.run()
    assert (result.status, result.end) == ("failure", end)
    assert result.decisions <= 12
    last = {
        "failure": "Act: failure",
        "out_of_steps": "Max steps",
        "out_of_decisions": "Max decisions",
        "stuck": "stuck: ",
    }[end]
    assert run.context.nodes[0].text.splitlines()[-1].startswith(last)


def test_what_may_not_be_said_is_refused_and_the_model_is_told() -> None:
    listener = Heard()
    model = Sayings([START_S, "Action: fly", "Action: done"])
    result = run_of(model, listener=listener).run()
    reason = "'fly' is not among the skills that are available now."
    reason += " Some that are: go to kitchen 1, pick up apple 1, open fridge 1."
    assert listener.heard == ["Think: Subgoal 1: s", "Act: go to kitchen 1", f"Action: fly ✗ {reason}", "Act: done"]
    assert decisions(model)[-1] == f"1 Subgoal: s\n{GO}Action: fly\nObservation: {reason}\n"
    assert (result.decisions, result.steps) == (3, 1)


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("Subgoal: find the apple", "A subgoal comes with its first action."),
        ("Action: go to kitchen 1", "There is no subgoal yet."),
        ("", "Nothing was said."),
    ],
)
def test_what_is_missing_from_the_first_reply_is_told_and_no_prompt_is_asked_twice(said: str, reason: str) -> None:
    model = Sayings([said, said, START_S, "Action: done"])
    result = run_of(model).run()
    assert (result.end, result.decisions, result.steps) == ("done", 4, 1)
    prompts = [request.prompt for request in model.requests]
    assert len(set(prompts)) == len(prompts)
    assert decisions(model)[1].startswith(f"{said}\nObservation: {reason}")
    assert decisions(model)[-1] == f"1 Subgoal: s\n{GO}"  # forgotten with the first subgoal


@pytest.mark.parametrize(("replies", "in_flight"), [(0, SubgoalGrammar), (2, FreeText)])
def test_a_request_in_flight_is_cancelled_once(replies: int, in_flight: type) -> None:
    model = Sayings([START_S, "Subgoal: t\nAction: go to kitchen 1", ""])
    run = run_of(model)
    for _ in range(50):
        if len(model.requests) > replies:
            break
        model.settle = len(model.requests) < replies
        run.tick()
    run.interrupt()
    run.interrupt()
    assert (model.cancelled, run.root.status) == (1, Status.INVALID)
    assert isinstance(model.requests[-1].may_say, in_flight)


def opaque(text: str) -> Experience:
    """An experience in which nobody said anything."""
    turns = (Told(text),)
    return Experience(subgoal="x", turns=turns, end=End.SUCCESS, task_id="1", task_name="test", decision=1, depth=1)


def recorded(text: str) -> Experience:
    return Experience.from_text(text, task_id="1", task_name="test", decision=1, depth=1)


def test_a_prompt_that_is_too_long_loses_examples() -> None:
    listener = Heard()
    run = run_of(Sayings([START_S, "Action: done"], context=600), listener=listener)
    found = tuple(opaque(word * 300) for word in ("example ", "other "))
    run.context.examples = lambda _: Pending.ready(found)
    assert run.run().status == "success"
    assert listener.heard == ["1 examples dropped", "Think: Subgoal 1: s", "Act: go to kitchen 1", "Act: done"]


def test_without_memory_the_fixed_examples_are_given() -> None:
    for planner, count in (("hiagent", 2), ("hiagent:retrieval=false", 1)):
        model = Sayings([START_S, "Action: done"])
        run_of(model, planner).run()
        assert model.requests[0].prompt.count("Your task is to: ") == count + 1
        assert prompt(PROMPTS, "wah_nl/example.txt") in model.requests[0].prompt


def test_examples_of_other_planners_are_told_as_subgoals() -> None:
    react = (
        f"Your task is to: eat\n{START}\nThink: first the fridge.\nOK.\nThink: now I open it.\nOK.\n"
        "Act: open fridge 1\nYou open fridge\nAct: pick up apple 1\nYou pick up apple.\nAct: done"
    )
    assert render(told_as_subgoals(recorded(react))) == (
        f"Your task is to: eat\n{START}\n1 Subgoal: now I open it.\nAction: open fridge 1\n"
        "Observation: You open fridge\nAction: pick up apple 1\nObservation: You pick up apple.\nAction: done"
    )
    expansion = f"Your task is to: eat\n{START}\nThink: a\nOK.\nExpand:\n- control flow: sequence\n- subgoals: a, b"
    assert told_as_subgoals(recorded(expansion)) == ()
    assert render(told_as_subgoals(opaque("something else"))) == "something else"


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


def spoken_by_the_expert(dress: Callable[[str], str]) -> Say:
    """What the expert says as HiAgent, as a model would dress it."""
    return lambda generation: dress(subgoals.say(generation.prompt))


HABITS: dict[str, Callable[[str], str]] = {
    "on one line": lambda said: said.replace("\n", " "),
    "blank lines first": lambda said: f"\n\n{said}\n",
    "windows line ends": lambda said: f"{said}\n".replace("\n", "\r\n"),
    "without a number": lambda said: re.sub(r"^\d+ Subgoal", "Subgoal", said),
    "in bold": lambda said: re.sub(r"^((?:\d+ )?\w+:)", r"**\1**", said, flags=re.MULTILINE),
    "a preamble": lambda said: f"Sure! Here is the next step:\n\n{said}",
    "a thought first": lambda said: f"Thought: I look at what is left to do.\n{said}",
    "a list": lambda said: re.sub(r"^(?=\S)", "- ", said, flags=re.MULTILINE),
    "a fence": lambda said: f"```\n{said}\n```",
    "thinking in tags": lambda said: f"<think>\nAction: failure? No.\n</think>\n\n{said}",
    "thinking whose tag was in the prompt": lambda said: f"I could say Action: failure.\n</think>\n{said}",
}


def of_the_house(model: LanguageModel, planner: str = "hiagent") -> Episode:
    (task, *_) = parse_tasks(generate_house(seed=7, tasks=1)[0])
    return Episode(task.instruction, model=model, world=SymbolicWorld(task), planner=planner_of(planner))


@pytest.mark.parametrize("habit", HABITS)
def test_a_task_is_carried_out_however_subgoals_actions_and_summaries_are_dressed(habit: str) -> None:
    plain, dressed = Chatting(spoken_by_the_expert(str)), Chatting(spoken_by_the_expert(HABITS[habit]))
    expected = of_the_house(plain).run()
    result = of_the_house(dressed).run()
    assert (result.gsr, result.end) == (1.0, "done")
    assert (result.decisions, result.steps) == (expected.decisions, expected.steps)
    assert len(dressed.requests) == len(plain.requests)


@pytest.mark.parametrize("said", ["Subgoal: find the ap", "Subgoal: find the apple\nAction: go to"])
def test_a_subgoal_and_an_action_that_were_cut_are_not_taken(said: str) -> None:
    listener = Heard()
    model = Chatting(saying(*[cut(said)] * 4, START_S, "Action: done"))  # one request and its three retries
    assert run_of(model, listener=listener).run().end == "done"
    refused, *decided = listener.heard
    assert refused.startswith(f"{said} ✗ ")
    assert decided == ["Think: Subgoal 1: s", "Act: go to kitchen 1", "Act: done"]


LONG_START = ["Subgoal: s\nAction: go to kitchen 1", "Action: open fridge 1", "Action: pick up apple 1"]


def words_of(text: str) -> int:
    return len(text.split())


def test_what_was_retrieved_is_hidden_again_where_the_prompt_is_too_long() -> None:
    script = [*LONG_START, "Subgoal: t\nAction: go to kitchen 1", "Over.", "Action: retrieve(1)", "Action: retrieve(1)"]
    script.append("Action: done")
    wide = Sayings(script)
    run_of(wide, "hiagent:fixed_example=false").run()
    detailed = next(request for request in wide.requests if "is retrieved" in request.prompt)
    narrow = Sayings(script, context=words_of(detailed.prompt) - 1)
    result = run_of(narrow, "hiagent:fixed_example=false").run()
    assert result.end == "done"
    assert decisions(narrow)[-1] == (
        "1 Subgoal: s\nObservation: Over. (Its details are too long to be shown.)\n"
        f"2 Subgoal: t\n{GO}{RETRIEVE}"
        "Action: retrieve(1)\nObservation: Trajectory of subgoal 1 is too long to be shown.\n"
    )


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

    model = Sayings([START_S, "Action: done"])
    assert run_of(model, world=Garden()).run().status == "success"
    assert model.requests[0].prompt.startswith("Rake the garden.")
    assert "Source domain:\n\nTarget_domain:" in model.requests[0].prompt


def test_a_household_without_prompts_is_named() -> None:
    class Elsewhere(ScriptedWorld):
        household = ALFRED

    with pytest.raises(UserError, match="hiagent has no prompts for the household alfred; use another planner"):
        run_of(Sayings([""]), world=Elsewhere())
