// What a DataNode did wrong, as a Status whose message continues after the node's name; and other
// words that the write machines share. Pure.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "hflush/base/status.h"
#include "hflush/env/clock.h"
#include "hflush/hdfs/wire/data_transfer.h"
#include "hflush/hdfs/wire/types.h"

namespace hflush::hdfs {

// It answered with an error, or with nonsense;
Status bad_answer(const OperationReply& reply);
Status bad_answer(const PipelineAck& ack, std::string_view context = {});
// or not at all;
Status no_answer(std::string_view what, env::Duration duration);
// or says that it is slow;
Status slow(int acks);
// or its connection is lost.
Status lost(const Status& failure);
// "is lost: connect: Connection refused": the message, and its cause's.
std::string reason(const Status& fault);

// Whether it is this process or machine that has run out of something (descriptors, memory, its own
// ports), where a connection was to be made: no fault of a node.
bool is_own_shortage(const Status& failure) noexcept;
// Why an operation fails by that.
Status no_connection(std::string_view operation, const Status& failure, const std::string& path);

// The place of the node with that address in a pipeline; their number if it is not there.
std::size_t place_of(std::string_view address, std::span<const Replica> pipeline);

// What the NameNode says of a file that is open for writing: one that does not exist was deleted or
// replaced.
Status as_lost_lease(const Status& failure);

std::string seconds(env::Duration duration);  // "12.4 s"

}  // namespace hflush::hdfs
