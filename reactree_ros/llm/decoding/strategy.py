"""Ways to ask an engine for an allowed reply: one request, rounds of choices, or free text."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from reactree_ros.agent.grammar import DecisionGrammar, Grammar, choice_schema, chosen_of_json
from reactree_ros.agent.reading import says_exactly, whole_part
from reactree_ros.agent.subgoal_grammar import SubgoalGrammar
from reactree_ros.llm.decoding.checking import Utterance
from reactree_ros.llm.decoding.usage import Usage
from reactree_ros.llm.engine import Constraint, ConstraintKind, Engine, Generation, chosen
from reactree_ros.llm.port import Choice, FreeText, MaySay, RequestRejected


class Method(enum.Enum):
    """How to ask for a decision."""

    ONE_REQUEST = "one_request"
    """One request with the grammar of the whole decision."""
    ONE_SCHEMA = "one_schema"
    """One request with a JSON schema that is the same at every step; the skills are checked here."""
    ROUNDS = "rounds"
    """Two or three requests (the authors' way): select the kind, then generate or select the rest."""
    UNCONSTRAINED = "unconstrained"
    """Free text, checked, and asked for again with the reason if it is no decision."""
    FREE_FIRST = "free_first"
    """Free text; the best constraint only after a refusal, so that it does not change what the model means."""
    FORM_FIRST = "form_first"
    """One request with the form of a decision and any skill; the exact grammar only after a refusal."""


# A regular expression comes first: llguidance compiles it at the same cost for any number of skills.
_WHOLE = (ConstraintKind.REGEX, ConstraintKind.GRAMMAR, ConstraintKind.JSON_SCHEMA)
_SELECT = (ConstraintKind.CHOICE, ConstraintKind.REGEX, ConstraintKind.GRAMMAR, ConstraintKind.JSON_SCHEMA)
#: Beginnings of what follows a decision, with which a base model goes on; no reply begins with them.
_NEXT = ("\nOK.", "\nObservation:", "\nYou")
#: Blank lines at the beginning.
_BLANK_LINES = re.compile(r"\A(?:[ \t]*\n)+")
_NEEDED = {
    Method.ONE_REQUEST: frozenset(_WHOLE),
    Method.ONE_SCHEMA: frozenset({ConstraintKind.JSON_SCHEMA}),
    Method.ROUNDS: frozenset(_SELECT) - {ConstraintKind.JSON_SCHEMA},
    Method.FORM_FIRST: frozenset(_WHOLE),
}
#: Methods that need no constraint; they use one only after a refusal.
_FREE = (Method.UNCONSTRAINED, Method.FREE_FIRST)
#: Methods whose constraint allows nothing but what may be said.
HELD = (Method.ONE_REQUEST, Method.ROUNDS)


def method_for(constraints: frozenset[ConstraintKind]) -> Method:
    """Return the best method for an engine that obeys these constraints.

    An engine with nothing but JSON schemas compiles every new one, so it gets one schema for all steps.
    """
    whole = constraints.intersection(_WHOLE)
    if whole == {ConstraintKind.JSON_SCHEMA}:
        return Method.ONE_SCHEMA
    if whole:
        return Method.ONE_REQUEST
    return Method.ROUNDS if ConstraintKind.CHOICE in constraints else Method.UNCONSTRAINED


def method_of_try(method: Method, constraints: frozenset[ConstraintKind], *, tries: int, held: bool) -> Method:
    """Return how to ask for the next try.

    Args:
        method: How the first try is asked for, or that it is free first.
        constraints: What the engine obeys.
        tries: How many tries were refused.
        held: Whether a free try is no longer enough: the reply is held to what may be said, if the engine can do that.
    """
    if method is Method.FREE_FIRST and not tries:
        return Method.UNCONSTRAINED
    if method is Method.FORM_FIRST:
        return Method.ONE_REQUEST if tries else Method.FORM_FIRST
    if method is Method.FREE_FIRST or (method is Method.UNCONSTRAINED and tries and held):
        return method_for(constraints)
    return method


def check_method(engine: Engine, method: Method) -> None:
    """Check that an engine supports a method."""
    if method not in _FREE and not _NEEDED[method] & engine.constraints:
        needed = ", ".join(sorted(kind.value for kind in _NEEDED[method]))
        raise RequestRejected(f"{engine.name} obeys none of {needed}; the method '{method.value}' needs one of them")


async def ask(usage: Usage, generation: Generation, may_say: MaySay, method: Method) -> Utterance:
    """Ask once for an allowed reply, in one or more requests; the caller checks the reply."""
    if isinstance(may_say, FreeText):
        return await _free(usage, generation, may_say)
    if isinstance(may_say, Choice):
        return await _select(usage, generation, may_say.options, method)
    if method is Method.UNCONSTRAINED or (method is Method.ROUNDS and isinstance(may_say, SubgoalGrammar)):
        free = replace(generation, stops=_NEXT, until=partial(whole_part, grammar=may_say))
        return await _uttered(usage, free, partial(says_exactly, grammar=may_say))
    if method is Method.ROUNDS:
        assert isinstance(may_say, DecisionGrammar)  # no other two-part grammar exists
        return await _rounds(usage, generation, may_say)
    if method is Method.ONE_SCHEMA:
        held = Constraint(ConstraintKind.JSON_SCHEMA, may_say.one_schema())
        held_one = _with_room(generation, may_say.longest_skills, held)
        return await _uttered(usage, held_one, partial(says_exactly, grammar=may_say))
    return await _one_request(
        usage, generation, replace(may_say, free=True) if method is Method.FORM_FIRST else may_say
    )


async def _uttered(usage: Usage, generation: Generation, may_say: Callable[[str], bool]) -> Utterance:
    generated = await usage.generate(generation, may_say=may_say)
    cut = generated.finish_reason == "length" and not generated.text.endswith("\n")
    return Utterance(generated.text, generated.calls, cut)


async def _free(usage: Usage, generation: Generation, may_say: FreeText) -> Utterance:
    """Ask for a text; if only blank lines come before the first stop, ask again without stops."""
    until = partial(_up_to_stop, may_say.stops)
    generated = await usage.generate(replace(generation, stops=may_say.stops, until=until), thinks=may_say.thinks)
    if not generated.text.strip() and not usage.engine.chat and generated.finish_reason == "stop":
        generated = await usage.generate(generation, thinks=may_say.thinks)
    text = _after_blank_lines(generated.text)
    ends = _stops_in(may_say.stops, text)
    if ends:
        usage.finish_reason = "stop"
    return Utterance(text[: min(ends)] if ends else text, cut=usage.finish_reason == "length")


def _after_blank_lines(text: str) -> str:
    return _BLANK_LINES.sub("", text.replace("\r\n", "\n"))


def _stops_in(stops: Sequence[str], text: str) -> list[int]:
    return [at for stop in stops if (at := text.find(stop)) >= 0]


def _up_to_stop(stops: Sequence[str], text: str) -> str:
    """Return a text with the first stop that comes after blank lines; empty if none has come yet."""
    return text if _stops_in(stops, _after_blank_lines(text)) else ""


async def _one_request(usage: Usage, generation: Generation, grammar: Grammar) -> Utterance:
    kind = next(kind for kind in _WHOLE if kind in usage.engine.constraints)
    render: dict[ConstraintKind, Callable[[], Any]] = {
        ConstraintKind.REGEX: grammar.regex,
        ConstraintKind.GRAMMAR: grammar.ebnf,
        ConstraintKind.JSON_SCHEMA: grammar.json_schema,
    }
    held = Constraint(kind, render[kind]())
    held_one = _with_room(generation, grammar.longest_skills, held)
    return await _uttered(usage, held_one, partial(says_exactly, grammar=grammar))


async def _rounds(usage: Usage, generation: Generation, grammar: DecisionGrammar) -> Utterance:
    def after(said: str) -> Generation:
        return replace(generation, begun=generation.begun + said)

    async def select(said: str, options: Sequence[str]) -> Utterance:
        selected = await _select(usage, after(said), options, Method.ROUNDS)
        return replace(selected, text=said + selected.text)

    kinds = {kind.opening.rstrip(): kind for kind in grammar.allowed}
    chosen_kind = await select("", list(kinds))
    if chosen_kind.text not in kinds:
        return chosen_kind
    said = ""
    for begin, options in kinds[chosen_kind.text].rounds(grammar):
        said += begin
        if options is None:
            rest = await _free(usage, after(said), FreeText())
            uttered = replace(rest, text=said + rest.text)
        else:
            uttered = await select(said, [f" {option}" for option in options])
        said = uttered.text
    return uttered


async def _select(usage: Usage, generation: Generation, options: Sequence[str], method: Method) -> Utterance:
    """Ask for one of the options."""
    one_of = partial(_is_one_of, options)
    kind = next((kind for kind in _SELECT if kind in usage.engine.constraints), None)
    if kind is None or method is Method.UNCONSTRAINED:
        return await _uttered(usage, replace(generation, until=partial(_option_line, options)), one_of)
    if method is Method.ONE_SCHEMA:
        held = Constraint(ConstraintKind.JSON_SCHEMA, choice_schema(None))
        return await _uttered(usage, _with_room(generation, options, held), one_of)
    uttered = await _uttered(usage, _with_room(generation, options, Constraint.choice(kind, options)), one_of)
    if kind is ConstraintKind.JSON_SCHEMA:
        return uttered
    return replace(uttered, text=chosen(kind, uttered.text))


def _option_line(options: Sequence[str], text: str) -> str:
    """Return the first line that is not blank, once it has ended and is an option."""
    line, ended, _ = _after_blank_lines(text).partition("\n")
    return line if ended and line in options else ""


def _is_one_of(options: Sequence[str], text: str) -> bool:
    """Return whether a text is one of the options, as plain text or in the JSON of a choice."""
    if text in options:
        return True
    try:
        return chosen_of_json(text) in options
    except ValueError:
        return False


def _with_room(generation: Generation, texts: Sequence[str], held: Constraint) -> Generation:
    """Constrain a generation, with room for the longest text allowed."""
    return replace(generation, constraint=held, max_tokens=max([generation.max_tokens, *map(_most_tokens, texts)]))


def _most_tokens(text: str) -> int:
    """Return a number of tokens that surely holds a text and its end: each token has at least one byte."""
    return len(text.encode("utf-8", "replace")) + 8
