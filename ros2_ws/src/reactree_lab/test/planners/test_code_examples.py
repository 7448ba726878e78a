"""The examples in the prompts of the planners of code are code that really runs, in a house of ours; ``python
ros2_ws/src/reactree_lab/test/planners/test_code_examples.py`` writes them again where a prompt has changed.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import pytest
from recode_doubles import Writes, lesson_of, own_text

from reactree_lab.household.generator import generate_house
from reactree_lab.planners.recode.planner import PROMPTS
from reactree_ros.agent.prompt import prompt
from reactree_ros.episode import Episode, EpisodeResult
from reactree_ros.household.household import WAH_NL
from reactree_ros.household.symbolic import SymbolicWorld
from reactree_ros.household.tasks import parse_tasks
from reactree_ros.planners.spec import planner

SOLVE = r"""<think>
Both things go on the kitchen table. Where they are is not said, so each has to be found first.
All parts need the rooms; I read them from the observation.
</think>
<execute>
listed = observation.partition('rooms: ')[2].partition('.')[0]
rooms = []
for kind, numbers in re.findall(r'([a-z][a-z ]*) \(([\d, ]+)\)', listed):
    rooms += [f'{kind} {number}' for number in numbers.split(', ')]
glass = find_and_pick_up(word='wine glass', rooms=rooms)
put_down_at(thing=glass, place='kitchen table', rooms=rooms)
fork = find_and_pick_up(word='cutlery fork', rooms=rooms)
put_down_at(thing=fork, place='kitchen table', rooms=rooms)
</execute>"""
FIND = r"""<think>
I go from room to room and look at every place there, the kitchen first; what is closed I open.
One loop over run does it.
</think>
<execute>
{target} = ''
for room in sorted(rooms, key=lambda name: not name.startswith('kitchen')):
    seen = run(f'go to {room}')
    for kind, numbers in re.findall(r'([a-z][a-z ]*) \(([\d, ]+)\)', seen.partition('you see ')[2]):
        for number in numbers.split(', '):
            seen = run(f'go to {kind} {number}')
            if 'is closed' in seen:
                seen = run(f'open {kind} {number}')
            match = re.search(rf'\b{word} \((\d+)', seen.partition('You see ')[2].partition('You hold ')[0])
            if match:
                {target} = f'{word} {match.group(1)}'
                break
        if {target}:
            break
    if {target}:
        break
if not {target}:
    raise ValueError(f'there is no {word} in any room')
seen = run(f'pick up {target}')
if 'You pick up' not in seen:
    raise ValueError(seen)
</execute>"""
PUT = r"""<think>
The place is in one of the rooms, most likely in the one whose name it has. I go there, then to the place,
and put the thing down.
</think>
<execute>
for room in sorted(rooms, key=lambda name: not place.startswith(name.split()[0])):
    match = re.search(rf'\b{place} \((\d+)', run(f'go to {room}'))
    if match:
        break
if not match:
    raise ValueError(f'there is no {place} in any room')
seen = run(f'go to {place} {match.group(1)}')
if 'is closed' in seen:
    seen = run(f'open {place} {match.group(1)}')
seen = run(f'put down {thing}')
if 'You put down' not in seen:
    raise ValueError(seen)
</execute>"""


def find(target: str) -> str:
    return FIND.replace("{target}", target).replace("f'pick up " + target, "f'pick up {" + target + "}")


RECODE = (SOLVE, find("glass"), PUT, find("fork"), PUT)
CODEACT = (
    """<thought>Both things are most likely in the kitchen. I go there and see what places there are.</thought>
<execute>
print(run('go to kitchen 1'))
</execute>""",
    """<thought>I look on a counter and into the cabinets, and print no more than I have to know.</thought>
<execute>
for place in ('kitchen counter 1', *(f'kitchen cabinet {number}' for number in range(1, 6))):
    seen = run(f'go to {place}')
    if 'is closed' in seen:
        seen = run(f'open {place}')
    for thing in ('wine glass', 'cutlery fork'):
        match = re.search(rf'{thing} \\((\\d+)', seen)
        print(place, 'has', match.group(1) if match else 'no', thing)
</execute>""",
    """<thought>At kitchen cabinet 2 are both. I have two hands: I take both to the kitchen table.</thought>
<execute>
run('go to kitchen cabinet 2')
for thing in ('wine glass 1', 'cutlery fork 1'):
    print(run(f'pick up {thing}'))
run('go to kitchen table 1')
for thing in ('wine glass 1', 'cutlery fork 1'):
    print(run(f'put down {thing}'))
