"""The prompt is what the paper's listings and the recordings have."""

from __future__ import annotations

import json
import pickle
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import reactree_ros
from reactree_lab.worlds.ai2thor.wording import ALFRED
from reactree_ros.agent.budget import Budget, Limit
from reactree_ros.agent.control_flow import ControlFlow, default_flows
from reactree_ros.agent.decision import Counts
from reactree_ros.agent.household import Household
from reactree_ros.agent.kinds.act import Act
from reactree_ros.agent.kinds.expand import Expand
from reactree_ros.agent.kinds.think import BeginSubgoal, Summarise, Think, WriteCode
from reactree_ros.agent.observation import Observation
from reactree_ros.agent.prompt import (
    Siblings,
    judgement,
    read_summary,
    reply_rule,
    start_turn,
    summary_request,
    system_text,
    task_turn,
    without_oldest,
)
from reactree_ros.agent.transcript import Example, TranscriptError, parse_transcript, shortened
from reactree_ros.agent.turns import (
    About,
    Said,
    Saw,
    Told,
    ToldStart,
    Turn,
    is_closed,
    node_text,
    render,
    turn_from_dict,
    turn_to_dict,
)
from reactree_ros.household.household import WAH_NL
from reactree_ros.tree.flows import FallbackFlow, ParallelFlow, SequenceFlow


def listing(papers: Path, title: str) -> str:
    text = (papers / "reactree.md").read_text(encoding="utf-8").partition(title)[2].partition("Source domain")[0]
    return plain(text.replace("**", "").replace("```", ""))


def plain(text: str) -> str:
    return re.sub(r"\s+", " ", text.replace("“", '"').replace("”", '"')).strip()


@pytest.mark.parametrize(
    ("title", "household", "control_flows", "recall"),
    [
        ("Listing 1: Prompt template of *ReActTree+WM* for WAH-NL", WAH_NL, None, True),
        ("Listing 2: Prompt template of *ReActTree+WM* for ALFRED", ALFRED, None, False),
        ("Listing 5: Prompt template of ReAct+WM for WAH-NL", WAH_NL, (), True),
        ("Listing 6: Prompt template of ReAct+WM for ALFRED", ALFRED, (), False),
    ],
)
def test_system_texts_are_the_papers(
    papers: Path, title: str, household: Household, control_flows: tuple[type[ControlFlow], ...] | None, recall: bool
) -> None:
    assert plain(system_text(household, control_flows=control_flows, recall=recall)) == listing(papers, title)


def test_the_recall_action_is_there_only_with_working_memory() -> None:
    for household in (WAH_NL, ALFRED):
        for flows in (None, (SequenceFlow,), ()):
            with_memory = system_text(household, control_flows=flows, recall=True)
            without = system_text(household, control_flows=flows, recall=False)
            assert with_memory.replace("recall location of, ", "") == without
            assert "recall" not in without


def test_a_system_text_speaks_of_the_allowed_control_flows_alone() -> None:
    flows = (SequenceFlow, FallbackFlow)
    last = system_text(WAH_NL, control_flows=flows).rpartition("Control flow can be ")[2]
    assert last.startswith('"sequence" (achieve subgoals sequentially; ')
    assert 'is interrupted) or "fallback" (' in last
    assert "parallel" not in last
    last = system_text(WAH_NL, control_flows=flows[:1]).rpartition("Control flow can be ")[2]
    assert last.startswith('"sequence" (')
    assert last.endswith("is interrupted).")


def test_a_root_has_its_task() -> None:
    assert task_turn("Put it away.").text == "Your task is to: Put it away."


@pytest.mark.parametrize(
    ("flow", "phrase"),
    [(SequenceFlow, "in sequence"), (FallbackFlow, "using a fallback strategy"), (ParallelFlow, "in parallel")],
)
def test_a_child_is_told_where_it_stands(flow: type[ControlFlow], phrase: str) -> None:
    text = task_turn("a", Siblings("goal", flow(), ("a", "b", "c"))).text
    assert text == (
        "Your primary goal is to: goal\n"
        f"To achieve this, you should perform your sibling tasks {phrase}. At this level, your sibling tasks are: "
        "a, b, and c.\nYour task is to: a"
    )


def test_two_siblings_are_joined_like_three_and_one_stands_alone() -> None:
    assert "are: a, and b." in task_turn("a", Siblings("goal", SequenceFlow(), ("a", "b"))).text
    assert "are: a." in task_turn("a", Siblings("goal", SequenceFlow(), ("a",))).text


def test_examples_stand_between_source_and_target() -> None:
    start = start_turn("S", [Example.of_text("one\nAct: done"), Example.of_text("two")])
    assert (start.text, start.about) == ("S\nSource domain:\none\nAct: done\ntwo\nTarget_domain:", About.SYSTEM)
    assert start_turn("S", []).text == "S\nSource domain:\n\nTarget_domain:"


