"""Other processes with a part to play: racers behind one barrier, and a user without privileges."""

from __future__ import annotations

import contextlib
import itertools
import mmap
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from support.waiting import DEADLINE_S

if TYPE_CHECKING:  # a peer imports this module by itself
    from support.peer import Peer
    from support.stores import Store

NOBODY = 65534
SPINS = 1000

# The first lines import what the user may not be able to read: the interpreter can be anywhere.
BECOME = """
import fcntl, io, logging, os, hflush.atomic, hflush.local.claims
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
        while not self._reached(reached):
            os.sched_yield()
            if time.monotonic() > end:
                raise TimeoutError("a party of the barrier is missing")

    def _reached(self, rounds: int) -> bool:
        """Spin a little: who is on a processor when the last party comes really races with it."""
        return any(min(self._slots) >= rounds for _ in range(SPINS))


class Crew:
    """Second clients that run one snippet at the same time. Owned by one test at a time."""

    def __init__(self) -> None:
        self._peers: dict[type[Peer], list[Peer]] = {}
        self._busy: list[Peer] = []

    def race(self, store: Store, size: int, snippet: str, **values: Any) -> list[Any]:
        """Run the snippet in `size` processes, each with its number `me` and `barrier`."""
        self.begin(store, size, size, snippet, **values)
        return self.finish()

    def begin(self, store: Store, size: int, parties: int, snippet: str, **values: Any) -> None:
        """Start the snippet in `size` processes; a barrier of more parties lets the test join."""
        self._busy = self._enlist(store, size)
        for me, peer in enumerate(self._busy):
            peer.begin(
                "from support.actors import Barrier\n"
                f"barrier = Barrier(line, parties, me)\n{snippet}",
                line=self.line(store),
                parties=parties,
                me=me,
                **values,
            )

    def finish(self) -> list[Any]:
        """Wait for what `begin` started."""
        results = [peer.finish() for peer in self._busy]
        self._busy = []
        return results

    @staticmethod
    def line(store: Store) -> str:
        """The file of the barrier."""
        return store.scratch("barrier")

    def _enlist(self, store: Store, size: int) -> list[Peer]:
        for peer in self._busy:  # a test failed before it could finish them
            self._peers[type(peer)].remove(peer)
            peer.kill()
        known = self._peers.setdefault(store.peer_type, [])
        while len(known) < size:
            known.append(store.peer_type(store.url(), dict(store.conf)))
        peers = known[:size]
        for peer in peers:
            peer.begin("connect(url, conf)", url=store.url(), conf=store.conf)
        for peer in peers:
            peer.finish()
        return peers

    def close(self) -> None:
        """End the processes."""
        for peer in itertools.chain(*self._peers.values()):
            peer.kill() if peer in self._busy else peer.close()


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
