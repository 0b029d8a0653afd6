// S3: uploads and their single calls. Every function converts, gives the GIL up, makes one call of
// the core and converts back; while it waits, Python's signal handlers run.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "attributes.h"
#include "buffers.h"
#include "errors.h"
#include "hflush/env/clock.h"
#include "hflush/env/http_client.h"
#include "hflush/env/own_process.h"
#include "hflush/s3/call/client.h"
#include "hflush/s3/upload/completion.h"
#include "hflush/s3/upload/creation.h"
#include "hflush/s3/upload/open_for_write.h"
#include "hflush/s3/upload/upload_calls.h"
#include "opened_stream.h"
#include "s3_client.h"
#include "s3_headers.h"
#include "s3_parts.h"
#include "signals.h"
#include "text.h"

namespace py = pybind11;

namespace hflush::bindings {
namespace {

using s3::CallResult;
using s3::Client;
using s3::ObjectOptions;

// True unless `timeout` seconds passed.
template <typename Wait>
bool wait_at_most(double timeout, const Wait& wait) {
  const env::Duration at_most = duration_of(timeout);
  const Status waited = waiting([&](SignalCheck& signals) { return wait(at_most, signals); });
  if (waited.code() == StatusCode::kTimedOut) return false;
  check(waited);
  return true;
}

// --- the calls of an upload

constexpr Named<s3::Holders> kHolders[] = {
    {"one", s3::Holders::kOne},
    {"equal", s3::Holders::kEqual},
    {"first", s3::Holders::kFirst},
};

struct S3Completed {
  std::string_view outcome;
  std::string etag;
  Status failure;  // as in S3Response
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
    return wait_for([&](Client& client, SignalCheck& signals) {
      return s3::create_upload(client, calls_of(client), checksums, signals);
    });
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
      return calls.upload_part(id, number, std::string(as_text(view.bytes())), checksums);
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
    // A caller waits for it: as often as the settings say.
    return make([&](const s3::UploadCalls& calls) { return calls.abort(id, std::nullopt); });
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
    return {s3::to_string(done.outcome), std::move(done.etag), std::move(done.failure),
            s3::to_string(done.kind)};
  }

 private:
  s3::UploadCalls calls_of(Client& client) const {
    return {client.settings(), options_, token_, client.new_stream()};
  }

  template <typename Ask>
  S3Response make(const Ask& ask) {
    return wait_for([&](Client& client, SignalCheck& signals) {
      return client.call_and_wait(ask(calls_of(client)), signals);
    });
  }

