"""One connection to a fleet's memory: what is asked of the server, and what its errors mean."""

from __future__ import annotations

import configparser
import contextlib
import json
import logging
import os
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeAlias
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from reactree_doors.fleet import schema
from reactree_doors.fleet.own import Waiting
from reactree_doors.fleet.schema import NAME
from reactree_ros.errors import UserError
from reactree_ros.files.read_back import in_a_line, parse_json
from reactree_ros.files.secrecy import is_loopback
from reactree_ros.memory.embedding import TIE, drawn, seed_of
from reactree_ros.memory.experience import Experience
from reactree_ros.memory.port import Counts, EpisodicMemoryError
from reactree_ros.memory.stores.sqlite import ENDS, FETCHED_AT_ONCE, Kept, digest_of, experience_of
from reactree_ros.plugins.installation import install_requirements

_log = logging.getLogger(__name__)
#: Seconds to connect; to wait for an answer.
_CONNECT, _ANSWER = 3, 10.0
#: Up to this many vectors every one is compared; counted again after some seconds.
_FEW, _COUNT_AGAIN = 2_000, 30.0
#: How many subgoals are looked at, one after another, while more is asked for; None: all.
_LOOKS = (64, 512, None)
_MEMBERS_AT_ONCE = 16
_PAGE = 256
#: Each takes milliseconds, and a statement has a bound.
_INDEXED_AT_ONCE = 64
#: Of SQL states, the classes (two letters) and conditions that pass, and lose nothing: no resources, an operator's
#: intervention, a server that only reads.
_PASSING = ("53", "57", "25006")
#: Likewise those that are about what was to be written: its values, what must hold of them, its size.
_REFUSING = ("22", "23", "54")
#: Of refused connections, those that pass; they come without an SQL state.
_CROWDED = ("too many", "remaining connection slots")
_GRANT = "; an administrator does it once (CREATE EXTENSION vector, in that database), or grants the right to it"
#: An experience's number, end and digest.
Member: TypeAlias = tuple[int, int, int]
#: For the transaction alone: between two of them a pooler may give the session to somebody else.
_LOCALLY = (
    f"SET LOCAL statement_timeout = '{_ANSWER:.0f}s'; "
    f"SET LOCAL idle_in_transaction_session_timeout = '{_ANSWER:.0f}s'; "
    "SET LOCAL hnsw.ef_search = 100; SET LOCAL hnsw.iterative_scan = relaxed_order; "
)
_EXPERIENCES = (
    'SELECT e.id, s.text, e.turns, e."end", e.task_id, e.task_name, e.decision, e.depth '
    f"FROM {NAME}.experience e JOIN {NAME}.subgoal s ON s.key = e.subgoal"
)


class Unreachable(EpisodicMemoryError):
    """The server is not there, does not answer or cannot do it now; later it may."""


class Refused(EpisodicMemoryError):
    """The server does not take what was to be written, now or later."""


def key_of(subgoal: str) -> UUID:
    return UUID(bytes=blake2b(subgoal.encode(), digest_size=16).digest())


