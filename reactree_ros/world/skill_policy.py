"""The skill policy: what may be done without asking, what a person must confirm, what is never done.

It is enforced on the robot's side, whatever the language model says.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from reactree_ros.agent.household import split_skill
from reactree_ros.errors import UserError


class PolicyError(UserError, ValueError):
    """A skill policy file that cannot be used; the message says where and why."""


class Verdict(enum.Enum):
    """What a policy says of a skill."""

    ALLOW = "allow"
    CONFIRM = "confirm"
    DENY = "deny"


class Rule(BaseModel):
    """One rule.

    Attributes:
        skill: The verb, e.g. ``turn on``.
        object: Class of what it is done to, in words, e.g. ``stove``; None: every class.
        verdict: What is to be done with such a skill.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    skill: str
    object: str | None = None
    verdict: Verdict


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid")

    rules: list[Rule]


@dataclass(frozen=True)
class SkillPolicy:
    """Rules for skills: the first that fits decides, and what no rule fits is denied.

    Attributes:
        rules: The rules in order.
    """

    rules: Sequence[Rule]

    def judge(self, skill: str) -> tuple[Verdict, str]:
        """Judge a skill in words, e.g. ``pick up juice 1``; returns the verdict and the reason in words."""
        verb, target = split_skill(skill, (rule.skill for rule in self.rules))
        if not verb:
            return Verdict.DENY, f"the skill policy knows no skill like '{skill}'"
        word = re.sub(r" \(?\d+\)?$", "", target)
        for rule in self.rules:
            if rule.skill == verb and rule.object in (None, word):
                return rule.verdict, f"the skill policy says {rule.verdict.value} for '{verb} {word}'"
        return Verdict.DENY, f"the skill policy has no rule for '{verb} {word}'"


def load_policy(path: str | Path) -> SkillPolicy:
    """Read a skill policy from a YAML file.

    Raises:
        PolicyError: The file cannot be read or is no skill policy.
    """
    import yaml

    try:
        document: Any = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise PolicyError(f"{path}: cannot be read: {error}") from None
    except yaml.YAMLError as error:
        raise PolicyError(f"{path}: is no YAML: {' '.join(str(error).split())}") from None
    try:
        return SkillPolicy(tuple(_Document.model_validate(document).rules))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the document"
        raise PolicyError(f"{path}: {place}: {first['msg']}, not {str(first['input'])[:60]!r}") from None
