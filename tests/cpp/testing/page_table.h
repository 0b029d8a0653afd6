// A table of a page in docs/, for tests that compare it with the code: what a page says of a state
// machine is what the machine does.
#pragma once

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

}  // namespace hflush::testing