class Server:
    """A connection to the memory of a fleet, which is made there if need be.

    Its methods may be called from several threads, which take turns. Every wait for the server has a bound. Raises
    Unreachable: it is not there, or cannot do it now. Raises EpisodicMemoryError: it refuses, or what is there is not
    for this version.
    """

    def __init__(self, url: str, *, embedder: str, dimension: int) -> None:
        self._where, self._dimension = url, dimension
        self._patience = _ANSWER
        self._few, self._counted = True, -_COUNT_AGAIN
        self._damaged: set[int] = set()
        self._kept, self._lock = Kept(self._fetch), threading.Lock()
        with contextlib.ExitStack() as opened:
            self._connection = opened.enter_context(contextlib.closing(connected(url, lambda: self._patience)))
            with explained(url, "open"):
                schema.prepare(self._connection, url)
                path = schema.path_of(self._connection, url)
                self._vectors = schema.vectors_of(self._connection, embedder, dimension, path)
            self._locally = (_LOCALLY + path).replace("%", "%%")  # a name may have one
            (self.fleet,) = self._one(f"SELECT fleet::text FROM {NAME}.meta")
            opened.pop_all()

    @property
    def closed(self) -> bool:
        return bool(self._connection.closed)

    def hurry(self) -> None:
        self._patience = 0.0

    def close(self) -> None:
        self._connection.close()

    # ------------------------------------------------------------------ writing

    def add(self, run: Waiting) -> None:
        """Add a run, as a whole; one that is there already stays as it is."""
        subgoals = {key_of(row.subgoal): row for row in run.rows}
        subgoals = dict(sorted(subgoals.items(), key=itemgetter(0)))  # so that no two writers wait for each other
        with self._writing():
            execute = self._connection.execute
            new = f"INSERT INTO {NAME}.run (id, experiences) VALUES (%s, %s) ON CONFLICT DO NOTHING"
            if execute(new, (run.id, len(run.rows))).rowcount == 0:
                return
            add = f"INSERT INTO {NAME}.subgoal SELECT * FROM unnest(%s::uuid[], %s::text[]) ON CONFLICT DO NOTHING"
            execute(add, (list(subgoals), [json.dumps(row.subgoal) for row in subgoals.values()]))
            self._add_vectors({key: row.vector for key, row in subgoals.items()})
            execute("SELECT pg_advisory_xact_lock(%s)", (schema.LOCK,))
            with self._connection.cursor() as cursor:
                cursor.executemany(
                    f'INSERT INTO {NAME}.experience (run, subgoal, "end", digest, task_id, task_name, decision, depth, '
                    "turns) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)",
                    [
                        (
                            *(run.id, key_of(row.subgoal), row.end, row.digest),
                            *(json.dumps(row.task_id), json.dumps(row.task_name), row.decision, row.depth, row.turns),
                        )
                        for row in run.rows
                    ],
                )

    def add_vectors(self, vectors: dict[UUID, NDArray[np.float32]]) -> None:
        with self._writing():
            self._add_vectors(dict(sorted(vectors.items(), key=itemgetter(0))))

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        with explained(self._where, "write to"), self._connection.transaction():
            self._connection.execute(self._locally, ())
            yield

    def _add_vectors(self, vectors: dict[UUID, NDArray[np.float32]]) -> None:
        add = (
            f"INSERT INTO {self._vectors} SELECT key, made::vector "
            "FROM unnest(%s::uuid[], %s::text[]) AS new (key, made) ON CONFLICT DO NOTHING"
        )
        left = iter(vectors.items())
        while some := dict(islice(left, _INDEXED_AT_ONCE)):
            self._connection.execute(add, (list(some), [_written(vector) for vector in some.values()]))

    # ------------------------------------------------------------------ reading

    def ranked(self, query: NDArray[np.float32], *, draw: str) -> Iterator[tuple[float, Experience]]:
        """Yield every experience with a vector of this embedder, the most similar first; see `ExperienceIndex`."""
        ranked = self._ranked(query, seed_of(draw))
        while some := list(islice(ranked, FETCHED_AT_ONCE)):
            with self._lock:
                found = self._kept([number for _, number in some])
            yield from ((similarity, one) for (similarity, _), one in zip(some, found, strict=True) if one is not None)

    def _ranked(self, query: NDArray[np.float32], seed: int) -> Iterator[tuple[float, int]]:
        done: set[UUID] = set()
        for most in _LOOKS:
            found, members = self.nearest(query, most, members=0 if done else _MEMBERS_AT_ONCE)
            is_all = most is None or len(found) < most
            found = [one for one in found if one[0] not in done]
            first = 0
            while first < len(found):
                last = first + 1
                while last < len(found) and found[first][1] - found[last][1] <= TIE:
                    last += 1
                if last == len(found) and not is_all:
                    break  # the group may go on beyond what was looked at
                group = [key for key, _ in found[first:last]]
                if group[-1] not in members:
                    members = self._members([key for key, _ in found[first : max(last, first + _MEMBERS_AT_ONCE)]])
                if rows := [row for key in group for row in members.get(key, ())]:
                    ids, ends, digests = map(np.array, zip(*rows, strict=True))
                    for number in drawn(ids, ends, digests.view(np.uint64), seed=seed):
                        yield found[first][1], number
                done.update(group)
                first = last
            if is_all:
                return

    def nearest(
        self, query: NDArray[np.float32], most: int | None, *, members: int = 0
    ) -> tuple[list[tuple[UUID, float]], dict[UUID, list[Member]]]:
        """Return the nearest subgoals, and the experiences of the first of them, all by one question."""
        order = "embedding <#> %(query)s::vector"
        if most is not None and self._dimension <= schema.MOST_INDEXED and not self._are_few():
            half = f"halfvec({self._dimension})"
            order = f"embedding::{half} <#> %(query)s::{half}"
        limit = "" if most is None else f"LIMIT {most}"
        look = (
            f"WITH near AS MATERIALIZED (SELECT subgoal, -(embedding <#> %(query)s::vector) AS similarity "
            f"FROM {self._vectors} ORDER BY {order} {limit}), "
            f"first AS (SELECT subgoal FROM near ORDER BY similarity DESC, subgoal LIMIT %(members)s), "
            f'member AS (SELECT subgoal, e.id, e."end", e.digest FROM first JOIN {NAME}.experience e USING (subgoal)) '
            'SELECT subgoal, similarity, m.id, m."end", m.digest FROM near LEFT JOIN member m USING (subgoal) '
            "ORDER BY similarity DESC, subgoal"
        )
        found: dict[UUID, float] = {}
        first: dict[UUID, list[Member]] = {}
        for key, similarity, *member in self._all(look, {"query": _written(query), "members": members}):
            found[key] = similarity
            if len(found) <= members:
                first.setdefault(key, []).extend([tuple(member)] if member[0] is not None else ())
        return list(found.items()), first

    def _are_few(self) -> bool:
        if self._few and time.monotonic() - self._counted >= _COUNT_AGAIN:
            count = f"SELECT count(*) FROM (SELECT FROM {self._vectors} LIMIT {_FEW + 1}) AS first"
            self._few, self._counted = self._one(count)[0] <= _FEW, time.monotonic()
        return self._few

    def _members(self, subgoals: Sequence[UUID]) -> dict[UUID, list[Member]]:
        found: dict[UUID, list[Member]] = {key: [] for key in subgoals}
        look = f'SELECT subgoal, id, "end", digest FROM {NAME}.experience WHERE subgoal = ANY(%s)'
        for key, *row in self._all(look, (list(subgoals),)):
            found[key].append(tuple(row))
        return found

    def _fetch(self, ids: Sequence[int]) -> list[Experience | None]:
        found = {
            row[0]: self._experience(row) for row in self._all(f"{_EXPERIENCES} WHERE e.id = ANY(%s)", (list(ids),))
        }
        return [found.get(number) for number in ids]

    def _experience(self, row: tuple[Any, ...]) -> Experience | None:
        number, subgoal, turns, end, task_id, task_name, *numbers = row
        try:
            texts = [parse_json(text, halves=True) for text in (subgoal, task_id, task_name)]
            return experience_of((number, texts[0], turns, end, *texts[1:], *numbers), self._where)
        except (EpisodicMemoryError, ValueError) as error:
            if number not in self._damaged:
                self._damaged.add(number)
                _log.warning("%s: experience %d is left out: %s", self._where, number, in_a_line(error))
            return None

    def all(self) -> Iterator[Experience]:
        last = 0
        while rows := self._all(f"{_EXPERIENCES} WHERE e.id > %s ORDER BY e.id LIMIT {_PAGE}", (last,)):
            last = rows[-1][0]
            yield from (one for one in map(self._experience, rows) if one is not None)

    def holds(self, experience: Experience) -> bool:
        rows = self._all(f"{_EXPERIENCES} WHERE e.digest = %s", (digest_of(experience),))
        return any(self._experience(row) == experience for row in rows)

    def counts(self) -> Counts:
        kinds = self._all(f'SELECT "end", task_name, count(*) FROM {NAME}.experience GROUP BY 1, 2')
        runs, subgoals = self._one(f"SELECT (SELECT count(*) FROM {NAME}.run), (SELECT count(*) FROM {NAME}.subgoal)")
        named = ((ENDS[end], str(parse_json(name, halves=True)), count) for end, name, count in kinds)
        return Counts.from_kinds(named, runs=runs, subgoals=subgoals)

    # ------------------------------------------------------------------ catching up

    def missing(self, runs: Iterable[str]) -> list[str]:
        look = (
            "SELECT id::text FROM unnest(%s::uuid[]) AS known (id) "
            f"WHERE NOT EXISTS (SELECT FROM {NAME}.run WHERE run.id = known.id)"
        )
        asked, found = iter(runs), []
        while some := list(islice(asked, _FEW)):
            found += [row[0] for row in self._all(look, (some,))]
        return found

    def last(self) -> int:
        return int(self._one(f"SELECT coalesce(max(id), 0) FROM {NAME}.experience")[0])

    def run_after(self, number: int) -> tuple[str, int, list[Experience], dict[str, NDArray[np.float32]]] | None:
        """Return the run with the next experience after one: its id, its last experience, and its content."""
        look = f"SELECT run FROM {NAME}.experience WHERE id > %s ORDER BY id LIMIT 1"
        if not (found := self._all(look, (number,))):
            return None
        rows = self._all(f"{_EXPERIENCES} WHERE e.run = %s ORDER BY e.id", found[0])
        look = (
            f"SELECT s.text, v.embedding::float4[] FROM {self._vectors} v JOIN {NAME}.subgoal s ON s.key = v.subgoal "
            f"WHERE v.subgoal IN (SELECT subgoal FROM {NAME}.experience WHERE run = %s)"
        )
        vectors = {parse_json(text): np.array(vector, np.float32) for text, vector in self._all(look, found[0])}
        experiences = [one for one in map(self._experience, rows) if one is not None]
        return str(found[0][0]), rows[-1][0], experiences, vectors

    def without_vectors(self, after: int) -> tuple[int, dict[UUID, str]] | None:
        """Return subgoals without a vector of this embedder, of the next experiences, and the last of those."""
        page = f"SELECT id, subgoal FROM {NAME}.experience WHERE id > %s ORDER BY id LIMIT {_PAGE}"
        rows = self._all(
            f"SELECT e.id, s.key, s.text, v.subgoal IS NULL FROM ({page}) AS e "
            f"JOIN {NAME}.subgoal s ON s.key = e.subgoal LEFT JOIN {self._vectors} v "
            f"ON v.subgoal = s.key ORDER BY e.id",
            (after,),
        )
        return (rows[-1][0], {row[1]: str(parse_json(row[2])) for row in rows if row[3]}) if rows else None

    def _all(self, statement: str, values: Sequence[Any] | Mapping[str, Any] = ()) -> list[Any]:
        with explained(self._where, "read"):
            results = self._connection.execute(f"{self._locally}; {statement}", values)
            while results.nextset():
                pass
            rows: list[Any] = results.fetchall()
            return rows

    def _one(self, statement: str) -> Any:
        return self._all(statement)[0]


