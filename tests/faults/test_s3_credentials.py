"""S3: keys that expire while a stream is open, clocks that are wrong, secrets that stay so."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path

import hflush
import pytest
from support.s3_front import Exchange, answer
from support.s3_writers import (
    COMPLETE,
    DATA,
    HEAD,
    IMPATIENT,
    PATH,
    PUT,
    SMALL,
    UPLOAD,
    file_system,
    published,
    unchanged,
    without_secrets,
    write,
    write_pieces,
)
from support.scripted_s3 import BUCKET, KEY_ID, SECRET, Key, ScriptedS3
from support.waiting import soon

pytestmark = pytest.mark.stores("s3")

TOKEN = "FwoGZXIvYXdzEXAMPLETOKEN//////////"


@pytest.mark.rule("FAIL-1")
@pytest.mark.parametrize("data", [SMALL, DATA], ids=["small", "large"])
def test_a_session_token_is_sent_and_signed(s3: ScriptedS3, data: bytes) -> None:
    s3.keys[KEY_ID] = Key(SECRET, TOKEN)
    with file_system(s3, {"fs.s3a.session.token": TOKEN}) as fs:
        write(fs, data)
    published(s3, data)


@pytest.mark.rule("FAIL-12", "FAIL-3")
@pytest.mark.parametrize(
    ("conf", "code"),
    [
        ({"fs.s3a.secret.key": "wrong" * 8}, "SignatureDoesNotMatch"),
        ({"fs.s3a.access.key": "AKIDSOMEBODY"}, "InvalidAccessKeyId"),
    ],
)
@pytest.mark.parametrize("data", [SMALL, DATA], ids=["small", "large"])
def test_wrong_keys(s3: ScriptedS3, conf: dict[str, str], code: str, data: bytes) -> None:
    """Refused, told, and not asked for ever."""
    with file_system(s3, conf) as fs, pytest.raises(PermissionError, match=code) as caught:
        write(fs, data)
    without_secrets(caught.value)
    assert "wrong" * 8 not in repr(caught.value)
    unchanged(s3)
    assert len(s3.log) <= 3


@pytest.mark.rule("FAIL-1", "FAIL-7")
@pytest.mark.parametrize("operation", [UPLOAD, COMPLETE, PUT])
def test_a_token_that_expires_and_no_other(s3: ScriptedS3, operation: str) -> None:
    """Waits for newer credentials as long as the setting says, then fails with the store's code."""
    s3.fail(operation, answer(400, "ExpiredToken"), times=None)
    with (
        file_system(s3, {"hflush.s3.credentials.wait": "200ms"}) as fs,
        pytest.raises(OSError, match="ExpiredToken") as caught,
    ):
        write(fs, SMALL if operation == PUT else DATA)
    without_secrets(caught.value)
    unchanged(s3)


@pytest.fixture
def profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """A profile of botocore's whose keys come from a program: what it says can be changed."""
    said = tmp_path / "keys.json"
    config = tmp_path / "config"
    config.write_text(f"[default]\ncredential_process = cat {said}\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)

    def say(key_id: str) -> None:
        ends = datetime.now(timezone.utc) + timedelta(hours=2)
        keys = {"AccessKeyId": key_id, "SecretAccessKey": SECRET, "SessionToken": TOKEN}
        said.write_text(json.dumps({"Version": 1, **keys, "Expiration": ends.isoformat()}))

    return say


@pytest.fixture
def static_profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """A profile whose keys, with a token, stand in a file: it can be written again."""
    shared = tmp_path / "credentials"
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(shared))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)

    def say(key_id: str) -> None:
        shared.write_text(
            f"[default]\naws_access_key_id = {key_id}\naws_secret_access_key = {SECRET}\n"
            f"aws_session_token = {TOKEN}\n"
        )

    return say


def without_keys(server: ScriptedS3) -> dict[str, str]:
    """A configuration that names no keys."""
    keys = {"fs.s3a.access.key", "fs.s3a.secret.key"}
    return {key: value for key, value in {**server.conf, **IMPATIENT}.items() if key not in keys}


@pytest.mark.rule("FAIL-12")
def test_a_static_profile_whose_token_has_ended_is_told_soon(
    s3: ScriptedS3, static_profile: Callable[[str], None]
) -> None:
    """Nobody will bring another: an hour would be waited for nothing."""
    s3.keys = {"AKIDFIRST": Key(SECRET, TOKEN, expired=True)}
    static_profile("AKIDFIRST")
    conf = {**without_keys(s3), "hflush.s3.credentials.wait": "1h"}
    with (
        hflush.FileSystem.new_instance(f"s3://{BUCKET}/", conf) as fs,
        soon(),
        pytest.raises(PermissionError, match="ExpiredToken"),
    ):
        write(fs, SMALL)


@pytest.mark.rule("FAIL-1", "FAIL-10")
def test_a_static_profile_that_was_written_again_is_read_again(
    s3: ScriptedS3, static_profile: Callable[[str], None]
) -> None:
    s3.keys = {"AKIDFIRST": Key(SECRET, TOKEN)}
    static_profile("AKIDFIRST")
    with hflush.FileSystem.new_instance(f"s3://{BUCKET}/", without_keys(s3)) as fs:
        write(fs, SMALL, "/first")
        s3.keys["AKIDFIRST"].expired = True
        s3.keys["AKIDSECOND"] = Key(SECRET, TOKEN)
        static_profile("AKIDSECOND")
        write(fs, SMALL)
    published(s3, SMALL)


