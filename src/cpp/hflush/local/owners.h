// Names of users and groups, as the system's databases have them.
//
// A number without a name is written in digits, and digits are accepted for a name. Names once
// found are remembered per thread, so that a long listing asks the databases once. Thread-safe.
#pragma once

#include <sys/types.h>

#include <string>

#include "hflush/base/result.h"

namespace hflush::local {

std::string user_name(uid_t user);
std::string group_name(gid_t group);

// kInvalidArgument for an unknown user or group.
Result<uid_t> find_user(const std::string& name);
Result<gid_t> find_group(const std::string& name);

}  // namespace hflush::local
