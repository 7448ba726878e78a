"""The decision grammar: everything a goal node may say next, as regular expression, EBNF grammar or JSON schema."""

from __future__ import annotations

import abc
import json
from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from reactree_ros.agent.control_flow import ControlFlow, default_flows
from reactree_ros.agent.decision import Decision, MalformedDecision, as_object, kinds, kinds_by_word
from reactree_ros.agent.parameters import GBNF, REGEX, Notation
from reactree_ros.agent.skill import Offer
from reactree_ros.agent.turns import Said

if TYPE_CHECKING:
    from reactree_ros.agent.reading.reader import Part

#: The longest line of text that may be said, in characters.
LONGEST_LINE = 1000
#: The longest thought of a node whose thoughts in a row are limited, in characters.
LONGEST_THOUGHT = 300
#: The longest skill that may be said where skills are free, in characters.
LONGEST_SKILL = 500
_FREE = f"[^\\n]{{1,{LONGEST_SKILL}}}"
#: The JSON schema of any text.
TEXT = {"type": "string"}


@dataclass(frozen=True)
class Grammar(abc.ABC):
    """What may be said in one decision, with any planner; ``agent.reading.read`` reads it."""

    skills: Sequence[str]  # every skill that may be said, with ``done``, ``failure`` and what memory may be asked
    _: KW_ONLY
    control_flows: Sequence[type[ControlFlow]] = ()  # control flows an expansion may use; empty: no expansion (ReAct)
    max_characters: int = LONGEST_LINE  # the longest thought or line of subgoals, in characters
    free: bool = False  # whether others may be said, too, as in a household with free skills
    questions: int | None = None  # how many questions may still be asked of a person; None: there is nobody to ask
    more: Sequence[str] = ()  # the further kinds of decision that may be said, by their names
    offers: Sequence[Offer] = ()  # declared skills that may be said, too, with what may stand in their places
    longest_thought: int = 0  # the longest thought, in characters; 0: a thought is no decision that may be said
    by_subgoals: ClassVar[bool] = False  # whether a subgoal comes with its first action, as HiAgent has it

    @property
    def thinks(self) -> bool:
        return self.longest_thought > 0

    @property
    def longest_skills(self) -> Sequence[str]:
        return [*self.skills, *(" " * offer.longest for offer in self.offers)]

    @cached_property
    def kinds(self) -> tuple[type[Decision], ...]:
        return tuple(kind for kind in kinds().values() if kind.is_known(self))

    @abc.abstractmethod
    def regex(self) -> str:
        """Render as a regular expression that matches all of it, in the subset that servers agree on.

        A line end may follow: a model without a chat template ends a line with it, and would have to go on without.
        """

    @abc.abstractmethod
    def ebnf(self) -> str:
        """Render as an EBNF grammar in the GBNF notation (llama.cpp, xgrammar, llguidance's converter)."""

    @property
    @abc.abstractmethod
    def expected(self) -> str: ...

    @abc.abstractmethod
    def read_exactly(self, text: str, *, cut: bool) -> tuple[Said, ...]:
        """Return what a text in just the words of the grammar is taken for; nothing if it may not be said."""

    @abc.abstractmethod
    def said_turns(self, before: Sequence[Part], decision: Decision | None) -> tuple[Said, ...]: ...

    def json_schema(self) -> dict[str, Any]:
        return self._schema(self.skill_schema())

    def one_schema(self) -> dict[str, Any]:
        """Render as a JSON schema that stays the same while the skills change; which there are is up to the reader."""
        return self._schema(TEXT)

    @abc.abstractmethod
    def _schema(self, skill: dict[str, Any]) -> dict[str, Any]: ...

    @property
    def line(self) -> str:
        return f"[^\\n]{{1,{self.max_characters}}}"

    @property
    def thought(self) -> str:
        return f"[^\\n]{{1,{min(self.longest_thought, self.max_characters)}}}"

    def skill_regex(self) -> str:
        return _FREE if self.free else self._skill(REGEX)

    def skill_schema(self) -> dict[str, Any]:
        if self.free:
            return TEXT
        listed: list[dict[str, Any]] = [{"type": "string", "enum": list(self.skills)}] if self.skills else []
        listed += [as_object(**{offer.skill.name: offer.schema()}) for offer in self.offers]
        return listed[0] if len(listed) == 1 else {"anyOf": listed}

    def skill_rule(self) -> str:
        return f"skill ::= {_FREE if self.free else self._skill(GBNF)}"

    def _skill(self, notation: Notation) -> str:
        said = [*map(notation.literal, self.skills), *(offer.pattern(notation) for offer in self.offers)]
        return notation.one_of(said)


