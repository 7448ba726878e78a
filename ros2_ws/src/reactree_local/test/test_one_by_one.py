"""Texts that one engine generates one after the other: what is read of each, what is kept, where each ends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reactree_local.engine import CHUNK, Matcher, Text
from reactree_local.transformers_engine import TransformersEngine
from reactree_ros.llm.engine import Constraint, ConstraintKind, Generation
from reactree_ros.llm.port import RequestRejected, ServerUnavailable

pytestmark = pytest.mark.llm

HOUSE = " ".join(f"You see a {thing} ({number})." for number in range(9) for thing in ("fridge", "apple", "sofa"))


class Loaded:
    """An engine that has loaded its model, and the tokenizer."""

    def __init__(self, folder: Path) -> None:
        self.engine = TransformersEngine(str(folder))
        self.tokenizer = self.engine.load()
        self.model: Any = self.engine._network

    def say(self, prompt: str | Sequence[int], held: Constraint | None = None, **generation: Any) -> Text:
        text = Text(
            list(self.tokenizer.encode(prompt) if isinstance(prompt, str) else prompt),
            Generation((), constraint=held, **generation),
            tokenizer=self.tokenizer,
            ends=self.engine.ends,
            matcher=None if held is None else Matcher(self.engine.vocabulary, held),
        )
        self.engine.write(text)
        return text

    def of_the_library(self, prompt: list[int], tokens: int) -> list[int]:
        import torch

        said = self.model.generate(torch.tensor([prompt]), max_new_tokens=tokens, do_sample=False)
        return [int(token) for token in said[0, len(prompt) :]]


@pytest.fixture
def loaded(tiny_model: Path) -> Loaded:
    return Loaded(tiny_model)


@pytest.fixture
def sliding(tiny_model: Path, tmp_path: Path) -> Loaded:
    """A model whose layers look at the last 16 tokens only."""
    import torch
    from transformers import AutoTokenizer, MistralConfig, MistralForCausalLM

    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    tokenizer.save_pretrained(tmp_path)
    torch.manual_seed(0)
    size = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = MistralConfig(vocab_size=len(tokenizer), num_key_value_heads=1, sliding_window=16, **size)
    MistralForCausalLM(config).float().save_pretrained(tmp_path)
    return Loaded(tmp_path)


@pytest.fixture
def passes(loaded: Loaded) -> Iterator[list[int]]:
    """How many tokens each forward pass reads."""
    lengths: list[int] = []
    forward = loaded.model.forward

    def counting(tokens: Any, **given: Any) -> Any:
        lengths.append(tokens.shape[1])
        return forward(tokens, **given)

    loaded.model.forward = counting
    yield lengths
    loaded.model.forward = forward


@pytest.mark.parametrize("kind", ["loaded", "sliding"])
def test_what_is_said_is_the_librarys_own_greedy_text_whatever_was_said_before(
    kind: str, request: pytest.FixtureRequest
) -> None:
    one: Loaded = request.getfixturevalue(kind)
    for prompt in (HOUSE, HOUSE[:90], f"{HOUSE} Now.", HOUSE):
        row = one.say(prompt, max_tokens=24)
        assert row.tokens == one.of_the_library(row.prompt, 24)


def test_a_text_ends_where_all_that_is_wanted_has_come(loaded: Loaded) -> None:
    wanted = loaded.say("Your task is to: x\n", max_tokens=40).generated().text[:20]
    row = loaded.say(
        "Your task is to: x\n", max_tokens=40, until=lambda text: wanted if text.startswith(wanted) else ""
    )
    assert (row.generated().text, row.generated().finish_reason) == (wanted, "stop")
    assert len(row.tokens) < 40


def test_a_prompt_that_is_longer_than_one_pass_reads_is_read_in_several(loaded: Loaded, passes: list[int]) -> None:
    loaded.say([20 + number % 200 for number in range(CHUNK + 2)], max_tokens=3)
    assert passes == [CHUNK, 2, 1, 1]


def test_what_a_constraint_forces_is_not_computed_token_by_token(loaded: Loaded, passes: list[int]) -> None:
    said = "Act: go to kitchen cabinet 12 and pick up "
    held = Constraint(ConstraintKind.REGEX, f"{said}(apple|plate) at once")
    row = loaded.say(HOUSE, held, max_tokens=60)
    assert row.generated().text in (f"{said}apple at once", f"{said}plate at once")
    assert len(row.tokens) > 10
    assert len(passes) <= 3


def test_of_a_prompt_that_was_read_only_its_end_is_read_and_a_reply_is_known_too(loaded: Loaded) -> None:
    first = loaded.say(HOUSE, max_tokens=9)
    second = loaded.say(f"{HOUSE} Now.", max_tokens=9)
    assert first.cached == 0
    assert len(second.prompt) - 6 < second.cached < len(second.prompt)
    more = loaded.say([*second.prompt, *second.tokens, 300, 301], max_tokens=2)
    assert more.cached == len(second.prompt) + 8  # the last token that was said was never read


def test_of_a_sliding_window_a_text_is_known_as_a_whole_or_not_at_all(sliding: Loaded) -> None:
    row = sliding.say(HOUSE, max_tokens=8)
    whole = [*row.prompt, *row.tokens[:-1]]
    for prompt, cached in (([*whole[:-3], 300], 0), ([*whole, 300, 301], len(whole))):
        more = sliding.say(prompt, max_tokens=8)
        assert (more.cached, more.tokens) == (cached, sliding.of_the_library(prompt, 8))


def test_a_matcher_in_error_is_an_error_and_no_end(loaded: Loaded) -> None:
    matcher = Matcher(loaded.engine.vocabulary, Constraint(ConstraintKind.CHOICE, ["done"]))
    with pytest.raises(ServerUnavailable, match="llguidance failed within the constraint"):
        matcher.follow(loaded.tokenizer.encode("x")[0])
    with pytest.raises(ServerUnavailable, match="llguidance failed within the constraint"):
        matcher.mask(np.zeros(loaded.model.config.vocab_size, np.float32))


def test_a_constraint_that_is_none_is_refused(loaded: Loaded) -> None:
    with pytest.raises(RequestRejected, match="llguidance refuses the constraint"):
        Matcher(loaded.engine.vocabulary, Constraint(ConstraintKind.REGEX, "a{2,1}"))
