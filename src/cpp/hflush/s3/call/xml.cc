#include "hflush/s3/call/xml.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "hflush/base/ascii.h"

namespace hflush::s3 {
namespace {

constexpr std::size_t kMaxDepth = 32;
constexpr std::size_t kMaxElements = 100'000;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr std::string_view kBlanks = " \t\r\n";

constexpr bool is_blank(char c) noexcept { return kBlanks.find(c) != std::string_view::npos; }

constexpr bool starts_name(char c) noexcept {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' || c == ':' ||
         static_cast<unsigned char>(c) >= 0x80;
}

constexpr bool continues_name(char c) noexcept {
  return starts_name(c) || (c >= '0' && c <= '9') || c == '-' || c == '.';
}

std::string_view local_name(std::string_view name) noexcept {
  return name.substr(name.rfind(':') + 1);  // npos + 1 is 0
}

void append_utf8(std::uint32_t character, std::string& out) {
  const auto add = [&out](std::uint32_t byte) { out += static_cast<char>(byte); };
  const auto add_tail = [&add](std::uint32_t bits) { add(0x80U | (bits & 0x3FU)); };
  if (character < 0x80) {
    add(character);
  } else if (character < 0x800) {
    add(0xC0U | character >> 6U);
    add_tail(character);
  } else if (character < 0x10000) {
    add(0xE0U | character >> 12U);
    add_tail(character >> 6U);
    add_tail(character);
  } else {
    add(0xF0U | character >> 18U);
    add_tail(character >> 12U);
    add_tail(character >> 6U);
    add_tail(character);
  }
}

// "#10" or "#x1F600", without '&' and ';'.
std::optional<std::uint32_t> character_reference(std::string_view name) noexcept {
  const bool hexadecimal = name.starts_with("#x");
  const std::string_view digits = name.substr(hexadecimal ? 2 : 1);
  if (digits.empty()) return std::nullopt;
  std::uint32_t character = 0;
  for (const char c : digits) {
    std::uint32_t digit = 0;
    if (c >= '0' && c <= '9') {
      digit = static_cast<std::uint32_t>(c - '0');
    } else if (hexadecimal && c >= 'a' && c <= 'f') {
      digit = static_cast<std::uint32_t>(c - 'a') + 10;
    } else if (hexadecimal && c >= 'A' && c <= 'F') {
      digit = static_cast<std::uint32_t>(c - 'A') + 10;
    } else {
      return std::nullopt;
    }
    character = character * (hexadecimal ? 16 : 10) + digit;
    if (character > 0x10FFFF) return std::nullopt;
  }
  const bool surrogate = character >= 0xD800 && character <= 0xDFFF;
  if (character == 0 || surrogate) return std::nullopt;
  return character;
}

std::optional<std::uint32_t> referenced(std::string_view name) noexcept {
  using Entity = std::pair<std::string_view, char>;
  static constexpr std::array<Entity, 5> kEntities = {Entity{"amp", '&'}, Entity{"lt", '<'},
                                                      Entity{"gt", '>'}, Entity{"quot", '"'},
                                                      Entity{"apos", '\''}};
  if (name.starts_with('#')) return character_reference(name);
  const auto* found = std::ranges::find_if(
      kEntities, [name](const Entity& entity) { return entity.first == name; });
  if (found == kEntities.end()) return std::nullopt;
  return static_cast<std::uint32_t>(found->second);
}

// Whether a declaration names no encoding, or one that UTF-8 includes.
bool is_utf8(std::string_view declaration) noexcept {
  const std::size_t named = declaration.find("encoding");
  if (named == std::string_view::npos) return true;
  std::string_view value = declaration.substr(named);
  value.remove_prefix(std::min(value.find_first_of("\"'"), value.size() - 1) + 1);
  value = value.substr(0, value.find_first_of("\"'"));
  return equals_ignoring_case(value, "utf-8") || equals_ignoring_case(value, "us-ascii");
}

// One pass over a document. Each step takes something off the front and says whether it was there
// as it should be; the first that was not says why.
class Parser {
 public:
  // `keep`: build the tree, not only the root.
  Parser(std::string_view document, bool keep) noexcept : document_(document), keep_(keep) {}

