"""The folder of a trained model, which ``llm: small``, ``transformers`` and vLLM can load."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reactree_lab.out_folder import writing
from reactree_lab.training.base import write_base
from reactree_lab.training.checkpoint import load_checkpoint, write_whole
from reactree_lab.training.loop import CHECKPOINT, TOKENIZER
from reactree_lab.training.settings import ADAPTER, TrainSettings
from reactree_lab.training.vocabulary import END
from reactree_ros.files.whole_file import whole_folder
from reactree_ros.llm.spec import ABOUT

#: The model's folder, in the training's folder.
MODEL = "model"


def make_model_folder(out: Path, settings: TrainSettings, planners: str) -> Path:
    """Make the folder of the trained model, or of its LoRA matrices, with a description of the training.

    ``transformers`` and vLLM can load it.
    """
    name = ADAPTER if settings.base and settings.rank else MODEL
    folder = out / name
    weights = load_checkpoint(out / CHECKPOINT)["model"]
    with writing(folder), whole_folder(folder) as new:
        if settings.base:
            write_base(new, settings, weights)
        else:
            _write_own(new, settings, out / TOKENIZER, weights)
        write_about(new, settings, planners)
        shutil.rmtree(folder, ignore_errors=True)
    return folder


def _write_own(folder: Path, settings: TrainSettings, tokenizer: Path, weights: Mapping[str, Any]) -> None:
    """Write a model from scratch: weights in 16 bits, tokenizer, graph."""
    import torch
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

    from reactree_lab.training.graph import write_graph
    from reactree_lab.training.model import make_model

    words = Tokenizer.from_file(str(tokenizer))
    model = make_model(settings, words.get_vocab_size())
    model.load_state_dict(weights)
    model.to(torch.float16).save_pretrained(folder)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=words, eos_token=END, pad_token=END, clean_up_tokenization_spaces=False
    )
    fast.save_pretrained(folder)
    _compute_in_full(folder / "config.json")
    write_graph(folder)


def _compute_in_full(config: Path) -> None:
    """Make engines compute in 32 bits with 16-bit weights, so that all of them decide alike."""
    values = json.loads(config.read_text(encoding="utf-8"))
    write_whole(config, json.dumps({**values, "dtype": "float32"}, indent=2).encode())


def write_about(folder: Path, settings: TrainSettings, planners: str) -> None:
    """Write into a model's folder for which planners and how it was trained."""
    said = settings.model_dump(mode="json")
    named = {name: Path(said[name]).name for name in ("base", "start")}  # not where they lie on this machine
    trained = {"planner": planners, "settings": {**said, **named}}
    write_whole(folder / ABOUT, f"{json.dumps(trained, indent=1)}\n".encode())
