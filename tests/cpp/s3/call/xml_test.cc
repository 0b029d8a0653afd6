// The XML parser: what S3 and its kin answer is read; what is not quite a document is refused.
#include "hflush/s3/call/xml.h"

#include <doctest/doctest.h>

#include <cerrno>
#include <string>
#include <string_view>
#include <utility>

namespace hflush::s3 {
namespace {

using namespace std::string_literals;  // NOLINT(google-build-using-namespace)

XmlElement parsed(std::string_view document) {
  auto result = parse_xml(document);
  REQUIRE_MESSAGE(result.ok(), result.status().message());
  return *std::move(result);
}

std::string repeated(std::string_view text, std::size_t times) {
  std::string result;
  result.reserve(text.size() * times);
  for (std::size_t i = 0; i < times; ++i) result += text;
  return result;
}

void check_refused(std::string_view document, std::string_view why) {
  CAPTURE(document.substr(0, 200));
  const auto result = parse_xml(document);
  REQUIRE_FALSE(result.ok());
  CHECK(result.status().code() == StatusCode::kIo);
  CHECK(result.status().error_number() == EBADMSG);
  CHECK(result.status().message().starts_with("malformed XML at byte "));
  CAPTURE(result.status().message());
  CHECK(result.status().message().ends_with(why));
  const auto root = parse_xml_root(document);
  REQUIRE_FALSE(root.ok());
  CHECK(root.status().message() == result.status().message());
}

TEST_CASE("the answer to CreateMultipartUpload") {
  const XmlElement root = parsed(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<InitiateMultipartUploadResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
      "<Bucket>b</Bucket><Key>a/b &amp; c</Key><UploadId>2~x+/=</UploadId>"
      "</InitiateMultipartUploadResult>\n");
  CHECK(root.name == "InitiateMultipartUploadResult");
  CHECK(root.text.empty());
  CHECK(root.children.size() == 3);
  CHECK(root.value("Key") == "a/b & c");
  CHECK(root.value("UploadId") == "2~x+/=");
  CHECK(root.value("Nothing").empty());
  CHECK(root.child("Nothing") == nullptr);
  CHECK(root.child("Bucket") == &root.children[0]);
}

TEST_CASE("elements are known by their local name") {
  const XmlElement root =
      parsed("<s3:A xmlns:s3='urn:x'><s3:B>1</s3:B><B>2</B><x:C xsi:type = \"T\" y='>' /></s3:A>");
  CHECK(root.name == "A");
  CHECK(root.value("B") == "1");
  CHECK(root.children.size() == 3);
  CHECK(root.children[2].name == "C");
}

TEST_CASE("what stands around the root element is read over") {
  for (const std::string& before :
       {""s, " \n\t\r  "s, "<?xml version='1.0' encoding='utf-8'?>"s,
        "  <?xml version='1.0'?>   \n"s, "\xEF\xBB\xBF<?xml version='1.0'?>"s, "<!-- c -->"s,
        "<?xml version='1.0'?><!----> "s}) {
    for (const std::string& after : {""s, "\n"s, "  <!-- c -->\n"s}) {
      CAPTURE(before);
      CHECK(parsed(before + "<r>x</r>" + after).text == "x");
      CHECK(*parse_xml_root(before + "<r>x</r>" + after) == "r");
    }
  }
}

TEST_CASE("text") {
  const auto text = [](std::string_view inner) {
    return parsed("<r>" + std::string(inner) + "</r>").text;
  };
  CHECK(text("").empty());
  CHECK(text("  a \n b ") == "  a \n b ");
  CHECK(text("&lt;&gt;&amp;&quot;&apos;") == "<>&\"'");
  CHECK(text("&amp;lt;") == "&lt;");  // unescaped once
  CHECK(text("&#65;&#x42;&#x0043;&#00068;") == "ABCD");
  CHECK(text("&#x7F;&#x80;&#x7FF;&#x800;&#xFFFF;&#x10000;&#x10FFFF;") ==
        "\x7F\xC2\x80\xDF\xBF\xE0\xA0\x80\xEF\xBF\xBF\xF0\x90\x80\x80\xF4\x8F\xBF\xBF");
  CHECK(text("&#xe9;\xC3\xA9") == "\xC3\xA9\xC3\xA9");
  CHECK(text("a<![CDATA[<&]]>b<![CDATA[]]]]>c") == "a<&b]]c");
  CHECK(text("a<!-- & < -->b") == "ab");
  CHECK(text("a<x>b</x>c<y/>d") == "acd");
  CHECK(text("a > b ]]> \"c\"") == "a > b ]]> \"c\"");
}

TEST_CASE("elements without content") {
  const XmlElement root = parsed("<r><a/><b /><c></c ><d\n/></r>");
  CHECK(root.children.size() == 4);
  for (const XmlElement& child : root.children) CHECK(child.text.empty());
  CHECK(parsed("<r/>").name == "r");
}

TEST_CASE("many children, and theirs, keep their order") {
  std::string document = "<r>";
  for (int i = 0; i < 1000; ++i) {
    document += "<p><n>" + std::to_string(i) + "</n><e>\"" + std::to_string(i) + "\"</e></p>";
  }
  const XmlElement root = parsed(document + "</r>");
  REQUIRE(root.children.size() == 1000);
  for (int i = 0; i < 1000; ++i) {
    const XmlElement& part = root.children[static_cast<std::size_t>(i)];
    CHECK(part.value("n") == std::to_string(i));
    CHECK(part.value("e") == "\"" + std::to_string(i) + "\"");
  }
}

TEST_CASE("what is not a document is refused, and why") {
  const std::pair<std::string, std::string_view> cases[] = {
      {"", "no element"},
      {"  \n", "no element"},
      {"<?xml version='1.0'?>", "no element"},
      {"hello", "text outside of the root element"},
      {"{\"error\": 1}", "text outside of the root element"},
      {"<?xml version='1.0'", "the declaration is cut off"},
      {"<?xml version='1.0' encoding='ISO-8859-1'?><r/>", "not in UTF-8"},
      {"<!DOCTYPE html><html></html>", "no name of an element"},
      {"<!DOCTYPE r [<!ENTITY a \"b\">]><r>&a;</r>", "no name of an element"},
      {"<?php x?><r/>", "no name of an element"},
      {"<?xml-stylesheet href='x'?><r/>", "no name of an element"},
      {"<r><?pi?></r>", "no name of an element"},
      {"<r><!ELEMENT></r>", "no name of an element"},
      {"<r></r><r></r>", "something follows the root element"},
      {"<r></r>x", "something follows the root element"},
      {"<r></r><?xml version='1.0'?>", "something follows the root element"},
      {"<r/><!--", "a comment is cut off"},
      {"<r><!-- a -- b --></r>", "a comment has \"--\" in it"},
      {"<r><!-- a ---></r>", "a comment has \"--\" in it"},
      {"<r>", "cut off within an element"},
      {"<r><a></a>", "cut off within an element"},
      {"<r>text", "cut off within an element"},
      {"<r", "a start tag does not end"},
      {"<r/", "a start tag does not end"},
      {"<r/ >", "a start tag does not end"},
      {"<", "no name of an element"},
      {"< r></r>", "no name of an element"},
      {"<1></1>", "no name of an element"},
      {"<a:></a:>", "a name ends in ':'"},
      {"<r></s>", "an end tag of another element"},
      {"<r></R>", "an end tag of another element"},
      {"<a:r></b:r>", "an end tag of another element"},
      {"<r><a></r></a>", "an end tag of another element"},
      {"</r>", "no name of an element"},
      {"<r></ r>", "an end tag of another element"},
      {"<r></r", "an end tag does not end"},
      {"<r></r x>", "an end tag does not end"},
      {"<r a></r>", "an attribute without a value"},
      {"<r a='1'b='2'></r>", "a start tag does not end"},
      {"<r a=1></r>", "an attribute's value is not quoted"},
      {"<r a=></r>", "an attribute's value is not quoted"},
      {"<r a='1></r>", "an attribute's value is cut off"},
      {"<r a='<'></r>", "'<' in an attribute's value"},
      {"<r 1='a'></r>", "no name of an attribute"},
      {"<r>&</r>", "a reference does not end"},
      {"<r>&amp</r>", "a reference does not end"},
      {"<r>& amp;</r>", "an entity that is not one of the five, or no character"},
      {"<r>&;</r>", "an entity that is not one of the five, or no character"},
      {"<r>&nbsp;</r>", "an entity that is not one of the five, or no character"},
      {"<r>&AMP;</r>", "an entity that is not one of the five, or no character"},
      {"<r>&#;</r>", "an entity that is not one of the five, or no character"},
      {"<r>&#x;</r>", "an entity that is not one of the five, or no character"},
      {"<r>&#0;</r>", "an entity that is not one of the five, or no character"},
      {"<r>&#xD800;</r>", "an entity that is not one of the five, or no character"},
      {"<r>&#xDFFF;</r>", "an entity that is not one of the five, or no character"},
      {"<r>&#x110000;</r>", "an entity that is not one of the five, or no character"},
      {"<r>&#4294967361;</r>", "an entity that is not one of the five, or no character"},
      {"<r>&#6A;</r>", "an entity that is not one of the five, or no character"},
      {"<r>&#X41;</r>", "an entity that is not one of the five, or no character"},
      {"<r>&#x4G;</r>", "an entity that is not one of the five, or no character"},
      {"<r>&#-1;</r>", "an entity that is not one of the five, or no character"},
      {"<r>&#00000000000000065;</r>", "a reference does not end"},
      {"<r><![CDATA[x]]</r>", "a CDATA section is cut off"},
      {"<r><![cdata[x]]></r>", "no name of an element"},
      {"<r>a\0b</r>"s, "a null character"},
      {"<r/>\0"s, "a null character"},
  };
  for (const auto& [document, why] : cases) check_refused(document, why);
}

TEST_CASE("the byte is the one where it went wrong") {
  const auto result = parse_xml("<r><a>1</b></r>");
  REQUIRE_FALSE(result.ok());
  CHECK(result.status().message() ==
        "malformed XML at byte 10 of 15: an end tag of another element");
}

TEST_CASE("a document that is cut off anywhere is refused") {
  const std::string document =
      "<?xml version=\"1.0\"?><!-- c --><R xmlns='u'><A>1 &amp; 2</A><B/><C><![CDATA[x]]></C></R>";
  for (std::size_t size = 0; size < document.size(); ++size) {
    CAPTURE(size);
    CHECK_FALSE(parse_xml(std::string_view(document).substr(0, size)).ok());
    CHECK_FALSE(parse_xml_root(std::string_view(document).substr(0, size)).ok());
  }
  CHECK(parse_xml(document).ok());
}

TEST_CASE("depth and number of elements are bounded") {
  CHECK(parse_xml(repeated("<a>", 32) + repeated("</a>", 32)).ok());
  check_refused(repeated("<a>", 33) + repeated("</a>", 33), "nests too deep");
  CHECK(parse_xml("<r>" + repeated("<a/>", 99'999) + "</r>").ok());
  check_refused("<r>" + repeated("<a/>", 100'000) + "</r>", "too many elements");
}

TEST_CASE("hostile documents end soon") {
  // Each would take minutes if a byte were looked at more than a few times.
  constexpr std::size_t kTimes = std::size_t{1} << 18U;
  check_refused("<r><!--" + repeated("- ", kTimes), "a comment is cut off");
  check_refused("<r>" + repeated("<!---->", kTimes), "cut off within an element");
  check_refused("<r>" + repeated("&amp;", kTimes), "cut off within an element");
  check_refused("<r>" + repeated("&", kTimes), "a reference does not end");
  check_refused("<r " + repeated("a='' ", kTimes), "no name of an attribute");
  check_refused("<" + repeated("a", kTimes), "a start tag does not end");
  check_refused(repeated(" ", kTimes), "no element");
  check_refused("<r>" + repeated("<![CDATA[x]]>", kTimes), "cut off within an element");
  check_refused("<r>" + repeated("<![CDATA[", kTimes), "a CDATA section is cut off");
  CHECK(parsed("<r>" + repeated("x&#10;", kTimes) + "</r>").text.size() == 2 * kTimes);
}

TEST_CASE("escaped text is what it was, and no markup") {
  std::string text;
  for (int c = 1; c < 256; ++c) text += static_cast<char>(c);
  const std::string escaped = escape_xml(text);
  CHECK(escaped.find_first_of("<>\"\r\n\t") == std::string::npos);
  CHECK(parsed("<r>" + escaped + "</r>").text == text);
  CHECK(escape_xml("a<b>&\"c\"\r") == "a&lt;b&gt;&amp;&quot;c&quot;&#13;");
  CHECK(escape_xml("").empty());
}

}  // namespace
}  // namespace hflush::s3
