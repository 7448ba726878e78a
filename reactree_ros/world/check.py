"""A check for authors of worlds: does a world keep to the port?"""

from __future__ import annotations

import itertools
import re
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError
from dataclasses import replace
from functools import partial
from typing import Any, NoReturn, TypeVar

from reactree_ros.agent.observation import REFUSALS
from reactree_ros.background.pending import Pending, Worker, mapped
from reactree_ros.world.port import (
    Household,
    Observation,
    Offer,
    Offered,
    Outcome,
    Score,
    Seen,
    SharedWorld,
    Use,
    World,
    WorldError,
    team_of,
)
from reactree_ros.world.spec import asks_for

T = TypeVar("T")


def check_world(
    world: World, *, task: object = None, seed: int = 0, tries: int = 8, at_once: float = 2.0, timeout: float = 30.0
) -> list[str]:
    """Try whether a world keeps to the port.

    Whoever makes a world has a test like this::

        def test_my_world_keeps_to_the_port() -> None:
            assert check_world(MyWorld()) == []

    The world is reset, looked at, made to refuse and to carry out a few skills, interrupted, and closed in the end. It
    must stand if nothing else moves it.

    Args:
        world: The world.
        task: The task that it was made for, to be looked at, too.
        seed: What it is reset with.
        tries: How many of its skills are carried out.
        at_once: How long a call may take to return its pending result, in seconds.
        timeout: How long anything may take to settle, in seconds; whatever takes longer ends the check.

    Returns:
        The problems, a sentence each; empty if there are none.
    """
    check = _Check(world, task, seed=seed, tries=tries, at_once=at_once, timeout=timeout)
    try:
        check.run()
    except _CannotGoOn:
        pass
    finally:
        check.let_go()
        check.caller.close()
    return check.problems


class _CannotGoOn(Exception):
    pass


