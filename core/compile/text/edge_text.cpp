// edge_text: a fast path for lines that are just "digits, digits", and a general path for all others.
#include "compile/text/edge_text.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "compile/text/fields.h"
#include "compile/text/parse_real.h"

namespace gz {
namespace {

constexpr size_t kShortestEdge = 4;          // "0 1\n"
constexpr double kNoFloat = 0x1.ffffffp127;  // larger doubles are infinite as float32
constexpr double kMostGuessed = 1ull << 24;  // larger integers are not exact as float32, and most likely times

uint64_t load8(const char* at) {
  uint64_t word;
  std::memcpy(&word, at, sizeof word);
  return word;
}

// The number formed by up to 8 digits at `at`, and their count. Eight bytes at a time without a loop: the branches of a
// digit loop would be mispredicted once per number (benchmarks/compile.py).
struct Digits {
  uint64_t value;
  unsigned count;
};
Digits read_word(const char* at) {
  const uint64_t word = load8(at) ^ 0x3030303030303030ull;  // digits become 0 to 9
  const uint64_t other = ((word + 0x0606060606060606ull) | word) & 0xf0f0f0f0f0f0f0f0ull;
  const unsigned count = static_cast<unsigned>(std::countr_zero(other)) / 8;  // 8 when all are digits
  if (count == 0) return {0, 0};
  uint64_t digits = word << (64 - 8 * count);  // with leading zeros
  digits = (digits * 10 + (digits >> 8)) & 0x00ff00ff00ff00ffull;
  digits = (digits * 100 + (digits >> 16)) & 0x0000ffff0000ffffull;
  digits = (digits * 10000 + (digits >> 32)) & 0xffffffffull;
  return {digits, count};
}

constexpr std::array<uint64_t, 9> kPowers{1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000};

// The same for 1 to 19 digits, which always fit 64 bits; none, or more, are left to the general path: count 0.
Digits read_digits(const char* at) {
  Digits all = read_word(at);
  if (all.count < 8) [[likely]]
    return all;
  for (int words = 1; words < 3; ++words) {
    const Digits more = read_word(at + all.count);
    all.value = all.value * kPowers[more.count] + more.value;
    all.count += more.count;
    if (more.count < 8) return all.count <= 19 ? all : Digits{0, 0};
  }
  return {0, 0};
}

class Parser {
 public:
  Parser(const EdgeTextOptions& options, const GraphOptions& graph, IdLimits limits, ChunkWriter& out,
         ChunkLines& lines)
      : options_(options),
        graph_(graph),
        base_(graph.id_base),
        limits_(limits),
        out_(out),
        lines_(lines),
        fields_({options.delimiter}, unescaped_),
        values_(static_cast<size_t>(1 + std::max({options.src, options.dst, options.weight, options.time}))) {
    if (options.guessed_weight) most_weight_ = kMostGuessed;
    plain_ = options.src == 0 && options.dst == 1 && options.time == -1 &&
             (options.weight == -1 || options.weight == 2) && options.width == (options.weight == 2 ? 3 : 2);
  }

  bool run(std::string_view text) {
    const char *at = text.data(), *end = at + text.size();
    while (at < end) {
      if (out_.full()) out_.flush();
      ++lines_.lines;
      if (plain_) {
        const char* next = options_.weight == 2 ? fast_line<true>(at, end) : fast_line<false>(at, end);
        if (next != nullptr) {
          at = next;
          continue;
        }
      }
      const void* newline = std::memchr(at, '\n', static_cast<size_t>(end - at));
      const char* stop = newline != nullptr ? static_cast<const char*>(newline) : end;
      std::string fault = careful_line({at, static_cast<size_t>(stop - at)});
      if (!fault.empty()) {
        lines_.add(lines_.lines, std::move(fault));
        if (!options_.skip_errors) return false;
      }
      at = stop + 1;
    }
    return true;
  }

