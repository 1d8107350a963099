// id_map_text: chunks of lines are split and hashed in parallel, then mapped in the order of the text.
#include "compile/id_map_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/threads.h"

namespace gz {
namespace {

constexpr size_t kChunk = size_t{256} << 10;

bool is_blank(char c) { return c == ' ' || c == '\t'; }

std::string_view trimmed(std::string_view field) {
  while (!field.empty() && is_blank(field.front())) field.remove_prefix(1);
  while (!field.empty() && is_blank(field.back())) field.remove_suffix(1);
  return field;
}

class Parser {
 public:
  Parser(const KeyTextOptions& options, bool text_keys, ParsedKeys& out)
      : options_(options), text_keys_(text_keys), out_(out) {
    columns_ = static_cast<size_t>(1 + std::max({options.src, options.dst, options.weight, options.time}));
    fields_.resize(columns_);
  }

  // Empty when the line was taken or blank; otherwise what is wrong with it.
  std::string line(std::string_view line) {
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (trimmed(line).empty()) return {};
    size_t found = 0;
    std::string fault = split(line, found);
    if (!fault.empty()) return fault;
    if (found < columns_) {
      return text("found ", found, found == 1 ? " column" : " columns", ", expected ", columns_, " separated by ",
                  options_.delimiter == ' ' ? "blanks" : shown({&options_.delimiter, 1}), " in ", shown(line));
    }
    Key keys[2];
    fault = key(options_.src, keys[0]);
    if (fault.empty() && options_.dst >= 0) fault = key(options_.dst, keys[1]);
    if (!fault.empty()) return fault;
    float weight = 0;
    int64_t time = 0;
    if (options_.weight >= 0) fault = parse_weight(weight);
    if (fault.empty() && options_.time >= 0) fault = parse_time(time);
    if (!fault.empty()) return fault;
    out_.keys.push_back(keys[0]);
    if (options_.dst >= 0) out_.keys.push_back(keys[1]);
    if (options_.weight >= 0) out_.weights.push_back(weight);
    if (options_.time >= 0) out_.times.push_back(time);
    return {};
  }

 private:
  bool separates(char c) const { return c == options_.delimiter || (options_.delimiter == ' ' && c == '\t'); }

  // Fields up to the last one that is wanted.
  std::string split(std::string_view line, size_t& found) {
    const bool blanks = options_.delimiter == ' ';
    size_t at = 0;
    while (found < columns_) {
      while (at < line.size() && is_blank(line[at]) && (blanks || line[at] != options_.delimiter)) ++at;
      if (blanks && at == line.size()) break;
      size_t end = at;
      if (at < line.size() && line[at] == '"') {
        std::string fault = quoted(line, at, end, fields_[found]);
        if (!fault.empty()) return fault;
      } else {
        if (blanks) {
          while (end < line.size() && !is_blank(line[end])) ++end;
        } else {
          const void* stop = std::memchr(line.data() + at, options_.delimiter, line.size() - at);
          end = stop != nullptr ? static_cast<size_t>(static_cast<const char*>(stop) - line.data()) : line.size();
        }
        fields_[found] = trimmed(line.substr(at, end - at));
      }
      ++found;
      if (end == line.size()) break;
      at = end + 1;
    }
    return {};
  }

  // A field in quotes: `end` becomes the place of the delimiter after it. Two quotes stand for one.
  std::string quoted(std::string_view line, size_t at, size_t& end, std::string_view& field) {
    size_t close = at + 1;
    bool doubled = false;
    for (;; ++close) {
      close = line.find('"', close);
      if (close == std::string_view::npos) return text("a quoted field does not end on its line, in ", shown(line));
      if (close + 1 == line.size() || line[close + 1] != '"') break;
      doubled = true;
      ++close;
    }
    field = line.substr(at + 1, close - at - 1);
    if (doubled) {
      std::string& plain = out_.unescaped.emplace_back();
      for (size_t i = 0; i < field.size(); ++i) {
        plain += field[i];
        if (field[i] == '"') ++i;
      }
      field = plain;
    }
    end = close + 1;
    while (end < line.size() && !separates(line[end])) {
      if (!is_blank(line[end])) return text("found text after a quoted field, in ", shown(line));
      ++end;
    }
    return {};
  }

