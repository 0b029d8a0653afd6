"""The clients of S3 that hflush is compared with, and hflush, behind one interface.

Each is set so that all do alike: parts of the same size, as many in flight, path style. The rest
is as each of them comes, or, `cheapest`, what costs it least: payloads unsigned where that can be
said, checksums where the store insists. Importing a client is left until it is made.
"""

from __future__ import annotations

import io
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import Self

MIB = 1 << 20


@dataclass(frozen=True)
class Endpoint:
    """Where the store is, and what is written how."""

    url: str
    bucket: str
    access_key: str
    secret_key: str
    region: str = "us-east-1"
    part_bytes: int = 8 * MIB
    parts_in_flight: int = 4
    cheapest: bool = False
    authority: str = ""  # the file of the certificate that has signed the server's
    settings: Mapping[str, str] = field(default_factory=dict)  # hflush's, beyond these


class S3Client(ABC):
    """What a client offers, under the same names for each."""

    name: str
    streams: bool = True  # has an object with write() and close()

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint

    @abstractmethod
    def create(self, key: str) -> Any:
        """Make a stream with write and close."""

    def create_new(self, key: str) -> Any:
        """Make one that publishes only where no object is yet; None if the client has none."""
        del key

    def write(self, key: str, pieces: Iterable[bytes]) -> None:
        """Write an object from pieces that lie in memory already."""
        stream = self.create(key)
        for piece in pieces:
            stream.write(piece)
        stream.close()

    @abstractmethod
    def open(self, key: str) -> Any:
        """Open an object for reading: with read, seek and close."""

    def read(self, key: str, size: int) -> int:
        """Read an object once in order, so much at a time; return its length."""
        total = 0
        with self.open(key) as stream:
            while piece := stream.read(size):
                total += len(piece)
        return total

    @abstractmethod
    def preads(self, key: str, positions: Iterable[int], size: int) -> int:
        """Read so many bytes at each of the positions; return how many in all."""

    @abstractmethod
    def count(self, directory: str) -> int:
        """List all objects below a directory, with their sizes; return how many there are."""

    def copy(self, source: str, target: str) -> None:
        """Let the store copy an object."""
        raise NotImplementedError(f"{self.name} is not asked to copy {source} to {target}")

    def delete(self, key: str) -> None:
        """Delete an object."""
        raise NotImplementedError(f"{self.name} is not asked to delete {key}")

    def close(self) -> None:  # noqa: B027 - most need not
        """Release what the client holds."""


class Hflush(S3Client):
    """The library that this repository makes."""

    name = "hflush"

    def __init__(self, endpoint: Endpoint) -> None:
        import hflush

        super().__init__(endpoint)
        conf = {
            "fs.s3a.endpoint": endpoint.url,
            "fs.s3a.endpoint.region": endpoint.region,
            "fs.s3a.path.style.access": "true",
            "fs.s3a.access.key": endpoint.access_key,
            "fs.s3a.secret.key": endpoint.secret_key,
            "fs.s3a.multipart.size": str(endpoint.part_bytes),
            "fs.s3a.fast.upload.active.blocks": str(endpoint.parts_in_flight),
            **({"hflush.s3.ssl.ca.file": endpoint.authority} if endpoint.authority else {}),
            **endpoint.settings,
        }
        self._fs = hflush.FileSystem.new_instance(f"s3://{endpoint.bucket}/", conf)

    def create(self, key: str) -> Any:
        return self._fs.create(f"/{key}")

    def create_new(self, key: str) -> Any:
        return self._fs.create(f"/{key}", overwrite=False)

    def open(self, key: str) -> Any:
        return self._fs.open(f"/{key}")

    def read(self, key: str, size: int) -> int:
        total, buffer = 0, memoryview(bytearray(size))
        with self._fs.open(f"/{key}") as stream:
            while got := stream.readinto(buffer):
                total += got
        return total

    def preads(self, key: str, positions: Iterable[int], size: int) -> int:
        with self._fs.open(f"/{key}") as stream:
            return sum(len(stream.pread(position, size)) for position in positions)

    def count(self, directory: str) -> int:
        return sum(1 for _ in self._fs.list_files(f"/{directory}", recursive=True))

    def copy(self, source: str, target: str) -> None:
        self._fs.copy(f"/{source}", f"/{target}")

    def delete(self, key: str) -> None:
        self._fs.delete(f"/{key}")

    def close(self) -> None:
        self._fs.close()


