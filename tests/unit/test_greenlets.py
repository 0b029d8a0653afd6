"""Programs whose threads gevent or eventlet has replaced: hflush works there, if more slowly.

All greenlets run on one thread of the system. While one waits in the core no other runs, so what
the core waits for must not be left to another.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from support.s3_front import Exchange
from support.s3_writers import IMPATIENT, PUT
from support.scripted_s3 import SECRET, Key, ScriptedS3
from support.waiting import DEADLINE_S

TOKEN = "a session's"
PATCH = {
    "gevent": "from gevent import monkey; monkey.patch_all()",
    "eventlet": "import eventlet; eventlet.monkey_patch()",
}
CREDENTIALS = """
fs.create("/d/first").close()
ran = []
other = threading.Thread(target=lambda: ran.append(fs.exists("/d/first")))
other.start()
other.join()
assert ran == [True]
with fs.create("/expires") as out:
    out.write(b"data")
fs.close()
"""
POOLS = """
import os, hflush.transfer
for number in range(20):
    fs.create(f"/d/{number}").close()
fs.rename("/d", "/e")
assert len(fs.list_status("/e")) == 20
fs.delete("/e", recursive=True)
assert not fs.exists("/e")
with fs.create("/big") as out:
    out.write(bytes(1 << 20))
with fs.open("/big") as stream:
    assert [len(one.result()) for one in stream.read_vectored([(0, 10), (5000, 10)])] == [10, 10]
local = hflush.FileSystem.get("file:///")
path = os.path.join(os.environ["SCRATCH"], "file")
writers = [
    threading.Thread(target=lambda: [out.write(b"line\\n") for _ in range(1000)]) for _ in range(4)
]
with local.create(path, atomic=True) as out:
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
assert local.open(path).read() == b"line\\n" * 4000
"""
END = "print('ended')\n"


@pytest.fixture
def s3() -> Iterator[ScriptedS3]:
    with ScriptedS3() as server:
        yield server


def run(library: str, body: str, conf: dict[str, Any], environment: dict[str, str]) -> None:
    if find_spec(library) is None:  # it is not imported: eventlet changes what a fork does
        pytest.skip(f"{library} is not installed")
    begin = f"""{PATCH[library]}
import json, sys, threading
import hflush
fs = hflush.FileSystem.new_instance("s3://bucket/", json.loads(sys.argv[1]))
"""
    names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE")
    inherited = {name: text for name, text in os.environ.items() if name not in names}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", begin + body + END, json.dumps(conf)],
        env={**inherited, **environment},
        timeout=DEADLINE_S,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "ended\n", done.stderr


@pytest.mark.parametrize("library", PATCH)
def test_credentials_that_are_renewed(s3: ScriptedS3, tmp_path: Path, library: str) -> None:
    """A request waits in the core for newer ones, and they come."""
    shared = tmp_path / "credentials"

    def say(key: str) -> None:
        shared.write_text(
            f"[default]\naws_access_key_id = {key}\naws_secret_access_key = {SECRET}\n"
            f"aws_session_token = {TOKEN}\n"
        )

    def expire(exchange: Exchange) -> None:
        s3.keys["AKIDFIRST"].expired = True
        s3.keys["AKIDSECOND"] = Key(SECRET, TOKEN)
        say("AKIDSECOND")
        exchange.send(exchange.execute())

    s3.keys = {"AKIDFIRST": Key(SECRET, TOKEN)}
    say("AKIDFIRST")
    s3.fail(PUT, lambda exchange: exchange.send(exchange.execute()))
    s3.fail(PUT, expire)
    keys = {"fs.s3a.access.key", "fs.s3a.secret.key"}
    conf = {key: text for key, text in {**s3.conf, **IMPATIENT}.items() if key not in keys}
    files = {"AWS_SHARED_CREDENTIALS_FILE": str(shared), "AWS_CONFIG_FILE": os.devnull}
    run(library, CREDENTIALS, conf, files)
    assert s3.objects["expires"].data == b"data"


@pytest.mark.parametrize("library", PATCH)
def test_pools_and_streams_that_are_shared(s3: ScriptedS3, tmp_path: Path, library: str) -> None:
    """What hflush itself does in several threads, and several threads do with a stream."""
    run(library, POOLS, {**s3.conf, **IMPATIENT}, {"SCRATCH": str(tmp_path)})
