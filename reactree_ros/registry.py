"""What can be named: planners, worlds, language models and task suites, of this package and of others.

Each thing is one file with a spec in it. This package's specs are listed here; another distribution names its own as
entry points of the groups ``reactree_ros.planners``, ``.worlds``, ``.models``, ``.suites`` and ``.control_flows``::

    [project.entry-points."reactree_ros.worlds"]
    garden = "my_package.garden:SPEC"

A spec's settings are one pydantic model; command line, ROS parameters, launch arguments and tables are made from it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reactree_ros.plugins import Registry

if TYPE_CHECKING:
    from reactree_ros.lab.bench.spec import SuiteSpec
    from reactree_ros.llm.spec import ModelSpec
    from reactree_ros.planners.spec import PlannerSpec
    from reactree_ros.world.spec import WorldSpec


PLANNERS: Registry[PlannerSpec] = Registry(
    "planner",
    "reactree_ros.planners",
    {
        "reactree": "reactree_ros.planners.reactree:SPEC",
        "react": "reactree_ros.planners.react:SPEC",
        "hiagent": "reactree_ros.lab.planners.hiagent.planner:SPEC",
        "recode": "reactree_ros.lab.planners.recode.planner:SPEC",
        "codeact": "reactree_ros.lab.planners.codeact:SPEC",
        "adaplanner": "reactree_ros.lab.planners.adaplanner:SPEC",
        "adapt": "reactree_ros.lab.planners.adapt:SPEC",
        "zsp": "reactree_ros.lab.planners.zsp:SPEC",
        "tree_planner": "reactree_ros.lab.planners.tree_planner:SPEC",
    },
)
WORLDS: Registry[WorldSpec] = Registry(
    "world",
    "reactree_ros.worlds",
    {
        "virtualhome": "reactree_ros.household.symbolic:SPEC",
        "virtualhome_unity": "reactree_ros.household.unity:SPEC",
        "ai2thor": "reactree_ros.lab.worlds.ai2thor.world:SPEC",
        "pddl": "reactree_ros.lab.worlds.pddl.world:SPEC",
        "scienceworld": "reactree_ros.lab.worlds.scienceworld.world:SPEC",
        "jericho": "reactree_ros.lab.worlds.jericho.world:SPEC",
        "webshop": "reactree_ros.lab.worlds.webshop.world:SPEC",
        "alfworld": "reactree_ros.lab.worlds.alfworld.world:SPEC",
        "pyrobosim": "reactree_ros.lab.worlds.pyrobosim.world:SPEC",
    },
)
MODELS: Registry[ModelSpec] = Registry(
    "language model",
    "reactree_ros.models",
    {
        "expert": "reactree_ros.household.expert.model:SPEC",
        "openai": "reactree_ros.llm.openai.settings:SPEC",
        "vllm": "reactree_ros.llm.vllm_engine:SPEC",
        "transformers": "reactree_ros.llm.transformers_engine:SPEC",
        "small": "reactree_ros.llm.small.engine:SPEC",
        "fallback": "reactree_ros.llm.fallback:SPEC",
        "lapsing": "reactree_ros.household.expert.lapses:SPEC",
    },
)
SUITES: Registry[SuiteSpec] = Registry(
    "task suite",
    "reactree_ros.suites",
    {
        "wah_nl": "reactree_ros.lab.bench.suites:WAH_NL",
        "generated": "reactree_ros.lab.bench.suites:GENERATED",
        "vague": "reactree_ros.lab.bench.suites:VAGUE",
        "pddl": "reactree_ros.lab.bench.pddl:SPEC",
        "scienceworld": "reactree_ros.lab.bench.scienceworld:SPEC",
        "jericho": "reactree_ros.lab.bench.jericho:SPEC",
        "webshop": "reactree_ros.lab.bench.webshop:SPEC",
        "alfworld": "reactree_ros.lab.bench.alfworld:SPEC",
        "pyrobosim": "reactree_ros.lab.bench.pyrobosim:SPEC",
    },
)
#: Everything that can be named, as `reactree list` calls it.
REGISTRIES: dict[str, Registry[Any]] = {"planners": PLANNERS, "worlds": WORLDS, "models": MODELS, "suites": SUITES}