  Result<XmlElement> parse() {
    if (!prolog() || !content() || !epilog()) return failure();
    return std::move(root_);
  }

 private:
  struct Open {
    std::string_view name;  // qualified
    XmlElement* element;    // null if it is not kept
  };

  std::string_view rest() const noexcept { return document_.substr(at_); }
  bool next_is(std::string_view text) const noexcept { return rest().starts_with(text); }
  bool take(std::string_view text) noexcept {
    if (!next_is(text)) return false;
    at_ += text.size();
    return true;
  }
  // Whether there were any.
  bool take_blanks() noexcept {
    const std::size_t begin = at_;
    at_ = std::min(document_.find_first_not_of(kBlanks, at_), document_.size());
    return at_ > begin;
  }
  std::string_view take_name() noexcept {
    const std::size_t begin = at_;
    if (at_ < document_.size() && starts_name(document_[at_])) {
      do ++at_;
      while (at_ < document_.size() && continues_name(document_[at_]));
    }
    return document_.substr(begin, at_ - begin);
  }
  // What comes before `end`, which is taken too.
  std::optional<std::string_view> take_until(std::string_view end) noexcept {
    const std::size_t found = document_.find(end, at_);
    if (found == std::string_view::npos) return std::nullopt;
    const std::string_view taken = document_.substr(at_, found - at_);
    at_ = found + end.size();
    return taken;
  }
  bool refuse(std::string_view why) noexcept {
    if (why_.empty()) why_ = why;
    return false;
  }
  Status failure() const {
    std::string message = "malformed XML at byte " + std::to_string(at_) + " of " +
                          std::to_string(document_.size()) + ": ";
    message += why_;
    return Status(StatusCode::kIo, std::move(message), {}, EBADMSG);
  }

  bool prolog() noexcept {
    at_ = std::min(document_.find('\0'), document_.size());
    if (at_ < document_.size()) return refuse("a null character");
    at_ = 0;
    take(kByteOrderMark);
    take_blanks();
    if (next_is("<?xml") && at_ + 5 < document_.size() && is_blank(document_[at_ + 5])) {
      const std::size_t begin = at_;
      if (!take_until("?>")) return refuse("the declaration is cut off");
      if (!is_utf8(document_.substr(begin, at_ - begin))) return refuse("not in UTF-8");
    }
    return blanks_and_comments();
  }

  bool epilog() noexcept {
    if (!blanks_and_comments()) return false;
    return at_ == document_.size() || refuse("something follows the root element");
  }

  bool blanks_and_comments() noexcept {
    for (;;) {
      take_blanks();
      if (!next_is("<!--")) return true;
      if (!comment()) return false;
    }
  }

  bool comment() noexcept {
    take("<!--");
    if (!take_until("--")) return refuse("a comment is cut off");
    return take(">") || refuse("a comment has \"--\" in it");
  }

  // The root element and all in it.
  bool content() {
    if (at_ == document_.size()) return refuse("no element");
    if (!next_is("<")) return refuse("text outside of the root element");
    if (!start_tag()) return false;
    while (!open_.empty()) {
      if (!step()) return false;
    }
    return true;
  }

  bool step() {
    if (at_ == document_.size()) return refuse("cut off within an element");
    if (!next_is("<")) return text();
    if (next_is("</")) return end_tag();
    if (next_is("<!--")) return comment();
    if (next_is("<![CDATA[")) return cdata();
    return start_tag();
  }

