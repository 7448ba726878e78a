"""A problem in PDDL, simulated by unified-planning: its facts, its available skills and their effects.

unified-planning has one environment per process, which is not thread-safe: one thread at a time uses it.
"""

from __future__ import annotations

import logging
import random
import re
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from itertools import permutations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from pydantic import Field

from reactree_ros.agent.text import check_template
from reactree_ros.errors import UserError
from reactree_ros.files.read_back import read_yaml, text_of
from reactree_ros.plugins.settings import Settings, read_settings

_log = logging.getLogger(__name__)
#: Folder of the shipped domains, one subfolder each.
DOMAINS = Path(__file__).parent / "domains"
#: The files of a domain's folder.
DOMAIN, WORDING = "domain.pddl", "wording.yaml"


class Wording(Settings):
    """The words of a domain; a name without words is written in PDDL's form: ``on b1 b2``."""

    facts: dict[str, tuple[str, str]] = Field(
        default_factory=dict, description="words of each fact when it holds and when it does not, with {0}, {1}, …"
    )
    skills: dict[str, str] = Field(
        default_factory=dict,
        description="words of each action as a skill; arguments that the state determines may be missing",
    )

    def fact(self, fact: Fact, *, holds: bool = True) -> str:
        name, *arguments = fact
        if name in self.facts:
            return _filled(self.facts[name][not holds], name, arguments)
        return f"{'' if holds else 'not '}{' '.join(fact)}"

    def skill(self, action: str, arguments: Sequence[str]) -> str:
        if action in self.skills:
            return _filled(self.skills[action], action, arguments)
        return " ".join([action, *arguments])

    def listed(self, facts: Iterable[Fact], *, holds: bool = True) -> list[str]:
        """Word several facts, without those that are never mentioned."""
        return [said for fact in facts if (said := self.fact(fact, holds=holds))]


def _filled(template: str, name: str, arguments: Sequence[str]) -> str:
    try:
        return check_template(template, [str(number) for number in range(len(arguments))]).format(*arguments)
    except (IndexError, KeyError, ValueError) as error:
        raise UserError(f"the words '{template}' for {name} do not fit its {len(arguments)} arguments") from error


@cache
def wording_of(folder: Path) -> Wording:
    """Read the words of a domain; without a file it has none."""
    path = folder / WORDING
    if not path.exists():
        return Wording()
    # All are texts: in YAML, the predicate `on` would be a truth value.
    values = read_yaml(path, yaml.BaseLoader)[0]
    return read_settings(Wording, values, where=str(path))


if TYPE_CHECKING:
    from unified_planning import model

_ONE_AT_A_TIME = threading.RLock()
#: An action and its arguments.
_Action = tuple[Any, tuple[Any, ...]]


def read_problem(domain: Path, problem: Problem | Path) -> model.Problem:
    """Read a domain, and one of its problems or a problem's file."""
    from unified_planning.io import PDDLReader
    from unified_planning.shortcuts import InstantaneousAction, get_environment

    with _ONE_AT_A_TIME, _faults_named(domain, problem):
        get_environment().credits_stream = None
        get_environment().error_used_name = False  # in PDDL, an action and a predicate may have one name
        if isinstance(problem, Problem):
            read = _shipped(domain).clone()
            _fill(read, problem)
        else:
            text = _fitting(_shipped(domain), problem)
            read = PDDLReader().parse_problem_string(text_of(domain), text)
    odd = [fluent.name for fluent in read.fluents if not fluent.type.is_bool_type()]
    odd += [action.name for action in read.actions if not isinstance(action, InstantaneousAction)]
    if odd:
        raise UserError(f"{domain}: {odd[0]} has time or numbers; only true or false facts are simulated")
    where = domain if isinstance(problem, Problem) else problem
    wanted = _parts(read.goals)
    if not wanted:
        raise UserError(f"{where}: has no goal; name facts as its :goal")
    if more := [one for one in wanted if not one.is_fluent_exp()]:
        raise UserError(f"{where}: its goal {more[0]} is more than plain facts; name only facts as its :goal")
    return read


def _fitting(domain: model.Problem, problem: Path) -> str:
    """Read a problem, without the facts of its start about things of types that their predicate does not take.

    No action can ask for such a fact, so nothing changes; each is named in the log.
    """
    text = re.sub(r";[^\n]*", "", text_of(problem))
    kinds = {one.name: one.type for one in domain.all_objects}
    names, words = list[str](), iter(re.split(r"[\s()]+", _section(text, ":objects")))
    for word in words:
        if word != "-":
            names.append(word)
            continue
        if domain.has_type(kind := next(words, "")):
            kinds |= dict.fromkeys(names, domain.user_type(kind))
        names = []
    start = _section(text, ":init")
    fitting = start
    for fact in re.findall(r"(?<!\(not )\([^():]+\)", start):
        name, *things = fact[1:-1].split() or [""]
        taken = [one.type for one in domain.fluent(name).signature] if domain.has_fluent(name) else []
        if len(taken) == len(things) <= len([one for one in things if one in kinds]) and not all(
            wanted in kinds[one].ancestors for one, wanted in zip(things, taken, strict=True)
        ):
            _log.warning("%s: %s is left out: its predicate takes no things of these types", problem, fact)
            fitting = fitting.replace(fact, " " * len(fact))
    return text.replace(start, fitting)


