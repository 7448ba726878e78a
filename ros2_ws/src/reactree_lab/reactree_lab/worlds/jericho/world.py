"""The world ``jericho``: text adventures on the Z-machine, with jericho's interpreter and your own story files.

Skills are free text, as in the games; a game says which words it does not know. The score is the game's, as a share of
its highest. jericho reads it from games that it knows. Any other game is asked with the word ``score``, which is then
undone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field

from reactree_lab.bench import published
from reactree_lab.bench.spec import SuiteSpec
from reactree_lab.worlds.running import LineProcess, Spare, WorkerWorld
from reactree_ros.agent.household import Household
from reactree_ros.background.pending import Pending
from reactree_ros.errors import UserError
from reactree_ros.files.read_back import bytes_of
from reactree_ros.plugins.settings import Harmless, Settings
from reactree_ros.world.port import Observation, Outcome, Score, WorldError
from reactree_ros.world.spec import TasksOnDemand, WorldSettings, WorldSpec

#: Versions of the Z-machine that the interpreter runs.
VERSIONS = range(1, 9)
#: The default instruction; ``{name}`` is the story file's name without its ending.
INSTRUCTION = "play the text adventure {name} to its end, with the full score"
_ENDING = re.compile(r"\.z[1-8]", re.IGNORECASE)
#: Beginnings of other kinds of games, and their names.
_OTHERS = {b"FORM": "a Blorb archive, whose story has to be taken out first", b"Glul": "a game for Glulx"}
_HEADER = 64
#: Position of the story's length in the header, and bytes per unit by version.
_LENGTH, _SCALES = slice(0x1A, 0x1C), {1: 2, 2: 2, 3: 2, 4: 4, 5: 4}
_LONGER_SCALE = 8


@dataclass(frozen=True)
class StoryTask:
    story: str  # the file
    instruction: str
    seed: int = 0  # seed of the game's random events; 0 takes the seed of jericho's walkthrough

    @property
    def task_name(self) -> str:
        return Path(self.story).stem


def story_task(story: Path, instruction: str = "", seed: int = 0) -> StoryTask:
    """Return the task of a story; ``{name}`` in its instruction is the file's name, none is :data:`INSTRUCTION`."""
    return StoryTask(str(story.resolve()), (instruction or INSTRUCTION).replace("{name}", story.stem).strip(), seed)


def stories_in(folder: str) -> list[Path]:
    """Return the story files in a folder, ``.z1`` to ``.z8``, by name."""
    if not folder:
        raise UserError("name the folder of story files (.z1 to .z8): stories=FOLDER")
    if not Path(folder).is_dir():
        raise UserError(f"{folder}: no such folder; name a folder of story files (.z1 to .z8)")
    found = sorted(path for path in Path(folder).iterdir() if _ENDING.fullmatch(path.suffix) and path.is_file())
    if not found:
        raise UserError(f"{folder}: holds no story file (.z1 to .z8)")
    return found


def numbered(stories: list[Path], instruction: str = "", seed: int = 0) -> Mapping[int, StoryTask]:
    return TasksOnDemand(range(1, len(stories) + 1), lambda one: story_task(stories[one - 1], instruction, seed))


def check_story(story: Path) -> None:
    """Check that a file is a story for the interpreter, as far as its header says."""
    if problem := _problem_of(bytes_of(story)):
        raise UserError(f"{story}: {problem}; jericho runs story files of the Z-machine, versions 1 to 8")


def _problem_of(content: bytes) -> str:
    if (other := _OTHERS.get(content[:4])) is not None:
        return f"this is {other}"
    if len(content) < _HEADER:
        return f"this is not a story file: {len(content)} bytes"
    if content[0] not in VERSIONS:
        return f"this is not a story file, or one of the version {content[0]}"
    told = int.from_bytes(content[_LENGTH], "big") * _SCALES.get(content[0], _LONGER_SCALE)
    return f"the story file is cut off: {len(content)} bytes of {told}" if told > len(content) else ""


@dataclass(frozen=True)
class GameReply:
    text: str  # the answer, unchanged
    score: int  # its score, in its points
    maximum: int  # its highest score; 0 if it does not tell
    over: bool  # whether it has ended
    won: bool  # whether it has ended well
    known: bool  # whether it seems to have understood the skill


class Interpreter(LineProcess):
    """One process for one story at a time."""

    name = "the interpreter of jericho"
    module = "reactree_lab.worlds.jericho.player"
    answer_limit = 30.0
    fragile = True

    def load(self, story: str, seed: int) -> tuple[GameReply, frozenset[str]]:
        """Start a story; return its text, and its known words with as many letters as it compares."""
        answer = self.ask("load", story, seed)
        words = frozenset(answer.pop("words"))
        return GameReply(**answer), words

    def step(self, said: str) -> GameReply:
        return GameReply(**self.ask("step", said))

    def look(self) -> str:
        """Return the place and the carried things, without taking time in the game; empty if it cannot be asked now."""
        return str(self.ask("look")["text"])


#: The process that no world uses.
SPARE = Spare(Interpreter)


