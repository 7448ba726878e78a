"""One episode: a task carried out by a planner in a world, from the first tick to its result, in this process."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Protocol, TypeAlias

from py_trees.behaviour import Behaviour
from py_trees.common import Status
from py_trees.trees import BehaviourTree

from reactree_ros.agent.budget import Budget, Limit, Prices
from reactree_ros.agent.picture import Glance
from reactree_ros.agent.text import counting
from reactree_ros.background.pending import Pending
from reactree_ros.errors import UserError
from reactree_ros.llm.port import LanguageModel, Reply, tally
from reactree_ros.memory.experience import Experience
from reactree_ros.memory.port import EpisodicMemory
from reactree_ros.person.port import Person, confirmed_by, is_stop
from reactree_ros.record.verdict import LIMITED, EpisodeEnd
from reactree_ros.record.verdict import EpisodeResult as EpisodeResult
from reactree_ros.record.writer import Recorder
from reactree_ros.routine.use import Learning, Proof, Wrap
from reactree_ros.tree.context import GrowingTree, Growth, RunContext
from reactree_ros.tree.failure import BY_LIMIT
from reactree_ros.tree.goal import Goal
from reactree_ros.tree.goal_node import GoalNode, kind_of_failure
from reactree_ros.tree.listener import Call, Listener, Listeners
from reactree_ros.tree.options import TreeOptions
from reactree_ros.tree.own_tree import SkillNode
from reactree_ros.tree.reason import why
from reactree_ros.tree.stuck import Watch
from reactree_ros.tree.tried import branches, said_undone, undone
from reactree_ros.world.port import Observation, Score, World
from reactree_ros.world.wrappers import SkillTimeLimit, guarded

if TYPE_CHECKING:
    from reactree_ros.episode.telemetry import Telemetry

#: Longest time between two ticks, in seconds. When a call in flight ends, the next tick follows at once.
TICK_PERIOD = 0.1
#: Longest wait for the world's score, in seconds.
SCORE_TIMEOUT = 30.0

#: Finds in-context examples for a subgoal, as :attr:`reactree_ros.tree.context.RunContext.examples` says.
Examples: TypeAlias = Callable[..., Pending[tuple[Experience, ...]]]


class Builder(Protocol):
    """A planner, as an episode sees it; :class:`reactree_ros.planners.spec.Planner` is one."""

    @property
    def working_memory(self) -> bool:
        """Whether the planner remembers where it saw things."""

    def build(self, instruction: str, context: RunContext) -> GoalNode:
        """Build the tree for an instruction."""


class Episode:
    """Carries out one instruction.

    :meth:`run` ticks until the end. If you have a loop of your own, such as a ROS timer, call :meth:`tick` there.

    Raises:
        UserError: The instruction is empty, or the planner cannot be used in this world.
    """

    def __init__(
        self,
        instruction: str,
        *,
        world: World,  # at the start of the task; its maker closes it. Its own settings guard it, if nothing else does
        model: LanguageModel,
        planner: Builder,
        person: Person | None = None,  # whom goal nodes may ask
        memory: EpisodicMemory | None = None,  # provides examples; :meth:`remember` adds to it
        options: TreeOptions | None = None,
        working_memory: bool | None = None,  # whether things that were seen are remembered; None: the planner says it
        listener: Listener | None = None,
        record: Recorder | None = None,
        task_id: int | None = None,  # the task that the instruction belongs to, for the result
        task_name: str = "instruction",
        tree: BehaviourTree | None = None,  # it becomes the first child of its root; None: it has one of its own
        growth: Growth | None = None,  # follows that tree already
        examples: Examples | None = None,  # finds examples otherwise than the memory does; routines likewise
        routines: Wrap | None = None,
        proves: Proof | None = None,  # tries out what was learnt, if somebody can make the world once more
        clock: Callable[[], float] = time.monotonic,
        telemetry: Telemetry | None = None,
        goal: Mapping[str, int] | None = None,  # read from the instruction; None: the world reads it, without a task
    ) -> None:
        self.instruction = instruction
        if not instruction.strip():
            raise UserError("the instruction is empty; say what to do, e.g. 'Put 1 apple on the coffee table'")
        self.task_id = task_id
        self.task_name = task_name
        self.goal = goal or (world.goal_of(instruction) if task_id is None else {})
        self._memory = memory
        options = options or TreeOptions()
        world = guarded(world, None, confirmed_by(person, options.answer_timeout))
        remembers = planner.working_memory if working_memory is None else working_memory
        self._awake = threading.Event()
        self.context = RunContext(
            model=model,
            world=SkillTimeLimit(world, options.skill_timeout),
            growth=growth or Growth(),
            budget=Budget(
                max_decisions=options.max_decisions or world.household.max_decisions,
                max_steps=options.max_steps or world.household.max_steps,
                max_prompt_tokens=options.max_prompt_tokens,
                max_output_tokens=options.max_output_tokens,
                max_seconds=options.max_seconds,
                max_cost=options.max_cost,
                prices=Prices(options.price_input, options.price_cached, options.price_output),
            ),
            options=options,
            recalls=remembers,
            person=person,
            examples=examples or examples_from(memory, model, options),
            wake=self._awake.set,
            clock=clock,
        )
        watch = Watch(self.context, options.stuck_after) if options.stuck_after else None
        self.context.listener = Listeners(*filter(None, (watch, record, listener, telemetry)))
        self.learning = Learning(self.context, memory, wrap=routines, proves=proves)
        self._clock, self._started = clock, 0.0
        #: Seconds since the first tick, by the episode's clock; along a record as it says.
        self.elapsed: Callable[[], float] = lambda: clock() - self._started
        self.root = planner.build(self.instruction, self.context)
        if tree is None:
            self.tree: BehaviourTree = GrowingTree(self.root)
            self.context.growth.follow(self.tree)
        else:
            self.tree = tree
            tree.insert_subtree(self.root, tree.root.id, 0)
        self._record, self._telemetry = record, telemetry
        if telemetry is not None:
            telemetry.begin(self.context, self.instruction, "" if record is None else record.id)
        if record is not None:
            record.begin(self, planner)
        self._ticked = self._in_tick = False
        self.canceled = False  # whether the episode was cancelled, by a call or by a person's ``stop``
        self._words = SimpleQueue[str]()
        self._begin = self._seconds = 0.0

    @property
    def finished(self) -> bool:
        return self._ticked and self.root.status != Status.RUNNING

    def tick(self) -> None:
        if not self._ticked:
            self._ticked, self._begin, self._started = True, time.monotonic(), self._clock()
        self._awake.clear()
        self._take_words()
        if self.canceled:
            self.interrupt()
            return
        budget = self.context.budget
        if budget.max_seconds and not budget.time_is_up and self.elapsed() >= budget.max_seconds:
            budget.time_is_up = True
            self.context.listener.time_is_up()
        self._in_tick = True
        self.tree.tick()
        self._in_tick = False  # it stays True if an exception broke the tick off
        self._seconds = time.monotonic() - self._begin

    def wait(self, timeout: float = TICK_PERIOD) -> None:
        self._awake.wait(timeout)

    def run(self) -> EpisodeResult:
        """Tick until the end; an exception on the way (Ctrl-C) cancels the calls in flight."""
        try:
            while not self.finished:
                if self.canceled:
                    self.interrupt()
                else:
                    self.tick()
                if not self.finished:
                    self.wait()
        except BaseException:
            self.interrupt()
            self.conclude()
            raise
        return self.scored()

    def scored(self) -> EpisodeResult:
        """Ask the world for its score, else for one by the goal that was read from the instruction, and conclude."""
        world = self.context.world
        try:
            score, problem = world.score().result(timeout=SCORE_TIMEOUT), ""
            if score is None and self.goal:
                score = world.judge(self.goal).result(timeout=SCORE_TIMEOUT)
        except Exception as error:
            self.context.listener.call_failed(self.root, Call("score"), error)
            score, problem = None, f"no score: {str(error) or type(error).__name__}"
        return self.conclude(score, problem)

    def conclude(self, score: Score | None = None, problem: str = "") -> EpisodeResult:
        """Return the result and write it to the record; call it once, at the end.

        ``problem`` says why the world gave no score; it then counts as gone.
        """
        self.context.team.stop()
        result = self.result(score, problem)
        if self._record is not None:
            self._record.end(result, self.context.failures)
        if self._telemetry is not None:
            self._telemetry.end(result)
        return result

    def pause(self, reason: str = "somebody has paused it") -> None:
        """Pause the run from the next tick on: it cancels calls in flight, and decides and does nothing."""
        self.context.paused = reason
        self.context.wake()

    def resume(self) -> None:
        self.context.paused = ""
        self.context.wake()

    def cancel(self) -> None:
        """Let :meth:`run` interrupt the episode before its next tick; from any thread."""
        self.canceled = True
        self.context.wake()

    def tell_of_undecided(self, ended: Callable[[], None]) -> None:
        """Call a function at the end of each skill that no decision asked for, as one of a routine."""
        self.context.listener = Listeners(self.context.listener, _Undecided(ended))

    def hear(self, words: str) -> None:
        """Hear a person's words during the run; from any thread.

        ``stop`` and the like end the run. Each goal node gets other words once, as a turn before its next decision.
        Calls under way continue.
        """
        if not words.strip():
            raise UserError("nothing is said; say what is to be otherwise, or 'stop'")
        if self.finished:
            raise UserError("the run has ended; nobody takes in what you say")
        if not is_stop(words) and not self.root.listens:
            raise UserError("this planner takes in nothing but 'stop'; nodes of reactree, react and adapt take in more")
        self._words.put(words)
        if is_stop(words):
            self.cancel()
        else:
            self.context.wake()

    def _take_words(self) -> None:
        while not self._words.empty():
            words = self._words.get()
            self.context.words.append(words)
            self.context.listener.heard(words)
            self.canceled |= is_stop(words)  # its speaker may not have reached cancel() yet

    def interrupt(self) -> None:
        """Stop the episode, and cancel all calls in flight.

        It stops the whole tree, because py_trees before 2.6 cannot tick a tree that runs without its child.
        """
        self._take_words()
        if self._record is not None and not self.finished:
            self._record.interrupted(in_tick=self._in_tick)
        self._ticked = True
        self.tree.root.stop(Status.INVALID)
        self.context.team.stop()

    def result(self, score: Score | None = None, problem: str = "") -> EpisodeResult:
        context, root, budget = self.context, self.root, self.context.budget
        if score is not None and score.goal and (context.words or context.answers):
            score = None  # a person has said more than the instruction
        replies = [reply for _, _, reply in context.replies]
        answers: list[Reply | Glance] = [*replies, *context.glances]
        told = [context.fatal.message] if context.fatal else [failure.message for failure in context.failures]
        counted = branches(root)
        left = [list(undone(branch)) for branch in counted]
        end = self._end([one for each in left for one in each], gone=bool(problem))
        lacking = [said_undone(one) for each in left for one in each if one is not root]
        prompt, output = (_total(getattr(one, f"{of}_tokens") for one in answers) for of in ("prompt", "output"))
        costs = (budget.cost, budget.prices.cost_of(budget.prompt_tokens, 0, budget.output_tokens))
        is_known = budget.prices and prompt is not None and output is not None
        cost, uncached = (round(one, 9) if is_known else None for one in costs)
        return EpisodeResult(
            task_id=self.task_id,
            instruction=self.instruction,
            status="interrupted" if root.status == Status.INVALID else root.status.value.lower(),
            gsr=None if score is None else score.gsr,
            ssr=None if score is None else score.ssr,
            decisions=budget.decisions,
            steps=budget.steps,
            max_depth=max((node.depth for node in context.nodes), default=1),
            agent_nodes=len(context.nodes),
            seconds=round(self._seconds, 3),
            prompt_tokens=prompt,
            cached_tokens=_total(one.cached_tokens for one in answers),
            output_tokens=output,
            reasoning_tokens=_total(reply.reasoning_tokens for reply in replies),
            model_seconds=round(math.fsum(one.seconds for one in answers), 3),
            end=end.value,
            message="; ".join(dict.fromkeys([*told, *([problem] if problem else [])])),
            robots=len(context.team.robots),
            makespan=context.team.makespan,
            questions=budget.questions,
            cost=cost,
            cost_uncached=uncached,
            reason=problem or self._reason(end),
            goal={} if score is None else dict(score.goal),
            unmet=[] if score is None else list(score.unmet),
            branches=len(counted),
            branches_done=left.count([]),
            undone=lacking,
            untouched=[] if root.holds_own_tree else context.untouched(self.instruction),
            **tally(one.refused_for(context.refusals.get(at, "")) for at, one in enumerate(replies)),
        )

    def _reason(self, end: EpisodeEnd) -> str:
        if end in LIMITED:
            return self.context.budget.reason()
        return why(self.root) if self.root.status == Status.FAILURE else ""

    def _end(self, left: Sequence[Behaviour], *, gone: bool) -> EpisodeEnd:
        """Say how the run ended, given what was left undone: a limit that ended some of it is the end of all."""
        root, failure = self.root, self.root.failure
        if root.status not in (Status.SUCCESS, Status.FAILURE):
            return EpisodeEnd.INTERRUPTED
        if self.context.fatal is not None:
            return EpisodeEnd(self.context.fatal.kind.value)
        if gone:
            return EpisodeEnd.WORLD_GONE
        if any(kind_of_failure(one) in BY_LIMIT for one in (root, *left)):
            return EpisodeEnd((self.context.limit or self.context.budget.reached() or Limit.DECISIONS).end)
        return EpisodeEnd.DONE if failure is None else EpisodeEnd(failure.kind.value)

    # ------------------------------------------------------------------ what is learnt

    def experiences(self) -> list[Experience]:
        task_id = str(self.task_id or 0)
        nodes = dict.fromkeys(self.context.nodes)  # one may have begun several times
        found = (node.experience(task_id=task_id, task_name=self.task_name) for node in nodes)
        return [experience for experience in found if experience is not None]

    def remember(self, result: EpisodeResult, *, agreed: bool = False) -> int:
        """Add new experiences to the memory, if there is one that takes them and the goal was reached.

        Where the options want routines, that of the run is kept, too, if its task's goal, or a person, has judged it.
        """
        self.learning.settle()
        if not result.whole:
            return 0
        judged = agreed or (result.gsr == 1.0 and not result.goal)  # by a read goal no routine can be tried out
        run = "" if self._record is None else self._record.id
        self.learning.learn(self.root, run=run, judged=judged)
        return 0 if self._memory is None or self._memory.fixed else self._memory.keep(self.experiences())


def examples_from(memory: EpisodicMemory | None, model: LanguageModel, options: TreeOptions) -> Examples | None:
    if memory is None:
        return None
    # The memory's own thread counts; what is counted there is no part of the run's record.
    count = counting(model.count_tokens)
    memory.read_ahead(count)
    return partial(memory.find, count_tokens=count, seed=options.seed, most=options.max_examples)


class _Undecided(Listener):
    def __init__(self, ended: Callable[[], None]) -> None:
        self._ended = ended

    def observed(self, node: Goal, observation: Observation) -> None:
        if isinstance(node, SkillNode):
            self._ended()


def _total(counts: Iterable[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None
