// The system's libcrypto, loaded once, when it is first needed. Thread-safe.
#pragma once

#include "hflush/base/result.h"
#include "hflush/env/shared_library.h"

namespace hflush::crypto {

// kUnsupported if there is none, with what to install.
const Result<env::SharedLibrary>& libcrypto();

// What libcrypto notes of failures while it lives is taken out of the thread's queue again: TLS of
// another library would take it for its own. Requires: libcrypto() is there.
class OwnErrors {
 public:
  OwnErrors() noexcept;
  ~OwnErrors();
  OwnErrors(const OwnErrors&) = delete;
  OwnErrors& operator=(const OwnErrors&) = delete;
};

}  // namespace hflush::crypto
