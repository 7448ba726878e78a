"""Questions."""

from __future__ import annotations

from dataclasses import dataclass

from reactree_ros.agent.decision import Counts, Look, Node, Program
from reactree_ros.agent.grammar import Grammar
from reactree_ros.agent.kinds.line import Line


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
