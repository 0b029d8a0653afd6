"""S3's file system over a scripted server: what is asked of the store, and what is made of it."""

from __future__ import annotations

import contextlib
import datetime
import errno
import io
import os
import random
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import hflush
import numpy
import pytest
from fsspec.spec import AbstractFileSystem  # type: ignore[import-untyped]
from hflush import cli, paths
from hflush import options as options_of
from hflush.fsspec import HflushS3FileSystem
from hflush.fsspec.places import Place
from hflush.s3 import PendingCommit, S3FileSystem, conditional, lacks, names
from hflush.s3.remembered import RememberedPaths
from hflush.tokens import Token
from support.s3_front import (
    Exchange,
    Fault,
    Request,
    answer,
    error_document,
    hold,
    lose_answer,
    make_answer,
)
from support.scripted_s3 import BUCKET, MIB, SECRET, WRITTEN, Refused, Rules, ScriptedS3
from support.waiting import DEADLINE_S, Task, soon, wait_until

PART = 5 * MIB
ROOT = f"s3://{BUCKET}/"
DATA = bytes(range(256)) * (2 * PART // 256) + b"tail"
QUICK = {
    "fs.s3a.multipart.size": "5M",
    "fs.s3a.retry.interval": "1ms",
    "fs.s3a.retry.throttle.interval": "1ms",
    "fs.s3a.retry.limit": "3",
}


@pytest.fixture
def server() -> Iterator[ScriptedS3]:
    with ScriptedS3() as server:
        yield server


@pytest.fixture
def fs(server: ScriptedS3) -> Iterator[S3FileSystem]:
    made = connect(server)
    yield made
    made.close()


def connect(server: ScriptedS3, **conf: Any) -> S3FileSystem:
    given = {name.replace("_", "."): value for name, value in conf.items()}
    made = hflush.FileSystem.new_instance(ROOT, {**server.conf, **QUICK, **given})
    return cast("S3FileSystem", made)


def asked(server: ScriptedS3) -> list[str]:
    """The operations since the last look."""
    operations = [request.operation for request in server.log]
    server.log.clear()
    return operations


def write(fs: S3FileSystem, path: str, data: bytes = b"data", **options: Any) -> Any:
    with fs.create(path, **options) as out:
        out.write(data)
    return out


class TestInstances:
    def test_schemes(self, server: ScriptedS3):
        for url in (ROOT, f"s3a://{BUCKET}/", f"s3n://{BUCKET}"):
            made = hflush.FileSystem.new_instance(url, server.conf)
            assert isinstance(made, S3FileSystem)
            assert made.uri == ROOT
            assert made._resolve(f"s3a://{BUCKET}//a/./b") == "/a/b"
        with pytest.raises(ValueError, match="wrong file system"):
            made._resolve("s3://other/a")
        for url in ("s3://AKID:hush@bucket/a", "s3://AKID:hu/sh@bucket/a"):
            with pytest.raises(ValueError, match="names a bucket alone") as caught:
                made._resolve(url)
            assert "hu" not in str(caught.value)
        with pytest.raises(ValueError, match=r"an ARN is not supported.*s3://ALIAS"):
            made._resolve("s3://arn:aws:s3:us-west-2:123456789012:accesspoint/name/key")
        assert server.log == []

    def test_the_default_file_system(self, server: ScriptedS3):
        conf = {**server.conf, "fs.defaultFS": ROOT}
        made = hflush.FileSystem.new_instance("/a", conf)
        assert made.uri == ROOT
        assert made._resolve("s3:///a") == "/a"

    @pytest.mark.parametrize("url", ["s3:///a", "s3:/a"])
    def test_a_bucket_is_needed(self, url: str):
        with pytest.raises(ValueError, match="must name a bucket"):
            hflush.FileSystem.get(url)

    def test_names(self, fs: S3FileSystem):
        with pytest.raises(hflush.InvalidPathError, match="UTF-8"):
            fs._resolve("/a\udcff")
        fs._resolve("/" + "é" * 512)
        with pytest.raises(OSError, match="too long: 1026 bytes") as refusal:
            fs._resolve("/" + "é" * 513)
        assert refusal.value.errno == errno.ENAMETOOLONG

    def test_keys_of_the_configuration_are_not_waited_for(self, server: ScriptedS3):
        """Nobody can have newer ones; where somebody can, that might take an hour here."""
        server.fail("ListObjectsV2", answer(400, "ExpiredToken"), times=None)
        with (
            connect(server, hflush_s3_credentials_wait="1h") as fs,
            soon(),
            pytest.raises(PermissionError, match="ExpiredToken"),
        ):
            fs.list_status("/")

    def test_usable_again_after_close(self, server: ScriptedS3, fs: S3FileSystem):
        write(fs, "/a")
        fs.close()
        assert fs.exists("/a")


class TestCreating:
    @pytest.mark.rule("CREATE-7", "BUILDER-13")
    @pytest.mark.stores("s3")
    def test_what_is_looked_for(self, server: ScriptedS3, fs: S3FileSystem):
        """A directory in the way, and files above it; the latter once."""
        write(fs, "/d/e/f")
        assert sorted(asked(server)) == ["HeadObject", "HeadObject", "ListObjectsV2", "PutObject"]
        write(fs, "/d/e/g")
        assert asked(server) == ["ListObjectsV2", "PutObject"]
        write(fs, "/d/h/i")
        assert sorted(asked(server)) == ["HeadObject", "ListObjectsV2", "PutObject"]
        write(fs, "/d/e/g", **{"fs.s3a.create.performance": True})
        assert asked(server) == ["PutObject"]

    def test_nothing_is_remembered(self, server: ScriptedS3):
        """Where that is asked for."""
        with connect(server, hflush_s3_create_remember="0") as fs:
            for _ in range(2):
                write(fs, "/d/e/f")
                assert asked(server).count("HeadObject") == 2

    @pytest.mark.parametrize(
        ("path", "asked_for"),
        [
            ("/a/b/c", {"a", "a/b", "?a/b/c/"}),
            ("/a/b/c/d/e/f", {"?a", "?a/b/c/d", "?a/b/c/d/e"}),
        ],
    )
    def test_what_is_looked_for_is_asked_at_once(
        self, server: ScriptedS3, fs: S3FileSystem, path: str, asked_for: set[str]
    ):
        """No question waits for the answer to another."""
        released = threading.Event()
        for operation in ("HeadObject", "ListObjectsV2"):
            server.fail(operation, hold(released), times=None)
        made = Task(lambda: fs.create(path).abort())
        try:
            wait_until(lambda: len(server.log) >= 3, "all questions are asked")
        finally:
            released.set()
        made.result()
        assert {call.key or "?" + call.query["prefix"] for call in server.log} == asked_for

    @pytest.mark.parametrize(
        ("there", "requests"),
        [
            ([], 4),  # a new tree
            (["a/b/c/x"], 4),  # a new folder in it
            (["a/b/c/d/x"], 4),  # its folder, with what is seen at a glance
            ([f"a/b/c/d/{n:04}" for n in range(99)], 5),
            (["a/b/x"], 4),
            ([f"a/a{n:04}" for n in range(99)], 5),  # what lies between is asked for
        ],
    )
    def test_the_first_object_deep_in_a_tree(
        self, server: ScriptedS3, fs: S3FileSystem, there: list[str], requests: int
    ):
        for key in there:
            server.put(key, b"")
        write(fs, "/a/b/c/d/f")
        assert len(asked(server)) == requests
        write(fs, "/a/b/c/d/g")
        assert len(asked(server)) == 2

    @pytest.mark.rule("CREATE-4", "CREATE-7")
    @pytest.mark.stores("s3")
    @pytest.mark.parametrize("keys_of_a_page", [1, 2, 32])
    def test_what_is_in_the_way_deep_in_a_tree(
        self, server: ScriptedS3, monkeypatch: pytest.MonkeyPatch, keys_of_a_page: int
    ):
        """Whatever else there is, and however little of it a page shows."""
        monkeypatch.setattr(names, "_GLANCE_KEYS", keys_of_a_page)
        above = ["a", "a/b", "a/b/c", "a/b/c/d"]
        beside = [f"{key}{end}" for key in above for end in ("-x", "/", "/x")]
        inside = ["a/b/c/d/f/", "a/b/c/d/f/x", "a/b/c/d/f", "a/b/c/d/f-x"]
        chance = random.Random(25)
        with connect(server) as fs:
            for _ in range(150):
                there = chance.sample(above + beside + inside, chance.randrange(5))
                server.objects.clear()
                for key in there:
                    server.put(key, b"")
                fs._no_files.forget("/")
                expected: type[Exception] | None = None
                if any(key.startswith("a/b/c/d/f/") for key in there):
                    expected = hflush.PathIsDirectoryError
                for key in above:
                    if any(other.startswith(key + "/") for other in there):
                        continue
                    if key in there:
                        expected = hflush.ParentNotDirectoryError
                refused: type[Exception] | None = None
                try:
                    fs.create("/a/b/c/d/f").abort()
                except OSError as refusal:
                    refused = type(refusal)
                assert refused is expected, there

    def test_who_may_not_list_is_not_kept_from_writing(self, server: ScriptedS3, fs: S3FileSystem):
        """What is above is looked at one by one then."""
        server.fail("ListObjectsV2", answer(403, "AccessDenied"), times=None)
        write(fs, "/a/b/c/d/f")
        assert asked(server).count("HeadObject") == 4
        server.put("z", b"a file")
        with pytest.raises(PermissionError):
            fs.create("/z/b/c/d/f")

    def test_what_is_not_asked_again_is_not_renewed(self, server: ScriptedS3, fs: S3FileSystem):
        """Creations that publish nothing do not keep what is above unasked for ever."""
        clock = [0.0]
        fs._no_files = RememberedPaths(60, clock=lambda: clock[0])
        for now, heads in ((0.0, 1), (50.0, 0), (61.0, 1)):
            clock[0] = now
            fs.create("/d/e").abort()
            assert asked(server).count("HeadObject") == heads

    def test_what_fsspec_publishes_is_forgotten(self, server: ScriptedS3, fs: S3FileSystem):
        """Its files have names of their own."""
        other = HflushS3FileSystem(conf=dict(fs.conf), skip_instance_cache=True)
        other.open("bucket/d/e/f", "wb").abort()
        other.pipe_file("bucket/d/e", b"a file")
        with pytest.raises(hflush.ParentNotDirectoryError, match="/d/e is a file"):
            other.open("bucket/d/e/g", "wb")

    def test_a_file_above_that_others_wrote_is_found_when_it_is_asked_again(
        self, server: ScriptedS3, fs: S3FileSystem
    ):
        write(fs, "/d/e/f")
        del server.objects["d/e/f"]
        server.put("d/e", b"a file")
        fs._no_files.forget("/d/e")  # as after the time for which it is remembered
        with pytest.raises(hflush.ParentNotDirectoryError, match="/d/e is a file"):
            fs.create("/d/e/g")

    @pytest.mark.parametrize("how", ["create", "rename", "copy", "uploader", "pending"])
    def test_a_file_that_was_put_above_is_seen_at_once(
        self, server: ScriptedS3, fs: S3FileSystem, how: str
    ):
        """By this file system: what it does itself it knows."""
        write(fs, "/d/e/f")
        fs.delete("/d/e/f")
        fs.delete("/d/e", recursive=True)
        with fs.create("/d/e/g") as again:  # remembered again
            again.abort()
        assert fs._no_files.missing(["/d/e"]) == []
        if how == "create":
            write(fs, "/d/e")
        elif how == "pending":
            with fs.create_pending("/d/e") as out:
                out.write(b"x")
            assert out.pending_commit is not None
            fs.complete_pending(out.pending_commit)
        elif how == "uploader":
            uploader = fs.create_multipart_uploader("/d")
            upload = uploader.start_upload("/d/e")
            handle = uploader.put_part(upload, "/d/e", 1, True, io.BytesIO(b"x"))
            uploader.complete(upload, "/d/e", {1: handle})
        else:
            write(fs, "/source")
            getattr(fs, how)("/source", "/d/e")
        assert "d/e" in server.objects
        with pytest.raises(hflush.ParentNotDirectoryError, match="/d/e is a file"):
            fs.create("/d/e/g")

    def test_a_directory_beside_a_file_of_its_name_is_a_directory(
        self, server: ScriptedS3, fs: S3FileSystem
    ):
        server.put("d", b"a file")
        server.put("d/e", b"and below it")
        write(fs, "/d/f")
        assert server.objects["d/f"].data == b"data"
        asked(server)
        write(fs, "/d/g")
        assert asked(server) == ["ListObjectsV2", "PutObject"]

    def test_what_may_not_be_looked_at_above_is_nobodys_business(
        self, server: ScriptedS3, fs: S3FileSystem
    ):
        """A prefix is all that this user may see: the folder in it that exists is enough."""
        server.put("team/a/there", b"")

        def refuse_above(exchange: Exchange) -> None:
            if exchange.request.key in {"team"}:
                exchange.send(make_answer(403))
            else:
                exchange.send(exchange.execute())

        server.fail("HeadObject", refuse_above, times=None)
        write(fs, "/team/a/b")
        assert server.objects["team/a/b"].data == b"data"

    @pytest.mark.rule("ATOM-1")
    @pytest.mark.rule("CREATE-2", divergence="s3")
    @pytest.mark.stores("s3")
    def test_creators_that_race_are_told_apart(self, server: ScriptedS3):
        """What is remembered is not the object itself: one of them publishes."""
        with connect(server, fs_s3a_create_conditional_enabled="true") as fs:
            write(fs, "/d/first")
            streams = [fs.create("/d/e", overwrite=False) for _ in range(3)]
            streams[0].close()
            for stream in streams[1:]:
                with pytest.raises(FileExistsError):
                    stream.close()
            with pytest.raises(FileExistsError):
                fs.create("/d/e", overwrite=False)

    @pytest.mark.rule("CREATE-6")
    @pytest.mark.stores("s3")
    def test_a_parent_that_is_missing(self, server: ScriptedS3, fs: S3FileSystem):
        with pytest.raises(FileNotFoundError, match="no parent"):
            fs.create("/no/parent", recursive=False)
        assert server.objects == {}

    @pytest.mark.rule("BUILDER-13")
    @pytest.mark.stores("s3")
    def test_headers(self, server: ScriptedS3, fs: S3FileSystem):
        out = fs.create_file("/a").must("fs.s3a.create.header.Owner", "ann")
        out.must("fs.s3a.create.header.Cache-Control", "no-store")
        with out.must("fs.option.create.content.type", "text/csv").build() as stream:
            stream.write(b"x")
        (put,) = (call for call in server.log if call.operation == "PutObject")
        assert put.head.get("x-amz-meta-owner") == "ann"
        assert put.head.get("cache-control") == "no-store"
        assert put.head.get("content-type") == "text/csv"
        write(fs, "/b", content_type="text/plain", storage_class="standard_ia")
        put = server.log[-1]
        assert put.head.get("x-amz-storage-class") == "STANDARD_IA"
        assert put.head.get("content-type") == "text/plain"
        write(fs, "/c")  # what was asked for others is not for this one
        put = server.log[-1]
        assert not put.head.get("x-amz-storage-class")
        assert put.head.get("content-type") == "application/octet-stream"

    def test_native_streams_are_output_streams(self, fs: S3FileSystem):
        """The core makes nothing else of what it has opened."""
        with pytest.raises(TypeError, match="subclass of OutputStream"):
            fs._bucket.client.create(cast("Any", object), "/a", "/a", fs._usual_options, False, "")

    @pytest.mark.rule("BUILDER-5", "BUILDER-6")
    @pytest.mark.stores("s3")
    def test_keys_that_are_no_options(self, server: ScriptedS3, fs: S3FileSystem):
        for key in ("fs.s3a.create.header.", "fs.s3a.create.nothing", "fs.hdfs.create.ec.policy"):
            with pytest.raises(ValueError, match="unknown here"):
                fs.create_file("/a").must(key, "x").build()
            fs.create_file("/a").opt(key, "x").build().close()
        with pytest.raises(ValueError, match="is reserved for hflush"):
            fs.create_file("/a").must("fs.s3a.create.header.hflush-token", "x").build()

    @pytest.mark.rule("BUILDER-6")
    @pytest.mark.stores("s3")
    @pytest.mark.parametrize(
        ("key", "value"),
        [
            ("fs.option.create.content.type", "a\r\nb"),
            ("fs.option.create.content.type", 3),
            ("fs.s3a.create.header.foo", "é"),
            ("fs.s3a.create.header.x y", "blank"),
            ("fs.s3a.create.header.foo", "x" * 3000),
            ("fs.s3a.create.storage.class", " "),
        ],
    )
    def test_hints_that_cannot_be_kept(
        self, server: ScriptedS3, fs: S3FileSystem, key: str, value: Any
    ):
        """Headers that cannot be sent are left out, and the others sent."""
        with pytest.raises((TypeError, ValueError)):
            fs.create_file("/a").must(key, value).build()
        builder = fs.create_file("/a").must("fs.s3a.create.header.owner", "ann")
        builder.opt(key, value).build().close()
        (put,) = (call for call in server.log if call.operation == "PutObject")
        sent = [put.head.get(name) for name in ("x-amz-meta-owner", "x-amz-meta-foo")]
        assert sent == ["ann", ""]

    def test_hints(self, server: ScriptedS3, fs: S3FileSystem):
        """A block size is brought within what parts can be; modes and copies mean nothing."""
        write(fs, "/a", DATA, block_size="1", replication=3, permission=0o600)
        assert server.objects["a"].data == DATA
        assert asked(server).count("UploadPart") == 3
        large = options_of.CreateOptions(options_of.asked(block_size=1 << 30))  # for HDFS
        assert fs._native_options(large).block_bytes == 64 << 20  # of which memory holds several

    @pytest.mark.rule("CLOSE-8")
    @pytest.mark.stores("s3")
    def test_outcomes(self, server: ScriptedS3, fs: S3FileSystem):
        """What became of a stream can be asked for after it, however often it is closed."""
        out: Any = fs.create("/a")
        assert (out.outcome, out.etag) == ("open", None)
        out.write(b"data")
        out.close()
        assert (out.outcome, out.etag) == ("published", server.objects["a"].etag.strip('"'))
        aborted: Any = fs.create("/a")
        aborted.abort()
        assert (aborted.outcome, aborted.etag) == ("aborted", None)
        server.fail("PutObject", answer(403, "AccessDenied"), times=None)
        failed: Any = fs.create("/a")
        failed.write(b"more")
        with pytest.raises(PermissionError):
            failed.close()
        failed.close()
        assert failed.outcome == "failed"

    @pytest.mark.rule("CLOSE-20", divergence="s3")
    @pytest.mark.stores("s3")
    def test_requests_of_streams_are_counted_once(self, server: ScriptedS3, fs: S3FileSystem):
        write(fs, "/k", DATA)
        counters = fs.io_statistics().counters
        for name, operation in (
            ("multipart_upload_part_put", "UploadPart"),
            ("object_multipart_initiated", "CreateMultipartUpload"),
            ("multipart_upload_completed", "CompleteMultipartUpload"),
            ("object_list_request", "ListObjectsV2"),
        ):
            made = [request for request in server.log if request.operation == operation]
            assert counters[name] == len(made), operation

    def test_closing_the_file_system(self, server: ScriptedS3):
        fs = connect(server)
        first, second, done = (fs.create(f"/{name}") for name in "abc")
        first.write(DATA)
        second.write(b"data")
        done.close()
        with pytest.raises(OSError, match="not published") as failure:
            fs.close()
        assert failure.value.errno == errno.ECANCELED
        assert len(getattr(failure.value, "__notes__", [])) == 1
        assert list(server.objects) == ["c"]
        assert not server.uploads
        fs.close()

    @pytest.mark.rule("CLOSE-18")
    @pytest.mark.stores("s3")
    def test_leaving_the_file_system_by_an_exception(self, server: ScriptedS3):

        def leave() -> None:
            with connect(server) as fs:
                out = fs.create("/a")
                out.write(b"data")
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError) as failure:
            leave()
        assert "not published" in str(getattr(failure.value, "__notes__", ""))
        assert server.objects == {}

    def test_what_was_persisted_stays(self, server: ScriptedS3):
        """Neither closing the file system nor a close that is refused ends its upload."""
        fs = connect(server, fs_s3a_create_conditional_enabled="false")
        streams = [fs.create(path, overwrite=False) for path in ("/open", "/refused")]
        for out in streams:
            out.write(DATA)
        tokens = [out.persist() for out in streams]
        server.put("refused", b"of another")
        with pytest.raises(FileExistsError):
            streams[1].close()
        with pytest.raises(OSError, match="not published"):
            fs.close()
        del server.objects["refused"]
        for token in tokens:
            fs.resume(token).close()
        assert {stored.data for stored in server.objects.values()} == {DATA}

    def test_the_tail_of_another_writer_stays(self, server: ScriptedS3):
        """Also where one that hung wakes up, and persists as many bytes."""
        fs = connect(server)
        hung = fs.create("/a")
        hung.write(b"1" * 100)
        other = fs.resume(hung.persist())
        other.write(b"2" * 100)
        token = other.persist()
        hung.write(b"3" * 100)
        hung.persist()
        with fs.resume(token) as last:
            assert last.tell() == 200
        for out in (hung, other):
            out.abort()
        assert {key: o.data for key, o in server.objects.items()} == {"a": b"1" * 100 + b"2" * 100}

    def test_a_tail_is_stored_once(self, server: ScriptedS3):
        with connect(server).create("/a") as out:
            out.write(b"1" * 100)
            assert {Token.unpack(out.persist()).length for _ in range(3)} == {100}
            assert server.count("PutObject") == 1
            out.write(b"2")
            out.persist()
            assert server.count("PutObject") == 2

    def test_an_upload_that_another_has_ended(self, server: ScriptedS3):
        """Nothing else would tell, as long as no part is put."""
        fs = connect(server)
        out = fs.create("/a")
        out.write(b"1" * 100)
        fs.commit(out.persist())
        out.write(b"2")
        with pytest.raises(hflush.StaleTokenError, match="published or aborted"):
            out.persist()
        assert set(server.objects) == {"a"}
        out.abort()

    def test_the_object_that_was_to_be_replaced_is_gone(self, server: ScriptedS3):
        """The upload goes on: its token is as good as before."""
        fs = connect(server, fs_s3a_create_conditional_enabled="true")
        server.put("a", b"old")
        out = fs.create("/a", if_match=fs.get_file_status("/a").etag)
        out.write(DATA)
        token = out.persist()
        out._abandon()
        old = server.objects.pop("a")
        with pytest.raises(FileNotFoundError, match="NoSuchKey"):
            fs.commit(token)
        server.objects["a"] = old
        fs.commit(token)
        assert server.objects["a"].data == DATA

    @pytest.mark.parametrize("end", ["close", "abort"])
    def test_an_end_while_the_tail_is_stored(self, server: ScriptedS3, end: str):
        """By another thread: nothing of the upload is left then, and there is no token."""
        out = connect(server).create("/a")
        out.write(b"1" * 100)
        has_ended = threading.Event()
        server.fail("PutObject", hold(has_ended))
        persisting = Task(out.persist)
        wait_until(lambda: server.count("PutObject") == 1, "the tail is under way")
        getattr(out, end)()
        has_ended.set()
        with pytest.raises(hflush.StaleTokenError, match="published or aborted"):
            persisting.result()
        assert set(server.objects) == ({"a"} if end == "close" else set())

    def test_without_the_right_to_list_parts(self, server: ScriptedS3):
        server.fail("ListParts", answer(403, "AccessDenied"), times=None)
        fs = connect(server)
        for end in (fs.commit, lambda token: fs.resume(token).close()):
            out = fs.create("/a")
            out.write(DATA)
            token = out.persist()
            out._abandon()
            end(token)
            fs.commit(token)
            assert server.objects.pop("a").data == DATA
        with pytest.raises(hflush.StaleTokenError):
            fs.commit(token)

    def test_a_first_persist_that_is_interrupted(self, server: ScriptedS3):
        class Interrupted:
            def __init__(self, upload: Any) -> None:
                self.upload = upload

            def keep(self, offset: int) -> None:
                if self.upload.keep(offset) is not None:
                    raise KeyboardInterrupt

            def __getattr__(self, name: str) -> Any:
                return getattr(self.upload, name)

        out: Any = connect(server).create("/a")
        out.write(DATA)
        out._upload = Interrupted(out._upload)
        with pytest.raises(KeyboardInterrupt):
            out.persist()
        out.abort()
        assert server.uploads == {}

    @pytest.mark.parametrize("how", ["left", "closed"])
    def test_an_upload_without_a_token_is_ended(self, server: ScriptedS3, how: str):
        """No persist has returned: nobody could go on with it."""
        fs = connect(server)
        server.fail("PutObject", answer(403, "AccessDenied"), times=None)
        server.fail("CompleteMultipartUpload", answer(403, "AccessDenied"), times=None)

        def write() -> None:
            with fs.create("/a") as out:
                out.write(DATA)
                try:
                    out.persist()
                except PermissionError:
                    if how == "left":
                        raise

        with pytest.raises(PermissionError):
            write()
        assert server.uploads == {}

    def test_abort_of_an_upload_beside_another_that_may_be_left(self, server: ScriptedS3):
        """That is the answer; what is known to be there goes all the same."""
        server.fail("CreateMultipartUpload", lose_answer)
        fs = connect(server)
        out = fs.create("/a")
        out.write(b"data")
        token = out.persist()
        assert "another upload may be left" in str(out.abort().cleanup_exception)
        assert len(server.uploads) == 1
        assert not server.objects
        with pytest.raises(hflush.StaleTokenError):
            fs.commit(token)

    def test_what_a_failed_persist_may_have_left(self, server: ScriptedS3):
        server.fail("CreateMultipartUpload", lose_answer, times=None)
        out = connect(server).create("/a")
        with pytest.raises(OSError, match="CreateMultipartUpload"):
            out.persist()
        assert "may be left" in str(out.abort().cleanup_exception)

    def test_text(self, server: ScriptedS3):
        """An exception in the block of a text stream publishes nothing either."""
        conf = {**server.conf, **QUICK}

        def leave() -> None:
            with hflush.open(f"{ROOT}a", "wt", conf=conf) as out:
                out.write("text")
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            leave()
        assert server.objects == {}
        with hflush.open(f"{ROOT}a", "w", encoding="utf-16", conf=conf) as out:
            out.write("té")
        assert server.objects["a"].data == "té".encode("utf-16")
        with hflush.open(f"{ROOT}a", encoding="utf-16", conf=conf) as text:
            assert text.read() == "té"

    @pytest.mark.rule("OBJ-11", "HFLUSH-1", refused="s3")
    @pytest.mark.rule("STATS-7")
    @pytest.mark.stores("s3")
    def test_downgraded_syncs(self, server: ScriptedS3):
        for key in ("fs.s3a.downgrade.syncable.exceptions", "hflush.syncable.downgrade"):
            fs = connect(server, **{key: True})
            out = fs.create("/a")
            with pytest.warns(RuntimeWarning, match="does nothing on s3"):
                out.hsync()
            out.hflush()
            assert not out.has_capability("hsync")
            counters = out.io_statistics().counters
            assert (counters["op_hflush"], counters["op_hsync"]) == (1, 1)
            out.close()
            with pytest.raises(hflush.StreamClosedError):
                out.hsync()

    def test_progress(self, fs: S3FileSystem):
        calls: list[int] = []
        out = fs.create_file("/a").progress(lambda: calls.append(1)).build()
        with out:
            out.write(b"data")
            with pytest.raises(io.UnsupportedOperation):
                out.hsync()
        assert calls

    def test_disk_buffers(self, server: ScriptedS3, tmp_path: Any):
        """In the first directory that can be had: disks of a machine may be broken."""
        directory = tmp_path / "made"
        directories = f"/dev/null/none,{directory},/other"
        fs = connect(server, fs_s3a_fast_upload_buffer="disk", fs_s3a_buffer_dir=directories)
        write(fs, "/a", DATA)
        assert server.objects["a"].data == DATA
        assert list(directory.iterdir()) == []


