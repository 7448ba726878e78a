"""A simulated person, who knows the goal of a household task and answers questions about it, and about nothing else.

The goal is data, and so is what a question is about once it is read (:mod:`~reactree_lab.household.question`). An
answer is put into words here, of the goal's words and of set phrases alone: nothing of a question comes back in it.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from pydantic import Field

from reactree_lab.household.question import ANSWERS, Asked, Form, GoalPart, read_question
from reactree_lab.household.wording import PLACES, THINGS
from reactree_ros.background.pending import Pending
from reactree_ros.errors import UserError
from reactree_ros.household.tasks import GoalCondition
from reactree_ros.household.vocabulary import CLASSES, TABLE, Topic, correct, listed, look_up, named, plural
from reactree_ros.person.port import Answer, NobodyAnswers, Person, Question
from reactree_ros.plugins.settings import Settings, read_settings

#: The origin of answers.
BY = "simulated"
#: Answers by what they say, and in ``said`` the phrases around one; people mostly answer briefly.
_NUMBERS: list[str] = ANSWERS["numbers"]


class SimulatedPersonSettings(Settings):
    """Settings of a simulated person; a share of 0 is never, 1 is always."""

    seed: int = Field(default=0, ge=0, description="seed of its words and its behaviour")
    patience: int = Field(default=20, ge=0, description="most questions that it answers in a run")
    half: float = Field(default=0.0, ge=0, le=1, description="share of answers of several parts that tell only half")
    unclear: float = Field(default=0.0, ge=0, le=1, description="share of questions that it answers with 'What?'")
    silent: float = Field(default=0.0, ge=0, le=1, description="share of questions that it does not answer in time")


@dataclass(frozen=True)
class Fact:
    """A part of one goal condition that a person may tell."""

    part: GoalPart
    condition: GoalCondition


@dataclass(frozen=True)
class Answered:
    question: str
    facts: tuple[Fact, ...] = ()  # the parts of the goal that the answer told
    denied: bool = False  # whether the answer was no to something in the question, which is information, too


class SimulatedPerson(Person):
    """Answers at once, by its settings; even a missing answer is reported at once."""

    def __init__(
        self, goal: Sequence[GoalCondition], settings: SimulatedPersonSettings | None = None, of: str = ""
    ) -> None:
        self._goal = tuple(goal)
        self._settings = settings or SimulatedPersonSettings()
        self._of = of
        self.told: list[Answered] = []

    def ask(self, question: Question) -> Pending[Answer]:
        settings, number = self._settings, len(self.told) + 1
        rng = random.Random(f"person {settings.seed} {self._of} {number}")
        chance = rng.random()
        if number > settings.patience or chance < settings.silent:
            self.told.append(Answered(question.text))
            late = number <= settings.patience
            why = (
                f"no answer within {question.seconds:g} s" if late else "the person does not want to be asked any more"
            )
            return Pending.failed(NobodyAnswers(why))
        if question.skill:  # permission for a skill is not part of the goal
            words, told = rng.choice(ANSWERS["beyond"]), Answered(question.text)
        elif rng.random() < settings.unclear:
            words, told = rng.choice(ANSWERS["unclear"]), Answered(question.text)
        else:
            words, told = _Answerer(self._goal, rng, settings.half).answer(question)
        self.told.append(told)
        return Pending.ready(Answer(words, BY))

    def needless(self, instruction: str) -> int:
        """Return how many questions were needless: their answers told nothing beyond the instruction."""
        told = [one.facts for one in self.told if not one.denied]
        return sum(all(_is_named(fact, instruction) for fact in facts) for facts in told)


def read_person(text: str) -> dict[str, str]:
    """Read a person from a command line, such as ``simulated:seed=1``; empty for nobody."""
    if not text:
        return {}
    name, *options = text.split(":")
    read = {"person": name}
    for option in options:
        setting, equals, value = option.partition("=")
        if not equals or setting in read:
            raise UserError(f"person '{name}': write each option once, as NAME=VALUE, not '{option}'")
        read[setting] = value
    return read


def person_from_dict(values: Mapping[str, Any]) -> SimulatedPersonSettings:
    """Read the settings of a person, whose name is under ``person``."""
    name = values.get("person")
    if name != BY:
        raise UserError(f"person '{name}' is unknown; the only one that a bench can ask is '{BY}'")
    others = {key: value for key, value in values.items() if key != "person"}
    return read_settings(SimulatedPersonSettings, others, where=f"person '{BY}'")


def person_to_dict(settings: SimulatedPersonSettings) -> dict[str, Any]:
    return {"person": BY, **settings.model_dump(mode="json")}


@dataclass
class _Answerer:
    goal: Sequence[GoalCondition]  # the person's knowledge
    rng: random.Random  # draws its words
    half: float  # share of answers that tell only half
    _question: str = field(default="", init=False)

    def answer(self, question: Question) -> tuple[str, Answered]:
        asked = read_question(question.text)
        self._question = question.text
        answers: dict[Form, Callable[[Asked], tuple[str, Answered]]] = {
            Form.OPEN: self._open,
            Form.CLOSED: self._closed,
            Form.MORE: self._more,
        }
        if asked.form in answers:
            return answers[asked.form](asked)
        return self.rng.choice(ANSWERS["beyond"] if asked.form is Form.BEYOND else ANSWERS["unclear"]), Answered(
            self._question
        )

    # ------------------------------------------------------------------ kinds of questions

    def _open(self, asked: Asked) -> tuple[str, Answered]:
        facts: list[Fact] = []
        for part in asked.parts:
            facts += [Fact(part, one) for one in self._meant(asked, part)]
        if not facts:
            return self.rng.choice(ANSWERS["nothing"]), Answered(
                self._question, denied=bool(asked.things or asked.places)
            )
        if asked.parts == (GoalPart.THINGS,) and self._names_just(asked, facts):
            return self.rng.choice(ANSWERS["any"]), Answered(self._question)
        if self._is_in_doubt(asked, facts):
            return self.rng.choice(("How many of what?", "Of what?")), Answered(self._question)
        return self._say(self._halved(facts))

    def _closed(self, asked: Asked) -> tuple[str, Answered]:
        if asked.parts == (GoalPart.STATE,):
            facts = [Fact(GoalPart.STATE, one) for one in self._meant(asked, GoalPart.STATE)]
            return self._yes(facts) if facts else self._no()
        places = [Fact(GoalPart.PLACE, one) for one in self._meant(asked, GoalPart.PLACE)]
        things = [Fact(GoalPart.THINGS, one) for one in self._meant(asked, GoalPart.THINGS)]
        if len(asked.places) > 1:  # which of several
            chosen = [one for one in places if _covers(asked.places, CLASSES[one.condition.target].word)]
            return self._say(chosen) if chosen else self._no()
        if len(asked.things) > 1 and " or " in self._question.casefold():
            return self._say(things) if things else self._no()
        if len(set(asked.numbers)) > 1:
            counts = [Fact(GoalPart.COUNT, one) for one in self._meant(asked, GoalPart.COUNT)]
            return self._say(counts[:1]) if counts else self._no()
        wanted = {item for words in asked.things for item in words}
        covered = all(any(CLASSES[one.condition.item].word in words for one in things) for words in asked.things)
        if not covered or (asked.places and not things):
            return self._no()
        at = [one for one in things if not asked.places or _covers(asked.places, CLASSES[one.condition.target].word)]
        if asked.numbers and any(one.condition.count != asked.numbers[0] for one in at):
            return self._no()
        facts = [one for one in at if wanted] + [Fact(GoalPart.PLACE, one.condition) for one in at if asked.places]
        return self._yes(facts) if facts else self._no()

    def _more(self, asked: Asked) -> tuple[str, Answered]:
        places = [one for one in self._moved if _covers(asked.places, CLASSES[one.target].word)]
        named_things = {word for words in asked.things for word in words}
        left = [one for one in places or self._moved if CLASSES[one.item].word not in named_things]
        if not left:
            return self.rng.choice(ANSWERS["all"]), Answered(self._question)
        words, told = self._say(self._halved([Fact(GoalPart.THINGS, one) for one in left]))
        return f"{self.rng.choice(('Yes: ', 'Yes. ', '', 'Oh yes: '))}{words}", told

    def _yes(self, facts: Sequence[Fact]) -> tuple[str, Answered]:
        return self.rng.choice(("Yes.", "Yes, please.", "Right.", "Exactly.")), Answered(self._question, tuple(facts))

    def _no(self) -> tuple[str, Answered]:
        return self.rng.choice(("No.", "No, thank you.", "Not that.")), Answered(self._question, denied=True)

    # ------------------------------------------------------------------ what is meant

    @property
    def _moved(self) -> list[GoalCondition]:
        return [one for one in self.goal if one.item]

    def _meant(self, asked: Asked, part: GoalPart) -> list[GoalCondition]:
        if part is GoalPart.STATE:
            switches = [one for one in self.goal if not one.item]
            return [one for one in switches if not asked.places or _covers(asked.places, CLASSES[one.target].word)]
        meant = self._moved
        if asked.places and part is not GoalPart.PLACE:
            meant = [one for one in meant if _covers(asked.places, CLASSES[one.target].word)]
        if asked.things:
            things = [one for one in meant if _covers(asked.things, CLASSES[one.item].word)]
            if things or not (asked.any_kind or part is GoalPart.THINGS):
                return things
        return meant

    def _names_just(self, asked: Asked, facts: Sequence[Fact]) -> bool:
        """Return whether a "which" question names its subject in full already: one apple is as good as another."""
        items = {CLASSES[fact.condition.item].word for fact in facts}
        return bool(asked.things) and items == {words[0] for words in asked.things if len(words) == 1}

    def _is_in_doubt(self, asked: Asked, facts: Sequence[Fact]) -> bool:
        """Return whether "how many" has several answers that nothing else distinguishes."""
        counts = {fact.condition.count for fact in facts if fact.part is GoalPart.COUNT}
        return asked.parts == (GoalPart.COUNT,) and len(counts) > 1

    def _halved(self, facts: list[Fact]) -> list[Fact]:
        if len(facts) > 1 and self.rng.random() < self.half:
            return facts[: len(facts) // 2]
        return facts

    # ------------------------------------------------------------------ words

    def _say(self, facts: Sequence[Fact]) -> tuple[str, Answered]:
        told = Answered(self._question, tuple(facts))
        parts = tuple(dict.fromkeys(fact.part for fact in facts))
        if len(parts) > 1:
            said = self._sentence(facts, parts)
        else:
            said = self.rng.choice(ANSWERS["said"][parts[0].value]).format(self._words_for(facts, parts[0]))
        if self.rng.random() < 0.3:
            said += self.rng.choice(ANSWERS["polite"])
        if self.rng.random() < 0.8:
            said = f"{said[:1].upper()}{said[1:]}."
        return said, told

    def _words_for(self, facts: Sequence[Fact], part: GoalPart) -> str:
        conditions = [fact.condition for fact in facts]
        if part is GoalPart.COUNT:
            return self._number(conditions[0].count, each=len(conditions) > 1)
        if part is GoalPart.THINGS:
            return listed([self._thing(one) for one in conditions])
        if part is GoalPart.PLACE:
            return listed([self._where(one) for one in {one.target: one for one in conditions}.values()])
        return listed([f"the {CLASSES[one.target].word}" for one in conditions])

    def _sentence(self, facts: Sequence[Fact], parts: Sequence[GoalPart]) -> str:
        """Say several parts at once: ``two apples on the coffee table``."""
        by_condition: dict[GoalCondition, list[GoalPart]] = {}
        for fact in facts:
            by_condition.setdefault(fact.condition, []).append(fact.part)
        said = []
        for one, asked in by_condition.items():
            words = []
            if GoalPart.COUNT in asked:
                words.append(_NUMBERS[one.count] if one.count < len(_NUMBERS) else str(one.count))
            if GoalPart.THINGS in asked:
                words.append(self._thing(one, bare=GoalPart.COUNT in asked))
            if GoalPart.PLACE in asked:
                words.append(self._where(one))
            if GoalPart.STATE in asked:
                words.append(f"turn on the {CLASSES[one.target].word}")
            said.append(" ".join(words))
        return listed([*dict.fromkeys(said)])

    def _thing(self, condition: GoalCondition, *, bare: bool = False) -> str:
        word = CLASSES[condition.item].word
        head = word.split()[-1]
        many = condition.count > 1
        asked = not bare and len(word.split()) == 2 and self._asks_which(head)
        if asked and self.rng.random() < 0.4:  # "which glass?", "the wine one"
            return f"the {word.split()[0]} {'ones' if many else 'one'}"
        name = word if self.rng.random() < 0.6 else self.rng.choice(_names(condition.item))
        name = plural(name) if many else name
        return name if bare or self.rng.random() < 0.3 else f"the {name}"

    def _asks_which(self, head: str) -> bool:
        """Return whether the question asks which kind of a noun, as in "which glasses?"."""
        return bool(re.search(rf"\b(?:which|what) (?:of the )?{head}(?:e?s)?\b", self._question.casefold()))

    def _where(self, condition: GoalCondition) -> str:
        target = CLASSES[condition.target]
        *first, head = target.word.split()
        if first and self._asks_which(head) and self.rng.random() < 0.3:
            return f"the {' '.join(first)} one"
        name = target.word if self.rng.random() < 0.6 else self.rng.choice(_names(condition.target))
        return f"{'in' if condition.relation == 'inside' else 'on'} the {name}"

    def _number(self, count: int, *, each: bool) -> str:
        written = _NUMBERS[count] if count < len(_NUMBERS) else str(count)
        number = self.rng.choice((str(count), written, written, *(("a couple",) if count == 2 else ())))
        return f"{number} of each" if each else number


@lru_cache(maxsize=256)
def _names(class_name: str) -> tuple[str, ...]:
    word = CLASSES[class_name].word
    names = THINGS.get(class_name) or PLACES.get(class_name) or (word,)
    return tuple(name for name in names if name == word or {*named(name), *named(plural(name))} == {(word,)})


def _covers(named_words: Sequence[Sequence[str]], word: str) -> bool:
    """Return whether one of some phrases may mean a word; "the table" may be any."""
    return any(word in words or (TABLE in words and word.endswith(TABLE)) for words in named_words)


def _is_named(fact: Fact, instruction: str) -> bool:
    one = fact.condition
    clear = {words[0] for words in named(instruction) if len(words) == 1}
    if fact.part is GoalPart.THINGS:
        return CLASSES[one.item].word in clear
    if fact.part is GoalPart.PLACE:
        return CLASSES[one.target].word in clear
    words = re.findall("[a-z]+|[0-9]+", instruction.casefold())
    if fact.part is GoalPart.STATE:
        return CLASSES[one.target].word in clear and bool({"turn", "switch", "start", "run", "press"} & set(words))
    if one.count > 1:
        said = {str(one.count), *_NUMBERS[one.count : one.count + 1], *(("couple", "pair") if one.count == 2 else ())}
        return bool(said & set(words))
    return _is_singular(CLASSES[one.item].word, [correct(word) for word in words])


def _is_singular(word: str, words: list[str]) -> bool:
    found = (look_up(words, at) for at in range(len(words)))
    return any(one[0].words == (word,) and one[0].kind is Topic.THING and not one[0].plural for one in found if one)
