// gather: chooses how each row is read.
#include "gather/gather.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/ids.h"
#include "base/random.h"
#include "base/system.h"
#include "base/threads.h"
#include "gather/copy.h"
#include "gather/read_rows.h"
#include "storage/residency.h"

namespace gz {
namespace {

constexpr std::array<const char*, 4> kIoNames{"auto", "mmap", "uring", "pread"};
constexpr size_t kGrain = 2048;         // rows per chunk
constexpr size_t kSamples = 64;         // rows checked to estimate how many are in RAM
constexpr uint64_t kShareOfMemory = 4;  // a matrix below 1/4 of the free memory may fill the page cache

// One call: ids to consecutive rows, or moves.
struct Task {
  const MountedFile& file;
  const Matrix& matrix;
  std::span<const int64_t> ids;
  std::span<const RowMove> moves;
  std::byte* out;
  const RowCopier& copier;
  const GatherOptions& options;
  int threads;
  Progress* progress;

  size_t count() const { return moves.empty() ? ids.size() : moves.size(); }
  uint64_t id(size_t i) const { return moves.empty() ? static_cast<uint64_t>(ids[i]) : moves[i].from; }
};

// How the rows of one call are fetched.
struct Way {
  bool mapped = false;          // all from the mapping, otherwise by reads
  bool spare_resident = false;  // but rows in RAM from the mapping
  bool direct = true;           // reads bypass the page cache where possible
  ReaderKind kind = ReaderKind::kUring;
};

// How many of a sample of the rows are in RAM; `looked` may be 0.
struct Sample {
  size_t looked = 0, resident = 0;
};

Sample sample_residency(const Task& task) {
  Sample sample;
  Random random(make_key(task.count(), task.id(0)));
  const size_t count = std::min(kSamples, task.count());
  std::vector<bool> resident(1);
  for (size_t i = 0; i < count; ++i) {
    const size_t at = task.count() <= kSamples ? i : static_cast<size_t>(random.below(task.count()));
    const uint64_t offset = task.matrix.offset + task.id(at) * task.matrix.row_bytes;
    resident[0] = false;
    mark_resident(task.file.mapping(), 1, task.matrix.row_bytes, [&](size_t) { return offset; }, resident);
    ++sample.looked;
    sample.resident += resident[0] ? 1 : 0;
  }
  return sample;
}

// Whether the whole array is in RAM, now or recently.
bool all_resident(const MountedFile& file, const Matrix& matrix) {
  if (file.warmth().recent(matrix.offset)) return true;
  const uint64_t bytes = matrix.rows * matrix.row_bytes;
  const auto start = Clock::now();
  const auto cached = cached_bytes(file, matrix.offset, bytes);
  if (!cached || *cached < bytes) return false;
  file.warmth().remember(matrix.offset, Clock::now() - start);
  return true;
}

Way choose(const Task& task) {
  Way way;
  way.mapped = task.options.io == Io::kMmap;
  const bool ring = task.options.io == Io::kUring || (task.options.io == Io::kAuto && uring_works());
  way.kind = ring ? ReaderKind::kUring : ReaderKind::kPread;
  if (task.options.io != Io::kAuto || task.options.past_page_cache) return way;
  if (!residency_is_reported(task.file.file())) {
    way.direct = false;  // deep reads through the page cache work well whether the rows are in it or not
    return way;
  }
  const Sample sample = sample_residency(task);
  if (sample.resident == sample.looked) {
    way.mapped = task.count() <= kSamples || all_resident(task.file, task.matrix);
  }
  if (way.mapped) return way;
  way.spare_resident = sample.resident > 0;
  // Direct reads do not fill the page cache. A matrix that is much smaller than memory is worth caching.
  way.direct = task.matrix.rows * task.matrix.row_bytes > available_memory() / kShareOfMemory;
  return way;
}

void copy_mapped(const Task& task, GatherStats& stats) {
  std::atomic<size_t> done{0};
  std::atomic<int64_t> busy{0};  // nanoseconds
  parallel_for(task.count(), kGrain, task.threads, [&](size_t begin, size_t end, int worker) {
    const auto begun = Clock::now();
    if (task.moves.empty()) {
      task.copier.gather(task.matrix.data, task.ids.subspan(begin, end - begin), task.out, begin);
    } else {
      task.copier.gather(task.matrix.data, task.moves.subspan(begin, end - begin), task.out);
    }
    finish_streaming();
    busy += std::chrono::nanoseconds(Clock::now() - begun).count();
    done += end - begin;
    if (worker == 0 && task.progress != nullptr) task.progress->report("gather", done.load(), task.count());
  });
  if (task.progress != nullptr) task.progress->report("gather", task.count(), task.count());
  task.file.check();
  task.file.check_size();  // a file truncated within its last page raises no signal: the page ends in zeros
  stats.rows_mapped += task.count();
  stats.copy_seconds += static_cast<double>(busy.load()) * 1e-9;
}

void read(const Task& task, const Way& way, GatherStats& stats) {
  ReadJob job;
  job.file = &task.file;
  job.matrix = &task.matrix;
  job.copier = &task.copier;
  job.out = task.out;
  job.source = way.direct ? &task.file.preferred() : &task.file.file();
  job.reader = [&] { return take_reader(way.kind); };
  job.workers = way.kind == ReaderKind::kUring ? task.threads : kPreadThreads;
  job.spare_resident = way.spare_resident;
  job.progress = task.progress;
  const size_t most = SortedRows::most_rows(task.matrix.rows);
  for (size_t first = 0; first < task.count(); first += most) {
    const size_t part = std::min(most, task.count() - first);
    const auto start = Clock::now();
    SortedRows rows(part, task.matrix.rows, [&](size_t i) { return task.id(first + i); });
    stats.copy_seconds += seconds_since(start);
    job.first = first;
    if (!task.moves.empty()) job.moves = task.moves.subspan(first, part);
    read_rows(job, rows, stats);
  }
  if (way.spare_resident) {
    task.file.check();
    task.file.check_size();
  }
}

// The ids were checked.
void run(const FeatureFile& file, const Matrix& matrix, std::span<const int64_t> ids, std::span<const RowMove> moves,
         std::byte* out, const GatherOptions& options, GatherStats* stats, Progress* progress) {
  const size_t count = std::max(ids.size(), moves.size());
  const DType out_dtype = gathered_dtype(matrix, options);
  if (count == 0 || matrix.row_bytes == 0) return;
  const RowCopier copier(matrix, out_dtype, is_streamed(count * gathered_row_bytes(matrix, options)));
  const Task task{file.file(), matrix, ids, moves, out, copier, options, resolve_threads(options.threads), progress};
  GatherStats done;
  done.rows = count;
  done.bytes_useful = count * matrix.row_bytes;
  const Way way = choose(task);
  if (way.mapped) {
    copy_mapped(task, done);
  } else {
    read(task, way, done);
  }
  if (stats != nullptr) stats->add(done);
}

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
  if (row_kernel({.from = matrix.dtype, .to = out}) == nullptr) {
    const bool other = matrix.dtype != DType::kFloat32;
    fail<ArgumentError>("dtype is ", dtype_name(out), ", expected ", dtype_name(matrix.dtype), " (as on disk)",
                        other ? " or float32" : "");
  }
  return out;
}

uint64_t gathered_row_bytes(const Matrix& matrix, const GatherOptions& options) {
  return matrix.columns * dtype_bytes(gathered_dtype(matrix, options));
}

void check_row_ids(const FeatureFile& file, const Matrix& matrix, std::span<const int64_t> ids) {
  check_ids(ids, "ids", {matrix.rows, "rows", file.file().path()});
}

void gather(const FeatureFile& file, const Matrix& matrix, std::span<const int64_t> ids, std::byte* out,
            const GatherOptions& options, GatherStats* stats, Progress* progress) {
  check_row_ids(file, matrix, ids);
  run(file, matrix, ids, {}, out, options, stats, progress);
}

void gather(const FeatureFile& file, const Matrix& matrix, std::span<const RowMove> moves, std::byte* out,
            const GatherOptions& options, GatherStats* stats, Progress* progress) {
  const IdRange rows{matrix.rows, "rows", file.file().path()};
  for (const RowMove& move : moves) check_id(static_cast<int64_t>(move.from), "id", rows);
  run(file, matrix, {}, moves, out, options, stats, progress);
}

}  // namespace gz
