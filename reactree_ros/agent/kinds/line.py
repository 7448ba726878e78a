"""Kinds that are said in one line after their word: most of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, ClassVar, cast, get_args, get_type_hints

from typing_extensions import Self

from reactree_ros.agent.decision import Decision, MalformedDecision
from reactree_ros.agent.grammar import Grammar, rule_name
from reactree_ros.agent.labels import undressed
from reactree_ros.agent.parameters import GBNF, REGEX, Parameter, ParameterError
from reactree_ros.agent.reading.reader import Reader, sentence_that_decides
from reactree_ros.agent.turns import About, Said, Told, Turn, Unreadable
from reactree_ros.agent.wording import Wording
from reactree_ros.errors import UserError


class Line(Decision):
    """A kind that is said in one line after its word, e.g. ``Ask: Which cup?``.

    A field is any text, ``text: str``, or what a parameter takes: ``seconds: Annotated[int, Number(1, 60)]``.

    Attributes:
        form: Where the fields stand on the line, as the template of a :class:`Wording`; a kind of one field needs none.
    """

    form: ClassVar[str] = ""

    @classmethod
    @cache
    def wording(cls) -> Wording | None:
        names, hints = cls.arguments(), get_type_hints(cls, include_extras=True)
        found = {name: one for name in names for one in get_args(hints[name])[1:] if isinstance(one, Parameter)}
        return Wording(cls.form or f"{{{names[0]}}}", found) if found else None

    @classmethod
    def check(cls) -> None:
        try:
            wording = cls.wording()
        except (ValueError, NameError) as error:
            raise UserError(f"decision kind '{cls.name}': {error}") from error
        placed = cls.arguments()[:1] if wording is None else tuple(wording.parameters)
        missing = [name for name in cls.arguments() if name not in placed]
        if missing and cls.spellings and not cls.leads:
            raise UserError(
                f"decision kind '{cls.name}' has no parameter for {', '.join(missing)}; declare one of each"
            )

    @classmethod
    def regex(cls, grammar: Grammar) -> str:
        wording = cls.wording()
        return f"{cls.word}: {grammar.line if wording is None else wording.pattern(REGEX)}"

    @classmethod
    def ebnf(cls, grammar: Grammar) -> Sequence[str]:
        wording = cls.wording()
        return (f'{rule_name(cls.name)} ::= "{cls.word}: " {"line" if wording is None else wording.pattern(GBNF)}',)

    @classmethod
    def schema(cls, grammar: Grammar, skill: Mapping[str, Any]) -> Mapping[str, Any]:
        wording = cls.wording()
        if wording is None:
            return {"type": "string"}
        return wording.schema() if len(cls.arguments()) > 1 else wording.parameters[cls.arguments()[0]].schema()

    @classmethod
    def json_types(cls) -> tuple[type, ...]:
        if cls.wording() is None:
            return (str,)
        return (str, Mapping) if len(cls.arguments()) > 1 else (str, int, float)

    # ------------------------------------------------------------------ reading

    @classmethod
    def read_exactly(cls, text: str, grammar: Grammar, *, cut: bool) -> Decision | None:
        line = text[len(cls.word) + 2 :]
        if not line or line != line.strip() or "<" in text or len(text.splitlines()) != 1:
            return None
        if (
            not cls.may_be_said(grammar)
            or (cut and not cls.accompanies)
            or sentence_that_decides(text, grammar) is not None
        ):
            return None
        try:
            return cls.of_line(line)
        except ParameterError:
            return None

    @classmethod
    def read_recorded(cls, text: str, *, keep_and: bool = False) -> Decision:
        line = text[len(cls.word) + 1 :].strip()
        if not line:
            raise MalformedDecision(f"Nothing follows '{cls.word}:'.")
        if "\n" in line:
            raise MalformedDecision(f"'{cls.word}:' is followed by one line, not by {line.count(chr(10)) + 1}.")
        return cls.of_line(line)

    @classmethod
    def recorded_turns(cls, line: str, rest: list[str]) -> Sequence[Turn] | None:
        return Said(line, cls.of_line(line.removeprefix(cls.opening))), *(
            [Told(rest.pop(), About.ANSWER)] if rest else []
        )

    @classmethod
    def read(cls, said: Any, reader: Reader, *, cut: bool) -> Decision | None:
        if not cls.may_be_said(reader.grammar):
            raise Unreadable(f"{cls.not_now(reader.grammar)} {reader.grammar.expected}.")
        said = undressed(said.partition("\n")[0]) if isinstance(said, str) else said
        if not said:
            raise Unreadable(f"Nothing follows '{cls.word}:'; write {cls.noun} on the same line.")
        try:
            return None if cut else cls.of_line(said)
        except ParameterError as error:
            raise Unreadable(f"'{cls.word}:' cannot be read: {error}") from None

    @classmethod
    def of_line(cls, said: object) -> Self:
        wording, make = cls.wording(), cast("type[Any]", cls)  # whose arguments a subclass declares
        if wording is None:
            return cast("Self", make(str(said)))
        return cls(**wording.read(said if isinstance(said, Mapping) else str(said)))

    # ------------------------------------------------------------------ writing

    def __str__(self) -> str:
        wording = self.wording()
        return f"{self.word}: {next(iter(vars(self).values())) if wording is None else wording.write(vars(self))}"

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        if (wording := cls.wording()) is None:
            return super().from_dict(values)
        fields = zip(cls.arguments(), cls.recorded_fields(), strict=True)
        return cls(**wording.read({name: values[field] for name, field in fields}))
