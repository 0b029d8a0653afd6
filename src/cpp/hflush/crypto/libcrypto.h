// The system's libcrypto, loaded once, when it is first needed. Thread-safe.
#pragma once

#include "hflush/base/result.h"
#include "hflush/env/shared_library.h"

namespace hflush::crypto {

// kUnsupported if there is none, with what to install.
const Result<env::SharedLibrary>& libcrypto();

}  // namespace hflush::crypto
