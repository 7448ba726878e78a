"""Decisions: the one thing a goal node says at a time (paper, section 4.1), and what a kind of decision declares."""

from __future__ import annotations

import abc
import dataclasses
import re
from collections.abc import Generator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

from typing_extensions import Self

from reactree_ros.errors import UserError
from reactree_ros.plugins.settings import NoSettings, Settings

if TYPE_CHECKING:
    from reactree_ros.agent.grammar import Grammar
    from reactree_ros.agent.reading.reader import Reader
    from reactree_ros.agent.turns import Turn

DONE = "done"
FAILURE = "failure"
RECALL = "recall location of "
RETRIEVE = "retrieve("
#: What asks the agent's memory begins with, not the world: a recall, or HiAgent's retrieval of a subgoal.
ASKS_MEMORY = (RECALL, RETRIEVE)
#: What follows a thought.
OK = "OK."


#: The fields of a record's turns and decisions that are no arguments.
RECORDED = frozenset(
    {"e", "t", "node", "decisions", "steps", "reason", "anew", "told", "about", "said", "saw", "robot", "id", "text"}
    | {"system", "examples", "rule"}  # of a prompt's start
)


class Counts(NamedTuple):
    """What a decision adds to a run's budget.

    Attributes:
        decisions: Decisions.
        steps: Steps: skills that are asked of the world or of memory.
        questions: Questions that a person is asked.
    """

    decisions: int = 1
    steps: int = 0
    questions: int = 0


#: What most decisions add.
ONE = Counts()


class Look(NamedTuple):
    """How decisions of a kind are shown.

    Attributes:
        label: What the page calls them.
        words: What the page's list of decisions says of one, with its recorded fields in braces.
        colour: The variable of the page's style sheet that marks them; empty: none.
        style: How the terminal prints them, in rich's words.
        mark: The kind of mark on the time line, as in ``MARKS`` of ``view/words.py``; empty: none.
    """

    label: str
    words: str
    colour: str = ""
    style: str = ""
    mark: str = ""


class Node(Protocol):
    """What a decision may do with the node that takes it; the tree's agent node is one.

    Attributes:
        feedback_message: What the node says of its end.
    """

    feedback_message: str

    def take(self, decision: Decision) -> None: ...

    def tell(self, text: str) -> None: ...

    def answer_to(self, thought: str) -> str: ...

    def do(self, act: Any) -> Generator[Any, Any, None]: ...

    def put(self, question: str) -> Generator[Any, Any, None]: ...

    def answered(self, question: str) -> str:
        """Return what a question was answered with before; empty if it was not asked."""

    def grow(self, expand: Any) -> Program:
        """Take an expansion and let it grow; returns as :meth:`Decision.carry_out`."""

    def objection_to(self, expand: Any) -> str: ...


#: Whether the node's goal is reached, if the node ends; otherwise None.
Program = Generator[Any, Any, "bool | None"]


class DecisionKind(abc.ABCMeta):
    """The class of decisions of one kind; it is what the registry holds."""

    @property
    def summary(cls) -> str:
        return (cls.__doc__ or "").partition("\n")[0].rstrip(".").replace("``", "`")


