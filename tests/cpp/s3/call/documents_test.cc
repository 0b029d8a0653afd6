// Listings and their kin: all dialects of stores are read, and no damage makes an empty answer.
#include "hflush/s3/call/documents.h"

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hflush/s3/call/xml.h"

namespace hflush::s3 {
namespace {

std::string listing(std::string_view body, const std::string& root = "ListBucketResult",
                    std::string_view attributes = "") {
  return "<?xml version=\"1.0\"?><" + root + std::string(attributes) + ">" + std::string(body) +
         "</" + root + ">";
}

std::string object(std::string_view key, std::string_view modified = "2026-11-21T17:52:46.123Z",
                   std::string_view size = "5") {
  return "<Contents><Key>" + std::string(key) + "</Key><LastModified>" + std::string(modified) +
         "</LastModified><ETag>&quot;abc-2&quot;</ETag><Size>" + std::string(size) +
         "</Size><StorageClass>GLACIER_IR</StorageClass></Contents>";
}

template <typename T>
void check_refused(const Result<T>& result, std::string_view why) {
  REQUIRE_FALSE(result.ok());
  CHECK(result.status().code() == StatusCode::kInvalidArgument);
  CAPTURE(result.status().message());
  CHECK(result.status().message().find(why) != std::string::npos);
}

TEST_CASE("a page of objects") {
  const auto page =
      parse_object_page(listing("<EncodingType>url</EncodingType><IsTruncated>true</IsTruncated>"
                                "<NextContinuationToken>t+/=</NextContinuationToken>" +
                                object("a%2Fb+c%2Bd%25%01%E6%97%a5") +
                                "<CommonPrefixes><Prefix>a%2Fd+e%2F</Prefix></CommonPrefixes>"));
  REQUIRE(page.ok());
  REQUIRE(page->objects.size() == 1);
  CHECK(page->objects[0].key == "a/b c+d%\x01\xE6\x97\xA5");
  CHECK(page->objects[0].size == 5);
  CHECK(page->objects[0].etag == "abc-2");
  CHECK(page->objects[0].storage_class == "GLACIER_IR");
  CHECK(page->objects[0].modified == 1795283566);
  CHECK(page->prefixes == std::vector<std::string>{"a/d e/"});
  CHECK(page->next_token == "t+/=");
}

TEST_CASE("what stores differ in") {
  for (const std::string& document :
       {listing(object("a")), listing(object("a"), "ListObjectsV2Result"),
        listing(object("a"), "ListBucketResult", " xmlns='http://doc.s3.amazonaws.com/2006-03-01'"),
        listing(object("a") + "<IsTruncated>false</IsTruncated><NextContinuationToken>t"
                              "</NextContinuationToken>"),
        listing(object("a", "1970-01-01T00:00:01Z", " 0005 "))}) {
    CAPTURE(document);
    const auto page = parse_object_page(document);
    REQUIRE(page.ok());
    REQUIRE(page->objects.size() == 1);
    CHECK(page->objects[0].key == "a");
    CHECK(page->objects[0].size == 5);
    CHECK(page->next_token.empty());
  }
}

TEST_CASE("roots that mean the same") {
  const std::string_view same[][2] = {
      {"ListPartsResponse", "ListPartsResult"},
      {"ListObjectsV2Result", "ListBucketResult"},
      {"ListObjectsResponse", "ListBucketResult"},
      {"DeleteObjectsResult", "DeleteResult"},
      {"DeleteResponse", "DeleteResult"},
      {"UploadPartCopyResponse", "CopyPartResult"},
      {"CreateMultipartUploadResult", "InitiateMultipartUploadResult"}};
  for (const auto& names : same) CHECK_MESSAGE(is_same_root(names[0], names[1]), names[0]);
  for (const std::string_view other : {"ListBucket", "ListPartsResult", "Error", "Result", ""}) {
    CHECK_FALSE(is_same_root(other, "ListBucketResult"));
  }
  // Wherever one is expected.
  CHECK(parse_object_page(listing(object("a"), "ListBucketResponse")).ok());
  CHECK(parse_upload_page(listing("", "ListMultipartUploadsResponse")).ok());
  CHECK(parse_delete_result(listing("", "DeleteResponse")).ok());
  CHECK(parse_upload_id(listing("<UploadId>u</UploadId>", "InitiateMultipartUploadResponse")).ok());
  CHECK(parse_etag(listing("", "CopyObjectResponse"), "CopyObjectResult").ok());
}

TEST_CASE("keys are decoded where the document says that they are encoded") {
  const auto key = [](std::string_view encoding, std::string_view text) {
    const auto page = parse_object_page(
        listing("<EncodingType>" + std::string(encoding) + "</EncodingType>" + object(text)));
    REQUIRE(page.ok());
    return page->objects.at(0).key;
  };
  CHECK(key("", "a%2Fb+c") == "a%2Fb+c");
  CHECK(key(" URL ", "a%2Fb+c") == "a/b c");
  CHECK(key("url", "%FF%41%zz%4") ==
        "\xFF"
        "A%zz%4");
  CHECK(key("url", "%") == "%");
}

TEST_CASE("times") {
  const auto seconds = [](std::string_view time) {
    return parse_upload_page(listing("<Upload><Key>k</Key><UploadId>u</UploadId><Initiated>" +
                                         std::string(time) + "</Initiated></Upload>",
                                     "ListMultipartUploadsResult"));
  };
  const std::pair<std::string_view, double> times[] = {
      {"1970-01-01T00:00:01Z", 1},
      {" 1970-01-01 00:00:01 ", 1},
      {"1970-01-01T00:00:01.5Z", 1.5},
      {"1970-01-01T00:00:01.250000000Z", 1.25},
      {"1970-01-01T00:00:01.000+00:00", 1},
      {"1970-01-01T01:00:01+01:00", 1},
      {"1969-12-31T19:00:01-0500", 1},
      {"2024-02-29T00:00:00Z", 1709164800},
      {"0001-01-01T00:00:00+23:59", -62135683140.0},
      {"9999-12-31T23:59:59-23:59", 253402387139.0},
      {" Fri, 02 Jan 2026 03:04:05 GMT ", 1767323045},
  };
  for (const auto& time : times) {
    CAPTURE(time.first);
    const auto page = seconds(time.first);
    REQUIRE(page.ok());
    CHECK(page->uploads.at(0).initiated == doctest::Approx(time.second).epsilon(1e-12));
  }
  for (const std::string_view text :
       {"now", "2026-11-21", "2026-13-01T00:00:00Z", "2026-02-29T00:00:00Z", "0000-01-01T00:00:00Z",
        "2026-01-01T24:00:00Z", "2026-01-01T00:60:00Z", "2026-01-01T00:00:60Z",
        "2026-01-01T00:00:00.Z", "2026-01-01T00:00:00Z+01:00", "2026-01-01T00:00:00+24:00",
        "2026-01-01T00:00:00+1", "2026-01-01T00:00:0", "-"}) {
    CAPTURE(text);
    const auto page = seconds(text);
    REQUIRE(page.ok());
    CHECK(page->uploads.at(0).initiated == 0);
  }
  const auto listed = parse_object_page(listing(object("a", "now") + object("b")));
  REQUIRE(listed.ok());
  CHECK(listed->objects.at(0).modified == 0);
  CHECK(listed->objects.at(1).modified == 1795283566);
}

TEST_CASE("sizes") {
  for (const std::string_view size :
       {"-1", "+1", "1e3", "1 2", "\xD9\xA3", "9223372036854775808"}) {
    CAPTURE(size);
    check_refused(parse_object_page(listing(object("a", "1970-01-01T00:00:01Z", size))),
                  "<Size> is not a number");
  }
  const auto page =
      parse_object_page(listing(object("a", "1970-01-01T00:00:01Z", "999999999999999999")));
  REQUIRE(page.ok());
  CHECK(page->objects[0].size == 999'999'999'999'999'999U);
}

TEST_CASE("what is not a listing is not an empty one") {
  check_refused(parse_object_page(""), "not a document of S3: malformed XML");
  check_refused(parse_object_page("<!DOCTYPE a><ListBucketResult/>"), "not a document of S3");
  check_refused(parse_object_page(listing("", "Error")),
                "a document of S3 with the root 'Error', not 'ListBucketResult'");
  check_refused(parse_object_page(listing("<IsTruncated>true</IsTruncated>")),
                "a listing that goes on, without <NextContinuationToken>");
  check_refused(parse_object_page(listing("<Contents/>")), "<Contents> without <Key>");
  check_refused(parse_object_page(listing("<CommonPrefixes/>")),
                "<CommonPrefixes> without <Prefix>");
  const std::string document = listing(object("a"));
  for (std::size_t size = 0; size < document.size(); ++size) {
    CHECK_FALSE(parse_object_page(std::string_view(document).substr(0, size)).ok());
  }
}

TEST_CASE("what is not needed may be missing") {
  const auto page = parse_object_page(
      listing("<Contents><Key>d/</Key></Contents><Contents><Key>a</Key><Size/><LastModified/>"
              "</Contents>" +
              object("b")));
  REQUIRE(page.ok());
  REQUIRE(page->objects.size() == 3);
  CHECK(page->objects[0].size == 0);  // a marker
  CHECK_FALSE(page->objects[1].size.has_value());
  CHECK(page->objects[1].modified == 0);
  CHECK(page->objects[1].etag.empty());
  CHECK(page->objects[2].size == 5);

  const auto uploads = parse_upload_page(
      listing("<Upload><Key>k</Key><UploadId>u</UploadId></Upload>", "ListMultipartUploadsResult"));
  REQUIRE(uploads.ok());
  CHECK(uploads->uploads.at(0).initiated == 0);
}

TEST_CASE("how a page says that others follow") {
  const auto following = [](const std::string& text) {
    const auto page = parse_object_page(listing(text + object("a") + object("b/c")));
    REQUIRE(page.ok());
    return std::pair(page->next_token, page->next_marker);
  };
  using Next = std::pair<std::string, std::string>;
  const std::string more = "<IsTruncated>true</IsTruncated>";
  CHECK(following("") == Next());
  CHECK(following("<NextContinuationToken>t</NextContinuationToken>") == Next("t", ""));
  CHECK(following("<NextMarker>m</NextMarker>") == Next("", "m"));
  CHECK(following("<IsTruncated>false</IsTruncated><NextMarker>m</NextMarker>") == Next());
  CHECK(following(more + "<NextMarker>m</NextMarker>") == Next("", "m"));
  CHECK(following(more) == Next("", "b/c"));
  CHECK(following(more + "<CommonPrefixes><Prefix>z/</Prefix></CommonPrefixes>") == Next("", "z/"));
  CHECK(following(more + "<CommonPrefixes><Prefix>B/</Prefix></CommonPrefixes>") ==
        Next("", "b/c"));

  const auto uploads = parse_upload_page(listing(
      more + "<Upload><Key>k</Key><UploadId>u</UploadId></Upload>", "ListMultipartUploadsResult"));
  REQUIRE(uploads.ok());
  CHECK(uploads->next_markers == Next("k", "u"));
}

TEST_CASE("a plus is a blank, or itself, or it cannot be told") {
  const auto read = [](const std::string& keys, Plus known = Plus::kUnknown) {
    const auto page = parse_object_page(listing("<EncodingType>url</EncodingType>" + keys), known);
    REQUIRE(page.ok());
    return *page;
  };
  const std::string doubtful = object("a+b");
  CHECK(read(object("a")).plus == Plus::kUnknown);
  CHECK(read(doubtful).plus == Plus::kUnknown);
  CHECK(read(doubtful).objects[0].key == "a b");
  CHECK(read(doubtful).doubtful == std::vector<std::string>{"a+b"});
  CHECK(read("<CommonPrefixes><Prefix>d+e%2F</Prefix></CommonPrefixes>").doubtful ==
        std::vector<std::string>{"d+e/"});
  CHECK(read(doubtful, Plus::kItself).objects[0].key == "a+b");
  CHECK(read(doubtful, Plus::kItself).doubtful.empty());
  CHECK(read(doubtful, Plus::kBlank).doubtful.empty());
  // What else is in the page tells.
  for (const std::string_view other : {"c%20d", "c d"}) {
    const ObjectPage page = read(doubtful + object(other));
    CHECK(page.plus == Plus::kItself);
    CHECK(page.objects[0].key == "a+b");
    CHECK(page.objects[1].key == "c d");
    CHECK(page.doubtful.empty());
  }
  for (const std::string_view other : {"c%2Bd", "c%2bd"}) {
    const ObjectPage page = read(doubtful + object(other));
    CHECK(page.plus == Plus::kBlank);
    CHECK(page.objects[0].key == "a b");
    CHECK(page.objects[1].key == "c+d");
    CHECK(page.doubtful.empty());
  }
  CHECK(read(doubtful + object("c%252Bd")).plus == Plus::kUnknown);  // "c%2Bd"
  const auto plain = parse_object_page(listing(doubtful));
  REQUIRE(plain.ok());
  CHECK(plain->objects[0].key == "a+b");
  CHECK(plain->doubtful.empty());
}

TEST_CASE("a page of uploads") {
  const std::string root = "ListMultipartUploadsResult";
  const auto page = parse_upload_page(
      listing("<EncodingType>url</EncodingType><IsTruncated>TRUE</IsTruncated>"
              "<NextKeyMarker>a+b</NextKeyMarker><NextUploadIdMarker>u2</NextUploadIdMarker>"
              "<Upload><Key>a+b</Key><UploadId>2~x/=+</UploadId>"
              "<Initiated>1970-01-01T00:01:00.500Z</Initiated></Upload>",
              root));
  REQUIRE(page.ok());
  REQUIRE(page->uploads.size() == 1);
  CHECK(page->uploads[0].key == "a b");
  CHECK(page->uploads[0].upload_id == "2~x/=+");
  CHECK(page->uploads[0].initiated == 60.5);
  CHECK(page->next_markers == std::pair(std::string("a b"), std::string("u2")));

  const auto last = parse_upload_page(listing("", root));
  REQUIRE(last.ok());
  CHECK(last->uploads.empty());
  CHECK_FALSE(last->next_markers.has_value());
  check_refused(parse_upload_page(listing("<IsTruncated>true</IsTruncated>", root)),
                "a listing of uploads that goes on, without <NextKeyMarker> and uploads");
}

TEST_CASE("ids of uploads and etags") {
  const std::string created = "InitiateMultipartUploadResult";
  const auto id = parse_upload_id(listing("<UploadId> a </UploadId>", created));
  REQUIRE(id.ok());
  CHECK(*id == "a");
  check_refused(parse_upload_id(listing("", created)),
                "<InitiateMultipartUploadResult> without <UploadId>");
  check_refused(parse_upload_id(listing("<UploadId> </UploadId>", created)),
                "an upload without an id");

  for (const std::string_view text : {"&quot;a-2&quot;", "a-2", " a-2 ", "W/&quot;a-2&quot;"}) {
    const auto etag = parse_etag(
        listing("<ETag>" + std::string(text) + "</ETag>", "CopyPartResult"), "CopyPartResult");
    REQUIRE(etag.ok());
    CHECK(*etag == "a-2");
  }
  const auto none = parse_etag(listing("", "R"), "R");  // radosgw, at the first Complete
  REQUIRE(none.ok());
  CHECK(none->empty());
  check_refused(parse_etag(listing("", "Error"), "R"), "root");
}

TEST_CASE("deletions") {
  const auto left = parse_delete_result(
      listing("<Deleted><Key>a</Key></Deleted>"
              "<Error><Key>b&amp;c</Key><Code>AccessDenied</Code><Message>no</Message></Error>",
              "DeleteResult"));
  REQUIRE(left.ok());
  REQUIRE(left->size() == 1);
  CHECK(left->at(0).key == "b&c");
  CHECK(left->at(0).code == "AccessDenied");
  CHECK(left->at(0).message == "no");
  check_refused(parse_delete_result(listing("")), "root");
  const auto nameless =
      parse_delete_result(listing("<Error><Code>SlowDown</Code></Error>", "DeleteResult"));
  REQUIRE(nameless.ok());
  CHECK(nameless->at(0).key.empty());

  const std::vector<std::string> keys = {"a", "b&<>\"'c", "tab\tline\nreturn\r", "  blanks  "};
  const auto asked = parse_xml(delete_document(keys, true));
  REQUIRE(asked.ok());
  CHECK(asked->name == "Delete");
  CHECK(asked->value("Quiet") == "true");
  CHECK(delete_document(keys, false).find("Quiet") == std::string::npos);
  REQUIRE(asked->children.size() == 1 + keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    CHECK(asked->children[i + 1].value("Key") == keys[i]);
  }
}

}  // namespace
}  // namespace hflush::s3
