"""S3: publications whose answer is lost are looked at, never guessed; and the races around them."""

from __future__ import annotations

import errno
import os
import signal
import threading
from collections.abc import Callable
from typing import Any

import hflush
import pytest
from hflush.options import CONDITIONAL_ETAG
from hflush.s3 import S3FileSystem
from hflush.s3.documents import Part
from hflush.s3.fsspec import HflushS3FileSystem
from hflush.s3.object_copy import publish_parts
from support.s3_front import (
    Exchange,
    Fault,
    answer,
    close_before,
    cut_answer,
    cut_unmeasured_answer,
    error_document,
    execute_and_answer,
    hold,
    lose_answer,
    named,
    never_answer,
    reset_after,
)
from support.s3_ways import Way
from support.s3_writers import (
    ABORT,
    COMPLETE,
    CREATE,
    DATA,
    HEAD,
    IMPATIENT,
    KEY,
    OLD,
    PATH,
    PUT,
    SMALL,
    UPLOAD,
    file_system,
    no_upload_left,
    published,
    put_old,
    unchanged,
    without_secrets,
    write,
    write_pieces,
)
from support.scripted_s3 import BUCKET, MIB, Rules, ScriptedS3
from support.waiting import DEADLINE_S, Task, soon, together, wait_until

pytestmark = pytest.mark.stores("s3")


def name_of(value: object) -> str | None:
    return getattr(value, "__name__", None)


def execute_and_close(exchange: Exchange) -> None:
    exchange.execute()
    exchange.request.status = 0
    exchange.close()


# The call was carried out, and the client is not told so.
IN_DOUBT: list[Fault] = [
    lose_answer,
    execute_and_close,
    cut_answer(0),
    cut_answer(100),
    cut_unmeasured_answer(100),
    execute_and_answer(500, "InternalError"),
    execute_and_answer(502, body="<html></html>"),
    execute_and_answer(503, body="<html></html>"),  # of something in between
    execute_and_answer(200),
    execute_and_answer(200, body="<html></html>"),
    execute_and_answer(204),
]


@pytest.fixture(params=[False, True], ids=["404 again", "200 again"])
def repeating(request: pytest.FixtureRequest, s3_way: Way) -> Any:
    """Stores differ in what they say to a Complete that they have carried out before."""
    rules = Rules(repeated_complete=request.param)
    with s3_way.server(rules) as server, file_system(server) as fs:
        yield server, fs


@pytest.mark.rule("OBJ-10", "FAIL-10", "FAIL-1", "CLOSE-10")
@pytest.mark.parametrize("old", [False, True], ids=["new", "over another"])
@pytest.mark.parametrize("fault", IN_DOUBT, ids=name_of)
def test_a_complete_that_took_place(
    repeating: tuple[ScriptedS3, hflush.FileSystem], fault: Fault, old: bool
) -> None:
    """Is success, told by the token of the object at the key."""
    server, fs = repeating
    if old:
        put_old(server)
    server.fail(COMPLETE, fault)
    stream = write(fs)
    published(server)
    assert stream.outcome == "published"
    assert server.count(ABORT) == 0
    token = server.objects[KEY].headers["x-amz-meta-hflush-token"]
    assert len(token) == 32


@pytest.mark.rule("OBJ-10", "FAIL-10", "FAIL-1")
@pytest.mark.parametrize("fault", IN_DOUBT, ids=name_of)
@pytest.mark.parametrize("data", [SMALL, DATA], ids=["put", "multipart"])
def test_a_conditional_publication_that_took_place(
    s3: ScriptedS3, s3_fs: hflush.FileSystem, data: bytes, fault: Fault
) -> None:
    """Is success, also where the store now finds that there is an object: it is ours."""
    s3.fail(PUT if data == SMALL else COMPLETE, fault)
    stream = write(s3_fs, data, overwrite=False)
    published(s3, data)
    assert stream.outcome == "published"


