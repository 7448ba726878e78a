"""The page in the system's Chromium: what a person sees of a run, and does to it."""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from drawn import drawn, png
from view.writing import DEMO, Lines, Live, Wide, deep, demo, expert, household, parted_run

from reactree_ros.person.desk import Desk
from reactree_ros.person.port import Question, approves
from reactree_ros.record.moment import Moment
from reactree_ros.record.reader import read_record
from reactree_ros.tree.options import TreeOptions
from reactree_ros.view import STATUSES, flows
from reactree_ros.view.steering import Asked, Course, Steering

pytestmark = pytest.mark.view

#: Of the demo, and of a run that is written without a score.
ENDED = re.compile("Goal reached|Claimed, not checked")
Open = Callable[..., Any]
Serve = Callable[..., Any]


def expect(what: Any) -> Any:
    from playwright.sync_api import expect as expected

    return expected(what)


def names(page: Any) -> set[str]:
    """What the nodes in the tree are called, whose statuses the labels say, too."""
    return {label.get_attribute("title") for label in page.locator("[role=treeitem]").all()}


def tree_of(moment: Moment) -> set[str]:
    """The same, of a moment as the record has it."""
    return {
        f"{node.kind if node.kind not in ('agent', 'goal') else f'agent node: {node.subgoal}'}, "
        f"{STATUSES[moment.status_of(node)][1]}"
        for node in moment.nodes.values()
        if node.kind != "skill"
    }


def place(page: Any, name: str) -> tuple[float, float]:
    box = page.locator(f"[role=treeitem][title^='{name}'] .body").bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def settled(page: Any) -> None:
    """Wait until nothing moves any more."""
    page.evaluate(
        """async () => {
          const at = (one) => one.id + one.getBoundingClientRect().y;
          const seen = () => [...document.querySelectorAll("[role=treeitem]")].map(at).join();
          for (let still = 0, was = ""; still < 20; still = seen() === was ? still + 1 : ((was = seen()), 0))
            await new Promise(requestAnimationFrame);
        }"""
    )


def all_open(page: Any) -> None:
    """Open every branch of the tree."""
    page.get_by_role("button", name="Open all").click()
    settled(page)


# ---------------------------------------------------------------------- a run that goes on


def test_a_live_run_is_watched_from_its_first_decision_to_its_last(live: Live, open_page: Open) -> None:
    page = open_page(live.url)
    expect(page.get_by_role("heading", name=DEMO).first).to_be_visible()
    expect(page.locator("[role=treeitem]")).to_have_count(1)
    expect(page.locator(".outcome .chip")).to_have_text("paused")
    grown = []
    for number in range(1, 6):
        page.get_by_role("button", name="Step", exact=True).click()
        expect(page.locator(".budget b").first).to_have_text(str(number))
        expect(page.get_by_role("button", name="Continue")).to_be_visible()
        grown.append(page.locator("[role=treeitem]").count())
    assert grown == sorted(grown)
    assert len(set(grown)) > 2
    page.get_by_role("button", name="Continue").click()
    expect(page.locator(".outcome .chip")).to_have_text(ENDED)
    result = live.result()
    expect(page.locator(".moves .of")).to_have_text(f"of {result.decisions}")
    expect(page.locator(".steering")).to_be_hidden()
    all_open(page)
    assert names(page) == tree_of(Moment.after(read_record(live.record).events))


def test_new_nodes_come_without_the_rest_jumping(live: Live, open_page: Open) -> None:
    page = open_page(live.url)
    for number in (1, 2):
        settled(page)
        before = place(page, f"agent node: {DEMO}")
        page.get_by_role("button", name="Step", exact=True).click()
        expect(page.locator(".budget b").first).to_have_text(str(number))
    expect(page.locator("[role=treeitem]")).to_have_count(4)
    settled(page)
    after = place(page, f"agent node: {DEMO}")
    assert after == pytest.approx(before, abs=1.0)


def test_a_reload_in_mid_run_loses_nothing(live: Live, open_page: Open) -> None:
    page = open_page(live.url)
    for number in range(1, 5):
        page.get_by_role("button", name="Step", exact=True).click()
        expect(page.locator(".budget b").first).to_have_text(str(number))
    expect(page.get_by_role("button", name="Continue")).to_be_visible()
    settled(page)
    before = names(page)
    page.reload()
    expect(page.locator(".budget b").first).to_have_text("4")
    expect(page.get_by_role("button", name="Continue")).to_be_visible()
    expect(page.locator("[role=treeitem]")).to_have_count(len(before))
    assert names(page) == before


def test_a_run_is_cancelled_once_it_is_confirmed(live: Live, open_page: Open) -> None:
    page = open_page(live.url)
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Keep running").click()
    expect(page.get_by_role("button", name="Continue")).to_be_visible()
    page.keyboard.press("c")
    page.get_by_role("button", name="Cancel the run").click()
    expect(page.locator(".outcome .chip")).to_have_text("Interrupted")
    assert live.result().end == "interrupted"


def test_a_person_says_a_decision_and_is_told_what_may_not_be_said(live: Live, open_page: Open) -> None:
    page = open_page(live.url)
    words = page.get_by_label("The next decision, in place of the model's")
    expect(words).to_be_enabled()
    page.keyboard.press("d")
    expect(words).to_be_focused()
    page.keyboard.type("Act: fly to the moon")
    page.keyboard.press("Enter")
    expect(page.locator(".notice")).to_contain_text("fly to the moon")
    words.fill("Act: go to kitchen 1")
    page.keyboard.press("Enter")
    expect(page.locator(".turn.said .text")).to_have_text("Act: go to kitchen 1")
    expect(page.locator(".turn.said .tag")).to_have_text("a person")
    expect(page.locator(".notice")).to_be_empty()
    assert (live.episode.context.budget.decisions, live.episode.context.budget.steps) == (1, 1)
    page.keyboard.press("Escape")
    expect(words).not_to_be_focused()
    page.keyboard.press("d")
    listed = page.locator("#may-say option").evaluate_all("all => all.map(one => one.value)")
    assert {"Think: ", "Expand: ", "Act: done", "Act: failure", "Act: go to fridge 1"} <= set(listed)
    expect(words).to_have_attribute("placeholder", f"Say the next decision, e.g. {listed[-1]}")
    assert len(set(listed)) == len(listed) < 401


# ---------------------------------------------------------------------- a planner that is followed


class Planner:
    """Steers the run of one record as a planner node does: without single steps and said decisions."""

    def __init__(self) -> None:
        self.steered = Path()
        self.done: list[str] = []
        self.paused = False

    def course_of(self, record: Path) -> Course:
        ended = record != self.steered
        return Course(paused=self.paused and not ended, ended=ended, commands=("pause", "go on", "cancel"))

    def commands(self, record: Path) -> dict[str, Callable[[str], None]]:
        def pause(words: str) -> None:
            self.done.append(f"pause {record.name}")
            self.paused = True

        return {"pause": pause}


def test_the_latest_run_is_followed_over_to_the_next_one(tmp_path: Path, serve: Serve, open_page: Open) -> None:
    page = open_page(f"{serve(tmp_path).url}#/latest")
    expect(page.get_by_text("No run has begun yet.")).to_be_visible()
    first = Wide(tmp_path / "first.jsonl", 5)
    first.write()
    expect(page.locator("h1")).to_have_text("Tidy up the whole house")
    expect(page.locator(".outcome .chip")).to_have_text(ENDED)
    Lines(tmp_path / "second.jsonl", "Wash a plate", started="2026-01-02T03:05:00+00:00")
    expect(page.locator("h1")).to_have_text("Wash a plate")
    expect(page.locator("h1")).to_have_count(1)


