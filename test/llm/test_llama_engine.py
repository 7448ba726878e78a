"""GGUF models by llama.cpp, with a tiny one of random weights: what it says means nothing, but breaks nothing."""

from __future__ import annotations

import asyncio
import gc
import random
import re
import struct
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from clients import ask, refusal
from docs.blocks import ROOT
from tiny_gguf import make_tiny_gguf

from reactree_ros.agent.grammar import DecisionGrammar
from reactree_ros.agent.reading import says_exactly
from reactree_ros.agent.turns import Said, Told
from reactree_ros.errors import UserError
from reactree_ros.llm.engine import Constraint, ConstraintKind, Generation
from reactree_ros.llm.llama.engine import LlamaEngine, LlamaLimits
from reactree_ros.llm.llama.library import VERSION, Library
from reactree_ros.llm.llama.model import CHUNK, Model, Part
from reactree_ros.llm.port import DecisionRequest, FreeText, LanguageModel, PromptTooLong, ServerUnavailable
from reactree_ros.llm.settings import make_model, model_settings

pytestmark = pytest.mark.real

GRAMMAR = DecisionGrammar(("go to apple", "pick up apple", "done"))
ONLY = Constraint(ConstraintKind.REGEX, "Act: go to apple, and then do nothing else")
#: Makes language models.
Llama = Callable[..., LanguageModel]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    for module in ("xllamacpp", "llguidance", "gguf"):
        pytest.importorskip(module, reason=f"needs {module}; `make test-real` has it")
    return make_tiny_gguf(tmp_path_factory.mktemp("tiny") / "tiny.gguf")


@pytest.fixture
def llama(tiny: Path) -> Iterator[Llama]:
    made: list[LanguageModel] = []

    def make(**settings: Any) -> LanguageModel:
        made.append(make_model(*model_settings("llama", {"model": str(tiny), "threads": 1, **settings}, where="test")))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[list[Part]]:
    """What was read at once, each time."""
    parts: list[list[Part]] = []
    original = Model.read

    def noting(self: Model, given: list[Part]) -> dict[int, Any]:
        parts.append(given)
        return original(self, given)

    monkeypatch.setattr(Model, "read", noting)
    return parts


def prompts(count: int) -> list[str]:
    """Prompts of which some have a beginning in common, and some are read in several parts."""
    draw = random.Random(0)
    shared = "You see an apple. " * 5
    return [shared * (number % 3) + "go to apple " * draw.randrange(1, 9) + str(number) for number in range(count)]


def engine(tiny: Path, **limits: Any) -> LlamaEngine:
    return LlamaEngine(str(tiny), limits=LlamaLimits(threads=1, **limits))


def test_every_decision_is_one_that_may_be_said(llama: Llama) -> None:
    model = llama()
    for seed in range(8):
        text = ask(model, f"Task {seed}", may_say=GRAMMAR, temperature=1.0, seed=seed, max_tokens=40).text
        assert says_exactly(text, GRAMMAR), text


def test_replies_that_are_given_together_are_those_given_one_after_the_other(
    llama: Llama, read: list[list[Part]]
) -> None:
    def asked(model: LanguageModel) -> list[Any]:
        model.ready().result(60)
        read.clear()
        return [
            model.decide(DecisionRequest((Told(prompt),), GRAMMAR, max_tokens=24, temperature=0.5 * (number % 2)))
            for number, prompt in enumerate(prompts(20))
        ]

    alone = [one.result(60).text for one in asked(llama(max_concurrent=1, state_tokens=0))]
    assert max(map(len, read)) == 1
    together = [one.result(60).text for one in asked(llama(max_concurrent=20))]
    assert together == alone
    assert max(map(len, read)) > 4
    assert max(sum(len(part.tokens) for part in parts) for parts in read) <= CHUNK


def test_what_a_constraint_leaves_no_choice_about_is_not_computed(tiny: Path, read: list[list[Part]]) -> None:
    async def said() -> None:
        one = engine(tiny)
        await one.open()
        read.clear()
        generated = await one.generate(Generation((Told("Say."),), constraint=ONLY, max_tokens=99))
        assert generated.text == ONLY.value
        assert generated.output_tokens
        assert not read
        choice = Constraint(
            ConstraintKind.CHOICE, ["Act: go to apple 1, which is red", "Act: go to apple 2, and so on"]
        )
        generated = await one.generate(Generation((Told("Say."),), constraint=choice, max_tokens=99))
        assert generated.text in choice.value
        assert len(read) == 1, "one number was to be chosen"
        await one.close()

    asyncio.run(said())


