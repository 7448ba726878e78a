"""Reads a question in everyday English: which part of a household goal it asks for, if any."""

from __future__ import annotations

import enum
import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any

from reactree_lab.household.generator import KINDS
from reactree_ros.household.vocabulary import (
    CLASSES,
    GLASS_OF_WINE,
    TABLE,
    WASHER,
    Entry,
    Topic,
    class_of_word,
    correct,
    look_up,
    word_set,
)

#: Most characters of a question that are read; real questions are shorter.
LONGEST_READ = 1000

_WORDS = re.compile(r"[a-z]+|\d+|[.?!\n]")
_ENDS = frozenset(".?!\n")
#: The tables of ``answers.json``; ``read`` has the words of questions.
ANSWERS: Mapping[str, Any] = json.loads((files(__package__) / "answers.json").read_text(encoding="utf-8"))
_WORDS_FOR = {name: word_set(words) for name, words in ANSWERS["read"].items()}
_WISHING = (_WORDS_FOR["going"] - {"be"}) | _WORDS_FOR["wishing"]
_ELSE = re.compile(
    r"\b(?:anything|something|what|nothing|things?|items?|all|more) (?:else|more|missing)\b|\b(?:that|this|it) "
    r"(?:all|everything|complete)\b|\b(?:besides|apart from|in addition|any other|what other|which other)\b|\bmissing\b"
)
_TO_DO = re.compile(r"\b(?:i|we|me to) do\b(?! with)|\b(?:step|next|first|begin)\b")
_SKIPPED = re.compile("[’'`]")


class GoalPart(enum.Enum):
    THINGS = "things"
    COUNT = "count"
    PLACE = "place"
    STATE = "state"


class Form(enum.Enum):
    OPEN = "which?"
    """Asks for something unknown."""
    CLOSED = "is it?"
    """Asks whether something named is so, or which of several."""
    MORE = "anything else?"
    """Asks for further wishes."""
    BEYOND = "something else"
    """Asks for something outside of the goal."""
    UNCLEAR = "what?"
    """No question, or one that cannot be understood."""


@dataclass(frozen=True)
class Asked:
    """The contents of a question.

    Attributes:
        places: Vocabulary words for the furniture and appliances that it names, likewise.
    """

    form: Form
    parts: tuple[GoalPart, ...] = ()  # parts of the goal that an open question asks for, in its order
    things: tuple[tuple[str, ...], ...] = ()  # vocabulary words for the things that it names, one tuple per phrase
    places: tuple[tuple[str, ...], ...] = ()
    numbers: tuple[int, ...] = ()
    any_kind: bool = False  # whether a phrase for things is general ("snacks", "things")


_NUMBERS: Mapping[str, int] = ANSWERS["counted"]
#: Words with the same head noun: "glass" for "wine glass" and "water glass".
_BY_HEAD: dict[str, tuple[str, ...]] = {}
for _class in CLASSES.values():
    if len(_class.word.split()) > 1 and _class.category not in ("Rooms", "Characters"):
        _noun = _class.word.split()[-1]
        _BY_HEAD[_noun] = (*_BY_HEAD.get(_noun, ()), _class.word)


def _of_kinds(*kinds: str) -> tuple[str, ...]:
    return tuple(CLASSES[name].word for kind in kinds for name in KINDS[kind])


#: Further meanings of words, beyond the lexicon.
_WIDER = {
    "dish": _of_kinds("dish"),
    "tableware": _of_kinds("dish"),
    **dict.fromkeys(("food", "meal", "foodstuff", "snack"), _of_kinds("food", "snack")),
    "fruit": ("apple", "bananas", "lime", "pear", "plum"),
    "drink": ("alcohol", "juice", "milk", "milkshake", "wine"),
}


@dataclass(frozen=True)
class _Mention:
    """A phrase of the lexicon in a sentence: its position and its possible meanings."""

    start: int
    end: int
    entry: Entry
    words: tuple[str, ...]

    @property
    def is_place(self) -> bool:
        return self.entry.kind in (Topic.PLACE, Topic.ROOM) or not any(map(_can_be_held, self.words))


