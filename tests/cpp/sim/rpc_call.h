// RpcCall: a call of Hadoop's RPC as a model server has it, and its answer.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>

namespace hflush::sim {

struct RpcCall {
  std::pair<std::string, std::int32_t> key;  // client id, call id
  std::string method;
  std::string request;
  // It may say what is not so any more: its caller has had another attempt answered.
  bool is_late = false;
};

struct RpcException {
  std::string class_name;
  std::string message;
};
// The response's message, or what was thrown.
using RpcAnswer = std::variant<std::string, RpcException>;

}  // namespace hflush::sim