def test_who_looks_at_an_earlier_moment_is_not_taken_away_from_it(
    tmp_path: Path, serve: Serve, open_page: Open
) -> None:
    Wide(tmp_path / "first.jsonl", 5).write()
    page = open_page(f"{serve(tmp_path).url}#/latest")
    expect(page.locator(".outcome .chip")).to_have_text(ENDED)
    page.keyboard.press(",")
    expect(page.locator(".outcome .chip")).to_have_text("earlier moment")
    with page.expect_response(lambda answer: "second" in answer.text() if "api/runs" in answer.url else False):
        Lines(tmp_path / "second.jsonl", "Wash a plate", started="2026-01-02T03:05:00+00:00")
    expect(page.locator("h1")).to_have_text("Tidy up the whole house")
    page.keyboard.press("l")
    expect(page.locator("h1")).to_have_text("Wash a plate")


def test_a_planner_is_offered_only_what_it_can_do(tmp_path: Path, serve: Serve, open_page: Open) -> None:
    lines = Lines(tmp_path / "run.jsonl", "Wash a plate")
    planner = Planner()
    planner.steered = lines.path
    page = open_page(f"{serve(tmp_path, steering=planner).url}#/latest")
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_role("button", name="Continue")).to_be_visible()
    expect(page.get_by_role("button", name="Step", exact=True)).to_be_hidden()
    expect(page.locator(".decision")).to_be_hidden()
    assert planner.done == ["pause run.jsonl"]
    lines.end()
    expect(page.locator(".steering")).to_be_hidden()


def test_what_a_skill_policy_wants_confirmed_is_asked_and_answered(
    tmp_path: Path, serve: Serve, open_page: Open
) -> None:
    answers: list[tuple[str, str]] = []
    ends = time.time() + 59.0

    class Asks(Planner):
        def course_of(self, record: Path) -> Course:
            skill, number = f"turn on stove {7 + len(answers)} {HOSTILE}", 7 + len(answers)
            asked = Asked(number, f"May '{skill}' be carried out?", skill, "the skill policy says confirm", ends)
            return Course(asked=asked if len(answers) < 2 else None)

        def commands(self, record: Path) -> dict[str, Callable[[str], None]]:
            name = f"answer {7 + len(answers)}"
            return {name: lambda words: answers.append((name, words))}

    page = open_page(serve(Lines(tmp_path / "run.jsonl", "root").path, steering=Asks()).url)
    question = page.locator(".question")
    expect(question).to_contain_text("turn on stove 7 <img")
    expect(question).to_contain_text(re.compile(r"Without an answer in \d+ s it is refused\."))
    page.get_by_role("button", name="Allow").click()
    expect(question).to_contain_text("turn on stove 8 <img")
    page.get_by_label("Why not").fill("it is hot")
    page.get_by_role("button", name="Refuse", exact=True).click()
    expect(question).to_be_hidden()
    assert answers == [("answer 7", "yes"), ("answer 8", "no, it is hot")]


def test_a_question_is_asked_with_the_time_that_is_left_and_what_is_typed_answers_it(
    tmp_path: Path, serve: Serve, open_page: Open
) -> None:
    desk = Desk()
    steering = Steering(expert(), desk)
    lines = Lines(tmp_path / "run.jsonl", "root")
    page = open_page(serve(lines.path, steering=steering).url)
    question = page.locator(".question")
    expect(question).to_be_hidden()
    answer = desk.ask(Question(f"Which apple? {HOSTILE}", 59.0, goal="bring an apple", asker="/one/planner"))
    expect(question).to_contain_text("Which apple? <img")
    for other in ("Tell the run something", "The next decision, in place of the model's"):
        expect(page.get_by_label(other)).to_be_hidden()  # there is one field, and it answers
    expect(question).to_contain_text("For “bring an apple”.")
    expect(question).to_contain_text("(/one/planner)")
    expect(question).to_contain_text(re.compile(r"Without an answer in 5\d s the run goes on\."))
    expect(question).to_contain_text(re.compile(r"Without an answer in 5[0-7] s"))  # it counts
    page.get_by_label("Your answer").fill("the red one")
    page.keyboard.press("Enter")
    expect(question).to_be_hidden()
    assert (answer.take().text, answer.take().by) == ("the red one", "page")
    expect(page.get_by_label("Tell the run something")).to_be_visible()
    page.keyboard.type("2")  # too early for the next question, and no key of the page
    answer = desk.ask(Question("Which table?", 59.0))
    expect(page.get_by_label("Your answer")).to_be_focused()
    page.keyboard.type("3rd\n")
    expect(question).to_be_hidden()
    assert answer.take().text == "3rd"
    expect(page.get_by_role("tab", name="Node")).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Escape")
    page.keyboard.type("2")
    expect(page.get_by_role("tab", name="World")).to_have_attribute("aria-selected", "true")
    desk.ask(Question("Which sofa?", 59.0))
    expect(page.get_by_label("Your answer")).to_be_focused()
    page.keyboard.type("any\n")
    expect(question).to_be_hidden()
    lines.add("grow", nodes=[{"node": 0, "parent": None, "kind": "agent", "name": "root", "subgoal": "root"}])
    expect(page.locator("[role=treeitem]")).to_have_count(1)  # the run goes on without a question
    page.keyboard.type("1")
    expect(page.get_by_role("tab", name="Node")).to_have_attribute("aria-selected", "true")


def test_what_may_be_said_and_its_example_are_what_the_robot_is_offered(
    tmp_path: Path, serve: Serve, open_page: Open
) -> None:
    lines = Lines.of_root(tmp_path)
    drive = {"skill": {"name": "drive", "wording": "drive to {room}"}, "now": {"room": ["ward 3", "storage"]}}
    say = {"skill": {"name": "say", "wording": "say {text}", "parameters": {"text": {"text": 200}}}, "now": {}}
    lines.add("skills", at=0, added=[say, drive])
    lines.add("text", id=0, turns=[])
    lines.add("request", node=0, id="0.1", start=0, own=[], may_say={"kind": "decision", "skills": 3})
    page = open_page(serve(lines.path, steering=Steering(expert(), paused=True)).url)
    words = page.get_by_label("The next decision, in place of the model's")
    expect(words).to_have_attribute("placeholder", "Say the next decision, e.g. Act: drive to storage")
    words.focus()
    listed = page.locator("#may-say option").evaluate_all("all => all.map(one => one.value)")
    assert [one for one in listed if "drive" in one or "say" in one] == [
        "Act: drive to ward 3",
        "Act: drive to storage",
    ]


def test_a_skill_that_is_refused_with_a_yes_is_refused(tmp_path: Path, serve: Serve, open_page: Open) -> None:
    desk = Desk()
    steering = Steering(expert(), desk)
    page = open_page(serve(Lines(tmp_path / "run.jsonl", "root").path, steering=steering).url)
    answer = desk.ask(Question("May it?", 59.0, goal="it is hot", skill="turn on stove 1"))
    page.get_by_label("Why not").fill("yes")
    page.get_by_role("button", name="Refuse", exact=True).click()
    expect(page.locator(".question")).to_be_hidden()
    assert not approves(answer.take().text)


def test_the_run_is_told_something_while_it_goes_on(live: Live, open_page: Open) -> None:
    page = open_page(live.url)
    page.get_by_label("Tell the run something").fill("not that one, the red one")
    page.get_by_role("button", name="Tell").click()
    expect(page.get_by_label("Tell the run something")).to_have_value("")
    page.get_by_role("button", name="Step", exact=True).click()
    expect(page.locator(".turn.told.person")).to_contain_text('The person says: "not that one, the red one".')
    page.get_by_label("Tell the run something").fill("stop")
    page.keyboard.press("Enter")
    assert live.result().end == "interrupted"
    expect(page.locator(".outcome .chip")).to_have_text("Interrupted")


