"""Parses an instruction: which things it names, where they go, what to open, close or turn on.

Named things wait for their place ("get a fork and put it on the table"), or go to a place named before ("put on the
table: a fork, a plate"). A place after "from" or "that are on" is where a thing is, not where it goes.

Every word is accounted for: each step marks the words that it has read, and a word that no step has marked is left
over, unless it changes nothing (``words.json``).
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from reactree_ros.agent.text import number_of
from reactree_ros.household.vocabulary import (
    CONTAINERS,
    FROM,
    SURFACE_OF_ROOM,
    TABLE,
    TABLEWARE,
    WASHER,
    Entry,
    Topic,
    can_be_held,
    correct,
    is_known,
    is_room,
    look_up,
    own_classes,
    properties_of_word,
    word_set,
)

TABLES: dict[str, Any] = json.loads(Path(__file__).with_name("words.json").read_text(encoding="utf-8"))
#: Sets of words. ``harmless`` ones say nothing of their own; ``stated`` ones do so after "make sure that";
#: ``switches`` belong to a switch; ``assumed`` ones are taken to be so of any thing.
WORDS: dict[str, frozenset[str]] = {name: word_set(words) for name, words in TABLES["sets"].items()}
NUMBERS: dict[str, int] = TABLES["numbers"]
#: Runs of words, joined by spaces, that say nothing of their own.
PHRASES = re.compile(rf"\b(?:{'|'.join(TABLES['phrases'])})(?!\S)")


#: A larger count is reduced to this one, which no house can hold.
MANY = 10_000
_OPERATING = frozenset({"open", "close", "turn"})
_ENDS = frozenset(".;!?\n")
_PAUSES = frozenset([",", ":", "and", "then", "-", "(", ")"])
_DETERMINERS = WORDS["articles"] | NUMBERS.keys()
#: Signs between words that say nothing; any other sign is a word.
_SIGNS = frozenset("\"'`“”„«»*_-…•~#|[]{}<>")

_WORDS = re.compile(r"(?<=\s)-\d+|\d+(?:[.,:/\u2044]\d+)+|[^\W\d_]+|\d+|[.,;:!?\n()]|\S")
_HELD = re.compile(r"\bwhat(?:ever)? you(?: are|re)? (?:hold|holding|carry|carrying)\b")
_NUMBERING = re.compile(r"^\s{0,40}(?:\d+\s*[.)]\s+|step \d+\s*[:.)]?\s*|[-*•]\s*)", re.MULTILINE)


@dataclass(frozen=True)
class Item:
    entry: Entry  # the meaning of the phrase
    count: int | None  # number of things; None if not said
    more: bool  # whether it is in addition to things named before ("another apple")
    label: bool  # whether it only sums up a list ("the following food items")
    phrase: str = ""  # its words, corrected

    def taken_from(self, place: str) -> Item:
        return replace(self, entry=replace(self.entry, words=tuple(f"{one}{FROM}{place}" for one in self.entry.words)))


@dataclass
class Errand:
    items: list[Item]
    place: str | None


@dataclass(frozen=True)
class Operation:
    action: str  # ``open``, ``close``, ``turn on`` or ``turn off``
    thing: str  # its word
    named: int  # number of items named before
    means: bool = False  # whether it only leads to what follows it: "go to the fridge and open it"


@dataclass
class Sentence:
    """The parsed part of an instruction; see :func:`read_sentence`.

    Attributes:
        unread: Positions of words that no step has read, and that do not change nothing.
    """

    said: list[str]  # the words as they were said, with punctuation as separate words
    words: list[str]  # the same words, corrected
    unread: list[int] = field(default_factory=list)
    errands: list[Errand] = field(default_factory=list)  # items with their places
    operations: list[Operation] = field(default_factory=list)  # things to open, close and turn on
    named: int = 0  # number of items named
    washing: list[int] = field(default_factory=list)  # positions of the words that say that things are to be washed
    pending: list[Item] = field(default_factory=list)  # items without a place so far
    open_place: str | None = None  # A place named before its items
    last_place: str | None = None  # the place that "it" and "the door" may stand for
    room: str | None = None  # A room that something goes to
    rooms: dict[str, str] = field(default_factory=dict)  # the kind of room of a place or a switch, if said
    vessel: str | None = None  # A thing that something goes into or onto
    put: bool = False  # whether a verb of putting came after the pending items
    for_me: bool = False  # whether the pending items are for the speaker
    homeless: bool = False  # whether nobody says where the last items are put
    opened: range = range(0)  # positions of its words

    _at: int = field(default=0, init=False)
    _verb: str = field(default="", init=False)  # of this clause: put, get, go, turn or a door's
    _moving: str = field(default="", init=False)  # the last one of these two: put, get
    _action: str | None = field(default=None, init=False)  # open, close, turn on: waits for its object
    _towards: bool = field(default=False, init=False)  # "on the", "into", … came right before
    _number: int | None = field(default=None, init=False)
    _more: bool = field(default=False, init=False)
    _fixed: str | None = field(default=None, init=False)  # the last named thing, if it stands in a room
    _fixed_end: int = field(default=0, init=False)  # end of its words
    _particles: set[int] = field(default_factory=set, init=False)  # positions of "on" and "off" that belong to "turn"
    _read: set[int] = field(default_factory=set, init=False)  # positions of the words that were read
    _counting: list[int] = field(default_factory=list, init=False)  # those of the number and "more" that wait
    _doing: list[int] = field(default_factory=list, init=False)  # those of verbs that wait for an object
    _acting: list[int] = field(default_factory=list, init=False)  # those of "turn on" that wait for one
    _in_room: range = field(default=range(0), init=False)  # those of a room that the pending items go to
    _there: str = field(default="", init=False)  # what they go to there: its usual surface, or any if some are its own
    _within: range = field(default=range(0), init=False)  # those of a thing that they go into
    _again: bool = field(default=False, init=False)  # whether "it" is a moved thing
    _went: range = field(default=range(0), init=False)  # those of the last place or room that the robot goes to
    _excluded: list[tuple[str, range]] = field(default_factory=list, init=False)  # things not to be touched

    def read(self) -> None:
        self._find_particles()
        harmless = self._harmless()
        while self._at < len(self.words):
            if self._at in harmless:
                self._at += 1
            else:
                self._step()
        self._end_clause()
        self._settle_rest()
        if [(one.action, one.means, one.named) for one in self.operations[-2:]] == [("go to", False, self.named)] * 2:
            self._read.difference_update(self._went)  # a way that leads to nothing else: only one of two is a goal
        named = {word for errand in self.errands for item in errand.items for word in item.entry.words}
        for word, span in self._excluded:
            self._read.difference_update(span if word in named else ())
        plain = WORDS["harmless"] | WORDS["assumed"] | _ENDS | _PAUSES | _SIGNS
        self.unread = [
            at for at, word in enumerate(self.words) if at not in self._read | harmless and word not in plain
        ]

    def _harmless(self) -> set[int]:
        text, found = " ".join(self.words), set[int]()
        for match in PHRASES.finditer(text):
            first = text.count(" ", 0, match.start())
            found.update(range(first, first + len(match[0].split(" "))))
        sure = False
        for at, word in enumerate(self.words):
            sure = word in ("ensure", "sure") or (sure and word not in _ENDS)
            if sure and word in WORDS["stated"]:
                found.add(at)
        return found

    def _find_particles(self) -> None:
        """Find the "on" of "turn on the tv" and "turn the tv on": it leads to no place."""
        for start, word in enumerate(self.words):
            for index in range(start + 1, min(start + 7, len(self.words))) if word in WORDS["turn"] else ():
                if self.words[index] in _ENDS:
                    break
                if self.words[index] in ("on", "off"):
                    self._particles.add(index)
                    break

    def _step(self) -> None:
        word = self._word()
        if self._at in self._particles:
            self._at += 1
        elif word in _ENDS or word in _PAUSES:
            self._pause(word)
            self._at += 1
        elif word in WORDS["not"]:
            self._exclude(WORDS["to"] if self.pending or word in ("except", "without") else frozenset())
        elif word in WORDS["leaving"] and self._leave():
            return
        elif word in WORDS["from"] or (word == "out" and self._word(1) == "of"):
            self._skip_source(1 if word in WORDS["from"] else 2)
        elif word in WORDS["relative"] and (length := self._states_ahead()):
            self._skip_source(length + 1)
        elif word == "door" and (self.last_place or self._word(1) == "of"):
            self._read.add(self._at)
            if self._word(1) != "of":
                self._operate(self.last_place)
            self._at += 1
        elif found := look_up(self.words, self._at):
            self._mention(*found)
        else:
            self._plain(word)
            self._at += 1

    def _word(self, ahead: int = 0) -> str:
        index = self._at + ahead
        return self.words[index] if 0 <= index < len(self.words) else "."

    # ---- words that name nothing

    def _heard(self, words: Iterable[int]) -> None:
        self._read.update(words, self._doing)
        self._doing.clear()

    def _count_no_more(self) -> None:
        self._number, self._more, self._towards = None, False, False
        self._counting.clear()

    def _pause(self, word: str) -> None:
        self._count_no_more()
        if word == ":" and self._verb in _OPERATING:
            self._verb = ""  # "put these in the dishwasher and start it: a fork, a plate"
        if word in _ENDS or word == "then":
            self._end_clause()

    def _end_clause(self) -> None:
        self._operate(self.last_place)
        self._verb = ""
        self._count_no_more()
        self._doing.clear()

    def _plain(self, word: str) -> None:
        if word.isdecimal() or word in NUMBERS:
            if word not in ("a", "an") or self._number is None:
                self._counting = [self._at] if word.strip("0") else []
                self._number = NUMBERS[word] if word in NUMBERS else number_of(word, most=MANY) or MANY
        elif word in ("another", "more"):
            self._number, self._more = self._number or 1, True
            self._counting.append(self._at)
        elif word in WORDS["some"] and self._thing_ahead():
            self._read.add(self._at)
            self._number = None
        elif word in WORDS["them"] | WORDS["labels"]:
            self._pronoun(word)
        elif word in WORDS["to"]:
            # In "put in a wine glass" the glass is put; "put the plate in" leads to a place named before.
            self._towards = not (self._word(-1) in WORDS["putting"] and self._thing_ahead())
            self.put = self.put or self._word(1) in _ENDS | _PAUSES
        elif word in ("me", "us"):
            if self._word(-1) in WORDS["getting"] or (
                self.pending and self._moving == "get" and self._word(-1) == "to"
            ):
                self.for_me = True
                self._read.add(self._at)
        elif word in WORDS["wash"] and self._word(-1) not in _DETERMINERS and not self._word(-1).isdigit():
            self.washing.append(self._at)
            self._read.add(self._at)
            self._towards = False
        elif word == "with":
            self._towards = False
        elif word not in WORDS["articles"]:
            self._verb_or_other(word)

    def _verb_or_other(self, word: str) -> None:
        following = self._word(1)
        if word in TABLES["doors"]:
            self._action = self._verb = TABLES["doors"][word]
            self._acting = [self._at]
        elif word in WORDS["turn"] and (particle := self._particle_ahead()) is not None:
            self._action, self._verb = f"turn {self.words[particle]}", "turn"
            self._acting = [self._at, particle]
        elif word in WORDS["start"] and following != "by":
            self._action, self._verb = self._action or "turn on", "turn"
            self._acting.append(self._at)
        elif word in WORDS["switches"] and self._action is not None:
            self._acting.append(self._at)
        elif word in WORDS["go"] and following in ("to", "into", "in", "over", "back"):
            self._verb = "go"
            self._doing.append(self._at)
        elif word in WORDS["putting"]:
            self._begin("put")
            self.put = True
        elif word in WORDS["getting"] or word in WORDS["go"]:
            self._begin("get")
            self.open_place = None

    def _begin(self, verb: str) -> None:
        self._operate(self.last_place)
        self._verb = self._moving = verb
        self._again = False
        self._count_no_more()
        self._doing.append(self._at)
        if any(errand.place == self.open_place for errand in self.errands):
            self.open_place = None
        last = self.operations[-1] if self.operations else None
        if last is not None and (last.action == "go to" or (verb == "get" and last.named == self.named)):
            self.operations[-1] = replace(last, means=True)

    def _pronoun(self, word: str) -> None:
        if self._stands_for_something(word):
            self._heard([self._at, *(self._counting if self.words[self._at - 1] == "both" else ())])
        if self._action is not None:
            self._operate(self.last_place)
        elif self._towards and word == "it" and self.last_place is not None and self.pending:
            self._settle(self.last_place)
        elif word in ("it", "them") and self._verb in ("put", "get") and not self._towards:
            self._take_along()
        self._towards = False

    def _stands_for_something(self, word: str) -> bool:
        """Return whether a word such as "them" is for things named before it, or in a list after it."""
        if self._word(1) == "else":
            return False
        if self._thing_ahead():
            return word not in ("all", "everything")  # "those apples" are some; all of them are not known
        return bool(self.pending or (self.errands and word != "everything")) or self._list_ahead()

    def _list_ahead(self) -> bool:
        """Return whether a list of things follows this clause: "collect these items: a fork, a plate"."""
        ends = (index for index in range(self._at, len(self.words)) if self.words[index] in (".", ":", "\n"))
        start = next(ends, len(self.words))
        while self.words[start : start + 1] and self.words[start] in (".", ":", "\n", "-"):
            start += 1
        return self._thing_from(start)

    def _take_along(self) -> None:
        """Handle "put it …": "it" is the last moved item, if it goes on to another place."""
        if self.pending or not self.errands:
            return
        self._again = True
        for index in range(self._at + 1, len(self.words)):
            if self.words[index] in _ENDS | WORDS["putting"] | WORDS["getting"]:
                return
            found = look_up(self.words, index)
            if found is not None and found[0].kind is Topic.PLACE:
                if found[0].words[0] not in (TABLE, self.errands[-1].place):
                    self.pending = self.errands.pop().items
                return

    # ---- phrases that name something

    def _mention(self, entry: Entry, length: int) -> None:
        start = self._at
        self._at += length
        number, listed = self._word(), self._thing_from(self._at + 1 + (self._word(1) in ".)"))  # "1. a cup 2. a fork"
        if number.strip("0").isdecimal() and is_known(entry.words[0]) and not (listed or entry.plural):
            entry = replace(entry, words=(f"{entry.words[0]} {number}",))  # "apple 2"
            self._read.add(self._at)
            self._at += 1
        if entry.kind is not Topic.ROOM:
            self._fixed, self._fixed_end = None, self._at
        following = look_up(self.words, self._at)
        place = following[0].words[0] if following is not None and following[0].kind is Topic.PLACE else ""
        word, span = entry.words[0], range(start, self._at)
        if entry.kind is Topic.ROOM:
            self._room(word, span, place)
        elif place and entry.kind is not Topic.PLACE and self._action is None and self._towards:
            self._read.update(span)  # in "the dishes cupboard" and "the fork drawer" the first word only says which
        elif self._operates(entry):
            self._read.update(span)
            self._operate(word)
            self._fixed = word
            if entry.kind is Topic.PLACE:
                self.last_place = word
                self.open_place = self.open_place if self.pending else word
        elif entry.kind is Topic.PLACE and (self._towards or not can_be_held(word) or self._verb not in ("get", "put")):
            self._place(word, span)
        elif self._towards and entry.kind is Topic.THING:
            if self.pending:
                self.vessel, self._within = word, span
            self._count_no_more()
        elif self._action is None and self._verb not in _OPERATING and not self._is_verb(start):
            self._item(entry, start)

    def _operates(self, entry: Entry) -> bool:
        """Return whether a phrase is the object of "open" or "turn on", or one more: "the fridge and the microwave"."""
        again = self._action is None and self._verb in _OPERATING and bool(self.operations)
        action = self.operations[-1].action if again else self._action
        if action is None or entry.kind is Topic.GROUP or not _operable(action, entry.words[0]):
            return False
        self._action = action
        return True

    def _is_verb(self, start: int) -> bool:
        """Return whether a word for a thing is what is to be done, as in "and then water the plants"."""
        if start and self.words[start - 1] not in _ENDS | _PAUSES | {"please", "also", "to"}:
            return False
        found = look_up(self.words, self._at)
        thing = found is not None and found[0].kind is Topic.THING and self._word() not in CONTAINERS
        return thing or self._word() in _DETERMINERS - WORDS["demonstratives"]

    def _room(self, word: str, span: range, place: str) -> None:
        fixed = self.words[self._fixed_end : span.start]
        if (
            self._fixed is not None
            and fixed
            and fixed[0] in WORDS["to"] | {"of"}
            and WORDS["articles"].issuperset(fixed[1:])
        ):
            self._stands_in(self._fixed, word, span)  # "the desk in the bedroom"
        elif place:
            self._stands_in(place, word, span)  # "the bedroom desk"
            return
        elif self._towards and self._verb == "go":
            self._go_to(word, span)
        elif self._towards:
            before = [word for word in self.words[: span.start] if word not in WORDS["articles"]]
            if self._verb != "put" and before[-1] not in ("to", "into"):
                self._heard(span)  # "find the apple in the kitchen": every room is searched
            elif self.pending:
                self.room, self._in_room = word, span
                self._there = word if own_classes() else SURFACE_OF_ROOM.get(word, word)
        self._towards = False

    def _stands_in(self, place: str, room: str, span: range) -> None:
        if place != TABLE or is_known(TABLE) or SURFACE_OF_ROOM.get(room, "").endswith(TABLE):
            self.rooms[place] = "" if room == place else room
            self._read.update(span)

    def _go_to(self, word: str, span: range) -> None:
        self._heard(span)
        self._went = span
        self.operations.append(Operation("go to", word, named=self.named))

    def _item(self, entry: Entry, start: int) -> None:
        of = self.words[self._at - 1]
        contained = self._word() == "of" and not CONTAINERS.isdisjoint((of, of[:-1], of[:-2]))
        if self._is_container_of_earlier(start) or (contained and self._thing_ahead()):
            self._heard(range(start, self._at))
            return  # "the dish" again, or "a glass of" before a drink
        end = self._at
        if TABLEWARE.isdisjoint(entry.words):  # "wine bottle", "pudding cup"
            while self._word() in CONTAINERS:
                self._at += 1
        if self.room is not None and self._in_room:  # "put the apple in the kitchen and the pear …"
            self._settle(self._there, self._in_room)
        label = entry.kind is Topic.GROUP and (
            self._word() in WORDS["labels"] or self._word() == ":" or self.words[start - 1 : start] == ["following"]
        )
        phrase = " ".join(self.words[start:end])
        self.pending.append(Item(entry, self._number, more=self._more, label=label, phrase=phrase))
        self.named += 1
        self.put = False
        self._heard([*range(start, self._at), *self._counting])
        self._count_no_more()
        if self.open_place is not None and not self._place_ahead():
            self._settle(self.open_place)

    def _is_container_of_earlier(self, start: int) -> bool:
        """Return whether a thing is an earlier item's container: "pick up the pudding dish, set the dish on …"."""
        word = self.words[start]
        return word in CONTAINERS and any(
            earlier == word and (found := look_up(self.words, index - 1)) is not None and found[1] == 1
            for index, earlier in enumerate(self.words[1:start], start=1)
        )

    def _place(self, word: str, span: range) -> None:
        if self._number == 1 and self._counting == [span.start - 1]:
            self._read.update(self._counting)
        self._number, self._fixed = None, word
        before = [at for at in range(span.start) if self.words[at] not in _DETERMINERS][-2:]
        if [self.words[at] for at in before] == ["top", "of"] and (
            word == TABLE or "SURFACES" in properties_of_word(word)
        ):
            self._read.update(before)
        if self._verb == "go" and self._towards:
            self.last_place = word
            self._go_to(word, span)
        elif self.pending:
            self._settle(word, span)
            self.open_place = None
        else:
            if self._again and word in (TABLE, self.errands[-1].place):
                self._heard(span)  # "bring it to the desk and leave it on the desk"
            self.open_place = self.last_place = word
            self.opened = span
        self._towards = False

    def _settle(self, place: str | None, span: Iterable[int] = ()) -> None:
        if self.room is not None and place is not None and self._in_room:
            self._stands_in(place, self.room, self._in_room)
        self.errands.append(Errand(self.pending, place))
        self.pending, self.last_place = [], place
        self.put = self.for_me = False
        self.room, self._in_room = None, range(0)
        if place is not None and place == self.open_place:
            self._read.update(self.opened)
        if place is not None and _holds(place):
            self._heard(span)
        if place is not None and not WORDS["drinks"].isdisjoint(self.errands[-1].items[-1].entry.words):
            self._read.update(self._within)  # a drink comes in its glass

    def _settle_rest(self) -> None:
        if not self.pending:
            return
        place, span = self._find_place(), [*self._in_room, *self.opened]
        if place is None and self.vessel is not None:
            place, span = self.vessel, [*self._within]
        self.homeless = place is None and self._moving == "put" and not self.for_me
        self.errands.append(Errand(self.pending, place))
        self.pending = []
        if place is not None and _holds(place):
            self._heard(span)

    def _find_place(self) -> str | None:
        place = self._there if self._in_room else self.open_place
        if place is None and not self.for_me and (self.errands or self.put):
            place = self.last_place
        return "dishwasher" if place is None and self.washing else place

    def _operate(self, thing: str | None) -> None:
        if self._action is not None and thing is not None and _operable(self._action, thing):
            self.operations.append(Operation(self._action, thing, named=self.named))
            self._heard([*self._acting, *(self.opened if thing == self.last_place else ())])
        self._action, self._towards = None, False
        self._acting = []

    # ---- looking ahead, skipping

    def _thing_ahead(self) -> bool:
        return self._thing_from(self._at + 1)

    def _thing_from(self, index: int) -> bool:
        return self._topic_from(index) in (Topic.THING, Topic.GROUP)

    def _particle_ahead(self) -> int | None:
        return next((index for index in range(self._at + 1, self._at + 7) if index in self._particles), None)

    def _states_ahead(self) -> int:
        length = 0
        while self._word(1 + length) in WORDS["states"]:
            length += 1
        return length if self._word(1 + length) in WORDS["to"] and self._at + 1 + length not in self._particles else 0

    def _exclude(self, ends: Set[str]) -> None:
        """Handle "but not the wine": what no skill touches is left alone anyway, if it is named nowhere else."""
        start, stops = self._at - (self._word(-1) == "do"), ends | _ENDS | {",", "but"}
        known = (WORDS["putting"] | WORDS["getting"] | WORDS["touching"] | _DETERMINERS | WORDS["to"]) - WORDS[
            "leaving"
        ]
        self._at += 1
        things, whole = list[str](), True
        while self._at < len(self.words) and self.words[self._at] not in stops:
            entry, length = look_up(self.words, self._at) or (None, 1)
            if things and self._word() == "and" and self._word(1) in WORDS["putting"] | WORDS["getting"]:
                whole = False  # "do not touch the wine and put …": whether that is to be done, nobody knows
            if entry is not None and entry.kind is Topic.THING:
                things += entry.words
            elif entry is not None:
                whole = whole and bool(things)  # "do not put the wine in the fridge", but not "not in the kitchen"
            else:
                whole = whole and self._word() in known
            self._at += length
        if whole:
            self._spare(things, range(start, self._at))

    def _leave(self) -> bool:
        """Handle "leave the wine" as "not the wine"; return False if it is not used so: "leave it on the desk"."""
        start, end, placed = self._at, self._at + 1, self._word() == "leave"
        new = self.open_place is not None and all(errand.place != self.open_place for errand in self.errands)
        if placed and (new or (self.operations and self.operations[-1].action == "go to")):
            return False
        things, also = list[str](), WORDS["alone"] | _DETERMINERS | (frozenset() if placed else WORDS["to"])
        while end < len(self.words):
            word = self.words[end]
            entry, length = look_up(self.words, end) or (None, 1)
            if entry is not None and entry.kind is Topic.THING:
                things += entry.words
            elif word in _ENDS | _PAUSES | {"but"}:
                if self._topic_from(end + 1) is not Topic.THING:
                    break
            elif entry is not None and (placed or not things):
                return False  # "leave it on the desk", "keep the fridge closed"
            elif entry is None and word not in also and not word.isdecimal():
                return False
            end += length
        return self._spare(things, range(start, end))

    def _spare(self, things: Sequence[str], span: range) -> bool:
        if things:
            self._at = span.stop
            self._read.update(span)
            self._excluded += [(thing, span) for thing in things]
        return bool(things)

    def _skip_source(self, length: int) -> None:
        """Skip "from the cupboard", as every place is searched anyway; it counts in a house of places of its own."""
        before, after, source = self._at, self._at + length, ""
        self._at = after
        while self._word() in WORDS["to"] | _DETERMINERS:
            self._at += 1
        while (
            self._at < len(self.words)
            and self._word() not in _ENDS | _PAUSES | WORDS["putting"] | WORDS["from"] | WORDS["relative"]
        ):
            leads = self._word() in ("to", "into") or self._topic_from(self._at + 1) is not Topic.ROOM
            if self._word() in WORDS["to"] and leads:
                break
            entry, known = look_up(self.words, self._at) or (None, 0)
            if entry is not None and (entry.kind is Topic.PLACE or (entry.kind is Topic.ROOM and not source)):
                source = entry.words[0]
            self._read.update(range(self._at, self._at + (known or self._word() in CONTAINERS)))
            self._at += known or 1
        if source and own_classes():
            self.pending = [item.taken_from(source) for item in self.pending]
        if self._at > after or self.words[before:after] != ["off"]:
            self._read.update(range(before, after))  # "turn the tv on and off" names no place

    def _place_ahead(self) -> bool:
        for index in range(self._at, len(self.words)):
            if self.words[index] in _ENDS | WORDS["putting"] | WORDS["getting"] | WORDS["from"]:
                return False
            if self.words[index] in WORDS["to"] and self._topic_from(index + 1) is Topic.PLACE:
                return True
        return False

    def _topic_from(self, index: int) -> Topic | None:
        while self.words[index : index + 1] and (self.words[index] in _DETERMINERS or self.words[index].isdigit()):
            index += 1
        found = look_up(self.words, index)
        return None if found is None else found[0].kind


def _holds(place: str) -> bool:
    holds = not properties_of_word(place).isdisjoint({"SURFACES", "CONTAINERS"})
    return holds or is_room(place) or place in (TABLE, WASHER)


def _operable(action: str, word: str) -> bool:
    return word == WASHER or ("HAS_SWITCH" if action.startswith("turn") else "CAN_OPEN") in properties_of_word(word)


def read_sentence(text: str) -> Sentence:
    text = re.sub(r"[’']", "", unicodedata.normalize("NFKC", text).lower()).replace("&", " and ")
    text = _HELD.sub("them", text)
    said = _WORDS.findall(_NUMBERING.sub("", text))
    sentence = Sentence(said, [correct(word) for word in said])
    sentence.read()
    return sentence
