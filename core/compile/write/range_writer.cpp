// range_writer: staged pages bypass the page cache while the next are filled, as for a whole container.
#include "compile/write/range_writer.h"

#include <algorithm>
#include <cstring>

#include "base/checked.h"
#include "base/error.h"
#include "format/container.h"

namespace gz {
namespace {

uint64_t first_page(const RangeWriter::Range& range) {
  return std::min<uint64_t>(round_up(range.begin, kPageBytes), range.end);
}

}  // namespace

uint64_t digest_of(std::span<const BlockSum> sums) {
  Digest digest;
  BlockSum open{};
  for (const BlockSum& sum : sums) {
    open.crc = open.bytes == 0 ? sum.crc : crc32c_combine(open.crc, sum.crc, sum.bytes);
    open.bytes += sum.bytes;
    if (open.bytes < kBlockBytes) continue;
    if (open.bytes > kBlockBytes)
      fail<ArgumentError>("checksums of blocks overlap: a block has ", open.bytes, " bytes");
    digest.add(open.crc);
    open = {};
  }
  if (open.bytes > 0) digest.add(open.crc);
  return digest.value();
}

RangeWriter::RangeWriter(const std::string& path, std::vector<Range> ranges, size_t staging_bytes)
    : file_(File::edit(path)),
      bulk_(file_.direct()),
      staging_bytes_(std::max<size_t>(round_up(staging_bytes, kPageBytes), kPageBytes)) {
  for (Range& range : ranges) {
    if (range.begin > range.end || range.offset % kPageBytes != 0) {
      fail<ArgumentError>(path, ": invalid range of bytes ", range.begin, " to ", range.end, " of '", range.name, "'");
    }
    Stream& stream = streams_.emplace_back();
    stream.at = range.begin;
    stream.flushed = first_page(range);
    stream.range = std::move(range);
  }
}

size_t RangeWriter::index_of(std::string_view name) const {
  for (size_t i = 0; i < streams_.size(); ++i) {
    if (streams_[i].range.name == name) return i;
  }
  fail<ArgumentError>(file_.path(), ": no range of array '", name, "' was declared");
}

void RangeWriter::append(size_t index, std::span<const std::byte> bytes) {
  Stream& stream = streams_.at(index);
  const Range& range = stream.range;
  if (bytes.size() > range.end - stream.at) {
    fail<ArgumentError>(file_.path(), ": ", bytes.size(), " bytes at byte ", stream.at, " of '", range.name,
                        "' are past the range's end at ", range.end);
  }
  sum_blocks(bytes, stream.at, stream.open, [&](const BlockSum& block) { stream.sums.push_back(block); });
  const uint64_t body = first_page(range);
  if (stream.at < body && !bytes.empty()) {
    const size_t take = std::min<uint64_t>(bytes.size(), body - stream.at);
    stream.head.insert(stream.head.end(), bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(take));
    stream.at += take;
    bytes = bytes.subspan(take);
  }
  if (!stream.staging && !bytes.empty()) {
    const size_t most = std::min<uint64_t>(staging_bytes_, round_up(range.end - body, kPageBytes));
    stream.staging = Buffer(most, Purpose::kCompile);
    stream.writing = Buffer(most, Purpose::kCompile);
  }
  while (!bytes.empty()) {
    const auto staged = static_cast<size_t>(stream.at - stream.flushed);
    const size_t part = std::min<size_t>(bytes.size(), stream.staging.size() - staged);
    std::memcpy(stream.staging.data() + staged, bytes.data(), part);
    stream.at += part;
    bytes = bytes.subspan(part);
    if (staged + part == stream.staging.size()) flush(stream, staged + part);
  }
}

// Writes the first `bytes` staged bytes, whole pages, on another thread.
void RangeWriter::flush(Stream& stream, size_t bytes) {
  stream.written.wait();
  if (bytes == 0) return;
  std::swap(stream.staging, stream.writing);
  const uint64_t at = stream.range.offset + stream.flushed;
  stream.flushed += bytes;
  stream.written = BackgroundTask([this, &stream, bytes, at] { bulk_.write_at({stream.writing.data(), bytes}, at); });
}

std::vector<RangeWriter::Written> RangeWriter::finish() {
  std::vector<Written> all;
  for (Stream& stream : streams_) {
    const Range& range = stream.range;
    if (stream.at != range.end) {
      fail<ArgumentError>(file_.path(), ": '", range.name, "' has bytes up to ", stream.at, ", expected ", range.end);
    }
    Written& written = all.emplace_back();
    if (!stream.head.empty()) written.fragments.push_back({range.begin, std::move(stream.head)});
    const uint64_t staged = stream.staging ? stream.at - stream.flushed : 0;
    const uint64_t whole = staged & ~(kPageBytes - 1);
    if (staged > whole) {
      const std::byte* from = stream.staging.data() + whole;
      written.fragments.push_back({stream.flushed + whole, {from, from + (staged - whole)}});
    }
    flush(stream, whole);
    if (stream.open.bytes > 0) stream.sums.push_back(stream.open);
    written.sums = std::move(stream.sums);
  }
  for (Stream& stream : streams_) {
    stream.written.wait();
    stream.staging = Buffer();
    stream.writing = Buffer();
  }
  file_.sync();
  return all;
}

}  // namespace gz
