// system_memory: what the machine and the container allow this process.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace gz {

struct CgroupMemory {
  std::string path;                           // of the group, as the kernel names it
  int version = 0;                            // 1 or 2; 0: no memory group
  uint64_t used_bytes = 0, cached_bytes = 0;  // page cache is part of what is used
  std::optional<uint64_t> limit_bytes;        // the tightest of the group and those above it
};

struct SystemMemory {
  uint64_t total_bytes = 0, available_bytes = 0;  // of the machine; 0 where the system does not say
  uint64_t anonymous_rss = 0, file_rss = 0;       // of this process
  CgroupMemory cgroup;
};

SystemMemory system_memory();

// What this process could still take: the machine's available memory, or what the container leaves if that is less
// (its page cache counts as free, since the kernel gives it up first). 0 where the system does not say.
uint64_t available_memory();

}  // namespace gz
