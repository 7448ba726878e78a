"""The expert with lapses, drawn from a seed: it forgets its searches, and gives up achievable goals.

It stands in for language models in comparisons of remedies against such lapses. It overlooks reported searches as often
as its own.
"""

from __future__ import annotations

import random

from pydantic import Field

from reactree_ros.agent.decision import FAILURE
from reactree_ros.agent.grammar import DecisionGrammar
from reactree_ros.agent.kinds.act import Act
from reactree_ros.household.expert.model import Decided, ExpertModel
from reactree_ros.household.expert.reading import Situation
from reactree_ros.llm.port import DecisionRequest
from reactree_ros.llm.spec import ModelSpec
from reactree_ros.plugins.settings import Settings

_ENDS = tuple(str(Act(skill)) for skill in ("done", FAILURE))


class LapsingSettings(Settings):
    forgets: float = Field(
        default=0.0,
        ge=0,
        le=0.9,
        description="how likely it overlooks a search of a place, its own after leaving or a reported one",
    )
    gives_up: float = Field(
        default=0.0, ge=0, le=1, description="how likely each decision of a node below the root is 'failure' instead"
    )
    lapse_seed: int = Field(default=0, description="seed of its lapses, in addition to the run's seed")


class LapsingModel(ExpertModel):
    """The expert with lapses; the same seeds, tasks and prompts give the same lapses."""

    def __init__(self, settings: LapsingSettings) -> None:
        super().__init__()
        self._lapses = settings

    def consider(self, request: DecisionRequest) -> Decided:
        """Return the expert's decision with the searches that it has not forgotten, or a decision to give up."""
        decided = super().consider(request)
        node = request.id.partition(".")[0]
        if node == "0" or not isinstance(request.may_say, DecisionGrammar) or decided.text in _ENDS:
            return decided
        gives_up = self._drawn(request, "gives up", request.id, request.prompt) < self._lapses.gives_up
        return Decided(str(Act(FAILURE))) if gives_up else decided

    def begin(self, request: DecisionRequest, situation: Situation) -> str:
        """Forget searched places: each search, and each report of one, is overlooked or not.

        The draw for each is final. If all searches of a place are overlooked, the place counts as unsearched.
        """
        node = request.id.partition(".")[0]
        for spot in {**situation.looks, **situation.searched}:
            times = range(situation.visits[spot] + situation.searched[spot])
            draws = [self._drawn(request, "overlooks", node, situation.task, f"{spot} {number}") for number in times]
            if draws and max(draws) < self._lapses.forgets and spot != situation.at:
                situation.forget(spot)
        return ""

    def _drawn(self, request: DecisionRequest, *of: str) -> float:
        return random.Random("\n".join((str(self._lapses.lapse_seed), str(request.seed), *of))).random()


SPEC = ModelSpec(
    name="lapsing",
    summary="the expert with seeded lapses, to compare what helps against them",
    settings=LapsingSettings,
    make=LapsingModel,
    examples=False,
)
