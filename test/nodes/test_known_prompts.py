"""A decision is asked for with the turns that are new, and the model gets the whole prompt nevertheless."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from drawn import png
from reactree_interfaces.msg import Turn as TurnMsg
from reactree_interfaces.srv import Generate
from ros_graph import Graph

from reactree_ros.agent.grammar import DecisionGrammar
from reactree_ros.agent.observation import Observation
from reactree_ros.agent.picture import PICTURES, picture_of
from reactree_ros.agent.turns import Prompt, Said, Saw, Told, ToldStart, Turn
from reactree_ros.background.pending import Pending
from reactree_ros.llm.port import Choice, DecisionRequest, LanguageModel, LanguageModelError, Reply
from reactree_ros.nodes.calls import Calls
from reactree_ros.nodes.inference.inference_node import KeptPrompts, UnknownPrompt
from reactree_ros.nodes.messages import Known
from reactree_ros.nodes.planner.adapters import RosLanguageModel, SentPrompts

START = (ToldStart(system="You are a robot.", examples=((Told("Your task is to: a"), Said("Act: done")),)),)


class Hearing(LanguageModel):
    """Keeps the prompts that it gets; says the number of their turns."""

    def __init__(self) -> None:
        self.heard: list[tuple[Turn, ...]] = []
        self.skills: list[Sequence[str]] = []

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        self.heard.append(tuple(request.turns))
        self.skills.append(request.may_say.options if isinstance(request.may_say, Choice) else request.may_say.skills)
        return Pending.ready(Reply(str(len(request.turns))))


class Asker:
    """A planner's side: goal nodes whose prompts grow, and the messages that leave."""

    def __init__(self, graph: Graph, planner: str = "") -> None:
        self._graph, self._planner = graph, planner
        node = graph.probe
        calls = Calls(node, patience=5.0)
        node.create_timer(0.02, calls.watch)
        self.model = RosLanguageModel(node, "inference", calls)
        self.sent: list[Any] = []
        call_async = self.model._generate.call_async
        self.model._generate.call_async = lambda msg: self.sent.append(msg) or call_async(msg)

    def ask(self, turns: Sequence[Turn], skills: Sequence[str] = ("go on",)) -> Reply:
        request = DecisionRequest(turns, DecisionGrammar(tuple(skills)), planner=self._planner, id=str(len(self.sent)))
        reply = self.model.decide(request)
        self._graph.until(reply.done)
        return reply.take()

    @property
    def kinds(self) -> list[list[int]]:
        """The kinds of the turns of each message that left."""
        return [[turn.kind for turn in msg.turns] for msg in self.sent]


def wholly(turns: Sequence[Turn]) -> tuple[Turn, ...]:
    """Return turns as a model behind a service gets them: what somebody said has no decision yet."""
    return tuple(replace(turn, decision=None) if isinstance(turn, Said) else turn for turn in turns)


def test_of_a_prompt_that_grows_only_what_is_new_is_sent(graph: Graph) -> None:
    model = Hearing()
    graph.inference(model)
    asker, turns = Asker(graph), [Told("Your task is to: b"), Saw("You are in the kitchen.")]
    for number in range(4):
        prompt = Prompt(START, turns)
        skills = [f"go to place {place}" for place in range(number)]
        assert asker.ask(prompt, skills).text == str(3 + 2 * number)
        assert (model.heard[-1], model.skills[-1]) == (wholly(prompt), tuple(skills))
        turns += [Said(f"Act: go to place {number}"), Saw(f"You see {number}.")]
    known, said, saw = TurnMsg.KNOWN, TurnMsg.SAID, TurnMsg.SAW
    assert asker.kinds[1:] == [[known, said, saw]] * 3
    assert model.heard[3][0].examples == START[0].examples


