"""Other processes with a part to play: racers behind one barrier, and a user without privileges."""

from __future__ import annotations

import contextlib
import mmap
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # a peer imports this module by itself
    from support.peer import Peer
    from support.stores import Store

NOBODY = 65534
DEADLINE_S = 30.0

# The first lines import what the user may not be able to read: the interpreter can be anywhere.
BECOME = """
import io, logging, os
fs.glob_status('/*')
os.setgroups([])
os.setgid(user)
os.setuid(user)
connect(url, conf)
"""


class Barrier:
    """A barrier of processes, in a file that all map: slot `me` counts the rounds `me` began.

    Owned by one thread of each process.
    """

    def __init__(self, path: str, parties: int, me: int) -> None:
        with open(path, "a+b") as file:
            file.truncate(4 * parties)
            self._slots = memoryview(mmap.mmap(file.fileno(), 4 * parties)).cast("I")
        self._me = me

    def wait(self) -> None:
        """Return when every party has begun this round."""
        self._slots[self._me] += 1
        reached = self._slots[self._me]
        end = time.monotonic() + DEADLINE_S
        while min(self._slots) < reached:
            os.sched_yield()
            if time.monotonic() > end:
                raise TimeoutError("a party of the barrier is missing")


class Crew:
    """Second clients that run one snippet at the same time. Owned by one test at a time."""

    def __init__(self) -> None:
        self._peers: list[Peer] = []

    def race(self, store: Store, size: int, snippet: str, **values: Any) -> list[Any]:
        """Run the snippet in `size` processes, each with its number `me` and `barrier`."""
        return self.finish(self.begin(store, size, size, snippet, **values))

    def begin(
        self, store: Store, size: int, parties: int, snippet: str, **values: Any
    ) -> list[Peer]:
        """Start the snippet in `size` processes; a barrier of more parties lets the test join."""
        peers = self._enlist(store, size)
        for me, peer in enumerate(peers):
            peer.begin(
                "from actors import Barrier\nbarrier = Barrier(line, parties, me)\n" + snippet,
                line=self.line(store),
                parties=parties,
                me=me,
                **values,
            )
        return peers

    @staticmethod
    def finish(peers: list[Peer]) -> list[Any]:
        return [peer.finish() for peer in peers]

    @staticmethod
    def line(store: Store) -> str:
        """The file of the barrier, outside the store's root."""
        return f"{store.root}.barrier"

    def _enlist(self, store: Store, size: int) -> list[Peer]:
        from support.peer import Peer

        while len(self._peers) < size:
            self._peers.append(Peer(store.url(), store.conf))
        peers = self._peers[:size]
        for peer in peers:
            peer.begin("connect(url, conf)", url=store.url(), conf=store.conf)
        self.finish(peers)
        return peers

    def close(self) -> None:
        while self._peers:
            self._peers.pop().close()


def unprivileged(store: Store) -> Peer:
    """One more process of this test, of a user whom permissions stop (root's are lifted)."""
    peer = store.spawn()
    if os.geteuid() == 0:
        peer.run(BECOME, user=NOBODY)
    return peer


@contextlib.contextmanager
def public_directory() -> Iterator[str]:
    """A fresh directory that every user can reach, unlike pytest's; removed at the end."""
    directory = tempfile.mkdtemp(prefix="hflush-")
    os.chmod(directory, 0o755)
    try:
        yield directory
    finally:
        for parent, directories, _ in os.walk(directory):
            for name in directories:
                os.chmod(os.path.join(parent, name), 0o755)
        shutil.rmtree(directory)
