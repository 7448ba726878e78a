"""The task suite ``webshop``: purchases in WebShop, at AgentGym's server."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from reactree_lab.bench import published
from reactree_lab.bench.spec import SuiteSpec
from reactree_lab.worlds.webshop.world import ServerSettings, WebShop, WebShopTask, tasks_of


class WebShopSuiteSettings(ServerSettings):
    first: int = Field(default=0, ge=0, description="number of the first task; WebShop's own tests are 0 to 499")
    number: int = Field(default=200, ge=1, description="number of tasks")


def _tasks(settings: WebShopSuiteSettings) -> Mapping[int, WebShopTask]:
    return tasks_of(settings, range(settings.first, settings.first + settings.number))


SPEC = SuiteSpec(
    name="webshop",
    summary="purchases in WebShop, at AgentGym's server, in the world `webshop`",
    settings=WebShopSuiteSettings,
    tasks=_tasks,
    make_world=WebShop,
    ssr="reward",
    published=(published.WEBSHOP,),
)
