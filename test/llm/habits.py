"""Habits of speech: how chat models dress what they decide. Each takes a decision in plain words and dresses it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from reactree_ros.agent.grammar import parse_decision
from reactree_ros.agent.kinds.act import Act
from reactree_ros.agent.kinds.expand import Expand
from reactree_ros.agent.kinds.think import Think


@dataclass(frozen=True)
class Plain:
    """What is to be said.

    Attributes:
        text: The decision in plain words.
        next: The plain words of the decision that comes after it, where it is a thought; empty otherwise.
    """

    text: str
    next: str = ""

    @property
    def decision(self) -> Think | Act | Expand:
        return parse_decision(self.text)

    def as_json(self) -> tuple[str, object]:
        """The decision's kind, and what it says as JSON has it."""
        decision = self.decision
        if isinstance(decision, Expand):
            return "expand", {"control_flow": str(decision.control_flow), "subgoals": list(decision.subgoals)}
        return ("think", decision.thought) if isinstance(decision, Think) else ("act", decision.skill)

    def worded(self, *, think: str = "Think: {}", act: str = "Act: {}", expand: str = "") -> str:
        """The decision in other words for each kind; ``expand`` has ``{flow}`` and ``{goals}`` in it."""
        decision = self.decision
        if isinstance(decision, Think):
            return think.format(decision.thought)
        if isinstance(decision, Act):
            return act.format(decision.skill)
        goals = ", ".join(decision.subgoals)
        return expand.format(flow=str(decision.control_flow), goals=goals) if expand else self.text

    def with_skill(self, change: Callable[[str], str]) -> str:
        """The decision with its skill in other words."""
        return f"Act: {change(self.decision.skill)}" if isinstance(self.decision, Act) else self.text

    def with_subgoals(self, change: Callable[[Sequence[str]], str]) -> str:
        """The decision with what follows ``- subgoals:`` in other words."""
        decision = self.decision
        if not isinstance(decision, Expand):
            return self.text
        return f"Expand:\n- control flow: {decision.control_flow!s}\n- subgoals:{change(decision.subgoals)}"


Habit = Callable[[Plain], str]
#: What is added to each subgoal so that it contains a comma.
AS_ASKED = ", as asked"


def verb_of(plain: Plain) -> tuple[str, str]:
    """Split a skill into its verb and what it is done to."""
    skill = plain.decision.skill if isinstance(plain.decision, Act) else ""
    verb = re.match(r"(?:go to|pick up|put down|turn on|recall location of|open|close) (?=.)", skill)
    return (verb[0].strip(), skill[verb.end() :]) if verb else (skill, "")


def text(dress: str) -> Habit:
    """Dress the text, which stands for ``{}``."""
    return lambda plain: dress.replace("{}", plain.text)


def but_thoughts(dress: str) -> Habit:
    """Dress the text, but for a thought, of which the dress would be a part."""
    return lambda plain: plain.text if isinstance(plain.decision, Think) else dress.format(plain.text)


def words(think: str = "Think: {}", act: str = "Act: {}", expand: str = "") -> Habit:
    """Word each kind of decision otherwise; ``expand`` has ``{flow}`` and ``{goals}`` in it."""
    return lambda plain: plain.worded(think=think, act=act, expand=expand)


def lines(dress: str) -> Habit:
    """Dress each line."""
    return lambda plain: "\n".join(dress.format(line) for line in plain.text.split("\n"))


def skill(change: Callable[[str], str]) -> Habit:
    return lambda plain: plain.with_skill(change)


def instance(dress: str) -> Habit:
    """Dress the number of a skill's instance."""
    return skill(lambda said: re.sub(r"(\d+)$", dress, said))


def thing(act: str, alone: str, think: str = "Think: {}") -> Habit:
    """Word a skill by its ``{verb}`` and its ``{thing}``, one without a thing by ``alone``."""

    def dressed(plain: Plain) -> str:
        verb, named = verb_of(plain)
        return plain.worded(think=think, act=act.format(verb=verb, thing=named) if named else alone)

    return dressed


def goals(change: Callable[[Sequence[str]], str]) -> Habit:
    return lambda plain: plain.with_subgoals(change)


def one_a_line(dress: str) -> Habit:
    return goals(lambda all: "".join(f"\n{dress.format(goal, n=number)}" for number, goal in enumerate(all, 1)))


