// Call: one request to the store, and CallResult: its end, after all attempts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hflush/base/status.h"
#include "hflush/env/clock.h"
#include "hflush/env/http_client.h"
#include "hflush/s3/call/attempts.h"
#include "hflush/s3/call/encoding.h"
#include "hflush/s3/call/outcome.h"

namespace hflush::s3 {

struct Call {
  std::string operation;  // S3's name, for messages: "UploadPart"
  std::string method;
  std::string bucket;
  std::string key;  // unencoded; empty: of the bucket
  Query query;
  std::vector<env::HttpHeader> headers;
  std::shared_ptr<const env::HttpBody> body;
  // Hex. Empty: the body is hashed on the caller's thread if it is not an upload, the settings sign
  // payloads or the server refuses it otherwise; else, and with kNever, it is unsigned.
  std::string body_sha256;
  Repeat repeat = Repeat::kFreely;
  Expect expect = Expect::kNothing;
  std::string root;  // Expect::kRoot
  bool fresh_connection = false;
  bool is_awaited = false;  // a download: all of it, by the thread that makes the call
  // There is no way to ask why it was refused: 400 without a document is taken for the end of a
  // session's token, if there is one.
  bool guesses_expiry = false;
  bool is_upload = false;    // counts against max_uploads, and waits for its turn
  bool is_counted = true;    // false: who makes it counts it
  bool urgent = false;       // among uploads: before others (it frees resources)
  std::uint64_t stream = 0;  // uploads take turns by it
  std::optional<env::Duration> stall_timeout;
  std::optional<int> retry_limit;      // fewer than the settings'
  std::optional<env::TimePoint> ends;  // no attempt begins later, none is silent for longer
  std::size_t max_response_bytes = std::size_t{16} << 20U;
};

struct CallResult {
  // Without one: success.
  std::optional<Failure> failure;
  // An earlier attempt may have been executed; with a failure: this one or an earlier.
  bool ambiguous = false;
  Status status;       // the failure, as the caller gets it
  env::HttpHead head;  // of the last attempt, as far as it got
  std::string body;
  int attempts = 0;
  std::optional<env::TimePoint> deadline;  // of the attempts, once one has failed
  std::vector<env::HttpHeader> sent;       // the call's headers, but for those that were left out
};

// "s3://bucket/key", for messages.
std::string path_of(const Call& call);

}  // namespace hflush::s3