def refuses_conditions(status: int, code: str = "") -> Fault:
    """Answer requests that have conditions so."""

    def refuse(exchange: Exchange) -> None:
        head = exchange.request.head
        if head.get("if-none-match") or head.get("if-match"):
            exchange.read_request()
            exchange.send(make_answer(status, error_document(code) if code else ""))
        else:
            exchange.send(exchange.execute())

    return refuse


def honours(**rules: bool) -> Any:
    """A fault for the conditional requests that a store ignores or refuses."""

    def ignore(exchange: Exchange) -> None:
        head = exchange.request.head
        kept = [(n, v) for n, v in head.headers if n.lower() not in ("if-none-match", "if-match")]
        if len(kept) == len(head.headers):
            exchange.send(exchange.execute())
            return
        exchange.read_request()
        there = exchange.front.objects.get(exchange.request.key)  # type: ignore[attr-defined]
        exchange.front.objects.pop(exchange.request.key, None)  # type: ignore[attr-defined]
        if head.get("if-match") and there is not None:
            etag = head.get("if-match")
            there.etag = etag
            exchange.front.objects[exchange.request.key] = there  # type: ignore[attr-defined]
        exchange.send(exchange.execute())

    return ignore


@pytest.fixture(autouse=True)
def _nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conditional, "_known", {})
    monkeypatch.setattr(lacks, "_known", {})


