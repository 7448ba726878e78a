"""The settings of each node; parameters and launch arguments are made from them."""

from __future__ import annotations

import re
from typing import Literal

from pydantic import Field, field_validator

from reactree_ros.llm.engine_settings import AnsweringLimits
from reactree_ros.llm.spec import MODELS, named_model
from reactree_ros.memory.spec import memory
from reactree_ros.planners.spec import planner
from reactree_ros.plugins.settings import Settings
from reactree_ros.tree.options import RunOptions
from reactree_ros.world.spec import WORLDS

#: The planner if none is named and the language model was trained for none.
PLANNER = "reactree"
#: Longest time between two heartbeats of a living node, in seconds; the machine may be busy.
SILENCE = 1.5


class BridgeSettings(Settings):
    """Settings of every bridge."""

    policy: str = Field(default="", description="skill policy, a YAML file; empty: every skill is carried out")
    routine_skills: str = Field(
        default="", description="routines that are skills, too: a file of XML, or a folder of them; empty: none"
    )
    house_map: str = Field(
        default="", description="file that keeps where things were seen, from start to start; empty: none"
    )
    confirm_timeout: float = Field(default=30.0, ge=0.1, le=3600.0, description="longest wait for a person, in seconds")
    skill_timeout: float = Field(
        default=300.0, ge=0.1, le=86400.0, description="longest time for one skill, in seconds"
    )
    stop_timeout: float = Field(
        default=10.0, ge=0.1, le=3600.0, description="longest time until nothing moves after a stop, in seconds"
    )


class HouseholdBridgeSettings(Settings):
    """Settings of the household bridge, in addition to those of its world."""

    world: str = Field(default=WORLDS.default, description="the world to host")
    vision: str = Field(
        default="",
        description="a language model that answers questions about pictures, as NAME:SETTING=VALUE:…; empty: none",
    )

    @field_validator("vision")
    @classmethod
    def _there_is_such_a_model(cls, text: str) -> str:
        if text:
            named_model(text)
        return text


class RobotBridgeSettings(Settings):
    """Settings of the robot bridge."""

    robot_config: str = Field(
        default="", description="a file like robot.yaml, which names the ROS action or service of each skill"
    )
    dry_run: bool = Field(default=False, description="log every goal and send none")
    server_timeout: float = Field(
        default=30.0,
        ge=0.1,
        le=600.0,
        description="how long a robot's server may be away, reject a goal or take to accept it, in seconds",
    )


class Watching(Settings):
    """Settings of the nodes that hear whether others live: the watchdog and the planner."""

    silence: float = Field(
        default=SILENCE,
        ge=0.5,
        le=60.0,
        description="how long a node may be silent before it counts as dead, in seconds; more on a busy computer",
    )


class InferenceNodeSettings(AnsweringLimits):
    """Settings of the inference node, in addition to those of its language model; its limits hold for all of them."""

    llm: str = Field(default=MODELS.default, description="the language model to host")
    models_file: str = Field(
        default="", description="YAML file with all settings of one or several language models; overrides the others"
    )


class PlannerNodeSettings(Watching):
    """Settings of the planner node."""

    bridge: str = Field(default="household_bridge", description="name of the bridge node")
    robots: str = Field(
        default="",
        description="names of several robots, with commas; each has a bridge in a namespace of its name; empty: one",
    )
    inference: str = Field(default="inference", description="name of the inference node")
    tick_rate: float = Field(
        default=10.0, ge=0.1, le=1000.0, description="ticks a second; the end of a skill or reply ticks the tree, too"
    )
    memory: str = Field(
        default="",
        description="episodic memory: a file, or STORE:SETTING=VALUE for another store; empty: the one that comes with "
        "the household, if there is one; none: no examples but a fixed one",
    )
    on_busy: Literal["reject", "queue", "preempt"] = Field(
        default="reject", description="what happens to a goal while a task runs"
    )
    triggers: str = Field(
        default="",
        description="a robot's file, like robot.yaml, whose triggers start instructions by themselves; empty: none do",
    )
    queue_size: int = Field(default=16, ge=1, le=10000, description="goals that may wait")
    server_timeout: float = Field(
        default=30.0, ge=0.1, le=3600.0, description="how long bridge or inference node may be away, in seconds"
    )

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(filter(None, (name.strip() for name in self.robots.split(","))))

    @field_validator("memory")
    @classmethod
    def _there_is_such_a_store(cls, name: str) -> str:
        if name:
            memory(name)
        return name

    @field_validator("robots")
    @classmethod
    def _each_once(cls, robots: str) -> str:
        names = [name.strip() for name in robots.split(",") if name.strip()]
        if wrong := [name for name in names if not re.fullmatch(r"[A-Za-z]\w*", name, re.ASCII)]:
            raise ValueError(f"{wrong[0]!r} is not a namespace: a letter, then letters, digits and _")
        if twice := [name for name in names if names.count(name) > 1]:
            raise ValueError(f"names {twice[0]} twice")
        return robots


class TaskSettings(RunOptions):
    """Settings of tasks, unless their goal says otherwise; they may change while the node runs."""

    planner: str = Field(
        default="",
        description="planner by name, with options as NAME:OPTION=VALUE; empty: the one that the language model was "
        f"trained for, or {PLANNER}",
    )
    working_memory: bool = Field(default=True, description="remember where things were seen, if the planner can")
    save_to: str = Field(default="", description="folder in which each run is recorded; empty: none is")

    @field_validator("planner")
    @classmethod
    def _there_is_such_a_planner(cls, name: str) -> str:
        if name:
            planner(name)
        return name
