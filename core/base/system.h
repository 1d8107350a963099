// system: what the machine and the control groups allow this process, from /proc and /sys. Linux only: elsewhere the
// answers are empty. `root` is put before every path, for tests.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace gz {

// A control group of this process, and those above it: a limit above binds as well.
struct ControlGroup {
  int version = 0;  // 1 or 2; 0: none
  std::string mount;
  std::vector<std::string> paths;  // below the mount, the process's own group first and "" last
};

// The group that has `controller` ("memory", "cpu"): that of version 1 where it is mounted, else version 2.
ControlGroup control_group(const std::string& controller, const std::string& root = "");

struct CgroupMemory {
  std::string path;                           // of the group, below the mount
  int version = 0;                            // 1 or 2; 0: no memory group
  uint64_t used_bytes = 0, cached_bytes = 0;  // page cache is part of what is used
  std::optional<uint64_t> limit_bytes;        // the tightest of the group and those above it
  std::optional<uint64_t> left_bytes;         // what the fullest of them leaves, page cache counted as free
};

struct SystemMemory {
  uint64_t total_bytes = 0, available_bytes = 0;  // of the machine; 0 where the system does not say
  uint64_t swap_bytes = 0;                        // in all
  uint64_t anonymous_rss = 0, file_rss = 0;       // of this process
  CgroupMemory cgroup;
};

SystemMemory system_memory(const std::string& root = "");

// What this process could still take: the machine's available memory, or what the container leaves if that is less
// (its page cache counts as free, since the kernel evicts it first), less the pages that are locked for devices. 0
// where the system does not say.
uint64_t available_memory(const std::string& root = "");

// Pages of a mapping that this process has locked for a device: they stay in the page cache, but cannot be evicted.
// False if there are too many such ranges already.
bool add_locked_pages(uintptr_t begin, uint64_t bytes);
void remove_locked_pages(uintptr_t begin);
uint64_t locked_pages(uintptr_t begin = 0, uintptr_t end = UINTPTR_MAX);  // bytes of them, between these addresses

// Processors that the tightest CPU quota allows; nothing where there is no quota.
std::optional<double> cpu_quota(const std::string& root = "");

struct DiskInfo {
  std::string file_system, device;  // "ext4", "nvme0n1"; empty where the system does not say
  std::optional<bool> rotational;
  std::optional<uint64_t> readahead_bytes;
};

// The disk under a file whose st_dev is major:minor.
DiskInfo disk_info(unsigned major, unsigned minor, const std::string& root = "");

}  // namespace gz
