// system: /proc, /sys and the two kinds of control group.
#include "base/system.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <cstdlib>

#include "base/text.h"

#ifdef __linux__
#include <climits>
#endif

namespace gz {
namespace {

// Free if `begin` is 0. There is no mutex, since a child may be forked at any moment.
struct LockedRange {
  std::atomic<uintptr_t> begin{0};
  std::atomic<uint64_t> bytes{0};
};
std::array<LockedRange, 64> locked_ranges;

}  // namespace

bool add_locked_pages(uintptr_t begin, uint64_t bytes) {
  for (LockedRange& range : locked_ranges) {
    uintptr_t none = 0;
    if (!range.begin.compare_exchange_strong(none, begin)) continue;
    range.bytes = bytes;
    return true;
  }
  return false;
}

void remove_locked_pages(uintptr_t begin) {
  for (LockedRange& range : locked_ranges) {
    if (range.begin != begin) continue;
    range.bytes = 0;
    range.begin = 0;
    return;
  }
}

uint64_t locked_pages(uintptr_t begin, uintptr_t end) {
  uint64_t sum = 0;
  for (const LockedRange& range : locked_ranges) {
    const uintptr_t first = range.begin, last = first + range.bytes;
    sum += std::min(last, end) - std::min(std::max(first, begin), std::min(last, end));
  }
  return sum;
}

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

// The value of "key value" or "key: value kB" in a text of such lines.
std::optional<uint64_t> field_of(const std::string& text, const std::string& key) {
  for (const std::string& line : split(text, '\n')) {
    if (line.rfind(key, 0) != 0 || line.size() == key.size()) continue;
    if (line[key.size()] != ' ' && line[key.size()] != ':') continue;
    const auto value = number_in(std::string_view(line).substr(key.size() + 1));
    return value && line.ends_with(" kB") ? *value * 1024 : value;
  }
  return std::nullopt;
}

bool holds(const std::string& list, const std::string& word) {
  const auto words = split(list, ',');
  return std::find(words.begin(), words.end(), word) != words.end();
}

struct Mount {
  std::string device, shown, folder, file_system, options;  // shown: the part of the file system that is mounted
};

std::vector<Mount> mounts(const std::string& root) {
  std::vector<Mount> found;
  for (const std::string& line : split(read_text(root + "/proc/self/mountinfo"), '\n')) {
    const size_t dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    const auto left = split(line.substr(0, dash), ' '), right = split(line.substr(dash + 3), ' ');
    if (left.size() < 5 || right.empty()) continue;
    found.push_back({left[2], left[3], left[4], right[0], right.size() > 2 ? right[2] : ""});
  }
  return found;
}

// `path` and all above it, relative to the mount. A container may be shown its own group as the mount's root; parts
// such as ".." denote groups that it cannot see.
std::vector<std::string> paths_below(const std::string& shown, std::string path) {
  if (shown != "/" && path.rfind(shown, 0) == 0 && (path.size() == shown.size() || path[shown.size()] == '/')) {
    path.erase(0, shown.size());
  }
  std::vector<std::string> paths{""};
  for (const std::string& part : split(path, '/')) {
    if (!part.empty() && part != "..") paths.push_back(paths.back() + "/" + part);
  }
  std::reverse(paths.begin(), paths.end());
  return paths;
}

}  // namespace

ControlGroup control_group(const std::string& controller, const std::string& root) {
  const auto mounted = mounts(root);
  ControlGroup unified;
  for (const std::string& line : split(read_text(root + "/proc/self/cgroup"), '\n')) {  // hierarchy:controllers:path
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1), path = line.substr(second + 1);
    const bool is_v1 = holds(controllers, controller);
    if (!is_v1 && !controllers.empty()) continue;
    for (const Mount& mount : mounted) {
      if (mount.file_system != (is_v1 ? "cgroup" : "cgroup2")) continue;
      if (is_v1 && !holds(mount.options, controller)) continue;
      const ControlGroup found{is_v1 ? 1 : 2, root + mount.folder, paths_below(mount.shown, path)};
      if (is_v1) return found;
      unified = found;
      break;
    }
  }
  return unified;
}

