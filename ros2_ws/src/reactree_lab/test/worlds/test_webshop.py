"""The world ``webshop``: by the port, by shopping to the full reward, and by what servers and models do to it."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
from doubles import ScriptedModel
from plans import BARE, carried_out, example_of
from webshop_catalogue import BY_ASIN, GOALS, reward, way_to
from webshop_peer import WebShopPeer

from reactree_lab.worlds.webshop.client import tidy
from reactree_lab.worlds.webshop.world import HOUSEHOLD, WebShop, WebShopTask
from reactree_ros.agent.prompt import prompt
from reactree_ros.episode import Episode
from reactree_ros.planners.spec import planner
from reactree_ros.world.check import check_world
from reactree_ros.world.port import Outcome

REACT = f"react:{BARE}"
CLI = [sys.executable, "-m", "reactree_ros.cli"]


@pytest.fixture
def peer() -> Iterator[WebShopPeer]:
    with WebShopPeer() as one:
        yield one


def task_at(peer: WebShopPeer, session: int = 0, time_limit: float = 20.0) -> WebShopTask:
    return WebShopTask(peer.url, time_limit, session)


def did(world: WebShop, *skills: str) -> list[tuple[Outcome, str]]:
    observations = [world.execute(skill).result(10) for skill in skills]
    return [(one.outcome, one.text) for one in observations]


# ---------------------------------------------------------------------- shopping


def test_it_keeps_to_the_port(peer: WebShopPeer) -> None:
    assert check_world(WebShop(task_at(peer))) == []


@pytest.mark.parametrize("session", range(len(GOALS)))
def test_who_knows_the_catalogue_shops_to_the_full_reward(peer: WebShopPeer, session: int) -> None:
    task, said = task_at(peer, session), way_to(GOALS[session])
    result, _ = carried_out(WebShop(task), task.instruction, said)
    assert (result.gsr, result.ssr, result.status, result.steps) == (1, 1, "success", len(said) - 1)


def test_the_score_is_the_reward_of_what_was_bought_first(peer: WebShopPeer) -> None:
    wrong = "B0AAA00002"
    with WebShop(task_at(peer)) as world:
        assert world.score().result(10).ssr == 0
        did(world, "search[running shoes]", f"click[{wrong}]", "click[coral]", "click[9]")
        assert world.score().result(10).ssr == 0
        ((_, thanks),) = did(world, "click[buy now]")
        score = world.score().result(10)
        assert (score.gsr, score.ssr) == (0, pytest.approx(3 / 5))  # no color, not water resistant
        assert score.ssr == reward(BY_ASIN[wrong], {"color": "coral", "size": "9"}, GOALS[0])
        assert f"[SEP] {score.ssr} [SEP]" in thanks
        assert world.available_skills().result(10) == []
        over = Outcome.PRECONDITION, "The purchase is made, and the shopping is over."
        assert did(world, "search[running shoes]", "click[b0aaa00001]") == [over, over]
        assert world.score().result(10) == score
        world.reset().result(10)
        assert world.score().result(10).ssr == 0
    with WebShop(task_at(peer), scored=False) as world:
        assert world.score().result(10) is None


def test_what_is_listed_is_what_can_be_clicked(peer: WebShopPeer) -> None:
    with WebShop(task_at(peer, 2)) as world:
        (search,) = world.available_skills().result(10)
        assert search == f"search[{GOALS[2].instruction}]"
        did(world, search)
        assert world.available_skills().result(10)[:3] == [
            "click[back to search]",
            "click[next >]",
            "click[b0aaa00005]",
        ]
        did(world, "click[b0aaa00005]")
        listed = world.available_skills().result(10)
        assert {"click[warm white]", "click[brass]", "click[buy now]", "click[< prev]"} <= set(listed)
        assert not any("matt" in one for one in listed)  # whose bracket WebShop's actions cannot say
        ((outcome, said),) = did(world, "click[black [matt]]")
        assert (outcome, "There is nothing on this page for click[black [matt]]" in said) == (
            Outcome.PRECONDITION,
            True,
        )


@pytest.mark.parametrize(
    ("said", "sent"),
    [
        ("click[B0AAA00001]", "click[b0aaa00001]"),
        ("Click [b0aaa00001].", "click[b0aaa00001]"),
        ("click['B0AAA00001']", "click[b0aaa00001]"),
        ('click("b0aaa00001")', "click[b0aaa00001]"),
        ("click B0AAA00001", "click[b0aaa00001]"),
        ("click[Next]", "click[next >]"),
        ("Click[Back to Search]", "click[back to search]"),
        ("search[green shoes]", "search[green shoes]"),
        ("Search [green shoes]", "search[green shoes]"),
        ('search["green shoes"]', "search[green shoes]"),
        ('search("green shoes")', "search[green shoes]"),
        ("search green shoes", "search[green shoes]"),
        ("search[green [shoes] < 30 dollars]", "search[green shoes 30 dollars]"),
        ("search[<a> green shoes]", "search[a green shoes]"),  # which would break the real server
        ("search[green\nshoes]", "search[green shoes]"),
        ("search[green \ud800 shoes]", "search[green ? shoes]"),
        (f"search[{'green shoes ' * 1000}]", f"search[{('green shoes ' * 41)[:491].strip()}]"),
    ],
)
def test_what_a_model_says_is_said_as_webshop_reads_it(peer: WebShopPeer, said: str, sent: str) -> None:
    with WebShop(task_at(peer)) as world:
        ((_, before), (outcome, after)) = did(world, "search[running mug]", said)
        assert (outcome, peer.actions[-1]) == (Outcome.DONE, sent)
        assert after != before


@pytest.mark.parametrize(
    ("said", "outcome"),
    [
        ("click[b0aaa00008]", Outcome.PRECONDITION),  # is in the shop, but not on this page
        ("click[buy now]", Outcome.PRECONDITION),
        ("click[]", Outcome.PRECONDITION),
        ("click[search]", Outcome.PRECONDITION),
        ("click[b0aaa00001] and click[9]", Outcome.PRECONDITION),
        ("search[]", Outcome.PRECONDITION),
        ("search[<>]", Outcome.PRECONDITION),
        ("search", Outcome.UNKNOWN_SKILL),
        ("search[green shoes] please", Outcome.UNKNOWN_SKILL),
        ("buy b0aaa00001", Outcome.UNKNOWN_SKILL),
        ("clicks[b0aaa00001]", Outcome.UNKNOWN_SKILL),
        ("", Outcome.UNKNOWN_SKILL),
        ("go to\nthe shop " * 10_000, Outcome.UNKNOWN_SKILL),
    ],
)
def test_what_cannot_be_done_is_told_and_not_asked_of_the_server(
    peer: WebShopPeer, said: str, outcome: Outcome
) -> None:
    with WebShop(task_at(peer)) as world:
        did(world, "search[running shoes]")
        ((got, text),) = did(world, said)
        assert (got, peer.actions) == (outcome, ["search[running shoes]"])
        assert (text.endswith("."), "\n" in text, len(text) < 1000) == (True, False, True)
        if "search" not in said:
            assert "the nearest first: click[" in text


def test_which_options_were_clicked_is_told_as_long_as_the_shop_knows_them(peer: WebShopPeer) -> None:
    with WebShop(task_at(peer)) as world:
        *_, (_, page), (_, one), (_, two), (_, again), (_, told), (_, back) = did(
            world, "search[running shoes]", "click[b0aaa00001]", "click[coral]", "click[9]", "click[coral]",
            "click[description]", "click[< prev]",
        )  # fmt: skip
        assert page.startswith("The page shows: Instruction:")
        assert one == f"{page} You have clicked: coral."
        assert two == f"{page} You have clicked: coral, 9."
        assert again == back == world.observe().result(10).text == f"{page} You have clicked: 9, coral."
        assert "[SEP] Shoes for wet paths and long mornings. You have" in told
        for away in (["click[< prev]"], ["click[back to search]", "search[running shoes]"], ["search[running shoes]"]):
            *_, (_, results), (_, opened), _ = did(world, *away, "click[b0aaa00001]", "click[coral]")
            assert "You have clicked" not in results + opened
        ((_, thanks),) = did(world, "click[buy now]")
        assert "You have clicked" not in thanks


def test_results_have_pages(peer: WebShopPeer) -> None:
    with WebShop(task_at(peer)) as world:
        (_, first), (_, second), (_, again) = did(world, "search[a rubber sole, a mug, a lamp, water, running]",
                                                  "click[next >]", "click[< prev]")  # fmt: skip
        assert "Page 1 (" in first
        assert "Page 2 (" in second
        assert again == first


def test_skills_are_said_freely_by_a_model(peer: WebShopPeer) -> None:
    task = task_at(peer)
    said = ["Act: search[shoes. Green ones]", "Act: Click[Next]", "Act: click[Buy Now]", "Act: failure"]
    model = ScriptedModel({task.instruction: said})
    with WebShop(task) as world:
        Episode(task.instruction, world=world, model=model, planner=planner(REACT)).run()
    assert peer.actions == ["search[shoes. Green ones]", "click[next >]"]
    assert "Act: click[Buy Now]\nThere is nothing on this page for click[Buy Now]." in model.requests[-1].prompt
    assert model.requests[0].may_say.free


def test_a_page_is_one_line_without_what_is_empty() -> None:
    assert tidy("\n Instruction: [SEP]  [SEP] a\n b [SEP] ") == "Instruction: [SEP] a b"
    assert tidy(" [SEP] ") == "The page is empty."


# ---------------------------------------------------------------------- the prompts


@pytest.mark.parametrize("name", ["react", "reactree", "hiagent_example", "codeact_example", "recode_examples"])
def test_the_examples_in_the_prompts_are_as_they_would_come_out(peer: WebShopPeer, name: str) -> None:
    task = task_at(peer, 1)
    result, said = example_of(name, WebShop(task), task.instruction)
    assert (result.gsr, result.status) == (1, "success"), result
    assert prompt(HOUSEHOLD.prompts, f"{name}.txt") == said
