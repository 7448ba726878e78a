"""Texts that one GGUF model generates together; texts join and leave between two readings."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from reactree_ros.llm.in_process.kept_prompts import KeptPrompts
from reactree_ros.llm.in_process.row import Row
from reactree_ros.llm.llama.model import CHUNK, TEXTS, Model, Part


class Sequences:
    """Texts that are generated together; all of them are read on in one go.

    What a constraint leaves no choice about is said without the model, and read together with what follows.

    Args:
        state_tokens: Tokens of earlier texts whose states are kept. 0 keeps none; otherwise the latest text is kept.
    """

    def __init__(self, model: Model, state_tokens: int) -> None:
        self.waiting: deque[Row] = deque()
        self.rows: list[Row] = []
        self._model = model
        self._free = list(range(TEXTS))
        self._kept = KeptPrompts(state_tokens, is_plain=lambda states: model.can_be_cut)

    def advance(self) -> list[Row]:
        """Let waiting texts join where there is room, and read on; return those that left."""
        done = self._leave()
        while self.waiting and self._has_room(self.waiting[0]):
            self._join(self.waiting.popleft())
        done += self._leave()
        if self.rows:
            self._read()
        return done + self._leave()

    def _has_room(self, row: Row) -> bool:
        if not self._free:
            return False
        return not self.rows or sum(one.longest for one in (*self.rows, row)) <= self._model.context

    def _join(self, row: Row) -> None:
        row.place = self._free.pop()
        self.rows.append(row)
        try:
            row.cached, states = self._kept.find(row.prompt)
            if states is not None and not self._model.put_back(row.place, states, row.cached):
                self._model.forget(row.place)
                row.cached = 0
            row.read = row.cached
            row.say_forced()
        except Exception as error:  # fails this text only
            row.failure = error

    def _read(self) -> None:
        """Read as much of the texts as is read at once; choose the next token of those that are read to their end."""
        parts = list(self._parts())
        try:
            scores = self._model.read([part for _, part in parts])
        except Exception as error:  # fails all texts
            for row in self.rows:
                row.failure = error
            return
        for row, part in parts:
            row.read += len(part.tokens)
            if not part.scored:
                continue
            try:
                row.take(scores[part.text])
                row.say_forced()
            except Exception as error:  # the constraint of this text failed
                row.failure = error

    def _parts(self) -> Iterator[tuple[Row, Part]]:
        """Yield what is read next of each text: the shortest rest first, so that a long prompt takes what is left."""
        room, rows = CHUNK, sorted(self.rows, key=lambda row: row.unread)
        for before, row in enumerate(rows):
            count = min(row.unread, room // (len(rows) - before))
            room -= count
            unread = [*row.prompt, *row.said][row.read : row.read + count]
            yield row, Part(row.place, unread, row.read, scored=count == row.unread)

    def _leave(self) -> list[Row]:
        """Remove the texts that are done, and keep their states."""
        done = [row for row in self.rows if row.is_done]
        self.rows = [row for row in self.rows if not row.is_done]
        for row in done:
            if row.read and row.failure is None:
                self._kept.keep([*row.prompt, *row.said][: row.read], self._model.states(row.place))
            self._model.forget(row.place)
            self._free.append(row.place)
        return done
