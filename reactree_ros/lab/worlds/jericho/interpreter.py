"""The interpreter of ``jericho`` in a process of its own, behind bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from reactree_ros.world.line_process import LineProcess, Spare
from reactree_ros.world.port import WorldError


@dataclass(frozen=True)
class GameReply:
    """What a game has answered, and how it stands.

    Attributes:
        text: The answer, as it came.
        score: Its score, in its points.
        maximum: The highest score that it has; 0 where it does not tell.
        over: Whether it has ended.
        won: Whether it has ended well.
        known: Whether it has understood what was said, as far as its words tell.
    """

    text: str
    score: int
    maximum: int
    over: bool
    won: bool
    known: bool


class Interpreter(LineProcess):
    """One process for one story at a time.

    Raises:
        WorldError: It cannot be started.
    """

    name = "the interpreter of jericho"
    module = "reactree_ros.lab.worlds.jericho.player"
    answer_limit = 30.0

    def load(self, story: str, seed: int) -> tuple[GameReply, frozenset[str]]:
        """Bring a story to its start; returns what it says, and the words it knows, as far as it compares them.

        Raises:
            WorldError: The interpreter is gone, or does not run it.
        """
        answer = self.ask("load", story, seed)
        words = frozenset(answer.pop("words"))
        return GameReply(**answer), words

    def step(self, said: str) -> GameReply:
        """Say something to the game.

        Raises:
            WorldError: The interpreter is gone.
        """
        return GameReply(**self.ask("step", said))

    def look(self) -> str:
        """Tell the place and what is carried, which takes no time in the game; empty where it cannot be asked now.

        Raises:
            WorldError: The interpreter is gone.
        """
        return str(self.ask("look")["text"])

    def ask(self, *request: object) -> dict[str, Any]:
        """Ask the process; after an error of jericho's it is of no use any more.

        Raises:
            WorldError: The interpreter is gone.
        """
        try:
            return super().ask(*request)
        except WorldError as error:
            raise error if self.lost else self.gone(str(error)) from None


#: The one that no world has.
SPARE = Spare(Interpreter)
