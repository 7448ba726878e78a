"""Takes a reply apart, line by line, and reads the decision in it.

The first decision in full counts, behind a thought or courtesy; what goes on after it is dropped, if no label announces
another one. All else is refused, and asked for again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from reactree_ros.agent.decision import Decision, kinds
from reactree_ros.agent.grammar import Grammar
from reactree_ros.agent.labels import Announced, Label, Mark, label_of, shortened, undressed
from reactree_ros.agent.reading.skills import Skills, act_of
from reactree_ros.agent.text import words
from reactree_ros.agent.turns import Said, Unreadable

#: What ends a model's turn, or begins somebody else's.
_TURNS = re.compile(
    r"<[|\uff5c](?:im_end|im_start|eot_id|eom_id|end|start|endoftext|end_of_text|begin_of_text|end_of_turn"
    r"|start_of_turn|start_header_id|end▁of▁sentence|END_OF_TURN_TOKEN|return|call|user|system|assistant)[|\uff5c]>"
    r"|</s>|<end_of_turn>|<start_of_turn>|<eos>|<bos>|\[/?INST\]|\A\s*<s>"
)
_ROLE = re.compile(r"\s*(?:assistant|model)(?:<\|end_header_id\|>|\s*\n)")
_ESCAPED = re.compile(r"\\.")
#: How the world and people begin to speak, as prompts have it.
_OTHERS = re.compile(
    r"\s*(?:you \w|your task is\b|(?:user|human|system|environment|world|person|owner)\s?:)", re.IGNORECASE
)
#: What follows a thought in a prompt; where one tag follows another; the end of a sentence in a thought.
_OK, _TAGS = re.compile(r"\s*ok\.?\s*", re.IGNORECASE), re.compile(r"</\w{1,20}>(?=<\w)")
_SENTENCE, _BLANK = re.compile(r"[.!?…]\s+"), re.compile(r"\s+")
_ENTRY = re.compile(r"\s*(?:[-*+•‣▪]\s|\(?\d{1,2}[.)])")
_SUBGOALS_WORD = re.compile(r"\bsub[ _-]?(?:goals|tasks)\b", re.IGNORECASE)
#: How far into a line a decision is looked for behind a thought, in characters.
_LONGEST = 4000
#: What may stand before a label on its line.
_GREETING = re.compile(
    r"\A\W{0,9}(?:ok|okay|sure|certainly|of course|all right|great|understood|got it)[.,!]\s+", re.IGNORECASE
)
#: The courtesies and announcements that may stand before a decision, and nothing else.
COURTESY = re.compile(
    r"(?:(?:ok|okay|sure|certainly|of course|all ?right|great|good|understood|got it|thanks|thank you"
    r"|(?:sorry|i apologi[sz]e) for the (?:confusion|mistake|error))\b[\s.,!]*)*"
    r"(?:(?:(?:based on|given|since|as) [^.:!?\n]{1,200}, )?(?:here is|here's|this is|it is)?\s?"
    r"(?:my |the )?(?:next |final )?(?:decision|action|act|step|answer|choice|response|expansion)"
    r"(?: in (?:json|text))?(?: is)?\s?[.:]?)?",
    re.IGNORECASE,
)
#: How many beginnings of a value in JSON are tried; what follows them is plain text.
_TRIED = 12


@dataclass
class Part:
    """What one label announces, or one value in JSON says."""

    announced: Announced | None = None  # what its label announces; None: it has none
    said: Any = ""  # its text; from JSON its arguments, too
    whole: bool = False  # whether it is known to be whole though the reply was cut
    value: Any = None  # what it says in JSON, before that is read; None: nothing

    @property
    def kind(self) -> type[Decision] | None:
        return None if isinstance(self.announced, Mark) else self.announced

    @property
    def text(self) -> str:
        """Its text on one line."""
        return " ".join(str(self.said).split())

    @property
    def decides(self) -> bool:
        """Whether it is a decision that nothing follows."""
        return self.kind is not None and not (self.kind.accompanies or self.kind.leads)

    @property
    def accompanies(self) -> bool:
        return self.kind is not None and self.kind.accompanies

    @property
    def has_lines(self) -> bool:
        """Whether its list may go on in the next line."""
        return self.kind is not None and self.kind.of_lines

    @property
    def goes_on(self) -> bool:
        """Whether the lines after its label are its own, too, as those of a thought and of an expansion are."""
        return self.has_lines or self.accompanies

    @property
    def is_empty(self) -> bool:
        """Whether it is a label, and nothing yet."""
        return self.announced is not None and self.value is None and not self.said


def own_words(text: str, grammar: Grammar) -> str:
    """Return what of a reply is the model's own: its turn, up to where it makes the world speak after a decision."""
    turn, _ = first_turn(text)
    decided = False
    lines = turn.split("\n")
    for number, line in enumerate(lines):
        label = label_of(line)
        announced = None if label is None else label.announces
        if decided and (_OTHERS.match(line) or announced is Mark.OBSERVATION):
            return "\n".join(lines[:number])
        decided = decided or (announced in grammar.kinds and not getattr(announced, "leads", False))
    return turn


