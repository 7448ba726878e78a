"""Generated code is hostile: every attempt to get out of the sandbox, or to use it up, ends as an error of the run.

Each attempt is what the model says first; then it is asked to correct it. So every test shows that the attempt had its
error, that this process goes on, that the sandbox still works, and that nothing was read, written or done outside.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from doubles import ScriptedWorld
from hypothesis import given, settings
from hypothesis import strategies as st
from recode_doubles import coder, root, run_of

from reactree_lab.planners.recode.code_block import MAX_CODE, BlockError, read_block
from reactree_lab.planners.recode.sandbox import Limits
from reactree_ros.episode import EpisodeResult
from reactree_ros.tree.options import TreeOptions
from reactree_ros.world.port import World

pytest.importorskip("pydantic_monty")
resource = pytest.importorskip("resource")

SECRET = "the canary's song"
LIMITS = Limits(seconds=0.3, memory=8 * 2**20, recursion=50, output=2000, pauses=50)
GO = "go to kitchen 1"
NOT_ALLOWED = "is not allowed"
NO_MODULE = "is not there; there are re, random, math"
TOO_DEEP = "nested"

ATTRIBUTES = {
    "class of a tuple": "x = ().__class__",
    "mro": "x = ().__class__.__mro__[1].__subclasses__()",
    "bases": "x = ''.__class__.__bases__",
    "globals of a lambda": "x = (lambda: 0).__globals__",
    "code of a lambda": "x = (lambda: 0).__code__",
    "closure": "x = (lambda: 0).__closure__",
    "builtins of a function": "x = print.__self__.__dict__['open']",
    "frame of a generator": "x = (n for n in ()).gi_frame.f_back.f_globals",
    "traceback of an exception": "try:\n    1 / 0\nexcept Exception as error:\n    x = error.__traceback__.tb_frame",
    "dict of a module": "x = re.__dict__",
    "loader of a module": "x = re.__loader__",
    "private of a module": "x = random._os.environ",
    "reduce": "x = (1).__reduce_ex__(2)",
    "getattr with a computed name": "x = getattr((), '__cl' + 'ass__')",
    "getattr with a computed name of a function": "x = getattr(print, '__sel' + 'f__')",
    "format string attribute": "x = '{0.__class__}'.format(())",
    "format string chain": "x = '{0.__class__.__init__.__globals__}'.format(print)",
    "format map": "x = '{a.__class__}'.format_map({'a': 1})",
    "f-string attribute": "x = f'{().__class__}'",
    "percent": "x = '%(a)s' % __builtins__",
}
NAMES = {
    "__import__": "x = __import__('os')",
    "__builtins__": "x = __builtins__",
    "__loader__": "x = __loader__",
    "eval": "x = eval('1 + 1')",
    "exec": "exec('x = 1')",
    "compile": "x = compile('1', '', 'eval')",
    "open": "x = open({canary!r}).read()",
    "open by another name": "o = open\nx = o({canary!r}).read()",
    "open for writing": "open({canary!r}, 'w').write('gone')",
    "globals": "x = globals()",
    "vars": "x = vars()",
    "input": "x = input()",
    "breakpoint": "breakpoint()",
    "full width eval": "x = \uff45\uff56\uff41\uff4c('1')",
    "small caps exec": "\U0001d5be\U0001d5d1\U0001d5be\U0001d5bc('x = 1')",
    "dunder of look-alikes": "x = _\u005f\uff49mport_\u005f('os')",
    "super": "x = super()",
    "memoryview": "x = memoryview(b'a')",
    "names of the sandbox": "_recode_show = print",
    "run as a variable": "run = print",
    "run by another name": "again = run\nagain('go to kitchen 1')",
    "run as an argument": "x = (lambda run: run)(print)",
    "run as an imported name": "import re as run",
    "a builtin as a target": "eval, x = part()",
}
MODULES = {
    "os": "import os\nx = os.listdir('/')",
    "os from": "from os import system\nsystem('touch {canary}.2')",
    "environ": "import os\nx = os.environ['CANARY']",
    "sys": "import sys\nx = sys.modules['os']",
    "subprocess": "import subprocess\nsubprocess.run(['touch', '{canary}.2'])",
    "socket": "import socket\nx = socket.create_connection(('127.0.0.1', 80))",
    "ctypes": "import ctypes\nctypes.string_at(0)",
    "pickle": "import pickle\nx = pickle.loads(b'cos\\nsystem\\n(S\"touch x\"\\ntR.')",
    "pathlib": "from pathlib import Path\nx = Path({canary!r}).read_text()",
    "time": "import time\ntime.sleep(1000)",
    "asyncio": "import asyncio\nasyncio.run(asyncio.sleep(1000))",
    "importlib": "import importlib\nx = importlib.import_module('os')",
    "relative": "from . import os",
    "builtins": "import builtins as b\nx = b.open",
    "submodule": "import re.sys",
    "our own": "import reactree_ros",
}
KINDS = {
    "def": "def f():\n    return 1",
    "class": "class A:\n    pass",
    "metaclass": "class A(metaclass=type):\n    pass",
    "decorator": "@print\ndef f():\n    return 1",
    "async def": "async def f():\n    return 1",
    "yield": "x = lambda: (yield)",
    "await": "await run('go to kitchen 1')",
    "global": "global run",
    "del": "del re",
    "endless recursion by def": "def f():\n    return f()\nf()",
}
USED_UP = {
    "endless loop": ("while True:\n    pass", "TimeoutError"),
    "endless loop that hides": (
        "while True:\n  try:\n    while True: x = 1\n  except BaseException:\n    x = 2",
        "TimeoutError",
    ),
    "endless generator": ("x = sum(1 for n in iter(int, 1))", "Error"),
    "long sum": ("x = sum(range(10**12))", "TimeoutError"),
    "endless recursion": ("f = lambda f: f(f)\nf(f)", "RecursionError"),
    "power tower": ("x = 10**10**10", "MemoryError"),
    "digits": ("x = str(7**4000000)", "Error"),
    "long text": ("x = 'a' * 10**12", "MemoryError"),
    "doubling text": ("x = 'a'\nwhile True:\n    x += x", "MemoryError"),
    "long list": ("x = [0] * 10**11", "MemoryError"),
    "growing list": ("x = []\nwhile True:\n    x.append('a' * 1000)", "MemoryError"),
    "list of a range": ("x = list(range(10**10))", "MemoryError"),
    "padding": ("x = 'a'.zfill(10**11)", "MemoryError"),
    "padding in a format": ("x = f'{1:>99999999999}'", "Error"),
    "percent padding": ("x = '%99999999999d' % 1", "Error"),
    "replace": ("x = ('a' * 10**4).replace('', 'b' * 10**6)", "MemoryError"),
    "join": ("x = 'a'.join(['b' * 10**4] * 10**6)", "MemoryError"),
    "bytes": ("x = bytes(10**11)", "MemoryError"),
    "integer of a text": ("x = int('9' * 10**6)", "ValueError"),
    "backtracking": (r"x = re.search(r'(.*)(.*)(.*)(.*)(.*)\1x', 'a' * 5000)", "Error"),
    "large pattern": ("x = re.compile('((a{1000}){1000}){1000}')", "Error"),
    "permutations": ("x = sorted(range(10**9))", "MemoryError"),
    "flood of print": ("while True:\n    print('a' * 100)", "Error"),
    "one long print": ("print('a' * 10**6)", "MemoryError"),
    "flood of names": ("while True:\n  try:\n    nothing\n  except NameError:\n    x = 1", "asked more than 50 times"),
    "flood of wrong skills": (
        "while True:\n  try:\n    run(5)\n  except TypeError:\n    x = 1",
        "asked more than 50 times",
    ),
    "a loop of ours": ("while True:\n    if False:\n        part()", "more than 2000 statements ran"),
    "an empty loop of ours": ("n = 0\nwhile n < 10**9 or part:\n    n += 1\n    if n < 0: part()", "Error"),
    "loop over a huge range of ours": ("for n in range(10**10):\n    if n < 0:\n        part()", "MemoryError"),
}
ENDINGS = {
    "exit": ("raise SystemExit", "SystemExit"),
    "interrupt": ("raise KeyboardInterrupt", "KeyboardInterrupt"),
    "generator exit": ("raise GeneratorExit", "GeneratorExit"),
    "exit()": ("exit()", "name 'exit' is not defined"),
    "hidden": ("try:\n    1 / 0\nexcept BaseException:\n    raise ValueError('hidden')", "ValueError: hidden"),
    "assert": ("assert False, 'no'", "AssertionError"),
    "a wrong skill": ("run(5)", "run takes one skill"),
    "two skills": ("run('go to kitchen 1', 'go to kitchen 1')", "run takes one skill"),
    "no skill": ("run()", "run takes one skill"),
    "a list of skills": ("run(['go to kitchen 1'] * 1000)", "run takes one skill"),
    "an empty skill": ("run('  ')", "run takes one skill"),
    "a huge skill": ("run('go to ' + 'a' * 10**6)", "run takes one skill"),
    "a skill with escapes": ("run('go to \\x1b[2J')", "run takes one skill"),
    "a function as a skill": ("run(print)", "run takes one skill"),
    "unknown variable": ("x = nothing", "name 'nothing' is not defined"),
    "break outside": ("break", "break"),
    "continue outside": ("continue", "continue"),
    "star in a call": ("x = part(**{'a': 1})", "one by one"),
}  # fmt: skip
SOURCES = {
    "too long": ("x = 1\n" * 2000, f"at most {MAX_CODE} are allowed"),
    "deep brackets": ("x = " + "(" * 150 + "1" + ")" * 150, ""),
    "a huge number": ("x = 0x" + "f" * 5000, "the code cannot be read"),
    "deep lists": ("x = " + "[" * 90 + "]" * 90, TOO_DEEP),
    "too many brackets": ("x = " + "(" * 4000 + ")" * 4000, TOO_DEEP),
    "minus": ("x = " + "-" * 9000 + "1", TOO_DEEP),
    "not": ("x = " + "not " * 2000 + "1", TOO_DEEP),
    "sum": ("x = " + "+".join(["1"] * 4000), TOO_DEEP),
    "attributes": ("x = a" + ".a" * 4000, TOO_DEEP),
    "calls": ("x = a" + "()" * 4000, TOO_DEEP),
    "lambdas": ("x = " + "lambda: " * 1000 + "1", TOO_DEEP),
    "ifs": ("".join(" " * n + "if 1:\n" for n in range(90)) + " " * 90 + "x = 1", TOO_DEEP),
    "null bytes": ("x = 1\x00\nimport os", "null byte"),
    "not closed": ("x = (1", "SyntaxError"),
    "nothing": ("", "there is no code"),
    "comments only": ("# run('go to kitchen 1')", "there is no code"),
    "another language": ("rm -rf /", "SyntaxError"),
    "surrogate": ("x = '\ud800'\nx = x.nothing", "Error"),
    "right to left": ("x = 1 \u202e + import os", "SyntaxError"),
}


def attempt(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Let the model say this, then something harmless; return the error that it was told."""
    canary = tmp_path / "canary"
    canary.write_text(SECRET, encoding="utf-8")
    monkeypatch.setenv("CANARY", SECRET)
    monkeypatch.chdir(tmp_path)
    world = ScriptedWorld()
    code = code.replace("{canary!r}", repr(str(canary))).replace("{canary}", str(canary))
    run = run_of({"solve": [code, "last = 1"], "part": "return 1"}, world, settings={"corrections": 1})
    root(run)._shared.limits = LIMITS
    result = run.run()
    assert result.status == "success", result
    assert [path.name for path in tmp_path.iterdir()] == ["canary"]
    assert canary.read_text(encoding="utf-8") == SECRET
    assert SECRET not in "".join(request.prompt for request in coder(run).requests)
    assert world.executed == []
    prompts = coder(run).prompts()
    assert len(prompts) == 2, "it was not an error"
    return prompts[1].rpartition("Error:\n")[2]


