"""The world ``webshop``: a thing is to be found in a shop and bought, at a server of AgentGym's.

Skills are what the shop's pages let one do: ``search[keywords]``, said freely, and ``click[…]`` with what the page has.
The score is WebShop's reward, from 0 to 1, of the first purchase; without one it is 0. After it nothing can be done.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import Field, field_validator

from reactree_ros.agent.grammar import LONGEST_SKILL
from reactree_ros.agent.household import Household
from reactree_ros.agent.reading.dress import unquoted
from reactree_ros.agent.reading.refusal import shortened
from reactree_ros.agent.reading.skills import NEAREST, Skills
from reactree_ros.background.pending import Pending
from reactree_ros.files.read_back import well_formed
from reactree_ros.lab.worlds.webshop.client import (
    Actions,
    Shop,
    borrow,
    check_server,
    give_back,
    instruction_of,
    read_address,
)
from reactree_ros.plugins.settings import Settings
from reactree_ros.world.port import Observation, Outcome, Score
from reactree_ros.world.spec import TasksOnDemand, WorldSettings, WorldSpec
from reactree_ros.world.worker_world import WorkerWorld

START_LINE = "The page shows:"
#: How many instructions WebShop has (paper, abstract); a server may have fewer, and does not say how many.
TASKS = 12_087
RULES = """How skills are said:
- search[keywords]: looks for things, e.g. search[green running shoes size 9]
- click[name]: clicks what is on the page: a thing's number, an option such as a colour or a size, or a button. From a \
page of results, click[next >] leads to the next one; from a thing's page, click[description] and click[features] tell \
more of it, click[< prev] leads back, click[back to search] to a new search
- click[buy now]: buys the thing with the options that were clicked. It can be done once, and ends the shopping
On a page, [SEP] stands between its parts. Which options of a thing were clicked is told after its page; of \
several of one kind, the last one counts."""
_OVER = "The purchase is made, and the shopping is over."
_SEARCH = re.compile(
    r"search(?:\s*\[(?P<in>.*)\]|\s*\((?P<round>.*)\)|\s+(?P<bare>[^\s\[(].*))", re.IGNORECASE | re.DOTALL
)
#: What the server takes for something else in keywords.
_NOT_IN_KEYWORDS = re.compile(r"[\[\]<>\s]+")
_SEARCH_BUTTON, _BACK, _PREVIOUS, _BUY = "search", "click[back to search]", "click[< prev]", "click[buy now]"

HOUSEHOLD = Household(
    name="webshop",
    actions=("click", "search"),
    naming="",
    rules=RULES,
    free_skills=True,
    start_line=START_LINE,
    max_decisions=100,
    max_steps=50,
    prompts="reactree_ros.lab.worlds.webshop:prompts",
)


@dataclass(frozen=True)
class WebShopTask:
    """Something that is to be bought.

    Attributes:
        server: The URL of the server.
        time_limit: How long it may take to answer, in seconds.
        session: The number of the goal there.
    """

    server: str
    time_limit: float
    session: int
    _told: list[str] = field(default_factory=list, init=False, repr=False, compare=False)

    @property
    def instruction(self) -> str:
        """What is asked for, in the words of the shop that a world of this task has, or else that the next one has.

        Shops at one server differ in their prices, and so in what is asked for: the latter is asked each time.

        Raises:
            WorldError: The server does not tell.
        """
        return next(iter(self._told), "") or instruction_of(self.server, self.time_limit, self.session)

    def told(self, *instruction: str) -> None:
        """Let it be known what the world's shop asks for; nothing: it has none any more."""
        self._told[:] = instruction

    @property
    def task_name(self) -> str:
        """The type of task; there is one."""
        return HOUSEHOLD.name

    def asks_for(self, instruction: str) -> bool:
        """Whether an instruction is the task's."""
        return instruction.strip() == self.instruction