def first_turn(text: str) -> tuple[str, bool]:
    """Return the first turn that says something, without its role, and whether it has an end."""
    begin, ended = 0, False
    for mark in _TURNS.finditer(text):
        if _is_quoted(text, mark):
            continue
        if ended := bool(text[begin : mark.start()].strip()):
            text = text[: mark.start()]
            break
        begin = mark.end()
    turn = text[begin:]
    return turn if (role := _ROLE.match(turn)) is None else turn[role.end() :], ended


def _is_quoted(text: str, mark: re.Match[str]) -> bool:
    """Whether a mark stands in quotes on its line."""
    begin, end = text.rfind("\n", 0, mark.start()) + 1, text.find("\n", mark.end())
    after = text[mark.end() : end if end >= 0 else None]
    return _ESCAPED.sub("", text[begin : mark.start()]).count('"') % 2 == 1 and '"' in _ESCAPED.sub("", after)


def sentence_that_decides(
    line: str, grammar: Grammar, ends: re.Pattern[str] = _SENTENCE
) -> tuple[str, type[Decision], str] | None:
    """Return the kind and words of a decision that is said in a line, outside quotes, after what stands before it."""
    for end in ends.finditer(line[:_LONGEST]):
        label = label_of(line[end.end() :]) if line.count('"', 0, end.end()) % 2 == 0 else None
        kind = None if label is None or isinstance(label.announces, Mark) else label.announces
        if label is not None and kind in grammar.kinds and not (kind.accompanies or kind.of_lines):
            return line[: end.end()].strip(), kind, label.rest
    return None


