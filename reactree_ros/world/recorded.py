"""A world that shows what was seen in a recorded run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from reactree_ros.agent.skill import Offered
from reactree_ros.agent.transcript import Transcript
from reactree_ros.background.pending import Pending
from reactree_ros.world.port import Household, Observation, Score, World, WorldError


class RecordedWorld(World):
    """Shows the observations of a recorded run, one after the other, to a node that repeats the run."""

    def __init__(self, transcripts: Iterable[Transcript], household: Household) -> None:
        self.household = household
        self._transcripts = tuple(transcripts)
        self._rewind()

    def _rewind(self) -> None:
        self._starts = [transcript.start.text for transcript in reversed(self._transcripts)]
        self._acts = [act for transcript in reversed(self._transcripts) for act in reversed(transcript.acts)]

    def reset(self, seed: int | None = None) -> Pending[Observation]:
        self._rewind()
        return Pending.ready(Observation(self._starts[-1]))

    def observe(self) -> Pending[Observation]:
        """Show the next agent node's starting observation; the last one again where no more was recorded.

        After a limit is reached the agent does not move any more, so that repeating is true to what was.
        """
        return Pending.ready(Observation(self._starts.pop() if len(self._starts) > 1 else self._starts[0]))

    def available_skills(self) -> Pending[Sequence[Offered]]:
        return Pending.ready(())

    def execute(self, skill: str) -> Pending[Observation]:
        """Show what came back when this was recorded; an error for any other skill than the recorded one."""
        if not self._acts or self._acts[-1][0] != skill:
            expected = f"'{self._acts[-1][0]}'" if self._acts else "no further skill"
            return Pending.failed(WorldError(f"the recording has {expected} here, not '{skill}'"))
        return Pending.ready(Observation(self._acts.pop()[1].text))

    def score(self) -> Pending[Score | None]:
        return Pending.ready(None)
