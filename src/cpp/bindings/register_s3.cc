// S3: one client, its calls, uploads and files. Every function converts, gives the GIL up, makes
// one call of the core and converts back; while it waits, Python's signal handlers run.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "attributes.h"
#include "buffers.h"
#include "errors.h"
#include "gil.h"
#include "hflush/env/clock.h"
#include "hflush/env/own_process.h"
#include "hflush/s3/call/client.h"
#include "hflush/s3/call/credentials.h"
#include "hflush/s3/call/encoding.h"
#include "hflush/s3/memory_budget.h"
#include "hflush/s3/read/s3_source.h"
#include "hflush/s3/upload/completion.h"
#include "hflush/s3/upload/open_for_write.h"
#include "hflush/s3/upload/part_sizes.h"
#include "hflush/s3/upload/upload_calls.h"
#include "opened_stream.h"
#include "register.h"
#include "signals.h"
#include "statistics.h"
#include "text.h"

namespace py = pybind11;

namespace hflush::bindings {
namespace {

using s3::Call;
using s3::CallResult;
using s3::Client;
using s3::CredentialStore;
using s3::ObjectOptions;
using s3::ReadOptions;
using s3::Settings;

// --- values

using Pairs = std::vector<std::pair<py::str, py::str>>;

// Values are not named in what is raised: they may be keys.
std::vector<env::HttpHeader> headers_of(const Pairs& pairs) {
  std::vector<env::HttpHeader> headers;
  headers.reserve(pairs.size());
  for (const auto& [name, value] : pairs) {
    env::HttpHeader& header = headers.emplace_back(env::HttpHeader{to_utf8(name), to_utf8(value)});
    if (!s3::is_header_name(header.name)) throw py::value_error("no header's name: " + header.name);
    if (!s3::is_header_value(header.value)) {
      throw py::value_error("control characters in the value of header " + header.name);
    }
  }
  return headers;
}

py::list pairs_of(const std::vector<env::HttpHeader>& headers) {
  py::list pairs;
  for (const env::HttpHeader& header : headers) {
    pairs.append(py::make_tuple(from_utf8(header.name), from_utf8(header.value)));
  }
  return pairs;
}

py::object error_of(const Status& status) {
  return status.ok() ? py::object(py::none()) : make_exception(status);
}

// True unless `timeout` seconds passed.
template <typename Wait>
bool wait_at_most(double timeout, const Wait& wait) {
  const env::Duration at_most = duration_of(timeout);
  const Status waited = waiting([&](SignalCheck& signals) { return wait(at_most, signals); });
  if (waited.code() == StatusCode::kTimedOut) return false;
  check(waited);
  return true;
}

// --- the client

// A native client, made when it is needed first, and again in a forked child. Used with the GIL.
class S3Client {
 public:
  S3Client(Settings settings, std::string access_key, std::string secret_key,
           std::string session_token)
      : settings_(std::move(settings)),
        credentials_{std::move(access_key), std::move(secret_key), std::move(session_token)} {}
  ~S3Client() { close(); }
  S3Client(const S3Client&) = delete;
  S3Client& operator=(const S3Client&) = delete;

  std::shared_ptr<Client> client() {
    if (client_.here() == nullptr) {
      client_ = env::OwnProcess(value(Client::make(settings_, store())));
    }
    return client_.shared();
  }

  // The client that exists in this process, if one does.
  std::shared_ptr<Client> existing() const { return client_.shared(); }

  std::shared_ptr<CredentialStore> store() {
    if (store_.here() == nullptr) {
      store_ = env::OwnProcess(std::make_shared<CredentialStore>(credentials_));
    }
    return store_.shared();
  }

  void set_credentials(std::string access_key, std::string secret_key, std::string session_token) {
    credentials_ = {std::move(access_key), std::move(secret_key), std::move(session_token)};
    const std::shared_ptr<CredentialStore> told = store();
    const s3::Credentials newest = credentials_;  // which the GIL guards
    const ReleasedGil released;
    told->set(newest);
  }

  // Releases the client; streams and files keep it, and the next call makes another one.
  void close() {
    env::OwnProcess<Client> closing = std::move(client_);
    const ReleasedGil released;
    closing = {};
  }

