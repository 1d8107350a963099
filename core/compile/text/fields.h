// fields: splits a line of text into fields, for all readers of text and for detecting columns.
//
// As in RFC 4180, a field may be enclosed in double quotes: a delimiter inside them is text, and two quotes are one. A
// field ends on its line: line breaks inside quotes are rejected. Blanks around a field are not part of it; those
// inside quotes are. A line has as many fields as the first one (`width`); an additional empty field at the end is
// ignored, since some programs end every line with a delimiter.
#pragma once

#include <cstddef>
#include <cstring>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace gz {

inline bool is_blank(char c) { return c == ' ' || c == '\t'; }

inline std::string_view trimmed(std::string_view field) {
  while (!field.empty() && is_blank(field.front())) field.remove_prefix(1);
  while (!field.empty() && is_blank(field.back())) field.remove_suffix(1);
  return field;
}

struct FieldRules {
  char delimiter = ',';  // ' ': any run of spaces and tabs
  bool quotes = true;
  bool comments = true;  // a line that starts with '#' or '%' has no fields
};

// The fields of one line after another.
class Fields {
 public:
  // `unescaped` stores fields whose text differs from the line's; the caller clears it.
  Fields(FieldRules rules, std::deque<std::string>& unescaped) : rules_(rules), unescaped_(unescaped) {}

  // Starts a line, without its newline. False if it has no fields: it is blank or a comment.
  bool start(std::string_view line) {
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    line_ = trimmed(line);
    fault_.clear();
    more_ = !line_.empty() && !(rules_.comments && (line_.front() == '#' || line_.front() == '%'));
    remaining_ = rules_.delimiter == '\t' ? line : line_;  // a tab at either end of a line delimits an empty field
    return more_;
  }

  // Returns the next field. False at the end of the line, or on an error, see fault().
  bool next(std::string_view& field) {
    if (!more_) return false;
    const bool blanks = rules_.delimiter == ' ';
    size_t at = 0;
    while (at < remaining_.size() && is_blank(remaining_[at]) && (blanks || remaining_[at] != rules_.delimiter)) ++at;
    if (at < remaining_.size() && remaining_[at] == '"' && rules_.quotes) return quoted(at, field);
    size_t end = at;
    if (blanks) {
      while (end < remaining_.size() && !is_blank(remaining_[end])) ++end;
    } else if (at < remaining_.size()) {
      const void* stop = std::memchr(remaining_.data() + at, rules_.delimiter, remaining_.size() - at);
      end =
          stop != nullptr ? static_cast<size_t>(static_cast<const char*>(stop) - remaining_.data()) : remaining_.size();
    }
    field = trimmed(remaining_.substr(at, end - at));
    advance(end);
    return true;
  }

  const std::string& fault() const { return fault_; }

  // After `taken` calls of next(): empty if the line has `width` fields, otherwise the error.
  std::string end(size_t taken, size_t width) {
    if (taken == width && !more_ && fault_.empty()) [[likely]]
      return {};
    return count(taken, width);
  }

 private:
  std::string count(size_t taken, size_t width);
  bool quoted(size_t at, std::string_view& field);
  bool separates(char c) const { return c == rules_.delimiter || (rules_.delimiter == ' ' && c == '\t'); }
  void advance(size_t end) {
    more_ = end < remaining_.size();
    remaining_.remove_prefix(more_ ? end + 1 : end);
  }

  FieldRules rules_;
  std::deque<std::string>& unescaped_;
  std::string_view line_, remaining_;
  bool more_ = false;
  std::string fault_;
};

// The fields of one line; throws InputError for a quote that does not close.
std::vector<std::string> split_fields(std::string_view line, FieldRules rules);

}  // namespace gz
