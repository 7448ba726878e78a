"""Tries a language model before it plans: what it is, how long a prompt takes, how well it decides, what to set."""

from __future__ import annotations

import io
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, comb
from typing import Any

from reactree_ros.agent.grammar import DecisionGrammar, listed
from reactree_ros.agent.observation import Observation
from reactree_ros.agent.picture import Picture, needs_pillow, picture_of
from reactree_ros.agent.reading import Unreadable, read
from reactree_ros.agent.text import approximate_tokens, shortened_line
from reactree_ros.agent.turns import About, Saw, Told, ToldStart, Turn, render
from reactree_ros.background.pending import give_up_after
from reactree_ros.llm.port import (
    Choice,
    DecisionRequest,
    FreeText,
    LanguageModel,
    LanguageModelError,
    MaySay,
    NoAnswerInTime,
    PromptTooLong,
    Reply,
)
from reactree_ros.llm.waiting import shown_while

#: Longest wait for a reply that comes as fast as usual, in seconds, unless the model's own limit is longer.
PATIENCE = 300.0
#: How often a cold prompt is asked that comes too late; a server goes on from where it was, and each time is longer.
_TRIES = 3
#: Tokens that a node's own turns soon take.
_ROOM = 1500
#: With a larger chance that guessing does as well, nothing is understood.
_LUCK = 0.11
#: What is drawn, by its name; none can be taken for another.
COLOURS = {"red": (220, 0, 0), "green": (0, 160, 0), "blue": (0, 0, 220), "yellow": (250, 220, 0)}
#: What a weaker method costs, and the way out.
_METHODS = {
    "one_schema": "it obeys JSON schemas only: the skills are checked here, and a decision with another skill is "
    "asked for again; vLLM, llama.cpp and SGLang take a grammar",
    "tools": "it is given tools and no grammar: the skills are checked here, and a decision with another skill is "
    "asked for again; vLLM, llama.cpp and SGLang take a grammar",
    "rounds": "it takes no grammar: each decision costs two or three requests; vLLM takes one",
    "unconstrained": "it obeys no constraint: decisions are parsed, checked and asked for again; vLLM obeys",
}