class Obstore(S3Client):
    """Rust's object_store."""

    name = "obstore"

    def __init__(self, endpoint: Endpoint) -> None:
        import obstore
        from obstore.store import S3Store

        super().__init__(endpoint)
        self._obstore = obstore
        self._store = S3Store(
            endpoint.bucket,
            endpoint=endpoint.url,
            access_key_id=endpoint.access_key,
            secret_access_key=endpoint.secret_key,
            region=endpoint.region,
            virtual_hosted_style_request=False,
            unsigned_payload=endpoint.cheapest,
            # It takes no authority but those of the system.
            client_options={
                "allow_http": True,
                "allow_invalid_certificates": bool(endpoint.authority),
            },
        )

    def create(self, key: str) -> Any:
        return self._obstore.open_writer(
            self._store,
            key,
            buffer_size=self.endpoint.part_bytes,
            max_concurrency=self.endpoint.parts_in_flight,
        )

    def open(self, key: str) -> Any:
        return self._obstore.open_reader(self._store, key)

    def read(self, key: str, size: int) -> int:
        # What its documentation recommends for whole objects.
        stream = self._obstore.get(self._store, key).stream(min_chunk_size=size)
        return sum(len(piece) for piece in stream)

    def preads(self, key: str, positions: Iterable[int], size: int) -> int:
        get_range = self._obstore.get_range
        return sum(len(get_range(self._store, key, start=p, length=size)) for p in positions)

    def count(self, directory: str) -> int:
        return sum(len(page) for page in self._obstore.list(self._store, directory))

    def copy(self, source: str, target: str) -> None:
        self._obstore.copy(self._store, source, target)

    def delete(self, key: str) -> None:
        self._obstore.delete(self._store, key)


class OpenDal(S3Client):
    """Apache OpenDAL, in Rust."""

    name = "opendal"

    def __init__(self, endpoint: Endpoint) -> None:
        import opendal

        super().__init__(endpoint)
        self._operator = opendal.Operator(
            "s3",
            bucket=endpoint.bucket,
            endpoint=endpoint.url,
            region=endpoint.region,
            access_key_id=endpoint.access_key,
            secret_access_key=endpoint.secret_key,
            disable_config_load="true",
            disable_ec2_metadata="true",
        )

    def create(self, key: str) -> Any:
        return self._writer(key)

    def create_new(self, key: str) -> Any:
        return self._writer(key, if_not_exists=True)

    def _writer(self, key: str, **options: Any) -> Any:
        parts = self.endpoint.parts_in_flight
        return self._operator.open(
            key, "wb", chunk=self.endpoint.part_bytes, concurrent=parts, **options
        )

    def open(self, key: str) -> Any:
        return self._operator.open(key, "rb")

    def preads(self, key: str, positions: Iterable[int], size: int) -> int:
        read = self._operator.read
        return sum(len(read(key, offset=position, size=size)) for position in positions)

    def count(self, directory: str) -> int:
        return sum(1 for _ in self._operator.list(f"{directory}/", recursive=True))


