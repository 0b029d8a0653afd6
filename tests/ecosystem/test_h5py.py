"""h5py needs to seek: it gets that refusal once, and nothing else goes wrong."""

from __future__ import annotations

import io

import h5py
import hflush
import pytest


def test_writing_to_a_stream(place):
    """It goes on with the refusal pending, which comes out as it is; nothing else is raised."""
    place.write("x.h5", b"old")
    out = place.create("x.h5")
    refusal = pytest.raises(io.UnsupportedOperation, match="seek on an output stream")
    with refusal as refused, out, h5py.File(out, "w") as file:
        file["data"] = range(1000)
    assert not isinstance(refused.value.__context__, SystemError)
    assert out.closed
    if place.kind == "s3":
        assert place.read("x.h5") == b"old"


def test_a_file_that_was_made_beside(place, tmp_path):
    """What can seek is filled first, and written whole."""
    local = tmp_path / "x.h5"
    with h5py.File(local, "w") as file:
        file["data"] = range(1000)
    place.write("x.h5", local.read_bytes())
    with place.open("x.h5") as stream, h5py.File(stream, "r") as file:
        assert list(file["data"]) == list(range(1000))
    assert isinstance(stream, hflush.FSDataInputStream)
