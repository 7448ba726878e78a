"""The commands of the lab."""

from reactree_ros.cli.commands import LAB as PANEL
from reactree_ros.cli.commands import Command

LAB = Command(
    name="lab",
    summary="Bench planners, make datasets, train models, and repeat the authors' runs.",
    panel=PANEL,
    commands=tuple(
        Command(name=name, summary=summary, module=f"{__name__}.{module}:{name}_app")
        for name, module, summary in (
            ("recordings", "runs", "Repeat the authors' recorded runs with the real tree, and compare."),
            ("import", "runs", "Convert recorded trajectories to records, one per run."),
            ("house", "models", "Make up a house with tasks, in the WAH-NL schema or as pyrobosim's worlds."),
            ("bench", "runs", "Carry out every task with every planner and seed."),
            ("report", "runs", "Compare the planners of a bench, as tables and plots."),
            ("bootstrap", "runs", "Fill an episodic memory with the successful runs of training tasks."),
            ("examples", "models", "Make short experiences as examples, by the expert in generated houses."),
            ("dataset", "models", "Make a dataset of decisions for training."),
            ("train", "models", "Train a small language model on a dataset of decisions."),
            ("eval", "models", "Measure a small model's decisions: held-out ones, whole runs, or both."),
        )
    ),
)