class Reader:
    """Reads one reply; labels of kinds that the model was not told of are plain words.

    ``cut``: whether the token limit ended it.
    """

    def __init__(self, grammar: Grammar, *, cut: bool = False) -> None:
        self.grammar, self.cut = grammar, cut
        self.skills = Skills(grammar.skills, grammar.offers, free=grammar.free)
        self._expands = next((kind for kind in grammar.kinds if kind.of_lines), None)
        self._labels = {*grammar.kinds, Mark.ANSWER, Mark.ARGUMENT}

    # ------------------------------------------------------------------ parts

    def parts_of(self, text: str, values: Iterable[Any] = ()) -> list[Part]:
        """Take a reply apart, with the values in JSON that were said after it."""
        found = [*self._labelled(text.strip()), *(Part(value=value) for value in values)]
        try:
            return list(self._resolved(found))
        except RecursionError:
            raise Unreadable("The JSON is nested too deeply; say one decision.") from None

    def _labelled(self, text: str) -> list[Part]:
        if text.count('"') == 2 and text[0] == text[-1] == '"':
            text = text[1:-1]
        lines = _TAGS.sub(lambda tag: f"{tag[0]}\n", text).split("\n")
        last_list = max((number for number, line in enumerate(lines) if _SUBGOALS_WORD.search(line)), default=-1)
        found, at, tried = [Part()], 0, 0
        while at < len(lines):
            line, last = lines[at], found[-1]
            label = self._label(line, last, has_list=at <= last_list)
            said = undressed(line) if label is None else label.rest
            in_a_list = label is None and last.goes_on and not last.is_empty
            if tried < _TRIED and (said.startswith("{") or (said.startswith("[") and not in_a_list)):
                tried += 1
                value, took = _value_in("\n".join([said, *lines[at + 1 :]]))
                if took:
                    begun = Part(label.announces) if label else found.pop() if last.is_empty else Part()
                    found += [replace(begun, said="", value=value), Part()]
                    at += took
                    continue
            if label is not None:
                found.append(Part(*label))
            elif not (last.announced is None or last.goes_on or last.is_empty):
                found.append(Part(None, said))
            elif last.is_empty or not (last.goes_on and _OK.fullmatch(line)):
                said = line.removeprefix("> ") if said and last.has_lines else said
                last.said = f"{last.said}\n{said}" if last.said else said
            found += self._decision_behind(found[-1])
            at += 1
        return found

    def _label(self, line: str, last: Part, *, has_list: bool) -> Label | None:
        """Return the label of a line where it begins an item."""
        label, expands = label_of(_GREETING.sub("", line, count=1)), last.kind is not None and last.has_lines
        if label is None:
            return None
        if label.announces is Mark.FLOW and self._expands is not None:
            return Label(self._expands, line) if has_list and not expands else None
        if label.announces not in self._labels:
            return None
        plain = isinstance(label.announces, Mark) or label.announces.accompanies or label.announces.leads
        return None if expands and plain and _ENTRY.match(line) else label

    def _decision_behind(self, last: Part) -> list[Part]:
        """Take the last line of a thought apart where a decision follows on it."""
        if last.kind is None or last.decides or not last.said:
            return []
        before, line_end, line = last.said.rpartition("\n")
        if (found := sentence_that_decides(line, self.grammar, _BLANK if last.kind.leads else _SENTENCE)) is None:
            return []
        last.said = f"{before}{line_end}{found[0]}"
        return [Part(*found[1:])]

    def _resolved(self, parts: Sequence[Part]) -> Iterator[Part]:
        """Yield parts that are of a kind or prose: JSON is read, and so are labels that announce any kind."""
        last, acts = Part(), type(act_of(""))
        for part in parts:
            if part.announced is Mark.ARGUMENT and last.kind is acts:
                self._add_argument(last, part)
                continue
            for last in self._in_json(part) if part.value is not None else [self._announced(part)]:
                yield last

    def _add_argument(self, act: Part, part: Part) -> None:
        if part.value is not None and (called := self.skills.named(act.said)):
            act.said, act.whole = str(self.skills.call(called, part.value)), True
            return
        argument = " ".join(_words(part.value)) if part.value is not None else part.said.partition("\n")[0]
        if self.skills.meant(act.said) is None or not {"none", *words(act.said)}.issuperset(words(argument)):
            act.said = f"{act.said} {argument}"

    def _announced(self, part: Part) -> Part:
        said = part.said.strip()
        if part.announced is Mark.ANSWER and self.skills.meant(said) is not None:
            return Part(type(act_of(said)), said)
        return Part(part.kind, said)

    def _in_json(self, part: Part) -> Iterator[Part]:
        for announced, said in said_in(part.value, self.skills):
            if isinstance(announced, Mark):
                inside = self.parts_of(said)
                yield from inside if any(one.kind for one in inside) else [self._announced(Part(announced, said))]
                continue
            fits = part.announced in (announced, None, Mark.ANSWER, Mark.FLOW) or announced.accompanies
            if not (fits or (part.kind is not None and part.kind.leads)):
                raise Unreadable("One kind of decision is announced, and another is said; say one decision.")
            yield Part(announced, said, whole=True)

    # ------------------------------------------------------------------ the decision

    def read(self, parts: Sequence[Part]) -> tuple[Said, ...]:
        """Return the decisions that the parts of a reply are taken for."""
        at = next((number for number, part in enumerate(parts) if part.decides), len(parts))
        before = [part for part in parts[:at] if part.kind or part.text]
        if at == len(parts):
            return self._undecided(before)
        decisive, kind = parts[at], parts[at].kind
        assert kind is not None  # it decides
        self._check_before(before)
        ends = not (decisive.whole or any(part.text or part.kind for part in parts[at + 1 :]))
        decision = kind.read(decisive.said, self, cut=self.cut and ends)
        if decision is None:
            if self.grammar.thinks and any(part.accompanies for part in before):
                return self.grammar.said_turns(before, None)
            if kind.of_lines:
                raise Unreadable("The list of subgoals was cut; name fewer and shorter ones.")
            cut = shortened(str(decisive.said)) or kind.word
            raise Unreadable(f"'{cut}' was cut. Say the decision again, and nothing before it.")
        others = [other for part in parts[at + 1 :] for other in self._decisions_in(part)]
        for other in others:
            said, may_be_cut = self._in_words(other), self.cut and other is others[-1]
            if said != words(str(decision)) and (said or not may_be_cut):
                raise Unreadable(f"Say one decision at a time; '{shortened(other.text, 60)}' is said as well.")
        return self.grammar.said_turns(before, decision)

    def _decisions_in(self, part: Part) -> list[Part]:
        if part.kind is not None:
            return [part] if part.decides else []
        found = (sentence_that_decides(line, self.grammar, _BLANK) for line in part.said.split("\n"))
        return [Part(*one[1:]) for one in found if one is not None]

    def _in_words(self, part: Part) -> tuple[str, ...]:
        assert part.kind is not None  # it decides
        try:
            return words(str(part.kind.read(part.said, self, cut=False)))
        except Unreadable:
            return ()

    def _check_before(self, before: Sequence[Part]) -> None:
        """Look whether nothing but courtesy and thoughts stands before a decision, and none of it speaks of that."""
        quoted = sum(part.text.count('"') for part in before if not part.whole) % 2
        ahead = [part for part in before[-1:] if part.kind is not None and part.text.endswith(":")]
        prose = [part for part in before if part.kind is None and COURTESY.fullmatch(part.text) is None]
        if doubt := next(iter([*prose, *ahead, *before[:quoted]]), None):
            raise Unreadable(
                f"It cannot be told whether the decision after '{shortened(str(doubt.said), 60)}' is meant. Say one "
                "decision at a time, and nothing before it."
            )

    def _undecided(self, parts: Sequence[Part]) -> tuple[Said, ...]:
        """Read a reply that names no act and no expansion as one: a thought, or nothing but a skill."""
        grammar, kinds = self.grammar, [part.kind for part in parts if part.kind is not None]
        thought = next((kind for kind in kinds if kind.accompanies), None)
        text = "\n".join(part.said for part in parts)
        if grammar.by_subgoals and any(kind.leads for kind in kinds):
            raise Unreadable(f"A subgoal comes with its first action. {grammar.expected}.")
        if thought is not None and not any(part.text for part in parts):
            raise Unreadable(f"Nothing follows '{thought.word}:'; write {thought.noun} on the same line.")
        if thought is not None and grammar.thinks:
            self._check_before([part for part in parts if part.kind is None][:1])
            return grammar.said_turns(parts, None)
        if thought is not None and not grammar.by_subgoals:
            raise Unreadable(f"{thought.not_now(grammar)} {grammar.expected}.")
        if not text:
            raise Unreadable(f"Nothing was said. {grammar.expected}.")
        if self.cut and not parts[-1].whole:
            raise Unreadable(f"The reply was cut before it came to a decision; be brief. {grammar.expected}.")
        if "\n" not in text.strip():
            skill = self.skills.meant(text)
            if skill is not None and not sentence_that_decides(text, grammar):
                return grammar.said_turns((), act_of(skill))
            if self.skills.begins_like_one(text) and not grammar.free:
                self.skills.find(text)
        raise Unreadable(f"{grammar.expected}, not with '{shortened(text, 40)}'.")


