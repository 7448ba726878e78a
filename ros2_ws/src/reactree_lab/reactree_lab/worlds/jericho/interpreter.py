"""The interpreter of ``jericho`` in its own process, with time limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from reactree_lab.worlds.line_process import LineProcess, Spare
from reactree_ros.world.port import WorldError


@dataclass(frozen=True)
class GameReply:
    text: str  # the answer, unchanged
    score: int  # its score, in its points
    maximum: int  # its highest score; 0 if it does not tell
    over: bool  # whether it has ended
    won: bool  # whether it has ended well
    known: bool  # whether it seems to have understood the skill


class Interpreter(LineProcess):
    """One process for one story at a time."""

    name = "the interpreter of jericho"
    module = "reactree_lab.worlds.jericho.player"
    answer_limit = 30.0

    def load(self, story: str, seed: int) -> tuple[GameReply, frozenset[str]]:
        """Start a story; return its text, and its known words with as many letters as it compares."""
        answer = self.ask("load", story, seed)
        words = frozenset(answer.pop("words"))
        return GameReply(**answer), words

    def step(self, said: str) -> GameReply:
        return GameReply(**self.ask("step", said))

    def look(self) -> str:
        """Return the place and the carried things, without taking time in the game; empty if it cannot be asked now."""
        return str(self.ask("look")["text"])

    def ask(self, *request: object) -> dict[str, Any]:
        try:
            return super().ask(*request)
        except WorldError as error:
            raise error if self.lost else self.gone(str(error)) from None


#: The process that no world uses.
SPARE = Spare(Interpreter)
