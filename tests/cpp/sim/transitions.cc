#include "sim/transitions.h"

namespace hflush::sim {

Transitions& Transitions::seen() {
  static Transitions transitions;
  return transitions;
}

void Transitions::add(std::string_view machine, std::string_view state, std::string_view event,
                      std::string_view after) {
  const auto known = counts_.find(View(machine, state, event, after));
  if (known != counts_.end()) {
    ++known->second;
  } else {
    counts_.emplace(Transition(machine, state, event, after), 1);
  }
}

std::string Transitions::text() const {
  std::string text;
  for (const auto& [transition, count] : counts_) {
    const auto& [machine, state, event, after] = transition;
    text += "saw " + machine + " | " + state + " | " + event + " | " + after + " | " +
            std::to_string(count) + "\n";
  }
  return text;
}

}  // namespace hflush::sim
