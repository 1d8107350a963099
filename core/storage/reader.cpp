// reader: the pool of readers, and the one that calls pread.
#include "storage/reader.h"

#include <mutex>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/per_process.h"
#include "base/threads.h"

namespace gz {
namespace {

constexpr size_t kPreadArena = size_t{256} << 10;
constexpr size_t kMostIdlePreaders = kPreadThreads;

// One read at a time: depth comes from many of these on as many threads.
class PreadReader : public Reader {
 public:
  PreadReader() : arena_(kPreadArena, Purpose::kReads) {}
  size_t depth() const override { return 1; }
  size_t in_flight() const override { return file_ == nullptr ? 0 : 1; }
  std::span<std::byte> arena() const override { return {arena_.data(), kPreadArena}; }
  void queue(const File& file, const ReadRequest& request) override {
    file_ = &file;
    request_ = request;
  }
  size_t wait(std::span<ReadResult> results) override {
    if (file_ == nullptr || results.empty()) return 0;
    results[0] = {request_.tag, 0};
    try {
      results[0].result = static_cast<int32_t>(file_->read_some_at({request_.to, request_.bytes}, request_.offset));
    } catch (const StorageError& e) {
      results[0].result = -e.code;
    }
    file_ = nullptr;
    return 1;
  }

 private:
  Buffer arena_;
  const File* file_ = nullptr;  // of the queued read
  ReadRequest request_;
};

struct Idle {
  std::mutex mutex;
  std::vector<std::unique_ptr<Reader>> rings, preaders;  // guarded by mutex
  std::vector<std::unique_ptr<Reader>>& of(ReaderKind kind) { return kind == ReaderKind::kUring ? rings : preaders; }
};

// A child process must not use its parent's rings: their memory is shared with the parent's kernel state, so it would
// take results that belong to the parent.
Idle& idle() {
  return per_process([] { return new Idle; });
}

// Makes a pread reader of `kind` kUring where there is no room for a ring, and says so in `kind`.
std::unique_ptr<Reader> make_reader(ReaderKind& kind) {
  if (kind == ReaderKind::kPread) return make_pread_reader();
  RingRefusal refusal;
  if (auto ring = make_ring(refusal)) return ring;
  if (!refusal.shortage) {
    throw StorageError("io_uring is not available (" + refusal.why + "): use io='pread'", 0, "");
  }
  kind = ReaderKind::kPread;
  return make_pread_reader();
}

// The kernel's refusal, empty where it has none. A shortage says nothing about the kernel: it is asked again.
std::string permanent_refusal() {
  static std::mutex mutex;
  static std::optional<std::string> known;  // guarded by mutex
  std::lock_guard lock(mutex);
  if (known) return *known;
  RingRefusal refusal;
  const bool made = make_ring(refusal) != nullptr;
  if (!made && refusal.shortage) return "";
  known = made ? "" : refusal.why;
  return *known;
}

}  // namespace

std::string uring_refusal() { return permanent_refusal(); }

bool uring_works() {
  static std::atomic<bool> works{false};  // queried by every gather
  if (!works.load(std::memory_order_relaxed)) works = permanent_refusal().empty();
  return works;
}

std::unique_ptr<Reader> make_pread_reader() { return std::make_unique<PreadReader>(); }

std::shared_ptr<Reader> take_reader(ReaderKind kind) {
  Idle& shelf = idle();
  std::unique_ptr<Reader> reader;
  {
    std::lock_guard lock(shelf.mutex);
    auto& same = shelf.of(kind);
    if (!same.empty()) {
      reader = std::move(same.back());
      same.pop_back();
    }
  }
  if (reader == nullptr) reader = make_reader(kind);
  // The shelf is named, not looked up again: a reader that crossed a fork goes back to the one that was left behind.
  return {reader.release(), [&shelf, kind](Reader* r) {
            std::unique_ptr<Reader> owned(r);
            if (owned->in_flight() > 0) return;
            const size_t most = kind == ReaderKind::kUring ? static_cast<size_t>(default_threads()) : kMostIdlePreaders;
            std::lock_guard lock(shelf.mutex);
            auto& same = shelf.of(kind);
            if (same.size() < most) same.push_back(std::move(owned));
          }};
}

void drop_idle_readers() {
  Idle& shelf = idle();
  std::lock_guard lock(shelf.mutex);
  shelf.rings.clear();
  shelf.preaders.clear();
}

#ifndef __linux__
std::unique_ptr<Reader> make_ring(RingRefusal& refusal, std::span<std::byte>) {
  refusal.why = "this system has no io_uring";
  return nullptr;
}
#endif

}  // namespace gz