@contextlib.contextmanager
def explained(where: str, doing: str) -> Iterator[None]:
    """Turn the client's exceptions into one line that names the server."""
    import psycopg

    try:
        yield
    except psycopg.Error as error:
        state, kind = error.sqlstate or "", EpisodicMemoryError
        if state.startswith(_REFUSING) or isinstance(error, psycopg.DataError):
            kind = Refused
        elif state.startswith(_PASSING) or isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
            kind = Unreachable
        way_out = _GRANT if state == "42501" else ""
        raise kind(f"{where}: cannot {doing} the fleet's memory: {in_a_line(error)}{way_out}") from error


def connected(url: str, patience: Callable[[], float] = lambda: _ANSWER) -> Any:
    """Return a connection whose waits have a bound."""
    import psycopg
    from psycopg.pq import Ping

    with explained(url, "reach"):
        bounds = {"connect_timeout": _CONNECT, "keepalives_idle": 10, "tcp_user_timeout": 1000 * _CONNECT}
        address = psycopg.conninfo.make_conninfo(url, application_name="reactree", **bounds, **demands(url)[0])
        try:  # neither prepared statements nor the extended protocol: a pooler need not know them
            connection = psycopg.connect(
                address, autocommit=True, prepare_threshold=None, cursor_factory=psycopg.ClientCursor
            )
        except psycopg.errors.ConnectionTimeout:
            raise
        except psycopg.OperationalError as error:
            said = in_a_line(error)
            checked(url, said)
            if psycopg.pq.PGconn.ping(address.encode()) == Ping.OK and not any(one in said for one in _CROWDED):
                raise EpisodicMemoryError(
                    f"{url}: the server refuses: {said}; the user and the database stand in the address, the "
                    "password in PGPASSWORD, in ~/.pgpass or in a service file"
                ) from error
            raise
    wait = connection.wait

    def bounded(generator: Any, *given: Any, **named: Any) -> Any:
        try:
            return wait(_within(generator, patience), *given, **named)
        except _NoAnswer as error:
            connection.close()  # so that nothing else waits for it
            raise psycopg.OperationalError(str(error)) from None

    connection.wait = bounded
    return connection


