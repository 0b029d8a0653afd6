// The documents of S3 (documents.h): bytes in, tuples out, ValueError for what is not understood.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "attributes.h"
#include "errors.h"
#include "gil.h"
#include "hflush/s3/call/documents.h"
#include "s3_client.h"
#include "text.h"

namespace py = pybind11;

namespace hflush::bindings {
namespace {

// A shorter document is parsed in less time than it takes to get the GIL back.
constexpr std::size_t kLongBytes = std::size_t{16} << 10U;

template <typename Parse>
auto read(const py::bytes& body, const Parse& parse) {
  const std::string_view document = body;
  auto result = [&] {
    std::optional<ReleasedGil> released;
    if (document.size() >= kLongBytes) released.emplace();
    return parse(document);
  }();
  return value(std::move(result));
}

template <typename Entry, typename Convert>
py::list list_of(const std::vector<Entry>& entries, const Convert& convert) {
  py::list list(entries.size());
  for (std::size_t i = 0; i < entries.size(); ++i) list[i] = convert(entries[i]);
  return list;
}

constexpr Named<s3::Plus> kPluses[] = {
    {"", s3::Plus::kUnknown},
    {"blank", s3::Plus::kBlank},
    {"itself", s3::Plus::kItself},
};

py::tuple parse_objects(const py::bytes& body, const std::string& plus) {
  const s3::Plus known = value_of(kPluses, "plus", plus);
  const s3::ObjectPage page =
      read(body, [known](std::string_view text) { return s3::parse_object_page(text, known); });
  py::list objects = list_of(page.objects, [](const s3::ListedObject& object) {
    const std::int64_t size = object.size ? static_cast<std::int64_t>(*object.size) : -1;
    return py::make_tuple(from_utf8(object.key), size, from_utf8(object.etag), object.modified,
                          from_utf8(object.storage_class));
  });
  return py::make_tuple(std::move(objects), list_of(page.prefixes, from_utf8),
                        from_utf8(page.next_token), from_utf8(page.next_marker),
                        std::ranges::find(kPluses, page.plus, &Named<s3::Plus>::value)->name,
                        list_of(page.doubtful, from_utf8));
}

py::tuple parse_uploads(const py::bytes& body, const std::string& plus) {
  const s3::Plus known = value_of(kPluses, "plus", plus);
  const s3::UploadPage page =
      read(body, [known](std::string_view text) { return s3::parse_upload_page(text, known); });
  py::list uploads = list_of(page.uploads, [](const s3::ListedUpload& upload) {
    return py::make_tuple(from_utf8(upload.key), from_utf8(upload.upload_id), upload.initiated);
  });
  py::object next = py::none();
  if (page.next_markers) {
    next =
        py::make_tuple(from_utf8(page.next_markers->first), from_utf8(page.next_markers->second));
  }
  return py::make_tuple(std::move(uploads), std::move(next), list_of(page.doubtful, from_utf8));
}

py::list parse_delete_result(const py::bytes& body) {
  return list_of(read(body, s3::parse_delete_result), [](const s3::NotDeleted& left) {
    return py::make_tuple(from_utf8(left.key), from_utf8(left.code), from_utf8(left.message));
  });
}

py::str parse_upload_id(const py::bytes& body) {
  return from_utf8(read(body, s3::parse_upload_id));
}

py::str parse_etag(const py::bytes& body, const py::str& root) {
  const std::string name = to_utf8(root);
  return from_utf8(
      read(body, [&name](std::string_view text) { return s3::parse_etag(text, name); }));
}

py::bytes delete_document(const std::vector<py::str>& keys, bool quiet) {
  std::vector<std::string> names;
  names.reserve(keys.size());
  for (const py::str& key : keys) names.push_back(to_utf8(key));
  return s3::delete_document(names, quiet);
}

}  // namespace

void register_s3_documents(py::module_& module) {
  module.def("s3_parse_objects", &parse_objects, py::arg("body"), py::arg("plus"));
  module.def("s3_parse_uploads", &parse_uploads, py::arg("body"), py::arg("plus"));
  module.def("s3_parse_delete_result", &parse_delete_result, py::arg("body"));
  module.def("s3_parse_upload_id", &parse_upload_id, py::arg("body"));
  module.def("s3_parse_etag", &parse_etag, py::arg("body"), py::arg("root"));
  module.def("s3_delete_document", &delete_document, py::arg("keys"), py::arg("quiet"));
}

}  // namespace hflush::bindings
