"""What a model that sees is shown: the newest pictures of a prompt, no larger than it is to have them."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from itertools import accumulate

from reactree_ros.agent.picture import PICTURES, Picture, fitted, needs_pillow, opened
from reactree_ros.agent.turns import Saw, Turn

#: The most pictures in a prompt, and those that travel with one to another process.
MOST_SHOWN = 16
#: Pictures whose smaller copies are kept: each request has the same bytes, so that prefix caches serve them.
_KEPT = 64


@dataclass(frozen=True)
class Shown:
    media: str  # ``image/png`` or ``image/jpeg``
    data: bytes  # its bytes
    tokens: int  # about how many tokens of the prompt it takes

    @property
    def url(self) -> str:
        """Itself as an address; never that of a file."""
        return f"data:{self.media};base64,{base64.b64encode(self.data).decode()}"


#: Pictures that are shown, by the number of the turn that they follow.
Showing = Mapping[int, Sequence[Shown]]


@dataclass(frozen=True)
class Seeing:
    """How many pictures a model is shown, and how large."""

    most: int = 4  # of the newest in a prompt, the most that are shown; older ones are told of in words
    side: int = 768  # the longest side in pixels; a larger picture is made smaller

    def shown(self, turns: Sequence[Turn], room: int | None = None) -> Showing:
        """Return what is shown of the pictures in a prompt, in as many tokens as there is room for (None: unknown).

        Pictures leave a prompt in groups of half as many as it may have: all requests in between begin alike, and a
        prefix cache serves them.
        """
        found = [(number, picture) for number, turn in enumerate(turns) for picture in pictures_of(turn)]
        totals = accumulate(one.tokens(self.side) for _, one in reversed(found))
        most = min(self.most, sum(room is None or total <= room for total in totals))
        group = max(1, most // 2)
        left_out = -(-max(0, len(found) - most) // group) * group if most else len(found)
        showing: dict[int, list[Shown]] = {}
        for number, picture in found[left_out:]:
            if (shown := self._as_shown(picture)) is not None:
                showing.setdefault(number, []).append(shown)
        return showing

    def _as_shown(self, picture: Picture) -> Shown | None:
        """Return a picture that is no larger than wanted; None if its bytes are gone or nothing makes it smaller."""
        data = PICTURES.data(picture)
        if data is not None and max(picture.width, picture.height) > self.side:
            data = _smaller(data, picture.media, fitted(picture.width, picture.height, self.side))
        return None if data is None else Shown(picture.media, data, picture.tokens(self.side))


def pictures_of(turn: Turn) -> Sequence[Picture]:
    return turn.observation.pictures if isinstance(turn, Saw) and turn.observation is not None else ()


def why_unseen(turns: Sequence[Turn], engine: str, *, sees: bool, side: int) -> str:
    """Say why no picture of a prompt is shown; empty if there is none, or its bytes are gone."""
    pictures = [picture for turn in turns for picture in pictures_of(turn)]
    if not pictures:
        return ""
    if not sees:
        return f"{engine} sees no pictures, so it is told in words what is on them, as far as somebody has said that"
    if max(pictures[-1].width, pictures[-1].height) > side and find_spec("PIL") is None:
        return needs_pillow(f"a picture of {pictures[-1].width} by {pictures[-1].height} pixels is not shown: that")
    return ""


@lru_cache(maxsize=_KEPT)
def _smaller(data: bytes, media: str, size: tuple[int, int]) -> bytes | None:
    try:
        with opened(data) as found:
            file = io.BytesIO()
            found.convert("RGB").resize(size).save(file, media.removeprefix("image/"), quality=90)
            return file.getvalue()
    except Exception:  # Pillow is not there, or its readers raise what they like
        return None
