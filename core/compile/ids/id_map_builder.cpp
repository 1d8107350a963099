// id_map_builder: a round of keys is partitioned by hash, each part is looked up by one thread, and new keys are
// numbered in the order they came. Looking up part by part keeps a part's slots in the cache and needs no locks.
// The file has the keys by id, and an index of them in the order of their hashes (docs/dataset.md).
#include "compile/ids/id_map_builder.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/threads.h"
#include "compile/write/container_writer.h"

namespace gz {
namespace {

enum State : uint8_t { kKnown, kFirst, kAgain, kLate };
constexpr size_t kAhead = 12;  // lookups whose slots are being prefetched
constexpr size_t kGrain = size_t{1} << 14;

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

IdMapBuilder::IdMapBuilder(Options options)
    : options_(std::move(options)),
      // a round holds about 80 bytes per key
      most_keys_(static_cast<size_t>(std::clamp<uint64_t>(options_.memory / 512, 1 << 10, 1 << 20)) & ~size_t{1}),
      store_(options_.spill_folder, 2, static_cast<size_t>(std::clamp<uint64_t>(options_.memory / 64, 4096, 4 << 20))) {
}

void IdMapBuilder::map(std::span<const KeyColumn> columns, std::span<int64_t* const> out) {
  const size_t width = columns.size(), rows = columns.empty() ? 0 : columns[0].count;
  const auto to = [&](size_t row) {
    return Out{{out.front() + row, out.back() + row}, static_cast<unsigned>(width - 1)};
  };
  const size_t step = most_keys_ / 2;
  for (size_t begin = 0; begin < rows; begin += step) {
    const size_t count = std::min(step, rows - begin);
    hashes_.resize(count * width);
    parallel_for(count, kGrain, options_.threads, [&](size_t first, size_t last, int) {
      for (size_t c = 0; c < width; ++c) {
        for (size_t i = first; i < last; ++i) hashes_[i * width + c] = columns[c].hash(begin + i);
      }
    });
    round(
        count * width, [&](size_t i) { return hashes_[i]; },
        [&](size_t i) { return columns[i % width].key(begin + i / width, hashes_[i]); }, to(begin));
  }
}

void IdMapBuilder::map(std::span<const Key> keys, std::span<int64_t* const> out) {
  const auto shift = static_cast<unsigned>(out.size() - 1);
  for (size_t begin = 0; begin < keys.size(); begin += most_keys_) {
    const auto part = keys.subspan(begin, std::min(most_keys_, keys.size() - begin));
    const size_t row = begin >> shift;
    round(
        part.size(), [&](size_t i) { return part[i].hash; }, [&](size_t i) { return part[i]; },
        {{out.front() + row, out.back() + row}, shift});
  }
}

template <class HashAt, class KeyAt>
void IdMapBuilder::round(size_t count, const HashAt& hash_at, const KeyAt& key_at, Out out) {
  if (closed_) fail<ArgumentError>("cannot add keys after close()");
  group(count, hash_at);
  // Whether all new keys of a round fit is decided before the round: otherwise ids would depend on the budget.
  if (!full_ && table_.bytes_with(in_part_) > std::max<uint64_t>(options_.memory / 4 * 3, 64 << 10)) {
    full_ = true;
    late_ = std::make_unique<LateKeys>(options_.spill_folder, options_.memory / 2);
  }
  look_up(out);
  number_fresh(count, key_at, out);
}

template <class HashAt>
void IdMapBuilder::group(size_t count, const HashAt& hash_at) {
  items_.resize(count);
  state_.assign(count, kKnown);
  const size_t pieces = std::max<size_t>(1, std::min<size_t>(static_cast<size_t>(options_.threads), count / kGrain));
  const size_t piece = (count + pieces - 1) / pieces;
  std::vector<std::array<uint32_t, kParts>> at(pieces);
  const auto each = [&](auto&& body) {
    parallel_for(pieces, 1, options_.threads, [&](size_t first, size_t last, int) {
      for (size_t p = first; p < last; ++p) body(p, p * piece, std::min(count, (p + 1) * piece));
    });
  };
  each([&](size_t p, size_t begin, size_t end) {
    at[p].fill(0);
    for (size_t i = begin; i < end; ++i) ++at[p][IdTable::part_of(hash_at(i))];
  });
  uint32_t sum = 0;
  for (size_t part = 0; part < kParts; ++part) {
    const uint32_t before = sum;
    for (auto& counts : at) {
      const uint32_t found = counts[part];
      counts[part] = sum;
      sum += found;
    }
    in_part_[part] = sum - before;
  }
  each([&](size_t p, size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      const KeyHash hash = hash_at(i);
      items_[at[p][IdTable::part_of(hash)]++] = {hash.high, IdTable::tag_of(hash) | i};
    }
  });
}

void IdMapBuilder::look_up(Out out) {
  std::array<size_t, kParts + 1> begin{};
  for (size_t part = 0; part < kParts; ++part) begin[part + 1] = begin[part] + in_part_[part];
  constexpr uint64_t kProvisional = IdTable::kMostIds + 1;  // ids of this round's new keys: this and the key's place
  parallel_for(kParts, 4, options_.threads, [&](size_t first, size_t last, int) {
    for (size_t part = first; part < last; ++part) {
      fresh_[part].clear();
      if (!full_) table_.make_room(part, in_part_[part]);
    }
    size_t ahead = begin[first], ahead_part = first;  // the next item to prefetch, possibly of a later part
    const auto prefetch = [&] {
      while (ahead_part < last && ahead == begin[ahead_part + 1]) ++ahead_part;
      if (ahead_part < last) table_.prefetch(ahead_part, items_[ahead++].high);
    };
    for (size_t i = 0; i < kAhead; ++i) prefetch();
    for (size_t part = first; part < last; ++part) {
      for (size_t at = begin[part]; at < begin[part + 1]; ++at) {
        prefetch();
        const Item item = items_[at];
        const uint32_t i = item.key();
        IdTable::Slot* slot = table_.find(part, item.high, item.tag());
        if (slot == nullptr || slot->tag_id == 0) {
          state_[i] = full_ ? kLate : kFirst;
          if (full_) continue;
          table_.fill(part, slot, item.high, item.tag(), kProvisional + i);
          fresh_[part].push_back({slot, i, i});
        } else if (const uint64_t id = slot->id(); id >= kProvisional) {
          state_[i] = kAgain;
          fresh_[part].push_back({slot, i, static_cast<uint32_t>(id - kProvisional)});
        } else {
          out[i] = static_cast<int64_t>(id);
        }
      }
    }
  });
}

template <class KeyAt>
void IdMapBuilder::number_fresh(size_t count, const KeyAt& key_at, Out out) {
  for (size_t i = 0; i < count; ++i) {
    if (state_[i] == kFirst) {
      out[i] = static_cast<int64_t>(count_);
      keep(key_at(i));
    } else if (state_[i] == kLate) {
      out[i] = -1 - static_cast<int64_t>(late_->add(key_at(i)));
    }
  }
  if (count_ > IdTable::kMostIds) fail<InputError>("found more than ", IdTable::kMostIds, " distinct ids");
  parallel_for(kParts, 16, options_.threads, [&](size_t first, size_t last, int) {
    for (size_t part = first; part < last; ++part) {
      for (const Fresh& fresh : fresh_[part]) {
        if (fresh.key == fresh.first) fresh.slot->set_id(static_cast<uint64_t>(out[fresh.key]));
        out[fresh.key] = out[fresh.first];
      }
    }
  });
}

void IdMapBuilder::append(const KeyColumn& keys) {
  if (closed_) fail<ArgumentError>("cannot add keys after close()");
  for (size_t i = 0; i < keys.count; ++i) keep(keys.key(i, {}));
}

void IdMapBuilder::keep(const Key& key) {
  if (options_.text) store_.append(0, key.data, static_cast<size_t>(key.size));
  store_.append_value(1, key.size);
  ++count_;
}

void IdMapBuilder::close() {
  if (closed_) return;
  closed_ = true;
  table_ = IdTable();
  if (late_) late_->number(count_, [&](const Key& key) { keep(key); });
}

void IdMapBuilder::resolve(std::span<int64_t> ids) {
  if (!closed_) fail<ArgumentError>("call close() first");
  for (int64_t& id : ids) {
    if (id < 0) id = late_->resolve(static_cast<uint64_t>(-1 - id));
  }
}

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
