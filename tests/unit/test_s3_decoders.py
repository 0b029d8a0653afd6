"""What comes from elsewhere as a document: whatever it is, it is understood or refused by name."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hflush._core import s3_parse_etag, s3_parse_upload_id
from hflush.s3.commit import PendingCommit
from hflush.s3.documents import Part, parse_delete_result, parse_listing, parse_uploads
from hypothesis import example, given, settings
from hypothesis import strategies as st

COMMIT = PendingCommit(
    bucket="b",
    key="data/part-0",
    upload_id="2~id/=+",
    parts=(Part(1, '"e1"', 5, 0xFFFFFFFF), Part(2, '"e2"', 7, 0)),
    length=12,
    crc32c=0x12345678,
    checksums=True,
    full_object_checksum=False,
    token="0123456789abcdef" * 2,
    if_match='"e0"',
    created=1_700_000_000,
)
COMMITTED: dict[str, Any] = json.loads(COMMIT.to_bytes())

TIME = "<{0}>2026-11-21T17:52:46.123Z</{0}>"
DOCUMENTS: dict[str, tuple[Callable[[bytes], Any], str]] = {
    "listing": (
        parse_listing,
        "<ListBucketResult><EncodingType>url</EncodingType><IsTruncated>true</IsTruncated>"
        "<NextContinuationToken>t</NextContinuationToken>"
        f"<Contents><Key>a%2Fb+c</Key>{TIME.format('LastModified')}<ETag>&quot;e&quot;</ETag>"
        "<Size>5</Size></Contents>"
        "<CommonPrefixes><Prefix>d%2F</Prefix></CommonPrefixes></ListBucketResult>",
    ),
    "uploads": (
        parse_uploads,
        "<ListMultipartUploadsResult><IsTruncated>true</IsTruncated>"
        "<NextKeyMarker>k</NextKeyMarker><NextUploadIdMarker>u</NextUploadIdMarker>"
        f"<Upload><Key>k</Key><UploadId>u</UploadId>{TIME.format('Initiated')}</Upload>"
        "</ListMultipartUploadsResult>",
    ),
    "created": (
        s3_parse_upload_id,
        "<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>",
    ),
    "deleted": (
        parse_delete_result,
        "<DeleteResult><Error><Key>k</Key><Code>AccessDenied</Code><Message>no</Message></Error>"
        "</DeleteResult>",
    ),
    "copied": (
        lambda body: s3_parse_etag(body, "CopyObjectResult"),
        "<CopyObjectResult><ETag>e</ETag></CopyObjectResult>",
    ),
}

MANY = settings(max_examples=300, deadline=None)

# As JSON has them, and a bit more: what json.loads makes of NaN, and halves of pairs.
anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters())
    | st.sampled_from(["\ud800", "", "a\r\nb: c"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@st.composite
def mutated(draw: st.DrawFn, document: bytes) -> bytes:
    """Draw a document with a piece of it cut out, and something else in its place."""
    begin = draw(st.integers(0, len(document)))
    end = draw(st.integers(begin, len(document)))
    middle = draw(
        st.binary(max_size=8) | st.sampled_from([b"<!DOCTYPE a>", b"&a;", b"1e999", b"["])
    )
    return document[:begin] + middle + document[end:]


def is_taken(data: bytes) -> bool:
    """Return whether it is a pending commit; then it is one that can be used and handed on."""
    try:
        commit = PendingCommit.from_bytes(data)
    except ValueError as refusal:
        assert str(refusal).startswith("not a pending commit")  # noqa: PT017 - may be taken
        return False
    assert PendingCommit.from_bytes(commit.to_bytes()) == commit
    for name, value in vars(commit).items():
        if isinstance(value, str):
            assert (
                value.encode("utf-8", "surrogateescape" if name == "key" else "strict") or not value
            )
    assert sum(part.size for part in commit.parts) == commit.length < 1 << 63
    return True


@MANY
@given(anything)
def test_any_document_is_no_pending_commit(document: Any):
    assert not is_taken(json.dumps(document).encode())


@MANY
@given(st.sampled_from(sorted(COMMITTED)), anything)
@example("version", True)
@example("version", 1.0)
@example("key", "\ud800")
@example("length", 1 << 64)
@example("created", -1)
def test_a_field_of_something_else(name: str, value: Any):
    """What is taken has what it was given."""
    data = json.dumps({**COMMITTED, name: value}).encode()
    if is_taken(data):
        assert type(value) is type(COMMITTED[name])
        assert json.loads(PendingCommit.from_bytes(data).to_bytes())[name] == value


@MANY
@given(st.integers(0, 1), st.integers(0, 3), anything)
@example(0, 1, "\ud800")
@example(0, 3, -1)
@example(1, 2, 1 << 80)
def test_a_part_with_something_else(part: int, item: int, value: Any):
    parts = [list(each) for each in COMMITTED["parts"]]
    kept, parts[part][item] = parts[part][item], value
    if is_taken(json.dumps({**COMMITTED, "parts": parts}).encode()):
        assert type(value) is type(kept)


@MANY
@given(st.data())
def test_a_pending_commit_that_was_damaged(data: st.DataObject):
    is_taken(data.draw(mutated(COMMIT.to_bytes())))


@MANY
@given(st.binary(max_size=64))
@example(b'{"version":' + b"9" * 5000 + b"}")
@example(b'{"a":' * 50_000)
@example(b"\xff\xfe")
def test_any_bytes_are_no_pending_commit(data: bytes):
    assert not is_taken(data)


@pytest.mark.parametrize("cut", range(len(COMMIT.to_bytes())))
def test_a_pending_commit_that_breaks_off(cut: int):
    assert not is_taken(COMMIT.to_bytes()[:cut])


@pytest.mark.parametrize("name", DOCUMENTS)
def test_documents_are_understood(name: str):
    parse, document = DOCUMENTS[name]
    assert parse(document.encode())


@pytest.mark.parametrize("name", DOCUMENTS)
def test_documents_that_break_off(name: str):
    parse, document = DOCUMENTS[name]
    for cut in range(len(document)):
        with pytest.raises(ValueError, match="not a document of S3"):
            parse(document[:cut].encode())


@pytest.mark.parametrize("name", DOCUMENTS)
@MANY
@given(st.data())
def test_documents_that_were_damaged(name: str, data: st.DataObject):
    parse, document = DOCUMENTS[name]
    damaged = data.draw(mutated(document.encode()))
    try:
        parse(damaged)
    except ValueError as refusal:
        assert str(refusal)  # noqa: PT017 - damage need not be seen


@pytest.mark.parametrize(
    "size", ["-1", "1e3", "\u0663", str(1 << 63), "9" * 5000], ids=lambda size: size[:8]
)
def test_sizes_that_are_none(size: str):
    document = DOCUMENTS["listing"][1].replace("<Size>5<", f"<Size>{size}<")
    with pytest.raises(ValueError, match="<Size> is not a number"):
        parse_listing(document.encode())


@pytest.mark.parametrize(
    ("time", "seconds"),
    [
        ("now", 0),
        ("2026-13-01T00:00:00Z", 0),
        ("Fri, 02 Jan 2026 03:04:05 GMT", 1767323045),
        ("0001-01-01T00:00:00+23:59", -62135683140),
        ("9999-12-31T23:59:59-23:59", 253402387139),
    ],
)
def test_times_are_read_or_unknown(time: str, seconds: float):
    """The ends of the calendar are times, if odd ones."""
    document = DOCUMENTS["uploads"][1].replace("2026-11-21T17:52:46.123Z", time)
    assert parse_uploads(document.encode()).uploads[0].initiated == seconds