# ---------------------------------------------------------------------- a run that is over


@pytest.fixture
def record(tmp_path: Path) -> Path:
    demo(tmp_path / "run.jsonl").run()
    return tmp_path / "run.jsonl"


def test_scrubbed_to_decision_ten_everything_is_of_decision_ten(record: Path, serve: Serve, open_page: Open) -> None:
    page = open_page(serve(record).url)
    expect(page.locator(".outcome .chip")).to_have_text(ENDED)
    page.get_by_label("Decision to go to").fill("10")
    page.keyboard.press("Enter")
    expect(page.locator(".budget b").first).to_have_text("10")
    events = read_record(record).events
    tenth = next(n for n, event in enumerate(events) if event.get("decisions") == 10)
    until = next(n for n, event in enumerate(events) if n > tenth and event["e"] == "reply")
    moment = Moment.after(events[:until])
    settled(page)
    assert names(page) == tree_of(moment)
    expect(page.locator("[role=treeitem].active")).to_have_count(
        sum(node.status == "running" and node.kind != "skill" for node in moment.nodes.values())
    )
    node = next(one for one in reversed(moment.goal_nodes) if one.status == "running")
    expect(page.locator("h2.goal")).to_have_text(node.subgoal)
    said = [turn.text for turn in node.turns if type(turn).__name__ == "Said"]
    expect(page.locator(".turn.said .text")).to_have_text(said)  # waits for it, whatever the white space
    assert page.locator(".turn.said .text").all_inner_texts() == said
    page.get_by_role("tab", name="World").click()
    expect(page.locator(".thing")).to_have_count(len(moment.known))
    things = page.locator(".thing").all_inner_texts()
    assert sorted(things) == sorted(f"{word} {instance}" for word, instance in moment.known)
    for place in page.locator("details[data-name]").all():
        assert place.get_attribute("data-name") not in place.locator(".thing").all_inner_texts(), "at itself"


def test_a_node_that_is_chosen_tells_its_conversation(record: Path, serve: Serve, open_page: Open) -> None:
    page = open_page(serve(record).url)
    page.locator("[role=treeitem][title^='agent node: find and pick up the apple']").click()
    expect(page.locator("h2.goal")).to_have_text("find and pick up the apple")
    node = next(
        one
        for one in Moment.after(read_record(record).events).goal_nodes
        if one.subgoal == "find and pick up the apple"
    )
    turns = page.locator(".turn:not(.start) .text, .turn.answer span")
    expect(turns).to_have_text([turn.text for turn in node.turns])  # waits for it, whatever the white space
    assert turns.all_inner_texts() == [turn.text for turn in node.turns]
    expect(page.locator(".panel .chip").first).to_have_text("success")
    page.get_by_text("System text and examples").click()
    expect(page.locator(".turn.start .text")).to_contain_text("Source domain:")


def test_everything_is_done_with_the_keyboard_alone(record: Path, serve: Serve, open_page: Open) -> None:
    page = open_page(serve(record).url)
    expect(page.locator(".outcome .chip")).to_have_text(ENDED)
    numbers = [event["decisions"] for event in read_record(record).events if "decisions" in event]
    for key, before_the_last in ((",", 1), (",", 2), (",", 3), (".", 2)):
        page.keyboard.press(key)
        expect(page.get_by_label("Decision to go to")).to_have_value(str(numbers[-1 - before_the_last]))
    page.keyboard.press("t")
    expect(page.get_by_role("tree")).to_be_focused()
    for key in ("0", "Home", "ArrowRight", "ArrowRight", "ArrowDown"):
        page.keyboard.press(key)
    chosen = page.locator("[role=treeitem][aria-selected=true]")
    expect(chosen).to_have_attribute("title", re.compile("move the apple"))
    identity = page.get_by_role("tree").get_attribute("aria-activedescendant")
    assert identity == chosen.get_attribute("id")
    expect(page.locator("#said")).to_contain_text("move the apple")
    count = page.locator("[role=treeitem]").count()
    page.keyboard.press("Space")
    expect(chosen).to_have_attribute("aria-expanded", "false")
    expect(page.locator("[role=treeitem]")).to_have_count(count - 3)
    page.keyboard.press("ArrowRight")
    expect(chosen).to_have_attribute("aria-expanded", "true")
    expect(page.locator("[role=treeitem]")).to_have_count(count)
    page.keyboard.press("2")
    expect(page.get_by_role("tab", name="World")).to_have_attribute("aria-selected", "true")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    page.get_by_role("slider").focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    expect(page.get_by_label("Decision to go to")).to_have_value("0")


def test_keys_lead_to_refusals_and_failures(tmp_path: Path, serve: Serve, open_page: Open) -> None:
    lines = Lines.of_root(tmp_path)
    lines.add("started", node=0, index=0, decision=1)
    lines.add("status", of=[[0, "running"]])
    for number, refused in enumerate((False, True, False, True, False), 1):
        lines.add("request", node=0, id=f"0.{number}", turns=[0, 1], may_say={"kind": "text", "stops": []})
        lines.add("reply", node=0, id=f"0.{number}", text=f"say {number}")
        if refused:
            lines.add("refused", node=0, said=f"say {number}", reason="You may not.", decisions=number, steps=0)
        else:
            lines.add("decided", node=0, think=f"say {number}", decisions=number, steps=0)
        lines.add("turn", node=0, said=f"say {number}")
    lines.add("status", of=[[0, "failure", "gave up"]])
    lines.end(end="failure", decisions=5)
    page = open_page(serve(lines.path).url)
    expect(page.locator(".outcome .chip")).to_have_text("Goal not reached")
    page.get_by_label("Decision to go to").fill("0")
    page.keyboard.press("Enter")
    page.get_by_role("tree").focus()
    for key, decision in (("r", "2"), ("r", "4"), ("R", "2"), ("f", "5")):
        page.keyboard.press(key)
        expect(page.get_by_label("Decision to go to")).to_have_value(decision)
    expect(page.locator(".turn.refused .reason").first).to_have_text("You may not.")
    expect(page.locator(".panel .chip").first).to_have_text("failure")


def test_what_the_model_was_asked_again_and_why_stands_with_its_reply(
    tmp_path: Path, serve: Serve, open_page: Open
) -> None:
    lines = Lines.of_root(tmp_path)
    lines.add("started", node=0, index=0, decision=1)
    lines.add("status", of=[[0, "running"]])
    vain = [
        {"text": "Act: fly", "objection": "You cannot fly."},
        {"objection": "It is gone.", "finish_reason": "failed"},
    ]
    for number, more in enumerate(({"attempts": [*vain, {}]}, {}), 1):
        lines.add("request", node=0, id=f"0.{number}", turns=[0, 0], may_say={"kind": "text", "stops": []})
        lines.add("reply", node=0, id=f"0.{number}", text="Think: so", output_tokens=5, **more)
        lines.add("decided", node=0, think="so", decisions=number, steps=0)
        lines.add("turn", node=0, said="Think: so")
    lines.add("request", node=0, id="0.3", turns=[0, 0], may_say={"kind": "text", "stops": []})
    took = {"text": "", "output_tokens": 7, "attempts": vain}
    lines.add(
        "failed", node=0, of="reply", id="0.3", type="ServerUnavailable", kind="model_gone", message="", took=took
    )
    lines.end(end="model_gone")
    page = open_page(serve(lines.path).url)
    again = page.locator(".turn .in-vain")
    expect(again.locator("summary")).to_have_text(["Asked again 2 times", "Asked again"])
    again.first.locator("summary").click()
    expect(again.first.locator(".text")).to_have_text("Act: fly")
    expect(again.first.locator(".reason")).to_have_text(["You cannot fly.", "It is gone."])
    expect(page.locator(".facts dt:text-is('Requests') + dd").first).to_contain_text("6 (2 refused)")
    page.get_by_role("tab", name="Run").click()
    expect(page.locator(".panel:visible dt:text-is('Output tokens') + dd")).to_have_text("17")


