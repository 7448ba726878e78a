"""Ways through the peer's shop: one for every goal, and the one that the prompts tell as an example."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from webshop_catalogue import BY_ASIN, Goal, found

PER_PAGE = 10
#: The goal that the examples are of.
EXAMPLE = 1
#: How it is reached.
PARTS: Mapping[str, Sequence[str]] = {
    "find a leak proof travel mug below 30 dollars and open its page": [
        "Think: I search for what it is, and leave the color, the size and the price for later.",
        "Act: search[leak proof travel mug]",
        "Think: B0AAA00008 is a travel mug, and 19.95 dollars are below 30. Whether it is leak proof is not said here.",
        "Act: click[b0aaa00008]",
        "Act: click[features]",
        "Think: It has a leak proof lid. I go back to its page.",
        "Act: click[< prev]",
    ],
    "choose the color rust and the size 16 ounce": [
        "Act: click[rust]",
        "Act: click[16 ounce]",
    ],
    "buy the travel mug": [
        "Think: The options are clicked, and it is what was asked for.",
        "Act: click[buy now]",
    ],
}
#: What CodeAct's model says.
_CODEACT = (
    """<thought>I search for what it is first, and look at what there is.</thought>
<execute>
print(run('search[leak proof travel mug]'))
</execute>""",
    """<thought>B0AAA00008 is the only travel mug, and costs less than 30 dollars. Its features have to say that it is \
leak proof. The instruction is on every page, so I look behind the buttons.</thought>
<execute>
run('click[b0aaa00008]')
told = run('click[features]').partition('< Prev')[2]
print('leak proof' in told.lower(), told)
print(run('click[< prev]').partition('< Prev')[2])
</execute>""",
    """<thought>It is leak proof. Both options are on its page: I click them and buy it.</thought>
<execute>
for name in ('rust', '16 ounce', 'buy now'):
    seen = run(f'click[{name}]')
print(seen)
</execute>""",
    "<solution>done</solution>",
)
#: What ReCode's model says of each function.
_RECODE = (
    """<think>
First the thing has to be found, then its options are chosen, then it is bought. I search for what it is; the color, the
size and the price come later. To buy is one skill, and what comes of it tells whether it was done.
</think>
<execute>
results = run('search[leak proof travel mug]')
item_page = open_the_right_one(results=results, instruction=instruction)
choose_options(item_page=item_page, instruction=instruction)
seen = run('click[buy now]')
if 'Thank you for shopping' not in seen:
    raise ValueError(seen)
</execute>""",
    """<think>
B0AAA00008 is the only travel mug, and 19.95 dollars are below 30. Whether it is leak proof, its features tell. The
instruction is on every page, so I look behind the buttons.
</think>
<execute>
run('click[b0aaa00008]')
told = run('click[features]').partition('< Prev')[2]
if 'leak proof' not in told.lower():
    raise ValueError(f'B0AAA00008 is not leak proof: {told}')
item_page = run('click[< prev]')
</execute>""",
    """<think>
The color rust and the size 16 ounce are asked for, and the page has both.
</think>
<execute>
for option in ('rust', '16 ounce'):
    seen = run(f'click[{option}]')
    if option not in seen.partition('You have clicked: ')[2]:
        raise ValueError(seen)
</execute>""",
)


def parts_of(goal: Goal) -> dict[str, list[str]]:
    """A way to what a goal asks for, by who knows the catalogue, as decisions."""
    product = BY_ASIN[goal.asin]
    turns = found(product.kind).index(product) // PER_PAGE
    parts = {f"find {product.kind}": [f"search[{product.kind}]", *["click[next >]"] * turns, f"click[{goal.asin}]"]}
    if goal.options:
        parts["choose the options"] = [f"click[{value}]" for value in goal.options.values()]
    parts["buy it"] = ["click[Buy Now]"]
    return {subgoal: [f"Act: {skill}" for skill in skills] for subgoal, skills in parts.items()}


#: What the examples of planners say that write code.
CODE = {"recode": _RECODE, "codeact": _CODEACT}
