"""The words of a text, without capitals, quotes, brackets and typography."""

from __future__ import annotations

import re
import unicodedata

_PLAIN: dict[int, str | None] = {
    **{0xFF01 + code: chr(0x21 + code) for code in range(94)},  # full width
    **dict.fromkeys(map(ord, "“”„‟«»"), '"'),
    **dict.fromkeys((0x2018, 0x2019, 0x201A, 0x201B), "'"),
    **dict.fromkeys((0xA0, 0x2007, 0x2009, 0x200A, 0x202F, 0x3000), " "),
    **dict.fromkeys((0xAD, 0x200B, 0x200C, 0x200D, 0x2060, 0xFE0F, 0xFEFF), None),  # invisible
    **dict.fromkeys((0x2010, 0x2011), "-"),
    **dict.fromkeys((0x2014, 0x2015), "–"),
    **dict.fromkeys((0x0B, 0x0C, 0x85, 0x2028, 0x2029), "\n"),
}
_MARKUP = r"[\s\"'`()\[\]<>{}#_*,:]+|(?<=\w)-(?=\w)"
_TOKEN = re.compile(rf"{_MARKUP}|((?<!\w)-?\d+(?:\.\d+)*|[^\W\d_]+|\d+|.)", re.DOTALL)
_LAST_STOP = re.compile(r"[.!,;](?=[\s\"'`)\]*_]*\Z)")
# What an instruction says is not to be touched: "not the juice, …", "leave the juice", but "leave it on the desk".
_REST = r"(?:(?!,| but )[^.;:!?\n])*"
_NOT = r"(?:not|never|(?:do|must|should)n?['\u2019]?t)\b(?! (?:to )?(?:forget|ignore|leave|only|skip|spare)\b)"
_LEAVE = r"(?<!not )(?<!n't )(?<!dont )(?<!to )(?<!never )(?:forget|ignore|keep|leave|skip|spare)\b(?! to\b)"
_IT = r"(?:(?! (?:and|at|but|here|in|inside|into|on|onto|there|to)\b)[^,.;:!?\n])*"
_EXCLUDED = re.compile(
    rf"\b(?:{_NOT}{_REST}|(?:avoid|except|instead of|no|rather than|without)\b{_REST}"
    rf"|{_LEAVE}{_IT}(?=[,.;:!?\n]| but | and (?!an?\b|my\b|the\b|\d)|$))",
    re.IGNORECASE,
)
_ARTICLE = re.compile(r"(?<!\w)(?:an?|An|AN|[Tt]he|THE)\s+(?=[^\W\d_])")


def typed(text: str) -> str:
    """Return a text in the characters that a keyboard has, as far as they differ in looks alone."""
    return text.replace("\r\n", "\n").replace("\r", "\n").translate(_PLAIN)


def words(text: str) -> tuple[str, ...]:
    """Return the words, numbers and signs of a text, in lower case, without markup."""
    text = unicodedata.normalize("NFC", typed(text)).casefold()
    if not text.rstrip("\"'`)]*_ ").endswith(".."):
        text = _LAST_STOP.sub("", text)
    return tuple(filter(None, _TOKEN.findall(text)))


def without_articles(text: str) -> str:
    return _ARTICLE.sub("", text)


def same_words(one: str, other: str) -> bool:
    """Return whether two instructions have the same words; case, spaces and final full stops do not matter."""
    first, second = (text.lower().strip(" .").split() for text in (one, other))
    return first == second


def names(text: str, word: str) -> bool:
    is_in = word.lower() in text.lower()  # which is quick to see
    return is_in and re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text, re.IGNORECASE) is not None


def without_excluded(text: str) -> str:
    """Return an instruction without what it says is not to be touched, e.g. "not the juice", up to the next pause."""
    return _EXCLUDED.sub("", text)


#: Signs that neither end a skill nor join two.
_SIGNS = frozenset(" '-_()[]#/%°*")
_IN_NUMBERS = re.compile(r"(?<=\d)[.,](?=\d)")
#: Words by which a text asks for several skills, or for one that was said before.
_SEVERAL = re.compile(
    r"(?<![^\s])(?:and|then|but|except|all|everything|every|each|both|it|them|again|g)(?![^\s])", re.I
)


def plain_skill(said: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", said).split())


def more_than_one(said: str) -> str:
    """Say why a skill may be more than one; empty if it is one."""
    if len(said.strip().splitlines()) > 1:
        return "it has several lines"
    plain = plain_skill(said)
    signs = [one for one in _IN_NUMBERS.sub("", plain) if not one.isalnum() and one not in _SIGNS]
    if signs:
        return f"it has '{signs[0]}' in it, which may join two skills"
    word = _SEVERAL.search(plain)
    return f"it says '{word[0]}', which may mean more than one skill" if word else ""