def test_what_cameras_saw_stands_where_it_was_seen(tmp_path: Path, serve: Serve, open_page: Open) -> None:
    lines = Lines.of_root(tmp_path)
    lines.add("started", node=0, index=0, decision=1)
    lines.add("status", of=[[0, "running"]])
    data = base64.b64encode(png(width=8)).decode()
    picture = {"id": drawn(0, width=8).id, "media": "image/png", "width": 8, "height": 4, "size": len(png(width=8))}
    look = {"node": 0, "of": "execute", "text": "You look.", "outcome": "done"}
    for pictures in ([picture | {"data": data, "camera": "head", "words": "a cup"}], [picture, picture]):
        lines.add("observation", pictures=pictures, **look)
        lines.add("turn", node=0, saw="You look.")
    lines.add("observation", picture=base64.b64encode(png(width=16)).decode(), **look)  # as older records have it
    lines.add("turn", node=0, saw="You look.")
    lines.end()
    page = open_page(serve(lines.path).url)
    shown = page.locator(".turn img.picture")
    expect(shown).to_have_count(4)
    assert [one.evaluate("image => image.naturalWidth") for one in shown.all()] == [8, 8, 8, 16]
    expect(shown.first).to_have_attribute("alt", "What the camera saw: head: a cup")
    page.get_by_role("tab", name="World").click()
    last = page.locator(".panel:visible img.picture")
    assert last.evaluate("image => image.naturalWidth") == 16
    page.get_by_role("slider").fill("5")
    expect(last).to_have_attribute("alt", "What the camera saw last: head: a cup")
    assert last.evaluate("image => image.naturalWidth") == 8


KITCHEN = {"name": "kitchen 1", "x": 2.0, "y": 1.5, "outline": [[0, 0], [4, 0], [4, 3], [0, 3]]}
FRIDGE = {"name": "fridge 1", "x": 3.5, "y": 2.5, "yaw": 0.0, "outline": [[3, 2], [4, 2], [4, 3], [3, 3]]}
APPLE = {"word": "apple", "instance": 1, "room": "kitchen 1", "place": "fridge 1"}


def test_what_is_remembered_from_before_the_run_is_shown_as_such(tmp_path: Path, serve: Serve, open_page: Open) -> None:
    remembered = [
        {"word": "cup", "instance": 1, "room": "kitchen 1", "place": "sink 1", "states": ["REMEMBERED", "2 hours ago"]},
        {"word": "cup", "instance": 2, "room": "kitchen 1", "place": "sink 1", "states": ["REMEMBERED", "PERHAPS"]},
        {"word": "nurse desk", "instance": 0, "room": "ward"},
    ]
    lines = Lines.of_root(tmp_path)
    lines.add("observation", node=0, of="observe", text="A kitchen.", outcome="done", remembered=remembered)
    lines.end()
    page = open_page(serve(lines.path).url)
    page.get_by_role("tab", name="World").click()
    thing = page.locator("li", has=page.locator(".thing", has_text="cup 1"))
    expect(thing.locator(".state")).to_have_text(["remembered", "2 hours ago"])
    expect(page.locator(".thing", has_text="cup 2")).to_have_count(0)
    expect(page.locator(".thing", has_text="nurse desk")).to_have_text("nurse desk")


def test_a_world_with_poses_has_a_map_on_which_the_robot_moves(tmp_path: Path, serve: Serve, open_page: Open) -> None:
    lines = Lines.of_root(tmp_path)
    lines.add("skills", added=["open fridge 1"])
    here, there = {"name": "", "x": 1.0, "y": 1.0, "yaw": 0.0}, {"name": "", "x": 2.0, "y": 2.5, "yaw": 1.5708}
    look = {"node": 0, "text": "A kitchen.", "outcome": "done"}
    lines.add("observation", of="observe", rooms=["kitchen 1"], spots=[here, KITCHEN, FRIDGE], **look)
    apple = {"name": "apple 1", "x": 3.5, "y": 2.4}
    opened = {"looked_into": "fridge 1", "seen": [APPLE], "spots": [there, FRIDGE, apple]}
    lines.add("observation", of="execute", **opened, **look)
    lines.add("observation", of="execute", seen=[APPLE | {"held": True}], spots=[there], **look)
    lines.end()
    page = open_page(serve(lines.path).url)
    page.get_by_role("tab", name="World").click()
    drawn = page.locator(".map [role=img]")
    room, fridge = "kitchen 1, at 2.0, 1.5 m", "fridge 1, at 3.5, 2.5 m"
    spoken = {
        2: [],
        3: [room, f"{fridge}, never opened", "the robot, at 1.0, 1.0 m"],
        4: [room, fridge, "apple 1, at 3.5, 2.4 m", "the robot, at 2.0, 2.5 m"],
        5: [room, fridge, "the robot, at 2.0, 2.5 m"],
    }
    slider = page.get_by_role("slider")
    for moment, said in spoken.items():
        slider.fill(str(moment))
        expect(drawn).to_have_count(len(said))
        assert [one.get_attribute("aria-label") for one in drawn.all()] == said
    turned = page.locator(".map path.robot").get_attribute("transform")
    assert "rotate(-90)" in turned, "up is where y grows"
    room_box, fridge_box = (page.locator(f".map polygon.{kind}").bounding_box() for kind in ("floor", "standing"))
    assert fridge_box["x"] + fridge_box["width"] == pytest.approx(room_box["x"] + room_box["width"], abs=2)
    assert fridge_box["y"] == pytest.approx(room_box["y"], abs=2)


# ---------------------------------------------------------------------- several runs


def test_the_tree_shows_which_of_two_robots_a_subtree_has(tmp_path: Path, serve: Serve, open_page: Open) -> None:
    demo(tmp_path / "run.jsonl", world=household(robots=2)).run()
    page = open_page(serve(tmp_path / "run.jsonl").url)
    expect(page.locator(".outcome .chip")).to_have_text(ENDED)
    tops = page.locator("[role=treeitem][title*=' move the ']")
    expect(tops).to_have_count(2)
    assert {top.locator(".doing").text_content() for top in tops.all()} == {"robot_1", "robot_2"}
    expect(page.locator("[role=treeitem][title^='parallel'] .sign")).to_have_text("⇉")


