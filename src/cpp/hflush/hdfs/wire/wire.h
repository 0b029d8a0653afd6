// The wire format of protocol buffers, for the messages of this folder: a reader that survives any
// bytes, and the writer. Internal: included by .cc files only.
//
// Readers of one message and of the messages inside it share one Fault. The first thing that is
// wrong is kept there and every reader is at its end from then on, so that decoding code needs no
// checks of its own: it reads fields in a loop, says what must have been there, and read_whole()
// turns a fault into a Status. Nothing is allocated for a length that only claims to be there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <protozero/pbf_writer.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "hflush/base/bytes.h"
#include "hflush/base/result.h"

namespace hflush::hdfs::wire {

using Writer = protozero::pbf_writer;

class Fault {
 public:
  bool any() const noexcept { return !what_.empty(); }
  const std::string& what() const noexcept { return what_; }
  void set(std::string what) {
    if (what_.empty()) what_ = std::move(what);
  }

 private:
  std::string what_;
};

// kIo, EBADMSG: "<subject>: <what>".
Status malformed(std::string_view subject, std::string_view what);

struct Required {
  std::uint32_t field;
  std::string_view name;
};

// The fields of one message, in the order in which they come:
//
//   while (reader.next()) {
//     switch (reader.field()) { case 1: x = reader.uint64(); break; default: reader.skip(); }
//   }
//   reader.require({{1, "x"}});
//
// A getter refuses a field of another wire type and a number that is out of its range; what it
// returns after a fault means nothing. Views live as long as the bytes.
class Reader {
 public:
  Reader(std::string_view message, ByteView bytes, Fault& fault) noexcept
      : message_(message), rest_(as_text(bytes)), fault_(&fault) {}

  // What has not been read of the message: all of it, at first.
  std::string_view rest() const noexcept { return rest_; }
  bool next();
  std::uint32_t field() const noexcept { return field_; }

  std::uint64_t uint64();
  std::uint64_t natural();  // at most 2^63 - 1: one of Java's longs that is not negative
  std::int64_t int64();
  std::int64_t sint64();  // zigzag
  std::int32_t int32();
  std::uint32_t uint32();
  std::uint16_t port();
  bool boolean();
  // Requires that values beyond `last` mean nothing to us.
  template <typename Enum>
  Enum enumerator(Enum first, Enum last) {
    return static_cast<Enum>(
        bounded(static_cast<std::uint64_t>(first), static_cast<std::uint64_t>(last)));
  }
  std::uint64_t fixed64();
  std::uint32_t fixed32();
  std::string_view bytes();
  std::string text() { return std::string(bytes()); }
  Reader message(std::string_view name) { return {name, as_bytes(bytes()), *fault_}; }
  // Calls `take(number)` for one number, or for each of a packed field.
  template <typename Take>
  void each_number(Take take) {
    if (type_ != kLengthDelimited) return take(varint_field());
    Reader packed = message(message_);
    packed.field_ = field_;
    while (!packed.rest_.empty() && !fault_->any()) take(packed.varint());
  }
  void skip();

  void refuse(std::string_view what);  // "<message> field 3 <what>"
  // Fields up to 63.
  void require(std::initializer_list<Required> fields);

 private:
  static constexpr std::uint32_t kVarint = 0;
  static constexpr std::uint32_t kFixed64 = 1;
  static constexpr std::uint32_t kLengthDelimited = 2;
  static constexpr std::uint32_t kFixed32 = 5;

  bool expect(std::uint32_t type);
  std::uint64_t varint();
  std::uint64_t varint_field() { return expect(kVarint) ? varint() : 0; }
  std::uint64_t bounded(std::uint64_t first, std::uint64_t last);
  std::string_view take(std::uint64_t size);

  std::string_view message_;
  std::string_view rest_;
  Fault* fault_;
  std::uint64_t seen_ = 0;  // bit n: field n was there
  std::uint32_t field_ = 0;
  std::uint32_t type_ = 0;
};

// What `read(Reader)` makes of all of `bytes`, a message called `message`, or why it does not.
template <typename T, typename Read>
Result<T> read_whole(std::string_view subject, std::string_view message, ByteView bytes,
                     Read read) {
  Fault fault;
  T value = read(Reader(message, bytes, fault));
  if (fault.any()) return malformed(subject, fault.what());
  return value;
}

// `message` with its length in front.
std::string delimited(std::string_view message);
// Takes such a message from the start of `bytes`; nullopt: it is cut off, or longer than 32 bits
// can say.
std::optional<std::string_view> take_delimited(std::string_view& bytes) noexcept;

}  // namespace hflush::hdfs::wire
