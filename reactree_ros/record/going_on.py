"""Goes on from a record: where its run stopped, or from one of its decisions on otherwise."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import TimeoutError as NotInTime
from contextlib import suppress
from typing import Any

from reactree_ros.episode import Episode, EpisodeEnd
from reactree_ros.errors import UserError
from reactree_ros.llm.port import DecisionRequest, LanguageModel, Reply
from reactree_ros.memory.episodic import EpisodicMemory
from reactree_ros.memory.experience import Experience
from reactree_ros.pending import Pending
from reactree_ros.planners.spec import planner
from reactree_ros.record.player import (
    Departure,
    Script,
    ScriptedModel,
    ScriptedWorld,
    follow_script,
    followed,
    make_episode,
)
from reactree_ros.record.reader import Record
from reactree_ros.record.schema import Event
from reactree_ros.record.writer import Recorder
from reactree_ros.tree.options import TreeOptions
from reactree_ros.world.port import Score, World
from reactree_ros.world.wrappers import SkillTimeLimit

_LIMITS = {EpisodeEnd.OUT_OF_DECISIONS.value: "decisions", EpisodeEnd.OUT_OF_STEPS.value: "steps"}


class SaysFirst(LanguageModel):
    """Says something first, and then what another model says.

    Args:
        text: What is said first.
        model: The other one.
    """

    def __init__(self, text: str, model: LanguageModel) -> None:
        self._text: str | None = text
        self._model = model

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        """Answer."""
        text, self._text = self._text, None
        return self._model.decide(request) if text is None else Pending.of(Reply(text))

    def count_tokens(self, text: str) -> int | None:
        """Count with the other model's tokenizer."""
        return self._model.count_tokens(text)


def stop_of(record: Record) -> int:
    """Return how many events lead to where a run stopped that may go on.

    Raises:
        UserError: It came to its end, so that there is nothing to go on with.
    """
    events = followed(record)
    if record.end is None:
        return next((at for at, event in enumerate(events) if event["e"] == "interrupted"), len(events))
    end = record.end["result"]["end"]
    for at, event in reversed(list(enumerate(events))):
        if end == EpisodeEnd.INTERRUPTED.value and event["e"] == "interrupted":
            return at
        if end not in _LIMITS and event["e"] == "failed" and event["of"] != "score":
            return at
        if end in _LIMITS and event.get("about") == "limit" and not _limited_before(events, at):
            return at
    raise UserError(
        f"{record.name}: ended as '{end}', there is nothing to go on with; "
        "`reactree fork RUN --at DECISION` goes on from one of its decisions otherwise"
    )


def _limited_before(events: Sequence[Event], at: int) -> bool:
    return any(event.get("about") == "limit" for event in events[:at])


def more_than(record: Record, given: Mapping[str, int]) -> dict[str, int]:
    """Return the limits of a run that goes on: those that are given, else the record's, doubled where it reached one.

    Raises:
        UserError: A given one is reached already.
    """
    limits = {f"max_{name}": int(limit) for name, limit in record.run["limits"].items()}
    if record.end is not None and (reached := _LIMITS.get(record.end["result"]["end"])):
        if given.get(f"max_{reached}", limits[f"max_{reached}"] + 1) <= limits[f"max_{reached}"]:
            raise UserError(
                f"--max-{reached} {given[f'max_{reached}']}: the run had as many; allow more than "
                f"{limits[f'max_{reached}']}"
            )
        limits[f"max_{reached}"] *= 2
    return limits | {name: value for name, value in given.items() if value}


def decision_of(record: Record, number: int) -> int:
    """Return how many events come before the reply with a decision, from 1.

    Raises:
        UserError: There is no such decision.
    """
    events = followed(record)
    made = [at for at, event in enumerate(events) if event["e"] in ("decided", "refused")]
    at = next((at for at in made if events[at]["decisions"] >= number), None)
    if at is None or number < 1:
        most = events[made[-1]]["decisions"] if made else 0
        raise UserError(f"--at {number}: the run has the decisions 1 to {most}")
    node = events[at]["node"]
    replies = [i for i, event in enumerate(events[:at]) if event["e"] == "reply" and event["node"] == node]
    if not replies:
        raise UserError(f"--at {number}: that decision came without a reply of its own; name another one")
    return replies[-1]


def decisions_before(record: Record, until: int) -> int:
    """Return how many decisions were counted in so many events."""
    counts = [event["decisions"] for event in followed(record)[:until] if event["e"] in ("decided", "refused")]
    return int(counts[-1]) if counts else 0


