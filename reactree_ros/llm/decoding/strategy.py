"""How an engine is brought to say what may be said: one request, rounds of choices, or free text."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import replace

from reactree_ros.agent.grammar import DecisionGrammar, chosen_of_json, text_of_json
from reactree_ros.llm.decoding.checking import of_json
from reactree_ros.llm.decoding.usage import Usage
from reactree_ros.llm.engine import Constraint, ConstraintKind, Engine, Generation
from reactree_ros.llm.port import Choice, FreeText, RequestRejected


class Method(enum.Enum):
    """How a decision is asked for."""

    ONE_REQUEST = "one_request"
    """The grammar of the whole decision goes with one request."""
    ROUNDS = "rounds"
    """Select the kind, then generate or select what follows (the authors' way): two or three requests."""
    UNCONSTRAINED = "unconstrained"
    """Free text, checked; asked again with the reason where it is no decision."""


# A regular expression first: where the engine compiles with llguidance, it costs the same for any number of skills.
_WHOLE = (ConstraintKind.REGEX, ConstraintKind.GRAMMAR, ConstraintKind.JSON_SCHEMA)
_SELECT = (ConstraintKind.CHOICE, ConstraintKind.REGEX, ConstraintKind.GRAMMAR, ConstraintKind.JSON_SCHEMA)
_NEXT = ("\nOK.", "\nThink:", "\nAct:", "\nExpand:")  # where an unconstrained model goes on after its decision
_NEEDED = {
    Method.ONE_REQUEST: frozenset(_WHOLE),
    Method.ROUNDS: frozenset(_SELECT) - {ConstraintKind.JSON_SCHEMA},
    Method.UNCONSTRAINED: frozenset[ConstraintKind](),
}


def method_for(constraints: frozenset[ConstraintKind]) -> Method:
    """Return the best method for an engine that obeys these constraints (JSON does not go with rounds)."""
    if constraints.intersection(_WHOLE):
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


async def ask(
    usage: Usage, generation: Generation, may_say: DecisionGrammar | Choice | FreeText, method: Method
) -> str:
    """Ask once for what may be said, in one or more requests; whether it was said is up to the caller to check.

    Raises:
        Objection: What was said is not of the JSON schema that was asked for.
        LanguageModelError: Of the engine.
    """
    if isinstance(may_say, FreeText):
        return await usage.generate(replace(generation, stops=may_say.stops))
    if isinstance(may_say, Choice):
        return await _select(usage, generation, may_say.options)
    if method is Method.ROUNDS:
        return await _rounds(usage, generation, may_say)
    if method is Method.UNCONSTRAINED:
        text = _first_decision(await usage.generate(replace(generation, stops=_NEXT)))
        usage.said = generation.begun + text
        return text
    return await _one_request(usage, generation, may_say)


async def _one_request(usage: Usage, generation: Generation, grammar: DecisionGrammar) -> str:
    kind = next(kind for kind in _WHOLE if kind in usage.engine.constraints)
    render = {
        ConstraintKind.REGEX: grammar.regex,
        ConstraintKind.GRAMMAR: grammar.ebnf,
        ConstraintKind.JSON_SCHEMA: grammar.json_schema,
    }
    longest = max([generation.max_tokens, *map(_most_tokens, grammar.skills)])
    held = replace(generation, constraint=Constraint(kind, render[kind]()), max_tokens=longest)
    text = await usage.generate(held)
    return of_json(text_of_json, text) if kind is ConstraintKind.JSON_SCHEMA else text


async def _rounds(usage: Usage, generation: Generation, grammar: DecisionGrammar) -> str:
    def after(said: str) -> Generation:
        return replace(generation, begun=generation.begun + said)

    kinds = ["Think:", *(["Act:"] if grammar.skills else []), *(["Expand:"] if grammar.control_flows else [])]
    said = await _select(usage, generation, kinds)
    if said == "Act:":
        return said + await _select(usage, after(said), [f" {skill}" for skill in grammar.skills])
    if said == "Expand:":
        said += "\n- control flow:"
        flows = [f" {flow.value}" for flow in grammar.control_flows]
        said += await _select(usage, after(said), flows) + "\n- subgoals:"
    return said + await usage.generate(replace(after(said), stops=("\n",)))


async def _select(usage: Usage, generation: Generation, options: Sequence[str]) -> str:
    """Have one of the options said."""
    kind = next((kind for kind in _SELECT if kind in usage.engine.constraints), None)
    asked = replace(generation, max_tokens=max(generation.max_tokens, *map(_most_tokens, options)))
    if kind is None:
        return (await usage.generate(replace(asked, stops=("\n",)))).strip()
    text = await usage.generate(replace(asked, constraint=Constraint.choice(kind, options)))
    return of_json(chosen_of_json, text) if kind is ConstraintKind.JSON_SCHEMA else text.removesuffix("\n")


def _first_decision(text: str) -> str:
    """Return the decision that a free text starts with; models go on to write observations of their own.

    It ends with a line end where the model ended its last line: then nothing of it was cut.
    """
    first, *more = [line.rstrip() for line in text.lstrip().split("\n")]
    count = 2 if first == "Expand:" else 0
    return "\n".join([first, *more[:count]]) + ("\n" if len(more) > count else "")


def _most_tokens(text: str) -> int:
    """Return a number of tokens that certainly holds a text and its end: a token has one byte at least."""
    return len(text.encode()) + 8
