// create_upload(): begins an upload on the caller's thread: those of uploaders, copies in parts,
// and trials.
#pragma once

#include "hflush/env/interrupt.h"
#include "hflush/s3/call/client.h"
#include "hflush/s3/upload/upload_calls.h"

namespace hflush::s3 {

// The answer to Create: to another one without checksums where the first does not repeat those that
// it declared, and its upload could be aborted. Waits, on any thread but the loop's. An
// interruption ends it: the failure is that of `interrupt`, and an upload may be left.
CallResult create_upload(Client& client, const UploadCalls& calls, bool checksums,
                         env::Interrupt& interrupt);

}  // namespace hflush::s3
