"""ATOM: what happens in one step, seen by races and observers in other processes."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import hflush
import pytest
from hflush import Rename
from support.actors import Barrier, Crew
from support.data import dataset
from support.listing import names, orphans
from support.stores import Store

CONTENT = dataset(20_000)


@pytest.fixture(scope="module")
def crew() -> Iterator[Crew]:
    """Processes kept for all tests here."""
    crew = Crew()
    yield crew
    crew.close()


CREATE = """
won = []
barrier.wait()
for number in range(count):
    try:
        with fs.create(f'{root}/{number}', overwrite=False) as out:
            out.write(b'%d' % me * 1000)
        won.append(number)
    except FileExistsError:
        pass
result = won
"""


@pytest.mark.rule("ATOM-1", "CREATE-2")
def test_one_creator_wins(store: Store, crew: Crew):
    """Sixteen processes and 200 names: exactly one creates each, the others FileExistsError."""
    wins = crew.race(store, 16, CREATE, root=store.root, count=200)
    winner = {number: me for me, numbers in enumerate(wins) for number in numbers}
    assert sum(map(len, wins)) == len(winner) == 200
    for number, me in winner.items():
        assert store.read(store.path(f"{number}")) == b"%d" % me * 1000
    assert len(names(store.fs, store.root)) == 200
    assert orphans(store.root) == []


MKDIRS = """
answers = []
for number in range(count):
    barrier.wait()
    answers.append(fs.mkdirs(f'{root}/{number}', **options))
result = answers
"""


@pytest.mark.rule("ATOM-5", "MKDIR-6")
@pytest.mark.parametrize("depth", ["", "/deeper/down"], ids=["single", "chain"])
def test_all_makers_of_a_directory_succeed(store: Store, crew: Crew, depth: str):
    """Eight processes make the same directory: all True, one directory, fifty times."""
    snippet = MKDIRS.replace("{number}", "{number}" + depth)
    options = {} if depth else {"create_parent": False}
    answers = crew.race(store, 8, snippet, root=store.root, count=50, options=options)
    assert answers == [[True] * 50] * 8
    assert names(store.fs, store.root) == sorted(str(number) for number in range(50))
    assert all(status.is_directory for status in store.fs.list_status(store.root))


RENAME = """
won = []
for number in range(count):
    source = f'{root}/source-{me}-{number}'
    with fs.create(source) as out:
        out.write(b'%d' % me * 1000)
    barrier.wait()
    try:
        fs.rename(source, f'{root}/target-{number}', hflush.Rename.NONE)
        won.append(number)
    except FileExistsError:
        with fs.open(source) as reader:
            assert reader.read() == b'%d' % me * 1000
result = won
"""


@pytest.mark.rule("RENAME-17", "RENAME-28")
def test_one_renamer_wins(store: Store, crew: Crew):
    """Renames with NONE to one name: exactly one succeeds; the loser's source is intact."""
    first, second = crew.race(store, 2, RENAME, root=store.root, count=150)
    assert sorted(first + second) == list(range(150))
    for me, won in enumerate((first, second)):
        for number in won:
            assert store.read(store.path(f"target-{number}")) == b"%d" % me * 1000
    assert len(names(store.fs, store.root)) == 300
    assert orphans(store.root) == []


CREATE_AND_RENAME = """
won = []
for number in range(count):
    target = f'{root}/target-{number}'
    if me == 0:
        fs.mkdirs(f'{root}/source-{number}')
    barrier.wait()
    try:
        if me == 0:
            fs.rename(f'{root}/source-{number}', target, hflush.Rename.NONE)
        else:
            fs.create(target, overwrite=False).close()
        won.append(number)
    except FileExistsError:
        pass
result = won
"""


@pytest.mark.rule("RENAME-17", "ATOM-1")
def test_a_rename_and_a_create_do_not_both_win(store: Store, crew: Crew):
    """A directory renamed to the name that another process creates: one of them is refused."""
    renamed, created = crew.race(store, 2, CREATE_AND_RENAME, root=store.root, count=100)
    assert sorted(renamed + created) == list(range(100))
    for number in range(100):
        assert store.fs.is_directory(store.path(f"target-{number}")) == (number in renamed)


def observe(store: Store, crew: Crew, snippet: str, act, **values) -> None:
    """Run `act(number)` behind the barrier while another process runs `snippet` beside it."""
    peers = crew.begin(store, 1, 2, snippet, root=store.root, content=CONTENT, **values)
    barrier = Barrier(crew.line(store), 2, 1)
    for number in range(values["count"]):
        barrier.wait()
        act(number)
    (anomalies,) = crew.finish(peers)
    assert anomalies == []


WATCH_DELETE = """
anomalies = []
for number in range(count):
    path = f'{root}/file-{number}'
    barrier.wait()
    while True:
        try:
            seen = read(path)
        except FileNotFoundError:
            break
        if seen != content:
            anomalies.append((number, len(seen)))
            break
    if fs.exists(path):
        anomalies.append((number, 'came back'))
result = anomalies
"""


@pytest.mark.rule("ATOM-2", "DELETE-7")
def test_deleting_a_file(store: Store, crew: Crew):
    """A reader gets the whole file or FileNotFoundError, and the name never comes back."""
    for number in range(150):
        store.write(store.path(f"file-{number}"), CONTENT)
    observe(
        store,
        crew,
        WATCH_DELETE,
        lambda number: store.fs.delete(store.path(f"file-{number}")),
        count=150,
    )
    assert names(store.fs, store.root) == []


