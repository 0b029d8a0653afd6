#include "hflush/s3/call/call.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "hflush/base/bytes.h"

namespace hflush::s3 {
namespace {

class TextBody final : public env::HttpBody {
 public:
  explicit TextBody(std::string text) : text_(std::move(text)) {}
  std::uint64_t size() const noexcept override { return text_.size(); }
  std::ptrdiff_t read_at(std::uint64_t offset, MutableByteView out) const noexcept override {
    if (offset >= text_.size()) return 0;
    const auto begin = static_cast<std::size_t>(offset);
    const std::size_t count = std::min(out.size(), text_.size() - begin);
    std::memcpy(out.data(), text_.data() + begin, count);
    return static_cast<std::ptrdiff_t>(count);
  }

 private:
  const std::string text_;
};

}  // namespace

std::string path_of(const Call& call) {
  std::string path = "s3://" + call.bucket;
  if (!call.key.empty()) path.append(1, '/').append(call.key);
  return path;
}

std::shared_ptr<const env::HttpBody> text_body(std::string text) {
  return std::make_shared<TextBody>(std::move(text));
}

}  // namespace hflush::s3
