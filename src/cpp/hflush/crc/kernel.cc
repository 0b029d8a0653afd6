#include "hflush/crc/kernel.h"

#include <algorithm>

namespace hflush::crc {
namespace {

constexpr const Kernel* kKernels[] = {
#if defined(__x86_64__)
    &kAvx512AheadKernel, &kAvx512RunsKernel, &kAvx512Kernel, &kAvx2Kernel, &kSse42Kernel,
#elif defined(__aarch64__) && defined(__linux__)
    &kArmv8Kernel,
#endif
    &kPortableKernel,
};

}  // namespace

std::span<const Kernel* const> all_kernels() noexcept { return kKernels; }

const Kernel& active_kernel() noexcept {
  static const Kernel& active =
      **std::ranges::find_if(kKernels, [](const Kernel* kernel) { return kernel->usable(); });
  return active;
}

const Kernel* find_kernel(std::string_view name) noexcept {
  const auto* const found = std::ranges::find(kKernels, name, &Kernel::name);
  return found != std::end(kKernels) && (*found)->usable() ? *found : nullptr;
}

}  // namespace hflush::crc
