#include "hflush/crypto/digest.h"

#include <openssl/evp.h>

#include <algorithm>
#include <initializer_list>
#include <new>

#include "hflush/base/result.h"
#include "hflush/crypto/libcrypto.h"

namespace hflush::crypto {
namespace {

constexpr std::size_t kBlock = 64;  // of both

// What is used of libcrypto, loaded once.
struct Crypto {
  decltype(&::EVP_MD_CTX_new) context_new = nullptr;
  decltype(&::EVP_MD_CTX_free) context_free = nullptr;
  decltype(&::EVP_DigestInit_ex) init = nullptr;
  decltype(&::EVP_DigestUpdate) update = nullptr;
  decltype(&::EVP_DigestFinal_ex) final = nullptr;
  const EVP_MD* sha256 = nullptr;
  const EVP_MD* md5 = nullptr;
};

// Of version 3 and newer; found at run time, because version 1.1 has none and a constant for each
// digest.
using Fetch = EVP_MD*(void* library, const char* algorithm, const char* properties);
using Constant = const EVP_MD*();

const EVP_MD* find_digest(const env::SharedLibrary& library, const char* algorithm,
                          const char* constant, const char* properties = nullptr) {
  // Without this, every use of the constant would look the digest up anew.
  Fetch* fetch = nullptr;
  if (library.find("EVP_MD_fetch", fetch)) return fetch(nullptr, algorithm, properties);
  Constant* known = nullptr;
  return library.find(constant, known) ? known() : nullptr;
}

// Version 1.1 has all constants, and refuses to begin what FIPS mode forbids.
bool can_begin(const Crypto& crypto, const EVP_MD* digest) {
  EVP_MD_CTX* const context = crypto.context_new();
  const bool good = context != nullptr && crypto.init(context, digest, nullptr) == 1;
  crypto.context_free(context);
  return good;
}

Result<Crypto> bind_all() {
  HFLUSH_ASSIGN_OR_RETURN(const env::SharedLibrary library, libcrypto());
  const OwnErrors errors;
  Crypto crypto;
  HFLUSH_RETURN_IF_ERROR(library.bind("EVP_MD_CTX_new", crypto.context_new));
  HFLUSH_RETURN_IF_ERROR(library.bind("EVP_MD_CTX_free", crypto.context_free));
  HFLUSH_RETURN_IF_ERROR(library.bind("EVP_DigestInit_ex", crypto.init));
  HFLUSH_RETURN_IF_ERROR(library.bind("EVP_DigestUpdate", crypto.update));
  HFLUSH_RETURN_IF_ERROR(library.bind("EVP_DigestFinal_ex", crypto.final));
  crypto.sha256 = find_digest(library, "SHA256", "EVP_sha256");
  // For Content-MD5 and DIGEST-MD5, which ask for it: also where only FIPS is to be used, if there
  // is one at all.
  crypto.md5 = find_digest(library, "MD5", "EVP_md5", "-fips");
  if (crypto.md5 != nullptr && !can_begin(crypto, crypto.md5)) crypto.md5 = nullptr;
  if (crypto.sha256 == nullptr) {
    return Status(StatusCode::kUnsupported, library.name() + " has no sha-256");
  }
  return crypto;
}

const Result<Crypto>& loaded() {
  static const Result<Crypto> once = bind_all();
  return once;
}

// Only memory can be missing.
void check(bool good) {
  if (!good) throw std::bad_alloc();
}

class Context {
 public:
  Context(const Crypto& crypto, const EVP_MD* digest)
      : crypto_(crypto), context_(crypto.context_new()) {
    check(context_ != nullptr);
    if (crypto_.init(context_, digest, nullptr) != 1) {
      crypto_.context_free(context_);
      throw std::bad_alloc();
    }
  }
  ~Context() { crypto_.context_free(context_); }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  void update(ByteView data) { check(crypto_.update(context_, data.data(), data.size()) == 1); }
  void finish(MutableByteView out) {
    check(crypto_.final(context_, reinterpret_cast<unsigned char*>(out.data()), nullptr) == 1);
  }

 private:
  const Crypto& crypto_;
  EVP_MD_CTX* context_;
};

template <typename Digest>
Digest digest_of(const EVP_MD* kind, std::initializer_list<ByteView> pieces) {
  Context context(*loaded(), kind);
  for (const ByteView piece : pieces) context.update(piece);
  Digest digest;
  context.finish(digest);
  return digest;
}

// RFC 2104.
template <typename Digest>
Digest hmac(const EVP_MD* kind, ByteView key, ByteView data) {
  std::array<std::byte, kBlock> block{};
  if (key.size() > block.size()) {
    std::ranges::copy(digest_of<Digest>(kind, {key}), block.begin());
  } else {
    std::ranges::copy(key, block.begin());
  }
  const auto masked = [&](std::byte mask) {
    auto pad = block;
    for (std::byte& byte : pad) byte ^= mask;
    return pad;
  };
  const auto inner = digest_of<Digest>(kind, {masked(std::byte{0x36}), data});
  return digest_of<Digest>(kind, {masked(std::byte{0x5c}), inner});
}

}  // namespace

Status load_digests() { return loaded().status(); }

Status load_md5() {
  HFLUSH_RETURN_IF_ERROR(load_digests());
  if (loaded()->md5 != nullptr) return {};
  return Status(StatusCode::kUnsupported, "libcrypto has no md5 here (FIPS mode?)");
}

Sha256 sha256(ByteView data) { return digest_of<Sha256>(loaded()->sha256, {data}); }

Sha256 hmac_sha256(ByteView key, ByteView data) {
  return hmac<Sha256>(loaded()->sha256, key, data);
}

Md5 md5(ByteView data) { return digest_of<Md5>(loaded()->md5, {data}); }

Md5 hmac_md5(ByteView key, ByteView data) { return hmac<Md5>(loaded()->md5, key, data); }

struct RunningDigest::State {
  Kind kind;
  Context context;
};

RunningDigest::RunningDigest(Kind kind)
    : state_(new State{kind, {*loaded(), kind == Kind::kMd5 ? loaded()->md5 : loaded()->sha256}}) {}
RunningDigest::~RunningDigest() = default;
RunningDigest::RunningDigest(RunningDigest&&) noexcept = default;
RunningDigest& RunningDigest::operator=(RunningDigest&&) noexcept = default;

void RunningDigest::update(ByteView data) { state_->context.update(data); }

std::string RunningDigest::finish() {
  std::string digest(state_->kind == Kind::kMd5 ? sizeof(Md5) : sizeof(Sha256), '\0');
  state_->context.finish(std::as_writable_bytes(std::span(digest)));
  return digest;
}

}  // namespace hflush::crypto
