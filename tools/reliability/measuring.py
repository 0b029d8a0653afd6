"""Runs every case with every client, each in a process of its own, and looks at the results."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
import os
import queue
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

from minio import MinioServer
from s3_clients import CLIENTS, MIB, Boto3, Endpoint
from support.fault_proxy import FaultProxy
from support.rude_servers import refusing
from support.s3_front import S3Front
from support.s3_ways import Way, over_tls
from support.scripted_s3 import KEY_ID, SECRET, ScriptedS3

from reliability.cases import NOT_WRONG, PUBLISHED, READ, Case, nothing_wrong
from reliability.client import content

HERE = Path(__file__).resolve().parent
BUCKET = "bucket"
PART_BYTES = 5 * MIB
EXIT_S = 15.0  # that a process may take to end when it has done everything
AHEAD_S = 20 * 60
PUBLISHING = ("UploadPart", "CompleteMultipartUpload", "PutObject")
# hflush once more: what breaks its connections there is met by libcurl, not by code of its own.
OVER_TLS = "hflush over TLS"
COLUMNS = ("hflush", OVER_TLS, *(name for name in CLIENTS if name != "hflush"))

Seen = dict[str, Any]


class Place:
    """Where a case happens: the client's settings, and a way to see what is there."""

    def __init__(self, endpoint: Endpoint, front: S3Front | None, store: Boto3 | None) -> None:
        self.endpoint = endpoint
        self.front = front
        self._store = store

    def put(self, key: str, data: bytes) -> None:
        if self._store is not None:
            self._store.client.put_object(Bucket=BUCKET, Key=key, Body=data)

    def get(self, key: str) -> bytes | None:
        if isinstance(self.front, ScriptedS3):
            stored = self.front.objects.get(key)
            return None if stored is None else stored.data
        if self._store is None:
            return None
        client = self._store.client
        try:
            return bytes(client.get_object(Bucket=BUCKET, Key=key)["Body"].read())
        except client.exceptions.NoSuchKey:
            return None

    def uploads(self, key: str) -> int:
        if isinstance(self.front, ScriptedS3):
            return len(self.front.uploads)
        if self._store is None:
            return 0
        answer = self._store.client.list_multipart_uploads(Bucket=BUCKET, Prefix=key)
        return len(answer.get("Uploads", []))


@contextmanager
def place_of(case: Case, server: MinioServer, way: Way) -> Iterator[Place]:
    """The server that a case asks for, and how it is asked."""
    keys = (server.access_key, server.secret_key)
    direct = Boto3(_endpoint(server.url, keys, Way()))
    with ExitStack() as stack:
        if case.server == "nowhere":
            url = f"{way.scheme}://no-such-host.invalid"
            yield Place(_endpoint(url, keys, way), None, direct)
        elif case.server == "deaf":
            host, port = stack.enter_context(refusing())
            yield Place(_endpoint(f"{way.scheme}://{host}:{port}", keys, way), None, direct)
        elif case.server == "ahead":
            scripted = stack.enter_context(way.server())
            scripted.clock_ahead_s = AHEAD_S
            yield Place(_endpoint(scripted.endpoint, (KEY_ID, SECRET), way), scripted, None)
        else:
            tls = _untrusted() if case.server == "untrusted" else way.tls
            proxy = stack.enter_context(FaultProxy(("127.0.0.1", server.port), tls=tls))
            yield Place(_endpoint(proxy.endpoint, keys, way), proxy, direct)


def _endpoint(url: str, keys: tuple[str, str], way: Way) -> Endpoint:
    return Endpoint(url, BUCKET, *keys, part_bytes=PART_BYTES, settings=way.settings)


def _untrusted() -> ssl.SSLContext:
    """A server's TLS with a certificate that it signed itself."""
    with tempfile.TemporaryDirectory() as directory:
        key, certificate = Path(directory, "key"), Path(directory, "certificate")
        subject = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
        files = ["-keyout", str(key), "-out", str(certificate)]
        command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"]
        subprocess.run([*command, *subject, *files], check=True, capture_output=True)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        return context


def measure(columns: Sequence[str], cases: Sequence[Case]) -> Iterator[dict[str, Any]]:
    """Every client in every case; what was seen, case by case."""
    names = count()
    with MinioServer.start() as server, tempfile.TemporaryDirectory() as directory:
        server.make_bucket(BUCKET)
        ways = {OVER_TLS: over_tls(Path(directory))}
        for case in cases:
            seen: dict[str, Seen] = {}
            for column in columns:
                client = _client_of(column)
                if case.needs_stream and not CLIENTS[client].streams:
                    continue
                with place_of(case, server, ways.get(column, Way())) as place:
                    key = f"case/{next(names)}/{case.id}"
                    seen[column] = one = _observe(case, client, place, key)
                print(f"{case.id:20} {column:15} {one['seconds']:7.2f} s  {verdict(case, one)}")
            yield {
                "date": time.strftime("%Y-%m-%d"),
                "python": sys.version.split()[0],
                "versions": {column: _version(_client_of(column)) for column in columns},
                "seen": {case.id: seen},
            }


def _client_of(column: str) -> str:
    return "hflush" if column == OVER_TLS else column


