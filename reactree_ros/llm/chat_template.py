"""The chat template of a model in this process: what it accepts, and how it opens a reply."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from reactree_ros.agent.turns import About, Said, Saw, Told, Turn
from reactree_ros.llm.chat import ChatLayout, Examples, Message, chat_messages, find_layout, texts_of, with_texts
from reactree_ros.llm.markers import SEAM, Markers
from reactree_ros.llm.port import RequestRejected
from reactree_ros.llm.reasoning import MARKS, Marks, Reasoning
from reactree_ros.llm.seeing import Showing
from reactree_ros.llm.thinking import Thinking

#: Stands for a reply: the text that a template writes before it opens the reply.
_REPLY = "THE-REPLY-STANDS-HERE"
_TRIAL = (Told("You are a robot.", About.SYSTEM), Told("Look."), Said("I look."), Saw("Nothing."))


@dataclass(frozen=True, kw_only=True)
class ChatTemplate:
    """A chat template and how to use it; :meth:`find` makes one."""

    tokenizer: Any
    model: str
    arguments: Mapping[str, Any]  # arguments of the template besides the messages
    layout: ChatLayout = field(default_factory=ChatLayout)
    opens: bool = False  # whether it opens a reply itself
    parts: bool = False  # whether it accepts contents only in parts, as templates of vision models do
    thinking: Thinking | None = None  # how the model thinks before it answers; None if unknown
    markers: Markers = field(default_factory=Markers)  # control tokens that no message may contain

    @classmethod
    async def find(
        cls, tokenizer: Any, model: str, reasoning: Reasoning, examples: Examples | None = None
    ) -> ChatTemplate:
        """Find out what a tokenizer's chat template accepts; ``examples`` says how they stand in it.

        Raises:
            RequestRejected: There is no template, or it drops messages.
        """
        if not reasoning.tokens:
            reasoning = replace(reasoning, thinking=False)
        markers = Markers.of(tokenizer)
        template = cls(
            tokenizer=tokenizer,
            model=model,
            arguments=reasoning.template_arguments,
            layout=ChatLayout(examples=examples != "text"),
            markers=markers,
        )
        try:
            return await template._found(reasoning)
        except RequestRejected as refusal:
            try:
                return await replace(template, parts=True)._found(reasoning)
            except RequestRejected:
                raise refusal from refusal.__cause__

    async def _found(self, reasoning: Reasoning) -> ChatTemplate:
        async def render(messages: list[Message]) -> str:
            return self._write(messages)

        template = replace(self, layout=replace(await find_layout(render), examples=self.layout.examples))
        messages = chat_messages(_TRIAL, layout=template.layout)
        written = template._write(messages)
        template._check_kept(messages, written)
        opens = template._write(messages, add_generation_prompt=True) != written
        return replace(template, opens=opens, thinking=template._find_thinking(messages, reasoning))

    def prompt(self, turns: Sequence[Turn], showing: Showing | None = None) -> str:
        """Write a prompt: the turns and the opening of a reply. A marker in a turn is split by a seam.

        If the model spoke last, the reply is its next line. Where a picture is shown stands what the template writes
        for one.
        """
        messages = self._messages(turns, self.layout, showing)
        written = self._written(messages)
        systems = [one["content"].strip() for one in messages[:1] if one["role"] == "system"]
        if not all(system in written for system in systems):  # some look for words in it and remove them
            written = self._written(self._messages(turns, replace(self.layout, system=False), showing))
        return written

    def _written(self, messages: list[Message]) -> str:
        """Write a prompt; spell letter by letter any text that the template would turn into a marker."""
        written = self._open_reply(messages)
        if all(text.strip() in written for one in messages for text in texts_of(one)):
            return written
        spelled = self._open_reply([with_texts(one, SEAM.join) for one in messages])
        return spelled if self.markers.count(spelled) < self.markers.count(written) else written

    def _messages(self, turns: Sequence[Turn], layout: ChatLayout, showing: Showing | None) -> list[Message]:
        messages = chat_messages(turns, layout=layout, showing=showing)
        return [with_texts(one, self.markers.apart) for one in messages]

    def writes_pictures(self) -> bool:
        """Return whether the template writes something of its own where a picture is shown."""
        look, picture = {"type": "text", "text": "Look."}, {"type": "image", "image": None}
        try:
            plain, shown = (self._write([{"role": "user", "content": one}]) for one in ([look], [look, picture]))
        except RequestRejected:
            return False
        return "Look." in shown and plain != shown and "'type'" not in shown and self.markers.count(shown) > 0

    def _open_reply(self, messages: list[Message]) -> str:
        if messages and messages[-1]["role"] == "assistant":
            messages = [*messages[:-1], messages[-1] | {"content": f"{messages[-1]['content']}\n{_REPLY}"}]
        elif self.opens:
            return self._write(messages, add_generation_prompt=True)
        else:
            messages = [*messages, {"role": "assistant", "content": _REPLY}]
        before, found, _ = self._write(messages).rpartition(_REPLY)
        if not found:
            raise self._refusal("it leaves out what the model said")
        return before.rstrip(" ")  # tokenizers join a space to the next word

    def in_words(self) -> Mapping[str, str]:
        """Describe how prompts are laid out, and how the model thinks as far as known."""
        opening = "" if self.opens else "; replies are opened without the template"
        return {"chat layout": f"{self.layout.in_words()}{opening}", "thinks": self._thinks_in_words()}

    def _thinks_in_words(self) -> str:
        if self.thinking is None:
            return "not that its chat template tells"
        if not self.thinking.tokens:
            return "no"
        marks = self.thinking.marks
        return f"between {marks.begin} and {marks.end}, at most {self.thinking.tokens} tokens"

    def _find_thinking(self, messages: list[Message], reasoning: Reasoning) -> Thinking | None:
        marks = self._find_marks(asked=reasoning.thinking is True)
        if marks is None:
            return None
        off = Reasoning(thinking=False).template_arguments
        _, closed, after = self._write(messages, add_generation_prompt=True, **off).rpartition(marks.end)
        if not closed or after.strip():
            after = "\n\n" if marks == MARKS[0] else ""
        return Thinking(
            marks=marks,
            after=after,
            tokens=0 if reasoning.thinking is False else reasoning.tokens,
            always=reasoning.thinking is True or "<|channel|>" in marks.begin,
            mark_tokens=1 + max(self._count(marks.begin), self._count(marks.end + after)),
            markers=self.markers,
        )

    def _find_marks(self, *, asked: bool) -> Marks | None:
        """Return the marks that the template mentions, or marks among the tokens if thinking is asked for."""
        text = str(self.tokenizer.chat_template)
        tokens = self.tokenizer.get_vocab() if asked else {}
        mentioned = [marks for marks in MARKS if marks.begin in text or marks.end in text]
        return next(iter([*mentioned, *(marks for marks in MARKS if marks.begin in tokens)]), None)

    def _count(self, text: str) -> int:
        return len(self.tokenizer.encode(text, add_special_tokens=False))

    def _write(self, messages: list[Message], **arguments: Any) -> str:
        told = {"add_generation_prompt": False, **self.arguments, **arguments}
        given: Any = messages
        if self.parts or not all(isinstance(one["content"], str) for one in messages):
            given = [one | {"content": self._parts(one["content"])} for one in messages]
        try:
            return str(self.tokenizer.apply_chat_template(given, tokenize=False, **told))
        except Exception as error:  # a template may raise anything
            raise self._refusal(" ".join(str(error).split())[:400]) from error

    def _parts(self, content: Any) -> Any:
        if isinstance(content, str):
            return [{"type": "text", "text": content}] if self.parts else content
        return [{"type": "image"} if "image" in one else one for one in content]

    def _check_kept(self, messages: list[Message], written: str) -> None:
        """Check that the template writes every message, in order."""
        at = 0
        for message in messages:
            at = written.find(message["content"], at)
            if at < 0:
                raise self._refusal(f"it leaves out the message of the {message['role']}")
            at += len(message["content"])

    def _refusal(self, problem: str) -> RequestRejected:
        return RequestRejected(
            f"the chat template of {self.model} cannot be used: {problem}; set chat to false to send prompts as text"
        )
