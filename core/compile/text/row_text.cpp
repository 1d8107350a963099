// row_text: chunks in parallel; the rows of a chunk are written as runs of consecutive ids.
#include "compile/text/row_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>

#include "base/error.h"
#include "base/threads.h"
#include "compile/text/fields.h"
#include "compile/text/parse_real.h"

namespace gz {
namespace {

constexpr size_t kBatchBytes = size_t{1} << 20;  // rows that a worker collects before it writes them

template <class T>
bool parse_to(std::string_view field, std::byte* to) {
  T value{};
  const bool good = parse_whole(field, value);
  std::memcpy(to, &value, sizeof value);
  return good;
}

}  // namespace

struct RowText::Worker {
  explicit Worker(FieldRules rules) : fields(rules, unescaped) {}
  ChunkReader reader;
  std::deque<std::string> unescaped;
  Fields fields;
  std::vector<uint64_t> ids;
  std::vector<std::byte> rows, sorted;
  std::vector<uint32_t> order;
  uint64_t count = 0, num_nodes = 0;
};

RowText::RowText(RowTextOptions options, Progress* progress)
    : options_(std::move(options)),
      progress_(progress),
      account_(options_.name, options_.lines_before, options_.skip_errors),
      to_skip_(options_.begin) {
  for (int i = 0; i < options_.threads; ++i)
    workers_.push_back(std::make_unique<Worker>(FieldRules{options_.delimiter}));
}

RowText::RowText(RowTextOptions options, ContainerWriter& writer, size_t index, Progress* progress)
    : RowText(std::move(options), progress) {
  const ArrayInfo& array = writer.container().arrays.at(index);
  writer_ = &writer;
  index_ = index;
  dtype_ = array.dtype;
  row_bytes_ = static_cast<size_t>(array.row_bytes());
  options_.columns = array.columns();
  options_.id_limit = std::min(options_.id_limit, array.rows());
  seen_ = std::make_unique<std::atomic<uint64_t>[]>(static_cast<size_t>(array.rows() / 64 + 1));
}

RowText::~RowText() = default;

std::string RowText::parse_value(std::string_view field, std::byte* to) const {
  bool good = false;
  switch (dtype_) {
    case DType::kFloat64:
      good = parse_to<double>(field, to);
      break;
    case DType::kFloat32:
      good = parse_to<float>(field, to);
      break;
    case DType::kInt64:
      good = parse_to<int64_t>(field, to);
      break;
    case DType::kInt32:
      good = parse_to<int32_t>(field, to);
      break;
    case DType::kInt16:
      good = parse_to<int16_t>(field, to);
      break;
    case DType::kInt8:
      good = parse_to<int8_t>(field, to);
      break;
    case DType::kUInt8:
      good = parse_to<uint8_t>(field, to);
      break;
    case DType::kBool:
      good = parse_to<uint8_t>(field, to) && static_cast<uint8_t>(*to) <= 1;
      break;
    default:
      fail<ArgumentError>("text cannot be parsed as ", dtype_name(dtype_));
  }
  return good ? std::string() : text("found ", shown(field), ", expected a value of type ", dtype_name(dtype_));
}

// Empty if the line was a row, blank or a comment; otherwise the error.
std::string RowText::parse_line(std::string_view line, Worker& worker) {
  Fields& fields = worker.fields;
  if (!worker.unescaped.empty()) worker.unescaped.clear();
  std::string_view field;
  if (!fields.start(line) || !fields.next(field)) return fields.fault();
  field = trimmed(field);
  uint64_t id = 0;
  if (!parse_whole(field, id) || id < options_.id_base) {
    if (options_.find) return {};
    return text("found ", shown(field), ", expected an integer node id",
                options_.id_base > 0 ? " of at least id_base" : "");
  }
  if (options_.find) return id == *options_.find ? text("a row for id ", id) : std::string();
  id -= options_.id_base;
  if (id >= options_.id_limit) return text("found id ", id + options_.id_base, ", expected below ", options_.id_limit);
  worker.num_nodes = std::max(worker.num_nodes, id + 1);
  if (writer_ == nullptr) return {};

  const size_t at = worker.rows.size();
  worker.rows.resize(at + row_bytes_);
  size_t column = 0;
  std::string fault;
  for (; column < options_.columns && fault.empty() && fields.next(field); ++column) {
    fault = parse_value(trimmed(field), worker.rows.data() + at + column * dtype_bytes(dtype_));
  }
  if (fault.empty()) fault = fields.end(column + 1, options_.columns + 1);
  if (!fault.empty()) {
    worker.rows.resize(at);
    return fault;
  }
  worker.ids.push_back(id);
  ++worker.count;
  const uint64_t bit = uint64_t{1} << (id % 64);
  if ((seen_[id / 64].fetch_or(bit) & bit) != 0) {
    uint64_t smallest = duplicate_.load();
    while (id < smallest && !duplicate_.compare_exchange_weak(smallest, id)) {
    }
  }
  return {};
}

void RowText::parse(std::string_view text, ChunkLines& lines, Worker& worker) {
  const bool good = for_each_line(text, options_.skip_errors, lines, [&](std::string_view line) {
    std::string fault = parse_line(line, worker);
    if (fault.empty() && worker.rows.size() >= kBatchBytes) write_rows(worker);
    return fault;
  });
  if (good) write_rows(worker);
}

// Most files are sorted by id: then this is one write.
void RowText::write_rows(Worker& worker) {
  auto& ids = worker.ids;
  if (ids.empty()) return;
  const std::vector<std::byte>* rows = &worker.rows;
  if (!std::is_sorted(ids.begin(), ids.end())) {
    worker.order.resize(ids.size());
    std::iota(worker.order.begin(), worker.order.end(), 0u);
    std::sort(worker.order.begin(), worker.order.end(), [&](uint32_t a, uint32_t b) { return ids[a] < ids[b]; });
    worker.sorted.resize(worker.rows.size());
    for (size_t i = 0; i < ids.size(); ++i) {
      std::memcpy(worker.sorted.data() + i * row_bytes_, worker.rows.data() + worker.order[i] * row_bytes_, row_bytes_);
    }
    std::sort(ids.begin(), ids.end());
    rows = &worker.sorted;
  }
  for (size_t begin = 0; begin < ids.size();) {
    size_t end = begin + 1;
    while (end < ids.size() && ids[end] == ids[end - 1] + 1) ++end;
    writer_->write_scattered(index_, ids[begin] * row_bytes_,
                             {rows->data() + begin * row_bytes_, (end - begin) * row_bytes_});
    begin = end;
  }
  ids.clear();
  worker.rows.clear();
}

void RowText::take(size_t chunks, const std::function<std::string_view(size_t, ChunkReader&)>& text_of,
                   uint64_t units) {
  std::vector<ChunkLines> lines(chunks);
  std::atomic<size_t> next{0}, done{0};
  std::atomic<bool> stop{false};
  parallel_for(workers_.size(), 1, options_.threads, [&](size_t, size_t, int worker) {
    Worker& own = *workers_[static_cast<size_t>(worker)];
    while (!stop) {
      const size_t chunk = next++;  // in order, so that chunks before a bad one are finished
      if (chunk >= chunks) return;
      parse(text_of(chunk, own.reader), lines[chunk], own);
      if (!options_.skip_errors && !lines[chunk].bad.empty()) stop = true;
      ++done;
      if (worker == 0 && progress_ != nullptr) {
        progress_->report(writer_ == nullptr ? "scanning" : "reading", units_done_ + done * units, units_total_);
      }
    }
  });
  units_done_ += done * units;
  for (const ChunkLines& chunk : lines) account_.add(chunk);
}

void RowText::read_file(const std::string& path) {
  const File file = File::open(path);
  const uint64_t size = file.size(), begin = std::min(options_.begin, size);
  units_total_ = size;
  const uint64_t step = options_.chunk_bytes;
  take(
      static_cast<size_t>((size - begin + step - 1) / step),
      [&](size_t chunk, ChunkReader& reader) {
        const uint64_t at = begin + chunk * step;
        return reader.read(file, begin, at, std::min(at + step, size));
      },
      step);
}

void RowText::feed(std::string_view block) {
  const size_t skip = static_cast<size_t>(std::min<uint64_t>(to_skip_, block.size()));
  to_skip_ -= skip;
  block.remove_prefix(skip);
  const auto parts = cut_lines(carry_.push(block, false), options_.chunk_bytes);
  take(parts.size(), [&](size_t chunk, ChunkReader&) { return parts[chunk]; }, options_.chunk_bytes);
}

RowTextReport RowText::finish() {
  const auto rest = carry_.push({}, true);
  if (!rest.empty()) take(1, [&](size_t, ChunkReader&) { return rest; }, rest.size());
  RowTextReport report;
  report.lines = account_.lines();
  report.skipped = account_.skipped();
  report.examples = account_.examples();
  if (duplicate_ != UINT64_MAX) report.duplicate = duplicate_ + options_.id_base;
  for (const auto& worker : workers_) {
    report.rows += worker->count;
    report.num_nodes = std::max(report.num_nodes, worker->num_nodes);
  }
  return report;
}

}  // namespace gz
