"""The size of requests and replies, counted by whoever can."""

from __future__ import annotations

from reactree_ros.agent.turns import Said, Told
from reactree_ros.llm.metered import MeteredModel, Size
from reactree_ros.llm.port import DecisionRequest, FreeText, LanguageModel, LanguageModelError, Reply
from reactree_ros.memory.episodic import approximate_tokens
from reactree_ros.pending import Pending

REQUEST = DecisionRequest((Told("Your task is to: x"), Said("Think: a")), FreeText(), begun="Act:")


class Answering(LanguageModel):
    """Answers with one reply, or fails; counts words, or nothing."""

    def __init__(self, answer: Reply | Exception, *, counts: bool = False) -> None:
        self.answer, self.counts = answer, counts
        self.counted: list[str] = []

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        return Pending.failed(self.answer) if isinstance(self.answer, Exception) else Pending.of(self.answer)

    def count_tokens(self, text: str) -> int | None:
        self.counted.append(text)
        return len(text.split()) if self.counts else None


def measured(model: Answering) -> Size | None:
    metered = MeteredModel(model)
    return metered.size(metered.decide(REQUEST).take())


def test_what_the_model_counts_is_taken_and_the_text_is_not_looked_at() -> None:
    model = Answering(Reply("Act: done", prompt_tokens=300, output_tokens=7, longest_prompt=120), counts=True)
    assert measured(model) == Size(input=300, longest=120, output=7, approximate=False)
    assert model.counted == []


def test_what_it_does_not_count_is_counted_with_its_tokenizer() -> None:
    model = Answering(Reply("Act: done", output_tokens=7), counts=True)
    assert measured(model) == Size(input=8, longest=8, output=7, approximate=False)
    assert model.counted == [REQUEST.prompt]


def test_without_a_tokenizer_counts_are_approximate() -> None:
    into = approximate_tokens(REQUEST.prompt)
    assert measured(Answering(Reply("Act: done"))) == Size(into, into, approximate_tokens("Act: done"), True)
    assert measured(Answering(Reply("Act: done", prompt_tokens=3))) == Size(3, 3, approximate_tokens("Act: done"), True)


def test_each_reply_has_a_size_of_its_own_and_others_have_none() -> None:
    model = Answering(Reply("Act: done", prompt_tokens=1, output_tokens=1))
    metered = MeteredModel(model)
    first = metered.decide(REQUEST).take()
    model.answer = Reply("Act: done", prompt_tokens=2, output_tokens=2)
    second = metered.decide(REQUEST).take()
    assert [size and size.input for size in map(metered.size, (first, second, Reply("Act: done")))] == [1, 2, None]


def test_a_failure_is_passed_on() -> None:
    error = LanguageModelError("gone")
    assert MeteredModel(Answering(error)).decide(REQUEST).exception(0) is error
