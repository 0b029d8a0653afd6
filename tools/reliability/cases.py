"""The rows of the table: what goes wrong, and what has to come of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from support.s3_front import (
    Fault,
    S3Front,
    answer,
    corrupt_answer,
    corrupt_request,
    cut_answer,
    execute_and_answer,
    lose_answer,
    never_answer,
    reset_after,
    reset_before,
    reset_in_body,
    stall_answer,
)

MIB = 1 << 20
CREATE, PART, COMPLETE = "CreateMultipartUpload", "UploadPart", "CompleteMultipartUpload"
ABORT, PUT, GET = "AbortMultipartUpload", "PutObject", "GetObject"

PUBLISHED = "published"  # the object as it was written, and no error
NOTHING = "nothing"  # what was there before, or no object; and an error where one can be raised
READ = "read"  # the right bytes
NOT_WRONG = "not wrong"  # the right bytes, or an error


def nothing_wrong(front: S3Front) -> None:
    del front


@dataclass(frozen=True)
class Case:
    """One row.

    script          what the client does (client.py)
    expected        one of the above
    mebibytes       of the object; 0: 1 KiB, a single PUT
    raises          with NOTHING: the caller must get an error
    there_before    an older object is at the key
    may_leave       an upload whose id is not known, or that died with its process
    """

    id: str
    section: str
    title: str
    script: str
    expected: str
    inject: Callable[[S3Front], None] = nothing_wrong
    mebibytes: int = 12
    raises: bool = True
    there_before: bool = False
    may_leave: bool = False
    server: str = "proxy"
    limit_s: float = 60.0
    needs_stream: bool = False


def once(operation: str, fault: Fault, **where: Any) -> Callable[[S3Front], None]:
    return lambda front: front.fail(operation, fault, **where)


def always(operation: str, fault: Fault, **where: Any) -> Callable[[S3Front], None]:
    return lambda front: front.fail(operation, fault, times=None, **where)


def both(*injections: Callable[[S3Front], None]) -> Callable[[S3Front], None]:
    def inject(front: S3Front) -> None:
        for each in injections:
            each(front)

    return inject


def _abandoned() -> list[Case]:
    section = "A writer that does not close"
    common: dict[str, Any] = {"expected": NOTHING, "needs_stream": True}
    return [
        Case("with-small", section, "exception inside `with`, 1 KiB written", "raise_inside",
             mebibytes=0, **common),
        Case("with-large", section, "the same, 24 MiB", "raise_inside", mebibytes=24, **common),
        Case("with-over", section, "the same, over an older object", "raise_inside",
             mebibytes=24, there_before=True, **common),
        Case("drop", section, "dropped without close (`del`, GC), 12 MiB", "drop",
             raises=False, may_leave=True, **common),
        Case("exit", section, "interpreter exit with an open stream, 12 MiB", "leave_open",
             raises=False, may_leave=True, **common),
        Case("killed", section, "`kill -9` in mid-upload, over an older object", "be_killed",
             raises=False, may_leave=True, there_before=True, **common),
        Case("buffer", section, "the caller's `bytearray` changes after `write`", "change_buffer",
             PUBLISHED, needs_stream=True),
    ]  # fmt: skip


def _parts() -> list[Case]:
    section = "A part, or a single PUT"
    recoverable: list[tuple[str, str, Fault]] = [
        ("500", "500", answer(500, "InternalError")),
        ("503", "503 `SlowDown`", answer(503, "SlowDown")),
        ("timeout-400", "400 `RequestTimeout`", answer(400, "RequestTimeout")),
        ("reset-before", "reset before the body", reset_before),
        ("reset-in", "reset in the body", reset_in_body(MIB)),
        ("reset-after", "reset after the body, not executed", reset_after),
        ("lost", "executed, answer lost", lose_answer),
        ("no-etag", "200 without an etag, not executed", answer(200)),
        ("flip", "a bit flips on the way", corrupt_request(MIB)),
        ("silent", "never answered", never_answer),
    ]
    cases = [
        Case(f"part-{name}", section, f"part 2: {title}, once", "write", PUBLISHED,
             once(PART, fault, part=2), limit_s=100.0 if name == "silent" else 60.0)
        for name, title, fault in recoverable
    ]  # fmt: skip
    small = [
        Case("put-lost", section, "PUT of 1 KiB: executed, answer lost", "write", PUBLISHED,
             once(PUT, lose_answer), mebibytes=0),
        Case("put-flip", section, "PUT of 1 KiB: a bit flips on the way", "write", PUBLISHED,
             once(PUT, corrupt_request(100)), mebibytes=0),
        Case("put-no-etag", section, "PUT of 1 KiB: 200 without an etag, not executed", "write",
             PUBLISHED, once(PUT, answer(200)), mebibytes=0),
        Case("put-403", section, "PUT of 1 KiB: 403", "write", NOTHING,
             always(PUT, answer(403, "AccessDenied")), mebibytes=0),
    ]  # fmt: skip
    refused = [
        Case("part-slow", section, "every third part: 503 `SlowDown`, twice", "write", PUBLISHED,
             both(*(once(PART, answer(503, "SlowDown"), part=n, times=2) for n in (1, 4)))),
        Case("part-403", section, "part 2: 403", "write", NOTHING,
             always(PART, answer(403, "AccessDenied"), part=2), mebibytes=24),
        Case("part-403-over", section, "the same, over an older object", "write", NOTHING,
             always(PART, answer(403, "AccessDenied"), part=2), mebibytes=24, there_before=True),
        Case("part-gone", section, "part 2: 404 `NoSuchUpload`", "write", NOTHING,
             always(PART, answer(404, "NoSuchUpload"), part=2), mebibytes=24),
        Case("part-500-always", section, "part 2: always 500", "write", NOTHING,
             always(PART, answer(500, "InternalError"), part=2), mebibytes=24, limit_s=75.0),
    ]  # fmt: skip
    return [*cases, *small, *refused]


def _create() -> list[Case]:
    section = "CreateMultipartUpload"
    return [
        Case("create-500", section, "500, once", "write", PUBLISHED,
             once(CREATE, answer(500, "InternalError"))),
        Case("create-empty", section, "200 with an empty body, once", "write", PUBLISHED,
             once(CREATE, answer(200)), may_leave=True),
        Case("create-lost", section, "executed, answer lost", "write", PUBLISHED,
             once(CREATE, lose_answer), may_leave=True),
        Case("create-403", section, "403", "write", NOTHING,
             always(CREATE, answer(403, "AccessDenied"))),
    ]  # fmt: skip


def _complete() -> list[Case]:
    section = "CompleteMultipartUpload"
    inside = '<?xml version="1.0"?>\n<Error><Code>InternalError</Code><Message>x</Message></Error>'
    html = "<html><body>It works!</body></html>"
    rows: list[tuple[str, str, Fault, str, int | None]] = [
        ("500", "500, once", answer(500, "InternalError"), PUBLISHED, 1),
        ("503", "503 `SlowDown`, once", answer(503, "SlowDown"), PUBLISHED, 1),
        ("error", "200 with `<Error>`, once", answer(200, body=inside), PUBLISHED, 1),
        ("error-always", "200 with `<Error>`, always", answer(200, body=inside), NOTHING, None),
        ("empty", "200 with an empty body, once, not executed", answer(200), PUBLISHED, 1),
        ("empty-always", "200 with an empty body, always", answer(200), NOTHING, None),
        ("html", "200 with HTML, always", answer(200, body=html), NOTHING, None),
        ("cut", "executed, answer cut off", cut_answer(60), PUBLISHED, 1),
        ("lost", "executed, answer lost", lose_answer, PUBLISHED, 1),
        ("executed-500", "executed, answered 500", execute_and_answer(500, "InternalError"),
         PUBLISHED, 1),
        ("executed-empty", "executed, 200 with an empty body", execute_and_answer(200),
         PUBLISHED, 1),
        ("reset", "reset, not executed", reset_after, PUBLISHED, 1),
        ("gone", "404 `NoSuchUpload`, not executed", answer(404, "NoSuchUpload"), NOTHING, None),
        ("403", "403", answer(403, "AccessDenied"), NOTHING, None),
    ]  # fmt: skip
    cases = [
        Case(f"complete-{name}", section, title, "write", expected,
             once(COMPLETE, fault, times=times), limit_s=75.0)
        for name, title, fault, expected, times in rows
    ]  # fmt: skip
    aborts = [
        Case("abort-500", section, "403, and 500 from the first Abort", "write", NOTHING,
             both(always(COMPLETE, answer(403, "AccessDenied")),
                  once(ABORT, answer(500, "InternalError")))),
        Case("abort-lost", section, "403, and the first Abort's answer lost", "write", NOTHING,
             both(always(COMPLETE, answer(403, "AccessDenied")), once(ABORT, lose_answer))),
    ]  # fmt: skip
    return [*cases, *aborts]


def _conditional() -> list[Case]:
    section = "Only if there is no object (If-None-Match)"
    return [
        Case("new-put", section, "1 KiB over an older object", "write_new", NOTHING,
             mebibytes=0, there_before=True),
        Case("new-multipart", section, "12 MiB over an older object", "write_new", NOTHING,
             there_before=True),
        Case("new-put-lost", section, "1 KiB: executed, answer lost", "write_new", PUBLISHED,
             once(PUT, lose_answer), mebibytes=0),
        Case("new-multipart-lost", section, "12 MiB: Complete executed, answer lost", "write_new",
             PUBLISHED, once(COMPLETE, lose_answer)),
    ]  # fmt: skip


def _reads() -> list[Case]:
    section = "Reading 12 MiB"
    rows: list[tuple[str, str, Fault]] = [
        ("500", "500, once", answer(500, "InternalError")),
        ("503", "503 `SlowDown`, once", answer(503, "SlowDown")),
        ("reset", "reset, once", reset_after),
        ("cut", "answer cut off, once", cut_answer(500_000)),
        ("stall", "answer stalls, once", stall_answer(500_000)),
        ("flip", "a bit flips on the way", corrupt_answer(300_000)),
    ]
    cases = [
        Case(f"read-{name}", section, title, "read", NOT_WRONG if name == "flip" else READ,
             once(GET, fault), there_before=True, limit_s=100.0 if name == "stall" else 60.0)
        for name, title, fault in rows
    ]  # fmt: skip
    replaced = Case("read-replaced", section, "the object is replaced meanwhile", "read_replaced",
                    NOT_WRONG, there_before=True)  # fmt: skip
    return [*cases, replaced]


def _around() -> list[Case]:
    section = "Clocks, names, certificates"
    return [
        Case("clock", section, "the server's clock is 20 minutes ahead", "write", PUBLISHED,
             server="ahead"),
        Case("name", section, "the host name does not resolve", "write", NOTHING,
             server="nowhere", limit_s=75.0),
        Case("refused", section, "no server listens", "write", NOTHING, server="deaf",
             limit_s=75.0),
        Case("certificate", section, "a certificate of an unknown authority", "write", NOTHING,
             server="untrusted", limit_s=75.0),
    ]  # fmt: skip


CASES = [
    *_abandoned(), *_parts(), *_create(), *_complete(), *_conditional(), *_reads(), *_around(),
]  # fmt: skip
