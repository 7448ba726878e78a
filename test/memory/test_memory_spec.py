"""How a memory is named: a path for the default store, or a store with its settings."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from word_hash_embedder import WordHashEmbedder, experience

from reactree_ros.errors import UserError
from reactree_ros.memory import spec
from reactree_ros.memory.check import check_memory
from reactree_ros.memory.embedding import SentenceTransformerEmbedder, WordEmbedder
from reactree_ros.memory.experience import Experience
from reactree_ros.memory.port import Counts
from reactree_ros.memory.spec import MEMORIES, MemorySpec, NamedMemory, memory
from reactree_ros.memory.stores.sqlite import SPEC, SqliteMemory
from reactree_ros.plugins.settings import Settings, reaching


class ServerSettings(Settings):
    url: str = ""
    prefix: str = "p"
    folder: Path | None = None
    port: int = 1


SERVER: MemorySpec = dataclasses.replace(SPEC, name="server", summary="", settings=ServerSettings)


@pytest.fixture(autouse=True)
def server(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store on a host, as another distribution may bring it."""
    monkeypatch.setattr(type(MEMORIES), "names", property(lambda registry: (*registry.own, "server")))
    monkeypatch.setitem(MEMORIES._loaded, "server", SERVER)


@pytest.mark.parametrize(
    "path",
    [
        "m.db",
        "./sqlite",
        "a folder/m.db",
        "/tmp/server:1/m",
        "C:m.db",
        "x:y:z",
        "sqlite.db",
        "./server:url=x",
        "müll.db",
        "a=b",
    ],
)
def test_a_path_means_the_default_store(path: str) -> None:
    named = memory(path)
    assert (named.is_path, named.spec.name, named.settings) == (True, "sqlite", SPEC.settings(path=path))
    assert str(named) == path
    assert memory(Path(path)).settings == named.settings or path.startswith("./")
    assert named.absolute() == os.path.abspath(path)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("server", {}),
        ("server:url=redis://me:secret@host:6379/0", {"url": "redis://me:secret@host:6379/0"}),
        ("server:url=http://h:80/?a=b:prefix=x", {"url": "http://h:80/?a=b", "prefix": "x"}),
        ("server:port=7:prefix=", {"port": 7, "prefix": ""}),
        ("server:folder=/tmp/a b", {"folder": Path("/tmp/a b")}),
        ("server:prefix=a::b", {"prefix": "a::b"}),
    ],
)
def test_a_store_is_named_with_its_settings(name: str, values: dict[str, object]) -> None:
    named = memory(name)
    assert (named.is_path, named.spec, named.settings) == (False, SERVER, ServerSettings(**values))
    again = memory(named.absolute())
    assert again.settings == named.settings


def test_an_absolute_name_means_the_same_file_from_every_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names = ["m.db", "sqlite", "sqlite:path=m.db", "server:folder=f:port=3"]
    absolute = [memory(name).absolute() for name in names]
    monkeypatch.chdir("/")
    paths = [getattr(memory(name).settings, "path", None) or memory(name).settings.folder for name in absolute]
    assert paths == [tmp_path / "m.db", tmp_path / "memory.db", tmp_path / "m.db", tmp_path / "f"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("servr:url=x", "memory 'servr' is unknown; did you mean 'server'?"),
        ("redis:url=x", "memory 'redis' is unknown; use one of sqlite, examples, household, none, server"),
        ("server:ulr=x", "memory 'server': there is no setting 'ulr'; did you mean 'url'?"),
        ("server:url=x:ulr=y", "memory 'server': there is no setting 'ulr'; did you mean 'url'?"),
        ("server:x", "memory 'server': write a setting as NAME=VALUE, not 'x'"),
        ("server:port=many", "memory 'server': port is 'many': input should be a valid integer"),
        ("sqlite:file=m.db", "memory 'sqlite': there is no setting 'file'; use one of index, path"),
    ],
)
def test_what_makes_no_sense_is_told_with_the_way_out(name: str, message: str) -> None:
    with pytest.raises(UserError) as error:
        memory(name)
    assert message.rstrip("?") in str(error.value)


def test_what_a_memory_is_made_of_needs_the_users_word() -> None:
    assert reaching(SPEC.settings, {"path": "m.db"})
    assert list(reaching(ServerSettings, {"url": "redis://evil", "folder": "/", "port": 2})) == ["url", "folder"]


def test_what_is_not_there_is_not_made_by_who_only_reads(tmp_path: Path) -> None:
    named = memory(tmp_path / "m.db")
    with pytest.raises(UserError, match="no such memory; `reactree memory import`"):
        named.check_exists()
    assert list(tmp_path.iterdir()) == []
    assert spec.memory(named.name) == named