class KeepsQuotes(ScriptedS3):
    """Compares what is sent with an etag without quotes, as Ceph's gateway."""

    def _check_conditions(self, request: Request) -> None:
        there = self.objects.get(request.key)
        wanted = request.head.get("if-match")
        if wanted and there is not None and wanted != there.etag.strip('"'):
            raise Refused(412, "PreconditionFailed")
        super()._check_conditions(request)


class ForgetsTheAbsent(ScriptedS3):
    """Checks no etag where there is no object, as MinIO did."""

    def _check_conditions(self, request: Request) -> None:
        if not request.head.get("if-match") or request.key in self.objects:
            super()._check_conditions(request)


class TestConditions:
    """Conditional writes are tried out, not assumed."""

    NAME = "fs.option.create.conditional.overwrite"

    @pytest.mark.rule("BUILDER-16", "ATOM-1")
    @pytest.mark.stores("s3")
    def test_a_store_that_checks(self, server: ScriptedS3, fs: S3FileSystem):
        assert not fs.has_path_capability("/a", self.NAME)
        out = fs.create("/d/a", overwrite=False)
        assert fs.has_path_capability("/a", self.NAME)
        assert fs.has_path_capability("/a", f"{self.NAME}.etag")
        assert out.has_capability(self.NAME)
        probes = {request.key for request in server.log if ".hflush-probe-" in request.key}
        assert len(probes) == 2
        assert all(key.startswith("d/.hflush-probe-") for key in probes)
        assert server.count("PutObject") == 5
        assert not server.objects
        assert not server.uploads
        server.put("d/a", b"theirs")
        with pytest.raises(FileExistsError):
            out.close()
        assert server.objects["d/a"].data == b"theirs"
        asked(server)
        with pytest.raises(FileExistsError):
            fs.create("/d/a", overwrite=False)
        assert sorted(asked(server)) == ["HeadObject", "ListObjectsV2"]
        assert fs.contract_options["conditional-create"] is True

    @pytest.mark.rule("BUILDER-15")
    @pytest.mark.rule("CREATE-2", divergence="s3")
    @pytest.mark.stores("s3")
    @pytest.mark.parametrize("operation", ["PutObject", "CompleteMultipartUpload"])
    def test_a_store_that_ignores_them(self, server: ScriptedS3, operation: str):
        """radosgw does so of one operation, rclone of the other: then we look, twice."""
        server.fail(operation, honours(), times=None)
        fs = connect(server)
        out = fs.create("/a", overwrite=False)
        assert not out.has_capability(self.NAME)
        assert not fs.has_path_capability("/a", self.NAME)
        out.write(b"mine")
        server.put("a", b"theirs")
        with pytest.raises(FileExistsError):
            out.close()
        assert server.objects["a"].data == b"theirs"
        assert cast("Any", out).outcome == "aborted"
        for wish in ("opt", "must"):
            for name, value in ((self.NAME, True), (f"{self.NAME}.etag", "e")):
                builder = getattr(fs.create_file("/a"), wish)(name, value)
                with pytest.raises(ValueError, match="does not check"):
                    builder.build()
        assert fs.contract_options["conditional-create"] is False
        assert list(server.objects) == ["a"]
        assert not server.uploads

    @pytest.mark.rule("CKPT-16")
    @pytest.mark.stores("s3")
    @pytest.mark.parametrize("more", [-1, 0, 1])
    def test_one_wins_where_uploads_are_not_checked(self, server: ScriptedS3, more: int):
        """As at radosgw: a whole block begins an upload, so that there is no winner to be had."""
        server.fail("CompleteMultipartUpload", honours(), times=None)
        fs = connect(server, fs_s3a_multipart_size=str(5 * MIB))
        data = bytes(5 * MIB + more)
        if more < 0:
            assert [fs.put_if_absent("/a", data) for _ in range(2)] == [True, False]
        else:
            with pytest.raises(io.UnsupportedOperation, match="checks If-None-Match"):
                fs.put_if_absent("/a", data)

    @pytest.mark.parametrize("kind", [KeepsQuotes, ForgetsTheAbsent])
    def test_a_store_that_checks_etags_wrongly(self, kind: type[ScriptedS3]):
        """Names that have to be free are checked; an etag is refused, and nothing is written."""
        with kind() as server, connect(server) as fs:
            write(fs, "/a", overwrite=False)
            etag = fs.get_file_status("/a").etag
            for path in ("/a", "/gone"):
                with pytest.raises(ValueError, match="does not check"):
                    fs.create(path, if_match=etag)
            assert fs.has_path_capability("/a", self.NAME)
            assert not fs.has_path_capability("/a", f"{self.NAME}.etag")
            assert list(server.objects) == ["a"]

    @pytest.mark.rule("FAIL-1")
    @pytest.mark.rule("ATOM-1")
    @pytest.mark.stores("s3")
    @pytest.mark.parametrize("is_taken", [True, False])
    def test_a_store_that_checks_small_ones(self, server: ScriptedS3, is_taken: bool):
        """Who comes between our look and our one request has won, unless parts are refused."""
        ignored = honours() if is_taken else refuses_conditions(501)
        server.fail("CompleteMultipartUpload", ignored, times=None)
        fs = connect(server)
        out = fs.create("/a", overwrite=False)
        assert not out.has_capability(self.NAME)
        out.write(b"mine")

        def be_late(exchange: Exchange) -> None:
            exchange.read_request()
            server.put("a", b"theirs")
            exchange.send(exchange.execute())

        server.fail("PutObject", be_late)
        if is_taken:
            with pytest.raises(FileExistsError):
                out.close()
        else:
            out.close()
        assert server.objects["a"].data == (b"theirs" if is_taken else b"mine")
        write(fs, "/large", DATA, overwrite=False)
        assert server.objects["large"].data == DATA

    @pytest.mark.parametrize(("status", "code"), [(400, "ExpiredToken"), (400, "RequestTimeout")])
    def test_trouble_during_the_trial(self, server: ScriptedS3, status: int, code: str):
        """Says nothing of the store: the next one is tried out."""
        fs = connect(server, fs_s3a_retry_limit="0")
        server.fail("PutObject", answer(status, code), skip=1, times=2)
        with pytest.raises((PermissionError, TimeoutError), match=code):
            fs.put_if_absent("/a", b"1")
        server.heal()
        assert [fs.put_if_absent("/a", data) for data in (b"1", b"2")] == [True, False]

    @pytest.mark.parametrize(
        ("status", "code"), [(400, "NotSupported"), (403, "AccessDenied"), (501, "")]
    )
    def test_a_store_that_refuses_them(self, server: ScriptedS3, status: int, code: str):
        server.fail("PutObject", refuses_conditions(status, code), times=None)
        with connect(server) as fs:
            write(fs, "/a", overwrite=False)
            assert not fs.has_path_capability("/a", self.NAME)
            write(fs, "/b", overwrite=False)
        assert sorted(server.objects) == ["a", "b"]

    def test_a_directory_that_refuses(self, server: ScriptedS3, fs: S3FileSystem):
        """Says nothing of others."""
        server.fail("PutObject", answer(403, "AccessDenied"))
        fs.create("/a", overwrite=False).abort()
        assert not fs.has_path_capability("/a", self.NAME)
        assert "PutObject" in asked(server)
        fs.create("/b", overwrite=False).abort()
        assert fs.has_path_capability("/a", self.NAME)

    def test_trouble_is_no_answer(self, server: ScriptedS3, fs: S3FileSystem):
        """What failed on the way is tried again the next time."""
        server.fail("PutObject", answer(500, "InternalError"), times=None)
        with pytest.raises(OSError, match="InternalError"):
            fs.create("/a", overwrite=False)
        server.heal()
        write(fs, "/a", overwrite=False)
        assert fs.has_path_capability("/a", self.NAME)

    @pytest.mark.rule("BUILDER-15")
    @pytest.mark.stores("s3")
    def test_switched_off(self, server: ScriptedS3):
        fs = connect(server, fs_s3a_create_conditional_enabled=False)
        for wish in ("opt", "must"):
            builder = getattr(fs.create_file("/a"), wish)(self.NAME, True)
            with pytest.raises(ValueError, match=r"switched off by fs\.s3a\.create\.conditional"):
                builder.build()
        write(fs, "/a", overwrite=False)
        assert "HeadObject" in asked(server)
        with pytest.raises(FileExistsError):
            fs.create("/a", overwrite=False)

    def test_two_threads_close(self, server: ScriptedS3, monkeypatch: pytest.MonkeyPatch):
        """The one that is late does not take the object for another's."""
        fs = connect(server, fs_s3a_create_conditional_enabled=False)
        refuse_existing = fs._refuse_existing
        out = fs.create("/a", overwrite=False)
        out.write(b"data")

        def late(path: str) -> None:
            monkeypatch.undo()
            with ThreadPoolExecutor(1) as threads:
                threads.submit(out.close).result()
            refuse_existing(path)

        monkeypatch.setattr(fs, "_refuse_existing", late)
        out.close()
        assert (out.outcome, server.objects["a"].data) == ("published", b"data")

    def test_switched_on(self, server: ScriptedS3):
        """Without a trial; with the performance option, without a look."""
        fs = connect(server, fs_s3a_create_conditional_enabled=True, fs_s3a_create_performance=True)
        write(fs, "/a", overwrite=False)
        assert asked(server) == ["PutObject"]
        with pytest.raises(FileExistsError) as refusal:
            write(fs, "/a", b"more", overwrite=False)
        assert refusal.value.filename == "s3://bucket/a"
        assert asked(server) == ["PutObject"]
        assert server.objects["a"].data == b"data"

    @pytest.mark.rule("BUILDER-16")
    @pytest.mark.stores("s3")
    @pytest.mark.parametrize("data", [b"", b"new", DATA], ids=["empty", "small", "large"])
    def test_etags(self, server: ScriptedS3, fs: S3FileSystem, data: bytes):
        server.put("a", b"old")
        etag = fs.get_file_status("/a").etag
        assert etag
        out = write(fs, "/a", data, if_match=f'"{etag}"')
        assert server.objects["a"].data == data
        assert out.has_capability(f"{self.NAME}.etag")
        late = fs.create("/a", if_match=etag)
        late.write(data + b"late")
        with pytest.raises(hflush.PreconditionFailedError):
            late.close()
        assert server.objects["a"].data == data
        assert not server.uploads
        for wrong in ("", '""', 'a"b', "a\nb", 7):
            with pytest.raises((ValueError, TypeError), match="etag"):
                fs.create("/a", if_match=wrong)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="cannot be absent"):
            fs.create("/a", overwrite=False, if_match=etag)


