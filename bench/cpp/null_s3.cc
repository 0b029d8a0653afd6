// An S3 server that drops what it is sent and answers at wire speed, for measuring what a client
// costs without the server's share. It verifies nothing and keeps nothing.
//
//     hflush_null_s3 [DELAY]
//
// Listens on the loopback interface, prints {"port": PORT} on one line, and ends when its standard
// input does. A thread per connection. Bodies are dropped within the kernel, without a copy. Each
// answer comes DELAY milliseconds late. An object whose key ends in "-SIZE" is there and has so
// many bytes, all of them 'x'; others are not. A list of the keys that begin with "listed/COUNT/"
// has so many; any other list is empty.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

namespace {

constexpr int kBacklog = 1024;
constexpr std::size_t kLongestHead = std::size_t{64} << 10U;
constexpr std::size_t kPiece = std::size_t{1} << 20U;
constexpr std::string_view kXml = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>";
constexpr std::string_view kDate = "Fri, 02 Jan 2026 03:04:05 GMT";
constexpr std::string_view kModified = "2026-01-02T03:04:05.000Z";
constexpr std::string_view kListed = "listed";
constexpr std::uint64_t kKeysOfPage = 1000;
constexpr int kDigits = 9;  // of a key that is listed

std::chrono::milliseconds delay{0};  // set before the first connection

[[noreturn]] void give_up(const char* what) {
  std::perror(what);
  std::_Exit(1);
}

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

std::optional<std::uint64_t> number(std::string_view text, int base = 10) {
  std::uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value, base);
  if (parsed.ec != std::errc() || parsed.ptr == text.data()) return std::nullopt;
  return value;
}

// What matters of a request.
struct Request {
  std::string method;
  std::string path;
  std::string query;
  std::uint64_t length = 0;
  bool chunked = false;
  bool expects = false;
  bool closes = false;
  std::string range;      // the value, in lower case
  std::string checksums;  // the lines of x-amz-checksum-*, to be sent back

  bool has(std::string_view parameter) const { return query.find(parameter) != std::string::npos; }
  // Of `name=value`, as it is spelt there; empty if there is none.
  std::string_view value(std::string_view name) const {
    for (std::string_view rest = query; !rest.empty();) {
      const std::string_view one = rest.substr(0, rest.find('&'));
      rest.remove_prefix(std::min(one.size() + 1, rest.size()));
      if (one.starts_with(name) && one.substr(name.size()).starts_with('=')) {
        return one.substr(name.size() + 1);
      }
    }
    return {};
  }
  bool of_bucket() const { return path.find('/', 1) == std::string::npos || path.back() == '/'; }
  // Of an object that is there.
  std::optional<std::uint64_t> size() const {
    const std::size_t dash = path.rfind('-');
    return dash == std::string::npos ? std::nullopt
                                     : number(std::string_view(path).substr(dash + 1));
  }
};

Request parse(std::string_view head) {
  Request request;
  const std::string_view first = head.substr(0, head.find("\r\n"));
  const std::size_t space = first.find(' ');
  request.method = first.substr(0, space);
  const std::string_view rest = first.substr(std::min(space + 1, first.size()));
  const std::string_view target = rest.substr(0, rest.find(' '));
  const std::size_t mark = std::min(target.find('?'), target.size());
  request.path = target.substr(0, mark);
  request.query = target.substr(std::min(mark + 1, target.size()));
  for (std::size_t at = first.size() + 2; at < head.size();) {
    const std::string_view line = head.substr(at, head.find("\r\n", at) - at);
    at += line.size() + 2;
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    const std::string name = lower(line.substr(0, colon));
    std::string_view value = line.substr(colon + 1);
    while (!value.empty() && value.front() == ' ') value.remove_prefix(1);
    if (name == "content-length") request.length = number(value).value_or(0);
    if (name == "transfer-encoding") request.chunked = lower(value) == "chunked";
    if (name == "expect") request.expects = lower(value) == "100-continue";
    if (name == "connection") request.closes = lower(value) == "close";
    if (name == "range") request.range = lower(value);
    if (name.starts_with("x-amz-checksum-")) request.checksums.append(line).append("\r\n");
  }
  return request;
}

// One connection; its functions are false at its end.
class Connection {
 public:
  explicit Connection(int descriptor) : descriptor_(descriptor) {}

