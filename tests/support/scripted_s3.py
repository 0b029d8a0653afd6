"""An S3 server of our own, stricter than any: for what a real one cannot be made to do.

It verifies signatures with botocore's signer, MD5, SHA-256 and CRC32C of bodies, conditions, the
order, sizes, etags and number of parts; keeps uploads and objects in dictionaries; does to calls
what was ordered (`fail`, see s3_front.py); and logs every request: the oracle for "no Complete was
sent".

    with ScriptedS3() as server:
        server.fail("UploadPart", answer(403, "AccessDenied"), part=2, times=None)
        …
        assert server.count("CompleteMultipartUpload") == 0 and not server.uploads
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import re
import ssl
import struct
import time
from calendar import timegm
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.utils import formatdate
from itertools import count
from urllib.parse import quote, unquote
from xml.sax.saxutils import escape

import google_crc32c
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from defusedxml import ElementTree

from support.s3_front import Answer, Request, S3Front, error_document, make_answer

MIB = 1 << 20
BUCKET = "bucket"
REGION = "us-east-1"
KEY_ID, SECRET = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
XMLNS = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'
SKEW_S = 15 * 60
WRITTEN = "2026-01-02T03:04:05.000Z"
WRITTEN_OF_HTTP = "Fri, 02 Jan 2026 03:04:05 GMT"
AUTHORIZATION = re.compile(
    r"AWS4-HMAC-SHA256 Credential=(?P<id>[^/]+)/(?P<day>\d{8})/(?P<region>[^/]+)/s3/aws4_request, ?"
    r"SignedHeaders=(?P<headers>[^,]+), ?Signature=(?P<signature>[0-9a-f]{64})"
)


class Refused(Exception):
    """The call is answered with an error."""

    def __init__(self, status: int, code: str, message: str = "", **headers: str) -> None:
        super().__init__(code)
        text = error_document(code, escape(message))
        self.answer = make_answer(status, text, content_type="application/xml", **headers)


@dataclass
class Key:
    """One pair of keys that the server takes."""

    secret: str
    token: str = ""
    expired: bool = False


@dataclass
class Stored:
    """A part or an object."""

    data: bytes
    etag: str
    crc32c: int
    size: int
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Upload:
    """An upload that is neither completed nor aborted."""

    bucket: str
    key: str
    headers: dict[str, str]
    encryption: dict[str, str]
    parts: dict[int, Stored] = field(default_factory=dict)


@dataclass
class Rules:
    """What such a store insists on; stores differ."""

    checksums: bool = True  # knows x-amz-checksum-*
    least_part: int = 5 * MIB
    most_parts: int = 10_000
    equal_parts: bool = False
    repeated_complete: bool = False  # 200 for a Complete that has succeeded, else NoSuchUpload
    keeps_data: bool = True  # else sizes and sums only
    region: str = REGION
    encrypts: bool = False  # and says so; else it ignores what asks for that
    tells_at_create: bool = True  # that it encrypts; else it says so with each part


class ScriptedS3(S3Front):
    """See the module. One bucket, `bucket`, path style."""

    def __init__(
        self,
        rules: Rules | None = None,
        *,
        tls: ssl.SSLContext | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.rules = rules or Rules()
        self.settings = settings or {}  # of its clients
        self.keys = {KEY_ID: Key(SECRET)}
        self.clock_ahead_s = 0.0
        self.objects: dict[str, Stored] = {}
        self.uploads: dict[str, Upload] = {}
        self._completed: dict[str, Answer] = {}
        self._ids = count(1)
        super().__init__(tls=tls)

    @property
    def conf(self) -> dict[str, str]:
        """What a client's configuration must say."""
        return {
            "fs.s3a.endpoint": self.endpoint,
            "fs.s3a.endpoint.region": self.rules.region,
            "fs.s3a.path.style.access": "true",
            "fs.s3a.access.key": KEY_ID,
            "fs.s3a.secret.key": SECRET,
            **self.settings,
        }

    def put(self, key: str, data: bytes) -> None:
        """An object that somebody else has written."""
        with self._lock:
            self.objects[key] = self._store(data, {})

    def execute(self, request: Request) -> Answer:
        with self._lock:
            try:
                self._authenticate(request)
                if request.bucket != BUCKET:
                    raise Refused(404, "NoSuchBucket")
                name = re.sub(r"(?<!^)(?=[A-Z])", "_", request.operation).lower()
                method: Callable[[Request], Answer] | None = getattr(self, f"_{name}", None)
                if method is None:
                    raise Refused(501, "NotImplemented", request.operation)
                return method(request)
            except Refused as refused:
                return refused.answer

    # Who asks, and whether the body is what was sent.

    def _authenticate(self, request: Request) -> None:
        found = AUTHORIZATION.fullmatch(request.head.get("authorization"))
        if found is None:
            raise Refused(403, "AccessDenied", "not signed, or in another way")
        key = self.keys.get(found["id"])
        if key is None:
            raise Refused(403, "InvalidAccessKeyId")
        if request.head.get("x-amz-security-token") != key.token:
            raise Refused(403, "InvalidToken")
        if key.expired:
            raise Refused(400, "ExpiredToken", "The provided token has expired.")
        if found["region"] != self.rules.region:
            raise Refused(
                400,
                "AuthorizationHeaderMalformed",
                f"expecting '{self.rules.region}'",
                x_amz_bucket_region=self.rules.region,
            )
        signed = found["headers"].split(";")
        present = [name.lower() for name, _ in request.head.headers]
        must = {"host", *(name for name in present if name.startswith("x-amz-"))}
        if missing := must - set(signed):
            raise Refused(403, "AccessDenied", f"not signed: {sorted(missing)}")
        if signature(request, found, key) != found["signature"]:
            raise Refused(403, "SignatureDoesNotMatch")
        self._check_time(request.head.get("x-amz-date"))
        self._check_body(request)

    def _check_time(self, text: str) -> None:
        now = time.time() + self.clock_ahead_s
        there = timegm(time.strptime(text, "%Y%m%dT%H%M%SZ"))
        if abs(now - there) > SKEW_S:
            date = formatdate(now, usegmt=True)
            raise Refused(403, "RequestTimeTooSkewed", date=date)

    def _check_body(self, request: Request) -> None:
        head, body = request.head, request.body
        sha256 = head.get("x-amz-content-sha256")
        if sha256 not in {"UNSIGNED-PAYLOAD", hashlib.sha256(body).hexdigest()}:
            raise Refused(400, "XAmzContentSHA256Mismatch")
        md5 = head.get("content-md5")
        if md5 and base64.b64decode(md5) != hashlib.md5(body).digest():
            raise Refused(400, "BadDigest", "Content-MD5")
        crc = head.get("x-amz-checksum-crc32c")
        is_data = request.operation in {"PutObject", "UploadPart"}
        if crc and is_data and self.rules.checksums and crc != encoded(google_crc32c.value(body)):
            raise Refused(400, "BadDigest", "x-amz-checksum-crc32c")

    # Objects.

    def _store(self, data: bytes, headers: Mapping[str, str]) -> Stored:
        crc = google_crc32c.value(data)
        kept = data if self.rules.keeps_data else b""
        named = data if self.rules.keeps_data else b"%d %d" % (crc, len(data))  # MD5 is slow
        etag = f'"{hashlib.md5(named).hexdigest()}"'
        return Stored(kept, etag, crc, len(data), dict(headers))

    def _check_conditions(self, request: Request) -> None:
        there = self.objects.get(request.key)
        if request.head.get("if-none-match") == "*" and there is not None:
            raise Refused(412, "PreconditionFailed")
        wanted = request.head.get("if-match")
        if wanted and there is None:
            raise Refused(404, "NoSuchKey")
        if wanted and there is not None and wanted.strip('"') != there.etag.strip('"'):
            raise Refused(412, "PreconditionFailed")

    def _put_object(self, request: Request) -> Answer:
        self._check_conditions(request)
        stored = self._store(request.body, kept_headers(request))
        self.objects[request.key] = stored
        return make_answer(200, etag=stored.etag, **self._echo(stored), **self._encryption(request))

    def _copy_object(self, request: Request) -> Answer:
        source = unquote(request.head.get("x-amz-copy-source")).lstrip("/").partition("/")[2]
        if request.key.endswith("/"):  # as some stores do
            raise Refused(400, "InvalidRequest", "a directory is not copied")
        stored = self.objects.get(source)
        if stored is None:
            raise Refused(404, "NoSuchKey")
        wanted = request.head.get("x-amz-copy-source-if-match").strip('"')
        if wanted and wanted != stored.etag.strip('"'):
            raise Refused(412, "PreconditionFailed")
        self.objects[request.key] = stored
        etag = f"<ETag>{escape(stored.etag)}</ETag>"
        return xml("CopyObjectResult", etag, **self._encryption(request))

    def _encryption(self, request: Request) -> dict[str, str]:
        """What is answered about encryption: what was asked for, but for a key."""
        prefix = "x-amz-server-side-encryption"
        asked = [(name.lower(), value) for name, value in request.head.headers]
        shown = ("", "-aws-kms-key-id", "-customer-algorithm", "-customer-key-md5")
        names = {prefix + end for end in shown} if self.rules.encrypts else set()
        return {name: value for name, value in asked if name in names}

    def _echo(self, stored: Stored) -> dict[str, str]:
        return {"x_amz_checksum_crc32c": encoded(stored.crc32c)} if self.rules.checksums else {}

    def _get(self, request: Request) -> Stored:
        try:
            return self.objects[request.key]
        except KeyError:
            raise Refused(404, "NoSuchKey") from None

    def _head_object(self, request: Request) -> Answer:
        stored = self._get(request)
        self._check_conditions(request)
        headers = {**stored.headers, "content-length": str(stored.size)}
        return make_answer(200, etag=stored.etag, last_modified=WRITTEN_OF_HTTP, **headers)

    def _get_object(self, request: Request) -> Answer:
        stored = self._get(request)
        self._check_conditions(request)
        headers = {**stored.headers, "etag": stored.etag, "last-modified": WRITTEN_OF_HTTP}
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", request.head.get("range"))
        if wanted is None:
            shown = request.head.get("x-amz-checksum-mode") == "ENABLED"
            return make_answer(200, stored.data, **headers, **(self._echo(stored) if shown else {}))
        first, last = int(wanted[1]), min(int(wanted[2] or stored.size), stored.size - 1)
        if first >= stored.size:
            raise Refused(416, "InvalidRange")
        headers["content-range"] = f"bytes {first}-{last}/{stored.size}"
        return make_answer(206, stored.data[first : last + 1], **headers)

    def _delete_object(self, request: Request) -> Answer:
        self.objects.pop(request.key, None)
        return make_answer(204)

    def _delete_objects(self, request: Request) -> Answer:
        for found in elements(request.body, "Key"):
            self.objects.pop(found, None)
        return xml("DeleteResult", "")

    def _head_bucket(self, request: Request) -> Answer:
        return make_answer(200, x_amz_bucket_region=self.rules.region)

    def _list_objects_v2(self, request: Request) -> Answer:
        prefix, delimiter = request.query.get("prefix", ""), request.query.get("delimiter", "")
        contents, prefixes = [], set()
        encodes = request.query.get("encoding-type") == "url"
        shown: Callable[[str], str] = quote if encodes else str
        listed, more = request.query.get("continuation-token", ""), ""
        for key in sorted(self.objects):
            rest = key.removeprefix(prefix)
            if not key.startswith(prefix) or key <= listed:
                continue
            if not delimiter and len(contents) == int(request.query.get("max-keys", "1000")):
                more = f"<NextContinuationToken>{escape(listed)}</NextContinuationToken>"
                break
            listed = key
            if delimiter and delimiter in rest:
                prefixes.add(prefix + rest.partition(delimiter)[0] + delimiter)
                continue
            stored = self.objects[key]
            about = {"Key": shown(key), "ETag": stored.etag, "Size": str(stored.size)}
            about["StorageClass"] = stored.headers.get("x-amz-storage-class", "STANDARD")
            contents.append(xml_of("Contents", LastModified=WRITTEN, **about))
        common = [
            f"<CommonPrefixes><Prefix>{escape(shown(p))}</Prefix></CommonPrefixes>"
            for p in prefixes
        ]
        number = f"<KeyCount>{len(contents) + len(common)}</KeyCount>"
        number += "<EncodingType>url</EncodingType>" if encodes else ""
        number += f"<IsTruncated>{str(bool(more)).lower()}</IsTruncated>{more}"
        return xml("ListBucketResult", number + "".join(contents + common))

    # Uploads.

    def _create_multipart_upload(self, request: Request) -> Answer:
        upload_id = f"2~{next(self._ids)}+/=.id"
        encryption = self._encryption(request)
        self.uploads[upload_id] = Upload(BUCKET, request.key, kept_headers(request), encryption)
        names = ("x-amz-checksum-algorithm", "x-amz-checksum-type")
        echo = {name: request.head.get(name) for name in names if request.head.get(name)}
        inside = f"<Bucket>{BUCKET}</Bucket><Key>{escape(request.key)}</Key>"
        inside += f"<UploadId>{upload_id}</UploadId>"
        headers = echo if self.rules.checksums else {}
        headers |= encryption if self.rules.tells_at_create else {}
        return xml("InitiateMultipartUploadResult", inside, **headers)

    def _upload(self, request: Request) -> Upload:
        upload = self.uploads.get(request.upload_id)
        if upload is None or upload.key != request.key:
            raise Refused(404, "NoSuchUpload")
        return upload

    def _upload_part(self, request: Request) -> Answer:
        upload = self._upload(request)
        number = request.part or 0
        if not 1 <= number <= self.rules.most_parts:
            raise Refused(400, "InvalidArgument", "part number")
        upload.parts[number] = stored = self._store(request.body, {})
        return make_answer(200, etag=stored.etag, **self._echo(stored), **upload.encryption)

    def _list_parts(self, request: Request) -> Answer:
        parts = self._upload(request).parts
        inside = "".join(
            xml_of("Part", PartNumber=str(n), ETag=parts[n].etag, Size=str(parts[n].size))
            for n in sorted(parts)[:1000]
        )
        return xml("ListPartsResult", f"<IsTruncated>false</IsTruncated>{inside}")

    def _list_multipart_uploads(self, request: Request) -> Answer:
        prefix = request.query.get("prefix", "")
        inside = "".join(
            xml_of("Upload", Key=upload.key, UploadId=upload_id, Initiated=WRITTEN)
            for upload_id, upload in self.uploads.items()
            if upload.key.startswith(prefix)
        )
        return xml("ListMultipartUploadsResult", f"<IsTruncated>false</IsTruncated>{inside}")

    def _abort_multipart_upload(self, request: Request) -> Answer:
        self._upload(request)
        del self.uploads[request.upload_id]
        return make_answer(204)

    def _complete_multipart_upload(self, request: Request) -> Answer:
        if self.rules.repeated_complete and request.upload_id in self._completed:
            return self._completed[request.upload_id]
        upload = self._upload(request)
        parts = self._listed_parts(upload, request.body)
        self._check_conditions(request)
        data, size = b"".join(part.data for part in parts), sum(part.size for part in parts)
        crc = google_crc32c.value(data)
        declared = request.head.get("x-amz-mp-object-size")
        if declared and int(declared) != size:
            raise Refused(400, "InvalidRequest", "x-amz-mp-object-size")
        checked = self.rules.checksums and self.rules.keeps_data
        full = request.head.get("x-amz-checksum-type") == "FULL_OBJECT"
        if checked and full and request.head.get("x-amz-checksum-crc32c") not in {"", encoded(crc)}:
            raise Refused(400, "BadDigest", "the whole object's CRC32C")
        digests = b"".join(bytes.fromhex(part.etag.strip('"')) for part in parts)
        etag = f'"{hashlib.md5(digests).hexdigest()}-{len(parts)}"'
        self.objects[upload.key] = Stored(data, etag, crc, size, upload.headers)
        del self.uploads[request.upload_id]
        inside = f"<Bucket>{BUCKET}</Bucket><Key>{escape(upload.key)}</Key>"
        done = xml("CompleteMultipartUploadResult", f"{inside}<ETag>{escape(etag)}</ETag>")
        self._completed[request.upload_id] = done
        return done

    def _listed_parts(self, upload: Upload, body: bytes) -> list[Stored]:
        """The parts that a Complete names, each checked."""
        with contextlib.suppress(ElementTree.ParseError, ValueError):
            listed = [
                {local(child.tag): child.text or "" for child in part}
                for part in ElementTree.fromstring(body)
            ]
            numbers = [int(part["PartNumber"]) for part in listed]
            if not listed:
                raise Refused(400, "MalformedXML", "no parts")
            if numbers != sorted(set(numbers)):
                raise Refused(400, "InvalidPartOrder")
            parts = [self._listed_part(upload, part) for part in listed]
            sizes = [part.size for part in parts[:-1]]
            if any(size < self.rules.least_part for size in sizes):
                raise Refused(400, "EntityTooSmall")
            if self.rules.equal_parts and len(set(sizes)) > 1:
                raise Refused(400, "InvalidPart", "All non-trailing parts must have equal length.")
            return parts
        raise Refused(400, "MalformedXML")

    def _listed_part(self, upload: Upload, part: Mapping[str, str]) -> Stored:
        stored = upload.parts.get(int(part["PartNumber"]))
        if stored is None or part["ETag"].strip('"') != stored.etag.strip('"'):
            raise Refused(400, "InvalidPart")
        crc = part.get("ChecksumCRC32C")
        if crc is not None and not self.rules.checksums:
            raise Refused(400, "MalformedXML", "ChecksumCRC32C")
        if crc is not None and crc != encoded(stored.crc32c):
            raise Refused(400, "InvalidPart", "ChecksumCRC32C")
        return stored


