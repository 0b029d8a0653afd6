#include "hflush/crypto/libcrypto.h"

#include <cstdlib>

#include "hflush/env/process.h"

namespace hflush::crypto {
namespace {

constexpr const char* kAdvice =
    "S3 needs libcrypto of the system, as do tokens of HDFS; it cannot be loaded (Debian, Ubuntu: "
    "apt install openssl; Fedora, RHEL: dnf install openssl-libs)";
// Of OpenSSL 4, 3 and 1.1: what is used of them is the same.
constexpr auto kNames = {"libcrypto.so.4", "libcrypto.so.3", "libcrypto.so.1.1"};

Result<env::SharedLibrary> load() {
  Result<env::SharedLibrary> library = env::SharedLibrary::open(kNames, kAdvice);
  // It cleans up at exit; our threads have to be out of it before.
  if (library.ok()) std::atexit(&env::Process::end);
  return library;
}

using Marks = int();

// ERR_set_mark or ERR_pop_to_mark.
void call(const char* symbol) noexcept {
  Marks* marks = nullptr;
  if (libcrypto()->find(symbol, marks)) static_cast<void>(marks());
}

}  // namespace

OwnErrors::OwnErrors() noexcept { call("ERR_set_mark"); }
OwnErrors::~OwnErrors() { call("ERR_pop_to_mark"); }

const Result<env::SharedLibrary>& libcrypto() {
  static const Result<env::SharedLibrary> once = load();
  return once;
}

}  // namespace hflush::crypto
