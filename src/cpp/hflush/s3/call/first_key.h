// The question whether any key begins with a prefix: what most new objects need to be asked. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "hflush/env/http_client.h"
#include "hflush/s3/call/call.h"

namespace hflush::s3 {

// ListObjectsV2 of one key.
Call first_key_call(std::string bucket, std::string prefix, std::vector<env::HttpHeader> headers);

// What its answer says; nullopt if that takes a closer look: it failed, is no such page, or others
// follow an empty one.
std::optional<bool> has_first_key(const CallResult& answer);

}  // namespace hflush::s3
