// TokenFile: whoever asks gets what the file has now, or had last.
#include "hflush/hdfs/sasl/token_file.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace hflush::hdfs::sasl {
namespace {

namespace fs = std::filesystem;

Token token_of(std::string_view identifier) {
  return {std::string(identifier), "password", std::string(kDelegationToken), "10.0.0.1:8020"};
}

std::string file_of(std::string_view identifier) {
  Credentials credentials;
  credentials.tokens["a"] = token_of(identifier);
  return encode(credentials, TokenFileFormat::kWritable);
}

// A path in a directory of its own, and what is at it.
struct Place {
  Place() {
    std::string name = (fs::temp_directory_path() / "hflush-tokens-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    directory = name;
    path = directory / "tokens";
  }
  ~Place() { fs::remove_all(directory); }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;

  // In place: the same file.
  void write(const std::string& content) const { std::ofstream(path, std::ios::binary) << content; }
  void replace(const std::string& content) const {
    std::ofstream(directory / "new", std::ios::binary) << content;
    fs::rename(directory / "new", path);
  }

  fs::path directory;
  fs::path path;
};

std::string identifier(TokenFile& file) {
  const HeldTokens held = file.now();
  REQUIRE(held.tokens.size() == 1);
  return held.tokens.front().identifier;
}

TEST_CASE("token file: a changed file is read again, replaced or written in place") {
  const Place place;
  place.write(file_of("one"));
  TokenFile file({token_of("zero")}, place.path);
  CHECK(identifier(file) == "one");
  CHECK(identifier(file) == "one");
  place.replace(file_of("two"));
  CHECK(identifier(file) == "two");
  // As long as before, and perhaps at the same time by the file system's clock.
  for (const std::string_view next : {"six", "ten", "one"}) {
    place.write(file_of(next));
    CHECK(identifier(file) == next);
  }
  CHECK(file.now().origin == place.path);
  place.replace(encode(Credentials{}, TokenFileFormat::kProtobuf));
  CHECK(file.now().tokens.empty());
}

TEST_CASE("token file: one that cannot be read leaves the tokens, and says why") {
  const Place place;
  place.write(file_of("one"));
  TokenFile file({}, place.path);
  CHECK(identifier(file) == "one");
  std::string_view why;
  SUBCASE("it is gone") {
    fs::remove(place.path);
    why = "No such file";
  }
  SUBCASE("half of it is written") {
    const std::string whole = file_of("two");
    place.write(whole.substr(0, whole.size() / 2));
    why = "token file: ";
  }
  SUBCASE("a directory") {
    fs::remove(place.path);
    fs::create_directory(place.path);
    why = "no token file";
  }
  SUBCASE("a pipe that nobody writes to") {
    fs::remove(place.path);
    REQUIRE(::mkfifo(place.path.c_str(), 0600) == 0);
    why = "no token file";
  }
  SUBCASE("a file of a terabyte") {
    fs::resize_file(place.path, std::uintmax_t{1} << 40U);
    why = "no token file";
  }
  CHECK(identifier(file) == "one");
  const std::string origin = file.now().origin;
  CHECK(origin.starts_with(place.path.string() + ", which cannot be read again"));
  CHECK(origin.find(why) != std::string::npos);
  fs::remove_all(place.path);
  place.write(file_of("two"));
  CHECK(identifier(file) == "two");
  CHECK(file.now().origin == place.path);
}

TEST_CASE("token file: without a path the tokens are what they were") {
  TokenFile file({token_of("one")}, "");
  CHECK(identifier(file) == "one");
  CHECK(file.now().origin.empty());
}

}  // namespace
}  // namespace hflush::hdfs::sasl
