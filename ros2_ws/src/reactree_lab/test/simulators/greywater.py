"""The game of our own, greywater.inf, and the way through it that the prompts tell."""

from __future__ import annotations

import atexit
import functools
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path

from plans import path_in

from reactree_lab.worlds.jericho.world import JerichoWorld, StoryTask, story_task

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
PATH = path_in(JerichoWorld.household.prompts)