def _value_in(text: str) -> tuple[Any, int]:
    """Return the value in JSON that a text begins with, and how many lines it takes; 0: there is none."""
    value, end = value_at(text)
    rest = undressed(text[end:].partition("\n")[0].strip("` *"))
    is_all = holds_an_object(value) and re.fullmatch(r"(?:</\w{1,20}>)?", rest)
    return (value, text.count("\n", 0, end) + 1) if is_all else (None, 0)


_FLOW, _SUBGOALS = ("controlflow", "flow"), ("subgoals", "subtasks")
_WRAPPERS = ("decision", "nextdecision", "decisions", "response", "answer", "finalanswer", "output", "toolcalls")
_TYPES = ("type", "kind", "decisiontype", "actiontype")
_NAMES = ("name", "tool", "toolname", "function", "functionname", "verb")
_ARGUMENTS = ("arguments", "args", "parameters", "params", "input", "actioninput", "toolinput", "argument", "target")
_CONTENTS = ("object", "content", "value", "text", "description")
#: Fields that say nothing of the decision.
_BESIDE = frozenset({"id", "callid", "confidence", "goal", "task", "observation", "state"})
_STRUCTURE = frozenset({"function", "toolcall", "tooluse", "functioncall"})
_DENYING = re.compile(r"not|avoid|except|without|exclude|instead|unless|forbid|previous|last|undo", re.IGNORECASE)
#: How deep values may lie.
_DEEPEST = 6

