// id_map_late: partitions by hash, finds the first occurrence of each key, merges those by appearance, and restores the
// order in which the keys came. Every step reads and writes streams sequentially.
#include "compile/ids/id_map_late.h"

#include <algorithm>
#include <queue>
#include <vector>

#include "base/error.h"
#include "compile/ids/id_map_table.h"

namespace gz {
namespace {

constexpr size_t kParts = IdTable::kParts;

}  // namespace

LateKeys::LateKeys(std::string folder, uint64_t memory) : folder_(std::move(folder)), memory_(memory) {
  keys_ = streams();
}

std::unique_ptr<SpillStreams> LateKeys::streams() const {
  const auto buffer = static_cast<size_t>(std::clamp<uint64_t>(memory_ / 8 / kParts, 4096, 64 << 10));
  return std::make_unique<SpillStreams>(folder_, kParts, buffer);
}

uint64_t LateKeys::spilled_bytes() const { return spilled_ + (keys_ ? keys_->spilled_bytes() : 0); }

uint64_t LateKeys::add(const Key& key) {
  const size_t part = IdTable::part_of(key.hash);
  keys_->append_value(part, Record{count_, key.hash, key.size, key.data != nullptr ? uint64_t{1} : uint64_t{0}});
  if (key.data != nullptr) keys_->append(part, key.data, static_cast<size_t>(key.size));
  return count_++;
}

uint64_t LateKeys::number(uint64_t first_id, const std::function<void(const Key&)>& keep) {
  uint64_t next = first_id;
  spilled_ += keys_->spilled_bytes();
  find_firsts();
  keys_.reset();  // frees its disk space
  number_firsts(next, keep);
  firsts_.reset();
  scatter();
  places_.reset();
  ids_.reset();
  return next - first_id;
}

void LateKeys::find_firsts() {
  places_ = streams();
  firsts_ = streams();
  std::vector<char> text;
  for (size_t part = 0; part < kParts; ++part) {
    SpillStreams::Reader reader(*keys_, part);
    IdTable table;
    std::array<uint32_t, kParts> one_more{};
    one_more[part] = 1;
    uint64_t distinct = 0;
    for (Record record; reader.read_value(record);) {
      text.resize(record.text ? static_cast<size_t>(record.size) : 0);
      if (!text.empty()) reader.read(text.data(), text.size());
      table.make_room(part, 1);
      const uint64_t tag = IdTable::tag_of(record.hash);
      IdTable::Slot* slot = table.find(part, record.hash.high, tag);
      if (slot->tag_id == 0) {
        table.fill(part, slot, record.hash.high, tag, distinct++);
        firsts_->append_value(part, record);
        firsts_->append(part, text.data(), text.size());
        const uint64_t held = table.bytes_with(one_more);
        if (held > std::max<uint64_t>(memory_, 1 << 20)) {
          throw BudgetError(gz::text("the map of ids needs at least ", 4 * held, " bytes; raise memory"), 4 * held);
        }
      }
      places_->append_value(part, Pair{record.late, slot->id()});
    }
  }
}

void LateKeys::number_firsts(uint64_t& next, const std::function<void(const Key&)>& keep) {
  struct Head {
    Record record;
    std::vector<char> text;
    SpillStreams::Reader reader;
    bool advance() {
      if (!reader.read_value(record)) return false;
      text.resize(record.text ? static_cast<size_t>(record.size) : 0);
      if (!text.empty()) reader.read(text.data(), text.size());
      return true;
    }
  };
  ids_ = streams();
  std::vector<Head> heads;
  heads.reserve(kParts);
  std::priority_queue<std::pair<uint64_t, size_t>, std::vector<std::pair<uint64_t, size_t>>, std::greater<>> queue;
  for (size_t part = 0; part < kParts; ++part) {
    heads.push_back({{}, {}, SpillStreams::Reader(*firsts_, part, 16 << 10)});
    if (heads[part].advance()) queue.emplace(heads[part].record.late, part);
  }
  while (!queue.empty()) {
    const size_t part = queue.top().second;
    queue.pop();
    Head& head = heads[part];
    keep({head.record.hash, head.record.text ? head.text.data() : nullptr, head.record.size});
    ids_->append_value(part, next++);
    if (head.advance()) queue.emplace(head.record.late, part);
  }
}

void LateKeys::scatter() {
  buckets_ = streams();
  bucket_size_ = std::max<uint64_t>(1, (count_ + kParts - 1) / kParts);
  for (size_t part = 0; part < kParts; ++part) {
    Buffer ids(static_cast<size_t>(ids_->bytes(part)) + 1, Purpose::kCompile);
    SpillStreams::Reader all(*ids_, part);
    if (ids_->bytes(part) > 0) all.read(ids.data(), static_cast<size_t>(ids_->bytes(part)));
    SpillStreams::Reader reader(*places_, part);
    for (Pair pair; reader.read_value(pair);) {
      buckets_->append_value(static_cast<size_t>(pair.late / bucket_size_),
                             Pair{pair.late, ids.as<uint64_t>()[pair.value]});
    }
  }
  spilled_ += buckets_->spilled_bytes();
}

void LateKeys::load_bucket(uint64_t bucket) {
  if (!loaded_) loaded_ = Buffer(static_cast<size_t>(bucket_size_) * sizeof(uint64_t), Purpose::kCompile);
  SpillStreams::Reader reader(*buckets_, static_cast<size_t>(bucket));
  for (Pair pair; reader.read_value(pair);) {
    loaded_.as<uint64_t>()[pair.late - bucket * bucket_size_] = pair.value;
  }
  bucket_ = bucket;
}

int64_t LateKeys::resolve(uint64_t late) {
  if (late >= count_) fail<ArgumentError>("late key ", late, " is out of range, there are ", count_);
  if (late / bucket_size_ != bucket_) load_bucket(late / bucket_size_);
  return static_cast<int64_t>(loaded_.as<uint64_t>()[late - bucket_ * bucket_size_]);
}

}  // namespace gz
