"""The expert, which keeps what it is asked, or decides a text alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from reactree_ros.agent.grammar import DecisionGrammar
from reactree_ros.background.pending import Pending
from reactree_ros.household.expert.goals import Goal
from reactree_ros.household.expert.model import ExpertModel, consider
from reactree_ros.llm.port import DecisionRequest, Reply


class Asked(ExpertModel):
    """The expert, which keeps what it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[DecisionRequest] = []

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        if isinstance(request.may_say, DecisionGrammar):
            self.requests.append(request)
        return super().decide(request)


def decide(prompt: str, known: Mapping[str, Sequence[Goal]] | None = None) -> str:
    return consider(prompt, known).text