class PyArrow(S3Client):
    """Arrow's file system, which is the AWS SDK for C++."""

    name = "pyarrow"

    def __init__(self, endpoint: Endpoint) -> None:
        if endpoint.cheapest:
            os.environ["AWS_REQUEST_CHECKSUM_CALCULATION"] = "when_required"
            os.environ["AWS_RESPONSE_CHECKSUM_VALIDATION"] = "when_required"
        from pyarrow import fs

        super().__init__(endpoint)
        scheme, _, authority = endpoint.url.partition("://")
        self._fs = fs.S3FileSystem(
            access_key=endpoint.access_key,
            secret_key=endpoint.secret_key,
            region=endpoint.region,
            scheme=scheme,
            endpoint_override=authority,
            background_writes=True,
            allow_delayed_open=True,
        )

    def _path(self, key: str) -> str:
        return f"{self.endpoint.bucket}/{key}"

    def create(self, key: str) -> Any:
        return self._fs.open_output_stream(self._path(key))

    def open(self, key: str) -> Any:
        return self._fs.open_input_file(self._path(key))

    def read(self, key: str, size: int) -> int:
        total = 0
        with self._fs.open_input_stream(self._path(key)) as stream:
            while piece := stream.read_buffer(size):
                total += piece.size
        return total

    def preads(self, key: str, positions: Iterable[int], size: int) -> int:
        with self.open(key) as stream:
            return sum(len(stream.read_at(size, position)) for position in positions)

    def count(self, directory: str) -> int:
        from pyarrow import fs

        found = self._fs.get_file_info(fs.FileSelector(self._path(directory), recursive=True))
        return sum(1 for one in found if one.is_file)


def botocore_settings(endpoint: Endpoint) -> dict[str, Any]:
    """The settings of botocore's clients."""
    settings: dict[str, Any] = {"s3": {"addressing_style": "path"}, "max_pool_connections": 32}
    if endpoint.cheapest:
        settings["s3"]["payload_signing_enabled"] = False
        settings["request_checksum_calculation"] = "when_required"
        settings["response_checksum_validation"] = "when_required"
    return settings


class S3fs(S3Client):
    """Fsspec's, on aiobotocore."""

    name = "s3fs"

    def __init__(self, endpoint: Endpoint) -> None:
        import s3fs

        super().__init__(endpoint)
        self._fs = s3fs.S3FileSystem(
            key=endpoint.access_key,
            secret=endpoint.secret_key,
            client_kwargs={"endpoint_url": endpoint.url, "region_name": endpoint.region},
            config_kwargs=botocore_settings(endpoint),
            default_block_size=endpoint.part_bytes,
            max_concurrency=endpoint.parts_in_flight,
        )

    def _path(self, key: str) -> str:
        return f"{self.endpoint.bucket}/{key}"

    def create(self, key: str) -> Any:
        return self._fs.open(self._path(key), "wb", block_size=self.endpoint.part_bytes)

    def create_new(self, key: str) -> Any:
        return self._fs.open(self._path(key), "xb", block_size=self.endpoint.part_bytes)

    def open(self, key: str) -> Any:
        return self._fs.open(self._path(key), "rb")

    def preads(self, key: str, positions: Iterable[int], size: int) -> int:
        path = self._path(key)
        return sum(len(self._fs.cat_file(path, start=p, end=p + size)) for p in positions)

    def count(self, directory: str) -> int:
        self._fs.invalidate_cache()
        return len(self._fs.find(self._path(directory)))


