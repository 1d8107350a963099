// id_map: a mounted map between original keys and dense ids, looked up on disk (docs/dataset.md).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/key_hash.h"
#include "storage/mounted.h"

namespace gz {

// Immutable after open(): any number of threads may ask. Files may hold anything: answers are checked, never wild.
class IdMap {
 public:
  // `text_path` is empty for a map of numbers. Throws FormatError when the arrays are not those of a map.
  static std::shared_ptr<const IdMap> open(const std::string& path, const std::string& text_path);

  uint64_t size() const { return count_; }
  bool is_text() const { return text_ != nullptr; }

  // The dense id of a key, -1 for an unknown key.
  int64_t find(std::string_view key) const;
  int64_t find(int64_t key) const;

  // The same for many keys: `keys`, or strings as bytes and one more offset than there are strings. Faster than one by
  // one, since searches for nearby hashes follow each other.
  void find(std::span<const int64_t> keys, int64_t* out) const;
  void find(const char* bytes, std::span<const int64_t> offsets, int64_t* out) const;

  // The key of a dense id, which must be below size(). Throws FormatError where the file is damaged.
  std::string_view text_of(uint64_t id) const;
  int64_t number_of(uint64_t id) const { return values_[id]; }

  // Throws StorageError when a page could not be read: ends every call, as with other mounted files.
  void check() const;

 private:
  IdMap() = default;
  template <class Same>
  int64_t search(const KeyHash& hash, Same&& same) const;
  template <class KeyAt>
  void find_many(size_t count, const KeyAt& key_at, int64_t* out) const;
  uint64_t id_at(uint64_t place) const {
    return narrow_ ? static_cast<uint64_t>(ids32_[place]) : static_cast<uint64_t>(ids64_[place]);
  }

  std::shared_ptr<const MountedFile> file_, text_file_;
  uint64_t count_ = 0, text_bytes_ = 0;
  bool narrow_ = true;
  const int64_t* hashes_ = nullptr;  // ascending
  const int32_t* ids32_ = nullptr;   // of the hashes
  const int64_t* ids64_ = nullptr;
  const int64_t* values_ = nullptr;  // numbers by id, or where a string starts
  const char* text_ = nullptr;
};

}  // namespace gz
