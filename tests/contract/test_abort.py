"""ABORT: abort is for streams whose output appears only at close; local files are not such."""

from __future__ import annotations

import io

import hflush
import pytest
from hflush.capabilities import ABORTABLE
from support.stores import FILES, Store

Stream = hflush.FSDataOutputStream


@pytest.mark.rule("ABORT-1", refused=FILES)
@pytest.mark.stores(*FILES)
def test_abort_is_refused_without_effect(store: Store, path: str, out: Stream) -> None:
    """ABORT-1: abort is refused, the stream stays open, and what follows is published."""
    out.write(b"a")
    with pytest.raises(io.UnsupportedOperation, match="abort"):
        out.abort()
    assert not out.closed
    out.write(b"b")
    out.close()
    assert store.read(path) == b"ab"


@pytest.mark.rule("ABORT-9")
@pytest.mark.stores(*FILES)
def test_abort_is_declared_truthfully(store: Store, path: str, out: Stream) -> None:
    """ABORT-9: the stream's and the path's probe say that abort does not work."""
    assert out.has_capability(ABORTABLE) is False
    assert store.fs.has_path_capability(path, ABORTABLE) is False
    assert store.options["supports-abort"] is False


def test_abort_after_close_is_a_no_op(store: Store, path: str, out: Stream) -> None:
    """Contract §1, state CLOSED: abort does nothing and says that the stream was closed."""
    out.write(b"kept")
    out.close()
    result = out.abort()
    assert result.already_closed is True
    assert result.cleanup_exception is None
    assert store.read(path) == b"kept"