@pytest.mark.rule("FAIL-1", "FAIL-10")
@pytest.mark.parametrize("operation", [UPLOAD, COMPLETE, PUT])
def test_a_token_that_expires_and_then_another(
    s3: ScriptedS3, profile: Callable[[str], None], operation: str
) -> None:
    """Newer ones are asked for, and the stream goes on with them."""
    s3.keys = {"AKIDFIRST": Key(SECRET, TOKEN)}
    profile("AKIDFIRST")

    def expire(exchange: Exchange) -> None:
        s3.keys["AKIDFIRST"].expired = True
        s3.keys["AKIDSECOND"] = Key(SECRET, TOKEN)
        profile("AKIDSECOND")
        exchange.send(exchange.execute())

    s3.fail(operation, expire)
    conf = {"fs.s3a.aws.credentials.provider": "ProfileCredentialsProvider"}
    with file_system(s3, conf) as fs:
        data = SMALL if operation == PUT else DATA
        write(fs, data)
    published(s3, data)
    assert "AKIDSECOND" in s3.log[-1].head.get("authorization")


@pytest.mark.rule("OBJ-10", "FAIL-1", "FAIL-10")
@pytest.mark.parametrize("operation", [COMPLETE, PUT])
def test_a_token_that_expires_before_the_look(
    s3: ScriptedS3, profile: Callable[[str], None], operation: str
) -> None:
    """HEAD cannot be told so: a lost publication is found all the same."""
    s3.keys = {"AKIDFIRST": Key(SECRET, TOKEN)}
    profile("AKIDFIRST")

    def expire(exchange: Exchange) -> None:
        exchange.execute()
        s3.keys["AKIDFIRST"].expired = True
        s3.keys["AKIDSECOND"] = Key(SECRET, TOKEN)
        profile("AKIDSECOND")
        exchange.close()

    s3.fail(operation, expire)
    conf = {"fs.s3a.aws.credentials.provider": "ProfileCredentialsProvider"}
    with file_system(s3, conf) as fs:
        data = SMALL if operation == PUT else DATA
        stream = write(fs, data, overwrite=False)
    assert stream.outcome == "published"
    published(s3, data)
    assert [call.status for call in s3.log if call.operation == HEAD] == [400, 200]
    assert s3.count(operation) == 1


# --- the clock


@pytest.mark.rule("FAIL-1")
@pytest.mark.parametrize("ahead_s", [20 * 60, -20 * 60, 3 * 86400])
@pytest.mark.parametrize("data", [SMALL, DATA], ids=["small", "large"])
def test_another_time(s3: ScriptedS3, ahead_s: float, data: bytes) -> None:
    """The server's clock is learnt from its refusal, once for all that follows."""
    s3.clock_ahead_s = ahead_s
    with file_system(s3) as fs:
        write(fs, data)
        published(s3, data)
        refused = [call for call in s3.log if call.status == 403]
        s3.log.clear()
        write(fs, data)
        published(s3, data)
    assert len(refused) == 1
    assert all(call.status < 300 for call in s3.log)


@pytest.mark.rule("FAIL-1")
def test_a_clock_that_jumps_in_the_middle(s3: ScriptedS3, s3_fs: hflush.FileSystem) -> None:
    """Likewise of a stream that is open."""
    with s3_fs.create(PATH) as out:
        write_pieces(out, DATA[: 6 << 20])
        s3.wait_for(UPLOAD)
        s3.clock_ahead_s = 20 * 60
        write_pieces(out, DATA[6 << 20 :])
    published(s3)


@pytest.mark.rule("OBJ-10", "FAIL-1")
@pytest.mark.parametrize("ahead_s", [20 * 60, -20 * 60])
@pytest.mark.parametrize("operation", [COMPLETE, PUT])
def test_a_clock_that_jumps_before_the_look(
    s3: ScriptedS3, s3_fs: hflush.FileSystem, operation: str, ahead_s: float
) -> None:
    """HEAD cannot be told so: a lost publication is found all the same."""

    def jump(exchange: Exchange) -> None:
        exchange.execute()
        s3.clock_ahead_s = ahead_s
        exchange.close()

    s3.fail(operation, jump)
    data = SMALL if operation == PUT else DATA
    stream = write(s3_fs, data, overwrite=False)
    assert stream.outcome == "published"
    published(s3, data)
    assert [call.status for call in s3.log if call.operation == HEAD] == [403, 200]
    assert s3.count(operation) == 1


@pytest.mark.rule("FAIL-7")
def test_a_clock_that_is_never_right(s3: ScriptedS3, s3_fs: hflush.FileSystem) -> None:
    """Is corrected once, not for ever."""
    s3.fail(PUT, answer(403, "RequestTimeTooSkewed"), times=None)
    with pytest.raises(PermissionError, match="RequestTimeTooSkewed"):
        write(s3_fs, SMALL)
    assert s3.count(PUT) == 2


# --- secrets


@pytest.mark.rule("FAIL-3")
def test_secrets_are_in_nothing_that_is_shown_or_sent_on(s3: ScriptedS3) -> None:
    """Neither of a file system, nor of a stream, nor of its upload, nor pickled."""
    s3.keys[KEY_ID] = Key(SECRET, TOKEN)
    with file_system(s3, {"fs.s3a.session.token": TOKEN}) as fs:
        stream = write(fs)
        shown = [repr(fs), str(fs), repr(stream), str(stream), repr(fs.conf), str(fs.uri)]
        pickled = pickle.dumps(fs)
    for secret in (SECRET, TOKEN):
        assert not any(secret in text for text in shown)
        assert secret.encode() not in pickled
