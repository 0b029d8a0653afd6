// HTTP/1.1 as bytes: what a request begins with; where a response ends, however its bytes come.
#include "hflush/env/http_framing.h"

#include <doctest/doctest.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace hflush::env {
namespace {

using What = HttpResponseReader::What;

// What a response is said to be.
struct Read {
  std::vector<int> heads;
  std::string body;
  std::string last_header;
  What end = What::kMore;
  std::size_t taken = 0;
  bool keeps_connection = false;
  std::string why;
};

// In pieces of `piece` bytes; the connection is closed after them if it `closes`.
Read read(const std::string& text, std::size_t piece, bool to_head = false, bool closes = false) {
  HttpResponseReader reader(to_head);
  Read seen;
  std::string_view rest = text;
  while (seen.end == What::kMore) {
    ByteView bytes = as_bytes(rest.substr(0, piece));
    rest.remove_prefix(bytes.size());
    while (true) {
      const HttpResponseReader::Step step = reader.next(bytes);
      CHECK(step.taken <= bytes.size());
      bytes = bytes.subspan(step.taken);
      seen.taken += step.taken;
      if (step.what == What::kHead) {
        const HttpHead head = reader.take_head();
        seen.heads.push_back(head.status);
        if (!head.headers.empty()) seen.last_header = head.headers.back().value;
      } else if (step.what == What::kBody) {
        CHECK_FALSE(step.body.empty());
        seen.body.append(as_text(step.body));
      } else {
        if (step.what == What::kMore) {
          CHECK(bytes.empty());
        } else {
          seen.end = step.what;
        }
        break;
      }
    }
    if (rest.empty() && seen.end == What::kMore) {
      if (closes) seen.end = reader.closed();
      break;
    }
  }
  CHECK(reader.has_begun() == !text.empty());
  seen.keeps_connection = reader.keeps_connection();
  if (seen.end == What::kBroken) seen.why = reader.why();
  return seen;
}

void check_same(const Read& a, const Read& b) {
  CHECK(a.heads == b.heads);
  CHECK(a.body == b.body);
  CHECK(a.end == b.end);
  CHECK(a.taken == b.taken);
  CHECK(a.keeps_connection == b.keeps_connection);
  CHECK(a.why == b.why);
}

// At once, byte by byte and in between: the same.
Read read_in_pieces(const std::string& text, bool to_head = false, bool closes = false) {
  const Read whole = read(text, text.size() + 1, to_head, closes);
  for (const std::size_t piece : {std::size_t{1}, std::size_t{2}, std::size_t{7}}) {
    CAPTURE(piece);
    check_same(whole, read(text, piece, to_head, closes));
  }
  return whole;
}

TEST_CASE("a response ends with its length, its last chunk, or its head; what follows is another") {
  struct Case {
    const char* text;
    const char* body;
    bool to_head = false;
    bool keeps = true;
  };
  for (const Case& one : {
           Case{"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n01234", "01234"},
           Case{"HTTP/1.1 200\nContent-Length:0\n\n", ""},
           Case{"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nab", "ab"},
           Case{"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", "", true},
           Case{"HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\nContent-Length: 1\r\n\r\nz",
                "z"},
           Case{"HTTP/1.1 200 OK\r\n\r\n", "", true},
           Case{"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n", ""},
           Case{"HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n", ""},
           Case{"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n"
                "3\r\nabc\r\n00A ;x=\"y\"\r\n0123456789\r\n0\r\n\r\n",
                "abc0123456789"},
           Case{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nA: b\r\nC: d\r\n\r\n",
                ""},
           Case{"HTTP/1.1 100 Continue\r\nX: y\r\n\r\nHTTP/1.1 103 Hints\r\n\r\n"
                "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nz",
                "z"},
           Case{"HTTP/1.1 200 OK\r\nConnection: keep-alive, Close\r\nContent-Length: 1\r\n\r\nz",
                "z", false, false},
           Case{"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nz", "z", false, false},
           Case{"HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 1\r\n\r\nz", "z"},
           // Two lengths: the chunks count, and nobody else reads on that connection.
           Case{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 9\r\n\r\n"
                "1\r\nz\r\n0\r\n\r\n",
                "z", false, false},
       }) {
    CAPTURE(one.text);
    for (const char* after : {"", "HTTP/1.1 200 OK\r\n", "x"}) {
      const Read seen = read_in_pieces(std::string(one.text) + after, one.to_head);
      CHECK(seen.end == What::kEnd);
      CHECK(seen.taken == std::strlen(one.text));
      CHECK(seen.heads.size() == 1);
      CHECK(seen.heads[0] >= 200);
      CHECK(seen.body == one.body);
      CHECK(seen.keeps_connection == one.keeps);
    }
    for (std::size_t size = 0; size < std::strlen(one.text); ++size) {
      const Read cut = read_in_pieces(std::string(one.text).substr(0, size), one.to_head, true);
      CHECK(cut.end == What::kBroken);
    }
  }
}

TEST_CASE("it may be told to go on before its response, among other interim ones") {
  HttpResponseReader reader(false);
  const auto feed = [&](std::string_view text) { return reader.next(as_bytes(text)).what; };
  CHECK(feed("HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n") == HttpResponseReader::What::kMore);
  CHECK_FALSE(reader.was_told_to_go_on());
  CHECK(feed("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Wait\r\n\r\n") ==
        HttpResponseReader::What::kMore);
  CHECK(reader.was_told_to_go_on());
  CHECK(feed("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") == HttpResponseReader::What::kHead);
}

TEST_CASE("without a length a response ends with its connection") {
  const std::string text = "HTTP/1.1 200 OK\r\nContent-Type: x\r\n\r\n";
  for (const char* body : {"", "a body\r\n0\r\n\r\n"}) {
    CHECK(read_in_pieces(text + body).end == What::kMore);
    const Read seen = read_in_pieces(text + body, false, true);
    CHECK(seen.end == What::kEnd);
    CHECK(seen.body == body);
    CHECK_FALSE(seen.keeps_connection);
  }
}

TEST_CASE("what could be read in two ways is no response") {
  for (const char* text : {
           "HTTP/2 200\r\n\r\n",
           "HTTP/1.2 200 OK\r\n\r\n",
           "HTTP/1.1 20 OK\r\n\r\n",
           "HTTP/1.1 2000 OK\r\n\r\n",
           "HTTP/1.1 +20 OK\r\n\r\n",
           "HTTP/1.1  200 OK\r\n\r\n",
           "HTTP/1.1 099 Early\r\n\r\n",
           "ICY 200 OK\r\n\r\n",
           "\r\nHTTP/1.1 200 OK\r\n\r\n",
           "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
           "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
           "HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\n",
           "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
           "HTTP/1.1 200 OK\r\nContent-Length: 0x10\r\n\r\n",
           "HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551616\r\n\r\n",
           "HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\n",
           "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
           "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
           "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
           "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\n",
           "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n",
           "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1FFFFFFFFFFFFFFFF\r\n",
           "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nzz\r\n",
       }) {
    CAPTURE(text);
    const Read seen = read_in_pieces(text);
    CHECK(seen.end == What::kBroken);
    CHECK_FALSE(seen.why.empty());
    CHECK_FALSE(seen.keeps_connection);
  }
}

TEST_CASE("heads, trailers and sizes of chunks have a limit, also without a line's end") {
  const std::string start = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n";
  const std::string most(HttpHeadParser::kMaxBytes, 'x');
  std::string interim;
  while (interim.size() < most.size()) interim += "HTTP/1.1 100 Continue\r\n\r\n";
  for (const std::string& text : {start + "A: " + most, start + "\r\n1;" + most,
                                  start + "\r\n0\r\nA: " + most, interim, most}) {
    HttpResponseReader reader(false);
    ByteView bytes = as_bytes(text);
    What what = What::kHead;
    while (what == What::kHead || what == What::kBody) {
      const HttpResponseReader::Step step = reader.next(bytes);
      bytes = bytes.subspan(step.taken);
      what = step.what;
    }
    CHECK(what == What::kBroken);
    CHECK(reader.is_too_long());
  }
  // Of a body there is none, nor of the number of its chunks.
  std::string large = start + "\r\n";
  const std::size_t chunks = HttpHeadParser::kMaxBytes;
  for (std::size_t i = 0; i < chunks; ++i) large += "1\r\nx\r\n";
  const Read seen = read(large + "0\r\n\r\n", 4096);
  CHECK(seen.end == What::kEnd);
  CHECK(seen.body.size() == chunks);
}

class EmptyBody final : public HttpBody {
 public:
  explicit EmptyBody(std::uint64_t size) : size_(size) {}
  std::uint64_t size() const noexcept override { return size_; }
  std::ptrdiff_t read_at(std::uint64_t /*offset*/,
                         MutableByteView /*out*/) const noexcept override {
    return 0;
  }

