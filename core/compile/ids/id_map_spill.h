// id_map_spill: many byte streams that are appended to concurrently and read back later, in RAM while they are short
// and in one unnamed file beyond that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/memory.h"
#include "storage/file.h"

namespace gz {

class SpillStreams {
 public:
  // Each stream holds up to `buffer_bytes` in RAM.
  SpillStreams(std::string folder, size_t streams, size_t buffer_bytes);

  void append(size_t stream, const void* data, size_t bytes);
  template <class T>
  void append_value(size_t stream, const T& value) {
    append(stream, &value, sizeof value);
  }
  size_t size() const { return streams_.size(); }
  uint64_t bytes(size_t stream) const { return streams_[stream].bytes; }
  uint64_t spilled_bytes() const { return end_; }

  // Reads one stream from its start. Nothing may be appended meanwhile.
  class Reader {
   public:
    Reader(const SpillStreams& from, size_t stream, size_t buffer_bytes = size_t{64} << 10);
    // Exactly `bytes` bytes; false at the end. A record that is cut short is the caller's fault.
    bool read(void* to, size_t bytes);
    template <class T>
    bool read_value(T& value) {
      return read(&value, sizeof value);
    }

   private:
    bool fill();
    const SpillStreams* from_;
    size_t stream_;
    size_t chunk_ = 0;       // the next one to read
    uint64_t in_chunk_ = 0;  // bytes of it that were read
    bool in_ram_ = false;    // the remainder is read from RAM
    Buffer buffer_;
    const std::byte* at_ = nullptr;
    size_t left_ = 0;
  };

 private:
  struct Chunk {
    uint64_t offset, bytes;
  };
  struct Stream {
    Buffer buffer;
    size_t filled = 0;
    uint64_t bytes = 0;
    std::vector<Chunk> chunks;
  };
  void flush(Stream& stream);

  std::string folder_;
  size_t buffer_bytes_;
  std::vector<Stream> streams_;
  File file_;
  uint64_t end_ = 0;
};

}  // namespace gz
