"""How long a reply is waited for: by what has to be read, and by what was measured."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from reactree_ros.agent.grammar import DecisionGrammar
from reactree_ros.agent.turns import Told
from reactree_ros.llm.engine import Engine, Generated, Generation
from reactree_ros.llm.engine_model import EngineModel
from reactree_ros.llm.port import DecisionRequest, NoAnswerInTime, Reply
from reactree_ros.llm.waiting import MOST, USUAL, Pace

PATIENCE = 20.0
SHORT, LONG = "go " * 50, "go " * 5000


def reply(seconds: float, *, read: int | None = None, cached: int | None = None, output: int = 10) -> Reply:
    return Reply("Act: done", prompt_tokens=read, cached_tokens=cached, output_tokens=output, seconds=seconds)


def test_a_short_prompt_has_its_limit_and_a_long_one_more() -> None:
    pace = Pace()
    assert pace.times("") == pace.times(SHORT) == 1
    assert pace.times(LONG) * USUAL > 271  # the first prompt of a 0.5B model on two cores


def test_only_what_was_not_sent_before_counts() -> None:
    pace = Pace()
    pace.learn(LONG, reply(200))
    assert pace.times(f"{LONG}and on") == 1
    assert pace.times(f"{LONG[:-300]}x") == 1  # another node, after the same examples
    assert pace.times(f"x{LONG}") > 2


def test_a_server_slow_by_tokens_is_given_longer() -> None:
    slow, slower = Pace(), Pace()
    slow.learn(SHORT, reply(10, read=50, cached=0))
    slower.learn(SHORT, reply(20, read=50, cached=0))
    assert 1 < slow.times(LONG) < slower.times(LONG) <= MOST
    chatty = Pace()
    chatty.learn(SHORT, reply(115, output=512))
    assert chatty.times(SHORT) * USUAL > 2 * 115  # the next may be as long


def test_a_server_that_forgets_reads_all_again() -> None:
    keeps, forgets = Pace(), Pace()
    for one, cached in ((keeps, 5000), (forgets, 0)):
        one.learn(LONG, reply(100, read=5000, cached=0))
        one.learn(LONG + SHORT, reply(3, read=5050, cached=cached))
    assert forgets.times(LONG + SHORT) > keeps.times(LONG + SHORT) == 1


def test_what_is_late_is_given_longer_the_next_time_but_not_for_ever() -> None:
    pace, given = Pace(), []
    for _ in range(8):
        given.append(pace.times(LONG))
        pace.late(LONG, USUAL * given[-1])
    assert given[0] < given[1]
    assert given == sorted(given)
    assert given[-1] == MOST


class Slow(Engine):
    """Answers only when it is let; a server is opened only then, too."""

    name = "a slow engine"

    def __init__(self, *, loads: bool) -> None:
        self.let, self.loads = asyncio.Event(), loads

    async def open(self) -> None:
        if not self.loads:
            await self.let.wait()

    async def generate(self, generation: Generation) -> Generated:
        await self.let.wait()
        return Generated("Act: done", "stop", 5000, 0, 3)


@pytest.fixture
def model() -> Iterator[EngineModel]:
    one = EngineModel(Slow(loads=True), request_timeout=0.05)
    yield one
    one.close()


class Tried(Slow):
    """Answers each trial in time, and has always another one."""

    tried = ()

    async def open(self) -> None:
        while True:
            await asyncio.sleep(0.01)
            self.tried = [*self.tried, Generated("hello", "stop")]


def test_a_server_that_answers_one_trial_after_the_other_is_not_tried_for_ever() -> None:
    model = EngineModel(Tried(loads=False), request_timeout=0.05)
    with pytest.raises(NoAnswerInTime, match=r"it answers, but was not tried out within 0\.2 s"):
        model.decide(request(SHORT)).result(PATIENCE)
    model.close()


def request(prompt: str, patience: float = PATIENCE) -> DecisionRequest:
    return DecisionRequest((Told(prompt),), DecisionGrammar(["done"]), patience=patience)


@pytest.mark.slow
def test_the_limit_of_a_model_grows_with_the_prompt_and_with_each_late_reply(model: EngineModel) -> None:
    limits = []
    for prompt in (SHORT, LONG, LONG):
        with pytest.raises(NoAnswerInTime) as raised:
            model.decide(request(prompt)).result(PATIENCE)
        limits.append(float(str(raised.value).split()[-2]))
    assert limits[0] == 0.05
    assert limits[0] < limits[1] < limits[2]