def test_runs_are_filtered_opened_and_laid_side_by_side(tmp_path: Path, serve: Serve, open_page: Open) -> None:
    for name in ("reactree_wm", "reactree", "react_wm"):
        demo(tmp_path / f"{name}.jsonl", name=name).run()
    named = {"name": "reactree_wm:system_text=false:fixed_example=false:break_rounds=true", "options": {}}
    Lines(tmp_path / "long.jsonl", "Fold a towel", planner=named).end()
    Lines(tmp_path / "other.jsonl", "Wash a plate").end(end="failure", message="gave up")
    page = open_page(serve(tmp_path).url)
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(5)
    expect(rows.filter(has_text="Fold a towel").locator("td[data-title=Planner]")).to_have_text(
        "reactree_wmsystem_text=false, fixed_example=false, break_rounds=true"
    )
    assert page.locator(".table").evaluate("one => one.scrollWidth <= one.clientWidth")
    expect(page.get_by_role("button", name="Side by side: tick two runs")).to_be_disabled()
    page.get_by_label("outcome").select_option("Goal not reached")
    expect(rows).to_have_count(1)
    page.get_by_label("outcome").select_option("")
    page.get_by_label("planner").select_option("reactree")
    expect(rows).to_have_count(2)
    page.get_by_label("Search").fill("plate")
    expect(rows).to_have_count(1)
    page.get_by_label("Search").fill("")
    page.get_by_label("planner").select_option("")
    for name in ("reactree_wm.jsonl", "reactree.jsonl"):
        rows.filter(has=page.locator(f"td[title='{name}']")).get_by_role("checkbox").check()
    page.get_by_role("button", name="Side by side").click()
    expect(page.get_by_text("they differ from decision 5")).to_be_visible()
    expect(page.get_by_role("tree")).to_have_count(2)
    here = page.locator("tr.here td .text")
    expect(here.first).to_have_text("recall location of pudding")
    expect(here.last).to_contain_text("Now, I need to find")
    page.get_by_role("button", name="4", exact=True).click()
    expect(here.first).to_have_text(here.last.inner_text())
    page.get_by_role("link", name="Runs").click()
    page.get_by_role("link", name="Wash a plate").click()
    expect(page.locator(".outcome .chip")).to_have_text("Goal not reached")


def as_over_ros(record: Path, path: Path) -> Path:
    """Write a run as a planner node does: other times and names, and statuses, one by one, before the next request."""
    events: list[dict[str, Any]] = []
    for event in map(json.loads, record.read_text().splitlines()):
        event["t"] *= 3
        if event["e"] == "reply":
            event["answered_by"] = "/inference"
        if event["e"] == "status":
            at = len(events) - (events[-1]["e"] == "request")
            events[at:at] = [event | {"of": [one]} for one in event["of"]]
        else:
            events.append(event)
    events[0]["id"] = path.stem
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    return path


def test_a_run_over_ros_is_laid_beside_the_same_in_one_process(
    record: Path, tmp_path: Path, serve: Serve, open_page: Open
) -> None:
    as_over_ros(record, tmp_path / "ros.jsonl")
    page = open_page(f"{serve(tmp_path).url}#/compare/run.jsonl/ros.jsonl")
    expect(page.locator("header [role=status]")).to_have_text("they decide the same")
    for decision in range(0, 29, 4):
        page.get_by_label("Decision of both runs").fill(str(decision))
        expect(page.locator(".moves output")).to_have_text(f" {decision} of 28")
        settled(page)
        trees = page.get_by_role("tree").all_inner_texts()
        assert trees[0] == trees[1], decision


@pytest.mark.parametrize(
    ("first", "second", "said", "rows"),
    [
        ("run", "hiagent", "they differ from decision 1", ["To solve the task", "Subgoal 1: move the pudding"]),
        ("off", "gone", "neither has decided anything", []),
    ],
)
def test_runs_of_other_planners_and_without_decisions_are_laid_side_by_side(
    record: Path, tmp_path: Path, serve: Serve, open_page: Open, first: str, second: str, said: str, rows: list[str]
) -> None:
    demo(tmp_path / "hiagent.jsonl", name="hiagent").run()
    for name in ("off", "gone"):
        Lines(tmp_path / f"{name}.jsonl", "Wash a plate").end(end="model_gone")
    page = open_page(f"{serve(tmp_path).url}#/compare/{first}.jsonl/{second}.jsonl")
    expect(page.locator("header [role=status]")).to_have_text(said)
    here = page.locator("tr.here td .text")
    expect(here).to_have_count(len(rows))
    for cell, words in zip(here.all(), rows, strict=True):
        expect(cell).to_contain_text(words)


# ---------------------------------------------------------------------- what a person is told


def test_what_a_limit_kept_from_beginning_is_grey_and_counts_as_no_failure(
    tmp_path: Path, serve: Serve, open_page: Open
) -> None:
    path = tmp_path / "record.jsonl"
    demo(path, options=TreeOptions(max_steps=5)).run()
    moment = Moment.after(read_record(path).events)
    goals = [node for node in moment.nodes.values() if node.kind != "skill"]
    failed = [node for node in goals if node.status == "failure"]
    barred = [node for node in goals if not node.status and node.feedback]
    assert len(failed) > 1 < len(barred)
    page = open_page(serve(path).url)
    all_open(page)
    expect(page.locator("[role=treeitem].failure")).to_have_count(len(failed))
    expect(page.locator("[role=treeitem].idle")).to_have_count(len(goals) - len(failed))
    expect(page.get_by_label("Marks of the time line")).to_contain_text(
        f"{sum(node.kind == 'agent' for node in failed)} failures"
    )
    assert names(page) == tree_of(moment)


@pytest.mark.parametrize(
    ("result", "words", "status"),
    [
        ({"gsr": 1.0, "ssr": 1.0}, ("✓Goal reachedGSR 1.00, SSR 1.00", ""), "success"),
        ({"gsr": 0.0, "ssr": 0.5}, ("✗Goal not reachedGSR 0.00, SSR 0.50", "the goal does not hold"), "failure"),
        (
            {"gsr": 0.0, "ssr": 0.5, "unmet": ["apple on sofa (1 of 2)"]},
            (
                "✗Goal not reachedGSR 0.00, SSR 0.50; does not hold: apple on sofa (1 of 2)",
                "the goal does not hold:",
            ),
            "failure",
        ),
        ({}, ("≟Claimed, not checked", "the run had no goal to be judged by"), "claimed"),
        ({"end": "model_gone", "message": "it is off"}, ("✗Broken offmodel gone", "it is off"), "failure"),
        ({"end": "out_of_time", "reason": "9 s"}, ("✗Goal not reachedout of time", "out of time: 9 s"), "failure"),
    ],
)
def test_first_of_all_one_line_says_how_the_run_ended_and_opens_to_say_why(
    tmp_path: Path, serve: Serve, open_page: Open, result: dict[str, Any], words: tuple[str, str], status: str
) -> None:
    lines = Lines.of_root(tmp_path)
    lines.add("status", of=[[0, "success", "done"]])
    lines.end(**result)
    page = open_page(serve(lines.path).url, width=390, height=844)
    line, because = words
    expect(page.locator(".outcome summary")).to_have_text(line)
    expect(page.locator(".because")).to_be_hidden()
    page.locator(".outcome summary").click()
    expect(page.locator(".because")).to_contain_text(because)
    for pane in ("Node", "Run") if because else ():
        page.get_by_role("tab", name=pane).click()
        expect(page.get_by_role("tabpanel", name=pane)).not_to_contain_text(because)
    page.get_by_role("tab", name="Tree").click()
    expect(page.locator(f"[role=treeitem].{status}")).to_have_count(1)
    expect(page.locator(f".outcome .chip.{status}")).to_have_count(1)
    if status != "success":
        expect(page.locator(".outcome .chip.success, .outcome.success, [role=treeitem].success")).to_have_count(0)


def test_the_page_counts_as_the_terminal_does_and_explains_its_signs(
    record: Path, serve: Serve, open_page: Open
) -> None:
    page = open_page(serve(record).url)
    for words in ("GSR 1.00, SSR 1.00", "GSR: 1 if the whole goal holds"):
        expect(page.get_by_label("How the run stands")).to_contain_text(words)
    expect(page.get_by_title("Next refusal")).to_have_text("no refusals")
    expect(page.get_by_title("Next refusal")).to_be_disabled()
    expect(page.get_by_label("Marks of the time line")).to_contain_text("4 expansions")
    page.locator(".legend summary").click()
    for kind, (sign, does) in flows().items():
        expect(page.locator(".legend")).to_contain_text(f"{sign}{kind}: {does}")
    page.get_by_role("tab", name="World").click()
    expect(page.locator(".named")).to_have_text(["apple 2", "coffee table 1", "pudding 1"])
    page.get_by_role("tab", name="Run").click()
    spent = dict(
        zip(page.locator(".facts dt").all_inner_texts(), page.locator(".facts dd").all_inner_texts(), strict=True)
    )
    assert (spent["Agent nodes"], spent["Decisions"], spent["Steps"]) == ("8", "24", "16")


