// Tokens of Hadoop as Python has them: (identifier, password, kind, service), the first two bytes.
#pragma once

#include <pybind11/pybind11.h>

#include "hflush/hdfs/sasl/credentials.h"
#include "text.h"

namespace hflush::bindings {

inline pybind11::tuple to_tuple(const hdfs::sasl::Token& token) {
  return pybind11::make_tuple(pybind11::bytes(token.identifier), pybind11::bytes(token.password),
                              from_utf8(token.kind), from_utf8(token.service));
}

inline hdfs::sasl::Token to_token(const pybind11::tuple& token) {
  return {pybind11::cast<std::string>(token[0]), pybind11::cast<std::string>(token[1]),
          to_utf8(pybind11::cast<pybind11::str>(token[2])),
          to_utf8(pybind11::cast<pybind11::str>(token[3]))};
}

}  // namespace hflush::bindings
