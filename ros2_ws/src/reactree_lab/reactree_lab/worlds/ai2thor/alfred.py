"""ALFRED: reads trials from its files, and scores goals as its evaluation does."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator, model_validator

from reactree_lab.worlds.ai2thor.wording import room_of
from reactree_ros.agent.text import same_words
from reactree_ros.errors import UserError
from reactree_ros.files.read_back import parse_json, text_of
from reactree_ros.plugins.settings import fault_of
from reactree_ros.world.port import Score

#: File name of each trial in the original data set.
TRAJ_DATA = "traj_data.json"


class TaskType(str, enum.Enum):
    PLACE = "pick_and_place_simple"
    PLACE_TWO = "pick_two_obj_and_place"
    LOOK_IN_LIGHT = "look_at_obj_in_light"
    CLEAN = "pick_clean_then_place_in_recep"
    HEAT = "pick_heat_then_place_in_recep"
    COOL = "pick_cool_then_place_in_recep"
    STACK = "pick_and_place_with_movable_recep"


class _Document(BaseModel):
    # The original files also contain images, plans and masks.
    model_config = ConfigDict(extra="ignore", frozen=True, strict=True, allow_inf_nan=False)


_Text = Annotated[str, Field(min_length=1)]
_Target = Annotated[str, BeforeValidator(lambda value: "" if value is None else value)]


class Vector(_Document):
    """A position in metres, or a rotation in degrees."""

    x: float
    y: float
    z: float


class ObjectPose(_Document):
    """Place of one object at the start; an object that is named twice exists twice."""

    name: _Text = Field(alias="objectName")
    position: Vector
    rotation: Vector


class ObjectToggle(_Document):
    type: _Text = Field(alias="objectType")
    is_on: bool = Field(alias="isOn")


class InitAction(_Document):
    action: Literal["TeleportFull"]
    x: float
    y: float
    z: float
    rotation: float
    horizon: float


class SceneSetup(_Document):
    floor_plan: str
    object_poses: list[ObjectPose]
    object_toggles: list[ObjectToggle]
    dirty_and_empty: bool
    init_action: InitAction

    @field_validator("floor_plan")
    @classmethod
    def _known(cls, value: str) -> str:
        try:
            room_of(value)
        except UserError as error:
            raise ValueError(str(error)) from None
        return value


class PddlParams(_Document):
    """Subjects of a task: simulator classes such as ``Apple``; empty if the type of task has no such part."""

    object_target: _Text
    parent_target: _Target = ""
    toggle_target: _Target = ""
    mrecep_target: _Target = ""
    object_sliced: bool = False


_NEEDS = {TaskType.LOOK_IN_LIGHT: ("toggle_target",), TaskType.STACK: ("parent_target", "mrecep_target")}


class _Task(_Document):
    task_type: Annotated[TaskType, Field(strict=False)]
    pddl_params: PddlParams
    scene: SceneSetup

    @model_validator(mode="after")
    def _complete(self) -> _Task:
        for name in _NEEDS.get(self.task_type, ("parent_target",)):
            if not getattr(self.pddl_params, name):
                raise ValueError(f"pddl_params.{name} is empty, but a {self.task_type.value} task needs it")
        return self


class Trial(_Task):
    """One trial: instructions for one task in one scene."""

    task: str  # its name, e.g. ``look_at_obj_in_light-Book-None-DeskLamp-302``
    trial: _Text  # its name, e.g. ``trial_T20190909_085137_911990``
    #: The task in words, by several people.
    instructions: Annotated[list[_Text], Field(min_length=1, alias="task_descs")]

    @property
    def instruction(self) -> str:
        return self.instructions[0]

    @property
    def task_name(self) -> str:
        return self.task_type.value

    @property
    def house(self) -> str:
        return self.scene.floor_plan

    def asks_for(self, instruction: str) -> bool:
        return any(same_words(instruction, own) for own in self.instructions)

    @cached_property
    def goal(self) -> Goal:
        params = self.pddl_params
        return Goal(
            task_type=self.task_type,
            item=f"{params.object_target}Sliced" if params.object_sliced else params.object_target,
            receptacle=params.parent_target,
            lamp=params.toggle_target,
            carrier=params.mrecep_target,
            sliced=params.object_sliced,
        )


class Annotation(_Document):
    task_desc: _Text


class Annotations(_Document):
    anns: Annotated[list[Annotation], Field(min_length=1)]


class _TrajData(_Task):
    task_id: _Text
    turk_annotations: Annotations


Thing = Mapping[str, Any]


@dataclass(frozen=True)
class HouseState:
    objects: Sequence[Thing]  # the objects of the simulator's metadata
    held: Sequence[str] = ()  # ids of held objects
    cleaned: frozenset[str] = frozenset()  # ids of objects that were in a sink while its faucet was turned on
    heated: frozenset[str] = frozenset()  # ids of objects that were in a microwave when it was turned on
    cooled: frozenset[str] = frozenset()  # ids of objects that were in a fridge when it was closed

    def named(self, name: str, property: str) -> list[Thing]:
        """Return objects with a property and the name in their id.

        As in ALFRED, any part of the id counts: ``Apple`` finds apple slices, and ``Pot`` finds potatoes, too.
        """
        return [thing for thing in self.objects if name in thing["objectId"] and thing[property]]


@dataclass(frozen=True)
class Goal:
    task_type: TaskType  # one of the seven types
    #: The object, e.g. ``Apple``, or ``AppleSliced`` for slices of it.
    item: str
    receptacle: str = ""  # its destination; empty for :attr:`TaskType.LOOK_IN_LIGHT`
    lamp: str = ""  # the lamp that must be on; only for :attr:`TaskType.LOOK_IN_LIGHT`
    carrier: str = ""  # the object that carries it; only for :attr:`TaskType.STACK`
    sliced: bool = False  # whether the task asks for slices

    def conditions_met(self, state: HouseState) -> tuple[int, int]:
        items = state.named(self.item, "pickupable")
        conditions: list[bool] = []
        if self.sliced:
            count = 2 if self.task_type is TaskType.PLACE_TWO else 1
            slices = sum("Sliced" in item["objectId"] for item in items)
            conditions += (slices > number for number in range(count))
        conditions += _CONDITIONS[self.task_type](self, state, items)
        return sum(conditions), len(conditions)

    def score(self, state: HouseState) -> Score:
        met, total = self.conditions_met(state)
        return Score(gsr=float(met == total), ssr=met / total)

    def _placed(self, state: HouseState, items: Sequence[Thing]) -> list[bool]:
        receptacles = state.named(self.receptacle, "receptacle")
        return [any(_holds(receptacle, item) for receptacle in receptacles for item in items)]

    def _both_placed(self, state: HouseState, items: Sequence[Thing]) -> list[bool]:
        receptacles = state.named(self.receptacle, "receptacle")
        most = max((sum(_holds(receptacle, item) for item in items) for receptacle in receptacles), default=0)
        return [most >= 1, most >= 2]

    def _lit(self, state: HouseState, items: Sequence[Thing]) -> list[bool]:
        held = bool(state.held) and any(state.held[0] == item["objectId"] for item in items)
        lamps = state.named(self.lamp, "toggleable")
        return [held, any(lamp["isToggled"] and lamp["visible"] for lamp in lamps)]

    def _treated_and_placed(self, state: HouseState, items: Sequence[Thing]) -> list[bool]:
        treated = {TaskType.CLEAN: state.cleaned, TaskType.HEAT: state.heated, TaskType.COOL: state.cooled}
        done = treated[self.task_type]
        receptacles = state.named(self.receptacle, "receptacle")
        placed = [item for item in items if any(_holds(receptacle, item) for receptacle in receptacles)]
        return [
            bool(placed),
            any(item["objectId"] in done for item in items),
            any(item["objectId"] in done for item in placed),
        ]

    def _stacked(self, state: HouseState, items: Sequence[Thing]) -> list[bool]:
        receptacles = state.named(self.receptacle, "receptacle")
        carriers = state.named(self.carrier, "pickupable")
        loaded = [carrier for carrier in carriers if any(_holds(carrier, item) for item in items)]
        placed = {receptacle["objectId"] for receptacle in receptacles}
        return [
            bool(loaded),
            any(_holds(receptacle, carrier) for receptacle in receptacles for carrier in carriers),
            any(placed & set(carrier["parentReceptacles"] or ()) for carrier in loaded),
        ]


_CONDITIONS = {
    TaskType.PLACE: Goal._placed,
    TaskType.PLACE_TWO: Goal._both_placed,
    TaskType.LOOK_IN_LIGHT: Goal._lit,
    TaskType.CLEAN: Goal._treated_and_placed,
    TaskType.HEAT: Goal._treated_and_placed,
    TaskType.COOL: Goal._treated_and_placed,
    TaskType.STACK: Goal._stacked,
}


def _holds(receptacle: Thing, item: Thing) -> bool:
    return item["objectId"] in (receptacle["receptacleObjectIds"] or ())


def load_trials(path: str | Path) -> list[Trial]:
    """Read trials: a JSONL file of trimmed lines, a ``traj_data.json``, or a folder of such files."""
    path = Path(path)
    if path.is_dir():
        files = sorted(path.rglob(TRAJ_DATA))
        if not files:
            raise UserError(f"{path}: holds no {TRAJ_DATA}; give a folder of ALFRED, such as json_2.1.0/valid_seen")
        return [_original(file) for file in files]
    if path.suffix == ".json":
        return [_original(path)]
    return _trimmed(path)


def _trimmed(path: Path) -> list[Trial]:
    lines = enumerate(text_of(path).splitlines(), start=1)
    trials = [_checked(Trial, line, f"{path}:{number}") for number, line in lines if line]
    if not trials:
        raise UserError(f"{path}: holds no trial")
    return trials


def _original(path: Path) -> Trial:
    data = _checked(_TrajData, text_of(path), str(path))
    folders = path.resolve().parts[:-1]
    return Trial.model_validate(
        {
            "task": folders[-2] if len(folders) > 1 else "",
            "trial": data.task_id,
            "task_descs": [annotation.task_desc for annotation in data.turk_annotations.anns],
            "task_type": data.task_type,
            "pddl_params": data.pddl_params,
            "scene": data.scene,
        }
    )


_Model = TypeVar("_Model", bound=BaseModel)


def _checked(model: type[_Model], text: str, place: str) -> _Model:
    try:
        return model.model_validate(parse_json(text))
    except ValidationError as error:
        fault = fault_of(error, model)
        path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in fault.path)
        raise UserError(f"{place}: {path.lstrip('.') or 'the trial'}: {fault.with_value}") from None
    except ValueError as error:
        raise UserError(f"{place}: is not JSON: {error}") from None