class Boto3(S3Client):
    """AWS's own for Python: no stream, so it reads from one that hands out the pieces."""

    name = "boto3"
    streams = False

    def __init__(self, endpoint: Endpoint) -> None:
        import boto3
        from boto3.s3.transfer import TransferConfig
        from botocore.config import Config

        super().__init__(endpoint)
        self.client = boto3.client(
            "s3",
            endpoint_url=endpoint.url,
            region_name=endpoint.region,
            aws_access_key_id=endpoint.access_key,
            aws_secret_access_key=endpoint.secret_key,
            verify=endpoint.authority or None,
            config=Config(**botocore_settings(endpoint)),
        )
        self._transfer = TransferConfig(
            multipart_threshold=endpoint.part_bytes,
            multipart_chunksize=endpoint.part_bytes,
            max_concurrency=endpoint.parts_in_flight,
        )

    def create(self, key: str) -> Any:
        return Upload(self, key)

    def upload(self, key: str, source: Any) -> None:
        self.client.upload_fileobj(source, self.endpoint.bucket, key, Config=self._transfer)

    def put(self, key: str, data: bytes) -> None:
        """Store what is one request: a transfer manager and its threads are for more than that."""
        if len(data) < self.endpoint.part_bytes:
            self.client.put_object(Bucket=self.endpoint.bucket, Key=key, Body=data)
        else:
            self.upload(key, io.BytesIO(data))

    def write(self, key: str, pieces: Iterable[bytes]) -> None:
        self.upload(key, _Pieces(pieces))

    def open(self, key: str) -> Any:
        return self.client.get_object(Bucket=self.endpoint.bucket, Key=key)["Body"]

    def preads(self, key: str, positions: Iterable[int], size: int) -> int:
        total = 0
        for position in positions:
            wanted = f"bytes={position}-{position + size - 1}"
            answer = self.client.get_object(Bucket=self.endpoint.bucket, Key=key, Range=wanted)
            total += len(answer["Body"].read())
        return total

    def count(self, directory: str) -> int:
        pages = self.client.get_paginator("list_objects_v2").paginate(
            Bucket=self.endpoint.bucket, Prefix=f"{directory}/"
        )
        return sum(len(page.get("Contents", ())) for page in pages)

    def copy(self, source: str, target: str) -> None:
        bucket = self.endpoint.bucket
        self.client.copy({"Bucket": bucket, "Key": source}, bucket, target)  # as it is set: parts

    def delete(self, key: str) -> None:
        self.client.delete_object(Bucket=self.endpoint.bucket, Key=key)


class Upload:
    """What comes closest to a stream of boto3: `close` uploads what was written."""

    def __init__(self, client: Boto3, key: str) -> None:
        self._client, self._key = client, key
        self._data: io.BytesIO | None = io.BytesIO()

    def write(self, data: bytes) -> int:
        if self._data is None:
            raise ValueError("closed")
        return self._data.write(data)

    def close(self) -> None:
        data, self._data = self._data, None
        if data is not None:
            self._client.put(self._key, data.getvalue())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.close()


class SmartOpen(S3Client):
    """File objects over boto3."""

    name = "smart_open"

    def __init__(self, endpoint: Endpoint) -> None:
        import smart_open

        super().__init__(endpoint)
        self._open = smart_open.open
        self._parameters = {
            "client": Boto3(endpoint).client,
            "min_part_size": endpoint.part_bytes,
        }

    def _url(self, key: str) -> str:
        return f"s3://{self.endpoint.bucket}/{key}"

    def create(self, key: str) -> Any:
        return self._open(self._url(key), "wb", transport_params=self._parameters)

    def open(self, key: str) -> Any:
        return self._open(self._url(key), "rb", transport_params=self._parameters)

    def preads(self, key: str, positions: Iterable[int], size: int) -> int:
        total = 0
        with self.open(key) as stream:
            for position in positions:
                stream.seek(position)
                total += len(stream.read(size))
        return total

    def count(self, directory: str) -> int:
        raise NotImplementedError(f"smart_open lists no keys: {directory}")


class _Pieces(io.RawIOBase):
    """A file of given pieces, for who wants to read."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces: Iterator[bytes] = iter(pieces)
        self._left = b""

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        taken = [self._left] if self._left else []
        have = len(self._left)
        while size < 0 or have < size:
            piece = next(self._pieces, None)
            if piece is None:
                break
            taken.append(piece)
            have += len(piece)
        data = taken[0] if len(taken) == 1 else b"".join(taken)
        self._left = data[size:] if 0 <= size < have else b""
        return data[:size] if self._left else data


CLIENTS: dict[str, type[S3Client]] = {
    client.name: client for client in (Hflush, Obstore, OpenDal, PyArrow, S3fs, Boto3, SmartOpen)
}
