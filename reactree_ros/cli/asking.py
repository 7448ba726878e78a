"""Whether somebody sits at the terminal and can be asked."""

from __future__ import annotations

import sys

import typer

from reactree_ros.agent.text import in_one_line
from reactree_ros.files.secrecy import redacted


def agreed(shown: str, question: str) -> bool | None:
    """Show something on stderr and ask a question; no is the default. None where nobody can be asked."""
    try:
        there = sys.stdin.isatty() and sys.stderr.isatty()
    except (AttributeError, ValueError):  # one of them is closed
        there = False
    if not there:
        return None
    typer.echo(in_one_line(redacted(shown)), err=True)
    return typer.confirm(question, default=False, err=True)