@pytest.mark.parametrize(
    "event",
    [
        {"e": "grow", "nodes": [{"node": 1, "parent": 1, "kind": "agent", "name": "of itself"}]},
        {"e": "grow", "nodes": [{"node": 0, "parent": 0, "kind": "agent", "name": "again"}]},
        {"e": "grow", "nodes": [{"node": 2, "parent": 3, "kind": "agent"}, {"node": 3, "parent": 2, "kind": "agent"}]},
        {"e": "grow", "nodes": 7},
        {"e": "status", "of": [None]},
        {"e": "retrieved", "node": 0, "experiences": [None]},
    ],
)
def test_what_makes_no_sense_in_a_stream_is_left_out_and_said(
    tmp_path: Path, serve: Serve, open_page: Open, event: dict[str, Any]
) -> None:
    """The server's reader refuses most of it before; the page must hang on nothing."""
    lines = Lines.of_root(tmp_path)
    stream = lines.path.read_text() + json.dumps({**event, "t": 1.0}) + "\n"
    lines.end()
    page = open_page("about:blank")
    page.route("**/api/events*", lambda route: route.fulfill(body=stream))
    page.goto(serve(lines.path).url)
    expect(page.locator("[role=treeitem]")).to_have_count(1)
    expect(page.locator(".outcome .odd")).to_contain_text("the first is event 2")


def test_a_moment_is_saved_as_a_file_or_the_menu_says_why_not(record: Path, serve: Serve, chromium: Any) -> None:
    page = chromium.new_page()
    page.goto(serve(record).url)
    expect(page.locator(".outcome .chip")).to_have_text(ENDED)
    held: list[Any] = []
    page.route("**/api/export*", lambda route: held.append(route))
    page.locator(".exports summary").click()
    page.get_by_role("menuitem", name="Growing tree, GIF").click()
    expect(page.locator(".saving")).to_have_text("Drawing …")
    with page.expect_download() as found:
        held[0].fulfill(body=b"GIF89a", content_type="image/gif")
    assert found.value.suggested_filename == "run_jsonl.gif"
    expect(page.locator(".saving")).to_be_hidden()
    page.get_by_role("menuitem", name="Tree, PNG").click()
    expect(page.locator(".saving")).to_have_text("Drawing …")
    held[1].fulfill(status=422, json={"error": "no font was found"})
    expect(page.locator(".saving")).to_have_text("no font was found")
    page.close()


def test_buttons_and_keys_do_nothing_before_the_record_comes(record: Path, serve: Serve, open_page: Open) -> None:
    page = open_page("about:blank")
    held: list[Any] = []
    page.route("**/api/events*", lambda route: held.append(route))
    page.goto(serve(record).url)
    for name in ("Fold what is done", "Open all", "Fold all"):
        page.get_by_role("button", name=name).click()
    for key in "0+-.,rfl 123":
        page.keyboard.press(key)
    held[0].continue_()
    expect(page.locator(".outcome .chip")).to_have_text(ENDED)


# ---------------------------------------------------------------------- a long run


def shown(page: Any) -> list[str]:
    """The names in the tree, from the top."""
    rows = page.locator("[role=treeitem]").all()
    rows.sort(key=lambda row: row.bounding_box()["y"])
    return [row.locator(".name").text_content().strip() for row in rows]


def row(page: Any, name: str) -> Any:
    return page.locator(f"[role=treeitem][title^='agent node: {name},']")


@pytest.fixture
def chore(tmp_path: Path) -> Path:
    return parted_run(tmp_path / "chore.jsonl")


def test_what_is_done_folds_into_one_line_and_the_way_to_what_failed_is_open(
    chore: Path, serve: Serve, open_page: Open
) -> None:
    page = open_page(serve(chore).url)
    expect(page.locator("[role=treeitem]")).to_have_count(9)
    failed = ["bring the milk", "sequence", "find the milk", "put the milk down"]
    assert shown(page) == ["Tidy up", "parallel", "bring the wine", *failed, "bring the plate", "bring the cup"]
    expect(row(page, "bring the wine")).to_have_attribute("aria-expanded", "false")
    expect(row(page, "bring the wine").locator(".many")).to_have_text("3 decisions")
    expect(row(page, "bring the milk").locator(".doing")).to_have_text("I cannot find the milk.")
    for name in ("put the milk down", "bring the plate", "bring the cup"):
        expect(row(page, name)).to_have_class(re.compile("idle"))
        expect(row(page, name).locator(".many")).to_have_text("not reached")
    expect(page.locator("[role=treeitem].flow.success > .doing").first).to_have_text("✓ 1 of 4")
    expect(page.get_by_label("Marks of the time line")).to_contain_text("2 failures")
    expect(page.locator("[role=treeitem][aria-selected=true]")).to_have_attribute(
        "title", "agent node: find the milk, failure"
    )
    row(page, "bring the wine").click()
    expect(page.locator("[role=treeitem]")).to_have_count(12)
    expect(page.locator("h2.goal")).to_have_text("bring the wine")
    row(page, "bring the wine").click()
    expect(page.locator("[role=treeitem]")).to_have_count(9)
    row(page, "bring the milk").locator(".twisty").click()
    expect(page.locator("[role=treeitem]")).to_have_count(6)
    page.get_by_role("button", name="Fold what is done").click()
    expect(page.locator("[role=treeitem]")).to_have_count(9)


def test_a_branch_that_runs_is_open_until_it_is_done(chore: Path, serve: Serve, open_page: Open) -> None:
    page = open_page(serve(chore).url)
    page.get_by_label("Decision to go to").fill("3")
    page.keyboard.press("Enter")
    expect(row(page, "bring the wine")).to_have_attribute("aria-expanded", "true")
    expect(page.locator("[role=treeitem].active")).to_have_count(5)
    page.get_by_label("Decision to go to").fill("6")
    page.keyboard.press("Enter")
    expect(row(page, "bring the wine")).to_have_attribute("aria-expanded", "false")


@pytest.mark.parametrize("width", [1400, 1000, 400])
def test_every_word_can_be_read_and_every_status_has_a_shape(
    chore: Path, serve: Serve, open_page: Open, width: int
) -> None:
    page = open_page(serve(chore).url, width=width)
    expect(row(page, "bring the cup")).to_be_visible()
    all_open(page)
    sizes = page.locator("[role=treeitem] *").evaluate_all(
        "all => all.filter(one => one.textContent.trim()).map(one => parseFloat(getComputedStyle(one).fontSize))"
    )
    assert min(sizes) >= 11
    marks: dict[str, set[str | None]] = {}
    for one in page.locator("[role=treeitem].goal").all():
        status = (one.get_attribute("title") or "").rpartition(", ")[2]
        marks.setdefault(status, set()).add(one.locator(".mark").get_attribute("d"))
    assert set(marks) == {"done in part", "success", "failure", "not reached"}
    assert len({mark for found in marks.values() for mark in found}) == len(marks)
    outline = "one => getComputedStyle(one).strokeDasharray"
    assert row(page, "bring the cup").locator(".body").evaluate(outline) != "none"
    assert row(page, "bring the wine").locator(".body").evaluate(outline) == "none"