namespace {

CgroupMemory cgroup_memory(const std::string& root) {
  const ControlGroup group = control_group("memory", root);
  const bool v2 = group.version == 2;
  CgroupMemory found;
  for (const std::string& path : group.paths) {
    const std::string folder = group.mount + path;
    const auto used = read_number(folder + (v2 ? "/memory.current" : "/memory.usage_in_bytes"));
    if (!used) continue;  // not visible here, or the root of version 2
    const uint64_t cached = field_of(read_text(folder + "/memory.stat"), v2 ? "file" : "total_cache").value_or(0);
    if (found.version == 0) {
      found.version = group.version;
      found.path = path.empty() ? "/" : path;
      found.used_bytes = *used;
      found.cached_bytes = cached;
    }
    const auto limit = read_number(folder + (v2 ? "/memory.max" : "/memory.limit_in_bytes"));
    if (!limit || *limit >= kUnlimited) continue;
    const uint64_t held = *used - std::min(*used, cached), left = *limit - std::min(held, *limit);
    found.limit_bytes = std::min(*limit, found.limit_bytes.value_or(*limit));
    found.left_bytes = std::min(left, found.left_bytes.value_or(left));
  }
  const bool whole_machine = found.path == "/" && !found.limit_bytes && !v2;  // the root group of version 1
  return whole_machine ? CgroupMemory{} : found;
}

}  // namespace

SystemMemory system_memory(const std::string& root) {
  const std::string machine = read_text(root + "/proc/meminfo"), process = read_text(root + "/proc/self/status");
  SystemMemory found;
  found.total_bytes = field_of(machine, "MemTotal").value_or(0);
  found.available_bytes = field_of(machine, "MemAvailable").value_or(0);
  found.swap_bytes = field_of(machine, "SwapTotal").value_or(0);
  found.anonymous_rss = field_of(process, "RssAnon").value_or(0);
  found.file_rss = field_of(process, "RssFile").value_or(0) + field_of(process, "RssShmem").value_or(0);
  found.cgroup = cgroup_memory(root);
  return found;
}

uint64_t available_memory(const std::string& root) {
  const uint64_t machine = field_of(read_text(root + "/proc/meminfo"), "MemAvailable").value_or(0);
  const uint64_t found = std::min(machine, cgroup_memory(root).left_bytes.value_or(machine));
  return found - std::min(found, locked_pages());
}

std::optional<double> cpu_quota(const std::string& root) {
  const ControlGroup group = control_group("cpu", root);
  std::optional<double> tightest;
  for (const std::string& path : group.paths) {
    const std::string folder = group.mount + path;
    std::optional<uint64_t> quota, period;  // "max" and -1 mean no limit
    if (group.version == 2) {
      const auto words = split(read_text(folder + "/cpu.max"), ' ');
      if (words.size() == 2) quota = number_in(words[0]), period = number_in(words[1]);
    } else {
      quota = read_number(folder + "/cpu.cfs_quota_us");
      period = read_number(folder + "/cpu.cfs_period_us");
    }
    if (quota.value_or(0) == 0 || period.value_or(0) == 0) continue;
    const double processors = static_cast<double>(*quota) / static_cast<double>(*period);
    tightest = std::min(processors, tightest.value_or(processors));
  }
  return tightest;
}

DiskInfo disk_info(unsigned major, unsigned minor, const std::string& root) {
  const std::string number = text(major, ":", minor);
  DiskInfo found;
  for (const Mount& mount : mounts(root)) {
    if (mount.device != number) continue;
    found.file_system = mount.file_system;
    break;
  }
  if (const auto ahead = read_number(root + "/sys/class/bdi/" + number + "/read_ahead_kb")) {
    found.readahead_bytes = *ahead * 1024;
  }
  char resolved[PATH_MAX];
  if (realpath((root + "/sys/dev/block/" + number).c_str(), resolved) == nullptr) return found;
  std::string block = resolved;
  if (!read_text(block + "/partition").empty()) block.resize(block.rfind('/'));
  found.device = block.substr(block.rfind('/') + 1);
  if (const auto spins = read_number(block + "/queue/rotational")) found.rotational = *spins != 0;
  return found;
}

#else

ControlGroup control_group(const std::string&, const std::string&) { return {}; }
SystemMemory system_memory(const std::string&) { return {}; }
uint64_t available_memory(const std::string&) { return 0; }
std::optional<double> cpu_quota(const std::string&) { return std::nullopt; }
DiskInfo disk_info(unsigned, unsigned, const std::string&) { return {}; }

#endif
}  // namespace gz