@pytest.mark.rule("OBJ-10", "FAIL-1", "CLOSE-17")
@pytest.mark.parametrize("data", [SMALL, DATA], ids=["put", "multipart"])
@pytest.mark.parametrize("fault", [reset_after, close_before], ids=name_of)
def test_a_conditional_publication_that_did_not_and_then_another_was_first(
    s3: ScriptedS3, s3_fs: hflush.FileSystem, data: bytes, fault: Fault
) -> None:
    """What is found at the key is not ours: no success, and theirs stays."""

    def fail_and_replace(exchange: Exchange) -> None:
        put_old(s3)
        fault(exchange)

    s3.fail(PUT if data == SMALL else COMPLETE, named(fail_and_replace, "another is first"))
    with pytest.raises(FileExistsError) as caught:
        write(s3_fs, data, overwrite=False)
    assert caught.value.errno == errno.EEXIST
    without_secrets(caught.value)
    unchanged(s3, old=OLD)


@pytest.mark.rule("OBJ-10", "FAIL-1", "CLOSE-17")
@pytest.mark.parametrize("data", [SMALL, DATA], ids=["put", "multipart"])
def test_a_refusal_that_is_lost(s3: ScriptedS3, s3_fs: hflush.FileSystem, data: bytes) -> None:
    """Another was first, the store has refused ours, and nobody heard it: FileExistsError."""

    def replace_and_lose(exchange: Exchange) -> None:
        put_old(s3)
        lose_answer(exchange)

    s3.fail(PUT if data == SMALL else COMPLETE, named(replace_and_lose, "another is first"))
    with pytest.raises(FileExistsError):
        write(s3_fs, data, overwrite=False)
    unchanged(s3, old=OLD)


@pytest.mark.rule("OBJ-10", "FAIL-1")
@pytest.mark.parametrize("fault", [reset_after, lose_answer], ids=name_of)
@pytest.mark.parametrize("data", [SMALL, DATA], ids=["put", "multipart"])
def test_the_object_has_changed_and_the_answer_is_lost(
    s3: ScriptedS3, s3_fs: hflush.FileSystem, data: bytes, fault: Fault
) -> None:
    """With an etag as the condition, it is told that the object is another."""
    first = write(s3_fs, b"first")

    def replace(exchange: Exchange) -> None:
        put_old(s3)
        fault(exchange)

    s3.fail(PUT if data == SMALL else COMPLETE, named(replace, "changed meanwhile"))
    builder = s3_fs.create_file(PATH).overwrite(True).must(CONDITIONAL_ETAG, first.etag)
    stream = builder.build()
    write_pieces(stream, data)
    with pytest.raises(hflush.PreconditionFailedError):
        stream.close()
    unchanged(s3, old=OLD)


@pytest.mark.rule("OBJ-10", "FAIL-1")
@pytest.mark.parametrize("fault", [reset_after, lose_answer], ids=name_of)
@pytest.mark.parametrize("data", [SMALL, DATA], ids=["put", "multipart"])
def test_another_is_first_where_ours_may_replace_it(
    s3: ScriptedS3, s3_fs: hflush.FileSystem, data: bytes, fault: Fault
) -> None:
    """Without a condition the last one wins, and that is ours."""

    def replace(exchange: Exchange) -> None:
        put_old(s3)
        fault(exchange)

    s3.fail(PUT if data == SMALL else COMPLETE, named(replace, "another is first"))
    assert write(s3_fs, data).outcome == "published"
    published(s3, data)


@pytest.mark.rule("OBJ-10", "FAIL-11", "FAIL-1")
def test_a_complete_that_was_overwritten_at_once(s3: ScriptedS3, s3_fs: hflush.FileSystem) -> None:
    """Nobody can tell any more: an error that says so, not success, and nothing is undone."""

    def complete_and_replace(exchange: Exchange) -> None:
        exchange.execute()
        put_old(s3)
        exchange.reset()

    s3.fail(COMPLETE, complete_and_replace)
    stream = s3_fs.create(PATH)
    write_pieces(stream, DATA)
    with pytest.raises(OSError, match="unknown") as caught:
        stream.close()
    assert stream.outcome == "unknown"
    assert stream.close() is None
    assert not isinstance(caught.value, FileNotFoundError)
    unchanged(s3, old=OLD)


