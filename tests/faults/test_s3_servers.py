"""The scripted S3 server is strict where tests rely on it: asked by boto3, and by broken calls."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.exceptions import ClientError
from support.s3_front import answer, hold, lose_answer, reset_before
from support.scripted_s3 import BUCKET, KEY_ID, MIB, REGION, SECRET, ScriptedS3

# What the tests say of hflush they say through this server, so it is asked without hflush.


@pytest.fixture
def s3() -> Iterator[ScriptedS3]:
    with ScriptedS3() as server:
        yield server


@pytest.fixture
def client(s3: ScriptedS3) -> Iterator[Any]:
    made = client_of(s3)
    yield made
    made.close()


def client_of(s3: ScriptedS3, secret: str = SECRET) -> Any:
    config = Config(
        s3={"addressing_style": "path"},
        retries={"total_max_attempts": 1},
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )
    return boto3.client(
        "s3",
        endpoint_url=s3.endpoint,
        region_name=REGION,
        aws_access_key_id=KEY_ID,
        aws_secret_access_key=secret,
        config=config,
    )


def code_of(call: Any, **arguments: Any) -> str:
    with pytest.raises(ClientError) as caught:
        call(Bucket=BUCKET, Key="key", **arguments)
    return str(caught.value.response["Error"]["Code"])


def test_objects(s3: ScriptedS3, client: Any) -> None:
    for key in ("a+b", "a=b!'(c)*", "é/日本", "x/../y", "a%2Fb", "a&b?c#d"):
        client.put_object(Bucket=BUCKET, Key=key, Body=b"data of " + key.encode())
        got = client.get_object(Bucket=BUCKET, Key=key)["Body"].read()
        assert got == b"data of " + key.encode() == s3.objects[key].data
    ranged = client.get_object(Bucket=BUCKET, Key="a+b", Range="bytes=5-6")
    assert ranged["Body"].read() == b"of"
    assert ranged["ContentRange"] == "bytes 5-6/11"
    listed = client.list_objects_v2(Bucket=BUCKET, Delimiter="/")
    assert [each["Key"] for each in listed["Contents"]] == sorted(
        key for key in s3.objects if "/" not in key
    )
    assert len(listed["CommonPrefixes"]) == 2
    assert code_of(client.get_object) == "NoSuchKey"


def test_signatures(s3: ScriptedS3, client: Any) -> None:
    assert code_of(client_of(s3, secret="wrong").put_object, Body=b"x") == "SignatureDoesNotMatch"
    s3.keys[KEY_ID].token = "token"
    assert code_of(client.put_object, Body=b"x") == "InvalidToken"
    s3.keys[KEY_ID].token = ""
    s3.keys[KEY_ID].expired = True
    assert code_of(client.put_object, Body=b"x") == "ExpiredToken"
    s3.keys[KEY_ID].expired = False
    s3.clock_ahead_s = 20 * 60
    assert code_of(client.put_object, Body=b"x") == "RequestTimeTooSkewed"
    assert s3.objects == {}


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({}, ""),
        ({"x-amz-acl": "private"}, "AccessDenied"),  # not signed
        ({"host": "elsewhere"}, "SignatureDoesNotMatch"),
        ({"x-amz-date": "20200102T030405Z"}, "SignatureDoesNotMatch"),
        ({"authorization": ""}, "AccessDenied"),
        ({"body": "other"}, "XAmzContentSHA256Mismatch"),
    ],
    ids=str,
)
def test_what_is_changed_on_the_way(s3: ScriptedS3, change: dict[str, str], code: str) -> None:
    status, text = put(s3, change)
    assert (f"<Code>{code}</Code>" in text) == bool(code)
    assert (status == 200) == (not code)


def put(s3: ScriptedS3, change: dict[str, str]) -> tuple[int, str]:
    """One PUT, signed by botocore, then changed; what it was answered."""
    request = AWSRequest("PUT", f"{s3.endpoint}/{BUCKET}/key?x=%2F", data=b"data")
    S3SigV4Auth(Credentials(KEY_ID, SECRET), "s3", REGION).add_auth(request)
    headers = {name.lower(): value for name, value in request.headers.items()}
    headers["host"] = s3.endpoint.partition("//")[2]
    body = change.get("body", "data").encode()
    headers.update({name: value for name, value in change.items() if name != "body"})
    connection = http.client.HTTPConnection("127.0.0.1", s3.port)
    try:
        connection.request("PUT", f"/{BUCKET}/key?x=%2F", body, headers)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def test_bodies(s3: ScriptedS3, client: Any) -> None:
    wrong_md5 = "AAAAAAAAAAAAAAAAAAAAAA=="
    assert code_of(client.put_object, Body=b"x", ContentMD5=wrong_md5) == "BadDigest"
    assert code_of(client.put_object, Body=b"x", ChecksumCRC32C="AAAAAA==") == "BadDigest"
    client.put_object(Bucket=BUCKET, Key="key", Body=b"hello", ChecksumCRC32C="mnG7TA==")
    assert code_of(client.put_object, Body=b"x", IfNoneMatch="*") == "PreconditionFailed"
    assert code_of(client.put_object, Body=b"x", IfMatch='"other"') == "PreconditionFailed"
    assert s3.objects["key"].data == b"hello"


def test_uploads(s3: ScriptedS3, client: Any) -> None:
    upload = {"Bucket": BUCKET, "Key": "key"}
    upload["UploadId"] = client.create_multipart_upload(**upload)["UploadId"]
    sizes = [5 * MIB, 5 * MIB - 1, 1]
    parts = [
        {"PartNumber": n, "ETag": client.upload_part(**upload, PartNumber=n, Body=b"x" * s)["ETag"]}
        for n, s in enumerate(sizes, 1)
    ]

    def complete(*chosen: dict[str, Any], **more: Any) -> str:
        try:
            client.complete_multipart_upload(
                **upload, MultipartUpload={"Parts": list(chosen)}, **more
            )
        except ClientError as error:
            return str(error.response["Error"]["Code"])
        return ""

    assert complete() == "MalformedXML"
    assert complete(parts[1], parts[0]) == "InvalidPartOrder"
    assert complete(parts[0], parts[0]) == "InvalidPartOrder"
    assert complete(parts[0], {**parts[1], "ETag": parts[0]["ETag"]}) == "InvalidPart"
    assert complete(parts[0], {"PartNumber": 9, "ETag": parts[0]["ETag"]}) == "InvalidPart"
    assert complete(*parts) == "EntityTooSmall"
    assert complete(*parts[:2], MpuObjectSize=5) == "InvalidRequest"
    assert complete({**parts[0], "ChecksumCRC32C": "AAAAAA=="}) == "InvalidPart"
    assert len(client.list_parts(**upload)["Parts"]) == 3
    assert client.list_multipart_uploads(Bucket=BUCKET)["Uploads"][0]["Key"] == "key"
    s3.put("key", b"another")
    assert complete(*parts[:2], IfNoneMatch="*") == "PreconditionFailed"
    assert complete(*parts[:2]) == ""
    assert s3.objects["key"].size == 10 * MIB - 1
    assert complete(*parts[:2]) == "NoSuchUpload"
    assert s3.uploads == {}


def test_faults_come_in_their_turn(s3: ScriptedS3) -> None:
    s3.fail("PutObject", answer(503, "SlowDown"), skip=1)
    s3.fail("PutObject", lose_answer)
    s3.fail("PutObject", reset_before)
    with pytest.raises(ConnectionResetError):
        put(s3, {})
    assert s3.objects["key"].data == b"data"
    assert put(s3, {})[0] == 503
    with pytest.raises(ConnectionResetError):
        put(s3, {})
    assert put(s3, {})[0] == 200
    calls = s3.calls("PutObject")
    assert [call.fault for call in calls] == ["lose_answer", "503 SlowDown", "reset_before", ""]
    assert [call.status for call in calls] == [0, 503, 0, 200]


def test_close_ends_what_is_held(s3: ScriptedS3, client: Any) -> None:
    s3.fail("PutObject", hold(threading.Event()))
    failures: list[BaseException] = []

    def put() -> None:
        try:
            client.put_object(Bucket=BUCKET, Key="key", Body=b"data")
        except Exception as failure:
            failures.append(failure)

    thread = threading.Thread(target=put)
    thread.start()
    s3.wait_for("PutObject")
    s3.close()
    thread.join()
    assert len(failures) == 1
    assert s3.objects == {}
