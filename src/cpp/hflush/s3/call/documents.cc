#include "hflush/s3/call/documents.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <initializer_list>

#include "hflush/base/ascii.h"
#include "hflush/s3/call/signer.h"
#include "hflush/s3/call/xml.h"

namespace hflush::s3 {
namespace {

namespace chrono = std::chrono;

constexpr std::string_view kBlanks = " \t\r\n";
constexpr std::string_view kNamespace = "http://s3.amazonaws.com/doc/2006-03-01/";
constexpr std::size_t kMaxDigits = 18;  // of a size that every integer type holds
constexpr std::size_t kShown = 64;

// A root that is not named after its call, both without "Result".
struct CalledRoot {
  std::string_view root;
  std::string_view call;
};
constexpr CalledRoot kCalledRoots[] = {
    {"CopyPart", "UploadPartCopy"},
    {"Delete", "DeleteObjects"},
    {"InitiateMultipartUpload", "CreateMultipartUpload"},
    {"ListBucket", "ListObjects"},
    {"ListBucket", "ListObjectsV2"},
};

Status refused(std::string message) {
  return Status(StatusCode::kInvalidArgument, std::move(message));
}

std::string in_quotes(std::string_view text) {
  std::string shown(text.substr(0, kShown));
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20; };
  std::ranges::replace_if(shown, is_control, '?');
  return "'" + shown + "'";
}

Result<XmlElement> rooted(std::string_view document, std::string_view expected) {
  Result<XmlElement> root = parse_xml(document);
  if (!root.ok()) return refused("not a document of S3: " + root.status().message());
  if (!is_same_root(root->name, expected)) {
    return refused("a document of S3 with the root " + in_quotes(root->name) + ", not " +
                   in_quotes(expected));
  }
  return root;
}

Result<std::string_view> text_of(const XmlElement& element, std::string_view name) {
  if (const XmlElement* child = element.child(name)) return std::string_view(child->text);
  return refused("<" + element.name + "> without <" + std::string(name) + ">");
}

constexpr bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }

Result<std::uint64_t> number_of(const XmlElement& element, std::string_view name) {
  HFLUSH_ASSIGN_OR_RETURN(std::string_view text, text_of(element, name));
  text = trimmed(text, kBlanks);
  std::string_view digits = text;
  digits.remove_prefix(std::min(text.find_first_not_of('0'), text.size()));
  if (text.empty() || digits.size() > kMaxDigits || !std::ranges::all_of(text, is_digit)) {
    return refused("<" + std::string(name) + "> is not a number: " + in_quotes(text));
  }
  std::uint64_t number = 0;
  for (const char digit : digits) number = number * 10 + static_cast<std::uint64_t>(digit - '0');
  return number;
}

bool has_value(const XmlElement& root, std::string_view name, std::string_view value) noexcept {
  return equals_ignoring_case(trimmed(root.value(name), kBlanks), value);
}

// One that does not say whether others follow says how to ask for them, if they do.
bool is_truncated(const XmlElement& root, std::initializer_list<std::string_view> nexts) noexcept {
  if (!trimmed(root.value("IsTruncated"), kBlanks).empty()) {
    return has_value(root, "IsTruncated", "true");
  }
  return std::ranges::any_of(nexts,
                             [&](std::string_view name) { return !root.value(name).empty(); });
}

// Whether an element is there and not empty.
bool says(const XmlElement& element, std::string_view name) noexcept {
  return !trimmed(element.value(name), kBlanks).empty();
}

std::optional<char> hexadecimal(std::string_view two) noexcept {
  int value = 0;
  for (const char c : two) {
    const char lower = to_lower(c);
    if (is_digit(c)) {
      value = value * 16 + (c - '0');
    } else if (lower >= 'a' && lower <= 'f') {
      value = value * 16 + (lower - 'a' + 10);
    } else {
      return std::nullopt;
    }
  }
  if (two.size() < 2) return std::nullopt;
  return static_cast<char>(value);
}

