// Client against a store that does as it is told: what goes over the wire, and what becomes of each
// call when the store fails.
#include "hflush/s3/call/client.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <functional>
#include <memory>
#include <new>
#include <numeric>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "env/loopback.h"
#include "hflush/base/binary_text.h"
#include "hflush/crypto/digest.h"
#include "hflush/env/process.h"
#include "s3/scripted_s3.h"
#include "testing/scarce_memory.h"

namespace hflush::s3 {
namespace {

using env::testing::DeafPort;
using env::testing::drain;
using env::testing::kPatience;
using env::testing::pattern;
using env::testing::Shared;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::AfterRequests;
using testing::Answer;
using testing::Gate;
using testing::Request;
using testing::ScriptedS3;

constexpr std::string_view kSecret = "hush-hush/secret+key";

// Patient with a slow machine, quick where it would only wait.
Settings quick_settings(std::uint16_t port) {
  Settings settings = testing::loopback_settings(port);
  settings.stall_timeout = kPatience;
  settings.retry.credentials_wait = kPatience;
  settings.http.user_agent = "hflush/test";
  return settings;
}

std::shared_ptr<CredentialStore> some_credentials() {
  return std::make_shared<CredentialStore>(Credentials{"AK1", std::string(kSecret), "token1"});
}

std::shared_ptr<Client> make_client(
    Settings settings, std::shared_ptr<CredentialStore> credentials = some_credentials()) {
  Result<std::shared_ptr<Client>> client =
      Client::make(std::move(settings), std::move(credentials));
  REQUIRE_MESSAGE(client.ok(), client.status().to_string());
  return *std::move(client);
}

Call put(std::string key, std::string text) {
  Call call;
  call.operation = "PutObject";
  call.method = "PUT";
  call.bucket = "b";
  call.key = std::move(key);
  call.body = env::text_body(std::move(text));
  call.headers = {{"Content-Type", "application/octet-stream"}};
  return call;
}

Call head(std::string bucket = "b", std::string key = "k") {
  Call call;
  call.operation = "HeadObject";
  call.method = "HEAD";
  call.bucket = std::move(bucket);
  call.key = std::move(key);
  return call;
}

CallResult wait_for(const std::shared_ptr<Client>& client, Call call) {
  env::Uninterrupted interrupt;
  return client->call_and_wait(std::move(call), interrupt);
}

// Answers in turn; the last one from then on.
ScriptedS3::Handler in_turn(std::vector<Answer> answers) {
  const auto next = std::make_shared<std::atomic<std::size_t>>(0);
  return [next, answers = std::move(answers)](const Request&) {
    return answers[std::min(next->fetch_add(1), answers.size() - 1)];
  };
}

std::string scope_of(const Request& request) {
  const std::string text = request.header("authorization");
  const std::size_t begin = text.find("Credential=") + 11;
  return text.substr(begin, text.find(',', begin) - begin);
}

// Outcomes of calls, as they come.
struct Outcomes {
  std::vector<CallResult> results;
  int gone = 0;
};
using Outcome = std::shared_ptr<Shared<Outcomes>>;

Outcome outcomes() { return std::make_shared<Shared<Outcomes>>(); }

Client::Done into(const Outcome& outcome) {
  return [outcome](CallResult result) {
    outcome->update([&](Outcomes& all) { all.results.push_back(std::move(result)); });
  };
}

std::function<void()> gone_into(const Outcome& outcome) {
  return [outcome] { outcome->update([](Outcomes& all) { ++all.gone; }); };
}

void check_all_succeeded(const Outcome& outcome) {
  for (const CallResult& result : outcome->get().results) {
    CHECK_MESSAGE(!result.failure, result.status.to_string());
  }
}

TEST_CASE("a call is signed and answered") {
  ScriptedS3 server(
      [](const Request&) { return Answer{.headers = {{"ETag", "\"e1\""}}, .body = "fine"}; });
  const auto client = make_client(quick_settings(server.port()));
  Call call = put("a b/c", "hello");
  call.query = {{"partNumber", "1"}, {"uploadId", "x/+y"}};
  call.expect = Expect::kETag;
  const CallResult result = wait_for(client, std::move(call));
  REQUIRE_MESSAGE(!result.failure, result.status.to_string());
  CHECK(result.status.ok());
  CHECK(result.attempts == 1);
  CHECK_FALSE(result.ambiguous);
  CHECK(result.head.header("etag") == "\"e1\"");
  CHECK(result.body == "fine");

  const std::vector<Request> requests = server.requests();
  REQUIRE(requests.size() == 1);
  const Request& request = requests[0];
  CHECK(request.method == "PUT");
  CHECK(request.target == "/b/a%20b/c?partNumber=1&uploadId=x%2F%2By");
  CHECK(request.body == "hello");
  CHECK(request.header("host") == "127.0.0.1:" + std::to_string(server.port()));
  CHECK(request.header("content-length") == "5");
  CHECK(request.header("content-type") == "application/octet-stream");
  CHECK(request.header("user-agent") == "hflush/test");
  CHECK(request.header("x-amz-content-sha256") == to_hex(crypto::sha256(as_bytes("hello"))));
  CHECK(request.header("x-amz-security-token") == "token1");
  CHECK(scope_of(request).starts_with("AK1/"));
  CHECK(scope_of(request).ends_with("/us-east-1/s3/aws4_request"));
  CHECK(request.headers.count("expect") == 0);
  Statistics statistics;
  client->add_statistics(statistics);
  CHECK(statistics["store_io_request"] == 1);
  CHECK(statistics["store_io_retry"] == 0);
  CHECK(statistics["object_put_request"] == 1);
}

TEST_CASE("anonymous requests carry no signature") {
  ScriptedS3 server([](const Request&) { return Answer{}; });
  const auto client =
      make_client(quick_settings(server.port()), std::make_shared<CredentialStore>(Credentials{}));
  CHECK_FALSE(wait_for(client, head()).failure);
  CHECK(server.requests()[0].header("authorization").empty());
}

TEST_CASE("what of a body is hashed") {
  ScriptedS3 server([](const Request&) { return Answer{}; });
  bool is_upload = true;
  const auto hash_of = [&](PayloadSigning signing, std::size_t size, std::string given = {}) {
    Settings settings = quick_settings(server.port());
    settings.payload_signing = signing;
    const auto client = make_client(settings);
    Call call = put("k", pattern(0, size));
    call.is_upload = is_upload;
    call.body_sha256 = std::move(given);
    const CallResult result = wait_for(client, std::move(call));
    REQUIRE_MESSAGE(!result.failure, result.status.to_string());
    return server.requests().back().header("x-amz-content-sha256");
  };
  const auto real = [](std::size_t size) {
    return to_hex(crypto::sha256(as_bytes(pattern(0, size))));
  };
  CHECK(hash_of(PayloadSigning::kAuto, 1) == kUnsignedPayload);  // loopback
  CHECK(hash_of(PayloadSigning::kAlways, 200'000) == real(200'000));
  CHECK(hash_of(PayloadSigning::kNever, 10) == kUnsignedPayload);
  CHECK(hash_of(PayloadSigning::kNever, 10, "ab") == "ab");
  CHECK(hash_of(PayloadSigning::kAuto, 0) == kEmptySha256);
  is_upload = false;
  CHECK(hash_of(PayloadSigning::kAuto, 200'000) == real(200'000));
  CHECK(hash_of(PayloadSigning::kNever, 200'000) == kUnsignedPayload);
}

TEST_CASE("a server that demands signed bodies gets them from the first refusal on") {
  Answer refusal;
  refusal.status = 403;
  refusal.body =
      "<Error><Code>AccessDenied</Code><Message>no UNSIGNED-PAYLOAD here</Message></Error>";
  const auto upload = [](std::string text) {
    Call call = put("k", std::move(text));
    call.is_upload = true;
    return call;
  };
  ScriptedS3 server([&](const Request& request) {
    return request.header("x-amz-content-sha256") == kUnsignedPayload ? refusal : Answer{};
  });
  const auto client = make_client(quick_settings(server.port()));
  for (const int attempts : {2, 1}) {
    const CallResult result = wait_for(client, upload("hello"));
    REQUIRE_MESSAGE(!result.failure, result.status.to_string());
    CHECK(result.attempts == attempts);
  }
  CHECK(server.requests().back().header("x-amz-content-sha256") ==
        to_hex(crypto::sha256(as_bytes("hello"))));
  Settings never = quick_settings(server.port());
  never.payload_signing = PayloadSigning::kNever;
  CHECK(wait_for(make_client(never), upload("hello")).failure);
}

TEST_CASE("the host that is signed is the one that is sent") {
  ScriptedS3 server([](const Request&) { return Answer{}; });
  Settings settings = quick_settings(server.port());
  settings.host = "127.1";  // libcurl would write 127.0.0.1
  const CallResult result = wait_for(make_client(settings), head());
  REQUIRE_MESSAGE(!result.failure, result.status.to_string());
  CHECK(server.requests()[0].header("host") == "127.1:" + std::to_string(server.port()));
}

TEST_CASE("what fails is tried again, with the same bytes") {
  // On a connection that was used before libcurl would hide the reset.
  const Answer broken = Answer::error(500, "InternalError");
  ScriptedS3 server(in_turn({Answer::reset(), broken, Answer::error(503, "SlowDown"), Answer{}}));
  const auto client = make_client(quick_settings(server.port()));
  const std::string text = pattern(0, 100'000);
  const CallResult result = wait_for(client, put("k", text));
  REQUIRE_MESSAGE(!result.failure, result.status.to_string());
  CHECK(result.attempts == 4);
  const std::vector<Request> requests = server.requests();
  REQUIRE(requests.size() == 4);
  for (const Request& request : requests) CHECK(request.body == text);
  Statistics statistics;
  client->add_statistics(statistics);
  CHECK(statistics["store_io_request"] == 4);
  CHECK(statistics["store_io_retry"] == 3);
  CHECK(statistics["store_io_throttled"] == 1);
  CHECK(statistics["object_put_request"] == 1);
}

TEST_CASE("what fails for good says why, and no secret") {
  ScriptedS3 server([](const Request&) { return Answer::error(500, "InternalError"); });
  const auto client = make_client(quick_settings(server.port()));
  Call call = put("k", "x");
  call.retry_limit = 2;
  const CallResult result = wait_for(client, std::move(call));
  REQUIRE(result.failure);
  CHECK(result.attempts == 3);
  CHECK(server.request_count() == 3);
  CHECK(result.ambiguous);
  CHECK(result.failure->kind == FailureKind::kAmbiguous);
  CHECK(result.status.remote_class() == "InternalError");
  CHECK(result.status.path() == "s3://b/k");
  CHECK(result.status.message().find("PutObject") != std::string::npos);
  CHECK(result.status.message().find(client->endpoint()) != std::string::npos);
  CHECK(result.status.message().find("R1") != std::string::npos);
  CHECK(result.status.to_string().find(kSecret) == std::string::npos);
  CHECK(result.status.to_string().find("token1") == std::string::npos);

  Call once = put("k", "x");
  once.repeat = Repeat::kNotTwice;
  CHECK(wait_for(client, std::move(once)).attempts == 1);
}

TEST_CASE("nobody answers at the port") {
  const DeafPort port;
  Settings settings = quick_settings(port.endpoint().port);
  settings.retry.limit = 1;
  const auto client = make_client(settings);
  const CallResult result = wait_for(client, head());
  REQUIRE(result.failure);
  CHECK(result.failure->kind == FailureKind::kNotSent);
  CHECK_FALSE(result.ambiguous);
  CHECK(result.status.error_number() == ECONNREFUSED);
  CHECK(result.attempts == 2);
}

TEST_CASE("expired credentials wait for newer ones") {
  ScriptedS3 server([](const Request& request) {
    if (request.header("x-amz-security-token") == "token1") {
      return Answer::error(400, "ExpiredToken");
    }
    return Answer{};
  });
  SUBCASE("which come") {
    const auto credentials = some_credentials();
    const auto client = make_client(quick_settings(server.port()), credentials);
    const Outcome outcome = outcomes();
    client->call(put("k", "x"), into(outcome));
    env::Uninterrupted interrupt;
    REQUIRE(credentials->wait_until_wanted(kPatience, interrupt));
    CHECK(outcome->get().results.empty());
    credentials->set({"AK2", "s2", "token2"});
    REQUIRE(outcome->wait_until([](const Outcomes& all) { return all.results.size() == 1; }));
    CHECK_FALSE(outcome->get().results[0].failure);
    CHECK(scope_of(server.requests().back()).starts_with("AK2/"));
  }
  SUBCASE("which are there already") {
    const auto credentials = some_credentials();
    const auto gate = std::make_shared<Gate>();
    ScriptedS3 slow([gate](const Request& request) {
      if (request.header("x-amz-security-token") != "token1") return Answer{};
      gate->pass();
      return Answer::error(400, "ExpiredToken");
    });
    const auto client = make_client(quick_settings(slow.port()), credentials);
    const Outcome outcome = outcomes();
    client->call(put("k", "x"), into(outcome));
    REQUIRE(gate->wait_for_waiting(1));
    credentials->set({"AK2", "s2", "token2"});
    gate->open();
    REQUIRE(outcome->wait_until([](const Outcomes& all) { return all.results.size() == 1; }));
    CHECK_FALSE(outcome->get().results[0].failure);
    CHECK(outcome->get().results[0].attempts == 2);
  }
  SUBCASE("which do not come") {
    Settings settings = quick_settings(server.port());
    settings.retry.credentials_wait = milliseconds(20);
    const auto client = make_client(settings);
    const CallResult result = wait_for(client, put("k", "x"));
    REQUIRE(result.failure);
    CHECK(result.failure->kind == FailureKind::kCredentials);
    CHECK(result.status.remote_class() == "ExpiredToken");
    CHECK(result.attempts == 1);
  }
  SUBCASE("also where the store cannot say why it refuses, and nobody can ask") {
    ScriptedS3 silent([](const Request& request) {
      const bool is_old = request.header("x-amz-security-token") == "token1";
      return Answer{.status = is_old ? 400 : 200};
    });
    const auto credentials = some_credentials();
    const auto client = make_client(quick_settings(silent.port()), credentials);
    const Outcome outcome = outcomes();
    const CallResult refused = wait_for(client, head());
    REQUIRE(refused.failure);
    CHECK(refused.failure->kind == FailureKind::kFinal);
    CHECK(refused.attempts == 1);
    Call look = head();
    look.guesses_expiry = true;
    client->call(std::move(look), into(outcome));
    env::Uninterrupted interrupt;
    REQUIRE(credentials->wait_until_wanted(kPatience, interrupt));
    credentials->set({"AK2", "s2", "token2"});
    REQUIRE(outcome->wait_until([](const Outcomes& all) { return all.results.size() == 1; }));
    CHECK_FALSE(outcome->get().results[0].failure);
  }
  SUBCASE("unless the call is cancelled") {
    const auto credentials = some_credentials();
    const auto client = make_client(quick_settings(server.port()), credentials);
    const Outcome outcome = outcomes();
    const Client::CallId id = client->call(put("k", "x"), into(outcome));
    env::Uninterrupted interrupt;
    REQUIRE(credentials->wait_until_wanted(kPatience, interrupt));
    client->cancel(id, gone_into(outcome));
    REQUIRE(outcome->wait_until([](const Outcomes& all) { return all.gone == 1; }));
    credentials->set({"AK2", "s2", "token2"});
    drain(client->loop());
    CHECK(outcome->get().results.empty());
    CHECK(server.request_count() == 1);
  }
}

TEST_CASE("the store's clock is learnt") {
  // Far from now: what was learnt cannot be mistaken for the machine's own clock.
  ScriptedS3 server([](const Request& request) {
    if (request.header("x-amz-date").starts_with("2031")) return Answer{};
    return Answer::error(403, "RequestTimeTooSkewed", {{"Date", "Tue, 04 Feb 2031 05:06:07 GMT"}});
  });
  const auto client = make_client(quick_settings(server.port()));
  CHECK_FALSE(wait_for(client, put("k", "x")).failure);
  CHECK_FALSE(wait_for(client, put("k", "y")).failure);
  const std::vector<Request> requests = server.requests();
  REQUIRE(requests.size() == 3);  // the second call knew
  CHECK(requests[1].header("x-amz-date").starts_with("20310204T0506"));
  CHECK(requests[2].header("x-amz-date").starts_with("20310204T0506"));
}

TEST_CASE("the store's clock is learnt from what has no document") {
  ScriptedS3 server([](const Request& request) {
    if (request.header("x-amz-date").starts_with("2031")) return Answer{};
    return Answer{.status = 403, .headers = {{"Date", "Tue, 04 Feb 2031 05:06:07 GMT"}}};
  });
  const auto client = make_client(quick_settings(server.port()));
  const CallResult result = wait_for(client, head());
  CHECK_FALSE(result.failure);
  CHECK(result.attempts == 2);
}

TEST_CASE("a bucket's region is learnt") {
  ScriptedS3 server([](const Request& request) {
    const bool is_there = scope_of(request).find("/eu-north-7/") != std::string::npos;
    if (request.path.starts_with("/other/") || is_there) return Answer{};
    return Answer::error(400, "AuthorizationHeaderMalformed",
                         {{"x-amz-bucket-region", "eu-north-7"}});
  });
  const auto client = make_client(quick_settings(server.port()));
  CHECK_FALSE(wait_for(client, put("k", "x")).failure);
  CHECK_FALSE(wait_for(client, put("k", "y")).failure);
  CHECK_FALSE(wait_for(client, head("other")).failure);
  const std::vector<Request> requests = server.requests();
  REQUIRE(requests.size() == 4);
  CHECK(scope_of(requests[2]).find("/eu-north-7/") != std::string::npos);
  CHECK(scope_of(requests[3]).find("/us-east-1/") != std::string::npos);
}

TEST_CASE("a region that an answer leaves out is asked for") {
  std::string region = "eu-north-7";
  ScriptedS3 server([&](const Request& request) {
    if (scope_of(request).find("/eu-north-7/") != std::string::npos) return Answer{};
    if (request.method == "HEAD") {
      return Answer{.status = 403, .headers = {{"x-amz-bucket-region", region}}};
    }
    return Answer::error(400, "IllegalLocationConstraintException");
  });
  const auto client = make_client(quick_settings(server.port()));
  SUBCASE("of the bucket, once") {
    CHECK_FALSE(wait_for(client, put("k", "x")).failure);
    CHECK_FALSE(wait_for(client, put("k", "y")).failure);
    const std::vector<Request> requests = server.requests();
    REQUIRE(requests.size() == 4);
    CHECK(requests[1].target == "/b");
    CHECK(requests[2].body == "x");
  }
  SUBCASE("or stays unknown") {
    region = "";
    const CallResult result = wait_for(client, put("k", "x"));
    REQUIRE(result.failure);
    CHECK(result.failure->code == "IllegalLocationConstraintException");
    CHECK(server.request_count() == 2);
  }
}

TEST_CASE("a redirect is followed with a new signature") {
  ScriptedS3 target([](const Request&) { return Answer{.headers = {{"ETag", "\"there\""}}}; });
  const std::string there = "127.0.0.1:" + std::to_string(target.port());
  const auto redirecting = [&](int status, std::string code, std::string location) {
    return [=](const Request&) {
      return code.empty() ? Answer{.status = status, .headers = {{"Location", location}}}
                          : Answer::error(status, code, {{"Location", location}});
    };
  };
  SUBCASE("for that call only, where it is temporary") {
    ScriptedS3 server(redirecting(307, "TemporaryRedirect", "http://" + there + "/b/k?x"));
    const auto client = make_client(quick_settings(server.port()));
    const CallResult result = wait_for(client, put("k", "x"));
    REQUIRE_MESSAGE(!result.failure, result.status.to_string());
    CHECK(result.head.header("etag") == "\"there\"");
    CHECK_FALSE(wait_for(client, put("k2", "y")).failure);
    CHECK(server.request_count() == 2);
    const std::vector<Request> requests = target.requests();
    REQUIRE(requests.size() == 2);
    CHECK(requests[0].target == "/b/k");
    CHECK(requests[0].body == "x");
    CHECK(requests[0].header("host") == there);
    CHECK(requests[0].header("authorization") != server.requests()[0].header("authorization"));
  }
  SUBCASE("and remembered, where it is permanent") {
    ScriptedS3 server(redirecting(301, "PermanentRedirect", "http://" + there + "/b/k"));
    const auto client = make_client(quick_settings(server.port()));
    CHECK_FALSE(wait_for(client, put("k", "x")).failure);
    CHECK_FALSE(wait_for(client, put("k2", "y")).failure);
    CHECK(server.request_count() == 1);
    CHECK(target.request_count() == 2);
  }
  SUBCASE("but not to another scheme or domain, nor without S3's word") {
    for (const auto& redirect : std::vector<std::pair<std::string, std::string>>{
             {"TemporaryRedirect", "https://" + there + "/b/k"},
             {"TemporaryRedirect", "http://localhost:" + std::to_string(target.port()) + "/b/k"},
             {"PermanentRedirect", "http://127.0.0.1.nip.io/b/k"},
             {"", "http://" + there + "/b/k"}}) {
      const std::string& code = redirect.first;
      const std::string& location = redirect.second;
      CAPTURE(code);
      CAPTURE(location);
      ScriptedS3 server(redirecting(code == "PermanentRedirect" ? 301 : 307, code, location));
      const auto client = make_client(quick_settings(server.port()));
      const CallResult result = wait_for(client, put("k", "x"));
      REQUIRE(result.failure);
      CHECK(result.failure->kind == FailureKind::kFinal);
      CHECK_MESSAGE(result.status.message().find("not followed") != std::string::npos,
                    result.status.message());
      CHECK(server.request_count() == 1);
      CHECK(target.request_count() == 0);
    }
  }
}

TEST_CASE("a store may refuse a large body before it is sent") {
  ScriptedS3 server([](const Request&) { return Answer{}; },
                    [](const Request& request) -> std::optional<Answer> {
                      if (request.header("expect").empty()) return std::nullopt;
                      if (request.path == "/b/welcome") return std::nullopt;
                      return Answer::error(403, "AccessDenied");
                    });
  const auto client = make_client(quick_settings(server.port()));
  const std::string text = pattern(0, (1U << 20U) + 1);
  const CallResult refused = wait_for(client, put("k", text));
  REQUIRE(refused.failure);
  CHECK(refused.status.code() == StatusCode::kPermissionDenied);
  const CallResult taken = wait_for(client, put("welcome", text));
  CHECK_MESSAGE(!taken.failure, taken.status.to_string());
  CHECK(server.requests().back().body == text);
  CHECK_FALSE(wait_for(client, put("k", text.substr(1))).failure);
}

TEST_CASE("a store that has taken a large body is not asked for the next one") {
  std::atomic<bool> refuses = false;
  ScriptedS3 server(
      [&](const Request&) { return refuses ? Answer::error(403, "AccessDenied") : Answer{}; });
  const auto client = make_client(quick_settings(server.port()));
  const std::string text = pattern(0, (1U << 20U) + 1);
  const auto asks = [&] {
    static_cast<void>(wait_for(client, put("k", text)));
    return !server.requests().back().header("expect").empty();
  };
  CHECK(asks());
  CHECK_FALSE(asks());
  refuses = true;
  CHECK_FALSE(asks());
  CHECK(asks());  // one was refused
}

TEST_CASE("a longer response than is taken is a failure") {
  ScriptedS3 server([](const Request&) { return Answer{.body = std::string(2000, 'x')}; });
  const auto client = make_client(quick_settings(server.port()));
  Call call = head();
  call.method = "GET";
  call.max_response_bytes = 1000;
  call.retry_limit = 0;
  CHECK(wait_for(client, call).failure);
  call.max_response_bytes = 2000;
  CHECK(wait_for(client, call).body.size() == 2000);
}

TEST_CASE("uploads take turns") {
  Gate gate;
  ScriptedS3 server([&](const Request&) {
    gate.pass();
    return Answer{};
  });
  Settings settings = quick_settings(server.port());
  settings.max_uploads = 1;
  const auto client = make_client(settings);
  const Outcome outcome = outcomes();
  const auto upload = [&](std::uint64_t stream, const std::string& key, bool urgent = false) {
    Call call = put(key, "x");
    call.is_upload = true;
    call.stream = stream;
    call.urgent = urgent;
    return client->call(std::move(call), into(outcome));
  };
  const std::uint64_t first = client->new_stream();
  const std::uint64_t second = client->new_stream();
  CHECK(first != second);
  upload(first, "1a");
  upload(first, "1b");
  upload(first, "1c");
  const Client::CallId cancelled = upload(first, "1d");
  upload(second, "2a");
  upload(second, "2b");
  upload(second, "2c", true);
  REQUIRE(gate.wait_for_waiting(1));
  client->cancel(cancelled, gone_into(outcome));
  REQUIRE(outcome->wait_until([](const Outcomes& all) { return all.gone == 1; }));
  // Others do not wait for them.
  const Outcome other = outcomes();
  client->call(head("b", "other"), into(other));
  REQUIRE(gate.wait_for_waiting(2));
  gate.open();
  REQUIRE(outcome->wait_until([](const Outcomes& all) { return all.results.size() == 6; }));
  REQUIRE(other->wait_until([](const Outcomes& all) { return all.results.size() == 1; }));
  std::vector<std::string> order;
  for (const Request& request : server.requests()) {
    if (request.method == "PUT") order.push_back(request.path);
  }
  CHECK(order == std::vector<std::string>{"/b/1a", "/b/2c", "/b/1b", "/b/2a", "/b/1c", "/b/2b"});
}

TEST_CASE("an upload that is let through by another's end does not wait for that one's thread") {
  Gate first;
  Gate queued;
  Gate held;
  ScriptedS3 server([&](const Request& request) {
    if (request.path == "/b/first") first.pass();
    if (request.path == "/b/queued") queued.pass();
    if (request.path == "/b/held") held.pass();
    return Answer{};
  });
  Settings settings = quick_settings(server.port());
  settings.max_uploads = 1;
  const auto client = make_client(settings);
  const auto upload = [](std::string key) {
    Call call = put(std::move(key), "x");
    call.is_upload = true;
    return call;
  };
  // What a signal's handler does while a call waits may take its time.
  class Busy final : public env::Interrupt {
   public:
    explicit Busy(std::function<void()> act) : act_(std::move(act)) {}

   private:
    Status check() override {
      act_();
      return {};
    }
    const std::function<void()> act_;
  };
  const Outcome outcome = outcomes();
  Busy busy([&] {
    if (server.request_count() < 3) return;
    queued.open();
    CHECK(outcome->wait_until([](const Outcomes& all) { return !all.results.empty(); }));
    held.open();
  });
  std::thread other([&] {
    static_cast<void>(first.wait_for_waiting(1));
    client->call(upload("queued"), into(outcome));
    first.open();
  });
  const std::vector<CallResult> results =
      client->call_and_wait({upload("first"), head("b", "held")}, busy);
  other.join();
  for (const CallResult& result : results) {
    CHECK_MESSAGE(!result.failure, result.status.to_string());
  }
  check_all_succeeded(outcome);
}

TEST_CASE("no more uploads than allowed are under way at once, and fewer when throttled") {
  std::atomic<int> running{0};
  std::atomic<int> most{0};
  std::atomic<int> count{0};
  ScriptedS3 server([&](const Request&) {
    const int now = ++running;
    int seen = most;
    while (now > seen && !most.compare_exchange_weak(seen, now)) {
    }
    const bool throttle = ++count % 7 == 0;
    --running;
    return throttle ? Answer::error(503, "SlowDown") : Answer{};
  });
  Settings settings = quick_settings(server.port());
  settings.max_uploads = 3;
  const auto client = make_client(settings);
  const Outcome outcome = outcomes();
  for (std::uint64_t i = 0; i < 60; ++i) {
    Call call = put("k", "x");
    call.is_upload = true;
    call.stream = i % 5;
    client->call(std::move(call), into(outcome));
  }
  REQUIRE(outcome->wait_until([](const Outcomes& all) { return all.results.size() == 60; }));
  check_all_succeeded(outcome);
  CHECK(most <= 3);
}

TEST_CASE("a cancelled call is gone from the network") {
  ScriptedS3 server([&](const Request&) { return Answer::silence(); });
  const auto client = make_client(quick_settings(server.port()));
  const Outcome outcome = outcomes();
  Call call = put("k", "x");
  const std::weak_ptr<const env::HttpBody> body = call.body;
  const Client::CallId id = client->call(std::move(call), into(outcome));
  REQUIRE(server.wait_for_requests(1));
  const auto body_left = std::make_shared<std::atomic<bool>>(true);
  client->cancel(id, [outcome, body, body_left] {
    *body_left = !body.expired();
    outcome->update([](Outcomes& all) { ++all.gone; });
  });
  REQUIRE(outcome->wait_until([](const Outcomes& all) { return all.gone == 1; }));
  CHECK_FALSE(*body_left);
  CHECK(server.wait_for_gone(1));
  CHECK(outcome->get().results.empty());
  // Again, and of what was never there: nothing but `gone`.
  client->cancel(id, gone_into(outcome));
  client->cancel(12345, gone_into(outcome));
  REQUIRE(outcome->wait_until([](const Outcomes& all) { return all.gone == 3; }));
}

// Passes a gate when it is read for the second time, and notes then whether it is still there.
class GatedBody final : public env::HttpBody {
 public:
  explicit GatedBody(Gate& gate) : gate_(gate) {}
  std::uint64_t size() const noexcept override { return 1; }
  std::ptrdiff_t read_at(std::uint64_t /*offset*/, MutableByteView out) const noexcept override {
    if (++reads_ == 2) gate_.pass();
    out[0] = static_cast<std::byte>(text_[0]);
    return 1;
  }

 private:
  Gate& gate_;
  mutable std::atomic<int> reads_ = 0;
  const std::string text_ = std::string(100, 'x');  // of the heap, which is free when it is gone
};

TEST_CASE("a call is cancelled while its refused body is hashed") {
  ScriptedS3 server([](const Request&) { return Answer::error(400, "XAmzContentSHA256Mismatch"); });
  const auto client = make_client(quick_settings(server.port()));
  const Outcome outcome = outcomes();
  Gate gate;
  Call call = put("k", "");
  call.is_upload = true;
  call.body = std::make_shared<GatedBody>(gate);
  const std::weak_ptr<const env::HttpBody> body = call.body;
  const Client::CallId id = client->call(std::move(call), into(outcome));
  REQUIRE(gate.wait_for_waiting(1));
  client->cancel(id, gone_into(outcome));
  CHECK_FALSE(body.expired());
  gate.open();
  REQUIRE(outcome->wait_until([](const Outcomes& all) { return all.gone == 1; }));
  CHECK(body.expired());
  CHECK(outcome->get().results.empty());
}

TEST_CASE("a call that pauses before another attempt can be cancelled") {
  ScriptedS3 server(
      [](const Request&) { return Answer::error(503, "SlowDown", {{"Retry-After", "50"}}); });
  const auto client = make_client(quick_settings(server.port()));
  const Outcome outcome = outcomes();
  Call call = put("k", "x");
  const std::weak_ptr<const env::HttpBody> body = call.body;
  const Client::CallId id = client->call(std::move(call), into(outcome));
  Statistics statistics;
  do {
    drain(client->loop());
    statistics.clear();
    client->add_statistics(statistics);
  } while (statistics["store_io_retry"] == 0);
  client->cancel(id, gone_into(outcome));
  REQUIRE(outcome->wait_until([](const Outcomes& all) { return all.gone == 1; }));
  CHECK(body.expired());
  CHECK(outcome->get().results.empty());
  CHECK(server.request_count() == 1);
}

TEST_CASE("a wait is interrupted") {
  ScriptedS3 server([&](const Request&) { return Answer::silence(); });
  const auto client = make_client(quick_settings(server.port()));
  AfterRequests interrupt(server, 1);
  const CallResult result = client->call_and_wait(put("k", "x"), interrupt);
  REQUIRE(result.failure);
  CHECK(result.status.code() == StatusCode::kInterrupted);
  CHECK(result.ambiguous);
  CHECK(server.wait_for_gone(1));  // cancelled
}

TEST_CASE("nobody is told after the client's end") {
  ScriptedS3 server([&](const Request& request) {
    if (request.path == "/b/slow") return Answer::silence();
    return Answer::error(503, "SlowDown", {{"Retry-After", "50"}});
  });
  Settings settings = quick_settings(server.port());
  settings.max_uploads = 1;
  auto client = make_client(settings);
  const Outcome outcome = outcomes();
  client->call(put("slow", "x"), into(outcome));
  client->call(put("pausing", "x"), into(outcome));
  for (int i = 0; i < 3; ++i) {
    Call call = put("slow", "x");
    call.is_upload = true;
    client->call(std::move(call), into(outcome));
  }
  REQUIRE(server.wait_for_requests(3));
  env::EventLoop& loop = client->loop();
  client.reset();
  CHECK(server.wait_for_gone(2));
  drain(loop);
  CHECK(outcome->get().results.empty());
}

TEST_CASE("a client may end in what it calls") {
  ScriptedS3 server([](const Request&) { return Answer{}; });
  auto client = make_client(quick_settings(server.port()));
  env::EventLoop& loop = client->loop();
  Shared<bool> called;
  auto* const last = new std::shared_ptr<Client>(std::move(client));
  (*last)->call(put("k", "x"), [last, &called](CallResult) {
    delete last;
    called.update([](bool& value) { value = true; });
  });
  REQUIRE(called.wait_until([](bool value) { return value; }));
  drain(loop);
}

TEST_CASE("a forked child is refused") {
  ScriptedS3 server([](const Request&) { return Answer{}; });
  auto client = make_client(quick_settings(server.port()));
  REQUIRE_FALSE(wait_for(client, put("k", "x")).failure);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    int failures = 0;
    StatusCode code = StatusCode::kOk;
    client->call(put("k", "x"), [&](CallResult result) { code = result.status.code(); });
    if (code != StatusCode::kForked) failures |= 1;
    if (wait_for(client, head()).status.code() != StatusCode::kForked) failures |= 2;
    if (!client->is_foreign()) failures |= 4;
    client->cancel(1);
    client.reset();
    ::_exit(failures);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK_FALSE(wait_for(client, put("k", "x")).failure);
  CHECK(server.request_count() == 2);
  CHECK(server.connection_count() == 1);  // still the parent's
}

// --- downloads

struct Downloaded {
  int heads = 0;
  std::string body;
  bool refuses = false;
  int refusals = 0;
  std::optional<CallResult> end;
};

class Recording final : public Download {
 public:
  void on_head(const env::HttpHead& head) override {
    state.update([&](Downloaded& all) { all.heads += head.status == 200 ? 1 : 1000; });
  }
  bool on_body(ByteView bytes) override {
    bool takes = false;
    state.update([&](Downloaded& all) {
      takes = !all.refuses;
      all.refusals += takes ? 0 : 1;
      if (takes) all.body += as_text(bytes);
    });
    return takes;
  }
  void on_end(CallResult result) override {
    state.update([&](Downloaded& all) { all.end = std::move(result); });
  }

  Shared<Downloaded> state;
};

Call get_object() {
  Call call;
  call.operation = "GetObject";
  call.method = "GET";
  call.bucket = "b";
  call.key = "k";
  return call;
}

bool has_end(const Downloaded& all) { return all.end.has_value(); }

TEST_CASE("a download streams, pauses and goes on") {
  const std::string content = pattern(0, 300'000);
  ScriptedS3 server([&](const Request&) { return Answer{.body = content}; });
  const auto client = make_client(quick_settings(server.port()));
  const auto download = std::make_shared<Recording>();
  download->state.update([](Downloaded& all) { all.refuses = true; });
  const Client::CallId id = client->get(get_object(), download);
  REQUIRE(download->state.wait_until([](const Downloaded& all) { return all.refusals > 0; }));
  drain(client->loop());
  CHECK(download->state.get().refusals == 1);
  download->state.update([](Downloaded& all) { all.refuses = false; });
  client->resume(id);
  REQUIRE(download->state.wait_until(has_end));
  const Downloaded all = download->state.get();
  CHECK_FALSE(all.end->failure);
  CHECK(all.end->body.empty());
  CHECK(all.body == content);
  CHECK(all.heads == 1);
}

TEST_CASE("a download is tried again before its first byte, and not after") {
  const std::string content = pattern(0, 50'000);
  SUBCASE("before") {
    ScriptedS3 server(in_turn({Answer::reset(), Answer::error(503, "SlowDown"),
                               Answer{.body = content, .cut_after = 0}, Answer{.body = content}}));
    const auto client = make_client(quick_settings(server.port()));
    const auto download = std::make_shared<Recording>();
    client->get(get_object(), download);
    REQUIRE(download->state.wait_until(has_end));
    const Downloaded all = download->state.get();
    CHECK_FALSE(all.end->failure);
    CHECK(all.end->attempts == 4);
    CHECK(all.body == content);
    CHECK(all.heads == 2);
  }
  SUBCASE("after") {
    ScriptedS3 server([&](const Request&) { return Answer{.body = content, .cut_after = 20'000}; });
    const auto client = make_client(quick_settings(server.port()));
    const auto download = std::make_shared<Recording>();
    client->get(get_object(), download);
    REQUIRE(download->state.wait_until(has_end));
    const Downloaded all = download->state.get();
    REQUIRE(all.end->failure);
    CHECK_FALSE(all.end->failure->transport.ok());
    CHECK(all.body == content.substr(0, 20'000));
    CHECK(server.request_count() == 1);
  }
  SUBCASE("refused") {
    ScriptedS3 server([&](const Request&) { return Answer::error(404, "NoSuchKey"); });
    const auto client = make_client(quick_settings(server.port()));
    const auto download = std::make_shared<Recording>();
    client->get(get_object(), download);
    REQUIRE(download->state.wait_until(has_end));
    const Downloaded all = download->state.get();
    REQUIRE(all.end->failure);
    CHECK(all.end->status.code() == StatusCode::kNotFound);
    CHECK(all.end->status.remote_class() == "NoSuchKey");
    CHECK(all.heads == 0);
    CHECK(all.body.empty());
  }
}

TEST_CASE("a download's error is not read without end") {
  ScriptedS3 server(
      [&](const Request&) { return Answer{.status = 403, .body = std::string(300'000, 'x')}; });
  const auto client = make_client(quick_settings(server.port()));
  const auto outcome_of = [&](std::size_t max_bytes) {
    const auto download = std::make_shared<Recording>();
    Call call = get_object();
    call.retry_limit = 0;
    call.max_response_bytes = max_bytes;
    client->get(std::move(call), download);
    REQUIRE(download->state.wait_until(has_end));
    const Downloaded all = download->state.get();
    REQUIRE(all.end->failure);
    CHECK(all.heads == 0);
    return all.end->status;
  };
  CHECK(outcome_of(300'000).code() == StatusCode::kPermissionDenied);
  CHECK(outcome_of(299'999).error_number() == EMSGSIZE);
}

// --- everything at once

TEST_CASE("a call for which there is no memory fails, and none after it") {
  ScriptedS3 server([](const Request&) { return Answer{}; });
  Settings settings = quick_settings(server.port());
  settings.max_uploads = 1;
  const auto client = make_client(settings);
  int thrown = 0;
  int tried_again = 0;
  bool is_enough = false;
  for (int number = 0; !is_enough; ++number) {
    const Outcome outcome = outcomes();
    Call call = put("k", "x");
    call.is_upload = true;
    Client::Done done = into(outcome);
    bool is_there = true;
    {
      const hflush::testing::ScarceMemory scarce(number);
      try {
        client->call(std::move(call), std::move(done));
      } catch (const std::bad_alloc&) {
        is_there = false;
        ++thrown;
      }
      is_enough = !scarce.has_failed();
    }
    if (is_there) {
      REQUIRE(outcome->wait_until([](const Outcomes& all) { return !all.results.empty(); }));
      const CallResult result = outcome->get().results[0];
      CHECK_MESSAGE(!result.failure, result.status.to_string());
      CHECK((result.attempts == 1 || !is_enough));
      if (result.attempts == 2) ++tried_again;
    }
    // There is room for another.
    const Outcome next = outcomes();
    Call upload = put("k", "y");
    upload.is_upload = true;
    client->call(std::move(upload), into(next));
    REQUIRE(next->wait_until([](const Outcomes& all) { return !all.results.empty(); }));
    CHECK(outcome->get().results.size() == (is_there ? 1 : 0));
  }
  CHECK(thrown > 3);
  CHECK(tried_again > 10);
}

TEST_CASE("many threads call and cancel") {
  std::atomic<std::uint64_t> served{0};
  ScriptedS3 server([&](const Request&) {
    switch (served.fetch_add(1) % 11) {
      case 3:
        return Answer::error(503, "SlowDown");
      case 7:
        return Answer::error(500, "InternalError");
      default:
        return Answer{.headers = {{"ETag", "\"e\""}}};
    }
  });
  Settings settings = quick_settings(server.port());
  settings.max_uploads = 4;
  const auto client = make_client(settings);
  constexpr int kThreads = 4;
  constexpr int kCalls = 60;
  const Outcome outcome = outcomes();
  std::atomic<int> not_cancelled{0};
  std::atomic<int> cancelled{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < kCalls; ++i) {
        Call call = put("k" + std::to_string(i), pattern(0, 1000));
        call.is_upload = i % 2 == 0;
        call.stream = static_cast<std::uint64_t>(thread);
        call.urgent = i % 10 == 0;
        const Client::CallId id = client->call(std::move(call), into(outcome));
        if (i % 5 == 1) {
          ++cancelled;
          client->cancel(id, gone_into(outcome));
        } else {
          ++not_cancelled;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  REQUIRE(outcome->wait_until([&](const Outcomes& all) {
    return all.gone == cancelled && static_cast<int>(all.results.size()) >= not_cancelled;
  }));
  check_all_succeeded(outcome);
}

TEST_CASE("many threads call and cancel while credentials are renewed") {
  std::atomic<std::uint64_t> served{0};
  ScriptedS3 server([&](const Request&) {
    return served.fetch_add(1) % 5 == 0 ? Answer::error(400, "ExpiredToken") : Answer{};
  });
  Settings settings = quick_settings(server.port());
  settings.max_uploads = 4;
  settings.retry.limit = 1000;  // of every five requests the one refused may be of the same call
  const auto credentials = some_credentials();
  const auto client = make_client(settings, credentials);
  constexpr int kThreads = 4;
  constexpr int kCalls = 60;
  const Outcome outcome = outcomes();
  std::atomic<bool> is_over{false};
  std::thread renews([&] {
    env::Uninterrupted interrupt;
    while (!is_over) {
      if (credentials->wait_until_wanted(milliseconds(10), interrupt)) {
        credentials->set({"AK2", std::string(kSecret), "token2"});
      }
    }
  });
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      std::vector<Client::CallId> ids;
      for (int i = 0; i < kCalls; ++i) {
        Call call = put("k" + std::to_string(i), "x");
        call.is_upload = i % 3 != 0;
        call.stream = static_cast<std::uint64_t>(thread);
        ids.push_back(client->call(std::move(call), into(outcome)));
        if (i % 4 == 3) client->cancel(ids[static_cast<std::size_t>(i) / 2], gone_into(outcome));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  constexpr int kCancelled = kThreads * kCalls / 4;
  const bool came = outcome->wait_until([&](const Outcomes& all) {
    return all.gone == kCancelled &&
           static_cast<int>(all.results.size()) >= kThreads * kCalls - kCancelled;
  });
  is_over = true;
  renews.join();
  REQUIRE(came);
  check_all_succeeded(outcome);
}

// A store that is down until it is said to be back, and a crowd of calls of it.
struct Crowd {
  explicit Crowd(std::size_t its_calls, const std::function<void(Settings&)>& change = {})
      : calls(its_calls), server([this](const Request&) {
          return back ? Answer{.headers = {{"ETag", "\"e1\""}}}
                      : Answer::error(500, "InternalError");
        }) {
    Settings settings = quick_settings(server.port());
    settings.retry.limit = 1000;
    settings.retry.max_interval = milliseconds(1);
    if (change) change(settings);
    client = make_client(settings);
    for (std::size_t i = 0; i < calls; ++i) ids.push_back(client->call(head(), into(outcome)));
  }
  // What the budget pays for at once: each call, its first retry, and those of 500 tokens.
  std::size_t at_once() const { return 2 * calls + 50; }

  const std::size_t calls;
  std::atomic<bool> back{false};
  ScriptedS3 server;
  std::shared_ptr<Client> client;
  Outcome outcome = outcomes();
  std::vector<Client::CallId> ids;
};

TEST_CASE("where the budget is used up calls wait in line, and follow the first that succeeds") {
  // The first needs ten tokens, at 400 ms each; without those that successes give back all would
  // need 400 s, and most would end at their deadline.
  Crowd crowd(100);
  REQUIRE(crowd.server.wait_for_requests(crowd.at_once()));
  CHECK(crowd.outcome->get().results.empty());  // nobody gives up for it
  crowd.back = true;
  REQUIRE(crowd.outcome->wait_until(
      [&](const Outcomes& all) { return all.results.size() == crowd.calls; }));
  for (const CallResult& result : crowd.outcome->get().results) CHECK_FALSE(result.failure);
}

TEST_CASE("a call in line ends at its deadline, with its last failure") {
  Crowd crowd(20, [](Settings& settings) { settings.retry.deadline = seconds(2); });
  REQUIRE(crowd.outcome->wait_until(
      [&](const Outcomes& all) { return all.results.size() == crowd.calls; }));
  for (const CallResult& result : crowd.outcome->get().results) {
    REQUIRE(result.failure);
    CHECK(result.failure->http_status == 500);
    CHECK(result.ambiguous);
  }
  CHECK(crowd.server.request_count() <= crowd.at_once() + 1);
}

TEST_CASE("a call in line is cancelled at once, and so is a crowd with its client") {
  Crowd crowd(20);
  REQUIRE(crowd.server.wait_for_requests(crowd.at_once()));
  for (std::size_t i = 0; i < 10; ++i) crowd.client->cancel(crowd.ids[i], gone_into(crowd.outcome));
  REQUIRE(crowd.outcome->wait_until([](const Outcomes& all) { return all.gone == 10; }));
  crowd.client.reset();
  crowd.back = true;
  CHECK(crowd.outcome->get().results.empty());
}

TEST_CASE("several calls at once are under way together, and answered in order") {
  Gate gate;
  ScriptedS3 server([&](const Request& request) {
    gate.pass();
    return request.path.ends_with('2') ? Answer::error(404, "NoSuchKey")
                                       : Answer{.headers = {{"x-name", request.path}}};
  });
  const auto client = make_client(quick_settings(server.port()));
  std::thread opens([&] {
    static_cast<void>(gate.wait_for_waiting(3));
    gate.open();
  });
  env::Uninterrupted interrupt;
  const std::vector<CallResult> results =
      client->call_and_wait({head("b", "k1"), head("b", "k2"), head("b", "k3")}, interrupt);
  opens.join();
  REQUIRE(results.size() == 3);
  CHECK(results[0].head.header("x-name") == "/b/k1");
  REQUIRE(results[1].failure);
  CHECK(results[1].failure->http_status == 404);
  CHECK(results[2].head.header("x-name") == "/b/k3");
  CHECK(client->call_and_wait(std::vector<Call>{}, interrupt).empty());
}

TEST_CASE("several calls are interrupted together") {
  ScriptedS3 server([](const Request& request) {
    return request.path.ends_with('1') ? Answer{} : Answer::silence();
  });
  const auto client = make_client(quick_settings(server.port()));
  AfterRequests interrupt(server, 2);
  const std::vector<CallResult> results =
      client->call_and_wait({head("b", "k1"), head("b", "k2")}, interrupt);
  REQUIRE(results.size() == 2);
  for (const CallResult& result : results) {
    CHECK(result.status.code() == StatusCode::kInterrupted);
    CHECK(result.ambiguous);
  }
}

TEST_CASE("several calls are interrupted, whatever arrives while the caller is asked") {
  Gate gate;
  ScriptedS3 server([&](const Request&) {
    gate.pass();
    return Answer{};
  });
  Settings settings = quick_settings(server.port());
  settings.http.direct = false;  // by the loop: else they arrive when the caller looks
  const auto client = make_client(settings);
  class AfterTheAnswers final : public env::Interrupt {
   public:
    AfterTheAnswers(Gate& gate, Client& client,
                    std::vector<std::weak_ptr<const env::HttpBody>> sent)
        : gate_(gate), client_(client), sent_(std::move(sent)) {}

   private:
    Status check() override {
      REQUIRE(gate_.wait_for_waiting(2));
      gate_.open();
      // What was sent is let go before somebody is told, on the loop thread.
      const auto deadline = std::chrono::steady_clock::now() + kPatience;
      while (!std::ranges::all_of(sent_, [](const auto& body) { return body.expired(); })) {
        REQUIRE(std::chrono::steady_clock::now() < deadline);
        std::this_thread::yield();
      }
      drain(client_.loop());
      return {StatusCode::kInterrupted, "enough"};
    }
    Gate& gate_;
    Client& client_;
    const std::vector<std::weak_ptr<const env::HttpBody>> sent_;
  };
  std::vector<Call> calls{put("k1", "1"), put("k2", "2")};
  AfterTheAnswers interrupt(gate, *client, {calls[0].body, calls[1].body});
  const std::vector<CallResult> results = client->call_and_wait(std::move(calls), interrupt);
  REQUIRE(results.size() == 2);
  for (const CallResult& result : results) {
    CHECK(result.status.code() == StatusCode::kInterrupted);
    CHECK(result.ambiguous);
  }
}

}  // namespace
}  // namespace hflush::s3
