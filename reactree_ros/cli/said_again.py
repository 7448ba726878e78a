"""Lets the user confirm a record's settings: only the user may start, open, load or send something."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reactree_ros.agent.text import in_one_line
from reactree_ros.cli import opening
from reactree_ros.cli.defaults import policy_of_user, said_by_user
from reactree_ros.cli.options import Chosen
from reactree_ros.episode.run_spec import RunSpec, Selection
from reactree_ros.errors import UserError
from reactree_ros.memory.spec import NamedMemory
from reactree_ros.record.own import is_own
from reactree_ros.record.schema import Event
from reactree_ros.world.skill_policy import load_policy

#: Most characters of a value that are shown.
_SHOWN = 500


def said_again(
    spec: RunSpec,
    header: Event,
    *,
    world: Mapping[str, Any],
    llm: Chosen | Mapping[str, Any],
    policy: Path | None = None,
    memory: NamedMemory | None = None,
    vision: Chosen | None = None,
    planner: str = "",
) -> RunSpec:
    """Return the specification of a recorded run as the user wants it now.

    Args:
        spec: What the record says.
        header: The record's header; if the user's own program wrote it here, the user has said all of it.
        world: What the user says of its world; it wins.
        llm: Another language model, or what the user says of the recorded one.
        policy: The user's skill policy, which outranks the recorded one; None: the user's file may name one.
        memory: The episodic memory; unless the user names it, the recorded one is opened only if a package brings it.
        vision: The language model that is asked about pictures; the recorded one is asked only if the user names it.
        planner: Another planner; empty: the recorded one.

    Raises:
        UserError: A record's setting would start, open, load or send something, and the user does not say it, too; or
            the record does not name what is here.
    """
    name = spec.recorded
    if spec.world is None:
        raise UserError(f"{name}: does not say in which world it was, so nothing can be gone on with")
    if spec.llm is None and not isinstance(llm, Chosen):
        raise UserError(f"{name}: does not say which language model it was; name one with --llm")
    if not (own := is_own(header)):
        _check(spec, {"world": world} if isinstance(llm, Chosen) else {"world": world, "llm": llm})
        if not planner:
            spec.chosen_planner()
    changes: dict[str, Any] = {"planner": planner, "working_memory": None} if planner else {}
    if memory is not None:
        changes["memory"] = memory.absolute()
    elif not own and spec.unsaid("memory"):
        changes["memory"] = ""
        opening.warn(f"The record's memory is not opened; to have examples from it, add --memory {spec.memory}")
    elif planner:
        changes["memory"] = ""
    if vision is not None:
        changes["vision"] = Selection.from_spec("llm", *vision)
    elif not own:
        changes["vision"] = None
        if spec.vision is not None:
            opening.warn(f"Nobody is asked about pictures now; to have that, add --vision {spec.vision.name}")
    if policy := policy or policy_of_user():
        changes["policy"] = load_policy(policy)
    chosen = (
        Selection.from_spec("llm", *llm) if isinstance(llm, Chosen) else spec.llm and spec.llm.with_settings(llm, name)
    )
    return spec.but(recorded="", world=spec.world.with_settings(world, name), llm=chosen, **changes)


def _check(spec: RunSpec, given: Mapping[Any, Mapping[str, Any]]) -> None:
    # asks whether to use settings that only a record gives
    words = []
    for field, settings in given.items():
        for name, value in spec.unsaid(field).items():
            if name not in settings and not said_by_user(name, value):
                text = value if isinstance(value, str) else json.dumps(value)
                words.append(f"--{field}-option {shlex.quote(in_one_line(f'{name}={text}')[:_SHOWN])}")
    if not words:
        return
    effect = f"{spec.recorded}: its settings would start, open, load or send something: {' '.join(words)}"
    yes = opening.agreed(effect, "A record may not decide that by itself. Is it what you want?")
    if yes is None:
        raise UserError(
            f"{effect} - a record may not decide that by itself; add these words to the command to have it so"
        )
    if not yes:
        raise UserError(f"{spec.recorded}: nothing was done")
