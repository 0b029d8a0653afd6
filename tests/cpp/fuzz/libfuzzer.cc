// The entry point of one fuzzer, of the target HFLUSH_FUZZ_TARGET.
#include <cstddef>
#include <cstdint>
#include <span>

#include "fuzz/targets.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  hflush::fuzz::HFLUSH_FUZZ_TARGET(std::as_bytes(std::span(data, size)));
  return 0;
}
