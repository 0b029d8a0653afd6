"""S3 under test: the server of a session, and what boto3 sees in it.

    s3_server     the server, of class S3; shared by all tests, each of which has names of its own
    s3_proxy      a FaultProxy in front of it, of one test

It is MinIO, unless pytest's option --s3-server says radosgw or versitygw: then only tests of S3
run, and their outcomes do not prove rules of the contract.

What is seen without hflush is seen by boto3. Keys are what S3 calls them: without a leading slash.
"""

from __future__ import annotations

import contextlib
import json
import posixpath
from collections.abc import Iterator
from contextlib import AbstractContextManager
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from loopback import S3Server

from support.fault_proxy import FaultProxy

NAMESPACE = "hflush-tests"  # the bucket of the session
OPTION = "--s3-server"


class S3:
    """A running server and boto3's client of it.

    url      s3://BUCKET: where tests write, each below a prefix of its own
    conf     what a client's configuration must say
    client   boto3's, with keys that may do everything

    name             "minio", "radosgw" or "versitygw"
    is_conditional   whether it checks If-None-Match and If-Match wherever an object is published
    keeps_checksums  whether it verifies CRC32C, and tells that of an object
    tells_etags      whether its answer to CompleteMultipartUpload has the etag
    completes_once   whether what has been completed is unknown to it
    drops_parts      whether an upload can be completed without some of its parts
    has_files        whether objects are files: none is at the name of a directory, nor below one;
                     and names in listings are not escaped

    An authority is the file of the certificate that has signed that of a server with TLS.
    """

    bucket = NAMESPACE
    name = "minio"
    is_conditional = True
    keeps_checksums = True
    tells_etags = True
    completes_once = True
    drops_parts = True
    has_files = False
    role = "arn:aws:iam::1:role/tests"

    def __init__(self, server: S3Server, authority: Path | None = None) -> None:
        self.server = server
        self.conf = server.conf
        self._verify = None if authority is None else str(authority)
        if authority is not None:
            self.conf["hflush.s3.ssl.ca.file"] = str(authority)
        self.url = f"s3://{self.bucket}"
        self.client = self._boto("s3")
        self._roots = count(1)
        server.make_bucket(self.bucket)

    def verifying_client(self) -> Any:
        """One with boto3's defaults: it verifies the checksums of what it gets."""
        import boto3

        return boto3.client(
            "s3",
            endpoint_url=self.server.url,
            region_name=self.conf["fs.s3a.endpoint.region"],
            aws_access_key_id=self.server.access_key,
            aws_secret_access_key=self.server.secret_key,
            verify=self._verify,
        )

    def _boto(self, service: str) -> Any:
        """One that tries everything once, and whose bodies are what was given."""
        import boto3
        from botocore.config import Config

        config = Config(
            retries={"total_max_attempts": 1},
            s3={"addressing_style": "path"},
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
        )
        return boto3.client(
            service,
            endpoint_url=self.server.url,
            region_name=self.conf["fs.s3a.endpoint.region"],
            aws_access_key_id=self.server.access_key,
            aws_secret_access_key=self.server.secret_key,
            verify=self._verify,
            config=config,
        )

    def root(self) -> str:
        """A fresh, empty directory: a path below the bucket."""
        path = f"/t{next(self._roots)}"
        self.put(path[1:] + "/")
        return path

    # --- objects ---

    def put(self, key: str, data: bytes = b"", **arguments: Any) -> str:
        """Create or replace an object; return its etag."""
        answer = self.client.put_object(Bucket=self.bucket, Key=key, Body=data, **arguments)
        return str(answer["ETag"])

    def get(self, key: str, **arguments: Any) -> bytes:
        answer = self.client.get_object(Bucket=self.bucket, Key=key, **arguments)
        with contextlib.closing(answer["Body"]) as body:
            return bytes(body.read())

    def head(self, key: str, **arguments: Any) -> dict[str, Any]:
        """What S3 says of an object; raises FileNotFoundError."""
        from botocore.exceptions import ClientError

        try:
            found: dict[str, Any] = self.client.head_object(
                Bucket=self.bucket, Key=key, **arguments
            )
        except ClientError as error:
            if error.response["ResponseMetadata"]["HTTPStatusCode"] != 404:
                raise
            raise FileNotFoundError(key) from None
        return found

    def exists(self, key: str) -> bool:
        try:
            self.head(key)
        except FileNotFoundError:
            return False
        return True

    def keys(self, prefix: str = "") -> list[str]:
        """The keys that begin so, markers of directories among them, sorted."""
        pages = self.client.get_paginator("list_objects_v2").paginate(
            Bucket=self.bucket, Prefix=prefix
        )
        return sorted(found["Key"] for page in pages for found in page.get("Contents", []))

    def tree(self, directory: str) -> list[str]:
        """The names of all below a key prefix that ends with a slash, relative to it, sorted.

        A name is an object's, a marker's without its slash, or that of a directory on the way.
        """
        names = set()
        for key in self.keys(directory):
            name = key[len(directory) :].rstrip("/")
            while name:
                names.add(name)
                name = posixpath.dirname(name)
        return sorted(names)

    def copy(self, source: str, destination: str) -> None:
        self.client.copy_object(
            Bucket=self.bucket,
            Key=destination,
            CopySource={"Bucket": self.bucket, "Key": source},
        )

    def delete(self, key: str) -> None:
        self.client.delete_object(Bucket=self.bucket, Key=key)

    def forget(self, path: str) -> None:
        """Drop all objects below a path."""
        raise NotImplementedError

    # --- uploads ---

    def uploads(self, prefix: str = "") -> list[tuple[str, str]]:
        """The keys and ids of uploads that are neither completed nor aborted.

        The server would take `prefix` for a whole key: all are listed, and chosen from here.
        """
        pages = self.client.get_paginator("list_multipart_uploads").paginate(Bucket=self.bucket)
        found = ((each["Key"], each["UploadId"]) for p in pages for each in p.get("Uploads", []))
        return sorted(each for each in found if each[0].startswith(prefix))

    def parts(self, key: str, upload_id: str) -> list[tuple[int, int]]:
        """Numbers and sizes of the parts that an upload has."""
        pages = self.client.get_paginator("list_parts").paginate(
            Bucket=self.bucket, Key=key, UploadId=upload_id
        )
        return [(p["PartNumber"], p["Size"]) for page in pages for p in page.get("Parts", [])]

    def complete(self, key: str, upload_id: str) -> None:
        """Complete an upload with the parts that it has."""
        parts = self.client.list_parts(Bucket=self.bucket, Key=key, UploadId=upload_id)["Parts"]
        fields = ("PartNumber", "ETag", "ChecksumCRC32C")
        self.client.complete_multipart_upload(
            Bucket=self.bucket,
            Key=key,
            UploadId=upload_id,
            MultipartUpload={"Parts": [{f: p[f] for f in fields if f in p} for p in parts]},
        )

    def abort(self, key: str, upload_id: str) -> None:
        self.client.abort_multipart_upload(Bucket=self.bucket, Key=key, UploadId=upload_id)

    # --- limits ---

    def full(self) -> AbstractContextManager[None]:
        """Let the server refuse everything that brings bytes: the bucket's quota is exceeded."""
        raise NotImplementedError

    def restricted(self, *actions: str, resource: str = "*") -> dict[str, str]:
        """The configuration of a user who may do only these ("s3:GetObject"): a session token."""
        policy = {
            "Version": "2012-10-17",
            "Statement": [
                {
                    "Effect": "Allow",
                    "Action": list(actions),
                    "Resource": [f"arn:aws:s3:::{resource}"],
                }
            ],
        }
        sts = self._boto("sts")
        with contextlib.closing(sts):
            keys = sts.assume_role(
                RoleArn=self.role,
                RoleSessionName="tests",
                Policy=json.dumps(policy, separators=(",", ":")),  # radosgw takes no blanks
            )["Credentials"]
        return {
            **self.conf,
            "fs.s3a.aws.credentials.provider": (
                "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider"
            ),
            "fs.s3a.access.key": keys["AccessKeyId"],
            "fs.s3a.secret.key": keys["SecretAccessKey"],
            "fs.s3a.session.token": keys["SessionToken"],
        }

    def close(self) -> None:
        self.client.close()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        OPTION,
        choices=("minio", "radosgw", "versitygw"),
        default="minio",
        help="what tests of S3 run on",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption(OPTION) != "minio":
        items[:] = [item for item in items if _is_of_s3(item)]


def _is_of_s3(item: pytest.Item) -> bool:
    """Whether a test uses the server of the session, or is about another server than MinIO."""
    if "radosgw" in item.path.parts[-2:]:
        return True
    callspec = getattr(item, "callspec", None)
    store = None if callspec is None else callspec.params.get("store")
    return store == "s3" or "s3_server" in getattr(item, "fixturenames", ())


@pytest.fixture(scope="session")
def s3_server(request: pytest.FixtureRequest) -> Iterator[S3]:
    module = import_module(f"support.{request.config.getoption(OPTION)}")
    with module.started() as s3, contextlib.closing(s3):
        yield s3


@pytest.fixture
def s3_proxy(s3_server: S3) -> Iterator[FaultProxy]:
    with FaultProxy(("127.0.0.1", s3_server.server.port)) as proxy:
        yield proxy
