"""A problem in PDDL, simulated by unified-planning: its facts, its available skills and their effects.

unified-planning has one environment per process, which is not thread-safe: one thread at a time uses it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reactree_ros.errors import UserError
from reactree_ros.lab.worlds.pddl.domain import Wording
from reactree_ros.lab.worlds.pddl.problems import Fact, Problem

if TYPE_CHECKING:
    from unified_planning import model

_ONE_AT_A_TIME = threading.RLock()
#: An action and its arguments.
_Action = tuple[Any, tuple[Any, ...]]


def read_problem(domain: Path, problem: Problem | Path) -> model.Problem:
    """Read a domain, and one of its problems or a problem's file."""
    from unified_planning.io import PDDLReader
    from unified_planning.shortcuts import InstantaneousAction, get_environment

    where = str(domain) if isinstance(problem, Problem) else f"{domain} with {problem}"
    with _ONE_AT_A_TIME:
        get_environment().credits_stream = None
        try:
            if isinstance(problem, Problem):
                read = _shipped(domain).clone()
                _fill(read, problem)
            else:
                read = PDDLReader().parse_problem(str(domain), str(problem))
        except Exception as error:  # a parser may raise anything for a user's file
            raise UserError(f"{where}: {' '.join(str(error).split()) or type(error).__name__}") from error
    numbers = any(not fluent.type.is_bool_type() for fluent in read.fluents)
    if numbers or not all(isinstance(action, InstantaneousAction) for action in read.actions):
        raise UserError(f"{where}: has time or numbers; only true or false facts are simulated")
    wanted = _parts(read.goals)
    if not wanted:
        raise UserError(f"{where}: has no goal; name facts as its :goal")
    if not all(one.is_fluent_exp() for one in wanted):
        raise UserError(f"{where}: its goal has more than plain facts; name only facts as its :goal")
    return read


@cache
def _shipped(domain: Path) -> model.Problem:
    """Read a domain once: this takes most of a small problem's time."""
    from unified_planning.io import PDDLReader

    return PDDLReader().parse_problem(str(domain))


def _parts(conditions: Iterable[Any]) -> list[Any]:
    """Split a conjunction of conditions."""
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
    """Carries out actions, which are named in words.

    Attributes:
        goal: The facts of the goal.
    """

    def __init__(self, problem: model.Problem, wording: Wording) -> None:
        from unified_planning.engines.compilers.grounder import GrounderHelper
        from unified_planning.shortcuts import SequentialSimulator

        self._problem, self._wording = problem, wording
        with _ONE_AT_A_TIME:
            self._simulator = SequentialSimulator(problem)
            self._facts = [expression for expression in problem.initial_values if expression.is_fluent_exp()]
            self.goal = tuple(map(_fact, _parts(problem.goals)))
            self._actions = self._by_skill(GrounderHelper(problem).get_grounded_actions())
        self.reset()

    def _by_skill(self, actions: Iterable[tuple[Any, tuple[Any, ...], Any]]) -> Mapping[str, list[_Action]]:
        """Return actions by their skill; several if the state determines which of them is meant."""
        by_skill: dict[str, list[_Action]] = {}
        for action, arguments, grounded in actions:
            if grounded is not None:
                skill = self._wording.skill(action.name, list(map(str, arguments)))
                by_skill.setdefault(skill, []).append((action, arguments))
        return by_skill

    def rules(self) -> str:
        """Describe each action's conditions and effects, with ``<block 1>`` in place of a block.

        Conditions that are no plain facts and conditional effects are left out.
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

        def said(fact: Fact, *, holds: bool) -> str:
            return self._wording.fact((fact[0], *(names.get(one, one) for one in fact[1:])), holds=holds)

        plain = map(_literal, filter(_is_plain, _parts(action.preconditions)))
        needs = [said(fact, holds=holds) for fact, holds in plain]
        effects = [one for one in action.effects if not one.is_conditional()]
        then = [said(_fact(one.fluent), holds=one.value.is_true()) for one in effects]
        return f"- {self._skill(action)}: needs {_joined(needs)}; then {_joined(then)}."

    def reset(self) -> None:
        """Go back to the start."""
        with _ONE_AT_A_TIME:
            self._state = self._simulator.get_initial_state()

    def facts(self) -> list[Fact]:
        """Return the current facts, in the order of the domain."""
        with _ONE_AT_A_TIME:
            return [_fact(one) for one in self._facts if self._state.get_value(one).bool_constant_value()]

    def skills(self) -> list[str]:
        """Return the available skills, each once."""
        with _ONE_AT_A_TIME:
            now = self._simulator.get_applicable_actions(self._state)
            said = (self._wording.skill(action.name, list(map(str, arguments))) for action, arguments in now)
            return list(dict.fromkeys(said))

    def knows(self, skill: str) -> bool:
        """Return whether such a skill exists here, now or at other times."""
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
        """Carry out a skill; return whether it was possible."""
        with _ONE_AT_A_TIME:
            for action, arguments in self._actions[skill]:
                if (after := self._simulator.apply(self._state, action, arguments)) is not None:
                    self._state = after
                    return True
        return False


def _fact(expression: Any) -> Fact:
    return (expression.fluent().name, *map(str, expression.args))


def _literal(condition: Any) -> tuple[Fact, bool]:
    """Return the fact of a plain condition, and whether it must hold."""
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
