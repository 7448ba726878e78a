"""In-context examples, as what agent nodes were told, said and saw."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from reactree_ros.agent.household import START_LINE
from reactree_ros.agent.transcript import exact_turns
from reactree_ros.agent.turns import About, Told, Turn, render

#: The empty line between two nodes.
_BETWEEN = Told("", About.ANSWER)


@dataclass(frozen=True)
class Example:
    """An in-context example."""

    nodes: tuple[tuple[Turn, ...], ...]  # the turns of each agent node, at least one; a tree has several
    short: Example | None = None  # A shorter example of the same, for prompts that this one does not fit into

    @classmethod
    def of_text(cls, text: str, *, start_line: str = START_LINE) -> Example:
        """Read the text of one node, or of several with an empty line between them; any other text is a single turn."""
        for parts in ([text], text.split("\n\n")):
            nodes = [turns for part in parts if (turns := exact_turns(part, start_line=start_line))]
            if len(nodes) == len(parts):
                return cls(tuple(nodes))
        return cls(((Told(text, About.SYSTEM),),))

    @property
    def turns(self) -> tuple[Turn, ...]:
        first, *rest = self.nodes
        return (*first, *(turn for node in rest for turn in (_BETWEEN, *node)))

    @property
    def text(self) -> str:
        return render(self.turns)

    def shorter(self) -> Example | None:
        """Return the next shorter example: the short one, or without the last node; None if there is none."""
        return self.short or (replace(self, nodes=self.nodes[:-1]) if len(self.nodes) > 1 else None)


def shortened(examples: Sequence[Example], excess: int, *, count: Callable[[str], int]) -> list[Example]:
    """Return in-context examples, the most similar first, once so many tokens are gone; the last one shrinks first."""
    kept = list(examples)
    while kept and excess > 0:
        last = kept.pop()
        excess -= count(last.text)
        if (shorter := last.shorter()) is not None:
            excess += count(shorter.text)
            kept.append(shorter)
    return kept
