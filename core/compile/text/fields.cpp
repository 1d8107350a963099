// fields: the rare cases: quotes, and counting fields that are not read.
#include "compile/text/fields.h"

#include <algorithm>

#include "base/error.h"
#include "compile/text/text_chunks.h"

namespace gz {

bool Fields::quoted(size_t at, std::string_view& field) {
  size_t close = at + 1;
  bool doubled = false;
  for (;; close += 2) {
    close = remaining_.find('"', close);
    if (close == std::string_view::npos) {
      more_ = false;
      fault_ = text("a quoted field does not end on its line, in ", shown(line_),
                    "; line breaks inside quotes are not supported");
      return false;
    }
    if (close + 1 == remaining_.size() || remaining_[close + 1] != '"') break;
    doubled = true;
  }
  field = remaining_.substr(at + 1, close - at - 1);
  if (doubled) {
    std::string& plain = unescaped_.emplace_back();
    for (size_t i = 0; i < field.size(); ++i) {
      plain += field[i];
      if (field[i] == '"') ++i;
    }
    field = plain;
  }
  size_t end = close + 1;
  while (end < remaining_.size() && !separates(remaining_[end])) {
    if (!is_blank(remaining_[end])) {
      more_ = false;
      fault_ = text("found text after a closing quote, in ", shown(line_), "; a quote inside quotes is written twice");
      return false;
    }
    ++end;
  }
  advance(end);
  return true;
}

std::string Fields::count(size_t taken, size_t width) {
  size_t found = taken;
  std::string_view last = "?";
  if (more_ && rules_.delimiter != ' ' && std::memchr(remaining_.data(), '"', remaining_.size()) == nullptr) {
    found += 1 + static_cast<size_t>(std::count(remaining_.begin(), remaining_.end(), rules_.delimiter));
    if (found == width) return {};
    last = trimmed(remaining_.substr(remaining_.rfind(rules_.delimiter) + 1));
    more_ = false;
  }
  while (next(last)) ++found;
  if (!fault_.empty()) return fault_;
  if (found == width || (found == width + 1 && last.empty())) return {};
  return text("found ", found, found == 1 ? " column" : " columns", ", expected ", width, " separated by ",
              rules_.delimiter == ' ' ? "blanks" : shown({&rules_.delimiter, 1}), " in ", shown(line_));
}

std::vector<std::string> split_fields(std::string_view line, FieldRules rules) {
  std::deque<std::string> unescaped;
  Fields fields(rules, unescaped);
  std::vector<std::string> found;
  std::string_view field;
  fields.start(line);
  while (fields.next(field)) found.emplace_back(field);
  if (!fields.fault().empty()) throw InputError(fields.fault());
  return found;
}

}  // namespace gz
