"""The process that plays ALFWorld's games: a line of JSON in, a line of JSON out.

``python -m reactree_ros.world.alfworld.player`` says that it is there, then answers each request in order: ``load``
with a game's data, ``reset``, ``step`` with a command. It ends where nobody writes to it any more.
"""

from __future__ import annotations

import functools
import json
import os
import queue
import sys
import threading
from collections.abc import Mapping
from typing import Any

from reactree_ros.world.alfworld.rooms import package

#: The facts that are told: what changes, and what stands where.
TOLD = frozenset(
    {
        *("atlocation", "receptacleatlocation", "openable", "opened", "inreceptacle", "holds"),
        *("isclean", "ishot", "iscool", "istoggled"),
    }
)


class Player:
    """Plays one game at a time, by TextWorld and ALFWorld's own names of things."""

    def __init__(self) -> None:
        os.environ.setdefault("ALFWORLD_DATA", str(package()))  # or else importing it makes a folder
        import fast_downward
        import textworld
        from alfworld.agents.environment.alfred_tw_env import AlfredDemangler
        from textworld.envs.pddl import PddlEnv

        # Loading and resetting each translate a game anew, for the same result.
        fast_downward.pddl2sas = functools.lru_cache(maxsize=2)(fast_downward.pddl2sas)
        self._game: object = None  # that is loaded
        self._env = AlfredDemangler(PddlEnv(textworld.EnvInfos(facts=True, admissible_commands=True)))

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Do what is asked; returns how the game is then."""
        if request["do"] == "load" and request["game"] != self._game:  # planners take turns on a game
            self._game = None
            self._env.load(request["game"])
            self._game = request["game"]
        if request["do"] == "step":
            state, _, _ = self._env.step(request["command"])
        else:
            state = self._env.reset()
        facts = [(fact.name, *(name.strip() for name in fact.names)) for fact in state["facts"] if fact.name in TOLD]
        commands = [command.strip() for command in state["admissible_commands"]]
        return {"text": state["feedback"], "commands": commands, "won": bool(state["won"]), "facts": facts}


def main() -> None:
    """Answer until nobody asks any more."""
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="ascii", buffering=1)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever else is printed
    requests: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(requests,), daemon=True).start()
    player = Player()
    replies.write("{}\n")
    while True:
        try:
            reply = player.answer(json.loads(requests.get()))
        except (Exception, SystemExit) as error:  # the translator exits where a problem is no PDDL
            reply = {"error": " ".join(f"{type(error).__name__}: {error}".split())}
        replies.write(f"{json.dumps(reply)}\n")


def _listen(requests: queue.SimpleQueue[str]) -> None:
    """Take requests in; ends the process with whoever asks, whatever it is at."""
    for line in sys.stdin:
        requests.put(line)
    os._exit(0)


if __name__ == "__main__":
    main()
