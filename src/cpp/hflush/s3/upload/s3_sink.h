// S3Sink: the sink of an object, the shell around BlockUpload.
//
// put() gives packets to the PartStore on the caller's thread, which may wait for a disk there; the
// loop thread may when it sends a part that lies on one (part_store.h). What the machine then asks
// for is called through the Client, whose answers arrive on the loop thread. Whoever finds nobody
// else at the machine feeds it and does what it asks for; the others leave their event and go (as
// in HdfsSink). The mutex guards the inbox, not the machine, and is never held across a call or an
// event of the stream.
//
// Nothing waits for the network. After abandon() has returned nothing of the stream is touched;
// calls under way are cancelled and the upload is aborted on the loop, which keeps alive what that
// needs. S3Upload is what remains visible of the upload after the stream's end. Where an allocation
// of this class fails the stream fails and everything is dropped, also on the loop thread; the
// layers below promise less there (client.h). In a forked child nothing here does anything.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "hflush/env/interrupt.h"
#include "hflush/s3/call/client.h"
#include "hflush/s3/upload/block_upload.h"
#include "hflush/s3/upload/upload_calls.h"
#include "hflush/stream/sink.h"

namespace hflush::s3 {

// What came of an upload.
struct UploadOutcome {
  UploadState state = UploadState::kWriting;
  std::string upload_id;
  std::string etag;  // kPublished; empty where the store did not say
  std::string version_id;
  std::uint64_t size = 0;
  std::vector<PartReceipt> parts;     // kPending
  std::uint32_t crc32c = 0;           // of all bytes
  bool has_checksums = false;         // the store keeps a CRC32C of each part
  bool full_object_checksum = false;  // and of the whole
  std::string token;                  // x-amz-meta-hflush-token
  std::vector<Status> others;         // failures beside the one that the stream was told of
  Status cleanup;                     // an upload that could not be aborted, and why
  bool cleaned_up = true;             // nothing of the upload is under way
};

class S3Upload {
 public:
  virtual ~S3Upload() = default;
  virtual UploadOutcome outcome() const = 0;  // thread-safe
  // Waits until nothing of the upload is under way. kTimedOut after `timeout`.
  virtual Status wait_cleaned_up(env::Duration timeout, env::Interrupt& interrupt) = 0;
};

// How far a writer may be ahead of what is acknowledged: the memory budget of the stream, at least
// 2 MiB. Where all parts lie in memory it is at least two of them: the one that fills is never
// acknowledged.
std::uint64_t upload_window(const ObjectOptions& options) noexcept;

// The sizes at which an object is cut: packets of 256 KiB with a CRC32C for each 64 KiB, no packet
// across the end of a part. Its window is what a writer may ask for at once, twice: the sink moves
// it up to upload_window(), as the memory budget of the process lets it.
stream::Geometry upload_geometry(const ObjectOptions& options) noexcept;

// Waits until no upload of this process that failed or was abandoned has calls under way. kTimedOut
// after `timeout`.
Status wait_for_cleanups(env::Duration timeout, env::Interrupt& interrupt);

class S3Sink final : public stream::Sink {
 public:
  S3Sink(std::shared_ptr<Client> client, ObjectOptions options);
  ~S3Sink() override;
  S3Sink(const S3Sink&) = delete;
  S3Sink& operator=(const S3Sink&) = delete;

  std::shared_ptr<S3Upload> upload() const;

  stream::SinkTraits traits() const override;
  std::size_t put(stream::Batch batch, std::optional<stream::Level> level,
                  stream::SinkEvents& events) override;
  void finish(stream::SinkEvents& events) override;
  Status abandon() noexcept override;
  void add_statistics(Statistics& statistics) const override;

 private:
  class Core;

  const stream::Geometry geometry_;
  const std::uint32_t generation_;
  std::shared_ptr<Core> core_;
};

}  // namespace hflush::s3
