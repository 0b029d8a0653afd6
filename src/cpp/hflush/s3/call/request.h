// What is sent for an attempt of a call: the request, signed, and the body's digest.
#pragma once

#include <optional>

#include "hflush/base/status.h"
#include "hflush/env/clock.h"
#include "hflush/env/http_client.h"
#include "hflush/s3/call/addresses.h"
#include "hflush/s3/call/call.h"
#include "hflush/s3/call/outcome.h"
#include "hflush/s3/call/settings.h"
#include "hflush/s3/call/signer.h"

namespace hflush::s3 {

// What an attempt has that the call has not.
struct Attempt {
  Target target;
  SystemTime time;        // the store's, as far as it is known: for the signature
  env::TimePoint begins;  // ours
  bool is_download = false;
  bool by_caller = false;  // begun by the thread that makes the call, which may wait for it: not
                           // one that was let through by another call's end, nor a repetition
  bool asks_first = true;  // a large body is sent when the store consents
  std::optional<SigningKey> key;  // else it is made
};

// Whether its body is worth a question whether it would be taken, where that is asked at all.
bool has_large_body(const Call& call) noexcept;

// The request, with the limits that the settings and the call have for it.
env::HttpRequest make_request(const Settings& settings, const Call& call, const Attempt& attempt,
                              const Credentials& credentials);
// What the response to it is judged by.
Signing signing_of(const Call& call, const Attempt& attempt, const Credentials& credentials);

// Fills Call::body_sha256 if the body is to be hashed now: not if it is uploaded and something else
// protects it, unless the server wants that (`is_wanted`). Fails if it cannot be read.
Status hash_body(const Settings& settings, Call& call, bool is_wanted = false);

}  // namespace hflush::s3
