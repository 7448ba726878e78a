"""How an engine is brought to say what may be said: one request, rounds of choices, or free text."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from reactree_ros.agent.grammar import DecisionGrammar, Grammar, choice_schema, chosen_of_json
from reactree_ros.agent.reading import says_exactly
from reactree_ros.agent.subgoal_grammar import SubgoalGrammar
from reactree_ros.llm.decoding.checking import Utterance
from reactree_ros.llm.decoding.usage import Usage
from reactree_ros.llm.engine import Constraint, ConstraintKind, Engine, Generation, chosen
from reactree_ros.llm.port import Choice, FreeText, MaySay, RequestRejected


class Method(enum.Enum):
    """How a decision is asked for."""

    ONE_REQUEST = "one_request"
    """The grammar of the whole decision goes with one request."""
    ONE_SCHEMA = "one_schema"
    """One JSON schema, the same at every step, goes with each request; which skills there are is checked here."""
    ROUNDS = "rounds"
    """Select the kind, then generate or select what follows (the authors' way): two or three requests."""
    UNCONSTRAINED = "unconstrained"
    """Free text, checked; asked again with the reason where it is no decision."""


# A regular expression first: where the engine compiles with llguidance, it costs the same for any number of skills.
_WHOLE = (ConstraintKind.REGEX, ConstraintKind.GRAMMAR, ConstraintKind.JSON_SCHEMA)
_SELECT = (ConstraintKind.CHOICE, ConstraintKind.REGEX, ConstraintKind.GRAMMAR, ConstraintKind.JSON_SCHEMA)
#: Where a base model goes on after its decision; none of it is what a reply may begin with.
_NEXT = ("\nOK.", "\nObservation:")
#: Lines that nothing stands on, at the beginning.
_BLANK_LINES = re.compile(r"\A(?:[ \t]*\n)+")
_NEEDED = {
    Method.ONE_REQUEST: frozenset(_WHOLE),
    Method.ONE_SCHEMA: frozenset({ConstraintKind.JSON_SCHEMA}),
    Method.ROUNDS: frozenset(_SELECT) - {ConstraintKind.JSON_SCHEMA},
    Method.UNCONSTRAINED: frozenset[ConstraintKind](),
}


def method_for(constraints: frozenset[ConstraintKind]) -> Method:
    """Return the best method for an engine that obeys these constraints.

    Where JSON schemas are all there is to be had, every new one costs such servers a compilation: one serves all.
    """
    whole = constraints.intersection(_WHOLE)
    if whole == {ConstraintKind.JSON_SCHEMA}:
        return Method.ONE_SCHEMA
    if whole:
        return Method.ONE_REQUEST
    return Method.ROUNDS if ConstraintKind.CHOICE in constraints else Method.UNCONSTRAINED


def check_method(engine: Engine, method: Method) -> None:
    """Look whether an engine can be asked in this way.

    Raises:
        RequestRejected: It obeys none of what the method needs.
    """
    if not (_NEEDED[method] & engine.constraints or method is Method.UNCONSTRAINED):
        needed = ", ".join(sorted(kind.value for kind in _NEEDED[method]))
        raise RequestRejected(f"{engine.name} obeys none of {needed}; the method '{method.value}' needs one of them")


async def ask(usage: Usage, generation: Generation, may_say: MaySay, method: Method) -> Utterance:
    """Ask once for what may be said, in one or more requests; whether it was said is up to the caller to check.

    Raises:
        LanguageModelError: Of the engine.
    """
    if isinstance(may_say, FreeText):
        return await _free(usage, generation, may_say)
    if isinstance(may_say, Choice):
        return await _select(usage, generation, may_say.options, method)
    if method is Method.UNCONSTRAINED or (method is Method.ROUNDS and isinstance(may_say, SubgoalGrammar)):
        return await _uttered(usage, replace(generation, stops=_NEXT), partial(says_exactly, grammar=may_say))
    if method is Method.ROUNDS:
        assert isinstance(may_say, DecisionGrammar)  # the two there are
        return await _rounds(usage, generation, may_say)
    if method is Method.ONE_SCHEMA:
        held = Constraint(ConstraintKind.JSON_SCHEMA, may_say.one_schema())
        held_one = _with_room(generation, may_say.skills, held)
        return await _uttered(usage, held_one, partial(says_exactly, grammar=may_say))
    return await _one_request(usage, generation, may_say)


async def _uttered(usage: Usage, generation: Generation, may_say: Callable[[str], bool]) -> Utterance:
    generated = await usage.generate(generation, may_say=may_say)
    cut = generated.finish_reason == "length" and not generated.text.endswith("\n")
    return Utterance(generated.text, generated.calls, cut)


async def _free(usage: Usage, generation: Generation, may_say: FreeText) -> Utterance:
    """Ask for a text; one that has only blank lines before the first stop is asked for without stops."""
    generated = await usage.generate(replace(generation, stops=may_say.stops), thinks=may_say.thinks)
    if not generated.text.strip() and not usage.engine.chat and generated.finish_reason == "stop":
        generated = await usage.generate(generation, thinks=may_say.thinks)
    text = _BLANK_LINES.sub("", generated.text.replace("\r\n", "\n"))
    ends = [at for stop in may_say.stops if (at := text.find(stop)) >= 0]
    if ends:
        usage.finish_reason = "stop"
    return Utterance(text[: min(ends)] if ends else text, cut=usage.finish_reason == "length")


async def _one_request(usage: Usage, generation: Generation, grammar: Grammar) -> Utterance:
    kind = next(kind for kind in _WHOLE if kind in usage.engine.constraints)
    render: dict[ConstraintKind, Callable[[], Any]] = {
        ConstraintKind.REGEX: grammar.regex,
        ConstraintKind.GRAMMAR: grammar.ebnf,
        ConstraintKind.JSON_SCHEMA: grammar.json_schema,
    }
    held = Constraint(kind, render[kind]())
    return await _uttered(usage, _with_room(generation, grammar.skills, held), partial(says_exactly, grammar=grammar))


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
    """Have one of the options said."""
    one_of = partial(_is_one_of, options)
    kind = next((kind for kind in _SELECT if kind in usage.engine.constraints), None)
    if kind is None or method is Method.UNCONSTRAINED:
        return await _uttered(usage, generation, one_of)
    if method is Method.ONE_SCHEMA:
        held = Constraint(ConstraintKind.JSON_SCHEMA, choice_schema(None))
        return await _uttered(usage, _with_room(generation, options, held), one_of)
    uttered = await _uttered(usage, _with_room(generation, options, Constraint.choice(kind, options)), one_of)
    if kind is ConstraintKind.JSON_SCHEMA:
        return uttered
    return replace(uttered, text=chosen(kind, uttered.text))


def _is_one_of(options: Sequence[str], text: str) -> bool:
    """Whether a text is one of some options, as it is or as the value of the schema of a choice."""
    if text in options:
        return True
    try:
        return chosen_of_json(text) in options
    except ValueError:
        return False


def _with_room(generation: Generation, texts: Sequence[str], held: Constraint) -> Generation:
    """Hold a generation to a constraint, with room for the longest of the texts that it allows."""
    return replace(generation, constraint=held, max_tokens=max([generation.max_tokens, *map(_most_tokens, texts)]))


def _most_tokens(text: str) -> int:
    """Return a number of tokens that certainly holds a text and its end: a token has one byte at least."""
    return len(text.encode("utf-8", "replace")) + 8
