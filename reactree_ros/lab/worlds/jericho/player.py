"""The interpreter's side: runs stories for another process, which asks in lines of JSON, until that one is gone.

The interpreter is C in this process: where it crashes or never comes back, this process is what is lost.
"""

from __future__ import annotations

import os
import re
import tempfile
import warnings
from typing import Any

from reactree_ros.world.line_process import serve

#: What the Z-machine waits for, as jericho tells it: one key, instead of a line.
_KEY = 246
#: What is pressed where a game that jericho does not know waits for a key: first to go on, then to leave a menu.
_PRESSED = (*("",) * 8, *("q",) * 8)
#: How a game tells its score and the highest there is: 'Your score is 10 out of 50', 'a score of 10/50'.
_SCORE = re.compile(r"\bscored?\b[^.\d]{0,80}?(-?\d+)\b[^.]{0,80}?(?:\bof\b|/)[^.\d]{0,40}(\d+)", re.IGNORECASE)
#: How games say that they are over, and what they ask then.
_END, _ASKS = re.compile(r"(?<!\*)\*{3,}(?!\*)\s*(\w.{0,200}?)\s*\*{3,}"), re.compile(r"\brestart\b", re.IGNORECASE)
_WON = re.compile(r"\bwon\b|\bvictor", re.IGNORECASE)
#: How many a game says that it did not understand, beside the ways that jericho knows.
_NOT_UNDERSTOOD = re.compile(r"not a verb I recogni[sz]e|only understood you as far as|did(n't| not) understand")


class Player:
    """Runs one story at a time."""

    def __init__(self) -> None:
        self._env: Any = None
        self._story = ""
        self._over = self._won = False

    def load(self, story: str, seed: int) -> dict[str, Any]:
        """Bring a story to its start.

        Args:
            story: Its file.
            seed: Of what is random in it; 0: the one with which jericho's way through it works, if it knows one.
        """
        import jericho

        if self._env is None or self._story != story:
            self._env, self._story = jericho.FrotzEnv(story), story
        env = self._env
        env.seed(seed or env.bindings.get("seed", 1))
        text, _ = env.reset()
        self._over = self._won = False
        text += self._press_keys()
        return {"words": [one.word for one in env.get_dictionary()], **self._told(text)}

    def step(self, said: str) -> dict[str, Any]:
        """Say something to the game; returns what it answers, and how it stands."""
        text = self._env.step(said[:1] if self._waits_for_key else said)[0]
        return self._told(text + self._press_keys())

    def look(self) -> dict[str, Any]:
        """Tell the place and what is carried, as if nobody had asked; empty where the game waits for a key."""
        return {"text": "" if self._waits_for_key else "\n".join(self._aside("look", "inventory"))}

    def _told(self, text: str) -> dict[str, Any]:
        self._check_runs()
        env = self._env
        if env.is_fully_supported:
            self._over, self._won = env.game_over() or env.victory(), env.victory()
            score, maximum = env.get_score(), env.get_max_score()
        else:
            self._notice_end(text)
            score, maximum = self._score_told(text)
        standing = {"score": score, "maximum": maximum, "over": self._over, "won": self._won}
        return {"text": text, "known": _recognized(text), **standing}

    def _notice_end(self, text: str) -> None:
        end = _END.search(text)
        if end and _ASKS.search(text, end.end()):
            self._over, self._won = True, bool(_WON.search(end[1]))

    def _score_told(self, text: str) -> tuple[int, int]:
        """Return the score and the highest there is; 0 for both where the game does not tell."""
        if not self._over:
            text = "" if self._waits_for_key else self._aside("score")[0]
        told = _SCORE.search(" ".join(text.split()))
        return (int(told[1]), int(told[2])) if told else (0, 0)

    def _aside(self, *said: str) -> list[str]:
        """Return what the game answers to each of these, and forget that they were said."""
        state, answers = self._env.get_state(), []
        for one in said:
            answers.append(self._env.step(one)[0])
            self._check_runs()
            self._env.set_state(state)
        return answers

    def _press_keys(self) -> str:
        """Press keys as long as the game waits for one, within bounds; returns what it says to that.

        The ways through the games that jericho knows have the keys in them.
        """
        said = ""
        for key in () if self._env.is_fully_supported else _PRESSED:
            if not self._waits_for_key:
                break
            said += "\n" + self._env.step(key)[0]
        return said

    def _check_runs(self) -> None:
        if self._env._emulator_halted():
            raise RuntimeError("the game has stopped with an error of its own, or of the interpreter's")

    @property
    def _waits_for_key(self) -> bool:
        return bool(self._env.frotz_lib.get_opcode() == _KEY)


def _recognized(text: str) -> bool:
    """Whether the first line of an answer is none by which games say that they did not understand."""
    from jericho.util import recognized

    lines = (line.strip("> ") for line in text.splitlines())
    first = next(filter(None, lines), "")
    return bool(recognized(first)) and not _NOT_UNDERSTOOD.search(first)


def main() -> None:
    """Answer requests in a folder that is not there any more, so that no game can leave a file."""
    os.chdir(nowhere := tempfile.mkdtemp())
    os.rmdir(nowhere)
    warnings.simplefilter("ignore")
    serve(Player)


if __name__ == "__main__":
    main()
