"""Gets a decision from an engine: asks, checks the reply, and asks again if it is not allowed."""

from __future__ import annotations

import enum
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from reactree_ros.agent.grammar import DecisionGrammar, Form, Grammar, choice_schema, chosen_of_json
from reactree_ros.agent.reading import Unreadable, own_words, read, read_call, read_choice, says_exactly, whole_part
from reactree_ros.agent.subgoal_grammar import SubgoalGrammar
from reactree_ros.agent.turns import About, Said, Told, Turn
from reactree_ros.llm.engine import Constraint, ConstraintKind, Engine, Generated, Generation, chosen
from reactree_ros.llm.forms import in_form, objection_in
from reactree_ros.llm.port import Choice, DecisionRequest, FreeText, InvalidReply, MaySay, Reply, RequestRejected
from reactree_ros.llm.usage import Noticed, Usage

_AGAIN = "You have been told that before; reply otherwise."
#: How much higher the temperature is after each refusal of what was asked for in the same way, and its highest.
_HOTTER, _HOTTEST = 0.3, 0.9
_LONGEST_SHOWN = 500  # of a refused reply, in characters
_STILL_THINKING = "Your reply ended while you were still thinking. Think less, and then answer."
# A regular expression comes first: llguidance compiles it at the same cost for any number of skills.
_WHOLE = (ConstraintKind.REGEX, ConstraintKind.GRAMMAR, ConstraintKind.JSON_SCHEMA)
_SELECT = (ConstraintKind.CHOICE, *_WHOLE)
#: Beginnings of what follows a decision, with which a base model goes on; no reply begins with them.
_NEXT = ("\nOK.", "\nObservation:", "\nYou")
_AS_JSON = Told('Answer with one object in JSON, {"choice": …}.', About.KNOWN)
_BLANK_LINES = re.compile(r"\A(?:[ \t]*\n)+")


class Method(enum.Enum):
    """How to ask for a decision."""

    ONE_REQUEST = "one_request"
    """One request with the grammar of the whole decision."""
    ONE_SCHEMA = "one_schema"
    """One request with a JSON schema that is the same at every step; the skills are checked here."""
    TOOLS = "tools"
    """One request with tools that are the same at every step, one for each kind; the skills are checked here."""
    ROUNDS = "rounds"
    """Two or three requests (the authors' way): select the kind, then generate or select the rest."""
    UNCONSTRAINED = "unconstrained"
    """Free text, checked, and asked for again with the reason if it is not a decision."""
    FREE_FIRST = "free_first"
    """Free text; the best constraint only after a refusal, so that it does not change what the model means."""
    FORM_FIRST = "form_first"
    """One request with the form of a decision and any skill; the exact grammar only after a refusal."""


#: What an engine has to obey one of; the others need no constraint and use one only after a refusal.
_NEEDED = {
    Method.ONE_REQUEST: frozenset(_WHOLE),
    Method.ONE_SCHEMA: frozenset({ConstraintKind.JSON_SCHEMA}),
    Method.TOOLS: frozenset({ConstraintKind.TOOLS}),
    Method.ROUNDS: frozenset(_SELECT) - {ConstraintKind.JSON_SCHEMA},
    Method.FORM_FIRST: frozenset(_WHOLE),
}
#: With these, nothing holds a reply to the skills that are possible; a chat is told of them in its last line.
_NOT_HELD = (Method.ONE_SCHEMA, Method.TOOLS, Method.UNCONSTRAINED)


@dataclass(frozen=True)
class _Uttered:
    """What a model said without reasoning, in one request or in rounds."""

    generated: Generated
    text: str
    cut: bool

    @property
    def words(self) -> str:
        return replace(self.generated, text=self.text).words


def method_for(constraints: frozenset[ConstraintKind]) -> Method:
    """Return the best method for an engine that obeys these constraints.

    An engine with nothing but JSON schemas compiles every new one, so it gets one schema for all steps.
    """
    whole = constraints.intersection(_WHOLE)
    if whole:
        return Method.ONE_SCHEMA if whole == {ConstraintKind.JSON_SCHEMA} else Method.ONE_REQUEST
    if ConstraintKind.TOOLS in constraints:
        return Method.TOOLS
    return Method.ROUNDS if ConstraintKind.CHOICE in constraints else Method.UNCONSTRAINED


def form_of(method: Method, constraints: frozenset[ConstraintKind]) -> Form:
    """Return the form in which an engine is asked for an agent node's decision."""
    held = method in (Method.ONE_REQUEST, Method.FORM_FIRST) and {*_WHOLE} & constraints == {ConstraintKind.JSON_SCHEMA}
    return Form.TOOLS if method is Method.TOOLS else Form.JSON if held or method is Method.ONE_SCHEMA else Form.LINES


