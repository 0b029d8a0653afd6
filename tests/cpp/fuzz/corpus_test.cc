// What the fuzzers start from, and what they once found, keeps being taken.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "fuzz/targets.h"

namespace hflush::fuzz {
namespace {

namespace fs = std::filesystem;

std::string contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  REQUIRE(file.good());
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

fs::path corpus() { return HFLUSH_CORPUS; }

TEST_CASE("every target keeps its promises on its corpus, and on each file of it cut off") {
  for (const Target& target : kTargets) {
    std::size_t files = 0;
    for (const fs::directory_entry& entry : fs::directory_iterator(corpus() / target.name)) {
      CAPTURE(entry.path());
      const std::string input = contents(entry.path());
      CHECK_NOTHROW(target.run(as_bytes(input)));
      for (std::size_t size = 0; size < input.size(); ++size) {
        CHECK_NOTHROW(target.run(as_bytes(input).first(size)));
      }
      ++files;
    }
    CAPTURE(target.name);
    CHECK(files >= 4);
  }
}

TEST_CASE("there is no corpus without a target") {
  std::size_t directories = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator(corpus())) ++directories;
  CHECK(directories == std::size(kTargets));
}

}  // namespace
}  // namespace hflush::fuzz
