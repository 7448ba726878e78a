"""Story files: which there are, whether they are any, and what is to be done in them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from reactree_ros.errors import UserError
from reactree_ros.world.spec import TasksOnDemand

#: Versions of the Z-machine that the interpreter runs.
VERSIONS = range(1, 9)
#: What is asked for where nobody says anything else; ``{name}`` is the story file's name without its ending.
INSTRUCTION = "play the text adventure {name} to its end, with the full score"
_ENDING = re.compile(r"\.z[1-8]", re.IGNORECASE)
#: How other kinds of games begin, and what they are.
_OTHERS = {b"FORM": "a Blorb archive, whose story has to be taken out first", b"Glul": "a game for Glulx"}
_HEADER = 64
#: Where the header has the length of the story, in words of so many bytes by version.
_LENGTH, _SCALES = slice(0x1A, 0x1C), {1: 2, 2: 2, 3: 2, 4: 4, 5: 4}
_LONGER_SCALE = 8


@dataclass(frozen=True)
class StoryTask:
    """A story file, and what is to be done in it.

    Attributes:
        story: The file.
        instruction: What is asked for.
        seed: Of what is random in the game; 0: as the way through it that jericho knows needs it.
    """

    story: str
    instruction: str
    seed: int = 0

    @property
    def task_name(self) -> str:
        """The file's name without its ending."""
        return Path(self.story).stem

    def asks_for(self, instruction: str) -> bool:
        """Whether an instruction is the task's."""
        return instruction.strip() == self.instruction


def story_task(story: Path, instruction: str = "", seed: int = 0) -> StoryTask:
    """Return what is to be done in a story.

    Args:
        story: Its file.
        instruction: What is asked for, in which ``{name}`` stands for the file's name; empty: :data:`INSTRUCTION`.
        seed: Of what is random in the game.
    """
    return StoryTask(str(story.resolve()), (instruction or INSTRUCTION).replace("{name}", story.stem).strip(), seed)


def stories_in(folder: str) -> list[Path]:
    """Return the story files of a folder, ``.z1`` to ``.z8``, by name.

    Raises:
        UserError: There is no such folder, or no story file in it.
    """
    if not folder:
        raise UserError("which story files? Say in which folder they are (.z1 to .z8): stories=FOLDER")
    if not Path(folder).is_dir():
        raise UserError(f"{folder}: there is no such folder; it is to hold story files (.z1 to .z8)")
    found = sorted(path for path in Path(folder).iterdir() if _ENDING.fullmatch(path.suffix) and path.is_file())
    if not found:
        raise UserError(f"{folder}: there is no story file (.z1 to .z8) in it")
    return found


def numbered(stories: list[Path], instruction: str = "", seed: int = 0) -> Mapping[int, StoryTask]:
    """Return what is to be done in stories, by their numbers from 1."""
    return TasksOnDemand(range(1, len(stories) + 1), lambda one: story_task(stories[one - 1], instruction, seed))


def check_story(story: Path) -> None:
    """Look whether a file is a story that the interpreter runs, as far as its header says.

    Raises:
        UserError: It is not; the message says why.
    """
    try:
        content = story.read_bytes()
    except OSError as error:
        raise UserError(f"{story}: the story file cannot be read: {error.strerror}") from error
    if problem := _problem_of(content):
        raise UserError(f"{story}: {problem}; jericho runs story files of the Z-machine, versions 1 to 8")


def _problem_of(content: bytes) -> str:
    if (other := _OTHERS.get(content[:4])) is not None:
        return f"this is {other}"
    if len(content) < _HEADER:
        return f"this is no story file: {len(content)} bytes"
    if content[0] not in VERSIONS:
        return f"this is no story file, or one of the version {content[0]}"
    told = int.from_bytes(content[_LENGTH], "big") * _SCALES.get(content[0], _LONGER_SCALE)
    return f"the story file is cut off: {len(content)} bytes of {told}" if told > len(content) else ""