def test_what_serves_others_is_in_no_archive(server: ScriptedS3):
    """Markers, and the tail of a token, which is read again; the object itself has its class."""
    fs = connect(server, fs_s3a_create_storage_class="glacier", fs_s3a_create_performance="true")
    fs.mkdirs("/d")
    assert not server.log[-1].head.get("x-amz-storage-class")
    out = fs.create("/a")
    out.write(b"x")
    out.persist()
    classes = {request.operation: request.head.get("x-amz-storage-class") for request in server.log}
    out.abort()
    assert (classes["CreateMultipartUpload"], classes["PutObject"]) == ("GLACIER", "")


class TestPending:
    """Publications that are handed over."""

    def pending(self, fs: S3FileSystem, data: bytes = DATA, **options: Any) -> PendingCommit:
        out = fs.create_pending("/d/a", **options)
        assert out.has_capability("fs.s3a.capability.magic.output.stream")
        assert out.pending_commit is None
        out.write(data)
        out.close()
        assert out.outcome == "pending"
        commit = out.pending_commit
        assert commit is not None
        return commit

    def test_one_that_is_completed_meanwhile(self, server: ScriptedS3, fs: S3FileSystem):
        """Between the look at the key and the look at the upload: it is found by a third."""
        commit = self.pending(fs)

        def be_late(exchange: Exchange) -> None:
            server.heal()
            connect(server).complete_pending(commit)
            exchange.send(exchange.execute())

        server.fail("CompleteMultipartUpload", answer(500, "InternalError"), times=None)
        server.fail("ListParts", be_late)
        assert fs.complete_pending(commit) == server.objects["d/a"].etag.strip('"')

    @pytest.mark.parametrize("answers", [True, False])
    def test_an_answer_without_an_etag(self, server: ScriptedS3, fs: S3FileSystem, answers: bool):
        """Radosgw leaves it empty: the object has it; published it is in any case."""
        commit = self.pending(fs)

        def leave_it_out(exchange: Exchange) -> None:
            exchange.execute()
            document = (
                b"<CompleteMultipartUploadResult><ETag></ETag></CompleteMultipartUploadResult>"
            )
            exchange.send(make_answer(200, document, content_type="application/xml"))

        server.fail("CompleteMultipartUpload", leave_it_out)
        if not answers:
            server.fail("HeadObject", answer(403, "AccessDenied"), times=None)
        etag = fs.complete_pending(commit)
        assert etag == (server.objects["d/a"].etag.strip('"') if answers else "")
        assert not server.uploads

    @pytest.mark.parametrize("data", [b"", b"small", DATA], ids=["empty", "small", "large"])
    def test_another_process_completes(self, server: ScriptedS3, fs: S3FileSystem, data: bytes):
        commit = self.pending(fs, data)
        assert server.objects == {}
        assert SECRET.encode() not in commit.to_bytes()
        program = """
            import sys, hflush
            from hflush.s3 import PendingCommit
            fs = hflush.FileSystem.get(sys.argv[1], eval(sys.argv[2]))
            commit = PendingCommit.from_bytes(sys.stdin.buffer.read())
            print(fs.complete_pending(commit))
        """
        run = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(program), ROOT, repr(server.conf)],
            input=commit.to_bytes(),
            capture_output=True,
            check=True,
        )
        stored = server.objects["d/a"]
        assert stored.data == data
        assert run.stdout.decode().strip() == stored.etag.strip('"')
        assert not server.uploads
        # Doing it again does no harm.
        assert fs.complete_pending(commit) == stored.etag.strip('"')
        assert server.objects["d/a"] is stored

    @pytest.mark.parametrize("data", [b"", DATA], ids=["empty", "large"])
    def test_aborted(self, server: ScriptedS3, fs: S3FileSystem, data: bytes):
        commit = self.pending(fs, data)
        assert fs.abort_pending(commit) is True
        assert not server.uploads
        assert fs.abort_pending(commit) is False
        with pytest.raises(FileNotFoundError, match="no such upload"):
            fs.complete_pending(commit)
        assert server.objects == {}

    def test_what_the_commit_of_a_job_knows_of_it(self, server: ScriptedS3, fs: S3FileSystem):
        """Handles, which are text; a name of its own is not looked at beforehand."""
        handles = []
        for name in ("kept", "dropped"):
            out = fs._create_delayed(f"/d/{name}")
            out.write(DATA)
            out.close()
            handles.append(fs._delayed_handle(out))
        assert "HeadObject" not in asked(server)
        with pytest.raises(ValueError, match="is not s3://bucket/d/other"):
            fs._publish_delayed(handles[0], "/d/other")
        fs._publish_delayed(handles[0], "/d/kept")
        fs._drop_delayed(handles[1])
        assert server.objects.keys() == {"d/kept"}
        assert not server.uploads
        with pytest.raises(FileNotFoundError):
            fs._publish_delayed(handles[1], "/d/dropped")

    def test_nobody_else_ends_it(self, server: ScriptedS3):
        """Neither its stream's end nor its file system's."""
        fs = connect(server)
        commit = self.pending(fs)
        fs.close()
        del fs
        assert len(server.uploads) == 1
        connect(server).complete_pending(commit)
        assert server.objects["d/a"].data == DATA

    @pytest.mark.rule("OBJ-10", "FAIL-10")
    @pytest.mark.stores("s3")
    @pytest.mark.parametrize("repeated", [False, True])
    def test_an_answer_that_is_lost(self, repeated: bool):
        with ScriptedS3(Rules(repeated_complete=repeated)) as server, connect(server) as fs:
            commit = self.pending(fs)
            server.fail("CompleteMultipartUpload", lose_answer)
            assert fs.complete_pending(commit) == server.objects["d/a"].etag.strip('"')
            assert server.objects["d/a"].data == DATA

    @pytest.mark.parametrize("takes_empty_parts", [True, False])
    def test_an_empty_object(self, server: ScriptedS3, fs: S3FileSystem, takes_empty_parts: bool):
        """radosgw takes no upload of an empty part; what else the object has is kept elsewhere."""
        with fs.create_pending("/a", content_type="text/plain") as out:
            pass
        commit = out.pending_commit
        assert commit == out.pending_commit
        assert commit is not None
        if not takes_empty_parts:
            server.fail("CompleteMultipartUpload", answer(400, "InvalidPart"), times=None)
        etag = fs.complete_pending(commit)
        assert server.objects["a"].data == b""
        assert etag == server.objects["a"].etag.strip('"')
        assert not server.uploads
        assert fs.complete_pending(commit) == etag
        if takes_empty_parts:
            assert server.objects["a"].headers["content-type"] == "text/plain"

    @pytest.mark.parametrize("times", [1, 3])
    def test_errors_of_the_server(self, server: ScriptedS3, fs: S3FileSystem, times: int):
        """Not executed: the upload is there, so it is asked for again."""
        commit = self.pending(fs)
        server.fail("CompleteMultipartUpload", answer(500, "InternalError"), times=times)
        fs.complete_pending(commit)
        assert server.objects["d/a"].data == DATA

    def test_a_server_that_never_does_it(self, server: ScriptedS3, fs: S3FileSystem):
        commit = self.pending(fs)
        server.fail("CompleteMultipartUpload", answer(500, "InternalError"), times=None)
        with pytest.raises(OSError, match="InternalError"):
            fs.complete_pending(commit)
        assert server.objects == {}
        assert len(server.uploads) == 1
        server.heal()
        fs.complete_pending(commit)

    def test_what_cannot_be_told(self, server: ScriptedS3, fs: S3FileSystem):
        """Lost, and then replaced by somebody: never success."""
        commit = self.pending(fs)

        def replace(exchange: Exchange) -> None:
            exchange.execute()
            server.put("d/a", b"theirs")
            exchange.reset()

        server.fail("CompleteMultipartUpload", replace)
        with pytest.raises(OSError, match="outcome unknown"):
            fs.complete_pending(commit)
        assert server.objects["d/a"].data == b"theirs"

    def test_a_condition(self, server: ScriptedS3, fs: S3FileSystem):
        commit = self.pending(fs, overwrite=False)
        assert commit.if_absent
        server.put("d/a", b"theirs")
        with pytest.raises(FileExistsError):
            fs.complete_pending(commit)
        assert server.objects["d/a"].data == b"theirs"
        assert len(server.uploads) == 1
        del server.objects["d/a"]
        fs.complete_pending(commit)
        fs.complete_pending(commit)  # its own object is no obstacle

    def test_a_condition_that_the_store_ignores(self, server: ScriptedS3):
        """Whoever completes it looks."""
        server.fail("CompleteMultipartUpload", honours(), times=None)
        fs = connect(server)
        commit = self.pending(fs, overwrite=False)
        assert commit.if_absent
        server.put("d/a", b"theirs")
        with pytest.raises(FileExistsError):
            fs.complete_pending(commit)
        assert server.objects["d/a"].data == b"theirs"
        assert len(server.uploads) == 1
        del server.objects["d/a"]
        etag = fs.complete_pending(commit)
        assert fs.complete_pending(commit) == etag
        assert server.objects["d/a"].data == DATA

    def test_those_of_others(self, server: ScriptedS3, fs: S3FileSystem):
        commit = self.pending(fs)
        with pytest.raises(ValueError, match="wrong file system"):
            hflush.FileSystem.new_instance("s3://other/", server.conf).complete_pending(commit)
        with pytest.raises(TypeError, match="PendingCommit"):
            fs.complete_pending(commit.to_bytes())  # type: ignore[arg-type]

    def test_a_failed_stream_has_none(self, server: ScriptedS3, fs: S3FileSystem):
        server.fail("UploadPart", answer(403, "AccessDenied"), times=None)
        out = fs.create_pending("/a")

        # A part that is refused early fails the write, too; close() reports it in any case, once.
        with contextlib.suppress(PermissionError):
            out.write(DATA)
        with pytest.raises(PermissionError):
            out.close()
        out.close()
        assert out.pending_commit is None
        assert out.outcome == "failed"
        assert not server.uploads


