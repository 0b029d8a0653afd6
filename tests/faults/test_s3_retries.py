"""S3: what is tried again and what is not, call by call, on a scripted store."""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from typing import Any

import hflush
import pytest
from support.s3_front import (
    Fault,
    answer,
    answer_at_once,
    close_after,
    close_before,
    corrupt_request,
    cut_answer,
    error_document,
    execute_and_answer,
    lose_answer,
    never_answer,
    reset_after,
    reset_before,
    reset_in_body,
)
from support.s3_writers import (
    ABORT,
    COMPLETE,
    CREATE,
    DATA,
    KEY,
    OLD,
    PATH,
    PUT,
    SMALL,
    UPLOAD,
    file_system,
    published,
    put_old,
    unchanged,
    without_secrets,
    write,
    write_pieces,
)
from support.scripted_s3 import ScriptedS3
from support.waiting import wait_until

pytestmark = pytest.mark.stores("s3")

HTML = "<html><body>Bad gateway</body></html>"
BOMB = (
    '<?xml version="1.0"?><!DOCTYPE r [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]>'
    "<CompleteMultipartUploadResult><ETag>&b;</ETag></CompleteMultipartUploadResult>"
)


def name_of(value: object) -> str | None:
    named = value[0] if isinstance(value, tuple) else value
    return getattr(named, "__name__", None)


def one_part_each(cases: Sequence[Any]) -> list[tuple[Any, int]]:
    """Each case with one of the three parts."""
    return [(case, 1 + number % 3) for number, case in enumerate(cases)]


# Nothing was carried out, and another attempt may succeed.
PASSING: list[Fault] = [
    answer(500, "InternalError"),
    answer(500, body=HTML),
    answer(502, body=HTML),
    answer(503, "SlowDown"),
    answer(503, "ServiceUnavailable", retry_after="0"),
    answer(504, ""),
    answer(408, ""),
    answer(429, "TooManyRequests"),
    answer(400, "RequestTimeout"),
    answer(409, "OperationAborted"),
    answer_at_once(503, "SlowDown"),
    reset_before,
    reset_after,
    close_before,
]
OF_BODIES: list[Fault] = [
    reset_in_body(0),
    reset_in_body(700),
    corrupt_request(500),
    answer(400, "BadDigest"),
    answer(200),  # but no etag
    lose_answer,
    execute_and_answer(500, "InternalError"),
    close_after,
]


@pytest.mark.rule("FAIL-10", "OBJ-6", "OBJ-17", "FAIL-1")
@pytest.mark.parametrize(("fault", "part"), one_part_each(PASSING + OF_BODIES), ids=name_of)
def test_a_part_is_sent_again(
    s3: ScriptedS3, s3_fs: hflush.FileSystem, fault: Fault, part: int
) -> None:
    """The same bytes, and only those of that part."""
    s3.fail(UPLOAD, fault, part=part)
    stream = write(s3_fs)
    published(s3)
    assert stream.outcome == "published"
    sent_again = 1 if fault is close_after else 2
    assert [s3.count(UPLOAD, part=n) for n in (1, 2, 3)] == [
        sent_again if n == part else 1 for n in (1, 2, 3)
    ]
    assert s3.count(COMPLETE) == 1
    whole = {call.body for call in s3.calls(UPLOAD, part) if call.status == 200 and call.body}
    assert len(whole) == 1 or fault is corrupt_request


@pytest.mark.rule("FAIL-10", "FAIL-1")
@pytest.mark.parametrize("fault", PASSING + OF_BODIES, ids=name_of)
def test_a_small_object_is_sent_again(
    s3: ScriptedS3, s3_fs: hflush.FileSystem, fault: Fault
) -> None:
    """One PUT is all there is, whatever has to be repeated."""
    s3.fail(PUT, fault)
    write(s3_fs, SMALL)
    published(s3, SMALL)
    assert s3.count(PUT) == (1 if fault is close_after else 2)
    assert s3.count(CREATE) == 0