class _NoAnswer(Exception):
    pass


def _within(generator: Any, patience: Callable[[], float]) -> Generator[Any, Any, Any]:
    begun = time.monotonic()
    try:
        wanted = next(generator)
        while True:
            ready = yield wanted
            if not ready and time.monotonic() - begun > patience():
                raise _NoAnswer(f"no answer within {time.monotonic() - begun:.1f} s")
            wanted = generator.send(ready)
    except StopIteration as done:
        return done.value


def _written(vector: NDArray[np.float32]) -> str:
    return f"[{','.join(['%.9g'] * len(vector)) % tuple(vector.tolist())}]"


# ---------------------------------------------------------------------- the way to the server
# Neither the password nor the memory is given to somebody who is not that server.

_VARIABLES = {
    name: f"PG{name.replace('_', '').upper()}" for name in ("host", "hostaddr", "service", "sslmode", "require_auth")
}
#: The first version of libpq that can demand a way to authenticate.
_LEAST = 160000
#: What libpq says when the server does not do what is demanded, and the way out.
_REMEDIES = {
    "authentication method requirement": "if the server is right to ask so, name that in the address, such as "
    "require_auth=password (a pooler's plain text), md5 or none",
    "does not support SSL": "turn TLS on there; sslmode=disable in the address does without, and then everybody on the "
    "way reads the memory",
    "certificate": "name the file with the certificate of who signs for the server: sslrootcert=FILE in the address; "
    "sslrootcert=system takes those of this machine",
}