@pytest.mark.rule("OBJ-10", "FAIL-11", "FAIL-1")
@pytest.mark.parametrize("fault", [answer(403), answer(500)], ids=name_of)
def test_a_key_that_cannot_be_looked_at(s3: ScriptedS3, fault: Fault) -> None:
    """Likewise: the outcome is unknown, and nothing is aborted that may be under way."""
    s3.fail(COMPLETE, lose_answer)
    s3.fail(HEAD, fault, times=None)
    with file_system(s3, {"fs.s3a.retry.limit": "2"}) as fs:
        stream = fs.create(PATH)
        write_pieces(stream, DATA)
        with pytest.raises(OSError, match="unknown"):
            stream.close()
        assert stream.outcome == "unknown"
        assert s3.objects[KEY].data == DATA
        assert s3.count(ABORT) == 0


@pytest.mark.rule("OBJ-10", "FAIL-8", "FAIL-7")
@pytest.mark.parametrize("carried_out", [False, True], ids=["lost", "carried out"])
def test_a_complete_that_is_never_answered(s3: ScriptedS3, carried_out: bool) -> None:
    """It ends by its own timeout, and what came of it is looked at."""

    def silence(exchange: Exchange) -> None:
        if carried_out:
            exchange.execute()
        never_answer(exchange)

    s3.fail(COMPLETE, named(silence, "silence"))
    with file_system(s3, {"hflush.s3.complete.timeout": "2s"}) as fs:
        write(fs)
        published(s3)
    assert s3.count(COMPLETE) == (1 if carried_out else 2)


# As Ceph answers while it holds the upload for an earlier one.
IN_PROGRESS = answer(
    500,
    body=error_document("InternalError", "This multipart completion is already in progress"),
)


@pytest.mark.rule("OBJ-10", "FAIL-8")
def test_a_complete_that_the_store_is_still_executing(
    s3: ScriptedS3, s3_fs: hflush.FileSystem
) -> None:
    """It is asked for until it has ended, and not aborted: that would remove its parts."""
    s3.fail(COMPLETE, reset_after)
    s3.fail(COMPLETE, IN_PROGRESS, times=6)
    write(s3_fs)
    published(s3)
    assert s3.count(COMPLETE) == 8
    assert s3.count(ABORT) == 0


@pytest.mark.rule("OBJ-10", "FAIL-8", "FAIL-7")
@pytest.mark.parametrize("is_persisted", [False, True])
def test_a_complete_that_the_store_executes_for_too_long(
    s3: ScriptedS3, is_persisted: bool
) -> None:
    """The outcome is unknown, and the upload is left to the store, which is said."""
    s3.fail(COMPLETE, IN_PROGRESS, times=None)
    with file_system(s3, {"hflush.s3.retry.deadline": "1s"}) as fs:
        stream = fs.create(PATH)
        write_pieces(stream, DATA)
        if is_persisted:
            stream.persist()
        with pytest.raises(OSError, match="still be completing upload"):
            stream.close()
        assert stream.outcome == "unknown"
        assert stream.abort().already_closed
    assert s3.count(ABORT) == 0


def test_a_transaction_that_the_store_is_still_carrying_out(s3: ScriptedS3) -> None:
    """Likewise; fsspec's file says so, and does not abort it either."""
    s3.fail(COMPLETE, IN_PROGRESS, times=None)
    conf = {**s3.conf, **IMPATIENT, "hflush.s3.retry.deadline": "1s"}
    fs = HflushS3FileSystem(conf=conf)
    with pytest.raises(OSError, match="outcome unknown") as caught, fs.transaction:
        fs.pipe(f"{BUCKET}/{KEY}", SMALL)
    assert any("may be left" in note for note in caught.value.__notes__)
    assert s3.count(ABORT) == 0


