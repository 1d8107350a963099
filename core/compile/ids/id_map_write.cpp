// id_map_write: the keys by id, and an index of them in the order of their hashes (docs/dataset.md).
#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/threads.h"
#include "compile/ids/id_map_builder.h"
#include "compile/write/container_writer.h"

namespace gz {
namespace {

struct Entry {
  int64_t hash = 0, id = 0;
  auto operator<=>(const Entry&) const = default;
};

ArrayInfo vector_of(const char* name, DType dtype, uint64_t rows) {
  ArrayInfo array;
  array.name = name;
  array.dtype = dtype;
  array.shape = {rows};
  return array;
}

Container features(uint64_t rows, std::vector<ArrayInfo> arrays) {
  Container container;
  container.kind = Kind::kFeatures;
  container.num_nodes = rows;
  container.arrays = std::move(arrays);
  return container;
}

constexpr size_t kKeys = 8192;                // keys that are read at a time
constexpr uint64_t kTextBytes = 1 << 20;      // and their bytes, unless one key has more
constexpr int kHashBits = 63, kPartBits = 8;  // of the hash that the index is sorted by; common to a part

// The entries of one part in the order of their hashes: cut by the next bits into buckets of a few, each of them
// sorted.
class SortedPart {
 public:
  void read(const SpillStreams& from, size_t part) {
    read_.resize(static_cast<size_t>(from.bytes(part)) / sizeof(Entry));
    SpillStreams::Reader reader(from, part, size_t{1} << 20);
    if (!read_.empty()) reader.read(read_.data(), read_.size() * sizeof(Entry));
    const int bits = std::min(16, static_cast<int>(std::bit_width(read_.size() / 8)));
    const auto bucket_of = [&](const Entry& entry) {
      return static_cast<size_t>(entry.hash >> (kHashBits - kPartBits - bits)) & ((size_t{1} << bits) - 1);
    };
    ends_.assign((size_t{1} << bits) + 1, 0);
    for (const Entry& entry : read_) ++ends_[bucket_of(entry) + 1];
    std::partial_sum(ends_.begin(), ends_.end(), ends_.begin());
    entries_.resize(read_.size());
    for (const Entry& entry : read_) entries_[ends_[bucket_of(entry)]++] = entry;
    size_t begin = 0;
    for (const size_t end : ends_) {
      std::sort(entries_.begin() + static_cast<ptrdiff_t>(begin), entries_.begin() + static_cast<ptrdiff_t>(end));
      begin = end;
    }
    hashes_.clear();
    for (const Entry& entry : entries_) hashes_.push_back(entry.hash);
  }

  uint64_t repeats() const {
    uint64_t found = 0;
    for (size_t i = 1; i < hashes_.size(); ++i) found += hashes_[i] == hashes_[i - 1];
    return found;
  }

  template <class Id>
  void append(ContainerWriter& writer, std::vector<Id>& ids) const {
    ids.clear();
    for (const Entry& entry : entries_) ids.push_back(static_cast<Id>(entry.id));
    writer.append(0, std::span<const int64_t>(hashes_));
    writer.append(1, std::span<const Id>(ids));
  }

 private:
  std::vector<Entry> read_, entries_;
  std::vector<size_t> ends_;
  std::vector<int64_t> hashes_;
};

}  // namespace

uint64_t IdMapBuilder::write(const std::string& path, const std::string& text_path, Progress* progress) {
  close();
  const bool narrow = count_ <= uint64_t{1} << 31;
  ContainerWriter writer(path, features(count_, {vector_of("hash", DType::kInt64, count_),
                                                 vector_of("id", narrow ? DType::kInt32 : DType::kInt64, count_),
                                                 vector_of(options_.text ? "start" : "value", DType::kInt64, count_)}));
  std::unique_ptr<ContainerWriter> texts;
  const uint64_t text_bytes = store_.bytes(0);
  if (options_.text) {
    texts = std::make_unique<ContainerWriter>(text_path,
                                              features(text_bytes, {vector_of("text", DType::kUInt8, text_bytes)}));
  }
  const auto buffer = static_cast<size_t>(std::clamp<uint64_t>(options_.memory / 4 / kParts, 4096, 256 << 10));
  SpillStreams sorted(options_.spill_folder, kParts, buffer);
  SpillStreams::Reader bytes(store_, 0, size_t{1} << 20), sizes(store_, 1, size_t{1} << 20);
  const auto index = [&](const KeyHash& hash, uint64_t id) {
    sorted.append_value(static_cast<size_t>(hash.high >> 56), Entry{index_hash(hash), static_cast<int64_t>(id)});
  };
  std::vector<int64_t> values;  // the keys' lengths, then their starts; or the numeric keys
  std::vector<char> text;
  int64_t start = 0;
  for (uint64_t id = 0; id < count_; id += values.size()) {
    values.resize(static_cast<size_t>(std::min<uint64_t>(kKeys, count_ - id)));
    sizes.read(values.data(), values.size() * sizeof(int64_t));
    if (!options_.text) {
      for (size_t i = 0; i < values.size(); ++i) index(hash_key(values[i]), id + i);
    }
    for (size_t begin = 0, end = 0; options_.text && begin < values.size(); begin = end) {
      auto block = static_cast<uint64_t>(values[end++]);
      while (end < values.size() && block + static_cast<uint64_t>(values[end]) <= kTextBytes) {
        block += static_cast<uint64_t>(values[end++]);
      }
      text.resize(static_cast<size_t>(block));
      if (block > 0) bytes.read(text.data(), text.size());
      texts->append(0, std::as_bytes(std::span(text)));
      const char* key = text.data();
      for (size_t i = begin; i < end; ++i) {
        const auto size = std::exchange(values[i], start);
        index(hash_key(std::string_view(key, static_cast<size_t>(size))), id + i);
        key += size;
        start += size;
      }
    }
    writer.append(2, std::span<const int64_t>(values));
    if (progress != nullptr && id % (128 * kKeys) == 0) progress->report("writing the map of ids", id, count_);
  }
  // one part per thread at a time: each is a 256th of the keys
  std::vector<SortedPart> parts(std::min<size_t>(kParts, static_cast<size_t>(options_.threads)));
  std::vector<int32_t> narrow_ids;
  std::vector<int64_t> wide_ids;
  for (size_t begin = 0; begin < kParts; begin += parts.size()) {
    const size_t count = std::min(parts.size(), kParts - begin);
    parallel_for(count, 1, options_.threads, [&](size_t first, size_t last, int) {
      for (size_t p = first; p < last; ++p) parts[p].read(sorted, begin + p);
    });
    for (size_t p = 0; p < count; ++p) {
      repeats_ += parts[p].repeats();
      narrow ? parts[p].append(writer, narrow_ids) : parts[p].append(writer, wide_ids);
    }
  }
  const uint64_t text_file = texts ? texts->finish(options_.threads) : 0;
  return writer.finish(options_.threads) + text_file;
}

}  // namespace gz
