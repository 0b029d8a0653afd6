"""The command, run as a user runs it."""

from __future__ import annotations

import errno
import os
import pty
import re
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import hflush
import pytest
from hflush.cli import main
from hflush.errors import without_passwords
from support.stores import Store
from support.waiting import DEADLINE_S, wait_until

Capture = pytest.CaptureFixture[str]
COMMAND = [sys.executable, "-m", "hflush.cli"]


def run(*arguments: object, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([*COMMAND, *map(str, arguments)], input=data, capture_output=True)


def fine(*arguments: object, data: bytes = b"") -> str:
    done = run(*arguments, data=data)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode()


def refused(*arguments: object) -> str:
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (1, b"")
    text = done.stderr.decode()
    assert text.count("\n") == 1
    return text


def test_put_and_cat(tmp_path: Path):
    """From a file or standard input, to standard output; overwriting can be forbidden."""
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(b"one")
    fine("put", source, target, "--sync")
    fine("put", "-", tmp_path / "two", data=b"two")
    assert fine("cat", target, f"file://{tmp_path}/two") == "onetwo"
    text = refused("put", "--no-overwrite", "-", target)
    assert text.startswith(f"hflush: put: {target}: ")
    assert "exists" in text
    fine("put", "--overwrite", "-", target, data=b"new")
    assert target.read_bytes() == b"new"
    fine("-D", "fs.file.checksum=true", "put", "-", target, data=b"summed")
    assert (tmp_path / ".target.crc").exists()
    assert "No such file" in refused("put", tmp_path / "missing", target)
    assert refused("put", "", target) == "hflush: put: : No such file or directory\n"
    memory = "/proc/self/mem"  # its first byte cannot be read
    assert refused("put", memory, target).startswith(f"hflush: put: {memory}: ")
    assert target.read_bytes() == b"summed"
    with open(memory, "rb") as source:
        done = subprocess.run([*COMMAND, "put", "-", target], stdin=source, capture_output=True)
    assert done.stderr.decode() == (
        "hflush: put: standard input: Input/output error\n"
        f"what was in '{target}' before is gone: it was written over\n"
    )


def test_put_over_a_file(tmp_path: Path):
    """--sync is for a new one and for one that is replaced; an open one is written to."""
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(b"one")
    target.write_bytes(b"two")
    fine("put", "--sync", source, target)
    assert target.read_bytes() == b"one"
    with target.open("wb") as out:
        subprocess.run([*COMMAND, "put", source, "/dev/stdout"], stdout=out, check=True)
        assert os.fstat(out.fileno()).st_size == len(b"one")


def test_put_onto_itself(tmp_path: Path):
    """Refused under any name of the file, before it is cut; a device is no file."""
    target = tmp_path / "target"
    target.write_bytes(b"kept")
    (tmp_path / "soft").symlink_to(target)
    (tmp_path / "hard").hardlink_to(target)
    for name in (target, f"file://{target}", tmp_path / "soft", tmp_path / "hard"):
        assert "the source is this very file" in refused("put", target, name)
    view = f"fs.viewfs.mounttable.t.link./d=file://{tmp_path}"
    assert "very file" in refused("-D", view, "put", target, "viewfs://t/d/target")
    with target.open("rb") as source:
        done = subprocess.run([*COMMAND, "put", "-", str(target)], stdin=source, check=False)
    assert (done.returncode, target.read_bytes()) == (1, b"kept")
    fine("put", os.devnull, os.devnull)


def test_looking(tmp_path: Path):
    """ls, stat and checksum."""
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "deep").write_bytes(b"1234")
    (tmp_path / "a").write_bytes(b"data")
    assert [line.split()[-1] for line in fine("ls", tmp_path).splitlines()] == [
        f"{tmp_path}/a",
        f"{tmp_path}/b",
    ]
    assert fine("ls", f"{tmp_path}/[a]").endswith(f" {tmp_path}/a\n")
    assert len(fine("ls", "-r", tmp_path).splitlines()) == 2
    assert len(fine("ls", "-r", f"{tmp_path}/[ab]").splitlines()) == 2
    assert "length: 4\n" in fine("stat", tmp_path / "a")
    assert fine("-D", "fs.file.checksum=true", "checksum", tmp_path / "a").startswith("COMPOSITE")
    assert "not supported by raw local files" in refused("checksum", tmp_path / "a")
    for operation in ("ls", "stat", "cat"):
        text = refused(operation, tmp_path / "missing")
        assert text.startswith(f"hflush: {operation}: {tmp_path}/missing: ")


