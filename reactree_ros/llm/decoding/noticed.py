"""Findings about an engine that show only over many replies."""

from __future__ import annotations

from collections import deque

from reactree_ros.llm.engine import Generated
from reactree_ros.llm.port import ServerUnavailable

#: Empty texts in a row, over all decisions, after which the model counts as silent.
MOST_SILENT = 8
#: Prompts that are remembered, for as many goal nodes at work at once.
_REMEMBERED = 16
#: A prompt that has grown by so many characters certainly has more tokens.
_GROWN = 64
_SHOWN = 80  # characters of a thought that an error shows


class Noticed:
    """Findings about an engine."""

    def __init__(self) -> None:
        self._silent = 0
        self._prompts = deque[tuple[str, int]](maxlen=_REMEMBERED)  # with the engine's count of their tokens

    def look_for_silence(self, engine: str, generated: Generated, *, unfinished: bool) -> None:
        """Check a text that may be empty.

        Raises:
            ServerUnavailable: This was the last of too many empty texts in a row.
        """
        self._silent = self._silent + 1 if says_nothing(generated) else 0
        if self._silent >= MOST_SILENT:
            self._silent = 0
            raise ServerUnavailable(
                f"{engine} said nothing {MOST_SILENT} times in a row: {_instead(generated, unfinished)} "
                "(--llm-option NAME=VALUE)"
            )

    def cut_of(self, engine: str, prompt: str, generated: Generated) -> str:
        """Say that the engine silently truncates a prompt; empty if nothing shows that.

        It shows if a prompt continues an earlier one and the engine counts no more tokens for it. It cannot show if the
        engine counts nothing, or counts only tokens that it had not cached.
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
                f"{engine} silently truncates the prompt: it grew from {len(earlier)} to {len(prompt)} characters, "
                f"and its tokens went from {before} to {tokens} by the server's count; give it a longer context "
                "(Ollama: OLLAMA_CONTEXT_LENGTH, or num_ctx in a Modelfile; llama.cpp: --ctx-size; vLLM: "
                "--max-model-len)"
            )
        self._prompts.append((prompt, tokens))
        return said


def says_nothing(generated: Generated) -> bool:
    """Return whether a text is empty and no tool was called."""
    return not (generated.text.strip() or generated.calls)


def _instead(generated: Generated, unfinished: bool) -> str:
    """Say what came instead of a text, and the way out."""
    if unfinished and generated.finish_reason == "length":
        return "it still thought when its limit was reached; raise reasoning_tokens, or set thinking=false"
    if generated.reasoning:
        words = " ".join(generated.reasoning.split())
        shown = repr(words if len(words) <= _SHOWN else f"{words[:_SHOWN]} …")
        return (
            f"a thought came ({shown}) and no answer; set thinking=false, or have the server apply the grammar to "
            "the answer only"
        )
    tokens = "unknown" if generated.output_tokens is None else generated.output_tokens
    return f"empty texts came ({tokens} output tokens); read its log, and try thinking=false or chat=false"
