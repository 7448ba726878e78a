"""Shows a language model made pictures, and asks what is on them."""

from __future__ import annotations

import io
import time

from reactree_ros.agent.observation import Observation
from reactree_ros.agent.picture import Picture, needs_pillow, picture_of
from reactree_ros.agent.text import shortened_line
from reactree_ros.agent.turns import About, Saw, Told
from reactree_ros.llm.check.asking import Asking, Score
from reactree_ros.llm.check.questions import Mark
from reactree_ros.llm.port import Choice

#: What is drawn, by its name; none can be taken for another.
COLOURS = {"red": (220, 0, 0), "green": (0, 160, 0), "blue": (0, 0, 220), "yellow": (250, 220, 0)}
_SYSTEM = Told("You see what the camera of a robot sees.", About.SYSTEM)
_QUESTION = Told(f"Which colour has the square on the picture? Say one of {', '.join(COLOURS)}, and nothing else.")


def drawn(colour: str) -> Picture:
    """Draw a square of a colour on white.

    Raises:
        ImportError: Pillow is not there.
    """
    from PIL import Image

    canvas, file = Image.new("RGB", (336, 336), "white"), io.BytesIO()
    canvas.paste(COLOURS[colour], (84, 84, 252, 252))
    canvas.save(file, "PNG")
    return picture_of(file.getvalue(), time=time.time())


def look(asking: Asking) -> tuple[Score, str]:
    """Ask for the colour of each square; returns what the replies were worth, and what keeps it from seeing.

    Raises:
        LanguageModelError: There is no reply.
    """
    marks: list[Mark] = []
    for colour in COLOURS:
        try:
            seen = Observation("You look.", pictures=(drawn(colour),))
        except ImportError:
            return Score(), f"nothing is shown to it: {needs_pillow('drawing')}"
        reply, seconds = asking.ask((_SYSTEM, Saw(seen.told, seen), _QUESTION), Choice(tuple(COLOURS)), max_tokens=8)
        if not reply.pictures:
            return Score(tuple(marks)), reply.warning or "no picture reached it"
        marks.append(Mark(True, True, reply.text == colour, shortened_line(reply.text, 40)))
        asking.tell(f"a {colour} square: {'right' if marks[-1].right else 'wrong'}, {seconds:.1f} s: {reply.text!r}")
    return Score(tuple(marks)), ""
