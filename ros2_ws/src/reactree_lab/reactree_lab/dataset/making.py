"""A dataset worker's job: carries out tasks in generated houses, and reads records."""

from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any

from reactree_lab.bench.job_runner import Runs, ready_model
from reactree_lab.bench.suites import HOUSE_STRIDE, GeneratedSettings
from reactree_lab.dataset.exercises import exercise
from reactree_lab.dataset.lines import Line, Run, bare, in_order, lines_of
from reactree_lab.dataset.settings import Recipe
from reactree_lab.household.generator import TAUGHT, generate_house
from reactree_lab.household.people import say_impossible, say_openly
from reactree_lab.household.person import SimulatedPerson
from reactree_lab.household.question import unasked
from reactree_lab.household.wording import say_nonsense
from reactree_lab.worker_calls import call_in_workers
from reactree_ros.agent.decision import DONE, FAILURE, RECALL
from reactree_ros.agent.grammar import DecisionGrammar
from reactree_ros.agent.kinds.think import Ask
from reactree_ros.agent.reading import Unreadable, read
from reactree_ros.agent.subgoal_grammar import SubgoalGrammar
from reactree_ros.agent.text import approximate_tokens
from reactree_ros.agent.turns import render
from reactree_ros.background.pending import Pending
from reactree_ros.episode import Examples
from reactree_ros.episode.assembly import assemble
from reactree_ros.episode.run_spec import RunSpec
from reactree_ros.errors import UserError
from reactree_ros.files.read_back import shown
from reactree_ros.household import rules
from reactree_ros.household.expert.goals import Goal, goals_of
from reactree_ros.household.expert.model import Decided, ExpertModel
from reactree_ros.household.expert.reading import Situation
from reactree_ros.household.scene import Thing
from reactree_ros.household.symbolic import SymbolicWorld
from reactree_ros.household.tasks import Task, parse_tasks
from reactree_ros.household.vocabulary import NEVER_OPEN
from reactree_ros.llm.chat import chat_messages
from reactree_ros.llm.port import Choice, DecisionRequest, FreeText, LanguageModel, MaySay, Reply
from reactree_ros.memory.port import EpisodicMemory
from reactree_ros.memory.spec import memory
from reactree_ros.plugins.settings import read_settings
from reactree_ros.record.reader import Record, RecordError, read_record
from reactree_ros.record.schema import Event
from reactree_ros.record.verdict import verdict_of
from reactree_ros.tree.options import TreeOptions
from reactree_ros.world.port import Observation

#: How likely something is moved after each skill.
_MOVED = 0.15


class LivedInHouse(SymbolicWorld):
    """Now and then moves a thing that the task wants and the robot has seen, from another room to another place."""

    def __init__(self, task: Task, drawn: random.Random, *, scored: bool = True) -> None:
        self._drawn, self._seen = drawn, set[int]()
        super().__init__(task, scored=scored)

    def execute(self, skill: str) -> Pending[Observation]:
        observed = super().execute(skill)
        self._seen.update(self.scene.close)
        if self._drawn.random() < _MOVED:
            things, places = list(self._things()), list(self._places())
            if things and places:
                self._relocate(self._drawn.choice(things), self._drawn.choice(places))
        return observed

    def _things(self) -> Iterator[Thing]:
        """Yield what may be moved: it is seen, wanted elsewhere than where it is, and in another room."""
        wanted = {one.item: one.target for one in self._task.goal}
        for thing in self.scene.things.values():
            place = self.scene.container_of(thing) or self.scene.surface_of(thing)
            if place is None or thing.id not in self._seen or not self._is_elsewhere(thing):
                continue
            if thing.class_name in wanted and place.class_name not in (wanted[thing.class_name], *NEVER_OPEN):
                yield thing

    def _places(self) -> Iterator[Thing]:
        targets = {one.target for one in self._task.goal}
        for thing in self.scene.things.values():
            fits = thing.room_item and rules.can_take_things(thing) and "GRABBABLE" not in thing.properties
            if fits and thing.class_name not in (*targets, *NEVER_OPEN) and self._is_elsewhere(thing):
                yield thing

    def _is_elsewhere(self, thing: Thing) -> bool:
        return thing.id not in self.scene.held and self.scene.room_of(thing) is not self.scene.agent_room

    def _relocate(self, thing: Thing, place: Thing) -> None:
        self.scene.place(thing, place, inside="CONTAINERS" in place.properties)
        self._moved[thing.id] = place
        self._taken.add(thing.id)


