#include "testing/page_table.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>

namespace hflush::testing {
namespace {

std::vector<std::string> cells_of(std::string line) {
  std::erase_if(line, [](char letter) { return letter == '*' || letter == '`'; });
  // "| a | b |"
  return split(line.substr(2, line.size() - 4), " | ");
}

}  // namespace

std::vector<std::string> split(const std::string& text, const std::string& separator) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (std::size_t end = 0; (end = text.find(separator, begin)) != std::string::npos;) {
    parts.push_back(text.substr(begin, end - begin));
    begin = end + separator.size();
  }
  parts.push_back(text.substr(begin));
  return parts;
}

PageTable page_table(const std::string& page, const std::string& heading) {
  std::ifstream file(std::string(HFLUSH_DOCS) + "/" + page);
  std::string line;
  while (std::getline(file, line) && !line.starts_with(heading)) {
  }
  while (std::getline(file, line) && !line.starts_with("| ")) {
  }
  REQUIRE(file.good());
  PageTable table;
  table.columns = cells_of(line);
  table.columns.erase(table.columns.begin());
  std::getline(file, line);  // |---|
  while (std::getline(file, line) && line.starts_with("| ")) {
    std::vector<std::string> cells = cells_of(line);
    PageTable::Row& row = table.rows.emplace_back();
    row.event = cells.front();
    row.cells.assign(cells.begin() + 1, cells.end());
    REQUIRE(row.cells.size() == table.columns.size());
  }
  return table;
}

}  // namespace hflush::testing
