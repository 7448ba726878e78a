"""From a tree that has reached its goal to a routine: what was needed of it, with roles in place of things."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, takewhile, zip_longest
from typing import Any

from py_trees.common import Status
from pydantic import ValidationError

from reactree_ros.agent.control_flow import ControlFlow, flow_over
from reactree_ros.agent.decision import ASKS_MEMORY
from reactree_ros.agent.household import Household
from reactree_ros.agent.kinds.expand import Expand
from reactree_ros.agent.needs import OPPOSITES
from reactree_ros.agent.observation import Observation, Outcome
from reactree_ros.agent.parameters import Choice, List, Number, ParameterError, Person, Place, Room, Text, Thing, Value
from reactree_ros.agent.skill import WAIT, Skill, SkillCall
from reactree_ros.agent.text import shortened_line, words
from reactree_ros.agent.turns import Said, Saw, Turn
from reactree_ros.errors import UserError
from reactree_ros.memory.knowledge import Knowledge, word_of
from reactree_ros.routine import model
from reactree_ros.routine.fitting import DEPENDING, Mention, Vocabulary
from reactree_ros.tree.agent_node import AgentNode
from reactree_ros.tree.bounded_flows import RepeatUntilFlow, WithinFlow
from reactree_ros.tree.goal_node import GoalNode

#: How many things a routine handles at most, each by a name of its own.
_MOST_NAMES = 60
#: What stands before what a goal says of a thing, as in ``the red mug``, and what does not belong to it.
_BEFORE = frozenset(
    ["a", "an", "the", "my", "your", "his", "her", "its", "our", "their", "this", "that", "these", "those"]
)
_NO_QUALITY = frozenset(["and", "or", "then", "of"])
#: Words by which a goal names again what it has named.
_THE_SAME = frozenset({"it", "its", "them", "that", "this"})
#: Words of goals that a wait or a loop stands for.
_WAITING = frozenset({"until", "when", "while", "every"})


#: The kinds of role that values are of, by their parameters; things have searches.
_ROLES: Mapping[type, str] = {Person: "person", Place: "place", Room: "room", Number: "number", Choice: "text"}


class NotLearnt(UserError):
    pass


@dataclass(frozen=True)
class _Did:
    call: SkillCall
    observation: Observation

    @property
    def done(self) -> bool:
        return self.observation.outcome is Outcome.DONE


@dataclass(frozen=True)
class _Under:
    flow: ControlFlow
    parts: tuple[tuple[bool, tuple[_Item, ...]], ...]


_Item = _Did | Observation | _Under


def learnt(root: GoalNode, known: Vocabulary, *, run: str) -> model.Routine:
    """Return the routine of a tree that has reached its goal.

    Left out is what only searched, was refused or failed, asked memory, or was done again in vain. A search stays a
    search. A branch of a fallback that tried something stays before the one that succeeded. Raises NotLearnt: the tree
    is none of agent nodes, did nothing, a person's words were needed, or its skills are not declared.
    """
    household, context = root.context.household, root.context
    if told := [*context.answers.values(), *context.words]:
        said = shortened_line(told[0], 60)
        raise NotLearnt(f"a person has said {said} on the way, and may not say so the next time")
    if not household.skills:
        raise NotLearnt(f"the skills of '{household.name}' are texts: a routine needs declared ones")
    items = tuple(_items(root, household))

    def make(fixed: frozenset[str]) -> tuple[model.Routine, Mapping[str, model.Role]]:
        made = _Maker(household, items, known, root.subgoal, fixed)
        body = made.sequence(items, last=True)
        if body is None:
            raise NotLearnt("nothing was done that a routine could do again")
        return made.routine(body, run), made.roles

    try:
        routine, roles = make(frozenset())
        twice = _of_two_purposes(routine, household.skills)
        fixed = frozenset(word for word, role in roles.items() if role.name in twice)
        return make(fixed)[0] if fixed else routine
    except ValidationError as error:
        raise NotLearnt(f"it cannot be written down: {error.errors()[0]['msg']}") from None


def came_to(root: GoalNode) -> tuple[str, Sequence[Mapping[str, Any]]]:
    """Return where a run began, empty if nobody knows, and what its skills have left to hold, written as needs."""
    household, begun, facts = root.context.household, "", dict[str, Mapping[str, Any]]()
    for item in _flat(tuple(_items(root, household))):
        if not isinstance(item, _Did):
            if not (begun or facts):
                (seen := Knowledge(household)).saw(item)
                begun = seen.of().at or seen.of().room
            continue
        what = {effect: item.call.value(effect) for effect in item.call.skill.effect if item.done}
        if item.call.skill.moves:
            facts["at"] = {"at": what["at"]} if "at" in what else {}
        for effect, name in what.items():
            if effect in OPPOSITES:
                facts[f"{min(effect, OPPOSITES[effect])} {name}"] = {effect: name}
            elif effect in ("held", "released", "gone"):
                facts[f"held {name}"] = {"held": name} if effect == "held" else {"not": {"held": name}}
    return begun, [fact for fact in facts.values() if fact]


def _of_two_purposes(routine: model.Routine, skills: Sequence[Skill]) -> set[str]:
    # With an ``it`` after it, the goal may mean the same: ``into the oven and start it``. Else it may name it a second
    # time in words that nobody knows: ``into the cooker and start the oven``.
    roles = {f"{{{role.name}}}": role.name for role in routine.roles}
    of = {node.finds: roles.get(node.of, "") for node in routine.nodes if isinstance(node, model.Search)}
    targets, handled, here = set[str](), set[str](), ""
    for node in routine.nodes:
        if isinstance(node, model.Search):
            here = of[node.finds]
        elif isinstance(node, model.Skill):
            effect = {*model.effects_of(node.wording, skills)}
            if effect and effect <= {"open", "closed", "place"}:
                continue
            named = {of.get(name or "", "") for _, name, *_ in string.Formatter().parse(node.wording)}
            handled |= named
            targets |= {here} - named if "released" in effect else set()
    both = (targets & handled) - {""}
    return {role for role in both if _THE_SAME.isdisjoint(words(routine.goal.partition(f"{{{role}}}")[2]))}


def without(routine: model.Routine, finds: str) -> model.Routine | None:
    """Return a routine without what it does with one of the things it finds; None if nothing is left that is one."""
    body = _pruned(routine.body, f"{{{finds}}}")
    try:
        return None if body is None else model.Routine.from_data({**routine.model_dump(), "body": body.model_dump()})
    except model.RoutineError:
        return None


def _pruned(node: model.Node, name: str) -> model.Node | None:
    children = list[model.Node]()
    for child in model.children_of(node):
        if isinstance(child, model.Skill) and name in child.wording:
            if children and isinstance(children[-1], model.Search):
                children.pop()  # the way to where that is done
        elif (left := _pruned(child, name)) is not None:
            children.append(left)
    if model.children_of(node):
        return model.with_children(node, children) if children else None
    gone = isinstance(node, model.Search) and name == f"{{{node.finds}}}"
    return None if gone or (isinstance(node, model.Skill) and name in node.wording) else node


def unnamed(routine: model.Routine, skills: Sequence[Skill]) -> list[str]:
    """Return what a routine calls the things that it takes and that are not roles: the goal may not want them."""
    roles = {f"{{{role.name}}}" for role in routine.roles}
    searches = {node.finds: node.of for node in routine.nodes if isinstance(node, model.Search)}
    wordings = [node.wording for node in routine.nodes if isinstance(node, model.Skill)]
    taken = [model.effects_of(wording, skills).get("held", "").strip("{}") for wording in wordings]
    return [name for name in dict.fromkeys(taken) if name in searches and searches[name] not in roles]


def overlooked(routine: model.Routine, known: Vocabulary) -> str:
    """Return what the goal of a learnt routine says and nothing in its tree stands for; empty if all does.

    Nobody knows whether it matters, unless the routine is tried out where things are otherwise.
    """
    goal, texts = routine.origin.instruction, [text for node in routine.nodes for text in model.templates_of(node)]
    body, at, counted = " ".join(texts), 0, False
    done = {mention.word for mention in known.mentions(body)}
    done |= {mention.word for mention in known.mentions(goal)} - {
        mention.word for literal, *_ in string.Formatter().parse(routine.goal) for mention in known.mentions(literal)
    }
    for mention in known.mentions(goal):
        quality, at = _quality(goal[at : mention.begin], counted=counted), mention.end
        counted = mention.kinds == {"number"}
        if mention.kinds <= {"person", "text"}:  # who or which is said by its own word
            quality = ""
        if not counted and mention.kinds != {"text"} and mention.word not in done:
            return f"nothing in it is done with '{mention.word}', which its goal names"
        if not counted and quality:
            return f"its goal says '{quality} {mention.word}', and it takes any '{mention.word}'"
    waits = WAIT in body or any(hasattr(node, "condition") for node in routine.nodes)
    depends = [word for word in known.shape(goal)[0] if word in DEPENDING - (_WAITING if waits else frozenset())]
    return f"its goal says '{depends[0]}', which nothing in it looks at" if depends else ""


def _quality(before: str, *, counted: bool) -> str:
    said = words(before)
    begins = max(
        (number for number, word in enumerate(said, 1) if word in _BEFORE), default=0 if counted else len(said)
    )
    quality = said[begins:]
    return "" if _NO_QUALITY.intersection(quality) else " ".join(quality)


# ---------------------------------------------------------------------- what the run did


def _items(node: GoalNode, household: Household) -> Iterator[_Item]:
    if not isinstance(node, AgentNode):
        raise NotLearnt(f"'{node.name}' is not an agent node, and only what those decide can be learnt")
    expansions = iter([child for child in node.children if flow_over(child) is not None])
    before: Turn | None = None
    for turn in node.turns:
        asked = before.decision.skill_asked if isinstance(before, Said) and before.decision is not None else ""
        if isinstance(turn, Saw) and turn.observation is not None and not asked.startswith(ASKS_MEMORY):
            yield _did(asked, turn.observation, household) if asked else turn.observation
        elif isinstance(turn, Said) and isinstance(turn.decision, Expand):
            grown = next(expansions)
            begun = [child for child in grown.children if isinstance(child, AgentNode) and child.turns]
            parts = ((child.status == Status.SUCCESS, tuple(_items(child, household))) for child in begun)
            yield _Under(turn.decision.control_flow, tuple(parts))
        before = turn


def _did(skill: str, observation: Observation, household: Household) -> _Did:
    try:
        call = household.call(skill)
        if any(isinstance(call.skill.parameters[place], List) for place, *_ in call.named):
            raise NotLearnt(f"'{skill}' names a list, and a routine looks for each thing by itself")
        return _Did(call, observation)
    except ParameterError as error:
        if observation.outcome is Outcome.DONE:
            raise NotLearnt(f"'{skill}' is not a declared skill: {error}") from None
        raise NotLearnt(f"'{skill}' was refused") from None


def _flat(items: Sequence[_Item]) -> Iterator[_Did | Observation]:
    for item in items:
        if isinstance(item, _Under):
            for _, part in item.parts:
                yield from _flat(part)
        else:
            yield item


# ---------------------------------------------------------------------- what is kept of it


@dataclass
class _Maker:
    household: Household
    items: Sequence[_Item]
    known: Vocabulary
    goal: str
    fixed: frozenset[str]  # words of the goal that are not roles
    words: dict[str, str] = field(default_factory=dict)  # by the names of things
    # where things are put: what was opened of it is opened then, as hands may be full later
    targets: set[str] = field(default_factory=set)
    names: dict[str, str] = field(default_factory=dict)  # what each thing of the run is called in the routine
    roles: dict[str, model.Role] = field(default_factory=dict)  # by the word of the goal that they stand for
    _returned: dict[str, str] = field(default_factory=dict)  # what skills have returned, by its name, in words
    _said: set[str] = field(default_factory=set)  # which of that a text has in it, and so takes from its entry
    _held: set[str] = field(default_factory=set)
    _at: str = ""  # where the robot stands in the run
    _comes_there: bool = False  # whether what is kept so far leads there, wherever the robot begins
    _opened_so_far: dict[str, SkillCall] = field(default_factory=dict)
    _going: list[_Did] = field(default_factory=list)  # moves, and what was opened, since something was done

    def __post_init__(self) -> None:
        at, self._seen, self.rooms = "", Knowledge(self.household), set[str]()
        for item in _flat(self.items):
            seen = item.observation if isinstance(item, _Did) else item
            self.rooms |= {*seen.rooms, *(one.room for one in seen.seen if one.room)}
            self.words |= {self.household.name_of(one.word, one.instance): one.word for one in seen.seen}
            if isinstance(item, _Did) and item.done:
                self._note_said(item)
                at = item.call.value("at") or at
                self.targets |= {at} if item.call.value("released") else set()
        mentions = tuple(self.known.mentions(self.goal))
        counts = Counter(mention.word for mention in mentions)
        numbered = {
            pair: f"{pair[0].word} {pair[1].word}"
            for pair in pairwise(mentions)
            if pair[1].kinds == {"number"} and not self.goal[pair[0].end : pair[1].begin].strip()
        }
        self._numbered = frozenset(numbered.values())  # such as mug 2: this one, and no other mug
        self._asked = frozenset(counts)
        self._goes = [skill for skill in self.household.skills if skill.effect.get("at") in skill.parameters]
        # whether a search can go anywhere, and whether ways lead to places of a map. Otherwise each way is a search
        self._searches = not self._goes or any(skill.does("at") for skill in self._goes)
        leads_to = [skill.parameters[skill.effect["at"]] for skill in self._goes if skill.does("at")]
        self._has_map = not self._searches or not all(isinstance(one, Thing) for one in leads_to)
        self._drives = [item.call for item in _flat(self.items) if isinstance(item, _Did) and item.call.value("at")]
        own = {mention for pair in numbered for mention in pair}
        self._mentions: Mapping[str, Mention] = {
            mention.word: mention
            for mention in mentions
            if counts[mention.word] == 1 and mention not in own and mention.word not in self.fixed
        }

    def _note_said(self, did: _Did) -> None:
        texts = [did.call.said[name] for name, one in did.call.skill.parameters.items() if isinstance(one, Text)]
        self._said |= {name for name, value in self._returned.items() if any(value in text for text in texts)}
        written = {name: str(value) for name, value in did.observation.data.items() if name in did.call.skill.returns}
        self._returned |= {name: value for name, value in written.items() if len(value) > 1}

    def routine(self, body: model.Node, run: str) -> model.Routine:
        goal, at = "", 0
        for mention in sorted(self._mentions.values(), key=lambda one: one.begin):
            if (role := self.roles.get(mention.word)) is not None:
                goal += f"{_escaped(self.goal[at : mention.begin])}{{{role.name}}}"
                at = mention.end
        roles = tuple(self.roles[word] for word in self._mentions if word in self.roles)
        goal += _escaped(self.goal[at:])
        origin = model.Origin(run=run, instruction=self.goal, household=self.household.name)
        return model.Routine(name=_named(goal, roles), goal=goal, roles=roles, body=body, origin=origin)

    def sequence(self, items: Sequence[_Item], *, last: bool = False) -> model.Node | None:
        made = list(self._nodes(items))
        if last:
            made += self._end()
        return model.Sequence(children=tuple(made)) if len(made) > 1 else made[0] if made else None

    def _nodes(self, items: Sequence[_Item]) -> Iterator[model.Node]:
        for item in items:
            if isinstance(item, _Under):
                yield from self._under(item)
                continue
            if isinstance(item, _Did):
                yield from self._did(item)
            self._seen.saw(item.observation if isinstance(item, _Did) else item)
            if self._has_map and not (self._at or self._comes_there):
                self._at = self._seen.of().at or self._seen.of().room
                yield from self._come_to_start()

    def _under(self, under: _Under) -> Iterator[model.Node]:
        flow, parts = under.flow, under.parts
        in_order = (node for _, part in parts for node in self._nodes(part))
        if flow.name == "sequence":
            yield from in_order
        elif flow.name == "fallback":
            yield from self._fallback(parts)
        elif flow.name == "parallel":
            each = (self.sequence(part) for succeeded, part in parts if succeeded)
            if made := tuple(one for one in each if one is not None):
                yield model.Parallel(children=made) if len(made) > 1 else made[0]
        elif isinstance(flow, RepeatUntilFlow):
            if made := tuple(in_order):
                yield model.RepeatUntil(condition=_escaped(flow.condition), children=made)
        elif isinstance(flow, WithinFlow):
            if made := tuple(in_order):
                yield model.Within(seconds=flow.seconds, children=made)
        else:
            raise NotLearnt(f"a routine has no '{flow}'")

    def _fallback(self, parts: Sequence[tuple[bool, tuple[_Item, ...]]]) -> Iterator[model.Node]:
        tried: list[model.Node | None] = []
        for succeeded, part in parts:
            if succeeded and not tried:
                yield from self._nodes(part)
            elif succeeded or self._tries(part):
                tried.append(self.sequence(part))
            else:
                yield from self._nodes(part)  # none, but where things are and what is open is known by it
        branches = tuple(one for one in tried if one is not None)
        if branches and tried[-1] is None:  # the last one only said that it was done all the same
            yield model.Decorator(does="succeed", child=branches[0])
        elif branches:
            yield model.Fallback(children=branches) if len(branches) > 1 else branches[0]

    @staticmethod
    def _tries(part: Sequence[_Item]) -> bool:
        skills = [item.call.skill for item in _flat(part) if isinstance(item, _Did)]
        return any(not (one.moves or (one.effect and {*one.effect} <= {"open", "closed"})) for one in skills)

    # ------------------------------------------------------------------ one skill

    def _did(self, did: _Did) -> Iterator[model.Node]:
        call = did.call
        if not did.done:
            return
        names = {name for _, _, name in call.named}  # not of a drawer of its own, which no search finds
        opened, closed = (call.value(state) if call.value(state) in names else "" for state in ("open", "closed"))
        if call.value("at"):
            self._at, self._comes_there = call.value("at"), False
            self._going.append(did)
        elif opened:
            self._opened_so_far[opened] = call
            self._going.append(did)
        elif closed and not self._has_map and not self._is_asked(closed):
            self._forget_open(call)
        else:
            yield from (self._done_there(did) if self._has_map else self._kept(did))

    def _done_there(self, did: _Did) -> Iterator[model.Node]:
        # Ways lead to places that a map names: they are kept, but for those that only looked for a thing.
        call = did.call
        wanted = self._wanted(call)
        if not wanted or "released" in call.skill.effect or self._is_asked(self._at):
            yield from self._gone()
            yield from self._come_back(call)
        for name in wanted:
            yield self._search(name)
            self._comes_there = False
        self._going.clear()
        yield self._skill(call)
        if call.skill.moves:
            self._at, self._comes_there = "", True

    def _wanted(self, call: SkillCall) -> list[str]:
        return [one for one in self._named(call) if self._searches and one not in self._held and one != self._at]

    def _come_to_start(self) -> Iterator[model.Node]:
        done = (item.call for item in _flat(self.items) if isinstance(item, _Did) and item.done)
        here = takewhile(lambda call: not (call.skill.moves or self._wanted(call)), done)
        if (call := next(filter(_is_of_its_place, here), None)) is not None:
            yield from self._come_back(call)

    def _come_back(self, call: SkillCall) -> Iterator[model.Node]:
        if self._at and self._goes and not self._comes_there and _is_of_its_place(call):
            yield self._skill(self._way_to(self._at, call))
            self._comes_there = True

    def _gone(self) -> Iterator[model.Node]:
        for did, then in zip_longest(self._going, self._going[1:]):
            if then is None or not then.call.value("at") or self._is_asked(did.call.value("at")):
                yield self._skill(did.call)
                self._comes_there = True
        self._going.clear()

    def _way_to(self, place: str, call: SkillCall) -> SkillCall:
        how = {one.skill.name: one.values for one in reversed(self._drives)}
        for skill in self._goes:
            usual = {name: one.default for name, one in skill.parameters.items() if one.default is not None}
            values: dict[str, Value] = {**usual, **how.get(skill.name, {}), skill.effect["at"]: place}
            if values.keys() == skill.parameters.keys():
                return skill.call(values)
        raise NotLearnt(f"it did '{call}' where it stood at the start, at {place}, and no skill says how it gets there")

    def _kept(self, did: _Did) -> Iterator[model.Node]:
        call = did.call
        wanted = [name for name in self._named(call) if name not in self._held]
        if not wanted or "released" in call.skill.effect:
            wanted += [self._at] if self._at else []
        opened = [did.call.value("open") for did in self._going]
        for name in dict.fromkeys([*(one for one in opened if one in self.targets), *wanted]):
            yield self._search(name)
            if (opening := self._opened_so_far.get(name)) is not None:
                yield self._skill(opening)
        self._going.clear()
        self._forget_open(call)
        yield self._skill(call)

    def _named(self, call: SkillCall) -> list[str]:
        found = Thing if self._has_map else Thing | Place | Room
        return [name for _, kind, name in call.named if isinstance(kind, found)]

    def _forget_open(self, closing: SkillCall) -> None:
        closed = closing.value("closed")
        self._opened_so_far.pop(closed, None)
        self._going = [one for one in self._going if one.call.value("open") != closed]

    def _end(self) -> Iterator[model.Node]:
        if self._has_map:
            yield from self._gone()
        for did in self._going:
            name = did.call.value("open") or did.call.value("at")
            is_last = did is self._going[-1] or did.call.value("open")
            if is_last and self._is_asked(name):
                yield self._search(name)
                if did.call.value("open"):
                    yield self._skill(did.call)

    def _word_of(self, name: str) -> str:
        return self.words.get(name) or word_of(name)

    def _is_asked(self, name: str) -> bool:
        return self._word_of(name) in self._asked

    def _search(self, name: str) -> model.Search:
        known = name in self.names
        seen = self._seen.there.get(name)
        finds = self._name(name)
        word = self._word_of(name)
        is_carried = name in self._held or "thing" in self.known.kinds_of(word)
        kind = "thing" if is_carried else "room" if name in self.rooms else "place"
        of = _escaped(name) if name in self._numbered else self._role_or_word(word, kind)
        where = () if seen is None or known else (seen.place or "", seen.room or "")
        order = tuple(dict.fromkeys(self._word_of(one) for one in where if one and one != name))
        return model.Search(finds=finds, of=of, order=order)

    def _skill(self, call: SkillCall) -> model.Skill:
        named = {
            one: f"{{{self._name(str(call.values[one]))}}}"
            if str(call.values[one]) in self.names
            else self._value(call, one)
            for one in call.values
        }
        pieces = string.Formatter().parse(call.skill.words.form_of(call.values))
        wording = "".join(_escaped(literal) + ("" if one is None else named[one]) for literal, one, _, _ in pieces)
        if held := call.value("held"):
            self._held.add(held)
        self._held.discard(call.value("released"))
        return model.Skill(wording=wording, returns={name: name for name in call.skill.returns if name in self._said})

    def _value(self, call: SkillCall, parameter: str) -> str:
        kind, value = call.skill.parameters[parameter], call.values[parameter]
        written = call.skill.words.written(parameter, value)
        if of := next((name for one, name in _ROLES.items() if isinstance(kind, one)), ""):
            return self._role_or_word(written, of)
        text = _escaped(written)
        for name in sorted(self._said) if isinstance(kind, Text) else ():
            text = text.replace(self._returned[name], f"{{{name}}}")
        return text

    def _role_or_word(self, word: str, kind: str) -> str:
        mention = self._mentions.get(word)
        if mention is None or kind not in mention.kinds:
            return _escaped(word)
        if word not in self.roles:
            alike = [one for one, said in self._mentions.items() if ("number" in said.kinds) is (kind == "number")]
            number = alike.index(word) + 1  # so that two runs of the same words have the same names
            self.roles[word] = model.Role(name=f"{kind}_{number}", kind=kind)  # type: ignore[arg-type]
        return f"{{{self.roles[word].name}}}"

    def _name(self, name: str) -> str:
        if name not in self.names:
            if len(self.names) >= _MOST_NAMES:
                raise NotLearnt(f"it handled more than {_MOST_NAMES} things")
            self.names[name] = f"found_{len(self.names) + 1}"
        return self.names[name]


def _is_of_its_place(call: SkillCall) -> bool:
    """Whether a skill may come to something else elsewhere: as it says, or as nobody says what it needs."""
    skill = call.skill
    says_where = any(isinstance(one.named, Place | Room) for one in skill.parameters.values())
    says = skill.requires or skill.effect or skill.uses or says_where or skill.name == WAIT
    needs = any(need.fact in ("at", "near") for need in skill.requires)
    return needs or not says or not {"held", "released", "gone"}.isdisjoint(skill.effect)


def _escaped(text: str) -> str:
    return re.sub(r"[{}]", lambda brace: brace[0] * 2, text)


def _named(goal: str, roles: Sequence[model.Role]) -> str:
    said = goal.format(**{role.name: role.kind for role in roles})
    return "-".join(re.findall(r"\w+", said.casefold()))[:70].strip("-") or "routine"
