// id_map_builder: keys as they come -> dense ids 0, 1, 2, ... by first appearance, within a memory budget; and the file
// that maps both ways.
//
//   IdMapBuilder ids({.text = true, .memory = 1 << 29, .spill_folder = folder});
//   ids.map(keys, out);  ...          // ids; negative where the table was full
//   ids.close();
//   ids.resolve(out);  ...            // the same blocks in the same order: negative ones become ids
//   ids.write("ids.gd", "ids.text.gd", nullptr);
//
// Ids depend neither on the budget nor on the threads.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/progress.h"
#include "compile/ids/id_map_late.h"
#include "compile/ids/id_map_table.h"

namespace gz {

// Keys in arrays: strings as bytes and count + 1 offsets, or numbers.
struct KeyColumn {
  size_t count = 0;
  const char* bytes = nullptr;
  const int64_t* offsets = nullptr;  // null: numbers
  const int64_t* values = nullptr;

  std::string_view text(size_t i) const {
    return {bytes + offsets[i], static_cast<size_t>(offsets[i + 1] - offsets[i])};
  }
  KeyHash hash(size_t i) const { return offsets == nullptr ? hash_key(values[i]) : hash_key(text(i)); }
  Key key(size_t i, const KeyHash& hash) const {
    if (offsets == nullptr) return {hash, nullptr, static_cast<uint64_t>(values[i])};
    return {hash, text(i).data(), text(i).size()};
  }
};

class IdMapBuilder {
 public:
  struct Options {
    bool text = true;
    uint64_t memory = uint64_t{1} << 29;
    int threads = 1;
    std::string spill_folder;
  };
  explicit IdMapBuilder(Options options);

  const Options& options() const { return options_; }

  // The ids of keys, or -1 - n for the n-th key that came too late for the table. Keys of two columns alternate:
  // source, target, source, ...; out[c] takes those of column c.
  void map(std::span<const Key> keys, std::span<int64_t* const> out);
  void map(std::span<const KeyColumn> columns, std::span<int64_t* const> out);

  // Keys that are expected to be distinct get the next ids without a lookup, so that RAM does not grow with them. After
  // write(), repeats() is 0 if they were; otherwise it counts equal hashes, and the map is to be built by map()
  // instead.
  void append(const KeyColumn& keys);
  uint64_t repeats() const { return repeats_; }

  uint64_t count() const { return count_; }
  uint64_t late() const { return late_ ? late_->count() : 0; }
  uint64_t spilled_bytes() const { return store_.spilled_bytes() + (late_ ? late_->spilled_bytes() : 0); }

  void close();
  void resolve(std::span<int64_t> ids);

  // The map as feature files (docs/dataset.md): an index by hash and the keys by id. Returns the bytes of both.
  uint64_t write(const std::string& path, const std::string& text_path, Progress* progress);

 private:
  static constexpr size_t kParts = IdTable::kParts;
  struct Item {  // the input of a lookup, read sequentially
    uint64_t high;
    uint64_t tag_key;  // the hash's tag, and in the lower half the key's number in the round
    uint64_t tag() const { return tag_key & ~((uint64_t{1} << 40) - 1); }
    uint32_t key() const { return static_cast<uint32_t>(tag_key); }
  };
  struct Out {  // the destination of the ids of a round
    std::array<int64_t*, 2> columns;
    unsigned shift;  // 1: two columns
    int64_t& operator[](size_t key) const { return columns[key & shift][key >> shift]; }
  };
  struct Fresh {  // a key that is new in this round
    IdTable::Slot* slot;
    uint32_t key, first;
  };
  template <class HashAt, class KeyAt>
  void round(size_t count, const HashAt& hash_at, const KeyAt& key_at, Out out);
  template <class HashAt>
  void group(size_t count, const HashAt& hash_at);
  void look_up(Out out);
  template <class KeyAt>
  void number_fresh(size_t count, const KeyAt& key_at, Out out);
  void keep(const Key& key);

  Options options_;
  size_t most_keys_;  // per round, so that it fits the budget
  IdTable table_;
  bool full_ = false, closed_ = false;
  uint64_t count_ = 0, repeats_ = 0;
  SpillStreams store_;  // 0: the bytes of keys by id; 1: their lengths, or the numbers
  std::unique_ptr<LateKeys> late_;
  // of one round
  std::vector<Item> items_;                 // keys grouped by part, each in their order
  std::array<uint32_t, kParts> in_part_{};  // keys per part
  std::vector<uint8_t> state_;              // kKnown, kFirst, kAgain or kLate
  std::array<std::vector<Fresh>, kParts> fresh_;
  std::vector<KeyHash> hashes_;  // of columns: the keys themselves are not copied
};

}  // namespace gz
