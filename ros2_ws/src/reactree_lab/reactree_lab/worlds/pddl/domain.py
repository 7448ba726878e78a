"""A domain in PDDL with its wording."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

import yaml
from pydantic import Field

from reactree_lab.worlds.pddl.problems import Fact
from reactree_ros.agent.text import check_template
from reactree_ros.errors import UserError
from reactree_ros.files.read_back import read_yaml
from reactree_ros.plugins.settings import Settings, read_settings

#: Folder of the shipped domains, one subfolder each.
DOMAINS = Path(__file__).parent / "domains"
#: The files of a domain's folder.
DOMAIN, WORDING = "domain.pddl", "wording.yaml"


class Wording(Settings):
    """The words of a domain; a name without words is written in PDDL's form: ``on b1 b2``."""

    facts: dict[str, tuple[str, str]] = Field(
        default_factory=dict, description="words of each fact when it holds and when it does not, with {0}, {1}, …"
    )
    skills: dict[str, str] = Field(
        default_factory=dict,
        description="words of each action as a skill; arguments that the state determines may be missing",
    )

    def fact(self, fact: Fact, *, holds: bool = True) -> str:
        name, *arguments = fact
        if name in self.facts:
            return _filled(self.facts[name][not holds], name, arguments)
        return f"{'' if holds else 'not '}{' '.join(fact)}"

    def skill(self, action: str, arguments: Sequence[str]) -> str:
        if action in self.skills:
            return _filled(self.skills[action], action, arguments)
        return " ".join([action, *arguments])

    def listed(self, facts: Iterable[Fact], *, holds: bool = True) -> list[str]:
        """Word several facts, without those that are never mentioned."""
        return [said for fact in facts if (said := self.fact(fact, holds=holds))]


def _filled(template: str, name: str, arguments: Sequence[str]) -> str:
    try:
        return check_template(template, [str(number) for number in range(len(arguments))]).format(*arguments)
    except (IndexError, KeyError, ValueError) as error:
        raise UserError(f"the words '{template}' for {name} do not fit its {len(arguments)} arguments") from error


@cache
def wording_of(folder: Path) -> Wording:
    """Read the words of a domain; without a file it has none."""
    path = folder / WORDING
    if not path.exists():
        return Wording()
    # All are texts: in YAML, the predicate `on` would be a truth value.
    values = read_yaml(path, yaml.BaseLoader)[0]
    return read_settings(Wording, values, where=str(path))
