"""ATOM: what happens in one step, seen by races and observers in other processes."""

from __future__ import annotations

import contextlib
import inspect
import re
from collections.abc import Callable, Iterator

import hflush
import pytest
from hflush import Rename
from support.actors import Barrier, Crew
from support.data import dataset
from support.documentation import docstring, table
from support.listing import names, orphans
from support.stores import FILES, Store

CONTENT = dataset(30_000)
FEWER = {"hdfs": 4, "s3": 10}  # where one of them costs so many times as much


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


@pytest.mark.rule("ATOM-1")
@pytest.mark.rule("CREATE-2", on=FILES)
def test_one_creator_wins(store: Store, crew: Crew):
    """Sixteen processes and 200 names: exactly one creates each, the others FileExistsError."""
    count = 200 // FEWER.get(store.name, 1)
    wins = crew.race(store, 16, CREATE, root=store.root, count=count)
    winner = {number: me for me, numbers in enumerate(wins) for number in numbers}
    assert sum(map(len, wins)) == len(winner) == count
    for number, me in winner.items():
        assert store.read(store.path(f"{number}")) == b"%d" % me * 1000
    assert len(names(store.fs, store.root)) == count
    assert orphans(store.root) == []


MKDIRS = """
answers = []
for number in range(count):
    barrier.wait()
    answers.append(fs.mkdirs(f'{root}/{number}', **options))
result = answers
"""


@pytest.mark.rule("ATOM-5", "MKDIR-6", on=FILES)
@pytest.mark.parametrize("depth", ["", "/deeper/down"], ids=["single", "chain"])
def test_all_makers_of_a_directory_succeed(store: Store, crew: Crew, depth: str):
    """Eight processes make the same directory: all True, one directory, fifty times."""
    snippet = MKDIRS.replace("{number}", "{number}" + depth)
    options = {} if depth else {"create_parent": False}
    count = 50 // FEWER.get(store.name, 1)
    answers = crew.race(store, 8, snippet, root=store.root, count=count, options=options)
    assert answers == [[True] * count] * 8
    assert names(store.fs, store.root) == sorted(str(number) for number in range(count))
    assert all(status.is_directory for status in store.fs.list_status(store.root))


RENAME = """
def source(number):
    return f'{root}/source-{me}-{number}'

for number in range(count):
    with fs.create(source(number)) as out:
        out.write(b'%d' % me * 1000)
won = []
barrier.wait()
for number in range(count):
    try:
        fs.rename(source(number), f'{root}/target-{number}', hflush.Rename.NONE)
        won.append(number)
    except FileExistsError:
        assert read(source(number)) == b'%d' % me * 1000
result = won
"""


@pytest.mark.rule("RENAME-17")
@pytest.mark.rule("RENAME-28", on=("raw", "hdfs"))
@pytest.mark.stores(*FILES)
def test_one_renamer_wins(store: Store, crew: Crew):
    """Renames with NONE to one name: exactly one succeeds; the losers' sources are intact."""
    count = 300 // FEWER.get(store.name, 1)
    wins = crew.race(store, 4, RENAME, root=store.root, count=count)
    winner = {number: me for me, numbers in enumerate(wins) for number in numbers}
    assert sum(map(len, wins)) == len(winner) == count
    for number, me in winner.items():
        assert store.read(store.path(f"target-{number}")) == b"%d" % me * 1000
    assert len(names(store.fs, store.root)) == 4 * count
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
@pytest.mark.stores(*FILES)
def test_a_rename_and_a_create_do_not_both_win(store: Store, crew: Crew):
    """A directory renamed to the name that another process creates: one of them is refused."""
    renamed, created = crew.race(store, 2, CREATE_AND_RENAME, root=store.root, count=100)
    assert sorted(renamed + created) == list(range(100))
    for number in range(100):
        assert store.fs.is_directory(store.path(f"target-{number}")) == (number in renamed)


OBSERVE = """
anomalies = []
for number in range(count):
    barrier.wait()
    done = look(number)
    barrier.wait()
    while not done:
        done = look(number)
result = anomalies
"""


