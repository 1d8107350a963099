// row_reader: rows that are read when a batch is built, and rows of a copy in memory.
#include "gather/row_reader.h"

#include <algorithm>
#include <cstring>

#include "base/checked.h"
#include "base/clock.h"
#include "base/error.h"
#include "gather/copy.h"
#include "storage/page_reads.h"

namespace gz {
namespace {

constexpr size_t kGrain = 8192;  // rows between checks for cancellation

}  // namespace

// Large copies use huge pages.
uint64_t WholeRows::bytes_for(const Matrix& matrix) {
  const uint64_t bytes = matrix.rows * matrix.row_bytes;
  return bytes + std::clamp<uint64_t>(bytes, kPageBytes, uint64_t{2} << 20);
}

WholeRows::WholeRows(std::shared_ptr<const FeatureFile> file, const Matrix& matrix, Progress* progress)
    : file_(std::move(file)), matrix_(matrix), rows_(bytes_for(matrix), Purpose::kCache) {
  const MountedFile& mounted = file_->file();
  const auto reader = uring_works() ? take_reader(ReaderKind::kUring) : std::shared_ptr<Reader>(make_thread_reader());
  PageReads reads(mounted, mounted.preferred(), reader,
                  [&](const PageReads::Read&) { return text("'", matrix.name, "'"); });
  const uint64_t begin = matrix.offset & ~(kPageBytes - 1), bytes = matrix.rows * matrix.row_bytes;
  const uint64_t end = round_up(matrix.offset + bytes, kPageBytes);
  uint64_t next = begin;
  while (next < end || reads.in_flight() > 0) {
    while (next < end) {
      const auto step = static_cast<uint32_t>(std::min<uint64_t>(reads.most_bytes(), end - next));
      if (reads.full() || !reads.start({.offset = next, .bytes = step})) break;
      next += step;
    }
    reads.wait([&](const PageReads::Read& read, const std::byte* data) {
      const uint64_t from = std::max(read.offset, matrix.offset);
      const uint64_t to = std::min(read.offset + read.bytes, matrix.offset + bytes);
      if (from < to) std::memcpy(rows_.data() + (from - matrix.offset), data + (from - read.offset), to - from);
    });
    if (progress != nullptr) progress->report("reading into RAM", next - begin, end - begin);
  }
}

void WholeRows::copy(RowRequest*, std::span<const int64_t> ids, std::byte* out, const GatherOptions& options,
                     GatherStats* stats, Progress* progress) {
  check_row_ids(*file_, matrix_, ids);
  const auto start = Clock::now();
  const uint64_t bytes = ids.size() * gathered_row_bytes(matrix_, options);
  const RowCopier copier(matrix_, gathered_dtype(matrix_, options), is_streamed(bytes));
  for (size_t at = 0; at < ids.size(); at += kGrain) {
    const auto some = ids.subspan(at, std::min(kGrain, ids.size() - at));
    copier.gather(rows_.data(), some, out, at);
    if (progress != nullptr) progress->report("gather", at, ids.size());
  }
  finish_streaming();
  if (stats == nullptr) return;
  GatherStats done;
  done.rows = done.rows_cached = ids.size();
  done.bytes_useful = ids.size() * matrix_.row_bytes;
  done.copy_seconds = seconds_since(start);
  stats->add(done);
}

void FileRows::copy(RowRequest*, std::span<const int64_t> ids, std::byte* out, const GatherOptions& options,
                    GatherStats* stats, Progress* progress) {
  GatherOptions how = options;
  how.past_page_cache = past_page_cache_ && options.io == Io::kAuto;
  gather(*file_, matrix_, ids, out, how, stats, progress);
}

}  // namespace gz
