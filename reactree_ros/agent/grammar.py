"""The decision grammar: everything a goal node may say next, as regular expression, EBNF grammar or JSON schema."""

from __future__ import annotations

import abc
import enum
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from reactree_ros.agent.control_flow import ControlFlow, default_flows
from reactree_ros.agent.decision import Decision, MalformedDecision, as_object, kinds, kinds_by_word
from reactree_ros.agent.parameters import GBNF, REGEX, Notation
from reactree_ros.agent.skill import Offer
from reactree_ros.agent.text import nearest_first
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
#: The most skills that one line lists.
MOST_LISTED = 200


class Form(enum.Enum):
    """How a decision is written: asked for, shown in what was said before, and spoken of."""

    LINES = "lines"
    """Lines after a word, e.g. ``Act: go to kitchen 1``."""
    JSON = "json"
    """One object, e.g. ``{"decision": {"Act": "go to kitchen 1"}}``."""
    TOOLS = "tools"
    """A call of one tool, e.g. ``act`` with ``{"skill": "go to kitchen 1"}``."""


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
    longest_thought: int = 0  # the longest thought, in characters; 0: a thought is not a decision that may be said
    form: Form = Form.LINES  # how a decision is written
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

    def possible(self, goal: str) -> str:
        """List the skills that may be said now in a sentence; of very many those with most words of a goal."""
        texts = [*self.skills, *(offer.described for offer in self.offers)]
        more = f", and {len(texts) - MOST_LISTED} more" if len(texts) > MOST_LISTED else ""
        kept = texts if not more else {*nearest_first(texts, goal)[:MOST_LISTED]}
        mark = "; " if any(", " in text for text in texts) else ", "
        others = ", among others" if self.free else ""
        return f"Actions that are possible now{others}: {mark.join(one for one in texts if one in kept)}{more}."

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

    @cached_property
    def steady(self) -> DecisionGrammar:
        """The same with what may not be said just now, as after a thought: what a prefix cache is to keep."""
        return replace(self, longest_thought=LONGEST_LINE, questions=None if self.questions is None else 1)

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

    def one_schema(self) -> dict[str, Any]:
        return self.steady._schema(TEXT)

    def tools(self) -> list[dict[str, Any]]:
        """Render as tools, one for each kind, that stay the same while the skills change."""
        return [kind.tool(self, TEXT) for kind in self.steady.allowed]

    def possible(self, goal: str) -> str:
        barred = (kind.not_now(self) for kind in self.steady.allowed if kind not in self.allowed)
        return " ".join((*barred, super().possible(goal)))

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
        if self.form is Form.TOOLS:
            return f"A decision is made with one call of the tool {listed(kind.name for kind in self.allowed)}"
        if self.form is Form.JSON:
            samples = ({"decision": {kind.word: _sample(kind.schema(self, TEXT), kind.noun)}} for kind in self.allowed)
            return f"A decision is made with one object in JSON, {' or '.join(map(json.dumps, samples))}"
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


def _sample(schema: Mapping[str, Any], noun: str) -> Any:
    """Return what a schema describes, with a noun for a text."""
    if "anyOf" in schema:
        return _sample(schema["anyOf"][0], noun)
    if "properties" in schema:
        return {name: _sample(one, noun) for name, one in schema["properties"].items()}
    if "items" in schema:
        return [_sample(schema["items"], noun)]
    return next(iter(schema.get("enum", ())), noun if schema["type"] == "string" else schema.get("minimum", 1))


def listed(openings: Iterable[str]) -> str:
    *first, last = [f"'{one}'" for one in openings]
    return f"{', '.join(first)} or {last}" if first else last


def rule_name(name: str) -> str:
    return name.replace("_", "-")
