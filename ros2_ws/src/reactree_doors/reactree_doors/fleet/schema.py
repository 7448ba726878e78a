"""The schema of a fleet's memory in PostgreSQL with pgvector.

Every text is kept as JSON, because PostgreSQL's text has no NUL. A subgoal is known by a digest of its text, so that it
is written without looking it up. Each embedder has a table of vectors of its own: vectors of different embedders are
never compared.
"""

from __future__ import annotations

from typing import Any

from reactree_ros.memory.port import EpisodicMemoryError

NAME = "reactree_memory"
VERSION = 3
#: Whoever writes or makes it holds this lock to the end of the transaction: ids rise in the order of commits.
LOCK = 0x52635472
#: Longer vectors have no index, and are compared one by one.
MOST_INDEXED = 4000
#: Most bytes of an experience's turns: no robot has to read more.
_LONGEST = 1 << 24
#: How many are compared while a vector gets its place in the index. With pgvector's 64 the graph breaks up where
#: vectors form clusters of more than that, as subgoals of a few patterns do. An insert costs a third more.
_PLACING = 128

_SCHEMA = f"""
CREATE EXTENSION IF NOT EXISTS vector;
CREATE SCHEMA {NAME};
CREATE TABLE {NAME}.meta (version integer NOT NULL, fleet uuid NOT NULL);
INSERT INTO {NAME}.meta VALUES ({VERSION}, gen_random_uuid());
CREATE TABLE {NAME}.embedder (
    id smallint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL,
    dimension integer NOT NULL,
    UNIQUE (name, dimension));
CREATE TABLE {NAME}.run (
    id uuid PRIMARY KEY,
    added timestamptz NOT NULL DEFAULT now(),
    experiences integer NOT NULL);
CREATE TABLE {NAME}.subgoal (key uuid PRIMARY KEY, text text NOT NULL);
CREATE TABLE {NAME}.experience (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run uuid NOT NULL REFERENCES {NAME}.run,
    subgoal uuid NOT NULL REFERENCES {NAME}.subgoal,
    "end" smallint NOT NULL,
    digest bigint NOT NULL,
    task_id text NOT NULL,
    task_name text NOT NULL,
    decision integer NOT NULL,
    depth integer NOT NULL,
    turns text NOT NULL CHECK (octet_length(turns) <= {_LONGEST}));
CREATE INDEX experience_subgoal ON {NAME}.experience (subgoal) INCLUDE ("end", digest, id);
CREATE INDEX experience_digest ON {NAME}.experience (digest);
CREATE INDEX experience_kind ON {NAME}.experience ("end", task_name)"""


def version_of(connection: Any, where: str) -> int:
    """Return the version of the schema in a database; 0 if there is none."""
    # Not by to_regclass: whoever waited for the lock has old answers of it.
    look = (
        "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = %(name)s), "
        "EXISTS (SELECT FROM pg_tables WHERE schemaname = %(name)s AND tablename = 'meta')"
    )
    there, ours = connection.execute(look, {"name": NAME}).fetchone()
    rows = connection.execute(f"SELECT version FROM {NAME}.meta").fetchall() if ours else ()
    if there and len(rows) != 1:
        raise EpisodicMemoryError(f"{where}: the schema {NAME} there is another program's; name another database")
    version = int(rows[0][0]) if rows else 0
    if version not in (0, VERSION):
        raise EpisodicMemoryError(
            f"{where}: has schema version {version}, this reactree_ros knows {VERSION}: have the same version on all "
            "robots of a fleet"
        )
    return version


def prepare(connection: Any, where: str) -> None:
    if version_of(connection, where):
        return
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
        if not version_of(connection, where):  # another robot may have been first
            connection.execute(_SCHEMA)


def path_of(connection: Any, where: str) -> str:
    """Return what finds pgvector's types in a transaction, in whatever schema they are, and nothing else."""
    look = (
        "SELECT quote_ident(nspname), has_schema_privilege(n.oid, 'USAGE'), quote_ident(current_user) "
        "FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE extname = 'vector'"
    )
    if (row := connection.execute(look).fetchone()) is None:
        raise EpisodicMemoryError(
            f"{where}: has no pgvector any more; an administrator does CREATE EXTENSION vector there"
        )
    name, may_use, user = row
    if not may_use:
        raise EpisodicMemoryError(
            f"{where}: pgvector is in the schema {name}, which {user} may not use; its owner does "
            f"GRANT USAGE ON SCHEMA {name} TO {user}"
        )
    return f"SET LOCAL search_path = {name}"


def vectors_of(connection: Any, embedder: str, dimension: int, path: str) -> str:
    find = f"SELECT id FROM {NAME}.embedder WHERE name = %s AND dimension = %s"
    if (row := connection.execute(find, (embedder, dimension)).fetchone()) is None:
        with connection.transaction():
            connection.execute(path)
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
            add = f"INSERT INTO {NAME}.embedder (name, dimension) VALUES (%s, %s) ON CONFLICT DO NOTHING"
            connection.execute(add, (embedder, dimension))
            row = connection.execute(find, (embedder, dimension)).fetchone()
            table = f"{NAME}.vector_{row[0]}"
            connection.execute(
                f"CREATE TABLE IF NOT EXISTS {table} (subgoal uuid PRIMARY KEY REFERENCES {NAME}.subgoal, "
                f"embedding vector({dimension}) NOT NULL CHECK (abs(vector_norm(embedding) - 1) < 0.001))"
            )
            # A vector is in the row itself, so that a search reads it without a second look-up.
            connection.execute(f"ALTER TABLE {table} ALTER COLUMN embedding SET STORAGE MAIN")
            if dimension <= MOST_INDEXED:
                connection.execute(index_of(table, dimension))
    return f"{NAME}.vector_{row[0]}"


def index_of(table: str, dimension: int) -> str:
    """Return what makes the index of a table of vectors: half precision, as the nearest are compared exactly after."""
    return (
        f"CREATE INDEX IF NOT EXISTS {table.partition('.')[2]}_near ON {table} "
        f"USING hnsw ((embedding::halfvec({dimension})) halfvec_ip_ops) "
        f"WITH (m = 16, ef_construction = {_PLACING})"
    )
