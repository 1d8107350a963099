// local_ranks: processes of one host that load the same files together. They find each other by a name, show each other
// a block of memory, and notice when one of them ends.
//
// Nothing has a name in a file system: a block is a memfd, which goes with its last user, and members meet at abstract
// sockets, which go with their process. A member writes to its own block alone and maps those of the others read-only:
// one that is killed, at any moment, changes nothing that another one owns.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "storage/file.h"

namespace gz {

// Which of how many processes of this host this is. Those of one `group` meet; an empty one meets no others.
struct LocalRanks {
  uint32_t rank = 0, count = 1;
  std::string group;
};

// Another member. While it is referenced, its block stays mapped, even after its process ended.
class LocalMember {
 public:
  virtual ~LocalMember() = default;
  std::span<const std::byte> block() const { return block_; }
  bool is_gone() const { return gone_.load(std::memory_order_acquire); }

 protected:
  std::span<const std::byte> block_;
  std::atomic<bool> gone_{false};
};

class LocalGroup {
 public:
  // Takes this process's place in the group and asks the members that are there for their blocks; later ones
  // ask this one. `purpose` separates groups of one job. Null where there are no others, where the system has no way
  // (only Linux has), or if the place is taken: each process then works alone.
  static std::shared_ptr<LocalGroup> join(const LocalRanks& ranks, const std::string& purpose, size_t bytes);
  virtual ~LocalGroup() = default;

  const LocalRanks& ranks() const { return ranks_; }
  std::span<std::byte> own() const { return own_; }  // of zeros at first; pages that are never touched take no memory
  // Null for this process itself, and for one that has not come or is gone.
  virtual std::shared_ptr<const LocalMember> member(uint32_t rank) const = 0;
  // Waits until those that were asked have answered, a few milliseconds at most.
  virtual void settle() const = 0;

 protected:
  LocalRanks ranks_;
  std::span<std::byte> own_;
};

// The same number in all processes that have this very file open, in this state.
uint64_t identity_of(const File& file);

// Waits until the word, in any member's block, is not `seen` any more; may return early.
void wait_for_change(const std::atomic<uint32_t>& word, uint32_t seen, int microseconds);
void wake_waiting(const std::atomic<uint32_t>& word);

}  // namespace gz