class TestReading:
    @pytest.mark.rule("READ-19")
    @pytest.mark.stores("s3")
    def test_a_status_saves_the_look(self, server: ScriptedS3, fs: S3FileSystem):
        server.put("d/a", b"data")
        (status,) = fs.list_status("/d")
        asked(server)
        with fs.open_file("/d/a").with_file_status(status).build().result() as reader:
            assert reader.read() == b"data"
        assert asked(server) == ["GetObject"]
        server.put("d/a", b"more")
        with (
            fs.open_file("/d/a").with_file_status(status).build().result() as reader,
            pytest.raises(hflush.PreconditionFailedError),
        ):
            reader.read()

    @pytest.mark.parametrize("policy", ["random", "sequential", "nonsense, whole-file", "adaptive"])
    def test_policies(self, server: ScriptedS3, fs: S3FileSystem, policy: str):
        server.put("a", DATA)
        with fs.open("/a", read_policy=policy) as reader:
            assert reader.pread(7, 5) == DATA[7:12]
            assert reader.read(100) == DATA[:100]
            assert reader.etag == server.objects["a"].etag.strip('"')  # type: ignore[attr-defined]

    @pytest.mark.parametrize(
        ("options", "ahead"),
        [
            ({"fs.s3a.experimental.input.fadvise": "random"}, (64 << 10, 0)),
            ({"fs.s3a.experimental.input.fadvise": "normal, random"}, (1 << 20, 4 << 20)),
            ({"fs.s3a.readahead.range": "128k"}, (128 << 10, 4 << 20)),
            ({"fs.s3a.async.drain.threshold": 0}, (1 << 20, 4 << 20)),
            (
                {
                    "fs.s3a.experimental.input.fadvise": "random",
                    "fs.option.openfile.read.policy": "sequential",
                },
                (1 << 20, 8 << 20),
            ),
        ],
    )
    def test_options_of_s3a(
        self, server: ScriptedS3, fs: S3FileSystem, options: dict[str, Any], ahead: tuple[int, int],
        monkeypatch: pytest.MonkeyPatch,
    ):  # fmt: skip
        """Also as mandatory ones; the standard policy goes before S3A's own."""
        server.put("a", DATA)
        opened = fs._bucket.open
        seen: list[Any] = []
        monkeypatch.setattr(
            fs._bucket, "open", lambda *how: [seen.append(how[4:]), opened(*how)][1]
        )
        builder = fs.open_file("/a")
        for key, value in options.items():
            builder.must(key, value)
        builder.build().result().close()
        assert seen == [ahead]

    def test_an_empty_object(self, server: ScriptedS3, fs: S3FileSystem):
        server.put("a", b"")
        with fs.open("/a") as reader:
            assert reader.read() == b""

    def test_no_descriptor(self, server: ScriptedS3, fs: S3FileSystem):
        server.put("a", b"x")
        with fs.open("/a") as reader, pytest.raises(io.UnsupportedOperation):
            reader.fileno()


