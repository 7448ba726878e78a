"""The commands of the lab."""

from reactree_ros.cli.commands import LAB as PANEL
from reactree_ros.cli.commands import Command

LAB = Command(
    name="lab",
    summary="Bench planners, make datasets, train models, and repeat the authors' runs.",
    panel=PANEL,
    commands=tuple(
        Command(name=name, summary=summary, module=f"{__name__}.{module}")
        for name, module, summary in (
            ("recordings", "recordings", "Repeat the authors' recorded runs with the real tree, and compare."),
            ("import", "importing", "Convert recorded trajectories to records, one per run."),
            ("house", "house", "Make up a house with tasks, in the WAH-NL schema or as pyrobosim's worlds."),
            ("bench", "bench", "Carry out every task with every planner and seed."),
            ("report", "report", "Compare the planners of a bench, as tables and plots."),
            ("bootstrap", "bootstrap", "Fill an episodic memory with the successful runs of training tasks."),
            ("examples", "examples", "Make short experiences as examples, by the expert in generated houses."),
            ("dataset", "dataset", "Make a dataset of decisions for training."),
            ("train", "train", "Train a small language model on a dataset of decisions."),
            ("eval", "evaluating", "Measure a small model's decisions: held-out ones, whole runs, or both."),
        )
    ),
)
