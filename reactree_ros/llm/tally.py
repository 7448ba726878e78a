"""Counts how often a language model was asked, and how often in vain."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from reactree_ros.llm.port import Attempt, Reply


@dataclass(frozen=True, kw_only=True)
class Tally:
    """Counts of the requests for some replies."""

    replies: int = 0  # replies asked for, also those that failed
    attempts: int = 0  # requests that the model was sent for them
    refused_attempts: int = 0  # requests whose words were not taken
    repeated_attempts: int = 0  # requests that were the same as an earlier one, byte for byte
    refused_tokens: int | None = 0  # tokens generated for refused requests; None if the model does not count

    @classmethod
    def of(cls, replies: Iterable[Reply]) -> Tally:
        """Count the requests for replies."""
        attempts = [one.attempts or (_alone(one),) for one in replies]
        sent = [one for some in attempts for one in some]
        refused, asked = [one for one in sent if one.refused], [one.asked for one in sent if one.asked]
        tokens = [one.output_tokens for one in refused if one.output_tokens is not None]
        return cls(
            replies=len(attempts),
            attempts=len(sent),
            refused_attempts=len(refused),
            repeated_attempts=len(asked) - len(set(asked)),
            refused_tokens=sum(tokens) if len(tokens) == len(refused) else None,
        )


def _alone(reply: Reply) -> Attempt:
    """Return the request of a reply that tells of none."""
    return Attempt(objection=reply.objection, output_tokens=reply.output_tokens)


def requests_in_words(counts: Any) -> str:
    """Say of the counts of a :class:`Tally`, or of a result that has them, what was in vain; empty if nothing was."""
    if not (counts.refused_attempts or counts.repeated_attempts):
        return ""
    return (
        f"{counts.attempts} requests for {counts.replies} replies of the language model: "
        f"{counts.refused_attempts} refused, {counts.repeated_attempts} repeated"
    )
