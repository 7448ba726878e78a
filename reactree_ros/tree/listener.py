"""What is told of a run as it happens, and to whom."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from py_trees.behaviour import Behaviour

from reactree_ros.agent.decision import Decision
from reactree_ros.agent.observation import Observation
from reactree_ros.agent.turns import Said, Turn
from reactree_ros.llm.port import DecisionRequest, Reply
from reactree_ros.tree.goal import Goal


@dataclass(frozen=True)
class Call:
    """What a goal node waits for from outside.

    Attributes:
        of: ``reply``, ``answer`` (a person's), ``observe``, ``execute``, ``survey``, ``skills``, ``examples``,
            ``routine``, ``corrections``, ``correct`` or ``score``; also ``recall``, which the run itself answers, and
            ``hold``, which somebody ends.
    """

    of: str
    id: str = ""  # of the request or the question, where it is a reply or an answer
    correction: str = ""  # what the person has confirmed, where it is that


class Listener:
    """Told what happens in a run, as it happens; overriding a method is optional."""

    # A goal node begins.
    def node_started(self, node: Goal) -> None: ...
    # A goal node has decided; the decision is counted and about to be carried out.
    def decided(self, node: Goal, decision: Decision, reply: Reply) -> None: ...
    # What a goal node said, read as a decision where it is one, was not carried out; the model is told why.
    def refused(self, node: Goal, said: Said, reason: str) -> None: ...
    # A prompt was ``excess`` tokens too long: its ``dropped`` least similar examples are left out from now on.
    # The last of the others may be shorter; if none is dropped, it is.
    def shortened(self, node: Goal, dropped: int, excess: int) -> None: ...
    # A skill or a recall has ended.
    def observed(self, node: Goal, observation: Observation) -> None: ...
    # An observation is taken in, of a skill or of looking around.
    def saw(self, observation: Observation) -> None: ...
    # The run holds at a goal node, and why; an empty reason: it goes on.
    def held(self, node: Goal, reason: str) -> None: ...
    # A goal node has ended; see its status and its feedback message.
    def node_ended(self, node: Goal) -> None: ...
    # A routine that a goal node ran has ended; ``differed``: what was not as expected, empty if all was.
    def routine_ended(self, node: Goal, routine: str, differed: str) -> None: ...
    # A leaf of a tree of one's own has ended or was interrupted, with all that grew under it.
    def leaf_stopped(self, node: Goal) -> None: ...
    # A request is about to go to the language model.
    def asked(self, node: Goal, request: DecisionRequest) -> None: ...
    # A skill is about to go to the world.
    def sent(self, node: Goal, skill: str) -> None: ...
    # A goal node has asked for something outside, and begins to wait for it.
    def waits(self, node: Goal, call: Call) -> None: ...
    # What a goal node waits for is cancelled; its status says whether the node itself is interrupted.
    def broken_off(self, node: Goal) -> None: ...
    # What a goal node waited for is there: a reply, an answer, an observation, skills or experiences.
    def came(self, node: Goal, call: Call, answer: Any) -> None: ...
    # What a goal node waited for failed, or did not come in time.
    def call_failed(self, node: Goal, call: Call, error: Exception, *, late: bool = False) -> None: ...
    # A goal node has one turn more; ``anew``: its turns begin again with it.
    def turned(self, node: Goal, turn: Turn, *, anew: bool = False) -> None: ...
    # The tree has grown.
    def grown(self, parent: Behaviour, subtree: Behaviour) -> None: ...
    # A behaviour, with what grows under it, has a robot from now on, of several; None: the whole tree.
    def manned(self, behaviour: Behaviour | None, robot: str) -> None: ...
    # A person has said something that is not an answer; goal nodes that can take it in are told.
    def heard(self, words: str) -> None: ...
    # The seconds that the run may take are over; what is under way is canceled.
    def time_is_up(self) -> None: ...
    # The language model's tokenizer has counted the tokens of a text.
    def counted(self, tokens: int) -> None: ...


class Listeners(Listener):
    def __init__(self, *listeners: Listener) -> None:
        for name, ignored in vars(Listener).items():
            methods = [getattr(one, name) for one in listeners if not name.startswith("_")]
            methods = [method for method in methods if getattr(method, "__func__", None) is not ignored]
            if methods:
                setattr(self, name, methods[0] if len(methods) == 1 else partial(_each, methods))


def _each(methods: list[Callable[..., None]], *what: Any, **named: Any) -> None:
    for method in methods:
        method(*what, **named)