# Silence is short, of Complete too.
SHORT = {"fs.s3a.connection.timeout": "300ms", "hflush.s3.complete.timeout": "300ms"}
# Which key bounds the silence of Complete.
SILENCES = [
    {"fs.s3a.connection.timeout": "1m", "hflush.s3.complete.timeout": "1s"},
    {"fs.s3a.connection.timeout": "1m", "fs.s3a.connection.request.timeout": "1s"},
]


@pytest.mark.rule("OBJ-10", "FAIL-8", "FAIL-7", "FAIL-1")
@pytest.mark.parametrize("conf", SILENCES, ids=lambda conf: "+".join(conf))
def test_a_complete_that_nobody_ever_answers(s3: ScriptedS3, conf: dict[str, str]) -> None:
    """Twice, and then it is looked at, aborted and told: a TimeoutError, and nothing is left."""
    s3.fail(COMPLETE, never_answer, times=None)
    with file_system(s3, conf) as fs:
        stream = fs.create(PATH)
        write_pieces(stream, DATA)
        with pytest.raises(TimeoutError, match="timed out after 1000 ms"):
            stream.close()
        assert stream.outcome == "failed"
        assert s3.count(COMPLETE) == 2
        unchanged(s3)


@pytest.mark.rule("OBJ-10", "FAIL-8", "FAIL-7", "FAIL-1")
def test_a_complete_that_is_carried_out_in_silence(s3: ScriptedS3) -> None:
    """As often as it is asked: found at the key, by its token."""

    def silence(exchange: Exchange) -> None:
        exchange.execute()
        never_answer(exchange)

    s3.fail(COMPLETE, named(silence, "silence"), times=None)
    with file_system(s3, SHORT) as fs:
        assert write(fs).outcome == "published"
    assert s3.count(COMPLETE) == 1
    published(s3)


def test_a_copy_that_the_store_finishes_while_it_is_given_up(s3: ScriptedS3) -> None:
    """Silent Completes of a copy in parts are looked at once more behind the abort."""
    given_up, finished = threading.Event(), threading.Event()

    def finish_late(exchange: Exchange) -> None:
        exchange.read_request()
        assert given_up.wait(DEADLINE_S)
        exchange.execute()
        finished.set()
        never_answer(exchange)

    def abort_too_late(exchange: Exchange) -> None:
        exchange.read_request()
        given_up.set()
        assert finished.wait(DEADLINE_S)
        exchange.send(exchange.execute())

    with file_system(s3, SHORT) as fs:
        assert isinstance(fs, S3FileSystem)
        bucket = fs._bucket

        def put(upload_id: str, number: int) -> Part:  # as UploadPartCopy does
            query = [("partNumber", str(number)), ("uploadId", upload_id)]
            response = bucket.call("UploadPart", "PUT", KEY, PATH, query=query, body=DATA)
            return Part(number, response.headers["etag"], len(DATA), 0)

        s3.fail(COMPLETE, named(finish_late, "late"), times=None)
        s3.fail(ABORT, named(abort_too_late, "too late"))
        publish_parts(bucket, KEY, PATH, [], 1, put)
    published(s3)


@pytest.mark.rule("OBJ-10", "FAIL-8", "FAIL-7", "FAIL-1")
def test_a_store_that_falls_silent(s3: ScriptedS3) -> None:
    """Neither Complete nor a look is answered: unknown, within the deadline of retries."""
    for operation in (COMPLETE, HEAD, "ListParts", ABORT):
        s3.fail(operation, never_answer, times=None)
    conf = {
        "fs.s3a.connection.timeout": "1s",
        "hflush.s3.complete.timeout": "1s",
        "fs.s3a.retry.limit": "1000",  # the deadline ends it
        "hflush.s3.retry.deadline": "3s",
    }
    with file_system(s3, conf) as fs:
        stream = fs.create(PATH)
        write_pieces(stream, DATA)
        with soon(), pytest.raises(TimeoutError, match="outcome unknown"):
            stream.close()
        assert stream.outcome == "unknown"


