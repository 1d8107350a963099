// reader: explicit reads of a file, many in flight at once.
//
// A page fault is a queue of depth one and its failure is a signal; an explicit read is deep and its failure is a
// number. Two kinds: a ring (io_uring, Linux) keeps hundreds of reads in flight from one thread; where the kernel
// refuses rings, as default containers do, many threads with one pread each are used instead.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/memory.h"
#include "storage/file.h"

namespace gz {

struct ReadRequest {
  std::byte* to = nullptr;  // inside the reader's arena
  uint32_t bytes = 0;
  uint64_t offset = 0;
  uint32_t tag = 0;  // comes back with the result
};

struct ReadResult {
  uint32_t tag = 0;
  int32_t result = 0;  // bytes read, fewer than asked at the end of the file, or a negative errno
};

// Used by one thread at a time. Tests put their own in its place to make reads fail.
class Reader {
 public:
  virtual ~Reader() = default;
  virtual size_t depth() const = 0;                // the most reads in flight
  virtual size_t in_flight() const = 0;            // queued and not yet come back
  virtual std::span<std::byte> arena() const = 0;  // 4 KiB-aligned room for their bytes
  virtual void queue(const File& file, const ReadRequest& request) = 0;
  // Starts what was queued and waits for at least one result; returns how many came. Throws StorageError when the
  // machinery itself fails, never for a failed read.
  virtual size_t wait(std::span<ReadResult> results) = 0;
  // The same without waiting, where the reader can: perhaps nothing has come.
  virtual size_t poll(std::span<ReadResult> results) { return wait(results); }
};

enum class ReaderKind { kUring, kPread };

constexpr size_t kRingDepth = 256;
// Bytes of a reader's arena: of most, and of those that keep a fast disk busy with long reads while their thread
// handles what came before. Out of core with 8 GB (benchmarks/papers100m.py --only deep), with 4 MB for long reads all
// of them completed together, and the disk was idle until they were handled.
constexpr size_t kArena = size_t{8} << 20, kLargeArena = size_t{32} << 20;
constexpr int kPreadThreads = 64;  // readers of depth one that together replace a ring

// Whether this kernel lets this process have rings; asked until it is known. The reason in words when it does not.
bool uring_works();
std::string uring_refusal();

// A reader from the pool of idle ones, which gets it back unless reads are still in flight; made when there is none.
// Rings are never shared with a forked child: it starts with an empty pool. Where rings work but there is no room for
// another (file descriptors, locked memory, memory), it is a reader by pread, of depth one. Throws StorageError where
// the kernel refuses rings. `arena` is for rings; only those of the usual size are kept.
std::shared_ptr<Reader> take_reader(ReaderKind kind, size_t arena = kArena);
void drop_idle_readers();

// Why a ring was not to be had.
struct RingRefusal {
  std::string why;        // in words
  bool shortage = false;  // of descriptors or memory: it may work later
};

// The two kinds; take_reader() is the way to get one. make_ring() returns null and sets `refusal` where it fails.
// With an `arena`, which outlives it, a reader has none of its own, of `own` bytes.
std::unique_ptr<Reader> make_ring(RingRefusal& refusal, std::span<std::byte> arena = {}, size_t own = kArena);
std::unique_ptr<Reader> make_pread_reader();

// A reader with threads of its own that call pread: for one thread that wants depth where rings are not to be had.
std::unique_ptr<Reader> make_thread_reader(std::span<std::byte> arena = {});

}  // namespace gz