def test_changing(tmp_path: Path):
    """mkdir, mv and rm."""
    fine("mkdir", tmp_path / "a" / "b", tmp_path / "c")
    fine("mv", tmp_path / "a" / "b", tmp_path / "c")
    assert (tmp_path / "c" / "b").is_dir()
    fine("mkdir", tmp_path / "b")
    assert "exists" in refused("mv", tmp_path / "b", tmp_path / "c")
    fine("rm", "-r", tmp_path / "a", tmp_path / "b", tmp_path / "c")
    assert list(tmp_path.iterdir()) == []
    assert refused("rm", tmp_path / "c") == f"hflush: rm: {tmp_path}/c: No such file or directory\n"
    fine("rm", "-f", tmp_path / "c")
    assert "No such file" in refused("mv", tmp_path / "c", tmp_path / "d")


def test_a_slash_at_the_end(tmp_path: Path):
    """It names a directory: put makes it, mv does not."""
    (tmp_path / "a").write_text("a")
    fine("put", tmp_path / "a", f"{tmp_path}/d/")
    assert "no such directory" in refused("mv", tmp_path / "a", f"{tmp_path}/e/")
    assert "name the file" in refused("put", "-", f"{tmp_path}/e/")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a", "a", "d"]


def test_another_volume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """mv copies, as mv(1) does, and replaces nothing."""
    from hflush.local import LocalFileSystem

    def rename(*_: object) -> None:
        raise OSError(errno.EXDEV, "another volume")

    monkeypatch.setattr(LocalFileSystem, "rename", rename)
    for name in ("d/a", "e"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    assert main(["mv", f"{tmp_path}/d/a", f"{tmp_path}/e"]) == 1
    assert main(["mv", f"{tmp_path}/d", f"{tmp_path}/f"]) == 0
    assert (tmp_path / "f" / "a").read_text() == "d/a"
    assert (tmp_path / "e").read_text() == "e"
    assert not (tmp_path / "d").exists()


def test_the_trash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """rm moves to it where it is on."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    keys = ("-D", "fs.trash.interval=60", "rm")
    for name in ("a", "b", "d/c"):
        fine("mkdir", (tmp_path / name).parent)
        (tmp_path / name).write_bytes(b"1")
    assert "is in the trash" in fine(*keys, tmp_path / "a")
    fine(*keys, "--skip-trash", tmp_path / "b")
    (tmp_path / "link").symlink_to("d")
    fine(*keys, tmp_path / "link")
    fine(*keys, "-r", tmp_path / "d")
    fine(*keys, "-f", tmp_path / "missing")
    trash = tmp_path / "home" / ".Trash" / "Current" / str(tmp_path)[1:]
    assert sorted(path.name for path in trash.rglob("*")) == ["a", "c", "d", "link"]
    assert [path.name for path in tmp_path.iterdir()] == ["home"]


def test_no_harm(tmp_path: Path):
    """mv replaces no file, and times makes no directory."""
    for name in ("a", "b"):
        (tmp_path / name).write_text(name)
    assert "exists" in refused("mv", tmp_path / "a", tmp_path / "b")
    assert [(tmp_path / name).read_text() for name in ("a", "b")] == ["a", "b"]
    assert "No such file" in refused("times", tmp_path / "typo")
    assert not (tmp_path / "typo").exists()


def test_mv_beside_another_mv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """What another user puts at the target, after it was looked for, is not replaced."""
    from hflush.local.filesystem import LocalFileSystem

    for name in ("a", "b"):
        (tmp_path / name).write_text(name)
    renames = LocalFileSystem.rename

    def renames_late(fs: Any, *names: Any) -> Any:
        if (tmp_path / "b").exists():
            (tmp_path / "b").rename(tmp_path / "c")
        return renames(fs, *names)

    monkeypatch.setattr(LocalFileSystem, "rename", renames_late)
    assert main(["mv", f"{tmp_path}/a", f"{tmp_path}/c"]) == 1
    assert [(tmp_path / name).read_text() for name in ("a", "c")] == ["a", "b"]


def test_rm_goes_on(tmp_path: Path):
    """One path that cannot be removed is named, and the others go; a root is not missing."""
    (tmp_path / "a").touch()
    said = refused("rm", tmp_path / "missing", tmp_path / "a")
    assert said == f"hflush: rm: {tmp_path}/missing: No such file or directory\n"
    assert not (tmp_path / "a").exists()
    for root in ("hdfs://nn/", "s3://bucket/", "file:///"):
        keys = ("-D", "fs.s3a.access.key=a", "-D", "fs.s3a.secret.key=b")
        assert "the root directory stays" in refused(*keys, "rm", "-r", "-f", root)


def test_others_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Capture):
    """A path that fails, or that no store takes, is named; what comes after it is done."""
    monkeypatch.chdir(tmp_path)
    for name in ("f1", "f2"):
        (tmp_path / name).write_text(name)
    assert main(["cat", "f1", "nope", "s3://", "f2"]) == 1
    output, said = capfd.readouterr()
    assert output == "f1f2"
    assert [line.split(": ")[2] for line in said.splitlines()] == [f"{tmp_path}/nope", "s3://"]
    assert main(["mkdir", "s3://", "n1", "f1", "n2"]) == 1
    assert main(["rm", "s3://", "f1", "f2"]) == 1
    assert sorted(os.listdir()) == ["n1", "n2"]


def test_rm_of_directories(tmp_path: Path):
    """Not without -r, also of one that is empty or matches a pattern; a link is none."""
    (tmp_path / "d" / "empty").mkdir(parents=True)
    for name in (tmp_path / "d" / "empty", tmp_path / "d" / "*"):
        assert refused("rm", "-f", name).endswith("/d/empty: it is a directory: use -r\n")
    (tmp_path / "link").symlink_to("d")
    fine("rm", tmp_path / "link")
    fine("rm", "-r", tmp_path / "d")
    assert os.listdir(tmp_path) == []


def test_rm_of_patterns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Capture):
    """They are those of ls; a file that has such a name goes alone."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "g3" / "full").mkdir(parents=True)
    for name in ("g*", "g1", "g4", "h"):
        (tmp_path / name).touch()
    assert main(["rm", "g*"]) == 0
    assert sorted(os.listdir()) == ["g1", "g3", "g4", "h"]
    assert main(["rm", "-f", "g*"]) == 1
    assert capfd.readouterr().err.startswith(f"hflush: rm: {tmp_path}/g3: ")
    assert main(["rm", "-r", "g*"]) == 0
    assert sorted(os.listdir()) == ["h"]
    assert main(["rm", "g*"]) == 1
    assert capfd.readouterr() == ("", "hflush: rm: g*: No such file or directory\n")
    assert main(["rm", "-f", "g*", "a{b", "a[b"]) == 0
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "command",
    [["rm", "-r", "-f", name] for name in (".", "..", "a/..", "a/./", "{b,..}", "{b,}")]
    + [["mv", "a/..", "c"]],
)
def test_dots_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Capture, command: list[str]
):
    """As of rm(1): a directory is removed and moved by its own name."""
    (tmp_path / "here" / "a").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "here")
    assert main(command) == 1
    assert "name the directory" in capfd.readouterr().err
    assert os.listdir() == ["a"]


