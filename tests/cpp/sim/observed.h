// How an observer stands in front of an event of a machine, without the product's knowledge:
//
//   HFLUSH_EVENT(Class, event, Return, Class* machine, parameters of the event) {
//     … return observed_Class_event(machine, arguments) …
//   }
//
// What other files of the product call as Class::event is this function: the linker sees to it
// (ld's --wrap), and wraps.cmake finds the names by which it knows the events. To the processor a
// pointer to the machine before the other parameters is the same. Outside unnamed namespaces.
#pragma once

#include <type_traits>

#include "sim/wrapped_symbols.h"

namespace hflush::sim {

// Whether a function has the parameters of a machine's event, after the machine.
template <typename Event, typename Function>
inline constexpr bool is_like = false;
template <typename Class, typename Return, typename... Arguments, typename Function>
inline constexpr bool is_like<Return (Class::*)(Arguments...), Function> =
    std::is_same_v<Return(Class*, Arguments...), Function>;

}  // namespace hflush::sim

#define HFLUSH_EVENT(Class, event, Return, ...)                                             \
  HFLUSH_OBSERVED(Class, event, Return, __VA_ARGS__);                                       \
  static_assert(                                                                            \
      hflush::sim::is_like<decltype(&Class::event), decltype(observed_##Class##_##event)>); \
  Return observe_##Class##_##event(__VA_ARGS__)

// The same for a constructor, as the event `constructor`.
#define HFLUSH_CONSTRUCTOR(Class, constructor, ...)       \
  HFLUSH_OBSERVED(Class, constructor, void, __VA_ARGS__); \
  void observe_##Class##_##constructor(__VA_ARGS__)

#define HFLUSH_OBSERVED(Class, event, Return, ...)                                               \
  Return observed_##Class##_##event(__VA_ARGS__) asm("__real_" HFLUSH_SYMBOL_##Class##_##event); \
  Return observe_##Class##_##event(__VA_ARGS__) asm("__wrap_" HFLUSH_SYMBOL_##Class##_##event)
