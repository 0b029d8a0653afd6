"""The documents of S3 as Python values; tests/cpp/s3/call/documents_test.cc has their dialects."""

from __future__ import annotations

import base64

import pytest
from defusedxml import ElementTree
from hflush._core import s3_delete_document, s3_parse_etag, s3_parse_upload_id
from hflush.s3.documents import (
    DeleteFailure,
    Listing,
    ObjectEntry,
    UploadEntry,
    crc_text,
    parse_delete_result,
    parse_listing,
    parse_uploads,
)

OBJECT = (
    "<Contents><Key>{key}</Key><LastModified>2026-11-21T17:52:46.123Z</LastModified>"
    "<ETag>&quot;abc-2&quot;</ETag><Size>5</Size></Contents>"
)


def document(body: str, root: str = "ListBucketResult") -> bytes:
    return f'<?xml version="1.0" encoding="UTF-8"?><{root} xmlns="u">{body}</{root}>'.encode()


class TestListings:
    def test_a_page(self):
        page = parse_listing(
            document(
                "<EncodingType>url</EncodingType><IsTruncated>true</IsTruncated>"
                "<NextContinuationToken>t+/=</NextContinuationToken>"
                + OBJECT.format(key="a%2Fb+c%2Bd%25%01%E6%97%A5%FF")
                + "<CommonPrefixes><Prefix>a%2Fd+e%2F</Prefix></CommonPrefixes>"
            )
        )
        assert page.objects == [ObjectEntry("a/b c+d%\x01日\udcff", 5, "abc-2", 1795283566)]
        assert page.prefixes == ["a/d e/"]
        assert page.next_token == "t+/="

    def test_an_empty_bucket(self):
        assert parse_listing(document("<KeyCount>0</KeyCount>")) == Listing([], [], doubtful=[])

    @pytest.mark.parametrize(
        "text",
        [
            '<!DOCTYPE a [<!ENTITY b "c">]><ListBucketResult>&b;</ListBucketResult>',
            '<!DOCTYPE a SYSTEM "file:///etc/passwd"><ListBucketResult/>',
            "<!DOCTYPE a><ListBucketResult/>",
            "<ListBucketResult>&nbsp;</ListBucketResult>",
            "<ListBucketResult>" * 40 + "</ListBucketResult>" * 40,
            "",
            "not XML",
            "\xff\xfe\x00",
        ],
    )
    def test_nothing_is_expanded_and_no_damage_is_an_empty_page(self, text: str):
        with pytest.raises(ValueError, match="not a document of S3"):
            parse_listing(text.encode())

    def test_another_root(self):
        message = r"a document of S3 with the root 'Error', not 'ListBucketResult'"
        with pytest.raises(ValueError, match=message):
            parse_listing(document("", "Error"))


class TestUploads:
    def test_a_page(self):
        body = document(
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
        assert parse_uploads(document("", "ListMultipartUploadsResult")) == ([], None, [])

    def test_ids_and_etags(self):
        created = "InitiateMultipartUploadResult"
        assert s3_parse_upload_id(document("<UploadId> a </UploadId>", created)) == "a"
        assert s3_parse_etag(document("<ETag>&quot;a-2&quot;</ETag>", "R"), "R") == "a-2"
        with pytest.raises(ValueError, match="an upload without an id"):
            s3_parse_upload_id(document("<UploadId/>", created))


class TestDeleting:
    def test_what_was_not_removed(self):
        body = document(
            "<Deleted><Key>a</Key></Deleted>"
            "<Error><Key>b&amp;c</Key><Code>AccessDenied</Code><Message>no</Message></Error>",
            "DeleteResult",
        )
        assert parse_delete_result(body) == [DeleteFailure("b&c", "AccessDenied", "no")]

    def test_the_request(self):
        keys = ["a", "b&<>\"'c", "日本/é", "tab\tline\nreturn\r", "  blanks  "]
        root = ElementTree.fromstring(s3_delete_document(keys, quiet=True))
        assert [child.tag.rpartition("}")[2] for child in root] == ["Quiet"] + ["Object"] * 5
        assert [next(iter(child)).text for child in root[1:]] == keys


class TestChecksums:
    @pytest.mark.parametrize(
        ("crc", "text"), [(0, "AAAAAA=="), (0xE3069283, "4waSgw=="), (0x8A9136AA, "ipE2qg==")]
    )
    def test_as_headers_have_them(self, crc: int, text: str):
        assert crc_text(crc) == text
        assert int.from_bytes(base64.b64decode(text), "big") == crc
