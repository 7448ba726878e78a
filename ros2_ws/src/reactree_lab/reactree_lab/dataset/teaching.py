"""The actor while a dataset is made: the expert with some noise, or a model that the expert corrects."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from reactree_lab.household.question import unasked
from reactree_ros.agent.decision import DONE, FAILURE, RECALL
from reactree_ros.agent.grammar import DecisionGrammar
from reactree_ros.agent.kinds.think import Ask
from reactree_ros.agent.reading import Unreadable, read
from reactree_ros.agent.subgoal_grammar import SubgoalGrammar
from reactree_ros.agent.turns import render
from reactree_ros.background.pending import Pending
from reactree_ros.household.expert.goals import Goal
from reactree_ros.household.expert.model import ExpertModel
from reactree_ros.household.expert.policy import Decided
from reactree_ros.household.expert.reading import Situation
from reactree_ros.llm.port import Choice, DecisionRequest, FreeText, LanguageModel, MaySay, Reply

#: End of an action's verb: ``go`` of ``go to desk 1``, ``retrieve`` of ``retrieve(2)``.
_VERB = re.compile(r"\W")
_ACT = "Act"


class _Expert(ExpertModel):
    """The expert that goes only where it may: a thing that was moved to another room is not here any more."""

    _gone: frozenset[tuple[str, str]] = frozenset()  # refused beforehand, for this decision
    questions: Mapping[str, Sequence[str]] = MappingProxyType({})  # asked first, by instruction

    def consider(self, request: DecisionRequest) -> Decided:
        self._gone = frozenset()
        decided = super().consider(request)
        while isinstance(request.may_say, DecisionGrammar) and (walk := self._impossible(decided, request.may_say)):
            self._gone |= {(walk, "")}
            decided = super().consider(request)
        return decided

    def begin(self, request: DecisionRequest, situation: Situation) -> str:
        """Take those walks as refused; ask the first question that no question asked so far has the meaning of."""
        situation.refused |= self._gone
        if not (isinstance(request.may_say, DecisionGrammar) and request.may_say.questions):
            return ""
        question = unasked(self.questions.get(situation.task, ()), situation.answers)
        return str(Ask(question)) if question else ""

    def _impossible(self, decided: Decided, may_say: DecisionGrammar) -> str:
        skill = decided.text.removeprefix(f"{_ACT}: ")
        if not skill.startswith("go to ") or skill in may_say.skills or may_say.free or may_say.offers:
            return ""
        walk = self._naming.with_words(skill)
        return "" if (walk, "") in self._gone else walk


class Teacher(LanguageModel):
    """The expert, which knows the goals of an instruction.

    Args:
        goals: Its goals; none if a household robot cannot do it.
        names: Names of classes that the house calls otherwise.
        questions: Questions whose answers are needed first.
        noise: Share of the expert's decisions that are replaced by another allowed one.
        pupil: Acts instead of the expert; then there is no noise.
        beta: Share of decisions that the expert still makes, if it knows one.
    """

    def __init__(
        self,
        instruction: str,
        goals: Sequence[Goal],
        *,
        names: Mapping[str, str] = MappingProxyType({}),
        questions: Sequence[str] = (),
        noise: float,
        seed: str,
        pupil: LanguageModel | None = None,
        beta: float = 0.0,
    ) -> None:
        self._expert = _Expert({instruction: goals}, names=names)
        self._expert.questions = {instruction: questions}
        self._understands = bool(goals)
        self._noise = noise
        self._rng = random.Random(seed)
        self._pupil, self._beta = pupil, beta
        #: The expert's decisions, by the ids of the pupil's requests; empty if it knows none.
        self.labels: dict[str, str] = {}
        self.astray: set[str] = set()  # ids of the requests that were answered with noise

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        if self._pupil is not None:
            label = self.labels[request.id] = self._label(request)
            guided = self._rng.random() < self._beta
            return Pending.ready(Reply(label)) if guided and label else self._pupil.decide(request)
        if self._rng.random() < self._noise and (stray := _stray(self._rng, request.may_say)):
            self.astray.add(request.id)
            return Pending.ready(Reply(stray))
        return self._expert.decide(request)

    def count_tokens(self, text: str) -> int | None:
        return None if self._pupil is None else self._pupil.count_tokens(text)

    def _label(self, request: DecisionRequest) -> str:
        """Return the expert's decision; nothing if it knows none, as for a subgoal in foreign words."""
        decided = self._expert.consider(request)
        lost = self._understands and not decided.understood
        return "" if lost or not may_be_said(decided.text, request.may_say) else decided.text


def may_be_said(said: str, may_say: MaySay) -> bool:
    if isinstance(may_say, FreeText):
        return True
    if isinstance(may_say, Choice):
        return said in may_say.options
    try:
        return render(read(said, may_say)) == said
    except Unreadable:
        return False


def _stray(rng: random.Random, may_say: MaySay) -> str:
    """Draw an action, with all verbs equally likely; empty if only the node's end is left."""
    if isinstance(may_say, DecisionGrammar):
        label = _ACT
    elif isinstance(may_say, SubgoalGrammar) and may_say.goes_on:
        label = "Action"
    else:
        return ""
    by_verb: dict[str, list[str]] = {}
    for skill in may_say.skills:
        if skill not in (DONE, FAILURE) and not skill.startswith(RECALL):
            by_verb.setdefault(_VERB.split(skill, 1)[0], []).append(skill)
    return f"{label}: {rng.choice(by_verb[rng.choice(list(by_verb))])}" if by_verb else ""