class Decision(metaclass=DecisionKind):
    """One thing that a goal node says.

    A subclass declares one kind of decision, in one file: a frozen dataclass whose fields are the kind's arguments.
    Everything else asks the kind: prompt, grammar, reader, budget, node, messages, record, page, terminal, dataset,
    training and bench. :func:`check_kind` refuses a kind that leaves one of :data:`PARTS` open.

    Attributes:
        name: The kind's name in registries, records, messages and datasets, e.g. ``ask``.
        word: The word that announces it, e.g. ``Ask``.
        opening: How every decision of the kind begins; its word, a colon and a blank if it declares nothing else.
        rule: The line of the system text on it, without its number; ``{actions}`` and
            ``{control_flows}`` are filled in.
        spellings: The labels that announce it in a reply, as a regular expression; its word if it declares none; empty:
            no label does.
        keys: The fields of JSON that hold it, and the names of tools that stand for it, without signs, in lower case;
            its word if it declares none.
        counts: What it adds to the budget.
        last_lines: The lines with which an experience may end.
        many: The arguments that have several values.
        noun: What follows its word, e.g. ``a question``.
        look: How it is shown.
        tally: What the bench counts it as.
        learnt: Whether training learns it when a dataset has it.
        accompanies: Whether it may stand before a decision of another kind, as a thought does.
        nests: Whether another label may follow its own, as in ``Action: Act: …``.
        leads: Whether it comes with the decision after it.
        may_be_cut: Whether one that the token limit ended is taken.
        of_lines: Whether it has several lines.
    """

    name: ClassVar[str]
    word: ClassVar[str]
    opening: ClassVar[str]
    rule: ClassVar[str]
    spellings: ClassVar[str]
    keys: ClassVar[tuple[str, ...]]
    counts: ClassVar[Counts]
    look: ClassVar[Look]
    tally: ClassVar[str]
    learnt: ClassVar[bool]
    noun: ClassVar[str] = "a text"
    last_lines: ClassVar[tuple[str, ...]] = ()
    many: ClassVar[tuple[str, ...]] = ()
    accompanies: ClassVar[bool] = False
    nests: ClassVar[bool] = False
    leads: ClassVar[bool] = False
    may_be_cut: ClassVar[bool] = False
    of_lines: ClassVar[bool] = False
    settings: ClassVar[type[Settings]] = NoSettings
    extra: ClassVar[str] = ""

    def __init_subclass__(cls) -> None:
        if "word" in vars(cls):
            for part, value in _by_default(cls.word).items():
                if part not in vars(cls):
                    setattr(cls, part, value)

    @classmethod
    def check(cls) -> None:
        """Look at what else the kind declares, when it is registered. Raises UserError."""

    # ------------------------------------------------------------------ what may be said

    @classmethod
    def is_known(cls, grammar: Grammar) -> bool:
        """Whether the model was told of the kind; if not, its labels are words like any other."""
        return cls.name in grammar.more

    @classmethod
    def may_be_said(cls, grammar: Grammar) -> bool:
        return cls.is_known(grammar)

    @classmethod
    def not_now(cls, grammar: Grammar) -> str:
        """Say why it may not be said, in a sentence."""
        return f"'{cls.word}:' may not be said here."

    @classmethod
    def is_told(cls, grammar: Grammar) -> bool:
        return cls.is_known(grammar)

    @classmethod
    @abc.abstractmethod
    def regex(cls, grammar: Grammar) -> str: ...

    @classmethod
    @abc.abstractmethod
    def ebnf(cls, grammar: Grammar) -> Sequence[str]:
        """Return the EBNF rules of what may be said, in the GBNF notation; the first has the kind's name."""

    @classmethod
    @abc.abstractmethod
    def schema(cls, grammar: Grammar, skill: Mapping[str, Any]) -> Mapping[str, Any]: ...

    @classmethod
    def tool(cls, grammar: Grammar, skill: Mapping[str, Any]) -> dict[str, Any]:
        schema = cls.schema(grammar, skill)
        if schema["type"] != "object":
            schema = as_object(**{cls.arguments()[0]: schema})
        return {"name": cls.name, "description": cls.summary, "parameters": schema}

    @classmethod
    def rounds(cls, grammar: Grammar) -> Sequence[tuple[str, Sequence[str] | None]]:
        """Return what is said round by round: how each round begins, and its options; None: any line."""
        return ((cls.opening.rstrip(), None),)

    # ------------------------------------------------------------------ reading

    @classmethod
    @abc.abstractmethod
    def read_exactly(cls, text: str, grammar: Grammar, *, cut: bool) -> Decision | None:
        """Return the decision that a text is in just the words of the grammar; None if it is none."""

    @classmethod
    @abc.abstractmethod
    def read_recorded(cls, text: str, *, keep_and: bool = False) -> Decision:
        """Read a decision as the recordings have it. Raises ValueError."""

    @classmethod
    @abc.abstractmethod
    def recorded_turns(cls, line: str, rest: list[str]) -> Sequence[Turn] | None:
        """Return the turns of a recorded text that a decision makes, with what answers it; None if it is cut short."""

    @classmethod
    @abc.abstractmethod
    def read(cls, said: Any, reader: Reader, *, cut: bool) -> Decision | None:
        """Read what a reply says of the kind. Raises Unreadable."""

    # ------------------------------------------------------------------ what it does

    @property
    def counted(self) -> Counts:
        return self.counts

    @property
    def tallied(self) -> str:
        return self.tally

    @property
    def gist(self) -> str:
        """What the bench's events have of it: its text, of an act the skill alone."""
        return str(self)

    @property
    def ends(self) -> bool:
        return False

    @property
    def node_end(self) -> str:
        """How the node's experience ends by it: ``success``, ``failure`` or ``expand``; empty: it goes on."""
        return ""

    @property
    def skill_asked(self) -> str:
        """The skill that it asks of the world or of memory; empty: none."""
        return ""

    @property
    def subgoals_named(self) -> tuple[str, ...]:
        return ()

    def objection(self, node: Node) -> str:
        """Say why a node must not carry it out now; empty if it may."""
        return ""

    @abc.abstractmethod
    def carry_out(self, node: Node) -> Program:
        """Carry it out; a generator that returns whether the goal is reached if the node ends by it, else None."""

    # ------------------------------------------------------------------ how it is written down and shown

    @abc.abstractmethod
    def __str__(self) -> str: ...

    @classmethod
    @cache
    def arguments(cls) -> tuple[str, ...]:
        return tuple(field.name for field in dataclasses.fields(cls))  # type: ignore[arg-type]

    @classmethod
    def json_types(cls) -> tuple[type, ...]:
        return (str,)

    @classmethod
    @cache
    def recorded_fields(cls) -> tuple[str, ...]:
        """Return the fields that it has in a record: its first argument is the field of the kind's name."""
        return (cls.name, *cls.arguments()[1:])

    def as_dict(self) -> dict[str, Any]:
        return dict(zip(self.recorded_fields(), map(_as_json, vars(self).values()), strict=True))

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        return cls(*[text_of(values[name]) for name in cls.recorded_fields()])

    def lines(self) -> Sequence[str]:
        return (str(self),)

    def in_a_line(self) -> str:
        return " ".join(str(self).split())