@dataclass(frozen=True)
class Exercise:
    seed: int


#: Shares of the houses of people: that call their things by other names, that say tasks in many words; share of their
#: impossible requests that are made by rule.
_RENAMED, _SAID, _BY_PEOPLE = 0.5, 0.85, 0.9
#: Share of instructions that leave something open where there is a person; share of the hopeless ones with nobody.
_OPEN, _NOBODY = 0.75, 0.25
#: Share of the tasks in houses of people where things are moved meanwhile; share of those with several robots.
_MOVING, _TEAMS = 0.3, 0.1
#: Most questions to a person.
_QUESTIONS = 8
#: A record, the seed of a generated house, or an exercise.
Source = Path | int | Exercise
#: Parts that are made together, by number, with the sources of each.
Call = Sequence[tuple[int, Sequence[Source]]]


@dataclass(frozen=True)
class DatasetPart:
    lines: list[str]  # lines for JSON; ``format`` in them holds the decision in the additional layout
    runs: int
    left_out: int  # number of runs left out because they did not reach their goal
    houses: set[str]  # the houses of the others

    @classmethod
    def whole(cls, parts: Sequence[DatasetPart]) -> DatasetPart:
        lines = [line for part in parts for line in part.lines]
        houses = {house for part in parts for house in part.houses}
        return cls(lines, sum(part.runs for part in parts), sum(part.left_out for part in parts), houses)


@dataclass(frozen=True)
class _Request:
    instruction: str | None  # what is said; None: the task's own instruction
    goals: Sequence[Goal] = ()  # what it means; nothing if nobody can tell
    questions: Sequence[str] = ()  # questions whose answers are needed first
    person: bool = False  # whether there is a person to ask
    lived_in: bool = False  # whether things may be moved meanwhile, or several robots may work


