#include "hflush/hdfs/wire/wire.h"

#include <cerrno>
#include <iterator>
#include <limits>
#include <protozero/exception.hpp>
#include <protozero/varint.hpp>

namespace hflush::hdfs::wire {
namespace {

constexpr std::uint64_t kGreatestLong = std::numeric_limits<std::int64_t>::max();

// Protocol buffers are little-endian, unlike Hadoop's own formats.
std::uint64_t load_little_endian(std::string_view bytes) noexcept {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    value |= static_cast<std::uint64_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  }
  return value;
}

}  // namespace

Status malformed(std::string_view subject, std::string_view what) {
  return {StatusCode::kIo, std::string(subject) + ": " + std::string(what), {}, EBADMSG};
}

bool Reader::next() {
  if (rest_.empty() || fault_->any()) return false;
  field_ = 0;
  const std::uint64_t key = varint();
  if (key >> 3U == 0 || key > std::numeric_limits<std::uint32_t>::max()) {
    fault_->set(std::string(message_) + " has a field with an invalid number");
    return false;
  }
  field_ = static_cast<std::uint32_t>(key >> 3U);
  type_ = static_cast<std::uint32_t>(key & 7U);
  if (field_ < 64) seen_ |= std::uint64_t{1} << field_;
  return true;
}

std::uint64_t Reader::uint64() { return varint_field(); }

std::uint64_t Reader::natural() { return bounded(0, kGreatestLong); }

std::int64_t Reader::int64() { return static_cast<std::int64_t>(varint_field()); }

std::int64_t Reader::sint64() { return protozero::decode_zigzag64(varint_field()); }

std::int32_t Reader::int32() {
  const std::int64_t value = int64();
  if (value < std::numeric_limits<std::int32_t>::min() ||
      value > std::numeric_limits<std::int32_t>::max()) {
    refuse("has the value " + std::to_string(value));
  }
  return static_cast<std::int32_t>(value);
}

std::uint32_t Reader::uint32() {
  return static_cast<std::uint32_t>(bounded(0, std::numeric_limits<std::uint32_t>::max()));
}

std::uint16_t Reader::port() {
  return static_cast<std::uint16_t>(bounded(0, std::numeric_limits<std::uint16_t>::max()));
}

bool Reader::boolean() { return varint_field() != 0; }

std::uint64_t Reader::fixed64() {
  return expect(kFixed64) ? load_little_endian(take(sizeof(std::uint64_t))) : 0;
}

std::uint32_t Reader::fixed32() {
  const std::string_view bytes = expect(kFixed32) ? take(sizeof(std::uint32_t)) : "";
  return static_cast<std::uint32_t>(load_little_endian(bytes));
}

std::string_view Reader::bytes() { return expect(kLengthDelimited) ? take(varint()) : ""; }

void Reader::skip() {
  switch (type_) {
    case kVarint:
      varint();
      break;
    case kFixed64:
      take(sizeof(std::uint64_t));
      break;
    case kLengthDelimited:
      take(varint());
      break;
    case kFixed32:
      take(sizeof(std::uint32_t));
      break;
    default:
      refuse("is of the unknown wire type " + std::to_string(type_));
  }
}

void Reader::refuse(std::string_view what) {
  std::string text(message_);
  if (field_ != 0) text += " field " + std::to_string(field_);
  fault_->set(text + " " + std::string(what));
}

void Reader::require(std::initializer_list<Required> fields) {
  if (fault_->any()) return;
  for (const Required& required : fields) {
    if (((seen_ >> required.field) & 1U) != 0) continue;
    fault_->set(std::string(message_) + " has no " + std::string(required.name));
    return;
  }
}

bool Reader::expect(std::uint32_t type) {
  if (type_ == type) return true;
  refuse("is of wire type " + std::to_string(type_) + ", not " + std::to_string(type));
  return false;
}

std::uint64_t Reader::varint() {
  const char* at = rest_.data();
  const char* const end = at + rest_.size();
  try {
    const std::uint64_t value = protozero::decode_varint(&at, end);
    rest_.remove_prefix(static_cast<std::size_t>(at - rest_.data()));
    return value;
  } catch (const protozero::exception&) {
    refuse(rest_.size() < protozero::max_varint_length ? "ends within a number"
                                                       : "has a number of more than 10 bytes");
    return 0;
  }
}

std::uint64_t Reader::bounded(std::uint64_t first, std::uint64_t last) {
  const std::uint64_t value = varint_field();
  if (value >= first && value <= last) return value;
  refuse("has the value " + std::to_string(static_cast<std::int64_t>(value)));
  return first;
}

std::string_view Reader::take(std::uint64_t size) {
  if (fault_->any()) return {};
  if (size > rest_.size()) {
    refuse("is " + std::to_string(size) + " bytes long where " + std::to_string(rest_.size()) +
           " are left");
    return {};
  }
  const std::string_view taken = rest_.substr(0, size);
  rest_.remove_prefix(size);
  return taken;
}

std::string delimited(std::string_view message) {
  std::string result;
  result.reserve(protozero::max_varint_length + message.size());
  protozero::write_varint(std::back_inserter(result), message.size());
  return result.append(message);
}

std::optional<std::string_view> take_delimited(std::string_view& bytes) noexcept {
  std::uint64_t size = 0;
  for (std::size_t i = 0; i < bytes.size() && i < 5; ++i) {
    const auto byte = static_cast<unsigned char>(bytes[i]);
    size |= static_cast<std::uint64_t>(byte & 0x7FU) << (7 * i);
    if ((byte & 0x80U) != 0) continue;
    bytes.remove_prefix(i + 1);
    if (size > bytes.size()) return std::nullopt;
    const std::string_view message = bytes.substr(0, size);
    bytes.remove_prefix(size);
    return message;
  }
  return std::nullopt;
}

}  // namespace hflush::hdfs::wire
