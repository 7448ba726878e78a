"""The example in ReCode's prompts is code that really runs, in a house of ours; ``python
ros2_ws/src/reactree_lab/test/planners/test_recode_example.py`` writes it again where the prompt has changed.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from recode_doubles import Writes, lesson_of

import reactree_lab.planners.recode
from reactree_lab.household.generator import generate_house
from reactree_lab.planners.recode.planner import PROMPTS
from reactree_ros.agent.prompt import prompt
from reactree_ros.episode import Episode, EpisodeResult
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


REPLIES = (SOLVE, find("glass"), PUT, find("fork"), PUT)


def carried_out() -> tuple[Episode, EpisodeResult, Writes]:
    task = parse_tasks(generate_house(seed=7, tasks=1))[0]
    author = Writes(REPLIES)
    episode = Episode(task.instruction, model=author, world=SymbolicWorld(task), planner=planner("recode"))
    return episode, episode.run(), author


def example(episode: Episode) -> str:
    """The first three nodes: the other two are like the second and the third."""
    return "\n\n".join(map(lesson_of, episode.context.nodes[:3]))  # type: ignore[arg-type]


def test_the_example_reaches_its_goal_and_is_what_the_prompts_have() -> None:
    pytest.importorskip("pydantic_monty")
    episode, result, author = carried_out()
    assert result.achieved, result
    assert len(author.prompts) == len(REPLIES)
    assert prompt(PROMPTS, "examples.txt") == example(episode)
    assert all(f"Examples:\n\n{example(episode)}\n\n(End of the examples)" in text for text in author.prompts)


if __name__ == "__main__":
    folder = Path(reactree_lab.planners.recode.__file__).parent / "prompts"
    (folder / "examples.txt").write_text(example(carried_out()[0]) + "\n", encoding="utf-8")
