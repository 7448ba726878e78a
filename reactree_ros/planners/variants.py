"""Planners by name, with working memory and options where the name says so."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from py_trees.behaviour import Behaviour

from reactree_ros.errors import UserError
from reactree_ros.planners.hiagent import hiagent
from reactree_ros.planners.react import react
from reactree_ros.planners.reactree import reactree
from reactree_ros.planners.recode import recode
from reactree_ros.planners.tree_planner import tree_planner
from reactree_ros.planners.zsp import zsp
from reactree_ros.tree.context import RunContext

Build = Callable[[str, RunContext], Behaviour]
#: What builds the tree of each planner from an instruction and what its behaviours share. Keyword-only arguments
#: (``bool``, ``int``, ``float`` or ``str``) are the planner's options.
PLANNERS: dict[str, Callable[..., Behaviour]] = {
    "reactree": reactree,
    "react": react,
    "zsp": zsp,
    "tree_planner": tree_planner,
    "hiagent": hiagent,
    "recode": recode,
}
#: Planners that can be combined with working memory.
REMEMBERING = ("reactree", "react", "hiagent")
_WM = "_wm"
#: Every name, without options.
NAMES = (*PLANNERS, *(f"{planner}{_WM}" for planner in REMEMBERING))
_BOOLS = {"true": True, "false": False}


@dataclass(frozen=True)
class Variant:
    """A planner with or without working memory and with its options, e.g. ``reactree_wm:control_flow=seq``.

    Attributes:
        name: Its name, as it was given.
        planner: Name of the planner alone.
        build: Builds the tree.
        working_memory: Whether it remembers where things were seen.
    """

    name: str
    planner: str
    build: Build
    working_memory: bool


def variant(name: str) -> Variant:
    """Return a variant by its name.

    Args:
        name: A planner's name, then ``_wm`` where it has working memory, then ``:option=value`` for each option that
            is not as by default.

    Raises:
        UserError: There is none of that name; the message names those that there are.
    """
    first, *options = name.split(":")
    planner = first.removesuffix(_WM)
    if planner not in PLANNERS or (first.endswith(_WM) and planner not in REMEMBERING):
        raise UserError(f"planner '{first}' is unknown; use one of {', '.join(NAMES)}")
    build = PLANNERS[planner]
    chosen = dict(_option(planner, build, option) for option in options)
    return Variant(name, planner, functools.partial(build, **chosen), first.endswith(_WM))


def _option(planner: str, build: Callable[..., Behaviour], text: str) -> tuple[str, Any]:
    there = {name: one for name, one in inspect.signature(build).parameters.items() if one.kind is one.KEYWORD_ONLY}
    name, equals, value = text.partition("=")
    if name not in there or not equals:
        options = ", ".join(f"{one}={_text(it.default)}" for one, it in there.items()) or "none"
        raise UserError(f"planner option '{text}' is unknown; {planner} has {options}")
    kind = type(there[name].default)
    try:
        return name, _BOOLS[value] if kind is bool else kind(value)
    except (ValueError, KeyError) as error:
        wanted = {bool: "true or false", int: "a whole number", float: "a number"}[kind]
        raise UserError(f"planner option {name} is '{value}'; it must be {wanted}") from error


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
