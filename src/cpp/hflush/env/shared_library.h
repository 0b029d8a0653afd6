// SharedLibrary: a library of the system that is loaded when it is needed, not with this one. It
// stays loaded, because what it has registered with the process stays registered. Immutable.
#pragma once

#include <initializer_list>
#include <string>

#include "hflush/base/result.h"

namespace hflush::env {

class SharedLibrary {
 public:
  // The first of `names` that the system has. kUnsupported: `advice`, and what the loader says.
  static Result<SharedLibrary> open(std::initializer_list<const char*> names, const char* advice);

  const std::string& name() const noexcept { return name_; }

  // Points `function` at the library's; false if it has none of that name.
  template <typename Function>
  bool find(const char* symbol, Function*& function) const noexcept {
    function = reinterpret_cast<Function*>(address_of(symbol));
    return function != nullptr;
  }
  // kUnsupported if the library has none of that name.
  template <typename Function>
  Status bind(const char* symbol, Function*& function) const {
    return find(symbol, function) ? Status() : misses(symbol);
  }

 private:
  SharedLibrary(std::string name, void* handle) : name_(std::move(name)), handle_(handle) {}
  void* address_of(const char* symbol) const noexcept;
  Status misses(const char* symbol) const;

  std::string name_;
  void* handle_;
};

}  // namespace hflush::env
