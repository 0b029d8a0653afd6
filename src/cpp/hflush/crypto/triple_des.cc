#include "hflush/crypto/triple_des.h"

#include <openssl/evp.h>

#include <new>

#include "hflush/base/check.h"
#include "hflush/crypto/libcrypto.h"

namespace hflush::crypto {
namespace {

// What is used of libcrypto.
struct Functions {
  decltype(&::EVP_CIPHER_CTX_new) context_new = nullptr;
  decltype(&::EVP_CIPHER_CTX_free) context_free = nullptr;
  decltype(&::EVP_CIPHER_CTX_set_padding) set_padding = nullptr;
  decltype(&::EVP_CipherInit_ex) init = nullptr;
  decltype(&::EVP_CipherUpdate) update = nullptr;
  decltype(&::EVP_des_ede3_cbc) algorithm = nullptr;
};

Result<Functions> bind_all() {
  HFLUSH_ASSIGN_OR_RETURN(const env::SharedLibrary library, libcrypto());
  Functions functions;
  HFLUSH_RETURN_IF_ERROR(library.bind("EVP_CIPHER_CTX_new", functions.context_new));
  HFLUSH_RETURN_IF_ERROR(library.bind("EVP_CIPHER_CTX_free", functions.context_free));
  HFLUSH_RETURN_IF_ERROR(library.bind("EVP_CIPHER_CTX_set_padding", functions.set_padding));
  HFLUSH_RETURN_IF_ERROR(library.bind("EVP_CipherInit_ex", functions.init));
  HFLUSH_RETURN_IF_ERROR(library.bind("EVP_CipherUpdate", functions.update));
  HFLUSH_RETURN_IF_ERROR(library.bind("EVP_des_ede3_cbc", functions.algorithm));
  return functions;
}

const unsigned char* octets(const std::byte* bytes) {
  return reinterpret_cast<const unsigned char*>(bytes);
}

class Cipher final : public TripleDes {
 public:
  explicit Cipher(const Functions& functions)
      : functions_(functions), context_(functions.context_new()) {
    if (context_ == nullptr) throw std::bad_alloc();
  }
  ~Cipher() override { functions_.context_free(context_); }
  Cipher(const Cipher&) = delete;
  Cipher& operator=(const Cipher&) = delete;

  bool begin(Direction direction, const Key& key, const Iv& iv) {
    const OwnErrors errors;
    return functions_.init(context_, functions_.algorithm(), nullptr, octets(key.data()),
                           octets(iv.data()), direction == Direction::kEncrypt ? 1 : 0) == 1 &&
           functions_.set_padding(context_, 0) == 1;
  }

  std::string apply(std::string_view bytes) override {
    HFLUSH_DCHECK(bytes.size() % kBlock == 0);
    std::string out(bytes.size(), '\0');
    int size = 0;
    const int good = functions_.update(context_, reinterpret_cast<unsigned char*>(out.data()),
                                       &size, reinterpret_cast<const unsigned char*>(bytes.data()),
                                       static_cast<int>(bytes.size()));
    if (good != 1) throw std::bad_alloc();  // only memory can be missing
    return out;
  }

 private:
  const Functions& functions_;
  EVP_CIPHER_CTX* const context_;
};

}  // namespace

Result<std::unique_ptr<TripleDes>> TripleDes::make(Direction direction, const Key& key,
                                                   const Iv& iv) {
  static const Result<Functions> functions = bind_all();
  if (!functions.ok()) return functions.status();
  auto cipher = std::make_unique<Cipher>(*functions);
  if (!cipher->begin(direction, key, iv)) {
    return Status(StatusCode::kUnsupported, "libcrypto has no 3DES here (FIPS mode?)");
  }
  return std::unique_ptr<TripleDes>(std::move(cipher));
}

}  // namespace hflush::crypto
