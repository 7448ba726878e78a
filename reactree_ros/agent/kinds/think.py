"""Thoughts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from reactree_ros.agent.decision import OK, ONE, Counts, Look, Node, Program
from reactree_ros.agent.grammar import Grammar, rule_name
from reactree_ros.agent.kinds.line import Line
from reactree_ros.agent.turns import About, Said, Told, Turn


@dataclass(frozen=True)
class Think(Line):
    """Reasoning; changes nothing but what the goal node knows."""

    name = "think"
    word = "Think"
    rule = "Think: Use reasoning to satisfy the current goal condition."
    noun = "a thought"
    spellings = "think|thinking|thoughts?|reason|reasoning|rationale|reflection|analysis|explanation|plan"
    keys: ClassVar[tuple[str, ...]] = (
        *("think", "thought", "thoughts", "thinking"),
        *("reasoning", "reason", "rationale", "analysis", "reflection", "explanation", "plan"),
    )
    counts = ONE
    look = Look("Think", "{think}")
    tally = "think"
    learnt = True
    accompanies = True

    thought: str

    @classmethod
    def is_known(cls, grammar: Grammar) -> bool:
        return True

    @classmethod
    def may_be_said(cls, grammar: Grammar) -> bool:
        return grammar.thinks

    @classmethod
    def not_now(cls, grammar: Grammar) -> str:
        return "You have thought already, and nothing has changed since."

    @classmethod
    def regex(cls, grammar: Grammar) -> str:
        return f"{cls.word}: {grammar.thought}"

    @classmethod
    def ebnf(cls, grammar: Grammar) -> Sequence[str]:
        thought = "line" if grammar.thought == grammar.line else grammar.thought
        return (f'{rule_name(cls.name)} ::= "{cls.word}: " {thought}',)

    @classmethod
    def recorded_turns(cls, line: str, rest: list[str]) -> Sequence[Turn] | None:
        answered = False
        while rest and not (answered := (follows := rest.pop()) == OK):
            line += f"\n{follows}"
        said = Said(line, cls(line.removeprefix(cls.opening)))
        return (said, Told(OK, About.ANSWER)) if answered else (said,)

    def carry_out(self, node: Node) -> Program:
        node.take(self)
        node.tell(node.answer_to(self.thought))
        return None
        yield


class Aside(Think):
    """A thought of a kind of its own, which planners take; no label announces it in a reply."""

    spellings = ""
    keys: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def is_known(cls, grammar: Grammar) -> bool:
        return False


@dataclass(frozen=True)
class Summarise(Aside):
    """A thought that says what was done and seen before, so that it need not be shown any more (section 3.3)."""

    name = "summarise"
    look = Look("Summarise", "{summarise}")

    summary: str


def summarised(thought: str, summary: str) -> Summarise:
    return Summarise(thought, summary)


@dataclass(frozen=True)
class WriteCode(Aside):
    """A block of code (Yu et al., section 3.2)."""

    name = "write_code"
    look = Look("Code", "{write_code}")


@dataclass(frozen=True)
class BeginSubgoal(Aside):
    """A thought that begins a subgoal within the same node (Hu et al., section 3.1)."""

    name = "begin_subgoal"
    spellings = "sub-?goal|milestone"
    keys = ("subgoal", "nextsubgoal")
    look = Look("Begin", "{begin_subgoal}")
    accompanies = False
    leads = True

    subgoal: str

    @classmethod
    def is_known(cls, grammar: Grammar) -> bool:
        return grammar.by_subgoals

    @classmethod
    def in_words(cls, number: int, subgoal: str) -> Said:
        return Said(f"{number} Subgoal: {subgoal}", cls(f"Subgoal {number}: {subgoal}", subgoal))

    def carry_out(self, node: Node) -> Program:
        node.take(self)
        node.tell(OK)
        works_by_subgoals: Any = node
        yield from works_by_subgoals.begin_subgoal(self.subgoal)
        return None


@dataclass(frozen=True)
class Ask(Line):
    """A question to a person; the paper has none, and its authors name it as future work."""

    name = "ask"
    word = "Ask"
    rule = "Ask: Put a question to a person, where the goal does not say enough."
    noun = "a question"
    spellings = r"ask(?:\s(?:the\s)?(?:person|user|human|owner))?|(?:clarif\w+\s)?question|clarification"
    keys = ("ask", "askperson", "askuser", "askhuman", "question", "clarification", "clarifyingquestion")
    counts = Counts(questions=1)
    look = Look("Ask", "{ask}", colour="--running", style="bold magenta")
    tally = "ask"
    learnt = True

    question: str

    @classmethod
    def is_known(cls, grammar: Grammar) -> bool:
        return grammar.questions is not None

    @classmethod
    def may_be_said(cls, grammar: Grammar) -> bool:
        return bool(grammar.questions)

    @classmethod
    def not_now(cls, grammar: Grammar) -> str:
        return "There is nobody to ask." if grammar.questions is None else "No more questions may be asked."

    def objection(self, node: Node) -> str:
        answer = node.answered(self.question)
        return f"That was asked already; the answer was {answer}." if answer else ""

    def carry_out(self, node: Node) -> Program:
        node.take(self)
        yield from node.put(self.question)
        return None
