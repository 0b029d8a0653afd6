// What the machines of the product did in the runs of this process: for each event that reached one
// of them its state before, the event and what followed, in the words of the tables in
// docs/hdfs-client.md. The product does not know: the linker puts an observer in front of each
// event (observed_*.cc, wraps.cmake). `./dev sim` compares what was seen with the tables.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>

namespace hflush::sim {

class Transitions {
 public:
  // "stays": the event was taken, or changed nothing, and the state remained.
  static constexpr std::string_view kStays = "stays";

  static Transitions& seen();

  void add(std::string_view machine, std::string_view state, std::string_view event,
           std::string_view after);
  // One line for each of them, with how often it was seen.
  std::string text() const;

 private:
  using Transition = std::tuple<std::string, std::string, std::string, std::string>;
  using View = std::tuple<std::string_view, std::string_view, std::string_view, std::string_view>;
  struct Before {
    using is_transparent = void;
    bool operator()(const View& one, const View& other) const { return one < other; }
  };
  std::map<Transition, std::uint64_t, Before> counts_;
};

}  // namespace hflush::sim
