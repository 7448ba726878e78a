"""Parses an instruction: which things it names, where they go, what to open, close or turn on.

Named things wait for their place ("get a fork and put it on the table"), or go to a place named before ("put on the
table: a fork, a plate"). A place after "from" or "that are on" is where a thing is, not where it goes.
"""

from __future__ import annotations

import re
from collections.abc import Set
from dataclasses import dataclass, field

from reactree_ros.agent.text import number_of
from reactree_ros.household.lexicon import (
    CONTAINERS,
    TABLE,
    TABLEWARE,
    WASHER,
    Entry,
    Topic,
    correct,
    look_up,
    word_set,
)
from reactree_ros.household.vocabulary import class_of_word

#: A larger count is reduced to this one, which no house can hold.
MANY = 10_000
NUMBERS = {
    **{"a": 1, "an": 1, "one": 1, "single": 1, "two": 2, "couple": 2, "pair": 2, "both": 2, "three": 3, "four": 4},
    **{"five": 5, "six": 6},
}
PUTTING = word_set(
    "add arrange carry deliver deposit drop dump fill lay leave load move pack place placed placing pop position "
    "prepare put puts putting relocate return save serve set setup shift stack stash stick store stow transfer "
    "transport"
)
GETTING = word_set(
    "bring bringing collect fetch find gather get getting give grab hand have hold locate need pick retrieve take "
    "taking want"
)
_GO = word_set("go head move navigate return walk")
_WASH = word_set("clean rinse wash")
_START = word_set("activate begin launch operate press run running start starting")
_TURN = word_set("flip power switch switched switching turn turned turning")
_DOORS = {"open": "open", "opened": "open", "close": "close", "closed": "close", "shut": "close"}
_TO = word_set("at in inside into on onto to upon within")
_FROM = word_set("from off")
_RELATIVE = word_set("that which who")
_STATES = word_set(
    "already are currently is laying left lie lies located lying placed sit sits sitting stand stands was were"
)
_NOT = word_set("avoid dont except never not without")
_ARTICLES = word_set("any her his its my our some that the their these this those your")
_THEM = word_set("all both everything it items them these those")
_LABELS = word_set("ingredient ingredients item items product products supplies thing things")
_ENDS = frozenset(".;!?\n")
_PAUSES = frozenset([",", ":", "and", "then", "-", "(", ")"])

_WORDS = re.compile(r"[a-z]+|\d+|[.,;:!?\n()]|(?<=\n)-")
_NUMBERING = re.compile(r"^\s{0,40}(?:\d+\s*[.)]\s+|step \d+\s*[:.)]?\s*|[-*•]\s*)", re.MULTILINE)


@dataclass(frozen=True)
class Item:
    """A named item.

    Attributes:
        entry: The meaning of the phrase.
        count: Number of things; None if not said.
        more: Whether it is in addition to things named before ("another apple").
        label: Whether it only sums up a list ("the following food items").
        phrase: Its words, corrected.
    """

    entry: Entry
    count: int | None
    more: bool
    label: bool
    phrase: str = ""


@dataclass
class Errand:
    """Items and the word for their place; None if not said."""

    items: list[Item]
    place: str | None


@dataclass(frozen=True)
class Operation:
    """A thing to open, close or turn on.

    Attributes:
        action: ``open``, ``close``, ``turn on`` or ``turn off``.
        thing: Its word.
        named: Number of items named before.
    """

    action: str
    thing: str
    named: int


