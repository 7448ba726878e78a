"""Lays turns out as chat messages, in a form that a model's chat template accepts.

Markers such as ``<|im_end|>``, which chat layouts put around messages, are neutralized inside of a message: a space
breaks a marker up, so that it is spelled out and never a control token. Texts without markers stay unchanged.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from typing import Any, Literal

from reactree_ros.agent.decision import OK
from reactree_ros.agent.labels import framed
from reactree_ros.agent.turns import About, Said, Told, ToldStart, Turn, is_told_once
from reactree_ros.llm.engine import ToolCall
from reactree_ros.llm.port import RequestRejected
from reactree_ros.llm.reasoning import split_reasoning
from reactree_ros.llm.seeing import Showing, Shown

#: A message: role (``system``, ``user``, ``assistant``, ``tool``) and content: a text, or a list of parts, each
#: ``{"type": "text", "text": …}`` or ``{"type": "image_url", "image_url": {"url": …}}``, whose address holds its bytes.
#: An assistant's may be a call of a tool instead; then what follows it is the tool's.
Message = dict[str, Any]


class _Mark(enum.Enum):
    """Where a prompt's part ends that is to be kept in the server's cache."""

    KEPT = "kept"


#: What somebody says in one go: a text, a picture, or both one after the other; or a call.
_Piece = str | Shown | ToolCall | _Mark
_Content = _Piece | list[_Piece]

#: How in-context examples stand in a chat: as turns of it, or as text in its system message.
Examples = Literal["turns", "text"]

#: What stands before an in-context example in a chat, and before the task: models take what an example saw for theirs.
AN_EXAMPLE = "An example, with another task at another place:"
OWN_TASK = "The examples end here. Your own task, where nothing of theirs is:"

#: A short chat, which shows what a template makes of one.
_A_CHAT = (
    ("system", "You are a robot."),
    ("user", "Look."),
    ("assistant", "<think>Hm.</think>I look."),
    ("user", "Go on."),
    ("assistant", "I go on."),
    ("user", "Stop."),
)
_IN_THE_FIRST = "part of the user's first message"

_NAME = r"[^<>\[\]|\uff5c\n]{1,64}"
_THOUGHT_MARKS = r"</?(?:seed:)?think(?:ing)?>|\[/?THINK\]|\u25c1/?think\u25b7"
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
KNOWN = re.compile(f"{_THOUGHT_MARKS}|{_FAMILIES}")
_ROLES = re.compile(f"(?!{_THOUGHT_MARKS})(?:{_FAMILIES})")


@dataclass(frozen=True)
class ChatLayout:
    """How to lay turns out for a chat template.

    Attributes:
        thoughts: Whether thoughts in tags stay in earlier replies. A template that drops only earlier thoughts would
            write a reply in two ways, so they are left out here.
        examples: Whether in-context examples are turns of the chat, as far as they have replies; otherwise they are a
            part of the system text, as base models have it.
    """

    system: bool = True  # whether the system text is its own message; otherwise it begins the user's first message
    thoughts: bool = True
    examples: bool = True
    calls: bool = False  # whether decisions are calls of tools, and what follows each is the tool's message
    marks: bool = False  # whether ``cache_control`` marks what a prompt has in common with the next ones

    def in_words(self) -> str:
        what = "the system text" if self.examples else "the system text with the examples"
        return f"{what} is {'a message of its own' if self.system else _IN_THE_FIRST}"


def chat_messages(
    turns: Sequence[Turn], begun: str = "", layout: ChatLayout | None = None, showing: Showing | None = None
) -> list[Message]:
    """Return turns as messages: replies are the assistant's, the system text is the system's, the rest is the user's.

    The messages suit every template. There is at most one system message, at the beginning. Then user and assistant
    alternate, the user first. Neighbours of one role are joined, and no message is empty. If turns grow at their end,
    the messages do too, so that a prefix cache serves them. A reply that has begun is the last message.
    """
    layout = layout or ChatLayout()
    spoken: list[tuple[str, _Content]] = []
    kept = max((at for at, turn in enumerate(turns) if not is_told_once(turn)), default=None)
    for number, turn in enumerate(turns):
        spoken += _spoken(turn, layout)
        if showing and number in showing:
            spoken += (("user", picture) for picture in showing[number])
        if layout.marks and spoken[-1][0] != "assistant" and (isinstance(turn, ToldStart) or number == kept):
            spoken.append((spoken[-1][0], _Mark.KEPT))
    if layout.calls:
        spoken = _with_results(spoken)
    # Dropping an empty message can leave neighbours of one role.
    spoken = _joined([one for one in [*_joined(spoken), ("assistant", begun.strip("\n"))] if one[1]])
    roles = [role for role, _ in spoken]
    if layout.system and roles[:2] == ["system", "user"]:
        return [_message("system", spoken[0][1]), *_exchange(spoken[1:])]
    return _exchange(spoken)


def with_texts(message: Message, change: Callable[[str], str]) -> Message:
    content = message["content"]
    if isinstance(content, str):
        return message | {"content": change(content)}
    return message | {"content": [one | {"text": change(one["text"])} if "text" in one else one for one in content]}


def _exchange(spoken: Iterable[tuple[str, _Content]]) -> list[Message]:
    told = _joined([("user" if role == "system" else role, content) for role, content in spoken])
    messages = [_message(role, content) for role, content in told]
    for number, message in enumerate(messages):
        # Its place names it: nine letters and digits, which Mistral asks for.
        if "tool_calls" in message:
            message["tool_calls"][0]["id"] = f"call{number:05}"
        if message["role"] == "tool":
            message["tool_call_id"] = f"call{number - 1:05}"
    return messages


def _with_results(spoken: Iterable[tuple[str, _Content]]) -> list[tuple[str, _Content]]:
    """Return what was said with what follows a call as the tool's, all in one: some servers take no user after it."""
    told: list[tuple[str, _Content]] = []
    for role, content in spoken:
        after = told[-1][0] == "tool" or isinstance(told[-1][1], ToolCall) if told else False
        if isinstance(content, ToolCall):
            told += [("tool", OK)] if told and isinstance(told[-1][1], ToolCall) else []
        answers = after and role == "user" and not isinstance(content, Shown)
        told.append(("tool" if answers else role, content))
    return told