 private:
  const std::uint64_t size_;
};

TEST_CASE("the head of a request: as it was asked for, with what it has to have") {
  HttpRequest request;
  request.method = "GET";
  request.url = "http://h:1/a/../b?x=%20#part";
  CHECK(http_request_head(request, "") == "GET /a/../b?x=%20 HTTP/1.1\r\nHost: h:1\r\n\r\n");
  request.method = "PUT";
  request.url = "HTTP://[::1]?x";
  request.headers = {{"A", "1"}, {"b", ""}};
  CHECK(http_request_head(request, "we") ==
        "PUT /?x HTTP/1.1\r\nHost: [::1]\r\nUser-Agent: we\r\nA: 1\r\nb:\r\nContent-Length: 0\r\n"
        "\r\n");
  request.url = "http://h";
  request.headers = {{"host", "other"}, {"USER-AGENT", "they"}};
  request.body = std::make_shared<EmptyBody>(12345);
  CHECK(http_request_head(request, "we") ==
        "PUT / HTTP/1.1\r\nhost: other\r\nUSER-AGENT: they\r\nContent-Length: 12345\r\n\r\n");
  CHECK(check_http_request(request).ok());
  request.headers = {};
  request.expect_continue = true;
  CHECK(http_request_head(request, "") ==
        "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 12345\r\nExpect: 100-continue\r\n\r\n");
  request.body = std::make_shared<EmptyBody>(0);
  CHECK(http_request_head(request, "") == "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n");
  request.headers = {{"A", "1\r\nB: 2"}};
  CHECK(check_http_request(request).error_number() == EINVAL);
}

}  // namespace
}  // namespace hflush::env