def test_what_is_said_of_the_end_leads_to_the_branch(chore: Path, serve: Serve, open_page: Open) -> None:
    page = open_page(serve(chore).url)
    expect(page.locator(".outcome summary")).to_have_text("◐Done in part: 1 of 4out of decisions")
    page.locator(".outcome summary").click()
    expect(page.locator(".because li")).to_have_count(3)
    page.get_by_role("button", name="'bring the plate' was not reached").click()
    expect(page.locator("h2.goal")).to_have_text("bring the plate")
    expect(row(page, "bring the plate")).to_have_attribute("aria-selected", "true")
    page.get_by_role("button", name="'bring the milk' failed: I cannot find the milk.").click()
    expect(page.locator(".message")).to_have_text("I cannot find the milk.")  # as its row says
    page.get_by_role("button", name="out of decisions: all of the 6").click()
    expect(page.locator("h2.goal")).to_have_text("find the milk")  # which decided last


def test_a_verdict_of_many_parts_leaves_the_tree_its_place_and_rows_their_names(
    tmp_path: Path, serve: Serve, open_page: Open
) -> None:
    lines = Lines.of_root(tmp_path)
    goals = [f"move {number} of the water glasses on the coffee table" for number in range(30)]
    nodes = [{"node": at, "parent": 0, "kind": "agent", "name": one, "subgoal": one} for at, one in enumerate(goals, 1)]
    lines.add("grow", nodes=nodes)
    lines.add("status", of=[[at, "failure", "a long reason, " * 30] for at in range(31)])
    unmet = ["water glass on coffee table (3 of 30)", "tv turned on"]
    undone = [f"'{one}' failed: {'a long reason, ' * 30}" for one in goals]
    lines.end(end="failure", gsr=0.0, ssr=0.1, unmet=unmet, undone=undone)
    page = open_page(serve(lines.path).url)
    page.locator(".outcome summary").click()
    expect(page.get_by_role("button", name=f"'{goals[-1]}' failed")).to_have_count(1)
    assert page.locator(".outcome").bounding_box()["height"] < 0.3 * 800
    name = row(page, goals[0]).locator(".name")
    expect(name).to_have_text(goals[0])
    assert all(name.locator("span").evaluate_all("all => all.map(one => one.scrollWidth <= one.clientWidth)"))
    page.get_by_role("button", name=unmet[0]).click()  # although no branch says that it failed
    expect(page.locator("h2.goal")).to_have_text(goals[0])
    expect(page.get_by_role("button", name=unmet[1])).to_have_count(0)
    page.get_by_role("tab", name="Run").click()
    expect(page.locator("dt", has_text="Does not hold").locator("+ dd > div")).to_have_text(unmet)


def test_what_the_instruction_names_comes_first_and_says_if_it_was_never_seen(
    tmp_path: Path, serve: Serve, open_page: Open
) -> None:
    words = ["glasses", "water glass", "apple", "towel"]
    lines = Lines(tmp_path / "run.jsonl", "Put 2 water glasses and 1 apple on the table", recallable=words)
    lines.add("grow", nodes=[{"node": 0, "parent": None, "kind": "agent", "name": "root", "subgoal": "root"}])
    seen = [{"word": word, "instance": 1, "room": "kitchen 1"} for word in ("table", "sofa", "apple")]
    seen += [{"word": word, "instance": 1, "room": "kitchen 1", "states": ["CLOSED"]} for word in ("fridge", "apple")]
    lines.add("observation", node=0, of="execute", text="You see an apple.", outcome="done", seen=seen)
    page = open_page(serve(lines.path).url)
    page.get_by_role("tab", name="World").click()
    never_opened = page.locator("section", has=page.get_by_role("heading", name="Never opened")).locator("li")
    expect(never_opened).to_have_text(["fridge 1"])  # no apple is looked into
    expect(page.locator(".named")).to_have_text(["water glass", "apple 1", "table 1"])
    expect(page.locator("#panel-world li").first).to_have_text("water glassnever seen")
    expect(page.locator("#panel-world h2").first).to_have_text("Named in the instruction, and when last seen")


def test_words_are_searched_in_goals_decisions_and_observations(chore: Path, serve: Serve, open_page: Open) -> None:
    page = open_page(serve(chore).url)
    expect(page.locator("[role=treeitem]")).to_have_count(9)
    for words, found, names in (
        ("MILK", "3 nodes, 2 turns", ["bring the milk", "find the milk", "put the milk down"]),
        ("wine sink", "1 node, 1 turn", ["find the wine"]),
        ("moon", "1 node, 1 turn", ["find the wine"]),
        ("unicorn", "0 nodes, 0 turns", []),
    ):
        page.keyboard.press("/")
        page.keyboard.press("Control+a")
        page.keyboard.type(words)
        expect(page.locator(".found[role=status]")).to_have_text(found)
        hits = page.locator("[role=treeitem].goal:not(.beside) .name")
        expect(hits).to_have_count(len(names))
        assert set(names) == set(hits.all_text_contents())
        page.keyboard.press("Escape")
        expect(page.get_by_label("Search the run")).not_to_be_focused()


def test_what_is_found_is_gone_to_one_after_the_other(chore: Path, serve: Serve, open_page: Open) -> None:
    page = open_page(serve(chore).url)
    page.get_by_label("Search the run").fill("the milk")
    for said in ("Think: where may the milk be?", "Think: I cannot find the milk.", "Think: where may the milk be?"):
        page.keyboard.press("Enter")
        expect(page.locator(".turn.found", has_text=said)).to_be_in_viewport()
    page.get_by_label("Search the run").fill("sink")
    page.keyboard.press("Enter")
    expect(page.locator("h2.goal")).to_have_text("find the wine")
    expect(page.locator(".turn.found")).to_have_text(re.compile("You see a bottle of wine"))


@pytest.mark.parametrize(
    ("button", "said"),
    [
        ("Refused", ["Act: fly to the moon"]),
        ("Slow", ["Act: go to the kitchen"]),
        ("Token-rich", ["Think: where may the milk be?"]),
    ],
)
def test_decisions_are_filtered(chore: Path, serve: Serve, open_page: Open, button: str, said: list[str]) -> None:
    page = open_page(serve(chore).url)
    toggle = page.get_by_role("button", name=button, exact=True)
    toggle.click()
    expect(toggle).to_have_attribute("aria-pressed", "true")
    page.get_by_role("button", name="Next found").click()
    expect(page.locator(".turn.found .text")).to_have_text(said)
    page.get_by_label("Kind of decision").select_option("expand")
    expect(page.locator(".found[role=status]")).to_have_text("0 nodes, 0 turns")
    page.get_by_label("Kind of decision").select_option("")
    toggle.click()
    expect(page.locator("[role=treeitem]")).to_have_count(9 if "milk" in said[0] else 12)


def test_a_node_and_its_branch_tell_what_they_spent(chore: Path, serve: Serve, open_page: Open) -> None:
    page = open_page(serve(chore).url)
    row(page, "Tidy up").click()
    facts = page.locator(".panel:visible .facts")
    own = "1 decision, 1.0 s of the model, cost 0.000300"
    branch = "6 decisions, 1,460 tokens, 14 s of the model, cost 0.00340"
    expect(facts.locator("dt:text-is('Spent') + dd")).to_have_text(own)
    expect(facts.locator("dt:text-is('Its branch') + dd")).to_have_text(branch)
    expect(row(page, "Tidy up").locator(".tokens")).to_have_text("1,460")
    expect(row(page, "bring the wine").locator(".tag.bad")).to_have_text("▲ 1")
    page.get_by_role("tab", name="Run").click()
    expect(page.locator("dt:text-is('Cost') + dd")).to_have_text("0.00340")


