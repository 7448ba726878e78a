"""The goal by which a run can be judged whose instruction is no task's: read from it where nothing is left to guess."""

from __future__ import annotations

from collections.abc import Mapping

from reactree_ros.household.expert.goals import Goal, Move, Operate, preposition
from reactree_ros.household.expert.instruction import read_instruction
from reactree_ros.household.expert.sentence import Item, read_sentence
from reactree_ros.household.expert.words import WORDS
from reactree_ros.household.lexicon import GLASS_OF_WINE, GLASSES, TABLE, WASHER, Topic
from reactree_ros.household.naming import Naming
from reactree_ros.household.vocabulary import class_of_word

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
    """Whether it is not said which thing an item is, or how many."""
    counted, known = item.count is not None or not item.entry.plural, item.entry.kind is Topic.THING
    return item.label or item.more or not (counted and known) or not _GUESSED.isdisjoint(item.entry.words)


def _condition(goal: Goal, named: set[str]) -> tuple[str, int] | None:
    """Return a goal as a condition of a task; None if no task has such a one, or it is of a thing that is not named."""
    if isinstance(goal, Operate) and goal.action == "turn on":
        return f"turnOn_{class_of_word(goal.thing).name}", 1
    if not isinstance(goal, Move) or goal.thing not in named:
        return None
    relation = "inside" if preposition(goal.place) == "in" else "on"
    return f"{relation}_{class_of_word(goal.thing).name}_{class_of_word(goal.place).name}", goal.count