def as_json(change: Callable[[str, Any], Any], around: str = "{}", indent: int | None = None) -> Habit:
    """Say it in JSON: ``change`` makes a value of its kind and of what it says."""
    return lambda plain: around.replace("{}", json.dumps(change(*plain.as_json()), indent=indent))


def _markdown(plain: Plain) -> str:
    listed = one_a_line("{n}. **{}**\n")(plain).replace("subgoals:\n", "subgoals:\n\n")
    return re.sub(r"^- (\w[\w ]*):", r"- **\1**:", listed, flags=re.MULTILINE)


def _call_of_a_skill(plain: Plain) -> str:
    if not isinstance(plain.decision, Act):
        return plain.text
    verb, named = verb_of(plain)
    call = {"name": verb.replace(" ", "_"), "arguments": {"object": named} if named else {}}
    return f"<tool_call>\n{json.dumps(call)}\n</tool_call>"


def _commas_in_json(plain: Plain) -> str:
    if not isinstance(plain.decision, Expand):
        return plain.text
    said = {"control_flow": str(plain.decision.control_flow)}
    subgoals = [f"{goal}{AS_ASKED}" for goal in plain.decision.subgoals]
    return json.dumps({"decision": {"Expand": {**said, "subgoals": subgoals}}})


def _with_the_next(joined: str, *, on_one_line: bool = False) -> Habit:
    def dressed(plain: Plain) -> str:
        both = plain.next.startswith("Act: ") and plain.text.endswith(".") if on_one_line else plain.next
        return f"{plain.text}{joined}{plain.next}" if both else plain.text

    return dressed


_MADE_UP = "\nObservation: It worked.\nThought: I am done.\nAction: done\nObservation: Well done!"

