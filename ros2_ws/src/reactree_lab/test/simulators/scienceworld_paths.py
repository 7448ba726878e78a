"""Ways through tasks of ScienceWorld: the simulator's own, and the one that the prompts tell as an example."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from reactree_lab.worlds.scienceworld.engine import borrowed
from reactree_lab.worlds.scienceworld.tasks import ScienceTask

#: The task that the examples are of; a variation for training.
EXAMPLE = ("find-plant", 0, "")
#: How it is done.
PARTS: Mapping[str, Sequence[str]] = {
    "find a plant and focus on it": [
        "Think: Plants grow in the greenhouse.",
        "Act: open door to greenhouse",
        "Act: go to greenhouse",
        "Act: look around",
        "Think: The apple tree is a plant. It stands in flower pot 6, in which it can be carried.",
        "Act: focus on adult apple tree",
    ],
    "move the plant to the red box in the kitchen": [
        "Act: pick up flower pot 6",
        "Act: go to hallway",
        "Act: open door to kitchen",
        "Act: go to kitchen",
        "Act: move flower pot 6 in inventory to red box",
    ],
}

_WAY = """<think>
Every room tells its doors. I try each of them, the wanted room first, and go back where there is no new one.
</think>
<execute>
trail, known = [here], {here}
while trail and trail[-1] != room:
    doors = re.findall(r'door to the ([a-z ]+) \\(', run('look around'))
    new = [door for door in doors if door not in known]
    if new:
        trail.append(room if room in new else new[0])
        known.add(trail[-1])
        run(f'open door to {trail[-1]}')
    else:
        trail.pop()
    if trail:
        run(f'go to {trail[-1]}')
if not trail:
    raise ValueError(f'there is no way to a room that is called {room}')
</execute>"""
_RECODE = (
    """<think>
Plants grow in the greenhouse. I focus on one there; the pot that it stands in can be carried to the red box.
</think>
<execute>
start = re.search(r'This room is called the ([a-z ]+)', observation).group(1)
go_through_doors(here=start, room='greenhouse')
pot = focus_on_a_plant_and_take_its_pot()
go_through_doors(here='greenhouse', room='kitchen')
seen = run(f'move {pot} in inventory to red box')
if 'You move' not in seen:
    raise ValueError(seen)
</execute>""",
    _WAY,
    """<think>
What stands in a pot is told with its stage, and focused on by the stage and its kind.
</think>
<execute>
seen = run('look around')
match = re.search(r'(flower pot \\d+) \\(containing an? ([a-z ]+) in the ([a-z]+) stage', seen)
if not match:
    raise ValueError(f'there is no plant in a pot here: {seen}')
pot, kind, stage = match.groups()
for skill in (f'focus on {stage} {kind}', f'pick up {pot}'):
    seen = run(skill)
    if not seen.startswith('You '):
        raise ValueError(seen)
</execute>""",
    _WAY,
)
_CODEACT = (
    """<thought>Plants grow in the greenhouse. I go there and see what there is.</thought>
<execute>
run('open door to greenhouse')
run('go to greenhouse')
print(run('look around'))
</execute>""",
    """<thought>The apple tree is a plant, in flower pot 6, in which it can be carried. I focus on it first, and
look whether that worked: a wrong focus cannot be taken back.</thought>
<execute>
print(run('focus on adult apple tree'))
print(run('pick up flower pot 6'))
</execute>""",
    """<thought>It is in focus, and I have the pot. The kitchen is behind the hallway.</thought>
<execute>
for skill in ('go to hallway', 'open door to kitchen', 'go to kitchen', 'move flower pot 6 in inventory to red box'):
    print(run(skill))
</execute>""",
    "<solution>done</solution>",
)
#: What the examples of planners say that write code; of ReCode's, the code of each function when it is asked for.
CODE = {"recode": _RECODE, "codeact": _CODEACT}


def gold_path(task: ScienceTask) -> list[str]:
    """The actions of the simulator's own way."""
    with borrowed() as engine:
        engine.load(task.task_name, task.variation, task.simplifications, gold=True)
        return engine.gold()


def parts_of(task: ScienceTask, path: Sequence[str]) -> dict[str, list[str]]:
    """A way in parts, as decisions: another begins wherever the score has risen."""
    parts: list[list[str]] = [[]]
    with borrowed() as engine:
        engine.load(task.task_name, task.variation, task.simplifications)
        before = 0.0
        for action in path:
            score, _ = engine.progress()
            if score > before:
                parts.append([])
                before = score
            parts[-1].append(f"Act: {action}")
            engine.step(action)
    return {f"do part {number}": part for number, part in enumerate(parts, 1)}