def test_a_map_shows_the_whole_tree_and_leads_to_its_nodes(chore: Path, serve: Serve, open_page: Open) -> None:
    page = open_page(serve(chore).url)
    whole = page.get_by_role("img", name="Map of the whole tree: 12 behaviours")
    expect(whole).to_have_attribute("aria-label", re.compile("1 done in part, .* 3 failure, 3 not reached"))
    box = whole.bounding_box()
    for across in range(0, int(box["width"]), 15):  # the root is the only one at the upper edge
        page.mouse.click(box["x"] + across, box["y"] + 5)
    expect(page.locator("h2.goal")).to_have_text("Tidy up")


def test_the_address_is_that_of_the_moment_and_the_node(chore: Path, serve: Serve, open_page: Open) -> None:
    url = serve(chore).url
    page = open_page(url)
    expect(page.locator("[role=treeitem]")).to_have_count(9)
    page.get_by_label("Decision to go to").fill("3")
    page.keyboard.press("Enter")
    row(page, "find the wine").click()
    page.wait_for_url(re.compile(r"#/run/chore\.jsonl/\d+/7$"))
    fragment = page.url.partition("#")[2]
    other = open_page(f"{url}#{fragment}")
    expect(other.locator("h2.goal")).to_have_text("find the wine")
    expect(other.get_by_label("Decision to go to")).to_have_value("3")
    page.keyboard.press("l")
    page.wait_for_url(re.compile(r"#/run/chore\.jsonl//7$"))


# ---------------------------------------------------------------------- looks


def test_on_a_phone_nothing_is_wider_than_the_screen(record: Path, serve: Serve, open_page: Open) -> None:
    page = open_page(serve(record).url, width=360, height=740, has_touch=True)
    expect(page.locator(".outcome .chip")).to_have_text(ENDED)
    panes = [page.locator("#panel-tree"), *page.get_by_role("tabpanel", include_hidden=True).all()]
    for number, name in enumerate(("Tree", "Node", "World", "Run")):
        page.get_by_role("tab", name=name).click()
        for other, pane in enumerate(panes):
            expect(pane).to_be_visible(visible=other == number)
        assert page.evaluate("document.documentElement.scrollWidth") == 360
        box = panes[number].bounding_box()
        assert (box["width"], box["height"] > 740 / 2.5) == (360, True)
        expect(page.locator("footer.time")).to_be_in_viewport(ratio=0.9)
    assert page.locator(".outcome").bounding_box()["y"] == 0, "the verdict is on top"


def test_of_two_thousand_nodes_only_those_that_can_be_seen_are_drawn(
    tmp_path: Path, serve: Serve, open_page: Open
) -> None:
    drawn = {}
    for agents in (200, 2000):
        path = tmp_path / f"{agents}.jsonl"
        Wide(path, agents).write()
        page = open_page(serve(path).url)
        expect(page.locator(".outcome .chip")).to_have_text(ENDED)
        expect(page.locator(".moves .of")).to_have_text(f"of {agents:,}")
        page.get_by_role("tab", name="Run").click()
        expect(page.locator("dt:text-is('Agent nodes') + dd")).to_have_text(f"{agents:,}")
        page.get_by_label("Decision to go to").fill(str(agents // 2))
        page.keyboard.press("Enter")
        expect(page.locator("[role=treeitem].active").first).to_be_attached()
        settled(page)
        all_open(page)
        drawn[agents] = page.locator("[role=treeitem]").count()
        assert drawn[agents] < 60
    assert drawn[2000] < 2 * drawn[200]


def test_a_tree_of_two_thousand_levels_is_shown_and_folded(tmp_path: Path, serve: Serve, open_page: Open) -> None:
    deep(tmp_path / "run.jsonl", 2000)
    page = open_page(serve(tmp_path / "run.jsonl").url)
    expect(page.locator("h2.goal")).to_have_text("go 2000 deep")
    expect(page.locator("[role=treeitem][aria-level='3999']")).to_be_visible()
    assert page.locator("[role=treeitem]").count() < 60
    page.keyboard.press("t")
    page.keyboard.press("Home")
    expect(page.locator(".node.selected")).to_have_attribute("aria-level", "1")
    page.keyboard.press("Space")
    expect(page.locator("[role=treeitem]")).to_have_count(1)


# ---------------------------------------------------------------------- words that are not what they seem

HOSTILE = (
    '<img src=x onerror="document.title=1"><script>document.title=2</script>\x1b[31m \u202egnp \u05d0\u05d1 \ud83d'
)


def test_hostile_words_are_shown_as_words(tmp_path: Path, serve: Serve, open_page: Open) -> None:
    lines = Lines(tmp_path / "run.jsonl", HOSTILE)
    node = {"node": 0, "parent": None, "kind": "agent", "name": HOSTILE, "subgoal": HOSTILE, "depth": 1}
    lines.add("grow", nodes=[node])
    lines.add("started", node=0, index=0, decision=1)
    lines.add("status", of=[[0, "running", HOSTILE]])
    seen = [{"word": HOSTILE, "instance": 1, "room": HOSTILE, "place": HOSTILE, "states": [HOSTILE]}]
    spots = [{"name": name, "x": 1.0, "y": 2.0} for name in ("", f"{HOSTILE} 2")]
    look = {"text": HOSTILE, "outcome": "precondition", "seen": seen, "rooms": [HOSTILE], "spots": spots}
    lines.add("observation", node=0, of="observe", **look)
    lines.add("turn", node=0, saw=HOSTILE)
    lines.add("turn", node=0, saw="x" * 1_000_000)
    lines.add("request", node=0, id="0.1", turns=[0, 2], may_say={"kind": "text", "stops": []})
    attempts = [{"text": HOSTILE, "objection": HOSTILE}, {}]
    lines.add("reply", node=0, id="0.1", text=HOSTILE, reasoning=HOSTILE, answered_by=HOSTILE, attempts=attempts)
    lines.add("refused", node=0, said=HOSTILE, reason=HOSTILE, decisions=1, steps=0)
    lines.add("turn", node=0, said=HOSTILE)
    lines.add("failed", node=0, of="reply", type=HOSTILE, message=HOSTILE, kind="model_gone")
    lines.add("held", node=0, reason=HOSTILE)
    lines.end(end="model_gone", message=HOSTILE, decisions=1)
    page = open_page(serve(tmp_path).url)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    shown = '<img src=x onerror="document.title=1"><script>document.title=2</script>␛[31m <202E>gnp \u05d0\u05d1 \ufffd'
    page.get_by_role("link", name="<img").click()
    expect(page.locator("h2.goal")).to_have_text(shown)
    expect(page.locator(".top h1")).to_have_text(shown)
    whole = page.get_by_role("button", name="Show all 1,000,000 characters")
    whole.click()
    expect(whole).to_be_hidden()
    assert len(page.locator(".turn.saw .text").nth(1).inner_text()) == 1_000_000
    for tab in ("World", "Run"):
        page.get_by_role("tab", name=tab).click()
        expect(page.locator(".panel:visible")).to_contain_text("<script>")
        if tab == "World":
            expect(page.locator(".map circle")).to_have_attribute("aria-label", f"{shown} 2, at 1.0, 2.0 m")
    assert page.locator("img, main script").count() == 0
    assert page.title() not in ("1", "2")
    assert {url.split("/", 3)[2] for url in asked} == {page.url.split("/", 3)[2]}


def test_the_token_leaves_the_address_line_and_no_script_reads_it(
    tmp_path: Path, serve: Serve, open_page: Open
) -> None:
    page = open_page(f"{serve(Lines(tmp_path / 'run.jsonl', 'root').path).url}#/latest")
    expect(page.locator("h1")).to_be_visible()
    assert ("token" in page.url, page.url.endswith("/#/latest")) == (False, True)
    assert page.evaluate("[document.cookie, document.referrer]") == ["", ""]
