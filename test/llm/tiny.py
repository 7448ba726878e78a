"""A tiny language model of random weights, made on the spot, and a vLLM server for it.

What the model says means nothing, but every decision is one that may be said.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import random
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from reactree_ros.errors import UserError
from reactree_ros.llm.vllm_engine import VllmServer

#: Tokens that the model's context holds.
CONTEXT = 16384
#: Name under which it is served.
NAME = "tiny"
#: The environment of vLLM and torch: several threads of several engines on few cores wait for each other.
CPU = {"OMP_NUM_THREADS": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind", "VLLM_CPU_KVCACHE_SPACE": "1"}
#: Arguments of vLLM for a tiny model.
CPU_OPTIONS = {"dtype": "float32", "enforce_eager": True, "distributed_executor_backend": "uni"}
# How much stronger the weights of the end of a thought are: at a temperature of 1 it comes within some tens of tokens,
# at other places for other prompts and seeds.
_END_OF_THOUGHT = 18.0
_CHAT_TEMPLATE = (
    "{% for turn in messages %}{{ '<|' + turn['role'] + '|>\n' + turn['content'] + '<|end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}"
)
# As reasoning models have it: a reply begins with a thought, which may be closed already; earlier ones are left out.
_THINKING_TEMPLATE = (
    "{% for turn in messages %}{{ '<|' + turn['role'] + '|>\n' + turn['content'].split('</think>')[-1] + '<|end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\n<think>\n' }}"
    "{% if enable_thinking is defined and not enable_thinking %}{{ '\n</think>\n\n' }}{% endif %}{% endif %}"
)


def make_tiny_model(folder: str | Path, *, seed: int = 0, chat: bool = False, thinking: bool = False) -> Path:
    """Make a Llama model of about 3 million random weights, with a tokenizer trained on household texts.

    Does nothing where the folder holds one already.

    Args:
        folder: Where to; made if it does not exist.
        seed: Of the weights.
        chat: Give the tokenizer a chat template.
        thinking: Give it one that opens a thought, and have the model end a thought now and then.
    """
    folder = Path(folder).resolve()
    if not (folder / "config.json").exists():
        # Made beside it and then renamed, so that what is cut short leaves no half model.
        half = folder.with_name(f".{folder.name}")
        _write_model(half, seed, _THINKING_TEMPLATE if thinking else _CHAT_TEMPLATE if chat else None)
        half.replace(folder)
    return folder


def _write_model(folder: Path, seed: int, chat_template: str | None) -> None:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = chat_template
    if thinks := chat_template == _THINKING_TEMPLATE:
        tokenizer.add_tokens(["<think>", "</think>"])
    tokenizer.save_pretrained(folder)
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=256,
        intermediate_size=512,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=CONTEXT,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    model = LlamaForCausalLM(config).float()
    if thinks:
        with torch.no_grad():
            model.lm_head.weight[tokenizer.convert_tokens_to_ids("</think>")] *= _END_OF_THOUGHT
    model.save_pretrained(folder)


def tiny_tokenizer() -> Any:
    """Train a tokenizer on household texts."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    pieces = Tokenizer(models.BPE())
    pieces.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    pieces.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=8000,
        special_tokens=["<|begin|>", "<|end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    pieces.train_from_iterator(_household_texts(), trainer)
    return PreTrainedTokenizerFast(tokenizer_object=pieces, bos_token="<|begin|>", eos_token="<|end|>")


def _household_texts() -> Iterator[str]:
    """System texts, and what a walk through the shipped houses shows."""
    from reactree_lab.worlds.ai2thor.wording import ALFRED
    from reactree_ros.agent.prompt import start_turn, system_text, task_turn
    from reactree_ros.agent.turns import Saw
    from reactree_ros.household.household import WAH_NL
    from reactree_ros.household.houses import HOUSES
    from reactree_ros.household.symbolic import SymbolicWorld
    from reactree_ros.household.tasks import load_tasks
    from reactree_ros.llm.port import prompt_text

    for household in (WAH_NL, ALFRED):
        yield prompt_text([start_turn(system_text(household), ())])
    draw = random.Random(0)
    for house in HOUSES.values():
        for task in load_tasks(house):
            world = SymbolicWorld(task)
            yield prompt_text([task_turn(task.instruction), Saw(world.observe().take().text)])
            for _ in range(60):
                skill = draw.choice(list(world.available_skills().take()))
                yield f"Think: I need to {skill} now.\nOK.\nAct: {skill}\n{world.execute(skill).take().text}\n"
            yield "Expand:\n- control flow: sequence\n- subgoals: find and pick up the apple, put it down\n"


class TinyServer:
    """vLLM's server of a tiny model, as the package starts it, by an interpreter that has vLLM."""

    def __init__(
        self,
        model: Path,
        *,
        port: int = 0,
        max_model_len: int = CONTEXT,
        api_key: str = "",
        python: str = sys.executable,
        **more: Any,
    ) -> None:
        names = {"model": model, "served_model_name": NAME, "max_model_len": max_model_len}
        self._options = {**names, **CPU_OPTIONS, **more}
        self._python, self._key, self._port = python, api_key, port
        self._server: VllmServer | None = None

    @property
    def port(self) -> int:
        assert self._server is not None
        return self._server.port

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def start(self) -> None:
        """Start it, at the port of before; it answers some time later."""
        for name, value in CPU.items():
            os.environ.setdefault(name, value)
        self._server = VllmServer(self._options, key=self._key, port=self._port, python=self._python)
        self._port = self._server.port
        atexit.register(self.stop)

    def wait_until_ready(self, timeout: float = 400.0) -> None:
        assert self._server is not None
        end, url = time.monotonic() + timeout, f"http://127.0.0.1:{self.port}/health"
        while time.monotonic() < end and not self._server.has_ended:
            with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=2):
                return
            time.sleep(0.2)
        raise UserError(f"the tiny server does not answer: {self._server.last_words()}")

    def stop(self) -> None:
        if self._server is not None:
            self._server.stop()
        self._server = None
        atexit.unregister(self.stop)

    def __enter__(self) -> TinyServer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
