"""A model that chats where it should decide."""

from __future__ import annotations

import random

from reactree_ros.agent.decision import DONE, FAILURE
from reactree_ros.agent.subgoal_grammar import SubgoalGrammar
from reactree_ros.background.pending import Pending
from reactree_ros.llm.port import DecisionRequest, FreeText, LanguageModel, Reply


class Talker(LanguageModel):
    """Chats in HiAgent's place: subgoals and summaries in its own words, actions as they come."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        may_say = request.may_say
        if isinstance(may_say, FreeText):
            return Pending.ready(Reply("Well, I did what I could :)"))
        assert isinstance(may_say, SubgoalGrammar)
        action = self._rng.choice([skill for skill in may_say.skills if skill not in (DONE, FAILURE)])
        begins = not may_say.goes_on or self._rng.random() < 0.2
        subgoal = f"**{may_say.number} Subgoal:** grab the goodies, quick!\n" if begins else "Sure!\n\n"
        return Pending.ready(Reply(f"{subgoal}Action: {action}"))
