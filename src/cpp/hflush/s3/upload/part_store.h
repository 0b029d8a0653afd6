// PartStore: the bytes of an upload's parts until the store has them, in memory or on disk.
//
// Bytes come in order, as packets with sums, and belong to the part that their offset falls in.
// Packets are kept as they are, nothing is copied; only one that holds much less than its memory
// could (a flush, the end) is. A part's body can be read any number of times, by any thread, and
// never changes. On disk a part is an unlinked file: nothing is left behind whatever happens.
//
// A part lies in memory if two of its size fit in the budget: one that fills while another is on
// its way. With less a writer could wait for itself (geometry.h: half a window is reserved at a
// time). Larger ones go to disk, or are refused where only memory is
// allowed.
//
// add() is called by one thread at a time and may wait for a disk; everything else of the store may
// be called by any thread beside it, and does not wait. Bodies and tails are independent of the
// store. Reading one that lies on disk waits if the system has dropped its cached copy and has not
// read it again yet: then the loop thread waits, too, and all streams with it. A file is closed on
// the process's executor, or by its last holder if that has no thread free.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "hflush/base/mutex.h"
#include "hflush/base/result.h"
#include "hflush/env/http_client.h"
#include "hflush/s3/upload/part_sizes.h"
#include "hflush/stream/packet.h"

namespace hflush::s3 {

enum class Buffering : std::uint8_t {
  kMemory,    // "bytebuffer", "array"
  kDisk,      // "disk"
  kAdaptive,  // memory, and disk for parts that do not fit in the budget
};

struct PartStoreOptions {
  PartSizes sizes;
  Buffering buffering = Buffering::kAdaptive;
  std::uint64_t memory_bytes = std::uint64_t{32} << 20U;  // the budget of the stream
  std::vector<std::string> directories;                   // for files; none: the system's
  std::size_t chunk_bytes = std::size_t{64} << 10U;       // that a packet's sums are of
  std::size_t packet_bytes = std::size_t{1} << 20U;       // that a packet's memory can hold
  bool sha256 = false;  // of each part, while its bytes come; load_digests() has succeeded
  bool md5 = false;     // likewise
  std::string path;     // of the object, for messages
  // Bytes that came before, and are not kept here; their CRC32C. Requires: whole parts.
  std::uint64_t begin = 0;
  std::uint32_t begin_crc32c = 0;
};

// A part, or all of a small object, ready to be sent. Immutable.
struct PartBody {
  std::shared_ptr<const env::HttpBody> body;
  std::uint64_t size = 0;
  std::uint32_t crc32c = 0;  // of all its bytes
  std::string sha256;        // hex; if asked for
  std::string md5;           // base64; if asked for
};

// The bytes of a part that is not full yet, up to some offset. They stay as they are.
struct PartTail {
  std::uint64_t begin = 0;  // of the part, in the object
  std::uint64_t size = 0;
  std::shared_ptr<const env::HttpBody> bytes;  // may have more by now; none where size is 0
};

class PartStore {
 public:
  explicit PartStore(PartStoreOptions options);
  ~PartStore();
  PartStore(const PartStore&) = delete;
  PartStore& operator=(const PartStore&) = delete;

  // Takes packets that follow on what was taken before; no packet crosses the end of a part. A
  // failure (a file that cannot be written, with errno; a part too large for memory) means that the
  // upload cannot go on.
  Status add(std::span<stream::Packet> packets) HFLUSH_EXCLUDES(mutex_);
  std::uint64_t end() const HFLUSH_EXCLUDES(mutex_);
  // Bytes below it do not lie in memory that the stream counts: 0 where nothing is on disk.
  std::uint64_t stored_end() const HFLUSH_EXCLUDES(mutex_);
  // Of all bytes below end().
  std::uint32_t crc32c() const HFLUSH_EXCLUDES(mutex_);

  // Requires: all bytes of the part are there, or no more will come. Part 1 of nothing is empty.
  Result<PartBody> body(std::uint32_t number) HFLUSH_EXCLUDES(mutex_);
  // What lies below `offset` of the part that has the byte there. kNotFound if that part is full
  // and forgotten by now, or everything is cleared. Requires: offset <= end().
  Result<PartTail> tail(std::uint64_t offset) const HFLUSH_EXCLUDES(mutex_);
  void forget(std::uint32_t number) noexcept HFLUSH_EXCLUDES(mutex_);
  void clear() noexcept HFLUSH_EXCLUDES(mutex_);

 private:
  class Part;
  class MemoryPart;
  class DiskPart;
  using Parts = std::map<std::uint32_t, std::shared_ptr<Part>>;

  Status start_part(std::uint32_t number) HFLUSH_EXCLUDES(mutex_);
  bool fits_in_memory(std::uint32_t number) const noexcept;

  const PartStoreOptions options_;
  const std::uint32_t chunk_power_;  // what extends a sum by a whole chunk

  // The adding thread's. The part is one of parts_, until they are cleared.
  std::weak_ptr<Part> filling_;
  std::uint64_t filling_end_ = 0;

  // Never held across a system call, or while a part's memory is released.
  mutable Mutex mutex_;
  Parts parts_ HFLUSH_GUARDED_BY(mutex_);
  std::uint64_t end_ HFLUSH_GUARDED_BY(mutex_) = 0;
  std::uint32_t crc32c_ HFLUSH_GUARDED_BY(mutex_) = 0;
  bool uses_disk_ HFLUSH_GUARDED_BY(mutex_) = false;
};

}  // namespace hflush::s3
