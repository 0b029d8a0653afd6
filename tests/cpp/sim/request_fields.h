// RequestFields: the fields of a request to a model server, by their numbers. Internal: included by
// .cc files only.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hflush/base/bytes.h"
#include "hflush/hdfs/wire/shared_messages.h"
#include "hflush/hdfs/wire/types.h"
#include "hflush/hdfs/wire/wire.h"

namespace hflush::sim {

// The fields of the requests of this model; each message has some of them.
struct Fields {
  std::map<std::uint32_t, std::string> texts;
  std::map<std::uint32_t, std::uint64_t> numbers;
  std::vector<std::pair<std::uint32_t, std::string>> messages;  // as sent

  std::string text(std::uint32_t field) const {
    const auto found = texts.find(field);
    return found == texts.end() ? std::string() : found->second;
  }
  std::uint64_t number(std::uint32_t field) const {
    const auto found = numbers.find(field);
    return found == numbers.end() ? 0 : found->second;
  }
};

// `kinds`: what each field is, by number: 't' is text (and bytes), 'm' a message, 'n' a number.
inline Fields read_fields(ByteView request, std::string_view kinds) {
  hdfs::wire::Fault fault;
  hdfs::wire::Reader from("request", request, fault);
  Fields fields;
  while (from.next()) {
    const std::uint32_t field = from.field();
    const char kind = field <= kinds.size() ? kinds[field - 1] : '-';
    if (kind == 't') {
      fields.texts[field] = from.text();
    } else if (kind == 'm') {
      fields.messages.emplace_back(field, from.text());
    } else if (kind == 'n') {
      fields.numbers[field] = from.uint64();
    } else {
      from.skip();
    }
  }
  return fields;
}

inline hdfs::ExtendedBlock block_in(const std::string& message) {
  hdfs::wire::Fault fault;
  return hdfs::wire::read_block(hdfs::wire::Reader("block", as_bytes(message), fault));
}

inline std::optional<hdfs::ExtendedBlock> block_in(const Fields& fields, std::uint32_t number) {
  for (const auto& [field, message] : fields.messages) {
    if (field == number) return block_in(message);
  }
  return std::nullopt;
}

inline std::string uuid_of_id(std::string_view message) {
  return read_fields(as_bytes(message), "ttt").text(3);
}

// The names of the nodes in a field of DatanodeInfos.
inline std::vector<std::string> nodes_in(const Fields& fields, std::uint32_t number) {
  std::vector<std::string> uuids;
  for (const auto& [field, message] : fields.messages) {
    if (field != number) continue;
    const Fields info = read_fields(as_bytes(message), "m");
    if (!info.messages.empty()) uuids.push_back(uuid_of_id(info.messages.front().second));
  }
  return uuids;
}

}  // namespace hflush::sim
