"""A person's yes to one skill, if the skill policy says ``confirm``."""

from __future__ import annotations

from collections.abc import Callable

from reactree_ros.background.pending import Pending, asked, give_up_after, mapped
from reactree_ros.person.port import Answer, NobodyAnswers, Person, Question, approves, quoted


def confirmed_by(person: Person | None, seconds: float) -> Callable[[str, str], Pending[str]]:
    """Return a function that asks a person about a skill, for a ``PolicyGuard``; no answer in time counts as no.

    Each skill is its own question, and only the answer ``y`` or ``yes`` to it is a yes. Without a person it is a no.
    """

    def confirm(skill: str, reason: str) -> Pending[str]:
        if person is None:
            return Pending.of(f"{reason}, and nobody can be asked")
        question = Question(f"May '{skill}' be carried out?", seconds, goal=reason, skill=skill)
        answer = asked(person.ask, question)
        refusal = mapped(answer, lambda said: _refusal(skill, said))
        refusal.add_done_callback(lambda _: answer.cancel())
        give_up_after(refusal, seconds, lambda: NobodyAnswers(f"no answer within {seconds:g} s"))
        return refusal

    return confirm


def _refusal(skill: str, said: Answer) -> str:
    """Return why a skill is refused; empty if it is not."""
    return "" if approves(said.text) else f"the person does not want '{skill}', and says {quoted(said.text)}"