def _section(text: str, name: str) -> str:
    """Return a part of a file from its parenthesis to the closing one; empty if it has none."""
    at = re.search(rf"\(\s*{name}\b", text)
    deep = 0
    for mark in re.finditer(r"[()]", text[at.start() :]) if at else ():
        deep += 1 if mark[0] == "(" else -1
        if at and not deep:
            return text[at.start() : at.start() + mark.end()]
    return ""


@contextmanager
def _faults_named(domain: Path, problem: Problem | Path) -> Iterator[None]:
    from unified_planning.io import PDDLReader

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of one name for an action and a predicate
        try:
            yield
        except UserError:
            raise
        except Exception as error:
            where = domain
            if isinstance(problem, Path):
                with suppress(Exception):
                    PDDLReader().parse_problem(str(domain))
                    where = problem
            said = re.sub(r"^UP\w+\((['\"])(.*)\1\)", r"\2", " ".join(str(error).split()))
            line = re.search(r"\bline:? ?(\d+)", said)
            if isinstance(error, KeyError):
                said = f"nothing is called {said}"
            elif isinstance(error, ArithmeticError | AttributeError | LookupError | TypeError | ValueError):
                said = f"{type(error).__name__}: {said}"
            raise UserError(f"{where}{f':{line[1]}' if line else ''}: {said}") from error


def _grounder(problem: model.Problem) -> Any:
    """Return unified-planning's; in version 1.3 that fails for an object against which two static conditions are."""
    from unified_planning.engines.compilers.grounder import GrounderHelper

    class OneAfterTheOther(GrounderHelper):  # type: ignore[misc]
        def _purge_items_list(self, items_list: Any, params: Any, conds: Any) -> Any:
            for cond in conds:
                items_list = super()._purge_items_list(items_list, params, [cond])
            return items_list

    return OneAfterTheOther(problem)


@cache
def _shipped(domain: Path) -> model.Problem:
    """Read a domain once: this takes most of a small problem's time."""
    from unified_planning.io import PDDLReader

    return PDDLReader().parse_problem(str(domain))


def _parts(conditions: Iterable[Any]) -> list[Any]:
    return [part for one in conditions for part in (_parts(one.args) if one.is_and() else [one])]


def _fill(read: model.Problem, problem: Problem) -> None:
    for name, kind in problem.objects.items():
        read.add_object(name, read.user_type(kind))
    for fact in problem.start:
        read.set_initial_value(_expression(read, fact), True)
    for fact in problem.goal:
        read.add_goal(_expression(read, fact))


def _expression(read: model.Problem, fact: Fact) -> Any:
    name, *arguments = fact
    return read.fluent(name)(*map(read.object, arguments))


