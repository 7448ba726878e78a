"""What a person says of the house, read as statements that the world can take in.

What is said in the closed form is read here; anything else is one request to the language model, held to that form.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, cast

from reactree_ros.agent.grammar import DecisionGrammar
from reactree_ros.agent.parameters import Named, ParameterError
from reactree_ros.agent.skill import Offer, Skill, SkillCall, Statements
from reactree_ros.agent.text import without_articles, words
from reactree_ros.agent.turns import Told

#: What the model says of words that correct nothing.
NOTHING = "nothing of this"
#: The most readings among which a person is asked to choose.
MOST = 9
_NAME = "take in that"
#: Effects that say where a thing is.
_WHERE = ("held", "released", "gone")
_NEXT = re.compile(r" ?; ?|(?<=\w\w\w)[.] |,? and (?=(?:the|i)\b)", re.IGNORECASE)
#: How people say that they have something.
_TAKEN = r"(?: just| now)?(?: taken| got)? (?:the )?"
#: Other words for the same, each with those of a statement.
_SAME = tuple(
    (re.compile(said, re.IGNORECASE), stated)
    for said, stated in (
        (rf"^(?:no[,:] )?i(?:['’]ve| have){_TAKEN}(.+)$", r"the \1 is with the person"),
        (rf"^(.+) has{_TAKEN}(.+)$", r"the \2 is with \1"),
        (r"^(?!the )", "the "),
        (r" is (?:now )?(?:on|in|inside|at) (?:the )?(?=\S)", " is at "),
    )
)


class CorrectionGrammar(DecisionGrammar):
    """What a person's words may tell: some statements, or :data:`NOTHING`."""

    @property
    def statements(self) -> Sequence[Offer]:
        return cast("Statements", self.offers[0].skill.parameters["statements"]).offers


def grammar_of(offers: Sequence[Offer]) -> CorrectionGrammar:
    stated = Skill(name=_NAME, wording=f"{_NAME} {{statements}}", parameters={"statements": Statements(tuple(offers))})
    return CorrectionGrammar((NOTHING,), (), offers=(Offer(stated),), longest_thought=0)


def question_of(said: str, offers: Sequence[Offer]) -> Told:
    names: dict[str, dict[str, None]] = {}
    for name, each in (one for offer in offers for one in offer.now.items()):
        names.setdefault(name, {}).update(dict.fromkeys(each))
    lists = [f"In the place of {{{name}}}: {', '.join(each)}." for name, each in names.items()]
    return Told(
        "\n".join(
            (
                "A person speaks to a robot at work. Say what the words tell of the house, in these statements alone:",
                *(f"- {offer}" for offer in offers),
                *lists,
                f"Say 'Act: {_NAME} ' and the statement, or at most {Statements.most} with '; ' between. "
                f"If the words tell none of this, as a wish, an order or a question does not, say 'Act: {NOTHING}'.",
                *_examples(offers),
                f"The person says: {said}.",
            )
        )
    )


def _examples(offers: Sequence[Offer]) -> Iterator[str]:
    first, second = (offers[at % len(offers)].example() for at in (0, 1))
    for said, act in (
        ("please hurry up, will you?", NOTHING),
        (f"{second}, and {offers[-1].example()}", f"{_NAME} {second}; {offers[-1].example()}"),
        ("not so fast", NOTHING),
        (f"look, {first} now", f"{_NAME} {first}"),
    ):
        yield f'The person says: "{said}".\nAct: {act}'


def stated_in(text: str, offers: Sequence[Offer]) -> list[SkillCall]:
    calls = Statements(tuple(offers)).calls(text.removeprefix(_NAME))
    moved = [call.value(effect) for call in calls for effect in _WHERE if effect in call.skill.effect]
    if len(set(moved)) < len(moved):
        raise ParameterError(f"{', '.join(moved)}: a thing cannot be at two places")
    return calls


def read_exactly(said: str, offers: Sequence[Offer]) -> list[list[SkillCall]]:
    """Return every reading of a person's words as statements in the closed form; nothing if they are in other words.

    Each reading is a list of statements. There are several where a name lacks its number.
    """
    parts = [part for part in _NEXT.split(" ".join(said.split()).strip(" .!")) if part]
    if not 1 <= len(parts) <= Statements.most:
        return []
    return _ways(*(_calls(part, offers) for part in parts))


def readings(said: str, stated: Sequence[SkillCall], offers: Sequence[Offer]) -> list[list[SkillCall]]:
    """Return what the model's statements may mean: of a thing whose number the person has not said, any of its kind.

    A statement on a thing of whose name the person has said no word is none of the person's.
    """
    now = {offer.skill: offer.now for offer in offers}
    heard = f" {' '.join(words(said))} "
    each = []
    for call in stated:
        thing = str(call.values[next(iter(call.skill.parameters))])
        if not any(f" {word}" in heard for word in _kind(thing)):
            continue
        names = {
            name: [value] if f" {' '.join(words(str(value)))} " in heard else _alike(str(value), now[call.skill][name])
            for name, value in call.values.items()
        }
        each.append([call.skill.call(dict(zip(names, one, strict=True))) for one in _ways(*names.values())])
    return _ways(*each) if each else []


def _ways(*each: Sequence[Any]) -> list[list[Any]]:
    return [list(one) for one in itertools.islice(itertools.product(*each), MOST + 1)]


def chosen(answer: str, options: Sequence[str]) -> int | None:
    """Return which option an answer names, the only one that has all of its words; None if there is none."""
    said = {*words(without_articles(answer))}
    fitting = [at for at, option in enumerate(options) if said and said <= {*words(option)}]
    return fitting[0] if len(fitting) == 1 else None


def _digits(value: object) -> set[str]:
    return {word for word in words(str(value)) if word.isdigit()}


def _alike(name: str, names: Sequence[str]) -> list[str]:
    if not _digits(name):
        return [name]
    return [name, *(other for other in names if other != name and _kind(other) == _kind(name))]


def _kind(name: str) -> tuple[str, ...]:
    return tuple(word for word in words(without_articles(name)) if not word.isdigit())


def _calls(said: str, offers: Sequence[Offer]) -> list[SkillCall]:
    found: dict[str, SkillCall] = {}
    forms = [said]
    for pattern, same in _SAME:
        forms += [pattern.sub(same, form) for form in forms]
    for form in dict.fromkeys(forms):
        for offer in offers:
            found |= {str(call): call for call in _read(form, offer)}
    return list(found.values())


def _read(said: str, offer: Offer) -> Iterator[SkillCall]:
    short: Mapping[str, dict[str, list[str]]] = {name: _short(names) for name, names in offer.now.items()}
    with suppress(ParameterError):
        values = offer.skill.words.read(said, {name: [*names, *short[name]] for name, names in offer.now.items()})
        named = {
            name: short[name].get(str(value), [str(value)])
            for name, value in values.items()
            if isinstance(offer.skill.parameters[name], Named)
        }
        yield from (offer.skill.call(dict(zip(named, one, strict=True))) for one in _ways(*named.values()))


def _short(names: Sequence[str]) -> dict[str, list[str]]:
    short: dict[str, list[str]] = {}
    for name in names:
        if _digits(name) and (kind := " ".join(_kind(name))) and kind not in names:
            short.setdefault(kind, []).append(name)
    return short
