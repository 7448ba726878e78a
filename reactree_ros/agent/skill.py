"""Skills: what a world can do, declared once; what may be said of it now; and one that is said, as data.

A :class:`Skill` is the declaration. An :class:`Offer` is a skill with the names that may stand in its places now. A
:class:`SkillCall` is a skill with a value in every place; it is its own text, so that what knows texts alone takes it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

from reactree_ros.agent.decision import as_object
from reactree_ros.agent.needs import NUMBER, OPPOSITES, SWITCHED, Facts, Need, filled, need_in, needs_of
from reactree_ros.agent.parameters import (
    Boolean,
    Choice,
    List,
    Named,
    Names,
    Notation,
    Number,
    Parameter,
    ParameterError,
    Person,
    Pose,
    Value,
    declared_in,
    each_of,
    parameter_of,
)
from reactree_ros.agent.text import check_template, in_one_line, shortened_line
from reactree_ros.agent.wording import Standing, Wording, key_of
from reactree_ros.plugins.settings import did_you_mean, or_nearest

#: What a skill may change of what is known; each but `away` names what it is about: a parameter, or words with
#: parameters in braces, such as ``drawer {number}``.
EFFECTS: Mapping[str, str] = {
    "at": "the robot is at it",
    "away": "the robot has left where it was (true)",
    "held": "the robot holds it",
    "released": "the robot holds it no more; it is where the robot stands, unless `place` says where",
    "place": "where what was released is, or who has it",
    "gone": "nobody knows where it is",
    **{state: f"it is {state}" for state in OPPOSITES},
}


#: Which facts that a skill may require each effect changes.
CHANGES: Mapping[str, Sequence[str]] = {
    **dict.fromkeys(("at", "away"), ("at", "near")),
    **dict.fromkeys(("held", "released", "gone"), ("held", "free")),
    **{state: (state, opposite) for state, opposite in OPPOSITES.items()},
}


@dataclass(frozen=True, kw_only=True)
class Skill:
    """One thing that a world can do.

    Raises:
        ValueError: A part does not fit the others; the message says which, in one line.
    """

    name: str  # what policies, tools and records call it, e.g. ``drive``
    wording: str  # how it is said, e.g. ``drive forward by {distance} m``; it begins with a word
    parameters: Mapping[str, Parameter] = field(default_factory=dict)  # what may stand in each place of the wording
    returns: Mapping[str, Parameter] = field(default_factory=dict)  # what comes back as data, by name
    effect: Mapping[str, str] = field(default_factory=dict)  # what it changes of what is known, of :data:`EFFECTS`
    description: str = ""  # what it does, in one line for the language model
    requires: tuple[Need, ...] = ()  # what has to hold, in the order in which it is looked at
    uses: frozenset[str] = frozenset()  # what of the robot it takes, e.g. ``base``; empty: all of it

    def __post_init__(self) -> None:
        if not self.verb:
            raise ValueError(f"wording: '{self.wording}' has to begin with a word")
        if odd := next((name for name in self.returns if "." in name), ""):
            raise ValueError(f"returns: '{odd}' has a dot, which is for the parts of a value; write _ instead")
        for what, about in self.effect.items():
            if what not in EFFECTS:
                raise ValueError(f"effect: '{what}' is not an effect; {did_you_mean(what, EFFECTS)}")
            if what != "away" and about not in self.parameters and (meant := or_nearest(about, self.parameters)):
                raise ValueError(f"effect.{what}: '{about}' is not a parameter{meant}")
            check_template(about, tuple(self.parameters))
            self._check_about(f"effect.{what}", about, List | Boolean | Pose)
        for need in self.requires:
            for about in need.about:
                self._check_about("requires", about, Boolean | Pose)
                if need.fact == NUMBER and not isinstance(one := self.parameters[about], Number):
                    raise ValueError(f"requires.number: '{about}' is {one.words()}, not a number")

    def __hash__(self) -> int:
        return hash((self.name, self.wording))

    def _check_about(self, where: str, about: str, unfit: Any) -> None:
        for name, one in self.parameters.items():
            if isinstance(one, unfit) and (about == name or f"{{{name}}}" in about):
                raise ValueError(f"{where}: '{name}' is {one.words()}, and not a name")

    @cached_property
    def words(self) -> Wording:
        return Wording(self.wording, self.parameters)

    @property
    def verb(self) -> str:
        return self.words.head

    @property
    def listed(self) -> str:
        """How a prompt lists it: by its verb if one name is all that follows, else by its whole wording."""
        places = [f" {{{name}}}" for name, one in self.parameters.items() if isinstance(one, Named)]
        is_short = len(self.parameters) <= 1 and self.wording == f"{self.verb}{''.join(places)}"
        return self.verb if is_short else self.wording

    @property
    def places(self) -> str:
        of = self.parameters.items()
        usual = {name: f" ({one.write(one.default)} if left out)" for name, one in of if one.default is not None}
        said = [
            f"{name} is {one.words()}{usual.get(name, '')}"
            for name, one in of
            if name in usual or not isinstance(one, Named)
        ]
        return f"In '{self.wording}', {', '.join(said)}." if said else ""

    @property
    def purpose(self) -> str:
        """What it is for, needs and brings back, in a line for a model."""
        needs = " and ".join(dict.fromkeys(filter(None, (need.words() for need in self.requires))))
        returns = ", ".join(f"{name} ({one.words()})" for name, one in self.returns.items())
        later = " and ".join(f"<{name}>" for name in self.returns)
        brings = f" It returns {returns}, which {later} can stand for later." if returns else ""
        return f"{self.description.rstrip('.')}{needs and f', only if {needs}'}.{brings}"

    @property
    def moves(self) -> bool:
        return not {"at", "away"}.isdisjoint(self.effect)

    def does(self, effect: str) -> bool:
        """Whether it has an effect on the one value that it takes: then what it is done to says all of it."""
        return self.effect.get(effect) in self.parameters and len(self.parameters) == 1

    def call(self, values: Mapping[str, Value]) -> SkillCall:
        return SkillCall(self, values)

    def read(self, said: str | Mapping[str, object], now: Standing | None = None) -> SkillCall:
        """Read it, from words or from the fields of an object. Raises ParameterError."""
        return SkillCall(self, self.words.read(said, now))

    def describe(self, data: Mapping[str, Value]) -> str:
        """Return what came back as data in words, e.g. ``level: 57 %``; what is not as declared is said to be so."""
        return ", ".join(f"{name}: {_described(one, data.get(name))}" for name, one in self.returns.items())

    def as_data(self) -> dict[str, Any]:
        of = {"parameters": self.parameters, "returns": self.returns}
        named = {what: {name: _declared(one) for name, one in each.items()} for what, each in of.items() if each}
        return {
            "name": self.name,
            "wording": self.wording,
            **named,
            **({"effect": dict(self.effect)} if self.effect else {}),
            **({"requires": [need.as_data() for need in self.requires]} if self.requires else {}),
            **({"uses": sorted(self.uses)} if self.uses else {}),
            **({"description": self.description} if self.description else {}),
        }

    def as_fields(self) -> dict[str, Any]:
        """Return the declaration as a message has it: with its parts in lists."""
        return {
            **{name: getattr(self, name) for name in ("name", "wording", "description")},
            "parameters": _parts(self.parameters),
            "returns": _parts(self.returns),
            "effects": [{"name": name, "about": about} for name, about in self.effect.items()],
            "needs": [need.as_fields() for need in self.requires],
            "uses": sorted(self.uses),
        }


def _parts(parameters: Mapping[str, Parameter]) -> list[dict[str, Any]]:
    usual = {name: one.write(one.default) for name, one in parameters.items() if one.default is not None}
    return [{"name": name, **one.as_fields(), "usual": usual.get(name, "")} for name, one in parameters.items()]


def _declared(one: Parameter) -> dict[str, Any]:
    return {**one.as_data(), **({} if one.default is None else {"default": one.default})}


def _described(declared: Parameter, value: Value | None) -> str:
    unit = f" {declared.unit}" if isinstance(declared, Number) and declared.unit else ""
    try:
        declared.read(value)
    except ParameterError:
        came = "nothing came" if value is None else f"{value}{unit}"
        return f"{came} (it should be {declared.words()})"
    return f"{value}{unit}" if isinstance(declared, Number) else declared.write(declared.read(value))


def skill_of(declared: Any) -> Skill:
    """Return the skill that a file, a record or a message declares; a ValueError says in one line why it is none."""
    fields = _mapping(declared, "a skill")
    known = ("name", "wording", "parameters", "returns", "effect", "description", "requires", "uses")
    effect = _mapping(fields.get("effect") or {}, "effect")
    for key in fields:
        if key not in known:
            raise ValueError(
                f"'{shortened_line(str(key), 40)}' says nothing of a skill; {did_you_mean(str(key), known)}"
            )
    if not isinstance(fields.get("wording"), str) or not isinstance(fields.get("name"), str):
        raise ValueError("a skill needs a name and a wording, such as 'drive forward by {distance} m'")
    parameters = _parameters(fields, "parameters")
    return Skill(
        name=fields["name"],
        wording=fields["wording"],
        parameters=parameters,
        returns=_parameters(fields, "returns"),
        effect=effect_of(effect),
        description=_line(fields.get("description", ""), "description"),
        requires=_needs(fields.get("requires"), parameters),
        uses=frozenset(_line(one, "uses") for one in _list(fields.get("uses") or (), "uses")),
    )


def skill_in(msg: Any) -> Skill:
    """Return the skill of a message with :meth:`Skill.as_fields`; a ValueError says in one line why it is none."""
    try:
        needs = [need_in(one) for one in msg.needs]
        declared = {what: _named(getattr(msg, what), what) for what in (*_PLACES, "effects")}
        skill = skill_of(
            {
                **{what: getattr(msg, what) for what in ("name", "wording", "description", "uses")},
                **{what: {part: declared_in(one) for part, one in declared[what].items()} for what in _PLACES},
                "effect": {effect: one.about for effect, one in declared["effects"].items()},
                "requires": [need.as_data() for need in needs],
            }
        )
        if [*skill.requires] != needs:
            raise ValueError("needs: that of a number has one parameter, is so, and lasts if a condition is given")
    except ValueError as error:
        raise ValueError(in_one_line(f"skill '{shortened_line(msg.name, 60)}': {error}")) from None
    return skill


_PLACES = ("parameters", "returns")


def _named(parts: Sequence[Any], what: str) -> dict[str, Any]:
    named = {part.name: part for part in parts}
    if len(named) < len(parts):
        each = shortened_line(", ".join(part.name for part in parts), 80)
        raise ValueError(f"{what}: one of {each} is named twice")
    return named


def _needs(declared: Any, parameters: Mapping[str, Parameter]) -> tuple[Need, ...]:
    try:
        return needs_of(declared, parameters) if declared else ()
    except ValueError as error:
        raise ValueError(f"requires: {error}") from None


def _line(value: Any, what: str) -> str:
    if not isinstance(value, str) or "\n" in value.strip():
        raise ValueError(f"{what}: {shortened_line(repr(value), 60)} is not a line of text")
    return value.strip()


def _list(value: Any, what: str) -> Sequence[Any]:
    if not isinstance(value, list | tuple):
        raise ValueError(f"{what}: {shortened_line(repr(value), 60)} is not a list; write it like [base, arm]")
    return value


def effect_of(declared: Mapping[Any, Any]) -> dict[str, str]:
    return {(SWITCHED[what] if isinstance(what, bool) else str(what)): str(about) for what, about in declared.items()}


def _parameters(fields: Mapping[str, Any], what: str) -> dict[str, Parameter]:
    read = {}
    for name, declared in _mapping(fields.get(what) or {}, what).items():
        try:
            read[str(name)] = parameter_of(declared)
        except ValueError as error:
            raise ValueError(f"{what}.{name}: {error}") from None
    return read


def _mapping(value: Any, what: str) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):
        raise ValueError(f"{what} cannot be {shortened_line(repr(value), 60)}; give its parts by name")
    return value


class SkillCall(str):
    """A skill as data: the declaration with a value in every place. It is the text that says it."""

    skill: Skill  # the declaration
    values: Mapping[str, Value]  # by parameter

    def __new__(cls, skill: Skill, values: Mapping[str, Value]) -> SkillCall:
        call = super().__new__(cls, skill.words.write(values))
        call.skill, call.values = skill, dict(values)
        return call

    def __getnewargs__(self) -> tuple[Any, ...]:
        return self.skill, self.values

    def value(self, effect: str) -> str:
        about = self.skill.effect.get(effect, "")
        return str(self.values[about]) if about in self.values else filled(about, self.values)

    @cached_property
    def said(self) -> Mapping[str, str]:
        """What its values are in words, by parameter."""
        return {name: one.write(self.values[name]) for name, one in self.skill.parameters.items()}

    @property
    def named(self) -> Iterator[tuple[str, Named, str]]:
        """The names that it says, be it in lists, each with its parameter and the kind of name."""
        for name, one in self.skill.parameters.items():
            if (kind := one.named) is not None:
                yield from ((name, kind, str(each)) for each in each_of(self.values[name]))

    def unmet(self, facts: Facts) -> Iterator[Need]:
        """Yield each of its needs that is known not to hold."""
        return (need for need in self.skill.requires if need.holds(self.values, facts) is False)

    @property
    def bearer(self) -> str:
        """The person who has what was released; empty: nobody has it."""
        place = self.skill.parameters.get(self.skill.effect.get("place", ""))
        return self.value("place") if isinstance(place, Person) else ""

    def check_known(self, names: Names) -> None:
        """Check that what it names can ever be there, by the names that can stand in a place. Raises ParameterError."""
        for _, kind, name in self.named:
            kind.check_known(name, names(kind))

    @property
    def persons(self) -> list[str]:
        return [name for _, kind, name in self.named if isinstance(kind, Person)]


@dataclass(frozen=True)
class Offer:
    """A skill that may be tried now."""

    skill: Skill  # the declaration
    now: Standing = field(default_factory=dict)  # the names that may stand in its places
    given: Mapping[str, Value | None] = field(default_factory=dict)  # what skills return, see :attr:`Wording.given`

    def __post_init__(self) -> None:
        for name in self.now:
            if name not in self.skill.parameters:
                meant = or_nearest(name, self.skill.parameters)
                raise ValueError(f"'{shortened_line(name, 60)}' is not a place of '{self}'{meant}")

    def __str__(self) -> str:
        return self.skill.wording

    @cached_property
    def words(self) -> Wording:
        return replace(self.skill.words, given=self.given) if self.given else self.skill.words

    def pattern(self, notation: Notation) -> str:
        return self.words.pattern(notation, self.now)

    def schema(self) -> dict[str, Any]:
        return self.words.schema(self.now)

    @property
    def described(self) -> str:
        """Its wording, with what may stand in its places now."""
        each = self.skill.parameters.items()
        said = [f"{name}: {' / '.join(self.now[name]) if name in self.now else one.words()}" for name, one in each]
        return f"{self} ({'; '.join(said)})" if said else str(self)

    @property
    def names(self) -> list[str]:
        return [name for each in self.now.values() for name in each]

    @property
    def longest(self) -> int:
        return self.skill.words.longest(self.now)

    def example(self) -> SkillCall:
        each = self.skill.parameters.items()
        return self.skill.call({name: one.example(self.now.get(name)) for name, one in each})

    def lines(self) -> list[str]:
        """Return every text that may be said; none if there are too many to list."""
        return self.skill.words.options(self.now) or []

    def read(self, said: str | Mapping[str, object]) -> SkillCall:
        return self.skill.call(self.words.read(said, self.now))

    def is_called(self, name: str) -> bool:
        is_name = all(any(map(str.isalnum, word)) for word in name.split())
        return is_name and key_of(name) in (key_of(self.skill.name), key_of(self.skill.verb))

    def as_data(self) -> dict[str, Any]:
        now = {name: list(names) for name, names in self.now.items()}
        return {"skill": self.skill.as_data(), "now": now, **({"given": dict(self.given)} if self.given else {})}


#: What may be tried: a whole text, or a declared skill with what may stand in its places.
Offered = str | Offer


def offered_of(data: Any) -> Offered:
    """Return what a record or a message offers; a ValueError if it is not an offer."""
    if isinstance(data, str):
        return data
    fields = _mapping(data, "an offer")
    now = _mapping(fields.get("now") or {}, "now")
    standing = {str(name): tuple(map(str, names)) for name, names in now.items()}
    return Offer(skill_of(fields.get("skill")), standing, dict(_mapping(fields.get("given") or {}, "given")))


def as_data(offered: Iterable[Offered]) -> list[Any]:
    return [one if isinstance(one, str) else one.as_data() for one in offered]


def apart(offered: Iterable[Offered]) -> tuple[list[str], list[Offer]]:
    offered = list(offered)
    return [one for one in offered if isinstance(one, str)], [one for one in offered if isinstance(one, Offer)]


def lines_of(offered: Iterable[Offered]) -> list[str]:
    return [line for one in offered for line in ([one] if isinstance(one, str) else one.lines())]


def helping(need: Need, values: Mapping[str, Value], facts: Facts, skills: Iterable[Skill]) -> str:
    """Return a skill that brings about what another one needs, as far as it is known; empty if there is none."""
    named = need.named(values)
    if need.is_so:
        effect = {"near": "at", "free": "released"}.get(need.fact, need.fact)
        those = ["…"] if need.fact == "free" else named  # what is released frees a hand, whatever it is
    else:
        effect = OPPOSITES.get(need.fact, "released" if need.fact == "held" else "")
        those = [name for one in named for name in facts.those(need.fact, one)]
    for skill in skills:
        about = skill.effect.get(effect, "")
        template = f"{{{about}}}" if about in skill.parameters else about
        taken = {name: one for name, one in skill.parameters.items() if f"{{{name}}}" in template}
        for name in those if taken else {about} & {*those}:
            with suppress(ParameterError):
                known = Wording(template, taken).read(name)
                form = skill.words.form_of({one: known.get(one, of.default) for one, of in skill.parameters.items()})
                return filled(form, {one: known.get(one, "…") for one in skill.parameters})
    return ""


def read_skill(said: str, skills: Sequence[Skill]) -> SkillCall:
    """Read a text as one of some skills, whatever may stand in its places now. Raises ParameterError.

    Of several skills whose words it has, those with the most words of their own count: ``open drawer 9`` is not ``open
    {thing}`` if there is an ``open drawer {number}``, even if there are only six drawers.
    """
    return _read_skill(said, tuple(skills))


@lru_cache(maxsize=1024)  # an act is read by the node and by the world
def _read_skill(said: str, skills: tuple[Skill, ...]) -> SkillCall:
    reasons = []
    most_words_first = sorted(skills, key=lambda one: one.words.letters_in(said), reverse=True)
    for _, alike in itertools.groupby(most_words_first, key=lambda one: one.words.letters_in(said)):
        read: list[SkillCall] = []
        refused: list[str] = []
        for skill in alike:
            try:
                read.append(skill.read(said))
            except ParameterError as error:
                reasons += [str(error)] if skill.words.begins(said) else []
                refused += [str(error)] if skill.words.says(said) else []
        if len(read) > 1:
            meant = " or ".join(f"'{call.skill.name}'" for call in read)
            refused = [f"'{shortened_line(said, 80)}' may be {meant}"]
        elif read:
            return read[0]
        if refused:
            raise ParameterError(refused[0])
    if reasons:
        raise ParameterError(reasons[0])
    verbs, words = list(dict.fromkeys(skill.verb for skill in skills)), said.split()
    near = (or_nearest(" ".join(words[: len(verb.split())]), [verb]) for verb in verbs)
    meant = next(filter(None, near), "")
    raise ParameterError(f"'{shortened_line(said, 80)}' is not a skill; one starts with {', '.join(verbs)}{meant}")


def check_told_apart(skill: Skill, others: Iterable[Skill]) -> None:
    """Check that no text says a skill and another one, with values that both take. Raises ValueError."""
    if alike := next((other for other in others if skill.words.is_alike(other.words)), None):
        raise ValueError(f"wording: '{skill.wording}' may be skill '{alike.name}', too; say one of them in other words")


@dataclass(frozen=True)
class Statements(Parameter):
    """Some statements, each in the words of one of some offers, with ``; `` between them."""

    offers: tuple[Offer, ...]  # what may be stated
    most: int = 3  # how many statements there may be

    def pattern(self, notation: Notation, now: Sequence[str] | None = None) -> str:
        one = notation.one_of(offer.pattern(notation) for offer in self.offers)
        more = notation.one_of([notation.line_of((notation.literal("; "), one))])
        return notation.line_of((one, f"{more}{{0,{self.most - 1}}}"))

    def schema(self, now: Sequence[str] | None = None) -> dict[str, Any]:
        stated = [as_object(**{offer.skill.name: offer.schema()}) for offer in self.offers]
        return {"type": "array", "items": {"anyOf": stated}, "minItems": 1, "maxItems": self.most}

    def read(self, said: object, now: Sequence[str] | None = None) -> str:
        return "; ".join(self.calls(said))

    def calls(self, said: object) -> list[SkillCall]:
        each = list(said) if isinstance(said, Sequence) and not isinstance(said, str) else str(said).split(";")
        if not 1 <= len(each) <= self.most:
            raise ParameterError(f"{len(each)} statements may not stand here, but {self.words()}")
        return [self._call(one) for one in each]

    def _call(self, said: object) -> SkillCall:
        if isinstance(said, Mapping) and len(said) == 1:
            ((name, fields),) = said.items()
            named = [offer for offer in self.offers if offer.is_called(str(name))]
            if named and isinstance(fields, Mapping):
                return named[0].read(fields)
        found = {}
        for offer in self.offers:
            with suppress(ParameterError):
                call = offer.read(str(said).strip())
                found[str(call)] = call
        if len(found) != 1:
            raise ParameterError(f"'{shortened_line(str(said), 80)}' may not stand here, but {self.words()}")
        return next(iter(found.values()))

    def longest_of(self, now: Sequence[str] | None = None) -> int:
        return self.most * (2 + max(offer.longest for offer in self.offers))

    def example(self, now: Sequence[str] | None = None) -> str:
        return self.offers[0].example()

    def words(self) -> str:
        return f"at most {self.most} statements such as '{self.example()}', with '; ' between"

    def as_data(self) -> Any:
        return {"statements": [offer.as_data() for offer in self.offers]}


#: The skill by which every condition is waited for.
WAIT = "wait until"
#: Longest wait for a condition that may be asked for, in seconds.
LONGEST = 600


def wait_skill(conditions: Sequence[str]) -> Skill:
    parameters = {"condition": Choice(tuple(conditions)), "seconds": Number(0, LONGEST, unit="s")}
    return Skill(name=WAIT, wording=f"{WAIT} {{condition}} for up to {{seconds}} s", parameters=parameters)


def look_at(condition: str, skills: Sequence[Skill]) -> SkillCall:
    """Return the skill that looks whether a condition holds now: a wait of no time. Raises ParameterError."""
    return read_skill(f"{WAIT} {condition} for up to 0 s", skills)
