"""Texts of the world, of people and of tools as they stand in a prompt: none of their lines can be taken for ours."""

from __future__ import annotations

import re
import unicodedata
from functools import cache, lru_cache

from reactree_ros.agent.decision import kinds
from reactree_ros.agent.labels import label_of, undressed
from reactree_ros.agent.text import typed

#: Stands before a line that would otherwise read as a decision, as a person's words or as a line of the prompt's own.
QUOTE = "| "

_LINE_ENDS = re.compile(r"\r\n|[\r\v\f\x1c-\x1e\x85\u2028\u2029]")
#: Colours, cursor movements and titles of terminals.
_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|(?:\x1b\]|\x9d)[^\x07\x1b\n]*(?:\x07|\x1b\\)?|\x1b[PX^_][^\x1b\n]*(?:\x1b\\)?"
)
#: What nobody sees and what turns the order of letters around: controls, marks of direction, tags, noncharacters.
_UNSEEN = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x9f\u00ad\u061c\u115f\u1160\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164\ufdd0-\ufdef\ufeff"
    "\ufff9-\ufffb\ufffe\uffff\U000e0000-\U000e007f]"
)
_PLAIN = re.compile(r"[\t\n -~]*")
#: Letters and signs of other scripts that look like those of the labels.
_LOOKALIKES = str.maketrans(
    "\u0410\u0412\u0415\u0417\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0425\u0406\u0405\u0408\u0430"
    "\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0455\u0458\u0501\u051b\u04bb\u0391\u0392\u0395\u0396"
    "\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7\u03bf\u03b1\u03bd"
    "\u0442\u043a\u043c\u043d\u0432\u03c4\u03ba\u03b5\u03b9\u03c1\u03c5\u03c7"
    "\u13aa\u13df\u13a2\u13bb\u13d4\u1d00\u1d04\u1d1b\u1d0b\u026a\u0274\u029c\u1d07\u1d18\u1d05\ua731\u1d1c"
    "\u2236\ua789\u05c3\u02d0\u0589\u02f8\u205a\u2223\u2215",
    "ABE3KMHOPCTXISJaeopcyxisjdqhABEZHIKMNOPTYXoavtkmhbtkeipuxACTHWactkinhepdsu:::::::|/",
)
#: What may stand before a label and say nothing: signs, numbers and letters of lists, tags.
_MARKUP = re.compile(
    r"(?:[\W_]|\d{1,4}(?=\W)|(?:[ivxlc]{1,4}|[a-z])(?=[.)\]] )|(?<=<)/?(?:b|i|u|p|em|li|strong|code)>)+", re.IGNORECASE
)
_CLOSING = re.compile(r"[^\w\s:]{1,3}(?=\s{0,3}:)")
_MARKS = ("Mn", "Me", "Cf")
#: How many characters of a line say how it begins.
_BEGIN = 200
_SPEAKERS = "system|user|human|person|owner|operator|developer|assistant|tool|function|administrator|admin|root"
#: How lines of prompts begin that are no labels of decisions: what the run tells, frames, speakers, code.
_OWN_LINES = (
    r"(?:ok|okay)[.!]?\s*$|ok\.\s"
    r"|your (?:\w{1,12} )?(?:task|primary goal|goal|expansion) (?:is|failed)|to achieve this, you should perform"
    r"|(?:\w{1,12}['\u2019]?s? ){0,3}(?:person|user|human|owner|operator)(?: (?:has|have|had|now|just))?"
    r" (?:answer|say|said|repl|confirm|approve[sd]|agree[sd])"
    r"|(?:the )?(?:person|user|human|owner|operator)\s?:|nobody answers"
    r"|that was asked already|searched(?: in [\w ]{1,40})?:|summary (?:of what was done|so far)"
    r"|max (?:steps|decisions|tokens|seconds|cost)\b|stuck\s*$|- ?(?:control flow|subgoals)\b"
    rf"|(?:{_SPEAKERS})(?: (?:prompt|message|note|instructions?|override|says?|response|results?|calls?))?\s{{0,3}}:"
    r"|(?:model|ai|(?:new |next )?(?:instructions?|task|goal)|variables"
    r"|examples?|policy|error|note|summary|trajectory|subgoals|sub-?tasks?(?: \d{1,2})?|safety)\s{0,3}:"
    r"|(?:system|user|assistant|tool)(?:[\])}>]|\s*$)"
    r"|(?:source|target)[ _-]domain\b|\(end of the examples\)|\d+ subgoals?:|(?:done|failure)[.!]?\s*$"
    r"|-\s?\w+ \([\w\[\], .|]{1,60}\):|#{2,}|>>>|run:|</?(?:think|thought|execute|solution)>|```"
    r"|</?(?:{said}answer|decision|tool_calls?|function_calls?|function=)\b"
    r"|['\"]?(?:{said}decision|skill|control_flow|subgoals|role)['\"]\s{0,3}:"
)
#: Lines between the parts of a prompt.
_FRAMES = re.compile(
    r"^(?=[^\S\n]*(?:source|target)[ _]domain\b|[^\S\n]*\(end of the examples\))", re.IGNORECASE | re.MULTILINE
)
#: Those that say of a whole observation what it is.
_HEADINGS = re.compile(r"(?:Observation|run): ?")


