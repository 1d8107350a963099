// read_blocks: blocks by direct reads, for topologies that do not fit into the budget.
//
// One thread reads row pointers a chunk at a time, cuts blocks and keeps reads for several of them in flight; what is
// complete is handed out in file order. A block that is a single row longer than a slot is a view of the mapping
// instead.
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "analytics/block_source.h"
#include "base/interrupt.h"
#include "base/memory.h"
#include "storage/page_reads.h"
#include "storage/topology.h"

namespace gz {
namespace {

constexpr uint64_t kReadBytes = 2 * kBlockBytes;
constexpr size_t kSlots = 24, kChunks = 3;
constexpr size_t kReads = 2 * kSlots + 2 * kChunks;    // ids and weights of each slot: fewer than any reader's depth
constexpr auto kLook = std::chrono::milliseconds(20);  // how often a waiting thread checks for an interrupt

// Where reads go is decided before they are started: take() returns that place.
class Placed : public ReadBuffers {
 public:
  explicit Placed(size_t count) : count_(count) {
    for (size_t i = count; i > 0; --i) free_.push_back(static_cast<uint32_t>(i - 1));
  }
  size_t count() const override { return count_; }
  size_t most_bytes() const override { return kReadBytes; }
  std::optional<Taken> take(size_t) override {
    if (free_.empty()) return std::nullopt;
    const uint32_t index = free_.back();
    free_.pop_back();
    return Taken{index, to};
  }
  void give_back(uint32_t index) override { free_.push_back(index); }

  std::byte* to = nullptr;

 private:
  const size_t count_;
  std::vector<uint32_t> free_;
};

uint64_t area(uint64_t bytes) { return round_up(bytes, kPageBytes) + kPageBytes; }  // wherever in a page it begins

// Sizes of the parts of the arena.
struct Areas {
  explicit Areas(const RowArrays& arrays)
      : chunk(area((std::min(kChunkRows, arrays.rows) + 1) * sizeof(uint64_t))),
        ids(area(std::min(arrays.most_edges(), arrays.edges) * arrays.id_bytes)),
        weights(arrays.weights != nullptr ? area(std::min(arrays.most_edges(), arrays.edges) * sizeof(float)) : 0) {}
  uint64_t all() const {
    constexpr uint64_t kHugePage = uint64_t{2} << 20;  // what a buffer of that size is rounded up to
    const uint64_t bytes = kChunks * chunk + kSlots * (ids + weights);
    return bytes < kHugePage ? bytes : round_up(bytes, kHugePage);
  }
  const uint64_t chunk, ids, weights;
};

std::shared_ptr<Reader> reader_into(std::span<std::byte> arena) {
  if (uring_works()) {
    RingRefusal refusal;
    if (auto ring = make_ring(refusal, arena)) return ring;
  }
  return make_thread_reader(arena);
}

class ReadBlocks : public BlockSource {
 public:
  explicit ReadBlocks(const RowArrays& arrays)
      : arrays_(arrays),
        areas_(arrays),
        arena_(static_cast<size_t>(areas_.all()), Purpose::kReads),
        places_(std::make_shared<Placed>(kReads)),
        reads_(
            *arrays.file, arrays.file->preferred(), reader_into(arena_.span_of<std::byte>()),
            [this](const PageReads::Read& read) { return name_of(read); }, places_),
        slots_(kSlots),
        chunks_(kChunks) {}

  ~ReadBlocks() override {
    stop();
    join();
  }

  void start() override {
    join();
    row_ = number_ = chunks_asked_ = taken_ = 0;
    stopped_ = finished_ = released_ = false;
    error_ = nullptr;
    for (Slot& slot : slots_) slot = {};
    free_slots_.clear();
    for (uint32_t i = 0; i < kSlots; ++i) free_slots_.push_back(i);
    for (Chunk& chunk : chunks_) chunk = {};
    thread_ = std::thread([this] { produce(); });
  }

