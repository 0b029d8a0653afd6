// complete(): publishes an upload all of whose parts are there, on the caller's thread: pending
// commits, uploads whose parts came from elsewhere, and copies in parts. The shell round
// Publication.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hflush/base/status.h"
#include "hflush/env/interrupt.h"
#include "hflush/s3/call/client.h"
#include "hflush/s3/upload/publication.h"
#include "hflush/s3/upload/upload_calls.h"

namespace hflush::s3 {

struct Completion {
  std::string upload_id;           // empty: an object without bytes, by PutObject
  std::vector<PartReceipt> parts;  // in ascending order
  Checksums checksums;
  std::uint32_t crc32c = 0;  // of all bytes; with checksums.of_full_object
  Holders holders = Holders::kOne;
};

struct Completed {
  Publication::Step outcome = Publication::Step::kUnknown;  // kPublished, kNotPublished, kUnknown
  std::string etag;                        // kPublished; empty where the store says it nowhere
  Status failure;                          // fine if kPublished
  FailureKind kind = FailureKind::kFinal;  // of the last attempt that failed
};

// `calls`: of the object, with its token and condition. Waits, on any thread but the loop's. An
// interruption ends it: the failure is that of `interrupt`, the outcome unknown.
Completed complete(Client& client, const UploadCalls& calls, const Completion& what,
                   env::Interrupt& interrupt);

}  // namespace hflush::s3
