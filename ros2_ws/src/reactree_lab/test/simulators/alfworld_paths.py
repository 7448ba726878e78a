"""Ways through games of ALFWorld: by its handcoded expert, and by a planner."""

from __future__ import annotations

import functools
import json
import random
import re
from pathlib import Path
from typing import Any

from reactree_lab.worlds.alfworld.games import AlfworldTask


def write_game(folder: Path, task: AlfworldTask, **changed: object) -> Path:
    """Write a game as alfworld-download leaves its own: the game, and the trial beside it."""
    assert task.wanted is not None
    wanted = task.wanted
    name = (
        f"{task.task_name}-{wanted.item}-None-{wanted.receptacle or wanted.lamp}-{task.house.removeprefix('FloorPlan')}"
    )
    place = folder / name / "trial_T1"
    place.mkdir(parents=True)
    params = {"object_target": wanted.item, "parent_target": wanted.receptacle, "toggle_target": wanted.lamp}
    trial = {
        "task_type": task.task_name,
        "pddl_params": {**params, "mrecep_target": "", "object_sliced": False},
        "turk_annotations": {"anns": [{"task_desc": f"Please {task.instruction}."}]},
    }
    (place / "traj_data.json").write_text(json.dumps(trial), encoding="utf-8")
    file = place / "game.tw-pddl"
    file.write_text(json.dumps({**task.data(), "solvable": True, "walkthrough": None, **changed}), encoding="utf-8")
    return file


def bare(*, plans: bool = False) -> Any:
    """ALFWorld's own environment, without anything of ours."""
    import fast_downward
    import textworld
    from alfworld.agents.environment.alfred_tw_env import AlfredDemangler
    from textworld.envs.pddl import PddlEnv

    if not hasattr(fast_downward.pddl2sas, "cache_info"):  # loading and resetting translate the same
        fast_downward.pddl2sas = functools.lru_cache(maxsize=2)(fast_downward.pddl2sas)
    infos = textworld.EnvInfos(facts=True, admissible_commands=True, policy_commands=plans)
    return AlfredDemangler(PddlEnv(infos))


def expert_path(folder: Path, task: AlfworldTask, *, seed: int = 0, as_it_is: bool = False) -> list[tuple[str, str]]:
    """What ALFWorld's handcoded expert does and sees until it has won; nothing where it does not in 150 steps.

    It takes its own steps in: ``move`` is the word of its ``put`` since ALFWorld 0.4, but what it takes for having put
    something down is still ``put``. Unless it is left as it is, it is told so.
    """
    from alfworld.agents.expert import HandCodedTWAgent

    random.seed(seed)
    file, env, expert = write_game(folder, task), bare(), HandCodedTWAgent(max_steps=150)
    env.load(str(file))
    state = env.reset()
    expert.reset(str(file))
    expert.observe(state["feedback"])
    path: list[tuple[str, str]] = []
    command = "look"  # as ALFWorld's own wrapper begins
    while not state["won"]:
        state, _, _ = env.step(command)
        path.append((command, state["feedback"]))
        told = command if as_it_is else re.sub("^move ", "put ", command)
        try:
            command = expert.act(state, 0, state["won"], told)
        except NameError:  # of which its ways to give up are kinds
            return []
        command = command if command in state["admissible_commands"] else "look"
    return path


def plan_for(task: AlfworldTask) -> list[str]:
    """The commands of Fast Downward's plan, which knows where everything is."""
    env = bare(plans=True)
    env.load(task.data())
    return [command.strip() for command in env.reset()["policy_commands"]]
