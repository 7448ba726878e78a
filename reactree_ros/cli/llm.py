"""``reactree llm``: a language model is asked a planner's own first prompt, and moments of a run of the rules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import NamedTuple, cast

import typer
from rich.console import Console

from reactree_ros.agent.grammar import DecisionGrammar
from reactree_ros.agent.household import Household
from reactree_ros.agent.reading import read
from reactree_ros.agent.turns import Turn
from reactree_ros.background.pending import Pending
from reactree_ros.cli import NOT_ACHIEVED
from reactree_ros.cli.opening import chosen_planner, is_rewritten, open_model, say
from reactree_ros.cli.options import Chosen, NamedModel, takes
from reactree_ros.cli.output import print_table
from reactree_ros.cli.run import Planner
from reactree_ros.episode.assembly import assemble, make_world
from reactree_ros.episode.run_spec import RunSpec
from reactree_ros.llm.check import Lesson, Moment
from reactree_ros.llm.port import Around, DecisionRequest, LanguageModel, Reply
from reactree_ros.llm.spec import MODELS, ModelSpec, make_model
from reactree_ros.plugins.settings import Settings
from reactree_ros.world.spec import WORLDS, Place, WorldSettings

app = typer.Typer(add_completion=False, no_args_is_help=True)


@app.callback()
def llm() -> None:
    """Try a language model."""


@app.command("check", epilog="reactree llm check --base-url http://gpu-machine:8000/v1\nreactree llm check --llm small")
@takes(llm=NamedModel(default="openai"))
def check(planner: Planner = "", *, llm: Chosen) -> None:
    """Foretell how a language model will do: ask it a planner's own prompt and small questions, and say what to set.

    It makes some ten requests, and says what it waits for.

    Exit code 0 if it can be used, 1 if something is wrong or a decision failed, 2 if it is unreachable.
    """
    from reactree_ros.llm.check import check
    from reactree_ros.llm.waiting import kept_out_of_the_log

    errors, doing = Console(stderr=True), "Asking"
    chosen = chosen_planner(planner, llm).name
    with open_model(*llm) as model, errors.status(doing) as status, kept_out_of_the_log(is_rewritten(errors)):
        report = check(
            model,
            lesson(model, llm, chosen),
            llm.settings,
            show=lambda words: status.update(words or doing),
            tell=lambda words: errors.print(words, style="dim", markup=False, highlight=False, soft_wrap=True),
        )
    print_table(("what", "is"), report.facts.items())
    for problem in report.problems:
        say(f"! {problem}", "yellow")
    for one in report.advice:
        say(one, "bold")
    if report.is_whole and not report.advice:
        say("nothing to set")
    if report.problems:
        raise typer.Exit(NOT_ACHIEVED)


#: How many of a node's latest turns a moment has: two skills and what came of them.
_LATEST = 4
_RUNS, _VERBS = 2, 3
_FLAT = "react_wm"  # it says skills one after the other


class _Kept(Around):
    def __init__(self, model: LanguageModel, *, asks: bool = True) -> None:
        super().__init__(model)
        self.kept: list[tuple[DecisionRequest, Pending[Reply]]] = []
        self._asks = asks

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        self.kept.append((request, self.model.decide(request) if self._asks else Pending()))
        return self.kept[-1][1]


class _Done(NamedTuple):
    turns: tuple[Turn, ...]
    may_say: DecisionGrammar
    skill: str


def lesson(model: LanguageModel, llm: tuple[ModelSpec, Settings], planner: str) -> Lesson:
    world = WORLDS.get(WORLDS.default)
    place = Place.from_settings(world, cast("WorldSettings", world.settings()))
    asked = RunSpec.in_place(place, None, llm=llm, planner=planner)
    kept = _Kept(model, asks=False)
    with make_world(asked, place) as made:
        episode = assemble(asked, world=made, model=kept)
        while not (kept.kept or episode.finished):
            episode.tick()
            episode.wait()
        episode.interrupt()
    first, spec = kept.kept[0][0], llm[0]
    knows_its_prompts = not spec.examples or spec.trained_for(llm[1])  # and no other questions
    moments = () if knows_its_prompts else tuple(_moments(place))
    return Lesson(tuple(first.turns), first.may_say, first.max_tokens, moments)


def _moments(place: Place) -> Iterator[Moment]:
    rules = next(one for one in MODELS if not one.examples)
    shown = RunSpec.in_place(place, None, llm=(rules, rules.settings()), planner=_FLAT)
    with make_world(shown, place) as world, closing(make_model(rules, rules.settings())) as model:
        kept = _Kept(model)
        assemble(shown, world=world, model=kept).run()
        done = [*_done(kept.kept, world.household)]
    for three in [*_threes(done, world.household)][-_RUNS:]:
        skills = tuple(one.skill for one in three)
        for now, one in enumerate(three):
            yield Moment(one.turns, one.may_say, skills, now)


def _done(kept: Sequence[tuple[DecisionRequest, Pending[Reply]]], household: Household) -> Iterator[_Done]:
    for request, pending in kept:
        assert isinstance(request.may_say, DecisionGrammar)  # as of every agent node
        decision = read(pending.result().text, request.may_say)[-1].decision
        if decision is not None and household.split_skill(decision.skill_asked)[0]:
            _, task, *latest = request.turns
            yield _Done((task, *latest[-_LATEST:]), request.may_say, decision.skill_asked)


def _threes(done: Sequence[_Done], household: Household) -> Iterator[tuple[_Done, ...]]:
    """Yield three skills of different verbs, in order, that lead to what the run did last and did so before, too.

    Each of the three is needed before the next: it is the latest of its verb.
    """
    verbs = [household.split_skill(one.skill)[0] for one in done]
    for at, verb in enumerate(verbs):
        if verb == verbs[-1]:
            latest = {verbs[before]: before for before in range(at + 1)}
            if len(latest) >= _VERBS:
                yield tuple(done[one] for one in sorted(latest.values())[-_VERBS:])
