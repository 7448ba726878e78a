"""How a decision is got out of an engine: one request with the whole grammar, rounds of choices, or asking again."""

from __future__ import annotations

import enum
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from reactree_ros.agent.decision import Act, Expand
from reactree_ros.agent.grammar import DecisionGrammar, text_of_json
from reactree_ros.agent.parser import MalformedDecision, parse_decision
from reactree_ros.llm.engine import Constraint, ConstraintKind, Engine, Generated, Generation, chosen
from reactree_ros.llm.port import Choice, DecisionRequest, FreeText, InvalidReply, PromptTooLong, Reply, RequestRejected


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


async def say(engine: Engine, request: DecisionRequest, *, method: Method | None = None, retries: int = 3) -> Reply:
    """Get a reply that is what may be said.

    Whatever the engine was held to, the reply is checked here; one that is not what may be said is asked for again,
    with the reason, at most ``retries`` times. A decision that is still none then is returned with the objection to it.

    Args:
        engine: Open.
        request: What is asked.
        method: How a decision is asked for; None: the best that the engine's constraints allow.
        retries: How often to ask again.

    Raises:
        LanguageModelError: Of the engine, or :class:`InvalidReply` where no option of a choice is said.
    """
    method = method or method_for(engine.constraints)
    if not (_NEEDED[method] & engine.constraints or method is Method.UNCONSTRAINED):
        needed = ", ".join(sorted(kind.value for kind in _NEEDED[method]))
        raise RequestRejected(f"{engine.name} obeys none of {needed}; the method '{method.value}' needs one of them")
    spoken = _Spoken(engine, request, method)
    begin = time.monotonic()
    objection = ""
    for _ in range(retries + 1):
        try:
            return spoken.reply(await spoken.say(spoken.heard, objection), time.monotonic() - begin)
        except ValueError as error:
            objection = str(error)
    if isinstance(request.may_say, DecisionGrammar):
        return spoken.unchecked(spoken.heard, time.monotonic() - begin, objection)
    raise InvalidReply(f"{objection} ({engine.name} was asked {retries + 1} times)")