// What is not an escape stays as it is.
std::string url_decoded(std::string_view text, char plus) {
  std::string decoded;
  decoded.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '+') {
      decoded += plus;
    } else if (const auto byte = text[i] == '%' ? hexadecimal(text.substr(i + 1, 2)) : std::nullopt;
               byte) {
      decoded += *byte;
      i += 2;
    } else {
      decoded += text[i];
    }
  }
  return decoded;
}

// The key or prefix of an entry; null where it is neither.
const XmlElement* key_of(const XmlElement& entry) noexcept {
  if (entry.name == "Contents" || entry.name == "Upload") return entry.child("Key");
  return entry.name == "CommonPrefixes" ? entry.child("Prefix") : nullptr;
}

// Keys as they are, of a document that encodes them, or of a store that did not.
class KeyDecoder {
 public:
  KeyDecoder(const XmlElement& root, Plus plus)
      : encoded_(has_value(root, "EncodingType", "url")), plus_(plus) {
    if (encoded_ && plus_ == Plus::kUnknown) look(root);
  }

  std::string operator()(std::string_view text) const {
    if (!encoded_) return std::string(text);
    return url_decoded(text, plus_ == Plus::kItself ? '+' : ' ');
  }
  Result<std::string> of(const XmlElement& element, std::string_view name) const {
    HFLUSH_ASSIGN_OR_RETURN(const std::string_view text, text_of(element, name));
    return (*this)(text);
  }

  Plus plus() const noexcept { return plus_; }
  std::vector<std::string> take_doubtful() noexcept { return std::move(doubtful_); }

 private:
  // Who escapes a plus means a blank by one that is left; who writes a blank in another way does
  // not.
  void look(const XmlElement& root) {
    bool has_other_blank = false;
    for (const XmlElement& entry : root.children) {
      const XmlElement* const key = key_of(entry);
      if (key == nullptr) continue;
      const std::string_view text = key->text;
      if (text.find("%2B") != std::string_view::npos ||
          text.find("%2b") != std::string_view::npos) {
        plus_ = Plus::kBlank;
        doubtful_.clear();
        return;
      }
      has_other_blank = has_other_blank || text.find("%20") != std::string_view::npos ||
                        text.find(' ') != std::string_view::npos;
      if (text.find('+') != std::string_view::npos && doubtful_.size() < kMaxDoubtful) {
        doubtful_.push_back(url_decoded(text, '+'));
      }
    }
    if (!has_other_blank) return;
    plus_ = Plus::kItself;
    doubtful_.clear();
  }

  static constexpr std::size_t kMaxDoubtful = 8;

  const bool encoded_;
  Plus plus_;
  std::vector<std::string> doubtful_;
};

// The front of a text, piece by piece; what is not there is remembered.
class Front {
 public:
  explicit Front(std::string_view text) noexcept : rest_(text) {}

