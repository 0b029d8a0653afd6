// Path text is cut and joined by its bytes alone, and a directory can be synced.
#include "hflush/local/paths.h"

#include "local/testing.h"

namespace hflush::local {
namespace {

using testing::code_of;
using testing::TemporaryDirectory;

TEST_CASE("a path is a parent and a name") {
  CHECK(parent_of("/a/b") == "/a");
  CHECK(name_of("/a/b") == "b");
  CHECK(parent_of("/a") == "/");
  CHECK(name_of("/a") == "a");
  CHECK(parent_of("/") == "/");
  CHECK(name_of("/").empty());
  CHECK(join("/a", "b") == "/a/b");
  CHECK(join("/", "b") == "/b");
}

TEST_CASE("below means an element further down, not a longer name") {
  CHECK(is_below("/a/b", "/a"));
  CHECK(is_below("/a/b/c", "/a"));
  CHECK(is_below("/a", "/"));
  CHECK_FALSE(is_below("/", "/"));
  CHECK_FALSE(is_below("/a", "/a"));
  CHECK_FALSE(is_below("/ab", "/a"));
  CHECK_FALSE(is_below("/a", "/a/b"));
}

TEST_CASE("a directory is synced; one that was renamed is beyond us; a file is an error") {
  const TemporaryDirectory root;
  testing::write_file(root / "file", "x");
  CHECK(*sync_directory(root.path()));
  CHECK_FALSE(*sync_directory(root / "renamed"));
  CHECK(code_of(sync_directory(root / "file")) == StatusCode::kParentNotDirectory);
}

}  // namespace
}  // namespace hflush::local
