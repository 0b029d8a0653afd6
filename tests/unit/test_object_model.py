"""Random calls by several streams, against a plain model of an object store: test_model's sister.

There a file grows under its name. Here a name has what was last closed under it, whole, whatever
other writers do.
"""

from __future__ import annotations

import itertools

import hflush
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    invariant,
    multiple,
    precondition,
    rule,
    run_state_machine_as_test,
)
from support.data import dataset
from support.stores import S3Store

PROFILE = settings(
    max_examples=25,
    stateful_step_count=40,
    deadline=None,
    derandomize=True,
    database=None,
    print_blob=False,
    suppress_health_check=list(HealthCheck),
)
PART = 5 << 20
NAMES = ["a", "b", "c", "d/e"]
SIZES = [0, 1, 511, 65_536, 200_000, PART - 1, PART, PART + 1]


class Handle:
    """A stream, what was written to it, and what closing it may do."""

    def __init__(self, stream: hflush.FSDataOutputStream, name: str, overwrite: bool) -> None:
        self.stream = stream
        self.name = name
        self.overwrite = overwrite
        self.data = bytearray()
        self.open = True


class LeftByError(Exception):
    """Raised in a `with` block."""


class Machine(RuleBasedStateMachine):
    """One directory, two file system objects, any number of streams, and the model of all that."""

    handles = Bundle("handles")
    names = st.sampled_from(NAMES)
    clients = st.integers(0, 1)

    store: S3Store
    numbers = itertools.count()

    def __init__(self) -> None:
        super().__init__()
        self.root = self.store.path(f"run{next(self.numbers)}")
        self.fs = [self.store.client(fs_s3a_multipart_size="5M") for _ in range(2)]
        self.fs[0].mkdirs(f"{self.root}/d")
        self.objects: dict[str, bytes] = {}
        self.opened: list[Handle] = []

    def path(self, name: str) -> str:
        return f"{self.root}/{name}"

    # --- streams ---

    @rule(target=handles, client=clients, name=names, overwrite=st.booleans())
    def create(self, client: int, name: str, overwrite: bool) -> object:
        if name in self.objects and not overwrite:
            with pytest.raises(FileExistsError):
                self.fs[client].create(self.path(name), overwrite=False)
            return multiple()
        stream = self.fs[client].create(self.path(name), overwrite=overwrite)
        handle = Handle(stream, name, overwrite)
        self.opened.append(handle)
        return handle

    @rule(handle=handles, size=st.sampled_from(SIZES), first=st.integers(0, 200))
    def write(self, handle: Handle, size: int, first: int) -> None:
        data = dataset(size, first=first)
        if not handle.open:
            with pytest.raises(hflush.StreamClosedError):
                handle.stream.write(data)
            return
        assert handle.stream.write(data) == size
        handle.data += data

    @rule(handle=handles)
    def flush(self, handle: Handle) -> None:
        handle.stream.flush()

    @rule(handle=handles)
    def close(self, handle: Handle) -> None:
        if not handle.open:
            assert handle.stream.close() is None
            return
        handle.open = False
        if handle.name in self.objects and not handle.overwrite:
            with pytest.raises(FileExistsError):
                handle.stream.close()
            return
        assert handle.stream.close() is None
        self.objects[handle.name] = bytes(handle.data)

    @rule(handle=handles)
    def abort(self, handle: Handle) -> None:
        result = handle.stream.abort()
        assert (result.already_closed, result.cleanup_exception) == (not handle.open, None)
        handle.open = False

    @rule(handle=handles)
    @precondition(lambda self: any(handle.open for handle in self.opened))
    def leave_by_error(self, handle: Handle) -> None:
        expected = LeftByError if handle.open else hflush.StreamClosedError
        with pytest.raises(expected), handle.stream:
            raise LeftByError
        handle.open = False

    # --- names ---

    @rule(client=clients, source=names, destination=names)
    def rename(self, client: int, source: str, destination: str) -> None:
        paths = self.path(source), self.path(destination)
        if source not in self.objects:
            with pytest.raises(FileNotFoundError):
                self.fs[client].rename(*paths)
        elif source != destination and destination in self.objects:
            with pytest.raises(FileExistsError):
                self.fs[client].rename(*paths)
        else:
            assert self.fs[client].rename(*paths) is True
            self.objects[destination] = self.objects.pop(source)

    @rule(client=clients, source=names, destination=names, overwrite=st.booleans())
    def rename_exactly(self, client: int, source: str, destination: str, overwrite: bool) -> None:
        how = hflush.Rename.OVERWRITE if overwrite else hflush.Rename.NONE
        paths = self.path(source), self.path(destination)
        if source not in self.objects:
            with pytest.raises(FileNotFoundError):
                self.fs[client].rename(*paths, how)
        elif source == destination or (destination in self.objects and not overwrite):
            with pytest.raises(FileExistsError):
                self.fs[client].rename(*paths, how)
        else:
            assert self.fs[client].rename(*paths, how) is None
            self.objects[destination] = self.objects.pop(source)

    @rule(client=clients, name=names)
    def delete(self, client: int, name: str) -> None:
        assert self.fs[client].delete(self.path(name)) is (name in self.objects)
        self.objects.pop(name, None)

    # --- what always holds ---

    @rule(client=clients, name=names)
    def read(self, client: int, name: str) -> None:
        if name not in self.objects:
            with pytest.raises(FileNotFoundError):
                self.fs[client].open(self.path(name))
            return
        with self.fs[client].open(self.path(name)) as reader:
            assert reader.read() == self.objects[name]

    @invariant()
    def streams_know_their_position(self) -> None:
        for handle in self.opened:
            assert handle.stream.closed is not handle.open
            assert handle.stream.tell() == len(handle.data)

    @invariant()
    def names_are_listed(self) -> None:
        found = {
            status.path: status.length
            for status in self.fs[0].list_files(self.root, recursive=True)
        }
        assert found == {
            self.store.public(self.path(name)): len(data) for name, data in self.objects.items()
        }

    def teardown(self) -> None:
        for handle in self.opened:
            handle.stream.abort()
        for name, data in self.objects.items():
            assert self.store.content(self.path(name)) == data
        assert self.store.uploads() == []


@pytest.mark.rule(
    "WRITE-15",
    "WRITE-19",
    "CLOSE-1",
    "CLOSE-4",
    "CLOSE-5",
    "CONC-8",
    "CONC-13",
    "CONSIST-9",
    "ABORT-2",
    "ATOM-7",
)
@pytest.mark.rule("OBJ-1", "OBJ-3", divergence="s3")
@pytest.mark.stores("s3")
def test_object_model(store: S3Store) -> None:
    """After any sequence of calls, objects, names, lengths and positions are those of the model."""

    class MachineOfStore(Machine):
        pass

    MachineOfStore.store = store
    run_state_machine_as_test(MachineOfStore, settings=PROFILE)
