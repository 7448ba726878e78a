"""Texts that are generated together: each comes out as it would alone, whatever joins, leaves and fails beside it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reactree_ros.agent.grammar import DecisionGrammar
from reactree_ros.llm.batching import states as attention
from reactree_ros.llm.batching.batch import CHUNK, Batch
from reactree_ros.llm.batching.held import Held
from reactree_ros.llm.batching.kept_prompts import KeptPrompts
from reactree_ros.llm.batching.row import Row
from reactree_ros.llm.engine import Constraint, ConstraintKind, Generated, Generation
from reactree_ros.llm.port import RequestRejected, ServerUnavailable

pytestmark = pytest.mark.llm

DECISION = Constraint(ConstraintKind.REGEX, DecisionGrammar(("go to kitchen 1", "pick up apple 1", "done")).regex())
NUMBERS = Constraint(ConstraintKind.JSON_SCHEMA, {"type": "array", "items": {"type": "integer"}, "maxItems": 9})
ROOM = 100_000


class Loaded:
    """A model with what rows need of it."""

    def __init__(self, folder: Path) -> None:
        import llguidance.hf
        from transformers import AutoModelForCausalLM, AutoTokenizer

        self.model = AutoModelForCausalLM.from_pretrained(folder).eval()
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.vocabulary = llguidance.hf.from_tokenizer(self.tokenizer)

    def row(self, prompt: str | Sequence[int], held: Constraint | None = None, **generation: Any) -> Row:
        return Row(
            list(self.tokenizer.encode(prompt) if isinstance(prompt, str) else prompt),
            Generation((), constraint=held, **generation),
            tokenizer=self.tokenizer,
            ends={self.tokenizer.eos_token_id},
            held=None if held is None else Held(self.vocabulary, held),
            marked=False,
        )

    def alone(self, row: Row) -> Generated:
        """What comes of a row in a batch of its own."""
        batch = Batch(self.model, ROOM)
        batch.waiting.append(row)
        (done,) = finished(batch)
        assert done.failure is None
        return done.generated()


@pytest.fixture(scope="module")
def loaded(tiny_model: Path) -> Loaded:
    return Loaded(tiny_model)


@pytest.fixture(scope="module")
def sliding(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    """A model whose layers look at the last 16 tokens only."""
    import torch
    from transformers import AutoTokenizer, MistralConfig, MistralForCausalLM

    folder = tmp_path_factory.mktemp("sliding")
    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    size = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = MistralConfig(vocab_size=len(tokenizer), num_key_value_heads=1, sliding_window=16, **size)
    MistralForCausalLM(config).float().save_pretrained(folder)
    return Loaded(folder)


def finished(batch: Batch, each: Callable[[int], None] = lambda step: None) -> list[Row]:
    """Advance until nothing is left; returns the rows in the order in which they left."""
    done: list[Row] = []
    for step in range(10_000):
        each(step)
        done += batch.advance()
        if not batch.rows and not batch.waiting:
            return done
    raise AssertionError("it never ends")


def house(seed: int, sentences: int) -> str:
    draw = random.Random(seed)
    things = ("fridge", "kitchen cabinet", "apple", "plate", "sofa")
    return " ".join(f"You see a {draw.choice(things)} ({draw.randrange(90)})." for _ in range(sentences))


def requests(loaded: Loaded) -> list[Row]:
    """Requests of all kinds and lengths, some with a beginning in common."""
    rows = []
    for number in range(18):
        prompt = house(0, 30) + house(number, 1 + 5 * (number % 7)) if number % 4 else house(number, 3 * number + 1)
        held = (None, DECISION, NUMBERS)[number % 3]
        stops = (".", "cabinet") if number % 5 == 0 else ()
        temperature = 1.0 if number % 6 == 5 else 0.0
        rows.append(
            loaded.row(prompt, held, stops=stops, max_tokens=5 + 4 * (number % 8), temperature=temperature, seed=number)
        )
    return rows


def test_a_text_ends_where_all_that_is_wanted_has_come(loaded: Loaded) -> None:
    whole = loaded.alone(loaded.row("Your task is to: x\n", max_tokens=40))
    wanted = whole.text[:20]
    row = loaded.row(
        "Your task is to: x\n", max_tokens=40, until=lambda text: wanted if text.startswith(wanted) else ""
    )
    ended = loaded.alone(row)
    assert (ended.text, ended.finish_reason) == (wanted, "stop")
    assert len(row.said) < 40


def test_replies_in_a_batch_that_is_joined_and_left_at_any_time_are_those_given_alone(loaded: Loaded) -> None:
    alone = [loaded.alone(row) for row in requests(loaded)]
    rows = requests(loaded)
    endless = loaded.row(house(99, 20), max_tokens=5000)
    batch = Batch(loaded.model, ROOM)
    most = 0

    def come_and_go(step: int) -> None:
        nonlocal most
        most = max(most, len(batch.rows))
        batch.waiting.extend(rows[2 * step : 2 * step + 2])
        if step == 3:
            batch.waiting.append(endless)
        if step == 7:
            assert endless in batch.rows
            endless.cancelled = True

    done = finished(batch, come_and_go)
    assert {id(row) for row in done} == {id(row) for row in (*rows, endless)}
    assert [(row.generated().text, row.generated().finish_reason) for row in rows] == [
        (one.text, one.finish_reason) for one in alone
    ]
    assert [row.generated().output_tokens for row in rows] == [one.output_tokens for one in alone]
    assert len(endless.said) < 20
    assert most > 6


def test_what_others_say_at_the_same_time_is_the_librarys_own_greedy_text(loaded: Loaded) -> None:
    import torch

    rows = [loaded.row(house(number, 4 * number + 2), max_tokens=12) for number in range(4)]
    batch = Batch(loaded.model, ROOM)
    batch.waiting.extend(rows)
    finished(batch)
    for row in rows:
        said = loaded.model.generate(torch.tensor([row.prompt]), max_new_tokens=12, do_sample=False)
        assert row.said == said[0, len(row.prompt) :].tolist()


@pytest.fixture
def passes(loaded: Loaded) -> Iterator[list[tuple[int, int]]]:
    """How many texts each forward pass reads, and how many tokens of the longest one."""
    shapes: list[tuple[int, int]] = []
    forward = loaded.model.forward

    def counting(tokens: Any, **given: Any) -> Any:
        shapes.append(tuple(tokens.shape))
        return forward(tokens, **given)

    loaded.model.forward = counting
    yield shapes
    loaded.model.forward = forward


def test_a_prompt_that_is_longer_than_one_pass_reads_is_read_in_several(
    loaded: Loaded, passes: list[tuple[int, int]]
) -> None:
    row = loaded.row([20 + number % 200 for number in range(CHUNK + 2)], max_tokens=3)
    batch = Batch(loaded.model, ROOM)
    passes.clear()
    batch.waiting.append(row)
    finished(batch)
    assert [longest for _, longest in passes] == [CHUNK, 2, 1, 1]


def test_prompts_of_similar_length_are_read_in_one_pass_and_a_long_one_apart(
    loaded: Loaded, passes: list[tuple[int, int]]
) -> None:
    batch = Batch(loaded.model, ROOM)
    passes.clear()
    lengths = (40, 44, 50, 300)
    batch.waiting.extend(loaded.row([number + 20] * length, max_tokens=2) for number, length in enumerate(lengths))
    batch.advance()
    assert passes == [(1, 300), (3, 50)]
    batch.advance()
    assert passes[2:] == [(4, 1)]


def test_the_same_beginning_of_several_prompts_is_read_once(loaded: Loaded, passes: list[tuple[int, int]]) -> None:
    batch = Batch(loaded.model, ROOM)
    passes.clear()
    rows = [loaded.row([*range(20, 320), 400 + number], max_tokens=1) for number in range(5)]
    batch.waiting.extend(rows)
    finished(batch)
    assert passes == [(1, 301), (4, 1)]


def test_what_a_constraint_forces_is_not_computed_token_by_token(loaded: Loaded, passes: list[tuple[int, int]]) -> None:
    batch = Batch(loaded.model, ROOM)
    passes.clear()
    said = "Act: go to kitchen cabinet 12 and pick up "
    held = Constraint(ConstraintKind.REGEX, f"{said}(apple|plate) at once")
    row = loaded.row(house(1, 3), held, max_tokens=60)
    batch.waiting.append(row)
    finished(batch)
    assert row.generated().text in (f"{said}apple at once", f"{said}plate at once")
    assert len(row.said) > 10
    assert len(passes) <= 3
    assert row.generated().text == loaded.alone(loaded.row(house(1, 3), held, max_tokens=60)).text


def test_a_prompt_that_was_read_costs_its_end_only_also_while_it_is_answered(loaded: Loaded) -> None:
    first, second = loaded.row(house(1, 20), max_tokens=9), loaded.row(house(1, 20) + " Now.", max_tokens=9)
    batch = Batch(loaded.model, ROOM)
    batch.waiting.extend([first, second])
    finished(batch)
    assert first.cached == 0
    assert len(second.prompt) - 6 < second.cached < len(second.prompt)
    assert second.generated().text == loaded.alone(loaded.row(second.prompt, max_tokens=9)).text


def test_a_reply_is_known_where_a_prompt_goes_on_with_it(loaded: Loaded) -> None:
    batch = Batch(loaded.model, ROOM)
    batch.waiting.append(row := loaded.row(house(1, 5), max_tokens=9))
    finished(batch)
    batch.waiting.append(more := loaded.row([*row.prompt, *row.said, 300, 301], max_tokens=2))
    finished(batch)
    assert more.cached == len(row.prompt) + 8  # the last token that was said was never read


def test_as_many_are_generated_at_once_as_there_is_room_for(loaded: Loaded) -> None:
    prompt = loaded.tokenizer.encode(house(1, 5))
    batch = Batch(loaded.model, limit=3 * (len(prompt) + 10))
    batch.waiting.extend(loaded.row(prompt, max_tokens=10) for _ in range(7))
    at_once: list[int] = []
    done = finished(batch, lambda _: at_once.append(len(batch.rows)))
    assert max(at_once) == 3
    assert len({tuple(row.said) for row in done}) == 1


def test_one_that_is_longer_than_all_room_is_generated_alone(loaded: Loaded) -> None:
    batch = Batch(loaded.model, limit=1)
    batch.waiting.extend(loaded.row(house(number, 5), max_tokens=4) for number in range(3))
    at_once: list[int] = []
    assert len(finished(batch, lambda _: at_once.append(len(batch.rows)))) == 3
    assert max(at_once) == 1


def test_one_that_is_cancelled_while_it_waits_is_never_read(loaded: Loaded) -> None:
    batch = Batch(loaded.model, ROOM)
    batch.waiting.append(row := loaded.row(house(1, 5)))
    row.cancelled = True
    assert batch.advance() == [row]
    assert row.said == []


@pytest.fixture
def broken(loaded: Loaded) -> Iterator[Callable[[Callable[[Any], bool]], None]]:
    """Has the model's forward pass fail, once, on tokens for which a function says so."""
    forward = loaded.model.forward

    def break_at(fails: Callable[[Any], bool]) -> None:
        failed = False

        def failing(tokens: Any, **given: Any) -> Any:
            nonlocal failed
            if not failed and fails(tokens):
                failed = True
                raise RuntimeError("out of memory")
            return forward(tokens, **given)

        loaded.model.forward = failing

    yield break_at
    loaded.model.forward = forward


