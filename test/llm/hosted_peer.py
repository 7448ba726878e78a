"""Hosted servers that judge what they are sent; their model decides as the expert does, with the lapses of others."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from llm.asked import decide
from openai_peer import Exchange, Peer, answer, answers, fails, fields_of

from reactree_ros.agent.grammar import Form

#: What a request may have in it, by form; such servers refuse everything else by its name.
_COMMON = {"model", "messages", "temperature", "max_tokens", "max_completion_tokens", "stop"}
_FIELDS = {
    Form.TOOLS: _COMMON | {"tools", "tool_choice", "parallel_tool_calls"},
    Form.JSON: _COMMON | {"seed", "response_format"},
    Form.LINES: _COMMON | {"seed", "stream", "stream_options"},
}
#: The last line, which a model reads and nobody keeps.
NOW = re.compile(r"^(?:You have thought already.*? )?Actions that are possible now: (.*)\.$", re.MULTILINE)
_OPENING, _QUOTED = re.compile(r"(?:Think|Act|Expand|Ask):"), re.compile(r"'(?:- |(?:Think|Act|Expand|Ask):)")
_OBJECT = re.compile(r'^\{"decision": (.*)\}$', re.MULTILINE)
#: What a model does once in a while, at so many requests; the rest of its replies are as they should be.
LAPSES = {4: "beside", 7: "made up", 11: "two at once", 15: "refusal", 20: "broken", 25: "beside", 31: "fenced"}


class HostedPeer(Peer):
    """A server with one form, of a model that decides as the expert does.

    Attributes:
        faults: What contradicts something else in a request.
    """

    def __init__(self, form: Form) -> None:
        self.form, self.faults, self.number = form, list[str](), 0
        super().__init__(owned_by="somebody", chats=True, completes=False, context=None, models=("hosted",))

    def text(self, exchange: Exchange) -> None:
        body = exchange.request.body
        if unknown := next((name for name in body if name not in _FIELDS[self.form]), None):
            fails(400, f"Unrecognized request argument supplied: '{unknown}'", param=unknown)(exchange)
        elif wrong := _wrong(body["messages"]):
            fails(400, wrong)(exchange)
        elif exchange.request.is_a_trial:
            word = re.search(r'"enum": \["(\w+)"\]', json.dumps(body))
            answers(answer(self.saying("choose", {"choice": word[1]} if word else "Hello.")))(exchange)
        else:
            self.faults += [f"{len(self.asked)}: {fault}" for fault in contradictions(body, self.form)]
            answers(answer(self.decided(body["messages"])))(exchange)

    def decided(self, messages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        self.number += 1
        lapse = LAPSES.get(self.number, "")
        kind, said = fields_of(decide("\n".join(_in_lines(one) for one in messages)))
        if lapse == "made up":
            kind, said = "Act", "teleport to the moon"
        message = self.saying(kind, said)
        if lapse == "refusal":
            return {"role": "assistant", "content": None, "refusal": "I'm sorry, I can't help with that."}
        if lapse == "beside" and self.form is Form.TOOLS:
            message["content"] = "I will do that next."
        if lapse == "two at once" and self.form is Form.TOOLS:
            message["tool_calls"] += self.saying("Act", "failure")["tool_calls"]
        if lapse == "broken" and self.form is Form.TOOLS:
            message["tool_calls"][0]["function"]["arguments"] = '{"skill": "go to'
        if lapse == "fenced" and self.form is not Form.TOOLS:
            message["content"] = f"```\n{message['content']}\n```"
        return message

    def saying(self, kind: str, said: Any) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": in_lines(kind, said)}
        if self.form is Form.JSON and said != "Hello.":
            message["content"] = json.dumps(said if kind == "choose" else {"decision": {kind: said}})
        if self.form is Form.TOOLS and said != "Hello.":
            given = {{"Think": "thought", "Act": "skill"}[kind]: said} if isinstance(said, str) else said
            function = {"name": kind.lower(), "arguments": json.dumps(given)}
            message |= {"content": None, "tool_calls": [{"id": "own", "type": "function", "function": function}]}
        return message


def in_lines(kind: str, said: Any) -> str:
    if kind == "Expand":
        return f"Expand:\n- control flow: {said['control_flow']}\n- subgoals: {', '.join(said['subgoals'])}"
    return f"{kind}: {said}" if kind in ("Think", "Act") else str(said)


def without_json(prompt: str) -> str:
    """Return a prompt with decisions in lines instead of objects."""
    return _OBJECT.sub(lambda said: in_lines(*next(iter(json.loads(said[1]).items()))), prompt)


def _text(message: Mapping[str, Any]) -> str:
    content = message["content"] or ""
    return content if isinstance(content, str) else "\n".join(part["text"] for part in content)


def _in_lines(message: Mapping[str, Any]) -> str:
    """Return a message as the expert reads it."""
    if calls := message.get("tool_calls"):
        given = json.loads(calls[0]["function"]["arguments"])
        (value,) = given.values() if len(given) == 1 else (given,)
        return in_lines(calls[0]["function"]["name"].capitalize(), value)
    return NOW.sub("", without_json(_text(message))).strip("\n")


def _wrong(messages: Sequence[Mapping[str, Any]]) -> str:
    """Return what a strict server refuses in messages; empty if there is nothing."""
    before: Mapping[str, Any] = {"role": "system"}
    after = {"system": {"user"}, "user": {"assistant"}, "assistant": {"user", "tool"}, "tool": {"assistant"}}
    for number, message in enumerate(messages):
        role, calls = message["role"], message.get("tool_calls")
        if role != "system" and role not in after[before["role"]]:
            return f"Unexpected role '{role}' after role '{before['role']}'"
        if role == "system" and number:
            return "The system message must come first"
        if not (calls or _text(message)):
            return f"messages.{number}: text content blocks must be non-empty"
        if calls and not all(isinstance(json.loads(one["function"]["arguments"]), dict) for one in calls):
            return f"messages.{number}: arguments are not an object"
        owed = [one["id"] for one in before.get("tool_calls") or ()]
        if owed != ([message.get("tool_call_id")] if role == "tool" else []):
            return "An assistant message with 'tool_calls' must be followed by tool messages responding to each id"
        if any(re.fullmatch("[a-zA-Z0-9]{9}", one["id"]) is None for one in calls or ()):
            return "Tool call id has to be defined and of nine letters and digits"
        before = message
    return "" if messages[-1]["role"] in ("user", "tool") else "Expected last role User or Tool"


def contradictions(body: Mapping[str, Any], form: Form) -> list[str]:
    """Return what in a request speaks of another form than the one that it asks for."""
    messages = body["messages"]
    system, said = _text(messages[0]), [pair for pair in itertools.pairwise(messages) if pair[0]["role"] == "assistant"]
    told = [line for one in messages if one["role"] != "assistant" for line in _text(one).split("\n")]
    if form is Form.TOOLS:
        names = [tool["function"]["name"] for tool in body["tools"]]
        *first, last = (f"'{name}'" for name in names)
        rule = f"made with one call of the tool {', '.join(first)} or {last}." in system
        as_asked = all(one["content"] is None and one["tool_calls"][0]["function"]["name"] in names for one, _ in said)
    elif form is Form.JSON:
        schema = body["response_format"]["json_schema"]["schema"]["properties"]["decision"]
        kinds = [[*one["properties"]] for one in schema["anyOf"]]
        samples = re.findall(r"made with one object in JSON, (.*)\.$", system, re.MULTILINE)[0].split(" or ")
        rule = [[*json.loads(one)["decision"]] for one in samples] == kinds
        as_asked = all([*json.loads(one["content"])["decision"]] in kinds for one, _ in said)
    else:
        rule = "It starts with 'Think: '" in system
        refused = "A decision starts with"
        as_asked = all(_OPENING.match(one["content"]) or refused in after["content"] for one, after in said)
    check = {
        "the rule says what is asked for": rule,
        "each earlier decision is as it is asked for": as_asked,
        "the last line lists what is possible": NOW.search(_text(messages[-1])) is not None,
        "it is not kept": not any(NOW.search(_text(one)) for one in messages[:-1]),
        "nothing else is asked for": [one in body for one in ("tools", "response_format")]
        == [form is Form.TOOLS, form is Form.JSON],
        "only lines are spoken of as lines": (form is Form.LINES)
        or not any(_OPENING.match(one) or _QUOTED.search(one) or "starts with" in one for one in told),
    }
    return [what for what, holds in check.items() if not holds]
