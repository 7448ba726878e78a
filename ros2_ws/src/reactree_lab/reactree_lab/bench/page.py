"""Writes Markdown from text that is none, and makes a page of it."""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    from markdown_it.token import Token

# The dark page has the colour that the filter makes of a plot's white.
_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
:root {{ color-scheme: light dark; --text: #1c1e21; --page: #fff; --line: #d5d9de; --link: #0b57d0; }}
body {{ font: 15px/1.5 system-ui, sans-serif; color: var(--text); background: var(--page);
  max-width: 78rem; margin: 1.5rem auto; padding: 0 1rem; overflow-wrap: anywhere; }}
a {{ color: var(--link); }}
h1 {{ font-size: 1.4rem; }} h2 {{ display: inline; font-size: 1.05rem; }}
p, ul {{ max-width: 46rem; }} h1 + p {{ font-size: 1.25rem; max-width: none; }}
img {{ max-width: 100%; }}
details {{ border-top: 1px solid var(--line); }} summary {{ padding: .6rem 0; cursor: pointer; }}
.wide {{ overflow-x: auto; }}
table {{ border-collapse: collapse; font-size: 14px; overflow-wrap: normal; font-variant-numeric: tabular-nums; }}
th, td {{ padding: .25rem .8rem .25rem 0; text-align: left; vertical-align: top; }}
tr {{ border-bottom: 1px solid var(--line); }}
thead th {{ min-width: 4.9rem; overflow-wrap: anywhere; }} tbody th {{ font-weight: normal; }}
@media (min-width: 50rem) {{ tbody th {{ position: sticky; left: 0; background: var(--page); }} }}
@media (prefers-color-scheme: dark) {{
  :root {{ --text: #e0e0e0; --page: #1f1f1f; --line: #50545a; --link: #8ab4f8; }}
  img {{ filter: invert(.88) hue-rotate(180deg); }}
}}
</style>
</head>
<body>
<main>
{body}</main>
</body>
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


def picture(shows: str, file: str) -> str:
    """Write a picture; ``shows`` says in words what it shows."""
    return f"![{escaped(shows)}]({quote(file)})"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [map(escaped, head), ["---"] * len(head), *(map(escaped, row) for row in rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def as_html(title: str, markdown: str, pictures: Mapping[str, bytes]) -> str:
    """Make a page of Markdown: what follows a heading of the second level is folded under it.

    ``pictures`` are the SVG files that it shows, by name.
    """
    from markdown_it import MarkdownIt

    made = MarkdownIt("commonmark", {"html": False}).enable("table")
    body = str(made.renderer.render(list(_laid_out(made.parse(markdown))), made.options, {}))
    for file, svg in pictures.items():
        body = body.replace(f'src="{quote(file)}"', f'src="data:image/svg+xml;base64,{base64.b64encode(svg).decode()}"')
    return _PAGE.format(title=html.escape(title), body=body)


def _laid_out(tokens: Sequence[Token]) -> Iterator[Token]:
    """Fold what follows each heading, let a wide table scroll by itself, and name rows and columns by headers."""
    from markdown_it.token import Token

    def raw(text: str) -> Token:
        return Token("html_block", "", 0, content=text)

    title, folded, row_begins = "", False, False
    for number, token in enumerate(tokens):
        if token.tag == "h2" and token.type == "heading_open":
            title = "".join(part.content for part in tokens[number + 1].children or ())
            yield raw(f"{'</details>' * folded}\n<details>\n<summary>")
            folded = True
        elif token.type == "table_open":
            yield raw(f'<div class="wide" tabindex="0" role="region" aria-label="Table: {html.escape(title)}">\n')
        elif token.type == "th_open":
            token.attrSet("scope", "col")
        elif token.type == "td_open" and row_begins:
            token.tag = "th"
            token.attrSet("scope", "row")
        elif token.type == "td_close" and row_begins:
            token.tag, row_begins = "th", False
        elif token.type == "tr_open":
            row_begins = True
        yield token
        if token.tag == "h2" and token.type == "heading_close":
            yield raw("</summary>\n")
        elif token.type == "table_close":
            yield raw("</div>\n")
    yield raw("</details>\n" * folded)