@pytest.mark.rule("FAIL-10", "FAIL-1")
@pytest.mark.parametrize(
    "fault",
    [*PASSING, answer(200), answer(200, body=HTML), cut_answer(80), close_after, lose_answer],
    ids=name_of,
)
def test_an_upload_is_begun_again(s3: ScriptedS3, s3_fs: hflush.FileSystem, fault: Fault) -> None:
    """Where the first Create was carried out an upload is left that nobody knows."""
    s3.fail(CREATE, fault)
    write(s3_fs)
    assert s3.objects[KEY].data == DATA
    unknown = fault is lose_answer or name_of(fault) == "answer cut after 80 B"
    assert len(s3.uploads) == (1 if unknown else 0)
    assert s3.count(CREATE) == (1 if fault is close_after else 2)


@pytest.mark.rule("FAIL-10", "OBJ-9", "FAIL-1")
@pytest.mark.parametrize(
    "fault",
    [
        *PASSING,
        answer(200),
        answer(204),
        answer(200, body=HTML),
        answer(200, body=BOMB),
        answer(200, body=error_document("InternalError")),
        answer(200, body=error_document("SlowDown")),
    ],
    ids=name_of,
)
def test_complete_is_asked_for_again(
    s3: ScriptedS3, s3_fs: hflush.FileSystem, fault: Fault
) -> None:
    """What was not carried out is, in the end, and once."""
    s3.fail(COMPLETE, fault)
    write(s3_fs)
    published(s3)
    assert s3.count(COMPLETE) == 2
    assert s3.count(ABORT) == 0


@pytest.mark.rule("ABORT-6", "CLOSE-11", "FAIL-15", "ABORT-8")
@pytest.mark.parametrize("fault", [*PASSING, lose_answer, close_after], ids=name_of)
def test_an_abort_is_tried_again(s3: ScriptedS3, s3_fs: hflush.FileSystem, fault: Fault) -> None:
    """The failure of a part is what is told; its upload is ended all the same."""
    s3.fail(UPLOAD, answer(403, "AccessDenied"), part=2, times=None)
    s3.fail(ABORT, fault)
    with pytest.raises(PermissionError):
        write(s3_fs)
    unchanged(s3)
    assert s3.count(COMPLETE) == 0


# Nothing will change by asking again.
FINAL: list[tuple[Fault, type[OSError], int | None]] = [
    (answer(403, "AccessDenied"), PermissionError, errno.EACCES),
    (answer(403, "SignatureDoesNotMatch"), PermissionError, errno.EACCES),
    (answer(403, "InvalidAccessKeyId"), PermissionError, errno.EACCES),
    (answer(404, "NoSuchBucket"), FileNotFoundError, errno.ENOENT),
    (answer(400, "InvalidArgument"), OSError, None),
    (answer(400, "MalformedXML"), OSError, None),
    (answer(405, "MethodNotAllowed"), OSError, None),
    (answer(411, "MissingContentLength"), OSError, None),
    (answer(413, "EntityTooLarge"), OSError, None),
    (answer(501, "NotImplemented"), OSError, None),
    (answer(507, "InsufficientStorage"), OSError, errno.ENOSPC),
    (answer(403, "QuotaExceeded"), OSError, None),
]
# These may be about a header that is not needed: once more, without it.
OF_EXTRAS = {
    PUT: {"400 InvalidArgument", "403 SignatureDoesNotMatch", "501 NotImplemented"},
    CREATE: {"400 InvalidArgument", "403 SignatureDoesNotMatch", "501 NotImplemented"},
    COMPLETE: {"501 NotImplemented"},
}


