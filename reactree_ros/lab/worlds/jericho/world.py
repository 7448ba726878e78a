"""The world ``jericho``: text adventures on the Z-machine, by jericho's interpreter, from story files that one has.

Skills are said freely, as to the games; a game says which of them it does not know. The score is the game's, as a share
of its highest. jericho reads it out of the games that it knows; any other game is asked for it by the word ``score``,
which then never was said.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from pydantic import Field

from reactree_ros.agent.household import Household
from reactree_ros.background.pending import Pending
from reactree_ros.errors import UserError
from reactree_ros.lab.worlds.jericho.interpreter import SPARE, GameReply, Interpreter
from reactree_ros.lab.worlds.jericho.story import StoryTask, check_story, numbered
from reactree_ros.plugins.settings import Harmless
from reactree_ros.world.port import Observation, Outcome, Score, WorldError
from reactree_ros.world.spec import WorldSettings, WorldSpec
from reactree_ros.world.worker_world import WorkerWorld

START_LINE = "You look around."
OVER = "The game is over."
#: How many letters jericho passes on.
LONGEST = 198
_DIRECTIONS = (
    *("north", "south", "east", "west", "northeast", "northwest", "southeast", "southwest"),
    *("up", "down", "in", "out"),
)
#: What may be said anywhere, to games that have these words.
_ANYWHERE = ("look", "inventory", "wait", *_DIRECTIONS)
#: So many letters of a word are what a game compares, by its version.
_LETTERS = (6, 9)
RULES = f"""How skills are said: a verb first, then the things as the game names them, e.g. open the mailbox.
- {", ".join(_DIRECTIONS)}: go there; enter <thing>, climb <thing>
- look: what is here; inventory: what you carry; examine <thing>, read <thing>, look in <thing>, search <thing>
- take <thing>, drop <thing>, put <thing> in <thing>, put <thing> on <thing>, give <thing> to <person>
- open <thing>, close <thing>, unlock <thing> with <thing>, push <thing>, pull <thing>, turn <thing>, move <thing>
- turn on <thing>, turn off <thing>, light <thing>, fill <thing>, tie <thing> to <thing>, wear <thing>, eat <thing>
- ask <person> about <word>, talk to <person>, attack <thing> with <thing>, wait
Other verbs may work, too; the game says which words it does not know. What ends in death cannot be taken back."""
#: What would begin the game anew, end it, take something back, write files, or look behind the game (also TextWorld's).
#: Games compare the first letters only.
_BESIDE = re.compile(
    r"restar\w*|restor\w*|save|quit|q|undo|((oops|o|script\w*|unscri\w*|noscri\w*|transc\w*|([#$]|tw-)\S*)( .*)?)",
    re.IGNORECASE,
)
#: Where another skill begins in a line of several.
_NEXT = re.compile(r"[.;,]|\bthen\b", re.IGNORECASE)
_WIDE = re.compile(r" {3,}")

HOUSEHOLD = Household(
    name="jericho",
    actions=(
        *("look", "inventory", "examine", "read", "look in", "search", "take", "drop", "put", "give", "open", "close"),
        *("unlock", "push", "pull", "turn", "turn on", "turn off", "move", "light", "fill", "tie", "wear", "eat"),
        *("ask", "talk to", "attack", "climb", "enter", "wait", *_DIRECTIONS),
    ),
    naming="",
    rules=RULES,
    free_skills=True,
    start_line=START_LINE,
    max_decisions=200,
    max_steps=100,
    prompts="reactree_ros.lab.worlds.jericho:prompts",
)


class JerichoWorld(WorkerWorld):
    """A text adventure.

    Args:
        task: The story file, and what is to be done.
        scored: Whether that is what is asked for.
    """

    household = HOUSEHOLD

    def __init__(self, task: StoryTask, *, scored: bool = True) -> None:
        super().__init__("jericho", scored=scored)
        self._task, self._seed = task, task.seed
        self._interpreter: Interpreter | None = None
        self._words: frozenset[str] = frozenset()
        self._told: GameReply | None = None  # what the game said last
        self._start = ""  # what it begins with, as long as nothing was done
        self._best = 0.0

    def canonical(self, skill: str) -> Pending[str | Observation]:
        """See :meth:`World.canonical`; games do not know small letters from capitals."""
        if refusal := _refusal(" ".join(skill.split())):
            return Pending.of(Observation(refusal, Outcome.UNKNOWN_SKILL))
        return super().canonical(skill.lower())

    def status(self) -> Mapping[str, str]:
        """Say which story it is, and the score."""
        told = self._told
        score = {"score": f"{told.score} of {told.maximum}"} if told and told.maximum else {}
        return {"story": self._task.story, **score}

    # ------------------------------------------------------------------ in the worker's thread

    def _begin(self, seed: int | None) -> None:
        """Go back to the start; what is random in a game follows from the seed, or from the task's."""
        self._seed = self._task.seed if seed is None else seed
        self._load()

    def _let_go(self) -> None:
        """Give the interpreter back, so that the next episode begins with it."""
        if self._interpreter is not None:
            SPARE.give_back(self._interpreter)

    def _stop(self) -> None:
        if self._interpreter is not None:
            self._interpreter.stop()

    def _rate(self) -> Score:
        """Say the best share of the highest score that was reached; in a game without one, whether it was won."""
        return Score(float(self._best == 1), self._best)

    def _load(self) -> GameReply:
        if self._interpreter is None or self._interpreter.lost:
            self._interpreter = SPARE.borrow()
        told, self._words = self._interpreter.load(self._task.story, self._seed)
        self._start, self._best = told.text, 0.0
        return self._heard(told)

    def _heard(self, told: GameReply) -> GameReply:
        self._told = told
        share = told.score / told.maximum if told.maximum else float(told.won)
        self._best = max(self._best, min(1.0, share))
        return told

    @property
    def _here(self) -> tuple[Interpreter, GameReply]:
        told = self._told or self._load()
        assert self._interpreter is not None
        if self._interpreter.lost:
            raise WorldError(self._interpreter.lost)
        return self._interpreter, told

    def _look(self) -> Observation:
        """Tell what the game begins with, and later the place and what is carried."""
        interpreter, told = self._here
        if told.over:
            return Observation(f"{START_LINE} {_tidy(told.text)}\n{OVER}")
        return Observation(f"{START_LINE} {_tidy(self._start or interpreter.look() or told.text)}")

    def _skills(self) -> list[str]:
        """List the words for looking and going that the game has; none where it is over."""
        _, told = self._here
        if told.over:
            return []
        known = [one for one in _ANYWHERE if self._words & {one[:letters] for letters in _LETTERS}]
        return known or list(_ANYWHERE)

    def _take(self, skill: str) -> Observation:
        interpreter, told = self._here
        said = " ".join(skill.split())
        if told.over:
            return Observation(f"{OVER} Nothing more can be done in it.", Outcome.PRECONDITION)
        if refusal := _refusal(said):
            return Observation(refusal, Outcome.UNKNOWN_SKILL)
        self._worker.check_wanted()
        told = self._heard(interpreter.step(said))
        text = f"{_tidy(told.text)}\n{OVER}" if told.over else _tidy(told.text)
        if told.known:
            self._start = ""
        return Observation(text, Outcome.DONE if told.known else Outcome.UNKNOWN_SKILL)


