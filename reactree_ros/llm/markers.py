"""Neutralizes markers such as ``<|im_end|>``, which chat layouts put around messages, inside of a message.

A space breaks a marker up, so that it is spelled out and never a control token. Texts without markers stay unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from reactree_ros.agent.turns import About, Said, Told, ToldStart, Turn

_NAME = r"[^<>\[\]|\uff5c\n]{1,64}"
_THOUGHT = r"</?(?:seed:)?think(?:ing)?>|\[/?THINK\]|\u25c1/?think\u25b7"
#: Markers of well-known families: ChatML, Llama 2 to 4, Mistral, Gemma, DeepSeek, Phi, gpt-oss, GLM, Command R,
#: Granite, EXAONE, Kimi, Seed, MiniMax, T5 and their relatives.
_FAMILIES = (
    rf"<[|\uff5c]{_NAME}[|\uff5c]>|<[|\uff5c]/?\w[\w-]{{0,40}}>|</?\w[\w-]{{0,40}}[|\uff5c]>|\[\|{_NAME}\|\]"
    r"|</?(?:s|unk|pad|bos|eos|mask|sop|sep|cls|eop|eod|eoh|eoa|eot|eom|eosys|reponame|filename)>"
    r"|</?_?(?:[Uu]ser|USER|[Bb]ot|[Hh]uman|AI|[Aa]ssistant|ASSISTANT|[Ss]ystem|SYSTEM|end|\u7528\u6237)>"
    r"|<(?:image|video|audio|img|IMG|AUDIO)>|<[a-z]{1,20}(?:_[a-z]{1,20}){1,5}>"
    r"|<(?:unused|reserved_|reserved_token_|extra_id_|SPECIAL_|TOKENS_UNUSED_)\d{1,6}>|<<?/?SYS>>?"
    r"|\[/?(?:INST|ARGS|IMG|AUDIO|USER|SYSTEM|ASSISTANT|PREFIX|MIDDLE|SUFFIX|[gs]MASK|control_\d{1,5}|[A-Z]{2,20}(?:_[A-Z\d]{1,20}){1,4})\]"
    r"|</?dsml:|\uff5c[A-Z]{2,12}\uff5c(?!>)"
    r"|</?(?:[a-z]{1,20}:)?(?:tools?|tool_calls?|tool_responses?|tool_results?|function_calls?)>"
    r"|</?seed:\w{1,40}>|\u25c1/?\w{1,40}\u25b7|\]~!?b[\[\]]|\[e~\["
)
#: Lookalikes that some tokenizers take for ASCII characters.
_WIDE = {0xFEE0 + code: code for code in range(0x21, 0x7F) if code != ord("|")} | {
    **dict.fromkeys((0xFE64, 0x2039, 0x3008), ord("<")),
    **dict.fromkeys((0xFE65, 0x203A, 0x3009), ord(">")),
}

#: Why a model with a chat template gets its prompts as text.
NO_CHAT = "no marker of its chat template is a token of the model, as of base models"


def special_tokens(tokenizer: Any) -> re.Pattern[str] | None:
    """Return what finds a tokenizer's special tokens, and those added ones that are no words; None if it has none."""
    added = getattr(tokenizer, "added_tokens_decoder", {}).values()
    named = {one.content for one in added if one.special or not _is_words(one.content)}
    named |= set(map(str, getattr(tokenizer, "all_special_tokens", ())))
    longest = sorted({one for one in named if len(one) > 1 and one.strip()}, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest))) if longest else None


def spoken_to_server(turns: Sequence[Turn]) -> tuple[Turn, ...]:
    """Return turns for a server that encodes them itself, with markers of all known families broken up.

    Reasoning marks stay in replies and in the system text, which may ask for them.
    """
    return tuple(_for_server(turn) for turn in turns)


def _for_server(turn: Turn) -> Turn:
    if isinstance(turn, ToldStart):
        return _start_for_server(turn)
    thinks = isinstance(turn, Said) or (isinstance(turn, Told) and turn.about is About.SYSTEM)
    text = broken(turn.text, _ROLES if thinks else KNOWN)
    return turn if text == turn.text else replace(turn, text=text)


@lru_cache(maxsize=64)  # each request of a node has it
def _start_for_server(start: ToldStart) -> ToldStart:
    return start.with_texts(lambda text: broken(text, _ROLES))


def broken(text: str, markers: re.Pattern[str] | None = None) -> str:
    """Return a text with a space in every marker, by default of the known families.

    Markers that appear only after a space are broken up, too.
    """
    markers = markers or KNOWN
    while starts := [found.start() for found in markers.finditer(text.translate(_WIDE))]:
        ends = [*starts[1:], len(text)]
        parts = (f"{text[start]} {text[start + 1 : end]}" for start, end in zip(starts, ends, strict=True))
        text = "".join([text[: starts[0]], *parts])
    return text


def markers_of_chat(written: str) -> list[str]:
    """Return the markers of the known families in what a chat template wrote, without one that begins the text."""
    return sorted({found[0] for found in KNOWN.finditer(written) if found.start()})


def is_chat(tokens: Sequence[int]) -> bool | None:
    """Return whether a model knows its chat template, by the number of tokens of each marker; None without markers.

    llama.cpp offers ChatML for a model without a template. A base model spells all of its markers out; a model that is
    trained to chat has at least one of them as a token.
    """
    return min(tokens) == 1 if tokens else None


def _is_words(text: str) -> bool:
    return all(one.isalnum() or one.isspace() for one in text)


KNOWN = re.compile(f"{_THOUGHT}|{_FAMILIES}")
_ROLES = re.compile(f"(?!{_THOUGHT})(?:{_FAMILIES})")
