"""The skill policy: what may be done without asking, what a person must confirm, what is never done.

It is enforced on the robot's side, whatever the language model says.
"""

from __future__ import annotations

import enum
import re
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from reactree_ros.agent.household import split_skill
from reactree_ros.errors import UserError
from reactree_ros.files.read_back import read_yaml
from reactree_ros.plugins.settings import did_you_mean, fault_of, nearest

#: The number behind a name.
_INSTANCE = re.compile(r" \(?\d+\)?(?=\s|$)")
#: How many words of a skill are looked at for names; no world's skill is longer.
_MOST_WORDS = 64


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
        where: Where they come from, for errors.
    """

    rules: Sequence[Rule]
    where: str = field(default="the skill policy", compare=False)

    def judge(self, skill: str, verbs: Iterable[str] = ()) -> tuple[Verdict, str]:
        """Judge a skill; returns the verdict and the reason in words.

        Args:
            skill: In the world's own words, e.g. ``pick up juice 1``: see :meth:`World.canonical`.
            verbs: Of all of the world's skills: no rule for ``turn`` is about ``turn on``.
        """
        known = [*(rule.skill for rule in self.rules), *verbs]
        verb, target = (skill, "") if skill in known else split_skill(skill, known)
        if not verb:
            return Verdict.DENY, f"the skill policy knows no skill like '{skill}'"
        verbs = "|".join(sorted({re.escape(rule.skill) for rule in self.rules}))
        lines = "\n".join(filter(None, (" ".join(line.split()) for line in target.splitlines())))
        if re.search(rf"(?:[;,&\n]|\b(?:and|then)\b) ?(?:{verbs})\b", lines):
            return Verdict.DENY, f"'{skill}' is more than one skill"
        word = _INSTANCE.sub("", target) if len(_INSTANCE.findall(target)) < 2 else target
        what = f"'{verb} {word}'" if word else f"'{verb}'"
        first, named = _things(target, one_name=skill.endswith("]"))
        for rule in self.rules:
            about = first if rule.verdict is Verdict.ALLOW else named
            if rule.skill == verb and (rule.object is None or _folded(rule.object) in about):
                return rule.verdict, f"the skill policy says {rule.verdict.value} for {what}"
        return Verdict.DENY, f"the skill policy has no rule for {what}"

    def offers(self, skill: str, verbs: Iterable[str] = ()) -> bool:
        """Whether a skill may be carried out, be it after a person has confirmed it."""
        return self.judge(skill, verbs)[0] is not Verdict.DENY

    def permits(self, verb: str) -> bool:
        """Whether anything may be done with a verb."""
        return any(rule.skill == verb and rule.verdict is not Verdict.DENY for rule in self.rules)

    def check(self, verbs: Sequence[str], words: Sequence[str], free_verbs: Collection[str] = ()) -> None:
        """Look whether every rule can ever decide in a world, and is kept there.

        Args:
            verbs: Of the world's skills.
            words: Of what they are done to; empty where the world cannot say: then no rule's object is looked at.
            free_verbs: Those of which the world cannot say before what a skill will do. ``take lamp`` may take a knife
                that is called so, too, and ``turn lamp on`` turn it on.

        Raises:
            PolicyError: A rule cannot; the message names it, and what may have been meant.
        """
        free = [(index, rule) for index, rule in enumerate(self.rules) if rule.skill in free_verbs]
        for index, rule in free:
            at = f"{self.where}: rules.{index}"
            if rule.object is not None:
                raise PolicyError(
                    f"{at}.object: '{rule.object}' cannot be kept to: what '{rule.skill}' is done to is said freely "
                    "here, and nobody knows before what it will be; leave the object out"
                )
            if rule.verdict is not free[0][1].verdict:
                raise PolicyError(
                    f"{at}.verdict: '{rule.verdict.value}' cannot be kept to beside '{free[0][1].verdict.value}' of "
                    f"rules.{free[0][0]}: skills are said freely here, and '{free[0][1].skill}' may do what "
                    f"'{rule.skill}' does; give both one verdict, or leave one out: what no rule names is denied"
                )
        for index, rule in enumerate(self.rules):
            at = f"{self.where}: rules.{index}"
            if rule.skill not in verbs:
                raise PolicyError(f"{at}.skill: '{rule.skill}' is no skill here; {did_you_mean(rule.skill, verbs)}")
            if words and rule.object is not None and rule.object not in words:
                raise PolicyError(f"{at}.object: '{rule.object}' is nothing here; {_nearest(rule.object, words)}")
            for before, other in enumerate(self.rules[:index]):
                if other.skill == rule.skill and other.object in (None, rule.object):
                    raise PolicyError(f"{at} never decides, because rules.{before} does before it; put it first")


def _nearest(word: str, words: Sequence[str]) -> str:
    near = nearest(word, words)
    return f"did you mean '{near}'?" if near else f"its words are such as '{words[0]}'"


def _things(target: str, *, one_name: bool) -> tuple[set[str], set[str]]:
    """Return what a skill is done to, and all that may be a thing which it names: ``knife 1 from countertop 1``.

    To forbid, it is enough that a thing is named; to allow, it must be the first. Numbers tell where a name ends: the
    first one is taken whole, as ``butter knife`` is no ``knife``. Without them, names may be of any of the words.

    Args:
        target: What stands behind the verb.
        one_name: Whether it is one name, as in ``click[buy now]``.
    """
    whole = {_folded(target), _folded(_INSTANCE.sub("", target))}
    head, *others = map(_folded, _INSTANCE.split(target))
    numbered = bool(others)
    if one_name or (numbered and not any(others)):
        return whole, whole
    parts = others if numbered else [head]
    named = {run for part in parts for run in _runs(part.split()[:_MOST_WORDS])}
    named |= {one.rstrip("0123456789-_") for one in named}
    return whole | ({head} if numbered else set()), whole | named | {head}


def _runs(words: Sequence[str]) -> set[str]:
    """Return all words that stand one behind the other."""
    return {" ".join(words[begin:end]) for begin in range(len(words)) for end in range(begin + 1, len(words) + 1)}


def _folded(word: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", word).casefold().split()).strip("[]()\"' ")


def load_policy(path: str | Path) -> SkillPolicy:
    """Read a skill policy from a YAML file.

    Raises:
        PolicyError: The file cannot be read or is no skill policy.
    """
    try:
        document, _ = read_yaml(Path(path))
    except UserError as error:
        raise PolicyError(str(error)) from None
    return _policy(document, str(path))


def policy_from_list(rules: Any, *, where: str) -> SkillPolicy:
    """Read a skill policy from the list of its rules.

    Raises:
        PolicyError: It is no skill policy.
    """
    return _policy({"rules": rules}, where)


def _policy(document: Any, where: str) -> SkillPolicy:
    try:
        return SkillPolicy(tuple(_Document.model_validate(document).rules), where=where)
    except ValidationError as error:
        fault = fault_of(error, _Document)
        place = ".".join(map(str, fault.path)) or "the document"
        raise PolicyError(f"{where}: {place}: {fault.with_value}") from None