@pytest.mark.rule("WRITE-20", "CLOSE-6", "CLOSE-7", "CLOSE-11", "FAIL-1", "FAIL-3", "FAIL-13")
@pytest.mark.parametrize(("refusal", "part"), one_part_each(FINAL), ids=name_of)
def test_a_part_is_refused(
    s3: ScriptedS3,
    s3_fs: hflush.FileSystem,
    refusal: tuple[Fault, type[OSError], int | None],
    part: int,
) -> None:
    """No Complete, one Abort, the old object as it was; close tells the first error, once."""
    fault, kind, number = refusal
    old = put_old(s3)
    s3.fail(UPLOAD, fault, part=part, times=None)
    stream = s3_fs.create(PATH)
    with pytest.raises(kind) as caught:
        write_to_the_end(stream)
    refused_once(s3, caught.value, number)
    assert s3.count(UPLOAD, part=part) == 1
    assert caught.value.filename.endswith(PATH)
    before = len(s3.log)
    assert stream.close() is None
    with pytest.raises(hflush.StreamClosedError):
        stream.write(b"more")
    unchanged(s3, old=old)
    assert s3.count(COMPLETE) == 0
    assert s3.count(ABORT) >= 1
    # Another part may have been on its way: it is cut off, or the server comes to it late.
    later = [call for call in s3.log[before:] if call.part in {None, part}]
    assert all(call.operation in {ABORT, "ListParts"} for call in later)
    assert s3.count(UPLOAD, part=part) == 1
    assert stream.outcome == "failed"


def write_to_the_end(stream: Any) -> None:
    """Write and close, close also after a failed write; raise what close raised."""
    failed = attempt(lambda: write_pieces(stream, DATA))
    told = attempt(stream.close)
    if failed is not None:
        assert told is not None
        assert told is not failed
        assert told.errno == failed.errno
    if told is not None:
        raise told


def attempt(call: Callable[[], Any]) -> OSError | None:
    try:
        call()
    except OSError as failure:
        return failure
    return None


def refused_once(s3: ScriptedS3, error: OSError, number: int | None) -> None:
    text = str(error)
    assert s3.endpoint.partition("://")[2] in text
    assert "TESTREQUEST" in text
    assert error.errno == number if number is not None else error.errno
    without_secrets(error)


@pytest.mark.rule("CLOSE-6", "FAIL-1", "FAIL-12")
@pytest.mark.parametrize(("fault", "kind", "number"), FINAL, ids=name_of)
@pytest.mark.parametrize("operation", [CREATE, COMPLETE, PUT])
def test_another_call_is_refused(
    s3: ScriptedS3,
    s3_fs: hflush.FileSystem,
    operation: str,
    fault: Fault,
    kind: type[OSError],
    number: int | None,
) -> None:
    """Likewise of the calls that begin and end an upload, and of the only one."""
    old = put_old(s3)
    s3.fail(operation, fault, times=None)
    stream = s3_fs.create(PATH)
    with pytest.raises(kind) as caught:
        write_to_the_end(stream) if operation != PUT else close_small(stream)
    refused_once(s3, caught.value, number)
    assert stream.close() is None
    unchanged(s3, old=old)
    assert s3.count(operation) == 1 + (fault.__name__ in OF_EXTRAS[operation])
    assert stream.outcome == "failed"


def close_small(stream: Any) -> None:
    stream.write(SMALL)
    stream.close()


@pytest.mark.rule("OBJ-9", "CLOSE-6", "CLOSE-11", "FAIL-1", "CLOSE-17")
@pytest.mark.parametrize(
    "fault",
    [
        answer(200),
        answer(204),
        answer(200, body=HTML),
        answer(200, body=BOMB),
        answer(200, body="<CompleteMultipartUploadResult><ETag>"),
        answer(200, body="<CopyObjectResult><ETag>x</ETag></CopyObjectResult>"),
        answer(200, body=error_document("InternalError")),
        answer(200, body=error_document("AccessDenied")),
        answer(200, body=error_document("InvalidPart")),
        answer(500, "InternalError"),
        answer(503, "SlowDown"),
        reset_before,
        reset_after,
    ],
    ids=name_of,
)
def test_a_complete_that_never_succeeds(s3: ScriptedS3, fault: Fault) -> None:
    """Is no success, whatever the status says."""
    old = put_old(s3)
    s3.fail(COMPLETE, fault, times=None)
    limits = {"fs.s3a.retry.limit": "3", "fs.s3a.retry.throttle.limit": "3"}
    with file_system(s3, limits) as fs:
        stream = fs.create(PATH)
        with pytest.raises(OSError, match=r"\[Errno \d+\] ") as caught:
            write_to_the_end(stream)
        without_secrets(caught.value)
        assert stream.close() is None
        unchanged(s3, old=old)
        assert stream.outcome == "failed"


