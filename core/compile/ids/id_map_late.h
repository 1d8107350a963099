// id_map_late: the keys that came after the table was full. Each gets a number immediately, in the order they come, and
// its id after the last one: on disk, with RAM that does not grow with their count.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/key_hash.h"
#include "compile/ids/id_map_spill.h"

namespace gz {

// A key: a string, or a 64-bit number in `size` where `data` is null.
struct Key {
  KeyHash hash;
  const char* data = nullptr;
  uint64_t size = 0;
};

class LateKeys {
 public:
  LateKeys(std::string folder, uint64_t memory);

  uint64_t add(const Key& key);  // returns how many came before
  uint64_t count() const { return count_; }
  uint64_t spilled_bytes() const;

  // Ends the input. Distinct keys get ids from `first_id` on, by first appearance; keep(key) is called for each in that
  // order. Throws BudgetError if a 256th of the distinct keys exceeds the memory.
  uint64_t number(uint64_t first_id, const std::function<void(const Key&)>& keep);

  // After number(): the id of key number `late`. Numbers must not decrease from call to call.
  int64_t resolve(uint64_t late);

 private:
  struct Record {
    uint64_t late = 0;
    KeyHash hash;
    uint64_t size = 0;  // its bytes follow, where it is a string
    uint64_t text = 0;  // 1: a string
  };
  struct Pair {
    uint64_t late = 0, value = 0;
  };
  void find_firsts();
  void number_firsts(uint64_t& next, const std::function<void(const Key&)>& keep);
  void scatter();
  void load_bucket(uint64_t bucket);
  std::unique_ptr<SpillStreams> streams() const;

  std::string folder_;
  uint64_t memory_;
  uint64_t count_ = 0, spilled_ = 0;
  std::unique_ptr<SpillStreams> keys_;     // by part: records as they came
  std::unique_ptr<SpillStreams> places_;   // by part: (late number, place among the part's distinct keys)
  std::unique_ptr<SpillStreams> firsts_;   // by part: the first record of each distinct key
  std::unique_ptr<SpillStreams> ids_;      // by part: ids of the distinct keys
  std::unique_ptr<SpillStreams> buckets_;  // by range of late numbers: (late number, id)
  uint64_t bucket_size_ = 1, bucket_ = UINT64_MAX;
  Buffer loaded_;  // ids of the current bucket
};

}  // namespace gz
