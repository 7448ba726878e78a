"""What a server was found to do is remembered: it is not tried again, until it turns out wrong or is forgotten."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import takewhile
from operator import eq
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from clients import GRAMMAR_OF_THREE, PATIENCE, Model, ask, decided, refusal
from openai_peer import GRAMMAR, JSON_SCHEMA, Peer, Request, chatml, fails, written

from reactree_ros.agent.turns import About, Said, Saw, Told
from reactree_ros.files.folders import user_cache
from reactree_ros.llm.chat import ChatLayout
from reactree_ros.llm.known import KEPT, Known, Subject, folder, forget_all, recall, remember
from reactree_ros.llm.openai.trials import Thoughts
from reactree_ros.llm.port import DecisionRequest, PromptTooLong

if TYPE_CHECKING:
    from command_line import Cli

ACT = "Act: go to kitchen 1"
SECRET = "sk-Hush4711hush4711hush"
SUBJECT = Subject(address="http://127.0.0.1:1/v1", model="tiny", version="1", asked="")
KNOWN = Known(
    chat=True,
    markers=True,
    layout=ChatLayout(system=False),
    thoughts=Thoughts.FIELD,
    dialect="vllm",
    constraints=frozenset({GRAMMAR}),
)
#: Servers of all kinds, as far as what is found out of them differs.
SERVERS: dict[str, dict[str, Any]] = {
    "vLLM, a base model": {"owned_by": "vllm"},
    "vLLM, a chat": {"owned_by": "vllm", "chats": True},
    "vLLM, which thinks": {"owned_by": "vllm", "chats": True, "thinks": "reasoning"},
    "llama.cpp": {"owned_by": "llamacpp", "chats": True, "obeys": (GRAMMAR,)},
    "llama.cpp, a base model": {"owned_by": "llamacpp", "chats": True, "template": chatml},
    "a hosted one": {"owned_by": "openai", "chats": True, "obeys": (JSON_SCHEMA,)},
    "one that obeys nothing": {"owned_by": "hosted", "chats": True, "obeys": ()},
}


def server(**more: Any) -> Peer:
    return Peer(**{"say": lambda prompt: ACT, **more})


def trials(peer: Peer) -> list[Request]:
    """Return the texts that were generated only to find something out, and forget all requests."""
    found = [one for one in peer.requests if one.path.endswith("/completions") and one.is_a_trial]
    peer.requests.clear()
    return found


def notes() -> list[Path]:
    return sorted(folder().glob("*"))


# ---------------------------------------------------------------------- remembered


@pytest.mark.parametrize("kind", SERVERS.values(), ids=SERVERS)
def test_what_was_found_out_is_not_tried_again(model: Model, kind: dict[str, Any]) -> None:
    with server(**kind) as peer:
        first = model(peer)
        assert decided(ask(first)) == ACT
        asked = peer.asked[-1].body
        assert trials(peer)
        second = model(peer)
        assert decided(ask(second)) == ACT
        assert peer.asked[-1].body == asked
        assert not trials(peer)
        assert second.status()["what it can do"].startswith("remembered")
        same = ("constraints", "method", "prompts", "chat layout", "thinks", "max_tokens")
        assert [second.status().get(name) for name in same] == [first.status().get(name) for name in same]


CHANGES: dict[str, Callable[[Peer], object]] = {
    "another build": lambda peer: setattr(peer, "build", "b2"),
    "a longer context": lambda peer: setattr(peer, "context", 50),
    "another chat template": lambda peer: setattr(peer, "template", chatml),
    "another model": lambda peer: setattr(peer, "models", ("large",)),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_another_version_is_tried_anew(model: Model, change: Callable[[Peer], object]) -> None:
    with server(owned_by="llamacpp", chats=True, markers=("<|im_start|>",)) as peer:
        ask(model(peer))
        assert trials(peer)
        change(peer)
        ask(model(peer))
        assert trials(peer)


@pytest.mark.parametrize("settings", [{"thinking": False}, {"chat": False}, {"extra_body": {"top_k": 20}}])
def test_other_settings_are_tried_anew(model: Model, settings: dict[str, Any]) -> None:
    with server(chats=True) as peer:
        ask(model(peer))
        assert trials(peer)
        ask(model(peer, **settings))
        assert trials(peer)
        ask(model(peer, **settings))
        assert not trials(peer)


def test_nothing_is_remembered_where_that_is_set(model: Model) -> None:
    with server() as peer:
        for _ in range(2):
            ask(model(peer, remember=False))
            assert trials(peer)
        assert not notes()


def test_a_thought_that_shows_only_later_is_remembered(model: Model) -> None:
    with server(chats=True) as peer:
        one = model(peer)
        ask(one)
        peer.thinks = "reasoning"
        ask(one)
        assert model(peer).ready().result(PATIENCE) is None
        later = model(peer)
        ask(later)
        assert later.status()["thinks"] == Thoughts.FIELD.value


# ---------------------------------------------------------------------- wrong


@pytest.mark.parametrize("owner", ["hosted", "vllm"])
def test_a_server_that_refuses_what_it_did_is_tried_again_within_the_request(model: Model, owner: str) -> None:
    class Gateway(Peer):
        """Shows nothing of its template, so that nothing tells that it has changed."""

        def answer(self, exchange: Any) -> None:
            if exchange.request.path == "/tokenize":
                exchange.reply(404, {"detail": "Not Found"})
            else:
                super().answer(exchange)

    with Gateway(owned_by=owner, speaks="vllm", chats=True, say=lambda prompt: ACT) as peer:
        ask(model(peer))
        peer.chats = False
        one = model(peer)
        one.ready().result(PATIENCE)
        pending = [one.decide(DecisionRequest((Told("Say."),), GRAMMAR_OF_THREE)) for _ in range(4)]
        assert [decided(each.result(PATIENCE)) for each in pending] == [ACT] * 4
        assert one.status()["prompts"] == "completion"
        trials(peer)
        ask(model(peer))
        assert not trials(peer), "what was found out instead is remembered"


def test_a_server_that_ignores_what_it_obeyed_is_tried_again(model: Model) -> None:
    said = iter(["I would go.", "I would go.", ACT])
    with server(owned_by="llamacpp", obeys=(GRAMMAR,)) as peer:
        ask(model(peer))
        peer.obeys, peer.say = frozenset(), lambda prompt: next(said, ACT)
        one = model(peer)
        assert decided(ask(one)) == ACT
        assert decided(ask(one)) == ACT
        assert one.status()["constraints"] == "none"
        assert "what it can do" not in one.status()
        trials(peer)
        assert decided(ask(one)) == ACT
        assert not trials(peer), "what was tried is not doubted"


@pytest.mark.parametrize("method", ["unconstrained", "free_first", "form_first", "one_schema"])
def test_a_reply_that_was_free_to_be_wrong_shows_nothing_of_the_server(model: Model, method: str) -> None:
    said = iter(["Act: fly"])
    with server() as peer:
        ask(model(peer))
        peer.say = lambda prompt: next(said, ACT)
        one = model(peer, method=method)
        reply = ask(one)
        assert (decided(reply), len(reply.in_vain)) == (ACT, 1)
        assert one.status()["what it can do"].startswith("remembered")


def test_a_request_that_is_refused_for_itself_is_refused(model: Model) -> None:
    with server() as peer:
        ask(model(peer))
        peer.script.extend([fails(400, "bad grammar")] * 9)
        one = model(peer)
        assert "bad grammar" in str(refusal(one))
        trials(peer)
        assert "bad grammar" in str(refusal(one))
        assert not trials(peer), "what was tried is not doubted"


# ---------------------------------------------------------------------- what is no note

NO_NOTES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda note: b"",
    "cut": lambda note: note[:-20],
    "no text": lambda note: b"\xff\x00" * 9,
    "a list": lambda note: b"[]",
    "nested": lambda note: b"[" * 100_000,
    "another program's": lambda note: b'{"version": 3}',
    "an unknown field": lambda note: note.replace(b'"known":', b'"speed":1,"known":'),
    "an unknown dialect": lambda note: note.replace(b'"vllm"', b'"klingon"'),
    "an unknown constraint": lambda note: note.replace(b'"grammar"', b'"haiku"'),
    "a constraint of another dialect": lambda note: note.replace(b'"vllm"', b'"llamacpp"'),
    "a word for a switch": lambda note: note.replace(b'"chat":false', b'"chat":"no"'),
    "no time": lambda note: note.replace(b'"found":', b'"found":1e999'),
}


@pytest.mark.parametrize("change", NO_NOTES.values(), ids=NO_NOTES)
def test_a_broken_note_is_ignored_with_one_line(
    model: Model, caplog: pytest.LogCaptureFixture, warnings: Callable[[], list[str]], change: Callable[[bytes], bytes]
) -> None:
    with server() as peer:
        ask(model(peer))
        assert trials(peer)
        (note,) = notes()
        changed = change(whole := note.read_bytes())
        assert changed != whole
        note.write_bytes(changed)
        caplog.clear()
        assert decided(ask(model(peer))) == ACT
        assert trials(peer)
        told = warnings()
        assert told
        assert all(str(note) in one and "\n" not in one for one in told)
        ask(model(peer))
        assert not trials(peer), "a good note has taken its place"


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo], ids=["a folder", "a pipe"])
def test_what_is_no_file_is_ignored(caplog: pytest.LogCaptureFixture, make: Callable[[Path], None]) -> None:
    SUBJECT.note.parent.mkdir(parents=True)
    make(SUBJECT.note)
    assert recall(SUBJECT) == Known()
    assert f"{SUBJECT.note}: is no file" in caplog.text


@pytest.mark.parametrize("age", [KEPT + 60, -86400.0], ids=["too old", "of tomorrow"])
def test_a_note_counts_for_a_while(age: float) -> None:
    remember(SUBJECT, **vars(KNOWN))
    assert recall(SUBJECT) == KNOWN
    content = json.loads(SUBJECT.note.read_text())
    SUBJECT.note.write_text(json.dumps({**content, "found": time.time() - age}))
    assert recall(SUBJECT) == Known()


def test_what_is_added_does_not_make_a_note_younger() -> None:
    remember(SUBJECT, chat=True)
    content = json.loads(SUBJECT.note.read_text())
    SUBJECT.note.write_text(json.dumps({**content, "found": content["found"] - KEPT / 2}))
    remember(SUBJECT, markers=True)
    assert recall(SUBJECT) == Known(chat=True, markers=True)
    assert json.loads(SUBJECT.note.read_text())["found"] == content["found"] - KEPT / 2


def test_a_folder_that_cannot_be_written_is_told_once_and_changes_nothing(
    model: Model, warnings: Callable[[], list[str]]
) -> None:
    user_cache().parent.mkdir(parents=True)
    user_cache().write_text("in the way")
    with server() as peer:
        assert decided(ask(model(peer))) == ACT
    (warning,) = warnings()
    assert "what a server can do is not remembered" in warning


def test_a_relative_folder_of_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for value in ("", ".", "cache"):
        monkeypatch.setenv("XDG_CACHE_HOME", value)
        monkeypatch.setenv("HOME", str(tmp_path))
        assert user_cache() == tmp_path / ".cache" / "reactree"
        monkeypatch.setenv("HOME", "h")
        assert user_cache().is_absolute()


# ---------------------------------------------------------------------- keys, processes


def test_no_key_is_in_a_note_or_its_name(model: Model, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text(SECRET)

    class Behind(Peer):
        """Its address holds a key."""

        def answer(self, exchange: Any) -> None:
            exchange.request.path = exchange.request.path.removeprefix(f"/{SECRET}")
            super().answer(exchange)

    with Behind(key=SECRET, say=lambda prompt: ACT, models=(f"tiny-{SECRET}",)) as peer:
        url = peer.base_url.replace("/v1", f"/{SECRET}/v1")
        ask(model(url, api_key_file=str(key), extra_body={"route": f"a/{SECRET}"}))
        (note,) = notes()
        assert SECRET.encode() not in os.fsencode(note) + note.read_bytes()
        assert stat.S_IMODE(note.parent.stat().st_mode) == 0o700


#: Writes and reads one note many times; whatever is not as it should be is printed.
WRITES = """
import sys
from reactree_ros.llm.known import Known, Subject, recall, remember
subject = Subject(address="http://127.0.0.1:1/v1", model="tiny", version="1", asked="")
for turn in range(60):
    remember(subject, chat=True, markers=bool(turn % 2), dialect="vllm")
    found = recall(subject)
    if not (found.chat and found.dialect == "vllm"):
        print(found)
