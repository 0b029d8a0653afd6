// The names, sizes and header of sidecars are Hadoop's (LOCAL-1, STATUS-10).
#include "hflush/local/sidecar.h"

#include <fcntl.h>
#include <sys/wait.h>

#include "hflush/local/descriptor.h"
#include "local/testing.h"

namespace hflush::local {
namespace {

using testing::code_of;

TEST_CASE("a sidecar is beside its file, hidden") {
  CHECK(sidecar_path("/a/b") == "/a/.b.crc");
  CHECK(sidecar_path("/b") == "/.b.crc");
  CHECK(sidecar_path("/a/.b.crc") == "/a/..b.crc.crc");
}

TEST_CASE("names that only look like a sidecar's are none") {
  for (const char* name : {".a.crc", ".x.crc.crc", "..hidden.crc", "..crc.crc"}) {
    CAPTURE(name);
    CHECK(is_sidecar_name(name));
  }
  for (const char* name : {"a.crc", "x.crc", ".crc", "..crc", ".hidden", ".a.CRC", ".a.crc2", ""}) {
    CAPTURE(name);
    CHECK_FALSE(is_sidecar_name(name));
  }
}

TEST_CASE("a sidecar has eight bytes, and four for each chunk begun, in 64 bits") {
  const std::uint64_t lengths[][2] = {{0, 8},    {1, 12},    {511, 12},     {512, 12},
                                      {513, 16}, {1024, 16}, {100'000, 792}};
  for (const auto& [length, expected] : lengths) CHECK(sidecar_length(length, 512) == expected);
  CHECK(sidecar_length(100, 1) == 408);
  CHECK(sidecar_length(10'000'000'000'000, 10) == 4'000'000'000'008);
  CHECK(sidecar_offset(0) == 8);
  CHECK(sidecar_offset(1'000'000'000'000) == 4'000'000'000'008);
}

TEST_CASE("the header is the magic and a big-endian number") {
  const SidecarHeader header = sidecar_header(512);
  CHECK(as_text(header) == std::string_view("crc\0\0\0\2\0", 8));
  auto parsed = parse_sidecar_header(header);
  REQUIRE(parsed.ok());
  CHECK(*parsed == 512);
}

TEST_CASE("a header that is short, strange or absurd is a checksum error") {
  const SidecarHeader good = sidecar_header(512);
  for (std::size_t size = 0; size < good.size(); ++size) {
    CHECK(code_of(parse_sidecar_header(ByteView(good).first(size))) == StatusCode::kChecksum);
  }
  SidecarHeader wrong_magic = good;
  wrong_magic[3] = std::byte{1};
  CHECK(code_of(parse_sidecar_header(wrong_magic)) == StatusCode::kChecksum);
  CHECK(code_of(parse_sidecar_header(sidecar_header(0))) == StatusCode::kChecksum);
  CHECK(parse_sidecar_header(sidecar_header(kMaxBytesPerChecksum)).ok());
  CHECK(code_of(parse_sidecar_header(sidecar_header(kMaxBytesPerChecksum + 1))) ==
        StatusCode::kChecksum);
}

TEST_CASE("the writer's mark is seen by others, here and in other processes, until it closes") {
  const testing::TemporaryDirectory root;
  testing::write_file(root / "sidecar", "");
  Descriptor writer = open_descriptor((root / "sidecar").c_str(), O_WRONLY);
  const Descriptor reader = open_descriptor((root / "sidecar").c_str(), O_RDONLY);
  CHECK_FALSE(is_unfinished(reader.get()));
  mark_unfinished(writer.get());
  CHECK(is_unfinished(reader.get()));

  const pid_t child = ::fork();
  if (child == 0) {
    // Opened anew: an inherited descriptor would show the parent's own view.
    const Descriptor mine = open_descriptor((root / "sidecar").c_str(), O_RDONLY);
    ::_exit(is_unfinished(mine.get()) ? 0 : 1);
  }
  int outcome = -1;
  REQUIRE(::waitpid(child, &outcome, 0) == child);
  CHECK(outcome == 0);

  writer = Descriptor();
  CHECK_FALSE(is_unfinished(reader.get()));
}

}  // namespace
}  // namespace hflush::local
