"""What a record is written out as: SVG, dot, Markdown; what is in it stays words."""

from __future__ import annotations

import json
import struct
from base64 import b64encode
from collections.abc import Iterator
from datetime import datetime
from functools import partial
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from command_line import Cli
from drawn import data_of, drawn, png
from view.writing import DEMO, Lines, Wide, deep, demo, parted_run

from reactree_ros.agent.text import in_one_line, visible
from reactree_ros.errors import UserError
from reactree_ros.files.xml import Element, parse_xml
from reactree_ros.record.moment import Moment
from reactree_ros.record.reader import Record, read_record
from reactree_ros.record.schema import value_to_dict
from reactree_ros.view import drawing, film, growing
from reactree_ros.view.exports import export, write_exports
from reactree_ros.view.terminal import DEEPEST, tree_rows

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = '</text><script>alert(1)</script> "&`|\x1b[31m \u202eevil \ud83d ]]> | ``` \x00'


@pytest.fixture
def record(tmp_path: Path) -> Record:
    demo(tmp_path / "run.jsonl").run()
    return read_record(tmp_path / "run.jsonl")


@pytest.fixture
def hostile(tmp_path: Path) -> Record:
    lines = Lines(tmp_path / "hostile.jsonl", HOSTILE)
    node = {"node": 0, "parent": None, "kind": "agent", "name": HOSTILE, "subgoal": HOSTILE, "depth": 1}
    lines.add("grow", nodes=[node])
    lines.add("started", node=0, index=0, decision=1)
    lines.add("status", of=[[0, "running", HOSTILE]])
    lines.add("turn", node=0, saw=HOSTILE)
    lines.add("turn", node=0, said=HOSTILE)
    lines.add("turn", node=0, told=HOSTILE, about="refusal")
    lines.end(message=HOSTILE)
    return read_record(lines.path)


def test_the_tree_is_drawn_with_circles_for_agent_nodes_and_squares_for_control_flow(record: Record) -> None:
    drawn = ElementTree.fromstring(export(record, "svg"))
    assert len(drawn.findall(f"{SVG}circle")) == 13
    signs = [text.text for text in drawn.findall(f"{SVG}text") if text.text in ("→", "?", "⇉")]
    assert signs == ["⇉", "→", "?", "→"]
    assert drawn.findtext(f"{SVG}title") == DEMO


def test_a_tree_is_drawn_as_it_was_at_an_event(record: Record) -> None:
    early = ElementTree.fromstring(export(record, "svg", 8))
    assert len(early.findall(f"{SVG}circle")) == 1
    assert export(record, "svg", 10**9) == export(record, "svg")
    assert ElementTree.fromstring(export(record, "svg", 0)).findall(f"{SVG}circle") == []


def test_dot_has_every_node_and_edge(record: Record) -> None:
    dot = export(record, "dot").decode()
    assert (dot.count("[label="), dot.count(" -> ")) == (17, 16)


def test_markdown_tells_every_goal_node_in_order(record: Record) -> None:
    told = export(record, "markdown").decode()
    headings = [line for line in told.splitlines() if line.startswith("## ")]
    assert len(headings) == 8
    assert headings[0] == f"## 1. `{DEMO}`"
    assert told.count("**Decision**") == 28


def test_hostile_words_stay_words_in_every_export(hostile: Record) -> None:
    drawn = ElementTree.fromstring(export(hostile, "svg"))
    assert {one.tag.removeprefix(SVG) for one in drawn.iter()} == {"svg", "title", "rect", "circle", "text"}
    told = export(hostile, "markdown").decode()
    code = [line for line in told.splitlines() if "<script>" in line]
    assert all("`" in line or line.startswith("</text>") for line in code)
    assert "````\n</text><script>" in told
    for kind in ("svg", "growing", "dot", "markdown"):
        text = export(hostile, kind).decode()
        assert not set(text) & {"\x00", "\x1b", "\u202e"}


