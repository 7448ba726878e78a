"""An inference node whose model takes a while for each decision, so that something can happen meanwhile.

python slow_inference.py SECONDS [wilful] [--ros-args …]

The model is the expert, or one that does what an instruction like `7: grip, pour` names: skills with any values, now
and then with one that may not stand there. The number decides which. What is written out, such as `Act: grip cup 1`, is
said as it is.
"""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from rclpy.utilities import remove_ros_args

from reactree_ros.agent.grammar import DecisionGrammar
from reactree_ros.agent.turns import Said
from reactree_ros.background.pending import Pending, pass_on
from reactree_ros.household.expert.model import ExpertModel
from reactree_ros.llm.port import DecisionRequest, LanguageModel, Reply
from reactree_ros.nodes.inference.inference_node import InferenceNode
from reactree_ros.nodes.spinning import run_node

sys.path.insert(0, str(Path(__file__).parents[1]))

from declared_skills import call_of, outside
from doubles import goal_of

#: Share of the wilful model's skills with a value that may not stand there.
WRONG = 0.15


class WilfulModel(LanguageModel):
    """Does one named skill after the other; where one may not be tried now, the robot goes somewhere."""

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        """Say the next skill, or that all is done."""
        number, _, names = goal_of(request.prompt).partition(": ")
        said = sum(isinstance(turn, Said) for turn in request.turns)
        return Pending.ready(Reply(self._next(request, names.split(", ")[said:], random.Random(f"{number} {said}"))))

    def _next(self, request: DecisionRequest, names: Sequence[str], chance: random.Random) -> str:
        if names and names[0].startswith("Act: "):
            return names[0]
        assert isinstance(request.may_say, DecisionGrammar)
        offers = {offer.skill.name: offer for offer in request.may_say.offers}
        goes = [name for name, offer in offers.items() if "at" in offer.skill.effect]
        calls = (call_of(offers[name], chance) for name in (*names[:1], *goes[: len(names)]) if name in offers)
        call = next(filter(None, calls), None)
        if call is None:
            return "Act: done"
        wrong = call.skill.parameters and chance.random() < WRONG
        return f"Act: {outside(call, chance.choice(list(call.skill.parameters))) if wrong else call}"


class SlowModel(LanguageModel):
    """A model that is late."""

    def __init__(self, model: LanguageModel, seconds: float) -> None:
        self._model, self._seconds = model, seconds

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        """Decide later; canceling says nothing any more."""
        pending: Pending[Reply] = Pending()
        threading.Timer(self._seconds, lambda: pass_on(self._model.decide(request), pending)).start()
        return pending


if __name__ == "__main__":
    seconds, *which = remove_ros_args(sys.argv)[1:]
    model = WilfulModel() if which else ExpertModel()
    run_node(lambda: InferenceNode(model=SlowModel(model, float(seconds))))
