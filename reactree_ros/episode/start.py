"""One call that carries out an instruction, as ``reactree run`` does: ``from reactree_ros import run``."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

from reactree_ros.episode import EpisodeResult
from reactree_ros.episode.assembly import assemble, make_world
from reactree_ros.episode.run_spec import RunSpec, Selection
from reactree_ros.llm.settings import make_model, named_model
from reactree_ros.llm.spec import MODELS
from reactree_ros.plugins.settings import read_settings
from reactree_ros.record.writer import RecordFile
from reactree_ros.tree.options import TreeOptions
from reactree_ros.world.spec import WORLDS, Place, WorldSettings


def run(
    instruction: str | None = None,
    *,
    house: str | None = None,
    llm: str = "expert",
    planner: str = "reactree_wm",
    world: str = "virtualhome",
    llm_settings: Mapping[str, Any] | None = None,
    world_settings: Mapping[str, Any] | None = None,
    memory: str = "",
    vision: str = "",
    save: str | Path | None = None,
    **options: Any,
) -> EpisodeResult:
    """Carry out an instruction and return the result; ``print(result.verdict)`` says how it ended.

    Args:
        instruction: What to do; None: what the world's first task asks.
        house: The house, of worlds that have several, e.g. ``villa``.
        llm: Name of the language model; ``reactree list models`` says which there are.
        planner: Name of the planner, with its options.
        world: Name of the world.
        llm_settings: Settings of the language model, e.g. ``{"base_url": "http://localhost:8000/v1"}``.
        world_settings: Settings of the world.
        memory: The episodic memory that examples come from, as ``reactree run`` takes it; it is not added to. Empty:
            the one that comes with the household, if there is one; ``none``: a fixed example.
        vision: The language model that is asked about pictures, as ``reactree run`` takes it; empty: none is.
        save: A new file for the run's record; None: there is none.
        options: Options of the run, see :class:`reactree_ros.tree.options.TreeOptions`.

    Raises:
        UserError: A name, a setting or an option is wrong, or what it needs is not installed.
        LanguageModelError: The language model does not get ready.
    """
    given = dict(world_settings or {}) | ({} if house is None else {"house": house})
    place_spec, model_spec = WORLDS.get(world), MODELS.get(llm)
    place = Place.of(
        place_spec, cast("WorldSettings", read_settings(place_spec.settings, given, where="world_settings"))
    )
    settings = read_settings(model_spec.settings, dict(llm_settings or {}), where="llm_settings")
    chosen = read_settings(TreeOptions, options, where="options")
    spec = RunSpec.in_place(
        place,
        instruction,
        llm=(model_spec, settings),
        planner=planner,
        options=chosen,
        memory=memory,
        vision=Selection.of("llm", *named_model(vision)) if vision else None,
    )
    named = spec.chosen_memory()
    with ExitStack() as stack:
        model = make_model(model_spec, settings)
        stack.callback(model.close)
        model.ready().result()
        live: dict[str, Any] = {"world": stack.enter_context(make_world(spec, place)), "model": model}
        if named is not None:
            live["memory"] = stack.enter_context(named.open())
        if save is not None:
            file = RecordFile(save, own=True)
            stack.callback(file.close)
            live |= {"write": file.write, "flush": file.flush}
        return assemble(spec, telling=True, **live).run()
