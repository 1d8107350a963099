// gather: which way each row takes.
#include "gather/gather.h"

#include <array>
#include <chrono>
#include <cstring>

#include "base/error.h"
#include "base/threads.h"

namespace gz {
namespace {

constexpr std::array<const char*, 4> kIoNames{"auto", "mmap", "uring", "pread"};
constexpr size_t kGrain = 4096;  // rows a chunk

}  // namespace

Io io_from_name(std::string_view name) {
  for (size_t i = 0; i < kIoNames.size(); ++i) {
    if (name == kIoNames[i]) return static_cast<Io>(i);
  }
  fail<ArgumentError>("io is '", name, "', expected 'auto', 'mmap', 'uring' or 'pread'");
}

const char* io_name(Io io) { return kIoNames[static_cast<size_t>(io)]; }

void GatherStats::add(const GatherStats& other) {
  rows += other.rows;
  rows_mapped += other.rows_mapped;
  rows_cached += other.rows_cached;
  bytes_useful += other.bytes_useful;
  bytes_read += other.bytes_read;
  reads += other.reads;
  read_seconds += other.read_seconds;
  copy_seconds += other.copy_seconds;
}

DType gathered_dtype(const Matrix& matrix, const GatherOptions& options) {
  const DType out = options.out_dtype.value_or(matrix.dtype);
  if (out != matrix.dtype) {
    fail<ArgumentError>("dtype is ", dtype_name(out), ", expected ", dtype_name(matrix.dtype), " as on disk");
  }
  return out;
}

uint64_t gathered_row_bytes(const Matrix& matrix, const GatherOptions& options) {
  return matrix.columns * dtype_bytes(gathered_dtype(matrix, options));
}

void check_row_ids(const FeatureFile& file, const Matrix& matrix, std::span<const int64_t> ids) {
  for (const int64_t id : ids) {
    if (id < 0 || static_cast<uint64_t>(id) >= matrix.rows) {
      fail<IndexError>("node id ", id, " is out of range for ", file.file().path(), " with ", matrix.rows, " rows");
    }
  }
}

void gather(const FeatureFile& file, const Matrix& matrix, std::span<const int64_t> ids, std::byte* out,
            const GatherOptions& options, GatherStats* stats, Progress* progress) {
  const uint64_t row_bytes = gathered_row_bytes(matrix, options);
  check_row_ids(file, matrix, ids);
  const auto start = std::chrono::steady_clock::now();
  parallel_for(ids.size(), kGrain, resolve_threads(options.threads), [&](size_t begin, size_t end, int) {
    for (size_t i = begin; i < end; ++i) {
      std::memcpy(out + i * row_bytes, matrix.data + static_cast<uint64_t>(ids[i]) * row_bytes, row_bytes);
    }
  });
  if (progress != nullptr) progress->report("gather", ids.size(), ids.size());
  file.file().check();
  if (stats != nullptr) {
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    stats->add({.rows = ids.size(),
                .rows_mapped = ids.size(),
                .bytes_useful = ids.size() * matrix.row_bytes,
                .copy_seconds = taken.count()});
  }
}

}  // namespace gz