 private:
  const Settings settings_;
  s3::Credentials credentials_;
  env::OwnProcess<CredentialStore> store_;
  env::OwnProcess<Client> client_;
};

bool wait_credentials_wanted(S3Client& self, double timeout) {
  const env::Duration at_most = duration_of(timeout);
  const bool wanted = waiting([&, store = self.store()](SignalCheck& signals) {
    return store->wait_until_wanted(at_most, signals);
  });
  if (PyErr_Occurred() != nullptr) throw py::error_already_set();
  return wanted;
}

// --- calls

struct S3Response {
  int status = 0;
  py::dict headers;
  py::bytes body;
  py::object error;
  std::string_view kind;
  bool ambiguous = false;
  int attempts = 0;
};

S3Response response_of(CallResult result) {
  // What a signal handler raised is set already.
  if (result.status.code() == StatusCode::kInterrupted) check(result.status);
  S3Response response;
  response.status = result.head.status;
  std::map<std::string, std::string> headers;
  for (const env::HttpHeader& header : result.head.headers) {
    std::string& value = headers[header.name];
    value += value.empty() ? header.value : ", " + header.value;
  }
  for (const auto& [name, value] : headers) response.headers[from_utf8(name)] = from_utf8(value);
  response.body = py::bytes(result.body);
  response.error = error_of(result.status);
  if (result.failure) response.kind = s3::to_string(result.failure->kind);
  response.ambiguous = result.ambiguous;
  response.attempts = result.attempts;
  return response;
}

// A call as Python describes it. `path` is for messages.
struct S3Call {
  Call call;
  std::string path;
  py::object body = py::none();
};

// A 200 alone is not an answer: a login page has it, too.
S3Call describe(const py::str& operation, const py::str& method, const py::str& bucket,
                const py::str& key, const py::str& path, const Pairs& query, const Pairs& headers) {
  S3Call described;
  described.path = to_utf8(path);
  Call& call = described.call;
  call.operation = to_utf8(operation);
  call.method = to_utf8(method);
  call.bucket = to_utf8(bucket);
  call.key = to_utf8(key);
  for (const auto& [name, text] : query) call.query.emplace_back(to_utf8(name), to_utf8(text));
  call.headers = headers_of(headers);
  if (call.method == "DELETE") call.expect = s3::Expect::kNoBody;
  if (call.method == "HEAD") call.expect = s3::Expect::kHead;
  return described;
}

void expect_root(S3Call& self, const py::str& root) {
  self.call.root = to_utf8(root);
  self.call.expect = s3::Expect::kRoot;
}

S3Response response_to(const S3Call& asked, CallResult result) {
  if (!result.status.ok()) result.status = result.status.with_path(asked.path);
  return response_of(std::move(result));
}

S3Response make_call(S3Client& self, const S3Call& asked) {
  const std::shared_ptr<Client> client = self.client();
  Call call = asked.call;
  std::optional<BufferView> view;
  if (!asked.body.is_none()) view.emplace(asked.body);
  CallResult result = waiting([&](SignalCheck& signals) {
    // A copy, made without the GIL: it may be read after an interruption of this call.
    if (view) call.body = s3::text_body(std::string(as_text(view->bytes())));
    return client->call_and_wait(std::move(call), signals);
  });
  return response_to(asked, std::move(result));
}

// Several without bodies at once, which take as long as the slowest of them.
std::vector<S3Response> ask(S3Client& self, const std::vector<S3Call>& asked) {
  const std::shared_ptr<Client> client = self.client();
  std::vector<Call> calls;
  calls.reserve(asked.size());
  for (const S3Call& one : asked) calls.push_back(one.call);
  std::vector<CallResult> results = waiting(
      [&](SignalCheck& signals) { return client->call_and_wait(std::move(calls), signals); });
  for (const CallResult& result : results) {
    if (result.status.code() == StatusCode::kInterrupted) check(result.status);
  }
  std::vector<S3Response> responses;
  responses.reserve(results.size());
  for (std::size_t i = 0; i < results.size(); ++i) {
    responses.push_back(response_to(asked[i], std::move(results[i])));
  }
  return responses;
}

// --- the calls of an upload

constexpr Named<s3::Holders> kHolders[] = {
    {"one", s3::Holders::kOne},
    {"equal", s3::Holders::kEqual},
    {"first", s3::Holders::kFirst},
};

// Number, etag, size, CRC32C.
using Part = std::tuple<std::uint32_t, py::str, std::uint64_t, std::uint32_t>;

std::vector<s3::PartReceipt> receipts_of(const std::vector<Part>& parts) {
  std::vector<s3::PartReceipt> receipts;
  receipts.reserve(parts.size());
  for (const auto& [number, etag, size, crc32c] : parts) {
    receipts.push_back({number, to_utf8(etag), size, crc32c});
  }
  return receipts;
}

struct S3Completed {
  std::string_view outcome;
  std::string etag;
  py::object error;
  std::string_view kind;
};

// The calls of one object's upload, each made and waited for.
class UploadCaller {
 public:
  UploadCaller(S3Client& client, const py::str& key, ObjectOptions options, const py::str& token)
      : client_(client), options_(std::move(options)), token_(to_utf8(token)) {
    options_.key = to_utf8(key);
  }