def observe(
    store: Store, crew: Crew, look: str, act: Callable[[int], object], count: int = 100
) -> None:
    """Run `act(number)` while another process looks, and looks on until it sees it done."""
    values = {"root": store.root, "content": CONTENT, "count": count, "crc": store.name == "crc"}
    crew.begin(store, 1, 2, look + OBSERVE, **values)
    barrier = Barrier(crew.line(store), 2, 1)
    with contextlib.suppress(TimeoutError):  # the observer says why it is missing
        for number in range(count):
            barrier.wait()
            barrier.wait()  # by now it is looking
            act(number)
    assert crew.finish() == [[]]


LOOK_AT_DELETED_FILE = """
def look(number):
    try:
        seen = read(f'{root}/file-{number}')
    except FileNotFoundError:
        return True
    if seen != content:
        anomalies.append((number, len(seen)))
"""


@pytest.mark.rule("DELETE-7")
@pytest.mark.rule("ATOM-2", on=("raw", "hdfs", "s3"))
def test_deleting_a_file(store: Store, crew: Crew):
    """A reader gets the whole file or FileNotFoundError."""
    count = 300 // FEWER.get(store.name, 1)
    paths = [store.write(store.path(f"file-{number}"), CONTENT) for number in range(count)]
    observe(store, crew, LOOK_AT_DELETED_FILE, lambda number: store.fs.delete(paths[number]), count)
    assert names(store.fs, store.root) == []


LOOK_AT_DELETED_DIRECTORY = """
def look(number):
    try:
        if fs.list_status(f'{root}/dir-{number}') != []:
            anomalies.append((number, 'not empty'))
    except FileNotFoundError:
        return True
"""


@pytest.mark.rule("DELETE-7")
def test_deleting_an_empty_directory(store: Store, crew: Crew):
    """An observer lists an empty directory or gets FileNotFoundError."""
    count = 100 // FEWER.get(store.name, 1)
    paths = [store.path(f"dir-{number}") for number in range(count)]
    for path in paths:
        store.fs.mkdirs(path)
    look = LOOK_AT_DELETED_DIRECTORY
    observe(store, crew, look, lambda number: store.fs.delete(paths[number]), count)
    assert names(store.fs, store.root) == []


# One look is one call, which counts all that is there; then one file after the other, of which all
# are missing when the first is.
LOOK_AT_DELETED_TREE = """
def look(number):
    tree = f'{root}/tree-{number}'
    try:
        seen = fs.get_content_summary(tree).file_count
        if seen != files:
            anomalies.append((number, seen))
    except FileNotFoundError:
        return True
    there = [fs.exists(f'{tree}/{n % 3}/{n}') for n in range(files)]
    if not there[0] and any(there):
        anomalies.append((number, there))
"""


@pytest.mark.rule("DELETE-8", "ATOM-6")
@pytest.mark.stores("hdfs")
def test_deleting_a_tree(store: Store, crew: Crew):
    """An observer finds all of it or nothing."""
    assert store.options["supports-atomic-directory-delete"] is True
    count, files = 40, 9
    paths = [store.path(f"tree-{number}") for number in range(count)]
    for path in paths:
        for number in range(files):
            store.write(f"{path}/{number % 3}/{number}")
    look = f"files = {files}\n" + LOOK_AT_DELETED_TREE
    observe(store, crew, look, lambda number: store.fs.delete(paths[number], True), count)
    assert names(store.fs, store.root) == []


# One way only, from old to new: so "missing at old" must mean "there at new", and "there at new"
# must mean "missing at old", for an observer that looks in that order.
LOOK_AT_RENAMED_FILE = """
def content_at(path):
    try:
        with open(path, 'rb') if crc else fs.open(path) as reader:
            return reader.read()
    except FileNotFoundError:
        return None

def look(number):
    old, new = f'{root}/old-{number}', f'{root}/new-{number}'
    there = content_at(old)
    if there is None:
        there = content_at(new)
    if there != content:
        anomalies.append((number, 'at neither name' if there is None else len(there)))
    if fs.exists(new):
        if fs.exists(old):
            anomalies.append((number, 'at both names'))
        return True
"""

LOOK_AT_RENAMED_DIRECTORY = """
def look(number):
    old, new = f'{root}/old-{number}', f'{root}/new-{number}'
    if fs.exists(f'{new}/a') and fs.exists(f'{old}/b'):
        anomalies.append((number, 'half of it is there'))
    if fs.exists(f'{old}/a'):
        return False
    if fs.exists(f'{old}/b'):
        anomalies.append((number, 'half of it is gone'))
    if not (fs.exists(f'{new}/a') and fs.exists(f'{new}/b')):
        anomalies.append((number, 'at neither name'))
    elif (read(f'{new}/a'), read(f'{new}/b')) != (content, content):
        anomalies.append((number, 'partial'))
    return True
"""


