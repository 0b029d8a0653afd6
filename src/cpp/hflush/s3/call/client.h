// Client: calls of one S3 endpoint, signed, judged and tried again until they succeed or fail for
// good.
//
// Each attempt is signed with the newest credentials, the time of the store's clock and the
// bucket's region (request.h, addresses.h); outcome.h judges its response; call_table.h decides
// what follows. The client is their shell: it gives requests to env::HttpClient, and answers.
//
// Calls may be made from any thread, and the first attempt starts on it; `done` runs on the loop
// thread, or on the caller's in its wait, once, unless the call is cancelled, and must not block.
// Secrets are in no message. Streams and files keep their client: when it is destroyed, what is
// under way ends and is not reported. An attempt for which there is no memory fails with ENOMEM and
// is judged like every other; where a function here throws std::bad_alloc, there is no such call.
// On the loop thread nothing more is promised: there a failed allocation ends the process. A body
// is read and released there, as env::HttpClient has it. In a forked child every call fails with
// kForked (Client::make again there), and without a thread for the loop with the system's error:
// then `done` runs before the call returns.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "hflush/base/bytes.h"
#include "hflush/base/result.h"
#include "hflush/base/statistics.h"
#include "hflush/env/event_loop.h"
#include "hflush/env/http_client.h"
#include "hflush/env/interrupt.h"
#include "hflush/env/own_process.h"
#include "hflush/s3/call/call.h"
#include "hflush/s3/call/credentials.h"
#include "hflush/s3/call/extras.h"
#include "hflush/s3/call/settings.h"

namespace hflush::s3 {

// A response that streams: what a reader takes, on the loop thread or in its own wait.
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
  // Whether the server is known not to take one of these; and that it is, from now on.
  bool does_without(Extras extras) const noexcept;
  void do_without(Extras extras) noexcept;
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

}  // namespace hflush::s3
