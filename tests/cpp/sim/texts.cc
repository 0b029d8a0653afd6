#include "sim/texts.h"

#include <algorithm>

namespace hflush::sim {

void Texts::end_sharing(std::uint64_t file, std::uint64_t place) {
  const auto found = shared_.find(file);
  if (found == shared_.end() || found->second.has_ended) return;
  found->second.written = found->second.known;
  found->second.known.resize(std::min<std::size_t>(found->second.known.size(), place));
  found->second.has_ended = true;
}

bool Texts::accept(std::uint64_t file, std::uint64_t place, std::string_view bytes) {
  const auto found = shared_.find(file);
  if (found != shared_.end() && !found->second.has_ended) {
    std::string& known = found->second.known;
    if (place > known.size()) return false;  // and nobody was given what is before it
    const std::size_t old = std::min<std::size_t>(bytes.size(), known.size() - place);
    if (std::string_view(known).substr(place, old) != bytes.substr(0, old)) return false;
    known += bytes.substr(old);
    return true;
  }
  if (at(file, place, bytes.size()) == bytes) return true;
  return found != shared_.end() && place < found->second.written.size() &&
         std::string_view(found->second.written).substr(place, bytes.size()) == bytes;
}

std::string Texts::at(std::uint64_t file, std::uint64_t place, std::size_t size) const {
  const auto found = shared_.find(file);
  if (found == shared_.end()) return content(file, place, size);
  const std::string& known = found->second.known;
  std::string bytes = place < known.size() ? known.substr(place, size) : std::string();
  if (found->second.has_ended) bytes += content(file, place + bytes.size(), size - bytes.size());
  return bytes;
}

}  // namespace hflush::sim
