// id_map: hashes are spread evenly, so a guess by proportion lands near the place, and doubling steps find it.
#include "storage/id_map.h"

#include <algorithm>
#include <numeric>
#include <type_traits>
#include <vector>

#include "base/error.h"

namespace gz {
namespace {

const ArrayInfo& vector_in(const MountedFile& file, const char* name, std::initializer_list<DType> dtypes) {
  const ArrayInfo* array = file.container().find(name);
  if (array == nullptr) fail<FormatError>(file.path(), ": array '", name, "' is missing: not an id map");
  if (array->shape.size() != 1 || std::find(dtypes.begin(), dtypes.end(), array->dtype) == dtypes.end()) {
    fail<FormatError>(file.path(), ": array '", name, "' is not a vector of a type that an id map may have");
  }
  return *array;
}

template <class T>
const T* values_of(const MountedFile& file, const ArrayInfo& array) {
  return reinterpret_cast<const T*>(file.bytes_of(array).data());
}

}  // namespace

std::shared_ptr<const IdMap> IdMap::open(const std::string& path, const std::string& text_path) {
  std::shared_ptr<IdMap> map(new IdMap());
  map->file_ = MountedFile::open(path, Kind::kFeatures);
  const MountedFile& file = *map->file_;
  map->count_ = file.container().num_nodes;
  map->hashes_ = values_of<int64_t>(file, vector_in(file, "hash", {DType::kInt64}));
  const ArrayInfo& ids = vector_in(file, "id", {DType::kInt32, DType::kInt64});
  map->narrow_ = ids.dtype == DType::kInt32;
  (map->narrow_ ? (void)(map->ids32_ = values_of<int32_t>(file, ids))
                : (void)(map->ids64_ = values_of<int64_t>(file, ids)));
  const char* keys = text_path.empty() ? "value" : "start";
  map->values_ = values_of<int64_t>(file, vector_in(file, keys, {DType::kInt64}));
  if (!text_path.empty()) {
    map->text_file_ = MountedFile::open(text_path, Kind::kFeatures);
    const ArrayInfo& text = vector_in(*map->text_file_, "text", {DType::kUInt8});
    map->text_ = values_of<char>(*map->text_file_, text);
    map->text_bytes_ = text.rows();
  }
  return map;
}

void IdMap::check() const {
  file_->check();
  if (text_file_) text_file_->check();
}

template <class Same>
int64_t IdMap::search(const KeyHash& hash, Same&& same) const {
  const int64_t wanted = index_hash(hash);
  uint64_t low = 0, high = count_;  // the first place with a hash of at least `wanted` is in [low, high]
  const uint64_t guess = multiply_high(hash.high, count_);
  uint64_t step = 64;
  if (guess < count_ && hashes_[guess] < wanted) {
    low = guess + 1;
    while (low + step < count_ && hashes_[low + step] < wanted) low += step + 1, step *= 2;
    high = std::min(count_, low + step);
  } else if (guess < count_) {
    high = guess;
    while (high > step && hashes_[high - step] >= wanted) high -= step, step *= 2;
    low = high > step ? high - step : 0;
  }
  const int64_t* place = std::lower_bound(hashes_ + low, hashes_ + high, wanted);
  for (auto at = static_cast<uint64_t>(place - hashes_); at < count_ && hashes_[at] == wanted; ++at) {
    const uint64_t id = id_at(at);
    if (id >= count_) fail<FormatError>(file_->path(), ": id[", at, "] is ", id, ", past the ", count_, " ids");
    if (same(id)) return static_cast<int64_t>(id);
  }
  return -1;
}

int64_t IdMap::find(std::string_view key) const {
  return search(hash_key(key), [&](uint64_t id) { return text_of(id) == key; });
}

int64_t IdMap::find(int64_t key) const {
  return search(hash_key(key), [&](uint64_t id) { return values_[id] == key; });
}

template <class KeyAt>
void IdMap::find_many(size_t count, const KeyAt& key_at, int64_t* out) const {
  constexpr int kBits = 10;  // of the hash, by which keys are grouped
  std::vector<KeyHash> hashes(count);
  std::vector<uint32_t> order(count), ends((size_t{1} << kBits) + 1, 0);
  const auto group_of = [&](size_t i) { return static_cast<size_t>(hashes[i].high >> (64 - kBits)); };
  for (size_t i = 0; i < count; ++i) {
    hashes[i] = hash_key(key_at(i));
    ++ends[group_of(i) + 1];
  }
  std::partial_sum(ends.begin(), ends.end(), ends.begin());
  for (size_t i = 0; i < count; ++i) order[ends[group_of(i)]++] = static_cast<uint32_t>(i);
  for (const uint32_t i : order) {
    const auto key = key_at(i);
    out[i] = search(hashes[i], [&](uint64_t id) {
      if constexpr (std::is_same_v<decltype(key), const int64_t>) {
        return values_[id] == key;
      } else {
        return text_of(id) == key;
      }
    });
  }
}

void IdMap::find(std::span<const int64_t> keys, int64_t* out) const {
  find_many(keys.size(), [&](size_t i) { return keys[i]; }, out);
}

void IdMap::find(const char* bytes, std::span<const int64_t> offsets, int64_t* out) const {
  const auto key_at = [&](size_t i) {
    return std::string_view(bytes + offsets[i], static_cast<size_t>(offsets[i + 1] - offsets[i]));
  };
  find_many(offsets.size() - 1, key_at, out);
}

std::string_view IdMap::text_of(uint64_t id) const {
  const auto begin = static_cast<uint64_t>(values_[id]);
  const uint64_t end = id + 1 < count_ ? static_cast<uint64_t>(values_[id + 1]) : text_bytes_;
  if (begin > end || end > text_bytes_) {
    fail<FormatError>(file_->path(), ": start[", id, "] is ", begin, ", the next ", end, " of ", text_bytes_, " bytes");
  }
  return {text_ + begin, static_cast<size_t>(end - begin)};
}

}  // namespace gz
