// thread_reader: a reader of some depth without io_uring: a few threads of its own, each with one pread at a time.
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "base/error.h"
#include "storage/reader.h"

namespace gz {
namespace {

constexpr size_t kThreads = 16;
constexpr size_t kDepth = 64;
constexpr size_t kArena = size_t{8} << 20;

class ThreadReader : public Reader {
 public:
  explicit ThreadReader(std::span<std::byte> arena)
      : own_(arena.empty() ? Buffer(kArena, Purpose::kReads) : Buffer()),
        arena_(arena.empty() ? std::span(own_.data(), kArena) : arena) {
    for (size_t i = 0; i < kThreads; ++i) {
      try {
        threads_.emplace_back([this] { work(); });
      } catch (const std::exception&) {  // also where there is no memory: threads that run must be joined
        if (threads_.empty()) throw;     // fewer are slower, none is no reader
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
      ReadResult result{next.request.tag, 0};
      try {
        result.result =
            static_cast<int32_t>(next.file->read_some_at({next.request.to, next.request.bytes}, next.request.offset));
      } catch (const StorageError& e) {
        result.result = -e.code;
      }
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

}  // namespace

std::unique_ptr<Reader> make_thread_reader(std::span<std::byte> arena) { return std::make_unique<ThreadReader>(arena); }

}  // namespace gz
