"""Ceph's gateway under test: what support/s3.py leaves to a server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

from radosgw import RadosGateway

from support.s3 import S3

TRUSTED = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Principal": {"AWS": ["*"]}, "Action": ["sts:AssumeRole"]}],
}
EVERYTHING = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Action": ["s3:*"], "Resource": ["arn:aws:s3:::*"]}],
}


class Gateway(S3):
    """radosgw, administered by its own program."""

    name = "radosgw"
    is_conditional = False  # PutObject is, CompleteMultipartUpload is not
    keeps_checksums = False  # but it verifies MD5
    tells_etags = False
    completes_once = False
    drops_parts = False
    role = "arn:aws:iam:::role/tests"
    server: RadosGateway

    def __init__(self, server: RadosGateway) -> None:
        super().__init__(server)
        self.conf["fs.s3a.request.md5.header"] = "true"
        administer = server.cluster.administer
        role = ("--role-name", "tests")
        administer("role", "create", *role, "--assume-role-policy-doc", json.dumps(TRUSTED))
        administer(
            "role-policy", "put", *role, "--policy-name", "all",
            "--policy-doc", json.dumps(EVERYTHING),
        )  # fmt: skip

    def forget(self, path: str) -> None:
        pages = self.client.get_paginator("list_objects_v2").paginate(
            Bucket=self.bucket, Prefix=path[1:] + "/"
        )
        for page in pages:
            if found := [{"Key": each["Key"]} for each in page.get("Contents", [])]:
                self.client.delete_objects(Bucket=self.bucket, Delete={"Objects": found})

    @contextmanager
    def full(self) -> Iterator[None]:
        administer = self.server.cluster.administer
        place = ("--quota-scope", "bucket", "--bucket", self.bucket)
        administer("quota", "set", *place, "--max-size", 1)
        administer("quota", "enable", *place)
        try:
            yield
        finally:
            administer("quota", "disable", *place)


@contextmanager
def started() -> Iterator[S3]:
    with RadosGateway.start() as server:
        yield Gateway(server)