def test_tail_follows(tmp_path: Path):
    """tail -f writes what is added, and starts again when the file shrinks, until interrupted."""
    path = tmp_path / "log"
    path.write_bytes(b"x" * 2000 + b"end\n")
    assert fine("tail", path) == "x" * 1020 + "end\n"
    output = tmp_path / "output"
    with output.open("wb") as sink:
        process = subprocess.Popen([*COMMAND, "tail", "-f", str(path)], stdout=sink)
    try:
        wait_until(lambda: output.read_bytes().endswith(b"end\n"), "the end is there")
        with hflush.append(path) as out:
            out.write(b"more\n")
            out.hflush()
            wait_until(lambda: output.read_bytes().endswith(b"more\n"), "growth is followed")
        path.write_bytes(b"anew\n")
        wait_until(lambda: output.read_bytes().endswith(b"anew\n"), "a new start is seen")
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130


@pytest.mark.parametrize("ending", [signal.SIGHUP, signal.SIGTERM])
def test_signals_interrupt(tmp_path: Path, ending: signal.Signals):
    """As Ctrl-C does: no part of the file stays."""
    source, target = tmp_path / "source", tmp_path / "target"
    os.mkfifo(source)
    process = subprocess.Popen(
        [*COMMAND, "put", str(source), str(target)],
        preexec_fn=lambda: signal.signal(ending, signal.SIG_DFL),  # the tests may ignore it
    )
    with source.open("wb", 0) as out:
        out.write(bytes(2 << 20))
        wait_until(lambda: target.stat().st_size, "a part is there")
        process.send_signal(ending)
        assert process.wait() == 128 + ending
    assert os.listdir(tmp_path) == ["source"]


