"""A report as Markdown, and the same as one HTML page that needs no other file."""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import quote

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{title}</title>
<meta name="viewport" content="width=device-width">
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; color: #1c1e21; max-width: 66rem; margin: 2rem auto; padding: 0 1rem; }}
h1 {{ font-size: 1.6rem; }} h2 {{ font-size: 1.2rem; margin-top: 2.2rem; }}
p, ul {{ max-width: 46rem; }} img {{ width: 100%; }}
table {{ display: block; overflow-x: auto; border-collapse: collapse; font-variant-numeric: tabular-nums; }}
th, td {{ padding: .25rem .8rem .25rem 0; text-align: left; vertical-align: top; border-bottom: 1px solid #dde0e4; }}
th {{ border-bottom: 2px solid #9aa0a6; white-space: nowrap; }}
</style>
</head>
<body>
{body}</body>
</html>
"""


class Markdown(str):
    """Text that is Markdown already; any other text is a user's or a model's, and is not read as markup."""


def escaped(text: str) -> str:
    if isinstance(text, Markdown):
        return text
    return re.sub(r"(^[#>+~=-]|[\\`*_\[\]<|&])", r"\\\1", " ".join(text.split()))


def heading(text: str, level: int = 2) -> str:
    return f"{'#' * level} {escaped(text)}"


def bullets(items: Iterable[str]) -> str:
    return "\n".join(f"- {escaped(item)}" for item in items)


def link(text: str, path: str) -> Markdown:
    return Markdown(f"[{escaped(text)}]({quote(path)})")


def picture(title: str, file: str) -> str:
    return f"![{escaped(title)}]({quote(file)})\n\n{escaped(title)}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [map(escaped, head), ["---"] * len(head), *(map(escaped, row) for row in rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def as_html(title: str, markdown: str, pictures: Mapping[str, bytes]) -> str:
    """Make a page of a report; ``pictures`` are the SVG files that it shows, by name."""
    from markdown_it import MarkdownIt

    body = str(MarkdownIt("commonmark", {"html": False}).enable("table").render(markdown))
    for file, svg in pictures.items():
        body = body.replace(f'src="{quote(file)}"', f'src="data:image/svg+xml;base64,{base64.b64encode(svg).decode()}"')
    return _PAGE.format(title=html.escape(title), body=body)
