#include <cerrno>

#include "fuzz/targets.h"
#include "hflush/hdfs/wire/name_node_requests.h"

namespace hflush::fuzz {
namespace {

using namespace hdfs;  // NOLINT(google-build-using-namespace): all of its requests

// A located block can be sent back, and means the same to who gets it.
void check_round_trip(const LocatedBlock& block) {
  const auto again = AddBlock::decode(as_bytes(ReportBadBlocks{{block}}.encode()));
  require(again.ok());
  require(again->block == block.block);
  require(again->offset == block.offset);
  require(again->token == block.token);
  require(again->replicas.size() == block.replicas.size());
  for (std::size_t i = 0; i < block.replicas.size(); ++i) {
    require(again->replicas[i].node.encoded == block.replicas[i].node.encoded);
    require(again->replicas[i].storage_type == block.replicas[i].storage_type);
    require(again->replicas[i].storage_id == block.replicas[i].storage_id);
  }
}

template <Request T>
void decode(ByteView body) {
  const auto result = T::decode(body);
  if (!result.ok()) {
    require(result.status().code() == StatusCode::kIo);
    require(result.status().error_number() == EBADMSG);
    require(result.status().message().starts_with(std::string(T::kMethod) + ": malformed "));
    return;
  }
  if constexpr (std::is_same_v<typename T::Response, LocatedBlock>) check_round_trip(*result);
}

using Decode = void (*)(ByteView);
constexpr Decode kDecoders[] = {
    decode<Create>,
    decode<Append>,
    decode<AddBlock>,
    decode<UpdateBlockForPipeline>,
    decode<Complete>,
    decode<Fsync>,
    decode<GetServerDefaults>,
    decode<GetFileInfo>,
    decode<GetListing>,
    decode<GetBlockLocations>,
    decode<GetContentSummary>,
    decode<GetFsStats>,
    decode<GetEnclosingRoot>,
    decode<GetReplicaVisibleLength>,
    decode<GetAdditionalDatanode>,
    decode<UpdatePipeline>,
    decode<AbandonBlock>,
    decode<RecoverLease>,
    decode<IsFileClosed>,
    decode<RenewLease>,
    decode<GetEZForPath>,
};

}  // namespace

void name_node_response(ByteView input) {
  if (input.empty()) return;
  kDecoders[std::to_integer<std::size_t>(input[0]) % std::size(kDecoders)](input.subspan(1));
}

}  // namespace hflush::fuzz