def demands(url: str) -> tuple[dict[str, str], str]:
    """Return the options that are demanded of a server, and in words what the user has loosened.

    SCRAM, which does not give the password away; over another machine's network, TLS with the certificate checked. On a
    Unix-domain socket the system vouches for the user. What the user has set, by the address, a service file or the
    environment, wins. Raises UserError: the client's library is too old to demand it.
    """
    import psycopg

    if psycopg.pq.version() < _LEAST:
        raise UserError(
            f"libpq {psycopg.pq.version() // 10000} is too old for a fleet's memory: "
            f"{install_requirements('psycopg[binary]')}"
        )
    said = {name: os.environ[variable] for name, variable in _VARIABLES.items() if os.environ.get(variable)}
    address = {name: str(value) for name, value in psycopg.conninfo.conninfo_to_dict(url).items()}
    said |= _of_service(address.get("service") or said.get("service", "")) | address
    hosts = (said.get("hostaddr") or said.get("host", "")).split(",")
    sockets = {one for one in hosts if not one or one[0] in "/@"}
    demanded = {"require_auth": "scram-sha-256,none" if sockets.issuperset(hosts) else "scram-sha-256"}
    if not all(one in sockets or is_loopback(one) for one in hosts):
        demanded["sslmode"] = "verify-full"
    loosened = [
        f"{name}={said[name]} is set, not {value}" for name, value in demanded.items() if said.get(name, value) != value
    ]
    return {name: value for name, value in demanded.items() if name not in said}, ", and ".join(loosened)


def checked(url: str, said: str) -> None:
    """Check what was said when a connection failed."""
    for mark, remedy in _REMEDIES.items():
        if mark in said:
            raise EpisodicMemoryError(f"{url}: the server is not trusted: {said}; {remedy}")


def _of_service(name: str) -> dict[str, str]:
    file = os.environ.get("PGSERVICEFILE") or Path("~/.pg_service.conf").expanduser()
    services = configparser.RawConfigParser(delimiters=("=",), comment_prefixes=("#",), strict=False)
    try:
        services.read(file, encoding="utf-8")
        return dict(services[name])
    except (KeyError, ValueError, configparser.Error):
        return {}
