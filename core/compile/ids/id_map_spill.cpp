// id_map_spill: chunks of a buffer's size, in the order they filled up.
#include "compile/ids/id_map_spill.h"

#include <algorithm>
#include <cstring>

#include "base/checked.h"

namespace gz {

SpillStreams::SpillStreams(std::string folder, size_t streams, size_t buffer_bytes)
    : folder_(std::move(folder)),
      buffer_bytes_(round_up(buffer_bytes, 4096)),
      streams_(streams) {}  // Buffers come in whole pages

void SpillStreams::append(size_t index, const void* data, size_t bytes) {
  Stream& stream = streams_[index];
  stream.bytes += bytes;
  const auto* from = static_cast<const std::byte*>(data);
  while (bytes > 0) {
    if (stream.filled == stream.buffer.size()) {
      if (stream.filled == buffer_bytes_) {
        flush(stream);
      } else {  // short streams use little memory: there may be hundreds
        Buffer larger(std::min(std::max<size_t>(4096, 2 * stream.buffer.size()), buffer_bytes_), Purpose::kCompile);
        if (stream.filled > 0) std::memcpy(larger.data(), stream.buffer.data(), stream.filled);
        stream.buffer = std::move(larger);
      }
    }
    const size_t part = std::min(bytes, stream.buffer.size() - stream.filled);
    std::memcpy(stream.buffer.data() + stream.filled, from, part);
    stream.filled += part;
    from += part;
    bytes -= part;
  }
}

void SpillStreams::flush(Stream& stream) {
  if (!file_) file_ = File::create_nameless(folder_);
  file_.write_at({stream.buffer.data(), stream.filled}, end_);
  stream.chunks.push_back({end_, stream.filled});
  end_ += stream.filled;
  stream.filled = 0;
}

SpillStreams::Reader::Reader(const SpillStreams& from, size_t stream, size_t buffer_bytes)
    : from_(&from), stream_(stream) {
  if (!from.streams_[stream].chunks.empty()) buffer_ = Buffer(buffer_bytes, Purpose::kCompile);
}

bool SpillStreams::Reader::fill() {
  const Stream& stream = from_->streams_[stream_];
  if (chunk_ < stream.chunks.size()) {
    const Chunk& chunk = stream.chunks[chunk_];
    const auto part = static_cast<size_t>(std::min<uint64_t>(buffer_.size(), chunk.bytes - in_chunk_));
    from_->file_.read_at({buffer_.data(), part}, chunk.offset + in_chunk_);
    in_chunk_ += part;
    if (in_chunk_ == chunk.bytes) ++chunk_, in_chunk_ = 0;
    at_ = buffer_.data();
    left_ = part;
    return true;
  }
  if (in_ram_ || stream.filled == 0) return false;
  in_ram_ = true;
  at_ = stream.buffer.data();
  left_ = stream.filled;
  return true;
}

bool SpillStreams::Reader::read(void* to, size_t bytes) {
  auto* out = static_cast<std::byte*>(to);
  while (bytes > 0) {
    if (left_ == 0 && !fill()) return false;
    const size_t part = std::min(bytes, left_);
    std::memcpy(out, at_, part);
    out += part;
    at_ += part;
    left_ -= part;
    bytes -= part;
  }
  return true;
}

}  // namespace gz