def test_what_an_interrupt_has_left_is_said(tmp_path: Path):
    """A file of two names is written over: what was in it is gone."""
    source, target = tmp_path / "source", tmp_path / "target"
    os.mkfifo(source)
    target.write_bytes(b"before")
    (tmp_path / "other").hardlink_to(target)
    process = subprocess.Popen(
        [*COMMAND, "put", str(source), str(target)], stderr=subprocess.PIPE, text=True
    )
    with source.open("wb", 0) as out:
        out.write(bytes(2 << 20))
        wait_until(lambda: target.stat().st_size > len(b"before"), "a part is there")
        process.send_signal(signal.SIGINT)
        assert "is gone: it was written over" in process.communicate()[1]
    assert process.returncode == 130


def test_what_a_terminal_would_obey(tmp_path: Path):
    """Names with control characters are shown without them: always where a failure is printed."""
    name = "a\x1b]0;title\x07\x9b"
    assert refused("cat", tmp_path / name).startswith(f"hflush: cat: {tmp_path}/a?]0;title??: ")
    (tmp_path / name).touch()
    assert name in fine("ls", tmp_path)
    master, terminal = pty.openpty()
    subprocess.run([*COMMAND, "ls", tmp_path], stdout=terminal, check=True)
    os.close(terminal)
    shown = os.read(master, 4096).decode()
    os.close(master)
    assert shown.rstrip("\r\n").endswith("a?]0;title??")


def test_uploads(tmp_path: Path):
    """Uploads are listed and aborted; where there are none, the refusal says so."""
    fs = hflush.FileSystem.get("file:///")
    upload = fs.create_multipart_uploader(tmp_path).start_upload(tmp_path / "file")
    (tmp_path / "below").mkdir()
    other = fs.create_multipart_uploader(tmp_path / "below")
    other.start_upload(tmp_path / "below" / "file")
    assert fine("uploads", tmp_path) == f"{upload.decode()} {tmp_path}/file\n"
    assert fine("uploads", "--abort", tmp_path) == "1 aborted\n"
    assert fine("uploads", tmp_path) == ""
    assert "not supported by" in refused("uploads", f"file+crc://{tmp_path}")


def test_refusals(tmp_path: Path):
    """Leases, other schemes and bad keys are refused in one line."""
    text = refused("recover-lease", tmp_path / "file")
    assert text == (
        f"hflush: recover-lease: {tmp_path}/file: "
        "recover_lease is not supported by raw local files\n"
    )
    assert "no file system for scheme 'gs'" in refused("ls", "gs://bucket/")
    unknown = "spark.sql.streaming.checkpointFileManagerClass=no_such_module.Class"
    (tmp_path / "offsets").mkdir()
    assert "No module named" in refused("-D", unknown, "checkpoint", "ls", tmp_path)
    assert "must name a bucket" in refused("ls", "s3:///")
    assert "how old an upload is" in refused("uploads", "--older-than", "1d", tmp_path)
    assert "must name a host" in refused("ls", "hdfs:///")
    assert "secretpw" not in refused("ls", "hdfs://ann:secretpw@nn/x")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("s3://AKIA:ab/cd@bucket/x", "s3://…@bucket/x"),
        ("s3a://AKIA:1/2@bucket", "s3a://…@bucket"),
        ("s3a//AKIA:12@bucket", "s3a//…@bucket"),
        ("s3a:AKIA:12@bucket", "s3a:…@bucket"),
        ("hdfs://ann:pw@nn:8020/x", "hdfs://…@nn:8020/x"),
        ("hdfs://ann:p@w@nn/x", "hdfs://…@nn/x"),
        ("hdfs://nn:8020/ann@x", "hdfs://nn:8020/ann@x"),
        ("s3://bucket/10:00/a@b", "s3://bucket/10:00/a@b"),
    ],
)
def test_passwords_are_not_shown(url: str, shown: str):
    """Nor by the command, nor by file systems; ports are."""
    assert without_passwords(f"'{url}' is wrong") == f"'{shown}' is wrong"
    with pytest.raises(ValueError, match=re.escape(f"'{shown}'")):
        hflush.FileSystem.get("file:///").exists(url)


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["fly"],
        ["put", "-"],
        ["ls", "--colour", "/"],
        ["-D", "nonsense", "ls", "/"],
        ["uploads", "--older-than", "x", "/"],
        ["vacuum", "--older-than", "x", "/"],
        ["vacuum", "--older-than", "7", "/"],
        ["recover-lease", "--wait", "x", "/"],
        ["checkpoint", "verify", "--older-than", "x", "/"],
    ],
)
def test_usage(arguments: list[str]):
    """Wrong usage is 2, with the usage on standard error."""
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.startswith(b"usage: hflush")


