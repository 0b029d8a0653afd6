// What S3 is asked with: plain structs of the core that Python fills, and their bounds.
#include <pybind11/pybind11.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "attributes.h"
#include "errors.h"
#include "hflush/s3/call/client.h"
#include "hflush/s3/read/read_options.h"
#include "hflush/s3/upload/part_sizes.h"
#include "hflush/s3/upload/upload_calls.h"
#include "hflush/s3/upload/upload_target.h"
#include "s3_client.h"
#include "s3_headers.h"
#include "s3_parts.h"
#include "text.h"

namespace py = pybind11;

namespace hflush::bindings {
namespace {

using s3::ObjectOptions;
using s3::ReadOptions;
using s3::RefusedExtras;
using s3::Settings;

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
  add("base_path", &Settings::base_path);
  add("region", &Settings::region);
  add("follows_regions", &Settings::follows_regions);
  add("path_style", &Settings::path_style);
  add("content_md5", &Settings::content_md5);
  add("checksums", &Settings::checksums);
  add("insists_on_checksums", &Settings::insists_on_checksums);
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
  add("direct", [](Settings& self) -> auto& { return self.http.direct; });
  py::class_<RefusedExtras, std::shared_ptr<RefusedExtras>>(module, "S3RefusedExtras",
                                                            py::is_final())
      .def(py::init([] { return std::make_shared<RefusedExtras>(std::uint8_t{0}); }));
  type.def_readwrite("refused_extras", &Settings::refused_extras);
  choice(type, "payload_signing", &Settings::payload_signing, kPayloadSignings);
}

// The upload goes on that was begun before.
void go_on(ObjectOptions& self, const py::str& upload_id, const std::vector<Part>& parts,
           const py::str& token, bool checksums, bool full_object_checksum) {
  s3::BegunObject begun{
      {to_utf8(upload_id), receipts_of(parts)}, to_utf8(token), {checksums, full_object_checksum}};
  check(s3::check_begun(begun.upload, s3::part_sizes(self)));
  self.begun = std::move(begun);
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
  add("buffer_directories", &ObjectOptions::buffer_directories);
  add("memory_bytes", &ObjectOptions::memory_bytes);
  add("references", &ObjectOptions::references);
  type.def_property_readonly("window_bytes", [](const ObjectOptions& self) {
    return s3::upload_window(self, s3::part_sizes(self));
  });
  type.def_property_readonly(
      "max_bytes", [](const ObjectOptions& self) { return s3::part_sizes(self).max_bytes(); });
  add("if_absent", [](ObjectOptions& self) -> auto& { return self.condition.if_absent; });
  add("if_match", [](ObjectOptions& self) -> auto& { return self.condition.if_match; });
  add("delayed", &ObjectOptions::delayed);
  type.def("go_on", &go_on, py::arg("upload_id"), py::arg("parts"), py::kw_only(), py::arg("token"),
           py::arg("checksums"), py::arg("full_object_checksum"));
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

}  // namespace

void register_s3_options(py::module_& module) {
  register_settings(module);
  register_object_options(module);
  register_read_options(module);
  module.attr("S3_MIN_PART") = s3::PartSizes::kMinPart;
  module.attr("S3_MAX_PART") = s3::PartSizes::kMaxPart;
  module.attr("S3_MAX_PARTS") = s3::PartSizes::kMaxParts;
  module.attr("S3_MAX_OBJECT") = s3::PartSizes::kMaxObject;
}

}  // namespace hflush::bindings
