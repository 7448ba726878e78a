"""The language model ``gardener``: a table of rules for the prompts of the garden."""

from __future__ import annotations

import re
from typing import NamedTuple

from pydantic import Field

from reactree_ros.agent.grammar import DecisionGrammar
from reactree_ros.agent.turns import About, Said, Saw, Told
from reactree_ros.background.pending import Pending
from reactree_ros.llm.port import Choice, DecisionRequest, LanguageModel, Reply, RequestRejected
from reactree_ros.llm.spec import ModelSpec
from reactree_ros.plugins.settings import Settings


class Rule(NamedTuple):
    """What is said where the goal, what was seen last and what may be done are so.

    Attributes:
        goal: Pattern of the goal.
        seen: Pattern of what was seen last.
        say: What is said, with what the patterns name.
        only_where: What may be done for that, where it is a skill.
    """

    goal: str
    seen: str
    say: str
    only_where: str = ""


RULES = (
    Rule(
        r"water every (?P<kind>\w+)$",
        "",
        "Expand:\n- control flow: sequence\n- subgoals: fetch can-1, water the {kind}",
    ),
    Rule("fetch can-1", "You carry", "Act: done"),
    Rule("", "", "Act: take can-1", "take can-1"),
    Rule("", "^(?!.*You carry)", "Act: walk to shed-1"),
    Rule(r"water \w+ (?P<kind>\w+)$", r"Dry: (?!.*(?P=kind)-)", "Act: done"),
    Rule("", "is empty", "Act: fill can-1", "fill can-1"),
    Rule("", "is empty", "Act: walk to well-1"),
    Rule(r"water \w+ (?P<kind>\w+)$", r" (?P<plant>(?P=kind)-\d+) in ", "Act: water {plant}", "water {plant}"),
    Rule(r"water \w+ (?P<kind>\w+)$", r" (?P=kind)-\d+ in (?P<bed>bed-\d+)", "Act: walk to {bed}"),
    Rule("", "", "Act: failure"),
)


class GardenerSettings(Settings):
    """What can be set of the gardener."""

    polite: bool = Field(default=False, description="say hello before anything else")


class Gardener(LanguageModel):
    """Answers by the first rule that fits."""

    def __init__(self, settings: GardenerSettings) -> None:
        self._polite = settings.polite

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        if isinstance(request.may_say, DecisionGrammar):
            skills, expands = list(request.may_say.skills), bool(request.may_say.control_flows)
        elif isinstance(request.may_say, Choice):
            skills, expands = list(request.may_say.options), False
        else:
            return Pending.failed(RequestRejected("the gardener decides and writes nothing else; name another --llm"))
        if self._polite and expands and not any(isinstance(turn, Said) for turn in request.turns):
            return Pending.ready(Reply("Think: Hello, garden."))
        tasks = [turn.text for turn in request.turns if isinstance(turn, Told) and turn.about is About.TASK]
        seen = [turn.text for turn in request.turns if isinstance(turn, Saw)][-1]
        goal = tasks[-1].rpartition("Your task is to: ")[2]
        said = next(filter(None, (_said(rule, goal, seen, skills, expands) for rule in RULES)))
        return Pending.ready(Reply(said.removeprefix(request.begun)))


def _said(rule: Rule, goal: str, seen: str, skills: list[str], expands: bool) -> str:
    if rule.say.startswith("Expand") and not expands:
        return ""
    wanted = re.search(rule.goal, goal, re.IGNORECASE)
    if wanted is None:
        return ""
    kind = wanted.groupdict()
    pattern = rule.seen.replace("(?P=kind)", kind.get("kind", ""))
    for found in re.finditer(pattern, seen):
        named = kind | found.groupdict()
        if not rule.only_where or rule.only_where.format(**named) in skills:
            return rule.say.format(**named)
    return ""


SPEC = ModelSpec(
    name="gardener",
    summary="rules for the garden, no language model",
    settings=GardenerSettings,
    make=Gardener,
)
