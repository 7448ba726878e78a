"""Libraries that run a language model in this process: torch, with or without CUDA, vLLM and llama.cpp."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from reactree_ros.doctor.probe import ProbeFailed, in_a_process
from reactree_ros.errors import UserError
from reactree_ros.llm.llama.library import VERSION
from reactree_ros.llm.mind.engine import base
from reactree_ros.plugins.diagnosis import Diagnosis, Level
from reactree_ros.plugins.installation import install_line, install_requirements

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
    """Yield diagnoses about torch, CUDA, vLLM, llama.cpp and the base model of `--llm mind`."""
    if importlib.util.find_spec("torch") is None:
        said = "not installed; only --llm transformers, vllm, reactree lab train and episodic memory need it"
        yield Diagnosis("torch", Level.NOTE, said, install_line("reactree_ros[transformers]"))
    else:
        yield from _torch()
    if importlib.util.find_spec("vllm") is None:
        said = "not installed; only --llm vllm needs it"
        yield Diagnosis("vLLM", Level.NOTE, said, install_line("reactree_ros[vllm]"))
    else:
        found = [_version(name) for name in metadata.packages_distributions().get("vllm", [])]
        yield Diagnosis("vLLM", Level.RIGHT, ", ".join(dict.fromkeys(found)) or "installed, version unknown")
    if importlib.util.find_spec("xllamacpp") is None:
        said = "not installed; only --llm mind and llama need it"
        yield Diagnosis("llama.cpp", Level.NOTE, said, install_line("reactree_ros[mind]"))
    else:
        yield from _llama()


def _llama() -> Iterator[Diagnosis]:
    found, wanted = metadata.version("xllamacpp"), f"xllamacpp=={VERSION}"
    if found == VERSION:
        yield Diagnosis("llama.cpp", Level.RIGHT, f"xllamacpp {found}")
    else:
        said = f"xllamacpp {found}, whose functions --llm mind and llama do not know"
        yield Diagnosis("llama.cpp", Level.WRONG, said, install_requirements(wanted))
    try:
        yield Diagnosis("SmolLM2", Level.RIGHT, str(base()))
    except UserError as error:
        said, _, remedy = str(error).partition(": ")
        yield Diagnosis("SmolLM2", Level.NOTE, said, remedy)


def _version(distribution: str) -> str:
    return f"{distribution} {metadata.version(distribution)}"


def _torch() -> Iterator[Diagnosis]:
    try:
        found = in_a_process(_LOOK, seconds=PATIENCE)
    except ProbeFailed as error:
        remedy = f"{install_line('reactree_ros[transformers]')} --force-reinstall, or another build of it"
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
