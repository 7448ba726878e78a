"""How servers refuse a request, what a refusal reveals, and which parameters are then renamed or left out."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from reactree_ros.llm.port import LanguageModelError, RequestRejected, ServerUnavailable

#: Status codes below 500 that a retry may resolve.
_PASSING = (408, 409, 425, 429)
_TOO_LONG = (
    *("context length", "context_length_exceeded"),  # vLLM, SGLang, OpenAI
    *("exceed_context_size", "input_tokens", "max_new_tokens`", "too long"),  # llama.cpp, vLLM, TGI, others
)
_NOT_KNOWN = re.compile(
    r"un(?:supported|known|recogni[sz]ed|expected)|not (?:be )?(?:supported|permitted|allowed|known|recogni[sz]ed)"
    r"|not support|extra(?:neous|_forbidden| inputs)|invalid argument",
    re.IGNORECASE,
)
_BAD_VALUE = re.compile(
    r"must be|should be|range|invalid value|only the default|(?:less|greater) than|at (?:least|most)", re.IGNORECASE
)
#: Errors of chat templates; some servers report them as their own.
_OF_TEMPLATE = re.compile(r"jinja|chat.?template|\broles?\b", re.IGNORECASE)
#: What it says of messages of the system, or of roles that do not alternate.
OF_ROLES = re.compile(r"\b(?:system|roles?)\b", re.IGNORECASE)
#: What a refusal of pictures says; llama.cpp's comes as a failure of its own (500).
OF_PICTURES = re.compile(r"\bimages?\b|image_url|multi-?modal|vision|mmproj", re.IGNORECASE)
_PICTURE = re.compile(r"(data:image/\w{1,8};base64,)[A-Za-z0-9+/=]+")
# A parameter's name in quotes or brackets, which JSON inside a text may escape, or after a colon or the word
# "parameter". It is not a key before its value: some servers repeat the request.
_NAMED = (
    r"""['"`\u2018\u201c\[](NAME)\\?['"`\u2019\u201d\]](?!\s*:\s*(?:[-\d\[{'"\\]|(?:None|[Tt]rue|[Ff]alse|null)\b))"""
    r"""|(?:(?:parameter|argument|field|property)s?|:) (NAME)\b"""
)
#: Both names of the token limit; the second is OpenAI's newer one, for chats.
LIMIT, NEWER_LIMIT = "max_tokens", "max_completion_tokens"
#: Asks for an answer in parts; the others that are sent for that are left out with it.
STREAM = "stream"
#: What goes with tools: that one is called, and only one.
WITH_TOOLS = {"tool_choice": "required", "parallel_tool_calls": False}
#: A request works without these.
OPTIONAL = ("temperature", "top_p", "seed", "stop", *WITH_TOOLS, "prompt_cache_key")


class Refused(Exception):
    """A server's refusal. It may hold the key, which some servers repeat, so it must not leave this folder.

    Args:
        status: HTTP status, or the error code in an answer with status 200; 0 if there is none.
        body: The server's answer: JSON or text; pictures that it repeats are left out.
        how: How the server answered, to follow the word "answered".
    """

    def __init__(self, status: int, body: Any, how: str = "") -> None:
        super().__init__()
        self.status = status
        self.body = _without_pictures(body)
        self.how = how or f"HTTP {status}"

    @property
    def message(self) -> str:
        return " ".join(_words(self.body).split())

    @property
    def is_too_long(self) -> bool:
        """Whether prompt and reply do not fit into the context."""
        return self.status in (400, 413, 422) and any(mark in str(self.body) for mark in _TOO_LONG)

    @property
    def sends_on(self) -> bool:
        """Whether the server redirects; the message says where to."""
        return 300 <= self.status < 400

    @property
    def is_cut(self) -> bool:
        """Whether thinking reached the token limit before any answer; OpenAI's models make it an error."""
        return "max_tokens or model output limit was reached" in self.message

    @property
    def names_no_value(self) -> bool:
        """Whether a parameter is refused at any value."""
        return _NOT_KNOWN.search(str(self.body)) is not None

    @property
    def is_of_the_request(self) -> bool:
        """Whether the server refuses this very request, and not what its chat template takes of no request."""
        return self.status in (400, 422) and not _OF_TEMPLATE.search(self.message)

    def parameters(self, sent: Collection[str]) -> tuple[str, ...]:
        """Return the sent parameters that are refused; none if the refusal is about something else."""
        if not (self.is_of_the_request and sent):
            return ()
        if pointed := set(_pointed_at(self.body)):
            return tuple(name for name in sent if name in pointed)
        if not (self.names_no_value or _BAD_VALUE.search(self.message)):
            return ()
        # Further names may be suggestions: "did you mean …?"
        named = re.search(_NAMED.replace("NAME", "|".join(map(re.escape, sent))), self.message)
        return () if named is None else (named[1] or named[2],)

    def mentions(self, name: str) -> bool:
        return re.search(rf"\b{re.escape(name)}\b", str(self.body)) is not None

    def context(self) -> int:
        """Return the context's length in tokens; 0 if the message does not say."""
        stated = re.search(r"(?:length|size|limit|n_ctx|<=)\D{0,8}(\d{1,12})(?!\d)", str(self.body))
        return int(stated[1]) if stated else 0

    def prompt_tokens(self, max_tokens: int, context: int) -> int:
        """Return the prompt's length in tokens: the largest number, less the reply's tokens if that is a total."""
        numbers = [int(number) for number in re.findall(r"(?<!\d)\d{1,12}(?!\d)", str(self.body))]
        largest = max([*numbers, context])
        return largest - max_tokens if largest - max_tokens in numbers else largest

    def as_error(self, server: str, message: str) -> LanguageModelError:
        if self.status in (401, 403):
            return RequestRejected(
                f"{server} does not accept the key (HTTP {self.status}); set OPENAI_API_KEY or api_key_file"
            )
        passing = self.status < 300 or self.status >= 500 or self.status in _PASSING
        if self.status == 500 and _OF_TEMPLATE.search(message):
            passing = False
        return (ServerUnavailable if passing else RequestRejected)(f"{server} answered {self.how}: {message[:400]}")


