"""The skill policy: what may be done without asking, what a person must confirm, what is never done.

It is enforced on the robot's side, whatever the language model says.
"""

from __future__ import annotations

import enum
import itertools
import math
import re
import unicodedata
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    FiniteFloat,
    StrictBool,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from reactree_ros.agent.household import Household, split_skill
from reactree_ros.agent.parameters import (
    Boolean,
    List,
    Named,
    Number,
    Parameter,
    ParameterError,
    Pose,
    Text,
    Thing,
    Value,
    each_of,
)
from reactree_ros.agent.skill import Offered, Skill, SkillCall
from reactree_ros.errors import UserError
from reactree_ros.files.read_back import read_yaml
from reactree_ros.plugins.settings import did_you_mean, fault_of, nearest_or_some

if TYPE_CHECKING:
    from reactree_ros.world.port import World

#: The number behind a name.
_INSTANCE = re.compile(r" \(?\d+\)?(?=\s|$)")
#: A value that no rule asks for.
_ANOTHER = "another"
#: How many words of a skill are looked at for names; no world's skill is longer.
_MOST_WORDS = 64


class PolicyError(UserError, ValueError):
    """A skill policy file that cannot be used; the message says where and why."""


class Verdict(enum.Enum):
    ALLOW = "allow"
    CONFIRM = "confirm"
    DENY = "deny"