async def decode(
    engine: Engine,
    request: DecisionRequest,
    *,
    method: Method | None = None,
    retries: int = 3,
    usage: Usage | None = None,
) -> Reply:
    """Get an allowed reply.

    The reply is checked here, whatever the engine's constraint. A reply that is not allowed is asked for again, at most
    ``retries`` times. After that, a decision is returned with the objection to it.

    No two requests are the same, in this decision and in those after it: all refusals so far stand in the next request,
    which also has another seed and, unless it is held to more than the one before, a higher temperature. A reply that
    comes again is refused in other words. After that, and for the last time, a request is held to what may be said, if
    the engine can be.

    Raises:
        LanguageModelError: The engine failed. :class:`InvalidReply` if no option of a choice was said.
            :class:`ServerUnavailable` if too many replies in a row were empty.
    """
    method = method or method_for(engine.constraints)
    if (needed := _NEEDED.get(method)) and not needed & engine.constraints:
        kinds = ", ".join(sorted(kind.value for kind in needed))
        raise RequestRejected(f"{engine.name} obeys none of {kinds}; the method '{method.value}' needs one of them")
    usage, begin = usage or Usage(engine, Noticed()), time.monotonic()
    may_say, refused = request.may_say, list[Turn]()
    grammar: Grammar = may_say if isinstance(may_say, Grammar) else DecisionGrammar(())
    words, objection, earlier = "", "", set[str]()
    again, how, hotter = False, None, 0
    for tries in range(retries + 1):
        before, how = how, _method_of_try(method, engine, tries, held=again or tries == retries)
        hotter = hotter + 1 if how is before else 0
        if isinstance(may_say, DecisionGrammar):
            may_say = grammar = replace(may_say, form=form_of(how, engine.constraints))
        turns = in_form((*request.turns, *refused), grammar)
        if may_say is grammar and engine.chat and how in _NOT_HELD and method is not Method.FREE_FIRST:
            turns += (_possible(request.turns, grammar),)
        generation = Generation(
            turns=turns,
            begun=request.begun,
            max_tokens=request.max_tokens,
            temperature=max(request.temperature, min(_HOTTEST, _HOTTER * hotter)),
            top_p=request.top_p,
            seed=request.seed + tries,
            id=request.id,
        )
        uttered = await _ask(usage, generation, may_say, how)
        try:
            text, said = _read(uttered, may_say)
            return usage.reply(text, said, time.monotonic() - begin)
        except Unreadable as error:
            reason, said = objection_in(str(error), grammar), error.said_turns
            objection = _STILL_THINKING if usage.unfinished else reason
        words = own_words(uttered.words, grammar)
        if words.strip() in earlier:
            again, objection = True, f"{objection} {_AGAIN}"
        usage.refused(objection)
        earlier.add(words.strip())
        shown = words if len(words) <= _LONGEST_SHOWN else f"{words[:_LONGEST_SHOWN].rstrip()} …"
        refused += (Said(request.begun + _in_words(shown, said, grammar)), Told(objection, About.REFUSAL))
    if isinstance(may_say, Grammar):
        return usage.reply(_in_words(words, said, may_say), said, time.monotonic() - begin, objection)
    raise InvalidReply(f"{objection} ({engine.name} was asked {retries + 1} times)")


def _possible(turns: Sequence[Turn], grammar: Grammar) -> Turn:
    goal = next((turn.text for turn in turns if isinstance(turn, Told) and turn.about is About.TASK), "")
    return Told(grammar.possible(goal), About.KNOWN)


def _method_of_try(method: Method, engine: Engine, tries: int, *, held: bool) -> Method:
    """Return how to ask after so many refusals; ``held``: a free try is no longer enough, if the engine can be held."""
    if method is Method.FREE_FIRST and not tries:
        return Method.UNCONSTRAINED
    if method is Method.FORM_FIRST and tries:
        return Method.ONE_REQUEST
    if method is Method.FREE_FIRST or (method is Method.UNCONSTRAINED and tries and held):
        return method_for(engine.constraints)
    return method


def _read(uttered: _Uttered, may_say: MaySay) -> tuple[str, tuple[Said, ...]]:
    """Return the text of a reply, or the option of a choice, and the decisions in it; raises :class:`Unreadable`."""
    text, calls = uttered.text, uttered.generated.calls
    if isinstance(may_say, Grammar):
        if calls:
            said = read_call([(call.name, call.arguments) for call in calls], may_say, text=text)
        else:
            said = read(text, may_say, cut=uttered.cut)
        return _in_words(uttered.words if calls else text.strip("\n"), said, may_say), said
    if isinstance(may_say, FreeText):
        return text, ()
    if calls:
        raise Unreadable(f"A tool was called ({calls[0].name[:40]}); say one of the options instead.")
    if text not in may_say.options and text.lstrip().startswith("{"):
        try:
            text = chosen_of_json(text)
        except ValueError as error:
            raise Unreadable(str(error)) from error
    return read_choice(text, may_say.options, cut=uttered.cut), ()


def _in_words(words: str, said: Sequence[Said], grammar: Grammar) -> str:
    """Return a reply as planners and records have it: in lines, whatever it was asked for in."""
    return words if grammar.form is Form.LINES else "\n".join(one.text for one in said) or words