@pytest.mark.rule("FAIL-7", "FAIL-8", "CLOSE-6")
def test_attempts_end(s3: ScriptedS3) -> None:
    """As many as the settings say, then the error that was met."""
    s3.fail(UPLOAD, answer(500, "InternalError"), part=2, times=None)
    with file_system(s3, {"fs.s3a.retry.limit": "4"}) as fs:
        with pytest.raises(OSError, match="InternalError"):
            write(fs)
        unchanged(s3)
    assert s3.count(UPLOAD, part=2) == 5
    assert s3.count(COMPLETE) == 0


@pytest.mark.rule("FAIL-7")
def test_throttled_attempts_have_their_own_limit(s3: ScriptedS3) -> None:
    """They are more than those of other failures."""
    s3.fail(UPLOAD, answer(503, "SlowDown"), part=2, times=6)
    limits = {"fs.s3a.retry.limit": "1", "fs.s3a.retry.throttle.limit": "6"}
    with file_system(s3, limits) as fs:
        write(fs)
        published(s3)
        counted = fs_counters(fs)
    assert s3.count(UPLOAD, part=2) == 7
    assert counted["store_io_throttled"] == 6


def fs_counters(fs: Any) -> dict[str, int]:
    return dict(fs.io_statistics().counters)


@pytest.mark.rule("FAIL-7", "FAIL-8")
def test_the_deadline_ends_attempts(s3: ScriptedS3) -> None:
    """However many there may still be."""
    s3.fail(UPLOAD, answer(500, "InternalError"), part=2, times=None)
    limits = {"fs.s3a.retry.limit": "1000", "hflush.s3.retry.deadline": "300ms"}
    with file_system(s3, limits) as fs:
        with pytest.raises(OSError, match="InternalError"):
            write(fs)
        unchanged(s3)


@pytest.mark.rule("CLOSE-9")
def test_several_failures_are_told_together(s3: ScriptedS3, s3_fs: hflush.FileSystem) -> None:
    """The first one, with the other as a note."""
    s3.fail(UPLOAD, answer(403, "AccessDenied"), part=1, times=None)
    s3.fail(UPLOAD, answer(507, "InsufficientStorage"), part=2, times=None)
    stream = s3_fs.create(PATH)
    with pytest.raises(OSError, match=r"AccessDenied|InsufficientStorage") as caught:
        write_to_the_end(stream)
    unchanged(s3)
    assert isinstance(caught.value, PermissionError) or caught.value.errno == errno.ENOSPC


@pytest.mark.rule("WRITE-20", "FAIL-13")
def test_the_next_write_tells(s3: ScriptedS3, s3_fs: hflush.FileSystem) -> None:
    """Also one that would not have had to wait; nothing is accepted after it."""
    s3.fail(UPLOAD, answer(403, "AccessDenied"), part=1, times=None)
    stream = s3_fs.create(PATH)
    stream.write(DATA[: 5 << 20])

    def told() -> bool:
        try:
            stream.write(b"x")
        except PermissionError:
            return True
        return False

    wait_until(told, "a write raises")
    position = stream.tell()
    with pytest.raises(OSError, match=r"\[Errno \d+\] "):
        stream.write(b"more")
    assert stream.tell() == position
    with pytest.raises(PermissionError):
        stream.close()
    unchanged(s3)
    assert s3.count(COMPLETE) == 0


@pytest.mark.rule("OBJ-8", "FAIL-15", "ABORT-6")
@pytest.mark.parametrize("fault", [answer(403, "AccessDenied"), reset_before], ids=name_of)
def test_an_abort_that_fails_is_told_beside(s3: ScriptedS3, fault: Fault) -> None:
    """The first error stays the first; the upload that is left is named in a note."""
    s3.fail(UPLOAD, answer(507, "InsufficientStorage"), part=2, times=None)
    s3.fail(ABORT, fault, times=None)
    with file_system(s3, {"fs.s3a.retry.limit": "2"}) as fs:
        with pytest.raises(OSError, match="InsufficientStorage") as caught:
            write(fs)
        (left,) = s3.uploads
        assert left in "".join(getattr(caught.value, "__notes__", []))
        s3.heal()
        assert s3.objects == {}


