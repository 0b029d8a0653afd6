// An S3 bucket with one key, as far as an upload can tell: uploads, parts, the object and its
// conditions; for simulations. Executes at once: whoever uses it decides when, and what is
// answered.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "hflush/s3/upload/block_upload.h"

namespace hflush::s3::testing {

struct StoreQuirks {
  bool resurrects = false;        // a part that comes after the abort brings the upload back
  bool repeats_complete = false;  // Complete of what is completed: 200 (AWS), else 404 (MinIO)
  bool omits_etag = false;        // in the answer of Complete (radosgw)
};

class SimulatedStore {
 public:
  enum class Answer : std::uint8_t { kDone, kNoSuchUpload, kInvalidPart, kPrecondition };
  struct Object {
    std::string bytes;
    std::string etag;
    bool ours = false;  // carries the upload's token
  };
  struct Part {
    std::string bytes;
    std::string etag;
  };
  using Parts = std::map<std::uint32_t, Part>;

  explicit SimulatedStore(StoreQuirks quirks) : quirks_(quirks) {}

  std::string create() {
    std::string id = "U" + std::to_string(++ids_);
    uploads_.try_emplace(id);
    return id;
  }

  // The etag; none: NoSuchUpload.
  std::optional<std::string> upload_part(const std::string& id, std::uint32_t number,
                                         const std::string& bytes) {
    const auto upload = uploads_.find(id);
    if (upload == uploads_.end()) return std::nullopt;
    return (upload->second[number] = {bytes, new_etag()}).etag;
  }

  // A part that was given up, and arrives nevertheless. The same bytes change nothing.
  void land_part(const std::string& id, std::uint32_t number, const std::string& bytes) {
    if (completed_.contains(id)) return;
    if (quirks_.resurrects && uploads_.try_emplace(id).second) ++resurrections;
    const auto upload = uploads_.find(id);
    if (upload == uploads_.end()) return;
    const auto part = upload->second.find(number);
    if (part == upload->second.end() || part->second.bytes != bytes) upload_part(id, number, bytes);
  }

  Answer complete(const std::string& id, const std::vector<PartReceipt>& list,
                  const Condition& condition, std::string& etag) {
    if (const auto before = completed_.find(id);
        before != completed_.end() && quirks_.repeats_complete) {
      etag = before->second;
      return Answer::kDone;
    }
    const auto upload = uploads_.find(id);
    if (upload == uploads_.end()) return Answer::kNoSuchUpload;
    std::string bytes;
    for (const PartReceipt& receipt : list) {
      const auto part = upload->second.find(receipt.number);
      if (part == upload->second.end() || part->second.etag != receipt.etag) {
        return Answer::kInvalidPart;
      }
      bytes += part->second.bytes;
    }
    if (list.empty()) return Answer::kInvalidPart;
    if (!holds(condition)) return Answer::kPrecondition;
    uploads_.erase(upload);
    publish(std::move(bytes));
    completed_[id] = object_->etag;
    etag = quirks_.omits_etag ? "" : object_->etag;
    return Answer::kDone;
  }

  Answer put(const std::string& bytes, const Condition& condition, std::string& etag) {
    if (!holds(condition)) return Answer::kPrecondition;
    publish(bytes);
    etag = object_->etag;
    return Answer::kDone;
  }

  void abort(const std::string& id) { uploads_.erase(id); }
  bool has_upload(const std::string& id) const { return uploads_.contains(id); }
  const std::map<std::string, Parts>& uploads() const { return uploads_; }

  const std::optional<Object>& object() const { return object_; }
  void overwrite() { object_ = Object{"somebody else's", new_etag(), false}; }
  void remove() { object_.reset(); }

  int publications = 0;  // of the upload's object
  int resurrections = 0;

 private:
  bool holds(const Condition& condition) const {
    if (condition.if_absent && object_) return false;
    return condition.if_match.empty() || (object_ && object_->etag == condition.if_match);
  }
  void publish(std::string bytes) {
    ++publications;
    object_ = Object{std::move(bytes), new_etag(), true};
  }
  std::string new_etag() { return "\"" + std::to_string(++etags_) + "\""; }

  StoreQuirks quirks_;
  std::map<std::string, Parts> uploads_;
  std::map<std::string, std::string> completed_;  // etags
  std::optional<Object> object_;
  int ids_ = 0;
  int etags_ = 0;
};

}  // namespace hflush::s3::testing
