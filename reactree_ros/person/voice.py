"""What words that were heard mean for a robot with a voice: whether it is spoken to, and whether it hears itself."""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable, Sequence
from difflib import SequenceMatcher

#: For how long after it was said something may come back from the microphone, in seconds.
ECHO = 15.0
#: Least share of words, up to 1, that what was heard has in common with what was said where it is an echo.
_ALIKE = 0.8
#: How many things that were said are compared.
_MOST = 20
#: Most characters that are looked at; nobody speaks so long without a pause.
_LONGEST = 4000
#: What recognisers write for what is no word.
_NOISE = re.compile(r"\[[^\[\]]*\]|\([^()]*\)|\*[^*]*\*|♪[^♪]*♪?")


def spoken(words: str) -> str:
    """Return what was said of what a recogniser wrote: without noises, as ``[music]``, in one line; may be empty."""
    said = " ".join(_NOISE.sub(" ", words[:_LONGEST]).split())
    return said if re.search(r"\w", said) else ""


def addressed(words: str, called: str) -> str | None:
    """Return words without the robot's name before them; None if it has a name and that is not said first."""
    if not called:
        return words.strip()
    name = r"\W+".join(map(re.escape, called.split()))
    match = re.match(rf"\W*(?:(?:hey|hi|hello|ok|okay)\W+)?{name}(?!\w)\W*(.*)", words, re.IGNORECASE | re.DOTALL)
    return None if match is None else match[1].strip()


class Echo:
    """Knows what was said lately.

    Args:
        clock: Tells the time, in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._said: deque[tuple[float, Sequence[str]]] = deque(maxlen=_MOST)

    def said(self, text: str) -> None:
        """Take in that something was said, up to now."""
        self._said.append((self._clock(), _tokens(text)))

    def is_echo(self, words: str) -> bool:
        """Return whether words are what was said lately, but for a few of them."""
        heard, since = _tokens(words), self._clock() - ECHO
        return any(SequenceMatcher(None, heard, said).ratio() >= _ALIKE for at, said in self._said if at >= since)


def _tokens(text: str) -> Sequence[str]:
    return re.findall(r"\w+", text.casefold())
