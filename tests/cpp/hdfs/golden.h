// What a Hadoop 3.5.0 cluster really said: the messages of recorded conversations, in hex.
//
// Names in brackets stand for runs of bytes that come again and again: what a DataNode is called,
// an empty token. One DataNode, one volume; user alice, client C1.
#pragma once

#include <doctest/doctest.h>

#include <cstddef>
#include <map>
#include <string>
#include <string_view>

namespace hflush::testing::golden {

inline const std::map<std::string_view, std::string_view>& names() {
  static const std::map<std::string_view, std::string_view> kNames = {
      {"ID", "000102030405060708090a0b0c0d0e0f"},
      {"CPNAME",
       "6f72672e6170616368652e6861646f6f702e686466732e70726f746f636f6c2e436c69656e7450726f746f636f"
       "6c"},
      {"CP", "122e [CPNAME] 1801"},
      {"POOL", "42502d313838333134323032392d3132372e302e302e312d31373935323436323836343336"},
      {"SID", "44532d66396239646663312d383736372d343232352d396431652d643462646539363832336438"},
      {"TOK0", "0a00 1200 1a00 2200"},
      {"DNID",
       "0a09 3132372e302e302e31 1209 3132372e302e302e31"
       "1a24 34363736663938322d396166662d343632322d393838352d313135616461666636653464"
       "20dfc802 28e5df02 3089cd02 3800"},
      {"DN",
       "0a4a [DNID]"
       "1080a0e7f1ef07 1880c001 2080e0aed39b02 2880c001 30fafc91e89f34 3800"
       "420d 2f64656661756c742d7261636b 4880e08cd450 5000 5800 6000 68b3e19f02"
       "7883fd91e89f34 8001bce19f02 880100 920105 332e352e30"},
      // HdfsFileStatusProto of /d (a directory), of /d/g when it was created, when it was appended.
      {"STATUS_D",
       "0801 1200 1800 2203 08ed03 2a05 616c696365 3205 7374616666 3880d095ffbc31 4000 5000 5800"
       "68828001 7000 800100 900100"},
      {"STATUS_G",
       "0802 1200 1800 2203 08a403 2a05 616c696365 3205 7374616666 38b9fe91e89f34 40b9fe91e89f34"
       "5001 58808040 68838001 7000 800100 900100"},
      {"STATUS_G_APPEND",
       "0802 1200 188108 2203 08a403 2a05 616c696365 3205 7374616666 38a08392e89f34 40b9fe91e89f34"
       "5001 58808040 68838001 7000 800100 900100"},
      // ExtendedBlockProto: new, of 1,025 bytes, with the next generation stamp, of 1,032 bytes.
      {"BLOCK_NEW", "0a25 [POOL] 108180808004 18e907 2000"},
      {"BLOCK_1025", "0a25 [POOL] 108180808004 18e907 208108"},
      {"BLOCK_1025_NEXT", "0a25 [POOL] 108180808004 18ea07 208108"},
      {"BLOCK_1032", "0a25 [POOL] 108180808004 18ea07 208808"},
      // LocatedBlockProto.
      {"LOCATED_NEW", "0a32 [BLOCK_NEW] 1000 1aa301 [DN] 2000 2a08 [TOK0] 3201 00 3801 4227 [SID]"},
      {"LOCATED_1025",
       "0a33 [BLOCK_1025] 1000 1aa301 [DN] 2000 2a08 [TOK0] 3201 00 3801 4227 [SID]"},
      {"LOCATED_1032",
       "0a33 [BLOCK_1032] 1000 1aa301 [DN] 2000 2a08 [TOK0] 3201 00 3801 4227 [SID]"},

      // Responses.
      {"GET_FILE_INFO", "0a32 [STATUS_D]"},
      {"CREATE", "0a39 [STATUS_G]"},
      {"ADD_BLOCK", "0a9602 [LOCATED_NEW]"},
      {"COMPLETE", "0801"},
      {"APPEND", "0a9702 [LOCATED_1025] 123a [STATUS_G_APPEND]"},
      {"UPDATE_BLOCK_FOR_PIPELINE",
       "0a4c 0a33 [BLOCK_1025_NEXT] 10ffffffffffffffffff01 2000 2a08 [TOK0]"},
      {"GET_BLOCK_LOCATIONS",
       "0abb04 088808 129702 [LOCATED_1032] 1800 229702 [LOCATED_1032] 2801"},
  };
  return kNames;
}

inline int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  REQUIRE((c >= 'a' && c <= 'f'));
  return c - 'a' + 10;
}

// The bytes of hex digits and names; blanks do not count.
inline std::string bytes(std::string_view hex) {
  std::string result;
  for (std::size_t i = 0; i < hex.size(); ++i) {
    if (hex[i] == ' ') continue;
    if (hex[i] == '[') {
      const std::size_t end = hex.find(']', i);
      result += bytes(names().at(hex.substr(i + 1, end - i - 1)));
      i = end;
    } else {
      result += static_cast<char>(digit(hex[i]) * 16 + digit(hex.at(i + 1)));
      ++i;
    }
  }
  return result;
}

// The other way round, without blanks or names.
inline std::string hex(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string result;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    result += kDigits[byte >> 4U];
    result += kDigits[byte & 15U];
  }
  return result;
}

}  // namespace hflush::testing::golden