  bool take(std::string_view one_of) noexcept {
    if (rest_.empty() || one_of.find(rest_.front()) == std::string_view::npos) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void want(std::string_view one_of) noexcept {
    if (!take(one_of)) is_good_ = false;
  }
  int number(std::size_t digits) noexcept {
    int value = 0;
    for (std::size_t i = 0; i < digits; ++i) {
      if (rest_.empty() || !is_digit(rest_.front())) {
        is_good_ = false;
        return 0;
      }
      value = value * 10 + (rest_.front() - '0');
      rest_.remove_prefix(1);
    }
    return value;
  }
  // As many digits as there are, behind the point; at least one.
  double fraction() noexcept {
    double value = 0;
    double unit = 0.1;
    want_digit();
    for (; !rest_.empty() && is_digit(rest_.front()); unit /= 10) {
      value += unit * (rest_.front() - '0');
      rest_.remove_prefix(1);
    }
    return value;
  }
  bool is_taken() const noexcept { return is_good_ && rest_.empty(); }

 private:
  void want_digit() noexcept {
    if (rest_.empty() || !is_digit(rest_.front())) is_good_ = false;
  }

  std::string_view rest_;
  bool is_good_ = true;
};

// "Z", "+01:00" and "-01:00"; nothing is UTC.
int minutes_behind_utc(Front& front) noexcept {
  if (front.take("Z") || front.is_taken()) return 0;
  const bool is_ahead = front.take("+");
  if (!is_ahead) front.want("-");
  const int hours = front.number(2);
  front.take(":");
  const int minutes = hours * 60 + front.number(2);
  return is_ahead ? -minutes : minutes;
}

// Seconds since 1970 of "2026-11-21T17:52:46.123Z", with any number of digits of a second or none;
// 0 of what is no time.
double parse_iso_time(std::string_view text) noexcept {
  Front front(text);
  const chrono::year year(front.number(4));
  front.want("-");
  const chrono::month month(static_cast<unsigned>(front.number(2)));
  front.want("-");
  const chrono::year_month_day date(year, month,
                                    chrono::day(static_cast<unsigned>(front.number(2))));
  front.want("T ");
  const int hour = front.number(2);
  front.want(":");
  const int minute = front.number(2);
  front.want(":");
  const int second = front.number(2);
  const double fraction = front.take(".") ? front.fraction() : 0;
  const int behind = minutes_behind_utc(front);
  const bool is_time = hour < 24 && minute < 60 && second < 60 && std::abs(behind) < 24 * 60;
  if (!front.is_taken() || !date.ok() || date.year() < chrono::year(1) || !is_time) return 0;
  const chrono::seconds seconds = chrono::sys_days(date).time_since_epoch() + chrono::hours(hour) +
                                  chrono::minutes(minute + behind) + chrono::seconds(second);
  return static_cast<double>(seconds.count()) + fraction;
}

// Of an element, in S3's form or in that of HTTP; 0 where it is none.
double time_of(const XmlElement& element, std::string_view name) noexcept {
  const std::string_view text = trimmed(element.value(name), kBlanks);
  const std::optional<SystemTime> date = parse_http_date(text);
  if (!date) return parse_iso_time(text);
  return chrono::duration<double>(date->time_since_epoch()).count();
}

}  // namespace

bool is_same_root(std::string_view root, std::string_view expected) noexcept {
  if (root == expected) return true;
  constexpr std::string_view kResult = "Result";
  constexpr std::string_view kResponse = "Response";
  const bool is_result = root.ends_with(kResult);
  if (!expected.ends_with(kResult) || (!is_result && !root.ends_with(kResponse))) return false;
  expected.remove_suffix(kResult.size());
  root.remove_suffix((is_result ? kResult : kResponse).size());
  return root == expected || std::ranges::any_of(kCalledRoots, [=](const CalledRoot& called) {
           return called.root == expected && called.call == root;
         });
}

std::string_view bare_etag(std::string_view text) noexcept {
  text = trimmed(text, kBlanks);
  if (text.starts_with("W/")) text.remove_prefix(2);
  return trimmed(text, "\"");
}

