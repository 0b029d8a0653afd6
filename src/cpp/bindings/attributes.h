// Attributes of settings and options: plain structs of the core that Python fills. Times are
// seconds there, texts UTF-8.
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "hflush/env/clock.h"
#include "text.h"

namespace hflush::bindings {

// Throws ValueError for a negative number, and for one that is not a time.
inline env::Duration duration_of(double seconds) {
  if (std::isnan(seconds) || seconds < 0) {
    throw pybind11::value_error("a duration of " + std::to_string(seconds) + " seconds");
  }
  const std::chrono::duration<double> duration(seconds);
  if (duration >= env::kNoTimeout) return env::kNoTimeout;
  return std::chrono::round<env::Duration>(duration);
}

inline double seconds_of(env::Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

// `of` is a member of the class that `type` binds, or a function that returns a part of it.
template <typename Type, typename Of>
void attribute(Type& type, const char* name, Of of) {
  // clang 14 wants it.
  using Owner = typename Type::type;  // NOLINT(readability-redundant-typename)
  using Value = std::remove_cvref_t<std::invoke_result_t<Of, Owner&>>;
  if constexpr (std::is_same_v<Value, env::Duration>) {
    type.def_property(
        name, [of](Owner& self) { return seconds_of(std::invoke(of, self)); },
        [of](Owner& self, double seconds) { std::invoke(of, self) = duration_of(seconds); });
  } else if constexpr (std::is_same_v<Value, std::optional<env::Duration>>) {
    type.def_property(
        name,
        [of](Owner& self) -> std::optional<double> {
          const Value& value = std::invoke(of, self);
          return value ? std::optional(seconds_of(*value)) : std::nullopt;
        },
        [of](Owner& self, std::optional<double> seconds) {
          std::invoke(of, self) = seconds ? Value(duration_of(*seconds)) : std::nullopt;
        });
  } else if constexpr (std::is_same_v<Value, std::string>) {
    type.def_property(
        name, [of](Owner& self) { return from_utf8(std::invoke(of, self)); },
        [of](Owner& self, const pybind11::str& text) { std::invoke(of, self) = to_utf8(text); });
  } else {
    type.def_property(
        name, [of](Owner& self) { return std::invoke(of, self); },
        [of](Owner& self, Value value) { std::invoke(of, self) = std::move(value); });
  }
}

template <typename Value>
struct Named {
  std::string_view name;
  Value value;
};

// The value of that name. Throws ValueError for another name, which it calls a `what`.
template <typename Value, std::size_t kCount>
Value value_of(const Named<Value> (&choices)[kCount], const char* what, const std::string& name) {
  const auto found = std::ranges::find(choices, name, &Named<Value>::name);
  if (found == std::end(choices)) {
    throw pybind11::value_error("no such " + std::string(what) + ": '" + name + "'");
  }
  return found->value;
}

// An attribute with a name for each of its values.
template <typename Type, typename Of, typename Value, std::size_t kCount>
void choice(Type& type, const char* name, Of of, const Named<Value> (&choices)[kCount]) {
  // clang 14 wants it.
  using Owner = typename Type::type;  // NOLINT(readability-redundant-typename)
  type.def_property(
      name,
      [of, &choices](Owner& self) {
        return std::ranges::find(choices, std::invoke(of, self), &Named<Value>::value)->name;
      },
      [of, name, &choices](Owner& self, const std::string& text) {
        std::invoke(of, self) = value_of(choices, name, text);
      });
}

}  // namespace hflush::bindings
