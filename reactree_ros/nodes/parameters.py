"""Parameters declared with what they mean, their range, and whether they may change."""

from __future__ import annotations

from typing import Any

from rcl_interfaces.msg import FloatingPointRange, IntegerRange, ParameterDescriptor
from rclpy.node import Node

from reactree_ros.errors import UserError


def declare(
    node: Node,
    name: str,
    default: bool | int | float | str,
    description: str,
    *,
    between: tuple[float, float] | None = None,
    one_of: tuple[str, ...] = (),
    read_only: bool = True,
) -> Any:
    """Declare a parameter and return its value.

    Args:
        node: Whose parameter it is.
        name: Its name.
        default: Its value where none is given; also says its type.
        description: What it means, with its unit.
        between: Least and greatest value of a number.
        one_of: Values that a string may have.
        read_only: Whether it is fixed once the node has started.

    Raises:
        rclpy.exceptions.ParameterException: A value was given that is not allowed.
        UserError: A string was given that is none of ``one_of``.
    """
    descriptor = ParameterDescriptor(description=description, read_only=read_only)
    if one_of:
        descriptor.additional_constraints = f"one of {', '.join(one_of)}"
    if between is not None and isinstance(default, float):
        descriptor.floating_point_range = [FloatingPointRange(from_value=between[0], to_value=between[1])]
    elif between is not None:
        descriptor.integer_range = [IntegerRange(from_value=int(between[0]), to_value=int(between[1]), step=1)]
    value = node.declare_parameter(name, default, descriptor).value
    if one_of and value not in one_of:
        raise UserError(f"parameter {name} is '{value}'; it must be one of {', '.join(one_of)}")
    return value
