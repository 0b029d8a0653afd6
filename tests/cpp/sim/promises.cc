#include "sim/promises.h"

#include <algorithm>
#include <string>

namespace hflush::sim {
namespace {

// How much of [0, total) lies in [start, end), from start on. A write that failed may have begun
// a block behind all that was accepted.
std::uint64_t share(std::uint64_t total, std::uint64_t start, std::uint64_t end) {
  return std::min(std::max(total, start), std::max(end, start)) - start;
}

// When an hsync that covers so much of the file was called for the first time.
TimePoint hsync_of(const Journal& journal, std::uint64_t end) {
  const auto first = std::ranges::find_if(
      journal.hsyncs, [end](const Journal::Hsync& hsync) { return hsync.covered >= end; });
  return first == journal.hsyncs.end() ? TimePoint::max() : first->began;
}

bool is_open(const NameSpace::Block& block) {
  return block.state == NameSpace::Block::State::kBeingWritten ||
         block.state == NameSpace::Block::State::kUnderRecovery;
}

}  // namespace

const NameSpace::File* Promises::file_of(const Journal& journal) {
  const NameSpace::File* const file = space_.find(journal.path);
  world_.require(file != nullptr, journal.path, " is not in the name space");
  return file;
}

void Promises::check_kept(const Journal& journal) {
  const NameSpace::File* const file = file_of(journal);
  if (file == nullptr) return;
  std::uint64_t start = 0;
  for (const Block& block : file->blocks) {
    const bool is_last = &block == &file->blocks.back();
    const std::uint64_t end = is_last && is_open(block)
                                  ? std::max(journal.written, start + block.length)
                                  : start + block.length;
    check_block(*file, journal, block, start, end);
    start = end;
  }
  // What a machine has not synced goes with its power.
  const std::uint64_t promised = file->left_of(
      faults_.any_power_cut() ? journal.durable : journal.acknowledged, journal.session);
  world_.require(start >= promised, journal.path, ": ", promised,
                 " bytes are promised, the blocks have ", start);
}

void Promises::check_survival(const Journal& journal) {
  if (space_.find(journal.path) != nullptr) check_kept(journal);
}

void Promises::check_block(const NameSpace::File& file, const Journal& journal, const Block& block,
                           std::uint64_t start, std::uint64_t end) {
  // What no machine had synced may be gone with its block, or from its end: a later stream writes
  // in its place.
  const bool is_replaced =
      faults_.any_power_cut() && (file.has_lost_block || file.sessions != journal.session);
  const std::uint64_t acknowledged =
      share(file.left_of(is_replaced ? journal.durable : journal.acknowledged, journal.session),
            start, end);
  const bool is_its_own = end > journal.begin;  // else an earlier stream's
  const std::uint64_t durable =
      is_its_own ? share(file.left_of(journal.durable, journal.session), start, end) : 0;
  if (acknowledged == 0) return;
  std::size_t holders = 0;
  std::size_t synced = 0;
  std::size_t gone = 0;
  std::size_t excused = 0;
  for (const DataNode* const node : block.pipeline) {
    const StoredReplica* const replica = node->replica(block.id);
    if (block.is_gone(node)) {
      ++gone;
      continue;
    }
    const bool holds = replica != nullptr && replica->bytes.size() >= acknowledged &&
                       replica->acknowledged >= acknowledged;
    const bool is_cut = replica != nullptr && replica->has_lost_chunk;
    if (node->has_lost_power() || is_cut) ++excused;
    if (holds) ++holders;
    const bool is_excused = is_cut || is_for_servers(journal, block, node, start, durable);
    const bool is_synced = is_excused || (replica != nullptr && replica->synced >= durable);
    if (is_synced) ++synced;
    // A good DataNode that is reached refuses no hsync of what it has, listed or not. The
    // connections of a client that dies are reset some time before it is heard of for the last
    // time.
    const bool is_reached =
        faults_.partition(journal.host) == Duration{} && !faults_.is_dead(journal.host);
    const bool may_lack = durable == 0 || is_open(block) || !faults_.is_good(*node) || !is_reached;
    world_.require(is_synced || may_lack, node->info().host, " has not synced ", durable,
                   " bytes of ", block.id,
                   block.moved.contains(node) ? ", which a balancer had moved there" : "");
    // A recovery syncs what it has copied to a node before the pipeline is registered with it; one
    // that ends the block (PIPELINE_CLOSE_RECOVERY) has no packet for that.
    const bool is_streaming = block.state == Block::State::kBeingWritten && replica != nullptr &&
                              replica->stamp == block.stamp &&
                              replica->state == StoredReplica::State::kBeingWritten;
    world_.require(is_synced || !is_streaming || !faults_.is_good(*node), node->info().host,
                   " is in the pipeline of ", block.id, " and has not synced ", durable, " bytes");
    world_.require(holds || !node->is_up() || node->has_lost_power() || is_cut, node->info().host,
                   " has not ", acknowledged, " acknowledged bytes of ", block.id);
  }
  world_.require(holders + excused > 0, "no node has ", acknowledged, " acknowledged bytes of ",
                 block.id);
  // Replicas that are to be deleted count as well, as long as they are there.
  const bool is_on_another = std::ranges::any_of(block.reported, [&](const DataNode* node) {
    const StoredReplica* const replica = node->replica(block.id);
    return std::ranges::count(block.pipeline, node) == 0 && replica != nullptr &&
           replica->synced >= durable;
  });
  const bool is_on_all = synced > 0 && synced + gone == block.pipeline.size();
  const bool is_on_some = faults_.any() && (synced > 0 || is_on_another);
  world_.require(durable == 0 || is_on_all || is_on_some, "only ", synced, " of ",
                 block.pipeline.size(), " nodes have synced ", durable, " bytes of ", block.id);
}

bool Promises::is_for_servers(const Journal& journal, const Block& block, const DataNode* node,
                              std::uint64_t start, std::uint64_t durable) const {
  const auto moved = block.moved.find(node);
  if (moved == block.moved.end()) return false;
  return moved->second.synced_elsewhere >= durable ||
         (block.deleted_synced >= durable && !faults_.is_good(*node)) ||
         moved->second.listed >= hsync_of(journal, start + durable);
}

void Promises::check_published(const Journal& journal) {
  const NameSpace::File* const file = file_of(journal);
  if (file == nullptr) return;
  // Another writer may have gone on.
  if (file->sessions != journal.session) return check_survival(journal);
  world_.require(file->holder.empty(), journal.path, " is not closed");
  world_.require(file->length() == journal.written, journal.path, ": ", file->length(),
                 " bytes are published of ", journal.written);
  std::uint64_t start = 0;
  for (const Block& block : file->blocks) {
    world_.require(block.length > 0, journal.path, " has an empty block");
    const bool may_be_short =
        start < journal.begin || journal.ends_blocks;  // of an earlier writer, or of a recovery
    world_.require(may_be_short || start + block.length == journal.written ||
                       block.length == journal.block_size,
                   journal.path, " has a short block in its middle");
    check_readable(journal, block, start);
    start += block.length;
  }
}

// Some node has all of it, finalized; or about to be, if it was opened again for an hsync and a
// fault came in between (hdfs/write/finished_blocks.h).
void Promises::check_readable(const Journal& journal, const Block& block, std::uint64_t start) {
  const std::string wanted = texts_.at(journal.file, start, block.length);
  bool is_excused = false;
  const bool is_there = std::ranges::any_of(block.reported, [&](const DataNode* node) {
    const StoredReplica* const replica = node->replica(block.id);
    is_excused = is_excused || node->has_lost_power();
    return replica != nullptr && replica->stamp == block.stamp && replica->bytes == wanted &&
           (replica->state == StoredReplica::State::kFinalized || faults_.any());
  });
  world_.require(is_there || is_excused, "no replica of ", block.id, " is as it was published");
}

std::uint64_t Promises::visible_length(const std::vector<std::unique_ptr<Journal>>& journals,
                                       const std::string& path) const {
  const NameSpace::File* const file = space_.find(path);
  if (file == nullptr || faults_.any_power_cut()) return 0;
  std::uint64_t length = 0;
  for (const auto& journal : journals) {
    if (journal->path != path) continue;
    length = std::max(length, file->left_of(journal->acknowledged, journal->session));
  }
  // A reader may be shown the length of a replica that has lost a chunk, and read from it.
  for (const Block& block : file->blocks) {
    const auto cut = faults_.cut(block.id);
    if (cut) length = std::min(length, file->start_of(block.id) + *cut);
  }
  return length;
}

void Promises::look(const std::vector<std::unique_ptr<Journal>>& journals) {
  for (const auto& [path, file] : space_.files()) {
    for (const Block& block : file.blocks) {
      std::uint64_t& stamp = stamps_[block.id];
      world_.require(block.stamp >= stamp, "the stamp of ", block.id, " falls from ", stamp, " to ",
                     block.stamp);
      stamp = block.stamp;
      if (block.state != Block::State::kBeingWritten) continue;
      for (const DataNode* const node : block.pipeline) {
        const StoredReplica* const replica = node->replica(block.id);
        if (block.length == 0 || !node->is_up() || node->has_lost_power()) continue;
        if (block.is_gone(node)) continue;
        const bool is_cut = replica != nullptr && replica->has_lost_chunk;
        world_.require(is_cut || (replica != nullptr && replica->acknowledged >= block.length),
                       "nn: ", block.length, " bytes of ", block.id, " are recorded, ",
                       node->info().host, " has not acknowledged them");
      }
    }
  }
  for (const auto& journal : journals) {
    if (journal->end == Journal::End::kOpen && journal->acknowledged > 0) check_kept(*journal);
  }
}

void Promises::check_rest() {
  for (const auto& [path, file] : space_.files()) {
    // A replica that was opened again for an hsync may stay open after a fault of its node.
    const bool is_stuck = std::ranges::any_of(file.blocks, [this](const Block& block) {
      return block.state != Block::State::kComplete &&
             std::ranges::any_of(block.pipeline,
                                 [this](const DataNode* node) { return !faults_.is_good(*node); });
    });
    world_.require(file.holder.empty() || is_stuck, path, " is open for ever, by ", file.holder);
    for (const Block& block : file.blocks) {
      world_.require(!file.holder.empty() || block.length > 0, path, " is closed with an empty ",
                     block.id);
    }
  }
  world_.require(space_.leases_are_held(), "nn: a lease of no file is left");
}

void Promises::remember_unsynced(const std::vector<std::unique_ptr<Journal>>& journals) {
  for (const auto& journal : journals) {
    const NameSpace::File* const file = space_.find(journal->path);
    if (file == nullptr || file->blocks.empty()) continue;
    std::uint64_t begin = 0;
    for (const Block& block : file->blocks) {
      const std::uint64_t durable = share(journal->durable, begin, begin + block.length);
      const bool is_synced = std::ranges::any_of(block.listed(), [&](const DataNode* node) {
        const StoredReplica* const replica = node->replica(block.id);
        return replica != nullptr && replica->synced >= durable;
      });
      const bool is_moved = std::ranges::any_of(block.pipeline, [&](const DataNode* node) {
        return is_for_servers(*journal, block, node, begin, durable);
      });
      if (!is_synced && is_moved) moved_unsynced_.insert(block.id);
      begin += block.length;
    }
    if (journal->end == Journal::End::kPublished) continue;
    const Block& last = file->blocks.back();
    if (!is_open(last)) continue;
    const std::uint64_t start = file->start_of(last.id);
    const std::uint64_t durable =
        journal->durable > journal->begin ? share(journal->durable, start, journal->written) : 0;
    const bool is_on_all = std::ranges::all_of(last.pipeline, [&](const DataNode* node) {
      const StoredReplica* const replica = node->replica(last.id);
      return replica != nullptr && replica->synced >= durable;
    });
    if (!is_on_all) unsynced_.insert(last.id);
  }
}

void Promises::check_durable(const Journal& journal) {
  const NameSpace::File* const file = file_of(journal);
  if (file == nullptr) return;
  std::uint64_t start = 0;
  for (const Block& block : file->blocks) {
    const std::uint64_t end = start + block.length;
    const bool is_its_own = end > journal.begin;
    const std::uint64_t durable =
        is_its_own ? share(file->left_of(journal.durable, journal.session), start, end) : 0;
    const std::string wanted = texts_.at(journal.file, start, durable);
    // Of two copies the one that replaced a replica may be on a DataNode that has died since, and
    // hsync has synced the other.
    const bool is_there = std::ranges::any_of(block.listed(), [&](const DataNode* node) {
      const StoredReplica* const replica = node->replica(block.id);
      return replica != nullptr && replica->stamp >= block.stamp &&
             replica->bytes.size() >= durable && replica->bytes.starts_with(wanted);
    });
    const bool is_excused = unsynced_.contains(block.id) || moved_unsynced_.contains(block.id);
    world_.require(durable == 0 || is_there || is_excused, "the ", durable, " durable bytes of ",
                   block.id, " are lost with the power");
    start += block.length;
    if (unsynced_.contains(block.id)) return;
  }
  const bool is_over = file->holder.empty() && file->sessions == journal.session;
  const std::uint64_t promised = file->left_of(journal.durable, journal.session);
  world_.require(start >= promised || !is_over, journal.path, ": ", promised, " durable bytes, ",
                 start, " are left after a power cut");
}

}  // namespace hflush::sim
