"""A person's yes to one skill: what a skill policy that says ``confirm`` asks for."""

from __future__ import annotations

from collections.abc import Callable

from reactree_ros.background.pending import Pending, asked, give_up_after, mapped
from reactree_ros.person.port import Answer, NobodyAnswers, Person, Question, approves, quoted


def confirmed_by(person: Person, seconds: float) -> Callable[[str, str], Pending[str]]:
    """Return what asks a person about a skill, as :class:`~reactree_ros.world.wrappers.PolicyGuard` asks it.

    Each skill is a question of its own, and only ``y`` or ``yes`` as the answer to that question is a yes.

    Args:
        person: Who is asked.
        seconds: How long the answer is waited for; without one it is a no.
    """

    def confirm(skill: str, reason: str) -> Pending[str]:
        question = Question(f"May '{skill}' be carried out?", seconds, goal=reason, skill=skill)
        answer = asked(person.ask, question)
        refusal = mapped(answer, lambda said: _refusal(skill, said))
        refusal.add_done_callback(lambda _: answer.cancel())
        give_up_after(refusal, seconds, lambda: NobodyAnswers(f"no answer within {seconds:g} s"))
        return refusal

    return confirm


def _refusal(skill: str, said: Answer) -> str:
    """Return why a skill is refused; empty: it is not."""
    return "" if approves(said.text) else f"the person does not want '{skill}', and says {quoted(said.text)}"
