"""Language models that run in this process, and torch, with or without CUDA."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from reactree_ros.doctor.probe import ProbeFailed, in_a_process
from reactree_ros.errors import UserError
from reactree_ros.llm.spec import MODELS, ModelSpec
from reactree_ros.plugins.diagnosis import Diagnosis, Level
from reactree_ros.plugins.installation import install_line

#: Longest time to import torch, in seconds; a cold disk takes many.
PATIENCE = 60.0
#: Exists on Linux if a GPU's driver is loaded.
DRIVER = Path("/proc/driver/nvidia/version")
_LOOK = """
import json, torch
count = torch.cuda.device_count() if torch.cuda.is_available() else 0
gpus = map(torch.cuda.get_device_properties, range(count))
print(json.dumps({
    "version": torch.__version__,
    "cuda": torch.version.cuda,
    "gpus": [f"{gpu.name}, {gpu.total_memory / 2**30:.0f} GiB" for gpu in gpus],
}))
"""


def local_engines() -> Iterator[Diagnosis]:
    """Yield diagnoses about torch, CUDA, and what each language model needs."""
    if importlib.util.find_spec("torch") is None:
        said = "not installed; only --llm transformers, vllm, reactree lab train and episodic memory need it"
        yield Diagnosis("torch", Level.NOTE, said, install_line("reactree_local[transformers]"))
    else:
        yield from _torch()
    for spec in MODELS:
        if spec.needs:
            yield _installed(spec)


def _installed(spec: ModelSpec) -> Diagnosis:
    """Return whether what a language model needs is installed, and in which versions."""
    try:
        spec.check_installed()
        spec.weights()
    except UserError as error:
        said, _, remedy = str(error).partition(": ")
        return Diagnosis(f"--llm {spec.name}", Level.NOTE, said, remedy)
    named = metadata.packages_distributions()
    found = [f"{one} {metadata.version(one)}" for module in spec.needs for one in named.get(module, [])]
    return Diagnosis(f"--llm {spec.name}", Level.RIGHT, ", ".join(dict.fromkeys(found)) or "installed, version unknown")


def _torch() -> Iterator[Diagnosis]:
    try:
        found = in_a_process(_LOOK, seconds=PATIENCE)
    except ProbeFailed as error:
        remedy = f"{install_line('reactree_local[transformers]')} --force-reinstall, or another build of it"
        yield Diagnosis("torch", Level.WRONG, f"cannot be imported: {error}", remedy)
        return
    yield Diagnosis("torch", Level.RIGHT, found["version"])
    if found["gpus"]:
        yield Diagnosis("CUDA", Level.RIGHT, f"{found['cuda']}: {'; '.join(found['gpus'])}")
    elif found["cuda"] is None:
        remedy = "install a build for CUDA: https://pytorch.org/get-started/locally" if DRIVER.exists() else ""
        yield Diagnosis("CUDA", Level.NOTE, "this build of torch is for the CPU", remedy)
    else:
        remedy = "check nvidia-smi: this torch may be too new for the driver" if DRIVER.exists() else ""
        yield Diagnosis("CUDA", Level.NOTE, f"torch is built for {found['cuda']} and sees no GPU", remedy)
