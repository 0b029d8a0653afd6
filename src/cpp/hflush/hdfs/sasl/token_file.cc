#include "hflush/hdfs/sasl/token_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <system_error>
#include <utility>

#include "hflush/base/bytes.h"

namespace hflush::hdfs::sasl {
namespace {

constexpr std::int64_t kLongest = std::int64_t{64} << 20U;
// Two changes of a file that are closer than this may have one time.
constexpr std::chrono::nanoseconds kClockStep = std::chrono::seconds(1);

class Descriptor {
 public:
  explicit Descriptor(int number) noexcept : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const noexcept { return number_; }

 private:
  const int number_;
};

Status failed(const char* operation) {
  const int error_number = errno;
  return Status(StatusCode::kIo,
                std::string(operation) + ": " + std::generic_category().message(error_number), {},
                error_number);
}

std::int64_t nanoseconds(const timespec& time) {
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

// Nothing is waited for: a pipe has nothing to say.
Result<std::string> content_of(int descriptor, std::int64_t size) {
  std::string content(static_cast<std::size_t>(size), '\0');
  std::size_t done = 0;
  while (done < content.size()) {
    const ssize_t count = ::read(descriptor, content.data() + done, content.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return failed("read");
    if (count == 0) break;
    done += static_cast<std::size_t>(count);
  }
  content.resize(done);
  return content;
}

}  // namespace

TokenFile::TokenFile(std::vector<Token> tokens, std::string path)
    : path_(std::move(path)), tokens_(std::move(tokens)) {}

HeldTokens TokenFile::now() {
  const MutexLock lock(mutex_);
  if (path_.empty()) return {tokens_, {}};
  const Status refreshed = refresh_locked();
  std::string origin = path_;
  if (!refreshed.ok()) origin += ", which cannot be read again: " + refreshed.message();
  return {tokens_, std::move(origin)};
}

Status TokenFile::refresh_locked() {
  const Descriptor file(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) return failed("open");
  struct stat known{};
  if (::fstat(file.get(), &known) != 0) return failed("fstat");
  const Stamp stamp{known.st_dev, known.st_ino, known.st_size, nanoseconds(known.st_mtim),
                    nanoseconds(known.st_ctim)};
  if (stamp == stamp_) return {};
  if (!S_ISREG(known.st_mode) || known.st_size > kLongest) {
    return Status(StatusCode::kInvalidArgument, "it is no token file");
  }
  HFLUSH_ASSIGN_OR_RETURN(const std::string content, content_of(file.get(), known.st_size));
  HFLUSH_ASSIGN_OR_RETURN(Credentials found, decode_credentials(as_bytes(content)));
  tokens_.clear();
  for (auto& [alias, token] : found.tokens) tokens_.push_back(std::move(token));
  const auto age = std::chrono::system_clock::now().time_since_epoch() -
                   std::chrono::nanoseconds(stamp.changed_ns);
  stamp_ = age > kClockStep ? stamp : Stamp{};
  return {};
}

}  // namespace hflush::hdfs::sasl
