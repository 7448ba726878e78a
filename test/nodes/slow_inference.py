"""An inference node whose expert takes a while for each decision, so that something can happen meanwhile.

python slow_inference.py SECONDS [--ros-args …]
"""

from __future__ import annotations

import sys
import threading

from rclpy.utilities import remove_ros_args

from reactree_ros.background.pending import Pending, pass_on
from reactree_ros.household.expert.model import ExpertModel
from reactree_ros.llm.port import DecisionRequest, LanguageModel, Reply
from reactree_ros.nodes.inference_node import InferenceNode
from reactree_ros.nodes.spinning import run_node


class SlowModel(LanguageModel):
    """The expert, late.

    Args:
        seconds: How long a decision takes.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds, self._model = seconds, ExpertModel()

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        """Decide later; canceling says nothing any more."""
        pending: Pending[Reply] = Pending()
        threading.Timer(self._seconds, lambda: pass_on(self._model.decide(request), pending)).start()
        return pending


if __name__ == "__main__":
    seconds = float(remove_ros_args(sys.argv)[1])
    run_node(lambda: InferenceNode(model=SlowModel(seconds)))
