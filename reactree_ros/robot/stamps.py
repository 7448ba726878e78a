"""When something was detected, by the robot's own clock: detectors stamp by clocks of their own."""

from __future__ import annotations

import statistics
from collections import deque

#: By how many detections the other clock is judged.
RECENT = 20


class Stamps:
    """Measures how far the clock of somebody who stamps messages may be ahead of ours, by when they were heard.

    Nothing is heard before it was stamped. So where stamps come from the future, their clock is ahead, or ours lags as
    under load. How much these offsets differ among themselves is part of the margin: the next one may be as different.
    The greatest one alone counts for nothing, so that a single stamp from far in the future does not.
    """

    def __init__(self) -> None:
        self._ahead: deque[float] = deque(maxlen=RECENT)

    def heard(self, stamp: float, now: float) -> None:
        """Take in that something was heard; both times in seconds, the second one by our clock."""
        self._ahead.append(stamp - now)

    @property
    def margin(self) -> float:
        """How much later than by our clock something may be stamped, in seconds."""
        if not self._ahead:
            return 0.0
        most = sorted(self._ahead)[-2:][0]
        return max(0.0, most) + most - min(most, statistics.median(self._ahead))

    def ours(self, stamp: float, heard_at: float) -> float:
        """Return a time by our clock at which something with this stamp was there already, in seconds.

        Args:
            heard_at: When it was heard, by our clock, in seconds.
        """
        return min(heard_at, stamp - self.margin)

    def forget(self) -> None:
        """Forget what was measured: our clock was set."""
        self._ahead.clear()
