#include "hflush/local/owners.h"

#include <grp.h>
#include <pwd.h>

#include <cerrno>
#include <optional>
#include <unordered_map>
#include <vector>

#include "hflush/base/ascii.h"

namespace hflush::local {
namespace {

constexpr std::size_t kFirstBuffer = 1024;
constexpr std::size_t kLargestBuffer = std::size_t{1} << 20U;  // a group with very many members

// Calls one of getpwuid_r and its like with a buffer that is large enough, and takes one field of
// the entry; nullopt without an entry.
template <typename Entry, typename Lookup, typename Field>
auto look_up(Lookup lookup, Field field) -> std::optional<decltype(field(Entry()))> {
  std::vector<char> buffer(kFirstBuffer);
  for (;;) {
    Entry entry;
    Entry* found = nullptr;
    const int error_number = lookup(&entry, buffer.data(), buffer.size(), &found);
    if (error_number == ERANGE && buffer.size() < kLargestBuffer) {
      buffer.resize(buffer.size() * 2);
    } else if (error_number != EINTR) {
      if (found == nullptr) return std::nullopt;
      return field(*found);
    }
  }
}

template <typename Number, typename Find>
const std::string& remembered(std::unordered_map<Number, std::string>& names, Number number,
                              Find find) {
  auto known = names.find(number);
  if (known == names.end()) {
    const std::optional<std::string> name = find();
    known = names.emplace(number, name ? *name : std::to_string(number)).first;
  }
  return known->second;
}

template <typename Number>
Result<Number> number_or_failure(std::optional<Number> found, const std::string& name,
                                 const char* kind) {
  if (found) return *found;
  Number number = 0;
  if (parse_number(name, number)) return number;
  return Status(StatusCode::kInvalidArgument, "no " + std::string(kind) + " named '" + name + "'");
}

}  // namespace

std::string user_name(uid_t user) {
  thread_local std::unordered_map<uid_t, std::string> names;
  return remembered(names, user, [user] {
    return look_up<passwd>(
        [user](passwd* entry, char* buffer, std::size_t size, passwd** found) {
          return ::getpwuid_r(user, entry, buffer, size, found);
        },
        [](const passwd& entry) { return std::string(entry.pw_name); });
  });
}

std::string group_name(gid_t group) {
  thread_local std::unordered_map<gid_t, std::string> names;
  return remembered(names, group, [group] {
    return look_up<::group>(
        [group](::group* entry, char* buffer, std::size_t size, ::group** found) {
          return ::getgrgid_r(group, entry, buffer, size, found);
        },
        [](const ::group& entry) { return std::string(entry.gr_name); });
  });
}

Result<uid_t> find_user(const std::string& name) {
  const auto found = look_up<passwd>(
      [&name](passwd* entry, char* buffer, std::size_t size, passwd** result) {
        return ::getpwnam_r(name.c_str(), entry, buffer, size, result);
      },
      [](const passwd& entry) { return entry.pw_uid; });
  return number_or_failure(found, name, "user");
}

Result<gid_t> find_group(const std::string& name) {
  const auto found = look_up<::group>(
      [&name](::group* entry, char* buffer, std::size_t size, ::group** result) {
        return ::getgrnam_r(name.c_str(), entry, buffer, size, result);
      },
      [](const ::group& entry) { return entry.gr_gid; });
  return number_or_failure(found, name, "group");
}

}  // namespace hflush::local