def test_installed(tmp_path: Path):
    """The script of the package and main() are the same command."""
    script = Path(sys.executable).with_name("hflush")
    if script.exists():
        done = subprocess.run([script, "mkdir", tmp_path / "a"], capture_output=True)
        assert done.returncode == 0
    assert main(["mkdir", str(tmp_path / "b")]) == 0
    assert main(["ls", str(tmp_path / "missing")]) == 1
    assert main(["fly"]) == 2


def test_put_atomic(tmp_path: Path):
    """The file is there whole or not at all."""
    target = tmp_path / "target"
    fine("put", "--atomic", "--sync", "-", target, data=b"new")
    assert target.read_bytes() == b"new"
    assert "is a directory" in refused("put", "--atomic", "-", tmp_path).lower()
    assert [path.name for path in tmp_path.iterdir()] == ["target"]


def test_put_of_what_does_not_fit(tmp_path: Path):
    """No part of a file stays; of what came by a pipe, all that there was room for."""
    (tmp_path / "source").write_bytes(bytes(3 << 20))
    for source, left in (("source", []), ("-", ["target"])):
        with (tmp_path / "source").open("rb") as data:
            done = subprocess.run(
                [*COMMAND, "put", source, "target"],
                cwd=tmp_path,
                stdin=data,
                stderr=subprocess.PIPE,
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2 << 20, 2 << 20)),
            )
        assert (done.returncode, b"File too large" in done.stderr) == (1, True)
        assert sorted(os.listdir(tmp_path)) == ["source", *left]


def test_put_of_input_that_has_nothing_yet(tmp_path: Path):
    """It does not block, and has not ended."""
    target = tmp_path / "target"
    target.write_bytes(b"old")
    read, write = os.pipe()
    os.set_blocking(read, False)
    os.write(write, b"begin")
    command = [*COMMAND, "put", "--atomic", "-", str(target)]
    done = subprocess.run(command, stdin=read, capture_output=True, timeout=DEADLINE_S)
    os.close(read)
    os.close(write)
    said = b"hflush: put: standard input: Resource temporarily unavailable\n"
    assert (done.returncode, done.stderr) == (1, said)
    assert target.read_bytes() == b"old"


def test_put_asks_before_it_sends(tmp_path: Path):
    """--sync without hsync: refused before the old file is touched."""
    target = tmp_path / "target"
    fine("put", "-", f"file+crc://{target}", data=b"old")
    text = refused("put", "--sync", "-", f"file+crc://{target}")
    assert "--sync" in text
    assert "not supported by local files with crc sidecars" in text
    assert target.read_bytes() == b"old"


@pytest.mark.stores("s3")
def test_put_asks_before_it_sends_to_s3(store: Store):
    """Nothing is sent: standard input is not even read."""
    url = store.url(store.path("key"))
    read, write = os.pipe()
    try:  # without a writer: reading it would hang
        done = subprocess.run(
            [*COMMAND, "put", "--sync", "-", url],
            stdin=read,
            capture_output=True,
            timeout=DEADLINE_S,
        )
    finally:
        os.close(read)
        os.close(write)
    assert done.returncode == 1
    assert b"--sync" in done.stderr
    assert not store.fs.exists(store.path("key"))


def test_output_that_is_full(tmp_path: Path):
    """What failed is standard output, and no list of Python's."""
    (tmp_path / "big").write_bytes(bytes(1 << 20))
    with open("/dev/full", "wb") as full:
        for command in (
            ["cat", *[tmp_path / "big"] * 2],
            ["ls", tmp_path],
            ["tail", tmp_path / "big"],
        ):
            done = subprocess.run(
                [*COMMAND, *map(str, command)], stdout=full, stderr=subprocess.PIPE, check=False
            )
            said = f"hflush: {command[0]}: standard output: No space left on device\n"
            assert (done.returncode, done.stderr.decode()) == (1, said)