@pytest.mark.rule("OBJ-10", "FAIL-8", "FAIL-7")
def test_the_deadline_of_retries_ends_a_publication(s3: ScriptedS3) -> None:
    """However often it may be asked for: what is late is aborted."""
    s3.fail(COMPLETE, reset_after, times=None)
    conf = {"hflush.s3.retry.deadline": "400ms", "fs.s3a.retry.interval": "300ms"}
    with file_system(s3, conf) as fs:
        stream = fs.create(PATH)
        write_pieces(stream, DATA)
        with pytest.raises(ConnectionResetError):
            stream.close()
        assert stream.outcome == "failed"
    assert s3.count(COMPLETE) == 1
    unchanged(s3)


@pytest.mark.rule("OBJ-10", "FAIL-8", "FAIL-7")
def test_a_pending_commit_that_nobody_answers(s3: ScriptedS3) -> None:
    """Likewise: asked for twice, looked at, told; the upload goes on."""
    with file_system(s3, SHORT) as fs:
        assert isinstance(fs, S3FileSystem)
        with fs.create_pending(PATH) as stream:
            write_pieces(stream, DATA)
        assert stream.pending_commit is not None
        s3.fail(COMPLETE, never_answer, times=None)
        with pytest.raises(TimeoutError):
            fs.complete_pending(stream.pending_commit)
        assert s3.count(COMPLETE) == 2
        s3.heal()
        fs.complete_pending(stream.pending_commit)
    published(s3)


def test_a_pending_commit_that_is_interrupted(s3: ScriptedS3, gate: threading.Event) -> None:
    """Ctrl-C ends the wait for the store; completing it again tells what came of it."""
    with file_system(s3) as fs:
        assert isinstance(fs, S3FileSystem)
        with fs.create_pending(PATH) as stream:
            write_pieces(stream, DATA)
        assert stream.pending_commit is not None
        s3.fail(COMPLETE, hold(gate))

        def interrupt() -> None:
            s3.wait_for(COMPLETE)
            os.kill(os.getpid(), signal.SIGINT)

        helper = Task(interrupt)
        with pytest.raises(KeyboardInterrupt):
            fs.complete_pending(stream.pending_commit)
        helper.result()
        gate.set()
        fs.complete_pending(stream.pending_commit)
    published(s3)


@pytest.mark.rule("OBJ-10", "FAIL-10")
def test_the_server_closes_idle_connections(s3: ScriptedS3, s3_fs: hflush.FileSystem) -> None:
    """A connection that has died meanwhile makes no second Complete."""
    for operation in (CREATE, UPLOAD, COMPLETE, PUT):
        s3.fail(operation, close_after_answer, times=None)
    for number in range(5):
        write(s3_fs, DATA, f"{PATH}{number}")
        write(s3_fs, SMALL, f"{PATH}{number}-small")
    assert s3.count(COMPLETE) == 5
    assert s3.count(PUT) == 5
    assert len(s3.objects) == 10
    no_upload_left(s3)


def close_after_answer(exchange: Exchange) -> None:
    exchange.send(exchange.execute())
    exchange.close()


# --- who decides


@pytest.fixture
def gate() -> Any:
    """An event that is set in the end, so that no thread stays."""
    event = threading.Event()
    yield event
    event.set()


@pytest.mark.rule("ABORT-7", "ABORT-2", "ABORT-8", "ABORT-6")
def test_abort_while_the_upload_is_created(s3: ScriptedS3, gate: threading.Event) -> None:
    """Does not wait for the store, says what goes on, and that is ended when the store answers."""
    s3.fail(CREATE, hold(gate))
    with file_system(s3) as fs:
        stream = fs.create(PATH)
        write_pieces(stream, DATA[: 6 * MIB])
        s3.wait_for(CREATE)
        result = stream.abort()
        assert not result.already_closed
        assert isinstance(result.cleanup_exception, TimeoutError)
        assert "in the background" in str(result.cleanup_exception)
        gate.set()
        s3.wait_for(ABORT)
        unchanged(s3)
        assert s3.count(CREATE) == 1
        assert s3.count(COMPLETE) == 0


