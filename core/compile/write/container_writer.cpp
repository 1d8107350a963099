// container_writer: large files bypass the page cache. Dirty pages of all processes share one limit, and a writer that
// reaches it is throttled: direct writes were ten times as fast (benchmarks/compile.py).
#include "compile/write/container_writer.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/checked.h"
#include "base/error.h"

namespace gz {
namespace {

constexpr int kMostTries = 100;
constexpr uint64_t kDirect = uint64_t{32} << 20;  // smaller files go through the cache and stay there
constexpr size_t kMove = size_t{4} << 20;
constexpr size_t kLeastMove = size_t{64} << 10;
constexpr size_t kCopy = size_t{4} << 20;
constexpr size_t kReread = size_t{32} << 20;

bool is_there(const std::string& path) {
  try {
    File::open(path);
    return true;
  } catch (const StorageError&) {
    return false;
  }
}

// Another writer of the target may find the file between its creation and its locking, and treat it as abandoned: then
// that writer holds the lock briefly, or the file is gone. Once the file is locked and still exists, no writer removes
// it.
File make_temporary(const std::string& target) {
  for (int tries = 1;; ++tries) {
    const std::string name = temporary_name(target);
    File file = File::create(name);
    if (file.try_lock() && is_there(name)) return file;
    remove_if_exists(name);
    if (tries == kMostTries) fail_storage(name, "cannot lock", EAGAIN);
  }
}

}  // namespace

ContainerWriter::ContainerWriter(std::string target, Container container, size_t staging_bytes, bool reserve)
    : target_(std::move(target)),
      container_(std::move(container)),
      staging_bytes_(std::max<size_t>(round_up(staging_bytes, kPageBytes), kPageBytes)) {
  lay_out(container_);
  check_schema(container_, target_);
  for (size_t i = 0; i < container_.arrays.size(); ++i) streams_.emplace_back();
  remove_abandoned_temporaries(target_);
  if (reserve) check_room(container_.file_bytes);
  file_ = make_temporary(target_);
  temporary_ = file_.path();
  try {
    reserve ? file_.reserve(container_.file_bytes) : file_.resize(container_.file_bytes);
    if (container_.file_bytes >= kDirect) bulk_ = file_.direct();
  } catch (...) {
    remove_if_exists(temporary_);
    throw;
  }
}

ContainerWriter::~ContainerWriter() {
  streams_.clear();  // waits for what is being written
  if (!finished_) remove_if_exists(temporary_);
}

void ContainerWriter::check_room(uint64_t bytes) const {
  const std::string folder = folder_of(target_);
  const uint64_t room = free_bytes(folder);
  if (bytes > room) {
    const uint64_t nodes = container_.num_nodes, edges = container_.num_edges;
    const bool topology = container_.kind == Kind::kTopology;
    const bool sparse = topology && nodes / 16 > edges;  // one row per id up to the largest
    throw StorageError(text(target_, ": the file needs ", container_.file_bytes, " bytes (", nodes, " nodes",
                            topology ? text(", ", edges, " edges") : "", "), but ", folder, " has only ", room, " free",
                            sparse ? "; most ids have no edge, ids='map' numbers only those in use" : ""),
                       ENOSPC, target_);
  }
}

size_t ContainerWriter::index_of(std::string_view name) const {
  for (size_t i = 0; i < container_.arrays.size(); ++i) {
    if (container_.arrays[i].name == name) return i;
  }
  fail<ArgumentError>(target_, ": no array '", name, "' was declared");
}

void ContainerWriter::append(size_t index, std::span<const std::byte> bytes) {
  write(index, streams_.at(index).appended, bytes);
}

const ArrayInfo& ContainerWriter::check_bounds(size_t index, uint64_t at, size_t bytes) const {
  const ArrayInfo& array = container_.arrays.at(index);
  if (at > array.bytes || bytes > array.bytes - at) {
    fail<ArgumentError>(target_, ": ", bytes, " bytes at byte ", at, " of array '", array.name,
                        "' are past its end at ", array.bytes);
  }
  return array;
}

void ContainerWriter::write_scattered(size_t index, uint64_t at, std::span<const std::byte> bytes) {
  const ArrayInfo& array = check_bounds(index, at, bytes.size());
  file_.write_at(bytes, array.offset + at);
  streams_[index].scattered = true;
}

void ContainerWriter::set_digest(size_t index, uint64_t digest) {
  Stream& stream = streams_.at(index);
  stream.scattered = true;
  stream.given = digest;
}

void ContainerWriter::write(size_t index, uint64_t at, std::span<const std::byte> bytes) {
  Stream& stream = streams_.at(index);
  if (stream.scattered || at != stream.appended) {
    if (!stream.scattered) flush(stream, container_.arrays[index]);
    write_scattered(index, at, bytes);
    return;
  }
  const ArrayInfo& array = check_bounds(index, at, bytes.size());
  stream.digest.add(bytes);
  if (!stream.staging) {
    stream.staging = Buffer(staging_bytes_, Purpose::kCompile);
    stream.writing = Buffer(staging_bytes_, Purpose::kCompile);
  }
  while (!bytes.empty()) {
    const uint64_t staged = stream.appended - stream.flushed;
    const bool aligned = reinterpret_cast<uintptr_t>(bytes.data()) % kPageBytes == 0;
    if (staged == 0 && aligned && bytes.size() >= staging_bytes_) {  // no staging needed
      const auto whole = bytes.first(bytes.size() & ~(kPageBytes - 1));
      bulk().write_at(whole, array.offset + stream.flushed);
      stream.appended = stream.flushed += whole.size();
      bytes = bytes.subspan(whole.size());
      continue;
    }
    const size_t part = std::min<size_t>(bytes.size(), staging_bytes_ - staged);
    std::memcpy(stream.staging.data() + staged, bytes.data(), part);
    stream.appended += part;
    bytes = bytes.subspan(part);
    if (staged + part == staging_bytes_) flush(stream, array, false);
  }
}

// Writes the staged bytes, with zeros up to the page boundary: at the end of the array, that is its padding.
// Without `wait`, another thread writes them while the next are staged.
void ContainerWriter::flush(Stream& stream, const ArrayInfo& array, bool wait) {
  stream.written.wait();
  const size_t staged = static_cast<size_t>(stream.appended - stream.flushed);
  const size_t whole = round_up(staged, kPageBytes);
  if (staged == 0) return;
  std::memset(stream.staging.data() + staged, 0, whole - staged);
  std::swap(stream.staging, stream.writing);
  const uint64_t at = array.offset + stream.flushed;
  stream.flushed = stream.appended;
  if (wait) {
    bulk().write_at({stream.writing.data(), whole}, at);
    return;
  }
  stream.written = BackgroundTask([this, &stream, whole, at] { bulk().write_at({stream.writing.data(), whole}, at); });
}

void ContainerWriter::append_file(size_t index, const File& from, uint64_t offset, uint64_t bytes, Progress* progress) {
  std::array<Buffer, 2> buffers{Buffer(kCopy, Purpose::kCompile), Buffer(kCopy, Purpose::kCompile)};
  const auto read = [&](uint64_t at, const Buffer& into) {
    const auto part = into.span_of<std::byte>().first(std::min<uint64_t>(kCopy, bytes - at));
    from.read_at(part, offset + at);
    return part;
  };
  std::span<std::byte> part = bytes > 0 ? read(0, buffers[0]) : std::span<std::byte>(), next;
  BackgroundTask reading;
  for (uint64_t at = 0; at < bytes; at += kCopy, part = next) {
    if (at + kCopy < bytes) {
      reading = BackgroundTask([&, at] { next = read(at + kCopy, buffers[(at / kCopy + 1) % 2]); });
    }
    append(index, part);
    if (progress != nullptr) progress->report("copying", at + part.size(), bytes);
    reading.wait();
  }
}

void ContainerWriter::grow_last(uint64_t rows) {
  const uint64_t before = container_.file_bytes;
  container_.arrays.back().shape[0] = rows;
  container_.num_nodes = rows;
  lay_out(container_);
  check_schema(container_, target_);
  check_room(container_.file_bytes - std::min(before, container_.file_bytes));
  file_.reserve(container_.file_bytes);
  if (!bulk_ && container_.file_bytes >= kDirect) bulk_ = file_.direct();
}

void ContainerWriter::move(uint64_t from, uint64_t to, uint64_t bytes) {
  const size_t step = std::clamp(4 * staging_bytes_, kLeastMove, kMove);  // the budget that staging is a share of
  Buffer buffer(std::min<uint64_t>(step, std::max<uint64_t>(bytes, 1)), Purpose::kCompile);
  for (uint64_t done = 0; done < bytes;) {
    const auto part = buffer.span_of<std::byte>().first(std::min<uint64_t>(step, bytes - done));
    file_.read_at(part, from + done);
    file_.write_at(part, to + done);  // `to` is before `from`: overwritten bytes were already read
    done += part.size();
  }
}

void ContainerWriter::shrink(std::span<const Rows> arrays, uint64_t num_nodes, uint64_t num_edges) {
  const std::vector<ArrayInfo> before = container_.arrays;
  for (size_t i = 0; i < before.size(); ++i) flush(streams_[i], before[i]);
  for (const Rows& change : arrays) {
    ArrayInfo& array = container_.arrays.at(change.index);
    const uint64_t bytes = change.rows * array.row_bytes();
    const uint64_t appended = streams_[change.index].appended;
    if (change.rows > array.rows() || (appended != 0 && appended != bytes)) {
      fail<ArgumentError>(target_, ": array '", array.name, "' cannot shrink to ", change.rows, " rows");
    }
    array.shape[0] = change.rows;
  }
  container_.num_nodes = num_nodes;
  container_.num_edges = num_edges;
  lay_out(container_);
  check_schema(container_, target_);
  for (size_t i = 0; i < before.size(); ++i) {
    const ArrayInfo& now = container_.arrays[i];
    const uint64_t used = streams_[i].scattered ? now.bytes : streams_[i].appended;
    if (used > 0 && now.offset != before[i].offset) move(before[i].offset, now.offset, used);
  }
  file_.resize(container_.file_bytes);
}

uint64_t ContainerWriter::digest_of(const ArrayInfo& array, int threads, Progress* progress) const {
  Buffer buffer(std::min<uint64_t>(kReread, std::max<uint64_t>(array.bytes, 1)), Purpose::kCompile);
  Digest sum;
  for (uint64_t at = 0; at < array.bytes; at += kReread) {
    const auto part = buffer.span_of<std::byte>().first(std::min<uint64_t>(kReread, array.bytes - at));
    file_.read_at(part, array.offset + at);
    sum.add_blocks(part, threads);
    if (progress != nullptr) progress->report("checksums", at + part.size(), array.bytes);
  }
  return sum.value();
}

uint64_t ContainerWriter::finish(int threads, Progress* progress) {
  for (size_t i = 0; i < streams_.size(); ++i) {
    ArrayInfo& array = container_.arrays[i];
    Stream& stream = streams_[i];
    if (!stream.scattered && stream.appended != array.bytes) {
      fail<ArgumentError>(target_, ": array '", array.name, "' has ", stream.appended, " of ", array.bytes, " bytes");
    }
    flush(stream, array);
    stream.staging = Buffer();
    stream.writing = Buffer();
    array.digest = stream.given       ? *stream.given
                   : stream.scattered ? digest_of(array, threads, progress)
                                      : stream.digest.finish();
    // The padding, which must be zero (FORMAT 2), may contain bytes from before shrink().
    const std::vector<std::byte> zeros(round_up(array.bytes, kPageBytes) - array.bytes);
    file_.write_at(zeros, array.offset + array.bytes);
  }
  file_.write_at(serialize_header(container_), 0);
  if (progress != nullptr) progress->report("publishing", 0, container_.file_bytes);
  file_.sync();
  publish(temporary_, target_);
  finished_ = true;
  return container_.file_bytes;
}

}  // namespace gz