def _message(role: str, content: _Content) -> Message:
    if isinstance(content, ToolCall):
        called = {"type": "function", "function": {"name": content.name, "arguments": content.arguments}}
        return {"role": role, "content": None, "tool_calls": [called]}
    if not isinstance(content, list):
        return {"role": role, "content": content}
    parts: list[dict[str, Any]] = []
    for one in content:
        if one is not _Mark.KEPT:
            parts.append(_part(one))
        elif parts and "text" in parts[-1]:
            parts[-1]["cache_control"] = {"type": "ephemeral"}
    return {"role": role, "content": parts}


def _part(one: _Piece) -> dict[str, Any]:
    if isinstance(one, Shown):
        return {"type": "image_url", "image_url": {"url": one.url}}
    return {"type": "text", "text": one}


def _spoken(turn: Turn, layout: ChatLayout) -> Iterator[tuple[str, _Content]]:
    """Yield who says what in a turn; the start of a prompt is an exchange if its examples are.

    The most similar example comes last: models go by what stands next to their own task.
    """
    if layout.calls and isinstance(turn, Said) and turn.decision is not None:
        yield "assistant", ToolCall(turn.decision.name, _text(turn, layout))
        return
    if not (isinstance(turn, ToldStart) and layout.examples and turn.is_exchange):
        yield _role(turn), _text(turn, layout)
        return
    yield "system", "\n".join(filter(None, (turn.system, turn.rule)))
    for example in reversed(turn.examples):
        yield "user", AN_EXAMPLE
        for one in example:
            is_a_turn = isinstance(one, Said) and not layout.calls
            yield "assistant" if is_a_turn else "user", framed(_text(one, layout))
    if turn.examples:
        yield "user", OWN_TASK


def _role(turn: Turn) -> str:
    if isinstance(turn, Said):
        return "assistant"
    return "system" if isinstance(turn, Told) and turn.about is About.SYSTEM else "user"


def _text(turn: Turn, layout: ChatLayout) -> str:
    return turn.text if layout.thoughts or not isinstance(turn, Said) else split_reasoning(turn.text).text


def _joined(spoken: Iterable[tuple[str, _Content]]) -> list[tuple[str, _Content]]:
    return [(role, _content([one for _, one in some])) for role, some in groupby(spoken, itemgetter(0))]


def _content(said: Sequence[_Content]) -> _Content:
    pieces = [piece for one in said for piece in (one if isinstance(one, list) else [one])]
    runs = [(is_text, [*some]) for is_text, some in groupby(pieces, lambda piece: isinstance(piece, str))]
    joined = [("\n".join(map(str, some)).strip("\n"),) if is_text else some for is_text, some in runs]
    if len(runs) == 1 and (runs[0][0] or isinstance(pieces[0], ToolCall)):
        return joined[0][0]
    parts = [part for some in joined for part in some if part]
    return parts if any(part is not _Mark.KEPT for part in parts) else ""


async def find_layout(render: Callable[[list[Message]], Awaitable[str | None]]) -> tuple[str, ChatLayout] | None:
    """Find out what a chat template accepts, by what it writes; None if nobody tells.

    The system text becomes its own message if the template keeps it in place. Some templates refuse it, others drop it
    silently or move it into the last user message. Thoughts stay if the template keeps them in earlier messages.

    Raises:
        RequestRejected: The template refuses a chat without a system message, too.
    """
    chat = [_message(role, text) for role, text in _A_CHAT]
    try:
        written = await render(chat)
    except RequestRejected:
        written = await render(chat[1:])
    if written is None:
        return None
    (_, system), (_, first), *_ = _A_CHAT
    in_place = 0 <= written.find(system) < written.find(first)
    return written, ChatLayout(system=in_place, thoughts="Hm." in written)


def special_tokens(tokenizer: Any) -> re.Pattern[str] | None:
    """Return what finds a tokenizer's special tokens, and those added ones that are not words; None if it has none."""
    added = getattr(tokenizer, "added_tokens_decoder", {}).values()
    named = {
        one.content for one in added if one.special or not all(mark.isalnum() or mark.isspace() for mark in one.content)
    }
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
    return sorted({found[0] for found in _ROLES.finditer(written) if found.start()})


def is_chat(tokens: Sequence[int]) -> bool | None:
    """Return whether a model knows its chat template, by the number of tokens of each marker; None without markers.

    llama.cpp offers ChatML for a model without a template. A base model spells all of its markers out; a model that is
    trained to chat has at least one of them as a token.
    """
    return min(tokens) == 1 if tokens else None