@dataclass
class _Spoken:
    """One reply in the making: asks, checks, and adds up what all requests for it took."""

    engine: Engine
    request: DecisionRequest
    method: Method
    prompt_tokens: int | None = 0
    cached_tokens: int | None = 0
    output_tokens: int | None = 0
    finish_reason: str = "stop"
    heard: str = ""  # what the model said last, as it is shown to it where it will not do

    async def say(self, refused: str, objection: str) -> str:
        """Ask once; after a refusal, with what was said and why it will not do at the prompt's end."""
        request = self.request
        prompt, said = request.prompt, request.said
        if objection:
            refused = refused.rstrip("\n")
            said = (*said, (len(prompt), len(prompt) + len(refused)))
            prompt += f"{refused}\n{objection}\n"
        asked = Generation(
            prompt=prompt,
            said=said,
            max_tokens=request.max_tokens,
            temperature=request.temperature,
            top_p=request.top_p,
            seed=request.seed,
            id=request.id,
        )
        may_say = request.may_say
        if isinstance(may_say, FreeText):
            return await self._generate(replace(asked, stops=may_say.stops))
        if isinstance(may_say, Choice):
            return await self._select(asked, may_say.options)
        if self.method is Method.ROUNDS:
            return await self._rounds(asked, may_say)
        if self.method is Method.UNCONSTRAINED:
            self.heard = _first_decision(await self._generate(replace(asked, stops=_NEXT)))
            return self.heard
        constraint = self._whole(may_say)
        longest = max(map(_most_tokens, may_say.skills), default=0)
        text = await self._generate(replace(asked, constraint=constraint, max_tokens=max(asked.max_tokens, longest)))
        return text_of_json(text) if constraint.kind is ConstraintKind.JSON_SCHEMA else text

    def _whole(self, grammar: DecisionGrammar) -> Constraint:
        kind = next(kind for kind in _WHOLE if kind in self.engine.constraints)
        if kind is ConstraintKind.GRAMMAR:
            return Constraint(kind, grammar.ebnf())
        return Constraint(kind, grammar.regex() if kind is ConstraintKind.REGEX else grammar.json_schema())

    async def _rounds(self, asked: Generation, grammar: DecisionGrammar) -> str:
        kinds = ["Think:", *(["Act:"] if grammar.skills else []), *(["Expand:"] if grammar.control_flows else [])]
        said = await self._select(asked, kinds)
        if said == "Act:":
            return said + await self._select(replace(asked, begun=said), [f" {skill}" for skill in grammar.skills])
        if said == "Expand:":
            said += "\n- control flow:"
            flows = [f" {flow.value}" for flow in grammar.control_flows]
            said += await self._select(replace(asked, begun=said), flows) + "\n- subgoals:"
        return said + await self._generate(replace(asked, begun=said, stops=("\n",)))

    async def _select(self, asked: Generation, options: Sequence[str]) -> str:
        """Have one of the options said; the caller checks it."""
        kind = next((kind for kind in _SELECT if kind in self.engine.constraints), None)
        longest = max(asked.max_tokens, *map(_most_tokens, options))
        if kind is None:
            return (await self._generate(replace(asked, stops=("\n",), max_tokens=longest))).strip()
        text = await self._generate(replace(asked, constraint=Constraint.choice(kind, options), max_tokens=longest))
        return chosen(kind, text)

    async def _generate(self, generation: Generation) -> str:
        generated = await self.engine.generate(generation)
        self.heard = generation.begun + generated.text
        self.prompt_tokens = _sum(self.prompt_tokens, generated.prompt_tokens)
        self.cached_tokens = _sum(self.cached_tokens, generated.cached_tokens)
        self.output_tokens = _sum(self.output_tokens, generated.output_tokens)
        self.finish_reason = generated.finish_reason
        self._check_room(generation, generated)
        return generated.text

    def _check_room(self, generation: Generation, generated: Generated) -> None:
        """A reply that was cut because the context was full is the prompt's fault."""
        context, prompt, output = self.engine.context, generated.prompt_tokens, generated.output_tokens
        if generated.finish_reason == "length" and context and prompt is not None and output is not None:
            excess = prompt + generation.max_tokens - context
            if excess > 0 and output < generation.max_tokens:
                raise PromptTooLong(excess, context)

    def reply(self, text: str, seconds: float) -> Reply:
        """Return the reply, checked.

        Raises:
            ValueError: It is not what may be said; the message says why, for the model.
        """
        may_say = self.request.may_say
        cut = self.finish_reason == "length" and not text.endswith("\n")
        if isinstance(may_say, Choice):
            text = _one_of(text, may_say.options, cut)
        elif isinstance(may_say, DecisionGrammar):
            text = _decision(text, may_say, cut)
        return self.unchecked(text, seconds)

    def unchecked(self, text: str, seconds: float, objection: str = "") -> Reply:
        """Return the reply as it is."""
        return Reply(
            text=text,
            finish_reason=self.finish_reason,
            prompt_tokens=self.prompt_tokens,
            cached_tokens=self.cached_tokens,
            output_tokens=self.output_tokens,
            seconds=seconds,
            answered_by=self.engine.name,
            objection=objection,
        )


def _decision(text: str, grammar: DecisionGrammar, cut: bool) -> str:
    """Check a decision; one that was cut is taken only as a thought."""
    try:
        decision = parse_decision(text)
    except MalformedDecision as error:
        raise ValueError(str(error)) from error
    if isinstance(decision, Act):
        _one_of(decision.skill, grammar.skills, cut)
    elif isinstance(decision, Expand):
        if decision.control_flow not in grammar.control_flows:
            raise ValueError(f"The control flow '{decision.control_flow.value}' is not allowed here.")
        if cut or not decision.subgoals:
            raise ValueError("The list of subgoals is empty or was cut; name fewer and shorter ones.")
    return text.strip("\n")


def _one_of(text: str, options: Sequence[str], cut: bool) -> str:
    if text not in options:
        raise ValueError(f"'{text[:80]}' is not among what is available now.")
    if cut and any(option != text and option.startswith(text) for option in options):
        raise ValueError(f"'{text[:80]}' was cut.")
    return text


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


def _sum(total: int | None, count: int | None) -> int | None:
    return None if total is None or count is None else total + count
