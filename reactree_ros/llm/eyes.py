"""The eyes of a run: a second language model, which is asked about pictures."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from reactree_ros.agent.observation import Observation
from reactree_ros.agent.picture import ANSWERS, CANNOT_SEE, Glance, Picture, PictureCheck, place_in_words, read_box
from reactree_ros.agent.text import in_one_line
from reactree_ros.agent.turns import About, Saw, Told
from reactree_ros.background.pending import Pending, asked, in_time, mapped, stepwise
from reactree_ros.llm.engine_settings import EngineSettings
from reactree_ros.llm.port import Choice, DecisionRequest, FreeText, LanguageModel, MaySay, NoAnswerInTime, Reply
from reactree_ros.llm.spec import ModelSpec, make_model
from reactree_ros.plugins.settings import Settings

#: Longest answer in tokens, and what ends one that is free.
_MOST_TOKENS, _STOPS = 200, ("\n\n",)
_SYSTEM = Told("You see what a robot's camera sees. Answer by what is on the picture alone.", About.SYSTEM)
_CLOSED = f"{{question}} Answer with {', '.join(ANSWERS[:-1])} or {ANSWERS[-1]}."
_CAPTION = "Say in one or two sentences what is in the picture and where; name each thing by its usual word."
_WHERE = (
    'Where is the {thing} in the picture? Answer with JSON alone: {{"box": [left, top, right, bottom]}} in thousandths '
    "of the picture's width and height, or with: not there."
)
_NOT_SHOWN = "it was shown no picture"
_NO_PICTURE = "there was no picture to look at"


@dataclass(frozen=True)
class Sight:
    check: PictureCheck
    glances: tuple[Glance, ...] = ()  # what was asked and answered, in order
    pictures: tuple[Picture, ...] = ()  # what was looked at

    @property
    def holds(self) -> bool | None:
        """Whether it was seen that the skill was done; None: nobody has seen that, nor the contrary."""
        return self.check.holds(self.check.found(self.glances) or CANNOT_SEE)

    def after(self, glance: Glance, *pictures: Picture) -> Sight:
        """Return it after one more look; a picture says what was seen on it."""
        words = " ".join(filter(None, (glance.question, glance.answer)))
        known = {one.id for one in self.pictures}
        new = (replace(one, words=words) for one in pictures if one.id not in known)
        return replace(self, glances=(*self.glances, glance), pictures=(*self.pictures, *new))


class Eyes:
    """Asks a language model about pictures. What it says never fails: a :class:`Glance` says why nobody could look."""

    def __init__(self, model: LanguageModel, name: str, patience: float) -> None:
        self.model, self.name, self.patience = model, name, patience
        self._asked, self._failed = 0, False

    @classmethod
    def from_settings(cls, spec: ModelSpec, settings: Settings) -> Eyes:
        """Return eyes that a language model and its settings make; it begins to load or connect."""
        patience = getattr(settings, "request_timeout", EngineSettings.model_fields["request_timeout"].default)
        model = make_model(spec, settings)
        model.ready()
        return cls(model, " ".join(filter(None, (spec.name, getattr(settings, "model", "")))), patience)

    def close(self) -> None:
        self.model.close()

    def whether(self, question: str, picture: Picture) -> Pending[Glance]:
        """Ask a question with an answer; it is one of :data:`~reactree_ros.agent.picture.ANSWERS`."""
        return self._ask(question, _CLOSED.format(question=question), picture, Choice(ANSWERS))

    def caption(self, picture: Picture) -> Pending[Glance]:
        return self._ask(_CAPTION, _CAPTION, picture, FreeText(_STOPS))

    def where(self, thing: str, picture: Picture) -> Pending[Glance]:
        question = f"Where is the {thing}?"
        glance = self._ask(question, _WHERE.format(thing=thing), picture, FreeText(_STOPS))
        return mapped(glance, lambda said: _placed(said, thing, picture))

    def check(
        self, check: PictureCheck, values: Mapping[str, object], take: Callable[[], Pending[Sequence[Picture]]]
    ) -> Pending[Sight]:
        """Look whether a skill was done, with a new picture for each look."""
        return stepwise(self._looked(check, check.asked(values), take))

    def _looked(
        self, check: PictureCheck, question: str, take: Callable[[], Pending[Sequence[Picture]]]
    ) -> Generator[Pending[Any], Any, Sight]:
        sight = Sight(check)
        while check.found(sight.glances) is None:
            picture = next(iter((yield asked(take))), None)
            if picture is None:
                return sight.after(Glance(question, error=_NO_PICTURE))
            sight = sight.after((yield self.whether(question, picture)), picture)
        return sight

    def told_of(self, sight: Sight) -> str:
        """Say of a check what does not confirm the skill, as the end of a sentence without its full stop."""
        last = sight.glances[-1]
        if sight.holds is False:
            return f"the camera shows otherwise: {last.question} {sight.check.found(sight.glances)}"
        if last.error:
            why = self.once(last)
            return f"nobody could look whether it was done{f': {why}' if why else ''}"
        return f"the camera cannot see whether it was done ({last.question})"

    def once(self, glance: Glance) -> str:
        """Return why nobody could look; empty from the second time on, or if somebody did."""
        before, self._failed = self._failed, self._failed or bool(glance.error)
        return "" if before else glance.error

    def _ask(self, question: str, words: str, picture: Picture, may_say: MaySay) -> Pending[Glance]:
        self._asked += 1
        request = DecisionRequest(
            turns=(_SYSTEM, Saw("", Observation("", pictures=(picture,))), Told(words)),
            may_say=may_say,
            max_tokens=_MOST_TOKENS,
            id=f"eyes.{self._asked}",
            patience=self.patience,
        )
        return stepwise(self._answered(question, picture, request))

    def _answered(
        self, question: str, picture: Picture, request: DecisionRequest
    ) -> Generator[Pending[Reply], Reply, Glance]:
        late = NoAnswerInTime(f"no answer within {self.patience:g} s")
        try:
            reply = yield in_time(asked(self.model.decide, request), self.patience, late)
        except Exception as error:
            took = getattr(error, "took", None) or Reply("")
            return self._glance(question, picture, took, str(error) or type(error).__name__)
        # Who was shown nothing has guessed.
        why = reply.objection or ("" if reply.pictures else reply.warning or _NOT_SHOWN)
        return self._glance(question, picture, reply, why)

    def _glance(self, question: str, picture: Picture, reply: Reply, error: str) -> Glance:
        return Glance(
            question,
            "" if error else in_one_line(reply.text),
            picture.id,
            error=f"{self.name}: {error}" if error else "",
            answered_by=reply.answered_by or self.name,
            prompt_tokens=reply.prompt_tokens,
            cached_tokens=reply.cached_tokens,
            output_tokens=reply.output_tokens,
            picture_tokens=reply.picture_tokens,
            seconds=round(reply.seconds, 3),
        )


def _placed(glance: Glance, thing: str, picture: Picture) -> Glance:
    if glance.error:
        return glance
    box = read_box(glance.answer, picture.width, picture.height)
    if box is None:
        return replace(glance, answer="", error=f"{glance.answered_by}: says no place, but {glance.answer[:80]!r}")
    words = f"The {thing} is {place_in_words(box)}." if box else f"The {thing} is not there."
    return replace(glance, answer=words, box=box)
