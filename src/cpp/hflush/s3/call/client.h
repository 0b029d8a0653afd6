// Client: calls of one S3 endpoint, signed, judged and tried again until they succeed or fail for
// good.
//
// Each attempt is signed anew, with the newest credentials, the clock offset that was learnt and
// the bucket's region; what an attempt came to is judged by outcome.h, and whether there is another
// is decided by attempts.h. Calls may be made from any thread, and the first attempt starts on it;
// `done` runs on the loop thread, once, unless the call is cancelled, and must not block. Secrets
// are in no message. Streams and files keep their client: when it is destroyed, what is under way
// ends and is not reported. An attempt for which there is no memory fails with ENOMEM and is judged
// like every other; where a function here throws std::bad_alloc, there is no such call. On the loop
// thread nothing more is promised: what comes of an answer needs memory, or ends the process. A
// body is read and released there, as env::HttpClient has it. In a forked child every call fails
// with kForked (Client::make again there), and where there is no thread for the loop with what the
// system said: then `done` runs before the call returns.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hflush/base/bytes.h"
#include "hflush/base/result.h"
#include "hflush/base/statistics.h"
#include "hflush/base/status.h"
#include "hflush/env/clock.h"
#include "hflush/env/event_loop.h"
#include "hflush/env/http_client.h"
#include "hflush/env/interrupt.h"
#include "hflush/env/own_process.h"
#include "hflush/s3/call/attempts.h"
#include "hflush/s3/call/credentials.h"
#include "hflush/s3/call/encoding.h"
#include "hflush/s3/call/outcome.h"

namespace hflush::s3 {

enum class PayloadSigning : std::uint8_t {
  kAuto,  // signed, unless TLS or the loopback interface protects it
  kAlways,
  kNever,  // UNSIGNED-PAYLOAD
};

struct Settings {
  std::string scheme = "https";
  std::string host;        // without port
  std::uint16_t port = 0;  // 0: the scheme's
  std::string region = "us-east-1";
  bool follows_regions = true;  // a bucket of another region is asked there
  bool path_style = false;
  PayloadSigning payload_signing = PayloadSigning::kAuto;
  bool content_md5 = false;  // of parts and objects
  bool checksums = true;     // x-amz-checksum-crc32c where the store knows it
  bool expect_continue = true;
  std::size_t max_uploads = 16;  // parts and objects under way at once, of all streams
  env::Duration connect_timeout = std::chrono::seconds(10);
  env::Duration stall_timeout = std::chrono::seconds(60);
  env::Duration complete_timeout = std::chrono::seconds(60);  // the same of Complete
  // Of an attempt in all, however much comes meanwhile: of parts and objects that are uploaded, and
  // of everything else but what is downloaded.
  env::Duration upload_timeout = env::kNoTimeout;
  env::Duration request_timeout = env::kNoTimeout;
  RetrySettings retry;
  env::HttpSettings http;

  // Whether requests for the bucket name it in their path rather than in their host.
  bool names_in_path(std::string_view bucket) const noexcept;
  // "host:port" as the Host header has it: no port where it is the scheme's own.
  std::string authority(const std::string& bucket) const;
  // The same of the endpoint for `region`, where the host is one of AWS's, which has one for each.
  std::string authority(const std::string& bucket, const std::string& region) const;
  // "host:port" that a redirect to `location` leads to; empty if it may not be followed: another
  // scheme, or a host that is neither the endpoint's, nor below it; at AWS: that is neither the
  // endpoint's, nor the bucket's there, nor another server of S3 (with FIPS, if the endpoint is).
  std::string redirect_authority(std::string_view bucket, std::string_view location) const;
  // Bodies of any size are hashed, so that the signature protects them.
  bool signs_payload() const noexcept;
};

struct Call {
  std::string operation;  // S3's name, for messages: "UploadPart"
  std::string method;
  std::string bucket;
  std::string key;  // unencoded; empty: of the bucket
  Query query;
  std::vector<env::HttpHeader> headers;
  std::shared_ptr<const env::HttpBody> body;
  // Hex. Empty: the body is hashed on the caller's thread if it has at most kSmallBody bytes or
  // is no upload, or the settings sign payloads; else, and with kNever, it is unsigned.
  std::string body_sha256;
  Repeat repeat = Repeat::kFreely;
  Expect expect = Expect::kNothing;
  std::string root;  // Expect::kRoot
  bool fresh_connection = false;
  // There is no way to ask why it was refused: 400 without a document is taken for the end of a
  // session's token, if there is one.
  bool guesses_expiry = false;
  bool is_upload = false;    // counts against max_uploads, and waits for its turn
  bool urgent = false;       // among uploads: before others (it frees resources)
  std::uint64_t stream = 0;  // uploads take turns by it
  std::optional<env::Duration> stall_timeout;
  std::optional<int> retry_limit;      // fewer than the settings'
  std::optional<env::TimePoint> ends;  // no attempt begins later, none is silent for longer
  std::size_t max_response_bytes = std::size_t{16} << 20U;

