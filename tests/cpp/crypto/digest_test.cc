// Digests against published vectors: FIPS 180-4, RFC 4231, RFC 1321, RFC 2202.
#include "hflush/crypto/digest.h"

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "hflush/base/binary_text.h"

namespace hflush::crypto {
namespace {

std::string hmac(std::string_view key, std::string_view data) {
  return to_hex(hmac_sha256(as_bytes(key), as_bytes(data)));
}

TEST_CASE("sha-256") {
  REQUIRE(load_digests().ok());
  REQUIRE(load_md5().ok());
  REQUIRE(load_digests().ok());
  CHECK(to_hex(sha256({})) == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(to_hex(sha256(as_bytes("abc"))) ==
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(to_hex(sha256(as_bytes("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"))) ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(to_hex(sha256(as_bytes(std::string(1'000'000, 'a')))) ==
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("md5") {
  REQUIRE(load_digests().ok());
  CHECK(to_hex(md5({})) == "d41d8cd98f00b204e9800998ecf8427e");
  CHECK(to_hex(md5(as_bytes("message digest"))) == "f96b697d7cb7938d525a2f31aaf161d0");
}

TEST_CASE("hmac-sha-256, with keys shorter than, as long as and longer than a block") {
  REQUIRE(load_digests().ok());
  CHECK(hmac(std::string(20, '\x0b'), "Hi There") ==
        "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  CHECK(hmac("Jefe", "what do ya want for nothing?") ==
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  CHECK(hmac(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First") ==
        "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
  // A key of a block is used as it is, one of a byte more is not.
  CHECK(hmac("", "") == "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad");
  const Sha256 digest = sha256(as_bytes(std::string(65, 'k')));
  CHECK(hmac(std::string(65, 'k'), "x") == hmac(as_text(digest), "x"));
  const Sha256 of_block = sha256(as_bytes(std::string(64, 'k')));
  CHECK(hmac(std::string(64, 'k'), "x") != hmac(as_text(of_block), "x"));
}

TEST_CASE("hmac-md5") {
  REQUIRE(load_md5().ok());
  CHECK(to_hex(hmac_md5(as_bytes("Jefe"), as_bytes("what do ya want for nothing?"))) ==
        "750c783e6ab0b503eaa86e310a5db738");
  CHECK(to_hex(hmac_md5(as_bytes(std::string(80, '\xaa')),
                        as_bytes("Test Using Larger Than Block-Size Key - Hash Key First"))) ==
        "6b1ab7fe4bd7bf8f0b62e6ce61b9d0cd");
}

TEST_CASE("a running digest, however its bytes come") {
  REQUIRE(load_digests().ok());
  const std::string text(100'000, 'z');
  for (const std::size_t piece :
       {std::size_t{1}, std::size_t{63}, std::size_t{64}, std::size_t{65'537}}) {
    RunningDigest sha(RunningDigest::Kind::kSha256);
    RunningDigest md(RunningDigest::Kind::kMd5);
    for (std::size_t at = 0; at < text.size(); at += piece) {
      sha.update(as_bytes(std::string_view(text).substr(at, piece)));
      md.update(as_bytes(std::string_view(text).substr(at, piece)));
    }
    RunningDigest moved(std::move(sha));
    md = RunningDigest(std::move(md));
    CHECK(moved.finish() == as_text(sha256(as_bytes(text))));
    CHECK(md.finish() == as_text(md5(as_bytes(text))));
  }
  RunningDigest empty(RunningDigest::Kind::kMd5);
  CHECK(empty.finish() == as_text(md5({})));
}

TEST_CASE("digests of several threads do not mix") {
  REQUIRE(load_digests().ok());
  std::vector<std::thread> threads;
  std::vector<int> good(4);
  for (std::size_t i = 0; i < good.size(); ++i) {
    threads.emplace_back([i, &good] {
      const std::string text(1000 + i, static_cast<char>('a' + i));
      const Sha256 first = sha256(as_bytes(text));
      for (int round = 0; round < 500; ++round) {
        if (sha256(as_bytes(text)) == first) ++good[i];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const int count : good) CHECK(count == 500);
}

}  // namespace
}  // namespace hflush::crypto
