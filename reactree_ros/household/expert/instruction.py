"""Goals of an instruction in everyday English, its open parts, and the questions about them.

A part is open if the instruction does not name it: which things, how many, where to. Each question is about one part,
things first. If an answer does not help, it is asked once more in other words; if that does not help either, or nobody
may be asked, the instruction is read as without a person.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import lru_cache

from reactree_ros.household.expert.goals import Goal, Move, Operate, Take, preposition, read_subgoal
from reactree_ros.household.expert.sentence import NUMBERS, WORDS, Errand, Item, Operation, Sentence, read_sentence
from reactree_ros.household.scene import HANDS
from reactree_ros.household.vocabulary import (
    GLASS_OF_WINE,
    GLASSES,
    SURFACE_OF_ROOM,
    TABLE,
    TABLEWARE,
    WASHER,
    Naming,
    ObjectClass,
    Topic,
    bare,
    can_be_held,
    class_of_word,
    correct,
    is_known,
    listed,
    look_up,
    own_classes,
    plural,
    with_own,
)

_TABLEWARE = TABLEWARE | {GLASSES, GLASS_OF_WINE}
# Meaning of a drink that goes into the dishwasher.
_GLASS_OF = {"wine": "wine glass", "juice": "water glass", "bottled water": "water glass"}
NOWHERE = "where to put"
_GAP = 4  # so many harmless words and more between two others part them
# Places at which "glasses" are for drinking; elsewhere (a desk, a nightstand) they are spectacles.
GLASS_PLACES = frozenset(
    {"cabinet", "coffee table", "dishwasher", "fridge", "kitchen cabinet", "kitchen counter", "kitchen table", "sink"}
)


@dataclass(frozen=True)
class Instruction:
    goals: tuple[Goal, ...]  # the goals; complete if there are any
    not_understood: str = ""  # why there are none
    left_over: tuple[str, ...] = ()  # the parts that were not understood, in order


@lru_cache(maxsize=256)
def read_instruction(text: str, own: tuple[ObjectClass, ...] = ()) -> Instruction:
    with with_own(own):
        sentence = read_sentence(text)
        return goals_for(text, sentence, sentence.errands)


def understand(task: str, known: Mapping[str, Sequence[Goal]] | None = None) -> Instruction:
    if known and task in known:
        return Instruction(tuple(known[task]), not_understood(task))
    goals = read_subgoal(task)
    return Instruction(goals) if goals else read_instruction(task, own_classes())


def goals_for(
    text: str, sentence: Sentence, errands: Iterable[Errand], accounted: Set[int] = frozenset()
) -> Instruction:
    """Return the goals of an instruction from its errands, which a person may have completed.

    ``accounted`` are positions of words that the person has explained.
    """
    if any(operation.action == "turn off" for operation in sentence.operations):
        return Instruction((), "There is no skill to turn something off.")
    errands = _with_places(sentence, list(errands))
    goals: list[Goal] = [*_moves(errands, sentence.rooms)]
    for operation in _operations(sentence, errands):
        goals = _with_operation(goals, operation)
    if not goals:
        return Instruction((), not_understood(text))
    unread = sorted({*sentence.unread, *(() if _washes(errands) else sentence.washing)} - accounted)
    left_over = tuple(phrases(sentence, unread))
    if sentence.homeless and (lost := [errand for errand in errands if errand.place is None]):
        left_over = (*left_over, f"{NOWHERE} the {lost[0].items[0].phrase}")
    if left_over:
        return Instruction((), f"I do not understand: {', '.join(left_over)}.", left_over)
    for goal in goals:
        if isinstance(goal, Take) and goal.count > HANDS:
            number = f"I have {HANDS} hands, and cannot hold {goal.count} of the {goal.thing}"
            return Instruction((), f"{number}: say where to put them.", (f"{goal.count} of the {goal.thing}",))
    return Instruction(tuple(goals))


def phrases(sentence: Sentence, unread: Sequence[int]) -> Iterator[str]:
    parts: list[list[int]] = []
    for at in unread:
        between = sentence.words[parts[-1][-1] + 1 : at] if parts else ["."]
        if len(between) < _GAP and all(word in WORDS["harmless"] for word in between):
            parts[-1] += range(parts[-1][-1] + 1, at + 1)
        else:
            parts.append([at])
    for part in parts:
        words = [sentence.said[at] for at in part]
        while len(words) > 1 and (words[0].isdigit() or words[0] in NUMBERS):
            del words[0]
        yield " ".join(words)


def not_understood(text: str) -> str:
    return f"I do not understand what to do: “{' '.join(text.split())[:100]}”."


# ---- places -------------------------------------------------------------------------------------------------------


def table_of(sentence: Sentence, errands: Iterable[Errand]) -> str:
    tables = [errand.place for errand in errands if errand.place in ("kitchen table", "coffee table")]
    table = SURFACE_OF_ROOM.get(sentence.rooms.get(TABLE, ""), tables[0] if tables else "")
    return table if table.endswith(TABLE) else ""


def _with_places(sentence: Sentence, errands: list[Errand]) -> list[Errand]:
    meant = {WASHER: _washer(errands)}
    if not is_known(TABLE):
        meant[TABLE] = table_of(sentence, errands) or "kitchen table"
    return [replace(errand, place=meant.get(errand.place or "", errand.place)) for errand in errands]


def _washer(errands: Iterable[Errand]) -> str:
    words = {word for errand in errands for item in errand.items for word in item.entry.words}
    return "dishwasher" if words & _TABLEWARE else "washing machine"


# ---- things -------------------------------------------------------------------------------------------------------


def _moves(errands: Iterable[Errand], rooms: Mapping[str, str]) -> Iterator[Goal]:
    by_place: dict[str | None, list[Item]] = {}
    for errand in errands:
        by_place.setdefault(errand.place, []).extend(errand.items)
    for place, items in by_place.items():
        for thing, count in _counts(_without_labels(items), place).items():
            if place is None:
                yield Take(thing=thing, count=count)
            elif thing != place:
                yield Move(thing=thing, place=place, room=rooms.get(place, ""), count=count)


def _without_labels(items: list[Item]) -> list[Item]:
    """Leave out labels that only sum up other items: "the food items", or "snacks" if an apple is named, too."""
    named = {word for item in items if item.entry.kind is not Topic.GROUP for word in item.entry.words}

    def sums_up(item: Item) -> bool:
        return item.label or (item.entry.kind is Topic.GROUP and not named.isdisjoint(item.entry.words))

    return [item for item in items if not sums_up(item)] or items


def _counts(items: list[Item], place: str | None) -> dict[str, int]:
    """Count each thing: a thing named twice is the same, unless it is "another"."""
    named = {word for item in items for word in item.entry.words}
    counts: dict[str, int] = {}
    for item in items:
        for thing, count in _meant(item, place, named):
            before = counts.get(thing, 0)
            counts[thing] = before + count if item.more else max(before, count)
    return counts


def _meant(item: Item, place: str | None, named: set[str]) -> Iterator[tuple[str, int]]:
    count = item.count or (2 if item.entry.plural else 1)
    for word in item.entry.words:
        if item.entry.kind is Topic.GROUP:
            yield word, 1
        elif word == GLASSES and place in GLASS_PLACES:
            yield from (("wine glass", 1), ("water glass", 1)) if count <= 2 else (("water glass", count),)
        elif word == GLASS_OF_WINE:
            # Nothing can be poured: "glass of wine" is the glass on a laid table, and the wine with food.
            laid = place == "dishwasher" or (place == "kitchen table" and named <= _TABLEWARE)
            yield "wine glass" if laid else "wine", count
        elif word in _GLASS_OF and place == "dishwasher":
            yield _GLASS_OF[word], count
        else:
            yield word, count


# ---- doors and switches -------------------------------------------------------------------------------------------


def _operations(sentence: Sentence, errands: list[Errand]) -> Iterator[Operate]:
    for operation in sentence.operations:
        if not _is_means(operation, sentence):
            thing = _washer(errands) if operation.thing == WASHER else operation.thing
            yield Operate(action=operation.action, thing=thing, room=sentence.rooms.get(thing, ""))
    if sentence.washing and _washes(errands):
        yield Operate(action="turn on", thing="dishwasher")


def _washes(errands: list[Errand]) -> bool:
    return any(errand.place == "dishwasher" for errand in errands)


def _is_means(operation: Operation, sentence: Sentence) -> bool:
    if operation.action == "go to":
        return operation.means or operation is not sentence.operations[-1]
    return operation.action == "open" and operation.means


def _with_operation(goals: list[Goal], operation: Operate) -> list[Goal]:
    filled = {goal.place for goal in goals if isinstance(goal, Move)}
    opened = operation.action == "open" and operation.thing in filled
    turned_on = operation.action == "close" and replace(operation, action="turn on") in goals
    if operation in goals or opened or turned_on:
        return goals
    if operation.action == "turn on":
        goals = [goal for goal in goals if goal != replace(operation, action="close")]
    return [*goals, operation]


#: Words that stand for one thing or another.
_GUESSED = frozenset({TABLE, WASHER, GLASSES, GLASS_OF_WINE})


def goal_of(instruction: str, names: Mapping[str, str]) -> dict[str, int]:
    """Return the goal of an instruction, as a task's ``task_goal``; empty if it is not clear in each word."""
    text = Naming(names).with_words(instruction)
    goals, sentence = read_instruction(text).goals, read_sentence(text)
    items = [item for errand in sentence.errands for item in errand.items]
    guessed = sentence.rooms or sentence.room or sentence.vessel or not WORDS["which"].isdisjoint(sentence.words)
    guessed = guessed or any(map(_is_guessed, items))
    guessed = guessed or any(bare(one) != one for goal in goals for one in (goal.thing, getattr(goal, "place", "")))
    if guessed or any(errand.place is None or errand.place in _GUESSED for errand in sentence.errands):
        return {}
    named = {word for item in items for word in item.entry.words}
    conditions = [condition for goal in goals if (condition := _condition(goal, named)) is not None]
    clear = len(conditions) == len(goals) == len({goal.thing for goal in goals})
    return dict(conditions) if clear else {}