class TestNames:
    @pytest.mark.rule("TIME-1", divergence="s3")
    @pytest.mark.stores("s3")
    def test_times_are_the_stores_word(self, server: ScriptedS3, fs: S3FileSystem):
        """Also one that gives an object another time than that of its publication."""
        before = time.time()
        write(fs, "/a")
        (status,) = fs.list_status("/")
        written = datetime.datetime.fromisoformat(WRITTEN.replace("Z", "+00:00"))
        assert status.modification_time == written.timestamp() * 1000 < before * 1000

    def test_keys_that_are_no_paths(self, server: ScriptedS3, fs: S3FileSystem):
        """Nothing shows them under the path of something else, and deleting removes them."""
        for key in ("d//x", "d/./x", "d/../x", "d/a", "d/b/", "d/c:d"):
            server.put(key, b"x")
        assert sorted(status.name for status in fs.list_status("/d")) == ["a", "b", "c:d"]
        assert [s.name for s in fs.list_files("/d", recursive=True)] == ["a", "c:d"]
        assert fs.delete("/d", recursive=True)
        assert server.objects == {}

    def test_an_object_that_is_a_directory_too(self, server: ScriptedS3, fs: S3FileSystem):
        """A recursive delete takes both, another the object alone."""
        for key in ("up/d", "up/d/x", "up/d/y/z"):
            server.put(key, b"x")
        assert fs.delete("/up/d")
        assert set(server.objects) == {"up/d/x", "up/d/y/z"}
        server.put("up/d", b"x")
        assert fs.delete("/up/d", recursive=True)
        assert (fs.exists("/up/d"), set(server.objects)) == (False, {"up/"})

    def test_the_markers_of_emr(self, server: ScriptedS3, fs: S3FileSystem, tmp_path: Path):
        """Listings leave them out, as those of S3A; where what they mark goes they go with it."""
        for name in ("_$folder$", "a", "b/x", "b_$folder$", "full_$folder$", "c/_$folder$"):
            server.put(f"d/{name}", b"" if name[0] in "_bc" and "/x" not in name else b"x")
        assert [s.name for s in fs.list_status("/d")] == ["a", "b", "c", "full_$folder$"]
        assert fs.list_status("/d/c") == []
        found = [s.name for s in fs.list_files("/d", recursive=True)]
        assert found == ["a", "x", "full_$folder$"]
        assert fs.get_content_summary("/d").file_count == 3
        assert fs.rename("/d", "/e")
        assert fs.exists("/e/c")
        assert not fs.exists("/d")
        server.put("e/none_$folder$", b"")  # which no copy has
        with pytest.raises(OSError, match=r"stayed: s3://bucket/e/none_\$folder\$ \(not copied\)"):
            fs.copy_to_local_file("/e", str(tmp_path / "out"), delete_source=True)
        assert set(server.objects) == {"e/none_$folder$"}
        assert (tmp_path / "out" / "full_$folder$").read_bytes() == b"x"

    def test_a_copy_to_the_root(self, server: ScriptedS3, fs: S3FileSystem):
        for key, data in (("d/", b""), ("d/x", b"1"), ("d/y/z", b"2")):
            server.put(key, data)
        fs.copy("/d", "/", overwrite=True)
        assert set(server.objects) == {"d/", "d/x", "d/y/z", "x", "y/z"}
        server.put("e/", b"content")
        with pytest.raises(hflush.InvalidPathError, match="e/"):
            fs.copy("/e", "/", overwrite=True)

    def test_what_is_written_during_a_delete(self, server: ScriptedS3, fs: S3FileSystem):
        """It is there, so the directory is: as elsewhere, that is ENOTEMPTY."""
        server.put("d/a", b"x")

        def write_another(exchange: Exchange) -> None:
            exchange.send(exchange.execute())
            server.put("d/late", b"x")

        server.fail("DeleteObject", write_another)
        with pytest.raises(OSError, match="d/late") as failure:
            fs.delete("/d", recursive=True)
        assert failure.value.errno == errno.ENOTEMPTY
        assert list(server.objects) == ["d/late"]

    def test_a_delete_that_has_happened(self, server: ScriptedS3, fs: S3FileSystem, caplog):
        """Is no failure, whatever goes wrong behind it: the last look, a marker, a late listing."""
        late = "<Contents><Key>d/a b</Key><Size>1</Size></Contents>"
        lagging = answer(200, body=f"<ListBucketResult>{late}</ListBucketResult>")
        looks = {"refused": answer(403, "AccessDenied"), "late": lagging}
        for name, look in looks.items():
            server.put("d/a b", b"x")
            server.fail("ListObjectsV2", look, skip=2)
            assert fs.delete("/d", recursive=True), name
            assert not server.objects, name
        server.fail("PutObject", answer(403, "AccessDenied"), times=None)
        for path in ("/d/a", "/d/b"):
            server.put(path[1:], b"x")
            assert fs.delete(path)
            assert path[1:] not in server.objects
        assert "may be gone with its last entry" in caplog.text

    def test_what_was_not_there_to_be_deleted(self, server: ScriptedS3, fs: S3FileSystem):
        """Some stores call that an error: also at a second attempt, after the first one's work."""
        absent = "<Code>NoSuchKey</Code><Message>no</Message></Error>"
        for operation, status, body in (
            ("DeleteObject", 404, f"<Error>{absent}"),
            ("DeleteObjects", 200, f"<DeleteResult><Error><Key>d/b</Key>{absent}</DeleteResult>"),
        ):

            def gone(exchange: Exchange, status: int = status, body: str = body) -> None:
                exchange.execute()
                exchange.send(make_answer(status, body, content_type="application/xml"))

            server.fail(operation, gone)
            for name in "abc"[: 1 if status == 404 else 3]:
                server.put(f"d/{name}", b"x")
            assert fs.delete("/d", recursive=True)
            assert not server.objects

    @pytest.mark.parametrize("key", ["z//k", "z/./k", "a/../z/k", "./z/k"])
    def test_keys_that_are_not_normal(
        self, server: ScriptedS3, fs: S3FileSystem, key: str, caplog: pytest.LogCaptureFixture
    ):
        """They are normalised as in Hadoop; but no other object is read than one of that key."""
        url = ROOT + key
        write(fs, url)
        assert f"s3://bucket/{key} is taken for /z/k" in caplog.text
        assert server.objects["z/k"].data == fs.open(url).read() == b"data"
        server.put(key, b"another program's")
        with pytest.raises(hflush.InvalidPathError, match=rf"both '{key}' and 'z/k'"):
            fs.open(url)
        with pytest.raises(hflush.InvalidPathError, match=rf"an object '{key}', and to change"):
            fs.delete(url)
        fs.delete("/z/k")
        assert fs.open(url).read() == b"another program's"
        with pytest.raises(FileNotFoundError):
            fs.open(f"{url}other")

    def test_tokens_of_keys_that_are_no_paths(self, server: ScriptedS3, fs: S3FileSystem):
        """They stand for the very key."""
        out = fs.create(paths.Exact("/z//k"))
        out.write(b"data")
        fs.commit(out.persist())
        out.abort()
        assert list(server.objects) == ["z//k"]

    def test_control_characters(self, server: ScriptedS3, fs: S3FileSystem):
        """XML cannot name them: they are listed as URLs, and deleted one by one."""
        server.put("d/a\x01b", b"x")
        server.put("d/plain", b"x")
        server.put("d/other", b"x")
        assert sorted(s.name for s in fs.list_status("/d")) == ["a\x01b", "other", "plain"]
        assert fs.delete("/d", recursive=True)
        assert asked(server).count("DeleteObject") == 1
        assert server.objects == {}

    @pytest.mark.rule("STATUS-16")
    @pytest.mark.stores("s3")
    def test_content_summary(self, server: ScriptedS3, fs: S3FileSystem):
        for key in ("t/a", "t/a-b/x", "t/a/x", "t/a/y/z", "t/b/", "t/c/d/e/f", "other"):
            server.put(key, b"123")
        found = fs.get_content_summary("/t")
        assert (found.length, found.file_count, found.directory_count) == (15, 5, 8)
        assert fs.get_content_summary("/other").file_count == 1

    @pytest.mark.rule("DELETE-12")
    @pytest.mark.stores("s3")
    def test_bulk_delete(self, server: ScriptedS3, fs: S3FileSystem):
        for number in range(30):
            server.put(f"d/{number}", b"x")
        server.put("d/full/x", b"x")
        server.put("d/empty/", b"")
        with fs.bulk_delete("/d") as bulk:
            assert bulk.page_size == 1000
            given = [f"/d/{number}" for number in range(30)]
            failed = bulk.delete([*given, *given, f"{ROOT}d/full", "/d/empty", "/d/missing"])
            assert [(path, error.errno) for path, error in failed] == [
                (f"{ROOT}d/full", errno.ENOTEMPTY)
            ]
            with pytest.raises(ValueError, match="not below"):
                bulk.delete(["/d/full/x", "/other"])
            assert bulk.delete([]) == []
        assert sorted(server.objects) == ["d/full/x"]
        assert asked(server).count("DeleteObjects") == 1

    def test_bulk_delete_looks_at_pages(self, server: ScriptedS3, fs: S3FileSystem):
        """Of the directory, of which one request shows what its files are."""
        for number in range(1200):
            server.put(f"d/{number:04}", b"x")
        files = [f"/d/{number:04}" for number in range(400)]
        assert fs.bulk_delete("/d").delete([*files, "/d/00"]) == []
        assert asked(server) == [*["ListObjectsV2"] * 2, "DeleteObjects", "ListObjectsV2"]
        assert len(server.objects) == 800

    @pytest.mark.rule("DELETE-11")
    @pytest.mark.stores("s3")
    def test_what_is_not_deleted(self, server: ScriptedS3, fs: S3FileSystem):
        for name in "abc":
            server.put(f"d/{name}", b"x")
        body = (
            "<DeleteResult><Error><Key>d/a</Key><Code>AccessDenied</Code><Message>no</Message>"
            "</Error><Error><Key>d/b</Key><Code>InvalidArgument</Code><Message>oh</Message></Error>"
            "</DeleteResult>"
        )
        server.fail("DeleteObjects", answer(200, body=body))
        with pytest.raises(PermissionError, match="AccessDenied: no") as failure:
            fs.delete("/d", recursive=True)
        assert failure.value.filename == "s3://bucket/d/a"
        assert "InvalidArgument" in str(getattr(failure.value, "__notes__", ""))

    def test_what_is_not_deleted_at_once(self, server: ScriptedS3, fs: S3FileSystem):
        """Trouble in the store with one object: that is asked for again, and nothing else."""
        for name in "abc":
            server.put(f"d/{name}", b"x")
        body = (
            "<DeleteResult><Error><Key>d/b</Key><Code>InternalError</Code></Error></DeleteResult>"
        )
        server.fail("DeleteObjects", answer(200, body=body))
        with pytest.raises(OSError, match=r"not deleted, or .*: s3://bucket/d/a, s3://bucket/d/c"):
            fs.delete("/d", recursive=True)  # the answer says that the others are gone
        assert sorted(server.objects) == ["d/a", "d/c"]
        assert [request.key for request in server.log if request.operation == "DeleteObject"] == [
            "d/b"
        ]

    @pytest.mark.rule("DELETE-12")
    @pytest.mark.stores("s3")
    def test_a_page_of_bulk_delete_is_what_one_request_removes(self, server: ScriptedS3):
        """Keys set it: programs that make their pages by page_size send no more requests."""
        for key, value, size in (
            ("fs.s3a.bulk.delete.page.size", "5", 5),
            ("fs.s3a.multiobjectdelete.enable", "false", 1),
        ):
            bulk = connect(server, **{key: value}).bulk_delete("/d")
            assert bulk.page_size == size
            with pytest.raises(ValueError, match=f"a page holds {size} at most"):
                bulk.delete([f"/d/{number}" for number in range(size + 1)])

    def test_bulk_delete_makes_no_directories(self, server: ScriptedS3, fs: S3FileSystem):
        server.put("d/a", b"x")
        assert fs.bulk_delete("/").delete(["/d/a", "/nowhere/a", "/nowhere/b"]) == []
        assert list(server.objects) == ["d/"]

    def test_empty_pages(self, server: ScriptedS3, fs: S3FileSystem):
        """Are no ends of listings."""
        server.put("d/a", b"x")
        body = (
            "<ListBucketResult><IsTruncated>true</IsTruncated>"
            "<NextContinuationToken>d/</NextContinuationToken></ListBucketResult>"
        )
        looks = {
            "is_directory": lambda: fs.is_directory("/d"),
            "list": lambda: [status.name for status in fs.list_status("/d")] == ["a"],
            "files": lambda: len(list(fs.list_files("/d", recursive=True))) == 1,
        }
        for name, look in looks.items():
            server.fail("ListObjectsV2", answer(200, body=body))
            assert look(), name
        server.fail("ListObjectsV2", answer(200, body=body))
        with pytest.raises(FileNotFoundError):
            fs.list_status("/nowhere")
        server.fail("ListObjectsV2", answer(200, body=body))
        with pytest.raises(OSError, match="not empty"):
            fs.delete("/d")
        assert list(server.objects) == ["d/a"]

    @pytest.mark.rule("FAIL-1")
    @pytest.mark.stores("s3")
    @pytest.mark.parametrize("status", [400, 403])
    def test_a_refusal_without_a_reason(self, server: ScriptedS3, fs: S3FileSystem, status: int):
        """HEAD has no error document: another request lets the store say what it is."""
        server.put("a", b"x")
        server.fail("HeadObject", answer(status))
        assert fs.get_file_status("/a").length == 1
        assert asked(server) == ["HeadObject", "ListObjectsV2", "HeadObject"]
        server.fail("HeadObject", answer(status), times=None)
        server.fail("ListObjectsV2", answer(400, "ExpiredToken"), times=None)
        with pytest.raises(PermissionError, match="ExpiredToken"):
            fs.get_file_status("/a")
        assert asked(server) == ["HeadObject", "ListObjectsV2"]
        server.heal()
        server.fail("HeadObject", answer(status), times=None)
        if status == 403:  # a listing is allowed
            assert fs.get_file_status("/a").length == 1
            server.fail("ListObjectsV2", answer(403, "AccessDenied"), times=None)
        with pytest.raises(OSError, match=f"HeadObject.*{status}"):
            fs.get_file_status("/a")

    def test_one_by_one(self, server: ScriptedS3):
        fs = connect(server, fs_s3a_multiobjectdelete_enable=False)
        for name in "abc":
            server.put(f"d/{name}", b"x")
        fs.delete("/d", recursive=True)
        assert asked(server).count("DeleteObject") == 3

    @pytest.mark.parametrize("operation", ["mkdirs", "delete"])
    def test_performance_flags(self, server: ScriptedS3, operation: str):
        fs = connect(server, fs_s3a_performance_flags="mkdir,delete")
        if operation == "mkdirs":
            fs.mkdirs("/a/b/c")
            assert asked(server) == ["ListObjectsV2", "PutObject"]
        else:
            server.put("d/a", b"x")
            fs.delete("/d/a")
            assert asked(server) == ["HeadObject", "DeleteObject"]

    def test_a_bucket_that_is_missing(self, server: ScriptedS3):
        fs = hflush.FileSystem.new_instance("s3://nowhere/", {**server.conf, **QUICK})
        assert not fs.exists("/")
        with pytest.raises(FileNotFoundError, match="NoSuchBucket"):
            fs.list_status("/")
        for pattern in ("/data/*.csv", "/data/{a,b}"):
            with pytest.raises(FileNotFoundError, match="NoSuchBucket"):
                fs.glob_status(pattern)

    def test_a_glob_of_an_object_above_others(self, server: ScriptedS3, fs: S3FileSystem):
        """Both match, as both are listed; the command lists each file once."""
        server.put("d/a", b"x")
        server.put("d/a/b", b"x")
        matches = [(status.name, status.kind) for status in fs.glob_status("/d/*")]
        assert matches == [("a", "directory"), ("a", "file")]
        for pattern in ("d/*", "[d]/a"):
            files = cli._files_below(fs, ROOT + pattern)
            assert [status.path for status in files] == [f"{ROOT}d/a", f"{ROOT}d/a/b"]

    def test_answers_that_make_no_sense(self, server: ScriptedS3, fs: S3FileSystem):
        """They are failures, and never taken for an empty directory."""
        for body in (
            "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>",
            "<ListBucketResult><Contents/></ListBucketResult>",
        ):
            server.fail("ListObjectsV2", answer(200, body=body))
            with pytest.raises(OSError, match="ListObjectsV2"):
                fs.list_status("/")

    def test_pages_in_a_circle(self, server: ScriptedS3, fs: S3FileSystem):
        body = (
            "<ListBucketResult><IsTruncated>true</IsTruncated>"
            "<NextContinuationToken>t</NextContinuationToken></ListBucketResult>"
        )
        server.fail("ListObjectsV2", answer(200, body=body), times=None)
        with pytest.raises(OSError, match="circles"):
            fs.list_status("/")

    @pytest.mark.rule("CAP-14", "STATUS-17")
    @pytest.mark.stores("s3")
    def test_checksums(self, server: ScriptedS3, fs: S3FileSystem):
        server.put("a", b"123456789")
        etag = server.objects["a"].etag.strip('"')
        assert fs.get_file_checksum("/a") == hflush.FileChecksum("ETAG", etag.encode())
        server.fail(
            "HeadObject",
            answer(200, body="", x_amz_checksum_crc32c="4waSgw==", content_length="9"),
        )
        found = fs.get_file_checksum("/a")
        assert found == hflush.FileChecksum("COMPOSITE-CRC32C", bytes.fromhex("e3069283"))
        server.fail("HeadObject", answer(403), times=2)  # SSE-KMS, to who may not decrypt it
        assert fs.get_file_checksum("/a") == hflush.FileChecksum("ETAG", etag.encode())
        with pytest.raises(FileNotFoundError):
            fs.get_file_checksum("/b")