Result<ObjectPage> parse_object_page(std::string_view document, Plus plus) {
  HFLUSH_ASSIGN_OR_RETURN(const XmlElement root, rooted(document, "ListBucketResult"));
  KeyDecoder key(root, plus);
  ObjectPage page;
  page.plus = key.plus();
  page.doubtful = key.take_doubtful();
  for (const XmlElement& entry : root.children) {
    if (entry.name == "Contents") {
      ListedObject& object = page.objects.emplace_back();
      HFLUSH_ASSIGN_OR_RETURN(object.key, key.of(entry, "Key"));
      if (says(entry, "Size")) {
        HFLUSH_ASSIGN_OR_RETURN(object.size, number_of(entry, "Size"));
      } else if (object.key.ends_with('/')) {
        object.size = 0;
      }
      object.modified = static_cast<std::int64_t>(std::floor(time_of(entry, "LastModified")));
      object.etag = bare_etag(entry.value("ETag"));
      object.storage_class = entry.value("StorageClass");
      if (object.storage_class == "STANDARD") object.storage_class.clear();
    } else if (entry.name == "CommonPrefixes") {
      HFLUSH_ASSIGN_OR_RETURN(page.prefixes.emplace_back(), key.of(entry, "Prefix"));
    }
  }
  if (!is_truncated(root, {"NextContinuationToken", "NextMarker"})) return page;
  page.next_token = root.value("NextContinuationToken");
  if (!page.next_token.empty()) return page;
  page.next_marker = key(root.value("NextMarker"));
  if (!page.next_marker.empty()) return page;
  if (!page.objects.empty()) page.next_marker = page.objects.back().key;
  if (!page.prefixes.empty()) {
    page.next_marker = std::max(page.next_marker, page.prefixes.back());
  }
  if (page.next_marker.empty()) {
    return refused("a listing that goes on, without <NextContinuationToken> and keys");
  }
  return page;
}

Result<UploadPage> parse_upload_page(std::string_view document, Plus plus) {
  HFLUSH_ASSIGN_OR_RETURN(const XmlElement root, rooted(document, "ListMultipartUploadsResult"));
  KeyDecoder key(root, plus);
  UploadPage page;
  page.doubtful = key.take_doubtful();
  for (const XmlElement& entry : root.children) {
    if (entry.name != "Upload") continue;
    ListedUpload& upload = page.uploads.emplace_back();
    HFLUSH_ASSIGN_OR_RETURN(upload.key, key.of(entry, "Key"));
    HFLUSH_ASSIGN_OR_RETURN(upload.upload_id, text_of(entry, "UploadId"));
    upload.initiated = time_of(entry, "Initiated");
  }
  if (!is_truncated(root, {"NextKeyMarker"})) return page;
  std::string next = key(root.value("NextKeyMarker"));
  if (!next.empty()) {
    page.next_markers.emplace(std::move(next), root.value("NextUploadIdMarker"));
  } else if (!page.uploads.empty() && !page.uploads.back().key.empty()) {
    page.next_markers.emplace(page.uploads.back().key, page.uploads.back().upload_id);
  } else {
    return refused("a listing of uploads that goes on, without <NextKeyMarker> and uploads");
  }
  return page;
}

Result<std::vector<NotDeleted>> parse_delete_result(std::string_view document) {
  HFLUSH_ASSIGN_OR_RETURN(const XmlElement root, rooted(document, "DeleteResult"));
  std::vector<NotDeleted> left;
  for (const XmlElement& entry : root.children) {
    if (entry.name != "Error") continue;
    left.push_back({std::string(entry.value("Key")), std::string(entry.value("Code")),
                    std::string(entry.value("Message"))});
  }
  return left;
}

Result<std::string> parse_upload_id(std::string_view document) {
  HFLUSH_ASSIGN_OR_RETURN(const XmlElement root, rooted(document, "InitiateMultipartUploadResult"));
  HFLUSH_ASSIGN_OR_RETURN(const std::string_view text, text_of(root, "UploadId"));
  const std::string_view id = trimmed(text, kBlanks);
  if (id.empty()) return refused("an upload without an id");
  return std::string(id);
}

Result<std::string> parse_etag(std::string_view document, std::string_view root) {
  HFLUSH_ASSIGN_OR_RETURN(const XmlElement found, rooted(document, root));
  return std::string(bare_etag(found.value("ETag")));
}

std::string delete_document(const std::vector<std::string>& keys, bool quiet) {
  std::string document = "<Delete xmlns=\"" + std::string(kNamespace) + "\">";
  if (quiet) document += "<Quiet>true</Quiet>";
  for (const std::string& key : keys) {
    document += "<Object><Key>" + escape_xml(key) + "</Key></Object>";
  }
  return document + "</Delete>";
}

}  // namespace hflush::s3
