"""The interpreter's process: runs stories for another process, which asks in lines of JSON, until that one is gone.

The interpreter is C code: if it crashes or hangs, only this process is lost.
"""

from __future__ import annotations

import os
import re
import tempfile
import warnings
from typing import Any

from reactree_lab.worlds.running import serve

#: jericho's sign that the Z-machine waits for one key instead of a line.
_KEY = 246
#: Keys for a game unknown to jericho that waits for a key: first to continue, then to leave a menu.
_PRESSED = (*("",) * 8, *("q",) * 8)
#: A game's score and its highest score: 'Your score is 10 out of 50', 'a score of 10/50'.
_SCORE = re.compile(r"\bscored?\b[^.\d]{0,80}?(-?\d+)\b[^.]{0,80}?(?:\bof\b|/)[^.\d]{0,40}(\d+)", re.IGNORECASE)
#: How games say that they are over, and their question then.
_END, _ASKS = re.compile(r"(?<!\*)\*{3,}(?!\*)\s*(\w.{0,200}?)\s*\*{3,}"), re.compile(r"\brestart\b", re.IGNORECASE)
_WON = re.compile(r"\bwon\b|\bvictor", re.IGNORECASE)
#: How many games say that they did not understand, in addition to jericho's list.
_NOT_UNDERSTOOD = re.compile(r"not a verb I recogni[sz]e|only understood you as far as|did(n't| not) understand")


class Player:
    def __init__(self) -> None:
        self._env: Any = None
        self._story = ""
        self._over = self._won = False

    def load(self, story: str, seed: int) -> dict[str, Any]:
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
        text = self._env.step(said[:1] if self._waits_for_key else said)[0]
        return self._told(text + self._press_keys())

    def look(self) -> dict[str, Any]:
        """Return the place and the carried things, without a trace in the game; empty if it waits for a key."""
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
        """Return the score and the highest score; 0 for both if the game does not tell."""
        if not self._over:
            text = "" if self._waits_for_key else self._aside("score")[0]
        told = _SCORE.search(" ".join(text.split()))
        return (int(told[1]), int(told[2])) if told else (0, 0)

    def _aside(self, *said: str) -> list[str]:
        state, answers = self._env.get_state(), []
        for one in said:
            answers.append(self._env.step(one)[0])
            self._check_runs()
            self._env.set_state(state)
        return answers

    def _press_keys(self) -> str:
        """Press keys while the game waits for one, with a limit; return its text.

        jericho's walkthroughs contain the keys.
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
    from jericho.util import recognized

    lines = (line.strip("> ") for line in text.splitlines())
    first = next(filter(None, lines), "")
    return bool(recognized(first)) and not _NOT_UNDERSTOOD.search(first)


def main() -> None:
    """Answer requests in a deleted folder, so that no game can leave a file."""
    os.chdir(nowhere := tempfile.mkdtemp())
    os.rmdir(nowhere)
    warnings.simplefilter("ignore")
    serve(Player)


if __name__ == "__main__":
    main()
