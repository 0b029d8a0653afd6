// Headers as Python has them: pairs of texts.
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <utility>
#include <vector>

#include "errors.h"
#include "hflush/env/http_client.h"
#include "hflush/s3/call/encoding.h"
#include "text.h"

namespace hflush::bindings {

using Pairs = std::vector<std::pair<pybind11::str, pybind11::str>>;

inline std::vector<env::HttpHeader> headers_of(const Pairs& pairs) {
  std::vector<env::HttpHeader> headers;
  headers.reserve(pairs.size());
  for (const auto& [name, value] : pairs) {
    env::HttpHeader& header = headers.emplace_back(env::HttpHeader{to_utf8(name), to_utf8(value)});
    check(s3::check_header(header.name, header.value));
  }
  return headers;
}

inline pybind11::list pairs_of(const std::vector<env::HttpHeader>& headers) {
  pybind11::list pairs;
  for (const env::HttpHeader& header : headers) {
    pairs.append(pybind11::make_tuple(from_utf8(header.name), from_utf8(header.value)));
  }
  return pairs;
}

}  // namespace hflush::bindings