@dataclass
class Sentence:
    """The parsed part of an instruction; see :func:`read_sentence`.

    Attributes:
        words: The words, corrected, with punctuation as separate words.
        errands: Items with their places.
        operations: Things to open, close and turn on.
        named: Number of items named.
        washing: Whether things are to be washed.
        pending: Items without a place so far.
        open_place: A place named before its items.
        last_place: The place that "it" and "the door" may stand for.
        room: A room that something goes to.
        rooms: The kind of room of a place or a switch, if said.
        vessel: A thing that something goes into or onto.
        put: Whether a verb of putting came after the pending items.
        for_me: Whether the pending items are for the speaker.
    """

    words: list[str]
    errands: list[Errand] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)
    named: int = 0
    washing: bool = False
    pending: list[Item] = field(default_factory=list)
    open_place: str | None = None
    last_place: str | None = None
    room: str | None = None
    rooms: dict[str, str] = field(default_factory=dict)
    vessel: str | None = None
    put: bool = False
    for_me: bool = False

    _at: int = field(default=0, init=False)
    _verb: str = field(default="", init=False)  # of this clause: put, get, go, turn or a door's
    _action: str | None = field(default=None, init=False)  # open, close, turn on: waits for its object
    _towards: bool = field(default=False, init=False)  # "on the", "into", … came right before
    _number: int | None = field(default=None, init=False)
    _more: bool = field(default=False, init=False)
    _fixed: str | None = field(default=None, init=False)  # the last named thing, if it stands in a room
    _fixed_end: int = field(default=0, init=False)  # end of its words
    _particles: set[int] = field(default_factory=set, init=False)  # positions of "on" and "off" that belong to "turn"

    def read(self) -> None:
        """Parse all words."""
        self._find_particles()
        while self._at < len(self.words):
            self._step()
        self._end_clause()

    def _find_particles(self) -> None:
        """Find the "on" of "turn on the tv" and "turn the tv on": it leads to no place."""
        for start, word in enumerate(self.words):
            for index in range(start + 1, min(start + 7, len(self.words))) if word in _TURN else ():
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
        elif word in _NOT:
            self._skip_to(_ENDS | {",", "but"} | (_TO if word in ("except", "without") else frozenset()))
        elif word in _FROM or (word == "out" and self._word(1) == "of"):
            self._skip_source(1 if word in _FROM else 2)
        elif word in _RELATIVE and (length := self._states_ahead()):
            self._skip_source(length + 1)
        elif (found := look_up(self.words, self._at)) and not (word == "door" and self.last_place):
            self._mention(*found)
        else:
            self._plain(word)
            self._at += 1

    def _word(self, ahead: int = 0) -> str:
        index = self._at + ahead
        return self.words[index] if 0 <= index < len(self.words) else "."

    # ---- words that name nothing

    def _pause(self, word: str) -> None:
        self._number, self._more, self._towards = None, False, False
        if word in _ENDS or word == "then":
            self._end_clause()

    def _end_clause(self) -> None:
        self._operate(self.last_place)
        self._verb, self._number, self._more, self._towards = "", None, False, False

    def _plain(self, word: str) -> None:
        if word.isdecimal() or word in NUMBERS:
            if word not in ("a", "an") or self._number is None:
                self._number = NUMBERS[word] if word in NUMBERS else number_of(word, most=MANY) or MANY
        elif word in ("another", "more"):
            self._number, self._more = self._number or 1, True
        elif word in _THEM:
            self._pronoun(word)
        elif word in _TO:
            # In "put in a wine glass" the glass is put; "put the plate in" leads to a place named before.
            self._towards = not (self._word(-1) in PUTTING and self._thing_ahead())
            self.put = self.put or self._word(1) in _ENDS | _PAUSES
        elif word == "door":
            self._operate(self.last_place)
        elif word == "me":
            self.for_me = self.for_me or self._word(-1) in GETTING
        elif word in _WASH and self._word(-1) not in _ARTICLES | NUMBERS.keys() and not self._word(-1).isdigit():
            self.washing, self._towards = True, False
        elif word == "with":
            self._towards = False
        elif word not in _ARTICLES:
            self._verb_or_other(word)

    def _verb_or_other(self, word: str) -> None:
        following = self._word(1)
        if word in _DOORS:
            self._action = self._verb = _DOORS[word]
        elif word in _TURN and (particle := self._particle_ahead()) is not None:
            self._action, self._verb = f"turn {particle}", "turn"
        elif word in _START and following != "by":
            self._action, self._verb = self._action or "turn on", "turn"
        elif word in _GO and following in ("to", "into", "in", "over", "back"):
            self._verb = "go"
        elif word in PUTTING:
            self._begin("put")
            self.put = True
        elif word in GETTING:
            self._begin("get")
            self.open_place = None

    def _begin(self, verb: str) -> None:
        """Handle a verb of moving: the phrase before it is complete."""
        self._operate(self.last_place)
        self._verb, self._number, self._more, self._towards = verb, None, False, False
        if any(errand.place == self.open_place for errand in self.errands):
            self.open_place = None

    def _pronoun(self, word: str) -> None:
        if self._action is not None:
            self._operate(self.last_place)
        elif self._towards and word == "it" and self.last_place is not None and self.pending:
            self._settle(self.last_place)
        elif word in ("it", "them") and self._verb in ("put", "get") and not self._towards:
            self._take_along()
        self._towards = False

    def _take_along(self) -> None:
        """Handle "put it …": "it" is the last moved item, if it goes on to another place."""
        if self.pending or not self.errands:
            return
        for index in range(self._at + 1, len(self.words)):
            if self.words[index] in _ENDS | PUTTING | GETTING:
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
        if entry.kind is not Topic.ROOM:
            self._fixed, self._fixed_end = None, self._at
        following = look_up(self.words, self._at)
        place_follows = following is not None and following[0].kind is Topic.PLACE
        word = entry.words[0]
        if entry.kind is Topic.ROOM:
            self._room(word, start, place_follows)
        elif place_follows and entry.kind is not Topic.PLACE and self._action is None:
            pass  # in "the dishes cupboard" and "the fork drawer" the first word only says which
        elif self._action is not None and entry.kind is not Topic.GROUP and _operable(self._action, word):
            self._operate(word)
            self._fixed = word
            if entry.kind is Topic.PLACE:
                self.last_place = word
                self.open_place = self.open_place if self.pending else word
        elif entry.kind is Topic.PLACE and (self._towards or not _grabbable(word) or self._verb not in ("get", "put")):
            self._place(word)
        elif self._towards and entry.kind is Topic.THING:
            self.vessel = word if self.pending else self.vessel
            self._number, self._towards = None, False
        else:
            self._item(entry, start)

    def _room(self, word: str, start: int, place_follows: bool) -> None:
        fixed = self.words[self._fixed_end : start]
        if self._fixed is not None and fixed and fixed[0] in _TO | {"of"} and _ARTICLES.issuperset(fixed[1:]):
            self.rooms[self._fixed] = word  # "the desk in the bedroom"
        elif self._towards and self._verb != "go" and not place_follows:
            before = [word for word in self.words[:start] if word not in _ARTICLES]
            if self._verb == "put" or before[-1] in ("to", "into"):
                self.room = word
        self._towards = False

    def _item(self, entry: Entry, start: int) -> None:
        if self._is_container_of_earlier(start) or (self._word() == "of" and self._thing_ahead()):
            return  # "the dish" again, or "a glass of" before a drink
        end = self._at
        if TABLEWARE.isdisjoint(entry.words):  # "wine bottle", "pudding cup"
            while self._word() in CONTAINERS:
                self._at += 1
        label = entry.kind is Topic.GROUP and (
            self._word() in _LABELS or self._word() == ":" or self.words[start - 1 : start] == ["following"]
        )
        phrase = " ".join(self.words[start:end])
        self.pending.append(Item(entry, self._number, more=self._more, label=label, phrase=phrase))
        self.named += 1
        self.put = False
        self._number, self._more, self._towards = None, False, False
        if self.open_place is not None:
            self._settle(self.open_place)

    def _is_container_of_earlier(self, start: int) -> bool:
        """Return whether a thing is an earlier item's container: "pick up the pudding dish, set the dish on …"."""
        word = self.words[start]
        return word in CONTAINERS and any(
            earlier == word and (found := look_up(self.words, index - 1)) is not None and found[1] == 1
            for index, earlier in enumerate(self.words[1:start], start=1)
        )

    def _place(self, word: str) -> None:
        self._number, self._fixed = None, word
        if self._verb == "go" and self._towards:
            self.last_place = word
        elif self.pending:
            self._settle(word)
            self.open_place = None
        else:
            self.open_place = self.last_place = word
        self._towards = False

    def _settle(self, place: str) -> None:
        self.errands.append(Errand(self.pending, place))
        self.pending, self.last_place = [], place
        self.put = self.for_me = False

    def _operate(self, thing: str | None) -> None:
        """Handle the object of "open", "close" or "turn on"."""
        if self._action is not None and thing is not None and _operable(self._action, thing):
            self.operations.append(Operation(self._action, thing, named=self.named))
        self._action, self._towards = None, False

    # ---- looking ahead, skipping

    def _thing_ahead(self) -> bool:
        index = self._at + 1
        while self.words[index : index + 1] and (
            self.words[index] in _ARTICLES | NUMBERS.keys() or self.words[index].isdigit()
        ):
            index += 1
        found = look_up(self.words, index)
        return found is not None and found[0].kind in (Topic.THING, Topic.GROUP)

    def _particle_ahead(self) -> str | None:
        found = (index for index in range(self._at + 1, self._at + 7) if index in self._particles)
        return next((self.words[index] for index in found), None)

    def _states_ahead(self) -> int:
        """Count words like "are already" after "that", if "on", "in", … comes next; otherwise return 0."""
        length = 0
        while self._word(1 + length) in _STATES:
            length += 1
        return length if self._word(1 + length) in _TO and self._at + 1 + length not in self._particles else 0

    def _skip_to(self, stops: Set[str]) -> None:
        self._at += 1
        while self._at < len(self.words) and self.words[self._at] not in stops:
            self._at += 1

    def _skip_source(self, length: int) -> None:
        """Skip "from the cupboard": every place is searched anyway."""
        self._at += length
        while self._word() in _TO | _ARTICLES | _STATES:
            self._at += 1
        while self._at < len(self.words) and self._word() not in _ENDS | _PAUSES | _TO | PUTTING | _FROM | _RELATIVE:
            self._at += 1


def _grabbable(word: str) -> bool:
    return word not in (TABLE, WASHER) and "GRABBABLE" in class_of_word(word).properties


def _operable(action: str, word: str) -> bool:
    if word in (TABLE, WASHER):
        return word == WASHER
    return ("HAS_SWITCH" if action.startswith("turn") else "CAN_OPEN") in class_of_word(word).properties


def read_sentence(text: str) -> Sentence:
    """Parse an instruction, or several in a row."""
    text = re.sub(r"[’']", "", text.lower())
    sentence = Sentence([correct(word) for word in _WORDS.findall(_NUMBERING.sub("", text))])
    sentence.read()
    return sentence