@dataclass(frozen=True)
class Moment:
    """A moment of a run that reached its goal.

    Attributes:
        now: Which of them was done at this moment, from 0. An earlier one is done already, a later one comes too early.
    """

    turns: tuple[Turn, ...]  # the task, and what was done and seen last
    may_say: DecisionGrammar  # what could be said
    acts: tuple[str, ...]  # three skills of the run, in the order in which they were done
    now: int

    def question(self, number: int) -> tuple[tuple[Turn, ...], DecisionGrammar]:
        """Ask which of the three brings the task nearer; the right one stands at each place equally often."""
        place = (2 * self.now + 1 + number // len(self.acts)) % len(self.acts)
        first = (self.now - place) % len(self.acts)
        order = (*self.acts[first:], *self.acts[:first])
        named = f"After this, take the one of these actions that brings your task nearer: {listed(order)}."
        asked = Told(named, About.ANSWER)
        # What was seen stays last, as it is when a run asks for a decision.
        return (*self.turns[:-1], asked, self.turns[-1]), DecisionGrammar(order, (), longest_thought=0)


@dataclass(frozen=True)
class Lesson:
    """What a check asks about, from real runs."""

    first: tuple[Turn, ...]  # the turns of a planner's first prompt
    may_say: MaySay  # what may be said after them
    max_tokens: int  # the longest reply, in tokens
    moments: Sequence[Moment] = ()  # small situations


@dataclass
class Report:
    facts: dict[str, str] = field(default_factory=dict)  # what was found, in words
    problems: list[str] = field(default_factory=list)  # what is wrong, with the way out
    advice: list[str] = field(default_factory=list)  # what to set, and why: ``set …: …``
    is_whole: bool = False  # whether all was asked


def check(
    model: LanguageModel,
    lesson: Lesson,
    settings: object = None,
    *,
    show: Callable[[str], object] = lambda words: None,
    tell: Callable[[str], object] = lambda words: None,
    clock: Callable[[], float] = time.monotonic,
) -> Report:
    """Try a ready language model with real prompts: ``show`` what is waited for, ``tell`` what is found.

    Args:
        settings: Those of the model as the user has them: of these, what it has of ``method``, ``request_timeout`` and
            ``sees`` counts.
    """
    return _Check(model, lesson, settings, show, tell, clock).run()


@dataclass
class _Check:
    """Asks one request after the other, in a way that no prompt cache knows yet, and says how far it is."""

    model: LanguageModel
    lesson: Lesson
    settings: object
    show: Callable[[str], object]
    tell: Callable[[str], object]
    clock: Callable[[], float]
    asked: int = 0
    answered: int = 0
    waited: float = 0.0

    def __post_init__(self) -> None:
        self.method, self.sees = (getattr(self.settings, name, None) for name in ("method", "sees"))
        self.limit: float = getattr(self.settings, "request_timeout", None) or 0.0
        self.planned = 3 + len(self.lesson.moments) + (len(COLOURS) if self.sees else 0)
        self.report = Report(dict(self.model.status()))
        self.facts, self.problems, self.advice = self.report.facts, self.report.problems, self.report.advice

    def run(self) -> Report:
        self.tell(f"about {self.planned} requests: two with a planner's first prompt, the others small")
        try:
            self._ask((Told("Hello"),), FreeText(), max_tokens=1)  # a server is tried before time is measured
            start = self._first_prompt()
            if isinstance(start, ToldStart):
                self._nearer(start)
            if self.sees:
                self._sight()
        except LanguageModelError as error:
            self.facts["answered"] = f"{self.answered} of about {self.planned} requests; the check broke off there"
            self.problems.append(f"no decision: {error}")
            if isinstance(error, NoAnswerInTime):
                self.advice.append(self._more_time(self.waited, f"there was no answer in {self.waited:.0f} s"))
            return self.report
        # A server may show only now what it does not take, or that its model thinks.
        status = dict(self.model.status())
        facts = {**status, **{name: said for name, said in self.facts.items() if name not in status}}
        return Report(facts, [*self._of_status(status), *self.problems], self.advice, is_whole=True)

    def _ask(self, turns: Sequence[Turn], may_say: MaySay, *, max_tokens: int) -> tuple[Reply, float]:
        self.asked += 1
        request = DecisionRequest(tuple(turns), may_say, id=f"check {self.asked}", max_tokens=max_tokens)
        patience = max(PATIENCE, self.limit) * self.model.slowness(request)
        begin = self.clock()
        pending = self.model.decide(replace(request, patience=patience))
        give_up_after(pending, patience, lambda: NoAnswerInTime(f"no answer within {patience:.0f} s"))
        try:
            shown_while(pending, self.model, lambda words: self.show(f"{self._so_far}: {words or 'asking'}"))
            reply = pending.result()
        finally:
            pending.cancel()
            self.waited = self.clock() - begin
        self.answered += 1
        return reply, self.waited - sum(one.seconds for one in reply.attempts[1:])

    def _say(self, words: str) -> None:
        self.tell(f"{self._so_far}: {words}")

    @property
    def _so_far(self) -> str:
        return f"{self.asked} of {max(self.asked, self.planned)}"

    # ------------------------------------------------------------------ the first prompt

    def _first_prompt(self) -> Turn:
        start, *rest = self.lesson.first
        field_of = "system" if isinstance(start, ToldStart) else "text"
        begun: dict[str, Any] = {field_of: f"Trial {uuid.uuid4()}.\n{getattr(start, field_of)}"}
        start = replace(start, **begun)
        excess, context, left_out, late = 0, 0, 0, ""
        for tries in range(1, 99):
            try:
                cold, cold_time = self._ask((start, *rest), self.lesson.may_say, max_tokens=self.lesson.max_tokens)
                break
            except PromptTooLong as error:
                excess, context = excess or error.excess, error.context
                if not (isinstance(start, ToldStart) and start.examples):
                    raise
                start, left_out = replace(start, examples=start.examples[:-1]), left_out + 1
                self._say(f"the planner's first prompt: {error.excess} tokens too long; again with one example less")
            except NoAnswerInTime as error:
                late = late or str(error)
                if tries - left_out == _TRIES:
                    raise
                self._say(f"the planner's first prompt: {error}; again, with more time")
        self._say(f"the planner's first prompt, cold: {cold_time:.1f} s")
        cached, cached_time = self._ask((start, *rest), self.lesson.may_say, max_tokens=self.lesson.max_tokens)
        self._say(f"the planner's first prompt, cached: {cached_time:.1f} s")
        self.facts |= {
            "a decision, cold": reply_in_words(cold, cold_time),
            "a decision, cached": reply_in_words(cached, cached_time),
            "it said": repr(cached.text[:100]),
            **({"it thought": repr(cached.reasoning[:100])} if cached.reasoning else {}),
        }
        self._of_context(cold, start, excess, context, left_out)
        self._of_time(cold_time, late)
        self._of_reply(cached)
        return start

    def _of_context(self, cold: Reply, start: Turn, excess: int, context: int, left_out: int) -> None:
        said = self.model.status().get("context in tokens", "")
        context = context or (int(said) if said.isdecimal() else 0)
        tokens = cold.prompt_tokens if cold.longest_prompt is None else cold.longest_prompt
        spare = None if tokens is None or not context else context - tokens - self.lesson.max_tokens
        examples = len(start.examples) if isinstance(start, ToldStart) else 0
        told = (
            f"{f'about {approximate_tokens(start.text)}' if tokens is None else tokens} tokens with {examples} example"
        )
        told += "" if examples == 1 else "s"
        if left_out:
            told += f"; {left_out} more did not fit"
        elif spare is not None:
            told += f"; the context has room for {spare} tokens more"
        self.facts["the planner's first prompt"] = told
        if excess:
            needed, fewer = context + excess + _ROOM, f"max_examples={examples}" if examples else "memory=none"
            self.advice.append(
                f"set the context to {needed} (llama.cpp: -c {needed}, vLLM: --max-model-len {needed}), or {fewer}: "
                f"the planner's first prompt is {excess} tokens too long for {context}"
            )
        elif spare is not None and spare < _ROOM:
            self.advice.append(
                f"set the context to {context + _ROOM - spare}, or max_examples={max(1, examples // 2)}: beside the "
                f"first prompt there is room for {spare} tokens of what is done and seen"
            )

    def _of_time(self, cold: float, late: str) -> None:
        if limit := self.limit:
            holds = f"holds it {limit / cold:.1f} times" if limit > cold > 0.05 * limit else "holds it easily"
            said = f"{limit:g} s {holds if cold < limit else f'is {cold - limit:.0f} s too short'}"
            self.facts["request_timeout"] = said
            if cold > limit or late:
                why = f"the first prompt took {cold:.0f} s, longer than {limit:g} s"
                self.advice.append(self._more_time(cold, why))

    def _more_time(self, took: float, why: str) -> str:
        needed = max(1, ceil(2 * max(took, self.limit) / 60)) * 60
        less = "or a smaller max_examples, which is less to read"
        return f"set request_timeout={needed} and decision_timeout={needed}: {why}; {less}"

    def _of_reply(self, cached: Reply) -> None:
        if cached.warning:
            self.problems.append(cached.warning)
        if cached.objection:
            self.problems.append(f"its reply is not a decision: {cached.objection}")
        if cached.cached_tokens is None and cached.prompt_tokens is not None:
            self.problems.append(
                "it does not report what its prefix cache serves; start vLLM with --enable-prompt-tokens-details"
            )
        elif cached.cached_tokens == 0:
            self.problems.append("nothing came from a prefix cache; start vLLM with --enable-prefix-caching")

    def _of_status(self, status: Mapping[str, str]) -> Iterator[str]:
        thinks, told, method = status.get("thinks", "no"), status.get("told to think"), status.get("method", "")
        if method in _METHODS and self.method is None:
            yield _METHODS[method]
        if thinks == "in its text" and method != "unconstrained":
            yield (
                "it thinks in its text, but not if its text is constrained from the first token: start the server with "
                "its reasoning parser (vLLM, SGLang: --reasoning-parser; llama.cpp: --reasoning-format auto)"
            )
        if told == "no" and thinks != "no":
            yield (
                "it thinks although thinking is off: its server or chat template has another switch; set it with "
                "reasoning_effort, chat_template_kwargs or extra_body"
            )
        if told == "yes" and thinks == "no":
            yield "it does not think although thinking is on: its chat template may have no such switch"

    # ------------------------------------------------------------------ small questions

    def _nearer(self, start: ToldStart) -> None:
        shortest = sorted(start.examples, key=lambda one: len(render(one)))[:1]
        begin = replace(start, examples=tuple(shortest))
        right = allowed = at_once = 0
        moments = self.lesson.moments
        for number, moment in enumerate(moments):
            turns, grammar = moment.question(number)
            reply, seconds = self._ask((begin, *turns), grammar, max_tokens=80)
            skill = _skill_in(reply, grammar)
            right += skill == moment.acts[moment.now]
            allowed, at_once = allowed + bool(skill), at_once + (bool(skill) and not reply.in_vain)
            worth = "right" if skill == moment.acts[moment.now] else "wrong" if skill else "not allowed"
            said = shortened_line(reply.text, 60)
            self._say(f"the right skill of three, {number + 1}: {worth}, {seconds:.1f} s: {said!r}")
        if not moments:
            return
        asked = len(moments)
        self.facts["three skills"] = (
            f"{right} of {asked} right (guessing: {asked // 3}); {at_once} allowed at the first try"
        )
        if not allowed:
            self.problems.append(
                "none of its replies to a small question was allowed; use another model, or a server that takes a "
                "grammar"
            )
        if chance(right, asked) > _LUCK:
            self.advice.append(
                "set a larger model, or one that follows instructions: this one named the right skill of three "
                f"{right} of {asked} times, as guessing might, so expect few goals"
            )

    def _sight(self) -> None:
        right = asked = 0
        for colour in COLOURS:
            try:
                seen = Observation("You look.", pictures=(drawn(colour),))
            except ImportError:
                self.problems.append(f"sees is true, but nothing is shown to it: {needs_pillow('drawing')}")
                return
            told = Told(
                f"Which colour has the square on the picture? Say one of {', '.join(COLOURS)}, and nothing else."
            )
            system = Told("You see what the camera of a robot sees.", About.SYSTEM)
            reply, seconds = self._ask((system, Saw(seen.full_text, seen), told), Choice(tuple(COLOURS)), max_tokens=8)
            if not reply.pictures:
                self.problems.append(f"sees is true, but {reply.warning or 'no picture reached it'}")
                break
            asked, right = asked + 1, right + (reply.text == colour)
            worth = "right" if reply.text == colour else "wrong"
            self._say(f"a {colour} square: {worth}, {seconds:.1f} s: {reply.text!r}")
        if asked:
            said = f"{right} of {asked} right (guessing: {asked // 4})"
            self.facts["the colour of a drawn square"] = said
        if asked == len(COLOURS) and right < asked - 1:
            self.problems.append(
                f"it named the colour of a drawn square {right} of {asked} times, so it does not see, or its server "
                "drops pictures in silence: set sees=false, or use a model that sees"
            )


def _skill_in(reply: Reply, grammar: DecisionGrammar) -> str:
    said = reply.said
    if not (said or reply.objection):  # of a model whose asker reads the text
        try:
            said = read(reply.text, grammar, cut=reply.cut)
        except Unreadable:
            return ""
    skills = [one.decision.skill_asked for one in said if one.decision is not None]
    return "" if reply.objection or not skills else skills[-1]


def drawn(colour: str) -> Picture:
    """Draw a square of a colour on white; raises :class:`ImportError` without Pillow."""
    from PIL import Image

    canvas, file = Image.new("RGB", (336, 336), "white"), io.BytesIO()
    canvas.paste(COLOURS[colour], (84, 84, 252, 252))
    canvas.save(file, "PNG")
    return picture_of(file.getvalue(), time=time.time())


def chance(right: int, asked: int) -> float:
    """Return how likely it is that guessing one of three is right as often."""
    return float(sum(comb(asked, hits) * 2 ** (asked - hits) for hits in range(right, asked + 1)) / 3**asked)


def reply_in_words(reply: Reply, seconds: float) -> str:
    if reply.prompt_tokens is None:
        return f"{seconds:.2f} s"
    cached = "unknown" if reply.cached_tokens is None else str(reply.cached_tokens)
    thought = f" ({reply.reasoning_tokens} of them for thinking)" if reply.reasoning_tokens else ""
    asked = f" in {reply.requests} requests" if reply.requests > 1 else ""
    return (
        f"{seconds:.2f} s, {reply.prompt_tokens} prompt tokens ({cached} cached), "
        f"{reply.output_tokens} output tokens{thought}{asked}"
    )
