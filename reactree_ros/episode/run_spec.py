"""The specification of a run, as one value: made to begin, resume or fork a run, and kept in the run's record."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

from pydantic import Field, ValidationError, model_validator

from reactree_ros.errors import UserError
from reactree_ros.llm.spec import MODELS, ModelSpec
from reactree_ros.memory.spec import NamedMemory, is_brought, memory, shipped
from reactree_ros.planners.spec import WM, Planner, planner
from reactree_ros.plugins import REGISTRIES, Spec
from reactree_ros.plugins.settings import Settings, fault_of, reaching, read_settings
from reactree_ros.record.reader import Record, RecordError
from reactree_ros.tree.options import AUTO, NONE, Offers, TreeOptions
from reactree_ros.world.skill_policy import SkillPolicy, policy_from_list
from reactree_ros.world.spec import Place, Task, in_house

#: Fields that name something which is started, opened, loaded or sent to.
Opened: TypeAlias = Literal["world", "llm", "vision", "planner", "memory"]
_REGISTRIES = {"world": "worlds", "suite": "suites", "llm": "models"}


class Selection(Settings):
    kind: Literal["world", "suite", "llm"]
    name: str
    settings: dict[str, Any] = Field(default_factory=dict)  # as JSON has them, without those that hold their default

    @classmethod
    def from_spec(cls, kind: Literal["world", "suite", "llm"], spec: Spec, settings: Settings) -> Selection:
        return cls(kind=kind, name=spec.name, settings=settings.model_dump(mode="json", exclude_defaults=True))

    def chosen(self, where: str = "") -> tuple[Any, Any]:
        spec = REGISTRIES.get(_REGISTRIES[self.kind]).get(self.name)
        return spec, read_settings(spec.settings, self.settings, where=where or f"{self.kind} '{self.name}'")

    def reaching(self) -> dict[str, Any]:
        return reaching(REGISTRIES.get(_REGISTRIES[self.kind]).get(self.name).settings, self.settings)

    def with_settings(self, said: Mapping[str, Any], where: str) -> Selection:
        """Return the same thing with other values for some settings; all settings are checked."""
        changed = self.model_copy(update={"settings": {**self.settings, **said}})
        return self.from_spec(self.kind, *changed.chosen(where))


class RunSpec(Settings):
    """What a run is.

    Everything else about a run follows from these fields, such as the household, the limits and the robots. Where its
    record is written is not a part of it.
    """

    instruction: str = ""
    task_id: int | str | None = None  # the task whose goal the instruction asks for; None: none, so there is no score
    task_name: str = "instruction"  # the type of the task
    goal: dict[str, int] = Field(default_factory=dict)  # read from the instruction, if a record says it
    house: str = ""  # if the world names its houses
    planner: str  # with its options
    working_memory: bool | None = None  # whether it is remembered where things were seen; None: the planner says it
    options: TreeOptions = TreeOptions()
    world: Selection | None = None  # or the task suite that makes it; None: nobody knows how to make it again
    policy: SkillPolicy | None = None  # guards the world; None: every skill is carried out
    llm: Selection | None = None  # None: nobody knows how to make it again
    vision: Selection | None = None  # the language model that is asked about pictures; None: none is
    memory: str = ""  # where examples come from; empty: nobody has named one
    person: bool = False  # whether goal nodes can ask a person
    parent: dict[str, Any] | None = None  # the record that this run continues: id, path and decision
    #: The record that this was read from, until the user has said it again: a record alone must not start, open, load
    #: or send anything, see :meth:`unsaid`. Empty: the user said it.
    recorded: str = ""

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, fields: dict[str, Any]) -> dict[str, Any]:
        if fields.get("recorded"):  # a replay may bring a planner of its own
            return fields
        remembers = planner(fields["planner"]).working_memory
        return {**fields, "working_memory": remembers} if fields.get("working_memory") is None else fields

    @classmethod
    def in_place(
        cls, place: Place, instruction: str | None, *, llm: tuple[ModelSpec, Settings], planner: str, **fields: Any
    ) -> RunSpec:
        task, task_id = place.choose(instruction, by_number=place.settings.of_many)
        world = Selection.from_spec("world", place.spec, place.settings)
        spec = cls(planner=planner, world=world, llm=Selection.from_spec("llm", *llm), **fields)
        return spec.decided_by(llm[0].trained_for(llm[1])).of_task(task, task_id, instruction)

    @classmethod
    def of_record(cls, record: Record) -> RunSpec:
        """Return the specification of a recorded run, which the user has not said again yet."""
        run = record.run
        try:
            fields = {name: run[name] for name in ("instruction", "task_id", "task_name", "working_memory")}
            fields |= {name: run[name] for name in ("memory", "person", "parent", "goal") if name in run}
            fields |= {"planner": run["planner"]["name"], "recorded": record.name or "a record"}
            fields["options"] = run["options"]
            fields["vision"] = surroundings(None, run.get("vision"), where=record.name)["llm"]
            return cls(**fields, **surroundings(run.get("world"), run.get("llm"), where=record.name))
        except ValidationError as error:
            fault = fault_of(error, cls)
            said = fault.said if fault.unknown else f"{'.'.join(map(str, fault.path))}: {fault.with_value}"
        except (KeyError, TypeError) as error:
            said = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise RecordError(f"{record.name}: what the run is cannot be used: {said}")

    def but(self, **fields: Any) -> RunSpec:
        return RunSpec(**{**dict(self), **fields})

    def decided_by(self, trained: Sequence[str]) -> RunSpec:
        """Return the specification for a language model; one that was trained for no planner thinks once in a row.

        Rules that take no notice of examples take none of what else is told beside the world's words.
        """
        update: dict[str, Any] = {}
        if self.options.is_trained and not trained:
            update["thoughts_in_a_row"] = 1
        if self.llm is not None and self.llm.name in MODELS.names and not MODELS.get(self.llm.name).examples:
            update |= {"tells": NONE} if self.options.tells == AUTO else {}
            update |= {"offers": Offers.ALL} if self.options.offers is Offers.AUTO else {}
        return self.but(options=self.options.model_copy(update=update)) if update else self

    def of_task(self, task: Task | None, task_id: int | None, instruction: str | None = None) -> RunSpec:
        named = {} if task is None or task_id is None else {"task_name": task.task_name}
        asked = instruction or (task.instruction if task else "")
        return self.but(instruction=asked.strip(), task_id=task_id, **named, **in_house(task))

    @property
    def where(self) -> str:
        """The house, as a kept map calls it: by its name, or that of the world if that does not name its houses."""
        return self.house or ("" if self.world is None else self.world.name)

    def about(self) -> dict[str, Any]:
        """Return what the record's header says that the episode itself does not know."""
        world: dict[str, Any] = {}
        if self.world is not None:
            kind = "name" if self.world.kind == "world" else self.world.kind
            world = {kind: self.world.name, "settings": self.world.settings, "scored": self.task_id is not None}
            world |= {"house": self.house} if self.house else {}
        if self.world is not None and self.policy is not None:
            world["policy"] = [rule.model_dump(mode="json", exclude_defaults=True) for rule in self.policy.rules]
        llm = {} if self.llm is None else {"llm": self.llm.name, **self.llm.settings}
        vision = {} if self.vision is None else {"llm": self.vision.name, **self.vision.settings}
        return {"world": world, "llm": llm, "vision": vision, "memory": self.memory, "parent": self.parent}

    def unsaid(self, field: Opened) -> dict[str, Any]:
        """Return the settings of a field that only a record says, and that may start, open, load or send something."""
        if not self.recorded:
            return {}
        if field == "memory":
            return {"memory": self.memory} if self.memory and not is_brought(self.memory) else {}
        one = planner(self.planner) if field == "planner" else getattr(self, field)
        return {} if one is None else dict(one.reaching())

    def chosen_planner(self) -> Planner:
        self._check_said("planner")
        return planner(self.planner)

    def with_examples(self, household: str) -> RunSpec:
        """Return the specification with the memory that a package brings for the run, if nobody has named one."""
        if self.memory or not self._takes_examples():
            return self
        remembers = f"{planner(self.planner).spec.name}{WM if self.working_memory else ''}"
        found = shipped(household, remembers)
        return self if found is None else self.but(memory=found.name)

    def _takes_examples(self) -> bool:
        if self.llm is None:
            return False
        known = self.llm.name in MODELS.names
        return (not known or MODELS.get(self.llm.name).examples) and planner(self.planner).settings.takes_examples

    def chosen_memory(self) -> NamedMemory | None:
        """Return the episodic memory, which is not opened yet, None if there is none; errors as of :meth:`chosen`."""
        self._check_said("memory")
        return memory(self.memory) if self.memory else None

    def chosen(self, field: Literal["world", "llm", "vision"]) -> tuple[Any, Any]:
        self._check_said(field)
        one: Selection | None = getattr(self, field)
        if one is None:
            raise UserError(f"the run does not say which {field} it had, so it cannot be had again")
        return one.chosen()

    def _check_said(self, field: Opened) -> None:
        """Look whether a field may be used: nothing that only a record says may start, open, load or send something."""
        if found := self.unsaid(field):
            planner = shlex.quote(self.planner)
            hint = f"; `reactree record fork RUN --at DECISION --planner {planner}` begins anew with them"
            raise UserError(
                f"{self.recorded}: its {field}'s settings {', '.join(found)} would start, open, load or send "
                f"something, and a record may not decide that by itself{hint if field == 'planner' else ''}"
            )


def surroundings(world: Any, llm: Any, *, where: str) -> dict[str, Any]:
    """Read what a record's header, or a ROS node, says of a world and a language model; returns fields of a RunSpec."""
    world, llm = (dict(one) if isinstance(one, Mapping) else {} for one in (world, llm))
    kind: Literal["world", "suite"] = "suite" if "suite" in world else "world"
    named, model = world.get("suite", world.get("name")), llm.pop("llm", None)
    house, rules = world.get("house"), world.get("policy")
    settings = world.get("settings", {})
    known = isinstance(named, str) and isinstance(settings, Mapping)
    return {
        "world": Selection(kind=kind, name=named, settings=dict(settings)) if known else None,
        "house": house if isinstance(house, str) else "",
        "policy": None if rules is None else policy_from_list(rules, where=where),
        "llm": Selection(kind="llm", name=model, settings=llm) if isinstance(model, str) else None,
    }