def test_output_without_a_buffer(tmp_path: Path):
    """It takes a part of what it is given, or nothing now: what is missing is a failure."""
    (tmp_path / "big").write_bytes(bytes(1 << 20))
    read, full = os.pipe()
    os.set_blocking(full, False)
    with (tmp_path / "out").open("wb") as limited:
        for output, reason in ((limited, "File too large"), (full, "temporarily unavailable")):
            done = subprocess.run(
                [*COMMAND, "cat", str(tmp_path / "big")],
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
                stdout=output,
                stderr=subprocess.PIPE,
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (99999, 99999)),
            )
            assert done.returncode == 1
            assert reason in done.stderr.decode()
    os.close(read)
    os.close(full)


def test_pipes_that_break(tmp_path: Path):
    """A target is named; a reader of standard output that has seen enough is no news."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with subprocess.Popen(["head", "-c1", fifo], stdout=subprocess.DEVNULL):
        done = run("put", "-", fifo, data=bytes(1 << 20))
    assert done.returncode == 1
    assert done.stderr.startswith(f"hflush: put: {fifo}: write of ".encode())
    read, write = os.pipe()
    os.close(read)
    command = [*COMMAND, "stat", str(tmp_path)]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, check=False)
    os.close(write)
    assert (done.returncode, done.stderr) == (1, b"")


def test_streams_that_are_closed(tmp_path: Path):
    """What writes nothing needs no output; a failure is not written into it."""
    (tmp_path / "a").write_bytes(b"data")

    def shell(redirected: str, *arguments: object) -> tuple[int, bytes, bytes]:
        words = ["sh", "-c", f'exec "$@" {redirected}', "sh", *COMMAND, *map(str, arguments)]
        done = subprocess.run(words, capture_output=True, check=False)
        return done.returncode, done.stdout, done.stderr

    assert shell(">&-", "put", tmp_path / "a", tmp_path / "b") == (0, b"", b"")
    assert (tmp_path / "b").read_bytes() == b"data"
    said = b"hflush: cat: standard output: Bad file descriptor\n"
    assert shell(">&-", "cat", tmp_path / "a") == (1, b"", said)
    assert shell("2>&-", "cat", tmp_path / "a", tmp_path / "missing") == (1, b"data", b"")
    said = b"hflush: put: standard input: Bad file descriptor\n"
    assert shell("<&-", "put", "-", tmp_path / "c") == (1, b"", said)


def test_a_lease_that_is_kept(monkeypatch, capfd):
    """A file that did not get closed is a failure."""
    from hflush import cli
    from hflush.hdfs.filesystem import DistributedFileSystem

    monkeypatch.setattr(DistributedFileSystem, "_recover_lease", lambda *_: False)
    assert cli.main(["recover-lease", "--wait", "0", "hdfs://nn/x"]) == 1
    assert capfd.readouterr().out == "recovery goes on\n"


def test_messages_name_paths(capfd: Capture):
    """Also of failures that name none."""
    assert main(["-D", "hflush.unknown=1", "rm", "a", "b"]) == 1
    for path, said in zip("ab", capfd.readouterr().err.splitlines(), strict=True):
        assert said.startswith(f"hflush: rm: {path}: unknown configuration key")


@pytest.mark.stores("s3")
def test_what_s3_does_not_keep(store: Store):
    """Modes, owners and the times of directories are not made up."""
    store.write(store.path("a", "b"), b"1234")
    lines = [line.split() for line in fine("ls", store.url()).splitlines()]
    assert lines == [["d", "-", "-", "0", "-", store.url(store.path("a"))]]
    (file,) = [line.split() for line in fine("ls", store.url(store.path("a"))).splitlines()]
    assert (file[:4], file[5]) == (["-", "-", "-", "4"], store.url(store.path("a", "b")))
    assert file[4].startswith("20")
    told = dict(line.split(": ") for line in fine("stat", store.url(store.path("a"))).splitlines())
    assert told["kind"] == "directory"
    assert [told[name] for name in ("modified", "permission", "owner", "group")] == list("-d--")


def test_checksum_of_a_raw_file(tmp_path: Path):
    """What keeps none says who computes one."""
    (tmp_path / "a").write_bytes(b"data")
    text = refused("checksum", tmp_path / "a")
    assert "file+crc://" in text
    assert fine("checksum", f"file+crc://{tmp_path}/a").startswith("COMPOSITE-CRC32 ")


def test_version():
    """--version, and python -m hflush."""
    assert fine("--version") == f"hflush {hflush.__version__}\n"
    done = subprocess.run(
        [sys.executable, "-m", "hflush", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"hflush {hflush.__version__}\n"
