"""Language models by name: their registry, settings from options, parameters or a file, what each is trained for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reactree_ros.errors import UserError
from reactree_ros.files import read_back
from reactree_ros.llm.port import LanguageModel
from reactree_ros.plugins import Registry, Spec
from reactree_ros.plugins.settings import Settings, did_you_mean, named_settings, reaching, read_settings

#: The file in a model's folder that describes its training.
ABOUT = "training.json"


@dataclass(frozen=True, kw_only=True)
class ModelSpec(Spec):
    """A language model.

    Attributes:
        make: Makes it from its settings; it loads or connects at :meth:`LanguageModel.ready` or at the first request.
        flags: Settings that are command-line options of their own; the others are given as ``--llm-option NAME=VALUE``.
        weights: Finds the weights that it takes by default; raises :class:`UserError` if they are not installed.
        trained_for: Returns the planners, with options, that the model was trained for; none means any.
    """

    make: Callable[[Any], LanguageModel]
    flags: tuple[str, ...] = ()
    weights: Callable[[], object] = lambda: None
    examples: bool = True  # whether in-context examples help it; rules take no notice of them
    trained_for: Callable[[Any], tuple[str, ...]] = lambda settings: ()


MODELS: Registry[ModelSpec] = Registry(
    "language model",
    "reactree_ros.models",
    ModelSpec,
    first=("expert", "openai", "vllm"),
)


def read_yaml(text: str) -> Any:
    """Read YAML; raises :class:`ValueError` with one line that repeats none of it, because it may hold a key."""
    try:
        return read_back.parse_yaml(text)[0]
    except read_back.NoYaml as error:
        raise ValueError(f"{error}{f' (line {error.line})' if error.line else ''}") from None


def load_models_file(path: str | Path) -> tuple[ModelSpec, Settings]:
    return model_from_dict(read_back.read_yaml(Path(path))[0], where=str(path))


def model_from_dict(values: Any, *, where: str) -> tuple[ModelSpec, Settings]:
    """Read the output of :func:`model_to_dict`: ``{"llm": name, setting: value, …}``; without a name, the default."""
    if not isinstance(values, Mapping):
        raise UserError(f"{where}: holds no settings; they look like 'llm: openai', one a line")
    others = {str(name): value for name, value in values.items() if name != "llm"}
    return model_settings(values.get("llm", MODELS.default), others, where=where)


def model_to_dict(spec: ModelSpec, settings: Settings) -> dict[str, Any]:
    """Return model and settings for JSON; a key is left out, but the name of its file is kept."""
    return {"llm": spec.name, **settings.model_dump(mode="json", exclude_defaults=True)}


def reaching_of_model(values: Any) -> dict[str, Any]:
    """From the output of :func:`model_to_dict`, return the settings that may start, open, load or send something."""
    if not isinstance(values, Mapping):
        return {"llm": values}
    others = {str(name): value for name, value in values.items() if name != "llm"}
    return reaching(MODELS.get(str(values.get("llm", MODELS.default))).settings, others)


def named_model(text: str) -> tuple[ModelSpec, Settings]:
    name, values = named_settings(text, MODELS.kind)
    return model_settings(name, values, where=f"{MODELS.kind} '{name}'")


def model_settings(name: Any, values: Mapping[str, Any], *, where: str) -> tuple[ModelSpec, Settings]:
    if not isinstance(name, str):
        raise UserError(f"{where}: llm is {str(name)[:200]!r}: {did_you_mean(str(name), MODELS.names)}")
    try:
        spec = MODELS.get(name)
    except UserError as error:
        raise UserError(f"{where}: {error}") from error
    return spec, read_settings(spec.settings, values, where=where, beside=("llm",))


def make_model(spec: ModelSpec, settings: Settings) -> LanguageModel:
    """Make a language model; it loads or connects at :meth:`LanguageModel.ready` or at the first request."""
    spec.check_installed()
    return spec.make(settings)


def trained_for(model: str | Path) -> tuple[str, ...]:
    """Return the planners, with options, that a model was trained for; none if its folder does not say."""
    try:
        named = read_back.parse_json(read_back.text_of(Path(model) / ABOUT))["planner"]
    except (UserError, ValueError, KeyError, TypeError):
        return ()
    return tuple(named.split(",")) if isinstance(named, str) else ()


def as_trained(planner: str, trained: Sequence[str]) -> str:
    """Return a planner as a model was trained for it, unless it has own options; if empty, the first of ``trained``."""
    if not planner:
        return next(iter(trained), "")
    alike = [one for one in trained if one.partition(":")[0] == planner]
    return alike[0] if len(alike) == 1 else planner


def strange(planner: str, trained: Sequence[str]) -> str:
    """Return a warning if a language model was trained for other planners, otherwise an empty text."""
    if not trained or _prompts(planner) in map(_prompts, trained):
        return ""
    return f"{planner}: the language model was trained for {', '.join(trained)}, and its decisions may be useless here"


def _prompts(planner: str) -> tuple[str, frozenset[str]]:
    """Return what a planner's prompts depend on: name and options, without options that only leave skills out."""
    name, *options = planner.split(":")
    return name, frozenset(option for option in options if not option.startswith("break_rounds="))