@dataclass(frozen=True)
class DecisionGrammar(Grammar):
    """What an agent node may say in one decision; see :class:`Grammar`."""

    control_flows: Sequence[type[ControlFlow]] = field(default_factory=default_flows, kw_only=False)
    longest_thought: int = field(default=LONGEST_LINE, kw_only=True)

    @cached_property
    def allowed(self) -> tuple[type[Decision], ...]:
        return tuple(kind for kind in self.kinds if kind.may_be_said(self))

    def regex(self) -> str:
        return f"(?:{'|'.join([kind.regex(self) for kind in self.allowed])})\\n?"

    def ebnf(self) -> str:
        rules = [rule for kind in self.allowed for rule in kind.ebnf(self)]
        root = " | ".join(rule_name(kind.name) for kind in self.allowed)
        line = [f"line ::= {self.line}"] if any(" line" in rule for rule in rules) else []
        return "\n".join([f'root ::= ({root}) "\\n"?', *rules, *line])

    def _schema(self, skill: dict[str, Any]) -> dict[str, Any]:
        return as_object(
            decision={"anyOf": [as_object(**{kind.word: kind.schema(self, skill)}) for kind in self.allowed]}
        )

    def tools(self) -> list[dict[str, Any]]:
        tools = [kind.tool(self, self.skill_schema()) for kind in self.allowed]
        return [*tools, *(offer.tool() for offer in self.offers)]

    def read_exactly(self, text: str, *, cut: bool) -> tuple[Said, ...]:
        kind = kinds_by_word().get(text.partition(":")[0])
        if kind is None or not text.startswith(kind.opening) or not kind.is_known(self):
            return ()
        decision = kind.read_exactly(text, self, cut=cut)
        return () if decision is None else (Said(text, decision),)

    def said_turns(self, before: Sequence[Part], decision: Decision | None) -> tuple[Said, ...]:
        thoughts = [part for part in before if part.kind and part.kind.accompanies and part.text and self.thinks]
        said = [decision] if decision is not None else []
        if thoughts and (kind := thoughts[0].kind) is not None:
            said.insert(0, kind.from_dict({kind.name: " ".join(part.text for part in thoughts)}))
        return tuple(Said(str(one), one) for one in said)

    @property
    def expected(self) -> str:
        return f"A decision starts with {listed(kind.opening for kind in self.allowed)}"


def parse_decision(text: str, *, keep_and: bool = False) -> Decision:
    """Read one decision, such as ``Think: …``, as the recordings have it. Raises MalformedDecision.

    ``keep_and``: leave a final ``and`` in the last subgoal, as the recordings do.
    """
    text = text.strip("\n")
    kinds = DecisionGrammar(()).kinds
    word, colon, _ = text.partition(":")
    kind = next((kind for kind in kinds if colon and kind.word == word), None)
    if kind is None:
        start = repr(text[:40] + ("…" if len(text) > 40 else ""))
        raise MalformedDecision(f"A decision starts with {listed(kind.opening for kind in kinds)}, not with {start}.")
    return kind.read_recorded(text, keep_and=keep_and)


def choice_regex(options: Sequence[str]) -> str:
    return f"{REGEX.texts(options)}\\n?"


def choice_ebnf(options: Sequence[str]) -> str:
    return f'root ::= {GBNF.texts(options)} "\\n"?'


def choice_schema(options: Sequence[str] | None) -> dict[str, Any]:
    """Render a choice as a JSON schema, or, with None, what is the same for all choices.

    :func:`chosen_of_json` reads what comes back.
    """
    return as_object(choice=TEXT if options is None else {"type": "string", "enum": list(options)})


def chosen_of_json(text: str) -> str:
    try:
        return str(json.loads(text)["choice"])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"Not of the JSON schema that was asked for: {text[:200]!r}") from error


def listed(openings: Iterable[str]) -> str:
    *first, last = [f"'{one}'" for one in openings]
    return f"{', '.join(first)} or {last}" if first else last


def rule_name(name: str) -> str:
    return name.replace("_", "-")