  S3Response create(bool checksums) {
    return make([&](const s3::UploadCalls& calls) { return calls.create({checksums, false}); });
  }
  S3Response put_object(const py::object& body) {
    const BufferView view(body);
    return make([&](const s3::UploadCalls& calls) {
      return calls.put_object(s3::body_of(std::string(as_text(view.bytes())), true));
    });
  }
  S3Response upload_part(const py::str& upload_id, std::uint32_t number, const py::object& body,
                         bool checksums) {
    const BufferView view(body);
    const std::string id = to_utf8(upload_id);
    return make([&](const s3::UploadCalls& calls) {
      s3::PartBody part = s3::body_of(std::string(as_text(view.bytes())), !checksums);
      const bool with_crc = part.md5.empty();
      return calls.upload_part(id, number, std::move(part), {with_crc, false});
    });
  }
  S3Response complete(const py::str& upload_id, const std::vector<Part>& parts) {
    const std::string id = to_utf8(upload_id);
    const std::vector<s3::PartReceipt> receipts = receipts_of(parts);
    return make([&](const s3::UploadCalls& calls) {
      return calls.complete(id, receipts, s3::total_size(receipts), 0, {});
    });
  }
  S3Response list_parts(const py::str& upload_id) {
    const std::string id = to_utf8(upload_id);
    return make([&](const s3::UploadCalls& calls) { return calls.list_parts(id); });
  }
  S3Response abort(const py::str& upload_id) {
    const std::string id = to_utf8(upload_id);
    return make([&](const s3::UploadCalls& calls) {
      Call call = calls.abort(id);
      call.retry_limit.reset();  // a caller waits for it
      return call;
    });
  }

  S3Completed publish(const py::str& upload_id, const std::vector<Part>& parts, bool checksums,
                      std::optional<std::uint32_t> crc32c, const std::string& holders) {
    s3::Completion what{to_utf8(upload_id),
                        receipts_of(parts),
                        {checksums, crc32c.has_value()},
                        crc32c.value_or(0),
                        value_of(kHolders, "holders", holders)};
    const std::shared_ptr<Client> client = client_.client();
    s3::Completed done = waiting([&](SignalCheck& signals) {
      return s3::complete(*client, calls_of(*client), what, signals);
    });
    if (done.failure.code() == StatusCode::kInterrupted) check(done.failure);
    return {s3::to_string(done.outcome), std::move(done.etag), error_of(done.failure),
            s3::to_string(done.kind)};
  }

 private:
  s3::UploadCalls calls_of(Client& client) const {
    return {client.settings(), options_, token_, client.new_stream()};
  }

  template <typename Ask>
  S3Response make(const Ask& ask) {
    const std::shared_ptr<Client> client = client_.client();
    CallResult result = waiting([&](SignalCheck& signals) {
      return client->call_and_wait(ask(calls_of(*client)), signals);
    });
    if (!result.status.ok()) result.status = result.status.with_path(options_.path);
    return response_of(std::move(result));
  }

  S3Client& client_;  // which Python keeps
  ObjectOptions options_;
  const std::string token_;
};

// --- uploads

class UploadHandle {
 public:
  explicit UploadHandle(std::shared_ptr<s3::S3Upload> upload) : upload_(std::move(upload)) {}

  bool is_foreign() const noexcept { return upload_.here() == nullptr; }

  // Throws in a forked child.
  s3::S3Upload& upload() const {
    if (is_foreign()) {
      check(Status(StatusCode::kForked, "the upload was begun before fork, by another process"));
    }
    return *upload_.here();
  }