def _without_pictures(said: Any) -> Any:
    """Return an answer without the bytes of pictures: some servers repeat the request."""
    if isinstance(said, str):
        return _PICTURE.sub(r"\1…", said)
    if isinstance(said, dict):
        return {name: _without_pictures(value) for name, value in said.items()}
    return [_without_pictures(one) for one in said] if isinstance(said, list) else said


def _words(said: Any) -> str:
    if isinstance(said, list):
        return "; ".join(map(_words, said))
    if isinstance(said, dict):
        inner = next((said[name] for name in ("error", "message", "detail", "msg") if said.get(name)), None)
        where = ".".join(map(str, said["loc"])) + ": " if isinstance(said.get("loc"), list) else ""
        return where + (str(said) if inner is None else _words(inner))
    return str(said)


def _pointed_at(said: Any) -> Iterator[str]:
    """Yield what a refusal points at: ``param`` of OpenAI, ``loc`` of pydantic."""
    if isinstance(said, list):
        for one in said:
            yield from _pointed_at(one)
    elif isinstance(said, dict):
        if isinstance(param := said.get("param"), str) and param not in ("", "None"):
            yield param
        if isinstance(where := said.get("loc"), list):
            yield from [str(part) for part in where if part != "body"][:1]
        for value in said.values():
            yield from _pointed_at(value)


class Parameters:
    """Learns from refusals which parameters to rename or leave out, also those that ask for a streamed answer."""

    def __init__(self, limit: str = LIMIT, streaming: Collection[str] = ()) -> None:
        self._first = limit
        self._limits = [limit, *({LIMIT, NEWER_LIMIT} - {limit})]  # the first is in use
        self._streaming = frozenset(streaming)
        self._left_out = set[str]()
        self._taken = set[tuple[str, str]]()  # names and values that an answered request contained

    def named(self, values: Mapping[str, Any]) -> dict[str, Any]:
        out = self._left_out | (self._streaming if STREAM in self._left_out else set())
        limit = self._limits[0] if self._limits else ""
        sent = {limit if name == LIMIT else name: value for name, value in values.items() if name not in out}
        return {name: value for name, value in sent.items() if name}

    def learn(self, refused: Refused, values: Mapping[str, Any], sent: Mapping[str, Any]) -> bool:
        """Learn from a refusal, each name once; return whether the request has changed and can be sent again.

        If several requests were refused at once, the first one learns and the others follow.
        """
        named = {*refused.parameters(sent), *filter(refused.mentions, self._streaming & sent.keys())}
        if STREAM in sent and refused.mentions("streaming"):
            named.add(STREAM)
        # The user must lower a limit that is too high: without one, a model may talk without end.
        if named & {*self._limits[:1]} and refused.names_no_value:
            self._limits = self._limits[1:]
        self.leave_out(named & {*OPTIONAL, *self._streaming})
        return self.named(values) != sent

    def taken(self, sent: Mapping[str, Any]) -> None:
        self._taken |= {(name, repr(value)) for name, value in sent.items()}

    def without_optional(self, refused: Refused, sent: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters to send again if a refusal does not name the refused one.

        Optional ones are left out, except those that the server accepted before. If the refusal names a parameter that
        was not sent, all optional ones are left out.
        """
        if not refused.is_of_the_request:
            return dict(sent)
        astray = bool(refused.parameters({*OPTIONAL, *self._limits[:1]} - sent.keys()))
        suspect = {one for one in OPTIONAL if one in sent and (astray or (one, repr(sent[one])) not in self._taken)}
        return {name: value for name, value in sent.items() if name not in suspect}

    def leave_out(self, names: Collection[str]) -> None:
        self._left_out |= set(names)

    def status(self) -> dict[str, str]:
        out = [one for one in (*OPTIONAL, *sorted(self._streaming)) if one in self._left_out]
        words = {"left out": ", ".join(out if self._limits else [*out, self._first])}
        if self._limits and self._limits[0] != self._first:
            words["renamed"] = f"{self._first} to {self._limits[0]}"
        return {what: which for what, which in words.items() if which}
