// S3Sink: the sink of an object, in front of UploadShell.
//
// S3Upload (ledger.h) remains visible after the stream's end. In a forked child every function does
// nothing.
#pragma once

#include <cstdint>
#include <memory>

#include "hflush/env/own_process.h"
#include "hflush/s3/call/client.h"
#include "hflush/s3/upload/ledger.h"
#include "hflush/s3/upload/upload_calls.h"
#include "hflush/stream/sink.h"

namespace hflush::s3 {

class UploadShell;

// The sizes at which an object is cut: packets of 256 KiB with a CRC32C for each 64 KiB, no packet
// across the end of a part. Its window is twice what a writer may ask for at once; WriterWindow
// moves it, as far as the memory budgets of the stream and of the process allow.
stream::Geometry upload_geometry(const ObjectOptions& options) noexcept;

class S3Sink final : public stream::Sink {
 public:
  S3Sink(std::shared_ptr<Client> client, ObjectOptions options);
  ~S3Sink() override;
  S3Sink(const S3Sink&) = delete;
  S3Sink& operator=(const S3Sink&) = delete;

  std::shared_ptr<S3Upload> upload() const;
  std::weak_ptr<KeepableUpload> keepable() const;

  stream::SinkTraits traits() const override;
  std::size_t put(stream::Batch batch, std::optional<stream::Level> level,
                  stream::SinkEvents& events) override;
  void finish(stream::SinkEvents& events) override;
  Status abandon() noexcept override;
  void add_statistics(Statistics& statistics) const override;

 private:
  const env::OwnProcess<UploadShell> shell_;  // shared with what is under way on the loop
};

}  // namespace hflush::s3
