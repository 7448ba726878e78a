"""What a goal node sees and does in the world, and what it asks of the memories."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from reactree_ros.agent.decision import DONE, FAILURE, RECALL
from reactree_ros.agent.skill import Offer, Offered, SkillCall
from reactree_ros.background.pending import Pending, asked
from reactree_ros.memory.experience import Experience
from reactree_ros.tree.context import Call
from reactree_ros.tree.failure import BrokenOff, LimitReached, MemoryGone, RobotLost
from reactree_ros.tree.program import Execute, Hold, Step, Wait
from reactree_ros.tree.team import Robot
from reactree_ros.world.port import Observation, Outcome, World, WorldError

if TYPE_CHECKING:
    from reactree_ros.tree.goal_node import GoalNode


class Senses:
    """Sees and acts for a goal node through the robot that it has, and asks the memories.

    Args:
        node: The goal node.
    """

    def __init__(self, node: GoalNode) -> None:
        self._node, self._context = node, node.context
        self._looked_as: Robot | None = None  # as which it looked around last
        self._news = self._context.team.news.count  # how many there were when it was told of them last

    def hold(self) -> Generator[Step, Any, bool]:
        """Wait as long as the run is held, then take in what is to be seen; asking and acting do so by themselves.

        Returns:
            Whether it had to wait, and so has looked around.

        Raises:
            Held: It was held for too long.
            WorldError: The world failed.
        """
        node, waited = self._node, False
        while (reason := node.held()) or self._looked_as not in (None, node.post.robot):
            seen = yield from self._after_hold(f"You had to wait: {reason}." if reason else "")
            yield from node.resumed(seen)
            waited = True
        return waited

    def _after_hold(self, words: str) -> Generator[Step, Any, Observation]:
        before, node = self._looked_as, self._node
        yield Hold()
        node.post.robot.at = ""  # somebody may have moved it
        seen = yield from node.look_around()
        now = "" if before in (None, node.post.robot) else f"You are {node.post.robot.name} now."
        told = " ".join(filter(None, (words, now, "You may go on.", seen.text)))
        return replace(seen, text=told, outcome=Outcome.HALTED)

    def look_around(self) -> Generator[Step, Any, Observation]:
        """See :meth:`GoalNode.look_around`."""
        self._node.post.robot.world.attend(self._node.subgoal)
        observation = yield from self._ask("observation", "observe", lambda world: world.observe())
        self._looked_as = self._node.post.robot
        self._context.remember(observation, self._looked_as)
        return observation

    def survey(self) -> Generator[Step, Any, Observation]:
        """Return all there is in the world.

        Raises:
            WorldError: The world cannot say that, or failed.
        """
        return (yield from self._ask("description of the world", "survey", lambda world: world.survey()))

    def _ask(
        self, what: str, of: str, ask: Callable[[World], Pending[Observation]]
    ) -> Generator[Step, Any, Observation]:
        """Ask the robot, and if it is gone the one that goes on."""
        while True:
            try:
                pending = asked(ask, self._node.post.robot.world)
                observation: Observation = yield Wait(what, pending, WorldError, call=Call(of))
            except RobotLost:
                yield Hold()
            else:
                return observation

    def skills(self) -> Generator[Step, Any, Sequence[Offered]]:
        """See :meth:`GoalNode.available_skills`."""
        while True:
            yield from self.hold()
            pending = asked(self._node.post.robot.world.available_skills)
            try:
                skills: Sequence[Offered] = yield Wait("skills", pending, WorldError, call=Call("skills"))
            except RobotLost as lost:
                self._node.see((yield from self._after_hold(f"You could not go on: {lost}.")))
            else:
                return skills

    def corrections(self) -> Generator[Step, Any, Sequence[Offer]]:
        """Return what a person may correct of what the world knows.

        Raises:
            WorldError: The world failed.
        """
        pending = asked(self._node.post.robot.world.corrections)
        offers: Sequence[Offer] = yield Wait("corrections", pending, WorldError, call=Call("corrections"))
        return offers

    def correct(self, correction: SkillCall) -> Generator[Step, Any, Observation]:
        """Have the world take in what the person has confirmed; what comes back is a look around, or why it does not.

        Raises:
            WorldError: The world failed.
        """
        pending = asked(self._node.post.robot.world.correct, correction)
        observation: Observation = yield Wait(
            "correction", pending, WorldError, call=Call("correct", correction=correction)
        )
        self._context.remember(observation, self._node.post.robot)
        return observation

    def own_actions(self) -> list[str]:
        """Return what may be done besides the world's skills: the ends, and what working memory may be asked."""
        recall = self._node.post.robot.world.recallable if self._context.working_memory is not None else ()
        return [DONE, FAILURE, *(RECALL + word for word in recall)]

    def find_examples(self) -> Generator[Step, Any, tuple[Experience, ...]]:
        """Ask episodic memory for experiences; nothing if there is none, or it has nothing.

        Raises:
            MemoryGone: It failed, or did not answer in time.
        """
        examples = self._context.examples
        if examples is None:
            return ()
        pending = asked(examples, self._node.subgoal)
        try:
            found: tuple[Experience, ...] = yield Wait("examples", pending, MemoryGone, call=Call("examples"))
        except (MemoryGone, LimitReached):
            raise
        except Exception as error:
            raise MemoryGone(f"no examples: {error}") from error
        return found

    def perform(self, skill: str) -> Generator[Step, Any, Observation]:
        """See :meth:`GoalNode.perform`."""
        context, node = self._context, self._node
        node.post.robot.elapsed += 1
        if context.working_memory is not None and skill.startswith(RECALL):
            observation = Observation(context.recall(skill.removeprefix(RECALL), node.post.robot))
            context.listener.came(node, Call("recall"), observation)
        else:
            try:
                observation = yield Execute(skill)
            except BrokenOff as held:
                observation = Observation(f"You were stopped before you had done it: {held}.", Outcome.HALTED)
            if observation.outcome is Outcome.HALTED:
                observation = yield from self._after_hold(observation.text)
            context.remember(observation, node.post.robot)
            call = node.post.robot.did(skill, observation.outcome)
            if observation.outcome is Outcome.DONE:
                context.touched.append(f"{skill} {node.post.robot.room}")
                if call is not None:
                    context.placed.pop(call.value("held"), None)
                    context.placed |= {name: node.post.robot.at for name in [call.value("released")] if name}
        context.listener.observed(node, observation)
        return self._with_news(observation)

    def _with_news(self, observation: Observation) -> Observation:
        team, since = self._context.team, self._news
        self._news = team.news.count
        return team.told(self._node.post.robot, observation, self._node.subgoal, since)
