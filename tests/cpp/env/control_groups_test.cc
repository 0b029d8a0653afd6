// What control groups leave a process: both versions, all groups above it, and containers that see
// their own group as the root.
#include "hflush/env/control_groups.h"

#include <doctest/doctest.h>
#include <sched.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "hflush/env/process.h"
#include "local/testing.h"

namespace hflush::env {
namespace {

// A machine's files, as far as they are looked at.
class Machine {
 public:
  void write(const std::string& path, const std::string& text) const {
    const std::filesystem::path file = root_.path() + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text << "\n";
  }
  void mount(const std::string& lines) const { write("/proc/self/mountinfo", lines); }
  void join(const std::string& lines) const { write("/proc/self/cgroup", lines); }
  std::optional<std::uint64_t> memory() const { return group_memory_limit(root_.path()); }
  std::optional<unsigned> processors() const { return group_processor_limit(root_.path()); }

 private:
  const local::testing::TemporaryDirectory root_;
};

const std::string kOther = "22 1 0:5 / /proc rw - proc proc rw\n";
const std::string kUnified =
    kOther + "30 25 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw";

TEST_CASE("version 2: the least of the group and those above it") {
  const Machine machine;
  machine.mount(kUnified);
  machine.join("0::/user.slice/session/app");
  CHECK_FALSE(machine.memory().has_value());
  machine.write("/sys/fs/cgroup/user.slice/session/app/memory.max", "max");
  CHECK_FALSE(machine.memory().has_value());
  machine.write("/sys/fs/cgroup/user.slice/memory.max", "629145600");
  CHECK(machine.memory() == 629145600U);
  machine.write("/sys/fs/cgroup/user.slice/session/app/memory.max", "1073741824");
  CHECK(machine.memory() == 629145600U);
  machine.write("/sys/fs/cgroup/user.slice/session/memory.max", "1000");
  CHECK(machine.memory() == 1000U);

  CHECK_FALSE(machine.processors().has_value());
  machine.write("/sys/fs/cgroup/user.slice/cpu.max", "max 100000");
  CHECK_FALSE(machine.processors().has_value());
  machine.write("/sys/fs/cgroup/user.slice/session/cpu.max", "150000 100000");
  CHECK(machine.processors() == 2U);
  machine.write("/sys/fs/cgroup/user.slice/session/app/cpu.max", "50000 100000");
  CHECK(machine.processors() == 1U);
}

TEST_CASE("version 2 in a container: its group is the root that it sees") {
  const Machine machine;
  machine.mount(kUnified);
  machine.write("/sys/fs/cgroup/memory.max", "536870912");
  for (const char* group : {"0::/", "0::/../../kubepods/pod1"}) {
    machine.join(group);
    CHECK(machine.memory() == 536870912U);
  }
}

TEST_CASE("version 1: a mount shows its own group and those below") {
  const Machine machine;
  machine.mount(kOther +
                "40 25 0:30 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"
                "41 25 0:31 /docker/abc /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu,cpuacct");
  machine.join("5:cpu,cpuacct:/docker/abc\n4:memory:/docker/abc\n1:name=systemd:/docker/abc");
  machine.write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "536870912");
  machine.write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1");
  machine.write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000");
  CHECK(machine.memory() == 536870912U);
  CHECK_FALSE(machine.processors().has_value());
  machine.write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "200001");
  CHECK(machine.processors() == 3U);
  machine.join("4:memory:/docker/abc/job");
  machine.write("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "1000");
  CHECK(machine.memory() == 1000U);
}

TEST_CASE("both side by side, and none") {
  const Machine machine;
  CHECK_FALSE(machine.memory().has_value());
  machine.mount(kOther +
                "30 25 0:26 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
                "31 25 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory");
  machine.join("4:memory:/a\n0::/a");
  CHECK_FALSE(machine.memory().has_value());
  machine.write("/sys/fs/cgroup/unified/a/memory.max", "2000");
  machine.write("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "3000");
  CHECK(machine.memory() == 2000U);
}

TEST_CASE("what is left is no more than the machine has") {
  CHECK(usable_memory() > 0);
  CHECK(usable_memory() <= group_memory_limit().value_or(UINT64_MAX));
  CHECK(usable_processors() >= 1);
  CHECK(usable_processors() <= group_processor_limit().value_or(CPU_SETSIZE));
}

}  // namespace
}  // namespace hflush::env
