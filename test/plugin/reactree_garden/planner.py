"""The planner ``pick``: one node that picks a skill at a time, without a thought."""

from __future__ import annotations

from pydantic import Field

from reactree_ros.agent.decision import DONE
from reactree_ros.agent.kinds.act import Act
from reactree_ros.agent.prompt import prompt, task_turn
from reactree_ros.llm.port import Choice
from reactree_ros.planners.spec import PlannerSettings, PlannerSpec
from reactree_ros.tree.context import RunContext
from reactree_ros.tree.goal_node import GoalNode
from reactree_ros.tree.program_node import Program
from reactree_ros.world.port import Outcome


class PickSettings(PlannerSettings):
    """Options of ``pick``."""

    patience: int = Field(default=3, ge=1, description="how many skills may fail, one after the other")


class PickNode(GoalNode):
    """Picks a skill at a time; see :class:`~reactree_ros.tree.goal_node.GoalNode`."""

    def __init__(self, instruction: str, context: RunContext, settings: PickSettings) -> None:
        super().__init__(instruction, context)
        self._patience = settings.patience

    def program(self) -> Program:
        self.begin_prompt(prompt("reactree_garden:prompts", "pick.txt"), ())
        self.add(task_turn(self.subgoal))
        self.see((yield from self.look_around()))
        failed = 0
        while failed < self._patience:
            skills = yield from self.available_skills()
            reply = yield from self.ask(Choice((*self.own_actions(), *skills)), begun="Act: ")
            act = Act(reply.text)
            if act.ends:
                self.context.listener.decided(self, act, reply)
                self.say(str(act), act)
                return act.skill == DONE
            observation = yield from self.act(act, reply)
            failed = 0 if observation.outcome is Outcome.DONE else failed + 1
        return False


SPEC = PlannerSpec(
    name="pick",
    summary="one node that picks a skill at a time, without a thought",
    settings=PickSettings,
    build=PickNode,
    remembers=True,
)
