"""A policy judges what a world will do: hundreds of ways to write what is denied, in each kind of world."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import pytest
from webshop_peer import WebShopPeer

from reactree_lab.worlds.jericho.world import JerichoWorld, StoryTask
from reactree_lab.worlds.scienceworld.world import HOUSEHOLD as SCIENCE
from reactree_lab.worlds.webshop.world import WebShop, WebShopTask
from reactree_ros.agent.household import Household
from reactree_ros.background.pending import Pending
from reactree_ros.world.check import check_world
from reactree_ros.world.port import Observation, Outcome, Score, World
from reactree_ros.world.skill_policy import PolicyError, SkillPolicy, policy_from_list
from reactree_ros.world.wrappers import PolicyGuard, SkillTimeLimit, WorldWrapper

NOBODY: Callable[[str, str], Pending[str]] = lambda skill, reason: Pending.ready("nobody is there")  # noqa: E731
SOME = 100


def policy(*rules: tuple[str, str | None, str]) -> SkillPolicy:
    return policy_from_list([{"skill": s, "object": o, "verdict": v} for s, o, v in rules], where="p")


def wide(text: str) -> str:
    return "".join(chr(ord(one) + 0xFEE0) if "!" <= one <= "~" else one for one in text)


def wordings(verb: str, thing: str) -> list[str]:
    """Return ways to write a skill: capitals, blanks, brackets, quotes, signs, full width, articles."""
    cases = (str, str.upper, str.title, wide)
    dresses = (
        *("{v} {t}", "{v}  {t}", " {v} {t} ", "{v}\t{t}", "{v}\n{t}", "{v}\u00a0{t}", "{v}[{t}]", "{v} [{t}]"),
        "{v}[ {t} ]",
        *("{v}({t})", '{v} "{t}"', "{v} '{t}'", "{v}['{t}']", "{v}: {t}", "{v} {t}.", "{v} {t}!", "{v} the {t}"),
        "{v} a {t}",
        *("{v}[{t}].", "{v} *{t}*", "{v} <{t}>", "{v}\u200b {t}", "{v} {t}\u200b", "`{v} {t}`", "{v} - {t}", "{v},{t}"),
    )
    return [dress.format(v=case(verb), t=case(thing)) for dress in dresses for case in cases]


# ---------------------------------------------------------------------- a shop


@pytest.mark.parametrize("rule", ["buy now", "Buy Now", " BUY  NOW", "[buy now]"])
def test_nothing_is_bought_in_whatever_words(rule: str) -> None:
    tried = [
        *wordings("click", "buy now"),
        "click[buy-now]",
        "click[Buy Now] please",
        "click[b0aaa00002] click[buy now]",
    ]
    assert len(tried) > SOME
    with WebShopPeer() as peer, WebShop(WebShopTask(peer.url, 20.0, 0)) as inner:
        shop = policy(("click", rule, "deny"), ("click", None, "allow"), ("search", None, "allow"))
        shop.check(inner)
        world = PolicyGuard(SkillTimeLimit(inner, 20.0), shop, NOBODY)
        for skill in ("search[running shoes]", "CLICK[ B0AAA00002 ]"):
            assert world.execute(skill).result(20).outcome is Outcome.DONE
        refused = [world.execute(skill).result(20).outcome for skill in tried]
        assert Outcome.DONE not in refused
        assert refused.count(Outcome.REFUSED_BY_POLICY) > SOME / 3  # those that would have bought it
        assert not inner._over
        assert "click[buy now]" not in world.available_skills().result(20)


# ---------------------------------------------------------------------- worlds of free words


class Free(World):
    def __init__(self, household: Household) -> None:
        self.household = household
        self.done: list[str] = []

    def reset(self, seed: int | None = None) -> Pending[Observation]:
        return self.observe()

    def observe(self) -> Pending[Observation]:
        return Pending.ready(Observation("You look around."))

    def available_skills(self) -> Pending[Sequence[str]]:
        return Pending.ready(("look", "take lamp"))

    def execute(self, skill: str) -> Pending[Observation]:
        self.done.append(skill)
        return Pending.ready(Observation("Taken."))

    def score(self) -> Pending[Score | None]:
        return Pending.ready(None)


class Story(JerichoWorld):
    """A story whose interpreter is not there: what would be said to it is kept."""

    def __init__(self) -> None:
        super().__init__(StoryTask("none.z5", "play"))
        self.done: list[str] = []

    def execute(self, skill: str) -> Pending[Observation]:
        self.done.append(skill)
        return Pending.ready(Observation("Taken."))


FREE: dict[str, Callable[[], Free | Story]] = {
    "jericho": Story,
    "scienceworld": lambda: Free(SCIENCE),
    "any": lambda: Free(Household(name="any", actions=("take", "look", "open"), free_skills=True)),
}
ALLOWED = {"jericho": "take", "scienceworld": "look at", "any": "take"}


@pytest.mark.parametrize("name", FREE)
@pytest.mark.parametrize("verdict", ["deny", "confirm", "allow"])
def test_no_rule_is_about_a_thing_where_nobody_knows_what_a_text_does(name: str, verdict: str) -> None:
    world, verb = FREE[name](), ALLOWED[name]
    rules = policy((verb, "knife", verdict), (verb, None, "allow"))
    with pytest.raises(PolicyError, match=f"p: rules.0.object: 'knife' cannot be kept to: what '{verb}' is done"):
        rules.check(world)
    refused = PolicyGuard(world, rules, NOBODY).execute(f"{verb} lamp").result(1)
    assert (refused.outcome, world.done) == (Outcome.REFUSED_BY_POLICY, [])


@pytest.mark.parametrize("name", FREE)
@pytest.mark.parametrize("verdict", ["deny", "confirm"])
def test_a_verb_cannot_be_denied_beside_others_that_may_do_the_same(name: str, verdict: str) -> None:
    world, verb = FREE[name](), ALLOWED[name]
    other = next(one for one in world.household.actions if one != verb)
    rules = policy((verb, None, "allow"), (other, None, verdict))
    with pytest.raises(PolicyError, match=f"rules.1.verdict: '{verdict}' cannot be kept to beside 'allow' of rules.0"):
        rules.check(world)


SECOND = ("drop lamp", "open door", "knife", "burn house")
JOINTS = (
    *(". ", ".", ", ", ",", "; ", ";", ": ", " then ", " THEN ", " and ", " And then ", " but ", "\n", "\r\n", "\v"),
    *("! ", "? "),
    *(" & ", " + ", " | ", " / then ", "\u2028", "\uff0e", "\uff1b", "\uff0c", "\u3002", "\u3001", "\u060c"),
    *("\u061b", "\u2026", " \u2192 "),
)
SEVERAL = (
    *("all", "everything", "every thing", "both", "each", "it", "them", "all except lamp", "ALL", "lamp again"),
    "\uff41ll",
)


@pytest.mark.parametrize("name", FREE)
def test_what_may_be_several_skills_is_refused(name: str) -> None:
    world, verb = FREE[name](), ALLOWED[name]
    guard = PolicyGuard(world, policy((verb, None, "allow")), NOBODY)
    one = guard.execute(f"{verb} lamp").result(1)
    assert (one.outcome, world.done) == (Outcome.DONE, [f"{verb} lamp"])
    joined = [f"{verb} lamp{joint}{second}" for joint, second in itertools.product(JOINTS, SECOND)]
    tried = [*joined, *(f"{verb} {what}" for what in SEVERAL)]
    assert len(tried) > SOME
    for skill in tried:
        assert guard.execute(skill).result(1).outcome in (Outcome.UNKNOWN_SKILL, Outcome.REFUSED_BY_POLICY), skill
    assert world.done == [f"{verb} lamp"]


@pytest.mark.parametrize("name", FREE)
def test_what_no_rule_names_is_denied_in_whatever_words(name: str) -> None:
    world, verb = FREE[name](), ALLOWED[name]
    guard = PolicyGuard(world, policy((verb, None, "allow")), NOBODY)
    others = (
        *("get", "grab", "pick up", "steal", "g", "again", "undo", "oops", "x", "l", "i", "z", "drop", "burn"),
        "restart",
    )
    tried = [
        *itertools.chain.from_iterable(wordings(one, "knife") for one in others),
        *others,
        "",
        " ",
        "\u0442ake knife",
    ]
    for skill in tried:
        assert guard.execute(skill).result(1).outcome in (Outcome.UNKNOWN_SKILL, Outcome.REFUSED_BY_POLICY), skill
    assert world.done == []


def test_a_rule_for_a_verb_is_not_about_a_longer_one() -> None:
    world = Story()
    guard = PolicyGuard(world, policy(("turn", None, "allow"), ("look", None, "allow")), NOBODY)
    assert guard.execute("turn on lamp").result(1).outcome is Outcome.REFUSED_BY_POLICY
    assert guard.execute("look in box").result(1).outcome is Outcome.REFUSED_BY_POLICY
    assert [guard.execute(one).result(1).outcome for one in ("turn dial", "look", "LOOK")] == [Outcome.DONE] * 3
    assert world.done == ["turn dial", "look", "look"]


# ---------------------------------------------------------------------- worlds with a list


class Lenient(Free):
    def __init__(self, *, says: bool) -> None:
        super().__init__(Household(name="lenient", actions=("take", "look at"), naming="", start_line="You"))
        self.says, self.lamp = says, False

    def reset(self, seed: int | None = None) -> Pending[Observation]:
        self.lamp = False
        return self.observe()

    def observe(self) -> Pending[Observation]:
        return Pending.ready(Observation(f"You look around. Lamp: {self.lamp}."))

    def available_skills(self) -> Pending[Sequence[str]]:
        return Pending.ready(("take lamp", "look at lamp"))

    def canonical(self, skill: str) -> Pending[str | Observation]:
        return Pending.ready(skill.strip().casefold() if self.says else skill)

    def execute(self, skill: str) -> Pending[Observation]:
        if skill.strip().casefold() not in ("take lamp", "look at lamp"):
            return Pending.ready(Observation("No.", Outcome.UNKNOWN_SKILL))
        self.lamp = self.lamp or skill.strip().casefold() == "take lamp"
        return Pending.ready(Observation("Done."))


def test_a_world_is_checked_for_saying_what_it_does() -> None:
    assert check_world(Lenient(says=True), at_once=60.0) == []
    assert check_world(Lenient(says=False))[:1] == [
        "'TAKE LAMP' is carried out, but canonical does not say that it is 'take lamp'"
    ]


# ---------------------------------------------------------------------- what is judged is what is done


class Changing(WorldWrapper):
    meant = "take lamp"

    def canonical(self, skill: str) -> Pending[str | Observation]:
        return Pending.ready(self.meant)


def test_what_means_something_else_once_it_is_confirmed_is_not_done() -> None:
    asked: list[Pending[str]] = []

    def ask(skill: str, reason: str) -> Pending[str]:
        asked.append(Pending())
        return asked[-1]

    inner = Free(Household(name="any", actions=("take",)))
    world = Changing(inner)
    guard = PolicyGuard(world, policy(("take", "lamp", "confirm")), ask)
    first = guard.execute("the lamp, please")
    asked[-1].succeed("")
    assert (first.result(1).outcome, inner.done) == (Outcome.DONE, ["take lamp"])
    second = guard.execute("the lamp, please")
    world.meant = "take knife"
    asked[-1].succeed("")
    assert (second.result(1).outcome, inner.done) == (Outcome.REFUSED_BY_POLICY, ["take lamp"])


def test_a_cancel_reaches_whoever_says_what_is_meant() -> None:
    meaning: Pending[str | Observation] = Pending()

    class Slow(WorldWrapper):
        def canonical(self, skill: str) -> Pending[str | Observation]:
            return meaning

    inner = Free(Household(name="any", actions=("take",)))
    skill = PolicyGuard(Slow(inner), policy(("take", None, "allow")), NOBODY).execute("take lamp")
    assert skill.cancel()
    assert meaning.cancelled()
    assert inner.done == []