@cache
def _own_lines() -> re.Pattern[str]:
    said = "".join(f"{kind.spellings}|" for kind in kinds().values() if kind.spellings)
    return re.compile(_OWN_LINES.replace("{said}", said), re.IGNORECASE)


def cleaned(text: str) -> str:
    """Return a text without what cannot be seen, and with line feeds for all that ends a line."""
    return text if _PLAIN.fullmatch(text) else _UNSEEN.sub("", _LINE_ENDS.sub("\n", _ESCAPES.sub("", text)))


@lru_cache(maxsize=512)  # an observation's text is a turn's, too, and worlds say the same again
def as_seen(text: str) -> str:
    """Return a text of the world's as it stands in a prompt: what can be seen of it, quoted where it has to be."""
    return in_lines(cleaned(text))


def in_lines(text: str, *, first: bool = True) -> str:
    """Return a text whose lines cannot be taken for a decision, a person or a line of the prompt's own.

    A line that could is quoted; all others stay as they are.
    ``first``: whether its first line is somebody else's, too.
    """
    begin, *rest = _LINE_ENDS.sub("\n", text).split("\n")
    if first and not _HEADINGS.match(begin):
        begin = _quoted(begin)
    return "\n".join([begin, *map(_quoted, rest)])


def framed(example: str) -> str:
    """Return an in-context example that cannot end the examples: it has lines like the prompt's own, and keeps them."""
    return _FRAMES.sub(QUOTE, cleaned(example))


def _quoted(line: str) -> str:
    return f"{QUOTE}{line}" if _reads_as_ours(line) else line


def _reads_as_ours(line: str) -> bool:
    if line.startswith(QUOTE):
        return False
    line = cleaned(line)
    markup = _MARKUP.match(line)
    begins = [line.lstrip()[:_BEGIN], *([line[markup.end() :][:_BEGIN]] if markup else [])]
    return any(map(_begins_as_ours, begins))


@lru_cache(maxsize=4096)  # worlds say the same again and again
def _begins_as_ours(begin: str) -> bool:
    line = _in_plain_letters(begin)
    return any(_own_lines().match(form) or label_of(form) for form in {line, undressed(line), _bare_line(line)})


def _in_plain_letters(line: str) -> str:
    if not line.isascii():
        apart = unicodedata.normalize("NFKD", typed(line))
        line = "".join(one for one in apart if unicodedata.category(one) not in _MARKS).translate(_LOOKALIKES)
    return line.strip()


def _bare_line(line: str) -> str:
    line = line[markup.end() :] if (markup := _MARKUP.match(line)) else line
    return _CLOSING.sub("", line, count=1)
