"""Pending commits: what another process needs to publish, checked and without secrets."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hflush.s3.commit import PendingCommit
from hflush.s3.documents import Part

COMMIT = PendingCommit(
    bucket="b",
    key="data/part-0",
    upload_id="2~id/=+",
    parts=(Part(1, '"e1"', 5 << 20, 0xFFFFFFFF), Part(2, '"e2"', 7, 0)),
    length=(5 << 20) + 7,
    crc32c=0x12345678,
    checksums=True,
    full_object_checksum=True,
    token="0123456789abcdef" * 2,
    if_absent=True,
    created=1_700_000_000,
)


def test_round_trip():
    data = COMMIT.to_bytes()
    assert data.isascii()
    assert PendingCommit.from_bytes(data) == COMMIT
    assert PendingCommit.from_bytes(memoryview(bytearray(data))) == COMMIT
    assert json.loads(data)["version"] == 1
    assert COMMIT.path == "s3://b/data/part-0"


def test_names_outside_ascii():
    commit = replace(COMMIT, key="日本/é\n")
    assert PendingCommit.from_bytes(commit.to_bytes()).key == "日本/é\n"


def test_an_empty_object_has_one_part():
    empty = replace(COMMIT, parts=(Part(1, '"e"', 0, 0),), length=0)
    assert PendingCommit.from_bytes(empty.to_bytes()) == empty


@pytest.mark.parametrize(
    "changes",
    [
        {"bucket": ""},
        {"key": ""},
        {"upload_id": ""},
        {"token": ""},
        {"token": "no hex"},
        {"parts": ()},
        {"length": 5},
        {"crc32c": -1},
        {"crc32c": 1 << 32},
        {"crc32c": True},
        {"length": "7"},
        {"checksums": 1},
        {"parts": (Part(1, '"e"', 5 << 20, 0), Part(3, '"e"', 7, 0))},
        {"parts": (Part(2, '"e"', 5 << 20, 0), Part(1, '"e"', 7, 0))},
        {"parts": (Part(1, "", 5 << 20, 0), Part(2, '"e"', 7, 0))},
        {"parts": (Part(1, '"e"', (5 << 20) + 8, 0), Part(2, '"e"', -1, 0))},
        {"if_match": "e"},
    ],
)
def test_what_cannot_be(changes: dict[str, Any]):
    with pytest.raises(ValueError, match="not a pending commit"):
        replace(COMMIT, **changes)


def tampered(**changes: Any) -> bytes:
    return json.dumps({**json.loads(COMMIT.to_bytes()), **changes}).encode()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"null",
        COMMIT.to_bytes()[:-1],
        b"[" * 100_000,
        tampered(version=2),
        tampered(secret="x"),
        tampered(parts="all"),
        tampered(parts=[[1, '"e"', 7]]),
        tampered(parts=[[True, '"e"', 7, 0]]),
        tampered(length=1),
        tampered(key=None),
    ],
)
def test_what_is_refused(data: bytes):
    with pytest.raises(ValueError, match="not a pending commit"):
        PendingCommit.from_bytes(data)


def test_a_field_that_is_missing():
    document = json.loads(COMMIT.to_bytes())
    del document["token"]
    with pytest.raises(ValueError, match="missing or unknown: token"):
        PendingCommit.from_bytes(json.dumps(document).encode())


def test_text_is_refused():
    text: Any = COMMIT.to_bytes().decode()
    with pytest.raises(TypeError, match="bytes, not str"):
        PendingCommit.from_bytes(text)
