// Token files of Hadoop: bytes to tokens and secrets, and back.
#include <pybind11/pybind11.h>

#include <string>

#include "errors.h"
#include "hflush/base/bytes.h"
#include "hflush/hdfs/sasl/credentials.h"
#include "register.h"
#include "text.h"
#include "tokens.h"

namespace py = pybind11;

namespace hflush::bindings {
namespace {

namespace sasl = hdfs::sasl;

// ({alias: token}, {alias: secret})
py::tuple decode_credentials(const std::string& file) {
  const sasl::Credentials found = value(sasl::decode_credentials(as_bytes(file)));
  py::dict tokens;
  for (const auto& [alias, token] : found.tokens) tokens[from_utf8(alias)] = to_tuple(token);
  py::dict secrets;
  for (const auto& [alias, secret] : found.secrets) secrets[from_utf8(alias)] = py::bytes(secret);
  return py::make_tuple(tokens, secrets);
}

py::bytes encode_credentials(const py::dict& tokens, const py::dict& secrets, bool protobuf) {
  sasl::Credentials credentials;
  for (const auto& [alias, token] : tokens) {
    credentials.tokens[to_utf8(py::cast<py::str>(alias))] = to_token(py::cast<py::tuple>(token));
  }
  for (const auto& [alias, secret] : secrets) {
    credentials.secrets[to_utf8(py::cast<py::str>(alias))] = py::cast<std::string>(secret);
  }
  return sasl::encode(
      credentials, protobuf ? sasl::TokenFileFormat::kProtobuf : sasl::TokenFileFormat::kWritable);
}

}  // namespace

void register_credentials(py::module_& module) {
  module.def("decode_credentials", &decode_credentials, py::arg("file"));
  module.def("encode_credentials", &encode_credentials, py::arg("tokens"), py::arg("secrets"),
             py::arg("protobuf"));
  module.def(
      "encode_token",
      [](const py::tuple& token) { return py::bytes(sasl::encode(to_token(token))); },
      py::arg("token"));
  module.def(
      "decode_token",
      [](const std::string& bytes) { return to_tuple(value(sasl::decode_token(as_bytes(bytes)))); },
      py::arg("bytes"));
}

}  // namespace hflush::bindings
