"""Chat templates in this process, by the real ``apply_chat_template``: one for each thing that templates do."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from reactree_ros.agent.turns import About, Said, Saw, Told, ToldStart, Turn
from reactree_ros.llm.chat import Examples
from reactree_ros.llm.chat_template import ChatTemplate
from reactree_ros.llm.port import RequestRejected
from reactree_ros.llm.reasoning import MARKS, Marks, Reasoning

pytestmark = pytest.mark.llm

SYSTEM = Told("You are a robot.\nTarget_domain:", About.SYSTEM)
TURNS: tuple[Turn, ...] = (
    SYSTEM,
    Told("Your task is to: go"),
    Said("Think: a"),
    Told("OK."),
    Said("Act: b"),
    Saw("B."),
)
OPENING = "{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}"
EACH = "{% for turn in messages %}{{ '<|' + turn.role + '|>\n' + turn.content + '<|end|>\n' }}{% endfor %}"

PLAIN = EACH + OPENING
NO_SYSTEM = "{% if messages[0].role == 'system' %}{{ raise_exception('no system role') }}{% endif %}" + PLAIN
DROPS_SYSTEM = (
    "{% for turn in messages if turn.role != 'system' %}"
    "{{ '<|' + turn.role + '|>\n' + turn.content + '<|end|>\n' }}{% endfor %}" + OPENING
)
ALTERNATES = (
    "{% set told = messages[1:] if messages[0].role == 'system' else messages %}{% for turn in told %}"
    "{% if (turn.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('must alternate') }}{% endif %}"
    "{% endfor %}" + PLAIN
)
DEFAULT_SYSTEM = (
    "{% if messages[0].role != 'system' %}{{ '<|system|>\nYou are a helpful assistant.<|end|>\n' }}{% endif %}" + PLAIN
)
TRIMS = (
    "{% for turn in messages %}{{ '<|' + turn.role + '|>\n' + turn.content | trim + '<|end|>\n' }}{% endfor %}"
    + OPENING
)
STRIPS_THOUGHTS = EACH.replace("turn.content", "turn.content.split('</think>')[-1]") + OPENING
BRACKETS = (
    "{% for turn in told %}{% if turn.role == 'user' %}{{ '[INST] ' + turn.content + ' [/INST]' }}"
    "{% else %}{{ ' ' + turn.content + '<|end|>' }}{% endif %}{% endfor %}"
)
NO_OPENING = "{% set told = messages %}" + BRACKETS.replace("turn.role == 'user'", "turn.role != 'assistant'")
SYSTEM_IN_LAST = (
    "{% if messages[0].role == 'system' %}{% set system = messages[0].content + '\n\n' %}{% set told = messages[1:] %}"
    "{% else %}{% set system = '' %}{% set told = messages %}{% endif %}"
    + BRACKETS.replace("'[INST] ' +", "'[INST] ' + (system if loop.last else '') +")
)
ENDS_WITH_MORE = EACH + "{{ '<|over|>' }}"
THINKS = EACH + "{% if add_generation_prompt %}{{ '<|assistant|>\n<think>\n' }}{% endif %}"
MAY_THINK = EACH + (
    "{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% if enable_thinking is defined and not enable_thinking %}"
    "{{ '<think>\n\n</think>\n' }}{% endif %}{% endif %}"
)
CHANNELS = EACH + (
    "{# <|channel|>analysis<|message|> #}{% if add_generation_prompt %}{{ '<|start|>assistant' }}{% endif %}"
)
EDITS_SYSTEM = EACH.replace(
    "turn.content", "(turn.content if turn.role != 'system' else turn.content.replace('domain', ''))"
)
KEEPS_LAST_THOUGHT = (
    "{% set last = messages | selectattr('role', 'equalto', 'assistant') | list | last %}"
    + EACH.replace("turn.content", "(turn.content if turn == last else turn.content.split('</think>')[-1])")
    + OPENING
)
PARTS = "{% for turn in messages %}{% for part in turn.content %}{{ part.text + '<|end|>' }}{% endfor %}{% endfor %}"

TRAITS = {
    "plain": (PLAIN, True, True),
    "no system role": (NO_SYSTEM, False, True),
    "system dropped silently": (DROPS_SYSTEM, False, True),
    "strict alternation": (ALTERNATES, True, True),
    "alternation without a system role": (ALTERNATES.replace("messages[1:]", "messages"), False, True),
    "a default system text": (DEFAULT_SYSTEM, True, True),
    "contents trimmed": (TRIMS, True, True),
    "thoughts stripped": (STRIPS_THOUGHTS, True, True),
    "all thoughts but the last stripped": (KEEPS_LAST_THOUGHT, True, True),
    "words taken out of the system text": (EDITS_SYSTEM, True, False),
    "contents in parts only": (PARTS, True, False),
    "no generation prompt": (NO_OPENING, True, False),
    "system in the last message": (SYSTEM_IN_LAST, False, False),
    "something at the end": (ENDS_WITH_MORE, True, False),
    "opens a thought": (THINKS, True, True),
    "may think": (MAY_THINK, True, True),
}


@pytest.fixture(scope="module")
def tokenizer(tiny_model: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(tiny_model)


def found(tokenizer: Any, jinja: str | None, **reasoning: Any) -> ChatTemplate:
    tokenizer.chat_template = jinja
    return asyncio.run(ChatTemplate.find(tokenizer, "the model", Reasoning(**reasoning)))


def without_opening(prompt: str, turns: tuple[Turn, ...]) -> str:
    """A prompt up to the end of the last thing that was told."""
    last = turns[-1].text
    return prompt[: prompt.rindex(last) + len(last)]


@pytest.mark.parametrize("examples", [None, "turns", "text"])
@pytest.mark.parametrize(("template", "system", "opens"), TRAITS.values(), ids=TRAITS)
def test_examples_are_turns_unless_they_are_to_be_text(
    tokenizer: Any, template: str, system: bool, opens: bool, examples: Examples | None
) -> None:
    told = (Told("Your task is to: look"), Said("Act: c"))
    start = ToldStart(system="You are a robot.", examples=(told,), rule="A reply is a decision.")
    tokenizer.chat_template = template
    prompt = asyncio.run(ChatTemplate.find(tokenizer, "the model", Reasoning(), examples)).prompt((start, *TURNS[1:]))
    turns = ["You are a robot.\nA reply is a decision.", "Your task is to: look", "Act: c"]
    parts = [start.text] if examples == "text" else turns
    places = [prompt.index(part) for part in (*parts, *(turn.text for turn in TURNS[1:]))]
    assert places == sorted(places)


@pytest.mark.parametrize(("template", "system", "opens"), TRAITS.values(), ids=TRAITS)
def test_prompts_hold_every_turn_in_order_and_grow_at_their_end_only(
    tokenizer: Any, template: str, system: bool, opens: bool
) -> None:
    chat = found(tokenizer, template)
    assert (chat.layout.system, chat.opens) == (system, opens)
    prompts = {turns: chat.prompt(turns) for turns in (TURNS[:2], TURNS[:4], TURNS)}
    for turns, prompt in prompts.items():
        places = [prompt.index(turn.text) for turn in turns]
        assert places == sorted(places)
        assert prompt.count(SYSTEM.text) == 1
    for (turns, earlier), (_, later) in pairwise(prompts.items()):
        assert later.startswith(without_opening(earlier, turns))


@pytest.mark.parametrize("trait", [trait for trait in TRAITS if "think" not in trait and "thought" not in trait])
def test_a_reply_stands_where_the_template_writes_it_later(tokenizer: Any, trait: str) -> None:
    chat = found(tokenizer, TRAITS[trait][0])
    earlier, later = chat.prompt(TURNS[:2]), chat.prompt(TURNS)
    assert later[: later.index("Think: a")].rstrip(" ") == earlier


def test_a_system_text_that_the_template_would_change_is_told_by_the_user(tokenizer: Any) -> None:
    chat = found(tokenizer, EDITS_SYSTEM)
    assert "<|user|>\nYou are a robot." in chat.prompt(TURNS)
    assert "<|system|>\nYou are a cook." in chat.prompt((Told("You are a cook.", About.SYSTEM), *TURNS[1:]))


@pytest.mark.parametrize("template", [STRIPS_THOUGHTS, KEEPS_LAST_THOUGHT])
def test_a_prompt_grows_at_its_end_only_where_the_template_leaves_earlier_thoughts_out(
    tokenizer: Any, template: str
) -> None:
    chat = found(tokenizer, template)
    turns = (*TURNS[:2], Said("<think>Hm.</think>Think: a"), Told("OK."), Said("<think>So.</think>Act: b"), Saw("B."))
    assert "Hm." not in chat.prompt(turns[:4])
    assert chat.prompt(turns).startswith(without_opening(chat.prompt(turns[:4]), turns[:4]))


def test_where_the_model_spoke_last_the_reply_is_the_next_line_of_that(tokenizer: Any) -> None:
    for template in (PLAIN, SYSTEM_IN_LAST):
        chat = found(tokenizer, template)
        assert chat.prompt((*TURNS, Said("Think: c"))).endswith("Think: c\n")
        assert "Think: c\nAct: d" in chat.prompt((*TURNS, Said("Think: c"), Said("Act: d"), Told("OK.")))


def test_the_template_is_told_what_is_set(tokenizer: Any) -> None:
    template = PLAIN + "{{ enable_thinking }} {{ thinking }} {{ reasoning_effort }} {{ custom }}"
    chat = found(tokenizer, template, thinking=True, effort="low", template={"custom": 7})
    assert chat.prompt(TURNS).endswith("True True low 7")


@pytest.mark.parametrize(
    ("template", "marks", "after", "always"),
    [(MAY_THINK, MARKS[0], "\n", False), (THINKS, MARKS[0], "\n\n", False), (CHANNELS, MARKS[-1], "", True)],
)
def test_how_a_model_thinks_is_found_in_its_template(
    tokenizer: Any, template: str, marks: Marks, after: str, always: bool
) -> None:
    thinking = found(tokenizer, template, tokens=64).thinking
    assert thinking is not None
    assert (thinking.marks, thinking.after, thinking.tokens, thinking.always) == (marks, after, 64, always)


@pytest.mark.parametrize("template", [MAY_THINK, THINKS, CHANNELS])
@pytest.mark.parametrize("off", [{"thinking": False}, {"tokens": 0}])
def test_a_model_that_is_not_to_think_has_no_tokens_for_it(tokenizer: Any, template: str, off: dict[str, Any]) -> None:
    chat = found(tokenizer, template, **off)
    assert chat.thinking is not None
    assert chat.thinking.tokens == 0
    assert chat.in_words()["thinks"] == "no"


def test_where_thinking_is_asked_for_tokens_that_are_marks_will_do(tiny_thinking_model: Path) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tiny_thinking_model)
    assert found(tokenizer, PLAIN).thinking is None
    thinking = found(tokenizer, PLAIN, thinking=True).thinking
    assert thinking is not None
    assert (thinking.marks, thinking.always) == (MARKS[0], True)


def test_what_a_template_needed_is_said_in_words(tokenizer: Any) -> None:
    words = found(tokenizer, SYSTEM_IN_LAST).in_words()
    assert words["chat layout"] == (
        "the system text is part of the user's first message; replies are opened without the template"
    )
    assert found(tokenizer, PLAIN).in_words() == {
        "chat layout": "the system text is a message of its own",
        "thinks": "not that its chat template tells",
    }
    assert found(tokenizer, THINKS).in_words()["thinks"] == "between <think> and </think>, at most 2048 tokens"


@pytest.mark.parametrize(
    ("template", "problem"),
    [
        ("{{ raise_exception('not like this') }}", "not like this"),
        ("{{ messages[0].content.missing() }}", "no attribute"),
        (EACH.replace("messages", "messages if turn.role != 'user'"), "it leaves out the message of the user"),
        (
            EACH.replace("messages", "messages if turn.role != 'assistant'"),
            "it leaves out the message of the assistant",
        ),
        (None, "chat_template is not set"),
    ],
)
def test_a_template_that_cannot_be_used_is_named_with_the_way_out(
    tokenizer: Any, template: str | None, problem: str
) -> None:
    with pytest.raises(RequestRejected, match=problem) as told:
        found(tokenizer, template)
    assert str(told.value).startswith("the chat template of the model cannot be used: ")
    assert "set chat to false" in str(told.value)
