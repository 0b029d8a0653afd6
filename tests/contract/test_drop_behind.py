"""DROP: set_drop_behind, which local streams do not have (hdfs: test_hdfs)."""

from __future__ import annotations

import io

import hflush
import pytest
from support.stores import Store

Stream = hflush.FSDataOutputStream


@pytest.mark.rule("DROP-1", "DROP-2", refused=("raw", "crc"))
@pytest.mark.rule("DROP-6")
@pytest.mark.parametrize("value", [True, False, None])
@pytest.mark.stores("raw", "crc")
def test_set_drop_behind_is_refused(
    store: Store, path: str, out: Stream, value: bool | None
) -> None:
    """DROP-1, 2: a stream without the capability refuses every value, and stays usable."""
    assert store.options["supports-dropbehind"] is False
    out.write(b"a")
    with pytest.raises(io.UnsupportedOperation, match="set_drop_behind"):
        out.set_drop_behind(value)
    out.write(b"b")
    out.close()
    assert store.read(path) == b"ab"


@pytest.mark.rule("DROP-3", "DROP-6")
def test_probe_says_so(store: Store, out: Stream) -> None:
    """DROP-3: the probe answers what the call does."""
    assert out.has_capability("dropbehind") is store.options["supports-dropbehind"]
