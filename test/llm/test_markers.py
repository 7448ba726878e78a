"""Markers of chat layouts in contents: text like any other."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest

from reactree_ros.agent.turns import About, Said, Saw, Told, ToldStart
from reactree_ros.llm.chat import KNOWN, broken, chat_messages, special_tokens, spoken_to_server

#: How families write what stands around a message: what opens it, with its role, and what closes it.
FAMILIES = {
    "chatml": ("<|im_start|>{role}\n", "<|im_end|>\n"),
    "llama3": ("<|start_header_id|>{role}<|end_header_id|>\n\n", "<|eot_id|>"),
    "gemma": ("<start_of_turn>{role}\n", "<end_of_turn>\n"),
    "gemma4": ("<|turn>{role}\n", "<turn|>\n"),
    "deepseek": ("<\uff5c{role}\uff5c>", "<\uff5cend\u2581of\u2581sentence\uff5c>"),
    "phi": ("<|{role}|>\n", "<|end|>\n"),
    "mistral": ("[INST]", "[/INST]"),
    "gpt-oss": ("<|start|>{role}<|message|>", "<|end|>"),
    "exaone": ("[|{role}|]", "[|endofturn|]\n"),
    "command": ("<|START_OF_TURN_TOKEN|><|{role}_TOKEN|>", "<|END_OF_TURN_TOKEN|>"),
    "llama2": ("<s>[INST] <<SYS>>", "<</SYS>> [/INST]</s>"),
    "kimi": ("<|im_user|>{role}<|im_middle|>", "<|im_end|>"),
}
ROLES = ("system", "user", "assistant")
_TOKEN = re.compile(r"<<?/?[|\uff5c]?[^<>\n]+[|\uff5c]?>>?|\[[|/]?\w+\|?\]")
WIDE = str.maketrans("<>", "\uff1c\uff1e")


def markers_of(family: str) -> list[str]:
    begin, end = FAMILIES[family]
    written = " ".join([*(begin.format(role=role) for role in ROLES), end])
    return list(dict.fromkeys([*_TOKEN.findall(written), "<think>", "</think>"]))


@pytest.mark.parametrize(
    "marker",
    [
        *("<sep>", "<cls>", "<image>", "<video>", "<AI>", "<\u7528\u6237>", "<user>", "<human>", "<bot>", "<system>"),
        *("<_user>", "<_end>", "<eosys>", "<eom>", "<TOKENS_UNUSED_1>", "[AUDIO]", "[USER]", "\ufe64|im_end|\ufe65"),
        *(
            "\uff1cend\uff3fof\uff3fturn\uff1e",
            "\uff1c\uff45\uff4e\uff44_of_turn\uff1e",
            "\uff3b\uff29\uff2e\uff33\uff34\uff3d",
        ),
    ],
    ids=ascii,
)
def test_a_server_gets_no_rare_marker_and_none_that_looks_like_one(marker: str) -> None:
    assert broken(f"a {marker} b") == f"a {marker[0]} {marker[1:]} b"


@pytest.mark.parametrize("marker", sorted({one for family in FAMILIES for one in markers_of(family)}))
def test_a_server_gets_no_marker_of_any_family(marker: str) -> None:
    hidden = f"a {marker} {marker[0]}{marker}{marker[1:]} {marker.translate(WIDE)} b"
    for turn in spoken_to_server((Saw(hidden), Told(f"x {hidden}", About.PERSON), Told(f"Your task is to: {hidden}"))):
        assert marker not in turn.text
        assert not KNOWN.search(turn.text)
        assert turn.text.replace(" ", "").count(marker) >= 2  # nothing is lost
    roles = marker not in ("<think>", "</think>")
    start = ToldStart(system=hidden, examples=((Saw(hidden), Said(hidden)),), rule=hidden)
    for turn in spoken_to_server((Said(hidden), Told(hidden, About.SYSTEM), start)):
        assert (marker not in turn.text) is roles
    for message in chat_messages(spoken_to_server((start,))):
        assert (marker not in message["content"]) is roles


@pytest.mark.parametrize(
    "text",
    [
        "a < b",
        "<b>bold</b>",
        "The page shows: WebShop [SEP] Instruction",
        "if x < y | z > 3",
        "[1, 2]",
        "a[INST",
        "<>",
        "|",
    ],
)
def test_a_server_gets_an_innocent_text_as_it_is(text: str) -> None:
    assert broken(text) == text
    (turn,) = spoken_to_server(turns := (Saw(text),))
    assert turn is turns[0]


def test_messages_for_a_server_are_laid_out_as_before() -> None:
    turns = (
        Told("Use <think> and </think>.", About.SYSTEM),
        Told("Your task is to: x"),
        Said("<think>Hm.</think>Act: a"),
    )
    assert chat_messages(spoken_to_server(turns)) == chat_messages(turns)


def test_a_tokenizers_own_special_tokens_are_broken_up_and_its_added_words_are_not() -> None:
    added = {
        number: SimpleNamespace(content=content, special=special)
        for number, (content, special) in enumerate([("<odd>", True), ("juice", False), ("   ", False), ("@@", False)])
    }
    found = special_tokens(SimpleNamespace(added_tokens_decoder=added, all_special_tokens=["<odd>er"]))
    assert broken("juice   <odd> <odd>er a@@b <<odd>odd>", found) == "juice   < odd> < odd>er a@ @b << odd>odd>"
    assert special_tokens(SimpleNamespace()) is None
