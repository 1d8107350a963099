// text_chunks: a text file cut into chunks of whole lines, and the account of lines that makes errors exact.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/memory.h"
#include "storage/file.h"

namespace gz {

constexpr size_t kTextPadding = 64;                    // readable bytes past the end of a chunk's text
constexpr uint64_t kLongestLine = uint64_t{64} << 20;  // more than this is no text file

// A line that could not be parsed.
struct BadLine {
  uint64_t line = 0;  // counted from 1; within its chunk until the chunk's place is known
  std::string message;
};

// What became of one chunk.
struct ChunkLines {
  static constexpr size_t kExamples = 8;
  uint64_t lines = 0;        // lines that start in it
  uint64_t skipped = 0;      // bad ones
  std::vector<BadLine> bad;  // the first few
  void add(uint64_t line, std::string message) {
    ++skipped;
    if (bad.size() < kExamples) bad.push_back({line, std::move(message)});
  }
};

// Adds up chunks, in order, over a whole file.
class LineAccount {
 public:
  LineAccount(std::string name, uint64_t lines_before, bool skip)
      : name_(std::move(name)), lines_(lines_before), skip_(skip) {}
  // Throws InputError for the first bad line, unless they are to be skipped.
  void add(const ChunkLines& chunk);
  const std::string& name() const { return name_; }
  uint64_t lines() const { return lines_; }
  uint64_t skipped() const { return skipped_; }
  const std::vector<std::string>& examples() const { return examples_; }

 private:
  std::string name_;
  uint64_t lines_;
  bool skip_;
  uint64_t skipped_ = 0;
  std::vector<std::string> examples_;
};

// Reads the lines that start in bytes [begin, end) of a file. One a worker.
class ChunkReader {
 public:
  // `from` is where the text of the file starts: a line starts there whatever stands before.
  std::string_view read(const File& file, uint64_t from, uint64_t begin, uint64_t end);

 private:
  void read_to(const File& file, uint64_t begin, size_t bytes);
  Buffer buffer_;
  size_t filled_ = 0;
  bool at_end_ = false;
};

// Text that comes in blocks (a decompressed stream): whole lines, and the rest kept for the next block.
class LineCarry {
 public:
  // The whole lines of what is kept and `block`; valid until the next call. `last`: the rest is a line too.
  std::string_view push(std::string_view block, bool last);

 private:
  std::vector<char> text_;
  size_t whole_ = 0;  // handed out by the last call
};

// Cuts text into parts of about `bytes` that end with a line.
std::vector<std::string_view> cut_lines(std::string_view text, size_t bytes);

// A field for a message: quoted, and cut when it is long.
std::string shown(std::string_view field);

}  // namespace gz
