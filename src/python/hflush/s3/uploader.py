"""Objects made of parts that several processes put: S3's own multipart uploads.

Made by :meth:`hflush.s3.S3FileSystem.create_multipart_uploader`. All parts but the last have 5 MiB
at least, numbers go up to 10,000, and a part is in memory while it is sent. Nothing is visible
before :meth:`S3MultipartUploader.complete`.

Notes
-----
Source: Hadoop's MultipartUploader; contract MPU-1 to MPU-9.
"""

from __future__ import annotations

import contextlib
import errno
import json
from io import UnsupportedOperation
from typing import TYPE_CHECKING, Any, BinaryIO

from .. import _core, paths
from ..errors import PathIsDirectoryError
from ..multipart import UploaderBelow, _checked_number, _decoded, _pieces, _unknown_upload
from ..write_only import view_of
from . import completion
from .answers import code_of, failure_of
from .documents import Part
from .keys import MAX_PARTS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Protocol

    from typing_extensions import Buffer

    from ..paths import StrPath
    from .bucket import Bucket

    class Objects(Protocol):
        """What an uploader asks of the file system that made it."""

        def _published(self, path: str) -> None: ...
        def _resolve(self, path: StrPath) -> str: ...
        def _resolve_to_change(self, path: StrPath) -> str: ...
        def _sees_children(self, path: str) -> bool: ...
        def abort_multipart_uploads(self, prefix: StrPath) -> int: ...


__all__ = ["S3MultipartUploader"]


class S3MultipartUploader(UploaderBelow):
    """Uploads objects below a directory in parts, as MultipartUploader does files."""

    _filesystem: Objects

    def __init__(self, filesystem: Objects, base: str, bucket: Bucket) -> None:
        super().__init__(filesystem, base)
        self._bucket = bucket

    # --- one upload ---

    def _start(self, path: str) -> bytes:
        self._bucket.try_encryption(path[1:], path)
        token = completion.new_token()
        settings = self._bucket.settings
        upload_id, has_checksums = self._bucket.create_upload(
            path[1:],
            path,
            settings.headers,
            token=token,
            checksums=settings.native.checksums,
        )
        return json.dumps([path, upload_id, token, has_checksums]).encode("ascii")

    def _put(self, upload: bytes, path: StrPath, number: int, data: Buffer | BinaryIO) -> bytes:
        found = self._find(upload, path)
        if _checked_number(number) > MAX_PARTS:
            raise ValueError(f"the number of a part must be {MAX_PARTS} or less, not {number}")
        body = view_of(b"".join(_pieces(data)) if hasattr(data, "read") else data)
        crc32c = _core.crc32c(body)
        response = self._bucket.upload(found.key, found.path).upload_part(
            found.upload_id, number, body, checksums=found.checksums
        )
        if response.error is not None:
            raise _as_unknown(response, found.upload_id, self._bucket.name(found.path))
        self._bucket.check_encryption(response, "UploadPart", found.path, if_told=True)
        etag = response.headers["etag"].removeprefix("W/")
        return json.dumps([number, etag, body.nbytes, crc32c]).encode("ascii")

    def _complete(self, upload: bytes, path: StrPath, parts: Mapping[int, bytes]) -> bytes:
        found = self._find(upload, path)
        chosen = _checked_parts(parts)
        self._refuse_directory(found.path)
        self._refuse_ended(found)
        what = completion.Publication(
            found.key, found.upload_id, chosen, found.token, checksums=found.checksums
        )
        try:
            etag = completion.complete(self._bucket, what, found.path, "first")
        except OSError as refusal:
            if code_of(refusal) != "InvalidPart":
                raise
            message = "upload: no such part, or it was put again since"
            name = self._bucket.name(found.path)
            raise FileNotFoundError(errno.ENOENT, message, name) from refusal
        self._filesystem._published(found.path)
        return json.dumps([found.path, etag]).encode("ascii")

    def _abort(self, upload: bytes, path: StrPath) -> None:
        found = self._find(upload, path)
        if not self._bucket.abort_upload(found.key, found.upload_id, found.path):
            raise _unknown_upload(found.upload_id, self._bucket.name(found.path))

    # --- all uploads ---

    def _abort_under(self, path: str) -> int:
        if not paths.is_under(path, self.base):
            return 0
        return self._filesystem.abort_multipart_uploads(path)

    # --- how ---

    def _refuse_directory(self, path: str) -> None:
        if self._filesystem._sees_children(path):
            name = self._bucket.name(path)
            raise PathIsDirectoryError(errno.EISDIR, "upload: path is a directory", name)

    def _refuse_ended(self, upload: _Upload) -> None:
        """Look for the upload: some stores complete again what they have completed."""
        # To list parts is another permission, and stores do without.
        with contextlib.suppress(PermissionError, UnsupportedOperation):
            if not self._bucket.upload_exists(upload.key, upload.upload_id, upload.path):
                raise _unknown_upload(upload.upload_id, self._bucket.name(upload.path))

    def _find(self, upload: bytes, path: StrPath) -> _Upload:
        text = _decoded(upload, "an upload")
        resolved = self._resolve(path)
        decoded: Any = None
        with contextlib.suppress(ValueError, RecursionError):
            decoded = json.loads(text)
        kinds = [str, str, str, bool]
        if not (isinstance(decoded, list) and [type(item) for item in decoded] == kinds):
            raise _unknown_upload(text, self._bucket.name(resolved))
        target, upload_id, token, has_checksums = decoded
        if target != resolved:
            raise ValueError(f"upload {upload_id} is of {target!r}, not of {resolved!r}")
        return _Upload(resolved, upload_id, token, has_checksums)


class _Upload:
    """What an upload's opaque bytes say."""

    __slots__ = ("checksums", "path", "token", "upload_id")

    def __init__(self, path: str, upload_id: str, token: str, checksums: bool) -> None:
        self.path = path
        self.upload_id = upload_id
        self.token = token
        self.checksums = checksums

    @property
    def key(self) -> str:
        return self.path[1:]


def _as_unknown(response: _core.S3Response, upload_id: str, path: str) -> OSError:
    """Return a failure; where the upload is gone, that of an unknown one."""
    error = failure_of(response)
    if response.kind != "gone" or error is None:
        return error or OSError(errno.EIO, "UploadPart: no answer", path)
    unknown = _unknown_upload(upload_id, path)
    unknown.__cause__ = error
    return unknown


def _checked_parts(parts: Mapping[int, bytes]) -> tuple[Part, ...]:
    """Return the parts in order."""
    if not parts:
        raise ValueError("an upload cannot be completed without parts")
    chosen = []
    for number in sorted(_checked_number(number) for number in parts):
        part = _part(_decoded(parts[number], "a part"))
        if part.number != number:
            raise ValueError(f"part {part.number} was not put as number {number}")
        chosen.append(part)
    return tuple(chosen)


def _part(text: str) -> Part:
    decoded: Any = None
    with contextlib.suppress(ValueError, RecursionError):
        decoded = json.loads(text)
    if not (isinstance(decoded, list) and [type(item) for item in decoded] == [int, str, int, int]):
        raise ValueError(f"not a part: {text!r}")
    part = Part(*decoded)
    if not (part.number > 0 and part.etag and part.size >= 0 and 0 <= part.crc32c < 1 << 32):
        raise ValueError(f"not a part: {text!r}")
    return part
