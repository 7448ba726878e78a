"""How long a reply is waited for: by what has to be read, and by what was measured."""

from __future__ import annotations

from reactree_ros.llm.port import Reply
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