class Maker:
    """Makes the lines of sources, of so many at the same time."""

    def __init__(self, recipe: Recipe, at_once: int = 1) -> None:
        self.recipe = recipe
        self._threads = ThreadPoolExecutor(at_once, thread_name_prefix="dataset")
        self._runs = Runs()
        self._pupil: LanguageModel | None = None
        self._memory: EpisodicMemory | None = None
        try:
            if recipe.pupil:
                self._pupil = ready_model(recipe.pupil, where="--on-policy")
            self._examples = self._found_examples()
        except BaseException:
            self.close()
            raise

    def parts(self, jobs: Call) -> Iterator[tuple[int, DatasetPart]]:
        """Make numbered parts in order; sources of the next ones are begun before a part is done."""
        made = self._threads.map(self._part, [source for _, sources in jobs for source in sources])
        for number, sources in jobs:
            yield number, DatasetPart.whole(list(islice(made, len(sources))))

    def _part(self, source: Source) -> DatasetPart:
        lines: list[str] = []
        houses: set[str] = set()
        runs = left_out = 0
        for run in self._of(source):
            runs += 1
            left_out += run is None
            lines += map(self._as_json, in_order(run or ()))
            houses |= {line.run.house for line in run or ()}
        return DatasetPart(lines, runs, left_out, houses)

    def _of(self, source: Source) -> Iterator[list[Line] | None]:
        if isinstance(source, Exercise):
            settings = self.recipe.settings
            lines = exercise(source.seed, self.recipe.planner, settings.without.split(","), short=settings.short)
            return iter([list(lines)])
        return self._of_house(source) if isinstance(source, int) else self._of_record(source)

    def _as_json(self, line: Line) -> str:
        values = line.as_dict()
        if not self.recipe.settings.may_say:
            values["may_say"] = {}
        if self.recipe.settings.format == "chat":
            said = {"role": "assistant", "content": line.completion}
            values["format"] = {"messages": [*chat_messages(line.turns, line.begun), said]}
        elif self.recipe.settings.format == "prompt":
            values["format"] = {name: values[name] for name in ("prompt", "completion")}
        return json.dumps(values)

    # ------------------------------------------------------------------ generated houses

    def _of_house(self, seed: int) -> Iterator[list[Line] | None]:
        settings = self.recipe.settings
        rooms = settings.rooms or random.Random(f"rooms {seed}").randint(3, 8)
        house = house_name(seed, rooms, varied=settings.varied)
        everyday = random.Random(f"everyday {seed}").random() < settings.everyday
        people = (drawn := random.Random(f"people {seed}")).random() < settings.people or everyday
        nouns = TAUGHT if people and drawn.random() < _RENAMED else ""
        made = generate_house(
            seed=seed,
            rooms=rooms,
            tasks=settings.tasks_per_house,
            varied=settings.varied,
            without=settings.without,
            about=settings.about,
            nouns=nouns,
            people=people and drawn.random() < _SAID,
            everyday=everyday,
        )
        for task in parse_tasks(made):
            who, most = self.recipe.planner, settings.examples
            run = Run(house=house, task=str(task.task_id), planner=who, examples=most)
            yield self._carry_out(task, run, self._request(task, run, people=people))

    def spec_of(self, task: Task, instruction: str | None = None, *, person: bool = False) -> RunSpec:
        settings, planner = self.recipe.settings, self.recipe.planner
        if person and ":questions=" not in planner:
            planner = f"{planner}:questions={_QUESTIONS}"
        spec = RunSpec(
            planner=planner,
            options=TreeOptions(max_decisions=settings.decisions),
            memory=self.recipe.memory if settings.examples else "",
            person=person,
        )
        return spec.of_task(task, task.task_id, instruction)

    def _request(self, task: Task, run: Run, *, people: bool) -> _Request:
        """Draw how a task is asked for: as its own instruction does, as one that nobody can meet, or as an open one."""
        settings, drawn = self.recipe.settings, random.Random(f"dataset {run.house} {run.task}")
        if drawn.random() < settings.unclear:
            by_people = people and drawn.random() < _BY_PEOPLE
            text = say_impossible(drawn) if by_people else say_nonsense(drawn)
            return _Request(text)
        clear = _Request(None, goals_of(task.goal), lived_in=people)
        if task.names or drawn.random() >= settings.asking:  # a person knows only the vocabulary's words
            return clear
        clear = replace(clear, person="the table" not in task.instruction.lower())  # which one, a person would be asked
        request = say_openly(drawn, task.goal) if drawn.random() < _OPEN else None
        if request is None:
            return clear
        if request.hopeless and drawn.random() < _NOBODY:
            return _Request(request.text)
        return replace(
            clear, person=True, instruction=request.text, questions=request.questions, goals=goals_of(request.goal)
        )

    def _carry_out(self, task: Task, run: Run, request: _Request) -> list[Line] | None:
        """Carry out a task; return None if the expert did not reach its goal, or an answer did not help."""
        settings, unclear = self.recipe.settings, not request.goals
        spec = self.spec_of(task, request.instruction, person=request.person)
        teacher = Teacher(
            spec.instruction,
            request.goals,
            names=task.names,
            questions=request.questions,
            noise=settings.noise,
            seed=f"noise {run.house} {run.task}",
            pupil=self._pupil,
            beta=settings.beta,
        )
        events: list[Event] = []
        person = SimulatedPerson(task.goal, of=f"{run.house} {run.task}")
        with self._world(task, run, request, scored=not unclear) as world:
            episode = assemble(
                spec, world=world, model=teacher, person=person, examples=self._examples, write=events.append
            )
            result = self._runs.carry_out(episode)
        if result.broken:
            raise UserError(f"{run.house}, task {run.task}: {result.message}; repeat the command to continue here")
        if self._pupil is None and not settings.decisions and result.whole == unclear:
            return None
        if self._pupil is None and not all(answered.facts for answered in person.told):
            return None
        labels = None if self._pupil is None else teacher.labels
        return list(lines_of(events, run, labels=labels, astray=teacher.astray))

    def _world(self, task: Task, run: Run, request: _Request, *, scored: bool) -> SymbolicWorld:
        drawn = random.Random(f"lived in {run.house} {run.task}")
        chance = drawn.random() if request.lived_in else _MOVING
        if chance < _MOVING:
            return LivedInHouse(task, drawn, scored=scored)
        return SymbolicWorld(task, scored=scored, robots=drawn.choice((2, 2, 3)) if chance > 1 - _TEAMS else 1)

    def _found_examples(self) -> Examples | None:
        most = self.recipe.settings.examples
        if not self.recipe.memory or not most:
            return None
        self._memory = memory(self.recipe.memory).open()
        return partial(self._memory.find, count_tokens=approximate_tokens, most=most)

    def close(self) -> None:
        self._runs.cancel()
        if self._pupil is not None:
            self._pupil.close()
        self._threads.shutdown(cancel_futures=True)
        if self._memory is not None:
            self._memory.close()

    # ------------------------------------------------------------------ records

    def _of_record(self, path: Path) -> Iterator[list[Line] | None]:
        record, settings = read_record(path), self.recipe.settings
        if not settings.all_runs and not whole(record):
            yield None
            return
        yield list(
            lines_of(
                record.events,
                Run(
                    house=house_of(record),
                    task=str(record.run["id"]),
                    planner=bare(record.run["planner"]["name"]),
                    examples=settings.examples,
                ),
            )
        )