"""


def test_several_processes_write_at_once() -> None:
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    processes = [subprocess.Popen([sys.executable, "-c", WRITES], **pipes) for _ in range(3)]
    assert [one.communicate(timeout=120)[0] for one in processes] == ["", "", ""]
    assert notes() == [SUBJECT.note]


# ---------------------------------------------------------------------- forgotten


def test_the_command_forgets_everything_or_one_server(cli: Cli) -> None:
    other = replace(SUBJECT, address="http://127.0.0.1:2/v1")
    for one in (SUBJECT, other):
        remember(one, chat=True)
    (folder() / "broken.json").write_text("{")
    ended = cli("llm", "forget", "--base-url", "http://127.0.0.1:2")
    assert (ended.code, ended.out) == (0, "forgotten: tiny at http://127.0.0.1:2/v1\n")
    assert recall(SUBJECT).chat
    assert not recall(other).chat
    ended = cli("llm", "forget")
    assert ended.out.count("\n") == 2
    assert "tiny at http://127.0.0.1:1/v1" in ended.out
    assert "broken.json, which cannot be read" in ended.out
    assert not notes()
    assert cli("llm", "forget").out == f"forgotten: nothing; {folder()} is empty\n"


def test_a_url_that_is_none_is_told(cli: Cli) -> None:
    ended = cli("llm", "forget", "--base-url", "nonsense")
    assert ended.code == 2
    assert "is no URL of a server" in ended.err


def test_what_is_forgotten_is_tried_again(model: Model) -> None:
    with server() as peer:
        ask(model(peer))
        trials(peer)
        assert len(list(forget_all(peer.base_url))) == 1
        ask(model(peer))
        assert trials(peer)


# ---------------------------------------------------------------------- a server with one slot

START = Told("You are a robot. " + "Here is how it goes. " * 40, About.SYSTEM)
TURNS = (START, Told("Your task is to: x"), Said("Think: a"), Saw("You a."))


class OneSlot(Peer):
    """Keeps the last prompt only, and counts the tokens that are not in it."""

    kept: Sequence[int] = ()
    read = 0

    def text(self, exchange: Any) -> None:
        tokens = self.tokens(self.rendered(exchange.request))
        common = sum(1 for _ in takewhile(bool, map(eq, self.kept, tokens)))
        self.kept, self.read = tokens, self.read + len(tokens) - common
        super().text(exchange)


@pytest.mark.parametrize(("owner", "chat"), [("llamacpp", None), ("llamacpp", False), ("vllm", None)])
def test_a_server_is_tried_with_the_first_prompt(model: Model, owner: str, chat: bool | None) -> None:
    with server(owned_by=owner, chats=True) as peer:
        one = model(peer, chat=chat)
        one.ready().result(PATIENCE)
        assert not trials(peer)
        assert one.status()["what it can do"] == "tried with the first prompt"
        assert decided(ask(one, *TURNS)) == ACT
        asked = [each for each in peer.requests if each.path.endswith("/completions")]
        assert len(asked) > 2
        assert all(each.prompt.startswith(START.text) for each in asked)
        assert "what it can do" not in one.status()


@pytest.mark.parametrize("chats", [True, False], ids=["chat", "text"])
@pytest.mark.parametrize("owner", ["llamacpp", "vllm"])
def test_trials_leave_the_prompt_that_follows_in_the_cache(model: Model, owner: str, chats: bool) -> None:
    with OneSlot(owned_by=owner, chats=chats, say=lambda prompt: ACT) as peer:
        one = model(peer)
        one.ready().result(PATIENCE)
        peer.read = 0
        assert decided(ask(one, *TURNS)) == ACT
        prompt = len(peer.kept)
        assert len(trials(peer)) >= 3
        assert peer.read < 1.6 * prompt, "the beginning is read once"
        peer.read = 0
        ask(model(peer), *TURNS)
        assert peer.read == 0, "without a trial, all of it is still there"


def test_trials_share_nothing_where_every_token_is_billed(model: Model) -> None:
    with server(owned_by="openai", chats=True, obeys=(JSON_SCHEMA,)) as peer:
        ask(model(peer), *TURNS)
        assert all("how it goes" not in one.prompt for one in trials(peer))


@pytest.mark.parametrize("owner", ["llamacpp", "vllm"])
def test_a_beginning_that_is_too_long_for_a_trial_is_told_as_that_of_the_prompt(model: Model, owner: str) -> None:
    with server(owned_by=owner, chats=True, context=120) as peer:
        one = model(peer)
        with pytest.raises(PromptTooLong) as untried:
            ask(one, *TURNS, max_tokens=64)
        assert decided(ask(one, Told("You are a robot.", About.SYSTEM), *TURNS[1:], max_tokens=64)) == ACT
        with pytest.raises(PromptTooLong) as tried:
            ask(one, *TURNS, max_tokens=64)
    assert untried.value.excess == tried.value.excess > 0


# ---------------------------------------------------------------------- base models

MARKED = ("<|im_start|>", "<|im_end|>")


def llama2(messages: Any) -> str:
    """A template most of whose markers are spelled out: only that of the end is a token."""
    return "<s>" + "".join(f"[INST] {one['content']} [/INST]</s>" for one in messages)


TEMPLATES: dict[str, tuple[Any, tuple[str, ...], bool]] = {
    "ChatML, and its markers are tokens": (chatml, MARKED, True),
    "ChatML, and they are not": (chatml, ("<start_of_turn>", "<s>"), False),
    "one of its markers is a token": (llama2, ("<s>", "</s>"), True),
    "only what begins every text is a token": (llama2, ("<s>",), False),
    "a template without markers": (written, (), True),
}


@pytest.mark.parametrize("owner", ["llamacpp", "vllm"])
@pytest.mark.parametrize(("template", "markers", "is_chat"), TEMPLATES.values(), ids=TEMPLATES)
def test_a_chat_whose_markers_the_model_spells_out_is_none(
    model: Model, template: Any, markers: tuple[str, ...], is_chat: bool, owner: str
) -> None:
    with server(owned_by=owner, chats=True, template=template, markers=markers) as peer:
        for _ in range(2):  # tried, and remembered
            one = model(peer)
            assert decided(ask(one, *TURNS)) == ACT
            assert peer.asked[-1].is_a_chat is is_chat
            assert one.status()["prompts"].startswith("chat" if is_chat else "completion: no marker of its chat")
        forced = model(peer, chat=True)
        ask(forced, *TURNS)
        assert peer.asked[-1].is_a_chat
