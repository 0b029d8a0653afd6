// Settings: each lease holder has a name of its own.
#include "hflush/hdfs/settings.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <set>
#include <string>

namespace hflush::hdfs {
namespace {

TEST_CASE("the lease holder has a name of its own") {
  const std::string process = "_" + std::to_string(::getpid());
  std::set<std::string> names;
  for (int i = 0; i < 100; ++i) names.insert(make_client_name(Settings().task_attempt));
  CHECK(names.size() == 100);
  CHECK(names.begin()->starts_with("DFSClient_NONMAPREDUCE_"));
  CHECK(names.begin()->ends_with(process));
  CHECK(make_client_name("attempt_1_2").starts_with("DFSClient_attempt_1_2_"));
}

}  // namespace
}  // namespace hflush::hdfs