@pytest.mark.rule("ABORT-7", "ABORT-2", "ABORT-3", "ABORT-8", "ABORT-4")
def test_abort_while_a_write_waits(s3: ScriptedS3, gate: threading.Event) -> None:
    """The write ends with an error, the upload is ended, and what lands late is nobody's."""
    old = put_old(s3)
    s3.fail(UPLOAD, hold(gate), times=None)
    with file_system(s3, {"fs.s3a.fast.upload.active.blocks": "1"}) as fs:
        stream = fs.create(PATH)
        writer = Task(stream.write, bytes(64 * MIB))
        s3.wait_for(UPLOAD)
        assert writer.is_alive()
        result = stream.abort()
        assert not result.already_closed
        with pytest.raises(hflush.StreamClosedError):
            writer.result()
        gate.set()
        assert stream.abort().already_closed
        assert stream.close() is None
        assert stream.outcome == "aborted"
        unchanged(s3, old=old)
        assert s3.count(COMPLETE) == 0


@pytest.mark.rule("ABORT-10", "ABORT-7", "CLOSE-22")
def test_abort_while_close_waits_for_parts(s3: ScriptedS3, gate: threading.Event) -> None:
    """close has been first: it decides. Or it has not, and publishes nothing."""
    s3.fail(UPLOAD, hold(gate), part=3)
    with file_system(s3) as fs:
        stream = fs.create(PATH)
        write_pieces(stream, DATA)
        closer = Task(stream.close)
        s3.wait_for(UPLOAD, part=3)
        aborter = Task(stream.abort)
        gate.set()
        result = aborter.result()
        assert result.already_closed
        assert closer.result() is None
        published(s3)
        assert stream.outcome == "published"


@pytest.mark.rule("ABORT-10", "ABORT-5")
def test_abort_while_complete_is_under_way(s3: ScriptedS3, gate: threading.Event) -> None:
    """Too late: the object is published, and abort says that the stream was closed."""
    s3.fail(COMPLETE, hold(gate))
    with file_system(s3) as fs:
        stream = fs.create(PATH)
        write_pieces(stream, DATA)
        closer = Task(stream.close)
        s3.wait_for(COMPLETE)
        aborter = Task(stream.abort)
        gate.set()
        assert aborter.result().already_closed
        closer.result()
        published(s3)


@pytest.mark.rule("CLOSE-22", "CLOSE-5", "ABORT-10")
def test_closes_and_aborts_at_once(s3: ScriptedS3) -> None:
    """One of them wins; there is one publication, or none."""
    outcomes = set()
    with file_system(s3) as fs:
        for number in range(40):
            key = f"race/{number}"
            stream = fs.create(f"/{key}")
            stream.write(SMALL)
            calls: list[Callable[[], Any]] = [stream.close, stream.abort, stream.close]
            _, result, _ = together(*calls)
            outcomes.add(stream.outcome)
            there = s3.objects.get(key)
            assert (there is not None) == result.already_closed
            assert there is None or there.data == SMALL
            assert stream.outcome == ("published" if there else "aborted")
    assert s3.count(PUT) <= 40
    no_upload_left(s3)


@pytest.mark.rule("OBJ-6")
def test_parts_that_end_in_another_order(s3: ScriptedS3, gate: threading.Event) -> None:
    """The object has them in the order in which they were written."""
    s3.fail(UPLOAD, hold(gate), part=1)
    with file_system(s3) as fs:
        stream = fs.create(PATH)
        write_pieces(stream, DATA)
        closer = Task(stream.close)
        wait_until(
            lambda: any(sorted(u.parts) == [2, 3] for u in s3.uploads.values()), "parts 2 and 3"
        )
        assert s3.count(COMPLETE) == 0
        gate.set()
        closer.result()
        published(s3)