START_LINE = "You look around."
OVER = "The game is over."
#: Most letters that jericho passes on.
LONGEST = 198
_DIRECTIONS = (
    *("north", "south", "east", "west", "northeast", "northwest", "southeast", "southwest"),
    *("up", "down", "in", "out"),
)
#: Words that fit everywhere, for games that know them.
_ANYWHERE = ("look", "inventory", "wait", *_DIRECTIONS)
#: Number of letters of a word that a game compares, by its version.
_LETTERS = (6, 9)
RULES = f"""How skills are said: a verb first, then the things as the game names them, e.g. open the mailbox.
- {", ".join(_DIRECTIONS)}: go there; enter <thing>, climb <thing>
- look: what is here; inventory: what you carry; examine <thing>, read <thing>, look in <thing>, search <thing>
- take <thing>, drop <thing>, put <thing> in <thing>, put <thing> on <thing>, give <thing> to <person>
- open <thing>, close <thing>, unlock <thing> with <thing>, push <thing>, pull <thing>, turn <thing>, move <thing>
- turn on <thing>, turn off <thing>, light <thing>, fill <thing>, tie <thing> to <thing>, wear <thing>, eat <thing>
- ask <person> about <word>, talk to <person>, attack <thing> with <thing>, wait
Other verbs may work, too; the game says which words it does not know. What ends in death cannot be taken back."""
#: Skills that would restart the game, end it, undo something, write files, or show the game's internals (TextWorld's,
#: too). Games compare only the first letters.
_BESIDE = re.compile(
    r"restar\w*|restor\w*|save|quit|q|undo|((oops|o|script\w*|unscri\w*|noscri\w*|transc\w*|([#$]|tw-)\S*)( .*)?)",
    re.IGNORECASE,
)
#: Beginning of another skill in a line of several.
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
    prompts="reactree_lab.worlds.jericho:prompts",
)


class JerichoWorld(WorkerWorld):
    household = HOUSEHOLD

    def __init__(self, task: StoryTask, *, scored: bool = True) -> None:
        super().__init__("jericho", scored=scored)
        self._task, self._seed = task, task.seed
        self._interpreter: Interpreter | None = None
        self._words: frozenset[str] = frozenset()
        self._told: GameReply | None = None  # the game's last answer
        self._start = ""  # its first text, until something is done
        self._best = 0.0

    def canonical(self, skill: str) -> Pending[str | Observation]:
        if refusal := _refusal(" ".join(skill.split())):
            return Pending.ready(Observation(refusal, Outcome.UNKNOWN_SKILL))
        return super().canonical(skill.lower())

    def status(self) -> Mapping[str, str]:
        told = self._told
        score = {"score": f"{told.score} of {told.maximum}"} if told and told.maximum else {}
        return {"story": self._task.story, **score}

    # ------------------------------------------------------------------ in the worker's thread

    def _begin(self, seed: int | None) -> None:
        """Go back to the start; the seed, or the task's, determines the game's random events."""
        self._seed = self._task.seed if seed is None else seed
        self._load()

    def _let_go(self) -> None:
        if self._interpreter is not None:
            SPARE.give_back(self._interpreter)

    def _stop(self) -> None:
        if self._interpreter is not None:
            self._interpreter.stop()

    def _rate(self) -> Score:
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
        interpreter, told = self._here
        if told.over:
            return Observation(f"{START_LINE} {_tidy(told.text)}\n{OVER}")
        return Observation(f"{START_LINE} {_tidy(self._start or interpreter.look() or told.text)}")

    def _skills(self) -> list[str]:
        """List the game's words for looking and going; none if it is over."""
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
    """Return why something is not passed on to a game; empty if it is."""
    if not said.isascii() or not said.isprintable() or "\\" in said:
        return "Games read plain letters, digits and signs only, and no backslash."
    if len(said) > LONGEST:
        return f"Games read {LONGEST} letters at most; these are {len(said)}."
    bare = (one.strip(" \"'!?") for one in _NEXT.split(said))
    beside = next((one for one in bare if _BESIDE.fullmatch(one)), "")
    return f"There is no way to {beside} here." if beside else ""


def _tidy(text: str) -> str:
    lines = (_WIDE.sub("  ", line.removeprefix(">").rstrip()) for line in text.splitlines())
    return "\n".join(line for line in lines if line).strip() or "Nothing happens."


class JerichoSettings(WorldSettings):
    story: str = Field(default="", description="story file of the Z-machine (.z1 to .z8)")
    instruction: Annotated[str, Harmless()] = Field(
        default="", description="the instruction; empty: to play it to its end, in full score"
    )
    seed: int = Field(
        default=0, ge=0, description="seed of the game's random events; 0: the seed of jericho's walkthrough"
    )


def tasks_of(settings: JerichoSettings) -> Mapping[int, StoryTask]:
    if not settings.story:
        raise UserError("name a story file of the Z-machine, which you must have: story=FILE")
    check_story(Path(settings.story))
    return numbered([Path(settings.story)], settings.instruction, settings.seed)


SPEC = WorldSpec(
    name="jericho",
    summary="text adventures on the Z-machine, with jericho's interpreter and your own story files",
    settings=JerichoSettings,
    extra="reactree_lab[jericho]",
    needs=("jericho",),
    household=HOUSEHOLD,
    load_tasks=tasks_of,
    make=lambda settings, task, **given: JerichoWorld(task, **given),
)


class JerichoSuiteSettings(Settings):
    stories: str = Field(default="", description="folder of story files of the Z-machine (.z1 to .z8), one task each")
    instruction: Annotated[str, Harmless()] = Field(
        default="", description="the instruction, with {name} for the story's name; empty: to play it in full score"
    )
    seed: int = Field(
        default=0, ge=0, description="seed of the games' random events; 0: the seed of jericho's walkthroughs"
    )


SUITE = SuiteSpec.in_world(
    SPEC,
    summary="the text adventures of a folder of story files, by name, in the world `jericho`",
    settings=JerichoSuiteSettings,
    tasks=lambda settings: numbered(stories_in(settings.stories), settings.instruction, settings.seed),
    make_world=JerichoWorld,
    ssr="score",
    published=(published.JERICHO,),
    flags=("stories",),
)