def _is_guessed(item: Item) -> bool:
    counted, known = item.count is not None or not item.entry.plural, item.entry.kind is Topic.THING
    return item.label or item.more or not (counted and known) or not _GUESSED.isdisjoint(item.entry.words)


def _condition(goal: Goal, named: set[str]) -> tuple[str, int] | None:
    if isinstance(goal, Operate) and goal.action == "turn on":
        return f"turnOn_{class_of_word(goal.thing).name}", 1
    if not isinstance(goal, Move) or goal.thing not in named:
        return None
    relation = "inside" if preposition(goal.place) == "in" else "on"
    return f"{relation}_{class_of_word(goal.thing).name}_{class_of_word(goal.place).name}", goal.count


#: "… and some other things"; before a colon, the same words sum up a list.
_AND_MORE = re.compile(
    r"\b(?:something|(?:a|some|other|few|more|usual) (?:(?:other|more|of|the) ){0,4}(?:stuff|things?|items?|bits))\b"
    r"(?! to drink)(?!(?: \w+){0,6} :)"
)
_ONE = re.compile(r"\b(?P<which>[a-z]+) ones?\b")
#: The place where people eat.
_LAID = re.compile(r"\b(?:set|lay) (?:the|a|our|my) table\b")
#: Words that leave open which things are meant, and where they go; an answer to that explains them.
_OPEN_THINGS = frozenset().union(*(WORDS[name] for name in ("vague", "tidying", "putting", "getting", "open_things")))