  bool next(RawBlock& block) override {
    std::unique_lock lock(mutex_);
    const auto done = [&] { return ready() != nullptr || stopped_ || (finished_ && taken_ == number_); };
    while (!arrived_.wait_for(lock, kLook, done)) check_interrupt();
    if (error_) std::rethrow_exception(error_);
    Slot* const slot = stopped_ ? nullptr : ready();
    if (slot == nullptr) return false;
    slot->ready = false;
    ++taken_;
    block = slot->block;
    arrived_.notify_all();  // the block after it may have come already
    return true;
  }

  void release(const RawBlock& block) override {
    const std::lock_guard lock(mutex_);
    free_slots_.push_back(block.slot);
    --chunks_[block.chunk].users;
    released_ = true;
    wanted_.notify_one();
  }

  void stop() noexcept override {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    arrived_.notify_all();
    wanted_.notify_all();
  }

 private:
  struct Slot {
    RawBlock block;
    int reads = 0;  // in flight
    bool ready = false;
  };
  struct Chunk {
    uint64_t first_row = 0, rows = 0;  // 0 rows: free
    const uint64_t* indptr = nullptr;
    int reads = 0, users = 0;  // users: blocks that point into it
  };

  void join() {
    if (thread_.joinable()) thread_.join();
  }

