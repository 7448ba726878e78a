"""The expert behind the LanguageModel port."""

from __future__ import annotations

import time

from reactree_ros.llm.expert import subgoals
from reactree_ros.llm.expert.policy import decide
from reactree_ros.llm.port import DecisionRequest, FreeText, LanguageModel, Reply, RequestRejected
from reactree_ros.llm.spec import ModelSpec
from reactree_ros.pending import Pending


class ExpertModel(LanguageModel):
    """A deterministic rule-based household policy; it is no language model.

    It reads a request's prompt and nothing else of the request.
    """

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        """Answer at once; what asks for reasoning and more, such as code, is refused."""
        may_say = request.may_say
        if isinstance(may_say, FreeText) and may_say.thinks:
            return Pending.failed(RequestRejected("the expert decides, it does not write code; name another --llm"))
        begin = time.perf_counter()
        prompt = request.prompt
        text = subgoals.say(prompt) if subgoals.is_by_subgoals(prompt) else decide(prompt)
        return Pending.of(Reply(text, seconds=time.perf_counter() - begin))


SPEC = ModelSpec(name="expert", summary="rules, no language model", make=lambda settings: ExpertModel())
