"""Pictures in records: kept within bounds, found again by replay, resume and fork, and shown by exports."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from doubles import ScriptedModel, ScriptedWorld
from drawn import data_of, drawn, png
from recorded_runs import Kept, assert_replays, recorded_episode

from reactree_ros.agent.observation import Observation
from reactree_ros.agent.picture import PICTURES, picture_of
from reactree_ros.background.pending import Pending
from reactree_ros.episode.going_on import decision_of, go_on
from reactree_ros.llm.port import DecisionRequest, Reply
from reactree_ros.llm.seeing import Seeing
from reactree_ros.record import checking
from reactree_ros.record.export import write_pictures
from reactree_ros.record.moment import Moment
from reactree_ros.record.reader import Record, RecordError, read_record
from reactree_ros.view.exports import export

SCRIPT = {"root": [*["Act: open fridge 1"] * 4, "Act: done"]}


class Camera(ScriptedWorld):
    """A world that shows a picture after each skill; the first comes again as the third."""

    def __init__(self) -> None:
        super().__init__()
        self._shades = iter((1, 2, 1, 3))

    def execute(self, skill: str) -> Pending[Observation]:
        shade = next(self._shades)
        taken = drawn(shade, camera="head", words=f"shade {shade}")
        return Pending.ready(Observation("You look.", pictures=(taken,)))


class Dark(ScriptedWorld):
    """The same world, which draws nothing any more."""

    def execute(self, skill: str) -> Pending[Observation]:
        return Pending.ready(Observation("You look."))


class Looking(ScriptedModel):
    """Says what it is told to, and keeps what it was shown."""

    def __init__(self) -> None:
        super().__init__(SCRIPT)
        self.shown: list[list[bytes]] = []

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        showing = Seeing().shown(request.turns)
        self.shown.append([one.data for number in sorted(showing) for one in showing[number]])
        return super().decide(request)


@pytest.fixture
def run() -> tuple[Looking, Kept]:
    model = Looking()
    episode, kept = recorded_episode(SCRIPT, world=Camera(), model=model)
    assert episode.run().end == "done"
    return model, kept


def written(kept: Kept, file: Path, change: Callable[[dict[str, Any]], None] = lambda event: None) -> Path:
    """Write a record, with its observations changed."""
    events = [json.loads(line) for line in kept.lines]
    for event in events:
        if event["e"] == "observation":
            change(event)
    file.write_text("".join(f"{json.dumps(event)}\n" for event in events))
    return file


def forget() -> None:
    """Forget all pictures, as another process has none."""
    PICTURES._kept.clear()
    PICTURES._size = 0


def test_a_prompts_turns_hold_what_was_seen_and_no_text_holds_bytes(run: tuple[Looking, Kept]) -> None:
    model, kept = run
    first, second, third = (data_of(drawn(shade)) for shade in (1, 2, 3))
    assert model.shown == [[], [first], [first, second], [first, second, first], [first, second, first, third]]
    said = [json.dumps(event) for event in kept.record.events if event["e"] != "observation"]
    assert not any(base64.b64encode(first).decode()[:40] in one for one in said)
    assert_replays(kept)


def test_a_fork_and_a_resumed_run_show_the_pictures_of_the_record(run: tuple[Looking, Kept], tmp_path: Path) -> None:
    before, kept = run
    record = read_record(written(kept, tmp_path / "run.jsonl"))
    forget()
    model, again = Looking(), Kept()
    model.script = {"root": ["Act: done"]}
    episode = go_on(record, decision_of(record, 4), world=Dark(), model=model, write=again.write)
    assert episode.run().end == "done"
    assert model.shown == [before.shown[3]]
    assert [
        one["id"] for event in again.events_of("observation") for one in event.get("pictures", ()) if "data" in one
    ] == [
        drawn(1).id,
        drawn(2).id,
    ]


def test_pictures_are_exported_in_their_own_form_each_time_that_they_were_seen(
    run: tuple[Looking, Kept], tmp_path: Path
) -> None:
    assert write_pictures(run[1].record, tmp_path / "pictures") == 4
    found = {path.name: path.read_bytes() for path in (tmp_path / "pictures").iterdir()}
    assert sorted(found) == [f"{step:03d}_open_fridge_1_head.png" for step in range(1, 5)]
    assert found["003_open_fridge_1_head.png"] == data_of(drawn(1))


def test_markdown_shows_them_where_they_were_seen(run: tuple[Looking, Kept]) -> None:
    told = export(run[1].record, "markdown").decode()
    addresses = [line for line in told.split("\n") if line.startswith("![")]
    data = [base64.b64encode(data_of(drawn(shade))).decode() for shade in (1, 2, 1, 3)]
    assert addresses == [f"![a picture](data:image/png;base64,{one})" for one in data]
    before, _, after = told.partition(addresses[1])
    assert "Picture of camera head: shade 2" in before
    assert "Picture of camera head: shade 3" in after


def test_a_picture_whose_bytes_were_left_out_is_not_shown(run: tuple[Looking, Kept]) -> None:
    events = [
        event | {"pictures": [{name: one[name] for name in one if name != "data"} for one in event["pictures"]]}
        if "pictures" in event
        else event
        for event in run[1].record.events
    ]
    assert "![" not in export(Record(events), "markdown").decode()
    assert Moment.after(events).pictures == {}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"data": "not base64!"}, "the picture is not base64"),
        ({"data": base64.b64encode(png(width=9)).decode()}, "has other bytes than its id says"),
        ({"media": "text/html"}, "pictures.0.media"),
        ({"media": "image/svg+xml"}, "pictures.0.media"),
        ({"id": 7}, "pictures.0.id"),
        ({"width": -1}, "pictures.0.width"),
    ],
)
def test_a_record_with_a_picture_that_is_none_is_refused(
    run: tuple[Looking, Kept], tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    def break_it(event: dict[str, Any]) -> None:
        for picture in event.get("pictures", ()):
            picture.update(change)

    with pytest.raises(RecordError, match=said):
        read_record(written(run[1], tmp_path / "run.jsonl", break_it))


def test_a_record_with_too_many_bytes_of_pictures_is_refused(
    run: tuple[Looking, Kept], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checking, "ALL_PICTURES", 2 * drawn(1).size)
    file = written(run[1], tmp_path / "run.jsonl")
    with pytest.raises(RecordError, match="a picture has at most"):
        read_record(file)


def test_a_picture_in_words_is_the_same_line_for_every_model() -> None:
    seen = Observation("You look.", pictures=(picture_of(png()), drawn(1, words="a cup"), drawn(2, camera="hand")))
    assert seen.full_text == "You look.\nPicture: a cup"
