"""An office robot for tests: what `config/robots/office.yaml` declares, carried out on its map as if all went well."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from reactree_ros.agent.parameters import Named
from reactree_ros.agent.skill import Offer, Offered, SkillCall
from reactree_ros.background.pending import Pending
from reactree_ros.household.household import WAH_NL
from reactree_ros.robot.config import load_robot
from reactree_ros.robot.map_file import load_map
from reactree_ros.robot.semantic_map import SemanticMap
from reactree_ros.robot.skills import MapSkills
from reactree_ros.world.port import Observation, Outcome, Score, World

CONFIG = Path(__file__).parents[1] / "config/robots/office.yaml"


class OfficeWorld(World):
    """The office: each declared skill changes the map by its effect; the camera returns a picture.

    Attributes:
        calls: The skills that were carried out, as data.
        known: Whether each condition holds, by its wording.
    """

    def __init__(self, config: Path = CONFIG) -> None:
        robot = load_robot(config)
        self._document = load_map(robot.map)
        self._skills = MapSkills(robot.declared)
        self.household = replace(WAH_NL, name="office", skills=robot.declared, actions=())
        self.calls: list[SkillCall] = []
        self.known: dict[str, bool] = {}
        self._begin()

    def _begin(self) -> None:
        self.map, self._pictures = SemanticMap(self._document, condition=lambda one: self.known.get(one)), 0

    def names(self, kind: Named) -> Sequence[str]:
        return self._document.names(kind)

    def reset(self, seed: int | None = None) -> Pending[Observation]:
        self._begin()
        return self.observe()

    def observe(self) -> Pending[Observation]:
        return Pending.ready(self.map.around())

    def available_skills(self) -> Pending[Sequence[Offered]]:
        return Pending.ready(self._skills.offered(self.map))

    def offers(self) -> list[Offer]:
        return [one for one in self._skills.offered(self.map) if isinstance(one, Offer)]

    def execute(self, skill: str) -> Pending[Observation]:
        call = self._skills.read(self.map, skill)
        if not isinstance(call, SkillCall):
            return Pending.ready(Observation(call, Outcome.UNKNOWN_SKILL))
        outcome, words = self._skills.check(self.map, call, 0.0)
        data: dict[str, str | int | float] = {}
        if outcome is Outcome.DONE:
            self.calls.append(call)
            self.map.apply(call, 0.0)
            if call.skill.returns:
                self._pictures += 1
                data = {"picture": f"pictures/{self._pictures}.png"}
        return Pending.ready(self._skills.after(self.map, call, outcome, words, data))

    def corrections(self) -> Pending[Sequence[Offer]]:
        return Pending.ready(self.map.corrections(self.household.skills))

    def correct(self, correction: SkillCall) -> Pending[Observation]:
        return Pending.ready(self.map.corrected(correction, 0.0))

    def score(self) -> Pending[Score | None]:
        return Pending.ready(None)