  bool start_tag() {
    take("<");
    const std::string_view name = take_name();
    if (name.empty()) return refuse("no name of an element");
    if (local_name(name).empty()) return refuse("a name ends in ':'");
    if (open_.size() == kMaxDepth) return refuse("nests too deep");
    if (++elements_ > kMaxElements) return refuse("too many elements");
    open_.push_back({name, add_element(local_name(name))});
    for (;;) {
      const bool separated = take_blanks();
      if (take(">")) return true;
      if (take("/>")) {
        open_.pop_back();
        return true;
      }
      if (!separated) return refuse("a start tag does not end");
      if (!attribute()) return false;
    }
  }

  // Children grow only while none of them is open, so that the open elements stay where they are.
  XmlElement* add_element(std::string_view name) {
    XmlElement* element = nullptr;
    if (open_.empty()) {
      element = &root_;
    } else if (keep_) {
      element = &open_.back().element->children.emplace_back();
    } else {
      return nullptr;
    }
    element->name = name;
    return element;
  }

  bool attribute() noexcept {
    if (take_name().empty()) return refuse("no name of an attribute");
    take_blanks();
    if (!take("=")) return refuse("an attribute without a value");
    take_blanks();
    if (!next_is("\"") && !next_is("'")) return refuse("an attribute's value is not quoted");
    const std::string_view quote = rest().substr(0, 1);
    take(quote);
    const std::optional<std::string_view> value = take_until(quote);
    if (!value) return refuse("an attribute's value is cut off");
    return value->find('<') == std::string_view::npos || refuse("'<' in an attribute's value");
  }

  bool end_tag() noexcept {
    take("</");
    if (take_name() != open_.back().name) return refuse("an end tag of another element");
    take_blanks();
    if (!take(">")) return refuse("an end tag does not end");
    open_.pop_back();
    return true;
  }

  bool text() {
    const std::size_t end = std::min(document_.find_first_of("<&", at_), document_.size());
    append(document_.substr(at_, end - at_));
    at_ = end;
    return !next_is("&") || reference();
  }

  bool reference() {
    // The longest that means anything is "&#1114111;", but for leading zeros.
    constexpr std::size_t kLongest = 16;
    const std::size_t end = rest().substr(0, kLongest).find(';');
    if (end == std::string_view::npos) return refuse("a reference does not end");
    const std::optional<std::uint32_t> character = referenced(rest().substr(1, end - 1));
    if (!character) return refuse("an entity that is not one of the five, or no character");
    if (keep_) append_utf8(*character, open_.back().element->text);
    at_ += end + 1;
    return true;
  }

  bool cdata() {
    take("<![CDATA[");
    const std::optional<std::string_view> data = take_until("]]>");
    if (!data) return refuse("a CDATA section is cut off");
    append(*data);
    return true;
  }

  void append(std::string_view text) {
    if (keep_) open_.back().element->text += text;
  }

  const std::string_view document_;
  const bool keep_;
  std::size_t at_ = 0;
  std::size_t elements_ = 0;
  std::string_view why_;
  XmlElement root_;
  std::vector<Open> open_;
};

}  // namespace

const XmlElement* XmlElement::child(std::string_view wanted) const noexcept {
  const auto found = std::ranges::find_if(
      children, [wanted](const XmlElement& element) { return element.name == wanted; });
  return found == children.end() ? nullptr : &*found;
}

std::string_view XmlElement::value(std::string_view wanted) const noexcept {
  const XmlElement* found = child(wanted);
  return found == nullptr ? std::string_view() : std::string_view(found->text);
}

Result<XmlElement> parse_xml(std::string_view document) { return Parser(document, true).parse(); }

Result<std::string> parse_xml_root(std::string_view document) {
  HFLUSH_ASSIGN_OR_RETURN(XmlElement root, Parser(document, false).parse());
  return std::move(root.name);
}

std::string escape_xml(std::string_view text) {
  std::string escaped;
  escaped.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      default:
        // Control characters, line ends among them: a parser would change or refuse them.
        if (static_cast<unsigned char>(c) < 0x20) {
          escaped += "&#" + std::to_string(static_cast<int>(c)) + ";";
        } else {
          escaped += c;
        }
    }
  }
  return escaped;
}

}  // namespace hflush::s3