#: What a value says: the kind of decision, and its text; of an expansion, control flow and subgoals; of a kind with
#: several arguments, these by name.
Saying = tuple[Announced, Any]


@cache
def _kinds() -> tuple[type[Decision], type[Decision], Mapping[str, type[Decision]]]:
    """Return the kind of acts, that of expansions, and all by the names of tools, types and fields."""
    every = kinds().values()
    acts, expands = (next(kind for kind in every if getattr(kind, part)) for part in ("nests", "of_lines"))
    return acts, expands, {name: kind for kind in every if not kind.leads for name in kind.keys}


def said_in(value: Any, skills: Skills, depth: int = 0) -> list[Saying]:
    """Return what an object, or an array of objects, says; a declared skill may be called by its name or its verb."""
    if depth > _DEEPEST:
        raise Unreadable("The JSON is nested too deeply; say one decision.")
    if isinstance(value, list):
        return [part for one in value for part in said_in(one, skills, depth + 1)]
    if not isinstance(value, Mapping):
        raise _not_readable(value)
    acts, expands, named = _kinds()
    fields = _fields_of(value, skills)
    kind, said = _take_kind(fields, skills), list[Saying]()
    for one in kinds().values():
        if one.accompanies or one.leads:
            said += [(one, fields.pop(key)) for key in one.keys if isinstance(fields.get(key), str)]
        elif kind is None and one not in (acts, expands):
            said += [(one, held)] if (held := _take(fields, one.keys, one.json_types())) is not None else []
    if inner := _take(fields, (*_WRAPPERS, "function", *acts.keys, *expands.keys), (Mapping, list)):
        said += said_in(inner, skills, depth + 1)
    elif kind is expands or any(key in fields for key in _SUBGOALS):
        said.append((expands, (_take(fields, _FLOW), _take(fields, _SUBGOALS))))
    elif kind is not None and kind is not acts:
        said += _arguments_of(kind, fields)
    elif kind is None and (text := _take(fields, _WRAPPERS, str)) is not None:
        said.append((Mark.ANSWER, text))
    else:
        parts = (*acts.keys, *_NAMES, *_TYPES), (*_ARGUMENTS, *(_CONTENTS if kind else _CONTENTS[:1]))
        skill = [word for keys in parts for word in _words(_take(fields, keys))]
        said += [(acts, " ".join(skill))] if skill else []
    left = next((name for name in fields if name not in _BESIDE), None)
    if left in (*_WRAPPERS, *_SUBGOALS, *named):
        raise Unreadable(f"Say one decision at a time; '{left}' is said as well.")
    if left is not None:
        raise Unreadable(f"What '{shortened(left, 40)}' means in the JSON is not known; leave it out.")
    if not said:
        raise _not_readable(value)
    return said


def object_in(text: str) -> Any:
    """Return the object that a text in JSON stands for, all of it; None if it stands for none."""
    value, end = value_at(text) if text.startswith("{") else (None, 0)
    return value if isinstance(value, Mapping) and not text[end:].strip() else None


def value_at(text: str) -> tuple[Any, int]:
    """Read the value of JSON that a text begins with, and where it ends; None if it begins with none."""
    try:
        return _DECODER.raw_decode(text)
    except (ValueError, RecursionError):
        return None, 1


def holds_an_object(value: Any) -> bool:
    """Return whether a value is an object, or an array of such."""
    if isinstance(value, list):
        return bool(value) and all(map(holds_an_object, value))
    return isinstance(value, Mapping) and bool(value)


def _key(name: str) -> str:
    return re.sub(r"[\s_-]", "", name).casefold()