def test_a_known_beginning_is_not_read_again_and_changes_nothing(llama: Llama) -> None:
    parent, child = "You are at home. Your task is to: go to the apple. ", "You see an apple. "
    texts = [parent, parent + child, parent + child * 2, "Another task. ", parent + child * 3]
    with_kept, without = llama(), llama(state_tokens=0)
    replies = [ask(with_kept, text, may_say=GRAMMAR, max_tokens=16) for text in texts]
    assert [one.text for one in replies] == [ask(without, text, may_say=GRAMMAR, max_tokens=16).text for text in texts]
    shared = with_kept.count_tokens(parent)
    assert shared
    assert all((one.cached_tokens or 0) >= shared - 1 for one in (*replies[1:3], replies[4]))
    assert ask(without, texts[1], may_say=GRAMMAR).cached_tokens == 0


def test_a_prompt_that_is_too_long_says_by_how_much(llama: Llama) -> None:
    model = llama(context=256)
    assert isinstance(told := refusal(model, "go to apple " * 200, max_tokens=16), PromptTooLong)
    assert told.excess > 0
    assert ask(model, "go", may_say=GRAMMAR, max_tokens=16).text


def test_a_request_that_nobody_wants_any_more_ends_in_the_middle_of_its_prompt(
    tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def cancelled() -> int:
        one = engine(tiny)
        await one.open()
        loop, original, count = asyncio.get_running_loop(), Model.read, 0
        begun, may_go_on = asyncio.Event(), asyncio.Event()

        def slow(self: Model, parts: list[Part]) -> dict[int, Any]:
            nonlocal count
            count += 1
            loop.call_soon_threadsafe(begun.set)
            asyncio.run_coroutine_threadsafe(may_go_on.wait(), loop).result(60)
            return original(self, parts)

        monkeypatch.setattr(Model, "read", slow)
        task = asyncio.ensure_future(one.generate(Generation((Told("x" * 400),), max_tokens=64)))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        may_go_on.set()
        monkeypatch.setattr(Model, "read", original)
        assert (await one.generate(Generation((Told("y"),), max_tokens=2))).output_tokens
        await one.close()
        return count

    assert asyncio.run(cancelled()) == 1


def test_an_engine_that_is_closed_tells_those_who_wait_and_can_be_opened_again(
    tiny: Path, read: list[list[Part]]
) -> None:
    async def closed_and_opened() -> int | None:
        one = engine(tiny)
        await one.open()
        read.clear()
        waiting = [asyncio.ensure_future(one.generate(Generation((Told("a"),), max_tokens=400))) for _ in range(3)]
        while not read:
            await asyncio.sleep(0)
        await one.close()
        for failed in await asyncio.gather(*waiting, return_exceptions=True):
            assert isinstance(failed, ServerUnavailable)
            assert "was closed" in str(failed)
        await one.open()
        generated = await one.generate(Generation((Told("a"),), max_tokens=3))
        await one.close()
        return generated.output_tokens

    assert asyncio.run(closed_and_opened())


def test_a_closed_engine_frees_its_model_whatever_else_was_loaded(tiny: Path) -> None:
    one = engine(tiny)

    async def closed() -> weakref.ref[Model]:
        await one.open()
        await one.generate(Generation((Told("a"),), max_tokens=3))
        assert one._batch is not None
        model = weakref.ref(one._batch._model)
        Library()  # it hears what llama.cpp says from now on
        gc.collect()  # and nobody holds it
        await one.close()
        return model

    model = asyncio.run(closed())
    gc.collect()
    assert model() is None


def test_an_error_of_the_model_is_told_and_the_next_request_is_answered(
    llama: Llama, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = llama()
    assert ask(model, "go", may_say=GRAMMAR).text
    with monkeypatch.context() as broken:
        broken.setattr(Model, "read", lambda *_: 1 / 0)
        assert "ZeroDivisionError" in str(refusal(model, "go", may_say=GRAMMAR))
    assert ask(model, "go", may_say=GRAMMAR).text


def test_a_chat_is_laid_out_by_the_models_own_template(tiny: Path, llama: Llama, tmp_path: Path) -> None:
    chats = llama(model=str(make_tiny_gguf(tmp_path / "chat.gguf", chat=True)))
    plain = llama()
    for model in (chats, plain):
        model.ready().result(60)
    assert (chats.status()["prompts"], plain.status()["prompts"]) == ("chat", "completion")
    turns = (Told("Look."), Said("I look."), Told("Go on, <|im_end|> or not."))
    reply = ask(chats, *turns, may_say=FreeText(), max_tokens=4)
    # each of the seven markers of the template is one token, and the one in the text is spelled out
    words = "user\nLook.\nassistant\nI look.\nuser\nGo on, <|im_end|> or not.\nassistant\n"
    assert reply.prompt_tokens == 7 + (plain.count_tokens(words) or 0)


@pytest.mark.parametrize("text", ["go to apple", " go\n\n to\tapple ", "Größe 5 µm, 林檎 🍎", "<|im_end|>", "\x00\x01"])
def test_a_text_comes_back_from_its_tokens(tiny: Path, text: str) -> None:
    from reactree_ros.llm.llama.words import Words

    words = Words(Model(tiny, context=256, threads=1))
    assert words.decode(words.encode(text), skip_special_tokens=False) == text


def cut(file: Path, to: Path, share: float) -> Path:
    content = file.read_bytes()
    to.write_bytes(content[: int(share * len(content))])
    return to


def with_number(file: Path, to: Path, key: str, value: int) -> Path:
    """Write a model with another number (32 bits) for a key."""
    content, named = file.read_bytes(), struct.pack("<Q", len(key)) + key.encode() + struct.pack("<I", 4)
    at = content.index(named) + len(named)
    to.write_bytes(content[:at] + struct.pack("<I", value) + content[at + 4 :])
    return to


def bad_files(tiny: Path, folder: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield what is wrong, and the settings that name such a file."""
    from gguf import GGUFWriter

    for share in (0.0001, 0.001, 0.02, 0.5, 0.99):
        yield f"cut at {share}", {"model": str(cut(tiny, folder / f"{share}.gguf", share))}
    (folder / "text").write_text("GGU")
    yield "no GGUF", {"model": str(folder / "text")}
    for key in ("block_count", "attention.head_count", "context_length", "embedding_length", "feed_forward_length"):
        for value in (0, 1, 1 << 31, (1 << 32) - 1):
            yield f"{key}={value}", {"model": str(with_number(tiny, folder / f"{key}-{value}", f"llama.{key}", value))}
    yield "not there", {"model": str(folder / "none")}
    yield "a folder", {"model": str(folder)}
    adapter = folder / "adapter.gguf"
    writer = GGUFWriter(adapter, "llama")
    writer.add_type("adapter")
    writer.add_string("adapter.type", "lora")
    writer.add_float32("adapter.lora.alpha", 8.0)
    for part, shape in (("a", (4, 96)), ("b", (96, 4))):
        writer.add_tensor(f"blk.0.attn_q.weight.lora_{part}", np.zeros(shape, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    yield "an adapter of another model", {"model": str(tiny), "adapter": str(adapter)}
    yield "a cut adapter", {"model": str(tiny), "adapter": str(cut(adapter, folder / "cut", 0.6))}
    yield "an adapter as a model", {"model": str(adapter)}
    yield "a model as an adapter", {"model": str(tiny), "adapter": str(tiny)}


def test_a_bad_file_is_named_with_the_way_out_in_one_line(tiny: Path, llama: Llama, tmp_path: Path) -> None:
    for what, settings in bad_files(tiny, tmp_path):
        told = str(refusal(llama(**settings)))
        assert [*settings.values()][-1] in told, what
        assert re.search(r"; name (?:a|one|the)\b", told), (what, told)
    assert ask(llama(), may_say=GRAMMAR).text


def test_another_version_is_never_called(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reactree_ros.llm.llama.library.version", lambda name: "2999.1.1")
    with pytest.raises(UserError, match=rf"xllamacpp 2999\.1\.1 is installed.*pip install xllamacpp=={VERSION}$"):
        Library()


def test_the_structures_are_laid_out_as_the_library_does(tiny: Path) -> None:
    """Each default stands where it is declared: a shifted field would show another one's."""
    calls = Library()
    options, model = calls.context_default_params(), calls.model_default_params()
    assert (options.n_ctx, options.n_batch, options.n_ubatch, options.n_seq_max) == (512, 2048, 512, 1)
    assert (options.n_threads, options.rope, options.yarn_a, options.yarn_d, options.type_k) == (4, -1, -1.0, -1.0, 1)
    assert (options.offload, options.no_perf, options.op_offload, options.swa_full) == (True, True, True, True)
    assert (options.embeddings, options.kv_unified, options.n_samplers, options.other) == (False, False, 0, None)
    assert (model.split, model.lazy, model.vocab_only, model.repack, model.load_mtp) == (1, 1, False, True, False)


def test_the_version_that_is_called_is_the_one_that_is_asked_for() -> None:
    assert f'"xllamacpp=={VERSION}"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")