class Range(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    above: FiniteFloat = -math.inf
    below: FiniteFloat = math.inf

    @field_validator("below")
    @classmethod
    def _has_numbers(cls, below: float, others: ValidationInfo) -> float:
        if below <= others.data.get("above", -math.inf):
            raise ValueError(f"no number is above {others.data['above']:g} and below {below:g}")
        return below

    def has(self, value: Value) -> bool:
        return isinstance(value, int | float) and self.above < value < self.below


#: What a rule wants of one parameter.
_Wanted = Range | StrictBool | list[str | float] | str | float
#: What a rule calls the conditions under which it applies.
CONDITION = "condition"
#: The conditions of a world, see :attr:`World.conditions`.
Conditions = Mapping[str, bool | None]


class Rule(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    skill: str  # the verb or the name of a skill, e.g. `turn on`
    object: str | None = None  # class of what it is done to, in words, e.g. `stove`; None: every class
    # of a declared skill, by parameter, the values that it is about: one, a list of them, or numbers `above` or `below`
    # one. To forbid, it is enough that a free text has the words; to allow, it must have no others. Where no parameter
    # is called `condition`, that names conditions of the world, one of which has to hold. One that nobody knows
    # forbids, and does not allow
    when: dict[str, _Wanted] = Field(default_factory=dict)
    verdict: Verdict

    @property
    def conditions(self) -> list[str]:
        wanted = self.when.get(CONDITION, [])
        return [str(one) for one in (wanted if isinstance(wanted, list) else [wanted])]

    def values(self, parameters: Container[str] = ()) -> list[str]:
        """Return the parameters whose values it is about."""
        return [name for name in self.when if name != CONDITION or name in parameters]

    def holds(self, conditions: Conditions, parameters: Container[str] = ()) -> bool:
        """Whether it applies under the conditions that hold now: what nobody knows forbids, and does not allow."""
        if CONDITION not in self.when or CONDITION in parameters:
            return True
        known = [conditions.get(one) for one in self.conditions]
        return True in known or (None in known and self.verdict is not Verdict.ALLOW)

    def told(self, conditions: Conditions, values: Mapping[str, Value]) -> str:
        """Return what it is about in words, e.g. `` (speed: 1.0, people: yes)``; empty if it is about all."""
        told = [f"{name}: {values[name]}" for name in self.values(values)]
        for one in () if CONDITION in values else self.conditions:
            if (holds := conditions.get(one)) is not False:
                told.append(f"{one}: {'unknown' if holds is None else 'yes'}")
        return f" ({', '.join(told)})" if told else ""

    def may_pass(self, later: Rule) -> bool:
        """Whether it may not apply when a later rule does, by their conditions alone."""
        if later.conditions and {*later.conditions} <= {*self.conditions}:
            return self.verdict is Verdict.ALLOW and later.verdict is not Verdict.ALLOW
        return bool(self.conditions)

    def is_about(self, call: SkillCall) -> bool:
        """Whether it is about a declared skill with its values.

        A rule without an object is about any. To forbid, it is enough that the object is named; to allow, it must be
        the first that is.
        """
        if self.skill not in (call.skill.name, call.skill.verb):
            return False
        parameters = call.skill.parameters
        is_it = self.object is None or any(self.has_object(name, call.skill, call.values[name]) for name in parameters)
        return is_it and all(self.wants(name, one, call.values[name]) for name, one in parameters.items())

    def wants(self, name: str, parameter: Parameter, value: Value) -> bool:
        if name not in self.when:
            return True
        of, wanted = parameter.of if isinstance(parameter, List) else parameter, self.when[name]
        return self._of_each(_is_one(of, one, wanted, whole=self.verdict is Verdict.ALLOW) for one in each_of(value))

    def has_object(self, name: str, skill: Skill, value: Value) -> bool:
        named = [one for one, parameter in skill.parameters.items() if parameter.named]
        may_name = named[:1] if self.verdict is Verdict.ALLOW else named
        is_it = (_folded(self.object or "") in self.named_by(str(one)) for one in each_of(value))
        return self.object is not None and name in may_name and self._of_each(is_it)

    def _of_each(self, holds: Iterable[bool]) -> bool:
        """Of a list, whether it is about each value, to allow; to forbid, one is enough."""
        return all(holds) if self.verdict is Verdict.ALLOW else any(holds)

    def named_by(self, target: str, *, one_name: bool = False) -> set[str]:
        """Return what counts as named by the words of what a skill is done to: to allow less than to forbid."""
        first, named = _things(target, one_name=one_name)
        return first if self.verdict is Verdict.ALLOW else named


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid")

    rules: list[Rule]


@dataclass(frozen=True)
class SkillPolicy:
    """Rules for skills: the first that fits decides, and what no rule fits is denied."""

    rules: Sequence[Rule]
    where: str = field(default="the skill policy", compare=False)  # where they come from, for errors
    # the verdict on a skill that no rule names; only of policies that no user wrote is it another
    otherwise: Verdict = Verdict.DENY
    # how many of the rules, the first ones, a user wrote: those that have to decide; None: all
    written: int | None = None

    def then(self, rules: Iterable[Rule]) -> SkillPolicy:
        before = {rule.skill for rule in self.rules if rule.object is None and not rule.when}
        more = (rule for rule in rules if rule.skill not in before)
        return replace(self, rules=(*self.rules, *more), written=len(self.rules))

    def judge(
        self, skill: str, verbs: Iterable[str] = (), conditions: Conditions = MappingProxyType({})
    ) -> tuple[Verdict, str]:
        """Judge a skill; returns the verdict and the reason in words.

        Args:
            skill: In the world's own words, e.g. ``pick up juice 1``: see :meth:`World.canonical`.
            verbs: Of all of the world's skills: no rule for ``turn`` is about ``turn on``.
            conditions: Of the world, as :attr:`World.conditions`.
        """
        if isinstance(skill, SkillCall) and not self._by_words(skill.skill):
            return self._judge_values(skill, conditions)
        known = [*(rule.skill for rule in self.rules), *verbs]
        verb, target = (skill, "") if skill in known else split_skill(skill, known)
        if not verb:
            return self.otherwise, f"the skill policy knows no skill like '{skill}'"
        if self._goes_on(target):
            return Verdict.DENY, f"'{skill}' is more than one skill"
        word = _INSTANCE.sub("", target) if len(_INSTANCE.findall(target)) < 2 else target
        what = f"'{verb} {word}'" if word else f"'{verb}'"
        for rule in self.rules:
            about = rule.named_by(target, one_name=skill.endswith("]"))
            if (rule.values() and rule.verdict is Verdict.ALLOW) or not rule.holds(conditions):
                continue  # nobody knows the values
            if rule.skill == verb and (rule.object is None or _folded(rule.object) in about):
                return rule.verdict, f"the skill policy says {rule.verdict.value} for {what}{rule.told(conditions, {})}"
        return self.otherwise, f"the skill policy has no rule for {what}"

    def unnamed(self, household: Household) -> list[str]:
        named = {rule.skill for rule in self.rules}
        declared = (skill.name for skill in household.skills if not {skill.name, skill.verb} & named)
        return [*declared, *(verb for verb in household.texts if verb not in named)]

    def _goes_on(self, named: str) -> bool:
        verbs = "|".join(sorted({re.escape(rule.skill) for rule in self.rules}))
        lines = "\n".join(filter(None, (" ".join(line.split()) for line in named.splitlines())))
        return re.search(rf"(?:[;,&\n]|\b(?:and|then)\b) ?(?:{verbs})\b", lines, re.IGNORECASE) is not None

    def _by_words(self, skill: Skill) -> bool:
        of_values = any(rule.values(skill.parameters) for rule in self.rules if rule.skill == skill.verb)
        return skill.listed == skill.verb == skill.name and not of_values

    def _judge_values(self, call: SkillCall, conditions: Conditions) -> tuple[Verdict, str]:
        if any(self._goes_on(name) for _, _, name in call.named):
            return Verdict.DENY, f"'{call}' is more than one skill"
        for rule in self.rules:
            if rule.is_about(call) and rule.holds(conditions, call.skill.parameters):
                why = rule.told(conditions, call.said)
                return rule.verdict, f"the skill policy says {rule.verdict.value} for '{call}'{why}"
        return self.otherwise, f"the skill policy has no rule for '{call}'"

    def offers(self, skill: Offered, verbs: Iterable[str] = (), conditions: Conditions = MappingProxyType({})) -> bool:
        """Whether a skill may be carried out, be it after a person has confirmed it; of an offer, with some values."""
        if not isinstance(skill, str):
            return self.permits(skill.skill.verb) or self.permits(skill.skill.name)
        return self.judge(skill, verbs, conditions)[0] is not Verdict.DENY

    def permits(self, verb: str) -> bool:
        said = {rule.verdict for rule in self.rules if rule.skill == verb} or {self.otherwise}
        return said != {Verdict.DENY}

    def check(self, world: World) -> None:
        """Look whether every rule can ever decide in a world, and is kept there.

        What the world cannot name before is not looked at. Of a verb of which it cannot say before what a skill will
        do, a rule names no object: ``take lamp`` may take a knife that is called so, too, and ``turn lamp on`` turn it
        on. Raises PolicyError: a rule cannot; the message names it, and what may have been meant.
        """
        free = [(index, rule) for index, rule in enumerate(self.rules) if rule.skill in world.free_verbs]
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
        household = world.household
        verbs = [*dict.fromkeys((*household.actions, *(skill.name for skill in household.skills)))]
        for index, rule in enumerate(self.rules[: self.written]):
            at = f"{self.where}: rules.{index}"
            about = [one for one in household.skills if rule.skill in (one.name, one.verb)]
            _check_values(rule, about, world, at)
            if rule.skill not in verbs:
                raise PolicyError(f"{at}.skill: '{rule.skill}' is not a skill here; {did_you_mean(rule.skill, verbs)}")
            before = self._decides_before(index, about, world)
            if index not in before:
                first = " and ".join(f"rules.{one}" for one in sorted(before))
                why = f"because {first} {'do' if len(before) > 1 else 'does'} before it; put it first"
                none = "because nothing is both its object and what it says with when"
                raise PolicyError(f"{at} never decides, {why if before else none}")

    def _decides_before(self, index: int, skills: Sequence[Skill], world: World) -> set[int]:
        rule = self.rules[index]
        surely = {one for one, before in enumerate(self.rules[:index]) if not before.may_pass(rule)} | {index}
        if not skills:  # those that are texts
            same = (one for one in surely if self.rules[one].skill == rule.skill)
            return {min(one for one in same if self.rules[one].object in (None, rule.object))}
        said = (fitting for skill in skills for fitting in _fitting(self.rules, skill, world))
        return {min(surely & fitting) for fitting in said if index in fitting}


def _fitting(rules: Sequence[Rule], skill: Skill, world: World) -> set[frozenset[int]]:
    about = {index: rule for index, rule in enumerate(rules) if rule.skill in (skill.name, skill.verb)}
    ways = {(frozenset(about), frozenset[int]())}  # those that the values fit so far, and those whose object is named
    for name, parameter in skill.parameters.items():
        asked = [text for rule in about.values() for text in (rule.when.get(name), rule.object) if text is not None]
        each = {
            (
                frozenset(index for index, rule in about.items() if rule.wants(name, parameter, value)),
                frozenset(index for index, rule in about.items() if rule.has_object(name, skill, value)),
            )
            for value in _samples(parameter, asked, world)
        }
        ways = {(fit & fitting, named | naming) for fit, named in ways for fitting, naming in each}
    return {frozenset(one for one in fit if rules[one].object is None or one in named) for fit, named in ways}


def _samples(parameter: Parameter, asked: Sequence[_Wanted], world: World) -> set[Value]:
    if isinstance(parameter, List):
        each: list[Any] = sorted(_samples(parameter.of, asked, world), key=str)
        return {several for many in (1, 2) if many <= parameter.most for several in itertools.combinations(each, many)}
    if isinstance(parameter, Boolean):
        return {True, False}
    single = [one for each in asked for one in (each if isinstance(each, list) else [each])]
    if isinstance(parameter, Number):
        ranges = [one for one in single if isinstance(one, Range)]
        exact = [one for one in single if isinstance(one, int | float)]
        bounds = [parameter.least, parameter.most, *exact, *(end for one in ranges for end in (one.above, one.below))]
        return {value for bound in bounds for value in parameter.near(bound)}
    texts = [str(one) for one in single if not isinstance(one, Range)]
    if isinstance(parameter, Text):
        return {_ANOTHER, *texts, *(f"{one} {_ANOTHER}" for one in texts)}
    if (options := parameter.options()) is not None:
        return {*options}
    known = (world.names(parameter) if isinstance(parameter, Named) else None) or (_ANOTHER,)
    return {*texts, *[name for name in known if not _is_among(name, texts)][:1]}


def _check_values(rule: Rule, skills: Sequence[Skill], world: World, at: str) -> None:
    named = [one.named for skill in skills for one in skill.parameters.values() if one.named]
    if rule.object is not None and skills and not named:
        known = ", ".join(dict.fromkeys(name for skill in skills for name in skill.parameters)) or "nothing"
        raise PolicyError(f"{at}.object: '{rule.skill}' is done to no '{rule.object}', as it takes {known}")
    names = [*world.words, *(name for one in named for name in world.names(one) or ())] if world.words else []
    if names and rule.object is not None and rule.object not in names:
        raise PolicyError(f"{at}.object: '{rule.object}' is nothing here; {nearest_or_some(rule.object, names)}")
    parameters = {name for skill in skills for name in skill.parameters}
    for one in () if CONDITION in parameters else rule.conditions:
        if one not in world.conditions:
            known = did_you_mean(one, world.conditions)
            raise PolicyError(f"{at}.when.{CONDITION}: '{one}' is none of the conditions; {known}")
    for name in rule.values(parameters):
        wanted = rule.when[name]
        for skill in skills:
            if name not in skill.parameters:
                known = did_you_mean(name, skill.parameters) if skill.parameters else "it takes nothing"
                raise PolicyError(f"{at}.when.{name}: '{name}' is not a parameter of '{rule.skill}'; {known}")
            if problem := _problem(skill.parameters[name], wanted, world):
                raise PolicyError(f"{at}.when.{name}: {problem}")
        if not skills:
            raise PolicyError(f"{at}.when.{name}: '{rule.skill}' is not a declared skill here, and has no parameters")


def _problem(parameter: Parameter, wanted: _Wanted, world: World) -> str:
    if isinstance(parameter, Pose):
        return f"no rule is about one pose, and it is {parameter.words()}; let a rule be about the whole skill"
    parameter = parameter.of if isinstance(parameter, List) else parameter
    if isinstance(wanted, Range) and not isinstance(parameter, Number):
        return f"above and below are of numbers, and it is {parameter.words()}"
    if isinstance(wanted, Range) and isinstance(parameter, Number):
        is_one = any(wanted.has(value) for end in (wanted.above, wanted.below) for value in parameter.near(end))
        return "" if is_one else f"no number is above {wanted.above:g} and below {wanted.below:g}; {parameter.words()}"
    for one in wanted if isinstance(wanted, list) else [wanted]:
        if isinstance(parameter, Named):
            names = parameter.names or world.names(parameter)
            if names is not None and not _is_among(str(one), names, numbered=isinstance(parameter, Thing)):
                return parameter.no_such(str(one), names)
            continue
        try:
            if isinstance(parameter, Text) and not _words(str(one)).strip():
                return f"'{one}' has no words"
            parameter.read(one)
        except ParameterError as error:
            return str(error)
    return ""


def _is_one(parameter: Parameter, value: Value, wanted: _Wanted, *, whole: bool) -> bool:
    if isinstance(wanted, Range):
        return wanted.has(value)
    if isinstance(wanted, list):
        return any(_is_one(parameter, value, one, whole=whole) for one in wanted)
    if isinstance(parameter, Named):
        return _is_named(value, str(wanted))
    if not isinstance(parameter, Text):
        return value == parameter.read(wanted)
    said, about = _words(str(value)), _words(str(wanted))
    wherever_blanks_stand = f" {' ?'.join(about.replace(' ', ''))} "
    return (
        said == about
        if whole
        else bool(re.search(wherever_blanks_stand, said) or any(map(_is_of_two_scripts, said.split())))
    )


def _is_named(value: Value, wanted: str) -> bool:
    return _folded(wanted) in (_folded(str(value)), _folded(_INSTANCE.sub("", str(value))))


def _words(text: str) -> str:
    plain = (one for one in unicodedata.normalize("NFKD", text) if unicodedata.category(one) not in ("Cf", "Mn"))
    said = "".join(one if one.isalnum() else " " for one in "".join(plain).casefold())
    return f" {' '.join(said.split())} "


def _is_of_two_scripts(word: str) -> bool:
    return len({unicodedata.name(one, "").partition(" ")[0] for one in word if one.isalpha()}) > 1


def _is_among(name: str, names: Sequence[str], *, numbered: bool = False) -> bool:
    return any(_is_named(one, name) or (numbered and _is_named(one, _INSTANCE.sub("", name))) for one in names)


def _things(target: str, *, one_name: bool) -> tuple[set[str], set[str]]:
    # To forbid, it is enough that a thing is named; to allow, it must be the first. Numbers tell where a name ends: the
    # first one is taken whole, as ``butter knife`` is not ``knife``. Without them, names may be of any of the words.
    # ``one_name``: it is one name, as in ``click[buy now]``.
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
    return {" ".join(words[begin:end]) for begin in range(len(words)) for end in range(begin + 1, len(words) + 1)}


def _folded(word: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", word).casefold().split()).strip("[]()\"' ")


def load_policy(path: str | Path) -> SkillPolicy:
    return _policy(read_yaml(Path(path))[0], str(path))


def policy_from_list(rules: Any, *, where: str) -> SkillPolicy:
    return _policy({"rules": rules}, where)


def _policy(document: Any, where: str) -> SkillPolicy:
    try:
        return SkillPolicy(tuple(_Document.model_validate(document).rules), where=where)
    except ValidationError as error:
        fault = fault_of(error, _Document)
        place = ".".join(map(str, fault.path)) or "the document"
        raise PolicyError(f"{where}: {place}: {fault.with_value}") from None
