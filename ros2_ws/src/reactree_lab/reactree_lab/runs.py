"""Runs that one process carries out at the same time."""

from __future__ import annotations

import threading

from reactree_ros.episode import Episode, EpisodeResult


class Runs:
    """The runs under way; any thread may carry out one, or cancel all."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # a run begins before all are cancelled, or is cancelled itself
        self._under_way: set[Episode] = set()
        self._canceled = False

    def carry_out(self, episode: Episode) -> EpisodeResult:
        with self._lock:
            self._under_way.add(episode)
            if self._canceled:
                episode.cancel()
        try:
            return episode.run()
        finally:
            with self._lock:
                self._under_way.discard(episode)

    def cancel(self) -> None:
        with self._lock:
            self._canceled = True
            for episode in self._under_way:
                episode.cancel()
