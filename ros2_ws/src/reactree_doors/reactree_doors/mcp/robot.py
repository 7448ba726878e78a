"""The port to a robot that clients run, be it in this process or behind ROS nodes."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from pydantic import create_model

from reactree_ros.agent.picture import Picture
from reactree_ros.background.pending import Pending
from reactree_ros.person.desk import Desk
from reactree_ros.person.port import Answer, NobodyAnswers, Question
from reactree_ros.plugins.settings import Settings
from reactree_ros.record.schema import Event
from reactree_ros.record.verdict import Verdict
from reactree_ros.tree.options import RunOptions
from reactree_ros.world.port import Household, Observation

#: The options of a run that a client may lower.
LIMITED = ("max_decisions", "max_steps", "max_prompt_tokens", "max_output_tokens", "max_seconds", "max_cost")


_OPTIONS: dict[str, Any] = {name: (one.annotation, one) for name, one in RunOptions.model_fields.items()}
#: What a run may take, as a client says it; 0: the server's own limit.
Limits = create_model(
    "Limits",
    __base__=Settings,
    __doc__="What a run may take; a limit of the server that is lower holds instead.",
    **{name: _OPTIONS[name] for name in LIMITED},
)


def lowered(given: Mapping[str, Any], own: Mapping[str, Any], household: Household) -> dict[str, Any]:
    """Return the limits that a client has given, where the server's or the household's are not lower.

    Args:
        own: The server's; 0: the household's.
    """
    least = {name: own[name] or getattr(household, name, 0) or given[name] for name in LIMITED}
    return {name: min(given[name], least[name]) for name in LIMITED if given[name]}


class Questions(Desk):
    """The desk with the questions of the robot to the client that it works for."""

    def __init__(self) -> None:
        super().__init__()
        # says why nobody can confirm a skill now; empty: somebody can
        self.objection: Callable[[], str] = lambda: "no client is there"
        self.changed: Callable[[], object] = lambda: None  # a question is asked or no longer open; from any thread

    def ask(self, question: Question) -> Pending[Answer]:
        """Keep a question; whether a skill may be carried out is asked only if a person will see it."""
        if question.skill and (objection := self.objection()):
            return Pending.failed(NobodyAnswers(objection))
        answer = super().ask(question)
        answer.add_done_callback(lambda _: self.changed())
        self.changed()
        return answer


class Run(Protocol):
    """A run under way; every method returns at once, and raises a UserError if it cannot be done."""

    ended: Pending[Verdict]

    def cancel(self) -> None: ...
    def pause(self) -> None: ...
    def go_on(self) -> None: ...


class Robot(abc.ABC):
    """Does one thing at a time; every call returns at once."""

    questions: Questions  # its questions to whoever it works for

    @property
    @abc.abstractmethod
    def household(self) -> Household:
        """Its skills, without those that the skill policy denies."""

    @abc.abstractmethod
    def begin(self, instruction: str, limits: Settings, take: Callable[[Event], None]) -> Run:
        """Begin a run.

        Args:
            limits: What it may take: :data:`Limits`.
            take: Takes the events of the run's record as they come; from any thread.
        """

    @abc.abstractmethod
    def execute(self, skill: str) -> Pending[Observation]:
        """Carry out a skill, as far as the skill policy lets it; cancelling stops it."""

    @abc.abstractmethod
    def observe(self) -> Pending[Observation]: ...

    @abc.abstractmethod
    def pictures(self) -> Pending[Sequence[Picture]]: ...

    @abc.abstractmethod
    def at_rest(self) -> Pending[None]:
        """Settle when nothing moves any more of what was cancelled."""

    @abc.abstractmethod
    def halted(self) -> str:
        """Say why nothing may move now; empty if something may."""

    @property
    @abc.abstractmethod
    def record(self) -> Path | None:
        """The record of the latest run; None before the first."""

    def map(self) -> Any:
        """Return the map of the house that is kept from run to run, for JSON; None if none is."""
        return None

    def stop_others(self) -> bool:
        """Stop what the robot does for others than this server's clients; returns whether there was something."""
        return False
