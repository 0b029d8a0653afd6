// The head of a response from its lines, and what a message calls a server.
#include "hflush/env/http_head.h"

#include <doctest/doctest.h>

#include <initializer_list>
#include <string>

namespace hflush::env {
namespace {

bool add(HttpHeadParser& parser, std::initializer_list<const char*> lines) {
  bool good = true;
  for (const char* line : lines) good = good && parser.add_line(line);
  return good;
}

TEST_CASE("a head: names in lower case, values trimmed, in order") {
  HttpHeadParser parser;
  CHECK(add(parser, {"HTTP/1.1 206 Partial Content\r\n", "ETag:  \"a:b\" \t\r\n", "X-Empty:\r\n",
                     "Set-Cookie: 1\r\n", "set-cookie: 2\r\n"}));
  CHECK_FALSE(parser.is_complete());
  CHECK(add(parser, {"\r\n"}));
  REQUIRE(parser.is_complete());
  const HttpHead head = parser.take();
  CHECK_FALSE(parser.is_complete());
  CHECK(head.status == 206);
  REQUIRE(head.headers.size() == 4);
  CHECK(head.headers[0].name == "etag");
  CHECK(head.header("etag") == "\"a:b\"");
  CHECK(head.header("x-empty").empty());
  CHECK(head.header("set-cookie") == "1");
  CHECK(head.headers[3].value == "2");
  CHECK(head.header("absent").empty());
}

TEST_CASE("folded lines, lines without a colon, bare line feeds, no reason") {
  HttpHeadParser parser;
  CHECK(add(parser, {"HTTP/1.0 200\n", " nothing before it\n", "A: one\n", "\t two\n", "no colon\n",
                     "B: c\n", "\n"}));
  REQUIRE(parser.is_complete());
  const HttpHead head = parser.take();
  CHECK(head.status == 200);
  REQUIRE(head.headers.size() == 2);
  CHECK(head.header("a") == "one two");
  CHECK(head.header("b") == "c");
}

TEST_CASE("a return within a line is a blank, as RFC 9112 has it") {
  HttpHeadParser parser;
  CHECK(add(parser,
            {"HTTP/1.1 200 OK\r\n", "A: \rone\rtwo\r \r\n", "B\r: c\r\r\n", "\rd\r\n", "\r\n"}));
  REQUIRE(parser.is_complete());
  const HttpHead head = parser.take();
  REQUIRE(head.headers.size() == 2);
  CHECK(head.header("a") == "one two");
  CHECK(head.header("b") == "c d");
}

TEST_CASE("interim responses are passed over; the last of several heads counts") {
  HttpHeadParser parser;
  CHECK(add(parser, {"HTTP/1.1 100 Continue\r\n", "X: interim\r\n", "\r\n"}));
  CHECK_FALSE(parser.is_complete());
  CHECK(add(parser, {"HTTP/1.1 417 Expectation Failed\r\n", "Y: 1\r\n", "\r\n"}));
  CHECK(parser.is_complete());
  CHECK(add(parser, {"HTTP/1.1 200 OK\r\n", "Z: 2\r\n"}));
  CHECK_FALSE(parser.is_complete());
  CHECK(add(parser, {"\r\n"}));
  const HttpHead head = parser.take();
  CHECK(head.status == 200);
  CHECK(head.headers.size() == 1);
  CHECK(head.header("z") == "2");
}

TEST_CASE("trailers change nothing, before and after the head is taken") {
  HttpHeadParser parser;
  CHECK(add(parser, {"HTTP/1.1 200 OK\r\n", "\r\n", "Trailer: 1\r\n"}));
  REQUIRE(parser.is_complete());
  CHECK(parser.take().headers.empty());
  CHECK(add(parser, {"HTTP/1.1 500 Not a status line\r\n", "\r\n"}));
  CHECK_FALSE(parser.is_complete());
}

TEST_CASE("no more than the limit, however it comes") {
  HttpHeadParser parser;
  REQUIRE(parser.add_line("HTTP/1.1 200 OK\r\n"));
  const std::string line = "X: " + std::string(1019, 'x') + "\r\n";
  std::size_t count = 0;
  while (parser.add_line(line)) ++count;
  CHECK(count == HttpHeadParser::kMaxBytes / line.size() - 1);

  HttpHeadParser interim;
  count = 0;
  while (interim.add_line("HTTP/1.1 100 Continue\r\n") && interim.add_line("\r\n")) ++count;
  CHECK(count == HttpHeadParser::kMaxBytes / 25);
}

TEST_CASE("a status that is none is no success") {
  for (const char* line :
       {"HTTP/1.1\r\n", "HTTP/1.1 \r\n", "HTTP/1.1 abc\r\n", "HTTP/1.1 -20\r\n"}) {
    HttpHeadParser parser;
    CHECK(parser.add_line(line));
    CHECK(parser.add_line("\r\n"));
    CHECK_FALSE(parser.is_complete());
  }
}

TEST_CASE("the authority of a url, and nothing else of it") {
  CHECK(http_authority("http://h/x") == "h:80");
  CHECK(http_authority("https://h?x") == "h:443");
  CHECK(http_authority("HTTPS://h:9000/x:1/@y") == "h:9000");
  CHECK(http_authority("http://[::1]/") == "[::1]:80");
  CHECK(http_authority("http://[::1]:81") == "[::1]:81");
  CHECK(http_authority("http://user:secret@h/") == "h:80");
  CHECK(http_authority("ftp://h/").empty());
  CHECK(http_authority("file:///etc/passwd").empty());
  CHECK(http_authority("http:///x").empty());
  CHECK(http_authority("h:80/x").empty());
  CHECK(http_authority("").empty());
}

}  // namespace
}  // namespace hflush::env
