#include "hflush/env/curl_library.h"

#include <cstdlib>
#include <string>

#include "hflush/env/process.h"
#include "hflush/env/shared_library.h"

namespace hflush::env {
namespace {

// CURLOPT_PATH_AS_IS, per-easy upload buffers and SUPPRESS_CONNECT_HEADERS are all there.
constexpr unsigned kOldest = 0x073d00;  // 7.61.0
constexpr const char* kOldestName = "7.61.0";
constexpr const char* kAdvice =
    "S3 needs libcurl of the system, which cannot be loaded (Debian, Ubuntu: apt install libcurl4; "
    "Fedora, RHEL: dnf install libcurl)";

Result<CurlLibrary> bind_all() {
  HFLUSH_ASSIGN_OR_RETURN(const SharedLibrary library,
                          SharedLibrary::open({"libcurl.so.4"}, kAdvice));
  CurlLibrary curl;
  HFLUSH_RETURN_IF_ERROR(library.bind("curl_easy_init", curl.easy_init));
  HFLUSH_RETURN_IF_ERROR(library.bind("curl_easy_cleanup", curl.easy_cleanup));
  HFLUSH_RETURN_IF_ERROR(library.bind("curl_easy_reset", curl.easy_reset));
  HFLUSH_RETURN_IF_ERROR(library.bind("curl_easy_setopt", curl.easy_setopt));
  HFLUSH_RETURN_IF_ERROR(library.bind("curl_easy_getinfo", curl.easy_getinfo));
  HFLUSH_RETURN_IF_ERROR(library.bind("curl_easy_pause", curl.easy_pause));
  HFLUSH_RETURN_IF_ERROR(library.bind("curl_easy_strerror", curl.easy_strerror));
  HFLUSH_RETURN_IF_ERROR(library.bind("curl_multi_init", curl.multi_init));
  HFLUSH_RETURN_IF_ERROR(library.bind("curl_multi_cleanup", curl.multi_cleanup));
  HFLUSH_RETURN_IF_ERROR(library.bind("curl_multi_setopt", curl.multi_setopt));
  HFLUSH_RETURN_IF_ERROR(library.bind("curl_multi_add_handle", curl.multi_add_handle));
  HFLUSH_RETURN_IF_ERROR(library.bind("curl_multi_remove_handle", curl.multi_remove_handle));
  HFLUSH_RETURN_IF_ERROR(library.bind("curl_multi_socket_action", curl.multi_socket_action));
  HFLUSH_RETURN_IF_ERROR(library.bind("curl_multi_socket_all", curl.multi_socket_all));
  HFLUSH_RETURN_IF_ERROR(library.bind("curl_multi_info_read", curl.multi_info_read));
  HFLUSH_RETURN_IF_ERROR(library.bind("curl_multi_strerror", curl.multi_strerror));
  HFLUSH_RETURN_IF_ERROR(library.bind("curl_share_init", curl.share_init));
  HFLUSH_RETURN_IF_ERROR(library.bind("curl_share_setopt", curl.share_setopt));
  HFLUSH_RETURN_IF_ERROR(library.bind("curl_share_cleanup", curl.share_cleanup));
  HFLUSH_RETURN_IF_ERROR(library.bind("curl_slist_append", curl.slist_append));
  HFLUSH_RETURN_IF_ERROR(library.bind("curl_slist_free_all", curl.slist_free_all));

  static_cast<void>(library.find("ERR_clear_error", curl.clear_tls_errors));

  decltype(&::curl_global_init) global_init = nullptr;
  decltype(&::curl_version_info) version_info = nullptr;
  HFLUSH_RETURN_IF_ERROR(library.bind("curl_global_init", global_init));
  HFLUSH_RETURN_IF_ERROR(library.bind("curl_version_info", version_info));
  if (const CURLcode code = global_init(CURL_GLOBAL_DEFAULT); code != CURLE_OK) {
    return Status(StatusCode::kUnsupported,
                  library.name() + " does not start: " + curl.easy_strerror(code));
  }
  // Its TLS library cleans up at exit; hflush's threads must have left it before.
  std::atexit(&Process::end);

  const curl_version_info_data* version = version_info(CURLVERSION_NOW);
  const std::string found = library.name() + " is version " + version->version;
  if (version->version_num < kOldest) {
    return Status(StatusCode::kUnsupported, found + ", and " + kOldestName + " is needed");
  }
  if ((version->features & CURL_VERSION_ASYNCHDNS) == 0) {
    return Status(StatusCode::kUnsupported, found + ", which waits for name lookups");
  }
  return curl;
}

}  // namespace

Result<const CurlLibrary*> CurlLibrary::load() {
  static const Result<CurlLibrary> loaded = bind_all();
  if (!loaded.ok()) return loaded.status();
  return &*loaded;
}

}  // namespace hflush::env
