"""Random calls by several handles, against a plain model of what a file system holds."""

from __future__ import annotations

import io
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
from support.stores import FILES, Store

PROFILE = settings(
    max_examples=150,
    stateful_step_count=40,
    deadline=None,
    derandomize=True,
    database=None,
    print_blob=False,
    suppress_health_check=list(HealthCheck),
)
NAMES = ["a", "b", "c", "d/e"]
EDGES = [0, 1, 9, 511, 512, 513, 4607, 4608, 65_535, 65_536, 65_537, 200_000, (1 << 20) + 1]


class Content:
    """The bytes of one file, whatever its name: complete when no handle writes it any more."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.visible = 0  # bytes that a new reader must see
        self.writer: Handle | None = None


class Handle:
    """A stream and what it writes."""

    def __init__(self, stream: hflush.FSDataOutputStream, content: Content) -> None:
        self.stream = stream
        self.content = content
        self.open = True
        content.writer = self


class Machine(RuleBasedStateMachine):
    """One directory, two file system objects, any number of streams, and the model of all that."""

    handles = Bundle("handles")
    names = st.sampled_from(NAMES)
    clients = st.integers(0, 1)

    store: Store
    numbers = itertools.count()

    def __init__(self) -> None:
        super().__init__()
        self.root = self.store.path(f"run{next(self.numbers)}")
        self.clients_of_test = [self.store.new_client(), self.store.new_client()]
        self.clients_of_test[0].mkdirs(self.root)
        self.files: dict[str, Content] = {}
        self.opened: list[Handle] = []
        options = self.store.options
        self.appends = options["supports-append"]
        self.syncs = options["supports-hsync"]
        self.flush_shows = options["flush-makes-visible"] is True
        self.moves_open_files = self.store.name == "raw"
        self.rename_refuses = options["rename-returns-false-if-dest-exists"]

    def path(self, name: str) -> str:
        return f"{self.root}/{name}"

    def being_written(self, name: str) -> bool:
        return name in self.files and self.files[name].writer is not None

    def movable(self, name: str) -> bool:
        """On raw alone a file goes on whatever is done to it under its writer."""
        return self.moves_open_files or not self.being_written(name)

    def check_content(self, name: str) -> None:
        """A new reader sees what the model says it must, and nothing else."""
        content = self.files[name]
        if content.writer is None:
            assert self.store.read(self.path(name)) == content.data
        elif self.syncs:
            seen = self.store.read(self.path(name))
            assert content.visible <= len(seen)
            assert content.data.startswith(seen)

    # --- streams ---

    @rule(target=handles, client=clients, name=names, overwrite=st.booleans())
    def create(self, client: int, name: str, overwrite: bool) -> object:
        fs, path = self.clients_of_test[client], self.path(name)
        if self.being_written(name):  # two writers of one file: the outcome is unspecified (CONC-7)
            return multiple()
        if name in self.files and not overwrite:
            with pytest.raises(FileExistsError):
                fs.create(path, overwrite=False)
            return multiple()
        return self._opened(Handle(fs.create(path, overwrite=overwrite), self._fresh(name)))

    @rule(target=handles, client=clients, name=names)
    def append(self, client: int, name: str) -> object:
        fs, path = self.clients_of_test[client], self.path(name)
        if not self.appends:
            with pytest.raises(io.UnsupportedOperation):
                fs.append(path)
            return multiple()
        if name not in self.files:
            with pytest.raises(FileNotFoundError):
                fs.append(path)
            return multiple()
        if self.being_written(name):
            return multiple()
        return self._opened(Handle(fs.append(path), self.files[name]))

    @rule(handle=handles, size=st.sampled_from(EDGES), first=st.integers(0, 200))
    def write(self, handle: Handle, size: int, first: int) -> None:
        data = dataset(size, first=first)
        if not handle.open:
            with pytest.raises(hflush.StreamClosedError):
                handle.stream.write(data)
            return
        assert handle.stream.write(data) == size
        handle.content.data += data

    @rule(handle=handles, size=st.sampled_from(EDGES), off=st.integers(0, 20))
    def write_slice(self, handle: Handle, size: int, off: int) -> None:
        data = bytearray(dataset(size + 20))
        if not handle.open:
            with pytest.raises(hflush.StreamClosedError):
                handle.stream.write(data, off, size)
            return
        assert handle.stream.write(data, off, size) == size
        handle.content.data += data[off : off + size]

    @rule(handle=handles, value=st.integers(-300, 300))
    def write_byte(self, handle: Handle, value: int) -> None:
        if not handle.open:
            with pytest.raises(hflush.StreamClosedError):
                handle.stream.write_byte(value)
            return
        handle.stream.write_byte(value)
        handle.content.data.append(value & 0xFF)

    @rule(handle=handles)
    def flush(self, handle: Handle) -> None:
        handle.stream.flush()
        if handle.open and self.flush_shows:
            handle.content.visible = len(handle.content.data)

    @rule(handle=handles, sync=st.sampled_from(["hflush", "hsync"]))
    def sync(self, handle: Handle, sync: str) -> None:
        call = getattr(handle.stream, sync)
        if not self.syncs:
            with pytest.raises((io.UnsupportedOperation, hflush.StreamClosedError)):
                call()
        elif not handle.open:
            with pytest.raises(hflush.StreamClosedError):
                call()
        else:
            call()
            handle.content.visible = len(handle.content.data)

    @rule(handle=handles)
    def close(self, handle: Handle) -> None:
        assert handle.stream.close() is None
        if handle.open:
            handle.open = False
            handle.content.writer = None

    @rule(handle=handles)
    def abort(self, handle: Handle) -> None:
        """No such store takes output back: abort refuses, and does nothing on a closed stream."""
        if not handle.open:
            assert handle.stream.abort().already_closed is True
            return
        with pytest.raises(io.UnsupportedOperation):
            handle.stream.abort()

    # --- names ---

    @rule(client=clients, source=names, destination=names)
    def rename(self, client: int, source: str, destination: str) -> None:
        fs = self.clients_of_test[client]
        if not (self.movable(source) and self.movable(destination)):
            return
        if self.rename_refuses and not self.may_be_renamed(source, destination):
            assert fs.rename(self.path(source), self.path(destination)) is False
            return
        if source not in self.files:
            with pytest.raises(FileNotFoundError):
                fs.rename(self.path(source), self.path(destination))
            return
        assert fs.rename(self.path(source), self.path(destination)) is True
        self.files[destination] = self.files.pop(source)

    def may_be_renamed(self, source: str, destination: str) -> bool:
        """Where rename neither replaces files nor makes directories."""
        if source not in self.files or not self.has_directory(destination):
            return False
        return source == destination or destination not in self.files

    def has_directory(self, name: str) -> bool:
        return "/" not in name or self.clients_of_test[0].exists(self.path("d"))

    @rule(client=clients, source=names, destination=names, overwrite=st.booleans())
    @precondition(lambda self: self.has_directory("d/e"))
    def rename_exactly(self, client: int, source: str, destination: str, overwrite: bool) -> None:
        fs = self.clients_of_test[client]
        how = hflush.Rename.OVERWRITE if overwrite else hflush.Rename.NONE
        if not (self.movable(source) and self.movable(destination)):
            return
        if source not in self.files:
            with pytest.raises(FileNotFoundError):
                fs.rename(self.path(source), self.path(destination), how)
        elif source == destination or (destination in self.files and not overwrite):
            with pytest.raises(FileExistsError):
                fs.rename(self.path(source), self.path(destination), how)
        else:
            assert fs.rename(self.path(source), self.path(destination), how) is None
            self.files[destination] = self.files.pop(source)

    @rule(client=clients, name=names)
    def delete(self, client: int, name: str) -> None:
        if not self.movable(name):
            return
        assert self.clients_of_test[client].delete(self.path(name)) is (name in self.files)
        self.files.pop(name, None)

    # --- what always holds ---

    @rule(name=names)
    def read(self, name: str) -> None:
        if name in self.files:
            self.check_content(name)
        else:
            with pytest.raises(FileNotFoundError):
                self.store.read(self.path(name))

    @invariant()
    def streams_know_their_position(self) -> None:
        for handle in self.opened:
            assert handle.stream.closed is not handle.open
            if handle.open:
                assert handle.stream.tell() == len(handle.content.data)

    @invariant()
    def names_are_listed(self) -> None:
        fs = self.clients_of_test[0]
        listed = {status.path for status in fs.list_status(self.root) if status.is_file}
        named = {self.path(name) for name in self.files if "/" not in name}
        assert listed == {self.store.public(path) for path in named}
        for name, content in self.files.items():
            length = fs.get_file_status(self.path(name)).length
            assert length == len(content.data) or (content.writer and length < len(content.data))

    def teardown(self) -> None:
        for handle in self.opened:
            self.close(handle)
        for client in self.clients_of_test:
            client.close()
        for name in self.files:
            self.check_content(name)
        sidecars = {f".{name}.crc" for name in self.files} if self.store.name == "crc" else set()
        on_disk = {name for name in self.store.on_disk(self.root) if name.partition("/")[0] != "d"}
        assert on_disk == {name for name in {*self.files, *sidecars} if "/" not in name}

    def _fresh(self, name: str) -> Content:
        """The content of a file just created or truncated."""
        content = self.files.setdefault(name, Content())
        content.data.clear()
        content.visible = 0
        return content

    def _opened(self, handle: Handle) -> Handle:
        self.opened.append(handle)
        return handle


@pytest.mark.rule(
    "WRITE-15", "WRITE-19", "CLOSE-1", "CLOSE-4", "CLOSE-5", "CONC-8", "CONC-13", "CONSIST-9"
)
@pytest.mark.stores(*FILES)
def test_model(store: Store) -> None:
    """After any sequence of calls, files, names, lengths and positions are those of the model."""

    class MachineOfStore(Machine):
        pass

    MachineOfStore.store = store
    profile = PROFILE if store.local else settings(PROFILE, max_examples=25)
    run_state_machine_as_test(MachineOfStore, settings=profile)
