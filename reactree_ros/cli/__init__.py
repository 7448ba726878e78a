"""The command line ``reactree``; each command is a file. Commands of other rooms and packages enter by entry points."""

from __future__ import annotations

import atexit
import contextlib
import importlib
import io
import logging
import os
import re
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Annotated, Any, NoReturn

import typer

from reactree_ros.agent.text import in_one_line
from reactree_ros.cli.commands import COMMANDS, Command
from reactree_ros.cli.help import HelpedCommand, HelpedGroup, with_help
from reactree_ros.errors import UserError
from reactree_ros.files.secrecy import redacted
from reactree_ros.plugins import DISTRIBUTION, more_come, one_line
from reactree_ros.plugins.settings import or_nearest


class Commands(HelpedGroup):
    """A group whose commands are imported when they are called: the whole command line, or those ``below`` a word."""

    def __init__(self, *, below: Sequence[Command] = (), **settings: Any) -> None:
        super().__init__(**settings)
        self._below = {command.name: command for command in below}

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self._below or (command.name for command in COMMANDS))

    def _command(self, name: str) -> Command | None:
        return COMMANDS.get(name) if not self._below and name in COMMANDS.names else self._below.get(name)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        command = self._command(cmd_name)
        return command and HelpedCommand(name=cmd_name, help=command.summary, rich_help_panel=command.panel)

    def loaded(self, name: str) -> Any:
        command = self._command(name)
        return command and load(command)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        if name is None or command is None:
            return name, command, rest
        command = self.loaded(name)
        if not (self._below or ctx.resilient_parsing or "--help" in rest):
            _set_defaults(ctx, name, command, rest)
        return name, command, rest


def _set_defaults(ctx: Any, name: str, command: Any, words: Sequence[str]) -> None:
    from reactree_ros.cli.defaults import DefaultsFile

    path, waiting = [name], list(words)
    while waiting and hasattr(command, "list_commands"):
        path.append(waiting.pop(0))
        command = below(command, path[-1])
    file = DefaultsFile()
    try:
        file.check()
        if command is None or hasattr(command, "list_commands"):  # typer reports it
            return
        ctx.default_map = {name: default.value for name, default in file.defaults(path, command).items()}
        for word in reversed(path):
            ctx.default_map = {word: ctx.default_map}
        if changes := file.changes(path, command):
            print(in_one_line(f"defaults: {changes}"), file=sys.stderr)  # noqa: T201
    except UserError:
        if name != "doctor":  # doctor reports what is wrong in it
            raise


def load(command: Command) -> Any:
    if command.commands:
        settings = {"no_args_is_help": True, "add_help_option": True}
        return Commands(name=command.name, help=command.summary, below=command.commands, **settings)
    name, _, named = command.module.partition(":")
    try:
        with contextlib.redirect_stdout(sys.stderr):  # plug-ins must not print into a command's output
            module = importlib.import_module(name)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a plug-in may raise SystemExit, too
        if command.module.partition(".")[0] == DISTRIBUTION:
            raise
        raise UserError(f"command '{command.name}' cannot be loaded: {one_line(error)}") from error
    app = getattr(module, named or "app", None)
    if not isinstance(app, typer.Typer):
        raise UserError(f"command '{command.name}': {command.module} has no typer.Typer named '{named or 'app'}'")
    loaded: Any = typer.main.get_command(with_help(app))
    loaded.name = command.name
    return loaded


def every_command() -> Iterator[tuple[tuple[str, ...], Any]]:
    for command in COMMANDS:
        with contextlib.suppress(UserError):
            yield from leaves((command.name,), load(command))


def leaves(path: tuple[str, ...], command: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    if not hasattr(command, "list_commands"):
        yield path, command
        return
    for name in command.list_commands(None):
        yield from leaves((*path, name), below(command, name))


def below(group: Any, name: str) -> Any:
    return group.loaded(name) if isinstance(group, Commands) else group.get_command(None, name)


#: Signals that ask for an end: Ctrl-C; ``kill``, containers, systemd and Slurm; a closed terminal (not on Windows).
SIGNALS = [signal.Signals[name] for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
#: Seconds that a command may take to end; after that, another signal interrupts its ending.
GRACE = 10.0


class Asked:
    """The signal that has asked this process to end; its number is 0 if there was none."""

    def __init__(self) -> None:
        self.number, self._since = 0, 0.0

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Raise :class:`KeyboardInterrupt` in the main thread for each of :data:`SIGNALS`, until this context ends.

        A signal ignored from the start stays ignored: SIGHUP under nohup, SIGINT in a background job of a shell script.
        """
        self.number, before = 0, {}
        if threading.current_thread() is threading.main_thread():
            heard = [one for one in SIGNALS if signal.getsignal(one) not in (signal.SIG_IGN, None)]
            before = {one: signal.signal(one, self._take) for one in heard}
        try:
            yield
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)

    def _take(self, number: int, frame: Any) -> None:
        now = time.monotonic()
        if self.number and now - self._since < GRACE:  # give the ending process time to end its children
            return
        self.number, self._since = number, now
        if number != signal.SIGINT:
            _leave_closed_terminals()
        raise KeyboardInterrupt

    @contextmanager
    def until_ctrl_c(self) -> Iterator[None]:
        """Let Ctrl-C end only this context; any other signal ends the command."""
        try:
            yield
        except KeyboardInterrupt:
            if self.number not in (0, signal.SIGINT):
                raise
            self.number = 0


#: The signal of this process.
ASKED = Asked()


def leave(code: Callable[[], int]) -> None:
    """End this process at once if a thread is still at work, as the last that is called at its end.

    The interpreter would end such a thread where it stands. In the middle of C++ or Rust, such as that of torch, this
    aborts the process: "terminate called without an active exception", exit code 134.
    """
    if any(one.daemon for one in threading.enumerate()):
        logging.shutdown()
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(code())


def _leave_closed_terminals() -> None:
    """Discard output to a closed terminal: each print would raise an error on the way out."""
    if os.name != "posix":
        return
    poll = select.poll()
    for stream in (1, 2):
        poll.register(stream, 0)
    for stream, state in poll.poll(0):
        if state & (select.POLLHUP | select.POLLERR):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream)


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
        return said + or_nearest(command[1], COMMANDS.names) + more_come()
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
