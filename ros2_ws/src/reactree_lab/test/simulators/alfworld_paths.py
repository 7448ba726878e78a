"""Ways through games of ALFWorld: by its handcoded expert, by a planner, and the one that the prompts tell; ``python
test/simulators/alfworld_paths.py``, with test/ on PYTHONPATH, writes the examples of the prompts again.
"""

from __future__ import annotations

import functools
import json
import random
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from plans import example_of

import reactree_lab.worlds.alfworld
from reactree_lab.worlds.alfworld.games import AlfworldTask, made_up
from reactree_lab.worlds.alfworld.world import AlfworldWorld
from reactree_ros.episode import EpisodeResult

#: What ends a part of a way.
ENDS = ("take", "clean", "heat", "cool", "move", "use")


def write_game(folder: Path, task: AlfworldTask, **changed: object) -> Path:
    """Write a game as alfworld-download leaves its own: the game, and the trial beside it."""
    assert task.wanted is not None
    wanted = task.wanted
    name = (
        f"{task.task_name}-{wanted.item}-None-{wanted.receptacle or wanted.lamp}-{task.house.removeprefix('FloorPlan')}"
    )
    place = folder / name / "trial_T1"
    place.mkdir(parents=True)
    params = {"object_target": wanted.item, "parent_target": wanted.receptacle, "toggle_target": wanted.lamp}
    trial = {
        "task_type": task.task_name,
        "pddl_params": {**params, "mrecep_target": "", "object_sliced": False},
        "turk_annotations": {"anns": [{"task_desc": f"Please {task.instruction}."}]},
    }
    (place / "traj_data.json").write_text(json.dumps(trial), encoding="utf-8")
    file = place / "game.tw-pddl"
    file.write_text(json.dumps({**task.data(), "solvable": True, "walkthrough": None, **changed}), encoding="utf-8")
    return file


def bare(*, plans: bool = False) -> Any:
    """ALFWorld's own environment, without anything of ours."""
    import fast_downward
    import textworld
    from alfworld.agents.environment.alfred_tw_env import AlfredDemangler
    from textworld.envs.pddl import PddlEnv

    if not hasattr(fast_downward.pddl2sas, "cache_info"):  # loading and resetting translate the same
        fast_downward.pddl2sas = functools.lru_cache(maxsize=2)(fast_downward.pddl2sas)
    infos = textworld.EnvInfos(facts=True, admissible_commands=True, policy_commands=plans)
    return AlfredDemangler(PddlEnv(infos))


def expert_path(folder: Path, task: AlfworldTask, *, seed: int = 0, as_it_is: bool = False) -> list[tuple[str, str]]:
    """What ALFWorld's handcoded expert does and sees until it has won; nothing where it does not in 150 steps.

    It takes its own steps in: ``move`` is the word of its ``put`` since ALFWorld 0.4, but what it takes for having put
    something down is still ``put``. Unless it is left as it is, it is told so.
    """
    from alfworld.agents.expert import HandCodedTWAgent

    random.seed(seed)
    file, env, expert = write_game(folder, task), bare(), HandCodedTWAgent(max_steps=150)
    env.load(str(file))
    state = env.reset()
    expert.reset(str(file))
    expert.observe(state["feedback"])
    path: list[tuple[str, str]] = []
    command = "look"  # as ALFWorld's own wrapper begins
    while not state["won"]:
        state, _, _ = env.step(command)
        path.append((command, state["feedback"]))
        told = command if as_it_is else re.sub("^move ", "put ", command)
        try:
            command = expert.act(state, 0, state["won"], told)
        except NameError:  # of which its ways to give up are kinds
            return []
        command = command if command in state["admissible_commands"] else "look"
    return path


def plan_for(task: AlfworldTask) -> list[str]:
    """The commands of Fast Downward's plan, which knows where everything is."""
    env = bare(plans=True)
    env.load(task.data())
    return [command.strip() for command in env.reset()["policy_commands"]]


def parts_of(commands: Sequence[str]) -> dict[str, list[str]]:
    """A way in parts, as decisions: each ends with having something, or with something being done to it."""
    parts: list[list[str]] = [[]]
    for command in commands:
        parts[-1].append(f"Act: {command}")
        if command.startswith(ENDS):
            parts.append([])
    return {f"do part {number}": part for number, part in enumerate(filter(None, parts), 1)}


# ---------------------------------------------------------------------- the examples of the prompts

