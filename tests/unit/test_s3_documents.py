"""The documents of S3: what stores answer, in all their dialects, and what they are sent."""

from __future__ import annotations

import base64

import pytest
from defusedxml import ElementTree
from hflush._core import s3_delete_document, s3_parse_etag, s3_parse_upload_id
from hflush.s3.documents import (
    DeleteFailure,
    ObjectEntry,
    UploadEntry,
    crc_text,
    parse_delete_result,
    parse_listing,
    parse_uploads,
)

NAMESPACE = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'


def listing(body: str, root: str = "ListBucketResult", namespace: str = NAMESPACE) -> bytes:
    return f'<?xml version="1.0" encoding="UTF-8"?><{root} {namespace}>{body}</{root}>'.encode()


def contents(key: str, modified: str = "2026-11-21T17:52:46.123Z", size: str = "5") -> str:
    return (
        f"<Contents><Key>{key}</Key><LastModified>{modified}</LastModified>"
        f"<ETag>&quot;abc-2&quot;</ETag><Size>{size}</Size></Contents>"
    )


class TestListings:
    def test_a_page(self):
        page = parse_listing(
            listing(
                "<EncodingType>url</EncodingType><IsTruncated>true</IsTruncated>"
                "<NextContinuationToken>t+/=</NextContinuationToken>"
                f"{contents('a%2Fb+c%2Bd%25%01%E6%97%A5')}"
                "<CommonPrefixes><Prefix>a%2Fd+e%2F</Prefix></CommonPrefixes>"
            )
        )
        assert page.objects == [ObjectEntry("a/b c+d%\x01日", 5, "abc-2", 1795283566)]
        assert page.prefixes == ["a/d e/"]
        assert page.next_token == "t+/="

    def test_keys_that_are_not_encoded(self):
        """A store that does not know encoding-type says nothing of it."""
        page = parse_listing(listing(f"<IsTruncated>false</IsTruncated>{contents('a%2Fb+c')}"))
        assert page.objects[0].key == "a%2Fb+c"

    @pytest.mark.parametrize("namespace", ["", 'xmlns="http://doc.s3.amazonaws.com/2006-03-01"'])
    def test_namespaces_differ(self, namespace: str):
        assert len(parse_listing(listing(contents("a"), namespace=namespace)).objects) == 1

    def test_an_empty_bucket(self):
        assert parse_listing(listing("<KeyCount>0</KeyCount>")) == ([], [], "")

    @pytest.mark.parametrize(
        ("modified", "seconds"),
        [
            ("1970-01-01T00:00:01Z", 1),
            ("1970-01-01T00:00:01.9Z", 1),
            ("1970-01-01T00:00:01.123456789Z", 1),
            ("1970-01-01T00:00:01.000+00:00", 1),
            ("1970-01-01T01:00:01+01:00", 1),
            ("1970-01-01T00:00:01", 1),
        ],
    )
    def test_times(self, modified: str, seconds: int):
        assert parse_listing(listing(contents("a", modified))).objects[0].modified == seconds

    @pytest.mark.parametrize(
        "body",
        [
            b"",
            b"not XML",
            listing("")[:-5],
            listing("", root="Error"),
            listing("<IsTruncated>true</IsTruncated>"),
            listing("<Contents><Key>a</Key></Contents>"),
            listing(contents("a", size="-1")),
            listing(contents("a", size="²")),
            listing(contents("a", modified="yesterday")),
            listing("<CommonPrefixes/>"),
            b"\xff\xfe\x00",
        ],
    )
    def test_what_is_no_listing(self, body: bytes):
        """It is never an empty one."""
        with pytest.raises(ValueError, match=r".+"):
            parse_listing(body)


class TestSafety:
    @pytest.mark.parametrize(
        "text",
        [
            '<!DOCTYPE a [<!ENTITY b "c">]><ListBucketResult>&b;</ListBucketResult>',
            '<!DOCTYPE a SYSTEM "file:///etc/passwd"><ListBucketResult/>',
            "<!DOCTYPE a><ListBucketResult/>",
            "<ListBucketResult>&nbsp;</ListBucketResult>",
            "<ListBucketResult>" * 40 + "</ListBucketResult>" * 40,
        ],
    )
    def test_nothing_is_expanded(self, text: str):
        with pytest.raises(ValueError, match="not a document of S3"):
            parse_listing(text.encode())


class TestUploads:
    def test_a_page(self):
        body = listing(
            "<EncodingType>url</EncodingType><IsTruncated>true</IsTruncated>"
            "<NextKeyMarker>a+b</NextKeyMarker><NextUploadIdMarker>u2</NextUploadIdMarker>"
            "<Upload><Key>a+b</Key><UploadId>2~x/=+</UploadId>"
            "<Initiated>1970-01-01T00:01:00.500Z</Initiated></Upload>",
            "ListMultipartUploadsResult",
        )
        page = parse_uploads(body)
        assert page.uploads == [UploadEntry("a b", "2~x/=+", 60.5)]
        assert page.next_markers == ("a b", "u2")

    def test_the_last_page(self):
        assert parse_uploads(listing("", "ListMultipartUploadsResult")) == ([], None)

    def test_a_page_that_says_not_how_to_go_on(self):
        body = listing("<IsTruncated>true</IsTruncated>", "ListMultipartUploadsResult")
        with pytest.raises(ValueError, match="NextKeyMarker"):
            parse_uploads(body)

    def test_an_upload_id(self):
        root = "InitiateMultipartUploadResult"
        assert s3_parse_upload_id(listing("<UploadId> a </UploadId>", root)) == "a"
        for body in ("", "<UploadId/>", "<UploadId>  </UploadId>"):
            with pytest.raises(ValueError, match=r"UploadId|without an id"):
                s3_parse_upload_id(listing(body, root))

    @pytest.mark.parametrize("etag", ["&quot;a-2&quot;", "a-2", " a-2 "])
    def test_etags(self, etag: str):
        body = listing(f"<ETag>{etag}</ETag>", "CompleteMultipartUploadResult")
        assert s3_parse_etag(body, "CompleteMultipartUploadResult") == "a-2"

    def test_an_etag_that_is_missing(self):
        """radosgw tells none at the first Complete."""
        for text in ("", "<ETag></ETag>"):
            assert s3_parse_etag(listing(text, "R"), "R") == ""
        with pytest.raises(ValueError, match="root"):
            s3_parse_etag(listing("", "Error"), "R")


class TestDeleting:
    def test_what_was_not_removed(self):
        body = listing(
            "<Deleted><Key>a</Key></Deleted>"
            "<Error><Key>b&amp;c</Key><Code>AccessDenied</Code><Message>no</Message></Error>",
            "DeleteResult",
        )
        assert parse_delete_result(body) == [DeleteFailure("b&c", "AccessDenied", "no")]

    def test_the_request(self):
        keys = ["a", "b&<>\"'c", "日本/é", "tab\tline\nreturn\r", "  blanks  "]
        root = ElementTree.fromstring(s3_delete_document(keys))
        assert [child.tag.rpartition("}")[2] for child in root] == ["Quiet"] + ["Object"] * 5
        assert [next(iter(child)).text for child in root[1:]] == keys


class TestChecksums:
    @pytest.mark.parametrize(
        ("crc", "text"), [(0, "AAAAAA=="), (0xE3069283, "4waSgw=="), (0x8A9136AA, "ipE2qg==")]
    )
    def test_as_headers_have_them(self, crc: int, text: str):
        assert crc_text(crc) == text
        assert int.from_bytes(base64.b64decode(text), "big") == crc
