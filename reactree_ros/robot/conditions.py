"""Conditions of a robot: what a topic says that somebody may wait for, e.g. whether the printer has paper."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import Field, FiniteFloat, field_validator

from reactree_ros.robot.map_file import Document
from reactree_ros.world.skill_policy import Range

Scalar = bool | int | float | str
#: What a field holds where it is as it should be.
Wanted = Range | list[Scalar] | Scalar


class ConditionEntry(Document):
    """A condition: it holds as long as a field of a topic's latest message is as it should be.

    Before the first message nobody knows whether it holds.
    """

    wording: str  # how it is said, e.g. `the printer has paper`
    topic: Annotated[str, Field(min_length=1)]  # name of the topic
    type: str = "std_msgs/msg/Bool"
    field: str = "data"
    holds: Wanted = True  # what the field holds then: a value, one of a list, or numbers `above` and `below` others
    # where this is more than 0, nobody knows any more after the topic was silent for so long, in seconds
    silent_for: Annotated[FiniteFloat, Field(ge=0)] = 0.0

    @field_validator("wording")
    @classmethod
    def _is_said(cls, wording: str) -> str:
        if not re.fullmatch(r"[^\W_](?:[^\n{}:;]*[^\W_])?", wording) or len(wording) > 120:
            raise ValueError("say it in one line of at most 120 characters, such as 'the printer has paper'")
        return wording
