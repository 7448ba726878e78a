"""The goal by which a run can be judged whose instruction is no task's: read from it where nothing is left to guess."""

from __future__ import annotations

import re
from collections.abc import Mapping

from reactree_ros.household.expert.goals import Goal, Move, Operate, preposition
from reactree_ros.household.expert.instruction import goals_for
from reactree_ros.household.expert.sentence import GETTING, NUMBERS, PUTTING, Sentence, read_sentence
from reactree_ros.household.lexicon import GLASS_OF_WINE, GLASSES, TABLE, WASHER, Topic, look_up, word_set
from reactree_ros.household.naming import Naming
from reactree_ros.household.vocabulary import class_of_word

#: Words beside things, places and counts that a judged instruction may have; each other one may change its goal.
_PLAIN = (PUTTING | GETTING) - word_set("fill hold locate need want") | word_set(
    "the my your at in inside into on onto to upon and then it them up please turn switch start"
)
_LETTERS = re.compile(r"[A-Za-z0-9 .,;:!?'\n-]*")
_GUESSED = frozenset({TABLE, WASHER, GLASSES, GLASS_OF_WINE})


def goal_of(instruction: str, names: Mapping[str, str]) -> dict[str, int]:
    """Return the goal of an instruction, as a task's ``task_goal``; empty if the instruction is not clear in each word.

    Args:
        instruction: The instruction.
        names: What the house calls classes by another name than the vocabulary's word.
    """
    text = Naming(names).with_words(instruction)
    sentence = read_sentence(text)
    if not _LETTERS.fullmatch(text) or not _is_plain(sentence):
        return {}
    goals = goals_for(text, sentence, sentence.errands).goals
    named = {word for errand in sentence.errands for item in errand.items for word in item.entry.words}
    conditions = [condition for goal in goals if (condition := _condition(goal, named)) is not None]
    clear = len(conditions) == len(goals) == len({goal.thing for goal in goals})
    return dict(conditions) if clear else {}


def _is_plain(sentence: Sentence) -> bool:
    """Whether every word is read, and nothing is guessed: which thing, how many, which place."""
    items = [item for errand in sentence.errands for item in errand.items]
    guessed = sentence.pending or sentence.rooms or sentence.room or sentence.vessel or sentence.washing
    if guessed or any(errand.place is None or errand.place in _GUESSED for errand in sentence.errands):
        return False
    for item in items:
        counted = item.count is not None or not item.entry.plural
        if item.label or item.more or not counted or item.entry.kind is not Topic.THING or len(item.entry.words) > 1:
            return False
        if item.entry.words[0] in _GUESSED:
            return False
    return _are_read(sentence.words, counts=sum(item.count is not None for item in items))


def _are_read(words: list[str], *, counts: int) -> bool:
    at = said = 0
    while at < len(words):
        found, word = look_up(words, at), words[at]
        if found is None and (word in NUMBERS or word.isdigit()):
            said += 1
        elif found is None and word.isalpha() and word not in _PLAIN:
            return False
        at += 1 if found is None else found[1]
    return said == counts


def _condition(goal: Goal, named: set[str]) -> tuple[str, int] | None:
    """Return a goal as a condition of a task; None if no task has such a one, or it is of a thing that is not named."""
    if isinstance(goal, Operate) and goal.action == "turn on":
        return f"turnOn_{class_of_word(goal.thing).name}", 1
    if not isinstance(goal, Move) or goal.thing not in named:
        return None
    relation = "inside" if preposition(goal.place) == "in" else "on"
    return f"{relation}_{class_of_word(goal.thing).name}_{class_of_word(goal.place).name}", goal.count
