// text: small files, and pieces of lines.
#include "base/text.h"

#include <algorithm>
#include <memory>

namespace gz {

std::string read_text(const std::string& path) {
  std::string content;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), std::fclose);
  if (!file) return content;
  char part[4096];
  while (const size_t got = std::fread(part, 1, sizeof part, file.get())) content.append(part, got);
  return content;
}

std::vector<std::string> split(std::string_view line, char by) {
  std::vector<std::string> parts;
  while (!line.empty()) {
    const size_t end = std::min(line.find(by), line.size());
    parts.emplace_back(line.substr(0, end));
    line.remove_prefix(std::min(end + 1, line.size()));
  }
  return parts;
}

}  // namespace gz
