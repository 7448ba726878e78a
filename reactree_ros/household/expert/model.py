"""The expert: a rule-based household policy that reads only a prompt's text, and makes one decision.

It decides in the paper's style (appendix G): the root thinks and expands into one subgoal per thing, that node into
finding and putting down, a search into rooms. If it may not expand, it pursues one goal after the other itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import filterfalse
from types import FunctionType, MappingProxyType

from reactree_ros.agent.corrections import NOTHING, CorrectionGrammar
from reactree_ros.agent.decision import DONE, FAILURE, RECALL
from reactree_ros.agent.grammar import DecisionGrammar, Grammar
from reactree_ros.agent.kinds.act import Act
from reactree_ros.agent.kinds.think import Ask, Think
from reactree_ros.agent.prompt import system_text
from reactree_ros.agent.subgoal_grammar import SubgoalGrammar
from reactree_ros.background.pending import Pending
from reactree_ros.household.expert import errand
from reactree_ros.household.expert.goals import Goal, Move, Operate, PutDown, Take, describe, preposition, read_subgoal
from reactree_ros.household.expert.instruction import clarify, understand
from reactree_ros.household.expert.reading import Situation, is_a, read_prompt, rooms_in, split_prompt, word_of
from reactree_ros.household.household import WAH_NL
from reactree_ros.household.vocabulary import (
    Naming,
    ObjectClass,
    bare,
    can_be_held,
    is_known,
    is_room,
    kind_of,
    meaning,
    means,
    own_classes,
    properties_of_word,
    with_own,
)
from reactree_ros.llm.port import DecisionRequest, FreeText, LanguageModel, Reply, RequestRejected
from reactree_ros.llm.spec import ModelSpec
from reactree_ros.plugins import Registry

DONE_SAID, FAILURE_SAID = str(Act(DONE)), str(Act(FAILURE))
_NO_HOUSEHOLD = str(
    Think("I do not understand this task: I only know households and their skills; name another language model.")
)


@dataclass(frozen=True)
class Decided:
    text: str
    understood: bool = True  # whether it follows from the task; else the expert says that it knows nothing to do


def consider(
    prompt: str,
    known: Mapping[str, Sequence[Goal]] | None = None,
    *,
    may_ask: bool = False,
    things: Sequence[str] = (),
    begin: Callable[[Situation], str] = lambda situation: "",
) -> Decided:
    """Return the next decision for a prompt, and whether the task was understood.

    Only the prompt's own last task, and the actions of the system text, matter.

    Args:
        may_ask: Whether a person may be asked now; answers in the prompt count anyway.
        things: The words of all that can be picked up in this house; empty: nobody says so.
        begin: Changes the knowledge about the house before the decision, or returns the decision.
    """
    system, lines = split_prompt(prompt)
    situation = read_prompt(system, lines)
    if situation is None:
        said = FAILURE_SAID if _NO_HOUSEHOLD in prompt else _NO_HOUSEHOLD
        return Decided(said, understood=False)
    if decision := begin(situation):
        return Decided(decision)
    instruction = understand(situation.task, known)
    if (may_ask or situation.answers) and not _is_known(situation.task, known):
        clarified = clarify(situation.task, situation.answers)
        if may_ask and clarified.question:
            return Decided(str(Ask(clarified.question)))
        instruction = clarified.instruction
    asked = [goal.thing for goal in instruction.goals if can_be_held(goal.thing)]
    lost = [one for one in asked if things and not any(means(bare(one), word) for word in things)]
    why = "" if instruction.goals else instruction.not_understood
    if lost:
        there = _listed([*things[:20], *(["more"] if len(things) > 20 else [])], "and")
        why = f"There is no {lost[0]} that I could find here: I can look for {there}."
    if lost or not instruction.goals:
        return Decided(after(why, FAILURE_SAID, situation.thoughts), understood=False)
    return Decided(_pursue(instruction.goals, situation))


def _is_known(task: str, known: Mapping[str, Sequence[Goal]] | None) -> bool:
    return bool(known and task in known) or bool(read_subgoal(task))


def _pursue(goals: Sequence[Goal], situation: Situation) -> str:
    """Expand, or work on the goals in this agent node.

    Several goals for one thing stay together, and so do more things of a kind than the hands can hold. Only one
    trajectory tells which of them are already in place.
    """
    situation.settle((goal.thing, goal.place) for goal in goals if isinstance(goal, Move | PutDown))
    if skill := errand.put_away(goals, situation):
        return str(Act(skill))
    if situation.fallen:
        return _go_on(goals, situation)
    if not situation.control_flows:
        return _work_through(goals, situation)
    if len({goal.thing for goal in goals}) > 1:
        return _share_out(goals, situation)
    return _pursue_one(goals, situation)


def _pursue_one(goals: Sequence[Goal], situation: Situation) -> str:
    goal = goals[0]
    if len(goals) == 1:
        if isinstance(goal, Move) and errand.can_be_held_at_once(goal, situation):
            return _find_then_put(goal, situation)
        if isinstance(goal, Take) and can_be_held(goal.thing) and not (goal.room or goal.closer):
            several = goal.count > 1 and not goal.another and not errand.achieved(goal, situation)
            return _expand("sequence", _one_by_one(goal), situation) if several else _search_rooms(goal, situation)
    return _work_through(goals, situation)


def _go_on(goals: Sequence[Goal], situation: Situation) -> str:
    """Continue after failed expansions: share out the remaining goals, or work on them in this agent node.

    After a search through all rooms there is nothing left to try.
    """
    reached = [goal for _, succeeded in situation.fallen for text in succeeded for goal in read_subgoal(text)]
    left = [goal for goal in goals if goal not in reached]
    flow, succeeded = situation.fallen[-1]
    if left and flow == "fallback":
        return after(_regret(left[0], situation), FAILURE_SAID, situation.thoughts)
    nearer = any(goal in goals for text in succeeded for goal in read_subgoal(text))
    if len({goal.thing for goal in left}) > 1 and nearer and situation.expansions == len(situation.fallen):
        return _share_out(left, replace(situation, control_flows=situation.expandable))
    return _work_through(left, situation)


# ---- expanding ----------------------------------------------------------------------------------------------------


def _share_out(goals: Sequence[Goal], situation: Situation) -> str:
    moves = [goal for goal in goals if isinstance(goal, Move)]
    others = [goal for goal in goals if not isinstance(goal, Move)]
    if moves and others:
        return _expand("sequence", [describe(moves), *map(str, others)], situation)
    by_thing: dict[str, list[Goal]] = {}
    for goal in goals:
        by_thing.setdefault(goal.thing, []).append(goal)
    ordered = any(isinstance(goal, Operate) for goal in goals)
    ordered = ordered or "parallel" not in situation.control_flows
    return _expand("sequence" if ordered else "parallel", list(map(describe, by_thing.values())), situation)


def _find_then_put(goal: Move, situation: Situation) -> str:
    door = (
        [Operate(action="open", thing=goal.place, room=goal.room)]
        if goal.count >= situation.hands and errand.opens(goal.place)
        else []
    )
    put = PutDown(thing=goal.thing, place=goal.place, room=goal.room, count=goal.count)
    return _expand("sequence", [*map(str, door), *_one_by_one(goal), str(put)], situation)


def _one_by_one(goal: Move | Take) -> list[str]:
    more = [Take(thing=goal.thing, count=count, another=True) for count in range(2, goal.count + 1)]
    return list(map(str, (Take(thing=goal.thing), *more)))


def _search_rooms(goal: Take, situation: Situation) -> str:
    """Go to the known place of a thing, or look for it in one room after the other.

    A thing found in one room is in the hands from the start in the next room.
    """
    if "fallback" not in situation.control_flows:
        return _work_through([goal], situation)
    if errand.achieved(goal, situation):
        return DONE_SAID
    skill = errand.take_known(goal.thing, situation)
    if skill is not None:
        return str(Act(skill))
    rooms = errand.rooms_for(goal.thing, situation.rooms)
    subgoals = [str(replace(goal, room=room)) for room in rooms]
    subgoals.append(str(replace(goal, closer=True)))
    thought = (
        f"Now, I need to find and pick up {goal.wanted} in one of the rooms. The {goal.thing} is more likely to "
        f"appear in {_listed(rooms, 'or')}. I can check each room one by one until I find and pick up {goal.wanted}."
    )
    return after(thought, expand("fallback", subgoals), situation.thoughts)


def _expand(control_flow: str, subgoals: Sequence[str], situation: Situation) -> str:
    if not situation.thoughts:
        return _plan(subgoals, "sequentially" if control_flow == "sequence" else "independently")
    return expand(control_flow, subgoals)


def _plan(subgoals: Sequence[str], how: str) -> str:
    plan = _listed(subgoals, "and")
    number = f"{len(subgoals)} subgoals {how}" if len(subgoals) > 1 else "1 subgoal"
    return str(Think(f"To solve the task, I need to accomplish {number}. {plan[:1].upper()}{plan[1:]}."))


# ---- acting -------------------------------------------------------------------------------------------------------


def _work_through(goals: Sequence[Goal], situation: Situation) -> str:
    if any(isinstance(goal, Move) for goal in goals) and not situation.thoughts:
        return _plan(list(map(str, goals)), "one after the other")
    given_up = []
    for goal in goals:
        if errand.achieved(goal, situation):
            continue
        skill = errand.next_skill(goal, situation)
        if skill is not None:
            return str(Act(skill))
        given_up.append(goal)
    if not given_up:
        return DONE_SAID
    return after(_regret(given_up[0], situation), FAILURE_SAID, situation.thoughts)


def _regret(goal: Goal, situation: Situation) -> str:
    held = any(is_a(instance, goal.thing) for instance in situation.held)
    if isinstance(goal, Operate):
        return f"I cannot {goal.action} the {goal.thing}.{_strange(goal.thing, situation)}"
    if not can_be_held(goal.thing):
        return f"The {goal.thing} is nothing that I can pick up."
    if held and not isinstance(goal, Take):
        where = f"{preposition(goal.place)} the {goal.place}"
        return f"I cannot put down the {goal.thing} {where}.{_strange(goal.place, situation)}"
    if len(situation.held) >= situation.hands:
        return f"I cannot pick up the {goal.thing}: I hold {' and '.join(situation.held)}."
    if isinstance(goal, PutDown):
        return f"I do not hold the {goal.thing}."
    where = f" in {goal.room}" if isinstance(goal, Take) and goal.room else ""
    return f"I cannot find the {goal.thing}{where}.{_strange(goal.thing, situation)}"


def _strange(word: str, situation: Situation) -> str:
    listed = (*situation.views.values(), *(names for _, names in situation.looks.values()))
    seen = {word_of(instance) for names in listed for instance in names}
    unknown, own = sorted(filterfalse(is_known, seen)), sorted(seen & {one.word for one in own_classes()})
    if word in seen or not (unknown or own):
        return ""
    if is_room(bare(word)):
        return f" The rooms are {_listed(situation.rooms, 'and')}."
    there = (
        f"and I do not know what is meant by {_listed(unknown, 'and')}" if unknown else f"only {_listed(own, 'and')}"
    )
    return f" I have seen no {word}, {there}."


def _listed(texts: Sequence[str], conjunction: str) -> str:
    *first, last = texts
    return f"{', '.join(first)}, {conjunction} {last}" if first else last


# ---- decisions in words -------------------------------------------------------------------------------------------


def expand(control_flow: str, subgoals: Iterable[str]) -> str:
    return f"Expand:\n- control flow: {control_flow}\n- subgoals: {', '.join(subgoals)}"


def after(thought: str, decision: str, thoughts: Collection[str]) -> str:
    """Return a decision if its thought has been said, otherwise the thought."""
    return decision if thought in thoughts else str(Think(thought))


#: Beginnings of a prompt without a system text.
_BARE = ("Target_domain:", "Source domain:")
#: What else the expert answers than agent nodes in a household of rooms: functions of a request, its prompt in the
#: vocabulary's words, and known goals; they return nothing for a prompt that is not theirs.
OTHERS: Registry[Callable[[DecisionRequest, str, Mapping[str, Sequence[Goal]]], str]] = Registry(
    "expert", "reactree_ros.experts", FunctionType, first=()
)


class ExpertModel(LanguageModel):
    """A deterministic rule-based household policy; it is not a language model.

    It reads the prompt of a request. If that has no system text, the request says what is allowed. ``goals`` are
    those of instructions that are known as data; ``names`` those of classes that are not the vocabulary's words.
    """

    def __init__(
        self,
        goals: Mapping[str, Sequence[Goal]] = MappingProxyType({}),
        names: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._naming, self._others = Naming(names), tuple(OTHERS)
        self._goals = {self._naming.with_words(instruction): one for instruction, one in goals.items()}

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        begin = time.perf_counter()
        try:
            decided = self.consider(request)
        except RequestRejected as error:
            return Pending.failed(error)
        return Pending.ready(Reply(decided.text, seconds=time.perf_counter() - begin))

    def consider(self, request: DecisionRequest) -> Decided:
        """Return the decision, and whether the expert knows the task's goals.

        Raises:
            RequestRejected: The request asks for reasoning or code.
        """
        may_say = request.may_say
        if isinstance(may_say, CorrectionGrammar):  # it knows no words but the statements'
            return Decided(f"Act: {NOTHING}")
        if isinstance(may_say, FreeText) and may_say.thinks:
            raise RequestRejected("the expert decides, it does not write code; name another --llm")
        prompt = self._naming.with_words(_with_abilities(request))
        may_ask = isinstance(may_say, DecisionGrammar) and bool(may_say.questions)
        with with_own(own_classes_of(request, self._naming)):
            for answer in self._others:
                if said := answer(request, prompt, self._goals):
                    return Decided(self._naming.with_names(said))
            things, begin = tuple(map(self._naming.with_words, request.things)), partial(self.begin, request)
            decided = consider(prompt, self._goals, may_ask=may_ask, things=things, begin=begin)
        return replace(decided, text=self._naming.with_names(decided.text))

    def begin(self, request: DecisionRequest, situation: Situation) -> str:
        """Change the knowledge about the house before a decision, or return the decision; for subclasses."""
        return ""


def _with_abilities(request: DecisionRequest) -> str:
    prompt, may_say = request.prompt, request.may_say
    if not isinstance(may_say, DecisionGrammar | SubgoalGrammar) or not prompt.startswith(_BARE):
        return prompt
    flows = may_say.control_flows if isinstance(may_say, DecisionGrammar) else ()
    recall = any(skill.startswith(RECALL) for skill in may_say.skills)
    return f"{system_text(WAH_NL, control_flows=flows, recall=recall)}\nSource domain:\n{prompt}"


SPEC = ModelSpec(
    name="expert",
    summary="rules, no language model",
    make=lambda settings: ExpertModel(),
    examples=False,
)


_PLACE = frozenset({"SURFACES"})
_VERBS = {"go to ": frozenset[str](), "open ": frozenset({"CAN_OPEN"}), "turn on ": frozenset({"HAS_SWITCH"})}


def own_classes_of(request: DecisionRequest, naming: Naming) -> tuple[ObjectClass, ...]:
    named: dict[str, frozenset[str]] = {}
    for word, properties in _named(request):  # most words come several times
        named[word] = named.get(word, frozenset()) | properties
    found: dict[str, frozenset[str]] = {}
    for word, properties in named.items():
        if not is_known(word := naming.with_words(word)):
            found[word] = found.get(word, frozenset()) | properties
    rooms = {word_of(room) for room in rooms_in(request.prompt)} if found else set[str]()
    return tuple(_class(word, properties, is_room=word in rooms) for word, properties in sorted(found.items()))


def _named(request: DecisionRequest) -> Iterator[tuple[str, frozenset[str]]]:
    yield from ((word, frozenset({"GRABBABLE"})) for word in request.things)
    yield from ((word, frozenset[str]()) for word in request.words)
    for skill in request.may_say.skills if isinstance(request.may_say, Grammar) else ():
        if skill.startswith(RECALL):
            yield skill.removeprefix(RECALL), frozenset({"GRABBABLE"})
        for verb, properties in _VERBS.items():
            if skill.startswith(verb):
                yield word_of(skill.removeprefix(verb)), properties


def _class(word: str, properties: frozenset[str], *, is_room: bool) -> ObjectClass:
    if "GRABBABLE" not in properties and not is_room:
        by_kind = properties_of_word(meaning(kind_of(word)))  # whether it opens, the skills say
        inside = "SURFACES" not in by_kind and ("CONTAINERS" in by_kind or "CAN_OPEN" in properties)
        properties |= properties_of_word(meaning(word)) - {"GRABBABLE"} or ({"CONTAINERS"} if inside else _PLACE)
    return ObjectClass(
        name=word.replace(" ", "").lower(),
        word=word,
        category="Rooms" if is_room else "Placable",
        properties=properties,
        observed=True,
        room_item="GRABBABLE" not in properties and not is_room,
    )
