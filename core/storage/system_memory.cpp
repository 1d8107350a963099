// system_memory: /proc and the two kinds of cgroup.
#include "storage/system_memory.h"

#include <algorithm>
#include <charconv>
#include <vector>

#include "base/text.h"

namespace gz {
#ifdef __linux__
namespace {

constexpr uint64_t kUnlimited = uint64_t{1} << 60;  // version 1 writes "no limit" as a number near 2^63

std::optional<uint64_t> number_in(std::string_view words) {
  words.remove_prefix(std::min(words.find_first_not_of(" \t"), words.size()));
  uint64_t value = 0;
  if (std::from_chars(words.data(), words.data() + words.size(), value).ec != std::errc()) return std::nullopt;
  return value;
}

std::optional<uint64_t> read_number(const std::string& path) { return number_in(read_text(path)); }

// The value of "key value" or "key: value kB" in a file of such lines.
std::optional<uint64_t> read_field(const std::string& path, const std::string& key) {
  for (const std::string& line : split(read_text(path), '\n')) {
    if (line.rfind(key, 0) != 0 || line.size() == key.size()) continue;
    if (line[key.size()] != ' ' && line[key.size()] != ':') continue;
    const auto value = number_in(std::string_view(line).substr(key.size() + 1));
    return value && line.ends_with(" kB") ? *value * 1024 : value;
  }
  return std::nullopt;
}

struct Group {
  int version = 0;
  std::string mount, path;  // the group is the folder mount + path
};

bool holds(const std::string& list, const std::string& word) {
  const auto words = split(list, ',');
  return std::find(words.begin(), words.end(), word) != words.end();
}

// The folder where groups of that version are mounted, and what part of the tree it shows (a container sees its own
// group as the root): fields of /proc/self/mountinfo.
Group mounted_group(int version, const std::string& path) {
  for (const std::string& line : split(read_text("/proc/self/mountinfo"), '\n')) {
    const size_t dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    const auto left = split(line.substr(0, dash), ' '), right = split(line.substr(dash + 3), ' ');
    if (left.size() < 5 || right.size() < 3) continue;
    const bool fits = version == 2 ? right[0] == "cgroup2" : right[0] == "cgroup" && holds(right[2], "memory");
    if (!fits) continue;
    const std::string& root = left[3];
    std::string below = path;
    if (root != "/" && path.rfind(root, 0) == 0) below = path.substr(root.size());
    if (below == "/") below.clear();
    return {version, left[4], below};
  }
  return {};
}

// "hierarchy:controllers:path" lines; the memory controller is in version 1, or all is in version 2.
Group own_group() {
  Group unified;
  for (const std::string& line : split(read_text("/proc/self/cgroup"), '\n')) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1), path = line.substr(second + 1);
    if (holds(controllers, "memory")) return mounted_group(1, path);
    if (controllers.empty()) unified = mounted_group(2, path);
  }
  return unified;
}

CgroupMemory cgroup_memory() {
  const Group group = own_group();
  if (group.version == 0) return {};
  const bool v2 = group.version == 2;
  CgroupMemory found;
  found.version = group.version;
  found.path = group.path.empty() ? "/" : group.path;
  const std::string own = group.mount + group.path;
  const auto used = read_number(own + (v2 ? "/memory.current" : "/memory.usage_in_bytes"));
  if (!used && v2) return {};  // the root of version 2 has no figures
  found.used_bytes = used.value_or(0);
  found.cached_bytes = read_field(own + "/memory.stat", v2 ? "file" : "total_cache").value_or(0);
  for (std::string at = group.path;; at.resize(at.rfind('/'))) {  // a limit above binds as well
    const auto limit = read_number(group.mount + at + (v2 ? "/memory.max" : "/memory.limit_in_bytes"));
    if (limit && *limit < kUnlimited) found.limit_bytes = std::min(*limit, found.limit_bytes.value_or(*limit));
    if (at.empty() || at.rfind('/') == std::string::npos) break;
  }
  return found;
}

}  // namespace

SystemMemory system_memory() {
  SystemMemory found;
  found.total_bytes = read_field("/proc/meminfo", "MemTotal").value_or(0);
  found.available_bytes = read_field("/proc/meminfo", "MemAvailable").value_or(0);
  found.anonymous_rss = read_field("/proc/self/status", "RssAnon").value_or(0);
  found.file_rss =
      read_field("/proc/self/status", "RssFile").value_or(0) + read_field("/proc/self/status", "RssShmem").value_or(0);
  found.cgroup = cgroup_memory();
  return found;
}

uint64_t available_memory() {
  const uint64_t machine = read_field("/proc/meminfo", "MemAvailable").value_or(0);
  const CgroupMemory cgroup = cgroup_memory();
  if (!cgroup.limit_bytes) return machine;
  const uint64_t held = cgroup.used_bytes - std::min(cgroup.used_bytes, cgroup.cached_bytes);
  return std::min(machine, *cgroup.limit_bytes - std::min(held, *cgroup.limit_bytes));
}

#else

SystemMemory system_memory() { return {}; }
uint64_t available_memory() { return 0; }

#endif
}  // namespace gz
