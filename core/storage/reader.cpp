// reader: the pool of readers, and those that call pread.
#include "storage/reader.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/per_process.h"
#include "base/threads.h"

namespace gz {
namespace {

constexpr size_t kPreadArena = size_t{256} << 10;
constexpr size_t kMostIdlePreaders = kPreadThreads;

// One read; the negative errno of a failure.
ReadResult pread_now(const File& file, const ReadRequest& request) {
  try {
    return {request.tag, static_cast<int32_t>(file.read_some_at({request.to, request.bytes}, request.offset))};
  } catch (const StorageError& e) {
    return {request.tag, -e.code};
  }
}

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
    results[0] = pread_now(*std::exchange(file_, nullptr), request_);
    return 1;
  }

 private:
  Buffer arena_;
  const File* file_ = nullptr;  // of the queued read
  ReadRequest request_;
};

// A reader of some depth without io_uring: a few threads of its own, each with one pread at a time.
class ThreadReader : public Reader {
 public:
  explicit ThreadReader(std::span<std::byte> arena)
      : own_(arena.empty() ? Buffer(kArena, Purpose::kReads) : Buffer()),
        arena_(arena.empty() ? std::span(own_.data(), kArena) : arena) {
    for (size_t i = 0; i < kThreads; ++i) {
      try {
        threads_.emplace_back([this] { work(); });
      } catch (const std::exception&) {  // also where there is no memory: threads that run must be joined
        if (threads_.empty()) throw;     // fewer are slower, but one is needed
        break;
      }
    }
  }

  ~ThreadReader() override {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    asked_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  size_t depth() const override { return kDepth; }
  size_t in_flight() const override { return in_flight_; }
  std::span<std::byte> arena() const override { return arena_; }

  void queue(const File& file, const ReadRequest& request) override {
    ++in_flight_;
    std::lock_guard lock(mutex_);
    waiting_.push_back({&file, request});
    asked_.notify_one();
  }

  size_t wait(std::span<ReadResult> results) override {
    if (in_flight_ == 0 || results.empty()) return 0;
    std::unique_lock lock(mutex_);
    done_.wait(lock, [&] { return !results_.empty(); });
    return take(results);
  }

  size_t poll(std::span<ReadResult> results) override {
    const std::lock_guard lock(mutex_);
    return take(results);
  }

 private:
  static constexpr size_t kThreads = 16, kDepth = 64;

  size_t take(std::span<ReadResult> results) {  // with the lock held
    size_t got = 0;
    for (; got < results.size() && !results_.empty(); ++got) {
      results[got] = results_.front();
      results_.pop_front();
    }
    in_flight_ -= got;
    return got;
  }

  struct Asked {
    const File* file;
    ReadRequest request;
  };

  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      asked_.wait(lock, [&] { return stopping_ || !waiting_.empty(); });
      if (stopping_) return;
      const Asked next = waiting_.front();
      waiting_.pop_front();
      lock.unlock();
      const ReadResult result = pread_now(*next.file, next.request);
      lock.lock();
      results_.push_back(result);
      done_.notify_one();
    }
  }

  const Buffer own_;
  const std::span<std::byte> arena_;
  size_t in_flight_ = 0;  // of the thread that uses the reader
  std::mutex mutex_;
  std::condition_variable asked_, done_;
  std::deque<Asked> waiting_;       // guarded by mutex_
  std::deque<ReadResult> results_;  // guarded by mutex_
  bool stopping_ = false;           // guarded by mutex_
  std::vector<std::thread> threads_;
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
std::unique_ptr<Reader> make_reader(ReaderKind& kind, size_t arena) {
  if (kind == ReaderKind::kPread) return make_pread_reader();
  RingRefusal refusal;
  if (auto ring = make_ring(refusal, {}, arena)) return ring;
  if (!refusal.shortage) {
    throw StorageError("io_uring is not available (" + refusal.why + "): use io='pread'", 0, "");
  }
  kind = ReaderKind::kPread;
  return make_pread_reader();
}

// The kernel's refusal, empty where it has none. A shortage says nothing about the kernel: it is asked again.
std::string permanent_refusal() {
  struct Known {
    std::mutex mutex;
    std::optional<std::string> why;  // guarded by mutex
  };
  Known& known = per_process([] { return new Known; });
  std::lock_guard lock(known.mutex);
  if (known.why) return *known.why;
  RingRefusal refusal;
  const bool made = make_ring(refusal) != nullptr;
  if (!made && refusal.shortage) return "";
  known.why = made ? "" : refusal.why;
  return *known.why;
}

}  // namespace

std::string uring_refusal() { return permanent_refusal(); }

bool uring_works() {
  static std::atomic<bool> works{false};  // queried by every gather
  if (!works.load(std::memory_order_relaxed)) works = permanent_refusal().empty();
  return works;
}

std::unique_ptr<Reader> make_thread_reader(std::span<std::byte> arena) { return std::make_unique<ThreadReader>(arena); }

std::unique_ptr<Reader> make_pread_reader() { return std::make_unique<PreadReader>(); }

std::shared_ptr<Reader> take_reader(ReaderKind kind, size_t arena) {
  Idle& shelf = idle();
  std::unique_ptr<Reader> reader;
  {
    std::lock_guard lock(shelf.mutex);
    auto& same = shelf.of(kind);
    if (arena == kArena && !same.empty()) {
      reader = std::move(same.back());
      same.pop_back();
    }
  }
  if (reader == nullptr) reader = make_reader(kind, arena);
  // The shelf is named, not looked up again: a reader that crossed a fork goes back to the one that was left behind.
  return {reader.release(), [&shelf, kind](Reader* r) {
            std::unique_ptr<Reader> owned(r);
            if (owned->in_flight() > 0 || owned->arena().size() > kArena) return;
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
std::unique_ptr<Reader> make_ring(RingRefusal& refusal, std::span<std::byte>, size_t) {
  refusal.why = "this system has no io_uring";
  return nullptr;
}
#endif

}  // namespace gz
