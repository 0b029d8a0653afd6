// S3: one client, its calls and files. Every function converts, gives the GIL up, makes one call of
// the core and converts back; while it waits, Python's signal handlers run.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstddef>
#include <cstdint>
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
#include "hflush/env/clock.h"
#include "hflush/s3/call/client.h"
#include "hflush/s3/call/encoding.h"
#include "hflush/s3/call/first_key.h"
#include "hflush/s3/call/outcome.h"
#include "hflush/s3/memory_budget.h"
#include "hflush/s3/read/s3_source.h"
#include "register.h"
#include "s3_client.h"
#include "s3_headers.h"
#include "signals.h"
#include "statistics.h"
#include "text.h"

namespace py = pybind11;

namespace hflush::bindings {
namespace {

using s3::Call;
using s3::CallResult;
using s3::Client;
using s3::ReadOptions;
using s3::Settings;

bool wait_credentials_wanted(S3Client& self, double timeout) {
  const env::Duration at_most = duration_of(timeout);
  const bool wanted = waiting([&, store = self.store()](SignalCheck& signals) {
    return store->wait_until_wanted(at_most, signals);
  });
  if (PyErr_Occurred() != nullptr) throw py::error_already_set();
  return wanted;
}

// --- calls

// A call as Python describes it. `path` is for messages.
struct S3Call {
  Call call;
  std::string path;
  py::object body = py::none();
};

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
  call.expect = s3::usual_expect(call.method);
  return described;
}

void expect_root(S3Call& self, const py::str& root) {
  self.call.root = to_utf8(root);
  self.call.expect = s3::Expect::kRoot;
}

void expect_root_or_nothing(S3Call& self, const py::str& root) {
  self.call.root = to_utf8(root);
  self.call.expect = s3::Expect::kRootOrNothing;
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
    if (view) call.body = env::text_body(std::string(as_text(view->bytes())));
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

// Whether any key begins with `prefix`; the response, where that takes a closer look.
py::object has_keys(S3Client& self, const py::str& bucket, const py::str& prefix,
                    const py::str& path, const Pairs& headers) {
  const std::shared_ptr<Client> client = self.client();
  S3Call asked{s3::first_key_call(to_utf8(bucket), to_utf8(prefix), headers_of(headers)),
               to_utf8(path)};
  std::optional<bool> has;
  CallResult result = waiting_for(client->loop(), [&](SignalCheck& signals) {
    CallResult answer = client->call_and_wait(asked.call, signals);
    has = s3::has_first_key(answer);
    return answer;
  });
  if (has) return py::bool_(*has);
  return py::cast(response_to(asked, std::move(result)));
}

// --- files

std::unique_ptr<stream::Source> open(S3Client& self, const py::str& path,
                                     const ReadOptions& options) {
  ReadOptions named = options;
  named.path = to_utf8(path);
  return value(s3::S3Source::open(self.client(), std::move(named)));
}

void register_call(py::module_& module) {
  py::class_<S3Call> type(module, "S3Call", py::is_final());
  type.def(py::init(&describe), py::arg("operation"), py::arg("method"), py::arg("bucket"),
           py::arg("key"), py::arg("path"), py::arg("query"), py::arg("headers"))
      .def_readwrite("body", &S3Call::body)
      .def_property(
          "expect_root", [](const S3Call& self) { return self.call.root; }, &expect_root)
      .def_property(
          "expect_root_or_nothing", [](const S3Call& self) { return self.call.root; },
          &expect_root_or_nothing);
  attribute(type, "stall_timeout", [](S3Call& self) -> auto& { return self.call.stall_timeout; });
}

// By their names in lower case; those of one name together.
py::dict headers(const S3Response& self) {
  std::map<std::string, std::string> values;
  for (const env::HttpHeader& header : self.head.headers) {
    std::string& value = values[header.name];
    value += value.empty() ? header.value : ", " + header.value;
  }
  py::dict headers;
  for (const auto& [name, value] : values) headers[from_utf8(name)] = from_utf8(value);
  return headers;
}

void register_response(py::module_& module) {
  py::class_<S3Response>(module, "S3Response", py::is_final())
      .def_readonly("status", &S3Response::status)
      .def_property_readonly("headers", &headers)
      .def_readonly("body", &S3Response::body)
      .def_property_readonly("error", [](const S3Response& self) { return error_of(self.failure); })
      .def_readonly("kind", &S3Response::kind)
      .def_readonly("ambiguous", &S3Response::ambiguous)
      .def_readonly("attempts", &S3Response::attempts);
}

py::dict statistics(S3Client& self) {
  Statistics counted;
  if (const std::shared_ptr<Client> client = self.existing()) client->add_statistics(counted);
  return to_dict(counted);
}

}  // namespace

S3Response response_of(CallResult result) {
  // What a signal handler raised is set already.
  if (result.status.code() == StatusCode::kInterrupted) check(result.status);
  S3Response response;
  response.status = result.head.status;
  response.head = std::move(result.head);
  response.body = py::bytes(result.body);
  response.failure = std::move(result.status);
  if (result.failure) response.kind = s3::to_string(result.failure->kind);
  response.ambiguous = result.ambiguous;
  response.attempts = result.attempts;
  return response;
}

void register_s3(py::module_& module) {
  register_s3_options(module);
  register_s3_documents(module);
  register_call(module);
  register_response(module);

  py::class_<S3Client>(module, "S3Client", py::is_final())
      .def(py::init<Settings, std::string, std::string, std::string>(), py::arg("settings"),
           py::arg("access_key"), py::arg("secret_key"), py::arg("session_token"))
      .def("set_credentials", &S3Client::set_credentials, py::arg("access_key"),
           py::arg("secret_key"), py::arg("session_token"))
      .def("wait_credentials_wanted", &wait_credentials_wanted, py::arg("timeout"))
      .def("call", &make_call, py::arg("call"))
      .def("ask", &ask, py::arg("calls"))
      .def("has_keys", &has_keys, py::arg("bucket"), py::arg("prefix"), py::arg("path"),
           py::arg("headers"))
      .def("create", &create_object, py::arg("stream_type"), py::arg("path"), py::arg("name"),
           py::arg("options"), py::arg("if_absent"), py::arg("if_match"))
      .def("open", &open, py::arg("path"), py::arg("options"))
      .def("statistics", &statistics)
      .def("close", &S3Client::close);
  module.def(
      "s3_is_header_name", [](const py::str& name) { return s3::is_header_name(to_utf8(name)); },
      py::arg("name"));
  module.def(
      "s3_aws_suffix", [](const py::str& region) { return s3::aws_suffix(to_utf8(region)); },
      py::arg("region"));
  module.def(
      "s3_aws_suffix_of", [](const py::str& host) { return s3::aws_suffix_of(to_utf8(host)); },
      py::arg("host"));
  module.def("s3_limit_memory", &s3::MemoryBudget::limit_process_to, py::arg("bytes"));
  module.def("s3_memory", [] {
    const s3::MemoryBudget& budget = s3::MemoryBudget::of_process();
    return std::pair(budget.held(), budget.total());
  });
  register_s3_uploads(module);
}

}  // namespace hflush::bindings
