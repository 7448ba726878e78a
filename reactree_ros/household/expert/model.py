"""The expert behind the LanguageModel port."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import FunctionType, MappingProxyType

from pydantic import Field

from reactree_ros.agent.corrections import NOTHING
from reactree_ros.agent.decision import RECALL
from reactree_ros.agent.grammar import DecisionGrammar, Grammar
from reactree_ros.agent.prompt import system_text
from reactree_ros.agent.subgoal_grammar import SubgoalGrammar
from reactree_ros.background.pending import Pending
from reactree_ros.household.expert.goals import Goal
from reactree_ros.household.expert.policy import Decided, consider
from reactree_ros.household.expert.reading import Situation, rooms_in, word_of
from reactree_ros.household.household import WAH_NL
from reactree_ros.household.lexicon import meaning
from reactree_ros.household.vocabulary import Naming, ObjectClass, is_known, properties_of_word, with_own
from reactree_ros.llm.port import DecisionRequest, FreeText, LanguageModel, Reply, RequestRejected
from reactree_ros.llm.spec import ModelSpec
from reactree_ros.plugins import Registry
from reactree_ros.plugins.settings import Settings

#: Beginnings of a prompt without a system text.
_BARE = ("Target_domain:", "Source domain:")
#: What else the expert answers than agent nodes in a household of rooms: functions of a request, its prompt in the
#: vocabulary's words, and known goals; they return nothing for a prompt that is not theirs.
OTHERS: Registry[Callable[[DecisionRequest, str, Mapping[str, Sequence[Goal]]], str]] = Registry(
    "expert", "reactree_ros.experts", FunctionType, first=()
)


class ExpertSettings(Settings):
    checks: bool = Field(
        default=False, description="ask if anything else is wanted when nothing in an instruction is open"
    )


class ExpertModel(LanguageModel):
    """A deterministic rule-based household policy; it is no language model.

    It reads the prompt of a request. If that has no system text, the request says what is allowed.

    Args:
        goals: Goals of instructions that are known as data; other instructions are parsed.
        names: Names of classes in this house, if they are not the vocabulary's words.
    """

    def __init__(
        self,
        goals: Mapping[str, Sequence[Goal]] = MappingProxyType({}),
        settings: ExpertSettings = ExpertSettings(),  # noqa: B008 (it is frozen)
        names: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._settings, self._naming = settings, Naming(names)
        self._goals = {self._naming.with_words(instruction): one for instruction, one in goals.items()}

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        begin = time.perf_counter()
        try:
            decided = self.consider(request)
        except RequestRejected as error:
            return Pending.failed(error)
        return Pending.of(Reply(decided.text, seconds=time.perf_counter() - begin))

    def consider(self, request: DecisionRequest) -> Decided:
        """Return the decision, and whether the expert knows the task's goals.

        Raises:
            RequestRejected: The request asks for reasoning or code.
        """
        with with_own(own_classes_of(request, self._naming)):
            return self._consider(request)

    def _consider(self, request: DecisionRequest) -> Decided:
        may_say = request.may_say
        if isinstance(may_say, DecisionGrammar) and NOTHING in may_say.skills:  # it knows no words but the statements'
            return Decided(f"Act: {NOTHING}")
        if isinstance(may_say, FreeText) and may_say.thinks:
            raise RequestRejected("the expert decides, it does not write code; name another --llm")
        prompt = self._naming.with_words(_with_abilities(request))
        for answer in OTHERS:
            if said := answer(request, prompt, self._goals):
                return Decided(self._naming.with_names(said))
        decided = consider(
            prompt,
            self._goals,
            may_ask=isinstance(may_say, DecisionGrammar) and bool(may_say.questions),
            checks=self._settings.checks,
            begin=partial(self.begin, request),
        )
        return replace(decided, text=self._naming.with_names(decided.text))

    def begin(self, request: DecisionRequest, situation: Situation) -> str:
        """Change the knowledge about the house before a decision, or return the decision; for subclasses."""
        return ""


def _with_abilities(request: DecisionRequest) -> str:
    prompt, may_say = request.prompt, request.may_say
    if not isinstance(may_say, DecisionGrammar | SubgoalGrammar) or not prompt.startswith(_BARE):
        return prompt
    flows = may_say.control_flows if isinstance(may_say, DecisionGrammar) else ()
    recall = any(skill.startswith(RECALL) for skill in may_say.skills)
    return f"{system_text(WAH_NL, control_flows=flows, recall=recall)}\nSource domain:\n{prompt}"


SPEC = ModelSpec(
    name="expert",
    summary="rules, no language model",
    settings=ExpertSettings,
    make=lambda settings: ExpertModel(settings=settings),
    examples=False,
)


_PLACE = frozenset({"SURFACES"})
_VERBS = {"go to ": frozenset[str](), "open ": frozenset({"CAN_OPEN"}), "turn on ": frozenset({"HAS_SWITCH"})}


def own_classes_of(request: DecisionRequest, naming: Naming) -> tuple[ObjectClass, ...]:
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