  std::string key(int column, Key& key) const {
    const std::string_view field = fields_[static_cast<size_t>(column)];
    if (field.empty()) return text("column ", column, " is empty, expected a node id");
    if (text_keys_) {
      key = {hash_key(field), field.data(), field.size()};
      return {};
    }
    int64_t value = 0;
    const auto [stop, error] = std::from_chars(field.data(), field.data() + field.size(), value);
    if (stop != field.data() + field.size() || error != std::errc()) {
      return text("found ", shown(field),
                  ", expected an integer of 64 bits, as in the first lines; ids='text' takes any id");
    }
    key = {hash_key(value), nullptr, static_cast<uint64_t>(value)};
    return {};
  }

  std::string parse_weight(float& weight) const {
    const std::string_view field = fields_[static_cast<size_t>(options_.weight)];
    double value = 0;
    const char* end = field.data() + field.size();
    const auto [stop, error] = std::from_chars(field.data(), end, value);
    weight = static_cast<float>(value);
    if (stop == end && error == std::errc() && value >= 0 && std::isfinite(weight)) return {};
    return text("found ", shown(field), ", expected a weight: a finite number, 0 or more");
  }

  std::string parse_time(int64_t& time) const {
    const std::string_view field = fields_[static_cast<size_t>(options_.time)];
    const char* end = field.data() + field.size();
    const auto [stop, error] = std::from_chars(field.data(), end, time);
    if (stop == end && error == std::errc() && time != INT64_MAX) return {};
    return text("found ", shown(field), ", expected a time: an integer of 64 bits");
  }

  const KeyTextOptions& options_;
  const bool text_keys_;
  ParsedKeys& out_;
  size_t columns_ = 2;
  std::vector<std::string_view> fields_;
};

}  // namespace

bool parse_keys(std::string_view text, const KeyTextOptions& options, bool text_keys, ParsedKeys& out) {
  Parser parser(options, text_keys, out);
  const char *at = text.data(), *end = at + text.size();
  while (at < end) {
    const void* newline = std::memchr(at, '\n', static_cast<size_t>(end - at));
    const char* stop = newline != nullptr ? static_cast<const char*>(newline) : end;
    ++out.lines.lines;
    std::string fault = parser.line({at, static_cast<size_t>(stop - at)});
    if (!fault.empty()) {
      out.lines.add(out.lines.lines, std::move(fault));
      if (!options.skip_errors) return false;
    }
    at = stop + 1;
  }
  return true;
}

KeyText::KeyText(IdMapBuilder& ids, KeyTextOptions options)
    : ids_(ids), options_(std::move(options)), account_(options_.name, options_.lines_before, options_.skip_errors) {}

KeyEdges KeyText::feed(std::string_view block, bool last) {
  const auto parts = cut_lines(carry_.push(block, last), kChunk);
  parsed_.resize(std::max(parsed_.size(), parts.size()));
  parallel_for(parts.size(), 1, ids_.options().threads, [&](size_t first, size_t end, int) {
    for (size_t p = first; p < end; ++p) {
      ParsedKeys& parsed = parsed_[p];
      parsed.keys.clear();
      parsed.weights.clear();
      parsed.times.clear();
      parsed.unescaped.clear();
      parsed.lines = {};
      parse_keys(parts[p], options_, ids_.options().text, parsed);
    }
  });
  keys_.clear();
  KeyEdges edges;
  for (size_t p = 0; p < parts.size(); ++p) {
    const ParsedKeys& parsed = parsed_[p];
    account_.add(parsed.lines);
    keys_.insert(keys_.end(), parsed.keys.begin(), parsed.keys.end());
    edges.weights.insert(edges.weights.end(), parsed.weights.begin(), parsed.weights.end());
    edges.times.insert(edges.times.end(), parsed.times.begin(), parsed.times.end());
  }
  const size_t width = options_.dst < 0 ? 1 : 2;
  edges.src.resize(keys_.size() / width);
  if (width == 2) edges.dst.resize(edges.src.size());
  int64_t* const to[] = {edges.src.data(), edges.dst.data()};
  ids_.map(keys_, std::span(to).first(width));
  return edges;
}

}  // namespace gz
