// text_chunks: divides a text file into chunks of whole lines, and counts lines for exact error messages.
#pragma once

#include <algorithm>
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
constexpr uint64_t kLongestLine = uint64_t{64} << 20;  // a longer line is not a text file

// A line that could not be parsed.
struct BadLine {
  uint64_t line = 0;  // numbered from 1; relative to its chunk until the chunk's first line is known
  std::string message;
};

// The result of one chunk.
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

// Calls parse(line) for each line of a chunk, without its newline; an error that it returns is added to `lines`.
// Returns false at a bad line, unless bad lines are skipped.
template <class Parse>
bool for_each_line(std::string_view text, bool skip_errors, ChunkLines& lines, const Parse& parse) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    ++lines.lines;
    std::string fault = parse(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (fault.empty()) continue;
    lines.add(lines.lines, std::move(fault));
    if (!skip_errors) return false;
  }
  return true;
}

// Sums up the chunks of a file, in order.
class LineAccount {
 public:
  LineAccount(std::string name, uint64_t lines_before, bool skip)
      : name_(std::move(name)), lines_(lines_before), skip_(skip) {}
  // Throws InputError for the first bad line, unless bad lines are skipped.
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

// Reads the lines that start in bytes [begin, end) of a file. One per worker.
class ChunkReader {
 public:
  // `from` is where the text of the file starts: a line starts there, whatever precedes it.
  std::string_view read(const File& file, uint64_t from, uint64_t begin, uint64_t end);

 private:
  void read_to(const File& file, uint64_t begin, size_t bytes);
  Buffer buffer_;
  size_t filled_ = 0;
  bool at_end_ = false;
};

// Text that arrives in blocks (a decompressed stream): whole lines; the remainder is kept for the next block.
class LineCarry {
 public:
  // The whole lines of the kept text and `block`; valid until the next call. `last`: the remainder is a line too.
  std::string_view push(std::string_view block, bool last);

 private:
  std::vector<char> text_;
  size_t whole_ = 0;  // handed out by the last call
};

// Divides text into parts of about `bytes` that end with a line.
std::vector<std::string_view> cut_lines(std::string_view text, size_t bytes);

// A field for a message: quoted, and truncated if it is long.
std::string shown(std::string_view field);

}  // namespace gz
