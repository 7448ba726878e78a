"""Labels: what announces a decision at the beginning of a line, with the marks of lists and markup around it."""

from __future__ import annotations

import enum
import re
import unicodedata
from collections.abc import Mapping
from functools import cache, lru_cache
from typing import NamedTuple

from reactree_ros.agent.decision import Decision, kinds
from reactree_ros.agent.text import typed


def not_available(skill: str) -> str:
    """Say that a skill may not be done now."""
    return f"'{skill}' is not among the skills that are available now."


def shortened(text: str, longest: int = 80) -> str:
    """Return the beginning of a text as a refusal quotes it: of its first line, as joined lines say something else."""
    first, _, more = text.strip().partition("\n")
    line = " ".join(first[: 4 * longest].split())
    whole = len(line) <= longest and len(first) <= 4 * longest and not more
    return line if whole else f"{line[:longest]}…"


class Mark(enum.Enum):
    """What a label announces that is not a kind of decision, with how it is spelt."""

    ARGUMENT = "action[ _-](?:input|arguments?)|input|arguments?"  # what an act that was named before is done to
    FLOW = "control[ _-]?flow"
    OBSERVATION = "observations?|environment|feedback|results?"  # what only the world says
    ANSWER = (  # a decision of any kind: another label follows, or a skill
        "answer|decision|response|output|reply|choice|step|skill|command|execute|assistant|robot|agent"
    )


#: What a label announces.
Announced = type[Decision] | Mark


class Label(NamedTuple):
    """A label that a line begins with: what it announces, and what stands after it."""

    announces: Announced
    rest: str


_LEADS = (
    r"(?:(?:and|so|my|the|your|a|next|new|current|first|final|best|chosen|selected|proposed|corrective)\s{1,3}){0,4}"
)
_NUMBER = r"(?:\s{0,3}(?:\#|no\.)?\s?\d{1,2})?"
_ENDS = r"\s{0,3}[*_`\"']{0,3}\s{0,3}(?:[:：]|[-=]>|=|→|[-–—](?=\s)|(?=[\[(]))[*_]{0,3}"  # noqa: RUF001
#: Pictures, but for those that deny or doubt.
PICTURE = "(?![⛔✋✖✗✘❌❎❓❔❕❗👎🙅🙈🚫🛑🤔🤦🤷])[\u2600-\u27bf\U0001f300-\U0001faff]"
_TAGS = "answer|final_answer|output|response|reply|decision|result|final|tool_calls?|function_calls?"
#: What may stand before a label or a decision: marks of lists, headings, quotations and tool calls.
_LEADING = re.compile(
    rf"(?:\s|[\ufeff\u200b\u2060]|<(?:{_TAGS})>|<\|python_tag\|>|\[TOOL_CALLS\]|>|#{{1,6}}\s|[-–*+•‣▪→►▶]\s"
    rf"|\(?\d{{1,2}}[.)]\s?(?=\D)|\d{{1,2}}\s(?=sub-?goal\b)|{PICTURE})+",
    re.IGNORECASE,
)
_END_TAG = re.compile(r"\w{1,20}>")
_END_PICTURE = re.compile(rf"\s{{0,3}}{PICTURE}\s*\Z")
#: A line of markup alone: the begin or end of a code block, a rule, tags.
_NOTHING = re.compile(rf"(?:```|~~~)[a-z]{{0,12}}|[-*_\s]*|(?:</?(?:{_TAGS})>)+", re.IGNORECASE)
_AROUND = ("***", "**", "__", "```", "`", "*", '"')
_IS_TITLE = re.compile(r"\s*(?:#{1,6}\s|\*\*|__)")
#: How far into a line a label is looked for, in characters, and how many may stand one inside the other.
_REACH, _DEEPEST = 80, 4