</execute>""",
    "<solution>done</solution>",
)
FIRST_STEPS = r"""
    # General plan: list the places in the kitchen, have them sorted, look there until a glass and a fork are
    # found, and take both to the kitchen table.
    if start_from <= 1:
        print('[Step 1] go to the kitchen and list its places')
        seen = agent.run('go to kitchen 1')
        places = []
        for kind, numbers in re.findall(r'([a-z][a-z ]*) \(([\d, ]+)\)', seen.partition('you see ')[2]):
            places += [f'{kind} {number}' for number in numbers.split(', ')]
        assert places, f'Error in [Step 1]: no places are seen. {seen}'
    if start_from <= 2:
        print('[Step 2] choose the places to look at')
        answer = ask(f'A kitchen has these places: {", ".join(places)}. In which of them are wine glasses and forks '
                     'most likely? Name those alone, the likeliest first, with commas between them.')
        likely = [place for place in answer.split(', ') if place in places]
        assert likely, f'Error in [Step 2]: none of the places is named. {answer}'
    if start_from <= 3:
        print('[Step 3] look there until both are found')
        found = {}
        for place in likely:
            seen = agent.run(f'go to {place}')"""
OPEN = """
            if 'is closed' in seen:
                seen = agent.run(f'open {place}')"""
LAST_STEPS = r"""
            for thing in ('wine glass', 'cutlery fork'):
                match = re.search(rf'{thing} \((\d+)', seen)
                if match and thing not in found:
                    found[thing] = (f'{thing} {match.group(1)}', place)
            if len(found) == 2:
                break
        assert len(found) == 2, f'Error in [Step 3]: found is {found}, and this was seen last: {seen}'
    if start_from <= 4:
        print('[Step 4] pick both up')
        for thing, place in found.values():
            agent.run(f'go to {place}')
            seen = agent.run(f'pick up {thing}')
            assert 'You pick up' in seen, f'Error in [Step 4]: {thing} was not picked up. {seen}'
    if start_from <= 5:
        print('[Step 5] put both on the kitchen table')
        agent.run('go to kitchen table 1')
        for thing, place in found.values():
            seen = agent.run(f'put down {thing}')
            assert 'You put down' in seen, f'Error in [Step 5]: {thing} was not put down. {seen}'"""


#: What the model says in the example: a plan, the answer to its question, and the plan refined.
ADAPLANNER = (
    f"<execute>\ndef solution(agent, start_from=1):{FIRST_STEPS}{LAST_STEPS}\n</execute>",
    "kitchen cabinet 1, kitchen cabinet 2, kitchen counter 1",
    f"<execute>\ndef solution(agent, start_from=3):{FIRST_STEPS}{OPEN}{LAST_STEPS}\n</execute>",
)


def first_nodes(episode: Episode) -> str:
    """The first three nodes: the other two are like the second and the third."""
    return "\n\n".join(map(lesson_of, episode.context.nodes[:3]))  # type: ignore[arg-type]


#: By planner: what the model says, where the example is, and how it is told.
EXAMPLES: dict[str, tuple[tuple[str, ...], tuple[str, str], Callable[[Episode], str]]] = {
    "recode": (RECODE, (PROMPTS, "examples.txt"), first_nodes),
    "codeact": (CODEACT, (WAH_NL.prompts, "codeact_example.txt"), own_text),
    "adaplanner": (ADAPLANNER, (WAH_NL.prompts, "adaplanner_example.txt"), own_text),
}


def carried_out(name: str) -> tuple[EpisodeResult, str, Writes]:
    replies, _, told = EXAMPLES[name]
    task = parse_tasks(generate_house(seed=7, tasks=1))[0]
    model = Writes(replies)
    with SymbolicWorld(task) as world:
        episode = Episode(task.instruction, model=model, world=world, planner=planner(name))
        result = episode.run()
    return result, told(episode), model


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_example_reaches_its_goal_and_is_what_the_prompts_have(name: str) -> None:
    pytest.importorskip("pydantic_monty")
    result, said, model = carried_out(name)
    assert result.achieved, result
    replies, place, _ = EXAMPLES[name]
    assert prompt(*place) == said
    assert len(model.prompts) == len(replies)
    plans = [text for text in model.prompts if "Question: " not in text]
    assert len(plans) >= 2
    assert all(f"Examples:\n\n{said}\n\n(End of the examples)" in text for text in plans)


if __name__ == "__main__":
    for name, (_, (folder, file), _) in EXAMPLES.items():
        package, _, inside = folder.partition(":")
        Path(str(files(package) / inside / file)).write_text(f"{carried_out(name)[1]}\n", encoding="utf-8")
