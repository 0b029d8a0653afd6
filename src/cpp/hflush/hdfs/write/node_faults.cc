#include "hflush/hdfs/write/node_faults.h"

#include <algorithm>
#include <array>
#include <cerrno>

namespace hflush::hdfs {

std::string seconds(env::Duration duration) {
  const auto tenths = std::chrono::duration_cast<std::chrono::milliseconds>(duration).count() / 100;
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " s";
}

Status bad_answer(const OperationReply& reply) {
  std::string text = "answered " + std::string(to_string(reply.status));
  if (!reply.first_bad_link.empty()) text += " for " + reply.first_bad_link;
  if (!reply.message.empty()) text += " (" + reply.message + ")";
  return Status(StatusCode::kIo, std::move(text), {}, EIO);
}

Status bad_answer(const PipelineAck& ack, std::string_view context) {
  std::string text = "answered [";
  for (std::size_t i = 0; i < ack.replies.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::string(to_string(ack.replies[i]));
  }
  text += "] to packet " + std::to_string(ack.sequence_number);
  text += context;
  return Status(StatusCode::kIo, std::move(text), {}, EIO);
}

Status no_answer(std::string_view what, env::Duration duration) {
  return Status(StatusCode::kTimedOut, std::string(what) + " for " + seconds(duration), {},
                ETIMEDOUT);
}

Status slow(int acks) {
  return Status(StatusCode::kIo, "is slow, as it said in " + std::to_string(acks) + " acks running",
                {}, EIO);
}

Status lost(const Status& failure) {
  return Status(StatusCode::kIo, "is lost", {}, failure.error_number()).with_cause(failure);
}

std::string reason(const Status& fault) {
  const Status* const cause = fault.cause();
  return cause == nullptr ? fault.message() : fault.message() + ": " + cause->message();
}

bool is_own_shortage(const Status& failure) noexcept {
  constexpr auto kErrors = std::to_array({EMFILE, ENFILE, ENOMEM, ENOBUFS, EADDRNOTAVAIL});
  return std::ranges::find(kErrors, failure.error_number()) != kErrors.end();
}

Status no_connection(std::string_view operation, const Status& failure, const std::string& path) {
  return Status(StatusCode::kIo,
                std::string(operation) +
                    ": no connection can be made, for want of descriptors (ulimit -n), memory or "
                    "ports of this machine: " +
                    failure.message(),
                path, failure.error_number());
}

std::size_t place_of(std::string_view address, std::span<const Replica> pipeline) {
  const auto named = std::ranges::find(
      pipeline, address, [](const Replica& replica) { return replica.node.transfer_address(); });
  return static_cast<std::size_t>(named - pipeline.begin());
}

Status as_lost_lease(const Status& failure) {
  if (failure.code() != StatusCode::kNotFound) return failure;
  return Status(StatusCode::kLeaseLost, failure.message(), failure.path())
      .with_remote_class(failure.remote_class());
}

}  // namespace hflush::hdfs