#: The parts that every kind declares, each with what it is for.
PARTS: Mapping[str, str] = {
    "name": "its name in records and datasets",
    "word": "the word that announces it",
    "rule": "the line of the system text on it",
    "counts": "what it adds to the budget",
    "look": "how the page and the terminal show it",
    "tally": "what the bench counts it as",
    "learnt": "whether training learns it",
    "regex": "its part of the regular expression",
    "ebnf": "its part of the EBNF grammar",
    "schema": "its JSON schema",
    "read_exactly": "how it is read in the words of the grammar",
    "read_recorded": "how it is read in the words of the recordings",
    "recorded_turns": "how a recorded text has it, with its answer",
    "read": "how it is read in other words",
    "carry_out": "what a node does with it",
    "__str__": "how it stands in prompts",
}


def check_kind(kind: type[Decision]) -> None:
    """Look whether a kind declares every part. Raises UserError."""
    who = f"decision kind {kind.__qualname__} of {kind.__module__}"
    for part, about in PARTS.items():
        if getattr(kind, part, None) is None or part in kind.__abstractmethods__:
            raise UserError(f"{who} does not declare '{part}', {about}; declare it in the class")
    if not getattr(kind, "__dataclass_fields__", None):
        raise UserError(f"{who} has no 'fields', the arguments of a decision; make it a frozen dataclass with fields")
    if re.fullmatch("[a-z][a-z0-9_]*", kind.name) is None:
        raise UserError(f"{who} has the name {kind.name!r}; use small letters, digits and underscores")
    for name in kind.recorded_fields():
        if name in RECORDED:
            raise UserError(f"{who} calls an argument '{name}', as a record's own field is called; rename it")
    try:
        groups = re.compile(kind.spellings).groups
    except re.error as error:
        raise UserError(f"{who}: 'spellings' is no regular expression: {error}") from error
    if groups:
        raise UserError(f"{who}: 'spellings' has groups; write them as (?:…)")
    kind.check()


def _by_default(word: str) -> dict[str, Any]:
    return {"opening": f"{word}: ", "spellings": word.lower(), "keys": (word.lower(),)}


def as_object(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def text_of(value: Any) -> str:
    """Return a value that must be a text. Raises ValueError."""
    if not isinstance(value, str):
        raise ValueError(f"must be a text, not {str(value)[:60]!r}")
    return value


def _as_json(value: Any) -> Any:
    if isinstance(value, str):
        return value
    return list(value) if isinstance(value, tuple) else value if isinstance(value, (int, float)) else str(value)
