// number_text: chunks of lines in parallel, concatenated in the order of the text.
#include "compile/text/number_text.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "base/error.h"
#include "base/threads.h"
#include "compile/text/fields.h"
#include "compile/text/parse_real.h"

namespace gz {
namespace {

constexpr size_t kChunk = size_t{256} << 10;

template <class T>
std::string parse_number(std::string_view field, T& value) {
  constexpr bool kReal = std::is_floating_point_v<T>;
  if (kReal && (field.empty() || field == "NA" || field == "null")) {
    value = std::numeric_limits<T>::quiet_NaN();
    return {};
  }
  if (parse_whole(field, value)) return {};
  return text("found ", shown(field), kReal ? ", expected a number" : ", expected a 64-bit integer");
}

}  // namespace

template <class T>
void NumberText<T>::parse(std::string_view text, std::vector<T>& out, ChunkLines& lines) const {
  std::deque<std::string> unescaped;
  Fields fields({options_.delimiter}, unescaped);
  for_each_line(text, false, lines, [&](std::string_view line) {
    std::string fault;
    T value{};
    if (fields.start(line)) {
      std::string_view field;
      size_t taken = 0;
      for (; taken < options_.columns && fault.empty() && fields.next(field); ++taken) {
        fault = parse_number(trimmed(field), value);
        out.push_back(value);
      }
      if (fault.empty()) fault = fields.end(taken, options_.columns);
      if (!unescaped.empty()) unescaped.clear();
    } else if (options_.blank_is_missing && trimmed(line.substr(0, line.find('\r'))).empty()) {
      fault = parse_number(std::string_view(), value);
      out.push_back(value);
    }
    return fault;
  });
}

template <class T>
std::vector<T> NumberText<T>::feed(std::string_view block, bool last) {
  const auto parts = cut_lines(carry_.push(block, last), kChunk);
  std::vector<std::vector<T>> values(parts.size());
  std::vector<ChunkLines> lines(parts.size());
  parallel_for(parts.size(), 1, options_.threads, [&](size_t first, size_t end, int) {
    for (size_t p = first; p < end; ++p) parse(parts[p], values[p], lines[p]);
  });
  for (const ChunkLines& chunk : lines) account_.add(chunk);
  size_t count = 0;
  for (const auto& part : values) count += part.size();
  std::vector<T> all;
  all.reserve(count);
  for (const auto& part : values) all.insert(all.end(), part.begin(), part.end());
  return all;
}

template class NumberText<double>;
template class NumberText<float>;
template class NumberText<int64_t>;

}  // namespace gz
