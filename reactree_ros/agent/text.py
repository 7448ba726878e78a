"""Texts as models and servers give them."""

from __future__ import annotations

import functools
import re
import string
import unicodedata
from collections.abc import Callable, Collection, Iterable

#: Longest text with place-holders that a file may bring, in characters.
LONGEST_TEMPLATE = 2000
#: The longest text of one reply, observation or turn, in characters: some 8,000 tokens.
LONGEST = 32_768
#: The longest turn that is made of several, such as what is to be summarised.
LONGEST_TOLD = 8 * LONGEST
#: The longest that an engine's text is read at all, with what a model thought before it answered.
LONGEST_GENERATED = 64 * LONGEST
#: The longest that is told of an error.
LONGEST_ERROR = 2000
#: Largest number that a sentence may mean; things, steps and subgoals are fewer.
MOST_SAID = 9999
_KEPT = "\n\t"
#: Characters that would reverse the text around them; shown as their numbers.
_TURNING = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def bounded(text: str, most: int) -> str:
    """Return a text of at most so many characters: of a longer one the beginning, how much is left out, and the end."""
    if len(text) <= most:
        return text
    kept = most - 50
    head, tail = kept - kept // 3, kept // 3
    return f"{text[:head]} … ({len(text) - kept} characters are left out) … {text[-tail:]}"


def shortened_line(text: str, most: int) -> str:
    line = " ".join(text[: 8 * most].split())
    return line if len(line) <= most and len(text) <= 8 * most else f"{line[: most - 1]}…"


def check_template(template: str, known: Collection[str]) -> str:
    """Return a text that a file brought if it holds no other place-holders. Raises ValueError.

    Python's own can reach into what is put in (``{word.__class__}``), and make it wide (``{word:>999999999}``).
    """
    if not isinstance(template, str):  # of a file, if it may be anything
        raise ValueError(f"{str(template)[:80]!r} is not text with place-holders")
    named = " and ".join(f"{{{name}}}" for name in known) or "none"
    try:
        parts = list(string.Formatter().parse(template[: LONGEST_TEMPLATE + 1]))
    except ValueError as error:
        raise ValueError(f"{template[:80]!r} is not text with place-holders: {error}") from None
    if len(template) > LONGEST_TEMPLATE:
        raise ValueError(f"{template[:80]!r}… is longer than {LONGEST_TEMPLATE} characters")
    for _, name, spec, conversion in parts:
        if name is not None and (name not in known or spec or conversion):
            raise ValueError(f"{template[:80]!r} has another place-holder than {named}")
    return template


def visible(text: str) -> str:
    """Return a text in which control characters are visible characters."""
    return text if text.isascii() and text.isprintable() else "".join(map(_shown, text))


def in_one_line(text: str) -> str:
    return " ".join(visible(text).split())


def _shown(character: str) -> str:
    number = ord(character)
    if character in _KEPT:
        return character
    if number < 0x20:
        return chr(0x2400 + number)
    if number == 0x7F:
        return "\u2421"
    if character in _TURNING or 0x80 <= number < 0xA0:
        return f"<{number:04X}>"
    return "\ufffd" if 0xD800 <= number <= 0xDFFF or number in (0xFFFE, 0xFFFF) else character


def number_of(text: str, *, most: int = 2**53 - 1) -> int | None:
    """Read a whole number, 0 or more; None if it is not one, or larger than `most`."""
    if not text.isascii() or not text.isdecimal() or len(text.lstrip("0")) > len(str(most)):
        return None
    number = int(text.lstrip("0") or "0")
    return number if number <= most else None


def said_number(word: str) -> int | None:
    return number_of(word, most=MOST_SAID)


_BLANK, _DIGIT, _LETTER, _MARK, _LINE_END = range(5)


def _kind(byte: int) -> int:
    character = chr(byte)
    if character in "\r\n":
        return _LINE_END
    if character.isspace() and byte < 128:
        return _BLANK
    if character.isdigit() and byte < 128:
        return _DIGIT
    return _LETTER if byte >= 128 or character.isalpha() else _MARK


_KINDS = bytes(_kind(byte) for byte in range(256))  # of the bytes of UTF-8


def approximate_tokens(text: str) -> int:
    """Count the tokens of a text without a tokenizer.

    The rule: a token is a word (with the blank before it), a number, the blanks before a number, a run of punctuation,
    or a run of line ends. Those are about the pieces that the tokenizers of GPT-4 and Llama 3 cut a text into first,
    and most pieces of household texts are one token. Over the recorded texts it gives 1.00 (WAH-NL; single texts 0.93
    to 1.09) and 0.96 (ALFRED, with its CamelCase names; 0.87 to 1.03) times the tokens of cl100k_base. The usual rule,
    a quarter of the characters, gives 0.82 and 0.76: many numbers make it too low, and the prompt too long.
    """
    import numpy as np  # which takes time to import

    kinds = np.frombuffer((" " + text).encode(errors="replace").translate(_KINDS), dtype=np.uint8)
    before, here = kinds[:-1], kinds[1:]
    starts = np.count_nonzero((here != before) & (here != _BLANK))
    return int(starts + np.count_nonzero((before == _BLANK) & (here == _DIGIT)))


def counting(tokenizer: Callable[[str], int | None]) -> Callable[[str], int]:
    def count(text: str) -> int:
        exact = tokenizer(text)
        return approximate_tokens(text) if exact is None else exact

    return count


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


@functools.lru_cache(maxsize=4096)  # a reply is compared with the same skills again and again
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


def nearest_first(texts: Iterable[str], goal: str) -> list[str]:
    """Return texts with those first that have the most words of a goal; of as many, the order stays."""
    of_goal = {word.rstrip("s") for word in words(goal)}
    return sorted(texts, key=lambda one: -len(of_goal & {word.rstrip("s") for word in words(one)}))


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