@dataclass(frozen=True)
class Clarified:
    instruction: Instruction  # the goals; open parts are read as without a person
    question: str = ""  # the next question; empty if nothing is open, or every question was asked


def clarify(text: str, answers: Mapping[str, str]) -> Clarified:
    """Return an instruction's contents with a person's answers, and the next question.

    ``answers`` are those so far, by question, empty if nobody answered.
    """
    sentence = read_sentence(text)
    clarifying = _Clarifying(sentence, answers)
    question = clarifying.next_question()
    errands = [errand for errand in clarifying.errands if errand.items]
    accounted = {at for at in sentence.unread if sentence.words[at] in clarifying.explained}
    if clarifying.explained and any(errand.place == sentence.open_place for errand in errands):
        accounted |= {*sentence.opened}
    instruction = goals_for(text, sentence, errands, accounted)
    for part in instruction.left_over if not question else ():
        if part in _OPEN_THINGS | WORDS["somewhere"] or part.startswith(NOWHERE):
            continue  # that was asked before
        asked = f"What do you mean by “{part}”?"
        if asked not in answers:
            return Clarified(instruction, asked)
        explained = _explained(text, part, answers[asked])
        if explained not in ("", text):
            others = {question: answer for question, answer in answers.items() if question != asked}
            understood = clarify(explained, others)
            if understood.question != asked:  # else the answer holds the same words, and explains nothing
                return understood
    return Clarified(instruction, question)


def _explained(text: str, part: str, answer: str) -> str:
    read = read_sentence(answer)
    if WORDS["leave_out"].intersection(read.words):
        answer = ""
    elif read.unread or not (read.errands or read.open_place):
        return ""
    words = r"\W+".join(map(re.escape, part.split()))
    return re.sub(rf"(?:\b\d+\s+)?\b{words}(?!\w)" if not answer else rf"\b{words}(?!\w)", answer, text, flags=re.I)


