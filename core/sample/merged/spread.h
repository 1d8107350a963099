// spread: delivers what was read of one array, neighbours or edge ids, to the edges of the batches that want it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <type_traits>
#include <vector>

#include "base/prefetch.h"
#include "sample/merged/merged_batch.h"
#include "sample/rows/draw.h"

namespace gz {

template <class Csr, class Place>
using HopBatches = std::vector<HopBatch<Csr, Place>*>;

// An edge id as it is kept in place of a position.
template <class Csr>
int64_t taken_id(const Csr& csr, uint64_t id, uint64_t position) {
  if ((id & kTaken) != 0) [[unlikely]] {
    fail_edge_id(*csr.file, position, id);
  }
  return static_cast<int64_t>(id | kTaken);
}

// Called with an item of the order and its values, by many threads at a time. T: of the array.
template <class T, class Csr, class Place, class Order, bool kNeighbours>
class Spread {
 public:
  Spread(const Csr& csr, const HopBatches<Csr, Place>& batches, const Order& order)
      : csr_(csr), batches_(batches), order_(order) {}

  // Prefetches what is looked at first, and then the rest.
  void ask(uint64_t item) const {
    const Batch& batch = batch_of(item);
    if (const size_t number = order_.number(item); number < batch.rows.size()) prefetch(&batch.rows[number]);
  }
  void ask_more(uint64_t item) const {
    const Batch& batch = batch_of(item);
    const size_t number = order_.number(item), rows = batch.rows.size();
    if (number >= rows + batch.edges) return;  // part of a long row, which takes a while in any case
    const size_t first = number < rows ? batch.rows[number].start : number - rows;
    prefetch(batch.chosen + first);
    prefetch(batch.neighbours + first);
  }

  void operator()(uint64_t item, const std::byte* values) const {
    const Batch& batch = batch_of(item);
    const size_t number = order_.number(item), rows = batch.rows.size();
    const uint64_t place = order_.place(item);
    if (number >= rows + batch.edges) return deliver_part(batch, number, place, values);
    if (number >= rows) return deliver_edge(batch, number - rows, place, values);
    const MergedRow& row = batch.rows[number];
    const size_t end = batch.end_of(number);
    if (batch.is_unread(row, end)) return choose(batch, row.start, end, place, row.degree, values);
    for (size_t e = row.start; e < end; ++e) deliver_edge(batch, e, place, values);
  }

 private:
  using Batch = HopBatch<Csr, Place>;

  const Batch& batch_of(uint64_t item) const { return *batches_[order_.batch(item)]; }

  static T value_at(const std::byte* values, uint64_t i) {
    T value;
    std::memcpy(&value, values + i * sizeof(T), sizeof(T));
    return value;
  }

  void deliver_edge(const Batch& batch, size_t e, uint64_t place, const std::byte* values) const {
    const auto position = static_cast<uint64_t>(batch.chosen[e]);
    const T value = value_at(values, position - place);
    if constexpr (kNeighbours) {
      batch.neighbours[e] = checked(value, position);
    } else {
      static_assert(std::is_same_v<Place, int64_t>);
      batch.chosen[e] = taken_id(csr_, value, position);
    }
  }

  T checked(T neighbour, uint64_t position) const {
    if (neighbour >= csr_.num_others) [[unlikely]] {
      fail_neighbour(*csr_.file, position, neighbour, csr_.num_others);
    }
    return neighbour;
  }

  // Parts of one row may come to several threads: they are added one at a time.
  void deliver_part(const Batch& batch, size_t number, uint64_t place, const std::byte* values) const {
    const auto found = batch.row_of_part(number);
    const std::lock_guard lock(mutexes_[(found.row + reinterpret_cast<uintptr_t>(&batch) / 64) % mutexes_.size()]);
    choose(batch, batch.rows[found.row].start, batch.end_of(found.row), place, batch.length_of(number), values);
  }

  // Chooses among `count` neighbours from `place` on, and those that were chosen from other parts of the row.
  void choose(const Batch& batch, size_t begin, size_t end, uint64_t place, uint64_t count,
              const std::byte* values) const {
    if constexpr (kNeighbours) {
      thread_local SmallestNumbers smallest;
      smallest.begin(end - begin);
      for (size_t e = begin; e < end && batch.chosen[e] != Batch::kNotChosen; ++e) {
        const uint64_t neighbour = batch.neighbours[e];
        batch.chooser->offer(static_cast<uint64_t>(batch.chosen[e]), 1, [=](uint64_t) { return neighbour; }, smallest);
      }
      batch.chooser->offer(place, count, [&](uint64_t i) { return checked(value_at(values, i), place + i); }, smallest);
      for (const auto& candidate : smallest.by_place()) {
        batch.chosen[begin] = static_cast<Place>(candidate.place);
        batch.neighbours[begin++] = static_cast<T>(candidate.neighbour);
      }
    }
  }

  const Csr& csr_;
  const HopBatches<Csr, Place>& batches_;
  const Order& order_;
  mutable std::array<std::mutex, 64> mutexes_;
};

}  // namespace gz
