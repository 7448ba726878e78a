"""Measures a small model's decisions: word for word on held-out ones, and whether its confidence fits."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from reactree_lab.training import dataset
from reactree_local.engine import Matcher, Text
from reactree_local.small import SmallEngine
from reactree_ros.agent.control_flow import flow_named
from reactree_ros.agent.grammar import DecisionGrammar, choice_regex
from reactree_ros.errors import UserError
from reactree_ros.llm.engine import Constraint, ConstraintKind, Generation
from reactree_ros.llm.port import LanguageModelError

#: Bins of equal width of the calibration.
BINS = 10


@dataclass(frozen=True)
class Looked:
    kind: str
    right: bool  # whether the model's decision was the same, word for word
    sure: float  # the model's probability of its decision, among the allowed ones


@dataclass(frozen=True)
class Bin:
    count: int  # number of decisions
    sure: float  # mean confidence
    right: float  # share of right ones


class _Weighed(Text):
    sure = 1.0

    def choose(self, scores: Any) -> None:
        super().choose(scores)
        shares = np.exp(scores - scores.max())  # those of forbidden tokens are 0
        self.sure *= float(shares.max() / shares.sum())


def look(model: Path, data: Path, *, limit: int, shown: Callable[[float], None] = lambda share: None) -> list[Looked]:
    """Let a model make held-out decisions (the first; a limit of 0 is all), in order in each node, as in a run."""
    engine = SmallEngine(str(model))
    try:
        words = engine.load()
    except LanguageModelError as error:
        raise UserError(str(error)) from error
    read = (line for line in dataset.read_lines(data / dataset.HELD_OUT) if line.get("learn", True))
    learnable = (line for line in read if line.get("may_say") and dataset.in_agents_words(line))
    lines = list(islice(learnable, limit or None))
    if not lines:
        raise UserError(f"--data {data}: {dataset.HELD_OUT} holds no decision that is to be learnt")
    found = []
    for number, line in enumerate(lines, 1):
        prompt = words.encode(line["prompt"])
        if engine.context is not None and len(prompt) + 512 > engine.context:
            found.append(Looked(line["kind"], False, 0.0))  # it cannot decide at all
            continue
        constraint = Constraint(ConstraintKind.REGEX, regex_of(line["may_say"]))
        matcher = Matcher(engine.vocabulary, constraint)
        text = _Weighed(prompt, Generation(()), tokenizer=words, ends=engine.ends, matcher=matcher)
        engine.write(text)
        right = text.generated().text.strip("\n") == line["completion"]
        found.append(Looked(line["kind"], right, text.sure))
        shown(number / len(lines))
    return found


def regex_of(may_say: Mapping[str, Any]) -> str:
    if options := may_say.get("options"):
        return choice_regex(options)
    flows = tuple(map(flow_named, may_say.get("control_flows", ())))
    return DecisionGrammar(tuple(may_say["skills"]), flows).regex()


def exact_by_kind(looked: Sequence[Looked]) -> dict[str, tuple[int, int]]:
    """Return the number of right decisions and of all decisions, by kind; ``all`` comes first."""
    counts: dict[str, list[bool]] = defaultdict(list)
    for one in looked:
        counts["all"].append(one.right)
        counts[one.kind].append(one.right)
    return {kind: (sum(rights), len(rights)) for kind, rights in counts.items()}


def calibration(looked: Sequence[Looked]) -> tuple[float, list[Bin]]:
    bins = []
    for number in range(BINS):
        those = [one for one in looked if min(BINS - 1, int(one.sure * BINS)) == number]
        if those:
            sure, right = (sum(values) / len(those) for values in zip(*((o.sure, o.right) for o in those), strict=True))
            bins.append(Bin(len(those), sure, right))
    return sum(one.count * abs(one.sure - one.right) for one in bins) / len(looked), bins