class WebShop(WorkerWorld):
    """A goal at a server of AgentGym's WebShop.

    Args:
        task: The task.
        scored: Whether the task's goal is what is asked for.
    """

    household = HOUSEHOLD

    def __init__(self, task: WebShopTask, *, scored: bool = True) -> None:
        super().__init__("webshop", scored=scored)
        self._task = task
        self._shop: Shop | None = None
        self._page = ""  # as it was last seen
        self._actions: Actions | None = None  # of that page, once they were asked for
        self._options: tuple[str, ...] = ()  # that were clicked of the thing, the last one last
        self._reward, self._over = 0.0, False

    @property
    def free_verbs(self) -> Sequence[str]:
        """The search's: its keywords are said freely. What can be clicked, the page says."""
        return ("search",)

    def canonical(self, skill: str) -> Pending[str | Observation]:
        """See :meth:`World.canonical`; the page says what can be clicked."""
        return self._worker.do(lambda: self._meant(skill))

    def at_rest(self) -> Pending[None]:
        """Settle when the server has answered what was cancelled."""
        return self._worker.at_rest()

    # ------------------------------------------------------------------ in the worker's thread

    def _let_go(self) -> None:
        """Give the environment back, so that the next episode has it."""
        self._task.told()
        if self._shop is not None:
            give_back(self._shop)

    def _rate(self) -> Score:
        """Say the reward of the purchase."""
        return Score(float(self._reward == 1), self._reward)

    def _begin(self, seed: int | None = None) -> Shop:
        task, old = self._task, self._shop
        self._shop, self._page, self._actions, self._options = None, "", None, ()
        self._reward, self._over = 0.0, False
        task.told()
        if old is not None:
            give_back(old)
        self._shop = borrow(task.server, task.time_limit, task.session)
        task.told(self._shop.instruction())
        return self._shop

    @property
    def _here(self) -> Shop:
        return self._shop or self._begin()

    def _look(self) -> Observation:
        self._page = self._here.page()
        return self._seen()

    def _seen(self) -> Observation:
        options = f" You have clicked: {', '.join(self._options)}." if self._options and not self._over else ""
        return Observation(f"{START_LINE} {self._page}{options}")

    def _can(self) -> Actions:
        """Return what can be done on the page, as far as the server can be told."""
        if self._actions is None:
            actions = self._here.actions()
            clickables = [one for one in dict.fromkeys(actions.clickables) if _can_be_said(one)]
            self._actions = actions.model_copy(update={"clickables": clickables})
        return self._actions

    def _skills(self) -> list[str]:
        """List what can be clicked; where there is a search bar, a search for the instruction, too."""
        if self._over:
            return []
        can = self._can()
        searches = [f"search[{_keywords(self._task.instruction)}]"] if can.has_search_bar else []
        return [*searches, *map(_click, can.clickables)]

    def _take(self, skill: str) -> Observation:
        meant = self._meant(skill)
        return meant if isinstance(meant, Observation) else self._step(meant)

    def _meant(self, skill: str) -> str | Observation:
        """Return the action that is meant, as the server has it, or why there is none."""
        if self._over:
            return Observation(_OVER, Outcome.PRECONDITION)
        skill = " ".join(well_formed(skill).split())
        clicks = list(map(_click, self._can().clickables))
        if (click := Skills(clicks).meant(skill)) is not None:
            return click
        if (search := _SEARCH.fullmatch(skill.removesuffix("."))) is not None:
            keywords = _keywords(unquoted(next(filter(None, search.groups()), "")))
            if keywords:
                return f"search[{keywords}]"
            return Observation("A search needs keywords: search[keywords].", Outcome.PRECONDITION)
        skill = shortened(skill)
        near = difflib.get_close_matches(skill, self._skills(), n=NEAREST, cutoff=0.0)
        can = f"What can be done on this page, the nearest first: {', '.join(near) or 'search[keywords]'}"
        if re.match(r"click\s*[\[(\s]", skill, re.IGNORECASE):
            return Observation(f"There is nothing on this page for {skill}. {can}.", Outcome.PRECONDITION)
        return Observation(f"There is no way to {skill} here. {can}.", Outcome.UNKNOWN_SKILL)

    def _step(self, action: str) -> Observation:
        self._worker.check_wanted()
        before, could = self._page or self._here.page(), list(map(_click, self._can().clickables))
        self._actions = None
        step = self._here.step(action)
        self._page = step.state
        if step.done:
            self._reward, self._over = step.reward, True
        if action not in could or action == _BACK or (action == _PREVIOUS and _BUY in could):
            self._options = ()  # a page of results, or of the search, forgets them
        elif step.state == before:
            option = action[len("click[") : -1]
            self._options = (*(one for one in self._options if one != option), option)
        return self._seen()


def _click(name: str) -> str:
    return f"click[{name}]"


def _can_be_said(name: str) -> bool:
    """Whether the server reads a click on something as one, and takes it for it."""
    return bool(name.strip()) and name == name.lower() and not re.search(r"[\[\n]", name) and name != _SEARCH_BUTTON


def _keywords(said: str) -> str:
    """Return keywords as they can be said in an action."""
    return _NOT_IN_KEYWORDS.sub(" ", said).strip()[: LONGEST_SKILL - len("search[]")].strip()


class ServerSettings(Settings):
    """Where the server is."""

    server: str = Field(default="http://127.0.0.1:36001", description="URL of AgentGym's WebShop server")
    time_limit: float = Field(
        default=300.0, gt=0, le=3600, description="longest wait for an answer, in seconds; making a shop takes a while"
    )

    _is_one = field_validator("server")(read_address)


class WebShopSettings(WorldSettings, ServerSettings):
    """Which goal at which server; the number of a task is WebShop's ``session``."""

    @property
    def of_many(self) -> bool:
        """Whether the tasks are those of a file of many: the server would have to tell what each asks for."""
        return True


def tasks_of(settings: ServerSettings, ids: Sequence[int] = range(TASKS)) -> Mapping[int, WebShopTask]:
    """Return the tasks at a server, by number.

    Raises:
        UserError: There is no server.
    """
    check_server(settings.server, settings.time_limit)
    return TasksOnDemand(ids, lambda one: WebShopTask(settings.server, settings.time_limit, one))


def _make(settings: WebShopSettings, task: WebShopTask, *, scored: bool = True) -> WebShop:
    return WebShop(task, scored=scored)


SPEC = WorldSpec(
    name="webshop",
    summary="WebShop's shopping tasks, at a server of AgentGym's over HTTP",
    settings=WebShopSettings,
    household=HOUSEHOLD,
    load_tasks=tasks_of,
    make=_make,
    flags=("task_id",),
)
