"""Public chat templates, which lie outside of this repository, with the prompts of every planner.

The folder with them (``*.jinja``) is named by ``REACTREE_CHAT_TEMPLATES``; ``pytest -s`` shows what each needed.
"""

from __future__ import annotations

import asyncio
import os
import re
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from doubles import Builds
from numpy.typing import NDArray
from solving import solution

from reactree_lab.household.generator import generate_house
from reactree_lab.planners.plan import tidied
from reactree_lab.planners.zsp import ZspNode
from reactree_ros.agent.turns import Told, Turn
from reactree_ros.background.pending import Pending
from reactree_ros.episode import Episode
from reactree_ros.household.expert.model import ExpertModel
from reactree_ros.household.symbolic import SymbolicWorld
from reactree_ros.household.tasks import parse_tasks
from reactree_ros.llm.chat import Message, chat_messages
from reactree_ros.llm.chat_template import ChatTemplate
from reactree_ros.llm.port import Choice, DecisionRequest, LanguageModel, Reply
from reactree_ros.llm.reasoning import Reasoning
from reactree_ros.planners.spec import planner
from reactree_ros.tree.options import TreeOptions

pytestmark = pytest.mark.llm

FOLDER = os.environ.get("REACTREE_CHAT_TEMPLATES", "")
NONE = pytest.mark.skip(reason="REACTREE_CHAT_TEMPLATES names no folder with chat templates (*.jinja)")
TEMPLATES = [pytest.param(path, id=path.stem) for path in sorted(Path(FOLDER).glob("*.jinja"))] if FOLDER else []
HOUSE = generate_house(seed=11, tasks=1)
PLAN = [tidied(skill) for skill in solution(HOUSE[0])]
FAILING_PLAN = """<execute>
def solution(agent, start_from=1):
    if start_from <= 1:
        assert ask('Where is it?') == 'here'
</execute>"""
CODE = "<think>It is in the kitchen.</think>\n<execute>\nrun('go to kitchen 1')\nfind_it()\n</execute>"


class Listening(LanguageModel):
    """Has another one, or what it says, answer, and keeps what was asked."""

    def __init__(self, answer: Callable[[DecisionRequest], Pending[Reply]]) -> None:
        self.answer = answer
        self.asked: list[DecisionRequest] = []

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        self.asked.append(request)
        return self.answer(request)


class WordEmbedder:
    """Texts with common words are near."""

    name, dimension = "words", 512

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        rows = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            for word in text.split():
                row[zlib.crc32(word.encode()) % self.dimension] = 1
        return rows / np.sqrt(rows.sum(axis=1, keepdims=True))


def line_by_line() -> Callable[[DecisionRequest], Pending[Reply]]:
    lines = iter([*PLAN, "done"])
    return lambda _: Pending.of(Reply(next(lines)))


def plan_and_choose(request: DecisionRequest) -> Pending[Reply]:
    """Plans that part at the first and the third step; of the branches that one is chosen that comes first in all."""
    if isinstance(request.may_say, Choice):
        return Pending.of(Reply(min(request.may_say.options, key=[*PLAN, *request.may_say.options].index)))
    plans = (PLAN, PLAN[1:], PLAN[:2] + PLAN[3:])
    return Pending.of(Reply("\n".join(plans[request.seed % 3])))


PLANNERS: dict[str, tuple[Any, Callable[[DecisionRequest], Pending[Reply]]]] = {
    "react": (planner("react"), ExpertModel().decide),
    "reactree": (planner("reactree_wm"), ExpertModel().decide),
    "hiagent": (planner("hiagent"), ExpertModel().decide),
    "zsp": (Builds(lambda goal, run: ZspNode(goal, run, max_plan=50, embedder=WordEmbedder())), line_by_line()),
    "tree_planner": (planner("tree_planner:plans=3"), plan_and_choose),
    "recode": (planner("recode"), lambda request: Pending.of(Reply(CODE))),
    "adaplanner": (planner("adaplanner"), lambda request: Pending.of(Reply(FAILING_PLAN))),
}


@pytest.fixture(scope="module")
def asked() -> dict[str, list[DecisionRequest]]:
    """What each planner asks in a task."""
    every = {}
    for name, (chosen, answer) in PLANNERS.items():
        task, model = parse_tasks(HOUSE)[0], Listening(answer)
        options = TreeOptions(max_decisions=30)
        Episode(task.instruction, model=model, world=SymbolicWorld(task), planner=chosen, options=options).run()
        every[name] = model.asked
    return every


