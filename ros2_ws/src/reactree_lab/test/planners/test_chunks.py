"""HiAgent's working memory is what its section 3 defines."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactree_lab.planners.hiagent.planner import ChunkMemory, acted, refused, subgoal_said
from reactree_ros.agent.turns import About, Told, Turn, node_text, render

Event = tuple[str, ...]


def summary(text: str) -> Turn:
    return Told(f"Observation: {text}", About.SUMMARY)


def by_definition(log: list[Event]) -> list[Turn]:
    """m_t = (g_0, s_0, …, g_n-1, s_n-1, g_n, a_n0, o_n1, …); a retrieved q has its pairs in place of s_q (section 3.1).

    Computed from the flat log of what happened, not from chunks.
    """
    begins = [at for at, event in enumerate(log) if event[0] == "g"]
    memory: list[Turn] = []
    for number, (begin, end) in enumerate(zip(begins, [*begins[1:], len(log)], strict=True), 1):
        memory.append(subgoal_said(number, log[begin][1]))
        inside = log[begin + 1 : end]
        summaries = [summary(event[1]) for event in inside if event[0] == "s"]
        retrieved = any(event == ("q", str(number)) for event in log[begins[-1] :])
        acts = [turn for event in inside if event[0] == "a" for turn in acted(*event[1:])]
        memory += summaries if summaries and not retrieved else acts
    return memory


def play(log: list[Event], start: str = "o") -> ChunkMemory:
    memory = ChunkMemory(start)
    for kind, *what in log:
        if kind == "g":
            memory = memory.begin(*what)
        elif kind == "a":
            memory = memory.add(*what)
        elif kind == "s":
            memory = memory.finish(*what)
        else:
            memory = memory.retrieve(int(what[0]))
    return memory


words = st.text(alphabet="abc ", min_size=1, max_size=5)


@st.composite
def logs(draw: st.DrawFn) -> list[Event]:
    log: list[Event] = []
    number = draw(st.integers(1, 5))
    for subgoal in range(1, number + 1):
        log.append(("g", draw(words)))
        hidden = set(range(1, subgoal))
        for _ in range(draw(st.integers(1, 4))):
            if hidden and draw(st.booleans()):
                again = draw(st.sampled_from(sorted(hidden)))
                hidden.remove(again)
                log.append(("q", str(again)))
            log.append(("a", draw(words), draw(words)))
        if subgoal < number or draw(st.booleans()):
            log.append(("s", draw(words)))
    return log


@pytest.mark.slow
@given(logs())
def test_after_each_event_working_memory_equals_the_definition(log: list[Event]) -> None:
    for until in range(1, len(log) + 1):
        assert list(play(log[:until]).shown()) == by_definition(log[:until])


@given(logs())
def test_nothing_is_lost_whatever_is_hidden(log: list[Event]) -> None:
    turns = [turn for chunk in play(log).chunks for turn in chunk.turns]
    assert turns == [turn for event in log if event[0] == "a" for turn in acted(*event[1:])]


DONE = [("g", "find"), ("a", "go", "here"), ("a", "take", "held"), ("s", "You hold it. Subgoal is met.")]


def test_only_finished_subgoals_can_be_retrieved_and_only_once() -> None:
    memory = play([*DONE, ("g", "put"), ("a", "drop", "gone")])
    assert memory.retrievable == (1,)
    memory = memory.retrieve(1)
    assert memory.retrievable == ()


def test_what_was_retrieved_is_hidden_again_with_the_next_subgoal() -> None:
    memory = play([*DONE, ("g", "put"), ("q", "1"), ("a", "drop", "gone"), ("s", "Done.")])
    assert set(acted("go", "here")) <= set(memory.shown())
    assert node_text(memory.begin("next").shown()) == (
        "1 Subgoal: find\nObservation: You hold it. Subgoal is met.\n"
        "2 Subgoal: put\nObservation: Done.\n"
        "3 Subgoal: next\n"
    )


def test_working_memory_is_worded_as_in_the_papers_prompt() -> None:
    assert node_text(play([*DONE, ("g", "put"), ("a", "drop", "gone")]).shown()) == (
        "1 Subgoal: find\nObservation: You hold it. Subgoal is met.\n2 Subgoal: put\nAction: drop\nObservation: gone\n"
    )


def test_what_was_refused_belongs_to_the_current_subgoal_and_is_nothing_that_was_seen() -> None:
    memory = play(DONE[:2]).refuse("fly", "no such skill")
    assert memory.shown() == (subgoal_said(1, "find"), *acted("go", "here"), *refused("fly", "no such skill"))
    assert memory.chunks[0].last_observation == "here"
    assert render(memory.chunks[0].trajectory).endswith("Observation: here\nfly\nObservation: no such skill")
    assert memory.finish("Done.").shown() == (subgoal_said(1, "find"), summary("Done."))


def test_what_was_refused_before_the_first_subgoal_is_shown_until_that_begins() -> None:
    memory = ChunkMemory("o").refuse("Sure!", "say a subgoal").refuse("", "say a subgoal")
    assert memory.shown() == (*refused("Sure!", "say a subgoal"), *refused("", "say a subgoal"))
    assert memory.begin("find").shown() == (subgoal_said(1, "find"),)


def test_what_is_retrieved_and_does_not_fit_is_hidden_until_the_next_subgoal() -> None:
    memory = play([*DONE, ("g", "put"), ("q", "1"), ("a", "drop", "gone")]).hide()
    note = "You hold it. Subgoal is met. (Its details are too long to be shown.)"
    find, put = subgoal_said(1, "find"), subgoal_said(2, "put")
    assert memory.shown() == (find, summary(note), put, *acted("drop", "gone"))
    assert memory.retrievable == ()
    assert memory.finish("Done.").begin("next").retrievable == (1, 2)


def test_a_chunk_is_summarised_from_the_observation_that_it_began_with() -> None:
    memory = play([*DONE, ("g", "put"), ("a", "drop", "gone")], start="a kitchen")
    assert render(memory.chunks[0].trajectory) == (
        "Observation: a kitchen\nAction: go\nObservation: here\nAction: take\nObservation: held"
    )
    assert render(memory.chunks[1].trajectory) == "Observation: held\nAction: drop\nObservation: gone"
