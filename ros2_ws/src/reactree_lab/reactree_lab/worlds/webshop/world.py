"""The world ``webshop``: find a product in a shop and buy it, at AgentGym's server.

Skills follow the shop's pages: ``search[keywords]``, in free words, and ``click[…]`` with a name on the page. The score
is WebShop's reward, from 0 to 1, for the first purchase; without one it is 0. After it, no skill is available.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import Field, field_validator

from reactree_lab.bench import published
from reactree_lab.bench.spec import SuiteSpec
from reactree_lab.worlds.running import WorkerWorld
from reactree_lab.worlds.webshop.client import (
    Actions,
    Shop,
    borrow,
    check_server,
    give_back,
    instruction_of,
    read_address,
)
from reactree_ros.agent.grammar import LONGEST_SKILL
from reactree_ros.agent.household import Household
from reactree_ros.agent.labels import shortened, undressed
from reactree_ros.agent.reading.skills import NEAREST, Skills
from reactree_ros.background.pending import Pending
from reactree_ros.files.read_back import well_formed
from reactree_ros.plugins.settings import Settings
from reactree_ros.world.port import Observation, Outcome, Score
from reactree_ros.world.spec import TasksOnDemand, WorldSettings, WorldSpec

START_LINE = "The page shows:"
#: Number of WebShop's instructions (paper, abstract); a server may have fewer, and does not tell.
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
#: Characters with another meaning in keywords.
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
    prompts="reactree_lab.worlds.webshop:prompts",
)


@dataclass(frozen=True)
class WebShopTask:
    server: str  # the URL of the server
    time_limit: float  # longest wait for an answer, in seconds
    session: int  # the number of the goal there
    _told: list[str] = field(default_factory=list, init=False, repr=False, compare=False)

    @property
    def instruction(self) -> str:
        """The instruction in the current shop of this task's world or, without a shop, in the next one.

        Shops at one server differ in prices, and so in instructions; without a shop, the server is asked each time.
        """
        return next(iter(self._told), "") or instruction_of(self.server, self.time_limit, self.session)

    def instruct(self, *instruction: str) -> None:
        """Set the instruction of the world's shop; nothing if it has no shop any more."""
        self._told[:] = instruction

    @property
    def task_name(self) -> str:
        return HOUSEHOLD.name


class WebShop(WorkerWorld):
    household = HOUSEHOLD

    def __init__(self, task: WebShopTask, *, scored: bool = True) -> None:
        super().__init__("webshop", scored=scored)
        self._task = task
        self._shop: Shop | None = None
        self._page = ""  # as last seen
        self._actions: Actions | None = None  # of that page, once asked for
        self._options: tuple[str, ...] = ()  # clicked options of the product, the last one last
        self._reward, self._over = 0.0, False

    @property
    def free_verbs(self) -> Sequence[str]:
        return ("search",)

    def canonical(self, skill: str) -> Pending[str | Observation]:
        return self._worker.do(lambda: self._meant(skill))

    # ------------------------------------------------------------------ in the worker's thread

    def _let_go(self) -> None:
        self._task.instruct()
        if self._shop is not None:
            give_back(self._shop)

    def _rate(self) -> Score:
        return Score(float(self._reward == 1), self._reward)

    def _begin(self, seed: int | None = None) -> Shop:
        task, old = self._task, self._shop
        self._shop, self._page, self._actions, self._options = None, "", None, ()
        self._reward, self._over = 0.0, False
        task.instruct()
        if old is not None:
            give_back(old)
        self._shop = borrow(task.server, task.time_limit, task.session)
        task.instruct(self._shop.instruction())
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
        if self._actions is None:
            actions = self._here.actions()
            clickables = [one for one in dict.fromkeys(actions.clickables) if _can_be_said(one)]
            self._actions = actions.model_copy(update={"clickables": clickables})
        return self._actions

    def _skills(self) -> list[str]:
        if self._over:
            return []
        can = self._can()
        searches = [f"search[{_keywords(self._task.instruction)}]"] if can.has_search_bar else []
        return [*searches, *map(_click, can.clickables)]

    def _take(self, skill: str) -> Observation:
        meant = self._meant(skill)
        return meant if isinstance(meant, Observation) else self._step(meant)

    def _meant(self, skill: str) -> str | Observation:
        if self._over:
            return Observation(_OVER, Outcome.PRECONDITION)
        skill = " ".join(well_formed(skill).split())
        clicks = list(map(_click, self._can().clickables))
        if (click := Skills(clicks).meant(skill)) is not None:
            return click
        if (search := _SEARCH.fullmatch(skill.removesuffix("."))) is not None:
            keywords = _keywords(undressed(next(filter(None, search.groups()), "")))
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
    return bool(name.strip()) and name == name.lower() and not re.search(r"[\[\n]", name) and name != _SEARCH_BUTTON


def _keywords(said: str) -> str:
    return _NOT_IN_KEYWORDS.sub(" ", said).strip()[: LONGEST_SKILL - len("search[]")].strip()


class ServerSettings(Settings):
    server: str = Field(default="http://127.0.0.1:36001", description="URL of AgentGym's WebShop server")
    time_limit: float = Field(
        default=300.0, gt=0, le=3600, description="longest wait for an answer, in seconds; making a shop takes a while"
    )

    _is_one = field_validator("server")(read_address)


class WebShopSettings(WorldSettings, ServerSettings):
    """The goal and its server; the number of a task is WebShop's ``session``."""

    @property
    def of_many(self) -> bool:
        return True


def tasks_of(settings: ServerSettings, ids: Sequence[int] = range(TASKS)) -> Mapping[int, WebShopTask]:
    check_server(settings.server, settings.time_limit)
    return TasksOnDemand(ids, lambda one: WebShopTask(settings.server, settings.time_limit, one))


SPEC = WorldSpec(
    name="webshop",
    summary="WebShop's shopping tasks, at AgentGym's server over HTTP",
    settings=WebShopSettings,
    household=HOUSEHOLD,
    load_tasks=tasks_of,
    make=lambda settings, task, **given: WebShop(task, **given),
    flags=("task_id",),
)


class WebShopSuiteSettings(ServerSettings):
    first: int = Field(default=0, ge=0, description="number of the first task; WebShop's own tests are 0 to 499")
    number: int = Field(default=200, ge=1, description="number of tasks")


def _suite_tasks(settings: WebShopSuiteSettings) -> Mapping[int, WebShopTask]:
    return tasks_of(settings, range(settings.first, settings.first + settings.number))


SUITE = SuiteSpec.in_world(
    SPEC,
    summary="purchases in WebShop, at AgentGym's server, in the world `webshop`",
    settings=WebShopSuiteSettings,
    tasks=_suite_tasks,
    make_world=WebShop,
    ssr="reward",
    published=(published.WEBSHOP,),
)