def read_question(text: str) -> Asked:
    """Read a question: the last sentence that asks, in the context of what the others name."""
    plain = _SKIPPED.sub("", unicodedata.normalize("NFKC", text[:LONGEST_READ]).casefold())
    sentences = [(words, tuple(_mentions(words))) for words in _sentences(plain)]
    for number in range(len(sentences) - 1, -1, -1):
        words, mentions = sentences[number]
        before = [one for _, those in sentences[:number] for one in those]
        asked = _read(words, mentions, before)
        if asked.form is not Form.UNCLEAR:
            return asked
    return Asked(Form.UNCLEAR)


def unasked(questions: Sequence[str], asked: Iterable[str]) -> str:
    """Return the first question that no question asked so far has the meaning of; empty if there is none."""
    meant = set(map(read_question, asked))
    return next((one for one in questions if read_question(one) not in meant), "")


def _sentences(text: str) -> Iterator[list[str]]:
    words: list[str] = []
    for word in _WORDS.findall(text):
        words.append(word if word in _KNOWN else correct(word))
        if word in _ENDS:
            yield words
            words = []
    if words:
        yield words


def _mentions(words: list[str]) -> Iterator[_Mention]:
    at = 0
    while at < len(words):
        found = look_up(words, at) if words[at] not in _KNOWN else None
        if found is None:
            at += 1
            continue
        entry, length = found
        meant = entry.words
        if length == 1:
            meant = (*dict.fromkeys((*meant, *_of_noun(_BY_HEAD, words[at]))),)
        if entry.kind is Topic.GROUP:
            meant = (*dict.fromkeys((*meant, *_of_noun(_WIDER, words[at]))),)
        yield _Mention(at, at + length, entry, meant)
        at += length


def _of_noun(table: Mapping[str, tuple[str, ...]], noun: str) -> tuple[str, ...]:
    return next((table[one] for one in (noun, noun[:-1], noun[:-2]) if one in table), ())


def _read(words: Sequence[str], mentions: Sequence[_Mention], before: Sequence[_Mention]) -> Asked:
    text = " ".join(words)
    own = [one for one in (mentions or before) if one.entry.kind is not Topic.ROOM]
    asked = Asked(
        Form.UNCLEAR,
        things=tuple(one.words for one in own if not one.is_place),
        places=tuple(one.words for one in own if one.is_place),
        numbers=tuple(int(word) if word.isdecimal() else _NUMBERS[word] for word in words if _is_number(word)),
        any_kind=any(one.entry.kind is Topic.GROUP for one in own),
    )
    if _ELSE.search(text) and not _TO_DO.search(text):
        return replace(asked, form=Form.MORE)
    parts, beyond = _parts(words, mentions, own)
    if parts:
        return replace(asked, form=Form.OPEN, parts=parts)
    if beyond:
        return Asked(Form.BEYOND)
    if not words or not (words[-1] == "?" or words[0] in _WORDS_FOR["asking"]):
        return Asked(Form.UNCLEAR)
    if words[0] in ("may", "can", "could", "am", "have", "has") or _TO_DO.search(text) or _is_about_the_house(words):
        return Asked(Form.BEYOND)
    if own:
        return replace(asked, form=Form.CLOSED, parts=(GoalPart.STATE,) if _is_about_switches(words) else ())
    return Asked(Form.BEYOND if words[0] in _WORDS_FOR["asking"] else Form.UNCLEAR)


def _is_about_the_house(words: Sequence[str]) -> bool:
    """Return whether a question asks how things are ("is the fridge open?") and not how they should be."""
    if words[0] in ("is", "are", "was", "were") and words[1:2] in (["it"], ["that"], ["this"], ["those"], ["these"]):
        return False
    return words[0] in _WORDS_FOR["being"] | {"do", "does", "did"} and _WISHING.isdisjoint(words)


def _is_number(word: str) -> bool:
    return word in _NUMBERS or (word.isdecimal() and len(word) < 4)


def _is_about_switches(words: Sequence[str]) -> bool:
    return bool(_WORDS_FOR["switching"].difference({"on", "off", "start"}).intersection(words)) or "off" in words


