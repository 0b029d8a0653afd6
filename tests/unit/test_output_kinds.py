"""The types of output streams: one of each combination of kinds, named after them."""

from __future__ import annotations

import pytest
from hflush import FSDataOutputStream
from hflush.atomic import AtomicOutputStream
from hflush.output_kinds import (
    DowngradedOutputStream,
    ReportingOutputStream,
    UnbufferedOutputStream,
    stream_type,
)
from hflush.s3.streams import S3OutputStream, s3_stream_type

KINDS = [
    ([UnbufferedOutputStream], "UnbufferedOutputStream"),
    ([ReportingOutputStream], "ReportingOutputStream"),
    ([UnbufferedOutputStream, ReportingOutputStream], "UnbufferedReportingOutputStream"),
    ([UnbufferedOutputStream, DowngradedOutputStream], "UnbufferedDowngradedOutputStream"),
    ([AtomicOutputStream], "AtomicOutputStream"),
    ([UnbufferedOutputStream, AtomicOutputStream], "AtomicUnbufferedOutputStream"),
    (
        [UnbufferedOutputStream, ReportingOutputStream, AtomicOutputStream],
        "AtomicUnbufferedReportingOutputStream",
    ),
]


@pytest.mark.parametrize(("kinds", "name"), KINDS, ids=[name for _, name in KINDS])
def test_one_type_of_each_combination(kinds: list[type[FSDataOutputStream]], name: str):
    made = stream_type(FSDataOutputStream, kinds)
    assert made.__name__ == name
    assert stream_type(FSDataOutputStream, kinds) is made
    assert all(issubclass(made, kind) for kind in kinds)
    assert "__dict__" not in dir(made)  # a stream is small


def test_of_no_kind():
    assert stream_type(FSDataOutputStream, []) is FSDataOutputStream


@pytest.mark.parametrize("reports", [False, True])
@pytest.mark.parametrize("downgrades", [False, True])
def test_s3(reports: bool, downgrades: bool):
    """What users see of a type is its name, which does not tell of downgrades."""
    made = s3_stream_type(reports=reports, downgrades=downgrades)
    assert made.__name__ == ("S3ReportingOutputStream" if reports else "S3OutputStream")
    assert issubclass(made, S3OutputStream)
    assert issubclass(made, ReportingOutputStream) is reports
    assert issubclass(made, DowngradedOutputStream) is downgrades
    assert "__dict__" not in dir(made)