  static constexpr std::size_t kSmallBody = std::size_t{64} << 10U;
};

struct CallResult {
  // Without one: success.
  std::optional<Failure> failure;
  // An earlier attempt may have been executed; with a failure: this one or an earlier.
  bool ambiguous = false;
  Status status;       // the failure, as the caller gets it
  env::HttpHead head;  // of the last attempt, as far as it got
  std::string body;
  int attempts = 0;
  std::optional<env::TimePoint> deadline;  // of the attempts, once one has failed
};

// A response that streams: what a reader takes, on the loop thread.
class Download {
 public:
  virtual ~Download() = default;
  // 2xx: what comes next is the object's. Again, if an attempt breaks off before its first byte.
  virtual void on_head(const env::HttpHead& head) = 0;
  virtual bool on_body(ByteView bytes) = 0;  // as HttpEvents has it
  // Last. Before the first byte attempts are repeated; after it the reader has to ask for the rest.
  // The result has no body but that of an error.
  virtual void on_end(CallResult result) = 0;
};

class Client : public std::enable_shared_from_this<Client> {
 public:
  using CallId = std::uint64_t;
  using Done = std::function<void(CallResult)>;

  // kUnsupported without libcurl or libcrypto.
  static Result<std::shared_ptr<Client>> make(Settings settings,
                                              std::shared_ptr<CredentialStore> credentials);
  ~Client();

  CallId call(Call call, Done done);
  // Waits for it, on any thread but the loop's. An interruption cancels it: the store may have
  // executed it.
  CallResult call_and_wait(Call call, env::Interrupt& interrupt);
  // The same of several that are made at once; their results in that order.
  std::vector<CallResult> call_and_wait(std::vector<Call> calls, env::Interrupt& interrupt);
  // A GET whose body goes to `download`; the id works with cancel() and resume().
  CallId get(Call call, std::shared_ptr<Download> download);
  void resume(CallId call);
  // `done` is not run, unless it is running now; `gone` is, on the loop thread, when nothing of the
  // call is in the network and its body is released.
  void cancel(CallId call, std::function<void()> gone = {});

  const Settings& settings() const noexcept;
  CredentialStore& credentials() noexcept;
  env::EventLoop& loop() noexcept;
  // "http://host:port", for messages.
  const std::string& endpoint() const noexcept;
  // A number for Call::stream.
  std::uint64_t new_stream() noexcept;
  // store_io_request, store_io_retry, store_io_throttled, …
  void add_statistics(Statistics& statistics) const;
  bool is_foreign() const noexcept;

 private:
  class Calls;
  explicit Client(std::shared_ptr<Calls> calls);
  // One of `done` and `download` is there.
  CallId start(Call call, Done done, std::shared_ptr<Download> download);

  const env::OwnProcess<Calls> calls_;
};

// A body of text: small requests.
std::shared_ptr<const env::HttpBody> text_body(std::string text);

}  // namespace hflush::s3