def test_the_rule_says_how_each_kind_of_decision_that_is_told_begins() -> None:
    assert reply_rule((SequenceFlow,)).endswith("It starts with 'Think: ', 'Act: ' or 'Expand:'.")
    assert reply_rule(()).endswith("It starts with 'Think: ' or 'Act: '.")
    assert reply_rule((), asks=True).endswith("It starts with 'Think: ', 'Act: ' or 'Ask: '.")
    assert "one decision" not in start_turn("S", (), reply_rule(())).text


def test_what_is_left_out_leaves_nothing_behind() -> None:
    assert start_turn("", [Example.of_text("one")]).text == "Source domain:\none\nTarget_domain:"
    assert start_turn("", []).text == "Target_domain:"


LEFT_OUT = Told("(earlier actions are left out)", About.SUMMARY)
TRAJECTORY: list[Turn] = [
    Saw("Observation: You are in the kitchen."),
    *(Said("Action: open fridge 1"), Saw("Observation: You open fridge.")),
    *(Said("Action: go to table 1"), Saw("Observation: You arrive at the table.")),
]


def words(text: str) -> int:
    return len(text.split())


def test_the_request_shows_the_trajectory_and_the_subgoal_behind_an_example() -> None:
    asked = summary_request(TRAJECTORY, "find a plate").text
    assert asked.endswith(f"\n\n##Trajectory\n{render(TRAJECTORY)}\n\n##Subgoal:\nfind a plate\n\n###Output:")
    assert [asked.count(heading) for heading in ("##Trajectory\n", "##Subgoal:\n", "###Output:")] == [2, 2, 2]


@pytest.mark.parametrize(("excess", "left"), [(1, 1), (6, 3), (9, 3), (17, 5)])
def test_the_oldest_actions_are_left_out_with_what_came_of_them(excess: int, left: int) -> None:
    rest = TRAJECTORY[left:]
    assert without_oldest(TRAJECTORY, excess, count=words) == ([LEFT_OUT, *rest] if rest else [])


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 2)), max_size=8), st.integers(1, 40))
def test_what_is_left_is_an_end_of_the_trajectory_that_is_so_much_shorter(
    sizes: list[tuple[int, int]], excess: int
) -> None:
    trajectory: list[Turn] = [Saw("start")]
    for size, seen in sizes:
        trajectory += [Said("do " * size), *[Saw("seen")] * seen]
    rest = without_oldest(trajectory, excess, count=words)
    if rest:
        assert rest[0] == LEFT_OUT
        assert isinstance(rest[1], Said)
        assert rest[1:] == trajectory[len(trajectory) - len(rest) + 1 :]
        assert words(render(rest)) <= words(render(trajectory)) - excess
    assert len(without_oldest(rest, 1, count=words)) < max(1, len(rest))  # so that asking again comes to an end


@pytest.mark.parametrize(
    ("reply", "summary"),
    [
        ("You hold it. Subgoal is met.", "You hold it. Subgoal is met."),
        ("\n\n You hold it.\nSubgoal is met. \n", "You hold it. Subgoal is met."),
        ("##Summary\nYou hold it.", "You hold it."),
        ("## Summary and Analysis\n\n- You hold it.\n- Subgoal is met.", "You hold it. Subgoal is met."),
        ("##Summary: You hold it.", "Summary: You hold it."),
        ("**Summary**\nYou hold **it**.", "You hold it."),
        ("Here is the summary:\nYou hold it.", "You hold it."),
        ("```\nYou hold it.\n```", "You hold it."),
        ("", "last"),
        ("##Summary", "last"),
        ("Act: go to bed 1\nYou arrive at the bed (1).", "last"),
        ("You hold it.\nAction: open fridge 1\nYou open the fridge.", "You hold it."),
        ("Actions: it opened fridge 1. Subgoal is met.", "Actions: it opened fridge 1. Subgoal is met."),
        ("You hold it. Act: no line begins with this.", "You hold it. Act: no line begins with this."),
    ],
)
def test_headings_marks_and_what_nobody_did_are_no_part_of_a_summary(reply: str, summary: str) -> None:
    assert read_summary(reply, "last") == summary


@pytest.mark.parametrize(
    ("reply", "summary"),
    [
        ("You hold apple (1). You are in the", "You hold apple (1)."),
        ("You hold apple (1). Subgoal is met.", "You hold apple (1). Subgoal is met."),
        ("It is at 1.5 m. It", "It is at 1.5 m."),
        ("You hold it! Is", "You hold it!"),
        ("You hold the", "last"),
        ("", "last"),
    ],
)
def test_of_a_summary_that_was_cut_whole_sentences_are_kept(reply: str, summary: str) -> None:
    assert read_summary(reply, "last", cut=True) == summary


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


