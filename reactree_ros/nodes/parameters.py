"""Parameters of a node, declared from classes of settings, which have type, default, bounds and description."""

from __future__ import annotations

import enum
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any, TypeVar

from pydantic.fields import FieldInfo
from rcl_interfaces.msg import FloatingPointRange, IntegerRange, ParameterDescriptor, SetParametersResult
from rclpy.node import Node
from rclpy.parameter import Parameter, parameter_dict_from_yaml_file

from reactree_ros.errors import UserError
from reactree_ros.plugins import Registry
from reactree_ros.plugins.settings import Settings, choices, did_you_mean, read_settings, words_that_are_switches

M = TypeVar("M", bound=Settings)
#: How parameters begin that rclpy itself reads, and those of py_trees_ros, which need not be installed.
_OF_OTHERS = ("qos_overrides.", "default_snapshot_", "setup_timeout")
#: Types that a parameter has as well; settings read everything else from text or lists, and `on` from true.
PLAIN = (bool, int, float, str)
#: Least and greatest values, if settings name none.
_LIMITS: dict[type, tuple[float, float]] = {
    int: (-(2**63), 2**63 - 1),
    float: (-sys.float_info.max, sys.float_info.max),
}


def declare(node: Node, kind: type[Settings], *, read_only: bool = True) -> None:
    for name, field in kind.model_fields.items():
        if not node.has_parameter(name):
            node.declare_parameter(name, _default(field), _descriptor(field, read_only))
    if not read_only:
        node.add_on_set_parameters_callback(lambda changes: _considered(node, kind, changes))


def declare_chosen(node: Node, registry: Registry[Any], name: str) -> None:
    declare(node, registry.get(name).settings)
    given = node._parameter_overrides  # rclpy has no other way to them
    refuse_foreign(registry, name, {one: given[one].value for one in given if not node.has_parameter(one)})


def refuse_foreign(registry: Registry[Any], name: str, given: Mapping[str, Any]) -> None:
    own = registry.get(name).settings.model_fields
    for setting, value in given.items():
        owners = [spec.name for spec in registry if setting in spec.settings.model_fields]
        if owners and setting not in own:
            raise UserError(
                f"{setting} is '{value}', but {registry.kind} '{name}' has no such setting; it is one of "
                f"{', '.join(owners)}"
            )


def refuse_unknown(node: Node, args: Sequence[str]) -> None:
    """Refuse parameters that a node is given and does not have; to be called when it has declared all of its own.

    One that a file has for any node is only logged.
    """
    known = list(node.get_parameters_by_prefix(""))
    strange = [name for name in node._parameter_overrides if name not in known and not name.startswith(_OF_OTHERS)]
    for_any: set[str] = set()
    for file in (value for option, value in pairwise(args) if strange and option == "--params-file"):
        with suppress(RuntimeError):  # it has none for any node
            for_any |= parameter_dict_from_yaml_file(file, target_nodes=["/**"]).keys()
    for name in strange:
        said = f"{node.get_name()} has no parameter '{name}'; {did_you_mean(name, known)}"
        if name not in for_any:
            raise UserError(said)
        node.get_logger().warning(said)


def settings_of(node: Node, kind: type[M], *, where: str = "parameters") -> M:
    """Return a node's settings from its parameters.

    An empty text leaves a field at its default, if the default is not :data:`PLAIN`.
    """
    return _read(kind, {name: node.get_parameter(name).value for name in kind.model_fields}, where)


def _read(kind: type[M], values: dict[str, Any], where: str) -> M:
    fields = kind.model_fields
    left = {name for name, value in values.items() if value == "" == _default(fields[name]) != fields[name].default}
    return read_settings(kind, {name: value for name, value in values.items() if name not in left}, where=where)


def _considered(node: Node, kind: type[Settings], changes: list[Parameter]) -> SetParametersResult:
    values = {name: node.get_parameter(name).value for name in kind.model_fields}
    try:
        _read(kind, values | {one.name: one.value for one in changes if one.name in values}, "parameters")
    except UserError as error:
        return SetParametersResult(successful=False, reason=str(error))
    return SetParametersResult(successful=True)


def from_text(field: FieldInfo, text: str) -> bool | int | float | str:
    plain = _plain(field)
    if plain is bool:
        if text.lower() not in ("true", "false"):
            raise ValueError("it must be true or false")
        return text.lower() == "true"
    if plain in (int, float):
        try:
            return int(text) if plain is int else float(text)
        except ValueError:
            raise ValueError(f"it must be a {'whole ' if plain is int else ''}number") from None
    return text


def _plain(field: FieldInfo) -> type | None:
    if choices(field):
        return None if words_that_are_switches(field) else str
    kind: Any = field.annotation
    return kind if kind in PLAIN else None


def _default(field: FieldInfo) -> bool | int | float | str:
    default = field.get_default(call_default_factory=True)
    if isinstance(default, enum.Enum):
        return str(default.value)
    return default if isinstance(default, PLAIN) else ""


def _descriptor(field: FieldInfo, read_only: bool) -> ParameterDescriptor:
    plain, bounds = _plain(field), _bounds(field)
    descriptor = ParameterDescriptor(
        description=field.description or "", read_only=read_only, dynamic_typing=plain is None
    )
    if few := choices(field):
        descriptor.additional_constraints = f"one of {', '.join(few)}"
    if bounds is not None and plain is float:
        descriptor.floating_point_range = [FloatingPointRange(from_value=bounds[0], to_value=bounds[1])]
    elif bounds is not None and plain is int:
        descriptor.integer_range = [IntegerRange(from_value=int(bounds[0]), to_value=int(bounds[1]), step=1)]
    return descriptor


def _bounds(field: FieldInfo) -> tuple[float, float] | None:
    if field.annotation not in _LIMITS or not field.metadata:
        return None
    low, high = _LIMITS[field.annotation]
    for one in field.metadata:
        low = getattr(one, "ge", getattr(one, "gt", low))
        high = getattr(one, "le", getattr(one, "lt", high))
    return field.annotation(low), field.annotation(high)
