"""What is noticed of an engine over many replies, because one reply does not show it."""

from __future__ import annotations

from collections import deque

from reactree_ros.llm.engine import Generated
from reactree_ros.llm.port import ServerUnavailable

#: Empty texts in a row, from whichever decisions, after which the model is taken for one that says nothing at all.
MOST_SILENT = 8
#: Prompts that are remembered: as many goal nodes may be at work at once.
_REMEMBERED = 16
#: Characters by which a prompt has grown where it certainly has more tokens.
_GROWN = 64
_SHOWN = 80  # characters of what a model thought, in an error


class Noticed:
    """What was noticed of an engine."""

    def __init__(self) -> None:
        self._silent = 0
        self._prompts = deque[tuple[str, int]](maxlen=_REMEMBERED)  # with the tokens that the engine counted

    def look_for_silence(self, engine: str, generated: Generated, *, unfinished: bool) -> None:
        """Take in a text that may be empty.

        Args:
            engine: Its name.
            generated: What came, without reasoning in the text.
            unfinished: Whether it ended while the model still thought.

        Raises:
            ServerUnavailable: It is the last of too many empty ones in a row.
        """
        self._silent = self._silent + 1 if says_nothing(generated) else 0
        if self._silent >= MOST_SILENT:
            self._silent = 0
            raise ServerUnavailable(
                f"{engine} said nothing {MOST_SILENT} times in a row: {_instead(generated, unfinished)} "
                "(--llm-option NAME=VALUE)"
            )

    def cut_of(self, engine: str, prompt: str, generated: Generated) -> str:
        """Say that the engine has cut a prompt without a word; empty where nothing shows that.

        It shows where a prompt goes on from an earlier one and the engine counts no more tokens for it. An engine that
        counts nothing, or only what it had not kept of the earlier one, shows nothing.
        """
        tokens, cached = generated.prompt_tokens or 0, generated.cached_tokens or 0
        if tokens <= 0 or cached > tokens:
            return ""
        said = ""
        for earlier, before in self._prompts:
            grown = len(prompt) - len(earlier)
            if grown < _GROWN or tokens > before or tokens <= grown // 2 + _GROWN or not prompt.startswith(earlier):
                continue
            said = (
                f"{engine} cuts the prompt without a word: it grew from {len(earlier)} to {len(prompt)} characters, "
                f"and its tokens went from {before} to {tokens} by the server's count; give it a longer context "
                "(Ollama: OLLAMA_CONTEXT_LENGTH, or num_ctx in a Modelfile; llama.cpp: --ctx-size; vLLM: "
                "--max-model-len)"
            )
        self._prompts.append((prompt, tokens))
        return said


def says_nothing(generated: Generated) -> bool:
    """Return whether a text is empty, and no tool was called instead."""
    return not (generated.text.strip() or generated.calls)


def _instead(generated: Generated, unfinished: bool) -> str:
    """Say what came instead of a text, and the way out."""
    if unfinished and generated.finish_reason == "length":
        return "it still thought when its limit was reached; raise reasoning_tokens, or set thinking=false"
    if generated.reasoning:
        words = " ".join(generated.reasoning.split())
        shown = repr(words if len(words) <= _SHOWN else f"{words[:_SHOWN]} …")
        return (
            f"a thought came ({shown}) and no answer; set thinking=false, or have the server hold the answer alone to "
            "the grammar, not the thought"
        )
    tokens = "unknown" if generated.output_tokens is None else generated.output_tokens
    return f"empty texts came ({tokens} output tokens); look into its log, and try thinking=false or chat=false"
