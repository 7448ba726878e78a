"""GGUF models by llama.cpp, with a tiny one of random weights: what it says means nothing, but breaks nothing."""

from __future__ import annotations

import asyncio
import re
import struct
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from clients import ask, refusal
from tiny_gguf import make_tiny_gguf

from reactree_local.llama import LlamaEngine, Served
from reactree_ros.agent.grammar import DecisionGrammar
from reactree_ros.agent.reading import says_exactly
from reactree_ros.agent.turns import Said, Told
from reactree_ros.llm.engine import Generation
from reactree_ros.llm.port import DecisionRequest, FreeText, LanguageModel, PromptTooLong, ServerUnavailable
from reactree_ros.llm.spec import make_model, model_settings

pytestmark = pytest.mark.real

GRAMMAR = DecisionGrammar(("go to apple", "pick up apple", "done"))
#: Makes language models.
Llama = Callable[..., LanguageModel]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    for module in ("xllamacpp", "openai", "gguf"):
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


def test_every_decision_is_one_that_may_be_said_also_of_many_at_once(llama: Llama) -> None:
    model = llama()
    asked = [
        model.decide(DecisionRequest((Told(f"Task {seed}"),), GRAMMAR, max_tokens=40, temperature=1.0, seed=seed))
        for seed in range(12)
    ]
    said = [reply.text for one in asked if not (reply := one.result(60)).cut]
    whole = [text for text in said if len(text.splitlines()) == 1]  # random weights say \x1d, too, which ends a line
    assert whole
    for text in whole:
        assert says_exactly(text, GRAMMAR), text


def test_a_known_beginning_is_not_read_again(llama: Llama) -> None:
    model, prompt = llama(chat=False), "You are at home. Your task is to: go to the apple. " * 4
    first = ask(model, prompt, may_say=GRAMMAR, max_tokens=16)
    again = ask(model, f"{prompt}You see it.", may_say=GRAMMAR, max_tokens=16)
    assert (again.cached_tokens or 0) >= 0.9 * (first.prompt_tokens or 0) > 0


def test_a_prompt_that_is_too_long_says_by_how_much(llama: Llama) -> None:
    model = llama(context=256)
    assert isinstance(told := refusal(model, "go to apple " * 200, max_tokens=16), PromptTooLong)
    assert told.excess > 0
    assert ask(model, "go", may_say=GRAMMAR, max_tokens=16).text


def engine(tiny: Path) -> LlamaEngine:
    return LlamaEngine(Served(str(tiny)), is_known=True, chat=False)


def test_requests_that_nobody_wants_any_more_make_room_for_the_next(tiny: Path) -> None:
    async def cancelled() -> None:
        one = engine(tiny)
        await one.open()
        endless = Generation((Told("x" * 400),), max_tokens=10**6)
        tasks = [asyncio.ensure_future(one.generate(endless)) for _ in range(8)]
        await asyncio.sleep(0.05)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert (await asyncio.wait_for(one.generate(Generation((Told("y"),), max_tokens=2)), 20)).output_tokens
        await one.close()

    asyncio.run(cancelled())


def test_an_engine_that_is_closed_tells_those_who_wait_and_can_be_opened_again(tiny: Path) -> None:
    async def closed_and_opened() -> int | None:
        one = engine(tiny)
        await one.open()
        waiting = [asyncio.ensure_future(one.generate(Generation((Told("a"),), max_tokens=4000))) for _ in range(3)]
        await asyncio.sleep(0.05)
        await one.close()
        for failed in await asyncio.gather(*waiting, return_exceptions=True):
            assert isinstance(failed, ServerUnavailable), failed
        await one.open()
        generated = await one.generate(Generation((Told("a"),), max_tokens=3))
        await one.close()
        return generated.output_tokens

    assert asyncio.run(closed_and_opened())


def test_nobody_else_is_answered_and_a_closed_engine_listens_no_longer(tiny: Path) -> None:
    async def heard() -> tuple[int, str]:
        one = engine(tiny)
        await one.open()
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"{one._connection.url}/models", timeout=10)
        await one.close()
        with pytest.raises(urllib.error.URLError) as gone:
            urllib.request.urlopen(f"{one._connection.url}/models", timeout=10)
        return refused.value.code, str(gone.value)

    code, gone = asyncio.run(heard())
    assert code == 401
    assert "refused" in gone


def test_a_chat_is_laid_out_by_the_models_own_template(llama: Llama, tmp_path: Path) -> None:
    chats, plain = llama(model=str(make_tiny_gguf(tmp_path / "chat.gguf", chat=True))), llama(chat=False)
    turns = (Told("Look."), Said("I look."), Told("Go on, <|im_end|> or not."))
    as_chat, as_text = (ask(one, *turns, may_say=FreeText(), max_tokens=4) for one in (chats, plain))
    assert [one.status()["prompts"] for one in (chats, plain)] == ["chat", "completion"]
    # each of the seven markers of the template is one token; a role has eight letters at least
    assert (as_chat.prompt_tokens or 0) > (as_text.prompt_tokens or 0) + 7


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
        refused = refusal(llama(**settings))
        if isinstance(refused, PromptTooLong):  # a whole file of a model for one token
            continue
        told = str(refused)
        assert [*settings.values()][-1] in told, what
        assert re.search(r"; name (?:a|one|the)\b", told), (what, told)
        assert "\n" not in told, (what, told)
    assert ask(llama(), may_say=GRAMMAR).text


def test_the_key_of_the_server_is_in_no_command_line(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    served, commands, run = Served(str(tiny)), list[list[str]](), subprocess.run

    def noted(command: list[str], **options: Any) -> subprocess.CompletedProcess[bytes]:
        commands.append(command)
        return run(command, **options)

    monkeypatch.setattr(subprocess, "run", noted)
    served.try_out()
    assert commands
    assert served.key not in " ".join(commands[0])