@pytest.fixture
def door(server: ScriptedS3) -> HflushS3FileSystem:
    return through_fsspec(server)


def through_fsspec(server: ScriptedS3, **conf: Any) -> HflushS3FileSystem:
    given = {name.replace("_", "."): value for name, value in conf.items()}
    options: Any = {"skip_instance_cache": True}
    return HflushS3FileSystem(conf={**server.conf, **QUICK, **given}, **options)


class TestTrees:
    """Many files by one call of fsspec: no request, or turn of requests, for each."""

    KEYS = (
        *("d/a", "d/a/b", "d/a/b/c", "d/a-b", "d/e f+%/x", "d/empty/", "d/full/", "d/full/x"),
        *("d/both", "d/both/"),
        *("d/m_$folder$", "d/n/o_$folder$", "d/p_$folder$/x", "d/q/r/s/t/u", "d-e", "d.txt", "z"),
        *("/d/x", "d//x", "d/./x", "d/f//x", "d/f/../x", "d/g/.", "d/h//", "d"),
    )

    @pytest.mark.parametrize("page", ["1000", "3"])
    @pytest.mark.parametrize("withdirs", [False, True])
    @pytest.mark.parametrize("maxdepth", [None, 1, 2, 3])
    def test_what_pages_tell_is_what_a_walk_finds(
        self, server: ScriptedS3, page: str, withdirs: bool, maxdepth: int | None
    ):
        """Name by name, with all that is known of each; a file and a directory may share a name."""
        for key in self.KEYS:
            server.put(key, b"" if key.endswith(("/", "$")) else key.encode())
        door = through_fsspec(server, fs_s3a_paging_maximum=page)
        names = (
            "",
            "/d",
            "/d/",
            "/d//",
            "/d/a",
            "/d/a-b",
            "/d/e f+%",
            "/d/empty",
            "/d/f",
            "/no",
            "/d/both",
        )
        for name in (f"bucket{name}" for name in names):
            found = door.find(name, maxdepth, withdirs, True)
            walked = AbstractFileSystem.find(door, name, maxdepth, withdirs, True)
            assert list(found.items()) == list(walked.items()), name
            assert door.find(name, maxdepth, withdirs) == list(walked), name
            begin = name.rstrip("/") + "/e"
            assert door.find(name, maxdepth, withdirs, prefix="e") == [
                one for one in walked if one.startswith(begin)
            ]

    def test_a_page_at_a_time(self, server: ScriptedS3, door: HflushS3FileSystem):
        """A listing tells of a thousand keys, in whatever directories; a HEAD of the directory."""
        for number in range(1200):
            server.put(f"d/{number % 40}/{number}", b"four")
        assert len(door.find("bucket/d")) == 1200
        assert asked(server) == ["ListObjectsV2"] * 2
        assert len(door.find("bucket/d", withdirs=True)) == 1241
        assert sorted(asked(server)) == ["HeadObject", *["ListObjectsV2"] * 2]
        assert len(door.glob("bucket/d/**")) == 1241
        assert sorted(asked(server)) == ["HeadObject", *["ListObjectsV2"] * 2]
        assert door.du("bucket/d") == 4800
        assert asked(server) == ["ListObjectsV2"] * 2
        assert len(door.glob("bucket/d/7/*")) == 30
        assert door.du("bucket/d/7", total=False)["bucket/d/7/7"] == 4

    def test_levels_are_listed(self, server: ScriptedS3, door: HflushS3FileSystem):
        """Where few are asked for, with more than a page below; where all may not be listed."""
        for number in range(1200):
            server.put(f"d/{number % 2}/{number}/deep", b"four")
        server.put("d/1/file", b"four")
        assert door.find("bucket/d", maxdepth=2) == ["bucket/d/1/file"]
        assert asked(server) == ["ListObjectsV2"] * 4

        def refuse_all(exchange: Exchange) -> None:
            if "delimiter" in exchange.request.query:
                exchange.send(exchange.execute())
            else:
                answer(403, "AccessDenied")(exchange)

        server.fail("ListObjectsV2", refuse_all, times=None)
        assert door.find("bucket/d/1/7") == ["bucket/d/1/7/deep"]

    def test_what_a_find_fails_of(self, server: ScriptedS3, door: HflushS3FileSystem):
        server.put("d/a", b"x")
        server.fail("ListObjectsV2", answer(400, "InvalidArgument"), times=None)
        with pytest.raises(OSError, match="InvalidArgument"):
            door.find("bucket/d")
        failures: list[OSError] = []
        assert door.find("bucket/d", on_error=failures.append) == []
        assert len(failures) == 1
        assert door.find("bucket/d", on_error="omit", detail=True) == {}
        with pytest.raises(OSError, match="InvalidArgument"):
            door.find("bucket/d", on_error="raise")
        server.heal()
        assert door.find("nowhere/d") == []
        with pytest.raises(FileNotFoundError):
            door.find("nowhere/d", on_error="raise")

    def test_rm_of_many(self, server: ScriptedS3, door: HflushS3FileSystem):
        """Looks at once, and a request for a thousand; the directories stay."""
        for number in range(40):
            server.put(f"d/{number}", b"x")
            server.put(f"d/{number}/below", b"x")
            server.put(f"e/{number}/f", b"x")
        before = set(server.objects)
        names = [f"bucket/d/{number}" for number in range(20)]
        door.rm([*names, *names])
        assert asked(server) == ["ListObjectsV2", "DeleteObjects", "ListObjectsV2"]
        assert before - set(server.objects) == {f"d/{number}" for number in range(20)}
        door.rm(["bucket/d/20", "bucket/e/20/f"])
        assert Counter(asked(server)) == {
            "HeadObject": 2,
            "DeleteObjects": 1,
            "ListObjectsV2": 2 + 1,  # into both directories; again into the one that is empty
            "PutObject": 1,
        }
        assert "e/20/" in server.objects
        door.rm("bucket/e/*/f")
        assert not {f"e/{number}/f" for number in range(40)} & set(server.objects)
        assert {f"e/{number}/" for number in range(40)} <= set(server.objects)

    @pytest.mark.parametrize("count", [2, 20], ids=["single looks", "a page"])
    def test_rm_of_what_is_no_file(self, server: ScriptedS3, door: HflushS3FileSystem, count: int):
        """Nothing goes then; a file is one, whatever is below its key."""
        for key in ("d/empty/", "d/full/x", "d/both", "d/both/x", "other"):
            server.put(key, b"")
        names = [f"bucket/d/{number}" for number in range(count)]
        door.pipe(dict.fromkeys(names, b"x"))
        before = set(server.objects)
        for name, refusal in (
            ("empty", IsADirectoryError),
            ("full", IsADirectoryError),
            ("no", FileNotFoundError),
        ):
            with pytest.raises(refusal, match=name):
                door.rm([*names, "bucket/other", f"bucket/d/{name}"])
            assert set(server.objects) == before
        with pytest.raises(IsADirectoryError):
            door.rm([*names, "bucket/d/no", "bucket/d/full"])
        door.rm([*names, "bucket/d/both"])
        assert set(server.objects) == {"d/empty/", "d/full/x", "d/both/x", "other"}

    def test_rm_without_permission_to_look(self, server: ScriptedS3, door: HflushS3FileSystem):
        """HEAD alone says what there is, and so does a listing."""
        for number in range(40):
            server.put(f"d/{number}", b"x")
        names = [f"bucket/d/{number}" for number in range(40)]
        server.fail("ListObjectsV2", answer(403, "AccessDenied"), times=None)
        door.rm(names[:20])
        server.heal()
        server.fail("HeadObject", answer(403), times=None)
        door.rm(names[20:22])
        assert set(server.objects) == {f"d/{number}" for number in range(22, 40)}

    def test_rm_of_what_stays(self, server: ScriptedS3, door: HflushS3FileSystem):
        for name in "ab":
            server.put(f"d/{name}", b"x")
        body = "<DeleteResult><Error><Key>d/a</Key><Code>AccessDenied</Code></Error></DeleteResult>"
        server.fail("DeleteObjects", answer(200, body=body))
        with pytest.raises(PermissionError) as refusal:
            door.rm(["bucket/d/a", "bucket/d/b"])
        assert refusal.value.filename == "s3://bucket/d/a"

    def test_an_object_above_others(
        self, server: ScriptedS3, door: HflushS3FileSystem, tmp_path: Path
    ):
        """It is of the tree, wherever it is in it; a copy has no place for what is below it."""
        for key in ("d/a", "d/a/x", "d/b"):
            server.put(key, key.encode())
        tree = {f"bucket/{key}": stored.data for key, stored in server.objects.items()}
        assert door.cat("bucket/d", recursive=True) == tree
        looks = Counter(asked(server))
        assert (looks["ListObjectsV2"], looks["HeadObject"]) == (2, 1 + len(tree))
        del tree["bucket/d/b"]
        assert door.cat("bucket/d/a", recursive=True) == tree
        with pytest.raises(hflush.ParentNotDirectoryError):
            door.cp("bucket/d/a", "bucket/e", recursive=True)
        assert server.objects["e"].data == b"d/a"
        with pytest.raises(hflush.ParentNotDirectoryError):
            door.get("bucket/d/a", str(tmp_path / "a"), recursive=True)
        assert (tmp_path / "a").read_bytes() == b"d/a"

    def test_copies_of_trees(self, server: ScriptedS3, tmp_path: Path):
        """What a listing or the first file has shown is not asked for again."""
        door = through_fsspec(server, fs_s3a_executor_capacity="1")
        (tmp_path / "up" / "d").mkdir(parents=True)
        for number in range(20):
            (tmp_path / "up" / "d" / f"{number}").write_bytes(b"data")
        door.put(str(tmp_path / "up"), "bucket/", recursive=True)
        found = Counter(asked(server))
        assert found.pop("PutObject") == 20 + 2  # directories, which may be empty
        assert found.total() <= 20 + 8
        door.get("bucket/up", f"{tmp_path}/down", recursive=True)
        assert len([*(tmp_path / "down" / "d").iterdir()]) == 20
        found = Counter(asked(server))
        assert found.pop("GetObject") == found.pop("HeadObject") - 5 == 20
        assert found.total() <= 5
        door.cp("bucket/up", "bucket/copy", recursive=True)
        assert len(door.find("bucket/copy")) == 20
        found = Counter(asked(server))
        assert found.pop("CopyObject") == 20
        assert found.total() <= 3 * 20 + 20

    def test_copies_are_made_at_once(self, server: ScriptedS3, door: HflushS3FileSystem):
        """But not where one may change what another means."""
        for name in "ab":
            server.put(f"d/{name}", name.encode())
        both = threading.Barrier(2, timeout=DEADLINE_S)

        def meet(exchange: Exchange) -> None:
            both.wait()
            exchange.send(exchange.execute())

        server.fail("CopyObject", meet, times=2)
        door.cp("bucket/d", "bucket/e", recursive=True)
        assert server.objects["e/b"].data == b"b"
        door.cp(["bucket/d/a", "bucket/d/b"], ["bucket/d/b", "bucket/d/c"])
        assert server.objects["d/c"].data == b"a"

    def test_copies_that_fail(
        self, server: ScriptedS3, door: HflushS3FileSystem, monkeypatch: pytest.MonkeyPatch
    ):
        for name in "ab":
            server.put(f"d/{name}", b"x")
        server.fail("CopyObject", answer(403, "AccessDenied"), times=None)
        with pytest.raises(PermissionError):
            door.cp("bucket/d", "bucket/e", recursive=True)
        server.heal()
        copy = door._copy_file

        def copy_one(*places: Place) -> None:
            server.objects.pop("d/b", None)  # it is gone meanwhile
            copy(*places)

        monkeypatch.setattr(door, "_copy_file", copy_one)
        door.cp("bucket/d", "bucket/e", recursive=True)
        assert len(door.find("bucket/e")) == 1

    def test_a_directory_that_mkdirs_has_seen(self, server: ScriptedS3, fs: S3FileSystem):
        """What is above the next object is known; a new instance has nothing else to know it by."""
        server.put("a/b/c/x", b"x")
        fs.mkdirs("/a/b/c")
        asked(server)
        write(fs, "/a/b/c/y")
        assert asked(server) == ["ListObjectsV2", "PutObject"]