def test_a_childs_prompt_has_its_start_from_its_parents(graph: Graph) -> None:
    model = Hearing()
    graph.inference(model)
    asker, parent = Asker(graph), [Told("Your task is to: b")]
    asker.ask(Prompt(START, parent))
    child = Prompt((replace(START[0]),), [Told("Your task is to: c")])  # an equal start, made anew
    asker.ask(child)
    parent.append(Said("Expand: …"))
    asker.ask(Prompt(START, parent))
    assert asker.kinds[1:] == [[TurnMsg.KNOWN, TurnMsg.TASK], [TurnMsg.KNOWN, TurnMsg.SAID]]
    assert model.heard[1:] == [wholly(child), wholly((*START, *parent))]


def test_any_prompts_in_any_order_reach_the_model_whole(graph: Graph) -> None:
    model, chance = Hearing(), random.Random(3)
    inference = graph.inference(model)
    inference._prompts = KeptPrompts(most=4, characters=4000)
    asker = Asker(graph)
    starts = [(ToldStart(system=f"You are robot {number}."),) for number in range(2)]
    nodes: list[tuple[Any, list[Turn]]] = [(chance.choice(starts), [Told(f"task {number}")]) for number in range(6)]
    for number in range(60):
        start, turns = chance.choice(nodes)
        turns += [Said(f"Act: {number}"), Saw(f"You see {'much ' * chance.randrange(80)}{number}.")]
        if chance.random() < 0.2:  # the middle is left out, as where the context is full
            turns[:] = [turns[0], Told("Much."), *turns[-2:]]
        prompt = (*start, *turns)
        skills = tuple(f"go to {chance.randrange(9)}" for _ in range(chance.randrange(4)))
        asker.ask(prompt, skills)
        assert (model.heard[-1], model.skills[-1]) == (wholly(prompt), skills)
    assert len(model.heard) == 60
    assert len(inference._prompts._kept) <= 4
    assert inference._prompts._size <= 4000


@pytest.mark.parametrize("way", ["restarted", "has dropped it"])
def test_a_node_that_does_not_know_the_prompt_is_sent_all_of_it(graph: Graph, way: str) -> None:
    model = Hearing()
    inference = graph.inference(model, alone=True)
    asker, turns = Asker(graph), [Told("Your task is to: b")]
    asker.ask(Prompt(START, turns))
    turns += [Said("Act: x"), Saw("You see it.")]
    if way == "has dropped it":
        inference._prompts.clear()
    else:
        graph.kill(inference)
        graph.until(lambda: not asker.model._generate.service_is_ready())
        graph.inference(model)
        graph.until(asker.model._generate.service_is_ready)
    asker.ask(Prompt(START, turns))
    turns += [Said("Act: y"), Saw("You see more.")]
    asker.ask(Prompt(START, turns))
    assert [kinds[0] == TurnMsg.KNOWN for kinds in asker.kinds] == [False, True, False, True]
    assert model.heard[1:] == [wholly((*START, *turns[:-2])), wholly((*START, *turns))]


def test_a_node_that_knows_no_prompt_whatever_it_is_sent_is_an_error(graph: Graph) -> None:
    def answer(msg: Any, response: Any) -> Any:
        asked.append(msg)
        known = len(asked) > 1
        response.error_code, response.text = (response.UNKNOWN_PROMPT if known else response.NONE), "Act: x"
        response.message = "never heard of it" if known else ""
        return response

    asked: list[Any] = []
    graph.add_node("inference").create_service(Generate, "inference/generate", answer)
    asker = Asker(graph)
    asker.ask(Prompt(START, [Told("a")]))
    with pytest.raises(LanguageModelError, match="never heard of it"):
        asker.ask(Prompt(START, [Told("a")]))
    assert len(asked) == 3


def known(id: str, turns: int, **more: Any) -> Any:
    return TurnMsg(kind=TurnMsg.KNOWN, text=id, example=turns, **more)


def told(text: str, **more: Any) -> Any:
    return TurnMsg(kind=TurnMsg.TASK, text=text, **more)


