"""The expert behind the LanguageModel port."""

from __future__ import annotations

import time

from reactree_ros.llm.expert.policy import decide
from reactree_ros.llm.port import DecisionRequest, LanguageModel, Reply
from reactree_ros.pending import Pending


class ExpertModel(LanguageModel):
    """A deterministic rule-based household policy; it is no language model.

    It reads a request's prompt and nothing else of the request.
    """

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        """Answer at once."""
        begin = time.perf_counter()
        text = decide(request.prompt)
        return Pending.of(Reply(text, seconds=time.perf_counter() - begin))
