"""ALFWorld's games in a process of their own, behind bounds: TextWorld, and Fast Downward's library in C++."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from reactree_ros.world.line_process import LineProcess, Spare
from reactree_ros.world.port import WorldError

#: Games after which a process is not given to another: Fast Downward frees not all that a game took.
MOST_GAMES = 100


@dataclass(frozen=True)
class Turn:
    """How a game is.

    Attributes:
        text: What it says.
        commands: What can be done now.
        won: Whether what is asked for is reached.
        facts: What holds, each a predicate and the names of what it is about; see
            :data:`~reactree_ros.lab.worlds.alfworld.player.TOLD`.
    """

    text: str
    commands: tuple[str, ...]
    won: bool
    facts: tuple[tuple[str, ...], ...]

    def pairs(self, predicate: str) -> list[tuple[str, str]]:
        """Return what a predicate of two holds of."""
        return [(fact[1], fact[2]) for fact in self.facts if fact[0] == predicate]

    def named(self, predicate: str) -> set[str]:
        """Return what a predicate of one holds of."""
        return {fact[1] for fact in self.facts if fact[0] == predicate}


class AlfworldProcess(LineProcess):
    """One process for one game at a time.

    Raises:
        WorldError: It cannot be started.
    """

    name = "ALFWorld's process"
    module = "reactree_ros.lab.worlds.alfworld.player"
    answer_limit = 120.0

    def __init__(self) -> None:
        super().__init__()
        self._games = 0

    def load(self, game: Mapping[str, Any]) -> Turn:
        """Load a game, as TextWorld has it in its files, and begin it.

        Raises:
            WorldError: It cannot be played, or the process is gone.
        """
        self._games += 1
        return self._turn("load", game)

    def reset(self) -> Turn:
        """Begin the game anew.

        Raises:
            WorldError: The process is gone.
        """
        self._games += 1
        return self._turn("reset")

    def step(self, command: str) -> Turn:
        """Take a command.

        Raises:
            WorldError: The process is gone.
        """
        return self._turn("step", command)

    @property
    def usable(self) -> bool:
        """Whether another game may be played by it."""
        return self._games < MOST_GAMES and super().usable

    def _turn(self, *request: object) -> Turn:
        try:
            told = self.ask(*request)
        except WorldError as error:
            raise error if self.lost else WorldError(f"ALFWorld cannot play this game: {error}") from None
        facts = tuple(tuple(fact) for fact in told["facts"])
        return Turn(told["text"], tuple(told["commands"]), told["won"], facts)


#: The one that no world has.
SPARE = Spare(AlfworldProcess)