  // On the reading thread. Only what release() and next() touch is guarded; reads are waited for without the lock.
  void produce() {
    try {
      for (;;) {
        {
          std::unique_lock lock(mutex_);
          if (stopped_) return;
          released_ = false;
          ask_for_chunks();
          cut_blocks();
          if (reads_.in_flight() == 0) {
            if (row_ == arrays_.rows) {
              finished_ = true;
              arrived_.notify_all();
              return;
            }
            wanted_.wait(lock, [&] { return released_ || stopped_; });
            continue;
          }
        }
        reads_.wait([&](const PageReads::Read& read, const std::byte*) { delivered(read); });
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      error_ = std::current_exception();
      stopped_ = true;
      arrived_.notify_all();
    }
  }

  void ask_for_chunks() {
    for (uint32_t i = 0; i < kChunks; ++i) {
      Chunk& chunk = chunks_[i];
      const uint64_t first = chunks_asked_ * kChunkRows;
      if (first >= arrays_.rows) return;
      if (chunk.rows > 0 && (chunk.users > 0 || row_ < chunk.first_row + chunk.rows)) continue;
      ++chunks_asked_;
      chunk.first_row = first;
      chunk.rows = std::min(kChunkRows, arrays_.rows - first);
      const std::byte* at = read(*arrays_.indptr, first * sizeof(uint64_t), (chunk.rows + 1) * sizeof(uint64_t),
                                 arena_.data() + i * areas_.chunk, kSlots + i, chunk.reads);
      chunk.indptr = reinterpret_cast<const uint64_t*>(at);
    }
  }

  void cut_blocks() {
    while (row_ < arrays_.rows && !free_slots_.empty()) {
      const auto chunk = std::find_if(chunks_.begin(), chunks_.end(), [&](const Chunk& c) {
        return c.rows > 0 && row_ >= c.first_row && row_ < c.first_row + c.rows;
      });
      if (chunk == chunks_.end() || chunk->reads > 0) return;
      const uint32_t number = free_slots_.back();
      free_slots_.pop_back();
      Slot& slot = slots_[number];
      RawBlock& block = slot.block;
      slot = {};
      block.slot = number;
      block.chunk = static_cast<uint32_t>(chunk - chunks_.begin());
      ++chunk->users;
      block.number = number_++;
      block.first_row = row_;
      block.indptr = chunk->indptr + (row_ - chunk->first_row);
      const uint64_t left = chunk->first_row + chunk->rows - row_;
      const uint64_t rows = rows_of_block(block.indptr, left, arrays_.most_edges());
      block.end_row = row_ += rows;
      block.begin = block.indptr[0];
      block.end = block.indptr[rows];
      if (block.begin > block.end || block.end > arrays_.edges) {
        fail_row(*arrays_.file, block.first_row, block.begin, block.end);
      }
      fill(slot, number);
      if (slot.reads == 0) set_ready(slot);
    }
  }

  void fill(Slot& slot, uint32_t number) {
    RawBlock& block = slot.block;
    const uint64_t count = block.end - block.begin;
    if (count == 0) return;
    if (count > arrays_.most_edges()) {
      const MountedFile& file = *arrays_.file;
      block.indices = file.bytes_of(*arrays_.indices).data() + block.begin * arrays_.id_bytes;
      if (arrays_.weights != nullptr) {
        block.weights = file.bytes_of(*arrays_.weights).data() + block.begin * sizeof(float);
      }
      return;
    }
    std::byte* const to = arena_.data() + kChunks * areas_.chunk + number * (areas_.ids + areas_.weights);
    block.indices =
        read(*arrays_.indices, block.begin * arrays_.id_bytes, count * arrays_.id_bytes, to, number, slot.reads);
    if (arrays_.weights == nullptr) return;
    block.weights =
        read(*arrays_.weights, block.begin * sizeof(float), count * sizeof(float), to + areas_.ids, number, slot.reads);
  }

  // Starts reads of these bytes of an array; returns where they will be.
  const std::byte* read(const ArrayInfo& array, uint64_t from, uint64_t bytes, std::byte* to, size_t owner,
                        int& count) {
    const uint64_t begin = array.offset + from, first = begin / kPageBytes * kPageBytes;
    const uint64_t end = round_up(begin + bytes, kPageBytes);
    for (uint64_t at = first; at < end; at += kReadBytes) {
      places_->to = to + (at - first);
      reads_.start({at, static_cast<uint32_t>(std::min(kReadBytes, end - at)), owner, 0});
      ++count;
    }
    return to + (begin - first);
  }

  void delivered(const PageReads::Read& read) {
    const std::lock_guard lock(mutex_);
    if (read.first >= kSlots) {
      --chunks_[read.first - kSlots].reads;
    } else if (--slots_[read.first].reads == 0) {
      set_ready(slots_[read.first]);
    }
  }

  void set_ready(Slot& slot) {
    slot.ready = true;
    if (slot.block.number == taken_) arrived_.notify_one();
  }

  // The block that is next in file order, if it is complete.
  Slot* ready() {
    for (Slot& slot : slots_) {
      if (slot.ready && slot.block.number == taken_) return &slot;
    }
    return nullptr;
  }

  std::string name_of(const PageReads::Read& read) const {
    if (read.first >= kSlots) return text("row pointers from row ", chunks_[read.first - kSlots].first_row);
    const RawBlock& block = slots_[read.first].block;
    return text("edges of rows ", block.first_row, " to ", block.end_row);
  }

  const RowArrays arrays_;
  const Areas areas_;
  const Buffer arena_;
  const std::shared_ptr<Placed> places_;
  PageReads reads_;  // of the reading thread, like row_, number_ and chunks_asked_
  uint64_t row_ = 0, number_ = 0, chunks_asked_ = 0;

  std::mutex mutex_;
  std::condition_variable arrived_, wanted_;
  std::vector<Slot> slots_;  // guarded by mutex_, like all that follows
  std::vector<Chunk> chunks_;
  std::vector<uint32_t> free_slots_;
  uint64_t taken_ = 0;  // blocks that next() returned
  bool stopped_ = false, finished_ = false, released_ = false;
  std::exception_ptr error_;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<BlockSource> read_blocks(const RowArrays& arrays) { return std::make_unique<ReadBlocks>(arrays); }

uint64_t read_blocks_bytes(const RowArrays& arrays) { return Areas(arrays).all(); }

}  // namespace gz
