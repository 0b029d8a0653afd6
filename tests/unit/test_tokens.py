"""Tokens of persist(): what they refuse."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any, NoReturn

import hflush
import pytest
from hflush.local import claims
from hflush.s3.resuming import SavedUpload, tail_prefix
from hflush.tokens import Token

KEY = "d/name"
UPLOAD = "0123456789abcdef" * 2
STATE: dict[str, Any] = {
    "upload_id": "U",
    "token": UPLOAD,
    "parts": [[1, '"e"', 5 << 20, 7]],
    "checksums": True,
    "full_object_checksum": False,
    "sizes": [5 << 20, False, 10_000],
    "tail_key": f"d/.name.{UPLOAD}.5242885.tail",
    "tail_size": 5,
    "tail_crc32c": 7,
    "if_absent": False,
    "if_match": "",
    "customer_key": "",
}


def token_of(**fields: object) -> Token:
    return Token("s3", "s3://bucket/d/name", (5 << 20) + 5, {**STATE, **fields})


def test_pack_and_unpack() -> None:
    packed = Token("a store", "s://a/b\udc80\u00fc", 3, {"x": 1}).pack()
    assert packed.isascii()
    token = Token.unpack(memoryview(packed))  # type: ignore[arg-type]
    assert (token.store, token.url, token.length) == ("a store", "s://a/b\udc80\u00fc", 3)
    assert token.state == {"x": 1}
    assert repr(Token("hdfs", "hdfs://a/b", 3, {})) == "<token of 3 bytes of hdfs://a/b on hdfs>"


@pytest.mark.parametrize("token", ["text", None, 3])
def test_not_bytes(token: Any) -> None:
    for call in (hflush.resume, hflush.commit):
        with pytest.raises(TypeError, match="a token must be bytes, not"):
            call(token)


@pytest.mark.parametrize("token", [b"", b"{}", b"[]", b"\xff", b'{"kind": "x"}', b"[" * 100_000])
def test_not_a_token(token: bytes) -> None:
    with pytest.raises(ValueError, match=r"not a token of persist\(\)"):
        hflush.resume(token)


def test_cut_off_anywhere() -> None:
    packed = token_of().pack()
    for size in range(len(packed)):
        with pytest.raises(ValueError, match="not a token"):
            Token.unpack(packed[:size])


@pytest.mark.parametrize(
    "changed",
    [{"length": -1}, {"length": True}, {"url": 3}, {"state": []}, {"more": 1}, {"store": None}],
)
def test_damaged(changed: dict[str, object]) -> None:
    document = {**json.loads(token_of().pack()), **changed}
    with pytest.raises(ValueError, match="not a token of persist"):
        Token.unpack(json.dumps(document).encode())


@pytest.mark.parametrize("version", [0, 2, "1", None, True])
def test_another_version(version: object) -> None:
    document = {**json.loads(token_of().pack()), "version": version}
    with pytest.raises(ValueError, match=r"a token of version .*; this hflush knows 1"):
        Token.unpack(json.dumps(document).encode())


def test_a_saved_upload_survives() -> None:
    saved = SavedUpload.of(token_of(), KEY, "")
    assert saved.length == (5 << 20) + 5
    assert saved.state() == STATE


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"parts": [[1, "e", 5 << 20]]}, "not a list of parts"),
        ({"parts": [7]}, "not a list of parts"),
        ({"parts": []}, "do not add up"),
        ({"tail_size": 6}, "do not add up"),
        ({"sizes": [1, 2]}, "how large its parts are"),
        ({"tail_key": "elsewhere/x"}, "not beside its object"),
        ({"customer_key": "md5"}, "another key of SSE-C"),
        ({"upload_id": None}, "wrong type: upload_id"),
        ({"odd": 1}, "unknown.*odd"),
    ],
)
def test_a_damaged_upload(changed: dict[str, object], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        SavedUpload.of(token_of(**changed), KEY, "")


def test_a_local_token_of_another_form(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"x")
    token = Token("raw local files", f"file://{path}", 1, {"inode": 1}).pack()
    with pytest.raises(ValueError, match=r"not a token of raw local files.*birth_ns, crc32c"):
        hflush.resume(token)
    assert path.read_bytes() == b"x"


def test_no_local_token_beside_another_writer(tmp_path: Path) -> None:
    """Where another stream has appended, no count says where the bytes of this one are."""
    path = tmp_path / "f"
    path.write_bytes(b"old")
    with hflush.append(path) as out:
        out.write(b"mine")
        assert Token.unpack(out.persist()).length == 7
        with hflush.append(path) as other:
            other.write(b"other")
        with pytest.raises(hflush.LeaseHeldError, match=r"up to 7, but it has 12 bytes"):
            out.persist()
    assert path.read_bytes() == b"oldmineother"


@pytest.mark.parametrize("how", ["gone", "directory", "parent"])
def test_a_local_file_that_is_gone(tmp_path: Path, how: str) -> None:
    """Also where something else is in its place, or above it."""
    path = tmp_path / "d" / "f"
    with hflush.create(path) as out:
        token = out.persist()
        path.rename(tmp_path / "moved")
        if how == "directory":
            path.mkdir()
        elif how == "parent":
            path.parent.rmdir()
            path.parent.touch()
        with pytest.raises(hflush.StaleTokenError, match=f"persist: .*{path}"):
            out.persist()
    for use in (hflush.resume, hflush.commit):
        with pytest.raises(hflush.StaleTokenError, match="the file is gone"):
            use(token)


def test_a_local_file_of_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is no mount without locks."""
    with hflush.create(tmp_path / "f") as out:
        token = out.persist()

    def refuse(path: str) -> NoReturn:
        raise PermissionError(errno.EACCES, "no", path)

    monkeypatch.setattr(claims, "_open", refuse)
    for use in (hflush.resume, hflush.commit):
        with pytest.raises(PermissionError):
            use(token)


def test_a_refused_persist_holds_no_file(tmp_path: Path) -> None:
    """It may not keep the stream out that has the path now."""
    path = tmp_path / "log"
    with hflush.create(path) as older:
        path.rename(tmp_path / "log.1")
        with hflush.create(path) as newer:
            with pytest.raises(hflush.StaleTokenError):
                older.persist()
            assert Token.unpack(newer.persist()).length == 0


def test_a_signal_handler_within_persist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would wait for itself."""
    with hflush.create(tmp_path / "f") as out:
        monkeypatch.setattr(out._owner, "_persist", lambda _: out.persist())
        with pytest.raises(RuntimeError, match="persist: reentrant call"):
            out.persist()
        monkeypatch.undo()
        assert Token.unpack(out.persist()).length == 0


@pytest.mark.parametrize("name", ["f", "n" * 1000, "\u00fc" * 500, "\U0001f600" * 250])
def test_keys_of_tails_fit(name: str) -> None:
    for directory in ("", "d/" * 300):
        key = (directory + name)[:1000]
        prefix = tail_prefix(key, UPLOAD)
        assert prefix.startswith(directory[: key.rfind("/") + 1] + ".")
        longest = f"{prefix}{'9' * 19}.tail".encode()
        assert len(longest) <= max(1024, len(directory.encode()) + 60)