@pytest.mark.rule("ABORT-12", "ABORT-3")
def test_an_upload_that_somebody_else_ended(s3: ScriptedS3, s3_fs: hflush.FileSystem) -> None:
    """abort() of it raises nothing; close() of one raises, and publishes nothing."""
    for finish in ("abort", "close"):
        stream = s3_fs.create(PATH)
        stream.write(DATA)
        s3.wait_for(UPLOAD, 2)
        wait_until(lambda: any(len(u.parts) == 2 for u in s3.uploads.values()), "two parts")
        s3.uploads.clear()
        if finish == "abort":
            assert stream.abort().cleanup_exception is None
        else:
            with pytest.raises(OSError, match="NoSuchUpload"):
                stream.close()
        assert s3.objects == {}
        s3.log.clear()


@pytest.mark.rule("CLOSE-17")
@pytest.mark.rule("OBJ-2", divergence="s3")
@pytest.mark.parametrize("data", [SMALL, DATA], ids=["put", "multipart"])
def test_another_was_first(s3: ScriptedS3, s3_fs: hflush.FileSystem, data: bytes) -> None:
    """overwrite=False: an object that appeared meanwhile stays."""
    stream = s3_fs.create(PATH, overwrite=False)
    stream.write(data)
    put_old(s3)
    with pytest.raises(FileExistsError):
        stream.close()
    unchanged(s3, old=OLD)


@pytest.mark.rule("OBJ-2", divergence="s3")
def test_a_conflict_of_conditional_puts_is_tried_again(
    s3: ScriptedS3, s3_fs: hflush.FileSystem
) -> None:
    """409 ConditionalRequestConflict says that the store has not decided."""
    s3.fail(PUT, answer(409, "ConditionalRequestConflict"))
    write(s3_fs, SMALL, overwrite=False)
    published(s3, SMALL)


@pytest.mark.rule("CLOSE-17")
@pytest.mark.parametrize("is_there", [False, True])
def test_a_conflict_of_conditional_completes_is_final(
    s3: ScriptedS3, s3_fs: hflush.FileSystem, is_there: bool
) -> None:
    """The store wants all parts again, and they are gone. It says nothing of an object there."""
    s3.fail(COMPLETE, answer(409, "ConditionalRequestConflict"), times=None)
    out = s3_fs.create(PATH, overwrite=False)
    out.write(DATA)
    if is_there:
        put_old(s3)
    with pytest.raises(OSError, match="ConditionalRequestConflict") as refusal:
        out.close()
    assert refusal.value.errno == (errno.EEXIST if is_there else errno.EBUSY)
    unchanged(s3, old=OLD if is_there else None)
    assert s3.count(COMPLETE) == 1


@pytest.mark.rule("CKPT-16")
def test_put_if_absent_after_conflicts(s3: ScriptedS3, s3_fs: hflush.FileSystem) -> None:
    """It begins again, as it has the bytes; where there is no object it never says that one is."""
    s3.fail(COMPLETE, answer(409, "ConditionalRequestConflict"))
    assert s3_fs.put_if_absent(PATH, DATA)
    published(s3)
    s3_fs.delete(PATH)
    s3.fail(COMPLETE, answer(409, "ConditionalRequestConflict"), times=None)
    with pytest.raises(OSError, match="has not decided") as refusal:
        s3_fs.put_if_absent(PATH, DATA)
    assert not isinstance(refusal.value, FileExistsError)
    unchanged(s3)


@pytest.mark.rule("FAIL-8")
def test_a_part_that_is_never_answered(s3: ScriptedS3) -> None:
    """The timeout of a silent connection makes it another attempt."""
    s3.fail(UPLOAD, never_answer, part=2)
    with file_system(s3, {"fs.s3a.connection.timeout": "2s"}) as fs:
        write(fs)
        published(s3)
    assert s3.count(UPLOAD, part=2) == 2
