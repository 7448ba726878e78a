"""The household: what a world's skills, wording, naming and limits are, as one value that the world owns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property

from reactree_ros.agent.control_flow import default_flows
from reactree_ros.agent.parameters import ParameterError, Value
from reactree_ros.agent.skill import CHANGES, Offer, Skill, SkillCall, read_skill
from reactree_ros.agent.text import check_template, nearest_first
from reactree_ros.plugins.settings import did_you_mean

_ENDS = ("- done: say so when your task is done, and not before.", "- failure: say so when it cannot be done.")
#: Skills that a prompt describes at most.
MOST_DESCRIBED = 40
#: How the starting observation of an agent node begins in the recordings.
START_LINE = "You are in the house"
#: How a thing is called by default.
NAMING = "{word} {instance}"


@dataclass(frozen=True, kw_only=True)
class Household:
    """What a planner has to know of a world before it decides anything in it.

    Prompts and planners ask this value where one world differs from another; nothing asks which world it is.

    Attributes:
        actions: The verbs of its skills, in the order in which the system text lists them; those of the declared skills
            by default.
        control_flows: What an expansion may use, by name, each with the words in which the system text explains it.
        naming: What one thing is called, with ``{word}`` and ``{instance}``: ``juice 1``, in ALFRED ``Juice (1)``.
            Empty if things have names of their own, and skills name several of them, or none.
        rules: What every planner is told of the skills beside their verbs: what each needs and what comes of it. Empty
            where the verbs say enough.
        free_skills: Whether skills may be said that the world does not list; the world says which of them it does not
            know.
        skills: Its skills, where they are declared; without, they are texts that begin with one of the actions.
    """

    name: str  # its name, e.g. ``wah_nl``
    actions: tuple[str, ...] = ()
    control_flows: Mapping[str, str] = field(default_factory=lambda: {flow.name: flow.text for flow in default_flows()})
    naming: str = NAMING
    rules: str = ""
    free_skills: bool = False
    start_line: str = START_LINE  # how the starting observation of an agent node begins
    max_decisions: int = 200  # decisions allowed by default (paper, section 5.1)
    max_steps: int = 200  # steps allowed by default
    prompts: str = ""  # where its prompts and fixed examples are, as ``package:folder``; empty: it has none
    skills: tuple[Skill, ...] = field(default=(), compare=False)
    hands: int = 0  # how many things a robot can hold; 0: nobody says so
    solid: tuple[str, ...] = ()  # words of what opens and takes nothing in: a closed one is in the way of no put down

    def __post_init__(self) -> None:
        check_template(self.naming, ("word", "instance"))
        if not self.actions:
            object.__setattr__(self, "actions", tuple(dict.fromkeys(skill.verb for skill in self.skills)))

    @property
    def listed(self) -> Sequence[str]:
        if not self.skills:
            return self.actions
        return tuple(dict.fromkeys((*self.texts, *(skill.listed for skill in self.skills))))

    @property
    def texts(self) -> Sequence[str]:
        declared = {skill.verb for skill in self.skills}
        return tuple(verb for verb in self.actions if verb not in declared)

    def says_text(self, skill: str) -> bool:
        """Return whether a skill is none of the declared ones, but may be a text of the world's."""
        texts = self.texts
        known = skill in texts or bool(texts and split_skill(skill, self.actions)[0] in texts)
        return not isinstance(skill, SkillCall) and (known or self.free_skills)

    def with_skills(self, skills: Iterable[Skill]) -> Household:
        added = tuple(skills)
        verbs = tuple(dict.fromkeys((*self.actions, *(skill.verb for skill in added))))
        return replace(self, skills=(*self.skills, *added), actions=verbs)

    @cached_property
    def resources(self) -> frozenset[str]:
        """What of the robot its skills name as used, e.g. ``base`` and ``voice``; empty: none names anything."""
        return frozenset(name for skill in self.skills for name in skill.uses)

    def uses(self, skill: str) -> frozenset[str]:
        """Return what of the robot a skill takes: what it names, else all, for which the empty name stands, too.

        It also takes the resources of each skill that changes what it requires: nobody drives away while it loads.
        """
        with suppress(ParameterError):
            return self._uses[self.call(skill).skill.name]
        return self.resources | {""}

    @cached_property
    def _uses(self) -> Mapping[str, frozenset[str]]:
        by_fact = defaultdict[str, set[str]](set)  # what those use that change it
        for skill in self.skills:
            for fact in (fact for effect in skill.effect for fact in CHANGES.get(effect, ())):
                by_fact[fact] |= skill.uses
        needed = {one.name: {name for need in one.requires for name in by_fact[need.fact]} for one in self.skills}
        return {one.name: one.uses | needed[one.name] if one.uses else self.resources | {""} for one in self.skills}

    def skills_text(self, goal: str) -> str:
        """What skills are for, need and bring back, and the ends, for models that were trained for no planner.

        Of more than :data:`MOST_DESCRIBED`, those with the most words of the goal.
        """
        each = [f"- {one.wording}: {one.purpose}" for one in self.skills if one.description]
        if left := len(each[MOST_DESCRIBED:]):
            each = [*nearest_first(each, goal)[:MOST_DESCRIBED], f"- and {left} more skills, by their names alone."]
        return "\n".join(("What can be done:", *each, *_ENDS)) if each else ""

    @property
    def rules_text(self) -> str:
        return "\n".join(filter(None, (self.rules, *(skill.places for skill in self.skills))))

    def only(self, may_be_done: Callable[[str], bool]) -> Household:
        skills = tuple(one for one in self.skills if may_be_done(one.verb) or may_be_done(one.name))
        kept = {*(one.verb for one in skills), *filter(may_be_done, self.texts)}
        return replace(self, skills=skills, actions=tuple(verb for verb in self.actions if verb in kept))

    def call(self, said: str) -> SkillCall:
        """Return the declared skill that a text says in just its own words; names may be any. Raises ParameterError."""
        if isinstance(said, SkillCall) and said.skill in self.skills:
            call = said.skill.read(said.values)  # whoever made it may have put anything there
        else:
            call = read_skill(said, self.skills)
        if call != said:
            raise ParameterError("say one skill in one line" if "\n" in said else f"write it as '{call}'")
        return call

    def say(self, skill: str, values: Mapping[str, Value]) -> str:
        """Return a skill with its values, as it is carried out. Raises ParameterError."""
        named = [one for one in self.skills if Offer(one).is_called(skill)]
        if named and (values or not named[0].parameters):
            return next((one for one in named if one.parameters.keys() == values.keys()), named[0]).read(values)
        if self.skills and not values and not self.says_text(skill):
            return self.call(skill)
        if self.skills and (values or not self.says_text(skill)):
            raise ParameterError(f"there is no such skill; {did_you_mean(skill, [one.name for one in self.skills])}")
        if values:
            raise ParameterError("the skills of this world are texts; give it in whole, such as 'pick up juice 1'")
        if not self.free_skills and skill not in self.actions and not self.split_skill(skill)[0]:
            raise ParameterError(f"there is no such skill; one starts with {', '.join(self.actions)}")
        return skill

    def name_of(self, word: str, instance: int) -> str:
        return named(word, instance, self.naming or "{word}{instance}")

    def waits(self, skill: str) -> bool:
        """Whether a skill only lets time pass, such as ``wait`` or ``wait for 5 s``, so that it may come many times."""
        skill = skill.casefold()
        waiting = [action for action in self.actions if action.startswith("wait")]
        return any(skill == action or skill.startswith(f"{action} ") for action in waiting)

    def split_skill(self, skill: str) -> tuple[str, str]:
        return split_skill(skill, self.actions)


def named(word: str, instance: int, naming: str = NAMING) -> str:
    """Return what one thing is called; instance 0: its word is its own name, such as ``office 2B``."""
    return naming.format(word=word, instance=instance) if instance else word


def split_skill(skill: str, actions: Iterable[str]) -> tuple[str, str]:
    """Split a skill into its verb, empty if it begins with none of these, and what it is done to.

    ``pick up juice 1`` is split into ``pick up`` and ``juice 1``, ``click[buy now]`` into ``click`` and ``buy now``.
    """
    verb = max((action for action in actions if skill.startswith((f"{action} ", f"{action}["))), key=len, default="")
    if not verb:
        return "", skill
    rest = skill[len(verb) :]
    return verb, rest[1:-1] if rest[0] == "[" and rest[-1] == "]" else rest[1:]
