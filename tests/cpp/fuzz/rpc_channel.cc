#include "hflush/hdfs/rpc/rpc_channel.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <type_traits>
#include <variant>
#include <vector>

#include "fuzz/targets.h"

namespace hflush::fuzz {
namespace {

using hdfs::RpcChannel;
using hdfs::RpcEvent;
namespace rpc_event = hdfs::rpc_event;

constexpr std::int32_t kCalls = 8;
constexpr std::uint32_t kMaxResponse = 1U << 20U;

// What `bytes` mean, received in pieces of `piece` bytes, while some calls are outstanding.
std::vector<RpcEvent> received(ByteView bytes, std::size_t piece) {
  RpcChannel::Options options;
  options.protocol = "p";
  options.user = "u";
  options.max_response_bytes = kMaxResponse;
  const env::TimePoint now{};
  RpcChannel channel(std::move(options), now);
  for (std::int32_t id = 0; id < kCalls; ++id) channel.call(id, 0, "m", "", now);
  std::vector<RpcEvent> events;
  while (!bytes.empty()) {
    const std::size_t size = std::min(piece, bytes.size());
    channel.receive(bytes.first(size), now, events);
    bytes = bytes.subspan(size);
  }
  return events;
}

// An event as something to compare.
std::string text(const RpcEvent& event) {
  return std::visit(
      [](const auto& of) -> std::string {
        using Event = std::decay_t<decltype(of)>;
        if constexpr (std::is_same_v<Event, rpc_event::Response>) {
          return "response " + std::to_string(of.call_id) + " " + of.body;
        } else if constexpr (std::is_same_v<Event, rpc_event::Error>) {
          return "error " + std::to_string(of.call_id) + " " + of.exception.class_name + ": " +
                 of.exception.message;
        } else if constexpr (std::is_same_v<Event, rpc_event::Fatal>) {
          return "fatal " + of.exception.class_name + ": " + of.exception.message;
        } else {
          return "garbage";  // it quotes what has come
        }
      },
      event);
}

void check(const std::vector<RpcEvent>& events, std::size_t bytes) {
  std::set<std::int32_t> answered;
  std::size_t size = 0;
  for (const RpcEvent& event : events) {
    const bool ends = std::holds_alternative<rpc_event::Fatal>(event) ||
                      std::holds_alternative<rpc_event::Garbage>(event);
    require(!ends || &event == &events.back());
    if (const auto* response = std::get_if<rpc_event::Response>(&event)) {
      require(answered.insert(response->call_id).second);
      size += response->body.size();
    } else if (const auto* error = std::get_if<rpc_event::Error>(&event)) {
      require(answered.insert(error->call_id).second);
    }
  }
  for (const std::int32_t id : answered) require(id >= 0 && id < kCalls);
  require(size <= bytes);
}

}  // namespace

void rpc_channel(ByteView input) {
  if (input.empty()) return;
  const std::size_t piece = std::to_integer<std::size_t>(input[0]) + 1;
  const ByteView bytes = input.subspan(1);
  const std::vector<RpcEvent> whole = received(bytes, bytes.size());
  check(whole, bytes.size());
  const std::vector<RpcEvent> cut = received(bytes, piece);
  require(std::ranges::equal(whole, cut, {}, text, text));
}

}  // namespace hflush::fuzz