@cache
def _patterns() -> tuple[Mapping[str, Announced], list[re.Pattern[str]]]:
    """Return what each group announces, and the patterns of a label, a tag, and a title that has a line of its own."""
    spelt: dict[str, Announced] = {kind.name: kind for kind in kinds().values() if kind.spellings}
    spelt |= {mark.name: mark for mark in Mark}
    named = "|".join(
        f"(?P<{name}>{one.value if isinstance(one, Mark) else one.spellings})" for name, one in spelt.items()
    )
    label = (
        rf"[*_`\"']{{0,3}}(?:\d{{1,2}}\s(?=sub-?goal))?{_LEADS}(?:{named})"
        rf"(?:\s(?:is|to\s(?:take|perform|do|execute)))*{_NUMBER}{_ENDS}"
    )
    title = rf"[*_]{{0,3}}{_LEADS}(?:{named}){_NUMBER}[*_]{{0,3}}"
    return spelt, [re.compile(form, re.IGNORECASE) for form in (label, f"<(?:{named})>", title)]


def label_of(line: str) -> Label | None:
    """Return the label that a line begins with: the innermost of several, as in ``Decision: Act: …``."""
    spelt, (labels, tags, titles) = _patterns()
    found, is_title = None, bool(_IS_TITLE.match(line))
    for _ in range(_DEEPEST):
        line = undressed(line)
        if (match := labels.match(line, 0, _REACH)) is not None:
            rest = line[match.end() :].strip()
        elif (match := tags.match(line, 0, _REACH)) is not None:
            rest = _without_end_tag(line[match.end() :])
        else:
            break
        opened = match[0].lstrip()
        around = (one for one in _AROUND if opened.startswith(one) and one not in opened[1:] and rest.endswith(one))
        found = Label(spelt[str(match.lastgroup)], rest.removesuffix(next(around, "")).rstrip())
        if not (found.announces is Mark.ANSWER if isinstance(found.announces, Mark) else found.announces.nests):
            break
        line = found.rest
    if found is None and is_title and (match := titles.fullmatch(line)) is not None:
        return Label(spelt[str(match.lastgroup)], "")
    return found


def undressed(line: str) -> str:
    """Return a line without the marks of lists, headings, quotations, fences and tags around all of it."""
    if _NOTHING.fullmatch(line.strip()):
        return ""
    line = line.rstrip()
    while True:
        before = line
        if (lead := _LEADING.match(line)) is not None:
            line = line[lead.end() :]
            line = _without_end_tag(line) if "<" in lead[0] else line
            line = line if lead[0].isascii() else _END_PICTURE.sub("", line)
        for mark in _AROUND:
            if line.startswith(mark) and line.endswith(mark) and line.count(mark) == 2 and len(line) > 2 * len(mark):
                line = line[len(mark) : -len(mark)]
        if line == before:
            return line


def _without_end_tag(line: str) -> str:
    said, begun, tag = line.strip().rpartition("</")
    return said.rstrip() if begun and _END_TAG.fullmatch(tag) else line.strip()


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
#: How lines of prompts begin that are not labels of decisions: what the run tells, frames, speakers, code.
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
    if line.startswith(QUOTE):
        return line
    seen = cleaned(line)
    markup = _MARKUP.match(seen)
    begins = [seen.lstrip()[:_BEGIN], *([seen[markup.end() :][:_BEGIN]] if markup else [])]
    return f"{QUOTE}{line}" if any(map(_begins_as_ours, begins)) else line


@lru_cache(maxsize=4096)  # worlds say the same again and again
def _begins_as_ours(begin: str) -> bool:
    if not begin.isascii():
        apart = unicodedata.normalize("NFKD", typed(begin))
        begin = "".join(one for one in apart if unicodedata.category(one) not in _MARKS).translate(_LOOKALIKES)
    line = begin.strip()
    bare = line[markup.end() :] if (markup := _MARKUP.match(line)) else line
    forms = {line, undressed(line), _CLOSING.sub("", bare, count=1)}
    return any(_own_lines().match(form) or label_of(form) for form in forms)