class _Open(Exception):
    pass


@dataclass
class _Clarifying:
    sentence: Sentence  # the parsed instruction
    answers: Mapping[str, str]  # the answers so far, by question
    errands: list[Errand] = field(init=False)  # the known contents so far: one errand per place
    explained: set[str] = field(default_factory=set, init=False)  # words of the instruction that answers explain

    def __post_init__(self) -> None:
        by_place: dict[str | None, list[Item]] = {}
        for errand in self.sentence.errands:
            by_place.setdefault(errand.place, []).extend(errand.items)
        self.errands = [Errand(_without_summaries(items), place) for place, items in by_place.items()]

    def next_question(self) -> str:
        try:
            self._nothing_named()
            self._groups()
            self._twice()
            self._and_more()
            self._places()
            self._numbers()
        except _Open as question:
            return str(question)
        return ""

    def _answers(self, *questions: str) -> Iterator[str]:
        for question in questions:
            if question not in self.answers:
                raise _Open(question)
            yield self.answers[question]

    # ------------------------------------------------------------------ which things

    def _nothing_named(self) -> None:
        """No thing is named at all: "put something on the table", "tidy up"."""
        words, sentence = set(self.sentence.words), self.sentence
        vague, moves = bool(words & WORDS["vague"]), bool(words & (WORDS["putting"] | WORDS["getting"]))
        tidies, place = bool(words & WORDS["tidying"]), sentence.open_place or sentence.last_place
        if self.errands or (sentence.operations and not (vague and moves)):
            return
        if vague or tidies or (moves and place is not None):
            self.errands.append(errand := Errand([], place))
            where = _where(place) or (" away" if "away" in words else "")
            self._ask_for_things(
                errand, None, f"What should I put{where}?", f"Can you name the things that you want{where}?"
            )

    def _groups(self) -> None:
        """A word for several things is named: "snacks", "the glasses"."""
        for errand in self.errands:
            for item in list(errand.items):
                if _is_group(item, errand.place):
                    which = f"Which {item.phrase} should I put{_where(errand.place)}?"
                    self._ask_for_things(errand, item, which, f"What {item.phrase} do you want?")

    def _twice(self) -> None:
        """One list has the same thing with a number twice: one of them may be a mistake."""
        for errand in self.errands:
            numbered = [item.entry.words for item in errand.items if item.count is not None and not item.more]
            if len(set(numbered)) < len(numbered):
                where = _where(errand.place)
                self._ask_for_things(errand, None, f"Which things should I put{where}?", f"What do you want{where}?")

    def _and_more(self) -> None:
        """Some things are named, and others are not: "an apple and something to drink"."""
        errand = next((one for one in self.errands if one.items), None)
        if errand is not None and self.sentence.named and _AND_MORE.search(" ".join(self.sentence.words)):
            things = _named_things(errand)
            which = f"What else should I put{_where(errand.place)} than {things}?"
            for answer in self._answers(which, f"Do you want anything else than {things}?"):
                if named := _things_in(answer, None):
                    known = {item.entry.words for one in self.errands for item in one.items}
                    errand.items.extend(item for item in named if item.entry.words not in known)
                if named or WORDS["no"] & set(re.findall("[a-z]+", answer.casefold())):
                    self.explained |= _OPEN_THINGS
                    return

    def _ask_for_things(self, errand: Errand, item: Item | None, *questions: str) -> None:
        for answer in self._answers(*questions):
            if named := _things_in(answer, item):
                at = errand.items.index(item) if item else 0
                errand.items[at : at + 1 if item else len(errand.items)] = named
                self.explained |= _OPEN_THINGS
                return

    # ------------------------------------------------------------------ where to

    def _places(self) -> None:
        """The instruction does not say where things go, or the place is one of several tables."""
        left = list(self.errands)
        while left:
            errand = left.pop(0)
            if not errand.items or not self._is_place_open(errand):
                continue
            things = _named_things(errand)
            asks = (f"Where should I put {things}?", f"On or in what should I put {things}?")
            if errand.place == TABLE:
                asks = (f"On which table should I put {things}?", f"Where should {things} go?")
            for answer in self._answers(*asks):
                places = _places_in(answer, head=TABLE if errand.place == TABLE else "")
                self.explained |= WORDS["somewhere"] if places else set()
                if len(places) > 1 and len(errand.items) > 1:  # one for some and one for others
                    apart = [Errand([item], errand.place) for item in errand.items]
                    self.errands.remove(errand)
                    self.errands += apart
                    left += apart
                    break
                if places:
                    errand.place = places[0]
                    break

    def _is_place_open(self, errand: Errand) -> bool:
        if errand.place == TABLE and not is_known(TABLE):
            text = " ".join(self.sentence.words)
            return not (table_of(self.sentence, self.errands) or "kitchen table" in text or _LAID.search(text))
        moving = WORDS["putting"] | WORDS["tidying"] | WORDS["vague"]
        return errand.place is None and not self.sentence.for_me and not moving.isdisjoint(self.sentence.words)

    # ------------------------------------------------------------------ how many

    def _numbers(self) -> None:
        """Several things are wanted, but not how many: "some apples", "a few plates"."""
        for errand in self.errands:
            for at, item in enumerate(errand.items):
                named = len(item.entry.words) == 1 and item.entry.words != (GLASSES,)
                if not (named and item.entry.plural and item.count in (None, 1)):
                    continue
                things = plural(_word(item))
                asks = [f"How many {things} do you want?"]
                if errand.place is not None:
                    asks.insert(0, f"How many {things} should I put{_where(errand.place)}?")
                for number in filter(None, map(_number_in, self._answers(*asks))):
                    errand.items[at] = replace(item, count=number, entry=replace(item.entry, plural=False))
                    break


