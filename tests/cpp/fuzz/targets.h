// Fuzz targets: what takes bytes from the network, driven by any bytes at all.
//
// A target throws BrokenPromise if the code under it breaks a promise; the sanitizers see the rest.
// libfuzzer.cc makes a fuzzer of each (CMake: HFLUSH_FUZZ); corpus_test.cc runs all of them over
// corpus/<name>, in the ordinary tests. An input keeps its meaning: what a target's first bytes
// choose from grows at the end only.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>

#include "hflush/base/bytes.h"

namespace hflush::fuzz {

class BrokenPromise : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

inline void require(bool promise, const char* file = __builtin_FILE(),
                    int line = __builtin_LINE()) {
  if (!promise) throw BrokenPromise(std::string(file) + ":" + std::to_string(line));
}

// The response message of a NameNode's call: one byte chooses the call.
void name_node_response(ByteView input);
// Replies to operations, one after the other.
void operation_reply(ByteView input);
// Acks, one after the other.
void pipeline_ack(ByteView input);
// The front of a packet.
void packet_header(ByteView input);
// What a NameNode sends on one connection: one byte says how the bytes are cut.
void rpc_channel(ByteView input);
// A token file.
void credentials(ByteView input);
// What a server sends of DIGEST-MD5: its challenge, and what it says next.
void digest_md5_challenge(ByteView input);
// What a DataNode sends in answer to READ_BLOCK: offset, length and how the bytes are cut come
// first.
void block_reader(ByteView input);
// The writer of a file, driven by its stream, the NameNode, DataNodes and the clock: one byte says
// which file and settings; then steps, each a byte that chooses it and what it takes.
void file_writer(ByteView input);

// The head of an HTTP response: one byte says when it is taken, then its lines.
void http_head(ByteView input);
// A whole response and what follows: one byte says how it is cut, and whether it answers HEAD.
void http_response(ByteView input);

// A document that a store answers with.
void s3_xml(ByteView input);
// An answer of a store: one byte chooses its status, one what it must have; a line each of
// Retry-After, Date, region, Location and ETag; the rest is its body.
void s3_error_document(ByteView input);
// A document that a caller is given the content of: one byte chooses the parser.
void s3_documents(ByteView input);
// The value of a Date header.
void s3_http_date(ByteView input);

struct Target {
  std::string_view name;
  void (*run)(ByteView input);
};

inline constexpr Target kTargets[] = {
    {"name_node_response", name_node_response},
    {"operation_reply", operation_reply},
    {"pipeline_ack", pipeline_ack},
    {"packet_header", packet_header},
    {"rpc_channel", rpc_channel},
    {"credentials", credentials},
    {"digest_md5_challenge", digest_md5_challenge},
    {"block_reader", block_reader},
    {"file_writer", file_writer},
    {"http_head", http_head},
    {"http_response", http_response},
    {"s3_xml", s3_xml},
    {"s3_error_document", s3_error_document},
    {"s3_http_date", s3_http_date},
    {"s3_documents", s3_documents},
};

}  // namespace hflush::fuzz
