// text: strings out of parts, and small files as strings. No iostreams in the core: a module that is linked with its
// own copy of the C++ library, as wheels may be, cannot rely on their locales once another copy is in the process.
#pragma once

#include <algorithm>
#include <charconv>
#include <concepts>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace gz {

struct Hex {  // text(Hex{255}) is "ff"
  uint64_t value;
};

inline void append_part(std::string& to, std::string_view part) { to += part; }
inline void append_part(std::string& to, char part) { to += part; }

template <std::integral T>
void append_part(std::string& to, T part) {
  char digits[24];
  to.append(digits, std::to_chars(digits, digits + sizeof digits, part).ptr);
}

inline void append_part(std::string& to, Hex part) {
  char digits[24];
  to.append(digits, std::to_chars(digits, digits + sizeof digits, part.value, 16).ptr);
}

inline void append_part(std::string& to, double part) {
  char digits[32];
  to.append(digits, static_cast<size_t>(std::snprintf(digits, sizeof digits, "%.6g", part)));
}

// Joins its arguments into one string: text("indptr[", i, "] = ", value).
template <class... Parts>
std::string text(const Parts&... parts) {
  std::string out;
  (append_part(out, parts), ...);
  return out;
}

// The whole of a small file such as those under /proc; empty where it cannot be read.
inline std::string read_text(const std::string& path) {
  std::string content;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), std::fclose);
  if (!file) return content;
  char part[4096];
  while (const size_t got = std::fread(part, 1, sizeof part, file.get())) content.append(part, got);
  return content;
}

// The pieces between single `by` characters; a trailing one ends the last piece and does not begin another.
inline std::vector<std::string> split(std::string_view line, char by) {
  std::vector<std::string> parts;
  while (!line.empty()) {
    const size_t end = std::min(line.find(by), line.size());
    parts.emplace_back(line.substr(0, end));
    line.remove_prefix(std::min(end + 1, line.size()));
  }
  return parts;
}

}  // namespace gz
