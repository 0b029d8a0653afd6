// hflush_sim: runs of the simulator, by their seeds, and what the machines of the product did in
// them (see ./dev sim); or conversations with its models, or with servers of Hadoop: with a
// DataNode, or with a NameNode and its DataNodes.
#include <unistd.h>

#include <charconv>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/cluster_conversation.h"
#include "sim/conversation.h"
#include "sim/real_world.h"
#include "sim/scenario.h"
#include "sim/transitions.h"
#include "testing/patience.h"

namespace hflush::sim {
namespace {

constexpr int kUsage = 2;
constexpr std::string_view kModels = "model";  // pool and user
constexpr std::uint64_t kMaxBreaches = 10;
// One run in so many is made twice: it has to be the same.
constexpr std::uint64_t kRepeatOneIn = 50;

std::optional<std::uint64_t> number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::uint64_t running_seed = 0;

void give_up(int /*signal*/) {
  std::printf("seed %llu: the run does not return\n",
              static_cast<unsigned long long>(running_seed));
  std::fflush(stdout);
  std::_Exit(1);
}

Outcome run(std::uint64_t seed, World::Trace trace) {
  running_seed = seed;
  // A loop that never waits ends with no event: by the machine's alarm.
  ::alarm(static_cast<unsigned>(testing::kPatience.count()));
  const Forbidden forbidden;
  return run_seed(seed, trace);
}

int replay(std::uint64_t seed) {
  const Outcome outcome = run(seed, World::Trace::kText);
  std::fputs(outcome.trace.c_str(), stdout);
  std::printf("seed %llu: %s; digest %016llx\n", static_cast<unsigned long long>(seed),
              outcome.breach.empty() ? "nothing is wrong" : outcome.breach.c_str(),
              static_cast<unsigned long long>(outcome.digest));
  return outcome.breach.empty() ? 0 : 1;
}

int run_all(std::uint64_t first, std::uint64_t last) {
  Outcome sum;
  std::uint64_t breaches = 0;
  for (std::uint64_t seed = first; seed <= last && breaches < kMaxBreaches; ++seed) {
    Outcome outcome = run(seed, World::Trace::kDigest);
    if (outcome.breach.empty() && seed % kRepeatOneIn == 0 &&
        run(seed, World::Trace::kDigest).digest != outcome.digest) {
      outcome.breach = "the same seed gives another trace the second time";
    }
    if (!outcome.breach.empty()) {
      ++breaches;
      std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed), outcome.breach.c_str());
      std::fflush(stdout);
    }
    sum.steps += outcome.steps;
    sum.streams += outcome.streams;
    sum.published += outcome.published;
    sum.failed += outcome.failed;
    sum.abandoned += outcome.abandoned;
    sum.blocks += outcome.blocks;
    sum.acknowledged_bytes += outcome.acknowledged_bytes;
    sum.faults += outcome.faults;
  }
  const auto show = [](std::uint64_t value) { return static_cast<unsigned long long>(value); };
  std::printf(
      "seeds %llu-%llu: %llu breaches; %llu streams (%llu published, %llu failed, %llu abandoned), "
      "%llu blocks, %llu acknowledged bytes, %llu faults, %llu events\n",
      show(first), show(last), show(breaches), show(sum.streams), show(sum.published),
      show(sum.failed), show(sum.abandoned), show(sum.blocks), show(sum.acknowledged_bytes),
      show(sum.faults), show(sum.steps));
  if (breaches > 0) return 1;
  std::fputs(Transitions::seen().text().c_str(), stdout);
  return 0;
}

// At port 0 is the model.
int converse_with_data_node(std::uint16_t port, const std::string& pool) {
  const auto peer = port == 0 ? model_peer() : hadoop_peer(port);
  Conversation conversation(*peer, pool);
  return converse([&](std::string_view step) { return conversation.answer(step); });
}

int converse_with_cluster(std::uint16_t port, const std::string& user) {
  const auto cluster = port == 0 ? model_cluster() : hadoop_cluster(port);
  ClusterConversation conversation(*cluster, user);
  return converse([&](std::string_view step) { return conversation.answer(step); });
}

int main_of(const std::vector<std::string_view>& arguments) {
  std::signal(SIGALRM, &give_up);
  if (arguments.size() == 2 && arguments[0] == "--replay") {
    if (const auto seed = number(arguments[1])) return replay(*seed);
  }
  if (arguments.size() == 2 && arguments[0] == "--seeds") {
    const std::size_t dash = arguments[1].find('-');
    const auto first = number(arguments[1].substr(0, dash));
    const auto last =
        dash == std::string_view::npos ? first : number(arguments[1].substr(dash + 1));
    if (first && last && *first <= *last) return run_all(*first, *last);
  }
  if (!arguments.empty() && arguments.size() != 2 && arguments.size() <= 3) {
    const auto port = arguments.size() == 3 ? number(arguments[1]) : 0;
    const std::string whose(arguments.size() == 3 ? arguments[2] : kModels);
    if (port && *port <= UINT16_MAX) {
      const auto at = static_cast<std::uint16_t>(*port);
      if (arguments[0] == "--converse") return converse_with_data_node(at, whose);
      if (arguments[0] == "--converse-cluster") return converse_with_cluster(at, whose);
    }
  }
  std::fputs(
      "usage: hflush_sim --seeds FIRST-LAST | --replay SEED\n"
      "                  | --converse [PORT BLOCK-POOL] | --converse-cluster [PORT USER]\n",
      stderr);
  return kUsage;
}

}  // namespace
}  // namespace hflush::sim

int main(int count, char** arguments) {
  return hflush::sim::main_of({arguments + 1, arguments + count});
}
