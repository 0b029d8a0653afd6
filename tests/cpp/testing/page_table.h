// A table of a page in docs/, for tests that compare it with the code: what a page says of a state
// machine is what the machine does.
#pragma once

#include <doctest/doctest.h>

#include <cstddef>
#include <string>
#include <vector>

namespace hflush::testing {

// Without emphasis and code marks. The first cell of a row names the event, or several that end
// alike.
struct PageTable {
  struct Row {
    std::string event;
    std::vector<std::string> cells;  // by column
  };
  std::vector<std::string> columns;
  std::vector<Row> rows;
};

// The first table below `heading` in docs/<page>.
PageTable page_table(const std::string& page, const std::string& heading);

// "a, b" -> "a", "b".
std::vector<std::string> split(const std::string& text, const std::string& separator);

// Calls `check(name, state, cell)` for each event of the table in each state that has a column.
// `events` is a map by name: the table has all of them and no other.
template <typename Events, typename Check>
void for_each_cell(const PageTable& table, const Events& events, Check check) {
  std::size_t count = 0;
  for (const PageTable::Row& row : table.rows) {
    for (const std::string& name : split(row.event, ", ")) {
      REQUIRE_MESSAGE(events.contains(name), name);
      ++count;
      for (std::size_t i = 0; i < table.columns.size(); ++i) {
        const std::string& state = table.columns[i];
        CAPTURE(state);
        CAPTURE(name);
        check(name, state, row.cells[i]);
      }
    }
  }
  CHECK(count == events.size());
}

}  // namespace hflush::testing