def signature(request: Request, found: re.Match[str], key: Key) -> str:
    """What botocore's signer makes of the headers that were signed."""
    signed = found["headers"].split(";")
    headers = {name: request.head.get(name) for name in signed}
    # As servers do: decoded, and encoded in the one way that counts.
    path = quote(unquote(request.target.partition("?")[0]))
    pairs = [f"{quote(n, safe='')}={quote(v, safe='')}" for n, v in request.query.items()]
    url = f"http://{request.head.get('host')}{path}?{'&'.join(pairs)}"
    asked = AWSRequest(method=request.method, url=url, headers=headers)
    asked.context["timestamp"] = request.head.get("x-amz-date")
    signer = S3SigV4Auth(Credentials(found["id"], key.secret), "s3", found["region"])
    text = signer.string_to_sign(asked, signer.canonical_request(asked))
    return str(signer.signature(text, asked))


def kept_headers(request: Request) -> dict[str, str]:
    """What HEAD shows of what an object was made with."""
    names = [
        (name.lower(), value)
        for name, value in request.head.headers
        if name.lower().startswith("x-amz-meta-") or name.lower() == "content-type"
    ]
    return dict(names)


def encoded(crc: int) -> str:
    return base64.b64encode(struct.pack(">I", crc)).decode()


def local(tag: str) -> str:
    return tag.rpartition("}")[2]


def elements(body: bytes, name: str) -> list[str]:
    root = ElementTree.fromstring(body)
    return [found.text or "" for found in root.iter() if local(found.tag) == name]


def xml_of(element: str, **children: str) -> str:
    inside = "".join(f"<{name}>{escape(text)}</{name}>" for name, text in children.items())
    return f"<{element}>{inside}</{element}>"


def xml(root: str, inside: str, **headers: str) -> Answer:
    text = f'<?xml version="1.0" encoding="UTF-8"?>\n<{root} {XMLNS}>{inside}</{root}>'
    return make_answer(200, text, content_type="application/xml", **headers)