WATCH_DELETED_DIRECTORY = """
anomalies = []
for number in range(count):
    path = f'{root}/dir-{number}'
    barrier.wait()
    while True:
        try:
            if fs.list_status(path) != []:
                anomalies.append((number, 'not empty'))
        except FileNotFoundError:
            break
result = anomalies
"""


@pytest.mark.rule("DELETE-7")
def test_deleting_an_empty_directory(store: Store, crew: Crew):
    """An observer lists an empty directory or gets FileNotFoundError."""
    for number in range(100):
        store.fs.mkdirs(store.path(f"dir-{number}"))
    observe(
        store,
        crew,
        WATCH_DELETED_DIRECTORY,
        lambda number: store.fs.delete(store.path(f"dir-{number}")),
        count=100,
    )


# One way only, from old to new: so "missing at old" must mean "there at new", and "there at new"
# must mean "missing at old", whenever an observer looks in that order.
WATCH_RENAME = """
def content_at(path):
    try:
        with open(path, 'rb') if raw else fs.open(path) as reader:
            return reader.read()
    except FileNotFoundError:
        return None

anomalies = []
for number in range(count):
    old, new = f'{root}/old-{number}', f'{root}/new-{number}'
    barrier.wait()
    while True:
        there = content_at(old)
        if there is None:
            there = content_at(new)
            if there is None:
                anomalies.append((number, 'at neither name'))
        if there is not None and there != content:
            anomalies.append((number, 'partial', len(there)))
        if fs.exists(new):
            if fs.exists(old):
                anomalies.append((number, 'at both names'))
            break
result = anomalies
"""


@pytest.mark.rule("ATOM-3", "RENAME-14")
@pytest.mark.parametrize("mode", [None, Rename.NONE, Rename.OVERWRITE], ids=str)
def test_renaming_a_file(store: Store, crew: Crew, mode: Rename | None):
    """An observer sees the file at exactly one name, complete; of crc that is the data file."""
    count = 100
    for number in range(count):
        store.write(store.path(f"old-{number}"), CONTENT)

    def rename(number: int) -> None:
        arguments = () if mode is None else (mode,)
        store.fs.rename(store.path(f"old-{number}"), store.path(f"new-{number}"), *arguments)

    observe(store, crew, WATCH_RENAME, rename, count=count, raw=store.name == "crc")
    assert all(store.read(store.path(f"new-{number}")) == CONTENT for number in range(count))


WATCH_RENAMED_DIRECTORY = """
anomalies = []
for number in range(count):
    old, new = f'{root}/old-{number}', f'{root}/new-{number}'
    barrier.wait()
    while True:
        gone = not fs.exists(f'{old}/a')
        if gone and fs.exists(f'{old}/b'):
            anomalies.append((number, 'half moved'))
        if gone:
            if not (fs.exists(f'{new}/a') and fs.exists(f'{new}/b')):
                anomalies.append((number, 'not there'))
            elif (read(f'{new}/a'), read(f'{new}/b')) != (content, content):
                anomalies.append((number, 'partial'))
            break
result = anomalies
"""


@pytest.mark.rule("ATOM-4", "RENAME-14")
@pytest.mark.parametrize("mode", [None, Rename.NONE], ids=str)
def test_renaming_a_directory(store: Store, crew: Crew, mode: Rename | None):
    """All children change places at once."""
    for number in range(100):
        for child in "ab":
            store.write(store.path(f"old-{number}", child), CONTENT)

    def rename(number: int) -> None:
        arguments = () if mode is None else (mode,)
        store.fs.rename(store.path(f"old-{number}"), store.path(f"new-{number}"), *arguments)

    observe(store, crew, WATCH_RENAMED_DIRECTORY, rename, count=100)
    assert orphans(store.root) == []


WATCH_OVERWRITE = """
anomalies = []
barrier.wait()
rounds = 0
while not fs.exists(f'{root}/end') or rounds < 10:
    rounds += 1
    for whole in (lambda: open(path, 'rb'), lambda: fs.open(path)):
        try:
            with whole() as reader:
                seen = reader.read()
        except hflush.ChecksumError as error:
            if not pairs_may_differ:
                anomalies.append(repr(error))
            continue
        except OSError as error:
            anomalies.append(repr(error))
            continue
        if len(seen) != 10_000 or len(set(seen)) != 1:
            anomalies.append('mixed or partial')
result = anomalies[:10]
"""


@pytest.mark.rule("RENAME-18", "ATOM-3", "RENAME-28")
def test_overwriting_by_rename(store: Store, crew: Crew):
    """A thousand overwrites: the destination is never missing, partial or mixed.

    In crc, as declared, data and sidecar move one after the other: a reader that verifies may get
    a ChecksumError in between, and never wrong bytes.
    """
    path = store.write(store.path("file"), b"\0" * 10_000)
    peers = crew.begin(
        store,
        1,
        2,
        WATCH_OVERWRITE,
        root=store.root,
        path=path,
        pairs_may_differ=store.options["supports-atomic-rename"] is not True,
    )
    Barrier(crew.line(store), 2, 1).wait()
    for number in range(1000):
        source = store.write(store.path("source"), bytes([number % 256]) * 10_000)
        store.fs.rename(source, path, Rename.OVERWRITE)
    store.write(store.path("end"))
    assert crew.finish(peers) == [[]]
    assert store.read(path) == bytes([999 % 256]) * 10_000


@pytest.mark.rule("ATOM-8")
def test_the_documentation_says_what_is_atomic(store: Store):
    """The docstrings of the operations that promise atomicity say so."""
    for operation in (hflush.FileSystem.rename, hflush.FileSystem.create, hflush.FileSystem.delete):
        documentation = (inspect.getdoc(operation) or "").lower()
        assert "atomic" in documentation or "one step" in documentation
