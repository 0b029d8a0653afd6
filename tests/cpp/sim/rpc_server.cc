#include "sim/rpc_server.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "hflush/base/endian.h"
#include "hflush/hdfs/wire/wire.h"
#include "sim/request_fields.h"

namespace hflush::sim {
namespace {

namespace wire = hdfs::wire;

constexpr std::string_view kPreamble("hrpc\x09\x00\x00", 7);
constexpr std::int32_t kContext = -3;
constexpr std::int32_t kPing = -4;
constexpr std::size_t kClientIdBytes = 16;

// A message with its length in front, taken from the front of `bytes`.
std::string_view take_delimited(std::string_view& bytes) {
  std::uint64_t size = 0;
  std::size_t at = 0;
  for (unsigned shift = 0; at < bytes.size(); shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes[at++]);
    size |= std::uint64_t{byte & 0x7FU} << shift;
    if (byte < 0x80) break;
  }
  const std::string_view message = bytes.substr(at, size);
  bytes.remove_prefix(std::min(bytes.size(), at + static_cast<std::size_t>(size)));
  return message;
}

std::int32_t unzigzag(std::uint32_t coded) {
  return static_cast<std::int32_t>((coded >> 1U) ^ (~(coded & 1U) + 1));
}

std::string framed(const std::string& body) {
  std::string frame(4, '\0');
  store_be32(reinterpret_cast<std::byte*>(frame.data()), static_cast<std::uint32_t>(body.size()));
  return frame + body;
}

}  // namespace

void RpcConnection::accept(World& world, std::shared_ptr<End> end, std::string server,
                           Serve serve) {
  const std::shared_ptr<RpcConnection> self(
      new RpcConnection(world, std::move(end), std::move(server), std::move(serve)));
  self->end_->on_arrival = [self] { self->arrived(); };
}

void RpcConnection::arrived() {
  const auto self = shared_from_this();
  std::string& inbox = end_->inbox();
  if (!has_preamble_ && inbox.size() >= kPreamble.size()) {
    world_.require(inbox.starts_with(kPreamble), server_, ": not Hadoop's RPC");
    end_->taken(kPreamble.size());
    has_preamble_ = true;
  }
  while (has_preamble_ && inbox.size() >= 4 && !end_->is_closed()) {
    const std::uint32_t size = load_be32(reinterpret_cast<const std::byte*>(inbox.data()));
    if (inbox.size() < 4 + size) break;
    const std::string frame = inbox.substr(4, size);
    end_->taken(4 + size);
    take(frame);
  }
  if (end_->is_at_end()) end_->close();
}

void RpcConnection::take(std::string_view frame) {
  const Fields header = read_fields(as_bytes(take_delimited(frame)), "nnntn");
  const std::int32_t id = unzigzag(static_cast<std::uint32_t>(header.number(3)));
  if (id == kContext || id == kPing) {
    world_.require(has_context_ == (id == kPing), server_, ": a context in the wrong place");
    has_context_ = true;
    return;
  }
  world_.require(has_context_, server_, ": a call before the context");
  RpcCall call;
  call.key = {header.text(4), id};
  world_.require(call.key.first.size() == kClientIdBytes, server_, ": a client id of ",
                 call.key.first.size());
  call.method = read_fields(as_bytes(take_delimited(frame)), "tt").text(1);
  call.request = take_delimited(frame);
  serve_(shared_from_this(), std::move(call));
}

void RpcConnection::answer(const RpcCall& call, const RpcAnswer& answer, Duration later) {
  const auto* const thrown = std::get_if<RpcException>(&answer);
  std::string header;
  {
    wire::Writer writer(header);
    writer.add_uint32(1, static_cast<std::uint32_t>(call.key.second));
    writer.add_enum(2, thrown != nullptr ? 1 : 0);
    if (thrown != nullptr) {
      writer.add_string(4, thrown->class_name);
      writer.add_string(5, thrown->message);
    }
  }
  std::string body = wire::delimited(header);
  if (thrown == nullptr) body += wire::delimited(std::get<std::string>(answer));
  if (later == Duration{}) return end_->send_all(framed(body));
  world_.after(later, [end = end_, frame = framed(body)] { end->send_all(frame); });
}

}  // namespace hflush::sim