  // `call(client, signals)`, without the GIL.
  template <typename MakeCalls>
  S3Response wait_for(const MakeCalls& call) {
    const std::shared_ptr<Client> client = client_.client();
    CallResult result = waiting([&](SignalCheck& signals) { return call(*client, signals); });
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
  UploadHandle(std::shared_ptr<s3::S3Upload> upload, std::weak_ptr<s3::KeepableUpload> keepable)
      : upload_(std::move(upload)), keepable_(std::move(keepable)) {}

  bool is_foreign() const noexcept { return upload_.here() == nullptr; }

  // Throws in a forked child.
  s3::S3Upload& upload() const {
    if (is_foreign()) {
      check(Status(StatusCode::kForked, "the upload was begun before fork, by another process"));
    }
    return *upload_.here();
  }

  // Null once the stream is gone.
  std::shared_ptr<s3::KeepableUpload> keepable() const {
    return is_foreign() ? nullptr : keepable_.lock();
  }

 private:
  env::OwnProcess<s3::S3Upload> upload_;
  std::weak_ptr<s3::KeepableUpload> keepable_;
};

py::list tuples_of(const std::vector<s3::PartReceipt>& receipts) {
  py::list parts;
  for (const s3::PartReceipt& part : receipts) {
    parts.append(py::make_tuple(part.number, from_utf8(part.etag), part.size, part.crc32c));
  }
  return parts;
}

py::dict outcome(const UploadHandle& self) {
  const s3::UploadOutcome outcome = self.upload().outcome();
  const py::list parts = tuples_of(outcome.parts);
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

// (upload id, parts, token, whether the store keeps checksums of parts, and of the whole, bytes
// behind the parts); None: some of these bytes have gone to the store since, ask with a newer
// offset.
py::object keep(const UploadHandle& self, std::uint64_t offset) {
  const std::shared_ptr<s3::KeepableUpload> upload = self.keepable();
  if (!upload) check(Status(StatusCode::kClosed, "persist: the stream is gone"));
  const Result<s3::KeptUpload> kept =
      waiting([&](SignalCheck& signals) { return upload->keep(offset, signals); });
  if (kept.status().code() == StatusCode::kNotFound) return py::none();
  check(kept.status());
  std::string tail(kept->tail.size, '\0');
  int error_number = 0;
  if (!tail.empty()) {
    const ReleasedGil released;
    error_number = env::read_fully(*kept->tail.bytes, 0, std::as_writable_bytes(std::span(tail)));
  }
  if (error_number != 0) check(Status::from_errno(error_number, "persist: read a part", {}));
  const s3::BegunObject& object = kept->object;
  return py::make_tuple(from_utf8(object.upload.upload_id), tuples_of(object.upload.parts),
                        object.token, object.checksums.of_parts, object.checksums.of_full_object,
                        py::bytes(tail));
}

bool wait_cleaned_up(const UploadHandle& self, double timeout) {
  s3::S3Upload& upload = self.upload();
  return wait_at_most(timeout, [&upload](env::Duration at_most, SignalCheck& signals) {
    return upload.wait_cleaned_up(at_most, signals);
  });
}

bool drain(double timeout) {
  return wait_at_most(timeout, [](env::Duration at_most, SignalCheck& signals) {
    return s3::wait_for_cleanups(at_most, signals);
  });
}

// --- encryption

// Header names of `answered` are in lower case, as S3Response has them.
py::str encryption_difference(const Pairs& asked, const py::dict& answered) {
  env::HttpHead head;
  for (const auto& [name, text] : answered) {
    head.headers.push_back({to_utf8(py::str(name)), to_utf8(py::str(text))});
  }
  return from_utf8(s3::encryption_difference(headers_of(asked), head));
}

// --- registration

void register_upload_calls(py::module_& module) {
  py::class_<S3Completed>(module, "S3Completed", py::is_final())
      .def_readonly("outcome", &S3Completed::outcome)
      .def_property_readonly("etag", [](const S3Completed& self) { return from_utf8(self.etag); })
      .def_property_readonly("error",
                             [](const S3Completed& self) { return error_of(self.failure); })
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
}

void register_upload(py::module_& module) {
  py::class_<UploadHandle>(module, "S3Upload", py::is_final())
      .def_property_readonly("is_foreign", &UploadHandle::is_foreign)
      .def("outcome", &outcome)
      .def_property_readonly(
          "cleanup", [](const UploadHandle& self) { return error_of(self.upload().cleanup()); })
      .def("keep", &keep, py::arg("offset"))
      .def("wait_cleaned_up", &wait_cleaned_up, py::arg("timeout"));
}

}  // namespace

py::tuple create_object(S3Client& self, const py::type& stream_type, const py::str& path,
                        const py::str& name, const ObjectOptions& options, bool if_absent,
                        const py::str& if_match) {
  ObjectOptions own = options;
  own.path = to_utf8(name);
  own.condition = {if_absent, to_utf8(if_match)};
  s3::OpenedObject opened = s3::open_for_write(self.client(), to_utf8(path), std::move(own));
  auto upload =
      std::make_unique<UploadHandle>(std::move(opened.upload), std::move(opened.keepable));
  py::object made = make_stream(stream_type, std::move(opened.stream));
  return py::make_tuple(std::move(made), py::cast(std::move(upload)));
}

void register_s3_uploads(py::module_& module) {
  register_upload(module);
  register_upload_calls(module);
  module.def("s3_encryption_difference", &encryption_difference, py::arg("asked"),
             py::arg("answered"));
  module.def("s3_drain", &drain, py::arg("timeout"));
}

}  // namespace hflush::bindings
