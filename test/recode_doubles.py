"""Doubles for ReCode: a model that has code for each function, and ALFWorld's bedroom of the paper's case study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from reactree_lab.planners.recode.planner import CodeNode
from reactree_ros.agent.turns import Saw, render
from reactree_ros.background.pending import Pending
from reactree_ros.episode import Episode
from reactree_ros.household.household import WAH_NL
from reactree_ros.llm.port import DecisionRequest, FreeText, LanguageModel, Reply
from reactree_ros.planners.spec import planner
from reactree_ros.world.port import Observation, Outcome, Score, World

END_OF_EXAMPLES = "(End of the examples)\n\n"


def own_part(prompt: str) -> str:
    """What follows the examples."""
    return prompt.rpartition(END_OF_EXAMPLES)[2]


def function_of(prompt: str) -> str:
    """The function whose code a prompt asks for."""
    call = own_part(prompt).partition("\n")[0].removeprefix("Function: ")
    return call.partition("(")[0].rpartition("= ")[2]


class Coder(LanguageModel):
    """Says, for each function, its next code; wraps it as a model does. Keeps every request."""

    def __init__(self, code: Mapping[str, str | Sequence[str]]) -> None:
        self.code = {name: [texts] if isinstance(texts, str) else list(texts) for name, texts in code.items()}
        self.requests: list[DecisionRequest] = []

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        assert isinstance(request.may_say, FreeText)
        self.requests.append(request)
        texts = self.code[function_of(request.prompt)]
        text = texts.pop(0) if len(texts) > 1 else texts[0]
        return Pending.ready(Reply(text if "<" in text[:1] else f"<execute>\n{text}\n"))

    def prompts(self, function: str = "solve") -> list[str]:
        """What it was asked about a function, without system text and examples."""
        return [own_part(one.prompt) for one in self.requests if function_of(one.prompt) == function]


class Writes(LanguageModel):
    """Says one text after the other, the last one for ever; keeps the prompts."""

    def __init__(self, texts: Sequence[str], *, cut: bool = False) -> None:
        self.texts, self.cut = list(texts), cut
        self.prompts: list[str] = []

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        self.prompts.append(request.prompt)
        text = self.texts.pop(0) if len(self.texts) > 1 else self.texts[0]
        return Pending.ready(Reply(text, finish_reason="length" if self.cut else "stop"))


def run_of(
    code: Mapping[str, str | Sequence[str]],
    world: World,
    *,
    settings: Mapping[str, int] | None = None,
    model: LanguageModel | None = None,
    **given: Any,
) -> Episode:
    """An episode of ReCode whose model has this code."""
    name = ":".join(["recode", *(f"{option}={value}" for option, value in (settings or {}).items())])
    return Episode("do it", model=model or Coder(code), world=world, planner=planner(name), **given)


def coder(run: Episode) -> Coder:
    assert isinstance(run.context.model, Coder)
    return run.context.model


def root(run: Episode) -> CodeNode:
    assert isinstance(run.root, CodeNode)
    return run.root


def lesson_of(node: CodeNode) -> str:
    """What a node said and what was wrong with it, as an example for others."""
    assert node.lesson is not None
    return render(node.lesson)


def own_text(episode: Episode) -> str:
    """What the model is shown of a run: what it said and was told."""
    return "\n".join(turn.text for turn in episode.root.turns if not isinstance(turn, Saw))


class Bedroom(World):
    """The text world of the case study (ReCode, appendix A.4), in ALFWorld's words; two clocks go to the dresser."""

    household = WAH_NL
    PLACES = (
        "bed 1", "desk 1", "drawer 5", "drawer 4", "drawer 3", "drawer 2", "drawer 1", "dresser 1", "garbagecan 1",
        "laundryhamper 1", "shelf 1",
    )  # fmt: skip

    def __init__(self) -> None:
        self.at = ""
        self.held = ""
        self.closed = {place for place in self.PLACES if place.startswith("drawer")}
        self.inside: dict[str, list[str]] = {place: [] for place in self.PLACES}
        self.inside["desk 1"] = ["alarmclock 3", "alarmclock 2", "alarmclock 1", "pencil 1"]
        self.inside["bed 1"] = ["pillow 1"]
        self.executed: list[str] = []

    def reset(self, seed: int | None = None) -> Pending[Observation]:
        return self.observe()

    def observe(self) -> Pending[Observation]:
        places = ", ".join(f"a {place}" for place in self.PLACES)
        return Pending.ready(
            Observation(f"You are in the middle of a room. Looking quickly around you, you see {places}.")
        )

    def available_skills(self) -> Pending[Sequence[str]]:
        return Pending.ready(())

    def execute(self, skill: str) -> Pending[Observation]:
        self.executed.append(skill)
        text = self._do(*skill.split(" ", 1)) if " " in skill else ""
        if text:
            return Pending.ready(Observation(text))
        return Pending.ready(Observation("Nothing happens.", Outcome.PRECONDITION))

    def score(self) -> Pending[Score | None]:
        clocks = sum(thing.startswith("alarmclock") for thing in self.inside["dresser 1"])
        return Pending.ready(Score(float(clocks >= 2), min(clocks, 2) / 2))

    def _do(self, verb: str, rest: str) -> str:
        if verb == "go":
            place = rest.removeprefix("to ")
            if place not in self.PLACES or place == self.at:
                return ""
            self.at = place
            return f"You arrive at {place}. {self._look()}"
        if verb == "examine":
            return self._look() if rest == self.at else ""
        if verb == "open" and rest == self.at and rest in self.closed:
            self.closed.remove(rest)
            return f"You open the {rest}. The {rest} is open. In it, you see {self._things()}."
        thing, _, place = rest.partition(" from " if verb == "take" else " to ")
        if place != self.at or place in self.closed:
            return ""
        if verb == "take" and not self.held and thing in self.inside[place]:
            self.inside[place].remove(thing)
            self.held = thing
            return f"You pick up the {thing} from the {place}."
        if verb == "move" and thing == self.held:
            self.inside[place].append(thing)
            self.held = ""
            return f"You move the {thing} to the {place}."
        return ""

    def _look(self) -> str:
        if self.at in self.closed:
            return f"The {self.at} is closed."
        return f"On the {self.at}, you see {self._things()}."

    def _things(self) -> str:
        return ", ".join(f"a {thing}" for thing in self.inside[self.at]) or "nothing"
