// Result<T>: a T, or the Status that says why there is none. Never both, never a fine Status.
#pragma once

#include <optional>
#include <utility>

#include "hflush/base/check.h"
#include "hflush/base/status.h"

namespace hflush {

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}           // NOLINT(google-explicit-constructor)
  Result(Status failure) : status_(std::move(failure)) {  // NOLINT(google-explicit-constructor)
    if (status_.ok()) status_ = Status(StatusCode::kInternal, "a result without value or failure");
  }

  bool ok() const noexcept { return value_.has_value(); }
  const Status& status() const noexcept { return status_; }

  // Requires: ok().
  T& operator*() & noexcept { return *checked(); }
  const T& operator*() const& noexcept { return *checked(); }
  T&& operator*() && noexcept { return *std::move(checked()); }
  T* operator->() noexcept { return &*checked(); }
  const T* operator->() const noexcept { return &*checked(); }

 private:
  std::optional<T>& checked() noexcept {
    HFLUSH_DCHECK(ok());
    return value_;
  }
  const std::optional<T>& checked() const noexcept {
    HFLUSH_DCHECK(ok());
    return value_;
  }

  std::optional<T> value_;
  Status status_;
};

}  // namespace hflush

// HFLUSH_ASSIGN_OR_RETURN(auto file, open(path)); returns the Status of a failure.
#define HFLUSH_ASSIGN_OR_RETURN(declaration, expression)       \
  auto HFLUSH_CONCAT(hflush_result_, __LINE__) = (expression); \
  if (!HFLUSH_CONCAT(hflush_result_, __LINE__).ok()) {         \
    return HFLUSH_CONCAT(hflush_result_, __LINE__).status();   \
  }                                                            \
  declaration = *std::move(HFLUSH_CONCAT(hflush_result_, __LINE__))
