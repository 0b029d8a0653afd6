#include "hflush/hdfs/settings.h"

#include <unistd.h>

#include <random>

namespace hflush::hdfs {

std::string make_client_name(const std::string& task_attempt) {
  std::random_device random;
  const auto number = static_cast<std::int32_t>(random());
  return "DFSClient_" + task_attempt + "_" + std::to_string(number) + "_" +
         std::to_string(getpid());
}

}  // namespace hflush::hdfs
