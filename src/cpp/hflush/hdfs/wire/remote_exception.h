// RemoteException: what a Hadoop server answers instead of a response, and the one table that turns
// it into a Status. Immutable values; thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "hflush/base/status.h"

namespace hflush::hdfs {

struct RemoteException {
  std::string class_name;  // of Java, in full
  std::string message;     // without the stack trace
  int error_detail = 0;    // RpcErrorCodeProto; 0 if the server gave none
};

// What comes before the stack trace in a message that a server sent.
std::string_view without_stack_trace(std::string_view message) noexcept;

// Whether `class_name` is the class `simple` in any package: services compatible with HDFS move
// classes. "A$B" is both "A$B" and "B".
bool is_class(std::string_view class_name, std::string_view simple) noexcept;

// The failure of `method`, answered by `server` ("NameNode nn:8020") after `effort` (" (3 attempts
// in 2.0 s)"). Its remote_class() is the exception's class, also where the table does not know it:
// that is an I/O error.
Status to_status(const RemoteException& exception, std::string_view method, std::string_view server,
                 std::string path, std::string_view effort = {});

}  // namespace hflush::hdfs