 private:
  // The start of the next line, or null if this one needs the general path. Reads at most 24 bytes past a digit, which
  // the padding covers.
  template <bool kWeighted>
  const char* fast_line(const char* at, const char* end) {
    const Digits src = read_digits(at);
    if (src.count == 0) return nullptr;
    at += src.count;
    if (!separates(*at)) return nullptr;
    const Digits dst = read_digits(++at);
    if (dst.count == 0) return nullptr;
    at += dst.count;
    const uint64_t u = src.value - base_, v = dst.value - base_;  // an id below the base wraps past the limit
    if (u >= limits_.src || v >= limits_.dst) return nullptr;
    if constexpr (kWeighted) {
      if (at >= end || !separates(*at)) return nullptr;
      double weight = 0;
      const auto [stop, error] = parse_real(at + 1, end, weight);
      if (error != std::errc() || !(weight >= 0) || !(weight < most_weight_)) return nullptr;
      at = stop;
      out_.weights[out_.count] = static_cast<float>(weight);
    }
    if (at > end) return nullptr;
    if (at < end) {
      if (*at == '\r') ++at;
      if (at >= end || *at != '\n') return nullptr;
    }
    out_.src[out_.count] = u;
    out_.dst[out_.count++] = v;
    return at + 1;
  }

  bool separates(char c) const { return c == options_.delimiter || (options_.delimiter == ' ' && c == '\t'); }

  // Empty if the line was an edge, blank or a comment; otherwise the error.
  [[gnu::noinline]] std::string careful_line(
      std::string_view line) {  // inlining it would take registers from the fast path
    if (!unescaped_.empty()) unescaped_.clear();
    if (!fields_.start(line)) return {};
    size_t taken = 0;
    while (taken < values_.size() && fields_.next(values_[taken])) ++taken;
    std::string fault = fields_.end(taken, static_cast<size_t>(options_.width));
    uint64_t src = 0, dst = 0;
    if (fault.empty()) fault = parse_id(options_.src, src);
    if (fault.empty()) fault = parse_id(options_.dst, dst);
    if (fault.empty() && options_.weight >= 0) fault = careful_weight();
    if (fault.empty() && options_.time >= 0) fault = parse_time(value(options_.time), out_.times[out_.count]);
    if (!fault.empty()) return fault;
    out_.src[out_.count] = src;
    out_.dst[out_.count++] = dst;
    return {};
  }

  std::string_view value(int column) const { return trimmed(values_[static_cast<size_t>(column)]); }

  std::string parse_id(int column, uint64_t& id) const {
    const std::string_view field = value(column);
    uint64_t found = 0;
    const char* end = field.data() + field.size();
    const auto [stop, error] = std::from_chars(field.data(), end, found);
    if (stop == end && !field.empty() && error == std::errc::result_out_of_range) {
      return text("found ", shown(field), ", expected a node id below 2^62");
    }
    if (stop != end || error != std::errc()) {
      return text("found ", shown(field), ", expected an integer node id",
                  field.empty() || field.front() != '-' ? "" : ", 0 or more");
    }
    if (found < base_) return text("found id ", found, ", expected at least id_base = ", base_);
    id = found - base_;
    const bool src = column == options_.src;
    const uint64_t limit = src ? limits_.src : limits_.dst;
    if (id >= limit && graph_.declared(src)) {
      return text("found id ", found, ", expected below ", graph_.count_name(src), " = ", limit);
    }
    if (id >= limit) return text("found ", shown(field), ", expected a node id below 2^62");
    return {};
  }

