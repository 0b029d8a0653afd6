#include "hflush/base/statistics.h"

#include <doctest/doctest.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace hflush {
namespace {

TEST_CASE("a name begins at 0, and keeps what is added") {
  Statistics statistics;
  CHECK_FALSE(statistics.contains("bytes"));
  CHECK_THROWS_AS(statistics.at("bytes"), std::out_of_range);
  CHECK(statistics["bytes"] == 0);
  statistics["bytes"] += 3;
  statistics["bytes"] += 4;
  CHECK(statistics.contains("bytes"));
  CHECK(statistics.at("bytes") == 7);
  statistics.clear();
  CHECK_FALSE(statistics.contains("bytes"));
  CHECK(statistics == Statistics());
}

TEST_CASE("a name in two pieces is that of both together") {
  Statistics statistics;
  statistics.of("op", ".samples") = 1;
  statistics.of("op.sam", "ples") += 1;
  CHECK(statistics.at("op.samples") == 2);
  CHECK_FALSE(statistics.contains("op"));
  CHECK_FALSE(statistics.contains("no.samples"));
  statistics["op.maximum"] = 5;
  CHECK(statistics.of("op", ".maximum") == 5);
}

TEST_CASE("sorted by name, whatever the order in which they came up") {
  const Statistics statistics{{"b", 2}, {"c", 3}, {"a", 1}};
  CHECK(statistics.sorted() == std::vector<Statistics::Entry>{{"a", 1}, {"b", 2}, {"c", 3}});
  CHECK(statistics == Statistics{{"c", 3}, {"a", 1}, {"b", 2}});
  CHECK_FALSE(statistics == Statistics{{"c", 3}, {"a", 1}, {"b", 1}});
  CHECK_FALSE(statistics == Statistics{{"c", 3}, {"a", 1}});
}

TEST_CASE("more names than usual, and longer ones") {
  Statistics statistics;
  for (int i = 0; i < 200; ++i) statistics[std::string(100, 'x') + std::to_string(i)] = i;
  for (int i = 0; i < 200; ++i)
    CHECK(statistics.at(std::string(100, 'x') + std::to_string(i)) == i);
}

TEST_CASE("added to in any order, whatever was looked up last") {
  Statistics total{{"a", 1}, {"b", 2}, {"c", 3}};
  for (const char* const name : {"c", "d", "a", "a", "b", "c", "d"}) total[name] += 10;
  CHECK(total == Statistics{{"a", 21}, {"b", 12}, {"c", 23}, {"d", 20}});
}

TEST_CASE("extremes are those of all that were given, the first included") {
  Statistics total;
  for (const int value : {5, 3, 4}) {
    total.lower("op", ".min", value);
    total.raise("op", ".max", -value);
  }
  CHECK(total == Statistics{{"op.max", -3}, {"op.min", 3}});
}

}  // namespace
}  // namespace hflush
