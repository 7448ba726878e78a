"""A world that shows what was seen in a recorded run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from reactree_ros.agent.prompt import Domain
from reactree_ros.agent.transcript import Transcript
from reactree_ros.pending import Pending
from reactree_ros.world.port import Observation, Score, World, WorldError


class RecordedWorld(World):
    """Shows the observations of a recorded run, one after the other, to whoever does the same again.

    Args:
        transcripts: The run's agent nodes in the order in which they started.
        domain: The household it was recorded in.
    """

    def __init__(self, transcripts: Iterable[Transcript], domain: Domain = Domain.WAH_NL) -> None:
        self.domain = domain
        self._transcripts = tuple(transcripts)
        self._rewind()

    def _rewind(self) -> None:
        self._starts = [transcript.observation for transcript in reversed(self._transcripts)]
        self._acts = [
            (turn.said.removeprefix("Act: "), turn.observation)
            for transcript in reversed(self._transcripts)
            for turn in reversed(transcript.turns)
            if turn.observation is not None
        ]

    def reset(self) -> Pending[None]:
        """Start the recording again."""
        self._rewind()
        return Pending.of(None)

    def observe(self) -> Pending[Observation]:
        """Show the next agent node's starting observation; the last one again where no more was recorded.

        After a limit is reached the agent does not move any more, so that repeating is true to what was.
        """
        return Pending.of(Observation(self._starts.pop() if len(self._starts) > 1 else self._starts[0]))

    def available_skills(self) -> Pending[Sequence[str]]:
        """Know of none: a recording does not say what else could have been done."""
        return Pending.of(())

    def execute(self, skill: str) -> Pending[Observation]:
        """Show what came back when this was recorded; an error for any other skill than the recorded one."""
        if not self._acts or self._acts[-1][0] != skill:
            expected = f"'{self._acts[-1][0]}'" if self._acts else "no further skill"
            return Pending.failed(WorldError(f"the recording has {expected} here, not '{skill}'"))
        observation = self._acts.pop()[1]
        assert observation is not None  # only turns with an observation are kept
        return Pending.of(Observation(observation))

    def score(self) -> Pending[Score | None]:
        """Know of no goal."""
        return Pending.of(None)