  std::string careful_weight() {
    const std::string_view field = value(options_.weight);
    std::string fault = parse_weight(field, out_.weights[out_.count]);
    const bool whole = std::all_of(field.begin(), field.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (fault.empty() && options_.guessed_weight && whole && out_.weights[out_.count] >= kMostGuessed) {
      return text("found ", shown(field), " in column ", options_.weight,
                  ", which is too large for a float32 weight; pass times=", options_.weight,
                  " if it is a time, weights=", options_.weight, " to round it, or weights=False to ignore it");
    }
    return fault;
  }

  const EdgeTextOptions& options_;
  const GraphOptions& graph_;
  const uint64_t base_;
  const IdLimits limits_;
  ChunkWriter& out_;
  ChunkLines& lines_;
  bool plain_ = false;
  double most_weight_ = kNoFloat;  // larger weights need the general path
  std::deque<std::string> unescaped_;
  Fields fields_;
  std::vector<std::string_view> values_;  // of a line, up to the last column that is read
};

EdgeTextReport report_of(const LineAccount& account) {
  return {account.lines(), account.skipped(), account.examples()};
}

}  // namespace

std::string parse_weight(std::string_view field, float& weight) {
  double value = 0;
  const bool good = parse_whole(field, value);
  weight = static_cast<float>(value);
  if (good && value >= 0 && std::isfinite(weight)) return {};
  return text("found ", shown(field), ", expected a weight: a finite number, 0 or more");
}

std::string parse_time(std::string_view field, int64_t& time) {
  if (parse_whole(field, time) && time != INT64_MAX) return {};
  return text("found ", shown(field), ", expected a time: a 64-bit integer");
}

bool parse_edges(std::string_view text, const EdgeTextOptions& options, const GraphOptions& graph, IdLimits limits,
                 ChunkWriter& out, ChunkLines& lines) {
  return Parser(options, graph, limits, out, lines).run(text);
}

EdgeTextReport read_edge_file(GraphBuilder& builder, const std::string& path, const EdgeTextOptions& options) {
  const File file = File::open(path);
  const uint64_t size = file.size(), chunk_bytes = builder.text_chunk_bytes();
  const uint64_t bytes = size > options.begin ? size - options.begin : 0;
  const size_t chunks = static_cast<size_t>((bytes + chunk_bytes - 1) / chunk_bytes);
  std::vector<ChunkLines> lines(chunks);
  builder.ingest({chunks, static_cast<size_t>(chunk_bytes) / kShortestEdge + 1, chunk_bytes}, [&](size_t chunk,
                                                                                                  ChunkWriter& writer) {
    const uint64_t begin = options.begin + chunk * chunk_bytes;
    const auto text = writer.reader.read(file, options.begin, begin, std::min(begin + chunk_bytes, size));
    return parse_edges(text, options, builder.options(), builder.id_limits(), writer, lines[chunk]);
  });
  LineAccount account(options.name, options.lines_before, options.skip_errors);
  for (const ChunkLines& chunk : lines) account.add(chunk);
  return report_of(account);
}

EdgeTextStream::EdgeTextStream(GraphBuilder& builder, EdgeTextOptions options)
    : builder_(builder),
      options_(std::move(options)),
      account_(options_.name, options_.lines_before, options_.skip_errors),
      to_skip_(options_.begin) {}

void EdgeTextStream::parse(std::string_view whole_lines, uint64_t units) {
  const auto parts = cut_lines(whole_lines, builder_.text_chunk_bytes());
  std::vector<ChunkLines> lines(parts.size());
  size_t longest = 0;
  for (const auto& part : parts) longest = std::max(longest, part.size());
  if (parts.empty()) return;
  builder_.ingest(
      {parts.size(), longest / kShortestEdge + 1, units / parts.size()}, [&](size_t chunk, ChunkWriter& writer) {
        return parse_edges(parts[chunk], options_, builder_.options(), builder_.id_limits(), writer, lines[chunk]);
      });
  for (const ChunkLines& chunk : lines) account_.add(chunk);
}

void EdgeTextStream::feed(std::string_view block, uint64_t units) {
  const size_t skip = static_cast<size_t>(std::min<uint64_t>(to_skip_, block.size()));
  to_skip_ -= skip;
  block.remove_prefix(skip);
  parse(carry_.push(block, false), units);
}

EdgeTextReport EdgeTextStream::finish() {
  parse(carry_.push({}, true), 0);
  return report_of(account_);
}

}  // namespace gz