@pytest.mark.slow
def test_a_tree_of_two_thousand_levels_is_drawn_and_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawing, "LONGEST", 6000)
    deep(tmp_path / "deep.jsonl", 2000)
    record = read_record(tmp_path / "deep.jsonl")
    drawn = ElementTree.fromstring(export(record, "svg"))
    assert len(drawn.findall(f"{SVG}circle")) == 2000
    assert export(record, "dot").decode().count(" -> ") == 3998
    assert "go 2000 deep" in export(record, "markdown").decode()
    moment = Moment.after(record.events)
    rows = [str(row) for row in tree_rows(moment, folded=True)]
    assert rows[0].endswith("go 1 deep")
    assert rows[-1] == f"{'  ' * DEEPEST}(3998) ● go 2000 deep"
    assert max(map(len, rows)) < 80
    if find_spec("resvg_py"):
        png = export(record, "png")
        width, height = struct.unpack(">II", png[16:24])
        assert 5000 < height <= 6000 > width


def test_the_growing_tree_shows_each_decision_as_it_was_with_its_words(record: Record) -> None:
    found = ElementTree.fromstring(export(record, "growing"))
    moments, moment = [], Moment()
    for event in record.events:
        moment.apply(event)
        if event["e"] == "turn" and "said" in event:
            words = f"{moment.decisions} of 24: {in_one_line(event['said'])}"
            moments.append((drawing.draw(moment, drawing.places_in(Moment.after(record.events))), words))
    whole = len(moments) * growing.EACH + growing.LAST
    for number, (tree, said) in enumerate(moments):
        now = (number + 0.5) * growing.EACH / whole
        seen = [one for part in found for one in _seen_at(part, now)]
        *nodes, caption = sorted(seen, key=lambda one: one.get("font-family") == "monospace")
        told = {ElementTree.tostring(one).strip() for one in nodes if one not in found[:2]}
        inner = ElementTree.fromstring(f'<svg xmlns="{SVG[1:-1]}">{"".join(tree)}</svg>')
        assert told == {ElementTree.tostring(one) for one in inner}
        assert said.startswith((caption.text or "").removesuffix(" …"))


def _seen_at(part: ElementTree.Element, now: float) -> list[ElementTree.Element]:
    """What is seen of a part of a moving SVG at a share of its time."""
    animate = part.find(f"{SVG}animate")
    if animate is None:
        return [part]
    times, values = (animate.attrib[name].split(";") for name in ("keyTimes", "values"))
    at = max(number for number, time in enumerate(times) if float(time) <= now)
    return part[1:] if values[at] == "visible" else []


def test_what_would_be_obeyed_is_shown() -> None:
    assert visible("a\x1b[0m\u202eb\ud83d\x7f\tc\n") == "a␛[0m<202E>b\ufffd␡\tc\n"


def test_several_runs_are_written_into_a_folder_each_under_a_name_of_its_own(record: Record, tmp_path: Path) -> None:
    write_exports([record, record], "dot", tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["0001_run.dot", "0002_run.dot"]
    write_exports([record], "markdown", tmp_path / "run.md")
    assert (tmp_path / "run.md").read_bytes() == export(record, "markdown")


def test_a_png_has_the_tree_or_says_what_to_install(cli: Cli, record: Record, tmp_path: Path) -> None:
    ended = cli("record", "export", record.path, "--as", "png", "--out", tmp_path / "tree.png")
    if find_spec("resvg_py"):
        assert (tmp_path / "tree.png").read_bytes().startswith(b"\x89PNG")
    else:
        assert (ended.code, "-m pip install " in ended.err) == (2, True)


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[float], ElementTree.Element]]:
    """Collect the frames of films, each with its box, in place of making pictures of them."""
    pytest.importorskip("resvg_py")
    found: list[tuple[list[float], ElementTree.Element]] = []

    def empty(svg: str, width: int) -> bytes:
        one = ElementTree.fromstring(svg)
        box = [float(side) for side in one.attrib["viewBox"].split()]
        found.append((box, one))
        return png()

    monkeypatch.setattr(film, "png_of", empty)
    return found


@pytest.mark.slow
def test_a_film_has_the_frames_of_the_growing_tree(record: Record, shown: Any) -> None:
    places = drawing.places_in(Moment.after(record.events))
    for form in ("gif", "mp4") if find_spec("av") else ("gif",):
        shown.clear()
        export(record, form)
        frames = list(growing.frames(record.events, places))
        assert len(frames) == len(shown) == 29
        for frame, (_, svg) in zip(frames, shown, strict=True):
            tree = ElementTree.fromstring(f'<svg xmlns="{SVG[1:-1]}"><g>{"".join(frame.tree)}</g></svg>')
            assert ElementTree.tostring(tree[0]) == ElementTree.tostring(svg.find(f"{SVG}g")).strip()
            assert svg[-1].text == frame.caption


