"""Trainings of seconds, in this process."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from reactree_lab.training.settings import TrainSettings
from reactree_ros.plugins.settings import read_settings

TINY = ("--preset", "tiny", "--batch-tokens", 2048, "--pass-tokens", 2048, "--held-out", 20)
#: A short training, whose numbers are compared; one process, in full precision.
SHORT = (*TINY, "--tokens", 12000, "--reports", 3, "--processes", 1, "--precision", "fp32")


def train(data: Path, out: Path, options: Sequence[object]) -> Path:
    """Train in this process, as the command does; return the folder."""
    from reactree_lab.training.commands import train as carry_out

    names = [str(name).removeprefix("--").replace("-", "_") for name in options[::2]]
    values = dict(zip(names, options[1::2], strict=True))
    carry_out([data], out, read_settings(TrainSettings, values, where="test"))
    return out