@pytest.fixture(params=[None, Rename.NONE, Rename.OVERWRITE], ids=str)
def rename(store: Store, request: pytest.FixtureRequest) -> Callable[[int], object]:
    """Rename old-N to new-N, in every form."""
    mode = () if request.param is None else (request.param,)

    def rename(number: int) -> object:
        old, new = store.path(f"old-{number}"), store.path(f"new-{number}")
        return store.fs.rename(old, new, *mode)

    return rename


@pytest.mark.rule("ATOM-3", "RENAME-14", on=("raw", "hdfs"))
@pytest.mark.stores(*FILES)
def test_renaming_a_file(store: Store, crew: Crew, rename: Callable[[int], object]):
    """An observer sees the file at exactly one name, complete; of crc that is the data file."""
    for number in range(100):
        store.write(store.path(f"old-{number}"), CONTENT)
    observe(store, crew, LOOK_AT_RENAMED_FILE, rename)
    assert all(store.read(store.path(f"new-{number}")) == CONTENT for number in range(100))
    assert orphans(store.root) == []


@pytest.mark.rule("ATOM-4")
@pytest.mark.rule("RENAME-14", on=("raw", "hdfs"))
@pytest.mark.stores(*FILES)
def test_renaming_a_directory(store: Store, crew: Crew, rename: Callable[[int], object]):
    """All children change places at once."""
    for number in range(100):
        for child in "ab":
            store.write(store.path(f"old-{number}", child), CONTENT)
    observe(store, crew, LOOK_AT_RENAMED_DIRECTORY, rename)
    assert orphans(store.root) == []


WATCH_OVERWRITE = """
anomalies = []
barrier.wait()
rounds = 0
while not fs.exists(f'{root}/end') or rounds < 10:
    rounds += 1
    for whole in (lambda: open(path, 'rb'), lambda: fs.open(path))[0 if local else 1:]:
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


@pytest.mark.rule("RENAME-18", "ATOM-3", "RENAME-28", on=("raw", "hdfs"))
@pytest.mark.stores(*FILES)
def test_overwriting_by_rename(store: Store, crew: Crew):
    """Many overwrites: the destination is never missing, partial or mixed.

    In crc, as declared, data and sidecar move one after the other: a reader that verifies may get
    a ChecksumError in between, and never wrong bytes.
    """
    path = store.write(store.path("file"), b"\0" * 10_000)
    crew.begin(
        store,
        1,
        2,
        WATCH_OVERWRITE,
        root=store.root,
        path=path,
        local=store.local,
        pairs_may_differ=store.options["supports-atomic-rename"] is not True,
    )
    Barrier(crew.line(store), 2, 1).wait()
    rounds = 1000 if store.local else 250
    for number in range(rounds):
        source = store.write(store.path("source"), bytes([number % 256]) * 10_000)
        store.fs.rename(source, path, Rename.OVERWRITE)
    store.write(store.path("end"))
    assert crew.finish() == [[]]
    assert store.read(path) == bytes([(rounds - 1) % 256]) * 10_000


@pytest.mark.rule("ATOM-8")
@pytest.mark.stores("raw", "crc", "hdfs", "s3")
def test_the_documentation_says_what_is_atomic():
    """Each operation that promises anything says so, the others are said to promise nothing."""
    text = docstring(hflush.FileSystem)
    assert "Nothing is atomic unless its method says so." in text
    methods = inspect.getmembers(hflush.FileSystem, inspect.isfunction)
    promising = {
        name
        for name, method in methods
        if not name.startswith("_") and re.search(r"\batomic|one step", docstring(method).lower())
    }
    assert promising == {"copy", "create", "delete", "rename"}
    steps = table("semantics.md", "## Files and directories")
    assert steps.pop("anything else")["Atomic there"].startswith("not promised")
    named = {re.sub(r"\W.*", "", operation.strip("`")) for operation in steps}
    assert named >= {*promising, "mkdirs", "concat"}
    for of_stores in steps.values():
        assert all(of_stores.values())