@pytest.fixture(scope="module")
def tokenizer(tiny_model: Path) -> Any:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    tokenizer.add_special_tokens({"unk_token": "<|unknown|>", "pad_token": "<|padding|>"})  # templates name them
    return tokenizer


@pytest.fixture(scope="module")
def table() -> Iterator[list[str]]:
    """Lines that say what each template does, shown at the end."""
    lines = ["", "| template | system text | reply is opened by | thinking | own system text | leaves thoughts out |"]
    lines.append("|---|---|---|---|---|---|")
    yield lines
    print("\n".join(lines))  # noqa: T201


def test_prompts_of_every_planner_are_there(asked: dict[str, list[DecisionRequest]]) -> None:
    assert {name: len(requests) > 1 for name, requests in asked.items()} == dict.fromkeys(PLANNERS, True)
    grown = {name for name, requests in asked.items() for _ in growing(requests)}
    assert grown >= {"react", "reactree", "zsp", "tree_planner", "recode", "adaplanner"}


def growing(requests: Sequence[DecisionRequest]) -> Iterator[tuple[DecisionRequest, DecisionRequest]]:
    """Requests of a node whose turns go on in its next request."""
    nodes: dict[str, list[DecisionRequest]] = defaultdict(list)
    for request in requests:
        nodes[request.id.partition(".")[0]].append(request)
    for node in nodes.values():
        for earlier, later in pairwise(node):
            if len(earlier.turns) < len(later.turns) and later.turns[: len(earlier.turns)] == tuple(earlier.turns):
                yield earlier, later


def squeezed(text: str) -> str:
    """A text without spaces and line ends: some templates trim, leave blank lines out, or write tags on own lines."""
    return "".join(text.split())


def check_nothing_is_lost(prompt: str, messages: Sequence[Message]) -> None:
    at, prompt = 0, squeezed(prompt)
    for message in messages:
        found = prompt.find(squeezed(message["content"]), at)
        assert found >= 0, f"lost or out of order: {message['content'][:200]!r}"
        at = found + len(squeezed(message["content"]))


def told(prompt: str, turns: Sequence[Turn]) -> str:
    """A prompt up to the end of the last turn, without what opens the reply."""
    last = turns[-1].text.strip().rpartition("\n")[2]
    return prompt[: prompt.rindex(last) + len(last)]


@dataclass(frozen=True)
class Written:
    """What a template makes of a few messages."""

    chat: ChatTemplate

    def of(self, *turns: Turn, **arguments: Any) -> str:
        messages = chat_messages(turns, layout=self.chat.layout)
        return str(self.chat.tokenizer.apply_chat_template(messages, tokenize=False, **arguments))

    @property
    def has_own_system_text(self) -> bool:
        before = self.of(Told("Hello.")).partition("Hello.")[0]
        return len(re.findall("[A-Za-z]{2,}", before)) > 6

    @property
    def thinking(self) -> str:
        if self.chat.thinking is None:
            return "–"
        marks, prompt = self.chat.thinking.marks, self.chat.prompt((Told("Hello."),)).rstrip()
        if prompt.endswith(marks.begin):
            return f"opened: `{marks.begin}`"
        closed = prompt.endswith(marks.end)
        return f"closed, unless asked for: `{marks.end}`" if closed else f"left to the model: `{marks.begin}`"

    def line(self, name: str) -> str:
        layout, yes = self.chat.layout, {True: "yes", False: "–"}
        system = "a message of its own" if layout.system else "joined to the user's first"
        opened = "the template" if self.chat.opens else "us"
        cells = [name, system, opened, self.thinking, yes[self.has_own_system_text], yes[not layout.thoughts]]
        return f"| {' | '.join(cells)} |"


@pytest.mark.parametrize("template", TEMPLATES or [pytest.param(Path(), id="none", marks=NONE)])
def test_prompts_of_every_planner_render_in_order_with_nothing_lost_and_grow_at_their_end(
    template: Path, tokenizer: Any, asked: dict[str, list[DecisionRequest]], table: list[str]
) -> None:
    tokenizer.chat_template = template.read_text(encoding="utf-8")
    chat = asyncio.run(ChatTemplate.find(tokenizer, template.stem, Reasoning()))
    written = Written(chat)
    table.append(written.line(template.stem))
    for requests in asked.values():
        for request in requests:
            check_nothing_is_lost(chat.prompt(request.turns), chat_messages(request.turns, layout=chat.layout))
        for earlier, later in growing(requests):
            assert chat.prompt(later.turns).startswith(told(chat.prompt(earlier.turns), earlier.turns))
