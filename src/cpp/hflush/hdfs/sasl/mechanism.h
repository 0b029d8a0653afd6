// Mechanism: the client's side of one SASL authentication, and the protection of what follows it. A
// state machine without I/O; one for each connection.
//
//   respond() for each challenge, until is_complete(); then wrap() and unwrap(), in the order of
//   the bytes, if the quality of protection is more than kAuth
//
// A peer that does not prove that it knows the secret is an error of the respond() or unwrap() that
// notices. No error has a secret in it. Thread-compatible.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "hflush/base/result.h"

namespace hflush::hdfs::sasl {

// What hadoop.rpc.protection and dfs.data.transfer.protection call authentication, integrity and
// privacy.
enum class Protection : std::uint8_t { kAuth, kAuthInt, kAuthConf };
std::string_view to_string(Protection protection) noexcept;  // "auth", "auth-int", "auth-conf"
// As those keys spell it.
std::string_view hadoop_name(Protection protection) noexcept;

class Mechanism {
 public:
  virtual ~Mechanism() = default;

  // The next message for the server; empty: none is due.
  virtual Result<std::string> respond(std::string_view challenge) = 0;
  virtual bool is_complete() const noexcept = 0;

  // Of a complete one.
  virtual Protection protection() const noexcept = 0;
  // How many bytes one wrap() may have.
  virtual std::size_t max_wrapped() const noexcept = 0;
  virtual std::string wrap(std::string_view bytes) = 0;
  virtual Result<std::string> unwrap(std::string_view wrapped) = 0;
};

}  // namespace hflush::hdfs::sasl
