#include "hflush/s3/upload/creation.h"

#include <string>

namespace hflush::s3 {

CallResult create_upload(Client& client, const UploadCalls& calls, bool checksums,
                         env::Interrupt& interrupt) {
  const auto create = [&] {
    const bool declares = checksums && !client.does_without(kDeclaredChecksums);
    return client.call_and_wait(calls.create({declares, false}), interrupt);
  };
  CallResult first = create();
  const std::string unechoed = calls.unechoed_upload(first);
  if (unechoed.empty()) return first;
  client.do_without(kDeclaredChecksums);
  CallResult abort = client.call_and_wait(calls.abort(unechoed), interrupt);
  if (abort.status.code() == StatusCode::kInterrupted) return abort;
  if (!UploadCalls::has_ended(abort)) return first;
  CallResult second = create();
  second.ambiguous = second.ambiguous || first.ambiguous;
  return second;
}

}  // namespace hflush::s3
