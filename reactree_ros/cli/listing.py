"""``reactree list``."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any

import typer
from pydantic.fields import FieldInfo
from rich.console import Console
from rich.table import Table

from reactree_ros.cli.options import allowed_text, default_text
from reactree_ros.installation import install_line
from reactree_ros.registry import REGISTRIES, Registry, Spec
from reactree_ros.settings import choices
from reactree_ros.world.virtualhome.vocabulary import word_groups

app = typer.Typer(add_completion=False)
_WORDS_HEAD = ("what it is for", "properties", "words")


class Kind(str, enum.Enum):
    """What is listed."""

    PLANNERS = "planners"
    WORLDS = "worlds"
    MODELS = "models"
    SUITES = "suites"
    WORDS = "words"


@app.command("list")
def listing(
    kind: Annotated[Kind | None, typer.Argument(help="What is listed; by default all but words.")] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print tables in Markdown.")] = False,
    own: Annotated[bool, typer.Option("--own", help="Without what other packages bring.")] = False,
) -> None:
    """Say what can be named: planners, worlds, language models and task suites, each with its settings.

    A setting is given as --world-option, --llm-option or --suite-option NAME=VALUE, those of a planner as
    --planner NAME:OPTION=VALUE. `words` are what a semantic map calls furniture and objects, and the expert knows.
    """
    if kind is Kind.WORDS:
        _list_words(markdown=markdown)
        return
    listed = {name: REGISTRIES[name] for name in (REGISTRIES if kind is None else [kind.value])}
    specs = {name: list(_specs(registry, own=own)) for name, registry in listed.items()}
    if markdown:
        print("\n\n".join(markdown_table(registry.kind, specs[name]) for name, registry in listed.items()))  # noqa: T201
    else:
        for name in listed:
            _show(name, specs[name], Console())


def _list_words(*, markdown: bool) -> None:
    if markdown:
        print(words_table())  # noqa: T201
        return
    table = Table(*_WORDS_HEAD)
    for group in word_groups():
        table.add_row(group.use.value, "\n".join(group.properties), ", ".join(group.words))
    Console().print(table, markup=False, highlight=False)


def words_table() -> str:
    """Return a table of the vocabulary in Markdown, as docs/reference has it."""
    rows = [
        (group.use.value, ", ".join(f"`{one}`" for one in group.properties), ", ".join(group.words))
        for group in word_groups()
    ]
    return _markdown([_WORDS_HEAD, ("---",) * 3, *rows])


def _specs(registry: Registry[Any], *, own: bool) -> Iterator[Any]:
    """Yield what can be loaded; what is wrong with plug-ins is told on stderr."""
    if own:
        yield from map(registry.get, registry.own)
        return
    for problem in registry.problems():
        Console(stderr=True, soft_wrap=True).print(problem, style="yellow", markup=False, highlight=False)
    yield from registry


def _show(title: str, specs: Sequence[Spec], console: Console) -> None:
    console.print(title.capitalize(), style="bold underline", highlight=False)
    for spec in specs:
        needs = f" ({install_line(spec.extra)})" if spec.extra else ""
        console.print(f"\n{_named(spec)}: {spec.summary}{needs}", style="bold", markup=False, highlight=False)
        if not spec.settings.model_fields:
            continue
        table = Table("setting", "default", "allowed", "what it is")
        for name, field in spec.settings.model_fields.items():
            table.add_row(name, default_text(field), allowed_text(field), field.description)
        console.print(table, markup=False, highlight=False)
    console.print()


def _named(spec: Spec, quote: str = "") -> str:
    names = [spec.name, *([f"{spec.name}_wm"] if getattr(spec, "remembers", False) else [])]
    return ", ".join(f"{quote}{name}{quote}" for name in names)


def markdown_table(kind: str, specs: Sequence[Spec]) -> str:
    """Return a table of what can be named, with the settings of each and their defaults, as docs/reference has it."""
    common = _common(specs)
    rows = [
        (_named(spec, "`"), spec.summary, spec.extra and f"`{spec.extra}`", _settings(spec, common)) for spec in specs
    ]
    if common:
        rows.append(("all of them", "", "", ", ".join(_setting(*one) for one in common.items())))
    head = (kind, "what it is", "what to install", "settings, with their defaults")
    return _markdown([head, ("---",) * 4, *rows])


def _markdown(rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"|{'|'.join(f' {cell} ' if cell else ' ' for cell in row)}|" for row in rows)


def _common(specs: Sequence[Spec]) -> dict[str, FieldInfo]:
    """Return the settings that all of them have."""
    first, *others = [spec.settings.model_fields for spec in specs]
    return {name: field for name, field in first.items() if others and all(name in other for other in others)}


def _settings(spec: Spec, common: dict[str, FieldInfo]) -> str:
    return ", ".join(_setting(name, field) for name, field in spec.settings.model_fields.items() if name not in common)


def _setting(name: str, field: FieldInfo) -> str:
    default = default_text(field)
    others = ", ".join(f"`{value}`" for value in choices(field) if value != default)
    return f"`{name}{default and f'={default}'}`{others and f' ({others})'}"
