#include "hflush/hdfs/read/replica_search.h"

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <utility>

namespace hflush::hdfs {

env::Duration pause_after_round(int round, env::Duration window, double random) noexcept {
  const double windows = round + (round + 1) * random;
  return std::chrono::duration_cast<env::Duration>(window * windows);
}

ReplicaSearch::Step ReplicaSearch::next(const LocatedBlock& block, const DeadNodes& dead,
                                        double random) {
  if (std::exchange(stamp_, block.block.generation_stamp) != block.block.generation_stamp) {
    tried_.clear();
  }
  if (anew_ != Anew::kDue) {
    if (const auto replica = untried(block, dead)) return Try{*replica, sums_};
  }
  if (anew_ != Anew::kDone) {
    anew_ = Anew::kDone;
    return Refetch{env::Duration::zero(), false};
  }
  if (sums_ == Sums::kRequired && all_are(block, &ReplicaSearch::is_without_sums)) {
    sums_ = Sums::kOptional;
    tried_.clear();
    return next(block, dead, random);
  }
  if (all_are(block, &ReplicaSearch::is_hopeless) || rounds_ >= max_rounds_) {
    return GiveUp{summary(block)};
  }
  tried_.clear();
  return Refetch{pause_after_round(rounds_++, window_, random), true};
}

std::optional<std::size_t> ReplicaSearch::untried(const LocatedBlock& block,
                                                  const DeadNodes& dead) const {
  for (const bool take_dead : {false, true}) {
    for (std::size_t i = 0; i < block.replicas.size(); ++i) {
      const Replica& replica = block.replicas[i];
      if (tried_.contains(DeadNodes::name(replica.node)) || is_hopeless(replica)) continue;
      if (take_dead || !dead.contains(replica.node)) return i;
    }
  }
  return std::nullopt;
}

bool ReplicaSearch::all_are(const LocatedBlock& block,
                            bool (ReplicaSearch::*like)(const Replica& replica) const) const {
  return !block.replicas.empty() &&
         std::ranges::all_of(block.replicas,
                             [&](const Replica& replica) { return (this->*like)(replica); });
}

bool ReplicaSearch::failed(const DatanodeInfo& node, const Status& failure) {
  std::string name = DeadNodes::name(node);
  const auto known =
      std::ranges::find_if(failures_, [&](const Failure& one) { return one.name == name; });
  if (known == failures_.end()) {
    failures_.push_back({name, node.transfer_address(), failure});
  } else if (known->status.code() != StatusCode::kChecksum) {
    known->status = failure;
  }
  if (failure.code() == StatusCode::kPermissionDenied && anew_ == Anew::kNotYet) {
    anew_ = Anew::kDue;
    return false;
  }
  if (hdfs::is_without_sums(failure)) unsummed_.insert(name);
  tried_.insert(std::move(name));
  return true;
}

std::string_view ReplicaSearch::state() const noexcept {
  if (anew_ != Anew::kDone) return "known";
  return rounds_ < max_rounds_ ? "asked anew" : "last round";
}

Status ReplicaSearch::without_locations(const LocatedBlock& block, const Status& why) const {
  const bool is_final =
      why.code() != StatusCode::kInterrupted && all_are(block, &ReplicaSearch::is_hopeless);
  return is_final ? summary(block) : why;
}

std::vector<Replica> ReplicaSearch::bad_replicas(const LocatedBlock& block) const {
  std::vector<Replica> bad;
  std::ranges::copy_if(block.replicas, std::back_inserter(bad),
                       [this](const Replica& replica) { return is_corrupt(replica); });
  const bool all_of_several = bad.size() == block.replicas.size() && bad.size() > 1;
  return all_of_several ? std::vector<Replica>() : bad;
}

bool ReplicaSearch::is_corrupt(const Replica& replica) const {
  const std::string name = DeadNodes::name(replica.node);
  return std::ranges::any_of(failures_, [&](const Failure& failure) {
    return failure.name == name && failure.status.code() == StatusCode::kChecksum;
  });
}

bool ReplicaSearch::is_without_sums(const Replica& replica) const {
  return unsummed_.contains(DeadNodes::name(replica.node));
}

// No pause will mend it.
bool ReplicaSearch::is_hopeless(const Replica& replica) const {
  return is_corrupt(replica) || (sums_ == Sums::kRequired && is_without_sums(replica));
}

// All that failed, in one message. What the failures have in common is what the whole is.
Status ReplicaSearch::summary(const LocatedBlock& block) const {
  std::string message = operation_ + ": " + block.block.to_string() + " ";
  if (failures_.empty()) {
    message += "has no replica on any DataNode, asked " + std::to_string(rounds_ + 2) + " times";
    return Status(StatusCode::kIo, std::move(message), {}, EIO);
  }
  message += "has " + std::to_string(block.replicas.size()) +
             (block.replicas.size() == 1 ? " replica" : " replicas") + ", none could be read, in " +
             std::to_string(rounds_ + 1) + (rounds_ == 0 ? " round" : " rounds");
  const Status& first = failures_.front().status;
  bool alike = true;
  char separator = ':';
  for (const Failure& failure : failures_) {
    message += separator + (" " + failure.address) + ": " + failure.status.message();
    separator = ';';
    alike = alike && failure.status.code() == first.code() &&
            failure.status.error_number() == first.error_number();
  }
  if (!unsummed_.empty()) message += "; it is read unverified only if every replica is like that";
  if (!alike) return Status(StatusCode::kIo, std::move(message), {}, EIO);
  Status common(first.code(), std::move(message), {}, first.error_number());
  const ChecksumMismatch* const mismatch = first.checksum_mismatch();
  if (mismatch == nullptr) return common;
  return common.with_mismatch(
      {block.offset + mismatch->position, mismatch->expected, mismatch->actual});
}

}  // namespace hflush::hdfs
