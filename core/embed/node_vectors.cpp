// node_vectors: first values, transfers, and the check of the result.
#include "embed/node_vectors.h"

#include <cmath>
#include <cstring>

#include "analytics/node_arrays.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "base/random.h"
#include "base/threads.h"

namespace gz {
namespace {

constexpr uint64_t kFirstStream = 0x7473726966;  // "first": separate from other draws of the same seed
constexpr size_t kTransfer = size_t{8} << 20;    // bytes between two looks for Ctrl-C
constexpr float kMostPlausible = 1e4f;           // trained vectors have values of about 1

}  // namespace

uint64_t VectorShape::table_bytes() const { return round_up(partition_rows() * width() * sizeof(float), kPageBytes); }
uint64_t VectorShape::resident_bytes() const { return std::min<uint64_t>(partitions, 2) * 2 * table_bytes(); }
uint64_t VectorShape::file_bytes() const { return partitions == 1 ? 0 : partitions * 2 * table_bytes(); }

NodeVectors::NodeVectors(const VectorShape& shape, uint64_t seed, const std::string& folder, int threads)
    : shape_(shape), width_(shape.width()), seed_(seed), threads_(threads), written_(shape.partitions) {
  if (shape.partitions > 1) {
    File file = File::create_nameless(folder);
    file.reserve(shape.file_bytes());
    file_ = file.direct();
  }
  const auto bytes = static_cast<size_t>(std::max<uint64_t>(shape.table_bytes(), 1));
  for (size_t slot = 0; slot < std::min<size_t>(shape.partitions, 2); ++slot) {
    for (Buffer& table : slots_[slot].tables) table = Buffer(bytes, Purpose::kTables);
  }
}

void NodeVectors::bring(uint32_t a, uint32_t b, Progress* progress) {
  for (Slot& slot : slots_) {
    if (slot.partition != kNone && slot.partition != a && slot.partition != b) store(slot, progress);
  }
  for (const uint32_t wanted : {a, b}) {
    if (slots_[0].partition == wanted || slots_[1].partition == wanted) continue;
    load(slots_[slots_[0].partition == kNone ? 0 : 1], wanted, progress);
  }
}

void NodeVectors::load(Slot& slot, uint32_t partition, Progress* progress) {
  slot.first = shape_.first(partition);
  slot.count = shape_.rows(partition);
  if (written_[partition]) {
    transfer(slot, partition, "reading vectors", progress,
             [&](std::span<std::byte> piece, uint64_t at) { file_.read_at(piece, at); });
  } else {
    initialise(slot);
  }
  slot.partition = partition;
}

void NodeVectors::store(Slot& slot, Progress* progress) {
  transfer(slot, slot.partition, "writing vectors", progress,
           [&](std::span<std::byte> piece, uint64_t at) { file_.write_at(piece, at); });
  written_[slot.partition] = true;
  slot.partition = kNone;
  slot.count = 0;
}

// Calls move(piece, offset in the file) for all of a partition.
template <class Move>
void NodeVectors::transfer(Slot& slot, uint32_t partition, const char* phase, Progress* progress, const Move& move) {
  const uint64_t bytes = shape_.table_bytes();
  for (uint64_t table = 0; table < 2; ++table) {
    for (uint64_t done = 0; done < bytes; done += kTransfer) {
      check_interrupt();
      if (progress != nullptr) progress->report(phase, table * bytes + done, 2 * bytes);
      const auto size = static_cast<size_t>(std::min<uint64_t>(kTransfer, bytes - done));
      move(std::span(slot.tables[table].data() + done, size), (2 * partition + table) * bytes + done);
    }
  }
}

// Outputs are random, with a length of about 0.3 whatever `dim` is: smaller ones take longer to grow
// (benchmarks/embed). Nodes' own vectors are 0, so that those of nodes that no walk visits stay 0.
void NodeVectors::initialise(Slot& slot) {
  const float scale = 1.0f / std::sqrt(static_cast<float>(shape_.dim));
  for_nodes(slot.count, threads_, [&](uint64_t i) {
    std::memset(slot.tables[0].as<float>() + i * width_, 0, width_ * sizeof(float));
    float* output = slot.tables[1].as<float>() + i * width_;
    Random random(make_key(seed_, kFirstStream, slot.first + i));
    for (uint64_t d = 0; d < shape_.dim; ++d) output[d] = (static_cast<float>(random.unit()) - 0.5f) * scale;
    for (uint64_t d = shape_.dim; d < width_; ++d) output[d] = 0;
  });
}

void NodeVectors::check(double learning_rate) const {
  for (const Slot& slot : slots_) {
    if (slot.partition == kNone) continue;
    for_nodes(slot.count, threads_, [&](uint64_t i) {
      const float* own = slot.tables[0].as<float>() + i * width_;
      bool plausible = true;
      for (uint64_t d = 0; d < width_; ++d) plausible &= std::abs(own[d]) < kMostPlausible;  // false for NaN
      if (!plausible) {
        fail<ArgumentError>("training diverged: the vector of node ", slot.first + i,
                            " is not finite or very large; learning_rate is ", learning_rate, ", try a smaller one");
      }
    });
  }
}

Buffer NodeVectors::take() {
  Slot& slot = slots_[0];
  slot.tables[1] = {};
  float* data = slot.tables[0].as<float>();
  if (width_ != shape_.dim) {
    for (uint64_t i = 1; i < slot.count; ++i) {
      std::memmove(data + i * shape_.dim, data + i * width_, shape_.dim * sizeof(float));
    }
  }
  slot.partition = kNone;
  return std::move(slot.tables[0]);
}

void NodeVectors::read(uint64_t begin, uint64_t count, float* out) {
  for (uint64_t node = begin; node < begin + count; ++node) {
    if (!is_here(node)) {
      const auto partition = static_cast<uint32_t>(node / shape_.partition_rows());
      bring(partition, partition, nullptr);
    }
    std::memcpy(out + (node - begin) * shape_.dim, own(node), shape_.dim * sizeof(float));
  }
}

}  // namespace gz
