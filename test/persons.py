"""Persons for tests, and what the nodes of a run were told of them."""

from __future__ import annotations

from collections.abc import Sequence

from reactree_ros.agent.turns import About, Told
from reactree_ros.background.pending import Pending
from reactree_ros.episode import Episode
from reactree_ros.episode.player import replay
from reactree_ros.person.port import Answer, Person, Question
from reactree_ros.record.reader import Record
from reactree_ros.record.schema import Event


class Says(Person):
    """Answers one question after the other; an exception is what comes instead, None is never."""

    def __init__(self, *answers: str | Exception | None) -> None:
        self._answers = list(answers)
        self.asked: list[Question] = []

    def ask(self, question: Question) -> Pending[Answer]:
        self.asked.append(question)
        answer = self._answers.pop(0)
        if answer is None:
            return Pending()
        return Pending.failed(answer) if isinstance(answer, Exception) else Pending.ready(Answer(answer, "test"))


def told_by_the_person(episode: Episode, node: int = 0) -> list[str]:
    turns = episode.context.nodes[node].turns
    return [turn.text for turn in turns if isinstance(turn, Told) and turn.about is About.PERSON]


def replays(events: Sequence[Event]) -> bool:
    again = replay(Record(tuple(events), "test"))
    assert again.identical, again.difference
    return again.events == len(events)
