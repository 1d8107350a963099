// ring_linux: io_uring by its system calls.
//
// Not by liburing: a wheel must carry all it needs, and the part of it that reads files is this page. The kernel's
// header alone is used, and where even that is missing the pread pool does the work.
#ifdef __linux__
#include "storage/reader.h"

#if __has_include(<linux/io_uring.h>)
#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <new>

#include "base/error.h"

namespace gz {
namespace {

#ifdef IORING_SETUP_COOP_TASKRUN
constexpr unsigned kQuiet = IORING_SETUP_COOP_TASKRUN;  // completions wait for the next call instead of interrupting
#else
constexpr unsigned kQuiet = 0;
#endif

int ring_setup(unsigned entries, io_uring_params* params) {
  return static_cast<int>(syscall(SYS_io_uring_setup, entries, params));
}
int ring_enter(int fd, unsigned submit, unsigned complete, unsigned flags) {
  return static_cast<int>(syscall(SYS_io_uring_enter, fd, submit, complete, flags, nullptr, 0));
}
int ring_register(int fd, unsigned what, const void* argument, unsigned count) {
  return static_cast<int>(syscall(SYS_io_uring_register, fd, what, argument, count));
}

// Words shared with the kernel: it publishes with release, we read with acquire, and the other way round.
unsigned load_acquire(const unsigned* word) { return __atomic_load_n(word, __ATOMIC_ACQUIRE); }
void store_release(unsigned* word, unsigned value) { __atomic_store_n(word, value, __ATOMIC_RELEASE); }

class Ring : public Reader {
 public:
  static std::unique_ptr<Ring> make(RingRefusal& refusal, std::span<std::byte> arena, size_t own) {
    int code = ENOMEM;
    try {
      std::unique_ptr<Ring> ring(new Ring(arena, own));
      code = ring->open();
      if (code == 0) return ring;
    } catch (const std::bad_alloc&) {  // pread needs far less
    }
    refusal.why = std::strerror(code);
    refusal.shortage = code == EMFILE || code == ENFILE || code == ENOMEM || code == EAGAIN;
    return nullptr;
  }

  ~Ring() override {
    if (entries_ != nullptr) munmap(entries_, entries_bytes_);
    if (shared_ != nullptr) munmap(shared_, shared_bytes_);
    if (fd_ >= 0) close(fd_);
  }

  size_t depth() const override { return kRingDepth; }
  size_t in_flight() const override { return in_flight_; }
  std::span<std::byte> arena() const override { return arena_; }

  void queue(const File& file, const ReadRequest& request) override {
    const unsigned tail = *submit_tail_;  // only this thread writes it
    io_uring_sqe& entry = entries_[tail & submit_mask_];
    std::memset(&entry, 0, sizeof entry);
    entry.opcode = registered_ ? IORING_OP_READ_FIXED : IORING_OP_READ;
    entry.fd = static_cast<int>(file.handle());
    entry.off = request.offset;
    entry.addr = reinterpret_cast<uintptr_t>(request.to);
    entry.len = request.bytes;
    entry.user_data = request.tag;
    submit_array_[tail & submit_mask_] = tail & submit_mask_;
    store_release(submit_tail_, tail + 1);
    ++queued_;
    ++in_flight_;
  }

  size_t poll(std::span<ReadResult> results) override {
    // Asks for events even where nothing is queued: completions may wait for a call (kQuiet).
    const int done = ring_enter(fd_, queued_, 0, IORING_ENTER_GETEVENTS);
    if (done >= 0) queued_ -= static_cast<unsigned>(done);  // what failed is tried again by the next call
    return collect(results);
  }

  size_t wait(std::span<ReadResult> results) override {
    if (in_flight_ == 0 || results.empty()) return 0;
    size_t got = collect(results);
    while (got == 0 || queued_ > 0) {
      const int done = ring_enter(fd_, queued_, got == 0 ? 1 : 0, IORING_ENTER_GETEVENTS);
      if (done >= 0) {
        queued_ -= static_cast<unsigned>(done);
      } else if (errno == EAGAIN || errno == EBUSY) {  // the kernel is short of memory or room for results
        if (in_flight_ > queued_) {
          ring_enter(fd_, 0, got == 0 ? 1 : 0, IORING_ENTER_GETEVENTS);
        } else {
          usleep(1000);
        }
      } else if (errno != EINTR) {
        fail_storage("io_uring", "cannot submit reads to", errno);
      }
      got += collect(results.subspan(got));
      if (done < 0 && got > 0) break;  // the caller takes results away before more is submitted
    }
    return got;
  }

