// row_text: lines of "id,f1,f2,..." -> rows of a feature array, each at its id.
//
// Two passes: the first learns the largest id, the second parses the values and writes every row where it belongs. Ids
// without a line are rows of zeros. An id with two lines is reported; which of them was written is undefined.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/memory.h"
#include "base/progress.h"
#include "compile/text/text_chunks.h"
#include "compile/write/container_writer.h"

namespace gz {

struct RowTextOptions {
  std::string name;      // for messages
  char delimiter = ',';  // ' ': any run of spaces and tabs
  uint64_t begin = 0;    // as in EdgeTextOptions
  uint64_t lines_before = 0;
  uint64_t columns = 1;  // values per line, not counting the id
  uint64_t id_base = 0;
  uint64_t id_limit = uint64_t{1} << 62;
  std::optional<uint64_t> find;  // in the first pass: report the lines of this id as bad lines
  bool skip_errors = false;
  int threads = 1;
  size_t chunk_bytes = size_t{1} << 20;
};

struct RowTextReport {
  uint64_t lines = 0, skipped = 0;
  uint64_t rows = 0;                  // written
  uint64_t num_nodes = 0;             // the largest id + 1
  std::optional<uint64_t> duplicate;  // the smallest id with two rows, as in the text
  std::vector<std::string> examples;
};

// One pass over a text. Without a writer it only finds the ids; with one it writes rows of `dtype` to array `index`.
class RowText {
 public:
  explicit RowText(RowTextOptions options, Progress* progress = nullptr);
  RowText(RowTextOptions options, ContainerWriter& writer, size_t index, Progress* progress = nullptr);
  ~RowText();

  void read_file(const std::string& path);  // either the whole file,
  void feed(std::string_view block);        // or blocks of it
  RowTextReport finish();                   // throws InputError for the first bad line

 private:
  struct Worker;
  void parse(std::string_view text, ChunkLines& lines, Worker& worker);
  std::string parse_line(std::string_view line, Worker& worker);
  std::string parse_value(std::string_view field, std::byte* to) const;
  void write_rows(Worker& worker);
  void take(size_t chunks, const std::function<std::string_view(size_t, ChunkReader&)>& text_of, uint64_t units);

  RowTextOptions options_;
  Progress* progress_;
  ContainerWriter* writer_ = nullptr;
  size_t index_ = 0;
  DType dtype_ = DType::kFloat32;
  size_t row_bytes_ = 0;
  std::unique_ptr<std::atomic<uint64_t>[]> seen_;  // one bit per row
  std::atomic<uint64_t> duplicate_{UINT64_MAX};
  std::vector<std::unique_ptr<Worker>> workers_;
  LineCarry carry_;
  LineAccount account_;
  uint64_t to_skip_ = 0, units_done_ = 0, units_total_ = 0;
};

}  // namespace gz