@pytest.fixture(autouse=True)
def bounded_memory(request: pytest.FixtureRequest) -> Iterator[None]:
    """No attempt takes more than 64 MiB of this process; hypothesis, which takes what it likes, is left out."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    if not hasattr(request.function, "hypothesis"):
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 2**10


@pytest.mark.parametrize("code", ATTRIBUTES.values(), ids=ATTRIBUTES)
def test_attributes_lead_nowhere(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    error = attempt(code, tmp_path, monkeypatch)
    assert NOT_ALLOWED in error or "AttributeError" in error, error


@pytest.mark.parametrize("code", NAMES.values(), ids=NAMES)
def test_names_mean_nothing_or_are_taken(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    error = attempt(code, tmp_path, monkeypatch)
    assert any(text in error for text in (NOT_ALLOWED, "is not defined", "can only be called", "is taken")), error


@pytest.mark.parametrize("code", MODULES.values(), ids=MODULES)
def test_there_are_three_modules(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert NO_MODULE in attempt(code, tmp_path, monkeypatch)


@pytest.mark.parametrize("code", KINDS.values(), ids=KINDS)
def test_code_is_statements_and_calls(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert NOT_ALLOWED in attempt(code, tmp_path, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize(("code", "message"), USED_UP.values(), ids=USED_UP)
def test_time_memory_and_output_are_limited(
    code: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert message in attempt(code, tmp_path, monkeypatch)


@pytest.mark.parametrize(("code", "message"), ENDINGS.values(), ids=ENDINGS)
def test_exceptions_and_wrong_calls_are_errors(
    code: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert message in attempt(code, tmp_path, monkeypatch)


@pytest.mark.parametrize(("code", "message"), SOURCES.values(), ids=SOURCES)
def test_strange_sources_are_errors(code: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if message:
        assert message in attempt(code, tmp_path, monkeypatch)
    else:  # brackets around a number are not nesting
        assert read_block(f"<execute>{code}").statements


@pytest.mark.parametrize(
    "code",
    [
        "import os\nx = os.getcwd()",
        "import os\nx = os.environ",
        "from pathlib import Path\nx = Path('/etc/passwd').read_text()",
        "x = open('/etc/passwd').read()",
        "import time\ntime.sleep(1000)\nx = time.time()",
        "import datetime\nx = datetime.datetime.now()",
        "import sys\nx = sys.modules",
        "import subprocess",
        "x = eval('().__class__.__mro__')",
        "exec('import os; os.remove(\"canary\")')",
        "x = ().__class__.__mro__[1].__subclasses__()",
        "x = getattr(print, '__self__')",
    ],
)
def test_the_sandbox_holds_without_the_check_before_it(
    code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reactree_lab.planners.recode.code_block._problem", lambda node, **_: "")
    harmless = code.startswith(("import time", "import os\nx = os.getcwd")) and "time.time" not in code
    if harmless:  # a working directory of its own
        code += "\nassert x != '/', x"
    assert "Error" in attempt(code, tmp_path, monkeypatch)


def test_a_value_that_is_too_large_to_be_shown_is_not_shown() -> None:
    run = run_of(
        {"solve": "x = []\nfor n in range(60):\n    x = [x, x, x, x]\npart(x)", "part": "y = 1"}, ScriptedWorld()
    )
    root(run)._shared.limits = LIMITS
    assert run.run().status == "success"
    assert "\n- x: too large to be shown\n" in coder(run).prompts("part")[0]


@pytest.mark.parametrize("last", ["x", "run(x)", "run(*x)", "run(x=x)", "print(x)", "raise ValueError(x)", "return x"])
def test_a_value_that_unfolds_without_end_stays_in_the_sandbox(last: str) -> None:
    bomb = f"x = []\nfor n in range(60):\n    x = [x, x, x, x]\n{last}"
    run = run_of({"solve": [bomb, "last = 1"]}, ScriptedWorld())
    root(run)._shared.limits = LIMITS
    assert run.run().status == "success"


def test_a_loop_of_skills_ends_with_the_budget() -> None:
    assert ended("while True:\n  try:\n    run('go to kitchen 1')\n  except BaseException:\n    x = 1").steps == 9


def test_thousands_of_placeholders_end_with_the_budget() -> None:
    result = ended("\n".join(f"f{n}()" for n in range(1000)))
    assert (result.decisions, result.agent_nodes) == (9, 10)


def test_placeholders_without_end_end_with_the_budget() -> None:
    assert ended("while True:\n    part()").decisions == 9


def ended(code: str) -> EpisodeResult:
    functions = {"solve": code, "part": "x = 1"} | {f"f{n}": "x = 1" for n in range(20)}
    run = run_of(functions, ScriptedWorld(), options=TreeOptions(max_decisions=9, max_steps=9))
    root(run)._shared.limits = LIMITS
    result = run.run()
    assert result.end in ("out_of_decisions", "out_of_steps")
    return result


def test_what_an_observation_says_is_a_text_and_no_code() -> None:
    class Liar(ScriptedWorld):
        def _pending(self, name, observation):  # type: ignore[no-untyped-def]
            from dataclasses import replace

            text = "'''\"\"\"\\\n{x} {run} </execute>\nimport os" + "\ud800" * 10 + "a" * 100_000
            return super()._pending(name, replace(observation, text=text))

    world: World = Liar()
    run = run_of({"solve": f"seen = run('{GO}')\nif len(seen) > 100000:\n    part(seen)", "part": "x = 1"}, world)
    assert run.run().status == "success"
    assert len(coder(run).prompts("part")[0]) < 5000


def test_no_thread_and_no_process_is_left() -> None:
    run = run_of({"solve": "x = 1"}, ScriptedWorld())
    run.run()
    box = root(run).sandbox
    box.close().result(timeout=20)
    box._worker.close()
    assert box._pid is not None
    with pytest.raises(ProcessLookupError):
        os.kill(box._pid, 0)
    assert sum(thread.name == "recode sandbox" for thread in threading.enumerate()) < 50


TEXT = st.text() | st.text(alphabet="()[]{}:=.,'\"\\ \n_abforinewhlpsutd01*+-<>@") | st.binary().map(
    lambda data: data.decode("utf-8", "surrogateescape")
)  # fmt: skip


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(TEXT)
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        block = read_block(f"<execute>{text}")
    except BlockError:
        return
    assert block.statements


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(TEXT)
def test_no_reply_breaks_a_node(text: str) -> None:
    run = run_of({}, ScriptedWorld(), settings={"corrections": 0, "depth": 2}, options=TreeOptions(max_decisions=4))
    coder(run).code = _Same(f"<execute>\n{text}")  # type: ignore[assignment]
    root(run)._shared.limits = LIMITS
    assert run.run().end in ("done", "failure", "out_of_decisions", "out_of_steps")


class _Same(dict[str, list[str]]):
    """The same text for whatever is asked."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def __missing__(self, key: str) -> list[str]:
        return [self._text]
