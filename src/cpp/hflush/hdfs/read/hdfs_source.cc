#include "hflush/hdfs/read/hdfs_source.h"

#include <algorithm>
#include <cerrno>
#include <random>
#include <utility>
#include <variant>

#include "hflush/env/answer.h"
#include "hflush/hdfs/wire/name_node_requests.h"

namespace hflush::hdfs {

Result<std::unique_ptr<HdfsSource>> HdfsSource::open(ReadContext context, const std::string& path,
                                                     bool verify, env::Interrupt& interrupt) {
  std::unique_ptr<HdfsSource> file(new HdfsSource(std::move(context), path, verify));
  HFLUSH_ASSIGN_OR_RETURN(file->locations_, BlockLocations::open(file->context_, path, interrupt));
  return file;
}

HdfsSource::HdfsSource(ReadContext context, std::string path, bool verify)
    : context_(std::move(context)),
      path_(std::move(path)),
      verify_(verify),
      random_(static_cast<std::minstd_rand::result_type>(context_.randomness.next())) {
  const ReadSettings& settings = context_.settings.read;
  options_ = {verify, settings.drop_behind, settings.readahead_bytes};
}

HdfsSource::~HdfsSource() {
  if (origin_.is_parent()) env::leave_to_parent(context_.owner);
}

Result<std::size_t> HdfsSource::read_at(std::uint64_t position, MutableByteView out,
                                        env::Interrupt& interrupt) {
  if (origin_.is_parent()) return forked();
  const std::uint64_t length = locations_->length();
  Call call(interrupt);
  {
    const MutexLock lock(mutex_);
    if (closed_) return closed_failure();
    if (position >= length || out.empty()) return std::size_t{0};
    const stream::ReadStep step = order_.step(position, ahead_.span());
    if (step == stream::ReadStep::kGoOn) call.ahead = std::exchange(ahead_, {});
    call.in_order = step != stream::ReadStep::kRange;
    call.options = options_;
  }
  const std::size_t size = std::min<std::uint64_t>(out.size(), length - position);
  const Status status = read_all({position, out.first(size)}, call);
  {
    const MutexLock lock(mutex_);
    counts_ += call.counts;
    if (status.ok()) order_.succeeded(position + size);
    // What is left in `call` is closed without the lock.
    if (status.ok() && !closed_ && call.ahead.stream != nullptr) std::swap(ahead_, call.ahead);
  }
  if (!status.ok()) return status.with_path(path_);
  return size;
}

Status HdfsSource::read_all(Rest rest, Call& call) {
  while (!rest.out.empty()) {
    HFLUSH_ASSIGN_OR_RETURN(const std::size_t size, read_block(rest, call));
    rest.advance(size);
  }
  return {};
}

Result<std::size_t> HdfsSource::read_block(const Rest& wanted, Call& call) {
  const bool is_open = call.ahead.stream != nullptr;
  BlockLocations::Block block = call.ahead.block;
  if (!is_open) {
    HFLUSH_ASSIGN_OR_RETURN(block, locations_->find(wanted.position, call.interrupt));
  }
  Rest rest = up_to(end_of(*block), wanted);
  ReplicaSearch search = search_at(wanted.position, *block);
  if (is_open) HFLUSH_RETURN_IF_ERROR(read_ahead(rest, search, call));
  const Status status = read_replicas(block, rest, search, call);
  report(*block, search);
  if (!status.ok()) return status;
  return static_cast<std::size_t>(rest.position - wanted.position);
}

HdfsSource::Rest HdfsSource::up_to(std::uint64_t end, const Rest& rest) noexcept {
  return {rest.position,
          rest.out.first(std::min<std::uint64_t>(rest.out.size(), end - rest.position))};
}

ReplicaSearch HdfsSource::search_at(std::uint64_t position, const LocatedBlock& block) {
  ReplicaSearch search(context_.settings.read, "read at " + std::to_string(position));
  const MutexLock lock(mutex_);
  if (unsummed_.contains(block.block.id)) search.expect_no_sums();
  return search;
}

Status HdfsSource::read_ahead(Rest& rest, ReplicaSearch& search, Call& call) {
  Ahead ahead = std::exchange(call.ahead, {});
  Status status = ahead.stream->skip(rest.position - ahead.position(), call.counts, call.interrupt);
  if (status.ok()) status = fill(*ahead.stream, rest, call);
  if (status.ok()) return put_by(std::move(ahead), call);
  if (status.code() == StatusCode::kInterrupted) return status;
  if (status.code() == StatusCode::kChecksum || status.code() == StatusCode::kTimedOut) {
    remember_failure(ahead.stream->node(), status, search, call);
  }
  // Any other failure may be the end of a connection that waited for too long: the DataNode gets
  // another chance.
  return {};
}

Status HdfsSource::read_replicas(BlockLocations::Block& block, Rest& rest, ReplicaSearch& search,
                                 Call& call) {
  while (!rest.out.empty()) {
    DeadNodes dead;
    double random = 0;
    {
      const MutexLock lock(mutex_);
      dead = dead_;
      random = std::uniform_real_distribution<double>(0.0, 1.0)(random_);
    }
    const auto step = search.next(*block, dead, random);
    if (const auto* const give_up = std::get_if<ReplicaSearch::GiveUp>(&step)) {
      return give_up->failure;
    }
    if (const auto* const refetch = std::get_if<ReplicaSearch::Refetch>(&step)) {
      HFLUSH_RETURN_IF_ERROR(locate_anew(*refetch, block, rest, search, call));
      continue;
    }
    const auto& attempt = std::get<ReplicaSearch::Try>(step);
    const std::uint64_t begin = rest.position;
    const Status status = read_replica(block, attempt, rest, call);
    if (status.ok()) continue;
    if (status.code() == StatusCode::kInterrupted) return status;
    // Silence is waited for: it counts whatever came before it.
    const bool went_on = rest.position > begin && status.code() != StatusCode::kTimedOut;
    if (went_on) search.went_on();
    remember_failure(block->replicas[attempt.replica].node, status, search, call);
  }
  if (search.expects_no_sums()) {
    const MutexLock lock(mutex_);
    unsummed_.insert(block->block.id);
  }
  return {};
}

Status HdfsSource::locate_anew(const ReplicaSearch::Refetch& refetch, BlockLocations::Block& block,
                               Rest& rest, const ReplicaSearch& search, Call& call) {
  HFLUSH_RETURN_IF_ERROR(env::pause(refetch.delay, call.interrupt));
  if (refetch.forget_dead_nodes) {
    const MutexLock lock(mutex_);
    dead_.clear();
  }
  auto found = locations_->find_anew(rest.position, call.interrupt);
  if (!found.ok()) return search.without_locations(*block, found.status());
  block = *std::move(found);
  rest = up_to(end_of(*block), rest);
  return {};
}

Status HdfsSource::read_replica(const BlockLocations::Block& block,
                                const ReplicaSearch::Try& attempt, Rest& rest, Call& call) {
  ReadOptions options = call.options;
  options.sums = attempt.sums;
  BlockStream::Range range;
  range.offset = rest.position - block->offset;
  range.length = rest.out.size();
  const std::uint64_t end = end_of(*block);
  if (call.in_order && end > rest.position) {
    range.length = std::max(range.length, end - rest.position);
  }
  HFLUSH_ASSIGN_OR_RETURN(
      auto stream, BlockStream::open(context_, *block, block->replicas[attempt.replica].node, range,
                                     options, call.counts, call.interrupt));
  HFLUSH_RETURN_IF_ERROR(fill(*stream, rest, call));
  return put_by({block, std::move(stream)}, call);
}

Status HdfsSource::fill(BlockStream& stream, Rest& rest, Call& call) {
  const std::uint64_t begin = stream.position();
  const std::size_t size = std::min<std::uint64_t>(rest.out.size(), stream.remaining());
  const Status status = stream.read(rest.out.first(size), call.counts, call.interrupt);
  rest.advance(stream.position() - begin);
  return status;
}

Status HdfsSource::put_by(Ahead ahead, Call& call) {
  if (ahead.stream->remaining() == 0) {
    return BlockStream::finish(std::move(ahead.stream), context_.connections, call.counts,
                               call.interrupt);
  }
  call.ahead = std::move(ahead);
  return {};
}

void HdfsSource::remember_failure(const DatanodeInfo& node, const Status& failure,
                                  ReplicaSearch& search, Call& call) {
  ++call.counts.replica_failures;
  if (failure.code() == StatusCode::kChecksum) ++call.counts.corrupt_replicas;
  if (!search.failed(node, failure)) return;
  const MutexLock lock(mutex_);
  dead_.add(node);
}

void HdfsSource::report(const LocatedBlock& block, const ReplicaSearch& search) {
  LocatedBlock bad = block;
  bad.replicas = search.bad_replicas(block);
  if (bad.replicas.empty()) return;
  // Whether the NameNode takes note makes no difference to this read.
  context_.name_node.start(ReportBadBlocks{{std::move(bad)}}, path_, [](const auto&) {});
}

std::uint64_t HdfsSource::end_of(const LocatedBlock& block) const noexcept {
  return std::min(block.end(), locations_->length());
}

Result<std::uint64_t> HdfsSource::length() const {
  if (origin_.is_parent()) return forked();
  const MutexLock lock(mutex_);
  if (closed_) return closed_failure();
  return locations_->length();
}

void HdfsSource::close() {
  if (origin_.is_parent()) return;
  Ahead closing;
  const MutexLock lock(mutex_);
  closed_ = true;
  std::swap(closing, ahead_);
}

void HdfsSource::unbuffer() {
  if (origin_.is_parent()) return;
  Ahead closing;
  const MutexLock lock(mutex_);
  std::swap(closing, ahead_);
}

void HdfsSource::advise(const Advice& advice) {
  if (origin_.is_parent()) return;
  Ahead closing;
  const MutexLock lock(mutex_);
  if (const auto* const drop_behind = std::get_if<DropBehind>(&advice)) {
    options_.drop_behind = drop_behind->value;
  } else {
    options_.readahead = std::get<Readahead>(advice).bytes;
  }
  std::swap(closing, ahead_);
}

void HdfsSource::add_statistics(Statistics& statistics) const {
  if (origin_.is_parent()) return;
  {
    const MutexLock lock(mutex_);
    statistics["read_block_requests"] += counts_.blocks_requested;
    statistics["read_connections_opened"] += counts_.connections_opened;
    statistics["read_connections_reused"] += counts_.connections_reused;
    statistics["read_bytes_received"] += counts_.bytes_received;
    statistics["read_replica_failures"] += counts_.replica_failures;
    statistics["read_corrupt_replicas"] += counts_.corrupt_replicas;
  }
  statistics["read_location_calls"] += locations_->calls();
}

Status HdfsSource::forked() const {
  return Status(StatusCode::kForked, "the file was opened before a fork, by the parent process",
                path_);
}

Status HdfsSource::closed_failure() const {
  return Status(StatusCode::kClosed, "file is closed", path_, EBADF);
}

}  // namespace hflush::hdfs
