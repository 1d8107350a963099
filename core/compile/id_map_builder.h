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
#include "compile/id_map_late.h"
#include "compile/id_map_table.h"

namespace gz {

// Keys that lie in arrays: strings as bytes and count + 1 offsets, or numbers.
struct KeyColumn {
  size_t count = 0;
  const char* bytes = nullptr;
  const int64_t* offsets = nullptr;  // null: numbers
  const int64_t* values = nullptr;

  Key key(size_t i) const {
    if (offsets == nullptr) return {hash_key(values[i]), nullptr, static_cast<uint64_t>(values[i])};
    const std::string_view text(bytes + offsets[i], static_cast<size_t>(offsets[i + 1] - offsets[i]));
    return {hash_key(text), text.data(), text.size()};
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
  size_t most_keys() const { return most_keys_; }  // that one round should have, so that it fits the budget

  // The ids of keys, or -1 - n for the n-th key that came too late for the table.
  void map(std::span<const Key> keys, int64_t* out);
  // The same for columns whose keys alternate: source, target, source, ...; out[c] takes those of column c.
  void map(std::span<const KeyColumn> columns, std::span<int64_t* const> out);

  uint64_t count() const { return count_; }
  uint64_t late() const { return late_ ? late_->count() : 0; }
  uint64_t spilled_bytes() const { return store_.spilled_bytes() + (late_ ? late_->spilled_bytes() : 0); }

  void close();
  void resolve(std::span<int64_t> ids);

  // The map as feature files (docs/dataset.md): an index by hash and the keys by id. Returns the bytes of both.
  uint64_t write(const std::string& path, const std::string& text_path, Progress* progress);

 private:
  static constexpr size_t kParts = IdTable::kParts;
  struct Item {  // what looking up needs, so that it reads from front to back
    KeyHash hash;
    uint32_t key;
  };
  struct Fresh {  // a key that was met for the first time, or again in the same round
    IdTable::Slot* slot;
    uint32_t key, first;
  };
  void group(std::span<const Key> keys);
  void look_up(int64_t* out);
  void number_fresh(std::span<const Key> keys, int64_t* out);
  void keep(const Key& key);

  Options options_;
  size_t most_keys_;
  IdTable table_;
  bool full_ = false, closed_ = false;
  uint64_t count_ = 0;
  SpillStreams store_;  // 0: the bytes of keys by id; 1: their lengths, or the numbers
  std::unique_ptr<LateKeys> late_;
  // of one round
  std::vector<Item> items_;                 // keys grouped by part, each in their order
  std::array<uint32_t, kParts> in_part_{};  // how many there are of each part
  std::vector<uint8_t> state_;              // kKnown, kFirst, kAgain or kLate
  std::array<std::vector<Fresh>, kParts> fresh_;
  std::vector<Key> keys_;
  std::vector<int64_t> ids_;
};

}  // namespace gz
