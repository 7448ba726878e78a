"""``reactree lab train``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from reactree_lab.training.settings import TrainSettings, read_recipe
from reactree_ros.cli.options import FromSettings, takes
from reactree_ros.plugins.installation import check_modules

app = typer.Typer(add_completion=False)


@app.command()
@takes(settings=FromSettings(TrainSettings, panel="The training"))
def train(
    data: Annotated[list[Path], typer.Option(help="A dataset of `reactree lab dataset`; may be given several times.")],
    out: Annotated[Path, typer.Option(help="Folder of the training; an interrupted training in it is resumed.")],
    recipe: Annotated[
        Path | None, typer.Option(help="A YAML file with settings, e.g. config/train_two_cores.yaml.")
    ] = None,
    *,
    settings: TrainSettings,
) -> None:
    """Train a small language model on a dataset of decisions, from scratch or from a base model.

    A new model is written into OUT/model, for `--llm small`, transformers and vLLM. Repeat the command to resume an
    interrupted training; the numbers are the same.
    """
    check_modules("reactree lab train", "reactree_lab[train]", ("torch", "transformers", "onnx", "matplotlib"))
    from reactree_lab.training.commands import train as carry_out

    if recipe is not None:
        settings = read_recipe(recipe, settings.model_dump(exclude_unset=True))
    carry_out(data, out, settings, Console())