@pytest.mark.rule("WRITE-22", "CLOSE-14")
def test_a_store_that_takes_nothing(s3: ScriptedS3, gate: threading.Event) -> None:
    """write waits as soon as the stream's blocks are full, and goes on when the store does."""
    s3.fail(UPLOAD, hold(gate), times=4)
    with file_system(s3, {"fs.s3a.fast.upload.active.blocks": "2"}) as fs:
        stream = fs.create(PATH)
        data = DATA * 4
        written = 0

        def write_all() -> None:
            nonlocal written
            for start in range(0, len(data), MIB):
                written += stream.write(data[start : start + MIB])

        writer = Task(write_all)
        s3.wait_for(UPLOAD, 2)
        wait_until(lambda: written >= 10 * MIB, "the budget is used")
        assert not gate.wait(0.2)
        assert written <= 17 * MIB
        assert writer.is_alive()
        gate.set()
        writer.result()
        stream.close()
        published(s3, data)


@pytest.mark.rule("WRITE-22", "FAIL-7", "CONC-13")
def test_many_streams_of_two_blocks(s3: ScriptedS3) -> None:
    """They share connections and turns, and none waits for ever."""
    conf = {"fs.s3a.fast.upload.active.blocks": "2", "fs.s3a.threads.max": "4"}
    with file_system(s3, conf) as fs:
        data = DATA[: 6 * MIB]

        def one(number: int) -> Callable[[], Any]:
            return lambda: write(fs, data, f"/many/{number}")

        together(*(one(number) for number in range(24)))
    assert len(s3.objects) == 24
    assert all(stored.data == data for stored in s3.objects.values())
    no_upload_left(s3)


@pytest.mark.rule("WRITE-14", "OBJ-7")
def test_one_byte_more_than_the_parts_hold(s3: ScriptedS3) -> None:
    """Fails in the write that brings it, or a block later; nothing is published."""
    conf = {"hflush.s3.multipart.parts": "2", "hflush.s3.multipart.uniform": "true"}
    with file_system(s3, conf) as fs:
        write(fs, DATA[: 10 * MIB])
        published(s3, DATA[: 10 * MIB])
        s3.objects.clear()
        stream = fs.create(PATH)
        stream.write(DATA[: 10 * MIB])
        with pytest.raises(OSError, match=f"{10 * MIB} bytes does not fit in 2 parts"):
            write_pieces(stream, bytes(4 * MIB))
        with pytest.raises(OSError, match=f"{10 * MIB} bytes does not fit in 2 parts"):
            stream.close()
        unchanged(s3)


@pytest.mark.rule("ATOM-1", "FAIL-10")
@pytest.mark.rule("OBJ-2", divergence="s3")
@pytest.mark.parametrize("skip", [0, 1])
@pytest.mark.parametrize("operation", [PUT, CREATE, UPLOAD, COMPLETE])
@pytest.mark.parametrize("fault", [lose_answer, reset_after], ids=name_of)
def test_the_trial_of_conditions(s3: ScriptedS3, operation: str, fault: Fault, skip: int) -> None:
    """What a store honours is found out through faults, too, and nothing is left of the trial."""
    s3.fail(operation, fault, skip=skip)
    with file_system(s3, {"fs.s3a.create.conditional.enabled": "auto"}) as fs:
        write(fs, SMALL, overwrite=False)
        assert fs.contract_options["conditional-create"] is True
        with pytest.raises(FileExistsError):
            write(fs, DATA, overwrite=False)
    assert list(s3.objects) == [KEY]
    assert s3.objects[KEY].data == SMALL
    lost = operation == CREATE and fault is lose_answer
    wait_until(lambda: len(s3.uploads) == (1 if lost else 0), "every upload is ended")
