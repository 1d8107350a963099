// number_text: lines of numbers without ids -> rows, one line after another.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "compile/text/text_chunks.h"

namespace gz {

struct NumberTextOptions {
  std::string name;      // for messages
  char delimiter = ',';  // ' ': any run of spaces and tabs
  size_t columns = 1;
  uint64_t lines_before = 0;      // of the file, before the first fed byte
  bool blank_is_missing = false;  // a line without fields is a row of one missing value
  int threads = 1;
};

// T: double, float or int64_t. An empty field is NaN, and an error for integers.
template <class T>
class NumberText {
 public:
  explicit NumberText(NumberTextOptions options)
      : options_(std::move(options)), account_(options_.name, options_.lines_before, false) {}
  // The numbers of all complete lines so far; `last`: the remainder is a line too. Throws InputError for a bad line.
  std::vector<T> feed(std::string_view block, bool last);

 private:
  void parse(std::string_view text, std::vector<T>& out, ChunkLines& lines) const;
  NumberTextOptions options_;
  LineCarry carry_;
  LineAccount account_;
};

}  // namespace gz