def parent_of(record: Record, until: int) -> Event:
    """Return how a record names the one that it goes on from."""
    path = None if record.path is None else str(record.path)
    return {"id": record.run["id"], "path": path, "decision": decisions_before(record, until)}


def go_on(
    record: Record,
    until: int,
    *,
    world: World,
    model: LanguageModel,
    write: Callable[[Event], None],
    flush: Callable[[], None] = lambda: None,
    about: Mapping[str, Any],
    limits: Mapping[str, int] | None = None,
    examples: Callable[[str], Pending[tuple[Experience, ...]]] | None = None,
    says: str = "",
    differs: Callable[[str, str, str], None] = lambda what, recorded, now: None,
) -> Episode:
    """Bring a run to where its record was, carrying its skills out again, and return it, to be gone on with live.

    The tree is given the recorded observations, which its decisions go with. Where one of them is another now, that is
    told, stands in the new record, and the run looks around anew before its next decision.

    Args:
        record: The record.
        until: How many of its events it follows.
        world: Where, standing where the task starts.
        model: Decides from there on.
        write: Takes the events of the new record.
        flush: Makes them safe; see :class:`Recorder`.
        about: What the new record says of world and language model; see :class:`Recorder`.
        limits: Options ``max_decisions`` and ``max_steps`` of the run.
        examples: Finds examples from there on.
        says: What is said first, in place of the model's next reply; empty: nothing.
        differs: Told of each skill that came to something else: what it is, what is recorded, what came now.

    Raises:
        UserError: The run cannot be brought there.
    """
    script = Script(followed(record)[:until], also=write, carries_out=True, goes_live=True, looks_anew=not says)
    recorder = Recorder(script.write, flush=flush, **about, parent=parent_of(record, until))
    timeout = TreeOptions.model_validate(record.run["options"]).skill_timeout
    live = SaysFirst(says, model) if says else model
    episode: Episode | None = None
    with suppress(Departure):
        episode = make_episode(
            record,
            script,
            recorder,
            world=ScriptedWorld(script, record, _no_score, SkillTimeLimit(world, timeout)),
            model=ScriptedModel(script, live),
            examples=examples,
            limits=limits,
        )
        follow_script(episode, script)
    for what, recorded, now in script.differences:
        differs(what, recorded, now)
    if episode is None or not script.live:
        raise UserError(
            f"{record.name}: the run cannot be brought to where it was: {script.difference or 'it ended before that'}; "
            "`reactree replay` says whether this version makes it again"
        )
    return episode


def _no_score() -> Pending[Score | None]:
    return Pending.of(None)


def carry_out_again(
    record: Record, until: int, world: World, differs: Callable[[str, str, str], None], timeout: float
) -> None:
    """Carry out the skills of so many of a record's events in a world.

    Raises:
        UserError: The world failed, or did not answer in time.
    """
    asked = ""
    for event in followed(record)[:until]:
        if event["e"] == "skill":
            asked = event["skill"]
        elif event["e"] == "observation" and event["of"] == "execute":
            try:
                now = world.execute(asked).result(timeout=timeout).text
            except (Exception, NotInTime) as error:
                raise UserError(f"'{asked}' could not be carried out again: {error or 'no answer in time'}") from error
            if now != event["text"]:
                differs(asked, event["text"], now)


def begin_otherwise(
    record: Record,
    until: int,
    name: str,
    *,
    world: World,
    model: LanguageModel,
    write: Callable[[Event], None],
    flush: Callable[[], None] = lambda: None,
    about: Mapping[str, Any],
    memory: EpisodicMemory | None = None,
    differs: Callable[[str, str, str], None] = lambda what, recorded, now: None,
) -> Episode:
    """Bring the world to where a record's was, and return an episode in which another planner begins there.

    Args:
        record: The record.
        until: How many of its events.
        name: Of the planner.
        world: Where, standing where the task starts.
        model: Decides.
        write: Takes the events of the new record.
        flush: Makes them safe; see :class:`Recorder`.
        about: What the new record says of world and language model.
        memory: Where examples come from.
        differs: Told of each skill that came to something else.

    Raises:
        UserError: There is no such planner, or the world failed.
    """
    run, chosen = record.run, planner(name)
    options = TreeOptions.model_validate(run["options"])
    carry_out_again(record, until, world, differs, options.skill_timeout)
    return Episode(
        run["instruction"],
        world=world,
        model=model,
        planner=chosen,
        memory=memory,
        options=options,
        record=Recorder(write, flush=flush, **about, parent=parent_of(record, until)),
        task_id=run["task_id"],
        task_name=run["task_name"],
    )
