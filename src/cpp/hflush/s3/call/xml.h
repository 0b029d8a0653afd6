// The XML that S3 answers with, as far as the write path needs it: elements and text.
//
// No DTD, no entities but the five predefined and character references, no processing instructions
// but the declaration; namespaces are ignored and elements known by their local name; attributes
// and comments are read over. Blanks may stand before the declaration (stores send them to keep a
// connection alive). A document that is cut off, nests deeper than 32, has more than 100,000
// elements or any of what is excluded is refused: kIo, EBADMSG, "malformed XML at byte ...". Takes
// linear time, and no entity grows. Text is bytes as they came (but no null); they are not checked
// to be UTF-8. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "hflush/base/result.h"

namespace hflush::s3 {

struct XmlElement {
  std::string name;  // local
  std::string text;  // unescaped, of the element itself; surrounding blanks kept
  std::vector<XmlElement> children;

  // The first child of that name; null without one.
  const XmlElement* child(std::string_view wanted) const noexcept;
  // The text of that child; empty without one.
  std::string_view value(std::string_view wanted) const noexcept;
};

// The root element.
Result<XmlElement> parse_xml(std::string_view document);
// The root's local name, of a document that parse_xml() takes, without keeping what is in it.
Result<std::string> parse_xml_root(std::string_view document);

// Text as it stands within an element.
std::string escape_xml(std::string_view text);

}  // namespace hflush::s3
