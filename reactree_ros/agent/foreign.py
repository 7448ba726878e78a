"""Texts of the world, of people and of tools as they stand in a prompt: none of their lines can be taken for ours."""

from __future__ import annotations

import re
from functools import lru_cache

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
#: Letters of other scripts that look like those of the labels.
_LOOKALIKES = str.maketrans(
    "\u0410\u0412\u0415\u0417\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0425\u0406\u0405\u0408\u0430"
    "\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0455\u0458\u0501\u051b\u04bb\u0391\u0392\u0395\u0396"
    "\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7\u03bf\u03b1\u03bd",
    "ABE3KMHOPCTXISJaeopcyxisjdqhABEZHIKMNOPTYXoav",
)
#: How far into a line it is looked whether it is one of ours, in characters.
_REACH = 200
#: What may stand before a label and say nothing.
_DRESS = " \t>*_~|=+\"'([{<-\u2013\u2014\u2022\u00b7\u2026"
#: How lines of prompts begin that are no labels of decisions: what the run tells, frames, speakers, code.
_OWN_LINES = re.compile(
    r"ok[.!]?\s*$|ok\.\s"
    r"|your (?:task is|primary goal is|expansion failed)|to achieve this, you should perform"
    r"|(?:the )?(?:person|user|human|owner|operator) (?:answers?|says?|said|replie[sd]|confirm)|nobody answers"
    r"|that was asked already|searched(?: in [\w ]{1,40})?:|summary of what was done"
    r"|max (?:steps|decisions)\b|- ?(?:control flow|subgoals)\b"
    r"|(?:system|user|human|person|owner|operator|developer|tool|model|ai|instructions?|task|goal|function|variables"
    r"|examples?|policy|error|note|summary|trajectory|subgoals|safety)\s{0,3}:"
    r"|(?:system|user|assistant|tool)[\])}>]?\s*$"
    r"|(?:source|target)[ _]domain\b|\(end of the examples\)|\d+ subgoals?:|done\s*$|failure\s*$"
    r"|-\s?\w+ \([\w\[\], .|]{1,60}\):|#{2,}|>>>|run:|</?(?:think|thought|execute|solution)>|```",
    re.IGNORECASE,
)
#: Lines between the parts of a prompt.
_FRAMES = re.compile(
    r"^(?=[^\S\n]*(?:source|target)[ _]domain\b|[^\S\n]*\(end of the examples\))", re.IGNORECASE | re.MULTILINE
)
#: Those that say of a whole observation what it is.
_HEADINGS = re.compile(r"(?:Observation|run): ?")


def cleaned(text: str) -> str:
    """Return a text without what cannot be seen, and with line feeds for all that ends a line."""
    return text if _PLAIN.fullmatch(text) else _UNSEEN.sub("", _LINE_ENDS.sub("\n", _ESCAPES.sub("", text)))


def as_seen(text: str) -> str:
    """Return a text of the world's as it stands in a prompt: what can be seen of it, quoted where it has to be."""
    return in_lines(cleaned(text))


def in_lines(text: str, *, first: bool = True) -> str:
    """Return a text whose lines cannot be taken for a decision, a person or a line of the prompt's own.

    A line that could is quoted; all others stay as they are.

    Args:
        text: What was seen, or what a node is told.
        first: Whether its first line is somebody else's, too.
    """
    begin, *rest = _LINE_ENDS.sub("\n", text).split("\n")
    if first and not _HEADINGS.match(begin):
        begin = _quoted(begin)
    return "\n".join([begin, *map(_quoted, rest)])


def framed(example: str) -> str:
    """Return an in-context example that cannot end the examples: it has lines like the prompt's own, and keeps them."""
    return _FRAMES.sub(QUOTE, cleaned(example))


def _quoted(line: str) -> str:
    return f"{QUOTE}{line}" if _reads_as_ours(line[:_REACH]) else line


@lru_cache(maxsize=4096)  # worlds say the same again and again
def _reads_as_ours(line: str) -> bool:
    from reactree_ros.agent.reading.dress import bare, typed  # they know turns, which are made of this
    from reactree_ros.agent.reading.labels import label_of

    if line.startswith(QUOTE):
        return False
    if not _PLAIN.fullmatch(line):
        line = typed(cleaned(line)).translate(_LOOKALIKES)
    line = line.strip()
    forms = {line, bare(line).strip(), line.lstrip(_DRESS)}
    return any(_OWN_LINES.match(form) or label_of(form) for form in forms)
