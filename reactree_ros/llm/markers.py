"""Markers: what chat layouts put around messages, such as ``<|im_end|>``; in a message they are text like any other.

Where prompts are encoded here, a marker in a message is encoded in two parts, so that it is spelled and never a control
token. A server encodes them itself: there a marker is broken up by a space. Texts without markers stay as they are.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from reactree_ros.agent.turns import About, Said, Told, Turn

#: Where a text is encoded in two parts; a noncharacter, which :mod:`reactree_ros.agent.foreign` takes out of texts.
SEAM = "\ufdd0"

_NAME = r"[^<>\[\]|\uff5c\n]{1,64}"
_THOUGHT = r"</?(?:seed:)?think(?:ing)?>|\[/?THINK\]|\u25c1/?think\u25b7"
#: Of the well-known families: ChatML, Llama 2 to 4, Mistral, Gemma, DeepSeek, Phi, gpt-oss, GLM, Command R, Granite,
#: EXAONE, Kimi, Seed, MiniMax, T5 and their relatives.
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
#: Signs and letters that some tokenizers take for those of the keyboard.
_WIDE = {0xFEE0 + code: code for code in range(0x21, 0x7F) if code != ord("|")} | {
    **dict.fromkeys((0xFE64, 0x2039, 0x3008), ord("<")),
    **dict.fromkeys((0xFE65, 0x203A, 0x3009), ord(">")),
}


@dataclass(frozen=True)
class Markers:
    """Markers of a model.

    Attributes:
        tokens: Finds those that are tokens.
        loose: Finds those that the tokenizer finds in a text that it has normalized, in such a text.
        written: Finds those that its chat template writes as text.
        normalize: What the tokenizer makes of a text before it looks for these.
    """

    tokens: re.Pattern[str] | None = None
    loose: re.Pattern[str] | None = None
    written: re.Pattern[str] | None = None
    normalize: Callable[[str], str] = str

    @classmethod
    def of(cls, tokenizer: Any) -> Markers:
        """Return the markers of a tokenizer: its special tokens, what was added to it beside words, its template's."""
        added = list(getattr(tokenizer, "added_tokens_decoder", {}).values())
        tokens = {one.content for one in added if one.special or not _is_words(one.content)}
        tokens |= set(map(str, getattr(tokenizer, "all_special_tokens", ())))
        normalizer = getattr(getattr(tokenizer, "backend_tokenizer", None), "normalizer", None)
        normalize = str if normalizer is None else normalizer.normalize_str
        loose = {_folded(normalize(one.content)) for one in added if one.normalized and one.content in tokens}
        written = {found[0] for found in KNOWN.finditer(str(getattr(tokenizer, "chat_template", None)))}
        return cls(_any_of(tokens), _any_of(loose), _any_of(written - tokens), normalize)

    def apart(self, text: str) -> str:
        """Return a text of which no marker is left: spelled in parts, or broken up where it is written as text."""
        if self.written is not None:
            text = _broken(text, self.written, " ")
        if self.tokens is not None:
            text = _broken(text, self.tokens, SEAM)
        if self._are_loose(text):
            lines = (SEAM.join(line) if self._are_loose(line) else line for line in text.split("\n"))
            text = "\n".join(lines)  # what stands on other lines stays as a prefix cache has it
            text = SEAM.join(text) if self._are_loose(text) else text
        return text

    def _are_loose(self, text: str) -> bool:
        if self.loose is None:
            return False
        return any(self.loose.search(_folded(self.normalize(part))) for part in text.split(SEAM))

    def count(self, text: str) -> int:
        """Count those that are tokens."""
        return 0 if self.tokens is None else len(self.tokens.findall(text))


def encoded(tokenizer: Any, text: str, *, begins: bool) -> list[int]:
    """Return the tokens of a text that may have seams; ``begins``: with those that every text begins with."""
    first, *rest = text.split(SEAM)
    tokens = list(tokenizer.encode(first, add_special_tokens=begins))
    for part in rest:
        tokens += tokenizer.encode(part, add_special_tokens=False)
    return tokens


def spoken_to_server(turns: Sequence[Turn]) -> tuple[Turn, ...]:
    """Return turns for a server that lays them out and encodes them: with markers of all known families broken up.

    The marks of a thought stay in what the model said and in the system text, which may ask for them.
    """
    return tuple(_for_server(turn) for turn in turns)


def _for_server(turn: Turn) -> Turn:
    thinks = isinstance(turn, Said) or (isinstance(turn, Told) and turn.about is About.SYSTEM)
    text = broken(turn.text, _ROLES if thinks else KNOWN)
    return turn if text == turn.text else replace(turn, text=text)


def broken(text: str, markers: re.Pattern[str] | None = None) -> str:
    """Return a text with a space in every marker of the known families."""
    return _broken(text, markers or KNOWN, " ")


def _broken(text: str, markers: re.Pattern[str], gap: str) -> str:
    """Put a gap into markers until there is none, also none that another one hid."""
    while starts := [found.start() for found in markers.finditer(text.translate(_WIDE))]:
        ends = [*starts[1:], len(text)]
        parts = (f"{text[start]}{gap}{text[start + 1 : end]}" for start, end in zip(starts, ends, strict=True))
        text = "".join([text[: starts[0]], *parts])
    return text


def _any_of(markers: Iterable[str]) -> re.Pattern[str] | None:
    """Return what finds these, the longest first; of one character there are no parts."""
    parts = sorted({one for one in markers if len(one) > 1 and one.strip()}, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, parts))) if parts else None


def _is_words(text: str) -> bool:
    return all(one.isalnum() or one.isspace() for one in text)


def _folded(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()


KNOWN = re.compile(f"{_THOUGHT}|{_FAMILIES}")
_ROLES = re.compile(f"(?!{_THOUGHT})(?:{_FAMILIES})")
