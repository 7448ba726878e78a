"""A document of headings, paragraphs, tables, lists and pictures, written as Markdown and as one HTML page."""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote


@dataclass(frozen=True)
class Link:
    """A text with a link to a file, relative to the document."""

    text: str
    path: str


Cell = str | Link


@dataclass(frozen=True)
class Heading:
    """A heading; level 1 is the document's title."""

    text: str
    level: int = 2


@dataclass(frozen=True)
class Paragraph:
    """A paragraph."""

    text: str


@dataclass(frozen=True)
class Bullets:
    """A list."""

    items: Sequence[str]


@dataclass(frozen=True)
class Table:
    """A table."""

    head: Sequence[str]
    rows: Sequence[Sequence[Cell]]


@dataclass(frozen=True)
class Picture:
    """An SVG, which is also saved as a file next to the document.

    Attributes:
        title: Its caption.
        file: Its file name.
        svg: Its content.
    """

    title: str
    file: str
    svg: bytes


Block = Heading | Paragraph | Bullets | Table | Picture

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1c1e21; max-width: 66rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2.2rem; }
p, ul { max-width: 46rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin: 1rem 0; }
th, td { padding: .25rem .8rem .25rem 0; text-align: left; vertical-align: top; border-bottom: 1px solid #dde0e4; }
th { border-bottom: 2px solid #9aa0a6; white-space: nowrap; }
figure { margin: 1.2rem 0; } figcaption { color: #555; max-width: 46rem; } img { width: 100%; max-width: 46rem; }
"""


def as_html(blocks: Sequence[Block]) -> str:
    """Write a document as one HTML page that needs no other file."""
    title = next((block.text for block in blocks if isinstance(block, Heading)), "")
    body = "\n".join(_html(block) for block in blocks)
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{html.escape(title)}</title>\n'
        f'<meta name="viewport" content="width=device-width">\n<style>{_STYLE}</style>\n</head>\n'
        f"<body>\n{body}\n</body>\n</html>\n"
    )


def as_markdown(blocks: Sequence[Block]) -> str:
    """Write a document as Markdown; pictures are links to their files."""
    return "\n\n".join(_markdown(block) for block in blocks) + "\n"


def _html(block: Block) -> str:
    if isinstance(block, Heading):
        return f"<h{block.level}>{html.escape(block.text)}</h{block.level}>"
    if isinstance(block, Paragraph):
        return f"<p>{html.escape(block.text)}</p>"
    if isinstance(block, Bullets):
        return "<ul>\n" + "\n".join(f"<li>{html.escape(item)}</li>" for item in block.items) + "\n</ul>"
    if isinstance(block, Picture):
        data = base64.b64encode(block.svg).decode()
        title = html.escape(block.title)
        return (
            f'<figure>\n<img src="data:image/svg+xml;base64,{data}" alt="{title}">\n'
            f"<figcaption>{title}</figcaption>\n</figure>"
        )
    rows = [_html_row("th", block.head), *(_html_row("td", row) for row in block.rows)]
    return '<div class="wide"><table>\n' + "\n".join(rows) + "\n</table></div>"


def _html_row(tag: str, cells: Sequence[Cell]) -> str:
    return "<tr>" + "".join(f"<{tag}>{_html_cell(cell)}</{tag}>" for cell in cells) + "</tr>"


def _html_cell(cell: Cell) -> str:
    if isinstance(cell, Link):
        return f'<a href="{html.escape(quote(cell.path))}">{html.escape(cell.text)}</a>'
    return html.escape(cell)


def _markdown(block: Block) -> str:
    if isinstance(block, Heading):
        return f"{'#' * block.level} {_escaped(block.text)}"
    if isinstance(block, Paragraph):
        return _escaped(block.text)
    if isinstance(block, Bullets):
        return "\n".join(f"- {_escaped(item)}" for item in block.items)
    if isinstance(block, Picture):
        return f"![{_escaped(block.title)}]({quote(block.file)})\n\n{_escaped(block.title)}"
    rows = [block.head, ["---"] * len(block.head), *block.rows]
    return "\n".join("| " + " | ".join(_markdown_cell(cell) for cell in row) + " |" for row in rows)


def _markdown_cell(cell: Cell) -> str:
    return f"[{_escaped(cell.text)}]({quote(cell.path)})" if isinstance(cell, Link) else _escaped(cell)


def _escaped(text: str) -> str:
    """Escape a user's or a model's text, so that it is not read as markup."""
    return re.sub(r"([\\`*_\[\]<|])", r"\\\1", " ".join(text.split()))