def test_nobody_goes_on_from_the_prompt_of_another_planner(graph: Graph) -> None:
    model = Hearing()
    graph.inference(model)
    codes = {}
    graph.call(Generate, "inference/generate", id="1", planner="a", turns=[told("mine")], max_tokens=8)
    for planner in ("b", "", "a"):
        turns = [known("1", 1), told("more")]
        sent = {"id": f"of {planner}", "planner": planner, "turns": turns, "max_tokens": 8}
        codes[planner] = graph.call(Generate, "inference/generate", **sent).error_code
    assert codes == {"b": Generate.Response.UNKNOWN_PROMPT, "": Generate.Response.UNKNOWN_PROMPT, "a": 0}
    assert model.heard == [(Told("mine"),), (Told("mine"), Told("more"))]


@pytest.mark.parametrize(
    ("turns", "says"),
    [
        ([("1", 0)], "0 turns of request '1' of this planner are not kept"),
        ([("1", 3)], "3 turns of request '1' of this planner are not kept"),
        ([("2", 1)], "1 turns of request '2' of this planner are not kept"),
        ([("", 65535)], "65535 turns of request '' of this planner are not kept"),
        ([("1", 1), ("1", 1)], "turns[0].example is 1; examples follow a turn of kind START"),
        ([None, ("1", 0)], "turns[1].kind is KNOWN (12); only the first turn may be, outside of examples"),
        ([("1", 2), 4], "turns[0].example is 4; examples follow a turn of kind START"),
    ],
)
def test_what_no_prompt_begins_with_is_refused_and_the_node_lives_on(graph: Graph, turns: list[Any], says: str) -> None:
    model = Hearing()
    graph.inference(model)
    graph.call(Generate, "inference/generate", id="1", turns=[told("a"), told("b")], max_tokens=8)
    msgs = [known(*one) if isinstance(one, tuple) else told("x", example=one or 0) for one in turns]
    answer = graph.call(Generate, "inference/generate", id="3", turns=msgs, max_tokens=8)
    assert answer.error_code in (Generate.Response.UNKNOWN_PROMPT, Generate.Response.INVALID_REQUEST)
    assert says in answer.message
    assert graph.call(Generate, "inference/generate", id="3", turns=[known("1", 2)], max_tokens=8).text == "2"
    assert len(model.heard) == 2


def test_options_with_line_ends_travel_as_they_are(graph: Graph) -> None:
    model = Hearing()
    graph.inference(model)
    asker, turns = Asker(graph), [Told("a")]
    for options in (("a\nb", "c"), ("", "a"), ("",), ("a",)):
        turns.append(Said("Act: x"))
        request = DecisionRequest(Prompt(START, turns), Choice(options), id=str(len(turns)))
        reply = asker.model.decide(request)
        graph.until(reply.done)
        reply.take()
        assert model.skills[-1] == options


def test_a_picture_whose_bytes_are_gone_is_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    picture = picture_of(png(), camera="head")
    turns = (Told("a"), Saw("You see it.", Observation("You see it.", pictures=(picture,))))
    kept = KeptPrompts()
    kept.keep("", "1", turns)
    assert kept.turns("", Known("1", 2)) == turns
    monkeypatch.setattr(PICTURES, "data", lambda one: None)
    with pytest.raises(UnknownPrompt, match="a picture in the prompt of request '1' is not kept any more"):
        kept.turns("", Known("1", 2))
    assert kept.turns("", Known("1", 1)) == turns[:1]


def test_equal_words_with_other_pictures_are_another_turn() -> None:
    sent, words = SentPrompts(), "You see it."
    first, second = (Saw(words, Observation(words, data={"at": number})) for number in range(2))
    sent.add("1", (Told("a"), first), None)
    start = Told("a")
    assert sent.longest((start, second)) is None
    sent.add("2", (start, first), None)
    assert sent.longest((start, second, Said("Act: x"))) == Known("2", 1)


def test_a_prompt_that_is_too_large_is_not_kept() -> None:
    kept = KeptPrompts(characters=100)
    kept.keep("", "1", (Told("a" * 60),))
    kept.keep("", "1", (Told("a" * 70),))  # in the place of the first
    kept.keep("", "2", (Told("b" * 200),))
    for id in ("1", "2"):
        with pytest.raises(UnknownPrompt):
            kept.turns("", Known(id, 1))
    kept.keep("", "3", (Told("c" * 100),))
    assert kept.turns("", Known("3", 1)) == (Told("c" * 100),)
