"""The end of a stream that is handed to Arrow's writers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...crc import crc32c

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from ...output import FSDataOutputStream

__all__ = ["Sink"]


class Sink:
    """Passes bytes on to a stream, counts and sums them; closing it does not close the stream.

    Attributes
    ----------
    length : int
        Bytes so far.
    crc32c : int
        Of all of them.
    limit : int
        About how many there should be; 0: any number.
    """

    closed = False

    def __init__(self, stream: FSDataOutputStream, limit: int = 0) -> None:
        self._stream: FSDataOutputStream | None = stream
        self.limit = limit
        self.length = 0
        self.crc32c = 0

    def write(self, data: Buffer) -> int:
        """Write all of it; nothing once the file is given up."""
        view = memoryview(data)
        if self._stream is None:
            return view.nbytes
        self._stream.write(view)
        self.crc32c = crc32c(view, self.crc32c)
        self.length += view.nbytes
        return view.nbytes

    def tell(self) -> int:
        """Return how many bytes were written."""
        return self.length

    def writable(self) -> bool:
        """Return True."""
        return True

    def readable(self) -> bool:
        """Return False."""
        return False

    def seekable(self) -> bool:
        """Return False."""
        return False

    def flush(self) -> None:
        """Do nothing: the owner of the stream says when."""

    def give_up(self) -> None:
        """Lose what comes: Arrow's writers complete their file when they are let go."""
        self._stream = None

    def close(self) -> None:
        """Do nothing: the owner of the stream closes or aborts it."""
