"""How often a language model was asked, and how often in vain."""

from __future__ import annotations

import pytest

from reactree_ros.llm.port import FAILED, Attempt, Reply, Tally

REFUSED = Attempt("fly", "No.", asked="a", output_tokens=3)
TAKEN = Attempt(asked="b", output_tokens=4)
GONE = Attempt(objection="It is gone.", finish_reason=FAILED, asked="c")


@pytest.mark.parametrize(
    ("replies", "counts"),
    [
        ([], (0, 0, 0, 0, 0)),
        ([Reply("Act: done")], (1, 1, 0, 0, 0)),
        ([Reply("Act: done", output_tokens=2, objection="No.")], (1, 1, 1, 0, 2)),
        ([Reply("Act: done", attempts=(TAKEN,))], (1, 1, 0, 0, 0)),
        ([Reply("Act: done", attempts=(REFUSED, REFUSED, TAKEN))], (1, 3, 2, 1, 6)),
        ([Reply("", attempts=(REFUSED, GONE)), Reply("Act: done", attempts=(REFUSED, TAKEN))], (2, 4, 2, 1, 6)),
        ([Reply("Act: done", attempts=(Attempt("fly", "No."), REFUSED, TAKEN))], (1, 3, 2, 0, None)),
    ],
)
def test_requests_are_counted_by_what_came_of_them(replies: list[Reply], counts: tuple[int | None, ...]) -> None:
    one = Tally.from_replies(replies)
    found = (one.replies, one.attempts, one.refused_attempts, one.repeated_attempts, one.refused_tokens)
    assert found == counts


def test_what_others_used_in_vain_comes_before() -> None:
    reply = Reply("Act: done", attempts=(TAKEN,)).with_used(
        [Reply("", attempts=(GONE,)), Reply("fly", attempts=(REFUSED,))]
    )
    assert reply.attempts == (GONE, REFUSED, TAKEN)
    assert reply.in_vain == (GONE, REFUSED)
    assert reply.further().attempts == ()


def test_tokens_that_nobody_counted_are_estimated_for_every_request() -> None:
    reply = Reply("Act: done", reasoning="so", attempts=(Attempt("fly high", "No."), Attempt()))
    assert reply.tokens(lambda: "one two three") == (6, Reply("soAct: donefly high").tokens(lambda: "")[1])
    assert Reply("a b", prompt_tokens=7, output_tokens=9).tokens(lambda: "x") == (7, 9)