class TestUploads:
    @pytest.mark.rule("OBJ-8")
    @pytest.mark.stores("s3")
    def test_listing_and_aborting(
        self, server: ScriptedS3, fs: S3FileSystem, capfd: pytest.CaptureFixture[str]
    ):
        with fs.create_multipart_uploader("/") as uploader:
            for path in ("/d/a", "/d/b", "/dd"):
                uploader.start_upload(path)
        found = fs.list_multipart_uploads("/d")
        assert sorted(upload.path for upload in found) == [f"{ROOT}d/a", f"{ROOT}d/b"]
        assert all(upload.upload_id in server.uploads for upload in found)
        assert all(upload.age > 0 for upload in found)
        assert fs.abort_multipart_uploads("/d", older_than=1e12) == 0
        assert self.command(server, "uploads", f"{ROOT}d") == 0
        assert capfd.readouterr().out.count(f" {ROOT}d/") == 2
        assert self.command(server, "uploads", "--abort", f"{ROOT}d") == 1
        assert "--older-than" in capfd.readouterr().err
        assert self.command(server, "uploads", "--abort", "--older-than", "1d", f"{ROOT}d") == 0
        assert capfd.readouterr().out == "2 aborted\n"
        assert [upload.key for upload in server.uploads.values()] == ["dd"]
        # The list has shown them: no look before, and one after that says that they are gone.
        assert Counter(asked(server)[-4:]) == {"AbortMultipartUpload": 2, "ListParts": 2}
        assert fs.abort_multipart_uploads("/") == 1

    @staticmethod
    def command(server: ScriptedS3, *arguments: str) -> int:
        settings = [f"-D{key}={value}" for key, value in server.conf.items()]
        return cli.main([*settings, *arguments])

    def test_aborting_those_of_a_base(self, server: ScriptedS3, fs: S3FileSystem):
        """Uploads beside it go on, whatever path is named."""
        fs.create_multipart_uploader("/").start_upload("/dd")
        uploader = fs.create_multipart_uploader("/d")
        uploader.start_upload("/d/a")
        assert uploader.abort_uploads_under_path("/dd") == 0
        assert uploader.abort_uploads_under_path("/") == 1
        assert [upload.key for upload in server.uploads.values()] == ["dd"]

    def test_an_empty_part_that_was_put_again(self, server: ScriptedS3, fs: S3FileSystem):
        """With bytes: it is missing as it was, and nothing is replaced or ended."""
        write(fs, "/a", b"old")
        uploader = fs.create_multipart_uploader("/")
        upload = uploader.start_upload("/a")
        stale = uploader.put_part(upload, "/a", 1, True, b"")
        part = uploader.put_part(upload, "/a", 1, True, b"data")
        with pytest.raises(FileNotFoundError, match="put again"):
            uploader.complete(upload, "/a", {1: stale})
        assert server.objects["a"].data == b"old"
        uploader.complete(upload, "/a", {1: part})
        assert server.objects["a"].data == b"data"

    @pytest.mark.parametrize("lists", [True, False])
    def test_a_store_that_completes_again(self, server: ScriptedS3, fs: S3FileSystem, lists: bool):
        """The upload is looked for first, where that is permitted."""
        server.rules.repeated_complete = True
        uploader = fs.create_multipart_uploader("/")
        upload = uploader.start_upload("/a")
        parts = {1: uploader.put_part(upload, "/a", 1, True, b"data")}
        uploader.complete(upload, "/a", parts)
        if lists:
            with pytest.raises(FileNotFoundError):
                uploader.complete(upload, "/a", parts)
        else:
            server.fail("ListParts", answer(403, "AccessDenied"), times=None)
            uploader.complete(upload, "/a", parts)
        assert server.objects["a"].data == b"data"

    def test_parts_that_may_not_be_listed(self, server: ScriptedS3, fs: S3FileSystem):
        """That is another permission than to drop them."""
        uploader = fs.create_multipart_uploader("/")
        upload = uploader.start_upload("/a")
        server.fail("ListParts", answer(403, "AccessDenied"), times=None)
        uploader.abort(upload, "/a")
        assert not server.uploads
        with pytest.raises(FileNotFoundError):
            uploader.abort(upload, "/a")

    def test_an_age_that_is_none(self, fs: S3FileSystem):
        for age in (-1.0, float("nan")):
            with pytest.raises(ValueError, match="older_than"):
                fs.abort_multipart_uploads("/", age)

    def test_some_that_cannot_be_aborted(self, server: ScriptedS3, fs: S3FileSystem):
        """The others are; not each of many is said."""
        uploader = fs.create_multipart_uploader("/")
        for number in range(26):
            uploader.start_upload(f"/{number}")
        server.fail("AbortMultipartUpload", answer(403, "AccessDenied"), times=25)
        with pytest.raises(PermissionError) as caught:
            fs.abort_multipart_uploads("/")
        assert len(caught.value.__notes__) == 19
        assert len(server.uploads) == 25

    def test_below_directories_that_go(self, server: ScriptedS3):
        """By S3A's key; what fails of that fails nothing else."""
        fs = connect(server, fs_s3a_directory_operations_purge_uploads="true")
        assert fs.has_path_capability("/", "fs.s3a.directory.operations.purge.uploads")
        uploader = fs.create_multipart_uploader("/")
        for path in ("/d/a", "/e/a", "/ee"):
            uploader.start_upload(path)
        write(fs, "/d/b")
        write(fs, "/e/b")
        assert fs.rename("/d", "/f")
        assert [upload.key for upload in server.uploads.values()] == ["e/a", "ee"]
        server.fail("AbortMultipartUpload", answer(403, "AccessDenied"))
        assert fs.delete("/e", recursive=True)
        assert fs.delete("/f", recursive=True)
        assert [upload.key for upload in server.uploads.values()] == ["e/a", "ee"]

    @pytest.mark.parametrize("checksums", [True, False])
    def test_parts(self, checksums: bool):
        """With CRC32C where the store knows it, else with MD5: always with something."""
        with ScriptedS3(Rules(checksums=checksums)) as server, connect(server) as fs:
            uploader = fs.create_multipart_uploader("/d")
            upload = uploader.start_upload("/d/a")
            parts = {
                7: uploader.put_part(upload, "/d/a", 7, True, io.BytesIO(b"tail")),
                2: uploader.put_part(upload, "/d/a", 2, False, memoryview(DATA[:PART])),
            }
            puts = [call for call in server.log if call.operation == "UploadPart"]
            header = "x-amz-checksum-crc32c" if checksums else "content-md5"
            assert all(call.head.get(header) for call in puts)
            uploader.complete(upload, "/d/a", parts)
            assert server.objects["d/a"].data == DATA[:PART] + b"tail"
            with pytest.raises(FileNotFoundError):
                uploader.complete(upload, "/d/a", parts)

    @pytest.mark.rule("MPU-4")
    @pytest.mark.stores("s3")
    def test_an_empty_part(self, server: ScriptedS3, fs: S3FileSystem):
        uploader = fs.create_multipart_uploader("/")
        upload = uploader.start_upload("/a")
        empty = numpy.zeros((0, 3), "M8[s]")
        parts = {1: uploader.put_part(upload, "/a", 1, True, empty)}
        uploader.complete(upload, "/a", parts)
        assert server.objects["a"].data == b""
        assert not server.uploads
        for call in (
            lambda: uploader.complete(upload, "/a", parts),
            lambda: uploader.put_part(upload, "/a", 1, True, b""),
            lambda: uploader.abort(upload, "/a"),
        ):
            with pytest.raises(FileNotFoundError):
                call()


class TestProcesses:
    PROGRAM = """
        import sys, hflush
        fs = hflush.FileSystem.get(sys.argv[1], eval(sys.argv[2]))
        out = fs.create("/a")
        out.write(bytes(6 << 20))
    """

    @pytest.mark.rule("CLOSE-21", "CLOSE-26")
    @pytest.mark.stores("s3")
    @pytest.mark.parametrize("end", ["", "sys.exit(0)", "del out", "raise SystemExit"])
    def test_an_open_stream_at_exit(self, server: ScriptedS3, end: str):
        """Nothing is published, the upload is ended, and somebody is told."""
        program = textwrap.dedent(self.PROGRAM) + end
        conf = repr({**server.conf, **QUICK})
        run = subprocess.run(
            [sys.executable, "-c", program, ROOT, conf],
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
        )
        assert run.returncode == 0
        assert "NotPublishedWarning: never closed, not published" in run.stderr
        assert server.objects == {}
        assert not server.uploads

    def test_what_is_done_at_exit(self, server: ScriptedS3):
        """Also what several threads do at once, when none may begin any more."""
        for name in ("a", "b"):
            server.put(f"old/{name}", b"x")
        program = """
            import atexit, sys, hflush
            fs = hflush.FileSystem.get(sys.argv[1], eval(sys.argv[2]))
            atexit.register(fs.rename, "/old", "/new")
        """
        conf = repr({**server.conf, **QUICK})
        subprocess.run(
            [sys.executable, "-c", textwrap.dedent(program), ROOT, conf],
            check=True,
            timeout=DEADLINE_S,
        )
        assert set(server.objects) == {"new/a", "new/b"}

    @pytest.mark.rule("CONC-12")
    @pytest.mark.stores("s3")
    def test_a_fork(self, server: ScriptedS3, fs: S3FileSystem):
        """The child's copy of a stream does nothing; its file system connects for itself."""
        out = fs.create("/a")
        out.write(DATA)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    write(fs, "/child")
                    assert fs.exists("/child")
                    code = 0
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0
        out.close()
        assert server.objects["a"].data == DATA
        assert server.objects["child"].data == b"data"
        assert asked(server).count("CompleteMultipartUpload") == 1
