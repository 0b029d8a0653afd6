// CurlLibrary: the functions of the system's libcurl, loaded on first use. Immutable.
#pragma once

#include <curl/curl.h>

#include "hflush/base/result.h"

namespace hflush::env {

struct CurlLibrary {
  // The one of the process, initialised. kUnsupported without a suitable libcurl; the
  // answer is the same every time. Thread-safe.
  static Result<const CurlLibrary*> load();

  decltype(&::curl_easy_init) easy_init = nullptr;
  decltype(&::curl_easy_cleanup) easy_cleanup = nullptr;
  decltype(&::curl_easy_reset) easy_reset = nullptr;
  decltype(&::curl_easy_setopt) easy_setopt = nullptr;
  decltype(&::curl_easy_getinfo) easy_getinfo = nullptr;
  decltype(&::curl_easy_pause) easy_pause = nullptr;
  decltype(&::curl_easy_strerror) easy_strerror = nullptr;
  decltype(&::curl_multi_init) multi_init = nullptr;
  decltype(&::curl_multi_cleanup) multi_cleanup = nullptr;
  decltype(&::curl_multi_setopt) multi_setopt = nullptr;
  decltype(&::curl_multi_add_handle) multi_add_handle = nullptr;
  decltype(&::curl_multi_remove_handle) multi_remove_handle = nullptr;
  decltype(&::curl_multi_socket_action) multi_socket_action = nullptr;
  CURLMcode (*multi_socket_all)(CURLM* multi, int* running) = nullptr;  // deprecated, by name only
  decltype(&::curl_multi_info_read) multi_info_read = nullptr;
  decltype(&::curl_multi_strerror) multi_strerror = nullptr;
  decltype(&::curl_share_init) share_init = nullptr;
  decltype(&::curl_share_setopt) share_setopt = nullptr;
  decltype(&::curl_share_cleanup) share_cleanup = nullptr;
  decltype(&::curl_slist_append) slist_append = nullptr;
  decltype(&::curl_slist_free_all) slist_free_all = nullptr;
  // OpenSSL's, if libcurl uses that: null otherwise. What libcurl leaves in a thread's queue of
  // errors, another user of OpenSSL on that thread would take for its own.
  void (*clear_tls_errors)() = nullptr;
};

}  // namespace hflush::env
