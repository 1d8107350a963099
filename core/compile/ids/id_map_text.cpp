// id_map_text: chunks of lines are split and hashed in parallel, then mapped in the order of the text.
#include "compile/ids/id_map_text.h"

#include <algorithm>

#include "base/error.h"
#include "base/threads.h"
#include "compile/text/edge_text.h"
#include "compile/text/fields.h"
#include "compile/text/parse_real.h"

namespace gz {
namespace {

constexpr size_t kChunk = size_t{256} << 10;

// Words for missing values in exports of databases and DataFrames.
bool means_missing(std::string_view field) {
  if (field.size() > 4) return false;
  for (const std::string_view word : {"NULL", "null", "None", "NaN", "nan", "NA", "N/A"}) {
    if (field == word) return true;
  }
  return false;
}

class Parser {
 public:
  Parser(const KeyTextOptions& options, bool text_keys, ParsedKeys& out)
      : options_(options),
        text_keys_(text_keys),
        out_(out),
        fields_({options.delimiter, true, !text_keys}, out.unescaped),  // strings may start with a comment character
        values_(static_cast<size_t>(1 + std::max({options.src, options.dst, options.weight, options.time}))) {}

  // Empty if the line was accepted or has no fields; otherwise the error.
  std::string line(std::string_view line) {
    if (!fields_.start(line)) return {};
    size_t taken = 0;
    while (taken < values_.size() && fields_.next(values_[taken])) ++taken;
    std::string fault = fields_.end(taken, static_cast<size_t>(options_.width));
    if (!fault.empty()) return fault;
    Key keys[2];
    fault = key(options_.src, keys[0]);
    if (fault.empty() && options_.dst >= 0) fault = key(options_.dst, keys[1]);
    float weight = 0;
    int64_t time = 0;
    if (fault.empty() && options_.weight >= 0) fault = parse_weight(number(options_.weight), weight);
    if (fault.empty() && options_.time >= 0) fault = parse_time(number(options_.time), time);
    if (!fault.empty()) return fault;
    out_.keys.push_back(keys[0]);
    if (options_.dst >= 0) out_.keys.push_back(keys[1]);
    if (options_.weight >= 0) out_.weights.push_back(weight);
    if (options_.time >= 0) out_.times.push_back(time);
    return {};
  }

 private:
  std::string_view number(int column) const { return trimmed(values_[static_cast<size_t>(column)]); }

  std::string key(int column, Key& key) const {
    const std::string_view field = values_[static_cast<size_t>(column)];
    if (field.empty()) return text("column ", column, " is empty, expected a node id");
    if (text_keys_) {
      if (options_.refuse_missing && means_missing(field)) {
        return text("found ", shown(field), " in column ", column,
                    ", expected a node id; ids='text' accepts it as an id");
      }
      key = {hash_key(field), field.data(), field.size()};
      return {};
    }
    int64_t value = 0;
    if (!parse_whole(field, value)) {
      return text("found ", shown(field),
                  ", expected a 64-bit integer, as in the first lines; ids='text' accepts any id");
    }
    key = {hash_key(value), nullptr, static_cast<uint64_t>(value)};
    return {};
  }

  const KeyTextOptions& options_;
  const bool text_keys_;
  ParsedKeys& out_;
  Fields fields_;
  std::vector<std::string_view> values_;  // of a line, up to the last column that is read
};

}  // namespace

bool parse_keys(std::string_view text, const KeyTextOptions& options, bool text_keys, ParsedKeys& out) {
  Parser parser(options, text_keys, out);
  return for_each_line(text, options.skip_errors, out.lines, [&](std::string_view line) { return parser.line(line); });
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