def whole(record: Record) -> bool:
    """Return whether a run reached its goal, or claims so as a whole where nothing could check it, as on a robot."""
    return record.end is not None and verdict_of(record.end["result"]).whole


def house_name(seed: int, rooms: int, *, varied: bool) -> str:
    return f"{'varied' if varied else 'plain'} house {seed} of {rooms} rooms"


def house_of(record: Record) -> str:
    """Return the house of a run; runs whose houses may be the same share a house if the record does not tell."""
    world: dict[str, Any] = dict(record.run["world"])
    if world.get("suite") == "generated":
        settings = read_settings(GeneratedSettings, world.get("settings", {}), where=f"{record.name}: its suite")
        if not isinstance(number := record.run["task_id"], int):
            raise RecordError(f"{record.name}: its task is {shown(number)}, and must be a number")
        return house_name(number // HOUSE_STRIDE, settings.rooms, varied=settings.varied)
    if "house" in world:
        return str(world["house"])
    settings_of = {name: value for name, value in world.get("settings", {}).items() if name != "task_id"}
    return json.dumps({"world": world.get("name") or world.get("suite"), **settings_of}, sort_keys=True)


#: Sources of a call for each that is made at the same time: at a call's end fewer and fewer are.
_EACH = 4


def made_parts(
    recipe: Recipe, jobs: Mapping[int, Sequence[Source]], *, workers: int, at_once: int = 1
) -> Generator[tuple[int, DatasetPart]]:
    """Make parts in so many processes, 1 is this one; yield each with its number once it is done, in any order.

    Each process makes so many sources ``at_once``.
    """
    if workers == 1 or len(jobs) < 2:
        with closing(Maker(recipe, at_once)) as maker:
            for call in _calls(jobs, at_once):
                yield from maker.parts(call)
        return
    threads = max(1, len(os.sched_getaffinity(0)) // workers)
    calls = call_in_workers(_begin, (recipe, at_once, threads), _calls(jobs, at_once), workers=min(workers, len(jobs)))
    with closing(calls):
        for _, parts in calls:
            yield from parts


def _calls(jobs: Mapping[int, Sequence[Source]], at_once: int) -> Iterator[Call]:
    call: list[tuple[int, Sequence[Source]]] = []
    for job in jobs.items():
        call.append(job)
        if at_once == 1 or sum(len(sources) for _, sources in call) >= _EACH * at_once:
            yield call
            call = []
    if call:
        yield call


def _begin(recipe: Recipe, at_once: int, threads: int) -> Callable[[Call], list[tuple[int, DatasetPart]]]:
    # Before torch is imported: sentence embedders with a thread per core each took six times as long.
    os.environ.setdefault("OMP_NUM_THREADS", str(threads))
    maker = Maker(recipe, at_once)
    return lambda jobs: list(maker.parts(jobs))


#: End of an action's verb: ``go`` of ``go to desk 1``, ``retrieve`` of ``retrieve(2)``.
_VERB = re.compile(r"\W")
_ACT = "Act"


class _Expert(ExpertModel):
    """The expert that goes only where it may: a thing that was moved to another room is not here any more."""

    _gone: frozenset[tuple[str, str]] = frozenset()  # refused beforehand, for this decision
    questions: Mapping[str, Sequence[str]] = MappingProxyType({})  # asked first, by instruction

    def consider(self, request: DecisionRequest) -> Decided:
        self._gone = frozenset()
        decided = super().consider(request)
        while isinstance(request.may_say, DecisionGrammar) and (walk := self._impossible(decided, request.may_say)):
            self._gone |= {(walk, "")}
            decided = super().consider(request)
        return decided

    def begin(self, request: DecisionRequest, situation: Situation) -> str:
        """Take those walks as refused; ask the first question that no question asked so far has the meaning of."""
        situation.refused |= self._gone
        if not (isinstance(request.may_say, DecisionGrammar) and request.may_say.questions):
            return ""
        question = unasked(self.questions.get(situation.task, ()), situation.answers)
        return str(Ask(question)) if question else ""

    def _impossible(self, decided: Decided, may_say: DecisionGrammar) -> str:
        skill = decided.text.removeprefix(f"{_ACT}: ")
        if not skill.startswith("go to ") or skill in may_say.skills or may_say.free or may_say.offers:
            return ""
        walk = self._naming.with_words(skill)
        return "" if (walk, "") in self._gone else walk


class Teacher(LanguageModel):
    """The expert, which knows the goals of an instruction.

    Args:
        goals: Its goals; none if a household robot cannot do it.
        names: Names of classes that the house calls otherwise.
        questions: Questions whose answers are needed first.
        noise: Share of the expert's decisions that are replaced by another allowed one.
        pupil: Acts instead of the expert; then there is no noise.
        beta: Share of decisions that the expert still makes, if it knows one.
    """

    def __init__(
        self,
        instruction: str,
        goals: Sequence[Goal],
        *,
        names: Mapping[str, str] = MappingProxyType({}),
        questions: Sequence[str] = (),
        noise: float,
        seed: str,
        pupil: LanguageModel | None = None,
        beta: float = 0.0,
    ) -> None:
        self._expert = _Expert({instruction: goals}, names=names)
        self._expert.questions = {instruction: questions}
        self._understands = bool(goals)
        self._noise = noise
        self._rng = random.Random(seed)
        self._pupil, self._beta = pupil, beta
        #: The expert's decisions, by the ids of the pupil's requests; empty if it knows none.
        self.labels: dict[str, str] = {}
        self.astray: set[str] = set()  # ids of the requests that were answered with noise

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        if self._pupil is not None:
            label = self.labels[request.id] = self._label(request)
            guided = self._rng.random() < self._beta
            return Pending.ready(Reply(label)) if guided and label else self._pupil.decide(request)
        if self._rng.random() < self._noise and (stray := _stray(self._rng, request.may_say)):
            self.astray.add(request.id)
            return Pending.ready(Reply(stray))
        return self._expert.decide(request)

    def count_tokens(self, text: str) -> int | None:
        return None if self._pupil is None else self._pupil.count_tokens(text)

    def _label(self, request: DecisionRequest) -> str:
        """Return the expert's decision; nothing if it knows none, as for a subgoal in foreign words."""
        decided = self._expert.consider(request)
        lost = self._understands and not decided.understood
        return "" if lost or not may_be_said(decided.text, request.may_say) else decided.text


def may_be_said(said: str, may_say: MaySay) -> bool:
    if isinstance(may_say, FreeText):
        return True
    if isinstance(may_say, Choice):
        return said in may_say.options
    try:
        return render(read(said, may_say)) == said
    except Unreadable:
        return False


def _stray(rng: random.Random, may_say: MaySay) -> str:
    """Draw an action, with all verbs equally likely; empty if only the node's end is left."""
    if isinstance(may_say, DecisionGrammar):
        label = _ACT
    elif isinstance(may_say, SubgoalGrammar) and may_say.goes_on:
        label = "Action"
    else:
        return ""
    by_verb: dict[str, list[str]] = {}
    for skill in may_say.skills:
        if skill not in (DONE, FAILURE) and not skill.startswith(RECALL):
            by_verb.setdefault(_VERB.split(skill, 1)[0], []).append(skill)
    return f"{label}: {rng.choice(by_verb[rng.choice(list(by_verb))])}" if by_verb else ""
