"""The command line ``reactree``; each command is a file. Commands of other rooms and packages enter by entry points."""

from __future__ import annotations

import atexit
import io
import os
import re
import signal
import sys
from typing import Annotated, Any, NoReturn

import typer

from reactree_ros.agent.text import in_one_line
from reactree_ros.cli.commands import COMMANDS
from reactree_ros.cli.loading import Commands
from reactree_ros.cli.signals import ASKED, leave
from reactree_ros.errors import UserError
from reactree_ros.files.secrecy import redacted
from reactree_ros.plugins.settings import or_nearest

NOT_ACHIEVED, BAD_INPUT, NOBODY_READS = 1, 2, 141
#: Added to the number of the signal that ended a command, as shells do.
BY_SIGNAL = 128
#: Most characters of an error that are printed.
LONGEST_MESSAGE = 2000
EXIT_CODES = (
    "Exit codes: 0 success; 1 a goal was not reached, or something is wrong, as the command's own help says; 2 bad "
    "usage or input; 129, 130, 143 ended by SIGHUP, Ctrl-C, SIGTERM; 141 nobody reads the output, as with `| head`."
)

# Of the click that typer uses: newer versions of typer bundle their own.
UsageError: Any = typer.BadParameter.__base__


app = typer.Typer(cls=Commands, no_args_is_help=True, pretty_exceptions_enable=False, epilog=EXIT_CODES)


def _say_version(wanted: bool) -> None:
    if wanted:
        from reactree_ros import __version__

        typer.echo(f"reactree_ros {__version__}")
        raise typer.Exit


@app.callback()
def _household(
    version: Annotated[
        bool, typer.Option("--version", callback=_say_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Household instructions carried out by a behaviour tree of LLM agent nodes that grows while it runs."""


def program() -> None:
    """Run the command line as a process of its own: as :func:`main`, whatever its threads still do at the end."""
    code: Any = 1
    atexit.register(leave, lambda: code)  # the first, so the last that is called
    try:
        main()
    except SystemExit as ended:
        code = ended.code or 0
        raise


def main() -> None:
    """Run the command line; bad input ends in one line and exit code 2, a signal in 128 plus its number."""
    if sys.stdout is None:  # closed before the start, which not every library handles
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):  # a character outside of a terminal's encoding must not end a run
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    with ASKED.taken():
        try:
            code = app(standalone_mode=False, prog_name="reactree")
            sys.stdout.flush()  # here, a closed pipe is caught
            if ASKED.number:  # typer turns every interrupt into 130
                _fail_by(signal.Signals(ASKED.number))
            sys.exit(code)
        except SystemExit as ended:
            if isinstance(ended.__context__, BrokenPipeError):  # rich and typer end a closed pipe with 1
                _stop_writing()
            raise
        except (KeyboardInterrupt, typer.Abort):
            _fail_by(signal.Signals(ASKED.number or signal.SIGINT))
        except UsageError as error:
            if message := _with_nearest(error.format_message()):  # typer printed the help
                _fail(message, BAD_INPUT)
            sys.exit(BAD_INPUT)
        except BrokenPipeError:
            _stop_writing()
        except Exception as error:
            from reactree_ros.world.port import WorldError

            if not isinstance(error, (UserError, WorldError, OSError)):  # a bug
                raise
            if ASKED.number:  # an error of the interrupted work
                _fail_by(signal.Signals(ASKED.number))
            message = str(error)
            if isinstance(error, OSError) and error.filename is not None and error.strerror is not None:
                message = f"{error.filename}: {error.strerror}"
            _fail(in_one_line(message), BAD_INPUT)


def _with_nearest(message: str) -> str:
    said = message.replace("Value error, ", "").removesuffix(".")
    command, value = (re.search(p, said) for p in ("^No such command '([^']*)'$", "'([^']*)' is not one of (.*)$"))
    if command:
        return said + or_nearest(command[1], COMMANDS.names)
    return said + or_nearest(value[1], re.findall("'([^']*)'", value[2])) if value else message


def _fail_by(one: signal.Signals) -> NoReturn:
    _fail("interrupted" if one == signal.SIGINT else f"ended by {one.name}", BY_SIGNAL + one)


def _stop_writing() -> NoReturn:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for output still to be flushed
    sys.exit(NOBODY_READS)


def _fail(message: str, code: int) -> NoReturn:
    from rich.console import Console

    text = redacted(message)
    text = text if len(text) <= LONGEST_MESSAGE else f"{text[:LONGEST_MESSAGE]}…"
    Console(stderr=True, soft_wrap=True).print(f"error: {text}", style="red", markup=False, highlight=False)
    sys.exit(code)
