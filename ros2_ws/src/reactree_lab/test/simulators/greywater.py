"""The game of our own, greywater.inf, and the way through it that the prompts tell as an example."""

from __future__ import annotations

import atexit
import functools
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from reactree_lab.worlds.jericho.story import StoryTask, story_task

SOURCE = Path(__file__).with_suffix(".inf")


@functools.cache
def compiled() -> Path:
    """The story, made by the compiler for Inform 6 that is in the package textworld; it is gone with this process."""
    textworld = find_spec("textworld")
    assert textworld is not None
    assert textworld.origin is not None
    compiler = Path(textworld.origin).parent / "thirdparty/inform7-6M62/share/inform7/Compilers/inform6"
    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    story = Path(folder.name, SOURCE.stem).with_suffix(".z5")
    subprocess.run([compiler, SOURCE, story], check=True, capture_output=True)
    return story


def greywater() -> StoryTask:
    """What is to be done in it."""
    return story_task(compiled())


#: How it is done.
PARTS: Mapping[str, Sequence[str]] = {
    "take what there is in the hut": [
        "Think: The lighthouse will be locked, and a lamp needs oil and a flame. I look for them in the hut.",
        "Act: east",
        "Act: open chest",
        "Act: take key",
        "Act: take oil can",
        "Act: take matches",
    ],
    "go up to the lamp room": ["Act: west", "Act: unlock door", "Act: north", "Act: up"],
    "light the lamp": [
        "Think: The lamp is dry. It has to be filled first.",
        "Act: fill lamp",
        "Act: light lamp",
    ],
}
PATH = [said.removeprefix("Act: ") for part in PARTS.values() for said in part if said.startswith("Act: ")]
