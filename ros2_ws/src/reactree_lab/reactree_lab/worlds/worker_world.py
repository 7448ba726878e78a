"""A world whose every call is carried out in a thread of its own, so that what takes long there blocks nobody."""

from __future__ import annotations

import abc
import contextlib
from collections.abc import Sequence
from concurrent.futures import TimeoutError

from reactree_ros.agent.skill import Offered
from reactree_ros.background.pending import Pending, Worker
from reactree_ros.world.port import Observation, Score, World, WorldError

#: How long closing waits for what the world is still at, in seconds.
CLOSE_LIMIT = 2.0


class WorkerWorld(World):
    """A world that does one thing after the other; what a subclass has are the methods that its thread calls.

    If it is not ``scored``, the task's goal is not what is asked for, and there is no score.
    """

    def __init__(self, name: str, *, scored: bool) -> None:
        self._worker = Worker(name, WorldError)
        self._scored = scored

    def reset(self, seed: int | None = None) -> Pending[Observation]:
        def begin() -> Observation:
            self._begin(seed)
            return self._look()

        return self._worker.do(begin)

    def observe(self) -> Pending[Observation]:
        return self._worker.do(self._look)

    def available_skills(self) -> Pending[Sequence[Offered]]:
        return self._worker.do(self._skills)

    def execute(self, skill: str) -> Pending[Observation]:
        return self._worker.do(lambda: self._take(skill))

    def score(self) -> Pending[Score | None]:
        return self._worker.do(lambda: self._rate() if self._scored else None)

    def close(self) -> None:
        ended = self._worker.close(self._let_go)
        with contextlib.suppress(Exception):  # a second close, or what could not be let go of
            try:
                ended.result(CLOSE_LIMIT)
            except TimeoutError:
                self._stop()

    # ------------------------------------------------------------------ in the thread

    @abc.abstractmethod
    def _begin(self, seed: int | None) -> object:
        """Go back to the start."""

    @abc.abstractmethod
    def _look(self) -> Observation:
        """Tell what is seen."""

    @abc.abstractmethod
    def _skills(self) -> Sequence[str]:
        """List what can be done now."""

    @abc.abstractmethod
    def _take(self, skill: str) -> Observation:
        """Carry out a skill."""

    @abc.abstractmethod
    def _rate(self) -> Score:
        """Say how far the goal is reached."""

    def _let_go(self) -> object:
        """Let go of what the world has, last of all."""

    # ------------------------------------------------------------------ in any thread

    def _stop(self) -> None:
        """Stop what does not come back."""
