// container_writer: creates every .gl and .gd file: temporary, arrays, header, sync, rename (FORMAT 7).
//
// Guarantee: until finish() returns, the target is unchanged; a writer that is destroyed without finish() leaves
// nothing behind, and a process that dies leaves a temporary file that the next writer of the same target removes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/checksum.h"
#include "base/memory.h"
#include "base/progress.h"
#include "base/threads.h"
#include "format/container.h"
#include "storage/file.h"

namespace gz {

// Where the bytes of a container's arrays go, each array from its start to its end.
class ArraySink {
 public:
  virtual ~ArraySink() = default;

  virtual size_t index_of(std::string_view name) const = 0;  // throws ArgumentError

  // The next bytes of array `index`.
  virtual void append(size_t index, std::span<const std::byte> bytes) = 0;
  template <class T>
  void append(size_t index, std::span<const T> values) {
    append(index, std::as_bytes(values));
  }
};

// Arrays are written in any order among themselves. Different arrays may be written by different threads at once; one
// array by one thread at a time.
class ContainerWriter : public ArraySink {
 public:
  // Computes the layout of `container` and reserves its disk space. Throws StorageError (ENOSPC) if that fails.
  // Twice `staging_bytes` is held for each array while it is appended to. Without `reserve`, space is taken as bytes
  // are written: for a caller that frees as much meanwhile.
  ContainerWriter(std::string target, Container container, size_t staging_bytes = size_t{1} << 20, bool reserve = true);
  ContainerWriter(const ContainerWriter&) = delete;
  ContainerWriter& operator=(const ContainerWriter&) = delete;
  ~ContainerWriter() override;

  const std::string& target() const { return target_; }
  const Container& container() const { return container_; }
  size_t index_of(std::string_view name) const override;

  using ArraySink::append;
  void append(size_t index, std::span<const std::byte> bytes) override;

  // Bytes of array `index` from byte `at` of it. In order this is append(); out of order, the array is read once more
  // in finish() for its digest.
  void write(size_t index, uint64_t at, std::span<const std::byte> bytes);

  // The same from any number of threads, to parts of the array that do not overlap. Bytes that are never written are 0.
  void write_scattered(size_t index, uint64_t at, std::span<const std::byte> bytes);

  // For arrays that other processes write into the temporary file (compile/write/range_writer.h): its path, and the
  // digest of what they wrote, which is not read again.
  const std::string& temporary() const { return temporary_; }
  void set_digest(size_t index, uint64_t digest);

  // The next bytes of array `index`, from a file: one thread reads while another sums and writes.
  void append_file(size_t index, const File& from, uint64_t offset, uint64_t bytes, Progress* progress);

  // Extends the last array, whose length was unknown, to `rows` rows; num_nodes becomes `rows`.
  void grow_last(uint64_t rows);

  // For sizes that are known late (deduplication, row streams): arrays were declared with the most rows they may have,
  // and now have `rows`. Arrays after a shrunken one move forward: an array that moves must be complete, or not
  // started. Not while other threads write.
  struct Rows {
    size_t index;
    uint64_t rows;
  };
  void shrink(std::span<const Rows> arrays, uint64_t num_nodes, uint64_t num_edges);

  // Header, sync, rename, sync of the folder. Every array must be complete. Returns the bytes of the file.
  uint64_t finish(int threads = 1, Progress* progress = nullptr);

 private:
  struct Stream {
    StreamDigest digest;
    uint64_t appended = 0;  // bytes taken in order from the start
    uint64_t flushed = 0;   // of them, bytes in the file
    Buffer staging;         // the remaining bytes
    Buffer writing;         // what `written` is writing
    BackgroundTask written;
    std::atomic<bool> scattered{false};  // written out of order: it is read again for the digest
    std::optional<uint64_t> given;       // the digest, if it is known
  };

  File& bulk() { return bulk_ ? bulk_ : file_; }
  void check_room(uint64_t bytes) const;
  void flush(Stream& stream, const ArrayInfo& array, bool wait = true);
  const ArrayInfo& check_bounds(size_t index, uint64_t at, size_t bytes) const;
  void move(uint64_t from, uint64_t to, uint64_t bytes);
  uint64_t digest_of(const ArrayInfo& array, int threads, Progress* progress) const;

  std::string target_, temporary_;
  Container container_;
  std::deque<Stream> streams_;  // atomics do not move
  const size_t staging_bytes_;
  File file_;
  File bulk_;  // the same file, bypassing the page cache if it is large
  bool finished_ = false;
};

}  // namespace gz