class PddlSimulator:
    def __init__(self, domain: Path, problem: Problem | Path, wording: Wording) -> None:
        from unified_planning.shortcuts import SequentialSimulator

        self._wording = wording
        self._problem = read = read_problem(domain, problem)
        with _ONE_AT_A_TIME, _faults_named(domain, problem):
            self._simulator = SequentialSimulator(read)
            self._facts = [expression for expression in read.initial_values if expression.is_fluent_exp()]
            self.goal = tuple(map(_fact, _parts(read.goals)))
            self._grounded = [
                (wording.skill(action.name, list(map(str, arguments))), action, arguments)
                for action, arguments, possible in _grounder(read).get_grounded_actions()
                if possible is not None
            ]
        self._actions: dict[str, list[_Action]] = {}  # several if the state determines which of them is meant
        for skill, action, arguments in self._grounded:
            self._actions.setdefault(skill, []).append((action, arguments))
        self.reset()

    def rules(self) -> str:
        """Describe each action's conditions and effects, with ``<block 1>`` in place of a block.

        Conditions that are not plain facts and conditional effects are left out.
        """
        with _ONE_AT_A_TIME:
            return "\n".join(
                ["What can be done, what it needs, and what holds then:", *map(self._rule, self._problem.actions)]
            )

    def verbs(self) -> tuple[str, ...]:
        """Return the beginnings of skills, each once, in the order of the domain."""
        with _ONE_AT_A_TIME:
            return tuple(dict.fromkeys(self._skill(one).partition(" <")[0] for one in self._problem.actions))

    def _skill(self, action: Any) -> str:
        return self._wording.skill(action.name, list(_placeholders(action).values()))

    def _rule(self, action: Any) -> str:
        names = _placeholders(action)

        def worded(fact: Fact, *, holds: bool) -> str:
            return self._wording.fact((fact[0], *(names.get(one, one) for one in fact[1:])), holds=holds)

        plain = map(_literal, filter(_is_plain, _parts(action.preconditions)))
        needs = [worded(fact, holds=holds) for fact, holds in plain]
        effects = [one for one in action.effects if not one.is_conditional()]
        then = [worded(_fact(one.fluent), holds=one.value.is_true()) for one in effects]
        return f"- {self._skill(action)}: needs {_joined(needs)}; then {_joined(then)}."

    def reset(self) -> None:
        with _ONE_AT_A_TIME:
            self._state = self._simulator.get_initial_state()

    def facts(self) -> list[Fact]:
        with _ONE_AT_A_TIME:
            return [_fact(one) for one in self._facts if self._state.get_value(one).bool_constant_value()]

    def skills(self) -> list[str]:
        with _ONE_AT_A_TIME:
            applicable = self._simulator.is_applicable
            return list(dict.fromkeys(said for said, *action in self._grounded if applicable(self._state, *action)))

    def knows(self, skill: str) -> bool:
        return skill in self._actions

    def objections(self, skill: str) -> Sequence[tuple[Fact, bool]]:
        """Return the facts that prevent a skill, with whether they hold.

        If several actions have this skill, those of the nearest one count.
        """
        with _ONE_AT_A_TIME:
            of_each = []
            for action, arguments in self._actions[skill]:
                unmet = self._simulator.get_unsatisfied_conditions(
                    self._state, action, arguments, early_termination=False, full_check=False
                )[0]
                of_each.append(_parts(unmet))
            nearest = min(of_each, key=len)
            return [(fact, not wanted) for fact, wanted in map(_literal, nearest)]

    def carry_out(self, skill: str) -> bool:
        with _ONE_AT_A_TIME:
            for action, arguments in self._actions[skill]:
                if (after := self._simulator.apply(self._state, action, arguments)) is not None:
                    self._state = after
                    return True
        return False


def _fact(expression: Any) -> Fact:
    return (expression.fluent().name, *map(str, expression.args))


def _literal(condition: Any) -> tuple[Fact, bool]:
    negated = condition.is_not()
    return _fact(condition.arg(0) if negated else condition), not negated


def _placeholders(action: Any) -> dict[str, str]:
    """Return a placeholder for each parameter of an action: ``<block>``, or ``<block 1>`` if it has several blocks."""
    kinds = [one.type.name for one in action.parameters]
    return {
        one.name: f"<{kind} {kinds[: at + 1].count(kind)}>" if kinds.count(kind) > 1 else f"<{kind}>"
        for at, (one, kind) in enumerate(zip(action.parameters, kinds, strict=True))
    }


def _is_plain(condition: Any) -> bool:
    return bool((condition.arg(0) if condition.is_not() else condition).is_fluent_exp())


def _joined(facts: Iterable[str]) -> str:
    return ", ".join(filter(None, facts)) or "nothing"


#: A fact: a predicate and its arguments.
Fact = tuple[str, ...]


@dataclass(frozen=True)
class Problem:
    objects: Mapping[str, str]  # the type of each object by its name
    start: tuple[Fact, ...]  # the facts that hold at the start; all others do not
    goal: tuple[Fact, ...]  # the facts of the goal


def blocksworld(seed: int) -> Problem:
    """Four to eight blocks in towers; the goal is other towers."""
    drawn = random.Random(f"blocksworld {seed}")
    blocks = [f"b{number}" for number in range(1, drawn.randint(4, 8) + 1)]
    start = _towers(drawn, blocks)
    wanted: list[Fact] = []
    while not set(wanted) - set(start):
        wanted = [fact for fact in _towers(drawn, blocks) if fact[0] == "on"]
    return Problem(dict.fromkeys(blocks, "block"), (*start, ("hand-empty",)), tuple(wanted))


def _towers(drawn: random.Random, blocks: list[str]) -> tuple[Fact, ...]:
    facts: list[Fact] = []
    below = ""
    for block in drawn.sample(blocks, len(blocks)):
        if below and drawn.random() < 0.6:
            facts.append(("on", block, below))
        else:
            facts += [("clear", below)] if below else []
            facts.append(("on-table", block))
        below = block
    return (*facts, ("clear", below))


