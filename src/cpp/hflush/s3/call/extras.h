// Extras: what a request carries beyond what it needs. Some stores refuse it: they are asked
// without it then, and from the first time on that this helps, if the refusal was the store's own:
// it has a code of S3's, or is a 501.
//
//   a refusal of                                             leaves out
//   501, NotImplemented and its kin                          the extras that its message names,
//   else all 400 that names an extra, not for what it holds           that extra 400 without a
//   reason, or for an argument that it does    all; not of a Complete, which it may be not name
//   about SignatureDoesNotMatch                                    checksums: a proxy may have
//   taken them off
//
// The right to send a body that is not part of the signature is one, too: who refuses that by name
// gets it hashed. Checksums of parts and of a Complete are none: the store has said that it knows
// them. AWS's own servers know all; a policy may refuse unsigned bodies. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "hflush/s3/call/call.h"
#include "hflush/s3/call/outcome.h"
#include "hflush/s3/call/settings.h"

namespace hflush::s3 {

// A set of bits.
using Extras = std::uint8_t;
inline constexpr Extras kNoExtras = 0;
inline constexpr Extras kSentChecksums = 1;     // of what is sent; not if the settings insist
inline constexpr Extras kAskedChecksums = 2;    // of what is received
inline constexpr Extras kObjectSize = 4;        // Complete says how much it is
inline constexpr Extras kEncodedKeys = 8;       // of listings
inline constexpr Extras kConditionOfRead = 16;  // If-Match, which the answer's ETag tells, too
// If-Match of a copy: a move looks whether its source has changed before it removes that.
inline constexpr Extras kConditionOfCopy = 64;
// The right to send a body that the signature does not protect; its refusal names it.
inline constexpr Extras kUnsignedBody = 32;
// Checksums that Create declares, and its answer has to repeat. A store that does not may note them
// all the same, and then refuses parts without: found out by who begins an upload, who also leaves
// them out (upload_calls.h).
inline constexpr Extras kDeclaredChecksums = 128;

// Those that a call has, apart from kUnsignedBody and kDeclaredChecksums.
Extras extras_of(const Call& call, const Settings& settings);
// Takes them off; a body is hashed elsewhere (request.h).
void leave_out(Extras extras, Call& call);
// Those without which it is to be tried again.
Extras refused_extras(const Failure& failure, const Call& call, const Settings& settings);
// What may be done about such a failure: which keys send what it may be about; empty: none, or it
// is about something else.
std::string advice(const Failure& failure, const Call& call);

}  // namespace hflush::s3