 private:
  Ring(std::span<std::byte> arena, size_t own)
      : own_(arena.empty() ? Buffer(own, Purpose::kReads) : Buffer()),
        arena_(arena.empty() ? std::span(own_.data(), own) : arena) {}

  int open() {
    io_uring_params params{};
    params.flags = kQuiet;
    fd_ = ring_setup(kRingDepth, &params);
    if (fd_ < 0 && errno == EINVAL) {  // a kernel from before the flag
      params = {};
      fd_ = ring_setup(kRingDepth, &params);
    }
    if (fd_ < 0) return errno;
    // RW_CUR_POS came with IORING_OP_READ (5.6); a kernel without it is served by pread.
    constexpr unsigned kNeeded = IORING_FEAT_SINGLE_MMAP | IORING_FEAT_NODROP | IORING_FEAT_RW_CUR_POS;
    if ((params.features & kNeeded) != kNeeded) return ENOSYS;
    if (const int code = map(params); code != 0) return code;
    // A child must not get copies of pages that the device is writing to.
    madvise(arena_.data(), arena_.size(), MADV_DONTFORK);
    const iovec room{arena_.data(), arena_.size()};
    registered_ = ring_register(fd_, IORING_REGISTER_BUFFERS, &room, 1) == 0;  // refused where locked memory is scarce
    return 0;
  }

  int map(const io_uring_params& p) {
    shared_bytes_ = std::max<size_t>(p.sq_off.array + p.sq_entries * sizeof(unsigned),
                                     p.cq_off.cqes + p.cq_entries * sizeof(io_uring_cqe));
    void* shared =
        mmap(nullptr, shared_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd_, IORING_OFF_SQ_RING);
    if (shared == MAP_FAILED) return errno;
    shared_ = static_cast<std::byte*>(shared);
    entries_bytes_ = p.sq_entries * sizeof(io_uring_sqe);
    void* entries =
        mmap(nullptr, entries_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd_, IORING_OFF_SQES);
    if (entries == MAP_FAILED) return errno;
    entries_ = static_cast<io_uring_sqe*>(entries);
    submit_tail_ = word(p.sq_off.tail);
    submit_mask_ = *word(p.sq_off.ring_mask);
    submit_array_ = word(p.sq_off.array);
    complete_head_ = word(p.cq_off.head);
    complete_tail_ = word(p.cq_off.tail);
    complete_mask_ = *word(p.cq_off.ring_mask);
    completions_ = reinterpret_cast<const io_uring_cqe*>(shared_ + p.cq_off.cqes);
    return 0;
  }

  unsigned* word(uint32_t offset) const { return reinterpret_cast<unsigned*>(shared_ + offset); }

  size_t collect(std::span<ReadResult> results) {
    const unsigned tail = load_acquire(complete_tail_);
    unsigned head = *complete_head_;  // only this thread writes it
    size_t got = 0;
    for (; head != tail && got < results.size(); ++head, ++got) {
      const io_uring_cqe& done = completions_[head & complete_mask_];
      results[got] = {static_cast<uint32_t>(done.user_data), done.res};
    }
    store_release(complete_head_, head);
    in_flight_ -= got;
    return got;
  }

  const Buffer own_;
  const std::span<std::byte> arena_;
  int fd_ = -1;
  std::byte* shared_ = nullptr;  // both queues
  size_t shared_bytes_ = 0, entries_bytes_ = 0;
  io_uring_sqe* entries_ = nullptr;
  unsigned *submit_tail_ = nullptr, *submit_array_ = nullptr, *complete_head_ = nullptr;
  const unsigned* complete_tail_ = nullptr;
  unsigned submit_mask_ = 0, complete_mask_ = 0;
  const io_uring_cqe* completions_ = nullptr;
  bool registered_ = false;
  unsigned queued_ = 0;   // written to the queue, not yet handed to the kernel
  size_t in_flight_ = 0;  // queued or with the kernel
};

}  // namespace

std::unique_ptr<Reader> make_ring(RingRefusal& refusal, std::span<std::byte> arena, size_t own) {
  return Ring::make(refusal, arena, own);
}

}  // namespace gz

#else

namespace gz {

std::unique_ptr<Reader> make_ring(RingRefusal& refusal, std::span<std::byte>, size_t) {
  refusal.why = "built without the kernel's io_uring header";
  return nullptr;
}

}  // namespace gz
#endif
#endif
