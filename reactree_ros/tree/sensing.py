"""What a goal node is told, says and sees, what it does in the world, and what it asks of the memories."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from typing import Any

from reactree_ros.agent.decision import DONE, FAILURE, RECALL, Decision
from reactree_ros.agent.skill import Offer, Offered, SkillCall
from reactree_ros.agent.turns import About, Said, Saw, Told, Turn
from reactree_ros.background.pending import Pending, asked
from reactree_ros.memory.experience import Experience
from reactree_ros.tree.failure import BrokenOff, LimitReached, MemoryGone, RobotLost
from reactree_ros.tree.goal import OfAttempt
from reactree_ros.tree.listener import Call
from reactree_ros.tree.program import Execute, Hold, Step, Wait
from reactree_ros.tree.program_node import ProgramNode
from reactree_ros.tree.team import Robot
from reactree_ros.world.port import Observation, Outcome, World, WorldError


class SensingNode(ProgramNode):
    """Sees and acts through the robot that it has, and asks the memories. All that fails raises a WorldError."""

    _looked_as = OfAttempt[Robot | None](lambda _: None)  # as which it looked around last

    # ------------------------------------------------------------------ turns

    def add(self, turn: Turn, *, anew: bool = False) -> None:
        """Add a turn; ``anew``: the turns begin again with it, and those before are not the node's any more."""
        if anew:
            self.turns = []
        self.turns.append(turn)
        self.context.listener.turned(self, turn, anew=anew)

    def tell(self, text: str, about: About = About.ANSWER) -> None:
        self.add(Told(text, about))

    def say(self, text: str, decision: Decision | None) -> None:
        self.add(Said(text, decision))

    def see(self, observation: Observation) -> None:
        self.add(Saw(observation.told, observation))

    # ------------------------------------------------------------------ the world

    def resumed(self, seen: Observation) -> Generator[Step, Any, None]:
        """Take in what is to be seen after a hold in which nothing was under way; by default as an observation."""
        self.see(seen)
        yield from ()

    def hold(self) -> Generator[Step, Any, bool]:
        """Wait as long as the run is held, then take in what is to be seen; asking and acting do so by themselves.

        Returns whether it had to wait, and so has looked around; a hold that lasts too long raises Held.
        """
        waited = False
        while (reason := self.held()) or self._looked_as not in (None, self.post.robot):
            seen = yield from self._after_hold(f"You had to wait: {reason}." if reason else "")
            yield from self.resumed(seen)
            waited = True
        return waited

    def _after_hold(self, words: str) -> Generator[Step, Any, Observation]:
        before = self._looked_as
        yield Hold()
        self.post.robot.at = ""  # somebody may have moved it
        seen = yield from self.look_around()
        now = "" if before in (None, self.post.robot) else f"You are {self.post.robot.name} now."
        text = " ".join(filter(None, (words, now, "You may go on.", seen.text)))
        return replace(seen, text=text, outcome=Outcome.HALTED)

    def look_around(self) -> Generator[Step, Any, Observation]:
        self.post.robot.world.attend(self.subgoal)
        observation = yield from self._observe("observation", "observe", lambda world: world.observe())
        self._looked_as = self.post.robot
        self.context.remember(observation, self._looked_as)
        return observation

    def survey(self) -> Generator[Step, Any, Observation]:
        return (yield from self._observe("description of the world", "survey", lambda world: world.survey()))

    def _observe(
        self, what: str, of: str, ask: Callable[[World], Pending[Observation]]
    ) -> Generator[Step, Any, Observation]:
        while True:
            try:
                pending = asked(ask, self.post.robot.world)
                observation: Observation = yield Wait(what, pending, WorldError, call=Call(of))
            except RobotLost:
                yield Hold()  # another one goes on
            else:
                return observation

    def available_skills(self) -> Generator[Step, Any, Sequence[Offered]]:
        while True:
            yield from self.hold()
            pending = asked(self.post.robot.world.available_skills)
            try:
                skills: Sequence[Offered] = yield Wait("skills", pending, WorldError, call=Call("skills"))
            except RobotLost as lost:
                self.see((yield from self._after_hold(f"You could not go on: {lost}.")))
            else:
                return skills

    def corrections(self) -> Generator[Step, Any, Sequence[Offer]]:
        pending = asked(self.post.robot.world.corrections)
        offers: Sequence[Offer] = yield Wait("corrections", pending, WorldError, call=Call("corrections"))
        return offers

    def correct(self, correction: SkillCall) -> Generator[Step, Any, Observation]:
        """Have the world take in what the person has confirmed; returns a look around, or why it does not."""
        pending, call = asked(self.post.robot.world.correct, correction), Call("correct", correction=correction)
        observation: Observation = yield Wait("correction", pending, WorldError, call=call)
        self.context.remember(observation, self.post.robot)
        return observation

    def perform(self, skill: str) -> Generator[Step, Any, Observation]:
        """Carry a skill out that is counted already; ``recall`` is answered by working memory."""
        context = self.context
        self.post.robot.elapsed += 1
        if context.working_memory is not None and skill.startswith(RECALL):
            observation = Observation(context.recall(skill.removeprefix(RECALL), self.post.robot))
            context.listener.came(self, Call("recall"), observation)
        else:
            try:
                observation = yield Execute(skill)
            except BrokenOff as held:
                observation = Observation(f"You were stopped before you had done it: {held}.", Outcome.HALTED)
            if observation.outcome is Outcome.HALTED:
                observation = yield from self._after_hold(observation.text)
            robot = self.post.robot
            context.remember(observation, robot)
            call = robot.did(skill, observation.outcome)
            if observation.outcome is Outcome.DONE:
                context.touched.append(f"{skill} {robot.room}")
                if call is not None:
                    context.placed.pop(call.value("held"), None)
                    context.placed |= {name: robot.at for name in [call.value("released")] if name}
        context.listener.observed(self, observation)
        since, self._news = self._news, context.team.news.count
        return context.team.with_news(self.post.robot, observation, self.subgoal, since)

    # ------------------------------------------------------------------ the memories

    def own_actions(self) -> list[str]:
        recall = self.post.robot.world.recallable if self.context.working_memory is not None else ()
        return [DONE, FAILURE, *(RECALL + word for word in recall)]

    def find_examples(self) -> Generator[Step, Any, tuple[Experience, ...]]:
        """Ask episodic memory for experiences; nothing if there is none, or it has nothing.

        If it fails, or does not answer in time, MemoryGone is raised.
        """
        if self.context.examples is None:
            return ()
        pending = asked(self.context.examples, self.subgoal)
        try:
            found: tuple[Experience, ...] = yield Wait("examples", pending, MemoryGone, call=Call("examples"))
        except (MemoryGone, LimitReached):
            raise
        except Exception as error:
            raise MemoryGone(f"no examples: {error}") from error
        return found