 private:
  env::OwnProcess<s3::S3Upload> upload_;
};

py::dict outcome(const UploadHandle& self) {
  const s3::UploadOutcome outcome = self.upload().outcome();
  py::list parts;
  for (const s3::PartReceipt& part : outcome.parts) {
    parts.append(py::make_tuple(part.number, from_utf8(part.etag), part.size, part.crc32c));
  }
  py::list others;
  for (const Status& other : outcome.others) others.append(make_exception(other));
  py::dict values;
  values["state"] = s3::to_string(outcome.state);
  values["upload_id"] = from_utf8(outcome.upload_id);
  values["etag"] = from_utf8(outcome.etag);
  values["version_id"] = from_utf8(outcome.version_id);
  values["size"] = outcome.size;
  values["parts"] = parts;
  values["crc32c"] = outcome.crc32c;
  values["has_checksums"] = outcome.has_checksums;
  values["full_object_checksum"] = outcome.full_object_checksum;
  values["token"] = outcome.token;
  values["others"] = others;
  values["cleanup"] = error_of(outcome.cleanup);
  values["cleaned_up"] = outcome.cleaned_up;
  return values;
}

bool wait_cleaned_up(const UploadHandle& self, double timeout) {
  s3::S3Upload& upload = self.upload();
  return wait_at_most(timeout, [&upload](env::Duration at_most, SignalCheck& signals) {
    return upload.wait_cleaned_up(at_most, signals);
  });
}

py::tuple create(S3Client& self, const py::type& stream_type, const py::str& path,
                 const ObjectOptions& options) {
  s3::OpenedObject opened = s3::open_for_write(self.client(), to_utf8(path), options);
  auto upload = std::make_unique<UploadHandle>(std::move(opened.upload));
  py::object made = make_stream(stream_type, std::move(opened.stream));
  return py::make_tuple(std::move(made), py::cast(std::move(upload)));
}

// --- files

std::unique_ptr<stream::Source> open(S3Client& self, const py::str& path,
                                     const ReadOptions& options) {
  ReadOptions named = options;
  named.path = to_utf8(path);
  return value(s3::S3Source::open(self.client(), std::move(named)));
}

// --- settings and options

template <typename Type, typename Of>
void header_attribute(Type& type, const char* name, Of of) {
  // clang 14 wants it.
  using Owner = typename Type::type;  // NOLINT(readability-redundant-typename)
  type.def_property(
      name, [of](const Owner& self) { return pairs_of(std::invoke(of, self)); },
      [of](Owner& self, const Pairs& pairs) { std::invoke(of, self) = headers_of(pairs); });
}

constexpr Named<s3::PayloadSigning> kPayloadSignings[] = {
    {"auto", s3::PayloadSigning::kAuto},
    {"always", s3::PayloadSigning::kAlways},
    {"never", s3::PayloadSigning::kNever},
};
constexpr Named<s3::Buffering> kBufferings[] = {
    {"memory", s3::Buffering::kMemory},
    {"disk", s3::Buffering::kDisk},
    {"adaptive", s3::Buffering::kAdaptive},
};

void register_settings(py::module_& module) {
  py::class_<Settings> type(module, "S3Settings", py::is_final());
  type.def(py::init<>());
  const auto add = [&type](const char* name, auto of) { attribute(type, name, of); };
  add("scheme", &Settings::scheme);
  add("host", &Settings::host);
  add("port", &Settings::port);
  add("region", &Settings::region);
  add("follows_regions", &Settings::follows_regions);
  add("path_style", &Settings::path_style);
  add("content_md5", &Settings::content_md5);
  add("checksums", &Settings::checksums);
  add("expect_continue", &Settings::expect_continue);
  add("max_uploads", &Settings::max_uploads);
  add("connect_timeout", &Settings::connect_timeout);
  add("stall_timeout", &Settings::stall_timeout);
  add("complete_timeout", &Settings::complete_timeout);
  add("retry_limit", [](Settings& self) -> auto& { return self.retry.limit; });
  add("retry_interval", [](Settings& self) -> auto& { return self.retry.interval; });
  add("retry_throttle_limit", [](Settings& self) -> auto& { return self.retry.throttle_limit; });
  add("retry_throttle_interval",
      [](Settings& self) -> auto& { return self.retry.throttle_interval; });
  add("retry_deadline", [](Settings& self) -> auto& { return self.retry.deadline; });
  add("credentials_wait", [](Settings& self) -> auto& { return self.retry.credentials_wait; });
  add("retry_5xx", [](Settings& self) -> auto& { return self.retry.retry_5xx; });
  add("verify_peer", [](Settings& self) -> auto& { return self.http.verify_peer; });
  add("ca_file", [](Settings& self) -> auto& { return self.http.ca_file; });
  add("proxy", [](Settings& self) -> auto& { return self.http.proxy; });
  add("proxy_user", [](Settings& self) -> auto& { return self.http.proxy_user; });
  add("proxy_password", [](Settings& self) -> auto& { return self.http.proxy_password; });
  add("no_proxy", [](Settings& self) -> auto& { return self.http.no_proxy; });
  add("user_agent", [](Settings& self) -> auto& { return self.http.user_agent; });
  add("max_connections", [](Settings& self) -> auto& { return self.http.max_connections; });
  add("upload_timeout", &Settings::upload_timeout);
  add("request_timeout", &Settings::request_timeout);
  add("idle_timeout", [](Settings& self) -> auto& { return self.http.idle_timeout; });
  choice(type, "payload_signing", &Settings::payload_signing, kPayloadSignings);
}

void register_object_options(py::module_& module) {
  py::class_<ObjectOptions> type(module, "S3ObjectOptions", py::is_final());
  type.def(py::init<>()).def("copy", [](const ObjectOptions& self) { return self; });
  const auto add = [&type](const char* name, auto of) { attribute(type, name, of); };
  add("bucket", &ObjectOptions::bucket);
  add("path", &ObjectOptions::path);
  add("verify_encryption", &ObjectOptions::verify_encryption);
  header_attribute(type, "headers", &ObjectOptions::headers);
  header_attribute(type, "request_headers", &ObjectOptions::request_headers);
  add("block_bytes", &ObjectOptions::block_bytes);
  add("uniform_parts", &ObjectOptions::uniform_parts);
  add("max_parts", &ObjectOptions::max_parts);
  add("active_blocks", &ObjectOptions::active_blocks);
  add("buffer_directory", &ObjectOptions::buffer_directory);
  add("memory_bytes", &ObjectOptions::memory_bytes);
  add("if_absent", [](ObjectOptions& self) -> auto& { return self.condition.if_absent; });
  add("if_match", [](ObjectOptions& self) -> auto& { return self.condition.if_match; });
  add("delayed", &ObjectOptions::delayed);
  choice(type, "buffering", &ObjectOptions::buffering, kBufferings);
}

void register_read_options(py::module_& module) {
  py::class_<ReadOptions> type(module, "S3ReadOptions", py::is_final());
  type.def(py::init<>());
  const auto add = [&type](const char* name, auto of) { attribute(type, name, of); };
  add("bucket", &ReadOptions::bucket);
  add("key", &ReadOptions::key);
  add("size", &ReadOptions::size);
  add("etag", &ReadOptions::etag);
  add("version_id", &ReadOptions::version_id);
  header_attribute(type, "request_headers", &ReadOptions::request_headers);
  add("readahead_bytes", &ReadOptions::readahead_bytes);
  add("window_bytes", &ReadOptions::window_bytes);
}

void register_call(py::module_& module) {
  py::class_<S3Call> type(module, "S3Call", py::is_final());
  type.def(py::init(&describe), py::arg("operation"), py::arg("method"), py::arg("bucket"),
           py::arg("key"), py::arg("path"), py::arg("query"), py::arg("headers"))
      .def_readwrite("body", &S3Call::body)
      .def_property("expect_root", [](const S3Call& self) { return self.call.root; }, &expect_root);
  attribute(type, "stall_timeout", [](S3Call& self) -> auto& { return self.call.stall_timeout; });
}

void register_response(py::module_& module) {
  py::class_<S3Response>(module, "S3Response", py::is_final())
      .def_readonly("status", &S3Response::status)
      .def_readonly("headers", &S3Response::headers)
      .def_readonly("body", &S3Response::body)
      .def_readonly("error", &S3Response::error)
      .def_readonly("kind", &S3Response::kind)
      .def_readonly("ambiguous", &S3Response::ambiguous)
      .def_readonly("attempts", &S3Response::attempts);
}

void register_upload_calls(py::module_& module) {
  py::class_<S3Completed>(module, "S3Completed", py::is_final())
      .def_readonly("outcome", &S3Completed::outcome)
      .def_property_readonly("etag", [](const S3Completed& self) { return from_utf8(self.etag); })
      .def_readonly("error", &S3Completed::error)
      .def_readonly("kind", &S3Completed::kind);
  py::class_<UploadCaller>(module, "S3UploadCalls", py::is_final())
      .def(py::init<S3Client&, const py::str&, ObjectOptions, const py::str&>(), py::arg("client"),
           py::arg("key"), py::arg("options"), py::arg("token"), py::keep_alive<1, 2>())
      .def("create", &UploadCaller::create, py::kw_only(), py::arg("checksums"))
      .def("put_object", &UploadCaller::put_object, py::arg("body"))
      .def("upload_part", &UploadCaller::upload_part, py::arg("upload_id"), py::arg("number"),
           py::arg("body"), py::kw_only(), py::arg("checksums"))
      .def("complete", &UploadCaller::complete, py::arg("upload_id"), py::arg("parts"))
      .def("list_parts", &UploadCaller::list_parts, py::arg("upload_id"))
      .def("abort", &UploadCaller::abort, py::arg("upload_id"))
      .def("publish", &UploadCaller::publish, py::arg("upload_id"), py::arg("parts"), py::kw_only(),
           py::arg("checksums"), py::arg("crc32c"), py::arg("holders"));
  module.attr("S3_TOKEN_HEADER") = from_utf8(s3::UploadCalls::kTokenHeader);
  module.attr("S3_MIN_PART") = s3::PartSizes::kMinPart;
  module.attr("S3_MAX_PART") = s3::PartSizes::kMaxPart;
  module.attr("S3_MAX_PARTS") = s3::PartSizes::kMaxParts;
  module.attr("S3_MAX_OBJECT") = s3::PartSizes::kMaxObject;
}

void register_upload(py::module_& module) {
  py::class_<UploadHandle>(module, "S3Upload", py::is_final())
      .def_property_readonly("is_foreign", &UploadHandle::is_foreign)
      .def("outcome", &outcome)
      .def_property_readonly(
          "cleanup",
          [](const UploadHandle& self) { return error_of(self.upload().outcome().cleanup); })
      .def("wait_cleaned_up", &wait_cleaned_up, py::arg("timeout"));
}

py::dict statistics(S3Client& self) {
  Statistics counted;
  if (const std::shared_ptr<Client> client = self.existing()) client->add_statistics(counted);
  return to_dict(counted);
}

// Header names of `answered` are in lower case, as S3Response has them.
py::str encryption_difference(const Pairs& asked, const py::dict& answered) {
  env::HttpHead head;
  for (const auto& [name, text] : answered) {
    head.headers.push_back({to_utf8(py::str(name)), to_utf8(py::str(text))});
  }
  return from_utf8(s3::encryption_difference(headers_of(asked), head));
}

bool drain(double timeout) {
  return wait_at_most(timeout, [](env::Duration at_most, SignalCheck& signals) {
    return s3::wait_for_cleanups(at_most, signals);
  });
}

}  // namespace

void register_s3(py::module_& module) {
  register_settings(module);
  register_object_options(module);
  register_read_options(module);
  register_call(module);
  register_response(module);
  register_upload(module);

  py::class_<S3Client>(module, "S3Client", py::is_final())
      .def(py::init<Settings, std::string, std::string, std::string>(), py::arg("settings"),
           py::arg("access_key"), py::arg("secret_key"), py::arg("session_token"))
      .def("set_credentials", &S3Client::set_credentials, py::arg("access_key"),
           py::arg("secret_key"), py::arg("session_token"))
      .def("wait_credentials_wanted", &wait_credentials_wanted, py::arg("timeout"))
      .def("call", &make_call, py::arg("call"))
      .def("ask", &ask, py::arg("calls"))
      .def("create", &create, py::arg("stream_type"), py::arg("path"), py::arg("options"))
      .def("open", &open, py::arg("path"), py::arg("options"))
      .def("statistics", &statistics)
      .def("close", &S3Client::close);
  module.def(
      "s3_is_header_name", [](const py::str& name) { return s3::is_header_name(to_utf8(name)); },
      py::arg("name"));
  register_upload_calls(module);
  module.def("s3_encryption_difference", &encryption_difference, py::arg("asked"),
             py::arg("answered"));
  module.def("s3_drain", &drain, py::arg("timeout"));
  module.def("s3_limit_memory", &s3::MemoryBudget::limit_process_to, py::arg("bytes"));
  module.def("s3_memory", [] {
    const s3::MemoryBudget& budget = s3::MemoryBudget::of_process();
    return std::pair(budget.held(), budget.total());
  });
}

}  // namespace hflush::bindings