def _parts(
    words: Sequence[str], mentions: Sequence[_Mention], named: Sequence[_Mention]
) -> tuple[tuple[GoalPart, ...], bool]:
    """Return the parts that a word such as "which" asks for, and whether another such word asks for more."""
    found: list[GoalPart] = []
    beyond = False
    for at, word in enumerate(words):
        part: GoalPart | None = None
        if word == "how" and words[at + 1 : at + 2] in (["many"], ["much"]):
            part = GoalPart.COUNT
        elif word == "where":
            part = _where(words[at + 1 :])
        elif word in ("which", "what", "whats"):
            part = _which(words, at, mentions, named)
        elif word in _WORDS_FOR["telling"] and at < 4 and not {"which", "what", "where", "how"} & set(words[at:]):
            part = _head(words, at + 1, mentions, named)
        elif word in ("who", "why", "when", "whose") or (word == "how" and words[at + 1 : at + 2] != ["about"]):
            part = None
        else:
            continue
        if part is None:
            beyond = True
        elif part not in found:
            found.append(part)
    return tuple(found), beyond and not found


def _where(after: Sequence[str]) -> GoalPart | None:
    """Return the part that "where" asks for: where a thing should go; None if it asks where the thing is."""
    if _WORDS_FOR["searching"].intersection(after):
        return None
    first = next(iter(after), "?")
    if first in _ENDS or _WORDS_FOR["going"].intersection(after):
        return GoalPart.PLACE
    return None


def _which(words: Sequence[str], at: int, mentions: Sequence[_Mention], named: Sequence[_Mention]) -> GoalPart | None:
    after = words[at + 1 :]
    if _is_about_switches(words):
        return GoalPart.STATE
    if after[:1] in (["is"], ["are"]) and (part := _head(words, at + 2, (), named)) in (GoalPart.COUNT, GoalPart.PLACE):
        return part  # "what is the destination?"
    if _WORDS_FOR["being"].intersection(after) and after[1:3] != ["is", "it"] and _WISHING.isdisjoint(after):
        return None  # "which table is it on?"
    part = _head(words, at + 1, mentions, named)
    if part is None and words[at - 1 : at] and words[at - 1] in _WORDS_FOR["to"]:
        return GoalPart.PLACE
    if part is not None:
        return part
    text = " ".join(after)
    if text.find("do with") >= 0 and named:
        return GoalPart.PLACE
    if _TO_DO.search(text):
        return None
    return GoalPart.THINGS if _WORDS_FOR["wanting"].intersection(after) or after[:1] == ["?"] else None


def _head(words: Sequence[str], at: int, mentions: Sequence[_Mention], named: Sequence[_Mention]) -> GoalPart | None:
    """Return what the next noun asks for: "which table", "which of the snacks", "the number of apples"."""
    while (
        at < len(words)
        and words[at] in _WORDS_FOR["between"]
        and not (words[at] == "food" and words[at + 1 : at + 2] == ["?"])
    ):
        at += 1
    if at >= len(words):
        return None
    word = words[at]
    if word in _WORDS_FOR["counts"]:
        return GoalPart.COUNT
    if word in ("state", "setting"):
        return GoalPart.STATE
    if word in ("one", "ones", "them", "two"):
        before = [one for one in named if one.end <= at] or [one for one in named if one not in mentions]
        return GoalPart.PLACE if before and before[-1].is_place else GoalPart.THINGS
    mention = next((one for one in mentions if one.start == at), None)
    if mention is not None:
        return GoalPart.PLACE if mention.is_place else GoalPart.THINGS
    if word in _WORDS_FOR["places"]:
        return GoalPart.PLACE
    return GoalPart.THINGS if word in _WORDS_FOR["things"] or word in _BY_HEAD else None


def _can_be_held(word: str) -> bool:
    if word in (TABLE, WASHER):
        return False
    return word == GLASS_OF_WINE or "GRABBABLE" in class_of_word(word).properties


#: Words with a meaning here, which are never corrected as slips.
_KNOWN = (
    frozenset(
        word
        for name in ("places", "counts", "between", "wanting", "switching", "searching", "going", "asking", "telling")
        for word in _WORDS_FOR[name] - {"dish", "dishes", "glass", "glasses"}
    )
    | _WORDS_FOR["known"]
)
