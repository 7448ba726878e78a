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
from reactree_ros.plugins import Registry
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


#: The fields of a record's turns and decisions that are not arguments.
RECORDED = frozenset(
    {"e", "t", "node", "decisions", "steps", "reason", "anew", "told", "about", "said", "saw", "robot", "id", "text"}
    | {"system", "examples", "rule"}  # of a prompt's start
)


class Counts(NamedTuple):
    """What a decision adds to a run's budget."""

    decisions: int = 1
    steps: int = 0  # skills that are asked of the world or of memory
    questions: int = 0  # that a person is asked


#: What most decisions add.
ONE = Counts()


class Look(NamedTuple):
    """How decisions of a kind are shown."""

    label: str  # what the page calls them
    words: str  # what the page's list of decisions says of one, with its recorded fields in braces
    colour: str = ""  # the variable of the page's style sheet that marks them; empty: none
    style: str = ""  # how the terminal prints them, in rich's words
    mark: str = ""  # the kind of mark on the time line, as in ``MARKS`` of ``view/__init__.py``; empty: none


class Node(Protocol):
    """What a decision may do with the node that takes it; the tree's agent node is one."""

    feedback_message: str  # what the node says of its end

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
    training and bench. :func:`check_kind` refuses a kind that leaves a part open.
    """

    name: ClassVar[str]  # in registries, records, messages and datasets, e.g. ``ask``
    word: ClassVar[str]  # announces it, e.g. ``Ask``
    opening: ClassVar[str]  # how every decision of the kind begins; by default its word, a colon and a blank
    rule: ClassVar[str]  # the system text on it; ``{actions}`` and ``{control_flows}`` are filled in
    spellings: ClassVar[str]  # the labels that announce it, as a regular expression; by default its word; empty: none
    keys: ClassVar[tuple[str, ...]]  # fields of JSON and tools that stand for it, in lower case; by default its word
    counts: ClassVar[Counts]  # what it adds to the budget
    look: ClassVar[Look]
    tally: ClassVar[str]  # what the bench counts it as
    learnt: ClassVar[bool]  # whether training learns it when a dataset has it
    noun: ClassVar[str] = "a text"  # what follows its word, e.g. ``a question``
    many: ClassVar[tuple[str, ...]] = ()  # the arguments that have several values
    accompanies: ClassVar[bool] = False  # whether it may stand before another one, and end where it was cut
    nests: ClassVar[bool] = False  # whether another label may follow its own, as in ``Action: Act: …``
    leads: ClassVar[bool] = False  # whether it comes with the decision after it
    of_lines: ClassVar[bool] = False  # whether it has several lines
    settings: ClassVar[type[Settings]] = NoSettings
    extra: ClassVar[str] = ""

    def __init_subclass__(cls) -> None:
        if "word" in vars(cls):
            word = cls.word.lower()
            for part, value in {"opening": f"{cls.word}: ", "spellings": word, "keys": (word,)}.items():
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

    @classmethod
    @cache
    def optional(cls) -> Mapping[str, Any]:
        """Return the recorded fields that are left out when they hold their default, with that."""
        defaults = [field.default for field in dataclasses.fields(cls)]  # type: ignore[arg-type]
        fields = zip(cls.recorded_fields(), defaults, strict=True)
        return {name: default for name, default in fields if default is not dataclasses.MISSING}

    def as_dict(self) -> dict[str, Any]:
        fields = zip(self.recorded_fields(), map(_as_json, vars(self).values()), strict=True)
        return {name: value for name, value in fields if name not in self.optional() or value != self.optional()[name]}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        given = {**cls.optional(), **values}
        return cls(*[text_of(given[name]) for name in cls.recorded_fields()])

    @property
    def value(self) -> Any:
        """What stands for it in JSON, as :meth:`schema` describes it: its only argument, or all by name."""
        given = {name: _as_json(one) for name, one in vars(self).items()}
        return given if len(given) > 1 else next(iter(given.values()))

    @property
    def called(self) -> dict[str, Any]:
        """What a call of its :meth:`tool` passes."""
        return self.value if isinstance(self.value, dict) else {self.arguments()[0]: self.value}

    def lines(self) -> Sequence[str]:
        return (str(self),)

    def in_a_line(self) -> str:
        return " ".join(str(self).split())


#: What a kind declares beside its methods.
DECLARED = ("name", "word", "rule", "counts", "look", "tally", "learnt")


def check_kind(kind: type[Decision]) -> None:
    """Look whether a kind declares every part. Raises UserError."""
    who = f"decision kind {kind.__qualname__} of {kind.__module__}"
    missing = [part for part in DECLARED if getattr(kind, part, None) is None]
    if missing := [*missing, *sorted(kind.__abstractmethods__)]:
        raise UserError(f"{who} does not declare '{missing[0]}'; declare it in the class")
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
        raise UserError(f"{who}: 'spellings' is not a regular expression: {error}") from error
    if groups:
        raise UserError(f"{who}: 'spellings' has groups; write them as (?:…)")
    kind.check()


class MalformedDecision(ValueError):
    """A reply that is not a decision; the message says what is wrong, for the model and for people."""


def split_subgoals(line: str, *, keep_and: bool = False) -> tuple[str, ...]:
    """Split a subgoal line at ``, ``, or at ``;`` if there is one: then the subgoals may contain commas."""
    if keep_and:
        return tuple(subgoal for subgoal in line.split(", ") if subgoal)
    subgoals = [subgoal.strip() for subgoal in line.split(";" if ";" in line else ", ")]
    while subgoals and not subgoals[-1]:
        subgoals.pop()
    if subgoals:
        subgoals[-1] = re.sub(r"^and ", "", subgoals[-1]).rstrip(".")
    return tuple(subgoal for subgoal in subgoals if subgoal)


def as_object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def text_of(value: Any) -> str:
    """Return a value that must be a text. Raises ValueError."""
    if not isinstance(value, str):
        raise ValueError(f"must be a text, not {str(value)[:60]!r}")
    return value


def _as_json(value: Any) -> Any:
    if isinstance(value, str):
        return value
    return list(value) if isinstance(value, tuple) else value if isinstance(value, (int, float)) else str(value)


DECISIONS: Registry[type[Decision]] = Registry(
    "decision kind",
    "reactree_ros.decisions",
    Decision,
    first=("think", "act", "expand", "ask", "begin_subgoal", "summarise", "write_code"),
    check=check_kind,
)


@cache
def kinds() -> Mapping[str, type[Decision]]:
    found: dict[str, type[Decision]] = {}
    for kind in DECISIONS.every():
        for other in found.values():
            if (shared := _shared(kind, other)) is not None:
                raise UserError(
                    f"'{shared}' stands for the decision kinds '{other.name}' and '{kind.name}'; rename one"
                )
        found[kind.name] = kind
    return found


@cache
def kinds_by_word() -> Mapping[str, type[Decision]]:
    return {kind.word: kind for kind in kinds().values() if kind.spellings and not kind.leads}


def _shared(one: type[Decision], other: type[Decision]) -> str | None:
    for first, second in ((one, other), (other, one)):
        if first.name in second.recorded_fields()[1:]:
            return first.name
    if not (one.spellings and other.spellings) or one.leads or other.leads:
        return None
    words = [one.word, other.word, *_plain_words(one), *_plain_words(other)]
    for word in words:
        if all(re.fullmatch(f"{kind.word}|{kind.spellings}", word, re.IGNORECASE) for kind in (one, other)):
            return word
    return next(iter({*one.keys} & {*other.keys}), None)


def _plain_words(kind: type[Decision]) -> list[str]:
    return re.findall(r"(?<![^|])\w+(?![^|])", kind.spellings)
