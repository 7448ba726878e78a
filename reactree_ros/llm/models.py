"""Language models by name, as the command line and the inference node offer them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from reactree_ros.llm.expert_model import ExpertModel
from reactree_ros.llm.port import LanguageModel

#: How each is made. What needs more than the core is imported when it is made.
MODELS: Mapping[str, Callable[[], LanguageModel]] = {"expert": ExpertModel}
