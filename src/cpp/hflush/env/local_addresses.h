// The addresses of this machine.
#pragma once

#include <string>

namespace hflush::env {

// Whether an IP address, written as a number, is one of a network interface of this machine. Asks
// the system; false where it does not answer.
bool is_local_address(const std::string& ip);

}  // namespace hflush::env