def _refusal(said: str) -> str:
    """Say why something is not passed on to a game; empty where it is."""
    if not said.isascii() or not said.isprintable() or "\\" in said:
        return "Games read plain letters, digits and signs only, and no backslash."
    if len(said) > LONGEST:
        return f"Games read {LONGEST} letters at most; these are {len(said)}."
    beside = next((one for one in map(_bare, _NEXT.split(said)) if _BESIDE.fullmatch(one)), "")
    return f"There is no way to {beside} here." if beside else ""


def _bare(said: str) -> str:
    return said.strip(" \"'!?")


def _tidy(text: str) -> str:
    """Return what a game says without its prompt, blank lines, and blanks that are there to set it out on a screen."""
    lines = (_WIDE.sub("  ", line.removeprefix(">").rstrip()) for line in text.splitlines())
    return "\n".join(line for line in lines if line).strip() or "Nothing happens."


class JerichoSettings(WorldSettings):
    """Which story, and what is to be done in it."""

    story: str = Field(default="", description="story file of the Z-machine (.z1 to .z8)")
    instruction: Annotated[str, Harmless()] = Field(
        default="", description="what is asked for; empty: to play it to its end, in full score"
    )
    seed: int = Field(
        default=0, ge=0, description="of what is random in the game; 0: as jericho's walkthrough needs it"
    )


def tasks_of(settings: JerichoSettings) -> Mapping[int, StoryTask]:
    """Return what is to be done in the story, as the task 1.

    Raises:
        UserError: There is no such file, or it is no story.
    """
    if not settings.story:
        raise UserError("which story is it? jericho plays story files of the Z-machine that you have: story=FILE")
    check_story(Path(settings.story))
    return numbered([Path(settings.story)], settings.instruction, settings.seed)


def _make(settings: JerichoSettings, task: StoryTask, *, scored: bool = True) -> JerichoWorld:
    return JerichoWorld(task, scored=scored)


SPEC = WorldSpec(
    name="jericho",
    summary="text adventures on the Z-machine, by jericho's interpreter, from story files that you have",
    settings=JerichoSettings,
    extra="reactree_ros[jericho]",
    needs=("jericho",),
    household=HOUSEHOLD,
    load_tasks=tasks_of,
    make=_make,
)