def _version(client: str) -> str:
    if client != "hflush":
        return importlib.metadata.version(client)
    import hflush

    return hflush.__version__


def _observe(case: Case, client: str, place: Place, key: str) -> Seen:
    generation = 0 if case.script.startswith("read") else 1
    old = content(case.mebibytes, generation)
    if case.there_before:
        place.put(key, old)
    if place.front is not None:
        case.inject(place.front)
    seen = _Child(case, client, place, key).watch()
    if place.front is not None and case.inject is not nothing_wrong:
        seen["asked"] = any(request.fault for request in place.front.log)
    there = place.get(key)
    seen["object"] = _kind(there, content(case.mebibytes), old)
    seen["size"] = None if there is None else len(there)
    seen["uploads"] = place.uploads(key)
    return seen


def _kind(there: bytes | None, written: bytes, old: bytes) -> str:
    if there is None:
        return "absent"
    if there == written:
        return "written"
    if there == old:
        return "old"
    return "partial" if written.startswith(there) else "other"


class _Child:
    """One process, watched until it ends or its time is over."""

    def __init__(self, case: Case, client: str, place: Place, key: str) -> None:
        self._case, self._front = case, place.front
        command = [sys.executable, HERE / "client.py", client, case.script, key]
        self._process = subprocess.Popen(
            [*map(str, command), str(case.mebibytes)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "PYTHONWARNINGS": "ignore"},
        )
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(dataclasses.asdict(place.endpoint)) + "\n")
        self._process.stdin.flush()
        self._lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put("")

    def watch(self) -> Seen:
        events: list[Seen] = []
        started = time.monotonic()
        end, hung, log_at_close = started + self._case.limit_s, "", None
        while True:
            try:
                line = self._lines.get(timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                hung = "at exit" if events and events[-1]["what"] == "done" else "in it"
                break
            if not line:
                break
            events.append(json.loads(line))
            what = events[-1]["what"]
            if what == "closed" and self._front is not None:
                log_at_close = len(self._front.log)
            if what == "leaving" and self._case.script == "be_killed":
                break
            if what == "done":
                end = time.monotonic() + EXIT_S
        seconds = time.monotonic() - started
        self._stop(is_to_exit=not hung and self._case.script != "be_killed")
        late = [] if log_at_close is None or self._front is None else self._front.log[log_at_close:]
        return {
            "events": events,
            "hung": hung,
            "seconds": round(seconds, 2),
            "exit": self._process.returncode,
            "sent_after_close": sum(request.operation in PUBLISHING for request in late),
        }

    def _stop(self, *, is_to_exit: bool) -> None:
        if is_to_exit:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(EXIT_S)
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()


def was_asked(seen: Seen) -> bool:
    """Whether the client has what the case is about: such a stream, and that call."""
    can = all(event["what"] != "impossible" for event in seen["events"])
    return can and bool(seen.get("asked", True))


def verdict(case: Case, seen: Seen) -> tuple[bool, str]:
    """Whether all is as it has to be, and what is to be said of it."""
    said = _reported(case, seen)
    if case.expected in {READ, NOT_WRONG}:
        return said
    right, text = said
    notes = [text] if text else []
    if seen["uploads"] and not case.may_leave:
        right = False
    if seen["uploads"]:
        notes.append("upload left")
    if seen["sent_after_close"]:
        right = False
        notes.append("a second `close` sends again")
    if seen["hung"]:
        right = False
        notes.append(f"**hangs {seen['hung']}**".replace(" in it", ""))
    return right, "; ".join(notes)


def _first_error(seen: Seen) -> Seen | None:
    asked = ("client", "create", "write", "with", "close", "read")
    return next((e for e in seen["events"] if e["what"] in asked and e.get("error")), None)


def _reported(case: Case, seen: Seen) -> tuple[bool, str]:
    """What was reported to the caller, against what is true."""
    error = _first_error(seen)
    name = "" if error is None else error["error"].partition(":")[0].rpartition(".")[2]
    if case.expected in {READ, NOT_WRONG}:
        return _reported_to_reader(case, seen, name)
    there = seen["object"]
    size = f", {seen['size']:,} B" if seen["size"] is not None else ""
    if case.expected == PUBLISHED:
        if there == "written":
            return (True, "") if not name else (False, f"raises {name}, the object is there")
        if not name and not seen["hung"]:
            return False, f"**success reported, object {there}{size}**"
        return False, f"raises {name}" if name else ""
    if there not in {"absent", "old"}:
        return False, f"**published{size}**"
    if case.there_before and there == "absent":
        return False, "**the older object is gone**"
    if case.raises and not name:
        return False, "" if seen["hung"] else "**no error**"
    return True, ""


def _reported_to_reader(case: Case, seen: Seen, name: str) -> tuple[bool, str]:
    data = next((event for event in seen["events"] if event["what"] == "data"), None)
    if seen["hung"]:
        return False, "**hangs**"
    if data is not None:
        if data["right"]:
            return True, ""
        return False, f"**wrong bytes** ({data['size']:,} B)"
    return case.expected == NOT_WRONG, f"raises {name}"
