"""A peer that sees: it reads the pixels of drawn pictures, never the state, and errs at given rates, by a seed.

It knows what classes look like: their colours, and that each thing has as many marks as its number.
"""

from __future__ import annotations

import io
import json
import random
import re
from collections.abc import Iterable
from typing import Any

from reactree_ros.agent.picture import CANNOT_SEE, NO, PICTURES, YES, Picture
from reactree_ros.background.pending import Pending
from reactree_ros.household.vocabulary import CLASSES
from reactree_ros.llm.port import DecisionRequest, LanguageModel, Reply
from reactree_ros.llm.seeing import pictures_of
from reactree_ros.world.drawing import HAND, HEIGHT, MARK, MARK_SIDE, WIDTH, colour_of

#: What is found in a picture: left, top, right and bottom in pixels, and the thing's number.
Found = tuple[int, int, int, int, int]
_HELD = re.compile(r"Is (?:the )?([a-z ]+ \d+) in the (?:hand|gripper)\?")
_WHERE = re.compile(r"Where is the ([a-z ]+?)(?: (\d+))? in the picture\?")


def found_in(data: bytes, word: str, *, below: int = 0) -> list[Found]:
    """Find all things of a class in a picture by their colour, and read their numbers off their marks.

    Args:
        data: The picture.
        word: The class.
        below: Where the part begins that is looked at.
    """
    from PIL import Image, ImageDraw

    image = Image.open(io.BytesIO(data)).convert("RGB").crop((0, below, WIDTH, HEIGHT))
    mask, marks, found = _equal(image, colour_of(word)), _equal(image, MARK), []
    while (box := mask.getbbox()) is not None:
        x = mask.crop((0, box[1], image.width, box[1] + 1)).getbbox()[0]
        rest = mask.copy()
        ImageDraw.floodfill(rest, (x, box[1]), 0)
        left, top, right, bottom = _less(mask, rest).getbbox()
        mask = rest
        if (right - left) * (bottom - top) < 100:
            continue  # the rest of something that other things hide
        number = marks.crop((left, top, right, bottom)).histogram()[255] // MARK_SIDE**2
        found.append((left, top + below, right, bottom + below, number))
    return found


def is_held(data: bytes, thing: str) -> bool:
    """Whether a thing, with its number, is in the hand on a picture."""
    word, _, number = thing.rpartition(" ")
    return any(one[4] == int(number) for one in found_in(data, word, below=HAND))


def _equal(image: Any, colour: tuple[int, int, int]) -> Any:
    """Return a mask of the pixels that have a colour."""
    from PIL import ImageChops

    bands = [
        band.point([255 * (value == wanted) for value in range(256)])
        for band, wanted in zip(image.split(), colour, strict=True)
    ]
    return ImageChops.darker(ImageChops.darker(bands[0], bands[1]), bands[2])


def _less(mask: Any, rest: Any) -> Any:
    from PIL import ImageChops

    return ImageChops.subtract(mask, rest)


class Detector(LanguageModel):
    """Answers questions about drawn pictures.

    Args:
        seed: Of its errors.
        misses: Share of the looks at which it overlooks what is there.
        mistakes: Share of the looks at which it takes for there what is not.
        blind: Share of the looks at which it cannot see.
        words: The classes that it names when it is asked what is on a picture.
    """

    def __init__(
        self,
        seed: int = 0,
        *,
        misses: float = 0.0,
        mistakes: float = 0.0,
        blind: float = 0.0,
        words: Iterable[str] = tuple(one.word for one in CLASSES.values()),
    ) -> None:
        self._random = random.Random(seed)
        self._misses, self._mistakes, self._blind = misses, mistakes, blind
        self._words = sorted(set(words))
        self.requests: list[DecisionRequest] = []

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        self.requests.append(request)
        (picture,) = (picture for turn in request.turns for picture in pictures_of(turn))
        asked = request.turns[-1].text
        text = self._answer(asked, picture)
        return Pending.ready(
            Reply(text, prompt_tokens=300, output_tokens=3, pictures=1, picture_tokens=picture.tokens(768))
        )

    def _answer(self, asked: str, picture: Picture) -> str:
        data = PICTURES.data(picture)
        assert data is not None
        if held := _HELD.search(asked):
            return self._held(data, held[1])
        if where := _WHERE.search(asked):
            found = self._seen(data, where[1], where[2])
            if not found:
                return "not there"
            left, top, right, bottom = found[0][:4]
            shares = (left / WIDTH, top / HEIGHT, right / WIDTH, bottom / HEIGHT)
            return json.dumps({"box": [round(1000 * share) for share in shares]})
        named = [word for word in self._words if found_in(data, word)]
        return f"I see {', '.join(named) or 'nothing'}."

    def _held(self, data: bytes, thing: str) -> str:
        if self._random.random() < self._blind:
            return CANNOT_SEE
        return YES if self._takes_for(is_held(data, thing)) else NO

    def _seen(self, data: bytes, word: str, number: str | None) -> list[Found]:
        found = [one for one in found_in(data, word) if number is None or one[4] == int(number)]
        if self._takes_for(bool(found)):
            return found or [(0, 0, 40, 40, 0)]
        return []

    def _takes_for(self, there: bool) -> bool:
        """Return whether it takes something for there."""
        return there != (self._random.random() < (self._misses if there else self._mistakes))