def gripper(seed: int) -> Problem:
    """Four to eight balls in two to four rooms, and a robot with two grippers; the goal moves most balls."""
    drawn = random.Random(f"gripper {seed}")
    rooms = [f"room{number}" for number in range(1, drawn.randint(2, 4) + 1)]
    balls = [f"ball{number}" for number in range(1, drawn.randint(4, 8) + 1)]
    grippers = ("left", "right")
    at = {ball: drawn.choice(rooms) for ball in balls}
    wanted = drawn.sample(balls, drawn.randint(3, len(balls)))
    goal = {ball: drawn.choice(rooms) for ball in wanted}
    goal[wanted[0]] = drawn.choice([room for room in rooms if room != at[wanted[0]]])
    start: list[Fact] = [("door", *pair) for pair in permutations(rooms, 2)]
    start += [
        ("robot-in", drawn.choice(rooms)),
        *(("in", *one) for one in at.items()),
        *(("free", one) for one in grippers),
    ]
    objects = {**dict.fromkeys(rooms, "room"), **dict.fromkeys(balls, "ball"), **dict.fromkeys(grippers, "gripper")}
    return Problem(objects, tuple(start), tuple(("in", ball, goal[ball]) for ball in balls if ball in goal))


def tyreworld(seed: int) -> Problem:
    """One to three hubs with flat wheels; the goal mounts the spare ones, and often tidies up the boot."""
    drawn = random.Random(f"tyreworld {seed}")
    numbers = range(1, drawn.randint(1, 3) + 1)
    objects = {"boot": "container"}
    tools = ("wrench", "jack", "pump")
    start: list[Fact] = [("closed", "boot"), *(("in", tool, "boot") for tool in tools)]
    goal: list[Fact] = []
    for number in numbers:
        hub, nuts, old, spare = f"hub{number}", f"nuts{number}", f"wheel{number}", f"spare{number}"
        objects |= {hub: "hub", nuts: "nuts", old: "wheel", spare: "wheel"}
        start += [("on-ground", hub), ("fastened", hub), ("tight", nuts, hub), ("on", old, hub), ("flat", old)]
        start += [("in", spare, "boot"), ("intact", spare), ("flat", spare)]
        goal += [("on", spare, hub)]
        goal += drawn.sample([("tight", nuts, hub), ("inflated", spare), ("in", old, "boot")], drawn.randint(1, 3))
    if drawn.random() < 0.5:
        goal += [*(("in", tool, "boot") for tool in tools), ("closed", "boot")]
    return Problem(objects, tuple(start), tuple(goal))


def barman(seed: int) -> Problem:
    """One to three drinks, with cocktails among them; the goal has each in its own shot glass."""
    drawn = random.Random(f"barman {seed}")
    drinks = drawn.randint(1, 3)
    ingredients = [f"ingredient{number}" for number in range(1, drawn.randint(2, 3) + 1)]
    cocktails = [f"cocktail{number}" for number in range(1, drawn.randint(1, 2) + 1)]
    shots = [f"shot{number}" for number in range(1, drinks + 2)]
    levels = ("level0", "level1", "level2")
    start: list[Fact] = [("none", levels[0]), ("next", *levels[:2]), ("next", *levels[1:])]
    start += [("hand-empty", "left"), ("hand-empty", "right")]
    start += [(fact, one) for one in (*shots, "shaker1") for fact in ("on-table", "clean", "empty")]
    start += [("level-of", "shaker1", levels[0])]
    start += [("dispenses", f"dispenser{number}", one) for number, one in enumerate(ingredients, 1)]
    for cocktail in cocktails:
        first, second = drawn.sample(ingredients, 2)
        start += [("first-part", cocktail, first), ("second-part", cocktail, second)]
    objects = {
        **dict.fromkeys(("left", "right"), "hand"),
        **dict.fromkeys(levels, "level"),
        **dict.fromkeys(ingredients, "ingredient"),
        **dict.fromkeys(cocktails, "cocktail"),
        **dict.fromkeys(shots, "shot"),
        "shaker1": "shaker",
        **dict.fromkeys((f"dispenser{number}" for number, _ in enumerate(ingredients, 1)), "dispenser"),
    }
    wanted = [drawn.choice(cocktails), *(drawn.choice((*ingredients, *cocktails)) for _ in range(drinks - 1))]
    goal = [("contains", f"shot{number}", drink) for number, drink in enumerate(wanted, 1)]
    return Problem(objects, tuple(start), tuple(goal))


#: Maker of a problem from a seed, by shipped domain.
MAKERS: Mapping[str, Callable[[int], Problem]] = {
    "blocksworld": blocksworld,
    "gripper": gripper,
    "tyreworld": tyreworld,
    "barman": barman,
}