@pytest.mark.slow
def test_a_gif_and_an_mp4_show_each_decision_for_as_long_as_the_svg(tmp_path: Path) -> None:
    pytest.importorskip("resvg_py")
    record = read_record(parted_run(tmp_path / "run.jsonl"))
    image = pytest.importorskip("PIL.Image").open(BytesIO(export(record, "gif")))
    times = []
    for number in range(image.n_frames):
        image.seek(number)
        times.append(image.info["duration"])
    assert times == [550] * 6 + [4000]
    assert (image.info["loop"], image.convert("RGB").getpixel((0, 0))) == (0, (255, 255, 255))
    with pytest.importorskip("av").open(BytesIO(export(record, "mp4"))) as made:
        stream = made.streams.video[0]
        assert (stream.codec_context.name, stream.pix_fmt) == ("h264", "yuv420p")
        assert (stream.width, stream.height) == image.size
        assert (stream.width, stream.height % 2) == (1280, 0)
        frames = [frame.to_ndarray(format="gray") for frame in made.decode(stream)]
    assert len(frames) == 6 + round(4 / 0.55)
    assert (frames[5] < 100).sum() > 2 * (frames[0] < 100).sum() > 0, "the tree grows"


@pytest.mark.slow
def test_in_a_film_of_a_long_run_all_words_can_be_read_and_the_node_at_work_is_seen(tmp_path: Path, shown: Any) -> None:
    Wide(tmp_path / "wide.jsonl", 240).write()
    record = read_record(tmp_path / "wide.jsonl")
    export(record, "gif")
    assert 100 < len(shown) <= film.MOST + 1
    *decisions, (end, last) = shown
    captions = [svg[-1].text or "" for _, svg in decisions]
    assert captions[-1].startswith("240 of 240: ")
    frames = growing.frames(record.events, drawing.places_in(Moment.after(record.events)), film.MOST)
    for frame, ((left, top, width, height), svg) in zip(frames, decisions, strict=False):
        assert frame.at is not None
        assert left < frame.at[0] < left + width
        assert top < frame.at[1] < top + height - float(svg[-1].attrib["font-size"])
        assert 12 * film.WIDEST / width >= 11
    assert end[2] > 10_000
    assert (last.findtext(f"{SVG}style") or "").startswith("g text { display: none }")
    assert (last[-1].text or "").startswith("Claimed")


@pytest.mark.parametrize(("form", "lacks"), [("gif", "PIL"), ("mp4", "av")])
def test_a_film_without_its_packages_says_what_to_install(
    record: Record, monkeypatch: pytest.MonkeyPatch, form: str, lacks: str
) -> None:
    monkeypatch.setattr(film, "find_spec", lambda name: None if name == lacks else name)
    with pytest.raises(UserError, match=r"needs pillow, resvg-py and av: .* -m pip install .*'av>="):
        export(record, form)