#: A game that no suite has: it is past the greatest seed.
EXAMPLE = ("pick_cool_then_place_in_recep", 9_999)
#: How it is won.
PARTS: Mapping[str, Sequence[str]] = {
    "find and take an egg": [
        "Think: Eggs are most likely in the fridge. I look there first.",
        "Act: go to fridge 1",
        "Act: open fridge 1",
        "Think: There is an egg 1 in it.",
        "Act: take egg 1 from fridge 1",
    ],
    "cool the egg": [
        "Think: I am at the fridge already, with the egg in my hand.",
        "Act: cool egg 1 with fridge 1",
    ],
    "put the egg on a countertop": ["Act: go to countertop 1", "Act: move egg 1 to countertop 1"],
}
_CODEACT = (
    """<thought>An egg may be in the fridge, on a countertop or in a cabinet. What is closed I open.</thought>
<execute>
places = re.findall(r'(?:fridge|countertop|cabinet) \\d+', observation)
for place in sorted(places, key=lambda name: not name.startswith('fridge')):
    seen = run(f'go to {place}')
    if 'is closed' in seen:
        seen = run(f'open {place}')
    found = re.search(r'egg \\d+', seen)
    print(place, 'has', found.group() if found else 'no egg')
    if found:
        break
</execute>""",
    """<thought>I stand at the fridge and see an egg. I take it and cool it here.</thought>
<execute>
egg = found.group()
print(run(f'take {egg} from {place}'))
print(run(f'cool {egg} with fridge 1'))
</execute>""",
    """<thought>The egg is cool. It goes on the countertop.</thought>
<execute>
run('go to countertop 1')
print(run(f'move {egg} to countertop 1'))
</execute>""",
    "<solution>done</solution>",
)
_RECODE = (
    r"""<think>
An egg has to be found, cooled, and put on a countertop: three parts, one after the other.
Each of them has to know the places of the room; I read them from the observation.
</think>
<execute>
places = re.findall(r'[a-z]+ \d+', observation)
egg = find_and_take(kind='egg', places=places, likely=('fridge', 'countertop', 'sinkbasin'))
cool_in_fridge(thing=egg, places=places)
put_in(thing=egg, kind='countertop', places=places)
</execute>""",
    r"""<think>
I go from place to place, the likely ones first, open what is closed, and take the first thing of the kind.
One loop over run does it.
</think>
<execute>
egg = ''
for place in sorted(places, key=lambda name: name.split()[0] not in likely):
    seen = run(f'go to {place}')
    if 'is closed' in seen:
        seen = run(f'open {place}')
    match = re.search(rf'\b{kind} \d+', seen.partition('you see ')[2])
    if match:
        egg = match.group()
        break
if not egg:
    raise ValueError(f'there is no {kind} in any place')
seen = run(f'take {egg} from {place}')
if 'You pick up' not in seen:
    raise ValueError(seen)
</execute>""",
    r"""<think>
Things are cooled with a fridge, where I have to be with the thing in my hand.
Where I am at the fridge already, going there changes nothing.
</think>
<execute>
fridge = [name for name in places if name.startswith('fridge ')][0]
run(f'go to {fridge}')
seen = run(f'cool {thing} with {fridge}')
if 'You cool' not in seen:
    raise ValueError(seen)
</execute>""",
    r"""<think>
Any place of the kind will do. What is closed has to be opened before.
</think>
<execute>
place = [name for name in places if name.startswith(f'{kind} ')][0]
seen = run(f'go to {place}')
if 'is closed' in seen:
    run(f'open {place}')
seen = run(f'move {thing} to {place}')
if 'You move' not in seen:
    raise ValueError(seen)
</execute>""",
)


_REFINED = r"""<execute>
def solution(agent, start_from=START):
    # General plan: ask where eggs are likely, look there until one is found, cool it in the fridge, put it down.
    if start_from <= 1:
        print('[Step 1] choose the places to look at')
        places = re.findall(r'[a-z]+ \d+', observation)
        answer = ask(f'A kitchen has these places: {", ".join(places)}. In which two of them is an egg most likely? '
                     'Name those alone, the likeliest first, with a comma between them.')
        likely = [place for place in answer.split(', ') if place in places]
        assert likely, f'Error in [Step 1]: none of the places is named. {answer}'
    if start_from <= 2:
        print('[Step 2] look there until an egg is found')
        egg = ''
        for place in likely:
            seen = agent.run(f'go to {place}')OPENED
            match = re.search(r'\begg \d+', seen)
            if match:
                egg = match.group()
                break
        assert egg, f'Error in [Step 2]: no egg was seen at {", ".join(likely)}. {seen}'
    if start_from <= 3:
        print('[Step 3] take the egg')
        seen = agent.run(f'take {egg} from {place}')
        assert 'You pick up' in seen, f'Error in [Step 3]: {egg} was not taken. {seen}'
    if start_from <= 4:
        print('[Step 4] cool it in the fridge')
        agent.run('go to fridge 1')
        seen = agent.run(f'cool {egg} with fridge 1')
        assert 'You cool' in seen, f'Error in [Step 4]: {egg} was not cooled. {seen}'
    if start_from <= 5:
        print('[Step 5] put it on the countertop')
        agent.run('go to countertop 1')
        seen = agent.run(f'move {egg} to countertop 1')
        assert 'You move' in seen, f'Error in [Step 5]: {egg} was not put down. {seen}'
</execute>"""
_OPENED = """
            if 'is closed' in seen:
                seen = agent.run(f'open {place}')"""
_ADAPLANNER = (
    _REFINED.replace("START", "1").replace("OPENED", ""),
    "fridge 1, diningtable 1",
    _REFINED.replace("START", "2").replace("OPENED", _OPENED),
)
#: What the examples of planners say that write code.
CODE = {"recode": _RECODE, "codeact": _CODEACT, "adaplanner": _ADAPLANNER}


def told(name: str) -> tuple[EpisodeResult, str]:
    """Have the example of a prompt carried out; returns what the prompt's file has to say, too."""
    task = made_up(*EXAMPLE)
    return example_of(name, AlfworldWorld(task), task.instruction, PARTS, CODE)


#: The files that an example is written into.
EXAMPLES = ("react", "reactree", "hiagent_example", "codeact_example", "recode_examples", "adaplanner_example")

if __name__ == "__main__":
    prompts = Path(reactree_lab.worlds.alfworld.__file__).parent / "prompts"
    for name in EXAMPLES:
        (prompts / f"{name}.txt").write_text(told(name)[1], encoding="utf-8")