  void serve() {
    while (const std::optional<std::string> head = read_head()) {
      const Request request = parse(*head);
      std::this_thread::sleep_for(delay);
      if (request.expects && !send("HTTP/1.1 100 Continue\r\n\r\n")) return;
      if (!(request.chunked ? drop_chunks() : drop(request.length))) return;
      if (!answer(request) || request.closes) return;
    }
  }

 private:
  bool fill() {
    const std::size_t before = buffer_.size();
    buffer_.resize(before + kLongestHead);
    const ssize_t got = receive(buffer_.data() + before, kLongestHead, 0);
    buffer_.resize(before + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    return got > 0;
  }

  ssize_t receive(void* data, std::size_t size, int flags) const {
    while (true) {
      const ssize_t got = ::recv(descriptor_, data, size, flags);
      if (got >= 0 || errno != EINTR) return got;
    }
  }

  // Up to and with `end`; nullopt at the end of the stream.
  std::optional<std::string> read_until(std::string_view end) {
    std::size_t found = 0;
    while ((found = buffer_.find(end)) == std::string::npos) {
      if (buffer_.size() > kLongestHead || !fill()) return std::nullopt;
    }
    std::string text = buffer_.substr(0, found + end.size());
    buffer_.erase(0, found + end.size());
    return text;
  }

  std::optional<std::string> read_head() { return read_until("\r\n\r\n"); }

  bool drop(std::uint64_t size) {
    const std::size_t buffered = std::min<std::uint64_t>(size, buffer_.size());
    buffer_.erase(0, buffered);
    for (std::uint64_t left = size - buffered; left > 0;) {
      // For TCP, MSG_TRUNC means that the kernel drops them where they are.
      const ssize_t got = receive(
          nullptr, static_cast<std::size_t>(std::min<std::uint64_t>(left, kPiece)), MSG_TRUNC);
      if (got <= 0) return false;
      left -= static_cast<std::uint64_t>(got);
    }
    return true;
  }

  bool drop_chunks() {
    while (const std::optional<std::string> line = read_until("\r\n")) {
      const std::optional<std::uint64_t> size = number(*line, 16);
      if (!size) return false;
      if (*size > 0) {
        if (!drop(*size + 2)) return false;
        continue;
      }
      while (const std::optional<std::string> trailer = read_until("\r\n")) {
        if (trailer->size() == 2) return true;
      }
      return false;
    }
    return false;
  }

  bool send(std::string_view data) const {
    while (!data.empty()) {
      const ssize_t sent = ::send(descriptor_, data.data(), data.size(), MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent <= 0) return false;
      data.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }

  bool respond(std::string_view status, std::string_view headers, std::uint64_t length,
               std::string_view body) const {
    std::string text = "HTTP/1.1 ";
    text.append(status).append("\r\nDate: ").append(kDate).append("\r\n").append(headers);
    text.append("Content-Length: ").append(std::to_string(length)).append("\r\n\r\n");
    return send(text.append(body));
  }

  bool document(std::string_view root, std::string_view inside, std::string_view headers) const {
    std::string body(kXml);
    body.append("<").append(root).append(">").append(inside);
    body.append("</").append(root).append(">");
    const std::string all = std::string(headers) + "Content-Type: application/xml\r\n";
    return respond("200 OK", all, body.size(), body);
  }

  bool answer(const Request& request) const {
    const std::string etag = "ETag: \"d41d8cd98f00b204e9800998ecf8427e\"\r\n" + request.checksums;
    if (request.method == "PUT") return respond("200 OK", etag, 0, "");
    if (request.method == "DELETE") return respond("204 No Content", "", 0, "");
    if (request.method == "POST" && request.has("uploads")) {
      return document("InitiateMultipartUploadResult", "<UploadId>upload</UploadId>",
                      request.checksums);
    }
    if (request.method == "POST" && request.has("uploadId")) {
      return document("CompleteMultipartUploadResult",
                      "<ETag>\"d41d8cd98f00b204e9800998ecf8427e-1\"</ETag>", "");
    }
    if (request.of_bucket()) {
      if (request.method == "HEAD") return respond("200 OK", "", 0, "");
      return list(request);
    }
    return object(request);
  }

  static std::uint64_t keys_below(std::string_view prefix) {
    if (!prefix.starts_with(kListed)) return 0;
    prefix.remove_prefix(kListed.size());
    for (const std::string_view slash : {"/", "%2F"}) {
      if (prefix.starts_with(slash)) return number(prefix.substr(slash.size())).value_or(0);
    }
    return 0;
  }

  // A page; its token is the number of the first key of the next one.
  bool list(const Request& request) const {
    const std::uint64_t count = keys_below(request.value("prefix"));
    const std::uint64_t first = number(request.value("continuation-token")).value_or(0);
    const std::uint64_t asked = number(request.value("max-keys")).value_or(kKeysOfPage);
    const std::uint64_t end = std::min(count, first + std::min(asked, kKeysOfPage));
    std::string inside;
    for (std::uint64_t i = first; i < end; ++i) {
      std::string name = std::to_string(i);
      name.insert(0, kDigits - name.size(), '0');
      inside.append("<Contents><Key>listed/").append(std::to_string(count)).append("/");
      inside.append(name).append("</Key><LastModified>").append(kModified);
      inside.append("</LastModified><ETag>&quot;d41d8cd98f00b204e9800998ecf8427e&quot;</ETag>");
      inside.append("<Size>1</Size><StorageClass>STANDARD</StorageClass></Contents>");
    }
    inside.append("<KeyCount>").append(std::to_string(end - first)).append("</KeyCount>");
    if (end < count) {
      inside.append("<NextContinuationToken>").append(std::to_string(end));
      inside.append("</NextContinuationToken><IsTruncated>true</IsTruncated>");
    } else {
      inside.append("<IsTruncated>false</IsTruncated>");
    }
    return document("ListBucketResult", inside, "");
  }

  bool object(const Request& request) const {
    const std::optional<std::uint64_t> size = request.size();
    const bool asks = request.method == "HEAD";
    if (!size) {
      constexpr std::string_view kBody = "<Error><Code>NoSuchKey</Code></Error>";
      return respond("404 Not Found", "Content-Type: application/xml\r\n", kBody.size(),
                     asks ? "" : kBody);
    }
    std::uint64_t first = 0;
    std::uint64_t last = *size - 1;
    std::string headers = "ETag: \"d41d8cd98f00b204e9800998ecf8427e\"\r\nAccept-Ranges: bytes\r\n";
    headers.append("Last-Modified: ").append(kDate).append("\r\n");
    const bool part = request.range.starts_with("bytes=");
    if (part) {
      const std::string_view range = std::string_view(request.range).substr(6);
      first = number(range).value_or(0);
      last = std::min(last, number(range.substr(range.find('-') + 1)).value_or(last));
      headers += "Content-Range: bytes " + std::to_string(first) + "-" + std::to_string(last) +
                 "/" + std::to_string(*size) + "\r\n";
    }
    const std::uint64_t length = last + 1 - first;
    if (!respond(part ? "206 Partial Content" : "200 OK", headers, length, "")) return false;
    static const std::string kData(kPiece, 'x');
    for (std::uint64_t left = asks ? 0 : length; left > 0;) {
      const std::size_t piece = std::min<std::uint64_t>(left, kPiece);
      if (!send(std::string_view(kData).substr(0, piece))) return false;
      left -= piece;
    }
    return true;
  }

  const int descriptor_;
  std::string buffer_;  // received, not looked at
};

struct Listener {
  int descriptor;
  std::uint16_t port;
};

Listener listen_on_loopback() {
  const int descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof name;
  auto* const address = reinterpret_cast<sockaddr*>(&name);
  if (descriptor < 0 || ::bind(descriptor, address, size) != 0 ||
      ::listen(descriptor, kBacklog) != 0 || ::getsockname(descriptor, address, &size) != 0) {
    give_up("listen");
  }
  return {descriptor, ntohs(name.sin_port)};
}

// Threads are left alone: the process ends with all of them.
void serve_all(int listener) {
  while (true) {
    const int accepted = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (accepted < 0) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      give_up("accept");
    }
    const int one = 1;
    ::setsockopt(accepted, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    std::thread([accepted] {
      Connection(accepted).serve();
      ::close(accepted);
    }).detach();
  }
}

}  // namespace

int main(int argc, char** argv) {
  delay = std::chrono::milliseconds(argc > 1 ? number(argv[1]).value_or(0) : 0);
  const Listener listener = listen_on_loopback();
  std::cout << "{\"port\": " << listener.port << "}" << std::endl;
  std::thread([listener] { serve_all(listener.descriptor); }).detach();
  std::array<char, 256> ignored{};
  while (true) {
    const ssize_t got = ::read(STDIN_FILENO, ignored.data(), ignored.size());
    if (got == 0 || (got < 0 && errno != EINTR)) std::_Exit(0);
  }
}
