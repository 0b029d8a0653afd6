// S3Client: a client as Python keeps it; S3Response: the result of one of its calls.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "errors.h"
#include "gil.h"
#include "hflush/env/own_process.h"
#include "hflush/s3/call/client.h"
#include "hflush/s3/call/credentials.h"
#include "hflush/s3/upload/upload_calls.h"

namespace hflush::bindings {

// A native client, made when it is needed first, and again in a forked child. Used with the GIL.
class S3Client {
 public:
  S3Client(s3::Settings settings, std::string access_key, std::string secret_key,
           std::string session_token)
      : settings_(std::move(settings)),
        credentials_{std::move(access_key), std::move(secret_key), std::move(session_token)} {}
  ~S3Client() { close(); }
  S3Client(const S3Client&) = delete;
  S3Client& operator=(const S3Client&) = delete;

  std::shared_ptr<s3::Client> client() {
    if (client_.here() == nullptr) {
      client_ = env::OwnProcess(value(s3::Client::make(settings_, store())));
    }
    return client_.shared();
  }

  // The client that exists in this process, if one does.
  std::shared_ptr<s3::Client> existing() const { return client_.shared(); }

  std::shared_ptr<s3::CredentialStore> store() {
    if (store_.here() == nullptr) {
      store_ = env::OwnProcess(std::make_shared<s3::CredentialStore>(credentials_));
    }
    return store_.shared();
  }

  void set_credentials(std::string access_key, std::string secret_key, std::string session_token) {
    credentials_ = {std::move(access_key), std::move(secret_key), std::move(session_token)};
    const std::shared_ptr<s3::CredentialStore> kept = store();
    const s3::Credentials newest = credentials_;  // which the GIL guards
    const ReleasedGil released;
    kept->set(newest);
  }

  // Releases the client; streams and files keep it, and the next call makes another one.
  void close() {
    env::OwnProcess<s3::Client> closing = std::move(client_);
    const ReleasedGil released;
    closing = {};
  }

 private:
  const s3::Settings settings_;
  s3::Credentials credentials_;
  env::OwnProcess<s3::CredentialStore> store_;
  env::OwnProcess<s3::Client> client_;
};

struct S3Response {
  int status = 0;
  env::HttpHead head;  // most are never asked for their headers
  pybind11::bytes body;
  Status failure;  // no exception: one that is raised refers to the frame that refers to this
  std::string_view kind;
  bool ambiguous = false;
  int attempts = 0;
};

// Throws where a call was interrupted.
S3Response response_of(s3::CallResult result);

// What there is to raise; None if it is fine.
inline pybind11::object error_of(const Status& status) {
  return status.ok() ? pybind11::object(pybind11::none()) : make_exception(status);
}

// A stream of that type that writes an object, and its upload. All that differs from object to
// object is an argument, so that the usual options are shared and this is the only call.
pybind11::tuple create_object(S3Client& self, const pybind11::type& stream_type,
                              const pybind11::str& path, const pybind11::str& name,
                              const s3::ObjectOptions& options, bool if_absent,
                              const pybind11::str& if_match);

// The parts of register_s3().
void register_s3_documents(pybind11::module_& module);
void register_s3_options(pybind11::module_& module);
void register_s3_uploads(pybind11::module_& module);

}  // namespace hflush::bindings
