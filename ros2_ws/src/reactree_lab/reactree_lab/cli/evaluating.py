"""``reactree lab eval``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from reactree_ros.cli.opening import progress
from reactree_ros.plugins.installation import check_modules

app = typer.Typer(add_completion=False)


@app.command("eval")
def evaluate(
    model: Annotated[Path, typer.Argument(help="The model's folder, as `reactree lab train` makes it.")],
    data: Annotated[Path, typer.Option(help="A dataset, whose held-out decisions the model makes.")],
    decisions: Annotated[int, typer.Option(min=0, help="Most held-out decisions; 0: all.")] = 2000,
) -> None:
    """Measure a small model's decisions: held-out ones, compared word for word.

    `reactree lab bench --llm small --model MODEL` measures whole runs.
    """
    check_modules("reactree lab eval", "reactree_local[small]", ("onnxruntime", "tokenizers", "llguidance"))
    from reactree_lab.bench.comparison import wilson
    from reactree_lab.training import evaluation

    with progress("Deciding") as shown:
        looked = evaluation.look(model, data, limit=decisions, shown=shown)
    lines = ["held-out decisions equal word for word:"]
    for kind, (right, count) in evaluation.exact_by_kind(looked).items():
        low, high = wilson(right / count, count)
        lines.append(f"  {kind:8} {right / count:.3f} [{low:.3f}, {high:.3f}] of {count}")
    error, bins = evaluation.calibration(looked)
    lines.append(f"calibration error {error:.3f}; confidence, and share of correct decisions:")
    lines += [f"  {one.sure:.2f} {one.right:.2f} of {one.count}" for one in bins]
    Console().print("\n".join(lines), markup=False, highlight=False, soft_wrap=True)
