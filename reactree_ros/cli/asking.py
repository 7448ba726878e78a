"""Asks the user a yes-no question, if somebody sits at the terminal."""

from __future__ import annotations

import sys

import typer

from reactree_ros.agent.text import in_one_line
from reactree_ros.files.secrecy import redacted


def agreed(shown: str, question: str) -> bool | None:
    """Show something on stderr and ask a question; no is the default. Returns None if nobody can be asked."""
    try:
        there = sys.stdin.isatty() and sys.stderr.isatty()
    except (AttributeError, ValueError):  # a stream is closed
        there = False
    if not there:
        return None
    typer.echo(in_one_line(redacted(shown)), err=True)
    return typer.confirm(question, default=False, err=True)
