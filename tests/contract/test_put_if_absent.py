"""CKPT-16: put_if_absent makes a file once, whoever tries, and whatever becomes of the answers."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from itertools import chain
from typing import Any

import hflush
import pytest
from hflush import atomic
from support.actors import Crew
from support.snippets import QUESTIONS, snippets
from support.stores import FILES, Store

PAGE = QUESTIONS / "log-of-versions.md"
OURS, THEIRS = b"ours" * 1000, b"theirs"


@pytest.fixture(scope="module")
def crew() -> Iterator[Crew]:
    crew = Crew()
    yield crew
    crew.close()


@pytest.mark.rule("CKPT-16")
@pytest.mark.parametrize("data", [b"", OURS, bytes(6 << 20)], ids=len)
def test_the_first_one_makes_it(store: Store, data: bytes) -> None:
    """With its parents; the second one changes nothing, also if it has the same bytes."""
    path = store.path("a", "b", "file")
    assert hflush.put_if_absent(store.url(path), data, conf=store.conf)
    assert not store.fs.put_if_absent(path, memoryview(data))
    assert not store.fs.put_if_absent(path, THEIRS)
    assert store.read(path) == store.content(path) == data
    assert [name for name in store.on_disk(store.path("a", "b")) if name[0] != "."] == ["file"]


@pytest.mark.rule("CKPT-16")
@pytest.mark.stores(*FILES)
def test_what_is_no_file_is_an_error(store: Store) -> None:
    """A directory at the path, a file above it, text."""
    store.write(store.path("file"), b"")
    with pytest.raises(hflush.PathIsDirectoryError):
        store.fs.put_if_absent(store.path(), OURS)
    with pytest.raises(hflush.ParentNotDirectoryError):
        store.fs.put_if_absent(store.path("file", "below"), OURS)
    with pytest.raises(TypeError, match="bytes-like"):
        store.fs.put_if_absent(store.path("text"), "text")


@pytest.mark.rule("CKPT-16")
@pytest.mark.stores(*FILES)
@pytest.mark.parametrize("there", [OURS, THEIRS, None], ids=["ours", "same bytes", "none"])
@pytest.mark.parametrize(
    "failure", [OSError(errno.EIO, "lost"), FileExistsError(errno.EEXIST, "lost")]
)
def test_a_lost_answer_is_looked_into(
    store: Store, monkeypatch: pytest.MonkeyPatch, there: bytes | None, failure: OSError
) -> None:
    """The file that is there says whose it is, and not its bytes; without one it is a failure."""
    path, rename = store.path("file"), store.fs._rename_exact

    def lose(source: str, destination: str, overwrite: bool) -> None:
        if there == OURS:
            rename(source, destination, overwrite)
        elif there is not None:
            store.write(destination, OURS)
        raise failure

    monkeypatch.setattr(store.fs, "_rename_exact", lose)
    if there is None:
        with pytest.raises(OSError, match="lost"):
            store.fs.put_if_absent(path, OURS)
        assert store.on_disk() == []
    else:
        assert store.fs.put_if_absent(path, OURS) is (there == OURS)
        assert store.read(path) == OURS


@pytest.mark.rule("CKPT-16")
@pytest.mark.stores("raw")
def test_a_store_that_cannot_be_asked(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first failure comes out, and says that it is not known."""
    rename = store.fs._rename_exact

    def lose(source: str, destination: str, overwrite: bool) -> None:
        rename(source, destination, overwrite)
        monkeypatch.setattr(store.fs, "_status", refuse)
        raise OSError(errno.EIO, "lost")

    def refuse(path: str) -> None:
        raise OSError(errno.EIO, "no answer", path)

    monkeypatch.setattr(store.fs, "_rename_exact", lose)
    with pytest.raises(OSError, match="lost") as failure:
        store.fs.put_if_absent(store.path("file"), OURS)
    assert "is not known" in "".join(getattr(failure.value, "__notes__", ()))


@pytest.mark.rule("CKPT-16")
@pytest.mark.stores("s3")
def test_a_store_that_does_not_check_is_refused(store: Store) -> None:
    """Two could win there."""
    fs = store.client(**{"fs.s3a.create.conditional.enabled": "false"})
    with pytest.raises(OSError, match="If-None-Match") as refusal:
        fs.put_if_absent(store.path("file"), OURS)
    assert refusal.value.errno == errno.ENOTSUP


RACE = """
log = LogStore(table, conf)
barrier.wait()
result = [log.commit([{"add": me}, {"number": number}]) for number in range(count)]
"""


def code_of_the_page() -> str:
    """The class that the page shows."""
    (page,) = (one for one in snippets() if one.page == PAGE.name)
    return page.code.partition("\nlog = ")[0]


def log_store(code: str, table: str, store: Store) -> Any:
    names: dict[str, type] = {}
    exec(code, names)
    return names["LogStore"](table, store.conf)


@pytest.mark.rule("CKPT-16")
def test_the_log_of_the_page(store: Store, crew: Crew) -> None:
    """Delta's rule: eight writers have a version each, in their order, whole, without a gap."""
    code, table, count = code_of_the_page(), store.url(store.path("table")), 25
    if store.name == "s3":  # MinIO refuses a PUT whose prefix another refused PUT takes away
        store.write(store.path("table", "_delta_log", "first"), b"")
    won = crew.race(store, 8, code + RACE, table=table, conf=dict(store.conf), count=count)
    log = log_store(code, table, store)
    assert sorted(chain(*won)) == log.versions() == list(range(8 * count))
    for me, versions in enumerate(won):
        assert versions == sorted(versions)
        for number, version in enumerate(versions):
            assert log.read(version) == [{"add": me}, {"number": number}]


@pytest.mark.rule("CKPT-16")
@pytest.mark.stores("raw")
def test_the_log_of_the_page_goes_on_where_old_versions_were_cleaned_up(store: Store) -> None:
    """As a table does behind its checkpoint, whose files have names of versions, and more."""
    log = log_store(code_of_the_page(), store.url(store.path("table")), store)
    for version in range(3):
        assert log.commit([{"version": version}]) == version
    begin = f"{2:020d}"
    for name in (
        f"{begin}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json",
        f"{begin}.checkpoint.0000000001.0000000002.parquet",
        f"{0:020d}.{begin}.compacted.json",
        f"{begin}.crc",
        "_last_checkpoint",
    ):
        store.write(store.path("table", "_delta_log", name), b"{}")
    for version in range(2):
        store.fs.delete(log.path(version))
    assert log.versions() == [2]
    assert log.commit([{"version": 3}]) == 3


@pytest.mark.rule("CKPT-16")
@pytest.mark.stores("raw")
def test_a_loser_is_none_by_the_number_of_its_own_file(
    store: Store, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which may be another's as soon as its own is removed."""
    store.write(path, THEIRS)
    own: list[int] = []

    def begun(publication: atomic.Publication) -> None:
        own.append(publication.own)
        raise FileExistsError(errno.EEXIST, "rename", publication.path)

    monkeypatch.setattr(atomic.Publication, "publish", begun)
    monkeypatch.setattr(atomic, "identity", lambda status: own[0])
    monkeypatch.setattr(atomic, "_check_target", lambda *_: None)
    assert not store.fs.put_if_absent(path, OURS)