def named(path: Path, kind: type[SqliteMemory] = SqliteMemory, **changes: Any) -> NamedMemory:
    """The SQLite store with an embedder that needs nothing installed."""
    spec = dataclasses.replace(
        SPEC,
        make=lambda settings: kind(settings.path, WordHashEmbedder()),
        prepare=lambda settings: None,
        **changes,
    )
    return dataclasses.replace(memory(path), spec=spec)


def test_the_store_in_sqlite_keeps_to_the_port(tmp_path: Path) -> None:
    assert check_memory(named(tmp_path / "memory.db")) == []


class Forgetful(SqliteMemory):
    def add_run(self, experiences: Any) -> None:
        super().add_run(experiences[:1])


class Reversed(SqliteMemory):
    def ranked(self, text: str, *, seed: int = 0) -> Iterator[tuple[float, Experience]]:
        yield from list(super().ranked(text, seed=seed))[::-1]


class Again(SqliteMemory):
    def ranked(self, text: str, *, seed: int = 0) -> Iterator[tuple[float, Experience]]:
        for one in super().ranked(text, seed=seed):
            yield from (one, one)


class Lenient(SqliteMemory):
    def add_run(self, experiences: Any) -> None:
        if experiences:
            super().add_run(experiences)


class Miscounted(SqliteMemory):
    def counts(self) -> Counts:
        return dataclasses.replace(super().counts(), runs=0)


class Halving(SqliteMemory):
    """A run that cannot be written as a whole is there in part."""

    def add_run(self, experiences: Any) -> None:
        if len(experiences) == 2:
            super().add_run(experiences[:1])
        super().add_run(experiences)


class Own(SqliteMemory):
    """Does not find what others add while it is open."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._first: list[Experience] | None = None

    def ranked(self, text: str, *, seed: int = 0) -> Iterator[tuple[float, Experience]]:
        if self._first is None:
            self._first = list(self)
        yield from (one for one in super().ranked(text, seed=seed) if one[1] in self._first)


class Immortal(SqliteMemory):
    def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        (Forgetful, "yields others or another order"),
        (Reversed, "ranked does not yield the most similar first"),
        (Again, "ranked does not yield each one once"),
        (Lenient, "an empty run raises no ValueError"),
        (Miscounted, "counts gives"),
        (Halving, "yields others or another order"),
        (Own, "who has it open does not find what another one added"),
        (Immortal, "add_run of a closed memory raises no EpisodicMemoryError"),
    ],
    ids=lambda one: getattr(one, "__name__", None),
)
def test_what_does_not_keep_to_the_port_is_named(tmp_path: Path, kind: type[SqliteMemory], problem: str) -> None:
    problems = check_memory(named(tmp_path / "memory.db", kind))
    assert any(problem in one for one in problems), problems


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"exists": lambda settings: True}, "exists is true before"),
        ({"exists": lambda settings: False}, "exists is false after"),
        ({"diagnose": lambda settings: iter(())}, "diagnose says nothing"),
        ({"diagnose": lambda settings: iter(["fine"])}, "not a Diagnosis"),
    ],
)
def test_what_a_spec_says_wrongly_is_named(tmp_path: Path, changes: dict[str, Any], problem: str) -> None:
    problems = check_memory(named(tmp_path / "memory.db", **changes))
    assert any(problem in one for one in problems), problems


def test_a_file_keeps_to_the_words_or_embeddings_that_it_was_made_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m.db"
    for missing, index, made_with in (({"torch": ""}, "", "words"), ({}, "", "words"), ({}, "embeddings", "")):
        monkeypatch.setattr("reactree_ros.memory.embedding.lacking", lambda extra, missing=missing: missing)
        named = memory(f"sqlite:path={path}:index={index}" if index else path)
        if not made_with:  # who asks for others is told what to do
            with pytest.raises(UserError, match=r"its embeddings are by 'words'.*export and import"):
                named.open()
            continue
        with named.open() as opened:
            opened.add_run([experience("find the cup")])
            assert opened.search("find a cup", 1)[0][1].subgoal == "find the cup"
    for missing, found in (({"torch": ""}, WordEmbedder), ({}, SentenceTransformerEmbedder)):
        monkeypatch.setattr("reactree_ros.memory.embedding.lacking", lambda extra, missing=missing: missing)
        assert isinstance(memory(tmp_path / "new.db").settings.embedder(), found)
    with SqliteMemory(tmp_path / "sentences.db", SentenceTransformerEmbedder()):
        pass
    assert memory(tmp_path / "sentences.db").settings.chosen == "embeddings"
