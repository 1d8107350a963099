// page_reads: short reads, retries and failures.
#include "storage/page_reads.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/clock.h"
#include "base/error.h"

namespace gz {
namespace {

constexpr int kMostTries = 100;  // of a read that the kernel asks to retry

// Reads that are delivered before others are started in their place. If everything that has completed were delivered
// first, a disk that is faster than the caller would wait for the caller each time.
constexpr size_t kMostDelivered = 16;

}  // namespace

PageReads::PageReads(const MountedFile& file, const File& source, std::shared_ptr<Reader> reader, Name name,
                     std::shared_ptr<ReadBuffers> buffers)
    : file_(file),
      source_(&source),
      reader_(std::move(reader)),
      name_(std::move(name)),
      buffers_(buffers ? std::move(buffers) : std::make_shared<FixedBuffers>(reader_->arena(), reader_->depth())),
      pending_(buffers_->count()),
      results_(std::min(reader_->depth(), kMostDelivered)) {}

PageReads::~PageReads() {
  try {
    while (reader_->in_flight() > 0) reader_->wait(results_);
  } catch (const Error&) {
    // The ring itself is broken: the pool does not take back a reader with reads in flight.
  }
}

bool PageReads::start(const Read& read) {
  const auto taken = buffers_->take(read.bytes);
  if (!taken) return false;
  pending_[taken->index] = {read, taken->data};
  queue(taken->index, *source_);
  return true;
}

void PageReads::queue(uint32_t buffer, const File& source) {
  Pending& p = pending_[buffer];
  p.direct = &source != &file_.file();
  uint32_t bytes = p.read.bytes - p.arrived;
  const File* from = &source;
  uint64_t offset = p.read.offset + p.arrived;
  if (file_.composed()) {  // up to the end of the extent: the rest is read like that of any short read
    const MountedFile::Place place = file_.place_of(offset);
    const File* direct = p.direct ? place.owner.direct() : nullptr;
    p.direct = direct != nullptr;
    from = p.direct ? direct : &place.owner.file();
    offset = place.offset;
    bytes = static_cast<uint32_t>(std::min<uint64_t>(bytes, place.bytes));
  }
  reader_->queue(*from, {p.to + p.arrived, bytes, offset, buffer});
  ++reads_;
}

size_t PageReads::collect() {
  const auto asked = Clock::now();
  const size_t got = reader_->wait(results_);
  waited_ += seconds_since(asked);
  return got;
}

// Whether all bytes of the read are there now; otherwise it is in flight again.
bool PageReads::complete(const ReadResult& result) {
  if (result.result < 0) {
    retry_or_fail(result);
    return false;
  }
  Pending& pending = pending_[result.tag];
  bytes_read_ += static_cast<uint64_t>(result.result);
  const uint64_t arrived = pending.arrived + static_cast<uint64_t>(result.result);
  // The last page of a file from before page boundaries is a short one.
  const uint64_t wanted = std::min<uint64_t>(pending.read.bytes, file_.container().file_bytes - pending.read.offset);
  if (arrived >= wanted) return true;
  if (result.result == 0) fail_end(pending, arrived);
  pending.arrived = static_cast<uint32_t>(arrived);
  // The rest may begin anywhere, which direct reads cannot; at the start of an extent they can.
  queue(result.tag, file_.composed() && arrived % kPageBytes == 0 ? *source_ : file_.file());
  return false;
}

void PageReads::retry_or_fail(const ReadResult& result) {
  Pending& pending = pending_[result.tag];
  const int code = -result.result;
  const bool again = code == EAGAIN || code == EINTR;
  // Some file systems open a file for direct reads and refuse them later, all or some: the page cache serves it then.
  const bool refused = (code == EINVAL || code == EOPNOTSUPP) && pending.direct;
  if (refused) {
    file_.give_up_direct();
    source_ = &file_.file();
  }
  if ((again || refused) && ++pending.tries < kMostTries) {
    queue(result.tag, *source_);
    return;
  }
  const Read& read = pending.read;
  fail_storage(file_.path(), text("read failed at byte ", read.offset, " (", name_(read), ")"), code);
}

void PageReads::fail_end(const Pending& pending, uint64_t arrived) const {
  const MountedFile::Place place = file_.place_of(pending.read.offset + arrived);
  const std::string& path = place.owner.path();
  const uint64_t end = std::min(place.offset, place.owner.file().size());
  throw StorageError(
      text(path, ": the file ends at byte ", end, ", before the end of ", name_(pending.read), ": it was ",
           place.owner.own_bytes(), " bytes when it was opened. Restore the file and open it again"),
      EIO, path);
}

}  // namespace gz