class _Check:
    def __init__(self, world: World, task: Any, *, seed: int, tries: int, at_once: float, timeout: float) -> None:
        self.problems: list[str] = []
        self.caller = Worker("check_world", WorldError)  # so that a call that blocks does not block the check
        self._world, self._task = world, task
        self._seed, self._tries, self._at_once, self._timeout = seed, tries, at_once, timeout
        self._closed = False

    def run(self) -> None:
        self._household()
        if self._task is not None:
            self._says_what_it_asks_for(self._task)
        start = self._resets()
        self._score()
        self._survey()
        self._refuses_what_it_does_not_know()
        self._says_what_is_meant()
        self._carries_out()
        self._score()
        self._stops()
        self._shares()
        if start is not None and self._reset() != start:
            self._wrong("reset does not bring the world back: another first observation than before the skills")
        self._closes()

    def let_go(self) -> None:
        if not self._closed:
            _settles(self.caller.do(self._world.close), self._timeout)

    def _wrong(self, problem: str) -> None:
        if problem not in self.problems:
            self.problems.append(problem)

    def _hopeless(self, problem: str) -> NoReturn:
        self._wrong(problem)
        raise _CannotGoOn

    # ------------------------------------------------------------------ asking

    def _call(self, what: str, call: Callable[[], T]) -> T:
        returned = self.caller.do(call)
        if not _settles(returned, self._at_once):
            self._wrong(
                f"{what} did not return within {self._at_once:g} s; return a pending result and settle it later"
            )
            if not _settles(returned, self._timeout):
                raise _CannotGoOn
        try:
            return returned.take()
        except Exception as error:
            self._hopeless(f"{what} raises {_named(error)}; let its pending result fail instead")

    def _asked(self, what: str, ask: Callable[[], Pending[T]]) -> T:
        try:
            return self._answer(what, ask)
        except WorldError as error:
            self._hopeless(f"{what} failed: {error}")

    def _answer(self, what: str, ask: Callable[[], Pending[T]]) -> T:
        pending = self._call(what, ask)
        if not isinstance(pending, Pending):
            self._hopeless(f"{what} returns {_shown(pending)}, which is not a Pending")
        if not _settles(pending, self._timeout):
            self._hopeless(f"{what} did not settle within {self._timeout:g} s")
        try:
            return pending.take()
        except CancelledError:
            self._hopeless(f"{what} was cancelled by the world itself")
        except WorldError:
            raise
        except Exception as error:
            self._hopeless(f"{what} failed with {_named(error)}, which is not a WorldError")

    def _observation(self, what: str, observation: Any) -> Observation:
        if not isinstance(observation, Observation):
            self._hopeless(f"{what} gives {_shown(observation)}, which is not an Observation")
        if not isinstance(observation.text, str) or not observation.text.strip():
            self._wrong(f"{what} gives an observation whose text is {_shown(observation.text)}")
        if not isinstance(observation.outcome, Outcome):
            self._wrong(
                f"{what} gives an observation whose outcome is {_shown(observation.outcome)}, which is not an Outcome"
            )
        if not all(isinstance(seen, Seen) for seen in observation.seen):
            self._wrong(f"{what} gives an observation that saw {_shown(observation.seen)}; each must be a Seen")
        return replace(observation, seen=tuple(observation.seen), pictures=())

    def _reset(self) -> Observation:
        return self._observation("reset", self._asked("reset", lambda: self._world.reset(self._seed)))

    def _observe(self) -> Observation:
        observation = self._observation("observe", self._asked("observe", self._world.observe))
        start_line = self._world.household.start_line
        if not observation.text.startswith(start_line):
            self._wrong(
                f"observe gives {_shown(observation.text)}, which does not begin with the household's start line "
                f"'{start_line}'"
            )
        return observation

    def _skills(self) -> tuple[str, ...]:
        skills = self._asked("available_skills", self._world.available_skills)
        listed = isinstance(skills, Sequence) and not isinstance(skills, str)
        if not listed or not all(isinstance(one, Offered) for one in skills):
            self._hopeless(f"available_skills gives {_shown(skills)}, which is not a list of texts and declared skills")
        lines = self._lines(skills)
        for skill, times in Counter(lines).items():
            if times > 1:
                self._wrong(f"available_skills lists '{skill}' {times} times")
        for skill in dict.fromkeys(one for one in skills if isinstance(one, str)):
            self._fits(skill)  # a declared skill is said as it is declared, of things by whatever names they have
        return tuple(lines)

    def _lines(self, skills: Sequence[Offered]) -> list[str]:
        return [line for one in skills for line in ([one] if isinstance(one, str) else self._examples(one))]

    def _examples(self, offer: Offer) -> list[str]:
        if offer.skill not in self._world.household.skills:
            self._wrong(f"available_skills offers '{offer.skill.name}', which the household does not declare")
        return offer.lines() or [offer.example()]

    def _fits(self, skill: str) -> None:
        household = self._world.household
        verb, name = household.split_skill(skill)
        if not verb and skill not in household.actions:
            self._wrong(f"the skill '{skill}' begins with none of the household's actions")
            return
        whole = {one.verb for one in household.skills if one.listed != one.verb}
        pattern = re.escape(household.naming).replace(r"\{word\}", r"\S.*").replace(r"\{instance\}", r"\d+")
        if verb and household.naming and verb not in whole and not re.fullmatch(pattern, name):
            self._wrong(f"the skill '{skill}' does not name a thing as the household does: '{household.naming}'")

    # ------------------------------------------------------------------ what is tried

    def _household(self) -> None:
        household = getattr(self._world, "household", None)
        if not isinstance(household, Household):
            self._hopeless(f"household is {_shown(household)}, which is not a Household")
        if household.naming and not all(field in household.naming for field in ("{word}", "{instance}")):
            self._hopeless(f"the household's naming '{household.naming}' lacks {{word}} or {{instance}}")
        for name in ("recallable", "words", *(["places"] if isinstance(self._world, SharedWorld) else [])):
            words = getattr(self._world, name)
            if isinstance(words, str) or not all(isinstance(word, str) and word.strip() for word in words):
                self._wrong(f"{name} is {_shown(words)}, which are not words")

    def _says_what_it_asks_for(self, task: Any) -> None:
        for name in ("instruction", "task_name"):
            if not isinstance(said := getattr(task, name, None), str) or not said.strip():
                self._hopeless(f"the task's {name} is {_shown(said)}, which is not text")
        if self._call("asks_for", lambda: asks_for(task, task.instruction)) is not True:
            self._wrong(f"the task does not ask for its own instruction, '{task.instruction}'")

    def _resets(self) -> Observation | None:
        try:
            first = self._observation("reset", self._answer("reset", lambda: self._world.reset(self._seed)))
        except WorldError:  # as a robot does
            self._observe()
            return None
        if self._reset() != first:
            self._wrong(f"two resets with the seed {self._seed} give different first observations")
        if self._observe() != first:
            self._wrong("reset gives another observation than observe")
        return first

    def _score(self) -> None:
        score = self._asked("score", self._world.score)
        if score is None:
            return
        if not isinstance(score, Score):
            self._wrong(f"score gives {_shown(score)}, which is not a Score")
        elif not (score.gsr in (0, 1) and 0 <= score.ssr <= 1):
            self._wrong(f"score gives {score}; gsr must be 0 or 1, and ssr between them")
        elif (score.gsr == 1) != (score.ssr == 1):
            self._wrong(f"score gives {score}; the goal is reached where all of its conditions hold, and only there")

    def _survey(self) -> None:
        try:
            self._observation("survey", self._answer("survey", self._world.survey))
        except WorldError:  # few worlds know
            return

    def _refuses_what_it_does_not_know(self) -> None:
        household, skills = self._world.household, self._skills()
        if not skills:
            self._hopeless("available_skills lists nothing")
        unheard = household.name_of("unheardof", 1)
        for skill in ("levitate", f"levitate {unheard}", f"{household.actions[0]} {unheard}", f"{skills[0]} please"):
            if self._execute(skill) not in REFUSALS:
                self._wrong(f"'{skill}' is not a skill of this world, but it was not refused")

    def _says_what_is_meant(self) -> None:
        skills, refused = self._skills(), self._world.household.free_skills
        for skill in skills[:1]:
            if self._canonical(skill) != skill:
                self._wrong(f"available_skills lists '{skill}', but canonical says that it is another skill or none")
            verb, blank, rest = skill.partition(" ")
            for other in (skill.upper(), f"{verb}  {rest}", f" {skill} ", f"{skill}.", f"{verb}{blank}the {rest}"):
                meant = self._canonical(other)
                if refused or meant in skills or isinstance(meant, Observation) or other in skills:
                    continue
                if self._execute(other) not in REFUSALS:
                    self._wrong(f"'{other}' is carried out, but canonical does not say that it is '{skill}'")

    def _canonical(self, skill: str) -> str | Observation:
        meant = self._asked(f"canonical of '{skill}'", lambda: self._world.canonical(skill))
        if not isinstance(meant, str | Observation):
            self._hopeless(f"canonical gives {_shown(meant)}, which is neither a text nor an Observation")
        if isinstance(meant, str) and meant != skill:
            again = self._asked(f"canonical of '{meant}'", lambda: self._world.canonical(meant))
            if again != meant:
                self._wrong(f"canonical says that '{skill}' is '{meant}', and that this is something else again")
        return meant

    def _execute(self, skill: str) -> Outcome:
        before = self._observe(), self._skills()
        result = self._observation(f"'{skill}'", self._asked(f"'{skill}'", lambda: self._world.execute(skill)))
        if result.is_refused and (self._observe(), self._skills()) != before:
            self._wrong(f"'{skill}' was refused, but the world is not as it was")
        return result.outcome

    def _carries_out(self) -> None:
        tried: Counter[str] = Counter()
        for _ in range(self._tries):
            skills = [skill for skill in self._skills() if skill not in tried]
            if not skills:
                return
            verb_of = self._world.household.split_skill
            skill = min(skills, key=lambda skill: tried[verb_of(skill)[0]])  # the first of the rarest verb
            tried.update((skill, verb_of(skill)[0]))
            if self._execute(skill) is Outcome.UNKNOWN_SKILL:
                self._wrong(f"available_skills lists '{skill}', which the world then does not know")

    def _stops(self) -> None:
        skills = self._skills()
        if not skills:
            return
        skill = skills[0]
        pending = self._call(f"'{skill}'", lambda: self._world.execute(skill))
        self._call(f"cancelling '{skill}'", pending.cancel)
        if not pending.done():
            self._wrong(f"'{skill}' was cancelled, but its pending result is not settled")
        self._asked("at_rest", self._world.at_rest)
        self._observe()
        self._execute(skill)
        self._together(skills)

    def _together(self, skills: Sequence[str]) -> None:
        """Carry two skills out at once that use different resources, and cancel one of them."""
        by_uses = {self._world.household.uses(skill): skill for skill in skills}
        both = next((pair for pair in itertools.combinations(by_uses, 2) if not pair[0] & pair[1]), None)
        if both is None:
            return
        kept, stopped = (by_uses[uses] for uses in both)
        doing = self._call(f"'{kept}'", lambda: self._world.execute(kept))
        beside = self._call(f"'{stopped}' beside '{kept}'", lambda: self._world.execute(stopped))
        self._call(f"cancelling '{stopped}'", beside.cancel)
        self._asked("at_rest", self._world.at_rest)
        self._observation(f"'{kept}'", self._asked(f"'{kept}' beside '{stopped}'", lambda: doing))

    def _shares(self) -> None:
        team = self._call("team", lambda: team_of(self._world))
        if not isinstance(team, Mapping) or not all(isinstance(one, SharedWorld) for one in team.values()):
            self._hopeless(f"team gives {_shown(team)}; it must be robots by name, each a SharedWorld")
        if len(team) == 1:
            self._wrong(f"team names '{next(iter(team))}' alone; it must be empty if there is one robot")
        if wrong := [name for name in team if not isinstance(name, str) or not name.strip()]:
            self._wrong(f"team calls a robot {_shown(wrong[0])}, which is not a name")
        doing: dict[str, Pending[Observation]] = {}
        for name, robot in team.items():
            self._call("heed", partial(robot.heed, _AlwaysFree()))
            skills = self._lines(self._asked(f"available_skills of '{name}'", robot.available_skills))
            for skill in skills:
                self._uses(skill, self._call(f"use of '{skill}'", partial(robot.use, skill)))
            if skills:
                doing[name] = self._call(f"'{skills[0]}' of '{name}'", partial(robot.execute, skills[0]))
        for name, pending in doing.items():
            self._observation(
                f"a skill of '{name}'", self._asked(f"a skill of '{name}'", partial(mapped, pending, lambda seen: seen))
            )
            self._observation(f"observe of '{name}'", self._asked(f"observe of '{name}'", team[name].observe))

    def _uses(self, skill: str, use: Any) -> None:
        named = (*use.things, *use.places, *use.ways) if isinstance(use, Use) else (None,)
        if not all(isinstance(one, str) and one.strip() for one in named):
            self._wrong(f"use of '{skill}' gives {_shown(use)}; it must be a Use that names things, places and ways")

    def _closes(self) -> None:
        entered = self._call("'with world'", self._world.__enter__)
        self._closed = True
        if entered is not self._world:
            self._wrong(f"'with world as it' gives {_shown(entered)}, which is not the world")
        self._close("the end of 'with world'", lambda: self._world.__exit__(None, None, None))
        self._close("a second close", self._world.close)

    def _close(self, what: str, close: Callable[[], None]) -> None:
        closed = self.caller.do(close)
        if not _settles(closed, self._timeout):
            self._hopeless(f"{what} did not return within {self._timeout:g} s")
        if (error := closed.exception()) is not None:
            self._hopeless(f"{what} raises {_named(error)}")


class _AlwaysFree:
    def ask(self, way: str) -> Pending[None]:
        return Pending.ready(None)

    def leave(self, place: str) -> None: ...


def _settles(pending: Pending[Any], seconds: float) -> bool:
    settled = threading.Event()
    pending.add_done_callback(lambda _: settled.set())
    return settled.wait(seconds)


def _named(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _shown(value: object) -> str:
    return f"'{value[:60]}'" if isinstance(value, str) else repr(value)[:60]