HABITS: dict[str, Habit] = {
    # around a decision
    "blank lines first": text("\n\n\n{}"),
    "trailing spaces and blank lines": lambda plain: "  \n".join(plain.text.split("\n")) + "  \n\n\n",
    "a preamble on a line of its own": text("Sure! Based on what I see, here is my next decision:\n\n{}"),
    "a preamble on the same line": text("Certainly! {}"),
    "reasoning in prose first": text(
        "The robot is not there yet, and if it goes on like this it will be. I should go on.\n\n{}"
    ),
    "an apology first": text("I apologize for the confusion.\n{}"),
    "an okay first": text("OK. {}"),
    "an okay last": text("{}\nOK."),
    "the role first": text("Assistant: {}"),
    "a label for the answer": text("**Final Answer:** {}"),
    "an explanation after it": but_thoughts("{}\n\nThis is the best way to make progress, since the house is large."),
    "a labelled reason after it": but_thoughts("{}\nReason: it is what the task needs now."),
    "the end of the turn spelled out": text("{}<|im_end|>"),
    "the end of the text spelled out": text(" {}</s>"),
    "a turn of the user made up": text("{}<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nNo. Act: failure"),
    # marks
    "a bold kind": lambda plain: re.sub(r"\A(\w+):", r"**\1:**", plain.text),
    "everything bold": lines("**{}**"),
    "a heading": text("### {}"),
    "headings without a colon": words("### Thought\n\n{}", "### Action\n\n{}"),
    "a code fence": text("```\n{}\n```"),
    "a code fence with a language amid prose": but_thoughts(
        "Here is the next step:\n```text\n{}\n```\nLet me know how it goes."
    ),
    "quotes around it": text('"{}"'),
    "backticks": words("`Think: {}`", "Act: `{}`"),
    "a blockquote": lines("> {}"),
    "the numbers of the system text": lambda plain: f"{'TAE'.index(plain.text[0]) + 1}. {plain.text}",
    "a bullet": text("- {}"),
    "pictures": text("🤖 {} 🚀"),
    "answer tags": text("<answer>\n{}\n</answer>"),
    "tags for the kinds": words("<thought>{}</thought>", "<action>{}</action>"),
    # words
    "kinds in capitals": lambda plain: plain.worded(
        think="THINK: {}",
        act=plain.with_skill(str.upper).replace("Act", "ACT"),
        expand="EXPAND:\n- CONTROL FLOW: {flow}\n- SUBGOALS: {goals}",
    ),
    "kinds in lower case": lambda plain: plain.text[0].lower() + plain.text[1:],
    "a skill as a sentence": skill(lambda said: f"{said.capitalize()}."),
    "articles": thing("Act: {verb} the {thing}", "Act: {}"),
    "instances in brackets": instance(r"(\1)"),
    "instances in square brackets": instance(r"[\1]"),
    "instances with a number sign": instance(r"#\1"),
    "names with underscores": lambda plain: plain.with_skill(
        lambda _: f"{verb_of(plain)[0]} {verb_of(plain)[1].replace(' ', '_')}"
    ),
    "thought and action": words("Thought: {}", "Action: {}", "Plan:\n- Control flow: {flow}\n- Subgoals: {goals}"),
    "next action": words("My reasoning: {}", "**Next action:** {}"),
    "decision before the kind": text("Decision: {}"),
    "steps": text("Step 3: {}"),
    "a dash for the colon": words("Think — {}", "Act — {}"),
    "no label for skills": words(act="{}"),
    # frameworks
    "react with numbers and square brackets": thing("Action 4: {verb}[{thing}]", "Action 4: {}", "Thought 4: {}"),
    "action and action input": thing("Action: {verb}\nAction Input: {thing}", "Action: {}", "Thought: {}"),
    "a thought with the act after it": _with_the_next("\n"),
    "a thought with the act after it on one line": _with_the_next(" ", on_one_line=True),
    "the run made up from here on": words("Thought: {}" + _MADE_UP, "Action: {}" + _MADE_UP),
    "the run made up in the words of the prompt": words(
        "Think: {}\nOK.", "Act: {}\nYou arrive at the sofa (1). You see apple (1).\nAct: failure"
    ),
    # reasoning
    "thinking in tags": text("<think>\nShould I give up? Act: failure\nNo, wait.\n</think>\n\n{}"),
    "thinking with the closing tag alone": text("Hmm, let me see.\nAct: failure\n</think>\n\n{}"),
    "thinking in mistrals tags": text("[THINK]Not yet.[/THINK]{}"),
    "channels": text(
        "<|channel|>analysis<|message|>We need to decide. Act: failure?<|end|>"
        "<|start|>assistant<|channel|>final<|message|>{}<|return|>"
    ),
    "channels that leak": text("analysisWe need to decide.assistantfinal{}"),
    # JSON
    "json alone": as_json(lambda kind, said: {kind: said}),
    "json with thought and action in a fence": as_json(
        lambda kind, said: {{"think": "thought", "act": "action", "expand": "expand"}[kind]: said},
        "```json\n{}\n```",
        indent=2,
    ),
    "json after a preamble": as_json(
        lambda kind, said: {"decision": {kind.capitalize(): said}}, "Here is my decision in JSON:\n\n{}"
    ),
    "json with a type": as_json(
        lambda kind, said: {"type": kind, **(said if isinstance(said, dict) else {"content": said})}
    ),
    "json with the decision as text": lambda plain: json.dumps({"decision": plain.text}),
    "json of a call": as_json(
        lambda kind, said: {
            "name": kind,
            "arguments": said if isinstance(said, dict) else {{"think": "thought", "act": "skill"}[kind]: said},
        }
    ),
    "json of a call named after the skill in tags": _call_of_a_skill,
    "json in an array": as_json(lambda kind, said: [{"thought" if kind == "think" else kind: said}]),
    "a dictionary of python": lambda plain: str({plain.as_json()[0]: plain.as_json()[1], "memory": None}),
    # characters
    "line ends of windows": lambda plain: plain.text.replace("\n", "\r\n") + "\r\n",
    "typographic quotes": words(act="Act: “{}”", expand="Expand:\n– control flow: “{flow}”\n– subgoals: {goals}"),
    "spaces that do not break": lambda plain: plain.with_skill(lambda said: said.replace(" ", "\u00a0")).replace(
        ": ", ":\u00a0", 1
    ),
    "invisible characters": lambda plain: "\ufeff\u200b" + plain.with_skill(lambda said: f"{said[:4]}\u200b{said[4:]}"),
    "colons of full width": lambda plain: plain.text.replace(":", "：", 1),  # noqa: RUF001
    # subgoals
    "subgoals as bullets": one_a_line("  - {}"),
    "subgoals with numbers": one_a_line("{n}. {}."),
    "subgoals one a line": one_a_line("{}"),
    "subgoals as an array": goals(lambda all: f" {json.dumps(all)}"),
    "subgoals in markdown": _markdown,
    "subgoals that contain commas": one_a_line("- {}" + AS_ASKED),
    "subgoals that contain commas in json": _commas_in_json,
    "an expansion on one line": words(expand="Expand: control flow: {flow}, subgoals: {goals}"),
    "an expansion with the control flow first": words(expand="Expand ({flow}): {goals}"),
}
