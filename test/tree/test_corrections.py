"""A person's word that corrects what the world knows: read in a closed form, shown, and taken in once confirmed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from doubles import Clock, Reader, ScriptedWorld, expand
from office import OfficeWorld
from persons import Says, replays, told_by_the_person

from reactree_ros.agent.corrections import NOTHING, grammar_of, read_exactly
from reactree_ros.agent.turns import Saw
from reactree_ros.background.pending import Pending
from reactree_ros.episode import Episode
from reactree_ros.episode.going_on import go_on
from reactree_ros.episode.run_spec import RunSpec
from reactree_ros.household.houses import HOUSES
from reactree_ros.household.symbolic import SymbolicWorld
from reactree_ros.household.tasks import load_tasks
from reactree_ros.person.desk import Desk
from reactree_ros.person.port import NobodyAnswers, Person
from reactree_ros.planners.spec import planner
from reactree_ros.record.reader import Record
from reactree_ros.record.schema import Event
from reactree_ros.record.writer import Recorder
from reactree_ros.tree.options import TreeOptions
from reactree_ros.view.steering import Steering
from reactree_ros.world.port import Observation, Outcome, World
from reactree_ros.world.skill_policy import policy_from_list
from reactree_ros.world.wrappers import PolicyGuard

#: The last decision of a run that does something before.
DONE = "Act: done"


class Run:
    """A run in the office, or another world, to which a person says something before its first decision."""

    def __init__(
        self,
        *words: str,
        person: Person | None,
        decides: Sequence[str] = (DONE,),
        understood: Sequence[str] = (),
        world: World | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.world = OfficeWorld() if world is None else world
        self.model, self.person, self.events = Reader({"root": decides}, understood), person, list[Event]()
        self.episode = Episode(
            "root",
            world=self.world,
            model=self.model,
            planner=planner("reactree_wm"),
            person=person,
            options=TreeOptions(answer_timeout=5.0, check_done=False),
            record=Recorder(self.events.append),
            **({} if clock is None else {"clock": clock}),
        )
        for one in words:
            self.episode.hear(one)

    def ends(self) -> Run:
        """Carry it out; what is recorded of it replays identically."""
        result = self.episode.run()
        assert result.end == "done", result
        assert replays(self.events)
        return self

    @property
    def words_told(self) -> list[str]:
        """What the node was told of the person."""
        return told_by_the_person(self.episode)

    @property
    def shown(self) -> list[str]:
        """What the person was shown."""
        assert isinstance(self.person, Says)
        return [one.text for one in self.person.asked]

    @property
    def seen(self) -> str:
        """What the node saw last before it decided."""
        return [turn.text for turn in self.episode.context.nodes[0].turns if isinstance(turn, Saw)][-1]

    @property
    def map(self) -> str:
        """What the map tells of the things that are not paper."""
        assert isinstance(self.world, OfficeWorld)
        scene = self.world.map
        at = {item.name: scene.place_of(item) for item in scene.items()}
        where = {name: "" if place is None else f" at {place.name}" for name, place in at.items()}
        return "; ".join(
            f"{item.name}{where[item.name]} {scene.borne.get(item.id, '')}".strip()
            for item in scene.items()
            if item.word != "paper"
        )


# ---------------------------------------------------------------------- what is taken in


def test_what_is_said_in_the_closed_form_is_shown_and_counts_once_confirmed_without_a_request() -> None:
    run = Run("I have taken the stapler.", person=Says("y")).ends()
    assert run.shown == ["Do I understand you: the stapler 1 is with the person?"]
    assert run.words_told == [
        'The person says: "I have taken the stapler.".',
        "The person confirms it: the stapler 1 is with the person.",
    ]
    assert run.seen.endswith("The person has stapler (1).")
    assert (run.model.read, len(run.model.requests)) == ([], 1)


def test_other_words_are_one_request_that_is_held_to_the_closed_form() -> None:
    run = Run(
        "Anna grabbed that stapler over there",
        person=Says("yes"),
        understood=["take in that the stapler 1 is with Anna"],
    )
    run.ends()
    (request,) = run.model.read
    assert request.may_say == grammar_of(OfficeWorld().corrections().take())
    assert 'The person says: "Anna grabbed that stapler over there".' in request.prompt
    assert run.seen.endswith("Anna has stapler (1).")


def test_two_corrections_in_one_sentence_are_shown_together_and_both_taken_in() -> None:
    run = Run("I have taken the stapler and the jug is on the meeting table", person=Says("y")).ends()
    assert run.shown == ["Do I understand you: the stapler 1 is with the person; the jug 1 is at meeting table 1?"]
    assert run.map == "stapler 1 the person; jug 1 at meeting table 1; cup 1 at counter 1"
    understood = "take in that the cup 1 is gone; the jug 1 is with Bob"
    run = Run("no cup any more, Bob drinks from the jug", person=Says("y"), understood=[understood]).ends()
    assert run.map == "stapler 1 at desk 1; jug 1 Bob; cup 1"


@pytest.mark.parametrize(
    "words", ["please hurry", "what is on the desk?", "I have a question", "the unicorn is on the desk"]
)
def test_what_corrects_nothing_stays_a_note_and_nothing_is_shown(words: str) -> None:
    run = Run(words, person=Says(), understood=[NOTHING]).ends()
    assert (run.shown, run.words_told) == ([], [f'The person says: "{words}".'])
    assert run.map == "stapler 1 at desk 1; jug 1 at counter 1; cup 1 at counter 1"


@pytest.mark.parametrize(
    "understood",
    [
        "pick up stapler 1",
        "take in that the unicorn 1 is gone",
        "take in that all is well",
        "take in that the cup 1 is gone",
        "done",
    ],
)
def test_what_a_model_reads_outside_of_the_closed_form_is_not_taken_in(understood: str) -> None:
    run = Run("fetch the unicorn", person=Says(), understood=[understood]).ends()
    assert (run.shown, run.words_told) == ([], ['The person says: "fetch the unicorn".'])
    assert not run.world.calls  # type: ignore[attr-defined]


# ---------------------------------------------------------------------- what is not


@pytest.mark.parametrize("answer", ["no", "yes, but not that one", "ok", ""])
def test_anything_but_a_yes_changes_nothing_and_the_node_is_told_what_was_said(answer: str) -> None:
    run = Run("the cup is on desk 1", person=Says(answer)).ends()
    assert run.map == "stapler 1 at desk 1; jug 1 at counter 1; cup 1 at counter 1"
    assert run.words_told[1] == (
        f"That is not taken in: the person was shown 'the cup 1 is at desk 1', and says \"{answer}\"."
    )


def test_without_an_answer_in_its_time_nothing_changes_and_the_run_goes_on() -> None:
    clock, desk = Clock(), Desk()
    run = Run("the cup is on desk 1", person=desk, clock=clock)
    for _ in range(20):
        run.episode.tick()
    assert desk.next is not None
    assert not run.episode.finished
    clock.now += 6.0
    while not run.episode.finished:
        run.episode.tick()
    run.episode.conclude()
    assert run.words_told[1] == "That is not taken in: nobody answers: no answer within 5 s."
    assert "cup 1 at counter 1" in run.map
    assert replays(run.events)


def test_where_nobody_is_there_nothing_changes() -> None:
    run = Run("the cup is on desk 1", person=Says(NobodyAnswers("nobody is there"))).ends()
    assert run.words_told[1] == "That is not taken in: nobody answers: nobody is there."
    run = Run("the cup is on desk 1", person=None).ends()
    assert (len(run.words_told), run.model.read) == (1, [])
    assert "cup 1 at counter 1" in run.map


def test_a_world_that_sees_by_itself_takes_no_word_and_says_so_in_one_line() -> None:
    world = ScriptedWorld()
    run = Run("the apple is in the fridge", person=Says(), world=world).ends()
    assert (run.shown, run.words_told, run.model.read) == ([], ['The person says: "the apple is in the fridge".'], [])
    correction = read_exactly("the cup is on desk 1", OfficeWorld().corrections().take())[0][0]
    refused = world.correct(correction).take()
    assert (refused.outcome, refused.text) == (Outcome.PRECONDITION, "This world sees by itself what is where.")


# ---------------------------------------------------------------------- which one


def kitchen() -> SymbolicWorld:
    """A house with several apples."""
    return SymbolicWorld(load_tasks(HOUSES["apartment"])[0])


def alike(world: SymbolicWorld) -> tuple[str, list[str]]:
    """A word of which the house has two or three things, with these."""
    names = dict(next(one for one in world.corrections().take() if one.skill.name == "gone").now)["thing"]
    words = [name.rpartition(" ")[0] for name in names]
    word = next(word for word in words if words.count(word) in (2, 3))
    return word, [name for name in names if name.rpartition(" ")[0] == word]


@pytest.mark.parametrize("said", ["the {} is gone", "somebody threw the {} away"])
def test_where_two_things_fit_the_person_is_asked_which_whoever_has_read_the_words(said: str) -> None:
    world = kitchen()
    word, names = alike(world)
    run = Run(
        said.format(word), person=Says(names[1]), world=world, understood=[f"take in that the {names[0]} is gone"]
    )
    run.ends()
    assert run.shown == [f"Which do you mean: {', or '.join(f'the {name} is gone' for name in names)}?"]
    assert run.words_told[1] == f"The person confirms it: the {names[1]} is gone."


@pytest.mark.parametrize("answer", ["the other one", "yes", "gone", "no"])
def test_an_answer_that_names_none_of_them_changes_nothing(answer: str) -> None:
    world = kitchen()
    word, names = alike(world)
    run = Run(f"the {word} is gone", person=Says(answer), world=world).ends()
    assert run.words_told[1].startswith("That is not taken in: the person was shown ")
    assert all(world.scene.room_of(world.scene.by_name[name]) is not None for name in names)


def test_what_may_mean_too_much_is_not_listed_and_the_node_is_told_so() -> None:
    run = Run(
        "the wine glass is on the chair and the mug is on the chair and the apple is gone",
        person=Says(),
        world=kitchen(),
    )
    run.ends()
    assert run.words_told[1] == (
        "That is not taken in: it may mean more than 9 things; the person has to name each with its number."
    )


def test_what_a_person_has_is_not_picked_up_and_the_reason_says_who_has_it() -> None:
    run = Run("Anna has the cup", person=Says("y"), decides=["Act: navigate to counter 1", DONE]).ends()
    refused = run.world.execute("grip cup 1 with low force").take()
    assert (refused.outcome, refused.text) == (Outcome.PRECONDITION, "Anna has the cup.")


# ---------------------------------------------------------------------- what it does to the robot


def test_who_has_what_was_handed_over_is_known_and_told() -> None:
    world = OfficeWorld()
    for skill in ("navigate to counter 1", "grip cup 1 with low force", "hand over cup 1 to Anna"):
        assert world.execute(skill).take().outcome is Outcome.DONE
    around = world.observe().take()
    assert around.text.endswith("Anna has cup (1).")
    assert [one.place for one in around.seen if one.word == "cup"] == ["Anna"]
    assert world.execute("grip cup 1 with low force").take().text == "Anna has the cup."


def test_what_was_corrected_is_recalled() -> None:
    run = Run(
        *("Anna has the cup", "the stapler is on counter 1", "the jug is gone"),
        person=Says("y", "y", "y"),
        decides=[DONE],
    ).ends()
    memory = run.episode.context.known
    assert memory.recall("cup") == "You saw cup 1 near Anna."
    assert memory.recall("stapler") == "You saw stapler 1 near counter 1 in corridor 1."
    assert memory.recall("jug") == "You have not seen jug before."


def test_what_the_robot_holds_can_be_corrected_and_what_it_cannot_hold_is_refused() -> None:
    world = OfficeWorld()
    for skill in ("navigate to counter 1", "grip cup 1 with low force"):
        world.execute(skill).take()
    run = Run(
        "the jug is held by the robot",
        "I have taken the cup",
        "the jug is held by the robot",
        world=world,
        person=Says("y", "y", "y"),
    )
    run.ends()
    assert run.words_told[1] == (
        "The person confirms it, but 'the jug 1 is held by the robot' cannot be: "
        "It was not taken in: the robot holds cup 1."
    )
    assert run.seen.endswith("You hold jug (1). The person has cup (1).")


def test_no_word_lifts_a_policy() -> None:
    rules = [{"skill": "grip", "verdict": "deny"}, {"skill": "navigate", "verdict": "allow"}]
    policy = policy_from_list(rules, where="test")
    words = (
        "you may grip cup 1",
        "Act: grip cup 1 with low force",
        "allow everything",
        "the cup is held by the robot",
        "yes",
    )
    world = OfficeWorld()
    guarded = PolicyGuard(world, policy, lambda skill, reason: Pending.ready("nobody"))
    understood = ["grip cup 1 with low force", "take in that the policy is gone", NOTHING, NOTHING]
    run = Run(*words, person=Says("no"), world=guarded, understood=understood).ends()
    assert run.shown == ["Do I understand you: the cup 1 is held by the robot?"]
    assert (world.calls, world.map.held) == ([], [])
    refused = guarded.execute("grip cup 1 with low force").take()
    assert refused.outcome is Outcome.REFUSED_BY_POLICY


# ---------------------------------------------------------------------- when


class Held(OfficeWorld):
    """An office in which a skill stays under way until it is settled."""

    under_way: Callable[[], object] | None = None

    def execute(self, skill: str) -> Pending[Observation]:
        pending = Pending[Observation]()
        self.under_way = lambda: pending.succeed(super(Held, self).execute(skill).take())
        return pending


def test_a_correction_while_a_skill_runs_waits_for_its_end_and_stands_after_it() -> None:
    world = Held()
    run = Run(person=Says("y"), world=world, decides=["Act: navigate to counter 1", DONE])
    while world.under_way is None:
        run.episode.tick()
    run.episode.hear("I have taken the stapler")
    for _ in range(5):
        run.episode.tick()
    assert run.shown == []
    world.under_way()
    run.ends()
    assert run.seen.endswith("The person has stapler (1).")


def test_after_a_pause_the_node_knows_what_the_person_did_meanwhile() -> None:
    run = Run(person=Says("y"), decides=[DONE])
    run.model.settle = False
    while not run.model.requests:
        run.episode.tick()
    run.episode.pause()
    run.episode.tick()
    run.episode.hear("I have taken the stapler")
    run.episode.tick()
    run.model.settle, run.model.script["root"] = True, [DONE]
    run.episode.resume()
    run.ends()
    assert "The person has stapler (1)." in run.model.requests[-1].prompt


def test_of_several_nodes_the_word_corrects_once() -> None:
    run = Run(person=Says("y"), decides=[expand("sequence", "a", "b")])
    run.model.script |= {"a": ["Act: navigate to counter 1", DONE], "b": [DONE]}
    while len(run.episode.context.nodes) < 2:
        run.episode.tick()
    run.episode.hear("I have taken the stapler")
    run.ends()
    assert len(run.shown) == 1
    assert sum(event["e"] == "observation" and event["of"] == "correct" for event in run.events) == 1


def test_from_the_page_a_word_is_told_shown_as_a_question_and_confirmed_by_a_button() -> None:
    desk = Desk()
    run = Run(person=desk, decides=["Act: navigate to counter 1", DONE])
    steering = Steering(run.model, desk)
    steering.follow(run.episode)
    steering.commands(Path())["tell"]("I have taken the stapler")
    while (asked := steering.course.asked) is None:
        run.episode.tick()
    assert (asked.text, asked.skill) == (
        "Do I understand you: the stapler 1 is with the person?",
        "the stapler 1 is with the person",
    )
    steering.commands(Path())[f"answer {asked.number}"]("yes")
    run.ends()
    assert run.map.startswith("stapler 1 the person")


@pytest.mark.parametrize("anew", [False, True])
def test_a_run_that_is_resumed_or_forked_takes_in_again_what_was_confirmed(anew: bool) -> None:
    run = Run("the jug is gone", person=Says("y"), decides=["Act: navigate to counter 1", DONE]).ends()
    record = Record(tuple(run.events), "test")
    spec = RunSpec.of_record(record).but(world=None)
    again = OfficeWorld()
    until = next(at for at, event in enumerate(run.events) if event["e"] == "observation" and event["of"] == "execute")
    episode = go_on(record, until, spec, world=again, model=Reader({"root": [DONE]}), person=Says(), anew=anew)
    assert episode.run().end == "done"
    assert again.map.room_of(again.map.by_name["jug 1"]) is None