STEP = Counts(steps=1)


def test_a_step_is_a_decision_too() -> None:
    budget = Budget()
    budget.count()
    budget.count(STEP)
    assert (budget.decisions, budget.steps) == (2, 1)


def test_steps_are_looked_at_first() -> None:
    budget = Budget(max_decisions=1, max_steps=1)
    assert budget.reached() is None
    budget.count(STEP)
    assert budget.reached() is Limit.STEPS


@pytest.mark.parametrize("name", ["max_decisions", "max_steps"])
def test_a_limit_below_one_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} is 0; it must be at least 1"):
        Budget(**{name: 0})


@pytest.mark.parametrize("household", [WAH_NL, ALFRED])
def test_it_comes_back_as_it_was_sent(household: Household) -> None:
    assert pickle.loads(pickle.dumps(household)) == household


def test_it_names_things_and_splits_skills_in_its_own_way() -> None:
    assert (WAH_NL.name_of("juice", 1), ALFRED.name_of("Juice", 1)) == ("juice 1", "Juice (1)")
    assert WAH_NL.split_skill("pick up kitchen cabinet 3") == ("pick up", "kitchen cabinet 3")
    assert WAH_NL.split_skill("slice bread 1") == ("", "slice bread 1")
    assert ALFRED.split_skill("slice Bread (1)") == ("slice", "Bread (1)")


def test_what_a_skill_is_done_to_may_stand_in_brackets() -> None:
    shop = Household(name="shop", actions=("click", "click on"), naming="")
    assert shop.split_skill("click[buy now]") == ("click", "buy now")
    assert shop.split_skill("click on[a [b]]") == ("click on", "a [b]")
    assert shop.split_skill("click[buy now] twice") == ("click", "buy now] twice")
    assert shop.split_skill("clicks[buy now]") == ("", "clicks[buy now]")


# ---------------------------------------------------------------------- transcripts


def test_turns_carry_what_was_said_and_what_came_back() -> None:
    transcript = parse_transcript(
        "Your task is to: a\nand b\nYou are in the house.\nThink: hm\nOK.\nAct: go to kitchen 1\nYou move.\nMax steps"
    )
    assert transcript.turns == (
        Told("Your task is to: a\nand b"),
        Saw("You are in the house."),
        Said("Think: hm", Think("hm")),
        Told("OK.", About.ANSWER),
        Said("Act: go to kitchen 1", Act("go to kitchen 1")),
        Saw("You move."),
        Told("Max steps", About.LIMIT),
    )
    assert (transcript.subgoal, transcript.limit) == ("a\nand b", Limit.STEPS)
    assert transcript.acts == (("go to kitchen 1", Saw("You move.")),)


def test_the_task_of_a_child_is_what_follows_where_it_stands() -> None:
    text = "Your primary goal is to: x\nTo achieve this, …\nYour task is to: y\nYou are in the house.\nExpand:\n"
    transcript = parse_transcript(f"{text}- control flow: fallback\n- subgoals: a, and b\n")
    assert transcript.subgoal == "y"
    assert transcript.said_turns[0].decision == Expand(FallbackFlow(), ("a", "and b"))


@pytest.mark.parametrize("variant", ["react", "react_wm", "reactree", "reactree_wm"])
def test_every_recorded_text_is_rendered_from_its_turns(wah_nl: Path, variant: str) -> None:
    for line in (wah_nl / "trajectories" / f"{variant}.jsonl").read_text(encoding="utf-8").splitlines():
        text = json.loads(line)["text"]
        transcript = parse_transcript(text)
        assert node_text(transcript.turns) == text
        assert all(said.decision is not None for said in transcript.said_turns)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Your task is to: a\n", "no line starts with 'You are in the house'"),
        ("You are in the house.\nhello\n", "line 2: 'hello' belongs to no decision"),
        (
            "You are in the house.\nThink: a\nOK.\nAct: go to kitchen 1\n",
            "line 4: 'Act: go to kitchen 1' belongs to no",
        ),
    ],
)
def test_a_text_of_no_agent_node_is_refused(text: str, message: str) -> None:
    with pytest.raises(TranscriptError, match=message):
        parse_transcript(text)


texts = st.text(max_size=30)
decisions = st.one_of(
    st.none(),
    st.builds(Think, texts),
    st.builds(BeginSubgoal, texts, texts),
    st.builds(Summarise, texts, texts),
    st.builds(WriteCode, texts),
    st.builds(Act, texts),
    st.builds(Expand, st.sampled_from([flow() for flow in default_flows()]), st.lists(texts, max_size=3).map(tuple)),
)
turns = st.one_of(
    st.builds(Told, texts, st.sampled_from(About)), st.builds(Said, texts, decisions), st.builds(Saw, texts)
)


