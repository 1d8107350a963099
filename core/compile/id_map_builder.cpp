// id_map_builder: a round of keys is cut by hash, each part looked up by one thread, and what is new is numbered in the
// order it came. Looking up part by part keeps a part's slots in the cache, and nothing is locked.
#include "compile/id_map_builder.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/threads.h"

namespace gz {
namespace {

enum State : uint8_t { kKnown, kFirst, kAgain, kLate };
constexpr size_t kAhead = 12;  // lookups whose slots are on their way
constexpr size_t kGrain = size_t{1} << 14;

}  // namespace

IdMapBuilder::IdMapBuilder(Options options)
    : options_(std::move(options)),
      // a round holds some 80 bytes a key
      most_keys_(static_cast<size_t>(std::clamp<uint64_t>(options_.memory / 512, 1 << 10, 1 << 20))),
      store_(options_.spill_folder, 2, static_cast<size_t>(std::clamp<uint64_t>(options_.memory / 64, 4096, 4 << 20))) {
}

void IdMapBuilder::map(std::span<const KeyColumn> columns, std::span<int64_t* const> out) {
  const size_t width = columns.size(), rows = columns.empty() ? 0 : columns[0].count;
  const size_t step = std::max<size_t>(1, most_keys_ / std::max<size_t>(1, width));
  for (size_t begin = 0; begin < rows; begin += step) {
    const size_t count = std::min(step, rows - begin);
    keys_.resize(count * width);
    ids_.resize(count * width);
    parallel_for(count, kGrain, options_.threads, [&](size_t first, size_t last, int) {
      for (size_t c = 0; c < width; ++c) {
        for (size_t i = first; i < last; ++i) keys_[i * width + c] = columns[c].key(begin + i);
      }
    });
    map(keys_, ids_.data());
    for (size_t c = 0; c < width; ++c) {
      for (size_t i = 0; i < count; ++i) out[c][begin + i] = ids_[i * width + c];
    }
  }
}

void IdMapBuilder::map(std::span<const Key> keys, int64_t* out) {
  if (closed_) fail<ArgumentError>("the map is closed, no more keys can come");
  if (keys.size() >= UINT32_MAX) fail<ArgumentError>("a round of ", keys.size(), " keys is too large");
  group(keys);
  // Whether all new keys of a round fit is decided before it: numbers would depend on the budget otherwise.
  if (!full_ && table_.bytes_with(in_part_) > std::max<uint64_t>(options_.memory / 4 * 3, 64 << 10)) {
    full_ = true;
    late_ = std::make_unique<LateKeys>(options_.spill_folder, options_.memory / 2);
  }
  look_up(out);
  number_fresh(keys, out);
}

void IdMapBuilder::group(std::span<const Key> keys) {
  items_.resize(keys.size());
  state_.assign(keys.size(), kKnown);
  const size_t pieces =
      std::max<size_t>(1, std::min<size_t>(static_cast<size_t>(options_.threads), keys.size() / kGrain));
  const size_t piece = (keys.size() + pieces - 1) / pieces;
  std::vector<std::array<uint32_t, kParts>> at(pieces);
  const auto each = [&](auto&& body) {
    parallel_for(pieces, 1, options_.threads, [&](size_t first, size_t last, int) {
      for (size_t p = first; p < last; ++p) body(p, p * piece, std::min(keys.size(), (p + 1) * piece));
    });
  };
  each([&](size_t p, size_t begin, size_t end) {
    at[p].fill(0);
    for (size_t i = begin; i < end; ++i) ++at[p][IdTable::part_of(keys[i].hash)];
  });
  uint32_t sum = 0;
  for (size_t part = 0; part < kParts; ++part) {
    const uint32_t before = sum;
    for (auto& counts : at) {
      const uint32_t count = counts[part];
      counts[part] = sum;
      sum += count;
    }
    in_part_[part] = sum - before;
  }
  each([&](size_t p, size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      items_[at[p][IdTable::part_of(keys[i].hash)]++] = {keys[i].hash, static_cast<uint32_t>(i)};
    }
  });
}

void IdMapBuilder::look_up(int64_t* out) {
  std::array<size_t, kParts + 1> begin{};
  for (size_t part = 0; part < kParts; ++part) begin[part + 1] = begin[part] + in_part_[part];
  constexpr uint64_t kProvisional = IdTable::kMostIds + 1;  // ids of this round's new keys: this and the key's place
  parallel_for(kParts, 4, options_.threads, [&](size_t first, size_t last, int) {
    for (size_t part = first; part < last; ++part) {
      fresh_[part].clear();
      if (!full_) table_.make_room(part, in_part_[part]);
      const size_t end = begin[part + 1];
      for (size_t at = begin[part]; at < end; ++at) {
        if (at + kAhead < end) table_.prefetch(part, items_[at + kAhead].hash);
        const auto [hash, i] = items_[at];
        IdTable::Slot* slot = table_.find(part, hash);
        if (slot == nullptr || slot->rest == 0) {
          state_[i] = full_ ? kLate : kFirst;
          if (full_) continue;
          table_.fill(part, slot, hash, kProvisional + i);
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

void IdMapBuilder::number_fresh(std::span<const Key> keys, int64_t* out) {
  for (size_t i = 0; i < keys.size(); ++i) {
    if (state_[i] == kFirst) {
      out[i] = static_cast<int64_t>(count_);
      keep(keys[i]);
    } else if (state_[i] == kLate) {
      out[i] = -1 - static_cast<int64_t>(late_->add(keys[i]));
    }
  }
  if (count_ > IdTable::kMostIds) fail<InputError>("more than ", IdTable::kMostIds, " distinct ids");
  parallel_for(kParts, 16, options_.threads, [&](size_t first, size_t last, int) {
    for (size_t part = first; part < last; ++part) {
      for (const Fresh& fresh : fresh_[part]) {
        if (fresh.key == fresh.first) fresh.slot->set_id(static_cast<uint64_t>(out[fresh.key]));
        out[fresh.key] = out[fresh.first];
      }
    }
  });
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
  if (!closed_) fail<ArgumentError>("the map is not closed yet");
  for (int64_t& id : ids) {
    if (id < 0) id = late_->resolve(static_cast<uint64_t>(-1 - id));
  }
}

}  // namespace gz