def test_an_error_in_the_forward_pass_fails_those_in_the_batch_and_no_others(
    loaded: Loaded, broken: Callable[[Callable[[Any], bool]], None]
) -> None:
    batch = Batch(loaded.model, ROOM)
    together = [loaded.row(house(number, 5), max_tokens=20) for number in range(3)]
    later = loaded.row(house(9, 5), max_tokens=6)
    batch.waiting.extend(together)
    batch.advance()
    broken(lambda tokens: len(tokens) == 3)
    assert batch.advance() == together
    assert [str(row.failure) for row in together] == ["out of memory"] * 3
    batch.waiting.append(later)
    assert finished(batch) == [later]
    assert later.generated().text == loaded.alone(loaded.row(later.prompt, max_tokens=6)).text


def test_an_error_while_a_newcomers_prompt_is_read_fails_the_newcomer_alone(
    loaded: Loaded, broken: Callable[[Callable[[Any], bool]], None]
) -> None:
    batch = Batch(loaded.model, ROOM)
    batch.waiting.append(one := loaded.row(house(1, 5), max_tokens=6))
    batch.advance()
    broken(lambda tokens: tokens.shape[1] > 1)
    batch.waiting.append(newcomer := loaded.row(house(2, 5), max_tokens=6))
    assert finished(batch) == [newcomer, one]
    assert str(newcomer.failure) == "out of memory"
    assert one.generated().text == loaded.alone(loaded.row(one.prompt, max_tokens=6)).text


