"""ALFWorld's games in their own process, with time limits: TextWorld, and Fast Downward's library in C++."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from reactree_lab.worlds.line_process import LineProcess, Spare
from reactree_ros.world.port import WorldError

#: Games after which a process is replaced: Fast Downward does not free all memory of a game.
MOST_GAMES = 100


@dataclass(frozen=True)
class Turn:
    text: str  # the game's text
    commands: tuple[str, ...]  # possible commands
    won: bool  # whether the goal is reached
    #: Facts, each a predicate with the names of its arguments; see :data:`~reactree_lab.worlds.alfworld.player.TOLD`.
    facts: tuple[tuple[str, ...], ...]

    def pairs(self, predicate: str) -> list[tuple[str, str]]:
        """Return the pairs of arguments for which a predicate holds."""
        return [(fact[1], fact[2]) for fact in self.facts if fact[0] == predicate]

    def named(self, predicate: str) -> set[str]:
        return {fact[1] for fact in self.facts if fact[0] == predicate}


class AlfworldProcess(LineProcess):
    name = "ALFWorld's process"
    module = "reactree_lab.worlds.alfworld.player"
    answer_limit = 120.0

    def __init__(self) -> None:
        super().__init__()
        self._games = 0

    def load(self, game: Mapping[str, Any]) -> Turn:
        self._games += 1
        return self._turn("load", game)

    def reset(self) -> Turn:
        self._games += 1
        return self._turn("reset")

    def step(self, command: str) -> Turn:
        return self._turn("step", command)

    @property
    def usable(self) -> bool:
        return self._games < MOST_GAMES and super().usable

    def _turn(self, *request: object) -> Turn:
        try:
            told = self.ask(*request)
        except WorldError as error:
            raise error if self.lost else WorldError(f"ALFWorld cannot play this game: {error}") from None
        facts = tuple(tuple(fact) for fact in told["facts"])
        return Turn(told["text"], tuple(told["commands"]), told["won"], facts)


#: The process that no world uses.
SPARE = Spare(AlfworldProcess)
