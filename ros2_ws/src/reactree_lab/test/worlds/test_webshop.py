"""The world ``webshop``: its port, full rewards, what models and servers do to it, its suite."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError
from pathlib import Path

import pytest
from command_line import Cli
from doubles import ScriptedModel
from plans import BARE, carried_out, example_of
from webshop_catalogue import BY_ASIN, GOALS, reward, way_to
from webshop_peer import WebShopPeer

from reactree_lab.worlds import running
from reactree_lab.worlds.webshop import client
from reactree_lab.worlds.webshop.client import tidy
from reactree_lab.worlds.webshop.world import (
    HOUSEHOLD,
    SUITE,
    WebShop,
    WebShopSettings,
    WebShopSuiteSettings,
    WebShopTask,
    tasks_of,
)
from reactree_ros.agent.prompt import prompt
from reactree_ros.episode import Episode, EpisodeResult
from reactree_ros.errors import UserError
from reactree_ros.planners.spec import planner
from reactree_ros.plugins.settings import read_settings
from reactree_ros.world.check import check_world
from reactree_ros.world.port import Outcome, WorldError
from reactree_ros.world.spec import asks_for

REACT = f"react:{BARE}"


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


#: How long a server may take that never answers, and any other, also on a busy machine.
SHORT, LONG = 2.0, 30.0
NEVER = ("hang", "drip")
#: What a server may do instead of answering, and what is said then.
WAYS = {
    "hang": "did not answer {path} within 2 s",
    "drip": "did not answer {path} within 2 s",
    "html": "answers {path} with what is not an answer of AgentGym's WebShop: <html><body>Welcome to nginx",
    "other": 'answers {path} with what is not an answer of AgentGym\'s WebShop: {{"id": 0}}',
    "field": "answers {path} with an error: the index is not built",
    "half": "did not answer {path} to the end",
    "close": "did not answer {path} to the end",
    "error": "answers {path} with 500: Internal Server Error",
    "busy": "answers {path} with 503: Service Unavailable",
}


@pytest.fixture
def peer() -> Iterator[WebShopPeer]:
    with WebShopPeer() as one:
        yield one


def task_at(peer: WebShopPeer, session: int = 0, time_limit: float = LONG) -> WebShopTask:
    return WebShopTask(peer.url, time_limit, session)


def shops(task: WebShopTask) -> EpisodeResult:
    """Shop to the full reward, as who knows the catalogue does."""
    with WebShop(task) as shop:
        model = ScriptedModel({task.instruction: way_to(GOALS[task.session])})
        return Episode(task.instruction, world=shop, model=model, planner=planner(f"react:{BARE}")).run()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "path"),
    [
        *((how, path) for how in WAYS for path in ("/create", "/reset", "/step")),
        *(("error", path) for path in ("/observation", "/available_actions", "/instruction_text")),
    ],
)
def test_a_server_that_does_not_do_its_part_is_told_in_one_line(
    peer: WebShopPeer, monkeypatch: pytest.MonkeyPatch, how: str, path: str
) -> None:
    monkeypatch.setattr(client, "BUSY_PAUSE", 0.01)
    peer.misbehave[path] = how
    with WebShop(task_at(peer, time_limit=SHORT if how in NEVER else LONG)) as shop:
        with pytest.raises(WorldError) as told:
            _asks_for_everything(shop)
        assert str(told.value).count("\n") == 0
        assert f"WebShop at {peer.url}" in str(told.value)
        assert WAYS[how].format(path=path) in str(told.value)
        del peer.misbehave[path]
        assert "WebShop [SEP]" in shop.reset().result(10).text  # and it goes on


def _asks_for_everything(shop: WebShop) -> None:
    shop.observe().result(10)
    shop.available_skills().result(10)
    shop.execute("search[running shoes]").result(10)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["die", "hang", "error", "half"])
def test_a_server_that_is_lost_in_mid_episode_ends_it(peer: WebShopPeer, how: str) -> None:
    task = task_at(peer, time_limit=SHORT if how in NEVER else LONG)
    assert task.instruction
    peer.misbehave["/step"], peer.good["/step"] = how, 2
    result = shops(task)
    assert (result.end, result.steps, "\n" in result.message) == ("world_gone", 3, False)
    assert f"WebShop at {peer.url}" in result.message
    del peer.misbehave["/step"]
    if how != "die":
        assert shops(task).achieved


def test_a_server_that_was_started_anew_makes_another_shop(peer: WebShopPeer) -> None:
    assert shops(task_at(peer)).achieved
    peer.forget()
    with WebShop(task_at(peer)) as shop:
        shop.observe().result(10)
        assert peer.made == 2
        peer.forget()
        with pytest.raises(WorldError, match="answers /available_actions with 500"):
            shop.execute("search[running shoes]").result(10)
        assert "WebShop [SEP]" in shop.reset().result(10).text
    assert (shops(task_at(peer)).achieved, peer.made) == (True, 3)


def test_what_is_asked_for_is_what_the_shop_of_the_episode_says(peer: WebShopPeer) -> None:
    task = task_at(peer)
    first = task.instruction
    peer.forget()
    second = task.instruction
    assert (first == GOALS[0].instruction, first != second) == (True, True)  # whose prices were drawn anew
    with WebShop(task) as shop:
        assert f"[SEP] {second} [SEP]" in shop.observe().result(10).text
        assert shop.available_skills().result(10) == [f"search[{second}]"]
        peer.forget()
        page = shop.reset().result(10).text
        (search,) = shop.available_skills().result(10)
        assert (f"[SEP] {search[len('search[') : -1]} [SEP]" in page, second in page) == (True, False)


def test_a_server_that_is_busy_is_asked_again(peer: WebShopPeer) -> None:
    peer.misbehave["/step"] = "busy"
    with WebShop(task_at(peer, time_limit=10.0)) as shop:
        shop.observe().result(10)
        found = shop.execute("search[running shoes]")
        while peer.asked.count("/step") < 2:
            assert not found.done()
            time.sleep(0.01)
        del peer.misbehave["/step"]
        assert "Page 1" in found.result(10).text
    assert peer.actions == ["search[running shoes]"]


def test_a_task_that_the_shop_has_not_is_told_and_makes_no_more_shops(peer: WebShopPeer) -> None:
    for _ in range(3):
        with pytest.raises(WorldError, match=r"does not begin task 4711; the shop there may have fewer \(.* 500"):
            assert task_at(peer, 4711).instruction
    assert peer.made == 1
    assert (shops(task_at(peer)).achieved, peer.made) == (True, 1)


def test_many_episodes_share_a_shop_and_leave_no_thread_behind(peer: WebShopPeer) -> None:
    task = task_at(peer, time_limit=10.0)
    for number in range(20):
        assert shops(task).achieved if number % 10 == 0 else _looks(task)
        if number == 0:
            before = threading.active_count()
    assert (peer.made, len(peer.environments)) == (1, 1)
    assert threading.active_count() <= before + 3  # of the peer's, too


def _looks(task: WebShopTask) -> bool:
    with WebShop(task) as shop:
        return "WebShop [SEP]" in shop.observe().result(10).text


def test_worlds_beside_each_other_have_shops_of_their_own(peer: WebShopPeer) -> None:
    tasks = [task_at(peer, session, 10.0) for session in (0, 1)]
    with WebShop(tasks[0]) as one, WebShop(tasks[1]) as other:
        for shop in (one, other):
            shop.observe().result(10)
        one.execute("search[running shoes]").result(10)
        assert "travel mug" in other.observe().result(10).text
        assert (peer.made, "Page 1" in one.observe().result(10).text) == (2, True)
    assert _looks(tasks[0])
    assert peer.made == 2


def test_what_is_cancelled_is_not_waited_for_and_the_world_goes_on(peer: WebShopPeer) -> None:
    peer.misbehave["/step"] = "late"
    with WebShop(task_at(peer, time_limit=10.0)) as shop:
        shop.observe().result(10)
        under_way, queued = shop.execute("search[running shoes]"), shop.execute("click[b0aaa00001]")
        while "/step" not in peer.asked:
            time.sleep(0.01)
        assert under_way.cancel()
        assert queued.cancel()
        with pytest.raises(CancelledError):
            under_way.result(0)
        shop.at_rest().result(10)
        assert peer.actions == ["search[running shoes]"]  # what was under way at the server was done there
        assert "Page 1" in shop.observe().result(10).text


def test_closing_does_not_wait_for_a_server_that_hangs(peer: WebShopPeer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "CLOSE_LIMIT", 0.1)
    shop = WebShop(task_at(peer, time_limit=60.0))
    shop.observe().result(10)
    peer.misbehave["/step"] = "hang"
    with pytest.raises(WorldError, match="was closed"):
        _close_in_the_middle(shop, peer)
    shop.close()


def _close_in_the_middle(shop: WebShop, peer: WebShopPeer) -> None:
    shop.execute("search[running shoes]")
    while "/step" not in peer.asked:
        time.sleep(0.01)
    shop.close()
    shop.observe().result(10)


def test_an_answer_without_an_end_is_not_read_for_ever(peer: WebShopPeer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "LONGEST_ANSWER", 100)
    with WebShop(task_at(peer, time_limit=10.0)) as shop, pytest.raises(WorldError, match="it broke off"):
        shop.observe().result(10)


# ---------------------------------------------------------------------- settings, suite, command line


def test_what_is_no_url_is_named() -> None:
    for server in ("127.0.0.1:36001", "ftp://here", "http://", "http://me:secret@here", "http://here:0", "http://a b"):
        with pytest.raises(UserError, match=r"a server URL looks like http://127\.0\.0\.1:36001"):
            read_settings(WebShopSettings, {"server": server}, where="test")
    assert read_settings(WebShopSettings, {"server": "http://here/shop/"}, where="test").server == "http://here/shop"


def test_a_server_of_another_kind_or_none_is_told_before_anything_is_run(peer: WebShopPeer, cli: Cli) -> None:
    for how, said in (
        ("other", "there is a server, but it is not AgentGym's"),
        ("html", "not an answer of AgentGym's"),
    ):
        peer.misbehave["/"] = how
        with pytest.raises(UserError, match=said):
            tasks_of(WebShopSettings(server=peer.url))
    peer.close()
    option = f"server={peer.url}"
    for command in (
        ["run", "--world", "webshop", "--task-id", "0", "--world-option", option],
        ["lab", "bench", "--suite", "webshop", "--planner", "react", "--suite-option", option, "--out", "nowhere"],
    ):
        ended = cli(*command, "--llm", "expert")
        assert (ended.code, len(ended.err.splitlines())) == (2, 1), ended
        assert f"WebShop at {peer.url} cannot be reached (Connection refused): start AgentGym's server" in ended.err


def test_a_suite_asks_for_nothing_before_its_tasks_are_run(peer: WebShopPeer) -> None:
    values = {"server": peer.url, "first": 3, "number": 10_000}
    tasks = SUITE.tasks(read_settings(WebShopSuiteSettings, values, where="test"))
    assert (len(tasks), next(iter(tasks)), tasks[5].session, peer.asked) == (10_000, 3, 5, ["/"])
    assert tasks[5].task_name == "webshop"
    assert tasks[5].instruction == GOALS[5].instruction
    assert asks_for(tasks[5], f" {GOALS[5].instruction}\n")
    assert 12_086 in tasks_of(WebShopSettings(server=peer.url))


@pytest.mark.slow
def test_it_runs_from_the_command_line_and_gives_its_shop_back() -> None:
    with WebShopPeer(closes=True) as peer:
        command = [sys.executable, "-m", "reactree_ros.cli", "run", "--world", "webshop", "--llm", "expert", "--json"]
        options = ["--max-decisions", "3", "--world-option", f"server={peer.url}", "--task-id", "4"]
        run = subprocess.run([*command, *options], capture_output=True, text=True)
        assert run.returncode == 1, run.stderr
        assert json.loads(run.stdout)["instruction"] == GOALS[4].instruction
        assert (peer.made, peer.environments) == (1, {})


def test_a_task_that_there_is_not_is_told_on_the_command_line(peer: WebShopPeer, cli: Cli) -> None:
    options = ["--llm", "expert", "--world-option", f"server={peer.url}", "--task-id", "99"]
    ended = cli("run", "--world", "webshop", *options)
    assert (ended.code, len(ended.err.splitlines())) == (2, 1), ended
    assert "does not begin task 99" in ended.err


def test_a_task_has_to_be_named(peer: WebShopPeer, cli: Cli) -> None:
    ended = cli("run", "--world", "webshop", "--llm", "expert", "--world-option", f"server={peer.url}")
    assert (ended.code, "which task is it? task_id is one of 0, 1, 2" in ended.err) == (2, True), ended
    assert peer.asked == ["/"]


@pytest.mark.slow
def test_a_bench_goes_on_without_its_server_and_a_resume_repeats_what_it_lost(tmp_path: Path, cli: Cli) -> None:
    out = tmp_path / "bench"
    with WebShopPeer() as peer:
        suite = ["--suite", "webshop", "--suite-option", f"server={peer.url}", "--suite-option", "number=4"]
        command = [
            "lab",
            "bench",
            *suite,
            "--planner",
            "react",
            "--llm",
            "expert",
            "--max-decisions",
            "2",
            "--out",
            out,
        ]
        peer.misbehave["/reset"], peer.good["/reset"] = "die", 3  # two for the first task, one for the second
        broken = cli(*command)
        assert (broken.code, peer.made) == (1, 1), broken
        lost = _lines(out / "broken.jsonl")
        assert [one["task_id"] for one in lost] == [1, 2, 3]
        assert {one["end"] for one in lost} == {"world_gone"}
        assert all(
            re.search(rf"WebShop at {peer.url} (did not answer|cannot be reached)", one["message"]) for one in lost
        )
    with WebShopPeer(peer.port):
        resumed = cli(*command)
    assert resumed.code == 0, resumed
    results = _lines(out / "results.jsonl")
    assert [(one["task_id"], one["instruction"]) for one in results] == [
        (number, GOALS[number].instruction) for number in range(4)
    ]


def _lines(file: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
