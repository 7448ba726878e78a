"""The experiences that come with the household: chosen per subgoal, diverse, short, and never changed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from memory.word_hash_embedder import experience

from reactree_lab.bootstrap import LONGEST, LONGEST_WHOLE, make_examples
from reactree_ros.agent.control_flow import PAPER
from reactree_ros.agent.kinds.expand import Expand
from reactree_ros.agent.prompt import flow_told
from reactree_ros.agent.text import approximate_tokens
from reactree_ros.agent.turns import Said
from reactree_ros.household.memory import FOLDER, HouseholdMemorySettings
from reactree_ros.memory.embedding import EmbeddingUnavailable, WordEmbedder
from reactree_ros.memory.experience import End, Experience
from reactree_ros.memory.port import EpisodicMemory, EpisodicMemoryError
from reactree_ros.memory.recorded import export_experiences
from reactree_ros.memory.spec import memory
from reactree_ros.memory.stores.fixed import MOST, TOKENS

BY_WORDS = "household:index=words"
PLANNERS = tuple(path.stem for path in sorted(FOLDER.iterdir()))


@pytest.fixture(scope="module")
def by_words() -> EpisodicMemory:
    return memory(BY_WORDS).open()


def found(one: EpisodicMemory, subgoal: str) -> tuple[Experience, ...]:
    return one.retrieve(subgoal, count_tokens=approximate_tokens)


# ---------------------------------------------------------------------- what is found


@pytest.mark.parametrize(
    ("subgoal", "shape"),
    [
        ("move the screwdriver on the coffee table", "move the "),
        ("find and pick up the screwdriver", "find and pick up the "),
        ("find and pick up the apple in kitchen 1", "find and pick up the apple in kitchen 1"),
        ("find and pick up the screwdriver in bathroom 1", "find and pick up the "),
        ("find the coffee table and put down the screwdriver", "find the coffee table and put down the "),
    ],
)
def test_examples_are_of_subgoals_that_are_said_alike(subgoal: str, shape: str, by_words: EpisodicMemory) -> None:
    first, *others = found(by_words, subgoal)
    assert first.subgoal.startswith(shape)
    assert [one.subgoal for one in others] != [first.subgoal] * len(others)


def test_among_examples_of_a_search_are_one_that_finds_and_one_that_does_not(by_words: EpisodicMemory) -> None:
    assert {one.end for one in found(by_words, "find and pick up the apple")} == {End.SUCCESS, End.EXPAND}
    assert {one.end for one in found(by_words, "find and pick up the apple in bedroom 2")} == {End.SUCCESS, End.FAILURE}


def test_among_examples_of_a_task_are_one_of_a_single_thing_and_one_of_several(by_words: EpisodicMemory) -> None:
    for task in (
        "Can you bring 1 pudding to the coffee table, please?",
        "Get the juice. Put it onto the coffee table.",
    ):
        texts = [one.text for one in found(by_words, task)]
        assert {text.partition("control flow: ")[2].split("\n")[0] for text in texts} == {"sequence", "parallel"}


@pytest.mark.slow
def test_examples_stood_where_the_most_similar_one_did(by_words: EpisodicMemory) -> None:
    for one in by_words:
        first, *others = found(by_words, one.subgoal)
        assert {flow_told(other.text) for other in others} <= {flow_told(first.text)}


@pytest.mark.slow
def test_examples_are_few_and_short_unless_somebody_asks_for_more(by_words: EpisodicMemory) -> None:
    for subgoal in {one.subgoal for one in by_words}:
        some = found(by_words, subgoal)
        assert 1 <= len(some) <= MOST
        assert sum(approximate_tokens(one.text) for one in some) <= TOKENS
        assert [one.similarity for one in some] == sorted((one.similarity for one in some), reverse=True)
    assert len(by_words.retrieve("find the fridge", count_tokens=approximate_tokens, most=9)) == 9


def test_the_word_index_counts_words_and_neighbours() -> None:
    texts = ["find the apple", "find the pear", "apple the find", "Find the APPLE!", "", "\ud800"]
    vectors = WordEmbedder().encode(texts)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1)
    same, otherwise, turned, loud = vectors[0], *vectors[1:4]
    assert np.allclose(same, loud)
    assert same @ turned < 1
    assert 0 < same @ otherwise < 1


def test_without_an_embedder_words_do_and_who_asks_for_embeddings_hears_why_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("reactree_ros.memory.embedding.lacking", lambda extra: {extra: ""})
    monkeypatch.setattr("importlib.import_module", _not_installed)
    named = memory("household")
    named.prepare()
    with named.open() as opened:
        assert found(opened, "find the fridge and put down the wine")
    with pytest.raises(EmbeddingUnavailable, match="sentence embeddings need sentence-transformers"):
        memory("household:index=embeddings").prepare()


def _not_installed(name: str) -> object:
    raise ImportError(name)


# ---------------------------------------------------------------------- what is in it


@pytest.mark.slow
@pytest.mark.sweep
@pytest.mark.parametrize("planner", PLANNERS)
def test_the_command_makes_the_file_that_ships_again_byte_for_byte(planner: str, tmp_path: Path) -> None:
    made = tmp_path / "made.jsonl"
    export_experiences(make_examples(planner), made)
    assert made.read_bytes() == (FOLDER / f"{planner}.jsonl").read_bytes()


@pytest.mark.parametrize("planner", PLANNERS)
def test_what_ships_shows_all_that_a_planner_may_say_and_is_short(planner: str) -> None:
    held = list(memory(f"household:planner={planner}:index=words").open())
    said = [turn.decision for one in held for turn in one.turns if isinstance(turn, Said)]
    assert None not in said
    whole = not planner.startswith("reactree")
    assert max(approximate_tokens(one.text) for one in held) <= (LONGEST_WHOLE if whole else LONGEST)
    assert {one.end for one in held} == ({End.SUCCESS} if whole else set(End))
    flows = {decision.control_flow.name for decision in said if isinstance(decision, Expand)}
    assert flows == (set() if whole else set(PAPER))
    texts = "".join(one.text for one in held)
    assert ("Act: recall location of" in texts) is planner.endswith("_wm")
    assert "Act: open " in texts


def test_there_is_a_file_for_each_planner_that_can_be_named_and_together_they_are_small() -> None:
    (named,) = (field for name, field in HouseholdMemorySettings.model_fields.items() if name == "planner")
    assert set(PLANNERS) == set(named.annotation.__args__)  # type: ignore[union-attr]
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 2_000_000


@pytest.mark.parametrize("name", [BY_WORDS, "none"])
def test_nothing_can_be_added_to_what_a_package_brings(name: str) -> None:
    with memory(name).open() as opened:
        before = opened.counts()
        assert opened.fixed
        with pytest.raises(EpisodicMemoryError, match="nothing can be added to this memory; name a file of your own"):
            opened.keep([experience("wash the dog")])
        assert opened.counts() == before
    with pytest.raises(EpisodicMemoryError, match="is closed"):
        opened.counts()