@given(turns)
def test_a_turn_is_read_back_as_it_was_written(turn: Told | Said | Saw) -> None:
    assert turn_from_dict(json.loads(json.dumps(turn_to_dict(turn)))) == turn


@pytest.mark.parametrize("values", [{}, {"told": "a"}, {"told": 1, "about": "task"}, {"said": "a", "expand": "loop"}])
def test_what_is_no_turn_is_refused(values: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"not a turn|must be a text|is unknown"):
        turn_from_dict(values)


@pytest.mark.parametrize(
    ("last", "closed"),
    [
        (Said("Act: done", Act("done")), True),
        (Said("Act: failure", Act("failure")), True),
        (Told("Max steps", About.LIMIT), True),
        (Said("Act: done"), False),
        (Said("Expand: …", Expand(SequenceFlow(), ("a",))), False),
        (Saw("You see nothing."), False),
    ],
)
def test_a_line_end_follows_unless_the_node_has_ended(last: Told | Said | Saw, closed: bool) -> None:
    both = [Told("Your task is to: a"), last]
    assert is_closed(both) is closed
    assert node_text(both) == f"Your task is to: a\n{last.text}" + ("" if closed else "\n")
    assert render(both) == f"Your task is to: a\n{last.text}"


def test_two_observations_are_the_same_turn_if_their_words_are() -> None:
    assert Saw("You see nothing.") == Saw("You see nothing.", Observation("You see nothing."))


ROOT = "Your task is to: a\nYou are in the house.\nThink: b\nOK.\nAct: done"
CHILD = "Your primary goal is to: a\nTo achieve this, …\nYour task is to: c\nYou are in the house.\nAct: go\nYou go."
TREE = Example.of_text(f"{ROOT}\n\n{CHILD}\n\n{CHILD}")
SHIPPED = sorted(Path(reactree_ros.__file__).parent.rglob("prompts/**/*.txt"))


def test_each_agent_node_of_an_example_is_its_turns() -> None:
    assert len(TREE.nodes) == 3
    assert [type(turn) for turn in TREE.nodes[1]] == [Told, Saw, Said, Saw]
    assert TREE.turns[5] == Told("", About.ANSWER)  # the empty line between two nodes


def test_a_text_of_anything_else_is_one_turn() -> None:
    for text in ("", "def run():\n\n    pass", f"{ROOT}\n\nand more", "x" * 1_000_000):
        assert Example.of_text(text).nodes == ((Told(text, About.SYSTEM),),)


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: "/".join(path.parts[-3:]))
def test_an_example_gives_its_text_again(path: Path) -> None:
    text = path.read_text(encoding="utf-8").removesuffix("\n")
    assert Example.of_text(text).text == text
    if path.name.startswith("react") and path.parent.parent.name in ("household", "ai2thor"):
        assert start_turn("", [Example.of_text(text)]).is_exchange


def test_the_start_of_a_prompt_is_read_back_whole_from_a_record() -> None:
    start = start_turn("S", [TREE, Example.of_text("text")], "Rule.")
    assert turn_from_dict(turn_to_dict(start)) == start
    assert turn_to_dict(start)["told"] == f"S\nSource domain:\n{TREE.text}\ntext\nTarget_domain:"
    assert turn_from_dict(turn_to_dict(Told("S", About.SYSTEM))) == Told("S", About.SYSTEM)
    with pytest.raises(ValueError, match="is not a turn"):
        turn_from_dict({"told": "", "about": "system", "examples": []})


def test_an_example_that_is_too_long_gives_way_to_the_short_one_then_loses_its_last_nodes() -> None:
    long = Example(TREE.nodes * 2, short=TREE)
    for excess, nodes in ((1, [3]), (words(long.text) - words(TREE.text) + 1, [2]), (words(long.text), [])):
        assert [len(one.nodes) for one in shortened([long], excess, count=words)] == nodes


def test_the_least_similar_example_goes_before_the_next_one_shrinks() -> None:
    first, last = Example(TREE.nodes[:2]), Example(TREE.nodes[:1])
    assert shortened([first, last], 1, count=words) == [first]
    assert shortened([first, last], words(last.text) + 1, count=words) == [Example(first.nodes[:1])]
    assert shortened([first, last], 0, count=words) == [first, last]


def test_the_texts_of_a_start_are_changed_together() -> None:
    start = ToldStart(system="a", examples=((Told("b"), Said("c")),), rule="d")
    changed = start.with_texts(str.upper)
    assert (changed.system, changed.rule, [turn.text for turn in changed.examples[0]]) == ("A", "D", ["B", "C"])
    assert changed.text == "A\nSource domain:\nB\nC\nTarget_domain:"