async def _ask(usage: Usage, generation: Generation, may_say: MaySay, method: Method) -> _Uttered:
    if isinstance(may_say, FreeText):
        return await _free(usage, generation, may_say)
    if isinstance(may_say, Choice):
        return await _select(usage, generation, may_say.options, method)
    allows = partial(says_exactly, grammar=may_say)
    in_lines = method is not Method.ROUNDS and {*_WHOLE[:2]} & usage.engine.constraints
    if method is Method.UNCONSTRAINED or (isinstance(may_say, SubgoalGrammar) and not in_lines):
        free = replace(generation, stops=_NEXT, until=partial(whole_part, grammar=may_say))
        return await _uttered(usage, free, allows)
    if method is Method.ROUNDS:
        assert isinstance(may_say, DecisionGrammar)  # no other two-part grammar exists
        return await _rounds(usage, generation, may_say)
    held = _constraint(usage.engine, may_say, method)
    return await _uttered(usage, _with_room(generation, may_say.longest_skills, held), allows)


def _constraint(engine: Engine, grammar: DecisionGrammar | SubgoalGrammar, method: Method) -> Constraint:
    if method is Method.ONE_SCHEMA:
        return Constraint(ConstraintKind.JSON_SCHEMA, grammar.one_schema())
    if method is Method.TOOLS and isinstance(grammar, DecisionGrammar):
        return Constraint(ConstraintKind.TOOLS, grammar.tools())
    grammar = replace(grammar, free=True) if method is Method.FORM_FIRST else grammar
    kind = next(kind for kind in _WHOLE if kind in engine.constraints)
    if kind is ConstraintKind.REGEX:
        return Constraint(kind, grammar.regex())
    return Constraint(kind, grammar.ebnf() if kind is ConstraintKind.GRAMMAR else grammar.json_schema())


async def _uttered(usage: Usage, generation: Generation, allows: Callable[[str], bool]) -> _Uttered:
    generated = await usage.generate(generation, allows=allows)
    text = generated.text
    return _Uttered(generated, text, cut=generated.finish_reason == "length" and not text.endswith("\n"))


async def _free(usage: Usage, generation: Generation, may_say: FreeText) -> _Uttered:
    """Ask for a text; if only blank lines come before the first stop, ask again without stops."""

    def ends(text: str) -> list[int]:
        return [at for stop in may_say.stops if (at := text.find(stop)) >= 0]

    def until(text: str) -> str:
        return text if ends(_after_blank_lines(text)) else ""

    generated = await usage.generate(replace(generation, stops=may_say.stops, until=until), thinks=may_say.thinks)
    if not generated.text.strip() and not usage.engine.chat and generated.finish_reason == "stop":
        generated = await usage.generate(generation, thinks=may_say.thinks)
    text = _after_blank_lines(generated.text)
    if found := ends(text):
        usage.finish_reason, text = "stop", text[: min(found)]
    return _Uttered(generated, text, cut=usage.finish_reason == "length")


def _after_blank_lines(text: str) -> str:
    return _BLANK_LINES.sub("", text.replace("\r\n", "\n"))


async def _rounds(usage: Usage, generation: Generation, grammar: DecisionGrammar) -> _Uttered:
    kinds = {kind.opening.rstrip(): kind for kind in grammar.allowed}
    uttered = await _select(usage, generation, list(kinds), Method.ROUNDS)
    if uttered.text not in kinds:
        return uttered
    text = ""
    for begin, options in kinds[uttered.text].rounds(grammar):
        text += begin
        after = replace(generation, begun=generation.begun + text)
        if options is None:
            uttered = await _free(usage, after, FreeText())
        else:
            uttered = await _select(usage, after, [f" {option}" for option in options], Method.ROUNDS)
        text += uttered.text
    return replace(uttered, text=text)


async def _select(usage: Usage, generation: Generation, options: Sequence[str], method: Method) -> _Uttered:
    def allows(text: str) -> bool:
        try:
            return text in options or chosen_of_json(text) in options
        except ValueError:
            return False

    def option_line(text: str) -> str:
        line, ended, _ = _after_blank_lines(text).partition("\n")
        return line if ended and line in options else ""

    kind = next((kind for kind in _SELECT if kind in usage.engine.constraints), None)
    if kind is None or method is Method.UNCONSTRAINED:
        return await _uttered(usage, replace(generation, until=option_line), allows)
    if method is Method.ONE_SCHEMA:
        held = Constraint(ConstraintKind.JSON_SCHEMA, choice_schema(None))
    else:
        held = Constraint.choice(kind, options)
    if held.kind is ConstraintKind.JSON_SCHEMA:
        generation = replace(generation, turns=(*generation.turns, _AS_JSON))
    uttered = await _uttered(usage, _with_room(generation, options, held), allows)
    if held.kind is ConstraintKind.JSON_SCHEMA:
        return uttered
    return replace(uttered, text=chosen(kind, uttered.text))


def _with_room(generation: Generation, texts: Sequence[str], held: Constraint) -> Generation:
    """Constrain a generation, with room for the longest text allowed: each token has at least one byte."""
    most = max((len(text.encode("utf-8", "replace")) + 8 for text in texts), default=0)
    return replace(generation, constraint=held, max_tokens=max(generation.max_tokens, most))
