#include "hflush/env/control_groups.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

namespace hflush::env {
namespace {

std::vector<std::string> words_of(const std::string& text, char separator = ' ') {
  std::vector<std::string> words;
  std::istringstream stream(text);
  for (std::string word; std::getline(stream, word, separator);) words.push_back(std::move(word));
  return words;
}

std::vector<std::string> lines_of(const std::string& path) {
  std::vector<std::string> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(std::move(line));
  return lines;
}

bool has_word(const std::string& list, std::string_view word) {
  const std::vector<std::string> words = words_of(list, ',');
  return std::ranges::find(words, word) != words.end();
}

// Where a hierarchy is mounted, and which of its groups is seen there.
struct Mount {
  std::string group;
  std::string point;
};

// Of version 2 if `controller` is empty.
std::optional<Mount> mount_of(const std::string& root, std::string_view controller) {
  for (const std::string& line : lines_of(root + "/proc/self/mountinfo")) {
    const std::size_t dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    const std::vector<std::string> front = words_of(line.substr(0, dash));
    const std::vector<std::string> back = words_of(line.substr(dash + 3));
    if (front.size() < 5 || back.size() < 3) continue;
    const bool is_it = controller.empty() ? back[0] == "cgroup2"
                                          : back[0] == "cgroup" && has_word(back[2], controller);
    if (is_it) return Mount{front[3], front[4]};
  }
  return std::nullopt;
}

// The directory of this process's group, and those above it as far as they are mounted.
std::vector<std::string> groups_of(const std::string& root, std::string_view controller) {
  for (const std::string& line : lines_of(root + "/proc/self/cgroup")) {
    // "4:cpu,cpuacct:/path"; of version 2: "0::/path"
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (controller.empty() ? !controllers.empty() : !has_word(controllers, controller)) continue;
    const std::optional<Mount> mount = mount_of(root, controller);
    if (!mount) return {};
    std::string group = line.substr(second + 1);
    const std::string seen = mount->group == "/" ? "" : mount->group;
    // A container may see its own group as the root of the hierarchy, under another name.
    if (group == seen || !(group + "/").starts_with(seen + "/") ||
        group.find("/..") != std::string::npos) {
      group.clear();
    } else {
      group.erase(0, seen.size());
    }
    const std::string top = root + mount->point;
    std::vector<std::string> directories;
    while (!group.empty() && group != "/") {
      directories.push_back(top + group);
      group.erase(group.rfind('/'));
    }
    directories.push_back(top);
    return directories;
  }
  return {};
}

// "max", "-1", and what is no number, are no limit.
std::optional<std::uint64_t> number_of(const std::string& text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end == text.data()) return std::nullopt;
  return number;
}

std::optional<std::uint64_t> number_in(const std::string& path) {
  const std::vector<std::string> lines = lines_of(path);
  return lines.empty() ? std::nullopt : number_of(lines.front());
}

template <typename T>
void lower(std::optional<T>& least, std::optional<T> other) {
  if (other && (!least || *other < *least)) least = other;
}

std::optional<unsigned> processors(std::optional<std::uint64_t> quota,
                                   std::optional<std::uint64_t> period) {
  if (!quota || !period || *quota == 0 || *period == 0) return std::nullopt;
  return static_cast<unsigned>(std::min<std::uint64_t>((*quota - 1) / *period + 1, UINT32_MAX));
}

}  // namespace

std::optional<std::uint64_t> group_memory_limit(const std::string& root) {
  std::optional<std::uint64_t> least;
  for (const std::string& group : groups_of(root, "")) {
    lower(least, number_in(group + "/memory.max"));
  }
  for (const std::string& group : groups_of(root, "memory")) {
    lower(least, number_in(group + "/memory.limit_in_bytes"));
  }
  return least;
}

std::optional<unsigned> group_processor_limit(const std::string& root) {
  std::optional<unsigned> least;
  for (const std::string& group : groups_of(root, "")) {
    for (const std::string& line : lines_of(group + "/cpu.max")) {  // "150000 100000"
      const std::vector<std::string> words = words_of(line);
      if (words.size() == 2) lower(least, processors(number_of(words[0]), number_of(words[1])));
    }
  }
  for (const std::string& group : groups_of(root, "cpu")) {
    lower(least, processors(number_in(group + "/cpu.cfs_quota_us"),
                            number_in(group + "/cpu.cfs_period_us")));
  }
  return least;
}

std::uint64_t usable_memory() {
  std::optional<std::uint64_t> least = group_memory_limit();
  const long pages = ::sysconf(_SC_PHYS_PAGES);
  const long page_bytes = ::sysconf(_SC_PAGESIZE);
  if (pages > 0 && page_bytes > 0) {
    lower<std::uint64_t>(
        least, static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page_bytes));
  }
  rlimit space{};
  if (::getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY) {
    lower<std::uint64_t>(least, space.rlim_cur);
  }
  return least.value_or(UINT64_MAX);
}

}  // namespace hflush::env