def test_what_fails_in_one_text_fails_it_alone(loaded: Loaded, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = Batch(loaded.model, ROOM)
    held, free = loaded.row(house(1, 5), DECISION, max_tokens=6), loaded.row(house(2, 5), max_tokens=6)
    batch.waiting.extend([held, free])
    batch.advance()
    add = held.add
    monkeypatch.setattr(held, "add", lambda token: add(loaded.tokenizer.bos_token_id))  # which may never be said
    assert set(finished(batch)) == {held, free}
    assert isinstance(held.failure, ServerUnavailable)
    assert free.failure is None


def test_a_matcher_in_error_is_an_error_and_no_end(loaded: Loaded) -> None:
    held = Held(loaded.vocabulary, Constraint(ConstraintKind.CHOICE, ["done"]))
    with pytest.raises(ServerUnavailable, match="llguidance failed within the constraint"):
        held.follow(loaded.tokenizer.encode("x")[0])
    with pytest.raises(ServerUnavailable, match="llguidance failed within the constraint"):
        held.mask(np.zeros(loaded.model.config.vocab_size, np.float32))


def test_a_constraint_that_is_none_is_refused(loaded: Loaded) -> None:
    with pytest.raises(RequestRejected, match="llguidance refuses the constraint"):
        Held(loaded.vocabulary, Constraint(ConstraintKind.REGEX, "a{2,1}"))


def test_a_model_with_a_sliding_window_generates_one_text_after_the_other(sliding: Loaded) -> None:
    import torch

    batch = Batch(sliding.model, ROOM)
    assert batch.why_alone == "its layers do not look at all tokens"
    rows = [sliding.row(house(number, 10), max_tokens=24) for number in range(3)]
    batch.waiting.extend(rows)
    at_once: list[int] = []
    assert finished(batch, lambda _: at_once.append(len(batch.rows))) == rows
    assert max(at_once) == 1
    for row in rows:
        said = sliding.model.generate(torch.tensor([row.prompt]), max_new_tokens=24, do_sample=False)
        assert row.said == said[0, len(row.prompt) :].tolist()


def test_of_a_sliding_window_a_text_is_known_as_a_whole_or_not_at_all(sliding: Loaded) -> None:
    batch = Batch(sliding.model, ROOM)
    batch.waiting.append(row := sliding.row(house(1, 10), max_tokens=8))
    finished(batch)
    whole = [*row.prompt, *row.said[:-1]]
    for prompt, cached in (([*whole[:-3], 300], 0), ([*whole, 300, 301], len(whole)), ([*whole, 300, 301], 0)):
        batch.waiting.append(more := sliding.row(prompt, max_tokens=8))
        finished(batch)
        assert more.cached == cached
        sliding.alone(cold := sliding.row(prompt, max_tokens=8))
        assert more.said == cold.said


def test_positions_that_go_by_the_longest_text_are_left_alone(loaded: Loaded, monkeypatch: pytest.MonkeyPatch) -> None:
    rope = {**loaded.model.config.rope_parameters, "rope_type": "dynamic", "factor": 2.0}
    monkeypatch.setattr(loaded.model.config, "rope_parameters", rope)
    assert Batch(loaded.model, ROOM).why_alone == "its positions go by the longest text"


def test_a_model_that_attends_in_another_way_is_left_alone(tiny_model: Path) -> None:
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(tiny_model, attn_implementation="eager").eval()
    assert Batch(model, ROOM).why_alone == "its attention is 'eager', not 'sdpa'"


def test_a_model_that_fails_with_several_texts_or_mixes_them_up_is_left_alone(
    loaded: Loaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    rightly = attention.Beside.update

    def all_of_the_first(beside: Any, keys: Any, values: Any, layer: int) -> Any:
        return tuple(one[:1].expand(len(keys), -1, -1, -1) for one in rightly(beside, keys, values, layer))

    def not_what_is_new(beside: Any, keys: Any, values: Any, layer: int) -> Any:
        return rightly(beside, keys * 0, values * 0, layer)

    def not_at_all(beside: Any, keys: Any, values: Any, layer: int) -> Any:
        raise NotImplementedError("no room")

    for update in (all_of_the_first, not_what_is_new):
        monkeypatch.setattr(attention.Beside, "update", update)
        assert Batch(loaded.model, ROOM).why_alone == "a text comes out differently in a batch"
    monkeypatch.setattr(attention.Beside, "update", not_at_all)
    assert Batch(loaded.model, ROOM).why_alone == "it fails with several texts (NotImplementedError: no room)"


def kept(*texts: Sequence[int], limit: int) -> KeptPrompts:
    prompts = KeptPrompts(limit)
    for text in texts:
        prompts.keep(list(text), states_of(len(text)))
    return prompts


def states_of(tokens: int) -> Any:
    import torch

    return torch.arange(float(tokens)).reshape(1, 1, 1, tokens, 1).expand(2, 2, -1, -1, -1)


def test_prompts_are_kept_up_to_a_number_of_tokens_and_those_not_used_for_longest_go_first() -> None:
    prompts = kept(range(10), range(100, 110), range(200, 210), limit=30)
    assert prompts.find([*range(15)])[0] == 10
    prompts.keep(list(range(300, 310)), states_of(10))
    assert prompts.tokens == 30
    assert [prompts.find([*text, 0])[0] for text in (range(10), range(100, 110), range(200, 210))] == [10, 0, 10]


def test_a_prompt_that_begins_another_one_is_not_kept_twice() -> None:
    prompts = kept(range(10), range(20), range(5), limit=100)
    assert prompts.tokens == 20
    assert prompts.find([*range(9)])[0] == 8  # the last token is left to compute


def test_a_prompt_that_is_longer_than_all_that_is_kept_is_not() -> None:
    assert kept(range(10), limit=9).tokens == 0


def test_where_it_may_be_longer_the_latest_prompt_is_kept_alone() -> None:
    prompts = KeptPrompts(9, longer=True)
    for text in (range(5), range(100, 110)):
        prompts.keep([*text], states_of(len(text)))
    assert prompts.tokens == 10
    assert prompts.find([*range(100, 111)])[0] == 10
    nothing = KeptPrompts(0, longer=True)
    nothing.keep([1], states_of(1))
    assert nothing.tokens == 0


def test_places_keep_the_states_of_each_text_while_they_grow_and_texts_move(loaded: Loaded) -> None:
    places = attention.Places(loaded.model, states_of(1))
    for number in range(5):
        places.make(number + 1, 200 * (number + 1))
        places.put(number, states_of(6) + number)
    places.move(4, 1, 6)
    kept = places.copy(1, 3)
    places.put(1, states_of(6))
    assert kept[0, 0].flatten().tolist() == [4, 5, 6]
    assert [places.copy(number, 2)[1, 1].flatten().tolist() for number in (0, 1, 3)] == [[0, 1], [0, 1], [3, 4]]
