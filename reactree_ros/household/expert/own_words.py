"""The own words of a house, which the vocabulary does not have: what a map or a simulator calls its things."""

from __future__ import annotations

from collections.abc import Iterator

from reactree_ros.agent.decision import RECALL
from reactree_ros.agent.grammar import Grammar
from reactree_ros.household.expert.reading import rooms_in, word_of
from reactree_ros.household.lexicon import meaning
from reactree_ros.household.naming import Naming
from reactree_ros.household.vocabulary import ObjectClass, is_known, properties_of_word
from reactree_ros.llm.port import DecisionRequest

_PLACE = frozenset({"SURFACES"})
_VERBS = {"go to ": frozenset[str](), "open ": frozenset({"CAN_OPEN"}), "turn on ": frozenset({"HAS_SWITCH"})}


def own_classes_of(request: DecisionRequest, naming: Naming) -> tuple[ObjectClass, ...]:
    """Return the classes of the house of a request, from its words, its skills and the rooms of its prompt."""
    found: dict[str, frozenset[str]] = {}
    for word, properties in _named(request):
        if not is_known(word := naming.with_words(word)):
            found[word] = found.get(word, frozenset()) | properties
    rooms = {word_of(room) for room in rooms_in(request.prompt)} if found else set[str]()
    return tuple(_class(word, properties, is_room=word in rooms) for word, properties in sorted(found.items()))


def _named(request: DecisionRequest) -> Iterator[tuple[str, frozenset[str]]]:
    yield from ((word, frozenset({"GRABBABLE"})) for word in request.things)
    yield from ((word, frozenset[str]()) for word in request.words)
    for skill in request.may_say.skills if isinstance(request.may_say, Grammar) else ():
        if skill.startswith(RECALL):
            yield skill.removeprefix(RECALL), frozenset({"GRABBABLE"})
        for verb, properties in _VERBS.items():
            if skill.startswith(verb):
                yield word_of(skill.removeprefix(verb)), properties


def _class(word: str, properties: frozenset[str], *, is_room: bool) -> ObjectClass:
    """Make a class; what is carried nowhere is a place, and a word that means a known class is like that one."""
    if "GRABBABLE" not in properties and not is_room:
        properties |= properties_of_word(meaning(word)) - {"GRABBABLE"} or _PLACE
    return ObjectClass(
        name=word.replace(" ", "").lower(),
        word=word,
        category="Rooms" if is_room else "Placable",
        properties=properties,
        observed=True,
        room_item="GRABBABLE" not in properties and not is_room,
    )
