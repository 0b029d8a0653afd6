#include "hflush/hdfs/read/block_checksums.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <utility>

#include "hflush/env/blocking_socket.h"
#include "hflush/hdfs/read/ask_replicas.h"
#include "hflush/hdfs/read/block_reader.h"
#include "hflush/hdfs/read/stored_checksum.h"

namespace hflush::hdfs {
namespace {

constexpr std::size_t kMaxReplySize = std::size_t{64} << 10U;
constexpr std::size_t kMd5Size = 16;
// A DataNode reads all the sums of the block before it answers.
constexpr env::Duration kTimePerReplica = std::chrono::seconds(3);

Result<OperationReply> receive_reply(env::BlockingSocket& socket, env::Duration timeout,
                                     env::Interrupt& interrupt) {
  std::array<std::byte, kMaxReplySize> buffer;
  std::size_t filled = 0;
  while (true) {
    const ByteView received = ByteView(buffer).first(filled);
    HFLUSH_ASSIGN_OR_RETURN(const std::size_t size, delimited_size(received, kMaxReplySize));
    if (size > 0) return decode_operation_reply(received.first(size));
    HFLUSH_ASSIGN_OR_RETURN(
        const std::size_t more,
        socket.receive_some(MutableByteView(buffer).subspan(filled), timeout, interrupt));
    if (more == 0) {
      return Status(StatusCode::kIo, socket.endpoint().to_string() + " closed the connection", {},
                    ECONNRESET);
    }
    filled += more;
  }
}

Result<BlockChecksumAnswer> ask_datanode(const Question& question, const LocatedBlock& block,
                                         const DatanodeInfo& node, BlockChecksumType type) {
  const ReadSettings& settings = question.context.settings.read;
  const auto replicas = static_cast<env::Duration::rep>(block.replicas.size());
  const env::Duration timeout = settings.socket_timeout + kTimePerReplica * replicas;
  HFLUSH_ASSIGN_OR_RETURN(
      env::BlockingSocket socket,
      question.context.connector.connect(node.transfer_endpoint(settings.use_datanode_hostname),
                                         settings.socket_timeout, question.interrupt));
  const std::string operation = BlockChecksumOperation{block.block, block.token, type}.encode();
  const std::array<ByteView, 1> pieces = {as_bytes(operation)};
  HFLUSH_RETURN_IF_ERROR(socket.send_all(pieces, timeout, question.interrupt));
  HFLUSH_ASSIGN_OR_RETURN(OperationReply reply, receive_reply(socket, timeout, question.interrupt));
  if (reply.status != TransferStatus::kSuccess) return refusal(reply);
  const std::size_t due = type == BlockChecksumType::kMd5Crc ? kMd5Size : crc::kSumSize;
  if (!reply.block_checksum || reply.block_checksum->checksum.size() != due) {
    return Status(StatusCode::kIo,
                  "answered without a checksum of " + std::to_string(due) + " bytes", {}, EBADMSG);
  }
  return *std::move(reply.block_checksum);
}

// Of the first block.block.length bytes.
Result<BlockChecksum> checksum_of(Question& question, const LocatedBlock& block,
                                  BlockChecksumType type) {
  HFLUSH_ASSIGN_OR_RETURN(
      BlockChecksumAnswer answer,
      ask_replicas<BlockChecksumAnswer>(
          question, block, [&](const LocatedBlock& at, const DatanodeInfo& node, Sums) {
            return ask_datanode(question, at, node, type);
          }));
  BlockChecksum checksum{block.block.length, answer.bytes_per_crc, answer.crcs_per_block,
                         std::move(answer.checksum), answer.kind.value_or(crc::Kind::kNone)};
  if (!answer.kind) {  // a DataNode older than that field
    HFLUSH_ASSIGN_OR_RETURN(
        const ChecksumParameters stored,
        stored_checksum(question.context, question.path, block, question.interrupt));
    checksum.kind = stored.kind;
  }
  return checksum;
}

}  // namespace

Result<std::vector<BlockChecksum>> block_checksums(const ReadContext& context,
                                                   const std::string& path, std::uint64_t length,
                                                   BlockChecksumType type,
                                                   env::Interrupt& interrupt) {
  HFLUSH_ASSIGN_OR_RETURN(const LocatedBlocks located,
                          locate(context.name_node, path, 0, length, interrupt));
  if (located.under_construction) {
    return Status(StatusCode::kIo, "checksum: the file is being written", path, EBUSY);
  }
  Question question{context, path, "checksum", interrupt};
  std::uint64_t size = located.file_length;
  // A file may be closed before a DataNode has reported its last block.
  if (located.last_block && !located.last_block_complete) size += located.last_block->block.length;
  std::uint64_t left = std::min(length, size);
  std::vector<BlockChecksum> checksums;
  for (LocatedBlock block : located.blocks) {
    if (left == 0) break;
    block.block.length = std::min(block.block.length, left);
    HFLUSH_ASSIGN_OR_RETURN(BlockChecksum checksum, checksum_of(question, block, type));
    checksums.push_back(std::move(checksum));
    left -= block.block.length;
  }
  if (left == 0) return checksums;
  return Status(StatusCode::kIo,
                "checksum: of a file of " + std::to_string(size) + " bytes " +
                    std::to_string(left) + " are in no block",
                path, EIO);
}

}  // namespace hflush::hdfs