@pytest.mark.parametrize("form", ["png", "gif", "mp4"])
def test_no_picture_is_made_without_words(record: Record, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    resvg = pytest.importorskip("resvg_py")
    pytest.importorskip("av")
    monkeypatch.setattr(resvg, "svg_to_bytes", partial(resvg.svg_to_bytes, skip_system_fonts=True))
    with pytest.raises(UserError, match="no font was found"):
        export(record, form)


def test_a_film_that_is_interrupted_leaves_no_file(
    record: Record, shown: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made = film.png_of

    def until_the_fifth(svg: str, width: int) -> bytes:
        if len(shown) == 4:
            raise KeyboardInterrupt
        return made(svg, width)

    monkeypatch.setattr(film, "png_of", until_the_fifth)
    out = tmp_path / "out"
    out.mkdir()
    for records in ([record], [record, record]):
        shown.clear()
        with pytest.raises(KeyboardInterrupt):
            write_exports(records, "gif", out / "film")
        assert list(out.iterdir()) == []


def test_an_mcap_file_has_every_event_and_a_log_or_says_what_to_install(
    cli: Cli, record: Record, hostile: Record, tmp_path: Path
) -> None:
    ended = cli("record", "export", record.path, "--as", "mcap", "--out", tmp_path / "run.mcap")
    if not find_spec("mcap"):
        assert (ended.code, "-m pip install " in ended.err) == (2, True)
        return
    messages = read_mcap((tmp_path / "run.mcap").read_bytes())
    assert [value for topic, _, value in messages if topic.startswith("/record/")] == list(record.events)
    log = [value for topic, _, value in messages if topic == "/log"]
    assert (log[0]["message"], log[-1]["message"]) == (DEMO, "Goal reached (end: done, GSR 1.00, SSR 1.00)")
    times = [time for _, time, _ in messages]
    assert times == sorted(times)
    took = record.events[-1]["t"] - record.events[0]["t"]
    assert times[-1] - times[0] == pytest.approx(took * 1e9, abs=1)
    assert read_mcap(export(hostile, "mcap"))[0][2]["instruction"] == HOSTILE


def test_a_picture_is_one_that_foxglove_shows(tmp_path: Path) -> None:
    pytest.importorskip("mcap")
    lines = Lines(tmp_path / "run.jsonl", "Look")
    lines.add("grow", nodes=[{"node": 0, "parent": None, "kind": "agent", "name": "Look"}])
    shown = drawn()
    data = b64encode(data_of(shown)).decode()
    pictures = [value_to_dict(shown) | {"data": data}]
    lines.add("observation", node=0, of="observe", text="A kitchen.", outcome="done", pictures=pictures)
    messages = read_mcap(export(read_record(lines.path), "mcap"))
    (picture,) = [value for topic, _, value in messages if topic == "/picture"]
    assert (picture["format"], picture["data"]) == ("png", data)
    assert [value["message"] for topic, _, value in messages if topic == "/log"] == ["Look", "A kitchen."]


def read_mcap(content: bytes) -> list[tuple[str, int, dict[str, Any]]]:
    """Return the messages of an MCAP file: topic, time in nanoseconds, and what is in them."""
    from mcap.reader import make_reader

    found = make_reader(BytesIO(content)).iter_messages(log_time_order=False)
    return [(channel.topic, message.log_time, json.loads(message.data)) for _, channel, message in found]


def read_btlog(content: bytes) -> tuple[Element, int, list[tuple[float, int, int]]]:
    """Return what a log of BehaviorTree.CPP holds: its file of XML, when it began, and each change."""
    assert content[:19] == b"BTCPP4-FileLogger2\x01"
    (size,) = struct.unpack_from("<i", content, 19)
    (began,) = struct.unpack_from("<q", content, 23 + size)
    rest = content[31 + size :]
    assert len(rest) % 9 == 0
    parts = [rest[at : at + 9] for at in range(0, len(rest), 9)]
    changes = [(int.from_bytes(one[:6], "little") / 1e6, *struct.unpack("<HB", one[6:])) for one in parts]
    return parse_xml(content[23 : 23 + size].decode()), began, changes


def _below(element: Element) -> Iterator[Element]:
    yield element
    for child in element.children:
        yield from _below(child)


def test_groot2_replays_the_tree_that_the_run_had_come_to(record: Record) -> None:
    root, began, changes = read_btlog(export(record, "btlog"))
    moment = Moment.after(record.events)
    (tree,) = root.named("BehaviorTree")
    nodes = {int(one.attributes["_uid"]) - 1: one for one in _below(tree.children[0])}
    assert {number: one.attributes["name"] for number, one in nodes.items()} == {
        number: node.subgoal or node.name for number, node in moment.nodes.items()
    }
    assert [one.tag for one in nodes.values()].count("ParallelAll") == 1
    assert began == round(datetime.fromisoformat(record.events[0]["started"]).timestamp() * 1e6)
    last = {uid - 1: status for _, uid, status in changes}
    codes = {"running": 1, "success": 2, "failure": 3, "interrupted": 0}
    assert last == {number: codes[node.status] for number, node in moment.nodes.items() if node.status}
    times = [time for time, _, _ in changes]
    assert times == sorted(times)
    assert changes[0][1:] == (1, 1)  # the root runs first


@pytest.mark.slow
def test_a_log_for_groot2_takes_hostile_and_deep_trees(hostile: Record, tmp_path: Path) -> None:
    root, _, _ = read_btlog(export(hostile, "btlog"))
    (tree,) = root.named("BehaviorTree")
    assert "script" in tree.children[0].attributes["name"]
    deep(tmp_path / "deep.jsonl", 2400)
    assert export(read_record(tmp_path / "deep.jsonl"), "btlog").startswith(b"BTCPP4")
