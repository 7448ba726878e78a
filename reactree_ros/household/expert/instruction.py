"""Goals of an instruction in everyday English, as people give it to a household robot."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import lru_cache

from reactree_ros.household.expert.goals import Goal, Move, Operate, Take, preposition, read_subgoal
from reactree_ros.household.expert.sentence import NUMBERS, WORDS, Errand, Item, Operation, Sentence, read_sentence
from reactree_ros.household.lexicon import GLASS_OF_WINE, GLASSES, SURFACE_OF_ROOM, TABLE, TABLEWARE, WASHER, Topic
from reactree_ros.household.scene import HANDS
from reactree_ros.household.vocabulary import Naming, ObjectClass, class_of_word, is_known, own_classes, with_own

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
    """Return the goal of an instruction, as a task's ``task_goal``; empty if the instruction is not clear in each word.

    Args:
        instruction: The instruction.
        names: What the house calls classes by another name than the vocabulary's word.
    """
    text = Naming(names).with_words(instruction)
    goals, sentence = read_instruction(text).goals, read_sentence(text)
    items = [item for errand in sentence.errands for item in errand.items]
    guessed = sentence.rooms or sentence.room or sentence.vessel or not WORDS["which"].isdisjoint(sentence.words)
    guessed = guessed or any(map(_is_guessed, items))
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
