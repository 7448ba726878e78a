"""Habits of speech: how chat models dress what they decide. Each takes a decision in plain words and dresses it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

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

    def unless_thought(self, dress: str) -> str:
        """The decision in a dress, but for a thought, of which that would be a part."""
        return self.text if isinstance(self.decision, Think) else dress.format(self.text)

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
HABITS: dict[str, Habit] = {}
#: What is added to each subgoal so that it contains a comma.
AS_ASKED = ", as asked"


def habit(dress: Habit) -> Habit:
    HABITS[dress.__name__.replace("_", " ")] = dress
    return dress


def verb_of(skill: str) -> tuple[str, str]:
    """Split a skill into its verb and what it is done to."""
    verb = re.match(r"(?:go to|pick up|put down|turn on|recall location of|open|close) (?=.)", skill)
    return (verb[0].strip(), skill[verb.end() :]) if verb else (skill, "")


# ---------------------------------------------------------------------- around a decision


@habit
def blank_lines_first(plain: Plain) -> str:
    return f"\n\n\n{plain.text}"


@habit
def trailing_spaces_and_blank_lines(plain: Plain) -> str:
    return "  \n".join(plain.text.split("\n")) + "  \n\n\n"


@habit
def a_preamble_on_a_line_of_its_own(plain: Plain) -> str:
    return f"Sure! Based on what I see, here is my next decision:\n\n{plain.text}"


@habit
def a_preamble_on_the_same_line(plain: Plain) -> str:
    return f"Certainly! {plain.text}"


@habit
def reasoning_in_prose_first(plain: Plain) -> str:
    return f"The robot is not there yet, and if it goes on like this it will be. I should go on.\n\n{plain.text}"


@habit
def an_apology_first(plain: Plain) -> str:
    return f"I apologize for the confusion.\n{plain.text}"


@habit
def an_okay_first(plain: Plain) -> str:
    return f"OK. {plain.text}"


@habit
def an_okay_last(plain: Plain) -> str:
    return f"{plain.text}\nOK."


@habit
def the_role_first(plain: Plain) -> str:
    return f"Assistant: {plain.text}"


@habit
def a_label_for_the_answer(plain: Plain) -> str:
    return f"**Final Answer:** {plain.text}"


@habit
def an_explanation_after_it(plain: Plain) -> str:
    return plain.unless_thought("{}\n\nThis is the best way to make progress, since the house is large.")


@habit
def a_labelled_reason_after_it(plain: Plain) -> str:
    return plain.unless_thought("{}\nReason: it is what the task needs now.")


@habit
def the_end_of_the_turn_spelled_out(plain: Plain) -> str:
    return f"{plain.text}<|im_end|>"


@habit
def the_end_of_the_text_spelled_out(plain: Plain) -> str:
    return f" {plain.text}</s>"


@habit
def a_turn_of_the_user_made_up(plain: Plain) -> str:
    return f"{plain.text}<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nNo. Act: failure"


# ---------------------------------------------------------------------- marks


@habit
def a_bold_kind(plain: Plain) -> str:
    return re.sub(r"\A(\w+):", r"**\1:**", plain.text)


@habit
def everything_bold(plain: Plain) -> str:
    return "\n".join(f"**{line}**" for line in plain.text.split("\n"))


@habit
def a_heading(plain: Plain) -> str:
    return f"### {plain.text}"


@habit
def headings_without_a_colon(plain: Plain) -> str:
    return plain.worded(think="### Thought\n\n{}", act="### Action\n\n{}")


@habit
def a_code_fence(plain: Plain) -> str:
    return f"```\n{plain.text}\n```"


@habit
def a_code_fence_with_a_language_amid_prose(plain: Plain) -> str:
    return plain.unless_thought("Here is the next step:\n```text\n{}\n```\nLet me know how it goes.")


@habit
def quotes_around_it(plain: Plain) -> str:
    return f'"{plain.text}"'


@habit
def backticks(plain: Plain) -> str:
    return plain.worded(act="Act: `{}`", think="`Think: {}`")


@habit
def a_blockquote(plain: Plain) -> str:
    return "\n".join(f"> {line}" for line in plain.text.split("\n"))


@habit
def the_numbers_of_the_system_text(plain: Plain) -> str:
    number = {"T": 1, "A": 2, "E": 3}[plain.text[0]]
    return f"{number}. {plain.text}"


@habit
def a_bullet(plain: Plain) -> str:
    return f"- {plain.text}"


@habit
def pictures(plain: Plain) -> str:
    return f"🤖 {plain.text} 🚀"


@habit
def answer_tags(plain: Plain) -> str:
    return f"<answer>\n{plain.text}\n</answer>"


@habit
def tags_for_the_kinds(plain: Plain) -> str:
    return plain.worded(think="<thought>{}</thought>", act="<action>{}</action>")


# ---------------------------------------------------------------------- words


@habit
def kinds_in_capitals(plain: Plain) -> str:
    return plain.worded(
        think="THINK: {}",
        act=plain.with_skill(str.upper).replace("Act", "ACT"),
        expand="EXPAND:\n- CONTROL FLOW: {flow}\n- SUBGOALS: {goals}",
    )


@habit
def kinds_in_lower_case(plain: Plain) -> str:
    return plain.text[0].lower() + plain.text[1:]


@habit
def a_skill_as_a_sentence(plain: Plain) -> str:
    return plain.with_skill(lambda skill: f"{skill.capitalize()}.")


@habit
def articles(plain: Plain) -> str:
    def with_article(skill: str) -> str:
        verb, thing = verb_of(skill)
        return f"{verb} the {thing}" if thing else skill

    return plain.with_skill(with_article)


@habit
def instances_in_brackets(plain: Plain) -> str:
    return plain.with_skill(lambda skill: re.sub(r"(\d+)$", r"(\1)", skill))


@habit
def instances_in_square_brackets(plain: Plain) -> str:
    return plain.with_skill(lambda skill: re.sub(r"(\d+)$", r"[\1]", skill))


@habit
def instances_with_a_number_sign(plain: Plain) -> str:
    return plain.with_skill(lambda skill: re.sub(r"(\d+)$", r"#\1", skill))


@habit
def names_with_underscores(plain: Plain) -> str:
    def joined(skill: str) -> str:
        verb, thing = verb_of(skill)
        return f"{verb} {thing.replace(' ', '_')}"

    return plain.with_skill(joined)


@habit
def thought_and_action(plain: Plain) -> str:
    return plain.worded(
        think="Thought: {}", act="Action: {}", expand="Plan:\n- Control flow: {flow}\n- Subgoals: {goals}"
    )


@habit
def next_action(plain: Plain) -> str:
    return plain.worded(think="My reasoning: {}", act="**Next action:** {}")


@habit
def decision_before_the_kind(plain: Plain) -> str:
    return f"Decision: {plain.text}"


@habit
def steps(plain: Plain) -> str:
    return f"Step 3: {plain.text}"


@habit
def a_dash_for_the_colon(plain: Plain) -> str:
    return plain.worded(think="Think — {}", act="Act — {}")


@habit
def no_label_for_skills(plain: Plain) -> str:
    return plain.worded(act="{}")


# ---------------------------------------------------------------------- frameworks


@habit
def react_with_numbers_and_square_brackets(plain: Plain) -> str:
    verb, thing = verb_of(plain.decision.skill) if isinstance(plain.decision, Act) else ("", "")
    return plain.worded(think="Thought 4: {}", act=f"Action 4: {verb}[{thing}]" if thing else "Action 4: {}")


@habit
def action_and_action_input(plain: Plain) -> str:
    verb, thing = verb_of(plain.decision.skill) if isinstance(plain.decision, Act) else ("", "")
    return plain.worded(think="Thought: {}", act=f"Action: {verb}\nAction Input: {thing}" if thing else "Action: {}")


@habit
def a_thought_with_the_act_after_it(plain: Plain) -> str:
    return f"{plain.text}\n{plain.next}" if plain.next else plain.text


@habit
def a_thought_with_the_act_after_it_on_one_line(plain: Plain) -> str:
    both = plain.next.startswith("Act: ") and plain.text.endswith(".")
    return f"{plain.text} {plain.next}" if both else plain.text


@habit
def the_run_made_up_from_here_on(plain: Plain) -> str:
    more = "Observation: It worked.\nThought: I am done.\nAction: done\nObservation: Well done!"
    return plain.worded(think="Thought: {}\n" + more, act="Action: {}\n" + more)


@habit
def the_run_made_up_in_the_words_of_the_prompt(plain: Plain) -> str:
    return plain.worded(
        think="Think: {}\nOK.", act="Act: {}\nYou arrive at the sofa (1). You see apple (1).\nAct: failure"
    )


# ---------------------------------------------------------------------- reasoning


@habit
def thinking_in_tags(plain: Plain) -> str:
    return f"<think>\nShould I give up? Act: failure\nNo, wait.\n</think>\n\n{plain.text}"


@habit
def thinking_with_the_closing_tag_alone(plain: Plain) -> str:
    return f"Hmm, let me see.\nAct: failure\n</think>\n\n{plain.text}"


@habit
def thinking_in_mistrals_tags(plain: Plain) -> str:
    return f"[THINK]Not yet.[/THINK]{plain.text}"


@habit
def channels(plain: Plain) -> str:
    return (
        "<|channel|>analysis<|message|>We need to decide. Act: failure?<|end|>"
        f"<|start|>assistant<|channel|>final<|message|>{plain.text}<|return|>"
    )


@habit
def channels_that_leak(plain: Plain) -> str:
    return f"analysisWe need to decide.assistantfinal{plain.text}"


# ---------------------------------------------------------------------- JSON


@habit
def json_alone(plain: Plain) -> str:
    kind, said = plain.as_json()
    return json.dumps({kind: said})


@habit
def json_with_thought_and_action_in_a_fence(plain: Plain) -> str:
    kind, said = plain.as_json()
    named = {"think": {"thought": said}, "act": {"action": said}, "expand": {"expand": said}}[kind]
    return f"```json\n{json.dumps(named, indent=2)}\n```"


@habit
def json_after_a_preamble(plain: Plain) -> str:
    kind, said = plain.as_json()
    return f"Here is my decision in JSON:\n\n{json.dumps({'decision': {kind.capitalize(): said}})}"


@habit
def json_with_a_type(plain: Plain) -> str:
    kind, said = plain.as_json()
    return json.dumps({"type": kind, **said} if isinstance(said, dict) else {"type": kind, "content": said})


@habit
def json_with_the_decision_as_text(plain: Plain) -> str:
    return json.dumps({"decision": plain.text})


@habit
def json_of_a_call(plain: Plain) -> str:
    kind, said = plain.as_json()
    arguments = said if isinstance(said, dict) else {{"think": "thought", "act": "skill"}[kind]: said}
    return json.dumps({"name": kind, "arguments": arguments})


@habit
def json_of_a_call_named_after_the_skill_in_tags(plain: Plain) -> str:
    if not isinstance(plain.decision, Act):
        return plain.text
    verb, thing = verb_of(plain.decision.skill)
    call = {"name": verb.replace(" ", "_"), "arguments": {"object": thing} if thing else {}}
    return f"<tool_call>\n{json.dumps(call)}\n</tool_call>"


@habit
def json_in_an_array(plain: Plain) -> str:
    kind, said = plain.as_json()
    return json.dumps([{"thought" if kind == "think" else kind: said}])


@habit
def a_dictionary_of_python(plain: Plain) -> str:
    kind, said = plain.as_json()
    return str({kind: said, "memory": None})


# ---------------------------------------------------------------------- characters


@habit
def line_ends_of_windows(plain: Plain) -> str:
    return plain.text.replace("\n", "\r\n") + "\r\n"


@habit
def typographic_quotes(plain: Plain) -> str:
    return plain.worded(
        act="Act: “{}”", think="Think: {}", expand="Expand:\n– control flow: “{flow}”\n– subgoals: {goals}"
    )


@habit
def spaces_that_do_not_break(plain: Plain) -> str:
    return plain.with_skill(lambda skill: skill.replace(" ", "\u00a0")).replace(": ", ":\u00a0", 1)


@habit
def invisible_characters(plain: Plain) -> str:
    return "\ufeff\u200b" + plain.with_skill(lambda skill: f"{skill[:4]}\u200b{skill[4:]}")


@habit
def colons_of_full_width(plain: Plain) -> str:
    return plain.text.replace(":", "：", 1)  # noqa: RUF001


# ---------------------------------------------------------------------- subgoals


@habit
def subgoals_as_bullets(plain: Plain) -> str:
    return plain.with_subgoals(lambda goals: "".join(f"\n  - {goal}" for goal in goals))


@habit
def subgoals_with_numbers(plain: Plain) -> str:
    return plain.with_subgoals(lambda goals: "".join(f"\n{number}. {goal}." for number, goal in enumerate(goals, 1)))


@habit
def subgoals_one_a_line(plain: Plain) -> str:
    return plain.with_subgoals(lambda goals: "".join(f"\n{goal}" for goal in goals))


@habit
def subgoals_as_an_array(plain: Plain) -> str:
    return plain.with_subgoals(lambda goals: f" {json.dumps(goals)}")


@habit
def subgoals_in_markdown(plain: Plain) -> str:
    listed = plain.with_subgoals(
        lambda goals: "\n" + "".join(f"\n{n}. **{goal}**\n" for n, goal in enumerate(goals, 1))
    )
    return re.sub(r"^- (\w[\w ]*):", r"- **\1**:", listed, flags=re.MULTILINE)


@habit
def subgoals_that_contain_commas(plain: Plain) -> str:
    return plain.with_subgoals(lambda goals: "".join(f"\n- {goal}{AS_ASKED}" for goal in goals))


@habit
def subgoals_that_contain_commas_in_json(plain: Plain) -> str:
    if not isinstance(plain.decision, Expand):
        return plain.text
    goals = [f"{goal}{AS_ASKED}" for goal in plain.decision.subgoals]
    return json.dumps({"decision": {"Expand": {"control_flow": str(plain.decision.control_flow), "subgoals": goals}}})


@habit
def an_expansion_on_one_line(plain: Plain) -> str:
    return plain.worded(expand="Expand: control flow: {flow}, subgoals: {goals}")


@habit
def an_expansion_with_the_control_flow_first(plain: Plain) -> str:
    return plain.worded(expand="Expand ({flow}): {goals}")