def _once(fields: Iterable[tuple[Any, Any]]) -> dict[str, Any]:
    """Return fields by their names; one that comes twice keeps a name that nothing takes."""
    named: dict[str, Any] = {}
    for name, value in fields:
        named[str(name) if str(name) not in named else f"{name} (twice)"] = value
    return named


_DECODER = json.JSONDecoder(object_pairs_hook=_once)


def _fields_of(value: Mapping[str, Any], skills: Skills) -> dict[str, Any]:
    """Return the fields that say something, with the call of a declared skill in words."""
    value = _with_call_in_words(value, skills)
    return _once((_key(name), one) for name, one in value.items() if one is not None and one not in ("", [], {}))


def _with_call_in_words(value: Mapping[str, Any], skills: Skills) -> Mapping[str, Any]:
    for name, one in value.items():
        if not isinstance(one, str) and (called := skills.named(name)):
            rest = {other: held for other, held in value.items() if other != name}
            return {**rest, "act": str(skills.call(called, one))}
    for name, one in value.items():
        is_name = isinstance(one, str) and _key(name) in (*_NAMES, *_kinds()[0].keys)
        if is_name and (called := skills.named(one)):
            rest = {other: held for other, held in value.items() if other != name}
            own = {parameter for offer in called for parameter in offer.skill.parameters}
            held = next((other for other in rest if _key(other) in _ARGUMENTS and other not in own), None)
            given = {other: rest.pop(other) for other in [*rest] if other in own} if held is None else rest.pop(held)
            inside = object_in(given) if isinstance(given, str) else None
            return {**rest, "act": str(skills.call(called, given if inside is None else inside))}
    return value


def _take(fields: dict[str, Any], keys: Iterable[str], of: type | tuple[type, ...] = object) -> Any:
    """Take the first of some fields that is there with a value of a type; None if none is."""
    key = next((key for key in keys if isinstance(fields.get(key), of) and key in fields), None)
    return None if key is None else fields.pop(key)


def _take_kind(fields: dict[str, Any], skills: Skills) -> type[Decision] | None:
    """Take the field that names the kind of the decision; what it comes with may lie in a field of its own."""
    acts, _, named = _kinds()
    if _key(str(fields.get("type"))) in _STRUCTURE:
        del fields["type"]
    alone = len(fields) == 1  # what is all that is said of an act is its skill, whatever it is called
    for key in (*_TYPES, *_NAMES, "decision", *(() if alone else acts.keys[1::-1])):
        kind = named.get(_key(name)) if isinstance(name := fields.get(key), str) else None
        if kind is None:
            continue
        del fields[key]
        for held in (*_ARGUMENTS, *_CONTENTS):
            inside = object_in(one) if isinstance(one := fields.get(held), str) else one
            if isinstance(inside, Mapping):
                del fields[held]
                merged = _once([*fields.items(), *_fields_of(inside, skills).items()])
                fields.clear()
                fields.update(merged)
        return kind
    return None


def _arguments_of(kind: type[Decision], fields: dict[str, Any]) -> list[Saying]:
    names = {_key(name): name for name in kind.arguments()}
    if Mapping in kind.json_types():
        return [(kind, {name: fields.pop(key) for key, name in names.items() if key in fields})]
    keys = (*kind.keys, *names, *_CONTENTS, *_ARGUMENTS)
    return [(kind, fields.pop(key)) for key in keys if isinstance(fields.get(key), str)]


def _words(value: Any) -> Iterator[str]:
    """Return the words of a skill: a text, a name with arguments, or the arguments."""
    if isinstance(value, str):
        held = object_in(value)
        yield from [value] if held is None else _words(held)
    elif isinstance(value, int) and not isinstance(value, bool):
        yield str(value)
    elif isinstance(value, list) or (isinstance(value, Mapping) and not any(map(_DENYING.search, map(str, value)))):
        for one in value.values() if isinstance(value, Mapping) else value:
            yield from _words(one)
    elif value is not None:
        raise _not_readable(value)


def _not_readable(value: Any) -> Unreadable:
    said = shortened(json.dumps(value, ensure_ascii=False, default=str))
    return Unreadable(f"No decision can be read from {said}; say it in words, such as '{_kinds()[0].opening}…'.")
