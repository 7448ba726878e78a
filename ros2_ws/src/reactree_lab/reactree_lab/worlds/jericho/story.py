"""Story files: finds and checks them, and makes tasks of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from reactree_ros.errors import UserError
from reactree_ros.world.spec import TasksOnDemand

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