def _is_group(item: Item, place: str | None) -> bool:
    if item.entry.words == (GLASSES,):
        return place in (None, TABLE) or place in GLASS_PLACES
    named = item.phrase.split()
    parts = {part for word in item.entry.words for part in word.split()}
    return item.entry.kind is Topic.GROUP and not all(any(one.startswith(part) for one in named) for part in parts)


def _without_summaries(items: list[Item]) -> list[Item]:

    def sums_up(at: int, item: Item) -> bool:
        after = {word for other in items[at + 1 :] for word in other.entry.words if other.entry.kind is not Topic.GROUP}
        return item.label or (item.entry.kind is Topic.GROUP and not after.isdisjoint(item.entry.words))

    return [item for at, item in enumerate(items) if not sums_up(at, item)] or items


# ---- answers ------------------------------------------------------------------------------------------------------


def _things_in(answer: str, asked: Item | None) -> list[Item]:
    if asked is not None:  # "the wine ones", after a question about glasses
        word = asked.phrase.split()[-1] if asked.phrase else ""
        head = "glass" if word == GLASSES else word.removesuffix("s")
        heads = {True: plural(head), False: head}
        answer = _ONE.sub(lambda one: f"{one['which']} {heads[one[0].endswith('s')]}", answer.casefold())
    read = read_sentence(answer)
    items = [item for errand in read.errands for item in errand.items]
    told = [item for item in items if item.entry.kind is Topic.THING and can_be_held(item.entry.words[0])]
    if len(told) != 1 or asked is None:
        return told
    only = told[0]
    count = only.count if only.count is not None else asked.count
    return [replace(only, count=None if only.entry.plural and count == 1 else count)]


def _places_in(answer: str, *, head: str) -> list[str]:
    if head:
        answer = _ONE.sub(rf"\g<which> {head}", answer.casefold())
    words = [correct(word) for word in re.findall("[a-z]+", answer.casefold())]
    found, at = list[str](), 0
    while at < len(words):
        entry, length = look_up(words, at) or (None, 1)
        at += length
        if entry is None or (entry.words[0] in (TABLE, WASHER) and not is_known(entry.words[0])):
            continue
        word = SURFACE_OF_ROOM.get(entry.words[0], "") if entry.kind is Topic.ROOM else entry.words[0]
        if word and not can_be_held(word) and not (entry.kind is Topic.ROOM and found):
            found.append(word)
    return list(dict.fromkeys(found))


def _number_in(answer: str) -> int:
    found = 0
    for word in re.findall(r"[a-z]+|\d+", answer.casefold()):
        number = int(word) if word.isdigit() and len(word) < 3 else NUMBERS.get(word, 0)
        found = number if number > 1 or not found else found
    return found


# ---- words --------------------------------------------------------------------------------------------------------


def _word(item: Item) -> str:
    return item.entry.words[0] if len(item.entry.words) == 1 and item.entry.words != (GLASSES,) else item.phrase


def _named_things(errand: Errand) -> str:
    return listed([f"the {_word(item)}" for item in errand.items])


def _where(place: str | None) -> str:
    if place is None:
        return ""
    if place in (TABLE, WASHER):
        return " on the table" if place == TABLE else " in the washer"
    return f" {preposition(place)} the {place}"
