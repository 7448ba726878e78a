"""The folder of a trained model, which ``llm: small``, ``transformers`` and vLLM can load."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from reactree_ros.errors import UserError
from reactree_ros.lab.training.checkpoint import load_checkpoint, write_whole
from reactree_ros.lab.training.loop import CHECKPOINT, TOKENIZER
from reactree_ros.lab.training.settings import TrainSettings
from reactree_ros.lab.training.vocabulary import END
from reactree_ros.llm.trained import ABOUT

#: The model's folder, in the training's folder.
MODEL = "model"


def make_model_folder(out: Path, settings: TrainSettings, planners: str) -> Path:
    """Make the folder of the trained model: weights in 16 bits, tokenizer, graph, and a description of the training.

    ``transformers`` and vLLM can load it.
    """
    import torch
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

    from reactree_ros.lab.training.graph import write_graph
    from reactree_ros.lab.training.model import make_model

    tokenizer = Tokenizer.from_file(str(out / TOKENIZER))
    model = make_model(settings, tokenizer.get_vocab_size())
    model.load_state_dict(load_checkpoint(out / CHECKPOINT)["model"])
    folder, new = out / MODEL, out / f"{MODEL}.unfinished"
    shutil.rmtree(new, ignore_errors=True)
    try:
        model.to(torch.float16).save_pretrained(new)
        fast = PreTrainedTokenizerFast(
            tokenizer_object=tokenizer, eos_token=END, pad_token=END, clean_up_tokenization_spaces=False
        )
        fast.save_pretrained(new)
        _compute_in_full(new / "config.json")
        write_graph(new)
        write_about(new, settings, planners)
        shutil.rmtree(folder, ignore_errors=True)
        new.replace(folder)
    except OSError as error:
        shutil.rmtree(new, ignore_errors=True)
        raise UserError(
            f"{folder}: cannot be written: {error.strerror or error}; the checkpoint is intact: repeat the command "
            "to make the folder"
        ) from error
    return folder


def _compute_in_full(config: Path) -> None:
    """Make engines compute in 32 bits with 16-bit weights, so that all of them decide alike."""
    values = json.loads(config.read_text(encoding="utf-8"))
    write_whole(config, json.dumps({**values, "dtype": "float32"}, indent=2).encode())


def write_about(folder: Path, settings: TrainSettings, planners: str) -> None:
    """Write into a model's folder for which planners and how it was trained."""
    trained = {"planner": planners, "settings": settings.model_dump(mode="json")}
    write_whole(folder / ABOUT, f"{json.dumps(trained, indent=1)}\n".encode())
