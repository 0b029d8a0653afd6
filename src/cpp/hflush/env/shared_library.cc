#include "hflush/env/shared_library.h"

#include <dlfcn.h>

#include <utility>

namespace hflush::env {

Result<SharedLibrary> SharedLibrary::open(std::initializer_list<const char*> names,
                                          const char* advice) {
  std::string why;
  for (const char* name : names) {
    if (void* handle = ::dlopen(name, RTLD_NOW | RTLD_LOCAL)) return SharedLibrary(name, handle);
    const char* said = ::dlerror();
    if (!why.empty()) why += "; ";
    why += said != nullptr ? said : name;
  }
  return Status(StatusCode::kUnsupported, std::string(advice) + ": " + why);
}

void* SharedLibrary::address_of(const char* symbol) const noexcept {
  return ::dlsym(handle_, symbol);
}

Status SharedLibrary::misses(const char* symbol) const {
  return {StatusCode::kUnsupported, name_ + " has no " + symbol};
}

}  // namespace hflush::env
