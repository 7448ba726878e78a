"""The process that plays ALFWorld's games, for :class:`~reactree_lab.worlds.alfworld.world.AlfworldProcess`."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from typing import Any

from reactree_lab.worlds.alfworld.rooms import package
from reactree_lab.worlds.running import serve

#: The reported facts: changes, and places of furniture.
TOLD = frozenset(
    {
        *("atlocation", "receptacleatlocation", "openable", "opened", "inreceptacle", "holds"),
        *("isclean", "ishot", "iscool", "istoggled"),
    }
)


class Player:
    def __init__(self) -> None:
        os.environ.setdefault("ALFWORLD_DATA", str(package()))  # otherwise importing it would make a folder
        import fast_downward
        import textworld
        from alfworld.agents.environment.alfred_tw_env import AlfredDemangler
        from textworld.envs.pddl import PddlEnv

        # Loading and resetting each translate a game again, with the same result.
        fast_downward.pddl2sas = functools.lru_cache(maxsize=2)(fast_downward.pddl2sas)
        self._game: object = None  # the loaded game
        self._env = AlfredDemangler(PddlEnv(textworld.EnvInfos(facts=True, admissible_commands=True)))

    def load(self, game: Mapping[str, Any]) -> dict[str, Any]:
        if game != self._game:  # planners take turns on a game
            self._game = None
            self._env.load(game)
            self._game = game
        return self.reset()

    def reset(self) -> dict[str, Any]:
        return _told(self._env.reset())

    def step(self, command: str) -> dict[str, Any]:
        state, _, _ = self._env.step(command)
        return _told(state)


def _told(state: Mapping[str, Any]) -> dict[str, Any]:
    facts = [(fact.name, *(name.strip() for name in fact.names)) for fact in state["facts"] if fact.name in TOLD]
    commands = [command.strip() for command in state["admissible_commands"]]
    return {"text": state["feedback"], "commands": commands, "won": bool(state["won"]), "facts": facts}


if __name__ == "__main__":
    serve(Player)
